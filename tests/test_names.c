/* SPDX-License-Identifier: MIT */
/*
 * Small public things that files, options and messages stand on: the words of each enum are those
 * of its values, in their order, and NULL ends them; endings of names; what a cut record adds up
 * to; columns that are rotated.
 */
#include "kmerformer.h"
#include "run.h"

#include <string.h>

typedef struct named {
    const char *const *names;
    int value;
    const char *word;
} named;

START_TEST(each_value_has_its_word_and_null_is_last)
{
    static const named all[] = {
        {kmf_counts_format_names, KMF_COUNTS_TSV, "tsv"},
        {kmf_counts_format_names, KMF_COUNTS_VOCAB, "vocab"},
        {kmf_counts_format_names, KMF_COUNTS_DNABERT, "dnabert"},
        {kmf_counts_format_names, KMF_COUNTS_BINARY, "binary"},
        {kmf_weights_names, KMF_WEIGHTS_NONE, "none"},
        {kmf_weights_names, KMF_WEIGHTS_SIF, "sif"},
        {kmf_scale_names, KMF_SCALE_NONE, "none"},
        {kmf_scale_names, KMF_SCALE_STANDARD, "standard"},
        {kmf_scale_names, KMF_SCALE_L2, "l2"},
        {kmf_scale_names, KMF_SCALE_CENTER_L2, "center-l2"},
        {kmf_scale_names, KMF_SCALE_AUTO, "auto"},
        {kmf_alphabet_names, KMF_DNA, "dna"},
        {kmf_alphabet_names, KMF_PROTEIN, "protein"},
        {kmf_pooling_names, KMF_POOL_MEAN, "mean"},
        {kmf_pooling_names, KMF_POOL_CLS, "cls"},
        {kmf_pooling_names, KMF_POOL_MAX, "max"},
        {kmf_pooling_names, KMF_POOL_NONE, "none"},
        {kmf_pooling_names, KMF_POOL_MEAN_ALL, "mean-all"},
        {kmf_pooling_names, KMF_POOL_POOLER, "pooler"},
        {kmf_parts_names, KMF_PARTS_STATES, "states"},
        {kmf_parts_names, KMF_PARTS_COMPOSITION, "composition"},
        {kmf_parts_names, KMF_PARTS_STATES_COMPOSITION, "states+composition"},
        {kmf_strand_names, KMF_STRAND_FWD, "fwd"},
        {kmf_strand_names, KMF_STRAND_RC, "rc"},
        {kmf_strand_names, KMF_STRAND_BOTH, "both"},
        {kmf_norm_names, KMF_NORM_NONE, "none"},
        {kmf_norm_names, KMF_NORM_L2, "l2"},
        {kmf_precision_names, KMF_PRECISION_F32, "f32"},
        {kmf_precision_names, KMF_PRECISION_BF16, "bf16"},
        {kmf_precision_names, KMF_PRECISION_INT8, "int8"},
        {kmf_precision_names, KMF_PRECISION_AUTO, "auto"},
        {kmf_dtype_names, KMF_F32, "f32"},
        {kmf_dtype_names, KMF_F16, "f16"},
        {kmf_dtype_names, KMF_BF16, "bf16"},
        {kmf_dtype_names, KMF_I8, "int8"},
        {kmf_plot_colour_names, KMF_PLOT_LABEL, "label"},
        {kmf_plot_colour_names, KMF_PLOT_LENGTH, "length"},
        {kmf_plot_x_names, KMF_PLOT_STEP, "step"},
        {kmf_plot_x_names, KMF_PLOT_TOKENS, "tokens"},
        {kmf_plot_x_names, KMF_PLOT_TIME, "time"},
        {kmf_schedule_names, KMF_SCHEDULE_COSINE, "cosine"},
        {kmf_schedule_names, KMF_SCHEDULE_LINEAR, "linear"},
        {kmf_schedule_names, KMF_SCHEDULE_CONSTANT, "constant"},
        {kmf_words_start_names, KMF_WORDS_LETTERS, "letters"},
        {kmf_words_start_names, KMF_WORDS_RANDOM, "random"},
        {kmf_words_start_names, KMF_WORDS_TETRAMERS, "tetramers"},
        {kmf_objective_names, KMF_OBJECTIVE_MASKED, "masked"},
        {kmf_objective_names, KMF_OBJECTIVE_CONTRASTIVE, "contrastive"},
        {kmf_objective_names, KMF_OBJECTIVE_BOTH, "both"},
        {kmf_sources_names, KMF_SOURCES_INPUT, "input"},
        {kmf_sources_names, KMF_SOURCES_RECORD, "record"},
        {kmf_probe_scale_names, KMF_PROBE_COLUMN, "column"},
        {kmf_probe_scale_names, KMF_PROBE_COMMON, "common"},
        {kmf_probe_scale_names, KMF_PROBE_AUTO, "auto"},
        {kmf_ambiguous_names, KMF_AMBIGUOUS_SKIP, "skip"},
        {kmf_ambiguous_names, KMF_AMBIGUOUS_UNK, "unk"},
        {kmf_ambiguous_names, KMF_AMBIGUOUS_BREAK, "break"},
        {kmf_ambiguous_names, KMF_AMBIGUOUS_ERROR, "error"},
        {kmf_long_names, KMF_LONG_CHUNK, "chunk"},
        {kmf_long_names, KMF_LONG_TRUNCATE, "truncate"},
        {kmf_long_names, KMF_LONG_SKIP, "skip"},
        {kmf_long_names, KMF_LONG_ERROR, "error"},
        {kmf_vectors_format_names, KMF_VECTORS_SAFETENSORS, "safetensors"},
        {kmf_vectors_format_names, KMF_VECTORS_TEXT, "text"},
        {kmf_vectors_format_names, KMF_VECTORS_BINARY, "binary"},
        {kmf_word_strand_names, KMF_WORDS_FWD, "fwd"},
        {kmf_word_strand_names, KMF_WORDS_BOTH, "both"},
        {kmf_word_strand_names, KMF_WORDS_CANONICAL, "canonical"}};
    const size_t n = sizeof all / sizeof all[0];
    for (size_t i = 0; i < n; i++) {
        int last = i + 1 == n || all[i + 1].names != all[i].names;
        ck_assert_str_eq(all[i].names[all[i].value], all[i].word);
        ck_assert_msg(!last || !all[i].names[all[i].value + 1], "%s is not the last",
                      all[i].word);
    }
    ck_assert_str_eq(kmf_activation_names[KMF_GELU], "gelu");
    ck_assert_str_eq(kmf_activation_names[KMF_GELU_TANH], "gelu_new");
    ck_assert_str_eq(kmf_activation_names[KMF_RELU], "relu");
    ck_assert_str_eq(kmf_activation_names[KMF_SILU], "silu");
    ck_assert_str_eq(kmf_version(), KMF_VERSION);
}
END_TEST

