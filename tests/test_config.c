/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the golden config.json files, read by eye into the expectations; parameter
 * counts added up by hand; the text that is written against the golden file's keys.
 */
#include "base/io.h"
#include "base/json.h"
#include "failing.h"
#include "model/config.h"
#include "run.h"

#include <check.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES                                                                                 \
    "\"model_type\":\"roformer\",\"vocab_size\":9,\"hidden_size\":8,\"num_hidden_layers\":2," \
    "\"num_attention_heads\":2,\"intermediate_size\":16"

static int parse(kmf_config *config, char **provenance, const char *text, kmf_err *err)
{
    return kmf_config_parse(config, provenance, text, strlen(text), NULL, "config.json", err);
}

/* Parsed; must be good. */
static kmf_config good(const char *text)
{
    kmf_config config;
    char *provenance;
    kmf_err err = {0};
    int rc = parse(&config, &provenance, text, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    kmf_free(provenance);
    return config;
}

static void assert_equal(const kmf_config *a, const kmf_config *b)
{
    ck_assert_uint_eq(a->vocab_size, b->vocab_size);
    ck_assert_uint_eq(a->embedding_size, b->embedding_size);
    ck_assert_uint_eq(a->hidden_size, b->hidden_size);
    ck_assert_uint_eq(a->n_layers, b->n_layers);
    ck_assert_uint_eq(a->n_heads, b->n_heads);
    ck_assert_uint_eq(a->intermediate_size, b->intermediate_size);
    ck_assert_uint_eq(a->max_positions, b->max_positions);
    ck_assert_uint_eq(a->type_vocab_size, b->type_vocab_size);
    ck_assert(a->layer_norm_eps == b->layer_norm_eps);
    ck_assert_int_eq(a->activation, b->activation);
    ck_assert_int_eq(a->rotary_value, b->rotary_value);
    ck_assert_int_eq(a->k, b->k);
    ck_assert_uint_eq(a->stride, b->stride);
    ck_assert_uint_eq(a->window, b->window);
    ck_assert_uint_eq(a->overlap, b->overlap);
    ck_assert_int_eq(a->specials, b->specials);
    ck_assert_int_eq(a->pooling, b->pooling);
    ck_assert_int_eq(a->layer, b->layer);
    ck_assert_uint_eq(a->composition, b->composition);
    ck_assert_int_eq(a->parts, b->parts);
    ck_assert_int_eq(a->strand, b->strand);
    ck_assert_int_eq(a->norm, b->norm);
    ck_assert_int_eq(a->ambiguous, b->ambiguous);
}

START_TEST(reads_a_published_config)
{
    size_t len;
    kmf_err err = {0};
    char *text = kmf_file_read("tests/golden/roformer/config.json", 1 << 20, &len, &err);
    ck_assert_msg(text != NULL, "%s", err.msg);
    kmf_config c = good(text);
    kmf_config want = {.vocab_size = 1029,
                       .embedding_size = 32,
                       .hidden_size = 48,
                       .n_layers = 3,
                       .n_heads = 4,
                       .intermediate_size = 96,
                       .max_positions = 512,
                       .type_vocab_size = 2,
                       .layer_norm_eps = 1e-12,
                       .activation = KMF_GELU,
                       .rotary_value = 0,
                       .k = 0,
                       .stride = 1,
                       .window = 512,
                       .overlap = 64,
                       .specials = -1,
                       .pooling = KMF_POOL_MEAN,
                       .layer = -1,
                       .strand = KMF_STRAND_FWD,
                       .norm = KMF_NORM_NONE,
                       .ambiguous = KMF_AMBIGUOUS_SKIP};
    assert_equal(&c, &want);
    kmf_free(text);
}
END_TEST

START_TEST(what_is_absent_or_null_has_its_default)
{
    kmf_config c = good("{" SIZES "}");
    ck_assert_uint_eq(c.embedding_size, 8);
    ck_assert_uint_eq(c.max_positions, 1536);
    ck_assert_uint_eq(c.type_vocab_size, 2);
    ck_assert(c.layer_norm_eps == 1e-12);
    ck_assert_int_eq(c.activation, KMF_GELU);
    ck_assert_int_eq(c.rotary_value, 0);
    ck_assert_uint_eq(c.stride, 1);
    ck_assert_uint_eq(c.window, 1536);
    ck_assert_uint_eq(c.overlap, 192);
    kmf_config d = good("{" SIZES ",\"embedding_size\":null,\"layer_norm_eps\":null,"
                        "\"hidden_act\":null,\"kmerformer\":{},\"some_new_key\":[1,{}]}");
    assert_equal(&c, &d);
    c = good("{" SIZES ",\"kmerformer\":{\"window\":64}}"); /* an eighth of it */
    ck_assert_uint_eq(c.overlap, 8);
}
END_TEST

START_TEST(what_is_said_is_taken)
{
    char *provenance;
    kmf_config c;
    kmf_err err = {0};
    const char *text =
        "{" SIZES ",\"embedding_size\":4,\"max_position_embeddings\":100,\"type_vocab_size\":1,"
        "\"layer_norm_eps\":1e-5,\"hidden_act\":\"relu\",\"rotary_value\":true,\"kmerformer\":{"
        "\"k\":1,\"stride\":3,\"window\":64,\"overlap\":32,\"specials\":true,\"pooling\":"
        "\"cls\","
        "\"layer\":-3,\"strand\":\"both\",\"norm\":\"l2\",\"ambiguous\":\"break\","
        "\"provenance\":{\"z\":1,\"a\":[0.1,2.5e-7]}}}";
    ck_assert_int_eq(parse(&c, &provenance, text, &err), 0);
    kmf_config want = {.vocab_size = 9,
                       .embedding_size = 4,
                       .hidden_size = 8,
                       .n_layers = 2,
                       .n_heads = 2,
                       .intermediate_size = 16,
                       .max_positions = 100,
                       .type_vocab_size = 1,
                       .layer_norm_eps = 1e-5,
                       .activation = KMF_RELU,
                       .rotary_value = 1,
                       .k = 1,
                       .stride = 3,
                       .window = 64,
                       .overlap = 32,
                       .specials = 1,
                       .pooling = KMF_POOL_CLS,
                       .layer = -3,
                       .strand = KMF_STRAND_BOTH,
                       .norm = KMF_NORM_L2,
                       .ambiguous = KMF_AMBIGUOUS_BREAK};
    assert_equal(&c, &want);
    ck_assert_str_eq(provenance, "{\"z\":1,\"a\":[0.1,2.5e-7]}");
    kmf_free(provenance);
}
END_TEST

START_TEST(both_names_of_the_tanh_gelu_are_one)
{
    kmf_config a = good("{" SIZES ",\"hidden_act\":\"gelu_new\"}");
    kmf_config b = good("{" SIZES ",\"hidden_act\":\"gelu_pytorch_tanh\"}");
    ck_assert_int_eq(a.activation, KMF_GELU_TANH);
    ck_assert_int_eq(b.activation, KMF_GELU_TANH);
}
END_TEST

#define REST ",\"num_hidden_layers\":2,\"num_attention_heads\":2,\"intermediate_size\":16}"
#define TYPE "{\"model_type\":\"roformer\""
#define USE(text) "{" SIZES ",\"kmerformer\":{" text "}}"

static const struct lie {
    const char *text;
    const char *says;
} lies[] = {
    {"", "config.json: line"},
    {"[]", "must be a JSON object"},
    {"{\"model_type\":\"roformer\",\"model_type\":\"roformer\"}", "duplicate"},
    {"{}", "no model_type, and no tensors of a family that works here: dnabert-2"},
    {"{\"model_type\":3}", "model_type: must be a text"},
    {"{\"model_type\":null}", "no model_type"},
    {"{\"model_type\":\"be\\u001brt\"}", "model_type be?rt, and no tensors of a family"},
    {TYPE "}", "vocab_size is missing"},
    {TYPE ",\"vocab_size\":null}", "vocab_size is missing"},
    {TYPE ",\"vocab_size\":9}", "hidden_size is missing"},
    {TYPE ",\"vocab_size\":0}", "vocab_size: must be from 1 to 33554432, got 0"},
    {TYPE ",\"vocab_size\":-1}", "vocab_size: must be from 1 to 33554432, got -1"},
    {TYPE ",\"vocab_size\":9223372036854775807}", "vocab_size: must be from 1"},
    {TYPE ",\"vocab_size\":9223372036854775808}", "not the JSON expected"},
    {TYPE ",\"vocab_size\":9.5}", "vocab_size: must be a whole number"},
    {TYPE ",\"vocab_size\":\"9\"}", "vocab_size: must be a whole number"},
    {TYPE ",\"vocab_size\":[9]}", "vocab_size: must be a whole number"},
    {TYPE ",\"vocab_size\":9,\"hidden_size\":1" REST, "hidden_size: must be from 2"},
    {TYPE ",\"vocab_size\":9,\"hidden_size\":9" REST,
     "hidden_size 9 over num_attention_heads 2"},
    {TYPE ",\"vocab_size\":9,\"hidden_size\":6" REST, "heads of one even size"},
    {TYPE ",\"vocab_size\":33554432,\"hidden_size\":65536" REST,
     "vocab_size 33554432 times embedding_size 65536: more than 68719476736 parameters"},
    {TYPE ",\"vocab_size\":9,\"hidden_size\":65536,\"num_hidden_layers\":1024,"
          "\"num_attention_heads\":64,\"intermediate_size\":1048576}",
     "num_hidden_layers 1024 with hidden_size 65536"},
    {"{" SIZES ",\"embedding_size\":0}", "embedding_size: must be from 1"},
    {"{" SIZES ",\"max_position_embeddings\":2}", "max_position_embeddings: must be from 3"},
    {"{" SIZES ",\"max_position_embeddings\":16777217}", "max_position_embeddings: must be"},
    {"{" SIZES ",\"type_vocab_size\":1025}", "type_vocab_size: must be from 0 to 1024"},
    {"{" SIZES ",\"layer_norm_eps\":0}", "layer_norm_eps: must be a number above 0"},
    {"{" SIZES ",\"layer_norm_eps\":-1e-12}", "layer_norm_eps: must be a number above 0"},
    {"{" SIZES ",\"layer_norm_eps\":0.2}", "layer_norm_eps: must be a number above 0"},
    {"{" SIZES ",\"layer_norm_eps\":\"1e-12\"}", "layer_norm_eps: must be a number"},
    {"{" SIZES ",\"layer_norm_eps\":NaN}", "not the JSON expected"},
    {"{" SIZES ",\"hidden_act\":\"mish\"}", "hidden_act: must be one of gelu, gelu_new, relu, "
                                            "silu, gelu_pytorch_tanh, swish, got mish"},
    {"{" SIZES ",\"hidden_act\":1}", "got something that is not a text"},
    {"{" SIZES ",\"rotary_value\":1}", "rotary_value: must be true or false"},
    {"{" SIZES ",\"is_decoder\":true}", "is_decoder: must be false"},
    {"{" SIZES ",\"sparse_attention\":{\"block\":64}}", "sparse_attention: must be absent"},
    {"{" SIZES ",\"sparse_config_cls\":\"a:B\"}", "sparse_config_cls: must be absent"},
    {"{" SIZES ",\"kmerformer\":[]}", "kmerformer: must be a JSON object"},
    {USE("\"colour\":1"), "kmerformer: unknown key 'colour'"},
    {USE("\"k\":0"), "kmerformer: k: must be from 1 to 12"},
    {USE("\"k\":13"), "kmerformer: k: must be from 1 to 12"},
    {USE("\"stride\":0"), "kmerformer: stride: must be from 1"},
    {USE("\"stride\":2147483649"), "kmerformer: stride: must be from 1 to 2147483648"},
    {USE("\"window\":2"), "kmerformer: window: must be from 3"},
    {USE("\"window\":64,\"overlap\":33"), "overlap: must be at most half"},
    {USE("\"overlap\":-1"), "kmerformer: overlap: must be from 0"},
    {USE("\"specials\":1"), "kmerformer: specials: must be true or false"},
    {USE("\"specials\":false,\"pooling\":\"cls\""), "pooling cls needs specials"},
    {USE("\"pooling\":\"sum\""),
     "pooling: must be one of mean, cls, max, none, mean-all, pooler, got sum"},
    {USE("\"composition\":-1"), "kmerformer: composition: must be from 0 to 1024"},
    {USE("\"composition\":1025"), "kmerformer: composition: must be from 0 to 1024"},
    {USE("\"composition\":4,\"parts\":\"words\""),
     "parts: must be one of states, composition, states+composition, got words"},
    {USE("\"parts\":\"composition\""), "parts composition: the model has no composition"},
    {USE("\"composition\":0,\"parts\":\"states+composition\""),
     "parts states+composition: the model has no composition"},
    {USE("\"composition\":4,\"parts\":\"states+composition\",\"pooling\":\"max\""),
     "parts states+composition: a composition is a mean, and pooling is max"},
    {USE("\"layer\":3"), "layer: must be from -3 to 2, got 3"},
    {USE("\"layer\":-4"), "layer: must be from -3 to 2, got -4"},
    {USE("\"strand\":\"rev\""), "strand: must be one of fwd, rc, both"},
    {USE("\"norm\":\"l1\""), "norm: must be one of none, l2"},
    {USE("\"ambiguous\":\"N\""), "ambiguous: must be one of skip, unk, break, error"},
    {USE("\"provenance\":\"me\""), "provenance: must be a JSON object"},
};

START_TEST(each_kind_of_lie_names_its_key)
{
    kmf_config config;
    char *provenance;
    kmf_err err = {0};
    ck_assert_int_eq(parse(&config, &provenance, lies[_i].text, &err), KMF_EMODEL);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, lies[_i].says), "'%s' does not say '%s'", err.msg,
                  lies[_i].says);
    ck_assert_msg(strncmp(err.msg, "config.json: ", 13) == 0, "%s", err.msg);
    ck_assert_ptr_null(provenance);
}
END_TEST

