/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: learning the vectors of k-mers. */
#ifndef KMERFORMER_WORD2VEC_H
#define KMERFORMER_WORD2VEC_H

#include "reader.h"
#include "vectors.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    double sample;    /* 0 .. 1: a word of frequency f stays with probability sqrt(t/f) + t/f;
                      0: always */
    double alpha;     /* first learning rate, 1e-30 .. 1; the last is a 10,000th of it */
    int epochs;       /* 1 .. 10000                                                      */
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
 * Threads work on copies of the rows they need, a batch of 128 k-mers at a time; what 16 batches
 * have made of a row is added up in the order of the batches. So the bits do not depend on the
 * number of threads, of which up to 16 find work.
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
/*
 * All records of a reader from which none was taken, as one input. fn (NULL: none) is told now and
 * then how many letters were read so far. After a failure the trainer can only be freed:
 * kmf_word2vec_begin is KMF_EINVAL.
 */
KMF_API int kmf_word2vec_read(kmf_word2vec *trainer, kmf_reader *reader, kmf_progress_fn *fn,
                              void *user, kmf_err *err) KMF_MUST_CHECK;
/*
 * One record. KMF_EINVAL for this and the one above: the training has begun, some were taken, or
 * one of them has failed before.
 */
KMF_API int kmf_word2vec_add(kmf_word2vec *trainer, const char *seq, size_t len,
                             kmf_err *err) KMF_MUST_CHECK;
/*
 * Ends the reading, counts the words and makes all room that training takes. fn (NULL: none) is
 * told now and then how many letters were gone over, each once for every length. May be called
 * once, even if it fails; the functions below are KMF_EINVAL before. KMF_EFORMAT: not one k-mer;
 * KMF_ENOMEM says what would be needed.
 */
KMF_API int kmf_word2vec_begin(kmf_word2vec *trainer, kmf_progress_fn *fn, void *user,
                               kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_word2vec_state {
    uint64_t records, letters, ambiguous; /* read; letters that are none of the alphabet */
    uint64_t too_short;                   /* of the alphabet, in runs that hold no k-mer */
    uint64_t words, unseen;               /* of the table; of those: never met        */
    uint64_t kmers;                       /* in the corpus, of all lengths            */
    uint64_t tokens;                      /* learnt so far, as centres                */
    int epoch;                            /* 0 .. epochs                              */
    double done;                          /* 0 .. 1                                   */
    double alpha;
    double loss;       /* nats a pair, noise included, of late; NaN before */
    uint64_t bytes;    /* of memory held, with that of kmf_word2vec_vectors */
    int threads;       /* that are used: no more than find work */
    int other_kernels; /* 1: the checkpoint gone on from was written where last digits differ */
} kmf_word2vec_state;

KMF_API void kmf_word2vec_information(const kmf_word2vec *trainer, kmf_word2vec_state *state);

/* Called between two steps, about ten times a second. 0: go on; any other number: stop here. */
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

#ifdef __cplusplus
}
#endif

#endif
