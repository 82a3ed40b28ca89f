/* SPDX-License-Identifier: MIT */
/*
 * Panels of 64 columns together have the four digits of 16 numbers, the lowest of all 16 first, so
 * that what comes of them is put together before the next ones.
 */
#include "embed/bytetable.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/panels.h"

#include <assert.h>
#include <string.h>

#define NUMBERS 16 /* of 64 columns */
#define DIGITS 4   /* of each */
#define COLS (NUMBERS * DIGITS)
#define LINE 16 /* words that stand side by side */

_Static_assert(COLS == KMF_KERNEL_COLS, "the most that a kernel computes at a time");

/* ---------------------------------------------------------------- the table ------------- */

static size_t panels_of(size_t dim)
{
    return kmf_div_up(dim, NUMBERS);
}

size_t kmf_bytetable_bytes(const kmf_bytetable *table)
{
    return table->kernel ? panels_of(table->dim) * COLS * table->words * sizeof(uint32_t) : 0;
}

/* Aligned to a line; NULL: out of memory. */
static void *zeros(size_t bytes, kmf_err *err)
{
    void *p = kmf_large(bytes, 1, err);
    if (p)
        memset(p, 0, bytes);
    return p;
}

/* Term `at` of a word, which has `terms` of them. */
static void put_term(uint32_t *word, size_t at, size_t terms, int32_t value)
{
    if (terms == 4)
        ((int8_t *)word)[at] = (int8_t)value;
    else
        ((int16_t *)(void *)word)[at] = (int16_t)value;
}

/* The digits of row i's numbers to their columns, words `words` long. */
static void put_row(uint32_t *panel, const kmf_kernel *kernel, size_t words, size_t i,
                    const int32_t *row, size_t n)
{
    for (size_t d = 0; d < n; d++) {
        int32_t left = row[d];
        for (size_t digit = 0; digit < DIGITS; digit++) {
            size_t column = digit * NUMBERS + d;
            int32_t low = ((left + 128) & 255) - 128;
            size_t word = column / kernel->cols * kernel->cols * words + column % kernel->cols;
            put_term(panel + i / kernel->terms * kernel->cols + word, i % kernel->terms,
                     kernel->terms, low);
            left = (left - low) / 256;
        }
        assert(left == 0);
    }
}

int kmf_bytetable_make(kmf_bytetable *table, const kmf_rowtable *from, const int32_t *rows,
                       size_t n, kmf_err *err)
{
    assert(n > 0 && n <= KMF_BYTETABLE_MOST);
    *table =
        (kmf_bytetable){.kernel = kmf_kernel_of(KMF_OPERAND_INT8), .n = n, .dim = from->dim};
    if (!table->kernel)
        return 0;
    assert(COLS % table->kernel->cols == 0);
    table->words = kmf_words_ld(table->kernel, n);
    table->panels = zeros(kmf_bytetable_bytes(table), err);
    if (!table->panels)
        return KMF_ENOMEM;
    for (size_t d = 0; d < from->dim; d += NUMBERS)
        for (size_t i = 0; i < n; i++)
            put_row(table->panels + d * DIGITS * table->words, table->kernel, table->words, i,
                    kmf_rowtable_units(from, (size_t)rows[i], d),
                    kmf_min(from->dim - d, NUMBERS));
    return 0;
}

void kmf_bytetable_free(kmf_bytetable *table)
{
    kmf_free(table->panels);
    *table = (kmf_bytetable){0};
}

/* ---------------------------------------------------------------- counts ---------------- */

int kmf_digits_new(kmf_digits *digits, size_t words, kmf_err *err)
{
    *digits =
        (kmf_digits){.words = zeros(KMF_BYTETABLE_ROWS * words * sizeof *digits->words, err)};
    return digits->words ? 0 : KMF_ENOMEM;
}

void kmf_digits_free(kmf_digits *digits)
{
    kmf_free(digits->words);
}

bool kmf_digits_fits(const kmf_digits *digits)
{
    return digits->n + KMF_BYTETABLE_DIGITS <= KMF_BYTETABLE_ROWS;
}

/*
 * to, words of `terms` counts, the next LINE of them `step` words from there: a digit of counts
 * [n], and zeros; *all: all their bits.
 */
static void take_digit(uint32_t *to, size_t step, size_t terms, int32_t *all,
                       const int32_t *counts, size_t n, int shift);

/* A line of them. terms is a constant wherever this is inlined. */
static KMF_INLINE int32_t take_line(uint32_t *restrict to, size_t terms,
                                    const int32_t *restrict counts, size_t n, int shift)
{
    uint8_t *bytes = (uint8_t *)to;
    uint16_t *halves = (uint16_t *)(void *)to;
    int32_t bits = 0;
    for (size_t j = 0; j < LINE * terms; j++) {
        int32_t count = j < n ? counts[j] : 0;
        bits |= count;
        if (terms == 4)
            bytes[j] = (uint8_t)(count >> shift);
        else
            halves[j] = (uint8_t)(count >> shift);
    }
    return bits;
}

