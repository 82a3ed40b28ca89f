/* SPDX-License-Identifier: MIT */
/*
 * Bytes at memory speed.
 *
 * Reading a file that the kernel has in memory costs 0.11 ns a byte, so that parsing may cost
 * no more than that, 24 ns for a read of 100 letters. A search for each of its four line ends
 * would take most of this. Two things make all but one of them needless:
 *
 *     @name ... \n ACGT ... ACGT \n + \n IIII ... IIII \n
 *        memchr    |-- width ---|        |-- width ---|
 *
 * The width, which takes in a CR before the LF, is guessed to be that of the record before, and
 * if there is a line end in this place it can only be the first one, for the check of the
 * letters refuses all before it. The quality is as long as the sequence, or else the record is
 * not sound.
 *
 * Checks have no branch until a record is through: each loop over STEP bytes has one result, 0
 * or 1 per byte, or'ed together, which compilers turn into vector instructions. A line of n
 * bytes is as many steps as fit and one that ends with the line and overlaps the step before. A
 * line shorter than a step is one step, of which only the first n bytes count; the others are
 * read, and in a copy written, in vain, and must therefore lie inside the block and the room.
 *
 * The loops over records and lines are compiled for each processor level as a whole: to choose
 * anew for each line of 80 letters would cost as much as the line.
 */
#include "seq/scan.h"

#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "seq/dna.h"

#define STEP 64 /* bytes checked at once; a multiple of any vector */

static KMF_INLINE unsigned char not_a_quality(char c)
{
    return (unsigned char)((unsigned char)c - 33) > 126 - 33;
}

/* ---------------------------------------------------------------- one step ---------------- */

/* Of the STEP bytes the first n count; each gives 0 if those are sound. */

static KMF_INLINE unsigned char letters_step(char *restrict out, const char *restrict in,
                                             size_t n)
{
    unsigned char bad = 0;
    for (unsigned i = 0; i < STEP; i++) {
        out[i] = in[i];
        bad |= (unsigned char)(kmf_not_a_base(in[i]) & ((unsigned char)i < (unsigned char)n));
    }
    return bad;
}

static KMF_INLINE unsigned char quality_step(const char *in)
{
    unsigned char bad = 0;
    for (unsigned i = 0; i < STEP; i++)
        bad |= not_a_quality(in[i]);
    return bad;
}

/* Letters and their quality in one go: half the results to be or'ed. */
static KMF_INLINE unsigned char read_step(char *restrict out, const char *restrict in,
                                          const char *restrict quality, size_t n)
{
    unsigned char bad = 0;
    for (unsigned i = 0; i < STEP; i++) {
        out[i] = in[i];
        bad |= (unsigned char)((kmf_not_a_base(in[i]) | not_a_quality(quality[i])) &
                               ((unsigned char)i < (unsigned char)n));
    }
    return bad;
}

static KMF_INLINE unsigned char header_step(const char *in, size_t n)
{
    unsigned char bad = 0;
    for (unsigned i = 0; i < STEP; i++)
        bad |= (unsigned char)(((in[i] == '\0') | (in[i] == '\r')) &
                               ((unsigned char)i < (unsigned char)n));
    return bad;
}

/* ---------------------------------------------------------------- one line ---------------- */

/* true: sound. A line of less than STEP bytes touches STEP all the same. */

static KMF_INLINE bool take_letters(char *restrict out, const char *restrict in, size_t n)
{
    if (n < STEP)
        return !letters_step(out, in, n);
    unsigned char bad = letters_step(out + n - STEP, in + n - STEP, STEP);
    for (size_t i = 0; i + STEP < n; i += STEP)
        bad |= letters_step(out + i, in + i, STEP);
    return !bad;
}

static KMF_INLINE bool take_read(char *restrict out, const char *restrict in,
                                 const char *restrict quality, size_t n)
{
    if (n < STEP)
        return !read_step(out, in, quality, n);
    size_t last = n - STEP;
    unsigned char bad = read_step(out + last, in + last, quality + last, STEP);
    for (size_t i = 0; i < last; i += STEP)
        bad |= read_step(out + i, in + i, quality + i, STEP);
    return !bad;
}

