/* SPDX-License-Identifier: MIT */
/*
 * The parameters are cut into blocks of at most BLOCK numbers of one tensor; a block is an item of
 * work. The norm is the sum of the blocks' sums, in the order of the blocks.
 */
#include "learn/update.h"

#include "base/mem.h"
#include "nn/ops.h"
#include "seq/par.h"

#include <math.h>
#include <string.h>

#define BLOCK ((size_t)1 << 16)

typedef struct block {
    size_t begin, n;
    bool decays;
    double squares;
} block;

struct kmf_update {
    const kmf_slots *slots; /* borrowed */
    kmf_pool *pool;         /* borrowed */
    block *blocks;          /* owned [n] */
    size_t n;
    /* of the call under way */
    float *w, *m, *v;
    const float *g;
    const kmf_adamw_step *step;
};

static size_t blocks_of(const kmf_slots *slots)
{
    size_t n = 0;
    for (size_t i = 0; i < slots->n; i++)
        n += kmf_div_up(slots->slot[i].n, BLOCK);
    return n;
}

uint64_t kmf_update_bytes(const kmf_slots *slots)
{
    return sizeof(kmf_update) + blocks_of(slots) * sizeof(block);
}

static bool is_learnt(const kmf_slot *slot, int learn)
{
    return learn & (slot->row->part == KMF_PART_COMPOSITION ? KMF_LEARN_COMPOSITION
                                                            : KMF_LEARN_ENCODER);
}

kmf_update *kmf_update_new(const kmf_slots *slots, int learn, kmf_pool *pool, kmf_err *err)
{
    kmf_update *u = kmf_calloc(1, sizeof *u, err);
    if (!u)
        return NULL;
    u->slots = slots;
    u->pool = pool;
    u->blocks = kmf_calloc(blocks_of(slots), sizeof *u->blocks, err);
    if (!u->blocks) {
        kmf_free(u);
        return NULL;
    }
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        for (size_t at = 0; at < slot->n && is_learnt(slot, learn); at += BLOCK)
            u->blocks[u->n++] = (block){.begin = slot->begin + at,
                                        .n = kmf_min(slot->n - at, BLOCK),
                                        .decays = slot->rank == 2};
    }
    return u;
}

void kmf_update_free(kmf_update *update)
{
    if (!update)
        return;
    kmf_free(update->blocks);
    kmf_free(update);
}

static int clear_block(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_update *u = arg;
    const block *b = &u->blocks[i];
    (void)worker;
    (void)err;
    memset(u->w + b->begin, 0, b->n * sizeof *u->w);
    return 0;
}

int kmf_update_clear(kmf_update *update, float *g, kmf_err *err)
{
    update->w = g;
    return kmf_pool_each(update->pool, update->n, clear_block, update, err);
}

static int add_block(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_update *u = arg;
    const block *b = &u->blocks[i];
    (void)worker;
    (void)err;
    kmf_residual_forward(u->w + b->begin, b->n, u->g + b->begin, b->n, NULL, 1, b->n);
    return 0;
}

int kmf_update_add(kmf_update *update, float *a, const float *b, kmf_err *err)
{
    update->w = a;
    update->g = b;
    return kmf_pool_each(update->pool, update->n, add_block, update, err);
}

static int square_block(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_update *u = arg;
    block *b = &u->blocks[i];
    (void)worker;
    (void)err;
    b->squares = kmf_squares(u->g + b->begin, b->n);
    return 0;
}

int kmf_update_norm(kmf_update *update, double *norm, const float *g, kmf_err *err)
{
    double sum = 0;
    update->g = g;
    int status = kmf_pool_each(update->pool, update->n, square_block, update, err);
    for (size_t i = 0; i < update->n; i++)
        sum += update->blocks[i].squares;
    *norm = sqrt(sum);
    return status;
}

const char *kmf_update_broken(const kmf_update *update, const float *g)
{
    for (size_t i = 0; i < update->slots->n; i++) {
        const kmf_slot *slot = &update->slots->slot[i];
        for (size_t j = 0; j < slot->n; j++)
            if (!isfinite(g[slot->begin + j]))
                return slot->name;
    }
    return NULL;
}

static int step_block(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_update *u = arg;
    const block *b = &u->blocks[i];
    kmf_adamw_step step = *u->step;
    (void)worker;
    (void)err;
    if (!b->decays)
        step.decay = 0;
    kmf_adamw_update(u->w + b->begin, u->m + b->begin, u->v + b->begin, u->g + b->begin, b->n,
                     &step);
    return 0;
}

int kmf_update_step(kmf_update *update, float *w, float *m, float *v, const float *g,
                    const kmf_adamw_step *step, kmf_err *err)
{
    update->w = w;
    update->m = m;
    update->v = v;
    update->g = g;
    update->step = step;
    return kmf_pool_each(update->pool, update->n, step_block, update, err);
}
