/* SPDX-License-Identifier: MIT */
/*
 * Embedders of models that are made here for what no published one does: states that are not
 * finite, a thousand layers, weights that are drawn in another shape; and means over chunks, by
 * hand.
 */
#include "models.h"
#include "run.h"

#include <math.h>

/* Those that put many tokens together. */
static const int poolings[] = {KMF_POOL_MEAN, KMF_POOL_MAX};

static kmf_embed_options one_thread(void)
{
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = 1;
    return o;
}

static kmf_embedder *embedder_of(const char *model, const kmf_embed_options *o)
{
    kmf_err err = {0};
    kmf_embedder *e = kmf_embedder_new(model, o, &err);
    ck_assert_msg(e, "%s", err.msg);
    return e;
}

static kmf_config small_config(size_t layers)
{
    kmf_config config;
    ck_assert_int_eq(kmf_config_preset(&config, "nano", 3, NULL), 0);
    config.embedding_size = config.hidden_size = 8;
    config.n_heads = 2;
    config.n_layers = layers;
    config.intermediate_size = 8;
    return config;
}

static void save_drawn(const kmf_config *config, const char *name)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_new(config, 5, &err);
    ck_assert_msg(model && kmf_model_save(model, in_dir(name), KMF_F32, NULL, &err) == 0, "%s",
                  err.msg);
    kmf_model_free(model);
}

/* ---------------------------------------------------------------- not finite ------------- */

/* Finite weights whose layer norm overflows where a sequence has ACG: of states, or composition. */
static void save_overflowing(size_t composition)
{
    kmf_config config = small_config(1);
    kmf_err err = {0};
    config.composition = composition;
    kmf_model *model = kmf_model_draw(&config, 5, &err);
    ck_assert_msg(model, "%s", err.msg);
    size_t acg = (size_t)kmf_vocab_kmer(model->vocab, 6);
    float *word = composition > 0 ? model->params.comp_word + composition * acg
                                  : model->params.word + config.embedding_size * acg;
    for (size_t i = 0; i < 8; i++)
        word[i] = i < 4 ? 3e38f : -1;
    ck_assert_msg(kmf_model_save(model, in_dir("m"), KMF_F32, NULL, &err) == 0, "%s", err.msg);
    kmf_model_free(model);
}

/* In the first token, in the last one, and in a chunk before or behind others. */
START_TEST(a_state_that_is_not_finite_is_told_whatever_the_pooling)
{
    static const char *const bad[] = {"ACGTTTTT", "TTTTTACG", "TTTACGTTT", "ACG"};
    char far[2][200];
    save_overflowing(0);
    for (int i = 0; i < 2; i++) {
        memset(far[i], 'T', sizeof far[i]);
        memcpy(far[i] + (i ? sizeof far[i] - 4 : 0), "ACG", 3);
        far[i][sizeof far[i] - 1] = '\0';
    }
    for (size_t p = 0; p < 2; p++) {
        kmf_embed_options o = one_thread();
        float vector[8];
        o.pooling = poolings[p];
        o.layer = 0;
        o.window = 16;
        kmf_embedder *e = embedder_of(in_dir("m"), &o);
        for (size_t i = 0; i < 6; i++) {
            kmf_err err = {0};
            ck_assert_int_eq(kmf_embed_sequence(e, vector, i < 4 ? bad[i] : far[i - 4], &err),
                             KMF_ENUMERIC);
            ck_assert_msg(strstr(err.msg, "not finite"), "%s", err.msg);
        }
        ck_assert_int_eq(kmf_embed_sequence(e, vector, "TTTTTTTTGGA", NULL), 0);
        ck_assert(isfinite(vector[0]));
        kmf_embedder_free(e);
    }
}
END_TEST

