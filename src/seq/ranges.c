/* SPDX-License-Identifier: MIT */
#include "seq/ranges.h"

#include "base/io.h"
#include "base/mem.h"
#include "seq/blocks.h"
#include "seq/scan.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#define RANGE_LEAST ((size_t)48 << 10) /* bytes; of less it does not pay */
#define GZIP_LEAST ((size_t)256 << 10) /* of gzip, which one thread inflates */
#define N_LEAST 4                      /* of a file that ranges are for */
#define PART_LEAST 1024 /* bytes of a record, on average; shorter ones are faster one by one */
#define PART_USUAL 512  /* bytes that a range has for each part that there is room for */
#define BEHIND KMF_PORTION_BEHIND /* bytes, for a line end and some letters */
#define SLACK ((size_t)64)        /* bytes that vector code may touch in vain */
#define SAMPLE ((size_t)16 << 10) /* bytes that are looked at to see how long records are, */
#define SAMPLE_EVERY ((uint64_t)512 << 10) /* of so many, */
#define SAMPLES_MOST 32                    /* in so many places at most */
#define NAME_USUAL 64    /* bytes of names for each part that there is room for, */
#define NAMES_LEAST 4096 /* beside these */

/* A walk along the bytes of a range. */
typedef struct parse {
    const kmf_ranges *ranges;
    const char *p;
    const char *own_end; /* of the range */
    const char *end;     /* of what was read */
    bool file_ends;      /* there */
    bool line_begins;    /* at p */
    char *out;           /* where the next letter goes */
    const char *room;    /* nothing goes there */
    size_t width;        /* of a line, a guess */
} parse;

/* ---------------------------------------------------------------- the file -------------- */

/* Lines that begin with '>' behind the first line end. */
static size_t count_headers(const char *bytes, size_t n)
{
    size_t count = 0;
    const char *end = bytes + n;
    for (const char *p = bytes; (p = memchr(p, '\n', (size_t)(end - p))) != NULL;) {
        p++;
        count += p < end && *p == '>';
    }
    return count;
}

/* Of a FASTA, n bytes at its beginning: have records PART_LEAST of them on average? */
static bool begins_with_contigs(const char *bytes, size_t n)
{
    return n > 0 && bytes[0] == '>' && count_headers(bytes, n) <= n / PART_LEAST;
}

/* The same going by some places in a plain file. */
static bool has_contigs(const kmf_ranges *r)
{
    char bytes[SAMPLE];
    size_t n;
    size_t headers = 0;
    uint64_t n_samples = r->size / SAMPLE_EVERY + 1;
    n_samples = kmf_min(n_samples, SAMPLES_MOST);
    for (uint64_t i = 0; i < n_samples; i++) {
        if (!kmf_read_at(r->file, bytes, sizeof bytes, r->size / n_samples * i, &n) || n == 0 ||
            (i == 0 && bytes[0] != '>'))
            return false;
        headers += count_headers(bytes, n);
    }
    return headers <= n_samples * SAMPLE / PART_LEAST;
}

size_t kmf_range_step(size_t most)
{
    size_t step = KMF_RANGE_STEP;
    while (step > most * PART_USUAL)
        step /= 2;
    return step < KMF_RANGE_STEP / 4 ? 0 : step;
}

/*
 * Ranges of `step` bytes or, in a small file, of `least` and more; false: there would be too few.
 */
static bool choose(kmf_ranges *r, int file, size_t step, size_t least, size_t border,
                   size_t enough, size_t most)
{
    struct stat st;
    *r = (kmf_ranges){.file = file, .step = step, .border = border, .most = most};
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
        return false;
    r->size = (uint64_t)st.st_size;
    if (r->size < N_LEAST * RANGE_LEAST || r->step == 0)
        return false;
    while (r->step / 2 >= least && r->size / r->step < enough)
        r->step /= 2;
    return true;
}

bool kmf_ranges_open(kmf_ranges *ranges, int file, size_t border, size_t enough, size_t most)
{
    if (!choose(ranges, file, kmf_range_step(most), RANGE_LEAST, border, enough, most) ||
        !has_contigs(ranges))
        return false;
    ranges->n = ranges->size / ranges->step + (ranges->size % ranges->step > 0);
    return true;
}

