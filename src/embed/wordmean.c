/* SPDX-License-Identifier: MIT */
/*
 * Vectors by the vectors of k-mers: a record's is the weighted mean
 *
 *     v = sum_i w(x_i) v(x_i) / sum_i w(x_i)
 *
 * over its windows x_i that are k-mers with a vector. w is 1, or the smooth inverse frequency
 *
 *     w(x) = a / (a + p(x)),   a = 1e-3,   p(x) = count(x) / counts of all words of its length
 *
 * of Arora, Liang and Ma (A simple but tough-to-beat baseline for sentence embeddings, ICLR 2017,
 * algorithm 1). They divide by the number of words instead of the sum of their weights, which
 * changes the length of a vector but not its direction, and take away from all vectors of a data
 * set the component that they have in common; that needs the whole set and is not done here.
 *
 * A k-mer that the file lacks, and one that never occurred in training, so that its vector is
 * still the random one it began with, is left out and counted as unknown. Words of several lengths
 * are averaged together, in each piece all windows of the shortest length first.
 *
 * Bits. Sums are exact (embed/rowtable.h): a word's vector, times its weight, is a row of numbers
 * in fixed point, and so is its weight. So the order of additions does not matter, and where a
 * piece has enough windows for the words that there could be (worth_counting), its words
 * are counted, and each row, times its count, is added; else a row is added for each k-mer.
 * Sums over the pieces of a record are exact, too, up to exact_letters, where the weights of words
 * are 0 or 1; beyond that, and with other weights, the sum of a piece's weights is rounded once for
 * each length of words, to a double, and pieces are a fixed number of windows, whatever the size
 * of a batch, and are added in the order of the strand.
 *
 * Speed. The work is one row of the table, `dim` integers to be added, for each window, or for each
 * row if words are counted; embed/wordrows.h finds the rows, or counts. The counts of several
 * pieces at a time are multiplied with the table, where the processor has products of int8 and the
 * table is near (embed/bytetable.h). Windows that are not counted are listed, those of several
 * pieces, before any are added, so that a part of the table serves them all (embed/rowtable.h).
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/bytetable.h"
#include "embed/method.h"
#include "embed/rowtable.h"
#include "embed/settings.h"
#include "embed/wordrows.h"
#include "model/vectorfile.h"

#include <math.h>
#include <string.h>

#define WINDOWS 262144 /* of a piece, with a stride of 1, where it is not cut elsewhere */
/*
 * Words are counted from a window for each code on, which takes as long as listing them at 1 to 2
 * where the table is far, at 4 where it is near and counts are not multiplied. Where they are,
 * terms of columns at a time that go with one window. (Zen 5, 64 of AVX-VNNI: listing takes as long
 * there; with half of that, by AVX2 alone, at 1.5 to 2 windows, with 256 at 0.4.)
 */
#define WORTH_TERMS 64
#define FAR_BYTES ((size_t)4 << 20) /* a larger table is not near the processor */
#define GROUP 512                   /* pieces counted or listed before any are added */
#define LISTED ((size_t)1 << 16)    /* rows that are listed at most */
#define SIF_A 1e-3

/* Words of one length. */
typedef struct length {
    kmf_wordrows words;
    kmf_bytetable bytes; /* owned; of those with columns; empty if they are far */
} length;

/* One worker's. */
typedef struct workspace {
    int32_t *counts;                 /* owned [most n_rows + 1]: 0 between pieces */
    kmf_columns *columns[KMF_K_MAX]; /* owned; of each length; NULL: not in_columns */
    /* of the group of pieces beg .. end - 1 */
    size_t beg, end;
    double *sums;  /* owned [GROUP, dim] */
    int32_t *rows; /* owned [LISTED]: n_rows that are still to be added */
    size_t n_rows;
    size_t off[GROUP + 1]; /* where those of each piece begin */
    kmf_digits digits;
} workspace;

typedef struct word_mean {
    kmf_method base;
    char *name;                /* owned */
    kmf_map file, counts;      /* owned; counts: empty if there is no such file */
    const kmf_map *maps[2];    /* of both */
    kmf_vectors *vectors;      /* owned; its values are in the table */
    uint64_t *weights;         /* owned [n]; 0: never seen, or not looked up. NULL: all are 1 */
    kmf_rowtable table;        /* owned: values times weights */
    length lengths[KMF_K_MAX]; /* of the words that are looked up, ascending */
    size_t n_lengths;
    size_t n_counts;       /* the most n_rows + 1; 0: none are counted */
    size_t n_words;        /* the most of a table in bytes; 0: there is none */
    workspace *workspaces; /* owned [n_workspaces] */
    size_t n_workspaces;
} word_mean;

