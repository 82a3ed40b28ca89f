/* SPDX-License-Identifier: MIT */
/*
 * Nearest rows against a twin that has all cosines in double and looks for the best of them one by
 * one.
 */
#include "base/rng.h"
#include "embed/npy.h"
#include "models.h"
#include "run.h"

#include "kmerformer.h"

#include <math.h>

#define EPSILON 2e-7 /* of rows that are scaled to length 1 as floats */

/* Rows in memory and in a file. */
typedef struct table {
    char path[512];
    float *x; /* [n, dim] */
    size_t n, dim;
} table;

static void save(const table *t)
{
    char header[KMF_NPY_HEADER];
    kmf_npy_header(header, t->n, t->dim, sizeof(float));
    FILE *file = fopen(t->path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(header, 1, sizeof header, file), sizeof header);
    ck_assert_uint_eq(fwrite(t->x, sizeof(float) * t->dim, t->n, file), t->n);
    ck_assert_int_eq(fclose(file), 0);
}

/* Row 7 mod 50 is of NaN, 11 mod 50 of zeros; each tenth is an earlier row once more. */
static table draw(const char *name, size_t n, size_t dim, uint64_t seed)
{
    table t = {.n = n, .dim = dim};
    kmf_rng rng = kmf_rng_stream(seed, 0);
    snprintf(t.path, sizeof t.path, "%s", in_dir(name));
    t.x = malloc((n * dim + 1) * sizeof *t.x);
    ck_assert_ptr_nonnull(t.x);
    for (size_t i = 0; i < n; i++) {
        float *x = t.x + i * dim;
        for (size_t d = 0; d < dim; d++)
            x[d] = i % 50 == 7 ? NAN : i % 50 == 11 ? 0 : (float)kmf_rng_unit(&rng) - 0.4f;
        if (i % 10 == 9)
            memcpy(x, t.x + kmf_rng_below(&rng, i) * dim, dim * sizeof *x);
    }
    save(&t);
    return t;
}

static double cosine(const float *a, const float *b, size_t dim)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t d = 0; d < dim; d++) {
        ab += (double)a[d] * (double)b[d];
        aa += (double)a[d] * (double)a[d];
        bb += (double)b[d] * (double)b[d];
    }
    return ab / sqrt(aa * bb);
}

static bool has_direction(const float *x, size_t dim)
{
    double sum = 0;
    for (size_t d = 0; d < dim; d++)
        sum += fabs((double)x[d]);
    return sum > 0;
}

/* All that is answered, one query after another. */
typedef struct answers {
    size_t queries;
    size_t n[8192];
    kmf_neighbour list[1 << 16];
    size_t n_list;
    uint64_t told;
} answers;

static int take(void *user, uint64_t row, const char *name, const kmf_neighbour *list, size_t n,
                kmf_err *err)
{
    answers *a = user;
    char number[24];
    (void)err;
    ck_assert_uint_eq(row, a->queries);
    snprintf(number, sizeof number, "%d", (int)row + 1);
    ck_assert_str_eq(name, number);
    ck_assert_uint_lt(a->n_list + n, 1 << 16);
    a->n[a->queries++] = n;
    for (size_t i = 0; i < n; i++) /* by parts: what lies between them has any bytes */
        a->list[a->n_list++] = (kmf_neighbour){list[i].row, list[i].cosine};
    return 0;
}

static void hear(void *user, uint64_t done)
{
    answers *a = user;
    ck_assert_uint_ge(done, a->told);
    a->told = done;
}

static kmf_row_file *open_rows(const char *path)
{
    kmf_err err = {0};
    kmf_row_file *file = kmf_row_file_open(path, &err);
    ck_assert_msg(file != NULL, "%s", err.msg);
    return file;
}

