/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: where rows go, and what is told about the run. */
#ifndef KMERFORMER_OUTPUT_H
#define KMERFORMER_OUTPUT_H

#include "embed.h"
#include "reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * How a table writes its rows where they are no numbers: put writes what stands behind the name of
 * a record, from a tab to '\n', and returns its length, without a NUL. It is called on any thread,
 * several at a time, each of which has a scratch of its own, until the run has ended. All that is
 * pointed to stays until the output is freed.
 */
typedef struct kmf_row_format {
    /*
     * vector: [dim] of the form; of NaN, if its record has none. NULL: rows are no vectors, and
     * come by kmf_output_print alone; then only header and name are used.
     */
    size_t (*put)(const void *user, void *scratch, char *to, const float *vector, size_t dim);
    const void *user;
    size_t room;          /* bytes that put may write, whatever it returns; not of the name */
    size_t scratch_bytes; /* zeroed at first, then as the last call left it */
    const char *header;   /* the first line, with '\n'; NULL: there is none */
    const char *name;     /* not NULL: tells a checkpoint these rows from others */
} kmf_row_format;

/* What the rows of an output are. */
typedef struct kmf_output_form {
    size_t dim;                   /* numbers of a vector; without a format 1 .. 2^24 */
    int f16;                      /* 1: float16, of .npy alone */
    int per_token;                /* 1: rows of KMF_POOL_NONE, which have a position */
    const kmf_row_format *format; /* NULL: numbers; is copied. Not of .npy, nor per_token */
} kmf_output_form;

/*
 * Where rows go.
 *   path "-"       TSV on standard output: name, [position,] values as %.8g
 *   path "x.npy"   NumPy 1.0, C order [rows, dim], float32 or float16
 *   any other      the same TSV; if the name ends in .gz, compressed as BGZF, which is gzip
 * A file brings x.ids.tsv (index, name, length, tokens, ambiguous, chunks[, position]; line i
 * describes row i) and x.json (provenance). With a format it is a table, and has nothing beside it.
 * All are written under temporary names, synced and renamed by kmf_output_commit; kmf_output_free
 * without it leaves nothing behind.
 */
typedef struct kmf_output kmf_output;

/* NULL: KMF_EINVAL, of a name, or of what its rows cannot be; KMF_EIO; KMF_ENOMEM. */
KMF_API kmf_output *kmf_output_new(const char *path, const kmf_output_form *form,
                                   kmf_err *err) KMF_MUST_CHECK;
/*
 * A kmf_row_fn: user is the kmf_output. KMF_ENUMERIC: a number is too large for float16; the row is
 * left out.
 */
KMF_API int kmf_output_row(void *output, const kmf_row *row, kmf_err *err);
/*
 * A row that is text, of a format without put: a line, or lines, of the record of this index, which
 * may have several rows, one after another.
 */
KMF_API int kmf_output_print(kmf_output *output, uint64_t index, kmf_err *err,
                             const char *format, ...) KMF_PRINTF(4, 5) KMF_MUST_CHECK;
/*
 * Before the first record of a run: the rows of the embedder from now on go to the output, as by
 * kmf_embedder_sink with kmf_output_row, and nowhere else. A thread that has computed the whole
 * vector of a record, as of a short one, also writes it to .npy, or formats it as text (up to 64 MB
 * may wait) and compresses it. So end the run (finished or failed), or free the embedder, before
 * the output is finished or freed; an embedder that is used once more needs another output, or
 * sink, first. An output of another dim or per_token than the embedder's rows: their first one is
 * KMF_EINVAL.
 */
KMF_API void kmf_output_take(kmf_output *output, kmf_embedder *embedder);
/*
 * Publishes the rows that were given, be it of a run that failed: whether that went well is the
 * caller's to know. What has the names of its files is replaced, whatever it is. provenance: the
 * text of a JSON object for x.json (else KMF_EINVAL, and nothing has happened); ignored where there
 * is no x.json. Else it may be called once, even if it fails: a second call is KMF_EINVAL.
 */