/* ---------------------------------------------------------------- a piece --------------- */

/* The columns that were met, as rows and their counts; all n counts are 0 again. */
static size_t take_counts(int32_t *restrict met, int32_t *restrict times,
                          int32_t *restrict counts, const int32_t *restrict rows, size_t n)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        met[n_out] = rows[i];
        times[n_out] = counts[i];
        n_out += counts[i] > 0;
        counts[i] = 0;
    }
    return n_out;
}

/* Each vector once, times its count; all counts are 0 again. */
static void add_counted(double *sum, const word_mean *m, const kmf_wordrows *words,
                        int32_t *counts)
{
    for (size_t beg = 0; beg < words->n_rows; beg += KMF_ROWTABLE_ROWS) {
        int32_t met[KMF_ROWTABLE_ROWS];
        int32_t times[KMF_ROWTABLE_ROWS] = {0};
        size_t left = words->n_rows - beg;
        size_t n = take_counts(met, times, counts + beg, words->rows + beg,
                               kmf_min(left, KMF_ROWTABLE_ROWS));
        kmf_rowtable_add_times(sum, &m->table, times, met, n);
    }
}

static bool worth_counting(const kmf_piece *p, const length *l)
{
    const kmf_kernel *kernel = l->bytes.kernel;
    if (!l->words.column) /* then there may be more codes than a size_t holds */
        return false;
    size_t codes = kmf_kmer_codes(&l->words.kind);
    size_t windows = kernel ? codes * WORTH_TERMS / (kernel->width * kernel->terms) : codes;
    return (p->own_end - p->own_beg) / l->words.kind.stride >= windows;
}

static void add_weight(kmf_piece *p, const kmf_wordwalk *w)
{
    p->weight += ldexp((double)w->weight, -KMF_WEIGHT_BITS);
}

/* Words of one length of the pieces in the group that have so many that they are counted. */
static void sum_counted(const word_mean *m, size_t j, const kmf_batch *b, workspace *own)
{
    const length *l = &m->lengths[j];
    bool multiplied = l->bytes.kernel != NULL;
    for (size_t i = own->beg; i < own->end; i++) {
        kmf_piece *p = &b->pieces[i];
        if (!worth_counting(p, l))
            continue;
        kmf_wordwalk w;
        kmf_wordwalk_start(&w, &l->words, own->columns[j], b->letters, p);
        kmf_wordwalk_count(own->counts, &w, p);
        add_weight(p, &w);
        if (!multiplied) {
            add_counted(own->sums + (i - own->beg) * b->dim, m, &l->words, own->counts);
            continue;
        }
        if (!kmf_digits_fits(&own->digits))
            kmf_digits_multiply(&own->digits, &l->bytes, own->sums);
        kmf_digits_take(&own->digits, &l->bytes, own->counts, i - own->beg);
    }
    if (multiplied && own->digits.n > 0)
        kmf_digits_multiply(&own->digits, &l->bytes, own->sums);
}

/* Adds the rows that are listed, to pieces 0 .. i of the group; the last one's list may go on. */
static void add_listed(const word_mean *m, workspace *own, size_t i)
{
    own->off[i + 1] = own->n_rows;
    kmf_rowtable_add(own->sums, &m->table, own->rows, own->off, i + 1);
    own->n_rows = 0;
    memset(own->off, 0, (i + 1) * sizeof *own->off);
}

/* The words of a piece, number i of the group, of the lengths that are not counted. */
static void list_words(const word_mean *m, const kmf_batch *b, workspace *own, kmf_piece *p,
                       size_t i)
{
    for (size_t j = 0; j < m->n_lengths; j++) {
        const length *l = &m->lengths[j];
        if (worth_counting(p, l))
            continue;
        kmf_wordwalk w;
        kmf_wordwalk_start(&w, &l->words, own->columns[j], b->letters, p);
        for (size_t n = 1; n > 0; own->n_rows += n) {
            if (own->n_rows + KMF_WORD_BLOCK > LISTED)
                add_listed(m, own, i);
            n = kmf_wordwalk_rows(own->rows + own->n_rows, &w, p);
        }
        add_weight(p, &w);
    }
}

