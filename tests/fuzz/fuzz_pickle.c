/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a checkpoint, of either format. What is accepted has its names in order, its values
 * in the bytes given or in copies of its own that are no larger than a few times these, is found
 * by its name, and is read the same again. The bytes as a pickle alone are at least no crash.
 */
#include "fuzzing.h"
#include "model/pickle.h"
#include "model/tensorfiles.h"

#include <string.h>

static volatile uint8_t seen; /* so that values are looked at */

static void check_tensor(const kmf_tensors *t, size_t i, const uint8_t *data, size_t size,
                         size_t *copied)
{
    const kmf_stored *s = &t->list[i];
    must(i == 0 || strcmp(t->list[i - 1].name, s->name) < 0);
    must(kmf_tensors_find(t, s->name) == s);
    must(strcmp(kmf_tensors_file(t, s), "fuzz") == 0);
    must(s->bytes == s->n * s->item_bytes);
    size_t n = 1;
    for (int d = 0; d < s->rank; d++)
        n *= s->shape[d];
    must(n == s->n);
    uintptr_t at = (uintptr_t)s->values;
    uintptr_t beg = (uintptr_t)data;
    if (at < beg || at > beg + size || s->bytes > beg + size - at)
        *copied += s->bytes;
    uint8_t sum = 0;
    for (size_t j = 0; j < s->bytes; j++)
        sum ^= s->values[j];
    seen = sum;
}

static void check_same(const kmf_tensors *a, const kmf_tensors *b)
{
    must(a->n == b->n);
    for (size_t i = 0; i < a->n; i++) {
        const kmf_stored *x = &a->list[i];
        const kmf_stored *y = &b->list[i];
        must(strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->rank == y->rank);
        must(memcmp(x->shape, y->shape, sizeof x->shape) == 0);
        must(x->bytes == 0 || memcmp(x->values, y->values, x->bytes) == 0);
    }
}

static void try_pickle(const uint8_t *data, size_t size)
{
    kmf_pickle p;
    if (kmf_pickle_read(&p, data, 0, size, "fuzz", NULL) == 0) {
        must(p.end <= size && p.top < p.n_values);
        must(p.n_values + p.n_items + p.n_cells <= 2 * size);
        kmf_pickle_free(&p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_tensors t;
    kmf_tensors again;
    kmf_err err = {0};
    try_pickle(data, size);
    if (kmf_tensors_parse(&t, data, size, "fuzz", &err) == 0) {
        size_t copied = 0;
        must(err.code == KMF_OK && kmf_tensors_n_files(&t) == 0);
        for (size_t i = 0; i < t.n; i++)
            check_tensor(&t, i, data, size, &copied);
        must(copied / 4 <= size);
        must(kmf_tensors_parse(&again, data, size, "again", &err) == 0);
        check_same(&t, &again);
        kmf_tensors_close(&again);
        kmf_tensors_close(&t);
    } else {
        must_tell(&err);
    }
    return 0;
}
