/* SPDX-License-Identifier: MIT */
/*
 * Second sources: files that PyTorch wrote beside the values it showed (scripts/torch_files.py),
 * and files put together by hand, whose numbers say where they are.
 */
#include "base/io.h"
#include "base/mem.h"
#include "model/torchfile.h"
#include "model/zip.h"
#include "run.h"

#include <zlib.h>
#include "torchfiles.h"

#include <stdio.h>

#define GOLDEN_TORCH "tests/golden/torch/"

static int parse(kmf_torchfile *t, bytes b, kmf_err *err)
{
    return kmf_torchfile_parse(t, b.at, b.n, "m.bin", err);
}

/* ---- what PyTorch writes ----------------------------------------------------------------- */

static bytes get(const char *name)
{
    char path[256];
    kmf_err err = {0};
    bytes b = {0};
    snprintf(path, sizeof path, GOLDEN_TORCH "%s", name);
    char *text = kmf_file_read(path, 1 << 20, &b.n, &err);
    ck_assert_msg(text != NULL, "%s", err.msg);
    b.at = malloc(b.n); /* of exactly its size */
    memcpy(b.at, text, b.n);
    kmf_free(text);
    return b;
}

static const char *const golden[] = {"zip", "legacy", "parameters", "nested"};

START_TEST(values_are_those_that_pytorch_showed)
{
    char name[64];
    kmf_err err = {0};
    kmf_torchfile t;
    kmf_safetensors st;
    snprintf(name, sizeof name, "%s.bin", golden[_i]);
    bytes b = get(name);
    snprintf(name, sizeof name, "%s.safetensors", golden[_i]);
    bytes want = get(name);
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(kmf_safetensors_parse(&st, want.at, want.n, name, &err), 0);
    ck_assert_uint_gt(st.n, 1);
    assert_same_tensors(t.tensors, t.n, st.tensors, st.n);
    kmf_torchfile_free(&t);
    kmf_torchfile_free(&t);
    kmf_safetensors_free(&st);
    free(b.at);
    free(want.at);
}
END_TEST

static bool is_inside(const kmf_stored *t, bytes b)
{
    return t->values >= b.at && t->values + t->bytes <= b.at + b.n;
}

START_TEST(row_major_tensors_are_used_where_they_lie)
{
    kmf_err err = {0};
    kmf_torchfile t;
    bytes b = get(golden[_i] == golden[0] ? "zip.bin" : "legacy.bin");
    size_t n_copied = 0;
    const unsigned char *whole = NULL;
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < t.n; i++) {
        n_copied += !is_inside(&t.tensors[i], b);
        if (strcmp(t.tensors[i].name, "whole") == 0)
            whole = t.tensors[i].values;
    }
    /* deep, expanded, half.transposed, whole.columns, .every_other, .transposed */
    ck_assert_uint_eq(n_copied, 6);
    for (size_t i = 0; i < t.n; i++) {
        if (strcmp(t.tensors[i].name, "whole.again") == 0)
            ck_assert_ptr_eq(t.tensors[i].values, whole);
        if (strcmp(t.tensors[i].name, "whole.rows") == 0)
            ck_assert_ptr_eq(t.tensors[i].values, whole + 2 * 4 * 4);
        if (strcmp(t.tensors[i].name, "whole.one") == 0)
            ck_assert_ptr_eq(t.tensors[i].values, whole + 23 * 4);
    }
    kmf_torchfile_free(&t);
    free(b.at);
}
END_TEST

/* So that a sanitizer sees a value that is not there. */
static unsigned touch(const kmf_torchfile *t)
{
    unsigned sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        sum += (unsigned)strlen(t->tensors[i].name);
        for (size_t j = 0; j < t->tensors[i].bytes; j++)
            sum += t->tensors[i].values[j];
    }
    return sum;
}

START_TEST(cut_anywhere_a_file_is_refused)
{
    char name[64];
    snprintf(name, sizeof name, "%s.bin", golden[_i]);
    bytes b = get(name);
    for (size_t n = 0; n < b.n; n++) {
        kmf_torchfile t;
        kmf_err err = {0};
        bytes cut = {malloc(n), n};
        memcpy(cut.at, b.at, n);
        ck_assert_msg(parse(&t, cut, &err) == KMF_EMODEL, "%zu of %zu bytes", n, b.n);
        ck_assert_msg(strncmp(err.msg, "m.bin: ", 7) == 0, "%s", err.msg);
        free(cut.at);
    }
    free(b.at);
}
END_TEST