/* The group that begins with piece i: the sums of all words. */
static void begin_group(const word_mean *m, const kmf_batch *b, workspace *own, size_t i)
{
    size_t n = kmf_min(b->n_pieces - i, GROUP);
    own->beg = i;
    own->end = i + n;
    memset(own->sums, 0, n * b->dim * sizeof *own->sums);
    for (size_t j = 0; j < m->n_lengths; j++)
        if (m->lengths[j].words.column)
            sum_counted(m, j, b, own);
    for (i = 0; i < n; i++) {
        own->off[i] = own->n_rows;
        list_words(m, b, own, &b->pieces[own->beg + i], i);
    }
    add_listed(m, own, n - 1);
}

/* A newline would be the end of a sequence; in a piece it is a letter like any that is none. */
static void drop_newlines(char *letters, size_t n)
{
    for (char *at = letters; (at = memchr(at, '\n', (size_t)(letters + n - at))) != NULL;)
        *at = '-';
}

static void start(const kmf_method *method, kmf_batch *batch, int worker)
{
    const word_mean *m = (const word_mean *)method;
    workspace *own = &m->workspaces[worker];
    own->beg = own->end = 0;
    drop_newlines(batch->letters, batch->n_units);
    for (size_t j = 0; j < m->n_lengths; j++)
        if (own->columns[j])
            kmf_columns_start(own->columns[j], batch->letters, batch->n_units);
}

/* The sum of a piece, in units: those of its group are made when its first piece's turn comes. */
static const double *sum_of(const word_mean *m, const kmf_batch *b, const kmf_piece *p,
                            workspace *own)
{
    size_t i = (size_t)(p - b->pieces);
    if (i == own->end)
        begin_group(m, b, own, i);
    return own->sums + (i - own->beg) * b->dim;
}

static void add_piece(const kmf_method *method, const kmf_batch *batch, kmf_piece *p,
                      double *sum, int worker)
{
    const word_mean *m = (const word_mean *)method;
    kmf_rowtable_scale(sum, sum_of(m, batch, p, &m->workspaces[worker]), &m->table);
}

static void mean_record(const kmf_method *method, const kmf_batch *batch, kmf_piece *p,
                        float *vector, int worker)
{
    const word_mean *m = (const word_mean *)method;
    const double *sum = sum_of(m, batch, p, &m->workspaces[worker]);
    kmf_rowtable_mean(vector, sum, &m->table, p->weight);
}

/* ---------------------------------------------------------------- the method ------------ */

static size_t bytes(const kmf_method *method)
{
    const word_mean *m = (const word_mean *)method;
    const kmf_vectors *v = m->vectors;
    size_t word = v->info.dim * sizeof *m->table.units + sizeof *v->code + sizeof *v->k;
    size_t total = 0;
    word += v->count ? sizeof *v->count : 0;
    word += m->weights ? sizeof *m->weights : 0;
    for (int k = v->info.k_min; k <= v->info.k_max; k++) {
        const kmf_words *words = &v->words[k];
        total += words->dense ? sizeof *words->dense << kmf_alphabet_bits(v->info.alphabet) * k
                              : words->n * (sizeof *words->codes + sizeof *words->rows);
    }
    for (size_t j = 0; j < m->n_lengths; j++) {
        const length *l = &m->lengths[j];
        total += kmf_wordrows_bytes(&l->words) + kmf_bytetable_bytes(&l->bytes);
        total += l->words.in_columns ? m->n_workspaces * kmf_columns_bytes(l->words.kind.k) : 0;
    }
    size_t per_workspace = sizeof(workspace) + (m->n_counts + LISTED) * sizeof(int32_t) +
                           GROUP * v->info.dim * sizeof(double) +
                           KMF_BYTETABLE_ROWS * m->n_words * sizeof(uint32_t);
    return total + v->info.n * word + m->n_workspaces * per_workspace;
}

static json_t *settings(const kmf_method *method, const kmf_embed_options *o)
{
    (void)method;
    return json_pack("{s:s, s:i, s:I}", "weights", kmf_weights_names[o->weights], "k", o->k,
                     "stride", (json_int_t)o->stride);
}

