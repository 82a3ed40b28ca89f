/* SPDX-License-Identifier: MIT */
/*
 * What Linux's control groups allow a process, and the memory that there is for it.
 *
 *   version 2   a line "0::/a/b" of /proc/self/cgroup: files of mount/a/b
 *   version 1   a line "4:cpu,cpuacct:/a/b": files of mount/cpu/a/b
 *
 * A limit may stand in any group on the way up to the root, so all are asked. Inside a container
 * the path of the host may not exist; the walk then ends at the mount itself, which is the
 * container's own group.
 */
#ifndef KMF_GROUPS_H
#define KMF_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#define KMF_GROUP_MEMBERSHIP "/proc/self/cgroup"
#define KMF_GROUP_MOUNT "/sys/fs/cgroup"

/* The limit in the folder of a group, of version 1 or 2; 0: none. */
typedef double kmf_group_limit_fn(const char *folder, int version);

/*
 * The least limit that a process's groups have of a controller, such as "cpu"; 0: none.
 * membership and mount: where KMF_GROUP_MEMBERSHIP and KMF_GROUP_MOUNT are
 */
double kmf_group_least(const char *membership, const char *mount, const char *controller,
                       kmf_group_limit_fn *limit);

/* The first line of a file of the folder; NULL: there is none. Returns line. */
const char *kmf_group_line(char *line, size_t cap, const char *folder, const char *file);

/* Bytes of memory that the groups allow; 0: no limit. */
double kmf_group_memory(const char *membership, const char *mount);
/* Bytes of memory that this process can have; UINT64_MAX where the system does not tell. */
uint64_t kmf_memory_here(void);

#endif
