/* SPDX-License-Identifier: MIT */
/*
 * Of the places in order of their beginning, one that is asked about meets one of the others that
 * begins no later where the greatest end so far is behind its beginning, and one that begins later
 * where the next beginning is before its end. Whole records are kept apart, for they are not asked
 * about each other.
 */
#include "seq/places.h"

#include "base/mem.h"
#include "base/number.h"

#include <stdlib.h>
#include <string.h>

bool kmf_named_place_read(kmf_named_place *place, const char *name)
{
    kmf_named_place *p = place;
    const char *colon = strrchr(name, ':');
    *p = (kmf_named_place){.name = name, .n_record = colon ? (size_t)(colon - name) : 0};
    const char *at = colon ? kmf_read_digits(colon + 1, &p->beg) : NULL;
    at = at && *at == '-' ? kmf_read_digits(at + 1, &p->last) : NULL;
    p->reverse = at && strcmp(at, "(-)") == 0;
    return at && (*at == '\0' || p->reverse) && p->n_record > 0 && p->beg > 0 &&
           p->beg <= p->last;
}

kmf_named_place kmf_named_place_whole(const char *name, uint64_t n)
{
    return (kmf_named_place){
        .name = name, .n_record = strlen(name), .beg = 1, .last = n, .whole = true};
}

static bool is_of_record(const kmf_named_place *p, const kmf_named_place *other)
{
    return p->input == other->input && p->n_record == other->n_record &&
           memcmp(p->name, other->name, p->n_record) == 0;
}

static int by_place(const void *a, const void *b)
{
    const kmf_named_place *x = a, *y = b;
    int order = (x->input > y->input) - (x->input < y->input);
    if (order == 0)
        order = memcmp(x->name, y->name, kmf_min(x->n_record, y->n_record));
    if (order == 0 && x->n_record != y->n_record)
        order = x->n_record < y->n_record ? -1 : 1;
    return order != 0 ? order : (x->beg > y->beg) - (x->beg < y->beg);
}

void kmf_named_places_meet(kmf_named_place *list, size_t n)
{
    uint64_t last[2] = {0, 0}; /* of places, of whole records */
    if (n > 0)
        qsort(list, n, sizeof *list, by_place);
    for (size_t i = 0; i < n; i++) {
        kmf_named_place *p = &list[i];
        if (i > 0 && !is_of_record(p, p - 1))
            last[0] = last[1] = 0;
        p->meets = p->asked && (p->beg <= last[0] || (!p->whole && p->beg <= last[1]));
        if (!p->asked && p->last > last[p->whole])
            last[p->whole] = p->last;
    }
    uint64_t next[2] = {UINT64_MAX, UINT64_MAX};
    for (size_t i = n; i-- > 0;) {
        kmf_named_place *p = &list[i];
        if (i + 1 < n && !is_of_record(p, p + 1))
            next[0] = next[1] = UINT64_MAX;
        p->meets =
            p->meets || (p->asked && (p->last >= next[0] || (!p->whole && p->last >= next[1])));
        if (!p->asked)
            next[p->whole] = p->beg;
    }
}