START_TEST(the_vocabulary_decides_what_is_left_open)
{
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_new(1, &err);
    const char *lines = "A\nC\nG\nT\n[x]\n[y]\n[z]\n[PAD]\n[w]\n";
    const char *half = "A\nC\nG\nT\n[x]\n[y]\n[z]\n[PAD]\n[CLS]\n";
    kmf_vocab *bare = kmf_vocab_parse(lines, strlen(lines), "v", &err);
    kmf_vocab *lost = kmf_vocab_parse(half, strlen(half), "v", &err);
    ck_assert_msg(vocab && bare && lost, "%s", err.msg);
    ck_assert_uint_eq(kmf_vocab_size(bare), 9);
    kmf_config c = good("{" SIZES "}");
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "config.json", &err), 0);
    ck_assert_int_eq(c.k, 1);
    ck_assert_int_eq(c.specials, 1);
    c = good("{" SIZES "}");
    ck_assert_int_eq(kmf_config_fit(&c, bare, "config.json", &err), 0);
    ck_assert_int_eq(c.specials, 0);
    c = good("{" SIZES "}");
    ck_assert_int_eq(kmf_config_fit(&c, lost, "config.json", &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(
        strstr(err.msg, "the special tokens, or one of them, that a roformer model has"));
    err = (kmf_err){0};
    c = good(USE("\"specials\":false"));
    ck_assert_int_eq(kmf_config_fit(&c, lost, "config.json", &err), 0);

    c = good(USE("\"specials\":true"));
    ck_assert_int_eq(kmf_config_fit(&c, bare, "config.json", &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "vocab.txt lacks [CLS] or [SEP]"));
    err = (kmf_err){0};
    c = good(USE("\"pooling\":\"cls\""));
    ck_assert_int_eq(kmf_config_fit(&c, bare, "config.json", &err), KMF_EMODEL);
    err = (kmf_err){0};
    c = good(USE("\"k\":2"));
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "config.json", &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "config.json: k is 2, but the k-mers of vocab.txt have 1 bases");
    err = (kmf_err){0};
    c = good("{" SIZES "}");
    c.vocab_size = 10;
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "config.json", &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "config.json: vocab_size is 10, but vocab.txt has 9 tokens");
    kmf_vocab_free(lost);
    kmf_vocab_free(vocab);
    kmf_vocab_free(bare);
}
END_TEST

