/* SPDX-License-Identifier: MIT */
/*
 * A file of labels: what somebody found out about records, by their names.
 *
 *     line      name<TAB>label, and further columns, which are passed over; LF or CR LF
 *     comment   begins with '#', anywhere; blank lines are passed over too
 *     header    the first line that is neither, if it is name<TAB>label, word for word
 *
 * A line with an empty label gives none. A name may stand there again with the same label, as those
 * of paired reads do, not with another one. Plain, gzip or BGZF; "-" is standard input.
 */
#ifndef KMF_LABELS_H
#define KMF_LABELS_H

#include "kmerformer.h"

typedef struct kmf_labels kmf_labels;

/* KMF_EIO; KMF_EFORMAT: a line that is none of these, or another label for a name. */
kmf_labels *kmf_labels_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
void kmf_labels_free(kmf_labels *labels);
/* Of this name, never empty; NULL: there is none. Borrowed from labels. */
const char *kmf_labels_find(const kmf_labels *labels, const char *name);

#endif
