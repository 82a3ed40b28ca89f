/* SPDX-License-Identifier: MIT */
/*
 * Labelled records in memory, sorted into parts.
 *
 *   text     name \0 sequence \0 label \0 | name \0 ...       one buffer, offsets into it; of
 *            records whose vectors are made the sequence is empty
 *   entries  in the order of reading      -> settle ->        fit, dev of train, dev, test
 *
 * What is drawn depends on the seed and on the records of each class alone: the records of class
 * number c, in input order, are shuffled by the numbers of stream c, and the first ones are taken.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "embed/rowfile.h"
#include "seq/labels.h"
#include "seq/textseq.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Streams of the two drawings; classes count up from them. */
#define TEST_STREAM ((uint64_t)1 << 32)
#define DEV_STREAM ((uint64_t)2 << 32)

typedef struct entry {
    size_t name, seq, label; /* offsets in the text */
    size_t len;
    size_t number; /* in the order of reading */
    uint64_t row;  /* of its file, if its vector is made */
    kmf_role from; /* as it was read */
    kmf_role role;
    bool drawn; /* of train: it is dev for the time of choosing */
    int32_t y;  /* -1: left out */
} entry;

struct kmf_samples {
    kmf_text text;  /* owned */
    entry *entries; /* owned [n] */
    size_t n, cap;
    const char **classes; /* owned; borrowed from the text */
    size_t n_classes;
    int32_t *y;                       /* owned [n] */
    size_t unlabelled;                /* passed over */
    bool cut_short;                   /* an input was not read to its end */
    kmf_row_file *files[KMF_N_ROLES]; /* owned; where vectors are made; NULL: none */
};

kmf_samples *kmf_samples_new(kmf_err *err)
{
    return kmf_calloc(1, sizeof(kmf_samples), err);
}

void kmf_samples_free(kmf_samples *s)
{
    if (!s)
        return;
    kmf_free(s->text.bytes);
    kmf_free(s->entries);
    kmf_free(s->classes);
    kmf_free(s->y);
    for (size_t i = 0; i < KMF_N_ROLES; i++)
        kmf_row_file_close(s->files[i]);
    kmf_free(s);
}

/* ---------------------------------------------------------------- reading ---------------- */

/* Returns the offset of the copy; the room is there. */
static size_t put(kmf_text *text, const char *bytes, size_t n)
{
    size_t at = text->len;
    memcpy(text->bytes + at, bytes, n);
    text->bytes[at + n] = '\0';
    text->len += n + 1;
    return at;
}

/* A record of so many bases, or of none whose vector is in a row. */
static int add(kmf_samples *s, kmf_role role, const char *name, const char *seq, size_t len,
               const char *label, kmf_err *err)
{
    size_t n_name = strlen(name);
    size_t n_label = strlen(label);
    if (kmf_text_reserve(&s->text, n_name + len + n_label + 3, err) < 0 ||
        kmf_grow(&s->entries, &s->cap, s->n + 1, sizeof *s->entries, err) < 0)
        return KMF_ENOMEM;
    entry *e = &s->entries[s->n];
    *e = (entry){.len = len, .from = role, .role = role, .number = s->n};
    s->n++;
    e->name = put(&s->text, name, n_name);
    e->seq = put(&s->text, seq, len);
    e->label = put(&s->text, label, n_label);
    return 0;
}

static int fail_cut_short(kmf_err *err)
{
    return kmf_fail(err, KMF_EINVAL, "an input was not read to its end");
}

/* Whether records of this kind may come now. */
static int check_reading(const kmf_samples *s, kmf_role role, bool rows, kmf_err *err)
{
    bool has_rows = s->files[0] || s->files[1] || s->files[2];
    if ((unsigned)role >= KMF_N_ROLES)
        return kmf_fail(err, KMF_EINVAL, "there is no role number %d", (int)role);
    if (s->classes)
        return kmf_fail(err, KMF_EINVAL, "the samples are settled already");
    if (s->cut_short)
        return fail_cut_short(err);
    if (s->n > 0 && has_rows != rows)
        return kmf_fail(err, KMF_EINVAL, "samples are either sequences or rows");
    if (rows && s->files[role])
        return kmf_fail(err, KMF_EINVAL, "the rows of that part are there already");
    return 0;
}

