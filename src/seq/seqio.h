/* SPDX-License-Identifier: MIT */
/* What the reader offers beyond the public header. */
#ifndef KMF_SEQIO_H
#define KMF_SEQIO_H

#include "kmerformer.h"
#include "seq/table.h"
#include "seq/text.h"

/*
 * Appends to `text`, which keeps what it holds, the sequences to come as one text: the letters
 * as they are in the file, '\n' after the last of each record (an empty one is just '\n'),
 * until text->len >= want, which is more than it holds, or the input ends. A sequence may be
 * cut anywhere; the next call goes on with it. At most 64 KB more than wanted are appended, but
 * a FASTQ record is always appended whole.
 *
 * 1: something was appended; 0: the end, and the input is sound; negative: a kmf_code, as
 * kmf_reader_next (once failed, always failed), and what was appended may be incomplete.
 * Statistics count a record when it begins or when it ends.
 *
 * A reader is asked for texts or for records, never for both.
 */
int kmf_reader_fill(kmf_reader *reader, kmf_text *text, size_t want,
                    kmf_err *err) KMF_MUST_CHECK;

/* 0: nothing has been asked of the reader; else KMF_EINVAL. */
int kmf_reader_unread(const kmf_reader *reader, kmf_err *err) KMF_MUST_CHECK;

/*
 * The descriptor of a file of text, plain or compressed, of which nothing has been asked for and no
 * record is to be cut, to be read by place (pread), which leaves the reader where it is; -1: there
 * is none. Borrowed from it.
 */
int kmf_reader_file(const kmf_reader *reader);

/*
 * What the reader calls a record of that name, "INPUT:NAME" if it was told to. Valid until its next
 * call; NULL: KMF_ENOMEM.
 */
const char *kmf_reader_call(kmf_reader *reader, const char *name, kmf_err *err) KMF_MUST_CHECK;

/*
 * The table that is read, at the row of the last record, which a tile may be of; NULL: the input is
 * none. Borrowed from the reader.
 */
const kmf_table *kmf_reader_table(const kmf_reader *reader);

/*
 * For tests and fuzzers: a reader of `len` bytes, which are copied: the content of a file of
 * any format that kmf_reader_open reads. It is called "memory" in messages. pool may be NULL.
 */
kmf_reader *kmf_reader_open_memory(const void *bytes, size_t len, kmf_pool *pool,
                                   kmf_err *err) KMF_MUST_CHECK;

#endif
