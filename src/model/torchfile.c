/* SPDX-License-Identifier: MIT */
/*
 * From the pickle to the list, for either layout:
 *
 *   pickle     the state dict as values (pickle.h)
 *   storages   where each is in the file: looked up in the archive's directory, or found by
 *              walking from one to the next
 *   entries    names and values of the state dict, sorted, no name twice
 *   tensors    each inside its storage; those that are not row-major there are copied
 *
 * A tensor whose strides are those of its shape is used where it lies. Of the others a small file
 * can hold any number, each as large as its storage or larger (a stride may be 0), so the copies
 * together may not be longer than COPIES_MAX times the file.
 */
#include "model/torchfile.h"

#include "base/err.h"
#include "base/le.h"
#include "base/mem.h"
#include "model/pickle.h"
#include "model/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512 /* of a tensor */
#define KEY_MAX_BYTES 64   /* of a storage: digits */
#define PREFIX_MAX_BYTES 512
#define COPIES_MAX 4
#define LEGACY_PROTOCOL 1001

/* The legacy layout's first pickle: the operation LONG1 of 10 bytes, which are the number. */
static const unsigned char magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

/* What a persistent id says, and where the storage is. */
struct storage {
    const char *key; /* borrowed [key_len], not terminated */
    size_t key_len;
    const char *dtype; /* "F32"; static storage */
    size_t item_bytes;
    size_t n;                    /* elements */
    const unsigned char *values; /* borrowed; NULL: not found yet */
};

/* The file being read. */
struct reader {
    const unsigned char *bytes;
    size_t len;
    const char *name;
    kmf_pickle pickle; /* of the state dict */
    bool legacy;
    kmf_zip zip;        /* owned; unless legacy */
    const char *prefix; /* borrowed [prefix_len]: the archive's folder with its slash */
    size_t prefix_len;
    struct storage *storages; /* owned [n_storages], by key; legacy only */
    size_t n_storages;
    kmf_err *err;
};

/* A name of the state dict and its value. */
struct entry {
    const char *name; /* borrowed [len], not terminated */
    size_t len;
    kmf_value value;
};

/* A tensor as its storage's part. */
struct view {
    struct storage storage;
    size_t offset; /* in elements, as the strides are */
    size_t stride[KMF_SAFETENSORS_RANK_MAX];
};

bool kmf_torchfile_begins(const unsigned char *bytes, size_t len)
{
    return kmf_zip_begins(bytes, len) ||
           (len >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0);
}

static int wrong(const struct reader *r, const char *what)
{
    kmf_fail(r->err, KMF_EMODEL, "%s: %s", r->name, what);
    return KMF_EMODEL;
}

static int order(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int sign = memcmp(a, b, kmf_min(a_len, b_len));
    return sign != 0 ? sign : (a_len > b_len) - (a_len < b_len);
}

/* Item i of a tuple as a number that is not negative; false if it is none. */
static bool get_size(size_t *size, const struct reader *r, const kmf_pickled *tuple, size_t i)
{
    const kmf_pickled *v =
        kmf_pickle_get(&r->pickle, kmf_pickle_item(&r->pickle, tuple, i), KMF_PICKLED_INT);
    if (!v || v->as.number < 0 || (uint64_t)v->as.number > SIZE_MAX)
        return false;
    *size = (size_t)v->as.number;
    return true;
}

/* ---- storages ---------------------------------------------------------------------------- */

/* The tuple ('storage', class, key, device, elements), of the legacy layout with None behind. */
static int read_storage(struct storage *s, const struct reader *r, const kmf_pickled *id)
{
    const kmf_pickle *p = &r->pickle;
    *s = (struct storage){0};
    const kmf_pickled *tuple = kmf_pickle_get(p, id->as.call.arguments, KMF_PICKLED_TUPLE);
    if (tuple->n != 5 && tuple->n != 6)
        return wrong(r, "damaged: a storage that is not told by 5 or 6 values");
    kmf_stored type;
    const char *dtype = kmf_pickle_storage(p, kmf_pickle_item(p, tuple, 1));
    const kmf_pickled *key = kmf_pickle_get(p, kmf_pickle_item(p, tuple, 2), KMF_PICKLED_TEXT);
    if (!kmf_pickle_is_text(p, kmf_pickle_item(p, tuple, 0), "storage") || !dtype || !key ||
        !get_size(&s->n, r, tuple, 4) || !kmf_stored_set_dtype(&type, dtype))
        return wrong(r, "damaged: a storage without class, key or length");
    if (tuple->n == 6 && !kmf_pickle_get(p, kmf_pickle_item(p, tuple, 5), KMF_PICKLED_NONE))
        return wrong(r, "a storage that is a view of another is not read: save the weights "
                        "again with a PyTorch later than 0.4");
    if (key->n == 0 || key->n > KEY_MAX_BYTES || memchr(key->as.text, 0, key->n))
        return wrong(r, "damaged: a storage whose key is no number");
    s->dtype = type.dtype;
    s->item_bytes = type.item_bytes;
    s->key = key->as.text;
    s->key_len = key->n;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct storage *x = a;
    const struct storage *y = b;
    return order(x->key, x->key_len, y->key, y->key_len);
}

