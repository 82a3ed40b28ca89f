/* SPDX-License-Identifier: MIT */
/* What a checkpoint knows of a run of logits. */
#include "base/crc.h"
#include "base/err.h"
#include "base/json.h"
#include "embed/logits.h"
#include "embed/hashedmodel.h"
#include "embed/provenance.h"
#include "nn/gemm.h"

#include <string.h>

static json_t *model_json(const kmf_model *model, kmf_err *err)
{
    kmf_hashed_model files;
    if (kmf_hashed_model_list(&files, model, err) < 0)
        return NULL;
    json_t *json = json_pack("{s:o}", "name", kmf_json_of_text(kmf_model_path(model)));
    json = kmf_json_with_files(json, files.list, NULL, err);
    kmf_hashed_model_free(&files);
    return json;
}

static json_t *settings_json(const kmf_logits_options *o)
{
    uint32_t sum = kmf_crc32(0, o->spans, o->n_spans * sizeof *o->spans);
    return json_pack("{s:s, s:b, s:b, s:I, s:I, s:I}", "mask", kmf_logits_mask_names[o->mask],
                     "exact", o->exact, "probabilities", o->probabilities, "top",
                     (json_int_t)o->top, "position_ranges", (json_int_t)o->n_spans,
                     "positions_checksum", (json_int_t)sum);
}

static int describe(void *user, char **text, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    json_t *json = json_pack("{s:s}", "products", kmf_gemm_name());
    json = kmf_json_with(json, "model", model_json(kmf_logits_model(user), err));
    json = kmf_json_with(json, "settings", settings_json(kmf_logits_used(user)));
    return kmf_json_give(json, text, err);
}

static int mark(void *user, char **text, uint64_t *records, kmf_err *err)
{
    kmf_logits_mark done = kmf_logits_done(user);
    *records = done.records;
    if (done.records == 0)
        return 0;
    int status = kmf_json_give(kmf_records_json(done.records, done.sum), text, err);
    return status < 0 ? status : 1;
}

static int go_on(void *user, const char *text, uint64_t rows, const char *where, kmf_err *err)
{
    kmf_logits_mark earlier = {.rows = rows};
    json_t *json = kmf_json_parse(text, strlen(text), where, err);
    int status =
        json ? kmf_records_read(&earlier.records, &earlier.sum, json, where, err) : KMF_EMODEL;
    json_decref(json);
    if (status == 0)
        kmf_logits_given(user, &earlier);
    return status;
}

kmf_run kmf_logits_run(kmf_logits *logits)
{
    return (kmf_run){
        .kind = "logits", .user = logits, .describe = describe, .mark = mark, .go_on = go_on};
}
