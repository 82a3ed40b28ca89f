/* SPDX-License-Identifier: MIT */
/*
 * Second sources: results computed beside the queue; control-group files written by the test;
 * the affinity mask set by the test.
 */
#define _GNU_SOURCE /* sched_setaffinity */

#include "base/barrier.h"
#include "base/err.h"
#include "base/groups.h"
#include "base/mem.h"
#include "base/rounds.h"
#include "base/spin.h"
#include "checked.h"
#include "seq/cores.h"
#include "seq/digest.h"
#include "seq/par.h"
#include "files.h"
#include "run.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define N_JOBS 200

typedef struct job {
    const kmf_pool *pool;
    int number;
    int square;
    int worker;
    pthread_t thread;
} job;

static void *square(void *arg)
{
    job *j = arg;
    struct timespec pause = {0, (j->number * 7919) % 500 * 1000};
    nanosleep(&pause, NULL);
    j->square = j->number * j->number;
    j->worker = kmf_pool_worker(j->pool);
    j->thread = pthread_self();
    return j;
}

static void run_jobs(int threads, int max_jobs)
{
    static job jobs[N_JOBS];
    kmf_err err = {0};
    kmf_pool *pool = kmf_pool_new(threads, &err);
    ck_assert_ptr_nonnull(pool);
    kmf_queue *queue = kmf_queue_new(pool, max_jobs, &err);
    ck_assert_ptr_nonnull(queue);
    int sent = 0;
    for (int fetched = 0; fetched < N_JOBS; fetched++) {
        while (sent < N_JOBS && sent - fetched < max_jobs) {
            jobs[sent] = (job){.pool = pool, .number = sent};
            ck_assert_int_eq(kmf_queue_send(queue, square, &jobs[sent], &err), 0);
            sent++;
        }
        job *done = fetched % 2 ? kmf_queue_poll(queue) : NULL;
        if (!done)
            done = kmf_queue_wait(queue);
        ck_assert_ptr_eq(done, &jobs[fetched]);
        ck_assert_int_eq(done->square, fetched * fetched);
    }
    for (int i = 0; i < N_JOBS; i++) {
        ck_assert_int_ge(jobs[i].worker, 0);
        ck_assert_int_lt(jobs[i].worker, threads);
        for (int k = 0; k < i; k++)
            ck_assert_int_eq(jobs[i].worker == jobs[k].worker,
                             pthread_equal(jobs[i].thread, jobs[k].thread) != 0);
    }
    kmf_queue_free(queue);
    kmf_pool_free(pool);
}

START_TEST(results_come_in_the_order_of_the_jobs_and_workers_are_numbered)
{
    static const int threads[] = {1, 2, 5};
    static const int max_jobs[] = {1, 2, 16};
    for (int t = 0; t < 3; t++)
        for (int m = 0; m < 3; m++)
            run_jobs(threads[t], max_jobs[m]);
}
END_TEST

