/* SPDX-License-Identifier: MIT */
/*
 * Where spans lie. From the left on, at each base that is not in a span, a span begins with
 * probability s; it takes m = (span_min + span_max) / 2 bases in the mean. One such decision
 * takes s m hidden and 1 - s visible bases, so the share of hidden ones is
 *
 *     rate = s m / (s m + 1 - s)        s = rate / (m (1 - rate) + rate)
 *
 * Gaps between spans are geometric, and may be empty. Were the first base of a window the first
 * decision, it would be hidden with probability s, which is much less than the rate. So the
 * window is a look at a process that has gone on for ever: its first base is hidden with
 * probability `rate`, in a span of length l with probability proportional to l, at any of the l
 * places in it. From there the process goes on as above, and every base is hidden with the same
 * probability. Spans are cut off at both ends.
 *
 * Comparisons are of multiples of 2^-53 with s, which takes four operations of IEEE arithmetic:
 * no logarithm, whose last bit depends on the library, decides about a base.
 *
 * Leaks. Masking single tokens of overlapping k-mers hides nothing: the neighbours spell the
 * missing base. Here a token shows a base only if it touches no masked one, so no masked base
 * is shown. A kept span is seen as it is and a random one wrongly; were the fate drawn for each
 * token, a kept one would give its masked neighbours away.
 */
#include "learn/spans.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

#define RATE_MIN 0.001
#define RATE_MAX 0.5

void kmf_spans_options_default(kmf_spans_options *opts)
{
    *opts = (kmf_spans_options){
        .rate = 0.15, .span_min = 1, .span_max = 3, .p_mask = 0.8, .p_random = 0.1};
}

int kmf_spans_options_check(const kmf_spans_options *opts, kmf_err *err)
{
    const kmf_spans_options *o = opts;
    if (!(o->rate >= RATE_MIN && o->rate <= RATE_MAX))
        return kmf_fail(err, KMF_EINVAL,
                        "the share of masked bases is %g: it must be from %g to %g", o->rate,
                        RATE_MIN, RATE_MAX);
    if (o->span_min < 1 || o->span_min > o->span_max || o->span_max > KMF_SPAN_MAX)
        return kmf_fail(
            err, KMF_EINVAL,
            "masked spans of %zu to %zu bases: they must have 1 to %d, the shorter first",
            o->span_min, o->span_max, KMF_SPAN_MAX);
    if (!(o->p_mask >= 0 && o->p_random >= 0 && o->p_mask + o->p_random <= 1))
        return kmf_fail(
            err, KMF_EINVAL,
            "%g of the spans masked and %g random: both must be from 0 to 1, and so "
            "must be their sum",
            o->p_mask, o->p_random);
    return 0;
}

/* ---------------------------------------------------------------- bases ----------------- */

/* A window in the making. */
typedef struct drawing {
    uint8_t *hidden, *seen; /* borrowed [n] */
    size_t n;
    size_t n_hidden;
    const kmf_spans_options *opts; /* borrowed */
    kmf_rng *rng;                  /* borrowed */
} drawing;

static size_t draw_length(const drawing *d)
{
    size_t lengths = d->opts->span_max - d->opts->span_min + 1;
    return d->opts->span_min + (size_t)kmf_rng_below(d->rng, lengths);
}

/* What is left, 1 or more, of a span that the window begins in. */
static size_t draw_rest(const drawing *d)
{
    size_t places = 0;
    for (size_t l = d->opts->span_min; l <= d->opts->span_max; l++)
        places += l;
    size_t place = (size_t)kmf_rng_below(d->rng, places);
    size_t l = d->opts->span_min;
    while (place >= l)
        place -= l++;
    return place + 1;
}

static kmf_fate draw_fate(const drawing *d)
{
    double x = kmf_rng_unit(d->rng);
    if (x < d->opts->p_mask)
        return KMF_FATE_MASKED;
    return x < d->opts->p_mask + d->opts->p_random ? KMF_FATE_RANDOM : KMF_FATE_KEPT;
}

