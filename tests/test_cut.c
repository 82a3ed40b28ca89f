/* SPDX-License-Identifier: MIT */
/*
 * The cutter against a naive twin that writes out all tokens of a sequence first and then applies
 * the definition: chunk c of a run begins at token c (C - O), and a token belongs to the chunk
 * in which the smaller of its distances to a cut is largest, the earlier one on a tie.
 */
#include "base/rng.h"
#include "kmerformer.h"
#include "run.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

#define LEN 400
#define BREAK (-2)

typedef struct twin {
    int32_t ids[LEN];
    uint64_t pos[LEN];
    size_t n;
} twin;

/* All tokens, with BREAK between runs. */
static void twin_tokens(twin *t, const kmf_vocab *v, const char *seq, size_t len,
                        const kmf_cut_options *o)
{
    size_t k = (size_t)kmf_vocab_k(v);
    t->n = 0;
    for (size_t start = 0; start + k <= len; start += o->stride) {
        char kmer[16] = {0};
        for (size_t i = 0; i < k; i++) {
            char b = o->reverse ? seq[len - 1 - start - i] : seq[start + i];
            kmer[i] = !o->reverse ? b
                      : b == 'A'  ? 'T'
                      : b == 'C'  ? 'G'
                      : b == 'G'  ? 'C'
                      : b == 'T'  ? 'A'
                                  : 'N';
        }
        uint64_t code;
        int32_t id = -1;
        if (kmf_kmer_encode(&code, kmer, (int)k) == 0)
            id = kmf_vocab_kmer(v, code) >= 0 ? kmf_vocab_kmer(v, code)
                                              : kmf_vocab_special(v, KMF_UNK);
        else if (o->ambiguous == KMF_AMBIGUOUS_UNK)
            id = kmf_vocab_special(v, KMF_UNK);
        else if (o->ambiguous == KMF_AMBIGUOUS_BREAK)
            id = BREAK;
        if (id != -1) {
            t->ids[t->n] = id;
            t->pos[t->n++] = start;
        }
    }
}

/*
 * The chunk that owns a token: it lies in one chunk, or in a neighbouring pair, where the cuts in
 * question are the earlier one's right end and the later one's left end.
 */
static size_t owner_of(size_t token, size_t n_run, size_t C, size_t O)
{
    size_t step = C - O;
    size_t later = token / step; /* the last chunk that begins at or before the token */
    while (later > 0 && later * step + O >= n_run)
        later--;
    if (later == 0 || token >= (later - 1) * step + C)
        return later;
    size_t right = (later - 1) * step + C - 1 - token;
    size_t left = token - later * step;
    return right >= left ? later - 1 : later;
}

static void check_sequence(const kmf_vocab *v, const char *seq, size_t len,
                           const kmf_cut_options *o)
{
    twin all;
    kmf_err err = {0};
    kmf_chunk chunk;
    kmf_cut_stats stats;
    size_t frame = o->specials ? 1 : 0;
    size_t C = o->window - 2 * frame;
    uint64_t n_real = 0;
    uint64_t n_chunks = 0;
    kmf_cutter *cutter = kmf_cutter_new(v, o, &err);
    ck_assert_msg(cutter != NULL, "%s", err.msg);
    twin_tokens(&all, v, seq, len, o);
    kmf_cutter_start(cutter, "x", seq, len);
    for (size_t beg = 0; beg < all.n;) {
        size_t n = 0;
        while (beg + n < all.n && all.ids[beg + n] != BREAK)
            n++;
        for (size_t c = 0; n > 0 && (c == 0 || c * (C - o->overlap) + o->overlap < n); c++) {
            size_t from = c * (C - o->overlap);
            size_t to = from + C < n ? from + C : n;
            ck_assert_int_eq(kmf_cutter_next(cutter, &chunk, &err), 1);
            n_chunks++;
            ck_assert_uint_eq(chunk.n, to - from + 2 * frame);
            if (frame) {
                ck_assert_int_eq(chunk.ids[0], kmf_vocab_special(v, KMF_CLS));
                ck_assert_int_eq(chunk.ids[chunk.n - 1], kmf_vocab_special(v, KMF_SEP));
                ck_assert_int_eq(chunk.real[0], 0);
                ck_assert_int_eq(chunk.real[chunk.n - 1], 0);
            }
            for (size_t i = from; i < to; i++) {
                size_t at = frame + i - from;
                bool owned = at >= chunk.own_beg && at < chunk.own_end;
                quick_assert(chunk.ids[at] == all.ids[beg + i]);
                quick_assert(chunk.pos[at] == all.pos[beg + i]);
                quick_assert(chunk.end[at] == all.pos[beg + i] + (uint64_t)kmf_vocab_k(v));
                quick_assert(chunk.real[at] ==
                             (all.ids[beg + i] != kmf_vocab_special(v, KMF_UNK)));
                quick_assert(owned == (owner_of(i, n, C, o->overlap) == c));
                n_real += owned && chunk.real[at];
            }
        }
        beg += n + 1;
    }
    ck_assert_int_eq(kmf_cutter_next(cutter, &chunk, &err), 0);
    kmf_cutter_statistics(cutter, &stats);
    ck_assert_uint_eq(stats.tokens, n_real);
    ck_assert_uint_eq(stats.chunks, n_chunks);
    ck_assert_int_eq(stats.cut, 0);
    kmf_cutter_free(cutter);
}

