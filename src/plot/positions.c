/* SPDX-License-Identifier: MIT */
/* What rotary and sinusoidal positions are like: decay with distance, and the table. */
#include "base/err.h"
#include "base/mem.h"
#include "plot/draft.h"

#include <math.h>

#define SINUSOID_BASE 10000.0

void kmf_rotary_decay(double *score, double *bound, size_t n, size_t K, double base)
{
    const size_t n_pairs = K / 2;
    const double pairs = (double)n_pairs;
    for (size_t m = 0; m < n; m++) {
        double re = 0, im = 0, sizes = 0;
        for (size_t i = 0; i < n_pairs; i++) {
            double angle = (double)m * pow(base, -2.0 * (double)i / (double)K);
            re += cos(angle);
            im += sin(angle);
            sizes += hypot(re, im);
        }
        score[m] = re / pairs;
        bound[m] = sizes / pairs;
    }
}

void kmf_sinusoids(float *table, size_t T, size_t D)
{
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < D; c++) {
            double angle = (double)t * pow(SINUSOID_BASE, -(double)(c - c % 2) / (double)D);
            table[t * D + c] = (float)(c % 2 ? cos(angle) : sin(angle));
        }
}

/* ---------------------------------------------------------------- the picture ----------- */

static void write_data(FILE *to, const double *score, const double *bound, size_t tokens,
                       const float *table, size_t width)
{
    fprintf(to, "#distance\tscore\tbound\n");
    for (size_t m = 0; m <= tokens; m++)
        fprintf(to, "%zu\t%.8g\t%.8g\n", m, score[m], bound[m]);
    fprintf(
        to,
        "\n\n# the sinusoidal table: a line for each position, a column for each dimension\n");
    for (size_t t = 0; t < tokens; t++)
        for (size_t c = 0; c < width; c++)
            fprintf(to, "%.5f%c", (double)table[t * width + c], c + 1 < width ? '\t' : '\n');
}

static void write_script(FILE *to, size_t K, double base, size_t tokens, size_t width,
                         double first)
{
    size_t pairs = width / 2;
    fprintf(to,
            "set multiplot layout 2,1 margins 0.12,0.90,0.08,0.95 spacing 0,0.14\n"
            "set key inside right top noreverse Right samplen 2\n"
            "set title 'rotary positions: heads of %zu numbers, base %.10g'\n"
            "set xlabel 'distance of query and key (tokens)'\n"
            "set ylabel 'relative to distance 0'\n"
            "set xrange [0:%zu]\nset yrange [*:1.05]\n"
            "set grid ytics linecolor rgb '#dddddd' linetype 1\n"
            "plot data index 0 using 1:($3 / %.17g) with lines linewidth 2 linecolor rgb "
            "'#ddaa33' title "
            "'upper bound of RoFormer', \\\n"
            "    data index 0 using 1:2 with lines linewidth 2 linecolor rgb '#332288' title "
            "'score of equal vectors'\n",
            K, base, tokens, first);
    fprintf(to,
            "unset key\nunset grid\nset border 15\n"
            "set title 'sinusoidal positions: a table of %zu x %zu, sines below, cosines "
            "above'\n"
            "set xlabel 'position (token)'\nset ylabel 'pair of dimensions'\n"
            "set xrange [-0.5:%zu.5]\nset yrange [-0.5:%zu.5]\nset ytics ()\n"
            "set cbrange [-1:1]\nset cbtics 0.5\nset colorbox user origin 0.92,0.08 size "
            "0.018,0.36\n"
            "set palette defined (-1 '#2166ac', -0.5 '#92c5de', 0 '#f7f7f7', 0.5 '#f4a582', 1 "
            "'#b2182b')\n",
            tokens, width, tokens - 1, width - 1);
    for (size_t i = 0; i < pairs; i += (pairs + 3) / 4)
        fprintf(to, "set ytics add ('%zu' %zu, '%zu' %zu)\n", i, i, i, pairs + i);
    fprintf(to,
            "plot data index 1 matrix every 2:1:0:0 using 2:($1 / 2):3 with image, \\\n"
            "    data index 1 matrix every 2:1:1:0 using 2:(($1 - 1) / 2 + %zu):3 with image\n"
            "unset multiplot\n",
            pairs);
}

int kmf_plot_positions(const kmf_picture *picture, size_t K, double base, size_t tokens,
                       size_t width, kmf_err *err)
{
    kmf_draft draft = {0};
    if (K < 2 || K % 2)
        return kmf_fail(err, KMF_EINVAL, "heads of %zu numbers have no pairs to turn", K);
    if (K > KMF_POSITIONS_MAX || tokens > KMF_POSITIONS_MAX || width > KMF_POSITIONS_MAX)
        return kmf_fail(err, KMF_EINVAL,
                        "heads of %zu numbers, a table of %zu x %zu: at most %d of each", K,
                        tokens, width, KMF_POSITIONS_MAX);
    if (!(base > 1) || !isfinite(base))
        return kmf_fail(err, KMF_EINVAL, "the base must be above 1, got %g", base);
    if (tokens < 2 || width < 4 || width % 2)
        return kmf_fail(err, KMF_EINVAL,
                        "a table of %zu x %zu: 2 tokens or more, and an even width from 4",
                        tokens, width);
    double *score = kmf_malloc(tokens + 1, sizeof *score, err);
    double *bound = kmf_malloc(tokens + 1, sizeof *bound, err);
    size_t cells = 0;
    bool fits = kmf_mul(tokens, width, &cells);
    float *table = kmf_malloc(fits ? cells : SIZE_MAX, sizeof *table, err);
    int status = KMF_ENOMEM;
    if (!score || !bound || !table)
        goto out;
    kmf_rotary_decay(score, bound, tokens + 1, K, base);
    kmf_sinusoids(table, tokens, width);
    status = kmf_draft_begin(&draft, picture, "positions", 760, 820, err);
    if (status == 0) {
        fprintf(draft.data, "# rotary: heads of %zu numbers, base %.17g\n", K, base);
        write_data(draft.data, score, bound, tokens, table, width);
        write_script(draft.script, K, base, tokens, width, bound[0]);
        status = kmf_draft_finish(&draft, err);
    }
out:
    kmf_draft_free(&draft);
    kmf_free(score);
    kmf_free(bound);
    kmf_free(table);
    return status;
}
