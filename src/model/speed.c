/* SPDX-License-Identifier: MIT */
/*
 * The encoder's speed, and the arithmetic that its model asks for. A token of a sequence of T
 * takes, for each layer,
 *
 *   q, k, v, o       4 products [D] x [D, D]            2 * 4 D^2
 *   feed-forward     [D] x [D, F], [F] x [F, D]         2 * 2 D F, gated 2 * 3 D F
 *   attention        T scores over D columns, and
 *                    T rows of D columns weighted       2 * 2 T D
 *
 * and once 2 D E where the embedding is projected. The encoder may do with less: it computes q, k
 * and v of the first layer once for each word of the vocabulary (packed.h), and not for each token.
 */
#include "base/barrier.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/model.h"
#include "nn/limits.h"
#include "seq/par.h"

#include <math.h>

/* Of a turn, in seconds. */
#define ENCODER_TURN 20e-3
#define LIMIT_TURN 6e-3

double kmf_encoder_operations(const kmf_config *config, size_t T)
{
    double D = (double)config->hidden_size;
    double E = (double)config->embedding_size;
    double F = (double)config->intermediate_size;
    double layer = 8 * D * D + (config->gated ? 6 : 4) * D * F + 4 * (double)T * D;
    double projection = config->embedding_size == config->hidden_size ? 0 : 2 * D * E;
    return (double)config->n_layers * layer + projection;
}

typedef struct runner {
    kmf_encoder *encoder; /* owned */
    int32_t *ids;         /* owned [n_seq, T] */
    kmf_speed speed;      /* its own part */
} runner;

typedef struct race {
    const kmf_config *config; /* borrowed */
    runner *runners;          /* owned [threads] */
    int threads;
    size_t *off; /* owned [n_seq + 1] */
    size_t n_seq;
    double seconds;
    kmf_limit_kind limit;
    kmf_barrier start;
} race;

/* What was done, and in how many seconds. */
typedef struct tally {
    double done, seconds;
} tally;

/* Batches through `layers` layers, one at least, until `seconds` are over or `tokens` are done. */
static void encode(tally *sum, const race *r, const runner *own, size_t layers, double tokens,
                   double seconds)
{
    double done = 0;
    double begin = kmf_now();
    double elapsed;
    do {
        kmf_encoder_forward(own->encoder, own->ids, r->off, r->n_seq, layers);
        done += (double)r->off[r->n_seq];
        elapsed = kmf_now() - begin;
    } while (done < tokens && elapsed < seconds);
    sum->done += done;
    sum->seconds += elapsed;
}

static void reach_limit(tally *sum, kmf_limit_kind kind)
{
    double begin = kmf_now();
    double elapsed;
    do {
        sum->done += kmf_limit_portion(kind);
        elapsed = kmf_now() - begin;
    } while (elapsed < LIMIT_TURN);
    sum->seconds += elapsed;
}

/* The first layer's table is there after V tokens, so these are seen before the clock starts. */
static void run(void *arg, int thread)
{
    race *r = arg;
    runner *own = &r->runners[thread];
    tally run_up = {0}, tokens = {0}, operations = {0};
    size_t words = r->config->vocab_size / (size_t)r->threads + 1;
    encode(&run_up, r, own, 1, (double)words, r->seconds);
    kmf_barrier_wait(&r->start);
    do {
        encode(&tokens, r, own, r->config->n_layers, HUGE_VAL, ENCODER_TURN);
        reach_limit(&operations, r->limit);
    } while (tokens.seconds + operations.seconds < r->seconds);
    own->speed.tokens = tokens.done / tokens.seconds;
    own->speed.limit = operations.done / operations.seconds;
}

static int prepare(race *r, const kmf_model *model, size_t T, size_t batch_tokens,
                   uint64_t seed, kmf_err *err)
{
    size_t tokens;
    r->n_seq = batch_tokens > T ? batch_tokens / T : 1;
    if (!kmf_mul(r->n_seq, T, &tokens))
        return kmf_fail(err, KMF_ENOMEM, "sequences of %zu tokens do not fit the memory", T);
    r->off = kmf_malloc(r->n_seq + 1, sizeof *r->off, err);
    r->runners = kmf_calloc((size_t)r->threads, sizeof *r->runners, err);
    if (!r->off || !r->runners)
        return KMF_ENOMEM;
    for (size_t s = 0; s <= r->n_seq; s++)
        r->off[s] = s * T;
    for (int i = 0; i < r->threads; i++) {
        runner *own = &r->runners[i];
        kmf_rng rng = kmf_rng_stream(seed, (uint64_t)i);
        own->ids = kmf_malloc(tokens, sizeof *own->ids, err);
        if (!own->ids)
            return KMF_ENOMEM;
        own->encoder = kmf_encoder_new(model, tokens, T, err);
        if (!own->encoder)
            return (int)err->code;
        for (size_t t = 0; t < tokens; t++)
            own->ids[t] = (int32_t)kmf_rng_below(&rng, r->config->vocab_size);
    }
    return 0;
}

int kmf_encoder_speed(kmf_speed *speed, const kmf_model *model, int threads, size_t T,
                      size_t batch_tokens, double seconds, uint64_t seed, kmf_err *err)
{
    race r = {.config = kmf_model_config(model),
              .threads = threads,
              .seconds = seconds,
              .limit = (kmf_limit_kind)kmf_model_precision(model)};
    err = kmf_err_or(err, &(kmf_err){0});
    *speed = (kmf_speed){0};
    if (threads < 1 || threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%d threads: it must be 1 to %d", threads,
                        KMF_THREADS_MAX);
    if (kmf_limit_check_seconds(seconds, err) < 0)
        return KMF_EINVAL;
    if (T == 0)
        return kmf_fail(err, KMF_EINVAL, "a sequence needs at least one token");
    kmf_barrier_init(&r.start, threads);
    int status = prepare(&r, model, T, batch_tokens, seed, err);
    if (status == 0)
        status = kmf_together(threads, run, &r, err);
    for (int i = 0; i < threads && r.runners; i++) {
        speed->tokens += r.runners[i].speed.tokens;
        speed->limit += r.runners[i].speed.limit;
        kmf_encoder_free(r.runners[i].encoder);
        kmf_free(r.runners[i].ids);
    }
    kmf_free(r.runners);
    kmf_free(r.off);
    return status;
}
