/* SPDX-License-Identifier: MIT */
/*
 * Second sources: writers of text, binary and safetensors that know nothing of ours; files written
 * out by hand, one for each habit of other programs; gensim.
 */
#include "base/half.h"
#include "failing.h"
#include "model/safetensors.h"
#include "vectorfiles.h"

#include <dirent.h>
#include <sys/wait.h>

/* ---------------------------------------------------------------- what is written -------- */

static const char provenance[] =
    "{\"command\": \"kmerformer word2vec \\\"x\\\"\", \"n\": [1, 2]}";

START_TEST(what_is_saved_is_loaded_bit_for_bit)
{
    for (size_t i = 0; i < N_OF(samples); i++)
        for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++) {
            kmf_vectors_format format = (kmf_vectors_format)f;
            bool tensors = format == KMF_VECTORS_SAFETENSORS;
            kmf_vectors *v = vectors_of(&samples[i], i);
            save(v, in_dir("x"), format, provenance);
            ck_assert_int_eq(access(in_dir("x.vocab"), F_OK) == 0, !tensors && v->info.counted);
            kmf_vectors *again = load(in_dir("x"));
            text first = read_file(in_dir("x"));
            if (!tensors) /* whether the words are canonical is told by them alone */
                ck_assert_int_eq(again->info.canonical,
                                 samples[i].canonical && samples[i].n == SIZE_MAX);
            same_vectors(v, again);
            ck_assert_str_eq(kmf_vectors_provenance(again), tensors ? provenance : "");
            save(again, in_dir("x"), format, NULL);
            text second = read_file(in_dir("x"));
            must_equal(&first, &second);
            free(first.bytes);
            free(second.bytes);
            kmf_vectors_free(v);
            kmf_vectors_free(again);
            unlink(in_dir("x"));
            unlink(in_dir("x.vocab"));
        }
}
END_TEST

/* The same by snprintf, and by bytes. */
static text naive_rows(const kmf_vectors *v, bool binary)
{
    text t = {0};
    char line[128];
    snprintf(line, sizeof line, "%zu %zu\n", v->info.n, v->info.dim);
    add(&t, line);
    for (size_t row = 0; row < v->info.n; row++) {
        kmf_vectors_word(v, row, line);
        add(&t, line);
        if (binary)
            add(&t, " ");
        for (size_t i = 0; i < v->info.dim; i++) {
            float x = kmf_vectors_row(v, row)[i];
            snprintf(line, sizeof line, " %.9g", (double)x);
            if (binary)
                add_bytes(&t, &x, sizeof x); /* of a little-endian machine */
            else
                add(&t, line);
        }
        add(&t, "\n");
    }
    return t;
}

START_TEST(text_and_binary_are_what_a_naive_writer_makes)
{
    for (size_t i = 0; i < N_OF(samples); i++)
        for (int binary = 0; binary < 2; binary++) {
            kmf_vectors *v = vectors_of(&samples[i], i);
            save(v, in_dir("x"), binary ? KMF_VECTORS_BINARY : KMF_VECTORS_TEXT, NULL);
            text got = read_file(in_dir("x"));
            text want = naive_rows(v, binary);
            must_equal(&got, &want);
            free(got.bytes);
            free(want.bytes);
            unlink(in_dir("x"));
            if (v->info.counted) {
                char line[64];
                got = read_file(in_dir("x.vocab"));
                want = (text){0};
                for (size_t row = 0; row < v->info.n; row++) {
                    int n = kmf_vectors_word(v, row, line);
                    snprintf(line + n, sizeof line - (size_t)n, " %llu\n",
                             (unsigned long long)v->count[row]);
                    add(&want, line);
                }
                must_equal(&got, &want);
                free(got.bytes);
                free(want.bytes);
                unlink(in_dir("x.vocab"));
            }
            kmf_vectors_free(v);
        }
}
END_TEST

