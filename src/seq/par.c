/* SPDX-License-Identifier: MIT */
/*
 * htslib's hts_tpool, which decompresses its own files on the same threads.
 *
 *   pool      the threads
 *   queue     an hts_tpool_process: jobs in, results out in the order of the jobs
 *
 * Two habits of hts_tpool (1.16) shape what is written here:
 *
 *   1. A worker starts on a queue only while its size exceeds the results that wait in it by
 *      more than the number of threads that are awake. A queue of size 1 would therefore never
 *      run on a pool of 1 thread. The size given is max_jobs + threads + 1, which always leaves
 *      room; the caller's own bound of max_jobs keeps the queue from growing to that.
 *   2. A worker stays with a queue as long as it has jobs. A job of another may wait until
 *      a worker runs dry, so whoever needs its result soon should be ready to do the work
 *      (bytes.c does).
 *
 * A job must never wait for one that may not have begun: with all threads waiting nothing would
 * move.
 *
 * htslib does not publish the number of a worker. Each worker draws one from the pool's counter
 * when it first asks; threads belong to one pool for life, so a thread-local copy is enough.
 */
#include "seq/par.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/err.h"
#include "base/gzip.h"
#include "base/mem.h"

#include <htslib/hts.h>
#include <htslib/thread_pool.h>

struct kmf_pool {
    hts_tpool *threads; /* owned */
    int n;
    atomic_int n_numbered;
    atomic_int n_owners;
};

struct kmf_queue {
    hts_tpool *threads;         /* borrowed from the pool */
    hts_tpool_process *process; /* owned */
};

kmf_pool *kmf_pool_new(int threads, kmf_err *err)
{
    if (threads < 1 || threads > KMF_THREADS_MAX) {
        kmf_fail(err, KMF_EINVAL, "threads: must be between 1 and %d, got %d", KMF_THREADS_MAX,
                 threads);
        return NULL;
    }
    kmf_pool *pool = kmf_calloc(1, sizeof *pool, err);
    if (!pool)
        return NULL;
    pool->n = threads;
    atomic_init(&pool->n_numbered, 0);
    atomic_init(&pool->n_owners, 1);
    kmf_silence_htslib();
    pool->threads = hts_tpool_init(threads);
    if (!pool->threads) {
        kmf_fail(err, KMF_ENOMEM, "%d threads cannot be started", threads);
        kmf_free(pool);
        return NULL;
    }
    return pool;
}

int kmf_helpers_new(kmf_pool **pool, int threads, kmf_err *err)
{
    *pool = NULL;
    if (threads == 0)
        threads = kmf_threads_default();
    if (threads == 1)
        return 0;
    bool possible = threads > 1 && threads <= KMF_THREADS_MAX;
    *pool = kmf_pool_new(possible ? threads - 1 : threads, err);
    return *pool ? 0 : possible ? KMF_ENOMEM : KMF_EINVAL;
}

kmf_pool *kmf_pool_keep(kmf_pool *pool)
{
    atomic_fetch_add(&pool->n_owners, 1);
    return pool;
}

void kmf_pool_free(kmf_pool *pool)
{
    if (!pool || atomic_fetch_sub(&pool->n_owners, 1) > 1)
        return;
    hts_tpool_destroy(pool->threads);
    kmf_free(pool);
}

int kmf_pool_worker(const kmf_pool *pool)
{
    static _Thread_local int number = -1;
    if (number < 0) {
        /* The counter is the one thing that changes in a pool, so the const is taken off. */
        kmf_pool *mine = (kmf_pool *)(uintptr_t)pool;
        number = atomic_fetch_add(&mine->n_numbered, 1);
    }
    assert(number < pool->n);
    return number;
}

void *kmf_pool_handle(const kmf_pool *pool)
{
    return pool->threads;
}

kmf_queue *kmf_queue_new(kmf_pool *pool, int max_jobs, kmf_err *err)
{
    assert(max_jobs > 0 && max_jobs < (1 << 30));
    kmf_queue *queue = kmf_calloc(1, sizeof *queue, err);
    if (!queue)
        return NULL;
    queue->threads = pool->threads;
    queue->process = hts_tpool_process_init(pool->threads, max_jobs + pool->n + 1, 0);
    if (!queue->process) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a work queue");
        kmf_free(queue);
        return NULL;
    }
    return queue;
}

void kmf_queue_free(kmf_queue *queue)
{
    if (!queue)
        return;
    hts_tpool_process_destroy(queue->process);
    kmf_free(queue);
}

