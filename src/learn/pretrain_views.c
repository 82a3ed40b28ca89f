/* SPDX-License-Identifier: MIT */
/*
 * What a step shows the model, by the objective:
 *
 *   masked        windows, masked by spans
 *   contrastive   pairs with point mutations, whose vectors are compared
 *   both          such pairs, masked by spans
 *
 * Views are drawn by their number, so a piece may be shown twice, and every rank knows sources and
 * mixtures of the whole batch; of vectors a rank has its own and gets the others'. The loss is then
 * computed by all of them: it is small beside the passes.
 */
#include "learn/pretrain.h"

#include "base/err.h"
#include "base/mem.h"
#include "learn/ranks.h"

/* ---------------------------------------------------------------- life ------------------- */

static size_t most_views(const kmf_pretrain *t)
{
    size_t held = 2 * (size_t)t->most_held;
    return held > t->opts.batch ? held : t->opts.batch;
}

static kmf_contrast_options contrast_options(const kmf_pretrain *t)
{
    return (kmf_contrast_options){.most = most_views(t),
                                  .D = kmf_pretrain_columns(t),
                                  .temperature = t->opts.temperature,
                                  .hardness = t->opts.hardness,
                                  .all_positives = t->opts.all_positives != 0,
                                  .pool = t->pool};
}

uint64_t kmf_comparison_bytes(const kmf_pretrain *t)
{
    kmf_contrast_options o = contrast_options(t);
    uint64_t vectors = (uint64_t)o.most * o.D;
    uint64_t views = o.most * sizeof(size_t) + t->opts.batch * 4 * sizeof(double);
    if (!t->compares)
        return 0;
    return kmf_contrast_bytes(&o) + views + 2 * vectors * sizeof(kmf_real) +
           (kmf_ranks() > 1 ? vectors * sizeof(double) : 0);
}

int kmf_comparison_new(kmf_comparison *c, const kmf_pretrain *t, kmf_err *err)
{
    kmf_contrast_options o = contrast_options(t);
    size_t batch = t->opts.batch, piece = kmf_pretrain_piece(t);
    if (kmf_contrast_bytes(&o) == 0)
        return kmf_fail(err, KMF_ENOMEM, "batches of %zu windows do not fit the memory",
                        o.most);
    c->contrast = kmf_contrast_new(&o, err);
    c->vectors = kmf_calloc(o.most, o.D * sizeof *c->vectors, err);
    c->dvectors = kmf_calloc(o.most, o.D * sizeof *c->dvectors, err);
    c->shared = kmf_calloc(kmf_ranks() > 1 ? batch : 1, o.D * sizeof *c->shared, err);
    c->asked = kmf_calloc(t->opts.shards, sizeof *c->asked, err);
    c->sources = kmf_calloc(o.most, sizeof *c->sources, err);
    c->partner = kmf_calloc(batch, sizeof *c->partner, err);
    c->share = kmf_calloc(batch, sizeof *c->share, err);
    c->piece_partner = kmf_calloc(piece, sizeof *c->piece_partner, err);
    c->piece_served = kmf_calloc(piece, sizeof *c->piece_served, err);
    return c->contrast && c->vectors && c->dvectors && c->shared && c->asked && c->sources &&
                   c->partner && c->share && c->piece_partner && c->piece_served
               ? 0
               : KMF_ENOMEM;
}

void kmf_comparison_clear(kmf_comparison *c)
{
    kmf_contrast_free(c->contrast);
    kmf_free(c->vectors);
    kmf_free(c->dvectors);
    kmf_free(c->shared);
    kmf_free(c->asked);
    kmf_free(c->sources);
    kmf_free(c->partner);
    kmf_free(c->share);
    kmf_free(c->piece_partner);
    kmf_free(c->piece_served);
    *c = (kmf_comparison){0};
}

/* ---------------------------------------------------------------- drawing ---------------- */

static kmf_viewer viewer_of(const kmf_pretrain *t)
{
    return (kmf_viewer){.genome = t->genome,
                        .part = KMF_GENOME_TRAIN,
                        .windows = t->windows,
                        .seed = t->opts.seed};
}