static void *count(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

START_TEST(as_many_jobs_as_promised_can_be_sent_before_one_is_fetched)
{
    kmf_err err = {0};
    atomic_int n = 0;
    kmf_pool *pool = kmf_pool_new(1, &err);
    kmf_queue *queue = kmf_queue_new(pool, 50, &err);
    ck_assert_ptr_nonnull(queue);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(kmf_queue_send(queue, count, &n, &err), 0);
    for (int i = 0; i < 50; i++)
        ck_assert_ptr_null(kmf_queue_wait(queue));
    ck_assert_int_eq(atomic_load(&n), 50);
    kmf_queue_free(queue);
    kmf_pool_free(pool);
}
END_TEST

START_TEST(a_queue_can_be_freed_with_jobs_in_it)
{
    kmf_err err = {0};
    static job jobs[20];
    for (int round = 0; round < 20; round++) {
        kmf_pool *pool = kmf_pool_new(2, &err);
        kmf_queue *queue = kmf_queue_new(pool, 20, &err);
        ck_assert_ptr_nonnull(queue);
        for (int i = 0; i < 20; i++) {
            jobs[i] = (job){.pool = pool, .number = i};
            ck_assert_int_eq(kmf_queue_send(queue, square, &jobs[i], &err), 0);
        }
        for (int i = 0; i < round; i++)
            ck_assert_ptr_nonnull(kmf_queue_wait(queue));
        while (round == 19 && !kmf_queue_poll(queue)) /* the last one */
            continue;
        ck_assert(round < 19 || !kmf_queue_poll(queue));
        kmf_queue_free(queue);
        kmf_pool_free(pool);
    }
    kmf_queue_free(NULL);
    kmf_pool_free(NULL);
}
END_TEST

START_TEST(a_pool_has_1_to_1024_threads)
{
    static const int wrong[] = {0, -1, 1025};
    for (int i = 0; i < 3; i++) {
        kmf_err err = {0};
        char message[80];
        ck_assert_ptr_null(kmf_pool_new(wrong[i], &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        snprintf(message, sizeof message, "threads: must be between 1 and 1024, got %d",
                 wrong[i]);
        ck_assert_str_eq(err.msg, message);
    }
}
END_TEST

START_TEST(pool_and_queue_report_that_memory_is_short)
{
    kmf_err err = {0};
    kmf_mem_fail_at(1);
    ck_assert_ptr_null(kmf_pool_new(1, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    err = (kmf_err){0};
    kmf_mem_fail_at(2);
    kmf_pool *pool = kmf_pool_new(1, &err);
    ck_assert_ptr_nonnull(pool);
    ck_assert_ptr_null(kmf_queue_new(pool, 1, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    kmf_mem_fail_at(0);
    kmf_pool_free(pool);
}
END_TEST

/* A folder with groups a, a/b, and one of version 1's controller. */
static void make_groups(const char *controller)
{
    char inner[64];
    make_dir();
    snprintf(inner, sizeof inner, "%s/job", controller);
    const char *const names[] = {"a", "a/b", controller, inner};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(mkdir(in_dir(names[i]), 0700), 0);
}

static int quota(const char *membership)
{
    return kmf_cores_quota(write_text("membership", membership), dir);
}

START_TEST(the_tightest_quota_on_the_way_to_the_root_counts)
{
    make_groups("cpu");

    ck_assert_int_eq(quota("0::/a/b\n"), 0);
    write_text("a/b/cpu.max", "max 100000\n");
    ck_assert_int_eq(quota("0::/a/b\n"), 0);
    write_text("a/b/cpu.max", "400000 100000\n");
    ck_assert_int_eq(quota("0::/a/b\n"), 4);
    ck_assert_int_eq(quota("0::/a\n"), 0);
    write_text("a/cpu.max", "150000 100000\n");
    ck_assert_int_eq(quota("0::/a/b\n"), 2);
    write_text("cpu.max", "30000 100000\n");
    ck_assert_int_eq(quota("0::/a/b\n"), 1);
    ck_assert_int_eq(quota("0::/of/another/host\n"), 1);
    write_text("cpu.max", "rubbish\n");
    ck_assert_int_eq(quota("0::/a/b\n"), 2);

    write_text("cpu/job/cpu.cfs_quota_us", "-1\n");
    write_text("cpu/job/cpu.cfs_period_us", "100000\n");
    ck_assert_int_eq(quota("5:memory:/job\n4:cpu,cpuacct:/job\n"), 0);
    write_text("cpu/job/cpu.cfs_quota_us", "300000\n");
    ck_assert_int_eq(quota("5:memory:/job\n4:cpu,cpuacct:/job\n"), 3);
    ck_assert_int_eq(quota("5:memory:/job\n4:cpuset,cpuacct:/job\n"), 0);
    ck_assert_int_eq(quota("4:cpu:/job\n0::/a/b\n"), 2);
    ck_assert_int_eq(quota("no colon at all\n"), 0);
    ck_assert_int_eq(kmf_cores_quota("/nonexistent", dir), 0);
    remove_dir();
}
END_TEST

static double memory(const char *membership)
{
    return kmf_group_memory(write_text("membership", membership), dir);
}

START_TEST(the_least_memory_on_the_way_to_the_root_counts)
{
    make_groups("memory");

    ck_assert(memory("0::/a/b\n") == 0);
    write_text("a/b/memory.max", "max\n");
    ck_assert(memory("0::/a/b\n") == 0);
    write_text("a/memory.max", "8589934592\n");
    ck_assert(memory("0::/a/b\n") == 8589934592);
    write_text("a/b/memory.max", "1073741824\n");
    ck_assert(memory("0::/a/b\n") == 1073741824);
    ck_assert(memory("0::/a\n") == 8589934592);
    ck_assert(memory("0::/of/another/host\n") == 0);

    write_text("memory/job/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    ck_assert(memory("5:memory:/job\n4:cpu,cpuacct:/job\n") == 0);
    write_text("memory/job/memory.limit_in_bytes", "536870912\n");
    ck_assert(memory("5:memory:/job\n4:cpu,cpuacct:/job\n") == 536870912);
    ck_assert(memory("5:cpu:/job\n0::/a/b\n") == 1073741824);

    long pages = sysconf(_SC_PHYS_PAGES);
    ck_assert_uint_gt(kmf_memory_here(), 0);
    ck_assert_uint_le(kmf_memory_here(), (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE));
    remove_dir();
}
END_TEST

START_TEST(threads_default_to_the_affinity_mask_and_slurm)
{
    cpu_set_t all;
    cpu_set_t one;
    unsetenv("SLURM_CPUS_PER_TASK");
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    int n = kmf_threads_default();
    ck_assert_int_ge(n, 1);
    ck_assert_int_le(n, CPU_COUNT(&all));
    setenv("SLURM_CPUS_PER_TASK", "1", 1);
    ck_assert_int_eq(kmf_threads_default(), 1);
    setenv("SLURM_CPUS_PER_TASK", "5000", 1);
    ck_assert_int_eq(kmf_threads_default(), n);
    setenv("SLURM_CPUS_PER_TASK", "none", 1);
    ck_assert_int_eq(kmf_threads_default(), n);
    unsetenv("SLURM_CPUS_PER_TASK");
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && CPU_COUNT(&one) == 0)
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    ck_assert_int_eq(kmf_threads_default(), 1);
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
}
END_TEST

START_TEST(the_digest_is_that_of_rfc_1321)
{
    char hex[KMF_MD5_TEXT];
    const kmf_map parts[] = {{.bytes = (const unsigned char *)"message", .len = 7},
                             {.bytes = (const unsigned char *)" digest", .len = 7}};
    const kmf_map *const files[] = {&parts[0], &parts[1]};
    ck_assert_int_eq(kmf_md5_files(hex, files, 0, true, NULL, NULL), 0);
    ck_assert_str_eq(hex, "d41d8cd98f00b204e9800998ecf8427e");
    ck_assert_int_eq(kmf_md5_files(hex, files, 2, true, NULL, NULL), 0);
    ck_assert_str_eq(hex, "f96b697d7cb7938d525a2f31aaf161d0");
    atomic_bool stop;
    atomic_init(&stop, false); /* nobody asks for that */
    ck_assert_int_eq(kmf_md5_files(hex, files, 2, true, &stop, NULL), 0);
    ck_assert_str_eq(hex, "f96b697d7cb7938d525a2f31aaf161d0");
}
END_TEST

/* A file is taken in pieces of 16 MB: however it is cut, all its bytes count, and once. */
START_TEST(a_large_digest_is_that_of_its_parts)
{
    enum { PARTS = 5, PART = 7 << 20, ALL = PARTS * PART };
    char hex[KMF_MD5_TEXT], of_parts[KMF_MD5_TEXT];
    unsigned char *bytes = malloc(ALL);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < ALL; i++)
        bytes[i] = (unsigned char)(i * i >> 8);
    kmf_map whole = {.bytes = bytes, .len = ALL}, parts[PARTS];
    const kmf_map *const one[] = {&whole}, *files[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        parts[i] = (kmf_map){.bytes = bytes + i * PART, .len = PART};
        files[i] = &parts[i];
    }
    ck_assert_int_eq(kmf_md5_files(hex, one, 1, true, NULL, NULL), 0);
    ck_assert_int_eq(kmf_md5_files(of_parts, files, PARTS, true, NULL, NULL), 0);
    ck_assert_str_eq(hex, of_parts);
    free(bytes);
}
END_TEST

typedef struct items {
    atomic_int done[N_JOBS];
    atomic_int workers[16];
    size_t fails_at; /* and all later ones */
    bool waits;      /* that one for a later one */
    atomic_int later;
} items;

static int note_item(void *arg, size_t i, int worker, kmf_err *err)
{
    items *all = arg;
    atomic_fetch_add(&all->done[i], 1);
    atomic_fetch_add(&all->workers[worker], 1);
    if (i < all->fails_at)
        return 0;
    while (i == all->fails_at && all->waits && !atomic_load(&all->later))
        sched_yield();
    atomic_store(&all->later, i > all->fails_at);
    return kmf_fail(err, KMF_EIO, "item %zu", i);
}

START_TEST(each_item_is_worked_off_once_by_the_pool_and_the_caller)
{
    for (int threads = 0; threads <= 4; threads++) {
        static items all;
        kmf_err err = {0};
        kmf_pool *pool = threads ? kmf_pool_new(threads, &err) : NULL;
        memset(&all, 0, sizeof all);
        all.fails_at = N_JOBS;
        ck_assert_int_eq(kmf_pool_threads(pool), threads);
        ck_assert_int_eq(kmf_pool_each(pool, N_JOBS, note_item, &all, &err), 0);
        int sum = 0;
        for (int i = 0; i < N_JOBS; i++)
            ck_assert_int_eq(all.done[i], 1);
        for (int w = 0; w <= threads; w++)
            sum += all.workers[w];
        ck_assert_int_eq(sum, N_JOBS);
        ck_assert_int_eq(kmf_pool_each(pool, 0, note_item, &all, &err), 0);
        kmf_pool_free(pool);
    }
}
END_TEST

/* The first one, also if a later one fails before it. */
START_TEST(a_failed_item_is_reported_and_ends_the_work)
{
    static const struct {
        size_t item;
        const char *message;
    } failing[] = {{0, "item 0"}, {10, "item 10"}};
    for (int i = 0; i < 4; i++) {
        static items all;
        kmf_err err = {0};
        size_t item = failing[i % 2].item;
        int threads = i < 2 ? 0 : 2;
        kmf_pool *pool = threads ? kmf_pool_new(threads, &err) : NULL;
        memset(&all, 0, sizeof all);
        all.fails_at = item;
        all.waits = threads > 0;
        ck_assert_int_eq(kmf_pool_each(pool, N_JOBS, note_item, &all, &err), KMF_EIO);
        ck_assert_str_eq(err.msg, failing[i % 2].message);
        if (!pool)
            ck_assert_int_eq(all.done[item + 1], 0);
        kmf_pool_free(pool);
    }
}
END_TEST

/* ---------------------------------------------------------------- together -------------- */

#define MOST_TOGETHER 9

/* Rounds in which every thread writes its number and then reads everybody's. */
typedef struct meeting {
    kmf_barrier barrier;
    int threads, rounds;
    int written[MOST_TOGETHER]; /* not atomic: the barrier alone makes it seen */
    int wrong[MOST_TOGETHER];
    int calls[MOST_TOGETHER];
    pthread_t thread[MOST_TOGETHER];
} meeting;

static void meet(void *arg, int thread)
{
    meeting *m = arg;
    m->calls[thread]++;
    m->thread[thread] = pthread_self();
    for (int round = 0; round < m->rounds; round++) {
        m->written[thread] = round * (thread + 1);
        kmf_barrier_wait(&m->barrier);
        for (int i = 0; i < m->threads; i++)
            m->wrong[thread] += m->written[i] != round * (i + 1);
        kmf_barrier_wait(&m->barrier);
    }
}

START_TEST(threads_that_run_together_meet_at_a_barrier)
{
    for (int threads = 1; threads <= MOST_TOGETHER; threads++) {
        static meeting m;
        kmf_err err = {0};
        m = (meeting){.threads = threads, .rounds = threads == 1 ? 100000 : 1000 / threads};
        kmf_barrier_init(&m.barrier, threads);
        ck_assert_int_eq(kmf_together(threads, meet, &m, &err), 0);
        for (int i = 0; i < threads; i++) {
            ck_assert_int_eq(m.calls[i], 1);
            ck_assert_int_eq(m.wrong[i], 0);
            ck_assert_int_eq(pthread_equal(m.thread[i], pthread_self()) != 0, i == threads - 1);
            for (int k = 0; k < i; k++)
                ck_assert_int_eq(pthread_equal(m.thread[i], m.thread[k]), 0);
        }
    }
}
END_TEST

START_TEST(a_barrier_can_be_used_by_one_meeting_after_another)
{
    static meeting m;
    m = (meeting){.threads = 3, .rounds = 2};
    kmf_barrier_init(&m.barrier, 3);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(kmf_together(3, meet, &m, NULL), 0);
    ck_assert_int_eq(m.calls[0] + m.calls[1] + m.calls[2], 150);
    ck_assert_int_eq(m.wrong[0] + m.wrong[1] + m.wrong[2], 0);
}
END_TEST

/*
 * Of more threads than cores, or where another program has one of them, whom they wait for is not
 * at work until they let it. A pause takes up to 45 ns.
 */
START_TEST(who_waits_gives_way_after_some_microseconds)
{
    int tries = 0;
    int last = -1;
    int pauses = -1;
    for (; tries != last; pauses++) {
        last = tries;
        kmf_spin(&tries);
    }
    ck_assert_int_gt(pauses, 0);
    ck_assert_int_le(pauses, 250);
}
END_TEST

/*
 * Works of a few rounds: thread 0 begins them and stays to the end of each; the others come and
 * look for an item until all works are done, so that they join in the midst of a work, or in none.
 */
enum { N_WORKS = CHECKED ? 100 : 1000, N_ROUNDS = 5, MOST_ITEMS = 40 };

typedef struct shared_work {
    kmf_rounds rounds;
    atomic_int n_done; /* works */
    atomic_uint wrong;
    unsigned times[N_ROUNDS][MOST_ITEMS]; /* not atomic: the rounds alone make it seen */
} shared_work;

/* 1 to 40, and differently many in each round. */
static uint32_t items_of(uint32_t round)
{
    static const uint32_t counts[N_ROUNDS] = {MOST_ITEMS, 3, 1, 17, 2};
    return counts[round];
}

static void take_part(shared_work *w)
{
    uint32_t round;
    uint32_t item;
    while (kmf_rounds_take(&w->rounds, &round, &item)) {
        unsigned work = ++w->times[round][item];
        for (uint32_t r = 0; r < round; r++)
            for (uint32_t i = 0; i < items_of(r); i++)
                atomic_fetch_add(&w->wrong, w->times[r][i] != work);
        if (!kmf_rounds_done(&w->rounds))
            continue;
        if (round + 1 < N_ROUNDS)
            kmf_rounds_open(&w->rounds, round + 1, items_of(round + 1));
        else
            kmf_rounds_close(&w->rounds);
    }
}

static void come_and_go(void *arg, int thread)
{
    shared_work *w = arg;
    if (thread > 0) {
        while (atomic_load(&w->n_done) < N_WORKS)
            take_part(w);
        return;
    }
    while (atomic_load(&w->n_done) < N_WORKS) {
        kmf_rounds_open(&w->rounds, 0, items_of(0));
        take_part(w);
        for (uint32_t r = 0; r < N_ROUNDS; r++)
            for (uint32_t i = 0; i < items_of(r); i++)
                atomic_fetch_add(&w->wrong,
                                 w->times[r][i] != (unsigned)atomic_load(&w->n_done) + 1);
        atomic_fetch_add(&w->n_done, 1);
    }
}

START_TEST(each_item_of_a_round_is_done_once_and_before_the_next_round)
{
    for (int threads = 1; threads <= MOST_TOGETHER; threads += 2) {
        static shared_work w;
        kmf_err err = {0};
        memset(w.times, 0, sizeof w.times);
        kmf_rounds_init(&w.rounds);
        atomic_store(&w.n_done, 0);
        atomic_store(&w.wrong, 0);
        ck_assert_int_eq(kmf_together(threads, come_and_go, &w, &err), 0);
        ck_assert_uint_eq(atomic_load(&w.wrong), 0);
        ck_assert_int_eq(atomic_load(&w.n_done), N_WORKS);
    }
}
END_TEST

START_TEST(work_that_is_closed_gives_nothing_and_drops_what_nobody_took)
{
    kmf_rounds rounds;
    uint32_t round;
    uint32_t item;
    kmf_rounds_init(&rounds);
    ck_assert(!kmf_rounds_take(&rounds, &round, &item));
    kmf_rounds_open(&rounds, 7, 3);
    ck_assert(kmf_rounds_take(&rounds, &round, &item));
    ck_assert_uint_eq(round, 7);
    ck_assert_uint_eq(item, 0);
    ck_assert(!kmf_rounds_done(&rounds));
    kmf_rounds_close(&rounds);
    ck_assert(!kmf_rounds_take(&rounds, &round, &item));
    kmf_rounds_open(&rounds, 0, 1);
    ck_assert(kmf_rounds_take(&rounds, &round, &item));
    ck_assert_uint_eq(round, 0);
    ck_assert_uint_eq(item, 0);
    ck_assert(kmf_rounds_done(&rounds));
}
END_TEST

static void note_call(void *arg, int thread)
{
    (void)thread;
    atomic_fetch_add((atomic_int *)arg, 1);
}

START_TEST(threads_that_cannot_be_had_are_reported_and_none_is_begun)
{
    kmf_err err = {0};
    atomic_int calls = 0;
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_together(2, note_call, &calls, &err), KMF_ENOMEM);
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    kmf_mem_fail_at(0);
    ck_assert_int_eq(atomic_load(&calls), 0);
#if !CHECKED /* a sanitizer needs the address space for itself */
    struct rlimit narrow = {(rlim_t)200 << 20, (rlim_t)200 << 20};
    err = (kmf_err){0};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &narrow), 0);
    ck_assert_int_eq(kmf_together(1000, note_call, &calls, &err), KMF_ENOMEM);
    ck_assert_ptr_nonnull(strstr(err.msg, "threads can be had, of 1000"));
    ck_assert_int_eq(atomic_load(&calls), 0);
#endif
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, results_come_in_the_order_of_the_jobs_and_workers_are_numbered);
    tcase_add_test(tc, as_many_jobs_as_promised_can_be_sent_before_one_is_fetched);
    tcase_add_test(tc, a_queue_can_be_freed_with_jobs_in_it);
    tcase_add_test(tc, a_pool_has_1_to_1024_threads);
    tcase_add_test(tc, pool_and_queue_report_that_memory_is_short);
    tcase_add_test(tc, the_tightest_quota_on_the_way_to_the_root_counts);
    tcase_add_test(tc, the_least_memory_on_the_way_to_the_root_counts);
    tcase_add_test(tc, threads_default_to_the_affinity_mask_and_slurm);
    tcase_add_test(tc, the_digest_is_that_of_rfc_1321);
    tcase_add_test(tc, a_large_digest_is_that_of_its_parts);
    tcase_add_test(tc, each_item_is_worked_off_once_by_the_pool_and_the_caller);
    tcase_add_test(tc, a_failed_item_is_reported_and_ends_the_work);
    tcase_add_test(tc, threads_that_run_together_meet_at_a_barrier);
    tcase_add_test(tc, a_barrier_can_be_used_by_one_meeting_after_another);
    tcase_add_test(tc, who_waits_gives_way_after_some_microseconds);
    tcase_add_test(tc, each_item_of_a_round_is_done_once_and_before_the_next_round);
    tcase_add_test(tc, work_that_is_closed_gives_nothing_and_drops_what_nobody_took);
    tcase_add_test(tc, threads_that_cannot_be_had_are_reported_and_none_is_begun);
    return run_case("par", tc);
}
