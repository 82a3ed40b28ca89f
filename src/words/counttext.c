/* SPDX-License-Identifier: MIT */
/*
 * Tables of counts as text.
 *
 *   tsv      #kmerformer_vocab  1           version of the format
 *            #alphabet          dna         then the rest of kmf_counts_info, in its order
 *            ...
 *            #full              0           1: k-mers that were never seen are listed, with 0
 *            #kmer              count       the head of the columns
 *            ACGTAC             17          k-mers in code order
 *   vocab    [PAD] [UNK] [CLS] [SEP] [MASK], then the k-mers, one token a line
 *   dnabert  the same, k-mers sorted by A < T < C < G
 *
 * The bytes depend on what was counted alone: no names of files, no date, no version of the
 * program.
 *
 * Writing. The list is cut into pieces of at most PIECE lines, which are formatted by jobs and
 * written in order. What a piece is depends on what is listed:
 *
 *   k-mers of the table    entries i .. j - 1 of a block
 *   all k-mers             suffixes s .. t - 1 of a block; its entries are met on the way
 *   DNABERT's order        ranks r .. q - 1, each turned into its code and looked up
 *
 * Letters are written several at a time, by a table of the texts of all values of 10 bits of a
 * code (5 bases or 2 residues), from the first letter on: a store of 8 bytes is put right by
 * the store after it.
 *
 * DNABERT's order by letters A T C G is the order of codes with A=0 T=1 C=2 G=3; such a rank r
 * has the code whose two bits for each letter are (low, high ^ low) of r's.
 *
 * Reading is strict, for a table is made by programs: upper case, one tab, no leading zeros,
 * strict order. CRLF passes. What it comes to is compared with the header at the end.
 */
#include "words/countfile.h"

#include "base/err.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "seq/par.h"
#include "words/alphabet.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION 1
#define VERSION_NAME "kmerformer_vocab"
#define FULL_NAME "full"
#define COLUMNS "#kmer\tcount"

/* ---------------------------------------------------------------- writing ---------------- */

#define PIECE ((uint64_t)1 << 15)
#define N_SLOTS 8
#define COUNT_TEXT KMF_UINT_TEXT
#define CHUNK_BITS 10
#define CHUNK_TEXT 8
#define ODD_BITS 0x5555555555555555u

/* What is listed, and how; read by all jobs. */
typedef struct listing {
    const kmf_counts *counts; /* borrowed */
    kmf_counts_format format;
    bool full;
    bool with_count;
    unsigned code_bits;
    unsigned chunk_letters;
    unsigned chunk_bits;
    char chunk[1 << CHUNK_BITS][CHUNK_TEXT]; /* [2^chunk_bits]; its letters */
} listing;

/* A piece of the list. */
typedef struct piece {
    const listing *list; /* borrowed */
    uint64_t prefix;     /* of the block; 0 in DNABERT's order */
    uint64_t from, to;   /* entries, suffixes or ranks */
    char *text;          /* owned */
    size_t len;
} piece;

static void make_listing(listing *l, const kmf_counts *counts, kmf_counts_format format,
                         int full)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(counts->info.alphabet);
    unsigned bits = (unsigned)row->bits;
    *l = (listing){.counts = counts,
                   .format = format,
                   .full = full != 0,
                   .with_count = format == KMF_COUNTS_TSV,
                   .code_bits = bits * (unsigned)counts->info.k,
                   .chunk_letters = CHUNK_BITS / bits};
    l->chunk_bits = l->chunk_letters * bits;
    for (unsigned value = 0; value < 1u << l->chunk_bits; value++)
        for (unsigned i = 0; i < l->chunk_letters; i++) {
            unsigned shift = bits * (l->chunk_letters - 1 - i);
            unsigned letter = value >> shift & ((1u << bits) - 1);
            l->chunk[value][i] = letter < (unsigned)row->n_letters ? row->letters[letter] : '?';
        }
}

/* One line; may write a few bytes behind it. Returns its end. */
static char *put_line(const listing *l, char *to, uint64_t code, uint64_t count)
{
    unsigned k = (unsigned)l->counts->info.k;
    char *letters = to;
    code <<= 64 - l->code_bits;
    for (unsigned i = 0; i < k; i += l->chunk_letters) {
        memcpy(letters, l->chunk[code >> (64 - l->chunk_bits)], CHUNK_TEXT);
        letters += l->chunk_letters;
        code <<= l->chunk_bits;
    }
    to += k;
    if (l->with_count) {
        *to++ = '\t';
        to += kmf_format_uint(to, count);
    }
    *to++ = '\n';
    return to;
}

