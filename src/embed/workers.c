/* SPDX-License-Identifier: MIT */
#include "embed/workers.h"

#include "base/mem.h"
#include "base/spin.h"

int kmf_workers_init(kmf_workers *workers, const kmf_method *method, int threads, kmf_err *err)
{
    workers->method = method;
    workers->threads = threads;
    workers->busy = kmf_calloc((size_t)threads, sizeof *workers->busy, err);
    return workers->busy ? 0 : KMF_ENOMEM;
}

void kmf_workers_free(kmf_workers *workers)
{
    kmf_free(workers->busy);
}

void kmf_workers_expect(kmf_workers *workers)
{
    atomic_fetch_add(&workers->n_undone, 1);
    atomic_fetch_add(&workers->n_unstarted, 1);
}

void kmf_workers_call_off(kmf_workers *workers)
{
    atomic_fetch_sub(&workers->n_unstarted, 1);
    atomic_fetch_sub(&workers->n_undone, 1);
}

/*
 * A worker, or -1: each was in use when it was looked at. Those who joined are as many as batches
 * were missing, so there is one for each job.
 */
static int idle_worker(kmf_workers *workers, int preferred)
{
    for (int i = 0; i < workers->threads; i++) {
        int worker = (preferred + i) % workers->threads;
        if (!atomic_exchange(&workers->busy[worker], true))
            return worker;
    }
    return -1;
}

/* Does parts of other threads' batches until all are done. */
static void help(kmf_workers *workers, int worker)
{
    for (int tries = 0; atomic_load(&workers->n_undone) > 0; kmf_spin(&tries))
        workers->method->kind->help(workers->method, worker);
}

int kmf_workers_enter(kmf_workers *workers, int preferred)
{
    int worker;
    int tries = 0;
    while ((worker = idle_worker(workers, preferred)) < 0)
        kmf_spin(&tries); /* one has moved meanwhile */
    atomic_fetch_sub(&workers->n_unstarted, 1);
    return worker;
}

void kmf_workers_leave(kmf_workers *workers, int worker)
{
    atomic_fetch_sub(&workers->n_undone, 1);
    if (atomic_load(&workers->finishing) && atomic_load(&workers->n_unstarted) == 0)
        help(workers, worker);
    atomic_store(&workers->busy[worker], false);
}

int kmf_workers_missing(kmf_workers *workers)
{
    if (!workers->method->shared)
        return 0;
    atomic_store(&workers->finishing,
                 true); /* first: who is done after the count helps by itself */
    int n_busy = (int)atomic_load(&workers->n_undone);
    return n_busy > 0 && n_busy < workers->threads ? workers->threads - n_busy : 0;
}

void kmf_workers_join(kmf_workers *workers, int preferred)
{
    int worker = idle_worker(workers, preferred);
    if (worker < 0)
        return;
    help(workers, worker);
    atomic_store(&workers->busy[worker], false);
}

void kmf_workers_reset(kmf_workers *workers)
{
    atomic_store(&workers->finishing, false);
}
