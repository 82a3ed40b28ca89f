/* SPDX-License-Identifier: MIT */
#include "embed/sidecar.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
    ssize_t n = getline(&ids->line, &ids->cap, ids->file);
    if (n < 0)
        return feof(ids->file) ? 0 : fail_of_file(ids, err);
    ids->n++;
    return 1;
}

/* The number behind a tab, up to the next one or the end of the line; *at moves there. */
static bool read_number(char **at, int64_t *number)
{
    char *end;
    if (**at != '\t')
        return false;
    errno = 0;
    *number = strtoll(*at + 1, &end, 10);
    bool sound = errno == 0 && end > *at + 1 && (*end == '\t' || *end == '\n');
    *at = end;
    return sound;
}

static bool parse(kmf_ids *ids, kmf_row *row)
{
    int64_t numbers[] = {0, 0, 0, 0, 0, -1}; /* index, length, ..., chunks, position */
    char *tab = strchr(ids->line, '\t');
    char *at = tab ? strchr(tab + 1, '\t') : NULL;
    if (!at)
        return false;
    char *end_of_name = at;
    errno = 0;
    numbers[0] = strtoll(ids->line, &at, 10);
    bool sound = errno == 0 && at == tab && tab > ids->line;
    at = end_of_name;
    for (size_t i = 1; i < (ids->per_token ? 6 : 5); i++)
        sound = sound && read_number(&at, &numbers[i]) && (i == 5 || numbers[i] >= 0);
    *end_of_name = '\0';
    *row = (kmf_row){.index = (uint64_t)numbers[0],
                     .name = tab + 1,
                     .len = (uint64_t)numbers[1],
                     .tokens = (uint64_t)numbers[2],
                     .ambiguous = (uint64_t)numbers[3],
                     .chunks = (uint64_t)numbers[4],
                     .position = numbers[5]};
    return sound && numbers[0] >= 0 && strcmp(at, "\n") == 0;
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
