/* SPDX-License-Identifier: MIT */
/*
 * kmerformer: sequences to vectors, in C.
 *
 *   file -> records -> k-mers -> ids -> chunks -> encoder -> pooling -> one vector per record
 *                         +----> counts -> vocabulary
 *
 * The header follows that order. Every object is opaque, comes from a _new, _load or _open and
 * goes by _free or _close, which accept NULL. Strings are UTF-8 and NUL-terminated unless a
 * length stands beside them.
 *
 * Errors. A function that can be failed by the outside world takes a kmf_err as its last
 * argument (NULL if the reason is not wanted). One that makes something returns NULL on
 * failure; the others return 0, or a count, or a negative kmf_code.
 *
 * Threads. An object may be used by one thread at a time, different objects by different
 * threads at once. kmf_model, kmf_vocab, kmf_counts and kmf_pool are read-only once made and
 * may be shared.
 *
 * A complete program, compiled and run by the tests:
 *
 *   #include <kmerformer.h>
 *   #include <stdio.h>
 *   #include <stdlib.h>
 *
 *   int main(int argc, char **argv)
 *   {
 *       const char *seq = argc > 1 ? argv[1] : "ACGTACGTTGCAACGTTAGCATTA";
 *       kmf_err err = {KMF_OK, ""};
 *       kmf_embed_options opts;
 *       kmf_embed_options_default(&opts);
 *       kmf_embedder *embedder = kmf_embedder_new(NULL, &opts, &err);
 *       if (!embedder) {
 *           fprintf(stderr, "%s\n", err.msg);
 *           return 1;
 *       }
 *       size_t dim = kmf_embedder_dim(embedder);
 *       float *vector = (float *)malloc(dim * sizeof *vector);
 *       int status = 1;
 *       if (vector && kmf_embed_sequence(embedder, vector, seq, &err) == 0) {
 *           for (size_t i = 0; i < dim; i++)
 *               printf("%.8g%c", (double)vector[i], i + 1 < dim ? '\t' : '\n');
 *           status = 0;
 *       }
 *       free(vector);
 *       kmf_embedder_free(embedder);
 *       return status;
 *   }
 */
#ifndef KMERFORMER_H
#define KMERFORMER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KMF_MUST_CHECK __attribute__((warn_unused_result))
#define KMF_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define KMF_API __attribute__((visibility("default")))
#else
#define KMF_MUST_CHECK
#define KMF_PRINTF(f, a)
#define KMF_API
#endif

/* ---------------------------------------------------------------- version ---------------- */

#define KMF_VERSION "0.1.0"

/* The version of the library in use, as "0.1.0". Static storage. */
KMF_API const char *kmf_version(void);

/*
 * A few lines "name<TAB>value": compiler, libraries and their versions, the matrix-product
 * engine and processor level chosen at run time. Written to text, cut at cap - 1 bytes.
 */
KMF_API void kmf_build_info(char *text, size_t cap);

/* ---------------------------------------------------------------- errors ----------------- */

typedef enum kmf_code {
    KMF_OK = 0,
    KMF_EINVAL = -1,  /* an option or argument is out of range: mend the call             */
    KMF_EIO = -2,     /* reading or writing failed: file, disk, pipe                      */
    KMF_EFORMAT = -3, /* an input file is not what it should be: mend or replace the file */
    KMF_ENOMEM = -4,  /* out of memory, or over a stated limit                            */
    KMF_EMODEL = -5,  /* a model, vocabulary or result file does not fit                  */
    KMF_ENUMERIC = -6 /* a result that must be finite is not                              */
} kmf_code;

/*
 * {0} means no error. msg is one sentence without a newline. The first cause stays: zero it
 * before it is used again.
 */
typedef struct kmf_err {
    kmf_code code;
    char msg[1020];
} kmf_err;

/* Told how far a long job is; the function that takes it says in what unit. */
typedef void kmf_progress_fn(void *user, uint64_t done);

/* ---------------------------------------------------------------- threads ---------------- */

/* Worker threads, shared by decompression and computation. */
typedef struct kmf_pool kmf_pool;

