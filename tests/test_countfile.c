/* SPDX-License-Identifier: MIT */
/*
 * Files of tables of counts. What is written is compared byte by byte with what a naive writer
 * makes of the list, or taken apart by a naive reader that knows the layout alone; what is read
 * must be the list again; and what was changed must be refused.
 */
#include "failing.h"
#include "tablefiles.h"

/* ---------------------------------------------------------------- binary ------------------ */

#define HEADER 192
#define ENTRY 32
#define TRAILER 16

static unsigned char *at(const text *t, uint64_t place)
{
    if (place >= t->len)
        ck_abort_msg("byte %" PRIu64 " of %zu", place, t->len);
    return (unsigned char *)t->bytes + place;
}

static uint64_t number(const text *t, uint64_t place, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = width; i-- > 0;)
        value = value << 8 | *at(t, place + i);
    return value;
}

static uint32_t crc(const text *t, uint64_t place, size_t n)
{
    return (uint32_t)crc32(0, n > 0 ? at(t, place) : (const unsigned char *)"", (uInt)n);
}

static size_t block_bytes(uint64_t n, uint64_t sw, uint64_t cw)
{
    return n > 0 ? (size_t)(n * (sw + cw) + 8) : 0;
}

/* Takes a file apart by what the format says, and nothing else of ours. */
static void check_layout(const text *t, const list *l)
{
    const kmf_counts_info *info = &l->info;
    const uint64_t expected[] = {info->alphabet == KMF_PROTEIN,
                                 (uint64_t)info->k,
                                 (uint64_t)info->canonical,
                                 info->stride,
                                 info->inputs,
                                 info->records,
                                 info->letters,
                                 info->kmers,
                                 info->ambiguous,
                                 info->distinct,
                                 info->min_count,
                                 info->max_size};
    ck_assert_mem_eq(t->bytes, "\x8bKMF\r\n\x1a\n\1\0\0\0\0\0\0\0", 16);
    for (size_t i = 0; i < 12; i++)
        ck_assert_uint_eq(number(t, 16 + 8 * i, 8), expected[i]);
    uint64_t prefix_bits = number(t, 112, 8);
    uint64_t suffix_bits = number(t, 120, 8);
    uint64_t index = number(t, 128, 8);
    ck_assert_uint_eq(number(t, 136, 8), t->len);
    ck_assert_uint_eq(number(t, 188, 4), crc(t, 0, 188));
    uint64_t n_blocks = (uint64_t)1 << prefix_bits;
    ck_assert_uint_eq(index + n_blocks * ENTRY + TRAILER, t->len);
    ck_assert_uint_eq(number(t, t->len - TRAILER, 4), crc(t, index, n_blocks * ENTRY));
    ck_assert_mem_eq(t->bytes + t->len - 8, t->bytes, 8);
    size_t i = 0;
    for (uint64_t p = 0; p < n_blocks; p++) {
        uint64_t entry = index + p * ENTRY;
        uint64_t beg = number(t, entry, 8);
        uint64_t n = number(t, entry + 8, 8);
        unsigned sw = (unsigned)number(t, entry + 16, 4);
        unsigned cw = (unsigned)number(t, entry + 20, 4);
        ck_assert_uint_eq(beg % 8, 0);
        ck_assert_uint_eq(number(t, entry + 24, 4), crc(t, beg, block_bytes(n, sw, cw)));
        for (uint64_t e = 0; e < n; e++) {
            uint64_t suffix = sw > 0 ? number(t, beg + e * sw, sw) : e;
            uint64_t count = number(t, beg + n * sw + e * cw, cw);
            if (count == 0)
                continue;
            if (i >= l->n || l->kmers[i].code != (p << suffix_bits | suffix) ||
                l->kmers[i].count != count)
                ck_abort_msg("block %u, entry %u", (unsigned)p, (unsigned)e);
            i++;
        }
    }
    ck_assert_uint_eq(i, l->n);
}

