/* SPDX-License-Identifier: MIT */
/*
 * The fields of a configuration as tables: key, place, and range or words. Reading, checking and
 * messages go by them; words stand in the order of the values, for both directions.
 *
 * The ranges are far beyond any model there is and small enough that nothing derived from them
 * wraps around.
 */
#ifndef KMF_CONFIG_FIELDS_H
#define KMF_CONFIG_FIELDS_H

#include "kmerformer.h"

#include <stdbool.h>
#include <string.h>

#define KMF_VOCAB_K_MAX 12 /* longest k-mer of a vocabulary */
#define KMF_ROTARY_BASE 10000.0
#define KMF_UNSET ((size_t)-1)
#define KMF_N_ACTIVATIONS 4

typedef struct kmf_size_field {
    const char *key;
    size_t at; /* in kmf_config */
    size_t min, max;
    bool needed;
} kmf_size_field;

/* Enums, which are as large as an int. */
typedef struct kmf_word_field {
    const char *key;
    size_t at;
    const char *const *words;
} kmf_word_field;

/* The definitions are of as many rows, or they do not compile. */
#define KMF_N_ENCODER_SIZES 8
#define KMF_N_USE_SIZES 4
#define KMF_N_USE_WORDS 5
extern const kmf_size_field kmf_encoder_sizes[KMF_N_ENCODER_SIZES];
/* Of the object "kmerformer". */
extern const kmf_size_field kmf_use_sizes[KMF_N_USE_SIZES];
extern const kmf_word_field kmf_use_words[KMF_N_USE_WORDS];

/* Where a config.json says nothing. */
void kmf_config_defaults(kmf_config *config);

static inline size_t kmf_size_at(const kmf_config *config, size_t at)
{
    size_t value;
    memcpy(&value, (const char *)config + at, sizeof value);
    return value;
}

static inline void kmf_set_size_at(kmf_config *config, size_t at, size_t value)
{
    memcpy((char *)config + at, &value, sizeof value);
}

static inline int kmf_word_at(const kmf_config *config, size_t at)
{
    int value;
    memcpy(&value, (const char *)config + at, sizeof value);
    return value;
}

#endif
