/* SPDX-License-Identifier: MIT */
/*
 * Second source: a twin that looks at every window by itself, encodes it letter by letter with
 * strchr, turns it around letter by letter, and sorts all codes with qsort.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "files.h"
#include "run.h"
#include "seq/seqio.h"
#include "words/block.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kmf_count_options count_options(int k, int threads)
{
    kmf_count_options o;
    kmf_count_options_default(&o);
    o.k = k;
    o.threads = threads;
    return o;
}

/* ---------------------------------------------------------------- sequences ------------- */

#define N_SEQS 64

typedef struct seqs {
    char *seq[N_SEQS];
    size_t len[N_SEQS];
    size_t n;
} seqs;

static char *letters(size_t len, const char *of, kmf_rng *rng)
{
    char *s = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        s[i] = of[kmf_rng_below(rng, strlen(of))];
    s[len] = '\0';
    return s;
}

static void add_seq(seqs *s, char *seq)
{
    ck_assert_uint_lt(s->n, N_SEQS);
    s->seq[s->n] = seq;
    s->len[s->n++] = strlen(seq);
}

/* Records of all kinds: empty, short, clean, with ambiguous letters, of one letter, long. */
static seqs make_seqs(const char *of, size_t longest, uint64_t seed)
{
    seqs s = {.n = 0};
    kmf_rng rng = kmf_rng_stream(seed, 1);
    for (size_t len = 0; len < 36; len++)
        add_seq(&s, letters(len, of, &rng));
    for (int i = 0; i < 12; i++) {
        char *seq = letters(100 + 37 * (size_t)i, of, &rng);
        for (int j = 0; j < i; j++)
            seq[kmf_rng_below(&rng, strlen(seq))] = "NX-.*nRB"[j % 8];
        add_seq(&s, seq);
    }
    char *same = letters(3000, of, &rng);
    memset(same, of[0], 3000);
    add_seq(&s, same);
    char *lower = letters(500, of, &rng);
    for (size_t i = 0; i < 500; i++)
        lower[i] = (char)tolower((unsigned char)lower[i]);
    add_seq(&s, lower);
    add_seq(&s, letters(longest, of, &rng));
    return s;
}

static void free_seqs(seqs *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->seq[i]);
}

/* ---------------------------------------------------------------- the twin -------------- */

typedef struct twin {
    uint64_t *codes;
    size_t n;
    uint64_t ambiguous;
} twin;