static void release(kmf_method *method)
{
    word_mean *m = (word_mean *)method;
    kmf_map_close(&m->file);
    kmf_map_close(&m->counts);
    kmf_vectors_free(m->vectors);
    kmf_free(m->weights);
    kmf_rowtable_free(&m->table);
    for (size_t j = 0; j < m->n_lengths; j++) {
        kmf_wordrows_free(&m->lengths[j].words);
        kmf_bytetable_free(&m->lengths[j].bytes);
    }
    for (size_t i = 0; m->workspaces && i < m->n_workspaces; i++) {
        kmf_free(m->workspaces[i].counts);
        kmf_free(m->workspaces[i].sums);
        kmf_free(m->workspaces[i].rows);
        kmf_digits_free(&m->workspaces[i].digits);
        for (size_t j = 0; j < m->n_lengths; j++)
            kmf_columns_free(m->workspaces[i].columns[j]);
    }
    kmf_free(m->workspaces);
    kmf_free(m->name);
    kmf_free(m);
}

static const kmf_method_kind kind = {.start = start,
                                     .piece = add_piece,
                                     .vector = mean_record,
                                     .bytes = bytes,
                                     .settings = settings,
                                     .free = release,
                                     .unknown =
                                         "k-mers that have no vector or were never seen"};

static void name_map(word_mean *m, size_t i, const char *key, const kmf_map *map)
{
    m->maps[i] = map;
    m->base.files[i] = (kmf_method_file){key, &m->maps[i], .n = 1, .keep = false};
}

/* What is hashed for the provenance is what was read: the same maps. */
static int load(word_mean *m, kmf_err *err)
{
    m->vectors = kmf_vectors_load_maps(m->name, &m->file, &m->counts, err);
    if (!m->vectors)
        return KMF_EMODEL;
    name_map(m, 0, "md5", &m->file);
    if (m->counts.len > 0)
        name_map(m, 1, "counts_md5", &m->counts);
    return 0;
}

static int choose_lengths(word_mean *m, const kmf_embed_options *o, kmf_err *err)
{
    const kmf_vectors_info *info = &m->vectors->info;
    for (int k = info->k_min; k <= info->k_max; k++) {
        if (m->vectors->words[k].n == 0 || (o->k != 0 && o->k != k))
            continue;
        kmf_kmer_kind words = {
            .alphabet = kmf_alphabet_of(info->alphabet), .k = k, .stride = o->stride};
        m->lengths[m->n_lengths++].words = kmf_wordrows_of(words, m->vectors);
    }
    if (m->n_lengths == 0)
        return kmf_fail(err, KMF_EINVAL, "%s: it has no words of %d letters", m->name, o->k);
    return 0;
}

/* Whether rows of words of k letters are looked up. */
static bool is_chosen(const word_mean *m, int k)
{
    for (size_t j = 0; j < m->n_lengths; j++)
        if (m->lengths[j].words.kind.k == k)
            return true;
    return false;
}

/* Words of weight 0 are no longer found where they have a table by code. */
static void drop_words(const word_mean *m)
{
    for (size_t j = 0; j < m->n_lengths; j++) {
        const kmf_kmer_kind *words = &m->lengths[j].words.kind;
        int32_t *dense = m->vectors->words[words->k].dense;
        for (size_t code = 0; dense && code < kmf_kmer_codes(words); code++)
            if (dense[code] >= 0 && m->weights[dense[code]] == 0)
                dense[code] = -1;
    }
}

/* Needed if words differ in weight, be it that some are left out. */
static int make_weights(word_mean *m, const kmf_embed_options *o, kmf_err *err)
{
    const kmf_vectors *v = m->vectors;
    bool sif = o->weights == KMF_WEIGHTS_SIF;
    double total[KMF_K_MAX + 1] = {0};
    if (sif && !v->info.counted)
        return kmf_fail(
            err, KMF_EMODEL,
            "%s: it does not tell how often its words occurred, which smooth inverse "
            "frequencies need",
            m->name);
    if (!sif && v->info.unseen == 0 && o->k == 0)
        return 0;
    m->weights = kmf_malloc(v->info.n, sizeof *m->weights, err);
    if (!m->weights)
        return KMF_ENOMEM;
    for (size_t row = 0; sif && row < v->info.n; row++)
        total[v->k[row]] += (double)v->count[row];
    for (size_t row = 0; row < v->info.n; row++) {
        double count = v->count ? (double)v->count[row] : 1;
        double w = sif ? SIF_A / (SIF_A + count / total[v->k[row]]) : 1;
        bool counts = count > 0 && is_chosen(m, v->k[row]);
        m->weights[row] = counts ? (uint64_t)(w * (double)KMF_WEIGHT_ONE + 0.5) : 0;
    }
    drop_words(m);
    for (size_t j = 0; j < m->n_lengths; j++) {
        kmf_wordrows *words = &m->lengths[j].words;
        kmf_wordrows_weigh(words, m->weights, !sif && v->words[words->kind.k].dense);
    }
    return 0;
}

