/* SPDX-License-Identifier: MIT */
/*
 * What is made before the first step: words and their counts, the noise, the table of vectors, the
 * batches; and what is told of all that. steps.c trains.
 */
#include "learn/word2vec.h"

#include "base/err.h"
#include "base/groups.h"
#include "base/mem.h"
#include "model/vectors.h"
#include "words/kmer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define NOISE_POWER 0.75
#define ALPHA_LAST 1e-4               /* of alpha, at the end */
#define ALPHA_LEAST 1e-30             /* its last one is a float32 with all digits, too */
#define HUGE_FLOATS ((size_t)1 << 20) /* from so many on memory comes in huge pages */

const char *const kmf_word_strand_names[] = {"fwd", "both", "canonical", NULL};

void kmf_word2vec_options_default(kmf_word2vec_options *opts)
{
    *opts = (kmf_word2vec_options){.k_min = 6,
                                   .k_max = 6,
                                   .stride = 1,
                                   .dim = 100,
                                   .window = 5,
                                   .negative = 5,
                                   .alpha = 0.025,
                                   .epochs = 5,
                                   .seed = 1};
}

/* ---------------------------------------------------------------- making one ------------ */

static int check_options(const kmf_word2vec_options *o, kmf_err *err)
{
    if (o->alphabet < 0 || o->alphabet >= KMF_N_ALPHABETS)
        return kmf_fail(err, KMF_EINVAL, "alphabet: no such alphabet");
    int k_max = kmf_lexicon_k_max(o->alphabet);
    bool within = o->k_min >= 1 && o->k_max <= k_max;
    if (!within && o->k_min == o->k_max)
        return kmf_fail(err, KMF_EINVAL, "k: %d is not from 1 to %d for %s", o->k_min, k_max,
                        kmf_alphabet_names[o->alphabet]);
    if (!within || o->k_min > o->k_max)
        return kmf_fail(err, KMF_EINVAL,
                        "k: %d to %d is not from 1 to %d for %s, the shorter length first",
                        o->k_min, o->k_max, k_max, kmf_alphabet_names[o->alphabet]);
    if (o->strand < KMF_WORDS_FWD || o->strand > KMF_WORDS_CANONICAL)
        return kmf_fail(err, KMF_EINVAL, "strand: no such choice");
    if (o->strand != KMF_WORDS_FWD && o->alphabet != KMF_DNA)
        return kmf_fail(err, KMF_EINVAL, "strand: %s has no reverse complement",
                        kmf_alphabet_names[o->alphabet]);
    if (o->stride < 1 || o->stride > 65536)
        return kmf_fail(err, KMF_EINVAL, "stride: from 1 to 65536");
    if (o->frames && (o->stride != 1 || o->k_min != o->k_max))
        return kmf_fail(err, KMF_EINVAL, "frames: for k-mers of one length and stride 1");
    if (o->dim < 1 || o->dim > KMF_SGNS_LD_MAX)
        return kmf_fail(err, KMF_EINVAL, "dim: from 1 to %d", KMF_SGNS_LD_MAX);
    if (o->window < 1 || o->window > 100)
        return kmf_fail(err, KMF_EINVAL, "window: from 1 to 100");
    if (o->negative < 1 || o->negative >= KMF_SGNS_TARGETS_MAX)
        return kmf_fail(err, KMF_EINVAL, "negative: from 1 to %d", KMF_SGNS_TARGETS_MAX - 1);
    if (!(o->sample >= 0 && o->sample <= 1))
        return kmf_fail(err, KMF_EINVAL, "sample: %g is not from 0 to 1", o->sample);
    if (!(o->alpha >= ALPHA_LEAST && o->alpha <= 1))
        return kmf_fail(err, KMF_EINVAL, "alpha: %g is not from 1e-30 to 1", o->alpha);
    if (o->epochs < 1 || o->epochs > 10000)
        return kmf_fail(err, KMF_EINVAL, "epochs: from 1 to 10000");
    if (o->threads < 0 || o->threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "threads: from 1 to %d", KMF_THREADS_MAX);
    return 0;
}

