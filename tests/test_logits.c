/* SPDX-License-Identifier: MIT */
/*
 * Logits of streams of sequences against one encoder that takes one pass after another, by any
 * number of threads, of all masks. What an encoder's logits are is in test_families.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "kmerformer.h"
#include "models.h"
#include "run.h"

#include <math.h>

#define RECORDS 60
#define SEQ_MAX 400
#define WINDOW 24
#define WIDE 300 /* two of them are more than the 512 tokens of a job */
#define ROWS_MAX 20000

typedef struct seen {
    uint64_t index, len, position;
    int32_t id;
    char name[16];
    float *values; /* owned [V] */
} seen;

typedef struct listed {
    size_t V, n;
    seen rows[ROWS_MAX];
    int64_t ends_at; /* fails at this row; -1: never */
    int ends_with;
} listed;

static char seqs[RECORDS][SEQ_MAX + 1];
static listed want, got;
static kmf_model *model;

static void clear(listed *l)
{
    for (size_t i = 0; i < l->n; i++)
        kmf_free(l->rows[i].values);
    l->n = 0;
    l->ends_at = -1;
    l->V = model->config.vocab_size;
}

/* Of a window that many of the sequences are longer than. */
static void make_scene(void)
{
    kmf_rng rng = kmf_rng_stream(11, 0);
    make_dir();
    model = kmf_model_load(GOLDEN, NULL);
    ck_assert_ptr_nonnull(model);
    model->config.window = WINDOW;
    clear(&want);
    for (size_t i = 0; i < RECORDS; i++) {
        size_t len = i % 9 == 0 ? SEQ_MAX - i : kmf_rng_below(&rng, 40);
        for (size_t j = 0; j < len; j++)
            seqs[i][j] = "ACGTN"[kmf_rng_below(&rng, i % 5 == 0 ? 5 : 4)];
        seqs[i][len] = '\0';
    }
}

/* Weights, which are those of the file, become a copy that can be changed. */
static float *copied[2];

static float *copy_of(float **weights, size_t n)
{
    float **to = copied[0] ? &copied[1] : &copied[0];
    *to = kmf_floats(n, NULL);
    memcpy(*to, *weights, n * sizeof **to);
    *weights = *to;
    return *to;
}

static void remove_scene(void)
{
    for (int i = 0; i < 2; i++) {
        kmf_free(copied[i]);
        copied[i] = NULL; /* the next test may be of the same process */
    }
    clear(&want);
    clear(&got);
    kmf_model_free(model);
    remove_dir();
}

static void add(listed *l, const seen *row, const char *name, const float *values)
{
    quick_assert(l->n < ROWS_MAX);
    seen *s = &l->rows[l->n++];
    *s = *row;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->values = kmf_floats(l->V, NULL);
    memcpy(s->values, values, l->V * sizeof *values);
}

static void name_of(char name[16], size_t i)
{
    snprintf(name, 16, "r%u", (unsigned)i);
}

static bool asked(const kmf_logits_options *o, const kmf_chunk *c, size_t t)
{
    bool is = o->n_spans == 0;
    for (size_t i = 0; i < o->n_spans; i++)
        for (uint64_t base = c->pos[t]; base < c->end[t]; base++)
            is = is || (o->spans[i].beg <= base && base < o->spans[i].end);
    return is && c->end[t] > 0;
}

/* The logits of token t of a pass. */
static void naive_row(kmf_encoder *e, const int32_t *ids, const kmf_chunk *c, size_t t,
                      size_t i)
{
    const size_t off[2] = {0, c->n};
    float *values = kmf_floats(want.V, NULL);
    char name[16];
    name_of(name, i);
    kmf_encoder_forward(e, ids, off, 1, model->config.n_layers);
    ck_assert_int_eq(kmf_encoder_logits(e, values, &t, 1, NULL), 0);
    const seen s = {.index = i, .len = strlen(seqs[i]), .position = c->pos[t], .id = c->ids[t]};
    add(&want, &s, name, values);
    kmf_free(values);
}