static size_t line_bytes(const listing *l)
{
    return (size_t)l->counts->info.k + 1 + COUNT_TEXT + 1;
}

static char *format_entries(const piece *p, char *to)
{
    const kmf_counts *c = p->list->counts;
    uint64_t first = p->prefix << c->cut.suffix_bits;
    uint64_t suffix;
    uint64_t count;
    uint64_t i = p->from;
    while (i < p->to && kmf_block_next(&c->blocks[p->prefix], &i, &suffix, &count) &&
           i <= p->to)
        to = put_line(p->list, to, first | suffix, count);
    return to;
}

/* The first entry of a block with a suffix not below `suffix`. */
static uint64_t entry_of(const kmf_block *block, uint64_t suffix)
{
    uint64_t beg = 0;
    uint64_t end = block->n;
    uint64_t found;
    uint64_t count;
    if (block->suffix_width == 0)
        return suffix;
    while (beg < end) {
        uint64_t middle = beg + (end - beg) / 2;
        uint64_t next = middle;
        if (kmf_block_next(block, &next, &found, &count) && found < suffix)
            beg = middle + 1;
        else
            end = middle;
    }
    return beg;
}

static char *format_suffixes(const piece *p, char *to)
{
    const kmf_counts *c = p->list->counts;
    const kmf_counts_info *info = &c->info;
    const kmf_block *block = &c->blocks[p->prefix];
    uint64_t first = p->prefix << c->cut.suffix_bits;
    uint64_t i = entry_of(block, p->from);
    uint64_t seen; /* the next suffix with a count */
    uint64_t count;
    bool more = kmf_block_next(block, &i, &seen, &count);
    uint64_t code = kmf_alphabet_round_up(info->alphabet, info->k, first | p->from);
    while (code - first < p->to) {
        if (more && (first | seen) == code) {
            to = put_line(p->list, to, code, count);
            more = kmf_block_next(block, &i, &seen, &count);
        } else if (!info->canonical || kmf_kmer_canonical(code, info->k) == code) {
            to = put_line(p->list, to, code, 0);
        }
        code = kmf_alphabet_round_up(info->alphabet, info->k, code + 1);
    }
    return to;
}

static char *format_ranks(const piece *p, char *to)
{
    const kmf_counts *c = p->list->counts;
    for (uint64_t rank = p->from; rank < p->to; rank++) {
        uint64_t code = (rank & ODD_BITS) << 1 | ((rank >> 1 ^ rank) & ODD_BITS);
        if (c->info.canonical && kmf_kmer_canonical(code, c->info.k) != code)
            continue;
        uint64_t count = kmf_counts_get(c, code);
        if (count > 0 || p->list->full)
            to = put_line(p->list, to, code, count);
    }
    return to;
}

/* A kmf_job_fn. */
static void *format_piece(void *arg)
{
    piece *p = arg;
    char *end;
    if (p->list->format == KMF_COUNTS_DNABERT)
        end = format_ranks(p, p->text);
    else if (p->list->full)
        end = format_suffixes(p, p->text);
    else
        end = format_entries(p, p->text);
    p->len = (size_t)(end - p->text);
    return p;
}

/* Moves p on to the piece after it; false: there is none. Begin with from = to = prefix = 0. */
static bool next_piece(piece *p, const listing *l)
{
    const kmf_counts *c = l->counts;
    bool by_rank = l->format == KMF_COUNTS_DNABERT;
    size_t n_blocks = by_rank ? 1 : c->n_blocks;
    p->from = p->to;
    for (; p->prefix < n_blocks; p->prefix++, p->from = 0) {
        uint64_t n = c->blocks[p->prefix].n;
        if (by_rank)
            n = (uint64_t)1 << l->code_bits;
        else if (l->full)
            n = (uint64_t)1 << c->cut.suffix_bits;
        if (p->from < n) {
            p->to = n - p->from < PIECE ? n : p->from + PIECE;
            return true;
        }
    }
    return false;
}

/* Pieces come in order: the block before that of p has been written. */
static int write_piece(const piece *p, kmf_out *out, kmf_err *err)
{
    if (p->from == 0 && p->prefix > 0)
        kmf_counts_leave(p->list->counts, p->prefix - 1);
    return kmf_out_write(out, p->text, p->len, err);
}

/*
 * Pieces in a ring: sent in order, fetched in order. Without helpers there is one slot, and a piece
 * is formatted where it would be sent.
 */