/* All storages that the pickle speaks of, each once. */
static int list_storages(struct reader *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->pickle.n_values; i++)
        n += r->pickle.values[i].kind == KMF_PICKLED_PERSISTENT;
    r->storages = kmf_calloc(n, sizeof *r->storages, r->err);
    if (!r->storages)
        return KMF_ENOMEM;
    n = 0;
    for (size_t i = 0; i < r->pickle.n_values; i++)
        if (r->pickle.values[i].kind == KMF_PICKLED_PERSISTENT &&
            read_storage(&r->storages[n++], r, &r->pickle.values[i]) < 0)
            return KMF_EMODEL;
    qsort(r->storages, n, sizeof *r->storages, by_key);
    for (size_t i = 0; i < n; i++) {
        const struct storage *s = &r->storages[i];
        const struct storage *last = &r->storages[r->n_storages - (r->n_storages > 0)];
        if (r->n_storages == 0 || by_key(last, s) != 0)
            r->storages[r->n_storages++] = *s;
        else if (last->dtype != s->dtype || last->n != s->n)
            return wrong(r, "damaged: a storage of two types or lengths");
    }
    return 0;
}

static struct storage *find_listed(const struct reader *r, const char *key, size_t key_len)
{
    struct storage wanted = {.key = key, .key_len = key_len};
    if (r->n_storages == 0)
        return NULL;
    return bsearch(&wanted, r->storages, r->n_storages, sizeof *r->storages, by_key);
}

/* Walks over the storages that begin at bytes[at], in the order of the keys. */
static int walk_storages(struct reader *r, const kmf_pickle *keys, size_t at)
{
    const kmf_pickled *list = kmf_pickle_get(keys, keys->top, KMF_PICKLED_LIST);
    if (!list)
        return wrong(r, "damaged: no list of storages");
    uint32_t next = list->as.list.first;
    for (uint32_t i = 0; i < list->n; i++) {
        const kmf_pickled_cell *cell = &keys->cells[next];
        const kmf_pickled *key = kmf_pickle_get(keys, cell->value, KMF_PICKLED_TEXT);
        struct storage *s = key ? find_listed(r, key->as.text, key->n) : NULL;
        size_t bytes;
        if (!s || s->values)
            return wrong(r, "damaged: its list of storages has one twice or one of no tensor");
        if (r->len - at < 8)
            return wrong(r, "cut off: storages are missing at its end");
        if (kmf_le_load64(r->bytes + at) != s->n)
            return kmf_fail(r->err, KMF_EMODEL,
                            "%s: byte %zu: damaged: a storage of %" PRIu64
                            " elements, must be %zu",
                            r->name, at, kmf_le_load64(r->bytes + at), s->n);
        at += 8;
        if (!kmf_mul(s->n, s->item_bytes, &bytes) || bytes > r->len - at)
            return kmf_fail(r->err, KMF_EMODEL,
                            "%s: cut off: %zu bytes are left for a storage of %zu elements",
                            r->name, r->len - at, s->n);
        s->values = r->bytes + at;
        at += bytes;
        next = cell->next;
    }
    if (at != r->len)
        return kmf_fail(r->err, KMF_EMODEL, "%s: %zu bytes at its end belong to no storage",
                        r->name, r->len - at);
    return 0;
}

/* The archive's entry of this name in its folder; NULL if there is none. */
static const kmf_zip_entry *find_entry(const struct reader *r, const char *folder,
                                       const char *file, size_t len)
{
    char name[PREFIX_MAX_BYTES + KEY_MAX_BYTES + 16];
    size_t folder_len = strlen(folder);
    memcpy(name, r->prefix, r->prefix_len);
    memcpy(name + r->prefix_len, folder, folder_len);
    memcpy(name + r->prefix_len + folder_len, file, len);
    name[r->prefix_len + folder_len + len] = '\0';
    return kmf_zip_find(&r->zip, name);
}

