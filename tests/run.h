/* SPDX-License-Identifier: MIT */
/* The end of every test program's main. */
#ifndef RUN_H
#define RUN_H

#include <check.h>
#include <stdlib.h>

/* Runs the suite and frees it; the exit status. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