static int by_code(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static int number_of(const char *of, char c)
{
    char u = (char)toupper((unsigned char)c);
    if (strcmp(of, "ACGT") == 0 && u == 'U')
        u = 'T';
    const char *at = u ? strchr(of, u) : NULL;
    return at ? (int)(at - of) : -1;
}

static bool window_code(const kmf_count_options *o, const char *seq, uint64_t *code)
{
    const char *of = kmf_alphabet_letters(o->alphabet);
    int bits = o->alphabet == KMF_DNA ? 2 : 5;
    uint64_t forward = 0;
    uint64_t reverse = 0;
    for (int i = 0; i < o->k; i++) {
        int fwd = number_of(of, seq[i]);
        int rc = number_of(of, seq[o->k - 1 - i]);
        if (fwd < 0)
            return false;
        forward = (forward << bits) + (uint64_t)fwd;
        reverse = (reverse << bits) + (uint64_t)(3 - rc);
    }
    *code = o->canonical && reverse < forward ? reverse : forward;
    return true;
}

static twin count_naively(const kmf_count_options *o, const seqs *s)
{
    size_t all = 0;
    for (size_t i = 0; i < s->n; i++)
        all += s->len[i];
    twin t = {.codes = malloc((all + 1) * sizeof *t.codes)};
    for (size_t i = 0; i < s->n; i++)
        for (size_t at = 0; at + (size_t)o->k <= s->len[i]; at += o->stride) {
            if (window_code(o, s->seq[i] + at, &t.codes[t.n]))
                t.n++;
            else
                t.ambiguous++;
        }
    qsort(t.codes, t.n, sizeof *t.codes, by_code);
    return t;
}

static void compare(const kmf_counts *counts, const twin *t, const kmf_count_options *o,
                    const seqs *s)
{
    kmf_counts_info info;
    kmf_counts_walk walk;
    uint64_t code = 0;
    uint64_t count = 0;
    uint64_t distinct = 0;
    kmf_counts_information(counts, &info);
    kmf_counts_start(&walk, counts);
    for (size_t i = 0; i < t->n;) {
        size_t beg = i;
        while (i < t->n && t->codes[i] == t->codes[beg])
            i++;
        bool same = kmf_counts_next(&walk, &code, &count) == 1 && code == t->codes[beg] &&
                    count == i - beg && kmf_counts_get(counts, code) == count;
        if (!same) /* an assertion for each k-mer would take most of the time */
            ck_abort_msg(
                "k %d canonical %d stride %zu: code %llx count %llu, expected %llx %zu", o->k,
                o->canonical, o->stride, (unsigned long long)code, (unsigned long long)count,
                (unsigned long long)t->codes[beg], i - beg);
        distinct++;
    }
    ck_assert_int_eq(kmf_counts_next(&walk, &code, &count), 0);
    ck_assert_uint_eq(info.distinct, distinct);
    ck_assert_uint_eq(info.kmers, t->n);
    ck_assert_uint_eq(info.ambiguous, t->ambiguous);
    ck_assert_uint_eq(info.records, s->n);
    size_t all = 0;
    for (size_t i = 0; i < s->n; i++)
        all += s->len[i];
    ck_assert_uint_eq(info.letters, all);
}

/* ---------------------------------------------------------------- counting -------------- */

static kmf_counts *count_added(const kmf_count_options *o, const seqs *s, kmf_err *err)
{
    kmf_counts *counts = NULL;
    kmf_counter *counter = kmf_counter_new(o, err);
    if (!counter)
        return NULL;
    int status = 0;
    for (size_t i = 0; i < s->n && status == 0; i++)
        status = kmf_counter_add(counter, s->seq[i], s->len[i], err);
    if (status == 0)
        counts = kmf_counter_finish(counter, err);
    kmf_counter_free(counter);
    return counts;
}

typedef struct noted {
    uint64_t letters;
    double made;
} noted;

static pthread_t caller; /* which alone is told */

static void note_progress(void *user, uint64_t letters, double made)
{
    noted *last = user;
    ck_assert(pthread_equal(caller, pthread_self()));
    ck_assert_uint_ge(letters, last->letters);
    ck_assert(made >= last->made && made <= 1);
    *last = (noted){letters, made};
}

/* The same through a reader, as FASTA with lines of 61. last: of the progress, or NULL. */
static kmf_counts *count_read(const kmf_count_options *o, const seqs *s, noted *last,
                              kmf_err *err)
{
    size_t all = 0;
    size_t len = 0;
    for (size_t i = 0; i < s->n; i++)
        all += s->len[i] + s->len[i] / 61 + 16;
    char *file = malloc(all + 1);
    for (size_t i = 0; i < s->n; i++) {
        len += (size_t)sprintf(file + len, ">%zu\n", i);
        for (size_t at = 0; at < s->len[i]; at += 61)
            len += (size_t)sprintf(file + len, "%.61s\n", s->seq[i] + at);
    }
    kmf_counts *counts = NULL;
    kmf_counter *counter = kmf_counter_new(o, err);
    ck_assert_ptr_nonnull(counter);
    kmf_reader *reader = kmf_reader_open_memory(file, len, kmf_counter_pool(counter), err);
    ck_assert_ptr_nonnull(reader);
    if (last)
        kmf_counter_progress(counter, note_progress, last);
    if (kmf_counter_read(counter, reader, err) == 0)
        counts = kmf_counter_finish(counter, err);
    kmf_reader_close(reader);
    kmf_counter_free(counter);
    free(file);
    return counts;
}

static void check_counting(const kmf_count_options *o, const seqs *s)
{
    kmf_err err = {0};
    twin t = count_naively(o, s);
    kmf_counts *added = count_added(o, s, &err);
    ck_assert_msg(added != NULL, "%s", err.msg);
    compare(added, &t, o, s);
    kmf_counts_free(added);
    kmf_counts *read = count_read(o, s, NULL, &err);
    ck_assert_msg(read != NULL, "%s", err.msg);
    compare(read, &t, o, s);
    kmf_counts_free(read);
    free(t.codes);
}

START_TEST(every_k_of_dna_is_counted_as_by_the_twin)
{
    seqs s = make_seqs("ACGTacgu", CHECKED ? 4000 : 30000, 1);
    for (int k = 1; k <= 32; k++)
        for (int canonical = 0; canonical < 2; canonical++) {
            kmf_count_options o = count_options(k, 1 + (k + canonical) % 3);
            o.canonical = canonical;
            if (k > 12 && (k + canonical) % 5 > 0)
                o.memory = (uint64_t)32 << 20; /* buffers of the usual size take longest */
            check_counting(&o, &s);
        }
    free_seqs(&s);
}
END_TEST

START_TEST(strides_count_from_the_beginning_of_each_record)
{
    static const size_t strides[] = {2, 3, 7, 13, 64, 1000, (size_t)1 << 31};
    static const int ks[] = {1, 3, 6, 12, 13, 21, 32};
    kmf_rng rng = kmf_rng_stream(2, 1);
    seqs s = make_seqs("ACGT", CHECKED ? 4000 : 100000, 2);
    /* begins in the last text of the one before, and does not end there */
    add_seq(&s, letters(CHECKED ? 4000 : 50001, "ACGT", &rng));
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        for (size_t j = 0; j < sizeof ks / sizeof ks[0]; j++) {
            kmf_count_options o = count_options(ks[j], 2);
            o.stride = strides[i];
            o.canonical = (int)(i % 2);
            o.memory = ks[j] > 12 ? (uint64_t)16 << 20 : 0; /* short texts */
            check_counting(&o, &s);
        }
    free_seqs(&s);
}
END_TEST

START_TEST(protein_is_counted_as_by_the_twin)
{
    seqs s = make_seqs("ACDEFGHIKLMNPQRSTVWYx", CHECKED ? 4000 : 30000, 3);
    for (int k = 1; k <= 6; k++)
        for (size_t stride = 1; stride < 4; stride += 2) {
            kmf_count_options o = count_options(k, 2);
            o.alphabet = KMF_PROTEIN;
            o.stride = stride;
            check_counting(&o, &s);
        }
    free_seqs(&s);
}
END_TEST

/* Places of the dense tables have 8 bits: each k-mer must be carried over many times. */
START_TEST(counts_beyond_a_byte_are_exact_for_every_dense_k)
{
    seqs s = {.n = 0};
    kmf_rng rng = kmf_rng_stream(4, 1);
    size_t len = CHECKED ? 5000 : 100000;
    for (int period = 1; period <= 7; period++) {
        char *unit = letters((size_t)period, "ACGT", &rng);
        char *seq = malloc(len + 1);
        for (size_t i = 0; i < len; i++)
            seq[i] = unit[i % (size_t)period];
        seq[len] = '\0';
        free(unit);
        add_seq(&s, seq);
    }
    for (int k = 1; k <= 14; k++) {
        kmf_count_options o = count_options(k, 3);
        o.canonical = k % 2;
        check_counting(&o, &s);
    }
    free_seqs(&s);
}
END_TEST

/* One sequence of several texts, alone and among short ones; N at every distance of the cuts. */
START_TEST(a_sequence_longer_than_a_text_is_cut_without_loss)
{
    size_t len = CHECKED ? 300000 : 600000;
    kmf_rng rng = kmf_rng_stream(5, 1);
    seqs s = {.n = 0};
    char *seq = letters(len, "ACGT", &rng);
    for (size_t i = 0; i < len; i += 65536)
        for (size_t j = 0; j < 40 && i + 97 * j < len; j++)
            seq[i + 97 * j] = 'N';
    add_seq(&s, letters(50, "ACGT", &rng));
    add_seq(&s, seq);
    add_seq(&s, letters(50, "ACGT", &rng));
    static const int ks[] = {1, 6, 9, 12, 13, 22, 32};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_count_options o = count_options(ks[i], 1 + (int)(i % 3));
        o.canonical = (int)(i % 2);
        check_counting(&o, &s);
    }
    free_seqs(&s);
}
END_TEST

