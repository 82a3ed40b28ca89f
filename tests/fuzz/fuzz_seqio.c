/* SPDX-License-Identifier: MIT */
/*
 * The reader on any bytes: it never crashes, two readings end alike record by record, read as a
 * text in small portions it gives the same sequences and the same failure, and what was
 * accepted as FASTA reads the same again after it was written out as FASTA.
 *
 * CRAM is left out: its decoder is htslib's, and nothing of ours touches the bytes before it.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "seq/seqio.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 20)

static void add(kmf_text *t, const char *bytes, size_t n)
{
    if (kmf_text_reserve(t, n, NULL) < 0)
        abort();
    if (n > 0)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

/*
 * Writes all records as FASTA and, unless letters is NULL, their letters as one text. Returns
 * the reader's last word.
 */
static int read_all(kmf_text *fasta, kmf_text *letters, kmf_err *err, const void *data,
                    size_t size)
{
    kmf_record rec;
    kmf_reader *reader = kmf_reader_open_memory(data, size, NULL, err);
    int status = reader ? 1 : err->code;
    while (status > 0) {
        status = kmf_reader_next(reader, &rec, err);
        if (status <= 0)
            break;
        if (strlen(rec.seq) != rec.len)
            abort();
        add(fasta, ">", 1);
        add(fasta, rec.name, strlen(rec.name));
        add(fasta, "\n", 1);
        add(fasta, rec.seq, rec.len);
        add(fasta, "\n", 1);
        if (letters) {
            add(letters, rec.seq, rec.len);
            add(letters, "\n", 1);
        }
    }
    if ((status < 0) != (err->code != KMF_OK) || strchr(err->msg, '\n'))
        abort();
    kmf_reader_close(reader);
    return status;
}

/* The same by kmf_reader_fill, `want` bytes at a time. */
static int fill_all(kmf_text *letters, kmf_err *err, size_t want, const void *data, size_t size)
{
    kmf_text portion = {0};
    kmf_reader *reader = kmf_reader_open_memory(data, size, NULL, err);
    int status = reader ? 1 : err->code;
    while (status > 0) {
        portion.len = 0;
        status = kmf_reader_fill(reader, &portion, want, err);
        if ((portion.len > 0) < (status > 0))
            abort();
        add(letters, portion.bytes, portion.len);
    }
    kmf_free(portion.bytes);
    kmf_reader_close(reader);
    return status;
}

/* After a failure a text may end with what was sound of the faulty record. */
static void must_fill(const kmf_text *letters, int status, const kmf_err *err, const void *data,
                      size_t size)
{
    kmf_text filled = {0};
    kmf_err failure = {0};
    if (fill_all(&filled, &failure, 1 + size % 101, data, size) != status ||
        strcmp(failure.msg, err->msg) != 0)
        abort();
    if (status < 0 ? filled.len < letters->len : filled.len != letters->len)
        abort();
    if (letters->len > 0 && memcmp(filled.bytes, letters->bytes, letters->len) != 0)
        abort();
    kmf_free(filled.bytes);
}

static void must_equal(const kmf_text *a, const kmf_text *b)
{
    if (a->len != b->len || (a->len > 0 && memcmp(a->bytes, b->bytes, a->len) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_text first = {0};
    kmf_text second = {0};
    kmf_text third = {0};
    kmf_text letters = {0};
    kmf_err err_first = {0};
    kmf_err err_second = {0};
    kmf_err err_third = {0};
    if (size > MOST_BYTES || (size >= 4 && memcmp(data, "CRAM", 4) == 0))
        return 0;
    int status = read_all(&first, &letters, &err_first, data, size);
    if (read_all(&second, NULL, &err_second, data, size) != status ||
        strcmp(err_first.msg, err_second.msg) != 0)
        abort();
    must_equal(&first, &second);
    must_fill(&letters, status, &err_first, data, size);
    if (status == 0 && size > 0 && data[0] == '>') {
        if (read_all(&third, NULL, &err_third, first.bytes, first.len) != 0)
            abort();
        must_equal(&first, &third);
    }
    kmf_free(first.bytes);
    kmf_free(second.bytes);
    kmf_free(third.bytes);
    kmf_free(letters.bytes);
    return 0;
}
