/* SPDX-License-Identifier: MIT */
/*
 * Options by table, on top of getopt_long: the table is turned into getopt's form, its rows check
 * ranges, and the same rows print the help with the defaults as they are.
 */
#define _GNU_SOURCE /* getopt_long */
#include "cli/cli.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 96
#define LONG_BASE 1000 /* getopt's value of row i's long name */
#define HELP_COLUMN 30
#define HELP_WIDTH 92

static bool takes_argument(const cli_option *row)
{
    return row->kind != CLI_FLAG && row->kind != CLI_HELP && row->kind != CLI_SECTION;
}

/* ---------------------------------------------------------------- help ------------------ */

static void default_text(const cli_option *row, char *text, size_t cap)
{
    long long value = 0;
    text[0] = '\0';
    switch (row->kind) {
    case CLI_INT:
    case CLI_CHOICE:
        value = *(const int *)row->target;
        break;
    case CLI_SIZE:
        value = (long long)*(const size_t *)row->target;
        break;
    case CLI_COUNT:
    case CLI_BYTES:
    case CLI_SEED:
        value = (long long)*(const uint64_t *)row->target;
        break;
    case CLI_REAL: {
        double real = *(const double *)row->target;
        if (row->unset_text && fabs(real - (double)row->unset) <= 0)
            snprintf(text, cap, " [%s]", row->unset_text);
        else
            snprintf(text, cap, " [%g]", real);
        return;
    }
    case CLI_TEXT:
    case CLI_ONCE: {
        const char *s = *(const char *const *)row->target;
        if (s || row->unset_text)
            snprintf(text, cap, " [%s]", s ? s : row->unset_text);
        return;
    }
    case CLI_LIST:
        if (row->unset_text)
            snprintf(text, cap, " [%s]", row->unset_text);
        return;
    case CLI_FLAG:
    case CLI_HELP:
    case CLI_SECTION:
        return;
    }
    if (row->unset_text && value == row->unset)
        snprintf(text, cap, " [%s]", row->unset_text);
    else if (row->kind == CLI_CHOICE)
        snprintf(text, cap, " [%s]", row->words[value]);
    else
        snprintf(text, cap, " [%lld]", value);
}

/* Words joined by '|'. */
static void choice_text(const cli_option *row, char *text, size_t cap)
{
    size_t n = 0;
    for (int i = 0; row->words[i] && n < cap; i++)
        n += (size_t)snprintf(text + n, cap - n, "%s%s", i ? "|" : "", row->words[i]);
}

static void print_wrapped(const char *text, int column)
{
    int width = HELP_WIDTH - HELP_COLUMN;
    if (column >= HELP_COLUMN) {
        printf("\n");
        column = 0;
    }
    printf("%*s", HELP_COLUMN - column, "");
    while ((int)strlen(text) > width) {
        int n = width;
        while (n > 0 && text[n] != ' ')
            n--;
        printf("%.*s\n%*s", n, text, HELP_COLUMN, "");
        text += n + 1;
    }
    printf("%s\n", text);
}

static void print_option(const cli_option *row)
{
    char choices[96];
    char fallback[160];
    char help[512];
    const char *arg = row->arg;
    if (row->kind == CLI_SECTION) {
        printf("\n%s:\n", row->name);
        return;
    }
    if (row->kind == CLI_CHOICE) {
        choice_text(row, choices, sizeof choices);
        arg = choices;
    }
    int column = row->shorts ? printf("  -%c, ", row->shorts[0]) : printf("      ");
    for (int i = 1; row->shorts && row->shorts[i]; i++)
        column += printf("-%c, ", row->shorts[i]);
    column += printf("--%s%s%s", row->name, arg ? " " : "", arg ? arg : "");
    default_text(row, fallback, sizeof fallback);
    snprintf(help, sizeof help, "%s%s", row->help, fallback);
    print_wrapped(help, column);
}

static void print_help(const cli_option *table, const cli_usage *usage)
{
    printf("usage: kmerformer %s\n\n%s\n", usage->synopsis, usage->text);
    if (table[0].kind != CLI_SECTION)
        printf("\n");
    for (const cli_option *row = table; row->name; row++)
        print_option(row);
}

/* ---------------------------------------------------------------- values ---------------- */

#define KILO 1000     /* of what is counted */
#define KILOBYTE 1024 /* of memory */

/* What K, M, G or T behind a number stands for: a power of kilo; 0: the letter is none of them. */
static long long unit_of(char letter, long long kilo)
{
    static const char units[] = "KMGT";
    const char *unit = letter ? strchr(units, toupper((unsigned char)letter)) : NULL;
    long long size = unit ? kilo : 0;
    for (; unit && unit > units; unit--)
        size *= kilo;
    return size;
}

