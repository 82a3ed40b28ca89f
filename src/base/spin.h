/* SPDX-License-Identifier: MIT */
/*
 * Waiting for another thread, many thousand times a second: for some microseconds, which is how
 * long the others are expected to take, by asking again, and then by letting whoever else wants the
 * processor have it. What pthreads have sleeps at once, and waking up takes longer than the work
 * between two waits.
 */
#ifndef KMF_SPIN_H
#define KMF_SPIN_H

/* Before something is asked for again; *tries is 0 before the first time. */
void kmf_spin(int *tries);

#endif
