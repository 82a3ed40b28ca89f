/* SPDX-License-Identifier: MIT */
/*
 * An output whose run goes on in another process. Its checkpoint is a JSON object:
 *
 *   {"program": "kmerformer", "checkpoint": "embed",      the kind of the run
 *    "run": {"version", "inputs", "model", ...},          has to be the same
 *    "mark": {"records", "records_checksum", ...},        what is done, and of what
 *    "rows", "files": [{"suffix", "bytes"}, ...]}         where it is
 *
 * The rows are in the output's own files, which keep their temporary names, x.npy and a suffix,
 * until it is gone. All that lies in them behind the bytes told here is made again, so they may be
 * written to at once when the checkpoint is there. What a run goes over once more, and what it
 * passes over, is its own to know.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/path.h"
#include "embed/output.h"
#include "embed/provenance.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define CHECKPOINT_MOST ((size_t)64 << 20)
#define SUFFIX_BEGINS ".tmp."

static int out_of_memory(kmf_err *err)
{
    return kmf_fail(err, KMF_ENOMEM, "out of memory: no checkpoint could be made");
}

/* The object in a text of the run's, which is freed. */
static json_t *take_text(char *text, const char *where, kmf_err *err)
{
    json_t *json = kmf_json_parse(text, strlen(text), where, err);
    kmf_free(text);
    return json;
}

/* What has to be the same. */
static json_t *describe_run(const kmf_run *run, const kmf_output_form *form,
                            const char *const *inputs, size_t n_inputs,
                            const kmf_reader_options *reader, kmf_err *err)
{
    char *text;
    err = kmf_err_or(err, &(kmf_err){0});
    if (kmf_told(run->describe(run->user, &text, err), "the run could not be described", err) <
        0)
        return NULL;
    json_t *own = take_text(text, run->kind, err);
    json_t *json = json_pack("{s:s, s:b}", "version", kmf_version(), "float16", form->f16);
    if (form->format)
        json = kmf_json_with(json, "rows", kmf_json_of_text(form->format->name));
    if (!own || !json || json_object_update(json, own) < 0) {
        json_decref(json);
        json = NULL;
    }
    json_decref(own);
    json = kmf_json_with_inputs(json, inputs, n_inputs, form->dim);
    json = kmf_json_with_regions(json, reader);
    if (!json)
        out_of_memory(err);
    return json;
}

/* ---------------------------------------------------------------- writing --------------- */

/* Of each file what its temporary name adds to its own, and its bytes. */
static json_t *describe_files(const kmf_output *output, const kmf_output_place *place)
{
    json_t *files = json_array();
    for (int i = 0; i < kmf_output_n_files(kmf_output_form_of(output)); i++) {
        const char *suffix = kmf_output_temporary(output, i);
        for (const char *p = suffix; (p = strstr(p, SUFFIX_BEGINS)) != NULL; p++)
            suffix = p;
        json_t *file =
            json_pack("{s:s, s:I}", "suffix", suffix, "bytes", (json_int_t)place->bytes[i]);
        if (json_array_append_new(files, file) < 0) {
            json_decref(files);
            return NULL;
        }
    }
    return files;
}

/* The checkpoint of an output that is kept, at a place that the mark is of. */
static int write_checkpoint(const kmf_output *output, const kmf_output_place *place,
                            const char *kind, json_t *mark, const char *checkpoint,
                            kmf_err *err)
{
    json_t *json = json_pack("{s:s, s:s, s:I, s:O, s:O}", "program", "kmerformer", "checkpoint",
                             kind, "rows", (json_int_t)place->rows, "run",
                             kmf_output_described(output), "mark", mark);
    json = kmf_json_with(json, "files", describe_files(output, place));
    if (!json)
        return out_of_memory(err);
    char *text = kmf_json_text(json, JSON_INDENT(2), err);
    json_decref(json);
    int status = text ? kmf_file_save(checkpoint, text, strlen(text), err) : KMF_ENOMEM;
    kmf_free(text);
    return status;
}

int kmf_output_saves(const kmf_output *output, const kmf_run *run)
{
    return kmf_output_is_keepable(output) && run->mark;
}

/* What the run is, which is found out once: the MD5 of a large model takes a second. */
static int describe(kmf_output *output, const kmf_run *run, const char *const *inputs,
                    size_t n_inputs, const kmf_reader_options *reader, kmf_err *err)
{
    if (!kmf_output_described(output))
        kmf_output_describe(output, describe_run(run, kmf_output_form_of(output), inputs,
                                                 n_inputs, reader, err));
    return kmf_output_described(output) ? 0 : (int)err->code;
}

