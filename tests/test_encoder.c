/* SPDX-License-Identifier: MIT */
/*
 * The encoder against published checkpoints' own numbers (tests/golden, computed by PyTorch),
 * and against itself: a sequence's rows have the same bits in any company.
 */
#include "base/mem.h"
#include "base/spin.h"
#include "checked.h"
#include "golden.h"
#include "levels.h"

#include "kmerformer.h"
#include "model/encoder.h"
#include "model/model.h"
#include "nn/attention.h"
#include "nn/gemm.h"
#include "run.h"
#include "seq/par.h"

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t seed = 88172645463325252u;

/* ---------------------------------------------------------------- golden numbers --------- */

static const char *golden_roformer(void)
{
    return golden("tests/golden/roformer");
}

static const char *golden_rotary_value(void)
{
    return golden("tests/golden/roformer-rotary-value");
}

static bool has(kmf_precision precision)
{
    return kmf_precision_here(precision) == precision;
}

/* ---------------------------------------------------------------- bits ------------------- */

enum { N_SEQ = 9, MAX_SEQ = CHECKED ? 150 : 300, MAX_TOKENS = 1200 };
static const size_t lengths[N_SEQ] = {1,       64,  3, CHECKED ? 20 : 148, 129,
                                      MAX_SEQ, 128, 2, CHECKED ? 9 : 77};

/* A model of odd dimensions, its weights from kmf_model_new. */
static kmf_model *odd_model(size_t E, size_t D, size_t H, size_t F, kmf_err *err)
{
    kmf_config config;
    if (kmf_config_preset(&config, "nano", 3, err) != 0)
        return NULL;
    config.embedding_size = E;
    config.hidden_size = D;
    config.n_heads = H;
    config.intermediate_size = F;
    config.n_layers = 2;
    return kmf_model_new(&config, 7, err);
}

static int32_t ids_of[N_SEQ][MAX_SEQ];

static void draw_ids(size_t vocab_size)
{
    for (size_t s = 0; s < N_SEQ; s++)
        for (size_t t = 0; t < lengths[s]; t++)
            ids_of[s][t] = (int32_t)((levels_random(&seed) + 1.0f) * 0.49f * (float)vocab_size);
}

/* Runs the sequences of `order`; compares those with the rows kept, or keeps them. */
static bool run_batch(kmf_encoder *encoder, const size_t *order, size_t n_seq, size_t L,
                      size_t D, float *kept[N_SEQ], bool keep)
{
    static int32_t ids[MAX_TOKENS];
    size_t off[N_SEQ + 1] = {0};
    for (size_t i = 0; i < n_seq; i++) {
        memcpy(ids + off[i], ids_of[order[i]], lengths[order[i]] * sizeof *ids);
        off[i + 1] = off[i] + lengths[order[i]];
    }
    const float *x = kmf_encoder_forward(encoder, ids, off, n_seq, L);
    for (size_t i = 0; i < n_seq; i++) {
        size_t n = lengths[order[i]] * D;
        if (keep)
            memcpy(kept[order[i]], x + off[i] * D, n * sizeof *x);
        else if (memcmp(kept[order[i]], x + off[i] * D, n * sizeof *x) != 0)
            return false;
    }
    return true;
}

