/* SPDX-License-Identifier: MIT */
/*
 * The encoder against published checkpoints' own numbers (tests/golden, computed by PyTorch),
 * and against itself: a sequence's rows have the same bits in any company.
 */
#include "base/mem.h"
#include "checked.h"
#include "levels.h"

#include "kmerformer.h"
#include "run.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>

static uint64_t seed = 88172645463325252u;

/* ---------------------------------------------------------------- golden numbers --------- */

/* The floats of a little-endian float32 .npy of version 1; NULL if it cannot be read. */
static float *read_npy(const char *dir, const char *name, size_t *n)
{
    char path[256];
    unsigned char head[10];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    float *data = NULL;
    if (fread(head, 1, 10, file) == 10 && fseek(file, 0, SEEK_END) == 0) {
        long beg = 10 + head[8] + 256 * head[9];
        *n = (size_t)(ftell(file) - beg) / sizeof *data;
        data = kmf_floats(*n, NULL);
        if (data &&
            (fseek(file, beg, SEEK_SET) != 0 || fread(data, sizeof *data, *n, file) != *n)) {
            kmf_free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

/* The largest |a - b|; NaN if there is a NaN. */
static double largest(double so_far, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        so_far = d <= so_far ? so_far : d;
    }
    return so_far;
}

static const char *golden(const char *dir)
{
    char path[256];
    kmf_err err = {0};
    size_t n_hidden, n_layers, n_logits;
    float *hidden = read_npy(dir, "hidden.npy", &n_hidden);
    float *layers = read_npy(dir, "layers.npy", &n_layers);
    float *logits = read_npy(dir, "logits.npy", &n_logits);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *expected = json_load_file(path, 0, NULL);
    kmf_model *model = kmf_model_load(dir, &err);
    if (!hidden || !layers || !logits || !expected || !model) {
        fprintf(stderr, "%s: %s\n", dir, err.msg);
        return "the golden files cannot be read";
    }
    const kmf_config *config = kmf_model_config(model);
    size_t D = config->hidden_size;
    size_t V = config->vocab_size;
    kmf_encoder *encoder = kmf_encoder_new(model, 600, 600, &err);
    float *row_logits = kmf_floats(V, NULL);
    if (!encoder || !row_logits)
        return "no encoder";

    double worst_hidden = 0.0, worst_layers = 0.0, worst_logits = 0.0;
    size_t n_cases = 0, n_rows = 0, n_states = 0;
    size_t c;
    json_t *item;
    json_array_foreach(json_object_get(expected, "cases"), c, item)
    {
        json_t *input = json_object_get(item, "input_ids");
        size_t T = json_array_size(input);
        int32_t ids[600];
        for (size_t t = 0; t < T; t++)
            ids[t] = (int32_t)json_integer_value(json_array_get(input, t));
        const size_t off[2] = {0, T};
        size_t row = (size_t)json_integer_value(json_object_get(item, "hidden_row"));
        if (strcmp(json_string_value(json_object_get(item, "name")), "short") == 0)
            for (size_t l = 0; l <= config->n_layers; l++, n_states++) {
                const float *state = kmf_encoder_forward(encoder, ids, off, 1, l);
                worst_layers = largest(worst_layers, state, layers + l * T * D, T * D);
            }
        const float *x = kmf_encoder_forward(encoder, ids, off, 1, config->n_layers);
        worst_hidden = largest(worst_hidden, x, hidden + row * D, T * D);
        n_cases++;
        size_t m;
        json_t *mlm;
        json_array_foreach(json_object_get(item, "mlm"), m, mlm)
        {
            size_t position = (size_t)json_integer_value(json_object_get(mlm, "position"));
            size_t at = (size_t)json_integer_value(json_object_get(mlm, "logits_row"));
            if (kmf_encoder_logits(encoder, row_logits, &position, 1, &err) != 0)
                return "no logits";
            worst_logits = largest(worst_logits, row_logits, logits + at * V, V);
            n_rows++;
        }
    }
    printf("%s: %zu cases: largest error: hidden %.2e, layers %.2e, logits %.2e\n", dir,
           n_cases, worst_hidden, worst_layers, worst_logits);
    bool complete = n_cases > 5 && n_rows * V == n_logits && n_states == config->n_layers + 1;
    kmf_encoder_free(encoder);
    kmf_model_free(model);
    json_decref(expected);
    kmf_free(hidden);
    kmf_free(layers);
    kmf_free(logits);
    kmf_free(row_logits);
    if (!complete)
        return "not all golden rows were met";
    if (!(worst_hidden <= 1e-4 && worst_layers <= 1e-4 && worst_logits <= 2e-4))
        return "the golden numbers are not met";
    return NULL;
}

static const char *golden_roformer(void)
{
    return golden("tests/golden/roformer");
}

static const char *golden_rotary_value(void)
{
    return golden("tests/golden/roformer-rotary-value");
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

static const char *same_bits_in_any_company(void)
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
        kmf_encoder *large = model ? kmf_encoder_new(model, MAX_TOKENS, MAX_SEQ, &err) : NULL;
        kmf_encoder *small = model ? kmf_encoder_new(model, MAX_SEQ, MAX_SEQ, &err) : NULL;
        if (!large || !small) {
            fprintf(stderr, "%s\n", err.msg);
            return "no model";
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

/* ---------------------------------------------------------------- the tests -------------- */

static const levels_part parts[] = {
    {"roformer", golden_roformer},
    {"rotary_value", golden_rotary_value},
    {"bits", same_bits_in_any_company},
    {"logits", logits_of_many_rows},
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

START_TEST(hidden_states_and_logits_meet_the_golden_numbers)
{
    if (!may_run(levels_encoder[_i]))
        return;
    levels_run("roformer", levels_encoder[_i], NULL);
    levels_run("rotary_value", levels_encoder[_i], NULL);
}
END_TEST

START_TEST(openblas_when_asked_for_meets_the_golden_numbers)
{
    levels_run("roformer", "KMERFORMER_GEMM=openblas", NULL);
}
END_TEST

START_TEST(a_sequence_has_the_same_bits_in_any_company)
{
    if (may_run(levels_encoder[_i]))
        levels_run("bits", levels_encoder[_i], NULL);
}
END_TEST

START_TEST(logits_of_a_row_are_the_same_in_any_company)
{
    if (may_run(levels_encoder[_i]))
        levels_run("logits", levels_encoder[_i], NULL);
}
END_TEST

START_TEST(the_workspace_is_a_function_of_its_three_numbers)
{
    kmf_config config;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&config, "small", 6, &err), 0);
    size_t bytes = kmf_encoder_bytes(&config, 4096, 512);
    /* x and qkv [4096, 4 * 384], out [128, 384], ff [128, 1536], two tables [512, 32],
       attention's (64 + 64) * 512, in floats; the rest is the struct and cache-line rounding */
    size_t floats = 4096 * 4 * 384 + 128 * 384 + 128 * 1536 + 2 * 512 * 32 + 128 * 512;
    ck_assert_uint_ge(bytes, 4 * floats);
    ck_assert_uint_le(bytes, 4 * floats + 1024);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, 4095, 512), bytes);
    ck_assert_uint_gt(kmf_encoder_bytes(&config, 4097, 512), bytes);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, SIZE_MAX / 16, 512), 0);
    ck_assert_uint_eq(kmf_encoder_bytes(&config, 4096, SIZE_MAX / 16), 0);
}
END_TEST

