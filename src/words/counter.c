/* SPDX-License-Identifier: MIT */
/*
 * From records to a table of counts.
 *
 *     reader -> text -> slot --+ a worker: dense.c (few codes) or parts.c (many) --> kmf_counts
 *                              + or the caller itself, when all slots are under way
 *
 * The caller's thread reads and cuts sequences into texts of some 200 KB; texts are counted in any
 * order, since sums do not depend on it. With one thread there is no pool, and the caller counts
 * each text itself. With more, the pool has one thread less than was asked for, because the
 * caller's thread works as well: reading is most of the work where k is small.
 *
 * A sequence may be cut between texts anywhere. A text begins with the last k - 1 letters of the
 * one before (the carry), if that ended inside a sequence, so each window lies in one text:
 *
 *     text 1   ...ACGTACGTTGCA          windows that end here or before
 *     text 2              TTGCA|GGAT... k = 6: the first window that is new is TTGCAG
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/spill.h"
#include "seq/par.h"
#include "seq/seqio.h"
#include "words/countfile.h"
#include "words/dense.h"
#include "words/kmer.h"
#include "words/parts.h"

#include <stdatomic.h>
#include <string.h>

#define TEXT_MAX ((size_t)256 << 10)
#define TEXT_MIN ((size_t)16 << 10)
#define OVERSHOOT ((size_t)64 << 10) /* of kmf_reader_fill, in most cases */

/* A text in work. */
typedef struct slot {
    kmf_counter *counter; /* borrowed */
    kmf_text text;        /* owned */
    size_t phase;         /* of its first letter: textkmers.h */
    atomic_bool done;
} slot;

struct kmf_counter {
    kmf_kmer_kind kind;
    kmf_counts *counts; /* owned; the table to be, without blocks until the end */
    char *tmp;          /* owned; NULL: none was given */
    int workers;
    kmf_pool *pool;     /* owned; NULL with one thread */
    kmf_queue *queue;   /* owned; NULL with one thread */
    kmf_dense *dense;   /* owned; one of the two is not NULL */
    kmf_parts *parts;   /* owned */
    kmf_tally *tallies; /* owned [workers] */

    /* A ring: n_sent under way from first_sent on, then the one that is being filled. */
    slot *slots; /* owned [n_slots] */
    size_t n_slots;
    size_t first_sent;
    size_t n_sent;
    size_t text_max;
    kmf_text rest; /* owned; what did not fit the last text */
    size_t carry;  /* letters at the beginning of the text being filled that are a repetition */

    kmf_count_progress_fn *progress;
    void *user;
    bool spent;
};

/* ---------------------------------------------------------------- making one ------------ */

void kmf_count_options_default(kmf_count_options *opts)
{
    *opts = (kmf_count_options){.alphabet = KMF_DNA, .k = 6, .stride = 1};
}

static int check_options(const kmf_count_options *o, kmf_err *err)
{
    if ((unsigned)o->alphabet >= KMF_N_ALPHABETS)
        return kmf_fail(err, KMF_EINVAL, "there is no alphabet number %d", (int)o->alphabet);
    int k_max = kmf_alphabet_k_max(o->alphabet);
    if (o->k < 1 || o->k > k_max)
        return kmf_fail(err, KMF_EINVAL, "k is %d: it must be 1 to %d (%s)", o->k, k_max,
                        kmf_alphabet_names[o->alphabet]);
    if (o->canonical && !kmf_alphabet_of(o->alphabet)->complement)
        return kmf_fail(err, KMF_EINVAL, "%s has no reverse complement: no canonical k-mers",
                        kmf_alphabet_names[o->alphabet]);
    if (o->stride < 1 || o->stride > KMF_STRIDE_MAX)
        return kmf_fail(err, KMF_EINVAL, "the stride is %zu: it must be 1 to %zu", o->stride,
                        KMF_STRIDE_MAX);
    if (o->threads < 0 || o->threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "threads: must be between 1 and %d, got %d",
                        KMF_THREADS_MAX, o->threads);
    return 0;
}

/* Better now than after hours. */
static int check_tmp(const char *tmp, kmf_err *err)
{
    kmf_spill *spill = tmp ? kmf_spill_new(tmp, err) : NULL;
    kmf_spill_free(spill);
    return tmp && !spill ? KMF_EIO : 0;
}

static int make_engine(kmf_counter *c, uint64_t memory, kmf_err *err)
{
    if (c->kind.alphabet->bits * c->kind.k <= KMF_DENSE_BITS_MAX &&
        kmf_dense_bytes(&c->kind, c->workers) <= memory) {
        c->dense = kmf_dense_new(&c->kind, c->workers, err);
        return c->dense ? 0 : KMF_ENOMEM;
    }
    c->parts =
        kmf_parts_new(&c->kind, c->counts->cut, c->workers, c->text_max, memory, c->tmp, err);
    return c->parts ? 0 : KMF_ENOMEM;
}