int kmf_output_save(kmf_output *output, const kmf_run *run, const char *checkpoint,
                    const char *const *inputs, size_t n_inputs,
                    const kmf_reader_options *reader, kmf_err *err)
{
    char *text;
    uint64_t records;
    kmf_output_place place;
    err = kmf_err_or(err, &(kmf_err){0});
    int there = kmf_output_saves(output, run) ? run->mark(run->user, &text, &records, err) : 0;
    if (there <= 0)
        return kmf_told(there, "the run could not be marked", err);
    json_t *mark = take_text(text, run->kind, err);
    bool first = !kmf_output_is_kept(output);
    int status = mark ? describe(output, run, inputs, n_inputs, reader, err) : (int)err->code;
    if (status == 0 && !kmf_out_is_file(checkpoint))
        status = kmf_fail(err, KMF_EIO, "%s: it is no regular file", checkpoint);
    if (status == 0)
        status = kmf_output_keep(output, records, &place, err);
    if (status == 0)
        status = write_checkpoint(output, &place, run->kind, mark, checkpoint, err);
    json_decref(mark);
    if (status < 0 && first) /* there is nothing that tells of the files */
        kmf_output_unkeep(output);
    return status < 0 ? status : 1;
}

/* ---------------------------------------------------------------- reading --------------- */

/* Of a checkpoint. */
typedef struct saved {
    json_t *json; /* owned */
    char *mark;   /* owned; its text */
    kmf_output_place place;
    int n_files;
    char *temporary[KMF_OUTPUT_FILES]; /* owned [n_files] */
} saved;

static void free_saved(saved *s)
{
    json_decref(s->json);
    kmf_free(s->mark);
    for (int i = 0; i < KMF_OUTPUT_FILES; i++)
        kmf_free(s->temporary[i]);
}

/* Nobody's file but one of ours: ".tmp." and a number behind the name of the output. */
static bool is_suffix(const char *text)
{
    size_t n = strlen(SUFFIX_BEGINS);
    return text && strncmp(text, SUFFIX_BEGINS, n) == 0 && text[n] != '\0' &&
           text[n + strspn(text + n, "0123456789")] == '\0';
}

/* path: of the output. */
static int read_file(saved *s, int i, const char *path, const char *where, kmf_err *err)
{
    const json_t *file = json_array_get(json_object_get(s->json, "files"), (size_t)i);
    const char *suffix = json_string_value(json_object_get(file, "suffix"));
    if (!is_suffix(suffix)) {
        kmf_fail(err, KMF_EMODEL, "%s: files: there is no suffix", where);
        return KMF_EMODEL;
    }
    if (kmf_json_count(&s->place.bytes[i], file, "bytes", INT64_MAX, where, err) < 0)
        return KMF_EMODEL;
    char *name = kmf_output_name(path, i, err);
    char *real = name ? kmf_real_name(name, err) : NULL;
    s->temporary[i] = real ? kmf_strprintf(err, "%s%s", real, suffix) : NULL;
    kmf_free(real);
    kmf_free(name);
    return s->temporary[i] ? 0 : KMF_ENOMEM;
}

/* The files. kind: of the run; NULL: any. */
static int parse(saved *s, const char *checkpoint, const char *path, const char *kind,
                 kmf_err *err)
{
    size_t len;
    char *text = kmf_file_read(checkpoint, CHECKPOINT_MOST, &len, err);
    s->json = text ? kmf_json_parse(text, len, checkpoint, err) : NULL;
    kmf_free(text);
    if (!s->json)
        return KMF_EMODEL;
    const char *program = json_string_value(json_object_get(s->json, "program"));
    const char *is = json_string_value(json_object_get(s->json, "checkpoint"));
    if (!program || strcmp(program, "kmerformer") != 0 || !is ||
        (kind && strcmp(is, kind) != 0))
        return kmf_fail(err, KMF_EMODEL, "%s: it is no checkpoint of such an output",
                        checkpoint);
    size_t n = json_array_size(json_object_get(s->json, "files"));
    if (n == 0 || n > KMF_OUTPUT_FILES)
        return kmf_fail(err, KMF_EMODEL, "%s: it tells of %zu files", checkpoint, n);
    s->n_files = (int)n;
    int status = 0;
    for (int i = 0; i < s->n_files && status == 0; i++)
        status = read_file(s, i, path, checkpoint, err);
    return status;
}

/* How far the run had come. */
static int parse_mark(saved *s, const char *checkpoint, kmf_err *err)
{
    if (kmf_json_count(&s->place.rows, s->json, "rows", INT64_MAX, checkpoint, err) < 0)
        return KMF_EMODEL;
    const json_t *mark = json_object_get(s->json, "mark");
    if (!json_is_object(mark))
        return kmf_fail(err, KMF_EMODEL, "%s: mark is missing", checkpoint);
    s->mark = kmf_json_text(mark, JSON_COMPACT, err);
    return s->mark ? 0 : KMF_ENOMEM;
}

/* With kind NULL, that of any run, how far it had come is not asked for. */
static int read_saved(saved *s, const char *checkpoint, const char *path, const char *kind,
                      kmf_err *err)
{
    *s = (saved){0};
    err = kmf_err_or(err, &(kmf_err){0});
    if (parse(s, checkpoint, path, kind, err) == 0 &&
        (!kind || parse_mark(s, checkpoint, err) == 0))
        return 0;
    free_saved(s);
    return (int)err->code;
}

