/* SPDX-License-Identifier: MIT */
/*
 * From a sequence to the chunks that an encoder sees.
 *
 * Tokens come one at a time, from windows (kmer.h) or from pieces of text (pieces.h). They collect
 * until a chunk of C = window - 2 (without [SEP] window - 1, without specials window) is full and
 * one token more shows that the sequence goes on. That chunk is handed out and its last O tokens,
 * the overlap, open the next one:
 *
 *     tokens   0 ................................................ n-1
 *     chunk 0  [CLS] ownownownownown|shared [SEP]
 *     chunk 1             [CLS] shared|ownownownown|shared [SEP]
 *     chunk 2                               [CLS] shared|ownown [SEP]
 *
 * Token j of the O shared ones has j tokens on its left in the later chunk and O-1-j on its right
 * in the earlier; it belongs to where it sits deeper, the earlier one on a tie, so the earlier
 * chunk owns the first (O+1)/2. Every token is owned once.
 *
 * Chunks take the memory of one window however long the sequence is, and the cut depends on
 * nothing but the sequence and the options: not on batches, threads or neighbours.
 *
 * With BREAK an ambiguous token ends the run of tokens; what follows is cut as a sequence of its
 * own, and the policy for long sequences holds for each run.
 *
 * Windows are read backwards from the far end; pieces need a copy of the reverse strand.
 */
#include "base/err.h"
#include "base/mem.h"
#include "seq/dna.h"
#include "words/kmer.h"
#include "words/pieces.h"

#include <assert.h>
#include <string.h>

#define BLOCK 256
#define WINDOW_MAX ((size_t)1 << 24)

const char *const kmf_ambiguous_names[] = {"skip", "unk", "break", "error", NULL};
const char *const kmf_long_names[] = {"chunk", "truncate", "skip", "error", NULL};

typedef struct token {
    int32_t id;
    uint8_t real;
    uint64_t pos;
    uint64_t end;
} token;

typedef enum pulled { PULLED_END, PULLED_TOKEN, PULLED_BREAK, PULLED_NOTHING } pulled;

struct kmf_cutter {
    const kmf_vocab *vocab; /* borrowed */
    kmf_cut_options opts;
    int k;
    int32_t unk;  /* -1: none */
    size_t cap;   /* C */
    size_t lead;  /* 1 with [CLS], else 0 */
    size_t frame; /* 2 with [SEP] as well */

    int32_t *ids;  /* owned [window]: [CLS], content, [SEP] */
    uint64_t *pos; /* owned [window] */
    uint64_t *end; /* owned [window] */
    uint8_t *real; /* owned [window] */

    /* the sequence */
    const char *name; /* borrowed */
    const char *seq;  /* borrowed */
    size_t len;
    bool fresh;         /* nothing was taken from it yet */
    kmf_pieces *pieces; /* owned; NULL: tokens come from windows */
    char *turned;       /* owned [cap_turned]: the reverse strand for pieces */
    size_t cap_turned;
    kmf_window window;
    uint64_t codes[BLOCK];
    uint64_t starts[BLOCK];
    uint8_t clean[BLOCK];
    size_t block_n;
    size_t block_i;
    kmf_cut_stats stats;

    /* the run of tokens */
    size_t n;       /* content tokens collected */
    size_t own_beg; /* first of them that the coming chunk owns */
    bool has_held;
    token held;            /* the token after a full chunk */
    uint64_t held_unknown; /* 1: it is counted as unknown */
    bool ended;
};

