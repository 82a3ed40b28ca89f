/* SPDX-License-Identifier: MIT */
/*
 * Rows that are read back: against what was written, copied against what the first run would have
 * written, and samples of them against those of the sequences.
 */
#include "base/half.h"
#include "base/rng.h"
#include "models.h"
#include "run.h"

#include "kmerformer.h"

#include <math.h>

#define DIM 5
#define N 2500 /* a block, another, and some */
#define MISSING 7

/* Row i; its name is in room. */
static kmf_row row_of(uint64_t i, char room[24], float x[DIM], int per_token)
{
    kmf_rng rng = kmf_rng_stream(11, i);
    snprintf(room, 24, "r %d", (int)(i * 7919 % N));
    for (int d = 0; d < DIM; d++)
        x[d] = i == MISSING ? NAN : (float)kmf_rng_unit(&rng) - 0.5f;
    return (kmf_row){.index = 3 * i + 1,
                     .name = room,
                     .len = 100 + i,
                     .tokens = 95 + i,
                     .ambiguous = i % 3,
                     .chunks = 1 + i % 2,
                     .position = per_token ? (int64_t)i - 1 : -1,
                     .vector = x};
}

static const char provenance[] =
    "{\"columns\": 5, \"model\": {\"name\": \"m\", \"md5\": \"1\"}, "
    "\"settings\": {\"stride\": 3, \"strict\": true}}";

static void write_rows(const char *path, kmf_output_form form, uint64_t n)
{
    char name[24];
    float x[DIM];
    kmf_err err = {0};
    form.dim = DIM;
    kmf_output *out = kmf_output_new(path, &form, &err);
    ck_assert_msg(out != NULL, "%s", err.msg);
    for (uint64_t i = 0; i < n; i++) {
        kmf_row row = row_of(i, name, x, form.per_token);
        ck_assert_int_eq(kmf_output_row(out, &row, &err), 0);
    }
    ck_assert_msg(kmf_output_commit(out, provenance, &err) == 0, "%s", err.msg);
    kmf_output_free(out);
}

static kmf_err *fresh(kmf_err *err)
{
    *err = (kmf_err){0};
    return err;
}

static kmf_row_file *open_rows(const char *path)
{
    kmf_err err = {0};
    kmf_row_file *file = kmf_row_file_open(path, &err);
    ck_assert_msg(file != NULL, "%s", err.msg);
    return file;
}

static char *content(const char *path, size_t *len)
{
    char *bytes = kmf_file_read(path, (size_t)64 << 20, len, NULL);
    ck_assert_msg(bytes != NULL, "%s", path);
    return bytes;
}

static void assert_same_files(const char *a, const char *b)
{
    size_t n, m;
    char *x = content(a, &n);
    char *y = content(b, &m);
    ck_assert_uint_eq(n, m);
    ck_assert_msg(memcmp(x, y, n) == 0, "%s %s", a, b);
    kmf_free(x);
    kmf_free(y);
}