START_TEST(presets_are_the_documented_ones)
{
    static const struct {
        const char *name;
        size_t L, D, H, F;
    } want[] = {{"nano", 4, 128, 4, 512},
                {"tiny", 4, 256, 4, 1024},
                {"small", 6, 384, 6, 1536},
                {"base", 12, 768, 12, 3072}};
    for (size_t i = 0; i < 4; i++) {
        kmf_config c;
        kmf_err err = {0};
        ck_assert_int_eq(kmf_config_preset(&c, want[i].name, 6, &err), 0);
        ck_assert_uint_eq(c.n_layers, want[i].L);
        ck_assert_uint_eq(c.hidden_size, want[i].D);
        ck_assert_uint_eq(c.embedding_size, want[i].D);
        ck_assert_uint_eq(c.n_heads, want[i].H);
        ck_assert_uint_eq(c.intermediate_size, want[i].F);
        ck_assert_uint_eq(c.vocab_size, 4101);
        ck_assert_uint_eq(c.max_positions, 512);
        ck_assert_uint_eq(c.window, 512);
        ck_assert_uint_eq(c.overlap, 64);
        ck_assert_int_eq(c.k, 6);
        ck_assert_int_eq(c.specials, 1);
        ck_assert(c.layer_norm_eps == 1e-12);
        ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", &err), 0);
    }
    for (int k = 1; k <= 12; k++) {
        kmf_config c;
        ck_assert_int_eq(kmf_config_preset(&c, "base", k, NULL), 0);
        ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), 0);
    }
}
END_TEST

