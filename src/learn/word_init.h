/* SPDX-License-Identifier: MIT */
/*
 * The word tables with which a pretraining begins, made of those that were drawn: of the same
 * standard deviation, 0.02.
 *
 * Vectors that are summed are kmf_rng_normal's, as many as a row has, of the draw (windows.h)
 * KMF_DRAW_FREE + 2 of the seed with the two numbers
 *   (i, c)     letter i of a word, from 0, being c in ASCII
 *   (64, t)    tetramer t, a base's code two bits, the first the highest: the lesser one of it and
 *              its reverse complement
 * The sum is one of floats: a tenth of what was drawn, then letters, then tetramers, each times its
 * scale.
 */
#ifndef KMF_WORD_INIT_H
#define KMF_WORD_INIT_H

#include "model/model.h"

#include <stdbool.h>

#define KMF_TETRAMER 4

/*
 * The word table as a sum over letters, word = sum_i P[i][letter i] + noise: k-mers that share
 * letters in their places are alike from the beginning, and what is read off the neighbours of a
 * masked k-mer is a linear map that holds for all words at once. With tetramers, of which there
 * must be one in a k-mer, there is a second sum of the same size, over those in the word, a
 * tetramer and its reverse complement being one. Scales are 0.02 / sqrt k and 0.02 / sqrt (k - 3),
 * and with tetramers both times sqrt (1/2). Special tokens stay.
 */
void kmf_word_init_letters(kmf_model *model, uint64_t seed, bool tetramers);

/*
 * The composition's table as the sum over the tetramers in a word, a tenth of what was drawn beside
 * it, which is all that special tokens have; with k-mers that are shorter it stays as drawn. The
 * scale is 0.02 / sqrt (k - 3).
 */
void kmf_word_init_composition(kmf_model *model, uint64_t seed);

/*
 * The vectors of the k-mers in a file, scaled together so that the rows they fill are as large as
 * new ones; k-mers without a vector, *unfilled of them, stay. KMF_EMODEL: they are not of the
 * model's k-mers and width, or none is; or what kmf_vectors_load fails with.
 */
int kmf_word_init_vectors(kmf_model *model, const char *path, uint64_t *unfilled,
                          kmf_err *err) KMF_MUST_CHECK;

#endif