START_TEST(rows_come_back_as_they_were_written)
{
    for (int kind = 0; kind < 3; kind++) {
        const char *path = in_dir("x.npy");
        char name[24];
        float x[DIM];
        kmf_row row;
        kmf_row_file_info info;
        kmf_err err = {0};
        int f16 = kind == 1;
        int per_token = kind == 2;
        write_rows(path, (kmf_output_form){.f16 = f16, .per_token = per_token}, N);
        ck_assert_int_eq(kmf_is_row_file(path), 1);
        kmf_row_file *file = open_rows(path);
        kmf_row_file_information(file, &info);
        ck_assert_uint_eq(info.n, N);
        ck_assert_uint_eq(info.dim, DIM);
        ck_assert_int_eq(info.element_bytes, f16 ? 2 : 4);
        ck_assert_int_eq(info.named, 1);
        ck_assert_int_eq(info.per_token, per_token);
        ck_assert_str_eq(info.model, "m");
        for (uint64_t i = 0; i < N; i++) {
            kmf_row is = row_of(i, name, x, per_token);
            ck_assert_msg(kmf_row_file_next(file, &row, &err) == 1, "%s", err.msg);
            ck_assert_str_eq(row.name, is.name);
            ck_assert_uint_eq(row.index, is.index);
            ck_assert_uint_eq(row.len, is.len);
            ck_assert_uint_eq(row.tokens, is.tokens);
            ck_assert_uint_eq(row.ambiguous, is.ambiguous);
            ck_assert_uint_eq(row.chunks, is.chunks);
            ck_assert_int_eq(row.position, is.position);
            for (int d = 0; d < DIM; d++) {
                float want = f16 ? kmf_f16_to_f32(kmf_f16_from_f32(x[d])) : x[d];
                quick_assert(i == MISSING ? isnan(row.vector[d]) != 0
                                          : kmf_bits_of(row.vector[d]) == kmf_bits_of(want));
            }
        }
        ck_assert_int_eq(kmf_row_file_next(file, &row, &err), 0);
        ck_assert_int_eq(kmf_row_file_next(file, &row, &err), 0);
        kmf_row_file_close(file);
    }
}
END_TEST

START_TEST(without_names_rows_are_numbered)
{
    kmf_row row;
    kmf_row_file_info info;
    const char *path = in_dir("x.npy");
    write_rows(path, (kmf_output_form){0}, 3);
    ck_assert_int_eq(remove(in_dir("x.ids.tsv")) + remove(in_dir("x.json")), 0);
    kmf_row_file *file = open_rows(path);
    kmf_row_file_information(file, &info);
    ck_assert_int_eq(info.named, 0);
    ck_assert_ptr_null(info.model);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(kmf_row_file_next(file, &row, NULL), 1);
        ck_assert_int_eq(atoi(row.name), i + 1);
        ck_assert_uint_eq(row.index, (uint64_t)i);
        ck_assert_uint_eq(row.len, 0);
    }
    ck_assert_int_eq(kmf_row_file_next(file, &row, NULL), 0);
    char *identity = kmf_row_file_identity(file, NULL);
    ck_assert_ptr_nonnull(strstr(identity, "\"settings\":{}"));
    ck_assert_int_eq(kmf_row_file_check(file, identity, NULL), 0);
    ck_assert_int_eq(kmf_row_file_check(file, "{\"columns\": 5}", NULL), 0);
    ck_assert_int_eq(kmf_row_file_check(file, "{\"columns\": 6}", NULL), KMF_EMODEL);
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_embedder_reopen(identity, NULL, 1, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "nothing tells how they were made"));
    kmf_text_free(identity);
    kmf_row_file_close(file);
}
END_TEST

/* ---------------------------------------------------------------- copies ---------------- */

static void told(void *user, uint64_t rows)
{
    uint64_t *last = user;
    ck_assert_uint_gt(rows, *last);
    *last = rows;
}

static void copy_rows(const char *from, const char *to, kmf_output_form form, kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_embed_stats s = {.records = 10};
    uint64_t last = 0;
    form.dim = DIM;
    kmf_row_file *file = open_rows(from);
    kmf_output *out = kmf_output_new(to, &form, &err);
    ck_assert_msg(out != NULL, "%s", err.msg);
    ck_assert_msg(kmf_row_file_copy(file, out, pool, &s, told, &last, &err) == 0, "%s",
                  err.msg);
    ck_assert_uint_eq(last, N);
    ck_assert_uint_eq(s.records, N + 10);
    ck_assert_uint_eq(s.bases, (uint64_t)N * 100 + (uint64_t)N * (N - 1) / 2);
    ck_assert_uint_eq(s.tokens, s.bases - (uint64_t)N * 5);
    ck_assert_uint_eq(s.chunked, N / 2);
    ck_assert_uint_eq(s.empty, 1);
    ck_assert_int_eq(kmf_output_commit(out, provenance, &err), 0);
    kmf_output_free(out);
    kmf_row_file_close(file);
}

