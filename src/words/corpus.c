/* SPDX-License-Identifier: MIT */
/*
 * Letters lie in chunks of 2^24, so that a corpus grows without being copied and can leave memory
 * piece by piece. The first letters of a segment wait until it is known to be long enough; so
 * nothing that was packed is ever taken back.
 */
#include "words/corpus.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/spill.h"
#include "seq/seqio.h"

#include <assert.h>
#include <string.h>

#define CHUNK_LETTERS ((size_t)1 << 24)
#define TEXT_BYTES ((size_t)1 << 20)
#define SHORTEST_MAX 64

struct kmf_corpus {
    const kmf_alphabet_row *alphabet;
    int bits; /* of a packed letter */
    size_t shortest;
    kmf_corpus_info info;

    unsigned char **chunks; /* owned, those in memory; the others point into `map` */
    size_t n_chunks, cap_chunks;
    uint64_t *starts; /* owned [segments + 1] */
    size_t cap_starts;

    uint64_t memory;
    const char *tmp;  /* borrowed */
    kmf_spill *spill; /* owned; NULL: all is in memory */
    kmf_map map;      /* of the spill */
    size_t n_spilled; /* chunks, the first ones */

    uint8_t waiting[SHORTEST_MAX]; /* the beginning of a segment */
    size_t n_waiting;
    bool open; /* a segment is being added to */
};

static size_t chunk_bytes(const kmf_corpus *c)
{
    return CHUNK_LETTERS * (size_t)c->bits / 8;
}

kmf_corpus *kmf_corpus_new(kmf_alphabet alphabet, size_t shortest, uint64_t memory,
                           const char *tmp, kmf_err *err)
{
    assert(shortest >= 1 && shortest <= SHORTEST_MAX);
    kmf_corpus *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    c->alphabet = kmf_alphabet_of(alphabet);
    c->bits = c->alphabet->bits == 2 ? 2 : 8;
    c->shortest = shortest;
    c->memory = memory;
    c->tmp = tmp;
    return c;
}

void kmf_corpus_free(kmf_corpus *c)
{
    if (!c)
        return;
    for (size_t i = c->n_spilled; i < c->n_chunks; i++)
        kmf_free(c->chunks[i]);
    kmf_free(c->chunks);
    kmf_free(c->starts);
    kmf_map_close(&c->map);
    kmf_spill_free(c->spill);
    kmf_free(c);
}

/* ---------------------------------------------------------------- adding ---------------- */

/* The last chunk is full. */
static int spill_chunk(kmf_corpus *c, kmf_err *err)
{
    uint64_t offset;
    err = kmf_err_or(err, &(kmf_err){0});
    if (!c->spill)
        c->spill = kmf_spill_new(c->tmp, err);
    if (!c->spill)
        return (int)err->code;
    for (; c->n_spilled < c->n_chunks; c->n_spilled++) {
        unsigned char *chunk = c->chunks[c->n_spilled];
        int status = kmf_spill_append(c->spill, chunk, chunk_bytes(c), &offset, err);
        if (status < 0)
            return status;
        assert(offset == c->n_spilled * chunk_bytes(c));
        kmf_free(chunk);
        c->chunks[c->n_spilled] = NULL;
    }
    return 0;
}

static int add_chunk(kmf_corpus *c, kmf_err *err)
{
    bool full = (c->n_chunks - c->n_spilled + 1) * chunk_bytes(c) > c->memory;
    if (c->n_chunks > 0 && full) {
        int status = spill_chunk(c, err);
        if (status < 0)
            return status;
    }
    if (kmf_grow(&c->chunks, &c->cap_chunks, c->n_chunks + 1, sizeof *c->chunks, err) < 0)
        return KMF_ENOMEM;
    c->chunks[c->n_chunks] = kmf_large_zeroed(chunk_bytes(c), 1, err);
    if (!c->chunks[c->n_chunks])
        return KMF_ENOMEM;
    c->n_chunks++;
    return 0;
}

static int pack(kmf_corpus *c, const uint8_t *letters, size_t n, kmf_err *err)
{
    for (size_t done = 0; done < n;) {
        size_t at = (size_t)(c->info.kept % CHUNK_LETTERS);
        if (at == 0) {
            int status = add_chunk(c, err);
            if (status < 0)
                return status;
        }
        size_t room = CHUNK_LETTERS - at;
        size_t m = kmf_min(n - done, room);
        unsigned char *chunk = c->chunks[c->n_chunks - 1];
        if (c->bits == 8)
            memcpy(chunk + at, letters + done, m);
        else
            for (size_t i = 0; i < m; i++)
                chunk[(at + i) / 4] |= (unsigned char)(letters[done + i] << (at + i) % 4 * 2);
        c->info.kept += m;
        done += m;
    }
    return 0;
}