static int fail_empty(kmf_role role, kmf_err *err)
{
    static const char *const names[KMF_N_ROLES] = {"train", "choose by", "test"};
    return kmf_fail(err, KMF_EFORMAT, "no records to %s", names[role]);
}

static int read_records(kmf_samples *s, kmf_role role, kmf_labelled *input, kmf_err *err)
{
    kmf_labelled_record rec;
    int status;
    while ((status = kmf_labelled_next(input, &rec, err)) > 0) {
        status = add(s, role, rec.name, rec.seq, rec.len, rec.label, err);
        if (status < 0)
            return status;
    }
    return status;
}

/* What came of reading an input, before which there were so many records. */
static int end_reading(kmf_samples *s, kmf_role role, size_t before, int status, kmf_err *err)
{
    s->cut_short = status < 0;
    return status == 0 && s->n == before ? fail_empty(role, err) : status;
}

int kmf_samples_read(kmf_samples *s, kmf_role role, kmf_labelled *input, kmf_err *err)
{
    size_t before = s->n;
    int status = check_reading(s, role, false, err);
    if (status < 0)
        return status;
    status = read_records(s, role, input, err);
    s->unlabelled += kmf_labelled_skipped(input);
    return end_reading(s, role, before, status, err);
}

/* Made in the same way as the parts before, as far as these tell. */
static int check_alike(const kmf_samples *s, const kmf_row_file *file, kmf_err *err)
{
    int status = kmf_row_file_check_records(file, err);
    for (size_t i = 0; i < KMF_N_ROLES && status == 0; i++)
        if (s->files[i])
            status = kmf_row_file_check_alike(file, s->files[i], err);
    return status;
}

static int read_rows(kmf_samples *s, kmf_role role, const char *path,
                     const kmf_labelled_options *opts, const kmf_labels *labels, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    kmf_row row;
    int status;
    for (uint64_t i = 0; (status = kmf_row_file_line(s->files[role], &row, err)) > 0; i++) {
        const char *label = kmf_labels_find(labels, row.name);
        s->unlabelled += !label;
        if (!label && opts->skip_unlabelled)
            continue;
        if (!label)
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: row %" PRIu64 ", '%s', has no label in %s (skip-unlabelled "
                            "leaves such rows out)",
                            path, i + 1, kmf_err_show(shown, row.name), opts->labels);
        status = add(s, role, row.name, "", 0, label, err);
        if (status < 0)
            return status;
        s->entries[s->n - 1].row = i;
    }
    return status;
}

int kmf_samples_read_rows(kmf_samples *s, kmf_role role, const char *path,
                          const kmf_labelled_options *opts, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    int status = opts->labels
                     ? check_reading(s, role, true, err)
                     : kmf_fail(err, KMF_EINVAL, "%s: rows need a file of labels", path);
    if (status < 0)
        return status;
    kmf_row_file *file = kmf_row_file_open(path, err);
    if (!file)
        return (int)err->code;
    status = check_alike(s, file, err);
    if (status < 0) {
        kmf_row_file_close(file);
        return status;
    }
    size_t before = s->n;
    s->files[role] = file;
    kmf_labels *names = kmf_labels_load(opts->labels, err);
    status = names ? read_rows(s, role, path, opts, names, err) : (int)err->code;
    kmf_labels_free(names);
    return end_reading(s, role, before, status, err);
}

/* ---------------------------------------------------------------- classes ---------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int kmf_samples_alike(const kmf_samples *s, kmf_role a, kmf_role b, size_t *n,
                      const char **name, kmf_err *err)
{
    size_t n_names = 0;
    const char **names = kmf_malloc(s->n, sizeof *names, err);
    *n = 0;
    *name = NULL;
    if (!names)
        return KMF_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].from == a)
            names[n_names++] = s->text.bytes + s->entries[i].name;
    if (n_names > 1)
        qsort(names, n_names, sizeof *names, by_text);
    for (size_t i = 0; i < s->n && n_names > 0; i++) {
        const char *other = s->text.bytes + s->entries[i].name;
        if (s->entries[i].from != b || !bsearch(&other, names, n_names, sizeof *names, by_text))
            continue;
        *name = *n == 0 ? other : *name;
        ++*n;
    }
    kmf_free(names);
    return 0;
}

/* All labels, each once, in s->classes; every entry's y is its number there. */
static int number_classes(kmf_samples *s, kmf_err *err)
{
    size_t n = 0;
    s->classes = kmf_malloc(s->n, sizeof *s->classes, err);
    if (!s->classes)
        return KMF_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        s->classes[i] = s->text.bytes + s->entries[i].label;
    if (s->n > 1)
        qsort(s->classes, s->n, sizeof *s->classes, by_text);
    for (size_t i = 0; i < s->n; i++)
        if (n == 0 || strcmp(s->classes[n - 1], s->classes[i]) != 0)
            s->classes[n++] = s->classes[i];
    s->n_classes = n;
    for (size_t i = 0; i < s->n; i++) {
        const char *label = s->text.bytes + s->entries[i].label;
        const char **found = bsearch(&label, s->classes, n, sizeof *s->classes, by_text);
        s->entries[i].y = (int32_t)(found - s->classes);
    }
    return 0;
}

