/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: from records to rows, one vector each. */
#ifndef KMERFORMER_EMBED_H
#define KMERFORMER_EMBED_H

#include "model.h"
#include "reader.h"
#include "vectors.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a k-mer's vector weighs in the mean of its record. */
typedef enum kmf_weights {
    KMF_WEIGHTS_NONE, /* all the same                                                    */
    KMF_WEIGHTS_SIF   /* smooth inverse frequency, a / (a + p): a = 0.001, p its share of
                         the words of its length in training (Arora, Liang and Ma 2017)  */
} kmf_weights;
KMF_API extern const char *const kmf_weights_names[]; /* none sif */

/* -1 in an enum field or 0 in a size means: as the model says. */
typedef struct kmf_embed_options {
    int pooling;    /* kmf_pooling */
    int layer;      /* KMF_LAYER_MODEL, or as kmf_config.layer */
    int parts;      /* kmf_vector_parts */
    int strand;     /* kmf_strand */
    int norm;       /* kmf_norm */
    int ambiguous;  /* kmf_ambiguous */
    int policy;     /* kmf_long; -1 = chunk; exact: truncate, or error if there is no limit */
    int exact;      /* encoders: by the published tokenizer, kmf_config.exact */
    int k;          /* k-mer vectors: words of this length alone; 0: of all in the file */
    int precision;  /* kmf_precision; -1 = F32. What the processor lacks becomes F32 */
    int weights;    /* k-mer vectors: kmf_weights; -1 = none */
    size_t stride;  /* bases */
    size_t window;  /* tokens; as kmf_cut_options.window */
    size_t overlap; /* tokens; KMF_OVERLAP_MODEL: as the model says */
    size_t batch_tokens; /* of a batch, 64 .. 2^24; 0 = 1024, of a composition alone 16384; a
                            longer chunk is a batch of its own; tnf, kmer:K, k-mer vectors:
                            letters, 0 = 2^20 */
    int threads;         /* 1 .. 1024; 0: kmf_threads_default() */
    /* any cut, chunk, ambiguity, unknown k-mer, empty record or stride above k is an error */
    int strict;
    uint64_t seed;     /* of a random model's weights; 1 where there are none */
    uint64_t shard;    /* with n_shards > 1 only records shard, shard + n_shards, ... */
    uint64_t n_shards; /* 0 and 1: all of them */
    int provenance;    /* kmf_provenance or kmf_embedder_identity will be called, by one thread
                          at a time: what they tell of the model's files is computed beside the
                          start of the run */
} kmf_embed_options;

#define KMF_LAYER_MODEL (-1000000)
#define KMF_OVERLAP_MODEL ((size_t)-1)

/* As the model says, the usual batch and threads, seed 1, all records. */
KMF_API void kmf_embed_options_default(kmf_embed_options *opts);

/*
 * What a whole run met. With both strands, which a stride above 1 cuts into other k-mers, tokens,
 * ambiguous and unknown of a record are each the larger of the two strands' counts.
 */
typedef struct kmf_embed_stats {
    uint64_t records;
    uint64_t bases;
    uint64_t tokens;    /* k-mers counted in the vectors                       */
    uint64_t ambiguous; /* windows with a base other than A, C, G, T or U      */
    uint64_t unknown;   /* k-mers that the vocabulary lacks; k-mer vectors: that have no
                           vector or never occurred in training, and are left out */
    uint64_t chunked;   /* records cut into more than one chunk                */
    uint64_t truncated; /* records that lost tokens to --long truncate, or all of them, and
                           have rows of NaN, to skip */
    uint64_t empty;     /* records without a valid k-mer: rows of NaN          */
} kmf_embed_stats;

/* Adds what a record lost when it was cut; records, bases and tokens are the caller's to add. */
KMF_API void kmf_embed_stats_add(kmf_embed_stats *stats, const kmf_cut_stats *record);

/* One result. Pointers are valid during the call only. */
typedef struct kmf_row {
    uint64_t index; /* of the record, over all inputs                                 */
    const char *name;
    uint64_t len; /* bases                                                          */
    uint64_t tokens;
    uint64_t ambiguous;
    uint64_t chunks;
    int64_t position; /* KMF_POOL_NONE: base at which the token starts, -1: no token; else -1 */
    const float *vector; /* [dim] */
} kmf_row;

