/* SPDX-License-Identifier: MIT */
#include "learn/ranks.h"

#include "base/err.h"

#ifdef KMF_MPI

#include <mpi.h>

#define MOST_AT_ONCE ((size_t)1 << 28) /* numbers of a message: its length is an int */

int kmf_ranks_start(int *argc, char ***argv, kmf_err *err)
{
    int level, ready;
    MPI_Initialized(&ready);
    if (!ready && MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
        return kmf_fail(err, KMF_EIO, "MPI cannot be started");
    if (MPI_Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
        return kmf_fail(err, KMF_EIO, "this MPI cannot be used beside threads");
    int n = kmf_ranks();
    if ((n & (n - 1)) != 0)
        return kmf_fail(err, KMF_EINVAL, "%d ranks: their number must be a power of 2", n);
    return 0;
}

void kmf_ranks_end(void)
{
    int ready, ended;
    MPI_Initialized(&ready);
    MPI_Finalized(&ended);
    if (!ready || ended)
        return;
    /* Whoever starts ranks may end all of them when the first one has exited, and the others
       are through before rank 0 has written the last checkpoint. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}

void kmf_ranks_abort(int exit_code)
{
    int ready;
    MPI_Initialized(&ready);
    if (ready && kmf_ranks() > 1)
        MPI_Abort(MPI_COMM_WORLD, exit_code);
}

int kmf_ranks(void)
{
    int n = 1;
    int ready;
    MPI_Initialized(&ready);
    if (ready)
        MPI_Comm_size(MPI_COMM_WORLD, &n);
    return n;
}

int kmf_rank(void)
{
    int rank = 0;
    int ready;
    MPI_Initialized(&ready);
    if (ready)
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int kmf_ranks_any(int flag)
{
    int any = flag != 0;
    if (kmf_ranks() > 1)
        MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

void kmf_ranks_share(double *x, size_t n)
{
    if (kmf_ranks() > 1)
        MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

bool kmf_ranks_agree(uint64_t x)
{
    uint64_t most[2] = {x, ~x}; /* the most of ~x is that of the least x */
    if (kmf_ranks() > 1)
        MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return most[0] == ~most[1];
}

size_t kmf_ranks_scratch(size_t n)
{
    return kmf_ranks() > 1 ? n - n / 2 : 0;
}

/* Sends n_out numbers to the partner and takes n_in from it, in messages that an int can count. */
static void exchange(const float *out, size_t n_out, float *in, size_t n_in, int partner)
{
    while (n_out > 0 || n_in > 0) {
        size_t to = n_out < MOST_AT_ONCE ? n_out : MOST_AT_ONCE;
        size_t from = n_in < MOST_AT_ONCE ? n_in : MOST_AT_ONCE;
        MPI_Sendrecv(out, (int)to, MPI_FLOAT, partner, 0, in, (int)from, MPI_FLOAT, partner, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        out += to;
        in += from;
        n_out -= to;
        n_in -= from;
    }
}

/* A range of x is halved: the lower ranks of a pair go on with the lower half. */
typedef struct halves {
    size_t lower, middle, upper;
} halves;

static halves halve(size_t lower, size_t upper)
{
    return (halves){lower, lower + (upper - lower) / 2, upper};
}

void kmf_ranks_sum(float *x, size_t n, float *scratch)
{
    halves at[32];
    int rank = kmf_rank();
    int n_ranks = kmf_ranks();
    int depth = 0;
    size_t lower = 0, upper = n;
    for (int bit = 1; bit < n_ranks; bit *= 2, depth++) {
        halves h = at[depth] = halve(lower, upper);
        if (rank & bit) {
            exchange(x + h.lower, h.middle - h.lower, scratch, h.upper - h.middle, rank ^ bit);
            lower = h.middle;
        } else {
            exchange(x + h.middle, h.upper - h.middle, scratch, h.middle - h.lower, rank ^ bit);
            upper = h.middle;
        }
        for (size_t i = lower; i < upper; i++)
            x[i] += scratch[i - lower];
    }
    for (int bit = n_ranks / 2; bit > 0; bit /= 2) {
        halves h = at[--depth];
        if (rank & bit)
            exchange(x + h.middle, h.upper - h.middle, x + h.lower, h.middle - h.lower,
                     rank ^ bit);
        else
            exchange(x + h.lower, h.middle - h.lower, x + h.middle, h.upper - h.middle,
                     rank ^ bit);
    }
}

#else

int kmf_ranks_start(int *argc, char ***argv, kmf_err *err)
{
    (void)argc;
    (void)argv;
    (void)err;
    return 0;
}

void kmf_ranks_end(void)
{
}

void kmf_ranks_abort(int exit_code)
{
    (void)exit_code;
}

int kmf_ranks(void)
{
    return 1;
}

int kmf_rank(void)
{
    return 0;
}

int kmf_ranks_any(int flag)
{
    return flag != 0;
}

void kmf_ranks_share(double *x, size_t n)
{
    (void)x;
    (void)n;
}

bool kmf_ranks_agree(uint64_t x)
{
    (void)x;
    return true;
}

size_t kmf_ranks_scratch(size_t n)
{
    (void)n;
    return 0;
}

void kmf_ranks_sum(float *x, size_t n, float *scratch)
{
    (void)x;
    (void)n;
    (void)scratch;
}

#endif
