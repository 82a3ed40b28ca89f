/* SPDX-License-Identifier: MIT */
/*
 * The rows of one file that are nearest to those of another, by products of rows of length 1.
 *
 *   references  mapped     -> some thousands at a time, scaled to length 1 and packed for products,
 *                             in panels of 256: a panel by one thread
 *   queries     mapped     -> a batch, as many as 64 MB hold, or as are answered in some ten
 *                             seconds, scaled likewise
 *   products    [96, 256]  -> a tile of queries by a panel: all panels of the block by one thread
 *   cosines     in double  -> of those pairs whose product says that they may be among the best,
 *                             offered to the best of the query (model/best.h)
 *
 * A product of two rows of length 1, K numbers each, is off by less than (K + 2) 2^-24 in whatever
 * order it is summed (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1), so one
 * that is that much below the worst of the best is not needed, and no other is left out: what is
 * found depends neither on threads nor on the processor's kernels. A few hundred pairs of a million
 * are asked for in double, and more only where many rows are nearly equal.
 *
 * A block is read and packed once for a whole batch, so the file is gone over once for each batch;
 * of 1000 queries in 136 columns that is a tenth of the time, products are four fifths.
 *
 * Why no index: it would answer in less time once it is made, but not always rightly; and what a
 * user has are genomes in thousands or contigs in millions, a second or a minute for 1000 reads.
 */
#include "base/crc.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "embed/mapped.h"
#include "embed/rowfile.h"
#include "embed/rownearest.h"
#include "model/best.h"
#include "nn/gemm.h"
#include "nn/lanes.h"
#include "seq/par.h"
#include "seq/text.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#define TILE KMF_TILE            /* queries of a product, at most */
#define PANEL ((size_t)256)      /* references of a product, at most */
#define PANEL_LEAST ((size_t)16) /* of long rows; others have */
#define PANEL_NUMBERS ((size_t)256 << 10)
#define BLOCK_NUMBERS ((size_t)2 << 20)
#define BATCH_BYTES ((size_t)64 << 20)
#define BATCH_WORK 1e12 /* products of numbers; some ten seconds, after which there are */
#define BATCH_LEAST ((size_t)4096) /* answers: so that packing takes no more than a fortieth */
#define LANES 8
#define AT_ONCE ((size_t)32)  /* cosines that are looked at together: few are any good */
#define PART ((size_t)32)     /* queries that a thread reads at a time */
#define PASSED ((size_t)4096) /* queries that are passed over at a time */

/* What rows are called. */
typedef struct names {
    kmf_text text; /* owned */
    size_t *at;    /* owned: places in it */
    size_t n, cap;
} names;

struct kmf_row_search {
    kmf_row_file *references; /* borrowed, as the pool */
    kmf_pool *pool;
    kmf_row_file_info info; /* of the references */
    size_t most;            /* neighbours of a query */
    names names;            /* none, if rows are numbered */
    char number[KMF_UINT_TEXT + 1];
    kmf_search_mark done;
    kmf_search_mark passed; /* queries that an earlier search has answered, given once more */
    uint64_t n_before;      /* that it has answered */
    uint32_t sum_before;
};

/* One file of queries. */
typedef struct asking {
    kmf_row_search *search; /* borrowed, as the file */
    kmf_row_file *queries;
    int itself;
    size_t dim;
    /* References. */
    uint64_t first; /* row of the block's first one */
    size_t panels;  /* of a block at most, and */
    size_t panel;   /* rows of one, at most */
    size_t packed_each;
    float *packed;  /* owned [panels, packed_each] */
    uint64_t *rows; /* owned [panels, panel]: those that have a direction */
    size_t *filled; /* owned [panels]: how many these are */
    float *unit;    /* owned [panels, panel, dim]: these rows */
    float error;    /* of a product, at most */
    /* Queries. */
    uint64_t before; /* rows of the file that were read already, and */
    uint64_t done;   /* those before the batch */
    size_t batch;    /* rows of one at most */
    size_t n;        /* of this one */
    size_t tile;     /* queries of a product, in this one */
    names names;
    float *x;             /* owned [batch, dim] */
    kmf_neighbour *lists; /* owned [batch, search->most] */
    kmf_best *best;       /* owned [batch]; without a direction there is room for none */
    float *products;      /* owned [workers, TILE, panel] */
    kmf_progress_fn *fn;
    void *user;
} asking;

