/* SPDX-License-Identifier: MIT */
/*
 * Records out of a file.
 *
 * Of most files the caller's thread reads record by record and adds them. Where letters of contigs
 * are counted, that thread would have more to do than those that count, and the letters would go
 * from one core's cache to another's. So a FASTA file of contigs is sent out in ranges
 * (seq/ranges.h): the thread that counts a range reads and parses it, too, and the caller has the
 * results alone. Of compressed files the caller reads the portions, and inflates them if they are
 * gzip, which nobody else could do at the same time. Nor is there a record in memory as a whole.
 *
 *   job     range 0: read, parse, turn 0, count      caller   open contig1
 *           range 1: read, parse, turn 1, count               contig1 goes on, ends; contig2
 *
 * In a range's turn, which comes when those before it are parsed, it is found out how many records
 * began before it, which tells the rows of its own. Jobs begin in order, so that whoever has the
 * next turn is at work.
 *
 * A range that cannot be read so, be it that there is a fault in it, ends this: the record that was
 * not at its end is dropped, and the file is read once more in the usual way; the records that are
 * out already are passed over. That finds out what is wrong, if anything is, and what to say.
 *
 * Bits: sums of stretches are exact, so it does not matter where records are cut. Where they might
 * not be, of longer records than those of `exact_letters`, the file is read in the usual way.
 */
#include "embed/read.h"

#include "base/err.h"
#include "base/mem.h"
#include "embed/flow.h"
#include "seq/ranges.h"
#include "seq/seqio.h"

#include <assert.h>
#include <pthread.h>

#define PARTS_MOST ((size_t)4096) /* of a range, if their vectors need not be kept; */
#define CAPS_MOST 4  /* else as many times the pieces that batches usually have room for */
#define SUMS_LEAST 4 /* that there is room for: of two records that go on, and of vectors */
#define RANGES_A_THREAD 4  /* or more, so that all end at about the same time */
#define AHEAD ((size_t)24) /* portions of gzip that are inflated before they can be sent */

/* Made for the first file, as room of so many pages costs as much as a small one. */
typedef struct kmf_reading {
    kmf_embedder *embedder; /* borrowed */
    kmf_filler filler;
    kmf_range *ranges;     /* owned [n_slots] of the embedder, of each slot */
    kmf_portion *portions; /* owned [n_portions]; of gzip: what ranges are parsed from */
    size_t n_portions;
    kmf_portion **given;   /* owned [n_slots]: which one is whose */
    kmf_range_room *rooms; /* owned [threads], of each worker */
    /* of the file being read */
    kmf_ranges file;
    kmf_reader *reader;        /* borrowed; calls its records */
    kmf_portion *ready[AHEAD]; /* a ring: of n_ready ranges, from the next one to be sent on */
    size_t first_ready, n_ready;
    uint64_t first_row;
    bool stopped; /* the caller has seen a range that is not to be counted, */
    bool ended;   /* or the last one */
    /* Borrowed; of what the caller has seen, a record that goes on included. */
    kmf_reader_stats *stats;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t turned;
    uint64_t turn;      /* the range whose turn it is */
    uint64_t n_records; /* that begin before it */
    bool broken;        /* it is not to be counted, nor are those that follow */
    kmf_portion **idle; /* owned [n_idle]: the last one is taken first */
    size_t n_idle;
} kmf_reading;

/* Letters behind a range, for the windows that begin in it. */
static size_t border_of(const kmf_embedder *e)
{
    return e->method->stretch.span - e->method->stretch.step;
}

/* Parts of a range; `stored`: their vectors are, as soon as they are made. */
static size_t most_parts(const kmf_embedder *e, bool stored)
{
    return stored ? PARTS_MOST : CAPS_MOST * e->method->shape.cap_pieces;
}

/* Of those whose sums or vectors are kept: as many as any batch has room for, or all. */
static size_t most_sums(const kmf_embedder *e, bool stored)
{
    return stored ? e->method->shape.cap_pieces : most_parts(e, stored);
}

