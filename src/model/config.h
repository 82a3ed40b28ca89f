/* SPDX-License-Identifier: MIT */
/*
 * config.json in the Hugging Face layout. What the families share, here; what is a family's own
 * stands in families/.
 *
 *   model_type               see families/family.h; tensors tell more than it does
 *   vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size
 *   embedding_size           absent or null: hidden_size
 *   max_position_embeddings  1536      type_vocab_size  2      layer_norm_eps  1e-12
 *   hidden_act               gelu (by erf); gelu_new or gelu_pytorch_tanh; relu; silu or swish
 *   is_decoder               must not be true
 *   what would change the computation and is not computed: absent, null, false or empty, as
 *   sparse_attention, sparse_config_cls, pruned_heads, quantization_config; rope_scaling and
 *   rope_parameters may have the type default, rope_theta may be 10000, rescaling_factor 1
 *
 * Other keys there are ignored, as Hugging Face ignores what it does not know. What the model
 * was made for stands in an object of ours, all keys optional, unknown ones refused (a newer
 * program wrote them and means something by them):
 *
 *   "kmerformer": {
 *     "k", "stride" (1), "window" (max_position_embeddings), "overlap" (window / 8),
 *     "specials": true | false (true if the vocabulary has [CLS] and [SEP]),
 *     "pooling": "mean" | "cls" | "max" | "none" | "mean-all" | "pooler",   "layer": -1,
 *     "composition": C (absent: 0, none; C numbers of a vector, hidden layer of 4 C),
 *     "parts": "states" | "composition" | "states+composition" (absent: states),
 *     "strand": "fwd" | "rc" | "both",   "norm": "none" | "l2",
 *     "ambiguous": "skip" | "unk" | "break" | "error",
 *     "provenance": { anything }
 *   }
 */
#ifndef KMF_CONFIG_H
#define KMF_CONFIG_H

#include "model/tensorfiles.h"

#include <stdbool.h>

/* More parameters than this (256 GB as float32) are taken for a broken file. */
#define KMF_PARAMETERS_MAX (UINT64_C(1) << 36)

/*
 * Reads the len bytes of a config.json. k = 0, specials = -1 mean: not said, see
 * kmf_config_fit. stored, which may be NULL, tells the family. *provenance is the kept object as
 * JSON text, "" if there is none; freed by kmf_free, NULL on failure. name is used in messages.
 * Nothing is allocated by what it says.
 */
int kmf_config_parse(kmf_config *config, char **provenance, const char *text, size_t len,
                     const kmf_tensors *stored, const char *name, kmf_err *err) KMF_MUST_CHECK;

/* Fills in what the vocabulary decides; KMF_EMODEL if the two do not go together. */
int kmf_config_fit(kmf_config *config, const kmf_vocab *vocab, const char *name,
                   kmf_err *err) KMF_MUST_CHECK;

/* Every range and every rule between fields; fails with code. */
int kmf_config_check(const kmf_config *config, kmf_code code, const char *name,
                     kmf_err *err) KMF_MUST_CHECK;

/* The same for a model that is to be made: a RoFormer. KMF_EINVAL. */
int kmf_config_check_native(const kmf_config *config, const char *name,
                            kmf_err *err) KMF_MUST_CHECK;

/* What the first feed-forward product makes of a token: the gate's columns are among them. */
size_t kmf_config_inner(const kmf_config *config);

/* Is the part in vectors of parts? */
bool kmf_has_states(kmf_vector_parts parts);
bool kmf_has_composition(kmf_vector_parts parts);

/* Number of weights and biases; 0 if it is beyond KMF_PARAMETERS_MAX. */
uint64_t kmf_config_parameters(const kmf_config *config, int has_head);

/*
 * The text of config.json, which kmf_config_parse reads back to the same config: the keys of a
 * RoFormer; or if original, the text that it was read from, is not "", that one's, and what is
 * ours set anew. vocab gives pad_token_id; provenance: JSON object text (KMF_EINVAL if it is not),
 * or NULL or "" for none. Freed by kmf_free.
 */
char *kmf_config_write(const kmf_config *config, int has_head, const kmf_vocab *vocab,
                       const char *original, const char *provenance,
                       kmf_err *err) KMF_MUST_CHECK;

#endif
