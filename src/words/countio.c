/* SPDX-License-Identifier: MIT */
/*
 * Tables of counts from files and to files.
 *
 * A binary file is mapped if it can be. What cannot be mapped (standard input, a pipe, a gzip
 * file) is a stream; it is a binary table if its first bytes say so, and is then taken into
 * memory as a whole; else it is text, and taken in line by line.
 *
 * Whatever the format, a reader ends by comparing what the table comes to with what the header
 * says of it, so that a file which lost its end, or a line, does not pass.
 */
#include "words/countfile.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/path.h"
#include "seq/bytes.h"
#include "seq/par.h"
#include "seq/text.h"
#include "words/alphabet.h"
#include "words/kmer.h"
#include "words/vocab.h"

#include <inttypes.h>
#include <string.h>

#define LINES_MAX ((double)(UINT64_C(1) << 32)) /* of a full listing */

const char *const kmf_counts_format_names[] = {"tsv", "vocab", "dnabert", "binary", NULL};

/* ---------------------------------------------------------------- what a file says ------- */

const char *const kmf_counts_info_names[KMF_N_INFO] = {
    "alphabet", "k",     "canonical", "stride",   "inputs",    "records",
    "letters",  "kmers", "ambiguous", "distinct", "min_count", "max_size"};

void kmf_counts_info_get(uint64_t values[KMF_N_INFO], const kmf_counts_info *info)
{
    values[KMF_INFO_ALPHABET] = (uint64_t)info->alphabet;
    values[KMF_INFO_K] = (uint64_t)info->k;
    values[KMF_INFO_CANONICAL] = (uint64_t)info->canonical;
    values[KMF_INFO_STRIDE] = info->stride;
    values[KMF_INFO_INPUTS] = info->inputs;
    values[KMF_INFO_RECORDS] = info->records;
    values[KMF_INFO_LETTERS] = info->letters;
    values[KMF_INFO_KMERS] = info->kmers;
    values[KMF_INFO_AMBIGUOUS] = info->ambiguous;
    values[KMF_INFO_DISTINCT] = info->distinct;
    values[KMF_INFO_MIN_COUNT] = info->min_count;
    values[KMF_INFO_MAX_SIZE] = info->max_size;
}

static int out_of_range(const char *name, int field, uint64_t value, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "%s: %s is %" PRIu64 ", which no table of counts has",
                    name, kmf_counts_info_names[field], value);
}

int kmf_counts_info_set(kmf_counts_info *info, const uint64_t values[KMF_N_INFO],
                        const char *name, kmf_err *err)
{
    uint64_t alphabet = values[KMF_INFO_ALPHABET];
    uint64_t k = values[KMF_INFO_K];
    if (alphabet >= KMF_N_ALPHABETS)
        return out_of_range(name, KMF_INFO_ALPHABET, alphabet, err);
    const kmf_alphabet_row *row = kmf_alphabet_of((kmf_alphabet)alphabet);
    if (k < 1 || k > (uint64_t)row->k_max)
        return kmf_fail(err, KMF_EMODEL, "%s: k is %" PRIu64 "; for %s it is 1 to %d", name, k,
                        kmf_alphabet_names[alphabet], row->k_max);
    *info = (kmf_counts_info){.alphabet = (kmf_alphabet)alphabet,
                              .k = (int)k,
                              .canonical = values[KMF_INFO_CANONICAL] != 0,
                              .stride = values[KMF_INFO_STRIDE],
                              .inputs = values[KMF_INFO_INPUTS],
                              .records = values[KMF_INFO_RECORDS],
                              .letters = values[KMF_INFO_LETTERS],
                              .kmers = values[KMF_INFO_KMERS],
                              .ambiguous = values[KMF_INFO_AMBIGUOUS],
                              .distinct = values[KMF_INFO_DISTINCT],
                              .min_count = values[KMF_INFO_MIN_COUNT],
                              .max_size = values[KMF_INFO_MAX_SIZE]};
    if (values[KMF_INFO_CANONICAL] > 1 || (info->canonical && !row->complement))
        return out_of_range(name, KMF_INFO_CANONICAL, values[KMF_INFO_CANONICAL], err);
    if (info->stride < 1 || info->stride > KMF_STRIDE_MAX)
        return out_of_range(name, KMF_INFO_STRIDE, info->stride, err);
    if (info->min_count < 1)
        return out_of_range(name, KMF_INFO_MIN_COUNT, info->min_count, err);
    if (info->distinct > info->kmers || (double)info->distinct > kmf_counts_possible(info) ||
        (info->max_size > 0 && info->distinct > info->max_size))
        return out_of_range(name, KMF_INFO_DISTINCT, info->distinct, err);
    return 0;
}

