/* SPDX-License-Identifier: MIT */
/*
 * Second source: k-mers as text. They are spelt one after another, turned around letter by letter,
 * compared by strcmp and numbered by counting.
 */
#include "learn/lexicon.h"

#include "base/mem.h"
#include "run.h"

#include <string.h>

/* Letters of the i-th k-mer in alphabetical order, and its code. */
static uint64_t spell(char *text, const kmf_alphabet_row *a, int k, uint64_t i)
{
    uint64_t code = 0;
    text[k] = '\0';
    for (int at = k - 1; at >= 0; at--) {
        text[at] = a->letters[i % (uint64_t)a->n_letters];
        i /= (uint64_t)a->n_letters;
    }
    for (int at = 0; at < k; at++)
        code = code << a->bits | (uint64_t)(strchr(a->letters, text[at]) - a->letters);
    return code;
}

static uint64_t code_of(const char *text)
{
    uint64_t code = 0;
    for (; *text; text++)
        code = code * 4 + (uint64_t)(strchr("ACGT", *text) - "ACGT");
    return code;
}

static void turn_around(char *to, const char *text, int k)
{
    to[k] = '\0';
    for (int i = 0; i < k; i++)
        to[k - 1 - i] = "TGCA"[strchr("ACGT", text[i]) - "ACGT"];
}

static uint64_t n_kmers(const kmf_alphabet_row *a, int k)
{
    uint64_t n = 1;
    for (int i = 0; i < k; i++)
        n *= (uint64_t)a->n_letters;
    return n;
}

static void check_lexicon(kmf_alphabet name, int k_min, int k_max, bool canonical)
{
    kmf_lexicon lexicon;
    kmf_err err = {0};
    uint32_t next = 0;
    uint64_t wrong = 0;
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, name, k_min, k_max, canonical, &err), 0);
    for (int k = k_min; k <= k_max; k++) {
        uint64_t n = n_kmers(lexicon.alphabet, k);
        ck_assert_uint_eq(lexicon.first[k], next);
        for (uint64_t i = 0; i < n; i++) {
            char text[32];
            char other[32];
            uint64_t code = spell(text, lexicon.alphabet, k, i);
            if (canonical)
                turn_around(other, text, k);
            if (canonical && strcmp(other, text) < 0)
                wrong += kmf_lexicon_word(&lexicon, code, k) !=
                         kmf_lexicon_word(&lexicon, code_of(other), k);
            else
                wrong += kmf_lexicon_word(&lexicon, code, k) != next++;
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(lexicon.n, next);
    ck_assert_uint_eq(lexicon.first[k_max + 1], next);
    ck_assert_int_eq(lexicon.k_min, k_min);
    ck_assert_int_eq(lexicon.k_max, k_max);
    kmf_lexicon_clear(&lexicon);
    ck_assert_uint_eq(lexicon.n, 0);
    kmf_lexicon_clear(&lexicon);
}

START_TEST(words_of_dna_are_numbered_by_length_and_then_by_alphabet)
{
    for (int k = 1; k <= 8; k++)
        check_lexicon(KMF_DNA, k, k, false);
    check_lexicon(KMF_DNA, 1, 9, false);
    check_lexicon(KMF_DNA, 3, 8, false);
}
END_TEST

START_TEST(both_strands_of_a_canonical_word_are_the_smaller_one)
{
    for (int k = 1; k <= 8; k++)
        check_lexicon(KMF_DNA, k, k, true);
    check_lexicon(KMF_DNA, 1, 9, true);
}
END_TEST

START_TEST(words_of_proteins_leave_no_gaps)
{
    for (int k = 1; k <= 4; k++)
        check_lexicon(KMF_PROTEIN, k, k, false);
    check_lexicon(KMF_PROTEIN, 1, 3, false);
}
END_TEST

START_TEST(codes_that_are_no_protein_have_no_word)
{
    kmf_lexicon lexicon;
    uint64_t none = 0;
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_PROTEIN, 2, 2, false, NULL), 0);
    for (uint64_t code = 0; code < 1 << 10; code++)
        none += kmf_lexicon_word(&lexicon, code, 2) == KMF_LEXICON_NONE;
    ck_assert_uint_eq(none, 1024 - 400);
    ck_assert_uint_eq(kmf_lexicon_word(&lexicon, 20, 2), KMF_LEXICON_NONE);
    kmf_lexicon_clear(&lexicon);
}
END_TEST

START_TEST(the_longest_words_are_as_many_as_they_should_be)
{
    kmf_lexicon lexicon;
    ck_assert_int_eq(kmf_lexicon_k_max(KMF_DNA), 12);
    ck_assert_int_eq(kmf_lexicon_k_max(KMF_PROTEIN), 5);
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_DNA, 12, 12, false, NULL), 0);
    ck_assert_uint_eq(lexicon.n, 16777216);
    kmf_lexicon_clear(&lexicon);
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_DNA, 12, 12, true, NULL), 0);
    ck_assert_uint_eq(lexicon.n, (16777216 + 4096) / 2);
    kmf_lexicon_clear(&lexicon);
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_PROTEIN, 5, 5, false, NULL), 0);
    ck_assert_uint_eq(lexicon.n, 3200000);
    kmf_lexicon_clear(&lexicon);
    /* 4 bytes a code: of 5 bits a letter; of 2; and none where every code is a word */
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_PROTEIN, 2, 3, false, NULL), 0);
    ck_assert_uint_eq(kmf_lexicon_bytes(&lexicon), 4 * (32 * 32 + 32 * 32 * 32));
    kmf_lexicon_clear(&lexicon);
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_DNA, 2, 3, true, NULL), 0);
    ck_assert_uint_eq(kmf_lexicon_bytes(&lexicon), 4 * (16 + 64));
    kmf_lexicon_clear(&lexicon);
    ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_DNA, 2, 3, false, NULL), 0);
    ck_assert_uint_eq(kmf_lexicon_bytes(&lexicon), 0);
    kmf_lexicon_clear(&lexicon);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    for (size_t at = 1; at <= 4; at++) {
        kmf_err err = {0};
        kmf_lexicon lexicon;
        kmf_mem_fail_at(at);
        ck_assert_int_eq(kmf_lexicon_make(&lexicon, KMF_DNA, 3, 6, true, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
        kmf_mem_fail_at(0);
        kmf_lexicon_clear(&lexicon);
    }
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, words_of_dna_are_numbered_by_length_and_then_by_alphabet);
    tcase_add_test(c, both_strands_of_a_canonical_word_are_the_smaller_one);
    tcase_add_test(c, words_of_proteins_leave_no_gaps);
    tcase_add_test(c, codes_that_are_no_protein_have_no_word);
    tcase_add_test(c, the_longest_words_are_as_many_as_they_should_be);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("lexicon", c);
}
