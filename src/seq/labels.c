/* SPDX-License-Identifier: MIT */
/*
 * The whole file is held in memory, cut into its texts, which are found by bisection:
 *
 *     text      r 1 \0 b a c t e r i a \0 r 2 \0 ...
 *     entries   {name, label, line}, sorted by name
 */
#include "seq/labels.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/input.h"
#include "seq/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name; /* borrowed from the text, as label */
    const char *label;
    uint64_t line;
} entry;

struct kmf_labels {
    const char *path; /* borrowed while it is loaded; for messages */
    kmf_text text;    /* owned */
    entry *entries;   /* owned [n] */
    size_t n, cap;
    bool begun; /* a line was neither blank nor a comment */
};

/* One line, which is cut into its texts. */
static int add_line(kmf_labels *l, char *line, char *end, uint64_t number, kmf_err *err)
{
    if (end > line && end[-1] == '\r')
        end--;
    *end = '\0';
    if (line + strspn(line, " \t") == end || *line == '#')
        return 0;
    char *tab = memchr(line, '\t', (size_t)(end - line));
    if (!tab || strlen(line) != (size_t)(end - line))
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": must be a name, a tab and a label", l->path,
                        number);
    char *label = tab + 1;
    *tab = '\0';
    label[strcspn(label, "\t")] = '\0';
    bool header = !l->begun && strcmp(line, "name") == 0 && strcmp(label, "label") == 0;
    l->begun = true;
    if (header || *label == '\0')
        return 0;
    if (kmf_grow(&l->entries, &l->cap, l->n + 1, sizeof *l->entries, err) < 0)
        return KMF_ENOMEM;
    l->entries[l->n++] = (entry){line, label, number};
    return 0;
}

static int add_lines(kmf_labels *l, kmf_err *err)
{
    char *stop = l->text.bytes + l->text.len;
    uint64_t number = 1;
    char *line = l->text.bytes + kmf_byte_order_mark(l->text.bytes, l->text.len);
    for (; line < stop; number++) {
        char *end = memchr(line, '\n', (size_t)(stop - line));
        if (!end)
            end = stop;
        int status = add_line(l, line, end, number, err);
        if (status < 0)
            return status;
        line = end + 1;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int check_names(const kmf_labels *l, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    for (size_t i = 1; i < l->n; i++) {
        const entry *e = &l->entries[i];
        if (strcmp(e[-1].name, e->name) == 0 && strcmp(e[-1].label, e->label) != 0)
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: line %" PRIu64 ": '%s' has another label on line %" PRIu64,
                            l->path, e->line, kmf_err_show(shown, e->name), e[-1].line);
    }
    return 0;
}

kmf_labels *kmf_labels_load(const char *path, kmf_err *err)
{
    kmf_labels *l = kmf_calloc(1, sizeof *l, err);
    if (!l)
        return NULL;
    l->path = kmf_input_name(path);
    int status = kmf_text_load(&l->text, path, SIZE_MAX, err);
    if (status == 0)
        status = add_lines(l, err);
    if (l->n > 1)
        qsort(l->entries, l->n, sizeof *l->entries, by_name);
    if (status == 0)
        status = check_names(l, err);
    l->path = NULL;
    if (status == 0)
        return l;
    kmf_labels_free(l);
    return NULL;
}

void kmf_labels_free(kmf_labels *labels)
{
    if (!labels)
        return;
    kmf_free(labels->text.bytes);
    kmf_free(labels->entries);
    kmf_free(labels);
}

static int compare_name(const void *name, const void *element)
{
    return strcmp(name, ((const entry *)element)->name);
}

const char *kmf_labels_find(const kmf_labels *labels, const char *name)
{
    const entry *e = labels->n == 0 ? NULL
                                    : bsearch(name, labels->entries, labels->n,
                                              sizeof *labels->entries, compare_name);
    return e ? e->label : NULL;
}