/* A composition that is finite until it is made of its mean, among others in a batch. */
START_TEST(a_composition_that_is_not_finite_names_its_record)
{
    kmf_embed_options o = one_thread();
    kmf_err err = {0};
    save_overflowing(8);
    o.parts = KMF_PARTS_COMPOSITION;
    kmf_embedder *e = embedder_of(in_dir("m"), &o);
    ck_assert_int_eq(kmf_embedder_add(e, "a", "TTTTTTTTGGA", 11, NULL), 0);
    ck_assert_int_eq(kmf_embedder_add(e, "b", "ACG", 3, NULL), 0);
    ck_assert_int_eq(kmf_embedder_add(e, "c", "GGATTTT", 7, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, &err), KMF_ENUMERIC);
    ck_assert_msg(strstr(err.msg, "record 2 'b': ") && strstr(err.msg, "not finite"), "%s",
                  err.msg);
    kmf_embedder_free(e);
}
END_TEST

/* A model of one layer whose states are all -0.0. */
static void save_zeros(void)
{
    kmf_config config = small_config(1);
    kmf_err err = {0};
    kmf_model *model = kmf_model_draw(&config, 5, &err);
    ck_assert_msg(model, "%s", err.msg);
    for (size_t i = 0; i < 8; i++) {
        model->params.layers[0].ln2_w[i] = 0;
        model->params.layers[0].ln2_b[i] = -0.0f;
    }
    ck_assert_msg(kmf_model_save(model, in_dir("m"), KMF_F32, NULL, &err) == 0, "%s", err.msg);
    kmf_model_free(model);
}

/* Its sign is that of a sum, wherever it is made: both strands in a batch, or one in each. */
START_TEST(a_state_of_zero_has_one_sign)
{
    static const int all[] = {KMF_POOL_MEAN, KMF_POOL_MEAN_ALL, KMF_POOL_CLS};
    char seq[] = "ACGTTGCATGGACTTACCAGATTACATGCAACGATCAGGTACCAGTTAGCA";
    save_zeros();
    for (size_t p = 0; p < sizeof all / sizeof all[0]; p++)
        for (int strand = KMF_STRAND_FWD; strand <= KMF_STRAND_BOTH; strand++)
            for (size_t batch = 64; batch <= 1024; batch *= 16) {
                kmf_embed_options o = one_thread();
                float vector[8];
                o.pooling = all[p];
                o.strand = strand;
                o.batch_tokens = batch;
                kmf_embedder *e = embedder_of(in_dir("m"), &o);
                ck_assert_int_eq(kmf_embed_sequence(e, vector, seq, NULL), 0);
                for (size_t d = 0; d < 8; d++)
                    ck_assert_msg(vector[d] == 0 && !signbit(vector[d]), "%s, %s, %zu: %g",
                                  kmf_pooling_names[all[p]], kmf_strand_names[strand], batch,
                                  (double)vector[d]);
                kmf_embedder_free(e);
            }
}
END_TEST

/* A record of several chunks that fails in its last one leaves nothing of the others. */
START_TEST(after_a_failure_amid_a_record_the_embedder_is_as_new)
{
    static char text[3000];
    kmf_config config = small_config(1);
    kmf_embed_options o = one_thread();
    float want[8], got[8];
    kmf_err err = {0};
    save_drawn(&config, "m");
    o.window = 10;
    o.overlap = 2;
    o.batch_tokens = 64;
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    for (size_t p = 0; p < 2; p++) {
        o.pooling = poolings[p];
        kmf_embedder *e = embedder_of(in_dir("m"), &o);
        ck_assert_int_eq(kmf_embed_sequence(e, want, "ACGTACGTTTGACA", NULL), 0);
        for (size_t i = 0; i + 1 < sizeof text; i++)
            text[i] = "ACGT"[(i * 7 + i / 3) % 4];
        text[2900] = 'N';
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_embed_sequence(e, got, text, &err), KMF_EFORMAT);
        ck_assert_int_eq(kmf_embed_sequence(e, got, "ACGTACGTTTGACA", NULL), 0);
        ck_assert_mem_eq(got, want, sizeof want);
        kmf_embedder_free(e);
    }
}
END_TEST

/* ---------------------------------------------------------------- frames ----------------- */

