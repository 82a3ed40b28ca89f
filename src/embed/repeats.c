/* SPDX-License-Identifier: MIT */
#include "embed/repeats.h"

#include "base/crc.h"
#include "base/mem.h"

#include <string.h>

#define LEN_MOST ((size_t)2048)       /* letters of a sequence that is kept */
#define BYTES_MOST ((size_t)32 << 20) /* of all that are kept */
#define PLACES_MOST ((size_t)1 << 16)

struct kmf_repeats {
    size_t dim;
    size_t n;        /* a power of two */
    kmf_met *places; /* owned [n] */
};

static size_t place_bytes(size_t dim)
{
    return sizeof(kmf_met) + dim * sizeof(float) + LEN_MOST;
}

static size_t n_places(size_t dim)
{
    size_t n = PLACES_MOST;
    while (n > 1 && n * place_bytes(dim) > BYTES_MOST)
        n /= 2;
    return n;
}

size_t kmf_repeats_bytes(size_t dim)
{
    return n_places(dim) * place_bytes(dim);
}

kmf_repeats *kmf_repeats_new(size_t dim, kmf_err *err)
{
    kmf_repeats *r = kmf_calloc(1, sizeof *r, err);
    if (!r)
        return NULL;
    r->dim = dim;
    r->n = n_places(dim);
    r->places = kmf_calloc(r->n, sizeof *r->places, err);
    if (r->places)
        return r;
    kmf_free(r);
    return NULL;
}

void kmf_repeats_free(kmf_repeats *repeats)
{
    if (!repeats)
        return;
    for (size_t i = 0; i < repeats->n; i++) {
        kmf_free(repeats->places[i].seq);
        kmf_free(repeats->places[i].vector);
    }
    kmf_free(repeats->places);
    kmf_free(repeats);
}

/* A place that nobody holds gets another sequence. */
static int take_place(kmf_met *place, size_t dim, const char *seq, size_t len, kmf_err *err)
{
    place->len = 0;
    if (!place->vector)
        place->vector = kmf_floats(dim, err);
    if (place->cap < len) { /* no more than it needs, so that there is a bound */
        kmf_free(place->seq);
        place->seq = kmf_malloc(len, 1, err);
        place->cap = place->seq ? len : 0;
    }
    if (!place->vector || !place->seq)
        return KMF_ENOMEM;
    memcpy(place->seq, seq, len);
    place->len = len;
    return 0;
}

int kmf_repeats_meet(kmf_met **met, kmf_repeats *r, const char *seq, size_t len, kmf_err *err)
{
    *met = NULL;
    if (len == 0 || len > LEN_MOST)
        return 0;
    kmf_met *place = &r->places[kmf_crc32(0, seq, len) & (r->n - 1)];
    bool known = place->len == len && memcmp(place->seq, seq, len) == 0;
    if (!known && place->held > 0)
        return 0;
    if (!known && take_place(place, r->dim, seq, len, err) < 0)
        return KMF_ENOMEM;
    place->held++;
    *met = place;
    return known;
}

void kmf_met_forget(kmf_met *met)
{
    if (met)
        met->held = met->len = 0;
}
