/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: from a sequence to the chunks of ids that an encoder reads. */
#ifndef KMERFORMER_TOKENS_H
#define KMERFORMER_TOKENS_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- vocabulary ------------- */

/*
 * The tokens of a model and what turns letters into them, by the text of its file:
 *
 *   KMF_VOCAB_KMERS    vocab.txt, one token a line, line number (from 0) = id. A token is a k-mer,
 *                      all of one length k from 1 to 12, or one in brackets: [PAD] [UNK] [CLS]
 *                      [SEP] [MASK], others are never produced. A token for every k-mer of a
 *                      sequence.
 *   KMF_VOCAB_GREEDY   vocab.txt with specials as <unk> <pad> <mask> <cls>, k-mers of one length
 *                      and single letters. Side by side, the longest token that begins where the
 *                      last one ended: the Nucleotide Transformer.
 *   KMF_VOCAB_BPE      tokenizer.json, text that begins with '{': byte-pair encoding as Hugging
 *                      Face tokenizers have it, as far as DNABERT-2, DNABERT-S and GENA-LM use it
 */
typedef struct kmf_vocab kmf_vocab;

typedef enum kmf_vocab_kind { KMF_VOCAB_KMERS, KMF_VOCAB_GREEDY, KMF_VOCAB_BPE } kmf_vocab_kind;

typedef enum kmf_special {
    KMF_PAD,
    KMF_UNK,
    KMF_CLS,
    KMF_SEP,
    KMF_MASK,
    KMF_N_SPECIAL
} kmf_special;

/*
 * The file at path. KMF_EMODEL names the line that does not fit; of a tokenizer.json the part,
 * since nothing that would change an id is skipped.
 */
KMF_API kmf_vocab *kmf_vocab_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
/* The same from memory; name is used in messages. */
KMF_API kmf_vocab *kmf_vocab_parse(const char *text, size_t len_bytes, const char *name,
                                   kmf_err *err) KMF_MUST_CHECK;
