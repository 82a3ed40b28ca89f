/* SPDX-License-Identifier: MIT */
/* Inputs of a command, one after another: opened, handed over, and how much of them was read. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Bytes of a regular file; 0: it is none. */
static uint64_t bytes_of(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)
               ? (uint64_t)st.st_size
               : 0;
}

void cli_inputs_start(cli_inputs *in, const char *const *paths, size_t n,
                      const kmf_reader_options *opts)
{
    bool known = !opts->regions && !opts->bed && !opts->bed_names;
    *in = (cli_inputs){0};
    for (size_t i = 0; i < n && known; i++) {
        uint64_t bytes = bytes_of(paths[i]);
        known = bytes > 0;
        in->bytes = known ? in->bytes + bytes : 0;
    }
}

void cli_inputs_open(cli_inputs *in, const char *path, const kmf_reader *reader)
{
    in->bytes_here = bytes_of(path);
    in->reader = reader;
    in->now = (kmf_reader_stats){0};
}

void cli_inputs_close(cli_inputs *in)
{
    in->bytes_before += in->bytes_here;
    in->bytes_here = 0;
    in->reader = NULL;
    in->now = (kmf_reader_stats){0};
}

#define SHARE_LEAST 0.001 /* from which on the time that is left can be told */

const char *cli_inputs_left(cli_inputs *in, char buf[CLI_COUNT_TEXT], double seconds)
{
    char left[CLI_COUNT_TEXT];
    if (in->reader)
        kmf_reader_statistics(in->reader, &in->now);
    double read = (double)in->bytes_before + in->now.share * (double)in->bytes_here;
    double share = in->bytes > 0 && in->now.share > 0 ? read / (double)in->bytes : 0;
    buf[0] = '\0';
    if (share >= SHARE_LEAST)
        snprintf(buf, CLI_COUNT_TEXT, ", %.20s left",
                 cli_time(left, seconds * (1 - share) / share));
    return buf;
}

int cli_read_file(const cli *run, const char *path, const kmf_reader_options *opts,
                  kmf_pool *pool, cli_inputs *in, cli_take_fn *fn, void *to, kmf_err *err)
{
    kmf_reader_stats s;
    kmf_reader *reader = kmf_reader_open(path, opts, pool, err);
    if (!reader)
        return err->code;
    if (in)
        cli_inputs_open(in, path, reader);
    int status = fn(to, reader, err);
    if (in)
        cli_inputs_close(in);
    kmf_reader_statistics(reader, &s);
    kmf_reader_close(reader);
    if (status == 0)
        cli_warn_of_reading(run, path, opts, &s);
    return status;
}

typedef struct records {
    const char *path; /* borrowed; the input at hand */
    cli_record_fn *fn;
    void *to;
} records;

/* A cli_take_fn. */
static int take_records(void *to, kmf_reader *reader, kmf_err *err)
{
    const records *r = to;
    kmf_record rec;
    int got;
    while ((got = kmf_reader_next(reader, &rec, err)) > 0) {
        int status = r->fn(r->to, r->path, &rec, err);
        if (status < 0 || ferror(stdout))
            return status;
    }
    return got;
}

int cli_read_records(const cli *run, const char *const *paths, size_t n,
                     const kmf_reader_options *opts, cli_inputs *in, cli_record_fn *fn,
                     void *to, kmf_err *err)
{
    int status = 0;
    cli_inputs_start(in, paths, n, opts);
    for (size_t i = 0; i < n && status == 0 && !ferror(stdout); i++) {
        records r = {paths[i], fn, to};
        status = cli_read_file(run, paths[i], opts, NULL, in, take_records, &r, err);
    }
    return status;
}
