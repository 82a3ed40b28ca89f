/* SPDX-License-Identifier: MIT */
/*
 * Second source: a writer of text that looks at each code by itself; hand-written files.
 */
#include "tablefiles.h"

static void add_header(text *t, const kmf_counts_info *info, int full)
{
    char line[1024];
    snprintf(line, sizeof line,
             "#kmerformer_vocab\t1\n#alphabet\t%s\n#k\t%d\n#canonical\t%d\n#stride\t%" PRIu64
             "\n#inputs\t%" PRIu64 "\n#records\t%" PRIu64 "\n#letters\t%" PRIu64
             "\n#kmers\t%" PRIu64 "\n#ambiguous\t%" PRIu64 "\n#distinct\t%" PRIu64
             "\n#min_count\t%" PRIu64 "\n#max_size\t%" PRIu64 "\n#full\t%d\n#kmer\tcount\n",
             info->alphabet == KMF_DNA ? "dna" : "protein", info->k, info->canonical,
             info->stride, info->inputs, info->records, info->letters, info->kmers,
             info->ambiguous, info->distinct, info->min_count, info->max_size, full);
    add(t, line);
}

static const char specials[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

static void add_kmer(text *t, const list *l, uint64_t code, uint64_t count, int with_count)
{
    char line[80];
    kmf_alphabet_decode(l->info.alphabet, line, code, l->info.k);
    size_t n = strlen(line);
    if (with_count)
        snprintf(line + n, sizeof line - n, "\t%" PRIu64 "\n", count);
    else
        strcpy(line + n, "\n");
    add(t, line);
}

static int belongs(const list *l, uint64_t code)
{
    const kmf_counts_info *info = &l->info;
    if (info->canonical && kmf_kmer_revcomp(code, info->k) < code)
        return 0;
    char letters[KMF_K_MAX + 1];
    kmf_alphabet_decode(info->alphabet, letters, code, info->k);
    return strchr(letters, '?') == NULL;
}

/* What a file is to hold, made line by line. */
static text naive_list(const list *l, int full, int with_count)
{
    text t = {0};
    size_t at = 0;
    int bits = kmf_alphabet_bits(l->info.alphabet) * l->info.k;
    if (with_count)
        add_header(&t, &l->info, full);
    else
        add(&t, specials);
    if (!full)
        for (size_t i = 0; i < l->n; i++)
            add_kmer(&t, l, l->kmers[i].code, l->kmers[i].count, with_count);
    for (uint64_t code = 0; full && code < (uint64_t)1 << bits; code++) {
        int seen = at < l->n && l->kmers[at].code == code;
        if (belongs(l, code))
            add_kmer(&t, l, code, seen ? l->kmers[at].count : 0, with_count);
        at += (size_t)seen;
    }
    return t;
}

static int can_be_full(const list *l)
{
    return kmf_alphabet_bits(l->info.alphabet) * l->info.k <= 20;
}

static void check_text(const list *l, const kmf_counts *counts, int full, kmf_pool *pool)
{
    text expected = naive_list(l, full, 1);
    text got = saved(counts, KMF_COUNTS_TSV, full, pool);
    must_equal(&got, &expected);
    kmf_counts *again = parsed(&got);
    same_table(again, l);
    kmf_counts_free(again);
    free(got.bytes);
    free(expected.bytes);
    if (l->info.k > 12 || (l->n == 0 && !full))
        return;
    expected = naive_list(l, full, 0);
    got = saved(counts, KMF_COUNTS_VOCAB, full, pool);
    must_equal(&got, &expected);
    free(got.bytes);
    free(expected.bytes);
}

START_TEST(text_is_what_a_naive_writer_makes_with_any_threads_and_reads_back)
{
    kmf_pool *pool = kmf_pool_new(3, NULL);
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 70);
        kmf_counts *counts = table_of(&l);
        check_text(&l, counts, 0, NULL);
        check_text(&l, counts, 0, pool);
        if (can_be_full(&l)) {
            check_text(&l, counts, 1, NULL);
            check_text(&l, counts, 1, pool);
        }
        kmf_counts_free(counts);
        free_list(&l);
    }
    kmf_pool_free(pool);
}
END_TEST