/* The mean over what each chunk counts: its own tokens, and the first and the last if framed. */
static void mean_by_hand(const kmf_model *model, const char *seq, double *mean)
{
    const kmf_config *c = kmf_model_config(model);
    size_t D = c->hidden_size, n = 0;
    size_t frame = c->specials ? kmf_vocab_frame(kmf_model_vocab(model)) : 0;
    kmf_cut_options cut = {.stride = 1,
                           .window = 40,
                           .overlap = 10,
                           .specials = c->specials,
                           .ambiguous = KMF_AMBIGUOUS_SKIP};
    kmf_chunk chunk;
    kmf_err err = {0};
    size_t n_chunks = 0;
    kmf_cutter *cutter = kmf_cutter_new(kmf_model_vocab(model), &cut, &err);
    kmf_encoder *encoder = kmf_encoder_new(model, 40, 40, &err);
    ck_assert_msg(cutter && encoder, "%s", err.msg);
    memset(mean, 0, D * sizeof *mean);
    kmf_cutter_start(cutter, "x", seq, strlen(seq));
    while (kmf_cutter_next(cutter, &chunk, &err) > 0) {
        size_t off[] = {0, chunk.n};
        const float *hidden = kmf_encoder_forward(encoder, chunk.ids, off, 1, c->n_layers);
        n_chunks++;
        for (size_t t = 0; t < chunk.n; t++) {
            bool framing = (frame > 0 && t == 0) || (frame > 1 && t == chunk.n - 1);
            if (!framing && (t < chunk.own_beg || t >= chunk.own_end))
                continue;
            n++;
            for (size_t d = 0; d < D; d++)
                mean[d] += (double)hidden[t * D + d];
        }
    }
    ck_assert(n_chunks > 2);
    for (size_t d = 0; d < D; d++)
        mean[d] /= (double)n;
    kmf_cutter_free(cutter);
    kmf_encoder_free(encoder);
}

/* [CLS] and [SEP]; [CLS] alone; no frame, because the config says so. */
START_TEST(each_chunk_counts_its_own_tokens_and_its_frame)
{
    static const char *const models[] = {"tests/golden/roformer", "tests/golden/nt-v1", "bare"};
    static char seq[1200];
    double mean[256];
    float vector[256];
    kmf_config config = small_config(2);
    config.specials = 0;
    save_drawn(&config, "bare");
    for (size_t i = 0; i + 1 < sizeof seq; i++)
        seq[i] = "ACGT"[(i * i / 7 + i / 3) % 4];
    for (size_t i = 0; i < 3; i++) {
        kmf_embed_options o = one_thread();
        kmf_err err = {0};
        const char *path = i == 2 ? in_dir(models[i]) : models[i];
        kmf_model *model = kmf_model_load(path, &err);
        ck_assert_msg(model, "%s", err.msg);
        size_t D = kmf_model_config(model)->hidden_size;
        ck_assert_uint_le(D, 256);
        ck_assert_int_eq(kmf_model_config(model)->specials, i < 2);
        o.pooling = KMF_POOL_MEAN_ALL;
        o.layer = (int)kmf_model_config(model)->n_layers;
        o.stride = 1;
        o.window = 40;
        o.overlap = 10;
        o.ambiguous = KMF_AMBIGUOUS_SKIP;
        o.strand = KMF_STRAND_FWD;
        o.norm = KMF_NORM_NONE;
        mean_by_hand(model, seq, mean);
        kmf_embedder *e = embedder_of(path, &o);
        ck_assert_msg(kmf_embed_sequence(e, vector, seq, &err) == 0, "%s", err.msg);
        for (size_t d = 0; d < D; d++)
            ck_assert_msg(fabs((double)vector[d] - mean[d]) < 1e-5,
                          "%s, column %zu: %g, not %g", models[i], d, (double)vector[d],
                          mean[d]);
        kmf_embedder_free(e);
        kmf_model_free(model);
    }
}
END_TEST

