/* SPDX-License-Identifier: MIT */
/* Outputs that are whole or not there; memory that can fail. */
#define _GNU_SOURCE /* pwritev */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/temporary.h"
#include "files.h"
#include "run.h"
#include "seq/par.h"
#include "seq/text.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

/* Files and folders are counted, and fail if they are told to; files go their way, else. */
static int n_files;
static int n_folders;
static int file_fails;   /* an errno; 0: none */
static int folder_fails; /* likewise */

int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode)) {
        n_files++;
        errno = file_fails;
        return file_fails ? -1 : fdatasync(fd);
    }
    n_folders++;
    errno = folder_fails;
    return folder_fails ? -1 : 0;
}

/* Takes little at a time, and a signal comes before every other one. */
ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    static int n_calls;
    struct iovec some = {(void *)(uintptr_t)data, n < 3 ? n : 3};
    errno = EINTR;
    return n_calls++ % 2 ? -1 : pwritev(fd, &some, 1, at);
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

START_TEST(a_file_has_its_name_only_once_published)
{
    size_t len;
    const char *path = in_dir("out.txt");
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_out_write(out, "?ello ", 6, NULL), 0);
    ck_assert_int_eq(kmf_out_print(out, NULL, "%d\n", 42), 0);
    ck_assert_int_eq(kmf_out_patch(out, "H", 1, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, "end", 3, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, NULL, 0, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(exists(path), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    char *text = kmf_file_read(path, 100, &len, NULL);
    ck_assert_str_eq(text, "Hello 42\nend");
    kmf_free(text);
    unlink(path);
}
END_TEST

/* In any order, between what is written in turn; of what is not passed nothing stays. */
START_TEST(what_is_put_lies_where_it_belongs)
{
    static const char want[] = "HEAD one two2three+four end";
    size_t len;
    const char *path = in_dir("out.txt");
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_out_write(out, "head ", 5, NULL), 0);
    ck_assert_int_eq(kmf_out_put(out, 18, "four ", 5, NULL), 0);
    ck_assert_int_eq(kmf_out_put(out, 9, "two2", 4, NULL), 0);
    ck_assert_int_eq(kmf_out_put(out, 13, "three", 5, NULL), 0);
    ck_assert_int_eq(kmf_out_put(out, 30, "never passed", 12, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, "one ", 4, NULL), 0);
    ck_assert_int_eq(kmf_out_pass(out, 4, NULL), 0);
    ck_assert_int_eq(kmf_out_pass(out, 5, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, "+", 1, NULL), 0);
    ck_assert_int_eq(kmf_out_put(out, 19, "four ", 5, NULL), 0);
    ck_assert_int_eq(kmf_out_pass(out, 5, NULL), 0);
    ck_assert_int_eq(kmf_out_patch(out, "HEAD", 4, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, "end", 3, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_pass(out, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    char *text = kmf_file_read(path, 100, &len, NULL);
    ck_assert_str_eq(text, want);
    ck_assert_uint_eq(len, sizeof want - 1);
    kmf_free(text);
    unlink(path);
}
END_TEST

/* Who tries again, be it on a disk with room by then, gets neither a crash nor half a file. */
START_TEST(an_output_is_finished_once)
{
    static char noise[1 << 16];
    struct rlimit before, few;
    const char *path = in_dir("out.gz");
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * i * 2654435761u >> 16);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    few = before;
    few.rlim_cur = 512;
    signal(SIGXFSZ, SIG_IGN);
    for (int full = 0; full < 2; full++) {
        kmf_err err = {0};
        int status = full ? KMF_EIO : 0;
        kmf_out *out = kmf_out_open(path, NULL);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, full ? &few : &before), 0);
        int wrote = kmf_out_write(out, noise, sizeof noise, NULL);
        ck_assert(wrote == 0 || wrote == status);
        ck_assert_int_eq(kmf_out_finish(out, NULL), status);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        ck_assert_int_eq(kmf_out_finish(out, &err), KMF_EINVAL);
        ck_assert_int_eq(kmf_out_write(out, "x", 1, NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_out_patch(out, "x", 1, NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_out_publish(out, NULL), full ? KMF_EINVAL : 0);
        ck_assert_int_eq(exists(path), !full);
        ck_assert_ptr_nonnull(strstr(err.msg, "out.gz: its output is finished already"));
        kmf_out_free(out);
        unlink(path);
    }
    signal(SIGXFSZ, SIG_DFL);
}
END_TEST

START_TEST(a_provenance_is_an_object)
{
    static const float value = 1;
    static const char *const bad[] = {NULL, "", "junk", "[]", "{} {}"};
    const char *path = in_dir("x.npy");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kmf_output *output = kmf_output_new(path, &(kmf_output_form){.dim = 1}, NULL);
        kmf_row row = {.name = "x", .position = -1, .vector = &value};
        ck_assert_int_eq(kmf_output_row(output, &row, NULL), 0);
        ck_assert_int_eq(kmf_output_commit(output, bad[i], NULL), KMF_EINVAL);
        kmf_output_free(output);
        ck_assert_int_eq(exists(path), 0);
    }
}
END_TEST

/* As few digits as read back: JavaScript's and Python's are the same. */
START_TEST(reals_of_json_are_short)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1e-12, "1e-12"},
                 {0.123456789, "0.123456789"},
                 {0.123456789012345, "0.123456789012345"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *real = json_real(cases[i].value);
        char *text = kmf_json_text(real, JSON_ENCODE_ANY, NULL);
        ck_assert_str_eq(text, cases[i].text);
        kmf_free(text);
        json_decref(real);
    }
}
END_TEST

