/* SPDX-License-Identifier: MIT */
/* What a mistyped word was meant to be. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#define LONGEST 31

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * Letters to add, leave out, replace, or swap with the next one, that turn `a` into `b`, each place
 * being changed once (optimal string alignment; Damerau 1964, doi:10.1145/363958.363994). Both are
 * of at most LONGEST letters.
 */
static size_t mistakes(const char *a, size_t len_a, const char *b, size_t len_b)
{
    size_t rows[3][LONGEST + 1]; /* of the last three prefixes of a */
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= len_b; j++)
        row[j] = j;
    for (size_t i = 1; i <= len_a; i++) {
        size_t *oldest = before;
        before = above;
        above = row;
        row = oldest;
        row[0] = i;
        for (size_t j = 1; j <= len_b; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[len_b];
}

void cli_suggest(cli_suggestion *best, const char *name)
{
    size_t len = strlen(name);
    if (best->len > LONGEST || len > LONGEST)
        return;
    size_t n = mistakes(best->typed, best->len, name, len);
    if (n <= best->len / 3 && (best->text[0] == '\0' || n < best->mistakes)) {
        best->mistakes = n;
        snprintf(best->text, sizeof best->text, " (is %s%s meant?)", best->mark, name);
    }
}
