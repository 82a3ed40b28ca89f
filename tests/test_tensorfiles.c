/* SPDX-License-Identifier: MIT */
/*
 * Models in every set of files. Second sources: the same model in other files, the golden ones
 * here and, where they are, those of ../shared; shards put together by hand that contradict their
 * index.
 */
#include "failing.h"
#include "model/tensorfiles.h"
#include "base/json.h"
#include "models.h"
#include "run.h"
#include "torchfiles.h"

#include <sys/stat.h>

#define GOLDEN_TORCH "tests/golden/torch"

static void open_path(kmf_tensors *t, const char *path)
{
    kmf_err err = {0};
    ck_assert_msg(kmf_tensors_open(t, path, &err) == 0, "%s", err.msg);
}

static void assert_same_models(const char *a, const char *b)
{
    kmf_tensors x;
    kmf_tensors y;
    open_path(&x, a);
    open_path(&y, b);
    ck_assert_uint_gt(x.n, 1);
    assert_same_tensors(x.list, x.n, y.list, y.n);
    for (size_t i = 0; i < x.n; i++)
        ck_assert_ptr_eq(kmf_tensors_find(&y, x.list[i].name), &y.list[i]);
    kmf_tensors_close(&x);
    kmf_tensors_close(&y);
}

static void not_opened(const char *path, kmf_code code, const char *says)
{
    kmf_tensors t;
    kmf_err err = {0};
    ck_assert_msg(kmf_tensors_open(&t, path, &err) == (int)code, "%d: %s", err.code, err.msg);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, says), "'%s' does not say '%s'", err.msg, says);
    ck_assert_ptr_null(t.files);
    ck_assert_ptr_null(t.list);
    ck_assert_int_eq(kmf_tensors_open(&t, path, NULL), code);
}

static void copy(const char *from, const char *to)
{
    size_t len;
    char *text = get(from, &len);
    put(in_dir(to), text, len);
    kmf_free(text);
}

/* A safetensors file of tensors of one U8 each, named by the letters; freed by free. */
static bytes letters(const char *names)
{
    char header[1024] = "{";
    bytes b = {0};
    for (size_t i = 0; names[i]; i++)
        snprintf(header + strlen(header), sizeof header - strlen(header),
                 "%s\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", names[i], i, i + 1);
    strcat(header, "}");
    add_number(&b, strlen(header), 8);
    add(&b, header, strlen(header));
    add(&b, names, strlen(names));
    return b;
}

static void put_letters(const char *file, const char *names)
{
    bytes b = letters(names);
    put(in_dir(file), b.at, b.n);
    free(b.at);
}

/* ---- whatever files hold them ------------------------------------------------------------ */

