/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the tensors by their names, each updated as a whole by kmf_adamw_update
 * (tests/test_training_ops.c holds it against its formula); sums one number after the other.
 */
#include "learn/update.h"

#include "base/mem.h"
#include "base/rng.h"
#include "passes.h"
#include "run.h"

enum { BOTH = KMF_LEARN_ENCODER | KMF_LEARN_COMPOSITION };

/* Numbers for every weight, none of them 0, those that belong to no tensor too. */
typedef struct state {
    kmf_config config;
    kmf_slots slots;
    float *w, *m, *v, *g; /* owned [slots.total] */
} state;

static float *drawn(size_t n, uint64_t stream, bool positive)
{
    kmf_rng rng = kmf_rng_stream(41, stream);
    float *at = kmf_floats(n, NULL);
    ck_assert_ptr_nonnull(at);
    for (size_t i = 0; i < n; i++) {
        float x = (float)(kmf_rng_unit(&rng) + 0.01);
        at[i] = positive || kmf_rng_below(&rng, 2) == 0 ? x : -x;
    }
    return at;
}

/* With tensors of several blocks in either part. */
static state state_new(void)
{
    state s = {0};
    ck_assert_int_eq(kmf_config_preset(&s.config, "nano", 5, NULL), 0);
    s.config.composition = 70;
    s.slots = slots_of(&s.config);
    s.w = drawn(s.slots.total, 1, false);
    s.m = drawn(s.slots.total, 2, false);
    s.v = drawn(s.slots.total, 3, true);
    s.g = drawn(s.slots.total, 4, false);
    return s;
}

static void state_free(state *s)
{
    kmf_slots_free(&s->slots);
    kmf_free(s->w);
    kmf_free(s->m);
    kmf_free(s->v);
    kmf_free(s->g);
}

static kmf_update *update_of(const state *s, int learn, kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_update *update = kmf_update_new(&s->slots, learn, pool, &err);
    ck_assert_msg(update, "%s", err.msg);
    return update;
}

static bool is_learnt(const kmf_slot *slot, int learn)
{
    bool composition = strncmp(slot->name, "composition.", 12) == 0;
    return learn & (composition ? KMF_LEARN_COMPOSITION : KMF_LEARN_ENCODER);
}

static kmf_adamw_step step_number(uint64_t t)
{
    kmf_adamw_step step = {
        .rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8, .decay = 0.1, .clip = 0.5};
    kmf_adamw_correct(&step, t);
    return step;
}

