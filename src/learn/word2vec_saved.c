/* SPDX-License-Identifier: MIT */
/* What a checkpoint of word2vec holds: the table, and how far it is. */
#include "base/err.h"
#include "learn/word2vec.h"

enum { STEP, TOKENS, LOSS_PAIRS, LOSS_SUM, LOSS, N_PROGRESS };

/* The table is [vectors, targets] of all words, padded as in memory. */
static kmf_saved_array table_of(const kmf_word2vec *t)
{
    return (kmf_saved_array){"table", t->table, 2 * (size_t)t->lexicon.n, t->ld};
}

int kmf_word2vec_save(const kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_WORD2VEC_SETTINGS];
    kmf_saved_array table = table_of(trainer);
    uint64_t progress[N_PROGRESS] = {
        [STEP] = trainer->step,
        [TOKENS] = trainer->tokens,
        [LOSS_PAIRS] = trainer->loss_pairs,
        [LOSS_SUM] = kmf_saved_double(trainer->loss_sum),
        [LOSS] = kmf_saved_double(trainer->loss),
    };
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_word2vec_settings(trainer, settings);
    return kmf_checkpoint_write(&(kmf_checkpoint){"word2vec", settings, KMF_WORD2VEC_SETTINGS,
                                                  &table, 1, progress, N_PROGRESS, NULL},
                                path, err);
}

int kmf_word2vec_load(kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_WORD2VEC_SETTINGS];
    kmf_saved_array table = table_of(trainer);
    uint64_t progress[N_PROGRESS];
    if (kmf_word2vec_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_word2vec_settings(trainer, settings);
    int status = kmf_checkpoint_read(
        &(kmf_checkpoint){"word2vec", settings, KMF_WORD2VEC_SETTINGS, &table, 1, progress,
                          N_PROGRESS, &trainer->other_kernels},
        path, err);
    if (status < 0)
        return status;
    if (progress[STEP] > kmf_word2vec_steps(trainer))
        return kmf_fail(err, KMF_EMODEL, "%s: the checkpoint is damaged", path);
    trainer->step = progress[STEP];
    trainer->tokens = progress[TOKENS];
    trainer->loss_pairs = progress[LOSS_PAIRS];
    trainer->loss_sum = kmf_double_saved(progress[LOSS_SUM]);
    trainer->loss = kmf_double_saved(progress[LOSS]);
    return 0;
}
