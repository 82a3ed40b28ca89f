/* SPDX-License-Identifier: MIT */
/*
 * Second source: the records as text, cut by a loop that looks at one letter at a time.
 */
#include "words/corpus.h"

#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "run.h"
#include "seqfiles.h"

#include <ctype.h>

#define CHUNK ((size_t)1 << 24) /* letters that are kept together */
#define ALL_MEMORY ((uint64_t)1 << 40)

/* ---------------------------------------------------------------- the twin -------------- */

/* Letters of the corpus, and the first of each segment. */
typedef struct naive {
    uint8_t *letters; /* owned */
    uint64_t *starts; /* owned */
    size_t n_letters, n_starts;
    kmf_corpus_info info;
} naive;

static int code_of(kmf_alphabet alphabet, char letter)
{
    const char *letters = kmf_alphabet_letters(alphabet);
    int upper = toupper((unsigned char)letter);
    const char *at = upper ? strchr(letters, upper) : NULL;
    if (alphabet == KMF_DNA && upper == 'U')
        return 3;
    return at ? (int)(at - letters) : -1;
}

static void naive_record(naive *n, kmf_alphabet alphabet, size_t shortest, const char *seq,
                         size_t len)
{
    n->letters = realloc(n->letters, n->n_letters + len + 1);
    n->starts = realloc(n->starts, (n->n_starts + len + 2) * sizeof *n->starts);
    n->info.records++;
    n->info.letters += len;
    for (size_t i = 0; i < len;) {
        size_t beg = i;
        while (i < len && code_of(alphabet, seq[i]) >= 0)
            i++;
        if (i - beg >= shortest) {
            n->starts[n->n_starts++] = n->n_letters;
            for (size_t at = beg; at < i; at++)
                n->letters[n->n_letters++] = (uint8_t)code_of(alphabet, seq[at]);
        } else {
            n->info.too_short += i - beg;
        }
        while (i < len && code_of(alphabet, seq[i]) < 0) {
            n->info.ambiguous++;
            i++;
        }
    }
    n->info.kept = n->n_letters;
    n->info.segments = n->n_starts;
}

static void naive_free(naive *n)
{
    free(n->letters);
    free(n->starts);
}

