/* SPDX-License-Identifier: MIT */
/*
 * A block of c is two tiles high and two wide, so that each tile that is read is used twice:
 *
 *            B0  B1        for 16 words of k:  read A0, B0, B1, A1
 *       A0   C0  C1                            C0 += A0 B0   C1 += A0 B1
 *       A1   C2  C3                            C2 += A1 B0   C3 += A1 B1
 *
 * Eight registers, all of them. A product takes 16 cycles, a tile from the nearest cache 8. Where
 * numbers have parts (nn/kernels.h) that is a step, and a unit of k has 3 or 6 of them, in an order
 * in which few tiles are read anew.
 */
#include "nn/amx.h"

#include "base/mem.h"
#include "nn/epilogue.h"
#include "nn/narrow.h"
#include "nn/transpose.h"

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

KMF_TARGET_AMX void kmf_amx_open(void)
{
    static const configuration whole = {.palette = 1,
                                        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                        .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&whole);
}

KMF_TARGET_AMX void kmf_amx_close(void)
{
    _tile_release();
}

/* Tile numbers are part of the instruction. */
#define DOT(of, c, a, b)              \
    do {                              \
        if ((of) == KMF_OPERAND_INT8) \
            _tile_dpbusd(c, a, b);    \
        else                          \
            _tile_dpbf16ps(c, a, b);  \
    } while (0)

/* What tiles are written to must be seen by who reads them next, and the other way round. */
#define SETTLED __asm__ volatile("" ::: "memory")

#define TILE (UNIT * UNIT * 4) /* bytes of 16 rows of 16 words */
#define ROW (UNIT * 4)

/* Parts of a number; what is multiplied is a constant wherever it is passed on. */
static KMF_INLINE size_t parts_of(kmf_operand of)
{
    return of == KMF_OPERAND_THIRDS ? 3 : of == KMF_OPERAND_SPLIT ? 2 : 1;
}

/* ---------------------------------------------------------------- rows to be ended ------- */

#define BLOCK (2 * UNIT) /* rows and columns of one */
_Static_assert(BLOCK == KMF_FUSED_COLS, "products are cut in whole blocks");

/* A block whose sums are there, [BLOCK, BLOCK], and of whose rows `done` are ended. */
typedef struct pending {
    const float *sums;
    size_t row, col;
    size_t rows, done;
} pending;

/* What is constant where rows are ended, for the loops to be of that alone. */
typedef struct kind {
    kmf_operand of; /* what is multiplied */
    bool words;     /* what comes out */
    bool activate;
    kmf_activation activation;
} kind;

/* Ends n more rows, or those that are left. */
KMF_TARGET_AMX static KMF_INLINE void epilogue_rows(kind is, const kmf_fused *e, pending *p,
                                                    size_t n)
{
    size_t stop = p->done + n < p->rows ? p->done + n : p->rows;
    bool exact = is.of == KMF_OPERAND_INT8;
    bool rough = is.of != KMF_OPERAND_THIRDS;
    kmf_epilogue epilogue = {e->epilogue.bias ? e->epilogue.bias + p->col : NULL, is.activate,
                             is.activation};
    uint32_t *words =
        is.words ? e->to.words + kmf_rows_at(&e->to, p->row, p->col / 2 * e->to.parts) : NULL;
    float *numbers = is.words ? NULL : e->y + p->row * e->ld_y + p->col;
    for (size_t r = p->done; r < stop; r++) {
        kmf_sums_row x = kmf_sums_of(exact, p->sums + r * BLOCK, &e->q, p->row + r, p->col);
        if (!is.words) {
            kmf_epilogue_row(true, exact, numbers + r * e->ld_y, x, e->q.more, epilogue, rough,
                             BLOCK);
            continue;
        }
        float ended[BLOCK];
        kmf_epilogue_row(true, exact, ended, x, false, epilogue, rough, BLOCK);
        kmf_store_parts(words + r / UNIT * UNIT * e->to.ld + r % UNIT * UNIT, UNIT * UNIT,
                        e->to.parts, _mm512_loadu_ps(ended), _mm512_loadu_ps(ended + UNIT));
    }
    p->done = stop;
}

