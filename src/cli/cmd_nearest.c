/* SPDX-License-Identifier: MIT */
/*
 * kmerformer nearest: the k-mers whose vectors are nearest to that of a k-mer, or to a sum of
 * several. Of arrays, nearest_rows.c looks for rows.
 *
 * The arguments behind a file of k-mer vectors are read as one text: words, and + or - between two
 * of them.
 *
 *   text    =  query { query }
 *   query   =  word { ("+" | "-") word }
 *
 * So two words in a row belong to two queries. The vector of a query is the sum of its words'
 * vectors, each scaled to length 1 first, as gensim's most_similar does it: else frequent words,
 * whose vectors are longer, would outweigh the others.
 */
#include "cli/cli.h"
#include "cli/nearest.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct term {
    const char *word; /* borrowed from the text */
    size_t len;
    int sign; /* 1, -1; 0: the first of a query */
    size_t row;
} term;

typedef struct nearest_args {
    const char *path; /* for messages */
    cli_nearest_options o;
    size_t n;      /* o.n, or all k-mers that there are */
    char *text;    /* owned */
    term *terms;   /* owned */
    size_t *rows;  /* owned; of the terms */
    float *vector; /* owned [queries, dim] */
    double *sum;   /* owned [dim]; of the query that is being added up */
    kmf_neighbour *list;
    size_t n_terms;
    size_t n_queries;
} nearest_args;

static void free_args(nearest_args *a)
{
    free(a->text);
    free(a->terms);
    free(a->rows);
    free(a->vector);
    free(a->sum);
    free(a->list);
}

static int out_of_memory(kmf_err *err)
{
    return cli_raise(err, KMF_ENOMEM, "out of memory");
}

/* ---------------------------------------------------------------- queries --------------- */

static bool is_operator(char c)
{
    return c == '+' || c == '-';
}

static bool ends_word(char c)
{
    return c == '\0' || c == ' ' || c == '\t' || c == '\n' || is_operator(c);
}

/* The arguments in one text; terms and rows for as many words as it can have. */
static int join(nearest_args *a, const char *const *args, size_t n, kmf_err *err)
{
    size_t len = 1;
    for (size_t i = 0; i < n; i++)
        len += strlen(args[i]) + 1;
    a->text = calloc(len, 1);
    a->terms = calloc(len, sizeof *a->terms);
    a->rows = calloc(len, sizeof *a->rows);
    if (!a->text || !a->terms || !a->rows)
        return out_of_memory(err);
    char *p = a->text;
    for (size_t i = 0; i < n; i++) {
        size_t m = strlen(args[i]);
        memcpy(p, args[i], m);
        p += m;
        *p++ = ' ';
    }
    return 0;
}

static int read_terms(nearest_args *a, kmf_err *err)
{
    char pending = '\0'; /* an operator that waits for its second word */
    for (const char *p = a->text; *p;) {
        if (is_operator(*p)) {
            if (pending || a->n_terms == 0)
                return cli_raise(err, KMF_EINVAL, "'%c' has no k-mer before it", *p);
            pending = *p++;
        } else if (ends_word(*p)) {
            p++;
        } else {
            term *t = &a->terms[a->n_terms++];
            *t = (term){.word = p, .sign = pending == '+' ? 1 : pending == '-' ? -1 : 0};
            a->n_queries += !pending;
            while (!ends_word(*p))
                p++;
            t->len = (size_t)(p - t->word);
            pending = '\0';
        }
    }
    if (pending)
        return cli_raise(err, KMF_EINVAL, "'%c' has no k-mer behind it", pending);
    if (a->n_terms == 0)
        return cli_raise(err, KMF_EINVAL, "no k-mer given");
    return 0;
}

/* ---------------------------------------------------------------- words ----------------- */

static int wrong_length(const nearest_args *a, const kmf_vectors_info *info, const term *t,
                        kmf_err *err)
{
    char lengths[CLI_LENGTHS_TEXT];
    return cli_raise(err, KMF_EINVAL, "'%.*s' has %zu letters, the k-mers of %s have %s",
                     (int)(t->len < 64 ? t->len : 64), t->word, t->len, a->path,
                     cli_lengths(lengths, info));
}

/* The row of a term's word. */
static int find(const nearest_args *a, const kmf_vectors *v, const kmf_vectors_info *info,
                term *t, kmf_err *err)
{
    uint64_t code;
    int k = (int)t->len;
    if (t->len > (size_t)kmf_alphabet_k_max(info->alphabet))
        return wrong_length(a, info, t, err);
    if (kmf_alphabet_encode(info->alphabet, &code, t->word, k) != 0)
        return cli_raise(err, KMF_EINVAL, "'%.*s': a letter is not one of %s", k, t->word,
                         kmf_alphabet_letters(info->alphabet));
    if (k < info->k_min || k > info->k_max)
        return wrong_length(a, info, t, err);
    int64_t row = kmf_vectors_find(v, code, k);
    if (row < 0)
        return cli_raise(err, KMF_EMODEL, "'%.*s' has no vector in %s", k, t->word, a->path);
    t->row = (size_t)row;
    if (info->counted && kmf_vectors_count(v, t->row) == 0)
        return cli_raise(err, KMF_EMODEL,
                         "'%.*s' never occurred in training: its vector says nothing", k,
                         t->word);
    return 0;
}

