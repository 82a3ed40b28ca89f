/* SPDX-License-Identifier: MIT */
/*
 * How fast sequence files are read:  bench_reader FILE...
 *
 * For each file the reader by record without a pool, with 1 and with 2 threads, the reader as a
 * text without a pool, and beside them, in the same process and interleaved with them, gzread
 * alone, which inflates and parses nothing. Of five rounds the median. CSV on standard output:
 *
 *   file, reader ("gzread", "kmf" by record, "fill" as a text), threads, seconds, MB/s of text
 *   (inflated), Mbases/s, times gzread
 */
#include "kmerformer.h"
#include "base/mem.h"
#include "seq/seqio.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zlib.h>

#define ROUNDS 5
#define PORTION ((size_t)256 << 10) /* of a text */

static const struct way {
    const char *reader;
    int threads;
} ways[] = {{"gzread", 1}, {"kmf", 0}, {"kmf", 1}, {"kmf", 2}, {"fill", 0}};

#define WAYS (sizeof ways / sizeof *ways)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Bytes of text, or -1. */
static double run_gzread(const char *path)
{
    static char block[1 << 18];
    double bytes = 0;
    int got;
    gzFile file = gzopen(path, "rb");
    if (!file)
        return -1;
    gzbuffer(file, 1 << 18);
    while ((got = gzread(file, block, sizeof block)) > 0)
        bytes += got;
    gzclose(file);
    return got < 0 ? -1 : bytes;
}

/* Bases, or -1. */
static double run_reader(const char *path, bool as_text, int threads)
{
    kmf_err err = {0};
    kmf_record rec;
    kmf_text text = {0};
    kmf_reader_stats stats = {0};
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, &err) : NULL;
    kmf_reader *reader = kmf_reader_open(path, NULL, pool, &err);
    int status = reader ? 1 : -1;
    while (status > 0) {
        text.len = 0;
        status = as_text ? kmf_reader_fill(reader, &text, PORTION, &err)
                         : kmf_reader_next(reader, &rec, &err);
    }
    if (status < 0)
        fprintf(stderr, "bench_reader: %s\n", err.msg);
    else
        kmf_reader_statistics(reader, &stats);
    kmf_reader_close(reader);
    kmf_pool_free(pool);
    kmf_free(text.bytes);
    return status < 0 ? -1 : (double)stats.bases;
}

static int bench(const char *path)
{
    double seconds[WAYS][ROUNDS];
    double amount[WAYS];
    for (int round = -1; round < ROUNDS; round++) {
        for (size_t way = 0; way < WAYS; way++) {
            double start = now();
            bool as_text = strcmp(ways[way].reader, "fill") == 0;
            amount[way] =
                way == 0 ? run_gzread(path) : run_reader(path, as_text, ways[way].threads);
            if (amount[way] < 0)
                return -1;
            if (round >= 0)
                seconds[way][round] = now() - start;
        }
    }
    for (size_t way = 0; way < WAYS; way++)
        qsort(seconds[way], ROUNDS, sizeof(double), by_value);
    for (size_t way = 0; way < WAYS; way++) {
        double median = seconds[way][ROUNDS / 2];
        printf("%s,%s,%d,%.4f,%.0f,%.0f,%.2f\n", path, ways[way].reader, ways[way].threads,
               median, amount[0] / median / 1e6, amount[1] / median / 1e6,
               seconds[0][ROUNDS / 2] / median);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int status = EXIT_SUCCESS;
    printf("file,reader,threads,seconds,text_mb_s,mbases_s,times_gzread\n");
    for (int i = 1; i < argc; i++) {
        if (bench(argv[i]) < 0) {
            fprintf(stderr, "bench_reader: %s: cannot be read\n", argv[i]);
            status = EXIT_FAILURE;
        }
    }
    return status;
}
