/* SPDX-License-Identifier: MIT */
/* The beginning and end of every test program's main, and a check for long loops. */
#ifndef RUN_H
#define RUN_H

#include <check.h>
#include <stdlib.h>

/*
 * As ck_assert, which writes to a file each time, whether the condition holds or not: for what is
 * asked a hundred thousand times.
 */
#define quick_assert(condition) quick_assert_msg(condition, "%s", #condition)
#define quick_assert_msg(condition, ...) \
    do {                                 \
        if (!(condition))                \
            ck_abort_msg(__VA_ARGS__);   \
    } while (0)

/* A case whose tests may take any time. */
static inline TCase *untimed_case(void)
{
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 0);
    return tcase;
}

/* Runs the suite and frees it; the exit status. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* Runs a suite of one case. */
static inline int run_case(const char *name, TCase *tcase)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}

#endif
