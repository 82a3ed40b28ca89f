/* SPDX-License-Identifier: MIT */
/*
 * From tokens to bases. With p(w) the probability of k-mer w at a token that begins at s, of base b
 *
 *     q_s(x) = sum of p(w) over all w whose letter b - s is x
 *     P(x)   = sum_s q_s(x) / sum_y sum_s q_s(y)
 *
 * over all tokens s that hold b. Tokens come in order, so only the bases of one k-mer are open.
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/basespans.h"
#include "seq/text.h"

#include <inttypes.h>
#include <string.h>

#define LETTERS 4

/* A base that more tokens may come to hold. */
typedef struct open_base {
    double sum[LETTERS];
    size_t n_tokens;
    char letter;
} open_base;

struct kmf_bases {
    const kmf_vocab *vocab; /* borrowed */
    kmf_base_spans spans;   /* owned */
    kmf_base_fn *fn;
    void *user;
    size_t k, n_codes;
    int32_t single[LETTERS]; /* the tokens of one letter; -1: the vocabulary has none */
    int32_t *code_of;        /* owned [V]; -1: no k-mer */
    double *p;               /* owned [n_codes] */
    open_base *open;         /* owned [k]; base b at b % k, of beg .. end - 1 */
    uint64_t beg, end;
    uint64_t index; /* of their record */
    kmf_text name;  /* owned; of that */
};

/* ---------------------------------------------------------------- made -------------------- */

static void find_tokens(kmf_bases *b, size_t V)
{
    for (size_t id = 0; id < V; id++)
        b->code_of[id] = -1;
    for (size_t code = 0; code < b->n_codes; code++) {
        int32_t id = kmf_vocab_kmer(b->vocab, code);
        if (id >= 0)
            b->code_of[id] = (int32_t)code;
    }
    for (size_t x = 0; x < LETTERS; x++) {
        b->single[x] = -1;
        for (size_t id = 0; id < V; id++) {
            const char *token = kmf_vocab_token(b->vocab, (int32_t)id);
            if (token && token[0] == "ACGT"[x] && token[1] == '\0')
                b->single[x] = (int32_t)id;
        }
    }
}

kmf_bases *kmf_bases_new(const kmf_model *model, const kmf_base_span *spans, size_t n_spans,
                         kmf_base_fn *fn, void *user, kmf_err *err)
{
    const kmf_vocab *vocab = kmf_model_vocab(model);
    size_t V = kmf_model_config(model)->vocab_size;
    if (kmf_vocab_k(vocab) == 0) {
        kmf_fail(err, KMF_EMODEL,
                 "%s: its tokens are of any length, and tell nothing of single bases",
                 kmf_model_path(model));
        return NULL;
    }
    kmf_bases *b = kmf_calloc(1, sizeof *b, err);
    if (!b)
        return NULL;
    b->vocab = vocab;
    b->fn = fn;
    b->user = user;
    b->k = (size_t)kmf_vocab_k(vocab);
    b->n_codes = (size_t)1 << (2 * b->k);
    b->code_of = kmf_malloc(V, sizeof *b->code_of, err);
    b->p = b->code_of ? kmf_malloc(b->n_codes, sizeof *b->p, err) : NULL;
    b->open = b->p ? kmf_calloc(b->k, sizeof *b->open, err) : NULL;
    if (b->open && kmf_base_spans_make(&b->spans, spans, n_spans, err) == 0) {
        find_tokens(b, V);
        return b;
    }
    kmf_bases_free(b);
    return NULL;
}

void kmf_bases_free(kmf_bases *b)
{
    if (!b)
        return;
    kmf_base_spans_free(&b->spans);
    kmf_free(b->code_of);
    kmf_free(b->p);
    kmf_free(b->open);
    kmf_free(b->name.bytes);
    kmf_free(b);
}

/* ---------------------------------------------------------------- given out --------------- */

static int give_out(const kmf_bases *b, const open_base *base, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    kmf_base_row row = {.index = b->index,
                        .name = b->name.bytes,
                        .position = b->beg,
                        .letter = base->letter,
                        .n_tokens = base->n_tokens};
    double all = 0;
    for (size_t x = 0; x < LETTERS; x++)
        all += base->sum[x];
    if (!(all > 0))
        return kmf_fail(err, KMF_ENUMERIC,
                        "record '%s': base %" PRIu64 ": the model takes no k-mer for possible",
                        kmf_err_show(shown, b->name.bytes), b->beg + 1);
    for (size_t x = 0; x < LETTERS; x++)
        row.p[x] = base->sum[x] / all;
    return kmf_answered(b->fn(b->user, &row, err), err);
}

