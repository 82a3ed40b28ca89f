/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: what a masked language model expects at the tokens of sequences. */
#ifndef KMERFORMER_LOGITS_H
#define KMERFORMER_LOGITS_H

#include "embed.h"
#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kmf_logits_mask {
    KMF_LOGITS_MASK_NONE,     /* the sequence as it stands */
    KMF_LOGITS_MASK_TOGETHER, /* [MASK] in the place of all tokens asked for, at once */
    KMF_LOGITS_MASK_EACH      /* of one after the other, each in a pass of its own */
} kmf_logits_mask;
KMF_API extern const char *const kmf_logits_mask_names[]; /* none together each */

/* Bases beg .. end - 1 of a sequence, from 0. */
typedef struct kmf_base_span {
    uint64_t beg, end;
} kmf_base_span;

typedef struct kmf_logits_options {
    kmf_logits_mask mask;
    const kmf_base_span *spans; /* asked for: tokens that hold a base of one of these; copied */
    size_t n_spans;             /* 0: all tokens but those of the frame */
    int exact;                  /* tokens as the published tokenizer gives them */
    size_t top;                 /* so many candidates of each token; 0: the logits of all */
    int probabilities;          /* the softmax in place of the logits; with top 0 */
    int threads;                /* 1 to KMF_THREADS_MAX; 0: kmf_threads_default() */
} kmf_logits_options;

/* All tokens as they stand, all logits. */
KMF_API void kmf_logits_options_default(kmf_logits_options *opts);

typedef struct kmf_candidate {
    int32_t id;
    float logit;
    float probability; /* softmax over the whole vocabulary */
} kmf_candidate;

/* Of one token that was asked for. Pointers are valid during the call only. */
typedef struct kmf_logits_row {
    uint64_t index;            /* of the record, from 0 */
    const char *name;          /* of the record */
    uint64_t len;              /* letters of the record */
    uint64_t position;         /* 0-based base at which the token begins */
    int32_t id;                /* of the token that stands there */
    const float *values;       /* [V], logits or probabilities; NULL with top */
    const kmf_candidate *best; /* [n_best], largest logit first, then smallest id */
    size_t n_best;             /* top, or V where that is less; 0 without */
} kmf_logits_row;

/*
 * Takes one row, in the order of records and bases. Returns 0, or a negative kmf_code, which ends
 * the run; *err says why. Any other number ends it, too: KMF_EINVAL.
 */
typedef int kmf_logits_fn(void *user, const kmf_logits_row *row, kmf_err *err);

/*
 * A run over sequences, to be used by one thread. Sequences that are longer than the model's
 * window go through it in its chunks; a token that two of them share is counted in the one in which
 * it sits deeper, and masked in both. Tokens are worked on by all threads, and the bits are those
 * of one. Memory, for each thread: an encoder; with top 0 the logits of a window's tokens, or of
 * 512 where that is less; else the candidates of twice as many tokens.
 */
typedef struct kmf_logits kmf_logits;

/*
 * model is borrowed. KMF_EMODEL: it has no masked-language-model head, or no [MASK] where one is
 * needed; KMF_EINVAL: an option is out of range.
 */
KMF_API kmf_logits *kmf_logits_new(const kmf_model *model, const kmf_logits_options *opts,
                                   kmf_logits_fn *fn, void *user, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_logits_free(kmf_logits *logits);
/*
 * Adds one sequence; its rows, and those of others before it, are given out when there is work for
 * all threads. KMF_EFORMAT: the sequence cannot be cut, after the rows of those before it and of
 * its own chunks before that place;
 * KMF_ENUMERIC: logits are not finite, of this record or one before it, which is named; or what fn
 * returned. After a failure the run can only be freed: this and the next two are KMF_EINVAL.
 */
KMF_API int kmf_logits_add(kmf_logits *logits, const char *name, const char *seq, size_t len,
                           kmf_err *err) KMF_MUST_CHECK;
/* Gives out all rows of the sequences so far; more may follow. */
KMF_API int kmf_logits_flush(kmf_logits *logits, kmf_err *err) KMF_MUST_CHECK;
/* The same, behind the last sequence. KMF_EMODEL: an earlier run of this one had more of them. */
KMF_API int kmf_logits_finish(kmf_logits *logits, kmf_err *err) KMF_MUST_CHECK;
/* What was read, and what the cutting lost: of all records, be their rows of an earlier run. */
KMF_API void kmf_logits_statistics(const kmf_logits *logits, kmf_embed_stats *stats);

/* ---------------------------------------------------------------- single bases ----------- */

/* What a model expects of one base. */
typedef struct kmf_base_row {
    uint64_t index;    /* of the record, from 0 */
    const char *name;  /* of the record; valid during the call only */
    uint64_t position; /* of the base, from 0 */
    char letter;       /* that stands there: A, C, G or T */
    size_t n_tokens;   /* that hold it, and tell of it */
    double p[4];       /* of A, C, G and T; sum 1 */
} kmf_base_row;

/* Takes one base, in the order of records and bases. As kmf_logits_fn. */
typedef int kmf_base_fn(void *user, const kmf_base_row *row, kmf_err *err);

/*
 * Makes bases of tokens that are k-mers: each token that holds a base gives each letter the sum of
 * the probabilities of all k-mers with that letter in that place; what all tokens give, added up
 * and then scaled to sum 1, is what the model says. (What pretrain calls the bits of a base are
 * -log2 of that of the true one.) A token of one letter, as nucleotide vocabularies have, tells
 * of that alone; other tokens tell nothing. For one thread.
 */
typedef struct kmf_bases kmf_bases;

/*
 * spans: bases that are given out, n_spans 0: all that a token tells of; copied. model: borrowed.
 * KMF_EMODEL: its tokens are no k-mers; KMF_EINVAL: a span holds no base.
 */
KMF_API kmf_bases *kmf_bases_new(const kmf_model *model, const kmf_base_span *spans,
                                 size_t n_spans, kmf_base_fn *fn, void *user,
                                 kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_bases_free(kmf_bases *bases);
/*
 * A kmf_logits_fn, bases its user: of the probabilities of all (top 0). Gives out the bases that no
 * token to come holds. KMF_ENUMERIC: none of the k-mers that may stand there is possible; or what
 * fn returned. After a failure the bases can only be freed.
 */
KMF_API int kmf_bases_add(void *bases, const kmf_logits_row *row, kmf_err *err) KMF_MUST_CHECK;
/* Bases that are asked for of a record of len letters. Those that no token tells of have no row. */
KMF_API uint64_t kmf_bases_asked(const kmf_bases *bases, uint64_t len);
/* Gives out the others; more may follow, of another record. */
KMF_API int kmf_bases_finish(kmf_bases *bases, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
