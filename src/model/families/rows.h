/* SPDX-License-Identifier: MIT */
/* Short words for the tables of tensors; included by the files that hold one, and by no other. */
#ifndef KMF_ROWS_H
#define KMF_ROWS_H

#include "model/families/family.h"

#include <stddef.h>

#define V KMF_DIM_V
#define E KMF_DIM_E
#define D KMF_DIM_D
#define QKV KMF_DIM_QKV
#define F KMF_DIM_F
#define F_IN KMF_DIM_F_IN
#define C KMF_DIM_C
#define C_HIDDEN KMF_DIM_C_HIDDEN
#define T KMF_DIM_TYPES
#define P KMF_DIM_POSITIONS
#define NIL KMF_DIM_NONE
#define NORMAL KMF_INIT_NORMAL
#define ZERO KMF_INIT_ZERO
#define ONE KMF_INIT_ONE

/* A field of kmf_params, in models that have the part; of kmf_layer, in every layer. */
#define OF(part, field) offsetof(kmf_params, field), KMF_PART_##part
#define OF_LAYER(part, field) offsetof(kmf_layer, field), KMF_PART_##part
#define LAYER(field) OF_LAYER(LAYER, field)

#endif
