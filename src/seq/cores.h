/* SPDX-License-Identifier: MIT */
/* The CPU quota of control groups, for kmf_threads_default. */
#ifndef KMF_CORES_H
#define KMF_CORES_H

/*
 * The cores that the quota allows, rounded up, or 0 if there is none. membership is what
 * /proc/self/cgroup is, mount what /sys/fs/cgroup is; version 1 and 2 are understood, and the
 * tightest quota between the process's own group and the root counts.
 */
int kmf_cores_quota(const char *membership, const char *mount);

#endif
