/* SPDX-License-Identifier: MIT */
/*
 * Outputs that are either whole or not there.
 *
 *   open      path.tmp.NUMBER   a crash leaves a name that nobody mistakes for a result
 *   write     stdio, 1 MB       the first failure is remembered by the stream and reported
 *             (through base/gzip.h for names in .gz)
 *             A large file is sent to disk in windows of 16 MB while it is written, so that
 *             fsync finds little to do, and those that are there leave the system's cache:
 *             memory that is new to the cache can cost more than the writing
 *   finish    fflush fsync fclose, each checked: a full disk often shows only here. One that is
 *             kept is closed when it is freed, as its lock goes with that
 *   publish   rename            atomic on one file system
 *             fsync of the folder, so that the name is there after a power cut as well: what the
 *             result replaces, a checkpoint for one, may be removed then. Several files get their
 *             names while the folder is locked
 *
 * One that is kept (kmf_out_keep) stays under its temporary name when the process ends, so that
 * another one goes on with it.
 *
 * What is not a regular file (a pipe, /dev/null, /dev/full) is written directly, since renaming
 * would replace the device. /dev/stdout and the like are what is open already, as for a shell:
 * opened by name, a file would lose what it holds, and a socket could not be.
 */
#define _GNU_SOURCE /* sync_file_range */
#include "base/out.h"

#include "base/err.h"
#include "base/gzip.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/point.h"
#include "base/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PRINT_ROOM 1024 /* longer texts are allocated */
#define OUT_BUFFER ((size_t)1 << 20)
#define WINDOW ((uint64_t)16 << 20)

struct kmf_out {
    FILE *file;         /* owned unless it is stdout; NULL once finished */
    kmf_gzip *gz;       /* owned; NULL if plain or finished */
    char *path;         /* owned; final name */
    kmf_temporary temp; /* owned; none if written in place; once published, what it replaced */
    bool ended;         /* kmf_out_finish was called */
    bool whole;         /* and all is in the file */
    bool published;
    int reason;         /* errno of a flush that failed; 0: none did */
    char *kept;         /* owned; the name under which it stays, come what may; NULL: it goes */
    char *buffer;       /* owned; stdio's, when the file is ours */
    uint64_t n_written; /* bytes, of a plain file */
    uint64_t n_on_disk; /* of them, those whose windows have been sent to disk */
    uint64_t n_ahead;   /* and those put, by which the stream is behind */
    atomic_bool put;    /* some were, maybe of what was never passed */
};

/* A file that is there and takes no writing is not replaced. */
static int check_replaceable(const char *path, kmf_err *err)
{
    if (access(path, F_OK) != 0 || access(path, W_OK) == 0)
        return 0;
    return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
}

/* What takes the place of a file has its permissions; whose disk has none keeps the usual ones. */
static void take_mode(FILE *file, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)fchmod(fileno(file), st.st_mode & 0777);
}

/* A file of its own, with stdio's room. */
static bool take_buffer(kmf_out *out, kmf_err *err)
{
    out->buffer = kmf_malloc(OUT_BUFFER, 1, err);
    return out->buffer != NULL;
}

