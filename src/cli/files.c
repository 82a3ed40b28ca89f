/* SPDX-License-Identifier: MIT */
/* Names of files: what commands ask of them before a long job, and failures that they find. */
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOREIGN_BYTES 256 /* by which a file is known */
#define LENGTH_BYTES 8    /* before the header of a safetensors file */
#define CHECKPOINT_BEGINS "{\"__metadata__\":{\"format\":\"kmerformer %s checkpoint "
#define CHECKPOINT_CAP 96

int cli_raise(kmf_err *err, kmf_code code, const char *format, ...)
{
    va_list args;
    if (!err || err->code != KMF_OK)
        return code;
    err->code = code;
    va_start(args, format);
    vsnprintf(err->msg, sizeof err->msg, format, args);
    va_end(args);
    return code;
}

const char *cli_input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

void cli_name_file(const char *path, kmf_err *err)
{
    kmf_err named = {.code = err->code};
    snprintf(named.msg, sizeof named.msg, "%.400s: %.600s", cli_input_name(path), err->msg);
    *err = named;
}

void cli_name_record(const char *path, const kmf_record *rec, kmf_err *err)
{
    kmf_err numbered = {.code = err->code};
    if (strncmp(err->msg, "record '", 8) == 0) {
        snprintf(numbered.msg, sizeof numbered.msg, "record %llu %.600s",
                 (unsigned long long)rec->index + 1, err->msg + strlen("record "));
        *err = numbered;
    }
    cli_name_file(path, err);
}

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

const char *cli_kept(const char *resume, const char *checkpoint)
{
    if (strcmp(resume, "auto") == 0)
        return cli_is_file(checkpoint) ? checkpoint : NULL;
    return strcmp(resume, "never") == 0 ? NULL : resume;
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

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
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

bool cli_is_an_input(const char *out, const char *const *paths, size_t n)
{
    static const char random[] = "random:";
    struct stat o;
    if (strcmp(out, "-") == 0 || stat(out, &o) != 0 || !S_ISREG(o.st_mode))
        return false;
    for (size_t i = 0; i < n; i++)
        if (paths[i] &&
            (is_at(out, &o, paths[i]) ||
             (begins(paths[i], random) && is_at(out, &o, paths[i] + strlen(random)))))
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

/* The text of a pair that stands early in a JSON object, from its quote on; NULL: it does not. */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), ": \n") : NULL;
}

/*
 * Beside rows, or a table of counts, whichever this command makes. Of a JSON of ours the command
 * tells; the library writes what it is told.
 */
static bool is_beside_rows(const cli *run, const char *text)
{
    static const char *const of_rows[] = {"embed ", "logits ", "merge "};
    static const char program[] = "\"kmerformer ";
    const char *first = text + strspn(text, "{ \n");
    if (begins(first, "#index\tname\t"))
        return true;
    if (!begins(first, "\"program\"") ||
        !begins(value_of(first, "\"program\""), "\"kmerformer\""))
        return false;
    const char *command = value_of(first, "\"command\"");
    if (!command || !begins(command, program))
        return true;
    command += strlen(program);
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++)
        if (begins(command, of_rows[i]))
            return !begins(run->command, "vocab");
    return begins(command, "vocab ") && begins(run->command, "vocab");
}