static int make_threads(kmf_counter *c, kmf_err *err)
{
    c->n_slots = 1;
    if (c->workers > 1) {
        c->n_slots = 2 * (size_t)c->workers + 1;
        c->pool = kmf_pool_new(c->workers - 1, err);
        if (c->pool)
            c->queue = kmf_queue_new(c->pool, (int)c->n_slots, err);
        if (!c->queue)
            return KMF_ENOMEM;
    }
    c->slots = kmf_calloc(c->n_slots, sizeof *c->slots, err);
    c->tallies = kmf_calloc((size_t)c->workers, sizeof *c->tallies, err);
    if (!c->slots || !c->tallies)
        return KMF_ENOMEM;
    for (size_t i = 0; i < c->n_slots; i++) {
        c->slots[i].counter = c;
        atomic_init(&c->slots[i].done, false);
    }
    return 0;
}

kmf_counter *kmf_counter_new(const kmf_count_options *opts, kmf_err *err)
{
    if (check_options(opts, err) < 0)
        return NULL;
    kmf_counter *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    uint64_t memory = opts->memory ? opts->memory : KMF_MEMORY_USUAL;
    kmf_counts_info info = {.alphabet = opts->alphabet,
                            .k = opts->k,
                            .canonical = opts->canonical != 0,
                            .stride = opts->stride,
                            .min_count = 1};
    c->kind = (kmf_kmer_kind){kmf_alphabet_of(opts->alphabet), opts->k, opts->stride,
                              opts->canonical != 0};
    c->workers = opts->threads ? opts->threads : kmf_threads_default();
    c->text_max = (size_t)(memory / 256) / ((size_t)c->workers + 1);
    c->text_max = kmf_max(kmf_min(c->text_max, TEXT_MAX), TEXT_MIN);
    c->counts = kmf_counts_new(&info, err);
    if (!c->counts)
        goto failed;
    if (opts->tmp) {
        c->tmp = kmf_strdup(opts->tmp, err);
        if (!c->tmp)
            goto failed;
    }
    if (check_tmp(c->tmp, err) < 0 || make_threads(c, err) < 0 ||
        make_engine(c, memory, err) < 0)
        goto failed;
    return c;
failed:
    kmf_counter_free(c);
    return NULL;
}

void kmf_counter_free(kmf_counter *c)
{
    if (!c)
        return;
    kmf_queue_free(c->queue);
    kmf_pool_free(c->pool);
    kmf_dense_free(c->dense);
    kmf_parts_free(c->parts);
    for (size_t i = 0; c->slots && i < c->n_slots; i++)
        kmf_free(c->slots[i].text.bytes);
    kmf_free(c->slots);
    kmf_free(c->tallies);
    kmf_free(c->rest.bytes);
    kmf_free(c->tmp);
    kmf_counts_free(c->counts);
    kmf_free(c);
}

kmf_pool *kmf_counter_pool(kmf_counter *counter)
{
    return counter->pool;
}

/* A kmf_fraction_fn. */
static void tell_made(void *counter, double made)
{
    const kmf_counter *c = counter;
    if (c->progress)
        c->progress(c->user, c->counts->info.letters, made);
}

void kmf_counter_progress(kmf_counter *counter, kmf_count_progress_fn *fn, void *user)
{
    counter->progress = fn;
    counter->user = user;
    if (counter->parts)
        kmf_parts_progress(counter->parts, tell_made, counter);
}

/* ---------------------------------------------------------------- texts ----------------- */

static void count_text(kmf_counter *c, const slot *s, int worker)
{
    if (c->dense)
        kmf_dense_count(c->dense, worker, s->text.bytes, s->text.len, s->phase,
                        &c->tallies[worker]);
    else
        kmf_parts_count(c->parts, worker, s->text.bytes, s->text.len, s->phase,
                        &c->tallies[worker]);
}

static void *count_job(void *arg)
{
    slot *s = arg;
    count_text(s->counter, s, kmf_pool_worker(s->counter->pool));
    atomic_store(&s->done, true);
    return NULL;
}

static slot *filling(const kmf_counter *c)
{
    return &c->slots[(c->first_sent + c->n_sent) % c->n_slots];
}

static void take_back(kmf_counter *c)
{
    kmf_queue_wait(c->queue);
    c->first_sent = (c->first_sent + 1) % c->n_slots;
    c->n_sent--;
}

static void wait_for_all(kmf_counter *c)
{
    while (c->n_sent > 0)
        take_back(c);
}