static kmf_viewer held_viewer(const kmf_pretrain *t)
{
    return (kmf_viewer){.genome = t->genome,
                        .part = KMF_GENOME_HELD,
                        .windows = t->held_windows,
                        .seed = t->opts.seed,
                        .fixed = t->now.held_windows};
}

bool kmf_pretrain_mixes(const kmf_pretrain *t)
{
    kmf_rng rng = kmf_draw(t->opts.seed, KMF_DRAW_MIX, t->now.step, 0);
    return t->compares && kmf_rng_unit(&rng) < t->opts.mix;
}

/* Views of a step that stand at `at` of its batch; their sources are noted. */
static void draw_piece(kmf_pretrain *t, uint64_t first, size_t at, size_t n)
{
    kmf_viewer viewer = viewer_of(t);
    if (!t->compares) {
        kmf_views_single(t->views, &viewer, first, n);
        return;
    }
    kmf_pair_options pairs = t->pairs;
    pairs.one_length = kmf_pretrain_mixes(t);
    kmf_views_pairs(t->views, &viewer, &pairs, first / 2, n / 2);
    for (size_t i = 0; i < n; i++)
        t->comparison.sources[at + i] = t->views[i].source;
}

/* Which first windows of a piece are mixed, and how: pretrain.h. */
static void draw_mixture(kmf_pretrain *t, uint64_t first, size_t at, size_t n)
{
    kmf_comparison *c = &t->comparison;
    uint32_t *to = c->piece_served; /* the ones that are mixed, for now */
    size_t n_mixed = 0, longest = 0;
    kmf_rng rng = kmf_draw(t->opts.seed, KMF_DRAW_MIX, t->now.step, 1 + first);
    c->mix = (kmf_mlm_mix){.layer = (size_t)kmf_rng_below(&rng, t->model->config.n_layers),
                           .partner = c->piece_partner,
                           .served = c->piece_served,
                           .share = c->share + at};
    for (size_t i = 0; i < n; i++) {
        c->piece_partner[i] = (uint32_t)i;
        c->share[at + i] = 1;
        longest = t->views[i].excerpt.n > longest ? t->views[i].excerpt.n : longest;
    }
    for (size_t i = 0; i < n; i += 2)
        if (t->views[i].excerpt.n == longest)
            to[n_mixed++] = (uint32_t)i;
    for (size_t left = n_mixed, i = 0; i < n; i += 2) {
        if (t->views[i].excerpt.n != longest)
            continue;
        size_t drawn = (size_t)kmf_rng_below(&rng, left--);
        c->piece_partner[i] = to[drawn];
        to[drawn] = to[left];
        c->share[at + i] = kmf_rng_unit(&rng);
    }
    for (size_t i = 0; i < n; i++) {
        c->piece_served[c->piece_partner[i]] = (uint32_t)i;
        c->partner[at + i] = (uint32_t)at + c->piece_partner[i];
    }
}

int kmf_pretrain_show(kmf_pretrain *t, kmf_mlm_batch *batch, uint64_t first, size_t at,
                      size_t n, kmf_err *err)
{
    bool mixes = kmf_pretrain_mixes(t);
    kmf_masking masking = {.drift_rate = t->opts.drift_rate,
                           .mutations = t->compares ? t->opts.mutations : 0,
                           .spans = t->asks && !mixes ? &t->spans : NULL};
    kmf_rng key = kmf_draw(t->opts.seed, KMF_DRAW_DROPOUT, t->now.step, first);
    draw_piece(t, first, at, n);
    if (mixes)
        draw_mixture(t, first, at, n);
    int status =
        kmf_masker_draw(t->masker, batch, KMF_GENOME_TRAIN, t->views, n, &masking, err);
    batch->dropout = t->opts.dropout;
    batch->key = kmf_rng_next(&key);
    batch->mix = mixes ? &t->comparison.mix : NULL;
    return status;
}

int kmf_pretrain_show_held(kmf_pretrain *t, kmf_mlm_batch *batch, uint64_t first, kmf_err *err)
{
    kmf_spans_options all_masked = t->spans;
    kmf_masking masking = {.spans = &all_masked};
    kmf_viewer viewer = held_viewer(t);
    size_t n = kmf_views_single(t->views, &viewer, first, kmf_pretrain_piece(t));
    all_masked.p_mask = 1;
    all_masked.p_random = 0;
    int status = kmf_masker_draw(t->masker, batch, KMF_GENOME_HELD, t->views, n, &masking, err);
    return status < 0 ? status : (int)n;
}

