/* SPDX-License-Identifier: MIT */
/* Files of k-mer vectors that do not fit: one for each kind of lie, and what is said of it. */
#include "vectorfiles.h"

static const struct lie {
    const char *text;
    const char *says;
} lies[] = {
    {"", "an empty file"},
    {"\n", "not a file of vectors"},
    {"ACG 1 2\n", "not a file of vectors"},
    {"2\nACG 1\n", "not a file of vectors"},
    {"2 3 4\nACG 1\n", "not a file of vectors"},
    {"-2 3\nACG 1 2 3\n", "not a file of vectors"},
    {"2 3x\nACG 1 2 3\n", "not a file of vectors"},
    {" 2 3\nACG 1 2 3\n", "not a file of vectors"},
    {"2.0 3\nACG 1 2 3\n", "not a file of vectors"},
    {"99999999999999999999999 1\nA 1\n", "not a file of vectors"},
    {"0 3\n", "its first line says 0 words of 3 numbers"},
    {"3 0\nA\nC\nG\n", "its first line says 3 words of 0 numbers"},
    {"1 1", "more than the 0 bytes behind it can hold"},
    {"4000000000 4000000000\nA 1\n", "more than the 4 bytes behind it can hold"},
    {"18446744073709551615 9223372036854775807\nA 1\n", "can hold"},
    {"1 18446744073709551615\nA 1\n", "can hold"},
    {"3 2\nACG 1 2\nTTT 3 4\n", "cut off: 2 words, where the first line says 3"},
    {"1 2\nACG 1 2\nTTT 3 4\n", "line 3: more than the first line's 1 words"},
    {"2 2\nACG 1 2\nTTT 3\n\n", "line 3: 1 numbers, where the first line says 2"},
    {"2 2\nACG 1\nTTT 3 4\n", "line 2: 1 numbers, where the first line says 2"},
    {"2 2\nACG\nTTT 3 4 5 6\n", "line 2: 0 numbers, where the first line says 2"},
    {"2 2\nACG 1 2 3 4\nTTT 3 4\n", "line 2: 4 numbers, where the first line says 2"},
    {"2 2\nACG 1 2\n\nTTT 3 4\n", "line 3: no word at its beginning"},
    {"2 2\n ACG 1 2\nTTT 3 4\n", "line 2: no word at its beginning"},
    {"2 2\nACG 1 x\nTTT 3 4\n", "line 2: 'x' is not a number"},
    {"2 2\nACG 1,5 2\nTTT 3 4\n", "line 2: '1,5' is not a number"},
    {"2 2\nACG 1 0x2\nTTT 3 4\n", "line 2: '0x2' is not a number"},
    {"2 2\nACG 1 2\nTTT 3 --4\n", "line 3: '--4' is not a number"},
    {"2 2\nACG 1 2\nTTT 3 1e\n", "line 3: '1e' is not a number"},
    {"2 2\nACG 1 nan\nTTT 3 4\n", "number 2 of the vector of ACG is not a number"},
    {"2 2\nACG 1 2\nTTT -inf 4\n", "number 1 of the vector of TTT is infinite"},
    {"2 2\nACG 1 2\nTTT 1e39 4\n", "number 1 of the vector of TTT is infinite"},
    {"2 2\nACG 1 2\nacg 3 4\n", "ACG is listed twice, as words 1 and 2"},
    {"2 2\nACT 1 2\nACU 3 4\n", "ACT is listed twice, as words 1 and 2"},
    {"2 2\nNNNX 1 2\n</s> 3 4\n", "none of its 2 words is a k-mer"},
    {"1 2\nACG 1 2\nTTT\n", "line 3: more than the first line's 1 words"}, /* 8 bytes, too */
};

START_TEST(each_kind_of_lie_in_text_is_named)
{
    for (size_t i = 0; i < N_OF(lies); i++)
        must_fail(lies[i].text, strlen(lies[i].text), lies[i].says);
}
END_TEST