START_TEST(binary_files_are_laid_out_as_described_and_read_back)
{
    for (size_t i = 0; i < N_KINDS; i++) {
        list l = list_of_kind(i, 80);
        kmf_counts *counts = table_of(&l);
        kmf_err err = {0};
        const char *path = in_dir("x.bin");
        ck_assert_int_eq(kmf_counts_save(counts, path, KMF_COUNTS_BINARY, 0, NULL, NULL, &err),
                         0);
        text t = read_file(path);
        check_layout(&t, &l);
        kmf_counts *mapped = kmf_counts_load(path, &err);
        ck_assert_msg(mapped != NULL, "%s", err.msg);
        same_table(mapped, &l);
        for (size_t j = 0; j < l.n; j += 1 + l.n / 500)
            ck_assert_uint_eq(kmf_counts_get(mapped, l.kmers[j].code), l.kmers[j].count);
        text again = saved(mapped, KMF_COUNTS_BINARY, 0, NULL);
        must_equal(&again, &t);
        kmf_counts_free(mapped);
        kmf_counts_free(counts);
        ck_assert_int_eq(unlink(in_dir("x.bin")), 0);
        free(again.bytes);
        free(t.bytes);
        free_list(&l);
    }
}
END_TEST

START_TEST(any_changed_byte_and_any_cut_of_a_binary_file_is_found)
{
    static const struct {
        kmf_alphabet alphabet;
        int k, canonical;
        size_t n;
    } cases[] = {{KMF_DNA, 3, 0, 10},
                 {KMF_DNA, 2, 1, SIZE_MAX},
                 {KMF_DNA, 9, 0, 9},
                 {KMF_PROTEIN, 2, 0, 30},
                 {KMF_DNA, 1, 0, 0}};
    static const unsigned char changes[] = {1, 0x80, 0xff};
    for (size_t c = 0; c < 5; c++) {
        list l =
            random_list(cases[c].alphabet, cases[c].k, cases[c].canonical, cases[c].n, 9, c);
        kmf_counts *counts = table_of(&l);
        text t = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
        for (size_t i = 0; i < t.len; i++)
            for (size_t j = 0; j < sizeof changes; j++) {
                kmf_err err = {0};
                *at(&t, i) ^= changes[j];
                kmf_counts *bad = kmf_counts_parse(t.bytes, t.len, "x", &err);
                *at(&t, i) ^= changes[j];
                if (bad || err.code != KMF_EMODEL || strncmp(err.msg, "x: ", 3) != 0)
                    ck_abort_msg("case %zu: byte %zu: %s", c, i, err.msg);
            }
        for (size_t n = 0; n < t.len; n++) {
            kmf_err err = {0};
            if (kmf_counts_parse(t.bytes, n, "x", &err) || err.code != KMF_EMODEL)
                ck_abort_msg("case %zu: %zu bytes", c, n);
        }
        add(&t, "more");
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_counts_parse(t.bytes, t.len, "x", &err));
        free(t.bytes);
        kmf_counts_free(counts);
        free_list(&l);
    }
}
END_TEST

/* Makes all checksums right again. */
static void reseal(const text *t)
{
    uint64_t index = number(t, 128, 8);
    size_t n_blocks = (size_t)((t->len - index - TRAILER) / ENTRY);
    for (size_t p = 0; p < n_blocks; p++) {
        uint64_t entry = index + p * ENTRY;
        uint64_t beg = number(t, entry, 8);
        size_t n = block_bytes(number(t, entry + 8, 8), number(t, entry + 16, 4),
                               number(t, entry + 20, 4));
        if (beg <= index && n <= index - beg)
            kmf_le_store32(at(t, entry + 24), crc(t, beg, n));
    }
    kmf_le_store32(at(t, t->len - TRAILER), crc(t, index, n_blocks * ENTRY));
    kmf_le_store32(at(t, 188), crc(t, 0, 188));
}

/* A file of one block (k = 8: suffixes of 2 bytes, counts of 1) with one number changed. */
static void refuses(const text *t, uint64_t place, unsigned width, uint64_t value,
                    const char *message)
{
    kmf_err err = {0};
    text bad = {0};
    add_bytes(&bad, t->bytes, t->len);
    for (unsigned i = 0; i < width; i++)
        *at(&bad, place + i) = (unsigned char)(value >> 8 * i);
    reseal(&bad);
    kmf_counts *counts = kmf_counts_parse(bad.bytes, bad.len, "x", &err);
    ck_assert_msg(counts == NULL, "taken: %s", message);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, message) != NULL, "'%s' is not '%s'", err.msg, message);
    free(bad.bytes);
}