START_TEST(with_any_byte_changed_a_file_is_read_or_refused)
{
    static const unsigned char masks[] = {0x01, 0x80, 0xff, 0x20};
    char name[64];
    unsigned sum = 0;
    snprintf(name, sizeof name, "%s.bin", golden[_i]);
    bytes b = get(name);
    for (size_t i = 0; i < b.n; i++)
        for (size_t m = 0; m < sizeof masks; m++) {
            kmf_torchfile t;
            kmf_err err = {0};
            b.at[i] ^= masks[m];
            int rc = parse(&t, b, &err);
            b.at[i] ^= masks[m];
            ck_assert_msg(rc == 0 ? err.code == KMF_OK : rc == KMF_EMODEL && err.msg[0],
                          "byte %zu: %s", i, err.msg);
            if (rc == 0) {
                sum += touch(&t);
                kmf_torchfile_free(&t);
            }
        }
    ck_assert_uint_gt(sum, 0);
    free(b.at);
}
END_TEST

START_TEST(memory_may_run_out_anywhere)
{
    char name[64];
    snprintf(name, sizeof name, "%s.bin", golden[_i]);
    bytes b = get(name);
    kmf_torchfile t;
    int rc = KMF_ENOMEM;
    size_t n = 0;
    while (rc != 0) {
        kmf_err err = {0};
        kmf_mem_fail_at(++n);
        rc = parse(&t, b, &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(rc == 0 || (rc == KMF_ENOMEM && err.code == KMF_ENOMEM), "%s", err.msg);
    }
    ck_assert_uint_gt(n, 8);
    kmf_torchfile_free(&t);
    free(b.at);
}
END_TEST

/* ---- by hand ----------------------------------------------------------------------------- */

/* Element i of a storage is i. */
static const unsigned char rising[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The bytes that a part of a storage of 16 bytes shows, in either layout; NULL if refused. */
static int try_part(kmf_torchfile *t, bytes *b, const part *p, bool legacy, kmf_err *err)
{
    member storage = {.name = "x/data/7", .data = rising, .n = 16};
    *b = (bytes){0};
    if (legacy) {
        add_legacy_head(b);
        add_state_dict(b, p, 1, true);
        ADD(b, "\x80\2](X\1\0\0\0007e.");
        add_number(b, (uint64_t)p->elements, 8);
        add(b, rising, 16);
    } else {
        *b = zip_of(p, 1, &storage, 1, false);
    }
    return parse(t, *b, err);
}

static const struct shown {
    part part;
    size_t n;
    unsigned char values[16];
} parts_shown[] = {
    {{"a", "ByteStorage", "7", 16, 3, 0, {0}, {0}}, 1, {3}},
    {{"a", "ByteStorage", "7", 16, 0, 2, {2, 3}, {3, 1}}, 6, {0, 1, 2, 3, 4, 5}},
    {{"a", "ByteStorage", "7", 16, 0, 2, {2, 3}, {1, 2}}, 6, {0, 2, 4, 1, 3, 5}},
    {{"a", "BoolStorage", "7", 16, 10, 2, {2, 3}, {3, 1}}, 6, {10, 11, 12, 13, 14, 15}},
    {{"a", "ByteStorage", "7", 16, 1, 2, {2, 3}, {8, 3}}, 6, {1, 4, 7, 9, 12, 15}},
    {{"a", "ByteStorage", "7", 16, 5, 2, {3, 2}, {0, 0}}, 6, {5, 5, 5, 5, 5, 5}},
    {{"a", "ShortStorage", "7", 8, 2, 2, {2, 2}, {1, 2}}, 8, {4, 5, 8, 9, 6, 7, 10, 11}},
    {{"a", "DoubleStorage", "7", 2, 1, 1, {1}, {1}}, 8, {8, 9, 10, 11, 12, 13, 14, 15}},
    /* the stride of a dimension of 1 does not matter */
    {{"a", "ByteStorage", "7", 16, 4, 2, {1, 2}, {INT64_MAX, 1}}, 2, {4, 5}},
    {{"a", "ByteStorage", "7", 16, 4, 3, {2, 1, 2}, {1, INT64_MAX, 5}}, 4, {4, 9, 5, 10}},
    /* nothing has no place */
    {{"a", "ByteStorage", "7", 16, 16, 2, {0, 5}, {99, 99}}, 0, {0}},
    {{"a", "IntStorage", "7", 4, 0, 4, {2, 2, 2, 2}, {0, 0, 1, 0}},
     64,
     {0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7}}, /* and the same again */
};

START_TEST(offset_and_strides_say_where_each_element_is)
{
    const struct shown *s = &parts_shown[_i / 2];
    kmf_torchfile t;
    kmf_err err = {0};
    bytes b;
    ck_assert_msg(try_part(&t, &b, &s->part, _i % 2, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(t.n, 1);
    ck_assert_str_eq(t.tensors[0].name, "a");
    ck_assert_int_eq(t.tensors[0].rank, s->part.rank);
    ck_assert_uint_eq(t.tensors[0].bytes, s->n);
    for (size_t i = 0; i < s->n; i++)
        ck_assert_msg(t.tensors[0].values[i] == s->values[i % 16], "%zu", i);
    kmf_torchfile_free(&t);
    free(b.at);
}
END_TEST

static const struct bad {
    part part;
    const char *says;
} bad_parts[] = {
    {{"a", "ByteStorage", "7", 16, 16, 0, {0}, {0}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 17, 1, {0}, {1}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 0, 1, {17}, {1}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 1, 2, {2, 3}, {9, 3}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 0, 1, {2}, {INT64_MAX}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 0, 1, {4}, {INT64_MAX}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, 2, 3, {2, 2, 2}, {INT64_MAX, INT64_MAX, 1}},
     "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, INT64_MAX, 1, {1}, {1}}, "reaches beyond its storage"},
    {{"a", "ByteStorage", "7", 16, -1, 1, {1}, {1}}, "no offset, shape and strides"},
    {{"a", "ByteStorage", "7", 16, 0, 1, {-1}, {1}}, "dimension or stride that is no size"},
    {{"a", "ByteStorage", "7", 16, 9, 1, {2}, {-1}}, "dimension or stride that is no size"},
    {{"a", "ByteStorage", "7", 16, 0, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {0}},
     "too many dimensions"},
    {{"a", "ByteStorage", "7", 16, 0, 2, {INT64_MAX, 4}, {0, 0}}, "its shape is too large"},
    {{"a", "DoubleStorage", "7", 2, 0, 1, {INT64_MAX}, {0}}, "its shape is too large"},
    {{"a", "ByteStorage", "7", 16, 0, 2, {1000000, 16}, {0, 1}}, "would take too much memory"},
    {{"a", "ByteStorage", "7", -16, 0, 1, {1}, {1}}, "without class, key or length"},
    {{"a", "ByteStorage", "", 16, 0, 1, {1}, {1}}, "a storage whose key is"},
    {{"\a\033[1m", "ByteStorage", "7", 16, 16, 0, {0}, {0}}, "tensor ??[1m: damaged"},
};

START_TEST(a_tensor_that_cannot_be_is_refused)
{
    const struct bad *bad = &bad_parts[_i / 2];
    kmf_torchfile t;
    kmf_err err = {0};
    bytes b;
    ck_assert_int_eq(try_part(&t, &b, &bad->part, _i % 2, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, bad->says), "'%s' does not say '%s'", err.msg, bad->says);
    ck_assert_ptr_null(t.tensors);
    free(b.at);
}
END_TEST

START_TEST(views_may_not_take_more_memory_together_than_the_file_allows)
{
    kmf_torchfile t;
    kmf_err err = {0};
    part parts[64];
    char names[64][8];
    bytes zeros = {calloc(1 << 20, 1), 1 << 20};
    member storage = {.name = "x/data/7", .data = zeros.at, .n = zeros.n};
    for (int i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "t%02u", (unsigned)i % 100);
        parts[i] = (part){names[i], "ByteStorage", "7", 1 << 20, 0, 2, {1024, 1024}, {1, 1024}};
    }
    bytes b = zip_of(parts, 4, &storage, 1, false);
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    kmf_torchfile_free(&t);
    free(b.at);
    b = zip_of(parts, 64, &storage, 1, false);
    ck_assert_int_eq(parse(&t, b, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "tensor t04: it and the other views"), "%s", err.msg);
    free(b.at);
    free(zeros.at);
}
END_TEST

/* ---- state dicts ------------------------------------------------------------------------- */

#define TENSOR                                                                   \
    "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nByteStorage\n" \
    "X\1\0\0\0007X\3\0\0\0cpuK\x10tQK\0K\1\x85K\1\x85\x89N"
#define DICT(literal) "\x80\2}" literal "."
#define BAD(literal, says)                 \
    {                                      \
        literal, sizeof(literal) - 1, says \
    }

static const struct bad_pickle {
    const char *text;
    size_t n;
    const char *says;
} bad_pickles[] = {
    BAD("\x80\2K\5.", "its pickle is of no dict"),
    BAD(DICT("K\5K\6s"), "a name that is no text"),
    BAD(DICT("X\1\0\0\0\0K\6s"), "a name that is no text"),
    BAD(DICT("X\1\0\0\0aK\6s"), "tensor a: is no tensor"),
    BAD(DICT("X\1\0\0\0aNs"), "tensor a: is no tensor"),
    BAD(DICT("X\1\0\0\0aK\6sX\1\0\0\0aK\6s"), "tensor a is there twice"),
    BAD(DICT("X\12\0\0\0state_dict}X\1\0\0\0aK\1ss"), "tensor a: is no tensor"),
    BAD(DICT("X\12\0\0\0state_dictK\1s"), "tensor state_dict: is no tensor"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_parameter\n)Rs"), "tensor a: is no tensor"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_parameter\nK\1\x85Rs"),
        "tensor a: is no tensor"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n)Rs"), "not told by 6 or 7 values"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n(NNNNNNtRs"), "has no storage"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n()QNNNNNtRs"),
        "not told by 5 or 6 values"),
    BAD(DICT("X\1\0\0\0actorch._utils\n_rebuild_tensor_v2\n((NNNNNtQNNNNNtRs"),
        "without class, key or length"),
    BAD(DICT("X\1\0\0\0a" TENSOR "}X\3\0\0\0neg\x88stRs"), "another's negative"),
    BAD(DICT("X\1\0\0\0a" TENSOR "NNtRs"), "not told by 6 or 7 values"),
};

