/* SPDX-License-Identifier: MIT */
/* Names of files: which are the same, and where an output can be made. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool cli_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_left_over(const char *entry, const char *name)
{
    static const char middle[] = ".tmp.";
    size_t n = strlen(name);
    if (strncmp(entry, name, n) != 0 || strncmp(entry + n, middle, strlen(middle)) != 0)
        return false;
    const char *number = entry + n + strlen(middle);
    return *number != '\0' && number[strspn(number, "0123456789")] == '\0';
}

void cli_remove_left_over(const char *path)
{
    char folder[CLI_PATH_CAP] = ".";
    char found[2 * CLI_PATH_CAP];
    struct dirent *entry;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    DIR *entries = opendir(folder);
    while (entries && (entry = readdir(entries)))
        if (is_left_over(entry->d_name, name)) {
            snprintf(found, sizeof found, "%s/%s", folder, entry->d_name);
            unlink(found);
        }
    if (entries)
        closedir(entries);
}

char *cli_plain_name(const char *name)
{
    char *plain = strdup(name);
    if (plain)
        kmf_show_plainly(plain);
    return plain;
}

const char *cli_kept(const char *resume, const char *checkpoint)
{
    if (strcmp(resume, "auto") == 0)
        return cli_is_file(checkpoint) ? checkpoint : NULL;
    return strcmp(resume, "never") == 0 ? NULL : resume;
}

int cli_check_kept(const char *resume, const char *checkpoint, kmf_err *err)
{
    const char *path = cli_kept(resume, checkpoint);
    return !path || access(path, R_OK) == 0
               ? 0
               : cli_raise(err, KMF_EIO, "%s: %s", path, strerror(errno));
}

const char *cli_to_go_on(const char *resume)
{
    return strcmp(resume, "auto") == 0 ? "" : " with --resume auto";
}

bool cli_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Is out, of which o is known, one of the files by which dir is a model? */
static bool is_of_model(const char *out, const struct stat *o, const char *dir)
{
    static const char *const endings[] = {
        "config.json", "vocab.txt", "tokenizer.json", "special_tokens_map.json", ".safetensors",
        ".index.json", ".bin"};
    const char *slash = strrchr(out, '/');
    const char *name = slash ? slash + 1 : out;
    struct stat there;
    char path[CLI_PATH_CAP];
    bool known = false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        known = known || cli_ends_with(name, endings[i]);
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return known && n > 0 && (size_t)n < sizeof path && stat(path, &there) == 0 &&
           same_file(o, &there);
}

/* Is out, of which o is known, an index that lies beside path? */
static bool is_index_of(const struct stat *o, const char *path)
{
    static const char *const endings[] = {".fai", ".gzi"};
    struct stat index;
    char name[CLI_PATH_CAP];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        int n = snprintf(name, sizeof name, "%s%s", path, endings[i]);
        if (n > 0 && (size_t)n < sizeof name && stat(name, &index) == 0 && same_file(o, &index))
            return true;
    }
    return false;
}

/*
 * Is out, of which o is known, the file at path or behind standard input, an index of it, or one
 * of the model there?
 */
static bool is_at(const char *out, const struct stat *o, const char *path)
{
    struct stat in;
    if (strcmp(path, "-") == 0)
        return fstat(STDIN_FILENO, &in) == 0 && same_file(o, &in);
    if (stat(path, &in) != 0)
        return false;
    return same_file(o, &in) || is_index_of(o, path) ||
           (S_ISDIR(in.st_mode) && is_of_model(out, o, path));
}

bool cli_is_array(const char *path)
{
    return path && strcmp(path, "-") != 0 && kmf_is_row_file(path);
}

/* What tells of the rows of an array. */
static bool is_beside(const char *out, const struct stat *o, const char *path)
{
    static const char *const endings[] = {".ids.tsv", ".json"};
    bool is = false;
    for (size_t i = 0; i < 2 && cli_is_array(path); i++) {
        char *name = kmf_companion(path, endings[i], NULL);
        is = is || (name && is_at(out, o, name));
        kmf_text_free(name);
    }
    return is;
}