static answers *search(const table *references, const table *queries, size_t n, int threads,
                       kmf_row_search_stats *stats)
{
    kmf_err err = {0};
    kmf_pool *pool;
    answers *a = calloc(1, sizeof *a);
    ck_assert_ptr_nonnull(a);
    ck_assert_int_eq(kmf_helpers_new(&pool, threads, NULL), 0);
    kmf_row_file *file = open_rows(references->path);
    kmf_row_file *other = open_rows(queries->path);
    kmf_row_search *s = kmf_row_search_new(file, n, pool, &err);
    ck_assert_msg(s != NULL, "%s", err.msg);
    ck_assert_msg(kmf_row_search_ask(s, other, references == queries, take, a, hear, a, &err) ==
                      0,
                  "%s", err.msg);
    ck_assert_uint_eq(a->told, references->n * queries->n);
    kmf_row_search_statistics(s, stats);
    kmf_row_search_free(s);
    kmf_row_file_close(file);
    kmf_row_file_close(other);
    kmf_pool_free(pool);
    return a;
}

/*
 * Each neighbour has its own cosine, none is twice, none that is left out is better than the last,
 * better ones come first and of equal rows the first.
 */
static void check(const answers *a, const table *references, const table *queries, size_t n,
                  const kmf_row_search_stats *stats)
{
    size_t dim = references->dim;
    size_t without = 0, queries_without = 0;
    const kmf_neighbour *list = a->list;
    bool *taken = calloc(references->n + 1, sizeof *taken);
    ck_assert_uint_eq(a->queries, queries->n);
    for (size_t i = 0; i < references->n; i++)
        without += !has_direction(references->x + i * dim, dim);
    for (size_t q = 0; q < queries->n; list += a->n[q++]) {
        const float *x = queries->x + q * dim;
        bool there = has_direction(x, dim);
        size_t own = references == queries && there;
        size_t all = there ? references->n - without - own : 0;
        queries_without += !there;
        ck_assert_uint_eq(a->n[q], all < n ? all : n);
        memset(taken, 0, references->n * sizeof *taken);
        for (size_t i = 0; i < a->n[q]; i++) {
            const float *y = references->x + list[i].row * dim;
            quick_assert(list[i].row < references->n && !taken[list[i].row]);
            quick_assert(!own || list[i].row != q);
            quick_assert(has_direction(y, dim));
            quick_assert(fabs(cosine(x, y, dim) - (double)list[i].cosine) < EPSILON);
            quick_assert(i == 0 || list[i].cosine < list[i - 1].cosine ||
                         (list[i].cosine == list[i - 1].cosine && /* no sorting by chance */
                          list[i].row > list[i - 1].row));
            taken[list[i].row] = true;
        }
        for (size_t i = 0; i < references->n && a->n[q] == n; i++) {
            const float *y = references->x + i * dim;
            const kmf_neighbour *last = &list[n - 1];
            if (taken[i] || !has_direction(y, dim) || (own && i == q))
                continue;
            quick_assert(cosine(x, y, dim) < (double)last->cosine + EPSILON);
            /* A row that is equal to the last one has the same bits, and so comes behind it. */
            quick_assert(memcmp(y, references->x + last->row * dim, dim * sizeof *y) != 0 ||
                         i > last->row);
        }
    }
    ck_assert_uint_eq(stats->queries, queries->n);
    ck_assert_uint_eq(stats->queries_without, queries_without);
    ck_assert_uint_eq(stats->references_without, queries->n > 0 ? without : 0);
    free(taken);
}

static void check_same(const answers *some, const answers *one)
{
    ck_assert_uint_eq(some->queries, one->queries);
    ck_assert_mem_eq(some->n, one->n, sizeof one->n);
    ck_assert_uint_eq(some->n_list, one->n_list);
    for (size_t i = 0; i < one->n_list; i++)
        quick_assert(some->list[i].row == one->list[i].row &&
                     some->list[i].cosine == one->list[i].cosine);
}

static const struct {
    size_t references, queries, dim, n;
} shapes[] = {{1000, 230, 17, 5}, {300, 97, 136, 400}, {1, 3, 3, 10},  {12, 40, 1, 3},
              {0, 30, 8, 2},      {40, 0, 8, 2},       {515, 1, 33, 1}};

