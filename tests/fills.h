/* SPDX-License-Identifier: MIT */
/*
 * kmf_reader_fill beside kmf_reader_next: the same input read once by record and, in portions
 * of many sizes, as a text, must give the same letters, the same last word and the same
 * statistics.
 */
#ifndef KMF_TEST_FILLS_H
#define KMF_TEST_FILLS_H

#include "run.h"
#include "seqfiles.h"

#include <stdbool.h>

/* One input: a path, or bytes if there is none. */
typedef struct source {
    const char *path;
    const kmf_reader_options *opts;
    const void *bytes;
    size_t n;
    int threads;
    bool fastq; /* records are appended whole */
} source;

typedef struct outcome {
    kmf_text letters; /* owned; a NUL behind them */
    int status;
    kmf_err err;
    kmf_reader_stats stats;
} outcome;

/* As add_bytes, but without ck_assert, which writes to a file each time. */
static inline void add_letters(outcome *out, const char *bytes, size_t n)
{
    if (kmf_text_reserve(&out->letters, n, &out->err) < 0)
        ck_abort_msg("%s", out->err.msg);
    memcpy(out->letters.bytes + out->letters.len, bytes, n);
    out->letters.len += n;
    out->letters.bytes[out->letters.len] = '\0';
}

static inline kmf_reader *open_source(const source *from, kmf_pool *pool, kmf_err *err)
{
    return from->path ? kmf_reader_open(from->path, from->opts, pool, err)
                      : kmf_reader_open_memory(from->bytes, from->n, pool, err);
}

static inline void letters_by_record(kmf_reader *reader, outcome *out)
{
    kmf_record rec;
    while ((out->status = kmf_reader_next(reader, &rec, &out->err)) == 1) {
        add_letters(out, rec.seq, rec.len);
        add_letters(out, "\n", 1);
    }
}

/* One call, appended to "KEPT", and what can be said of any. whole: records have no bound. */
static inline int next_portion(kmf_reader *reader, kmf_text *portion, size_t want, bool whole,
                               kmf_err *err)
{
    portion->len = 0;
    if (kmf_text_reserve(portion, 4, err) < 0)
        ck_abort_msg("%s", err->msg);
    memcpy(portion->bytes, "KEPT", 4);
    portion->len = 4;
    int status = kmf_reader_fill(reader, portion, 4 + want, err);
    if (portion->len > portion->cap || memcmp(portion->bytes, "KEPT", 4) != 0)
        ck_abort_msg("what the text held is lost");
    if (status >= 0 && status != (portion->len > 4))
        ck_abort_msg("status %d with %zu bytes", status, portion->len - 4);
    if (!whole && portion->len > 4 + want + (64 << 10))
        ck_abort_msg("%zu bytes instead of %zu", portion->len - 4, want);
    return status;
}

/* In portions of `want` bytes. */
static inline void letters_as_text(kmf_reader *reader, size_t want, bool whole, outcome *out)
{
    kmf_text portion = {0};
    do {
        out->status = next_portion(reader, &portion, want, whole, &out->err);
        add_letters(out, portion.bytes + 4, portion.len - 4);
        /* Less than was wanted: only the end follows, or a failure. */
        if (out->status == 1 && portion.len < 4 + want) {
            out->status = next_portion(reader, &portion, 1, whole, &out->err);
            quick_assert(out->status <= 0);
        }
    } while (out->status == 1);
    kmf_err again = {0};
    portion.len = 0;
    quick_assert(kmf_reader_fill(reader, &portion, 1, &again) == out->status);
    quick_assert(portion.len == 0);
    quick_assert_msg(strcmp(again.msg, out->err.msg) == 0, "'%s', not '%s'", again.msg,
                     out->err.msg);
    kmf_free(portion.bytes);
}

/* want = 0: by record. */
static inline outcome letters_of(const source *from, size_t want)
{
    outcome out = {0};
    kmf_pool *pool = from->threads > 0 ? kmf_pool_new(from->threads, &out.err) : NULL;
    kmf_reader *reader = open_source(from, pool, &out.err);
    add_letters(&out, "", 0);
    out.status = out.err.code;
    if (reader && want == 0)
        letters_by_record(reader, &out);
    else if (reader)
        letters_as_text(reader, want, from->fastq, &out);
    if (reader)
        kmf_reader_statistics(reader, &out.stats);
    kmf_reader_close(reader);
    kmf_pool_free(pool);
    return out;
}

/* After a failure a text may end with what was sound of the faulty record. */
static inline void expect_same_outcome(const outcome *filled, const outcome *records)
{
    const kmf_reader_stats *a = &filled->stats;
    const kmf_reader_stats *b = &records->stats;
    quick_assert_msg(filled->status == records->status && filled->err.code == records->err.code,
                     "status %d and code %d, not %d and %d", filled->status, filled->err.code,
                     records->status, records->err.code);
    quick_assert_msg(strcmp(filled->err.msg, records->err.msg) == 0, "'%s', not '%s'",
                     filled->err.msg, records->err.msg);
    if (records->status < 0)
        quick_assert(filled->letters.len >= records->letters.len);
    else
        quick_assert(filled->letters.len == records->letters.len);
    quick_assert(records->letters.len == 0 ||
                 memcmp(filled->letters.bytes, records->letters.bytes, records->letters.len) ==
                     0);
    if (records->status < 0)
        return;
    quick_assert(a->records == b->records && a->bases == b->bases);
    quick_assert(a->secondary == b->secondary && a->supplementary == b->supplementary);
}

static inline void expect_fills_from(const source *from)
{
    static const size_t wants[] = {1 << 20, 4096, 64, 7, 1};
    outcome records = letters_of(from, 0);
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        /* A byte at a time is slow. */
        if (wants[i] < 4096 && records.letters.len > (1 << 18))
            break;
        outcome filled = letters_of(from, wants[i]);
        expect_same_outcome(&filled, &records);
        kmf_free(filled.letters.bytes);
    }
    kmf_free(records.letters.bytes);
}

static inline void expect_fills(const void *bytes, size_t n)
{
    expect_fills_from(&(source){.bytes = bytes, .n = n, .fastq = true});
}

#endif