static void naive_chunk(kmf_encoder *e, const kmf_logits_options *o, const kmf_chunk *c,
                        size_t i)
{
    int32_t ids[WIDE];
    int32_t mask = kmf_vocab_special(kmf_model_vocab(model), KMF_MASK);
    for (size_t t = c->own_beg; t < c->own_end; t++) {
        if (!asked(o, c, t))
            continue;
        for (size_t u = 0; u < c->n; u++) {
            bool hidden =
                o->mask == KMF_LOGITS_MASK_TOGETHER ? asked(o, c, u) : o->mask && u == t;
            ids[u] = hidden ? mask : c->ids[u];
        }
        naive_row(e, ids, c, t, i);
    }
}

static void naive(const kmf_logits_options *o)
{
    const kmf_config *c = kmf_model_config(model);
    const kmf_vocab *vocab = kmf_model_vocab(model);
    const kmf_cut_options cut = {.stride = c->stride,
                                 .window = c->window,
                                 .overlap =
                                     kmf_config_overlap(c, vocab, c->window, c->specials),
                                 .specials = c->specials,
                                 .ambiguous = c->ambiguous,
                                 .policy = KMF_LONG_CHUNK};
    kmf_cutter *cutter = kmf_cutter_new(vocab, &cut, NULL);
    kmf_encoder *e = kmf_encoder_new(model, c->window, c->window, NULL);
    kmf_chunk chunk;
    clear(&want);
    for (size_t i = 0; i < RECORDS; i++) {
        kmf_cutter_start(cutter, "r", seqs[i], strlen(seqs[i]));
        while (kmf_cutter_next(cutter, &chunk, NULL) > 0)
            naive_chunk(e, o, &chunk, i);
    }
    kmf_encoder_free(e);
    kmf_cutter_free(cutter);
}

static int take(void *user, const kmf_logits_row *row, kmf_err *err)
{
    listed *l = user;
    (void)err;
    if ((int64_t)l->n == l->ends_at)
        return l->ends_with;
    quick_assert(!row->best);
    const seen s = {
        .index = row->index, .len = row->len, .position = row->position, .id = row->id};
    add(l, &s, row->name, row->values);
    return 0;
}

/* Of what was read and lost, what a cutter by itself finds. */
static void check_statistics(const kmf_embed_stats *stats)
{
    uint64_t bases = 0, ns = 0;
    for (size_t i = 0; i < RECORDS; i++) {
        bases += strlen(seqs[i]);
        ns += strchr(seqs[i], 'N') != NULL;
    }
    ck_assert_uint_eq(stats->records, RECORDS);
    ck_assert_uint_eq(stats->bases, bases);
    ck_assert_uint_gt(stats->chunked, 0);
    ck_assert_uint_ge(stats->ambiguous, ns);
}

/* The first n sequences. */
static int give_to(kmf_logits *l, size_t n, kmf_err *err)
{
    char name[16];
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        name_of(name, i);
        status = kmf_logits_add(l, name, seqs[i], strlen(seqs[i]), err);
        if (status == 0 && i == RECORDS / 3)
            status = kmf_logits_flush(l, err);
    }
    return status == 0 ? kmf_logits_finish(l, err) : status;
}

