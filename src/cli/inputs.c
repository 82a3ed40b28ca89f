/* SPDX-License-Identifier: MIT */
/* Inputs of a command: looked at before it begins, opened one after another, and handed over. */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- looked at ------------- */

typedef struct given {
    struct stat file;
    const char *path; /* borrowed */
} given;

static int by_file(const void *a, const void *b)
{
    const struct stat *x = &((const given *)a)->file;
    const struct stat *y = &((const given *)b)->file;
    if (x->st_dev != y->st_dev)
        return x->st_dev < y->st_dev ? -1 : 1;
    return x->st_ino < y->st_ino ? -1 : x->st_ino > y->st_ino;
}

static bool is_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

/* Of a name, or of standard input: false if it is no regular file. */
static bool find_file(given *found, const char *path)
{
    struct stat *s = &found->file;
    found->path = path;
    return (is_stdin(path) ? fstat(STDIN_FILENO, s) : stat(path, s)) == 0 &&
           S_ISREG(s->st_mode);
}

const char *cli_given_twice(const char *const *paths, size_t n)
{
    const char *twice = NULL;
    size_t m = 0;
    given *files = calloc(n, sizeof *files);
    for (size_t i = 0; files && i < n; i++)
        m += find_file(&files[m], paths[i]);
    if (m > 0)
        qsort(files, m, sizeof *files, by_file);
    for (size_t i = 1; i < m && !twice; i++)
        twice = by_file(&files[i - 1], &files[i]) == 0 ? files[i].path : NULL;
    free(files);
    return twice;
}

bool cli_given_as_well(const char *path, const char *const *paths, size_t n)
{
    given one, other;
    if (!is_stdin(path))
        return cli_is_an_input(path, paths, n);
    bool file = find_file(&one, path);
    for (size_t i = 0; i < n; i++)
        if (file && paths[i] && find_file(&other, paths[i]) && by_file(&one, &other) == 0)
            return true;
    return false;
}

void cli_warn_of_twice(const cli *run, const char *const *paths, size_t n, const char *what)
{
    const char *twice = cli_given_twice(paths, n);
    if (twice)
        cli_warn(run, "%s is given twice, and %s", twice, what);
}

static int check_input(const char *path, kmf_err *err)
{
    struct stat s;
    if (!path || is_stdin(path))
        return 0;
    int reason = stat(path, &s) != 0       ? errno
                 : S_ISDIR(s.st_mode)      ? EISDIR
                 : access(path, R_OK) != 0 ? errno
                                           : 0;
    return reason ? cli_raise(err, KMF_EIO, "%s: %s", path, strerror(reason)) : 0;
}

int cli_check_inputs(const char *const *paths, size_t n, const kmf_reader_options *reader,
                     kmf_err *err)
{
    const char *bed = reader ? reader->bed : NULL;
    size_t dashes = is_stdin(bed);
    struct stat s;
    int status = 0;
    size_t there = 0;
    for (size_t i = 0; i < n; i++) {
        there += paths[i] != NULL;
        dashes += is_stdin(paths[i]);
    }
    if (dashes > 1)
        return cli_raise(err, KMF_EINVAL, "standard input can be read once");
    if (reader && reader->bed_names && !bed)
        return cli_raise(err, KMF_EINVAL, "--bed-names: the names are those of --bed FILE");
    if (reader && reader->tile_step > 0 && reader->tile == 0)
        return cli_raise(err, KMF_EINVAL, "--tile-step: it is the step of --tile N");
    if (reader && reader->tile_step > reader->tile)
        return cli_raise(err, KMF_EINVAL,
                         "--tile-step %zu: bases between tiles of %zu would be lost",
                         reader->tile_step, reader->tile);
    if (bed && there > 1 && (is_stdin(bed) || (stat(bed, &s) == 0 && !S_ISREG(s.st_mode))))
        return cli_raise(err, KMF_EINVAL,
                         "--bed %s: it is read for each input anew, and this can be read once: "
                         "give a file, or one input",
                         bed);
    for (size_t i = 0; i < n && status == 0; i++)
        status = check_input(paths[i], err);
    if (status == 0)
        status = check_input(bed, err);
    /* an address is the reader's to refuse */
    const char *reference = reader ? reader->reference : NULL;
    return status < 0 || (reference && strstr(reference, "://")) ? status
                                                                 : check_input(reference, err);
}

/* ---------------------------------------------------------------- handed over ----------- */

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
    *in = (cli_inputs){.done = 1};
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
    in->letters += in->now.bases;
    in->bytes_here = 0;
    in->reader = NULL;
    in->now = (kmf_reader_stats){0};
}

#define SHARE_LEAST 0.001 /* from which on the time that is left can be told */

/* 0: not known. */
static double share_read(cli_inputs *in)
{
    if (in->reader)
        kmf_reader_statistics(in->reader, &in->now);
    double read = (double)in->bytes_before + in->now.share * (double)in->bytes_here;
    return in->bytes > 0 && in->now.share > 0 ? in->done * read / (double)in->bytes : 0;
}

void cli_inputs_work(cli_inputs *in, double letters)
{
    if (in->reader)
        kmf_reader_statistics(in->reader, &in->now);
    double read = (double)in->letters + (double)in->now.bases;
    in->done = read > 0 ? fmin(letters / read, 1) : 1;
}

void cli_inputs_pass(cli_inputs *in)
{
    in->passed = share_read(in);
}

const char *cli_inputs_left(cli_inputs *in, char buf[CLI_COUNT_TEXT], double seconds)
{
    char left[CLI_COUNT_TEXT];
    double share = share_read(in);
    double done = share - in->passed;
    buf[0] = '\0';
    if (done >= SHARE_LEAST)
        snprintf(buf, CLI_COUNT_TEXT, ", %.20s left",
                 cli_time(left, seconds * (1 - share) / done));
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
