/* SPDX-License-Identifier: MIT */
/*
 * The workspace that the parts of a pass share: embedding, blocks and head each have a file, with
 * forward and backward beside each other.
 */
#ifndef KMF_MLM_ROOM_H
#define KMF_MLM_ROOM_H

#include "learn/mlm.h"
#include "nn/gemm.h"
#include "seq/par.h"

/*
 * Rows and columns of a weight that one item of work adds the gradient of: so many that dy and x
 * are read at a small part of the speed at which they are multiplied.
 */
#define KMF_WEIGHT_ROWS ((size_t)2 * KMF_TILE)
#define KMF_WEIGHT_COLS ((size_t)2 * KMF_FACTOR_COLS)
/* Columns of the word table that one item adds the embedding's gradient to. */
#define KMF_WORD_COLS ((size_t)64)
/* The most weights whose gradients one phase adds, and vectors that one reduction sums. */
enum { KMF_MOST_PRODUCTS = 3, KMF_MOST_SUMS = 7 };
/* Factors of these gradients that are there at a time, but for those in rooms of their own. */
enum { KMF_FACTORS = 4, KMF_WIDE_FACTORS = 2 };

/* What draws from dropout, each with a key of its own in every layer. */
enum { KMF_DROP_ATTENTION, KMF_DROP_HEADS, KMF_DROP_FEED, KMF_DROP_SITES };

/* What a block's backward needs of its forward. */
typedef struct kmf_activations {
    kmf_real *qkv;   /* [N, 3D]  q and k turned */
    kmf_real *heads; /* [N, D]   the attention's output */
    kmf_real *stats; /* [N, 2H]  the attention's, a sequence's at off[s] */
    kmf_real *sum1;  /* [N, D]   input of the norm after the attention */
    kmf_real *h;     /* [N, F]   the feed-forward before its activation */
    kmf_real *sum2;  /* [N, D]   input of the norm after the feed-forward */
} kmf_activations;

/* Room for a weight, and what lies there now: packed for either direction, as last packed. */
typedef struct kmf_packing {
    void *room;
    kmf_weight weight;
} kmf_packing;

/* Rows that go into one partial sum of a vector, and that strips are made up of. */
#define KMF_GRAIN ((size_t)KMF_FACTOR_ROWS)

/* Rows that an item of work takes; no bit depends on how many they are. */
typedef struct kmf_strip {
    size_t row, rows; /* row is a multiple of KMF_GRAIN */
    size_t at;        /* from the first row of all strips, where it begins in their factors */
} kmf_strip;

/* Rows cut into strips that are as long as each other but for a unit. */
typedef struct kmf_strips {
    size_t row, rows;
    size_t unit; /* that a strip is whole ones of: KMF_GRAIN, or KMF_TILE */
    size_t n;
} kmf_strips;

/* dw [Dout, Din] += dy^T x */
typedef struct kmf_product {
    kmf_real *dw;
    kmf_factor dy, x;
} kmf_product;

/* to [n] += the sum over grains of the partial sums at `from`. */
typedef struct kmf_partial_sum {
    kmf_real *to;
    size_t from, n;
} kmf_partial_sum;

struct kmf_mlm {
    kmf_config config;
    const kmf_params *w; /* borrowed */
    kmf_mlm_options opts;
    kmf_pool *pool; /* borrowed */
    int workers;
    size_t D, E, F, H, K, V, L;
    size_t N;          /* rows of an array: max_tokens, and those beyond that a product reads */
    size_t chunk;      /* labelled tokens that the head takes at a time */
    size_t strip_rows; /* the most of a strip */
    size_t stage;      /* rows whose factors there is room for */

    void *slab;              /* owned; the arrays below lie in it */
    kmf_activations *layers; /* owned [L]; with recompute they share all but sum2 */
    size_t *rows;            /* owned [max_tokens] labelled tokens */
    int32_t *labels;         /* owned [max_tokens] theirs */
    double *nll;             /* owned [max_tokens] */
    kmf_real *cos_t, *sin_t; /* [max_seq, K/2] */
    kmf_real *x;             /* [N, D]  what goes from block to block; on the way back a block's
                                input, again */
    kmf_real *emb_sum;       /* [N, E]  input of the embedding's norm */
    kmf_real *emb;           /* [N, E]  its output, when a projection follows */
    kmf_real *x0;            /* [N, D]  the embedding's output; NULL: forward alone */
    kmf_real *strip_y;       /* [workers, strip_rows, max(D, E)] */
    kmf_real *strip_x;       /* [workers, strip_rows, D] */
    kmf_real *strip_f;       /* [workers, strip_rows, F] */
    kmf_real *strip_act;     /* [workers, strip_rows, F]; NULL: forward alone */
    kmf_real *scratch;       /* [workers, scratch_size] the attention's */
    size_t scratch_size;
    kmf_real *words; /* [workers, words_size] the products' */
    size_t words_size;
    kmf_real *qkv_bias; /* [3D] of the layer under way */
    kmf_packing qkv, wo, w1, w2, proj;

