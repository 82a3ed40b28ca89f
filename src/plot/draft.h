/* SPDX-License-Identifier: MIT */
/*
 * The three files of a picture in the making, and the parts of gnuplot's language that all
 * scripts share: begin, quotes, colours. What is particular to a plot stands with the plot.
 */
#ifndef KMF_DRAFT_H
#define KMF_DRAFT_H

#include "kmerformer.h"

#include <locale.h>
#include <stdio.h>

typedef struct kmf_draft {
    const kmf_picture *picture; /* borrowed */
    char *names[2];             /* owned: of the numbers and of the script */
    FILE *data, *script;        /* owned: what is printed here is kept in memory */
    char *text[2];              /* owned: theirs */
    size_t len[2];
    locale_t before; /* of the thread, which prints with a decimal point meanwhile */
} kmf_draft;

/*
 * Begins both with lines that say what they are. kind: "map"; width, height: pixels, unless the
 * picture says so itself. In the script `data` is then the name of the numbers, `width` and
 * `height` the picture's, `letter` the width of one, in pixels.
 * KMF_EINVAL: the ending of the name; KMF_EIO: a file would be overwritten that is none of ours.
 */
int kmf_draft_begin(kmf_draft *draft, const kmf_picture *picture, const char *kind, int width,
                    int height, kmf_err *err) KMF_MUST_CHECK;
/* Saves both, and has gnuplot make the picture. */
int kmf_draft_finish(kmf_draft *draft, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_draft_free(kmf_draft *draft);

/*
 * Text as a string of gnuplot's that is that text and does nothing. What is not printable UTF-8
 * becomes '?', a text longer than `most` characters ends in "...".
 */
#define KMF_DRAFT_TEXT_MOST 40
void kmf_draft_quote(FILE *to, const char *text, size_t most);
/* The same for the label of a tic, which gnuplot takes for a format. */
void kmf_draft_quote_tic(FILE *to, const char *text, size_t most);
/* How many characters of a text are shown. */
size_t kmf_draft_letters(const char *text, size_t most);
/* A line of the numbers that is a comment: # key: text, control characters as '?'. */
void kmf_draft_remark(FILE *to, const char *key, const char *text);

/* Defines in the script colour(i) and shape(i), i = 0, 1, ..; below 0: grey circles. */
void kmf_draft_colours(FILE *to);
/*
 * Numbers up to `most` are shown in ones, thousands, millions or 10^9 so that at most five digits
 * stand before the point: 0 .. 3, and what one of these is.
 */
int kmf_draft_thousands(double most, double *unit);
/* A palette from dark to light, even to the eye and to those who cannot tell red from green. */
void kmf_draft_palette(FILE *to);

#endif