static int check_options(const kmf_vocab *vocab, const kmf_cut_options *o, kmf_err *err)
{
    size_t frame = o->specials ? kmf_vocab_frame(vocab) : 0;
    if ((unsigned)o->ambiguous > KMF_AMBIGUOUS_ERROR || (unsigned)o->policy > KMF_LONG_ERROR)
        return kmf_fail(err, KMF_EINVAL,
                        "ambiguous or policy: %d and %d are none of their values",
                        (int)o->ambiguous, (int)o->policy);
    if ((unsigned)o->exact > KMF_EXACT_WHOLE)
        return kmf_fail(err, KMF_EINVAL, "exact: %d is none of its values", (int)o->exact);
    if (o->stride < 1 || o->stride > KMF_STRIDE_MAX)
        return kmf_fail(err, KMF_EINVAL, "the stride is %zu: it must be 1 to %zu", o->stride,
                        KMF_STRIDE_MAX);
    if (o->stride > 1 && kmf_vocab_kind_of(vocab) != KMF_VOCAB_KMERS)
        return kmf_fail(err, KMF_EINVAL, "the stride is %zu: this model's tokens have none",
                        o->stride);
    if (o->window < frame + 1 || o->window > WINDOW_MAX)
        return kmf_fail(err, KMF_EINVAL, "the window is %zu tokens: it must be %zu to %zu",
                        o->window, frame + 1, WINDOW_MAX);
    if (o->overlap > (o->window - frame) / 2)
        return kmf_fail(err, KMF_EINVAL,
                        "the overlap is %zu tokens: at most half of the window's %zu k-mers",
                        o->overlap, o->window - frame);
    if (o->specials && frame == 0)
        return kmf_fail(err, KMF_EMODEL, "the vocabulary has no [CLS] and [SEP]");
    if ((o->exact || o->ambiguous == KMF_AMBIGUOUS_UNK) &&
        kmf_vocab_special(vocab, KMF_UNK) < 0)
        return kmf_fail(err, KMF_EMODEL,
                        "ambiguous letters cannot become [UNK]: the vocabulary has none");
    return 0;
}

kmf_cutter *kmf_cutter_new(const kmf_vocab *vocab, const kmf_cut_options *opts, kmf_err *err)
{
    if (check_options(vocab, opts, err) < 0)
        return NULL;
    kmf_cutter *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    c->vocab = vocab;
    c->opts = *opts;
    c->k = kmf_vocab_k(vocab);
    c->unk = kmf_vocab_special(vocab, KMF_UNK);
    c->frame = opts->specials ? kmf_vocab_frame(vocab) : 0;
    c->lead = c->frame > 0 ? 1 : 0;
    c->cap = opts->window - c->frame;
    c->ended = true;
    c->ids = kmf_calloc(opts->window, sizeof *c->ids, err);
    c->pos = kmf_calloc(opts->window, sizeof *c->pos, err);
    c->end = kmf_calloc(opts->window, sizeof *c->end, err);
    c->real = kmf_calloc(opts->window, sizeof *c->real, err);
    if (!c->ids || !c->pos || !c->end || !c->real)
        goto fail;
    if (opts->exact || kmf_vocab_kind_of(vocab) != KMF_VOCAB_KMERS) {
        c->pieces = kmf_pieces_new(vocab, opts->exact, opts->stride, err);
        if (!c->pieces)
            goto fail;
    }
    if (c->frame > 0)
        c->ids[0] = kmf_vocab_special(vocab, KMF_CLS);
    return c;
fail:
    kmf_cutter_free(c);
    return NULL;
}

void kmf_cutter_free(kmf_cutter *cutter)
{
    if (!cutter)
        return;
    kmf_free(cutter->ids);
    kmf_free(cutter->pos);
    kmf_free(cutter->end);
    kmf_free(cutter->real);
    kmf_free(cutter->turned);
    kmf_pieces_free(cutter->pieces);
    kmf_free(cutter);
}

static void begin_run(kmf_cutter *c)
{
    c->n = 0;
    c->own_beg = 0;
    c->has_held = false;
}

static void rewind_sequence(kmf_cutter *c)
{
    c->fresh = true;
    c->block_n = c->block_i = 0;
    c->stats = (kmf_cut_stats){0};
    c->ended = false;
    begin_run(c);
}

/* Before the first token is taken. */
static int open_sequence(kmf_cutter *c, kmf_err *err)
{
    const char *text = c->seq;
    c->fresh = false;
    if (!c->pieces) {
        kmf_window_start(&c->window, c->seq, c->len, c->k, c->opts.stride, c->opts.reverse);
        return 0;
    }
    if (c->opts.reverse) {
        if (kmf_grow(&c->turned, &c->cap_turned, c->len, 1, err) < 0)
            return KMF_ENOMEM;
        kmf_dna_revcomp(c->turned, c->seq, c->len);
        text = c->turned;
    }
    kmf_pieces_start(c->pieces, text, c->len);
    return 0;
}

/* ---- tokens -------------------------------------------------------------------------------- */

/* The first letter of a token that is no base; as many as it has if all are. */
static size_t first_odd(const kmf_cutter *c, const token *t)
{
    size_t i = 0;
    for (; t->pos + i < t->end; i++) {
        size_t at = c->opts.reverse ? c->len - 1 - (t->pos + i) : t->pos + i;
        if (kmf_base_code[(unsigned char)c->seq[at]] > 3)
            break;
    }
    return i;
}