bool kmf_ranges_open_gzip(kmf_ranges *ranges, const char *path, int file, size_t border,
                          size_t enough, size_t full, size_t most, bool blocks)
{
    size_t n;
    bool is_blocks = kmf_blocks_knows(file);
    assert(full >= 3 && full <= most);
    size_t step = KMF_RANGE_STEP;
    if (is_blocks) /* how many headers there are is only known afterwards */
        step = kmf_min(step, most * PART_LEAST);
    if ((is_blocks && !blocks) || !choose(ranges, file, step, GZIP_LEAST, border, enough, most))
        return false;
    ranges->portions = kmf_portions_open(path, file, ranges->step, '>', full - 2);
    if (!ranges->portions)
        return false;
    ranges->inflated_ahead = !is_blocks;
    const char *beginning = kmf_portions_begin(ranges->portions, &n);
    if (begins_with_contigs(beginning, n))
        return true;
    kmf_ranges_close(ranges);
    return false;
}

void kmf_ranges_close(kmf_ranges *ranges)
{
    kmf_portions_close(ranges->portions);
    ranges->portions = NULL;
}

/* ---------------------------------------------------------------- room ------------------ */

size_t kmf_range_room_bytes(size_t border)
{
    return KMF_RANGE_STEP + BEHIND + KMF_RANGE_MOST + border + SLACK;
}

int kmf_range_room_init(kmf_range_room *room, size_t border, kmf_err *err)
{
    room->bytes = kmf_malloc(KMF_RANGE_STEP + BEHIND, 1, err);
    room->letters = kmf_malloc(KMF_RANGE_MOST + border + SLACK, 1, err);
    return room->bytes && room->letters ? 0 : KMF_ENOMEM;
}

void kmf_range_room_free(kmf_range_room *room)
{
    kmf_free(room->bytes);
    kmf_free(room->letters);
}

void kmf_range_free(kmf_range *range)
{
    kmf_free(range->parts);
    kmf_free(range->names.bytes);
}

/* ---------------------------------------------------------------- lines ----------------- */

/* What stands before a line end, or the end of the file, which may begin with CR. */
static size_t content(const parse *w, const char *newline)
{
    const char *stop = newline ? newline : w->end;
    size_t n = (size_t)(stop - w->p);
    bool ends = newline || w->file_ends;
    return n - (ends && n > 0 && stop[-1] == '\r');
}

/* Goes on to the line behind this one, which may be the end of the file. */
static void next_line(parse *w, const char *newline)
{
    w->p = newline ? newline + 1 : w->end;
    w->line_begins = newline != NULL;
}

static size_t most_names(size_t most_parts)
{
    return NAMES_LEAST + most_parts * NAME_USUAL;
}

/* kmf_grow may make room for half as much again. */
size_t kmf_range_bytes(size_t most)
{
    return sizeof(kmf_range) + (most * sizeof(kmf_part) + most_names(most)) / 2 * 3;
}

static kmf_part *add_part(const parse *w, kmf_range *r, size_t beg)
{
    if (r->n_parts == w->ranges->most ||
        kmf_grow(&r->parts, &r->cap_parts, r->n_parts + 1, sizeof *r->parts, NULL) < 0)
        return NULL;
    kmf_part *part = &r->parts[r->n_parts++];
    *part = (kmf_part){.beg = beg};
    return part;
}

static bool add_name(const parse *w, kmf_range *r, const char *header, size_t n)
{
    size_t len = 0;
    while (len < n && header[len] != ' ' && header[len] != '\t')
        len++;
    if (r->names.len + len + 1 > most_names(w->ranges->most) ||
        kmf_text_append(&r->names, header, len, NULL) < 0)
        return false;
    r->names.len++; /* the NUL behind it */
    return true;
}

/* The line at p, a header: a part begins. */
static bool take_header(parse *w, kmf_range *r, size_t beg)
{
    const char *newline = memchr(w->p, '\n', (size_t)(w->end - w->p));
    if (!newline && !w->file_ends)
        return false;
    w->p++;
    size_t n = content(w, newline);
    kmf_part *part = add_part(w, r, beg);
    if (!part || memchr(w->p, '\0', n) || memchr(w->p, '\r', n))
        return false;
    part->begins = true;
    part->name = r->names.len;
    r->n_begun++;
    bool named = add_name(w, r, w->p, n);
    next_line(w, newline);
    return named;
}

/* Letters of the line at p, or of its rest, up to `stop` and `most`. false: something else. */
static bool take_line(parse *w, const char *stop, size_t most)
{
    bool sound;
    const char *newline = memchr(w->p, '\n', (size_t)(w->end - w->p));
    size_t here = content(w, newline);
    size_t n = kmf_min(kmf_min((size_t)(stop - w->p), here), most);
    assert(n <= (size_t)(w->room - w->out));
    kmf_scan_letters(w->out, w->p, n, &sound);
    w->out += n;
    if (n == here && (newline || w->file_ends)) {
        next_line(w, newline);
    } else {
        w->p += n;
        w->line_begins = false;
    }
    return sound;
}