/* Texts of 16 KB, of which 8 are asked for: what waits then fills the next one to the letter. */
START_TEST(what_waits_may_be_as_much_as_is_asked_for)
{
    kmf_rng rng = kmf_rng_stream(9, 1);
    kmf_count_options o = count_options(4, 1);
    o.memory = 1 << 20;
    for (size_t len = 3 * 8192 - 8; len < 3 * 8192; len++) {
        kmf_err err = {0};
        seqs s = {.n = 0};
        char *file = malloc(2 * len + 64);
        add_seq(&s, letters(len, "ACGT", &rng));
        add_seq(&s, letters(9, "ACGT", &rng));
        size_t n = (size_t)sprintf(file, "@a\n%s\n+\n%s\n@b\n%s\n+\nIIIIIIIII\n", s.seq[0],
                                   s.seq[0], s.seq[1]);
        kmf_counter *counter = kmf_counter_new(&o, &err);
        kmf_reader *reader = kmf_reader_open_memory(file, n, NULL, &err);
        ck_assert_msg(counter && reader, "%s", err.msg);
        ck_assert_int_eq(kmf_counter_read(counter, reader, &err), 0);
        kmf_counts *counts = kmf_counter_finish(counter, &err);
        ck_assert_msg(counts != NULL, "%s", err.msg);
        twin t = count_naively(&o, &s);
        compare(counts, &t, &o, &s);
        kmf_counts_free(counts);
        kmf_reader_close(reader);
        kmf_counter_free(counter);
        free(t.codes);
        free(file);
        free_seqs(&s);
    }
}
END_TEST

