/* SPDX-License-Identifier: MIT */
#include "embed/rowstore.h"

/*
 * From piece *at on, vectors that lie one after the other, here and among the rows: how many, the
 * first one's piece, and in *at the piece behind the last. A half has none, nor a place.
 */
static size_t next_run(kmf_batch *b, size_t *at, kmf_piece **first)
{
    size_t n = 0;
    for (; *at < b->n_pieces; ++*at) {
        kmf_piece *p = &b->pieces[*at];
        if (p->half)
            continue;
        if (!p->finite || (n > 0 && p->row != (*first)->row + n))
            break;
        if (n == 0)
            *first = p;
        n++;
    }
    return n;
}

int kmf_store_batch(kmf_batch *batch, kmf_store_fn *store, void *user, kmf_err *err)
{
    size_t at = 0;
    while (at < batch->n_pieces) {
        kmf_piece *first;
        size_t n = next_run(batch, &at, &first);
        if (n == 0) {
            at++;
            continue;
        }
        int stored = store(user, first->row, kmf_batch_vector(batch, first), n, err);
        if (stored < 0)
            return stored;
        for (kmf_piece *p = first; p < batch->pieces + at; p++)
            p->stored = stored > 0;
    }
    return 0;
}