START_TEST(safetensors_have_the_tensors_of_the_contract)
{
    kmf_vectors *v = vectors_of(&samples[2], 9);
    kmf_safetensors st;
    save(v, in_dir("x"), KMF_VECTORS_SAFETENSORS, provenance);
    text t = read_file(in_dir("x"));
    const unsigned char *bytes = (const unsigned char *)t.bytes;
    ck_assert_int_eq(kmf_safetensors_parse(&st, bytes, t.len, "x", NULL), 0);
    ck_assert_uint_eq(st.n, 3);
    ck_assert_uint_eq((size_t)(st.data - bytes) % 64, 0);
    const kmf_stored *vectors = kmf_safetensors_find(&st, "vectors");
    const kmf_stored *words = kmf_safetensors_find(&st, "words");
    const kmf_stored *counts = kmf_safetensors_find(&st, "counts");
    ck_assert_str_eq(vectors->dtype, "F32");
    ck_assert_str_eq(words->dtype, "U8");
    ck_assert_str_eq(counts->dtype, "U64");
    ck_assert_uint_eq(vectors->begin % 4 + counts->begin % 8, 0);
    ck_assert_uint_eq(vectors->shape[0], v->info.n);
    ck_assert_uint_eq(vectors->shape[1], 10);
    ck_assert_uint_eq(words->shape[1], 8);
    ck_assert_int_eq(memcmp(st.data + vectors->begin, v->values, vectors->bytes), 0);
    ck_assert_int_eq(memcmp(st.data + counts->begin, v->count, counts->bytes), 0);
    for (size_t row = 0; row < v->info.n; row++) {
        char want[KMF_K_MAX + 1] = {0};
        kmf_vectors_word(v, row, want);
        ck_assert_int_eq(memcmp(st.data + words->begin + 8 * row, want, 8), 0);
    }
    ck_assert_str_eq(kmf_safetensors_metadata(&st, "format"), "pt");
    ck_assert_str_eq(kmf_safetensors_metadata(&st, "kmerformer_vectors"), "1");
    ck_assert_str_eq(kmf_safetensors_metadata(&st, "alphabet"), "dna");
    ck_assert_str_eq(kmf_safetensors_metadata(&st, "canonical"), "0");
    ck_assert_str_eq(kmf_safetensors_metadata(&st, "kmerformer"), provenance);
    ck_assert_ptr_null(kmf_safetensors_metadata(&st, "nothing"));
    kmf_safetensors_free(&st);
    free(t.bytes);
    unlink(in_dir("x"));
    kmf_vectors_free(v);
}
END_TEST

/* ---------------------------------------------------------------- habits of others ------- */

/* All hold ACG 1 -2.5 0.001, TTT 0 1e-05 3, each in its own way. */
static const char *const spellings[] = {
    "2 3\nACG 1 -2.5 0.001\nTTT 0 1e-05 3\n",
    "2 3\nACG 1 -2.5 0.001\nTTT 0 1e-05 3",
    "2 3 \nACG 1 -2.5 0.001 \nTTT 0 1e-05 3 \n",
    "2 3\r\nACG 1 -2.5 0.001\r\nTTT 0 1e-05 3\r\n",
    "2\t3\nACG\t1\t-2.5\t0.001\nTTT\t0\t1e-05\t3\n",
    "2  3\nACG   1 \t -2.5  0.001\t\t\nTTT 0 1e-05 3 \r\n",
    "2 3\nacg 1.0 -2.50 0.0010\nUuT 0.0 1E-5 3.\n",
    "02 03\nACG +1 -.25e1 1e-3\nTTT 0 .00001 300e-2\n\n\r\n  \n",
};

static void check_two(const kmf_vectors *v, size_t foreign)
{
    static const float values[] = {1, -2.5f, 0.001f, 0, 1e-05f, 3};
    char word[KMF_K_MAX + 1];
    ck_assert_uint_eq(v->info.n, 2);
    ck_assert_uint_eq(v->info.dim, 3);
    ck_assert_uint_eq(v->info.foreign, foreign);
    ck_assert_int_eq(v->info.counted, 0);
    ck_assert_int_eq((int)v->info.alphabet, KMF_DNA);
    kmf_vectors_word(v, 0, word);
    ck_assert_str_eq(word, "ACG");
    kmf_vectors_word(v, 1, word);
    ck_assert_str_eq(word, "TTT");
    ck_assert_int_eq(memcmp(v->values, values, sizeof values), 0);
}

START_TEST(text_is_read_in_every_spelling)
{
    for (size_t i = 0; i < N_OF(spellings); i++) {
        kmf_vectors *v = parse(spellings[i], strlen(spellings[i]));
        check_two(v, 0);
        kmf_vectors_free(v);
    }
}
END_TEST

static void add_word(text *t, const char *word, const float *x, size_t dim, const char *after)
{
    add(t, word);
    add(t, " ");
    add_bytes(t, x, dim * sizeof *x);
    add(t, after);
}

