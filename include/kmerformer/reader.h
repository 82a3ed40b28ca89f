/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: from files to records. */
#ifndef KMERFORMER_READER_H
#define KMERFORMER_READER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * FASTA, FASTQ, SAM, BAM, CRAM and tables; plain, gzip or BGZF; told apart by content. "-" is
 * standard input. One pass, so pipes work.
 *
 * A table is text that begins otherwise than with '>' or '@'. Its first line names the columns, in
 * small letters or, where there is none of that name, with capitals. `sequence` is needed; `name`
 * or, where there is none, `id` is the record's name, else that is its number, from 1; other
 * columns are passed over. Fields are separated by tabs if the first line has one, else by commas,
 * and may stand in quotes as RFC 4180 has it. Lines end with LF or CR LF; blank ones are skipped.
 */
typedef struct kmf_reader kmf_reader;

typedef struct kmf_reader_options {
    const char *reference; /* FASTA that a CRAM was made against; NULL: the local file that
                              the CRAM itself names, if it is there. No other place is
                              searched but REF_PATH and REF_CACHE, and never the network.
                              The .fai is made if it is missing                              */
    const char *regions;   /* "chr:beg-end,chr2,...", 1-based inclusive, on an indexed FASTA
                              (the .fai is made if it is missing, and must not be older than
                              the FASTA); NULL: the whole file                                */
    const char *bed;  /* BED file of regions, the strand column honoured; NULL: none      */
    int bed_names;    /* 1: their records are called by its fourth column                 */
    size_t tile;      /* bases: each record is cut into tiles of so many, a record each, the
                         last one of what is left; 0: none is                              */
    size_t tile_step; /* bases from the beginning of a tile to that of the next one, no more
                         than tile; 0: as many                                             */
    int input_names;  /* 1: records are called "INPUT:NAME", INPUT being the path as given */
} kmf_reader_options;

/*
 * name, comment and seq are borrowed from the reader, valid until its next call, and
 * NUL-terminated. seq is as the file has it: either case, U, IUPAC letters, '-', '.', '*'; of an
 * alignment as htslib keeps it: upper case, and N for what BAM has no code for, U among it.
 * name is the header up to the first blank; of a region "chr:beg-end", with "(-)" when a BED line
 * says so, the sequence then already reverse-complemented, or that line's name; of a tile either
 * with ":beg-end" behind it, its place in the record, 1-based, inclusive; with input_names any has
 * "INPUT:" before it. comment is what follows the name and blanks in the header of a FASTA or FASTQ
 * record, else "". Reads that an alignment turned around are turned back.
 */
typedef struct kmf_record {
    const char *name;
    const char *comment;
    const char *seq;
    size_t len;     /* bases */
    uint64_t index; /* 0-based number of the record in this input */
} kmf_record;

typedef struct kmf_reader_stats {
    uint64_t records;       /* returned so far                                    */
    uint64_t bases;         /* in them                                            */
    uint64_t nameless;      /* by kmf_reader_next: of them, without a name: ""    */
    uint64_t secondary;     /* skipped alignments: secondary                  */
    uint64_t supplementary; /* skipped alignments: supplementary              */
    double share;           /* of the file's bytes, taken so far, about: 0 .. 1; 0: not
                               known, as of a pipe or of regions */
    int indexed;            /* 1: an index was made beside the file, or the reference */
} kmf_reader_stats;

/* All of the file. */
KMF_API void kmf_reader_options_default(kmf_reader_options *opts);

/*
 * Opens path. opts may be NULL. pool (may be NULL: no threads) must outlive the reader.
 * KMF_EIO: cannot be opened; KMF_EFORMAT: none of these, or an index is refused; KMF_EINVAL: a
 * malformed or unknown region, or any of standard input; names without a BED file; a step that is
 * longer than its tiles, or without any; or a tab or a line end in a path that names have.
 */
KMF_API kmf_reader *kmf_reader_open(const char *path, const kmf_reader_options *opts,
                                    kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;

/*
 * 1: *rec holds the next record; 0: the end was reached and the input is sound; negative: a
 * kmf_code, and the message names file, record and, in text files, the line. KMF_EFORMAT: damaged,
 * cut off or malformed; KMF_EIO: reading failed, or the file became shorter meanwhile; KMF_ENOMEM;
 * KMF_EINVAL: another function has taken the records, as kmf_counter_read does.
 */
KMF_API int kmf_reader_next(kmf_reader *reader, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;
/* Asks the system where the file is: not for every short record. */
KMF_API void kmf_reader_statistics(const kmf_reader *reader, kmf_reader_stats *stats);
KMF_API void kmf_reader_close(kmf_reader *reader);

#ifdef __cplusplus
}
#endif

#endif