/* As many letters as the first number asks for. */
static size_t put_letters(const void *user, void *room, char *to, const float *vector,
                          size_t dim)
{
    (void)user;
    (void)room;
    size_t n = isnan(vector[0]) ? 0 : (size_t)((vector[0] + 0.5f) * 20);
    to[0] = '\t';
    memset(to + 1, 'a' + (int)dim, n);
    to[n + 1] = '\n';
    return n + 2;
}

START_TEST(a_copy_is_what_the_first_run_would_have_written)
{
    static const kmf_row_format letters = {
        .put = put_letters, .room = 32, .scratch_bytes = 1, .header = "#a\tb\n", .name = "l"};
    static const char *const names[] = {"y.tsv", "y.tsv.gz", "y.npy", "y.txt"};
    char path[512], first[512], copy[512];
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    write_rows(path, (kmf_output_form){0}, N);
    for (int threads = 0; threads < 4; threads += threads + 1) {
        kmf_pool *pool = threads ? kmf_pool_new(threads, NULL) : NULL;
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            kmf_output_form form = {.format = i == 3 ? &letters : NULL};
            snprintf(first, sizeof first, "%s", in_dir(names[i]));
            snprintf(copy, sizeof copy, "%s/%c%s", dir, 'z', names[i] + 1);
            write_rows(first, form, N);
            copy_rows(path, copy, form, pool);
            assert_same_files(first, copy);
            if (i < 3)
                assert_same_files(in_dir("y.ids.tsv"), in_dir("z.ids.tsv"));
        }
        kmf_pool_free(pool);
    }
}
END_TEST

/* Of its number d, as float16 where it was stored so. */
static float stored_as(const float *x, int d, int f16)
{
    return f16 ? kmf_f16_to_f32(kmf_f16_from_f32(x[d])) : x[d];
}

START_TEST(files_of_any_numbers_go_one_behind_the_other)
{
    enum { PARTS = 4, ASKED = 3 }; /* rows of a part that are asked for before it is copied */
    static const struct {
        uint64_t n;
        int f16;
    } parts[PARTS] = {{5, 1}, {0, 0}, {N, 0}, {70, 1}};
    char from[PARTS][512], name[24];
    float x[DIM];
    kmf_row row;
    kmf_err err = {0};
    kmf_pool *pool = kmf_pool_new(2, NULL);
    for (int p = 0; p < PARTS; p++) {
        snprintf(name, sizeof name, "x%d.npy", p);
        snprintf(from[p], sizeof from[p], "%s", in_dir(name));
        write_rows(from[p], (kmf_output_form){.f16 = parts[p].f16}, parts[p].n);
    }
    for (int f16 = 0; f16 < 2; f16++) {
        kmf_embed_stats stats = {0};
        kmf_output *out =
            kmf_output_new(in_dir("y.npy"), &(kmf_output_form){.dim = DIM, .f16 = f16}, &err);
        for (int p = 0; p < PARTS; p++) {
            kmf_row_file *file = open_rows(from[p]);
            for (int i = 0; p == 2 && i < ASKED; i++)
                ck_assert_int_eq(kmf_row_file_next(file, &row, NULL), 1);
            ck_assert_int_eq(
                kmf_row_file_copy(file, out, p ? pool : NULL, &stats, NULL, NULL, &err), 0);
            kmf_row_file_close(file);
        }
        ck_assert_uint_eq(stats.records, 75 + N - ASKED);
        ck_assert_uint_eq(stats.empty, 2);
        ck_assert_int_eq(kmf_output_commit(out, provenance, &err), 0);
        kmf_output_free(out);
        ck_assert_int_eq(remove(in_dir("y.ids.tsv")), 0); /* indices are those of the parts */
        kmf_row_file *file = open_rows(in_dir("y.npy"));
        for (int p = 0; p < PARTS; p++)
            for (uint64_t i = p == 2 ? ASKED : 0; i < parts[p].n; i++) {
                (void)row_of(i, name, x, 0);
                ck_assert_int_eq(kmf_row_file_next(file, &row, &err), 1);
                for (int d = 0; d < DIM; d++)
                    quick_assert(i == MISSING
                                     ? isnan(row.vector[d]) != 0
                                     : kmf_bits_of(row.vector[d]) ==
                                           kmf_bits_of(stored_as(x, d, f16 || parts[p].f16)));
            }
        ck_assert_int_eq(kmf_row_file_next(file, &row, &err), 0);
        kmf_row_file_close(file);
    }
    kmf_pool_free(pool);
}
END_TEST