static void hide(drawing *d, size_t at, size_t len)
{
    kmf_fate fate = draw_fate(d);
    size_t end = d->n - at > len ? at + len : d->n;
    d->n_hidden += end - at;
    memset(d->hidden + at, (int)fate, end - at);
    for (; fate == KMF_FATE_RANDOM && at < end; at++)
        d->seen[at] = (uint8_t)kmf_rng_below(d->rng, 4);
}

size_t kmf_spans_draw(uint8_t *hidden, uint8_t *seen, const kmf_spans_options *opts,
                      kmf_rng *rng, const uint8_t *letters, size_t n)
{
    assert(n >= 1);
    drawing d = {.hidden = hidden, .seen = seen, .n = n, .opts = opts, .rng = rng};
    double mean = (double)(opts->span_min + opts->span_max) / 2;
    double begins = opts->rate / (mean * (1 - opts->rate) + opts->rate);
    memset(hidden, KMF_FATE_VISIBLE, n);
    memcpy(seen, letters, n);
    size_t at = 1;
    if (kmf_rng_unit(rng) < opts->rate) {
        at = draw_rest(&d);
        hide(&d, 0, at);
    }
    while (at < n) {
        size_t len = 1;
        if (kmf_rng_unit(rng) < begins) {
            len = draw_length(&d);
            hide(&d, at, len);
        }
        at += len;
    }
    if (d.n_hidden == 0) {
        at = (size_t)kmf_rng_below(rng, n);
        hide(&d, at, draw_length(&d));
    }
    return d.n_hidden;
}

/* ---------------------------------------------------------------- spelling -------------- */

static bool lacks_kmers(const kmf_vocab *vocab)
{
    uint64_t n = (uint64_t)1 << 2 * kmf_vocab_k(vocab);
    for (uint64_t code = 0; code < n; code++)
        if (kmf_vocab_kmer(vocab, code) < 0)
            return true;
    return false;
}

int kmf_spelling_make(kmf_spelling *spelling, const kmf_vocab *vocab, size_t stride,
                      bool specials, kmf_err *err)
{
    assert(stride >= 1);
    kmf_spelling s = {.vocab = vocab, .stride = stride, .k = (size_t)kmf_vocab_k(vocab)};
    s.mask = kmf_vocab_special(vocab, KMF_MASK);
    s.unk = kmf_vocab_special(vocab, KMF_UNK);
    s.cls = kmf_vocab_special(vocab, KMF_CLS);
    s.sep = kmf_vocab_special(vocab, KMF_SEP);
    if (specials) {
        s.lead = 1;
        s.frame = 2;
    }
    if (s.mask < 0)
        return kmf_fail(err, KMF_EMODEL, "the vocabulary has no [MASK]");
    if (specials && (s.cls < 0 || s.sep < 0))
        return kmf_fail(err, KMF_EMODEL, "the vocabulary has no [CLS] and [SEP]");
    if (s.unk < 0 && lacks_kmers(vocab))
        return kmf_fail(err, KMF_EMODEL,
                        "the vocabulary lacks some %d-mers and has no [UNK] for them",
                        kmf_vocab_k(vocab));
    *spelling = s;
    return 0;
}

size_t kmf_spelling_kmers(const kmf_spelling *spelling, size_t n)
{
    return n < spelling->k ? 0 : (n - spelling->k) / spelling->stride + 1;
}

size_t kmf_spelling_tokens(const kmf_spelling *spelling, size_t n)
{
    return kmf_spelling_kmers(spelling, n) + spelling->frame;
}

size_t kmf_spelling_letters(const kmf_spelling *spelling, size_t tokens)
{
    assert(tokens > spelling->frame);
    return (tokens - spelling->frame - 1) * spelling->stride + spelling->k;
}

