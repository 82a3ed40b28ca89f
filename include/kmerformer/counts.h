/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: from sequences to tables of k-mers, and what is asked of a table. */
#ifndef KMERFORMER_COUNTS_H
#define KMERFORMER_COUNTS_H

#include "kmer.h"
#include "reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- counts ----------------- */

/*
 * How often each k-mer occurs: exact 64-bit counts in code order. Read-only once made, and may
 * be shared between threads. A k-mer that is not in the table has count 0, as one that was
 * never seen.
 */
typedef struct kmf_counts kmf_counts;

typedef struct kmf_counts_info {
    kmf_alphabet alphabet;
    int k;
    int canonical;      /* 1: a k-mer and its reverse complement are counted as one   */
    uint64_t stride;    /* letters between the starts of two windows                  */
    uint64_t inputs;    /* files read                                                 */
    uint64_t records;   /* in them                                                    */
    uint64_t letters;   /* in those                                                   */
    uint64_t kmers;     /* windows counted; what was left out of the table included   */
    uint64_t ambiguous; /* windows that touch another letter: not counted           */
    uint64_t distinct;  /* k-mers in the table                                      */
    uint64_t min_count; /* k-mers of a smaller count were left out; 1: none were    */
    uint64_t max_size;  /* only so many, the most frequent, were kept; 0: all       */
} kmf_counts_info;

KMF_API void kmf_counts_free(kmf_counts *counts);
KMF_API void kmf_counts_information(const kmf_counts *counts, kmf_counts_info *info);
/*
 * fn is told, by the thread that calls one of the functions below that go over a whole table, how
 * far it is; more than once by those that do so several times. NULL: none. A table that is shared
 * between threads has none.
 */
KMF_API void kmf_counts_progress(kmf_counts *counts, kmf_fraction_fn *fn, void *user);
/* With canonical counts that of the k-mer and its reverse complement together. */
KMF_API uint64_t kmf_counts_get(const kmf_counts *counts, uint64_t code);

/* A walk over the k-mers of the table in code order; counts are 1 or more. */
typedef struct kmf_counts_walk {
    const kmf_counts *counts; /* borrowed */
    uint64_t block, i;        /* private */
} kmf_counts_walk;

KMF_API void kmf_counts_start(kmf_counts_walk *walk, const kmf_counts *counts);
/* 1: the next k-mer; 0: no more. */
KMF_API int kmf_counts_next(kmf_counts_walk *walk, uint64_t *code, uint64_t *count);

/*
 * The sum of n tables. KMF_EMODEL: they differ in alphabet, k, canonical or stride, or k-mers
 * were left out of one (min_count, max_size), so that the sum would not be exact. KMF_EINVAL: n
 * is 0.
 */
KMF_API kmf_counts *kmf_counts_merge(const kmf_counts *const *tables, size_t n,
                                     kmf_err *err) KMF_MUST_CHECK;
/*
 * The k-mers with a count of min_count or more and, if max_size is not 0, of those the max_size
 * most frequent; of equally frequent ones those first in code order.
 */