static int give(const kmf_logits_options *o, kmf_logits_fn *fn, void *user, kmf_err *err)
{
    kmf_embed_stats stats;
    kmf_logits *l = kmf_logits_new(model, o, fn, user, err);
    if (!l)
        return (int)err->code;
    int status = give_to(l, RECORDS, err);
    size_t out = got.n;
    if (status < 0 && status != KMF_ENOMEM) { /* allocations may still be failing */
        ck_assert_int_eq(kmf_logits_add(l, "more", seqs[1], strlen(seqs[1]), NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_logits_flush(l, NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_logits_finish(l, NULL), KMF_EINVAL);
        ck_assert_uint_eq(got.n, out);
    }
    kmf_logits_statistics(l, &stats);
    if (status == 0)
        check_statistics(&stats);
    if (status == 0 && fn == take && o->n_spans == 0) /* of all tokens those of A, C, G, T */
        ck_assert_uint_eq(stats.tokens, got.n);
    kmf_logits_free(l);
    return status;
}

static void check_rows(const char *what)
{
    ck_assert_uint_eq(got.n, want.n);
    for (size_t i = 0; i < got.n; i++) {
        const seen *a = &got.rows[i], *b = &want.rows[i];
        if (a->index != b->index || a->len != b->len || a->position != b->position ||
            a->id != b->id || strcmp(a->name, b->name) != 0 ||
            memcmp(a->values, b->values, got.V * sizeof *a->values) != 0)
            ck_abort_msg("%s: row %zu", what, i);
    }
}

/* In no order, and some beside others, in others, or twice. */
static const kmf_base_span spans[] = {{200, 260}, {3, 4},     {25, 31},   {20, 26},
                                      {210, 215}, {260, 262}, {120, 121}, {3, 4}};
#define N_SPANS (sizeof spans / sizeof spans[0])

START_TEST(any_threads_give_the_rows_of_one_encoder)
{
    static const int threads[] = {1, 2, 5};
    kmf_logits_options o;
    char what[64];
    for (int mask = KMF_LOGITS_MASK_NONE; mask <= KMF_LOGITS_MASK_EACH; mask++)
        for (size_t n_spans = 0; n_spans <= N_SPANS; n_spans += N_SPANS) {
            kmf_logits_options_default(&o);
            o.mask = (kmf_logits_mask)mask;
            o.spans = spans;
            o.n_spans = n_spans;
            naive(&o);
            ck_assert_uint_gt(want.n, 100);
            for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
                o.threads = threads[t];
                clear(&got);
                ck_assert_int_eq(give(&o, take, &got, NULL), 0);
                snprintf(what, sizeof what, "mask %d, %zu spans, %d threads", mask, n_spans,
                         threads[t]);
                check_rows(what);
            }
        }
}
END_TEST

START_TEST(chunks_of_which_a_job_holds_one_have_the_rows_of_one_encoder)
{
    kmf_logits_options o;
    kmf_logits_options_default(&o);
    o.mask = KMF_LOGITS_MASK_EACH;
    o.spans = spans;
    o.n_spans = N_SPANS;
    model->config.window = WIDE;
    naive(&o);
    for (o.threads = 1; o.threads <= 2; o.threads++) {
        clear(&got);
        ck_assert_int_eq(give(&o, take, &got, NULL), 0);
        check_rows("wide");
    }
}
END_TEST

/* A run that ends behind so many rows; what it has come to. Freed by kmf_text_free. */
static char *mark_behind(const kmf_logits_options *o, size_t n_rows)
{
    char *mark;
    uint64_t records;
    clear(&got);
    got.ends_at = (int64_t)n_rows;
    got.ends_with = KMF_ESTOPPED;
    kmf_logits *l = kmf_logits_new(model, o, take, &got, NULL);
    const kmf_run run = kmf_logits_run(l);
    ck_assert_int_eq(run.mark(run.user, &mark, &records, NULL), 0);
    ck_assert_int_eq(give_to(l, RECORDS, NULL), n_rows < want.n ? KMF_ESTOPPED : 0);
    ck_assert_uint_eq(got.n, n_rows);
    ck_assert_int_eq(run.mark(run.user, &mark, &records, NULL), 1);
    ck_assert_uint_ge(records, want.rows[n_rows - 1].index + 1);
    kmf_logits_free(l);
    got.ends_at = -1;
    return mark;
}

/* Goes on from a mark, where so many rows are out, with the first n_records sequences. */
static int go_on(const kmf_logits_options *o, const char *mark, uint64_t n_rows,
                 size_t n_records, kmf_err *err)
{
    kmf_logits *l = kmf_logits_new(model, o, take, &got, NULL);
    const kmf_run run = kmf_logits_run(l);
    int status = run.go_on(run.user, mark, n_rows, "mark", err);
    if (status == 0)
        status = give_to(l, n_records, err);
    kmf_embed_stats stats;
    kmf_logits_statistics(l, &stats);
    if (status == 0)
        check_statistics(&stats);
    kmf_logits_free(l);
    return status;
}

/* In the middle of a record, of a pass, and where all is out. */
START_TEST(a_run_that_goes_on_gives_the_rows_that_are_left)
{
    static const int threads[] = {1, 3};
    kmf_logits_options o;
    char what[64];
    for (int mask = KMF_LOGITS_MASK_NONE; mask <= KMF_LOGITS_MASK_EACH; mask++) {
        kmf_logits_options_default(&o);
        o.mask = (kmf_logits_mask)mask;
        naive(&o);
        const size_t stops[] = {1, 7, 300, want.n / 2, want.n - 1, want.n};
        for (size_t i = 0; i < 2 * sizeof stops / sizeof stops[0]; i++) {
            o.threads = threads[i % 2];
            char *mark = mark_behind(&o, stops[i / 2]);
            o.threads = threads[(i + 1) % 2];
            ck_assert_int_eq(go_on(&o, mark, stops[i / 2], RECORDS, NULL), 0);
            snprintf(what, sizeof what, "mask %d, %zu rows", mask, stops[i / 2]);
            check_rows(what);
            kmf_text_free(mark);
        }
    }
}
END_TEST

START_TEST(a_run_of_other_sequences_does_not_go_on)
{
    kmf_logits_options o;
    kmf_err err = {0};
    kmf_logits_options_default(&o);
    o.threads = 2;
    naive(&o);
    size_t half = want.n / 2;
    size_t n_done = want.rows[half].index + 1;
    char *mark = mark_behind(&o, half);
    static const struct {
        const char *mark, *says;
    } marks[] = {{"{}", "mark: records is missing"},
                 {"{\"records\": 0, \"records_checksum\": 1}", "mark tells of no records"},
                 {"{\"records\": 3, \"records_checksum\": -1}", "records_checksum: must be"},
                 {"{\"records\": 3, \"records_checksum\": 1}", "the first 3 records are not"}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        err = (kmf_err){0};
        ck_assert_int_eq(go_on(&o, marks[i].mark, half, RECORDS, &err), KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, marks[i].says) != NULL, "%s", err.msg);
    }
    /* fewer of them, and more rows than these have */
    err = (kmf_err){0};
    ck_assert_int_eq(go_on(&o, mark, half, n_done - 1, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "were made before") != NULL, "%s", err.msg);
    err = (kmf_err){0};
    ck_assert_int_eq(go_on(&o, mark, want.n, RECORDS, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "are not those whose logits") != NULL, "%s", err.msg);
    ck_assert_uint_eq(got.n, half);
    /* another one among them */
    seqs[0][0] = seqs[0][0] == 'A' ? 'C' : 'A';
    err = (kmf_err){0};
    ck_assert_int_eq(go_on(&o, mark, half, RECORDS, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "are not those whose logits") != NULL, "%s", err.msg);
    ck_assert_uint_eq(got.n, half);
    /* such that more rows come early than are out: none of them is given */
    for (size_t i = 1; i < 9; i++)
        memset(seqs[i], 'A', SEQ_MAX);
    err = (kmf_err){0};
    ck_assert_int_eq(go_on(&o, mark, half, RECORDS, &err), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "are not those whose logits") != NULL, "%s", err.msg);
    ck_assert_uint_eq(got.n, half);
    kmf_text_free(mark);
}
END_TEST