/* What is written in place; NULL: errno says why not. */
static FILE *open_special(const char *path)
{
    int there = kmf_path_descriptor(path);
    if (there < 0)
        return fopen(path, "wbe");
    int flags = fcntl(there, F_GETFL);
    if (flags < 0)
        return NULL;
    if ((flags & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return NULL;
    }
    int fd = fcntl(there, F_DUPFD_CLOEXEC, 0);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

static kmf_out *open_out(const char *path, bool packed, kmf_err *err)
{
    if (path[0] == '\0') {
        kmf_fail(err, KMF_EINVAL, "the output has an empty name");
        return NULL;
    }
    kmf_out *out = kmf_calloc(1, sizeof *out, err);
    if (!out)
        return NULL;
    bool is_stdout = strcmp(path, "-") == 0;
    out->path = is_stdout ? kmf_strdup("standard output", err) : kmf_real_name(path, err);
    if (!out->path)
        goto fail;
    if (is_stdout) {
        static char buffer[OUT_BUFFER]; /* for as long as there is a standard output */
        out->file = stdout;
        setvbuf(stdout, buffer, _IOFBF, OUT_BUFFER);
        return out;
    }
    path = out->path;
    if (!take_buffer(out, err))
        goto fail;
    if (!kmf_path_is_special(path)) {
        if (check_replaceable(path, err) < 0)
            goto fail;
        out->file = kmf_temporary_file(&out->temp, path, err);
        if (!out->file)
            goto fail;
        take_mode(out->file, path);
    } else {
        out->file = open_special(path);
        if (!out->file) {
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
            goto fail;
        }
    }
    setvbuf(out->file, out->buffer, _IOFBF, OUT_BUFFER);
    if (packed) {
        out->gz = kmf_gzip_new(out->file, err);
        if (!out->gz)
            goto fail;
    }
    return out;
fail:
    kmf_out_free(out);
    return NULL;
}

/* A link may name a file of another ending. */
kmf_out *kmf_out_open(const char *path, kmf_err *err)
{
    return open_out(path, kmf_ends_with(path, ".gz"), err);
}

kmf_out *kmf_out_open_plain(const char *path, kmf_err *err)
{
    return open_out(path, false, err);
}

void kmf_out_share(kmf_out *out, struct hts_tpool *pool, int threads, bool caller_too)
{
    if (out->gz)
        kmf_gzip_share(out->gz, pool, threads, caller_too);
}

void kmf_out_quickly(kmf_out *out)
{
    if (out->gz)
        kmf_gzip_quickly(out->gz);
}

const char *kmf_out_temporary(const kmf_out *out)
{
    return out->temp.path;
}

static int write_failed(const kmf_out *out, kmf_err *err)
{
    return kmf_fail(err, KMF_EIO, "%s: %s", out->path,
                    strerror(errno         ? errno
                             : out->reason ? out->reason
                                           : EIO));
}

/*
 * Waits for the window before the last one and begins with the last. Whether it works or not, fsync
 * will tell what fails.
 */
static void send_windows(kmf_out *out)
{
#ifdef SYNC_FILE_RANGE_WRITE
    int fd = fileno(out->file);
    while (out->n_written - out->n_on_disk >= 2 * WINDOW + OUT_BUFFER) {
        off_t at = (off_t)out->n_on_disk;
        (void)sync_file_range(fd, at, (off_t)WINDOW,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                  SYNC_FILE_RANGE_WAIT_AFTER);
        (void)posix_fadvise(fd, at, (off_t)WINDOW, POSIX_FADV_DONTNEED);
        (void)sync_file_range(fd, at + (off_t)WINDOW, (off_t)WINDOW, SYNC_FILE_RANGE_WRITE);
        out->n_on_disk += WINDOW;
    }
#else
    (void)out;
#endif
}

static int check_open(const kmf_out *out, kmf_err *err)
{
    if (!out->ended)
        return 0;
    return kmf_fail(err, KMF_EINVAL, "%s: its output is finished already", out->path);
}

/* Moves the stream behind what was put. */
static int catch_up(kmf_out *out, kmf_err *err)
{
    if (out->n_ahead == 0)
        return 0;
    if (fseeko(out->file, (off_t)out->n_ahead, SEEK_CUR) != 0)
        return write_failed(out, err);
    out->n_ahead = 0;
    return 0;
}

int kmf_out_write(kmf_out *out, const void *data, size_t n, kmf_err *err)
{
    int status = check_open(out, err);
    errno = 0;
    if (status == 0 && n > 0)
        status = catch_up(out, err);
    if (status < 0 || n == 0)
        return status;
    /* a flush that failed before has dropped what it did not write */
    bool done = out->gz ? kmf_gzip_write(out->gz, data, n) == 0
                        : !ferror(out->file) && fwrite(data, 1, n, out->file) == n;
    if (!done)
        return write_failed(out, err);
    if (out->temp.path && !out->gz) {
        out->n_written += n;
        send_windows(out);
    }
    return 0;
}

int kmf_out_put(kmf_out *out, uint64_t at, const void *data, size_t n, kmf_err *err)
{
    int status = check_open(out, err);
    if (status < 0)
        return status;
    atomic_store_explicit(&out->put, true, memory_order_relaxed);
    return kmf_write_at(fileno(out->file), data, n, at) ? 0 : write_failed(out, err);
}

int kmf_out_pass(kmf_out *out, size_t n, kmf_err *err)
{
    int status = check_open(out, err);
    if (status < 0)
        return status;
    out->n_ahead += n;
    out->n_written += n;
    send_windows(out);
    return 0;
}

int kmf_out_vprint(kmf_out *out, kmf_err *err, const char *format, va_list args)
{
    char text[PRINT_ROOM];
    char *longer = NULL;
    va_list again;
    errno = 0;
    va_copy(again, args);
    int n = kmf_vprint(text, sizeof text, format, args);
    int status = n < 0 ? write_failed(out, err) : 0;
    if (n >= (int)sizeof text) {
        longer = kmf_malloc((size_t)n + 1, 1, err);
        if (longer)
            kmf_vprint(longer, (size_t)n + 1, format, again);
        else
            status = KMF_ENOMEM;
    }
    va_end(again);
    if (status == 0)
        status = kmf_out_write(out, longer ? longer : text, (size_t)n, err);
    kmf_free(longer);
    return status;
}

int kmf_out_print(kmf_out *out, kmf_err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int status = kmf_out_vprint(out, err, format, args);
    va_end(args);
    return status;
}

int kmf_out_patch(kmf_out *out, const void *data, size_t n, kmf_err *err)
{
    if (check_open(out, err) < 0)
        return KMF_EINVAL;
    errno = 0;
    if (fseek(out->file, 0, SEEK_SET) != 0 || fwrite(data, 1, n, out->file) != n ||
        fseeko(out->file, (off_t)out->n_written, SEEK_SET) != 0)
        return write_failed(out, err);
    out->n_ahead = 0;
    return 0;
}

/* ---------------------------------------------------------------- kept files ------------ */

/* Held by another process? *who: by which. Where there are no locks, by none. */
static bool is_locked(int fd, long *who)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN))
        return false;
    *who = fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK ? (long)whole.l_pid : 0;
    return true;
}

