/* SPDX-License-Identifier: MIT */
/*
 * DNABERT (Y. Ji et al., Bioinformatics 2021): a BERT (J. Devlin et al., arXiv 1810.04805) on
 * overlapping k-mers, k = 3 to 6.
 *
 *   x  = LN( word[id] + position[t] + type[0] )
 *   L times, post-LN:
 *     x = LN( x + attention(x) )
 *     x = LN( x + W_2 gelu( W_1 x + b_1 ) + b_2 )
 *   head: logits = LN( gelu( W_t x + b_t ) ) word^T + 2 bias
 *
 * The bias counts twice since the code that trained these models adds it in the decoder, whose
 * bias is the same tensor, and once more after it.
 */
#include "model/families/bert.h"

#include "base/json.h"

static int read(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err)
{
    static const char *const absolute[] = {"absolute", NULL}; /* BERTs may have others */
    int word = 0;
    (void)stored;
    int rc = kmf_json_choice(&word, root, "position_embedding_type", absolute, where, err);
    if (rc < 0)
        return rc;
    config->positions = KMF_POSITIONS_LEARNED;
    config->head_biases = 2;
    config->ambiguous = KMF_AMBIGUOUS_UNK;
    config->exact = KMF_EXACT_SPLIT;
    return 0;
}

const kmf_family kmf_family_dnabert = {
    .name = "dnabert",
    .model_type = "bert",
    .marker = "embeddings.position_embeddings.weight",
    .vocabulary = "vocab.txt",
    .prefix = "bert.",
    .rows = kmf_bert_rows,
    .n_rows = KMF_BERT_ROWS,
    .read = read,
};