START_TEST(endings_that_nothing_is_written_in_are_told)
{
    static const struct {
        const char *path, *ending;
    } cases[] = {{"x.csv", ".csv"},           {"a.d/x.NPY", ".NPY"}, {"x.tsv.bz2", ".bz2"},
                 {"x.parquet", ".parquet"},   {"x.npy", NULL},       {"x.tsv.gz", NULL},
                 {"x.csv/y", NULL},           {"csv", NULL},         {"r.fq", ".fq"},
                 {"r.FASTA.gz", ".FASTA.gz"}, {"fq.tsv", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *ending = kmf_foreign_ending(cases[i].path);
        if (cases[i].ending)
            ck_assert_str_eq(ending, cases[i].ending);
        else
            ck_assert_ptr_null(ending);
    }
}
END_TEST

START_TEST(what_records_lose_adds_up)
{
    static const kmf_cut_stats records[] = {
        {.tokens = 7, .ambiguous = 2, .unknown = 1, .chunks = 1}, /* whole */
        {.tokens = 90, .chunks = 3},                              /* in chunks */
        {.tokens = 5, .chunks = 1, .cut = 1},                     /* its first window */
        {.tokens = 0, .chunks = 0, .cut = 1},                     /* skipped: not empty */
        {.tokens = 0, .ambiguous = 4, .chunks = 0}};              /* empty */
    kmf_embed_stats s = {.records = 11, .bases = 12, .tokens = 13};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++)
        kmf_embed_stats_add(&s, &records[i]);
    ck_assert_uint_eq(s.records, 11);
    ck_assert_uint_eq(s.bases, 12);
    ck_assert_uint_eq(s.tokens, 13);
    ck_assert_uint_eq(s.ambiguous, 6);
    ck_assert_uint_eq(s.unknown, 1);
    ck_assert_uint_eq(s.chunked, 1);
    ck_assert_uint_eq(s.truncated, 2);
    ck_assert_uint_eq(s.empty, 1);
}
END_TEST