/* Room for the text's k-mers, for those under way too. */
static int make_room(kmf_counter *c, kmf_err *err)
{
    if (!c->parts || kmf_parts_has_room(c->parts, c->n_sent + 1))
        return 0;
    wait_for_all(c);
    return kmf_parts_has_room(c->parts, 1) ? 0 : kmf_parts_settle(c->parts, c->pool, err);
}

/* Has the filled text counted, by a worker if one can take it. */
static int send_text(kmf_counter *c, kmf_err *err)
{
    int status = make_room(c, err);
    if (status < 0)
        return status;
    while (c->n_sent > 0 && atomic_load(&c->slots[c->first_sent].done))
        take_back(c);
    slot *s = filling(c);
    if (!c->queue || c->n_sent + 1 == c->n_slots) {
        count_text(c, s, c->workers - 1);
        return 0;
    }
    atomic_store(&s->done, false);
    status = kmf_queue_send(c->queue, count_job, s, err);
    if (status == 0)
        c->n_sent++;
    return status;
}

/* The letters that the next text repeats: at most k - 1 of the sequence that is still open. */
static size_t tail_of(const kmf_counter *c, const kmf_text *text)
{
    size_t most = (size_t)c->kind.k - 1;
    size_t n = 0;
    while (n < most && n < text->len && text->bytes[text->len - 1 - n] != '\n')
        n++;
    return n;
}

/* The phase of the letter at `at` in the sequence that is open at the end of the slot's text. */
static size_t phase_of(const kmf_counter *c, const slot *s, size_t at)
{
    if (c->kind.stride == 1)
        return 0;
    size_t beg = at;
    while (beg > 0 && s->text.bytes[beg - 1] != '\n')
        beg--;
    return (at - beg + (beg == 0 ? s->phase : 0)) % c->kind.stride;
}

/* What exceeds text_max waits in `rest`. */
static int cut_text(kmf_counter *c, slot *s, kmf_err *err)
{
    if (s->text.len <= c->text_max)
        return 0;
    int status =
        kmf_text_append(&c->rest, s->text.bytes + c->text_max, s->text.len - c->text_max, err);
    s->text.len = c->text_max;
    return status;
}

/* Sends the text that was filled and begins the next one with its tail. */
static int end_text(kmf_counter *c, kmf_err *err)
{
    slot *s = filling(c);
    char tail[KMF_K_MAX];
    int status = cut_text(c, s, err);
    if (status < 0)
        return status;
    size_t n = tail_of(c, &s->text);
    size_t phase = phase_of(c, s, s->text.len - n);
    memcpy(tail, s->text.bytes + s->text.len - n, n);
    status = send_text(c, err);
    if (status < 0)
        return status;
    s = filling(c);
    s->text.len = 0;
    s->phase = phase;
    c->carry = n;
    if (c->progress)
        c->progress(c->user, c->counts->info.letters, 0);
    return kmf_text_append(&s->text, tail, n, err);
}

/* Texts of what waits. What then waits no longer fills a text. */
static int send_rest(kmf_counter *c, kmf_err *err)
{
    size_t done = 0;
    int status = 0;
    while (status == 0 && done < c->rest.len) {
        slot *s = filling(c);
        size_t n = c->rest.len - done;
        size_t room = c->text_max - s->text.len;
        n = kmf_min(n, room);
        status = kmf_text_append(&s->text, c->rest.bytes + done, n, err);
        done += n;
        if (status == 0 && s->text.len == c->text_max)
            status = end_text(c, err);
    }
    c->rest.len = 0;
    return status;
}

/* Sends what has been filled, if anything. */
static int flush(kmf_counter *c, kmf_err *err)
{
    return filling(c)->text.len > c->carry ? end_text(c, err) : 0;
}

/* ---------------------------------------------------------------- sequences ------------- */

static int is_spent(kmf_err *err)
{
    return kmf_fail(err, KMF_EINVAL, "the counter has given its table away, or failed");
}

int kmf_counter_add(kmf_counter *c, const char *seq, size_t len, kmf_err *err)
{
    if (c->spent)
        return is_spent(err);
    c->counts->info.records++;
    int status = 0;
    do {
        slot *s = filling(c);
        size_t room = c->text_max - s->text.len;
        size_t n = kmf_min(len, room);
        status = kmf_text_append(&s->text, seq, n, err);
        c->counts->info.letters += n;
        seq += n;
        len -= n;
        if (status == 0 && s->text.len == c->text_max)
            status = end_text(c, err);
    } while (status == 0 && len > 0);
    if (status == 0)
        status = kmf_text_append(&filling(c)->text, "\n", 1, err);
    c->spent = status < 0;
    return status;
}