/* With word2vec.c's newline behind each vector, and without as gensim has it. */
START_TEST(binary_is_read_with_both_habits_of_newlines)
{
    static const float a[] = {1, -2.5f, 0.001f};
    static const float b[] = {0, 1e-05f, 3};
    for (int newline = 0; newline < 2; newline++)
        for (int foreign = 0; foreign < 2; foreign++) {
            text t = {0};
            const char *after = newline ? "\n" : "";
            add(&t, foreign ? "4 3\n" : "2 3\n");
            if (foreign)
                add_word(&t, "</s>", b, 3, after);
            add_word(&t, "ACG", a, 3, after);
            if (foreign)
                add_word(&t, "\xff\x01", a, 3, after);
            add_word(&t, "TTT", b, 3, after);
            kmf_vectors *v = parse(t.bytes, t.len);
            check_two(v, foreign ? 2 : 0);
            kmf_vectors_free(v);
            free(t.bytes);
        }
}
END_TEST

/* Bytes that a reader of text might take for something; one of them is none of text. */
START_TEST(binary_vectors_may_have_any_bytes)
{
    static const char bytes[] = {' ', '\n', '0', '1', '-', '.', 'A', '\r', '\t', 0};
    enum { N = sizeof bytes };
    for (int first = 0; first < N * N; first++)
        for (int dim = 1; dim <= 2; dim++) {
            char x[16];
            float value;
            text t = {0};
            for (int i = 0; i < 16; i++)
                x[i] = bytes[(first * (i % 3 + 1) / (i % 2 ? N : 1) + i / 2) % N];
            x[8] = 1;
            add(&t, dim == 1 ? "2 1\nACG " : "2 2\nACG ");
            add_bytes(&t, x, 4 * (size_t)dim);
            add(&t, first % 2 ? "T " : "\nT ");
            add_bytes(&t, x + 8, 4 * (size_t)dim);
            kmf_vectors *v = parse(t.bytes, t.len);
            ck_assert_uint_eq(v->info.n, 2);
            for (int i = 0; i < dim; i++) {
                memcpy(&value, x + 4 * i, 4);
                ck_assert(value == kmf_vectors_row(v, 0)[i]);
                memcpy(&value, x + 8 + 4 * i, 4);
                ck_assert(value == kmf_vectors_row(v, 1)[i]);
            }
            kmf_vectors_free(v);
            free(t.bytes);
        }
}
END_TEST

/* fastText: blanks at the end of the line, "</s>"; dna2vec: lengths 3 to 8 in one file. */
START_TEST(foreign_words_are_passed_over_and_counted)
{
    static const char fasttext[] = "4 3 \n</s> 9 9 9 \nACG 1 -2.5 0.001 \nNNN nan 1 2 \n"
                                   "TTT 0 1e-05 3 \n";
    static const char dna2vec[] = "7 2\nAAA 1 2\nGGGGGGGG 3 4\nACGT 5 6\nUNK 0 0\nTTTTT 7 8\n"
                                  "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA 1 1\nACGTAC 9 1\n";
    kmf_vectors *v = parse(fasttext, strlen(fasttext));
    check_two(v, 2);
    kmf_vectors_free(v);
    v = parse(dna2vec, strlen(dna2vec));
    ck_assert_uint_eq(v->info.n, 5);
    ck_assert_uint_eq(v->info.foreign, 2);
    ck_assert_int_eq(v->info.k_min, 3);
    ck_assert_int_eq(v->info.k_max, 8);
    ck_assert(kmf_vectors_row(v, 4)[0] == 9.0f);
    kmf_vectors_free(v);
    must_fail("2 1\n</s> 1\nword 2\n", 18, "none of its 2 words is a k-mer");
}
END_TEST

static const struct alphabet_case {
    const char *words; /* between blanks */
    kmf_alphabet alphabet;
    size_t n, foreign;
} alphabet_cases[] = {
    {"A C G T", KMF_DNA, 4, 0},
    {"a c g u", KMF_DNA, 4, 0},
    {"AAA NNN ACN", KMF_DNA, 1, 2},                     /* codes of DNA are residues, too  */
    {"ACG RYS WKM BDH", KMF_DNA, 1, 3},                 /*                                 */
    {"A C G T PAD CLS SEP MASK", KMF_DNA, 4, 4},        /* three of them with E, L or P    */
    {"MKV ACD", KMF_PROTEIN, 2, 0},                     /* none is DNA                     */
    {"AAA MKL", KMF_PROTEIN, 2, 0},                     /* as many that no DNA has         */
    {"AAA ACG MKV LLL FEQ", KMF_PROTEIN, 5, 0},         /*                                 */
    {"AAU LLL FEQ IPE mkv", KMF_PROTEIN, 4, 1},         /* U is no residue                 */
    {"AAAAAAA LLL FEQ IPE ACDEFGH", KMF_PROTEIN, 3, 2}, /* 7 residues are too many      */
    {"ACGTACGT ACGTACG MASK", KMF_DNA, 2, 1},
};

