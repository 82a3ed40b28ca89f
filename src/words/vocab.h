/* SPDX-License-Identifier: MIT */
/*
 * What is in a kmf_vocab. The tables of BPE and GREEDY are by letter, a byte: which token it is,
 * what cuts the text around it.
 */
#ifndef KMF_VOCAB_H
#define KMF_VOCAB_H

#include "words/bpe.h"

#define KMF_VOCAB_K_MAX 12 /* of a vocabulary of all k-mers: 16.8 million */

/* How a letter stands to its neighbours before BPE. Letters of one class make a word. */
typedef enum kmf_letter_class {
    KMF_LETTER_DROPPED, /* no token: white space */
    KMF_LETTER_ALONE,   /* a word of its own     */
    KMF_LETTER_WORD,
    KMF_LETTER_OTHER
} kmf_letter_class;

/* A run of KMF_GAP_MIN or more of the one reads as the other. */
#define KMF_GAP_LETTER 'N'
#define KMF_GAP_TOKEN '-'
#define KMF_GAP_MIN 10

struct kmf_vocab {
    kmf_vocab_kind kind;
    int k;                          /* 0 for BPE */
    size_t size;                    /* V */
    char *text;                     /* owned: the file, NUL-terminated */
    size_t len;                     /* of it */
    char *tokens;                   /* owned: NUL-terminated, end to end */
    size_t *off;                    /* owned [V]: token id is tokens + off[id] */
    int32_t *id_of;                 /* owned [4^k]: -1 for k-mers not listed; NULL for BPE */
    int32_t special[KMF_N_SPECIAL]; /* -1: none */
    size_t frame;

    /* BPE and GREEDY */
    int32_t letter[256]; /* the token of one letter, or -1 */
    uint8_t *of_dna;     /* owned [V]: 1 for a token of A, C, G and T alone */
    int32_t *written;    /* owned [n_written]: tokens that a text may hold written out */
    size_t n_written;
    uint8_t written_first[256]; /* 1 for the first letter of one */

    /* BPE */
    kmf_pairs *pairs;      /* owned */
    uint8_t class_of[256]; /* a kmf_letter_class for each letter */
    bool strip_left;       /* white space at the ends is no part of the text */
    bool strip_right;
    bool gaps; /* KMF_GAP_LETTER ... */
};

/* ASCII's, whatever the locale. */
static inline bool kmf_is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static inline const char *kmf_token_text(const kmf_vocab *vocab, size_t id)
{
    return vocab->tokens + vocab->off[id];
}

/*
 * Fills an empty vocab that has nothing but its text, a tokenizer.json; name is used in messages.
 * 0, KMF_EMODEL or KMF_ENOMEM; the caller frees vocab in any case.
 */
int kmf_tokenizer_read(kmf_vocab *vocab, const char *name, kmf_err *err) KMF_MUST_CHECK;

/* Bytes of a vocabulary in memory. */
size_t kmf_vocab_bytes(const kmf_vocab *vocab);

/* What kmf_tokenizer_read and the reading of vocab.txt end with: of_dna and written_first. */
int kmf_vocab_finish(kmf_vocab *vocab, kmf_err *err) KMF_MUST_CHECK;

#endif
