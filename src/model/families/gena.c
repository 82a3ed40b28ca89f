/* SPDX-License-Identifier: MIT */
/*
 * GENA-LM (V. Fishman et al., Nucleic Acids Research 2025), those with BERT's full attention.
 *
 *   x  = LN( word[id] + type[0] + position[t] )
 *   L times, pre-LN:
 *     x = x + attention( LN(x) )
 *     x = x + W_2 gelu( W_1 LN(x) + b_1 ) + b_2
 *   x = LN(x)                                     where last_layer_norm says so
 *   head: logits = LN( gelu( W_t x + b_t ) ) word^T + bias
 *
 * With position_embedding_type rotary there is no table: the first rotary_dim columns of a head's
 * q and k are turned in halves, by rotary_base.
 */
#include "model/families/bert.h"

#include "base/err.h"
#include "base/json.h"

static int read(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err)
{
    (void)stored;
    int pre = 1;
    int rc = kmf_family_positions(config, root, where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&pre, root, "pre_layer_norm", where, err);
    if (rc >= 0 && !pre)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: pre_layer_norm is false, but the layers have norms before them",
                        where);
    config->pre_norm = 1;
    config->closing_norm = 1;
    if (rc >= 0)
        rc = kmf_json_bool(&config->closing_norm, root, "last_layer_norm", where, err);
    if (rc >= 0)
        rc = kmf_json_size(&config->rotary_size, root, "rotary_dim", 2, config->hidden_size,
                           where, err);
    if (rc >= 0)
        rc = kmf_json_double(&config->rotary_base, root, "rotary_base", 1, 1e9, where, err);
    if (rc < 0)
        return rc;
    config->pooling = KMF_POOL_MEAN_ALL;
    config->ambiguous = KMF_AMBIGUOUS_UNK;
    return 0;
}

const kmf_family kmf_family_gena = {
    .name = "gena-lm",
    .marker = "encoder.layer.0.pre_attention_ln.weight",
    .vocabulary = "tokenizer.json",
    .prefix = "bert.",
    .rows = kmf_bert_rows,
    .n_rows = KMF_BERT_ROWS,
    .read = read,
};