START_TEST(neighbours_are_those_of_all_pairs_on_any_threads)
{
    size_t n = shapes[_i].n;
    table references = draw("r.npy", shapes[_i].references, shapes[_i].dim, 3);
    table queries = draw("q.npy", shapes[_i].queries, shapes[_i].dim, 4);
    kmf_row_search_stats stats;
    answers *one = search(&references, &queries, n, 1, &stats);
    check(one, &references, &queries, n, &stats);
    for (int threads = 2; threads <= 3; threads++) {
        answers *some = search(&references, &queries, n, threads, &stats);
        check_same(some, one);
        free(some);
    }
    free(one);
    free(references.x);
    free(queries.x);
}
END_TEST

START_TEST(a_row_is_no_neighbour_of_itself)
{
    table t = draw("t.npy", 333, 9, 5);
    kmf_row_search_stats stats;
    answers *a = search(&t, &t, 7, 2, &stats);
    check(a, &t, &t, 7, &stats);
    free(a);
    free(t.x);
}
END_TEST

/* Whatever place in a panel, a block or a tile a row has: all are the same one, scaled by 2^i. */
START_TEST(equal_rows_come_in_their_order)
{
    enum { N = 20000, DIM = 136 };
    table t = draw("t.npy", N, DIM, 6);
    table q = draw("q.npy", 5, DIM, 7);
    kmf_row_search_stats stats;
    for (size_t i = 0; i < N; i++)
        for (size_t d = 0; d < DIM; d++)
            t.x[i * DIM + d] = ldexpf(t.x[d], (int)(i % 3));
    save(&t);
    answers *a = search(&t, &q, 3000, 3, &stats);
    for (size_t i = 0; i < a->n_list; i++)
        quick_assert(a->list[i].row == i % 3000 &&
                     a->list[i].cosine == a->list[i / 3000 * 3000].cosine);
    ck_assert_uint_eq(a->n_list, 5 * 3000);
    free(a);
    free(t.x);
    free(q.x);
}
END_TEST

/* What a query of many is to be answered. */
typedef struct expected {
    const table *references, *queries;
    size_t there; /* references with a direction */
    uint64_t row; /* that is next */
    uint64_t told;
} expected;

static int compare(void *user, uint64_t row, const char *name, const kmf_neighbour *list,
                   size_t n, kmf_err *err)
{
    expected *e = user;
    size_t dim = e->queries->dim;
    const float *x = e->queries->x + row * dim;
    (void)err;
    ck_assert_uint_eq(row, e->row);
    ck_assert_int_eq(atoi(name), (int)row + 1);
    ck_assert_uint_eq(n, has_direction(x, dim) ? e->there : 0);
    for (size_t i = 1; i < n; i++)
        quick_assert(list[i].cosine <= list[i - 1].cosine);
    for (size_t i = 0; i < n; i += 997)
        quick_assert(fabs(cosine(x, e->references->x + list[i].row * dim, dim) -
                          (double)list[i].cosine) < EPSILON);
    e->row++;
    return 0;
}

static void hear_of_many(void *user, uint64_t done)
{
    ((expected *)user)->told = done;
}

/* The neighbours of each are 320 kB: three batches. Some rows were read before. */
START_TEST(many_queries_come_in_batches)
{
    enum { REFERENCES = 20000, QUERIES = 450, DIM = 2, BEFORE = 3 };
    table references = draw("r.npy", REFERENCES, DIM, 10);
    table queries = draw("q.npy", QUERIES, DIM, 11);
    expected e = {.references = &references, .queries = &queries, .row = BEFORE};
    kmf_err err = {0};
    kmf_row row;
    kmf_pool *pool = kmf_pool_new(1, NULL);
    for (size_t i = 0; i < REFERENCES; i++)
        e.there += has_direction(references.x + i * DIM, DIM);
    kmf_row_file *file = open_rows(references.path);
    kmf_row_file *other = open_rows(queries.path);
    for (int i = 0; i < BEFORE; i++)
        ck_assert_int_eq(kmf_row_file_next(other, &row, NULL), 1);
    kmf_row_search *s = kmf_row_search_new(file, REFERENCES, pool, NULL);
    ck_assert_ptr_nonnull(s);
    ck_assert_msg(kmf_row_search_ask(s, other, 0, compare, &e, hear_of_many, &e, &err) == 0,
                  "%s", err.msg);
    ck_assert_uint_eq(e.row, QUERIES);
    ck_assert_uint_eq(e.told, (QUERIES - BEFORE) * REFERENCES);
    kmf_row_search_free(s);
    kmf_row_file_close(file);
    kmf_row_file_close(other);
    kmf_pool_free(pool);
    free(references.x);
    free(queries.x);
}
END_TEST

