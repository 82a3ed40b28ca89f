/* SPDX-License-Identifier: MIT */
/*
 * What a masked model is asked: bases are hidden in spans, and the k-mers follow.
 *
 *   bases     spans of span_min .. span_max bases are hidden, so that each base is hidden with
 *             probability `rate`; each span has one fate: masked, random or kept
 *   tokens    token j covers bases j stride .. j stride + k - 1
 *               a masked base among them            [MASK]            label: the true k-mer
 *               else a random or kept one           the k-mer seen    label: the true k-mer
 *               none                                the true k-mer    no label
 *
 * So no masked base can be read off a token that is still there, however much tokens overlap.
 */
#ifndef KMF_SPANS_H
#define KMF_SPANS_H

#include "base/rng.h"
#include "kmerformer.h"

#include <stdbool.h>

/* ---------------------------------------------------------------- bases ----------------- */

typedef enum kmf_fate {
    KMF_FATE_VISIBLE,
    KMF_FATE_MASKED,
    KMF_FATE_RANDOM, /* bases drawn from all four, each anew, are seen in their place */
    KMF_FATE_KEPT    /* seen as they are, and yet asked for */
} kmf_fate;

#define KMF_SPAN_MAX 64

typedef struct kmf_spans_options {
    double rate;     /* share of the bases that is hidden, 0.001 .. 0.5 */
    size_t span_min; /* bases, 1 .. KMF_SPAN_MAX */
    size_t span_max; /* span_min .. KMF_SPAN_MAX; each length is equally likely */
    double p_mask;   /* of a span; with p_random 1 at most */
    double p_random; /* what is left is kept */
} kmf_spans_options;

/* 0.15, 1 to 3 bases, 0.8 masked, 0.1 random. */
void kmf_spans_options_default(kmf_spans_options *opts);
/* KMF_EINVAL names the option that is out of range. */
int kmf_spans_options_check(const kmf_spans_options *opts, kmf_err *err) KMF_MUST_CHECK;

/*
 * Draws what becomes of n letters (0 .. 3), n >= 1: hidden[i] is a kmf_fate, seen[i] the letter
 * that the model may see: one drawn from all four in random spans. Every base has the
 * same chance, those at the ends too; where not one would be hidden one span is, at a place
 * drawn uniformly. Returns how many bases are hidden, 1 or more. opts are checked ones. All
 * that is drawn comes from rng, in this order; the same bits on every machine.
 *
 *   unit < rate        base 0 lies in a span: one of the places (length, rest), rest 1 .. length,
 *                      the shorter first: below how many they are; rest bases are in the window
 *   unit < s           a span begins at the next base that is in none; of m bases in the mean,
 *                      s = rate / (m (1 - rate) + rate). Its length: below how many there are,
 *                      the shortest is 0
 *   each span          then its fate: unit, below p_mask masked, below p_mask + p_random random;
 *                      of a random one its letters
 *   none was hidden    below n: where one begins; its length; its fate
 */
size_t kmf_spans_draw(uint8_t *hidden, uint8_t *seen, const kmf_spans_options *opts,
                      kmf_rng *rng, const uint8_t *letters, size_t n);

/* ---------------------------------------------------------------- tokens ---------------- */

/* How letters become tokens. A plain value. */
typedef struct kmf_spelling {
    const kmf_vocab *vocab; /* borrowed */
    size_t k, stride;
    size_t lead;                 /* tokens before the first k-mer: 1 with [CLS], else 0 */
    size_t frame;                /* tokens that are no k-mers: 2 with [CLS] and [SEP], else 0 */
    int32_t mask, unk, cls, sep; /* -1: not in the vocabulary */
} kmf_spelling;

/*
 * stride: 1 or more; beyond k there are bases that no token covers. KMF_EMODEL: the vocabulary
 * has no [MASK], with specials no [CLS] or [SEP], or lacks k-mers and has no [UNK].
 */
int kmf_spelling_make(kmf_spelling *spelling, const kmf_vocab *vocab, size_t stride,
                      bool specials, kmf_err *err) KMF_MUST_CHECK;
/* k-mers of n letters: 0 if n < k. */
size_t kmf_spelling_kmers(const kmf_spelling *spelling, size_t n);
/* Tokens of n letters: the k-mers and the frame. */
size_t kmf_spelling_tokens(const kmf_spelling *spelling, size_t n);
/* The fewest letters that make so many tokens, frame included; tokens: frame + 1 or more. */
size_t kmf_spelling_letters(const kmf_spelling *spelling, size_t tokens);
/*
 * The k-mers that cover letter i of n: first .. end - 1, counted from 0 without the frame;
 * none: first == end. Token j of the tokens is k-mer j - lead.
 */
void kmf_spelling_covers(const kmf_spelling *spelling, size_t n, size_t i, size_t *first,
                         size_t *end);

/* Of a window; the letters and what was drawn for them. */
typedef struct kmf_question {
    const uint8_t *letters; /* [n] true ones */
    const uint8_t *seen;    /* [n] */
    const uint8_t *hidden;  /* [n] */
    const uint8_t *soft;    /* [n] or NULL: none is */
    size_t n;
    float soft_weight; /* what a soft base counts; others count 1 */
} kmf_question;

/*
 * Fills ids, labels and weights, [kmf_spelling_tokens(spelling, n)] each, and returns how many
 * tokens have a label. labels[j]: the id of the true k-mer, or -1: not asked. Not asked are
 * also k-mers that the vocabulary lacks, and never [CLS] and [SEP]; in ids what the vocabulary
 * lacks is [UNK]. weights (may be NULL): the mean over the token's hidden bases, whatever their
 * fate, of what these count; 0 without a label.
 */
size_t kmf_spelling_ask(const kmf_spelling *spelling, const kmf_question *question,
                        int32_t *ids, int32_t *labels, float *weights);
/* The hidden bases that a labelled token covers, in order: n at most. Returns how many. */
size_t kmf_spelling_asked(const kmf_spelling *spelling, const kmf_question *question,
                          const int32_t *labels, uint32_t *bases);
/*
 * Whether the input shows base i: a k-mer among the ids covers it, so that the base seen there
 * can be copied. Never so for a masked base.
 */
bool kmf_spelling_readable(const kmf_spelling *spelling, const int32_t *ids, size_t n,
                           size_t i);

#endif