/* Is p at a header, or at the end of the file? */
static bool at_record_end(const parse *w)
{
    return w->p == w->end ? w->file_ends : w->line_begins && *w->p == '>';
}

/* The letters of the range, part by part. */
static bool take_own(parse *w, kmf_range *r, const char *letters)
{
    kmf_part *part = add_part(w, r, 0);
    while (part && w->p < w->own_end) {
        if (at_record_end(w)) {
            part->n = (size_t)(w->out - letters) - part->beg;
            part->whole = part->begins;
            if (!take_header(w, r, (size_t)(w->out - letters)))
                return false;
            part = &r->parts[r->n_parts - 1];
            continue;
        }
        if (w->line_begins) {
            kmf_scan s = {.in = w->p,
                          .in_end = w->own_end,
                          .out = w->out,
                          .stop = w->room,
                          .room = w->room,
                          .width = w->width};
            kmf_scan_lines(&s);
            w->out = s.out;
            w->width = s.width;
            w->p = s.in;
            if (s.n > 0)
                continue;
        }
        if (!take_line(w, w->own_end, SIZE_MAX))
            return false;
    }
    if (part)
        part->n = (size_t)(w->out - letters) - part->beg;
    return part != NULL;
}

/* Of the last part's record, letters behind the range. */
static bool take_border(parse *w, kmf_range *r, size_t border)
{
    kmf_part *part = &r->parts[r->n_parts - 1];
    const char *first = w->out;
    bool ends;
    while (!(ends = at_record_end(w)) && (size_t)(w->out - first) < border) {
        if (w->p == w->end || !take_line(w, w->end, border - (size_t)(w->out - first)))
            return false;
    }
    part->more = (size_t)(w->out - first);
    part->whole = part->begins && ends && part->more == 0;
    return true;
}

/* Where the range begins whose place is `place`; an unterminated last line ends at `end`. */
static const char *find_beginning(const char *place, const char *end, bool file_ends)
{
    size_t n = (size_t)(end - place);
    const char *newline = memchr(place, '\n', kmf_min(n, KMF_RANGE_SEEK));
    if (newline)
        return newline + 1;
    return file_ends && n <= KMF_RANGE_SEEK ? end : place;
}

bool kmf_ranges_next(const kmf_ranges *ranges, uint64_t i, kmf_portion *portion)
{
    return ranges->portions ? kmf_portions_next(ranges->portions, portion) : i < ranges->n;
}

/* Bytes of the file: those of a range and some behind it. */
typedef struct bytes {
    const char *at;
    size_t own, n;
    bool end; /* no byte follows */
} bytes;

/* Range i of a plain file. false: it is not there any more. */
static bool read_plain(bytes *b, const kmf_ranges *ranges, uint64_t i, char *to)
{
    uint64_t at = i * ranges->step;
    b->at = to;
    b->own = ranges->size - at < ranges->step ? (size_t)(ranges->size - at) : ranges->step;
    size_t most = b->own + BEHIND;
    if (!kmf_read_at(ranges->file, to, most, at, &b->n) || b->n < b->own)
        return false;
    b->end = b->n < most || at + b->n == ranges->size;
    bool nothing_follows = b->n == b->own;
    return nothing_follows == (i + 1 == ranges->n); /* else it has grown or shrunk */
}

static bool inflate(bytes *b, const kmf_ranges *ranges, kmf_portion *portion, char *room)
{
    b->at = kmf_portions_inflate(ranges->portions, portion, room);
    b->own = portion->own;
    b->n = portion->n;
    b->end = portion->ends;
    return b->at != NULL;
}

bool kmf_range_read(kmf_range *range, const kmf_ranges *ranges, uint64_t i,
                    kmf_portion *portion, kmf_range_room *room)
{
    bytes b;
    bool there = ranges->portions ? inflate(&b, ranges, portion, room->bytes)
                                  : read_plain(&b, ranges, i, room->bytes);
    range->n_parts = range->n_begun = range->names.len = 0;
    if (!there)
        return false;
    const char *end = b.at + b.n;
    const char *beginning = i == 0 ? b.at : find_beginning(b.at, end, b.end);
    parse w = {.ranges = ranges,
               .p = beginning,
               .own_end = find_beginning(b.at + b.own, end, b.end),
               .end = end,
               .file_ends = b.end,
               .line_begins = i == 0 || beginning > b.at,
               .out = room->letters,
               .room = room->letters + KMF_RANGE_MOST + ranges->border + SLACK};
    range->last = b.end && b.n == b.own;
    return take_own(&w, range, room->letters) && w.p == w.own_end &&
           (range->parts[range->n_parts - 1].n == 0 || take_border(&w, range, ranges->border));
}
