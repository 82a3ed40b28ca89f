/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the sequence readers share: packing by zlib and htslib, and reading all of
 * something into one text, to be compared.
 */
#ifndef KMF_TEST_SEQFILES_H
#define KMF_TEST_SEQFILES_H

#include "failing.h"
#include "seq/seqio.h"
#include "shared.h"
#include "texts.h"

#include <inttypes.h>

#include <htslib/bgzf.h>
#include <zlib.h>

/* A record as one line of text: that is how records are compared. */
static inline void add_record(text *t, const char *name, const char *seq)
{
    add(t, "[");
    add(t, name);
    add(t, "|");
    add(t, seq);
    add(t, "]");
}

static inline text gzipped(const char *bytes, size_t n)
{
    z_stream z = {0};
    text t = {0};
    ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    t.cap = deflateBound(&z, n) + 1;
    t.bytes = malloc(t.cap);
    ck_assert_ptr_nonnull(t.bytes);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)t.bytes;
    z.avail_out = (uInt)t.cap;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    t.len = z.total_out;
    deflateEnd(&z);
    return t;
}

/* BGZF with a block for each `most` bytes, or as htslib makes them. */
static inline text bgzipped_by(const char *bytes, size_t n, size_t most)
{
    const char *path = in_dir("bgzipped");
    BGZF *file = bgzf_open(path, "w1");
    ck_assert_ptr_nonnull(file);
    for (size_t here, at = 0; at < n; at += here) {
        here = n - at < most ? n - at : most;
        ck_assert_int_eq(bgzf_write(file, bytes + at, here), (ssize_t)here);
        ck_assert_int_eq(most < n ? bgzf_flush(file) : 0, 0);
    }
    ck_assert_int_eq(bgzf_close(file), 0);
    return read_file(path);
}

static inline text bgzipped(const char *bytes, size_t n)
{
    return bgzipped_by(bytes, n, n);
}

#define BGZF_MARKER 28 /* bytes of the empty block that ends a BGZF file */

/* ---------------------------------------------------------------- reading ----------------- */

static inline kmf_reader_options reader_options(void)
{
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    return opts;
}

/* All records as text, up to the end or a failure. */
static inline int drain(kmf_reader *reader, text *out, kmf_err *err)
{
    kmf_record rec;
    uint64_t index = 0;
    uint64_t bases = 0;
    int status;
    while ((status = kmf_reader_next(reader, &rec, err)) == 1) {
        if (rec.index != index)
            ck_abort_msg("record %" PRIu64 " says that it is %" PRIu64, index, rec.index);
        if (strlen(rec.seq) != rec.len)
            ck_abort_msg("record %" PRIu64 " says %zu of its %zu letters", index, rec.len,
                         strlen(rec.seq));
        index++;
        bases += rec.len;
        add_record(out, rec.name, rec.seq);
    }
    kmf_err again = {0};
    ck_assert_int_eq(kmf_reader_next(reader, &rec, &again), status);
    ck_assert_str_eq(again.msg, err->msg);
    ck_assert_int_eq(status < 0, err->code != KMF_OK);
    ck_assert_ptr_null(strchr(err->msg, '\n'));
    kmf_reader_stats stats;
    kmf_reader_statistics(reader, &stats);
    ck_assert_uint_eq(stats.records, index);
    ck_assert_uint_eq(stats.bases, bases);
    return status;
}

static inline int read_with(kmf_reader *reader, text *out, kmf_err *err)
{
    int status = reader ? drain(reader, out, err) : err->code;
    kmf_reader_close(reader);
    return status;
}

static inline int read_path(const char *path, const kmf_reader_options *opts, int threads,
                            text *out, kmf_err *err)
{
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, err) : NULL;
    int status = read_with(kmf_reader_open(path, opts, pool, err), out, err);
    kmf_pool_free(pool);
    return status;
}

static inline int read_memory(const void *bytes, size_t n, int threads, text *out, kmf_err *err)
{
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, err) : NULL;
    int status = read_with(kmf_reader_open_memory(bytes, n, pool, err), out, err);
    kmf_pool_free(pool);
    return status;
}

static inline void expect(const char *input, size_t n, const char *records)
{
    text out = {0};
    kmf_err err = {0};
    add(&out, "");
    int status = read_memory(input, n, 0, &out, &err);
    ck_assert_msg(status == 0, "%s: %s", input, err.msg);
    ck_assert_str_eq(out.bytes, records);
    free(out.bytes);
}

static inline void expect_failure(const char *input, size_t n, const char *records,
                                  const char *message)
{
    text out = {0};
    kmf_err err = {0};
    add(&out, "");
    ck_assert_int_eq(read_memory(input, n, 0, &out, &err), KMF_EFORMAT);
    ck_assert_str_eq(err.msg, message);
    ck_assert_str_eq(out.bytes, records);
    free(out.bytes);
}

/* For literals, which may hold NUL bytes. */
#define READS(input, records) expect(input, sizeof(input) - 1, records)
#define FAILS(input, records, message) \
    expect_failure(input, sizeof(input) - 1, records, message)

static inline void expect_path_failure(const char *path, const kmf_reader_options *opts,
                                       int threads, const char *message)
{
    text out = {0};
    kmf_err err = {0};
    char expected[512];
    ck_assert_int_lt(read_path(path, opts, threads, &out, &err), 0);
    snprintf(expected, sizeof expected, "%s: %s", path, message);
    ck_assert_str_eq(err.msg, expected);
    free(out.bytes);
}

/* ---------------------------------------------------------------- memory ------------------ */

/* Lets the n-th allocation fail, for every n that there is. */
static inline void fail_everywhere(const char *path, const kmf_reader_options *opts,
                                   int threads)
{
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        text out = {0};
        kmf_pool *pool = threads ? kmf_pool_new(threads, NULL) : NULL;
        kmf_mem_fail_at(n);
        int status = read_with(kmf_reader_open(path, opts, pool, &err), &out, &err);
        reached = failed_at(n);
        kmf_pool_free(pool);
        free(out.bytes);
        ck_assert_msg((status < 0) == reached && status <= 0, "%s", err.msg);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
    }
}

#endif