/* ---------------------------------------------------------------- memory ---------------- */

static uint64_t least_memory(kmf_count_options *o)
{
    unsigned long long needed = 0;
    kmf_err err = {0};
    o->memory = 1;
    ck_assert_ptr_null(kmf_counter_new(o, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    const char *at = strstr(err.msg, "needs ");
    ck_assert_msg(at && sscanf(at, "needs %llu bytes", &needed) == 1, "%s", err.msg);
    return needed;
}

START_TEST(the_least_memory_spills_and_gives_the_same_table)
{
    seqs s = make_seqs("ACGT", CHECKED ? 400000 : 1000000, 6);
    static const int ks[] = {13, 21, 32};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_count_options o = count_options(ks[i], 1 + (int)(i % 2));
        o.canonical = (int)(i % 2);
        o.memory = least_memory(&o);
        check_counting(&o, &s);
    }
    free_seqs(&s);
}
END_TEST

/* A quarter of all windows is one k-mer: its part exceeds what is sorted at once. */
START_TEST(a_part_larger_than_the_others_is_sorted_in_pieces)
{
    size_t len = CHECKED ? 200000 : 600000;
    kmf_rng rng = kmf_rng_stream(7, 1);
    seqs s = {.n = 0};
    char *seq = letters(len, "ACGT", &rng);
    memset(seq + len / 3, 'A', len / 4);
    for (size_t i = len / 3; i < len / 3 + len / 8; i++)
        seq[i] = "AAAAAAAAAAAAACGT"[kmf_rng_below(&rng, 16)];
    add_seq(&s, seq);
    for (int k = 17; k <= 27; k += 10) {
        kmf_count_options o = count_options(k, 2);
        o.memory = least_memory(&o);
        check_counting(&o, &s);
        o.memory = 0;
        check_counting(&o, &s);
    }
    free_seqs(&s);
}
END_TEST

START_TEST(a_dense_table_that_does_not_fit_is_counted_in_parts)
{
    seqs s = make_seqs("ACGT", CHECKED ? 50000 : 300000, 13);
    static const int ks[] = {1, 3, 8, 9, 11, 12};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_count_options o = count_options(ks[i], 2);
        o.canonical = (int)(i % 2);
        o.memory = least_memory(&o);
        ck_assert(o.k < 11 || o.memory < (uint64_t)8 << 2 * o.k);
        check_counting(&o, &s);
    }
    free_seqs(&s);
}
END_TEST