static void count_train(const kmf_samples *s, size_t *count)
{
    memset(count, 0, s->n_classes * sizeof *count);
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].role == KMF_ROLE_TRAIN)
            count[s->entries[i].y]++;
}

/* The classes of train come first, those that it lacks after them; both by their names. */
static int order_classes(kmf_samples *s, const kmf_samples_options *o, kmf_samples_info *info,
                         kmf_err *err)
{
    size_t *count = kmf_calloc(s->n_classes, sizeof *count, err);
    int32_t *now = kmf_calloc(s->n_classes, sizeof *now, err);
    const char **names = kmf_calloc(s->n_classes, sizeof *names, err);
    int status = count && now && names ? 0 : KMF_ENOMEM;
    if (status == 0) {
        size_t n = 0;
        count_train(s, count);
        for (int known = 1; known >= 0; known--) {
            for (size_t c = 0; c < s->n_classes; c++) {
                bool small = count[c] > 0 && count[c] < o->min_class;
                info->classes_left_out += known && small;
                if (small)
                    now[c] = -1;
                if (small || (count[c] > 0) != known)
                    continue;
                names[n] = s->classes[c];
                now[c] = (int32_t)n++;
            }
            info->n_classes = known ? n : info->n_classes;
        }
        info->n_all = n;
        memcpy(s->classes, names, n * sizeof *names);
        for (size_t i = 0; i < s->n; i++)
            s->entries[i].y = now[s->entries[i].y];
    }
    kmf_free(count);
    kmf_free(now);
    kmf_free(names);
    return status;
}

/* ---------------------------------------------------------------- drawing ---------------- */

/*
 * The records of train by their classes, in input order: those of class c are list[begin[c]] ..
 * list[begin[c + 1] - 1]. list [n], begin [n_classes + 1]. One pass for all classes: there may be
 * nearly as many as records, most of them to be left out.
 */
static void list_train(const kmf_samples *s, size_t n_classes, size_t *list, size_t *begin)
{
    memset(begin, 0, (n_classes + 1) * sizeof *begin);
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].role == KMF_ROLE_TRAIN && s->entries[i].y >= 0)
            begin[s->entries[i].y + 1]++;
    for (size_t c = 0; c < n_classes; c++)
        begin[c + 1] += begin[c];
    for (size_t i = 0; i < s->n; i++)
        if (s->entries[i].role == KMF_ROLE_TRAIN && s->entries[i].y >= 0)
            list[begin[s->entries[i].y]++] = i;
    memmove(begin + 1, begin, n_classes * sizeof *begin);
    begin[0] = 0;
}

/*
 * Marks the share of each class of train: they become test, or drawn. rows [n], begin
 * [n_classes + 1]: room. n_classes: those that train may have.
 */
static void draw(kmf_samples *s, size_t n_classes, double share, bool test, uint64_t seed,
                 size_t *rows, size_t *begin)
{
    list_train(s, n_classes, rows, begin);
    for (size_t c = 0; c < n_classes; c++) {
        kmf_rng rng = kmf_rng_stream(seed, (test ? TEST_STREAM : DEV_STREAM) + c);
        size_t *list = rows + begin[c];
        size_t n = begin[c + 1] - begin[c];
        size_t take = (size_t)floor(share * (double)n + 0.5);
        take = take < n ? take : n > 0 ? n - 1 : 0;
        for (size_t i = 0; i < take; i++) {
            size_t j = i + (size_t)kmf_rng_below(&rng, n - i);
            size_t t = list[i];
            list[i] = list[j];
            list[j] = t;
            if (test)
                s->entries[list[i]].role = KMF_ROLE_TEST;
            else
                s->entries[list[i]].drawn = true;
        }
    }
}

