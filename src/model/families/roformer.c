/* SPDX-License-Identifier: MIT */
/*
 * RoFormer as Hugging Face stores it (J. Su et al., "RoFormer: enhanced transformer with rotary
 * position embedding", arXiv 2104.09864).
 *
 *   x  = LN( word[id] + type[0] );  if E != D: x = x W_project^T + b
 *   L times, post-LN, rotary queries and keys:
 *     x = LN( x + attention(x) )
 *     x = LN( x + W_2 act( W_1 x + b_1 ) + b_2 )
 *   head: logits = LN( act( W_t x + b_t ) ) word^T + bias
 *
 * The decoder's weight is the word table itself; a file may repeat it. The table of sines that
 * some files carry is computed here instead.
 */
#include "model/families/family.h"

#include <stddef.h>
#include <string.h>

#define BODY(field) offsetof(kmf_params, field), KMF_PART_BODY
#define LAYER(field) offsetof(kmf_layer, field), KMF_PART_LAYER
#define PROJECT(field) offsetof(kmf_params, field), KMF_PART_PROJECT
#define HEAD(field) offsetof(kmf_params, field), KMF_PART_HEAD
#define V KMF_DIM_V
#define E KMF_DIM_E
#define D KMF_DIM_D
#define F KMF_DIM_F
#define TYPES KMF_DIM_TYPES
#define NIL KMF_DIM_NONE
#define NORMAL KMF_INIT_NORMAL
#define ZERO KMF_INIT_ZERO
#define ONE KMF_INIT_ONE

/* The place of a row numbers its stream of random weights: new rows go to the end. */
/* clang-format off */
static const kmf_tensor_row rows[] = {
    {"embeddings.word_embeddings.weight",         BODY(word),        {V, E},     NORMAL},
    {"embeddings.token_type_embeddings.weight",   BODY(type),        {TYPES, E}, NORMAL},
    {"embeddings.LayerNorm.weight",               BODY(ln_w),        {E, NIL},    ONE},
    {"embeddings.LayerNorm.bias",                 BODY(ln_b),        {E, NIL},    ZERO},
    {"embeddings_project.weight",                 PROJECT(proj_w),   {D, E},     NORMAL},
    {"embeddings_project.bias",                   PROJECT(proj_b),   {D, NIL},    ZERO},
    {"attention.self.query.weight",               LAYER(wq),         {D, D},     NORMAL},
    {"attention.self.query.bias",                 LAYER(bq),         {D, NIL},    ZERO},
    {"attention.self.key.weight",                 LAYER(wk),         {D, D},     NORMAL},
    {"attention.self.key.bias",                   LAYER(bk),         {D, NIL},    ZERO},
    {"attention.self.value.weight",               LAYER(wv),         {D, D},     NORMAL},
    {"attention.self.value.bias",                 LAYER(bv),         {D, NIL},    ZERO},
    {"attention.output.dense.weight",             LAYER(wo),         {D, D},     NORMAL},
    {"attention.output.dense.bias",               LAYER(bo),         {D, NIL},    ZERO},
    {"attention.output.LayerNorm.weight",         LAYER(ln1_w),      {D, NIL},    ONE},
    {"attention.output.LayerNorm.bias",           LAYER(ln1_b),      {D, NIL},    ZERO},
    {"intermediate.dense.weight",                 LAYER(w1),         {F, D},     NORMAL},
    {"intermediate.dense.bias",                   LAYER(b1),         {F, NIL},    ZERO},
    {"output.dense.weight",                       LAYER(w2),         {D, F},     NORMAL},
    {"output.dense.bias",                         LAYER(b2),         {D, NIL},    ZERO},
    {"output.LayerNorm.weight",                   LAYER(ln2_w),      {D, NIL},    ONE},
    {"output.LayerNorm.bias",                     LAYER(ln2_b),      {D, NIL},    ZERO},
    {"cls.predictions.transform.dense.weight",    HEAD(head_w),      {E, D},     NORMAL},
    {"cls.predictions.transform.dense.bias",      HEAD(head_b),      {E, NIL},    ZERO},
    {"cls.predictions.transform.LayerNorm.weight", HEAD(head_ln_w),  {E, NIL},    ONE},
    {"cls.predictions.transform.LayerNorm.bias",  HEAD(head_ln_b),   {E, NIL},    ZERO},
    {"cls.predictions.bias",                      HEAD(head_bias),   {V, NIL},    ZERO},
};
/* clang-format on */

static const kmf_family roformer = {
    .model_type = "roformer",
    .prefix = "roformer.",
    .layer_prefix = "encoder.layer.",
    .positions = "encoder.embed_positions.weight",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
};

const kmf_family *kmf_family_roformer(void)
{
    return &roformer;
}

const kmf_family *kmf_family_find(const char *model_type)
{
    return strcmp(model_type, roformer.model_type) == 0 ? &roformer : NULL;
}