/* The header of the array counts the rows that are in it. */
/* The object that the brackets stand in is one of the levels. */
START_TEST(json_has_64_levels)
{
    char text[256];
    for (int n = 1; n < 100; n++) {
        kmf_err err = {0};
        char *end = text + sprintf(text, "{\"a\":");
        memset(end, '[', (size_t)n);
        memset(end + n, ']', (size_t)n);
        strcpy(end + 2 * n, "}");
        ck_assert_int_eq(kmf_json_check(text, &err), n + 1 <= 64 ? 0 : KMF_EINVAL);
        ck_assert_str_eq(err.msg,
                         n + 1 <= 64 ? "" : "provenance: JSON nested deeper than 64 levels");
    }
}
END_TEST

START_TEST(a_row_that_float16_cannot_hold_is_left_out)
{
    static const float values[] = {1, 1e30f};
    size_t len;
    const char *path = in_dir("x.npy"), *ids = in_dir("x.ids.tsv"), *json = in_dir("x.json");
    kmf_output *output = kmf_output_new(path, &(kmf_output_form){.dim = 1, .f16 = 1}, NULL);
    ck_assert_ptr_nonnull(output);
    for (int i = 0; i < 3; i++) { /* nor does a name that would be two lines */
        kmf_row line = {.name = i == 0 ? "x\ty" : i == 1 ? "x\n" : "\r", .vector = values};
        ck_assert_int_eq(kmf_output_row(output, &line, NULL), KMF_EINVAL);
    }
    for (int i = 0; i < 2; i++) {
        kmf_row row = {.name = "x", .position = -1, .vector = &values[i]};
        ck_assert_int_eq(kmf_output_row(output, &row, NULL), i == 1 ? KMF_ENUMERIC : 0);
    }
    ck_assert_int_eq(kmf_output_commit(output, "{}", NULL), 0);
    ck_assert_int_eq(kmf_output_commit(output, "{}", NULL), KMF_EINVAL);
    kmf_output_free(output);
    char *bytes = get(path, &len);
    ck_assert_uint_eq(len, 128 + 2);
    ck_assert_ptr_nonnull(strstr(bytes + 10, "'shape': (1, 1)"));
    kmf_free(bytes);
    ck_assert(unlink(path) == 0 && unlink(ids) == 0 && unlink(json) == 0);
}
END_TEST

/* A process of the same number, in a container or on another machine, writes the same file. */
START_TEST(a_temporary_file_of_another_process_is_left_alone)
{
    char theirs[600], text[16] = "";
    const char *path = in_dir("x");
    snprintf(theirs, sizeof theirs, "%s.tmp.%ld", path, (long)getpid());
    FILE *file = fopen(theirs, "w");
    ck_assert(file && fputs("theirs", file) >= 0 && fclose(file) == 0);
    for (int keeps = 0; keeps < 2; keeps++) {
        kmf_out *out = kmf_out_open(path, NULL);
        ck_assert_ptr_nonnull(out);
        ck_assert_str_ne(kmf_out_temporary(out), theirs);
        ck_assert_int_eq(kmf_out_write(out, "ours", 4, NULL), 0);
        if (keeps)
            ck_assert(kmf_out_finish(out, NULL) == 0 && kmf_out_publish(out, NULL) == 0);
        kmf_out_free(out);
        ck_assert_int_eq(exists(path), keeps);
        file = fopen(theirs, "r");
        ck_assert(file && fgets(text, sizeof text, file) && fclose(file) == 0);
        ck_assert_str_eq(text, "theirs");
    }
    ck_assert(unlink(theirs) == 0 && unlink(path) == 0);
}
END_TEST