START_TEST(the_first_form_that_is_there_is_opened)
{
    kmf_tensors t;
    kmf_err err = {0};
    not_opened(dir, KMF_EMODEL,
               "no model.safetensors in it, nor pytorch_model.bin, nor an index of either");
    not_opened(in_dir("nowhere"), KMF_EIO, "nowhere: No such file or directory");
    static const char *const shards[] = {"00001", "00002"};
    for (size_t i = 0; i < 2; i++) {
        char from[128];
        snprintf(from, sizeof from, GOLDEN_TORCH "/shards/pytorch_model-%s-of-00002.bin",
                 shards[i]);
        copy(from, strrchr(from, '/') + 1);
    }
    copy(GOLDEN_TORCH "/shards/pytorch_model.bin.index.json", "pytorch_model.bin.index.json");
    open_path(&t, dir);
    ck_assert_uint_eq(t.n, 3);
    ck_assert_uint_eq(kmf_tensors_n_files(&t), 2);
    kmf_tensors_close(&t);

    copy(GOLDEN_TORCH "/nested.bin", "pytorch_model.bin");
    open_path(&t, dir);
    ck_assert_uint_eq(t.n, 2);
    ck_assert_uint_eq(kmf_tensors_n_files(&t), 1);
    ck_assert_uint_gt(kmf_tensors_map(&t, 0)->len, 1000);
    ck_assert_ptr_null(kmf_tensors_metadata(&t, "format"));
    kmf_tensors_close(&t);

    put_letters("a", "x");
    put_letters("b", "yz");
    const char *index = "{\"weight_map\":{\"x\":\"a\",\"y\":\"b\",\"z\":\"b\"}}";
    put(in_dir("model.safetensors.index.json"), index, strlen(index));
    open_path(&t, dir);
    ck_assert_uint_eq(t.n, 3);
    ck_assert_uint_eq(kmf_tensors_n_files(&t), 2);
    const kmf_stored *z = kmf_tensors_find(&t, "z");
    ck_assert_int_eq(z->values[0], 'z');
    ck_assert_str_eq(kmf_tensors_file(&t, z), in_dir("b"));
    ck_assert_str_eq(kmf_tensors_file(&t, &t.list[0]), in_dir("a"));
    ck_assert_ptr_null(kmf_tensors_find(&t, "weight"));
    kmf_tensors_close(&t);

    put_letters("model.safetensors", "w");
    open_path(&t, dir);
    ck_assert_uint_eq(t.n, 1);
    ck_assert_str_eq(kmf_tensors_file(&t, t.list), in_dir("model.safetensors"));
    kmf_tensors_close(&t);
    kmf_tensors_close(&t);
    ck_assert_int_eq(kmf_tensors_parse(&t, NULL, 0, "m", &err), KMF_EMODEL);
    kmf_tensors_close(&t);
}
END_TEST

START_TEST(shards_hold_what_one_file_holds)
{
    assert_same_models(GOLDEN_TORCH "/shards", GOLDEN_TORCH "/shards/whole.safetensors");
}
END_TEST

START_TEST(a_file_is_what_its_bytes_say)
{
    assert_same_models(GOLDEN_TORCH "/zip.bin", GOLDEN_TORCH "/zip.safetensors");
    copy(GOLDEN_TORCH "/legacy.bin", "model.safetensors");
    assert_same_models(dir, GOLDEN_TORCH "/legacy.safetensors");
    ck_assert_int_eq(unlink(in_dir("model.safetensors")), 0);
    copy(GOLDEN_TORCH "/zip.safetensors", "pytorch_model.bin");
    assert_same_models(dir, GOLDEN_TORCH "/zip.bin");
}
END_TEST

START_TEST(what_is_no_checkpoint_is_refused_in_words)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
    const char *file = in_dir("model.safetensors");
    put(file, "", 0);
    not_opened(dir, KMF_EMODEL, "0 bytes are too short for a safetensors file");
    put(file, pointer, strlen(pointer));
    not_opened(dir, KMF_EMODEL, "model.safetensors: a pointer of Git LFS, not the file");
    file = in_dir("other");
    put(file, "", 0);
    not_opened(file, KMF_EMODEL, "other: neither a safetensors file nor a checkpoint");
    put(file, "\x80\2}.", 4);
    not_opened(file, KMF_EMODEL, "other: neither a safetensors file nor a checkpoint");
    put(file, pointer, strlen(pointer));
    not_opened(file, KMF_EMODEL, "other: a pointer of Git LFS");
    ck_assert_int_eq(unlink(in_dir("model.safetensors")), 0);
    ck_assert_int_eq(mkdir(in_dir("model.safetensors"), 0777), 0);
    not_opened(dir, KMF_EIO, "model.safetensors: not a regular file");
    not_opened(GOLDEN "/config.json/x", KMF_EIO, "Not a directory");
}
END_TEST

