/* SPDX-License-Identifier: MIT */
#include "seq/tiles.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define PLACE 48 /* ":beg-end": two numbers of at most 20 digits */

int kmf_tiles_begin(kmf_tiles *t, size_t tile, size_t step, kmf_err *err)
{
    if (tile == 0)
        return kmf_fail(err, KMF_EINVAL, "a step of %zu bases, and no tiles that take it",
                        step);
    if (step > tile)
        return kmf_fail(err, KMF_EINVAL,
                        "tiles of %zu bases in steps of %zu: bases between them would be lost",
                        tile, step);
    *t = (kmf_tiles){.tile = tile, .step = step > 0 ? step : tile};
    return 0;
}

void kmf_tiles_end(kmf_tiles *t)
{
    kmf_free(t->bases.bytes);
    kmf_free(t->name.bytes);
    *t = (kmf_tiles){0};
}

void kmf_tiles_cut(kmf_tiles *t, const kmf_record *whole)
{
    t->whole = *whole;
    t->beg = 0;
    t->more = true;
    t->cut += whole->len;
}

/* Its bases and name, which the record behind it may be read over. */
static int copy_tile(kmf_tiles *t, size_t n, kmf_err *err)
{
    char place[PLACE];
    int len = snprintf(place, sizeof place, ":%zu-%zu", t->beg + 1, t->beg + n);
    t->bases.len = t->name.len = 0;
    if (kmf_text_append(&t->bases, t->whole.seq + t->beg, n, err) < 0 ||
        kmf_text_append(&t->name, t->whole.name, strlen(t->whole.name), err) < 0 ||
        kmf_text_append(&t->name, place, (size_t)len, err) < 0)
        return KMF_ENOMEM;
    return 0;
}

int kmf_tiles_next(kmf_tiles *t, kmf_record *rec, kmf_err *err)
{
    if (!t->more)
        return 0;
    *rec = t->whole;
    size_t left = t->whole.len - t->beg;
    size_t n = kmf_min(left, t->tile);
    t->more = n < left;
    if (t->whole.len == 0)
        return 1;
    if (copy_tile(t, n, err) < 0)
        return KMF_ENOMEM;
    rec->name = t->name.bytes;
    rec->seq = t->bases.bytes;
    rec->len = n;
    t->beg += t->step;
    return 1;
}

double kmf_tiles_share(const kmf_tiles *t)
{
    size_t left = t->more ? t->whole.len - t->beg : 0;
    return t->cut > 0 ? 1 - (double)left / (double)t->cut : 1;
}
