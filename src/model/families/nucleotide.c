/* SPDX-License-Identifier: MIT */
/*
 * The Nucleotide Transformer, v1 and v2 (H. Dalla-Torre et al., Nature Methods 2025), in the
 * layout of Hugging Face's ESM.
 *
 *   v1   x = s word[id] + position[t + 2],   [MASK]s 0, s = 0.88 / (1 - share of [MASK]s)
 *   v2   x = word[id],                       q and k turned by their places
 *   L times, pre-LN:
 *     x = x + attention( LN(x) )
 *     x = x + ffn( LN(x) )       v1  W_2 gelu( W_1 x + b_1 ) + b_2
 *                                v2  W_2 ( silu( W_g x ) * W_u x ),  W_1 = [W_g; W_u]
 *   x = LN(x)
 *   head: logits = LN( gelu( W_t x + b_t ) ) W_decoder^T + bias
 *
 * The two have the same config.json but for values; that the feed-forward is gated shows in the
 * rows of W_1 alone. A window begins with <cls> and ends with its last token.
 */
#include "model/families/rows.h"

#include "base/err.h"
#include "base/json.h"

/* Rows of a learned table that stand before the first token's: 0 .. pad_token_id. */
#define PAD_ID_MAX 16
#define WINDOW_MIN 3

/* clang-format off */
static const kmf_tensor_row rows[] = {
    {"embeddings.word_embeddings.weight",     OF(BODY, word),         {V, E},      NORMAL},
    {"embeddings.position_embeddings.weight", OF(POSITION, position), {P, E},      NORMAL},
    {"embeddings.layer_norm.weight",          OF(NORM, ln_w),         {E, NIL},    ONE},
    {"embeddings.layer_norm.bias",            OF(NORM, ln_b),         {E, NIL},    ZERO},
    {"attention.self.query.weight",           LAYER(wq),              {D, D},      NORMAL},
    {"attention.self.query.bias",             LAYER(bq),              {D, NIL},    ZERO},
    {"attention.self.key.weight",             LAYER(wk),              {D, D},      NORMAL},
    {"attention.self.key.bias",               LAYER(bk),              {D, NIL},    ZERO},
    {"attention.self.value.weight",           LAYER(wv),              {D, D},      NORMAL},
    {"attention.self.value.bias",             LAYER(bv),              {D, NIL},    ZERO},
    {"attention.output.dense.weight",         LAYER(wo),              {D, D},      NORMAL},
    {"attention.output.dense.bias",           LAYER(bo),              {D, NIL},    ZERO},
    {"attention.LayerNorm.weight",            LAYER(ln1_w),           {D, NIL},    ONE},
    {"attention.LayerNorm.bias",              LAYER(ln1_b),           {D, NIL},    ZERO},
    {"intermediate.dense.weight",             LAYER(w1),              {F_IN, D},   NORMAL},
    {"intermediate.dense.bias",               OF_LAYER(BIAS_IN, b1),  {F_IN, NIL}, ZERO},
    {"output.dense.weight",                   LAYER(w2),              {D, F},      NORMAL},
    {"output.dense.bias",                     OF_LAYER(BIAS_OUT, b2), {D, NIL},    ZERO},
    {"LayerNorm.weight",                      LAYER(ln2_w),           {D, NIL},    ONE},
    {"LayerNorm.bias",                        LAYER(ln2_b),           {D, NIL},    ZERO},
    {"encoder.emb_layer_norm_after.weight",   OF(CLOSING, last_w),    {D, NIL},    ONE},
    {"encoder.emb_layer_norm_after.bias",     OF(CLOSING, last_b),    {D, NIL},    ZERO},
    {"lm_head.dense.weight",                  OF(HEAD, head_w),       {E, D},      NORMAL},
    {"lm_head.dense.bias",                    OF(HEAD, head_b),       {E, NIL},    ZERO},
    {"lm_head.layer_norm.weight",             OF(HEAD, head_ln_w),    {E, NIL},    ONE},
    {"lm_head.layer_norm.bias",               OF(HEAD, head_ln_b),    {E, NIL},    ZERO},
    {"lm_head.decoder.weight",                OF(DECODER, decoder),   {V, E},      NORMAL},
    {"lm_head.bias",                          OF(HEAD, head_bias),    {V, NIL},    ZERO},
};
/* clang-format on */

static bool is_gated(const kmf_config *config, const kmf_tensors *stored)
{
    const kmf_stored *t = stored ? kmf_family_find(&kmf_family_nucleotide, stored,
                                                   "encoder.layer.0.intermediate.dense.weight")
                                 : NULL;
    return t && t->rank == 2 && t->shape[0] == 2 * config->intermediate_size;
}

static int read(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err)
{
    int64_t pad = 1;
    int tied = 1;
    int ffn_bias = 1;
    config->type_vocab_size = 0;
    config->pre_norm = 1;
    config->closing_norm = 1;
    config->embedding_norm = 0;
    config->gated = is_gated(config, stored);
    int rc = kmf_family_positions(config, root, where, err);
    if (rc >= 0)
        rc = kmf_json_int(&pad, root, "pad_token_id", 0, PAD_ID_MAX, where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&config->embedding_norm, root, "emb_layer_norm_before", where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&config->token_dropout, root, "token_dropout", where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&tied, root, "tie_word_embeddings", where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&ffn_bias, root, "add_bias_fnn", where, err);
    if (rc < 0)
        return rc;
    config->bias_in = ffn_bias;
    config->bias_out = ffn_bias;
    config->own_decoder = !tied;
    config->activation = config->gated ? KMF_SILU : KMF_GELU; /* whatever hidden_act says */
    config->head_gelu = 1;
    /* a learned table has rows for padding first; a turned model was made for as many tokens */
    config->position_offset = (size_t)pad + 1;
    if (config->max_positions < config->position_offset + WINDOW_MIN)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: max_position_embeddings: must be at least %zu, got %zu", where,
                        config->position_offset + WINDOW_MIN, config->max_positions);
    config->max_positions -= config->position_offset;
    config->pooling = KMF_POOL_MEAN_ALL;
    config->ambiguous = KMF_AMBIGUOUS_UNK;
    return 0;
}

const kmf_family kmf_family_nucleotide = {
    .name = "nucleotide-transformer",
    .model_type = "esm",
    .marker = "encoder.emb_layer_norm_after.weight",
    .vocabulary = "vocab.txt",
    .prefix = "esm.",
    .rows = rows,
    .n_rows = sizeof rows / sizeof rows[0],
    .unused = "embeddings.position_embeddings.weight",
    .read = read,
};
