/* SPDX-License-Identifier: MIT */
/*
 * x.json: what somebody needs to make the same rows again, and what `merge` needs to know that
 * shards belong together. Threads and batch size are left out of the settings, for they don't
 * change a bit of the result.
 */
#include "base/crc.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "embed/flow.h"
#include "embed/provenance.h"
#include "nn/gemm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JSON_BYTES_MAX ((size_t)64 << 20)

/*
 * The MD5 of weights is taken through the map in use, so it is theirs even if the file has been
 * replaced since.
 */
json_t *kmf_json_with_files(json_t *json, const kmf_method_file *files, kmf_digests *begun,
                            kmf_err *err)
{
    char md5[KMF_MD5_TEXT];
    for (size_t i = 0; json && i < KMF_METHOD_FILES && files[i].key; i++) {
        int status =
            begun ? kmf_digests_wait(begun, i, md5, err)
                  : kmf_md5_files(md5, files[i].maps, files[i].n, files[i].keep, NULL, err);
        json = kmf_json_with(json, files[i].key, status < 0 ? NULL : json_string(md5));
    }
    if (!json)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    return json;
}

json_t *kmf_model_json(const kmf_embedder *e, kmf_err *err)
{
    json_t *json = json_pack("{s:o}", "name", kmf_json_of_text(kmf_embedder_name(e)));
    return kmf_json_with_files(json, e->method->files, e->digests, err);
}

uint32_t kmf_record_checksum(uint32_t sum, const char *name, const char *seq, size_t len)
{
    const uint64_t length = len;
    sum = kmf_crc32(sum, name, strlen(name));
    sum = kmf_crc32(sum, &length, sizeof length);
    return kmf_crc32(sum, seq, len);
}

