/* SPDX-License-Identifier: MIT */
/*
 * A training step: forward, backward, clipping and AdamW, of a model of 6-mers on B sequences of T
 * tokens, 15 % of them masked. One line: tokens/s, median and range of STEPS steps; GFLOP/s,
 * counted as three times the forward's products, and their share of what all threads multiply and
 * add in turns with the steps, LIMIT_SECONDS before each (kmf_limit_portion); peak memory.
 *
 *   bench_train PRESET B T THREADS [f32|bf16 [recompute]]
 *
 * Shapes, masked share and the count of operations are those of the step that it is measured
 * beside (scripts/bench, section train).
 */
#include "base/mem.h"
#include "base/rng.h"
#include "learn/mlm.h"
#include "learn/update.h"
#include "model/model.h"
#include "nn/limits.h"
#include "seq/par.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define LIMIT_SECONDS 0.05
enum { STEPS = 9, WARM = 2, MASK = 4, FIRST_WORD = 5, MOST_THREADS = 256 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void *need(void *p, const kmf_err *err)
{
    if (!p) {
        fprintf(stderr, "bench_train: %s\n", err->msg[0] ? err->msg : "out of memory");
        exit(1);
    }
    return p;
}

/* Tokens at random, 15 % of them to be found. */
static void draw(int32_t *ids, int32_t *labels, size_t n, size_t V, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++) {
        ids[i] = FIRST_WORD + (int32_t)kmf_rng_below(rng, V - FIRST_WORD);
        labels[i] = -1;
        if (kmf_rng_unit(rng) < 0.15) {
            labels[i] = ids[i];
            ids[i] = MASK;
        }
    }
}

typedef struct limit {
    kmf_limit_kind kind;
    double rates[MOST_THREADS]; /* of each item of work */
} limit;

static int limit_item(void *arg, size_t i, int worker, kmf_err *err)
{
    limit *l = arg;
    double begun = now(), done = 0, elapsed = 0;
    (void)worker, (void)err;
    for (; elapsed < LIMIT_SECONDS; elapsed = now() - begun)
        done += kmf_limit_portion(l->kind);
    l->rates[i] = done / elapsed;
    return 0;
}

/* Operations a second that so many threads reach. */
static double limit_of(kmf_pool *pool, int threads, kmf_limit_kind kind)
{
    limit l = {.kind = kind};
    kmf_err err = {0};
    double sum = 0;
    if (kmf_pool_each(pool, (size_t)threads, limit_item, &l, &err) < 0)
        need(NULL, &err);
    for (int i = 0; i < threads; i++)
        sum += l.rates[i];
    return sum;
}

int main(int argc, char **argv)
{
    kmf_err err = {0};
    kmf_config config;
    kmf_slots slots = {0};
    if (argc < 5 || atoi(argv[4]) > MOST_THREADS ||
        kmf_config_preset(&config, argv[1], 6, &err) < 0) {
        fprintf(stderr, "usage: bench_train PRESET B T THREADS [f32|bf16 [recompute]]\n");
        return 1;
    }
    size_t B = strtoul(argv[2], NULL, 10), T = strtoul(argv[3], NULL, 10), n = B * T;
    int threads = atoi(argv[4]);
    kmf_model *model = need(kmf_model_draw(&config, 1, &err), &err);
    kmf_pool *pool = threads > 1 ? need(kmf_pool_new(threads - 1, &err), &err) : NULL;
    if (kmf_slots_new(&slots, &config, true, &err) < 0)
        need(NULL, &err);
    kmf_mlm_options opts = {.max_tokens = n, .max_seq = T, .recompute = argc > 6};
    if (argc > 5 && strcmp(argv[5], "bf16") == 0)
        opts.precision = kmf_precision_here(KMF_PRECISION_BF16);
    kmf_mlm *mlm = need(kmf_mlm_new(&config, &model->params, &opts, pool, &err), &err);
    kmf_update *update = need(kmf_update_new(&slots, KMF_LEARN_ENCODER, pool, &err), &err);
    float *m = need(kmf_large_zeroed(slots.total, sizeof *m, &err), &err);
    float *v = need(kmf_large_zeroed(slots.total, sizeof *v, &err), &err);
    float *g = need(kmf_large_zeroed(slots.total, sizeof *g, &err), &err);
    int32_t *ids = need(calloc(n, sizeof *ids), &err);
    int32_t *labels = need(calloc(n, sizeof *labels), &err);
    size_t *off = need(calloc(B + 1, sizeof *off), &err);
    kmf_params d = {.layers = need(calloc(config.n_layers, sizeof(kmf_layer)), &err)};
    kmf_slots_point(&slots, &d, g);
    for (size_t s = 0; s <= B; s++)
        off[s] = s * T;

    double seconds[STEPS], limits[STEPS + WARM], loss = 0;
    kmf_rng rng = kmf_rng_stream(1, 0);
    for (int step = 0; step < STEPS + WARM; step++) {
        kmf_mlm_batch batch = {.ids = ids, .labels = labels, .off = off, .n_seq = B};
        kmf_mlm_result result;
        kmf_adamw_step adamw = {
            .rate = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .decay = 0.01};
        double norm;
        draw(ids, labels, n, config.vocab_size, &rng);
        limits[step] = limit_of(pool, threads, (kmf_limit_kind)opts.precision);
        double begun = now();
        if (kmf_update_clear(update, g, &err) < 0 ||
            kmf_mlm_learn(mlm, &batch, &d, &result, &err) < 0 ||
            kmf_update_norm(update, &norm, g, &err) < 0)
            need(NULL, &err);
        norm /= result.weight;
        adamw.clip = (norm > 1 ? 1 / norm : 1) / result.weight;
        kmf_adamw_correct(&adamw, (uint64_t)step + 1);
        if (kmf_update_step(update, model->slab, m, v, g, &adamw, &err) < 0)
            need(NULL, &err);
        if (step >= WARM)
            seconds[step - WARM] = now() - begun;
        loss = result.loss / result.weight;
    }
    qsort(seconds, STEPS, sizeof *seconds, by_size);
    qsort(limits, STEPS + WARM, sizeof *limits, by_size);
    double peak = limits[(STEPS + WARM) / 2];
    double D = (double)config.hidden_size, F = (double)config.intermediate_size;
    double head = 0.15 * 2 * (D * D + D * (double)config.vocab_size);
    double layer = 2 * (4 * D * D + 2 * D * F) + 4 * (double)T * D;
    double flops = 3 * (double)n * ((double)config.n_layers * layer + head);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf(
        "kmerformer train %-5s B %3zu T %4zu threads %d %s: %7.0f tokens/s [%.0f %.0f]  %6.1f "
        "GFLOP/s: %.1f %% of %.1f  peak memory %ld MB  loss %.3f\n",
        argv[1], B, T, threads, kmf_precision_names[opts.precision],
        (double)n / seconds[STEPS / 2], (double)n / seconds[STEPS - 1], (double)n / seconds[0],
        1e-9 * flops / seconds[STEPS / 2], 1e2 * flops / seconds[STEPS / 2] / peak, 1e-9 * peak,
        usage.ru_maxrss / 1024, loss);
    kmf_mlm_free(mlm);
    kmf_update_free(update);
    kmf_slots_free(&slots);
    kmf_model_free(model);
    kmf_pool_free(pool);
    kmf_free(m);
    kmf_free(v);
    kmf_free(g);
    free(ids);
    free(labels);
    free(off);
    free(d.layers);
    return 0;
}