static size_t n_checked;

/* How many of a row's logits stand before that of id. */
static size_t rank_of(const float *x, size_t V, int32_t id)
{
    size_t rank = 0;
    for (size_t v = 0; v < V; v++)
        rank += x[v] > x[id] || (x[v] == x[id] && v < (size_t)id);
    return rank;
}

static int take_best(void *user, const kmf_logits_row *row, kmf_err *err)
{
    const size_t *top = user;
    const seen *s = &want.rows[n_checked++];
    double max = -1e30, sum = 0;
    (void)err;
    ck_assert_ptr_null(row->values);
    ck_assert_uint_eq(row->n_best, *top < want.V ? *top : want.V);
    for (size_t v = 0; v < want.V; v++)
        max = (double)s->values[v] > max ? (double)s->values[v] : max;
    for (size_t v = 0; v < want.V; v++)
        sum += exp((double)s->values[v] - max);
    for (size_t i = 0; i < row->n_best; i++) {
        const kmf_candidate *c = &row->best[i];
        double p = exp((double)c->logit - max) / sum;
        quick_assert_msg(rank_of(s->values, want.V, c->id) == i &&
                             c->logit == s->values[c->id] &&
                             fabs((double)c->probability - p) <= 1e-6 * p + 1e-30,
                         "row %zu: candidate %zu, %d, has %g and %g", n_checked, i, c->id,
                         (double)c->logit, (double)c->probability);
    }
    return 0;
}

