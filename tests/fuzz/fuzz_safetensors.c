/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a safetensors file. What is accepted lies inside the bytes, is found by its name
 * and says the same once its header is written anew. What binds to a model of this size has
 * finite weights only.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "model/config.h"
#include "model/safetensors.h"
#include "model/weights.h"

#include <math.h>
#include <string.h>

static void check_again(const kmf_safetensors *st)
{
    kmf_safetensors again;
    kmf_err err = {0};
    size_t header_len;
    char *header = kmf_safetensors_header(st->tensors, st->n, NULL, 0, &header_len, &err);
    must(header != NULL && header_len % 64 == 0);
    unsigned char *bytes = kmf_malloc(header_len + st->data_len, 1, &err);
    must(bytes != NULL);
    memcpy(bytes, header, header_len);
    memcpy(bytes + header_len, st->data, st->data_len);
    int rc = kmf_safetensors_parse(&again, bytes, header_len + st->data_len, "again", &err);
    must(rc == 0 && again.n == st->n);
    for (size_t i = 0; i < st->n; i++) {
        const kmf_stored *a = &st->tensors[i];
        const kmf_stored *b = &again.tensors[i];
        must(strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->rank == b->rank);
        must(a->begin == b->begin && a->bytes == b->bytes && a->n == b->n);
        must(memcmp(a->shape, b->shape, sizeof a->shape) == 0);
    }
    kmf_safetensors_free(&again);
    kmf_free(bytes);
    kmf_free(header);
}

/* A model of the size that the corpus has a file for. */
static void try_binding(const uint8_t *data, size_t size)
{
    kmf_model model = {.path = "fuzz",
                       .config = {.family = "roformer",
                                  .vocab_size = 6,
                                  .embedding_size = 2,
                                  .hidden_size = 4,
                                  .n_layers = 1,
                                  .n_heads = 2,
                                  .intermediate_size = 3,
                                  .max_positions = 3,
                                  .type_vocab_size = 1,
                                  .embedding_norm = 1,
                                  .bias_in = 1,
                                  .bias_out = 1}};
    if (kmf_tensors_parse(&model.stored, data, size, "fuzz", NULL) < 0)
        return;
    if (kmf_weights_bind(&model, NULL) == 0) {
        must(model.n_parameters ==
             kmf_config_parameters(&model.config, model.params.head_w != NULL));
        for (size_t i = 0; i < 6 * 2; i++) {
            float value;
            memcpy(&value, &model.params.word[i], sizeof value);
            must(isfinite(value));
        }
        for (size_t i = 0; i < 3 * 4; i++) /* of 8 bits in some files, with a scale */
            must(isfinite(model.params.layers[0].w1[i]));
    }
    kmf_weights_free(&model);
    kmf_tensors_close(&model.stored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_safetensors st;
    kmf_err err = {0};
    if (kmf_safetensors_parse(&st, data, size, "fuzz", &err) == 0) {
        must(err.code == KMF_OK);
        size_t sum = 0;
        for (size_t i = 0; i < st.n; i++) {
            const kmf_stored *t = &st.tensors[i];
            must(t->begin <= st.data_len && t->bytes <= st.data_len - t->begin);
            must(t->bytes == t->n * t->item_bytes);
            must(kmf_safetensors_find(&st, t->name) == t);
            sum += t->bytes;
        }
        must(sum == st.data_len);
        check_again(&st);
        kmf_safetensors_free(&st);
        try_binding(data, size);
    } else {
        must_tell(&err);
    }
    return 0;
}