START_TEST(an_unknown_preset_or_k_is_refused)
{
    kmf_config c;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&c, "large", 6, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg,
                     "no preset is called 'large': there are nano, tiny, small and base");
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 0, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 13, NULL), KMF_EINVAL);
}
END_TEST

START_TEST(parameters_are_counted_as_by_hand)
{
    kmf_config c = good("{" SIZES ",\"embedding_size\":4}");
    /* word 9x4, type 2x4, norm 2x4 = 52; project 8x4 + 8 = 40; a layer: 4 (8x8 + 8) = 288, two
       norms 32, feed-forward 2 (8x16) + 16 + 8 = 280: 600; head 4x8 + 4 + 8 + 9 = 53 */
    ck_assert_uint_eq(kmf_config_parameters(&c, 0), 52 + 40 + 2 * 600);
    ck_assert_uint_eq(kmf_config_parameters(&c, 1), 52 + 40 + 2 * 600 + 53);
    c.embedding_size = 8; /* no projection: 13 x 8 + 1200 */
    ck_assert_uint_eq(kmf_config_parameters(&c, 0), 104 + 1200);
    c.composition = 3; /* table 9x3, norm 2x3, 12x3 + 12 and 3x12 + 3 */
    ck_assert_uint_eq(kmf_config_parameters(&c, 0), 104 + 1200 + 27 + 6 + 48 + 39);
    c.vocab_size = SIZE_MAX;
    ck_assert_uint_eq(kmf_config_parameters(&c, 0), 0);
}
END_TEST

