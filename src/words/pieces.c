/* SPDX-License-Identifier: MIT */
/*
 * Three ways from letters to tokens, each a function that finds the next one.
 *
 * KMERS, exact. Each window is a word of text. A tokenizer of the BERT kind cuts words at white
 * space and puts every punctuation mark apart; what is shorter than k is in no vocabulary, so a
 * window that is cut gives an [UNK] for each part.
 *
 * GREEDY. From the left the longest token that begins here: one written out, a k-mer, a letter.
 * Letters at which none begins are collected, up to the next at which one does or white space,
 * and are one [UNK]. Nothing is kept of the text.
 *
 * BPE. The text is cut, from the outside in:
 *
 *     section   between tokens that are written out; without the white space at its ends if the
 *               normaliser strips it
 *     gap       a run of N, one token, if the normaliser makes it one
 *     word      neighbouring letters of one class that are tokens; a letter that is none is
 *               [UNK] by itself
 *
 * and a word is encoded as a whole. Reading without `exact` the whole text is one section.
 */
#include "words/pieces.h"

#include "base/mem.h"
#include "seq/dna.h"

#include <assert.h>
#include <string.h>

typedef int find_next(kmf_pieces *p, kmf_piece *piece, kmf_err *err);

struct kmf_pieces {
    const kmf_vocab *vocab; /* borrowed */
    bool exact;
    bool whole; /* of KMERS alone: a window is one word */
    size_t stride;
    size_t k;
    int32_t unk;
    find_next *next;
    uint8_t base[256];   /* the 2-bit code of a letter; 4 or more: none */
    int32_t letter[256]; /* the token of a letter, or -1 */
    uint8_t joins[256];  /* BPE: the letter's class; 0 if it is no part of a word */
    bool dropped[256];   /* BPE: no token */
    bool gap[256];       /* BPE: a run of it may be one token */
    kmf_bpe *bpe;        /* owned; BPE */

    /* the text */
    const unsigned char *text; /* borrowed */
    size_t len;
    size_t at;     /* what comes next begins here */
    size_t end;    /* of the section or window that is being read */
    size_t border; /* where the one after it begins */

    /* BPE: the word that is being handed out */
    const int32_t *tokens; /* borrowed from bpe */
    size_t n_tokens;
    size_t token_i;
    size_t token_pos; /* where it begins in the text */
};

static int found(kmf_piece *piece, int32_t id, size_t pos, size_t n)
{
    *piece = (kmf_piece){.id = id, .pos = pos, .n = n};
    return 1;
}

/* The k-mer at `at`, of which there are k letters left, or -1. */
static int32_t kmer_at(const kmf_pieces *p, size_t at)
{
    uint64_t code = 0;
    for (size_t i = at; i < at + p->k; i++) {
        unsigned base = p->base[p->text[i]];
        if (base > 3)
            return -1;
        code = code << 2 | base;
    }
    return p->vocab->id_of[code];
}

/* The longest of the tokens that may be written out which is written at `at`; 0 letters: none. */
static size_t written_at(const kmf_pieces *p, size_t at, int32_t *id)
{
    const kmf_vocab *v = p->vocab;
    size_t longest = 0;
    if (!v->written_first[p->text[at]])
        return 0;
    for (size_t i = 0; i < v->n_written; i++) {
        const char *token = kmf_token_text(v, (size_t)v->written[i]);
        size_t n = strlen(token);
        if (n > longest && n <= p->len - at && memcmp(p->text + at, token, n) == 0) {
            longest = n;
            *id = v->written[i];
        }
    }
    return longest;
}

/* ---- KMERS --------------------------------------------------------------------------------- */

/* ASCII's punctuation marks. */
static bool is_mark(unsigned char c)
{
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
           (c > 'z' && c < 0x7f);
}

static bool cuts(unsigned char c)
{
    return kmf_is_space(c) || is_mark(c);
}

