/* SPDX-License-Identifier: MIT */
/* What an embedder tells of itself: provenance, identity, digests of its files. */
#include "failing.h"
#include "kmerformer.h"
#include "mixed.h"
#include "run.h"

#include <check.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Whole, or an error: never with null where a part of it could not be made. */
START_TEST(provenance_without_memory_is_an_error_and_never_half)
{
    const kmf_reader_options reader = {.regions = "chr1:1-9", .bed = "x.bed"};
    const char *const inputs[] = {"a.fa", "b\xff.fa"};
    kmf_embed_options o = options();
    json_set_alloc_funcs(counted_malloc, kmf_free);
    kmf_embedder *e = kmf_embedder_new("tnf", &o, NULL);
    ck_assert_ptr_nonnull(e);
    for (int identity = 0; identity < 2; identity++) {
        char *whole = identity ? kmf_embedder_identity(e, NULL)
                               : kmf_provenance(e, "x.npy", "x\xff", inputs, 2, &reader, NULL);
        size_t n_failed = 0;
        bool reached = true;
        ck_assert_ptr_nonnull(whole);
        for (size_t n = 1; reached; n++) {
            kmf_err err = {0};
            kmf_mem_fail_at(n);
            char *text = identity
                             ? kmf_embedder_identity(e, &err)
                             : kmf_provenance(e, "x.npy", "x\xff", inputs, 2, &reader, &err);
            reached = failed_at(n);
            ck_assert_int_eq(err.code, text ? KMF_OK : KMF_ENOMEM);
            if (text)
                ck_assert_str_eq(text, whole);
            n_failed += !text;
            kmf_text_free(text);
        }
        ck_assert_uint_gt(n_failed, 10);
        kmf_text_free(whole);
    }
    kmf_embedder_free(e);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

/* Strict, as a published tokenizer has it, and drawn in the shape of a model by another name. */
START_TEST(an_embedder_is_made_again_from_its_description)
{
    static const struct {
        const char *model, *again;
        int strict, exact;
    } cases[] = {
        {"tnf", NULL, 1, 0},
        {"tests/golden/dnabert-2", NULL, 0, 1},
        {"random:tests/golden/roformer", NULL, 0, 0},
        {"random:tests/golden/roformer", "random:tests/golden/../golden/roformer", 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kmf_embed_options o = options();
        kmf_err err = {0};
        o.strict = cases[i].strict;
        o.exact = cases[i].exact;
        if (strncmp(cases[i].model, "random", 6) == 0)
            o.seed = 7;
        kmf_embedder *e = kmf_embedder_new(cases[i].model, &o, &err);
        ck_assert_msg(e != NULL, "%s", err.msg);
        char *text = kmf_embedder_identity(e, &err);
        ck_assert_ptr_nonnull(text);
        kmf_embedder_free(e);
        e = kmf_embedder_reopen(text, cases[i].again, 1, &err);
        ck_assert_msg(e != NULL, "%s", err.msg);
        kmf_embedder_free(e);
        kmf_text_free(text);
    }
}
END_TEST

/* Of a vocabulary of many pages, which nothing may give back to the system. */
START_TEST(a_digest_leaves_the_vocabulary_as_it_is)
{
    kmf_embed_options o = options();
    kmf_err err = {0};
    kmf_embedder *e = kmf_embedder_new("data/default", &o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    size_t len, after;
    const kmf_vocab *vocab = kmf_model_vocab(kmf_embedder_model(e));
    char *was = kmf_strdup(kmf_vocab_text(vocab, &len), &err);
    ck_assert_uint_gt(len, 4 * KMF_PAGE);
    char *first = kmf_embedder_identity(e, &err);
    char *second = kmf_embedder_identity(e, &err);
    ck_assert_str_eq(first, second);
    ck_assert_mem_eq(kmf_vocab_text(vocab, &after), was, len);
    ck_assert_uint_eq(after, len);
    kmf_text_free(first);
    kmf_text_free(second);
    kmf_free(was);
    kmf_embedder_free(e);
}
END_TEST

/* Asked for beforehand or not, twice, while a run is under way, and never waited for. */
START_TEST(digests_are_the_same_beside_the_start)
{
    char *text[4];
    for (int early = 0; early < 2; early++) {
        kmf_embed_options o = options();
        kmf_err err = {0};
        o.provenance = early;
        kmf_embedder *e = kmf_embedder_new(MODEL, &o, &err);
        ck_assert_msg(e != NULL, "%s", err.msg);
        ck_assert_int_eq(kmf_embedder_add(e, "a name", "ACGTACGTACGT", 12, &err), 0);
        text[2 * early] = kmf_embedder_identity(e, &err);
        text[2 * early + 1] = kmf_embedder_identity(e, &err);
        kmf_embedder_free(e);
        kmf_embedder_free(kmf_embedder_new(MODEL, &o, &err));
    }
    ck_assert_ptr_nonnull(strstr(text[0], "md5"));
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(text[0], text[i]);
        if (i > 0)
            kmf_text_free(text[i]);
    }
    kmf_text_free(text[0]);
}
END_TEST

START_TEST(bytes_of_files_reach_no_message_raw)
{
    static const struct {
        const char *identity, *message;
    } lies[] = {{"{\"model\": {\"name\": \"no\\u001b[2J\"}, \"settings\": {}}",
                 "embedder: a control character in the model's name"},
                {"{\"model\": {\"name\": \"no\\u009b2J\"}, \"settings\": {}}",
                 "embedder: a control character in the model's name"},
                {"{\"model\": {\"name\": \"tnf\"}, \"settings\": {\"\\u001b[2J\": 1}}",
                 "tnf is not the model of these vectors: the setting ?[2J differs"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_embedder_reopen(lies[i].identity, NULL, 1, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_str_eq(err.msg, lies[i].message);
    }
    static const char sound[] = "{\"model\": {\"name\": \"tnf\"}, \"settings\": {}}";
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_embedder_reopen(sound, NULL, 0, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_embedder_reopen(sound, NULL, 1025, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    err = (kmf_err){0};
    kmf_embed_options o = options();
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    kmf_embedder *e = kmf_embedder_new("tnf", &o, &err);
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(kmf_embedder_add(e, "x", "ACG\x1b", 4, &err), KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "base 4 is '?', not"));
    kmf_embedder_free(e);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, provenance_without_memory_is_an_error_and_never_half);
    tcase_add_test(tcase, an_embedder_is_made_again_from_its_description);
    tcase_add_test(tcase, a_digest_leaves_the_vocabulary_as_it_is);
    tcase_add_test(tcase, digests_are_the_same_beside_the_start);
    tcase_add_test(tcase, bytes_of_files_reach_no_message_raw);
    return run_case("identity", tcase);
}
