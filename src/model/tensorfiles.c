/* SPDX-License-Identifier: MIT */
/*
 * Each file is mapped and read by its format's reader, whose list points into the map (or at
 * copies the reader made). The list of all is those lists together, sorted by name.
 *
 * An index and its shards must agree in every tensor: a tensor in no shard, in two, in another
 * than the index says, or in a shard but not in the index means that files of two models got
 * mixed, and nothing else would notice. An index names files beside itself: a name with a slash
 * or two dots is refused, so that a model from elsewhere opens no files from here.
 */
#include "model/tensorfiles.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "model/torchfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GIVE_BACK_MIN ((size_t)1 << 20) /* bytes that are worth a call */
#define INDEX_BYTES_MAX ((size_t)16 << 20)

struct kmf_tensorfile {
    const char *name;   /* for messages: path, or borrowed */
    char *path;         /* owned; NULL for a file in memory */
    const char *base;   /* borrowed from path: the name in its directory */
    kmf_map map;        /* zero for a file in memory */
    kmf_safetensors st; /* one of these two */
    kmf_torchfile torch;
    const kmf_stored *list; /* borrowed [n] from it, by name */
    size_t n;
};

/* ---- one file ---------------------------------------------------------------------------- */

/* What git leaves in the place of a large file that it was not asked to fetch. */
static bool is_pointer(const unsigned char *bytes, size_t len)
{
    static const char text[] = "version https://git-lfs.github.com/spec/";
    return len >= strlen(text) && memcmp(bytes, text, strlen(text)) == 0;
}

static int refuse_pointer(const char *name, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL,
                    "%s: a pointer of Git LFS, not the file: fetch it with `git lfs pull`",
                    name);
}

static int parse_file(struct kmf_tensorfile *file, const unsigned char *bytes, size_t len,
                      kmf_err *err)
{
    const char *name = file->name;
    int rc;
    if (is_pointer(bytes, len))
        return refuse_pointer(name, err);
    if (kmf_torchfile_begins(bytes, len)) {
        rc = kmf_torchfile_parse(&file->torch, bytes, len, name, err);
        file->list = file->torch.tensors;
        file->n = file->torch.n;
    } else if (kmf_safetensors_begins(bytes, len) || kmf_ends_with(name, ".safetensors")) {
        /* whatever has this name: the reader knows best what is wrong with it */
        rc = kmf_safetensors_parse(&file->st, bytes, len, name, err);
        file->list = file->st.tensors;
        file->n = file->st.n;
    } else {
        rc = kmf_fail(err, KMF_EMODEL,
                      "%s: neither a safetensors file nor a checkpoint of PyTorch", name);
    }
    return rc;
}

/* "dir/base"; dir NULL: base. */
static int open_file(struct kmf_tensorfile *file, const char *dir, const char *base,
                     kmf_err *err)
{
    file->path = kmf_strprintf(err, "%s%s%s", dir ? dir : "", dir ? "/" : "", base);
    if (!file->path)
        return KMF_ENOMEM;
    file->name = file->path;
    file->base = file->path + strlen(file->path) - strlen(base);
    int rc = kmf_map_open(&file->map, file->path, err);
    return rc < 0 ? rc : parse_file(file, file->map.bytes, file->map.len, err);
}

static void close_file(struct kmf_tensorfile *file)
{
    kmf_safetensors_free(&file->st);
    kmf_torchfile_free(&file->torch);
    kmf_map_close(&file->map);
    kmf_free(file->path);
}

static int add_files(kmf_tensors *t, size_t n, kmf_err *err)
{
    t->files = kmf_calloc(n, sizeof *t->files, err);
    if (!t->files)
        return KMF_ENOMEM;
    t->n_files = n;
    return 0;
}

/* The list of all from the lists of each. */
static int join_lists(kmf_tensors *t, kmf_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_files; i++)
        n += t->files[i].n;
    t->list = kmf_calloc(n, sizeof *t->list, err);
    if (!t->list)
        return KMF_ENOMEM;
    for (size_t i = 0; i < t->n_files; i++) {
        const struct kmf_tensorfile *file = &t->files[i];
        if (file->n > 0)
            memcpy(t->list + t->n, file->list, file->n * sizeof *t->list);
        t->n += file->n;
    }
    qsort(t->list, t->n, sizeof *t->list, kmf_stored_compare);
    return 0;
}

