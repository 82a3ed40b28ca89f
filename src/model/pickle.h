/* SPDX-License-Identifier: MIT */
/*
 * Python's pickles, as far as PyTorch's checkpoints use them: protocol 2, the operations and the
 * names listed in pickle.c. A pickle is a program for a machine with a stack. This machine makes
 * values of the kinds below and nothing else: it calls nothing, whatever the pickle says, but
 * notes what would have been called. Any other operation or name is an error.
 */
#ifndef KMF_PICKLE_H
#define KMF_PICKLE_H

#include "kmerformer.h"

#include <stdbool.h>

/* A longer pickle is refused; this one holds some 100,000 tensors. */
#define KMF_PICKLE_BYTES_MAX ((size_t)16 << 20)

typedef enum kmf_pickled_kind {
    KMF_PICKLED_NONE,
    KMF_PICKLED_BOOL,
    KMF_PICKLED_INT,   /* fits int64_t */
    KMF_PICKLED_LONG,  /* does not: little-endian bytes in two's complement */
    KMF_PICKLED_FLOAT, /* the number is not kept */
    KMF_PICKLED_TEXT,
    KMF_PICKLED_TUPLE,
    KMF_PICKLED_LIST,
    KMF_PICKLED_DICT,      /* an OrderedDict as well */
    KMF_PICKLED_NAME,      /* of a class or a function */
    KMF_PICKLED_CALL,      /* of a function, with a tuple of arguments */
    KMF_PICKLED_PERSISTENT /* what the tuple tells apart is outside the pickle: a storage */
} kmf_pickled_kind;

/* Names that a pickle may use. */
typedef enum kmf_pickled_name {
    KMF_NAME_ORDERED_DICT,
    KMF_NAME_TENSOR,    /* torch._utils._rebuild_tensor_v2 */
    KMF_NAME_PARAMETER, /* torch._utils._rebuild_parameter */
    KMF_NAME_STORAGES   /* this and those above: a storage's class, kmf_pickled_storage */
} kmf_pickled_name;

/* A value's place in the pickle's list. */
typedef uint32_t kmf_value;

typedef struct kmf_pickled {
    kmf_pickled_kind kind;
    uint32_t n; /* of a text or long, bytes; of a tuple, items; of a list or dict, cells */
    union {
        int64_t number;   /* BOOL (0 or 1), INT, NAME */
        const char *text; /* TEXT, LONG; borrowed from the bytes, not terminated */
        struct {
            uint32_t first; /* TUPLE: of its items; LIST, DICT: of its cells */
            uint32_t last;
        } list;
        struct {
            uint32_t name; /* CALL */
            kmf_value arguments;
        } call; /* CALL, PERSISTENT: a tuple */
    } as;
} kmf_pickled;

/* An element of a list, or of a dict, which has a key too. */
typedef struct kmf_pickled_cell {
    kmf_value key;
    kmf_value value;
    uint32_t next; /* the next one's place; the last one's means nothing */
} kmf_pickled_cell;

typedef struct kmf_pickle {
    kmf_pickled *values; /* owned [n_values] */
    size_t n_values;
    size_t cap_values;
    kmf_value *items; /* owned [n_items]; of all tuples */
    size_t n_items;
    size_t cap_items;
    kmf_pickled_cell *cells; /* owned [n_cells]; of all lists and dicts */
    size_t n_cells;
    size_t cap_cells;
    kmf_value top; /* what the pickle is of */
    size_t end;    /* where it ended in the bytes */
} kmf_pickle;

/*
 * Reads the pickle that begins at bytes[beg] and ends before bytes[end]. Memory is proportional to
 * its length, time as well. KMF_EMODEL names the byte and what is wrong there; name is the
 * file's. bytes must outlive *pickle. On failure *pickle needs no free.
 */
int kmf_pickle_read(kmf_pickle *pickle, const unsigned char *bytes, size_t beg, size_t end,
                    const char *name, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_pickle_free(kmf_pickle *pickle);

/* The value if it is of a kind, else NULL. */
const kmf_pickled *kmf_pickle_get(const kmf_pickle *pickle, kmf_value value,
                                  kmf_pickled_kind kind);
/* Item i of a tuple, i < tuple->n. */
kmf_value kmf_pickle_item(const kmf_pickle *pickle, const kmf_pickled *tuple, size_t i);
/* Is it a text, this one? */
bool kmf_pickle_is_text(const kmf_pickle *pickle, kmf_value value, const char *text);
/* The value of a dict's last key of this name, NULL if it has none. */
const kmf_pickled *kmf_pickle_find(const kmf_pickle *pickle, const kmf_pickled *dict,
                                   const char *key);
/* The dtype, "F32", of a storage's class; NULL if the value is not one. */
const char *kmf_pickle_storage(const kmf_pickle *pickle, kmf_value value);

#endif
