/* SPDX-License-Identifier: MIT */
/* kmerformer convert: the same model with its weights stored otherwise. */
#include "cli/cli.h"

#include <stdio.h>
#include <sys/stat.h>

#define PATH_CAP 4096

static const cli_usage usage = {
    "convert [options] MODEL DIR",
    "Writes a model directory with another model's weights in the precision asked for; the "
    "rest of\n"
    "it is kept. On standard error: bytes, and how far a row of weights is from what it was.",
    2, 2};

/* Bytes of a model's weights in its file; 0: they cannot be told. */
static unsigned long long bytes_of(const char *dir)
{
    char path[PATH_CAP];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/model.safetensors", dir);
    return n > 0 && n < PATH_CAP && stat(path, &st) == 0 ? (unsigned long long)st.st_size : 0;
}

/* The model's provenance, with this conversion at the end of its list "converted". */
static char *provenance(const cli *run, const kmf_model *model, int dtype, kmf_err *err)
{
    const char *pairs[] = {"precision", kmf_dtype_names[dtype], "command", run->command_line,
                           "version",   kmf_version()};
    char *text = NULL;
    char *step = kmf_json_pairs(pairs, sizeof pairs / sizeof pairs[0] / 2, err);
    if (step)
        text = kmf_json_append(kmf_model_provenance(model), "converted", step, err);
    kmf_text_free(step);
    return text;
}

static void report(const cli *run, const kmf_model *model, const char *out, int dtype,
                   const kmf_rounding *rounding)
{
    kmf_tensor_info t;
    cli_note(run, "%s: %llu bytes of weights in %s; %s has %llu", out, bytes_of(out),
             kmf_dtype_names[dtype], kmf_model_path(model), bytes_of(kmf_model_path(model)));
    if (rounding->error == 0) {
        cli_note(run, "no weight has changed");
        return;
    }
    kmf_model_tensor(model, rounding->tensor, &t);
    cli_note(run, "largest relative error of a row: %.2g, row %zu of %s", rounding->error,
             rounding->row, t.name);
}

static int convert(const cli *run, const kmf_model *model, const char *out, int dtype,
                   kmf_err *err)
{
    kmf_rounding rounding;
    char *text = provenance(run, model, dtype, err);
    int status = text ? kmf_model_rounding(model, (kmf_dtype)dtype, &rounding, err) : -1;
    cli_hold_signals();
    if (status == 0)
        status = kmf_model_save(model, out, (kmf_dtype)dtype, text, err);
    cli_release_signals();
    if (status == 0)
        report(run, model, out, dtype, &rounding);
    kmf_text_free(text);
    return status;
}

int cli_convert(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    int dtype = KMF_F32;
    int first;
    const cli_option table[] = {
        {NULL, "precision", CLI_CHOICE, &dtype, 0, 0, kmf_dtype_names, NULL,
         "of the stored weights; int8: the encoder's matrices in 8 bits with a scale for each "
         "row, the other matrices in bf16, vectors in f32",
         0, NULL},
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv, &first);
    if (leave >= 0)
        return leave;
    kmf_model *model = kmf_model_load(argv[first], &err);
    int status = model ? convert(run, model, argv[first + 1], dtype, &err) : -1;
    kmf_model_free(model);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