bool kmf_out_is_keepable(const kmf_out *out)
{
    return out->temp.path && !out->gz;
}

static int be_kept(kmf_out *out, kmf_err *err)
{
    if (!out->kept)
        out->kept = kmf_strdup(out->temp.path, err);
    if (!out->kept)
        return KMF_ENOMEM;
    kmf_temporary_keep(&out->temp);
    return 0;
}

int kmf_out_keep(kmf_out *out, kmf_err *err)
{
    long who;
    int status = check_open(out, err);
    if (status == 0)
        status = catch_up(out, err);
    if (status < 0)
        return status;
    errno = 0;
    if (fflush(out->file) != 0 || ferror(out->file) || fsync(fileno(out->file)) != 0) {
        out->reason = errno ? errno : out->reason;
        return write_failed(out, err);
    }
    if (!out->kept)
        (void)is_locked(fileno(out->file), &who);
    return be_kept(out, err);
}

bool kmf_out_is_kept(const kmf_out *out)
{
    return out->kept != NULL;
}

void kmf_out_unkeep(kmf_out *out)
{
    kmf_temporary_unkeep(&out->temp);
    kmf_free(out->kept);
    out->kept = NULL;
}

static int take_kept(kmf_out *out, kmf_err *err)
{
    long who;
    /* for writing alone: stdio would read what lies before each place that it is sent to */
    int fd = open(out->kept, O_WRONLY | O_CLOEXEC);
    out->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!out->file) {
        int status = kmf_fail(err, KMF_EIO, "%s: %s", out->kept, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    setvbuf(out->file, out->buffer, _IOFBF, OUT_BUFFER);
    if (is_locked(fd, &who))
        return kmf_fail(err, KMF_EIO, "%s: another run is at work there: process %ld",
                        out->path, who);
    return 0;
}

kmf_out *kmf_out_reopen(const char *path, const char *temporary, kmf_err *err)
{
    kmf_out *out = kmf_calloc(1, sizeof *out, err);
    if (!out)
        return NULL;
    out->path = kmf_real_name(path, err);
    if (out->path && check_replaceable(out->path, err) == 0 && take_buffer(out, err) &&
        kmf_temporary_kept(&out->temp, temporary, err) && be_kept(out, err) == 0 &&
        take_kept(out, err) == 0)
        return out;
    kmf_temporary_leave(&out->temp);
    kmf_out_free(out);
    return NULL;
}

int kmf_out_check_bytes(const kmf_out *out, uint64_t n, kmf_err *err)
{
    struct stat st;
    if (fstat(fileno(out->file), &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= n)
        return 0;
    return kmf_fail(err, KMF_EIO, "%s: it has fewer than %llu bytes", out->kept,
                    (unsigned long long)n);
}

int kmf_out_cut(kmf_out *out, uint64_t n, kmf_err *err)
{
    if ((kmf_path_same(out->kept, out->path) && unlink(out->path) != 0) ||
        ftruncate(fileno(out->file), (off_t)n) != 0 ||
        fseeko(out->file, (off_t)n, SEEK_SET) != 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", out->kept, strerror(errno));
    out->n_written = out->n_on_disk = n;
    return 0;
}

void kmf_out_give_up(kmf_out *out)
{
    if (out)
        kmf_out_unkeep(out);
    kmf_out_free(out);
}

uint64_t kmf_out_bytes(const kmf_out *out)
{
    return out->n_written;
}

/* ---------------------------------------------------------------- the end --------------- */

static int flush_and_close(kmf_out *out, kmf_err *err)
{
    errno = 0;
    if (out->gz) {
        int status = kmf_gzip_finish(out->gz);
        int reason = errno;
        kmf_gzip_free(out->gz);
        out->gz = NULL;
        errno = reason;
        if (status < 0)
            return write_failed(out, err);
    }
    if (fflush(out->file) != 0 || ferror(out->file))
        return write_failed(out, err);
    if (out->put && ftruncate(fileno(out->file), (off_t)out->n_written) != 0)
        return write_failed(out, err);
    if (out->temp.path && fsync(fileno(out->file)) != 0)
        return write_failed(out, err);
    if (out->kept)
        return 0;
    FILE *file = out->file;
    out->file = NULL;
    if (file != stdout && fclose(file) != 0)
        return write_failed(out, err);
    return 0;
}

int kmf_out_finish(kmf_out *out, kmf_err *err)
{
    int status = check_open(out, err);
    if (status < 0)
        return status;
    out->ended = true;
    status = flush_and_close(out, err);
    out->whole = status == 0;
    return status;
}

/* Some file systems cannot sync a folder, and some folders cannot be read; each says so. */
static bool cannot_sync(int error)
{
    return error == EINVAL || error == EBADF || error == ENOTSUP || error == ENOSYS ||
           error == EROFS || error == EACCES || error == EPERM;
}

int kmf_folder_sync(const char *folder, kmf_err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (reason == 0 || cannot_sync(reason))
        return 0;
    return kmf_fail(err, KMF_EIO, "%s: %s", folder, strerror(reason));
}

/* Bytes of the name of the folder that path is in; 0: it is the current one. */
static size_t parent_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);
}

/* The folder that path is in. */
static int parent_of(char folder[PATH_MAX], const char *path, kmf_err *err)
{
    size_t n = parent_length(path);
    if (n >= PATH_MAX)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(ENAMETOOLONG));
    memcpy(folder, n > 0 ? path : ".", n > 0 ? n : 1);
    folder[n > 0 ? n : 1] = '\0';
    return 0;
}