START_TEST(candidates_are_the_largest_logits)
{
    kmf_logits_options o;
    kmf_logits_options_default(&o);
    /* equal rows of the decoder give equal logits, the first of which stands first */
    size_t E = model->config.embedding_size;
    kmf_params *w = &model->params;
    float *bias = copy_of(&w->head_bias, want.V);
    float *decoder = copy_of(w->decoder ? &w->decoder : &w->word, want.V * E);
    for (size_t v = 10; v < 60; v += 2) {
        memcpy(decoder + (v + 1) * E, decoder + v * E, E * sizeof *decoder);
        bias[v + 1] = bias[v];
    }
    naive(&o);
    for (size_t v = 10; v < 60; v += 2)
        ck_assert(want.rows[0].values[v] == want.rows[0].values[v + 1]);
    size_t tops[] = {1, 5, 100000};
    o.threads = 2;
    for (size_t i = 0; i < 3; i++) {
        o.top = tops[i];
        n_checked = 0;
        ck_assert_int_eq(give(&o, take_best, &tops[i], NULL), 0);
        ck_assert_uint_eq(n_checked, want.n);
    }
}
END_TEST

START_TEST(probabilities_are_their_softmax)
{
    kmf_logits_options o;
    kmf_logits_options_default(&o);
    naive(&o);
    o.probabilities = 1;
    o.threads = 2;
    clear(&got);
    ck_assert_int_eq(give(&o, take, &got, NULL), 0);
    ck_assert_uint_eq(got.n, want.n);
    for (size_t i = 0; i < got.n; i++) {
        const float *x = want.rows[i].values;
        double max = -1e30, sum = 0;
        for (size_t v = 0; v < got.V; v++)
            max = (double)x[v] > max ? (double)x[v] : max;
        for (size_t v = 0; v < got.V; v++)
            sum += exp((double)x[v] - max);
        for (size_t v = 0; v < got.V; v++) {
            double p = exp((double)x[v] - max) / sum;
            double is = (double)got.rows[i].values[v];
            quick_assert_msg(fabs(is - p) <= 1e-6 * p + 1e-30, "row %zu, %zu: %g instead of %g",
                             i, v, is, p);
        }
    }
}
END_TEST

START_TEST(what_fails_is_told_behind_what_came_before)
{
    kmf_logits_options o;
    kmf_err err = {0};
    kmf_logits_options_default(&o);
    naive(&o);
    o.threads = 3;
    /* the function's own failure */
    clear(&got);
    got.ends_at = 30;
    got.ends_with = KMF_EIO;
    ck_assert_int_eq(give(&o, take, &got, &err), KMF_EIO);
    ck_assert_uint_eq(got.n, 30);
    clear(&got);
    got.ends_at = 7;
    got.ends_with = 5;
    ck_assert_int_eq(give(&o, take, &got, &err), KMF_EINVAL);
    ck_assert_uint_eq(got.n, 7);
    /* a base that the model does not take: in record 5, as in each fifth, some are N */
    model->config.ambiguous = KMF_AMBIGUOUS_ERROR;
    memcpy(seqs[0], seqs[1], sizeof seqs[0]);
    seqs[5][0] = 'N';
    naive(&o);
    clear(&got);
    err = (kmf_err){0};
    ck_assert_int_eq(give(&o, take, &got, &err), KMF_EFORMAT);
    ck_assert_msg(strstr(err.msg, "record 'r5': base 1 is 'N'") != NULL, "%s", err.msg);
    ck_assert_uint_gt(got.n, 0);
    ck_assert_uint_le(got.rows[got.n - 1].index, 4);
    for (size_t i = got.n; i < want.n; i++)
        ck_assert_uint_ge(want.rows[i].index, 5);
}
END_TEST

