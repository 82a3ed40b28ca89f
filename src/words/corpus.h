/* SPDX-License-Identifier: MIT */
/*
 * Sequences kept to be gone over again and again: letters packed to 2 bits (DNA) or 8 (protein),
 * cut wherever there is another letter.
 *
 *   letter    numbered 0 .. n_letters - 1 over all inputs, ambiguous ones left out
 *   segment   letters of one record without an ambiguous one between them; segments follow each
 *             other without a gap
 *
 * What exceeds the memory goes to an unnamed file, which is mapped: the system then keeps as much
 * of it in memory as it has room for.
 */
#ifndef KMF_CORPUS_H
#define KMF_CORPUS_H

#include "kmerformer.h"
#include "words/alphabet.h"

typedef struct kmf_corpus kmf_corpus;

typedef struct kmf_corpus_info {
    uint64_t inputs, records;
    uint64_t letters;   /* in the records                                             */
    uint64_t ambiguous; /* of those: no letters of the alphabet                       */
    uint64_t too_short; /* letters of the alphabet in segments that were too short    */
    uint64_t kept;      /* letters of the corpus                                      */
    uint64_t segments;
    uint32_t checksum; /* of all letters and segments, to know a corpus again */
} kmf_corpus_info;

/*
 * Segments of fewer than `shortest` letters are left out. memory: bytes of packed letters that are
 * kept in memory. tmp: as kmf_spill_new; borrowed.
 */
kmf_corpus *kmf_corpus_new(kmf_alphabet alphabet, size_t shortest, uint64_t memory,
                           const char *tmp, kmf_err *err) KMF_MUST_CHECK;
void kmf_corpus_free(kmf_corpus *corpus);

/*
 * All records of a reader from which none was taken, as one input. fn (NULL: none) is told now and
 * then how many letters the corpus has read so far. After a failure but KMF_EINVAL it can only be
 * freed, here and below.
 */
int kmf_corpus_read(kmf_corpus *corpus, kmf_reader *reader, kmf_progress_fn *fn, void *user,
                    kmf_err *err) KMF_MUST_CHECK;
/* One record. */
int kmf_corpus_add(kmf_corpus *corpus, const char *seq, size_t len,
                   kmf_err *err) KMF_MUST_CHECK;
/* Nothing is added from now on; the functions below may be used, by any threads at once. */
int kmf_corpus_finish(kmf_corpus *corpus, kmf_err *err) KMF_MUST_CHECK;

void kmf_corpus_information(const kmf_corpus *corpus, kmf_corpus_info *info);
/* Bytes of memory held; the system's cache of the unnamed file is not among them. */
uint64_t kmf_corpus_bytes(const kmf_corpus *corpus);
/* The segment that letter `at` lies in. */
uint64_t kmf_corpus_segment(const kmf_corpus *corpus, uint64_t at);
/* The first letter of a segment; of segment `segments`: the number of letters. */
uint64_t kmf_corpus_start(const kmf_corpus *corpus, uint64_t segment);
/* to[i] = letter at + i, for n letters. */
void kmf_corpus_letters(const kmf_corpus *corpus, uint8_t *to, uint64_t at, size_t n);

#endif