static int parse_number(const cli *run, const cli_option *row, const char *text,
                        long long *value)
{
    char *end;
    bool bytes = row->kind == CLI_BYTES;
    bool units = bytes || row->kind == CLI_SIZE || row->kind == CLI_COUNT;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    bool large = errno == ERANGE;
    bool good = end != text && errno == 0;
    if (good && units && *end != '\0') {
        long long unit = unit_of(*end, bytes ? KILOBYTE : KILO);
        bool whole = unit > 0 && end[1] == '\0' && n >= 0;
        large = large || (whole && n > INT64_MAX / unit);
        good = whole && !large;
        n = good ? n * unit : n;
    } else {
        good = good && *end == '\0';
    }
    if (large)
        return cli_wrong(run, "--%s: '%s' is too large a number", row->name, text);
    if (!good)
        return cli_wrong(run, "--%s: '%s' is not a whole number%s", row->name, text,
                         units ? ", nor one with K, M, G or T after it" : "");
    if (n < row->min || n > row->max)
        return cli_wrong(run, "--%s: must be between %lld and %lld, got %lld", row->name,
                         row->min, row->max, n);
    *value = n;
    return -1;
}

static int parse_seed(const cli *run, const cli_option *row, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0)
        return cli_wrong(run, "--%s: '%s' is not a whole number from 0 to 2^64 - 1", row->name,
                         text);
    *(uint64_t *)row->target = n;
    return -1;
}

static int parse_real(const cli *run, const cli_option *row, const char *text)
{
    char *end;
    errno = 0;
    double x = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(x >= 0 && isfinite(x)))
        return cli_wrong(run, "--%s: '%s' is not a number of 0 or more", row->name, text);
    *(double *)row->target = x;
    return -1;
}

static int parse_choice(const cli *run, const cli_option *row, const char *text)
{
    char choices[96];
    for (int i = 0; row->words[i]; i++)
        if (strcmp(row->words[i], text) == 0) {
            *(int *)row->target = i;
            return -1;
        }
    choice_text(row, choices, sizeof choices);
    return cli_wrong(run, "--%s: must be one of %s, got '%s'", row->name, choices, text);
}

static int append(const cli *run, const cli_option *row, const char *text)
{
    cli_list *list = row->target;
    if (list->n == CLI_LIST_MAX)
        return cli_wrong(run, "--%s: at most %d times", row->name, CLI_LIST_MAX);
    list->texts[list->n++] = text;
    return -1;
}

static int store(const cli *run, const cli_option *row, const char *text)
{
    long long value = 0;
    int leave = -1;
    bool is_text = row->kind == CLI_TEXT || row->kind == CLI_ONCE || row->kind == CLI_LIST;
    if (is_text && text[0] == '\0') /* as where a script's variable is not set */
        return cli_wrong(run, "--%s: its value is empty", row->name);
    switch (row->kind) {
    case CLI_FLAG:
        *(int *)row->target = 1;
        break;
    case CLI_INT:
        leave = parse_number(run, row, text, &value);
        if (leave < 0)
            *(int *)row->target = (int)value;
        break;
    case CLI_SIZE:
        leave = parse_number(run, row, text, &value);
        if (leave < 0)
            *(size_t *)row->target = (size_t)value;
        break;
    case CLI_COUNT:
    case CLI_BYTES:
        leave = parse_number(run, row, text, &value);
        if (leave < 0)
            *(uint64_t *)row->target = (uint64_t)value;
        break;
    case CLI_SEED:
        leave = parse_seed(run, row, text);
        break;
    case CLI_REAL:
        leave = parse_real(run, row, text);
        break;
    case CLI_CHOICE:
        leave = parse_choice(run, row, text);
        break;
    case CLI_TEXT:
    case CLI_ONCE:
        *(const char **)row->target = text;
        break;
    case CLI_LIST:
        leave = append(run, row, text);
        break;
    case CLI_HELP:
    case CLI_SECTION:
        break;
    }
    return leave;
}

const char *cli_read_count(const char *text, uint64_t limit, bool units, uint64_t *n)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return NULL;
    errno = 0;
    *n = strtoull(text, &end, 10);
    uint64_t unit = units ? (uint64_t)unit_of(*end, KILO) : 0;
    if (errno != 0 || (unit > 0 && *n > UINT64_MAX / unit))
        return NULL;
    *n *= unit > 0 ? unit : 1;
    return *n <= limit ? end + (unit > 0) : NULL;
}

