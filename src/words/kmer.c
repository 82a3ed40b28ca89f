/* SPDX-License-Identifier: MIT */
/*
 * k-mers as 2-bit codes.
 *
 * A=0 C=1 G=2 T=3, first base most significant:
 *
 *     code(b_0 .. b_{k-1}) = sum_i b_i 4^(k-1-i)          k = 32 fills the 64 bits exactly
 *
 * Rolling: code' = (4 code + b) mod 4^k, one shift, or and mask for a base. The mask of k = 32 is
 * all ones and is never made by shifting by 64, which C leaves undefined.
 *
 * Complement is 3 - b, that is all bits flipped; the reverse complement flips the word, reverses
 * its 32 two-bit groups by swapping halves five times, and shifts the k-mer down again.
 *
 * The reverse strand is read from the far end of the same buffer, so no copy is made however long
 * the contig is.
 */
#include "words/kmer.h"

#include "seq/dna.h"

#include <assert.h>

int kmf_kmer_encode(uint64_t *code, const char *seq, int k)
{
    return kmf_alphabet_encode(KMF_DNA, code, seq, k);
}

void kmf_kmer_decode(char *text, uint64_t code, int k)
{
    kmf_alphabet_decode(KMF_DNA, text, code, k);
}

uint64_t kmf_kmer_revcomp(uint64_t code, int k)
{
    return kmf_revcomp_of(code, k);
}

uint64_t kmf_kmer_canonical(uint64_t code, int k)
{
    uint64_t rc = kmf_revcomp_of(code, k);
    return rc < code ? rc : code;
}

void kmf_window_start(kmf_window *window, const char *seq, size_t len, int k, size_t stride,
                      bool reverse)
{
    assert(k >= 1 && k <= KMF_K_MAX && stride >= 1);
    *window = (kmf_window){.seq = (const unsigned char *)seq,
                           .len = len,
                           .stride = stride,
                           .k = k,
                           .reverse = reverse,
                           .mask = ~(uint64_t)0 >> (64 - 2 * k)};
}

static unsigned base_at(const kmf_window *w, size_t i)
{
    if (!w->reverse)
        return kmf_base_code[w->seq[i]];
    unsigned base = kmf_base_code[w->seq[w->len - 1 - i]];
    return base > 3 ? base : 3 - base;
}

size_t kmf_window_next(kmf_window *window, uint64_t *codes, uint64_t *pos, uint8_t *clean,
                       size_t n)
{
    kmf_window w = *window;
    size_t k = (size_t)w.k;
    size_t n_out = 0;
    while (n_out < n && w.start < w.len && w.len - w.start >= k) {
        if (w.next < w.start) { /* a stride beyond k: the bases between are not looked at */
            w.next = w.start;
            w.clean = 0;
        }
        size_t end = w.start + k;
        for (; w.next < end; w.next++) {
            unsigned base = base_at(&w, w.next);
            w.code = (w.code << 2 | (base & 3)) & w.mask;
            w.clean = base > 3 ? 0 : w.clean + 1;
        }
        codes[n_out] = w.code;
        pos[n_out] = w.start;
        clean[n_out] = w.clean >= k;
        n_out++;
        if (w.start > SIZE_MAX - w.stride)
            w.start = w.len;
        else
            w.start += w.stride;
    }
    *window = w;
    return n_out;
}
