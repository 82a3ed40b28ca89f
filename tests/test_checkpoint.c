/* SPDX-License-Identifier: MIT */
/*
 * Second sources: what was written down, numbers of every kind among it; and files that are
 * changed in one byte or cut at one place, for all places.
 */
#include "learn/checkpoint.h"

#include "base/out.h"
#include "model/safetensors.h"
#include "models.h"
#include "run.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>

#define ROWS 5
#define WIDTH 3
#define OTHERS 7
#define COUNTS 6

/* What a training would have. */
typedef struct state {
    float table[ROWS * WIDTH];
    float others[OTHERS];
    uint64_t counts[COUNTS];
    kmf_setting settings[3];
    kmf_saved_array arrays[2];
    kmf_checkpoint checkpoint; /* of what stands above */
} state;

/* The last of the counts must not be 0. */
static bool is_sound(const void *training)
{
    const uint64_t *counts = training;
    return counts[COUNTS - 1] != 0;
}

static void tie(state *s)
{
    static const size_t at[COUNTS] = {0, 8, 16, 24, 32, 40};
    s->arrays[0] = (kmf_saved_array){"table", s->table, ROWS, WIDTH};
    s->arrays[1] = (kmf_saved_array){"others", s->others, 1, OTHERS};
    s->checkpoint = (kmf_checkpoint){.kind = "test",
                                     .settings = s->settings,
                                     .n_settings = 3,
                                     .arrays = s->arrays,
                                     .n_arrays = 2,
                                     .progress = at,
                                     .n_progress = COUNTS,
                                     .is_sound = is_sound};
}

static void fill(state *s)
{
    static const float some[] = {0.1f, -0.0f, 1e-45f, 3.4e38f, INFINITY, -1e-30f};
    *s = (state){.settings = {{"k", "4"}, {"learning rate", "0.001"}, {"seed", "17"}}};
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        s->table[i] = some[i % 6] + (i > 6 ? (float)i : 0);
    for (size_t i = 0; i < OTHERS; i++)
        s->others[i] = -(float)i / 3;
    s->counts[0] = UINT64_MAX;
    s->counts[1] = 0;
    memcpy(&s->counts[2], (double[]){-1e-300, (double)NAN, (double)INFINITY}, 24);
    s->counts[5] = 1234567890123456789u;
    tie(s);
}

/* The same settings, and nothing else known. */
static void fill_empty(state *s)
{
    fill(s);
    memset(s->table, 0x55, sizeof s->table);
    memset(s->others, 0x55, sizeof s->others);
    memset(s->counts, 0x55, sizeof s->counts);
}

static bool same_numbers(const state *a, const state *b)
{
    return memcmp(a->table, b->table, sizeof a->table) == 0 &&
           memcmp(a->others, b->others, sizeof a->others) == 0 &&
           memcmp(a->counts, b->counts, sizeof a->counts) == 0;
}

static void write_good(const state *s, const char *path)
{
    kmf_err err = {0};
    ck_assert_msg(kmf_checkpoint_write(&s->checkpoint, s->counts, path, &err) == 0, "%s",
                  err.msg);
}

/* ---------------------------------------------------------------- tests ----------------- */

START_TEST(what_is_written_is_read)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    fill_empty(&b);
    write_good(&a, path);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    ck_assert(same_numbers(&a, &b));
    /* the same state, the same bytes; and no other file */
    write_good(&b, in_dir("d"));
    size_t n, m;
    char *x = get(path, &n);
    char *y = get(in_dir("d"), &m);
    ck_assert(n == m && memcmp(x, y, n) == 0);
    ck_assert_int_eq(n_entries(dir), 2);
    kmf_free(x);
    kmf_free(y);
}
END_TEST

START_TEST(one_takes_the_place_of_another)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    write_good(&a, path);
    a.others[3] = 100;
    a.counts[1] = 5;
    write_good(&a, path);
    fill_empty(&b);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    ck_assert(same_numbers(&a, &b));
    ck_assert_int_eq(n_entries(dir), 1);
}
END_TEST

START_TEST(there_may_be_no_settings_no_arrays_and_no_progress)
{
    const char *path = in_dir("c");
    kmf_checkpoint c = {.kind = "little"};
    kmf_err err = {0};
    ck_assert_msg(kmf_checkpoint_write(&c, NULL, path, &err) == 0, "%s", err.msg);
    ck_assert_msg(kmf_checkpoint_read(&c, NULL, path, &err) == 0, "%s", err.msg);
}
END_TEST

/* Refused with EMODEL, file and word in the message, and nothing filled. */
static void refuse(state *s, const char *path, const char *word)
{
    kmf_err err = {0};
    state before = *s;
    ck_assert_msg(kmf_checkpoint_read(&s->checkpoint, s->counts, path, &err) == KMF_EMODEL,
                  "%s", word);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, path) && strstr(err.msg, word), "'%s' in: %s", word, err.msg);
    ck_assert(same_numbers(s, &before));
}