START_TEST(chunks_equal_the_definition)
{
    kmf_rng rng = kmf_rng_stream(3, 0);
    kmf_vocab *v = kmf_vocab_new(3, NULL);
    char seq[LEN + 1];
    for (int round = 0; round < 3000; round++) {
        size_t len = kmf_rng_below(&rng, round % 3 ? 60 : LEN);
        const char *letters = round % 2 ? "ACGT" : "ACGTACGTACGTACGTACGTN";
        for (size_t i = 0; i < len; i++)
            seq[i] = letters[kmf_rng_below(&rng, strlen(letters))];
        seq[len] = '\0';
        size_t window = 3 + kmf_rng_below(&rng, 40);
        kmf_cut_options o = {.window = window,
                             .stride = 1 + kmf_rng_below(&rng, 5),
                             .specials = (int)kmf_rng_below(&rng, 2),
                             .ambiguous = (kmf_ambiguous)kmf_rng_below(&rng, 3),
                             .reverse = (int)kmf_rng_below(&rng, 2)};
        o.overlap = kmf_rng_below(&rng, (window - (o.specials ? 2 : 0)) / 2 + 1);
        check_sequence(v, seq, len, &o);
    }
    kmf_vocab_free(v);
}
END_TEST

static const kmf_cut_options plain = {.stride = 1, .window = 6, .overlap = 0, .specials = 1};