    /* backward, one layer's at a time */
    kmf_real *dx;      /* [N, D] */
    kmf_real *dsum1;   /* [N, D] */
    kmf_real *dheads;  /* [N, D] */
    kmf_real *dqkv;    /* [N, 3D] */
    kmf_real *partial; /* [N / KMF_GRAIN, partial_width] sums over a grain of rows */
    size_t partial_width;
    kmf_real *factors[KMF_FACTORS];   /* [stage, max(D, E)], packed; the parts say of what */
    kmf_real *wide[KMF_WIDE_FACTORS]; /* [stage, F] */

    kmf_real *mixed; /* [N, D] */

    kmf_real *means;         /* [max_seqs, C] over the rows of a sequence's tokens */
    kmf_real *dmeans;        /* [max_seqs, C] */
    kmf_composing composing; /* of max_seqs rows */

    /* head, `chunk` tokens at a time */
    kmf_real *head_x;            /* [chunk, D] */
    kmf_real *head_h, *head_act; /* [chunk, E] before and after the activation */
    kmf_real *head_out;          /* [chunk, E] */
    kmf_real *probs;             /* [chunk, V] */
    kmf_real *dlogits;           /* [chunk, V], packed */
    kmf_real *head_weights;      /* [chunk] */
    kmf_real *sites;             /* [N + chunk, n_sites] */
    kmf_packing head, word, head_back, word_back;

    /* the call under way */
    const kmf_mlm_batch *batch;
    bool training;       /* dropout, and a way back */
    const kmf_params *d; /* gradients; NULL: not on the way back */
    size_t n;            /* tokens */
    kmf_strips strips;   /* under way; on the way back those whose factors are kept */
    size_t n_labels;
    size_t layer;          /* the block under way */
    size_t first, n_chunk; /* labelled tokens under way in the head */
    kmf_product products[KMF_MOST_PRODUCTS];
    size_t n_products;
    kmf_partial_sum sums[KMF_MOST_SUMS];
    size_t n_sums;
};

/* Each leaves x, or takes dx, as the next expects it; 0 or KMF_ENOMEM. */
int kmf_mlm_embed_forward(kmf_mlm *m, kmf_err *err) KMF_MUST_CHECK;
int kmf_mlm_embed_backward(kmf_mlm *m, kmf_err *err) KMF_MUST_CHECK;
int kmf_mlm_block_forward(kmf_mlm *m, size_t layer, kmf_err *err) KMF_MUST_CHECK;
int kmf_mlm_block_backward(kmf_mlm *m, size_t layer, kmf_err *err) KMF_MUST_CHECK;
/* Loss, and on the way back dx and the head's gradients. */
int kmf_mlm_head(kmf_mlm *m, kmf_mlm_result *result, kmf_err *err) KMF_MUST_CHECK;
/* Does the batch go through the encoder? A composition alone does not. */
bool kmf_mlm_encodes(const kmf_mlm *m);
/* Vectors [n_seq, D] from x; backward adds to dx what dvectors make of it. */
int kmf_mlm_pool_forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err) KMF_MUST_CHECK;
int kmf_mlm_pool_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err) KMF_MUST_CHECK;
/* Tokens of sequence s that its vector is made from: *beg .. *end - 1, those that count; */
void kmf_mlm_pooled(const kmf_mlm *m, size_t s, size_t *beg, size_t *end);
bool kmf_mlm_counts(const kmf_mlm *m, size_t t);
/* and how many they are. */
size_t kmf_mlm_count(const kmf_mlm *m, size_t beg, size_t end);
/* Vectors [n_seq, C] from the tokens alone; backward adds to the gradients. */
int kmf_mlm_compose_forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err) KMF_MUST_CHECK;
int kmf_mlm_compose_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err) KMF_MUST_CHECK;
/*
 * x [n, D], the input of a block, mixed as the batch says; dx, the gradient by what was mixed,
 * becomes that by what went in. Where the batch does not mix at this layer nothing happens.
 */