static int write_pieces(const listing *l, kmf_out *out, kmf_pool *pool, kmf_err *err)
{
    piece slots[N_SLOTS] = {{0}};
    piece at = {.list = l};
    size_t n_slots = pool ? N_SLOTS : 1;
    uint64_t sent = 0;
    uint64_t fetched = 0;
    int status = KMF_ENOMEM;
    kmf_queue *queue = pool ? kmf_queue_new(pool, N_SLOTS, err) : NULL;
    if (pool && !queue)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n_slots; i++) {
        slots[i].text = kmf_malloc(PIECE, line_bytes(l), err);
        if (!slots[i].text)
            goto out;
    }
    bool more = next_piece(&at, l);
    status = 0;
    while (status == 0 && (more || fetched < sent)) {
        if (more && sent - fetched < n_slots) {
            piece *slot = &slots[sent++ % n_slots];
            at.text = slot->text;
            *slot = at;
            if (queue)
                status = kmf_queue_send(queue, format_piece, slot, err);
            else
                format_piece(slot);
            more = next_piece(&at, l);
        } else {
            if (queue)
                kmf_queue_wait(queue);
            status = write_piece(&slots[fetched++ % n_slots], out, err);
        }
    }
out:
    kmf_queue_free(queue);
    for (size_t i = 0; i < n_slots; i++)
        kmf_free(slots[i].text);
    return status;
}

static int write_header(const kmf_counts_info *info, bool full, kmf_out *out, kmf_err *err)
{
    uint64_t values[KMF_N_INFO];
    kmf_counts_info_get(values, info);
    int status = kmf_out_print(out, err, "#%s\t%d\n#%s\t%s\n", VERSION_NAME, VERSION,
                               kmf_counts_info_names[KMF_INFO_ALPHABET],
                               kmf_alphabet_names[info->alphabet]);
    for (int i = KMF_INFO_ALPHABET + 1; i < KMF_N_INFO && status == 0; i++)
        status =
            kmf_out_print(out, err, "#%s\t%" PRIu64 "\n", kmf_counts_info_names[i], values[i]);
    if (status == 0)
        status = kmf_out_print(out, err, "#%s\t%d\n%s\n", FULL_NAME, full, COLUMNS);
    return status;
}

/* The special tokens, as a new vocabulary has them. */
static int write_specials(kmf_out *out, kmf_err *err)
{
    int status = 0;
    kmf_vocab *vocab = kmf_vocab_new(1, err);
    if (!vocab)
        return KMF_ENOMEM;
    for (int32_t id = 0; id < KMF_N_SPECIAL && status == 0; id++)
        status = kmf_out_print(out, err, "%s\n", kmf_vocab_token(vocab, id));
    kmf_vocab_free(vocab);
    return status;
}

int kmf_counttext_write(const kmf_counts *counts, kmf_out *out, kmf_counts_format format,
                        int full, kmf_pool *pool, kmf_err *err)
{
    assert(format != KMF_COUNTS_BINARY);
    int status = format == KMF_COUNTS_TSV ? write_header(&counts->info, full != 0, out, err)
                                          : write_specials(out, err);
    listing l;
    if (status < 0)
        return status;
    make_listing(&l, counts, format, full);
    status = write_pieces(&l, out, pool, err);
    kmf_counts_leave(counts, counts->n_blocks - 1);
    return status;
}

/* ---------------------------------------------------------------- reading ---------------- */

#define LINE_MAX_BYTES 127 /* the longest that can be right has 55 */

/* The lines of the header, one after another: version, info, full, columns. */
enum { LINE_VERSION, LINE_INFO, LINE_FULL = LINE_INFO + KMF_N_INFO, LINE_COLUMNS, N_HEADER };

struct kmf_counttext {
    const char *name;              /* borrowed */
    uint64_t n_lines;              /* read so far */
    uint64_t n_kmers;              /* lines of k-mers among them */
    char part[LINE_MAX_BYTES + 1]; /* a line that the bytes so far ended in */
    size_t n_part;

    uint64_t values[KMF_N_INFO];
    kmf_counts_info info;
    uint64_t full;
    uint8_t letter[256]; /* as kmf_alphabet_row.code, but upper case alone and no U */

    kmf_counts *counts;          /* owned */
    kmf_counts_builder *builder; /* owned */
    kmf_block_tally tally;
    uint64_t code; /* the last one */
};

kmf_counttext *kmf_counttext_new(const char *name, kmf_err *err)
{
    kmf_counttext *t = kmf_calloc(1, sizeof *t, err);
    if (!t)
        return NULL;
    t->name = name;
    t->tally.smallest = UINT64_MAX;
    return t;
}

