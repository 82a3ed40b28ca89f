/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a file of k-mer vectors, safetensors, text or binary; behind a line "#counts" in
 * them the file of counts. What is accepted is in order: every word is found in its row, values are
 * finite, counts agree, the nearest word can be asked for, and vectors that are written in any
 * format are read back the same.
 *
 * Text does not say what alphabet its words are of, nor that a part of the canonical k-mers is
 * canonical, so these two may differ when text is read back. Binary whose floats are nothing but
 * printable bytes is taken for text.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "model/vectorfile.h"
#include "words/alphabet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_BYTES ((size_t)1 << 20)
#define MARK "\n#counts\n"

static void check_words(const kmf_vectors *v)
{
    char word[KMF_K_MAX + 1];
    kmf_vectors_info info;
    size_t unseen = 0;
    kmf_vectors_information(v, &info);
    must(info.n > 0 && info.dim > 0 && info.k_min >= 1 && info.k_min <= info.k_max);
    must(info.k_max <= kmf_alphabet_k_max(info.alphabet));
    for (size_t row = 0; row < info.n; row++) {
        uint64_t code = 0;
        int k = kmf_vectors_word(v, row, word);
        const float *x = kmf_vectors_row(v, row);
        must(k >= info.k_min && k <= info.k_max && strlen(word) == (size_t)k);
        must(kmf_alphabet_encode(info.alphabet, &code, word, k) == 0);
        must(kmf_vectors_find(v, code, k) == (int64_t)row);
        if (info.canonical)
            must(kmf_vectors_find(v, kmf_kmer_revcomp(code, k), k) == (int64_t)row);
        for (size_t i = 0; i < info.dim; i++)
            must(isfinite(x[i]));
        must(info.counted || kmf_vectors_count(v, row) == 0);
        unseen += info.counted && kmf_vectors_count(v, row) == 0;
    }
    must(unseen == info.unseen);
}

static void check_nearest(const kmf_vectors *v)
{
    kmf_neighbour list[3];
    size_t without = 0;
    kmf_err err = {0};
    int64_t n = kmf_vectors_nearest(v, kmf_vectors_row(v, 0), 0, &without, 1, list, 3, &err);
    must(n <= 3 && (n >= 0 || err.code == KMF_EINVAL));
    for (int64_t i = 0; i < n; i++) {
        must(list[i].row > 0 && list[i].row < v->info.n);
        must(list[i].cosine >= -1.000001f && list[i].cosine <= 1.000001f);
        must(i == 0 || list[i - 1].cosine >= list[i].cosine);
    }
}

static void must_equal(const kmf_vectors *a, const kmf_vectors *b, int tensors)
{
    size_t n = a->info.n;
    must(b->info.n == n && b->info.dim == a->info.dim && b->info.foreign == 0);
    must(memcmp(a->values, b->values, n * a->info.dim * sizeof *a->values) == 0);
    must(memcmp(a->k, b->k, n) == 0);
    must(memcmp(a->code, b->code, n * sizeof *a->code) == 0);
    if (!tensors)
        return;
    must(a->info.canonical == b->info.canonical && a->info.alphabet == b->info.alphabet);
    must(a->info.counted == b->info.counted && a->info.unseen == b->info.unseen);
    must(!a->info.counted || memcmp(a->count, b->count, n * sizeof *a->count) == 0);
    must(strcmp(a->provenance, b->provenance) == 0);
}

static int is_printable(const kmf_vectors *v)
{
    const unsigned char *bytes = (const unsigned char *)v->values;
    for (size_t i = 0; i < v->info.n * v->info.dim * sizeof *v->values; i++)
        if ((bytes[i] < ' ' || bytes[i] > '~') && bytes[i] != '\t' && bytes[i] != '\r' &&
            bytes[i] != '\n')
            return 0;
    return 1;
}

/* Through a file without a name, which has no counts beside it. */
static void check_saved(const kmf_vectors *v, kmf_vectors_format format)
{
    char path[32];
    kmf_err err = {0};
    if (format == KMF_VECTORS_BINARY && is_printable(v))
        return;
    FILE *file = tmpfile();
    must(file != NULL);
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    must(kmf_vectors_save(v, path, format, NULL, &err) == 0);
    kmf_vectors *again = kmf_vectors_load(path, &err);
    if (again &&
        (format == KMF_VECTORS_SAFETENSORS || again->info.alphabet == v->info.alphabet))
        must_equal(v, again, format == KMF_VECTORS_SAFETENSORS);
    must(again != NULL || v->info.alphabet == KMF_PROTEIN);
    kmf_vectors_free(again);
    fclose(file);
}

static void try_counts(kmf_vectors *v, const char *text, size_t len)
{
    kmf_err err = {0};
    if (v->info.counted)
        return;
    if (kmf_vectorcounts_read(v, text, len, "counts", &err) < 0)
        must_tell(&err);
    else
        check_words(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_err err = {0};
    if (size > MOST_BYTES)
        return 0;
    size_t mark = find_mark(data, size, MARK);
    size_t len = mark < size ? mark + 1 : size;
    kmf_vectors *v = kmf_vectors_parse(data, len, "fuzz", &err);
    if (!v) {
        must_tell(&err);
        return 0;
    }
    check_words(v);
    check_nearest(v);
    for (int format = KMF_VECTORS_SAFETENSORS; format <= KMF_VECTORS_BINARY; format++)
        check_saved(v, (kmf_vectors_format)format);
    if (mark < size) {
        size_t counts = mark + strlen(MARK);
        try_counts(v, (const char *)data + counts, size - counts);
    }
    kmf_vectors_free(v);
    return 0;
}