/* Beside vectors of k-mers: their settings, or counts, in lines like "GATTACA 12\n". */
static bool is_beside_words(const cli *run, const char *text)
{
    (void)run;
    size_t word = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ*");
    size_t digits = text[word] == ' ' ? strspn(text + word + 1, "0123456789") : 0;
    if (strncmp(text, "{\"version\":", 11) == 0 && strstr(text, "\"method\":"))
        return true;
    return word > 0 && digits > 0 && text[word + 1 + digits] == '\n';
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

/* -1, or the exit code if there is a file of this name that is of something else. */
static int refuse(const cli *run, const char *out, const char *name,
                  bool (*is_ours)(const cli *run, const char *text))
{
    kmf_err err = {0};
    char text[FOREIGN_BYTES + 1];
    FILE *file = cli_is_file(name) ? fopen(name, "rb") : NULL;
    if (!file)
        return -1;
    size_t n = fread(text, 1, FOREIGN_BYTES, file);
    fclose(file);
    text[n] = '\0';
    if (n == 0 || is_ours(run, text))
        return -1;
    cli_raise(&err, KMF_EIO,
              "%s is there, and is of something else: it is not overwritten; give %s another "
              "name",
              name, out);
    return cli_fail(run, &err);
}

bool cli_is_checkpoint(const char *path, const char *kind)
{
    char text[LENGTH_BYTES + CHECKPOINT_CAP];
    char wanted[CHECKPOINT_CAP];
    FILE *file = cli_is_file(path) ? fopen(path, "rb") : NULL;
    if (!file)
        return false;
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    size_t len = (size_t)snprintf(wanted, sizeof wanted, CHECKPOINT_BEGINS, kind);
    return n >= LENGTH_BYTES + len && memcmp(text + LENGTH_BYTES, wanted, len) == 0;
}

const char *const cli_row_endings[] = {".ids.tsv", ".json", NULL};

int cli_refuse_inputs(cli *run, const char *out, const char *const *endings,
                      const char *const *paths, size_t n)
{
    if (cli_is_an_input(out, paths, n))
        return cli_wrong(run, "-o %s: that is an input", out);
    for (; strcmp(out, "-") != 0 && *endings; endings++) {
        char *name = kmf_companion(out, *endings, NULL);
        int code = name && cli_is_an_input(name, paths, n)
                       ? cli_wrong(run, "-o %s: %s: that is an input", out, name)
                       : -1;
        kmf_text_free(name);
        if (code >= 0)
            return code;
    }
    return -1;
}

/* Tables of the same stem, whose companion is about to become out's. */
static void warn_of_neighbours(const cli *run, const char *out, const char *companion)
{
    static const char *const tables[] = {".npy", ".tsv", ".tsv.gz"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char *other = kmf_companion(out, tables[i], NULL);
        if (other && cli_is_file(other) && !cli_same_output(other, out))
            cli_warn(run, "%s is there, too: %s, which lies beside it, will be that of %s",
                     other, companion, out);
        kmf_text_free(other);
    }
}

int cli_check_companions(const cli *run, const char *out, const char *const *endings)
{
    kmf_err err = {0};
    struct stat s;
    char *first = NULL; /* that is there */
    int leave = -1;
    for (; strcmp(out, "-") != 0 && *endings && leave < 0; endings++) {
        char *name = kmf_companion(out, *endings, NULL);
        if (name && stat(name, &s) == 0) {
            leave = refuse(run, out, name, is_beside_rows);
            if (leave < 0 && cli_check_output(name, &err) < 0)
                leave = cli_fail(run, &err);
        }
        if (name && !first && cli_is_file(name))
            first = name;
        else
            kmf_text_free(name);
    }
    if (first && leave < 0)
        warn_of_neighbours(run, out, first);
    kmf_text_free(first);
    return leave;
}

int cli_check_place(cli *run, const char *out, const char *const *endings,
                    const char *const *paths, size_t n, const char *model,
                    const kmf_reader_options *reader)
{
    const char *const others[] = {model, reader ? reader->bed : NULL,
                                  reader ? reader->reference : NULL};
    int leave = cli_refuse_inputs(run, out, endings, paths, n);
    if (leave < 0)
        leave = cli_refuse_inputs(run, out, endings, others, 3);
    return leave < 0 ? cli_check_companions(run, out, endings) : leave;
}

int cli_refuse_foreign_words(const cli *run, const char *out, const char *name)
{
    return refuse(run, out, name, is_beside_words);
}

bool cli_picture_is_an_input(const char *picture, const char *const *paths, size_t n)
{
    static const char *const endings[] = {".tsv", ".gp"};
    bool hit = cli_is_an_input(picture, paths, n);
    for (size_t i = 0; i < 2; i++) {
        char *name = kmf_picture_name(picture, endings[i], NULL);
        hit = hit || (name && cli_is_an_input(name, paths, n));
        kmf_text_free(name);
    }
    return hit;
}

typedef struct given {
    struct stat file;
    const char *path; /* borrowed */
} given;

static int by_file(const void *a, const void *b)
{
    const struct stat *x = &((const given *)a)->file;
    const struct stat *y = &((const given *)b)->file;
    if (x->st_dev != y->st_dev)
        return x->st_dev < y->st_dev ? -1 : 1;
    return x->st_ino < y->st_ino ? -1 : x->st_ino > y->st_ino;
}

const char *cli_given_twice(const char *const *paths, size_t n)
{
    const char *twice = NULL;
    size_t m = 0;
    given *files = calloc(n, sizeof *files);
    for (size_t i = 0; files && i < n; i++) {
        files[m].path = paths[i];
        m += stat(paths[i], &files[m].file) == 0 && S_ISREG(files[m].file.st_mode);
    }
    if (m > 0)
        qsort(files, m, sizeof *files, by_file);
    for (size_t i = 1; i < m && !twice; i++)
        twice = by_file(&files[i - 1], &files[i]) == 0 ? files[i].path : NULL;
    free(files);
    return twice;
}

void cli_warn_of_twice(const cli *run, const char *const *paths, size_t n)
{
    const char *twice = cli_given_twice(paths, n);
    if (twice)
        cli_warn(run, "%s is given twice, and counts as often", twice);
}

static bool is_stdin(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static int check_input(const char *path, kmf_err *err)
{
    struct stat s;
    if (!path || is_stdin(path))
        return 0;
    int reason = stat(path, &s) != 0       ? errno
                 : S_ISDIR(s.st_mode)      ? EISDIR
                 : access(path, R_OK) != 0 ? errno
                                           : 0;
    return reason ? cli_raise(err, KMF_EIO, "%s: %s", path, strerror(reason)) : 0;
}

int cli_check_inputs(const char *const *paths, size_t n, const kmf_reader_options *reader,
                     kmf_err *err)
{
    const char *bed = reader ? reader->bed : NULL;
    size_t dashes = is_stdin(bed);
    struct stat s;
    int status = 0;
    size_t there = 0;
    for (size_t i = 0; i < n; i++) {
        there += paths[i] != NULL;
        dashes += is_stdin(paths[i]);
    }
    if (dashes > 1)
        return cli_raise(err, KMF_EINVAL, "standard input can be read once");
    if (reader && reader->bed_names && !bed)
        return cli_raise(err, KMF_EINVAL, "--bed-names: the names are those of --bed FILE");
    if (bed && there > 1 && (is_stdin(bed) || (stat(bed, &s) == 0 && !S_ISREG(s.st_mode))))
        return cli_raise(err, KMF_EINVAL,
                         "--bed %s: it is read for each input anew, and this can be read once: "
                         "give a file, or one input",
                         bed);
    for (size_t i = 0; i < n && status == 0; i++)
        status = check_input(paths[i], err);
    if (status == 0)
        status = check_input(bed, err);
    /* an address is the reader's to refuse */
    const char *reference = reader ? reader->reference : NULL;
    return status < 0 || (reference && strstr(reference, "://")) ? status
                                                                 : check_input(reference, err);
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