int kmf_parent_sync(const char *path, kmf_err *err)
{
    char folder[PATH_MAX];
    int status = parent_of(folder, path, err);
    return status < 0 ? status : kmf_folder_sync(folder, err);
}

#define LOCK_TRIES 100
static const struct timespec lock_pause = {.tv_nsec = 10000000};

/*
 * Of two runs that publish files of the same names one is to come behind the other, or some of each
 * may be left. Whoever holds the lock longer than names are given in is no such run, such as
 * flock(1) that runs this one, and is not waited for. The lock is free once what is returned is
 * closed; -1: there is none, as on file systems that lock no folders.
 */
static int lock_parent(const char *path)
{
    char folder[PATH_MAX];
    int fd = parent_of(folder, path, NULL) < 0
                 ? -1
                 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            break;
        nanosleep(&lock_pause, NULL);
    }
    return fd;
}

int kmf_out_name(kmf_out *out, kmf_err *err)
{
    if (!out->whole)
        return kmf_fail(err, KMF_EINVAL, "%s: its output is not finished", out->path);
    if (!out->temp.path || out->published)
        return 0;
    kmf_temporary second;
    bool stays = out->kept && kmf_temporary_link(&second, out->kept);
    int status = kmf_temporary_exchange(stays ? &second : &out->temp, out->path, err);
    out->published = status == 0;
    if (stays && out->published) {
        kmf_temporary_leave(&out->temp);
        out->temp = second;
    } else if (stays) {
        kmf_temporary_remove(&second);
    }
    return status;
}

