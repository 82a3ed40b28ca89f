/* SPDX-License-Identifier: MIT */
/*
 * Second sources: pickles written out by hand from the description in Python's pickletools, one for
 * each operation and for each kind of lie. What PyTorch writes: test_torchfile.c.
 */
#include "base/mem.h"
#include "model/pickle.h"
#include "run.h"
#include "torchfiles.h"

#include <stdio.h>

static int read_bytes(kmf_pickle *p, const void *at, size_t n, kmf_err *err)
{
    return kmf_pickle_read(p, at, 0, n, "m.bin", err);
}

#define READ(p, literal, err) read_bytes(p, literal, sizeof(literal) - 1, err)

static const struct number {
    const char *text;
    size_t n;
    int64_t value;
} numbers[] = {
#define NUMBER(literal, value)              \
    {                                       \
        literal, sizeof(literal) - 1, value \
    }
    NUMBER("\x80\2K\0.", 0),
    NUMBER("\x80\2K\xff.", 255),
    NUMBER("\x80\2M\xff\xff.", 65535),
    NUMBER("\x80\2J\1\2\3\4.", 0x04030201),
    NUMBER("\x80\2J\xff\xff\xff\xff.", -1),
    NUMBER("\x80\2J\0\0\0\x80.", INT32_MIN),
    NUMBER("\x80\2\x8a\0.", 0),
    NUMBER("\x80\2\x8a\1\x7f.", 127),
    NUMBER("\x80\2\x8a\1\x80.", -128),
    NUMBER("\x80\2\x8a\5\0\0\0\0\1.", INT64_C(1) << 32),
    NUMBER("\x80\2\x8a\5\xff\xff\xff\xff\xff.", -1),
    NUMBER("\x80\2\x8a\x8\xff\xff\xff\xff\xff\xff\xff\x7f.", INT64_MAX),
    NUMBER("\x80\2\x8a\x8\0\0\0\0\0\0\0\x80.", INT64_MIN),
};

START_TEST(numbers_of_every_length_keep_their_sign)
{
    const struct number *t = &numbers[_i];
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(read_bytes(&p, t->text, t->n, &err) == 0, "%s", err.msg);
    const kmf_pickled *v = kmf_pickle_get(&p, p.top, KMF_PICKLED_INT);
    ck_assert_ptr_nonnull(v);
    ck_assert_msg(v->as.number == t->value, "%lld", (long long)v->as.number);
    ck_assert_uint_eq(p.end, t->n);
    kmf_pickle_free(&p);
}
END_TEST

START_TEST(a_tuple_holds_values_of_every_kind)
{
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(READ(&p,
                       "\x80\2(N\x88\x89\x8a\xa\0\0\0\0\0\0\0\0\0\1G\x3f\xf8\0\0\0\0\0\0"
                       "X\2\0\0\0abq\5)]K\7ah\5\x85t.",
                       &err) == 0,
                  "%s", err.msg);
    static const kmf_pickled_kind kinds[] = {
        KMF_PICKLED_NONE,  KMF_PICKLED_BOOL,  KMF_PICKLED_BOOL,
        KMF_PICKLED_LONG,  KMF_PICKLED_FLOAT, KMF_PICKLED_TEXT,
        KMF_PICKLED_TUPLE, KMF_PICKLED_LIST,  KMF_PICKLED_TUPLE};
    const kmf_pickled *t = kmf_pickle_get(&p, p.top, KMF_PICKLED_TUPLE);
    ck_assert_ptr_nonnull(t);
    ck_assert_uint_eq(t->n, 9);
    for (size_t i = 0; i < 9; i++)
        ck_assert_ptr_nonnull(kmf_pickle_get(&p, kmf_pickle_item(&p, t, i), kinds[i]));
    ck_assert_int_eq(p.values[kmf_pickle_item(&p, t, 1)].as.number, 1);
    ck_assert_int_eq(p.values[kmf_pickle_item(&p, t, 2)].as.number, 0);
    ck_assert_uint_eq(p.values[kmf_pickle_item(&p, t, 3)].n, 10);
    ck_assert(kmf_pickle_is_text(&p, kmf_pickle_item(&p, t, 5), "ab"));
    ck_assert(!kmf_pickle_is_text(&p, kmf_pickle_item(&p, t, 5), "abc"));
    ck_assert(!kmf_pickle_is_text(&p, kmf_pickle_item(&p, t, 6), ""));
    const kmf_pickled *one = kmf_pickle_get(&p, kmf_pickle_item(&p, t, 8), KMF_PICKLED_TUPLE);
    ck_assert(kmf_pickle_item(&p, one, 0) == kmf_pickle_item(&p, t, 5));
    kmf_pickle_free(&p);
    kmf_pickle_free(&p);
}
END_TEST

