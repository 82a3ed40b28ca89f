/* SPDX-License-Identifier: MIT */
/*
 * Vectors that their threads write themselves, or put into text: the files are those of rows that
 * come one by one, whatever else is among them, and whatever fails.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "embed/npy.h"
#include "embed/rowstore.h"
#include "files.h"
#include "kmerformer.h"
#include "model/vectors.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BATCH 65536 /* letters, which makes 65 pieces */
#define N_RECORDS 400
#define CONTIG 300000

/* How an output is written. */
enum form { ARRAY, HALVES, TEXT, PACKED, N_FORMS };

static char *records[N_RECORDS];

/* Reads; some shorter than a k-mer, some of N alone, and contigs that no batch holds. */
static void make_records(void)
{
    kmf_rng rng = kmf_rng_stream(5, 0);
    for (size_t i = 0; i < N_RECORDS; i++) {
        size_t n = i % 120 == 119 ? CONTIG : i % 50 == 7 ? 2 : 60 + kmf_rng_below(&rng, 90);
        records[i] = malloc(n + 1);
        for (size_t j = 0; j < n; j++)
            records[i][j] = i % 45 == 3 ? 'N' : "ACGT"[kmf_rng_below(&rng, 4)];
        records[i][n] = '\0';
    }
}

static void begin(void)
{
    make_dir();
    make_records();
}

/* All that was made is removed by name, so a file that is left is found. */
static void end(void)
{
    for (size_t i = 0; i < N_RECORDS; i++)
        free(records[i]);
    remove_empty_dir();
}

