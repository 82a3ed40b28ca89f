/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: vectors, trainings and positions to look at, as numbers and pictures. */
#ifndef KMERFORMER_PLOT_H
#define KMERFORMER_PLOT_H

#include "counts.h"
#include "model.h"
#include "output.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- numbers --------------- */

/*
 * Principal components of rows that come by and by: their mean, and the directions in which they
 * vary most. Memory: dim^2 doubles, for any number of rows.
 */
typedef struct kmf_pca kmf_pca;

#define KMF_PCA_DIM_MAX 8192 /* columns; more are KMF_ENOMEM */
#define KMF_PCA_BLOCK 512    /* rows of one sum */

KMF_API kmf_pca *kmf_pca_new(size_t dim, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_pca_free(kmf_pca *pca);
/*
 * Adds x [n, dim], finite; pool may be NULL. The bits of the result depend on the rows, their
 * order and the calls (calls of whole blocks of KMF_PCA_BLOCK rows are as one call), not on
 * threads.
 */
KMF_API int kmf_pca_add(kmf_pca *pca, const float *x, size_t n, kmf_pool *pool,
                        kmf_err *err) KMF_MUST_CHECK;
/*
 * Ends the adding and computes the first `count` components, 1 .. dim, once (else KMF_EINVAL), also
 * where that fails. KMF_EMODEL: there were fewer than 2 rows, which may be added still, or all
 * were equal.
 */
KMF_API int kmf_pca_finish(kmf_pca *pca, size_t count, kmf_err *err) KMF_MUST_CHECK;
/* After kmf_pca_finish; i: 0 .. count - 1. The variance (n - 1 below) along component i. */
KMF_API double kmf_pca_variance(const kmf_pca *pca, size_t i);
/* That of all dim components. */
KMF_API double kmf_pca_total(const kmf_pca *pca);
/* Component i, [dim], of length 1, its greatest element positive. Borrowed. */
KMF_API const double *kmf_pca_axis(const kmf_pca *pca, size_t i);
/* y [count] = where x [dim] lies along the components, from the mean. */
KMF_API void kmf_pca_project(const kmf_pca *pca, double *y, const float *x);

/*
 * c [n, n] = cosines of the rows of x [n, dim], finite and none of them 0. The bits do not depend
 * on threads; pool may be NULL.
 */
KMF_API int kmf_cosines(float *c, const float *x, size_t n, size_t dim, kmf_pool *pool,
                        kmf_err *err) KMF_MUST_CHECK;

/*
 * How a rotary score falls with the distance m of query and key, for heads of K numbers, even, of
 * which each pair i = 0 .. K/2 - 1 is turned by theta_i = base^(-2i/K) a token (J. Su et al., arXiv
 * 2104.09864). m = 0 .. n - 1:
 *   score[m]  the mean of cos(m theta_i): the score of two vectors of ones, as a share of that
 *             at distance 0
 *   bound[m]  the mean of |S_j|, S_j the sum of exp(i m theta) over the first j pairs, j = 1 ..
 *             K/2: what bounds any score but for a factor of the vectors (section 3.4.3)
 */
KMF_API void kmf_rotary_decay(double *score, double *bound, size_t n, size_t K, double base);

/*
 * table [T, D]: sin(t / 10000^(2i/D)) in column 2i, cos of the same in 2i + 1 (A. Vaswani et al.,
 * arXiv 1706.03762, section 3.5).
 */
KMF_API void kmf_sinusoids(float *table, size_t T, size_t D);

/* ---------------------------------------------------------------- pictures -------------- */

#define KMF_PIXELS_MIN 100 /* of either side of a picture */
#define KMF_PIXELS_MAX 10000

/*
 * A picture is three files: x.svg or x.png by gnuplot, the numbers in x.tsv, which say in their
 * first lines what they are, and the script x.gp, from which `gnuplot x.gp` makes it again. Numbers
 * and script come first and stay if gnuplot fails. No text of the user reaches a shell, and gnuplot
 * sees it in quotes alone.
 */
typedef struct kmf_picture {
    const char *path;         /* ends in .svg or .png                                     */
    int width, height;        /* KMF_PIXELS_MIN .. _MAX, else KMF_EINVAL; 0: what fits    */
    int data_only;            /* 1: numbers and script, no picture                        */
    const char *command_line; /* for the first lines of the numbers; NULL: none           */
} kmf_picture;

/*
 * The name of one of the three: path with ending in place of .svg or .png. Freed by kmf_text_free.
 */
KMF_API char *kmf_picture_name(const char *path, const char *ending,
                               kmf_err *err) KMF_MUST_CHECK;

/*
 * Runs gnuplot (as PATH has it, without the user's settings) on a script of n bytes and saves what
 * it prints at path. begin: gnuplot's commands before the script, NULL: none. KMF_EIO: gnuplot is
 * not there, or failed; the message tells why. Where the program ignores SIGCHLD, a script counts
 * as failed if it does not come to its end, as by exit, or by data without an e behind it.
 */
KMF_API int kmf_gnuplot(const char *path, const char *begin, const char *script, size_t n,
                        kmf_err *err) KMF_MUST_CHECK;

/*
 * The spectrum of a table, both axes logarithmic; info: the table's. KMF_EMODEL: there are no
 * k-mers in it.
 */
KMF_API int kmf_plot_spectrum(const kmf_picture *picture, const kmf_spectrum *spectrum,
                              const kmf_counts_info *info, kmf_err *err) KMF_MUST_CHECK;

/* Vectors of a file, in pictures that show each of them. */
typedef struct kmf_plot_rows {
    const char *vectors; /* x.npy of an embedding; x.ids.tsv beside it has the names      */
    const char *labels;  /* as in kmf_labelled_options; NULL: none                        */
    size_t most;         /* rows that are drawn, 2 or more (else KMF_EINVAL); of more, so
                            many evenly chosen                                            */
    int threads;         /* 1 .. 1024; 0: kmf_threads_default(). No result depends on it  */
    kmf_progress_fn *fn; /* told how many rows were read so far; NULL: none               */
    void *user;
} kmf_plot_rows;

/* What became of them, as far as it went, also after a failure. */
typedef struct kmf_plot_report {
    uint64_t rows;       /* in the file                                                   */
    size_t dim;          /* columns                                                       */
    uint64_t left_out;   /* not finite, or of length 0 where a direction is asked for     */
    size_t drawn;        /* of the others                                                 */
    size_t unlabelled;   /* of those drawn; 0 without labels                              */
    size_t n_labels;     /* of those drawn                                                */
    size_t n_legend;     /* labels that the legend has room for                           */
    double explained[2]; /* map: share of the variance along its two axes                 */
} kmf_plot_report;

typedef enum kmf_plot_colour { KMF_PLOT_LABEL, KMF_PLOT_LENGTH } kmf_plot_colour;
KMF_API extern const char *const kmf_plot_colour_names[]; /* label length */

/*
 * A map of vectors: two principal components of all rows, two different numbers from 1, coloured as
 * one of the names says, else KMF_EINVAL. KMF_EMODEL: not such a file, or nothing to draw;
 * KMF_EFORMAT: the labels.
 */
KMF_API int kmf_plot_map(const kmf_picture *picture, const kmf_plot_rows *rows,
                         const int components[2], int l2, kmf_plot_colour colour,
                         kmf_plot_report *report, kmf_err *err) KMF_MUST_CHECK;

/* The cosines of the rows as a heat map, in the order of the labels. */
KMF_API int kmf_plot_similarity(const kmf_picture *picture, const kmf_plot_rows *rows,
                                kmf_plot_report *report, kmf_err *err) KMF_MUST_CHECK;

/* What a training is plotted against. */
typedef enum kmf_plot_x { KMF_PLOT_STEP, KMF_PLOT_TOKENS, KMF_PLOT_TIME } kmf_plot_x;
KMF_API extern const char *const kmf_plot_x_names[]; /* step tokens time */

/*
 * Curves of trainings: dirs[n] are directories of pretrain, or their metrics.tsv. columns: names
 * of the header, separated by commas, at most 8 (else KMF_EINVAL); NULL: the first of bits,
 * contrast and loss that every run has values of, and that of its validation, val_bits,
 * val_contrast or val_loss. With bits the best Markov model is a dashed line. KMF_EMODEL: a column
 * is missing, or there are no numbers in it.
 */
KMF_API int kmf_plot_loss(const kmf_picture *picture, const char *const *dirs, size_t n,
                          kmf_plot_x x, const char *columns, kmf_err *err) KMF_MUST_CHECK;

#define KMF_POSITIONS_MAX 65536 /* of K, tokens and width */

/*
 * Two panels: kmf_rotary_decay over the distances 0 .. tokens, and kmf_sinusoids [tokens, width].
 * K even, 2 or more; base above 1; tokens 2 or more; width even, 4 or more; none of the three above
 * KMF_POSITIONS_MAX: else KMF_EINVAL.
 */
KMF_API int kmf_plot_positions(const kmf_picture *picture, size_t K, double base, size_t tokens,
                               size_t width, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
