/* SPDX-License-Identifier: MIT */
#include "embed/rowstore.h"

/* Pieces from i on with vectors, which lie one after the other, here and among the rows. */
static size_t run_length(const kmf_batch *b, size_t i)
{
    const kmf_piece *first = &b->pieces[i];
    size_t n = 0;
    while (i + n < b->n_pieces && first[n].finite && first[n].row == first->row + n)
        n++;
    return n;
}

int kmf_store_batch(kmf_batch *batch, kmf_store_fn *store, void *user, kmf_err *err)
{
    size_t n;
    for (size_t i = 0; i<batch->n_pieces; i += n> 0 ? n : 1) {
        kmf_piece *p = &batch->pieces[i];
        n = run_length(batch, i);
        int stored = n > 0 ? store(user, p->row, kmf_batch_vector(batch, p), n, err) : 0;
        if (stored < 0)
            return stored;
        for (size_t j = 0; j < n; j++)
            p[j].stored = stored > 0;
    }
    return 0;
}
