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
 * some files carry is computed here instead, and has to be the same.
 */
#include "model/families/bert.h"

#include "base/err.h"
#include "base/json.h"

static int read(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err)
{
    (void)stored;
    config->pooler = 0; /* it has none; what another head left there is not used */
    if (config->type_vocab_size == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: type_vocab_size: must be from 1 to 1024, got 0",
                        where);
    return kmf_json_bool(&config->rotary_value, root, "rotary_value", where, err);
}

const kmf_family kmf_family_roformer = {
    .name = "roformer",
    .model_type = "roformer",
    .marker = "encoder.embed_positions.weight",
    .vocabulary = "vocab.txt",
    .prefix = "roformer.",
    .rows = kmf_bert_rows,
    .n_rows = KMF_BERT_ROWS,
    .read = read,
};