START_TEST(a_file_in_memory_is_no_map)
{
    kmf_tensors t;
    kmf_err err = {0};
    bytes b = letters("ba");
    ck_assert_msg(kmf_tensors_parse(&t, b.at, b.n, "mem", &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(t.n, 2);
    ck_assert_str_eq(t.list[0].name, "a");
    ck_assert_ptr_eq(t.list[0].values, b.at + b.n - 1);
    ck_assert_str_eq(kmf_tensors_file(&t, t.list), "mem");
    ck_assert_uint_eq(kmf_tensors_n_files(&t), 0);
    ck_assert_ptr_null(kmf_tensors_metadata(&t, "format"));
    kmf_tensors_close(&t);
    free(b.at);
    open_path(&t, GOLDEN);
    ck_assert_str_eq(kmf_tensors_metadata(&t, "format"), "pt");
    kmf_tensors_close(&t);
}
END_TEST

/* ---- an index and its shards ------------------------------------------------------------- */

static const struct lie {
    const char *index;
    const char *a; /* tensors of the file a */
    const char *b;
    kmf_code code;
    const char *says;
} lies[] = {
#define MAP(map) "{\"metadata\":{},\"weight_map\":{" map "}}"
    {"{", "", "", KMF_EMODEL, "index.json: line 1: not the JSON expected"},
    {"[]", "", "", KMF_EMODEL, "must be a JSON object"},
    {"{}", "", "", KMF_EMODEL, "no weight_map that names the files"},
    {"{\"weight_map\":[]}", "", "", KMF_EMODEL, "no weight_map"},
    {MAP(""), "x", "", KMF_EMODEL, "no weight_map"},
    {MAP("\"x\":1"), "x", "", KMF_EMODEL, "tensor x: its file must be the name of one beside"},
    {MAP("\"x\":\"\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"/etc/passwd\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"./a\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"..\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"a\\u001b[1m\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"a\\n\""), "x", "", KMF_EMODEL, "tensor x: its file must be"},
    {MAP("\"x\":\"a\",\"y\":\"sub/b\""), "x", "", KMF_EMODEL, "tensor y: its file must be"},
    {MAP("\"x\":\"a\",\"y\":\"c\""), "x", "y", KMF_EIO, "/c: No such file"},
    {MAP("\"x\":\"a\",\"y\":\".\""), "x", "y", KMF_EIO, "not a regular file"},
    {MAP("\"x\":\"a\",\"y\":\"b\""), "x", "x", KMF_EMODEL, "tensor x is in two shards"},
    {MAP("\"x\":\"a\",\"y\":\"b\""), "xy", "y", KMF_EMODEL, "tensor y is in two shards"},
    {MAP("\"x\":\"a\",\"y\":\"b\""), "x", "yz", KMF_EMODEL, "tensor z, which is in b, is not"},
    {MAP("\"x\":\"a\",\"y\":\"b\""), "y", "x", KMF_EMODEL, "tensor x is not in a, where"},
    {MAP("\"x\":\"a\",\"y\":\"b\",\"z\":\"b\""), "x", "y", KMF_EMODEL,
     "tensor z is not in b, where it should be"},
    {MAP("\"x\":\"a\",\"y\\u001b\":\"a\""), "x", "y", KMF_EMODEL, "tensor y? is not in a"},
};

START_TEST(shards_that_contradict_their_index_are_refused)
{
    const struct lie *lie = &lies[_i];
    put_letters("a", lie->a);
    put_letters("b", lie->b);
    put(in_dir("model.safetensors.index.json"), lie->index, strlen(lie->index));
    not_opened(dir, lie->code, lie->says);
}
END_TEST

START_TEST(a_damaged_shard_is_named)
{
    const char *index = MAP("\"x\":\"a\",\"y\":\"b\"");
    put(in_dir("model.safetensors.index.json"), index, strlen(index));
    put_letters("a", "x");
    put(in_dir("b"), "nothing", 7);
    not_opened(dir, KMF_EMODEL, "/b: neither a safetensors file nor a checkpoint");
}
END_TEST

/* jansson's allocations, for kmf_mem_fail_at. */
START_TEST(memory_may_run_out_anywhere)
{
    static const char *const paths[] = {GOLDEN_TORCH "/shards", GOLDEN_TORCH "/nested.bin",
                                        NULL};
    put_letters("a", "xy");
    put_letters("b", "z");
    const char *index = MAP("\"x\":\"a\",\"y\":\"a\",\"z\":\"b\"");
    put(in_dir("model.safetensors.index.json"), index, strlen(index));
    json_set_alloc_funcs(counted_malloc, kmf_free);
    kmf_tensors t;
    int rc = KMF_ENOMEM;
    size_t n = 0;
    while (rc != 0) {
        kmf_err err = {0};
        kmf_mem_fail_at(++n);
        rc = kmf_tensors_open(&t, paths[_i] ? paths[_i] : dir, &err);
        kmf_mem_fail_at(0);
        /* Any code: jansson may take missing memory for bad text, or lose a letter of a name. */
        ck_assert_int_eq(rc, (int)err.code);
        ck_assert_uint_lt(n, 1000);
    }
    ck_assert_uint_gt(n, 10);
    kmf_tensors_close(&t);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

/* ---- published models' files ------------------------------------------------------------- */

static const char *shared(const char *name)
{
    static char path[2][512];
    static int turn;
    const char *place = getenv("KMF_SHARED");
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/fixtures/%s", place ? place : "../shared",
             name);
    return path[turn];
}

/* PyTorch's files have tied tensors under both of their names, safetensors files under one. */
static const struct alike {
    const char *a;
    const char *b;
    size_t n_tied;
} alike[] = {
    {"dnabert3/pytorch_model.bin", "dnabert3/model.safetensors", 2},
    {"dnabert3/pytorch_model.legacy.bin", "dnabert3", 2},
    {"roformer-rotary-value/sharded", "roformer-rotary-value", 0},
};

START_TEST(fixtures_hold_the_same_in_all_their_forms)
{
    kmf_tensors a;
    kmf_tensors b;
    if (access(shared(alike[_i].a), F_OK) != 0) {
        printf("skip: fixtures: neither KMF_SHARED nor ../shared is there\n");
        return;
    }
    open_path(&a, shared(alike[_i].a));
    open_path(&b, shared(alike[_i].b));
    ck_assert_uint_eq(a.n, b.n + alike[_i].n_tied);
    for (size_t i = 0; i < b.n; i++) {
        const kmf_stored *t = kmf_tensors_find(&a, b.list[i].name);
        ck_assert_msg(t != NULL, "%s", b.list[i].name);
        assert_same_tensors(t, 1, &b.list[i], 1);
    }
    for (size_t i = 0; i < a.n; i++) {
        size_t n_here = 0;
        for (size_t j = 0; j < a.n; j++)
            n_here += a.list[j].values == a.list[i].values;
        ck_assert_uint_eq(n_here, kmf_tensors_find(&b, a.list[i].name) ? n_here : 2);
    }
    kmf_tensors_close(&a);
    kmf_tensors_close(&b);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    TCase *tc = tcase_create("tensorfiles");
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, the_first_form_that_is_there_is_opened);
    tcase_add_test(tc, shards_hold_what_one_file_holds);
    tcase_add_test(tc, a_file_is_what_its_bytes_say);
    tcase_add_test(tc, what_is_no_checkpoint_is_refused_in_words);
    tcase_add_test(tc, a_file_in_memory_is_no_map);
    tcase_add_loop_test(tc, shards_that_contradict_their_index_are_refused, 0, COUNT(lies));
    tcase_add_test(tc, a_damaged_shard_is_named);
    tcase_add_loop_test(tc, memory_may_run_out_anywhere, 0, 3);
    tcase_add_loop_test(tc, fixtures_hold_the_same_in_all_their_forms, 0, COUNT(alike));
    return run_case("tensorfiles", tc);
}