static int make_table(word_mean *m, kmf_err *err)
{
    const kmf_vectors_info *info = &m->vectors->info;
    float *values = kmf_vectors_take_values(m->vectors);
    return kmf_rowtable_make(&m->table, m->name, values, m->weights, info->n, info->dim, err);
}

static int choose_pieces(word_mean *m, const kmf_embed_options *o, kmf_err *err)
{
    size_t n = o->stride < WINDOWS ? WINDOWS / o->stride : 1;
    size_t k_min = (size_t)m->lengths[0].words.kind.k;
    size_t k_max = (size_t)m->lengths[m->n_lengths - 1].words.kind.k;
    m->base.stretch = (kmf_stretch){
        .step = n * o->stride, .span = (n - 1) * o->stride + k_max, .least = k_min};
    if (o->stride == 1 && o->weights != KMF_WEIGHTS_SIF)
        m->base.exact_letters = KMF_ROWTABLE_EXACT / m->n_lengths;
    m->base.shape =
        kmf_batch_choose(o->batch_tokens, m->base.stretch.span, m->vectors->info.dim, false);
    for (size_t j = 0; j < m->n_lengths; j++) {
        length *l = &m->lengths[j];
        kmf_wordrows *words = &l->words;
        if (!m->vectors->words[words->kind.k].dense || n < kmf_kmer_codes(&words->kind))
            continue;
        if (kmf_wordrows_columns(words, err) < 0)
            return KMF_ENOMEM;
        m->n_counts = kmf_max(m->n_counts, words->n_rows + 1);
        if (words->n_rows == 0 || words->n_rows > KMF_BYTETABLE_MOST ||
            words->n_rows * m->table.dim * sizeof *m->table.units > FAR_BYTES)
            continue;
        if (kmf_bytetable_make(&l->bytes, &m->table, words->rows, words->n_rows, err) < 0)
            return KMF_ENOMEM;
        m->n_words = kmf_max(m->n_words, l->bytes.words);
    }
    return 0;
}

static int make_workspaces(word_mean *m, size_t n, kmf_err *err)
{
    m->workspaces = kmf_calloc(n, sizeof *m->workspaces, err);
    if (!m->workspaces)
        return KMF_ENOMEM;
    m->n_workspaces = n;
    for (size_t i = 0; i < n; i++) {
        workspace *own = &m->workspaces[i];
        own->sums = kmf_calloc(GROUP * m->table.dim, sizeof *own->sums, err);
        own->rows = kmf_malloc(LISTED, sizeof *own->rows, err);
        if (!own->sums || !own->rows)
            return KMF_ENOMEM;
        if (m->n_counts > 0)
            own->counts = kmf_calloc(m->n_counts, sizeof *own->counts, err);
        if (m->n_counts > 0 && !own->counts)
            return KMF_ENOMEM;
        if (m->n_words > 0 && kmf_digits_new(&own->digits, m->n_words, err) < 0)
            return KMF_ENOMEM;
        for (size_t j = 0; j < m->n_lengths; j++) {
            const kmf_wordrows *words = &m->lengths[j].words;
            if (!words->in_columns)
                continue;
            own->columns[j] = kmf_columns_new(words->kind.k, words->column, err);
            if (!own->columns[j])
                return KMF_ENOMEM;
        }
    }
    return 0;
}

kmf_method *kmf_wordmean_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    word_mean *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    m->base.kind = &kind;
    m->name = kmf_strdup(name, err);
    if (!m->name || load(m, err) < 0 ||
        kmf_settings_vectors(opts, name, &m->vectors->info, err) < 0)
        goto failed;
    if (choose_lengths(m, opts, err) < 0 || make_weights(m, opts, err) < 0 ||
        make_table(m, err) < 0 || choose_pieces(m, opts, err) < 0 ||
        make_workspaces(m, (size_t)opts->threads, err) < 0)
        goto failed;
    m->base.name = m->name;
    m->base.vectors = &m->vectors->info;
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
