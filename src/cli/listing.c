/* SPDX-License-Identifier: MIT */
/*
 * How a table of counts is written, for the three commands that write one: which k-mers are
 * listed, what cannot be listed, and the provenance beside the file.
 *
 *   format              all k-mers (--full)                    what occurs (--observed)
 *   tsv vocab dnabert   default up to k = 8, protein k = 3     default beyond, or of a part
 *   binary              no                                     always: a zero needs no place
 *
 * Leaving out (--min-count, --max-size) and listing all contradict each other: a k-mer that was
 * left out would be listed with a count of 0 that is not true.
 */
#include "cli/cli.h"

#include <inttypes.h>

#define FULL_K_DNA 8
#define FULL_K_PROTEIN 3

const char *const *cli_listing_endings(const cli_listing *l)
{
    static const char *const json[] = {".json", NULL}, *const none[] = {NULL};
    return l->format == KMF_COUNTS_TSV || l->format == KMF_COUNTS_BINARY ? json : none;
}

static bool selects(const cli_listing *l)
{
    return l->min_count > 1 || l->max_size > 0;
}

static bool was_selected(const kmf_counts_info *info)
{
    return info->min_count > 1 || info->max_size > 0;
}

static bool lists_all(const cli_listing *l, const kmf_counts_info *info)
{
    int most = info->alphabet == KMF_DNA ? FULL_K_DNA : FULL_K_PROTEIN;
    if (l->full || l->observed)
        return l->full != 0;
    return l->format != KMF_COUNTS_BINARY && !selects(l) && !was_selected(info) &&
           info->k <= most;
}

static int check_full(const cli *run, const cli_listing *l, const kmf_counts_info *info)
{
    if (l->observed)
        return cli_wrong(run, "give --full or --observed, not both");
    if (selects(l))
        return cli_wrong(run, "--full lists every k-mer, --min-count and --max-size leave some "
                              "out: give one or the other");
    if (was_selected(info))
        return cli_wrong(run, "--full: k-mers were left out of the table, so that their counts "
                              "are not known to be 0");
    if (l->format == KMF_COUNTS_BINARY)
        return cli_wrong(run, "--full: a binary table holds what occurs, and every other k-mer "
                              "counts as 0 in it; leave --full out");
    return -1;
}

int cli_listing_check(const cli *run, const cli_listing *l, const kmf_counts_info *info)
{
    kmf_err err = {0};
    bool words = l->format == KMF_COUNTS_VOCAB || l->format == KMF_COUNTS_DNABERT;
    int refused = words ? cli_refuse_table(run, l->out) : cli_refuse_companion(run, l->out);
    if (refused < 0 && l->format == KMF_COUNTS_TSV)
        refused = cli_refuse_array(run, l->out);
    if (refused >= 0)
        return refused;
    int leave = l->full ? check_full(run, l, info) : -1;
    if (leave >= 0)
        return leave;
    if (kmf_counts_check_format(info, (kmf_counts_format)l->format, l->full, &err) < 0)
        return words ? cli_wrong(run, "--format %s: %s", kmf_counts_format_names[l->format],
                                 err.msg)
                     : cli_wrong(run, "--full: %s; --observed lists what occurs", err.msg);
    if (words && info->canonical)
        cli_warn(run, "the vocabulary has one strand of each k-mer only: a model will read the "
                      "other as [UNK]");
    return -1;
}

/* ---------------------------------------------------------------- provenance ------------ */

static char *provenance(const cli *run, const kmf_counts_info *info, bool full,
                        const char *const *inputs, size_t n_inputs, kmf_err *err)
{
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer");
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "command", "%s", run->command_line);
    cli_pair_lines(&p, "inputs", inputs, n_inputs);
    cli_pair(&p, "alphabet", "%s", kmf_alphabet_names[info->alphabet]);
    cli_pair(&p, "canonical", "%s", info->canonical ? "yes" : "no");
    cli_pair(&p, "listed", "%s", full ? "all" : "observed");
    cli_pair(&p, "k", "%d", info->k);
    cli_pair(&p, "stride", "%" PRIu64, info->stride);
    cli_pair(&p, "files", "%" PRIu64, info->inputs);
    cli_pair(&p, "records", "%" PRIu64, info->records);
    cli_pair(&p, "letters", "%" PRIu64, info->letters);
    cli_pair(&p, "kmers", "%" PRIu64, info->kmers);
    cli_pair(&p, "ambiguous", "%" PRIu64, info->ambiguous);
    cli_pair(&p, "distinct", "%" PRIu64, info->distinct);
    cli_pair(&p, "min_count", "%" PRIu64, info->min_count);
    cli_pair(&p, "max_size", "%" PRIu64, info->max_size);
    return cli_pairs_text(&p, err);
}

int cli_listing_save(const cli *run, const cli_listing *l, kmf_counts *counts,
                     const char *const *inputs, size_t n_inputs, kmf_pool *pool,
                     kmf_counts_info *info, kmf_err *err)
{
    cli_progress line;
    kmf_counts *chosen = counts;
    kmf_counts_information(counts, info);
    bool full = lists_all(l, info);
    cli_progress_start(&line, run);
    kmf_counts_progress(counts, cli_progress_table, &line);
    if (selects(l))
        chosen = kmf_counts_select(counts, l->min_count, l->max_size, err);
    if (chosen) {
        kmf_counts_progress(chosen, cli_progress_table, &line);
        kmf_counts_information(chosen, info);
    }
    char *beside = chosen ? provenance(run, info, full, inputs, n_inputs, err) : NULL;
    int status = beside ? kmf_counts_save(chosen, l->out, (kmf_counts_format)l->format, full,
                                          pool, beside, err)
                        : (int)err->code;
    cli_progress_end();
    kmf_counts_progress(counts, NULL, NULL);
    kmf_text_free(beside);
    if (chosen != counts)
        kmf_counts_free(chosen);
    return status;
}

/* What the provenance of a table that is yet to be made will need. */
typedef struct origin {
    const cli *run;
    const char *const *inputs;
    size_t n_inputs;
} origin;

static char *provenance_of_observed(void *user, const kmf_counts_info *info, kmf_err *err)
{
    const origin *o = user;
    return provenance(o->run, info, false, o->inputs, o->n_inputs, err);
}

int cli_listing_finish(const cli *run, const cli_listing *l, kmf_counter *counter,
                       const char *const *inputs, size_t n_inputs, kmf_counts_info *info,
                       kmf_err *err)
{
    origin o = {run, inputs, n_inputs};
    if (l->format == KMF_COUNTS_BINARY && !selects(l))
        return kmf_counter_save(counter, l->out, provenance_of_observed, &o, info, err);
    kmf_counts *counts = kmf_counter_finish(counter, err);
    if (!counts)
        return err->code;
    int status = cli_listing_save(run, l, counts, inputs, n_inputs, kmf_counter_pool(counter),
                                  info, err);
    kmf_counts_free(counts);
    return status;
}