/* What a signal handler leaves: nothing that is not finished, and no folder of it. */
START_TEST(a_handler_removes_files_and_then_their_folders)
{
    char inner[600];
    kmf_temporary folder = {0};
    const char *path = in_dir("model"), *published = in_dir("x");
    ck_assert_int_eq(kmf_temporary_folder(&folder, path, NULL), 0);
    snprintf(inner, sizeof inner, "%s/weights", folder.path);
    kmf_out *out = kmf_out_open(inner, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_file_save(published, "x", 1, NULL), 0);
    ck_assert(exists(folder.path) && exists(kmf_out_temporary(out)));
    kmf_remove_temporaries();
    ck_assert(!exists(folder.path) && exists(published));
    kmf_out_free(out);
    kmf_temporary_remove(&folder);
    ck_assert_int_eq(kmf_temporary_folder(&folder, path, NULL), 0);
    snprintf(inner, sizeof inner, "%s", folder.path);
    kmf_temporary_remove(&folder);
    ck_assert(!exists(inner) && !folder.path);
    /* what has its name, or was removed, is no longer known */
    ck_assert_int_eq(kmf_temporary_folder(&folder, path, NULL), 0);
    ck_assert(kmf_temporary_rename(&folder, path) && !folder.path);
    kmf_remove_temporaries();
    ck_assert(exists(path) && rmdir(path) == 0 && unlink(published) == 0);
}
END_TEST

/* Whatever they are, and whatever the process would give a new file. */
START_TEST(what_takes_the_place_of_a_file_has_its_permissions)
{
    static const mode_t modes[] = {0600, 0640, 0664, 0666, 0755, 0777};
    struct stat s;
    const char *path = in_dir("x");
    ck_assert_int_eq(kmf_file_save(path, "x", 1, NULL), 0);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        ck_assert_int_eq(chmod(path, modes[i]), 0);
        ck_assert_int_eq(kmf_file_save(path, "y", 1, NULL), 0);
        ck_assert_int_eq(stat(path, &s), 0);
        ck_assert_int_eq(s.st_mode & 0777, modes[i]);
    }
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* However many were made before: a long training has a checkpoint each few minutes. */
START_TEST(a_handler_removes_what_comes_after_many_others)
{
    const char *before = in_dir("x"), *path = in_dir("y");
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(kmf_file_save(before, "x", 1, NULL), 0);
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert(exists(kmf_out_temporary(out)));
    kmf_remove_temporaries();
    ck_assert(!exists(kmf_out_temporary(out)));
    kmf_out_free(out);
    ck_assert_int_eq(unlink(before), 0);
}
END_TEST

/* Up to 1023 bytes a print needs no memory. */
START_TEST(a_print_may_be_of_any_length)
{
    static const int lengths[] = {0, 1021, 1022, 1023, 5000};
    char text[5001];
    size_t len;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    const char *path = in_dir("out.txt");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        kmf_out *out = kmf_out_open(path, NULL);
        ck_assert_ptr_nonnull(out);
        ck_assert_int_eq(kmf_out_print(out, NULL, "%.*s\t7", lengths[i], text), 0);
        ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
        ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
        kmf_out_free(out);
        char *found = get(path, &len);
        ck_assert_uint_eq(len, (size_t)lengths[i] + 2);
        ck_assert(memcmp(found, text, (size_t)lengths[i]) == 0);
        ck_assert_str_eq(found + lengths[i], "\t7");
        kmf_free(found);
        unlink(path);
    }
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_out_print(out, NULL, "%s", text), KMF_ENOMEM);
    kmf_out_free(out);
}
END_TEST

START_TEST(an_output_has_a_name)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_out_open("", &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the output has an empty name");
}
END_TEST

START_TEST(pairs_are_json_whatever_their_bytes)
{
    static const char *const pairs[] = {"a\xff", "\xc3\xa9", "b", "\xfe\""};
    char *text = kmf_json_pairs(pairs, 2, NULL);
    ck_assert_pstr_eq(text, "{\"a?\":\"\xc3\xa9\",\"b\":\"?\\\"\"}");
    kmf_text_free(text);
}
END_TEST

