/* SPDX-License-Identifier: MIT */
/*
 * DNABERT-2 (Z. Zhou et al., arXiv 2306.15006) and DNABERT-S (arXiv 2402.08777), after
 * MosaicBERT: post-LN, slopes on the scores in place of positions (ALiBi, O. Press et al.,
 * arXiv 2108.12409), a gated feed-forward.
 *
 *   x  = LN( word[id] + type[0] )
 *   L times:
 *     s_tu = q_t k_u / sqrt K - slope_h |t - u|
 *     x = LN( x + attention(x) )
 *     x = LN( x + W_o ( gelu( W_g x ) * W_u x ) + b_o ),   gated_layers = [W_g; W_u]
 *   head (DNABERT-2): logits = LN( gelu( W_t x + b_t ) ) word^T + bias;  its norm's eps is 1e-12
 *   pooler (DNABERT-S): tanh( W_p x_0 + b_p )
 *
 * max_position_embeddings and pad_token_id in their config.json mean nothing: there is no longest
 * window but the one that memory gives.
 */
#include "model/families/rows.h"

#define POSITIONS_MAX ((size_t)1 << 24)
#define WINDOW 8192 /* tokens; some 40,000 bases */

/* clang-format off */
static const kmf_tensor_row rows[] = {
    {"embeddings.word_embeddings.weight",          OF(BODY, word),      {V, E},     NORMAL},
    {"embeddings.token_type_embeddings.weight",    OF(TYPE, type),      {T, E},     NORMAL},
    {"embeddings.LayerNorm.weight",                OF(NORM, ln_w),      {E, NIL},   ONE},
    {"embeddings.LayerNorm.bias",                  OF(NORM, ln_b),      {E, NIL},   ZERO},
    {"attention.self.Wqkv.weight",                 LAYER(wq),           {QKV, D},   NORMAL},
    {"attention.self.Wqkv.bias",                   LAYER(bq),           {QKV, NIL}, ZERO},
    {"attention.output.dense.weight",              LAYER(wo),           {D, D},     NORMAL},
    {"attention.output.dense.bias",                LAYER(bo),           {D, NIL},   ZERO},
    {"attention.output.LayerNorm.weight",          LAYER(ln1_w),        {D, NIL},   ONE},
    {"attention.output.LayerNorm.bias",            LAYER(ln1_b),        {D, NIL},   ZERO},
    {"mlp.gated_layers.weight",                    LAYER(w1),           {F_IN, D},  NORMAL},
    {"mlp.wo.weight",                              LAYER(w2),           {D, F},     NORMAL},
    {"mlp.wo.bias",                                LAYER(b2),           {D, NIL},   ZERO},
    {"mlp.layernorm.weight",                       LAYER(ln2_w),        {D, NIL},   ONE},
    {"mlp.layernorm.bias",                         LAYER(ln2_b),        {D, NIL},   ZERO},
    {"pooler.dense.weight",                        OF(POOLER, pool_w),  {D, D},     NORMAL},
    {"pooler.dense.bias",                          OF(POOLER, pool_b),  {D, NIL},   ZERO},
    {"cls.predictions.transform.dense.weight",     OF(HEAD, head_w),    {E, D},     NORMAL},
    {"cls.predictions.transform.dense.bias",       OF(HEAD, head_b),    {E, NIL},   ZERO},
    {"cls.predictions.transform.LayerNorm.weight", OF(HEAD, head_ln_w), {E, NIL},   ONE},
    {"cls.predictions.transform.LayerNorm.bias",   OF(HEAD, head_ln_b), {E, NIL},   ZERO},
    {"cls.predictions.decoder.bias",               OF(HEAD, head_bias), {V, NIL},   ZERO},
};
/* clang-format on */

static int read(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err)
{
    (void)root, (void)stored, (void)where, (void)err;
    config->positions = KMF_POSITIONS_ALIBI;
    config->max_positions = POSITIONS_MAX;
    config->window = WINDOW;
    config->gated = 1;
    config->bias_in = 0;
    config->head_eps = 1e-12;
    config->pooling = KMF_POOL_MEAN_ALL;
    config->ambiguous = KMF_AMBIGUOUS_UNK;
    config->bounded = 0;
    return 0;
}

const kmf_family kmf_family_mosaic = {
    .name = "dnabert-2",
    .marker = "encoder.layer.0.attention.self.Wqkv.weight",
    .vocabulary = "tokenizer.json",
    .prefix = "bert.",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .read = read,
};