START_TEST(another_setting_is_named)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    write_good(&a, path);
    fill_empty(&b);
    strcpy(b.settings[1].value, "0.002");
    refuse(&b, path, "another training: learning rate was 0.001, now it is 0.002");
    /* the first that differs, in the order that the reader has them in */
    strcpy(b.settings[2].value, "18");
    strcpy(b.settings[0].value, "");
    refuse(&b, path, "k was 4, now it is ");
    fill_empty(&b);
    b.settings[2].name = "seeds";
    refuse(&b, path, "seeds was not told, now it is 17");
    /* settings that the reader does not ask for are none of its concern */
    fill_empty(&b);
    b.checkpoint.n_settings = 2;
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    /* real numbers are told in few digits, but apart */
    strcpy(a.settings[1].value, "0.025000000000000001");
    write_good(&a, path);
    fill_empty(&b);
    strcpy(b.settings[1].value, "9.9999999999999998e-13");
    refuse(&b, path, "learning rate was 0.025, now it is 1e-12");
    strcpy(b.settings[1].value, "0.025000000000000005");
    refuse(&b, path, "learning rate was 0.025, now it is 0.025000000000000005");
    /* a value from a file does not speak to the terminal */
    strcpy(a.settings[1].value, "\033[2J0.001");
    write_good(&a, path);
    fill_empty(&b);
    refuse(&b, path, "learning rate was ?[2J0.001, now");
}
END_TEST

START_TEST(another_kind_is_refused)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    write_good(&a, path);
    fill_empty(&b);
    b.checkpoint.kind = "tests";
    refuse(&b, path, "no checkpoint of tests");
    put(path, "", 0);
    fill_empty(&b);
    refuse(&b, path, "");
    put(path, "\2\0\0\0\0\0\0\0{}", 10);
    refuse(&b, path, "no checkpoint of test");
    copy_golden(GOLDEN, "");
    refuse(&b, in_dir("model.safetensors"), "no checkpoint of test");
}
END_TEST

START_TEST(arrays_of_another_size_or_name_are_refused)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    write_good(&a, path);
    fill_empty(&b);
    b.arrays[1].width--;
    refuse(&b, path, "damaged");
    fill_empty(&b);
    b.arrays[0].rows--;
    refuse(&b, path, "damaged");
    fill_empty(&b);
    b.arrays[0].name = "tables";
    refuse(&b, path, "damaged");
    fill_empty(&b);
    b.checkpoint.n_progress--;
    refuse(&b, path, "damaged");
    fill_empty(&b);
    b.checkpoint.n_arrays = 1;
    refuse(&b, path, "damaged");
}
END_TEST

/* A checkpoint put together here, `others` being ones of a dtype, with the checksum that is due. */
static void write_ones(const state *s, const char *path, const char *dtype, const char *bytes,
                       size_t n_bytes)
{
    static const float ones[OTHERS] = {1, 1, 1, 1, 1, 1, 1};
    kmf_stored tensors[] = {
        {.name = "table", .dtype = "F32", .shape = {ROWS, WIDTH}, .rank = 2},
        {.name = "others", .dtype = dtype, .shape = {1, OTHERS}, .rank = 2},
        {.name = "progress", .dtype = "U64", .shape = {COUNTS}, .rank = 1}};
    const void *const values[] = {s->table, ones, s->counts};
    uLong sum = crc32(0, (const Bytef *)s->table, sizeof s->table);
    char text[16];
    for (size_t i = 0; i < OTHERS; i++)
        sum = crc32(sum, (const Bytef *)bytes, (uInt)n_bytes);
    sum = crc32(sum, (const Bytef *)s->counts, sizeof s->counts);
    snprintf(text, sizeof text, "%08lx", (unsigned long)sum);
    const char *const pairs[] = {"format",
                                 "kmerformer test checkpoint 2",
                                 "k",
                                 s->settings[0].value,
                                 "learning rate",
                                 s->settings[1].value,
                                 "seed",
                                 s->settings[2].value,
                                 "checksum",
                                 text};
    kmf_out *out = kmf_out_open_plain(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_safetensors_write(out, tensors, values, 3, pairs, 5, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
}

/* Of as many numbers, and whole by their checksum: read as floats they would end in others. */
START_TEST(arrays_of_another_dtype_are_refused)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    fill_empty(&b);
    write_ones(&a, path, "F16", "\x00\x3c", 2);
    refuse(&b, path, "damaged");
    write_ones(&a, path, "BF16", "\x80\x3f", 2);
    refuse(&b, path, "damaged");
    /* the same in F32 is one that is read */
    write_ones(&a, path, "F32", "\x00\x00\x80\x3f", 4);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    for (size_t i = 0; i < OTHERS; i++)
        a.others[i] = 1;
    ck_assert(same_numbers(&a, &b));
}
END_TEST

START_TEST(a_progress_that_cannot_be_is_refused)
{
    state a, b;
    const char *path = in_dir("c");
    fill(&a);
    a.counts[COUNTS - 1] = 0;
    write_good(&a, path);
    fill_empty(&b);
    refuse(&b, path, "damaged");
}
END_TEST

/* Every bit: refused, or nothing that is read has changed. */
START_TEST(a_changed_byte_is_noticed)
{
    state a, b;
    const char *path = in_dir("bad");
    size_t len, taken = 0;
    fill(&a);
    write_good(&a, in_dir("c"));
    char *good = get(in_dir("c"), &len);
    for (size_t at = 0; at < len; at++)
        for (int bit = 1; bit < 256; bit <<= 1) {
            kmf_err err = {0};
            fill_empty(&b);
            good[at] = (char)(good[at] ^ bit);
            put(path, good, len);
            good[at] = (char)(good[at] ^ bit);
            int status = kmf_checkpoint_read(&b.checkpoint, b.counts, path, &err);
            if (status == 0 && same_numbers(&a, &b))
                taken++;
            else if (status != KMF_EMODEL || !*err.msg)
                ck_abort_msg("byte %zu of %zu, bit %d: %d, %s", at, len, bit, status, err.msg);
        }
    /* that is, padding of the header, and the names of settings that nobody asks for */
    ck_assert_uint_lt(taken, 8 * 64);
    kmf_free(good);
}
END_TEST

START_TEST(a_cut_file_is_refused)
{
    state a, b;
    const char *path = in_dir("bad");
    size_t len;
    fill(&a);
    write_good(&a, in_dir("c"));
    char *good = get(in_dir("c"), &len);
    for (size_t n = 0; n < len; n++) {
        kmf_err err = {0};
        fill_empty(&b);
        put(path, good, n);
        if (kmf_checkpoint_read(&b.checkpoint, b.counts, path, &err) != KMF_EMODEL || !*err.msg)
            ck_abort_msg("the first %zu bytes are taken for a checkpoint", n);
    }
    char *longer = malloc(len + 1);
    memcpy(longer, good, len);
    longer[len] = 0;
    put(path, longer, len + 1);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), KMF_EMODEL);
    free(longer);
    kmf_free(good);
}
END_TEST