/* ---------------------------------------------------------------- names ----------------- */

static void free_names(names *n)
{
    kmf_free(n->text.bytes);
    kmf_free(n->at);
}

/* In place of those that are there, the names of the next rows, at most so many. */
static int read_names(names *to, kmf_row_file *file, uint64_t most, kmf_err *err)
{
    kmf_row row;
    to->n = to->text.len = 0;
    while (to->n < most) {
        int got = kmf_row_file_line(file, &row, err);
        if (got <= 0)
            return got;
        if (kmf_grow(&to->at, &to->cap, to->n + 1, sizeof *to->at, err) < 0)
            return KMF_ENOMEM;
        to->at[to->n++] = to->text.len;
        got = kmf_text_append(&to->text, row.name, strlen(row.name) + 1, err);
        if (got < 0)
            return got;
    }
    return 0;
}

/* ---------------------------------------------------------------- the search ------------ */

static int begin(kmf_row_search *s, kmf_err *err)
{
    int status = kmf_row_file_check_records(s->references, err);
    if (status == 0 && kmf_row_file_at(s->references) > 0)
        status = kmf_fail(err, KMF_EINVAL, "rows of the references were read before");
    if (status == 0 && s->info.named)
        status = read_names(&s->names, s->references, UINT64_MAX, err);
    return status;
}

kmf_row_search *kmf_row_search_new(kmf_row_file *references, size_t n, kmf_pool *pool,
                                   kmf_err *err)
{
    if (n == 0) {
        kmf_fail(err, KMF_EINVAL, "no neighbours are asked for");
        return NULL;
    }
    kmf_row_search *s = kmf_calloc(1, sizeof *s, err);
    if (!s)
        return NULL;
    s->references = references;
    s->pool = pool;
    kmf_row_file_information(references, &s->info);
    s->most = n < s->info.n ? n : kmf_max((size_t)s->info.n, 1);
    if (begin(s, err) == 0)
        return s;
    kmf_row_search_free(s);
    return NULL;
}

void kmf_row_search_free(kmf_row_search *search)
{
    if (!search)
        return;
    free_names(&search->names);
    kmf_free(search);
}

const char *kmf_row_search_name(kmf_row_search *search, uint64_t row)
{
    if (search->info.named)
        return search->names.text.bytes + search->names.at[row];
    search->number[kmf_format_uint(search->number, row + 1)] = '\0';
    return search->number;
}

void kmf_row_search_statistics(const kmf_row_search *search, kmf_row_search_stats *stats)
{
    *stats = search->done.stats;
}

kmf_search_mark kmf_row_search_done(const kmf_row_search *s)
{
    return s->done;
}

void kmf_row_search_given(kmf_row_search *s, const kmf_search_mark *mark)
{
    s->done = *mark;
    s->n_before = mark->stats.queries;
    s->sum_before = mark->sum;
}

size_t kmf_row_search_most(const kmf_row_search *s)
{
    return s->most;
}

uint32_t kmf_row_search_checksum(const kmf_row_search *s)
{
    uint32_t sum = kmf_row_file_checksum(s->references, 0, 0, s->info.n);
    return kmf_crc32(sum, s->names.text.bytes, s->names.text.len);
}

/* ---------------------------------------------------------------- rows ------------------ */

/* x [dim] = a row, of length 1. 1; 0: it has no direction; or a negative kmf_code. */
static int read_direction(float *x, const kmf_row_file *file, uint64_t row, size_t dim,
                          kmf_err *err)
{
    int status = kmf_row_file_vector(file, row, x, err);
    return status < 0 ? status : kmf_row_to_unit(x, dim);
}