kmf_word2vec *kmf_word2vec_new(const kmf_word2vec_options *opts, kmf_err *err)
{
    if (check_options(opts, err) < 0)
        return NULL;
    kmf_word2vec *t = kmf_calloc(1, sizeof *t, err);
    if (!t)
        return NULL;
    t->opts = *opts;
    t->opts.tmp = NULL;
    t->opts.threads = opts->threads ? opts->threads : kmf_threads_default();
    if (t->opts.threads > KMF_STEP_BATCHES)
        t->opts.threads = KMF_STEP_BATCHES; /* more would wait, and spin */
    t->opts.memory = opts->memory ? opts->memory : KMF_MEMORY_USUAL;
    t->loss = (double)NAN;
    if (opts->tmp && !(t->opts.tmp = kmf_strdup(opts->tmp, err)))
        goto failed;
    t->corpus =
        kmf_corpus_new(opts->alphabet, (size_t)opts->k_min, t->opts.memory, t->opts.tmp, err);
    if (!t->corpus)
        goto failed;
    if (kmf_helpers_new(&t->pool, t->opts.threads, err) < 0)
        goto failed;
    return t;
failed:
    kmf_word2vec_free(t);
    return NULL;
}

void kmf_word2vec_free(kmf_word2vec *trainer)
{
    kmf_word2vec *t = trainer;
    if (!t)
        return;
    for (size_t i = 0; t->batches && i < KMF_STEP_BATCHES; i++)
        kmf_sgns_batch_clear(&t->batches[i]);
    for (int i = 0; t->samplers && i < t->opts.threads; i++)
        kmf_sgns_sampler_free(t->samplers[i]);
    kmf_free(t->batches);
    kmf_free(t->copies);
    kmf_free(t->samplers);
    kmf_free(t->visits);
    kmf_free(t->table);
    kmf_free(t->keep);
    kmf_free(t->counts);
    kmf_noise_clear(&t->noise);
    kmf_lexicon_clear(&t->lexicon);
    kmf_corpus_free(t->corpus);
    kmf_pool_free(t->pool);
    kmf_free((char *)(uintptr_t)t->opts.tmp);
    kmf_free(t);
}

kmf_pool *kmf_word2vec_pool(kmf_word2vec *trainer)
{
    return trainer->pool;
}

/* Are inputs still taken? */
static int check_reading(const kmf_word2vec *t, kmf_err *err)
{
    if (t->tried)
        return kmf_fail(err, KMF_EINVAL, "the training has begun: its reading has ended");
    return t->cut_short ? kmf_fail(err, KMF_EINVAL, "an input was not read to its end") : 0;
}

int kmf_word2vec_read(kmf_word2vec *trainer, kmf_reader *reader, kmf_progress_fn *fn,
                      void *user, kmf_err *err)
{
    int status = check_reading(trainer, err);
    if (status == 0)
        status = kmf_corpus_read(trainer->corpus, reader, fn, user, err);
    trainer->cut_short |= status < 0 && status != KMF_EINVAL;
    return status;
}

int kmf_word2vec_add(kmf_word2vec *trainer, const char *seq, size_t len, kmf_err *err)
{
    int status = check_reading(trainer, err);
    if (status == 0)
        status = kmf_corpus_add(trainer->corpus, seq, len, err);
    trainer->cut_short |= status < 0 && status != KMF_EINVAL;
    return status;
}

/* ---------------------------------------------------------------- words ----------------- */

#define COUNT_BLOCK 4096
/* Letters from one word of progress to the next: some milliseconds. */
#define TOLD_EVERY ((uint64_t)1 << 20)

/* Who is told how many letters were gone over. */
typedef struct listener {
    kmf_progress_fn *fn; /* may be NULL */
    void *user;
    uint64_t letters, told;
} listener;

static void gone_over(listener *l, size_t n)
{
    l->letters += n;
    if (!l->fn || l->letters - l->told < TOLD_EVERY)
        return;
    l->told = l->letters;
    l->fn(l->user, l->letters);
}