START_TEST(a_number_that_an_output_cannot_have_ends_the_copy)
{
    static const float large[2][2] = {{1, 2}, {3, 70000}};
    kmf_err err = {0};
    kmf_embed_stats stats = {0};
    kmf_output *wide = kmf_output_new(in_dir("x.npy"), &(kmf_output_form){.dim = 2}, &err);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(kmf_output_row(wide,
                                        &(kmf_row){.index = (uint64_t)i,
                                                   .name = i ? "b" : "a",
                                                   .position = -1,
                                                   .vector = large[i]},
                                        &err),
                         0);
    ck_assert_int_eq(kmf_output_commit(wide, "{}", &err), 0);
    kmf_output_free(wide);
    kmf_row_file *file = open_rows(in_dir("x.npy"));
    kmf_output *narrow =
        kmf_output_new(in_dir("y.npy"), &(kmf_output_form){.dim = 2, .f16 = 1}, &err);
    ck_assert_int_eq(kmf_row_file_copy(file, narrow, NULL, &stats, NULL, NULL, &err),
                     KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "'b': 70000 is too large for float16"));
    ck_assert_uint_eq(stats.records, 1);
    kmf_output_free(narrow);
    kmf_row_file_close(file);
}
END_TEST

START_TEST(outputs_of_other_rows_take_no_copy)
{
    const char *path = in_dir("x.npy");
    write_rows(path, (kmf_output_form){0}, 3);
    for (int i = 0; i < 2; i++) {
        kmf_embed_stats s = {0};
        kmf_row_file *file = open_rows(path);
        kmf_output *out = kmf_output_new(
            in_dir("y.tsv"), &(kmf_output_form){.dim = DIM + (size_t)i, .per_token = 1 - i},
            NULL);
        ck_assert_int_eq(kmf_row_file_copy(file, out, NULL, &s, NULL, NULL, NULL), KMF_EINVAL);
        kmf_output_free(out);
        kmf_row_file_close(file);
    }
}
END_TEST

/* ---------------------------------------------------------------- what is wrong ---------- */

static void put_text(const char *path, const char *text)
{
    ck_assert_int_eq(kmf_file_save(path, text, strlen(text), NULL), 0);
}

#define HEADER "#index\tname\tlength\ttokens\tambiguous\tchunks\n"

