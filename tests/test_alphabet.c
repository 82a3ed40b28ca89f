/* SPDX-License-Identifier: MIT */
/* The letters of DNA and proteins: tables written out by hand against those of the library. */
#include "words/alphabet.h"
#include "run.h"

#include <check.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

START_TEST(letters_have_their_alphabetical_numbers_in_either_case)
{
    static const struct {
        const char *letters;
        int bits, k_max;
    } expected[] = {{"ACGT", 2, 32}, {"ACDEFGHIKLMNPQRSTVWY", 5, 6}};
    for (int a = 0; a < KMF_N_ALPHABETS; a++) {
        const kmf_alphabet_row *row = kmf_alphabet_of((kmf_alphabet)a);
        const char *letters = expected[a].letters;
        ck_assert_str_eq(kmf_alphabet_letters((kmf_alphabet)a), letters);
        ck_assert_int_eq(kmf_alphabet_bits((kmf_alphabet)a), expected[a].bits);
        ck_assert_int_eq(kmf_alphabet_k_max((kmf_alphabet)a), expected[a].k_max);
        ck_assert_int_eq(row->n_letters, (int)strlen(letters));
        for (int c = 0; c < 256; c++) {
            int upper = c < 128 ? toupper(c) : 0;
            if (a == KMF_DNA && upper == 'U')
                upper = 'T';
            const char *at = upper > 0 ? strchr(letters, upper) : NULL;
            if (at)
                ck_assert_uint_eq(row->code[c], (unsigned)(at - letters));
            else
                ck_assert_uint_ge(row->code[c], (unsigned)row->n_letters);
        }
    }
    ck_assert_str_eq(kmf_alphabet_names[KMF_DNA], "dna");
    ck_assert_str_eq(kmf_alphabet_names[KMF_PROTEIN], "protein");
    ck_assert_ptr_null(kmf_alphabet_names[KMF_N_ALPHABETS]);
}
END_TEST

START_TEST(dna_is_encoded_as_the_kmer_functions_do)
{
    static const char seq[] =
        "ACGTUacgtuNTTTTTGGGGGCCCCCAAAAACCCCCGGGGGTTTTTACGTACGT-ACGTRACGT";
    for (int k = 1; k <= KMF_K_MAX; k++)
        for (size_t i = 0; i + (size_t)k < sizeof seq; i++) {
            uint64_t x = 0;
            uint64_t y = 0;
            char a[KMF_K_MAX + 1];
            char b[KMF_K_MAX + 1];
            int status = kmf_kmer_encode(&x, seq + i, k);
            ck_assert_int_eq(kmf_alphabet_encode(KMF_DNA, &y, seq + i, k), status);
            ck_assert_uint_eq(x, y);
            kmf_kmer_decode(a, x, k);
            kmf_alphabet_decode(KMF_DNA, b, x, k);
            ck_assert_str_eq(a, b);
        }
}
END_TEST

START_TEST(residues_are_digits_of_five_bits)
{
    uint64_t code;
    char text[7];
    ck_assert_int_eq(kmf_alphabet_encode(KMF_PROTEIN, &code, "MKyW", 4), 0);
    ck_assert_uint_eq(code, ((10u * 32 + 8) * 32 + 19) * 32 + 18);
    kmf_alphabet_decode(KMF_PROTEIN, text, code, 4);
    ck_assert_str_eq(text, "MKYW");
    ck_assert_int_eq(kmf_alphabet_encode(KMF_PROTEIN, &code, "ACB", 3), KMF_EFORMAT);
    ck_assert_int_eq(kmf_alphabet_encode(KMF_PROTEIN, &code, "U", 1), KMF_EFORMAT);
    ck_assert_int_eq(kmf_alphabet_encode(KMF_PROTEIN, &code, "*", 1), KMF_EFORMAT);
    kmf_alphabet_decode(KMF_PROTEIN, text, 20u << 5 | 1, 2);
    ck_assert_str_eq(text, "?C");
}
END_TEST

START_TEST(there_are_as_many_kmers_as_a_count_of_them_finds)
{
    for (int k = 1; k <= 3; k++) {
        uint64_t n = 0;
        uint64_t end = (uint64_t)1 << 5 * k;
        uint64_t next = end; /* the first code from `code` on that stands for a k-mer */
        for (uint64_t code = end; code-- > 0;) {
            int good = 1;
            for (int i = 0; i < k; i++)
                good = good && (code >> 5 * i & 31) < 20;
            n += (uint64_t)good;
            if (good)
                next = code;
            uint64_t up = kmf_alphabet_round_up(KMF_PROTEIN, k, code);
            ck_assert_uint_eq(up < end ? up : end, next);
        }
        ck_assert(kmf_alphabet_possible(KMF_PROTEIN, k) == (double)n);
    }
    ck_assert(kmf_alphabet_possible(KMF_DNA, 5) == 1024);
    ck_assert(kmf_alphabet_possible(KMF_DNA, 32) == ldexp(1, 64));
    ck_assert_uint_eq(kmf_alphabet_round_up(KMF_DNA, 32, UINT64_MAX), UINT64_MAX);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("alphabet");
    tcase_add_test(tcase, letters_have_their_alphabetical_numbers_in_either_case);
    tcase_add_test(tcase, dna_is_encoded_as_the_kmer_functions_do);
    tcase_add_test(tcase, residues_are_digits_of_five_bits);
    tcase_add_test(tcase, there_are_as_many_kmers_as_a_count_of_them_finds);
    return run_case("alphabet", tcase);
}
