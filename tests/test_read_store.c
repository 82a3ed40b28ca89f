/* SPDX-License-Identifier: MIT */
/*
 * Files read by the embedder whose vectors go where they belong out of the threads that made them,
 * many of a range or few, stored or not, against rows one by one.
 */
#include "base/err.h"
#include "checked.h"
#include "contigs.h"

#include <stdatomic.h>
#include <time.h>

/* The table at `path` of a record, a FASTA, and both once more. by_read: as it is meant. */
static text table_of(const char *model, const kmf_embed_options *o, const char *fasta,
                     const char *path, bool f16, bool by_read, uint64_t n_by_ranges)
{
    kmf_reader_stats stats;
    rows none = {0};
    kmf_embedder *e = embedder_of(model, o, &none);
    kmf_output *output =
        kmf_output_new(path, &(kmf_output_form){.dim = none.dim, .f16 = f16}, NULL);
    ck_assert_ptr_nonnull(output);
    if (by_read)
        kmf_output_take(output, e);
    else
        kmf_embedder_sink(e, kmf_output_row, output);
    for (int file = 0; file < 2; file++) {
        ck_assert_int_eq(kmf_embedder_add(e, "before", "ACGTT", 5, NULL), 0);
        ck_assert_int_eq(by_read ? kmf_embedder_read(e, fasta, NULL, &stats, NULL)
                                 : add_file(e, fasta, &stats, NULL),
                         0);
    }
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    ck_assert_int_eq(kmf_output_commit(output, "{}", NULL), 0);
    ck_assert(!by_read || n_by_ranges == ANY || e->n_by_ranges == n_by_ranges);
    kmf_embedder_free(e);
    kmf_output_free(output);
    return read_file(path);
}

/* Rows that threads write where they belong against rows one by one. */
static void check_table(const char *model, const kmf_embed_options *o, const char *fasta,
                        const char *name, bool f16, uint64_t n_by_ranges)
{
    const char *path = in_dir(name);
    text one_by_one = table_of(model, o, fasta, path, f16, false, 0);
    text read = table_of(model, o, fasta, path, f16, true, n_by_ranges);
    must_equal(&one_by_one, &read);
    free(one_by_one.bytes);
    free(read.bytes);
}

/* Files of vectors, some of which are written in vain. */
START_TEST(files_are_those_of_rows_one_by_one)
{
    static const char *const names[] = {"x.npy", "x.tsv"};
    kmf_embed_options o = options_of(2);
    for (int i = 0; i < 16; i += CHECKED ? 3 : 1) {
        text t = make_fasta(9, i % 4 == 3);
        if (i % 4 == 1)
            memcpy(strchr(t.bytes + t.len / 2, '\n') - 1, " ", 1);
        const char *fasta = i < 8        ? write_bytes("x.fa", t.bytes, t.len)
                            : i % 2 == 0 ? write_gzip("x.fa.gz", &t)
                                         : write_bgzf("x.fa.gz", &t);
        check_table("kmer:2", &o, fasta, names[i / 4 % 2], false, i % 2 ? ANY : 2);
        free(t.bytes);
    }
}
END_TEST

/* Some long contigs, and in the midst of them many that stand in one range. */
static text make_crowd(size_t n_crowd)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(47, 0);
    for (int i = 0; i < 4; i++) {
        add_contig(&t, &rng, "long", CONTIG);
        for (size_t j = 0; i == 1 && j < n_crowd; j++) {
            add_contig(&t, &rng, "short", j % 100 == 30 ? 0 : 200 + j % 50);
            if (j % 300 == 70)
                add(&t, ">unknown\nNNNNNNNNNNNNNNN\n");
        }
    }
    return t;
}

/* A batch has room for the sums of 512 of kmer:5, of 8 of kmer:8, of 1025 of these vectors. */
START_TEST(vectors_are_stored_as_they_are_made)
{
    kmf_embed_options o = options_of(2);
    kmf_embed_options one = options_of(1);
    kmf_embed_options both = options_of(2);
    char vectors[256];
    snprintf(vectors, sizeof vectors, "%s", save_vectors(1));
    text t = make_crowd(2500);
    text small = make_crowd(40);
    check_table("kmer:5", &one, write_gzip("x.fa.gz", &t), "x.npy", false, 2);
    check_table("kmer:5", &o, write_bgzf("y.fa.gz", &t), "x.npy", false, 2);
    check_table("kmer:8", &o, write_bytes("few.fa", small.bytes, small.len), "x.npy", false, 2);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    check_table("kmer:5", &o, fasta, "x.npy", false, 2);
    check_table("kmer:5", &o, fasta, "y.npy", true, 2);
    check_table(vectors, &o, fasta, "x.npy", false, 2);
    check_table(vectors, &one, fasta, "y.npy", true, 2);
    check_table("kmer:5", &o, fasta, "x.tsv", false, 0);
    both.strand = KMF_STRAND_BOTH;
    check_table("kmer:5", &both, fasta, "x.npy", false, 0);
    free(t.bytes);
    free(small.bytes);
}
END_TEST

