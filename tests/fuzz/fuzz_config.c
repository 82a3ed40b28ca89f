/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a config.json. What is accepted passes every check, and written, read and
 * written again gives the same text.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "model/config.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kmf_vocab *vocab; /* 9 tokens, k = 1; kept for the life of the process */
    kmf_config config;
    char *provenance = NULL;
    kmf_err err = {0};
    if (!vocab)
        vocab = kmf_vocab_new(1, NULL);
    must(vocab != NULL);
    if (kmf_config_parse(&config, &provenance, (const char *)data, size, NULL, "fuzz", &err) <
        0) {
        must_tell(&err);
        must(provenance == NULL);
        return 0;
    }
    must(kmf_config_parameters(&config, 1) > 0);
    if (kmf_config_fit(&config, vocab, "fuzz", &err) == 0) {
        kmf_config again;
        char *kept;
        must(kmf_config_check(&config, KMF_EINVAL, "fuzz", NULL) == 0);
        char *one = kmf_config_write(&config, 1, vocab, "", provenance, &err);
        must(one != NULL);
        must(kmf_config_parse(&again, &kept, one, strlen(one), NULL, "again", &err) == 0);
        must(kmf_config_fit(&again, vocab, "again", &err) == 0);
        char *two = kmf_config_write(&again, 1, vocab, "", kept, &err);
        must(two != NULL && strcmp(one, two) == 0 && strcmp(provenance, kept) == 0);
        kmf_free(one);
        kmf_free(two);
        kmf_free(kept);
    }
    kmf_free(provenance);
    return 0;
}