static int begin_segment(kmf_corpus *c, kmf_err *err)
{
    size_t n = (size_t)c->info.segments;
    if (kmf_grow(&c->starts, &c->cap_starts, n + 2, sizeof *c->starts, err) < 0)
        return KMF_ENOMEM;
    c->starts[n] = c->info.kept;
    c->info.segments++;
    c->open = true;
    int status = pack(c, c->waiting, c->n_waiting, err);
    c->n_waiting = 0;
    return status;
}

static void end_segment(kmf_corpus *c)
{
    c->info.too_short += c->n_waiting;
    c->n_waiting = 0;
    c->open = false;
}

/* A run of letters that belongs to the current segment. */
static int add_run(kmf_corpus *c, const uint8_t *letters, size_t n, kmf_err *err)
{
    size_t i = 0;
    while (!c->open && i < n) {
        c->waiting[c->n_waiting++] = letters[i++];
        if (c->n_waiting == c->shortest) {
            int status = begin_segment(c, err);
            if (status < 0)
                return status;
        }
    }
    return pack(c, letters + i, n - i, err);
}

/* Text as of kmf_reader_fill. */
static int add_text(kmf_corpus *c, const char *text, size_t len, kmf_err *err)
{
    uint8_t run[4096] = {0};
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        uint8_t code = c->alphabet->code[(unsigned char)text[i]];
        if (code < c->alphabet->n_letters) {
            run[n++] = code;
            if (n < sizeof run)
                continue;
        }
        int status = add_run(c, run, n, err);
        if (status < 0)
            return status;
        c->info.letters += n;
        n = 0;
        if (code < c->alphabet->n_letters)
            continue;
        end_segment(c);
        if (text[i] == '\n') {
            c->info.records++;
        } else {
            c->info.letters++;
            c->info.ambiguous++;
        }
    }
    c->info.letters += n;
    return add_run(c, run, n, err);
}

int kmf_corpus_add(kmf_corpus *corpus, const char *seq, size_t len, kmf_err *err)
{
    int status = add_text(corpus, seq, len, err);
    return status < 0 ? status : add_text(corpus, "\n", 1, err);
}

int kmf_corpus_read(kmf_corpus *corpus, kmf_reader *reader, kmf_progress_fn *fn, void *user,
                    kmf_err *err)
{
    kmf_text text = {0};
    int status = kmf_reader_unread(reader, err);
    if (status < 0)
        return status;
    corpus->info.inputs++;
    while ((status = kmf_reader_fill(reader, &text, TEXT_BYTES, err)) > 0) {
        status = add_text(corpus, text.bytes, text.len, err);
        if (status < 0)
            break;
        text.len = 0;
        if (fn)
            fn(user, corpus->info.letters);
    }
    kmf_free(text.bytes);
    return status;
}

int kmf_corpus_finish(kmf_corpus *c, kmf_err *err)
{
    size_t n = (size_t)c->info.segments;
    if (c->spill) {
        int status = kmf_spill_map(c->spill, &c->map, err);
        if (status < 0)
            return status;
        for (size_t i = 0; i < c->n_spilled; i++)
            c->chunks[i] = (unsigned char *)(uintptr_t)(c->map.bytes + i * chunk_bytes(c));
    }
    if (kmf_grow(&c->starts, &c->cap_starts, n + 1, sizeof *c->starts, err) < 0)
        return KMF_ENOMEM;
    c->starts[n] = c->info.kept;
    uint32_t sum = 0;
    for (size_t i = 0; i <= n; i++)
        sum = kmf_crc32(sum, &c->starts[i], sizeof c->starts[i]);
    for (size_t i = 0; i < c->n_chunks; i++)
        sum = kmf_crc32(sum, c->chunks[i], chunk_bytes(c));
    c->info.checksum = sum;
    return 0;
}

/* ---------------------------------------------------------------- using it -------------- */

void kmf_corpus_information(const kmf_corpus *corpus, kmf_corpus_info *info)
{
    *info = corpus->info;
}

uint64_t kmf_corpus_bytes(const kmf_corpus *corpus)
{
    return (corpus->n_chunks - corpus->n_spilled) * chunk_bytes(corpus) +
           corpus->cap_starts * sizeof *corpus->starts;
}

uint64_t kmf_corpus_segment(const kmf_corpus *corpus, uint64_t at)
{
    assert(at < corpus->info.kept);
    return kmf_count_up_to(corpus->starts, corpus->info.segments, at) - 1;
}

uint64_t kmf_corpus_start(const kmf_corpus *corpus, uint64_t segment)
{
    return corpus->starts[segment];
}

void kmf_corpus_letters(const kmf_corpus *corpus, uint8_t *to, uint64_t at, size_t n)
{
    assert(at + n <= corpus->info.kept);
    for (size_t i = 0; i < n; i++, at++) {
        const unsigned char *chunk = corpus->chunks[at / CHUNK_LETTERS];
        size_t place = (size_t)(at % CHUNK_LETTERS);
        int letter = corpus->bits == 8 ? chunk[place] : chunk[place / 4] >> place % 4 * 2 & 3;
        to[i] = (uint8_t)letter;
    }
}
