/* SPDX-License-Identifier: MIT */
/*
 * Training in steps. A step is a fixed number of batches, taken from all over the corpus:
 *
 *   each batch     prepare: corpus -> examples        any thread, in any order; the table is only
 *                  learn: rows of the table -> how      read
 *                  they change
 *   -- barrier --
 *   each row       table += what the batches say,     each thread its own rows; batch by batch
 *                  in the order of the batches
 *   -- barrier --
 *
 * So every sum has its order, and the bits are those of one thread. The price is that a batch does
 * not see what the other batches of its step learn, which does no harm while each row is held by
 * few of them. A row that many hold (AAAAAA in a human genome, any 3-mer) is moved far by each of
 * them, and the sum would carry it past its goal and, step by step, to infinity. Of m batches, more
 * than FEW, it takes FEW^2 / m times their mean: FEW times that at most, and the mean itself when
 * all of the step's batches hold it, which are FEW^2.
 *
 * Batches of an epoch are taken in the order of order.h: neighbours in the corpus, above all
 * repeats, do not meet in a step.
 */
#include "learn/word2vec.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "base/err.h"
#include "learn/order.h"
#include "seq/par.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>

#define FEW 4
#define LOSS_LIMIT 10.0   /* times the targets of a pair: it begins at 0.7 of that */
#define AHEAD 6           /* rows sent for before they are written */
#define MOST_BATCHES 0x7f /* bits of a row's visits */
#define FIRST 0x80
#define LOSS_EVERY 64  /* steps whose loss is asked for are so far apart */
#define LOSS_SHARE 200 /* the loss is a mean over one part of so many of the training */
#define CALL_SECONDS 0.1
#define NUMBER_LIMIT 1e6f /* of a vector; those that learn have a few units */

/* One call of kmf_word2vec_train. */
typedef struct run {
    kmf_word2vec *t;
    kmf_word2vec_fn *fn;
    void *user;
    double called; /* when fn was, seconds */
    kmf_barrier barrier;
    atomic_size_t next[2]; /* batch to be taken, of even and of odd steps */
    atomic_int stop;       /* 1: after the step under way. Set between two steps */
    bool diverged;         /* the caller's thread's */
} run;

static kmf_order order_of(const kmf_word2vec *t, uint64_t epoch)
{
    return kmf_order_of(t->opts.seed, KMF_STREAM_OF_ORDER, epoch,
                        kmf_sgns_plan_batches(&t->plan));
}

static void learn_batch(run *r, const kmf_order *o, uint64_t step, size_t slot, int worker)
{
    kmf_word2vec *t = r->t;
    kmf_sgns_batch *batch = &t->batches[slot];
    uint64_t j = step % t->steps_per_epoch * KMF_STEP_BATCHES + slot;
    if (j >= o->n) {
        kmf_sgns_batch_skip(batch, &t->plan);
        return;
    }
    kmf_sgns_sampler_prepare(t->samplers[worker], batch, step / t->steps_per_epoch,
                             kmf_order_at(o, j));
    kmf_sgns_batch_learn(batch, &t->plan, (float)kmf_word2vec_alpha(t, step),
                         step % LOSS_EVERY == 0);
}

/*
 * The rows of one thread take in what the batches have made of them. With m copies c_1 .. c_m of a
 * row r, and a share s = min(1, FEW^2 / m^2),
 *
 *   r + s ((c_1 - r) + .. + (c_m - r)) = (1 - m s) r + s c_1 + .. + s c_m
 *
 * which for one copy is the copy. The lowest bits of `visits` count; FIRST marks a row whose own
 * part is in. No branches: what happens to a row cannot be foreseen.
 */
static void take_in(kmf_word2vec *t, int worker)
{
    size_t ld = t->ld;
    for (size_t l = 0; l < KMF_STEP_BATCHES; l++) {
        const kmf_sgns_batch *batch = &t->batches[l];
        for (size_t i = batch->owner_beg[worker]; i < batch->owner_beg[worker + 1]; i++)
            t->visits[batch->rows[batch->by_owner[i]]]++;
    }
    for (size_t l = 0; l < KMF_STEP_BATCHES; l++) {
        const kmf_sgns_batch *batch = &t->batches[l];
        size_t end = batch->owner_beg[worker + 1];
        for (size_t i = batch->owner_beg[worker]; i < end; i++) {
            uint32_t ahead = batch->by_owner[i + AHEAD < end ? i + AHEAD : i];
            kmf_rows_prefetch(t->table + batch->rows[ahead] * ld, ld);
            kmf_rows_prefetch(batch->values + ahead * ld, ld);
            uint32_t place = batch->by_owner[i];
            uint32_t row = batch->rows[place];
            int m = t->visits[row] & MOST_BATCHES;
            float share = m > FEW ? (float)(FEW * FEW) / (float)(m * m) : 1.0f;
            float own = t->visits[row] & FIRST ? 1.0f : 1.0f - (float)m * share;
            kmf_rows_add(t->table + row * ld, own, batch->values + place * ld, share, ld);
            t->visits[row] |= FIRST;
        }
    }
    for (size_t l = 0; l < KMF_STEP_BATCHES; l++) {
        const kmf_sgns_batch *batch = &t->batches[l];
        for (size_t i = batch->owner_beg[worker]; i < batch->owner_beg[worker + 1]; i++)
            t->visits[batch->rows[batch->by_owner[i]]] = 0;
    }
}