/* What the vector units do beside each step of a product. */
typedef struct beside {
    const kmf_fused *e;
    pending *p;
    size_t rows;
} beside;

/* ---------------------------------------------------------------- products --------------- */

/* Where the tiles of a step stand, and from there those that are below A0 and beside B0. */
typedef struct operands {
    const char *a, *b;
    size_t below, beside;
} operands;

/* The products of one step, whose tiles of a, or of b, are new or those of the step before. */
KMF_TARGET_AMX static KMF_INLINE void step(kind is, int n_a, int n_b, bool new_a, bool new_b,
                                           const operands *at, size_t part_a, size_t part_b,
                                           const beside *with)
{
    const char *a = at->a + part_a * TILE;
    const char *b = at->b + part_b * TILE;
    if (new_a)
        _tile_loadd(4, a, ROW);
    if (new_b)
        _tile_loadd(6, b, ROW);
    DOT(is.of, 0, 4, 6);
    if (n_b == 2 && new_b)
        _tile_loadd(7, b + at->beside, ROW);
    if (n_b == 2)
        DOT(is.of, 1, 4, 7);
    if (n_a == 2 && new_a)
        _tile_loadd(5, a + at->below, ROW);
    if (n_a == 2)
        DOT(is.of, 2, 5, 6);
    if (n_a == 2 && n_b == 2)
        DOT(is.of, 3, 5, 7);
    if (with)
        epilogue_rows(is, with->e, with->p, with->rows);
}

/* All steps of a unit of k; the largest products come last. */
KMF_TARGET_AMX static KMF_INLINE void unit(kind is, int n_a, int n_b, const operands *at,
                                           const beside *with)
{
    if (is.of == KMF_OPERAND_THIRDS) {
        step(is, n_a, n_b, true, true, at, 0, 2, with);
        step(is, n_a, n_b, false, true, at, 0, 1, with);
        step(is, n_a, n_b, true, false, at, 1, 1, with);
        step(is, n_a, n_b, false, true, at, 1, 0, with);
        step(is, n_a, n_b, true, false, at, 2, 0, with);
        step(is, n_a, n_b, true, false, at, 0, 0, with);
    } else if (is.of == KMF_OPERAND_SPLIT) {
        step(is, n_a, n_b, true, true, at, 0, 1, with);
        step(is, n_a, n_b, true, true, at, 1, 0, with);
        step(is, n_a, n_b, true, false, at, 0, 0, with);
    } else {
        step(is, n_a, n_b, true, true, at, 0, 0, with);
    }
}

static KMF_INLINE size_t steps_of(kmf_operand of)
{
    return of == KMF_OPERAND_THIRDS ? 6 : of == KMF_OPERAND_SPLIT ? 3 : 1;
}

/*
 * Units of k at a time: those of two panels, 24 KB, stay in the first-level cache while all rows
 * pass by, which come from the second-level one. A unit of float32 takes six times as long as it
 * takes to be read three times as much, from either.
 */
#define CHUNK 12
#define LONG_CHUNK 32

/* What is at work: c, and how far it is from row to row and from panel to panel, in bytes. */
typedef struct work {
    char *c;
    size_t ld_c;
    const char *a;
    size_t ld_a; /* from 16 rows to the next */
    const char *b;
    size_t ld_b;  /* from panel to panel */
    size_t units; /* of 16 words of k, of each part */
    bool more;
    const char *next; /* what is to be fetched, `step` bytes for each unit */
    size_t step;
} work;

