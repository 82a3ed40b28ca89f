/* SPDX-License-Identifier: MIT */
/*
 * Tables of counts against sorted lists: lookup, walk, sums, selections. What is told of a
 * table is compared with numbers worked out by hand for small ones, and with a list sorted anew
 * for others.
 */
#include "checked.h"
#include "failing.h"
#include "run.h"
#include "tables.h"
#include "words/counts.h"

#include <check.h>
#include <math.h>

static uint64_t naive_get(const list *l, uint64_t code)
{
    uint64_t count = 0;
    uint64_t rc = l->info.canonical ? kmf_kmer_revcomp(code, l->info.k) : code;
    kmf_kmer_count key = {code < rc ? code : rc, 0};
    const kmf_kmer_count *at = bsearch(&key, l->kmers, l->n, sizeof key, by_code);
    if (at)
        count = at->count;
    return count;
}

START_TEST(a_table_gives_back_what_was_put_in)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 10);
        kmf_counts *counts = table_of(&l);
        same_table(counts, &l);
        kmf_counts_free(counts);
        free_list(&l);
    }
    kmf_counts_free(NULL);
}
END_TEST

START_TEST(any_code_has_a_count_and_one_never_seen_has_none)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 20);
        kmf_counts *counts = table_of(&l);
        uint64_t seed = i;
        int bits = kmf_alphabet_bits(l.info.alphabet) * l.info.k;
        for (int r = 0; r < 3000; r++) {
            uint64_t code = draw(&seed) >> (64 - bits);
            if (r % 2 && l.n > 0)
                code = l.kmers[draw(&seed) % l.n].code;
            if (r % 4 == 3 && l.info.canonical)
                code = kmf_kmer_revcomp(code, l.info.k);
            if (kmf_counts_get(counts, code) != naive_get(&l, code))
                ck_abort_msg("kind %zu: code %llx", i, (unsigned long long)code);
        }
        if (bits < 64) {
            ck_assert_uint_eq(kmf_counts_get(counts, (uint64_t)1 << bits), 0);
            ck_assert_uint_eq(kmf_counts_get(counts, UINT64_MAX), 0);
        }
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

/* The sum of lists. */
static list sum_of(const list *lists, size_t n)
{
    list all = copy_of(&lists[0]);
    for (size_t i = 1; i < n; i++) {
        all.kmers = realloc(all.kmers, (all.n + lists[i].n + 1) * sizeof *all.kmers);
        ck_assert_ptr_nonnull(all.kmers);
        if (lists[i].n > 0)
            memcpy(all.kmers + all.n, lists[i].kmers, lists[i].n * sizeof *all.kmers);
        all.n += lists[i].n;
        all.info.inputs += lists[i].info.inputs;
        all.info.records += lists[i].info.records;
        all.info.letters += lists[i].info.letters;
        all.info.ambiguous += lists[i].info.ambiguous;
    }
    tidy(&all, 1);
    return all;
}

START_TEST(tables_add_up_as_their_lists_do)
{
    for (size_t i = 0; i < N_KINDS; i++)
        for (size_t n = 1; n <= 4; n += 1 + (CHECKED ? 2 : 0)) {
            list lists[4];
            kmf_counts *tables[4];
            kmf_err err = {0};
            for (size_t t = 0; t < n; t++) {
                lists[t] = list_of_kind(i, 100 * (t + 1));
                tables[t] = table_of(&lists[t]);
            }
            list expected = sum_of(lists, n);
            kmf_counts *sum = kmf_counts_merge((const kmf_counts *const *)tables, n, &err);
            ck_assert_msg(sum != NULL, "%s", err.msg);
            for (size_t t = 0; t < n; t++) {
                kmf_counts_free(tables[t]);
                free_list(&lists[t]);
            }
            same_table(sum, &expected);
            kmf_counts_free(sum);
            free_list(&expected);
        }
}
END_TEST