/* batch: letters; 0: as usual */
static kmf_embedder *embedder_of(const char *model, int threads, int strand, size_t batch)
{
    kmf_err err = {0};
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = threads;
    o.strand = strand;
    o.batch_tokens = batch;
    kmf_embedder *e = kmf_embedder_new(model, &o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    return e;
}

/* "rows": rows.npy, rows.tsv or rows.tsv.gz. */
static const char *file_of(char *file, const char *stem, enum form form)
{
    static const char *const endings[] = {"npy", "npy", "tsv", "tsv.gz"};
    snprintf(file, 64, "%s.%s", stem, endings[form]);
    return file;
}

static kmf_output *output_of(const char *stem, const kmf_embedder *e, enum form form)
{
    char file[64];
    kmf_err err = {0};
    const char *path = in_dir(file_of(file, stem, form));
    kmf_output *output = kmf_output_new(
        path, &(kmf_output_form){.dim = kmf_embedder_dim(e), .f16 = form == HALVES}, &err);
    ck_assert_msg(output != NULL, "%s", err.msg);
    return output;
}

static int add(kmf_embedder *e, size_t beg, size_t n, kmf_err *err)
{
    int status = 0;
    for (size_t i = beg; i < n && status == 0; i++)
        status = kmf_embedder_add(e, "x", records[i], strlen(records[i]), err);
    return status;
}

static void commit(kmf_output *output)
{
    ck_assert_int_eq(kmf_output_commit(output, "{}", NULL), 0);
    kmf_output_free(output);
}

/* A file's bytes, after which it and its companions are removed. */
static char *take_file(const char *stem, enum form form, size_t *len)
{
    static const char *const companions[] = {".ids.tsv", ".json"};
    char file[64];
    const char *path = in_dir(file_of(file, stem, form));
    char *bytes = get(path, len);
    ck_assert_int_eq(unlink(path), 0);
    for (int i = 0; i < 2; i++) {
        char *beside = kmf_companion(path, companions[i], NULL);
        ck_assert_int_eq(unlink(beside), 0);
        kmf_text_free(beside);
    }
    return bytes;
}

static void check_same_files(enum form form)
{
    size_t len[2];
    char *a = take_file("rows", form, &len[0]);
    char *b = take_file("taken", form, &len[1]);
    ck_assert_uint_eq(len[0], len[1]);
    size_t same = 0;
    while (same < len[0] && a[same] == b[same])
        same++;
    ck_assert_msg(same == len[0], "byte %zu", same);
    kmf_free(a);
    kmf_free(b);
}

/* Of n records, row by row, on one thread: the file that others are compared with. */
static void write_rows(const char *model, int strand, enum form form, size_t n)
{
    kmf_embedder *e = embedder_of(model, 1, strand, BATCH);
    kmf_output *output = output_of("rows", e, form);
    kmf_embedder_sink(e, kmf_output_row, output);
    ck_assert(add(e, 0, n, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
    commit(output);
    kmf_embedder_free(e);
}

static void check_first(const char *model, int threads, int strand, enum form form,
                        size_t batch, size_t n)
{
    write_rows(model, strand, form, n);
    kmf_embedder *e = embedder_of(model, threads, strand, batch);
    kmf_output *output = output_of("taken", e, form);
    kmf_output_take(output, e);
    ck_assert(add(e, 0, n, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
    kmf_embedder_free(e); /* whose threads may still compress */
    commit(output);
    check_same_files(form);
}

static void check_taken(const char *model, int threads, int strand, enum form form,
                        size_t batch)
{
    check_first(model, threads, strand, form, batch, N_RECORDS);
}

START_TEST(files_are_those_of_rows_one_by_one)
{
    static const char *const models[] = {"tnf", "kmer:1", "kmer:3"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (enum form form = ARRAY; form < N_FORMS; form++) {
            check_taken(models[i], 1, KMF_STRAND_FWD, form, BATCH);
            check_taken(models[i], 3, KMF_STRAND_RC, form, BATCH);
            check_taken(models[i], 2, KMF_STRAND_BOTH, form, BATCH);
        }
}
END_TEST

/* Reads that are one chunk, and of both strands two. */
START_TEST(files_of_an_encoder_are_those_of_rows_one_by_one)
{
    for (int strand = KMF_STRAND_FWD; strand <= KMF_STRAND_BOTH; strand++) {
        check_first("tests/golden/roformer", 1, strand, (enum form)strand, 256, 100);
        check_first("tests/golden/roformer", 3, strand, ARRAY, 0, 100);
    }
}
END_TEST

/* A file of a vector of 7 numbers, to `most`, for each 3-mer. */
static void save_vectors(const char *path, double most)
{
    kmf_rng rng = kmf_rng_stream(9, 0);
    kmf_vectors *v = kmf_vectors_new(KMF_DNA, 64, 7, 0, NULL);
    ck_assert_ptr_nonnull(v);
    for (size_t i = 0; i < 64; i++) {
        v->code[i] = i;
        v->k[i] = 3;
        for (size_t d = 0; d < 7; d++)
            v->values[i * 7 + d] = (float)(most * (double)kmf_rng_below(&rng, 1000) / 999);
    }
    ck_assert_int_eq(kmf_vectors_save(v, path, KMF_VECTORS_TEXT, NULL, NULL), 0);
    kmf_vectors_free(v);
}

/* They end amid a double of the sums that they lie among, those of parts of a contig, too. */
START_TEST(vectors_of_odd_length_lie_side_by_side)
{
    save_vectors(in_dir("v.txt"), 1);
    check_taken(in_dir("v.txt"), 1, KMF_STRAND_FWD, ARRAY, 0);
    check_taken(in_dir("v.txt"), 2, KMF_STRAND_FWD, HALVES, BATCH);
    check_taken(in_dir("v.txt"), 3, KMF_STRAND_FWD, TEXT, BATCH);
    ck_assert_int_eq(unlink(in_dir("v.txt")), 0);
}
END_TEST

START_TEST(a_number_too_large_for_float16_names_its_record)
{
    kmf_err err = {0};
    const char *path = in_dir("v.txt");
    save_vectors(path, -1e6);
    kmf_embedder *e = embedder_of(path, 2, KMF_STRAND_FWD, 0);
    kmf_output *output = output_of("x", e, HALVES);
    kmf_output_take(output, e);
    ck_assert_int_eq(add(e, 20, 30, &err), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, &err), KMF_ENUMERIC);
    ck_assert_msg(strstr(err.msg, "record 1 'x': ") && strstr(err.msg, "too large for float16"),
                  "%s", err.msg);
    kmf_output_free(output);
    kmf_embedder_free(e);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* What came before, of another run or from hand, stays where it is. */
START_TEST(rows_go_behind_those_that_are_there)
{
    enum form form = (enum form)_i;
    float hand[4] = {1, 2, 3, 4};
    const kmf_row row = {.name = "by hand", .position = -1, .vector = hand};
    float alone[4];
    for (int taken = 0; taken < 2; taken++) {
        kmf_embedder *e = embedder_of("kmer:1", 2, KMF_STRAND_FWD, BATCH);
        kmf_output *output = output_of(taken ? "taken" : "rows", e, form);
        ck_assert_int_eq(kmf_output_row(output, &row, NULL), 0);
        if (taken)
            kmf_output_take(output, e);
        else
            kmf_embedder_sink(e, kmf_output_row, output);
        ck_assert(add(e, 0, 100, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
        ck_assert_int_eq(kmf_embed_sequence(e, alone, "AAAC", NULL), 0);
        ck_assert(alone[0] == 0.75f);
        ck_assert(add(e, 0, N_RECORDS, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
        commit(output);
        kmf_embedder_free(e);
    }
    check_same_files(form);
}
END_TEST

/* The first number of each row of a file of 4 columns, where the rest is passed over. */
static size_t first_numbers(float *numbers, const char *bytes, size_t len, enum form form)
{
    uint64_t rows;
    size_t dim, width, begin;
    if (form == TEXT) {
        size_t n = 0;
        for (const char *p = bytes; p < bytes + len; p = strchr(p, '\n') + 1)
            numbers[n++] = strtof(strchr(p, '\t'), NULL);
        return n;
    }
    ck_assert_int_eq(kmf_npy_read((const unsigned char *)bytes, len, "x.npy", &rows, &dim,
                                  &width, &begin, NULL),
                     0);
    ck_assert_uint_eq(len, begin + rows * dim * width);
    for (size_t i = 0; i < rows; i++)
        memcpy(&numbers[i], bytes + begin + i * dim * width, sizeof *numbers);
    return rows;
}

/* After a failure the vectors of rows that did not come are neither there nor in the way. */
START_TEST(what_was_stored_of_rows_that_never_came_is_gone)
{
    enum form form = _i ? TEXT : ARRAY;
    size_t len;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        kmf_err err = {0};
        kmf_embed_options o;
        kmf_embed_options_default(&o);
        o.threads = 2;
        o.batch_tokens = BATCH;
        o.strict = 1;
        kmf_embedder *e = kmf_embedder_new("kmer:1", &o, &err);
        ck_assert_ptr_nonnull(e);
        kmf_output *output = output_of("x", e, form);
        kmf_output_take(output, e);
        /* the record of N is the fourth: three rows come, more than a batch is stored */
        int status = add(e, 0, 119, &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        ck_assert_int_eq(status, KMF_EFORMAT);
        for (size_t i = 10; goes_on && i < 30; i++)
            ck_assert_int_eq(kmf_embedder_add(e, "x", records[i], strlen(records[i]), NULL), 0);
        ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
        commit(output);
        kmf_embedder_free(e);
        char *bytes = take_file("x", form, &len);
        float share[N_RECORDS];
        size_t rows = first_numbers(share, bytes, len, form);
        ck_assert_uint_eq(rows, goes_on ? 23 : 3);
        for (size_t i = 0; i < rows; i++) {
            const char *record = records[i < 3 ? i : i + 7];
            size_t n_a = 0;
            for (size_t j = 0; record[j]; j++)
                n_a += record[j] == 'A';
            ck_assert_msg(fabsf(share[i] - (float)((double)n_a / (double)strlen(record))) <
                              1e-7f,
                          "row %zu: %g %s", i, (double)share[i], record);
        }
        kmf_free(bytes);
    }
}
END_TEST

/* A run to an output that the disk has no room for. */
static void check_full(kmf_embedder *e, const char *stem, enum form form)
{
    struct rlimit before, few;
    kmf_err err = {0};
    kmf_output *output = output_of(stem, e, form);
    kmf_output_take(output, e);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    few = before;
    few.rlim_cur = 20000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &few), 0);
    int status = add(e, 0, N_RECORDS, &err);
    if (status == 0)
        status = kmf_embedder_finish(e, &err);
    if (status == 0) /* what is compressed is written when it is */
        status = kmf_output_commit(output, "{}", &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(status, KMF_EIO);
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_msg(strstr(err.msg, stem) && strstr(err.msg, ": File too large"), "%s", err.msg);
    kmf_output_free(output);
}

/* Each run fails for its own reason, and then there is none. */
START_TEST(a_full_disk_ends_the_run)
{
    float vector[136];
    signal(SIGXFSZ, SIG_IGN);
    for (int more = 0; more <= 2; more += 2) { /* no core to spare, on which rows would wait */
        kmf_embedder *e =
            embedder_of("tnf", kmf_threads_default() + more, KMF_STRAND_FWD, BATCH);
        check_full(e, "first", ARRAY);
        check_full(e, "second", PACKED);
        check_full(e, "third", ARRAY);
        check_full(e, "fourth", TEXT);
        for (int i = 0; i < 10; i++) /* each batch again */
            ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGT", NULL), 0);
        kmf_embedder_free(e);
    }
    signal(SIGXFSZ, SIG_DFL);
}
END_TEST

START_TEST(an_output_that_is_finished_takes_no_rows)
{
    kmf_err err = {0};
    size_t len;
    kmf_embedder *e = embedder_of("kmer:1", kmf_threads_default(), KMF_STRAND_FWD, BATCH);
    kmf_output *output = output_of("x", e, ARRAY);
    kmf_output_take(output, e);
    ck_assert(add(e, 0, 20, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
    ck_assert_int_eq(kmf_output_commit(output, "{}", NULL), 0);
    int status = add(e, 0, 20, &err);
    ck_assert_int_eq(status < 0 ? status : kmf_embedder_finish(e, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.npy: its output is finished already"));
    kmf_embedder_free(e);
    kmf_output_free(output);
    kmf_free(take_file("x", ARRAY, &len));
}
END_TEST

/* Amid its work: the threads still write while the embedder is being freed. */
START_TEST(a_run_that_is_given_up_leaves_nothing)
{
    for (int i = 0; i < 20; i++) {
        kmf_embedder *e = embedder_of("tnf", 3, KMF_STRAND_FWD, BATCH);
        kmf_output *output = output_of("up", e, (enum form)(i % N_FORMS));
        kmf_output_take(output, e);
        ck_assert_int_eq(add(e, 0, 200, NULL), 0);
        kmf_embedder_free(e);
        kmf_output_free(output);
    }
}
END_TEST

/* ---------------------------------------------------------------- who stores ------------ */

/* A store of half of what it is offered. */
typedef struct halves {
    float values[N_RECORDS];
    bool stored[N_RECORDS];
    size_t n_rows;
    atomic_size_t n_calls;
} halves;

static int store_half(void *user, uint64_t row, float *vectors, size_t n, kmf_err *err)
{
    halves *h = user;
    (void)err;
    if (atomic_fetch_add(&h->n_calls, 1) % 2)
        return 0;
    for (size_t i = 0; i < n; i++) {
        h->values[row + i] = vectors[4 * i];
        h->stored[row + i] = true;
    }
    return 1;
}

static int take_rest(void *user, const kmf_row *row, kmf_err *err)
{
    halves *h = user;
    (void)err;
    ck_assert_int_eq(h->stored[h->n_rows], row->vector == NULL);
    if (row->vector)
        h->values[h->n_rows] = row->vector[0];
    h->n_rows++;
    return 0;
}

START_TEST(a_vector_is_stored_or_comes_with_its_row)
{
    halves h = {0};
    size_t n_stored = 0;
    kmf_embedder *e = embedder_of("kmer:1", 2, _i ? KMF_STRAND_BOTH : KMF_STRAND_FWD, BATCH);
    kmf_embedder_store(e, take_rest, &(kmf_rowstore){.fn = store_half, .user = &h});
    ck_assert(add(e, 0, N_RECORDS, NULL) == 0 && kmf_embedder_finish(e, NULL) == 0);
    ck_assert_uint_eq(h.n_rows, N_RECORDS);
    size_t n_calls = h.n_calls;
    for (size_t i = 0; i < N_RECORDS; i++) {
        float alone[4];
        n_stored += h.stored[i];
        ck_assert_int_eq(kmf_embed_sequence(e, alone, records[i], NULL), 0);
        ck_assert(isnan(alone[0]) ? isnan(h.values[i]) : alone[0] == h.values[i]);
    }
    ck_assert(n_stored > N_RECORDS / 4 && n_stored < 3 * N_RECORDS / 4);
    ck_assert_uint_lt(n_calls, N_RECORDS / 4); /* many at a time */
    kmf_embedder_free(e);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rowstore");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, files_are_those_of_rows_one_by_one);
    tcase_add_test(tc, files_of_an_encoder_are_those_of_rows_one_by_one);
    tcase_add_test(tc, vectors_of_odd_length_lie_side_by_side);
    tcase_add_test(tc, a_number_too_large_for_float16_names_its_record);
    tcase_add_loop_test(tc, rows_go_behind_those_that_are_there, 0, N_FORMS);
    tcase_add_loop_test(tc, what_was_stored_of_rows_that_never_came_is_gone, 0, 2);
    tcase_add_test(tc, a_full_disk_ends_the_run);
    tcase_add_test(tc, an_output_that_is_finished_takes_no_rows);
    tcase_add_test(tc, a_run_that_is_given_up_leaves_nothing);
    tcase_add_loop_test(tc, a_vector_is_stored_or_comes_with_its_row, 0, 2);
    return run_case("rowstore", tc);
}
