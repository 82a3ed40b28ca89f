/* SPDX-License-Identifier: MIT */
/*
 * The sliding window: codes of a sequence's k-mers, one after another, at a stride.
 *
 * A window is clean if all its k bases are A, C, G, T or U; a window that is not is dirty and has
 * no code. Windows start at bases 0, stride, 2 stride, ... of the strand that is read; a tail
 * shorter than k makes no window.
 */
#ifndef KMF_KMER_H
#define KMF_KMER_H

#include "kmerformer.h"

#include <stdbool.h>

#define KMF_STRIDE_MAX ((size_t)1 << 31)

/* kmf_kmer_revcomp where a call would cost too much. */
static inline uint64_t kmf_revcomp_of(uint64_t code, int k)
{
    uint64_t x = ~code;
    x = (x >> 2 & 0x3333333333333333u) | (x & 0x3333333333333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0fu) | (x & 0x0f0f0f0f0f0f0f0fu) << 4;
    x = (x >> 8 & 0x00ff00ff00ff00ffu) | (x & 0x00ff00ff00ff00ffu) << 8;
    x = (x >> 16 & 0x0000ffff0000ffffu) | (x & 0x0000ffff0000ffffu) << 16;
    x = x >> 32 | x << 32;
    return x >> (64 - 2 * k);
}

typedef struct kmf_window {
    /* settings */
    const unsigned char *seq; /* borrowed */
    size_t len;
    size_t stride;
    int k;
    bool reverse; /* read the reverse complement */
    /* state */
    uint64_t code;
    uint64_t mask; /* low 2k bits */
    size_t clean;  /* length of the run of clean bases that ends before `next`, at most k */
    size_t next;   /* the next base to take in */
    size_t start;  /* the next window's first base */
} kmf_window;

/* k: 1 .. 32, stride: 1 or more. */
void kmf_window_start(kmf_window *window, const char *seq, size_t len, int k, size_t stride,
                      bool reverse);

/*
 * The next n windows at most: codes[i], starts at base pos[i], clean[i] 1 or 0 (the code is then
 * undefined). Returns how many were written; fewer than n only at the end.
 */
size_t kmf_window_next(kmf_window *window, uint64_t *codes, uint64_t *pos, uint8_t *clean,
                       size_t n);

#endif
