/* SPDX-License-Identifier: MIT */
/*
 * A block of DNA as numbers: of each letter, and of the eight letters from each on, whose upper
 * bits are the code of the k-mer there, k up to 8. Made in passes that become vector code.
 */
#ifndef KMF_EIGHTS_H
#define KMF_EIGHTS_H

#include "base/le.h"

#include <stddef.h>
#include <stdint.h>

#define KMF_EIGHTS_BLOCK 4096
#define KMF_EIGHTS_AHEAD 16 /* letters of the next block that a k-mer may reach into */
#define KMF_NOT_CLEAN 4     /* the bit that is set for what is no letter */

typedef struct kmf_eights {
    uint8_t letters[KMF_EIGHTS_BLOCK + 4 * KMF_EIGHTS_AHEAD];
    uint16_t codes[KMF_EIGHTS_BLOCK + 2 * KMF_EIGHTS_AHEAD];
} kmf_eights;

/*
 * Takes n letters, KMF_EIGHTS_BLOCK + KMF_EIGHTS_AHEAD at most; those behind them are not clean.
 * codes[i], i below n, is anything in the bits of letters that are not clean.
 */
void kmf_eights_take(kmf_eights *e, const char *text, size_t n);

/* The first place from i on, at most n, where a letter is not clean; eight of them at a time. */
static inline size_t kmf_eights_run(const kmf_eights *e, size_t i, size_t n)
{
    for (; i < n; i += sizeof(uint64_t)) {
        uint64_t not_clean = kmf_le_load64(e->letters + i) & 0x0404040404040404u;
        if (not_clean) {
            i += (size_t)__builtin_ctzll(not_clean) / 8;
            break;
        }
    }
    return i < n ? i : n;
}

/* The first place from i on, at most n, where a letter is clean: of a run of N, its end. */
static inline size_t kmf_eights_gap(const kmf_eights *e, size_t i, size_t n)
{
    for (; i < n; i += sizeof(uint64_t)) {
        uint64_t clean = ~kmf_le_load64(e->letters + i) & 0x0404040404040404u;
        if (clean) {
            i += (size_t)__builtin_ctzll(clean) / 8;
            break;
        }
    }
    return i < n ? i : n;
}

#endif
