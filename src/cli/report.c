/* SPDX-License-Identifier: MIT */
/* Messages and progress: all that a command says besides its data. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define TERMINAL_SECONDS 0.25
#define PLAIN_SECONDS 30.0

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What stands before a message. */
#define LEAD_CAP 400

/* "kmerformer: " or "kmerformer embed: ". */
static void write_name(char lead[LEAD_CAP], const cli *run)
{
    snprintf(lead, LEAD_CAP, "kmerformer%s%s: ", run->command ? " " : "",
             run->command ? run->command : "");
}

/* "[kmerformer embed 3.2s] " */
static void write_time(char lead[LEAD_CAP], const cli *run)
{
    snprintf(lead, LEAD_CAP, "[kmerformer %s %.1fs] ", run->command, cli_now() - run->started);
}

/* A line of progress that stands on the terminal makes room for what is said. */
static bool line_stands;

static int exit_code(kmf_code code)
{
    switch (code) {
    case KMF_OK:
        return CLI_DONE;
    case KMF_EINVAL:
        return CLI_USAGE;
    case KMF_EIO:
    case KMF_EFORMAT:
        return CLI_DATA;
    case KMF_ENOMEM:
        return CLI_LIMIT;
    case KMF_EMODEL:
    case KMF_ENUMERIC:
        return CLI_MODEL;
    case KMF_ESTOPPED:
        return CLI_STOPPED;
    }
    return CLI_DATA;
}

/*
 * A name may have line ends, and what a terminal obeys: a message is one line all the same, and is
 * written at once, lead and end included, as other processes may write to the same place.
 */
static KMF_PRINTF(3, 0) void print_message(const char *lead, const char *end,
                                           const char *format, va_list args)
{
    char text[4096];
    char *longer = NULL;
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(text, sizeof text, format, args);
    if (n >= (int)sizeof text && (longer = malloc((size_t)n + 1)) != NULL)
        vsnprintf(longer, (size_t)n + 1, format, again);
    va_end(again);
    char *shown = longer ? longer : text;
    kmf_show_plainly(shown);
    fprintf(stderr, "%s%s%s%s", line_stands ? "\r\033[K" : "", lead, shown, end);
    line_stands = false;
    free(longer);
}

int cli_fail(const cli *run, const kmf_err *err)
{
    static const char name[] = "standard output: ";
    if (err->code == KMF_EIO && strncmp(err->msg, name, sizeof name - 1) == 0)
        cli_leave_closed_stdout();
    cli_wrong(run, "%s", err->msg);
    return exit_code(err->code);
}

int cli_wrong(const cli *run, const char *format, ...)
{
    va_list args;
    char lead[LEAD_CAP];
    write_name(lead, run);
    va_start(args, format);
    print_message(lead, "\n", format, args);
    va_end(args);
    return CLI_USAGE;
}

void cli_warn(const cli *run, const char *format, ...)
{
    va_list args;
    char name[LEAD_CAP];
    char about[256] = "";
    char lead[2 * LEAD_CAP];
    if (run->quiet)
        return;
    if (run->about)
        snprintf(about, sizeof about, "%s", run->about);
    kmf_show_plainly(about);
    write_name(name, run);
    snprintf(lead, sizeof lead, "%swarning: %s%s", name, about, run->about ? ": " : "");
    va_start(args, format);
    print_message(lead, "\n", format, args);
    va_end(args);
}

const char *cli_asks_for_alphabet(kmf_alphabet alphabet, uint64_t outside, uint64_t inside)
{
    if (outside <= inside)
        return "";
    return alphabet == KMF_DNA ? ": more than do not; are these nucleotides?"
                               : ": more than do not; are these proteins?";
}

void cli_warn_of_nucleotides(const cli *run, int k, uint64_t kmers, uint64_t distinct)
{
    uint64_t possible = 1;
    for (int i = 0; i < k; i++)
        possible *= 5;
    if (distinct <= possible && kmers / 20 >= possible)
        cli_warn(run,
                 "no more different %d-mers than A, C, G, T and N make: are these proteins?",
                 k);
}

void cli_warn_of_losses(const cli *run, const kmf_embed_stats *s, bool options)
{
    if (s->ambiguous > 0)
        cli_warn(run, "%llu k-mers touch a base other than A, C, G, T or U%s%s",
                 (unsigned long long)s->ambiguous, options ? " (--ambiguous)" : "",
                 cli_asks_for_alphabet(KMF_DNA, s->ambiguous, s->tokens));
    if (s->unknown > 0)
        cli_warn(run, "%llu k-mers are not in the model's vocabulary and read as [UNK]",
                 (unsigned long long)s->unknown);
    if (s->chunked > 0)
        cli_warn(run, "%llu records were cut into more than one chunk%s",
                 (unsigned long long)s->chunked, options ? " (--long, --window)" : "");
    if (s->truncated > 0)
        cli_warn(run, "%llu records lost k-mers%s", (unsigned long long)s->truncated,
                 options ? " to --long" : ": they are longer than the model takes");
    if (s->empty > 0)
        cli_warn(run, "%llu records have no valid k-mer", (unsigned long long)s->empty);
}

