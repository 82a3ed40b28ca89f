/* SPDX-License-Identifier: MIT */
/*
 * A model directory:
 *
 *   config.json                    config.h
 *   vocab.txt or tokenizer.json    what the family has
 *   tokenizer_config.json          for Hugging Face's tokenizers: not understood here, and written
 *   special_tokens_map.json        again as they are
 *   model.safetensors              or what else tensorfiles.h reads
 *
 * Or one safetensors file, with the text of the others in its metadata under their names.
 */
#ifndef KMF_MODELFILES_H
#define KMF_MODELFILES_H

#include "model/model.h"

#define KMF_CONFIG_BYTES_MAX ((size_t)1 << 20)

/* All that a directory may hold; those in tokenizer files' places are one or the other. */
enum {
    KMF_FILE_CONFIG,
    KMF_FILE_VOCAB,
    KMF_FILE_TOKENIZER,
    KMF_FILE_TOKENIZER_CONFIG,
    KMF_FILE_SPECIAL_TOKENS,
    KMF_FILE_WEIGHTS,
    KMF_N_FILES
};
extern const char *const kmf_model_files[KMF_N_FILES];

#endif
