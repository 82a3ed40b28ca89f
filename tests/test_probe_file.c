/* SPDX-License-Identifier: MIT */
/* Probes as files: those that come back as they went, and those that lie. */
#include "base/mem.h"
#include "base/out.h"
#include "drawn_points.h"
#include "eval/probe.h"
#include "files.h"
#include "model/safetensors.h"
#include "run.h"

#include <math.h>
#include <unistd.h>

static const char *path; /* of a file in the folder */

static size_t save_probe(kmf_probe *probe, unsigned char *bytes, size_t cap)
{
    const char *const labels[] = {"a", "with blank", "\xc3\xa9", "z"};
    const char *const pairs[] = {"note", "x"};
    const char *const bad[] = {"a", "b\tc", "d", "z"};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_describe(probe, bad, "{}", &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "label 'b?c': a control character in it");
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{\"model\": 1}", NULL), 0);
    const char *const own[] = {"l2", "77", "probe_scale", "column"};
    for (size_t i = 0; i < 4; i += 2)
        ck_assert_int_eq(kmf_probe_save(probe, path, own + i, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_probe_save(probe, path, pairs, 1, NULL), 0);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, cap, f);
    fclose(f);
    ck_assert(n > 0 && n < cap);
    return n;
}

START_TEST(a_file_brings_the_probe_back_and_lies_are_told)
{
    static data d;
    static unsigned char bytes[1 << 16];
    double p[CLASSES];
    double q[CLASSES];
    draw(&d, 8);
    path = in_dir("probe");
    kmf_probe *probe = train_probe(&d, NULL);
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_save(probe, path, NULL, 0, &err), KMF_EINVAL);
    probe->l2 = 1.0 / 3; /* which needs all of its digits */
    size_t n = save_probe(probe, bytes, sizeof bytes);
    kmf_probe *back = kmf_probe_load(path, NULL);
    ck_assert_ptr_nonnull(back);
    ck_assert_str_eq(kmf_probe_label(back, 1), "with blank");
    ck_assert_str_eq(kmf_probe_identity(back), "{\"model\": 1}");
    ck_assert_double_eq(kmf_probe_l2(back), kmf_probe_l2(probe));
    ck_assert_int_eq(kmf_probe_scaled_by(back), kmf_probe_scaled_by(probe));
    ck_assert_str_eq(kmf_probe_provenance(back), "{\"note\":\"x\"}");
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(kmf_probe_predict(probe, p, d.x + i * DIM),
                         kmf_probe_predict(back, q, d.x + i * DIM));
        ck_assert_int_eq(memcmp(p, q, sizeof p), 0);
    }
    kmf_probe_free(back);
    kmf_probe_free(probe);
    /* cut anywhere, it is refused; a byte changed, it is refused or taken, and never more */
    for (size_t cut = 0; cut < n; cut += cut < 900 ? 1 : 13) {
        put(path, bytes, cut);
        ck_assert_ptr_null(kmf_probe_load(path, NULL));
    }
    for (size_t at = 0; at < n; at += 3) {
        bytes[at] ^= 0x15;
        put(path, bytes, n);
        kmf_probe_free(kmf_probe_load(path, NULL));
        bytes[at] ^= 0x15;
    }
    unlink(path);
}
END_TEST

/* What a file is written with. */
typedef struct written {
    const char *labels;
    size_t n_labels;
    const float *shares;
    size_t n_shares;
    const char *scale; /* NULL: none told */
    float weight;      /* the last one */
} written;

static const char *l2_text = "0.5";