void kmf_counttext_free(kmf_counttext *text)
{
    if (!text)
        return;
    kmf_counts_builder_free(text->builder);
    kmf_counts_free(text->counts);
    kmf_free(text);
}

/* The line under way does not fit: "name: line 7: 'text' why". */
static int bad_line(const kmf_counttext *t, const char *line, size_t n, const char *why,
                    kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL, "%s: line %" PRIu64 ": '%s' %s", t->name, t->n_lines,
                    kmf_err_show_n(shown, line, n), why);
}

/* A whole number as we write it. */
static bool read_number(uint64_t *number, const char *text, size_t n)
{
    uint64_t value = 0;
    if (n == 0 || n > COUNT_TEXT || (n > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned digit = (unsigned)((unsigned char)text[i] - '0');
        if (digit > 9 || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

/* The value of a line "#name<TAB>value". */
static const char *field_value(const char *line, size_t n, const char *name, size_t *n_value)
{
    size_t n_name = strlen(name);
    if (n < n_name + 2 || line[0] != '#' || memcmp(line + 1, name, n_name) != 0 ||
        line[n_name + 1] != '\t')
        return NULL;
    *n_value = n - n_name - 2;
    return line + n_name + 2;
}

static bool read_alphabet(uint64_t *alphabet, const char *text, size_t n)
{
    for (size_t a = 0; a < KMF_N_ALPHABETS; a++)
        if (strlen(kmf_alphabet_names[a]) == n && memcmp(kmf_alphabet_names[a], text, n) == 0) {
            *alphabet = a;
            return true;
        }
    return false;
}

static int read_version(const kmf_counttext *t, const char *line, size_t n, kmf_err *err)
{
    size_t n_value;
    uint64_t version;
    const char *value = field_value(line, n, VERSION_NAME, &n_value);
    if (!value || !read_number(&version, value, n_value) || version == 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: not a table of counts: it does not begin with #" VERSION_NAME,
                        t->name);
    if (version > VERSION)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: a table of counts in format %" PRIu64
                        "; this version of the program reads format %d",
                        t->name, version, VERSION);
    return 0;
}

/* One of the lines between version and columns. */
static int read_field(kmf_counttext *t, size_t at, const char *line, size_t n, kmf_err *err)
{
    char why[64];
    size_t n_value = 0;
    bool full = at == LINE_FULL;
    const char *name = full ? FULL_NAME : kmf_counts_info_names[at - LINE_INFO];
    uint64_t *to = full ? &t->full : &t->values[at - LINE_INFO];
    const char *value = field_value(line, n, name, &n_value);
    if (!value) {
        snprintf(why, sizeof why, "stands where the header should give #%s", name);
        return bad_line(t, line, n, why, err);
    }
    bool good = at == LINE_INFO + KMF_INFO_ALPHABET ? read_alphabet(to, value, n_value)
                                                    : read_number(to, value, n_value);
    if (!good || (full && *to > 1))
        return bad_line(t, line, n, "is not one of the values that it can have", err);
    return 0;
}

static int begin_kmers(kmf_counttext *t, kmf_err *err)
{
    if (kmf_counts_info_set(&t->info, t->values, t->name, err) < 0)
        return KMF_EMODEL;
    const char *letters = kmf_alphabet_letters(t->info.alphabet);
    memset(t->letter, KMF_NO_LETTER, sizeof t->letter);
    for (size_t i = 0; letters[i]; i++)
        t->letter[(unsigned char)letters[i]] = (uint8_t)i;
    t->counts = kmf_counts_new(&t->info, err);
    t->builder = t->counts ? kmf_counts_builder_new(t->counts, err) : NULL;
    return t->builder ? 0 : KMF_ENOMEM;
}

static int read_header(kmf_counttext *t, const char *line, size_t n, kmf_err *err)
{
    size_t at = (size_t)t->n_lines - 1;
    if (at == LINE_VERSION)
        return read_version(t, line, n, err);
    if (at < LINE_COLUMNS)
        return read_field(t, at, line, n, err);
    if (n != strlen(COLUMNS) || memcmp(line, COLUMNS, n) != 0)
        return bad_line(t, line, n, "stands where the header should give " COLUMNS, err);
    return begin_kmers(t, err);
}

static int bad_order(const kmf_counttext *t, const char *line, uint64_t code, kmf_err *err)
{
    size_t k = (size_t)t->info.k;
    if (code == t->code)
        return bad_line(t, line, k, "is listed twice", err);
    return bad_line(t, line, k, "comes after a k-mer that sorts behind it", err);
}

static int read_kmer(kmf_counttext *t, const char *line, size_t n, kmf_err *err)
{
    size_t k = (size_t)t->info.k;
    int bits = kmf_alphabet_bits(t->info.alphabet);
    uint64_t code = 0;
    uint64_t count = 0;
    unsigned any = 0;
    if (n <= k || line[k] != '\t')
        return bad_line(t, line, n, "is not a k-mer of the header's k, a tab and a count", err);
    for (size_t i = 0; i < k; i++) {
        unsigned letter = t->letter[(unsigned char)line[i]];
        any |= letter;
        code = code << bits | (letter & 0x1f);
    }
    if (any & 0x80)
        return bad_line(t, line, k, "has a letter that is not one of the alphabet's capitals",
                        err);
    if (!read_number(&count, line + k + 1, n - k - 1))
        return bad_line(t, line + k + 1, n - k - 1, "is not a count: a whole number below 2^64",
                        err);
    if (t->n_kmers > 0 && code <= t->code)
        return bad_order(t, line, code, err);
    if (t->info.canonical && kmf_kmer_canonical(code, t->info.k) != code)
        return bad_line(t, line, k, "is larger than its reverse complement", err);
    if (count == 0 && !t->full)
        return bad_line(t, line, n, "has the count 0 in a table that is not full", err);
    t->code = code;
    t->n_kmers++;
    if (count == 0)
        return 0;
    if (count < t->info.min_count)
        return bad_line(t, line, n, "has a count below the header's min_count", err);
    t->tally.sum += count;
    if (t->tally.sum < count)
        return bad_line(t, line, n, "brings the sum of the counts above 64 bits", err);
    t->tally.distinct++;
    if (count < t->tally.smallest)
        t->tally.smallest = count;
    return kmf_counts_builder_add(t->builder, code, count, err);
}

/* A line without its end. */
static int read_line(kmf_counttext *t, const char *line, size_t n, kmf_err *err)
{
    t->n_lines++;
    if (n > 0 && line[n - 1] == '\r')
        n--;
    if (n > LINE_MAX_BYTES)
        return bad_line(t, line, n, "is longer than a line can be", err);
    if (t->n_lines <= N_HEADER)
        return read_header(t, line, n, err);
    return read_kmer(t, line, n, err);
}

/* Keeps what follows the last line end. */
static int keep(kmf_counttext *t, const char *bytes, size_t n, kmf_err *err)
{
    if (n > sizeof t->part - t->n_part) {
        t->n_lines++;
        if (t->n_lines == 1)
            return read_version(t, "", 0, err);
        return bad_line(t, t->n_part > 0 ? t->part : bytes, t->n_part > 0 ? t->n_part : n,
                        "is longer than a line can be", err);
    }
    if (n > 0)
        memcpy(t->part + t->n_part, bytes, n);
    t->n_part += n;
    return 0;
}

int kmf_counttext_add(kmf_counttext *text, const char *bytes, size_t len, kmf_err *err)
{
    int status = 0;
    while (len > 0 && status == 0) {
        const char *newline = memchr(bytes, '\n', len);
        if (!newline)
            return keep(text, bytes, len, err);
        size_t n = (size_t)(newline - bytes);
        if (text->n_part > 0) {
            status = keep(text, bytes, n, err);
            if (status == 0)
                status = read_line(text, text->part, text->n_part, err);
            text->n_part = 0;
        } else {
            status = read_line(text, bytes, n, err);
        }
        bytes += n + 1;
        len -= n + 1;
    }
    return status;
}

kmf_counts *kmf_counttext_finish(kmf_counttext *t, kmf_err *err)
{
    if (t->n_lines == 0) {
        (void)read_version(t, t->part, t->n_part, err);
        kmf_fail(err, KMF_EMODEL, "%s: cut off within its header", t->name);
        return NULL;
    }
    if (t->n_lines < N_HEADER || t->n_part > 0) {
        kmf_fail(err, KMF_EMODEL, "%s: cut off %s line %" PRIu64, t->name,
                 t->n_part > 0 ? "within" : "after", t->n_lines + (t->n_part > 0));
        return NULL;
    }
    if (t->full && (double)t->n_kmers != kmf_counts_possible(&t->info)) {
        kmf_fail(err, KMF_EMODEL, "%s: damaged: %" PRIu64 " k-mers where a full table has %.0f",
                 t->name, t->n_kmers, kmf_counts_possible(&t->info));
        return NULL;
    }
    if (kmf_counts_info_check(&t->info, &t->tally, t->name, err) < 0 ||
        kmf_counts_builder_finish(t->builder, err) < 0)
        return NULL;
    kmf_counts *counts = t->counts;
    t->counts = NULL;
    return counts;
}