/* Everything that can be asked of a finished corpus. */
static void compare(const kmf_corpus *corpus, const naive *n)
{
    kmf_corpus_info info;
    kmf_corpus_information(corpus, &info);
    ck_assert_uint_eq(info.records, n->info.records);
    ck_assert_uint_eq(info.letters, n->info.letters);
    ck_assert_uint_eq(info.ambiguous, n->info.ambiguous);
    ck_assert_uint_eq(info.too_short, n->info.too_short);
    ck_assert_uint_eq(info.kept, n->n_letters);
    ck_assert_uint_eq(info.segments, n->n_starts);
    ck_assert_uint_eq(info.letters, info.ambiguous + info.too_short + info.kept);
    size_t wrong = 0;
    for (size_t s = 0; s < n->n_starts; s++) {
        uint64_t end = s + 1 < n->n_starts ? n->starts[s + 1] : n->n_letters;
        wrong += kmf_corpus_start(corpus, s) != n->starts[s];
        wrong += kmf_corpus_segment(corpus, n->starts[s]) != s;
        wrong += kmf_corpus_segment(corpus, end - 1) != s;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(kmf_corpus_start(corpus, n->n_starts), n->n_letters);
    static uint8_t some[5003];
    for (size_t at = 0; at < n->n_letters; at += sizeof some) {
        size_t m = n->n_letters - at < sizeof some ? n->n_letters - at : sizeof some;
        kmf_corpus_letters(corpus, some, at, m);
        wrong += memcmp(some, n->letters + at, m) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
}

/* ---------------------------------------------------------------- records --------------- */

/* Random letters, with one that is none of the alphabet in about one of `rare`. */
static char *random_record(kmf_alphabet alphabet, size_t len, size_t rare, kmf_rng *rng)
{
    const char *letters = kmf_alphabet_letters(alphabet);
    const char *others = alphabet == KMF_DNA ? "NnRY-.*" : "XBZ*Uj-";
    char *seq = malloc(len + 1);
    for (size_t i = 0; i < len; i++) {
        uint64_t r = kmf_rng_next(rng);
        char letter = letters[(r >> 32) % strlen(letters)];
        if (r % rare == 0)
            letter = others[(r >> 16) % strlen(others)];
        else if (r & 1 << 12)
            letter = (char)tolower((unsigned char)letter);
        seq[i] = letter;
    }
    seq[len] = '\0';
    return seq;
}

static kmf_corpus *corpus_of(kmf_alphabet alphabet, size_t shortest)
{
    kmf_corpus *corpus = kmf_corpus_new(alphabet, shortest, ALL_MEMORY, NULL, NULL);
    ck_assert_ptr_nonnull(corpus);
    return corpus;
}

static uint32_t checksum(const kmf_corpus *corpus)
{
    kmf_corpus_info info;
    kmf_corpus_information(corpus, &info);
    return info.checksum;
}

/* ---------------------------------------------------------------- tests ----------------- */

static void check_records(kmf_alphabet alphabet, size_t shortest, size_t rare)
{
    kmf_rng rng = kmf_rng_stream(shortest, rare);
    naive n = {0};
    kmf_corpus *corpus = corpus_of(alphabet, shortest);
    for (size_t i = 0; i < 60; i++) {
        size_t len = i < 40 ? i : 200 * i + (i == 59 ? 40000 : 0);
        char *seq = random_record(alphabet, len, rare, &rng);
        naive_record(&n, alphabet, shortest, seq, len);
        ck_assert_int_eq(kmf_corpus_add(corpus, seq, len, NULL), 0);
        free(seq);
    }
    ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
    compare(corpus, &n);
    kmf_corpus_free(corpus);
    naive_free(&n);
}

START_TEST(letters_and_segments_are_those_of_the_records)
{
    for (size_t shortest = 1; shortest <= 64; shortest += 1 + shortest / 3)
        for (size_t rare = 3; rare < 100000; rare *= 11) {
            check_records(KMF_DNA, shortest, rare);
            check_records(KMF_PROTEIN, shortest, rare);
        }
}
END_TEST

START_TEST(segments_are_cut_and_short_ones_left_out_and_counted)
{
    static const char seq[] = "ACGNNACGTnnAC-ACGTUacgtuN";
    kmf_corpus_info info;
    kmf_corpus *corpus = corpus_of(KMF_DNA, 4);
    ck_assert_int_eq(kmf_corpus_add(corpus, seq, strlen(seq), NULL), 0);
    ck_assert_int_eq(kmf_corpus_add(corpus, "ACG", 3, NULL), 0);
    ck_assert_int_eq(kmf_corpus_add(corpus, "", 0, NULL), 0);
    ck_assert_int_eq(kmf_corpus_add(corpus, "TTTT", 4, NULL), 0);
    ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
    kmf_corpus_information(corpus, &info);
    ck_assert_uint_eq(info.records, 4);
    ck_assert_uint_eq(info.letters, strlen(seq) + 7);
    ck_assert_uint_eq(info.ambiguous, 6);
    ck_assert_uint_eq(info.too_short, 8);
    ck_assert_uint_eq(info.segments, 3);
    ck_assert_uint_eq(info.kept, 18);
    ck_assert_uint_eq(kmf_corpus_start(corpus, 1), 4);
    ck_assert_uint_eq(kmf_corpus_start(corpus, 2), 14);
    uint8_t letters[18];
    static const uint8_t expected[18] = {0, 1, 2, 3, 0, 1, 2, 3, 3, 0, 1, 2, 3, 3, 3, 3, 3, 3};
    kmf_corpus_letters(corpus, letters, 0, 18);
    ck_assert_mem_eq(letters, expected, 18);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(an_empty_corpus_has_no_segments)
{
    kmf_corpus_info info;
    kmf_corpus *corpus = corpus_of(KMF_DNA, 4);
    ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
    kmf_corpus_information(corpus, &info);
    ck_assert_uint_eq(info.segments + info.kept + info.records + info.letters, 0);
    ck_assert_uint_eq(kmf_corpus_start(corpus, 0), 0);
    kmf_corpus_free(corpus);
    kmf_corpus_free(NULL);
}
END_TEST

/* Lines of odd lengths, packed or not, by one thread or several. */
static text fasta(char *const *seqs, size_t n, size_t line)
{
    text t = {0};
    for (size_t i = 0; i < n; i++) {
        add(&t, ">r\n");
        size_t len = strlen(seqs[i]);
        for (size_t at = 0; at < len; at += line) {
            add_bytes(&t, seqs[i] + at, len - at < line ? len - at : line);
            add(&t, "\n");
        }
    }
    return t;
}

typedef struct listener {
    uint64_t last;
    int calls, backwards;
} listener;

static void listen(void *user, uint64_t letters)
{
    listener *l = user;
    l->backwards += letters < l->last;
    l->last = letters;
    l->calls++;
}

START_TEST(a_reader_gives_the_corpus_of_its_records)
{
    enum { N = 7 };
    char *seqs[N];
    kmf_rng rng = kmf_rng_stream(3, 3);
    make_dir();
    naive n = {0};
    for (size_t i = 0; i < N; i++) {
        size_t len = i == 4 ? 2500000 : 1 + 7 * i; /* one is longer than what is read at once */
        seqs[i] = random_record(KMF_DNA, len, 1000, &rng);
        for (char *s = seqs[i]; *s; s++)
            *s = *s == '.' || *s == '-' || *s == '*' ? 'N' : *s;
        naive_record(&n, KMF_DNA, 6, seqs[i], len);
    }
    uint32_t sum = 0;
    for (size_t line = 61; line < 10000000; line *= 397) {
        text plain = fasta(seqs, N, line);
        text packed = gzipped(plain.bytes, plain.len);
        for (int threads = 0; threads <= 2; threads++) {
            kmf_err err = {0};
            kmf_corpus_info info;
            const text *t = threads == 1 ? &packed : &plain;
            kmf_pool *pool = threads ? kmf_pool_new(threads, NULL) : NULL;
            kmf_reader *reader = kmf_reader_open_memory(t->bytes, t->len, pool, &err);
            kmf_corpus *corpus = corpus_of(KMF_DNA, 6);
            ck_assert_ptr_nonnull(reader);
            listener l = {0};
            ck_assert_int_eq(kmf_corpus_read(corpus, reader, listen, &l, &err), 0);
            kmf_reader_close(reader);
            kmf_pool_free(pool);
            ck_assert_int_eq(kmf_corpus_finish(corpus, &err), 0);
            compare(corpus, &n);
            kmf_corpus_information(corpus, &info);
            ck_assert_uint_eq(info.inputs, 1);
            ck_assert_uint_eq(l.last, info.letters); /* 2.5 MB: more than one portion */
            ck_assert(l.calls > 1 && l.backwards == 0);
            ck_assert(sum == 0 || sum == info.checksum);
            sum = info.checksum;
            kmf_corpus_free(corpus);
        }
        free(plain.bytes);
        free(packed.bytes);
    }
    for (size_t i = 0; i < N; i++)
        free(seqs[i]);
    naive_free(&n);
    remove_dir();
}
END_TEST

START_TEST(a_reader_that_fails_fails_the_corpus)
{
    static const char file[] = ">a\nACGTACGT\n>b\nACG1\n";
    kmf_err err = {0};
    kmf_corpus *corpus = corpus_of(KMF_DNA, 6);
    kmf_reader *reader = kmf_reader_open_memory(file, sizeof file - 1, NULL, &err);
    ck_assert_ptr_nonnull(reader);
    ck_assert_int_eq(kmf_corpus_read(corpus, reader, NULL, NULL, &err), KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "record 2"));
    kmf_reader_close(reader);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(the_checksum_tells_corpora_apart)
{
    static const char *const records[][2] = {
        {"ACGTACGTACGT", ""},  {"ACGTACGTACGA", ""},  {"ACGTACGTACG", ""},
        {"ACGTACGT", "ACGT"},  {"ACGTACG", "TACGT"},  {"ACGT", "ACGTACGT"},
        {"ACGTACGTACGTA", ""}, {"CACGTACGTACGT", ""}, {"ACGTACGTNACGT", "ACGT"},
        {"AAAAAAAAAAAA", ""},  {"AAAAAAAAAAAAA", ""},
    };
    enum { N = sizeof records / sizeof records[0] };
    uint32_t sums[N];
    for (size_t i = 0; i < N; i++) {
        for (int again = 0; again < 2; again++) {
            kmf_corpus *corpus = corpus_of(KMF_DNA, 4);
            for (int j = 0; j < 2; j++) {
                const char *seq = records[i][j];
                ck_assert_int_eq(kmf_corpus_add(corpus, seq, strlen(seq), NULL), 0);
            }
            ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
            ck_assert(again == 0 || sums[i] == checksum(corpus));
            sums[i] = checksum(corpus);
            kmf_corpus_free(corpus);
        }
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(sums[i], sums[j]);
    }
}
END_TEST

/*
 * Three chunks, the first of which is full to the letter, kept in memory or sent to a file. In
 * pieces, so that borders of segments lie on and about the chunk's.
 */
static void check_chunks(kmf_alphabet alphabet)
{
    static const size_t lens[] = {1000, CHUNK - 1000, CHUNK - 3, 7, 70000};
    kmf_rng rng = kmf_rng_stream(8, 8);
    naive n = {0};
    kmf_corpus *kept = corpus_of(alphabet, 5);
    kmf_corpus *sent = kmf_corpus_new(alphabet, 5, 1, dir, NULL);
    ck_assert_ptr_nonnull(sent);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char *seq = random_record(alphabet, lens[i], (size_t)1 << 40, &rng);
        naive_record(&n, alphabet, 5, seq, lens[i]);
        ck_assert_int_eq(kmf_corpus_add(kept, seq, lens[i], NULL), 0);
        ck_assert_int_eq(kmf_corpus_add(sent, seq, lens[i], NULL), 0);
        free(seq);
    }
    ck_assert_int_eq(kmf_corpus_finish(kept, NULL), 0);
    ck_assert_int_eq(kmf_corpus_finish(sent, NULL), 0);
    ck_assert_uint_eq(n.starts[2], CHUNK);
    compare(kept, &n);
    compare(sent, &n);
    ck_assert_uint_eq(checksum(kept), checksum(sent));
    size_t chunk = alphabet == KMF_DNA ? CHUNK / 4 : CHUNK;
    ck_assert_uint_ge(kmf_corpus_bytes(kept), 3 * chunk);
    ck_assert_uint_lt(kmf_corpus_bytes(sent), chunk + 10000);
    kmf_corpus_free(kept);
    kmf_corpus_free(sent);
    naive_free(&n);
}

START_TEST(a_corpus_larger_than_its_memory_lies_in_a_file)
{
    make_dir();
    check_chunks(KMF_DNA);
    if (!CHECKED)
        check_chunks(KMF_PROTEIN);
    ck_assert_int_eq(rmdir(dir), 0); /* its file has no name */
}
END_TEST

START_TEST(a_folder_that_cannot_hold_the_corpus_is_named)
{
    kmf_err err = {0};
    int status = 0;
    char *seq = malloc(CHUNK);
    memset(seq, 'A', CHUNK);
    kmf_corpus *corpus = kmf_corpus_new(KMF_DNA, 5, 1, "/nonexistent/folder", &err);
    ck_assert_ptr_nonnull(corpus);
    for (int i = 0; i < 2 && status == 0; i++)
        status = kmf_corpus_add(corpus, seq, CHUNK, &err);
    ck_assert_int_eq(status, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/folder"));
    kmf_corpus_free(corpus);
    free(seq);
}
END_TEST

static int make_by(size_t fail_at, kmf_err *err)
{
    static const char file[] = ">a\nACGTACGTNNACGTTTTACG\n>b\nAC\n";
    int status = KMF_ENOMEM;
    kmf_reader *reader = kmf_reader_open_memory(file, sizeof file - 1, NULL, NULL);
    kmf_mem_fail_at(fail_at);
    kmf_corpus *corpus = kmf_corpus_new(KMF_DNA, 4, ALL_MEMORY, NULL, err);
    if (corpus)
        status = kmf_corpus_add(corpus, "ACGTANCCCCCC", 12, err);
    if (status == 0)
        status = kmf_corpus_read(corpus, reader, NULL, NULL, err);
    if (status == 0)
        status = kmf_corpus_finish(corpus, err);
    kmf_corpus_free(corpus);
    kmf_reader_close(reader);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    kmf_err err = {0};
    ck_assert_int_eq(make_by(0, &err), 0);
    size_t n = kmf_mem_count();
    ck_assert_uint_ge(n, 4);
    for (size_t at = 1; at <= n; at++) {
        ck_assert_int_eq(make_by(at, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
        err = (kmf_err){0};
    }
    kmf_mem_fail_at(0);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, letters_and_segments_are_those_of_the_records);
    tcase_add_test(c, segments_are_cut_and_short_ones_left_out_and_counted);
    tcase_add_test(c, an_empty_corpus_has_no_segments);
    tcase_add_test(c, a_reader_gives_the_corpus_of_its_records);
    tcase_add_test(c, a_reader_that_fails_fails_the_corpus);
    tcase_add_test(c, the_checksum_tells_corpora_apart);
    tcase_add_test(c, a_corpus_larger_than_its_memory_lies_in_a_file);
    tcase_add_test(c, a_folder_that_cannot_hold_the_corpus_is_named);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("corpus", c);
}
