/* SPDX-License-Identifier: MIT */
/*
 * A FASTA file in ranges of bytes, which several threads parse at a time, each those that it is
 * given. A plain file is read by them, too, in any order; gzip and BGZF by one thread in portions
 * (seq/portions.h), where it is only known when the file is read where it ends.
 *
 *   file    >contig1 x\nACGTAC\nACG | TAC\nACGTAC\n>contig2\nAC | GTAC\nACGTAC\n
 *   place   0                         1                           2
 *
 * Place i is where portion i begins, or as many steps behind the beginning of a plain file. Range i
 * begins behind the first line end, or at the end of the file, within KMF_RANGE_SEEK bytes from
 * place i on, and range i - 1 ends there: both see these bytes. If there is no line end, range i
 * begins at its place, in a line that is taken to be of letters. Were it a header, range i - 1,
 * which it begins in, would be refused; or range i, if the header begins at the place. So a range
 * is right if those before it are. Of a file that is overwritten meanwhile the two may see other
 * bytes, which cannot be told.
 *
 * Windows that begin in a range may end behind it, so the first letters of the record that come
 * next are handed out with it, too.
 *
 * Only what is sound is read: letters of sequence lines, blank lines without blanks, headers. All
 * else, sound or not, makes the file one for kmf_reader_next, which knows what to say.
 */
#ifndef KMF_RANGES_H
#define KMF_RANGES_H

#include "kmerformer.h"
#include "seq/portions.h"
#include "seq/textseq.h"

#include <stdbool.h>

#define KMF_RANGE_STEP ((size_t)768 << 10) /* bytes between the places of ranges, at most */
#define KMF_RANGE_SEEK ((size_t)2048)      /* bytes in which a line end is looked for */
#define KMF_RANGE_MOST (KMF_RANGE_STEP + KMF_RANGE_SEEK) /* letters of a range */

typedef struct kmf_ranges {
    int file;               /* borrowed; never moved by what is done here */
    kmf_portions *portions; /* owned; of gzip, else NULL */
    bool inflated_ahead;    /* of gzip that is no BGZF: by whoever reads the portions */
    uint64_t size;          /* of the file */
    size_t step;            /* bytes of a range; the last may have fewer, and any of gzip */
    size_t border;          /* letters behind it that are handed out with it, if there are */
    size_t most;            /* parts of a range */
    uint64_t n;             /* ranges of a plain file */
} kmf_ranges;

/* The letters of one record in a range. */
typedef struct kmf_part {
    bool begins; /* here, with its header; else the record is the one before, which goes on */
    bool whole;  /* only if it begins here and no letters follow in the next range */
    size_t name; /* begins: where in the names it is, up to a NUL */
    size_t beg, n;
    size_t more; /* letters of the next range that follow them */
} kmf_part;

/*
 * What is in a range. All zeros is one to begin with. The first part is what goes on from the range
 * before, of no letters if nothing does; all others begin here.
 */
typedef struct kmf_range {
    bool last;       /* the file ends with it */
    kmf_part *parts; /* owned [n_parts], 1 or more, in the order of the file */
    size_t n_parts, cap_parts;
    size_t n_begun; /* parts that begin here */
    kmf_text names; /* owned */
} kmf_range;

/* Bytes of the file in a range of so many parts, at most; 0: it would have too few. */
size_t kmf_range_step(size_t most);
/* Bytes of memory that it takes at most. */
size_t kmf_range_bytes(size_t most);

/* Room for a range, of whoever parses it. */
typedef struct kmf_range_room {
    char *bytes;   /* owned */
    char *letters; /* owned: of the range that was read last, and those behind it */
} kmf_range_room;

/*
 * file: open for reading. true: it is a regular file with a FASTA of contigs, going by some places
 * in it. Ranges are smaller where there is room for few parts, and where a file would have less
 * than `enough` of them; one of more than `most` parts is not read. false: it is no FASTA, is
 * small, has short records, there is room for too few parts, or it cannot be read.
 */
bool kmf_ranges_open(kmf_ranges *ranges, int file, size_t border, size_t enough, size_t most);
/*
 * The same of gzip, going by its beginning; it is closed by kmf_ranges_close. path: of the same
 * file, which is opened once more. Ranges are smaller in a small file. They end before they have
 * more than `full` parts, 3 to most; those of BGZF go by the ones before, and may have more; unless
 * `blocks`, it is refused.
 */
bool kmf_ranges_open_gzip(kmf_ranges *ranges, const char *path, int file, size_t border,
                          size_t enough, size_t full, size_t most, bool blocks);
void kmf_ranges_close(kmf_ranges *ranges);

int kmf_range_room_init(kmf_range_room *room, size_t border, kmf_err *err) KMF_MUST_CHECK;
/* Bytes of it. */
size_t kmf_range_room_bytes(size_t border);
/* A room that was only made in part is freed, too. */
void kmf_range_room_free(kmf_range_room *room);

/*
 * Range i, from 0 on; of gzip and BGZF what is read of it. false: there is none, or it cannot be
 * read, and no other follows. By one thread at a time.
 */
bool kmf_ranges_next(const kmf_ranges *ranges, uint64_t i, kmf_portion *portion);
/*
 * Parses range i, which of gzip and BGZF is `portion`, else unused. false: there is something in it
 * that is not read here, or no memory, and it tells nothing. From any thread, with a portion, a
 * room and a range of its own.
 */
bool kmf_range_read(kmf_range *range, const kmf_ranges *ranges, uint64_t i,
                    kmf_portion *portion, kmf_range_room *room);
void kmf_range_free(kmf_range *range);

#endif