/* May records be cut anywhere, by any thread? */
static bool cuts_anywhere(const kmf_embedder *e, bool stored)
{
    return e->method->exact_letters > 0 && kmf_range_step(most_parts(e, stored)) > 0 &&
           most_sums(e, stored) >= SUMS_LEAST &&
           e->method->shape.units >= KMF_RANGE_MOST + border_of(e) &&
           e->opts.strand == KMF_STRAND_FWD && e->opts.ambiguous != KMF_AMBIGUOUS_ERROR &&
           e->opts.n_shards == 1;
}

static size_t records_of(const kmf_embedder *e, bool stored)
{
    return cuts_anywhere(e, stored) ? most_parts(e, stored) + 2 : 0;
}

size_t kmf_read_records(const kmf_embedder *e)
{
    return kmf_max(records_of(e, false), records_of(e, true));
}

static size_t bytes_of(const kmf_embedder *e, bool stored)
{
    size_t parts = most_parts(e, stored);
    size_t sums = stored ? 0 : most_sums(e, stored); /* beside those that a batch has anyway */
    if (!cuts_anywhere(e, stored))
        return 0;
    return (size_t)e->opts.threads * kmf_range_room_bytes(border_of(e)) +
           kmf_portions_bytes(KMF_RANGE_STEP) +
           (e->n_slots + AHEAD) * kmf_portion_bytes(KMF_RANGE_STEP) +
           e->n_slots * (kmf_range_bytes(parts) + parts * sizeof(kmf_piece) +
                         sums * e->method->shape.dim * sizeof(double));
}

size_t kmf_read_bytes(const kmf_embedder *e)
{
    return kmf_max(bytes_of(e, false), bytes_of(e, true));
}

/* ---------------------------------------------------------------- portions -------------- */

/* One that is idle; there is one for each slot, and for each range that is ready. */
static kmf_portion *take_portion(kmf_reading *x)
{
    pthread_mutex_lock(&x->lock);
    assert(x->n_idle > 0);
    kmf_portion *p = x->idle[--x->n_idle];
    pthread_mutex_unlock(&x->lock);
    return p;
}

static void give_back(kmf_reading *x, kmf_portion *p)
{
    pthread_mutex_lock(&x->lock);
    x->idle[x->n_idle++] = p;
    pthread_mutex_unlock(&x->lock);
}

/* ---------------------------------------------------------------- a job ----------------- */

/* A part has a piece if there is a window in it. */
static size_t part_pieces(const kmf_reading *x, const kmf_part *part)
{
    return part->n > 0 && part->n + part->more >= x->embedder->method->stretch.least;
}

/* *row: of the first record that begins in the range. false: it is not to be counted. */
static bool take_turn(kmf_reading *x, const kmf_range *r, uint64_t number, bool sound,
                      uint64_t *row)
{
    pthread_mutex_lock(&x->lock);
    while (x->turn != number)
        pthread_cond_wait(&x->turned, &x->lock);
    *row = x->first_row + x->n_records;
    x->broken = x->broken || !sound;
    x->n_records += x->broken ? 0 : r->n_begun;
    bool good = !x->broken;
    x->turn++;
    pthread_cond_broadcast(&x->turned);
    pthread_mutex_unlock(&x->lock);
    return good;
}

static void add_pieces(const kmf_reading *x, kmf_batch *b, const kmf_range *r, uint64_t row)
{
    for (size_t i = 0; i < r->n_parts; i++) {
        const kmf_part *part = &r->parts[i];
        row += part->begins;
        if (part_pieces(x, part) == 0)
            continue;
        kmf_batch_place_letters(b, part->beg, part->n + part->more, part->n);
        if (part->whole && kmf_batch_close(b, 1))
            kmf_batch_last(b)->row = row - 1;
    }
}