static int open_single(kmf_tensors *t, const char *dir, const char *base, kmf_err *err)
{
    int rc = add_files(t, 1, err);
    if (rc == 0)
        rc = open_file(&t->files[0], dir, base, err);
    return rc == 0 ? join_lists(t, err) : rc;
}

/* The file that a tensor of the list came from: the name that it has is that file's own. */
static const struct kmf_tensorfile *file_of(const kmf_tensors *t, const kmf_stored *tensor)
{
    for (size_t i = 0; i < t->n_files; i++) {
        const struct kmf_tensorfile *file = &t->files[i];
        const kmf_stored *own = kmf_stored_find(file->list, file->n, tensor->name);
        if (own && own->name == tensor->name)
            return file;
    }
    return NULL; /* never: it is of the list */
}

/* ---- shards ------------------------------------------------------------------------------ */

/* The index being read. */
struct index {
    const char *path;
    json_t *weight_map;  /* borrowed from the JSON in the file */
    const char **shards; /* owned [n]: a name for each tensor, then for each file */
    size_t n;
};

/* Control characters, which messages of the file would bring to a terminal, are in no such name. */
static bool is_beside(const char *name)
{
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return false;
    return name[0] != '\0' && !strchr(name, '/') && !strstr(name, "..");
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The shards' names, sorted, each once. */
static int list_shards(struct index *index, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const char *key;
    json_t *value;
    size_t n = 0;
    index->shards = kmf_calloc(json_object_size(index->weight_map), sizeof *index->shards, err);
    if (!index->shards)
        return KMF_ENOMEM;
    json_object_foreach(index->weight_map, key, value) {
        const char *shard = json_string_value(value);
        if (!shard || !is_beside(shard))
            return kmf_fail(err, KMF_EMODEL,
                            "%s: tensor %s: its file must be the name of one beside the index",
                            index->path, kmf_err_show(shown, key));
        index->shards[n++] = shard;
    }
    qsort(index->shards, n, sizeof *index->shards, by_text);
    for (size_t i = 0; i < n; i++)
        if (index->n == 0 || strcmp(index->shards[index->n - 1], index->shards[i]) != 0)
            index->shards[index->n++] = index->shards[i];
    return 0;
}

static int check_shards(const kmf_tensors *t, const struct index *index, kmf_err *err)
{
    char shown[2][KMF_ERR_SHOW];
    const char *name;
    json_t *shard;
    for (size_t i = 0; i < t->n; i++) {
        name = t->list[i].name;
        if (i > 0 && strcmp(t->list[i - 1].name, name) == 0)
            return kmf_fail(err, KMF_EMODEL, "%s: tensor %s is in two shards", index->path,
                            kmf_err_show(shown[0], name));
        if (!json_object_get(index->weight_map, name))
            return kmf_fail(err, KMF_EMODEL, "%s: tensor %s, which is in %s, is not in it",
                            index->path, kmf_err_show(shown[0], name),
                            kmf_err_show(shown[1], file_of(t, &t->list[i])->base));
    }
    json_object_foreach(index->weight_map, name, shard) {
        const char *base = json_string_value(shard);
        const kmf_stored *tensor = kmf_tensors_find(t, name);
        if (!tensor || strcmp(file_of(t, tensor)->base, base) != 0)
            return kmf_fail(err, KMF_EMODEL, "%s: tensor %s is not in %s, where it should be",
                            index->path, kmf_err_show(shown[0], name),
                            kmf_err_show(shown[1], base));
    }
    return 0;
}

static int open_shards(kmf_tensors *t, const char *dir, struct index *index, kmf_err *err)
{
    if (json_object_size(index->weight_map) == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: no weight_map that names the files", index->path);
    int rc = list_shards(index, err);
    if (rc == 0)
        rc = add_files(t, index->n, err);
    for (size_t i = 0; i < t->n_files && rc == 0; i++)
        rc = open_file(&t->files[i], dir, index->shards[i], err);
    if (rc == 0)
        rc = join_lists(t, err);
    return rc == 0 ? check_shards(t, index, err) : rc;
}

static int open_index(kmf_tensors *t, const char *dir, const char *path, kmf_err *err)
{
    size_t len;
    json_t *json = NULL;
    err = kmf_err_or(err, &(kmf_err){0});
    char *text = kmf_file_read(path, INDEX_BYTES_MAX, &len, err);
    if (text)
        json = kmf_json_parse(text, len, path, err);
    kmf_free(text);
    if (!json)
        return (int)err->code;
    struct index index = {.path = path, .weight_map = json_object_get(json, "weight_map")};
    int rc = open_shards(t, dir, &index, err);
    kmf_free(index.shards);
    json_decref(json);
    return rc;
}

/* ---- all --------------------------------------------------------------------------------- */

/* Opens dir/name, a file with tensors or an index; 1 if there is none. */
static int try_name(kmf_tensors *t, const char *dir, const char *name, kmf_err *err)
{
    char *path = kmf_strprintf(err, "%s/%s", dir, name);
    if (!path)
        return KMF_ENOMEM;
    int rc = kmf_file_there(path, err);
    if (rc == 0)
        rc = 1;
    else if (rc == 1 && kmf_ends_with(name, ".json"))
        rc = open_index(t, dir, path, err);
    else if (rc == 1)
        rc = open_single(t, dir, name, err);
    kmf_free(path);
    return rc;
}

static int open_directory(kmf_tensors *t, const char *dir, kmf_err *err)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    int rc = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && rc == 1; i++)
        rc = try_name(t, dir, names[i], err);
    if (rc == 1)
        rc = kmf_fail(err, KMF_EMODEL, "%s: no %s in it, nor %s, nor an index of either", dir,
                      names[0], names[2]);
    return rc;
}