/* Puts the pickle into an archive with storage 7. */
static int try_pickle(kmf_torchfile *t, const char *text, size_t n, kmf_err *err)
{
    member members[] = {{.name = "x/data.pkl", .data = text, .n = n},
                        {.name = "x/data/7", .data = rising, .n = 16}};
    bytes b = archive_of(members, 2, false);
    int rc = parse(t, b, err);
    if (rc == 0)
        ck_assert_uint_eq(touch(t), t->n); /* names of one letter, the value 0 */
    free(b.at);
    return rc;
}

START_TEST(a_pickle_of_anything_else_is_refused)
{
    const struct bad_pickle *bad = &bad_pickles[_i];
    kmf_torchfile t;
    kmf_err err = {0};
    ck_assert_int_eq(try_pickle(&t, bad->text, bad->n, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, bad->says), "'%s' does not say '%s'", err.msg, bad->says);
}
END_TEST

#define GOOD(literal, n)                \
    {                                   \
        literal, sizeof(literal) - 1, n \
    }

static const struct good_pickle {
    const char *text;
    size_t n;
    size_t n_tensors;
} good_pickles[] = {
    GOOD("\x80\2}.", 0),
    GOOD(DICT("X\1\0\0\0a" TENSOR "tRs"), 1),
    GOOD(DICT("X\1\0\0\0a" TENSOR "}tRs"), 1),
    GOOD(DICT("X\1\0\0\0a" TENSOR "NtRs"), 1),
    GOOD(DICT("X\1\0\0\0b" TENSOR "tRsX\1\0\0\0a" TENSOR "tRs"), 2),
    GOOD(DICT("X\5\0\0\0epochK\3sX\12\0\0\0state_dict}X\1\0\0\0a" TENSOR "tRss"), 1),
    GOOD(DICT("X\x10\0\0\0model_state_dict}X\1\0\0\0a" TENSOR "tRss"), 1),
    GOOD(DICT("X\1\0\0\0actorch._utils\n_rebuild_parameter\n(" TENSOR "tR\x88}tRs"), 1),
};