/* The lists are cut after 32768 suffixes; blocks without suffixes have zeros to be passed over. */
START_TEST(gaps_where_a_list_is_cut_make_no_difference)
{
    static const size_t gaps[][2] = {{32767, 1}, {32768, 1}, {32760, 20}, {0, 1}, {65535, 1}};
    kmf_pool *pool = kmf_pool_new(2, NULL);
    for (size_t i = 0; i < 5; i++) {
        list l = random_list(KMF_DNA, 8, 0, SIZE_MAX, 6, i);
        size_t end = gaps[i][0] + gaps[i][1];
        memmove(l.kmers + gaps[i][0], l.kmers + end, (l.n - end) * sizeof *l.kmers);
        l.n -= gaps[i][1];
        tidy(&l, 0);
        kmf_counts *counts = table_of(&l);
        check_text(&l, counts, 0, pool);
        check_text(&l, counts, 1, pool);
        kmf_counts_free(counts);
        free_list(&l);
    }
    kmf_pool_free(pool);
}
END_TEST

START_TEST(a_vocabulary_is_one_that_models_load)
{
    for (int full = 0; full < 2; full++)
        for (int k = 1; k <= 6; k++) {
            list l = random_list(KMF_DNA, k, 0, 30, 4, (uint64_t)k);
            kmf_counts *counts = table_of(&l);
            text t = saved(counts, KMF_COUNTS_VOCAB, full, NULL);
            kmf_vocab *vocab = kmf_vocab_parse(t.bytes, t.len, "vocab.txt", NULL);
            ck_assert_ptr_nonnull(vocab);
            ck_assert_int_eq(kmf_vocab_k(vocab), k);
            ck_assert_int_eq(kmf_vocab_special(vocab, KMF_MASK), 4);
            ck_assert_uint_eq(kmf_vocab_size(vocab), 5 + (full ? (size_t)1 << 2 * k : l.n));
            for (size_t i = 0; i < l.n; i++)
                ck_assert_int_eq(kmf_vocab_kmer(vocab, l.kmers[i].code),
                                 full ? (int32_t)(5 + l.kmers[i].code) : (int32_t)(5 + i));
            kmf_vocab_free(vocab);
            free(t.bytes);
            kmf_counts_free(counts);
            free_list(&l);
        }
}
END_TEST

