/* SPDX-License-Identifier: MIT */
/* What a checkpoint of word2vec holds: the table, and how far it is. */
#include "learn/word2vec.h"

#include <stddef.h>

#define AT(field) offsetof(kmf_word2vec, field)
static const size_t progress[] = {AT(step), AT(tokens), AT(loss_pairs), AT(loss_sum), AT(loss)};
#undef AT

static bool is_sound(const void *training)
{
    const kmf_word2vec *t = training;
    return t->step <= kmf_word2vec_steps(t);
}

/* The table is [vectors, targets] of all words, padded as in memory. */
static kmf_checkpoint checkpoint_of(const kmf_word2vec *t,
                                    kmf_setting settings[KMF_WORD2VEC_SETTINGS],
                                    kmf_saved_array *table)
{
    kmf_word2vec_settings(t, settings);
    *table = (kmf_saved_array){"table", t->table, 2 * (size_t)t->lexicon.n, t->ld};
    return (kmf_checkpoint){.kind = "word2vec",
                            .settings = settings,
                            .n_settings = KMF_WORD2VEC_SETTINGS,
                            .arrays = table,
                            .n_arrays = 1,
                            .progress = progress,
                            .n_progress = sizeof progress / sizeof *progress,
                            .is_sound = is_sound};
}

int kmf_word2vec_save(const kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_WORD2VEC_SETTINGS];
    kmf_saved_array table;
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, settings, &table);
    return kmf_checkpoint_write(&checkpoint, trainer, path, err);
}

int kmf_word2vec_load(kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_WORD2VEC_SETTINGS];
    kmf_saved_array table;
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, settings, &table);
    checkpoint.other_kernels = &trainer->other_kernels;
    return kmf_checkpoint_read(&checkpoint, trainer, path, err);
}
