/* SPDX-License-Identifier: MIT */
/*
 * Models as directories: found, refused, made and saved. Second sources: the golden
 * checkpoints; weights of a new model drawn here from their streams, the first of them worked
 * out in Python's integers; bytes saved twice.
 */
#include "base/json.h"
#include "base/rng.h"
#include "failing.h"
#include "model/layout.h"
#include "model/locate.h"
#include "models.h"
#include "run.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- the directory ----------------------------------------------------------------------- */

START_TEST(a_directory_that_is_no_model_is_refused_in_words)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_model_load(in_dir("nowhere"), &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "nowhere: No such file or directory"));
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_model_load(GOLDEN "/config.json", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "config.json: neither a safetensors file"));
    refused(KMF_EMODEL, "no config.json in it");
    copy_golden(GOLDEN, "vocab.txt");
    refused(KMF_EMODEL, "no vocab.txt in it");
    ck_assert_int_eq(unlink(in_dir("model.safetensors")), 0);
    copy_golden(GOLDEN, "model.safetensors");
    refused(KMF_EMODEL, "no model.safetensors in it");
    put(in_dir("pytorch_model.bin"), "x", 1);
    refused(KMF_EMODEL, "pytorch_model.bin: ");
    put(in_dir("model.safetensors.index.json"), "{}", 2);
    refused(KMF_EMODEL, "model.safetensors.index.json: ");
    put(in_dir("model.safetensors"), "", 0);
    refused(KMF_EMODEL, "0 bytes are too short");
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_an_input_error)
{
    copy_golden(GOLDEN, "");
    if (geteuid() == 0) {
        ck_assert_int_eq(unlink(in_dir("model.safetensors")), 0);
        ck_assert_int_eq(mkdir(in_dir("model.safetensors"), 0777), 0);
        refused(KMF_EIO, "not a regular file");
        ck_assert_int_eq(rmdir(in_dir("model.safetensors")), 0);
        copy_golden(GOLDEN, "");
        ck_assert_int_eq(unlink(in_dir("config.json")), 0);
        ck_assert_int_eq(mkdir(in_dir("config.json"), 0777), 0);
        refused(KMF_EIO, "config.json: Is a directory");
        return;
    }
    ck_assert_int_eq(chmod(in_dir("model.safetensors"), 0), 0);
    refused(KMF_EIO, "model.safetensors: Permission denied");
    ck_assert_int_eq(chmod(in_dir("config.json"), 0), 0);
    refused(KMF_EIO, "config.json: Permission denied");
}
END_TEST

START_TEST(a_pipe_among_its_files_is_not_waited_for)
{
    static const char *const names[] = {"config.json", "vocab.txt", "tokenizer_config.json",
                                        "model.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        copy_golden(GOLDEN, "");
        (void)unlink(in_dir(names[i]));
        ck_assert_int_eq(mkfifo(in_dir(names[i]), 0600), 0);
        refused(KMF_EIO, "not a regular file");
        ck_assert_int_eq(unlink(in_dir(names[i])), 0);
    }
}
END_TEST

START_TEST(config_and_vocabulary_must_go_together)
{
    size_t len;
    copy_golden(GOLDEN, "vocab.txt");
    char *text = get(GOLDEN "/vocab.txt", &len);
    put(in_dir("vocab.txt"), text, len - 6);
    refused(KMF_EMODEL, "config.json: vocab_size is 1029, but vocab.txt has 1028 tokens");
    kmf_free(text);
    copy_golden(GOLDEN, "");
    put(in_dir("config.json"), "{\"model_type\":\"bert\"}", 21);
    refused(KMF_EMODEL, "config.json: vocab_size is missing");
}
END_TEST

START_TEST(a_config_that_promises_more_layers_is_held_to_it)
{
    size_t len;
    copy_golden(GOLDEN, "");
    char *text = get(GOLDEN "/config.json", &len);
    char *layers = strstr(text, "\"num_hidden_layers\": 3");
    ck_assert_ptr_nonnull(layers);
    layers[21] = '4';
    put(in_dir("config.json"), text, len);
    refused(KMF_EMODEL, "roformer.encoder.layer.3.attention.output.LayerNorm.bias is missing");
    layers[21] = '2';
    put(in_dir("config.json"), text, len);
    refused(KMF_EMODEL,
            "roformer.encoder.layer.2.attention.output.LayerNorm.bias: has no place");
    kmf_free(text);
}
END_TEST

