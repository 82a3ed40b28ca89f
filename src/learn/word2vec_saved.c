/* SPDX-License-Identifier: MIT */
/* What a checkpoint of word2vec holds: the table, and how far it is. */
#include "learn/word2vec.h"

#include <inttypes.h>
#include <stddef.h>

#define AT(field) offsetof(kmf_word2vec, field)
static const size_t progress[] = {AT(step), AT(tokens), AT(loss_pairs), AT(loss_sum), AT(loss)};
#undef AT

static bool is_sound(const void *training)
{
    const kmf_word2vec *t = training;
    return t->step <= kmf_word2vec_steps(t);
}

/* All that changes the result: the first that differs is the one that is told. */
static void add_settings(kmf_settings *s, const kmf_word2vec *t)
{
    const kmf_word2vec_options *o = &t->opts;
    kmf_corpus_info info;
    kmf_corpus_information(t->corpus, &info);
    kmf_setting_add(s, "scheme", "1");
    kmf_setting_add(s, "alphabet", "%s", kmf_alphabet_names[o->alphabet]);
    kmf_setting_add(s, "k_min", "%d", o->k_min);
    kmf_setting_add(s, "k_max", "%d", o->k_max);
    kmf_setting_add(s, "strand", "%s", kmf_word_strand_names[o->strand]);
    kmf_setting_add(s, "stride", "%zu", o->stride);
    kmf_setting_add(s, "frames", "%d", o->frames != 0);
    kmf_setting_add(s, "dim", "%zu", o->dim);
    kmf_setting_add(s, "window", "%d", o->window);
    kmf_setting_add(s, "negative", "%d", o->negative);
    kmf_setting_add(s, "cbow", "%d", o->cbow != 0);
    kmf_setting_add(s, "sample", "%.17g", o->sample);
    kmf_setting_add(s, "alpha", "%.17g", o->alpha);
    kmf_setting_add(s, "epochs", "%d", o->epochs);
    kmf_setting_add(s, "seed", "%" PRIu64, o->seed);
    kmf_setting_add(s, "letters of the inputs", "%" PRIu64, info.kept);
    kmf_setting_add(s, "segments of the inputs", "%" PRIu64, info.segments);
    kmf_setting_add(s, "checksum of the inputs", "%08" PRIx32, info.checksum);
}

/* The table is [vectors, targets] of all words, padded as in memory. */
static kmf_checkpoint checkpoint_of(const kmf_word2vec *t, kmf_settings *settings,
                                    kmf_saved_array *table)
{
    add_settings(settings, t);
    *table = (kmf_saved_array){"table", t->table, 2 * (size_t)t->lexicon.n, t->ld};
    return (kmf_checkpoint){.kind = "word2vec",
                            .settings = settings->list,
                            .n_settings = settings->n,
                            .arrays = table,
                            .n_arrays = 1,
                            .progress = progress,
                            .n_progress = sizeof progress / sizeof *progress,
                            .is_sound = is_sound};
}

int kmf_word2vec_save(const kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_settings settings = {0};
    kmf_saved_array table;
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, &settings, &table);
    return kmf_checkpoint_write(&checkpoint, trainer, path, err);
}

int kmf_word2vec_load(kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_settings settings = {0};
    kmf_saved_array table;
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, &settings, &table);
    checkpoint.other_kernels = &trainer->other_kernels;
    return kmf_checkpoint_read(&checkpoint, trainer, path, err);
}