static int work(void *user, kmf_slot *slot, int worker, kmf_err *err)
{
    kmf_reading *x = user;
    kmf_embedder *e = x->embedder;
    kmf_batch *b = slot->batch;
    kmf_range *r = &x->ranges[slot - e->slots];
    kmf_range_room *room = &x->rooms[worker];
    uint64_t row;
    kmf_portion *p = x->given[slot - e->slots];
    bool sound = kmf_range_read(r, &x->file, slot->number, p, room);
    give_back(x, p);
    if (sound && r->n_parts > kmf_min(b->cap_pieces, b->cap_sums))
        sound = kmf_batch_reserve(b, x->file.most, most_sums(e, e->to.store.all));
    if (!take_turn(x, r, slot->number, sound, &row)) {
        r->n_parts = 0;
        return 0;
    }
    char *letters = b->letters;
    b->letters = room->letters;
    add_pieces(x, b, r, row);
    int status = kmf_job_work(e->method, &e->opts, b, worker, &e->to.store, err);
    b->letters = letters;
    if (status > 0) { /* what is not stored of them has no room */
        kmf_batch_clear(b);
        r->n_parts = 0;
    }
    return status < 0 ? status : 0;
}

/* ---------------------------------------------------------------- the caller ------------ */

/* Is there a record that goes on? */
static bool is_open(kmf_embedder *e)
{
    return e->n_pending > 0 && !kmf_flow_newest(e)->closed;
}

/* Of the record that begins with the part. */
static int open_part(kmf_reading *x, const kmf_range *r, const kmf_part *part, kmf_err *err)
{
    kmf_embedder *e = x->embedder;
    const char *name = r->names.bytes + part->name;
    const char *called = kmf_reader_call(x->reader, name, err);
    int status = called ? 0 : KMF_ENOMEM;
    if (status == 0 && is_open(e))
        status = kmf_flow_close(e, err);
    if (status == 0)
        status = kmf_flow_open(e, called, 0, err);
    if (status < 0)
        return status;
    e->n_seen++;
    x->stats->records++;
    x->stats->nameless += name[0] == '\0';
    return 0;
}

/* Can n letters be those that come next of a record, as they should if the file is what it was? */
static bool can_go_on(kmf_embedder *e, size_t n)
{
    return n == 0 ||
           (is_open(e) && kmf_flow_newest(e)->row.len + n <= e->method->exact_letters);
}

static int open_records(void *user, kmf_slot *slot, kmf_err *err)
{
    kmf_reading *x = user;
    kmf_embedder *e = x->embedder;
    const kmf_range *r = &x->ranges[slot - e->slots];
    int status = 0;
    x->stopped = x->stopped || r->n_parts == 0 || !can_go_on(e, r->parts[0].n);
    if (x->stopped) {
        kmf_batch_clear(slot->batch);
        return 0;
    }
    for (size_t i = 0; i < r->n_parts && status == 0; i++) {
        const kmf_part *part = &r->parts[i];
        if (part->begins)
            status = open_part(x, r, part, err);
        if (status < 0 || part->n == 0)
            continue;
        kmf_flow_newest(e)->row.len += part->n;
        kmf_flow_newest(e)->n_pieces += part_pieces(x, part);
        x->stats->bases += part->n;
    }
    x->ended = r->last;
    return status < 0 || !r->last || !is_open(e) ? status : kmf_flow_close(e, err);
}

static kmf_reading *new_reading(kmf_embedder *e, kmf_err *err)
{
    kmf_reading *x = kmf_calloc(1, sizeof *x, err);
    if (!x)
        return NULL;
    x->embedder = e;
    x->filler = (kmf_filler){.work = work, .open = open_records, .user = x};
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->turned, NULL);
    x->ranges = kmf_calloc(e->n_slots, sizeof *x->ranges, err);
    x->n_portions = e->n_slots + AHEAD;
    x->portions = kmf_calloc(x->n_portions, sizeof *x->portions, err);
    x->given = kmf_calloc(e->n_slots, sizeof(kmf_portion *), err);
    x->idle = kmf_calloc(x->n_portions, sizeof(kmf_portion *), err);
    x->rooms = kmf_calloc((size_t)e->opts.threads, sizeof *x->rooms, err);
    bool made = x->ranges && x->portions && x->given && x->idle && x->rooms;
    for (int i = 0; i < e->opts.threads && made; i++)
        made = kmf_range_room_init(&x->rooms[i], border_of(e), err) == 0;
    if (made)
        return x;
    kmf_reading_free(x);
    return NULL;
}

