/* SPDX-License-Identifier: MIT */
/*
 * Tokens of text by the three kinds of vocabularies: worked out by hand on small ones, and those
 * of the published ones as the fixtures list them.
 */
#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "failing.h"
#include "run.h"
#include "tokenizers.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const kmf_cut_options plain = {.stride = 1, .window = 1 << 16, .specials = 1};

/*
 * The ids of all chunks, "1 5 2 | 1 6 2", with a '!' at those inside the frame whose real[i] is 0,
 * or the error. Static storage.
 */
static const char *cut(const kmf_vocab *v, const kmf_cut_options *o, const char *text,
                       kmf_cut_stats *stats)
{
    static char out[4000];
    size_t len = 0;
    kmf_err err = {0};
    kmf_chunk chunk;
    int got;
    kmf_cutter *cutter = kmf_cutter_new(v, o, &err);
    ck_assert_msg(cutter != NULL, "%s", err.msg);
    size_t lead = o->specials ? 1 : 0;
    size_t tail = o->specials && kmf_vocab_frame(v) > 1 ? 1 : 0;
    out[0] = '\0';
    kmf_cutter_start(cutter, "x", text, strlen(text));
    while ((got = kmf_cutter_next(cutter, &chunk, &err)) > 0) {
        if (len > 0)
            len += (size_t)snprintf(out + len, sizeof out - len, " | ");
        for (size_t i = 0; i < chunk.n; i++) {
            bool framed = i < lead || i + tail >= chunk.n;
            ck_assert(!framed || !chunk.real[i]);
            len +=
                (size_t)snprintf(out + len, sizeof out - len, "%s%" PRId32 "%s", i ? " " : "",
                                 chunk.ids[i], framed || chunk.real[i] ? "" : "!");
        }
    }
    if (got < 0)
        snprintf(out, sizeof out, "%s", err.msg);
    if (stats)
        kmf_cutter_statistics(cutter, stats);
    kmf_cutter_free(cutter);
    return out;
}

typedef struct by_hand {
    const char *text, *ids;
} by_hand;

static void check_all(const kmf_vocab *v, const kmf_cut_options *o, const by_hand *cases,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_str_eq(cut(v, o, cases[i].text, NULL), cases[i].ids);
}

#define CHECK_ALL(v, o, cases) check_all(v, o, cases, sizeof(cases) / sizeof *(cases))