START_TEST(tables_that_differ_are_not_added)
{
    static const struct {
        kmf_counts_info info;
        const char *message;
    } cases[] = {
        {{KMF_DNA, 8, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0}, "table 2 has k = 8, table 1 k = 6"},
        {{KMF_DNA, 6, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0}, "table 2 counts canonical k-mers"},
        {{KMF_DNA, 6, 0, 6, 0, 0, 0, 0, 0, 0, 1, 0}, "stride 6, table 1 with stride 1"},
        {{KMF_PROTEIN, 6, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0}, "table 2 counts protein, table 1 dna"},
        {{KMF_DNA, 6, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0}, "table 2 lacks the k-mers with a count"},
        {{KMF_DNA, 6, 0, 1, 0, 0, 0, 0, 0, 0, 1, 9}, "table 2 holds the 9 most frequent"},
        {{KMF_DNA, 6, 0, 1, 0, 0, UINT64_MAX, 0, 0, 0, 1, 0}, "with table 2 the sum exceeds"},
    };
    kmf_counts_info first = {KMF_DNA, 6, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_err err = {0};
        kmf_counts *tables[] = {kmf_counts_new(&first, NULL),
                                kmf_counts_new(&cases[i].info, NULL)};
        ck_assert_ptr_null(kmf_counts_merge((const kmf_counts *const *)tables, 2, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, cases[i].message) != NULL, "%s", err.msg);
        kmf_counts_free(tables[0]);
        kmf_counts_free(tables[1]);
    }
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_counts_merge(NULL, 0, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
}
END_TEST

static int by_count(const void *a, const void *b)
{
    const kmf_kmer_count *x = a;
    const kmf_kmer_count *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return by_code(a, b);
}

static int by_count_least(const void *a, const void *b)
{
    const kmf_kmer_count *x = a;
    const kmf_kmer_count *y = b;
    if (x->count != y->count)
        return x->count < y->count ? -1 : 1;
    return by_code(a, b);
}

static void sort(list *l, int (*order)(const void *, const void *))
{
    if (l->n > 0)
        qsort(l->kmers, l->n, sizeof *l->kmers, order);
}

static list naive_select(const list *from, uint64_t min_count, uint64_t max_size)
{
    list l = copy_of(from);
    uint64_t kmers = l.info.kmers;
    size_t n = 0;
    for (size_t i = 0; i < l.n; i++)
        if (l.kmers[i].count >= min_count)
            l.kmers[n++] = l.kmers[i];
    l.n = n;
    sort(&l, by_count);
    if (max_size > 0 && l.n > max_size)
        l.n = max_size;
    tidy(&l, 0);
    l.info.kmers = kmers;
    l.info.min_count = min_count > 1 ? min_count : 1;
    l.info.max_size = max_size;
    return l;
}

START_TEST(a_selection_is_that_of_a_sorted_list)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 30);
        kmf_counts *counts = table_of(&l);
        uint64_t sizes[] = {0, 1, l.n / 3, l.n > 0 ? l.n - 1 : 0, l.n, l.n + 1};
        static const uint64_t least[] = {0, 1, 2, 7, 300, 70000, UINT64_MAX};
        for (size_t s = 0; s < 6; s++)
            for (size_t m = 0; m < 7; m += 1 + CHECKED) {
                list expected = naive_select(&l, least[m], sizes[s]);
                kmf_counts *selected = kmf_counts_select(counts, least[m], sizes[s], NULL);
                ck_assert_ptr_nonnull(selected);
                same_table(selected, &expected);
                kmf_counts_free(selected);
                free_list(&expected);
            }
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

START_TEST(a_selection_of_a_selection_remembers_both)
{
    list l = random_list(KMF_DNA, 8, 0, 5000, 12, 1);
    kmf_counts *all = table_of(&l);
    kmf_counts *frequent = kmf_counts_select(all, 5, 1000, NULL);
    kmf_counts *again = kmf_counts_select(frequent, 3, 2000, NULL);
    kmf_counts *fewer = kmf_counts_select(frequent, 9, 100, NULL);
    kmf_counts_info a;
    kmf_counts_info b;
    kmf_counts_information(frequent, &a);
    kmf_counts_information(again, &b);
    same_info(&a, &b);
    ck_assert_uint_eq(a.min_count, 5);
    ck_assert_uint_eq(a.max_size, 1000);
    kmf_counts_information(fewer, &b);
    ck_assert_uint_eq(b.min_count, 9);
    ck_assert_uint_eq(b.max_size, 100);
    ck_assert_uint_eq(b.distinct, 100);
    kmf_counts_free(all);
    kmf_counts_free(frequent);
    kmf_counts_free(again);
    kmf_counts_free(fewer);
    free_list(&l);
}
END_TEST

