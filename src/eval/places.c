/* SPDX-License-Identifier: MIT */
/*
 * Places that names tell, as tiles and regions are called: record:beg-end, 1-based and inclusive,
 * with (-) behind those of the other strand. Of the places in order of their beginning, one to test
 * meets one to train that begins no later where the greatest end so far is behind its beginning,
 * and one that begins later where the next beginning is before its end.
 */
#include "base/mem.h"
#include "base/number.h"
#include "kmerformer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    const char *name;   /* borrowed; the record's is its beginning */
    size_t n_record;    /* letters of that */
    uint64_t beg, last; /* bases, from 1 */
    bool test, meets;
} place;

static bool read_place(place *p, const char *name)
{
    const char *colon = strrchr(name, ':');
    const char *at = colon ? kmf_read_digits(colon + 1, &p->beg) : NULL;
    at = at && *at == '-' ? kmf_read_digits(at + 1, &p->last) : NULL;
    p->name = name;
    p->n_record = colon ? (size_t)(colon - name) : 0;
    return at && (*at == '\0' || strcmp(at, "(-)") == 0) && p->n_record > 0 && p->beg > 0 &&
           p->beg <= p->last;
}

static bool is_of_record(const place *p, const place *other)
{
    return p->n_record == other->n_record && memcmp(p->name, other->name, p->n_record) == 0;
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = memcmp(x->name, y->name, kmf_min(x->n_record, y->n_record));
    if (order == 0 && x->n_record != y->n_record)
        order = x->n_record < y->n_record ? -1 : 1;
    return order != 0 ? order : (x->beg > y->beg) - (x->beg < y->beg);
}

static void find_meetings(place *list, size_t n)
{
    uint64_t last = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && !is_of_record(&list[i], &list[i - 1]))
            last = 0;
        list[i].meets = list[i].test && list[i].beg <= last;
        if (!list[i].test && list[i].last > last)
            last = list[i].last;
    }
    uint64_t next = UINT64_MAX;
    for (size_t i = n; i-- > 0;) {
        if (i + 1 < n && !is_of_record(&list[i], &list[i + 1]))
            next = UINT64_MAX;
        list[i].meets = list[i].meets || (list[i].test && list[i].last >= next);
        if (!list[i].test)
            next = list[i].beg;
    }
}

int kmf_samples_overlap(const kmf_samples *samples, const kmf_samples_info *info, size_t *n,
                        const char **name, kmf_err *err)
{
    size_t n_places = 0;
    place *list = kmf_malloc(info->n + 1, sizeof *list, err);
    *n = 0;
    *name = NULL;
    if (!list)
        return KMF_ENOMEM;
    for (size_t i = 0; i < info->n; i++) {
        kmf_sample sample;
        bool test = i >= info->test && i < info->test + info->n_test;
        kmf_samples_get(samples, i, &sample);
        if ((test || i < info->n_train) && read_place(&list[n_places], sample.name))
            list[n_places++].test = test;
    }
    if (n_places > 0)
        qsort(list, n_places, sizeof *list, by_place);
    find_meetings(list, n_places);
    for (size_t i = 0; i < n_places; i++) {
        *n += list[i].meets;
        if (list[i].meets && !*name)
            *name = list[i].name;
    }
    kmf_free(list);
    return 0;
}