START_TEST(the_alphabet_is_told_by_the_words)
{
    for (size_t i = 0; i < N_OF(alphabet_cases); i++) {
        const struct alphabet_case *c = &alphabet_cases[i];
        char words[128];
        char line[160];
        text rows = {0};
        text t = {0};
        char *at = NULL;
        size_t n = 0;
        strcpy(words, c->words);
        for (char *word = strtok_r(words, " ", &at); word; word = strtok_r(NULL, " ", &at)) {
            snprintf(line, sizeof line, "%s %zu -1\n", word, ++n);
            add(&rows, line);
        }
        snprintf(line, sizeof line, "%zu 2\n", n);
        add(&t, line);
        add_bytes(&t, rows.bytes, rows.len);
        kmf_vectors *v = parse(t.bytes, t.len);
        ck_assert_int_eq((int)v->info.alphabet, (int)c->alphabet);
        ck_assert_uint_eq(v->info.n, c->n);
        ck_assert_uint_eq(v->info.foreign, c->foreign);
        for (size_t row = 0; row < v->info.n; row++) { /* its letters, and its own vector */
            kmf_vectors_word(v, row, words);
            snprintf(line, sizeof line, "%s %g -1\n", words,
                     (double)kmf_vectors_row(v, row)[0]);
            bool there = strstr(rows.bytes, line) != NULL;
            bool other =
                strchr(line, 'T') || strstr(c->words, "mkv") || strstr(c->words, "a c");
            ck_assert_msg(there || other, "%s", line);
        }
        kmf_vectors_free(v);
        free(rows.bytes);
        free(t.bytes);
    }
}
END_TEST

/* ---------------------------------------------------------------- counts ----------------- */

START_TEST(counts_are_read_in_every_spelling)
{
    static const char *const good[] = {
        "ACG 0\nTTT 18446744073709551615\n",
        "uuu 18446744073709551615\n</s> 99\nACG 0",
        "NNN 7 \nTTT\t18446744073709551615\t\r\nACG   0 \r\n",
    };
    for (size_t i = 0; i < N_OF(good); i++) {
        put(in_dir("x"), TWO, strlen(TWO));
        put(in_dir("x.vocab"), good[i], strlen(good[i]));
        kmf_vectors *v = load(in_dir("x"));
        ck_assert_int_eq(v->info.counted, 1);
        ck_assert_uint_eq(v->info.unseen, 1);
        ck_assert_uint_eq(kmf_vectors_count(v, 0), 0);
        ck_assert_uint_eq(kmf_vectors_count(v, 1), UINT64_MAX);
        kmf_vectors_free(v);
    }
    unlink(in_dir("x"));
    unlink(in_dir("x.vocab"));
}
END_TEST

/* ---------------------------------------------------------------- safetensors ------------ */

static void check_plain(const kmf_vectors *v, int canonical)
{
    static const float values[] = {1, 2, -3, 0};
    char word[KMF_K_MAX + 1];
    ck_assert_uint_eq(v->info.n, 2);
    ck_assert_int_eq(v->info.canonical, canonical);
    ck_assert_int_eq(memcmp(v->values, values, sizeof values), 0);
    ck_assert_int_eq(kmf_vectors_word(v, 0, word), 3);
    ck_assert_str_eq(word, "ACG");
    ck_assert_int_eq(kmf_vectors_word(v, 1, word), 1);
    ck_assert_str_eq(word, "T");
}

START_TEST(safetensors_of_other_tools_are_read)
{
    text t = tensors_of(VECTORS "," WORDS "," COUNTS, plain_data, sizeof plain_data);
    kmf_vectors *v = parse(t.bytes, t.len);
    check_plain(v, 0);
    ck_assert_uint_eq(kmf_vectors_count(v, 0), 9);
    ck_assert_uint_eq(kmf_vectors_count(v, 1), (uint64_t)1 << 56);
    ck_assert_str_eq(kmf_vectors_provenance(v), "");
    ck_assert_int_eq((int)v->info.alphabet, KMF_DNA);
    kmf_vectors_free(v);
    free(t.bytes);
    t = tensors_of(VECTORS "," WORDS "," COUNTS
                           "," META("\"alphabet\":\"protein\",\"x\":\"y\""),
                   plain_data, sizeof plain_data);
    v = parse(t.bytes, t.len);
    check_plain(v, 0);
    ck_assert_int_eq((int)v->info.alphabet, KMF_PROTEIN);
    kmf_vectors_free(v);
    free(t.bytes);
}
END_TEST

