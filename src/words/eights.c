/* SPDX-License-Identifier: MIT */
#include "words/eights.h"

#include "base/cpu.h"

#include <assert.h>
#include <string.h>

#define ROUND 32   /* letters worked on at once, the last ones in part in vain */
#define AHEAD 2048 /* letters from where they are read to where they are fetched: half a page */

static void number(kmf_eights *e, const char *text, size_t n);

/* Without a table, so in vector code. */
static KMF_INLINE void number_letters(uint8_t *restrict out, const char *restrict text)
{
    for (size_t i = 0; i < ROUND; i++) {
        unsigned char c = (unsigned char)text[i];
        unsigned char u = c & 0xdf;
        /* bits 1 and 2 of A C G T are 00 01 11 10, of U as of T: a Gray code of the numbers */
        unsigned char code = ((c >> 1) ^ (c >> 2)) & 3;
        unsigned char clean =
            (unsigned char)(-(u == 'A') | -(u == 'C') | -(u == 'G') | -((u & 0xfe) == 'T'));
        out[i] = (unsigned char)(code | (~clean & KMF_NOT_CLEAN));
    }
}

/* out[i] = the number at in[i], shifted, and that at in[i + step]. */
static KMF_INLINE void join(uint8_t *restrict out, const uint8_t *restrict in, size_t step,
                            unsigned mask, int shift)
{
    for (size_t i = 0; i < ROUND; i++)
        out[i] = (uint8_t)((in[i] & mask) << shift | (in[i + step] & mask));
}

/* Each pass goes as far as the next one reads for the n letters. */
static KMF_INLINE void number_body(kmf_eights *e, const char *text, size_t n)
{
    uint8_t pairs[sizeof e->letters];
    uint8_t fours[sizeof e->letters];
    char rest[2 * ROUND] = {0}; /* of the text, and no letters */
    size_t whole = n / ROUND * ROUND;
    memcpy(rest, text + whole, n - whole);
    for (size_t i = 0; i < whole; i += ROUND) {
        __builtin_prefetch(text + i + AHEAD);
        number_letters(e->letters + i, text + i);
    }
    number_letters(e->letters + whole, rest);
    number_letters(e->letters + whole + ROUND, rest + ROUND);
    for (size_t i = 0; i < n + 6; i += ROUND)
        join(pairs + i, e->letters + i, 1, 3, 2);
    for (size_t i = 0; i < n + 4; i += ROUND)
        join(fours + i, pairs + i, 2, 0xff, 4);
    for (size_t i = 0; i < n; i += ROUND)
        for (size_t j = i; j < i + ROUND; j++)
            e->codes[j] = (uint16_t)(fours[j] << 8 | fours[j + 4]);
}

KMF_CLONES(number, (kmf_eights * e, const char *text, size_t n), (e, text, n))

void kmf_eights_take(kmf_eights *e, const char *text, size_t n)
{
    assert(n <= KMF_EIGHTS_BLOCK + KMF_EIGHTS_AHEAD);
    number(e, text, n);
}
