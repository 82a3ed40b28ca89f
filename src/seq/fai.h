/* SPDX-License-Identifier: MIT */
/*
 * The index beside a FASTA file, path.fai: for each contig its name, its length, the place of its
 * first base, bases of a line and bytes of a line; of a bgzip file path.gzi as well, the places of
 * its blocks. Both are htslib's; they are made if they are missing, by htslib, under temporary
 * names, so that whoever looks meanwhile finds a whole index or none.
 *
 * htslib takes what is in an index for true, and of contigs of one name it leaves out all but the
 * first. So an index is refused that has a line that is none of an index, an end that was cut off,
 * or two contigs in one place; or that ends before or behind its FASTA. Where bases are asked for
 * by name it is also refused if it is older than its FASTA, and none is made of one that has a name
 * twice; in an index that is there such a name is that of the first.
 */
#ifndef KMF_FAI_H
#define KMF_FAI_H

#include "kmerformer.h"

#include <htslib/bgzf.h>
#include <htslib/faidx.h>

#include <stdbool.h>

typedef struct kmf_contig {
    const char *name; /* in the text of the index */
    uint64_t len;
    uint64_t beg, end;               /* of its bases in the FASTA, bytes */
    uint64_t line_bases, line_bytes; /* all its lines but the last have so many */
    bool checked;                    /* what its first and its last line end with */
} kmf_contig;

typedef struct kmf_fai {
    faidx_t *index;      /* htslib's, to fetch with */
    kmf_contig *contigs; /* [n], sorted by name */
    size_t n, cap;
    char *text;
    const char *path; /* borrowed; of the FASTA */
    BGZF *file;       /* the same, to look into */
    bool made;        /* it was not there before */
} kmf_fai;

/*
 * path: of a local file, borrowed. by_name: regions are asked for; without it the index is for a
 * CRAM, which has the MD5 of the sequences that it wants. KMF_EIO: it cannot be read, or the index
 * not written; KMF_EFORMAT: it is no FASTA file that can be indexed, or its index is refused.
 */
int kmf_fai_open(kmf_fai *fai, const char *path, bool by_name, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_fai_close(kmf_fai *fai);

/*
 * To be asked before bases [beg, end) of a contig are fetched. htslib counts bases and bytes of a
 * line, not where blanks are. KMF_EFORMAT: a line of theirs has one between bases, so that they
 * would be others; or the index is of another file.
 */
int kmf_fai_check_lines(kmf_fai *fai, size_t contig, uint64_t beg, uint64_t end,
                        kmf_err *err) KMF_MUST_CHECK;

/* The number of the contig, or -1. name need not end after n bytes. */
ptrdiff_t kmf_fai_find(const kmf_fai *fai, const char *name, size_t n);

#endif
