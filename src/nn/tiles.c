/* SPDX-License-Identifier: MIT */
/*
 * A block of c is two tiles high and two wide, so that each tile that is read is used twice:
 *
 *            B0  B1        for 16 words of k:  read A0, B0, B1, A1
 *       A0   C0  C1                            C0 += A0 B0   C1 += A0 B1
 *       A1   C2  C3                            C2 += A1 B0   C3 += A1 B1
 *
 * Eight registers, all of them. A product takes 16 cycles, a tile from the nearest cache 8.
 */
#include "nn/tiles.h"

#include "nn/ending.h"
#include "nn/turn.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#if KMF_X86_LEVELS
#include <immintrin.h>

#define UNIT KMF_ROWS_TILE

/* What LDTILECFG reads. */
typedef struct configuration {
    uint8_t palette, start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} configuration;

_Static_assert(sizeof(configuration) == 64, "the processor reads 64 bytes");

KMF_TARGET_AMX void kmf_tiles_open(void)
{
    static const configuration whole = {.palette = 1,
                                        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&whole);
}

KMF_TARGET_AMX void kmf_tiles_close(void)
{
    _tile_release();
}

/* Tile numbers are part of the instruction. */
#define DOT(bytes, c, a, b)          \
    do {                             \
        if (bytes)                   \
            _tile_dpbusd(c, a, b);   \
        else                         \
            _tile_dpbf16ps(c, a, b); \
    } while (0)

/* What tiles are written to must be seen by who reads them next, and the other way round. */
#define SETTLED __asm__ volatile("" ::: "memory")

/*
 * Units of k at a time: those of two panels, 24 KB, stay in the first-level cache while all rows
 * pass by, which come from the second-level one.
 */
#define CHUNK 12
#define TILE (UNIT * UNIT * 4) /* bytes of 16 rows of 16 words */
#define ROW (UNIT * 4)

/* What is at work: c, and how far it is from row to row and from panel to panel, in bytes. */
typedef struct work {
    char *c;
    size_t ld_c;
    const char *a;
    size_t ld_a; /* from 16 rows to the next */
    const char *b;
    size_t ld_b;  /* from panel to panel */
    size_t units; /* of 16 words of k */
    bool more;
    const char *next; /* what is to be fetched, `step` bytes for each unit */
    size_t step;
} work;

