/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding against a twin that does what the definition says: look through the whole
 * text for the pair of the lowest rank, merge the first, begin again. Lists of merges are random:
 * in any order, with several that make the same token.
 */
#include "base/rng.h"
#include "failing.h"
#include "run.h"
#include "words/bpe.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define LETTERS 5
#define TOKENS 400
#define TOKEN_MAX 24
#define TEXT_MAX 3000

typedef struct table {
    char token[TOKENS][TOKEN_MAX + 1];
    int32_t n_tokens;
    kmf_pair merge[TOKENS];
    size_t n;
} table;

static int32_t token_of(const table *t, const char *text)
{
    for (int32_t id = 0; id < t->n_tokens; id++)
        if (strcmp(t->token[id], text) == 0)
            return id;
    return -1;
}

static bool has_pair(const table *t, int32_t left, int32_t right)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->merge[i].left == left && t->merge[i].right == right)
            return true;
    return false;
}

/* Tries to make n merges of any two tokens; in_order: as training would list them. */
static void make_table(table *t, kmf_rng *rng, int n_letters, size_t n, bool in_order)
{
    t->n = 0;
    t->n_tokens = n_letters;
    for (int i = 0; i < n_letters; i++)
        snprintf(t->token[i], sizeof t->token[i], "%c", 'A' + i);
    for (size_t i = 0; i < n; i++) {
        char text[2 * TOKEN_MAX + 1];
        int32_t left = (int32_t)kmf_rng_below(rng, (uint64_t)t->n_tokens);
        int32_t right = (int32_t)kmf_rng_below(rng, (uint64_t)t->n_tokens);
        snprintf(text, sizeof text, "%s%s", t->token[left], t->token[right]);
        int32_t result = token_of(t, text);
        if (strlen(text) > TOKEN_MAX || t->n_tokens == TOKENS || has_pair(t, left, right))
            continue;
        if (result < 0) {
            result = t->n_tokens++;
            strcpy(t->token[result], text);
        }
        t->merge[t->n++] = (kmf_pair){left, right, result};
    }
    for (size_t i = t->n; !in_order && i > 1; i--) {
        size_t j = kmf_rng_below(rng, i);
        kmf_pair swap = t->merge[j];
        t->merge[j] = t->merge[i - 1];
        t->merge[i - 1] = swap;
    }
}

static kmf_pairs *list_of(const table *t)
{
    kmf_pairs *m = kmf_pairs_new(t->n, (size_t)t->n_tokens, NULL);
    ck_assert_ptr_nonnull(m);
    for (int32_t id = 0; id < t->n_tokens; id++)
        m->letters[id] = (uint32_t)strlen(t->token[id]);
    for (size_t i = 0; i < t->n; i++)
        ck_assert(kmf_pairs_add(m, &t->merge[i]));
    return m;
}

static size_t rank_of(const table *t, int32_t left, int32_t right)
{
    size_t i = 0;
    while (i < t->n && (t->merge[i].left != left || t->merge[i].right != right))
        i++;
    return i;
}

/* The definition, on ids[n]; returns the number of tokens. */
static size_t twin_merge(const table *t, int32_t *ids, size_t n)
{
    for (;;) {
        size_t best = t->n;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t rank = rank_of(t, ids[i], ids[i + 1]);
            if (rank < best) {
                best = rank;
                at = i;
            }
        }
        if (best == t->n)
            return n;
        ids[at] = t->merge[best].result;
        memmove(ids + at + 1, ids + at + 2, (n - at - 2) * sizeof *ids);
        n--;
    }
}

/* text: letters by number, as random_text makes it. */
static void check_text(const table *t, kmf_bpe *bpe, const unsigned char *text, size_t n)
{
    static int32_t want[TEXT_MAX];
    int32_t letter[256];
    kmf_err err = {0};
    size_t n_tokens;
    for (int i = 0; i < 256; i++)
        letter[i] = i;
    for (size_t i = 0; i < n; i++)
        want[i] = text[i];
    const int32_t *tokens = kmf_bpe_encode(bpe, text, n, letter, &n_tokens, &err);
    ck_assert_msg(tokens != NULL, "%s", err.msg);
    ck_assert_uint_eq(n_tokens, twin_merge(t, want, n));
    ck_assert_int_eq(memcmp(tokens, want, n_tokens * sizeof *tokens), 0);
}

static void random_text(unsigned char *letters, size_t n, int n_letters, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = i > 2 && kmf_rng_below(rng, 3) == 0
                         ? letters[i - 1 - kmf_rng_below(rng, 2)]
                         : (unsigned char)kmf_rng_below(rng, (uint64_t)n_letters);
}

START_TEST(random_lists_on_short_texts_equal_the_definition)
{
    static table t;
    static unsigned char letters[TEXT_MAX];
    kmf_rng rng = kmf_rng_stream(11, 0);
    for (int round = 0; round < 3000; round++) {
        int n_letters = 1 + (int)kmf_rng_below(&rng, LETTERS);
        make_table(&t, &rng, n_letters, 1 + kmf_rng_below(&rng, 60), round % 3 == 0);
        kmf_pairs *m = list_of(&t);
        kmf_bpe *bpe = kmf_bpe_new(m, 1 + kmf_rng_below(&rng, 80), NULL);
        for (int i = 0; i < 8; i++) {
            size_t n = 1 + kmf_rng_below(&rng, 70);
            random_text(letters, n, n_letters, &rng);
            check_text(&t, bpe, letters, n);
        }
        kmf_bpe_free(bpe);
        kmf_pairs_free(m);
    }
}
END_TEST

