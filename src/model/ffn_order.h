/* SPDX-License-Identifier: MIT */
/*
 * The columns of a feed-forward's middle, [F] between its two products, in an order in which
 * neighbours are likely to reach about as far: those that share a scale in int8 (nn/panels.h) then
 * lose less to it. A sum over columns is the same in any order, but for rounding.
 */
#ifndef KMF_FFN_ORDER_H
#define KMF_FFN_ORDER_H

#include "kmerformer.h"
#include "model/params.h"

/*
 * order [F]: the columns from the one that reaches least on; columns of equal reach in their own
 * order. The input of W1 is a norm's result, about 1 times weight + bias in each of D places, so a
 * column of mean m and deviation s reaches m + 4 s; a gated one is a product of two. W1 counts as
 * int8 rounds it, so that a model stored in int8 has the order of the one it was made from.
 */
int kmf_ffn_order(size_t *order, const kmf_config *config, const kmf_layer *layer,
                  kmf_err *err) KMF_MUST_CHECK;

#endif