/* c = c + a b (more) or a b, for n_a x n_b tiles. */
KMF_TARGET_AMX static KMF_INLINE void block(bool bytes, int n_a, int n_b, const work *w)
{
    char *c = w->c;
    if (w->more) {
        _tile_loadd(0, c, w->ld_c);
        if (n_b == 2)
            _tile_loadd(1, c + ROW, w->ld_c);
        if (n_a == 2)
            _tile_loadd(2, c + UNIT * w->ld_c, w->ld_c);
        if (n_a == 2 && n_b == 2)
            _tile_loadd(3, c + UNIT * w->ld_c + ROW, w->ld_c);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    const char *a = w->a;
    const char *b = w->b;
    const char *next = w->next;
    for (size_t k = 0; k < w->units; k++, a += TILE, b += TILE) {
        for (size_t at = 0; at < w->step; at += 64)
            __builtin_prefetch(next + at, 0, 2);
        next += w->step;
        _tile_loadd(4, a, ROW);
        _tile_loadd(6, b, ROW);
        DOT(bytes, 0, 4, 6);
        if (n_b == 2) {
            _tile_loadd(7, b + w->ld_b, ROW);
            DOT(bytes, 1, 4, 7);
        }
        if (n_a == 2) {
            _tile_loadd(5, a + w->ld_a, ROW);
            DOT(bytes, 2, 5, 6);
        }
        if (n_a == 2 && n_b == 2)
            DOT(bytes, 3, 5, 7);
    }
    _tile_stored(0, c, w->ld_c);
    if (n_b == 2)
        _tile_stored(1, c + ROW, w->ld_c);
    if (n_a == 2)
        _tile_stored(2, c + UNIT * w->ld_c, w->ld_c);
    if (n_a == 2 && n_b == 2)
        _tile_stored(3, c + UNIT * w->ld_c + ROW, w->ld_c);
}

/* The same for fewer rows than the tiles have, by way of whole ones elsewhere. */
KMF_TARGET_AMX static KMF_INLINE void edge_block(bool bytes, int n_a, int n_b, const work *w,
                                                 size_t rows)
{
    _Alignas(64) char whole[2 * UNIT * 2 * ROW];
    size_t n = (size_t)n_b * ROW;
    work edge = *w;
    edge.c = whole;
    edge.ld_c = 2 * ROW;
    for (size_t i = 0; w->more && i < rows; i++)
        memcpy(whole + i * edge.ld_c, w->c + i * w->ld_c, n);
    SETTLED;
    block(bytes, n_a, n_b, &edge);
    SETTLED;
    for (size_t i = 0; i < rows; i++)
        memcpy(w->c + i * w->ld_c, whole + i * edge.ld_c, n);
}

KMF_TARGET_AMX static KMF_INLINE void some_rows(bool bytes, int n_b, const work *w, size_t rows)
{
    if (rows == 2 * UNIT)
        block(bytes, 2, n_b, w);
    else if (rows == UNIT)
        block(bytes, 1, n_b, w);
    else if (rows > UNIT)
        edge_block(bytes, 2, n_b, w, rows);
    else
        edge_block(bytes, 1, n_b, w, rows);
}

KMF_TARGET_AMX static KMF_INLINE void panels(bool bytes, void *c, size_t ld_c, const void *a,
                                             size_t ld_a, const void *b, size_t ld_b, size_t M,
                                             size_t cols, size_t K, bool more, kmf_ahead ahead)
{
    work w = {.ld_c = ld_c * 4,
              .ld_a = ld_a * ROW,
              .ld_b = ld_b * 4,
              .next = ahead.bytes > 0 ? ahead.from : b};
    size_t units = (K + UNIT - 1) / UNIT;
    size_t pieces =
        (M + 2 * UNIT - 1) / (2 * UNIT) * ((cols + 2 * UNIT - 1) / (2 * UNIT)) * units;
    size_t chunks = units > CHUNK ? (units + CHUNK - 1) / CHUNK : 1;
    if (pieces > 0)
        w.step = ahead.bytes / pieces / 64 * 64;
    SETTLED;
    for (size_t j = 0; j < cols; j += 2 * UNIT)
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            size_t k = chunk * units / chunks;
            w.units = (chunk + 1) * units / chunks - k;
            w.more = more || k > 0;
            w.b = (const char *)b + j / UNIT * w.ld_b + k * TILE;
            for (size_t i = 0; i < M; i += 2 * UNIT, w.next += w.units * w.step) {
                size_t rows = M - i < 2 * UNIT ? M - i : 2 * UNIT;
                w.a = (const char *)a + i * ld_a * 4 + k * TILE;
                w.c = (char *)c + i * w.ld_c + j * 4;
                if (cols - j > UNIT)
                    some_rows(bytes, 2, &w, rows);
                else
                    some_rows(bytes, 1, &w, rows);
            }
        }
    SETTLED;
}

KMF_TARGET_AMX void kmf_tiles_panel_bf16(void *c, size_t ld_c, const void *a, size_t ld_a,
                                         const void *b, size_t ld_b, size_t M, size_t cols,
                                         size_t K, bool more, kmf_ahead ahead)
{
    panels(false, c, ld_c, a, ld_a, b, ld_b, M, cols, K, more, ahead);
}

KMF_TARGET_AMX void kmf_tiles_panel_int8(void *c, size_t ld_c, const void *a, size_t ld_a,
                                         const void *b, size_t ld_b, size_t M, size_t cols,
                                         size_t K, bool more, kmf_ahead ahead)
{
    panels(true, c, ld_c, a, ld_a, b, ld_b, M, cols, K, more, ahead);
}

/* ---------------------------------------------------------------- with endings ----------- */

#define BLOCK (2 * UNIT) /* rows and columns of one */
_Static_assert(BLOCK == KMF_ENDED_COLS, "products are cut in whole blocks");

/* A block whose sums are there, [BLOCK, BLOCK], and of whose rows `done` are ended. */
typedef struct pending {
    const float *sums;
    size_t row, col;
    size_t rows, done;
} pending;

/* What is constant where rows are ended, for the loops to be of that alone. */
typedef struct kind {
    bool bytes, words; /* sums; what comes out */
    bool activate;
    kmf_activation activation;
} kind;

/* Ends the rows up to `stop`. */
KMF_TARGET_AMX static KMF_INLINE void end_rows(kind is, const kmf_ended *e, pending *p,
                                               size_t stop)
{
    kmf_ending ending = {e->ending.bias ? e->ending.bias + p->col : NULL, is.activate,
                         is.activation};
    uint32_t *words = is.words ? e->to.words + kmf_rows_at(&e->to, p->row, p->col / 2) : NULL;
    float *numbers = is.words ? NULL : e->y + p->row * e->ld_y + p->col;
    for (size_t r = p->done; r < stop; r++) {
        kmf_sums_row x = kmf_sums_of(is.bytes, p->sums + r * BLOCK, &e->q, p->row + r, p->col);
        if (!is.words) {
            kmf_end_row(true, is.bytes, numbers + r * e->ld_y, x, e->q.more, ending, true,
                        BLOCK);
            continue;
        }
        float ended[BLOCK];
        kmf_end_row(true, is.bytes, ended, x, false, ending, true, BLOCK);
        _mm512_storeu_si512(words + r / UNIT * UNIT * e->to.ld + r % UNIT * UNIT,
                            (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(ended + UNIT),
                                                         _mm512_loadu_ps(ended)));
    }
    p->done = stop;
}

