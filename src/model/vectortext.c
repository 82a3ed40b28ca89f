/* SPDX-License-Identifier: MIT */
/*
 * Vectors as word2vec writes them, and those who came after it.
 *
 *   text      4096 100                          words, numbers of a vector
 *             ACGTAC 0.0123 -0.5 ...            word and numbers, between them blanks
 *             ...
 *   binary    4096 100\n                        the same line
 *             ACGTAC <400 bytes>\n              word, one space, little-endian float32
 *             ...                               gensim leaves the last newline of each word out
 *
 * What writers differ in, and all pass here: blanks or none at the end of a line (fastText,
 * word2vec.c), tabs, CRLF, no newline at the end of the file; a word "</s>" for the end of a
 * sentence; words of several lengths (dna2vec).
 *
 * Nothing in the file says which of the two it is, and a float may look like text. So the first
 * vector decides what the file is taken for first: if its bytes up to a newline can all be printed,
 * it is text. The reader then asks for exactly as many words and numbers as the first line says,
 * and for nothing behind them. A file that does not stand up to that is tried as the other form,
 * and is taken for it only if it fits as a whole; but one that is nothing but text is never taken
 * for binary. The message of a failure is that of the first trial.
 *
 * Room is made only for what the file can hold: a word of dim numbers takes 2 dim + 1 bytes at
 * least.
 */
#include "model/vectorfile.h"

#include "base/err.h"
#include "base/fmt.h"
#include "base/half.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/number.h"

#include <inttypes.h>
#include <string.h>

#define WORD_MAX_BYTES 4096
#define LOOK_BYTES 4096

/* A file under way. */
typedef struct source {
    const char *name; /* borrowed */
    const char *p;    /* the next byte */
    const char *end;
    size_t n_words;
    size_t dim;
    size_t line; /* of p, in text; from 1 */
    kmf_maker maker;
} source;

/* ---------------------------------------------------------------- the first line --------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

/* To the end of the word that begins at p. */
static const char *skip_word(const char *p, const char *end)
{
    while (p < end && !is_blank(*p) && *p != '\n')
        p++;
    return p;
}

/* A whole number; NULL if there is none, or one above SIZE_MAX. */
static const char *read_size(const char *p, const char *end, size_t *number)
{
    const char *beg = p;
    size_t value = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        size_t digit = (size_t)(*p - '0');
        if (value > (SIZE_MAX - digit) / 10)
            return NULL;
        value = value * 10 + digit;
    }
    *number = value;
    return p > beg ? p : NULL;
}

static int read_header(source *s, kmf_err *err)
{
    size_t per_word;
    size_t needed;
    const char *p = read_size(s->p, s->end, &s->n_words);
    const char *second = p ? skip_blanks(p, s->end) : NULL;
    p = second && second > p ? read_size(second, s->end, &s->dim) : NULL;
    p = p ? skip_blanks(p, s->end) : NULL;
    if (!p || (p < s->end && *p != '\n'))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: not a file of vectors: it is not safetensors, nor does it begin "
                        "with a line of two numbers, words and their dimension",
                        s->name);
    if (s->n_words == 0 || s->dim == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: its first line says %zu words of %zu numbers",
                        s->name, s->n_words, s->dim);
    s->p = p < s->end ? p + 1 : p;
    s->line = 2;
    size_t rest = (size_t)(s->end - s->p);
    if (!kmf_mul(s->dim, 2, &per_word) || !kmf_add(per_word, 1, &per_word) ||
        !kmf_mul(per_word, s->n_words, &needed) || needed > rest)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: its first line says %zu words of %zu numbers, more than the %zu "
                        "bytes behind it can hold",
                        s->name, s->n_words, s->dim, rest);
    return 0;
}

/* ---------------------------------------------------------------- text ------------------- */

/* A number is missing, or something else stands in its place. */
static int bad_number(const source *s, const char *p, size_t i, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    size_t n = (size_t)(skip_word(p, s->end) - p);
    if (n == 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: line %zu: %zu numbers, where the first line says %zu", s->name,
                        s->line, i, s->dim);
    return kmf_fail(err, KMF_EMODEL, "%s: line %zu: '%s' is not a number", s->name, s->line,
                    kmf_err_show_n(shown, p, n));
}

static int too_many(const source *s, const char *p, kmf_err *err)
{
    size_t n = s->dim;
    for (; p < s->end && *p != '\n'; p = skip_blanks(skip_word(p, s->end), s->end))
        n++;
    return kmf_fail(err, KMF_EMODEL, "%s: line %zu: %zu numbers, where the first line says %zu",
                    s->name, s->line, n, s->dim);
}

static int read_text_word(source *s, kmf_err *err)
{
    const char *word = s->p;
    const char *p = skip_word(word, s->end);
    size_t len = (size_t)(p - word);
    float *x = kmf_maker_room(&s->maker);
    if (len == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: no word at its beginning", s->name,
                        s->line);
    for (size_t i = 0; i < s->dim; i++) {
        p = skip_blanks(p, s->end);
        const char *after = kmf_read_float(p, s->end, &x[i]);
        if (!after)
            return bad_number(s, p, i, err);
        p = after;
    }
    p = skip_blanks(p, s->end);
    if (p < s->end && *p != '\n')
        return too_many(s, p, err);
    kmf_maker_take(&s->maker, word, len);
    s->p = p < s->end ? p + 1 : p;
    s->line++;
    return 0;
}