START_TEST(the_most_and_the_least_frequent_come_in_order)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 40);
        kmf_counts *counts = table_of(&l);
        size_t sizes[] = {0, 1, 2, 17, l.n / 2, l.n, l.n + 1, l.n + 5};
        kmf_kmer_count *extreme = malloc((l.n + 6) * sizeof *extreme);
        for (int least = 0; least < 2; least++) {
            list sorted = copy_of(&l);
            sort(&sorted, least ? by_count_least : by_count);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                size_t n = sizes[s] < l.n ? sizes[s] : l.n;
                ck_assert_int_eq(kmf_counts_extreme(counts, extreme, sizes[s], least, NULL),
                                 (int64_t)n);
                if (n > 0)
                    ck_assert_mem_eq(extreme, sorted.kmers, n * sizeof *extreme);
            }
            free_list(&sorted);
        }
        free(extreme);
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

/*
 * By hand: k = 2, AA 4, AC 2, GG 1, TA 1: total 8, p = 1/2 1/4 1/8 1/8, entropy
 * 1/2 + 2/4 + 3/8 + 3/8 = 1.75 bits; G and C: 0 + 2 + 2 + 0 of 16 letters.
 */
static const kmf_kmer_count small[] = {{0, 4}, {1, 2}, {10, 1}, {12, 1}};

static list small_list(int canonical)
{
    list l = {.info = {.alphabet = KMF_DNA,
                       .k = 2,
                       .canonical = canonical,
                       .stride = 1,
                       .min_count = 1,
                       .kmers = 8,
                       .distinct = 4},
              .n = 4};
    list constant = l;
    constant.kmers = (kmf_kmer_count *)(uintptr_t)small;
    return copy_of(&constant);
}

START_TEST(a_summary_is_what_the_hand_finds)
{
    kmf_counts_summary s;
    list l = small_list(0);
    kmf_counts *counts = table_of(&l);
    kmf_counts_summarise(counts, &s);
    ck_assert(s.possible == 16);
    ck_assert(s.coverage == 0.25);
    ck_assert_double_eq_tol(s.entropy, 1.75, 1e-15);
    ck_assert_double_eq_tol(s.gc, 0.25, 1e-15);
    ck_assert_uint_eq(s.total, 8);
    ck_assert_uint_eq(s.smallest, 1);
    ck_assert_uint_eq(s.largest, 4);
    kmf_counts_free(counts);

    l.n = 0;
    counts = table_of(&l);
    kmf_counts_summarise(counts, &s);
    ck_assert(s.coverage == 0 && s.entropy == 0 && s.gc == -1);
    ck_assert_uint_eq(s.total + s.smallest + s.largest, 0);
    kmf_counts_free(counts);

    l.n = 1;
    const uint64_t alone[] = {1, (uint64_t)1 << 63};
    for (int i = 0; i < 2; i++) {
        l.kmers[0].count = alone[i];
        counts = table_of(&l);
        kmf_counts_summarise(counts, &s);
        ck_assert(s.entropy == 0 && s.gc == 0);
        ck_assert_uint_eq(s.largest, alone[i]);
        kmf_counts_free(counts);
    }
    free_list(&l);
}
END_TEST

START_TEST(as_many_canonical_kmers_are_possible_as_a_count_finds)
{
    for (int k = 1; k <= 7; k++) {
        uint64_t n = 0;
        for (uint64_t code = 0; code < (uint64_t)1 << 2 * k; code++)
            n += kmf_kmer_canonical(code, k) == code;
        kmf_counts_info info = {.alphabet = KMF_DNA, .k = k, .canonical = 1};
        ck_assert(kmf_counts_possible(&info) == (double)n);
        info.canonical = 0;
        ck_assert(kmf_counts_possible(&info) == ldexp(1, 2 * k));
    }
}
END_TEST

