/* SPDX-License-Identifier: MIT */
/*
 * The definition in time nearly linear in the letters, for reads and for chromosomes.
 *
 * Places. In a block of text a token of m letters stands at the first and the last of its m
 * places in `ids`, -1 between them. Its length is known from its id, so both neighbours are found
 * without links:
 *
 *     letters   A  C  G  G  T  A  A  C
 *     ids       7 -1  7  3 12 -1 -1 12        three tokens of 3, 1 and 4 letters
 *
 * Candidates. For every rank there is a list of the places where its left token was seen beside
 * its right one. Ranks are taken in order, the places of one from left to right. Tokens only
 * grow, so a place is still good if the two ids still stand there.
 *
 * Order. A merge makes two new pairs. While one of them has a lower rank than the present one it
 * has to come next, before what is left of the present rank. All lists of lower ranks are empty
 * then, so the lowest pair of all is one of the two: it is merged at once, and its result has two
 * new neighbours again (`settle`). What remains has higher ranks, never the present one: the new
 * token is longer than both parts of the present merge. So each list is filled, taken once and
 * left empty, and the ranks taken only rise.
 *
 * Lists are chains of nodes that fill a line of the cache. Nodes of a list that was taken are
 * used again first. A list comes out in the order in which it grew, one ascending run for each
 * rank that fed it; it is sorted where it has more than one. Which lists are not empty is marked
 * in a bitmap, and which words of that are not zero in a second one.
 *
 * Each of n letters enters a pair, n - 1 candidates; a merge uses one up and makes two. So there
 * are at most 2n, in 2n / 14 full nodes and one more for each list. That room is taken before the
 * first merge; hardly half of it is ever touched.
 *
 * Blocks. A text is encoded in blocks that stay in the cache, and the tokens are the same:
 *
 *     If a row of tokens makes up a text, and the letters of each two neighbours in it are encoded
 *     as these two, then the text is encoded as that row. For suppose a merge crosses a border of
 *     the row, and take the first that does, between u and v. Until then nothing crossed a border,
 *     so what happened in the letters of u and v is what happens in them alone: the lowest pair of
 *     all is also the lowest of those inside u and v, and the leftmost of these. So the merge
 *     would cross their border if u and v stood alone as well.
 *
 * Two neighbours in the tokens of any text are encoded as themselves, for the same reason. A block
 * begins where a token of the one before it ended, well before its end, and must begin with the
 * token that stood there next: then all neighbours are such. Where it does not, the text is begun
 * anew in blocks of twice the length; the end of a block disturbs the tokens near it, and how near
 * depends on the list.
 */
#include "words/bpe.h"

#include "base/err.h"
#include "base/mem.h"
#include "words/radix.h"

#include <inttypes.h>
#include <string.h>

#define NONE KMF_BPE_NONE /* no node, too */
#define NEAR KMF_BPE_NEAR
#define NODE_PLACES 14
#define FEW 48 /* places sorted by insertion at most */
#define CAP_MIN 1024
#define MARGIN 16 /* that part of a block is encoded again with the next one */

typedef struct node {
    uint32_t next; /* the one filled before it; of an unused one the next unused one */
    uint32_t n;
    uint32_t place[NODE_PLACES];
} node;

struct kmf_bpe {
    const kmf_pairs *pairs; /* borrowed */
    size_t block;
    int32_t *tokens; /* owned [cap_tokens]: those of the blocks so far */
    size_t cap_tokens;
    size_t n_tokens;

    /* a block */
    size_t cap;
    int32_t *ids;     /* owned [cap] */
    uint32_t *found;  /* owned [cap]: the list that is taken */
    uint32_t *spare;  /* owned [cap]: for sorting it */
    node *nodes;      /* owned [most_nodes(cap)] */
    uint32_t n_used;  /* nodes that were ever used for this block */
    uint32_t unused;  /* the first of them that no list has */
    uint32_t *head;   /* owned [pairs->n]: the newest node of a rank's list */
    uint64_t *marks;  /* owned: bit r is set if list r is not empty */
    uint64_t *marked; /* owned: bit w is set if marks[w] is not zero */
    size_t n_marked;
};

/* ---- pairs --------------------------------------------------------------------------------- */

/* The upper half of the pair's product with 2^64 divided by the golden ratio. */
static uint32_t tag_of(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32);
}