/*
 * Its windows go to disk, and out of the cache, while it is written; the head is patched at
 * last.
 */
START_TEST(a_large_file_is_written_whole)
{
    enum { N = 80 << 20, PIECE = 999983 };
    kmf_map map;
    bool same = true;
    unsigned char *bytes = malloc(N);
    ck_assert_ptr_nonnull(bytes);
    for (uint32_t i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 24);
    const char *path = in_dir("large");
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    for (size_t at = 0; at < N; at += PIECE) {
        size_t n = N - at < PIECE ? N - at : PIECE;
        if (kmf_out_write(out, bytes + at, n, NULL) != 0)
            ck_abort_msg("byte %zu", at);
    }
    memset(bytes, 7, 100);
    ck_assert_int_eq(kmf_out_patch(out, bytes, 100, NULL), 0);
    ck_assert_int_eq(kmf_out_write(out, bytes, 5, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    ck_assert_int_eq(kmf_map_open(&map, path, NULL), 0);
    ck_assert_uint_eq(map.len, N + 5);
    same = memcmp(map.bytes, bytes, N) == 0 && memcmp(map.bytes + N, bytes, 5) == 0;
    kmf_map_close(&map);
    unlink(path);
    free(bytes);
    ck_assert(same);
}
END_TEST

START_TEST(what_is_not_published_or_is_withdrawn_is_gone)
{
    const char *path = in_dir("out.txt");
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_int_eq(kmf_out_write(out, "x", 1, NULL), 0);
    kmf_out_free(out);
    ck_assert_int_eq(exists(path), 0);
    out = kmf_out_open(path, NULL);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    ck_assert_int_eq(exists(path), 1);
    kmf_out_withdraw(out);
    kmf_out_free(out);
    ck_assert_int_eq(exists(path), 0);
}
END_TEST

static const char *taken;

/* The name goes to a folder between the look at it and the rename. */
static void take_name(void)
{
    unlink(taken);
    ck_assert_int_eq(mkdir(taken, 0777), 0);
}

static void give_name(void)
{
    ck_assert_int_eq(rmdir(taken), 0);
}

static void nothing(void)
{
}

START_TEST(what_was_there_before_comes_back_when_another_file_gets_no_name)
{
    kmf_map map;
    kmf_err err = {0};
    const char *old = in_dir("old.txt");
    taken = in_dir("taken.txt");
    ck_assert_int_eq(kmf_file_save(old, "before", 6, NULL), 0);
    for (int round = 0; round < 2; round++) {
        kmf_out *out[2] = {kmf_out_open(old, NULL), kmf_out_open(taken, NULL)};
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(kmf_out_write(out[i], "after", 5, NULL), 0);
            ck_assert_int_eq(kmf_out_finish(out[i], NULL), 0);
        }
        if (round == 0)
            kmf_around_publishing(take_name, give_name);
        ck_assert_int_eq(kmf_out_publish_all(out, 2, &err), round == 0 ? KMF_EIO : 0);
        kmf_around_publishing(nothing, nothing);
        kmf_out_free(out[0]);
        kmf_out_free(out[1]);
        ck_assert_int_eq(kmf_map_open(&map, old, NULL), 0);
        ck_assert_uint_eq(map.len, round == 0 ? 6 : 5);
        ck_assert_int_eq(memcmp(map.bytes, round == 0 ? "before" : "after", map.len), 0);
        kmf_map_close(&map);
        ck_assert_int_eq(exists(taken), round);
    }
    ck_assert_ptr_nonnull(strstr(err.msg, "taken.txt: Is a directory"));
    kmf_around_publishing(NULL, NULL);
    ck_assert_int_eq(kmf_file_save(old, "x", 1, NULL), 0);
    unlink(old);
    unlink(taken);
}
END_TEST

static kmf_out *finished(const char *path)
{
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    return out;
}

/* A name must not outlast what it names: the bytes are on the disk before it is given. */
START_TEST(a_file_is_synced_before_it_has_a_name)
{
    static const char *const names[] = {"out.txt", "out.gz"};
    for (size_t i = 0; i < 4; i++) {
        char want[320];
        kmf_err err = {0};
        const char *path = in_dir(names[i % 2]);
        kmf_out *out = kmf_out_open(path, NULL);
        ck_assert_ptr_nonnull(out);
        ck_assert_int_eq(kmf_out_write(out, "x", 1, NULL), 0);
        n_files = 0;
        file_fails = i / 2 ? EIO : 0;
        ck_assert_int_eq(kmf_out_finish(out, &err), i / 2 ? KMF_EIO : 0);
        file_fails = 0;
        ck_assert_int_eq(n_files, 1);
        ck_assert_int_eq(exists(path), 0);
        snprintf(want, sizeof want, "%s: %s", path, strerror(EIO));
        ck_assert_str_eq(err.msg, i / 2 ? want : "");
        ck_assert_int_eq(kmf_out_publish(out, NULL), i / 2 ? KMF_EINVAL : 0);
        ck_assert_int_eq(n_files, 1);
        ck_assert_int_eq(exists(path), i / 2 == 0);
        kmf_out_free(out);
        unlink(path);
    }
}
END_TEST

START_TEST(a_name_lasts_since_its_folder_is_synced)
{
    static const int harmless[] = {EINVAL, ENOTSUP, EBADF};
    char message[600];
    kmf_err err = {0};
    const char *path = in_dir("out.txt");
    for (size_t i = 0; i < 2 + sizeof harmless / sizeof harmless[0]; i++) {
        kmf_out *out = finished(path);
        n_folders = 0;
        folder_fails = i == 0 ? 0 : i == 1 ? EIO : harmless[i - 2];
        ck_assert_int_eq(kmf_out_publish(out, &err), i == 1 ? KMF_EIO : 0);
        ck_assert_int_eq(n_folders, 1);
        ck_assert_int_eq(exists(path), i != 1);
        kmf_out_free(out);
        unlink(path);
    }
    snprintf(message, sizeof message, "%s: %s", dir, strerror(EIO));
    ck_assert_str_eq(err.msg, message);
    folder_fails = 0;
    n_folders = 0;
    kmf_out *out = kmf_out_open("/dev/null", NULL);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    ck_assert_int_eq(n_folders, 0);
    kmf_out_free(out);
}
END_TEST

START_TEST(names_that_may_not_last_are_withdrawn)
{
    const char *const path[] = {in_dir("new"), in_dir("older")};
    kmf_out *out[2];
    size_t len;
    ck_assert_int_eq(kmf_file_save(path[1], "before", 6, NULL), 0);
    for (size_t i = 0; i < 2; i++)
        out[i] = finished(path[i]);
    folder_fails = EIO;
    ck_assert_int_eq(kmf_out_publish_all(out, 2, NULL), KMF_EIO);
    folder_fails = 0;
    for (size_t i = 0; i < 2; i++)
        kmf_out_free(out[i]);
    ck_assert_int_eq(exists(path[0]), 0);
    char *text = get(path[1], &len);
    ck_assert_str_eq(text, "before");
    kmf_free(text);
    ck_assert_int_eq(unlink(path[1]), 0);
}
END_TEST

static void *publish_two(void *out)
{
    return kmf_out_publish_all(out, 2, NULL) == 0 ? out : NULL;
}

/* Another run is giving names: files of one name need not wait for it. */
START_TEST(files_that_belong_together_get_their_names_when_no_other_run_gives_any)
{
    const char *const path[] = {in_dir("a"), in_dir("b"), in_dir("alone")};
    kmf_out *out[3];
    pthread_t thread;
    void *done;
    for (size_t i = 0; i < 3; i++)
        out[i] = finished(path[i]);
    int other = open(in_dir("."), O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    ck_assert_int_eq(kmf_out_publish(out[2], NULL), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, publish_two, out), 0);
    usleep(50000);
    ck_assert_int_eq(exists(path[0]) + exists(path[1]), 0);
    ck_assert_int_eq(close(other), 0);
    ck_assert_int_eq(pthread_join(thread, &done), 0);
    ck_assert_ptr_eq(done, out);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(exists(path[i]), 1);
        kmf_out_free(out[i]);
        unlink(path[i]);
    }
    other = open(in_dir("."), O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(other, LOCK_EX | LOCK_NB), 0); /* none is held any longer */
    for (size_t i = 0; i < 2; i++)
        out[i] = finished(path[i]);
    ck_assert_int_eq(kmf_out_publish_all(out, 2, NULL),
                     0); /* one that stays is none of a run */
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(exists(path[i]), 1);
        kmf_out_free(out[i]);
        unlink(path[i]);
    }
    ck_assert_int_eq(close(other), 0);
}
END_TEST