START_TEST(dnabert_lists_kmers_by_a_t_c_g)
{
    static const char k1[] = "A\nT\nC\nG\n";
    static const char k2[] = "AA\nAT\nAC\nAG\nTA\nTT\nTC\nTG\nCA\nCT\nCC\nCG\nGA\nGT\nGC\nGG\n";
    static const char k2_canonical[] = "AA\nAT\nAC\nAG\nTA\nCA\nCC\nCG\nGA\nGC\n";
    static const struct {
        int k, canonical;
        const char *list;
    } cases[] = {{1, 0, k1}, {2, 0, k2}, {2, 1, k2_canonical}};
    for (size_t i = 0; i < 3; i++) {
        list l = random_list(KMF_DNA, cases[i].k, cases[i].canonical, 1, 4, 1);
        kmf_counts *counts = table_of(&l);
        text t = saved(counts, KMF_COUNTS_DNABERT, 1, NULL);
        text expected = {0};
        add(&expected, specials);
        add(&expected, cases[i].list);
        must_equal(&t, &expected);
        free(t.bytes);
        free(expected.bytes);
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

static const char dnabert_rank[] = "ATCG";

static int by_dnabert(const void *a, const void *b)
{
    const char *x = a;
    const char *y = b;
    while (*x == *y)
        x++, y++;
    return strchr(dnabert_rank, *x) < strchr(dnabert_rank, *y) ? -1 : 1;
}

START_TEST(dnabert_lists_what_is_in_the_table)
{
    kmf_pool *pool = kmf_pool_new(2, NULL);
    for (int canonical = 0; canonical < 2; canonical++)
        for (int k = 3; k <= 10; k++) {
            list l = random_list(KMF_DNA, k, canonical, 400, 4, (uint64_t)k);
            kmf_counts *counts = table_of(&l);
            char(*lines)[16] = malloc((l.n + 1) * sizeof *lines);
            for (size_t i = 0; i < l.n; i++) {
                kmf_kmer_decode(lines[i], l.kmers[i].code, k);
                strcat(lines[i], "\n");
            }
            qsort(lines, l.n, sizeof *lines, by_dnabert);
            text expected = {0};
            add(&expected, specials);
            for (size_t i = 0; i < l.n; i++)
                add(&expected, lines[i]);
            text t = saved(counts, KMF_COUNTS_DNABERT, 0, k % 2 ? pool : NULL);
            must_equal(&t, &expected);
            free(t.bytes);
            free(expected.bytes);
            free(lines);
            kmf_counts_free(counts);
            free_list(&l);
        }
    kmf_pool_free(pool);
}
END_TEST

START_TEST(gzip_and_crlf_and_cuts_anywhere_make_no_difference)
{
    static const char *const names[] = {"x.tsv", "x.tsv.gz", "x.bin", "x.bin.gz"};
    list l = random_list(KMF_DNA, 13, 1, 60000, 8, 4);
    kmf_counts *counts = table_of(&l);
    kmf_err err = {0};
    for (int i = 0; i < 4; i++) {
        const char *path = in_dir(names[i]);
        kmf_counts_format format = i < 2 ? KMF_COUNTS_TSV : KMF_COUNTS_BINARY;
        ck_assert_int_eq(kmf_counts_save(counts, path, format, 0, NULL, NULL, &err), 0);
        kmf_counts *again = kmf_counts_load(path, &err);
        ck_assert_msg(again != NULL, "%s", err.msg);
        same_table(again, &l);
        text t = saved(again, KMF_COUNTS_BINARY, 0, NULL);
        text expected = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
        must_equal(&t, &expected);
        free(t.bytes);
        free(expected.bytes);
        kmf_counts_free(again);
        ck_assert_int_eq(unlink(in_dir(names[i])), 0);
    }
    text t = saved(counts, KMF_COUNTS_TSV, 0, NULL);
    text crlf = {0};
    for (size_t i = 0; i < t.len; i++) {
        if (t.bytes[i] == '\n')
            add(&crlf, "\r");
        add_bytes(&crlf, t.bytes + i, 1);
    }
    kmf_counts *again = parsed(&crlf);
    same_table(again, &l);
    kmf_counts_free(again);
    for (size_t step = 1; step < 300; step = step * 2 + 1) {
        kmf_counttext *reader = kmf_counttext_new("x", NULL);
        for (size_t i = 0; i < t.len; i += step) {
            size_t n = t.len - i < step ? t.len - i : step;
            if (kmf_counttext_add(reader, t.bytes + i, n, &err) != 0)
                ck_abort_msg("%s", err.msg);
        }
        again = kmf_counttext_finish(reader, &err);
        kmf_counttext_free(reader);
        ck_assert_msg(again != NULL, "%s", err.msg);
        same_table(again, &l);
        kmf_counts_free(again);
    }
    free(t.bytes);
    free(crlf.bytes);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

START_TEST(a_selection_keeps_its_numbers_in_a_file)
{
    list l = random_list(KMF_DNA, 7, 0, 9000, 5, 4);
    kmf_counts *counts = table_of(&l);
    kmf_counts *selected = kmf_counts_select(counts, 3, 500, NULL);
    kmf_counts_info info;
    kmf_counts_info again_info;
    kmf_counts_information(selected, &info);
    for (int i = 0; i < 3; i++) {
        text t = saved(selected, i == 2 ? KMF_COUNTS_BINARY : KMF_COUNTS_TSV, i == 1, NULL);
        kmf_counts *again = parsed(&t);
        kmf_counts_information(again, &again_info);
        same_info(&again_info, &info);
        kmf_counts_free(again);
        free(t.bytes);
    }
    kmf_counts_free(selected);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

/* A table for k = 2, as lines to be changed. */
#define HEAD(canonical, kmers, distinct, least, most, full)                             \
    "#kmerformer_vocab\t1\n#alphabet\tdna\n#k\t2\n#canonical\t" canonical               \
    "\n#stride\t1\n#inputs\t1\n#records\t1\n#letters\t9\n#kmers\t" kmers                \
    "\n#ambiguous\t0\n#distinct\t" distinct "\n#min_count\t" least "\n#max_size\t" most \
    "\n#full\t" full "\n#kmer\tcount\n"

START_TEST(text_that_does_not_fit_is_named_by_its_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "does not begin with #kmerformer_vocab"},
        {"\n", "does not begin with #kmerformer_vocab"},
        {">r1\nACGT\n", "does not begin with #kmerformer_vocab"},
        {"#kmerformer_vocab\t2\n", "format 2; this version of the program reads format 1"},
        {"#kmerformer_vocab\t0\n", "does not begin with"},
        {"#kmerformer_vocab\t1", "cut off within its header"},
        {"#kmerformer_vocab\t1\n", "cut off after line 1"},
        {"#kmerformer_vocab\t1\n#k\t2\n", "line 2: '#k?2' stands where the header should give "
                                          "#alphabet"},
        {"#kmerformer_vocab\t1\n#alphabet\trna\n", "line 2: '#alphabet?rna' is not one"},
        {"#kmerformer_vocab\t1\n#alphabet\tdna\n#k\t-1\n", "line 3: '#k?-1' is not one"},
        {HEAD("2", "3", "2", "1", "0", "0"), "canonical is 2"},
        {HEAD("0", "3", "4", "1", "0", "0"), "distinct is 4"},
        {HEAD("0", "30", "17", "1", "0", "0"), "distinct is 17"},
        {HEAD("1", "30", "11", "1", "0", "0"), "distinct is 11"},
        {HEAD("0", "30", "3", "1", "2", "0"), "distinct is 3"},
        {HEAD("0", "3", "2", "0", "0", "0"), "min_count is 0"},
        {HEAD("0", "3", "2", "1", "0", "2"), "line 14: '#full?2' is not one"},
        {HEAD("0", "03", "2", "1", "0", "0"), "line 9: '#kmers?03' is not one"},
        {HEAD("0", "3", "2", "1", "0", "0"), "0 k-mers where its header says 2"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nCA\t2", "cut off within line 17"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nCA\t1\n", "counts come to 2 where"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nCA\t3\n", "counts come to 4 where"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nAC\t1\nCA\t1\n", "3 k-mers where"},
        {HEAD("0", "3", "2", "1", "0", "0") "CA\t1\nAA\t2\n", "line 17: 'AA' comes after"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nAA\t2\n", "line 17: 'AA' is listed twice"},
        {HEAD("0", "3", "2", "1", "0", "0") "AAA\t1\n", "line 16: 'AAA?1' is not a k-mer"},
        {HEAD("0", "3", "2", "1", "0", "0") "A\t1\n", "line 16: 'A?1' is not a k-mer"},
        {HEAD("0", "3", "2", "1", "0", "0") "\n", "line 16: '' is not a k-mer"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA 1\n", "line 16: 'AA 1' is not a k-mer"},
        {HEAD("0", "3", "2", "1", "0", "0") "aa\t1\n", "line 16: 'aa' has a letter"},
        {HEAD("0", "3", "2", "1", "0", "0") "AU\t1\n", "line 16: 'AU' has a letter"},
        {HEAD("0", "3", "2", "1", "0", "0") "AN\t1\n", "line 16: 'AN' has a letter"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t\n", "line 16: '' is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1.5\n", "line 16: '1.5' is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t-1\n", "line 16: '-1' is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t01\n", "line 16: '01' is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\tx\n", "line 16: '1?x' is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t18446744073709551616\n", "is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t28446744073709551615\n", "is not a count"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t0\n", "line 16: 'AA?0' has the count 0"},
        {HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nAC\t18446744073709551615\n",
         "line 17: 'AC?18446744073709551615' brings the sum"},
        {HEAD("1", "3", "2", "1", "0", "0") "AA\t1\nTT\t2\n",
         "line 17: 'TT' is larger than its"},
        {HEAD("0", "9", "2", "3", "0", "0") "AA\t2\nCA\t4\n",
         "line 16: 'AA?2' has a count below"},
        {HEAD("0", "3", "2", "1", "0", "1") "AA\t1\nCA\t2\n",
         "2 k-mers where a full table has 16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_err err = {0};
        const char *t = cases[i].text;
        ck_assert_msg(kmf_counts_parse(t, strlen(t), "x.tsv", &err) == NULL, "case %zu", i);
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strncmp(err.msg, "x.tsv: ", 7) == 0, "%s", err.msg);
        ck_assert_msg(strstr(err.msg, cases[i].message) != NULL, "case %zu: %s", i, err.msg);
    }
    static const char *const good[] = {
        HEAD("0", "3", "2", "1", "0", "0") "AA\t1\nCA\t2\n",
        HEAD("0", "9", "2", "1", "2", "0") "AA\t1\nCA\t2\n",
        HEAD("0", "0", "0", "1", "0", "0"),
        HEAD("0", "18446744073709551615", "1", "1", "0", "0") "TT\t18446744073709551615\n",
        HEAD("1", "3", "2", "1", "0", "1") "AA\t1\nAC\t0\nAG\t0\nAT\t0\nCA\t0\nCC\t0\nCG\t0\n"
                                           "GA\t0\nGC\t0\nTA\t2\n",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        kmf_err err = {0};
        kmf_counts *counts = kmf_counts_parse(good[i], strlen(good[i]), "x.tsv", &err);
        ck_assert_msg(counts != NULL, "%s", err.msg);
        kmf_counts_free(counts);
    }
}
END_TEST

START_TEST(text_cut_off_anywhere_is_refused)
{
    list l = random_list(KMF_PROTEIN, 2, 0, 20, 5, 4);
    kmf_counts *counts = table_of(&l);
    text t = saved(counts, KMF_COUNTS_TSV, 0, NULL);
    for (size_t n = 0; n < t.len; n++) {
        kmf_err err = {0};
        ck_assert_msg(kmf_counts_parse(t.bytes, n, "x", &err) == NULL, "%zu bytes", n);
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    text junk = {0};
    for (int i = 0; i < 1000; i++)
        add(&junk, "ACGTACGT");
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_counts_parse(junk.bytes, junk.len, "x", &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "does not begin with"));
    err = (kmf_err){0};
    add_bytes(&t, junk.bytes, junk.len);
    ck_assert_ptr_null(kmf_counts_parse(t.bytes, t.len, "x", &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "is longer than a line can be"));
    free(junk.bytes);
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("counttext");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, make_dir, remove_empty_dir);
    tcase_add_test(tcase, text_is_what_a_naive_writer_makes_with_any_threads_and_reads_back);
    tcase_add_test(tcase, gaps_where_a_list_is_cut_make_no_difference);
    tcase_add_test(tcase, a_vocabulary_is_one_that_models_load);
    tcase_add_test(tcase, dnabert_lists_kmers_by_a_t_c_g);
    tcase_add_test(tcase, dnabert_lists_what_is_in_the_table);
    tcase_add_test(tcase, gzip_and_crlf_and_cuts_anywhere_make_no_difference);
    tcase_add_test(tcase, a_selection_keeps_its_numbers_in_a_file);
    tcase_add_test(tcase, text_that_does_not_fit_is_named_by_its_line);
    tcase_add_test(tcase, text_cut_off_anywhere_is_refused);
    return run_case("counttext", tcase);
}
