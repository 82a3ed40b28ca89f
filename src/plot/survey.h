/* SPDX-License-Identifier: MIT */
/* One look at all rows of a file, in blocks, before some of them are drawn. */
#ifndef KMF_SURVEY_H
#define KMF_SURVEY_H

#include "plot/sample.h"

/* What is to be done with a block of rows that are finite: x [n, dim]. */
typedef int kmf_survey_fn(void *arg, const float *x, size_t n, kmf_pool *pool, kmf_err *err);

/*
 * Reads all of rows, which are open, by threads, hands the finite ones (unit: scaled to length 1,
 * those of length 0 left out) to fn (NULL: nothing) in the order of the file, as they are found in
 * blocks of KMF_PCA_BLOCK, and takes the sample that r asks for. What is counted goes to the
 * report. sample is then to be freed, whatever is returned.
 */
int kmf_survey(const kmf_mapped_rows *rows, kmf_picked *sample, const kmf_plot_rows *r,
               bool unit, kmf_survey_fn *fn, void *arg, kmf_pool *pool, kmf_plot_report *report,
               kmf_err *err) KMF_MUST_CHECK;

#endif
