/* SPDX-License-Identifier: MIT */
/*
 * Second sources: letters listed by hand; the complement of an IUPAC letter found from the set
 * of bases that it stands for.
 */
#include "seq/dna.h"
#include "run.h"

#include <check.h>
#include <ctype.h>
#include <string.h>

START_TEST(bases_have_the_codes_0_to_3_and_all_else_4)
{
    for (int c = 0; c < 256; c++) {
        int expected = 4;
        if (c == 'A' || c == 'a')
            expected = 0;
        if (c == 'C' || c == 'c')
            expected = 1;
        if (c == 'G' || c == 'g')
            expected = 2;
        if (c == 'T' || c == 't' || c == 'U' || c == 'u')
            expected = 3;
        ck_assert_int_eq(kmf_base_code[c], expected);
    }
}
END_TEST

START_TEST(sequences_hold_letters_gaps_and_stops_only)
{
    for (int c = 0; c < 256; c++) {
        int good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '*' || c == '-' ||
                   c == '.';
        ck_assert_int_eq(kmf_not_a_base((char)c), !good);
    }
}
END_TEST

/* The bases of an IUPAC letter as bits A=1 C=2 G=4 T=8, 0 if it is none. */
static unsigned set_of(char letter)
{
    static const char *const letters = "ACGTRYSWKMBDHVN";
    static const unsigned sets[] = {1, 2, 4, 8, 5, 10, 6, 9, 12, 3, 14, 13, 11, 7, 15};
    const char *found = letter ? strchr(letters, letter) : NULL;
    return found ? sets[found - letters] : 0;
}

static char complement(char c)
{
    char out;
    kmf_dna_revcomp(&out, &c, 1);
    return out;
}

START_TEST(a_letter_becomes_the_one_of_the_complementary_set)
{
    for (int c = 0; c < 256; c++) {
        char in = (char)c;
        char out = complement(in);
        unsigned set = c < 128 ? set_of((char)toupper(c)) : 0;
        if (c == 'U' || c == 'u') {
            ck_assert_int_eq(out, c == 'U' ? 'A' : 'a');
            continue;
        }
        if (set == 0) {
            ck_assert_int_eq(out, in);
            continue;
        }
        unsigned turned = (set & 1) << 3 | (set & 2) << 1 | (set & 4) >> 1 | (set & 8) >> 3;
        ck_assert_uint_eq(set_of((char)toupper(out)), turned);
        ck_assert_int_eq(isupper(out) != 0, isupper(in) != 0);
    }
}
END_TEST

START_TEST(the_order_is_reversed_in_place_and_out_of_place)
{
    static const char seq[] = "ACGTNacgtnRYKM-*";
    static const char expected[] = "*-KMRYnacgtNACGT";
    char out[sizeof seq];
    char in_place[sizeof seq];
    for (size_t n = 0; n < sizeof seq; n++) {
        memset(out, '#', sizeof out);
        memcpy(in_place, seq, sizeof seq);
        kmf_dna_revcomp(out, seq, n);
        kmf_dna_revcomp(in_place, in_place, n);
        ck_assert_mem_eq(out, expected + sizeof seq - 1 - n, n);
        ck_assert_int_eq(out[n], '#');
        ck_assert_mem_eq(in_place, out, n);
        ck_assert_int_eq(in_place[n], seq[n]);
        kmf_dna_revcomp(in_place, in_place, n);
        ck_assert_mem_eq(in_place, seq, n);
    }
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, bases_have_the_codes_0_to_3_and_all_else_4);
    tcase_add_test(tc, sequences_hold_letters_gaps_and_stops_only);
    tcase_add_test(tc, a_letter_becomes_the_one_of_the_complementary_set);
    tcase_add_test(tc, the_order_is_reversed_in_place_and_out_of_place);
    return run_case("dna", tc);
}
