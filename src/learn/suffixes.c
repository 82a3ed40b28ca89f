/* SPDX-License-Identifier: MIT */
/*
 * A suffix is a number of C digits to the base of 5, the first letter's first: A C G T are 1 .. 4,
 * and 0 stands where the strand has ended. Words that begin alike are numbers that lie together,
 *
 *   of w, l bases:   w' 5^(C-l) .. (w' + 1) 5^(C-l) - 1     w': the digits of w
 *
 * so a count is the distance of two places in the sorted numbers. Letter by letter along a strand
 * that is read from its end, the next suffix is  d 5^(C-1) + (the one before) / 5.
 */
#include "learn/suffixes.h"

#include "base/mem.h"
#include "words/radix.h"

#include <assert.h>
#include <stdbool.h>

#define BASE 5
#define BITS 31 /* 5^13 < 2^31 */
#define BLOCK 4096
#define HEADS 15625 /* 5^6: what the first six digits say */
#define HEAD 6

struct kmf_suffixes {
    int longest;                              /* C */
    uint32_t power[KMF_SUFFIXES_LONGEST + 1]; /* of BASE */
    uint32_t *sorted;                         /* owned [n] */
    size_t n;
    uint32_t below;            /* numbers that begin with the same digits */
    uint32_t first[HEADS + 1]; /* how many suffixes begin with lower ones */
};

uint64_t kmf_suffixes_bytes(uint64_t letters)
{
    return sizeof(kmf_suffixes) + 2 * 2 * letters * sizeof(uint32_t); /* strands; sorting */
}

void kmf_suffixes_free(kmf_suffixes *suffixes)
{
    if (!suffixes)
        return;
    kmf_free(suffixes->sorted);
    kmf_free(suffixes);
}

static uint32_t preceded(const kmf_suffixes *s, uint32_t suffix, uint32_t letter)
{
    return (1 + letter) * s->power[s->longest - 1] + suffix / BASE;
}

/* The suffixes of both strands of letters beg .. end - 1, to s->sorted. */
static void add_segment(kmf_suffixes *s, const kmf_corpus *corpus, uint64_t beg, uint64_t end)
{
    uint8_t letters[BLOCK];
    uint32_t suffix = 0;
    for (uint64_t at = beg; at < end; at += BLOCK) {
        size_t n = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
        kmf_corpus_letters(corpus, letters, at, n);
        for (size_t i = 0; i < n; i++)
            s->sorted[s->n++] = suffix = preceded(s, suffix, 3u - letters[i]);
    }
    suffix = 0;
    for (uint64_t at = end; at > beg;) {
        size_t n = at - beg < BLOCK ? (size_t)(at - beg) : BLOCK;
        at -= n;
        kmf_corpus_letters(corpus, letters, at, n);
        for (size_t i = n; i-- > 0;)
            s->sorted[s->n++] = suffix = preceded(s, suffix, letters[i]);
    }
}

kmf_suffixes *kmf_suffixes_new(const kmf_corpus *corpus, int longest, kmf_err *err)
{
    assert(longest >= 1 && longest <= KMF_SUFFIXES_LONGEST);
    kmf_corpus_info info;
    kmf_corpus_information(corpus, &info);
    assert(info.kept < (uint64_t)1 << 31);
    size_t n = 2 * (size_t)info.kept;
    kmf_suffixes *s = kmf_calloc(1, sizeof *s, err);
    uint32_t *spare = kmf_large(n, sizeof *spare, err);
    if (s)
        s->sorted = kmf_large(n, sizeof *s->sorted, err);
    if (!s || !spare || !s->sorted) {
        kmf_free(spare);
        kmf_suffixes_free(s);
        return NULL;
    }
    s->longest = longest;
    s->power[0] = 1;
    for (int i = 1; i <= longest; i++)
        s->power[i] = BASE * s->power[i - 1];
    for (uint64_t i = 0; i < info.segments; i++)
        add_segment(s, corpus, kmf_corpus_start(corpus, i), kmf_corpus_start(corpus, i + 1));
    uint32_t *sorted = kmf_radix_sort_32(s->sorted, spare, s->n, BITS);
    kmf_free(sorted == spare ? s->sorted : spare);
    s->sorted = sorted;
    s->below = longest > HEAD ? s->power[longest - HEAD] : 1;
    for (size_t i = 0, head = 0; head <= HEADS; head++) {
        while (i < s->n && sorted[i] / s->below < head)
            i++;
        s->first[head] = (uint32_t)i;
    }
    return s;
}

/* How many suffixes are lower. */
static size_t place_of(const kmf_suffixes *s, uint32_t number)
{
    uint32_t head = number / s->below;
    const uint32_t *from = s->sorted + s->first[head];
    if (number == head * s->below)
        return s->first[head];
    for (size_t n = s->first[head + 1] - s->first[head]; n > 0;) {
        size_t half = n / 2;
        bool below = from[half] < number;
        from = below ? from + half + 1 : from;
        n = below ? n - half - 1 : half;
    }
    return (size_t)(from - s->sorted);
}

uint64_t kmf_suffixes_count(const kmf_suffixes *suffixes, uint64_t code, unsigned n, int len)
{
    const kmf_suffixes *s = suffixes;
    assert(len >= 1 && len <= s->longest && (code & 3) + n <= 4);
    uint32_t digits = 0;
    for (int i = len - 1; i >= 0; i--)
        digits = BASE * digits + 1 + (uint32_t)(code >> 2 * i & 3);
    uint32_t step = s->power[s->longest - len];
    return place_of(s, (digits + n) * step) - place_of(s, digits * step);
}