static const char *same_bits_in_company(kmf_precision precision)
{
    static const size_t dims[][4] = {
        {32, 48, 4, 96}, {66, 66, 3, 101}, {48, 48, 6, 80}, {40, 264, 4, 1031}};
    const size_t n_dims = sizeof dims / sizeof dims[0] - CHECKED;
    static const size_t forward[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    static const size_t shuffled[] = {5, 2, 8, 0, 6, 3, 7, 1, 4};
    static const size_t some[] = {3, 3, 0, 4};
    for (size_t d = 0; d < n_dims; d++) {
        kmf_err err = {0};
        size_t D = dims[d][1];
        kmf_model *model = odd_model(dims[d][0], D, dims[d][2], dims[d][3], &err);
        if (!model || kmf_model_prepare(model, precision, &err) != 0)
            return "no model";
        kmf_encoder *large = kmf_encoder_new(model, MAX_TOKENS, MAX_SEQ, &err);
        kmf_encoder *small = kmf_encoder_new(model, MAX_SEQ, MAX_SEQ, &err);
        if (!large || !small) {
            fprintf(stderr, "%s\n", err.msg);
            return "no encoder";
        }
        draw_ids(kmf_model_config(model)->vocab_size);
        float *kept[N_SEQ];
        for (size_t s = 0; s < N_SEQ; s++) {
            kept[s] = kmf_floats(lengths[s] * D, NULL);
            if (!kept[s])
                return "no memory";
            run_batch(small, &s, 1, 2, D, kept, true);
        }
        for (size_t s = 0; s < N_SEQ; s++)
            for (size_t i = 0; i < lengths[s] * D; i++)
                if (!isfinite(kept[s][i]))
                    return "a hidden state is not finite";
        if (!run_batch(large, forward, N_SEQ, 2, D, kept, false))
            return "sequences differ alone and in a batch";
        if (!run_batch(large, shuffled, N_SEQ, 2, D, kept, false))
            return "sequences differ in another order";
        if (!run_batch(large, some, 4, 2, D, kept, false))
            return "sequences differ in other company";
        if (!run_batch(large, shuffled + 3, 1, 2, D, kept, false))
            return "what an encoder did before shows";
        for (size_t s = 0; s < N_SEQ; s++)
            kmf_free(kept[s]);
        kmf_encoder_free(large);
        kmf_encoder_free(small);
        kmf_model_free(model);
    }
    return NULL;
}

/* What `run` says of any precision that there is here. */
static const char *in_each_precision(const char *(*run)(kmf_precision precision))
{
    const char *wrong = NULL;
    for (int p = KMF_PRECISION_F32; p <= KMF_PRECISION_INT8 && !wrong; p++)
        if (has((kmf_precision)p))
            wrong = run((kmf_precision)p);
    return wrong;
}

static const char *same_bits_in_any_company(void)
{
    return in_each_precision(same_bits_in_company);
}

static const char *logits_of_many_rows(void)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(40, 66, 3, 101, &err);
    kmf_encoder *encoder = model ? kmf_encoder_new(model, MAX_SEQ, MAX_SEQ, &err) : NULL;
    if (!encoder)
        return "no model";
    size_t V = kmf_model_config(model)->vocab_size;
    draw_ids(V);
    const size_t off[2] = {0, MAX_SEQ};
    kmf_encoder_forward(encoder, ids_of[5], off, 1, 2);
    size_t rows[MAX_SEQ];
    float *all = kmf_floats(MAX_SEQ * V, NULL);
    float *one = kmf_floats(V, NULL);
    if (!all || !one)
        return "no memory";
    for (size_t i = 0; i < MAX_SEQ; i++)
        rows[i] = (i * 7) % MAX_SEQ;
    if (kmf_encoder_logits(encoder, all, rows, MAX_SEQ, &err) != 0)
        return "no logits";
    for (size_t i = 0; i < MAX_SEQ; i++) {
        if (kmf_encoder_logits(encoder, one, rows + i, 1, &err) != 0)
            return "no logits";
        if (memcmp(one, all + i * V, V * sizeof *one) != 0)
            return "logits differ alone and with others";
    }
    kmf_free(all);
    kmf_free(one);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
    return NULL;
}

/* ---------------------------------------------------------------- several threads -------- */

enum { N_TOGETHER = 5, LONG_SEQ = CHECKED ? 200 : 700 };

