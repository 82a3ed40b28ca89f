/* SPDX-License-Identifier: MIT */
/* What a table of counts is made of: for those that make one and for the file formats. */
#ifndef KMF_COUNTS_H
#define KMF_COUNTS_H

#include "base/io.h"
#include "kmerformer.h"
#include "words/block.h"

struct kmf_counts {
    kmf_counts_info info;
    kmf_cut_code cut;
    size_t n_blocks;   /* 2^prefix_bits */
    kmf_block *blocks; /* owned [n_blocks]; entry p holds the codes with prefix p */
    /* The blocks' bytes are owned, each freed by kmf_free; else they lie in map or buffer. */
    bool own_bytes;
    kmf_map map;  /* owned */
    void *buffer; /* owned; freed by kmf_free */
    char *name;   /* owned; of the file that it comes from, for messages; NULL: of none */
    kmf_fraction_fn *progress; /* NULL: nobody wants to know */
    void *user;
};

/*
 * An empty table with info's alphabet and k, whose blocks own their bytes. The maker fills in
 * blocks and calls kmf_counts_seal, which sets info.distinct.
 */
kmf_counts *kmf_counts_new(const kmf_counts_info *info, kmf_err *err) KMF_MUST_CHECK;
void kmf_counts_seal(kmf_counts *counts);
/*
 * Who goes over the table is done with block p: if it lies in a file, its pages need no memory
 * until it is looked at again.
 */
void kmf_counts_leave(const kmf_counts *counts, size_t p);

/* The number of k-mers that a table of this kind can hold: kmf_counts_summary.possible. */
double kmf_counts_possible(const kmf_counts_info *info);

/*
 * Takes over block p of a table that is being made; from any worker, in any order, each p once.
 * 0 or a negative kmf_code; the block's bytes are spent in either case.
 */
typedef int kmf_block_fn(void *arg, size_t p, const kmf_block *block, kmf_err *err);

/* Fills a table, new and empty, code by code. */
typedef struct kmf_counts_builder kmf_counts_builder;

/* counts is borrowed until kmf_counts_builder_free. */
kmf_counts_builder *kmf_counts_builder_new(kmf_counts *counts, kmf_err *err) KMF_MUST_CHECK;
/* Codes must ascend strictly; count is 1 or more. */
int kmf_counts_builder_add(kmf_counts_builder *builder, uint64_t code, uint64_t count,
                           kmf_err *err) KMF_MUST_CHECK;
/* Packs what is left and seals the table. */
int kmf_counts_builder_finish(kmf_counts_builder *builder, kmf_err *err) KMF_MUST_CHECK;
void kmf_counts_builder_free(kmf_counts_builder *builder);

#endif