/*
 * Called in input order. Returns 0, or a negative kmf_code, which ends the run; *err says why. Any
 * other number ends it, too: KMF_EINVAL. To add to, read into or finish the embedder that calls it,
 * or to have it embed a sequence, is KMF_EINVAL here and in a progress function, and changes
 * nothing; another embedder may do so.
 */
typedef int kmf_row_fn(void *user, const kmf_row *row, kmf_err *err);

typedef struct kmf_embedder kmf_embedder;

/*
 * model: a model directory, or one safetensors file of a model; NULL for the default one; "tnf"
 * (136 canonical tetranucleotide frequencies), "kmer:K" (4^K k-mer frequencies, K 1 .. 8), or a
 * file that kmf_vectors_load reads: the weighted mean of the vectors of a record's k-mers; or
 * "random:MODEL", a model of the shape of another one, which is of our own family, with weights
 * that were drawn from opts->seed as kmf_model_new draws them ("random": of the shape of the
 * default one). An option that such a model does not have, when set, is KMF_EINVAL; other failures
 * are those of kmf_model_load and kmf_vectors_load. opts is copied.
 *
 * Columns of kmer:K are all k-mers in code order, A C G T, the first letter the most significant
 * (AA, AC, ..); of tnf those that are no greater than their reverse complement, in this order.
 */
KMF_API kmf_embedder *kmf_embedder_new(const char *model, const kmf_embed_options *opts,
                                       kmf_err *err) KMF_MUST_CHECK;
/* What makes vectors, and so which options there are: counts have the fewest. */
typedef enum kmf_embedder_kind {
    KMF_EMBEDDER_COUNTS,  /* tnf, kmer:K */
    KMF_EMBEDDER_VECTORS, /* of k-mers */
    KMF_EMBEDDER_ENCODER
} kmf_embedder_kind;

/*
 * The kind that kmf_embedder_new would make of this name, an encoder also where there is nothing of
 * the name; or a negative kmf_code of kmf_model_is_file.
 */
KMF_API int kmf_embedder_kind_of(const char *model, kmf_err *err) KMF_MUST_CHECK;
/* 1: it stands for drawn weights, "random" or "random:MODEL"; 0: it does not, or is NULL. */
KMF_API int kmf_is_random(const char *model);
KMF_API void kmf_embedder_free(kmf_embedder *embedder);
KMF_API size_t kmf_embedder_dim(const kmf_embedder *embedder);
/*
 * The options in force, defaults filled in where the method has such an option. To be looked at:
 * for another embedder like this one, kmf_embedder_reopen.
 */
KMF_API void kmf_embedder_options(const kmf_embedder *embedder, kmf_embed_options *opts);
/* The embedder's; readers that use it are closed before the embedder is freed. */
KMF_API kmf_pool *kmf_embedder_pool(kmf_embedder *embedder);
/* "tnf", "kmer:K", "random:MODEL", the file of vectors or the model's directory. */
KMF_API const char *kmf_embedder_name(const kmf_embedder *embedder);
/* NULL for tnf, kmer:K and k-mer vectors. */
KMF_API const kmf_model *kmf_embedder_model(const kmf_embedder *embedder);
/* What the k-mer vectors are, as long as the embedder; NULL for all else. */
KMF_API const kmf_vectors_info *kmf_embedder_vectors(const kmf_embedder *embedder);
/*
 * Bytes for models, batches, workspaces and sequences that were met, at most; mapped files and the
 * longest record come on top.
 */
KMF_API size_t kmf_embedder_bytes(const kmf_embedder *embedder);

/*
 * Rows go to fn from kmf_embedder_add, kmf_embedder_read and kmf_embedder_finish, in the order of
 * the calls. To be set before the first record of a run. fn NULL: they go nowhere.
 */
