/* SPDX-License-Identifier: MIT */
/* vocab.txt: order, lookup, and every way to be wrong. */
#include "failing.h"
#include "kmerformer.h"
#include "run.h"

#include <check.h>
#include <string.h>

static kmf_vocab *parse(const char *text, kmf_err *err)
{
    return kmf_vocab_parse(text, strlen(text), "vocab.txt", err);
}

START_TEST(new_vocabulary_lists_specials_then_kmers_in_code_order)
{
    static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    for (int k = 1; k <= 6; k++) {
        kmf_vocab *v = kmf_vocab_new(k, NULL);
        ck_assert_ptr_nonnull(v);
        uint64_t all = (uint64_t)1 << 2 * k;
        ck_assert_uint_eq(kmf_vocab_size(v), 5 + all);
        for (int32_t s = 0; s < 5; s++) {
            ck_assert_str_eq(kmf_vocab_token(v, s), specials[s]);
            ck_assert_int_eq(kmf_vocab_special(v, (kmf_special)s), s);
        }
        for (uint64_t code = 0; code < all; code++) {
            char kmer[8];
            kmf_kmer_decode(kmer, code, k);
            ck_assert_int_eq(kmf_vocab_kmer(v, code), (int32_t)(5 + code));
            ck_assert_str_eq(kmf_vocab_token(v, (int32_t)(5 + code)), kmer);
        }
        ck_assert_int_eq(kmf_vocab_kmer(v, all), -1);
        ck_assert_ptr_null(kmf_vocab_token(v, -1));
        ck_assert_ptr_null(kmf_vocab_token(v, (int32_t)(5 + all)));
        kmf_vocab_free(v);
    }
}
END_TEST

START_TEST(ids_come_from_the_file_in_any_order)
{
    kmf_err err = {0};
    kmf_vocab *v = parse("TG\r\n[CLS]\nAA\n[unused1]\n[UNK]\nCC", &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    ck_assert_int_eq(kmf_vocab_k(v), 2);
    ck_assert_uint_eq(kmf_vocab_size(v), 6);
    ck_assert_int_eq(kmf_vocab_kmer(v, 3 * 4 + 2), 0); /* TG */
    ck_assert_int_eq(kmf_vocab_kmer(v, 0), 2);         /* AA */
    ck_assert_int_eq(kmf_vocab_kmer(v, 1 * 4 + 1), 5); /* CC */
    ck_assert_int_eq(kmf_vocab_kmer(v, 1), -1);        /* AC is not listed */
    ck_assert_int_eq(kmf_vocab_special(v, KMF_CLS), 1);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_UNK), 4);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_SEP), -1);
    ck_assert_str_eq(kmf_vocab_token(v, 0), "TG");
    kmf_vocab_free(v);
}
END_TEST

START_TEST(a_token_in_angle_brackets_makes_the_other_kind)
{
    static const char text[] = "<unk>\r\n<cls>\nTG\n<eos>\nAA\nN\nT";
    kmf_err err = {0};
    size_t len;
    kmf_vocab *v = parse(text, &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    ck_assert_int_eq(kmf_vocab_kind_of(v), KMF_VOCAB_GREEDY);
    ck_assert_int_eq(kmf_vocab_k(v), 2);
    ck_assert_uint_eq(kmf_vocab_size(v), 7);
    ck_assert_uint_eq(kmf_vocab_frame(v), 1);
    ck_assert_int_eq(kmf_vocab_kmer(v, 3 * 4 + 2), 2);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_UNK), 0);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_CLS), 1);
    ck_assert_int_eq(kmf_vocab_special(v, KMF_SEP), -1);
    ck_assert_str_eq(kmf_vocab_token(v, 5), "N");
    ck_assert_str_eq(kmf_vocab_text(v, &len), text);
    ck_assert_uint_eq(len, sizeof text - 1);
    ck_assert_str_eq(kmf_vocab_file(v), "vocab.txt");
    kmf_vocab_free(v);
    v = parse("<unk>\nAA\n~", &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    ck_assert_uint_eq(kmf_vocab_frame(v), 0); /* nothing to put in front */
    kmf_vocab_free(v);
}
END_TEST

START_TEST(the_text_and_the_frame_are_kept)
{
    size_t len;
    kmf_vocab *v = kmf_vocab_new(1, NULL);
    ck_assert_int_eq(kmf_vocab_kind_of(v), KMF_VOCAB_KMERS);
    ck_assert_str_eq(kmf_vocab_text(v, &len),
                     "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\nC\nG\nT\n");
    ck_assert_uint_eq(len, 39);
    ck_assert_uint_eq(kmf_vocab_frame(v), 2);
    kmf_vocab_free(v);
    v = parse("[CLS]\nA", NULL);
    ck_assert_uint_eq(kmf_vocab_frame(v), 0);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(what_does_not_fit_is_named_by_its_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no k-mer"},
        {"[PAD]\n[UNK]\n", "no k-mer"},
        {"AA\nACG\n", "line 2: 'ACG' has 3 bases"},
        {"AA\nAC\nAA\n", "line 3: 'AA' is listed twice"},
        {"[CLS]\nAA\n[CLS]\n", "line 3: [CLS] is listed twice"},
        {"AA\n\nAC\n", "line 2"},
        {"AA\nac\n", "line 2: 'ac'"},
        {"AA\nAN\n", "line 2: 'AN'"},
        {"ACGTACGTACGTA\n", "13 bases; at most 12"},
        {"<unk>\nA\nAC\nA\n", "line 4: 'A' is listed twice"},
        {"<unk>\nAC\n<unk>\n", "line 3: <unk> is listed twice"},
        {"<unk>\nAC\nACG\n", "line 3: 'ACG' has 3 bases"},
        {"<unk>\nAC\n[CLS]\n", "line 3: '[CLS]' is neither"},
        {"<unk>\nAC\n\n", "line 3: '' is neither"},
        {"<unk>\nAC\n\t\n", "line 3: not a letter"},
        {"<unk>\nAC\n \n", "line 3: not a letter"},
        {"<unk>\nAC\n\x7f\n", "line 3: not a letter"},
        {"<unk>\nA\nC\n", "no k-mer"},
        {"<cls>\nA\nAC\n", "no <unk>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(parse(cases[i].text, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, cases[i].message) != NULL, "%s", err.msg);
    }
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_vocab_parse("A\0A\n", 4, "vocab.txt", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_vocab_new(13, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_vocab_load("/nonexistent/vocab.txt", &err));
    ck_assert_int_eq(err.code, KMF_EIO);
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        kmf_vocab *v = kmf_vocab_new(3, &err);
        reached = failed_at(n);
        ck_assert(reached == !v);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
        kmf_vocab_free(v);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("vocab");
    tcase_add_test(tcase, new_vocabulary_lists_specials_then_kmers_in_code_order);
    tcase_add_test(tcase, ids_come_from_the_file_in_any_order);
    tcase_add_test(tcase, a_token_in_angle_brackets_makes_the_other_kind);
    tcase_add_test(tcase, the_text_and_the_frame_are_kept);
    tcase_add_test(tcase, what_does_not_fit_is_named_by_its_line);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("vocab", tcase);
}