/* A kmf_item_fn, as are the others: a panel of the block. */
static int pack_panel(void *arg, size_t p, int worker, kmf_err *err)
{
    asking *a = arg;
    uint64_t first = a->first + p * a->panel;
    uint64_t left = a->search->info.n - first;
    size_t n = left < a->panel ? (size_t)left : a->panel;
    float *unit = a->unit + p * a->panel * a->dim;
    size_t m = 0;
    (void)worker;
    for (size_t i = 0; i < n; i++) {
        int got =
            read_direction(unit + m * a->dim, a->search->references, first + i, a->dim, err);
        if (got < 0)
            return got;
        a->rows[p * a->panel + m] = first + i;
        m += got > 0;
    }
    a->filled[p] = m;
    if (m > 0)
        kmf_gemm_inner_pack(a->packed + p * a->packed_each, unit, a->dim, m, a->dim,
                            KMF_GEMM_TB);
    return 0;
}

static int read_part(void *arg, size_t part, int worker, kmf_err *err)
{
    asking *a = arg;
    size_t end = kmf_min((part + 1) * PART, a->n);
    (void)worker;
    for (size_t i = part * PART; i < end; i++) {
        float *x = a->x + i * a->dim;
        int got = read_direction(x, a->queries, a->done + i, a->dim, err);
        if (got < 0)
            return got;
        if (got == 0)
            memset(x, 0, a->dim * sizeof *x);
        a->best[i] = (kmf_best){.list = a->lists + i * a->search->most,
                                .cap = got > 0 ? a->search->most : 0};
    }
    return 0;
}

/* ---------------------------------------------------------------- cosines --------------- */

/* Of rows of length 1. Lanes without a fused multiply-add: the same bits on every processor. */
static float cosine(const float *x, const float *y, size_t dim)
{
    double sum[LANES] = {0};
    size_t d = 0;
    for (; d + LANES <= dim; d += LANES)
        for (size_t l = 0; l < LANES; l++)
            sum[l] += (double)x[d + l] * (double)y[d + l];
    for (size_t l = 0; d + l < dim; l++)
        sum[l] += (double)x[d + l] * (double)y[d + l];
    return (float)kmf_fold_lanes(sum, LANES);
}

/* To query i of the batch the rows of panel p, by their products with it. */
static void offer(asking *a, size_t i, size_t p, const float *products)
{
    kmf_best *best = &a->best[i];
    const float *x = a->x + i * a->dim;
    const float *unit = a->unit + p * a->panel * a->dim;
    const uint64_t *rows = a->rows + p * a->panel;
    size_t n = a->filled[p];
    uint64_t own = a->itself ? a->done + i : UINT64_MAX;
    float floor = kmf_best_floor(best) - a->error;
    for (size_t beg = 0; beg < n; beg += AT_ONCE) {
        size_t end = kmf_min(beg + AT_ONCE, n);
        int any = 0;
        for (size_t j = beg; j < end; j++)
            any |= products[j] > floor;
        for (size_t j = beg; any && j < end; j++)
            if (products[j] > floor && rows[j] != own) {
                float value = cosine(x, unit + j * a->dim, a->dim);
                kmf_best_offer(best, (kmf_neighbour){(size_t)rows[j], value});
                floor = kmf_best_floor(best) - a->error;
            }
    }
}

static int compare_tile(void *arg, size_t t, int worker, kmf_err *err)
{
    asking *a = arg;
    size_t beg = t * a->tile;
    size_t n = kmf_min(a->n - beg, a->tile);
    float *products = a->products + (size_t)worker * TILE * a->panel;
    (void)err;
    for (size_t p = 0; p < a->panels; p++) {
        size_t m = a->filled[p];
        if (m == 0)
            continue;
        kmf_gemm_inner_packed(products, a->panel, a->x + beg * a->dim, a->dim,
                              a->packed + p * a->packed_each, n, m, a->dim, 0);
        for (size_t i = 0; i < n; i++)
            offer(a, beg + i, p, products + i * a->panel);
    }
    return 0;
}

