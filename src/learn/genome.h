/* SPDX-License-Identifier: MIT */
/*
 * What is learnt from and what is held out of it: two corpora without a base in common, if the
 * records have none. Where those of names like record:beg-end do (seq/places.h), with others of
 * that kind or with the record itself, one of the first 2^18, it is counted.
 *
 *   held out whole    records of the names given, and all records of an input read with
 *                     held_whole
 *   held out in part  of every other record the last floor(fraction * length) bases
 *   learnt from       the rest
 *
 * A, C, G, T and U of either case are bases, all else cuts, and so does the border between the
 * two parts. Runs of fewer than `shortest` bases are left out of both. Lower case, which marks
 * repeats in many genomes, may be remembered: such letters are called soft.
 */
#ifndef KMF_GENOME_H
#define KMF_GENOME_H

#include "kmerformer.h"
#include "words/corpus.h"

#include <stdbool.h>

typedef struct kmf_genome kmf_genome;

typedef enum kmf_genome_part {
    KMF_GENOME_TRAIN,
    KMF_GENOME_HELD,
    KMF_GENOME_PARTS
} kmf_genome_part;

typedef struct kmf_genome_options {
    const char *const *held; /* [n_held] names of records, up to the first blank; copied */
    size_t n_held;
    double fraction; /* 0 .. 0.5 */
    size_t shortest; /* 1 or more */
    uint64_t memory; /* bytes of packed letters kept in memory, 0 = 4 GiB; the rest in a file */
    const char *tmp; /* folder for that; NULL: $TMPDIR, else /tmp. Copied */
    bool soft;       /* remember lower case */
    kmf_sources sources;
} kmf_genome_options;

/* Of one of the two parts. */
typedef struct kmf_genome_part_info {
    uint64_t too_short; /* bases in runs that were left out */
    uint64_t kept;      /* letters of the corpus */
    uint64_t segments;  /* of the corpus */
    uint64_t soft;      /* of the letters kept; 0 if that is not remembered */
} kmf_genome_part_info;

/* letters = ambiguous + too_short + kept of both parts. */
typedef struct kmf_genome_info {
    uint64_t inputs, records;
    uint64_t held_records; /* of those: held out whole */
    uint64_t held_shared;  /* records whose held-out bases are, by their names, learnt from in
                              another of their input; once finished */
    uint64_t letters;      /* in the records */
    uint64_t ambiguous;    /* of those: neither A, C, G, T nor U */
    kmf_genome_part_info parts[KMF_GENOME_PARTS];
    uint32_t checksum; /* of both corpora and what is soft; once finished */
} kmf_genome_info;

/* No names, fraction 0, shortest 1, 4 GiB, soft not remembered. */
void kmf_genome_options_default(kmf_genome_options *opts);

/* KMF_EINVAL: an option is out of range, or a name is given twice. */
kmf_genome *kmf_genome_new(const kmf_genome_options *opts, kmf_err *err) KMF_MUST_CHECK;
void kmf_genome_free(kmf_genome *genome);

/*
 * All records of a reader from which none was taken, as one input. The longest record is in
 * memory as a whole, in the reader. fn (NULL: none) is told now and then how many letters were
 * read so far, of all inputs. After a failure the genome can only be freed.
 */
int kmf_genome_read(kmf_genome *genome, kmf_reader *reader, bool held_whole,
                    kmf_progress_fn *fn, void *user, kmf_err *err) KMF_MUST_CHECK;
/* One record. */
int kmf_genome_add(kmf_genome *genome, const char *name, const char *seq, size_t len,
                   bool held_whole, kmf_err *err) KMF_MUST_CHECK;
/*
 * Nothing is added from now on; the functions below may be used, by any threads at once.
 * KMF_EINVAL: a name to be held out never came or came twice, and the message names it; or all
 * that could be learnt from is held out. KMF_EFORMAT: nothing can be learnt from, held out or
 * not. The held-out part may be empty.
 */
int kmf_genome_finish(kmf_genome *genome, kmf_err *err) KMF_MUST_CHECK;

/* Borrowed from genome; for use once it is finished. */
const kmf_corpus *kmf_genome_corpus(const kmf_genome *genome, kmf_genome_part part);
/* to[i] = 1 if letter at + i of the part's corpus is soft, else 0, for n letters. */
void kmf_genome_soft(const kmf_genome *genome, kmf_genome_part part, uint8_t *to, uint64_t at,
                     size_t n);
/* Sources that have letters in a part, in the order of its corpus. */
size_t kmf_genome_n_sources(const kmf_genome *genome, kmf_genome_part part);
/* The one that letter `at` of the part's corpus comes from. */
size_t kmf_genome_source(const kmf_genome *genome, kmf_genome_part part, uint64_t at);
/* The first letter of a source; of source n_sources: the number of letters. */
uint64_t kmf_genome_source_start(const kmf_genome *genome, kmf_genome_part part, size_t source);
void kmf_genome_information(const kmf_genome *genome, kmf_genome_info *info);
/* Bytes of memory held; the system's cache of the unnamed files is not among them. */
uint64_t kmf_genome_bytes(const kmf_genome *genome);

#endif
