/* SPDX-License-Identifier: MIT */
/*
 * The tensors of a BERT (J. Devlin et al., arXiv 1810.04805) as Hugging Face names them, with what
 * RoFormer and GENA-LM add. A family that reads them says by its config which parts it has.
 */
#include "model/families/bert.h"

#include "model/families/rows.h"

/* clang-format off */
const kmf_tensor_row kmf_bert_rows[KMF_BERT_ROWS] = {
    {"embeddings.word_embeddings.weight",          OF(BODY, word),               {V, E},   NORMAL},
    {"embeddings.token_type_embeddings.weight",    OF(TYPE, type),               {T, E},   NORMAL},
    {"embeddings.LayerNorm.weight",                OF(NORM, ln_w),               {E, NIL}, ONE},
    {"embeddings.LayerNorm.bias",                  OF(NORM, ln_b),               {E, NIL}, ZERO},
    {"embeddings_project.weight",                  OF(PROJECT, proj_w),          {D, E},   NORMAL},
    {"embeddings_project.bias",                    OF(PROJECT, proj_b),          {D, NIL}, ZERO},
    {"attention.self.query.weight",                LAYER(wq),                    {D, D},   NORMAL},
    {"attention.self.query.bias",                  LAYER(bq),                    {D, NIL}, ZERO},
    {"attention.self.key.weight",                  LAYER(wk),                    {D, D},   NORMAL},
    {"attention.self.key.bias",                    LAYER(bk),                    {D, NIL}, ZERO},
    {"attention.self.value.weight",                LAYER(wv),                    {D, D},   NORMAL},
    {"attention.self.value.bias",                  LAYER(bv),                    {D, NIL}, ZERO},
    {"attention.output.dense.weight",              LAYER(wo),                    {D, D},   NORMAL},
    {"attention.output.dense.bias",                LAYER(bo),                    {D, NIL}, ZERO},
    {"attention.output.LayerNorm.weight",          OF_LAYER(NORM_AFTER, ln1_w),  {D, NIL}, ONE},
    {"attention.output.LayerNorm.bias",            OF_LAYER(NORM_AFTER, ln1_b),  {D, NIL}, ZERO},
    {"intermediate.dense.weight",                  LAYER(w1),                    {F, D},   NORMAL},
    {"intermediate.dense.bias",                    LAYER(b1),                    {F, NIL}, ZERO},
    {"output.dense.weight",                        LAYER(w2),                    {D, F},   NORMAL},
    {"output.dense.bias",                          LAYER(b2),                    {D, NIL}, ZERO},
    {"output.LayerNorm.weight",                    OF_LAYER(NORM_AFTER, ln2_w),  {D, NIL}, ONE},
    {"output.LayerNorm.bias",                      OF_LAYER(NORM_AFTER, ln2_b),  {D, NIL}, ZERO},
    {"cls.predictions.transform.dense.weight",     OF(HEAD, head_w),             {E, D},   NORMAL},
    {"cls.predictions.transform.dense.bias",       OF(HEAD, head_b),             {E, NIL}, ZERO},
    {"cls.predictions.transform.LayerNorm.weight", OF(HEAD, head_ln_w),          {E, NIL}, ONE},
    {"cls.predictions.transform.LayerNorm.bias",   OF(HEAD, head_ln_b),          {E, NIL}, ZERO},
    {"cls.predictions.bias",                       OF(HEAD, head_bias),          {V, NIL}, ZERO},
    {"embeddings.position_embeddings.weight",      OF(POSITION, position),       {P, E},   NORMAL},
    {"pre_attention_ln.weight",                    OF_LAYER(NORM_BEFORE, ln1_w), {D, NIL}, ONE},
    {"pre_attention_ln.bias",                      OF_LAYER(NORM_BEFORE, ln1_b), {D, NIL}, ZERO},
    {"post_attention_ln.weight",                   OF_LAYER(NORM_BEFORE, ln2_w), {D, NIL}, ONE},
    {"post_attention_ln.bias",                     OF_LAYER(NORM_BEFORE, ln2_b), {D, NIL}, ZERO},
    {"encoder.last_layer_ln.weight",               OF(CLOSING, last_w),          {D, NIL}, ONE},
    {"encoder.last_layer_ln.bias",                 OF(CLOSING, last_b),          {D, NIL}, ZERO},
    {"pooler.dense.weight",                        OF(POOLER, pool_w),           {D, D},   NORMAL},
    {"pooler.dense.bias",                          OF(POOLER, pool_b),           {D, NIL}, ZERO},
    {"composition.word_embeddings.weight",         OF(COMPOSITION, comp_word),   {V, C},   NORMAL},
    {"composition.LayerNorm.weight",               OF(COMPOSITION, comp_ln_w),   {C, NIL}, ONE},
    {"composition.LayerNorm.bias",                 OF(COMPOSITION, comp_ln_b),   {C, NIL}, ZERO},
    {"composition.intermediate.dense.weight",      OF(COMPOSITION, comp_w1), {C_HIDDEN, C}, NORMAL},
    {"composition.intermediate.dense.bias",        OF(COMPOSITION, comp_b1), {C_HIDDEN, NIL}, ZERO},
    {"composition.output.dense.weight",            OF(COMPOSITION, comp_w2), {C, C_HIDDEN}, NORMAL},
    {"composition.output.dense.bias",              OF(COMPOSITION, comp_b2),     {C, NIL}, ZERO},
};
/* clang-format on */