/* A file whose header is right; NULL, or why it is no probe: in err. */
static kmf_probe *load_written(const written *w, kmf_err *err)
{
    static const float biases[CLASSES] = {1, 2};
    float weights[CLASSES * DIM] = {1, 2, 3};
    weights[CLASSES * DIM - 1] = w->weight;
    const char *const pairs[] = {"kmerformer.probe", "1",     "embedder", "{}", "l2", l2_text,
                                 "probe_scale",      w->scale};
    kmf_stored tensors[] = {
        {.name = "biases", .dtype = "F32", .shape = {CLASSES}, .rank = 1},
        {.name = "labels", .dtype = "U8", .shape = {w->n_labels}, .rank = 1},
        {.name = "shares", .dtype = "F32", .shape = {w->n_shares}, .rank = 1},
        {.name = "weights", .dtype = "F32", .shape = {CLASSES, DIM}, .rank = 2}};
    const void *const values[] = {biases, w->labels, w->shares, weights};
    kmf_out *out = kmf_out_open_plain(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(
        kmf_safetensors_write(out, tensors, values, 4, pairs, w->scale ? 4 : 3, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    return kmf_probe_load(path, err);
}

START_TEST(a_file_of_other_numbers_than_a_probe_has_is_refused)
{
    static const char labels[] = "a\0b\0c\0d\0e"; /* with the last 0 of all strings */
    static const char bell[] = "a\0b\0\a\0d\0";
    static const float good[CLASSES] = {0.1f, 0.2f, 0.3f, 0.4f};
    static const float endless[CLASSES] = {0.1f, 0.2f, 0.3f, INFINITY};
    static const struct {
        written file;
        const char *says;
    } lies[] = {
        {{labels, 8, endless, 4, NULL, 0}, "a bias or share is not finite"},
        {{labels, 8, good, 4, NULL, NAN}, "a weight is not finite"},
        {{labels, 8, good, 3, NULL, 0},
         "weights, biases, shares and labels do not fit together"},
        {{labels, 10, good, 4, NULL, 0}, "5 labels for 4 classes"},
        {{labels, 6, good, 4, NULL, 0}, "3 labels for 4 classes"},
        {{labels, 7, good, 4, NULL, 0}, "3 labels for 4 classes"},
        {{labels, 9, good, 4, NULL, 0}, "4 labels for 4 classes"},
        {{bell, 8, good, 4, NULL, 0}, "a control character in a label"},
        {{labels, 8, good, 4, "auto", 0}, "its probe_scale is neither column nor common"}};
    static const char *const scales[] = {NULL, "column", "common"};
    path = in_dir("probe");
    for (size_t i = 0; i < 3; i++) {
        kmf_probe *probe = load_written(&(written){labels, 8, good, 4, scales[i], 4}, NULL);
        ck_assert_ptr_nonnull(probe);
        ck_assert_str_eq(kmf_probe_label(probe, 3), "d");
        ck_assert_double_eq((double)kmf_probe_weights(probe)[CLASSES * DIM - 1], 4);
        ck_assert_int_eq(kmf_probe_scaled_by(probe),
                         i == 2 ? KMF_PROBE_COMMON : KMF_PROBE_COLUMN);
        kmf_probe_free(probe);
    }
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(load_written(&lies[i].file, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, lies[i].says), "%s", err.msg);
    }
    static const char *const texts[] = {"0.5x", "0.5 ", "", "0", "-0.5", "inf", "nan"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kmf_err err = {0};
        l2_text = texts[i];
        ck_assert_ptr_null(load_written(&(written){labels, 8, good, 4, NULL, 4}, &err));
        ck_assert_msg(strstr(err.msg, "its l2 is no number above 0"), "%s", err.msg);
    }
    l2_text = "0.5";
    unlink(path);
}
END_TEST

START_TEST(texts_that_are_not_utf8_do_not_lose_a_probe)
{
    static data d;
    static const char *const labels[] = {"a", "\xff", "c", "d"};
    static const char *const pairs[] = {"command", "train -o p\xff\xc3\xa9", "note",
                                        "\xc3\xa9"};
    static const char *const odd_key[] = {"k\xff", "x"};
    kmf_err err = {0};
    size_t len;
    draw(&d, 8);
    path = in_dir("probe");
    kmf_probe *probe = train_probe(&d, NULL);
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{}", &err), 0);
    ck_assert_msg(kmf_probe_save(probe, path, pairs, 2, &err) == 0, "%s", err.msg);
    kmf_probe *back = kmf_probe_load(path, &err);
    ck_assert_msg(back != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_probe_label(back, 1), "\xff");
    char *bytes = get(path, &len);
    ck_assert_ptr_nonnull(strstr(bytes + 8, "\"command\":\"train -o p???\""));
    ck_assert_ptr_nonnull(strstr(bytes + 8, "\"note\":\"\xc3\xa9\""));
    ck_assert_int_eq(kmf_probe_save(probe, path, odd_key, 1, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "k?: not UTF-8, as the texts of safetensors must be");
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "\xff", &err), 0);
    ck_assert_int_eq(kmf_probe_save(probe, path, pairs, 2, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "embedder: not UTF-8, as the texts of safetensors must be");
    kmf_free(bytes);
    kmf_probe_free(back);
    kmf_probe_free(probe);
    unlink(path);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_empty_dir);
    tcase_add_test(tc, a_file_brings_the_probe_back_and_lies_are_told);
    tcase_add_test(tc, a_file_of_other_numbers_than_a_probe_has_is_refused);
    tcase_add_test(tc, texts_that_are_not_utf8_do_not_lose_a_probe);
    return run_case("probe_file", tc);
}