/* As many bytes between the last block and the index. */
static void refuses_gap(const text *t, size_t n)
{
    kmf_err err = {0};
    text bad = {0};
    uint64_t index = number(t, 128, 8);
    add_bytes(&bad, t->bytes, index);
    for (size_t i = 0; i < n; i++)
        add_bytes(&bad, "", 1);
    add_bytes(&bad, t->bytes + index, t->len - index);
    kmf_le_store64(at(&bad, 128), index + n);
    kmf_le_store64(at(&bad, 136), bad.len);
    reseal(&bad);
    ck_assert_ptr_null(kmf_counts_parse(bad.bytes, bad.len, "x", &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "bytes that belong to no block"));
    free(bad.bytes);
}

START_TEST(binary_files_made_to_harm_are_refused_though_their_checksums_are_right)
{
    static const kmf_kmer_count kmers[] = {{5, 1}, {6, 2}, {9, 3}, {0x1234, 4}};
    list constant = {.info = {.alphabet = KMF_DNA,
                              .k = 8,
                              .canonical = 1,
                              .stride = 1,
                              .min_count = 1,
                              .kmers = 10,
                              .distinct = 4},
                     .n = 4,
                     .kmers = (kmf_kmer_count *)(uintptr_t)kmers};
    list l = copy_of(&constant);
    kmf_counts *counts = table_of(&l);
    text t = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
    uint64_t index = number(&t, 128, 8);
    uint64_t block = HEADER;
    ck_assert_uint_eq(index, HEADER + 24);
    refuses(&t, 8, 4, 2, "format 2; this version of the program reads format 1");
    refuses(&t, 8, 4, 0, "checksum of its header");
    refuses(&t, 12, 4, 1, "its header is not that");
    refuses(&t, 15, 1, 1, "its header is not that");
    refuses(&t, 150, 1, 1, "its header is not that");
    refuses(&t, 16, 8, 2, "alphabet is 2");
    refuses(&t, 16, 8, 1, "k is 8; for protein it is 1 to 6");
    refuses(&t, 24, 8, 0, "k is 0; for dna it is 1 to 32");
    refuses(&t, 24, 8, 33, "k is 33");
    refuses(&t, 24, 8, (uint64_t)1 << 32 | 8, "k is 4294967304");
    refuses(&t, 24, 8, 7, "not cut as those of its k");
    refuses(&t, 24, 8, 9, "not cut as those of its k");
    refuses(&t, 32, 8, 2, "canonical is 2");
    refuses(&t, 40, 8, 0, "stride is 0");
    refuses(&t, 40, 8, UINT64_MAX, "stride is 18446744073709551615");
    refuses(&t, 72, 8, 11, "the counts come to 10 where its header says 11");
    refuses(&t, 72, 8, 9, "the counts come to 10 where its header says 9");
    refuses(&t, 88, 8, 3, "4 k-mers where its header says 3");
    refuses(&t, 88, 8, UINT64_MAX, "distinct is");
    refuses(&t, 96, 8, 0, "min_count is 0");
    refuses(&t, 96, 8, 2, "a count of 1 where its header says that none is below 2");
    refuses(&t, 104, 8, 3, "distinct is 4");
    refuses(&t, 112, 8, 1, "not cut as those of its k");
    refuses(&t, 112, 8, 64, "not cut as those of its k");
    refuses(&t, 120, 8, 17, "not cut as those of its k");
    refuses(&t, 136, 8, t.len + 1, "cut off");
    refuses(&t, 136, 8, t.len - 1, "damaged");
    refuses(&t, index, 8, HEADER + 8, "not where the one before it ends");
    refuses(&t, index, 8, 0, "not where the one before it ends");
    refuses(&t, index + 28, 4, 1, "not where the one before it ends");
    refuses(&t, index + 8, 8, 6, "larger than its place");
    refuses(&t, index + 8, 8, 65537, "larger than its place");
    refuses(&t, index + 8, 8, UINT64_MAX / 3, "larger than its place");
    refuses(&t, index + 8, 8, 2, "no zeros at the end of a block");
    refuses(&t, index + 8, 8, 0, "an empty block has a size");
    refuses(&t, index + 16, 4, 1, "width that does not exist");
    refuses(&t, index + 16, 4, 9, "larger than its place");
    refuses(&t, index + 16, 4, 0, "a block of all k-mers lacks some");
    refuses(&t, index + 20, 4, 0, "width that does not exist");
    refuses(&t, index + 20, 4, 3, "larger than its place");
    refuses(&t, t.len - 12, 4, 1, "its end is not that");
    refuses(&t, t.len - 8, 1, 1, "its end is not that");
    refuses(&t, block, 2, 6, "not in ascending order");
    refuses(&t, block, 2, 7, "not in ascending order");
    refuses(&t, block + 6, 2, 0xffff, "larger than its reverse complement");
    refuses(&t, block + 8, 1, 0, "a k-mer has the count 0");
    refuses(&t, block + 9, 1, 3, "the counts come to 11");
    refuses(&t, block + 19, 1, 1, "no zeros at the end of a block");
    refuses(&t, block + 20, 1, 1, "checksum of a block is wrong"); /* the padding */
    refuses_gap(&t, 8);
    refuses_gap(&t, 1);
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);

    l = random_list(KMF_PROTEIN, 3, 0, 3, 3, 1);
    counts = table_of(&l);
    t = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
    refuses(&t, HEADER + 4, 2, 0x7fff, "a k-mer with a letter that does not exist");
    refuses(&t, HEADER + 4, 2, 0xffff, "not in ascending order"); /* 15 bits, not 16 */
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);

    /* an index that would end with the file, but begin long before it */
    l = random_list(KMF_DNA, 16, 0, 3, 3, 1);
    counts = table_of(&l);
    t = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
    kmf_err err = {0};
    t.len = HEADER + 8;
    kmf_le_store64(at(&t, 128), t.len - ((uint64_t)ENTRY << number(&t, 112, 8)) - TRAILER);
    kmf_le_store64(at(&t, 136), t.len);
    kmf_le_store32(at(&t, 188), crc(&t, 0, 188));
    ck_assert_ptr_null(kmf_counts_parse(t.bytes, t.len, "x", &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "its index is not at its end"));
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