START_TEST(the_memo_goes_by_its_numbers)
{
    kmf_pickle p;
    kmf_err err = {0};
    /* 5 as number 6, 7 as number 0, then number 6 alone; number 0 anew before it is used */
    ck_assert_msg(READ(&p, "\x80\2(K\5r\6\0\0\0K\7q\0K\x9q\0h\0j\6\0\0\0t.", &err) == 0, "%s",
                  err.msg);
    const kmf_pickled *t = kmf_pickle_get(&p, p.top, KMF_PICKLED_TUPLE);
    static const int64_t want[] = {5, 7, 9, 9, 5};
    ck_assert_uint_eq(t->n, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(p.values[kmf_pickle_item(&p, t, i)].as.number, want[i]);
    kmf_pickle_free(&p);
}
END_TEST

START_TEST(lists_and_dicts_are_filled_one_by_one_or_at_once)
{
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(READ(&p, "\x80\2](K\1K\2eK\3a(e.", &err) == 0, "%s", err.msg);
    const kmf_pickled *list = kmf_pickle_get(&p, p.top, KMF_PICKLED_LIST);
    ck_assert_uint_eq(list->n, 3);
    uint32_t next = list->as.list.first;
    for (int64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(p.values[p.cells[next].value].as.number, i);
        next = p.cells[next].next;
    }
    kmf_pickle_free(&p);
    /* the key a twice; attributes set on it, which do nothing */
    ck_assert_msg(READ(&p,
                       "\x80\2"
                       "ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1X\1\0\0\0bK\2uX\1\0\0\0aK\3s"
                       "}X\1\0\0\0cK\4sb.",
                       &err) == 0,
                  "%s", err.msg);
    const kmf_pickled *dict = kmf_pickle_get(&p, p.top, KMF_PICKLED_DICT);
    ck_assert_uint_eq(dict->n, 3);
    ck_assert_int_eq(kmf_pickle_find(&p, dict, "a")->as.number, 3);
    ck_assert_int_eq(kmf_pickle_find(&p, dict, "b")->as.number, 2);
    ck_assert_ptr_null(kmf_pickle_find(&p, dict, "c"));
    kmf_pickle_free(&p);
    ck_assert_int_eq(READ(&p, "\x80\2}.", &err), 0);
    ck_assert_ptr_null(kmf_pickle_find(&p, &p.values[p.top], "a"));
    kmf_pickle_free(&p);
}
END_TEST

START_TEST(calls_and_persistent_ids_are_kept_as_what_they_are)
{
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(READ(&p,
                       "\x80\2"
                       "ctorch._utils\n_rebuild_parameter\nctorch\nHalfStorage\n\x85QK\1\x86R.",
                       &err) == 0,
                  "%s", err.msg);
    const kmf_pickled *call = kmf_pickle_get(&p, p.top, KMF_PICKLED_CALL);
    ck_assert_ptr_nonnull(call);
    ck_assert_uint_eq(call->as.call.name, KMF_NAME_PARAMETER);
    const kmf_pickled *args = kmf_pickle_get(&p, call->as.call.arguments, KMF_PICKLED_TUPLE);
    ck_assert_uint_eq(args->n, 2);
    const kmf_pickled *id =
        kmf_pickle_get(&p, kmf_pickle_item(&p, args, 0), KMF_PICKLED_PERSISTENT);
    const kmf_pickled *tuple = kmf_pickle_get(&p, id->as.call.arguments, KMF_PICKLED_TUPLE);
    ck_assert_str_eq(kmf_pickle_storage(&p, kmf_pickle_item(&p, tuple, 0)), "F16");
    ck_assert_ptr_null(kmf_pickle_storage(&p, kmf_pickle_item(&p, args, 1)));
    kmf_pickle_free(&p);
}
END_TEST

#define LIE(literal, says)                 \
    {                                      \
        literal, sizeof(literal) - 1, says \
    }

static const struct lie {
    const char *text;
    size_t n;
    const char *says;
} lies[] = {
    LIE("", "cut off in the pickle that begins at byte 0"),
    LIE("K\5.", "byte 0: damaged pickle: it does not begin as one"),
    LIE("\x80\4K\5.", "a pickle of protocol 4"),
    LIE("\x80\2.", "byte 2: damaged pickle: it does not end with one value"),
    LIE("\x80\2(.", "does not end with one value"),
    LIE("\x80\2NN.", "does not end with one value"),
    LIE("\x80\2K\1", "cut off"),
    LIE("\x80\2J\1\2\3", "cut off"),
    LIE("\x80\2\x8a\xff\1", "cut off"),
    LIE("\x80\2X\xff\xff\xff\xff"
        "a.",
        "cut off"),
    LIE("\x80\2\x85.", "more is taken from its stack than is there"),
    LIE("\x80\2NN\x87.", "more is taken"),
    LIE("\x80\2(\x85.", "a mark in a tuple"),
    LIE("\x80\2(N\x86.", "a mark in a tuple"),
    LIE("\x80\2Nt.", "no mark on its stack"),
    LIE("\x80\2R.", "more is taken"),
    LIE("\x80\2)R.", "more is taken"),
    LIE("\x80\2()R.", "more is taken"),
    LIE("\x80\2N)R.", "a call of what is no function"),
    LIE("\x80\2"
        "ccollections\nOrderedDict\nNR.",
        "a call of what is no function"),
    LIE("\x80\2"
        "ctorch\nFloatStorage\n)R.",
        "a call of what is no function"),
    LIE("\x80\2"
        "ccollections\nOrderedDict\nN\x85R.",
        "an OrderedDict made of something"),
    LIE("\x80\2Q.", "more is taken"),
    LIE("\x80\2NQ.", "a persistent id that is no tuple"),
    LIE("\x80\2}b.", "more is taken"),
    LIE("\x80\2N}b.", "attributes for what is no OrderedDict"),
    LIE("\x80\2q\0.", "nothing on its stack to remember"),
    LIE("\x80\2(q\0.", "nothing on its stack to remember"),
    LIE("\x80\2Nq\xff.", "a number that its memo cannot have reached"),
    LIE("\x80\2Nr\xff\xff\xff\x7f.", "a number that its memo cannot have reached"),
    LIE("\x80\2Nr\xff\xff\xff\xff.", "a number that its memo cannot have reached"),
    LIE("\x80\2h\0.", "a number that its memo does not have"),
    LIE("\x80\2Nq\1h\0.", "a number that its memo does not have"),
    LIE("\x80\2Nq\1j\xff\xff\xff\xff.", "a number that its memo does not have"),
    LIE("\x80\2"
        "a.",
        "more is taken"),
    LIE("\x80\2Na.", "more is taken"),
    LIE("\x80\2NNa.", "values that go into no list"),
    LIE("\x80\2}Na.", "values that go into no list"),
    LIE("\x80\2](a.", "a mark among values"),
    LIE("\x80\2(Ne.", "more is taken"),
    LIE("\x80\2]e.", "no mark on its stack"),
    LIE("\x80\2}Ns.", "more is taken"),
    LIE("\x80\2]NNs.", "pairs that go into no dict"),
    LIE("\x80\2}(s.", "more is taken"),
    LIE("\x80\2}N(s.", "a mark among values"),
    LIE("\x80\2}(Ns.", "a mark among values"),
    LIE("\x80\2}(Nu.", "pairs that go into no dict"),
    LIE("\x80\2((NNu.", "more is taken"),
    LIE("\x80\2"
        "cos\nsystem\n.",
        "byte 2: its pickle uses os.system"),
    LIE("\x80\2"
        "ctorch._utils\n_rebuild_qtensor\n.",
        "uses torch._utils._rebuild_qtensor"),
    LIE("\x80\2"
        "c\033[2J\n\a\n.",
        "uses ?[2J.?"),
    LIE("\x80\2"
        "cos\nsystem",
        "cut off"),
    LIE("\x80\2N\x95.", "byte 3: its pickle has the operation 0x95"),
    LIE("\x80\2i.", "the operation 'i'"),
    LIE("\x80\2\x80\2.", "the operation 0x80"),
};

START_TEST(each_kind_of_lie_is_named)
{
    const struct lie *lie = &lies[_i];
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_int_eq(read_bytes(&p, lie->text, lie->n, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, lie->says), "'%s' does not say '%s'", err.msg, lie->says);
    ck_assert_msg(strncmp(err.msg, "m.bin: ", 7) == 0, "%s", err.msg);
    ck_assert_ptr_null(p.values);
    ck_assert_int_eq(read_bytes(&p, lie->text, lie->n, NULL), KMF_EMODEL);
}
END_TEST

START_TEST(every_other_operation_is_refused_by_name)
{
    static const char known[] = "().GJKMNQRX]abcehjqrstu}\x85\x86\x87\x88\x89\x8a";
    size_t n_refused = 0;
    for (int op = 0; op < 256; op++) {
        char text[] = {'\x80', 2, (char)op};
        char says[32];
        kmf_pickle p;
        kmf_err err = {0};
        if (op != 0 && strchr(known, op))
            continue;
        snprintf(says, sizeof says, op > ' ' && op <= '~' ? "'%c'" : "0x%02x", op);
        ck_assert_int_eq(read_bytes(&p, text, 3, &err), KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, says), "%s: %s", says, err.msg);
        n_refused++;
    }
    ck_assert_uint_eq(n_refused, 256 - (sizeof known - 1));
}
END_TEST