static double length_of(const float *x, size_t dim)
{
    double sum = 0;
    for (size_t i = 0; i < dim; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* sum += sign x / |x| */
static int add_word(double *sum, const kmf_vectors *v, size_t dim, const term *t, kmf_err *err)
{
    const float *x = kmf_vectors_row(v, t->row);
    double length = length_of(x, dim);
    if (length == 0)
        return cli_raise(err, KMF_EMODEL, "the vector of '%.*s' is 0", (int)t->len, t->word);
    double scale = (t->sign < 0 ? -1 : 1) / length;
    for (size_t i = 0; i < dim; i++)
        sum[i] += (double)x[i] * scale;
    return 0;
}

/*
 * to = sum, of n vectors of length 1. False: nothing is left of them but what rounding leaves, as
 * of x and y less x and y; the j-th sum is no longer than j, and off by half an epsilon of that.
 */
static bool take_sum(float *to, const double *sum, size_t dim, size_t n)
{
    double square = 0;
    for (size_t i = 0; i < dim; i++) {
        to[i] = (float)sum[i];
        square += sum[i] * sum[i];
    }
    return sqrt(square) > DBL_EPSILON * (double)n * (double)n;
}

/* The vectors of all queries. */
static int make_queries(nearest_args *a, const kmf_vectors *v, const kmf_vectors_info *info,
                        kmf_err *err)
{
    size_t dim = info->dim;
    size_t n = 0; /* terms of the query */
    assert(a->n_queries > 0);
    float *x = a->vector = calloc(a->n_queries, dim * sizeof *x);
    double *sum = a->sum = calloc(dim, sizeof *sum);
    if (!x || !sum)
        return out_of_memory(err);
    for (size_t i = 0; i < a->n_terms; i++) {
        term *t = &a->terms[i];
        int status = find(a, v, info, t, err);
        if (status == 0)
            status = add_word(sum, v, dim, t, err);
        if (status < 0)
            return status;
        a->rows[i] = t->row;
        n++;
        if (i + 1 < a->n_terms && a->terms[i + 1].sign != 0)
            continue;
        if (!take_sum(x, sum, dim, n))
            return cli_raise(err, KMF_EINVAL, "the vectors up to '%.*s' add up to 0",
                             (int)t->len, t->word);
        memset(sum, 0, dim * sizeof *sum);
        n = 0;
        x += dim;
    }
    return 0;
}

/* ---------------------------------------------------------------- answers --------------- */

static int print_query(kmf_out *out, const kmf_vectors_info *info, const term *first, size_t n,
                       kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    int status = 0;
    for (const term *t = first; t < first + n && status == 0; t++) {
        uint64_t code = 0;
        kmf_alphabet_encode(info->alphabet, &code, t->word, (int)t->len);
        kmf_alphabet_decode(info->alphabet, word, code, (int)t->len);
        status = kmf_out_print(out, err, "%s%s",
                               t->sign > 0   ? " + "
                               : t->sign < 0 ? " - "
                                             : "",
                               word);
    }
    return status;
}

static int print_neighbour(kmf_out *out, const kmf_vectors *v, const kmf_vectors_info *info,
                           int64_t rank, const kmf_neighbour *near, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    kmf_vectors_word(v, near->row, word);
    int status =
        kmf_out_print(out, err, "\t%" PRId64 "\t%s\t%.6f\t", rank, word, (double)near->cosine);
    if (status < 0)
        return status;
    return info->counted
               ? kmf_out_print(out, err, "%" PRIu64 "\n", kmf_vectors_count(v, near->row))
               : kmf_out_print(out, err, ".\n");
}

static int answer(const nearest_args *a, kmf_out *out, const kmf_vectors *v,
                  const kmf_vectors_info *info, kmf_err *err)
{
    const float *x = a->vector;
    int status = kmf_out_print(out, err, "#query\trank\tkmer\tcosine\tcount\n");
    for (size_t first = 0, n; first < a->n_terms && status == 0; first += n, x += info->dim) {
        n = 1;
        while (first + n < a->n_terms && a->terms[first + n].sign != 0)
            n++;
        int64_t got = kmf_vectors_nearest(v, x, a->o.k, a->rows + first, n, a->list, a->n, err);
        if (got < 0)
            return (int)got;
        for (int64_t i = 0; i < got && status == 0; i++) {
            status = print_query(out, info, a->terms + first, n, err);
            if (status == 0)
                status = print_neighbour(out, v, info, i + 1, &a->list[i], err);
        }
    }
    return status;
}

static void tell(const cli *run, const nearest_args *a, const kmf_vectors_info *info)
{
    char lengths[CLI_LENGTHS_TEXT];
    if (info->foreign > 0)
        cli_warn(run, "%s: %zu words that are no k-mers are skipped", a->path, info->foreign);
    if (run->verbose)
        cli_note(run, "%s: %zu k-mers of %s, %s letters%s, vectors of %zu numbers", a->path,
                 info->n, kmf_alphabet_names[info->alphabet], cli_lengths(lengths, info),
                 info->canonical ? ", canonical" : "", info->dim);
}

static int nearest(const cli *run, nearest_args *a, const kmf_vectors *v, kmf_err *err)
{
    char lengths[CLI_LENGTHS_TEXT];
    kmf_vectors_info info;
    kmf_vectors_information(v, &info);
    tell(run, a, &info);
    if (a->o.k != 0 && (a->o.k < info.k_min || a->o.k > info.k_max))
        return cli_raise(err, KMF_EINVAL, "-k %d: the k-mers of %s have %s letters", a->o.k,
                         a->path, cli_lengths(lengths, &info));
    a->n = a->o.n < info.n ? a->o.n : info.n;
    a->list = malloc(a->n * sizeof *a->list);
    if (!a->list)
        return out_of_memory(err);
    int status = make_queries(a, v, &info, err);
    kmf_out *out = status == 0 ? kmf_out_open(a->o.out, err) : NULL;
    if (!out)
        return (int)err->code;
    return kmf_out_end(out, answer(a, out, v, &info, err), err);
}

/* The options fit k-mers; inputs: VECTORS KMER... */
static int nearest_words(cli *run, const cli_nearest_options *o)
{
    kmf_err err = {0};
    const char *path = run->inputs[0];
    nearest_args a = {.path = cli_input_name(path), .o = *o};
    kmf_vectors *vectors = NULL;
    int status = join(&a, run->inputs + 1, run->n_inputs - 1, &err);
    if (status == 0)
        status = read_terms(&a, &err);
    if (status == 0 && cli_is_folder(path)) {
        status = cli_raise(&err, KMF_EMODEL,
                           "%s: a directory; nearest asks a file of k-mer vectors, as word2vec "
                           "writes it",
                           a.path);
    } else if (status == 0) {
        vectors = kmf_vectors_load(path, &err);
        status = vectors ? nearest(run, &a, vectors, &err) : (int)err.code;
    }
    kmf_vectors_free(vectors);
    free_args(&a);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}

int cli_nearest(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "nearest [options] VECTORS KMER... | REFERENCES.npy QUERIES.npy...",
        "The k-mers whose vectors point nearest to that of each KMER: a table of query, rank,\n"
        "k-mer, cosine and, if the file has it, how often the k-mer occurred in training.\n"
        "KMER may be a sum, 'ACGTA + CGT - TTTTT', of the k-mers' vectors, each scaled to\n"
        "length 1; the k-mers of a query are left out of its answer.\n"
        "VECTORS: from kmerformer word2vec, word2vec.c, gensim, fastText or dna2vec.\n"
        "\n"
        "Or the rows of REFERENCES.npy, as of genomes, that point nearest to each row of\n"
        "QUERIES.npy, as of reads: arrays of kmerformer embed, or of NumPy. A table of query,\n"
        "rank, name and cosine; all pairs are compared. A row without a vector, or of zeros,\n"
        "is nobody's neighbour, and has NA for its own. In its own file a row is not its own.",
        2, -1};
    cli_nearest_options o = {.n = 10,
                             .out = "-",
                             .threads = kmf_threads_default(),
                             .keeping = CLI_RESUMABLE_DEFAULT};
    const cli_option table[] = {{"n", "number", CLI_SIZE, &o.n, 1, INT64_MAX, NULL, "N",
                                 "neighbours for each query", 0, NULL},
                                {"k", "kmer", CLI_INT, &o.k, 1, KMF_K_MAX, NULL, "K",
                                 "look among the k-mers of K letters alone", 0, "all"},
                                {"o", "output", CLI_TEXT, &o.out, 0, 0, NULL, "FILE",
                                 "compressed if it ends in .gz; -: standard output", 0, NULL},
                                {"t@", "threads", CLI_INT, &o.threads, 1, KMF_THREADS_MAX, NULL,
                                 "N", "threads, for arrays; k-mers need no more than one", 0,
                                 NULL},
                                CLI_RESUMABLE_OPTIONS(&o.keeping, "arrays, "),
                                CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n = run->n_inputs;
    bool arrays = cli_is_array(paths[0]);
    if (cli_is_an_input(o.out, paths, arrays ? n : 1))
        return cli_wrong(run, "-o %s: that is an input", o.out);
    leave = cli_refuse_table(run, o.out);
    if (leave < 0 && !arrays)
        leave = cli_resumable_refuse_options(run, &o.keeping,
                                             "for arrays; a search of k-mers has no "
                                             "checkpoints");
    if (leave >= 0)
        return leave;
    return arrays ? cli_nearest_rows(run, &o, paths, n) : nearest_words(run, &o);
}