static bool same_floats(const float *a, const float *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* ---------------------------------------------------------------- steps ----------------- */

/* Three steps over all tensors; those that are not learnt keep every bit, and so do moments. */
START_TEST(what_is_not_learnt_does_not_move)
{
    int learn = _i;
    state s = state_new(), right = state_new(), before = state_new();
    kmf_update *update = update_of(&s, learn, NULL);
    size_t moved = 0, stayed = 0;
    for (uint64_t t = 1; t <= 3; t++) {
        kmf_adamw_step step = step_number(t), plain = step;
        plain.decay = 0;
        ck_assert_int_eq(kmf_update_step(update, s.w, s.m, s.v, s.g, &step, NULL), 0);
        for (size_t i = 0; i < right.slots.n; i++) {
            const kmf_slot *slot = &right.slots.slot[i];
            size_t at = slot->begin;
            if (is_learnt(slot, learn))
                kmf_adamw_update(right.w + at, right.m + at, right.v + at, right.g + at,
                                 slot->n, slot->rank == 2 ? &step : &plain);
        }
    }
    size_t n = s.slots.total;
    ck_assert(same_floats(s.w, right.w, n) && same_floats(s.g, right.g, n));
    ck_assert(same_floats(s.m, right.m, n) && same_floats(s.v, right.v, n));
    for (size_t i = 0; i < s.slots.n; i++) {
        const kmf_slot *slot = &s.slots.slot[i];
        bool same = same_floats(s.w + slot->begin, before.w + slot->begin, slot->n);
        ck_assert_msg(same != is_learnt(slot, learn), "%s", slot->name);
        moved += !same;
        stayed += same;
    }
    ck_assert_uint_gt(moved, 0);
    ck_assert(stayed > 0 || learn == BOTH);
    kmf_update_free(update);
    state_free(&s);
    state_free(&right);
    state_free(&before);
}
END_TEST

/* ---------------------------------------------------------------- sums ------------------ */

START_TEST(gradients_are_those_of_what_is_learnt)
{
    int learn = _i;
    state s = state_new(), before = state_new();
    kmf_update *update = update_of(&s, learn, NULL);
    double norm, squares = 0;
    size_t wrong = 0;
    ck_assert_int_eq(kmf_update_norm(update, &norm, s.g, NULL), 0);
    ck_assert_int_eq(kmf_update_add(update, s.m, s.g, NULL), 0);
    ck_assert_int_eq(kmf_update_clear(update, s.w, NULL), 0);
    for (size_t i = 0; i < s.slots.n; i++) {
        const kmf_slot *slot = &s.slots.slot[i];
        bool learnt = is_learnt(slot, learn);
        for (size_t k = slot->begin; k < slot->begin + slot->n; k++) {
            squares += learnt ? (double)s.g[k] * (double)s.g[k] : 0;
            wrong += s.m[k] != (learnt ? before.m[k] + s.g[k] : before.m[k]);
            wrong += s.w[k] != (learnt ? 0 : before.w[k]);
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert(same_floats(s.g, before.g, s.slots.total));
    ck_assert_msg(fabs(norm / sqrt(squares) - 1) <= 1e-12, "%.17g, not %.17g", norm,
                  sqrt(squares));
    kmf_update_free(update);
    state_free(&s);
    state_free(&before);
}
END_TEST

START_TEST(threads_do_not_change_a_bit)
{
    kmf_adamw_step step = step_number(1);
    state one = state_new();
    double norm, right = 0;
    for (int threads = 1; threads <= 3; threads++) {
        state s = state_new();
        kmf_pool *pool = threads > 1 ? kmf_pool_new(threads - 1, NULL) : NULL;
        kmf_update *update = update_of(&s, BOTH, pool);
        ck_assert_int_eq(kmf_update_norm(update, &norm, s.g, NULL), 0);
        ck_assert_int_eq(kmf_update_step(update, s.w, s.m, s.v, s.g, &step, NULL), 0);
        if (threads == 1) {
            right = norm;
            memcpy(one.w, s.w, s.slots.total * sizeof *s.w);
        }
        ck_assert(norm == right);
        ck_assert(same_floats(s.w, one.w, s.slots.total));
        kmf_update_free(update);
        kmf_pool_free(pool);
        state_free(&s);
    }
    state_free(&one);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_named)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    state s = state_new();
    kmf_update *update = update_of(&s, BOTH, NULL);
    ck_assert_ptr_null(kmf_update_broken(update, s.g));
    for (size_t i = 0; i < s.slots.n; i++) {
        const kmf_slot *slot = &s.slots.slot[i];
        float *last = &s.g[slot->begin + slot->n - 1], kept = *last;
        *last = bad[i % 3];
        ck_assert_str_eq(kmf_update_broken(update, s.g), slot->name);
        *last = kept;
    }
    kmf_update_free(update);
    state_free(&s);
}
END_TEST

START_TEST(memory_may_be_out)
{
    state s = state_new();
    kmf_adamw_step step = step_number(1);
    kmf_err err = {0};
    double norm;
    for (size_t at = 1; at <= 2; at++) {
        err = (kmf_err){0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_update_new(&s.slots, BOTH, NULL, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    kmf_update_free(NULL);
    /* threads get their work through a queue */
    kmf_pool *pool = kmf_pool_new(1, NULL);
    kmf_update *update = update_of(&s, BOTH, pool);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_update_clear(update, s.g, &err), KMF_ENOMEM);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_update_norm(update, &norm, s.g, &err), KMF_ENOMEM);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_update_step(update, s.w, s.m, s.v, s.g, &step, &err), KMF_ENOMEM);
    kmf_mem_fail_at(0);
    kmf_update_free(update);
    kmf_pool_free(pool);
    state_free(&s);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, what_is_not_learnt_does_not_move, KMF_LEARN_ENCODER, BOTH + 1);
    tcase_add_loop_test(tcase, gradients_are_those_of_what_is_learnt, KMF_LEARN_ENCODER,
                        BOTH + 1);
    tcase_add_test(tcase, threads_do_not_change_a_bit);
    tcase_add_test(tcase, a_gradient_that_is_not_finite_is_named);
    tcase_add_test(tcase, memory_may_be_out);
    return run_case("update", tcase);
}
