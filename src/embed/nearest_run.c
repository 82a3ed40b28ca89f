/* SPDX-License-Identifier: MIT */
/* What a checkpoint knows of a search of rows. */
#include "base/err.h"
#include "base/json.h"
#include "embed/rownearest.h"

#include <string.h>

#define CHECKSUM "queries_checksum"

static int describe(void *user, char **text, kmf_err *err)
{
    json_t *json = json_pack("{s:{s:I, s:I}}", "settings", "neighbours",
                             (json_int_t)kmf_row_search_most(user), "references_checksum",
                             (json_int_t)kmf_row_search_checksum(user));
    return kmf_json_give(json, text, err);
}

static int mark(void *user, char **text, uint64_t *records, kmf_err *err)
{
    kmf_search_mark done = kmf_row_search_done(user);
    *records = done.stats.queries;
    if (done.stats.queries == 0)
        return 0;
    json_t *json = json_pack("{s:I, s:I, s:I, s:I}", "queries", (json_int_t)done.stats.queries,
                             CHECKSUM, (json_int_t)done.sum, "queries_without",
                             (json_int_t)done.stats.queries_without, "references_without",
                             (json_int_t)done.stats.references_without);
    int status = kmf_json_give(json, text, err);
    return status < 0 ? status : 1;
}

static int read_mark(kmf_search_mark *to, const json_t *json, const char *where, kmf_err *err)
{
    uint64_t sum = 0;
    const struct {
        const char *key;
        uint64_t *to, max;
    } rows[] = {{"queries", &to->stats.queries, INT64_MAX},
                {CHECKSUM, &sum, UINT32_MAX},
                {"queries_without", &to->stats.queries_without, INT64_MAX},
                {"references_without", &to->stats.references_without, INT64_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (kmf_json_count(rows[i].to, json, rows[i].key, rows[i].max, where, err) < 0)
            return KMF_EMODEL;
    to->sum = (uint32_t)sum;
    return to->stats.queries > 0
               ? 0
               : kmf_fail(err, KMF_EMODEL, "%s: its mark tells of no queries", where);
}

static int go_on(void *user, const char *text, uint64_t rows, const char *where, kmf_err *err)
{
    kmf_search_mark earlier;
    (void)rows;
    json_t *json = kmf_json_parse(text, strlen(text), where, err);
    int status = json ? read_mark(&earlier, json, where, err) : KMF_EMODEL;
    json_decref(json);
    if (status == 0)
        kmf_row_search_given(user, &earlier);
    return status;
}

kmf_run kmf_row_search_run(kmf_row_search *search)
{
    return (kmf_run){
        .kind = "nearest", .user = search, .describe = describe, .mark = mark, .go_on = go_on};
}