KMF_API int kmf_output_commit(kmf_output *output, const char *provenance,
                              kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_output_free(kmf_output *output);
/* Rows that are in it, those of an earlier run too. */
KMF_API uint64_t kmf_output_rows(const kmf_output *output);
/*
 * The name of what an output, or a table of counts, brings with it: path without .npy, .tsv or
 * .tsv.gz, and ending, such as ".json". Freed by kmf_text_free; NULL: out of memory.
 */
KMF_API char *kmf_companion(const char *path, const char *ending, kmf_err *err) KMF_MUST_CHECK;

/*
 * What path names behind its symbolic links, there or not: where an output goes, so that a link
 * stays one. Freed by kmf_text_free. KMF_EIO: they lead in a circle; KMF_ENOMEM.
 */
KMF_API char *kmf_real_name(const char *path, kmf_err *err) KMF_MUST_CHECK;

/*
 * An output, gzip-compressed if path ends in ".gz". It is written under "path.tmp.NUMBER";
 * kmf_out_finish flushes, syncs and closes it, after which nothing more is written (KMF_EINVAL);
 * kmf_out_publish, if that went well (else KMF_EINVAL), gives it its name, which lasts, in place of
 * a file that had it; kmf_out_free before that removes it. "-" is standard output: nothing to
 * publish or remove; it gets a buffer of 1 MB, so the program must not have printed to it before.
 * An empty path is KMF_EINVAL.
 */
KMF_API kmf_out *kmf_out_open(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API int kmf_out_write(kmf_out *out, const void *data, size_t n,
                          kmf_err *err) KMF_MUST_CHECK;
/* As fprintf, text of any length. */
KMF_API int kmf_out_print(kmf_out *out, kmf_err *err, const char *format, ...)
    KMF_PRINTF(3, 4) KMF_MUST_CHECK;
KMF_API int kmf_out_finish(kmf_out *out, kmf_err *err) KMF_MUST_CHECK;
KMF_API int kmf_out_publish(kmf_out *out, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_out_free(kmf_out *out);
/*
 * Of an output whose writing ended with status, where that is 0, finishes and publishes it; frees
 * it, NULL too, in any case. Returns status, or what went wrong here.
 */
KMF_API int kmf_out_end(kmf_out *out, int status, kmf_err *err) KMF_MUST_CHECK;

/* 0: standard output ("-"), a pipe or a device, which are written in place, with no file beside. */
KMF_API int kmf_out_is_file(const char *path);
/*
 * The ending of path if it is that of a format, or of a compression, that nothing is written in, as
 * .csv, .npz, .NPY and .bz2, within path; else NULL. What has such a name is refused, for it would
 * be something else.
 */
KMF_API const char *kmf_foreign_ending(const char *path);

/*
 * Writes a whole file as all outputs are written: under a temporary name, synced and renamed;
 * gzip-compressed if path ends in .gz. What is no regular file is written in place.
 */
KMF_API int kmf_file_save(const char *path, const void *bytes, size_t n,
                          kmf_err *err) KMF_MUST_CHECK;

/*
 * Removes the temporary files of all outputs of this process, and the temporary folder of
 * kmf_model_save; at most 64 are remembered at a time. Only for a signal handler that then ends the
 * process; async-signal-safe.
 */
KMF_API void kmf_remove_temporaries(void);
/*
 * From now on files get their final names between a call of begin and one of end, so that a
 * program can let signals wait meanwhile: of files that belong together all have them, or none.
 * NULL: nothing is called.
 */
KMF_API void kmf_around_publishing(void (*begin)(void), void (*end)(void));

/*
 * Provenance of a run as JSON text, for kmf_output_commit: version, the name of the output (a path
 * is cut to its last part), command line (NULL: none), model and its MD5, settings, inputs and
 * which regions of them (reader; NULL: all), statistics. The caller frees it with kmf_text_free.
 */
KMF_API char *kmf_provenance(const kmf_embedder *embedder, const char *output,
                             const char *command_line, const char *const *inputs,
                             size_t n_inputs, const kmf_reader_options *reader,
                             kmf_err *err) KMF_MUST_CHECK;
/*
 * Of the four that follow the text is freed by kmf_text_free; NULL: KMF_ENOMEM, or what is said.
 *
 * Text as a JSON string, in its quotes; if it is not UTF-8, its bytes beyond ASCII are '?'.
 */
KMF_API char *kmf_json_string(const char *text, kmf_err *err) KMF_MUST_CHECK;
/* A JSON object of n pairs of texts, with '?' as above: key, value, ...; of equal keys the last. */
KMF_API char *kmf_json_pairs(const char *const *pairs, size_t n, kmf_err *err) KMF_MUST_CHECK;
/*
 * The JSON object of text with a list "before": the list of that name in the object `before`, and
 * behind it `before` itself without that list. So the provenances of successive trainings form one
 * flat list. KMF_EMODEL: one of them is no JSON object.
 */
KMF_API char *kmf_json_before(const char *text, const char *before,
                              kmf_err *err) KMF_MUST_CHECK;
/*
 * The JSON object of text ("": an empty one) with another at the end of the list `key` in it: a
 * provenance that goes on. KMF_EMODEL: one of them is no JSON object.
 */
KMF_API char *kmf_json_append(const char *text, const char *key, const char *object,
                              kmf_err *err) KMF_MUST_CHECK;

/* Told how many records are joined, of how many. */
typedef void kmf_merge_progress_fn(void *user, uint64_t records, uint64_t all);
/*
 * Puts the files of a sharded run (each with its .ids.tsv and .json, in any order) back into
 * input order at out, the bytes being those of the unsharded run. command_line: of the merged
 * .json; NULL: none. pool (NULL: none): compresses, beside the caller. fn is called now and then;
 * NULL: none. KMF_EMODEL: shards missing, doubled, or of different runs. KMF_EINVAL: out is one of
 * the shards, or has the .ids.tsv and .json of one.
 */
KMF_API int kmf_merge(const char *const *shards, size_t n_shards, const char *out,
                      const char *command_line, kmf_pool *pool, kmf_merge_progress_fn *fn,
                      void *user, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