int kmf_counts_info_check(const kmf_counts_info *info, const kmf_block_tally *tally,
                          const char *name, kmf_err *err)
{
    bool whole = info->min_count == 1 && info->max_size == 0;
    if (tally->distinct != info->distinct)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: damaged: %" PRIu64 " k-mers where its header says %" PRIu64, name,
                        tally->distinct, info->distinct);
    if (tally->sum > info->kmers || (whole && tally->sum < info->kmers))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: damaged: the counts come to %" PRIu64
                        " where its header says %" PRIu64,
                        name, tally->sum, info->kmers);
    if (tally->distinct > 0 && tally->smallest < info->min_count)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: damaged: a count of %" PRIu64
                        " where its header says that none is below %" PRIu64,
                        name, tally->smallest, info->min_count);
    return 0;
}

/* ---------------------------------------------------------------- loading ---------------- */

/* Takes over buffer. */
static kmf_counts *from_buffer(unsigned char *buffer, size_t len, const char *name,
                               kmf_err *err)
{
    kmf_counts *counts = kmf_countfile_read(buffer, len, name, err);
    if (counts)
        counts->buffer = buffer;
    else
        kmf_free(buffer);
    return counts;
}

kmf_counts *kmf_counts_parse(const void *bytes, size_t len, const char *name, kmf_err *err)
{
    kmf_counts *counts = NULL;
    if (kmf_countfile_begins(bytes, len)) {
        unsigned char *copy = kmf_malloc(len, 1, err);
        if (!copy)
            return NULL;
        memcpy(copy, bytes, len);
        return from_buffer(copy, len, name, err);
    }
    kmf_counttext *text = kmf_counttext_new(name, err);
    if (text && kmf_counttext_add(text, bytes, len, err) == 0)
        counts = kmf_counttext_finish(text, err);
    kmf_counttext_free(text);
    return counts;
}

/* As kmf_bytes_next, with the file's name; a damaged file is one that does not fit. */
static int next_bytes(kmf_bytes *from, const char **block, size_t *len, const char *name,
                      kmf_err *err)
{
    kmf_err cause = {0};
    int status = kmf_bytes_next(from, block, len, &cause);
    if (status >= 0)
        return status;
    return kmf_fail(err, status == KMF_EFORMAT ? KMF_EMODEL : cause.code, "%s: %s", name,
                    cause.msg);
}

static kmf_counts *binary_of(kmf_bytes *from, const char *block, size_t n, const char *name,
                             kmf_err *err)
{
    kmf_text all = {0};
    int status = 1;
    while (status > 0) {
        status = kmf_text_append(&all, block, n, err);
        if (status == 0)
            status = next_bytes(from, &block, &n, name, err);
    }
    if (status == 0)
        return from_buffer((unsigned char *)all.bytes, all.len, name, err);
    kmf_free(all.bytes);
    return NULL;
}

static kmf_counts *text_of(kmf_bytes *from, const char *block, size_t n, const char *name,
                           kmf_err *err)
{
    kmf_counts *counts = NULL;
    int status = 1;
    kmf_counttext *text = kmf_counttext_new(name, err);
    while (text && status > 0) {
        status = kmf_counttext_add(text, block, n, err);
        if (status == 0)
            status = next_bytes(from, &block, &n, name, err);
    }
    if (text && status == 0)
        counts = kmf_counttext_finish(text, err);
    kmf_counttext_free(text);
    return counts;
}

static kmf_counts *load_stream(const char *path, kmf_err *err)
{
    const char *name = kmf_input_name(path);
    const char *block = "";
    size_t n = 0;
    kmf_counts *counts = NULL;
    kmf_bytes *bytes = kmf_bytes_open_path(path, err);
    if (!bytes)
        return NULL;
    int status = next_bytes(bytes, &block, &n, name, err);
    if (status == 0)
        kmf_fail(err, KMF_EMODEL, "%s: an empty file", name);
    else if (status > 0 && kmf_countfile_begins(block, n))
        counts = binary_of(bytes, block, n, name, err);
    else if (status > 0)
        counts = text_of(bytes, block, n, name, err);
    kmf_bytes_close(bytes);
    return counts;
}

static kmf_counts *load(const char *path, kmf_err *err)
{
    kmf_map map;
    if (strcmp(path, "-") == 0 || kmf_path_is_special(path))
        return load_stream(path, err);
    if (kmf_map_open(&map, path, err) < 0)
        return NULL;
    if (!kmf_countfile_begins(map.bytes, map.len)) {
        kmf_map_close(&map);
        return load_stream(path, err);
    }
    kmf_counts *counts = kmf_countfile_read(map.bytes, map.len, path, err);
    if (counts)
        counts->map = map;
    else
        kmf_map_close(&map);
    return counts;
}