/* c = c + a b (more) or a b, for n_a x n_b tiles. */
KMF_TARGET_AMX static KMF_INLINE void block(kmf_operand of, int n_a, int n_b, const work *w)
{
    size_t bytes = parts_of(of) * TILE; /* of a unit */
    operands at = {w->a, w->b, w->ld_a, w->ld_b};
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
    const char *next = w->next;
    for (size_t k = 0; k < w->units; k++, at.a += bytes, at.b += bytes) {
        for (size_t line = 0; line < w->step; line += 64)
            __builtin_prefetch(next + line, 0, 2);
        next += w->step;
        unit((kind){.of = of}, n_a, n_b, &at, NULL);
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
KMF_TARGET_AMX static KMF_INLINE void edge_block(kmf_operand of, int n_a, int n_b,
                                                 const work *w, size_t rows)
{
    _Alignas(64) char whole[2 * UNIT * 2 * ROW];
    size_t n = (size_t)n_b * ROW;
    work edge = *w;
    edge.c = whole;
    edge.ld_c = 2 * ROW;
    for (size_t i = 0; w->more && i < rows; i++)
        memcpy(whole + i * edge.ld_c, w->c + i * w->ld_c, n);
    SETTLED;
    block(of, n_a, n_b, &edge);
    SETTLED;
    for (size_t i = 0; i < rows; i++)
        memcpy(w->c + i * w->ld_c, whole + i * edge.ld_c, n);
}

KMF_TARGET_AMX static KMF_INLINE void some_rows(kmf_operand of, int n_b, const work *w,
                                                size_t rows)
{
    if (rows == 2 * UNIT)
        block(of, 2, n_b, w);
    else if (rows == UNIT)
        block(of, 1, n_b, w);
    else if (rows > UNIT)
        edge_block(of, 2, n_b, w, rows);
    else
        edge_block(of, 1, n_b, w, rows);
}

KMF_TARGET_AMX static KMF_INLINE void panels(kmf_operand of, void *c, size_t ld_c,
                                             const void *a, size_t ld_a, const void *b,
                                             size_t ld_b, size_t M, size_t cols, size_t K,
                                             bool more, kmf_ahead ahead)
{
    work w = {.ld_c = ld_c * 4,
              .ld_a = ld_a * ROW,
              .ld_b = ld_b * 4,
              .next = ahead.bytes > 0 ? ahead.from : b};
    size_t parts = parts_of(of);
    size_t units = kmf_div_up(K / parts, UNIT);
    size_t chunk_most = of == KMF_OPERAND_THIRDS ? LONG_CHUNK : CHUNK / parts;
    size_t pieces =
        (M + 2 * UNIT - 1) / (2 * UNIT) * ((cols + 2 * UNIT - 1) / (2 * UNIT)) * units;
    size_t chunks = units > chunk_most ? kmf_div_up(units, chunk_most) : 1;
    if (pieces > 0)
        w.step = ahead.bytes / pieces / 64 * 64;
    SETTLED;
    for (size_t j = 0; j < cols; j += 2 * UNIT)
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            size_t k = chunk * units / chunks;
            w.units = (chunk + 1) * units / chunks - k;
            w.more = more || k > 0;
            w.b = (const char *)b + j / UNIT * w.ld_b + k * parts * TILE;
            for (size_t i = 0; i < M; i += 2 * UNIT, w.next += w.units * w.step) {
                size_t rows = M - i < 2 * UNIT ? M - i : 2 * UNIT;
                w.a = (const char *)a + i * ld_a * 4 + k * parts * TILE;
                w.c = (char *)c + i * w.ld_c + j * 4;
                if (cols - j > UNIT)
                    some_rows(of, 2, &w, rows);
                else
                    some_rows(of, 1, &w, rows);
            }
        }
    SETTLED;
}

#define PANELS(name, of)                                                              \
    KMF_TARGET_AMX void kmf_amx_panel_##name(                                         \
        void *c, size_t ld_c, const void *a, size_t ld_a, const void *b, size_t ld_b, \
        size_t M, size_t cols, size_t K, bool more, kmf_ahead ahead)                  \
    {                                                                                 \
        panels(of, c, ld_c, a, ld_a, b, ld_b, M, cols, K, more, ahead);               \
    }
PANELS(thirds, KMF_OPERAND_THIRDS)
PANELS(bf16, KMF_OPERAND_BF16)
PANELS(split, KMF_OPERAND_SPLIT)
PANELS(int8, KMF_OPERAND_INT8)

/* ---------------------------------------------------------------- with epilogues ----------- */

/* Bytes to be fetched beside each of n units, in whole lines, for all to be there at the end. */
static size_t lines_of(size_t bytes, size_t n)
{
    return (bytes / 64 + n - 1) / n * 64;
}