/* The slot of the pair, or the free one in which it would stand. */
static kmf_pair_slot *look_up(const kmf_pairs *p, int32_t left, int32_t right)
{
    uint32_t tag = tag_of(left, right);
    for (size_t i = tag;; i++) {
        kmf_pair_slot *slot = &p->slots[i & p->mask];
        if (slot->rank == NONE)
            return slot;
        if (slot->tag != tag)
            continue;
        const kmf_pair *pair = &p->by_rank[slot->rank].pair;
        if (pair->left == left && pair->right == right)
            return slot;
    }
}

/* NONE: not in the list. */
static uint32_t rank_of(const kmf_pairs *p, int32_t left, int32_t right)
{
    if (left < NEAR && right < NEAR)
        return p->near[left * NEAR + right];
    return look_up(p, left, right)->rank;
}

kmf_pairs *kmf_pairs_new(size_t n, size_t n_tokens, kmf_err *err)
{
    size_t n_slots = 2;
    kmf_pairs *p = kmf_calloc(1, sizeof *p, err);
    if (!p)
        return NULL;
    while (n_slots < 2 * n)
        n_slots *= 2;
    p->mask = n_slots - 1;
    p->by_rank = kmf_malloc(n, sizeof *p->by_rank, err);
    p->letters = kmf_calloc(n_tokens, sizeof *p->letters, err);
    p->near = kmf_malloc((size_t)NEAR * NEAR, sizeof *p->near, err);
    p->slots = kmf_large(n_slots, sizeof *p->slots, err);
    if (!p->by_rank || !p->letters || !p->near || !p->slots) {
        kmf_pairs_free(p);
        return NULL;
    }
    memset(p->near, 0xff, (size_t)NEAR * NEAR * sizeof *p->near);
    memset(p->slots, 0xff, n_slots * sizeof *p->slots);
    return p;
}

void kmf_pairs_free(kmf_pairs *pairs)
{
    if (!pairs)
        return;
    kmf_free(pairs->by_rank);
    kmf_free(pairs->slots);
    kmf_free(pairs->near);
    kmf_free(pairs->letters);
    kmf_free(pairs);
}

bool kmf_pairs_add(kmf_pairs *pairs, const kmf_pair *pair)
{
    kmf_pair_slot *slot = look_up(pairs, pair->left, pair->right);
    uint32_t rank = (uint32_t)pairs->n;
    if (slot->rank != NONE)
        return false;
    slot->tag = tag_of(pair->left, pair->right);
    slot->rank = rank;
    if (pair->left < NEAR && pair->right < NEAR)
        pairs->near[pair->left * NEAR + pair->right] = rank;
    pairs->by_rank[pairs->n++] = (kmf_ranked_pair){
        .pair = *pair, .left_n = pairs->letters[pair->left], .n = pairs->letters[pair->result]};
    return true;
}

/* ---- room ---------------------------------------------------------------------------------- */

kmf_bpe *kmf_bpe_new(const kmf_pairs *pairs, size_t block, kmf_err *err)
{
    size_t n_marks = pairs->n / 64 + 1;
    kmf_bpe *b = kmf_calloc(1, sizeof *b, err);
    if (!b)
        return NULL;
    b->pairs = pairs;
    b->block = block;
    b->n_marked = n_marks / 64 + 1;
    b->head = kmf_malloc(pairs->n, sizeof *b->head, err);
    b->marks = kmf_calloc(n_marks, sizeof *b->marks, err);
    b->marked = kmf_calloc(b->n_marked, sizeof *b->marked, err);
    if (!b->head || !b->marks || !b->marked) {
        kmf_bpe_free(b);
        return NULL;
    }
    memset(b->head, 0xff, pairs->n * sizeof *b->head);
    return b;
}

static void free_room(kmf_bpe *b)
{
    kmf_free(b->ids);
    kmf_free(b->nodes);
    kmf_free(b->found);
    kmf_free(b->spare);
    b->ids = NULL;
    b->nodes = NULL;
    b->found = b->spare = NULL;
    b->cap = 0;
}

void kmf_bpe_free(kmf_bpe *bpe)
{
    if (!bpe)
        return;
    free_room(bpe);
    kmf_free(bpe->head);
    kmf_free(bpe->marks);
    kmf_free(bpe->marked);
    kmf_free(bpe->tokens);
    kmf_free(bpe);
}

static size_t most_nodes(const kmf_bpe *b, size_t n)
{
    size_t lists = kmf_min(b->pairs->n, 2 * n);
    return 2 * n / NODE_PLACES + lists + 1;
}

