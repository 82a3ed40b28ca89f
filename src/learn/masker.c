/* SPDX-License-Identifier: MIT */
/*
 * A view is an item of work, for drawing and for scoring: it has its place in arrays of fixed
 * size, and a sum of its own, which are added up in the order of the views.
 */
#include "learn/masker.h"

#include "base/mem.h"
#include "learn/drift.h"
#include "seq/dna.h"
#include "seq/par.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define NOT_ASKED SIZE_MAX

typedef struct shown {
    kmf_view view;
    kmf_score score;
} shown;

struct kmf_masker {
    kmf_masker_options opts;
    size_t tokens;   /* of a view, at most */
    kmf_real *sites; /* owned [V, 4 k] */
    /* owned, of a batch */
    shown *views;     /* [most] */
    uint8_t *letters; /* [most, letters], as are seen, hidden and soft */
    uint8_t *seen, *hidden, *soft;
    uint32_t *bases; /* [most, letters] asked for */
    int32_t *ids;    /* [most, tokens], as are labels, weights and site_of */
    int32_t *labels;
    float *weights;
    size_t *site_of; /* of each token: which labelled one it is, or NOT_ASKED */
    size_t *off;     /* [most + 1] */

    /* of the call under way */
    size_t n;
    kmf_genome_part part;
    const kmf_masking *masking;
    const kmf_mlm_result *result;
    const kmf_markov *markov;
};

/* ---------------------------------------------------------------- life ------------------- */

static size_t per_view(const kmf_masker_options *o)
{
    size_t tokens = kmf_spelling_tokens(&o->spelling, o->letters);
    return sizeof(shown) + o->letters * (4 + sizeof(uint32_t)) +
           tokens * (2 * sizeof(int32_t) + sizeof(float) + sizeof(size_t));
}

size_t kmf_masker_bytes(const kmf_masker_options *opts)
{
    const kmf_spelling *s = &opts->spelling;
    return sizeof(kmf_masker) + opts->most * per_view(opts) +
           kmf_vocab_size(s->vocab) * 4 * s->k * sizeof(kmf_real);
}

static int make_sites(kmf_masker *q, kmf_err *err)
{
    const kmf_spelling *s = &q->opts.spelling;
    size_t V = kmf_vocab_size(s->vocab);
    size_t width = 4 * s->k;
    q->sites = kmf_calloc(V * width, sizeof *q->sites, err);
    if (!q->sites)
        return KMF_ENOMEM;
    for (size_t id = 0; id < V; id++) {
        const char *token = kmf_vocab_token(s->vocab, (int32_t)id);
        for (size_t i = 0; token[0] != '[' && i < s->k; i++)
            q->sites[id * width + 4 * i + kmf_base_code[(unsigned char)token[i]]] = 1;
    }
    return 0;
}

kmf_masker *kmf_masker_new(const kmf_masker_options *opts, kmf_err *err)
{
    kmf_masker *q = kmf_calloc(1, sizeof *q, err);
    if (!q)
        return NULL;
    size_t most = opts->most;
    q->opts = *opts;
    q->tokens = kmf_spelling_tokens(&opts->spelling, opts->letters);
    q->views = kmf_calloc(most, sizeof *q->views, err);
    q->letters = kmf_calloc(most, opts->letters, err);
    q->seen = kmf_calloc(most, opts->letters, err);
    q->hidden = kmf_calloc(most, opts->letters, err);
    q->soft = kmf_calloc(most, opts->letters, err);
    q->bases = kmf_calloc(most * opts->letters, sizeof *q->bases, err);
    q->ids = kmf_calloc(most * q->tokens, sizeof *q->ids, err);
    q->labels = kmf_calloc(most * q->tokens, sizeof *q->labels, err);
    q->weights = kmf_calloc(most * q->tokens, sizeof *q->weights, err);
    q->site_of = kmf_calloc(most * q->tokens, sizeof *q->site_of, err);
    q->off = kmf_calloc(most + 1, sizeof *q->off, err);
    if (q->views && q->letters && q->seen && q->hidden && q->soft && q->bases && q->ids &&
        q->labels && q->weights && q->site_of && q->off && make_sites(q, err) == 0)
        return q;
    kmf_masker_free(q);
    return NULL;
}

void kmf_masker_free(kmf_masker *masker)
{
    kmf_masker *q = masker;
    if (!q)
        return;
    kmf_free(q->sites);
    kmf_free(q->views);
    kmf_free(q->letters);
    kmf_free(q->seen);
    kmf_free(q->hidden);
    kmf_free(q->soft);
    kmf_free(q->bases);
    kmf_free(q->ids);
    kmf_free(q->labels);
    kmf_free(q->weights);
    kmf_free(q->site_of);
    kmf_free(q->off);
    kmf_free(q);
}

const kmf_real *kmf_masker_sites(const kmf_masker *masker)
{
    return masker->sites;
}

/* ---------------------------------------------------------------- drawing ---------------- */

static kmf_question question_of(const kmf_masker *q, size_t i)
{
    size_t at = i * q->opts.letters;
    return (kmf_question){.letters = q->letters + at,
                          .seen = q->seen + at,
                          .hidden = q->hidden + at,
                          .soft = q->opts.soft_weight < 1 ? q->soft + at : NULL,
                          .n = q->views[i].view.excerpt.n,
                          .soft_weight = q->opts.soft_weight};
}

/* Each letter becomes, with chance p, one of the three others. */
static void mutate(uint8_t *letters, size_t n, double p, kmf_rng *rng)
{
    for (size_t i = 0; p > 0 && i < n; i++)
        if (kmf_rng_unit(rng) < p)
            letters[i] = (uint8_t)((letters[i] + 1 + kmf_rng_below(rng, 3)) % 4);
}

