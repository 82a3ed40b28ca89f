/* SPDX-License-Identifier: MIT */
/*
 * One letter at a time: the code of the window that ends at it, of both strands at once.
 *
 *     forward' = (forward 2^bits + b) mod 2^(bits k)        the new letter comes in on the right
 *     reverse' = reverse / 4 + (3 - b) 4^(k-1)              its complement on the left (DNA)
 *
 * A window counts if the last k letters are letters of the alphabet and if it starts at a multiple
 * of the stride. The loop is compiled for the four cases that matter, so that what a case does not
 * need costs nothing.
 */
#include "words/textkmers.h"

#include "base/cpu.h"

#include <assert.h>

void kmf_textkmers_start(kmf_textkmers *walk, const kmf_kmer_kind *kind, const char *text,
                         size_t len, size_t phase)
{
    int bits = kind->alphabet->bits * kind->k;
    assert(bits >= 1 && bits <= 64);
    *walk = (kmf_textkmers){.kind = kind,
                            .p = (const unsigned char *)text,
                            .end = (const unsigned char *)text + len,
                            .mask = ~(uint64_t)0 >> (64 - bits),
                            .to_skip = phase ? kind->stride - phase : 0};
}

static KMF_INLINE size_t next_codes(kmf_textkmers *walk, uint64_t *codes, size_t n, int bits,
                                    bool canonical, bool every)
{
    kmf_textkmers w = *walk;
    const uint8_t *letter = w.kind->alphabet->code;
    unsigned n_letters = (unsigned)w.kind->alphabet->n_letters;
    size_t k = (size_t)w.kind->k;
    int top = 2 * (w.kind->k - 1);
    size_t n_out = 0;
    while (w.p < w.end && n_out < n) {
        unsigned b = letter[*w.p];
        if (b >= n_letters) {
            bool ends = *w.p++ == '\n';
            w.clean = 0;
            if (ends) {
                w.seen = 0;
                w.to_skip = 0;
                continue;
            }
        } else {
            w.p++;
            w.clean++;
            w.forward = (w.forward << bits | b) & w.mask;
            if (canonical)
                w.reverse = w.reverse >> 2 | (uint64_t)(3 - b) << top;
        }
        if (++w.seen < k)
            continue;
        if (!every) {
            if (w.to_skip > 0) {
                w.to_skip--;
                continue;
            }
            w.to_skip = w.kind->stride - 1;
        }
        if (w.clean < k) {
            w.tally.ambiguous++;
            continue;
        }
        codes[n_out++] = canonical && w.reverse < w.forward ? w.reverse : w.forward;
    }
    w.tally.kmers += n_out;
    *walk = w;
    return n_out;
}

size_t kmf_textkmers_next(kmf_textkmers *walk, uint64_t *codes, size_t n)
{
    const kmf_kmer_kind *kind = walk->kind;
    bool dna = kind->alphabet->bits == 2;
    if (dna && kind->stride == 1)
        return kind->canonical ? next_codes(walk, codes, n, 2, true, true)
                               : next_codes(walk, codes, n, 2, false, true);
    return next_codes(walk, codes, n, kind->alphabet->bits, kind->canonical, false);
}
