/* SPDX-License-Identifier: MIT */
/* The spectrum of a table of counts: how many k-mers occur once, twice, and so on. */
#include "base/err.h"
#include "plot/draft.h"

#include <inttypes.h>

static uint64_t largest_of(const uint64_t *values, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static void write_data(FILE *to, const kmf_spectrum *s)
{
    fprintf(to, "#count\tkmers\n");
    for (size_t i = 0; i < s->n; i++)
        fprintf(to, "%" PRIu64 "\t%" PRIu64 "\n", s->count[i], s->kmers[i]);
}

/* Both axes reach beyond the points, so that a single one has room. */
static void write_script(FILE *to, const kmf_spectrum *s, const kmf_counts_info *info)
{
    fprintf(to,
            "set title '%s k-mers, k = %d%s: %" PRIu64 " distinct'\n"
            "set xlabel 'occurrences of a k-mer'\nset ylabel 'k-mers with so many'\n"
            "set logscale xy\nset format '%%.0s%%c'\nunset key\n"
            "set grid linecolor rgb '#dddddd' linetype 1\n"
            "set xrange [0.5:%.17g]\nset yrange [0.5:%.17g]\n"
            "plot data using 1:2 with points pointtype 7 pointsize 0.5 linecolor rgb "
            "'#332288'\n",
            info->alphabet == KMF_DNA ? "DNA" : "protein", info->k,
            info->canonical ? ", canonical" : "", info->distinct,
            2 * (double)largest_of(s->count, s->n), 2 * (double)largest_of(s->kmers, s->n));
}

int kmf_plot_spectrum(const kmf_picture *picture, const kmf_spectrum *spectrum,
                      const kmf_counts_info *info, kmf_err *err)
{
    kmf_draft draft;
    if (spectrum->n == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: the table is empty: nothing to draw",
                        picture->path);
    int status = kmf_draft_begin(&draft, picture, "spectrum", 800, 600, err);
    if (status == 0) {
        write_data(draft.data, spectrum);
        write_script(draft.script, spectrum, info);
        status = kmf_draft_finish(&draft, err);
    }
    kmf_draft_free(&draft);
    return status;
}