/* The k-mers of letters beg .. end - 1 that start at beg, beg + stride, ... */
static void count_segment(kmf_word2vec *t, uint64_t beg, uint64_t end, int k, listener *l)
{
    const kmf_lexicon *lexicon = &t->lexicon;
    int bits = lexicon->alphabet->bits;
    uint64_t mask = ~(uint64_t)0 >> (64 - bits * k);
    bool both = t->opts.strand == KMF_WORDS_BOTH;
    uint8_t letters[COUNT_BLOCK];
    uint64_t code = 0;
    uint64_t next = beg + (uint64_t)k - 1; /* where the next k-mer ends */
    for (uint64_t at = beg; at < end; at += COUNT_BLOCK) {
        size_t n = end - at < COUNT_BLOCK ? (size_t)(end - at) : COUNT_BLOCK;
        kmf_corpus_letters(t->corpus, letters, at, n);
        for (size_t i = 0; i < n; i++) {
            code = (code << bits | letters[i]) & mask;
            if (at + i < next)
                continue;
            next += t->opts.stride;
            t->counts[kmf_lexicon_word(lexicon, code, k)]++;
            if (both)
                t->counts[kmf_lexicon_word(lexicon, kmf_revcomp_of(code, k), k)]++;
        }
        gone_over(l, n);
    }
}

static int count_words(kmf_word2vec *t, listener *l, kmf_err *err)
{
    kmf_corpus_info info;
    kmf_corpus_information(t->corpus, &info);
    t->counts = kmf_large_zeroed(t->lexicon.n, sizeof *t->counts, err);
    if (!t->counts)
        return KMF_ENOMEM;
    for (int k = t->opts.k_min; k <= t->opts.k_max; k++)
        for (uint64_t s = 0; s < info.segments; s++)
            count_segment(t, kmf_corpus_start(t->corpus, s), kmf_corpus_start(t->corpus, s + 1),
                          k, l);
    for (uint32_t w = 0; w < t->lexicon.n; w++) {
        t->kmers += t->counts[w];
        t->unseen += t->counts[w] == 0;
    }
    if (t->kmers == 0)
        return kmf_fail(
            err, KMF_EFORMAT,
            "there is no k-mer to learn from: no record has %d letters in a row that "
            "are %s",
            t->opts.k_min, t->opts.alphabet == KMF_DNA ? "A, C, G, T or U" : "amino acids");
    return 0;
}

static int make_noise(kmf_word2vec *t, kmf_err *err)
{
    double *weight = kmf_malloc(t->lexicon.n, sizeof *weight, err);
    if (!weight)
        return KMF_ENOMEM;
    for (uint32_t w = 0; w < t->lexicon.n; w++)
        weight[w] = pow((double)t->counts[w], NOISE_POWER);
    int status = kmf_noise_make(&t->noise, weight, t->lexicon.n, err);
    kmf_free(weight);
    return status;
}

static int make_keep(kmf_word2vec *t, kmf_err *err)
{
    if (t->opts.sample <= 0)
        return 0;
    t->keep = kmf_malloc(t->lexicon.n, sizeof *t->keep, err);
    if (!t->keep)
        return KMF_ENOMEM;
    for (uint32_t w = 0; w < t->lexicon.n; w++) {
        double ratio =
            t->counts[w] > 0 ? t->opts.sample * (double)t->kmers / (double)t->counts[w] : 1;
        double p = sqrt(ratio) + ratio;
        t->keep[w] = p < 1 ? (uint32_t)(p * 0x1p32) : UINT32_MAX;
    }
    return 0;
}

/* ---------------------------------------------------------------- the table ------------- */

/*
 * Of all that grows with the words or the letters, the batches once they are made, and the vectors
 * that are made in the end.
 */
static uint64_t bytes_held(const kmf_word2vec *t)
{
    uint64_t rows = 2 * (uint64_t)t->lexicon.n;
    uint64_t of_row = t->ld * sizeof *t->table + sizeof *t->visits +
                      (uint64_t)t->opts.threads * sizeof(uint32_t);
    uint64_t of_word =
        sizeof *t->counts + sizeof *t->noise.bins + (t->opts.sample > 0 ? sizeof *t->keep : 0);
    /* values, code, count, k, place in the index and, while they are written, the word itself */
    uint64_t of_vector = t->opts.dim * sizeof *t->table + 2 * sizeof(uint64_t) +
                         sizeof(uint8_t) + (t->lexicon.canonical ? 2 : 1) * sizeof(int32_t) +
                         (uint64_t)t->opts.k_max;
    uint64_t batches = t->batches ? kmf_sgns_batch_floats(&t->plan) * KMF_STEP_BATCHES : 0;
    return rows * of_row + t->lexicon.n * (of_word + of_vector) + batches * sizeof *t->copies +
           kmf_lexicon_bytes(&t->lexicon) + kmf_corpus_bytes(t->corpus);
}

