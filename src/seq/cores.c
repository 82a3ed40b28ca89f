/* SPDX-License-Identifier: MIT */
/*
 * How many threads to start when nobody says.
 *
 * The number of processors of the machine is wrong almost everywhere this program runs: a
 * batch system pins a job to some cores (the affinity mask), a container gives it a share of
 * time (the control group's quota), SLURM tells it by a variable and may do neither. The
 * smallest of the three is taken, since threads beyond it only wait for one another.
 *
 *   version 2   a line "0::/a/b" of /proc/self/cgroup
 *               mount/a/b/cpu.max: "quota period", or "max period" for no limit
 *   version 1   a line "4:cpu,cpuacct:/a/b"
 *               mount/cpu/a/b/cpu.cfs_quota_us and cpu.cfs_period_us; -1 for no limit
 *
 * A quota may stand in any group on the way up to the root, so all are asked. Inside a
 * container the path of the host may not exist; the walk then ends at the mount itself, which
 * is the container's own group. A quota of 1.5 cores is 2 threads: the kernel shares out the
 * time.
 */
#define _GNU_SOURCE /* sched_getaffinity, CPU_ALLOC */

#include "seq/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kmerformer.h"

#define PATH_CAP 4096
#define MOST_PROCESSORS 65536

/* Reads one line; false if there is no such file. */
static bool read_line(const char *path, char *line, size_t cap)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    bool ok = fgets(line, (int)cap, file) != NULL;
    fclose(file);
    return ok;
}

/* quota / period rounded up; 0 if that is no limit. */
static int whole_cores(double quota, double period)
{
    if (!(quota > 0) || !(period > 0) || quota / period >= KMF_THREADS_MAX)
        return 0;
    int cores = (int)(quota / period);
    return (double)cores * period < quota ? cores + 1 : cores;
}

static int quota_v2(const char *group)
{
    char path[PATH_CAP];
    char line[128];
    double quota;
    double period;
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.max", group) >= sizeof path)
        return 0;
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf %lf", &quota, &period) != 2)
        return 0;
    return whole_cores(quota, period);
}

static int quota_v1(const char *group)
{
    char path[PATH_CAP];
    char line[128];
    double quota;
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", group) >= sizeof path)
        return 0;
    if (!read_line(path, line, sizeof line))
        return 0;
    quota = strtod(line, NULL);
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", group) >= sizeof path)
        return 0;
    if (!read_line(path, line, sizeof line))
        return 0;
    return whole_cores(quota, strtod(line, NULL));
}

static int tighter(int a, int b)
{
    if (a == 0 || b == 0)
        return a > b ? a : b;
    return a < b ? a : b;
}

/* From root/path up to root itself. */
static int tightest(const char *root, const char *path, int (*quota)(const char *group))
{
    char group[PATH_CAP];
    int least = 0;
    size_t n_root = strlen(root);
    if ((size_t)snprintf(group, sizeof group, "%s%s", root, path) >= sizeof group)
        return quota(root);
    for (;;) {
        least = tighter(least, quota(group));
        char *slash = strrchr(group, '/');
        if (!slash || (size_t)(slash - group) < n_root)
            return least;
        *slash = '\0';
    }
}

/* Is `cpu` one of the comma-separated controllers? */
static bool has_cpu(const char *controllers)
{
    for (const char *c = controllers; *c;) {
        size_t n = strcspn(c, ",");
        if (n == 3 && memcmp(c, "cpu", 3) == 0)
            return true;
        c += n + (c[n] == ',');
    }
    return false;
}

int kmf_cores_quota(const char *membership, const char *mount)
{
    char line[PATH_CAP];
    char root[PATH_CAP];
    int least = 0;
    FILE *file = fopen(membership, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        controllers++;
        *path++ = '\0';
        if (*controllers == '\0')
            least = tighter(least, tightest(mount, path, quota_v2));
        if (!has_cpu(controllers))
            continue;
        if ((size_t)snprintf(root, sizeof root, "%s/cpu", mount) < sizeof root)
            least = tighter(least, tightest(root, path, quota_v1));
    }
    fclose(file);
    return least;
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
    int n = affinity();
    n = tighter(n, kmf_cores_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
    n = tighter(n, slurm());
    return n > KMF_THREADS_MAX ? KMF_THREADS_MAX : n;
}
