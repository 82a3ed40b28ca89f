/* SPDX-License-Identifier: MIT */
#include "embed/basespans.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static int compare_begins(const void *a, const void *b)
{
    const kmf_base_span *x = a, *y = b;
    return (x->beg > y->beg) - (x->beg < y->beg);
}

int kmf_base_spans_make(kmf_base_spans *spans, const kmf_base_span *given, size_t n,
                        kmf_err *err)
{
    *spans = (kmf_base_spans){0};
    for (size_t i = 0; i < n; i++)
        if (!given || given[i].beg >= given[i].end)
            return kmf_fail(err, KMF_EINVAL, "span %zu holds no base", i);
    spans->list = kmf_malloc(n, sizeof *spans->list, err);
    if (!spans->list)
        return KMF_ENOMEM;
    if (n > 0)
        memcpy(spans->list, given, n * sizeof *given);
    qsort(spans->list, n, sizeof *spans->list, compare_begins);
    for (size_t i = 0; i < n; i++) {
        kmf_base_span next = spans->list[i];
        kmf_base_span *last = spans->n > 0 ? &spans->list[spans->n - 1] : NULL;
        if (!last || next.beg > last->end)
            spans->list[spans->n++] = next;
        else if (next.end > last->end)
            last->end = next.end;
    }
    return 0;
}

void kmf_base_spans_free(kmf_base_spans *spans)
{
    kmf_free(spans->list);
    *spans = (kmf_base_spans){0};
}

/* For bsearch: 0, they share a base. */
static int compare_spans(const void *a, const void *b)
{
    const kmf_base_span *x = a, *y = b;
    return (x->beg >= y->end) - (y->beg >= x->end);
}

bool kmf_base_spans_meet(const kmf_base_spans *spans, uint64_t beg, uint64_t end)
{
    const kmf_base_span bases = {beg, end};
    return spans->n == 0 ||
           bsearch(&bases, spans->list, spans->n, sizeof *spans->list, compare_spans);
}