/* Each of the two blocks is right by itself, and the header agrees with what is left of the sum. */
START_TEST(binary_files_whose_sum_is_too_large_are_refused)
{
    static const kmf_kmer_count kmers[] = {{5, UINT64_MAX - 1}, {0xc0000000, 1}};
    list constant = {.info = {.alphabet = KMF_DNA,
                              .k = 16,
                              .stride = 1,
                              .min_count = 1,
                              .kmers = UINT64_MAX,
                              .distinct = 2},
                     .n = 2,
                     .kmers = (kmf_kmer_count *)(uintptr_t)kmers};
    list l = copy_of(&constant);
    kmf_counts *counts = table_of(&l);
    text t = saved(counts, KMF_COUNTS_BINARY, 0, NULL);
    uint64_t n_blocks = (uint64_t)1 << number(&t, 112, 8);
    uint64_t entry = number(&t, 128, 8) + n_blocks / 4 * 3 * ENTRY;
    uint64_t count = number(&t, entry, 8) + number(&t, entry + 16, 4);
    ck_assert_uint_gt(n_blocks, 1);
    ck_assert_uint_eq(number(&t, entry + 8, 8), 1);
    ck_assert_uint_eq(*at(&t, count), 1);
    kmf_counts *back = kmf_counts_parse(t.bytes, t.len, "x", NULL);
    ck_assert_ptr_nonnull(back);
    kmf_counts_free(back);
    kmf_le_store64(at(&t, 72), 5);
    refuses(&t, count, 1, 7, "the sum of the counts exceeds 64 bits");
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

/* ---------------------------------------------------------------- saving ------------------ */

static int exists(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

START_TEST(provenance_stands_beside_tables_and_nothing_else)
{
    static const struct {
        const char *name, *json;
        kmf_counts_format format;
    } cases[] = {{"a.tsv", "a.json", KMF_COUNTS_TSV},
                 {"a.tsv.gz", "a.json", KMF_COUNTS_TSV},
                 {"a.bin", "a.bin.json", KMF_COUNTS_BINARY},
                 {"vocab.txt", NULL, KMF_COUNTS_VOCAB},
                 {"bert.txt", NULL, KMF_COUNTS_DNABERT}};
    list l = random_list(KMF_DNA, 4, 0, 50, 3, 1);
    kmf_counts *counts = table_of(&l);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(kmf_counts_save(counts, in_dir(cases[i].name), cases[i].format, 0,
                                         NULL, "{\"a\": 1}", NULL),
                         0);
        if (cases[i].json) {
            text t = read_file(in_dir(cases[i].json));
            ck_assert_str_eq(t.bytes, "{\"a\": 1}\n");
            free(t.bytes);
            ck_assert_int_eq(unlink(in_dir(cases[i].json)), 0);
        }
        ck_assert_int_eq(unlink(in_dir(cases[i].name)), 0);
    }
    ck_assert_int_eq(kmf_counts_save(counts, "/dev/null", KMF_COUNTS_TSV, 0, NULL, "{}", NULL),
                     0);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

START_TEST(what_cannot_be_saved_leaves_nothing_behind)
{
    kmf_err err = {0};
    list l = random_list(KMF_DNA, 13, 0, 3000, 3, 1);
    list p = random_list(KMF_PROTEIN, 2, 0, 0, 3, 1);
    kmf_counts *counts = table_of(&l);
    kmf_counts *proteins = table_of(&p);
    const struct {
        const kmf_counts *counts;
        const char *name;
        kmf_counts_format format;
        int full;
        kmf_code code;
        const char *message;
    } cases[] = {
        {counts, "x.txt", KMF_COUNTS_VOCAB, 0, KMF_EINVAL, "at most 12 letters, not 13"},
        {counts, "x.txt", KMF_COUNTS_DNABERT, 0, KMF_EINVAL, "at most 12 letters, not 13"},
        {proteins, "x.txt", KMF_COUNTS_DNABERT, 1, KMF_EINVAL, "DNA, not of protein"},
        {proteins, "x.txt", KMF_COUNTS_VOCAB, 0, KMF_EINVAL, "no k-mers"},
        {counts, "x.json", KMF_COUNTS_TSV, 0, KMF_EINVAL, "companion"},
        {counts, "no/x.tsv", KMF_COUNTS_TSV, 0, KMF_EIO, "No such file"},
        {counts, "no/x.bin", KMF_COUNTS_BINARY, 0, KMF_EIO, "No such file"},
        {counts, "taken.tsv", KMF_COUNTS_TSV, 0, KMF_EIO, "taken"},
    };
    ck_assert_int_eq(mkdir(in_dir("taken.json"), 0777), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_counts_save(cases[i].counts, in_dir(cases[i].name),
                                         cases[i].format, cases[i].full, NULL, "{}", &err),
                         cases[i].code);
        ck_assert_msg(strstr(err.msg, cases[i].message) != NULL, "%s", err.msg);
        ck_assert(!exists(cases[i].name));
    }
    ck_assert_int_eq(rmdir(in_dir("taken.json")), 0);
    for (int format = 0; format < 4; format += 3) {
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_counts_save(counts, "/dev/full", (kmf_counts_format)format, 0,
                                         NULL, NULL, &err),
                         KMF_EIO);
        ck_assert_ptr_nonnull(strstr(err.msg, "No space left"));
    }
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_counts_save(counts, "", KMF_COUNTS_TSV, 0, NULL, NULL, &err),
                     KMF_EINVAL);
    kmf_counts_free(counts);
    free_list(&l);
    l = random_list(KMF_DNA, 17, 1, 5, 3, 1);
    counts = table_of(&l);
    err = (kmf_err){0};
    ck_assert_int_eq(
        kmf_counts_save(counts, in_dir("x.tsv"), KMF_COUNTS_TSV, 1, NULL, NULL, &err),
        KMF_EINVAL);
    /* 4^17 / 2 lines of 17 letters, a tab, a digit and a newline */
    ck_assert_msg(strstr(err.msg, "would take 171798691840 bytes or more") != NULL, "%s",
                  err.msg);
    kmf_counts_free(counts);
    kmf_counts_free(proteins);
    free_list(&l);
    free_list(&p);
}
END_TEST