/* Float64, float16 and bfloat16 of 1 2 -3 0 all hold them exactly. */
START_TEST(values_of_other_types_are_widened)
{
    static const float values[] = {1, 2, -3, 0};
    static const char *const types[] = {"F64", "F16", "BF16"};
    static const size_t bytes[] = {8, 2, 2};
    for (size_t type = 0; type < 3; type++) {
        char entries[512];
        unsigned char data[64];
        size_t n = 4 * bytes[type];
        for (size_t i = 0; i < 4; i++) {
            double wide = (double)values[i];
            uint16_t half =
                type == 1 ? kmf_f16_from_f32(values[i]) : kmf_bf16_from_f32(values[i]);
            if (type == 0)
                memcpy(data + 8 * i, &wide, 8);
            else
                memcpy(data + 2 * i, &half, 2);
        }
        memcpy(data + n, "ACGT\0", 6);
        snprintf(entries, sizeof entries,
                 "\"vectors\":{\"dtype\":\"%s\",\"shape\":[2,2],\"data_offsets\":[0,%zu]},"
                 "\"words\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[%zu,%zu]}",
                 types[type], n, n, n + 6);
        text t = tensors_of(entries, data, n + 6);
        kmf_vectors *v = parse(t.bytes, t.len);
        check_plain(v, 0);
        ck_assert_int_eq(v->info.counted, 0);
        kmf_vectors_free(v);
        free(t.bytes);
    }
}
END_TEST

/* ---------------------------------------------------------------- files ------------------ */

START_TEST(compressed_files_and_streams_are_read)
{
    for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++) {
        char path[300];
        char other[320];
        kmf_vectors *v = vectors_of(&samples[10], 3);
        snprintf(path, sizeof path, "%s.gz", in_dir("x"));
        save(v, path, (kmf_vectors_format)f, NULL);
        text t = read_file(path);
        ck_assert_int_eq((unsigned char)t.bytes[0], 0x1f);
        kmf_vectors *again = load(path);
        same_vectors(v, again);
        kmf_vectors_free(again);
        put(in_dir("x"), t.bytes, t.len - 5); /* and one that is cut off */
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_vectors_load(in_dir("x"), &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_int_eq(strncmp(err.msg, in_dir("x"), strlen(in_dir("x"))), 0);
        free(t.bytes);
        save(v, in_dir("x"), (kmf_vectors_format)f, NULL);
        int fd = open(in_dir("x"), O_RDONLY);
        ck_assert_int_ge(fd, 0);
        snprintf(other, sizeof other, "/dev/fd/%d", fd);
        again = load(other);
        same_vectors(v, again);
        kmf_vectors_free(again);
        close(fd);
        unlink(path);
        unlink(in_dir("x"));
        kmf_vectors_free(v);
    }
}
END_TEST

static void same_bytes(const kmf_map *map, const text *file)
{
    ck_assert_uint_eq(map->len, file->len);
    ck_assert_int_eq(memcmp(map->bytes, file->bytes, file->len), 0);
}

START_TEST(maps_are_those_of_the_files_that_were_read)
{
    char path[2][300];
    snprintf(path[0], sizeof path[0], "%s", in_dir("x"));
    snprintf(path[1], sizeof path[1], "%s.gz", in_dir("x"));
    kmf_vectors *v = vectors_of(&samples[1], 1);
    for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++)
        for (size_t gz = 0; gz < 2; gz++) {
            char beside[620];
            kmf_map file;
            kmf_map counts;
            kmf_err err = {0};
            snprintf(beside, sizeof beside, "%s.vocab", path[gz]);
            save(v, path[gz], (kmf_vectors_format)f, NULL);
            kmf_vectors *again = kmf_vectors_load_maps(path[gz], &file, &counts, &err);
            ck_assert_msg(again != NULL, "%s", err.msg);
            same_vectors(v, again);
            text t = read_file(path[gz]);
            same_bytes(&file, &t);
            free(t.bytes);
            if (f == KMF_VECTORS_SAFETENSORS) {
                ck_assert_uint_eq(counts.len, 0);
            } else {
                t = read_file(beside);
                same_bytes(&counts, &t);
                free(t.bytes);
                unlink(beside);
            }
            unlink(path[gz]);
            kmf_vectors_free(again);
            kmf_map_close(&file);
            kmf_map_close(&counts);
            ck_assert_ptr_null(kmf_vectors_load_maps(path[gz], &file, &counts, &err));
            ck_assert_int_eq(err.code, KMF_EIO);
            ck_assert(!file.bytes && !counts.bytes);
        }
    kmf_vectors_free(v);
}
END_TEST

