/* SPDX-License-Identifier: MIT */
/*
 * The reader on any bytes: it never crashes, two readings end alike record by record, and what
 * was accepted as FASTA reads the same again after it was written out as FASTA.
 *
 * CRAM is left out: its decoder is htslib's, and nothing of ours touches the bytes before it.
 */
#include "base/mem.h"
#include "seq/seqio.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A growing string. */
typedef struct text {
    char *bytes;
    size_t len;
    size_t cap;
} text;

static void add(text *t, const char *bytes, size_t n)
{
    if (kmf_grow(&t->bytes, &t->cap, t->len + n + 1, 1, NULL) < 0)
        abort();
    if (n > 0)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
}

/* Writes all records as FASTA and returns the reader's last word. */
static int read_all(text *fasta, kmf_err *err, const void *data, size_t size)
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
    }
    if ((status < 0) != (err->code != KMF_OK) || strchr(err->msg, '\n'))
        abort();
    kmf_reader_close(reader);
    return status;
}

static void must_equal(const text *a, const text *b)
{
    if (a->len != b->len || (a->len > 0 && memcmp(a->bytes, b->bytes, a->len) != 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    text first = {0};
    text second = {0};
    text third = {0};
    kmf_err err_first = {0};
    kmf_err err_second = {0};
    kmf_err err_third = {0};
    if (size > MOST_BYTES || (size >= 4 && memcmp(data, "CRAM", 4) == 0))
        return 0;
    int status = read_all(&first, &err_first, data, size);
    if (read_all(&second, &err_second, data, size) != status ||
        strcmp(err_first.msg, err_second.msg) != 0)
        abort();
    must_equal(&first, &second);
    if (status == 0 && size > 0 && data[0] == '>') {
        if (read_all(&third, &err_third, first.bytes, first.len) != 0)
            abort();
        must_equal(&first, &third);
    }
    kmf_free(first.bytes);
    kmf_free(second.bytes);
    kmf_free(third.bytes);
    return 0;
}
