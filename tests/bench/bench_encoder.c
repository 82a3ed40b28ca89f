/* SPDX-License-Identifier: MIT */
/*
 * How fast the encoder is, as a share of what OpenBLAS reaches on a large square product of one
 * thread, measured in turn with it. One encoder a thread, each with its own batch of 4096
 * tokens in sequences of 148; medians of RUNS.
 *
 *   bench_encoder [PRESET ...]     tiny small base
 *
 * Settings: KMERFORMER_GEMM=openblas|plain, KMERFORMER_CPU=avx2|baseline, OPENBLAS_CORETYPE
 * (set here, by starting again, where OpenBLAS would otherwise miss the processor).
 */
#include "kmerformer.h"
#include "nn/gemm.h"

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 5, TOKENS = 4096, T = 148, MAX_THREADS = 2, PEAK_N = 1024 };

typedef struct worker {
    kmf_encoder *encoder;
    size_t n_layers;
    size_t n_seq;
    int32_t ids[TOKENS];
    size_t off[TOKENS / T + 2];
    pthread_barrier_t *start;
} worker;

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
    qsort(v, RUNS, sizeof *v, by_size);
    return v[RUNS / 2];
}

/* GFLOP/s of one square product. */
static double peak(void)
{
    static float a[PEAK_N * PEAK_N], b[PEAK_N * PEAK_N], c[PEAK_N * PEAK_N];
    for (size_t i = 0; a[1] == 0.0f && i < PEAK_N * PEAK_N; i++) {
        a[i] = (float)(i % 101) * 0.01f + 0.1f;
        b[i] = (float)(i % 103) * 0.01f;
    }
    double begin = now();
    int n = 0;
    do {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, PEAK_N, PEAK_N, PEAK_N, 1.0f, a,
                    PEAK_N, b, PEAK_N, 0.0f, c, PEAK_N);
        n++;
    } while (now() - begin < 0.2);
    return 2e-9 * PEAK_N * PEAK_N * PEAK_N * n / (now() - begin);
}

static void *work(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    kmf_encoder_forward(w->encoder, w->ids, w->off, w->n_seq, w->n_layers);
    return NULL;
}

/* Seconds for one batch on each of n threads. */
static double run(worker *workers, unsigned n)
{
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, n + 1);
    for (unsigned i = 0; i < n; i++) {
        workers[i].start = &start;
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&start);
    double begin = now();
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    double seconds = now() - begin;
    pthread_barrier_destroy(&start);
    return seconds;
}

static int bench(const char *preset)
{
    static worker workers[MAX_THREADS];
    kmf_err err = {0};
    kmf_config config;
    kmf_model *model = NULL;
    if (kmf_config_preset(&config, preset, 6, &err) == 0)
        model = kmf_model_new(&config, 1, &err);
    for (int i = 0; model && i < MAX_THREADS; i++) {
        worker *w = &workers[i];
        w->encoder = kmf_encoder_new(model, TOKENS, T, &err);
        w->n_layers = config.n_layers;
        for (size_t t = 0; t < TOKENS; t++)
            w->ids[t] = (int32_t)((t * 2654435761u + (size_t)i) % config.vocab_size);
        for (w->n_seq = 0; w->off[w->n_seq] < TOKENS; w->n_seq++)
            w->off[w->n_seq + 1] =
                w->off[w->n_seq] + T < TOKENS ? w->off[w->n_seq] + T : TOKENS;
    }
    if (err.code != KMF_OK) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    double D = (double)config.hidden_size;
    double F = (double)config.intermediate_size;
    double flops = (double)config.n_layers * (2.0 * (4.0 * D * D + 2.0 * D * F) + 4.0 * T * D);
    run(workers, MAX_THREADS);
    for (unsigned n = 1; n <= MAX_THREADS; n++) {
        double seconds[RUNS], peaks[RUNS];
        for (int r = 0; r < RUNS; r++) {
            peaks[r] = peak();
            seconds[r] = run(workers, n);
        }
        double rate = n * TOKENS / median(seconds);
        double gflops = rate * flops * 1e-9;
        double sgemm = median(peaks);
        printf("%s,%s,%u,%d,%d,%.0f,%.1f,%s,%.1f,%.3f\n", kmf_gemm_name(), preset, n, T, TOKENS,
               rate, gflops, openblas_get_corename(), sgemm, gflops / (n * sgemm));
        fflush(stdout);
    }
    for (int i = 0; i < MAX_THREADS; i++)
        kmf_encoder_free(workers[i].encoder);
    kmf_model_free(model);
    return 0;
}

/*
 * An OpenBLAS older than the processor takes it for a Prescott and is no measure of the limit;
 * it reads the variable when it is loaded.
 */
static void restart_with_core_type(char **argv)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    const char *core = __builtin_cpu_supports("avx512f") ? "SkylakeX"
                       : __builtin_cpu_supports("avx2")  ? "Haswell"
                                                         : NULL;
    if (core && strcmp(openblas_get_corename(), "Prescott") == 0 &&
        setenv("OPENBLAS_CORETYPE", core, 0) == 0)
        execv("/proc/self/exe", argv);
#else
    (void)argv;
#endif
}

int main(int argc, char **argv)
{
    static const char *const all[] = {"tiny", "small", "base"};
    restart_with_core_type(argv);
    openblas_set_num_threads(1);
    printf("engine,preset,threads,tokens_per_sequence,tokens_per_batch,tokens_per_second,"
           "gflops,openblas_core,sgemm_1024_gflops_one_thread,share_of_sgemm\n");
    int status = 0;
    if (argc > 1)
        for (int i = 1; i < argc; i++)
            status |= bench(argv[i]);
    else
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            status |= bench(all[i]);
    return status;
}
