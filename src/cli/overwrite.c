/* SPDX-License-Identifier: MIT */
/*
 * What an output would overwrite: its inputs, and files beside it. Those that this command makes
 * may be replaced; those of something else are not, and which they are their first bytes tell.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FOREIGN_BYTES 256 /* by which a file is known */
#define LENGTH_BYTES 8    /* before the header of a safetensors file */
#define CHECKPOINT_BEGINS "{\"__metadata__\":{\"format\":\"kmerformer %s checkpoint "
#define CHECKPOINT_CAP 96

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The text of a pair that stands early in a JSON object, from its quote on; NULL: it does not. */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    return at ? at + strlen(key) + strspn(at + strlen(key), ": \n") : NULL;
}

/* What kmerformer writes beside a table, from its first word on: ids, or a JSON that says so. */
static bool are_ids(const char *first)
{
    return begins(first, "#index\tname\t");
}

static bool is_provenance(const char *first)
{
    return begins(first, "\"program\"") &&
           begins(value_of(first, "\"program\""), "\"kmerformer\"");
}

static const char *first_word(const char *text)
{
    return text + strspn(text, "{ \n");
}

/*
 * Beside rows, or a table of counts, whichever this command makes. Of a JSON of ours the command
 * tells; the library writes what it is told.
 */
static bool is_beside_rows(const cli *run, const char *text)
{
    static const char *const of_rows[] = {"embed ", "logits ", "merge "};
    static const char program[] = "\"kmerformer ";
    const char *first = first_word(text);
    if (are_ids(first))
        return true;
    if (!is_provenance(first))
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

/* The first bytes of a regular file, ended by a NUL; how many: 0 if there is none. */
static size_t read_first(char text[FOREIGN_BYTES + 1], const char *name)
{
    FILE *file = cli_is_file(name) ? fopen(name, "rb") : NULL;
    size_t n = file ? fread(text, 1, FOREIGN_BYTES, file) : 0;
    if (file)
        fclose(file);
    text[n] = '\0';
    return n;
}

/* -1, or the exit code if there is a file of this name that is of something else. */
static int refuse(const cli *run, const char *out, const char *name,
                  bool (*is_ours)(const cli *run, const char *text))
{
    kmf_err err = {0};
    char text[FOREIGN_BYTES + 1];
    if (read_first(text, name) == 0 || is_ours(run, text))
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

int cli_refuse_companion(const cli *run, const char *out)
{
    for (const char *const *ending = cli_row_endings; *ending; ending++)
        if (cli_ends_with(out, *ending))
            return cli_wrong(run, "%s: names in %s are of what lies beside vectors", out,
                             *ending);
    return -1;
}

int cli_refuse_table(const cli *run, const char *out)
{
    char text[FOREIGN_BYTES + 1];
    if (cli_refuse_array(run, out) >= 0 || cli_refuse_companion(run, out) >= 0)
        return CLI_USAGE;
    for (const char *const *ending = cli_row_endings; *ending; ending++) {
        char *name = kmf_companion(out, *ending, NULL);
        text[0] = '\0';
        if (name && cli_is_file(out))
            (void)read_first(text, name);
        if (are_ids(text) || is_provenance(first_word(text)))
            cli_warn(run, "%s, which lies beside the output, is of another table", name);
        kmf_text_free(name);
    }
    return -1;
}

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
