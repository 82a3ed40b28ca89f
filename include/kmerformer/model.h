/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: encoders: their shape, their files, one forward pass. */
#ifndef KMERFORMER_MODEL_H
#define KMERFORMER_MODEL_H

#include "tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- model ------------------ */

typedef enum kmf_activation { KMF_GELU, KMF_GELU_TANH, KMF_RELU, KMF_SILU } kmf_activation;
/* As config.json has them: gelu gelu_new relu silu, then other names of some of them. */
KMF_API extern const char *const kmf_activation_names[];

/* How the encoder learns where a token stands. t: its place in the window, from 0. */
typedef enum kmf_positions {
    KMF_POSITIONS_ROTARY, /* q and k turned in pairs (2i, 2i + 1) of a head's columns   */
    KMF_POSITIONS_ROTARY_HALVES, /* in pairs (i, i + r / 2) of its first r columns             */
    KMF_POSITIONS_LEARNED, /* row t + position_offset of a table, added to the embedding */
    KMF_POSITIONS_ALIBI    /* scores - slope |t - u|; a slope for each head              */
} kmf_positions;

typedef enum kmf_pooling {
    KMF_POOL_MEAN,     /* over the tokens that stand for bases                     */
    KMF_POOL_CLS,      /* [CLS]'s state                                            */
    KMF_POOL_MAX,      /* as MEAN, the maximum of each column                      */
    KMF_POOL_NONE,     /* a vector for each of them                                */
    KMF_POOL_MEAN_ALL, /* over all tokens, [CLS] and [SEP] of each window included */
    KMF_POOL_POOLER    /* tanh(W [CLS] + b), by the model's own pooler             */
} kmf_pooling;
/*
 * What a vector is made of. The composition is that of a model that has one (kmf_config), and goes
 * with MEAN alone: z, the mean over the k-mers of their rows in a table of its own, then
 *
 *   u = LN(z)    c = u + W2 gelu(W1 u + b1) + b2
 */
typedef enum kmf_vector_parts {
    KMF_PARTS_STATES,      /* the hidden states of a layer, pooled: D numbers            */
    KMF_PARTS_COMPOSITION, /* c: C numbers; the encoder has no part in it                */
    KMF_PARTS_STATES_COMPOSITION /* the one behind the other: D + C                            */
} kmf_vector_parts;
typedef enum kmf_strand { KMF_STRAND_FWD, KMF_STRAND_RC, KMF_STRAND_BOTH } kmf_strand;
/*
 * L2: vectors have length 1; of two parts, the states have length 1 / sqrt(5) and the composition
 * 2 / sqrt(5), so that a cosine is 1/5 that of the states and 4/5 that of the compositions.
 */
typedef enum kmf_norm { KMF_NORM_NONE, KMF_NORM_L2 } kmf_norm;

/*
 * The words for the enums above in options, config.json and provenance: index = value, NULL
 * after the last.
 */
KMF_API extern const char *const kmf_pooling_names[]; /* mean cls max none mean-all pooler */
KMF_API extern const char *const kmf_parts_names[];  /* states composition states+composition */
KMF_API extern const char *const kmf_strand_names[]; /* fwd rc both */
KMF_API extern const char *const kmf_norm_names[];   /* none l2 */

