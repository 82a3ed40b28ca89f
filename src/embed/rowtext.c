/* SPDX-License-Identifier: MIT */
/*
 * Rows come in blocks, in any order, and are taken in theirs: those of the block in hand, then
 * those of the one that has the next row. Blocks that are done with are filled again.
 */
#include "embed/rowtext.h"

#include "base/fmt.h"
#include "base/half.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* Text that waits: as much as a few batches make, whatever the number of threads. */
#define WAITING_MOST ((size_t)64 << 20)

typedef struct block {
    struct block *next;
    uint64_t row; /* the first one */
    size_t n;
    size_t *ends; /* owned [cap_ends], n in use: in text */
    size_t cap_ends;
    char *text; /* owned [cap_text] */
    size_t cap_text;
    void *scratch; /* owned; of the format */
} block;

struct kmf_rowtext {
    kmf_row_format format;
    size_t dim;
    pthread_mutex_t lock;
    /* changed under the lock; in_hand is read without it by whom takes */
    block *in_hand; /* owned; NULL: none */
    block *waiting; /* owned, a list */
    block *unused;  /* owned, a list */
    size_t bytes;   /* of text that waits */
};

/* ---------------------------------------------------------------- numbers --------------- */

/*
 * Texts of values met before. The frequencies of a read are small counts over one total, so the
 * same few hundred values come again and again; an encoder's hardly do, and pay one comparison.
 */
#define VALUES_BITS 10

typedef struct values {
    struct {
        uint32_t bits; /* of the value */
        uint8_t len;   /* 0: empty */
        char text[KMF_FLOAT_TEXT];
    } met[1 << VALUES_BITS];
} values;

/* As kmf_format_float; may write KMF_FLOAT_TEXT bytes whatever it returns. */
static size_t put_value(values *v, char *to, float value)
{
    uint32_t bits = kmf_bits_of(value);
    size_t at = bits * 2654435769u >> (32 - VALUES_BITS);
    if (v->met[at].len == 0 || v->met[at].bits != bits) {
        v->met[at].bits = bits;
        v->met[at].len = (uint8_t)kmf_format_float(v->met[at].text, value);
    }
    memcpy(to, v->met[at].text, KMF_FLOAT_TEXT);
    return v->met[at].len;
}

static size_t put_numbers(const void *user, void *scratch, char *to, const float *vector,
                          size_t dim)
{
    char *p = to;
    (void)user;
    for (size_t d = 0; d < dim; d++) {
        *p++ = '\t';
        p += put_value(scratch, p, vector[d]);
    }
    *p++ = '\n';
    return (size_t)(p - to);
}

kmf_row_format kmf_row_numbers(size_t dim)
{
    return (kmf_row_format){.put = put_numbers,
                            .room = dim * (KMF_FLOAT_TEXT + 1) + 1,
                            .scratch_bytes = sizeof(values)};
}

/* ---------------------------------------------------------------- blocks ---------------- */

static void free_list(block *b)
{
    while (b) {
        block *next = b->next;
        kmf_free(b->ends);
        kmf_free(b->text);
        kmf_free(b->scratch);
        kmf_free(b);
        b = next;
    }
}

static size_t text_bytes(const block *b)
{
    return b->ends[b->n - 1];
}

static bool fill(block *b, const kmf_rowtext *t, uint64_t row, const float *vectors, size_t n)
{
    const kmf_row_format *format = &t->format;
    size_t len = 0;
    if (!b->scratch)
        b->scratch = kmf_calloc(1, format->scratch_bytes, NULL);
    if (!b->scratch || kmf_grow(&b->ends, &b->cap_ends, n, sizeof *b->ends, NULL) < 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (kmf_grow(&b->text, &b->cap_text, len + format->room, 1, NULL) < 0)
            return false;
        len +=
            format->put(format->user, b->scratch, b->text + len, vectors + i * t->dim, t->dim);
        b->ends[i] = len;
    }
    b->row = row;
    b->n = n;
    return true;
}

static void set_aside(kmf_rowtext *t, block *b)
{
    b->next = t->unused;
    t->unused = b;
}

/* A block to fill; NULL: enough waits, or there is no memory. */
static block *take_unused(kmf_rowtext *t)
{
    pthread_mutex_lock(&t->lock);
    bool full = t->bytes >= WAITING_MOST;
    block *b = full ? NULL : t->unused;
    if (b)
        t->unused = b->next;
    pthread_mutex_unlock(&t->lock);
    return b || full ? b : kmf_calloc(1, sizeof *b, NULL);
}

static bool has_any(const block *b, uint64_t beg, uint64_t end)
{
    return b->row < end && b->row + b->n > beg;
}

static void put_down(kmf_rowtext *t)
{
    if (t->in_hand)
        set_aside(t, t->in_hand);
    t->in_hand = NULL;
}

/* The first block that waits and has any of the rows waits no more; NULL: there is none. */
static block *take_out(kmf_rowtext *t, uint64_t beg, uint64_t end)
{
    for (block **at = &t->waiting; *at; at = &(*at)->next) {
        block *b = *at;
        if (!has_any(b, beg, end))
            continue;
        *at = b->next;
        b->next = NULL;
        t->bytes -= text_bytes(b);
        return b;
    }
    return NULL;
}

/* None has any of these rows, in hand or waiting. */
static void forget(kmf_rowtext *t, uint64_t beg, uint64_t end)
{
    block *b;
    if (t->in_hand && has_any(t->in_hand, beg, end))
        put_down(t);
    while ((b = take_out(t, beg, end)))
        set_aside(t, b);
}

/* ---------------------------------------------------------------- the texts ------------- */

kmf_rowtext *kmf_rowtext_new(const kmf_row_format *format, size_t dim, kmf_err *err)
{
    kmf_rowtext *t = kmf_calloc(1, sizeof *t, err);
    if (!t)
        return NULL;
    t->format = *format;
    t->dim = dim;
    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void kmf_rowtext_free(kmf_rowtext *texts)
{
    if (!texts)
        return;
    free_list(texts->in_hand);
    free_list(texts->waiting);
    free_list(texts->unused);
    pthread_mutex_destroy(&texts->lock);
    kmf_free(texts);
}

int kmf_rowtext_put(kmf_rowtext *texts, uint64_t row, const float *vectors, size_t n)
{
    kmf_rowtext *t = texts;
    block *b = take_unused(t);
    if (!b)
        return 0;
    bool filled = fill(b, t, row, vectors, n);
    pthread_mutex_lock(&t->lock);
    if (filled) {
        forget(t, row, row + n);
        b->next = t->waiting;
        t->waiting = b;
        t->bytes += text_bytes(b);
    } else {
        set_aside(t, b);
    }
    pthread_mutex_unlock(&t->lock);
    return filled;
}

const char *kmf_rowtext_take(kmf_rowtext *texts, uint64_t row, size_t *len)
{
    kmf_rowtext *t = texts;
    if (!t->in_hand || !has_any(t->in_hand, row, row + 1)) {
        pthread_mutex_lock(&t->lock);
        put_down(t);
        t->in_hand = take_out(t, row, row + 1);
        forget(t, 0, row);
        pthread_mutex_unlock(&t->lock);
    }
    const block *b = t->in_hand;
    assert(b);
    size_t i = (size_t)(row - b->row);
    size_t beg = i > 0 ? b->ends[i - 1] : 0;
    *len = b->ends[i] - beg;
    return b->text + beg;
}
