/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h, used by all others: version, errors, threads. */
#ifndef KMERFORMER_BASE_H
#define KMERFORMER_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KMF_MUST_CHECK __attribute__((warn_unused_result))
#define KMF_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define KMF_API __attribute__((visibility("default")))
#else
#define KMF_MUST_CHECK
#define KMF_PRINTF(f, a)
#define KMF_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- version ---------------- */

#define KMF_VERSION "0.1.0"

/* The version of the library in use, as "0.1.0". Static storage. */
KMF_API const char *kmf_version(void);

/*
 * A few lines "name<TAB>value": compiler, libraries and their versions, the matrix-product
 * engine and processor level chosen at run time. Written to text, cut at cap - 1 bytes.
 */
KMF_API void kmf_build_info(char *text, size_t cap);

/* ---------------------------------------------------------------- errors ----------------- */

typedef enum kmf_code {
    KMF_OK = 0,
    KMF_EINVAL = -1,   /* an option or argument is out of range: mend the call             */
    KMF_EIO = -2,      /* reading or writing failed: file, disk, pipe                      */
    KMF_EFORMAT = -3,  /* an input file is not what it should be: mend or replace the file */
    KMF_ENOMEM = -4,   /* out of memory, or over a stated limit                            */
    KMF_EMODEL = -5,   /* a model, vocabulary or result file does not fit                  */
    KMF_ENUMERIC = -6, /* a result that must be finite is not                              */
    KMF_ESTOPPED = -7  /* the caller has asked for the end, as by kmf_embedder_stop        */
} kmf_code;

/*
 * {0} means no error. msg is one sentence without a newline. The first cause stays: zero it
 * before it is used again.
 */
typedef struct kmf_err {
    kmf_code code;
    char msg[1020];
} kmf_err;

/*
 * In place, '?' for each byte that a terminal obeys: control characters of ASCII, and those from
 * U+0080 to U+009F in UTF-8. Messages are such texts; names in rows and records are not.
 */
KMF_API void kmf_show_plainly(char *text);

/* Frees a text of a function that names this one for it. NULL is allowed. */
KMF_API void kmf_text_free(char *text);

/* An output: output.h. */
typedef struct kmf_out kmf_out;

/* Told how far a long job is; the function that takes it says in what unit. */
typedef void kmf_progress_fn(void *user, uint64_t done);
/* The same in fractions, 0 to 1. */
typedef void kmf_fraction_fn(void *user, double done);

/* ---------------------------------------------------------------- threads ---------------- */

/* Worker threads, shared by decompression and computation. */
typedef struct kmf_pool kmf_pool;

#define KMF_THREADS_MAX 1024
/* threads: 1 to KMF_THREADS_MAX. */
KMF_API kmf_pool *kmf_pool_new(int threads, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_pool_free(kmf_pool *pool);
/*
 * A pool for functions that compute on it together with the caller's thread: *pool has threads - 1
 * workers, and is NULL with one thread. threads: 1 to KMF_THREADS_MAX; 0: kmf_threads_default().
 * Returns 0, KMF_EINVAL or KMF_ENOMEM.
 */
KMF_API int kmf_helpers_new(kmf_pool **pool, int threads, kmf_err *err) KMF_MUST_CHECK;

/*
 * The number of cores this process may use: the affinity mask, cut by the cgroup's CPU quota
 * and by SLURM_CPUS_PER_TASK. At least 1.
 */
KMF_API int kmf_threads_default(void);

/*
 * For the beginning of a program: OpenBLAS starts threads when it is loaded and lets them wait
 * in a loop, which takes the cores from others for a tenth of a second. Products here run on
 * our own threads. This stops them; a call of BLAS that wants them starts them again.
 */
KMF_API void kmf_stop_blas_threads(void);

#ifdef __cplusplus
}
#endif

#endif