/* The batch against all references. */
static int compare_batch(asking *a, kmf_err *err)
{
    kmf_row_search *s = a->search;
    uint64_t without = 0;
    int status = 0;
    size_t workers = (size_t)kmf_pool_threads(s->pool) + 1;
    a->tile = kmf_min(TILE, kmf_div_up(a->n, workers));
    for (a->first = 0; a->first < s->info.n && status == 0; a->first += a->panels * a->panel) {
        uint64_t left = s->info.n - a->first;
        size_t block = a->panels * a->panel;
        block = left < block ? (size_t)left : block;
        size_t panels = kmf_div_up(block, a->panel);
        memset(a->filled, 0, a->panels * sizeof *a->filled);
        status = kmf_pool_each(s->pool, panels, pack_panel, a, err);
        if (status == 0)
            status = kmf_pool_each(s->pool, kmf_div_up(a->n, a->tile), compare_tile, a, err);
        without += block;
        for (size_t p = 0; p < panels; p++)
            without -= a->filled[p];
        if (status == 0 && a->fn)
            a->fn(a->user, (a->done - a->before) * s->info.n + a->n * (a->first + block));
    }
    if (status == 0)
        s->done.stats.references_without = without;
    return status;
}

static const char *name_of(const asking *a, size_t i)
{
    return a->names.text.bytes + a->names.at[i];
}

/* Query i of those whose names are there. */
static void count_query(kmf_search_mark *done, const asking *a, size_t i)
{
    const char *name = name_of(a, i);
    done->stats.queries++;
    const unsigned char itself = a->itself != 0;
    done->sum = kmf_row_file_checksum(a->queries, done->sum, a->done + i, 1);
    done->sum = kmf_crc32(done->sum, name, strlen(name));
    done->sum = kmf_crc32(done->sum, &itself, 1);
}

static int answer_batch(asking *a, kmf_row_search_fn *answer, void *user, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < a->n && status == 0; i++) {
        kmf_best *best = &a->best[i];
        kmf_best_sort(best);
        status = kmf_answered(
            answer(user, a->done + i, name_of(a, i), best->list, best->n, err), err);
        if (status < 0)
            break;
        count_query(&a->search->done, a, i);
        a->search->done.stats.queries_without += best->cap == 0;
    }
    return status;
}

/* Of an earlier search; are they what they were then? */
static int pass_over(asking *a, kmf_err *err)
{
    kmf_row_search *s = a->search;
    uint64_t left;
    while ((left = s->n_before - s->passed.stats.queries) > 0) {
        int status = read_names(&a->names, a->queries, left < PASSED ? left : PASSED, err);
        if (status < 0 || a->names.n == 0)
            return status;
        for (size_t i = 0; i < a->names.n; i++)
            count_query(&s->passed, a, i);
        a->done += a->names.n;
        if (a->names.n == left && s->passed.sum != s->sum_before)
            return kmf_fail(err, KMF_EMODEL,
                            "the first %" PRIu64
                            " queries are not those whose neighbours were found before",
                            s->n_before);
    }
    return 0;
}

/* ---------------------------------------------------------------- a file ---------------- */