void kmf_spelling_covers(const kmf_spelling *spelling, size_t n, size_t i, size_t *first,
                         size_t *end)
{
    size_t kmers = kmf_spelling_kmers(spelling, n);
    size_t beg = i < spelling->k ? 0 : (i - spelling->k) / spelling->stride + 1;
    size_t stop = i / spelling->stride + 1;
    *end = stop < kmers ? stop : kmers;
    *first = beg < *end ? beg : *end;
}

/* ---------------------------------------------------------------- tokens ---------------- */

/* Of the k-mer that begins at a base; at least one of its bases is hidden. */
static float weight_of(const kmf_question *q, size_t beg, size_t k)
{
    size_t n_hidden = 0;
    size_t n_soft = 0;
    for (size_t i = beg; i < beg + k; i++) {
        bool hidden = q->hidden[i] != KMF_FATE_VISIBLE;
        n_hidden += hidden;
        n_soft += hidden && q->soft && q->soft[i];
    }
    if (n_soft == 0)
        return 1;
    return ((float)(n_hidden - n_soft) + (float)n_soft * q->soft_weight) / (float)n_hidden;
}

/*
 * The codes roll along both sequences. A token touches a hidden (masked) base if the last one
 * so far lies in it: `hidden_to` (`masked_to`) is the base after that.
 */
size_t kmf_spelling_ask(const kmf_spelling *spelling, const kmf_question *question,
                        int32_t *ids, int32_t *labels, float *weights)
{
    const kmf_spelling *s = spelling;
    const kmf_question *q = question;
    uint64_t low = ((uint64_t)1 << 2 * s->k) - 1;
    uint64_t code = 0;
    uint64_t code_seen = 0;
    size_t hidden_to = 0;
    size_t masked_to = 0;
    size_t n_labels = 0;
    size_t beg = 0; /* of the next k-mer */
    size_t j = s->lead;
    for (size_t i = 0; i < q->n; i++) {
        code = (code << 2 | q->letters[i]) & low;
        code_seen = (code_seen << 2 | q->seen[i]) & low;
        hidden_to = q->hidden[i] != KMF_FATE_VISIBLE ? i + 1 : hidden_to;
        masked_to = q->hidden[i] == KMF_FATE_MASKED ? i + 1 : masked_to;
        if (i + 1 < beg + s->k)
            continue;
        ids[j] = masked_to > beg ? s->mask : kmf_vocab_kmer(s->vocab, code_seen);
        if (ids[j] < 0)
            ids[j] = s->unk;
        labels[j] = hidden_to > beg ? kmf_vocab_kmer(s->vocab, code) : -1;
        if (weights)
            weights[j] = labels[j] >= 0 ? weight_of(q, beg, s->k) : 0;
        n_labels += labels[j] >= 0;
        beg += s->stride;
        j++;
    }
    if (s->frame == 0)
        return n_labels;
    ids[0] = s->cls;
    ids[j] = s->sep;
    labels[0] = labels[j] = -1;
    if (weights)
        weights[0] = weights[j] = 0;
    return n_labels;
}

size_t kmf_spelling_asked(const kmf_spelling *spelling, const kmf_question *question,
                          const int32_t *labels, uint32_t *bases)
{
    size_t n = 0;
    for (size_t i = 0; i < question->n; i++) {
        size_t j;
        size_t end;
        if (question->hidden[i] == KMF_FATE_VISIBLE)
            continue;
        kmf_spelling_covers(spelling, question->n, i, &j, &end);
        while (j < end && labels[spelling->lead + j] < 0)
            j++;
        if (j < end)
            bases[n++] = (uint32_t)i;
    }
    return n;
}

bool kmf_spelling_readable(const kmf_spelling *spelling, const int32_t *ids, size_t n, size_t i)
{
    size_t j;
    size_t end;
    kmf_spelling_covers(spelling, n, i, &j, &end);
    for (; j < end; j++) {
        int32_t id = ids[spelling->lead + j];
        if (id != spelling->mask && id != spelling->unk)
            return true;
    }
    return false;
}