static int ambiguous_error(const kmf_cutter *c, const token *t, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    size_t i = t->pos + first_odd(c, t);
    size_t at = c->opts.reverse ? c->len - 1 - i : i;
    return kmf_fail(err, KMF_EFORMAT, "record '%s': base %zu is '%c', not A, C, G, T or U",
                    kmf_err_show(shown, c->name), at + 1, kmf_err_letter(c->seq[at]));
}

static int long_error(const kmf_cutter *c, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EFORMAT, "record '%s': more than the window's %zu %s",
                    kmf_err_show(shown, c->name), c->cap, c->pieces ? "tokens" : "k-mers");
}

/* The token at *t touches a base that is none. */
static int take_ambiguous(kmf_cutter *c, token *t, kmf_err *err)
{
    c->stats.ambiguous++;
    switch (c->opts.ambiguous) {
    case KMF_AMBIGUOUS_SKIP:
        break;
    case KMF_AMBIGUOUS_UNK:
        t->real = 0;
        return PULLED_TOKEN;
    case KMF_AMBIGUOUS_BREAK:
        return PULLED_BREAK;
    case KMF_AMBIGUOUS_ERROR:
        return ambiguous_error(c, t, err);
    }
    return PULLED_NOTHING;
}

/* The vocabulary lacks the k-mer that stands at *t. */
static int take_unknown(kmf_cutter *c, token *t, uint64_t code, kmf_err *err)
{
    c->stats.unknown++;
    if (c->unk < 0) {
        char shown[KMF_ERR_SHOW];
        char kmer[KMF_K_MAX + 1];
        kmf_kmer_decode(kmer, code, c->k);
        return kmf_fail(err, KMF_EMODEL, "record '%s': the vocabulary has neither %s nor [UNK]",
                        kmf_err_show(shown, c->name), kmer);
    }
    t->id = c->unk;
    t->real = 0;
    return PULLED_TOKEN;
}

static int pull_window(kmf_cutter *c, token *t, kmf_err *err)
{
    if (c->block_i == c->block_n) {
        c->block_n = kmf_window_next(&c->window, c->codes, c->starts, c->clean, BLOCK);
        c->block_i = 0;
        if (c->block_n == 0)
            return PULLED_END;
    }
    size_t i = c->block_i++;
    t->pos = c->starts[i];
    t->end = t->pos + (uint64_t)c->k;
    if (!c->clean[i]) {
        t->id = c->unk;
        return take_ambiguous(c, t, err);
    }
    t->id = kmf_vocab_kmer(c->vocab, c->codes[i]);
    t->real = 1;
    return t->id >= 0 ? PULLED_TOKEN : take_unknown(c, t, c->codes[i], err);
}

static int pull_piece(kmf_cutter *c, token *t, kmf_err *err)
{
    kmf_piece piece;
    int got = kmf_pieces_next(c->pieces, &piece, err);
    if (got <= 0)
        return got < 0 ? got : PULLED_END;
    bool known = piece.id != c->unk;
    *t = (token){.id = piece.id,
                 .pos = piece.pos,
                 .end = piece.pos + piece.n,
                 .real = known || c->opts.exact != KMF_EXACT_NO};
    if (!c->opts.exact && !(known && c->vocab->of_dna[piece.id]) && first_odd(c, t) < piece.n)
        return take_ambiguous(c, t, err);
    c->stats.unknown += !known;
    return PULLED_TOKEN;
}

/* The next token of the sequence: a pulled, or a negative kmf_code. */
static int pull(kmf_cutter *c, token *t, kmf_err *err)
{
    int got = c->fresh ? open_sequence(c, err) : 0;
    if (got < 0)
        return got;
    do
        got = c->pieces ? pull_piece(c, t, err) : pull_window(c, t, err);
    while (got == PULLED_NOTHING);
    return got;
}

/* Does some run of the sequence have more than C tokens? Negative: a kmf_code. */
static int too_long(kmf_cutter *c, kmf_err *err)
{
    token t = {0};
    size_t run = 0;
    int got;
    while ((got = pull(c, &t, err)) > PULLED_END) {
        run = got == PULLED_TOKEN ? run + 1 : 0;
        if (run > c->cap)
            return 1;
    }
    return got;
}