/* The shape of an encoder, and what it was made for. */
typedef struct kmf_config {
    const char *family; /* whose files it has: "roformer", "dnabert", ...; static storage */

    /* the encoder, as config.json has it */
    size_t vocab_size;        /* V */
    size_t embedding_size;    /* E; D unless a projection follows the embedding */
    size_t hidden_size;       /* D */
    size_t n_layers;          /* L */
    size_t n_heads;           /* H; D is a multiple of H, and of 2 H where heads are turned */
    size_t intermediate_size; /* F */
    size_t max_positions;     /* longest window it was made for, in tokens */
    size_t type_vocab_size;   /* 0: no token types */
    double layer_norm_eps;
    kmf_activation activation;
    int rotary_value; /* the values are turned as well */

    /* what sets families apart, for a model that is made as kmf_config_preset leaves it; the
       equations stand in src/model/encoder.c */
    kmf_positions positions;
    size_t position_offset; /* LEARNED: rows of the table before a window's first token's */
    size_t rotary_size;     /* r, even; 0: whole heads, D / H */
    double rotary_base;
    int embedding_norm; /* the embedding is normed */
    int pre_norm;       /* norms before the sublayers, not after */
    int closing_norm;   /* a norm after the last layer */
    int gated;    /* act(x Wg^T) * (x Wu^T) feeds W2; Wg and Wu are W1, one above the other */
    int bias_in;  /* W1 has a bias */
    int bias_out; /* W2 has a bias */
    int token_dropout;  /* embeddings are scaled as in training, [MASK]s are 0 */
    int pooler;         /* a dense layer with tanh on [CLS] */
    size_t composition; /* C: numbers of the composition's part of vectors; 0: it has none */
    int own_decoder;    /* the head's matrix is not the table of tokens */
    int head_biases;    /* times that the head's bias is added */
    double head_eps;    /* of the head's norm; 0: layer_norm_eps */
    int head_gelu;      /* the head's activation is GELU, whatever the layers have */

    /* how it wants to be used: the "kmerformer" object of config.json, and our defaults */
    int k;         /* 0: tokens have no common length */
    size_t stride; /* 1 where k-mers do not overlap by it */
    size_t window; /* tokens, frame included, 3 .. 2^24: a frame of two and a token */
    size_t overlap;
    int specials; /* windows are framed as kmf_vocab_frame says */
    kmf_pooling pooling;
    int layer; /* 0 embeddings .. L; negative counts from the end: -1 = L */
    kmf_vector_parts parts;
    kmf_strand strand;
    kmf_norm norm;
    kmf_ambiguous ambiguous;
    kmf_exact exact; /* its published tokenizer */
    int bounded;     /* 1: that tokenizer truncates at max_positions tokens */
} kmf_config;

typedef struct kmf_model kmf_model;

/*
 * What an encoder's matrix products are computed in. Sums are float32 (int8: exact integers), and
 * so is all that is not a product.
 *
 *   F32    float32; with AMX each number as the sum of three bfloat16, which is as exact
 *   BF16   both factors rounded to bfloat16
 *   INT8   weights to 8 bits with a scale for each output, activations with a scale and an offset
 *          for each token, before the second product of the feed-forward for 256 of its columns;
 *          in attention each head's queries like activations, its keys with a scale for each, its
 *          values with one for each column, and the weights of a token's neighbours in units of
 *          1/254 of the largest
 *
 *          In the first layer, whose errors go through all others: q, k and v F32 beside either,
 *          where a table over the vocabulary makes that cheap; queries and keys to 16 bits, with a
 *          scale for each, or with AMX as the sum of two BF16; its values, and beside INT8 that
 *          second product, as BF16, or where the processor lacks it to 16 bits: likewise, but the
 *          values by columns and the weights of neighbours in units of 1/2048 of the largest.
 *   AUTO   the fastest of them whose vectors have a cosine above 0.9999 with those of F32: BF16
 *          if the processor has it and is faster with it, else F32
 */
typedef enum kmf_precision {
    KMF_PRECISION_F32,
    KMF_PRECISION_BF16,
    KMF_PRECISION_INT8,
    KMF_PRECISION_AUTO
} kmf_precision;
KMF_API extern const char *const kmf_precision_names[]; /* f32 bf16 int8 auto */

/*
 * The precision that this processor computes in when asked for `wish`: itself, or F32 where it
 * lacks the instructions. KMERFORMER_CPU lowers what it has.
 */
KMF_API kmf_precision kmf_precision_here(kmf_precision wish);

/*
 * The presets nano, tiny, small and base for k-mers of length k. KMF_EINVAL: no such preset, or
 * k not in 1 .. 12.
 */
KMF_API int kmf_config_preset(kmf_config *config, const char *preset, int k,
                              kmf_err *err) KMF_MUST_CHECK;

/* Numbers of a vector of `parts`. */
KMF_API size_t kmf_config_columns(const kmf_config *config, kmf_vector_parts parts);
/* Columns of a head that are rotated by their positions, of a model's or a preset's configuration;
   0 if positions are not rotary. */
KMF_API size_t kmf_config_rotary_size(const kmf_config *config);
/*
 * The overlap of windows of so many tokens, framed by specials or not: the configuration's, or
 * half of the window's k-mers, which is the most that kmf_cutter_new takes.
 */