/* Finds where a storage is and sees that it is as long as it should be. */
static int find_storage(struct storage *s, const struct reader *r)
{
    char shown[KMF_ERR_SHOW];
    size_t bytes;
    if (r->legacy) {
        s->values = find_listed(r, s->key, s->key_len)->values;
        return s->values ? 0 : wrong(r, "damaged: a storage is not in its list of them");
    }
    const kmf_zip_entry *entry = find_entry(r, "data/", s->key, s->key_len);
    if (!entry)
        return kmf_fail(r->err, KMF_EMODEL, "%s: damaged: no entry data/%s", r->name,
                        kmf_err_show_n(shown, s->key, s->key_len));
    if (!kmf_mul(s->n, s->item_bytes, &bytes) || bytes != entry->len)
        return kmf_fail(r->err, KMF_EMODEL,
                        "%s: damaged: entry data/%s is %zu bytes long, but holds %zu elements "
                        "of %zu bytes",
                        r->name, kmf_err_show_n(shown, s->key, s->key_len), entry->len, s->n,
                        s->item_bytes);
    return kmf_zip_data(&s->values, &r->zip, entry, r->name, r->err);
}

/* ---- the two layouts --------------------------------------------------------------------- */

/*
 * The checksums of all entries, each of whose bytes is looked at once: together they are no longer
 * than the file. Where none of them is right the file was written without.
 */
static int check_sums(const struct reader *r)
{
    char shown[KMF_ERR_SHOW];
    size_t room = r->len;
    size_t n_right = 0;
    const kmf_zip_entry *wrong_one = NULL;
    for (size_t i = 0; i < r->zip.n; i++) {
        const kmf_zip_entry *e = &r->zip.entries[i];
        const unsigned char *data;
        if (kmf_zip_data(&data, &r->zip, e, r->name, NULL) < 0)
            continue; /* told if it is one that is needed */
        if (e->len > room)
            return wrong(r, "damaged: entries of its ZIP archive overlap");
        room -= e->len;
        if (!kmf_zip_checks(e, data))
            wrong_one = wrong_one ? wrong_one : e;
        else
            n_right += e->len > 0;
    }
    return n_right > 0 && wrong_one
               ? kmf_fail(r->err, KMF_EMODEL, "%s: damaged: the checksum of entry %s is wrong",
                          r->name, kmf_err_show_n(shown, wrong_one->name, wrong_one->name_len))
               : 0;
}

/* Finds the folder by its data.pkl, and reads this. */
static int read_archive(struct reader *r)
{
    static const char file[] = "data.pkl";
    const unsigned char *data;
    const kmf_zip_entry *found = NULL;
    size_t n_found = 0;
    int rc = kmf_zip_open(&r->zip, r->bytes, r->len, r->name, r->err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < r->zip.n; i++) {
        const kmf_zip_entry *e = &r->zip.entries[i];
        size_t folder = e->name_len - strlen(file);
        if (e->name_len < strlen(file) || memcmp(e->name + folder, file, strlen(file)) != 0 ||
            (folder > 0 && e->name[folder - 1] != '/'))
            continue;
        found = e;
        n_found++;
    }
    if (n_found != 1)
        return kmf_fail(r->err, KMF_EMODEL,
                        "%s: a ZIP archive with %zu entries data.pkl; PyTorch's have one",
                        r->name, n_found);
    r->prefix = found->name;
    r->prefix_len = found->name_len - strlen(file);
    if (r->prefix_len > PREFIX_MAX_BYTES)
        return wrong(r, "the folder in the ZIP archive has too long a name");
    if (kmf_zip_data(&data, &r->zip, found, r->name, r->err) < 0)
        return KMF_EMODEL;
    if (check_sums(r) < 0)
        return KMF_EMODEL;
    size_t beg = (size_t)(data - r->bytes);
    rc = kmf_pickle_read(&r->pickle, r->bytes, beg, beg + found->len, r->name, r->err);
    const kmf_zip_entry *byteorder = find_entry(r, "", "byteorder", 9);
    if (rc == 0 && byteorder) {
        rc = kmf_zip_data(&data, &r->zip, byteorder, r->name, r->err);
        if (rc == 0 && (byteorder->len != 6 || memcmp(data, "little", 6) != 0))
            rc = wrong(r, "written on a machine of another byte order, which is not read");
    }
    return rc;
}