/* Who stores some of the vectors, and has all rows. */
typedef struct storing {
    rows rows;
    size_t n_rows;
    enum { NONE, SOME, ALL_SLOWLY, FAILING } what;
    atomic_size_t n_calls;
    float *vectors; /* owned; of the rows that are stored */
} storing;

static int store(void *user, uint64_t row, float *vectors, size_t n, kmf_err *err)
{
    storing *s = user;
    size_t call = atomic_fetch_add(&s->n_calls, 1);
    if (s->what == FAILING && call == 1)
        return kmf_fail(err, KMF_EIO, "the second call");
    if (s->what == NONE || (s->what == SOME && call % 2))
        return 0;
    if (s->what == ALL_SLOWLY && call < 4)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    memcpy(s->vectors + row * s->rows.dim, vectors, n * s->rows.dim * sizeof *vectors);
    memset(vectors, 0, n * s->rows.dim * sizeof *vectors);
    return 1;
}

static int keep_stored(void *user, const kmf_row *row, kmf_err *err)
{
    storing *s = user;
    kmf_row whole = *row;
    if (!row->vector)
        whole.vector = s->vectors + s->n_rows * s->rows.dim;
    s->n_rows++;
    return keep(&s->rows, &whole, err);
}

static kmf_embedder *storing_embedder(storing *s, size_t n_rows)
{
    kmf_embed_options o = options_of(2);
    kmf_embedder *e = embedder_of("kmer:5", &o, &s->rows);
    s->vectors = calloc(n_rows * s->rows.dim, sizeof *s->vectors);
    ck_assert_ptr_nonnull(s->vectors);
    kmf_embedder_store(e, keep_stored, &(kmf_rowstore){.fn = store, .user = s, .all = true});
    return e;
}