void kmf_mlm_mix_forward(const kmf_mlm *m, kmf_real *x, size_t layer);
void kmf_mlm_mix_backward(const kmf_mlm *m, kmf_real *dx, size_t layer);

/* ---- what the parts share: mlm.c --------------------------------------------------------- */

/*
 * Works `rows` rows off by fn, whose item i is the i-th strip of whole units. A product of a strip
 * reads rows beyond it: where they are written in the same phase, by another strip, the unit must
 * be KMF_TILE.
 */
int kmf_mlm_each(kmf_mlm *m, size_t rows, size_t unit, kmf_item_fn *fn,
                 kmf_err *err) KMF_MUST_CHECK;
/* The i-th of the strips under way. */
kmf_strip kmf_mlm_strip(const kmf_mlm *m, size_t i);
/* Drops elements of rows from `row` on, width wide, as site and layer say; forward and backward. */
void kmf_mlm_drop(const kmf_mlm *m, kmf_real *x, size_t ld, int site, size_t layer, size_t row,
                  size_t rows, size_t width);
uint64_t kmf_mlm_drop_key(const kmf_mlm *m, int site, size_t layer, size_t sequence);

/* Packs w, [Dout, Din] in n_parts blocks of rows, for products with it or with its transpose. */
void kmf_mlm_pack(const kmf_mlm *m, kmf_packing *p, const kmf_real *const *w, size_t n_parts,
                  size_t Dout, size_t Din);
void kmf_mlm_pack_back(const kmf_mlm *m, kmf_packing *p, const kmf_real *const *w,
                       size_t n_parts, size_t Dout, size_t Din);
/* y = x w^T + bias (NULL: none) for the rows of a strip, by kmf_gemm_weight. */
void kmf_mlm_multiply(const kmf_mlm *m, int worker, kmf_real *y, size_t ld_y, const kmf_real *x,
                      size_t ld_x, const kmf_packing *w, size_t rows, const kmf_real *bias);

/* The worker's piece of an array of [workers, strip_rows, width]. */
kmf_real *kmf_mlm_of_worker(const kmf_mlm *m, kmf_real *array, int worker, size_t width);

/* A factor of N tokens, a multiple of KMF_GRAIN, and cols columns in a room. */
kmf_factor kmf_mlm_factor(const kmf_mlm *m, kmf_real *room, size_t N, size_t cols);
/* A weight's gradient is wanted in the next phase. */
void kmf_mlm_product(kmf_mlm *m, kmf_real *dw, kmf_factor dy, kmf_factor x);
/* Items of all products. */
size_t kmf_mlm_product_items(const kmf_mlm *m);
/* Adds item i of the products over the tokens of the strips under way. */
void kmf_mlm_product_add(const kmf_mlm *m, size_t i);
/*
 * Works all tokens off by fn, a stage at a time: item i of fn is the i-th strip under way. Behind
 * each stage its products are added; those of the last one are left to the caller. Strips are of
 * whole grains: what fn multiplies is not written in the phase, unless it is the worker's own.
 */
int kmf_mlm_stages(kmf_mlm *m, kmf_item_fn *fn, kmf_err *err) KMF_MUST_CHECK;

/* Where in a grain's partial sums the n numbers of a vector's gradient are added up. */
size_t kmf_mlm_sum(kmf_mlm *m, kmf_real *to, size_t n);
/* Sets all partial sums of a strip's grains to 0. */
void kmf_mlm_clear_sums(const kmf_mlm *m, const kmf_strip *strip);
/* What kmf_bias_backward adds for the rows of a strip, dy, goes to a sum of each grain. */
void kmf_mlm_bias_backward(const kmf_mlm *m, const kmf_strip *strip, size_t sum,
                           const kmf_real *dy, size_t ld);
/*
 * kmf_layernorm_backward in place for the rows of a strip, dx [rows, D] and x [rows, D], the norm's
 * input; what it adds goes to two sums of each grain.
 */
void kmf_mlm_norm_backward(const kmf_mlm *m, const kmf_strip *strip, size_t weight_sum,
                           size_t bias_sum, kmf_real *dx, const kmf_real *x, const kmf_real *w);
/* Adds those of so many rows up, grain after grain. */
void kmf_mlm_reduce(const kmf_mlm *m, size_t rows);

#endif