json_t *kmf_settings_json(const kmf_embedder *e)
{
    kmf_embed_options o;
    kmf_embedder_options(e, &o);
    json_t *json = json_pack("{s:s, s:s, s:s, s:b}", "strand", kmf_strand_names[o.strand],
                             "norm", kmf_norm_names[o.norm], "ambiguous",
                             kmf_ambiguous_names[o.ambiguous], "strict", o.strict);
    json_t *more = e->method->kind->settings(e->method, &o);
    if (!json || !more || json_object_update(json, more) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(more);
    return json;
}

static const struct {
    const char *key;
    size_t at; /* of a uint64_t */
} counts[] = {{"records", offsetof(kmf_embed_stats, records)},
              {"bases", offsetof(kmf_embed_stats, bases)},
              {"tokens", offsetof(kmf_embed_stats, tokens)},
              {"ambiguous", offsetof(kmf_embed_stats, ambiguous)},
              {"unknown", offsetof(kmf_embed_stats, unknown)},
              {"chunked", offsetof(kmf_embed_stats, chunked)},
              {"truncated", offsetof(kmf_embed_stats, truncated)},
              {"empty", offsetof(kmf_embed_stats, empty)}};
#define N_COUNTS (sizeof counts / sizeof counts[0])

json_t *kmf_statistics_json(const kmf_embed_stats *stats)
{
    json_t *json = json_object();
    for (size_t i = 0; i < N_COUNTS; i++) {
        uint64_t count;
        memcpy(&count, (const char *)stats + counts[i].at, sizeof count);
        json = kmf_json_with(json, counts[i].key, json_integer((json_int_t)count));
    }
    return json;
}

int kmf_statistics_read(kmf_embed_stats *stats, const json_t *json, const char *where,
                        kmf_err *err)
{
    for (size_t i = 0; i < N_COUNTS; i++) {
        uint64_t count;
        if (kmf_json_count(&count, json, counts[i].key, INT64_MAX, where, err) < 0)
            return KMF_EMODEL;
        memcpy((char *)stats + counts[i].at, &count, sizeof count);
    }
    return 0;
}

json_t *kmf_records_json(uint64_t records, uint32_t sum)
{
    return json_pack("{s:I, s:I}", "records", (json_int_t)records, KMF_RECORDS_CHECKSUM,
                     (json_int_t)sum);
}

int kmf_records_read(uint64_t *records, uint32_t *sum, const json_t *json, const char *where,
                     kmf_err *err)
{
    uint64_t number = 0;
    int status = kmf_json_count(records, json, "records", INT64_MAX, where, err);
    if (status == 0)
        status = kmf_json_count(&number, json, KMF_RECORDS_CHECKSUM, UINT32_MAX, where, err);
    if (status < 0)
        return status;
    *sum = (uint32_t)number;
    return *records > 0 ? 0
                        : kmf_fail(err, KMF_EMODEL, "%s: its mark tells of no records", where);
}

static json_t *list_json(const char *const *texts, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, kmf_json_of_text(texts[i])) < 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

/* json with `key`: text, if there is one. */
static json_t *with_text(json_t *json, const char *key, const char *text)
{
    return text ? kmf_json_with(json, key, kmf_json_of_text(text)) : json;
}

json_t *kmf_output_json(const char *path)
{
    const char *slash = strrchr(path, '/');
    return kmf_json_of_text(slash ? slash + 1 : path);
}

json_t *kmf_provenance_read(const char *path, const char *name, bool array, kmf_err *err)
{
    size_t len;
    char *text = kmf_file_read(name, JSON_BYTES_MAX, &len, err);
    json_t *json = text ? kmf_json_parse(text, len, name, err) : NULL;
    const char *output = json_string_value(json_object_get(json, "output"));
    kmf_free(text);
    if (output && kmf_ends_with(output, ".npy") != array) {
        char shown[KMF_ERR_SHOW];
        kmf_fail(err, KMF_EMODEL,
                 "%s: it is that of %s, which was written later than %s: make that anew", name,
                 kmf_err_show(shown, output), path);
        json_decref(json);
        json = NULL;
    }
    return json;
}

int kmf_provenance_check_columns(const json_t *json, const char *name, const char *path,
                                 size_t columns, kmf_err *err)
{
    const json_t *told = json_object_get(json, "columns");
    if (!json_is_integer(told) || json_integer_value(told) == (json_int_t)columns)
        return 0;
    return kmf_fail(err, KMF_EMODEL,
                    "%s: it is of %lld columns, and %s has %zu: make that anew", name,
                    (long long)json_integer_value(told), path, columns);
}

int kmf_provenance_beside(json_t **json, const char *path, size_t columns, kmf_err *err)
{
    *json = NULL;
    char *name = kmf_companion(path, ".json", err);
    if (!name)
        return KMF_ENOMEM;
    err = kmf_err_or(err, &(kmf_err){0});
    bool there = access(name, F_OK) == 0;
    *json = there ? kmf_provenance_read(path, name, true, err) : NULL;
    int status = *json ? 1 : there ? (int)err->code : 0;
    if (*json && kmf_provenance_check_columns(*json, name, path, columns, err) < 0) {
        json_decref(*json);
        *json = NULL;
        status = KMF_EMODEL;
    }
    kmf_free(name);
    return status;
}

static json_t *with_model(json_t *json, const kmf_embedder *embedder, kmf_err *err)
{
    json = kmf_json_with(json, "model", kmf_model_json(embedder, err));
    return kmf_json_with(json, "settings", kmf_settings_json(embedder));
}

static json_t *with_shard(json_t *json, const kmf_embedder *embedder)
{
    kmf_embed_options o;
    kmf_embedder_options(embedder, &o);
    json = kmf_json_with(
        json, "shard",
        json_pack("{s:I, s:I}", "index", (json_int_t)o.shard, "count", (json_int_t)o.n_shards));
    return kmf_json_with(json, "products", json_string(kmf_gemm_name()));
}

json_t *kmf_json_with_embedder(json_t *json, const kmf_embedder *embedder, kmf_err *err)
{
    return with_shard(with_model(json, embedder, err), embedder);
}

json_t *kmf_json_with_inputs(json_t *json, const char *const *inputs, size_t n_inputs,
                             size_t columns)
{
    json = kmf_json_with(json, "inputs", list_json(inputs, n_inputs));
    return kmf_json_with(json, "columns", json_integer((json_int_t)columns));
}

json_t *kmf_json_with_regions(json_t *json, const kmf_reader_options *reader)
{
    if (!reader)
        return json;
    json = with_text(json, "regions", reader->regions);
    json = with_text(json, "bed", reader->bed);
    json = with_text(json, "names", reader->bed_names ? "of the BED file" : NULL);
    if (reader->input_names)
        json = kmf_json_with(json, "input_names", json_true());
    if (reader->tile == 0)
        return json;
    size_t step = reader->tile_step > 0 ? reader->tile_step : reader->tile;
    json = kmf_json_with(json, "tile", json_integer((json_int_t)reader->tile));
    return kmf_json_with(json, "tile_step", json_integer((json_int_t)step));
}

char *kmf_provenance(const kmf_embedder *embedder, const char *output, const char *command_line,
                     const char *const *inputs, size_t n_inputs,
                     const kmf_reader_options *reader, kmf_err *err)
{
    kmf_embed_options o;
    kmf_embed_stats stats;
    char *text = NULL;
    kmf_embedder_options(embedder, &o);
    kmf_embedder_statistics(embedder, &stats);
    json_t *json = json_pack("{s:s, s:s, s:o}", "program", "kmerformer", "version",
                             kmf_version(), "output", kmf_output_json(output));
    json = with_text(json, "command", command_line);
    json = with_model(json, embedder, err);
    json = kmf_json_with_inputs(json, inputs, n_inputs, kmf_embedder_dim(embedder));
    json = with_shard(json, embedder);
    json = kmf_json_with(json, "statistics", kmf_statistics_json(&stats));
    if (o.n_shards > 1) {
        char sum[16];
        snprintf(sum, sizeof sum, "%08" PRIx32, embedder->seen_sum);
        json = with_text(json, KMF_RECORDS_CHECKSUM, sum);
    }
    json = kmf_json_with_regions(json, reader);
    if (!json) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
        return NULL;
    }
    text = kmf_json_text(json, JSON_INDENT(2), err);
    json_decref(json);
    return text;
}