START_TEST(what_lies_beside_rows_has_to_fit)
{
    static const struct {
        const char *text, *message;
    } ids[] = {
        {HEADER "0\ta\t9\t1\t0\t1\n", "x.ids.tsv: it has fewer lines than "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t1\t0\t1\n2\tc\t9\t1\t0\t1\n",
         "x.ids.tsv: it has more lines than "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t1\t0\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t1\t0\t1", "x.ids.tsv: its last line is cut"},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t+1\t0\t1\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n 1\tb\t9\t1\t0\t1\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t-1\t0\t1\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t9\t1\t0\t1\t5\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n1 \tb\t9\t1\t0\t1\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\nb\n", "line 3 is none of "},
        {HEADER "0\ta\t9\t1\t0\t1\n1\tb\t\t1\t0\t1\n", "line 3 is none of "},
    };
    char path[512];
    kmf_err err;
    kmf_row row;
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    write_rows(path, (kmf_output_form){0}, 2);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        put_text(in_dir("x.ids.tsv"), ids[i].text);
        kmf_row_file *file = open_rows(path);
        int status = 1;
        (void)fresh(&err);
        while (status > 0)
            status = kmf_row_file_next(file, &row, &err);
        ck_assert_msg(status == KMF_EMODEL && strstr(err.msg, ids[i].message), "%zu: %s", i,
                      err.msg);
        kmf_row_file_close(file);
    }
    put_text(in_dir("x.ids.tsv"), "#name\n");
    ck_assert_ptr_null(kmf_row_file_open(path, fresh(&err)));
    ck_assert_ptr_nonnull(strstr(err.msg, "x.ids.tsv: it has an unknown header"));
    put_text(in_dir("x.ids.tsv"), HEADER);
    put_text(in_dir("x.json"), "{\"columns\": 4}");
    ck_assert_ptr_null(kmf_row_file_open(path, fresh(&err)));
    ck_assert_ptr_nonnull(strstr(err.msg, "x.json: it is of 4 columns, and "));
    put_text(in_dir("x.json"), "{\"output\": \"x.tsv\"}");
    ck_assert_ptr_null(kmf_row_file_open(path, fresh(&err)));
    ck_assert_ptr_nonnull(strstr(err.msg, "written later"));
    put_text(path, "\x93NUMPY and no array");
    ck_assert_ptr_null(kmf_row_file_open(path, fresh(&err)));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_int_eq(kmf_is_row_file(path), 1);
    put_text(path, "ACGT");
    ck_assert_int_eq(kmf_is_row_file(path), 0);
    ck_assert_int_eq(kmf_is_row_file(dir), 0);
    ck_assert_int_eq(kmf_is_row_file(in_dir("none.npy")), 0);
}
END_TEST

/* ---------------------------------------------------------------- whose they are --------- */

static void embed_reads(const char *model, kmf_embed_options o, const char *path, char **is)
{
    static const char *const reads[] = {"ACGTACGTTAGC", "NNNN", "TTGACCATGACAT", "GGGACCA",
                                        "ACACACGTGTA",  "CCA",  "ACGATCAGCATCA", "TTTTTGA"};
    char name[8];
    kmf_err err = {0};
    o.threads = 2;
    kmf_embedder *e = kmf_embedder_new(model, &o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    kmf_output *out =
        kmf_output_new(path, &(kmf_output_form){.dim = kmf_embedder_dim(e)}, NULL);
    kmf_output_take(out, e);
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        snprintf(name, sizeof name, "r%zu", i);
        ck_assert_int_eq(kmf_embedder_add(e, name, reads[i], strlen(reads[i]), NULL), 0);
    }
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    char *text = kmf_provenance(e, path, NULL, NULL, 0, NULL, NULL);
    if (is)
        *is = kmf_embedder_identity(e, NULL);
    kmf_embedder_free(e);
    ck_assert_int_eq(kmf_output_commit(out, text, NULL), 0);
    kmf_output_free(out);
    kmf_text_free(text);
}