KMF_API kmf_counts *kmf_counts_select(const kmf_counts *counts, uint64_t min_count,
                                      uint64_t max_size, kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_counts_summary {
    double possible; /* k-mers that there can be: 4^k; with canonical ones those that are the
                        smaller of the two */
    double coverage; /* distinct / possible */
    double entropy;  /* bits: -sum p log2 p over the table, p = count / sum of counts */
    double gc;       /* fraction of G and C in the letters of all counted k-mers; -1: no DNA */
    uint64_t total;  /* sum of the counts in the table */
    uint64_t smallest, largest; /* count; 0 if the table is empty */
} kmf_counts_summary;

KMF_API void kmf_counts_summarise(const kmf_counts *counts, kmf_counts_summary *summary);

typedef struct kmf_kmer_count {
    uint64_t code;
    uint64_t count;
} kmf_kmer_count;

/*
 * The n most frequent k-mers, or the n least frequent of those in the table, in that order;
 * equally frequent ones in code order. Returns how many there are: n, or all of a smaller
 * table.
 */
KMF_API int64_t kmf_counts_extreme(const kmf_counts *counts, kmf_kmer_count *list, size_t n,
                                   int least, kmf_err *err) KMF_MUST_CHECK;

/*
 * The count spectrum: kmers[i] k-mers of the table occur `count[i]` times, in ascending order
 * of count. Both arrays are freed by kmf_spectrum_free.
 */
typedef struct kmf_spectrum {
    uint64_t *count;
    uint64_t *kmers;
    size_t n;
} kmf_spectrum;

KMF_API int kmf_counts_spectrum(const kmf_counts *counts, kmf_spectrum *spectrum,
                                kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_spectrum_free(kmf_spectrum *spectrum);

/*
 * File formats.
 *
 *   tsv      lines "#name<TAB>value" (see the manual), then k-mer<TAB>count in code order
 *   vocab    a model's vocab.txt: the five special tokens, then the k-mers in code order
 *   dnabert  the same in the order of the published DNABERT models, A < T < C < G
 *   binary   sorted codes and counts, checksummed; read by mapping it into memory
 */
typedef enum kmf_counts_format {
    KMF_COUNTS_TSV,
    KMF_COUNTS_VOCAB,
    KMF_COUNTS_DNABERT,
    KMF_COUNTS_BINARY
} kmf_counts_format;
KMF_API extern const char *const kmf_counts_format_names[]; /* tsv vocab dnabert binary */

/*
 * Reads a table, tsv (also gzip-compressed) or binary, told apart by content; "-": standard input.
 * Nothing in the file is trusted. KMF_EMODEL names what is wrong; KMF_EIO: it cannot be read.
 */
KMF_API kmf_counts *kmf_counts_load(const char *path, kmf_err *err) KMF_MUST_CHECK;

/*
 * Can a table with this alphabet and k be written so? 0, or KMF_EINVAL: vocab and dnabert take k
 * to 12, dnabert DNA alone, and a list of every possible k-mer (full) has 2^32 at most.
 */
KMF_API int kmf_counts_check_format(const kmf_counts_info *info, kmf_counts_format format,
                                    int full, kmf_err *err) KMF_MUST_CHECK;
/*
 * Writes path, "-" for standard output. full: list every possible k-mer, those never seen with
 * count 0 (canonical: the smaller ones); not for binary, where zeros need no place. pool (NULL:
 * none) formats. provenance: JSON object text for x.json beside a tsv or binary file; NULL:
 * none. What has these names is replaced, whatever it is. KMF_EINVAL: kmf_counts_check_format
 * refuses it, or it would be a vocabulary of no k-mers. Nothing is left behind on failure.
 */
KMF_API int kmf_counts_save(const kmf_counts *counts, const char *path,
                            kmf_counts_format format, int full, kmf_pool *pool,
                            const char *provenance, kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- counting --------------- */

typedef struct kmf_count_options {
    kmf_alphabet alphabet;
    int k;           /* 1 .. kmf_alphabet_k_max */
    int canonical;   /* count a k-mer and its reverse complement as one; DNA only */
    size_t stride;   /* letters between the starts of two windows, 1 .. 2^31 */
    int threads;     /* 1 .. 1024; 0: kmf_threads_default() */
    uint64_t memory; /* bytes, 0 = 4 GiB: bound of tables and buffers while counting */
    const char *tmp; /* folder for what exceeds it; NULL: $TMPDIR, else /tmp. Copied */
} kmf_count_options;

/* DNA, k 6, stride 1, one strand. */
KMF_API void kmf_count_options_default(kmf_count_options *opts);

/*
 * Counting in progress. Up to 2^24 codes (DNA: k = 12) in a table of all of them, if that fits
 * the memory, beyond in sorted parts; parts that exceed the memory go to unnamed files in tmp,
 * of which nothing stays behind however the process ends.
 */
typedef struct kmf_counter kmf_counter;

/*
 * KMF_EINVAL: an option is out of range; KMF_EIO: tmp is no folder to write to; KMF_ENOMEM:
 * memory is too little, and the message says what is needed.
 */
KMF_API kmf_counter *kmf_counter_new(const kmf_count_options *opts,
                                     kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_counter_free(kmf_counter *counter);
/* For readers and kmf_counts_save; NULL with one thread. */
KMF_API kmf_pool *kmf_counter_pool(kmf_counter *counter);
/*
 * Counts one sequence, without a newline in it, as a record. After a failure the counter can
 * only be freed.
 */
KMF_API int kmf_counter_add(kmf_counter *counter, const char *seq, size_t len,
                            kmf_err *err) KMF_MUST_CHECK;
/*
 * Counts all records of a reader from which none was taken (else KMF_EINVAL), as one input. After
 * another failure the counter can only be freed.
 */
KMF_API int kmf_counter_read(kmf_counter *counter, kmf_reader *reader,
                             kmf_err *err) KMF_MUST_CHECK;
/*
 * fn is called now and then, by the caller's thread, with the letters taken in so far and, from
 * kmf_counter_finish and kmf_counter_save, the fraction of the table that is made; NULL: none.
 */
typedef void kmf_count_progress_fn(void *user, uint64_t letters, double made);
KMF_API void kmf_counter_progress(kmf_counter *counter, kmf_count_progress_fn *fn, void *user);
/*
 * The table, which needs the counter no longer. The counter is spent: it can only be freed, and all
 * else is KMF_EINVAL.
 */
KMF_API kmf_counts *kmf_counter_finish(kmf_counter *counter, kmf_err *err) KMF_MUST_CHECK;

/*
 * JSON object text for x.json beside a table, once its figures are known, which the library
 * frees as kmf_text_free does; NULL after a failure that is told in err.
 */
typedef char *kmf_table_text_fn(void *user, const kmf_counts_info *info, kmf_err *err);

/*
 * Instead of kmf_counter_finish: the table goes straight into a binary file at path, as by
 * kmf_counts_save. One of more than 2^24 codes is never in memory as a whole if path is a plain
 * file. provenance may be NULL. *info: the table's.
 */
KMF_API int kmf_counter_save(kmf_counter *counter, const char *path,
                             kmf_table_text_fn *provenance, void *user, kmf_counts_info *info,
                             kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