static int refuse(void *user, uint64_t row, const char *name, const kmf_neighbour *list,
                  size_t n, kmf_err *err)
{
    (void)row, (void)name, (void)list, (void)n, (void)err;
    ++*(int *)user;
    return KMF_EIO;
}

static kmf_err *fresh(kmf_err *err)
{
    *err = (kmf_err){0};
    return err;
}

/* A search of files of queries, one after another, that may have been begun before. */
typedef struct asked {
    const table *references, *queries[2];
    size_t stop; /* ends behind so many answers; 0: never */
    answers *got;
} asked;

static int take_some(void *user, uint64_t row, const char *name, const kmf_neighbour *list,
                     size_t n, kmf_err *err)
{
    asked *s = user;
    answers *a = s->got;
    (void)row;
    (void)name;
    (void)err;
    if (s->stop > 0 && a->queries == s->stop)
        return KMF_ESTOPPED; /* it is not answered */
    a->n[a->queries++] = n;
    for (size_t i = 0; i < n; i++)
        a->list[a->n_list++] = (kmf_neighbour){list[i].row, list[i].cosine};
    return 0;
}

/* mark: to go on from, or NULL; *reached: what it has come to. */
static int ask_some(asked *s, const char *mark, char **reached, kmf_row_search_stats *stats,
                    kmf_err *err)
{
    uint64_t records;
    kmf_row_file *references = open_rows(s->references->path);
    kmf_row_search *search = kmf_row_search_new(references, 5, NULL, NULL);
    const kmf_run run = kmf_row_search_run(search);
    ck_assert_int_eq(run.mark(run.user, reached, &records, NULL), 0);
    int status = mark ? run.go_on(run.user, mark, 0, "mark", err) : 0;
    for (size_t i = 0; i < 2 && status == 0; i++) {
        kmf_row_file *queries = open_rows(s->queries[i]->path);
        status = kmf_row_search_ask(search, queries, 0, take_some, s, NULL, NULL, err);
        kmf_row_file_close(queries);
    }
    if (status == 0)
        status = kmf_row_search_finish(search, err);
    kmf_row_search_statistics(search, stats);
    if (status != KMF_EMODEL) {
        ck_assert_int_eq(run.mark(run.user, reached, &records, NULL), 1);
        ck_assert_uint_eq(records, stats->queries);
    }
    kmf_row_search_free(search);
    kmf_row_file_close(references);
    return status;
}

/* In either file and between them; of the second one more than are passed over at a time. */
START_TEST(a_search_that_goes_on_answers_the_queries_that_are_left)
{
    static const size_t stops[] = {1, 59, 60, 61, 4200, 5059};
    table t[] = {draw("a.npy", 90, 7, 4), draw("b.npy", 60, 7, 5), draw("c.npy", 5000, 7, 6)};
    answers *whole = calloc(1, sizeof *whole);
    asked s = {.references = &t[0], .queries = {&t[1], &t[2]}, .got = whole};
    kmf_row_search_stats stats, all;
    char *mark;
    ck_assert_int_eq(ask_some(&s, NULL, &mark, &all, NULL), 0);
    ck_assert_uint_eq(whole->queries, 5060);
    kmf_text_free(mark);
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        s.got = calloc(1, sizeof *s.got);
        s.stop = stops[i];
        ck_assert_int_eq(ask_some(&s, NULL, &mark, &stats, NULL), KMF_ESTOPPED);
        ck_assert_uint_eq(stats.queries, stops[i]);
        s.stop = 0;
        char *end;
        ck_assert_int_eq(ask_some(&s, mark, &end, &stats, NULL), 0);
        ck_assert_int_eq(memcmp(&stats, &all, sizeof all), 0);
        check_same(s.got, whole);
        kmf_text_free(mark);
        kmf_text_free(end);
        free(s.got);
    }
    free(whole);
    for (size_t i = 0; i < 3; i++)
        free(t[i].x);
}
END_TEST

