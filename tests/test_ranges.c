/* SPDX-License-Identifier: MIT */
/*
 * A FASTA file, plain and as gzip, in ranges of any size, from one byte on, against the reader of
 * records: the same names and letters, the letters behind each range, and what is refused.
 */
#include "base/rng.h"
#include "run.h"
#include "seq/blocks.h"
#include "seq/ranges.h"
#include "seqfiles.h"

#include <stdbool.h>

#define PARTS 100000   /* of a range, more than there are */
#define LONG_NAME 6000 /* letters, beyond what a line end is looked for in */

enum trait { CR = 1, LONG_LINES = 2, BLANK_LINES = 4, CUT_END = 8, TRAITS = 16 };

static void add_letters(text *t, kmf_rng *rng, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char letter = "ACGTACGTACGTNacgtRYu*-."[kmf_rng_below(rng, 23)];
        add_bytes(t, &letter, 1);
    }
}

/* Records of 0 to some hundred letters, in lines of one length or of any. */
static void make_fasta(text *t, kmf_rng *rng, unsigned traits)
{
    const char *newline = traits & CR ? "\r\n" : "\n";
    size_t n_records = 1 + kmf_rng_below(rng, 12);
    for (size_t i = 0; i < n_records; i++) {
        char header[64];
        size_t n_lines = kmf_rng_below(rng, 9);
        size_t width = 1 + kmf_rng_below(rng, traits & LONG_LINES ? 3000 : 100);
        snprintf(header, sizeof header, ">%s%zu%s", i % 5 == 3 ? "" : "contig >", i,
                 i % 3 == 1 ? "\tand more" : "");
        add(t, header);
        add(t, newline);
        for (size_t j = 0; j < n_lines; j++) {
            if ((traits & BLANK_LINES) && kmf_rng_below(rng, 4) == 0)
                add(t, newline);
            add_letters(t, rng, j + 1 < n_lines ? width : kmf_rng_below(rng, width));
            add(t, newline);
        }
    }
    if (traits & CUT_END)
        t->len -= strlen(newline);
}

/* A file that holds the text, to be unlinked before the next is made; *file: open of it. */
static const char *kept_file(const text *t, int *file)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/kmf_ranges.XXXXXX");
    *file = mkstemp(path);
    ck_assert_int_ge(*file, 0);
    ck_assert_int_eq(write(*file, t->bytes, t->len), (ssize_t)t->len);
    return path;
}

/* A file without a name. */
static int file_of(const text *t)
{
    int file;
    ck_assert_int_eq(unlink(kept_file(t, &file)), 0);
    return file;
}

/* The records of a text by the reader; false: it refuses them. */
static bool read_records(text *records, const text *t)
{
    kmf_record rec;
    kmf_reader *reader = kmf_reader_open_memory(t->bytes, t->len, NULL, NULL);
    if (!reader)
        return false;
    int got;
    while ((got = kmf_reader_next(reader, &rec, NULL)) > 0)
        add_record(records, rec.name, rec.seq);
    kmf_reader_close(reader);
    return got == 0;
}

/* What has been put together of the record at hand. */
typedef struct joined {
    text *records;
    text name, letters, ahead; /* ahead: letters that are to come next */
    bool any, whole;
} joined;

static void end_record(joined *j)
{
    if (j->any)
        add_record(j->records, j->name.bytes, j->letters.len > 0 ? j->letters.bytes : "");
    quick_assert(j->ahead.len == 0);
    j->letters.len = 0;
    j->name.len = 0;
}

static void join_part(joined *j, const kmf_range *r, const kmf_part *part, const char *letters,
                      size_t border, bool last)
{
    if (part->begins) {
        end_record(j);
        j->any = true;
        add(&j->name, r->names.bytes + part->name);
    }
    quick_assert(part->n == 0 || !j->whole || part->begins);
    quick_assert(!part->whole || part->begins);
    if (part->begins)
        j->whole = part->whole;
    quick_assert(part->more <= border && (last || part->more == 0));
    /* what the range before has shown of the letters to come is what comes */
    size_t n = j->ahead.len < part->n ? j->ahead.len : part->n;
    quick_assert(n == 0 || memcmp(j->ahead.bytes, letters + part->beg, n) == 0);
    j->ahead.len -= n;
    if (n > 0)
        memmove(j->ahead.bytes, j->ahead.bytes + n, j->ahead.len);
    add_bytes(&j->letters, letters + part->beg, part->n);
    if (part->n == 0)
        return;
    const char *more = letters + part->beg + part->n;
    quick_assert(part->more >= j->ahead.len &&
                 (j->ahead.len == 0 || memcmp(more, j->ahead.bytes, j->ahead.len) == 0));
    j->ahead.len = 0;
    add_bytes(&j->ahead, more, part->more);
}