START_TEST(rows_know_whose_vectors_they_are)
{
    char path[512];
    char *is = NULL;
    kmf_embed_options usual, other;
    kmf_err err = {0};
    kmf_embed_options_default(&usual);
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    for (int model = 0; model < 2; model++) {
        embed_reads(model ? GOLDEN : "tnf", usual, path, &is);
        kmf_row_file *file = open_rows(path);
        ck_assert_msg(kmf_row_file_check(file, is, fresh(&err)) == 0, "%s", err.msg);
        char *own = kmf_row_file_identity(file, NULL);
        kmf_embedder *again = kmf_embedder_reopen(own, NULL, 1, &err);
        ck_assert_msg(again != NULL, "%s", err.msg);
        kmf_embedder_free(again);
        kmf_text_free(own);
        kmf_row_file_close(file);
        other = usual;
        other.strand = KMF_STRAND_RC;
        embed_reads(model ? GOLDEN : "tnf", other, path, NULL);
        file = open_rows(path);
        ck_assert_int_eq(kmf_row_file_check(file, is, fresh(&err)), KMF_EMODEL);
        ck_assert_ptr_nonnull(strstr(err.msg, ": setting strand was \""));
        ck_assert_ptr_nonnull(strstr(err.msg, ", now it is \"rc\""));
        kmf_row_file_close(file);
        embed_reads("kmer:2", usual, path, NULL);
        file = open_rows(path);
        ck_assert_int_eq(kmf_row_file_check(file, is, fresh(&err)), KMF_EMODEL);
        ck_assert_ptr_nonnull(strstr(err.msg, ": model's "));
        ck_assert_int_eq(kmf_row_file_check(file, "{", fresh(&err)), KMF_EMODEL);
        kmf_row_file_close(file);
        kmf_text_free(is);
    }
}
END_TEST

/* ---------------------------------------------------------------- samples ---------------- */

static const char labels[] = "r0\ta\nr1\tb\nr2\ta\nr3\tb\nr4\ta\nr5\tb\nr6\ta\nr7\tb\n";

START_TEST(samples_of_rows_have_the_vectors_of_their_names)
{
    char path[512], names[512];
    kmf_embed_options usual;
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_row_file_info rows;
    kmf_err err = {0};
    float x[8 * 136];
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    snprintf(names, sizeof names, "%s", in_dir("labels.tsv"));
    kmf_embed_options_default(&usual);
    embed_reads("tnf", usual, path, NULL);
    put_text(names, labels);
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_ptr_null(kmf_samples_rows(samples));
    ck_assert_msg(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, path,
                                        &(kmf_labelled_options){.labels = names},
                                        fresh(&err)) == 0,
                  "%s", err.msg);
    ck_assert_int_eq(kmf_samples_vectors(samples, x, NULL), KMF_EINVAL);
    kmf_samples_options_default(&opts);
    opts.test_share = 0.5;
    opts.no_dev = 1;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    ck_assert_uint_eq(info.n, 8);
    ck_assert_uint_eq(info.n_test, 4);
    kmf_row_file_information(kmf_samples_rows(samples), &rows);
    ck_assert_uint_eq(rows.dim, 136);
    ck_assert_int_eq(kmf_samples_vectors(samples, x, &err), 0);
    for (size_t i = 0; i < 8; i++) {
        kmf_sample s;
        kmf_row row = {0};
        kmf_samples_get(samples, i, &s);
        ck_assert_str_eq(s.seq, "");
        ck_assert_int_eq(s.y, (s.name[1] - '0') % 2);
        kmf_row_file *file = open_rows(path);
        do
            ck_assert_int_eq(kmf_row_file_next(file, &row, NULL), 1);
        while (strcmp(row.name, s.name) != 0);
        ck_assert_mem_eq(x + i * 136, row.vector, 136 * sizeof *x);
        kmf_row_file_close(file);
    }
    ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TEST, path,
                                           &(kmf_labelled_options){.labels = names},
                                           fresh(&err)),
                     KMF_EINVAL);
    kmf_samples_free(samples);
}
END_TEST

