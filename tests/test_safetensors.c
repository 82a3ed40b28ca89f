/* SPDX-License-Identifier: MIT */
/*
 * Second sources: headers written out by hand, one per kind of lie; values computed by hand;
 * the golden checkpoint, whose offsets a Python program made.
 */
#include "base/io.h"
#include "base/json.h"
#include "failing.h"
#include "model/safetensors.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file with this header text and n bytes of data, all zero; freed by free. */
static unsigned char *file_of(const char *header, size_t n, size_t *len)
{
    size_t h = strlen(header);
    unsigned char *bytes = calloc(8 + h + n, 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(h >> 8 * i & 0xff);
    memcpy(bytes + 8, header, h);
    *len = 8 + h + n;
    return bytes;
}

static int parse(kmf_safetensors *st, const char *header, size_t n, kmf_err *err)
{
    size_t len;
    unsigned char *bytes = file_of(header, n, &len);
    int rc = kmf_safetensors_parse(st, bytes, len, "m.safetensors", err);
    free(bytes); /* names live in the header's own copy */
    return rc;
}

#define T(name, dtype, shape, offsets) \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(reads_names_shapes_and_places)
{
    kmf_safetensors st;
    kmf_err err = {0};
    const char *header =
        "{" T("b", "F32", "[2,3]", "[4,28]") "," T("a", "F16", "[2]", "[0,4]") "," T(
            "c", "I64", "[]",
            "[28,36]") "," T("empty", "U8", "[0,7]",
                             "[4,4]") ",\"__metadata__\":{\"format\":\"pt\"}}   ";
    ck_assert_int_eq(parse(&st, header, 36, &err), 0);
    ck_assert_uint_eq(st.n, 4);
    const kmf_stored *b = kmf_safetensors_find(&st, "b");
    ck_assert_str_eq(b->dtype, "F32");
    ck_assert_int_eq(b->rank, 2);
    ck_assert_uint_eq(b->shape[0], 2);
    ck_assert_uint_eq(b->shape[1], 3);
    ck_assert_uint_eq(b->n, 6);
    ck_assert_uint_eq(b->begin, 4);
    ck_assert_uint_eq(b->bytes, 24);
    ck_assert_ptr_eq(b->values, st.data + 4);
    ck_assert_int_eq(kmf_stored_dtype(b), KMF_F32);
    const kmf_stored *c = kmf_safetensors_find(&st, "c");
    ck_assert_int_eq(c->rank, 0);
    ck_assert_uint_eq(c->n, 1);
    ck_assert_int_eq(kmf_stored_dtype(c), -1);
    ck_assert_ptr_null(kmf_safetensors_find(&st, "d"));
    ck_assert_ptr_null(kmf_safetensors_find(&st, "__metadata__"));
    kmf_safetensors_free(&st);
    kmf_safetensors_free(&st);
}
END_TEST

START_TEST(a_file_without_tensors_is_read)
{
    kmf_safetensors st;
    kmf_err err = {0};
    ck_assert_int_eq(parse(&st, "{}", 0, &err), 0);
    ck_assert_uint_eq(st.n, 0);
    ck_assert_ptr_null(kmf_safetensors_find(&st, "a"));
    kmf_safetensors_free(&st);
}
END_TEST

static const struct lie {
    const char *header;
    size_t data;
    const char *says;
} lies[] = {
    {"", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"{", 0, "not the JSON expected"},
    {"{} x", 0, "not the JSON expected"},
    {"{\"a\":1e999}", 0, "not the JSON expected"},
    {"{\"a\":\"\\u0000\"}", 0, "not the JSON expected"},
    {"{\"a\":\"\xff\"}", 0, "not the JSON expected"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[0,4]") "}", 4, "duplicate"},
    {"{\"a\":7}", 0, "tensor a: must be a JSON object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a: no dtype"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a: no dtype"},
    {"{" T("a", "F4", "[1]", "[0,4]") "}", 4, "tensor a: unknown dtype F4"},
    {"{" T("a", "F32\\u001b[2J", "[1]", "[0,4]") "}", 4, "unknown dtype F32?[2J"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor a: no shape"},
    {"{" T("a", "F32", "1", "[0,4]") "}", 4, "tensor a: no shape"},
    {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "9 dimensions"},
    {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "not negative"},
    {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "whole numbers"},
    {"{" T("a", "F32", "[\"1\"]", "[0,4]") "}", 4, "whole numbers"},
    {"{" T("a", "F32", "[99999999999999999999]", "[0,4]") "}", 4, "not the JSON expected"},
    {"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "shape is too large"},
    {"{" T("a", "F32", "[4611686018427387905]", "[0,4]") "}", 4, "shape is too large"},
    {"{" T("a", "F64", "[0,4294967296,4294967296,8]", "[0,4]") "}", 4, "bytes for a shape"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no pair of data_offsets"},
    {"{" T("a", "F32", "[1]", "[0]") "}", 4, "no pair of data_offsets"},
    {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "no pair of data_offsets"},
    {"{" T("a", "F32", "[1]", "[0.0,4]") "}", 4, "whole numbers"},
    {"{" T("a", "F32", "[1]", "[-4,0]") "}", 4, "not negative"},
    {"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "data_offsets 4 to 0"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 3, "the file holds 3 bytes"},
    {"{" T("a", "F32", "[1]", "[9223372036854775804,9223372036854775807]") "}", 4,
     "holds 4 bytes"},
    {"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "4 bytes for a shape that needs 8"},
    {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8,
     "tensor b: its data overlaps"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[0,4]") "}", 4, "overlaps"},
    {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[5,9]") "}", 9,
     "tensor b: 1 bytes before its data"},
    {"{" T("a", "F32", "[1]", "[2,6]") "}", 6, "tensor a: 2 bytes before its data"},
    {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "1 bytes at its end"},
    {"{}", 1, "1 bytes at its end"},
    {"{\"__metadata__\":3}", 0, "__metadata__ must hold texts"},
    {"{\"__metadata__\":{\"a\":[]}}", 0, "__metadata__ must hold texts"},
};

START_TEST(each_kind_of_lie_is_named)
{
    const struct lie *lie = &lies[_i];
    kmf_safetensors st;
    kmf_err err = {0};
    ck_assert_int_eq(parse(&st, lie->header, lie->data, &err), KMF_EMODEL);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, lie->says), "'%s' does not say '%s'", err.msg, lie->says);
    ck_assert_msg(strncmp(err.msg, "m.safetensors: ", 15) == 0, "%s", err.msg);
    ck_assert_ptr_null(st.tensors);
    ck_assert_ptr_null(st.header);
}
END_TEST

START_TEST(a_header_length_is_held_against_the_file)
{
    kmf_safetensors st;
    unsigned char bytes[16] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}', ' '};
    for (size_t len = 0; len < 11; len++) {
        kmf_err err = {0};
        ck_assert_int_eq(kmf_safetensors_parse(&st, bytes, len, "m", &err), KMF_EMODEL);
        ck_assert_ptr_nonnull(strstr(err.msg, len < 8 ? "too short" : "cut off"));
    }
    for (int i = 3; i < 8; i++) {
        kmf_err err = {0};
        bytes[i] = 0x80;
        ck_assert_int_eq(kmf_safetensors_parse(&st, bytes, 11, "m", &err), KMF_EMODEL);
        ck_assert_ptr_nonnull(strstr(err.msg, "its header would be"));
        bytes[i] = 0;
    }
    ck_assert_int_eq(kmf_safetensors_parse(&st, bytes, 11, "m", NULL), 0);
    kmf_safetensors_free(&st);
}
END_TEST

START_TEST(a_long_or_odd_name_does_not_reach_the_message_whole)
{
    char header[4096];
    char name[1001];
    kmf_safetensors st;
    kmf_err err = {0};
    memset(name, 'n', 1000);
    name[1000] = '\0';
    snprintf(header, sizeof header, "{\"%s\":{}}", name);
    ck_assert_int_eq(parse(&st, header, 0, &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "longer than"));
    ck_assert_uint_lt(strlen(err.msg), 200);
    err = (kmf_err){0};
    ck_assert_int_eq(parse(&st, "{\"a\\nb\\u001b\":{}}", 0, &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "tensor a?b?: no dtype"));
}
END_TEST

START_TEST(deep_nesting_is_refused_without_recursion)
{
    size_t depth = 1000000;
    char *header = calloc(depth + 16, 1);
    kmf_safetensors st;
    kmf_err err = {0};
    strcpy(header, "{\"a\":");
    memset(header + 5, '[', depth);
    ck_assert_int_eq(parse(&st, header, 0, &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "nested deeper"));
    free(header);
}
END_TEST

START_TEST(more_lists_than_memory_is_for_are_refused)
{
    size_t n = 200001;
    char *header = calloc(3 * n + 16, 1);
    kmf_safetensors st;
    kmf_err err = {0};
    char *at = header + sprintf(header, "{\"a\":[");
    for (size_t i = 0; i < n; i++, at += 3)
        memcpy(at, "[],", 3);
    ck_assert_int_eq(parse(&st, header, 0, &err), KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 200000 objects and lists"));
    free(header);
}
END_TEST

START_TEST(stored_values_widen_to_what_their_bits_say)
{
    const unsigned char f16[] = {0x00, 0x3c, 0x01, 0x00, 0x00, 0xc0}; /* 1, 2^-24, -2 */
    const unsigned char bf16[] = {0x80, 0x3f, 0x00, 0xc0};            /* 1, -2 */
    const unsigned char f32[] = {0, 0, 0x80, 0x3f, 0, 0, 0x00, 0xc0}; /* 1, -2 */
    const unsigned char f64[] = {0,    0,    0,    0,    0,    0,    0xf0, 0x3f,  /* 1 */
                                 0x9a, 0x99, 0x99, 0x99, 0x99, 0x99, 0xb9, 0x3f,  /* 0.1 */
                                 0,    0,    0,    0,    0,    0,    0xf0, 0x7e}; /* 2^1008 */
    float x[3];
    kmf_stored_to_f32(x, f16, KMF_F16, 3);
    ck_assert(x[0] == 1.0f && x[1] == 0x1p-24f && x[2] == -2.0f);
    kmf_stored_to_f32(x, bf16, KMF_BF16, 2);
    ck_assert(x[0] == 1.0f && x[1] == -2.0f);
    kmf_stored_to_f32(x, f32, KMF_F32, 2);
    ck_assert(x[0] == 1.0f && x[1] == -2.0f);
    kmf_stored_to_f32(x, f64, KMF_F64, 3);
    ck_assert(x[0] == 1.0f && x[1] == 0.1f && isinf(x[2]));
    const unsigned char i8[] = {0x7f, 0xff, 0x80}; /* 127, -1, -128 */
    kmf_stored_to_f32(x, i8, KMF_I8, 3);
    ck_assert(x[0] == 127.0f && x[1] == -1.0f && x[2] == -128.0f);
}
END_TEST

static const float some_values[] = {1.0f, -2.5f, 0.0f, 65504.0f, 0x1p-24f, -0.125f};

/* Writes a [2, 2] and a [2] to a file, returns its bytes; freed by kmf_free. */
static char *written(kmf_dtype dtype, size_t *len)
{
    char path[] = "/tmp/kmf_test_XXXXXX";
    char name[64];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(name, sizeof name, "%s", path);
    kmf_err err = {0};
    const char *as = kmf_stored_name(dtype);
    kmf_stored tensors[2] = {{.name = "first", .dtype = as, .rank = 2, .shape = {2, 2}},
                             {.name = "second", .dtype = as, .rank = 1, .shape = {2}}};
    const void *values[2] = {some_values, some_values + 4};
    kmf_out *out = kmf_out_open(name, &err);
    ck_assert_ptr_nonnull(out);
    int rc = kmf_safetensors_write(out, tensors, values, 2, NULL, 0, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(kmf_out_finish(out, &err), 0);
    ck_assert_int_eq(kmf_out_publish(out, &err), 0);
    kmf_out_free(out);
    char *bytes = kmf_file_read(name, 1 << 20, len, &err);
    unlink(name);
    ck_assert_ptr_nonnull(bytes);
    return bytes;
}

START_TEST(what_is_written_reads_back)
{
    static const kmf_dtype dtypes[] = {KMF_F32, KMF_F16, KMF_BF16};
    kmf_dtype dtype = dtypes[_i];
    size_t len;
    kmf_safetensors st;
    kmf_err err = {0};
    float x[6];
    char *bytes = written(dtype, &len);
    ck_assert_int_eq(kmf_safetensors_parse(&st, (unsigned char *)bytes, len, "m", &err), 0);
    ck_assert_uint_eq(st.n, 2);
    ck_assert_uint_eq((size_t)(st.data - (unsigned char *)bytes) % 64, 0);
    ck_assert_int_eq(kmf_stored_dtype(&st.tensors[0]), dtype);
    ck_assert_uint_eq(st.tensors[1].begin, dtype == KMF_F32 ? 16 : 8);
    kmf_stored_to_f32(x, st.data, dtype, 6);
    for (int i = 0; i < 6; i++) {
        bool rounded = dtype == KMF_BF16 && i == 3; /* 65504 has 11 bits, bfloat16 8 */
        ck_assert_msg(x[i] == (rounded ? 65536.0f : some_values[i]), "value %d", i);
    }
    kmf_safetensors_free(&st);
    kmf_free(bytes);
}
END_TEST

START_TEST(the_header_has_the_form_that_others_write)
{
    size_t len;
    char *bytes = written(KMF_F32, &len);
    const char *want = "{\"__metadata__\":{\"format\":\"pt\"}," T(
        "first", "F32", "[2,2]", "[0,16]") "," T("second", "F32", "[2]", "[16,24]") "}";
    ck_assert_msg(strncmp(bytes + 8, want, strlen(want)) == 0, "%s", bytes + 8);
    kmf_free(bytes);
}
END_TEST

START_TEST(a_value_too_large_for_the_dtype_is_an_error)
{
    const float huge[2] = {1.0f, 70000.0f};
    const void *values[1] = {huge};
    kmf_stored tensor = {.name = "w", .dtype = "F16", .rank = 1, .shape = {2}};
    kmf_err err = {0};
    kmf_out *out = kmf_out_open("/dev/null", &err);
    ck_assert_ptr_nonnull(out);
    int rc = kmf_safetensors_write(out, &tensor, values, 1, NULL, 0, &err);
    ck_assert_int_eq(rc, KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "tensor w: 70000 is too large for F16");
    tensor.dtype = "BF16";
    ck_assert_int_eq(kmf_safetensors_write(out, &tensor, values, 1, NULL, 0, NULL), 0);
    kmf_out_free(out);
}
END_TEST

START_TEST(a_text_that_is_not_utf8_is_refused_by_its_key)
{
    const float x[1] = {1.0f};
    const void *values[1] = {x};
    const char *const pairs[] = {"good", "\xc3\xa9", "vocab.txt", "[UNK]\n[\xff]\n"};
    kmf_stored tensor = {.name = "w", .dtype = "F32", .rank = 1, .shape = {1}};
    kmf_err err = {0};
    kmf_out *out = kmf_out_open("/dev/null", &err);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_safetensors_write(out, &tensor, values, 1, pairs, 1, &err), 0);
    int rc = kmf_safetensors_write(out, &tensor, values, 1, pairs, 2, &err);
    ck_assert_int_eq(rc, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "vocab.txt: not UTF-8, as the texts of safetensors must be");
    kmf_out_free(out);
}
END_TEST

START_TEST(every_cut_and_every_flipped_header_bit_of_a_good_file_is_survived)
{
    size_t len;
    kmf_safetensors st;
    char *bytes = written(KMF_F32, &len);
    unsigned char *copy = malloc(len);
    ck_assert_ptr_nonnull(copy);
    for (size_t n = 0; n < len; n++) {
        unsigned char *exact = malloc(n ? n : 1);
        memcpy(exact, bytes, n);
        ck_assert_int_eq(kmf_safetensors_parse(&st, exact, n, "m", NULL), KMF_EMODEL);
        free(exact);
    }
    for (size_t bit = 0; bit < 8 * (len - 24); bit++) {
        memcpy(copy, bytes, len);
        copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (kmf_safetensors_parse(&st, copy, len, "m", NULL) == 0)
            kmf_safetensors_free(&st);
    }
    free(copy);
    kmf_free(bytes);
}
END_TEST

/* The parse with the n-th allocation failing, for every n. */
static void starve(const char *bytes, size_t len, bool jansson_too)
{
    int rc = KMF_ENOMEM;
    for (size_t n = 1; rc != 0; n++) {
        kmf_safetensors st;
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        rc = kmf_safetensors_parse(&st, (const unsigned char *)bytes, len, "m", &err);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(rc, (int)err.code);
        if (rc == 0)
            kmf_safetensors_free(&st);
        else if (!jansson_too)
            ck_assert_int_eq(rc, KMF_ENOMEM);
        ck_assert_uint_lt(n, 1000);
    }
}

/* jansson takes some failures of its own for bad syntax: there only a failure is asked for. */
START_TEST(running_out_of_memory_anywhere_is_reported_and_leaks_nothing)
{
    size_t len;
    char *bytes = written(KMF_F32, &len);
    starve(bytes, len, false);
    json_set_alloc_funcs(counted_malloc, kmf_free);
    starve(bytes, len, true);
    json_set_alloc_funcs(malloc, free);
    kmf_free(bytes);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, reads_names_shapes_and_places);
    tcase_add_test(tc, a_file_without_tensors_is_read);
    tcase_add_loop_test(tc, each_kind_of_lie_is_named, 0, (int)(sizeof lies / sizeof lies[0]));
    tcase_add_test(tc, a_header_length_is_held_against_the_file);
    tcase_add_test(tc, a_long_or_odd_name_does_not_reach_the_message_whole);
    tcase_add_test(tc, deep_nesting_is_refused_without_recursion);
    tcase_add_test(tc, more_lists_than_memory_is_for_are_refused);
    tcase_add_test(tc, stored_values_widen_to_what_their_bits_say);
    tcase_add_loop_test(tc, what_is_written_reads_back, 0, 3);
    tcase_add_test(tc, the_header_has_the_form_that_others_write);
    tcase_add_test(tc, a_value_too_large_for_the_dtype_is_an_error);
    tcase_add_test(tc, a_text_that_is_not_utf8_is_refused_by_its_key);
    tcase_add_test(tc, every_cut_and_every_flipped_header_bit_of_a_good_file_is_survived);
    tcase_add_test(tc, running_out_of_memory_anywhere_is_reported_and_leaks_nothing);
    return run_case("safetensors", tc);
}
