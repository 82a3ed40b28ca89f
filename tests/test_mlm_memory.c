/* SPDX-License-Identifier: MIT */
/* The memory of the training pass: what it says before, what it takes, and when there is none. */
#include "learn/mlm_room.h"
#include "mlm_scenes.h"
#include "run.h"

#include <malloc.h>

/* So many layers that even their table is larger than what a malloc may give beyond its order. */
static kmf_config deep_config(void)
{
    kmf_config config = odd;
    config.n_layers = 120;
    config.intermediate_size = 8;
    return config;
}

static size_t usable_bytes(kmf_mlm *mlm)
{
    return malloc_usable_size(mlm) + malloc_usable_size(mlm->slab) +
           malloc_usable_size(mlm->layers) + malloc_usable_size(mlm->rows) +
           malloc_usable_size(mlm->labels) + malloc_usable_size(mlm->nll);
}

/* An address sanitizer's malloc gives what is asked for; the C library's up to a page more. */
START_TEST(the_workspace_takes_what_was_said_before)
{
    static const kmf_mlm_options options[] = {
        {.max_tokens = 300, .max_seq = 100},
        {.max_tokens = 300, .max_seq = 100, .recompute = true},
        {.max_tokens = 129, .max_seq = 129, .forward_only = true},
        {.max_tokens = 300, .max_seq = 100, .precision = KMF_PRECISION_BF16},
        {.max_tokens = 300, .max_seq = 100, .composes = true, .max_seqs = 77},
        {.max_tokens = 300, .max_seq = 100, .composes = true, .max_seqs = 9, .unasked = true},
    };
    const size_t spare = CHECKED ? 0 : KMF_PAGE + 6 * 32;
    kmf_config config = deep_config();
    config.composition = 70;
    kmf_slots slots = slots_of(&config);
    slab weights = slab_new(&slots, &config);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        for (int threads = 0; threads < 2; threads++) {
            kmf_err err = {0};
            kmf_mlm_options opts = options[i];
            opts.precision = kmf_precision_here(opts.precision);
            kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, &err) : NULL;
            kmf_mlm *mlm = kmf_mlm_new(&config, &weights.params, &opts, pool, &err);
            ck_assert_msg(mlm, "%s", err.msg);
            size_t said = kmf_mlm_bytes(&config, &opts, threads + 1);
            size_t taken = usable_bytes(mlm);
            ck_assert_msg(said <= taken && taken <= said + spare, "%zu said, %zu taken", said,
                          taken);
            ck_assert_uint_eq((uintptr_t)mlm->x % 64, 0);
            ck_assert_uint_eq((uintptr_t)mlm->w1.room % 64, 0);
            kmf_mlm_free(mlm);
            kmf_pool_free(pool);
        }
    slab_free(&weights);
    kmf_slots_free(&slots);
}
END_TEST

START_TEST(what_is_not_kept_takes_no_room)
{
    const size_t grains = (1000 / KMF_GRAIN + 1) * KMF_GRAIN, N = grains + KMF_TILE - KMF_GRAIN;
    kmf_mlm_options opts = {.max_tokens = 1000, .max_seq = 100};
    kmf_config config = deep_config();
    size_t per_layer =
        N * (5 * config.hidden_size + 2 * config.n_heads + config.intermediate_size) *
        sizeof(kmf_real);
    size_t kept = kmf_mlm_bytes(&config, &opts, 1);
    opts.recompute = true;
    size_t again = kmf_mlm_bytes(&config, &opts, 1);
    ck_assert_uint_eq(kept - again, 119 * per_layer);
    opts.forward_only = true;
    size_t forward = kmf_mlm_bytes(&config, &opts, 1);
    ck_assert_uint_lt(forward, again - 119 * N * config.hidden_size * sizeof(kmf_real));
    opts.max_tokens = grains;
    ck_assert_uint_le(kmf_mlm_bytes(&config, &opts, 1), forward + (grains - 1000) * 24);
    opts.max_tokens = grains + 1;
    ck_assert_uint_gt(kmf_mlm_bytes(&config, &opts, 1), forward + KMF_GRAIN * 24);
}
END_TEST

/* A composition alone wants room for its sequences, and none for the tokens of an encoder. */
START_TEST(an_encoder_that_is_not_asked_takes_no_room)
{
    const size_t C = 32;
    kmf_mlm_options opts = {.max_tokens = 100000, .max_seq = 100, .max_seqs = 1000};
    kmf_config config = deep_config();
    config.composition = C;
    opts.vectors = opts.composes = true;
    size_t both = kmf_mlm_bytes(&config, &opts, 1);
    opts.unasked = true;
    size_t alone = kmf_mlm_bytes(&config, &opts, 1);
    opts.max_tokens *= 2; /* rows, labels, nll of each token */
    size_t longer = kmf_mlm_bytes(&config, &opts, 1);
    ck_assert_uint_eq(longer - alone,
                      100000 * (sizeof(size_t) + sizeof(int32_t) + sizeof(double)));
    opts.max_tokens /= 2;
    opts.max_seqs = 2000;
    size_t more = kmf_mlm_bytes(&config, &opts, 1);
    ck_assert_uint_lt(alone, both / 100);
    /* z, dz, u and three that are 4 C wide */
    ck_assert_uint_eq(more - alone, 1000 * (3 + 3 * 4) * C * sizeof(kmf_real));
}
END_TEST