/* For a block of n letters. */
static int make_room(kmf_bpe *b, size_t n, kmf_err *err)
{
    if (n <= b->cap)
        return 0;
    if (n >= UINT32_MAX)
        return kmf_fail(err, KMF_ENOMEM,
                        "%zu letters that cannot be encoded in parts; at most %" PRIu32
                        " are supported",
                        n, UINT32_MAX - 1);
    size_t cap = b->cap ? 2 * b->cap : CAP_MIN;
    cap = kmf_max(cap, n);
    free_room(b);
    b->ids = kmf_large(cap, sizeof *b->ids, err);
    b->nodes = kmf_large(most_nodes(b, cap), sizeof *b->nodes, err);
    b->found = kmf_large(cap, sizeof *b->found, err);
    b->spare = kmf_large(cap, sizeof *b->spare, err);
    if (!b->ids || !b->nodes || !b->found || !b->spare) {
        free_room(b);
        return KMF_ENOMEM;
    }
    b->cap = cap;
    return 0;
}

/* ---- candidates ---------------------------------------------------------------------------- */

static void mark(kmf_bpe *b, uint32_t rank)
{
    b->marks[rank / 64] |= (uint64_t)1 << rank % 64;
    b->marked[rank / 64 / 64] |= (uint64_t)1 << rank / 64 % 64;
}

static void unmark(kmf_bpe *b, uint32_t rank)
{
    b->marks[rank / 64] &= ~((uint64_t)1 << rank % 64);
    if (b->marks[rank / 64] == 0)
        b->marked[rank / 64 / 64] &= ~((uint64_t)1 << rank / 64 % 64);
}

static unsigned lowest_bit(uint64_t x)
{
    return (unsigned)__builtin_ctzll(x);
}

/* The lowest rank whose list is not empty, or NONE; none below `from` is. */
static uint32_t lowest_rank(const kmf_bpe *b, uint32_t from)
{
    for (size_t i = from / 64 / 64; i < b->n_marked; i++)
        if (b->marked[i]) {
            size_t word = i * 64 + lowest_bit(b->marked[i]);
            return (uint32_t)(word * 64 + lowest_bit(b->marks[word]));
        }
    return NONE;
}

static void push(kmf_bpe *b, uint32_t rank, size_t place)
{
    uint32_t newest = b->head[rank];
    if (newest == NONE || b->nodes[newest].n == NODE_PLACES) {
        uint32_t fresh = b->unused;
        if (fresh != NONE)
            b->unused = b->nodes[fresh].next;
        else
            fresh = b->n_used++;
        b->nodes[fresh].next = newest;
        b->nodes[fresh].n = 0;
        b->head[rank] = fresh;
        if (newest == NONE)
            mark(b, rank);
        newest = fresh;
    }
    node *to = &b->nodes[newest];
    to->place[to->n++] = (uint32_t)place;
}

/* Sorts n places below `end`; where they are then. */
static const uint32_t *in_order(uint32_t *places, uint32_t *spare, size_t n, size_t end)
{
    size_t i = 1;
    while (i < n && places[i - 1] < places[i])
        i++;
    if (n > FEW && i < n) {
        unsigned bits = 64 - (unsigned)__builtin_clzll(end);
        return kmf_radix_sort_32(places, spare, n, bits);
    }
    for (; i < n; i++) {
        uint32_t place = places[i];
        size_t to = i;
        for (; to > 0 && places[to - 1] > place; to--)
            places[to] = places[to - 1];
        places[to] = place;
    }
    return places;
}

/* Takes the list of a rank, which is empty afterwards: its places in order, *n of them. */
static const uint32_t *take(kmf_bpe *b, uint32_t rank, size_t end, size_t *n)
{
    uint32_t last = NONE;
    size_t at = 0;
    for (uint32_t i = b->head[rank]; i != NONE; i = b->nodes[i].next)
        at += b->nodes[i].n;
    *n = at;
    for (uint32_t i = b->head[rank]; i != NONE; i = b->nodes[i].next) {
        at -= b->nodes[i].n;
        memcpy(b->found + at, b->nodes[i].place, b->nodes[i].n * sizeof *b->found);
        last = i;
    }
    b->nodes[last].next = b->unused;
    b->unused = b->head[rank];
    b->head[rank] = NONE;
    unmark(b, rank);
    return in_order(b->found, b->spare, *n, end);
}