/* forward_together by n encoders against forward by the first of them, kept in `alone`. */
static const char *together_once(kmf_encoder *const *encoders, size_t n, float *alone,
                                 const int32_t *ids, const size_t *off, size_t n_seq,
                                 size_t layer, size_t D)
{
    kmf_err err = {0};
    const float *x = kmf_encoder_forward(encoders[0], ids, off, n_seq, layer);
    size_t bytes = off[n_seq] * D * sizeof *x;
    memcpy(alone, x, bytes);
    kmf_encoder_forward(encoders[0], ids + off[n_seq] - 1, (const size_t[]){0, 1}, 1, 0);
    if (kmf_encoder_forward_together(encoders, n, &x, ids, off, n_seq, layer, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return "encoders do not work together";
    }
    return memcmp(alone, x, bytes) == 0 ? NULL : "together the bits differ";
}

/* Encoders of one model, with room for LONG_SEQ tokens, and room for what one says alone. */
typedef struct team {
    kmf_model *model;
    kmf_encoder *encoders[N_TOGETHER];
    float *alone; /* [LONG_SEQ, TEAM_D] */
    int32_t ids[MAX_TOKENS];
} team;

enum { TEAM_D = 48 };
static const size_t team_batch[] = {0, 1, 65, 68, 69, 197, LONG_SEQ};

static const char *assemble(team *c, kmf_precision precision)
{
    kmf_err err = {0};
    *c = (team){0};
    c->model = odd_model(32, TEAM_D, 4, 101, &err);
    c->alone = kmf_floats(LONG_SEQ * TEAM_D, NULL);
    if (!c->model || !c->alone || kmf_model_prepare(c->model, precision, &err) != 0)
        return "no model";
    for (size_t i = 0; i < N_TOGETHER; i++) {
        c->encoders[i] = kmf_encoder_new(c->model, LONG_SEQ, LONG_SEQ, &err);
        if (!c->encoders[i])
            return "no encoder";
    }
    for (size_t t = 0; t < MAX_TOKENS; t++)
        c->ids[t] = (int32_t)(t * t % kmf_model_config(c->model)->vocab_size);
    return NULL;
}

static void dismiss(team *c)
{
    for (size_t i = 0; i < N_TOGETHER; i++)
        kmf_encoder_free(c->encoders[i]);
    kmf_model_free(c->model);
    kmf_free(c->alone);
}

static const char *same_bits_together(kmf_precision precision)
{
    static team c;
    static const size_t single[] = {1, 5, 148, LONG_SEQ};
    static const size_t together[] = {2, 3, N_TOGETHER};
    const char *wrong = assemble(&c, precision);
    for (size_t n = 0; n < 3 && !wrong; n++) {
        for (size_t layer = 0; layer <= 2 && !wrong; layer++)
            wrong = together_once(c.encoders, together[n], c.alone, c.ids, team_batch, 6, layer,
                                  TEAM_D);
        for (size_t s = 0; s < 4 && !wrong; s++)
            wrong = together_once(c.encoders, together[n], c.alone, c.ids,
                                  (const size_t[]){0, single[s]}, 1, 2, TEAM_D);
    }
    dismiss(&c);
    return wrong;
}

static const char *together_has_the_bits(void)
{
    return in_each_precision(same_bits_together);
}

/* The last thread gives its encoder batch after batch, with which the others help meanwhile. */
enum { N_HELPING = 3, N_HELPED = CHECKED ? 3 : 10, MOST_HELPED = 1000 };

typedef struct helped {
    const team *team;
    atomic_int over;
    atomic_size_t items; /* done by others */
    int n_wrong;
} helped;

static void forward_or_help(void *arg, int thread)
{
    helped *h = arg;
    const team *c = h->team;
    kmf_encoder *owner = c->encoders[N_HELPING - 1];
    if (thread < N_HELPING - 1) {
        for (int tries = 0; !atomic_load(&h->over); kmf_spin(&tries))
            atomic_fetch_add(&h->items, kmf_encoder_help(owner, c->encoders[thread]));
        return;
    }
    for (int i = 0; i < N_HELPED || (i < MOST_HELPED && atomic_load(&h->items) == 0); i++) {
        const float *x = kmf_encoder_forward(owner, c->ids, team_batch, 6, 2);
        h->n_wrong += memcmp(x, c->alone, LONG_SEQ * TEAM_D * sizeof *x) != 0;
    }
    atomic_store(&h->over, 1);
}

static const char *same_bits_with_help(kmf_precision precision)
{
    static team c;
    helped h = {.team = &c};
    const char *wrong = assemble(&c, precision);
    if (!wrong) {
        const float *x = kmf_encoder_forward(c.encoders[0], c.ids, team_batch, 6, 2);
        memcpy(c.alone, x, LONG_SEQ * TEAM_D * sizeof *x);
        if (kmf_together(N_HELPING, forward_or_help, &h, NULL) != 0)
            wrong = "no threads";
        else if (h.n_wrong > 0)
            wrong = "with help the bits differ";
        else if (atomic_load(&h.items) == 0)
            wrong = "nobody helped";
    }
    dismiss(&c);
    return wrong;
}

static const char *help_leaves_the_bits(void)
{
    return in_each_precision(same_bits_with_help);
}

/* ---------------------------------------------------------------- the first layer -------- */

/* Rows before and after the first layer's table came into use, and without memory for it. */
static const char *same_bits_by_table(kmf_precision precision)
{
    static const size_t widths[] = {48, 40}; /* E, without and with a projection */
    const size_t T = 40, D = 48;
    for (size_t w = 0; w < 2; w++) {
        kmf_err err = {0};
        int32_t ids[128];
        kmf_model *model = odd_model(widths[w], D, 4, 80, &err);
        if (!model || kmf_model_prepare(model, precision, &err) != 0)
            return "no model";
        kmf_encoder *encoder = kmf_encoder_new(model, 128, 128, &err);
        float *kept = kmf_floats(2 * T * D, NULL);
        if (!encoder || !kept)
            return "no encoder";
        size_t V = kmf_model_config(model)->vocab_size;
        size_t tokens = 0;
        for (size_t t = 0; t < 2 * T; t++)
            ids[t] = (int32_t)(t % V); /* all there are */
        for (size_t half = 0; half < 2; half++, tokens += T)
            memcpy(kept + half * T * D,
                   kmf_encoder_forward(encoder, ids + half * T, (size_t[]){0, T}, 1, 2),
                   T * D * sizeof *kept);
        if (V > 2 * T || tokens < V || atomic_load(&model->packed->table))
            return "the table came too early";
        for (int again = 0; again < 3; again++) {
            kmf_mem_fail_at(again == 0);
            for (size_t half = 0; half < 2; half++)
                if (memcmp(kmf_encoder_forward(encoder, ids + half * T, (size_t[]){0, T}, 1, 2),
                           kept + half * T * D, T * D * sizeof *kept) != 0)
                    return "rows of the first layer's table differ";
        }
        kmf_mem_fail_at(0);
        if (!atomic_load(&model->packed->table))
            return "the table was not made";
        kmf_free(kept);
        kmf_encoder_free(encoder);
        kmf_model_free(model);
    }
    return NULL;
}

static const char *table_has_the_bits(void)
{
    return in_each_precision(same_bits_by_table);
}

/* ---------------------------------------------------------------- the tests -------------- */

static const levels_part parts[] = {
    {"roformer", golden_roformer},       {"rotary_value", golden_rotary_value},
    {"bits", same_bits_in_any_company},  {"logits", logits_of_many_rows},
    {"together", together_has_the_bits}, {"help", help_leaves_the_bits},
    {"table", table_has_the_bits},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static const char *const levels_encoder[] = {
    "",
    "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx2",
    "KMERFORMER_GEMM=plain KMERFORMER_CPU=baseline",
    "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Haswell",
    "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Nehalem",
    "KMERFORMER_GEMM=openblas OPENBLAS_CORETYPE=SkylakeX",
};
enum { N_ENCODER = sizeof levels_encoder / sizeof levels_encoder[0] };

static bool may_run(const char *setting)
{
    if (!strstr(setting, "SkylakeX"))
        return true;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return true;
#endif
    printf("skip: %s needs AVX-512\n", setting);
    return false;
}

#define ENCODER_TEST(test, names)                        \
    START_TEST(test)                                     \
    {                                                    \
        if (may_run(levels_encoder[_i]))                 \
            levels_run(names, levels_encoder[_i], NULL); \
    }                                                    \
    END_TEST

ENCODER_TEST(hidden_states_and_logits_meet_the_golden_numbers, "roformer rotary_value")
LEVELS_TEST(openblas_when_asked_for_meets_the_golden_numbers, "roformer",
            "KMERFORMER_GEMM=openblas")
ENCODER_TEST(a_sequence_has_the_same_bits_in_any_company, "bits")
ENCODER_TEST(logits_of_a_row_are_the_same_in_any_company, "logits")
ENCODER_TEST(encoders_together_have_the_bits_of_one, "together help")
ENCODER_TEST(the_first_layers_table_has_the_bits_of_the_product, "table")
LEVELS_TEST(bits_at_each_of_these_levels_are_the_same_in_any_company, "bits together help",
            levels_digits[_i])

START_TEST(a_model_is_prepared_for_one_precision)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_precision best = kmf_precision_here(KMF_PRECISION_AUTO);
    ck_assert_int_eq(kmf_model_precision(model), KMF_PRECISION_F32);
    ck_assert_int_eq(kmf_model_prepare(model, KMF_PRECISION_AUTO, &err), 0);
    ck_assert_int_eq(kmf_model_prepare(model, best, &err), 0);
    ck_assert_int_eq(kmf_model_precision(model), best);
    kmf_precision other = best == KMF_PRECISION_F32 ? KMF_PRECISION_INT8 : KMF_PRECISION_F32;
    if (has(other)) {
        ck_assert_int_eq(kmf_model_prepare(model, other, &err), KMF_EINVAL);
        ck_assert_msg(strstr(err.msg, kmf_precision_names[other]) != NULL, "%s", err.msg);
    }
    ck_assert_int_eq(kmf_model_precision(model), best);
    kmf_encoder *encoder = kmf_encoder_new(model, 10, 10, &err);
    ck_assert_ptr_nonnull(encoder);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
}
END_TEST

START_TEST(no_sequence_is_no_work)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_encoder *encoders[2];
    for (size_t i = 0; i < 2; i++) {
        encoders[i] = kmf_encoder_new(model, 10, 10, &err);
        ck_assert_ptr_nonnull(encoders[i]);
    }
    const float *hidden = NULL;
    const size_t off[1] = {0};
    ck_assert_ptr_nonnull(kmf_encoder_forward(encoders[0], ids_of[0], off, 0, 2));
    ck_assert_int_eq(
        kmf_encoder_forward_together(encoders, 2, &hidden, ids_of[0], off, 0, 2, &err), 0);
    ck_assert_ptr_nonnull(hidden);
    ck_assert_int_eq(
        kmf_encoder_forward_together(encoders, 0, &hidden, ids_of[0], off, 0, 2, &err),
        KMF_EINVAL);
    for (size_t i = 0; i < 2; i++)
        kmf_encoder_free(encoders[i]);
    kmf_model_free(model);
}
END_TEST