START_TEST(a_state_dict_may_lie_inside_another_dict)
{
    const struct good_pickle *good = &good_pickles[_i];
    kmf_torchfile t;
    kmf_err err = {0};
    ck_assert_msg(try_pickle(&t, good->text, good->n, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(t.n, good->n_tensors);
    kmf_torchfile_free(&t);
}
END_TEST

START_TEST(a_long_name_is_refused_and_does_not_fill_the_message)
{
    bytes b = {0};
    char name[600];
    kmf_torchfile t;
    kmf_err err = {0};
    memset(name, 'n', sizeof name);
    for (size_t n = 512; n <= 513; n++) {
        name[n] = '\0';
        b.n = 0;
        ADD(&b, "\x80\2}");
        add_text(&b, name);
        ADD(&b, "K\1s.");
        name[n] = 'n';
        err = (kmf_err){0};
        ck_assert_int_eq(try_pickle(&t, (const char *)b.at, b.n, &err), KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, n == 512 ? "is no tensor" : "a name that is no text"),
                      "%s", err.msg);
        ck_assert_uint_lt(strlen(err.msg), 160);
    }
    free(b.at);
}
END_TEST

/* ---- archives ---------------------------------------------------------------------------- */

static const part one_part = {"a", "ByteStorage", "7", 16, 0, 1, {16}, {1}};

START_TEST(sizes_and_offsets_may_be_of_64_bits)
{
    member storage = {.name = "x/data/7", .data = rising, .n = 16};
    kmf_torchfile t;
    kmf_err err = {0};
    bytes b = zip_of(&one_part, 1, &storage, 1, true);
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(memcmp(t.tensors[0].values, rising, 16), 0);
    kmf_torchfile_free(&t);
    for (size_t n = 0; n < b.n; n++) {
        bytes cut = {malloc(n), n};
        memcpy(cut.at, b.at, n);
        ck_assert_int_eq(parse(&t, cut, NULL), KMF_EMODEL);
        free(cut.at);
    }
    for (size_t i = 0; i < b.n; i++)
        for (int x = 1; x < 256; x++) {
            b.at[i] = (unsigned char)(b.at[i] ^ x);
            if (parse(&t, b, NULL) == 0) {
                (void)touch(&t);
                kmf_torchfile_free(&t);
            }
            b.at[i] = (unsigned char)(b.at[i] ^ x);
        }
    free(b.at);
}
END_TEST

/* Where a text lies in the file, the n-th time, counted from 0. */
static unsigned char *spot(bytes b, const char *text, size_t n)
{
    for (size_t i = 0; i + strlen(text) <= b.n; i++)
        if (memcmp(b.at + i, text, strlen(text)) == 0 && n-- == 0)
            return b.at + i;
    ck_abort_msg("no %s", text);
}

static void archive_refused(bytes b, const char *says)
{
    kmf_torchfile t;
    kmf_err err = {0};
    ck_assert_msg(parse(&t, b, &err) == KMF_EMODEL, "read, should say %s", says);
    ck_assert_msg(strstr(err.msg, says), "'%s' does not say '%s'", err.msg, says);
    free(b.at);
}

static bytes plain_zip(void)
{
    member storage = {.name = "x/data/7", .data = rising, .n = 16};
    return zip_of(&one_part, 1, &storage, 1, false);
}

START_TEST(an_archive_that_lies_is_refused)
{
    static const struct {
        const char *text; /* the n-th, of which a byte is changed */
        size_t n, at;
        unsigned char byte;
        const char *says;
    } cases[] = {
        {"PK\3\4", 1, 0, 'p', "entry x/data/7 is not where the ZIP directory says"},
        {"x/data/7", 0, 7, '8', "entry x/data/7 is not where the ZIP directory says"},
        {"x/data/7", 1, 7, '8', "no entry data/7"},
        {"x/data.pkl", 1, 6, '_', "a ZIP archive with 0 entries data.pkl"},
        {"PK\1\2", 1, 0, 'p', "damaged: entry 2 of its ZIP directory"},
        {"PK\1\2", 1, 20, 17, "entry x/data/7 is damaged: two lengths"},
        {"PK\1\2", 1, 24, 15,
         "entry data/7 is 15 bytes long, but holds 16 elements of 1 bytes"},
        {"PK\1\2", 1, 45, 1,
         "entry x/data/7 lies beyond the end of the file"}, /* its local header */
        {"PK\3\4", 1, 29, 0xff,
         "entry x/data/7 lies beyond the end of the file"}, /* its extra field */
        {"PK\5\6", 0, 10, 9, "its ZIP directory lies beyond its end"},
        {"PK\5\6", 0, 19, 1, "its ZIP directory lies beyond its end"},
        {"PK\5\6", 0, 20, 2, "has no directory at its end"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes b = plain_zip();
        spot(b, cases[i].text, cases[i].n)[cases[i].at] = cases[i].byte;
        archive_refused(b, cases[i].says);
    }
    bytes b = plain_zip();
    memset(spot(b, "PK\1\2", 1) + 42, 0xff, 4);
    archive_refused(b, "damaged: entry 2 of its ZIP directory");
}
END_TEST

/* A state dict with one storage, and another entry. */
static bytes zip_with(member storage, member other)
{
    member storages[2] = {storage, other};
    return zip_of(&one_part, 1, storages, 2, false);
}

START_TEST(what_else_an_archive_may_hold)
{
    kmf_torchfile t;
    kmf_err err = {0};
    member seven = {.name = "x/data/7", .data = rising, .n = 16};
    bytes b = zip_with(seven, (member){.name = "x/byteorder", .data = "little", .n = 6});
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    kmf_torchfile_free(&t);
    free(b.at);
    b = zip_with(seven, (member){.name = "x/other", .data = "abc", .n = 3, .method = 8});
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    kmf_torchfile_free(&t);
    free(b.at);
    archive_refused(zip_with(seven, (member){.name = "x/byteorder", .data = "big", .n = 3}),
                    "another byte order");
    archive_refused(zip_with(seven, (member){.name = "y/data.pkl", .data = "N.", .n = 2}),
                    "a ZIP archive with 2 entries data.pkl");
    archive_refused(zip_with(seven, seven), "a name twice in its ZIP directory");
    member eight = {.name = "x/data/8", .data = rising, .n = 16};
    seven.method = 8;
    archive_refused(zip_with(seven, eight), "entry x/data/7 is compressed or encrypted");
    seven.method = 0;
    seven.flags = 1;
    archive_refused(zip_with(seven, eight), "entry x/data/7 is compressed or encrypted");
}
END_TEST

START_TEST(the_folder_of_an_archive_may_have_any_name)
{
    static const char *const folders[] = {"", "archive/", "a.b/c d/"};
    char names[2][64];
    bytes pickle = {0};
    kmf_torchfile t;
    kmf_err err = {0};
    snprintf(names[0], sizeof names[0], "%sdata.pkl", folders[_i]);
    snprintf(names[1], sizeof names[1], "%sdata/7", folders[_i]);
    add_state_dict(&pickle, &one_part, 1, false);
    member members[] = {{.name = names[0], .data = pickle.at, .n = pickle.n},
                        {.name = names[1], .data = rising, .n = 16}};
    bytes b = archive_of(members, 2, false);
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    kmf_torchfile_free(&t);
    free(b.at);
    free(pickle.at);
}
END_TEST

/* A state dict of one tensor, with checksums. */
static bytes summed_archive(void)
{
    bytes pickle = {0};
    ADD(&pickle, DICT("X\1\0\0\0a" TENSOR "tRs"));
    member members[] = {{.name = "x/data.pkl", .data = pickle.at, .n = pickle.n},
                        {.name = "x/data/7", .data = rising, .n = 16},
                        {.name = "x/version", .data = "3\n", .n = 2}};
    for (size_t i = 0; i < 3; i++)
        members[i].checksum = (uint32_t)crc32(0, members[i].data, (uInt)members[i].n);
    bytes b = archive_of(members, 3, false);
    free(pickle.at);
    return b;
}

/* Each bit of these bytes of the archive, flipped, is told as damage of that entry. */
static void flip_all(bytes b, const void *at_all, size_t n, const char *entry)
{
    kmf_torchfile t;
    char want[64];
    size_t at = 0;
    while (memcmp(b.at + at, at_all, n) != 0)
        at++;
    snprintf(want, sizeof want, "the checksum of entry %s is wrong", entry);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        kmf_err err = {0};
        b.at[at + bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_int_eq(parse(&t, b, &err), KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, want), "%s", err.msg);
        b.at[at + bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

START_TEST(any_flipped_bit_is_found_by_the_checksum)
{
    static const char name[] = "ByteStorage\nX\1\0\0\0007";
    bytes b = summed_archive();
    kmf_torchfile t;
    kmf_err err = {0};
    ck_assert_msg(parse(&t, b, &err) == 0, "%s", err.msg);
    kmf_torchfile_free(&t);
    flip_all(b, rising, 16, "x/data/7");
    flip_all(b, name, sizeof name - 1, "x/data.pkl");
    free(b.at);
}
END_TEST

START_TEST(entries_of_an_archive_are_found_by_name)
{
    member members[] = {{.name = "b", .data = "two", .n = 3},
                        {.name = "", .data = "none", .n = 4},
                        {.name = "a", .data = "", .n = 0},
                        {.name = "bb", .data = "three", .n = 5}};
    bytes b = archive_of(members, 4, false);
    const unsigned char *data;
    kmf_zip zip;
    kmf_err err = {0};
    ck_assert(kmf_zip_begins(b.at, b.n) && !kmf_zip_begins(b.at, 29));
    ck_assert_msg(kmf_zip_open(&zip, b.at, b.n, "z", &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(zip.n, 4);
    for (size_t i = 0; i < 4; i++) {
        const kmf_zip_entry *e = kmf_zip_find(&zip, members[i].name);
        ck_assert_ptr_nonnull(e);
        ck_assert_int_eq(kmf_zip_data(&data, &zip, e, "z", &err), 0);
        ck_assert_uint_eq(e->len, members[i].n);
        ck_assert(memcmp(data, members[i].data, e->len) == 0);
    }
    ck_assert_ptr_null(kmf_zip_find(&zip, "bbb"));
    kmf_zip_free(&zip);
    kmf_zip_free(&zip);
    ck_assert_ptr_null(kmf_zip_find(&zip, "b"));
    free(b.at);
}
END_TEST

/* ---- the legacy layout ------------------------------------------------------------------- */

static const struct lie {
    const char *head; /* after the magic number, before the state dict */
    size_t n_head;
    const char *keys; /* the list */
    size_t n_keys;
    uint64_t elements;
    size_t n_bytes;
    const char *says; /* NULL: nothing is wrong */
} lies[] = {
#define HEAD "\x80\2M\xe9\3.\x80\2}X\15\0\0\0little_endian\x88s."
#define KEYS "\x80\2]X\1\0\0\0007a."
#define LIE(head, keys, elements, n_bytes, says)                                \
    {                                                                           \
        head, sizeof(head) - 1, keys, sizeof(keys) - 1, elements, n_bytes, says \
    }
    LIE(HEAD, KEYS, 16, 16, NULL),
    LIE("\x80\2M\xea\3.\x80\2}X\15\0\0\0little_endian\x88s.", KEYS, 16, 16,
        "not the version of PyTorch's format"),
    LIE("\x80\2N.\x80\2}X\15\0\0\0little_endian\x88s.", KEYS, 16, 16,
        "not the version of PyTorch's format"),
    LIE("\x80\2M\xe9\3.\x80\2}X\15\0\0\0little_endian\x89s.", KEYS, 16, 16,
        "another byte order"),
    LIE("\x80\2M\xe9\3.\x80\2}.", KEYS, 16, 16, "another byte order"),
    LIE("\x80\2M\xe9\3.\x80\2N.", KEYS, 16, 16, "another byte order"),
    LIE("\x80\2cos\nsystem\n.", KEYS, 16, 16, "byte 17: its pickle uses os.system"),
    LIE(HEAD, "\x80\2N.", 16, 16, "no list of storages"),
    LIE(HEAD, "\x80\2].", 16, 16, "24 bytes at its end belong to no storage"),
    LIE(HEAD, "\x80\2]NaN.", 16, 16, "does not end with one value"),
    LIE(HEAD, "\x80\2]Na.", 16, 16, "one twice or one of no tensor"),
    LIE(HEAD, "\x80\2]X\1\0\0\0008a.", 16, 16, "one twice or one of no tensor"),
    LIE(HEAD, "\x80\2](X\1\0\0\0007X\1\0\0\0007e.", 16, 16, "one twice or one of no tensor"),
    LIE(HEAD, KEYS, 15, 16, "a storage of 15 elements, must be 16"),
    LIE(HEAD, KEYS, UINT64_MAX, 16, "a storage of 18446744073709551615 elements"),
    LIE(HEAD, KEYS, 16, 15, "15 bytes are left for a storage of 16 elements"),
    LIE(HEAD, KEYS, 16, 17, "1 bytes at its end belong to no storage"),
};

START_TEST(a_legacy_file_that_lies_is_refused)
{
    const struct lie *lie = &lies[_i];
    bytes b = {0};
    unsigned char data[17] = {0};
    kmf_torchfile t;
    kmf_err err = {0};
    ADD(&b, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    add(&b, lie->head, lie->n_head);
    add_state_dict(&b, &one_part, 1, true);
    add(&b, lie->keys, lie->n_keys);
    add_number(&b, lie->elements, 8);
    add(&b, data, lie->n_bytes);
    int rc = parse(&t, b, &err);
    if (lie->says) {
        ck_assert_int_eq(rc, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, lie->says), "'%s' does not say '%s'", err.msg, lie->says);
    } else {
        ck_assert_msg(rc == 0, "%s", err.msg);
        kmf_torchfile_free(&t);
    }
    free(b.at);
}
END_TEST

/* Two tensors, then a list of the storages named. */
static void two_parts(const part *parts, const char *keys, size_t n_keys, const char *says)
{
    bytes b = {0};
    add_legacy_head(&b);
    add_state_dict(&b, parts, 2, true);
    add(&b, keys, n_keys);
    add_number(&b, 16, 8);
    add(&b, rising, 16);
    archive_refused(b, says);
}

START_TEST(storages_of_a_legacy_file_are_of_one_kind_and_all_there)
{
    part parts[] = {one_part, one_part};
    parts[1].name = "b";
    parts[1].type = "CharStorage";
    two_parts(parts, KEYS, sizeof KEYS - 1, "a storage of two types or lengths");
    parts[1].type = "ByteStorage";
    parts[1].elements = 17;
    two_parts(parts, KEYS, sizeof KEYS - 1, "a storage of two types or lengths");
    parts[1].key = "8";
    two_parts(parts, KEYS, sizeof KEYS - 1, "a storage is not in its list of them");
    parts[1].elements = INT64_MAX;
    parts[1].type = "LongStorage";
    parts[1].key = "6";
    two_parts(parts, KEYS, sizeof KEYS - 1, "a storage is not in its list of them");
    static const char both[] = "\x80\2](X\1\0\0\0007X\1\0\0\0006e.";
    two_parts(parts, both, sizeof both - 1, "cut off: storages are missing");
}
END_TEST

START_TEST(a_storage_that_is_a_view_is_refused)
{
    bytes b = {0};
    add_legacy_head(&b);
    add_state_dict(&b, &one_part, 1, true);
    unsigned char *none = spot(b, "NtQ", 0);
    none[0] = ')';
    archive_refused(b, "a storage that is a view of another");
}
END_TEST

START_TEST(anything_else_is_no_checkpoint)
{
    static const char *const texts[] = {"", "PK", "\x80\2", "{\"a\": 1}, which is long enough"};
    for (size_t i = 0; i < 4; i++) {
        kmf_torchfile t;
        kmf_err err = {0};
        bytes b = {0};
        add(&b, texts[i], strlen(texts[i]));
        ck_assert(!kmf_torchfile_begins(b.at, b.n));
        ck_assert_int_eq(parse(&t, b, &err), KMF_EMODEL);
        ck_assert_str_eq(err.msg, "m.bin: begins like no checkpoint of PyTorch");
        free(b.at);
    }
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_loop_test(tc, values_are_those_that_pytorch_showed, 0, COUNT(golden));
    tcase_add_loop_test(tc, row_major_tensors_are_used_where_they_lie, 0, 2);
    tcase_add_loop_test(tc, cut_anywhere_a_file_is_refused, 0, COUNT(golden));
    tcase_add_loop_test(tc, with_any_byte_changed_a_file_is_read_or_refused, 0, COUNT(golden));
    tcase_add_loop_test(tc, memory_may_run_out_anywhere, 0, COUNT(golden));
    tcase_add_loop_test(tc, offset_and_strides_say_where_each_element_is, 0,
                        2 * COUNT(parts_shown));
    tcase_add_loop_test(tc, a_tensor_that_cannot_be_is_refused, 0, 2 * COUNT(bad_parts));
    tcase_add_test(tc, views_may_not_take_more_memory_together_than_the_file_allows);
    tcase_add_loop_test(tc, a_pickle_of_anything_else_is_refused, 0, COUNT(bad_pickles));
    tcase_add_loop_test(tc, a_state_dict_may_lie_inside_another_dict, 0, COUNT(good_pickles));
    tcase_add_test(tc, a_long_name_is_refused_and_does_not_fill_the_message);
    tcase_add_test(tc, sizes_and_offsets_may_be_of_64_bits);
    tcase_add_test(tc, an_archive_that_lies_is_refused);
    tcase_add_test(tc, what_else_an_archive_may_hold);
    tcase_add_loop_test(tc, the_folder_of_an_archive_may_have_any_name, 0, 3);
    tcase_add_test(tc, any_flipped_bit_is_found_by_the_checksum);
    tcase_add_test(tc, entries_of_an_archive_are_found_by_name);
    tcase_add_loop_test(tc, a_legacy_file_that_lies_is_refused, 0, COUNT(lies));
    tcase_add_test(tc, storages_of_a_legacy_file_are_of_one_kind_and_all_there);
    tcase_add_test(tc, a_storage_that_is_a_view_is_refused);
    tcase_add_test(tc, anything_else_is_no_checkpoint);
    return run_case("torchfile", tc);
}