static int next_kmer(kmf_pieces *p, kmf_piece *piece, kmf_err *err)
{
    (void)err;
    for (;;) {
        while (!p->whole && p->at < p->end && kmf_is_space(p->text[p->at]))
            p->at++;
        if (p->at < p->end)
            break;
        if (p->border > p->len || p->len - p->border < p->k)
            return 0;
        p->at = p->border;
        p->end = p->at + p->k;
        p->border += p->stride;
    }
    size_t beg = p->at++;
    if (p->whole)
        p->at = p->end;
    else if (!is_mark(p->text[beg]))
        while (p->at < p->end && !cuts(p->text[p->at]))
            p->at++;
    int32_t id = p->at - beg == p->k ? kmer_at(p, beg) : -1;
    return found(piece, id >= 0 ? id : p->unk, beg, p->at - beg);
}

/* ---- GREEDY -------------------------------------------------------------------------------- */

/* The longest token that begins at `at`; 0 letters: none. */
static size_t longest_at(const kmf_pieces *p, size_t at, int32_t *id)
{
    size_t n = p->exact ? written_at(p, at, id) : 0;
    if (n > 0)
        return n;
    *id = p->len - at >= p->k ? kmer_at(p, at) : -1;
    if (*id >= 0)
        return p->k;
    *id = p->letter[p->text[at]];
    return *id >= 0 ? 1 : 0;
}

static bool is_blank(const kmf_pieces *p, size_t at)
{
    return p->exact && kmf_is_space(p->text[at]);
}

static int next_greedy(kmf_pieces *p, kmf_piece *piece, kmf_err *err)
{
    int32_t id;
    (void)err;
    while (p->at < p->len && is_blank(p, p->at))
        p->at++;
    if (p->at == p->len)
        return 0;
    size_t beg = p->at;
    size_t n = longest_at(p, beg, &id);
    p->at += n;
    if (n > 0)
        return found(piece, id, beg, n);
    do
        p->at++;
    while (p->at < p->len && !is_blank(p, p->at) && longest_at(p, p->at, &id) == 0);
    return found(piece, p->unk, beg, p->at - beg);
}

/* ---- BPE ----------------------------------------------------------------------------------- */

/* At the border: 1, a token that is written out; 0, a section, which may be empty, is begun. */
static int next_section(kmf_pieces *p, kmf_piece *piece)
{
    const kmf_vocab *v = p->vocab;
    int32_t id;
    size_t beg = p->border;
    size_t n = p->exact ? written_at(p, beg, &id) : 0;
    if (n > 0) {
        p->at = p->end = p->border = beg + n;
        return found(piece, id, beg, n);
    }
    do
        p->border = p->exact ? p->border + 1 : p->len;
    while (p->border < p->len && written_at(p, p->border, &id) == 0);
    p->at = beg;
    p->end = p->border;
    if (p->exact && v->strip_left)
        while (p->at < p->end && kmf_is_space(p->text[p->at]))
            p->at++;
    if (p->exact && v->strip_right)
        while (p->end > p->at && kmf_is_space(p->text[p->end - 1]))
            p->end--;
    return 0;
}

/* The letters of the run at `at` that may be a gap. */
static size_t run_at(const kmf_pieces *p, size_t at)
{
    size_t end = at;
    while (end < p->end && p->gap[p->text[end]])
        end++;
    return end - at;
}

/* The letters of the word that begins at `at`. */
static size_t word_at(const kmf_pieces *p, size_t at)
{
    uint8_t class = p->joins[p->text[at]];
    size_t end = at;
    while (end < p->end && p->joins[p->text[end]] == class) {
        size_t run = run_at(p, end);
        if (run >= KMF_GAP_MIN)
            break;
        end += run > 0 ? run : 1;
    }
    return end - at;
}

static int encode_word(kmf_pieces *p, size_t n, kmf_err *err)
{
    p->token_i = p->n_tokens = 0;
    p->tokens = kmf_bpe_encode(p->bpe, p->text + p->at, n, p->letter, &p->n_tokens, err);
    if (!p->tokens)
        return KMF_ENOMEM;
    p->token_pos = p->at;
    p->at += n;
    return 0;
}

