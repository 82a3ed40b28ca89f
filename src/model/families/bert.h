/* SPDX-License-Identifier: MIT */
/*
 * The table of tensors that the families of BERT's layout share. The place of a row numbers its
 * stream of random weights (model/weights.h): new rows go to the end.
 */
#ifndef KMF_BERT_H
#define KMF_BERT_H

#include "model/families/family.h"

#define KMF_BERT_ROWS 43
extern const kmf_tensor_row kmf_bert_rows[KMF_BERT_ROWS];

#endif