static int draw_view(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_masker *q = arg;
    const kmf_excerpt *excerpt = &q->views[i].view.excerpt;
    size_t at = i * q->opts.letters;
    const kmf_corpus *corpus = kmf_genome_corpus(q->opts.genome, q->part);
    kmf_question question = question_of(q, i);
    kmf_rng rng = q->views[i].view.rng;
    (void)worker;
    (void)err;
    kmf_excerpt_letters(excerpt, corpus, q->letters + at);
    if (question.soft)
        kmf_excerpt_soft(excerpt, q->opts.genome, q->part, q->soft + at);
    if (q->views[i].view.drifts) {
        kmf_drift drift;
        kmf_rng relative = q->views[i].view.relative;
        kmf_drift_draw(&drift, q->masking->drift_rate, &relative);
        kmf_drift_apply(&drift, q->letters + at, excerpt->n, &rng);
    }
    mutate(q->letters + at, excerpt->n, q->masking->mutations, &rng);
    if (q->masking->spans) {
        kmf_spans_draw(q->hidden + at, q->seen + at, q->masking->spans, &rng, q->letters + at,
                       excerpt->n);
    } else {
        memset(q->hidden + at, KMF_FATE_VISIBLE, excerpt->n);
        memcpy(q->seen + at, q->letters + at, excerpt->n);
    }
    kmf_spelling_ask(&q->opts.spelling, &question, q->ids + q->off[i], q->labels + q->off[i],
                     q->weights + q->off[i]);
    return 0;
}

int kmf_masker_draw(kmf_masker *masker, kmf_mlm_batch *batch, kmf_genome_part part,
                    const kmf_view *views, size_t n, const kmf_masking *masking, kmf_err *err)
{
    kmf_masker *q = masker;
    assert(n <= q->opts.most);
    q->part = part;
    q->masking = masking;
    q->n = n;
    for (size_t i = 0; i < n; i++) {
        q->views[i].view = views[i];
        q->off[i + 1] = q->off[i] + kmf_spelling_tokens(&q->opts.spelling, views[i].excerpt.n);
    }
    int status = kmf_pool_each(q->opts.pool, n, draw_view, q, err);
    *batch = (kmf_mlm_batch){.ids = q->ids,
                             .labels = q->labels,
                             .weights = q->opts.soft_weight < 1 ? q->weights : NULL,
                             .off = q->off,
                             .n_seq = n};
    return status;
}

/* ---------------------------------------------------------------- scoring ---------------- */

/* -log2 of what the tokens that cover base i of a view say of its letter. */
static double bits_of(const kmf_masker *q, size_t number, size_t i)
{
    const kmf_spelling *s = &q->opts.spelling;
    size_t first, end;
    double says[4] = {0};
    kmf_spelling_covers(s, q->views[number].view.excerpt.n, i, &first, &end);
    for (size_t j = first; j < end; j++) {
        size_t site = q->site_of[q->off[number] + s->lead + j];
        if (site == NOT_ASKED)
            continue;
        const kmf_real *p = q->result->sites + site * 4 * s->k + 4 * (i - j * s->stride);
        for (size_t b = 0; b < 4; b++)
            says[b] += (double)p[b];
    }
    uint8_t letter = q->letters[number * q->opts.letters + i];
    double all = says[0] + says[1] + says[2] + says[3];
    double share = all > 0 ? says[letter] / all : 0;
    return -log2(fmax(share, (double)FLT_MIN));
}

static int score_view(void *arg, size_t i, int worker, kmf_err *err)
{
    kmf_masker *q = arg;
    kmf_score *score = &q->views[i].score;
    kmf_question question = question_of(q, i);
    uint32_t *bases = q->bases + i * q->opts.letters;
    size_t n = kmf_spelling_asked(&q->opts.spelling, &question, q->labels + q->off[i], bases);
    (void)worker;
    (void)err;
    *score = (kmf_score){.hidden = (double)n};
    for (size_t b = 0; b < n; b++) {
        if (q->result) {
            score->bits += bits_of(q, i, bases[b]);
            continue;
        }
        if (!kmf_spelling_readable(&q->opts.spelling, q->ids + q->off[i], question.n, bases[b]))
            score->copy += 2;
        for (int m = 0; m <= KMF_MARKOV_MAX; m++)
            score->markov[m] += kmf_markov_bits(q->markov, m, question.letters, bases[b]);
    }
    return 0;
}

static int score_all(kmf_masker *q, kmf_score *score, kmf_err *err)
{
    if (kmf_pool_each(q->opts.pool, q->n, score_view, q, err) < 0)
        return KMF_ENOMEM;
    for (size_t i = 0; i < q->n; i++) {
        const kmf_score *own = &q->views[i].score;
        score->hidden += own->hidden;
        score->bits += own->bits;
        score->copy += own->copy;
        for (int m = 0; m <= KMF_MARKOV_MAX; m++)
            score->markov[m] += own->markov[m];
    }
    return 0;
}

int kmf_masker_score(kmf_masker *masker, const kmf_mlm_result *result, kmf_score *score,
                     kmf_err *err)
{
    kmf_masker *q = masker;
    size_t tokens = q->off[q->n];
    for (size_t i = 0; i < tokens; i++)
        q->site_of[i] = NOT_ASKED;
    for (size_t i = 0; i < result->n; i++)
        q->site_of[result->rows[i]] = i;
    q->result = result;
    int status = score_all(q, score, err);
    q->result = NULL;
    return status;
}

int kmf_masker_baselines(kmf_masker *masker, const kmf_markov *markov, kmf_score *score,
                         kmf_err *err)
{
    masker->markov = markov;
    int status = score_all(masker, score, err);
    masker->markov = NULL;
    return status;
}