/* The records of a text by ranges; false: one of them is refused. */
static bool join(text *records, const kmf_ranges *ranges)
{
    kmf_range range = {0};
    kmf_range_room room = {0};
    kmf_portion portion = {0};
    joined j = {.records = records};
    bool sound = true;
    ck_assert_int_eq(kmf_range_room_init(&room, ranges->border, NULL), 0);
    for (uint64_t i = 0; sound && !range.last; i++) {
        sound = kmf_ranges_next(ranges, i, &portion) &&
                kmf_range_read(&range, ranges, i, &portion, &room);
        for (size_t p = 0; sound && p < range.n_parts; p++)
            join_part(&j, &range, &range.parts[p], room.letters, ranges->border,
                      p + 1 == range.n_parts);
        quick_assert(!sound || ranges->portions || range.last == (i + 1 == ranges->n));
        quick_assert(!sound || !range.last || !kmf_ranges_next(ranges, i + 1, &portion));
    }
    if (sound)
        end_record(&j);
    kmf_range_free(&range);
    kmf_range_room_free(&room);
    kmf_portion_free(&portion);
    free(j.name.bytes);
    free(j.letters.bytes);
    free(j.ahead.bytes);
    return sound;
}

/* Of a plain file, by ranges of `step` bytes. */
static bool join_ranges(text *records, int file, size_t len, size_t step, size_t border)
{
    kmf_ranges ranges = {.file = file,
                         .size = len,
                         .step = step,
                         .border = border,
                         .most = PARTS,
                         .n = len / step + (len % step > 0)};
    return join(records, &ranges);
}

/* Of a gzip file that holds a text, by ranges of `step` bytes or `most` parts. */
static bool join_packed(text *records, const text *packed, size_t step, size_t border,
                        size_t most)
{
    int file;
    const char *path = kept_file(packed, &file);
    kmf_ranges ranges = {.border = border, .most = most};
    ranges.portions = kmf_portions_open(path, file, step, '>', most - 2);
    ck_assert_ptr_nonnull(ranges.portions);
    bool sound = join(records, &ranges);
    kmf_ranges_close(&ranges);
    ck_assert_int_eq(close(file), 0);
    ck_assert_int_eq(unlink(path), 0);
    return sound;
}

static bool join_gzip(text *records, const text *t, size_t step, size_t border, size_t most)
{
    text packed = gzipped(t->bytes, t->len);
    bool sound = join_packed(records, &packed, step, border, most);
    free(packed.bytes);
    return sound;
}

static size_t choose_step(kmf_rng *rng)
{
    return 1 + kmf_rng_below(rng, (uint64_t)1 << (1 + kmf_rng_below(rng, 12)));
}

START_TEST(records_are_those_of_the_reader)
{
    kmf_rng rng = kmf_rng_stream(31, (uint64_t)_i);
    for (int round = 0; round < 60; round++) {
        text t = {0}, expected = {0}, got = {0};
        make_fasta(&t, &rng, (unsigned)_i);
        ck_assert(read_records(&expected, &t));
        int file = file_of(&t);
        size_t step = choose_step(&rng);
        size_t border = kmf_rng_below(&rng, 40);
        ck_assert_msg(join_ranges(&got, file, t.len, step, border), "steps of %zu", step);
        ck_assert_msg(strcmp(got.bytes, expected.bytes) == 0, "steps of %zu", step);
        ck_assert_int_eq(close(file), 0);
        got.len = 0;
        size_t most = 3 + kmf_rng_below(&rng, 20);
        ck_assert_msg(join_gzip(&got, &t, step, border, most), "steps of %zu", step);
        ck_assert_msg(strcmp(got.bytes, expected.bytes) == 0, "steps of %zu", step);
        free(t.bytes);
        free(expected.bytes);
        free(got.bytes);
    }
}
END_TEST