bool cli_is_an_input(const char *out, const char *const *paths, size_t n)
{
    static const char random[] = "random:";
    struct stat o;
    if (strcmp(out, "-") == 0 || stat(out, &o) != 0 || !S_ISREG(o.st_mode))
        return false;
    for (size_t i = 0; i < n; i++)
        if (paths[i] && (is_at(out, &o, paths[i]) || is_beside(out, &o, paths[i]) ||
                         (strncmp(paths[i], random, strlen(random)) == 0 &&
                          is_at(out, &o, paths[i] + strlen(random)))))
            return true;
    return false;
}

bool cli_same_place(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && same_file(&s, &t);
}

/* The folder of a path, which is cut there, and what is behind it. */
static const char *cut_name(char *path, const char **name)
{
    char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    if (slash)
        *slash = '\0';
    return !slash ? "." : slash == path ? "/" : path;
}

bool cli_same_output(const char *a, const char *b)
{
    const char *name_a, *name_b;
    char *real_a = kmf_real_name(a, NULL), *real_b = kmf_real_name(b, NULL);
    bool same = strcmp(a, b) == 0;
    if (!same && real_a && real_b) {
        const char *folder_a = cut_name(real_a, &name_a);
        const char *folder_b = cut_name(real_b, &name_b);
        same = strcmp(name_a, name_b) == 0 && cli_same_place(folder_a, folder_b);
    }
    kmf_text_free(real_a);
    kmf_text_free(real_b);
    return same;
}

int cli_refuse_array(const cli *run, const char *out)
{
    if (!kmf_foreign_ending(out) && !cli_ends_with(out, ".npy"))
        return -1;
    return cli_wrong(run, "%s: what is written is text with tabs, as .tsv or .tsv.gz", out);
}

int cli_refuse_model(const cli *run, const char *out, bool or_file)
{
    static const char *const ends[] = {".npy", ".gz", ".tsv", ".txt", ".vec", ".bin"};
    struct stat s;
    bool dash = strcmp(out, "-") == 0;
    bool other =
        dash || kmf_foreign_ending(out) || (!or_file && cli_ends_with(out, ".safetensors"));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        other = other || cli_ends_with(out, ends[i]);
    if (!other || (!dash && stat(out, &s) == 0 && S_ISDIR(s.st_mode)))
        return -1;
    return cli_wrong(run, "%s: a model is written as a directory%s", out,
                     or_file ? ", or as one file x.safetensors" : "");
}

int cli_vectors_format(const char *name)
{
    static const struct {
        const char *end;
        kmf_vectors_format format;
    } ends[] = {{".safetensors", KMF_VECTORS_SAFETENSORS},
                {".txt", KMF_VECTORS_TEXT},
                {".txt.gz", KMF_VECTORS_TEXT},
                {".vec", KMF_VECTORS_TEXT},
                {".vec.gz", KMF_VECTORS_TEXT},
                {".bin", KMF_VECTORS_BINARY},
                {".bin.gz", KMF_VECTORS_BINARY}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (cli_ends_with(name, ends[i].end))
            return (int)ends[i].format;
    return -1;
}

/* 0 or an errno: can a file be made in the folder of path? path is cut. */
static int check_folder(char *path)
{
    struct stat s;
    const char *name;
    const char *folder = cut_name(path, &name);
    if (stat(folder, &s) != 0)
        return errno;
    if (!S_ISDIR(s.st_mode))
        return ENOTDIR;
    return access(folder, W_OK | X_OK) == 0 ? 0 : errno;
}

int cli_check_output(const char *path, kmf_err *err)
{
    struct stat s;
    int reason;
    if (strcmp(path, "-") == 0)
        return 0;
    bool there = stat(path, &s) == 0;
    if (there && S_ISDIR(s.st_mode)) {
        reason = EISDIR;
    } else if (there && !S_ISREG(s.st_mode)) {
        reason = access(path, W_OK) == 0 ? 0 : errno;
    } else {
        char *name = kmf_real_name(path, err);
        if (!name)
            return err->code;
        reason = there && access(path, W_OK) != 0 ? errno : 0;
        if (reason == 0)
            reason = check_folder(name);
        kmf_text_free(name);
    }
    return reason ? cli_raise(err, KMF_EIO, "%s: %s%s", path, strerror(reason),
                              reason == ENOENT ? ": the folder is not there" : "")
                  : 0;
}