KMF_API size_t kmf_config_overlap(const kmf_config *config, const kmf_vocab *vocab,
                                  size_t window, int specials);

/*
 * A new model with weights drawn from seed: normal-like with standard deviation 0.02, biases 0,
 * layer norms 1 and 0. The same bits on every machine. KMF_EINVAL: the configuration contradicts
 * itself, or is of another family than ours; KMF_ENOMEM.
 */
KMF_API kmf_model *kmf_model_new(const kmf_config *config, uint64_t seed,
                                 kmf_err *err) KMF_MUST_CHECK;

/*
 * A model directory as it comes off a hub: config.json; vocab.txt or tokenizer.json;
 * model.safetensors, shards of it with their index, or pytorch_model.bin. Or one safetensors file
 * of ours that holds the other files in its metadata. Weights are mapped, not read, where they are
 * float32 already. Nothing in the files is trusted; KMF_EMODEL names what is wrong. path NULL: that
 * of $KMERFORMER_MODEL, if it is set, else the default model that came with the program.
 */
KMF_API kmf_model *kmf_model_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: path is a file that holds a whole model; 0: it is not; KMF_EMODEL: it is a checkpoint of
 * PyTorch or a pointer of Git LFS, which is neither a model nor vectors; KMF_EIO, KMF_ENOMEM.
 */