START_TEST(files_that_belong_together_sync_a_folder_once)
{
    const char *folder = in_dir("far");
    const char *const path[] = {in_dir("a"), in_dir("b"), in_dir("far/c")};
    kmf_out *out[3];
    ck_assert_int_eq(mkdir(folder, 0777), 0);
    for (size_t i = 0; i < 3; i++)
        out[i] = finished(path[i]);
    n_folders = 0;
    ck_assert_int_eq(kmf_out_publish_all(out, 3, NULL), 0);
    ck_assert_int_eq(n_folders, 2);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(exists(path[i]), 1);
        kmf_out_free(out[i]);
        unlink(path[i]);
    }
    for (size_t i = 0; i < 3; i++)
        out[i] = finished(path[i]);
    ck_assert_int_eq(mkdir(path[2], 0777), 0); /* a folder now: no file gets this name */
    ck_assert_int_eq(kmf_out_publish_all(out, 3, NULL), KMF_EIO);
    for (size_t i = 0; i < 3; i++)
        kmf_out_free(out[i]);
    ck_assert_int_eq(rmdir(path[2]), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

START_TEST(a_name_without_a_folder_lies_in_the_current_one)
{
    char *here = getcwd(NULL, 0);
    ck_assert_ptr_nonnull(here);
    ck_assert_int_eq(chdir(dir), 0);
    n_folders = 0;
    ck_assert_int_eq(kmf_file_save("x", "y", 1, NULL), 0);
    ck_assert_int_eq(n_folders, 1);
    ck_assert_int_eq(unlink("x"), 0);
    ck_assert_int_eq(kmf_parent_sync("/x", NULL), 0);
    ck_assert_int_eq(n_folders, 2);
    ck_assert_int_eq(kmf_parent_sync("nowhere/x", NULL), KMF_EIO);
    ck_assert_int_eq(chdir(here), 0);
    free(here);
}
END_TEST

/* The bytes of out.gz, made of a text by so many threads, and the caller's; 0: by that alone. */
static char *pack(const char *text, size_t n, int threads, bool caller_too, size_t *len)
{
    const char *path = in_dir("out.gz");
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, NULL) : NULL;
    kmf_out *out = kmf_out_open(path, NULL);
    ck_assert_int_eq(kmf_out_write(out, text, n / 3, NULL), 0);
    if (pool)
        kmf_out_share(out, kmf_pool_handle(pool), threads, caller_too);
    ck_assert_int_eq(kmf_out_write(out, text + n / 3, n - n / 3, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    kmf_pool_free(pool);
    return kmf_file_read(path, (size_t)1 << 24, len, NULL);
}

/* zlib has the text back; any number of threads makes the same bytes, in which there is no time. */
START_TEST(names_in_gz_are_compressed)
{
    static char text[1 << 20], back[1 << 20];
    static const char no_time[] = "\x1f\x8b\x08\x04\0\0\0\0";
    size_t len, len_shared;
    const char *path = in_dir("out.gz");
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "0123456789.\t\n"[i * i * 2654435761u >> 20 & 7];
    const size_t sizes[] = {1, 9, sizeof text};
    for (int i = 0; i < 3; i++) {
        size_t n = sizes[i];
        char *packed = pack(text, n, 0, false, &len);
        ck_assert_ptr_nonnull(packed);
        ck_assert_mem_eq(packed, no_time, sizeof no_time - 1);
        gzFile gz = gzopen(path, "rb");
        ck_assert_int_eq(gzread(gz, back, sizeof back), (int)n);
        ck_assert_int_eq(gzdirect(gz), 0);
        ck_assert_int_eq(gzclose(gz), Z_OK);
        ck_assert_mem_eq(back, text, n);
        for (int way = 2; way < 8; way++) {
            char *shared = pack(text, n, way / 2, way % 2 > 0, &len_shared);
            ck_assert_uint_eq(len_shared, len);
            ck_assert_mem_eq(shared, packed, len);
            kmf_free(shared);
        }
        kmf_free(packed);
    }
    unlink(path);
}
END_TEST

START_TEST(a_whole_file_is_saved_or_not_there)
{
    size_t len;
    kmf_err err = {0};
    const char *path = in_dir("whole");
    ck_assert_int_eq(kmf_file_save(path, "abc", 3, &err), 0);
    ck_assert_int_eq(kmf_file_save(path, "defgh", 5, &err), 0); /* takes its place */
    char *text = get(path, &len);
    ck_assert_uint_eq(len, 5);
    ck_assert_str_eq(text, "defgh");
    kmf_free(text);
    unlink(path);
    ck_assert_int_eq(kmf_file_save("/dev/full", "abc", 3, &err), KMF_EIO);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_file_save(in_dir("none/whole"), "abc", 3, &err), KMF_EIO);
    ck_assert_str_ne(err.msg, "");
}
END_TEST

START_TEST(a_full_device_and_a_missing_folder_are_errors)
{
    kmf_err err = {0};
    static char block[1 << 21];
    kmf_out *out = kmf_out_open("/dev/full", &err);
    ck_assert_ptr_nonnull(out);
    int status = kmf_out_write(out, block, sizeof block, &err);
    if (status == 0)
        status = kmf_out_finish(out, &err);
    ck_assert_int_eq(status, KMF_EIO);
    ck_assert_str_eq(err.msg, "/dev/full: No space left on device");
    kmf_out_free(out);
    ck_assert_int_eq(exists("/dev/full"), 1);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_out_open("/nonexistent/x", &err));
    ck_assert_str_eq(err.msg,
                     "/nonexistent/x: No such file or directory: the folder is not there");
}
END_TEST