START_TEST(counts_of_other_vectors_are_never_left_beside)
{
    kmf_err err = {0};
    kmf_vectors *bare = vectors_of(&samples[0], 1);
    kmf_vectors *counted = vectors_of(&samples[1], 1);
    save(counted, in_dir("x"), KMF_VECTORS_TEXT, NULL);
    text before = read_file(in_dir("x"));
    ck_assert_int_eq(kmf_vectors_save(bare, in_dir("x"), KMF_VECTORS_BINARY, NULL, &err),
                     KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.vocab: would be read as counts"));
    ck_assert_int_eq(kmf_vectors_save(bare, in_dir("x"), KMF_VECTORS_TEXT, NULL, NULL),
                     KMF_EIO);
    text after = read_file(in_dir("x"));
    must_equal(&before, &after);
    free(after.bytes);
    free(before.bytes);
    save(bare, in_dir("x"), KMF_VECTORS_SAFETENSORS, NULL); /* which looks for none */
    kmf_vectors *again = load(in_dir("x"));
    same_vectors(bare, again);
    kmf_vectors_free(again);
    unlink(in_dir("x"));
    unlink(in_dir("x.vocab"));
    kmf_vectors_free(bare);
    kmf_vectors_free(counted);
}
END_TEST

/* A file of two bytes that is ready for its name. */
static kmf_out *finished(const char *path)
{
    kmf_err err = {0};
    kmf_out *out = kmf_out_open(path, &err);
    ck_assert_int_eq(kmf_out_write(out, "{}", 2, &err), 0);
    ck_assert_int_eq(kmf_out_finish(out, &err), 0);
    return out;
}

START_TEST(what_describes_vectors_is_there_with_them_or_not_at_all)
{
    char path[300];
    kmf_vectors *v = vectors_of(&samples[1], 1);
    snprintf(path, sizeof path, "%s.json", in_dir("x"));
    for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++)
        for (int fails = 0; fails < 2; fails++) {
            kmf_err err = {0};
            kmf_out *first = finished(path);
            const char *kept = fails ? "[1]" : "{}";
            bool can_fail = fails && f == KMF_VECTORS_SAFETENSORS;
            if (fails && !can_fail)
                ck_assert_int_eq(mkdir(in_dir("x.vocab"), 0777), 0);
            int status =
                kmf_vectors_save_with(v, in_dir("x"), (kmf_vectors_format)f, kept, first, &err);
            ck_assert_msg((status == 0) == !fails, "%s", err.msg);
            kmf_out_free(first);
            ck_assert_int_eq(unlink(path), fails ? -1 : 0);
            ck_assert_int_eq(unlink(in_dir("x")), fails ? -1 : 0);
            if (fails && !can_fail)
                ck_assert_int_eq(rmdir(in_dir("x.vocab")), 0);
            else
                (void)unlink(in_dir("x.vocab"));
        }
    kmf_vectors_free(v);
}
END_TEST

START_TEST(a_save_that_fails_leaves_nothing_behind)
{
    kmf_err err = {0};
    char path[300];
    kmf_vectors *v = vectors_of(&samples[1], 1);
    ck_assert_int_eq(kmf_vectors_save(v, "-", KMF_VECTORS_BINARY, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "binary vectors are not written to standard output");
    ck_assert_int_eq(kmf_vectors_save(v, "-", KMF_VECTORS_SAFETENSORS, NULL, NULL), KMF_EINVAL);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_vectors_save(v, in_dir("x"), KMF_VECTORS_SAFETENSORS, "[1]", &err),
                     KMF_EINVAL);
    ck_assert_int_eq(kmf_vectors_save(v, in_dir("x"), KMF_VECTORS_SAFETENSORS, "{", NULL),
                     KMF_EINVAL);
    snprintf(path, sizeof path, "%s/no/x", dir);
    for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++) {
        kmf_vectors_format format = (kmf_vectors_format)f;
        ck_assert_int_eq(kmf_vectors_save(v, path, format, NULL, NULL), KMF_EIO);
        ck_assert_int_eq(kmf_vectors_save(v, "/dev/full", format, NULL, NULL), KMF_EIO);
        ck_assert_int_eq(mkdir(in_dir("x"), 0777),
                         0); /* where the vectors should get their name */
        ck_assert_int_eq(kmf_vectors_save(v, in_dir("x"), format, NULL, NULL), KMF_EIO);
        ck_assert_int_eq(rmdir(in_dir("x")), 0);
        ck_assert_int_eq(mkdir(in_dir("x.vocab"), 0777), 0); /* the counts */
        int want = format == KMF_VECTORS_SAFETENSORS ? 0 : KMF_EIO;
        ck_assert_int_eq(kmf_vectors_save(v, in_dir("x"), format, NULL, NULL), want);
        ck_assert_int_eq(unlink(in_dir("x")), want ? -1 : 0);
        ck_assert_int_eq(rmdir(in_dir("x.vocab")), 0);
    }
    kmf_vectors_free(v);
}
END_TEST

