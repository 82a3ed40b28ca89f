/* SPDX-License-Identifier: MIT */
/* Failures that commands find themselves, and files and records in the messages of others. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