START_TEST(the_workspace_is_a_function_of_its_three_numbers)
{
    kmf_config config;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&config, "small", 6, &err), 0);
    size_t bytes = kmf_encoder_bytes(&config, KMF_PRECISION_F32, 4096, 512);
    /* x and qkv [4224, 4 * 384]: whole tiles of 96 rows, one of them from any token; out
       [rows, 384], two tables [512, 32], in floats; the feed-forward's and the attention's. The
       rest is the struct and cache-line rounding. */
    kmf_operand here = kmf_operand_of(KMF_PRECISION_F32);
    size_t floats = 4224 * 4 * 384 + kmf_gemm_rows(here) * 384 + 2 * 512 * 32;
    size_t known = 4 * floats + kmf_gemm_pair_scratch(384, 1536, false, here, here) +
                   kmf_attention_scratch(512, 64, (kmf_attention_precision){here, here});
    ck_assert_uint_ge(bytes, known);
    ck_assert_uint_le(bytes, known + 1024);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, KMF_PRECISION_F32, 4033, 512), bytes);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, KMF_PRECISION_F32, 4128, 512), bytes);
    ck_assert_uint_gt(kmf_encoder_bytes(&config, KMF_PRECISION_F32, 4129, 512), bytes);
    for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++)
        if (has((kmf_precision)p)) {
            ck_assert_uint_gt(kmf_encoder_bytes(&config, (kmf_precision)p, 4096, 512),
                              4 * (size_t)4224 * 4 * 384);
            ck_assert_uint_eq(kmf_encoder_bytes(&config, (kmf_precision)p, SIZE_MAX / 16, 9),
                              0);
        }
    ck_assert_uint_eq(kmf_encoder_bytes(&config, KMF_PRECISION_F32, SIZE_MAX / 16, 512), 0);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, KMF_PRECISION_F32, 4096, SIZE_MAX / 16), 0);
}
END_TEST