START_TEST(reading_has_a_limit_and_maps_only_files)
{
    size_t len;
    kmf_err err = {0};
    kmf_map map;
    const char *path = in_dir("in.txt");
    FILE *file = fopen(path, "wb");
    fputs("0123456789", file);
    fclose(file);
    char *text = kmf_file_read(path, 10, &len, &err);
    ck_assert_uint_eq(len, 10);
    kmf_free(text);
    ck_assert_ptr_null(kmf_file_read(path, 9, &len, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_file_read(dir, 10, &len, &err)); /* which can be opened */
    ck_assert_int_eq(err.code, KMF_EIO);
    for (size_t most = 9; most <= 10; most++) {
        kmf_text all = {0};
        ck_assert_int_eq(kmf_text_load(&all, path, most, NULL), most < 10 ? KMF_EMODEL : 0);
        kmf_free(all.bytes);
    }
    ck_assert_int_eq(kmf_map_open(&map, path, NULL), 0);
    ck_assert_uint_eq(map.len, 10);
    ck_assert_int_eq(memcmp(map.bytes, "0123456789", 10), 0);
    kmf_map_close(&map);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_map_open(&map, dir, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "not a regular file"));
    unlink(path);
}
END_TEST

START_TEST(sizes_do_not_wrap_and_absurd_ones_are_refused)
{
    size_t n = 7;
    kmf_err err = {0};
    ck_assert(kmf_mul(3, 5, &n) && n == 15);
    ck_assert(!kmf_mul(SIZE_MAX / 2, 3, &n) && n == 15);
    ck_assert(kmf_mul(0, SIZE_MAX, &n) && n == 0);
    ck_assert(!kmf_add(SIZE_MAX, 1, &n));
    ck_assert_ptr_null(kmf_malloc(SIZE_MAX / 4, 8, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    ck_assert_ptr_null(kmf_floats(SIZE_MAX / 2, NULL));
    ck_assert_ptr_null(kmf_floats(SIZE_MAX / 5, NULL));
    float *f = kmf_floats(3 << 20, NULL);
    ck_assert_uint_eq((uintptr_t)f % (2 << 20), 0);
    kmf_free(f);
    f = kmf_floats(3, NULL);
    ck_assert_uint_eq((uintptr_t)f % 64, 0);
    kmf_free(f);
}
END_TEST

START_TEST(the_first_error_wins_and_takes_a_prefix)
{
    kmf_err err = {0};
    ck_assert_int_eq(kmf_fail(&err, KMF_EIO, "first %d", 1), KMF_EIO);
    ck_assert_int_eq(kmf_fail(&err, KMF_EMODEL, "second"), KMF_EMODEL);
    ck_assert_int_eq(err.code, KMF_EIO);
    kmf_err_prefix(&err, "x.fa");
    ck_assert_str_eq(err.msg, "x.fa: first 1");
    memset(err.msg, 'y', sizeof err.msg - 1);
    err.msg[sizeof err.msg - 1] = '\0';
    kmf_err_prefix(&err, "x.fa");
    ck_assert_uint_eq(strlen(err.msg), sizeof err.msg - 1);
    ck_assert_int_eq(strncmp(err.msg, "x.fa: yyy", 9), 0);
    kmf_err_prefix(NULL, "x");
}
END_TEST

/* One that leaves no room for anything behind it is left out. */
START_TEST(a_prefix_of_any_length_stays_in_its_message)
{
    enum { ROOM = sizeof((kmf_err *)0)->msg - 1 };
    char prefix[ROOM + 4], want[ROOM + 10];
    for (size_t n = ROOM - 8; n < sizeof prefix; n++) {
        kmf_err err = {0};
        memset(prefix, 'x', n);
        prefix[n] = '\0';
        snprintf(want, sizeof want, "%s: why", prefix);
        want[ROOM] = '\0';
        kmf_fail(&err, KMF_EIO, "why");
        kmf_err_prefix(&err, prefix);
        ck_assert_str_eq(err.msg, n + 2 <= ROOM ? want : "why");
    }
}
END_TEST

START_TEST(what_is_shown_has_its_room)
{
    char text[2 * KMF_ERR_SHOW], buf[2 * KMF_ERR_SHOW];
    for (size_t n = 0; n < sizeof text; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        memset(buf, '!', sizeof buf);
        kmf_err_show(buf, text);
        ck_assert_int_eq(buf[KMF_ERR_SHOW], '!');
        if (n + 4 <= KMF_ERR_SHOW)
            ck_assert_str_eq(buf, text);
        else
            ck_assert(strlen(buf) + 1 == KMF_ERR_SHOW &&
                      strcmp(buf + strlen(buf) - 3, "...") == 0);
    }
}
END_TEST

START_TEST(a_message_is_one_line_for_a_terminal)
{
    kmf_err err = {0};
    kmf_fail(&err, KMF_EIO, "a\nb\x1b[1m \xc3\xa9");
    kmf_err_prefix(&err, "x\r\x7f.fa");
    ck_assert_str_eq(err.msg, "x??.fa: a?b?[1m \xc3\xa9");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("io");
    tcase_add_checked_fixture(tcase, make_dir, remove_empty_dir);
    tcase_add_test(tcase, a_file_has_its_name_only_once_published);
    tcase_add_test(tcase, what_is_put_lies_where_it_belongs);
    tcase_add_test(tcase, an_output_is_finished_once);
    tcase_add_test(tcase, a_provenance_is_an_object);
    tcase_add_test(tcase, json_has_64_levels);
    tcase_add_test(tcase, reals_of_json_are_short);
    tcase_add_test(tcase, a_row_that_float16_cannot_hold_is_left_out);
    tcase_add_test(tcase, a_temporary_file_of_another_process_is_left_alone);
    tcase_add_test(tcase, a_handler_removes_files_and_then_their_folders);
    tcase_add_test(tcase, what_takes_the_place_of_a_file_has_its_permissions);
    tcase_add_test(tcase, a_handler_removes_what_comes_after_many_others);
    tcase_add_test(tcase, a_print_may_be_of_any_length);
    tcase_add_test(tcase, what_is_not_published_or_is_withdrawn_is_gone);
    tcase_add_test(tcase, what_was_there_before_comes_back_when_another_file_gets_no_name);
    tcase_add_test(tcase, a_file_is_synced_before_it_has_a_name);
    tcase_add_test(tcase, a_name_lasts_since_its_folder_is_synced);
    tcase_add_test(tcase, names_that_may_not_last_are_withdrawn);
    tcase_add_test(tcase,
                   files_that_belong_together_get_their_names_when_no_other_run_gives_any);
    tcase_add_test(tcase, files_that_belong_together_sync_a_folder_once);
    tcase_add_test(tcase, a_name_without_a_folder_lies_in_the_current_one);
    tcase_add_test(tcase, names_in_gz_are_compressed);
    tcase_add_test(tcase, a_full_device_and_a_missing_folder_are_errors);
    tcase_add_test(tcase, reading_has_a_limit_and_maps_only_files);
    tcase_add_test(tcase, an_output_has_a_name);
    tcase_add_test(tcase, pairs_are_json_whatever_their_bytes);
    tcase_add_test(tcase, a_large_file_is_written_whole);
    tcase_add_test(tcase, a_whole_file_is_saved_or_not_there);
    tcase_add_test(tcase, sizes_do_not_wrap_and_absurd_ones_are_refused);
    tcase_add_test(tcase, the_first_error_wins_and_takes_a_prefix);
    tcase_add_test(tcase, a_prefix_of_any_length_stays_in_its_message);
    tcase_add_test(tcase, what_is_shown_has_its_room);
    tcase_add_test(tcase, a_message_is_one_line_for_a_terminal);
    return run_case("io", tcase);
}