const char *cli_read_range(const char *text, uint64_t limit, bool units, uint64_t *first,
                           uint64_t *last)
{
    const char *end = cli_read_count(text, limit, units, first);
    if (!end)
        return NULL;
    *last = *first;
    return *end == '-' ? cli_read_count(end + 1, limit, units, last) : end;
}

/* ---------------------------------------------------------------- parsing --------------- */

static const cli_option *find_short(const cli_option *table, int letter)
{
    for (const cli_option *row = table; row->name; row++)
        if (row->shorts && strchr(row->shorts, letter))
            return row;
    return NULL;
}

static void to_getopt(const cli_option *table, char *shorts, struct option *longs)
{
    char *p = shorts;
    int n = 0;
    *p++ = ':'; /* a missing argument is told apart */
    for (int i = 0; table[i].name; i++) {
        const cli_option *row = &table[i];
        assert(i + 1 < OPTIONS_MAX);
        if (row->kind == CLI_SECTION)
            continue;
        int has_arg = takes_argument(row) ? required_argument : no_argument;
        for (const char *s = row->shorts; s && *s; s++) {
            *p++ = *s;
            if (has_arg)
                *p++ = ':';
        }
        longs[n++] = (struct option){row->name, has_arg, NULL, LONG_BASE + i};
    }
    *p = '\0';
    longs[n] = (struct option){0};
}

/* Refuses "--word" or "--word=value", which is no option or the beginning of several. */
static int unknown(const cli *run, const struct option *longs, const char *arg)
{
    const char *word = arg + strspn(arg, "-");
    cli_suggestion meant = {.typed = word, .len = strcspn(word, "="), .mark = "--"};
    int begin_so = 0;
    for (const struct option *o = longs; o->name; o++) {
        begin_so += strncmp(o->name, word, meant.len) == 0;
        cli_suggest(&meant, o->name);
    }
    return cli_wrong(run, "%s: %s option%s; see kmerformer %s --help", arg,
                     begin_so > 1 ? "ambiguous" : "unknown", meant.text, run->command);
}

int cli_parse(cli *run, const cli_option *table, const cli_usage *usage, int argc, char **argv)
{
    char shorts[4 * OPTIONS_MAX];
    struct option longs[OPTIONS_MAX];
    bool given[OPTIONS_MAX] = {false};
    int got;
    to_getopt(table, shorts, longs);
    opterr = 0;
    optind = 0;
    for (;;) {
        got = getopt_long(argc, argv, shorts, longs, NULL);
        if (got == -1)
            break;
        if (got == ':')
            return cli_wrong(run, "%s: needs a value", argv[optind - 1]);
        if (got == '?') {
            if (optopt > 0 && optopt < LONG_BASE)
                return cli_wrong(run, "unknown option -%c; see kmerformer %s --help", optopt,
                                 run->command);
            if (optopt < 0) /* a part of a letter: which word it was in is not told */
                return cli_wrong(run,
                                 "unknown option that is no ASCII; see kmerformer %s --help",
                                 run->command);
            if (optopt >= LONG_BASE)
                return cli_wrong(run, "%s: takes no value; see kmerformer %s --help",
                                 argv[optind - 1], run->command);
            return unknown(run, longs, argv[optind - 1]);
        }
        const cli_option *row =
            got >= LONG_BASE ? &table[got - LONG_BASE] : find_short(table, got);
        if (row->kind == CLI_HELP) {
            print_help(table, usage);
            return cli_close_stdout(run);
        }
        if (row->kind == CLI_ONCE && given[row - table])
            return cli_wrong(run, "--%s %s: it is given twice", row->name, optarg);
        given[row - table] = true;
        int leave = store(run, row, optarg);
        if (leave >= 0)
            return leave;
    }
    int n = argc - optind;
    run->inputs = (const char *const *)(argv + optind);
    run->n_inputs = (size_t)n;
    if (n < usage->min_inputs)
        return cli_wrong(run, "%s; usage: kmerformer %s",
                         n == 0 ? "no input given" : "an argument is missing", usage->synopsis);
    if (usage->max_inputs >= 0 && n > usage->max_inputs)
        return cli_wrong(run, "unexpected argument '%s'; usage: kmerformer %s",
                         argv[optind + usage->max_inputs], usage->synopsis);
    for (int i = optind; i < argc; i++)
        if (argv[i][0] == '\0')
            return cli_wrong(run, "an argument is empty; usage: kmerformer %s",
                             usage->synopsis);
    return -1;
}