/* KMF_EMODEL: the first thing in which the two differ, of model and settings what of them. */
static int check_run(const saved *s, const char *checkpoint, json_t *now, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    json_t *was = json_object_get(s->json, "run");
    const char *key = kmf_json_difference(was, now, "");
    if (!key)
        return 0;
    bool model = strcmp(key, "model") == 0;
    json_t *a = json_object_get(was, key);
    json_t *b = json_object_get(now, key);
    const char *within =
        model || strcmp(key, "settings") == 0 ? kmf_json_difference(a, b, "") : NULL;
    if (within) {
        a = json_object_get(a, within);
        b = json_object_get(b, within);
    }
    kmf_err_show(shown, within ? within : key);
    return kmf_fail_difference(checkpoint, "it is of another run",
                               model && within ? "the model's " : "", shown, a, b, err);
}

static int check_files(const saved *s, const char *checkpoint, const kmf_output_form *form,
                       kmf_err *err)
{
    int n = kmf_output_n_files(form);
    return s->n_files == n
               ? 0
               : kmf_fail(err, KMF_EMODEL, "%s: it tells of %d files, and the output has %d",
                          checkpoint, s->n_files, n);
}

kmf_output *kmf_output_resume(const char *path, const kmf_output_form *form, const kmf_run *run,
                              const char *checkpoint, const char *const *inputs,
                              size_t n_inputs, const kmf_reader_options *reader, kmf_err *err)
{
    saved s;
    kmf_output *output = NULL;
    if (read_saved(&s, checkpoint, path, run->kind, err) < 0)
        return NULL;
    json_t *now = describe_run(run, form, inputs, n_inputs, reader, err);
    if (now && check_run(&s, checkpoint, now, err) == 0 &&
        check_files(&s, checkpoint, form, err) == 0)
        output = kmf_output_reopen(path, form, s.temporary, &s.place, err);
    if (output)
        kmf_output_describe(output, json_incref(now));
    if (output && kmf_told(run->go_on(run->user, s.mark, s.place.rows, checkpoint, err),
                           "the run could not go on", err) < 0) {
        kmf_output_free(output);
        output = NULL;
    }
    json_decref(now);
    free_saved(&s);
    return output;
}

/* One file of it: path is its final name. */
typedef int file_fn(const char *path, const char *temporary, kmf_err *err);

/* 1: a file that is kept lacks its final name. */
static int lacks_name(const char *path, const char *temporary, kmf_err *err)
{
    (void)err;
    return access(temporary, F_OK) == 0 && !kmf_path_same(temporary, path);
}

/* Of whoever is not at work at it. */
static int remove_kept(const char *path, const char *temporary, bool both, kmf_err *err)
{
    if (access(temporary, F_OK) != 0)
        return 0;
    kmf_out *out = kmf_out_reopen(path, temporary, err);
    int status = !out ? KMF_EIO : both ? kmf_out_cut(out, 0, err) : 0;
    kmf_out_give_up(out);
    return status;
}

static int remove_temporary(const char *path, const char *temporary, kmf_err *err)
{
    return remove_kept(path, temporary, false, err);
}

static int remove_both(const char *path, const char *temporary, kmf_err *err)
{
    return remove_kept(path, temporary, true, err);
}

/* Stops at the first answer other than 0, and returns it. */
static int each_file(const saved *s, const char *path, file_fn *fn, kmf_err *err)
{
    int answer = 0;
    for (int i = 0; i < s->n_files && answer == 0; i++) {
        char *name = kmf_output_name(path, i, err);
        answer = name ? fn(name, s->temporary[i], err) : KMF_ENOMEM;
        kmf_free(name);
    }
    return answer;
}

static int remove_checkpoint(const char *checkpoint, kmf_err *err)
{
    return unlink(checkpoint) == 0
               ? 0
               : kmf_fail(err, KMF_EIO, "%s: %s", checkpoint, strerror(errno));
}

int kmf_output_discard(const char *path, const char *checkpoint, kmf_err *err)
{
    saved s;
    err = kmf_err_or(err, &(kmf_err){0});
    if (read_saved(&s, checkpoint, path, NULL, err) < 0)
        return (int)err->code;
    int lacking = each_file(&s, path, lacks_name, err);
    int status = lacking < 0 ? lacking : 0;
    if (lacking == 0) { /* whole: a checkpoint without its files would stop the next run */
        status = remove_checkpoint(checkpoint, err);
        if (status == 0)
            status = each_file(&s, path, remove_temporary, err);
    } else if (lacking > 0) {
        status = each_file(&s, path, remove_both, err);
        if (status == 0)
            status = remove_checkpoint(checkpoint, err);
    }
    free_saved(&s);
    return status;
}

int kmf_output_is_checkpoint(const char *path, const char *checkpoint)
{
    saved s;
    if (read_saved(&s, checkpoint, path, NULL, NULL) < 0)
        return 0;
    free_saved(&s);
    return 1;
}