static int check_memory(const kmf_word2vec *t, kmf_err *err)
{
    uint64_t here = kmf_memory_here();
    uint64_t bytes = bytes_held(t);
    if (bytes > here)
        return kmf_fail(err, KMF_ENOMEM,
                        "%" PRIu32
                        " words of %zu numbers need %.1f GB of memory, and there are "
                        "%.1f: a shorter k or a smaller dim",
                        t->lexicon.n, t->opts.dim, 1e-9 * (double)bytes, 1e-9 * (double)here);
    return 0;
}

/* Vectors from -0.5 / dim to 0.5 / dim, targets 0: as word2vec begins. */
static int make_table(kmf_word2vec *t, kmf_err *err)
{
    size_t rows = 2 * (size_t)t->lexicon.n;
    kmf_rng rng = kmf_rng_stream(t->opts.seed, KMF_STREAM_OF_VECTORS);
    size_t floats = rows * t->ld > HUGE_FLOATS ? rows * t->ld : HUGE_FLOATS;
    t->table = kmf_large_zeroed(floats, sizeof *t->table, err);
    t->visits = kmf_large_zeroed(rows, sizeof *t->visits, err);
    if (!t->table || !t->visits)
        return KMF_ENOMEM;
    for (uint32_t w = 0; w < t->lexicon.n; w++)
        for (size_t d = 0; d < t->opts.dim; d++)
            t->table[w * t->ld + d] = (float)((kmf_rng_unit(&rng) - 0.5) / (double)t->opts.dim);
    return 0;
}

static int make_batches(kmf_word2vec *t, kmf_err *err)
{
    const kmf_word2vec_options *o = &t->opts;
    kmf_corpus_info info;
    kmf_corpus_information(t->corpus, &info);
    t->plan = (kmf_sgns_plan){.corpus = t->corpus,
                              .n_segments = info.segments,
                              .lexicon = &t->lexicon,
                              .noise = &t->noise,
                              .keep = t->keep,
                              .stride = o->frames ? (size_t)o->k_max : o->stride,
                              .frames = o->frames ? (size_t)o->k_max : 1,
                              .strands = o->strand == KMF_WORDS_BOTH ? 2 : 1,
                              .window = o->window,
                              .negative = o->negative,
                              .cbow = o->cbow != 0,
                              .seed = o->seed,
                              .table = t->table,
                              .ld = t->ld,
                              .owners = (uint32_t)o->threads};
    kmf_sgns_plan_measure(&t->plan);
    uint64_t n = kmf_sgns_plan_batches(&t->plan);
    if (n > UINT32_MAX)
        return kmf_fail(err, KMF_ENOMEM, "the input is too large: %" PRIu64 " letters",
                        info.kept);
    t->steps_per_epoch = kmf_div_up(n, KMF_STEP_BATCHES);
    t->batches = kmf_calloc(KMF_STEP_BATCHES, sizeof *t->batches, err);
    t->samplers = kmf_calloc((size_t)o->threads, sizeof *t->samplers, err);
    if (!t->batches || !t->samplers)
        return KMF_ENOMEM;
    size_t floats = kmf_sgns_batch_floats(&t->plan);
    size_t all =
        floats * KMF_STEP_BATCHES > HUGE_FLOATS ? floats * KMF_STEP_BATCHES : HUGE_FLOATS;
    t->copies = kmf_large(all, sizeof *t->copies, err);
    if (!t->copies)
        return KMF_ENOMEM;
    for (size_t i = 0; i < KMF_STEP_BATCHES; i++)
        if (kmf_sgns_batch_make(&t->batches[i], &t->plan, t->copies + i * floats, err) < 0)
            return KMF_ENOMEM;
    for (int i = 0; i < o->threads; i++)
        if (!(t->samplers[i] = kmf_sgns_sampler_new(&t->plan, err)))
            return KMF_ENOMEM;
    return 0;
}

