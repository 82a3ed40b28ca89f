/* SPDX-License-Identifier: MIT */
/* Whether two trainings have made the same numbers, and one that is stopped at every step, too. */
#ifndef KMF_TEST_SAME_TRAINING_H
#define KMF_TEST_SAME_TRAINING_H

#include "trainers.h"

#include "base/err.h"

#include <math.h>

static inline uint64_t hash(uint64_t sum, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return sum;
}

/* Of all that training has made. */
static inline uint64_t print_of(const kmf_pretrain *t)
{
    const double numbers[] = {
        t->now.loss,         t->now.bits,           t->now.rate,     t->now.norm,
        t->now.val_loss,     t->now.val_bits,       t->now.best,     (double)t->now.best_step,
        (double)t->now.step, (double)t->now.tokens, t->now.contrast, t->now.hits,
        t->now.val_contrast, t->now.val_hits};
    uint64_t sum = hash(14695981039346656037u, numbers, sizeof numbers);
    sum = hash(sum, t->model->slab, t->slots.total * sizeof(float));
    sum = hash(sum, t->m, t->slots.total * sizeof(float));
    return hash(sum, t->v, t->slots.total * sizeof(float));
}

/* What a whole training makes. */
static inline uint64_t trained(const options *o)
{
    kmf_pretrain *trainer = begin(o);
    ck_assert_int_eq(train(trainer, NULL, NULL), 0);
    uint64_t print = print_of(trainer);
    kmf_pretrain_free(trainer);
    return print;
}

/* With these settings and this input no trainer goes on from the checkpoint; it stays as it is. */
static inline void cannot_go_on(const options *o, const char *text, const char *path,
                                const char *says)
{
    kmf_err err = {0};
    kmf_pretrain *trainer = begun(o, text, &err);
    ck_assert_msg(trainer, "%s", err.msg);
    uint64_t before = print_of(trainer);
    ck_assert_int_eq(kmf_pretrain_load(trainer, path, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, says) && strstr(err.msg, path), "%s", err.msg);
    ck_assert(print_of(trainer) == before);
    kmf_pretrain_free(trainer);
}

/* Looks at each step, and answers `answer` at step stop_at; wrong: steps that made no sense. */
typedef struct watch {
    uint64_t calls, stop_at;
    uint64_t tokens, wrong;
    int answer;
} watch;

static inline int look(void *user, const state *s, kmf_err *err)
{
    watch *w = user;
    w->calls++;
    w->wrong += s->step != w->calls || s->tokens <= w->tokens || !isfinite(s->loss) ||
                !isfinite(s->bits) || !(s->norm > 0) || !(s->rate > 0) || s->steps < s->step;
    w->tokens = s->tokens;
    if (s->step != w->stop_at)
        return 0;
    return w->answer < 0 ? kmf_fail(err, (kmf_code)w->answer, "enough") : w->answer;
}

/* Stopped after every step, saved, and loaded by another trainer with other threads. */
static inline void check_resume(options o, int k)
{
    const char *path = in_dir("checkpoint");
    bool held = o.held_fraction > 0;
    uint64_t whole = trained(&o);
    kmf_pretrain *trainer = begin(&o);
    uint64_t steps = state_of(trainer).steps;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_pretrain_save(trainer, path, &err), 0); /* before the first step */
    for (uint64_t at = 0; at < steps; at++) {
        watch w = {.calls = at, .stop_at = at + 1, .answer = 1};
        if (!held || at == 5) {
            kmf_pretrain_free(trainer);
            o.threads = 1 + (int)at % 3;
            o.recompute = at % 2;
            trainer = begin(&o);
        }
        ck_assert_msg(kmf_pretrain_load(trainer, path, &err) == 0, "%s", err.msg);
        ck_assert_uint_eq(state_of(trainer).step, at);
        train(trainer, look, &w);
        uint64_t print = print_of(trainer);
        ck_assert_int_eq(kmf_pretrain_save(trainer, path, &err), 0);
        ck_assert_int_eq(kmf_pretrain_load(trainer, path, &err), 0);
        ck_assert(print_of(trainer) == print);
    }
    ck_assert_msg(print_of(trainer) == whole, "kind %d", k);
    kmf_pretrain_free(trainer);
    if (held)
        return;
    /* from a step in the middle to the end, in the same trainer */
    trainer = begin(&o);
    watch w = {.stop_at = steps / 2, .answer = 1};
    train(trainer, look, &w);
    ck_assert_int_eq(kmf_pretrain_save(trainer, path, NULL), 0);
    train(trainer, NULL, NULL);
    ck_assert_int_eq(kmf_pretrain_load(trainer, path, NULL), 0);
    ck_assert_uint_eq(state_of(trainer).step, steps / 2);
    train(trainer, NULL, NULL);
    ck_assert_msg(print_of(trainer) == whole, "kind %d", k);
    kmf_pretrain_free(trainer);
}

#endif
