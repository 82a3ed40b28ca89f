/* SPDX-License-Identifier: MIT */
/* FASTA files of contigs, embedders that read them, and the rows that come of it, for tests. */
#ifndef KMF_TEST_CONTIGS_H
#define KMF_TEST_CONTIGS_H

#include "base/rng.h"
#include "embed/flow.h"
#include "kmerformer.h"
#include "model/vectors.h"
#include "run.h"
#include "seq/ranges.h"
#include "seqfiles.h"

#include <stdbool.h>

#define ANY UINT64_MAX
#define CONTIG (3 * KMF_RANGE_STEP + 1234)

/* Letters, of which some are no bases, in lines of up to 255. */
static inline void add_letters(text *t, kmf_rng *rng, size_t n, size_t width)
{
    char line[256];
    for (size_t beg = 0; beg < n; beg += width) {
        size_t here = n - beg < width ? n - beg : width;
        for (size_t i = 0; i < here; i++)
            line[i] = "ACGTACGTACGTACGTacgtN"[kmf_rng_below(rng, 21)];
        line[here] = '\n';
        add_bytes(t, line, here + 1);
    }
}

static inline void add_contig(text *t, kmf_rng *rng, const char *name, size_t n)
{
    add(t, ">");
    add(t, name);
    add(t, " of n letters\n");
    add_letters(t, rng, n, 60 + n % 70);
}

/*
 * Contigs beyond ranges, of some and of few letters, of none and of N, which end anywhere; `dense`:
 * more of them, and then some that are so short that a range has more than a batch has room for,
 * but so few that they are not thought to be usual.
 */
static inline text make_fasta(uint64_t seed, bool dense)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(41, seed);
    char name[32];
    for (size_t i = 0; i < (dense ? 100 : 60); i++) {
        size_t n = i % 20 == 3   ? CONTIG
                   : i % 10 == 7 ? kmf_rng_below(&rng, 9)
                   : i % 10 == 9 ? 0
                                 : 1000 + kmf_rng_below(&rng, 60000);
        snprintf(name, sizeof name, "contig%zu", i);
        add_contig(&t, &rng, name, n);
    }
    add(&t, ">unknown\nNNNNNNNNNNNNNN\n");
    for (size_t i = 0; dense && i < 8000; i++)
        add_contig(&t, &rng, "short", 30);
    add_contig(&t, &rng, "last", 5000);
    return t;
}

/* ---------------------------------------------------------------- rows ------------------ */

typedef struct rows {
    text text; /* all that they tell, vectors as bits */
    size_t dim;
    uint64_t fail_at; /* the row that is refused, from 1 on; 0: none */
} rows;

static inline int keep(void *user, const kmf_row *row, kmf_err *err)
{
    rows *r = user;
    char line[256];
    if (r->fail_at > 0 && --r->fail_at == 0) {
        snprintf(err->msg, sizeof err->msg, "enough");
        err->code = KMF_EIO;
        return KMF_EIO;
    }
    snprintf(line, sizeof line, "%" PRIu64 " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
             row->index, row->name, row->len, row->tokens, row->ambiguous, row->chunks);
    add(&r->text, line);
    add_bytes(&r->text, row->vector, r->dim * sizeof *row->vector);
    return 0;
}

static inline kmf_embed_options options_of(int threads)
{
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = threads;
    return o;
}

static inline kmf_embedder *embedder_of(const char *model, const kmf_embed_options *o, rows *r)
{
    kmf_err err = {0};
    kmf_embedder *e = kmf_embedder_new(model, o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    r->dim = kmf_embedder_dim(e);
    kmf_embedder_sink(e, keep, r);
    return e;
}

/* Record by record, as one does without kmf_embedder_read. */
static inline int add_file(kmf_embedder *e, const char *path, kmf_reader_stats *stats,
                           kmf_err *err)
{
    kmf_record rec;
    int got;
    kmf_reader *reader = kmf_reader_open(path, NULL, NULL, err);
    ck_assert_ptr_nonnull(reader);
    while ((got = kmf_reader_next(reader, &rec, err)) > 0) {
        got = kmf_embedder_add(e, rec.name, rec.seq, rec.len, err);
        if (got < 0)
            break;
    }
    kmf_reader_statistics(reader, stats);
    kmf_reader_close(reader);
    return got;
}

static inline const char *write_gzip(const char *name, const text *t)
{
    text packed = gzipped(t->bytes, t->len);
    const char *path = write_bytes(name, packed.bytes, packed.len);
    free(packed.bytes);
    return path;
}

static inline const char *write_bgzf(const char *name, const text *t)
{
    text packed = bgzipped(t->bytes, t->len);
    const char *path = write_bytes(name, packed.bytes, packed.len);
    free(packed.bytes);
    return path;
}

/* A vector of 5 numbers for each word of 2 and 3 letters, but for some that were never seen. */
static inline const char *save_vectors(float scale)
{
    kmf_rng rng = kmf_rng_stream(42, 0);
    const char *path = in_dir("v.safetensors");
    kmf_vectors *v = kmf_vectors_new(KMF_DNA, 16 + 64, 5, 1, NULL);
    ck_assert_ptr_nonnull(v);
    for (size_t i = 0; i < v->info.n; i++) {
        v->code[i] = i < 16 ? i : i - 16;
        v->k[i] = i < 16 ? 2 : 3;
        v->count[i] = i % 7 == 2 ? 0 : 1 + i * i;
        for (size_t d = 0; d < 5; d++)
            v->values[i * 5 + d] = scale * ((float)kmf_rng_below(&rng, 1000) / 999 - 0.3f);
    }
    v->info.canonical = 0;
    ck_assert_int_eq(kmf_vectors_index(v, "v", NULL), 0);
    ck_assert_int_eq(kmf_vectors_save(v, path, KMF_VECTORS_SAFETENSORS, NULL, NULL), 0);
    kmf_vectors_free(v);
    return path;
}

#endif