/* ---- the default model ------------------------------------------------------------------- */

START_TEST(the_variable_names_the_default_model)
{
    kmf_err err = {0};
    ck_assert_int_eq(setenv("KMERFORMER_MODEL", GOLDEN, 1), 0);
    kmf_model *m = kmf_model_load(NULL, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_model_path(m), GOLDEN);
    kmf_model_free(m);
    ck_assert_int_eq(setenv("KMERFORMER_MODEL", "/nowhere/at all", 1), 0);
    ck_assert_ptr_null(kmf_model_load(NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere/at all"));
    unsetenv("KMERFORMER_MODEL");
}
END_TEST

START_TEST(without_it_the_places_looked_at_are_named_or_one_is_found)
{
    kmf_err err = {0};
    unsetenv("KMERFORMER_MODEL");
    char *path = kmf_locate_default(&err);
    if (path) {
        char config[4096];
        snprintf(config, sizeof config, "%s/config.json", path);
        ck_assert_int_eq(access(config, F_OK), 0);
        kmf_free(path);
        return;
    }
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "KMERFORMER_MODEL"));
    ck_assert_ptr_nonnull(strstr(err.msg, "/../data/default"));
    ck_assert_ptr_nonnull(strstr(err.msg, "/../share/kmerformer/default"));
}
END_TEST

/* ---- new models -------------------------------------------------------------------------- */

static kmf_model *new_nano(int k, uint64_t seed)
{
    kmf_config c;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&c, "nano", k, &err), 0);
    kmf_model *m = kmf_model_new(&c, seed, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    return m;
}

START_TEST(a_new_model_has_the_weights_its_seed_and_place_say)
{
    kmf_model *m = new_nano(3, 42);
    /* rows of the table: word 0, query 6; layer 2 has streams from 3 x 2^16 on */
    kmf_rng word = kmf_rng_stream(42, 0);
    for (size_t i = 0; i < 69 * 128; i++)
        ck_assert(m->params.word[i] == kmf_rng_normal(&word) * 0.02f);
    kmf_rng query = kmf_rng_stream(42, 3 * 65536 + 6);
    for (size_t i = 0; i < 128 * 128; i++)
        ck_assert(m->params.layers[2].wq[i] == kmf_rng_normal(&query) * 0.02f);
    for (size_t i = 0; i < 128; i++) {
        ck_assert(m->params.layers[2].bq[i] == 0.0f);
        ck_assert(m->params.layers[2].ln1_w[i] == 1.0f);
        ck_assert(m->params.layers[2].ln1_b[i] == 0.0f);
        ck_assert(m->params.head_ln_w[i] == 1.0f);
    }
    ck_assert_ptr_null(m->params.proj_w);
    ck_assert_uint_eq(kmf_model_n_parameters(m), kmf_config_parameters(&m->config, 1));
    ck_assert_str_eq(kmf_model_path(m), "");
    ck_assert_uint_eq(kmf_vocab_size(kmf_model_vocab(m)), 69);
    kmf_model_free(m);
}
END_TEST

START_TEST(the_first_weights_have_these_very_bits)
{
    /* Worked out in Python's integers from the equations of rng.h and rounded once. */
    static const uint32_t want[] = {0x3d35bfaeu, 0x3b9a7ae1u, 0x3bcde147u, 0xbca04852u};
    kmf_model *m = new_nano(3, 42);
    for (size_t i = 0; i < 4; i++) {
        uint32_t bits;
        memcpy(&bits, &m->params.word[i], 4);
        ck_assert_msg(bits == want[i], "%zu: %08x", i, bits);
    }
    kmf_model_free(m);
}
END_TEST