/* Must the numbers be turned around, as far as the dict says? */
static bool is_big_endian(const kmf_pickle *pickle)
{
    const kmf_pickled *dict = kmf_pickle_get(pickle, pickle->top, KMF_PICKLED_DICT);
    const kmf_pickled *little = dict ? kmf_pickle_find(pickle, dict, "little_endian") : NULL;
    return !little || little->kind != KMF_PICKLED_BOOL || little->as.number != 1;
}

static int read_legacy(struct reader *r)
{
    kmf_pickle other = {0};
    size_t at = sizeof magic;
    int rc = kmf_pickle_read(&other, r->bytes, at, r->len, r->name, r->err);
    if (rc == 0) {
        const kmf_pickled *n = kmf_pickle_get(&other, other.top, KMF_PICKLED_INT);
        at = other.end;
        if (!n || n->as.number != LEGACY_PROTOCOL)
            rc = wrong(r, "damaged: not the version of PyTorch's format that is known");
    }
    kmf_pickle_free(&other);
    if (rc == 0)
        rc = kmf_pickle_read(&other, r->bytes, at, r->len, r->name, r->err);
    if (rc == 0) {
        at = other.end;
        if (is_big_endian(&other))
            rc = wrong(r, "written on a machine of another byte order, which is not read");
    }
    kmf_pickle_free(&other);
    if (rc == 0)
        rc = kmf_pickle_read(&r->pickle, r->bytes, at, r->len, r->name, r->err);
    if (rc == 0)
        rc = list_storages(r);
    if (rc == 0)
        rc = kmf_pickle_read(&other, r->bytes, r->pickle.end, r->len, r->name, r->err);
    if (rc == 0)
        rc = walk_storages(r, &other, other.end);
    kmf_pickle_free(&other);
    return rc;
}

/* ---- the state dict ---------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return order(x->name, x->len, y->name, y->len);
}

/* The dict with the tensors. */
static const kmf_pickled *choose_dict(const struct reader *r)
{
    static const char *const inner[] = {"state_dict", "model_state_dict"};
    const kmf_pickled *dict = kmf_pickle_get(&r->pickle, r->pickle.top, KMF_PICKLED_DICT);
    for (size_t i = 0; dict && i < sizeof inner / sizeof inner[0]; i++) {
        const kmf_pickled *found = kmf_pickle_find(&r->pickle, dict, inner[i]);
        if (found && found->kind == KMF_PICKLED_DICT)
            return found;
    }
    return dict;
}

