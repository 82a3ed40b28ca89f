/* SPDX-License-Identifier: MIT */
/* Outputs, which appear under their final name only when they are complete and on disk. */
#ifndef KMF_OUT_H
#define KMF_OUT_H

#include "kmerformer.h"

#include <stdarg.h>
#include <stdbool.h>

struct hts_tpool;

/* As kmf_out_open, but never compressed, whatever the name: for files that are mapped. */
kmf_out *kmf_out_open_plain(const char *path, kmf_err *err) KMF_MUST_CHECK;
/*
 * What follows is compressed, if it is, on this pool of so many threads, borrowed until the output
 * is finished or freed, and with caller_too, for a caller who has nothing better to do, on its own
 * where it would wait. To be called once.
 */
void kmf_out_share(kmf_out *out, struct hts_tpool *pool, int threads, bool caller_too);
/* If it is compressed, as kmf_gzip_quickly does it; before anything is written. */
void kmf_out_quickly(kmf_out *out);
/* The name under which it is written, for whoever writes it by name. It is a regular file's. */
const char *kmf_out_temporary(const kmf_out *out);
/*
 * Of a regular file that is not compressed, bytes that lie further on in it than all that has been
 * written: kmf_out_pass says when it is their turn. From any thread, beside other calls of this and
 * those of write and pass.
 */
int kmf_out_put(kmf_out *out, uint64_t at, const void *data, size_t n,
                kmf_err *err) KMF_MUST_CHECK;
/* The n bytes that come next have been put. */
int kmf_out_pass(kmf_out *out, size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Writes n bytes over the first n of a file that has a temporary name and is not compressed. */
int kmf_out_patch(kmf_out *out, const void *data, size_t n, kmf_err *err) KMF_MUST_CHECK;
/*
 * An output whose file can outlive the process: a regular one that is not compressed. kmf_out_keep
 * brings to the disk all that was written or passed, under kmf_out_temporary, where it stays from
 * then on, whatever becomes of the process, unless it is given up by kmf_out_give_up, or published
 * and then freed: until then it has two names, where a file can. It is locked until it is freed.
 * May be called again.
 */
bool kmf_out_is_keepable(const kmf_out *out);
int kmf_out_keep(kmf_out *out, kmf_err *err) KMF_MUST_CHECK;
bool kmf_out_is_kept(const kmf_out *out);
/* It goes as if it had never been kept. */
void kmf_out_unkeep(kmf_out *out);
/*
 * The output at path of which `temporary` was kept, locked; nothing of it changes before
 * kmf_out_cut. KMF_EIO: it is not there, or another process has it.
 */
kmf_out *kmf_out_reopen(const char *path, const char *temporary, kmf_err *err) KMF_MUST_CHECK;
/* Has it n bytes? KMF_EIO: fewer. */
int kmf_out_check_bytes(const kmf_out *out, uint64_t n, kmf_err *err) KMF_MUST_CHECK;
/*
 * It is as it was after n bytes, which it has; the final name, where it has that too, as its
 * process ended before it freed it, is taken from it.
 */
int kmf_out_cut(kmf_out *out, uint64_t n, kmf_err *err) KMF_MUST_CHECK;
/* Frees it as kmf_out_free does, and the file goes, kept or not. */
void kmf_out_give_up(kmf_out *out);
/* kmf_out_print. */
int kmf_out_vprint(kmf_out *out, kmf_err *err, const char *format, va_list args)
    KMF_PRINTF(3, 0) KMF_MUST_CHECK;
/* Bytes written or passed, of a plain file. */
uint64_t kmf_out_bytes(const kmf_out *out);
/*
 * kmf_out_publish in two steps: the file gets its name, which lasts once its folder is synced.
 * For one among many in a folder.
 */
int kmf_out_name(kmf_out *out, kmf_err *err) KMF_MUST_CHECK;
/* Publishes files in this order: all of them, or none if one does not get its name. */
int kmf_out_publish_all(kmf_out *const *files, size_t n, kmf_err *err) KMF_MUST_CHECK;
/*
 * To be called around names that are given one by one: they call what kmf_around_publishing was
 * told. Calls may nest.
 */
void kmf_publishing_begins(void);
void kmf_publishing_ends(void);
/*
 * The file that it replaced gets its name back, or where that fails stays under a temporary one.
 * false: it was not published, or no replaced file was kept.
 */
bool kmf_out_give_back(kmf_out *out);
/* The same; where there was none, the published file is removed. A kept one stays kept. */
void kmf_out_withdraw(kmf_out *out);

/* Makes the names in a folder last, where the file system can do so. */
int kmf_folder_sync(const char *folder, kmf_err *err) KMF_MUST_CHECK;
/* The same for the folder that path is in. */
int kmf_parent_sync(const char *path, kmf_err *err) KMF_MUST_CHECK;

#endif