/* Those before `end`, of which no token is to come. */
static int close_bases(kmf_bases *b, uint64_t end, kmf_err *err)
{
    for (; b->beg < b->end && b->beg < end; b->beg++) {
        const open_base *base = &b->open[b->beg % b->k];
        if (!kmf_base_spans_meet(&b->spans, b->beg, b->beg + 1))
            continue;
        int status = give_out(b, base, err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* Opens the bases from `beg` on, n of them, unless they are. */
static int open_bases(kmf_bases *b, const kmf_logits_row *row, size_t n, kmf_err *err)
{
    int status = 0;
    if (b->end > b->beg && row->index != b->index)
        status = kmf_bases_finish(b, err);
    if (status == 0 && (b->name.len == 0 || row->index != b->index)) {
        b->name.len = 0;
        status = kmf_text_append(&b->name, row->name, strlen(row->name) + 1, err);
        b->index = row->index;
    }
    if (status == 0)
        status = close_bases(b, row->position, err);
    if (status < 0)
        return status;
    if (b->beg == b->end)
        b->beg = b->end = row->position;
    for (; b->end < row->position + n; b->end++)
        b->open[b->end % b->k] = (open_base){.letter = 'N'};
    return 0;
}

/* ---------------------------------------------------------------- taken ------------------- */

/* Sums of each place of the k-mers, the last one first; what is left is shorter by a letter. */
static void add_kmers(kmf_bases *b, const kmf_logits_row *row)
{
    size_t n = b->n_codes;
    int32_t code = b->code_of[row->id];
    for (size_t c = 0; c < n; c++) {
        int32_t id = kmf_vocab_kmer(b->vocab, c);
        b->p[c] = id >= 0 ? (double)row->values[id] : 0;
    }
    for (size_t j = b->k; j-- > 0;) {
        open_base *base = &b->open[(row->position + j) % b->k];
        n /= LETTERS;
        for (size_t c = 0; c < n; c++) {
            const double *p = b->p + c * LETTERS;
            for (size_t x = 0; x < LETTERS; x++)
                base->sum[x] += p[x];
            b->p[c] = p[0] + p[1] + p[2] + p[3];
        }
        base->n_tokens++;
        base->letter = "ACGT"[code >> (2 * (b->k - 1 - j)) & 3];
    }
}

static void add_single(kmf_bases *b, const kmf_logits_row *row)
{
    open_base *base = &b->open[row->position % b->k];
    for (size_t x = 0; x < LETTERS; x++) {
        base->sum[x] += b->single[x] >= 0 ? (double)row->values[b->single[x]] : 0;
        if (row->id == b->single[x])
            base->letter = "ACGT"[x];
    }
    base->n_tokens++;
}

static bool is_single(const kmf_bases *b, int32_t id)
{
    bool is = false;
    for (size_t x = 0; x < LETTERS; x++)
        is = is || id == b->single[x];
    return is;
}

int kmf_bases_add(void *bases, const kmf_logits_row *row, kmf_err *err)
{
    kmf_bases *b = bases;
    bool kmer = b->code_of[row->id] >= 0;
    if (!kmer && !is_single(b, row->id))
        return 0;
    int status = open_bases(b, row, kmer ? b->k : 1, err);
    if (status < 0)
        return status;
    if (kmer)
        add_kmers(b, row);
    else
        add_single(b, row);
    return 0;
}

uint64_t kmf_bases_asked(const kmf_bases *b, uint64_t len)
{
    uint64_t n = b->spans.n == 0 ? len : 0;
    for (size_t i = 0; i < b->spans.n && b->spans.list[i].beg < len; i++)
        n += (b->spans.list[i].end < len ? b->spans.list[i].end : len) - b->spans.list[i].beg;
    return n;
}

int kmf_bases_finish(kmf_bases *b, kmf_err *err)
{
    return close_bases(b, UINT64_MAX, err);
}