static int read_text(source *s, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < s->n_words && status == 0; i++) {
        if (s->p == s->end)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: cut off: %zu words, where the first line says %zu", s->name, i,
                            s->n_words);
        status = read_text_word(s, err);
    }
    const char *p = s->p;
    while (p < s->end && (is_blank(*p) || *p == '\n'))
        p++;
    if (status == 0 && p < s->end)
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: more than the first line's %zu words",
                        s->name, s->line, s->n_words);
    return status;
}

/* ---------------------------------------------------------------- binary ----------------- */

static int read_binary_word(source *s, size_t i, kmf_err *err)
{
    size_t rest = (size_t)(s->end - s->p);
    size_t look = kmf_min(rest, WORD_MAX_BYTES);
    const char *space = look > 0 ? memchr(s->p, ' ', look) : NULL;
    if (!space && look == rest)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: cut off: %zu words, where the first line says %zu", s->name, i,
                        s->n_words);
    if (!space)
        return kmf_fail(
            err, KMF_EMODEL,
            "%s: word %zu is longer than %d bytes: the vectors before it may not be "
            "of %zu numbers",
            s->name, i + 1, WORD_MAX_BYTES, s->dim);
    const unsigned char *bytes = (const unsigned char *)space + 1;
    rest = (size_t)(s->end - space) - 1;
    if (rest / 4 < s->dim)
        return kmf_fail(err, KMF_EMODEL, "%s: cut off within the vector of word %zu of %zu",
                        s->name, i + 1, s->n_words);
    float *x = kmf_maker_room(&s->maker);
    for (size_t j = 0; j < s->dim; j++)
        x[j] = kmf_float_of(kmf_le_load32(bytes + 4 * j));
    kmf_maker_take(&s->maker, s->p, (size_t)(space - s->p));
    s->p = (const char *)bytes + 4 * s->dim;
    if (s->p < s->end && *s->p == '\n')
        s->p++;
    return 0;
}

static int read_binary(source *s, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < s->n_words && status == 0; i++)
        status = read_binary_word(s, i, err);
    if (status == 0 && s->p < s->end)
        return kmf_fail(err, KMF_EMODEL, "%s: %zu bytes behind its %zu words of %zu numbers",
                        s->name, (size_t)(s->end - s->p), s->n_words, s->dim);
    return status;
}

/* ---------------------------------------------------------------- either ----------------- */

static bool is_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((p[i] < ' ' || p[i] > '~') && !is_blank(p[i]) && p[i] != '\n')
            return false;
    return true;
}

/* Does the first vector, at s->p, look like text? */
static bool begins_as_text(const source *s)
{
    const char *p = skip_word(s->p, s->end);
    size_t n = kmf_min((size_t)(s->end - p), LOOK_BYTES);
    const char *newline = n > 0 ? memchr(p, '\n', n) : NULL;
    return is_text(p, newline ? (size_t)(newline - p) : n);
}

static kmf_vectors *read_as(const source *from, bool text, kmf_err *err)
{
    kmf_vectors *vectors = NULL;
    source s = *from;
    if (kmf_maker_start(&s.maker, s.n_words, s.dim, -1, false, err) < 0)
        return NULL;
    int status = text ? read_text(&s, err) : read_binary(&s, err);
    if (status == 0)
        vectors = kmf_maker_finish(&s.maker, KMF_CANONICAL_UNKNOWN, s.name, err);
    kmf_maker_free(&s.maker);
    return vectors;
}

kmf_vectors *kmf_vectortext_read(const char *bytes, size_t len, const char *name, kmf_err *err)
{
    source s = {.name = name, .p = bytes, .end = bytes + len};
    kmf_err first = {0};
    kmf_err second = {0};
    if (read_header(&s, err) < 0)
        return NULL;
    bool text = begins_as_text(&s);
    kmf_vectors *vectors = read_as(&s, text, &first);
    if (!vectors && first.code == KMF_EMODEL && !(text && is_text(s.p, (size_t)(s.end - s.p))))
        vectors = read_as(&s, !text, &second);
    if (!vectors && second.code == KMF_ENOMEM)
        kmf_fail(err, second.code, "%s", second.msg);
    if (!vectors)
        kmf_fail(err, first.code, "%s", first.msg);
    return vectors;
}

/* ---------------------------------------------------------------- writing ---------------- */

/* One word with its vector; to has room for it. Returns its end. */
typedef char *put_fn(char *to, const kmf_vectors *v, size_t row);

static char *put_text(char *to, const kmf_vectors *v, size_t row)
{
    const float *x = kmf_vectors_row(v, row);
    to += kmf_vectors_word(v, row, to);
    for (size_t i = 0; i < v->info.dim; i++) {
        *to++ = ' ';
        to += kmf_format_float9(to, x[i]);
    }
    *to++ = '\n';
    return to;
}

