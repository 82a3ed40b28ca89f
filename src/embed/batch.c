/* SPDX-License-Identifier: MIT */
#include "embed/batch.h"

#include "base/mem.h"
#include "seq/dna.h"

#include <assert.h>
#include <string.h>

/* A batch has room for pieces of this mean length: reads fill its pieces, contigs its letters. */
#define TOKENS_PER_PIECE 16
#define LETTERS_PER_PIECE 1024
#define SUMS_BYTES ((size_t)4 << 20)

kmf_batch_shape kmf_batch_choose(size_t units, size_t longest, size_t dim, bool ids)
{
    size_t pieces = units / (ids ? TOKENS_PER_PIECE : LETTERS_PER_PIECE) + 1;
    size_t most = SUMS_BYTES / (dim * sizeof(double));
    if (pieces > most)
        pieces = most ? most : 1;
    return (kmf_batch_shape){.cap_pieces = pieces,
                             .units = units,
                             .cap_units = units < longest ? longest : units,
                             .dim = dim,
                             .ids = ids};
}

/* Adds n * size to *total; false when it does not fit. */
static bool add_bytes(size_t *total, size_t n, size_t size)
{
    size_t bytes;
    return kmf_mul(n, size, &bytes) && kmf_add(*total, bytes, total);
}

size_t kmf_batch_bytes(const kmf_batch_shape *shape)
{
    size_t total = sizeof(kmf_batch);
    size_t n_sums;
    size_t n_rows;
    bool fits = kmf_mul(shape->cap_pieces, shape->dim, &n_sums) &&
                kmf_mul(shape->cap_units, shape->dim, &n_rows) &&
                add_bytes(&total, shape->cap_pieces, sizeof(kmf_piece));
    if (shape->ids)
        fits = fits &&
               add_bytes(&total, shape->cap_units, sizeof(int32_t) + 1 + sizeof(uint64_t)) &&
               add_bytes(&total, shape->cap_pieces, sizeof(size_t));
    else
        fits = fits && add_bytes(&total, shape->cap_units, 1) &&
               add_bytes(&total, shape->dim, 2 * sizeof(double));
    fits = fits && add_bytes(&total, shape->dim, sizeof(float));
    if (shape->per_token)
        fits = fits && add_bytes(&total, n_rows, sizeof(float)) &&
               add_bytes(&total, shape->cap_units, sizeof(uint64_t));
    else
        fits = fits && add_bytes(&total, n_sums, sizeof(double));
    return fits ? total : 0;
}

kmf_batch *kmf_batch_new(const kmf_batch_shape *shape, kmf_err *err)
{
    kmf_batch *b = kmf_calloc(1, sizeof *b, err);
    if (!b)
        return NULL;
    b->cap_pieces = shape->cap_pieces;
    b->cap_sums = shape->cap_pieces;
    b->units = shape->units;
    b->cap_units = shape->cap_units;
    b->dim = shape->dim;
    b->pieces = kmf_malloc(shape->cap_pieces, sizeof *b->pieces, err);
    if (!b->pieces)
        goto fail;
    if (shape->ids) {
        b->ids = kmf_malloc(shape->cap_units, sizeof *b->ids, err);
        b->real = kmf_malloc(shape->cap_units, 1, err);
        b->pos = kmf_malloc(shape->cap_units, sizeof *b->pos, err);
        b->off = kmf_calloc(shape->cap_pieces + 1, sizeof *b->off, err);
        if (!b->ids || !b->real || !b->pos || !b->off)
            goto fail;
    } else {
        b->letters = kmf_malloc(shape->cap_units, 1, err);
        b->sum = kmf_malloc(shape->dim, 2 * sizeof *b->sum, err);
        if (!b->letters || !b->sum)
            goto fail;
    }
    b->vector = kmf_floats(shape->dim, err);
    if (!b->vector)
        goto fail;
    if (shape->per_token) {
        b->row_pos = kmf_malloc(shape->cap_units, sizeof *b->row_pos, err);
        b->rows = kmf_floats(shape->cap_units * shape->dim, err);
        if (!b->row_pos || !b->rows)
            goto fail;
    } else {
        b->sums = kmf_malloc(shape->cap_pieces * shape->dim, sizeof *b->sums, err);
        if (!b->sums)
            goto fail;
    }
    return b;
fail:
    kmf_batch_free(b);
    return NULL;
}

void kmf_batch_free(kmf_batch *batch)
{
    if (!batch)
        return;
    kmf_free(batch->pieces);
    kmf_free(batch->ids);
    kmf_free(batch->real);
    kmf_free(batch->pos);
    kmf_free(batch->off);
    kmf_free(batch->letters);
    kmf_free(batch->sums);
    kmf_free(batch->sum);
    kmf_free(batch->vector);
    kmf_free(batch->rows);
    kmf_free(batch->row_pos);
    kmf_free(batch);
}

