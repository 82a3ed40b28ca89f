/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint knows of an embedder. The records that are done are read once more, and passed
 * over: a reader is hundreds of times as fast as an encoder, a pipe cannot be sought in, and the
 * checksum shows whether they are what they were.
 */
#include "base/err.h"
#include "base/json.h"
#include "embed/flow.h"
#include "embed/provenance.h"

#include <string.h>

/* json, which is released, as *text. */
static int give_text(json_t *json, char **text, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (!json)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no checkpoint could be made");
    *text = kmf_json_text(json, JSON_COMPACT, err);
    json_decref(json);
    return *text ? 0 : (int)err->code;
}

static int describe(const void *user, char **text, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    return give_text(kmf_json_with_embedder(json_object(), user, err), text, err);
}

static int mark(const void *user, char **text, uint64_t *records, kmf_err *err)
{
    kmf_embed_mark done;
    if (!kmf_embedder_mark(user, &done))
        return 0;
    *records = done.records;
    json_t *json = json_pack("{s:I, s:I}", "records", (json_int_t)done.records,
                             KMF_RECORDS_CHECKSUM, (json_int_t)done.sum);
    json = kmf_json_with(json, "statistics", kmf_statistics_json(&done.stats));
    int status = give_text(json, text, err);
    return status < 0 ? status : 1;
}

static int read_mark(kmf_embed_mark *to, const json_t *json, const char *where, kmf_err *err)
{
    uint64_t sum;
    int status = kmf_json_count(&to->records, json, "records", INT64_MAX, where, err);
    if (status == 0)
        status = kmf_json_count(&sum, json, KMF_RECORDS_CHECKSUM, UINT32_MAX, where, err);
    if (status < 0)
        return status;
    if (to->records == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: its mark tells of no records", where);
    to->sum = (uint32_t)sum;
    return kmf_statistics_read(&to->stats, json_object_get(json, "statistics"), where, err);
}

static int go_on(void *user, const char *text, uint64_t rows, const char *where, kmf_err *err)
{
    kmf_embed_mark earlier;
    (void)rows;
    json_t *json = kmf_json_parse(text, strlen(text), where, err);
    int status = json ? read_mark(&earlier, json, where, err) : KMF_EMODEL;
    json_decref(json);
    if (status == 0)
        kmf_embedder_given(user, &earlier);
    return status;
}

kmf_run kmf_embedder_run(kmf_embedder *embedder)
{
    kmf_run run = {.kind = "embed", .user = embedder, .describe = describe, .go_on = go_on};
    if (kmf_flow_resumes(embedder))
        run.mark = mark;
    return run;
}