START_TEST(an_encoder_says_so_when_memory_is_out)
{
    kmf_err err = {0};
    kmf_model *model = odd_model(32, 48, 4, 96, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    kmf_mem_fail_at(0);
    kmf_encoder *encoder = kmf_encoder_new(model, 100, 100, &err);
    ck_assert_ptr_nonnull(encoder);
    size_t n = kmf_mem_count();
    ck_assert_uint_ge(n, 2);
    kmf_encoder_free(encoder);
    for (size_t i = 1; i <= n; i++) {
        kmf_err failed = {0};
        kmf_mem_fail_at(i);
        ck_assert_ptr_null(kmf_encoder_new(model, 100, 100, &failed));
        ck_assert_int_eq(failed.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
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
    size_t row = 148;
    kmf_mem_fail_at(0);
    ck_assert_ptr_nonnull(kmf_encoder_forward(encoder, ids_of[5], off, 2, 2));
    ck_assert_int_eq(kmf_encoder_logits(encoder, logits, &row, 1, &err), 0);
    ck_assert_uint_eq(kmf_mem_count(), 0);
    kmf_free(logits);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return levels_child(parts, N_PARTS, argv);
    Suite *suite = suite_create("encoder");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, hidden_states_and_logits_meet_the_golden_numbers, 0, N_ENCODER);
    tcase_add_test(tcase, openblas_when_asked_for_meets_the_golden_numbers);
    tcase_add_loop_test(tcase, a_sequence_has_the_same_bits_in_any_company, 0, N_ENCODER);
    tcase_add_loop_test(tcase, logits_of_a_row_are_the_same_in_any_company, 0, N_ENCODER);
    tcase_add_test(tcase, the_workspace_is_a_function_of_its_three_numbers);
    tcase_add_test(tcase, an_encoder_says_so_when_memory_is_out);
    tcase_add_test(tcase, forward_and_logits_allocate_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