bool kmf_batch_reserve(kmf_batch *batch, size_t n_pieces, size_t n_sums)
{
    assert(batch->n_pieces == 0 && batch->letters);
    assert(n_sums <= n_pieces);
    if (n_sums > batch->cap_sums) {
        double *sums = kmf_malloc(n_sums * batch->dim, sizeof *sums, NULL);
        if (!sums)
            return false;
        kmf_free(batch->sums);
        batch->sums = sums;
    }
    if (n_pieces > batch->cap_pieces) {
        kmf_piece *pieces = kmf_malloc(n_pieces, sizeof *pieces, NULL);
        if (!pieces)
            return false;
        kmf_free(batch->pieces);
        batch->pieces = pieces;
        batch->cap_pieces = n_pieces;
    }
    batch->cap_sums = kmf_max(batch->cap_sums, n_sums);
    return true;
}

void kmf_batch_clear(kmf_batch *batch)
{
    batch->n_pieces = 0;
    batch->n_units = 0;
}

bool kmf_batch_fits(const kmf_batch *batch, size_t n)
{
    size_t room = batch->n_pieces == 0 ? batch->cap_units : batch->units;
    return batch->n_pieces < batch->cap_sums && batch->n_units <= room &&
           n <= room - batch->n_units;
}

static kmf_piece *add_piece(kmf_batch *b, size_t n, bool reverse)
{
    assert(b->n_pieces < b->cap_pieces && b->n_units + n <= b->cap_units);
    kmf_piece *piece = &b->pieces[b->n_pieces];
    *piece = (kmf_piece){.beg = b->n_units,
                         .end = b->n_units + n,
                         .reverse = reverse,
                         .sum_beg = b->n_pieces * b->dim};
    b->n_pieces++;
    b->n_units += n;
    return piece;
}

void kmf_batch_add_chunk(kmf_batch *batch, const kmf_chunk *chunk, bool reverse)
{
    kmf_piece *piece = add_piece(batch, chunk->n, reverse);
    piece->own_beg = piece->beg + chunk->own_beg;
    piece->own_end = piece->beg + chunk->own_end;
    memcpy(batch->ids + piece->beg, chunk->ids, chunk->n * sizeof *chunk->ids);
    memcpy(batch->pos + piece->beg, chunk->pos, chunk->n * sizeof *chunk->pos);
    memcpy(batch->real + piece->beg, chunk->real, chunk->n);
    batch->off[batch->n_pieces] = piece->end;
}

static kmf_piece *add_stretch(kmf_batch *b, size_t n, size_t n_own, bool reverse)
{
    kmf_piece *piece = add_piece(b, n, reverse);
    piece->own_beg = piece->beg;
    piece->own_end = piece->beg + n_own;
    return piece;
}

void kmf_batch_add_letters(kmf_batch *batch, const char *letters, size_t n, size_t n_own,
                           bool reverse)
{
    kmf_piece *piece = add_stretch(batch, n, n_own, reverse);
    memcpy(batch->letters + piece->beg, letters, n);
}

void kmf_batch_place_letters(kmf_batch *batch, size_t beg, size_t n, size_t n_own)
{
    assert(beg >= batch->n_units);
    batch->n_units = beg;
    add_stretch(batch, n, n_own, false);
}

kmf_piece *kmf_batch_last(kmf_batch *batch)
{
    assert(batch->n_pieces > 0);
    return &batch->pieces[batch->n_pieces - 1];
}

bool kmf_batch_close(kmf_batch *batch, uint64_t n_pieces)
{
    if (n_pieces < 1 || n_pieces > 2 || batch->n_pieces < n_pieces)
        return false;
    kmf_piece *last = kmf_batch_last(batch);
    if (n_pieces == 2 && last[-1].reverse == last->reverse)
        return false;
    last->whole = true;
    last[-(ptrdiff_t)(n_pieces - 1)].half = n_pieces == 2;
    return true;
}

float *kmf_batch_vector(const kmf_batch *batch, const kmf_piece *piece)
{
    return (void *)((char *)batch->sums + piece->sum_beg * sizeof(float));
}

void kmf_batch_turn(kmf_batch *batch)
{
    for (size_t i = 0; i < batch->n_pieces; i++) {
        const kmf_piece *p = &batch->pieces[i];
        if (p->reverse)
            kmf_dna_revcomp(batch->letters + p->beg, batch->letters + p->beg, p->end - p->beg);
    }
}