/* Lists of many nodes, sorted by radix; room that is used again. */
START_TEST(random_lists_on_long_texts_equal_the_definition)
{
    static table t;
    static unsigned char letters[TEXT_MAX];
    kmf_rng rng = kmf_rng_stream(12, 0);
    for (int round = 0; round < 12; round++) {
        int n_letters = 1 + (int)kmf_rng_below(&rng, 3);
        make_table(&t, &rng, n_letters, 5 + kmf_rng_below(&rng, 40), round % 2 == 0);
        kmf_pairs *m = list_of(&t);
        size_t block = round % 4 ? KMF_BPE_BLOCK : 100 + kmf_rng_below(&rng, 100);
        kmf_bpe *bpe = kmf_bpe_new(m, block, NULL);
        size_t n = 900 + kmf_rng_below(&rng, 600);
        random_text(letters, n, n_letters, &rng);
        check_text(&t, bpe, letters, n);
        check_text(&t, bpe, letters, n / 3);
        for (size_t i = 0; i < n; i++)
            letters[i] = 0;
        check_text(&t, bpe, letters, n);
        kmf_bpe_free(bpe);
        kmf_pairs_free(m);
    }
}
END_TEST

START_TEST(ranks_below_the_present_one_come_next)
{
    /* AB makes way for ABA before the next AB is made: A B A B is ABA B, not AB AB. */
    static const table t = {.token = {"A", "B", "AB", "ABA"},
                            .n_tokens = 4,
                            .merge = {{2, 0, 3}, {0, 1, 2}},
                            .n = 2};
    static const int32_t letter[256] = {0, 1};
    static const unsigned char letters[] = {0, 1, 0, 1};
    size_t n;
    kmf_pairs *m = list_of(&t);
    kmf_bpe *bpe = kmf_bpe_new(m, KMF_BPE_BLOCK, NULL);
    const int32_t *tokens = kmf_bpe_encode(bpe, letters, 4, letter, &n, NULL);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(tokens[0], 3);
    ck_assert_int_eq(tokens[1], 1);
    kmf_bpe_free(bpe);
    kmf_pairs_free(m);
}
END_TEST

START_TEST(of_equal_pairs_the_left_one_is_first)
{
    /* AB and CD make the same token X = 4, and two of them Y = 5. */
    static const kmf_pair now[] = {{4, 4, 5}, {0, 1, 4}, {2, 3, 4}};
    static const kmf_pair later[] = {{0, 1, 4}, {2, 3, 4}, {4, 4, 5}};
    static const struct {
        const kmf_pair *merges;
        unsigned char letters[6];
    } cases[] = {
        {now, {0, 1, 2, 3, 0, 1}},   /* the X in the middle comes last, between two */
        {later, {2, 3, 0, 1, 0, 1}}, /* the pair on the right is seen before that on the left */
        {later, {0, 1, 2, 3, 0, 1}},
    };
    static const int32_t letter[256] = {0, 1, 2, 3};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        table t = {.token = {"A", "B", "C", "D", "AB", "ABAB"}, .n_tokens = 6, .n = 3};
        size_t n;
        memcpy(t.merge, cases[c].merges, sizeof now);
        kmf_pairs *m = list_of(&t);
        kmf_bpe *bpe = kmf_bpe_new(m, KMF_BPE_BLOCK, NULL);
        const int32_t *tokens = kmf_bpe_encode(bpe, cases[c].letters, 6, letter, &n, NULL);
        ck_assert_uint_eq(n, 2);
        ck_assert_int_eq(tokens[0], 5);
        ck_assert_int_eq(tokens[1], 4);
        kmf_bpe_free(bpe);
        kmf_pairs_free(m);
    }
}
END_TEST

START_TEST(a_pair_is_listed_once)
{
    static const kmf_pair one = {0, 1, 2};
    kmf_pairs *m = kmf_pairs_new(2, 3, NULL);
    ck_assert(kmf_pairs_add(m, &one));
    ck_assert(!kmf_pairs_add(m, &one));
    ck_assert_uint_eq(m->n, 1);
    kmf_pairs_free(m);
    kmf_pairs_free(NULL);
    kmf_bpe_free(NULL);
}
END_TEST

/* Where all slots were taken, who looks for a pair that is not there would look for ever. */
START_TEST(half_of_the_slots_stay_free)
{
    for (size_t n = 1; n < 40; n++) {
        kmf_pairs *m = kmf_pairs_new(n, 3, NULL);
        ck_assert_uint_ge(m->mask + 1, 2 * n);
        kmf_pairs_free(m);
    }
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    static const unsigned char text[3000];
    static const int32_t letter[256];
    size_t n;
    bool reached = true;
    for (size_t i = 1; reached; i++) {
        kmf_err err = {0};
        kmf_mem_fail_at(i);
        kmf_pairs *m = kmf_pairs_new(3, 4, &err);
        kmf_bpe *bpe = m ? kmf_bpe_new(m, 64, &err) : NULL;
        if (m)
            m->letters[0] = 1;
        const int32_t *tokens =
            bpe ? kmf_bpe_encode(bpe, text, sizeof text, letter, &n, &err) : NULL;
        reached = failed_at(i);
        ck_assert(!tokens == reached);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
        kmf_bpe_free(bpe);
        kmf_pairs_free(m);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, random_lists_on_short_texts_equal_the_definition);
    tcase_add_test(tcase, random_lists_on_long_texts_equal_the_definition);
    tcase_add_test(tcase, ranks_below_the_present_one_come_next);
    tcase_add_test(tcase, of_equal_pairs_the_left_one_is_first);
    tcase_add_test(tcase, a_pair_is_listed_once);
    tcase_add_test(tcase, half_of_the_slots_stay_free);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("bpe", tcase);
}