static long peak_kilobytes(void)
{
    struct rusage usage;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* The tables of its angles would be 200 MB; a sanitizer takes an eighth of all room at once. */
START_TEST(the_longest_sequence_takes_memory_when_it_comes)
{
    enum { T = 10, D = 48 };
    kmf_err err = {0};
    kmf_model *model = odd_model(32, D, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_encoder *near = kmf_encoder_new(model, T, T, &err);
    ck_assert_ptr_nonnull(near);
    const size_t off[] = {0, 3, T};
    const float *right = kmf_encoder_forward(near, ids_of[0], off, 2, 2);
    long before = peak_kilobytes();
    kmf_encoder *far = kmf_encoder_new(model, T, (size_t)1 << 22, &err);
    ck_assert_msg(far != NULL, "%s", err.msg);
    const float *hidden = kmf_encoder_forward(far, ids_of[0], off, 2, 2);
    ck_assert_int_eq(memcmp(hidden, right, T * D * sizeof *hidden), 0);
    ck_assert_int_lt(peak_kilobytes() - before, CHECKED ? 250000 : 50000);
    kmf_encoder_free(near);
    kmf_encoder_free(far);
    kmf_model_free(model);
}
END_TEST

/* The first encoder of a model packs its weights; after a failure a later one may. */
START_TEST(an_encoder_says_so_when_memory_is_out)
{
    kmf_err err = {0};
    size_t n = 1;
    for (size_t i = 0; i <= n; i++) {
        kmf_model *model = odd_model(32, 48, 4, 96, &err);
        ck_assert_msg(model != NULL, "%s", err.msg);
        kmf_err failed = {0};
        kmf_mem_fail_at(i);
        kmf_encoder *encoder = kmf_encoder_new(model, 100, 100, &failed);
        if (i == 0) {
            n = kmf_mem_count();
            ck_assert_uint_ge(n, 5);
        } else {
            ck_assert_ptr_null(encoder);
            ck_assert_int_eq(failed.code, KMF_ENOMEM);
            kmf_mem_fail_at(0);
            encoder = kmf_encoder_new(model, 100, 100, &err);
        }
        ck_assert_msg(encoder != NULL, "%s", err.msg);
        kmf_mem_fail_at(1);
        ck_assert_ptr_null(kmf_encoder_new(model, 100, 100, &failed));
        kmf_mem_fail_at(0);
        kmf_encoder_free(encoder);
        kmf_model_free(model);
    }
}
END_TEST

START_TEST(a_failed_preparation_leaves_the_precision_open)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_err failed = {0};
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_model_prepare(model, KMF_PRECISION_AUTO, &failed), KMF_ENOMEM);
    kmf_mem_fail_at(0);
    ck_assert_int_eq(kmf_model_precision(model), KMF_PRECISION_F32);
    ck_assert_int_eq(kmf_model_prepare(model, KMF_PRECISION_F32, &err), 0);
    kmf_model_free(model);
}
END_TEST