/* Done by the caller's thread, while the others are in take_in. */
static void keep_books(run *r, uint64_t step)
{
    kmf_word2vec *t = r->t;
    uint64_t share = kmf_word2vec_steps(t) / LOSS_SHARE / LOSS_EVERY * LOSS_EVERY;
    for (size_t l = 0; l < KMF_STEP_BATCHES; l++) {
        t->tokens += t->batches[l].n_tokens;
        if (step % LOSS_EVERY > 0)
            continue;
        t->loss_sum += t->batches[l].loss;
        t->loss_pairs += t->batches[l].n_pairs;
    }
    t->step = step + 1;
    bool told = step % LOSS_EVERY == 0 && (share == 0 || step % share == 0);
    if (!told || t->loss_pairs == 0)
        return;
    t->loss = t->loss_sum / (double)t->loss_pairs;
    t->loss_sum = 0;
    t->loss_pairs = 0;
    r->diverged = !(t->loss < LOSS_LIMIT * (1 + t->opts.negative));
}

static void call_back(run *r)
{
    kmf_word2vec_state state;
    double time = kmf_now();
    if (r->diverged)
        atomic_store(&r->stop, 1);
    if (!r->fn || time - r->called < CALL_SECONDS)
        return;
    r->called = time;
    kmf_word2vec_information(r->t, &state);
    if (r->fn(r->user, &state))
        atomic_store(&r->stop, 1);
}

/* What each thread does; the caller's is the last one. */
static void work(void *arg, int worker)
{
    run *r = arg;
    kmf_word2vec *t = r->t;
    bool caller = worker == t->opts.threads - 1;
    uint64_t end = kmf_word2vec_steps(t);
    bool last = false;
    kmf_order o = order_of(t, t->step / t->steps_per_epoch);
    for (uint64_t step = t->step; step < end && !last; step++) {
        size_t slot;
        if (step % t->steps_per_epoch == 0)
            o = order_of(t, step / t->steps_per_epoch);
        while ((slot = atomic_fetch_add(&r->next[step % 2], 1)) < KMF_STEP_BATCHES)
            learn_batch(r, &o, step, slot, worker);
        kmf_barrier_wait(&r->barrier);
        last = atomic_load(&r->stop);
        take_in(t, worker);
        if (caller) {
            atomic_store(&r->next[(step + 1) % 2], 0);
            keep_books(r, step);
        }
        kmf_barrier_wait(&r->barrier);
        if (caller)
            call_back(r);
    }
}

/* Does the loss, asked for now and then, not know yet what the vectors show? */
static bool has_diverged(const kmf_word2vec *t)
{
    size_t n = 2 * t->lexicon.n * t->ld;
    bool bounded = true;
    for (size_t i = 0; i < n; i++)
        bounded &= fabsf(t->table[i]) < NUMBER_LIMIT;
    return !bounded;
}

int kmf_word2vec_train(kmf_word2vec *trainer, kmf_word2vec_fn *fn, void *user, kmf_err *err)
{
    run r = {.t = trainer, .fn = fn, .user = user};
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    atomic_init(&r.next[0], 0);
    atomic_init(&r.next[1], 0);
    atomic_init(&r.stop, 0);
    kmf_barrier_init(&r.barrier, trainer->opts.threads);
    int status = kmf_together(trainer->opts.threads, work, &r, err);
    if (status < 0)
        return status;
    if (r.diverged || has_diverged(trainer))
        return kmf_fail(err, KMF_ENUMERIC,
                        "the vectors grow beyond all bounds: try a smaller alpha than %g",
                        trainer->opts.alpha);
    return trainer->step < kmf_word2vec_steps(trainer);
}
