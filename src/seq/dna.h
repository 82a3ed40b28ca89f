/* SPDX-License-Identifier: MIT */
/* What the letters of a sequence mean. */
#ifndef KMF_DNA_H
#define KMF_DNA_H

#include <stddef.h>
#include <stdint.h>

/* A=0 C=1 G=2 T=U=3, either case; 4 for every other byte. */
extern const uint8_t kmf_base_code[256];

/*
 * 0 for a byte that may stand in a sequence: a letter, '*', '-' or '.'; else 1. Without a
 * branch, so that a loop over it becomes vector instructions.
 */
static inline unsigned char kmf_not_a_base(char c)
{
    unsigned char u = (unsigned char)c;
    unsigned char letter = (unsigned char)((u | 0x20) - 'a');
    return (unsigned char)!((letter < 26) | (u == '*') | (u == '-') | (u == '.'));
}

/*
 * out[i] = the complement of seq[len - 1 - i]. out may be seq itself, but not overlap it in
 * another way. Case is kept; IUPAC letters have theirs (R-Y, K-M, B-V, D-H; S, W, N their own);
 * the complement of U is A, that of A always T; every other byte stays as it is.
 */
void kmf_dna_revcomp(char *out, const char *seq, size_t len);

#endif