START_TEST(checks_hold_for_a_config_made_in_code)
{
    kmf_config base;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&base, "nano", 3, &err), 0);
    kmf_config c = base;
    c.n_heads = 0;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.window = 0;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.pooling = (kmf_pooling)9;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.activation = (kmf_activation)4;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.exact = (kmf_exact)9;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.k = 13;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.layer_norm_eps = -1;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.composition = 1024;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", &err), 0);
    c.composition = 1025;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c.composition = 4;
    c.parts = (kmf_vector_parts)3;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), KMF_EINVAL);
    c = base;
    c.family = "dnabert-2";
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", NULL), 0);
    c.composition = 4;
    ck_assert_int_eq(kmf_config_check(&c, KMF_EINVAL, "c", &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "c: composition 4: must be 0 in a dnabert-2 model");
}
END_TEST

START_TEST(columns_are_those_of_the_parts)
{
    kmf_config c = {.hidden_size = 8, .composition = 3};
    ck_assert_uint_eq(kmf_config_columns(&c, KMF_PARTS_STATES), 8);
    ck_assert_uint_eq(kmf_config_columns(&c, KMF_PARTS_COMPOSITION), 3);
    ck_assert_uint_eq(kmf_config_columns(&c, KMF_PARTS_STATES_COMPOSITION), 11);
}
END_TEST