static int rank(const entry *e)
{
    return e->y < 0 ? KMF_N_ROLES + 1 : e->role == KMF_ROLE_TRAIN ? e->drawn : (int)e->role + 1;
}

static int by_rank(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    int order = rank(x) - rank(y);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static size_t count_part(const kmf_samples *s, kmf_role role)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->entries[i].role == role && s->entries[i].y >= 0;
    return n;
}

/* Records of classes that train lacks. */
static int count_unknown(const kmf_samples *s, kmf_samples_info *info, kmf_err *err)
{
    bool *seen = kmf_calloc(info->n_all, sizeof *seen, err); /* in the test part */
    if (!seen)
        return KMF_ENOMEM;
    for (size_t i = info->n_train; i < s->n; i++) {
        size_t c = (size_t)s->y[i];
        bool test = i >= info->test;
        if (c < info->n_classes)
            continue;
        info->unknown += test;
        info->dev_unknown += !test;
        info->classes_unknown += test && !seen[c];
        seen[c] = seen[c] || test;
    }
    kmf_free(seen);
    return 0;
}

/* Sorts the entries, drops those that are left out, and says where the parts lie. */
static int arrange(kmf_samples *s, kmf_samples_info *info, kmf_err *err)
{
    size_t n_drawn = 0;
    for (size_t i = 0; i < s->n; i++)
        n_drawn += s->entries[i].y >= 0 && s->entries[i].drawn;
    info->n_train = count_part(s, KMF_ROLE_TRAIN);
    info->n_test = count_part(s, KMF_ROLE_TEST);
    info->n_dev = count_part(s, KMF_ROLE_DEV);
    info->n = info->n_train + info->n_dev + info->n_test;
    info->test = info->n_train + info->n_dev;
    info->n_fit = info->n_train - n_drawn;
    info->dev = info->n_fit;
    info->n_dev += n_drawn;
    info->left_out = s->n - info->n;
    qsort(s->entries, s->n, sizeof *s->entries, by_rank);
    s->n = info->n;
    s->y = kmf_calloc(s->n, sizeof *s->y, err);
    if (!s->y)
        return KMF_ENOMEM;
    for (size_t i = 0; i < s->n; i++)
        s->y[i] = s->entries[i].y;
    return count_unknown(s, info, err);
}

void kmf_samples_options_default(kmf_samples_options *opts)
{
    *opts =
        (kmf_samples_options){.test_share = 0.2, .dev_share = 0.2, .min_class = 2, .seed = 1};
}

static int check_options(const kmf_samples *s, const kmf_samples_options *o, kmf_err *err)
{
    if (s->classes)
        return kmf_fail(err, KMF_EINVAL, "the samples are settled already");
    if (s->cut_short)
        return fail_cut_short(err);
    if (!(o->test_share > 0 && o->test_share < 1) || !(o->dev_share > 0 && o->dev_share < 1))
        return kmf_fail(err, KMF_EINVAL, "a share must be above 0 and below 1");
    if (s->n > INT32_MAX)
        return kmf_fail(err, KMF_ENOMEM, "more than %d records", INT32_MAX);
    return s->n > 0 ? 0 : kmf_fail(err, KMF_EFORMAT, "no records");
}

static int check_parts(const kmf_samples_info *info, const kmf_samples_options *o,
                       bool dev_read, kmf_err *err)
{
    if (info->n_classes < 2)
        return kmf_fail(err, KMF_EFORMAT,
                        "%zu classes to learn: it takes two or more, each with %zu records or "
                        "more to train",
                        info->n_classes, o->min_class);
    if (dev_read && info->n_dev == 0)
        return kmf_fail(err, KMF_EFORMAT,
                        "no record is left to choose by: their classes have fewer than %zu "
                        "records to train",
                        o->min_class);
    if (!o->no_dev && (info->n_dev == 0 || info->n_fit == 0))
        return kmf_fail(err, KMF_EFORMAT,
                        "no class has the %.0f records to train of which one is kept back to "
                        "choose by: more are needed, or some given for that",
                        ceil(0.5 / o->dev_share));
    if (!o->no_test && info->n_test == 0)
        return kmf_fail(err, KMF_EFORMAT, "no record is left to test");
    return 0;
}