START_TEST(a_provenance_too_long_to_be_read_is_refused)
{
    size_t n = KMF_SAFETENSORS_HEADER_MAX;
    char *text_of_it = malloc(n + 16);
    kmf_err err = {0};
    ck_assert_ptr_nonnull(text_of_it);
    memset(text_of_it, 'x', n);
    memcpy(text_of_it, "{\"a\":\"", 6);
    strcpy(text_of_it + n, "\"}");
    kmf_vectors *v = vectors_of(&samples[0], 1);
    ck_assert_int_eq(
        kmf_vectors_save(v, in_dir("x"), KMF_VECTORS_SAFETENSORS, text_of_it, &err),
        KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "safetensors header of 167"));
    kmf_vectors_free(v);
    free(text_of_it);
}
END_TEST

START_TEST(files_that_are_not_there_are_named)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_vectors_load(in_dir("x"), &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/x: No such file"));
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_vectors_load(dir, &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_null(kmf_vectors_load("/dev/null", NULL));
    put(in_dir("x"), TWO, strlen(TWO));
    ck_assert_int_eq(mkdir(in_dir("x.vocab"), 0777), 0);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_vectors_load(in_dir("x"), &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.vocab"));
    rmdir(in_dir("x.vocab"));
    unlink(in_dir("x"));
}
END_TEST

/* Runs tests/cli/vectors_peer; what it prints goes to the log. */
static int peer(const char *arguments)
{
    text command = {0};
    add(&command, "tests/cli/vectors_peer ");
    add(&command, arguments);
    fflush(NULL);
    int status = system(command.bytes);
    free(command.bytes);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void remove_files(void)
{
    DIR *entries = opendir(dir);
    ck_assert_ptr_nonnull(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        unlinkat(dirfd(entries), entry->d_name, 0); /* . and .. stay */
    closedir(entries);
}

/* gensim's load_word2vec_format, with our counts as its fvocab: the same floats, and counts. */
START_TEST(gensim_reads_what_is_written)
{
    if (peer("check") != 0) {
        printf("skip: no gensim\n");
        return;
    }
    text arguments = {0};
    add(&arguments, "equal");
    for (size_t i = 0; i < N_OF(samples); i += 2)
        for (int f = KMF_VECTORS_TEXT; f <= KMF_VECTORS_BINARY; f++) {
            char file[300];
            char words[1200];
            const char *form = kmf_vectors_format_names[f];
            kmf_vectors *v = vectors_of(&samples[i], i);
            snprintf(file, sizeof file, "%s/%zu.%s", dir, i, form);
            save(v, file, (kmf_vectors_format)f, NULL);
            snprintf(words, sizeof words, " %s %s %s%s %s.raw", form, file,
                     v->info.counted ? file : "-", v->info.counted ? ".vocab" : "", file);
            add(&arguments, words);
            snprintf(words, sizeof words, "%s.raw", file);
            put(words, v->values, v->info.n * v->info.dim * sizeof(float));
            kmf_vectors_free(v);
        }
    ck_assert_int_eq(peer(arguments.bytes), 0);
    free(arguments.bytes);
    remove_files();
}
END_TEST

/* And the other way: the same floats as gensim reads. */
START_TEST(what_others_write_is_read_as_gensim_reads_it)
{
    static const char *const names[] = {"gensim.txt", "gensim.bin", "word2vec.txt",
                                        "word2vec.bin", "dna2vec.txt"};
    static const size_t n_words[] = {256, 256, 64, 64, 64 + 256 + 3 * 1024 + 1024};
    if (peer("check") != 0) {
        printf("skip: no gensim\n");
        return;
    }
    text arguments = {0};
    add(&arguments, "make ");
    add(&arguments, dir);
    ck_assert_int_eq(peer(arguments.bytes), 0);
    for (size_t i = 0; i < N_OF(names); i++) {
        char raw[64];
        snprintf(raw, sizeof raw, "%s.raw", names[i]);
        kmf_vectors *v = load(in_dir(names[i]));
        text want = read_file(in_dir(raw));
        size_t foreign = i == 2 || i == 3; /* "</s>", the first */
        size_t row = v->info.dim * sizeof(float);
        ck_assert_uint_eq(v->info.n, n_words[i]);
        ck_assert_uint_eq(v->info.foreign, foreign);
        ck_assert_int_eq(v->info.counted, i < 2);
        ck_assert_uint_eq(want.len, (v->info.n + foreign) * row);
        ck_assert_int_eq(memcmp(v->values, want.bytes + foreign * row, v->info.n * row), 0);
        for (size_t j = 0; i < 2 && j < 256; j++) /* word j of all has the count 3 j + 1 */
            ck_assert_uint_eq(kmf_vectors_count(v, j), 3 * v->code[j] + 1);
        free(want.bytes);
        kmf_vectors_free(v);
    }
    free(arguments.bytes);
    remove_files();
}
END_TEST

/* Whichever allocation fails: KMF_ENOMEM, no file, nothing lost. */
static size_t fail_all(const kmf_vectors *v, kmf_vectors_format format, bool loading)
{
    size_t fail = 0;
    for (bool done = false; !done;) {
        kmf_err err = {0};
        kmf_vectors *again = NULL;
        kmf_mem_fail_at(++fail);
        if (loading)
            again = kmf_vectors_load(in_dir("x"), &err);
        else
            (void)!kmf_vectors_save(v, in_dir("x"), format, provenance, &err);
        done = !failed_at(fail);
        if (err.code != (done ? KMF_OK : KMF_ENOMEM))
            ck_abort_msg("allocation %zu: %s", fail, err.msg);
        ck_assert_int_eq(again != NULL, loading && done);
        ck_assert_int_eq(access(in_dir("x"), F_OK) == 0, loading || done);
        kmf_vectors_free(again);
    }
    return fail;
}

START_TEST(every_failed_allocation_is_reported)
{
    kmf_vectors *v = vectors_of(&samples[6], 1);
    for (int f = KMF_VECTORS_SAFETENSORS; f <= KMF_VECTORS_BINARY; f++) {
        ck_assert_uint_gt(fail_all(v, (kmf_vectors_format)f, false), 5);
        ck_assert_uint_gt(fail_all(v, (kmf_vectors_format)f, true), 10);
        unlink(in_dir("x"));
        unlink(in_dir("x.vocab"));
    }
    kmf_vectors_free(v);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_empty_dir);
    tcase_add_test(tcase, what_is_saved_is_loaded_bit_for_bit);
    tcase_add_test(tcase, text_and_binary_are_what_a_naive_writer_makes);
    tcase_add_test(tcase, safetensors_have_the_tensors_of_the_contract);
    tcase_add_test(tcase, text_is_read_in_every_spelling);
    tcase_add_test(tcase, binary_is_read_with_both_habits_of_newlines);
    tcase_add_test(tcase, binary_vectors_may_have_any_bytes);
    tcase_add_test(tcase, foreign_words_are_passed_over_and_counted);
    tcase_add_test(tcase, the_alphabet_is_told_by_the_words);
    tcase_add_test(tcase, counts_are_read_in_every_spelling);
    tcase_add_test(tcase, safetensors_of_other_tools_are_read);
    tcase_add_test(tcase, values_of_other_types_are_widened);
    tcase_add_test(tcase, compressed_files_and_streams_are_read);
    tcase_add_test(tcase, maps_are_those_of_the_files_that_were_read);
    tcase_add_test(tcase, counts_of_other_vectors_are_never_left_beside);
    tcase_add_test(tcase, a_save_that_fails_leaves_nothing_behind);
    tcase_add_test(tcase, what_describes_vectors_is_there_with_them_or_not_at_all);
    tcase_add_test(tcase, a_provenance_too_long_to_be_read_is_refused);
    tcase_add_test(tcase, files_that_are_not_there_are_named);
    tcase_add_test(tcase, gensim_reads_what_is_written);
    tcase_add_test(tcase, what_others_write_is_read_as_gensim_reads_it);
    tcase_add_test(tcase, every_failed_allocation_is_reported);
    return run_case("vectorfile", tcase);
}
