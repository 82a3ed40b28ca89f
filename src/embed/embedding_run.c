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

static int describe(void *user, char **text, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    return kmf_json_give(kmf_json_with_embedder(json_object(), user, err), text, err);
}

static int mark(void *user, char **text, uint64_t *records, kmf_err *err)
{
    kmf_embed_mark done;
    if (!kmf_embedder_mark(user, &done))
        return 0;
    *records = done.records;
    json_t *json = kmf_json_with(kmf_records_json(done.records, done.sum), "statistics",
                                 kmf_statistics_json(&done.stats));
    int status = kmf_json_give(json, text, err);
    return status < 0 ? status : 1;
}

static int read_mark(kmf_embed_mark *to, const json_t *json, const char *where, kmf_err *err)
{
    int status = kmf_records_read(&to->records, &to->sum, json, where, err);
    return status < 0 ? status
                      : kmf_statistics_read(&to->stats, json_object_get(json, "statistics"),
                                            where, err);
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
