/* SPDX-License-Identifier: MIT */
/* Small trainers for the tests of pretraining, and what they read. */
#ifndef KMF_TEST_TRAINERS_H
#define KMF_TEST_TRAINERS_H

#include "learn/pretrain.h"

#include "base/rng.h"
#include "models.h"
#include "run.h"
#include "seq/seqio.h"

typedef kmf_pretrain_options options;
typedef kmf_pretrain_state state;

#define INPUT_CAP 40000

/* FASTA: contigs of random letters, in lower case here and there, with some N. */
static char input[INPUT_CAP];

static inline void add_contig(const char *name, size_t len, kmf_rng *rng)
{
    size_t at = strlen(input);
    at += (size_t)sprintf(input + at, ">%s\n", name);
    for (size_t i = 0; i < len; i++)
        input[at++] =
            i % 97 < 60 ? "ACGTCCGA"[kmf_rng_below(rng, 8)] : "acgtaatt"[kmf_rng_below(rng, 8)];
    input[at++] = '\n';
    input[at] = '\0';
}

/* A small model in the folder, and an input of 6500 letters. */
static inline void begin_test(void)
{
    kmf_config config;
    kmf_rng rng = kmf_rng_stream(8, 0);
    make_dir();
    ck_assert_int_eq(kmf_config_preset(&config, "nano", 3, NULL), 0);
    config.embedding_size = config.hidden_size = 16;
    config.n_heads = 2;
    config.n_layers = 2;
    config.intermediate_size = 24;
    config.window = config.max_positions = 24;
    config.overlap = 3;
    kmf_model *model = kmf_model_new(&config, 5, NULL);
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(kmf_model_save(model, in_dir("model"), KMF_F32, NULL, NULL), 0);
    kmf_model_free(model);
    input[0] = '\0';
    add_contig("a first", 3000, &rng);
    add_contig("b", 2500, &rng);
    input[strlen(input) - 1000] = 'N';
    add_contig("c", 1000, &rng);
}

static inline options small_options(void)
{
    static char model[512];
    options o;
    kmf_pretrain_options_default(&o);
    snprintf(model, sizeof model, "%s", in_dir("model"));
    o.init = model;
    o.preset = NULL;
    o.batch = 4;
    o.steps = 9;
    o.threads = 1;
    o.val_windows = 12;
    return o;
}

static inline int read_text(kmf_pretrain *trainer, const char *text, int held, kmf_err *err)
{
    kmf_reader *reader =
        kmf_reader_open_memory(text, strlen(text), kmf_pretrain_pool(trainer), err);
    if (!reader)
        return err->code;
    int status = kmf_pretrain_read(trainer, reader, held, NULL, NULL, err);
    kmf_reader_close(reader);
    return status;
}

/* A trainer before its first step; NULL after a failure. */
static inline kmf_pretrain *begun(const options *o, const char *text, kmf_err *err)
{
    kmf_pretrain *trainer = kmf_pretrain_new(o, err);
    if (!trainer)
        return NULL;
    if (read_text(trainer, text, 0, err) == 0 &&
        kmf_pretrain_begin(trainer, NULL, NULL, err) == 0)
        return trainer;
    kmf_pretrain_free(trainer);
    return NULL;
}

static inline kmf_pretrain *begin(const options *o)
{
    kmf_err err = {0};
    kmf_pretrain *trainer = begun(o, input, &err);
    ck_assert_msg(trainer, "%s", err.msg);
    return trainer;
}

static inline int train(kmf_pretrain *trainer, kmf_pretrain_fn *fn, void *user)
{
    kmf_err err = {0};
    int status = kmf_pretrain_train(trainer, fn, user, &err);
    ck_assert_msg(status >= 0, "%s", err.msg);
    return status;
}

static inline state state_of(const kmf_pretrain *trainer)
{
    state s;
    kmf_pretrain_information(trainer, &s);
    return s;
}

#endif