START_TEST(logits_that_are_not_finite_are_told)
{
    kmf_logits_options o;
    kmf_err err = {0};
    kmf_logits_options_default(&o);
    o.threads = 2;
    float *bias = copy_of(&model->params.head_bias, model->config.vocab_size);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++)
        for (int mode = 0; mode < 3; mode++) {
            bias[model->config.vocab_size - 1] = bad[i];
            o.top = mode == 1 ? 2 : 0;
            o.probabilities = mode == 2;
            clear(&got);
            err = (kmf_err){0};
            ck_assert_int_eq(give(&o, take, &got, &err), KMF_ENUMERIC);
            ck_assert_msg(strstr(err.msg, "': the model gives logits that are not finite") &&
                              strstr(err.msg, "record 'r"),
                          "%s", err.msg);
            ck_assert_uint_eq(got.n, 0);
        }
}
END_TEST

START_TEST(any_failing_allocation_is_told)
{
    kmf_logits_options o;
    kmf_logits_options_default(&o);
    o.threads = 2;
    for (o.top = 0; o.top <= 3; o.top += 3) {
        kmf_logits *l = NULL;
        size_t n = 0;
        while (!l) {
            kmf_err err = {0};
            kmf_mem_fail_at(++n);
            l = kmf_logits_new(model, &o, take, &got, &err);
            kmf_mem_fail_at(0);
            ck_assert_int_eq(err.code, l ? KMF_OK : KMF_ENOMEM);
        }
        ck_assert_uint_gt(n, 10);
        kmf_logits_free(l);
    }
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    static const kmf_base_span nothing = {5, 5};
    static const struct {
        kmf_logits_options o;
        const char *says;
    } rows[] = {
        {{.mask = (kmf_logits_mask)3}, "mask: 3 is none of its values"},
        {{.top = (size_t)1 << 25}, "top: 33554432 candidates are too many"},
        {{.top = 1, .probabilities = 1}, "candidates have their probabilities: not both"},
        {{.n_spans = 1, .spans = &nothing}, "span 0 holds no base"},
        {{.n_spans = 1}, "span 0 holds no base"},
        {{.threads = -1}, "threads"},
        {{.threads = KMF_THREADS_MAX + 1}, "threads"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_logits_new(model, &rows[i].o, take, &got, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        ck_assert_msg(strstr(err.msg, rows[i].says) != NULL, "%s", err.msg);
    }
    kmf_err err = {0};
    kmf_model *headless = kmf_model_load("tests/golden/dnabert-s", &err);
    ck_assert_ptr_nonnull(headless);
    const kmf_logits_options o = {.top = 3};
    ck_assert_ptr_null(kmf_logits_new(headless, &o, take, &got, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "no masked-language-model head"));
    kmf_model_free(headless);
    kmf_logits_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_scene, remove_scene);
    tcase_add_test(tcase, any_threads_give_the_rows_of_one_encoder);
    tcase_add_test(tcase, chunks_of_which_a_job_holds_one_have_the_rows_of_one_encoder);
    tcase_add_test(tcase, a_run_that_goes_on_gives_the_rows_that_are_left);
    tcase_add_test(tcase, a_run_of_other_sequences_does_not_go_on);
    tcase_add_test(tcase, candidates_are_the_largest_logits);
    tcase_add_test(tcase, probabilities_are_their_softmax);
    tcase_add_test(tcase, what_fails_is_told_behind_what_came_before);
    tcase_add_test(tcase, logits_that_are_not_finite_are_told);
    tcase_add_test(tcase, any_failing_allocation_is_told);
    tcase_add_test(tcase, options_out_of_range_are_refused);
    return run_case("logits", tcase);
}