START_TEST(a_folder_that_cannot_hold_temporary_files_is_named)
{
    seqs s = make_seqs("ACGT", 400000, 8);
    kmf_err err = {0};
    kmf_count_options o = count_options(21, 1);
    o.memory = least_memory(&o);
    o.tmp = "/nonexistent/folder";
    ck_assert_ptr_null(count_added(&o, &s, &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/folder"));
    free_seqs(&s);
}
END_TEST

/* ---------------------------------------------------------------- files ----------------- */

static bool same_files(const char *a, const char *b)
{
    size_t n[2];
    char *text[2] = {get(a, &n[0]), get(b, &n[1])};
    bool same = n[0] == n[1] && memcmp(text[0], text[1], n[0]) == 0;
    kmf_free(text[0]);
    kmf_free(text[1]);
    return same;
}

/* {"n": distinct}; or a failure if user is not NULL. */
static char *some_provenance(void *user, const kmf_counts_info *info, kmf_err *err)
{
    char number[32];
    const char *pair[] = {"n", number};
    if (user) {
        kmf_fail(err, KMF_EIO, "no provenance");
        return NULL;
    }
    snprintf(number, sizeof number, "%llu", (unsigned long long)info->distinct);
    return kmf_json_pairs(pair, 1, err);
}

static int save_added(const kmf_count_options *o, const seqs *s, const char *path, void *user,
                      kmf_counts_info *info, kmf_err *err)
{
    kmf_counter *counter = kmf_counter_new(o, err);
    ck_assert_ptr_nonnull(counter);
    for (size_t i = 0; i < s->n; i++)
        ck_assert_int_eq(kmf_counter_add(counter, s->seq[i], s->len[i], err), 0);
    int status = kmf_counter_save(counter, path, some_provenance, user, info, err);
    kmf_counter_free(counter);
    return status;
}

/* The writer of whole tables is the second source; it is tested by an independent reader. */
START_TEST(a_table_written_as_it_is_made_has_the_bytes_of_one_written_at_once)
{
    seqs s = make_seqs("ACGT", CHECKED ? 100000 : 600000, 11);
    static const int ks[] = {6, 13, 21, 31, 32};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
        for (int tight = 0; tight < (ks[i] > 12 ? 2 : 1); tight++) {
            kmf_err err = {0};
            kmf_counts_info info;
            kmf_counts_info streamed;
            kmf_count_options o = count_options(ks[i], 1 + (int)(i % 3));
            o.canonical = (int)(i % 2);
            if (tight)
                o.memory = least_memory(&o);
            kmf_counts *counts = count_added(&o, &s, &err);
            ck_assert_ptr_nonnull(counts);
            kmf_counts_information(counts, &info);
            char *text = some_provenance(NULL, &info, &err);
            ck_assert_int_eq(kmf_counts_save(counts, in_dir("a.bin"), KMF_COUNTS_BINARY, 0,
                                             NULL, text, &err),
                             0);
            kmf_text_free(text);
            kmf_counts_free(counts);
            ck_assert_msg(save_added(&o, &s, in_dir("b.bin"), NULL, &streamed, &err) == 0, "%s",
                          err.msg);
            ck_assert_uint_eq(streamed.distinct, info.distinct);
            ck_assert_uint_eq(streamed.kmers, info.kmers);
            ck_assert_uint_eq(streamed.ambiguous, info.ambiguous);
            ck_assert(same_files(in_dir("a.bin"), in_dir("b.bin")));
            ck_assert(same_files(in_dir("a.bin.json"), in_dir("b.bin.json")));
            counts = kmf_counts_load(in_dir("b.bin"), &err);
            ck_assert_ptr_nonnull(counts);
            kmf_counts_free(counts);
            unlink(in_dir("a.bin"));
            unlink(in_dir("b.bin"));
            unlink(in_dir("a.bin.json"));
            unlink(in_dir("b.bin.json"));
        }
    free_seqs(&s);
}
END_TEST

START_TEST(a_table_that_cannot_be_saved_leaves_no_file)
{
    seqs s = make_seqs("ACGT", 1000, 12);
    static const int ks[] = {6, 21};
    int fails = 1;
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_err err = {0};
        kmf_counts_info info;
        kmf_count_options o = count_options(ks[i], 0);
        ck_assert_int_eq(save_added(&o, &s, in_dir("c.bin"), &fails, &info, &err), KMF_EIO);
        ck_assert_str_eq(err.msg, "no provenance");
        err = (kmf_err){0};
        ck_assert_int_eq(save_added(&o, &s, in_dir("none/c.bin"), NULL, &info, &err), KMF_EIO);
        ck_assert_int_eq(rmdir(dir), 0); /* it is empty */
        ck_assert_int_eq(mkdir(dir, 0700), 0);
    }
    free_seqs(&s);
}
END_TEST

/* ---------------------------------------------------------------- failures -------------- */

START_TEST(options_out_of_range_are_refused)
{
    static const struct {
        kmf_alphabet alphabet;
        int k, canonical, threads;
        size_t stride;
    } bad[] = {{KMF_DNA, 0, 0, 1, 1},        {KMF_DNA, 33, 0, 1, 1},
               {KMF_PROTEIN, 7, 0, 1, 1},    {KMF_PROTEIN, 3, 1, 1, 1},
               {KMF_DNA, 6, 0, -1, 1},       {KMF_DNA, 6, 0, 1025, 1},
               {KMF_DNA, 6, 0, 1, 0},        {KMF_DNA, 6, 0, 1, ((size_t)1 << 31) + 1},
               {KMF_N_ALPHABETS, 3, 0, 1, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kmf_err err = {0};
        kmf_count_options o = {.alphabet = bad[i].alphabet,
                               .k = bad[i].k,
                               .canonical = bad[i].canonical,
                               .threads = bad[i].threads,
                               .stride = bad[i].stride};
        ck_assert_ptr_null(kmf_counter_new(&o, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        ck_assert_str_ne(err.msg, "");
    }
}
END_TEST

START_TEST(a_counter_gives_its_table_away_once)
{
    static const int lengths[] = {6, 15}; /* a table, and sorted parts */
    kmf_counts_info info;
    kmf_count_options o = count_options(lengths[_i], 0);
    kmf_counter *c = kmf_counter_new(&o, NULL);
    kmf_counts_free(kmf_counter_finish(c, NULL));
    ck_assert_int_eq(kmf_counter_add(c, "ACGTACGT", 8, NULL), KMF_EINVAL);
    ck_assert_ptr_null(kmf_counter_finish(c, NULL));
    ck_assert_int_eq(kmf_counter_save(c, "none", NULL, NULL, &info, NULL), KMF_EINVAL);
    kmf_reader *late = kmf_reader_open("data/contigs.fa.gz", NULL, NULL, NULL);
    ck_assert_int_eq(kmf_counter_read(c, late, NULL), KMF_EINVAL);
    kmf_reader_close(late);
    kmf_counter_free(c);
}
END_TEST

START_TEST(a_reader_is_counted_once)
{
    kmf_counts_info info;
    kmf_record rec;
    kmf_count_options o = count_options(6, 0);
    kmf_counter *c = kmf_counter_new(&o, NULL);
    kmf_reader *twice = kmf_reader_open_memory(">a\nACGTACGT\n", 12, NULL, NULL);
    kmf_reader *begun = kmf_reader_open_memory(">a\nACGTACGT\n", 12, NULL, NULL);
    ck_assert_int_eq(kmf_counter_read(c, twice, NULL), 0);
    ck_assert_int_eq(kmf_counter_read(c, twice, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_reader_next(begun, &rec, NULL), 1);
    ck_assert_int_eq(kmf_counter_read(c, begun, NULL), KMF_EINVAL);
    kmf_counts *counts = kmf_counter_finish(c, NULL);
    kmf_counts_information(counts, &info);
    ck_assert(info.inputs == 1 && info.records == 1 && info.kmers == 3);
    kmf_counts_free(counts);
    kmf_reader_close(twice);
    kmf_reader_close(begun);
    kmf_counter_free(c);
}
END_TEST

START_TEST(a_reader_that_fails_fails_the_count)
{
    static const char file[] = ">a\nACGTACGT\n>b\nACG1\n";
    kmf_err err = {0};
    kmf_count_options o = count_options(6, 0);
    for (o.threads = 1; o.threads <= 2; o.threads++) {
        kmf_counter *counter = kmf_counter_new(&o, &err);
        ck_assert_ptr_nonnull(counter);
        kmf_reader *reader =
            kmf_reader_open_memory(file, sizeof file - 1, kmf_counter_pool(counter), &err);
        ck_assert_ptr_nonnull(reader);
        ck_assert_int_eq(kmf_counter_read(counter, reader, &err), KMF_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, "record 2"));
        kmf_reader_close(reader);
        err = (kmf_err){0};
        /* what was counted of it makes no table */
        ck_assert_ptr_null(kmf_counter_finish(counter, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        ck_assert_int_eq(kmf_counter_add(counter, "ACGTACGT", 8, &err), KMF_EINVAL);
        kmf_counter_free(counter);
        err = (kmf_err){0};
    }
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    seqs s = make_seqs("ACGT", CHECKED ? 50000 : 200000, 9);
    static const int ks[] = {6, 21};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_err err = {0};
        kmf_count_options o = count_options(ks[i], 2);
        if (o.k == 21)
            o.memory = least_memory(&o);
        kmf_mem_fail_at(0);
        kmf_counts *counts = count_added(&o, &s, &err);
        ck_assert_ptr_nonnull(counts);
        kmf_counts_free(counts);
        size_t n = kmf_mem_count();
        /* all of the first ones, then ever fewer: blocks come by the thousand */
        for (size_t at = 1; at <= n; at += 1 + at / 64) {
            kmf_mem_fail_at(at);
            counts = count_added(&o, &s, &err);
            if (!counts)
                ck_assert_int_eq(err.code, KMF_ENOMEM);
            kmf_counts_free(counts);
            err = (kmf_err){0};
        }
        kmf_mem_fail_at(0);
    }
    free_seqs(&s);
}
END_TEST

START_TEST(an_empty_count_is_an_empty_table)
{
    static const int ks[] = {6, 21};
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_count_options o = count_options(ks[i], 2);
        seqs none = {.n = 0};
        check_counting(&o, &none);
    }
}
END_TEST

START_TEST(progress_is_told_and_grows)
{
    seqs s = make_seqs("ACGT", 1000000, 10);
    static const int ks[] = {6, 21, 21, 21};
    size_t total = 0;
    caller = pthread_self();
    for (size_t j = 0; j < s.n; j++)
        total += s.len[j];
    for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++) {
        kmf_err err = {0};
        noted last = {0};
        kmf_count_options o = count_options(ks[i], i == 3 ? 3 : 1);
        if (i == 2) /* several runs, which are merged */
            o.memory = least_memory(&o);
        kmf_counter *counter = kmf_counter_new(&o, &err);
        ck_assert_ptr_nonnull(counter);
        kmf_counter_progress(counter, note_progress, &last);
        for (size_t j = 0; j < s.n; j++)
            ck_assert_int_eq(kmf_counter_add(counter, s.seq[j], s.len[j], &err), 0);
        ck_assert_uint_ge(last.letters, 500000);
        ck_assert(last.made < 1e-9);
        kmf_counts *counts = kmf_counter_finish(counter, &err);
        ck_assert_ptr_nonnull(counts);
        ck_assert_uint_eq(last.letters, total);
        ck_assert(o.k == 6 || o.threads > 1 || last.made > 0.999);
        kmf_counts_free(counts);
        kmf_counter_free(counter);
        last = (noted){0};
        kmf_counts_free(count_read(&o, &s, &last, &err));
        ck_assert_uint_eq(last.letters, total);
    }
    free_seqs(&s);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_checked_fixture(c, make_dir, remove_empty_dir);
    tcase_add_test(c, every_k_of_dna_is_counted_as_by_the_twin);
    tcase_add_test(c, strides_count_from_the_beginning_of_each_record);
    tcase_add_test(c, protein_is_counted_as_by_the_twin);
    tcase_add_test(c, counts_beyond_a_byte_are_exact_for_every_dense_k);
    tcase_add_test(c, a_sequence_longer_than_a_text_is_cut_without_loss);
    tcase_add_test(c, what_waits_may_be_as_much_as_is_asked_for);
    tcase_add_test(c, the_least_memory_spills_and_gives_the_same_table);
    tcase_add_test(c, a_part_larger_than_the_others_is_sorted_in_pieces);
    tcase_add_test(c, a_dense_table_that_does_not_fit_is_counted_in_parts);
    tcase_add_test(c, a_folder_that_cannot_hold_temporary_files_is_named);
    tcase_add_test(c, a_table_written_as_it_is_made_has_the_bytes_of_one_written_at_once);
    tcase_add_test(c, a_table_that_cannot_be_saved_leaves_no_file);
    tcase_add_test(c, options_out_of_range_are_refused);
    tcase_add_loop_test(c, a_counter_gives_its_table_away_once, 0, 2);
    tcase_add_test(c, a_reader_is_counted_once);
    tcase_add_test(c, a_reader_that_fails_fails_the_count);
    tcase_add_test(c, every_allocation_may_fail);
    tcase_add_test(c, an_empty_count_is_an_empty_table);
    tcase_add_test(c, progress_is_told_and_grows);
    return run_case("counter", c);
}