START_TEST(a_search_of_other_queries_does_not_go_on)
{
    table t[] = {draw("a.npy", 90, 7, 4), draw("b.npy", 60, 7, 5), draw("c.npy", 300, 7, 6)};
    answers *a = calloc(1, sizeof *a);
    asked s = {.references = &t[0], .queries = {&t[1], &t[2]}, .stop = 100, .got = a};
    kmf_row_search_stats stats;
    kmf_err err = {0};
    char *mark;
    static const struct {
        const char *mark, *says;
    } marks[] = {{"{}", "mark: queries is missing"},
                 {"{\"queries\": 0, \"queries_checksum\": 1, \"queries_without\": 0,"
                  " \"references_without\": 0}",
                  "mark: its mark tells of no queries"},
                 {"{\"queries\": 70, \"queries_checksum\": 1, \"queries_without\": 0,"
                  " \"references_without\": 0}",
                  "the first 70 queries are not those whose neighbours were found before"},
                 {"{\"queries\": 361, \"queries_checksum\": 1, \"queries_without\": 0,"
                  " \"references_without\": 0}",
                  "360 queries, and neighbours of 361 were found before"}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        ck_assert_int_eq(ask_some(&s, marks[i].mark, &mark, &stats, fresh(&err)), KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, marks[i].says) != NULL, "%s", err.msg);
    }
    ck_assert_uint_eq(a->queries, 0);
    ck_assert_int_eq(ask_some(&s, NULL, &mark, &stats, NULL), KMF_ESTOPPED);
    t[2].x[5] += 1;
    save(&t[2]);
    char *end;
    ck_assert_int_eq(ask_some(&s, mark, &end, &stats, fresh(&err)), KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "the first 100 queries are not") != NULL, "%s", err.msg);
    ck_assert_uint_eq(a->queries, 100);
    kmf_text_free(mark);
    free(a);
    for (size_t i = 0; i < 3; i++)
        free(t[i].x);
}
END_TEST

static int answer_so(void *user, uint64_t row, const char *name, const kmf_neighbour *list,
                     size_t n, kmf_err *err)
{
    const int *answer = user;
    (void)row;
    (void)name;
    (void)list;
    (void)n;
    (void)err;
    return *answer;
}

/* Another number than a kmf_code, and a failure without a word. */
START_TEST(an_answer_that_is_none_ends_the_search_and_is_told)
{
    static const struct {
        int answer, code;
        const char *message;
    } rows[] = {{3, KMF_EINVAL, "a row was answered by 3, which is no kmf_code"},
                {KMF_ENUMERIC, KMF_ENUMERIC, "a row was refused"}};
    table t = draw("t.npy", 10, 6, 8);
    kmf_row_file *file = open_rows(t.path);
    kmf_row_search *s = kmf_row_search_new(file, 2, NULL, NULL);
    ck_assert_ptr_nonnull(s);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kmf_err err = {0};
        int answer = rows[i].answer;
        kmf_row_file *other = open_rows(t.path);
        ck_assert_int_eq(kmf_row_search_ask(s, other, 0, answer_so, &answer, NULL, NULL, &err),
                         rows[i].code);
        ck_assert_int_eq(err.code, rows[i].code);
        ck_assert_str_eq(err.msg, rows[i].message);
        kmf_row_file_close(other);
    }
    kmf_row_search_free(s);
    kmf_row_file_close(file);
    free(t.x);
}
END_TEST

