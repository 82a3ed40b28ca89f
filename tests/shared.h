/* SPDX-License-Identifier: MIT */
/* Real data and published numbers that are not part of the project. */
#ifndef KMF_TESTS_SHARED_H
#define KMF_TESTS_SHARED_H

#include <stdlib.h>
#include <unistd.h>

/* Where the real data is, NULL if it is not there. */
static inline const char *shared(void)
{
    const char *place = getenv("KMF_SHARED");
    place = place ? place : "../shared";
    return access(place, R_OK) == 0 ? place : NULL;
}

#endif
