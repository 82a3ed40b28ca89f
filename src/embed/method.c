/* SPDX-License-Identifier: MIT */
/* Which method a name stands for: tnf and kmer:K, a file of vectors, or else a model. */
#include "embed/method.h"

#include "base/err.h"
#include "model/locate.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int kmf_embedder_kind_of(const char *model, kmf_err *err)
{
    if (!model || kmf_is_random(model))
        return KMF_EMBEDDER_ENCODER;
    if (kmf_is_counts(model))
        return KMF_EMBEDDER_COUNTS;
    int whole = kmf_model_is_file(model, err);
    if (whole < 0)
        return whole;
    return whole || !is_file(model) ? KMF_EMBEDDER_ENCODER : KMF_EMBEDDER_VECTORS;
}

/* All others have been loaded from somewhere. */
static int check_seed(const char *name, const kmf_embed_options *opts, kmf_err *err)
{
    kmf_embed_options usual;
    kmf_embed_options_default(&usual);
    if (kmf_is_random(name) || opts->seed == usual.seed)
        return 0;
    return kmf_fail(err, KMF_EINVAL,
                    "a seed is for random and random:MODEL: %.400s has no random weights",
                    name ? name : "the default model");
}

kmf_method *kmf_method_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    struct stat st;
    int kind = kmf_embedder_kind_of(name, err);
    if (kind < 0)
        return NULL;
    if (kind == KMF_EMBEDDER_ENCODER && name && !kmf_is_random(name) && stat(name, &st) != 0 &&
        errno == ENOENT) {
        kmf_fail(err, KMF_EIO,
                 "%s: %s: a model is a directory or a file, or one of tnf, kmer:K, random and "
                 "random:MODEL",
                 name, strerror(ENOENT));
        return NULL;
    }
    if (check_seed(name, opts, err) < 0)
        return NULL;
    if (kind == KMF_EMBEDDER_ENCODER)
        return kmf_encode_open(name, opts, err);
    return kind == KMF_EMBEDDER_COUNTS ? kmf_frequency_open(name, opts, err)
                                       : kmf_wordmean_open(name, opts, err);
}

void kmf_method_free(kmf_method *method)
{
    if (method)
        method->kind->free(method);
}