int kmf_tensors_open(kmf_tensors *t, const char *path, kmf_err *err)
{
    struct stat st;
    *t = (kmf_tensors){0};
    if (stat(path, &st) != 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    int rc =
        S_ISDIR(st.st_mode) ? open_directory(t, path, err) : open_single(t, NULL, path, err);
    if (rc < 0)
        kmf_tensors_close(t);
    return rc;
}

int kmf_tensors_check_foreign(const char *path, kmf_err *err)
{
    kmf_map map;
    int rc = kmf_map_open(&map, path, err);
    if (rc == 0 && is_pointer(map.bytes, map.len))
        rc = refuse_pointer(path, err);
    else if (rc == 0 && kmf_torchfile_begins(map.bytes, map.len))
        rc = kmf_fail(err, KMF_EMODEL,
                      "%s: a checkpoint of PyTorch: a model is the directory that it is in",
                      path);
    kmf_map_close(&map);
    return rc;
}

int kmf_tensors_parse(kmf_tensors *t, const unsigned char *bytes, size_t len, const char *name,
                      kmf_err *err)
{
    *t = (kmf_tensors){0};
    int rc = add_files(t, 1, err);
    if (rc == 0) {
        t->files[0].name = name;
        rc = parse_file(&t->files[0], bytes, len, err);
    }
    if (rc == 0)
        rc = join_lists(t, err);
    if (rc < 0)
        kmf_tensors_close(t);
    return rc;
}

void kmf_tensors_close(kmf_tensors *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        close_file(&t->files[i]);
    kmf_free(t->files);
    kmf_free(t->list);
    *t = (kmf_tensors){0};
}

const kmf_stored *kmf_tensors_find(const kmf_tensors *t, const char *name)
{
    return kmf_stored_find(t->list, t->n, name);
}

const char *kmf_tensors_metadata(const kmf_tensors *t, const char *key)
{
    return t->n_files == 1 ? kmf_safetensors_metadata(&t->files[0].st, key) : NULL;
}

const char *kmf_tensors_file(const kmf_tensors *t, const kmf_stored *tensor)
{
    return file_of(t, tensor)->name;
}

size_t kmf_tensors_n_files(const kmf_tensors *t)
{
    return t->n_files > 0 && t->files[0].path ? t->n_files : 0;
}

const kmf_map *kmf_tensors_map(const kmf_tensors *t, size_t i)
{
    return &t->files[i].map;
}

void kmf_tensors_give_back(const kmf_tensors *t, const void *values, size_t bytes)
{
    uintptr_t at = (uintptr_t)values;
    for (size_t i = 0; bytes >= GIVE_BACK_MIN && i < kmf_tensors_n_files(t); i++) {
        const kmf_map *map = kmf_tensors_map(t, i);
        uintptr_t beg = (uintptr_t)map->bytes;
        if (at >= beg && at - beg < map->len)
            kmf_discard((void *)at, bytes);
    }
}