START_TEST(a_summary_agrees_with_its_definition)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 50);
        kmf_counts *counts = table_of(&l);
        kmf_counts_summary s;
        double entropy = 0;
        double gc = 0;
        double total = (double)l.info.kmers;
        for (size_t j = 0; j < l.n; j++) {
            char text[KMF_K_MAX + 1];
            double p = (double)l.kmers[j].count / total;
            double n = 0;
            entropy -= p * log2(p);
            kmf_alphabet_decode(l.info.alphabet, text, l.kmers[j].code, l.info.k);
            for (int c = 0; c < l.info.k; c++)
                n += text[c] == 'G' || text[c] == 'C';
            gc += p * n / l.info.k;
        }
        kmf_counts_summarise(counts, &s);
        ck_assert_double_eq_tol(s.entropy, entropy, 1e-9);
        if (l.info.alphabet == KMF_DNA && l.n > 0)
            ck_assert_double_eq_tol(s.gc, gc, 1e-9);
        else
            ck_assert(s.gc == -1);
        ck_assert_uint_eq(s.total, l.info.kmers);
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

START_TEST(a_spectrum_counts_the_counts)
{
    kmf_spectrum s;
    list l = small_list(0);
    kmf_counts *counts = table_of(&l);
    ck_assert_int_eq(kmf_counts_spectrum(counts, &s, NULL), 0);
    ck_assert_uint_eq(s.n, 3);
    ck_assert(s.count[0] == 1 && s.kmers[0] == 2);
    ck_assert(s.count[1] == 2 && s.kmers[1] == 1);
    ck_assert(s.count[2] == 4 && s.kmers[2] == 1);
    kmf_spectrum_free(&s);
    kmf_spectrum_free(&s);
    kmf_spectrum_free(NULL);
    kmf_counts_free(counts);
    /* on both sides of where counts are no longer tallied in an array */
    for (size_t i = 0; i < 4; i++)
        l.kmers[i].count = 65535 + i % 3;
    counts = table_of(&l);
    ck_assert_int_eq(kmf_counts_spectrum(counts, &s, NULL), 0);
    ck_assert_uint_eq(s.n, 3);
    ck_assert(s.count[0] == 65535 && s.kmers[0] == 2);
    ck_assert(s.count[1] == 65536 && s.kmers[1] == 1);
    ck_assert(s.count[2] == 65537 && s.kmers[2] == 1);
    kmf_spectrum_free(&s);
    kmf_counts_free(counts);
    free_list(&l);
    for (size_t i = 0; i < N_KINDS; i++) {
        l = list_of_kind(i, 60);
        counts = table_of(&l);
        ck_assert_int_eq(kmf_counts_spectrum(counts, &s, NULL), 0);
        sort(&l, by_count_least);
        size_t at = 0;
        for (size_t j = 0; j < s.n; j++) {
            if (j > 0)
                ck_assert_uint_lt(s.count[j - 1], s.count[j]);
            uint64_t n = 0;
            for (; at < l.n && l.kmers[at].count == s.count[j]; at++)
                n++;
            if (n != s.kmers[j] || n == 0)
                ck_abort_msg("kind %zu: line %zu", i, j);
        }
        ck_assert_uint_eq(at, l.n);
        kmf_spectrum_free(&s);
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

/* Everything that allocates, once; a negative code when something failed. */
static int use_all(const list *l, kmf_err *err)
{
    kmf_spectrum s = {0};
    int status = KMF_ENOMEM;
    kmf_counts *sum = NULL;
    kmf_counts *selected = NULL;
    kmf_counts *counts = try_table(l, err);
    const kmf_counts *const both[] = {counts, counts};
    if (counts)
        sum = kmf_counts_merge(both, 2, err);
    if (sum)
        selected = kmf_counts_select(sum, 2, l->n / 2, err);
    if (selected)
        status = kmf_counts_spectrum(sum, &s, err);
    kmf_spectrum_free(&s);
    kmf_counts_free(counts);
    kmf_counts_free(sum);
    kmf_counts_free(selected);
    return status;
}

START_TEST(any_failing_allocation_is_reported)
{
    list l = random_list(KMF_DNA, 9, 0, 100, 20, 3);
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        int status = use_all(&l, &err);
        reached = failed_at(n);
        ck_assert_int_eq(status, reached ? KMF_ENOMEM : 0);
        ck_assert_int_eq(err.code, status);
    }
    free_list(&l);
}
END_TEST

/* What was told of a walk: fractions that go up, and how many passes there were. */
typedef struct told {
    double last;
    int passes, times;
} told;

static void be_told(void *user, double done)
{
    told *t = user;
    ck_assert_double_gt(done, 0);
    ck_assert_double_le(done, 1);
    if (done <= t->last)
        ck_assert_double_eq(t->last, 1); /* the pass before came to its end */
    t->passes += t->times == 0 || done <= t->last;
    t->last = done;
    t->times++;
}

static void check_told(told *t, int passes, const char *what)
{
    if (t->passes != passes || t->last != 1 || t->times < 100 * passes)
        ck_abort_msg("%s: %d passes, %d times, %g at last", what, t->passes, t->times, t->last);
    *t = (told){0};
}

START_TEST(who_goes_over_a_table_tells_how_far_it_is)
{
    list l = list_of_kind(0, 10);
    size_t row = 0;
    kmf_counts *counts = table_of(&l);
    while (counts->n_blocks < 512) { /* one of many blocks */
        kmf_counts_free(counts);
        free_list(&l);
        l = list_of_kind(++row, 10);
        counts = table_of(&l);
    }
    told t = {0};
    kmf_counts_summary summary;
    kmf_kmer_count most[3];
    kmf_spectrum spectrum;
    const kmf_counts *both[] = {counts, counts};
    kmf_counts_progress(counts, be_told, &t);
    kmf_counts_summarise(counts, &summary);
    check_told(&t, 1, "summarise");
    ck_assert_int_eq(kmf_counts_extreme(counts, most, 3, 0, NULL), 3);
    check_told(&t, 1, "extreme");
    ck_assert_int_eq(kmf_counts_spectrum(counts, &spectrum, NULL), 0);
    check_told(&t, 1, "spectrum");
    kmf_counts *selected = kmf_counts_select(counts, 2, 0, NULL);
    check_told(&t, 1, "select");
    ck_assert_int_eq(
        kmf_counts_save(counts, "/dev/null", KMF_COUNTS_BINARY, 0, NULL, NULL, NULL), 0);
    check_told(&t, 1, "save");
    ck_assert_int_eq(kmf_counts_save(counts, "/dev/null", KMF_COUNTS_TSV, 0, NULL, NULL, NULL),
                     0);
    check_told(&t, 1, "save as text");
    kmf_counts_progress(counts, NULL, NULL);
    kmf_counts_summarise(counts, &summary);
    ck_assert_int_eq(t.times, 0);
    kmf_counts *other = table_of(&l);
    kmf_counts_progress(other, be_told, &t);
    both[0] = other;
    kmf_counts *sum = kmf_counts_merge(both, 2, NULL);
    check_told(&t, 1, "merge");
    kmf_counts_summarise(sum, &summary); /* it has none of its own */
    ck_assert_int_eq(t.times, 0);
    kmf_spectrum_free(&spectrum);
    kmf_counts_free(sum);
    kmf_counts_free(selected);
    kmf_counts_free(other);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("counts");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, a_table_gives_back_what_was_put_in);
    tcase_add_test(tcase, any_code_has_a_count_and_one_never_seen_has_none);
    tcase_add_test(tcase, tables_add_up_as_their_lists_do);
    tcase_add_test(tcase, tables_that_differ_are_not_added);
    tcase_add_test(tcase, a_selection_is_that_of_a_sorted_list);
    tcase_add_test(tcase, a_selection_of_a_selection_remembers_both);
    tcase_add_test(tcase, the_most_and_the_least_frequent_come_in_order);
    tcase_add_test(tcase, who_goes_over_a_table_tells_how_far_it_is);
    tcase_add_test(tcase, a_summary_is_what_the_hand_finds);
    tcase_add_test(tcase, as_many_canonical_kmers_are_possible_as_a_count_finds);
    tcase_add_test(tcase, a_summary_agrees_with_its_definition);
    tcase_add_test(tcase, a_spectrum_counts_the_counts);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("counts", tcase);
}
