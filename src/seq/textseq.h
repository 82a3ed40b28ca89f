/* SPDX-License-Identifier: MIT */
/*
 * FASTA and FASTQ, strictly: nothing is skipped, and a fault is reported with its line.
 *
 *   FASTA   '>' header, then any number of sequence lines, up to the next line with '>'
 *   FASTQ   '@' header, sequence lines, a line with '+' (the rest of it is ignored), quality
 *           lines up to as many values as bases. Sequence on one line: quality on one line
 *
 *   name      the header up to the first blank (space or tab); may be empty, of any length
 *   sequence  letters, '*', '-' and '.'; blanks are left out
 *   quality   bytes 33 to 126
 *   lines     end with LF or CR LF; the last may lack it. Blank lines may be between records,
 *             before the first one and, in FASTA, anywhere. A UTF-8 byte order mark is ignored
 */
#ifndef KMF_TEXTSEQ_H
#define KMF_TEXTSEQ_H

#include "kmerformer.h"
#include "seq/bytes.h"
#include "seq/text.h"

typedef struct kmf_textseq kmf_textseq;

/*
 * Takes over `in`, on failure too; name, which messages begin with, is copied. KMF_EFORMAT if
 * the input is neither FASTA nor FASTQ; an empty one is either, with no records.
 */
kmf_textseq *kmf_textseq_open(kmf_bytes *in, const char *name, kmf_err *err) KMF_MUST_CHECK;
void kmf_textseq_close(kmf_textseq *t);
/* kmf_bytes_taken of the input. */
uint64_t kmf_textseq_taken(kmf_textseq *t, int descriptor);

/* As kmf_reader_next; rec->index is not set. Not to be called again after a failure. */
int kmf_textseq_next(kmf_textseq *t, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;

/*
 * As kmf_reader_fill. Adds records, as they end, and bases to stats. Not to be called again
 * after a failure, nor on an input of which records were taken.
 */
int kmf_textseq_fill(kmf_textseq *t, kmf_text *text, size_t want, kmf_reader_stats *stats,
                     kmf_err *err) KMF_MUST_CHECK;

#endif
