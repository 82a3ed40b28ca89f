/* SPDX-License-Identifier: MIT */
/*
 * The baselines: k-mer counts of a stretch of bases.
 *
 * `tnf` counts a tetranucleotide together with its reverse complement: 16 of the 256 are their own,
 * the other 240 make 120 pairs, so 136 columns, in the order of the smaller code. `kmer:K` counts
 * each of the 4^K k-mers by itself; on the reverse strand a k-mer is counted as its reverse
 * complement, which needs no second reading direction since a count has no order.
 */
#include "embed/batch.h"

#include "words/kmer.h"

#include <string.h>

#define BLOCK 512
#define TNF_CODES 256

typedef struct tnf_table {
    uint8_t column[TNF_CODES];
} tnf_table;

static void tnf_fill(tnf_table *table)
{
    uint8_t n = 0;
    for (uint64_t code = 0; code < TNF_CODES; code++) {
        uint64_t canonical = kmf_kmer_canonical(code, KMF_TNF_K);
        table->column[code] = canonical == code ? n++ : table->column[canonical];
    }
}

static void count_piece(double *count, const kmf_batch *b, kmf_piece *p, int k,
                        const tnf_table *tnf)
{
    kmf_window window;
    uint64_t codes[BLOCK];
    uint64_t pos[BLOCK];
    uint8_t clean[BLOCK];
    size_t n;
    kmf_window_start(&window, b->bases + p->beg, p->end - p->beg, k, 1, false);
    while ((n = kmf_window_next(&window, codes, pos, clean, BLOCK)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (!clean[i]) {
                p->ambiguous++;
                continue;
            }
            uint64_t code = p->reverse ? kmf_kmer_revcomp(codes[i], k) : codes[i];
            count[tnf ? tnf->column[code] : code] += 1.0;
            p->tokens++;
        }
    }
}

void kmf_batch_count(kmf_batch *batch, int k, bool canonical)
{
    tnf_table table = {{0}};
    if (canonical)
        tnf_fill(&table);
    memset(batch->sums, 0, batch->n_pieces * batch->dim * sizeof *batch->sums);
    for (size_t i = 0; i < batch->n_pieces; i++)
        count_piece(batch->sums + i * batch->dim, batch, &batch->pieces[i], k,
                    canonical ? &table : NULL);
}
