/* SPDX-License-Identifier: MIT */
/*
 * How records become vectors: by an encoder, by k-mer frequencies, or by the vectors of their
 * k-mers. The pipeline (embedder.c, flow.h) cuts records into pieces as the method wants them, has
 * its threads work on batches of them, and adds up what comes out; it knows no method by name.
 */
#ifndef KMF_METHOD_H
#define KMF_METHOD_H

#include "base/io.h"
#include "embed/batch.h"

#include <jansson.h>

typedef struct kmf_method kmf_method;

typedef struct kmf_method_kind {
    /* Of chunks: fills in the results of the batch's pieces; worker: 0 .. threads - 1. */
    void (*work)(const kmf_method *method, kmf_batch *batch, int worker);
    /*
     * Of stretches, in place of work: once for a batch, and then for each of its pieces, in their
     * order. Fills in the piece's results, if not with those of one before, and its sum [dim].
     */
    void (*start)(const kmf_method *method, kmf_batch *batch, int worker);
    void (*piece)(const kmf_method *method, const kmf_batch *batch, kmf_piece *piece,
                  double *sum, int worker);
    /*
     * The same of a piece that is a whole record: if it has tokens, its vector [dim] in place of
     * the sum, with the same bits.
     */
    void (*vector)(const kmf_method *method, const kmf_batch *batch, kmf_piece *piece,
                   float *vector, int worker);
    /* Of shared ones: by a worker that has no batch, parts of what the others are at. */
    void (*help)(const kmf_method *method, int worker);
    /* What takes long before the first batch; NULL: nothing. */
    int (*prepare)(kmf_method *method, const kmf_embed_options *opts, kmf_err *err);
    /*
     * Of n records' vectors when all their pieces are in them, before they are normed; some at a
     * time are faster than one. NULL: nothing.
     */
    void (*finish)(const kmf_method *method, float *const *vectors, size_t n);
    /* Bytes held, batches apart. */
    size_t (*bytes)(const kmf_method *method);
    /*
     * The options that decide the vectors, besides strand, norm, ambiguous and strict, as a JSON
     * object; NULL: out of memory.
     */
    json_t *(*settings)(const kmf_method *method, const kmf_embed_options *opts);
    void (*free)(kmf_method *method); /* one made in part, too */
    const char *unknown;              /* "k-mers that the vocabulary lacks", for messages */
} kmf_method_kind;

/*
 * A strand is cut into stretches of `step` letters, a multiple of the stride. The windows that
 * start in a stretch belong to it; `span` letters from its beginning on are handed over, as far as
 * those windows reach. A rest of less than `least` letters holds no window.
 */
typedef struct kmf_stretch {
    size_t step, span, least;
} kmf_stretch;

#define KMF_METHOD_FILES 3

typedef struct kmf_method_file {
    const char *key; /* "md5", "counts_md5", "config_md5", "vocab_md5"; NULL: no such file */
    const kmf_map *const *maps; /* [n] of it, or of its parts; borrowed from the method */
    size_t n;
    bool keep; /* it is a text in memory, no map of a file */
} kmf_method_file;

/* What every method begins with. */
struct kmf_method {
    const kmf_method_kind *kind;
    const char *name;                /* as kmf_embedder_name; borrowed from the method */
    const kmf_model *model;          /* NULL: it has none */
    const kmf_vectors_info *vectors; /* NULL: it has none */
    /* What decides its vectors, for provenance, as it was when it was made. */
    kmf_method_file files[KMF_METHOD_FILES]; /* those that there are come first */

    kmf_batch_shape shape;
    bool shared;  /* several workers can work on one batch */
    size_t first; /* numbers of the first of two parts that are normed each; 0: there is one */
    kmf_cutter *cutters[2]; /* forward, reverse: pieces are chunks of ids; NULL: */
    kmf_stretch stretch;    /* they are stretches of letters */
    /* Letters of a record up to which its sums are exact, so that it may be cut anywhere (read.c);
       0: by steps alone. */
    uint64_t exact_letters;
};

/* Does it read chunks of ids, or letters? */
static inline bool kmf_method_takes_ids(const kmf_method *method)
{
    return method->cutters[0] != NULL;
}

/*
 * The method for a kmf_embedder_new of this name. opts, of which what is common to all methods
 * has been checked, is completed. Makes and frees; kmf_method_free accepts NULL.
 */
kmf_method *kmf_method_open(const char *name, kmf_embed_options *opts,
                            kmf_err *err) KMF_MUST_CHECK;
void kmf_method_free(kmf_method *method);

/* The same for one kind each. */
kmf_method *kmf_encode_open(const char *name, kmf_embed_options *opts,
                            kmf_err *err) KMF_MUST_CHECK;
kmf_method *kmf_frequency_open(const char *name, kmf_embed_options *opts,
                               kmf_err *err) KMF_MUST_CHECK;
kmf_method *kmf_wordmean_open(const char *name, kmf_embed_options *opts,
                              kmf_err *err) KMF_MUST_CHECK;

#endif