START_TEST(samples_are_rows_of_one_kind)
{
    static const struct {
        const char *model, *message;
    } others[] = {{"kmer:2", "x.npy has 136"}, {"tnf", "setting norm was "}};
    char path[512], names[512], other[512];
    kmf_embed_options o;
    kmf_err err = {0};
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    snprintf(other, sizeof other, "%s", in_dir("y.npy"));
    snprintf(names, sizeof names, "%s", in_dir("labels.tsv"));
    kmf_embed_options_default(&o);
    embed_reads("tnf", o, path, NULL);
    o.norm = KMF_NORM_L2;
    put_text(names, labels);
    for (size_t i = 0; i < 2; i++) {
        kmf_samples *samples = kmf_samples_new(NULL);
        embed_reads(others[i].model, o, other, NULL);
        ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, path,
                                               &(kmf_labelled_options){.labels = names}, NULL),
                         0);
        ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, path,
                                               &(kmf_labelled_options){.labels = names},
                                               fresh(&err)),
                         KMF_EINVAL);
        ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TEST, other,
                                               &(kmf_labelled_options){.labels = names},
                                               fresh(&err)),
                         KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, others[i].message), "%s", err.msg);
        kmf_samples_free(samples);
    }
    kmf_samples *samples = kmf_samples_new(NULL);
    put_text(names, "r0\ta\nr1\tb\n");
    ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, path,
                                           &(kmf_labelled_options){.labels = names},
                                           fresh(&err)),
                     KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.npy: row 3, 'r2', has no label in "));
    kmf_samples_free(samples);
    samples = kmf_samples_new(NULL);
    write_rows(other, (kmf_output_form){.per_token = 1}, 3);
    ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, other,
                                           &(kmf_labelled_options){.labels = names},
                                           fresh(&err)),
                     KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "a row for each token"));
    write_rows(other, (kmf_output_form){0}, 0);
    ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, other,
                                           &(kmf_labelled_options){.labels = names},
                                           fresh(&err)),
                     KMF_EFORMAT);
    ck_assert_str_eq(err.msg, "no records to train");
    kmf_samples_free(samples);
}
END_TEST

START_TEST(what_is_written_to_meanwhile_is_told)
{
    char path[512], names[512];
    float x[8 * 136];
    kmf_err err = {0};
    kmf_row row;
    kmf_embed_options usual;
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_embed_options_default(&usual);
    kmf_samples_options_default(&opts);
    opts.test_share = 0.5;
    opts.no_dev = 1;
    snprintf(path, sizeof path, "%s", in_dir("x.npy"));
    snprintf(names, sizeof names, "%s", in_dir("labels.tsv"));
    embed_reads("tnf", usual, path, NULL);
    put_text(names, labels);
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_int_eq(kmf_samples_read_rows(samples, KMF_ROLE_TRAIN, path,
                                           &(kmf_labelled_options){.labels = names}, &err),
                     0);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    kmf_row_file *file = open_rows(path);
    FILE *other = fopen(path, "r+b");
    ck_assert_int_eq(fseek(other, 300, SEEK_SET) + (fputc(1, other) == EOF), 0);
    ck_assert_int_eq(fclose(other), 0);
    ck_assert_int_eq(kmf_samples_vectors(samples, x, fresh(&err)), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "was written to while it was in use"));
    int got = 1;
    while (got > 0)
        got = kmf_row_file_next(file, &row, fresh(&err));
    ck_assert_int_eq(got, KMF_EIO);
    kmf_row_file_close(file);
    kmf_embedder *e = kmf_embedder_new("tnf", &usual, NULL);
    ck_assert_int_eq(kmf_samples_embed(samples, e, x, NULL), KMF_EINVAL);
    kmf_embedder_free(e);
    kmf_samples_free(samples);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, rows_come_back_as_they_were_written);
    tcase_add_test(tcase, without_names_rows_are_numbered);
    tcase_add_test(tcase, a_copy_is_what_the_first_run_would_have_written);
    tcase_add_test(tcase, files_of_any_numbers_go_one_behind_the_other);
    tcase_add_test(tcase, a_number_that_an_output_cannot_have_ends_the_copy);
    tcase_add_test(tcase, what_is_written_to_meanwhile_is_told);
    tcase_add_test(tcase, outputs_of_other_rows_take_no_copy);
    tcase_add_test(tcase, what_lies_beside_rows_has_to_fit);
    tcase_add_test(tcase, rows_know_whose_vectors_they_are);
    tcase_add_test(tcase, samples_of_rows_have_the_vectors_of_their_names);
    tcase_add_test(tcase, samples_are_rows_of_one_kind);
    return run_case("rowfile", tcase);
}