/* The five specials and all 4^k k-mers in code order. k: 1 to 12. */
KMF_API kmf_vocab *kmf_vocab_new(int k, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_vocab_free(kmf_vocab *vocab);
KMF_API kmf_vocab_kind kmf_vocab_kind_of(const kmf_vocab *vocab);
/* The length of its k-mers; 0 for BPE, whose tokens have any length. */
KMF_API int kmf_vocab_k(const kmf_vocab *vocab);
KMF_API size_t kmf_vocab_size(const kmf_vocab *vocab);
/* NULL if id is out of range. Borrowed from vocab. */
KMF_API const char *kmf_vocab_token(const kmf_vocab *vocab, int32_t id);
/* The id of a k-mer, or -1 if the vocabulary lacks it; always -1 for BPE. */
KMF_API int32_t kmf_vocab_kmer(const kmf_vocab *vocab, uint64_t code);
/* The id of the token that plays this part, whatever it is called, or -1. */
KMF_API int32_t kmf_vocab_special(const kmf_vocab *vocab, kmf_special special);
/* Tokens around a chunk: 2 for [CLS] .. [SEP], 1 for [CLS] alone, 0 if it has no such frame. */
KMF_API size_t kmf_vocab_frame(const kmf_vocab *vocab);
/*
 * The file as it was read, or as it would be for kmf_vocab_new, NUL-terminated, and the name it
 * goes by in a model's folder: vocab.txt or tokenizer.json. Both borrowed from vocab.
 */
KMF_API const char *kmf_vocab_text(const kmf_vocab *vocab, size_t *len_bytes);
KMF_API const char *kmf_vocab_file(const kmf_vocab *vocab);

/* ---------------------------------------------------------------- tokenizer -------------- */

/* What to do with a window or token that touches a base other than A, C, G, T or U. */
typedef enum kmf_ambiguous {
    KMF_AMBIGUOUS_SKIP,  /* no token; positions close up over the gap            */
    KMF_AMBIGUOUS_UNK,   /* keeps its place: [UNK] for a window, the token as is */
    KMF_AMBIGUOUS_BREAK, /* a new chunk starts after it                          */
    KMF_AMBIGUOUS_ERROR  /* KMF_EFORMAT                                          */
} kmf_ambiguous;

/* What to do with a sequence, with BREAK a run, of more tokens than the window holds. */
typedef enum kmf_long {
    KMF_LONG_CHUNK,    /* overlapping chunks, each token counted in one of them  */
    KMF_LONG_TRUNCATE, /* the first window only; with BREAK that of each run     */
    KMF_LONG_SKIP,     /* no chunk at all: the record counts as without a k-mer  */
    KMF_LONG_ERROR     /* KMF_EFORMAT                                            */
} kmf_long;

/* The words for both in options and files: index = value, NULL after the last. */
KMF_API extern const char *const kmf_ambiguous_names[]; /* skip unk break error */
KMF_API extern const char *const kmf_long_names[];      /* chunk truncate skip error */

/* Whether a model's own tokenizer is followed to the letter, see below. */
typedef enum kmf_exact {
    KMF_EXACT_NO,
    KMF_EXACT_SPLIT, /* k-mers are words of a BERT's tokenizer, which splits them at punctuation */
    KMF_EXACT_WHOLE /* k-mers are looked up as they are */
} kmf_exact;

typedef struct kmf_cut_options {
    size_t stride;  /* bases between the starts of two windows; 1 .. 2^31, 1 but for KMERS */
    size_t window;  /* tokens of a chunk, its frame included: at least one more, to 2^24   */
    size_t overlap; /* tokens shared by neighbouring chunks; to half a window less its frame */
    int specials;   /* put every chunk into the vocabulary's frame                         */
    kmf_ambiguous ambiguous;
    kmf_long policy;
    int reverse; /* cut the reverse complement instead                                  */
    kmf_exact exact;
} kmf_cut_options;

/*
 * Without `exact`, letters are read in either case and U as T; written-out specials are letters
 * like others. With it, ASCII text gives the ids that the model's own tokenizer gives:
 *
 *   - case is kept and U is no T; what the vocabulary lacks is [UNK]
 *   - BPE and GREEDY: special tokens written out, as [MASK] or <mask>, are read as such; white
 *     space gives what it gives there, mostly nothing
 *   - KMERS: with SPLIT, punctuation and white space in a window split it into several [UNK]
 *   - `ambiguous` has no meaning: everything keeps its place, and real[i] is 1 for all but the
 *     frame
 *   - a sequence without a token gives one chunk, the bare frame
 */

/*
 * One piece of a sequence as the encoder sees it. The arrays are borrowed from the cutter,
 * valid until its next call. pos[i] is the 0-based base at which token i starts (on the strand
 * that was cut) and end[i] one past its last, both 0 in the frame; real[i] is 1 for a token of
 * A, C, G and T alone, 0 for any special one.
 * Tokens own_beg .. own_end - 1 are counted in this chunk, the others in a neighbour: a shared
 * token belongs to the chunk in which it sits deeper.
 */
typedef struct kmf_chunk {
    const int32_t *ids;
    const uint64_t *pos;
    const uint64_t *end;
    const uint8_t *real;
    size_t n;
    size_t own_beg;
    size_t own_end;
} kmf_chunk;

/* Of the sequence begun last. */
typedef struct kmf_cut_stats {
    uint64_t tokens;    /* those with real[i] = 1, each counted once                     */
    uint64_t ambiguous; /* windows or tokens that touch anything but A, C, G, T; exact: 0 */
    uint64_t unknown;   /* of the others, those that read as [UNK]; exact: all [UNK]      */
    uint64_t chunks;
    int cut; /* 1: tokens were left out by TRUNCATE or SKIP                          */
} kmf_cut_stats;

typedef struct kmf_cutter kmf_cutter;

/*
 * vocab is borrowed. KMF_EMODEL: a special token that opts needs is not in the vocabulary.
 *
 * Memory is that of a window, however long a sequence is. BPE takes at most 4 bytes more, mostly
 * one, for each letter of the longest stretch between two letters that cut it, which is a contig;
 * the reverse strand of anything but KMERS without `exact` takes a byte for each letter.
 */
KMF_API kmf_cutter *kmf_cutter_new(const kmf_vocab *vocab, const kmf_cut_options *opts,
                                   kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_cutter_free(kmf_cutter *cutter);
/* Begins a sequence, borrowed until its last chunk. name is used in messages. */
KMF_API void kmf_cutter_start(kmf_cutter *cutter, const char *name, const char *seq,
                              size_t len);
/* 1: the next chunk; 0: no more; negative: a kmf_code. */
KMF_API int kmf_cutter_next(kmf_cutter *cutter, kmf_chunk *chunk, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_cutter_statistics(const kmf_cutter *cutter, kmf_cut_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