static bool same_folder(const char *a, const char *b)
{
    size_t n = parent_length(a);
    return parent_length(b) == n && memcmp(a, b, n) == 0;
}

static void do_nothing(void)
{
}

static struct {
    void (*begin)(void), (*end)(void);
} around = {do_nothing, do_nothing};

void kmf_around_publishing(void (*begin)(void), void (*end)(void))
{
    around.begin = begin ? begin : do_nothing;
    around.end = end ? end : do_nothing;
}

/* The last first: whoever waits for it has waited for the others. */
static void withdraw_all(kmf_out *const *files, size_t n)
{
    while (n > 0)
        kmf_out_withdraw(files[--n]);
}

static int publish_all(kmf_out *const *files, size_t n, kmf_err *err)
{
    const char *synced = NULL;
    for (size_t i = 0; i < n; i++) {
        int status = kmf_out_name(files[i], err);
        if (status < 0) {
            withdraw_all(files, i);
            return status;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const char *path = files[i]->path;
        if (!files[i]->published || (synced && same_folder(path, synced)))
            continue;
        int status = kmf_parent_sync(path, err);
        if (status < 0) {
            withdraw_all(files, n);
            return status;
        }
        synced = path;
    }
    for (size_t i = 0; i < n; i++)
        kmf_temporary_remove(&files[i]->temp);
    return 0;
}

void kmf_publishing_begins(void)
{
    around.begin();
}

void kmf_publishing_ends(void)
{
    around.end();
}

int kmf_out_publish_all(kmf_out *const *files, size_t n, kmf_err *err)
{
    int lock = n > 1 ? lock_parent(files[0]->path) : -1;
    kmf_publishing_begins();
    int status = publish_all(files, n, err);
    kmf_publishing_ends();
    if (lock >= 0)
        close(lock);
    return status;
}

int kmf_out_publish(kmf_out *out, kmf_err *err)
{
    return kmf_out_publish_all(&out, 1, err);
}

int kmf_out_end(kmf_out *out, int status, kmf_err *err)
{
    if (out && status == 0)
        status = kmf_out_finish(out, err);
    if (out && status == 0)
        status = kmf_out_publish(out, err);
    kmf_out_free(out);
    return status;
}

int kmf_file_save(const char *path, const void *bytes, size_t n, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_out *out = kmf_out_open(path, err);
    return kmf_out_end(out, out ? kmf_out_write(out, bytes, n, err) : (int)err->code, err);
}

bool kmf_out_give_back(kmf_out *out)
{
    if (!out->published || !out->temp.path)
        return false;
    /* if it cannot be, the older file is better found under the temporary name than lost */
    if (!kmf_temporary_rename(&out->temp, out->path))
        kmf_temporary_leave(&out->temp);
    out->published = false;
    return true;
}

void kmf_out_withdraw(kmf_out *out)
{
    /* where a file has one name alone, a kept one has it back */
    bool back = out->published && out->kept && access(out->kept, F_OK) != 0 &&
                rename(out->path, out->kept) == 0;
    if (!kmf_out_give_back(out) && out->published && !back)
        unlink(out->path);
    out->published = false;
}

void kmf_out_free(kmf_out *out)
{
    if (!out)
        return;
    kmf_gzip_free(out->gz);
    if (out->file && out->file != stdout)
        fclose(out->file);
    if (out->kept && out->published)
        unlink(out->kept);
    else if (out->kept)
        kmf_temporary_leave(&out->temp);
    kmf_temporary_remove(&out->temp);
    kmf_free(out->kept);
    kmf_free(out->path);
    kmf_free(out->buffer);
    kmf_free(out);
}