/* As BGZF, whose ranges end where blocks do. */
START_TEST(records_in_blocks_are_those_of_the_reader)
{
    kmf_rng rng = kmf_rng_stream(34, (uint64_t)_i);
    for (int round = 0; round < 10; round++) {
        text t = {0}, expected = {0}, got = {0};
        while (t.len < 400000) {
            make_fasta(&t, &rng, (unsigned)_i & ~(unsigned)CUT_END);
            size_t more = kmf_rng_below(&rng, 3) == 0 ? kmf_rng_below(&rng, 100000) : 0;
            add_letters(&t, &rng, more); /* a line that covers borders */
            if (more > 0)
                add(&t, "\n");
        }
        if (_i & CUT_END)
            t.len -= _i & CR && t.bytes[t.len - 2] == '\r' ? 2 : 1;
        ck_assert(read_records(&expected, &t));
        text packed = bgzipped_by(t.bytes, t.len, 500 + kmf_rng_below(&rng, 20000));
        size_t step = KMF_BLOCK_MOST + kmf_rng_below(&rng, 200000);
        ck_assert_msg(join_packed(&got, &packed, step, kmf_rng_below(&rng, 40), PARTS),
                      "steps of %zu", step);
        ck_assert_msg(strcmp(got.bytes, expected.bytes) == 0, "steps of %zu", step);
        free(packed.bytes);
        free(t.bytes);
        free(expected.bytes);
        free(got.bytes);
    }
}
END_TEST

/* With a byte changed it is refused where the reader refuses it, or is the same. */
START_TEST(what_is_no_fasta_is_refused)
{
    static const char bytes[] = " \t>@+\r\n1\x80\0A";
    kmf_rng rng = kmf_rng_stream(32, 0);
    size_t n_refused = 0, n_faults = 0;
    for (int round = 0; round < 600; round++) {
        text t = {0}, expected = {0}, got = {0};
        make_fasta(&t, &rng, (unsigned)(round % TRAITS));
        t.bytes[1 + kmf_rng_below(&rng, t.len - 1)] =
            bytes[kmf_rng_below(&rng, sizeof bytes - 1)];
        bool sound = read_records(&expected, &t);
        int file = file_of(&t);
        size_t step = choose_step(&rng);
        bool read = join_ranges(&got, file, t.len, step, 7);
        n_refused += !read;
        n_faults += !sound;
        ck_assert(sound || !read);
        if (read)
            ck_assert_str_eq(got.bytes, expected.bytes);
        got.len = 0;
        ck_assert_int_eq(join_gzip(&got, &t, step, 7, PARTS), read);
        if (read)
            ck_assert_str_eq(got.bytes, expected.bytes);
        ck_assert_int_eq(close(file), 0);
        free(t.bytes);
        free(expected.bytes);
        free(got.bytes);
    }
    ck_assert_uint_ge(n_faults, 100);
    ck_assert_uint_le(n_refused, 500);
}
END_TEST

/* Letters of a header that is as long as many ranges could be those of a line. */
START_TEST(a_header_is_never_taken_for_letters)
{
    kmf_rng rng = kmf_rng_stream(33, 0);
    for (size_t step = 1; step < 2 * LONG_NAME; step += step < 20 ? 1 : 97) {
        text t = {0}, expected = {0}, got = {0};
        add(&t, ">a\nACGT\n>");
        add_letters(&t, &rng, LONG_NAME);
        add(&t, "\nGG\n>b\nTT\n");
        ck_assert(read_records(&expected, &t));
        int file = file_of(&t);
        if (join_ranges(&got, file, t.len, step, 3))
            ck_assert_str_eq(got.bytes, expected.bytes);
        else
            ck_assert_uint_lt(step, LONG_NAME);
        ck_assert_int_eq(close(file), 0);
        free(t.bytes);
        free(expected.bytes);
        free(got.bytes);
    }
}
END_TEST

static bool opens(kmf_ranges *r, const text *t, size_t most)
{
    int file = file_of(t);
    bool opened = kmf_ranges_open(r, file, 5, 4, most);
    ck_assert_int_eq(close(file), 0);
    return opened;
}

