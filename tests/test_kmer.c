/* SPDX-License-Identifier: MIT */
/* k-mer codes and the sliding window against slicing strings. */
#include "base/rng.h"
#include "words/kmer.h"
#include "run.h"

#include <check.h>
#include <string.h>

#define LEN 300

/* The definitions, on text. */
static void naive_revcomp(char *out, const char *kmer, int k)
{
    for (int i = 0; i < k; i++) {
        char b = kmer[k - 1 - i];
        out[i] = b == 'A' ? 'T' : b == 'C' ? 'G' : b == 'G' ? 'C' : 'A';
    }
    out[k] = '\0';
}

static void random_bases(char *seq, size_t n, const char *letters, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        seq[i] = letters[kmf_rng_below(rng, strlen(letters))];
    seq[n] = '\0';
}

START_TEST(codes_of_hand_computed_kmers)
{
    uint64_t code;
    ck_assert_int_eq(kmf_kmer_encode(&code, "ACGT", 4), 0);
    ck_assert_uint_eq(code, 0 * 64 + 1 * 16 + 2 * 4 + 3);
    ck_assert_int_eq(kmf_kmer_encode(&code, "tuU", 3), 0);
    ck_assert_uint_eq(code, 63);
    ck_assert_int_eq(kmf_kmer_encode(&code, "ACNT", 4), KMF_EFORMAT);
    ck_assert_int_eq(kmf_kmer_encode(&code, "TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT", 32), 0);
    ck_assert_uint_eq(code, UINT64_MAX);
}
END_TEST

START_TEST(every_k_decodes_and_complements_as_text_does)
{
    kmf_rng rng = kmf_rng_stream(1, 0);
    for (int k = 1; k <= KMF_K_MAX; k++)
        for (int round = 0; round < 200; round++) {
            char kmer[KMF_K_MAX + 1], rc[KMF_K_MAX + 1], text[KMF_K_MAX + 1];
            uint64_t code, rc_code;
            random_bases(kmer, (size_t)k, "ACGT", &rng);
            naive_revcomp(rc, kmer, k);
            ck_assert_int_eq(kmf_kmer_encode(&code, kmer, k), 0);
            ck_assert_int_eq(kmf_kmer_encode(&rc_code, rc, k), 0);
            kmf_kmer_decode(text, code, k);
            ck_assert_str_eq(text, kmer);
            ck_assert_uint_eq(kmf_kmer_revcomp(code, k), rc_code);
            const char *smaller = strcmp(kmer, rc) < 0 ? kmer : rc;
            kmf_kmer_decode(text, kmf_kmer_canonical(code, k), k);
            ck_assert_str_eq(text, smaller);
        }
}
END_TEST

/* All windows of text, cut with strncpy and judged letter by letter. */
static void check_windows(const char *seq, size_t len, int k, size_t stride, bool reverse,
                          size_t block)
{
    static char strand[LEN + 1];
    uint64_t codes[LEN], pos[LEN];
    uint8_t clean[LEN];
    kmf_window window;
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const char letters[] = "ACGTacgtUu";
        char b = reverse ? seq[len - 1 - i] : seq[i];
        const char *at = memchr(letters, b, sizeof letters - 1);
        strand[i] = at ? (reverse ? "TGCATGCAAA" : "ACGTACGTTT")[at - letters] : 'N';
    }
    strand[len] = '\0';
    kmf_window_start(&window, seq, len, k, stride, reverse);
    for (;;) {
        size_t got = kmf_window_next(&window, codes + n, pos + n, clean + n, block);
        n += got;
        if (got < block)
            break;
    }
    size_t expected = 0;
    for (size_t start = 0; start + (size_t)k <= len; start += stride, expected++) {
        char kmer[KMF_K_MAX + 1] = {0};
        uint64_t code;
        ck_assert_uint_lt(expected, n);
        memcpy(kmer, strand + start, (size_t)k);
        ck_assert_uint_eq(pos[expected], start);
        ck_assert_int_eq(clean[expected], strchr(kmer, 'N') == NULL);
        if (clean[expected]) {
            ck_assert_int_eq(kmf_kmer_encode(&code, kmer, k), 0);
            ck_assert_uint_eq(codes[expected], code);
        }
    }
    ck_assert_uint_eq(n, expected);
}

START_TEST(windows_equal_sliced_strings)
{
    static const size_t strides[] = {1, 2, 3, 6, 31, 40};
    static const int ks[] = {1, 2, 5, 6, 12, 31, 32};
    kmf_rng rng = kmf_rng_stream(2, 0);
    char seq[LEN + 1];
    for (int round = 0; round < 20; round++) {
        size_t len = kmf_rng_below(&rng, LEN);
        random_bases(seq, len, round % 2 ? "ACGT" : "ACGTacgtUuACGTACGTACGTACGTACGTNRn-", &rng);
        for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
            for (size_t j = 0; j < sizeof strides / sizeof strides[0]; j++)
                for (int reverse = 0; reverse < 2; reverse++)
                    check_windows(seq, len, ks[i], strides[j], reverse, round % 3 ? 7 : 256);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("kmer");
    tcase_add_test(tcase, codes_of_hand_computed_kmers);
    tcase_add_test(tcase, every_k_decodes_and_complements_as_text_does);
    tcase_add_test(tcase, windows_equal_sliced_strings);
    return run_case("kmer", tcase);
}