/* entries [dict->n], sorted; *names_bytes: what their names need with a NUL each. */
static int list_entries(struct entry *entries, size_t *names_bytes, const struct reader *r,
                        const kmf_pickled *dict)
{
    char shown[KMF_ERR_SHOW];
    uint32_t next = dict->as.list.first;
    *names_bytes = 0;
    for (uint32_t i = 0; i < dict->n; i++) {
        const kmf_pickled_cell *cell = &r->pickle.cells[next];
        const kmf_pickled *key = kmf_pickle_get(&r->pickle, cell->key, KMF_PICKLED_TEXT);
        if (!key || key->n > NAME_MAX_BYTES || memchr(key->as.text, 0, key->n))
            return kmf_fail(r->err, KMF_EMODEL,
                            "%s: a state_dict with a name that is no text of at most %d bytes",
                            r->name, NAME_MAX_BYTES);
        entries[i] = (struct entry){key->as.text, key->n, cell->value};
        next = cell->next;
    }
    qsort(entries, dict->n, sizeof *entries, by_name);
    for (uint32_t i = 0; i < dict->n; i++) {
        if (i > 0 && by_name(&entries[i - 1], &entries[i]) == 0)
            return kmf_fail(r->err, KMF_EMODEL, "%s: tensor %s is there twice", r->name,
                            kmf_err_show_n(shown, entries[i].name, entries[i].len));
        *names_bytes += entries[i].len + 1;
    }
    return 0;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static int bad_tensor(const struct reader *r, const struct entry *e, const char *what)
{
    char shown[KMF_ERR_SHOW];
    kmf_fail(r->err, KMF_EMODEL, "%s: tensor %s: %s", r->name,
             kmf_err_show_n(shown, e->name, e->len), what);
    return KMF_EMODEL;
}

/* The arguments of a call of `name`; NULL if the value is something else. */
static const kmf_pickled *get_call(const struct reader *r, kmf_value value,
                                   kmf_pickled_name name)
{
    const kmf_pickled *call = kmf_pickle_get(&r->pickle, value, KMF_PICKLED_CALL);
    if (!call || call->as.call.name != (uint32_t)name)
        return NULL;
    return kmf_pickle_get(&r->pickle, call->as.call.arguments, KMF_PICKLED_TUPLE);
}

/* Is every element of the tensor in its storage? */
static bool fits(const kmf_stored *t, const struct view *v)
{
    size_t last = v->offset;
    size_t n;
    if (t->n == 0)
        return v->offset <= v->storage.n;
    for (int d = 0; d < t->rank; d++)
        if (!kmf_mul(t->shape[d] - 1, v->stride[d], &n) || !kmf_add(last, n, &last))
            return false;
    return last < v->storage.n;
}

/* shape, stride and offset. */
static int read_shape(kmf_stored *t, struct view *v, const struct reader *r,
                      const struct entry *e, const kmf_pickled *args)
{
    const kmf_pickle *p = &r->pickle;
    const kmf_pickled *shape =
        kmf_pickle_get(p, kmf_pickle_item(p, args, 2), KMF_PICKLED_TUPLE);
    const kmf_pickled *stride =
        kmf_pickle_get(p, kmf_pickle_item(p, args, 3), KMF_PICKLED_TUPLE);
    if (!shape || !stride || shape->n != stride->n || !get_size(&v->offset, r, args, 1))
        return bad_tensor(r, e, "damaged: no offset, shape and strides");
    if (shape->n > KMF_SAFETENSORS_RANK_MAX)
        return bad_tensor(r, e, "has too many dimensions");
    t->rank = (int)shape->n;
    t->n = 1;
    for (uint32_t d = 0; d < shape->n; d++) {
        if (!get_size(&t->shape[d], r, shape, d) || !get_size(&v->stride[d], r, stride, d))
            return bad_tensor(r, e, "damaged: a dimension or stride that is no size");
        if (!kmf_mul(t->n, t->shape[d], &t->n))
            return bad_tensor(r, e, "its shape is too large");
    }
    if (!kmf_mul(t->n, t->item_bytes, &t->bytes))
        return bad_tensor(r, e, "its shape is too large");
    return 0;
}

/* Fills all of *t but name and values. */
static int read_tensor(kmf_stored *t, struct view *v, const struct reader *r,
                       const struct entry *e)
{
    const kmf_pickle *p = &r->pickle;
    kmf_value value = e->value;
    const kmf_pickled *parameter = get_call(r, value, KMF_NAME_PARAMETER);
    if (parameter && parameter->n > 0)
        value = kmf_pickle_item(p, parameter, 0);
    const kmf_pickled *args = get_call(r, value, KMF_NAME_TENSOR);
    if (!args)
        return bad_tensor(r, e, "is no tensor; a state_dict holds nothing else");
    if (args->n != 6 && args->n != 7)
        return bad_tensor(r, e, "damaged: not told by 6 or 7 values");
    const kmf_pickled *id =
        kmf_pickle_get(p, kmf_pickle_item(p, args, 0), KMF_PICKLED_PERSISTENT);
    if (!id)
        return bad_tensor(r, e, "damaged: has no storage");
    if (args->n == 7) { /* marks: negated, conjugated */
        const kmf_pickled *marks = &p->values[kmf_pickle_item(p, args, 6)];
        if (marks->kind != KMF_PICKLED_NONE &&
            (marks->kind != KMF_PICKLED_DICT || marks->n > 0))
            return bad_tensor(r, e, "is stored as another's negative or conjugate");
    }
    int rc = read_storage(&v->storage, r, id);
    if (rc == 0)
        rc = find_storage(&v->storage, r);
    if (rc < 0)
        return rc;
    t->dtype = v->storage.dtype;
    t->item_bytes = v->storage.item_bytes;
    rc = read_shape(t, v, r, e, args);
    if (rc == 0 && !fits(t, v))
        rc = bad_tensor(r, e, "damaged: reaches beyond its storage");
    return rc;
}

static bool is_row_major(const kmf_stored *t, const struct view *v)
{
    size_t step = 1;
    for (int d = t->rank; d-- > 0 && t->n > 0;) {
        if (t->shape[d] != 1 && v->stride[d] != step)
            return false;
        step *= t->shape[d];
    }
    return true;
}

/* to[i] = element i in row-major order. Where a dimension is 1, `from` may wrap and wrap back. */
static void gather(unsigned char *to, const kmf_stored *t, const struct view *v)
{
    size_t index[KMF_SAFETENSORS_RANK_MAX] = {0};
    size_t from = v->offset;
    size_t size = t->item_bytes;
    for (size_t i = 0; i < t->n; i++) {
        memcpy(to + i * size, v->storage.values + from * size, size);
        for (int d = t->rank; d-- > 0;) {
            from += v->stride[d];
            if (++index[d] < t->shape[d])
                break;
            from -= v->stride[d] * t->shape[d];
            index[d] = 0;
        }
    }
}

/* Values of row-major tensors; *copied: the bytes that the others need. */
static int read_tensors(kmf_torchfile *file, size_t *copied, const struct reader *r,
                        const struct entry *entries)
{
    *copied = 0;
    for (size_t i = 0; i < file->n; i++) {
        kmf_stored *t = &file->tensors[i];
        struct view v;
        int rc = read_tensor(t, &v, r, &entries[i]);
        if (rc < 0)
            return rc;
        if (is_row_major(t, &v))
            t->values = v.storage.values + v.offset * t->item_bytes;
        else if (!kmf_add(*copied, t->bytes, copied) || *copied / COPIES_MAX > r->len)
            return bad_tensor(
                r, &entries[i],
                "it and the other views that must be copied would take too much memory");
    }
    return 0;
}

static int copy_tensors(kmf_torchfile *file, size_t copied, const struct reader *r,
                        const struct entry *entries)
{
    unsigned char *to = kmf_large(copied, 1, r->err);
    file->copies = to;
    if (!to)
        return KMF_ENOMEM;
    for (size_t i = 0; i < file->n; i++) {
        kmf_stored *t = &file->tensors[i];
        struct view v;
        if (t->values)
            continue;
        int rc = read_tensor(t, &v, r, &entries[i]);
        if (rc < 0)
            return rc;
        gather(to, t, &v);
        t->values = to;
        to += t->bytes;
    }
    return 0;
}

static int name_tensors(kmf_torchfile *file, size_t names_bytes, const struct reader *r,
                        const struct entry *entries)
{
    char *name = kmf_malloc(names_bytes, 1, r->err);
    file->names = name;
    if (!name)
        return KMF_ENOMEM;
    for (size_t i = 0; i < file->n; i++) {
        memcpy(name, entries[i].name, entries[i].len);
        name[entries[i].len] = '\0';
        file->tensors[i].name = name;
        name += entries[i].len + 1;
    }
    return 0;
}

static int fill(kmf_torchfile *file, const struct reader *r)
{
    size_t names_bytes = 0;
    size_t copied = 0;
    const kmf_pickled *dict = choose_dict(r);
    if (!dict)
        return wrong(r, "its pickle is of no dict; a state_dict is one");
    struct entry *entries = kmf_calloc(dict->n, sizeof *entries, r->err);
    if (!entries)
        return KMF_ENOMEM;
    int rc = list_entries(entries, &names_bytes, r, dict);
    if (rc < 0)
        goto out;
    file->n = dict->n;
    file->tensors = kmf_calloc(file->n, sizeof *file->tensors, r->err);
    rc = file->tensors ? name_tensors(file, names_bytes, r, entries) : KMF_ENOMEM;
    if (rc == 0)
        rc = read_tensors(file, &copied, r, entries);
    if (rc == 0 && copied > 0)
        rc = copy_tensors(file, copied, r, entries);
out:
    kmf_free(entries);
    return rc;
}

int kmf_torchfile_parse(kmf_torchfile *file, const unsigned char *bytes, size_t len,
                        const char *name, kmf_err *err)
{
    struct reader r = {.bytes = bytes, .len = len, .name = name, .err = err};
    *file = (kmf_torchfile){0};
    if (!kmf_torchfile_begins(bytes, len))
        return wrong(&r, "begins like no checkpoint of PyTorch");
    r.legacy = !kmf_zip_begins(bytes, len);
    int rc = r.legacy ? read_legacy(&r) : read_archive(&r);
    if (rc == 0)
        rc = fill(file, &r);
    kmf_free(r.storages);
    kmf_zip_free(&r.zip);
    kmf_pickle_free(&r.pickle);
    if (rc < 0)
        kmf_torchfile_free(file);
    return rc;
}

void kmf_torchfile_free(kmf_torchfile *file)
{
    kmf_free(file->tensors);
    kmf_free(file->names);
    kmf_free(file->copies);
    *file = (kmf_torchfile){0};
}
