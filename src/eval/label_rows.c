/* SPDX-License-Identifier: MIT */
/* Labels in the place of vectors, made by whichever thread has the vector. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/point.h"
#include "eval/probe.h"
#include "seq/digest.h"
#include "seq/text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PROBABILITY_TEXT 16 /* bytes of a "\t%.6g" from 0 to 1, with a NUL: 1.23456e-308 */

struct kmf_label_rows {
    const kmf_probe *probe; /* borrowed */
    size_t top;
    bool all;
    kmf_row_format format;
    char *header; /* owned */
    char name[KMF_MD5_TEXT + 64];
};

/* ---------------------------------------------------------------- a row ----------------- */

static size_t put(char *to, const char *text, size_t n)
{
    memcpy(to, text, n);
    return n;
}

static size_t put_probability(char *to, double p)
{
    return (size_t)kmf_print(to, PROBABILITY_TEXT, "\t%.6g", p);
}

/* Does class a come before class b? Of equals the first does. No probability is a NaN. */
static bool comes_before(const double *p, size_t a, size_t b)
{
    return p[a] > p[b] || (a < b && p[a] >= p[b]);
}

/* The first class behind `last`, of which there is one; n_classes: the first of all. */
static size_t next_best(const double *p, size_t n_classes, size_t last)
{
    size_t best = n_classes;
    for (size_t c = 0; c < n_classes; c++) {
        bool left = last == n_classes || comes_before(p, last, c);
        if (left && (best == n_classes || comes_before(p, c, best)))
            best = c;
    }
    return best;
}

static size_t put_missing(const kmf_label_rows *r, char *to)
{
    size_t fields = 2 * r->top + (r->all ? kmf_probe_n_classes(r->probe) : 0);
    char *at = to;
    for (size_t i = 0; i < fields; i++)
        at += put(at, "\tNA", 3);
    *at++ = '\n';
    return (size_t)(at - to);
}

/* As kmf_row_format; scratch: [n_classes] doubles. */
static size_t put_labels(const void *user, void *scratch, char *to, const float *vector,
                         size_t dim)
{
    const kmf_label_rows *r = user;
    double *p = scratch;
    size_t n = kmf_probe_n_classes(r->probe);
    size_t c = n;
    char *at = to;
    assert(dim == kmf_probe_dim(r->probe));
    (void)dim;
    (void)kmf_probe_predict(r->probe, p, vector);
    if (isnan(vector[0]) || isnan(p[0])) /* then all are */
        return put_missing(r, to);
    for (size_t i = 0; i < r->top; i++) {
        c = next_best(p, n, c);
        const char *label = kmf_probe_label(r->probe, c);
        *at++ = '\t';
        at += put(at, label, strlen(label));
        at += put_probability(at, p[c]);
    }
    for (size_t i = 0; r->all && i < n; i++)
        at += put_probability(at, p[i]);
    *at++ = '\n';
    return (size_t)(at - to);
}

/* ---------------------------------------------------------------- all of them ----------- */

/* Bytes that the labels of a row have at most, or NA in their place. */
static size_t labels_room(const kmf_probe *probe, size_t top)
{
    size_t most = 2;
    for (size_t c = 0; c < probe->n_classes; c++)
        most = kmf_max(most, strlen(kmf_probe_label(probe, c)));
    return kmf_min(top * most, probe->text_len + top * 2);
}

static int make_header(kmf_label_rows *r, kmf_err *err)
{
    kmf_text text = {0};
    char column[64];
    int status = kmf_text_append(&text, "#name\tlabel\tprobability", 23, err);
    for (size_t i = 2; i <= r->top && status == 0; i++) {
        int n = snprintf(column, sizeof column, "\tlabel%zu\tprobability%zu", i, i);
        status = kmf_text_append(&text, column, (size_t)n, err);
    }
    for (size_t c = 0; r->all && c < kmf_probe_n_classes(r->probe) && status == 0; c++) {
        const char *label = kmf_probe_label(r->probe, c);
        status = kmf_text_append(&text, "\t", 1, err);
        if (status == 0)
            status = kmf_text_append(&text, label, strlen(label), err);
    }
    if (status == 0)
        status = kmf_text_append(&text, "\n", 2, err); /* and a NUL */
    r->header = text.bytes;
    return status;
}

static kmf_map bytes_of(const void *bytes, size_t n)
{
    return (kmf_map){.bytes = bytes, .len = n};
}

/* All that decides about a row. */
static int make_name(kmf_label_rows *r, kmf_err *err)
{
    const kmf_probe *p = r->probe;
    char md5[KMF_MD5_TEXT];
    const kmf_map parts[] = {
        bytes_of(p->weights, p->n_classes * p->dim * sizeof *p->weights),
        bytes_of(p->biases, p->n_classes * sizeof *p->biases),
        bytes_of(p->text, p->text_len),
    };
    const kmf_map *const all[] = {&parts[0], &parts[1], &parts[2]};
    int status = kmf_md5_files(md5, all, sizeof all / sizeof all[0], true, NULL, err);
    if (status == 0)
        snprintf(r->name, sizeof r->name, "labels by %s, %zu%s", md5, r->top,
                 r->all ? " and all" : "");
    return status;
}

static int check(const kmf_probe *probe, size_t top, kmf_err *err)
{
    if (!probe->text)
        return kmf_fail(err, KMF_EINVAL, "the classes of the probe have no names");
    if (top == 0 || top > probe->n_classes)
        return kmf_fail(err, KMF_EINVAL, "the %zu most probable of %zu labels", top,
                        probe->n_classes);
    return 0;
}

kmf_label_rows *kmf_label_rows_new(const kmf_probe *probe, size_t top, int all, kmf_err *err)
{
    size_t n = kmf_probe_n_classes(probe);
    if (check(probe, top, err) < 0)
        return NULL;
    kmf_label_rows *r = kmf_calloc(1, sizeof *r, err);
    if (!r)
        return NULL;
    *r = (kmf_label_rows){.probe = probe, .top = top, .all = all != 0};
    if (make_header(r, err) < 0 || make_name(r, err) < 0) {
        kmf_label_rows_free(r);
        return NULL;
    }
    r->format =
        (kmf_row_format){.put = put_labels,
                         .user = r,
                         .room = labels_room(probe, top) + top * (1 + PROBABILITY_TEXT) +
                                 (all ? n * PROBABILITY_TEXT : 0) + 2,
                         .scratch_bytes = n * sizeof(double),
                         .header = r->header,
                         .name = r->name};
    return r;
}

void kmf_label_rows_free(kmf_label_rows *rows)
{
    if (!rows)
        return;
    kmf_free(rows->header);
    kmf_free(rows);
}

const kmf_row_format *kmf_label_rows_format(const kmf_label_rows *rows)
{
    return &rows->format;
}