START_TEST(encoders_without_room_are_refused)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_err wrong = {0};
    ck_assert_ptr_null(kmf_encoder_new(model, 0, 100, &wrong));
    ck_assert_int_eq(wrong.code, KMF_EINVAL);
    kmf_err huge = {0};
    ck_assert_ptr_null(kmf_encoder_new(model, SIZE_MAX / 16, 100, &huge));
    ck_assert_int_eq(huge.code, KMF_ENOMEM);
    kmf_encoder_free(NULL);
    kmf_model_free(model);
}
END_TEST

/* But for the first layer's table, once, when V tokens have been seen. */
START_TEST(forward_and_logits_allocate_nothing)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_encoder *encoder = kmf_encoder_new(model, MAX_SEQ, MAX_SEQ, &err);
    ck_assert_ptr_nonnull(encoder);
    size_t V = kmf_model_config(model)->vocab_size;
    float *logits = kmf_floats(V, NULL);
    ck_assert_ptr_nonnull(logits);
    draw_ids(V);
    const size_t off[3] = {0, 148, 149};
    ck_assert_uint_le(V, 149);
    size_t row = 148;
    for (size_t i = 0; i < 4; i++) {
        kmf_mem_fail_at(0);
        ck_assert_ptr_nonnull(kmf_encoder_forward(encoder, ids_of[5], off, 2, 2));
        ck_assert_int_eq(kmf_encoder_logits(encoder, logits, &row, 1, &err), 0);
        ck_assert_uint_eq(kmf_mem_count(), i == 1);
    }
    ck_assert_ptr_nonnull(kmf_encoder_forward(encoder, ids_of[5], off, 2, 1));
    ck_assert_int_eq(kmf_encoder_logits(encoder, logits, &row, 1, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the last forward did not go through all layers");
    kmf_free(logits);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
}
END_TEST

START_TEST(threads_that_cannot_be_had_are_told)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_encoder *encoders[2];
    for (size_t i = 0; i < 2; i++) {
        encoders[i] = kmf_encoder_new(model, 10, 10, &err);
        ck_assert_ptr_nonnull(encoders[i]);
    }
    const float *hidden;
    const size_t off[2] = {0, 1};
    kmf_mem_fail_at(1);
    ck_assert_int_eq(
        kmf_encoder_forward_together(encoders, 2, &hidden, ids_of[0], off, 1, 2, &err),
        KMF_ENOMEM);
    kmf_mem_fail_at(0);
    for (size_t i = 0; i < 2; i++)
        kmf_encoder_free(encoders[i]);
    kmf_model_free(model);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, hidden_states_and_logits_meet_the_golden_numbers, 0, N_ENCODER);
    tcase_add_test(tcase, openblas_when_asked_for_meets_the_golden_numbers);
    tcase_add_loop_test(tcase, a_sequence_has_the_same_bits_in_any_company, 0, N_ENCODER);
    tcase_add_loop_test(tcase, logits_of_a_row_are_the_same_in_any_company, 0, N_ENCODER);
    tcase_add_loop_test(tcase, encoders_together_have_the_bits_of_one, 0, N_ENCODER);
    tcase_add_loop_test(tcase, the_first_layers_table_has_the_bits_of_the_product, 0,
                        N_ENCODER);
    tcase_add_loop_test(tcase, bits_at_each_of_these_levels_are_the_same_in_any_company, 0,
                        N_DIGITS);
    tcase_add_test(tcase, a_model_is_prepared_for_one_precision);
    tcase_add_test(tcase, no_sequence_is_no_work);
    tcase_add_test(tcase, the_workspace_is_a_function_of_its_three_numbers);
    tcase_add_test(tcase, the_longest_sequence_takes_memory_when_it_comes);
    tcase_add_test(tcase, an_encoder_says_so_when_memory_is_out);
    tcase_add_test(tcase, a_failed_preparation_leaves_the_precision_open);
    tcase_add_test(tcase, encoders_without_room_are_refused);
    tcase_add_test(tcase, forward_and_logits_allocate_nothing);
    tcase_add_test(tcase, threads_that_cannot_be_had_are_told);
    return run_case("encoder", tcase);
}