START_TEST(bpe_reads_sequences)
{
    static const by_hand skip[] = {
        {"ACGTTTA", "1 11 13 2"},
        {"acguuua", "1 11 13 2"},
        {"ACNGT", "1 9 10 2"},
        {"NNACNN", "1 9 2"},
        {"", ""},
        {"NN-*.", ""},
        {"A C", "1 5 6 2"},
        {"AC[MASK]GT", "1 9 5 10 2"},
        {"TTTTT", "1 12 12 8 2"},
    };
    static const by_hand keep[] = {
        {"ACNGT", "1 9 0! 10 2"}, {"RACGT-", "1 0! 11 0! 2"}, {"NN", "1 0! 0! 2"}};
    static const by_hand break_[] = {
        {"ACNGT", "1 9 2 | 1 10 2"}, {"NACNNGTN", "1 9 2 | 1 10 2"}, {"N", ""}};
    static const by_hand turned[] = {
        {"acguuua", "1 8 5 5 11 2"}, {"ANGT", "1 9 8 2"}, {"", ""}};
    kmf_cut_options o = plain;
    kmf_cut_stats stats;
    kmf_vocab *v = vocab_of(bert_json);
    CHECK_ALL(v, &o, skip);
    cut(v, &o, "ACNGTRR", &stats);
    ck_assert_uint_eq(stats.tokens, 2);
    ck_assert_uint_eq(stats.ambiguous, 3);
    ck_assert_uint_eq(stats.unknown, 0);
    o.reverse = 1;
    CHECK_ALL(v, &o, turned);
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    ck_assert_str_eq(cut(v, &o, "ACGTTnA", NULL),
                     "record 'x': base 6 is 'n', not A, C, G, T or U");
    o.reverse = 0;
    ck_assert_str_eq(cut(v, &o, "ACGTTnA", NULL),
                     "record 'x': base 6 is 'n', not A, C, G, T or U");
    o.ambiguous = KMF_AMBIGUOUS_UNK;
    CHECK_ALL(v, &o, keep);
    o.ambiguous = KMF_AMBIGUOUS_BREAK;
    CHECK_ALL(v, &o, break_);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(bpe_reads_text_exactly)
{
    static const by_hand bert[] = {
        {"", "1 2"},
        {" \t", "1 2"},
        {"ACGTTTA", "1 11 13 2"},
        {"ACgt", "1 9 0 0 2"},
        {"ACGUA", "1 9 7 0 5 2"},
        {"A C", "1 5 6 2"},
        {"A-C--", "1 5 0 6 0 0 2"},
        {"AC[MASK]GT", "1 9 4 10 2"},
        {"A[CLS][SEP][mask]", "1 5 1 2 0 0 0 0 0 0 2"},
        {"[MASK", "1 0 0 5 0 0 2"},
    };
    static const by_hand gena[] = {
        {"", "1 2"},
        {" \n", "1 2"},
        {"ACNAC", "1 13 11 2"},
        {"ACNNNNNNNNNAC", "1 11 12 12 12 12 9 11 2"},
        {"ACNNNNNNNNNNAC", "1 11 5 11 2"},
        {"NNNNNNNNNNNNNNNN", "1 5 2"},
        {" AC\n", "1 11 2"},
        {"A C", "1 6 0 7 2"},
        {"-AC--", "1 5 11 5 5 2"},
        {"NNNNN[MASK]NNNNN", "1 12 12 9 4 12 12 9 2"},
        {"NNNNN NNNNN", "1 12 12 9 0 12 12 9 2"},
        {"AC [MASK] AC", "1 11 4 11 2"},
        {"nnnnnnnnnnA", "1 0 0 0 0 0 0 0 0 0 0 6 2"},
    };
    kmf_cut_options o = plain;
    kmf_cut_stats stats;
    o.exact = 1;
    kmf_vocab *v = vocab_of(bert_json);
    CHECK_ALL(v, &o, bert);
    o.exact = KMF_EXACT_WHOLE; /* of KMERS alone */
    CHECK_ALL(v, &o, bert);
    cut(v, &o, "ACNGTRR", &stats);
    ck_assert_uint_eq(stats.tokens, 5);
    ck_assert_uint_eq(stats.ambiguous, 0);
    ck_assert_uint_eq(stats.unknown, 3);
    kmf_vocab_free(v);
    v = vocab_of(gena_json);
    CHECK_ALL(v, &o, gena);
    o.exact = KMF_EXACT_WHOLE; /* of KMERS alone */
    CHECK_ALL(v, &o, gena);
    o.specials = 0;
    ck_assert_str_eq(cut(v, &o, "", NULL), "");
    ck_assert_str_eq(cut(v, &o, "AC", NULL), "11");
    kmf_vocab_free(v);
    /* each end by a stage of its own */
    char *json = edited(gena_json, "{'type':'Strip','strip_left':true,'strip_right':true}",
                        "{'type':'Strip','strip_left':true,'strip_right':false},"
                        "{'type':'Strip','strip_left':false,'strip_right':true}");
    v = vocab_of(json);
    ck_assert_str_eq(cut(v, &o, " AC\n", NULL), "11");
    kmf_vocab_free(v);
    free(json);
}
END_TEST

START_TEST(bpe_cuts_text_as_the_tokenizer_says)
{
    /*
     * A longer token that is written out, "[MASK]s" 14, and one that begins otherwise, "<A>" 17; a
     * merge over the end of a word, "A-" 16.
     */
    static const by_hand cases[] = {
        {"A[MASK]sC", "1 5 14 6 2"}, {"A[MASK]C", "1 5 4 6 2"}, {"A-C", "1 5 15 6 2"},
        {"AA-", "1 5 5 15 2"},       {"C<A>A", "1 6 17 5 2"},
    };
    kmf_cut_options o = plain;
    o.exact = 1;
    static const char *const orders[] = {
        ADDED("4", "[MASK]") "," ADDED("14", "[MASK]s") "," ADDED("17", "<A>"),
        ADDED("14", "[MASK]s") "," ADDED("17", "<A>") "," ADDED("4", "[MASK]")};
    for (int i = 0; i < 2; i++) {
        char *longer = edited(bert_json, ADDED("4", "[MASK]"), orders[i]);
        char *words = edited(longer, "\"TTA\":13",
                             "\"TTA\":13,\"[MASK]s\":14,\"-\":15,\"A-\":16,\"<A>\":17");
        char *json = edited(words, "\"TT A\"", "\"TT A\",\"A -\"");
        kmf_vocab *v = vocab_of(json);
        CHECK_ALL(v, &o, cases);
        kmf_vocab_free(v);
        free(longer);
        free(words);
        free(json);
    }
}
END_TEST

/* "-" 14 and "--" 15, a merge of two: not where the pre_tokenizer splits, before or behind \w+. */
START_TEST(bpe_splits_in_any_order)
{
#define WORDS "{'type':'Whitespace'}"
#define SPLIT(at) "{'type':'Split','pattern':{'String':'" at "'},'behavior':'Isolated'}"
#define SEQUENCE(stages) "{'type':'Sequence','pretokenizers':[" stages "]}"
    static const struct {
        const char *pre_tokenizer;
        by_hand cases[2];
    } of[] = {{WORDS, {{"A--C", "1 5 15 6 2"}, {"A C", "1 5 6 2"}}},
              {SEQUENCE(WORDS "," SPLIT("-")), {{"A--C", "1 5 14 14 6 2"}, {"A C", "1 5 6 2"}}},
              {SEQUENCE(SPLIT("-") "," WORDS), {{"A--C", "1 5 14 14 6 2"}, {"A C", "1 5 6 2"}}},
              {SEQUENCE(WORDS "," SPLIT(" ")), {{"A--C", "1 5 15 6 2"}, {"A C", "1 5 6 2"}}}};
    kmf_cut_options o = plain;
    o.exact = 1;
    char *more = edited(bert_json, "'TTA':13", "'TTA':13,'-':14,'--':15");
    char *merges = edited(more, "\"TT A\"", "\"TT A\",\"- -\"");
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        char *json = edited(merges, "{\"type\":\"Whitespace\"}", of[i].pre_tokenizer);
        kmf_vocab *v = vocab_of(json);
        CHECK_ALL(v, &o, of[i].cases);
        kmf_vocab_free(v);
        free(json);
    }
    free(merges);
    free(more);
}
END_TEST

