/* SPDX-License-Identifier: MIT */
/* The processor's level: what is asked for by name, and what alternate signal stacks allow. */
#define _DEFAULT_SOURCE /* sigaltstack */
#include "levels.h"

#include "base/cpu.h"
#include "run.h"

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SMALL = 8192, LARGE = 65536 }; /* the tiles alone are 8 KB */

static volatile sig_atomic_t taken;

static void take(int number)
{
    (void)number;
    taken = 1;
}

/* Prints the level of a process whose alternate stack is this large, and takes a signal on it. */
static const char *level_beside(size_t bytes)
{
    static char stack[LARGE];
    struct sigaction action = {.sa_handler = take, .sa_flags = SA_ONSTACK};
    stack_t alternate = {.ss_sp = stack, .ss_size = bytes};
    if (bytes > 0 &&
        (sigaltstack(&alternate, NULL) < 0 || sigaction(SIGUSR1, &action, NULL) < 0))
        return "no alternate stack";
    printf("%s", kmf_cpu_name(kmf_cpu_level()));
    taken = bytes == 0;
    if (bytes > 0)
        raise(SIGUSR1);
    return taken ? NULL : "the signal was not taken";
}

static const char *level(void)
{
    return level_beside(0);
}

static const char *small_stack(void)
{
    return level_beside(SMALL);
}

static const char *large_stack(void)
{
    return level_beside(LARGE);
}

static const levels_part parts[] = {
    {"level", level}, {"small_stack", small_stack}, {"large_stack", large_stack}};

static int number_of(const char *name)
{
    for (int i = 0; i < KMF_N_CPU; i++)
        if (strcmp(name, kmf_cpu_name((kmf_cpu)i)) == 0)
            return i;
    ck_abort_msg("%s is no level", name);
    return -1;
}

/* Linux's own word for it. */
static bool has_avxvnni(void)
{
    char line[8192];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strncmp(line, "flags", 5) == 0 && strstr(line, " avx_vnni ");
    if (file)
        fclose(file);
    return found;
}

START_TEST(a_level_is_lowered_by_its_name_and_never_raised)
{
    char own[256] = "", said[256] = "", setting[64];
    levels_run("level", "", own);
    snprintf(setting, sizeof setting, "KMERFORMER_CPU=%s", kmf_cpu_name((kmf_cpu)_i));
    levels_run("level", setting, said);
    int expected = number_of(own) < _i ? number_of(own) : _i;
    if (expected == KMF_CPU_AVXVNNI && !has_avxvnni()) {
        printf("skip: without AVX-VNNI whatever is tested at its level is tested by AVX2\n");
        expected = KMF_CPU_AVX2;
    }
    ck_assert_int_eq(number_of(said), expected);
}
END_TEST

START_TEST(an_unknown_level_changes_nothing)
{
    char own[256] = "", said[256] = "";
    levels_run("level", "", own);
    levels_run("level", "KMERFORMER_CPU=tiles", said);
    ck_assert_str_eq(said, own);
}
END_TEST

/* Linux gives no tiles to a process with an alternate stack that could not hold them. */
START_TEST(tiles_are_left_alone_where_a_signal_stack_has_no_room_for_them)
{
    char own[256] = "", said[256] = "";
    levels_run("level", "", own);
    levels_run("large_stack", "", said);
    ck_assert_str_eq(said, own);
    if (strcmp(own, "amx") != 0) {
        printf("skip: this processor has no tile registers, or may not use them\n");
        return;
    }
    said[0] = '\0';
    levels_run("small_stack", "", said);
    ck_assert_str_eq(said, "bf16");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, a_level_is_lowered_by_its_name_and_never_raised, 0, KMF_N_CPU);
    tcase_add_test(tcase, an_unknown_level_changes_nothing);
    tcase_add_test(tcase, tiles_are_left_alone_where_a_signal_stack_has_no_room_for_them);
    return run_case("cpu", tcase);
}