static KMF_INLINE int32_t take_lines(uint32_t *to, size_t step, size_t terms,
                                     const int32_t *counts, size_t n, int shift)
{
    int32_t bits = 0;
    size_t line = LINE * terms;
    size_t i = 0;
    for (; i + line <= n; i += line, to += step)
        bits |= take_line(to, terms, counts + i, line, shift);
    if (i < n)
        bits |= take_line(to, terms, counts + i, n - i, shift);
    return bits;
}

static KMF_INLINE void take_digit_body(uint32_t *to, size_t step, size_t terms, int32_t *all,
                                       const int32_t *counts, size_t n, int shift)
{
    *all = terms == 4 ? take_lines(to, step, 4, counts, n, shift)
                      : take_lines(to, step, 2, counts, n, shift);
}

KMF_CLONES(take_digit,
           (uint32_t * to, size_t step, size_t terms, int32_t *all, const int32_t *counts,
            size_t n, int shift),
           (to, step, terms, all, counts, n, shift))

void kmf_digits_take(kmf_digits *digits, const kmf_bytetable *table, int32_t *counts, size_t to)
{
    kmf_rows rows = kmf_kernel_rows(table->kernel, digits->words, table->words);
    int32_t all = 1;
    double weight = 1;
    assert(kmf_digits_fits(digits));
    for (int shift = 0; all >> shift > 0; shift += 8, weight *= 256) {
        uint32_t *first = rows.words + kmf_rows_at(&rows, digits->n, 0);
        assert(shift < 8 * KMF_BYTETABLE_DIGITS);
        take_digit(first, kmf_rows_step(&rows), rows.terms, &all, counts, table->n, shift);
        digits->rows[digits->n].to = to;
        digits->rows[digits->n++].weight = weight;
    }
    memset(counts, 0, table->n * sizeof *counts);
}

/* ---------------------------------------------------------------- the product ----------- */

/* sum [n <= NUMBERS] += weight times the numbers that these digits are. */
static KMF_INLINE void put_together(double *restrict sum, const int32_t *restrict c,
                                    double weight, size_t n)
{
    for (size_t d = 0; d < n; d++)
        sum[d] += weight *
                  ((double)c[d] + 0x1p8 * (double)c[NUMBERS + d] +
                   0x1p16 * (double)c[2 * NUMBERS + d] + 0x1p24 * (double)c[3 * NUMBERS + d]);
}

/* Numbers d .. d + n - 1 of all rows, from what their panels gave. */
static void add_panel(double *sums, const kmf_digits *digits, const int32_t *c, size_t dim,
                      size_t d, size_t n);

static KMF_INLINE void add_panel_body(double *sums, const kmf_digits *digits, const int32_t *c,
                                      size_t dim, size_t d, size_t n)
{
    for (size_t i = 0; i < digits->n; i++) {
        double *sum = sums + digits->rows[i].to * dim + d;
        double weight = digits->rows[i].weight;
        if (n == NUMBERS)
            put_together(sum, c + i * COLS, weight, NUMBERS);
        else
            put_together(sum, c + i * COLS, weight, n);
    }
}

KMF_CLONES(add_panel,
           (double *sums, const kmf_digits *digits, const int32_t *c, size_t dim, size_t d,
            size_t n),
           (sums, digits, c, dim, d, n))

/* c [.., COLS] of all digits: the panels from d on. */
static void multiply_panels(int32_t *c, const kmf_digits *digits, const kmf_bytetable *table,
                            size_t d)
{
    const kmf_kernel *kernel = table->kernel;
    size_t words = table->words;
    size_t cols = kernel->tiled ? COLS : kernel->cols; /* at a time */
    kmf_rows rows = kmf_kernel_rows(kernel, digits->words, words);
    const uint32_t *panels = table->panels + d * DIGITS * words;
    for (size_t k = 0; k < words; k += kernel->depth)
        for (size_t j = 0; j < COLS; j += cols)
            kernel->panel(c + j, COLS, rows.words + kmf_rows_at(&rows, 0, k), words,
                          panels + j * words + k * kernel->cols, kernel->cols * words,
                          digits->n, cols, kmf_min(words - k, kernel->depth), k > 0,
                          (kmf_ahead){0});
}

void kmf_digits_multiply(kmf_digits *digits, const kmf_bytetable *table, double *sums)
{
    _Alignas(64) int32_t c[KMF_BYTETABLE_ROWS * COLS] = {0};
    const kmf_kernel *kernel = table->kernel;
    kmf_kernels_open(kernel->tiled);
    for (size_t d = 0; d < table->dim; d += NUMBERS) {
        multiply_panels(c, digits, table, d);
        add_panel(sums, digits, c, table->dim, d, kmf_min(table->dim - d, NUMBERS));
    }
    kmf_kernels_close(kernel->tiled);
    digits->n = 0;
}
