/* SPDX-License-Identifier: MIT */
/*
 * The baselines: k-mer counts of stretches of letters.
 *
 * `tnf` counts a tetranucleotide together with its reverse complement: 16 of the 256 are their own,
 * the other 240 make 120 pairs, so 136 columns, in the order of the smaller code. `kmer:K` counts
 * each of the 4^K k-mers by itself. Counts are whole numbers, exact in a double, so it does not
 * matter where a strand is cut.
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/method.h"
#include "embed/settings.h"
#include "words/kmer.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK 512
#define K_MAX 8
#define TNF_K 4
#define TNF_CODES 256

typedef struct frequency {
    kmf_method base;
    char *name; /* owned */
    int k;
    bool canonical;            /* tnf: */
    uint8_t column[TNF_CODES]; /* of a tetranucleotide */
} frequency;

static void count_piece(double *count, const frequency *m, const kmf_batch *b, kmf_piece *p)
{
    kmf_window window;
    uint64_t codes[BLOCK];
    uint64_t pos[BLOCK];
    uint8_t clean[BLOCK];
    size_t n;
    kmf_window_start(&window, b->letters + p->beg, p->end - p->beg, m->k, 1, false);
    while ((n = kmf_window_next(&window, codes, pos, clean, BLOCK)) > 0) {
        for (size_t i = 0; i < n; i++) {
            if (!clean[i]) {
                p->ambiguous++;
                continue;
            }
            count[m->canonical ? m->column[codes[i]] : codes[i]] += 1.0;
            p->tokens++;
        }
    }
    p->weight = (double)p->tokens;
}

static void work(const kmf_method *method, kmf_batch *batch, int worker)
{
    const frequency *m = (const frequency *)method;
    (void)worker;
    memset(batch->sums, 0, batch->n_pieces * batch->dim * sizeof *batch->sums);
    for (size_t i = 0; i < batch->n_pieces; i++)
        count_piece(batch->sums + i * batch->dim, m, batch, &batch->pieces[i]);
}

static size_t bytes(const kmf_method *method)
{
    (void)method;
    return 0;
}

static json_t *settings(const kmf_embed_options *opts)
{
    (void)opts;
    return json_object();
}

static void release(kmf_method *method)
{
    frequency *m = (frequency *)method;
    kmf_free(m->name);
    kmf_free(m);
}

static const kmf_method_kind kind = {.work = work,
                                     .bytes = bytes,
                                     .settings = settings,
                                     .free = release,
                                     .unknown = "k-mers without a column"};

/* The columns, and how many there are. */
static size_t fill_columns(frequency *m)
{
    uint8_t n = 0;
    for (uint64_t code = 0; code < TNF_CODES; code++) {
        uint64_t canonical = kmf_kmer_canonical(code, TNF_K);
        m->column[code] = canonical == code ? n++ : m->column[canonical];
    }
    return n;
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
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || k < 1 || k > K_MAX)
        return kmf_fail(err, KMF_EINVAL, "%s: write kmer:K with K from 1 to %d", m->name,
                        K_MAX);
    m->k = (int)k;
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
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