int kmf_samples_settle(kmf_samples *s, const kmf_samples_options *opts, kmf_samples_info *info,
                       kmf_err *err)
{
    int status = check_options(s, opts, err);
    if (status < 0)
        return status; /* of one that is settled info stays what it is */
    *info = (kmf_samples_info){.unlabelled = s->unlabelled};
    size_t *list = kmf_malloc(s->n, sizeof *list, err);
    size_t *begin = kmf_malloc(s->n + 1, sizeof *begin, err);
    bool dev_read = false;
    status = list && begin ? number_classes(s, err) : KMF_ENOMEM;
    if (status == 0) {
        dev_read = count_part(s, KMF_ROLE_DEV) > 0; /* before classes are left out */
        if (!opts->no_test && count_part(s, KMF_ROLE_TEST) == 0)
            draw(s, s->n_classes, opts->test_share, true, opts->seed, list, begin);
        status = order_classes(s, opts, info, err);
    }
    if (status == 0) {
        if (!dev_read && !opts->no_dev)
            draw(s, info->n_classes, opts->dev_share, false, opts->seed, list, begin);
        status = arrange(s, info, err);
    }
    kmf_free(list);
    kmf_free(begin);
    return status < 0 ? status : check_parts(info, opts, dev_read, err);
}

/* ---------------------------------------------------------------- asked ------------------ */

void kmf_samples_get(const kmf_samples *s, size_t i, kmf_sample *sample)
{
    const entry *e = &s->entries[i];
    *sample = (kmf_sample){.name = s->text.bytes + e->name,
                           .seq = s->text.bytes + e->seq,
                           .len = e->len,
                           .y = e->y};
}

const char *kmf_samples_class(const kmf_samples *s, size_t number)
{
    return s->classes[number];
}

const int32_t *kmf_samples_classes(const kmf_samples *s)
{
    return s->y;
}

typedef struct collect {
    float *x;
    size_t dim, n, most;
} collect;

static int take_row(void *user, const kmf_row *row, kmf_err *err)
{
    collect *c = user;
    if (row->index != c->n || c->n == c->most)
        return kmf_fail(err, KMF_EINVAL, "the embedder has other records under way");
    memcpy(c->x + c->n++ * c->dim, row->vector, c->dim * sizeof *c->x);
    return 0;
}

int kmf_samples_embed(const kmf_samples *s, kmf_embedder *embedder, float *x, kmf_err *err)
{
    collect c = {.x = x, .dim = kmf_embedder_dim(embedder), .most = s->n};
    kmf_embed_options used;
    int status = 0;
    kmf_embedder_options(embedder, &used);
    if (kmf_samples_rows(s))
        return kmf_fail(err, KMF_EINVAL, "the samples are rows, whose vectors are made");
    if (used.pooling == KMF_POOL_NONE || used.n_shards > 1)
        return kmf_fail(err, KMF_EINVAL, "one vector for each record is needed");
    kmf_embedder_sink(embedder, take_row, &c);
    for (size_t i = 0; i < s->n && status == 0; i++) {
        const entry *e = &s->entries[i];
        status = kmf_embedder_add(embedder, s->text.bytes + e->name, s->text.bytes + e->seq,
                                  e->len, err);
    }
    if (status == 0)
        status = kmf_embedder_finish(embedder, err);
    kmf_embedder_sink(embedder, NULL, NULL);
    return status;
}

const kmf_row_file *kmf_samples_rows(const kmf_samples *s)
{
    return s->files[KMF_ROLE_TRAIN];
}

int kmf_samples_vectors(const kmf_samples *s, float *x, kmf_err *err)
{
    kmf_row_file_info info;
    int status = 0;
    if (!s->files[KMF_ROLE_TRAIN] || !s->classes)
        return kmf_fail(err, KMF_EINVAL, "the samples are no rows, or not settled");
    kmf_row_file_information(s->files[KMF_ROLE_TRAIN], &info);
    for (size_t i = 0; i < s->n && status == 0; i++) {
        const entry *e = &s->entries[i];
        status = kmf_row_file_vector(s->files[e->from], e->row, x + i * info.dim, err);
    }
    for (size_t i = 0; i < KMF_N_ROLES && status == 0; i++)
        status = s->files[i] ? kmf_row_file_check_bytes(s->files[i], err) : 0;
    return status;
}