START_TEST(what_is_made_here_is_native)
{
    kmf_config base;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&base, "nano", 3, &err), 0);
    ck_assert_int_eq(kmf_config_check_native(&base, "c", &err), 0);
    int *const fields[] = {&base.gated,    &base.pre_norm,    &base.closing_norm,
                           &base.pooler,   &base.own_decoder, &base.token_dropout,
                           &base.head_gelu};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        *fields[i] = 1;
        ck_assert_int_eq(kmf_config_check_native(&base, "c", NULL), KMF_EINVAL);
        ck_assert_ptr_null(kmf_model_new(&base, 1, NULL));
        *fields[i] = 0;
    }
    base.positions = KMF_POSITIONS_LEARNED;
    ck_assert_int_eq(kmf_config_check_native(&base, "c", NULL), KMF_EINVAL);
    base.positions = KMF_POSITIONS_ROTARY;
    base.pooling = KMF_POOL_POOLER;
    ck_assert_int_eq(kmf_config_check_native(&base, "c", NULL), KMF_EINVAL);
    base.pooling = KMF_POOL_MEAN;
    base.type_vocab_size = 0;
    ck_assert_int_eq(kmf_config_check_native(&base, "c", NULL), KMF_EINVAL);
    base.type_vocab_size = 2;
    base.family = NULL;
    ck_assert_int_eq(kmf_config_check_native(&base, "c", NULL), KMF_EINVAL);
}
END_TEST

START_TEST(what_is_written_reads_back_as_the_same)
{
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_new(1, &err);
    kmf_config c;
    ck_assert_int_eq(kmf_config_preset(&c, "tiny", 1, &err), 0);
    c.activation = KMF_GELU_TANH;
    c.rotary_value = 1;
    c.layer_norm_eps = 1.0 / 3 / 1024;
    c.pooling = KMF_POOL_MAX;
    c.strand = KMF_STRAND_RC;
    c.norm = KMF_NORM_L2;
    c.ambiguous = KMF_AMBIGUOUS_ERROR;
    c.layer = 2;
    if (_i > 0) {
        c.pooling = KMF_POOL_MEAN;
        c.composition = 5;
        c.parts = _i == 1 ? KMF_PARTS_STATES_COMPOSITION : KMF_PARTS_STATES;
    }
    c.specials = _i < 2; /* of a vocabulary that could frame */
    const char *kept =
        "{\"loss\":5.37,\"third\":0.33333333333333331,\"deep\":{\"b\":[1,\"x\"]}}";
    char *text = kmf_config_write(&c, 1, vocab, "", kept, &err);
    ck_assert_msg(text != NULL, "%s", err.msg);
    kmf_config d;
    char *provenance;
    ck_assert_int_eq(parse(&d, &provenance, text, &err), 0);
    ck_assert_int_eq(kmf_config_fit(&d, vocab, "c", &err), 0);
    assert_equal(&c, &d);
    char *again = kmf_config_write(&d, 1, vocab, "", provenance, &err);
    ck_assert_str_eq(text, again);
    kmf_free(text);
    kmf_free(again);
    kmf_free(provenance);
    kmf_vocab_free(vocab);
}
END_TEST

START_TEST(every_key_of_the_published_file_is_written_with_its_value)
{
    size_t len;
    kmf_err err = {0};
    char *golden = kmf_file_read("tests/golden/roformer/config.json", 1 << 20, &len, &err);
    kmf_vocab *vocab = kmf_vocab_load("tests/golden/roformer/vocab.txt", &err);
    ck_assert_msg(golden && vocab, "%s", err.msg);
    kmf_config c = good(golden);
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "c", &err), 0);
    char *text = kmf_config_write(&c, 1, vocab, "", NULL, &err);
    json_t *want = kmf_json_parse(golden, len, "golden", &err);
    json_t *got = kmf_json_parse(text, strlen(text), "ours", &err);
    const char *key;
    json_t *value;
    json_object_foreach(want, key, value)
        ck_assert_msg(json_equal(value, json_object_get(got, key)), "%s", key);
    ck_assert_uint_eq(json_object_size(got), json_object_size(want) + 1);
    ck_assert_ptr_nonnull(strstr(text, "\"layer_norm_eps\": 1e-12"));
    json_decref(want);
    json_decref(got);
    kmf_free(text);
    kmf_free(golden);
    kmf_vocab_free(vocab);
}
END_TEST

START_TEST(a_bad_provenance_is_refused)
{
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_new(1, &err);
    kmf_config c;
    ck_assert_int_eq(kmf_config_preset(&c, "tiny", 1, &err), 0);
    ck_assert_ptr_null(kmf_config_write(&c, 1, vocab, "", "[1]", &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "provenance: must be a JSON object"));
    ck_assert_ptr_null(kmf_config_write(&c, 1, vocab, "", "{", NULL));
    kmf_vocab_free(vocab);
}
END_TEST