START_TEST(a_gap_is_one_token_whose_place_is_known)
{
    kmf_vocab *v = vocab_of(gena_json);
    kmf_cut_options o = plain;
    kmf_chunk chunk;
    static const uint64_t pos[] = {0, 0, 2, 14, 0};
    o.ambiguous = KMF_AMBIGUOUS_UNK;
    ck_assert_str_eq(cut(v, &o, "acnnnnnNNNNNNNac", NULL), "1 11 5! 11 2");
    kmf_cutter *c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "acnnnnnNNNNNNNac", 16);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_int_eq(memcmp(chunk.pos, pos, sizeof pos), 0);
    kmf_cutter_free(c);
    o.ambiguous = KMF_AMBIGUOUS_SKIP;
    ck_assert_str_eq(cut(v, &o, "ACNACNNNNNNNNNNG", NULL), "1 11 8 2");
    kmf_vocab_free(v);
}
END_TEST

START_TEST(greedy_takes_the_longest_token)
{
    static const by_hand skip[] = {
        {"ACGTA", "3 6 15 19"}, {"acgua", "3 6 15 19"},     {"GGAC", "3 22 13 21"},
        {"TTT", "3 20 20 20"},  {"ACNGT", "3 6 15"},        {"", ""},
        {"ACXYGT", "3 6 15"},   {"A<mask>C", "3 19 19 21"},
    };
    static const by_hand keep[] = {{"ACNGT", "3 6 23! 15"}, {"ACRYGT", "3 6 0! 15"}};
    static const by_hand turned[] = {{"ACGTA", "3 16 11 20"}};
    static const by_hand exact[] = {
        {"", "3"},
        {"  ", "3"},
        {"ACNGT", "3 6 23 15"},
        {"ACxyGT", "3 6 0 15"},
        {"acgta", "3 0"},
        {"x y", "3 0 0"},
        {"A<mask>C", "3 19 2 21"},
        {"ACGU", "3 6 22 0"},
        {"A C", "3 19 21"},
        {"<mask><cls><eos>", "3 2 3 4"},
        {"<mask", "3 0"},
        {"AC-\nGT", "3 6 0 15"},
    };
    kmf_cut_options o = plain;
    kmf_cut_stats stats;
    kmf_vocab *v = vocab_of(greedy_txt);
    ck_assert_int_eq(kmf_vocab_kind_of(v), KMF_VOCAB_GREEDY);
    ck_assert_int_eq(kmf_vocab_k(v), 2);
    ck_assert_uint_eq(kmf_vocab_frame(v), 1);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_SEP), -1);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_MASK), 2);
    ck_assert_int_eq(kmf_vocab_kmer(v, 1), 6);
    ck_assert_int_eq(kmf_vocab_kmer(v, 15), -1);
    CHECK_ALL(v, &o, skip);
    cut(v, &o, "ACRYGTN", &stats);
    ck_assert_uint_eq(stats.ambiguous, 2);
    o.reverse = 1;
    CHECK_ALL(v, &o, turned);
    o.reverse = 0;
    o.ambiguous = KMF_AMBIGUOUS_UNK;
    CHECK_ALL(v, &o, keep);
    o.exact = 1;
    CHECK_ALL(v, &o, exact);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(a_letter_that_a_vocabulary_lacks_is_unknown)
{
    kmf_cut_stats stats;
    kmf_vocab *v = vocab_of("<unk>\n<cls>\nAA\nA\nC");
    ck_assert_str_eq(cut(v, &plain, "AAGTGCA", &stats), "1 2 0! 4 3");
    ck_assert_uint_eq(stats.unknown, 1);
    ck_assert_uint_eq(stats.ambiguous, 0);
    ck_assert_uint_eq(stats.tokens, 3);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(kmers_are_read_exactly_as_words)
{
    static const by_hand exact[] = {
        {"ACGTA", "2 6 11 16 17 3"},
        {"acGT", "2 1 1 16 3"},
        {"AC-GT", "2 6 1 1 1 1 16 3"},
        {"A", "2 3"},
        {"", "2 3"},
        {"A C", "2 1 1 3"},
        {"ACU", "2 6 1 3"},
        {"ANC", "2 1 1 3"},
        {"  ", "2 3"},
    };
    static const by_hand turned[] = {{"ACGTA", "2 17 6 11 16 3"}};
    static const by_hand whole[] = {
        {"ACGTA", "2 6 11 16 17 3"}, {"AC-GT", "2 6 1 1 16 3"}, {"A  C", "2 1 1 1 3"}};
    kmf_cut_options o = plain;
    kmf_err err = {0};
    kmf_vocab *v = kmf_vocab_new(2, NULL);
    o.exact = 1;
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    CHECK_ALL(v, &o, exact);
    o.stride = 2;
    ck_assert_str_eq(cut(v, &o, "ACGTA", NULL), "2 6 16 3");
    o.stride = 1;
    o.exact = KMF_EXACT_WHOLE; /* a window is one token, whatever stands in it */
    CHECK_ALL(v, &o, whole);
    o.exact = 1;
    o.reverse = 1;
    CHECK_ALL(v, &o, turned);
    kmf_vocab_free(v);
    v = vocab_of("[CLS]\n[SEP]\nA\n");
    ck_assert_ptr_null(kmf_cutter_new(v, &o, &err));
    ck_assert_str_eq(err.msg, "ambiguous letters cannot become [UNK]: the vocabulary has none");
    kmf_vocab_free(v);
}
END_TEST

/* Exact, the normaliser strips white space off the ends; else it is a letter that is no base. */
START_TEST(white_space_at_the_ends_is_a_loss_unless_exact)
{
    static const char *const texts[] = {" AC", "AC ", " AC ", "AC"};
    static const uint64_t lost[] = {1, 1, 2, 0};
    kmf_vocab *v = vocab_of(gena_json);
    for (size_t i = 0; i < 4; i++) {
        kmf_cut_options o = plain;
        kmf_cut_stats stats;
        ck_assert_str_eq(cut(v, &o, texts[i], &stats), "1 11 2");
        ck_assert_uint_eq(stats.ambiguous, lost[i]);
        o.exact = 1;
        ck_assert_str_eq(cut(v, &o, texts[i], &stats), "1 11 2");
        ck_assert_uint_eq(stats.ambiguous, 0);
    }
    kmf_vocab_free(v);
}
END_TEST

START_TEST(chunks_and_policies_hold_for_tokens)
{
    kmf_cut_options o = plain;
    kmf_err err = {0};
    kmf_vocab *v = vocab_of(bert_json);
    const char *text = "ACGTACGTTTAGT"; /* ACGT ACGT TTA GT */
    o.window = 4;
    o.overlap = 1;
    ck_assert_str_eq(cut(v, &o, text, NULL), "1 11 11 2 | 1 11 13 2 | 1 13 10 2");
    o.overlap = 0;
    ck_assert_str_eq(cut(v, &o, text, NULL), "1 11 11 2 | 1 13 10 2");
    o.policy = KMF_LONG_TRUNCATE;
    ck_assert_str_eq(cut(v, &o, text, NULL), "1 11 11 2");
    o.policy = KMF_LONG_SKIP;
    ck_assert_str_eq(cut(v, &o, text, NULL), "");
    ck_assert_str_eq(cut(v, &o, "ACGTACGT", NULL), "1 11 11 2");
    kmf_chunk chunk; /* nothing of what was too long is left over */
    kmf_cutter *c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACGTACGTACGTACGTACGT", 20);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_start(c, "y", "AC", 2);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert(chunk.n == 3 && chunk.ids[1] == 9);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_free(c);
    o.exact = 1;
    ck_assert_str_eq(cut(v, &o, text, NULL), "");
    ck_assert_str_eq(cut(v, &o, "", NULL), "1 2");
    o.exact = 0;
    o.policy = KMF_LONG_ERROR;
    ck_assert_str_eq(cut(v, &o, text, NULL), "record 'x': more than the window's 2 tokens");
    o.stride = 2;
    ck_assert_ptr_null(kmf_cutter_new(v, &o, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    kmf_vocab_free(v);
    v = vocab_of(greedy_txt);
    o = plain;
    o.window = 2;
    ck_assert_str_eq(cut(v, &o, "ACGTA", NULL), "3 6 | 3 15 | 3 19");
    kmf_vocab_free(v);
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    static char text[40000];
    kmf_rng rng = kmf_rng_stream(5, 0);
    kmf_vocab *v = vocab_of(bert_json);
    kmf_cut_options o = plain;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "ACGT"[kmf_rng_below(&rng, 4)];
    o.reverse = 1;
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_chunk chunk;
        int got = KMF_ENOMEM;
        kmf_mem_fail_at(n);
        kmf_cutter *c = kmf_cutter_new(v, &o, &err);
        if (c) {
            kmf_cutter_start(c, "x", text, sizeof text);
            got = kmf_cutter_next(c, &chunk, &err);
        }
        reached = failed_at(n);
        ck_assert_int_eq(got, reached ? KMF_ENOMEM : 1);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
        kmf_cutter_free(c);
    }
    kmf_vocab_free(v);
}
END_TEST

/* ---- published vocabularies ------------------------------------------------------------------ */

/* JSON from $KMF_SHARED/fixtures/dir/file; NULL: not there. */
static json_t *fixture(const char *dir, const char *file)
{
    char path[512];
    size_t len;
    kmf_err err = {0};
    const char *place = getenv("KMF_SHARED");
    snprintf(path, sizeof path, "%s/fixtures/%s/%s", place ? place : "../shared", dir, file);
    if (access(path, R_OK) != 0)
        return NULL;
    char *text = kmf_file_read(path, (size_t)1 << 26, &len, &err);
    ck_assert_msg(text != NULL, "%s", err.msg);
    json_t *json = kmf_json_parse(text, len, path, &err);
    ck_assert_msg(json != NULL, "%s", err.msg);
    kmf_free(text);
    return json;
}

static kmf_vocab *fixture_vocab(const char *dir, const char *file)
{
    char path[512];
    kmf_err err = {0};
    const char *place = getenv("KMF_SHARED");
    snprintf(path, sizeof path, "%s/fixtures/%s/%s", place ? place : "../shared", dir, file);
    kmf_vocab *v = kmf_vocab_load(path, &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_vocab_file(v), file);
    return v;
}

/* All chunks of text, one after another, are these ids. */
static void check_ids(const kmf_vocab *v, const char *text, size_t window, kmf_long policy,
                      const json_t *ids)
{
    kmf_cut_options o = plain;
    kmf_err err = {0};
    kmf_chunk chunk;
    size_t n = 0;
    int got;
    o.exact = 1;
    o.window = window;
    o.policy = policy;
    kmf_cutter *c = kmf_cutter_new(v, &o, &err);
    ck_assert_msg(c != NULL, "%s", err.msg);
    kmf_cutter_start(c, "x", text, strlen(text));
    while ((got = kmf_cutter_next(c, &chunk, &err)) > 0)
        for (size_t i = 0; i < chunk.n; i++, n++)
            ck_assert_msg(json_integer_value(json_array_get(ids, n)) == chunk.ids[i],
                          "'%.60s': token %zu is %d", text, n, (int)chunk.ids[i]);
    ck_assert_int_eq(got, 0);
    ck_assert_uint_eq(n, json_array_size(ids));
    kmf_cutter_free(c);
}

/* Cut to the frame: no window is that small, but two ends are left of any other one. */
static void check_frame(const kmf_vocab *v, const json_t *ids)
{
    ck_assert_uint_eq(json_array_size(ids), 2);
    ck_assert_int_eq(json_integer_value(json_array_get(ids, 0)), kmf_vocab_special(v, KMF_CLS));
    ck_assert_int_eq(json_integer_value(json_array_get(ids, 1)), kmf_vocab_special(v, KMF_SEP));
}

static void check_items(const char *dir, const kmf_vocab *v, json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item) {
        const char *text = json_string_value(json_object_get(item, "text"));
        json_t *ids = json_object_get(item, "ids");
        size_t most = (size_t)json_integer_value(json_object_get(item, "max_length"));
        if (!ids) {
            ids = json_object_get(item, "ids_max_length_512");
            most = 512;
        }
        if (!text)
            printf("skip: %s: an item of k-mers with blanks between them is no sequence\n",
                   dir);
        else if (most == 2)
            check_frame(v, ids);
        else
            check_ids(v, text, most ? most : plain.window,
                      most ? KMF_LONG_TRUNCATE : KMF_LONG_ERROR, ids);
    }
}

START_TEST(published_tokenizers_give_the_listed_ids)
{
    static const struct {
        const char *dir, *file;
    } models[] = {
        {"dnabert3", "vocab.txt"},      {"dnabert6", "vocab.txt"},
        {"nt-v1", "vocab.txt"},         {"nt-v2", "vocab.txt"},
        {"dnabert2", "tokenizer.json"}, {"gena-lm-tokenizer", "tokenizer.json"},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        json_t *tokens = fixture(models[i].dir, "tokens.json");
        if (!tokens) {
            printf("skip: %s: neither KMF_SHARED nor ../shared has it\n", models[i].dir);
            continue;
        }
        kmf_vocab *v = fixture_vocab(models[i].dir, models[i].file);
        json_t *items = json_object_get(tokens, "items");
        ck_assert_uint_ge(json_array_size(items), 40);
        check_items(models[i].dir, v, items);
        kmf_vocab_free(v);
        json_decref(tokens);
    }
}
END_TEST

/* Without a limit DNABERT cuts at 510 k-mers; 510 n of them have an empty piece behind them. */
static void check_cases_of_tokens(const kmf_vocab *v, json_t *cases)
{
    size_t i;
    json_t *one;
    json_array_foreach(cases, i, one) {
        const char *text = json_string_value(json_object_get(one, "sequence"));
        json_t *cut_ids = json_object_get(one, "ids_max_length_512");
        json_t *all_ids = json_object_get(one, "ids_no_limit");
        size_t n_kmers = strlen(text) - (size_t)kmf_vocab_k(v) + 1;
        if (!cut_ids || !all_ids)
            continue;
        check_ids(v, text, 512, KMF_LONG_TRUNCATE, cut_ids);
        if (n_kmers % 510 == 0)
            for (int end = 0; end < 2; end++)
                ck_assert_int_eq(json_array_remove(all_ids, json_array_size(all_ids) - 1), 0);
        check_ids(v, text, 512, KMF_LONG_CHUNK, all_ids);
    }
}

START_TEST(sequences_of_the_fixtures_give_their_ids)
{
    static const struct {
        const char *dir, *file;
        size_t window; /* 0: no limit that a sequence reaches */
    } models[] = {
        {"dnabert3", "vocab.txt", 512},
        {"dnabert6", "vocab.txt", 512},
        {"nt-v1", "vocab.txt", 0},
        {"nt-v2", "vocab.txt", 0},
        {"dnabert2", "tokenizer.json", 0},
        {"dnaberts", "tokenizer.json", 0},
        {"gena-lm", "tokenizer.json", 512},
        {"gena-lm-lastln", "tokenizer.json", 512},
        {"gena-lm-rope", "tokenizer.json", 512},
    };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        size_t i;
        size_t n = 0;
        json_t *one;
        json_t *expected = fixture(models[m].dir, "expected.json");
        if (!expected) {
            printf("skip: %s: neither KMF_SHARED nor ../shared has it\n", models[m].dir);
            continue;
        }
        kmf_vocab *v = fixture_vocab(models[m].dir, models[m].file);
        json_array_foreach(json_object_get(expected, "cases"), i, one) {
            const char *text = json_string_value(json_object_get(one, "sequence"));
            size_t window = models[m].window ? models[m].window : plain.window;
            if (!text || json_object_get(one, "note")) /* a note says that ids were changed */
                continue;
            check_ids(v, text, window, KMF_LONG_TRUNCATE, json_object_get(one, "input_ids"));
            n++;
        }
        ck_assert_uint_ge(n, 8);
        check_cases_of_tokens(v, json_object_get(expected, "token_only_cases"));
        kmf_vocab_free(v);
        json_decref(expected);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, bpe_reads_sequences);
    tcase_add_test(tcase, bpe_reads_text_exactly);
    tcase_add_test(tcase, bpe_cuts_text_as_the_tokenizer_says);
    tcase_add_test(tcase, bpe_splits_in_any_order);
    tcase_add_test(tcase, a_gap_is_one_token_whose_place_is_known);
    tcase_add_test(tcase, greedy_takes_the_longest_token);
    tcase_add_test(tcase, a_letter_that_a_vocabulary_lacks_is_unknown);
    tcase_add_test(tcase, kmers_are_read_exactly_as_words);
    tcase_add_test(tcase, white_space_at_the_ends_is_a_loss_unless_exact);
    tcase_add_test(tcase, chunks_and_policies_hold_for_tokens);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    tcase_add_test(tcase, published_tokenizers_give_the_listed_ids);
    tcase_add_test(tcase, sequences_of_the_fixtures_give_their_ids);
    return run_case("pieces", tcase);
}