START_TEST(small_files_and_short_records_are_not_for_ranges)
{
    text t = {0};
    kmf_ranges r;
    add(&t, ">a\n");
    while (t.len < (192 << 10) - 1)
        add(&t, "A\n");
    ck_assert(!opens(&r, &t, PARTS));
    add(&t, "A\n");
    ck_assert(opens(&r, &t, PARTS)); /* four ranges, as many as are asked for */
    ck_assert_uint_eq(r.step, 48 << 10);
    ck_assert_uint_eq(r.n, 5);
    while (t.len <= 4 * KMF_RANGE_STEP)
        add(&t, "ACGTACGTAACCGGTTACGTACGTAACCGGTT\n");
    ck_assert(opens(&r, &t, PARTS));
    ck_assert_uint_eq(r.step, KMF_RANGE_STEP);
    ck_assert_uint_eq(r.n, 5);
    ck_assert_uint_eq(r.size, t.len);
    ck_assert(opens(&r, &t, 1536)); /* 512 bytes for a part, */
    ck_assert_uint_eq(r.step, KMF_RANGE_STEP);
    ck_assert(opens(&r, &t, 1535));
    ck_assert_uint_eq(r.step, KMF_RANGE_STEP / 2);
    ck_assert(opens(&r, &t, 384)); /* and a quarter of the usual size at least */
    ck_assert_uint_eq(r.step, KMF_RANGE_STEP / 4);
    ck_assert(!opens(&r, &t, 383));
    t.bytes[0] = 'A';
    ck_assert(!opens(&r, &t, PARTS));
    for (int length = 1000; length < 1100; length += 99) {
        t.len = 0;
        while (t.len < 4 * KMF_RANGE_STEP) {
            add(&t, ">b\n");
            for (int i = 4; i < length; i++)
                add(&t, "A");
            add(&t, "\n");
        }
        ck_assert_int_eq(opens(&r, &t, PARTS), length > 1024);
    }
    int pair[2];
    ck_assert_int_eq(pipe(pair), 0);
    ck_assert(!kmf_ranges_open(&r, pair[0], 5, 4, 512));
    close(pair[0]);
    close(pair[1]);
    ck_assert(!kmf_ranges_open(&r, -1, 5, 4, 512));
    free(t.bytes);
}
END_TEST

/* Of more parts, or longer names, than there is room for. */
START_TEST(a_range_of_too_much_is_refused)
{
    text t = {0};
    kmf_range range = {0};
    kmf_range_room room = {0};
    for (int i = 0; i < 20; i++)
        add(&t, ">0123456789012345678901234567890123456789012345678901234567890\nA\n");
    int file = file_of(&t);
    kmf_ranges ranges = {.file = file, .size = t.len, .step = t.len, .n = 1, .most = 21};
    ck_assert_int_eq(kmf_range_room_init(&room, 0, NULL), 0);
    ck_assert(kmf_range_read(&range, &ranges, 0, NULL, &room));
    ck_assert_uint_eq(range.n_parts, 21);
    ranges.most = 20;
    ck_assert(!kmf_range_read(&range, &ranges, 0, NULL, &room));
    ck_assert_int_eq(close(file), 0);
    t.len = 0;
    add(&t, ">");
    while (t.len < 4096 + 64 + 1)
        add(&t, "n");
    add(&t, "\nA\n");
    file = file_of(&t);
    ranges = (kmf_ranges){.file = file, .size = t.len, .step = t.len, .n = 1, .most = 2};
    ck_assert(kmf_range_read(&range, &ranges, 0, NULL, &room));
    ranges.most = 1;
    ck_assert(!kmf_range_read(&range, &ranges, 0, NULL, &room));
    ck_assert_int_eq(close(file), 0);
    kmf_range_free(&range);
    kmf_range_room_free(&room);
    free(t.bytes);
}
END_TEST

/* A file that has grown or shrunk since it was opened. */
START_TEST(a_file_that_changes_is_refused)
{
    text t = {0}, got = {0};
    add(&t, ">a\nACGTACGT\n>b\nACGT\n");
    int file = file_of(&t);
    ck_assert(join_ranges(&got, file, t.len, 5, 2));
    ck_assert(!join_ranges(&got, file, t.len - 1, 5, 2));
    ck_assert(!join_ranges(&got, file, t.len + 1, 5, 2));
    ck_assert(!join_ranges(&got, file, t.len + 9, 5, 2));
    ck_assert_int_eq(close(file), 0);
    free(t.bytes);
    free(got.bytes);
}
END_TEST

START_TEST(a_size_may_be_a_multiple_of_ranges)
{
    text t = {0};
    kmf_ranges r;
    add(&t, ">a\nA\n\n\n\n");
    while (t.len < (192 << 10))
        add(&t, "ACGTACG\n");
    ck_assert_uint_eq(t.len, 192 << 10);
    ck_assert(opens(&r, &t, PARTS));
    ck_assert_uint_eq(r.n, 4);
    free(t.bytes);
}
END_TEST

START_TEST(a_header_begins_a_line)
{
    text t = {0};
    add(&t, ">a\nACGT>b\nTT\n");
    int file = file_of(&t);
    for (size_t step = 1; step <= t.len; step++) {
        text got = {0};
        ck_assert(!join_ranges(&got, file, t.len, step, 3));
        ck_assert(!join_ranges(&got, file, t.len, step, 0));
        free(got.bytes);
    }
    ck_assert_int_eq(close(file), 0);
    free(t.bytes);
}
END_TEST