void kmf_cutter_start(kmf_cutter *cutter, const char *name, const char *seq, size_t len)
{
    cutter->name = name;
    cutter->seq = seq;
    cutter->len = len;
    rewind_sequence(cutter);
}

static void append(kmf_cutter *c, const token *t)
{
    assert(c->n < c->cap);
    size_t i = c->lead + c->n++;
    c->ids[i] = t->id;
    c->pos[i] = t->pos;
    c->end[i] = t->end;
    c->real[i] = t->real;
}

/* The overlap of a full chunk opens the next. */
static void carry_over(kmf_cutter *c)
{
    size_t overlap = c->opts.overlap;
    size_t from = c->lead + c->cap - overlap;
    memmove(c->ids + c->lead, c->ids + from, overlap * sizeof *c->ids);
    memmove(c->pos + c->lead, c->pos + from, overlap * sizeof *c->pos);
    memmove(c->end + c->lead, c->end + from, overlap * sizeof *c->end);
    memmove(c->real + c->lead, c->real + from, overlap * sizeof *c->real);
    c->n = overlap;
    c->own_beg = (overlap + 1) / 2;
    c->has_held = false;
    append(c, &c->held);
}

/* Collects until a chunk is full and a token is held, or the run ends. */
static int collect(kmf_cutter *c, kmf_err *err)
{
    token t = {0};
    int got;
    uint64_t unknown = c->stats.unknown;
    while ((got = pull(c, &t, err)) == PULLED_TOKEN) {
        if (c->n == c->cap) {
            c->held = t;
            c->has_held = true;
            c->held_unknown = c->stats.unknown - unknown;
            return got;
        }
        append(c, &t);
        unknown = c->stats.unknown;
    }
    return got;
}

/* The tokens after a truncated chunk, from the held one to the end of the run: not kept. */
static int drop_run(kmf_cutter *c, kmf_err *err)
{
    token t = {0};
    int got;
    uint64_t unknown = c->stats.unknown - c->held_unknown;
    while ((got = pull(c, &t, err)) == PULLED_TOKEN)
        continue;
    c->stats.unknown = unknown;
    c->stats.cut = 1;
    return got;
}

static void hand_out(kmf_cutter *c, kmf_chunk *chunk, size_t own_end)
{
    size_t n = c->lead + c->n;
    if (c->frame > 1) {
        c->ids[n] = kmf_vocab_special(c->vocab, KMF_SEP);
        c->pos[n] = 0;
        c->end[n] = 0;
        c->real[n] = 0;
        n++;
    }
    *chunk = (kmf_chunk){.ids = c->ids,
                         .pos = c->pos,
                         .end = c->end,
                         .real = c->real,
                         .n = n,
                         .own_beg = c->lead + c->own_beg,
                         .own_end = c->lead + own_end};
    for (size_t i = chunk->own_beg; i < chunk->own_end; i++)
        c->stats.tokens += c->real[i];
    c->stats.chunks++;
}

int kmf_cutter_next(kmf_cutter *c, kmf_chunk *chunk, kmf_err *err)
{
    if (c->opts.policy == KMF_LONG_SKIP && c->fresh && !c->ended) {
        int over = too_long(c, err);
        if (over < 0)
            return over;
        rewind_sequence(c);
        c->stats.cut = over;
        c->ended = over != 0;
    }
    while (!c->ended) {
        if (c->has_held)
            carry_over(c);
        int got = collect(c, err);
        if (got < 0)
            return got;
        size_t own_end = c->n;
        if (c->has_held && c->opts.policy == KMF_LONG_ERROR)
            return long_error(c, err);
        if (c->has_held && c->opts.policy == KMF_LONG_TRUNCATE) {
            c->has_held = false;
            got = drop_run(c, err);
            if (got < 0)
                return got;
        }
        if (c->has_held)
            own_end = c->cap - c->opts.overlap + (c->opts.overlap + 1) / 2;
        bool bare = c->opts.exact && c->frame > 0 && c->stats.chunks == 0;
        bool some = c->n > 0 || bare;
        if (some)
            hand_out(c, chunk, own_end);
        if (got != PULLED_TOKEN) {
            c->ended = got == PULLED_END;
            begin_run(c);
        }
        if (some)
            return 1;
    }
    return 0;
}

void kmf_cutter_statistics(const kmf_cutter *cutter, kmf_cut_stats *stats)
{
    *stats = cutter->stats;
}
