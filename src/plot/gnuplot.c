/* SPDX-License-Identifier: MIT */
/*
 * gnuplot as a process of its own. The script lies in an unnamed file that is its standard input,
 * the picture comes back through a pipe, and what it complains of goes to a second unnamed file:
 * neither side waits for the other, no shell is asked, and the picture is saved as all outputs
 * are, so that a full disk is noticed here. -d keeps the user's own settings out.
 */
#include "base/err.h"
#include "base/mem.h"
#include "seq/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_FOUND "gnuplot was not found (Debian: gnuplot-nox)"
#define THE_END "kmerformer: the script has ended"
#define ABOVE_STANDARD 3 /* descriptors from here on are no standard ones */

enum { KILLED = -1, UNKNOWN = -2 };

extern char **environ;

/* The child's ends. SIGPIPE, which a program of ours may ignore, ends it as it should. */
static int start(pid_t *child, const int descriptors[3])
{
    char name[] = "gnuplot";
    char settings[] = "-d";
    char *const args[] = {name, settings, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t ends;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (failed) {
        posix_spawn_file_actions_destroy(&actions);
        return failed;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGPIPE);
    failed = posix_spawnattr_setsigdefault(&attributes, &ends);
    if (!failed)
        failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    for (int i = 0; i < 3 && !failed; i++)
        failed = posix_spawn_file_actions_adddup2(&actions, descriptors[i], i);
    if (!failed)
        failed = posix_spawnp(child, name, &actions, &attributes, args, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Adds all that comes. Reads on after a failure, so that the child can end. */
static int collect(int from, kmf_text *to, kmf_err *err)
{
    char piece[1 << 16];
    ssize_t got;
    int status = 0;
    while ((got = read(from, piece, sizeof piece)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0 && status == 0)
            status = kmf_text_append(to, piece, (size_t)got, err);
    return status;
}

/*
 * Its exit status, KILLED by a signal, or UNKNOWN: nobody is told in a program that ignores
 * SIGCHLD, or waits for all children as they end.
 */
static int wait_for(pid_t child)
{
    int status = 0;
    pid_t got;
    while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    return got < 0 ? UNKNOWN : WIFEXITED(status) ? WEXITSTATUS(status) : KILLED;
}

/* Then a line among its complaints tells, which is printed behind a script without a mistake. */
static bool came_to_the_end(FILE *complaints)
{
    char line[512];
    bool ended = false;
    rewind(complaints);
    while (fgets(line, sizeof line, complaints))
        ended |= strcmp(line, THE_END "\n") == 0;
    return ended;
}

/* The last line that is not empty says what was wrong, with the place before a colon. */
static int failed_with(FILE *complaints, kmf_err *err)
{
    char line[512];
    char shown[KMF_ERR_SHOW];
    char last[512] = "it gave no reason";
    rewind(complaints);
    while (fgets(line, sizeof line, complaints)) {
        char *text = line + strspn(line, " \t\n");
        text[strcspn(text, "\n")] = '\0';
        if (strncmp(text, "line 0: ", 8) == 0)
            text += 8;
        if (*text && strcmp(text, THE_END) != 0)
            memmove(last, text, strlen(text) + 1);
    }
    char *text = last + strspn(last, " ");
    return kmf_fail(err, KMF_EIO, "gnuplot failed: %s", kmf_err_show(shown, text));
}

static FILE *unnamed(kmf_err *err)
{
    FILE *file = tmpfile();
    if (!file)
        kmf_fail(err, KMF_EIO, "a temporary file for gnuplot: %s", strerror(errno));
    else
        fcntl(fileno(file), F_SETFD, FD_CLOEXEC);
    return file;
}

/*
 * The child's ends become its standard ones one after another, and none may take the place of one
 * that is still to come: in a program that has closed its own, a new file is given their numbers.
 */
static int start_apart(pid_t *child, const int descriptors[3])
{
    int apart[3] = {descriptors[0], descriptors[1], descriptors[2]};
    int failed = 0;
    for (int i = 0; i < 3 && !failed; i++)
        if (apart[i] < ABOVE_STANDARD) {
            apart[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, ABOVE_STANDARD);
            failed = apart[i] < 0 ? errno : 0;
        }
    if (!failed)
        failed = start(child, apart);
    for (int i = 0; i < 3; i++)
        if (apart[i] >= 0 && apart[i] != descriptors[i])
            close(apart[i]);
    return failed;
}

static int run(FILE *script, FILE *complaints, kmf_text *picture, kmf_err *err)
{
    int ends[2];
    pid_t child;
    if (pipe(ends) != 0)
        return kmf_fail(err, KMF_EIO, "a pipe to gnuplot: %s", strerror(errno));
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    const int descriptors[] = {fileno(script), ends[1], fileno(complaints)};
    int failed = start_apart(&child, descriptors);
    close(ends[1]);
    int status = failed ? 0 : collect(ends[0], picture, err);
    close(ends[0]);
    if (failed == ENOENT)
        return kmf_fail(err, KMF_EIO, NOT_FOUND);
    if (failed)
        return kmf_fail(err, KMF_EIO, "gnuplot: %s", strerror(failed));
    int code = wait_for(child);
    if (code == UNKNOWN && came_to_the_end(complaints))
        code = 0;
    if (code == 127) /* of a shell, or an old C library: the program is not there */
        return kmf_fail(err, KMF_EIO, NOT_FOUND);
    if (code != 0)
        return failed_with(complaints, err);
    return status;
}

int kmf_gnuplot(const char *path, const char *begin, const char *script, size_t n, kmf_err *err)
{
    kmf_text picture = {0};
    int status = KMF_EIO;
    FILE *in = unnamed(err);
    FILE *complaints = in ? unnamed(err) : NULL;
    if (!complaints)
        goto out;
    fputs(begin ? begin : "", in);
    fwrite(script, 1, n, in);
    fputs("\nset print\nif (!GPVAL_ERRNO) print '" THE_END "'\n", in);
    if (fflush(in) != 0 || ferror(in) || lseek(fileno(in), 0, SEEK_SET) != 0) {
        kmf_fail(err, KMF_EIO, "a temporary file for gnuplot: %s", strerror(errno));
        goto out;
    }
    status = run(in, complaints, &picture, err);
    if (status == 0 && picture.len == 0)
        status = kmf_fail(err, KMF_EIO, "gnuplot made no picture");
    if (status == 0)
        status = kmf_file_save(path, picture.bytes, picture.len, err);
out:
    if (in)
        fclose(in);
    if (complaints)
        fclose(complaints);
    kmf_free(picture.bytes);
    return status;
}