/* So many that the letters behind a range are not at hand, with and without CR. */
START_TEST(blank_lines_may_be_many)
{
    for (size_t n = 4080; n < 4120; n++)
        for (int cr = 0; cr < 2; cr++)
            for (int more = 0; more < 2; more++) {
                text t = {0}, expected = {0}, got = {0};
                add(&t, ">a\nACGT\n");
                for (size_t i = 0; i < n; i++)
                    add(&t, cr && i % 2 == 0 ? "\r" : "\n");
                if (cr && n % 2 == 1)
                    add(&t, "\n");
                add(&t, more ? "ACGT\n>b\nTT\n" : ">b\nTT\n");
                ck_assert(read_records(&expected, &t));
                int file = file_of(&t);
                static const size_t steps[] = {5, 8, 6000};
                for (size_t i = 0; i < 3; i++) {
                    got.len = 0;
                    if (join_ranges(&got, file, t.len, steps[i], 3))
                        ck_assert_str_eq(got.bytes, expected.bytes);
                }
                ck_assert_int_eq(close(file), 0);
                free(t.bytes);
                free(expected.bytes);
                free(got.bytes);
            }
}
END_TEST

START_TEST(a_file_may_end_with_cr)
{
    text t = {0}, got = {0};
    add(&t, ">a\r\nAC\r\nGT\r");
    int file = file_of(&t);
    for (size_t step = 1; step <= t.len; step++)
        ck_assert(join_ranges(&got, file, t.len, step, 1));
    ck_assert_int_eq(close(file), 0);
    free(t.bytes);
    free(got.bytes);
}
END_TEST

/* gzip: what is for ranges, and what is not. */
START_TEST(gzip_of_contigs_is_for_ranges)
{
    kmf_rng rng = kmf_rng_stream(34, 0);
    static const struct {
        const char *header;
        size_t length, n_records;
        bool for_ranges;
    } files[] = {{">a\n", 1000000, 1, true},  {">a\n", 300000, 1, false},
                 {">a\n", 1000, 1000, false}, {">a\n", 1030, 1000, true},
                 {"@a\n", 1000000, 1, false}, {"\n>a\n", 1000000, 1, false}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        text t = {0};
        int file;
        kmf_ranges r;
        for (size_t j = 0; j < files[i].n_records; j++) {
            add(&t, files[i].header);
            add_letters(&t, &rng, files[i].length - strlen(files[i].header) - 1);
            add(&t, "\n");
        }
        text packed = gzipped(t.bytes, t.len);
        const char *path = kept_file(&packed, &file);
        bool opened = kmf_ranges_open_gzip(&r, path, file, 5, 4, 3, PARTS, true);
        ck_assert_msg(opened == files[i].for_ranges, "%zu", i);
        if (opened) {
            ck_assert_uint_eq(r.size, packed.len);
            kmf_ranges_close(&r);
        }
        text blocks = bgzipped(t.bytes, t.len);
        ck_assert_int_eq(pwrite(file, blocks.bytes, blocks.len, 0), (ssize_t)blocks.len);
        ck_assert_int_eq(ftruncate(file, (off_t)blocks.len), 0);
        opened = kmf_ranges_open_gzip(&r, path, file, 5, 4, 3, PARTS, true);
        if (opened)
            kmf_ranges_close(&r);
        ck_assert_int_eq(opened, files[i].for_ranges);
        ck_assert(!kmf_ranges_open_gzip(&r, path, file, 5, 4, 3, PARTS, false));
        free(blocks.bytes);
        ck_assert_int_eq(close(file), 0);
        ck_assert_int_eq(unlink(path), 0);
        free(packed.bytes);
        free(t.bytes);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("ranges");
    tcase_add_checked_fixture(tests, make_dir, remove_dir);
    tcase_add_loop_test(tests, records_are_those_of_the_reader, 0, TRAITS);
    tcase_add_loop_test(tests, records_in_blocks_are_those_of_the_reader, 0, TRAITS);
    tcase_add_test(tests, what_is_no_fasta_is_refused);
    tcase_add_test(tests, a_header_is_never_taken_for_letters);
    tcase_add_test(tests, small_files_and_short_records_are_not_for_ranges);
    tcase_add_test(tests, a_range_of_too_much_is_refused);
    tcase_add_test(tests, a_file_that_changes_is_refused);
    tcase_add_test(tests, a_size_may_be_a_multiple_of_ranges);
    tcase_add_test(tests, a_header_begins_a_line);
    tcase_add_test(tests, blank_lines_may_be_many);
    tcase_add_test(tests, a_file_may_end_with_cr);
    tcase_add_test(tests, gzip_of_contigs_is_for_ranges);
    return run_case("ranges", tests);
}