START_TEST(a_config_out_of_range_makes_no_model)
{
    kmf_config c;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 3, &err), 0);
    c.vocab_size = 70;
    ck_assert_ptr_null(kmf_model_new(&c, 1, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "model: vocab_size is 70, but k 3 gives 69 tokens");
    err = (kmf_err){0};
    c.vocab_size = 69;
    c.n_heads = 5;
    ck_assert_ptr_null(kmf_model_new(&c, 1, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
}
END_TEST

/* jansson's allocations, for kmf_mem_fail_at. */
/* ---- saving ------------------------------------------------------------------------------ */

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char path[1024];
    size_t n;
    size_t m;
    snprintf(path, sizeof path, "%s/%s", a, name);
    char *x = get(path, &n);
    snprintf(path, sizeof path, "%s/%s", b, name);
    char *y = get(path, &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s", name);
    kmf_free(x);
    kmf_free(y);
}

static void assert_same_dirs(const char *a, const char *b)
{
    ck_assert_int_eq(n_entries(a), 4);
    ck_assert_int_eq(n_entries(b), 4);
    assert_same_file(a, b, "config.json");
    assert_same_file(a, b, "vocab.txt");
    assert_same_file(a, b, "tokenizer_config.json");
    assert_same_file(a, b, "model.safetensors");
}

START_TEST(save_load_save_gives_the_same_bytes)
{
    static const kmf_dtype dtypes[] = {KMF_F32, KMF_F16, KMF_BF16, KMF_I8};
    kmf_err err = {0};
    kmf_model *m = new_nano(2, 7);
    const char *kept = "{\"command\":\"kmerformer pretrain x.fa\",\"loss\":1.2345,\"a\":null}";
    int rc = kmf_model_save(m, in_dir("one"), dtypes[_i], kept, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    kmf_model *n = kmf_model_load(in_dir("one"), &err);
    ck_assert_msg(n != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_model_provenance(n), kept);
    rc = kmf_model_save(n, in_dir("two/"), dtypes[_i], NULL, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    assert_same_dirs(in_dir("one"), in_dir("two"));
    if (dtypes[_i] == KMF_F32)
        assert_same_weights(m, n);
    ck_assert_int_eq(n_entries(dir), 2);
    kmf_model_free(m);
    kmf_model_free(n);
}
END_TEST

START_TEST(a_long_provenance_is_kept_whole)
{
    kmf_err err = {0};
    kmf_config config;
    static char text[6000];
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "{\"command\":\"", 12);
    memcpy(text + sizeof text - 3, "\"}", 3);
    ck_assert_int_eq(kmf_config_preset(&config, "nano", 2, &err), 0);
    kmf_model *m = kmf_model_new(&config, 1, &err);
    ck_assert_ptr_nonnull(m);
    ck_assert_msg(kmf_model_save(m, in_dir("long"), KMF_F32, text, &err) == 0, "%s", err.msg);
    kmf_model_free(m);
    m = kmf_model_load(in_dir("long"), &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_model_provenance(m), text);
    char *read = kmf_model_read_provenance(kmf_model_path(m), NULL);
    ck_assert_str_eq(read, text);
    kmf_text_free(read);
    kmf_model_free(m);
}
END_TEST

static void appended(const char *text, const char *want)
{
    kmf_err err = {0};
    char *got = NULL;
    json_set_alloc_funcs(counted_malloc, kmf_free);
    for (size_t n = 1; !got; n++) {
        err = (kmf_err){0};
        kmf_mem_fail_at(n);
        got = kmf_json_append(text, "done", "{\"as\":\"f16\"}", &err);
        kmf_mem_fail_at(0);
        /* KMF_EMODEL too: jansson may take missing memory for bad text */
        ck_assert_msg((got == NULL) == (err.code != KMF_OK), "%zu: %s", n, err.msg);
        ck_assert_uint_lt(n, 1000);
    }
    ck_assert_str_eq(got, want);
    kmf_text_free(got);
    json_set_alloc_funcs(malloc, free);
}

START_TEST(a_provenance_goes_on)
{
    kmf_err err = {0};
    appended("", "{\"done\":[{\"as\":\"f16\"}]}");
    appended("{\"a\":1.5}", "{\"a\":1.5,\"done\":[{\"as\":\"f16\"}]}");
    appended("{\"done\":[1],\"a\":null}", "{\"done\":[1,{\"as\":\"f16\"}],\"a\":null}");
    appended("{\"done\":\"by hand\"}", "{\"done\":[\"by hand\",{\"as\":\"f16\"}]}");
    ck_assert_ptr_null(kmf_json_append("[]", "done", "{}", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_null(kmf_json_append("{}", "done", "{", NULL));
}
END_TEST

START_TEST(a_published_checkpoint_saved_keeps_every_weight)
{
    kmf_err err = {0};
    size_t len;
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    ck_assert_int_eq(kmf_model_save(m, in_dir("s"), KMF_F32, NULL, &err), 0);
    kmf_model *n = kmf_model_load(in_dir("s"), &err);
    ck_assert_msg(n != NULL, "%s", err.msg);
    assert_same_weights(m, n);
    assert_same_file(GOLDEN, in_dir("s"), "vocab.txt");
    char *text = get(in_dir("s/tokenizer_config.json"), &len); /* there was none */
    ck_assert_str_eq(text, "{\"do_lower_case\": false, \"model_max_length\": 512}\n");
    kmf_free(text);
    kmf_model_free(m);
    kmf_model_free(n);
}
END_TEST

START_TEST(an_empty_directory_is_used_and_any_other_thing_refused)
{
    kmf_err err = {0};
    kmf_model *m = new_nano(1, 1);
    ck_assert_int_eq(mkdir(in_dir("empty"), 0777), 0);
    int rc = kmf_model_save(m, in_dir("empty"), KMF_F32, NULL, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(kmf_model_save(m, in_dir("empty"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "empty: exists and is not empty"));
    err = (kmf_err){0};
    put(in_dir("file"), "x", 1);
    ck_assert_int_eq(kmf_model_save(m, in_dir("file"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "file: exists and is not a directory"));
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_model_save(m, in_dir("no/such"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "No such file or directory"));
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), KMF_F64, NULL, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), (kmf_dtype)17, NULL, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_model_update(m, in_dir("x"), KMF_F64, NULL, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_model_update(m, in_dir("x"), KMF_F32, "[]", NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), KMF_F32, "[]", NULL), KMF_EINVAL);
    ck_assert_int_eq(n_entries(dir), 2);
    kmf_model_free(m);
}
END_TEST

/* By the tensors of two models, row by row. */
static double worst_row(const kmf_model *a, const kmf_model *b, size_t *tensor, size_t *row)
{
    kmf_slots slots;
    double worst = 0;
    ck_assert_int_eq(kmf_slots_new(&slots, &a->config, true, NULL), 0);
    for (size_t i = 0; i < slots.n; i++) {
        const float *x = kmf_slot_get(&a->params, &slots.slot[i]);
        const float *y = kmf_slot_get(&b->params, &slots.slot[i]);
        size_t n_rows = slots.slot[i].rank == 2 ? slots.slot[i].shape[0] : 1;
        size_t width = slots.slot[i].n / n_rows;
        for (size_t r = 0; r < n_rows; r++) {
            double off = 0;
            double all = 0;
            for (size_t j = r * width; j < (r + 1) * width; j++) {
                off += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
                all += (double)x[j] * (double)x[j];
            }
            if (off > worst * worst * all) {
                worst = sqrt(off / all);
                *tensor = i;
                *row = r;
            }
        }
    }
    kmf_slots_free(&slots);
    return worst;
}

START_TEST(the_rounding_told_is_that_of_the_file)
{
    static const kmf_dtype dtypes[] = {KMF_F32, KMF_F16, KMF_BF16, KMF_I8};
    static const double least[] = {0, 1e-4, 1e-3, 4e-3};
    static const double most[] = {0, 5e-4, 4e-3, 2e-2};
    kmf_err err = {0};
    kmf_rounding told;
    size_t tensor = 0;
    size_t row = 0;
    kmf_model *m = new_nano(2, 7);
    for (size_t i = 0; i < 128; i++) /* some numbers that are not 0 or 1, with one large */
        m->params.layers[3].b1[i] = m->params.word[i] * (i == 5 ? 1000.0f : 1.0f);
    ck_assert_int_eq(kmf_model_rounding(m, dtypes[_i], &told, &err), 0);
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), dtypes[_i], NULL, &err), 0);
    kmf_model *n = kmf_model_load(in_dir("x"), &err);
    ck_assert_msg(n != NULL, "%s", err.msg);
    double worst = worst_row(m, n, &tensor, &row);
    ck_assert_msg(fabs(worst - told.error) <= 1e-12, "%g, told %g", worst, told.error);
    ck_assert_uint_eq(told.tensor, tensor);
    ck_assert_uint_eq(told.row, row);
    ck_assert_msg(worst >= least[_i] && worst <= most[_i], "%g", worst);
    kmf_model_free(m);
    kmf_model_free(n);
}
END_TEST

START_TEST(weights_are_rounded_to_what_is_written_alone)
{
    static const kmf_dtype none[] = {KMF_F64, (kmf_dtype)9};
    kmf_model *m = new_nano(1, 1);
    for (size_t i = 0; i < 2; i++) {
        kmf_err err[2] = {{0}};
        kmf_rounding told;
        ck_assert_int_eq(kmf_model_rounding(m, none[i], &told, &err[0]), KMF_EINVAL);
        ck_assert_int_eq(kmf_model_save(m, in_dir("x"), none[i], NULL, &err[1]), KMF_EINVAL);
        ck_assert_str_eq(err[0].msg, err[1].msg);
    }
    ck_assert_int_eq(n_entries(dir), 0);
    kmf_model_free(m);
}
END_TEST

START_TEST(a_row_that_8_bits_cannot_hold_leaves_nothing_behind)
{
    static const float wrong[] = {INFINITY, NAN, FLT_MAX};
    for (size_t i = 0; i < 3; i++) {
        kmf_err err = {0};
        kmf_model *m = new_nano(1, 1);
        m->params.layers[1].wv[128 * 3 + 7] = wrong[i];
        ck_assert_int_eq(kmf_model_save(m, in_dir("x"), KMF_I8, NULL, &err), KMF_ENUMERIC);
        ck_assert_str_eq(err.msg,
                         "tensor roformer.encoder.layer.1.attention.self.value.weight: "
                         "row 3 is too large for I8");
        ck_assert_int_eq(n_entries(dir), 0);
        kmf_model_free(m);
    }
}
END_TEST

START_TEST(a_value_that_float16_cannot_hold_leaves_nothing_behind)
{
    kmf_err err = {0};
    kmf_model *m = new_nano(1, 1);
    m->slab[0] = 1e6f;
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), KMF_F16, NULL, &err), KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "1e+06 is too large for F16"));
    ck_assert_int_eq(n_entries(dir), 0);
    kmf_model_free(m);
}
END_TEST

