/* SPDX-License-Identifier: MIT */
/* Records to test that share bases with those to train, as far as their names tell. */
#include "base/mem.h"
#include "kmerformer.h"
#include "seq/places.h"

/* Bases of a record whose length the vectors of it do not tell. */
#define WHOLE (UINT64_MAX - 1)

int kmf_samples_overlap(const kmf_samples *samples, const kmf_samples_info *info, size_t *n,
                        const char **name, kmf_err *err)
{
    size_t n_places = 0;
    kmf_named_place *list = kmf_malloc(info->n, sizeof *list, err);
    *n = 0;
    *name = NULL;
    if (!list)
        return KMF_ENOMEM;
    for (size_t i = 0; i < info->n; i++) {
        kmf_sample sample;
        bool test = i >= info->test && i < info->test + info->n_test;
        kmf_samples_get(samples, i, &sample);
        if (!test && i >= info->n_train)
            continue;
        if (!kmf_named_place_read(&list[n_places], sample.name))
            list[n_places] = kmf_named_place_whole(sample.name, WHOLE);
        list[n_places++].asked = test;
    }
    kmf_named_places_meet(list, n_places);
    for (size_t i = 0; i < n_places; i++) {
        *n += list[i].meets;
        if (list[i].meets && !*name)
            *name = list[i].name;
    }
    kmf_free(list);
    return 0;
}
