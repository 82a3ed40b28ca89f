/* SPDX-License-Identifier: MIT */
#include "model/families/family.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* In the order of detection: each is told by what the ones after it lack. */
static const kmf_family *const families[] = {&kmf_family_mosaic, &kmf_family_nucleotide,
                                             &kmf_family_gena, &kmf_family_roformer,
                                             &kmf_family_dnabert};
#define N_FAMILIES (sizeof families / sizeof families[0])
#define NAME_CAP 256

const kmf_stored *kmf_family_find(const kmf_family *family, const kmf_tensors *stored,
                                  const char *name)
{
    char full[NAME_CAP];
    const kmf_stored *t = kmf_tensors_find(stored, name);
    if (t)
        return t;
    snprintf(full, sizeof full, "%s%s", family->prefix, name);
    return kmf_tensors_find(stored, full);
}

bool kmf_family_has(const kmf_family *family, kmf_part part)
{
    for (size_t i = 0; i < family->n_rows; i++)
        if (family->rows[i].part == part)
            return true;
    return false;
}

const kmf_family *kmf_family_detect(const char *model_type, const kmf_tensors *stored)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        const kmf_family *f = families[i];
        bool marked = stored && f->marker && kmf_family_find(f, stored, f->marker);
        if (model_type && f->model_type ? strcmp(model_type, f->model_type) == 0 : marked)
            return f;
    }
    return NULL;
}

const kmf_family *kmf_family_named(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(name, families[i]->name) == 0)
            return families[i];
    return NULL;
}

const char *kmf_family_name(size_t i)
{
    return i < N_FAMILIES ? families[i]->name : NULL;
}

int kmf_family_positions(kmf_config *config, const json_t *root, const char *where,
                         kmf_err *err)
{
    static const char *const words[] = {"absolute", "rotary", NULL};
    int word = 0;
    int rc = kmf_json_choice(&word, root, "position_embedding_type", words, where, err);
    if (rc < 0)
        return rc;
    config->positions = word == 0 ? KMF_POSITIONS_LEARNED : KMF_POSITIONS_ROTARY_HALVES;
    return 0;
}