static char *put_binary(char *to, const kmf_vectors *v, size_t row)
{
    const float *x = kmf_vectors_row(v, row);
    to += kmf_vectors_word(v, row, to);
    *to++ = ' ';
    for (size_t i = 0; i < v->info.dim; i++, to += 4)
        kmf_le_store32((unsigned char *)to, kmf_bits_of(x[i]));
    *to++ = '\n';
    return to;
}

static int write_rows(const kmf_vectors *v, put_fn *put, kmf_out *out, kmf_err *err)
{
    size_t per_number = KMF_FLOAT_TEXT + 1;
    char *text = kmf_malloc(v->info.dim + KMF_K_MAX, per_number, err);
    if (!text)
        return KMF_ENOMEM;
    int status = kmf_out_print(out, err, "%zu %zu\n", v->info.n, v->info.dim);
    for (size_t row = 0; row < v->info.n && status == 0; row++)
        status = kmf_out_write(out, text, (size_t)(put(text, v, row) - text), err);
    kmf_free(text);
    return status;
}

int kmf_vectortext_write(const kmf_vectors *vectors, kmf_out *out, kmf_err *err)
{
    return write_rows(vectors, put_text, out, err);
}

int kmf_vectorbinary_write(const kmf_vectors *vectors, kmf_out *out, kmf_err *err)
{
    return write_rows(vectors, put_binary, out, err);
}

/* ---------------------------------------------------------------- counts ----------------- */

/* A line does not fit: "name: line 7: 'word' why". */
static int bad_count(const source *s, const char *word, size_t len, const char *why,
                     kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL, "%s: line %zu: '%s' %s", s->name, s->line,
                    kmf_err_show_n(shown, word, len), why);
}

/* Sets v->count and seen of the word's row. */
static int take_count(const source *s, kmf_vectors *v, uint8_t *seen, const char *word,
                      size_t len, uint64_t count, kmf_err *err)
{
    uint64_t code;
    int k_max = kmf_alphabet_k_max(v->info.alphabet);
    if (len > (size_t)k_max ||
        kmf_alphabet_encode(v->info.alphabet, &code, word, (int)len) != 0)
        return 0;
    int64_t row = kmf_vectors_find(v, code, (int)len);
    if (row < 0)
        return bad_count(s, word, len, "has no vector", err);
    if (seen[row])
        return bad_count(s, word, len, "is listed twice", err);
    seen[row] = 1;
    v->count[row] = count;
    return 0;
}

/* A line "word count". */
static int read_count(source *s, kmf_vectors *v, uint8_t *seen, kmf_err *err)
{
    size_t count;
    const char *word = s->p;
    const char *p = skip_word(word, s->end);
    size_t len = (size_t)(p - word);
    const char *number = skip_blanks(p, s->end);
    p = len > 0 && number > p ? read_size(number, s->end, &count) : NULL;
    p = p ? skip_blanks(p, s->end) : NULL;
    if (!p || (p < s->end && *p != '\n'))
        return bad_count(s, word, len, "is not followed by a count alone", err);
    int status = take_count(s, v, seen, word, len, count, err);
    s->p = p < s->end ? p + 1 : p;
    s->line++;
    return status;
}

static int check_seen(const source *s, const kmf_vectors *v, const uint8_t *seen, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    const uint8_t *missing = memchr(seen, 0, v->info.n);
    if (!missing)
        return 0;
    kmf_vectors_word(v, (size_t)(missing - seen), word);
    return kmf_fail(err, KMF_EMODEL, "%s: no count of %s", s->name, word);
}

int kmf_vectorcounts_read(kmf_vectors *vectors, const char *bytes, size_t len, const char *name,
                          kmf_err *err)
{
    const char *text = len > 0 ? bytes : ""; /* an empty file has no address */
    source s = {.name = name, .p = text, .end = text + len, .line = 1};
    kmf_vectors *v = vectors;
    uint8_t *seen = kmf_calloc(v->info.n, sizeof *seen, err);
    v->count = kmf_calloc(v->info.n, sizeof *v->count, err);
    int status = seen && v->count ? 0 : KMF_ENOMEM;
    while (status == 0 && s.p < s.end)
        status = read_count(&s, v, seen, err);
    if (status == 0)
        status = check_seen(&s, v, seen, err);
    kmf_free(seen);
    if (status < 0)
        return status;
    v->info.counted = 1;
    for (size_t row = 0; row < v->info.n; row++)
        v->info.unseen += v->count[row] == 0;
    return 0;
}

int kmf_vectorcounts_write(const kmf_vectors *vectors, kmf_out *out, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    int status = 0;
    for (size_t row = 0; row < vectors->info.n && status == 0; row++) {
        kmf_vectors_word(vectors, row, word);
        status = kmf_out_print(out, err, "%s %" PRIu64 "\n", word, vectors->count[row]);
    }
    return status;
}