/* Up to STEP bytes behind the header are read. */
static KMF_INLINE bool check_header(const char *in, size_t n)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < n; i += STEP)
        bad |= header_step(in + i, kmf_min(n - i, STEP));
    return !bad;
}

static KMF_INLINE void kmf_scan_letters_body(char *restrict out, const char *restrict in,
                                             size_t n, bool *sound)
{
    unsigned char bad = 0;
    if (n >= STEP) {
        *sound = take_letters(out, in, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        out[i] = in[i];
        bad |= kmf_not_a_base(in[i]);
    }
    *sound = !bad;
}

static KMF_INLINE void kmf_scan_quality_body(const char *in, size_t n, bool *sound)
{
    unsigned char bad = 0;
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        bad |= quality_step(in + i);
    for (; i < n; i++)
        bad |= not_a_quality(in[i]);
    *sound = !bad;
}

/* ---------------------------------------------------------------- many -------------------- */

/* Whether n bytes, and STEP more, lie before `end`. */
static KMF_INLINE bool within(const char *from, const char *end, size_t n)
{
    return (size_t)(end - from) >= n + STEP;
}

/* Finds the width of the line at `line`; false if its end is not in the block. */
static KMF_INLINE bool line_width(const char *line, const char *end, size_t *width)
{
    if ((size_t)(end - line) > *width && line[*width] == '\n')
        return true;
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    if (!newline)
        return false;
    *width = (size_t)(newline - line);
    return true;
}

/* Behind the line that begins at `line`; NULL if its end is not in the block. */
static KMF_INLINE const char *next_line(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    return newline ? newline + 1 : NULL;
}

/* What of a line of `width` bytes stands before its line end, which may begin with CR. */
static KMF_INLINE size_t content(const char *line, size_t width)
{
    return width - (width > 0 && line[width - 1] == '\r');
}

static KMF_INLINE void kmf_scan_records_body(kmf_scan *s)
{
    /* Copies: what is written through out cannot change them. */
    const char *in = s->in;
    const char *end = s->in_end;
    char *out = s->out;
    size_t width = s->width;
    uint64_t n = 0;
    while (out < s->stop && in < end && *in == '@') {
        const char *letters = next_line(in, end);
        if (!letters || !line_width(letters, end, &width))
            break;
        size_t len = content(letters, width);
        const char *plus = letters + width + 1;
        if (!within(plus, end, len) || *plus != '+')
            break;
        const char *quality = plus[1] == '\n' ? plus + 2 : next_line(plus, end);
        if (!quality || !within(quality, end, len) || !within(out, s->room, len))
            break;
        const char *newline = quality + len + (quality[len] == '\r');
        if (*newline != '\n' || !check_header(in, content(in, (size_t)(letters - in - 1))) ||
            !take_read(out, letters, quality, len))
            break;
        out += len;
        *out++ = '\n';
        in = newline + 1;
        n++;
    }
    s->in = in;
    s->out = out;
    s->width = width;
    s->n = n;
}

static KMF_INLINE void kmf_scan_lines_body(kmf_scan *s)
{
    const char *in = s->in;
    const char *end = s->in_end;
    char *out = s->out;
    size_t width = s->width;
    uint64_t n = 0;
    while (out < s->stop && in < end && *in != '>' && line_width(in, end, &width)) {
        size_t len = content(in, width);
        if (!within(in, end, len) || !within(out, s->room, len) || !take_letters(out, in, len))
            break;
        out += len;
        in += width + 1;
        n++;
    }
    s->in = in;
    s->out = out;
    s->width = width;
    s->n = n;
}

KMF_CLONES(kmf_scan_letters,
           (char *restrict out, const char *restrict in, size_t n, bool *sound),
           (out, in, n, sound))
KMF_CLONES(kmf_scan_quality, (const char *in, size_t n, bool *sound), (in, n, sound))
KMF_CLONES(kmf_scan_records, (kmf_scan * s), (s))
KMF_CLONES(kmf_scan_lines, (kmf_scan * s), (s))