START_TEST(a_disk_that_fills_up_leaves_nothing_behind)
{
    kmf_model *m = new_nano(2, 1);
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    static const rlim_t limits[] = {0, 100, 1000, 100000, 1000000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        kmf_err err = {0};
        struct rlimit limit = {limits[i], old.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int rc = kmf_model_save(m, in_dir("x"), KMF_F32, NULL, &err);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
        ck_assert_int_eq(rc, KMF_EIO);
        ck_assert_ptr_nonnull(strstr(err.msg, "File too large"));
        ck_assert_int_eq(n_entries(dir), 0);
    }
    kmf_err err = {0};
    ck_assert_int_eq(kmf_model_save(m, in_dir("x"), KMF_F32, NULL, &err), 0);
    kmf_model_free(m);
}
END_TEST

/* The second model has other words: one half of each would be no model. */
START_TEST(a_disk_that_fills_up_leaves_the_model_that_was_to_be_replaced)
{
    kmf_model *m = new_nano(2, 1);
    kmf_model *next = new_nano(3, 2);
    kmf_err err = {0};
    struct rlimit old;
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    ck_assert_int_eq(kmf_model_save(m, in_dir("was"), KMF_F32, NULL, &err), 0);
    ck_assert_int_eq(kmf_model_update(m, in_dir("x"), KMF_F32, NULL, &err), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit limit = {100000, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int rc = kmf_model_update(next, in_dir("x"), KMF_F32, NULL, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(rc, KMF_EIO);
    assert_same_dirs(in_dir("was"), in_dir("x"));
    ck_assert_int_eq(kmf_model_update(next, in_dir("x"), KMF_F32, NULL, NULL), 0);
    ck_assert_int_eq(kmf_model_save(next, in_dir("new"), KMF_F32, NULL, NULL), 0);
    assert_same_dirs(in_dir("new"), in_dir("x"));
    kmf_model_free(m);
    kmf_model_free(next);
}
END_TEST

START_TEST(a_file_of_a_model_is_not_overwritten)
{
    kmf_model *m = new_nano(1, 1);
    kmf_err err = {0};
    const char *path = in_dir("m.safetensors");
    ck_assert_int_eq(kmf_model_save(m, path, KMF_F32, NULL, &err), 0);
    size_t before, after;
    char *was = kmf_file_read(path, (size_t)1 << 24, &before, &err);
    ck_assert_int_eq(kmf_model_save(m, path, KMF_BF16, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "m.safetensors: exists; a model is not overwritten"));
    char *is = kmf_file_read(path, (size_t)1 << 24, &after, &err);
    ck_assert_uint_eq(before, after);
    ck_assert_mem_eq(was, is, before);
    kmf_free(was);
    kmf_free(is);
    kmf_model_free(m);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------ */

START_TEST(making_one_survives_every_failed_allocation)
{
    kmf_config c;
    kmf_model *m = NULL;
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 1, NULL), 0);
    for (size_t n = 1; !m; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        m = kmf_model_new(&c, 1, &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(err.code == (m ? KMF_OK : KMF_ENOMEM), "%zu: %s", n, err.msg);
        ck_assert_uint_lt(n, 10000);
    }
    kmf_model_free(m);
}
END_TEST

/* jansson's own allocations included, in steps, for there are thousands. */
START_TEST(saving_survives_failed_allocations_and_leaves_nothing_behind)
{
    kmf_model *m = new_nano(1, 1);
    int rc = KMF_ENOMEM;
    json_set_alloc_funcs(counted_malloc, kmf_free);
    for (size_t n = 1; rc != 0; n += n < 400 ? 1 : 37) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        rc = kmf_model_save(m, in_dir("x"), _i ? KMF_I8 : KMF_F32, "{\"a\":1.5}", &err);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(rc, (int)err.code);
        ck_assert_int_eq(n_entries(dir), rc == 0);
        ck_assert_uint_lt(n, 200000);
    }
    json_set_alloc_funcs(malloc, free);
    kmf_model_free(m);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a_directory_that_is_no_model_is_refused_in_words);
    tcase_add_test(tc, a_file_that_cannot_be_read_is_an_input_error);
    tcase_add_test(tc, a_pipe_among_its_files_is_not_waited_for);
    tcase_add_test(tc, config_and_vocabulary_must_go_together);
    tcase_add_test(tc, a_config_that_promises_more_layers_is_held_to_it);
    tcase_add_test(tc, the_variable_names_the_default_model);
    tcase_add_test(tc, without_it_the_places_looked_at_are_named_or_one_is_found);
    tcase_add_test(tc, a_new_model_has_the_weights_its_seed_and_place_say);
    tcase_add_test(tc, the_first_weights_have_these_very_bits);
    tcase_add_test(tc, a_config_out_of_range_makes_no_model);
    tcase_add_loop_test(tc, save_load_save_gives_the_same_bytes, 0, 4);
    tcase_add_test(tc, a_long_provenance_is_kept_whole);
    tcase_add_test(tc, a_provenance_goes_on);
    tcase_add_test(tc, a_published_checkpoint_saved_keeps_every_weight);
    tcase_add_test(tc, an_empty_directory_is_used_and_any_other_thing_refused);
    tcase_add_loop_test(tc, the_rounding_told_is_that_of_the_file, 0, 4);
    tcase_add_test(tc, weights_are_rounded_to_what_is_written_alone);
    tcase_add_test(tc, a_row_that_8_bits_cannot_hold_leaves_nothing_behind);
    tcase_add_test(tc, a_value_that_float16_cannot_hold_leaves_nothing_behind);
    tcase_add_test(tc, a_disk_that_fills_up_leaves_nothing_behind);
    tcase_add_test(tc, a_disk_that_fills_up_leaves_the_model_that_was_to_be_replaced);
    tcase_add_test(tc, a_file_of_a_model_is_not_overwritten);
    tcase_add_test(tc, making_one_survives_every_failed_allocation);
    tcase_add_loop_test(tc, saving_survives_failed_allocations_and_leaves_nothing_behind, 0, 2);
    return run_case("store", tc);
}