void cli_warn_of_stride(const cli *run, size_t stride, int k)
{
    if (k > 0 && stride > (size_t)k)
        cli_warn(run,
                 "a stride of %zu: %zu of %zu letters lie between %d-mers, in none of them",
                 stride, stride - (size_t)k, stride, k);
}

void cli_warn_of_precision(const cli *run, int asked, int used)
{
    if ((asked == KMF_PRECISION_BF16 || asked == KMF_PRECISION_INT8) && used != asked)
        cli_warn(run,
                 "this processor lacks the instructions for %s; products are computed in %s",
                 kmf_precision_names[asked], kmf_precision_names[used]);
}

void cli_warn_of_gaps(const cli *run, const kmf_embedder *embedder)
{
    const kmf_model *model = kmf_embedder_model(embedder);
    const kmf_vectors_info *vectors = kmf_embedder_vectors(embedder);
    kmf_embed_options used;
    kmf_embedder_options(embedder, &used);
    cli_warn_of_stride(run, used.stride,
                       model        ? kmf_model_config(model)->k
                       : !vectors   ? 0
                       : used.k > 0 ? used.k
                                    : vectors->k_max);
}

/* What was asked for and a composition alone has no use for. */
static void warn_of_idle(const cli *run, const kmf_embed_options *asked,
                         const kmf_embed_options *used)
{
    const struct {
        const char *name;
        bool given;
    } idle[] = {{"--precision", asked->precision >= 0},
                {"--layer", asked->layer != KMF_LAYER_MODEL},
                {"--window", asked->window > 0 && used->policy == KMF_LONG_CHUNK},
                {"--overlap", asked->overlap != KMF_OVERLAP_MODEL}};
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (idle[i].given)
            cli_warn(run,
                     "%s changes nothing: a composition (--parts) is made without layers and "
                     "chunks",
                     idle[i].name);
}

void cli_warn_of_vectors(const cli *run, const kmf_embedder *embedder,
                         const kmf_embed_options *asked)
{
    const kmf_model *model = kmf_embedder_model(embedder);
    kmf_embed_options used;
    kmf_embedder_options(embedder, &used);
    if (model)
        cli_warn_of_precision(run, asked->precision, used.precision);
    if (model && used.parts == KMF_PARTS_COMPOSITION)
        warn_of_idle(run, asked, &used);
    cli_warn_of_gaps(run, embedder);
}

void cli_tell_of_embedding(const cli *run, const kmf_embedder *embedder, bool options)
{
    kmf_embed_stats s;
    uint64_t n_repeats = kmf_embedder_repeats(embedder);
    kmf_embedder_statistics(embedder, &s);
    if (kmf_embedder_vectors(embedder)) {
        const kmf_alphabet alphabet = kmf_embedder_vectors(embedder)->alphabet;
        if (s.ambiguous > 0)
            cli_warn(run, "%llu k-mers touch an ambiguous letter and are left out%s",
                     (unsigned long long)s.ambiguous,
                     cli_asks_for_alphabet(alphabet, s.ambiguous, s.tokens + s.unknown));
        if (s.unknown > 0)
            cli_warn(run,
                     "%llu k-mers have no vector, or were never seen in training, and are left "
                     "out",
                     (unsigned long long)s.unknown);
        s.ambiguous = 0;
        s.unknown = 0;
    }
    if (!options)
        s.empty = 0; /* what becomes of those is the command's to say */
    cli_warn_of_losses(run, &s, options);
    if (n_repeats > 0)
        cli_note(run, "vectors taken from an earlier record of the same sequence: %llu",
                 (unsigned long long)n_repeats);
}

void cli_warn_of_kernels(const cli *run)
{
    cli_warn(
        run,
        "the checkpoint was written with other kernels (processor, or KMERFORMER_CPU): what is "
        "learnt differs in its last digits from a run that was not stopped");
}

void cli_warn_of_reading(const cli *run, const char *path, const kmf_reader_options *opts,
                         const kmf_reader_stats *s)
{
    const char *bed = opts ? opts->bed : NULL;
    if (s->indexed)
        cli_note(run, "an index was made: %s.fai",
                 opts && opts->reference ? opts->reference : path);
    path = cli_input_name(path);
    if (s->records == 0 && bed)
        cli_warn(run, "%s: no records, as %s has no regions", path, cli_input_name(bed));
    else if (s->records == 0)
        cli_warn(run, "%s: no records", path);
    if (s->nameless > 0)
        cli_warn(run, "%s: %llu of %llu records have no name", path,
                 (unsigned long long)s->nameless, (unsigned long long)s->records);
    if (s->secondary + s->supplementary > 0)
        cli_warn(run, "%s: %llu secondary and %llu supplementary alignments are skipped", path,
                 (unsigned long long)s->secondary, (unsigned long long)s->supplementary);
}