int kmf_word2vec_begin(kmf_word2vec *trainer, kmf_progress_fn *fn, void *user, kmf_err *err)
{
    kmf_word2vec *t = trainer;
    listener l = {.fn = fn, .user = user};
    const kmf_word2vec_options *o = &t->opts;
    if (t->tried)
        return kmf_fail(err, KMF_EINVAL, "a training begins once");
    if (t->cut_short)
        return kmf_fail(err, KMF_EINVAL, "an input was not read to its end");
    t->tried = true;
    int status = kmf_corpus_finish(t->corpus, err);
    if (status == 0)
        status = kmf_lexicon_make(&t->lexicon, o->alphabet, o->k_min, o->k_max,
                                  o->strand == KMF_WORDS_CANONICAL, err);
    t->ld = kmf_round_up(o->dim, KMF_SGNS_LANES);
    if (status == 0)
        status = check_memory(t, err);
    if (status == 0)
        status = count_words(t, &l, err);
    if (status == 0)
        status = make_noise(t, err);
    if (status == 0)
        status = make_keep(t, err);
    if (status == 0)
        status = make_table(t, err);
    if (status == 0)
        status = make_batches(t, err);
    t->begun = status == 0;
    return status;
}

int kmf_word2vec_check_begun(const kmf_word2vec *trainer, kmf_err *err)
{
    return trainer->begun ? 0 : kmf_fail(err, KMF_EINVAL, "the training has not begun");
}

/* ---------------------------------------------------------------- what is known --------- */

uint64_t kmf_word2vec_steps(const kmf_word2vec *trainer)
{
    return trainer->steps_per_epoch * (uint64_t)trainer->opts.epochs;
}

double kmf_word2vec_alpha(const kmf_word2vec *trainer, uint64_t step)
{
    uint64_t steps = kmf_word2vec_steps(trainer);
    double left = steps > 0 ? 1 - (double)step / (double)steps : 1;
    return trainer->opts.alpha * (left > ALPHA_LAST ? left : ALPHA_LAST);
}

void kmf_word2vec_information(const kmf_word2vec *trainer, kmf_word2vec_state *state)
{
    const kmf_word2vec *t = trainer;
    kmf_corpus_info info;
    uint64_t steps = kmf_word2vec_steps(t);
    kmf_corpus_information(t->corpus, &info);
    *state = (kmf_word2vec_state){
        .records = info.records,
        .letters = info.letters,
        .ambiguous = info.ambiguous,
        .too_short = info.too_short,
        .words = t->lexicon.n,
        .unseen = t->unseen,
        .kmers = t->kmers,
        .tokens = t->tokens,
        .epoch = t->steps_per_epoch > 0 ? (int)(t->step / t->steps_per_epoch) : 0,
        .done = steps > 0 ? (double)t->step / (double)steps : 0,
        .alpha = kmf_word2vec_alpha(t, t->step),
        .loss = t->loss,
        .bytes = bytes_held(t),
        .threads = t->opts.threads,
        .other_kernels = t->other_kernels};
}

/* ---------------------------------------------------------------- the result ------------ */

kmf_vectors *kmf_word2vec_vectors(const kmf_word2vec *trainer, kmf_err *err)
{
    const kmf_word2vec *t = trainer;
    const kmf_lexicon *lexicon = &t->lexicon;
    if (kmf_word2vec_check_begun(t, err) < 0)
        return NULL;
    kmf_vectors *v = kmf_vectors_new(t->opts.alphabet, lexicon->n, t->opts.dim, true, err);
    if (!v)
        return NULL;
    v->info.canonical = lexicon->canonical;
    size_t row = 0;
    for (int k = t->opts.k_min; k <= t->opts.k_max; k++)
        for (uint64_t code = 0; row < lexicon->first[k + 1]; code++) {
            if (kmf_lexicon_word(lexicon, code, k) != row)
                continue;
            v->code[row] = code;
            v->k[row] = (uint8_t)k;
            v->count[row] = t->counts[row];
            memcpy(v->values + row * t->opts.dim, t->table + row * t->ld,
                   t->opts.dim * sizeof *v->values);
            row++;
        }
    if (kmf_vectors_index(v, "word2vec", err) == 0)
        return v;
    kmf_vectors_free(v);
    return NULL;
}