START_TEST(columns_are_rotated_where_positions_are_rotary)
{
    kmf_config c;
    ck_assert_int_eq(kmf_config_preset(&c, "tiny", 4, NULL), 0);
    ck_assert_uint_eq(kmf_config_rotary_size(&c), c.hidden_size / c.n_heads);
    c.rotary_size = 16;
    ck_assert_uint_eq(kmf_config_rotary_size(&c), 16);
    c.positions = KMF_POSITIONS_ROTARY_HALVES;
    ck_assert_uint_eq(kmf_config_rotary_size(&c), 16);
    c.positions = KMF_POSITIONS_ALIBI;
    ck_assert_uint_eq(kmf_config_rotary_size(&c), 0);
    ck_assert_uint_eq(kmf_config_rotary_size(&(kmf_config){.positions = KMF_POSITIONS_LEARNED}),
                      0);
}
END_TEST

START_TEST(helpers_are_one_less_than_threads)
{
    kmf_pool *pool;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_helpers_new(&pool, 1, &err), 0);
    ck_assert_ptr_null(pool);
    ck_assert_int_eq(kmf_helpers_new(&pool, 3, &err), 0);
    ck_assert_ptr_nonnull(pool);
    kmf_pool_free(pool);
    ck_assert_int_eq(kmf_helpers_new(&pool, KMF_THREADS_MAX + 1, &err), KMF_EINVAL);
    ck_assert_int_eq(err.code, KMF_EINVAL);
}
END_TEST

START_TEST(json_strings_are_quoted_and_odd_bytes_are_not_kept)
{
    static const char *const cases[][2] = {{"plain", "\"plain\""},
                                           {"a\"b\\c\n", "\"a\\\"b\\\\c\\n\""},
                                           {"\xc3\xa9", "\"\xc3\xa9\""},
                                           {"p\xff", "\"p?\""},
                                           {"", "\"\""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = kmf_json_string(cases[i][0], NULL);
        ck_assert_ptr_nonnull(text);
        ck_assert_str_eq(text, cases[i][1]);
        kmf_text_free(text);
    }
    kmf_text_free(NULL);
}
END_TEST

/* What kmerformer.h says of all functions. */
START_TEST(a_file_that_is_not_there_is_told_by_one_code)
{
    static const char none[] = "none/x";
    static const char folder[] = "tests";
    for (int i = 0; i < 2; i++) { /* and what can be opened, but not read */
        const char *path = i == 0 ? none : folder;
        kmf_err err[6] = {{0}};
        ck_assert_ptr_null(kmf_vocab_load(path, &err[0]));
        ck_assert_ptr_null(kmf_counts_load(path, &err[1]));
        ck_assert_ptr_null(kmf_vectors_load(path, &err[2]));
        ck_assert_ptr_null(kmf_probe_load(path, &err[3]));
        ck_assert_ptr_null(kmf_row_file_open(path, &err[4]));
        ck_assert_ptr_null(kmf_reader_open(path, NULL, NULL, &err[5]));
        for (size_t j = 0; j < 6; j++)
            ck_assert_msg(err[j].code == KMF_EIO, "%zu: %d: %s", j, (int)err[j].code,
                          err[j].msg);
    }
    kmf_err err[2] = {{0}};
    ck_assert_ptr_null(kmf_model_load(none, &err[0]));
    ck_assert_int_eq(err[0].code, KMF_EIO);
    ck_assert_int_eq(kmf_file_save("none/y", "y", 1, &err[1]), KMF_EIO);
    ck_assert_int_eq(err[1].code, KMF_EIO);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("names");
    tcase_add_test(c, each_value_has_its_word_and_null_is_last);
    tcase_add_test(c, endings_that_nothing_is_written_in_are_told);
    tcase_add_test(c, what_records_lose_adds_up);
    tcase_add_test(c, columns_are_rotated_where_positions_are_rotary);
    tcase_add_test(c, helpers_are_one_less_than_threads);
    tcase_add_test(c, json_strings_are_quoted_and_odd_bytes_are_not_kept);
    tcase_add_test(c, a_file_that_is_not_there_is_told_by_one_code);
    return run_case("names", c);
}
