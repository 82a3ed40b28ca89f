/* SPDX-License-Identifier: MIT */
/* Second source: copies in memory of what was written; the folder as readdir shows it. */
#include "base/spill.h"

#include "files.h"
#include "run.h"

#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

static int n_files(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

START_TEST(what_is_appended_can_be_read_and_mapped_and_has_no_name)
{
    kmf_err err = {0};
    kmf_map map;
    unsigned char bytes[100];
    unsigned char got[100];
    uint64_t offsets[100];
    kmf_spill *s = kmf_spill_new(dir, &err);
    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(n_files(), 0);
    for (size_t i = 0; i < 100; i++) {
        memset(bytes, (int)i, i);
        ck_assert_int_eq(kmf_spill_append(s, bytes, i, &offsets[i], &err), 0);
        ck_assert_uint_eq(offsets[i] % 8, 0);
    }
    ck_assert_int_eq(kmf_spill_map(s, &map, &err), 0);
    ck_assert_uint_eq(map.len, kmf_spill_size(s));
    for (size_t i = 0; i < 100; i++) {
        memset(bytes, (int)i, i);
        ck_assert_int_eq(kmf_spill_read(s, offsets[i], got, i, &err), 0);
        ck_assert_mem_eq(got, bytes, i);
        ck_assert_mem_eq(map.bytes + offsets[i], bytes, i);
    }
    /* what was never written is not read */
    ck_assert_int_eq(kmf_spill_read(s, kmf_spill_size(s) - 8, got, 16, &err), KMF_EIO);
    ck_assert_int_eq(n_files(), 0);
    kmf_spill_free(s);
    ck_assert_uint_eq(map.bytes[offsets[99]], 99);
    kmf_map_close(&map);
}
END_TEST

START_TEST(nothing_appended_maps_to_nothing)
{
    kmf_err err = {0};
    kmf_map map;
    kmf_spill *s = kmf_spill_new(dir, &err);
    ck_assert_ptr_nonnull(s);
    ck_assert_int_eq(kmf_spill_map(s, &map, &err), 0);
    ck_assert_uint_eq(map.len, 0);
    kmf_map_close(&map);
    kmf_spill_free(s);
}
END_TEST

START_TEST(the_folder_is_that_of_the_variable_if_none_is_given)
{
    kmf_err err = {0};
    setenv("TMPDIR", "/nonexistent/a", 1);
    ck_assert_ptr_null(kmf_spill_new(NULL, &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/a"));
    unsetenv("TMPDIR");
    kmf_spill *s = kmf_spill_new(NULL, NULL);
    ck_assert_ptr_nonnull(s);
    kmf_spill_free(s);
}
END_TEST

START_TEST(a_full_disk_is_an_error_that_names_the_folder)
{
    static unsigned char bytes[1 << 16];
    struct rlimit limit = {1 << 15, 1 << 15};
    uint64_t offset;
    kmf_err err = {0};
    kmf_spill *s = kmf_spill_new(dir, &err);
    ck_assert_ptr_nonnull(s);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int status = kmf_spill_append(s, bytes, sizeof bytes, &offset, &err);
    kmf_spill_free(s);
    ck_assert_int_eq(status, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, dir));
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("spill");
    tcase_add_checked_fixture(c, make_dir, remove_empty_dir);
    tcase_add_test(c, what_is_appended_can_be_read_and_mapped_and_has_no_name);
    tcase_add_test(c, nothing_appended_maps_to_nothing);
    tcase_add_test(c, the_folder_is_that_of_the_variable_if_none_is_given);
    tcase_add_test(c, a_full_disk_is_an_error_that_names_the_folder);
    return run_case("spill", c);
}