/* threads: 1 to 1024. */
KMF_API kmf_pool *kmf_pool_new(int threads, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_pool_free(kmf_pool *pool);

/*
 * The number of cores this process may use: the affinity mask, cut by the cgroup's CPU quota
 * and by SLURM_CPUS_PER_TASK. At least 1.
 */
KMF_API int kmf_threads_default(void);

/*
 * For the beginning of a program: OpenBLAS starts threads when it is loaded and lets them wait
 * in a loop, which takes the cores from others for a tenth of a second. Products here run on
 * our own threads. This stops them; a call of BLAS that wants them starts them again.
 */
KMF_API void kmf_stop_blas_threads(void);

/* ---------------------------------------------------------------- reader ----------------- */

/*
 * FASTA, FASTQ, SAM, BAM and CRAM; plain, gzip or BGZF; told apart by content. "-" is standard
 * input. One pass, so pipes work.
 */
typedef struct kmf_reader kmf_reader;

typedef struct kmf_reader_options {
    const char *reference; /* FASTA that a CRAM was made against; NULL: none. No other place
                              is searched but REF_PATH and REF_CACHE, and never the network */
    const char *regions;   /* "chr:beg-end,chr2,...", 1-based inclusive, on an indexed FASTA
                              (the .fai is made if it is missing); NULL: the whole file       */
    const char *bed; /* BED file of regions, the strand column honoured; NULL: none      */
} kmf_reader_options;

/*
 * name and seq are borrowed from the reader, valid until its next call. Both are also
 * NUL-terminated. seq is as the file has it: either case, U, IUPAC letters, '-', '.', '*'.
 * name is the header up to the first blank (regions: "chr:beg-end", with "(-)" when a BED line
 * says so; the sequence is then already reverse-complemented). Reads that an alignment turned
 * around are turned back.
 */
typedef struct kmf_record {
    const char *name;
    const char *seq;
    size_t len;     /* bases */
    uint64_t index; /* 0-based number of the record in this input */
} kmf_record;

typedef struct kmf_reader_stats {
    uint64_t records;       /* returned so far                                    */
    uint64_t bases;         /* in them                                            */
    uint64_t secondary;     /* alignments passed over: secondary                  */
    uint64_t supplementary; /* alignments passed over: supplementary              */
} kmf_reader_stats;

KMF_API void kmf_reader_options_default(kmf_reader_options *opts);

/*
 * Opens path. opts may be NULL. pool (may be NULL: no threads) must outlive the reader.
 * KMF_EIO: cannot be opened; KMF_EFORMAT: not a sequence file; KMF_EINVAL: a malformed region.
 */
KMF_API kmf_reader *kmf_reader_open(const char *path, const kmf_reader_options *opts,
                                    kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;

/*
 * 1: *rec holds the next record; 0: the end was reached and the input is sound; negative: a
 * kmf_code, and the message names file, record and, in text files, the line.
 */
KMF_API int kmf_reader_next(kmf_reader *reader, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_reader_statistics(const kmf_reader *reader, kmf_reader_stats *stats);
KMF_API void kmf_reader_close(kmf_reader *reader);

/* ---------------------------------------------------------------- k-mers ----------------- */

/*
 * A k-mer is a uint64_t of 2-bit bases, A=0 C=1 G=2 T=3 (U=T, either case), the first base in
 * the most significant place. k: 1 to 32.
 */
#define KMF_K_MAX 32

/* 0 and *code, or KMF_EFORMAT if one of the k characters is not A, C, G, T or U. */
KMF_API int kmf_kmer_encode(uint64_t *code, const char *seq, int k);
/* Writes k characters and a NUL. */
KMF_API void kmf_kmer_decode(char *text, uint64_t code, int k);
KMF_API uint64_t kmf_kmer_revcomp(uint64_t code, int k);
/* The smaller of a k-mer and its reverse complement. */
KMF_API uint64_t kmf_kmer_canonical(uint64_t code, int k);

/* ---------------------------------------------------------------- alphabets -------------- */

/*
 * The letters that k-mers are made of. A letter takes `bits` bits of a code, the first letter
 * of a k-mer the most significant ones; letters have the numbers 0, 1, ... in alphabetical
 * order.
 *
 *   dna       ACGT, U = T                    2 bits   k 1 .. 32
 *   protein   ACDEFGHIKLMNPQRSTVWY           5 bits   k 1 .. 6
 *
 * Either case; all other letters are ambiguous.
 */
typedef enum kmf_alphabet { KMF_DNA, KMF_PROTEIN, KMF_N_ALPHABETS } kmf_alphabet;
KMF_API extern const char *const kmf_alphabet_names[]; /* dna protein */

/* "ACGT", "ACDEFGHIKLMNPQRSTVWY": letter number i is the i-th character. Static storage. */
KMF_API const char *kmf_alphabet_letters(kmf_alphabet alphabet);
KMF_API int kmf_alphabet_bits(kmf_alphabet alphabet);
KMF_API int kmf_alphabet_k_max(kmf_alphabet alphabet);
/* As kmf_kmer_encode and kmf_kmer_decode, which are those of KMF_DNA. */
KMF_API int kmf_alphabet_encode(kmf_alphabet alphabet, uint64_t *code, const char *seq, int k);
KMF_API void kmf_alphabet_decode(kmf_alphabet alphabet, char *text, uint64_t code, int k);

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
 * Reads a table, tsv (also gzip-compressed) or binary, told apart by content. Nothing in the
 * file is trusted. KMF_EMODEL names what is wrong.
 */
KMF_API kmf_counts *kmf_counts_load(const char *path, kmf_err *err) KMF_MUST_CHECK;

/*
 * Writes path, "-" for standard output. full: list every possible k-mer, those never seen with
 * count 0 (canonical: the smaller ones); not for binary, where zeros need no place. pool (NULL:
 * none) formats. provenance: JSON object text for x.json beside a tsv or binary file; NULL:
 * none. KMF_EINVAL: a format that cannot hold the table (vocab and dnabert: k to 12, dnabert
 * DNA alone), or full with more than 2^32 k-mers. Nothing is left behind on failure.
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
/* Counts all records of a reader from which none was taken, as one input. */
KMF_API int kmf_counter_read(kmf_counter *counter, kmf_reader *reader,
                             kmf_err *err) KMF_MUST_CHECK;
/*
 * fn is called now and then, by the caller's thread, with the letters taken in so far and, from
 * kmf_counter_finish and kmf_counter_save, the fraction of the table that is made; NULL: none.
 */
typedef void kmf_count_progress_fn(void *user, uint64_t letters, double made);
KMF_API void kmf_counter_progress(kmf_counter *counter, kmf_count_progress_fn *fn, void *user);
/* The table. The counter is spent: it can only be freed. The table needs it no longer. */
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

/* ---------------------------------------------------------------- vocabulary ------------- */

/*
 * vocab.txt: one token a line, line number (from 0) = id. A token is a k-mer, all of one length
 * k from 1 to 12, or one in brackets: [PAD] [UNK] [CLS] [SEP] [MASK], others are never
 * produced.
 */
typedef struct kmf_vocab kmf_vocab;

typedef enum kmf_special {
    KMF_PAD,
    KMF_UNK,
    KMF_CLS,
    KMF_SEP,
    KMF_MASK,
    KMF_N_SPECIAL
} kmf_special;

/* The file at path. KMF_EMODEL names the line that does not fit. */
KMF_API kmf_vocab *kmf_vocab_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
/* The same from memory; name is used in messages. */
KMF_API kmf_vocab *kmf_vocab_parse(const char *text, size_t len_bytes, const char *name,
                                   kmf_err *err) KMF_MUST_CHECK;
/* The five specials and all 4^k k-mers in code order. k: 1 to 12. */
KMF_API kmf_vocab *kmf_vocab_new(int k, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_vocab_free(kmf_vocab *vocab);
KMF_API int kmf_vocab_k(const kmf_vocab *vocab);
KMF_API size_t kmf_vocab_size(const kmf_vocab *vocab);
/* NULL if id is out of range. Borrowed from vocab. */
KMF_API const char *kmf_vocab_token(const kmf_vocab *vocab, int32_t id);
/* The id of a k-mer, or -1 if the vocabulary lacks it. */
KMF_API int32_t kmf_vocab_kmer(const kmf_vocab *vocab, uint64_t code);
/* The id of a special token, or -1. */
KMF_API int32_t kmf_vocab_special(const kmf_vocab *vocab, kmf_special special);

/* ---------------------------------------------------------------- tokenizer -------------- */

/* What to do with a window that touches a base other than A, C, G, T or U. */
typedef enum kmf_ambiguous {
    KMF_AMBIGUOUS_SKIP,  /* no token; positions close up over the gap */
    KMF_AMBIGUOUS_UNK,   /* [UNK] keeps its place                     */
    KMF_AMBIGUOUS_BREAK, /* a new chunk starts after it               */
    KMF_AMBIGUOUS_ERROR  /* KMF_EFORMAT                               */
} kmf_ambiguous;

/* What to do with a sequence of more tokens than the window holds. */
typedef enum kmf_long {
    KMF_LONG_CHUNK,    /* overlapping chunks, each token counted in one of them  */
    KMF_LONG_TRUNCATE, /* the first window only                                  */
    KMF_LONG_SKIP,     /* no chunk at all: the record counts as without a k-mer  */
    KMF_LONG_ERROR     /* KMF_EFORMAT                                            */
} kmf_long;

typedef struct kmf_cut_options {
    size_t stride;  /* bases between the starts of two windows; 1 .. 2^31         */
    size_t window;  /* tokens of a chunk, [CLS] and [SEP] included; 3 .. 2^24      */
    size_t overlap; /* tokens shared by neighbouring chunks; at most half a window */
    int specials;   /* frame every chunk with [CLS] and [SEP]                      */
    kmf_ambiguous ambiguous;
    kmf_long policy;
    int reverse; /* cut the reverse complement instead                          */
} kmf_cut_options;

/*
 * One piece of a sequence as the encoder sees it. The arrays are borrowed from the cutter,
 * valid until its next call. pos[i] is the 0-based base at which token i starts (on the strand
 * that was cut), real[i] is 1 for a k-mer of the vocabulary, 0 for any special token. Tokens
 * own_beg .. own_end - 1 are counted in this chunk, the others in a neighbour: a shared token
 * belongs to the chunk in which it sits deeper.
 */
typedef struct kmf_chunk {
    const int32_t *ids;
    const uint64_t *pos;
    const uint8_t *real;
    size_t n;
    size_t own_beg;
    size_t own_end;
} kmf_chunk;

/* Of the sequence begun last. */
typedef struct kmf_cut_stats {
    uint64_t tokens;    /* k-mers of the vocabulary, each counted once         */
    uint64_t ambiguous; /* windows that touch something other than A, C, G, T  */
    uint64_t unknown;   /* k-mers that the vocabulary lacks; they read as [UNK] */
    uint64_t chunks;
    int cut; /* 1: tokens were left out by TRUNCATE or SKIP         */
} kmf_cut_stats;

typedef struct kmf_cutter kmf_cutter;

/* vocab is borrowed. KMF_EMODEL: a special token that opts needs is not in the vocabulary. */
KMF_API kmf_cutter *kmf_cutter_new(const kmf_vocab *vocab, const kmf_cut_options *opts,
                                   kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_cutter_free(kmf_cutter *cutter);
/* Begins a sequence, borrowed until its last chunk. name is used in messages. */
KMF_API void kmf_cutter_start(kmf_cutter *cutter, const char *name, const char *seq,
                              size_t len);
/* 1: the next chunk; 0: no more; negative: a kmf_code. */
KMF_API int kmf_cutter_next(kmf_cutter *cutter, kmf_chunk *chunk, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_cutter_statistics(const kmf_cutter *cutter, kmf_cut_stats *stats);

/* ---------------------------------------------------------------- k-mer vectors ---------- */

/*
 * Words and their vectors: k-mers of one alphabet, of one length or of several, each with the
 * float32 vector [dim] that word2vec gave it. Read-only once made, and may be shared between
 * threads.
 */
typedef struct kmf_vectors kmf_vectors;

typedef struct kmf_vectors_info {
    kmf_alphabet alphabet;
    int k_min, k_max; /* lengths of the shortest and the longest word */
    int canonical;  /* 1: a k-mer and its reverse complement share the vector of the smaller  */
    int counted;    /* 1: it is known how often each word occurred in training                */
    size_t n;       /* words, 1 or more */
    size_t dim;     /* of a vector, 1 or more */
    size_t unseen;  /* words that never occurred, whose vectors say nothing; 0 if not counted */
    size_t foreign; /* words of the file that are no k-mers, such as "</s>": passed over     */
} kmf_vectors_info;

/*
 * File formats.
 *
 *   safetensors  vectors F32 [n, dim], words U8 [n, k_max] (the letters, NUL after shorter
 *                words), counts U64 [n] if known; metadata "kmerformer": JSON object text
 *   text         word2vec's and fastText's: a line "n dim", then a line "word v1 ... v_dim" for
 *                each, %.9g, so that a float comes back as it was
 *   binary       word2vec's: the same line, then for each word, space, dim little-endian
 *                float32, newline
 */
typedef enum kmf_vectors_format {
    KMF_VECTORS_SAFETENSORS,
    KMF_VECTORS_TEXT,
    KMF_VECTORS_BINARY
} kmf_vectors_format;
KMF_API extern const char *const kmf_vectors_format_names[]; /* safetensors text binary */

/*
 * Reads a file of any of the formats, told apart by content; text and binary also as gensim,
 * fastText, word2vec.c and dna2vec write them. Counts of a text or binary file come from the file
 * "path.vocab", a line "word count" for each word, if there is one. Nothing in the files is
 * trusted: KMF_EMODEL says what is wrong and where. The vectors of a text or binary file are
 * taken for canonical if they are those of all canonical k-mers and of no others.
 */
KMF_API kmf_vectors *kmf_vectors_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_vectors_free(kmf_vectors *vectors);

/*
 * Writes path ("-": standard output, text alone), and counts that are known to "path.vocab" beside
 * text and binary, words in the order of their rows. provenance, the text of a JSON object, is
 * kept in a safetensors file; NULL: what the vectors were loaded with. Nothing is left behind
 * on failure.
 */
KMF_API int kmf_vectors_save(const kmf_vectors *vectors, const char *path,
                             kmf_vectors_format format, const char *provenance,
                             kmf_err *err) KMF_MUST_CHECK;

KMF_API void kmf_vectors_information(const kmf_vectors *vectors, kmf_vectors_info *info);
/* The JSON text kept in the file, "" if there is none. */
KMF_API const char *kmf_vectors_provenance(const kmf_vectors *vectors);
/* The row of a k-mer, or -1. Canonical vectors: of whichever of the two strands is listed. */
KMF_API int64_t kmf_vectors_find(const kmf_vectors *vectors, uint64_t code, int k);
/* [dim], borrowed. Rows: 0 .. n - 1. */
KMF_API const float *kmf_vectors_row(const kmf_vectors *vectors, size_t row);
/* 0 if not counted. */
KMF_API uint64_t kmf_vectors_count(const kmf_vectors *vectors, size_t row);
/* Writes the letters of the word and a NUL: k_max + 1 bytes at most. Returns its length k. */
KMF_API int kmf_vectors_word(const kmf_vectors *vectors, size_t row, char *text);

typedef struct kmf_neighbour {
    size_t row;
    float cosine;
} kmf_neighbour;

/*
 * The n words of the greatest cosine with query [dim], in that order, equal ones in row order.
 * Left out are the rows in without[0 .. n_without - 1], words that were never seen, vectors of
 * length 0 and, with k > 0, words of another length. Returns how many there are, n at most.
 * KMF_EINVAL: query is 0 or not finite.
 */
KMF_API int64_t kmf_vectors_nearest(const kmf_vectors *vectors, const float *query, int k,
                                    const size_t *without, size_t n_without,
                                    kmf_neighbour *list, size_t n, kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- word2vec --------------- */

typedef enum kmf_word_strand {
    KMF_WORDS_FWD,      /* sequences as they are                                       */
    KMF_WORDS_BOTH,     /* each on both strands                                        */
    KMF_WORDS_CANONICAL /* a k-mer and its reverse complement are one word             */
} kmf_word_strand;
KMF_API extern const char *const kmf_word_strand_names[]; /* fwd both canonical */

/* With k_min < k_max the length at each place is drawn, all equally likely (dna2vec). */
typedef struct kmf_word2vec_options {
    kmf_alphabet alphabet;
    int k_min, k_max; /* DNA to 12, protein to 5                                         */
    int strand;       /* kmf_word_strand; protein: FWD                                   */
    size_t stride;    /* letters from one k-mer to the next, 1 .. 65536                  */
    int frames;       /* 1: k sentences of k-mers end to end (ProtVec); one length, stride 1 */
    size_t dim;       /* 1 .. 1024                                                       */
    int window;       /* 1 .. 100: for each centre a reach of 1 .. window is drawn       */
    int negative;     /* noise words for each pair, 1 .. 63                              */
    int cbow;         /* 1: the centre from the mean of its window; 0: skip-gram         */
    double sample; /* a word of frequency f stays with probability sqrt(t/f) + t/f; 0: always */
    double alpha;  /* first learning rate, above 0, to 1; the last is a 10,000th of it */
    int epochs;    /* 1 .. 10000                                                      */
    uint64_t seed;
    int threads;     /* 1 .. 1024; 0: kmf_threads_default(). Does not change the result */
    uint64_t memory; /* bytes of packed letters kept in memory, 0 = 4 GiB               */
    const char *tmp; /* folder for what exceeds it; NULL: $TMPDIR, else /tmp. Copied    */
} kmf_word2vec_options;

/* k 6, forward, skip-gram, dim 100, window 5, negative 5, alpha 0.025, 5 epochs, no sampling. */
KMF_API void kmf_word2vec_options_default(kmf_word2vec_options *opts);

/*
 * Vectors in the making: skip-gram or CBOW with negative sampling, noise words drawn by the 3/4th
 * power of their counts (Mikolov et al. 2013). First sequences are added, then it is trained.
 * Threads work on copies of the rows they need, a lesson of 128 k-mers at a time; what 16
 * lessons have made of a row is added up in the order of the lessons. So the bits do not depend on
 * the number of threads, of which up to 16 find work.
 *
 * Noise words come in turn from a pool that 16 neighbouring centres share, and the two words at
 * one distance from a centre share theirs.
 */
typedef struct kmf_word2vec kmf_word2vec;

/* KMF_EINVAL: an option is out of range. */
KMF_API kmf_word2vec *kmf_word2vec_new(const kmf_word2vec_options *opts,
                                       kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_word2vec_free(kmf_word2vec *trainer);
/* For readers; NULL with one thread. */
KMF_API kmf_pool *kmf_word2vec_pool(kmf_word2vec *trainer);
/* All records of a reader from which none was taken, as one input. */
KMF_API int kmf_word2vec_read(kmf_word2vec *trainer, kmf_reader *reader,
                              kmf_err *err) KMF_MUST_CHECK;
/* One record. */
KMF_API int kmf_word2vec_add(kmf_word2vec *trainer, const char *seq, size_t len,
                             kmf_err *err) KMF_MUST_CHECK;
/* Ends the reading. KMF_EFORMAT: not one k-mer; KMF_ENOMEM says what would be needed. */
KMF_API int kmf_word2vec_begin(kmf_word2vec *trainer, kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_word2vec_state {
    uint64_t records, letters, ambiguous; /* read; letters that are none of the alphabet */
    uint64_t words, unseen;               /* of the table; of those: never met        */
    uint64_t kmers;                       /* in the corpus, of all lengths            */
    uint64_t tokens;                      /* learnt so far, as centres                */
    int epoch;                            /* 0 .. epochs                              */
    double done;                          /* 0 .. 1                                   */
    double alpha;
    double loss;    /* nats a pair, noise included, of late; NaN before */
    uint64_t bytes; /* of memory held */
} kmf_word2vec_state;

KMF_API void kmf_word2vec_information(const kmf_word2vec *trainer, kmf_word2vec_state *state);

/* Called between two steps, about ten times a second. 0: go on; 1: stop here. */
typedef int kmf_word2vec_fn(void *user, const kmf_word2vec_state *state);

/*
 * Trains on to the end, or until fn (NULL: none) says stop: 0 or 1. fn may call
 * kmf_word2vec_save. Negative: a kmf_code, KMF_ENUMERIC if the vectors grow beyond all bounds.
 */
KMF_API int kmf_word2vec_train(kmf_word2vec *trainer, kmf_word2vec_fn *fn, void *user,
                               kmf_err *err) KMF_MUST_CHECK;

/*
 * Checkpoint: all that is needed to go on as if nothing had happened, bit for bit. It is loaded
 * after kmf_word2vec_begin with the same inputs. KMF_EMODEL: the file is damaged, or of other
 * settings or inputs, and the message names the first that differs. Threads and memory may differ.
 */
KMF_API int kmf_word2vec_save(const kmf_word2vec *trainer, const char *path,
                              kmf_err *err) KMF_MUST_CHECK;
KMF_API int kmf_word2vec_load(kmf_word2vec *trainer, const char *path,
                              kmf_err *err) KMF_MUST_CHECK;

/* The vectors as they are now, a copy. Words that were never met keep those they were given. */
KMF_API kmf_vectors *kmf_word2vec_vectors(const kmf_word2vec *trainer,
                                          kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- model ------------------ */

typedef enum kmf_activation { KMF_GELU, KMF_GELU_TANH, KMF_RELU } kmf_activation;
typedef enum kmf_pooling {
    KMF_POOL_MEAN,
    KMF_POOL_CLS,
    KMF_POOL_MAX,
    KMF_POOL_NONE
} kmf_pooling;
typedef enum kmf_strand { KMF_STRAND_FWD, KMF_STRAND_RC, KMF_STRAND_BOTH } kmf_strand;
typedef enum kmf_norm { KMF_NORM_NONE, KMF_NORM_L2 } kmf_norm;

/*
 * The words for the enums above in options, config.json and provenance: index = value, NULL
 * after the last.
 */
KMF_API extern const char *const kmf_ambiguous_names[]; /* skip unk break error      */
KMF_API extern const char *const kmf_long_names[];      /* chunk truncate skip error */
KMF_API extern const char *const kmf_pooling_names[];   /* mean cls max none         */
KMF_API extern const char *const kmf_strand_names[];    /* fwd rc both               */
KMF_API extern const char *const kmf_norm_names[];      /* none l2                   */

/* The shape of an encoder, and what it was made for. */
typedef struct kmf_config {
    /* the encoder, as config.json has it */
    size_t vocab_size;        /* V */
    size_t embedding_size;    /* E; D unless a projection follows the embedding */
    size_t hidden_size;       /* D */
    size_t n_layers;          /* L */
    size_t n_heads;           /* H; D is a multiple of 2 H */
    size_t intermediate_size; /* F */
    size_t max_positions;     /* longest window it was made for, in tokens */
    size_t type_vocab_size;
    double layer_norm_eps;
    kmf_activation activation;
    int rotary_value; /* the values are turned as well */

    /* how it wants to be used: the "kmerformer" object of config.json, and our defaults */
    int k;
    size_t stride;
    size_t window;
    size_t overlap;
    int specials;
    kmf_pooling pooling;
    int layer; /* 0 embeddings .. L; negative counts from the end: -1 = L */
    kmf_strand strand;
    kmf_norm norm;
    kmf_ambiguous ambiguous;
} kmf_config;

typedef struct kmf_model kmf_model;

/*
 * The presets nano, tiny, small and base for k-mers of length k. KMF_EINVAL: no such preset, or
 * k not in 1 .. 12.
 */
KMF_API int kmf_config_preset(kmf_config *config, const char *preset, int k,
                              kmf_err *err) KMF_MUST_CHECK;

/*
 * A new model with weights drawn from seed: normal-like with standard deviation 0.02, biases 0,
 * layer norms 1 and 0. The same bits on every machine.
 */
KMF_API kmf_model *kmf_model_new(const kmf_config *config, uint64_t seed,
                                 kmf_err *err) KMF_MUST_CHECK;

/*
 * A model directory: config.json, vocab.txt, model.safetensors. Weights are mapped, not read,
 * where they are float32 already. Nothing in the files is trusted; KMF_EMODEL names what is
 * wrong. dir NULL: the default model that came with the program.
 */
KMF_API kmf_model *kmf_model_load(const char *dir, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_model_free(kmf_model *model);

typedef enum kmf_dtype { KMF_F32, KMF_F16, KMF_BF16, KMF_F64 } kmf_dtype;

/*
 * Writes the directory; dtype F32, F16 or BF16. provenance, the text of a JSON object, is kept
 * in config.json; NULL: the model's own stays. KMF_EINVAL: provenance is no such text, or a
 * weight is too large for dtype; KMF_EIO: dir exists and is not empty, or cannot be written.
 * Nothing is left behind on failure.
 */
KMF_API int kmf_model_save(const kmf_model *model, const char *dir, kmf_dtype dtype,
                           const char *provenance, kmf_err *err) KMF_MUST_CHECK;

KMF_API const kmf_config *kmf_model_config(const kmf_model *model);
KMF_API const kmf_vocab *kmf_model_vocab(const kmf_model *model);
/* The directory it was loaded from, "" if it was not. */
KMF_API const char *kmf_model_path(const kmf_model *model);
/* The kept provenance as JSON text, "" if there is none. */
KMF_API const char *kmf_model_provenance(const kmf_model *model);
KMF_API uint64_t kmf_model_n_parameters(const kmf_model *model);

/* One row of the parameter table, in file order. */
typedef struct kmf_tensor_info {
    const char *name;
    size_t shape[2];
    int rank;
    kmf_dtype dtype; /* as stored */
} kmf_tensor_info;
KMF_API size_t kmf_model_n_tensors(const kmf_model *model);
KMF_API void kmf_model_tensor(const kmf_model *model, size_t i, kmf_tensor_info *info);

/* ---------------------------------------------------------------- encoder ---------------- */

/*
 * The workspace of one thread for batches of at most max_tokens tokens with no sequence longer
 * than max_seq. Its size in bytes is a pure function of the three arguments.
 */
typedef struct kmf_encoder kmf_encoder;

/* 0 if it does not fit a size_t. */
KMF_API size_t kmf_encoder_bytes(const kmf_config *config, size_t max_tokens, size_t max_seq);
KMF_API kmf_encoder *kmf_encoder_new(const kmf_model *model, size_t max_tokens, size_t max_seq,
                                     kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_encoder_free(kmf_encoder *encoder);

/*
 * Runs n_seq sequences packed end to end: sequence s is ids[off[s]] .. ids[off[s+1] - 1],
 * off[0] is 0. Positions start at 0 in each. Returns the hidden states after `layer` layers (0:
 * the embeddings; 1 .. L), [off[n_seq], D] row-major, borrowed until the next call. A
 * sequence's rows have the same bits whatever else is in the batch. Every id must be below V,
 * every sequence have 1 .. max_seq tokens, off[n_seq] be at most max_tokens.
 */
KMF_API const float *kmf_encoder_forward(kmf_encoder *encoder, const int32_t *ids,
                                         const size_t *off, size_t n_seq, size_t layer);

/*
 * Masked-language-model logits of n_rows rows of the last kmf_encoder_forward:
 * logits [n_rows, V]. KMF_EMODEL if the model has no such head.
 */
KMF_API int kmf_encoder_logits(kmf_encoder *encoder, float *logits, const size_t *rows,
                               size_t n_rows, kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- embedding -------------- */

/* What a k-mer's vector weighs in the mean of its record. */
typedef enum kmf_weights {
    KMF_WEIGHTS_NONE, /* all the same                                                    */
    KMF_WEIGHTS_SIF   /* smooth inverse frequency, a / (a + p): a = 0.001, p its share of
                         the words of its length in training (Arora, Liang and Ma 2017)  */
} kmf_weights;
KMF_API extern const char *const kmf_weights_names[]; /* none sif */

/* -1 in an enum field or 0 in a size means: as the model says. */
typedef struct kmf_embed_options {
    int pooling;         /* kmf_pooling */
    int layer;           /* KMF_LAYER_MODEL, or as kmf_config.layer */
    int strand;          /* kmf_strand */
    int norm;            /* kmf_norm */
    int ambiguous;       /* kmf_ambiguous */
    int policy;          /* kmf_long; -1 = chunk */
    int k;               /* k-mer vectors: words of this length alone; 0: of all in the file */
    int weights;         /* k-mer vectors: kmf_weights; -1 = none */
    size_t stride;       /* bases */
    size_t window;       /* tokens */
    size_t overlap;      /* tokens; KMF_OVERLAP_MODEL: as the model says */
    size_t batch_tokens; /* of a batch, 0 = 4096; a longer chunk is a batch of its own;
                            tnf, kmer:K, k-mer vectors: letters, 0 = 262144 */
    int threads;         /* 1 .. 1024; 0: kmf_threads_default() */
    int strict;     /* any cut, chunk, ambiguity, unknown k-mer or empty record is an error */
    uint64_t shard; /* with n_shards > 1 only records shard, shard + n_shards, ... */
    uint64_t n_shards; /* 0 and 1: all of them */
} kmf_embed_options;

#define KMF_LAYER_MODEL (-1000000)
#define KMF_OVERLAP_MODEL ((size_t)-1)

KMF_API void kmf_embed_options_default(kmf_embed_options *opts);

/* What a whole run met. */
typedef struct kmf_embed_stats {
    uint64_t records;
    uint64_t bases;
    uint64_t tokens;    /* k-mers counted in the vectors                       */
    uint64_t ambiguous; /* windows with a base other than A, C, G, T           */
    uint64_t unknown;   /* k-mers that the vocabulary lacks; k-mer vectors: that have no
                           vector or never occurred in training, and are left out */
    uint64_t chunked;   /* records cut into more than one chunk                */
    uint64_t truncated; /* records that lost tokens to --long truncate or skip */
    uint64_t empty;     /* records without a valid k-mer: rows of NaN          */
} kmf_embed_stats;

/* One result. Pointers are valid during the call only. */
typedef struct kmf_row {
    uint64_t index; /* of the record, over all inputs                                 */
    const char *name;
    uint64_t len; /* bases                                                          */
    uint64_t tokens;
    uint64_t ambiguous;
    uint64_t chunks;
    int64_t position; /* KMF_POOL_NONE: base at which the token starts, -1: no token; else -1 */
    const float *vector; /* [dim] */
} kmf_row;

/* Called in input order. Returns 0, or a negative kmf_code with *err filled: the run ends. */
typedef int kmf_row_fn(void *user, const kmf_row *row, kmf_err *err);

typedef struct kmf_embedder kmf_embedder;

/*
 * model: a model directory, NULL for the default one, "tnf" (136 canonical tetranucleotide
 * frequencies), "kmer:K" (4^K k-mer frequencies, K 1 .. 8), or a file that kmf_vectors_load reads:
 * the weighted mean of the vectors of a record's k-mers. An option that such a model does not
 * have, when set, is KMF_EINVAL.
 */
KMF_API kmf_embedder *kmf_embedder_new(const char *model, const kmf_embed_options *opts,
                                       kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_embedder_free(kmf_embedder *embedder);
KMF_API size_t kmf_embedder_dim(const kmf_embedder *embedder);
/* The options in force, every default filled in. */
KMF_API void kmf_embedder_options(const kmf_embedder *embedder, kmf_embed_options *opts);
/* The pool, for readers. */
KMF_API kmf_pool *kmf_embedder_pool(kmf_embedder *embedder);
/* "tnf", "kmer:K", the file of vectors or the model's directory. */
KMF_API const char *kmf_embedder_name(const kmf_embedder *embedder);
/* NULL for tnf, kmer:K and k-mer vectors. */
KMF_API const kmf_model *kmf_embedder_model(const kmf_embedder *embedder);
/* NULL for all else but k-mer vectors. */
KMF_API const kmf_vectors *kmf_embedder_vectors(const kmf_embedder *embedder);
/* Bytes held for models, batches and workspaces; the longest record comes on top. */
KMF_API size_t kmf_embedder_bytes(const kmf_embedder *embedder);

/* Rows go to fn from kmf_embedder_add and kmf_embedder_finish, in the order of the calls. */
KMF_API void kmf_embedder_sink(kmf_embedder *embedder, kmf_row_fn *fn, void *user);
/*
 * fn is called from kmf_embedder_add and kmf_embedder_finish whenever a batch is done, with the
 * k-mers worked off so far, those of a second strand too. fn NULL: none.
 */
KMF_API void kmf_embedder_progress(kmf_embedder *embedder, kmf_progress_fn *fn, void *user);
/* What error messages name before a record, such as its file; borrowed, NULL: nothing. */
KMF_API void kmf_embedder_source(kmf_embedder *embedder, const char *source);
/*
 * Adds a record; name and seq are copied as far as needed. After a failure, of fn or our own,
 * the records that are not out yet are dropped and the embedder is as new, its statistics
 * apart.
 */
KMF_API int kmf_embedder_add(kmf_embedder *embedder, const char *name, const char *seq,
                             size_t len, kmf_err *err) KMF_MUST_CHECK;
/* Waits for all rows. The embedder is then as new, its statistics apart; also on failure. */
KMF_API int kmf_embedder_finish(kmf_embedder *embedder, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_embedder_statistics(const kmf_embedder *embedder, kmf_embed_stats *stats);

/*
 * One sequence, one vector [dim], NaN if it has no valid k-mer. KMF_EINVAL with KMF_POOL_NONE,
 * of a shard, or between kmf_embedder_add and kmf_embedder_finish.
 */
KMF_API int kmf_embed_sequence(kmf_embedder *embedder, float *vector, const char *seq,
                               kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- output ----------------- */

/*
 * Where rows go.
 *   path "-"       TSV on standard output: name, [position,] values as %.8g
 *   path "x.npy"   NumPy 1.0, C order [rows, dim], float32 or float16
 *   any other      the same TSV, gzip-compressed if the name ends in .gz
 * A file brings x.ids.tsv (index, name, length, tokens, ambiguous, chunks[, position]; line i
 * describes row i) and x.json (provenance). All are written under temporary names, synced and
 * renamed by kmf_output_commit; kmf_output_free without it leaves nothing behind.
 */
typedef struct kmf_output kmf_output;

KMF_API kmf_output *kmf_output_new(const char *path, size_t dim, int f16, int per_token,
                                   kmf_err *err) KMF_MUST_CHECK;
/* A kmf_row_fn: user is the kmf_output. */
KMF_API int kmf_output_row(void *output, const kmf_row *row, kmf_err *err);
/* provenance: JSON object text for x.json; ignored on standard output. */
KMF_API int kmf_output_commit(kmf_output *output, const char *provenance,
                              kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_output_free(kmf_output *output);

/*
 * Writes a whole file as all outputs are written: under a temporary name, synced and renamed;
 * gzip-compressed if path ends in .gz. What is no regular file is written in place.
 */
KMF_API int kmf_file_save(const char *path, const void *bytes, size_t n,
                          kmf_err *err) KMF_MUST_CHECK;

/*
 * Removes the temporary files of all outputs of this process. Only for a signal handler that
 * then ends the process; async-signal-safe.
 */
KMF_API void kmf_remove_temporaries(void);

/*
 * Provenance of a run as JSON text, for kmf_output_commit: version, command line, model and its
 * MD5, settings, inputs, statistics. The caller frees it with kmf_text_free.
 */
KMF_API char *kmf_provenance(const kmf_embedder *embedder, const char *command_line,
                             const char *const *inputs, size_t n_inputs,
                             kmf_err *err) KMF_MUST_CHECK;
/* A JSON object of n pairs of strings: key, value, key, value, ... For kmf_model_save. */
KMF_API char *kmf_json_pairs(const char *const *pairs, size_t n, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_text_free(char *text);

/*
 * Puts the files of a sharded run (each with its .ids.tsv and .json, in any order) back into
 * input order at out, the bytes being those of the unsharded run. KMF_EMODEL: shards missing,
 * doubled, or of different runs.
 */
KMF_API int kmf_merge(const char *const *shards, size_t n_shards, const char *out,
                      const char *command_line, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