/* Bytes to be fetched beside each of n units, in whole lines, for all to be there at the end. */
static size_t lines_of(size_t bytes, size_t n)
{
    return (bytes / 64 + n - 1) / n * 64;
}

/*
 * Block after block: the sums of one go to a room while another's are ended, some rows beside each
 * unit of k.
 */
KMF_TARGET_AMX static KMF_INLINE void ended(kind is, const kmf_ended *product)
{
    const kmf_ended e = *product; /* what is written cannot lie in it */
    _Alignas(64) float room[2][BLOCK * BLOCK];
    size_t units = e.K / UNIT;
    size_t blocks = (e.M + BLOCK - 1) / BLOCK;
    size_t ld_a = e.ld_a * ROW;
    size_t ld_b = e.ld_b * 4;
    pending p = {.sums = room[1]};
    int at = 0;
    assert(units > 0);
    SETTLED;
    for (size_t j = 0; j < e.cols; j += BLOCK) {
        const char *b = (const char *)e.b + j / UNIT * ld_b;
        bool last = j + BLOCK == e.cols;
        const char *next = last ? e.after.from : b + 2 * ld_b;
        size_t ld_next = last ? e.after.bytes / 2 : ld_b;
        size_t step = lines_of(last ? ld_next : units * TILE, blocks * units);
        for (size_t i = 0; i < e.M; i += BLOCK) {
            const char *a = (const char *)e.a + i * e.ld_a * 4;
            size_t per = (p.rows + units - 1) / units;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (size_t k = 0; k < units; k++, next += step) {
                for (size_t line = 0; line < step; line += 64) {
                    __builtin_prefetch(next + line, 0, 2);
                    __builtin_prefetch(next + ld_next + line, 0, 2);
                }
                _tile_loadd(4, a + k * TILE, ROW);
                _tile_loadd(6, b + k * TILE, ROW);
                DOT(is.bytes, 0, 4, 6);
                _tile_loadd(7, b + ld_b + k * TILE, ROW);
                DOT(is.bytes, 1, 4, 7);
                _tile_loadd(5, a + ld_a + k * TILE, ROW);
                DOT(is.bytes, 2, 5, 6);
                DOT(is.bytes, 3, 5, 7);
                end_rows(is, &e, &p, p.done + per < p.rows ? p.done + per : p.rows);
            }
            SETTLED;
            _tile_stored(0, room[at], 2 * ROW);
            _tile_stored(1, room[at] + UNIT, 2 * ROW);
            _tile_stored(2, room[at] + UNIT * BLOCK, 2 * ROW);
            _tile_stored(3, room[at] + UNIT * BLOCK + UNIT, 2 * ROW);
            SETTLED;
            p = (pending){room[at], i, j, e.M - i < BLOCK ? e.M - i : BLOCK, 0};
            at = 1 - at;
        }
    }
    end_rows(is, &e, &p, p.rows);
}

KMF_TARGET_AMX static KMF_INLINE void ended_of(bool bytes, const kmf_ended *e)
{
    bool words = e->to.words != NULL;
    bool gelu = e->ending.activate && e->ending.activation == KMF_GELU;
    if (!e->ending.activate && !words)
        ended((kind){bytes, false, false, KMF_GELU}, e);
    else if (gelu && words)
        ended((kind){bytes, true, true, KMF_GELU}, e);
    else if (gelu)
        ended((kind){bytes, false, true, KMF_GELU}, e);
    else
        ended((kind){bytes, words, e->ending.activate, e->ending.activation}, e);
}

KMF_TARGET_AMX void kmf_tiles_ended_bf16(const kmf_ended *product)
{
    ended_of(false, product);
}

KMF_TARGET_AMX void kmf_tiles_ended_int8(const kmf_ended *product)
{
    ended_of(true, product);
}

void kmf_tiles_gather(void *groups, size_t ld, const void *a, size_t ld_a, size_t M, size_t K)
{
    for (size_t i = 0; i < M; i += UNIT)
        for (size_t k = 0; k < K; k += UNIT)
            kmf_turn_words((uint32_t *)groups + i * ld + k * UNIT, UNIT,
                           (const uint32_t *)a + k * ld_a + i, ld_a, UNIT,
                           M - i < UNIT ? M - i : UNIT);
}
#endif