static int make_room(asking *a, uint64_t n, kmf_err *err)
{
    const kmf_row_search *s = a->search;
    size_t dim = a->dim = s->info.dim;
    size_t workers = (size_t)kmf_pool_threads(s->pool) + 1;
    size_t each; /* bytes of a query */
    if (!kmf_mul(s->most, sizeof *a->lists, &each) ||
        !kmf_add(each, dim * sizeof *a->x + sizeof *a->best, &each))
        return kmf_fail(err, KMF_ENOMEM, "out of memory: %zu neighbours of a row", s->most);
    /* Twice the bound: rows are of length 1 but nearly, and their cosines are rounded. */
    a->error = (float)(dim + 2) * FLT_EPSILON;
    double work = (double)s->info.n * (double)dim; /* of a query */
    a->batch = BATCH_BYTES / each;
    if ((double)a->batch * work > BATCH_WORK)
        a->batch = kmf_min(a->batch, kmf_max((size_t)(BATCH_WORK / work), BATCH_LEAST));
    a->batch = kmf_max(n < a->batch ? (size_t)n : a->batch, 1);
    a->panel = kmf_min(PANEL, kmf_max(PANEL_NUMBERS / dim, PANEL_LEAST));
    a->panels = kmf_max(BLOCK_NUMBERS / (a->panel * dim), workers);
    if (s->info.n < a->panels * a->panel)
        a->panels = kmf_div_up((size_t)s->info.n, a->panel);
    a->packed_each = kmf_gemm_inner_floats(a->panel, dim, KMF_GEMM_TB);
    a->packed = kmf_large(a->panels, a->packed_each * sizeof *a->packed, err);
    a->rows = kmf_malloc(a->panels * a->panel, sizeof *a->rows, err);
    a->filled = kmf_malloc(a->panels, sizeof *a->filled, err);
    a->unit = kmf_large(a->panels, a->panel * dim * sizeof *a->unit, err);
    a->products = kmf_floats(workers * TILE * a->panel, err);
    a->x = kmf_large(a->batch, dim * sizeof *a->x, err);
    a->lists = kmf_large(a->batch, s->most * sizeof *a->lists, err);
    a->best = kmf_malloc(a->batch, sizeof *a->best, err);
    return a->packed && a->rows && a->filled && a->unit && a->products && a->x && a->lists &&
                   a->best
               ? 0
               : KMF_ENOMEM;
}

static void free_room(asking *a)
{
    free_names(&a->names);
    kmf_free(a->packed);
    kmf_free(a->rows);
    kmf_free(a->filled);
    kmf_free(a->unit);
    kmf_free(a->products);
    kmf_free(a->x);
    kmf_free(a->lists);
    kmf_free(a->best);
}

int kmf_row_search_ask(kmf_row_search *search, kmf_row_file *queries, int itself,
                       kmf_row_search_fn *answer, void *answer_user, kmf_progress_fn *fn,
                       void *fn_user, kmf_err *err)
{
    asking a = {
        .search = search, .queries = queries, .itself = itself, .fn = fn, .user = fn_user};
    kmf_row_file_info info;
    if (queries == search->references)
        return kmf_fail(err, KMF_EINVAL,
                        "the references' own file was given as queries: it is opened twice");
    a.done = a.before = kmf_row_file_at(queries);
    kmf_row_file_information(queries, &info);
    int status = kmf_row_file_check_records(queries, err);
    if (status == 0)
        status = kmf_row_file_check_alike(queries, search->references, err);
    if (status == 0)
        status = pass_over(&a, err);
    if (status == 0)
        status = make_room(&a, info.n - a.done, err);
    while (status == 0 && (status = read_names(&a.names, queries, a.batch, err)) == 0) {
        a.n = a.names.n;
        if (a.n == 0)
            break;
        status = kmf_pool_each(search->pool, kmf_div_up(a.n, PART), read_part, &a, err);
        if (status == 0)
            status = compare_batch(&a, err);
        if (status == 0)
            status = answer_batch(&a, answer, answer_user, err);
        a.done += a.n;
    }
    if (status == 0)
        status = kmf_row_file_check_bytes(search->references, err);
    if (status == 0)
        status = kmf_row_file_check_bytes(queries, err);
    free_room(&a);
    return status;
}

int kmf_row_search_finish(const kmf_row_search *search, kmf_err *err)
{
    if (search->passed.stats.queries >= search->n_before)
        return 0;
    return kmf_fail(err, KMF_EMODEL,
                    "%" PRIu64 " queries, and neighbours of %" PRIu64 " were found before",
                    search->passed.stats.queries, search->n_before);
}
