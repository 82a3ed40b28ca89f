/* SPDX-License-Identifier: MIT */
/*
 * One row for each alphabet. The numbers of the letters are their alphabetical order, so
 * sorting codes sorts k-mers as text.
 *
 *   dna       4 letters fill their 2 bits: every code of 2k bits is a k-mer
 *   protein   20 letters in 5 bits: the values 20 to 31 of a letter mean nothing; a code that
 *             holds one is no k-mer. 6 letters are 30 bits, 64 million k-mers.
 *
 * The byte tables read either case. B, J, O, U, X, Z and '*' are no residues of the twenty; U
 * is a T in DNA.
 */
#include "words/alphabet.h"

#include "seq/dna.h"

#include <assert.h>

const char *const kmf_alphabet_names[] = {"dna", "protein", NULL};

/* clang-format off */
#define NO KMF_NO_LETTER

static const uint8_t protein_code[256] = {
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO,  0, NO,  1,  2,  3,  4,  5,  6,  7, NO,  8,  9, 10, 11, NO, /* @ABCDEFGHIJKLMNO */
    12, 13, 14, 15, 16, NO, 17, 18, NO, 19, NO, NO, NO, NO, NO, NO, /* PQRSTUVWXYZ      */
    NO,  0, NO,  1,  2,  3,  4,  5,  6,  7, NO,  8,  9, 10, 11, NO, /* `abcdefghijklmno */
    12, 13, 14, 15, 16, NO, 17, 18, NO, 19, NO, NO, NO, NO, NO, NO, /* pqrstuvwxyz      */
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
};

#undef NO

static const kmf_alphabet_row rows[KMF_N_ALPHABETS] = {
    /*               letters                n  bits  k  complement */
    [KMF_DNA]     = {"ACGT",                4,  2,  32, true,  kmf_base_code},
    [KMF_PROTEIN] = {"ACDEFGHIKLMNPQRSTVWY", 20, 5,   6, false, protein_code},
};
/* clang-format on */

const kmf_alphabet_row *kmf_alphabet_of(kmf_alphabet alphabet)
{
    assert((unsigned)alphabet < KMF_N_ALPHABETS);
    return &rows[alphabet];
}

const char *kmf_alphabet_letters(kmf_alphabet alphabet)
{
    return kmf_alphabet_of(alphabet)->letters;
}

int kmf_alphabet_bits(kmf_alphabet alphabet)
{
    return kmf_alphabet_of(alphabet)->bits;
}

int kmf_alphabet_k_max(kmf_alphabet alphabet)
{
    return kmf_alphabet_of(alphabet)->k_max;
}

int kmf_alphabet_encode(kmf_alphabet alphabet, uint64_t *code, const char *seq, int k)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(alphabet);
    uint64_t c = 0;
    for (int i = 0; i < k; i++) {
        unsigned letter = row->code[(unsigned char)seq[i]];
        if (letter >= (unsigned)row->n_letters)
            return KMF_EFORMAT;
        c = c << row->bits | letter;
    }
    *code = c;
    return 0;
}

void kmf_alphabet_decode(kmf_alphabet alphabet, char *text, uint64_t code, int k)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(alphabet);
    unsigned mask = (1u << row->bits) - 1;
    text[k] = '\0';
    for (int i = k - 1; i >= 0; i--, code >>= row->bits) {
        unsigned letter = (unsigned)code & mask;
        text[i] = letter < (unsigned)row->n_letters ? row->letters[letter] : '?';
    }
}

double kmf_alphabet_possible(kmf_alphabet alphabet, int k)
{
    double n = 1;
    for (int i = 0; i < k; i++)
        n *= kmf_alphabet_of(alphabet)->n_letters;
    return n;
}

/* From the last letter on: one that does not exist becomes a carry to the letter before it. */
uint64_t kmf_alphabet_round_up(kmf_alphabet alphabet, int k, uint64_t code)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(alphabet);
    uint64_t mask = ((uint64_t)1 << row->bits) - 1;
    if ((uint64_t)row->n_letters > mask)
        return code;
    for (int shift = 0; shift < k * row->bits; shift += row->bits)
        if ((code >> shift & mask) >= (uint64_t)row->n_letters)
            code = ((code >> (shift + row->bits)) + 1) << (shift + row->bits);
    return code;
}