/* ---------------------------------------------------------------- loading ----------------- */

static kmf_counts *load_stdin(const char *path, kmf_err *err)
{
    int was = dup(0);
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(dup2(fd, 0), 0);
    close(fd);
    kmf_counts *counts = kmf_counts_load("-", err);
    dup2(was, 0);
    close(was);
    return counts;
}

START_TEST(standard_input_serves_both_formats)
{
    list l = random_list(KMF_DNA, 21, 0, CHECKED ? 5000 : 100000, 3, 1);
    kmf_counts *counts = table_of(&l);
    for (int format = 0; format < 4; format += 3) {
        kmf_err err = {0};
        text t = saved(counts, (kmf_counts_format)format, 0, NULL);
        put(in_dir("x"), t.bytes, t.len);
        kmf_counts *again = load_stdin(in_dir("x"), &err);
        ck_assert_msg(again != NULL, "%s", err.msg);
        same_table(again, &l);
        kmf_counts_free(again);
        put(in_dir("x"), t.bytes, t.len - 9);
        ck_assert_ptr_null(load_stdin(in_dir("x"), &err));
        ck_assert_msg(strncmp(err.msg, "standard input: cut off", 23) == 0, "%s", err.msg);
        unlink(in_dir("x"));
        free(t.bytes);
    }
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_counts_load(in_dir("none"), &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/none: No such file"));
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_counts_load(dir, &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_counts_load("/dev/null", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    put(in_dir("x"), "", 0);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_counts_load(in_dir("x"), &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "an empty file"));
    list l = random_list(KMF_DNA, 13, 0, 30000, 3, 1);
    kmf_counts *counts = table_of(&l);
    ck_assert_int_eq(
        kmf_counts_save(counts, in_dir("x.gz"), KMF_COUNTS_TSV, 0, NULL, NULL, NULL), 0);
    text t = read_file(in_dir("x.gz"));
    put(in_dir("x.gz"), t.bytes, t.len / 2);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_counts_load(in_dir("x.gz"), &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "compressed data is truncated") != NULL, "%s", err.msg);
    unlink(in_dir("x"));
    unlink(in_dir("x.gz"));
    free(t.bytes);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

/* Saves and loads; a negative code when either failed. */
static int round_trip(const kmf_counts *counts, kmf_counts_format format, kmf_pool *pool,
                      kmf_err *err)
{
    int status = kmf_counts_save(counts, in_dir("x.tsv"), format, 0, pool, "{}", err);
    if (status < 0)
        return status;
    if (format == KMF_COUNTS_VOCAB || format == KMF_COUNTS_DNABERT)
        return 0;
    kmf_counts *again = kmf_counts_load(in_dir("x.tsv"), err);
    status = again ? 0 : err->code;
    kmf_counts_free(again);
    return status;
}

START_TEST(any_failing_allocation_is_reported)
{
    list l = random_list(KMF_DNA, 9, 0, 200, 20, 3);
    kmf_counts *counts = table_of(&l);
    kmf_pool *pool = kmf_pool_new(2, NULL);
    for (int i = 0; i < 8; i++) {
        bool reached = true;
        for (size_t n = 1; reached; n++) {
            kmf_err err = {0};
            kmf_mem_fail_at(n);
            int status =
                round_trip(counts, (kmf_counts_format)(i % 4), i < 4 ? NULL : pool, &err);
            reached = failed_at(n);
            unlink(in_dir("x.tsv"));
            unlink(in_dir("x.json"));
            ck_assert_msg(status == (reached ? KMF_ENOMEM : 0), "%s", err.msg);
            ck_assert_int_eq(err.code, status);
        }
    }
    kmf_pool_free(pool);
    kmf_counts_free(counts);
    free_list(&l);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("countfile");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, make_dir, remove_empty_dir);
    tcase_add_test(tcase, binary_files_are_laid_out_as_described_and_read_back);
    tcase_add_test(tcase, any_changed_byte_and_any_cut_of_a_binary_file_is_found);
    tcase_add_test(tcase,
                   binary_files_made_to_harm_are_refused_though_their_checksums_are_right);
    tcase_add_test(tcase, binary_files_whose_sum_is_too_large_are_refused);
    tcase_add_test(tcase, provenance_stands_beside_tables_and_nothing_else);
    tcase_add_test(tcase, what_cannot_be_saved_leaves_nothing_behind);
    tcase_add_test(tcase, standard_input_serves_both_formats);
    tcase_add_test(tcase, files_that_cannot_be_read_are_named);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("countfile", tcase);
}
