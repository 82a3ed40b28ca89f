/* SPDX-License-Identifier: MIT */
#include "base/err.h"

#include "base/point.h"

#include <stdarg.h>
#include <string.h>

void kmf_show_plainly(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < ' ' || *p == 127)
            *p = '?';
        else if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0)
            p[0] = p[1] = '?';
}

int kmf_fail(kmf_err *err, kmf_code code, const char *format, ...)
{
    if (err && err->code == KMF_OK) {
        va_list args;
        va_start(args, format);
        err->code = code;
        kmf_vprint(err->msg, sizeof err->msg, format, args);
        va_end(args);
        kmf_show_plainly(err->msg);
    }
    return (int)code;
}

int kmf_told(int answer, const char *what, kmf_err *err)
{
    if (answer < KMF_ESTOPPED) /* the last of them */
        return kmf_fail(err, KMF_EINVAL, "%s: %d, which is no kmf_code", what, answer);
    return answer < 0 ? kmf_fail(err, (kmf_code)answer, "%s", what) : answer;
}

int kmf_answered(int answer, kmf_err *err)
{
    if (answer > 0)
        return kmf_fail(err, KMF_EINVAL, "a row was answered by %d, which is no kmf_code",
                        answer);
    return kmf_told(answer, "a row was refused", err);
}

void kmf_err_prefix(kmf_err *err, const char *prefix)
{
    if (!err || err->code == KMF_OK)
        return;
    size_t n = strlen(prefix);
    size_t room = sizeof err->msg - 1;
    if (n + 2 > room)
        return;
    size_t keep = strlen(err->msg);
    if (keep > room - n - 2)
        keep = room - n - 2;
    memmove(err->msg + n + 2, err->msg, keep);
    memcpy(err->msg, prefix, n);
    memcpy(err->msg + n, ": ", 2);
    err->msg[n + 2 + keep] = '\0';
    kmf_show_plainly(err->msg);
}

char kmf_err_letter(char c)
{
    return c >= ' ' && c <= '~' ? c : '?';
}

const char *kmf_err_show_n(char buf[KMF_ERR_SHOW], const char *s, size_t len)
{
    size_t n = 0;
    for (; n < len && s[n] && n + 4 < KMF_ERR_SHOW; n++)
        buf[n] = kmf_err_letter(s[n]);
    strcpy(buf + n, n < len && s[n] ? "..." : "");
    return buf;
}

const char *kmf_err_show(char buf[KMF_ERR_SHOW], const char *s)
{
    return kmf_err_show_n(buf, s, SIZE_MAX);
}