START_TEST(what_cannot_be_searched_is_told)
{
    table t = draw("t.npy", 40, 6, 8);
    table narrow = draw("n.npy", 5, 5, 8);
    kmf_err err = {0};
    kmf_row row;
    int calls = 0;
    kmf_row_file *file = open_rows(t.path);
    ck_assert_ptr_null(kmf_row_search_new(file, 0, NULL, fresh(&err)));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    kmf_row_search *s = kmf_row_search_new(file, 2, NULL, NULL);
    ck_assert_ptr_nonnull(s);
    ck_assert_str_eq(kmf_row_search_name(s, 6), "7");
    ck_assert_int_eq(kmf_row_search_ask(s, file, 1, refuse, &calls, NULL, NULL, fresh(&err)),
                     KMF_EINVAL);
    kmf_row_file *other = open_rows(narrow.path);
    ck_assert_int_eq(kmf_row_search_ask(s, other, 0, refuse, &calls, NULL, NULL, fresh(&err)),
                     KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "n.npy: it has 5 columns, and "));
    kmf_row_file_close(other);
    other = open_rows(t.path);
    ck_assert_int_eq(kmf_row_search_ask(s, other, 0, refuse, &calls, NULL, NULL, NULL),
                     KMF_EIO);
    ck_assert_int_eq(calls, 1);
    kmf_row_file_close(other);
    /* One number that is none, in the references or in the queries. */
    t.x[33 * 6 + 4] = INFINITY;
    snprintf(narrow.path, sizeof narrow.path, "%s", in_dir("i.npy"));
    snprintf(t.path, sizeof t.path, "%s", narrow.path);
    save(&t);
    other = open_rows(t.path);
    ck_assert_int_eq(kmf_row_search_ask(s, other, 0, refuse, &calls, NULL, NULL, fresh(&err)),
                     KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "i.npy: row 34: column 5 is infinite"));
    kmf_row_search_free(s);
    kmf_row_file_close(file);
    kmf_row_file_close(other);
    file = open_rows(t.path);
    s = kmf_row_search_new(file, 2, NULL, NULL);
    other = open_rows(in_dir("t.npy"));
    ck_assert_int_eq(kmf_row_search_ask(s, other, 0, refuse, &calls, NULL, NULL, fresh(&err)),
                     KMF_ENUMERIC);
    ck_assert_int_eq(calls, 1);
    kmf_row_search_free(s);
    ck_assert_int_eq(kmf_row_file_next(file, &row, NULL), 1);
    ck_assert_ptr_null(kmf_row_search_new(file, 2, NULL, fresh(&err)));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    kmf_row_file_close(file);
    kmf_row_file_close(other);
    free(t.x);
    free(narrow.x);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    table t = draw("t.npy", 20, 4, 9);
    answers *a = calloc(1, sizeof *a);
    int status = KMF_ENOMEM;
    size_t failures = 0;
    for (size_t n = 1; status != 0; n++) {
        kmf_err err = {0};
        kmf_row_file *file = open_rows(t.path);
        kmf_row_file *other = open_rows(t.path);
        *a = (answers){0};
        kmf_mem_fail_at(n);
        kmf_row_search *s = kmf_row_search_new(file, 3, NULL, &err);
        status = s ? kmf_row_search_ask(s, other, 1, take, a, NULL, NULL, &err) : (int)err.code;
        kmf_mem_fail_at(0);
        ck_assert_int_eq(status, err.code);
        ck_assert(status == 0 || status == KMF_ENOMEM);
        failures += status != 0;
        kmf_row_search_free(s);
        kmf_row_file_close(file);
        kmf_row_file_close(other);
    }
    ck_assert_uint_gt(failures, 8);
    ck_assert_uint_eq(a->queries, 20);
    free(a);
    free(t.x);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_loop_test(tcase, neighbours_are_those_of_all_pairs_on_any_threads, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(tcase, a_row_is_no_neighbour_of_itself);
    tcase_add_test(tcase, equal_rows_come_in_their_order);
    tcase_add_test(tcase, many_queries_come_in_batches);
    tcase_add_test(tcase, a_search_that_goes_on_answers_the_queries_that_are_left);
    tcase_add_test(tcase, a_search_of_other_queries_does_not_go_on);
    tcase_add_test(tcase, an_answer_that_is_none_ends_the_search_and_is_told);
    tcase_add_test(tcase, what_cannot_be_searched_is_told);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_case("rownearest", tcase);
}