START_TEST(what_cannot_be_written_is_told_and_the_one_before_stays)
{
    state a, b;
    kmf_err err = {0};
    const char *path = in_dir("c");
    struct rlimit before, few = {0};
    fill(&a);
    ck_assert_int_eq(kmf_checkpoint_write(&a.checkpoint, a.counts, "/nonexistent/c", &err),
                     KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/c"));
    ck_assert_int_eq(kmf_checkpoint_write(&a.checkpoint, a.counts, "/nonexistent/c", NULL),
                     KMF_EIO);
    write_good(&a, path);
    /* the size of files is limited, as on a full disk */
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    few.rlim_max = before.rlim_max;
    for (few.rlim_cur = 0; few.rlim_cur < 500; few.rlim_cur += 100) {
        a.others[0] = 77;
        err = (kmf_err){0};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
        int status = kmf_checkpoint_write(&a.checkpoint, a.counts, path, &err);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        ck_assert_int_eq(status, KMF_EIO);
        ck_assert_ptr_nonnull(strstr(err.msg, path));
        ck_assert_int_eq(n_entries(dir), 1);
    }
    fill(&a);
    fill_empty(&b);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    ck_assert(same_numbers(&a, &b));
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, in_dir("none"), &err),
                     KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "none"));
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    state a, b;
    const char *path = in_dir("c");
    kmf_err err = {0};
    fill(&a);
    kmf_mem_fail_at(0);
    write_good(&a, path);
    size_t writes = kmf_mem_count();
    fill_empty(&b);
    kmf_mem_fail_at(0);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    size_t reads = kmf_mem_count();
    ck_assert_msg(writes > 0 && reads > 0, "%zu %zu", writes, reads);
    for (size_t at = 1; at <= writes; at++) {
        err = (kmf_err){0};
        kmf_mem_fail_at(at);
        ck_assert_int_eq(kmf_checkpoint_write(&a.checkpoint, a.counts, path, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    for (size_t at = 1; at <= reads; at++) {
        err = (kmf_err){0};
        fill_empty(&b);
        kmf_mem_fail_at(at);
        ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    ck_assert_int_eq(kmf_checkpoint_read(&b.checkpoint, b.counts, path, NULL), 0);
    ck_assert(same_numbers(&a, &b));
    ck_assert_int_eq(n_entries(dir), 1);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, what_is_written_is_read);
    tcase_add_test(tcase, one_takes_the_place_of_another);
    tcase_add_test(tcase, there_may_be_no_settings_no_arrays_and_no_progress);
    tcase_add_test(tcase, another_setting_is_named);
    tcase_add_test(tcase, another_kind_is_refused);
    tcase_add_test(tcase, arrays_of_another_size_or_name_are_refused);
    tcase_add_test(tcase, arrays_of_another_dtype_are_refused);
    tcase_add_test(tcase, a_progress_that_cannot_be_is_refused);
    tcase_add_test(tcase, a_changed_byte_is_noticed);
    tcase_add_test(tcase, a_cut_file_is_refused);
    tcase_add_test(tcase, what_cannot_be_written_is_told_and_the_one_before_stays);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_case("checkpoint", tcase);
}