/* ---------------------------------------------------------------- identity --------------- */

/* What tells which model and settings made vectors; freed by kmf_text_free. */
static char *identity_of(const char *model, const kmf_embed_options *o)
{
    kmf_err err = {0};
    kmf_embedder *e = embedder_of(model, o);
    char *text = kmf_embedder_identity(e, &err);
    ck_assert_msg(text, "%s", err.msg);
    kmf_embedder_free(e);
    return text;
}

/* Whatever of the shape changes the vectors is told with weights that are drawn for it. */
START_TEST(drawn_weights_are_those_of_a_shape)
{
    kmf_embed_options o = one_thread();
    char name[512];
    kmf_config config = small_config(1);
    save_drawn(&config, "usual");
    snprintf(name, sizeof name, "random:%s", in_dir("usual"));
    char *usual = identity_of(name, &o);
    ck_assert_ptr_nonnull(strstr(usual, "config_md5"));
    for (int change = 0; change < 6; change++) {
        config = small_config(1);
        if (change == 1)
            config.activation = KMF_RELU;
        if (change == 2)
            config.layer_norm_eps = 0.05;
        if (change == 3)
            config.rotary_value = !config.rotary_value;
        if (change == 4)
            config.embedding_size = 4;
        if (change == 5)
            config.composition = 4;
        char folder[16];
        kmf_err err = {0};
        snprintf(folder, sizeof folder, "changed%d", change);
        save_drawn(&config, folder);
        snprintf(name, sizeof name, "random:%s", in_dir(folder));
        kmf_embedder *e = kmf_embedder_reopen(usual, name, 1, &err);
        if (change == 0) {
            ck_assert_msg(e, "%s", err.msg);
        } else {
            ck_assert_ptr_null(e);
            ck_assert_msg(err.code == KMF_EMODEL && strstr(err.msg, "config_md5 differs"),
                          "%d: %s", change, err.msg);
        }
        kmf_embedder_free(e);
    }
    kmf_text_free(usual);
}
END_TEST

/* As many layers as a config may have. */
START_TEST(a_layer_beyond_a_thousand_is_found_again)
{
    kmf_config config = small_config(1024);
    kmf_embed_options o = one_thread();
    kmf_err err = {0};
    save_drawn(&config, "deep");
    o.layer = 1023;
    char *was = identity_of(in_dir("deep"), &o);
    kmf_embedder *e = kmf_embedder_reopen(was, NULL, 1, &err);
    ck_assert_msg(e, "%s", err.msg);
    kmf_embedder_options(e, &o);
    ck_assert_int_eq(o.layer, 1023);
    kmf_embedder_free(e);
    kmf_text_free(was);
}
END_TEST

/* The published tokenizer is one of the settings. */
START_TEST(an_exact_embedder_is_found_again)
{
    kmf_embed_options o = one_thread();
    kmf_err err = {0};
    o.exact = 1;
    char *was = identity_of("tests/golden/dnabert", &o);
    kmf_embedder *e = kmf_embedder_reopen(was, NULL, 1, &err);
    ck_assert_msg(e, "%s", err.msg);
    char *now = kmf_embedder_identity(e, &err);
    ck_assert_str_eq(now, was);
    kmf_text_free(now);
    kmf_text_free(was);
    kmf_embedder_free(e);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("models");
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a_state_that_is_not_finite_is_told_whatever_the_pooling);
    tcase_add_test(tc, a_composition_that_is_not_finite_names_its_record);
    tcase_add_test(tc, a_state_of_zero_has_one_sign);
    tcase_add_test(tc, after_a_failure_amid_a_record_the_embedder_is_as_new);
    tcase_add_test(tc, each_chunk_counts_its_own_tokens_and_its_frame);
    tcase_add_test(tc, drawn_weights_are_those_of_a_shape);
    tcase_add_test(tc, a_layer_beyond_a_thousand_is_found_again);
    tcase_add_test(tc, an_exact_embedder_is_found_again);
    return run_case("embed_models", tc);
}
