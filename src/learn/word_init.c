/* SPDX-License-Identifier: MIT */
#include "learn/word_init.h"

#include "base/err.h"
#include "learn/windows.h"
#include "model/vectors.h"
#include "seq/dna.h"
#include "words/kmer.h"

#include <math.h>

#define INIT_STD 0.02
#define OWN_SHARE 0.1f /* of a word that no letter has */
#define LETTER_DRAWS (KMF_DRAW_FREE + 2)
#define TETRAMER_KIND 64 /* letters in their places are of kinds 0 .. k - 1 */

/* word [E] += scale times the vector that is drawn for (kind, number). */
static void add_drawn(float *word, size_t E, float scale, uint64_t seed, uint64_t kind,
                      uint64_t number)
{
    kmf_rng rng = kmf_draw(seed, LETTER_DRAWS, kind, number);
    for (size_t e = 0; e < E; e++)
        word[e] += kmf_rng_normal(&rng) * scale;
}

/* word [E] += scale times a vector for each of its tetramers, of either strand. */
static void add_tetramers(float *word, size_t E, const char *token, size_t k, float scale,
                          uint64_t seed)
{
    for (size_t i = 0; i + KMF_TETRAMER <= k; i++) {
        uint64_t code = 0;
        for (size_t j = i; j < i + KMF_TETRAMER; j++)
            code = code << 2 | kmf_base_code[(unsigned char)token[j]];
        uint64_t other = kmf_revcomp_of(code, KMF_TETRAMER);
        add_drawn(word, E, scale, seed, TETRAMER_KIND, code < other ? code : other);
    }
}

void kmf_word_init_letters(kmf_model *model, uint64_t seed, bool tetramers)
{
    const kmf_config *config = &model->config;
    size_t E = config->embedding_size, k = (size_t)config->k;
    size_t n = k - KMF_TETRAMER + 1; /* of tetramers */
    float share = tetramers ? sqrtf(0.5f) : 1;
    for (size_t id = 0; id < config->vocab_size; id++) {
        float *word = model->params.word + id * E;
        const char *token = kmf_vocab_token(model->vocab, (int32_t)id);
        if (token[0] == '[')
            continue;
        for (size_t e = 0; e < E; e++)
            word[e] *= OWN_SHARE;
        for (size_t i = 0; i < k; i++)
            add_drawn(word, E, share * (float)(INIT_STD / sqrt((double)k)), seed, i,
                      (uint64_t)token[i]);
        if (tetramers)
            add_tetramers(word, E, token, k, share * (float)(INIT_STD / sqrt((double)n)), seed);
    }
}

void kmf_word_init_composition(kmf_model *model, uint64_t seed)
{
    const kmf_config *config = &model->config;
    size_t C = config->composition, k = (size_t)config->k;
    for (size_t id = 0; k >= KMF_TETRAMER && id < config->vocab_size; id++) {
        float *word = model->params.comp_word + id * C;
        const char *token = kmf_vocab_token(model->vocab, (int32_t)id);
        for (size_t i = 0; i < C; i++)
            word[i] *= OWN_SHARE;
        if (token[0] != '[')
            add_tetramers(word, C, token, k,
                          (float)(INIT_STD / sqrt((double)(k - KMF_TETRAMER + 1))), seed);
    }
}

/* Are they of the model's k-mers, and as wide as its word table? */
static int check_vectors(const kmf_config *config, const kmf_vectors_info *info,
                         const char *path, kmf_err *err)
{
    if (info->alphabet != KMF_DNA)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: vectors of words of protein; the model's word table has k-mers of "
                        "DNA",
                        path);
    if (info->k_min > config->k || info->k_max < config->k ||
        info->dim != config->embedding_size)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: vectors of %d- to %d-mers, %zu numbers each; the model's word "
                        "table has %d-mers of %zu numbers",
                        path, info->k_min, info->k_max, info->dim, config->k,
                        config->embedding_size);
    return 0;
}

/* The vector of a k-mer; NULL: it has none, or training has never seen it. */
static const float *vector_of(const kmf_vectors *vectors, const kmf_vectors_info *info,
                              uint64_t code, int k)
{
    int64_t row = kmf_vectors_find(vectors, code, k);
    if (row < 0 || (info->counted && kmf_vectors_count(vectors, (size_t)row) == 0))
        return NULL;
    return kmf_vectors_row(vectors, (size_t)row);
}

int kmf_word_init_vectors(kmf_model *model, const char *path, uint64_t *unfilled, kmf_err *err)
{
    const kmf_config *config = &model->config;
    kmf_vectors_info info;
    double squares = 0;
    uint64_t n = 0, known = 0, codes = UINT64_C(1) << 2 * config->k;
    kmf_vectors *vectors = kmf_vectors_load(path, err);
    if (!vectors)
        return err->code;
    kmf_vectors_information(vectors, &info);
    int status = check_vectors(config, &info, path, err);
    for (uint64_t code = 0; code < codes && status == 0; code++) {
        const float *vector = vector_of(vectors, &info, code, config->k);
        bool wanted = kmf_vocab_kmer(model->vocab, code) >= 0;
        known += wanted;
        n += wanted && vector;
        for (size_t i = 0; i < info.dim && wanted && vector; i++)
            squares += (double)vector[i] * (double)vector[i];
    }
    if (status == 0 && !(squares > 0))
        status = kmf_fail(err, KMF_EMODEL, "%s: none of the model's k-mers has a vector", path);
    double size = sqrt(squares / (double)(n * info.dim)); /* of their numbers, usually */
    for (uint64_t code = 0; code < codes && status == 0; code++) {
        const float *vector = vector_of(vectors, &info, code, config->k);
        int32_t id = kmf_vocab_kmer(model->vocab, code);
        for (size_t i = 0; i < info.dim && id >= 0 && vector; i++)
            model->params.word[(size_t)id * info.dim + i] =
                (float)((double)vector[i] * INIT_STD / size);
    }
    *unfilled = known - n;
    kmf_vectors_free(vectors);
    return status;
}
