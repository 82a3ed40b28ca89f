/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: the rows of one file that are nearest to the rows of others. */
#ifndef KMERFORMER_ROWNEAREST_H
#define KMERFORMER_ROWNEAREST_H

#include "rowfile.h"
#include "vectors.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * References, one of which is to be found for each query: all pairs of rows are compared, by the
 * cosine of their vectors. A row of NaN, and one of zeros alone, has no direction: it is nobody's
 * neighbour, and has none.
 *
 * The vectors of references are read from the file's mapping, some at a time, whenever they are
 * asked for; their names are held, with 8 bytes more for each, where there are any. A call of
 * kmf_row_search_ask takes some 100 MB besides, or as much as the 16 bytes of each neighbour of one
 * query if that is more, and 3 MB for each thread, more beyond 16384 columns.
 *
 * Used by one thread at a time.
 */
typedef struct kmf_row_search kmf_row_search;

typedef struct kmf_row_search_stats {
    uint64_t queries;            /* that are answered, those of an earlier search too, and */
    uint64_t queries_without;    /* of these, rows without a direction */
    uint64_t references_without; /* known once there was a query */
} kmf_row_search_stats;

/*
 * references: borrowed until the search is freed; no row was read from it (else KMF_EINVAL), nor is
 * meanwhile.
 * n: neighbours of a query, 1 or more (else KMF_EINVAL); of fewer rows all.
 * pool: borrowed; computes, beside the caller's thread; NULL: none. No result depends on it.
 * KMF_EMODEL: rows of tokens, or names that are not those of the rows; KMF_EIO; KMF_ENOMEM.
 */
KMF_API kmf_row_search *kmf_row_search_new(kmf_row_file *references, size_t n, kmf_pool *pool,
                                           kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_row_search_free(kmf_row_search *search);
/* What row 0, 1, .. of the references is called; valid until the next call. */
KMF_API const char *kmf_row_search_name(kmf_row_search *search, uint64_t row);

/*
 * The row number `row` of the queries and its neighbours, the greatest cosine first, equal ones in
 * the order of the references. n is 0 if it has no direction, or if there is no other row that has
 * one. A cosine is off by 2 10^-7 at most, which it may be above 1; equal rows have equal ones. The
 * same bits on every processor.
 * All is valid until it returns: 0, or a negative kmf_code, with which the search fails; *err says
 * why. Any other number ends it, too: KMF_EINVAL.
 */
typedef int kmf_row_search_fn(void *user, uint64_t row, const char *name,
                              const kmf_neighbour *list, size_t n, kmf_err *err);

/*
 * Looks for the neighbours of all rows that are left in `queries`, another kmf_row_file than the
 * references' (else KMF_EINVAL), be it of the same path. itself: 1: it is, and a row is no
 * neighbour of itself; 0.
 * answer: called on the caller's thread for each query, in their order; of many, once some
 * thousands are done.
 * fn: told now and then, on that thread, how many pairs of rows were compared in this call, those
 * of queries that an earlier search has answered counted with them; NULL.
 * Fails as kmf_row_file_check_records, kmf_row_file_check_alike and kmf_row_file_next do, and
 * KMF_EIO: the references were written to since they were opened. After a failure the search may
 * ask again, of other queries.
 */
KMF_API int kmf_row_search_ask(kmf_row_search *search, kmf_row_file *queries, int itself,
                               kmf_row_search_fn *answer, void *answer_user,
                               kmf_progress_fn *fn, void *fn_user, kmf_err *err) KMF_MUST_CHECK;
/* Behind the last file. KMF_EMODEL: an earlier search of these queries had more of them. */
KMF_API int kmf_row_search_finish(const kmf_row_search *search, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_row_search_statistics(const kmf_row_search *search,
                                       kmf_row_search_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
