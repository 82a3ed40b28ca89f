/* SPDX-License-Identifier: MIT */
/* kmerformer convert: the same model, or the same k-mer vectors, stored otherwise. */
#include "cli/cli.h"

#include <stdio.h>
#include <sys/stat.h>

static const cli_usage usage = {
    "convert [options] IN OUT",
    "Writes a model again, as a directory, or as one file that holds all of it if OUT ends in\n"
    ".safetensors; with the weights in the precision asked for. What a hub has (shards,\n"
    "pytorch_model.bin) becomes model.safetensors; names, config.json and tokenizer stay its\n"
    "family's. On standard error: bytes, tensors that are left out, and how far a row of\n"
    "weights is from what it was.\n"
    "IN may be a file of k-mer vectors; OUT then is one in the format that its name asks for:\n"
    ".safetensors, .txt or .vec (word2vec's text), .bin (word2vec's binary), the last three\n"
    "also compressed, as .txt.gz.",
    2, 2};

/* Bytes of a file, or of the weights in a directory of ours; 0: they cannot be told. */
static unsigned long long bytes_of(const char *path)
{
    char name[CLI_PATH_CAP];
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return (unsigned long long)st.st_size;
    int n = snprintf(name, sizeof name, "%s/model.safetensors", path);
    return n > 0 && n < CLI_PATH_CAP && stat(name, &st) == 0 ? (unsigned long long)st.st_size
                                                             : 0;
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

/* Tensors whose weights were rounded to float32 when they were read. */
static size_t count_wide(const kmf_model *model)
{
    size_t n = 0;
    for (size_t i = 0; i < kmf_model_n_tensors(model); i++) {
        kmf_tensor_info t;
        kmf_model_tensor(model, i, &t);
        n += t.dtype == KMF_F64;
    }
    return n;
}

static void report(const cli *run, const kmf_model *model, const char *out, int dtype,
                   const kmf_rounding *rounding)
{
    kmf_tensor_info t;
    size_t wide = count_wide(model);
    unsigned long long had = bytes_of(kmf_model_path(model));
    char was[64] = "";
    if (had > 0)
        snprintf(was, sizeof was, "; there were %llu", had);
    cli_note(run, "%s: %llu bytes, weights in %s%s", out, bytes_of(out), kmf_dtype_names[dtype],
             was);
    if (kmf_model_n_unused(model) > 0)
        cli_note(run, "left out: %zu tensors that the encoder has no use for",
                 kmf_model_n_unused(model));
    if (wide > 0)
        cli_note(run, "%zu tensors of F64 became float32 first", wide);
    if (rounding->error == 0) {
        cli_note(run, "no weight has changed%s", wide > 0 ? " since" : "");
        return;
    }
    kmf_model_tensor(model, rounding->tensor, &t);
    cli_note(run, "largest relative error of a row: %.2g, row %zu of %s", rounding->error,
             rounding->row, t.name);
}

/* What it is stored in is not what it is computed in. */
static void tell_of_precision(const cli *run, int dtype)
{
    if (dtype == KMF_BF16 || dtype == KMF_I8)
        cli_note(run, "embed computes in f32 all the same, unless it is given --precision %s",
                 kmf_dtype_names[dtype]);
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
    cli_release_signals(status == 0);
    if (status == 0) {
        report(run, model, out, dtype, &rounding);
        tell_of_precision(run, dtype);
    }
    kmf_text_free(text);
    return status;
}

/* ---------------------------------------------------------------- vectors --------------- */

/* Neither the file nor, beside text and binary, that of the counts. */
static int check_absent(const char *out, int format, kmf_err *err)
{
    char counts[CLI_PATH_CAP];
    bool beside = format == (int)KMF_VECTORS_TEXT || format == (int)KMF_VECTORS_BINARY;
    if (cli_is_file(out))
        return cli_raise(err, KMF_EIO, "%s: exists; nothing is overwritten", out);
    if (beside && snprintf(counts, sizeof counts, "%s.vocab", out) < (int)sizeof counts &&
        cli_is_file(counts))
        return cli_raise(err, KMF_EIO, "%s: exists; nothing is overwritten", counts);
    return 0;
}

/* Text and binary do not say it, and the words alone tell a reader something else. */
static void warn_of_loss(const cli *run, const kmf_vectors *vectors, const char *out)
{
    static const char *const kinds[][2] = {{"of one strand", "canonical"},
                                           {"canonical", "those of one strand"},
                                           {"protein", "DNA"}};
    kmf_vectors_info info;
    kmf_vectors_information(vectors, &info);
    const char *const *kind = kinds[info.alphabet == KMF_PROTEIN ? 2 : info.canonical != 0];
    cli_warn(run, "%s: does not say that its k-mers are %s: whoever reads it takes them for %s",
             out, kind[0], kind[1]);
}

static int convert_vectors(const cli *run, const char *in, const char *out, int dtype,
                           kmf_err *err)
{
    kmf_vectors_info info;
    int format = cli_vectors_format(out);
    if (check_absent(out, format, err) < 0)
        return KMF_EIO;
    kmf_vectors *vectors = kmf_vectors_load(in, err);
    if (!vectors)
        return (int)err->code;
    kmf_vectors_information(vectors, &info);
    cli_hold_signals();
    int status =
        dtype != KMF_F32 ? cli_raise(err, KMF_EINVAL, "%.400s: k-mer vectors are float32", in)
        : format < 0
            ? cli_raise(err, KMF_EINVAL,
                        "%.400s: the k-mer vectors of %.400s are written as .safetensors, "
                        ".txt, .vec or .bin, the last three also with .gz",
                        out, in)
            : kmf_vectors_save(vectors, out, (kmf_vectors_format)format,
                               kmf_vectors_provenance(vectors), err);
    cli_release_signals(status == 0);
    if (status == 0 && info.foreign > 0)
        cli_warn(run, "%s: %zu words that are no k-mers are left out", in, info.foreign);
    if (status == 0 && format != (int)KMF_VECTORS_SAFETENSORS && !kmf_vectors_plain(vectors))
        warn_of_loss(run, vectors, out);
    if (status == 0)
        cli_note(run, "%s: %zu vectors of %zu columns", out, info.n, info.dim);
    kmf_vectors_free(vectors);
    return status;
}

/* Is it a file, and no checkpoint of a model? */
static bool holds_vectors(const char *path)
{
    kmf_err ignored = {0};
    return cli_is_file(path) && kmf_model_is_file(path, &ignored) == 0;
}

int cli_convert(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    int dtype = KMF_F32;
    const cli_option table[] = {
        {NULL, "precision", CLI_CHOICE, &dtype, 0, 0, kmf_dtype_names, NULL,
         "of the stored weights; int8: the encoder's matrices in 8 bits with a scale for each "
         "row, the other matrices in bf16, vectors in f32",
         0, NULL},
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *in = run->inputs[0];
    const char *out = run->inputs[1];
    if (cli_is_an_input(out, &in, 1))
        return cli_wrong(run, "%s: that is the input", out);
    if (holds_vectors(in)) {
        int status = convert_vectors(run, in, out, dtype, &err);
        return status == 0 ? CLI_DONE : cli_fail(run, &err);
    }
    /* what is wrong with IN comes first: OUT may be a good name for what it was meant to be */
    kmf_model *model = kmf_model_load(in, &err);
    leave = model ? cli_refuse_model(run, out, true) : -1;
    if (leave >= 0) {
        kmf_model_free(model);
        return leave;
    }
    int status = model ? convert(run, model, out, dtype, &err) : -1;
    if (err.code == KMF_ENUMERIC)
        cli_name_file(in, &err);
    kmf_model_free(model);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