/* The rows of a FASTA by a store against those of records one by one. */
static void check_stored(storing *s, const char *fasta, const char *read_from,
                         uint64_t *n_by_ranges)
{
    kmf_embed_options o = options_of(2);
    kmf_reader_stats stats;
    rows one_by_one = {0};
    kmf_embedder *a = embedder_of("kmer:5", &o, &one_by_one);
    kmf_embedder *b = storing_embedder(s, 3000);
    ck_assert_int_eq(add_file(a, fasta, &stats, NULL), 0);
    ck_assert_int_eq(kmf_embedder_read(b, read_from, NULL, &stats, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(a, NULL) + kmf_embedder_finish(b, NULL), 0);
    *n_by_ranges = b->n_by_ranges;
    must_equal(&one_by_one.text, &s->rows.text);
    kmf_embedder_free(a);
    kmf_embedder_free(b);
    free(one_by_one.text.bytes);
    free(s->rows.text.bytes);
    free(s->vectors);
}

/*
 * They are thought to be stored: rows come whether there is room for those of a range or not; it
 * has 512 sums, or 1024 vectors.
 */
START_TEST(rows_that_are_not_stored_come_all_the_same)
{
    static const size_t crowds[] = {300, 700, 2500};
    for (int i = 0; i < 6; i++) {
        size_t n = crowds[i / 2];
        uint64_t n_by_ranges;
        text t = make_crowd(n);
        storing s = {.what = i % 2 ? SOME : NONE};
        const char *fasta = write_bytes("x.fa", t.bytes, t.len);
        check_stored(&s, fasta, fasta, &n_by_ranges);
        ck_assert(s.what == SOME || n_by_ranges == (n < 1024));
        free(t.bytes);
    }
}
END_TEST

/* What follows a crowd is inflated meanwhile, more portions than there are batches. */
START_TEST(portions_wait_for_a_slow_store)
{
    uint64_t n_by_ranges;
    text t = make_crowd(2500);
    const char *gz = write_gzip("x.fa.gz", &t);
    const char *bgzf = write_bgzf("y.fa.gz", &t);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    for (int i = 0; i < 2; i++) {
        storing s = {.what = ALL_SLOWLY};
        check_stored(&s, fasta, i ? bgzf : gz, &n_by_ranges);
        ck_assert_uint_eq(n_by_ranges, 1);
        ck_assert_uint_gt(s.n_calls, 4);
    }
    free(t.bytes);
}
END_TEST

START_TEST(a_store_that_fails_amid_a_batch_ends_the_run)
{
    text t = make_crowd(2500);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_reader_stats stats;
    kmf_err err = {0};
    storing s = {.what = FAILING};
    kmf_embedder *e = storing_embedder(&s, 3000);
    int status = kmf_embedder_read(e, fasta, NULL, &stats, &err);
    ck_assert_int_eq(status == 0 ? kmf_embedder_finish(e, &err) : status, KMF_EIO);
    ck_assert_str_eq(err.msg, "the second call");
    kmf_embedder_sink(e, keep, &s.rows);
    s.rows.text.len = 0;
    ck_assert_int_eq(kmf_embedder_add(e, "x", "ACGTACGT", 8, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    ck_assert_uint_gt(s.rows.text.len, 0);
    kmf_embedder_free(e);
    free(s.rows.text.bytes);
    free(s.vectors);
    free(t.bytes);
}
END_TEST

/* AAA, which one record of a crowd has, has numbers beyond float16. */
START_TEST(a_number_too_large_amid_a_batch_names_its_record)
{
    char name[32];
    kmf_embed_options o = options_of(2);
    o.k = 3;
    text t = {0};
    kmf_vectors *v = kmf_vectors_new(KMF_DNA, 64, 5, 1, NULL);
    const char *model = in_dir("large.safetensors");
    for (size_t i = 0; i < 64; i++) {
        v->code[i] = i;
        v->k[i] = 3;
        v->count[i] = 1;
        for (size_t d = 0; d < 5; d++)
            v->values[i * 5 + d] = i == 0 ? 1e6f : 1;
    }
    v->info.canonical = 0;
    ck_assert_int_eq(kmf_vectors_index(v, "v", NULL), 0);
    ck_assert_int_eq(kmf_vectors_save(v, model, KMF_VECTORS_SAFETENSORS, NULL, NULL), 0);
    kmf_vectors_free(v);
    for (int i = 0; i < 2; i++) {
        add(&t, ">long\n");
        for (size_t j = 0; j < CONTIG / 50; j++)
            add(&t, "ACGTCGTACGATCGACTAGCTACGTAGCATCGACTGACTGACTGCATGCA\n");
        for (int j = 0; j < 2500; j++) {
            snprintf(name, sizeof name, ">short%d\n", j);
            add(&t, name);
            for (int line = 0; line < 4; line++)
                add(&t, i == 0 && j == 1700 ? "ACGTAAAACGT\n" : "ACGTACGTCAG\n");
        }
    }
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    for (int by_read = 0; by_read < 2; by_read++) {
        rows none = {0};
        kmf_reader_stats stats;
        kmf_err err = {0};
        kmf_embedder *e = embedder_of(model, &o, &none);
        kmf_output *output = kmf_output_new(
            in_dir("x.npy"), &(kmf_output_form){.dim = none.dim, .f16 = 1}, NULL);
        ck_assert_ptr_nonnull(output);
        if (by_read)
            kmf_output_take(output, e);
        else
            kmf_embedder_sink(e, kmf_output_row, output);
        int status = by_read ? kmf_embedder_read(e, fasta, NULL, &stats, &err)
                             : add_file(e, fasta, &stats, &err);
        ck_assert_int_eq(status == 0 ? kmf_embedder_finish(e, &err) : status, KMF_ENUMERIC);
        ck_assert_msg(strstr(err.msg, "'short1700': ") && strstr(err.msg, "float16"), "%s",
                      err.msg);
        kmf_embedder_free(e);
        kmf_output_free(output);
    }
    free(t.bytes);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("read_store");
    tcase_add_unchecked_fixture(tests, make_dir, remove_dir);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, files_are_those_of_rows_one_by_one);
    tcase_add_test(tests, vectors_are_stored_as_they_are_made);
    tcase_add_test(tests, rows_that_are_not_stored_come_all_the_same);
    tcase_add_test(tests, portions_wait_for_a_slow_store);
    tcase_add_test(tests, a_store_that_fails_amid_a_batch_ends_the_run);
    tcase_add_test(tests, a_number_too_large_amid_a_batch_names_its_record);
    return run_case("read_store", tests);
}
