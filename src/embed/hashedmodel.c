/* SPDX-License-Identifier: MIT */
#include "embed/hashedmodel.h"

#include "base/mem.h"
#include "model/config.h"
#include "model/model.h"

#include <string.h>

static void list_texts(kmf_hashed_model *f, const kmf_model *model, kmf_method_file *to)
{
    static const char *const keys[] = {"config_md5", "vocab_md5"};
    size_t len;
    const char *vocabulary = kmf_vocab_text(model->vocab, &len);
    f->texts[0] =
        (kmf_map){.bytes = (const unsigned char *)f->config, .len = strlen(f->config)};
    f->texts[1] = (kmf_map){.bytes = (const unsigned char *)vocabulary, .len = len};
    for (size_t i = 0; i < 2; i++) {
        f->of_texts[i] = &f->texts[i];
        to[i] = (kmf_method_file){keys[i], &f->of_texts[i], .n = 1, .keep = true};
    }
}

int kmf_hashed_model_list(kmf_hashed_model *f, const kmf_model *model, kmf_err *err)
{
    size_t n = kmf_tensors_n_files(&model->stored);
    const char *original = kmf_model_is_native(model) ? "" : model->original;
    *f = (kmf_hashed_model){0};
    f->config = kmf_config_write(&model->config, model->params.head_w != NULL, model->vocab,
                                 original, "", err);
    f->maps = f->config ? kmf_calloc(n, sizeof *f->maps, err) : NULL;
    if (!f->maps) {
        kmf_hashed_model_free(f);
        return KMF_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        f->maps[i] = kmf_tensors_map(&model->stored, i);
    if (n > 0)
        f->list[0] = (kmf_method_file){"md5", f->maps, n, .keep = false};
    list_texts(f, model, f->list + (n > 0));
    return 0;
}

void kmf_hashed_model_free(kmf_hashed_model *f)
{
    kmf_free(f->maps);
    kmf_free(f->config);
    *f = (kmf_hashed_model){0};
}
