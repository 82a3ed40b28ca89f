/* SPDX-License-Identifier: MIT */
/*
 * Places that names tell, as tiles and regions are called: record:beg-end, 1-based and inclusive,
 * with (-) behind those of the other strand. A name of another form is that of a whole record.
 */
#ifndef KMF_PLACES_H
#define KMF_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kmf_named_place {
    const char *name;   /* borrowed; the record's is its beginning */
    size_t n_record;    /* letters of that */
    uint64_t beg, last; /* bases, from 1 */
    bool reverse;       /* of the other strand */
    bool whole;         /* of a whole record: two of one name may be two, and do not meet */
    uint64_t input;     /* left to the caller: records of one name in two inputs are two; */
    bool asked;         /* and is it asked about, or one of the others? */
    bool meets;         /* one that is asked about shares a base with one of the others */
} kmf_named_place;

/* False: the name tells no place. */
bool kmf_named_place_read(kmf_named_place *place, const char *name);
/* Of a record of n bases, one at least. */
kmf_named_place kmf_named_place_whole(const char *name, uint64_t n);
/* Marks those that meet; the list is sorted on the way. */
void kmf_named_places_meet(kmf_named_place *list, size_t n);

#endif