void kmf_reading_free(kmf_reading *reading)
{
    kmf_reading *x = reading;
    if (!x)
        return;
    for (size_t i = 0; x->ranges && i < x->embedder->n_slots; i++)
        kmf_range_free(&x->ranges[i]);
    for (size_t i = 0; x->portions && i < x->n_portions; i++)
        kmf_portion_free(&x->portions[i]);
    for (int i = 0; x->rooms && i < x->embedder->opts.threads; i++)
        kmf_range_room_free(&x->rooms[i]);
    kmf_free(x->ranges);
    kmf_free(x->portions);
    kmf_free(x->given);
    kmf_free(x->idle);
    kmf_free(x->rooms);
    pthread_cond_destroy(&x->turned);
    pthread_mutex_destroy(&x->lock);
    kmf_free(x);
}

/* When no job is at work: a file, whose records are the next ones. */
static int begin(kmf_reading *x, const kmf_ranges *file, kmf_reader *reader,
                 kmf_reader_stats *stats, kmf_err *err)
{
    kmf_embedder *e = x->embedder;
    int status = kmf_flow_send(e, err);
    x->file = *file;
    x->reader = reader;
    x->stats = stats;
    x->first_row = e->to.n_rows + e->n_pending;
    x->stopped = x->ended = x->broken = false;
    x->turn = x->n_records = 0;
    x->n_ready = 0;
    for (x->n_idle = 0; x->n_idle < x->n_portions; x->n_idle++)
        x->idle[x->n_idle] = &x->portions[x->n_idle];
    return status;
}

/* Range i, to be sent behind those that are ready. false: there is none, or it cannot be read. */
static bool make_ready(kmf_reading *x, uint64_t i)
{
    kmf_portion *p = take_portion(x);
    if (!kmf_ranges_next(&x->file, i, p))
        return false;
    x->ready[(x->first_ready + x->n_ready++) % AHEAD] = p;
    return true;
}

/* Sends those that are ready, from range i on, as long as none need be waited for. */
static int send_ready(kmf_reading *x, uint64_t i, kmf_err *err)
{
    kmf_embedder *e = x->embedder;
    int status = kmf_flow_poll(e, err);
    while (status == 0 && x->n_ready > 0 && !kmf_flow_is_full(e)) {
        x->given[kmf_flow_slot(e)] = x->ready[x->first_ready];
        x->first_ready = (x->first_ready + 1) % AHEAD;
        x->n_ready--;
        status = kmf_flow_send_empty(e, &x->filler, i++, err);
    }
    return status;
}

/*
 * Sends all ranges, in their order. Where batches take long, as where records are short, the caller
 * inflates gzip meanwhile, which makes up for that where they take less time than inflating does.
 */
static int send_ranges(kmf_reading *x, kmf_err *err)
{
    size_t most = x->file.inflated_ahead ? AHEAD : 1;
    uint64_t n = 0; /* made ready */
    bool more = true;
    int status = 0;
    while (status == 0 && !x->stopped && (more || x->n_ready > 0)) {
        if (more && x->n_ready < most) {
            more = make_ready(x, n);
            n += more;
        } else if (x->n_ready > 0) {
            status = kmf_flow_wait(x->embedder, err);
        }
        if (status == 0)
            status = send_ready(x, n - x->n_ready, err);
    }
    return status;
}

/*
 * 1: all records of the file have been added; 0: the first stats->records of them, and the others
 * are to be read in the usual way; or a failure.
 */