START_TEST(sizes_that_fit_no_memory_are_0_bytes)
{
    static const size_t absurd[] = {SIZE_MAX,      SIZE_MAX - 1,   SIZE_MAX / 2,
                                    SIZE_MAX / 16, SIZE_MAX / 100, SIZE_MAX / 200};
    kmf_real site = 1;
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        kmf_err err = {0};
        kmf_params params = {.head_w = &site};
        kmf_mlm_options tokens = {.max_tokens = absurd[i], .max_seq = 9};
        kmf_mlm_options seq = {.max_tokens = 9, .max_seq = absurd[i]};
        kmf_mlm_options sites = {
            .max_tokens = 9, .max_seq = 9, .sites = &site, .n_sites = absurd[i]};
        ck_assert_uint_eq(kmf_mlm_bytes(&odd, &tokens, 1), 0);
        ck_assert_uint_eq(kmf_mlm_bytes(&odd, &seq, 1), 0);
        ck_assert_uint_eq(kmf_mlm_bytes(&odd, &sites, 1), 0);
        kmf_mlm_options seqs = {
            .max_tokens = 9, .max_seq = 9, .composes = true, .max_seqs = absurd[i]};
        kmf_config composed = odd;
        composed.composition = 8;
        ck_assert_uint_eq(kmf_mlm_bytes(&composed, &seqs, 1), 0);
        ck_assert_ptr_null(kmf_mlm_new(&odd, &params, &tokens, NULL, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
}
END_TEST

START_TEST(a_workspace_says_so_when_memory_is_out)
{
    scene s;
    scene_begin(&s);
    kmf_mlm_options opts = {.max_tokens = 100, .max_seq = 100};
    kmf_err err = {0};
    kmf_mem_fail_at(0);
    kmf_mlm *mlm = kmf_mlm_new(&s.config, &s.weights.params, &opts, NULL, &err);
    size_t n = kmf_mem_count();
    ck_assert_msg(mlm, "%s", err.msg);
    ck_assert_uint_ge(n, 5);
    kmf_mlm_free(mlm);
    for (size_t i = 1; i <= n; i++) {
        kmf_err failed = {0};
        kmf_mem_fail_at(i);
        ck_assert_ptr_null(kmf_mlm_new(&s.config, &s.weights.params, &opts, NULL, &failed));
        ck_assert_int_eq(failed.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    kmf_mlm_free(NULL);
    scene_end(&s);
}
END_TEST

START_TEST(a_pass_on_one_thread_allocates_nothing)
{
    scene s;
    scene_begin(&s);
    kmf_mlm *mlm = mlm_of(&s, true, NULL);
    kmf_mem_fail_at(0);
    learn(mlm, &s.batch, &s.gradients);
    evaluate(mlm, &s.batch);
    ck_assert_uint_eq(kmf_mem_count(), 0);
    kmf_mlm_free(mlm);
    scene_end(&s);
}
END_TEST

/* The queue behind a phase may not be had: in whichever phase, the next call is as good as new. */
START_TEST(a_pass_on_threads_says_so_when_memory_is_out)
{
    scene s;
    scene_begin(&s);
    kmf_err err = {0};
    kmf_pool *pool = kmf_pool_new(1, &err);
    ck_assert_msg(pool, "%s", err.msg);
    kmf_mlm *mlm = mlm_of(&s, true, pool);
    kmf_mem_fail_at(0);
    double loss = learn(mlm, &s.batch, &s.gradients).loss;
    size_t n = kmf_mem_count();
    ck_assert_uint_gt(n, 10);
    size_t failures = 0;
    for (size_t i = 1; i <= n; i += CHECKED ? 7 : 1) {
        kmf_err failed = {0};
        kmf_mlm_result result;
        kmf_mem_fail_at(i);
        int rc = kmf_mlm_learn(mlm, &s.batch, &s.others.params, &result, &failed);
        ck_assert(rc == 0 || (rc == KMF_ENOMEM && failed.code == KMF_ENOMEM));
        failures += rc < 0;
    }
    kmf_mem_fail_at(0);
    ck_assert_uint_gt(failures, 1);
    slab_zero(&s.others, &s.slots);
    ck_assert_double_eq(learn(mlm, &s.batch, &s.others).loss, loss);
    ck_assert(same_slabs(&s, &s.gradients, &s.others));
    kmf_mlm_free(mlm);
    kmf_pool_free(pool);
    scene_end(&s);
}
END_TEST

int main(void)
{
    if (CHECKED) /* where vector code takes far longer than plain */
        setenv("KMERFORMER_CPU", "baseline", 0);
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, the_workspace_takes_what_was_said_before);
    tcase_add_test(tcase, what_is_not_kept_takes_no_room);
    tcase_add_test(tcase, an_encoder_that_is_not_asked_takes_no_room);
    tcase_add_test(tcase, sizes_that_fit_no_memory_are_0_bytes);
    tcase_add_test(tcase, a_workspace_says_so_when_memory_is_out);
    tcase_add_test(tcase, a_pass_on_one_thread_allocates_nothing);
    tcase_add_test(tcase, a_pass_on_threads_says_so_when_memory_is_out);
    return run_case("mlm_memory", tcase);
}