int kmf_counter_read(kmf_counter *c, kmf_reader *reader, kmf_err *err)
{
    kmf_reader_stats s;
    size_t want = c->text_max > 2 * OVERSHOOT ? c->text_max - OVERSHOOT : c->text_max / 2;
    if (c->spent)
        return is_spent(err);
    int status = kmf_reader_unread(reader, err);
    if (status < 0)
        return status;
    kmf_counts_info *info = &c->counts->info;
    const kmf_counts_info before = *info;
    status = flush(c, err);
    int more = 1;
    while (status == 0 && more > 0) {
        more = kmf_reader_fill(reader, &filling(c)->text, want, err);
        kmf_reader_statistics(reader, &s);
        info->records = before.records + s.records;
        info->letters = before.letters + s.bases;
        if (more > 0)
            status = end_text(c, err);
        if (status == 0 && more > 0)
            status = send_rest(c, err);
        if (status == 0 && more > 0 && filling(c)->text.len >= want)
            status = end_text(c, err);
    }
    if (status == 0 && more == 0)
        status = flush(c, err);
    info->inputs++;
    status = status < 0 ? status : more;
    c->spent = status < 0;
    return status;
}

/* ---------------------------------------------------------------- the table ------------- */

/* All texts are counted; their figures go to the info of the table to be. */
static int end_counting(kmf_counter *c, kmf_err *err)
{
    if (c->spent)
        return is_spent(err);
    c->spent = true;
    int status = flush(c, err);
    wait_for_all(c);
    for (int w = 0; w < c->workers; w++) {
        c->counts->info.kmers += c->tallies[w].kmers;
        c->counts->info.ambiguous += c->tallies[w].ambiguous;
    }
    return status;
}

kmf_counts *kmf_counter_finish(kmf_counter *c, kmf_err *err)
{
    int status = end_counting(c, err);
    if (status == 0)
        status = c->dense ? kmf_dense_finish(c->dense, c->pool, c->counts, err)
                          : kmf_parts_finish(c->parts, c->pool, c->counts, err);
    if (status < 0)
        return NULL;
    kmf_counts *counts = c->counts;
    c->counts = NULL;
    kmf_counts_seal(counts);
    return counts;
}

/* The blocks of a large table go to the file as they are made. */
static int stream_parts(kmf_counter *c, kmf_out *out, kmf_err *err)
{
    kmf_countfile *file = kmf_countfile_new(out, &c->counts->cut, err);
    if (!file)
        return KMF_ENOMEM;
    int status = kmf_parts_stream(c->parts, c->pool, kmf_countfile_add, file, err);
    if (status == 0)
        status = kmf_countfile_finish(file, &c->counts->info, err);
    kmf_countfile_free(file);
    return status;
}

/* If the function did not say why, this does. */
static int no_provenance(kmf_err *err)
{
    return kmf_fail(err, KMF_ENOMEM, "the provenance of the table cannot be made");
}

static int save_parts(kmf_counter *c, const char *path, kmf_table_text_fn *provenance,
                      void *user, kmf_err *err)
{
    char *text = NULL;
    int status = end_counting(c, err);
    kmf_out *out = status == 0 ? kmf_out_open(path, err) : NULL;
    if (!out)
        return status < 0 ? status : KMF_EIO;
    status = stream_parts(c, out, err);
    if (status == 0 && provenance) {
        text = provenance(user, &c->counts->info, err);
        if (!text)
            status = no_provenance(err);
    }
    if (status == 0)
        status = kmf_table_publish(out, path, text, err);
    else
        kmf_out_free(out);
    kmf_free(text);
    return status;
}

static int save_table(kmf_counter *c, const char *path, kmf_table_text_fn *provenance,
                      void *user, kmf_counts_info *info, kmf_err *err)
{
    int status = 0;
    kmf_counts *counts = kmf_counter_finish(c, err);
    if (!counts)
        return KMF_EIO;
    *info = counts->info;
    char *text = provenance ? provenance(user, info, err) : NULL;
    if (provenance && !text)
        status = no_provenance(err);
    if (status == 0)
        status = kmf_counts_save(counts, path, KMF_COUNTS_BINARY, 0, c->pool, text, err);
    kmf_free(text);
    kmf_counts_free(counts);
    return status;
}

int kmf_counter_save(kmf_counter *c, const char *path, kmf_table_text_fn *provenance,
                     void *user, kmf_counts_info *info, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    int status = 0;
    if (c->spent)
        return is_spent(err);
    if (!c->parts || !kmf_out_is_file(path) || kmf_ends_with(path, ".gz")) {
        status = save_table(c, path, provenance, user, info, err);
    } else {
        status = kmf_table_check_path(path, provenance != NULL, err);
        if (status == 0)
            status = save_parts(c, path, provenance, user, err);
        *info = c->counts->info;
    }
    return status < 0 ? (int)err->code : 0;
}
