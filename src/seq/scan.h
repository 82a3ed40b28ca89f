/* SPDX-License-Identifier: MIT */
/*
 * The letters and quality values of FASTA and FASTQ, checked as many at a time as a vector
 * holds; and what is simple and lies in one block, taken from there without looking for pieces.
 * What is refused here is not wrong yet: it is left to the careful parser, which may find it
 * sound and otherwise knows the message.
 */
#ifndef KMF_SCAN_H
#define KMF_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies n letters. *sound: all of them may stand in a sequence. */
void kmf_scan_letters(char *restrict out, const char *restrict in, size_t n, bool *sound);
/* *sound: all are quality values, 33 to 126. */
void kmf_scan_quality(const char *in, size_t n, bool *sound);

/* Between two blocks of memory. */
typedef struct kmf_scan {
    const char *in;     /* the unread part of the block, at the start of a line; moves on */
    const char *in_end; /* nothing is read from here on */
    char *out;          /* where the next letter goes; moves on */
    const char *stop;   /* no record or line is begun when out is here */
    const char *room;   /* nothing is written from here on; bytes before may be, in vain */
    size_t width;       /* bytes of a sequence line, a guess for the first; moves on */
    uint64_t n;         /* set: the records, or lines, taken */
} kmf_scan;

/*
 * Takes FASTQ records of four lines: the letters and '\n' after those of each record. Ends
 * before the first record that is not of this kind or not wholly in the block.
 */
void kmf_scan_records(kmf_scan *s);
/* Takes the letters of FASTA sequence lines likewise; a header is no such. */
void kmf_scan_lines(kmf_scan *s);

#endif
