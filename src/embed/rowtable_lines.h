/* SPDX-License-Identifier: MIT */
/*
 * The sums of rowtable.c, included once for each processor level, for the reasons told in
 * nn/gemm_tile.h:
 *
 *   LEVEL   suffix of the names      TARGET   attribute of the functions
 *   LANES   numbers of a vector
 *
 * A line is KMF_ROWTABLE_LINE columns. Of a table that is not in panels GROUP lines are added up at
 * a time, in eight registers; what is less than a line at the end of a row is the end of one that
 * begins further ahead. Of one line there are WAYS sums.
 */
#include "nn/level.h"

#define VECS (KMF_ROWTABLE_LINE / LANES) /* of a line */
#define GROUP (8 / VECS)
#define WAYS (4 / VECS)
/* The most rows of one line, so that of no sum, with those that are left at the end, there are more
   than TIMES_MOST. */
#define ROWS_MOST ((TIMES_MOST - WAYS + 1) * WAYS)

typedef int32_t NAME(vec_) __attribute__((vector_size(LANES * 4)));
/* The same anywhere in memory. */
typedef int32_t NAME(mem_) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef double NAME(sum_) __attribute__((vector_size(LANES * 8), aligned(8), may_alias));

/*
 * sum [lines, KMF_ROWTABLE_LINE] += rows that stand `step` numbers apart, each as often as times
 * says, TIMES_MOST at most in all; times NULL: once, and of one line ROWS_MOST at most. That, and
 * the number of lines, GROUP or 1, are constants where this is inlined. Of one line there are sums
 * of every WAYS-th row, as one addition waits for the one before.
 */
TARGET static KMF_INLINE void NAME(add_lines_)(double *sum, const int32_t *units, size_t step,
                                               const int32_t *times, const int32_t *rows,
                                               size_t n, size_t lines)
{
    _Static_assert(WAYS * VECS <= 8 && GROUP * VECS <= 8, "as many sums as there are");
    NAME(vec_) s[8];
    const size_t ways = lines == 1 ? WAYS : 1;
    const size_t vecs = lines * VECS;
    size_t i = 0;
    KMF_UNROLL(8)
    for (size_t v = 0; v < ways * vecs; v++)
        s[v] = (NAME(vec_)){0};
    for (; i + ways <= n; i += ways) {
        KMF_UNROLL(4)
        for (size_t w = 0; w < ways; w++) {
            const int32_t *row = units + (size_t)rows[i + w] * step;
            KMF_UNROLL(8)
            for (size_t v = 0; v < vecs; v++) {
                NAME(vec_) x = *(const NAME(mem_) *)(row + v * LANES);
                s[w * vecs + v] += times ? x * times[i + w] : x;
            }
        }
    }
    for (; i < n; i++) {
        const int32_t *row = units + (size_t)rows[i] * step;
        KMF_UNROLL(8)
        for (size_t v = 0; v < vecs; v++) {
            NAME(vec_) x = *(const NAME(mem_) *)(row + v * LANES);
            s[v] += times ? x * times[i] : x;
        }
    }
    KMF_UNROLL(8)
    for (size_t v = 0; v < vecs; v++) {
        NAME(sum_) all = *(NAME(sum_) *)(sum + v * LANES);
        KMF_UNROLL(4)
        for (size_t w = 0; w < ways; w++)
            all += __builtin_convertvector(s[w * vecs + v], NAME(sum_));
        *(NAME(sum_) *)(sum + v * LANES) = all;
    }
}

/* The same of columns beg .. KMF_ROWTABLE_LINE - 1 of a line, or of those before end. */
TARGET static KMF_INLINE void NAME(add_part_)(double *sum, const int32_t *units, size_t step,
                                              const int32_t *times, const int32_t *rows,
                                              size_t n, size_t beg, size_t end)
{
    double part[KMF_ROWTABLE_LINE] = {0};
    NAME(add_lines_)(part, units, step, times, rows, n, 1);
    for (size_t d = beg; d < end; d++)
        sum[d] += part[d];
}

/* The same of a panel from column d on, or of all columns. */
TARGET static KMF_INLINE void NAME(add_panel_)(double *sum, const kmf_rowtable *table, size_t d,
                                               const int32_t *times, const int32_t *rows,
                                               size_t n)
{
    const int32_t *units = table->units + d * table->n;
    size_t dim = table->dim;
    size_t line = KMF_ROWTABLE_LINE;
    size_t at = 0;
    if (table->width == line && dim - d >= line) {
        NAME(add_lines_)(sum + d, units, line, times, rows, n, 1);
        return;
    }
    if (table->width == line) {
        NAME(add_part_)(sum + d, units, line, times, rows, n, 0, dim - d);
        return;
    }
    for (; at + GROUP * line <= dim; at += GROUP * line)
        NAME(add_lines_)(sum + at, units + at, dim, times, rows, n, GROUP);
    for (; at + line <= dim; at += line)
        NAME(add_lines_)(sum + at, units + at, dim, times, rows, n, 1);
    if (at < dim)
        NAME(add_part_)
    (sum + dim - line, units + dim - line, dim, times, rows, n, at + line - dim, line);
}

TARGET static void NAME(add_)(double *sums, const kmf_rowtable *table, const int32_t *rows,
                              const size_t *off, size_t n)
{
    size_t fetched = off[0];
    size_t most = table->width > KMF_ROWTABLE_LINE ? TIMES_MOST : ROWS_MOST;
    for (size_t d = 0; d < table->dim; d += table->width)
        for (size_t i = 0; i < n; i++)
            for (size_t at = off[i]; at < off[i + 1]; at += most) {
                size_t here = kmf_min(off[i + 1] - at, most);
                if (table->width > KMF_ROWTABLE_LINE)
                    fetched = fetch(table, rows, fetched, kmf_min(at + here + AHEAD, off[n]));
                NAME(add_panel_)(sums + i * table->dim, table, d, NULL, rows + at, here);
            }
}

/* As kmf_rowtable_add_times, of TIMES_MOST at most. */
TARGET static void NAME(add_times_)(double *sum, const kmf_rowtable *table,
                                    const int32_t *times, const int32_t *rows, size_t n)
{
    for (size_t d = 0; d < table->dim; d += table->width)
        NAME(add_panel_)(sum, table, d, times, rows, n);
}

#undef VECS
#undef GROUP
#undef WAYS
#undef ROWS_MOST
#undef LEVEL
#undef TARGET
#undef LANES