START_TEST(a_name_may_be_long_but_not_endless)
{
    char text[400] = "\x80\2"
                     "c";
    kmf_pickle p;
    kmf_err err = {0};
    memset(text + 3, 'a', sizeof text - 3);
    ck_assert_int_eq(read_bytes(&p, text, sizeof text, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "a name that is too long"), "%s", err.msg);
    err = (kmf_err){0};
    text[3 + 120] = text[3 + 240] = '\n';
    ck_assert_int_eq(read_bytes(&p, text, sizeof text, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "aaa....aaa"), "%s", err.msg);
}
END_TEST

START_TEST(a_value_inside_itself_and_a_deep_one_are_only_values)
{
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(READ(&p, "\x80\2]q\0h\0a.", &err) == 0, "%s", err.msg);
    ck_assert(p.cells[p.values[p.top].as.list.first].value == p.top);
    kmf_pickle_free(&p);
    ck_assert_msg(READ(&p, "\x80\2}q\0X\1\0\0\0ah\0sh\0b.", &err) == 0, "%s", err.msg);
    ck_assert(kmf_pickle_find(&p, &p.values[p.top], "a") == &p.values[p.top]);
    kmf_pickle_free(&p);

    size_t depth = 1000000;
    bytes b = {0};
    char *ops = malloc(depth);
    memset(ops, '\x85', depth);
    ADD(&b, "\x80\2)");
    add(&b, ops, depth);
    ADD(&b, ".");
    ck_assert_msg(read_bytes(&p, b.at, b.n, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(p.n_values, depth + 1);
    kmf_pickle_free(&p);
    free(ops);
    free(b.at);
}
END_TEST

START_TEST(a_pickle_longer_than_any_is_refused)
{
    size_t n = KMF_PICKLE_BYTES_MAX + 100;
    unsigned char *text = calloc(n, 1);
    kmf_pickle p;
    kmf_err err = {0};
    memcpy(text, "\x80\2X", 3);
    kmf_le_store32(text + 3, KMF_PICKLE_BYTES_MAX - 8);
    text[KMF_PICKLE_BYTES_MAX - 1] = '.';
    ck_assert_msg(read_bytes(&p, text, n, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(p.end, KMF_PICKLE_BYTES_MAX);
    kmf_pickle_free(&p);
    kmf_le_store32(text + 3, KMF_PICKLE_BYTES_MAX);
    ck_assert_int_eq(read_bytes(&p, text, n, &err), KMF_EMODEL);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "a pickle longer than 16777216 bytes"), "%s", err.msg);
    free(text);
}
END_TEST

/* A state dict of two tensors, and something before it. */
static bytes a_pickle(size_t *beg)
{
    static const part parts[] = {
        {"a", "FloatStorage", "0", 6, 0, 2, {2, 3}, {3, 1}},
        {"b", "LongStorage", "1", 1, 0, 0, {0}, {0}},
    };
    bytes b = {0};
    ADD(&b, "before");
    *beg = b.n;
    add_state_dict(&b, parts, 2, true);
    return b;
}

START_TEST(cut_anywhere_it_is_refused)
{
    size_t beg;
    bytes b = a_pickle(&beg);
    kmf_pickle p;
    kmf_err err = {0};
    ck_assert_msg(kmf_pickle_read(&p, b.at, beg, b.n, "m", &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(p.end, b.n);
    kmf_pickle_free(&p);
    for (size_t n = beg; n < b.n; n++) {
        unsigned char *exact = malloc(n);
        memcpy(exact, b.at, n);
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_pickle_read(&p, exact, beg, n, "m", &err), KMF_EMODEL);
        ck_assert_str_eq(err.msg, "m: cut off in the pickle that begins at byte 6");
        free(exact);
    }
    free(b.at);
}
END_TEST

START_TEST(with_any_byte_changed_it_is_read_or_refused)
{
    size_t beg;
    bytes b = a_pickle(&beg);
    size_t n_read = 0;
    for (size_t i = beg; i < b.n; i++)
        for (int x = 1; x < 256; x++) {
            kmf_pickle p;
            kmf_err err = {0};
            b.at[i] = (unsigned char)(b.at[i] ^ x);
            int rc = kmf_pickle_read(&p, b.at, beg, b.n, "m", &err);
            b.at[i] = (unsigned char)(b.at[i] ^ x);
            ck_assert_msg(rc == 0 ? err.code == KMF_OK : rc == KMF_EMODEL && err.msg[0], "%zu",
                          i);
            n_read += rc == 0;
            if (rc == 0)
                kmf_pickle_free(&p);
        }
    ck_assert_uint_gt(n_read, 1000); /* numbers and texts have many values */
    free(b.at);
}
END_TEST

START_TEST(memory_may_run_out_anywhere)
{
    size_t beg;
    bytes b = a_pickle(&beg);
    kmf_pickle p;
    int rc = KMF_ENOMEM;
    size_t n = 0;
    while (rc != 0) {
        kmf_err err = {0};
        kmf_mem_fail_at(++n);
        rc = kmf_pickle_read(&p, b.at, beg, b.n, "m", &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(rc == 0 || rc == KMF_ENOMEM, "%s", err.msg);
    }
    ck_assert_uint_gt(n, 10);
    kmf_pickle_free(&p);
    free(b.at);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("pickle");
    tcase_add_loop_test(tc, numbers_of_every_length_keep_their_sign, 0,
                        (int)(sizeof numbers / sizeof numbers[0]));
    tcase_add_test(tc, a_tuple_holds_values_of_every_kind);
    tcase_add_test(tc, the_memo_goes_by_its_numbers);
    tcase_add_test(tc, lists_and_dicts_are_filled_one_by_one_or_at_once);
    tcase_add_test(tc, calls_and_persistent_ids_are_kept_as_what_they_are);
    tcase_add_loop_test(tc, each_kind_of_lie_is_named, 0, (int)(sizeof lies / sizeof lies[0]));
    tcase_add_test(tc, every_other_operation_is_refused_by_name);
    tcase_add_test(tc, a_name_may_be_long_but_not_endless);
    tcase_add_test(tc, a_value_inside_itself_and_a_deep_one_are_only_values);
    tcase_add_test(tc, a_pickle_longer_than_any_is_refused);
    tcase_add_test(tc, cut_anywhere_it_is_refused);
    tcase_add_test(tc, with_any_byte_changed_it_is_read_or_refused);
    tcase_add_test(tc, memory_may_run_out_anywhere);
    return run_case("pickle", tc);
}