/*
 * Block after block: the sums of one go to a buffer while the epilogue of another's is done, some
 * rows beside each unit of k.
 */
KMF_TARGET_AMX static KMF_INLINE void fused(kind is, const kmf_fused *product)
{
    const kmf_fused e = *product; /* what is written cannot lie in it */
    _Alignas(64) float buffer[2][BLOCK * BLOCK];
    size_t unit_bytes = parts_of(is.of) * TILE;
    size_t units = e.K / UNIT / parts_of(is.of);
    size_t blocks = kmf_div_up(e.M, BLOCK);
    size_t ld_a = e.ld_a * ROW;
    size_t ld_b = e.ld_b * 4;
    pending p = {.sums = buffer[1]};
    int at = 0;
    assert(units > 0);
    SETTLED;
    for (size_t j = 0; j < e.cols; j += BLOCK) {
        const char *b = (const char *)e.b + j / UNIT * ld_b;
        bool last = j + BLOCK == e.cols;
        const char *after = e.after.bytes > 0 ? e.after.from : b;
        const char *next = last ? after : b + 2 * ld_b;
        size_t ld_next = last ? e.after.bytes / 2 : ld_b;
        size_t step_bytes = lines_of(last ? ld_next : units * unit_bytes, blocks * units);
        for (size_t i = 0; i < e.M; i += BLOCK) {
            operands from = {(const char *)e.a + i * e.ld_a * 4, b, ld_a, ld_b};
            size_t steps = units * steps_of(is.of);
            beside with = {&e, &p, kmf_div_up(p.rows, steps)};
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            for (size_t k = 0; k < units; k++, next += step_bytes) {
                for (size_t line = 0; line < step_bytes; line += 64) {
                    __builtin_prefetch(next + line, 0, 2);
                    __builtin_prefetch(next + ld_next + line, 0, 2);
                }
                unit(is, 2, 2, &from, &with);
                from.a += unit_bytes;
                from.b += unit_bytes;
            }
            SETTLED;
            _tile_stored(0, buffer[at], 2 * ROW);
            _tile_stored(1, buffer[at] + UNIT, 2 * ROW);
            _tile_stored(2, buffer[at] + UNIT * BLOCK, 2 * ROW);
            _tile_stored(3, buffer[at] + UNIT * BLOCK + UNIT, 2 * ROW);
            SETTLED;
            p = (pending){buffer[at], i, j, kmf_min(e.M - i, BLOCK), 0};
            at = 1 - at;
        }
    }
    epilogue_rows(is, &e, &p, p.rows);
}

KMF_TARGET_AMX static KMF_INLINE void fused_of(kmf_operand of, const kmf_fused *e)
{
    bool words = e->to.words != NULL;
    bool gelu = e->epilogue.activate && e->epilogue.activation == KMF_GELU;
    if (!e->epilogue.activate && !words)
        fused((kind){of, false, false, KMF_GELU}, e);
    else if (gelu && words)
        fused((kind){of, true, true, KMF_GELU}, e);
    else if (gelu)
        fused((kind){of, false, true, KMF_GELU}, e);
    else
        fused((kind){of, words, e->epilogue.activate, e->epilogue.activation}, e);
}

KMF_TARGET_AMX void kmf_amx_fused_thirds(const kmf_fused *product)
{
    fused_of(KMF_OPERAND_THIRDS, product);
}

KMF_TARGET_AMX void kmf_amx_fused_bf16(const kmf_fused *product)
{
    fused_of(KMF_OPERAND_BF16, product);
}

KMF_TARGET_AMX void kmf_amx_fused_int8(const kmf_fused *product)
{
    fused_of(KMF_OPERAND_INT8, product);
}

void kmf_amx_gather(void *groups, size_t ld, const void *a, size_t ld_a, size_t M, size_t K)
{
    for (size_t i = 0; i < M; i += UNIT)
        for (size_t k = 0; k < K; k += UNIT)
            kmf_transpose_words((uint32_t *)groups + i * ld + k * UNIT, UNIT,
                                (const uint32_t *)a + k * ld_a + i, ld_a, UNIT,
                                kmf_min(M - i, UNIT));
}
#endif