KMF_API int kmf_model_is_file(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_model_free(kmf_model *model);

/*
 * How weights are stored. They are float32 in memory, whatever it was.
 *
 *   I8   the matrices that INT8 above multiplies by, rounded as it rounds them: 8 bits with a
 *        scale, float32, for each row. The other matrices, the tables of tokens and types, the
 *        head's and the composition's, are BF16: in a small model they are a quarter of all weights
 *        or more. Biases and norms, less than a hundredth, are F32.
 */
typedef enum kmf_dtype { KMF_F32, KMF_F16, KMF_BF16, KMF_I8, KMF_F64 } kmf_dtype;
/* f32 f16 bf16 int8: those that are written */
KMF_API extern const char *const kmf_dtype_names[];

/*
 * Writes the directory, or the one file that holds all if dir ends in ".safetensors"; any dtype
 * but F64. A model of another family keeps the names of its family, config.json and tokenizer.
 * provenance, the text of a JSON object, is kept in config.json; NULL: the model's own stays.
 * KMF_EINVAL: provenance is no such text, or too long a one, or one file cannot hold the
 * vocabulary because it is not UTF-8; KMF_EMODEL: because it is too long, as of k-mers of 11
 * and 12 letters; KMF_ENUMERIC: a weight is too large for dtype; KMF_EIO: dir exists and is not
 * empty, the file exists, or it cannot be written. Nothing is left behind on failure.
 */
KMF_API int kmf_model_save(const kmf_model *model, const char *dir, kmf_dtype dtype,
                           const char *provenance, kmf_err *err) KMF_MUST_CHECK;

/*
 * What storing a model, whose weights are float32 in memory, as dtype does to the row of a matrix
 * that it changes most.
 */
typedef struct kmf_rounding {
    double error;  /* |stored - row| / |row|, Euclidean; a bias or norm is one row */
    size_t tensor; /* for kmf_model_tensor */
    size_t row;
} kmf_rounding;
/* KMF_EINVAL: a dtype that kmf_model_save does not write. */
KMF_API int kmf_model_rounding(const kmf_model *model, kmf_dtype dtype, kmf_rounding *rounding,
                               kmf_err *err) KMF_MUST_CHECK;

/*
 * Packs the weights for encoders that compute in kmf_precision_here(precision). Once per model:
 * KMF_EINVAL with another precision later, or one that there is not; the first kmf_encoder_new of a
 * model for which it was not called does it for F32. Thread-safe.
 */
KMF_API int kmf_model_prepare(const kmf_model *model, kmf_precision precision,
                              kmf_err *err) KMF_MUST_CHECK;
/* The precision that the model was prepared for; F32 before. */
KMF_API kmf_precision kmf_model_precision(const kmf_model *model);

KMF_API const kmf_config *kmf_model_config(const kmf_model *model);
KMF_API const kmf_vocab *kmf_model_vocab(const kmf_model *model);
/* The directory or file it was loaded from, "" if it was not. */
KMF_API const char *kmf_model_path(const kmf_model *model);
/* The kept provenance as JSON text, "" if there is none. */
KMF_API const char *kmf_model_provenance(const kmf_model *model);
/* The same of a model that is not loaded, without a look at its weights; for kmf_text_free. */
KMF_API char *kmf_model_read_provenance(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API uint64_t kmf_model_n_parameters(const kmf_model *model);
/*
 * Bytes of memory for the weights in a run of float32, about: 4 each, with AMX 6 of those that are
 * multiplied; these once more, 4 each, where they had to be converted first.
 */
KMF_API uint64_t kmf_model_bytes(const kmf_model *model);
/* Tensors of its files that the encoder has no use for, and that are not written again. */
KMF_API size_t kmf_model_n_unused(const kmf_model *model);

/* One row of the parameter table, in file order; the scales of an I8 tensor are no rows. */
typedef struct kmf_tensor_info {
    const char *name;
    size_t shape[2];
    int rank;
    kmf_dtype dtype;    /* as stored */
    const char *stored; /* the name of its dtype in a safetensors file, as "BF16"; static */
} kmf_tensor_info;
KMF_API size_t kmf_model_n_tensors(const kmf_model *model);
KMF_API void kmf_model_tensor(const kmf_model *model, size_t i, kmf_tensor_info *info);

/* ---------------------------------------------------------------- encoder ---------------- */

/*
 * The workspace of one thread for batches of at most max_tokens tokens with no sequence longer
 * than max_seq, which is no more than max_positions where positions are LEARNED (KMF_EINVAL). Its
 * size in bytes is a function of these, of the model's shape and precision, and of the kernels that
 * the processor and the environment choose.
 */
typedef struct kmf_encoder kmf_encoder;

/* 0 if it does not fit a size_t. precision: one that kmf_precision_here returns. */
KMF_API size_t kmf_encoder_bytes(const kmf_config *config, kmf_precision precision,
                                 size_t max_tokens, size_t max_seq);
KMF_API kmf_encoder *kmf_encoder_new(const kmf_model *model, size_t max_tokens, size_t max_seq,
                                     kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_encoder_free(kmf_encoder *encoder);

/*
 * Runs n_seq sequences packed end to end: sequence s is ids[off[s]] .. ids[off[s+1] - 1],
 * off[0] is 0. Positions start at 0 in each. Returns the hidden states after `layer` layers (0:
 * the embeddings; 1 .. L), [off[n_seq], D] row-major, borrowed until the next call. A
 * sequence's rows have the same bits whatever else is in the batch. Every id must be below V,
 * every sequence have 1 .. max_seq tokens, off[n_seq] be at most max_tokens.
 */
KMF_API const float *kmf_encoder_forward(kmf_encoder *encoder, const int32_t *ids,
                                         const size_t *off, size_t n_seq, size_t layer);

/*
 * The same, with the bits of kmf_encoder_forward, by n (1 or more) encoders of one model and room,
 * a thread for each, the caller's among them: for a few long sequences rather than for many, which
 * are better given to an encoder each. The result, and what kmf_encoder_logits needs, is
 * encoders[0]'s.
 * KMF_EINVAL: n is 0; KMF_ENOMEM: there cannot be so many threads.
 */
KMF_API int kmf_encoder_forward_together(kmf_encoder *const *encoders, size_t n,
                                         const float **hidden, const int32_t *ids,
                                         const size_t *off, size_t n_seq, size_t layer,
                                         kmf_err *err) KMF_MUST_CHECK;

/*
 * Masked-language-model logits of n_rows rows of the last kmf_encoder_forward, which must have
 * gone through all layers: logits [n_rows, V], rows[i] < off[n_seq]. What that forward returned
 * stays as it was. KMF_EMODEL: the model has no such head; KMF_EINVAL: it did not.
 */
KMF_API int kmf_encoder_logits(kmf_encoder *encoder, float *logits, const size_t *rows,
                               size_t n_rows, kmf_err *err) KMF_MUST_CHECK;

/* Likewise tanh(W x + b): pooled [n_rows, D]. KMF_EMODEL: no pooler; KMF_EINVAL. */
KMF_API int kmf_encoder_pooler(kmf_encoder *encoder, float *pooled, const size_t *rows,
                               size_t n_rows, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