KMF_API void kmf_embedder_sink(kmf_embedder *embedder, kmf_row_fn *fn, void *user);
/*
 * fn is called from kmf_embedder_add, kmf_embedder_read and kmf_embedder_finish whenever a batch is
 * done or a million letters of other shards were skipped, with the k-mers processed so far, of
 * two strands half of both, by this run and those before. fn NULL: none.
 */
KMF_API void kmf_embedder_progress(kmf_embedder *embedder, kmf_progress_fn *fn, void *user);
/*
 * What error messages name before a record, such as its file; NULL: nothing. They count the
 * records from this call on. Borrowed by those that are added from now on, until
 * kmf_embedder_finish has given their rows out.
 */
KMF_API void kmf_embedder_source(kmf_embedder *embedder, const char *source);
/*
 * Adds a record; name and seq are copied as far as needed. KMF_EINVAL: a tab or a line end in the
 * name, which would break a table. After a failure, of fn or our own,
 * the records that are not out yet are dropped and the embedder is as new, its statistics
 * apart.
 */
KMF_API int kmf_embedder_add(kmf_embedder *embedder, const char *name, const char *seq,
                             size_t len, kmf_err *err) KMF_MUST_CHECK;
/*
 * Adds all records of a file, as kmf_reader_open and kmf_embedder_add do; the vectors are the same.
 * Where they are of tnf, kmer:K or k-mer vectors, the threads may read a FASTA file of contigs
 * themselves, each a part of it; path, of a compressed one, is then opened twice.
 * opts: as kmf_reader_open   *stats: set, and kept up to date meanwhile
 * KMF_EIO, KMF_EFORMAT and KMF_EINVAL as kmf_reader_open and kmf_reader_next; a failure is as one
 * of kmf_embedder_add.
 */
KMF_API int kmf_embedder_read(kmf_embedder *embedder, const char *path,
                              const kmf_reader_options *opts, kmf_reader_stats *stats,
                              kmf_err *err) KMF_MUST_CHECK;
/*
 * Waits for all rows. The embedder is then as new, its statistics apart; also on failure. KMF_EIO:
 * a file of the model has been written to since it was opened, and the rows may be of either.
 */
KMF_API int kmf_embedder_finish(kmf_embedder *embedder, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_embedder_statistics(const kmf_embedder *embedder, kmf_embed_stats *stats);
/*
 * The records so far whose sequence, of 2048 letters at most, an encoder had met shortly before, so
 * that they have the vector of that one, which is the same bit for bit, and were not computed.
 */
KMF_API uint64_t kmf_embedder_repeats(const kmf_embedder *embedder);
/*
 * Ends the run: that of the functions above which is under way, or is called next, fails with
 * KMF_ESTOPPED when a batch is done, and rows that are not out yet are dropped. From any thread, a
 * row or progress function, or a signal handler. So a run whose output is kept (kmf_output_save) is
 * left for later.
 */
KMF_API void kmf_embedder_stop(kmf_embedder *embedder);

/*
 * What makes vectors comparable, as the text of a JSON object: model and MD5 of its files,
 * settings, columns. Freed by kmf_text_free.
 */
KMF_API char *kmf_embedder_identity(const kmf_embedder *embedder, kmf_err *err) KMF_MUST_CHECK;
/*
 * An embedder that makes the vectors of the one whose identity this is. model: where the model is
 * now; NULL: where it was or, if it is not there, the default model, if it is that one. threads: 1
 * to 1024, else KMF_EINVAL. KMF_EMODEL: identity is none, or the model there is another one, or
 * this processor lacks the precision; the message names what differs.
 */
KMF_API kmf_embedder *kmf_embedder_reopen(const char *identity, const char *model, int threads,
                                          kmf_err *err) KMF_MUST_CHECK;

/*
 * One sequence, one vector [dim], NaN if it has no valid k-mer; no progress is told of it.
 * kmf_embedder_stop ends it, too: KMF_ESTOPPED.
 * KMF_EINVAL with KMF_POOL_NONE, of a shard, or between kmf_embedder_add, or kmf_output_resume, and
 * kmf_embedder_finish.
 */
KMF_API int kmf_embed_sequence(kmf_embedder *embedder, float *vector, const char *seq,
                               kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
