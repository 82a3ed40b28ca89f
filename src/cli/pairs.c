/* SPDX-License-Identifier: MIT */
/* What lies beside an output: names and texts, gathered one by one, as a JSON object. */
#include "cli/cli.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* text NULL: there was no memory for it. */
static void take(cli_pairs *p, const char *name, char *text)
{
    assert(p->n < CLI_PAIRS_MAX);
    p->texts[p->n] = text;
    p->pairs[2 * p->n] = name;
    p->pairs[2 * p->n + 1] = text;
    p->lost = p->lost || !text;
    p->n++;
}

void cli_pair(cli_pairs *p, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n >= 0 ? malloc((size_t)n + 1) : NULL;
    va_start(args, format);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    take(p, name, text);
}

void cli_pair_lines(cli_pairs *p, const char *name, const char *const *lines, size_t n)
{
    size_t cap = 1;
    for (size_t i = 0; i < n; i++)
        cap += strlen(lines[i]) + 1;
    char *text = malloc(cap);
    char *at = text;
    if (text)
        *at = '\0';
    for (size_t i = 0; text && i < n; i++)
        at += sprintf(at, "%s%s", i ? "\n" : "", lines[i]);
    take(p, name, text);
}

char *cli_pairs_text(cli_pairs *p, kmf_err *err)
{
    char *text = NULL;
    if (p->lost)
        cli_raise(err, KMF_ENOMEM, "out of memory");
    else
        text = kmf_json_pairs(p->pairs, p->n, err);
    for (size_t i = 0; i < p->n; i++)
        free(p->texts[i]);
    *p = (cli_pairs){0};
    return text;
}