START_TEST(a_hand_cut_sequence)
{
    /* k = 2: AC CG GT TA AC = ids 5 + 1, 6, 11, 12, 1 */
    kmf_vocab *v = kmf_vocab_new(2, NULL);
    kmf_cutter *c = kmf_cutter_new(v, &plain, NULL);
    kmf_chunk chunk;
    static const int32_t first[] = {2, 6, 11, 16, 17, 3};
    static const int32_t second[] = {2, 6, 3};
    kmf_cutter_start(c, "x", "ACGTAC", 6);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_uint_eq(chunk.n, 6);
    ck_assert_int_eq(memcmp(chunk.ids, first, sizeof first), 0);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_uint_eq(chunk.n, 3);
    ck_assert_int_eq(memcmp(chunk.ids, second, sizeof second), 0);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    /* one that is not read to its end leaves nothing to the next */
    kmf_cutter_start(c, "x", "ACGTAC", 6);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    kmf_cutter_start(c, "y", "CG", 2);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert(chunk.n == 3 && chunk.ids[1] == first[2]);
    kmf_cutter_free(c);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(policies_for_long_sequences)
{
    kmf_vocab *v = kmf_vocab_new(2, NULL);
    kmf_chunk chunk;
    kmf_cut_stats stats;
    kmf_err err = {0};
    kmf_cut_options o = plain;
    const char *seq = "ACGTACNGG"; /* 5 k-mers, then an N, then 1: a window of 4 */

    o.policy = KMF_LONG_TRUNCATE;
    kmf_cutter *c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", seq, 9);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_uint_eq(chunk.n, 6);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_int_eq(stats.cut, 1);
    ck_assert_uint_eq(stats.tokens, 4);
    ck_assert_uint_eq(stats.ambiguous, 2);
    kmf_cutter_start(c, "y", "ACGTA", 5);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_int_eq(stats.cut, 0);
    kmf_cutter_free(c);
    o.overlap = 2; /* with no other chunk: all is the first one's own */
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", seq, 9);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_uint_eq(chunk.own_end - chunk.own_beg, 4);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_free(c);
    o.overlap = 0;

    o.policy = KMF_LONG_SKIP;
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", seq, 9);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_int_eq(stats.cut, 1);
    ck_assert_uint_eq(stats.chunks, 0);
    kmf_cutter_start(c, "y", "ACGTA", 5);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_free(c);

    /* two runs of 3 are no longer than a window of 4, one of 5 behind them is */
    o.ambiguous = KMF_AMBIGUOUS_BREAK;
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACGTNACGT", 9);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
        ck_assert_uint_eq(chunk.n, 5);
    }
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_int_eq(stats.cut, 0);
    kmf_cutter_start(c, "y", "ACGTNACGTNACGTAC", 16);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_int_eq(stats.cut, 1);
    kmf_cutter_free(c);
    o.ambiguous = KMF_AMBIGUOUS_SKIP;

    o.policy = KMF_LONG_ERROR;
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", seq, 9);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, &err), KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "record 'x'"));
    kmf_cutter_free(c);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(ambiguous_and_unknown_kmers_are_counted_and_named)
{
    kmf_err err = {0};
    kmf_chunk chunk;
    kmf_cut_stats stats;
    kmf_cut_options o = plain;
    kmf_vocab *v = kmf_vocab_parse("[UNK]\n[CLS]\n[SEP]\nAC\nCA\n", 24, "v", NULL);
    ck_assert_ptr_nonnull(v);
    kmf_cutter *c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACNACGCA", 8); /* AC (CN NA) AC [CG GC] CA */
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    static const int32_t ids[] = {1, 3, 3, 0, 0, 2};
    ck_assert_uint_eq(chunk.n, 6);
    ck_assert_int_eq(memcmp(chunk.ids, ids, sizeof ids), 0);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_uint_eq(stats.ambiguous, 2);
    ck_assert_uint_eq(stats.unknown, 2);
    ck_assert_uint_eq(stats.tokens, 3);
    kmf_cutter_free(c);

    /* what is cut off is not counted, its first token neither: AC CA AC, [CG GT TC CA] */
    o.window = 5;
    o.overlap = 0;
    o.policy = KMF_LONG_TRUNCATE;
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACACGTCA", 8);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 1);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, NULL), 0);
    kmf_cutter_statistics(c, &stats);
    ck_assert_uint_eq(stats.unknown, 0);
    ck_assert_uint_eq(stats.tokens, 3);
    ck_assert_int_eq(stats.cut, 1);
    kmf_cutter_free(c);
    o = plain;

    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACNAC", 5);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, &err), KMF_EFORMAT);
    ck_assert_str_eq(err.msg, "record 'x': base 3 is 'N', not A, C, G, T or U");
    err = (kmf_err){0};
    kmf_cutter_start(c, "x", "ACG\x1b", 4);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, &err), KMF_EFORMAT);
    ck_assert_str_eq(err.msg, "record 'x': base 4 is '?', not A, C, G, T or U");
    kmf_cutter_free(c);
    kmf_vocab_free(v);

    err = (kmf_err){0};
    o = plain;
    o.specials = 0;
    v = kmf_vocab_parse("AC\n", 3, "v", NULL);
    c = kmf_cutter_new(v, &o, NULL);
    kmf_cutter_start(c, "x", "ACA", 3);
    ck_assert_int_eq(kmf_cutter_next(c, &chunk, &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "record 'x': the vocabulary has neither CA nor [UNK]");
    kmf_cutter_free(c);
    o.specials = 1;
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_cutter_new(v, &o, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    kmf_vocab_free(v);
}
END_TEST

START_TEST(settings_out_of_range_are_refused)
{
    kmf_vocab *v = kmf_vocab_new(2, NULL);
    static const kmf_cut_options bad[] = {
        {.stride = 0, .window = 6},
        {.stride = 1, .window = 2, .specials = 1},
        {.stride = 1, .window = ((size_t)1 << 24) + 1},
        {.stride = 1, .window = 6, .specials = 1, .overlap = 3},
        {.stride = 1, .window = 6, .exact = (kmf_exact)(KMF_EXACT_WHOLE + 1)},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_cutter_new(v, &bad[i], &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
    kmf_vocab_free(v);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("cut");
    tcase_add_test(tcase, chunks_equal_the_definition);
    tcase_add_test(tcase, a_hand_cut_sequence);
    tcase_add_test(tcase, policies_for_long_sequences);
    tcase_add_test(tcase, ambiguous_and_unknown_kmers_are_counted_and_named);
    tcase_add_test(tcase, settings_out_of_range_are_refused);
    return run_case("cut", tcase);
}
