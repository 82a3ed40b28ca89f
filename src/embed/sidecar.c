/* SPDX-License-Identifier: MIT */
#include "embed/sidecar.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int kmf_row_check_name(const char *name, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    if (name[strcspn(name, "\t\n\r")] == '\0')
        return 0;
    return kmf_fail(err, KMF_EINVAL, "'%s': a tab or a line end in a name",
                    kmf_err_show(shown, name));
}

static int fail_of_file(const kmf_ids *ids, kmf_err *err)
{
    return kmf_fail(err, errno == ENOMEM ? KMF_ENOMEM : KMF_EIO, "%s: %s", ids->path,
                    strerror(errno));
}

static int read_header(kmf_ids *ids, kmf_err *err)
{
    static const size_t n = sizeof KMF_IDS_HEADER - 1;
    int got = kmf_ids_next(ids, err);
    if (got < 0)
        return got;
    ids->n = 0;
    const char *rest = got && strncmp(ids->line, KMF_IDS_HEADER, n) == 0 ? ids->line + n : "";
    ids->per_token = strcmp(rest, KMF_IDS_HEADER_POSITION "\n") == 0;
    return ids->per_token || strcmp(rest, "\n") == 0
               ? 1
               : kmf_fail(err, KMF_EMODEL, "%s: it has an unknown header", ids->path);
}

int kmf_ids_open(kmf_ids *ids, const char *path, kmf_err *err)
{
    *ids = (kmf_ids){.record = -1};
    ids->path = kmf_companion(path, ".ids.tsv", err);
    if (!ids->path)
        return KMF_ENOMEM;
    ids->file = fopen(ids->path, "rb");
    int status = ids->file         ? read_header(ids, err)
                 : errno == ENOENT ? 0
                                   : fail_of_file(ids, err);
    if (status <= 0)
        kmf_ids_close(ids);
    return status;
}

void kmf_ids_close(kmf_ids *ids)
{
    if (ids->file)
        fclose(ids->file);
    free(ids->line);
    kmf_free(ids->path);
    *ids = (kmf_ids){0};
}

int kmf_ids_next(kmf_ids *ids, kmf_err *err)
{
    errno = 0;
    ids->name_end = NULL;
    ssize_t n = getline(&ids->line, &ids->cap, ids->file);
    if (n < 0)
        return feof(ids->file) ? 0 : fail_of_file(ids, err);
    if (ids->line[n - 1] != '\n')
        return kmf_fail(err, KMF_EMODEL, "%s: its last line is cut", ids->path);
    ids->n++;
    return 1;
}

/* The numbers behind the name, of which a position may be -1; NULL: they are none. */
static const char *read_numbers(const char *at, bool per_token, uint64_t numbers[4],
                                int64_t *position)
{
    uint64_t place = 0;
    for (size_t i = 0; i < 4 && at; i++)
        at = *at == '\t' ? kmf_read_digits(at + 1, &numbers[i]) : NULL;
    if (!at || !per_token)
        return at;
    if (strcmp(at, "\t-1\n") == 0)
        return at + 3;
    at = *at == '\t' ? kmf_read_digits(at + 1, &place) : NULL;
    *position = (int64_t)place;
    return at;
}

static bool parse(kmf_ids *ids, kmf_row *row)
{
    uint64_t index;
    uint64_t numbers[4]; /* length, tokens, ambiguous, chunks */
    int64_t position = -1;
    const char *tab = kmf_read_digits(ids->line, &index);
    char *end_of_name = tab && *tab == '\t' ? strchr(tab + 1, '\t') : NULL;
    const char *end =
        end_of_name ? read_numbers(end_of_name, ids->per_token, numbers, &position) : NULL;
    if (!end || strcmp(end, "\n") != 0)
        return false;
    ids->name_end = end_of_name;
    *end_of_name = '\0';
    *row = (kmf_row){.index = index,
                     .name = tab + 1,
                     .len = numbers[0],
                     .tokens = numbers[1],
                     .ambiguous = numbers[2],
                     .chunks = numbers[3],
                     .position = position};
    return true;
}

int kmf_ids_row(kmf_ids *ids, kmf_row *row, kmf_err *err)
{
    if (!parse(ids, row))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: line %" PRIu64 " is none of index, name and numbers", ids->path,
                        ids->n + 1);
    int64_t record = (int64_t)row->index;
    if (record < ids->record || (record == ids->record && !ids->per_token))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: line %" PRIu64 ": index %" PRId64 " comes behind %" PRId64
                        ": the lines are not in the order of the rows any more",
                        ids->path, ids->n + 1, record, ids->record);
    ids->record = record;
    return 0;
}

const char *kmf_ids_line(kmf_ids *ids, size_t *n)
{
    if (ids->name_end)
        *ids->name_end = '\t';
    ids->name_end = NULL;
    *n = strlen(ids->line);
    return ids->line;
}