START_TEST(a_locale_with_a_decimal_comma_changes_nothing)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
        printf("skip: no locale with a decimal comma is installed\n");
        return;
    }
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_new(1, &err);
    kmf_config c = good("{" SIZES ",\"layer_norm_eps\":2.5e-6}");
    ck_assert(c.layer_norm_eps == 2.5e-6);
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "c", &err), 0);
    char *text = kmf_config_write(&c, 1, vocab, "", NULL, &err);
    ck_assert_ptr_nonnull(strstr(text, "\"layer_norm_eps\": 2.5e-6"));
    kmf_free(text);
    kmf_vocab_free(vocab);
}
END_TEST

START_TEST(short_numbers_stay_short_and_long_ones_exact)
{
    kmf_err err = {0};
    const char *text = "{\"a\":1e-12,\"b\":0.1,\"c\":1.7976931348623157e308,\"d\":-0.0,"
                       "\"e\":5e-324,\"f\":3}";
    json_t *json = kmf_json_parse(text, strlen(text), "t", &err);
    char *out = kmf_json_text(json, JSON_COMPACT, &err);
    json_t *again = kmf_json_parse(out, strlen(out), "t", &err);
    ck_assert(json_equal(json, again));
    json_decref(json);
    json_decref(again);
    kmf_free(out);
    json = kmf_json_parse("{\"a\":1e-12,\"b\":0.25}", 20, "t", &err);
    out = kmf_json_text(json, JSON_COMPACT, &err);
    ck_assert_str_eq(out, "{\"a\":1e-12,\"b\":0.25}");
    json_decref(json);
    kmf_free(out);
}
END_TEST

START_TEST(running_out_of_memory_anywhere_is_reported_and_leaks_nothing)
{
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_new(1, &err);
    const char *text = USE("\"provenance\":{\"a\":[1,2.5]}");
    json_set_alloc_funcs(counted_malloc, kmf_free);
    int rc = KMF_ENOMEM;
    for (size_t n = 1; rc != 0; n++) {
        kmf_config c;
        char *provenance;
        err = (kmf_err){0};
        kmf_mem_fail_at(n);
        rc = parse(&c, &provenance, text, &err);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(rc, (int)err.code);
        kmf_free(provenance);
        ck_assert_uint_lt(n, 10000);
    }
    kmf_config c = good(text);
    ck_assert_int_eq(kmf_config_fit(&c, vocab, "c", NULL), 0);
    char *whole = kmf_config_write(&c, 1, vocab, "", NULL, NULL);
    char *written = NULL;
    for (size_t n = 1; !written; n++) {
        err = (kmf_err){0};
        kmf_mem_fail_at(n);
        written = kmf_config_write(&c, 1, vocab, "", NULL, &err);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(err.code, written ? KMF_OK : KMF_ENOMEM);
        ck_assert_uint_lt(n, 10000);
    }
    ck_assert_str_eq(written, whole);
    kmf_free(written);
    kmf_free(whole);
    kmf_vocab_free(vocab);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, reads_a_published_config);
    tcase_add_test(tc, what_is_absent_or_null_has_its_default);
    tcase_add_test(tc, what_is_said_is_taken);
    tcase_add_test(tc, both_names_of_the_tanh_gelu_are_one);
    tcase_add_loop_test(tc, each_kind_of_lie_names_its_key, 0,
                        (int)(sizeof lies / sizeof lies[0]));
    tcase_add_test(tc, the_vocabulary_decides_what_is_left_open);
    tcase_add_test(tc, presets_are_the_documented_ones);
    tcase_add_test(tc, an_unknown_preset_or_k_is_refused);
    tcase_add_test(tc, parameters_are_counted_as_by_hand);
    tcase_add_test(tc, checks_hold_for_a_config_made_in_code);
    tcase_add_test(tc, columns_are_those_of_the_parts);
    tcase_add_test(tc, what_is_made_here_is_native);
    tcase_add_loop_test(tc, what_is_written_reads_back_as_the_same, 0, 3);
    tcase_add_test(tc, every_key_of_the_published_file_is_written_with_its_value);
    tcase_add_test(tc, a_bad_provenance_is_refused);
    tcase_add_test(tc, a_locale_with_a_decimal_comma_changes_nothing);
    tcase_add_test(tc, short_numbers_stay_short_and_long_ones_exact);
    tcase_add_test(tc, running_out_of_memory_anywhere_is_reported_and_leaks_nothing);
    return run_case("config", tc);
}
