/* SPDX-License-Identifier: MIT */
#include "seq/text.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/bytes.h"

#include <string.h>

int kmf_text_reserve(kmf_text *text, size_t n, kmf_err *err)
{
    size_t need;
    if (text->cap - text->len > n)
        return 0;
    if (!kmf_add(text->len, n, &need) || !kmf_add(need, 1, &need))
        return kmf_fail(err, KMF_ENOMEM, "out of memory: a record does not fit");
    return kmf_grow(&text->bytes, &text->cap, need, 1, err);
}

int kmf_text_append(kmf_text *text, const char *bytes, size_t n, kmf_err *err)
{
    int status = kmf_text_reserve(text, n, err);
    if (status < 0)
        return status;
    if (n > 0)
        memcpy(text->bytes + text->len, bytes, n);
    text->len += n;
    text->bytes[text->len] = '\0';
    return 0;
}

int kmf_text_load(kmf_text *text, const char *path, size_t most, kmf_err *err)
{
    const char *shown = kmf_input_name(path);
    kmf_err reason = {0};
    const char *block;
    size_t n;
    kmf_bytes *in = kmf_bytes_open_path(path, err);
    if (!in)
        return KMF_EIO;
    int status = kmf_text_append(text, "", 0, err);
    while (status == 0 && (status = kmf_bytes_next(in, &block, &n, &reason)) > 0) {
        status = kmf_text_append(text, block, n, err);
        if (status == 0 && text->len > most)
            status = kmf_fail(err, KMF_EMODEL, "%s: more than %zu bytes", shown, most);
    }
    kmf_bytes_close(in);
    return reason.code ? kmf_fail(err, reason.code, "%s: %s", shown, reason.msg) : status;
}