static int read_ranges(kmf_embedder *e, const kmf_ranges *file, kmf_reader *reader,
                       kmf_reader_stats *stats, kmf_err *err)
{
    if (!e->reading)
        e->reading = new_reading(e, err);
    kmf_reading *x = e->reading;
    if (!x)
        return KMF_ENOMEM;
    assert(file->most + 1 < e->n_records); /* none need be waited for */
    int status = begin(x, file, reader, stats, err);
    if (status == 0)
        status = send_ranges(x, err);
    if (status == 0)
        status = kmf_flow_collect(e, err);
    if (status < 0)
        return status;
    x->stopped = x->stopped || !x->ended;
    if (x->stopped && is_open(e)) {
        kmf_flow_drop(e);
        stats->records--;
    }
    e->n_by_ranges += !x->stopped;
    return !x->stopped;
}

/*
 * Is it a file for ranges? Those of gzip end where a batch is full, those of BGZF about there. One
 * thread alone would inflate BGZF and count, where in the usual way the caller does a part of it.
 */
static bool has_ranges(const kmf_embedder *e, const kmf_reader *reader, const char *path,
                       kmf_ranges *ranges)
{
    bool stored = e->to.store.all;
    int file = cuts_anywhere(e, stored) ? kmf_reader_file(reader) : -1;
    size_t enough = RANGES_A_THREAD * (size_t)e->opts.threads;
    size_t most = most_parts(e, stored);
    size_t full = stored ? most : e->method->shape.cap_pieces;
    if (file < 0)
        return false;
    return kmf_ranges_open(ranges, file, border_of(e), enough, most) ||
           kmf_ranges_open_gzip(ranges, path, file, border_of(e), enough, full, most,
                                e->opts.threads > 1);
}

/* ---------------------------------------------------------------- a file ---------------- */

/* Letters, and a name for each record, after which to ask for statistics, a call, costs little. */
#define TOLD_EVERY 16384
#define TOLD_NAME 100

/* The records from number n_done on, which stats tells of. */
static int read_records(kmf_embedder *e, kmf_reader *reader, uint64_t n_done,
                        kmf_reader_stats *stats, kmf_err *err)
{
    kmf_record rec;
    int got;
    size_t since = TOLD_EVERY; /* one record may be all there are, of one of many files */
    while ((got = kmf_reader_next(reader, &rec, err)) > 0) {
        if (rec.index < n_done)
            continue;
        since += rec.len + TOLD_NAME;
        if (since >= TOLD_EVERY) {
            kmf_reader_statistics(reader, stats);
            since = 0;
        }
        got = kmf_embedder_take(e, rec.name, rec.seq, rec.len, err);
        if (got < 0)
            break;
    }
    kmf_reader_statistics(reader, stats);
    return got;
}

int kmf_embedder_read(kmf_embedder *embedder, const char *path, const kmf_reader_options *opts,
                      kmf_reader_stats *stats, kmf_err *err)
{
    kmf_embedder *e = embedder;
    kmf_ranges file;
    int status = 0;
    err = kmf_err_or(err, &(kmf_err){0});
    *stats = (kmf_reader_stats){0};
    if (kmf_flow_outside(e, err) < 0)
        return KMF_EINVAL;
    kmf_reader *reader = kmf_reader_open(path, opts, e->pool, err);
    if (!reader) {
        kmf_flow_reset(e);
        return (int)err->code;
    }
    if (has_ranges(e, reader, path, &file)) {
        status = read_ranges(e, &file, reader, stats, err);
        if (status < 0)
            kmf_flow_reset(e); /* no job is at work when it is closed */
        kmf_ranges_close(&file);
    }
    if (status == 0)
        status = read_records(e, reader, stats->records, stats, err);
    if (status < 0)
        kmf_flow_reset(e); /* no job is at work then */
    kmf_reader_close(reader);
    return status < 0 ? status : 0;
}
