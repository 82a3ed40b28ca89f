/* SPDX-License-Identifier: MIT */
#include "kmerformer.h"

#include <stddef.h>

const char *const kmf_ambiguous_names[] = {"skip", "unk", "break", "error", NULL};
const char *const kmf_long_names[] = {"chunk", "truncate", "skip", "error", NULL};
const char *const kmf_pooling_names[] = {"mean",     "cls",    "max", "none",
                                         "mean-all", "pooler", NULL};
const char *const kmf_strand_names[] = {"fwd", "rc", "both", NULL};
const char *const kmf_parts_names[] = {"states", "composition", "states+composition", NULL};
const char *const kmf_norm_names[] = {"none", "l2", NULL};
const char *const kmf_alphabet_names[] = {"dna", "protein", NULL};
const char *const kmf_counts_format_names[] = {"tsv", "vocab", "dnabert", "binary", NULL};
const char *const kmf_word_strand_names[] = {"fwd", "both", "canonical", NULL};
const char *const kmf_schedule_names[] = {"cosine", "linear", "constant", NULL};
const char *const kmf_words_start_names[] = {"letters", "random", "tetramers", NULL};
const char *const kmf_objective_names[] = {"masked", "contrastive", "both", NULL};
const char *const kmf_sources_names[] = {"input", "record", NULL};
const char *const kmf_dtype_names[] = {"f32", "f16", "bf16", "int8", NULL};
const char *const kmf_precision_names[] = {"f32", "bf16", "int8", "auto", NULL};