kmf_counts *kmf_counts_load(const char *path, kmf_err *err)
{
    kmf_counts *counts = load(path, err);
    if (counts && !(counts->name = kmf_strdup(kmf_input_name(path), err))) {
        kmf_counts_free(counts);
        return NULL;
    }
    return counts;
}

/* ---------------------------------------------------------------- saving ----------------- */

static bool is_vocabulary(kmf_counts_format format)
{
    return format == KMF_COUNTS_VOCAB || format == KMF_COUNTS_DNABERT;
}

int kmf_counts_check_format(const kmf_counts_info *info, kmf_counts_format format, int full,
                            kmf_err *err)
{
    double possible = kmf_counts_possible(info);
    if ((unsigned)format > KMF_COUNTS_BINARY)
        return kmf_fail(err, KMF_EINVAL, "there is no format number %d", (int)format);
    if (is_vocabulary(format) && info->k > KMF_VOCAB_K_MAX)
        return kmf_fail(err, KMF_EINVAL,
                        "the words of a vocabulary have at most %d letters, not %d",
                        KMF_VOCAB_K_MAX, info->k);
    if (format == KMF_COUNTS_DNABERT && info->alphabet != KMF_DNA)
        return kmf_fail(err, KMF_EINVAL, "that is an order of DNA, not of %s",
                        kmf_alphabet_names[info->alphabet]);
    if (full && format != KMF_COUNTS_BINARY && possible > LINES_MAX) /* a count has a digit */
        return kmf_fail(err, KMF_EINVAL,
                        "%.4g k-mers of %d letters would take %.0f bytes or more; at most 2^32 "
                        "are listed",
                        possible, info->k, possible * (info->k + 3));
    return 0;
}

int kmf_table_check_path(const char *path, bool beside, kmf_err *err)
{
    if (path[0] == '\0')
        return kmf_fail(err, KMF_EINVAL, "the output has an empty name");
    if (beside && kmf_ends_with(path, ".json"))
        return kmf_fail(err, KMF_EINVAL, "%s: the name is taken by the output's companion",
                        path);
    return 0;
}

static kmf_out *write_json(const char *path, const char *provenance, kmf_err *err)
{
    char *name = kmf_companion(path, ".json", err);
    kmf_out *json = name ? kmf_out_open(name, err) : NULL;
    kmf_free(name);
    if (json && (kmf_out_write(json, provenance, strlen(provenance), err) < 0 ||
                 kmf_out_write(json, "\n", 1, err) < 0 || kmf_out_finish(json, err) < 0)) {
        kmf_out_free(json);
        return NULL;
    }
    return json;
}

int kmf_table_publish(kmf_out *table, const char *path, const char *provenance, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_out *json = NULL;
    int status = kmf_out_finish(table, err);
    if (status == 0 && provenance)
        status = kmf_json_check(provenance, err);
    if (status == 0 && provenance) {
        json = write_json(path, provenance, err);
        status = json ? 0 : (int)err->code;
    }
    kmf_out *files[] = {json, table};
    if (status == 0)
        status = kmf_out_publish_all(json ? files : files + 1, json ? 2 : 1, err);
    kmf_out_free(table);
    kmf_out_free(json);
    return status < 0 ? (int)err->code : 0;
}

int kmf_counts_save(const kmf_counts *counts, const char *path, kmf_counts_format format,
                    int full, kmf_pool *pool, const char *provenance, kmf_err *err)
{
    bool beside = provenance && (format == KMF_COUNTS_TSV || format == KMF_COUNTS_BINARY) &&
                  kmf_out_is_file(path);
    int status = kmf_table_check_path(path, beside, err);
    if (status == 0)
        status = kmf_counts_check_format(&counts->info, format, full, err);
    if (status == 0 && is_vocabulary(format) && !full && counts->info.distinct == 0)
        status = kmf_fail(err, KMF_EINVAL, "a vocabulary cannot be made of no k-mers");
    if (status < 0)
        return status;
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_out *table = kmf_out_open(path, err);
    if (table)
        kmf_out_quickly(table);
    if (table && pool)
        kmf_out_share(table, kmf_pool_handle(pool), kmf_pool_threads(pool), true);
    if (table)
        status = format == KMF_COUNTS_BINARY
                     ? kmf_countfile_write(counts, table, err)
                     : kmf_counttext_write(counts, table, format, full, pool, err);
    if (table && status == 0)
        return kmf_table_publish(table, path, beside ? provenance : NULL, err);
    kmf_out_free(table);
    return (int)err->code;
}