void cli_note(const cli *run, const char *format, ...)
{
    va_list args;
    char lead[LEAD_CAP];
    if (run->quiet)
        return;
    write_time(lead, run);
    va_start(args, format);
    print_message(lead, "\n", format, args);
    va_end(args);
}

const char *cli_count(char buf[CLI_COUNT_TEXT], double n)
{
    const char *unit = n >= 1e9 ? " G" : n >= 1e6 ? " M" : n >= 1e4 ? " k" : "";
    double scale = n >= 1e9 ? 1e9 : n >= 1e6 ? 1e6 : n >= 1e4 ? 1e3 : 1;
    snprintf(buf, CLI_COUNT_TEXT, "%.*f%s", scale > 1 ? 1 : 0, n / scale, unit);
    return buf;
}

const char *cli_lengths(char buf[CLI_LENGTHS_TEXT], const kmf_vectors_info *info)
{
    if (info->k_min == info->k_max)
        snprintf(buf, CLI_LENGTHS_TEXT, "%d", info->k_min);
    else
        snprintf(buf, CLI_LENGTHS_TEXT, "%d to %d", info->k_min, info->k_max);
    return buf;
}

const char *cli_time(char buf[CLI_COUNT_TEXT], double seconds)
{
    const char *unit = seconds >= 7200 ? "h" : seconds >= 120 ? "min" : "s";
    double scale = seconds >= 7200 ? 3600 : seconds >= 120 ? 60 : 1;
    snprintf(buf, CLI_COUNT_TEXT, "%.*f %s", scale > 60 ? 1 : 0, seconds / scale, unit);
    return buf;
}

/* A byte of a token as it stands in a table; how many that are. */
static size_t token_byte(char to[4], unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    const char escape[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
    if (c < ' ' || c == 0x7f) {
        memcpy(to, escape, sizeof escape);
        return sizeof escape;
    }
    to[0] = (char)c;
    return 1;
}

size_t cli_token_text(char *to, const char *token)
{
    size_t n = 0;
    for (; *token; token++)
        n += token_byte(to + n, (unsigned char)*token);
    return n;
}

void cli_put_token(const char *token)
{
    for (; *token; token++) {
        char text[4];
        size_t n = token_byte(text, (unsigned char)*token);
        fwrite(text, 1, n, stdout);
    }
}

double cli_peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024.0 * (double)usage.ru_maxrss;
}

double cli_cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---------------------------------------------------------------- progress -------------- */

void cli_progress_start(cli_progress *progress, const cli *run)
{
    *progress =
        (cli_progress){.run = run, .last = cli_now(), .terminal = isatty(STDERR_FILENO) == 1};
}

bool cli_progress_due(cli_progress *progress)
{
    double now = cli_now();
    if (progress->run->quiet ||
        now - progress->last < (progress->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS))
        return false;
    progress->last = now;
    return true;
}

void cli_progress_show(cli_progress *progress, const char *format, ...)
{
    va_list args;
    char lead[LEAD_CAP];
    write_time(lead, progress->run);
    va_start(args, format);
    print_message(lead, progress->terminal ? "" : "\n", format, args);
    va_end(args);
    fflush(stderr);
    line_stands = progress->terminal;
}

void cli_progress_letters(cli_progress *progress, const char *doing, uint64_t letters)
{
    char count[CLI_COUNT_TEXT];
    if (cli_progress_due(progress))
        cli_progress_show(progress, "%s, %s letters", doing, cli_count(count, (double)letters));
}

void cli_progress_reading(void *progress, uint64_t letters)
{
    cli_progress_letters(progress, "reading", letters);
}

void cli_progress_table(void *progress, double done)
{
    if (cli_progress_due(progress))
        cli_progress_show(progress, "the table: %.0f %%", 100 * done);
}

void cli_progress_tokens(cli_progress *progress, cli_inputs *in, uint64_t records,
                         uint64_t tokens, uint64_t letters, double seconds)
{
    char left[CLI_COUNT_TEXT];
    if (!cli_progress_due(progress))
        return;
    cli_inputs_work(in, (double)letters);
    cli_progress_show(progress, "%llu records done, %llu tokens%s", (unsigned long long)records,
                      (unsigned long long)tokens, cli_inputs_left(in, left, seconds));
}

void cli_progress_probe(cli_progress *progress, const char *model,
                        const kmf_probe_progress *now)
{
    if (cli_progress_due(progress))
        cli_progress_show(progress, "%s: probe %d of %d, L2 %g, scale %s, iteration %d", model,
                          now->number, now->count, now->l2, kmf_probe_scale_names[now->scale],
                          now->iteration);
}

void cli_progress_end(void)
{
    if (line_stands)
        fputs("\r\033[K", stderr);
    line_stands = false;
}