int kmf_queue_send(kmf_queue *queue, kmf_job_fn *fn, void *arg, kmf_err *err)
{
    if (hts_tpool_dispatch(queue->threads, queue->process, fn, arg) < 0)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: a job cannot be queued");
    return 0;
}

static void *take_value(hts_tpool_result *result)
{
    void *value = hts_tpool_result_data(result);
    hts_tpool_delete_result(result, 0);
    return value;
}

void *kmf_queue_wait(kmf_queue *queue)
{
    hts_tpool_result *result = hts_tpool_next_result_wait(queue->process);
    assert(result);
    return take_value(result);
}

void *kmf_queue_poll(kmf_queue *queue)
{
    hts_tpool_result *result = hts_tpool_next_result(queue->process);
    return result ? take_value(result) : NULL;
}

int kmf_pool_threads(const kmf_pool *pool)
{
    return pool ? pool->n : 0;
}

/* Items are handed out one by one: whoever is free takes the next. */
typedef struct round {
    kmf_pool *pool; /* borrowed, as all below */
    kmf_item_fn *fn;
    void *arg;
    size_t n;
    atomic_size_t next;
    pthread_mutex_t lock; /* of what follows */
    size_t failed_at;     /* the first item that failed; n: none */
    kmf_err err;          /* its failure */
} round;

static void work_off(round *r, int worker)
{
    size_t i;
    while ((i = atomic_fetch_add(&r->next, 1)) < r->n) {
        kmf_err err = {0};
        if (r->fn(r->arg, i, worker, &err) == 0)
            continue;
        atomic_store(&r->next, r->n);
        pthread_mutex_lock(&r->lock);
        if (i < r->failed_at) {
            r->failed_at = i;
            r->err = err;
        }
        pthread_mutex_unlock(&r->lock);
    }
}

static void *work_job(void *arg)
{
    round *r = arg;
    work_off(r, kmf_pool_worker(r->pool));
    return NULL;
}

int kmf_pool_each(kmf_pool *pool, size_t n, kmf_item_fn *fn, void *arg, kmf_err *err)
{
    round r = {.pool = pool, .fn = fn, .arg = arg, .n = n, .failed_at = n};
    atomic_init(&r.next, 0);
    int n_sent = 0;
    kmf_queue *queue = NULL;
    if (pool && n > 1) {
        queue = kmf_queue_new(pool, pool->n, err);
        if (!queue)
            return KMF_ENOMEM;
    }
    pthread_mutex_init(&r.lock, NULL);
    if (queue) {
        /* Where no job can be sent the caller's thread does the work. */
        while (n_sent < pool->n && kmf_queue_send(queue, work_job, &r, NULL) == 0)
            n_sent++;
    }
    work_off(&r, kmf_pool_threads(pool));
    while (n_sent-- > 0)
        kmf_queue_wait(queue);
    kmf_queue_free(queue);
    pthread_mutex_destroy(&r.lock);
    return r.failed_at < n ? kmf_fail(err, r.err.code, "%s", r.err.msg) : 0;
}

typedef struct part {
    kmf_part_fn *fn;
    void *arg;
    int worker;
    pthread_t thread;
    atomic_int *order; /* borrowed */
} part;

enum { WAIT, GO, CALLED_OFF };

static void *part_main(void *arg)
{
    part *p = arg;
    int order;
    while ((order = atomic_load(p->order)) == WAIT)
        sched_yield();
    if (order == GO)
        p->fn(p->arg, p->worker);
    return NULL;
}

/* Not on a pool: htslib's starts a waiting job only when it sees fit, which may be never. */
int kmf_together(int threads, kmf_part_fn *fn, void *arg, kmf_err *err)
{
    assert(threads > 0);
    part *parts = kmf_calloc((size_t)threads, sizeof *parts, err);
    if (!parts)
        return KMF_ENOMEM;
    atomic_int order;
    int n = 0;
    int status = 0;
    atomic_init(&order, WAIT);
    while (n < threads - 1 && status == 0) {
        parts[n] = (part){.fn = fn, .arg = arg, .worker = n, .order = &order};
        if (pthread_create(&parts[n].thread, NULL, part_main, &parts[n]) == 0)
            n++;
        else
            status = kmf_fail(err, KMF_ENOMEM, "no more than %d threads can be had, of %d",
                              n + 1, threads);
    }
    atomic_store(&order, status == 0 ? GO : CALLED_OFF);
    if (status == 0)
        fn(arg, threads - 1);
    while (n-- > 0)
        pthread_join(parts[n].thread, NULL);
    kmf_free(parts);
    return status;
}

const char *kmf_htslib_version(void)
{
    return hts_version();
}