/* ---------------------------------------------------------------- comparing -------------- */

/* Vectors of all ranks; each has its own shards' and zeros. */
static void share_vectors(kmf_pretrain *t)
{
    kmf_comparison *c = &t->comparison;
    size_t n = t->opts.batch * kmf_pretrain_columns(t);
    if (kmf_ranks() == 1)
        return;
    size_t own = n / (size_t)kmf_ranks();
    size_t beg = own * (size_t)kmf_rank();
    for (size_t i = 0; i < n; i++)
        c->shared[i] = i >= beg && i - beg < own ? (double)c->vectors[i] : 0;
    kmf_ranks_share(c->shared, n);
    for (size_t i = 0; i < n; i++)
        c->vectors[i] = (kmf_real)c->shared[i];
}

/*
 * Sources and mixtures of the whole batch, where a rank has shown a part of it alone. The last
 * piece is this rank's last: if it is still encoded, the way back wants its mixture there.
 */
static void draw_all(kmf_pretrain *t, bool mixes)
{
    size_t batch = t->opts.batch, piece = kmf_pretrain_piece(t);
    size_t behind = batch / (size_t)kmf_ranks() * (size_t)(kmf_rank() + 1);
    for (size_t i = 0; kmf_ranks() > 1 && i < batch; i += piece) {
        size_t at = (behind + i) % batch;
        uint64_t first = t->now.step * batch + at;
        draw_piece(t, first, at, piece);
        if (mixes)
            draw_mixture(t, first, at, piece);
    }
}

int kmf_pretrain_compare(kmf_pretrain *t, double scale, kmf_err *err)
{
    kmf_comparison *c = &t->comparison;
    kmf_contrast_result result;
    bool mixes = kmf_pretrain_mixes(t);
    share_vectors(t);
    draw_all(t, mixes);
    kmf_contrast_views views = {.vectors = c->vectors,
                                .sources = c->sources,
                                .n = t->opts.batch,
                                .partner = mixes ? c->partner : NULL,
                                .share = c->share};
    if (kmf_contrast_learn(c->contrast, c->dvectors, &views, scale, &result, err) < 0)
        return KMF_ENOMEM;
    t->now.contrast = result.loss;
    t->now.hits = result.hits / (double)result.anchors;
    return 0;
}

int kmf_pretrain_encode_held(kmf_pretrain *t, size_t at, kmf_err *err)
{
    kmf_comparison *c = &t->comparison;
    kmf_viewer viewer = held_viewer(t);
    kmf_masking clear = {0};
    kmf_pair_options pairs = t->pairs;
    kmf_mlm_batch batch;
    kmf_mlm_result none;
    kmf_real *vectors = c->vectors + at * kmf_pretrain_columns(t);
    pairs.drift = 0;
    size_t n =
        2 * kmf_views_pairs(t->views, &viewer, &pairs, at / 2, kmf_pretrain_piece(t) / 2);
    for (size_t i = 0; i < n; i++)
        c->sources[at + i] = t->views[i].source;
    if (kmf_masker_draw(t->masker, &batch, KMF_GENOME_HELD, t->views, n, &clear, err) < 0 ||
        kmf_mlm_evaluate(t->mlm, &batch, vectors, &none, err) < 0)
        return KMF_ENOMEM;
    return (int)n;
}

int kmf_pretrain_judge_held(kmf_pretrain *t, kmf_err *err)
{
    kmf_comparison *c = &t->comparison;
    kmf_contrast_result result;
    kmf_contrast_views views = {
        .vectors = c->vectors, .sources = c->sources, .n = 2 * (size_t)t->now.held_windows};
    if (kmf_contrast_learn(c->contrast, NULL, &views, 1, &result, err) < 0)
        return KMF_ENOMEM;
    t->now.val_contrast = result.loss;
    t->now.val_hits = result.hits / (double)result.anchors;
    return 0;
}