/* But for a last number that loses digits, which nobody can see. */
START_TEST(text_that_is_cut_is_refused)
{
    const char *whole = "2 3\nACG 1 -2.5 0.001\nTTT 0 1e-05 3\n";
    size_t seen = (size_t)(strrchr(whole, ' ') - whole) + 1;
    for (size_t n = 0; n <= seen; n++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_vectors_parse(whole, n, "f", &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    must_fail(whole, strlen("2 3\nACG 1 -2.5 0.001\nTTT 0 1e-05"), "line 3: 2 numbers");
}
END_TEST

static text binary_of(size_t n, const char *const *words, size_t dim, float value,
                      const char *after)
{
    text t = {0};
    char line[64];
    snprintf(line, sizeof line, "%zu %zu\n", n, dim);
    add(&t, line);
    for (size_t i = 0; words[i]; i++) {
        add(&t, words[i]);
        add(&t, " ");
        for (size_t j = 0; j < dim; j++)
            add_bytes(&t, &value, sizeof value);
        add(&t, after);
    }
    return t;
}

/* 0.1f has bytes that no text has. */
START_TEST(each_kind_of_lie_in_binary_is_named)
{
    static const char *const words[] = {"ACG", "TTT", NULL};
    static const char *const twice[] = {"ACG", "CCC", "ACG", NULL};
    static const char *const none[] = {"</s>", "x", NULL};
    static const char *const after[] = {"", "\n"};
    for (int a = 0; a < 2; a++) {
        text t = binary_of(2, words, 5, 0.1f, after[a]);
        size_t second = 4 + 24 + (size_t)a; /* where TTT begins */
        for (size_t n = 4; n + (size_t)a < t.len; n++) {
            bool within = n < 4 + 24 || n > second + 3;
            if (n < 4 + 22)
                must_fail(t.bytes, n, "can hold");
            else
                must_fail(t.bytes, n,
                          within ? "cut off within the vector" : "cut off: 1 words");
        }
        add(&t, "\n\n");
        must_fail(t.bytes, t.len, a ? "2 bytes behind its 2 words" : "1 bytes behind");
        free(t.bytes);
        t = binary_of(3, words, 5, 0.1f, after[a]);
        must_fail(t.bytes, t.len, "cut off: 2 words, where the first line says 3");
        free(t.bytes);
        t = binary_of(1, words, 5, 0.1f, after[a]);
        must_fail(t.bytes, t.len, "bytes behind its 1 words of 5 numbers");
        free(t.bytes);
        t = binary_of(3, twice, 5, 0.1f, after[a]);
        must_fail(t.bytes, t.len, "ACG is listed twice, as words 1 and 3");
        free(t.bytes);
        t = binary_of(2, none, 5, 0.1f, after[a]);
        must_fail(t.bytes, t.len, "none of its 2 words is a k-mer");
        free(t.bytes);
        t = binary_of(2, words, 5, NAN, after[a]);
        must_fail(t.bytes, t.len, "number 1 of the vector of ACG is not a number");
        free(t.bytes);
        t = binary_of(2, words, 5, -INFINITY, after[a]);
        must_fail(t.bytes, t.len, "number 1 of the vector of ACG is infinite");
        free(t.bytes);
    }
    text t = binary_of(2, words, 2000, 0.1f, "\n");
    memcpy(t.bytes, "2 0500", 6);
    must_fail(
        t.bytes, t.len,
        "word 2 is longer than 4096 bytes: the vectors before it may not be of 500 numbers");
    free(t.bytes);
}
END_TEST

/* ---------------------------------------------------------------- counts ----------------- */

static const struct count_lie {
    const char *text;
    const char *says;
} count_lies[] = {
    {"", "no count of ACG"},
    {"ACG 5\n", "no count of TTT"},
    {"TTT 5\n", "no count of ACG"},
    {"ACG 5\nTTT\n", "line 2: 'TTT' is not followed by a count alone"},
    {"ACG 5\nTTT x\n", "line 2: 'TTT' is not followed"},
    {"ACG 5\nTTT -1\n", "line 2: 'TTT' is not followed"},
    {"ACG 5\nTTT 1 2\n", "line 2: 'TTT' is not followed"},
    {"ACG 5\nTTT 1.0\n", "line 2: 'TTT' is not followed"},
    {"ACG 5\nTTT 18446744073709551616\n", "line 2: 'TTT' is not followed"},
    {"ACG 5\n\nTTT 5\n", "line 2: '' is not followed"},
    {"ACG 5\nTTT 5\nACG 6\n", "line 3: 'ACG' is listed twice"},
    {"ACG 5\nTTT 5\nacg 6\n", "line 3: 'acg' is listed twice"},
    {"ACG 5\nTTT 5\nCCC 6\n", "line 3: 'CCC' has no vector"},
    {"ACG 5\nTTTT 5\n", "line 2: 'TTTT' has no vector"},
    {"</s>\n", "line 1: '</s>' is not followed"},
};

START_TEST(counts_that_do_not_fit_are_refused)
{
    make_dir();
    for (size_t i = 0; i < N_OF(count_lies); i++) {
        const struct count_lie *lie = &count_lies[i];
        kmf_err err = {0};
        put(in_dir("x"), TWO, strlen(TWO));
        put(in_dir("x.vocab"), lie->text, strlen(lie->text));
        ck_assert_ptr_null(kmf_vectors_load(in_dir("x"), &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, lie->says) &&
                          strncmp(err.msg, in_dir("x.vocab"), strlen(in_dir("x.vocab"))) == 0,
                      "'%s' does not say '%s'", err.msg, lie->says);
    }
    unlink(in_dir("x"));
    unlink(in_dir("x.vocab"));
    remove_empty_dir();
}
END_TEST

/* ---------------------------------------------------------------- safetensors ------------ */

static const struct tensor_lie {
    const char *entries;
    const char *words; /* instead of those of plain_data; NULL: these */
    const char *says;
} tensor_lies[] = {
    {COUNTS "," WORDS ",\"v\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,32]}",
     NULL, "no k-mer vectors: it has no tensor vectors"},
    {COUNTS "," VECTORS
            ",\"words\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[32,36]},"
            "\"more\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[36,38]}",
     NULL, "tensor more is none of those of k-mer vectors: vectors, words, counts"},
    {"\"words\":{\"dtype\":\"U8\",\"shape\":[38],\"data_offsets\":[0,38]}", NULL,
     "no k-mer vectors: it has no tensor vectors"},
    {"\"vectors\":{\"dtype\":\"F16\",\"shape\":[19,1],\"data_offsets\":[0,38]}", NULL,
     "no k-mer vectors: it has no tensor words"},
    {COUNTS "," WORDS
            ",\"vectors\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[16,32]}",
     NULL, "tensor vectors must be F32, F16, BF16 or F64"},
    {COUNTS "," WORDS ",\"vectors\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]}",
     NULL, "of shape [n, dim]"},
    {COUNTS "," WORDS
            ",\"vectors\":{\"dtype\":\"F32\",\"shape\":[4,1],\"data_offsets\":[16,32]}",
     NULL, "tensor words must be U8 of shape [4, k]"},
    {COUNTS "," VECTORS
            ",\"words\":{\"dtype\":\"I8\",\"shape\":[2,3],\"data_offsets\":[32,38]}",
     NULL, "tensor words must be U8 of shape [2, k]"},
    {COUNTS "," VECTORS
            ",\"words\":{\"dtype\":\"U8\",\"shape\":[3,2],\"data_offsets\":[32,38]}",
     NULL, "tensor words must be U8"},
    {COUNTS "," VECTORS ",\"words\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[32,38]}",
     NULL, "tensor words must be U8"},
    {VECTORS "," WORDS ",\"counts\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[0,16]}",
     NULL, "tensor counts must be U64 of shape [2]"},
    {VECTORS "," WORDS
             ",\"counts\":{\"dtype\":\"U64\",\"shape\":[2,1],\"data_offsets\":[0,16]}",
     NULL, "tensor counts must be U64 of shape [2]"},
    {COUNTS "," VECTORS "," WORDS, "ACG\0\0", "word 2 is not a k-mer"},
    {COUNTS "," VECTORS "," WORDS, "ACGT\0A", "word 2 is not a k-mer"},
    {COUNTS "," VECTORS "," WORDS, "A\0GTAA", "word 1 is not a k-mer"},
    {COUNTS "," VECTORS "," WORDS, "ACGT C", "word 2 is not a k-mer"},
    {COUNTS "," VECTORS "," WORDS, "ACGBZX", "word 2 is not a k-mer"},
    {COUNTS "," VECTORS "," WORDS, "ACGNNN", "1 of its words are not k-mers of dna"},
    {COUNTS "," VECTORS "," WORDS, "ACGacg", "ACG is listed twice, as words 1 and 2"},
    {COUNTS "," VECTORS "," WORDS "," META("\"alphabet\":\"dna\""), "ACGNNN",
     "word 2 is not a k-mer of dna"},
    {COUNTS "," VECTORS "," WORDS "," META("\"alphabet\":\"protein\""), "ACGUUU",
     "word 2 is not a k-mer of protein"},
    {COUNTS "," VECTORS "," WORDS "," META("\"alphabet\":\"rna\""), NULL,
     "its metadata say 'rna' for alphabet"},
    {COUNTS "," VECTORS "," WORDS "," META("\"canonical\":\"yes\""), NULL,
     "its metadata say 'yes' for canonical"},
    {COUNTS "," VECTORS "," WORDS "," META("\"canonical\":\"1\""), NULL,
     "the k-mers are canonical, but T is larger than its reverse complement"},
    {COUNTS "," VECTORS "," WORDS "," META("\"canonical\":\"1\",\"alphabet\":\"protein\""),
     NULL, "k-mers of protein cannot be canonical"},
    {COUNTS "," VECTORS "," WORDS "," META("\"kmerformer_vectors\":\"2\""), NULL,
     "its metadata say '2' for kmerformer_vectors"},
    {COUNTS "," VECTORS "," WORDS "," META("\"kmerformer\":\"[]\""), NULL, "provenance: "},
    {COUNTS "," VECTORS "," WORDS "," META("\"kmerformer\":\"\""), NULL, "provenance: "},
    {COUNTS "," VECTORS "," WORDS "," META("\"kmerformer\":1"), NULL, "texts only"},
    {COUNTS "," VECTORS, NULL, "6 bytes at its end belong to no tensor"},
};

START_TEST(each_kind_of_lie_in_safetensors_is_named)
{
    for (size_t i = 0; i < N_OF(tensor_lies); i++) {
        const struct tensor_lie *lie = &tensor_lies[i];
        unsigned char data[sizeof plain_data];
        memcpy(data, plain_data, sizeof data);
        if (lie->words)
            memcpy(data + 32, lie->words, 6);
        text t = tensors_of(lie->entries, data, sizeof data);
        must_fail(t.bytes, t.len, lie->says);
        free(t.bytes);
    }
    unsigned char data[sizeof plain_data];
    memcpy(data, plain_data, sizeof data);
    memset(data + 16 + 12, 0xff, 4);
    text t = tensors_of(COUNTS "," VECTORS "," WORDS, data, sizeof data);
    must_fail(t.bytes, t.len, "number 2 of the vector of T is not a number");
    for (size_t n = 0; n < t.len; n++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_vectors_parse(t.bytes, n, "f", &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    free(t.bytes);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, each_kind_of_lie_in_text_is_named);
    tcase_add_test(tcase, text_that_is_cut_is_refused);
    tcase_add_test(tcase, each_kind_of_lie_in_binary_is_named);
    tcase_add_test(tcase, counts_that_do_not_fit_are_refused);
    tcase_add_test(tcase, each_kind_of_lie_in_safetensors_is_named);
    return run_case("vectorlies", tcase);
}
