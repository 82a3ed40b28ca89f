/* SPDX-License-Identifier: MIT */
/*
 * Vectors as text, "\tvalue" for each number and '\n', by the threads that make them, for one
 * thread that takes them row by row in their order.
 */
#ifndef KMF_ROWTEXT_H
#define KMF_ROWTEXT_H

#include "base/fmt.h"
#include "kmerformer.h"

/*
 * Texts of values met before. The frequencies of a read are small counts over one total, so the
 * same few hundred values come again and again; an encoder's hardly do, and pay one comparison.
 */
#define KMF_VALUES_BITS 10

typedef struct kmf_values {
    struct {
        uint32_t bits; /* of the value */
        uint8_t len;   /* 0: empty */
        char text[KMF_FLOAT_TEXT];
    } met[1 << KMF_VALUES_BITS];
} kmf_values;

/* Bytes that the text of a vector may take, or overwrite. */
size_t kmf_vector_text_room(size_t dim);
/* Returns its length; no NUL. */
size_t kmf_vector_text(kmf_values *values, char *text, const float *vector, size_t dim);

typedef struct kmf_rowtext kmf_rowtext;

kmf_rowtext *kmf_rowtext_new(size_t dim, kmf_err *err) KMF_MUST_CHECK;
void kmf_rowtext_free(kmf_rowtext *texts);

/*
 * n vectors, 1 or more, one after the other, of the rows from `row` on. 1: they wait as text, in
 * the place of any that waited for one of these rows before; 0: there is no room, nothing is
 * changed. From any thread, several at a time.
 */
int kmf_rowtext_put(kmf_rowtext *texts, uint64_t row, const float *vectors, size_t n);
/* The text of a row that waits, [*len], until the next call. Rows before it wait no more. */
const char *kmf_rowtext_take(kmf_rowtext *texts, uint64_t row, size_t *len);

#endif