/* What stands at p->at, inside a section: 1, a token; 0, nothing or a word. */
static int next_part(kmf_pieces *p, kmf_piece *piece, kmf_err *err)
{
    size_t beg = p->at;
    unsigned char c = p->text[beg];
    size_t run = run_at(p, beg);
    int32_t id = p->letter[c];
    size_t n = 1;
    if (run >= KMF_GAP_MIN) {
        id = p->letter[KMF_GAP_TOKEN];
        n = run;
    } else if (p->joins[c]) {
        return encode_word(p, word_at(p, beg), err);
    }
    p->at += n;
    if (p->dropped[c])
        return 0;
    return found(piece, id >= 0 ? id : p->unk, beg, n);
}

static int next_bpe(kmf_pieces *p, kmf_piece *piece, kmf_err *err)
{
    int got = 0;
    while (got == 0) {
        if (p->token_i < p->n_tokens) {
            int32_t id = p->tokens[p->token_i++];
            size_t pos = p->token_pos;
            size_t n = p->vocab->pairs->letters[id];
            p->token_pos += n;
            return found(piece, id, pos, n);
        }
        if (p->at < p->end)
            got = next_part(p, piece, err);
        else if (p->border < p->len)
            got = next_section(p, piece);
        else
            return 0;
    }
    return got;
}

/* ---- the object ---------------------------------------------------------------------------- */

/* The letter as which c is read. */
static unsigned char read_as(unsigned char c, bool exact)
{
    if (exact)
        return c;
    if (c >= 'a' && c <= 'z')
        c = (unsigned char)(c - 'a' + 'A');
    return c == 'U' ? 'T' : c;
}

static void fill_tables(kmf_pieces *p)
{
    const kmf_vocab *v = p->vocab;
    for (int c = 0; c < 256; c++) {
        unsigned char as = read_as((unsigned char)c, p->exact);
        uint8_t class = v->class_of[as];
        p->base[c] = as >= 'A' && as <= 'Z' ? kmf_base_code[as] : 4;
        p->letter[c] = v->letter[as];
        p->gap[c] = v->gaps && as == KMF_GAP_LETTER;
        p->dropped[c] = p->exact && v->kind == KMF_VOCAB_BPE && class == KMF_LETTER_DROPPED;
        p->joins[c] = p->letter[c] >= 0 && class >= KMF_LETTER_WORD ? class : 0;
    }
    if (p->exact)
        p->base['U'] = 4;
}

kmf_pieces *kmf_pieces_new(const kmf_vocab *vocab, kmf_exact exact, size_t stride, kmf_err *err)
{
    static find_next *const next_of[] = {[KMF_VOCAB_KMERS] = next_kmer,
                                         [KMF_VOCAB_GREEDY] = next_greedy,
                                         [KMF_VOCAB_BPE] = next_bpe};
    assert((exact || vocab->kind != KMF_VOCAB_KMERS) && vocab->special[KMF_UNK] >= 0);
    kmf_pieces *p = kmf_calloc(1, sizeof *p, err);
    if (!p)
        return NULL;
    p->vocab = vocab;
    p->exact = exact != KMF_EXACT_NO;
    p->whole = exact == KMF_EXACT_WHOLE;
    p->stride = stride;
    p->k = (size_t)vocab->k;
    p->unk = vocab->special[KMF_UNK];
    p->next = next_of[vocab->kind];
    fill_tables(p);
    if (vocab->kind == KMF_VOCAB_BPE) {
        p->bpe = kmf_bpe_new(vocab->pairs, KMF_BPE_BLOCK, err);
        if (!p->bpe) {
            kmf_pieces_free(p);
            return NULL;
        }
    }
    return p;
}

void kmf_pieces_free(kmf_pieces *pieces)
{
    if (!pieces)
        return;
    kmf_bpe_free(pieces->bpe);
    kmf_free(pieces);
}

void kmf_pieces_start(kmf_pieces *pieces, const char *text, size_t len)
{
    pieces->text = (const unsigned char *)text;
    pieces->len = len;
    pieces->at = pieces->end = pieces->border = 0;
    pieces->token_i = pieces->n_tokens = 0;
}

int kmf_pieces_next(kmf_pieces *pieces, kmf_piece *piece, kmf_err *err)
{
    return pieces->next(pieces, piece, err);
}
