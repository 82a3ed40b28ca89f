/* SPDX-License-Identifier: MIT */
/*
 * Two tables of 256 bytes each: a byte to its base, and a byte to its complement.
 *
 * A=0 C=1 G=2 T=3 is the order in which the complement of a code is 3 - code, and in which
 * sorting codes sorts k-mers as text.
 *
 * The complement table is written in letters: row by row, the ASCII codes from '@' and from '`'
 * with each letter replaced by its complement. E, F, I, J, L, O, P, Q, X and Z mean no set of
 * bases and stay as they are; so does everything outside the letters, gaps and stops included.
 */
#include "seq/dna.h"

/* clang-format off */
const uint8_t kmf_base_code[256] = {
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 0, 4, 1, 4, 4, 4, 2, 4, 4, 4, 4, 4, 4, 4, 4, /* @ABCDEFGHIJKLMNO */
    4, 4, 4, 4, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, /* PQRSTUVWXYZ      */
    4, 0, 4, 1, 4, 4, 4, 2, 4, 4, 4, 4, 4, 4, 4, 4, /* `abcdefghijklmno */
    4, 4, 4, 4, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, /* pqrstuvwxyz      */
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
};

/* The complements of '@' .. '_' and of '`' .. DEL. */
static const char upper[] = "@TVGHEFCDIJMLKNOPQYSAABWXRZ[\\]^_";
static const char lower[] = "`tvghefcdijmlknopqysaabwxrz{|}~\x7f";
/* clang-format on */

static char complement(char c)
{
    unsigned char u = (unsigned char)c;
    if (u < 0x40 || u > 0x7f)
        return c;
    return u < 0x60 ? upper[u - 0x40] : lower[u - 0x60];
}

void kmf_dna_revcomp(char *out, const char *seq, size_t len)
{
    size_t half = len / 2;
    for (size_t i = 0; i < half; i++) {
        char head = complement(seq[i]);
        char tail = complement(seq[len - 1 - i]);
        out[i] = tail;
        out[len - 1 - i] = head;
    }
    if (len % 2)
        out[half] = complement(seq[half]);
}
