/* SPDX-License-Identifier: MIT */
/*
 * The baselines: k-mer counts of stretches of letters.
 *
 * `tnf` counts a tetranucleotide together with its reverse complement: 16 of the 256 are their own,
 * the other 240 make 120 pairs, so 136 columns, in the order of the smaller code. `kmer:K` counts
 * each of the 4^K k-mers by itself. Counts are whole numbers, exact in a double, so it does not
 * matter where a strand is cut. How they are made words/columns.c tells.
 */
#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "embed/method.h"
#include "embed/settings.h"
#include "words/columns.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define K_MAX KMF_COLUMNS_K_MAX
#define TNF_K 4
#define TNF_CODES 256
#define WINDOWS_MOST ((uint64_t)1 << 24) /* of a batch; counts up to this are exact as floats */

/* One worker's. Counts are 0 between pieces; a piece has less than 2^31 windows. */
typedef struct workspace {
    int32_t *counts;      /* owned [dim] */
    kmf_columns *columns; /* owned */
} workspace;

typedef struct frequency {
    kmf_method base;
    char *name; /* owned */
    int k;
    bool canonical;            /* tnf: */
    int32_t column[TNF_CODES]; /* of a tetranucleotide */
    workspace *workspaces;     /* owned [n_workspaces] */
    size_t n_workspaces;
} frequency;

/* Counts as doubles, or as shares of n, which is a whole number; they are 0 again. */
static void take_counts(double *sum, int32_t *counts, size_t dim);
static void take_shares(float *vector, int32_t *counts, float n, size_t dim);

static KMF_INLINE void take_counts_body(double *restrict sum, int32_t *restrict counts,
                                        size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        sum[d] = counts[d];
        counts[d] = 0;
    }
}

static KMF_INLINE void take_shares_body(float *restrict vector, int32_t *restrict counts,
                                        float n, size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        vector[d] = (float)counts[d] / n;
        counts[d] = 0;
    }
}

KMF_CLONES(take_counts, (double *sum, int32_t *counts, size_t dim), (sum, counts, dim))
KMF_CLONES(take_shares, (float *vector, int32_t *counts, float n, size_t dim),
           (vector, counts, n, dim))

static void start(const kmf_method *method, kmf_batch *batch, int worker)
{
    const frequency *m = (const frequency *)method;
    kmf_columns_start(m->workspaces[worker].columns, batch->letters, batch->n_units);
}

/* In the worker's counts. */
static void count(const frequency *m, kmf_piece *p, int worker)
{
    const workspace *own = &m->workspaces[worker];
    size_t windows = p->end - p->beg - (size_t)m->k + 1;
    p->tokens = kmf_columns_count(own->columns, own->counts, p->beg, windows);
    p->ambiguous = windows - p->tokens;
    p->weight = (double)p->tokens;
}

static void count_piece(const kmf_method *method, const kmf_batch *batch, kmf_piece *p,
                        double *sum, int worker)
{
    const frequency *m = (const frequency *)method;
    count(m, p, worker);
    take_counts(sum, m->workspaces[worker].counts, batch->dim);
}

/*
 * A quotient of two floats is what that of two doubles becomes as a float: 53 bits are 2 * 24 + 2
 * and more (Figueroa, When is double rounding innocuous?, 1995).
 */
static void count_record(const kmf_method *method, const kmf_batch *batch, kmf_piece *p,
                         float *vector, int worker)
{
    const frequency *m = (const frequency *)method;
    count(m, p, worker);
    assert(p->tokens <= WINDOWS_MOST);
    take_shares(vector, m->workspaces[worker].counts, (float)p->tokens, batch->dim);
}

static size_t bytes(const kmf_method *method)
{
    const frequency *m = (const frequency *)method;
    return m->n_workspaces *
           (sizeof(workspace) + m->base.shape.dim * sizeof(int32_t) + kmf_columns_bytes(m->k));
}

static json_t *settings(const kmf_method *method, const kmf_embed_options *opts)
{
    (void)method;
    (void)opts;
    return json_object();
}

static void release(kmf_method *method)
{
    frequency *m = (frequency *)method;
    for (size_t i = 0; m->workspaces && i < m->n_workspaces; i++) {
        kmf_free(m->workspaces[i].counts);
        kmf_columns_free(m->workspaces[i].columns);
    }
    kmf_free(m->workspaces);
    kmf_free(m->name);
    kmf_free(m);
}

static const kmf_method_kind kind = {.start = start,
                                     .piece = count_piece,
                                     .vector = count_record,
                                     .bytes = bytes,
                                     .settings = settings,
                                     .free = release,
                                     .unknown = "k-mers without a column"};

/* The columns, and how many there are. */
static size_t fill_columns(frequency *m)
{
    int32_t n = 0;
    for (uint64_t code = 0; code < TNF_CODES; code++) {
        uint64_t canonical = kmf_kmer_canonical(code, TNF_K);
        m->column[code] = canonical == code ? n++ : m->column[canonical];
    }
    return (size_t)n;
}

/* Reads K out of "kmer:K"; tnf has its own. */
static int read_k(frequency *m, kmf_err *err)
{
    m->canonical = strcmp(m->name, "tnf") == 0;
    m->k = TNF_K;
    if (m->canonical)
        return 0;
    const char *digits = m->name + strlen("kmer:");
    char *end;
    long k = strtol(digits, &end, 10);
    /* as it is written it goes into identities: there is one way, without a 0 in front */
    if (digits[0] < '1' || digits[0] > '9' || *end != '\0' || k < 1 || k > K_MAX)
        return kmf_fail(err, KMF_EINVAL, "%s: write kmer:K with K from 1 to %d", m->name,
                        K_MAX);
    m->k = (int)k;
    return 0;
}

static int make_workspaces(frequency *m, size_t n, kmf_err *err)
{
    m->n_workspaces = n;
    m->workspaces = kmf_calloc(n, sizeof *m->workspaces, err);
    if (!m->workspaces)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        workspace *own = &m->workspaces[i];
        own->counts = kmf_calloc(m->base.shape.dim, sizeof *own->counts, err);
        own->columns = kmf_columns_new(m->k, m->canonical ? m->column : NULL, err);
        if (!own->counts || !own->columns)
            return KMF_ENOMEM;
    }
    return 0;
}

kmf_method *kmf_frequency_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    frequency *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    m->base.kind = &kind;
    m->name = kmf_strdup(name, err);
    if (!m->name || read_k(m, err) < 0 || kmf_settings_frequency(opts, name, err) < 0)
        goto failed;
    size_t k = (size_t)m->k;
    size_t dim = m->canonical ? fill_columns(m) : (size_t)1 << 2 * k;
    size_t letters = opts->batch_tokens;
    m->base.name = m->name;
    m->base.shape = kmf_batch_choose(letters, letters, dim, false);
    m->base.stretch = (kmf_stretch){.step = letters - (k - 1), .span = letters, .least = k};
    m->base.exact_letters = UINT64_C(1) << 53; /* counts in doubles */
    if (make_workspaces(m, (size_t)opts->threads, err) < 0)
        goto failed;
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
