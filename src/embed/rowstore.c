/* SPDX-License-Identifier: MIT */
#include "embed/rowstore.h"

/*
 * From piece *at to end - 1, vectors that lie one after the other, here and among the rows: how
 * many, the first one's piece, and in *at the piece behind the last. A half has none, nor a place.
 */
static size_t next_run(kmf_batch *b, size_t *at, size_t end, kmf_piece **first)
{
    size_t n = 0;
    for (; *at < end; ++*at) {
        kmf_piece *p = &b->pieces[*at];
        if (p->half)
            continue;
        if (!p->finite || p->stored || (n > 0 && p->row != (*first)->row + n))
            break;
        if (n == 0)
            *first = p;
        n++;
    }
    return n;
}

int kmf_store_pieces(kmf_batch *batch, size_t beg, size_t end, const kmf_rowstore *store,
                     kmf_err *err)
{
    size_t at = beg;
    int all = 1;
    while (at < end) {
        kmf_piece *first;
        size_t n = next_run(batch, &at, end, &first);
        if (n == 0) {
            at++;
            continue;
        }
        int stored = store->fn(store->user, first->row, kmf_batch_vector(batch, first), n, err);
        if (stored < 0)
            return stored;
        for (kmf_piece *p = first; p < batch->pieces + at; p++)
            p->stored = stored > 0;
        all = all && stored > 0;
    }
    return all;
}
