/* SPDX-License-Identifier: MIT */
/* The table behind kmf_alphabet: what differs between DNA and protein is a row of it. */
#ifndef KMF_ALPHABET_H
#define KMF_ALPHABET_H

#include "kmerformer.h"

#include <stdbool.h>

#define KMF_NO_LETTER 0xff

typedef struct kmf_alphabet_row {
    const char *letters; /* in code order */
    int n_letters;
    int bits; /* of a letter in a code */
    int k_max;
    bool complement;     /* letter i pairs with letter n_letters - 1 - i */
    const uint8_t *code; /* [256]; n_letters or more for what is none */
} kmf_alphabet_row;

const kmf_alphabet_row *kmf_alphabet_of(kmf_alphabet alphabet);

/* The number of k-mers that there can be, n_letters^k; exact to 2^53 and for powers of two. */
double kmf_alphabet_possible(kmf_alphabet alphabet, int k);

/*
 * The first code from `code` on that stands for a k-mer; bits * k bits or more if there is
 * none. Where the letters use up all values of their bits that is the code itself.
 */
uint64_t kmf_alphabet_round_up(kmf_alphabet alphabet, int k, uint64_t code);

#endif
