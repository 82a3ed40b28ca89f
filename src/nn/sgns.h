/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of word2vec with negative sampling (Mikolov et al. 2013, "Distributed
 * representations of words and phrases and their compositionality", equation 4).
 *
 * An example has targets y_0 .. y_m: y_0 is the word that was there, the others are noise; and
 * inputs x_1 .. x_n. With skip-gram each input, one or two, is a pair with y_0 of its own, and h_i
 * is x_i; with CBOW there is one h, the mean of all inputs. Loss and the step down its gradient:
 *
 *   loss = sum_i ( -log s(h_i y_0) - sum_{j>0} log s(-h_i y_j) )        s(z) = 1 / (1 + e^-z)
 *   g_ij = alpha ([j = 0] - s(h_i y_j))
 *   y_j += sum_i g_ij h_i        x_i += sum_j g_ij y_j        h and y as before the step
 *
 * With CBOW every input takes the whole sum and not an n-th of it, as in word2vec, gensim and
 * fastText: n times the gradient.
 *
 * Examples are taken four at a time, in order. The products of the next four come before the steps
 * of these four, so that the processor need not wait: they see the steps of all examples but the
 * last four. A step uses its factors g from then, and the rows as they are when it is its turn; a
 * mean of several inputs is the one that the products were taken with. A target listed twice meets
 * the step of the first. Inputs and targets are different rows.
 *
 * Rows are `ld` floats apart, ld a multiple of 16 and at most KMF_SGNS_LD_MAX; what lies beyond
 * the vector's dimension is 0 and stays 0. Sums run over 16 lanes on every processor level, so AVX2
 * and AVX-512 agree in every bit.
 */
#ifndef KMF_SGNS_H
#define KMF_SGNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KMF_SGNS_LANES 16
/* The most targets of an example, y_0 included. */
#define KMF_SGNS_TARGETS_MAX 64
#define KMF_SGNS_LD_MAX 1024

typedef struct kmf_sgns_example {
    const uint32_t *inputs; /* [n_inputs] rows, 1 or more; one listed twice counts twice */
    const uint32_t
        *targets;      /* [n_targets] rows, 1 .. KMF_SGNS_TARGETS_MAX, the true one first */
    uint32_t n_inputs; /* skip-gram: 1 or 2; CBOW: 1 or more */
    uint32_t n_targets;
} kmf_sgns_example;

/*
 * Learns n examples on rows; mean: CBOW. loss: their losses are added to it, each by the products
 * of its step; NULL: they are not wanted, which is faster.
 */
void kmf_sgns_learn(float *rows, size_t ld, const kmf_sgns_example *examples, size_t n,
                    bool mean, float alpha, double *loss);

/* Sends for a row of n floats that will be used soon. */
static inline void kmf_rows_prefetch(const float *row, size_t n)
{
#if defined(__GNUC__)
    for (size_t i = 0; i < n; i += KMF_SGNS_LANES)
        __builtin_prefetch(row + i);
#else
    (void)row, (void)n;
#endif
}

/* to = own * to + scale * from; n a multiple of 16. */
void kmf_rows_add(float *to, float own, const float *from, float scale, size_t n);

#endif
