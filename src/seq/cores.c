/* SPDX-License-Identifier: MIT */
/*
 * How many threads to start when nobody says.
 *
 * The number of processors of the machine is wrong almost everywhere this program runs: a
 * batch system pins a job to some cores (the affinity mask), a container gives it a share of
 * time (the control group's quota), SLURM tells it by a variable and may do neither. The
 * smallest of the three is taken, since threads beyond it only wait for one another.
 *
 * A quota is, in version 2 of control groups (base/groups.h), a file cpu.max: "quota period", or
 * "max period" for no limit; in version 1 two, cpu.cfs_quota_us, -1 for no limit, and
 * cpu.cfs_period_us. One of 1.5 cores is 2 threads: the kernel shares out the time.
 */
#define _GNU_SOURCE /* sched_getaffinity, CPU_ALLOC */

#include "seq/cores.h"

#include "base/groups.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kmerformer.h"

#define MOST_PROCESSORS 65536

/* quota / period rounded up; 0 if that is no limit. */
static int whole_cores(double quota, double period)
{
    if (!(quota > 0) || !(period > 0) || quota / period >= KMF_THREADS_MAX)
        return 0;
    int cores = (int)(quota / period);
    return (double)cores * period < quota ? cores + 1 : cores;
}

static double quota_of(const char *folder, int version)
{
    char line[128];
    char period_line[128];
    double quota, period;
    if (version == 2)
        return kmf_group_line(line, sizeof line, folder, "cpu.max") &&
                       sscanf(line, "%lf %lf", &quota, &period) == 2
                   ? whole_cores(quota, period)
                   : 0;
    if (!kmf_group_line(line, sizeof line, folder, "cpu.cfs_quota_us") ||
        !kmf_group_line(period_line, sizeof period_line, folder, "cpu.cfs_period_us"))
        return 0;
    return whole_cores(strtod(line, NULL), strtod(period_line, NULL));
}

int kmf_cores_quota(const char *membership, const char *mount)
{
    return (int)kmf_group_least(membership, mount, "cpu", quota_of);
}

/* Processors of the affinity mask; the mask may be wider than the 1024 of a cpu_set_t. */
static int affinity(void)
{
    for (size_t n = 1024; n <= MOST_PROCESSORS; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set)
            return 1;
        size_t size = CPU_ALLOC_SIZE(n);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < MOST_PROCESSORS ? (int)online : 1;
}

static int slurm(void)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n <= MOST_PROCESSORS ? (int)n : 0;
}

int kmf_threads_default(void)
{
    int limits[] = {kmf_cores_quota(KMF_GROUP_MEMBERSHIP, KMF_GROUP_MOUNT), slurm(),
                    KMF_THREADS_MAX};
    int n = affinity();
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i] > 0 && limits[i] < n)
            n = limits[i];
    return n;
}
