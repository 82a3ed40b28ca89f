/* SPDX-License-Identifier: MIT */
/* What the tests of the files of tables share: saving and parsing. */
#ifndef KMF_TEST_TABLEFILES_H
#define KMF_TEST_TABLEFILES_H

#include "words/countfile.h"
#include "base/le.h"
#include "base/mem.h"
#include "checked.h"
#include "run.h"
#include "tables.h"
#include "texts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <zlib.h>

/* What kmf_counts_save writes; the file is gone again. */
static inline text saved(const kmf_counts *counts, kmf_counts_format format, int full,
                         kmf_pool *pool)
{
    kmf_err err = {0};
    const char *path = in_dir("saved");
    int status = kmf_counts_save(counts, path, format, full, pool, NULL, &err);
    ck_assert_msg(status == 0, "%s", err.msg);
    text t = read_file(path);
    ck_assert_int_eq(unlink(path), 0);
    return t;
}

static inline kmf_counts *parsed(const text *t)
{
    kmf_err err = {0};
    kmf_counts *counts = kmf_counts_parse(t->bytes, t->len, "x", &err);
    ck_assert_msg(counts != NULL, "%s", err.msg);
    return counts;
}

#endif
