/* SPDX-License-Identifier: MIT */
/*
 * How long ranks take to sum up their gradients:  mpirun -n RANKS bench_ranks [FLOATS ...]
 *
 * CSV from rank 0, a line for each number of floats:
 *
 *   ranks, floats
 *   bytes_sent    by a rank, the most of all ranks: counted where MPI is called, not computed
 *   seconds       of kmf_ranks_sum, the slowest rank, median of ROUNDS rounds
 *   add_seconds   of adding so many floats in memory, without any messages
 *   right         1 if every sum is exact
 *
 * Without MPI there is one rank, which sends nothing. scripts/mpi_model.py reads this.
 */
#include "base/err.h"
#include "base/mem.h"
#include "learn/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef KMF_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 9, MOST_RANKS = 4096 };

static double sent; /* bytes */

#ifdef KMF_MPI
/* Stands before MPI's own, which is PMPI_Sendrecv as well. */
int MPI_Sendrecv(const void *out, int n_out, MPI_Datatype type_out, int to, int tag_out,
                 void *in, int n_in, MPI_Datatype type_in, int from, int tag_in, MPI_Comm comm,
                 MPI_Status *status)
{
    int size;
    MPI_Type_size(type_out, &size);
    sent += (double)n_out * size;
    return PMPI_Sendrecv(out, n_out, type_out, to, tag_out, in, n_in, type_in, from, tag_in,
                         comm, status);
}
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_size);
    return v[ROUNDS / 2];
}

/* The greatest x of all ranks. */
static double greatest(double x)
{
    static double of_rank[MOST_RANKS];
    size_t n = (size_t)kmf_ranks();
    double most = 0;
    memset(of_rank, 0, n * sizeof *of_rank);
    of_rank[kmf_rank()] = x;
    kmf_ranks_share(of_rank, n);
    for (size_t r = 0; r < n; r++)
        most = of_rank[r] > most ? of_rank[r] : most;
    return most;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(i % 97 + (size_t)kmf_rank());
}

/* Whole numbers, so that the order of the sum does not matter. */
static int is_right(const float *x, size_t n)
{
    size_t ranks = (size_t)kmf_ranks();
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += x[i] != (float)(ranks * (i % 97) + ranks * (ranks - 1) / 2);
    return wrong == 0;
}

static double time_add(float *x, const float *y, size_t n)
{
    double begun = now();
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
    return now() - begun;
}

static int bench(size_t n, kmf_err *err)
{
    size_t repeats = n < 100000 ? 100 : 1;
    double sums[ROUNDS], adds[ROUNDS];
    float *x = kmf_calloc(n, sizeof *x, err);
    float *y = kmf_calloc(n, sizeof *y, err);
    float *scratch = kmf_floats(kmf_ranks_scratch(n), err);
    int status = x && y && scratch ? 0 : (int)err->code;
    if (status < 0)
        goto out;
    fill(x, n);
    kmf_ranks_sum(x, n, scratch);
    int right = !kmf_ranks_any(!is_right(x, n));
    for (int round = 0; round < ROUNDS; round++) {
        adds[round] = greatest(time_add(y, x, n));
        memset(x, 0, n * sizeof *x);
        sent = 0;
        kmf_ranks_any(0); /* all begin together */
        double begun = now();
        for (size_t i = 0; i < repeats; i++)
            kmf_ranks_sum(x, n, scratch);
        sums[round] = greatest(now() - begun) / (double)repeats;
    }
    double bytes = greatest(sent) / (double)repeats;
    if (kmf_rank() == 0)
        printf("%d,%zu,%.0f,%.9f,%.9f,%d\n", kmf_ranks(), n, bytes, median(sums), median(adds),
               right);
    status = right ? 0 : 1;
out:
    kmf_free(x);
    kmf_free(y);
    kmf_free(scratch);
    return status;
}

int main(int argc, char **argv)
{
    static const size_t usual[] = {64, 16384, 1000000, 4000000, 12380000};
    size_t n_usual = sizeof usual / sizeof usual[0];
    kmf_err err = {0};
    int status = kmf_ranks_start(&argc, &argv, &err);
    if (status == 0 && kmf_ranks() > MOST_RANKS)
        status = kmf_fail(&err, KMF_EINVAL, "%d ranks are too many", kmf_ranks());
    if (status == 0 && kmf_rank() == 0)
        printf("ranks,floats,bytes_sent,seconds,add_seconds,right\n");
    size_t lines = argc > 1 ? (size_t)argc - 1 : n_usual;
    for (size_t i = 0; i < lines && status == 0; i++) {
        size_t n = argc > 1 ? (size_t)strtoull(argv[i + 1], NULL, 10) : usual[i];
        status = n > 0 ? bench(n, &err)
                       : kmf_fail(&err, KMF_EINVAL, "numbers of floats, not %s", argv[i + 1]);
    }
    if (err.code != KMF_OK) {
        fprintf(stderr, "bench_ranks: %s\n", err.msg);
        kmf_ranks_abort(1);
    }
    kmf_ranks_end();
    return status == 0 ? 0 : 1;
}