/* ---- merging ------------------------------------------------------------------------------- */

/* Of the pair's letters, which stand at beg, one token. */
static void join(int32_t *ids, size_t beg, const kmf_ranked_pair *ranked)
{
    ids[beg + ranked->left_n - 1] = -1;
    ids[beg + ranked->left_n] = -1;
    ids[beg] = ranked->pair.result;
    ids[beg + ranked->n - 1] = ranked->pair.result;
}

/*
 * The token of m letters at beg makes pairs with its neighbours. Merges those of a rank below
 * `rank`, the lowest first, the left one if equal, and so on with what comes of it; notes the
 * others.
 */
static void settle(kmf_bpe *b, size_t beg, size_t m, size_t n, uint32_t rank)
{
    const kmf_pairs *p = b->pairs;
    int32_t *ids = b->ids;
    for (;;) {
        int32_t id = ids[beg];
        size_t end = beg + m;
        uint32_t left = beg > 0 ? rank_of(p, ids[beg - 1], id) : NONE;
        uint32_t right = end < n ? rank_of(p, id, ids[end]) : NONE;
        if (left >= rank && right >= rank) {
            if (left != NONE)
                push(b, left, beg - p->by_rank[left].left_n);
            if (right != NONE)
                push(b, right, beg);
            return;
        }
        const kmf_ranked_pair *next = &p->by_rank[left <= right ? left : right];
        if (left <= right)
            beg -= next->left_n;
        join(ids, beg, next);
        m = next->n;
    }
}

/* Merges all that can be merged in ids [n]. */
static void merge(kmf_bpe *b, size_t n)
{
    const kmf_pairs *p = b->pairs;
    int32_t *ids = b->ids;
    b->unused = NONE;
    b->n_used = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        uint32_t rank = rank_of(p, ids[i], ids[i + 1]);
        if (rank != NONE)
            push(b, rank, i);
    }
    for (uint32_t rank = 0; (rank = lowest_rank(b, rank)) != NONE;) {
        kmf_ranked_pair ranked = p->by_rank[rank];
        size_t n_found;
        const uint32_t *found = take(b, rank, n, &n_found);
        for (size_t i = 0; i < n_found; i++) {
            size_t at = found[i];
            if (ids[at] != ranked.pair.left || ids[at + ranked.left_n] != ranked.pair.right)
                continue;
            join(ids, at, &ranked);
            settle(b, at, ranked.n, n, rank);
        }
    }
}

/* ---- blocks -------------------------------------------------------------------------------- */

static int encode_block(kmf_bpe *b, const unsigned char *text, size_t n,
                        const int32_t letter[256], kmf_err *err)
{
    if (make_room(b, n, err) < 0 ||
        kmf_grow(&b->tokens, &b->cap_tokens, b->n_tokens + n, sizeof *b->tokens, err) < 0)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n; i++)
        b->ids[i] = letter[text[i]];
    merge(b, n);
    return 0;
}

/* 1; 0 if a block does not begin with the token that the one before it says; or KMF_ENOMEM. */
static int encode_in_blocks(kmf_bpe *b, const unsigned char *text, size_t n,
                            const int32_t letter[256], size_t block, kmf_err *err)
{
    int32_t next = -1;
    b->n_tokens = 0;
    for (size_t beg = 0; beg < n;) {
        bool last = n - beg <= block;
        size_t len = last ? n - beg : block;
        size_t end = last ? len : len - len / MARGIN - 1;
        size_t at = 0;
        int rc = encode_block(b, text + beg, len, letter, err);
        if (rc < 0)
            return rc;
        if (beg > 0 && b->ids[0] != next)
            return 0;
        while (at < end && at + b->pairs->letters[b->ids[at]] <= end) {
            b->tokens[b->n_tokens++] = b->ids[at];
            at += b->pairs->letters[b->ids[at]];
        }
        if (at == 0)
            return 0;
        next = last ? -1 : b->ids[at];
        beg += at;
    }
    return 1;
}

const int32_t *kmf_bpe_encode(kmf_bpe *bpe, const unsigned char *text, size_t n,
                              const int32_t letter[256], size_t *n_tokens, kmf_err *err)
{
    int done;
    for (size_t block = bpe->block;; block *= 2) {
        done = encode_in_blocks(bpe, text, n, letter, block, err);
        if (done != 0)
            break;
    }
    *n_tokens = bpe->n_tokens;
    return done > 0 ? bpe->tokens : NULL;
}
