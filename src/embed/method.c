/* SPDX-License-Identifier: MIT */
/* Which method a name stands for: tnf and kmer:K, a file of vectors, or else a model. */
#include "embed/method.h"

#include <string.h>
#include <sys/stat.h>

static bool is_frequency(const char *name)
{
    return strcmp(name, "tnf") == 0 || strncmp(name, "kmer:", 5) == 0;
}

bool kmf_is_random(const char *name)
{
    return name && (strcmp(name, "random") == 0 || strncmp(name, "random:", 7) == 0);
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int kmf_embedder_has_encoder(const char *model, kmf_err *err)
{
    if (!model || kmf_is_random(model))
        return 1;
    if (is_frequency(model))
        return 0;
    int whole = kmf_model_is_file(model, err);
    return whole == 0 ? !is_file(model) : whole;
}

kmf_method *kmf_method_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    int encoder = kmf_embedder_has_encoder(name, err);
    if (encoder < 0)
        return NULL;
    if (encoder)
        return kmf_encode_open(name, opts, err);
    return is_frequency(name) ? kmf_frequency_open(name, opts, err)
                              : kmf_wordmean_open(name, opts, err);
}

void kmf_method_free(kmf_method *method)
{
    if (method)
        method->kind->free(method);
}
