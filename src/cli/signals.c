/* SPDX-License-Identifier: MIT */
/* Signals: what ends a command leaves nothing half written, and can be gone on from. */
#define _XOPEN_SOURCE 700 /* SIGXFSZ */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * Temporary files go, and the process ends as the signal would have ended it, whatever it is
 * waiting for. All that is called here may be called in a handler.
 */
static char stop_message[512];
static volatile sig_atomic_t holding;
static volatile sig_atomic_t held;
static volatile sig_atomic_t done; /* all outputs have their names */
static atomic_flag stopping = ATOMIC_FLAG_INIT;

/*
 * A signal that comes twice, as `timeout` sends it, may find another thread while this is under
 * way: the action becomes the default when the files are gone, and not before.
 */
static void stop(int number)
{
    if (done)
        return;
    if (holding) {
        held = number;
        return;
    }
    if (atomic_flag_test_and_set(&stopping))
        return;
    kmf_remove_temporaries();
    ssize_t written = write(STDERR_FILENO, stop_message, strlen(stop_message));
    (void)written;
    signal(number, SIG_DFL);
    raise(number); /* it comes when this function ends */
}

static bool leaves_pipes; /* a closed one was not ignored when the program began */

void cli_leave_closed_stdout(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (!leaves_pipes || poll(&out, 1, 0) != 1 || !(out.revents & POLLERR))
        return;
    kmf_remove_temporaries();
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

void cli_hold_signals(void)
{
    holding++;
}

void cli_release_signals(bool over)
{
    done = over;
    if (over)
        held = 0;
    holding--;
    if (held && !holding) {
        int number = (int)held;
        held = 0;
        raise(number);
    }
}

/* Sets the action of a signal, unless it is ignored: by nohup, or a shell's background job. */
static void act(int number, void (*action)(int), int flags)
{
    struct sigaction before;
    struct sigaction after = {.sa_handler = action, .sa_flags = flags};
    sigemptyset(&after.sa_mask);
    sigaction(number, NULL, &before);
    if (before.sa_handler != SIG_IGN)
        sigaction(number, &after, NULL);
}

static const int stop_numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
#define STOP_NUMBERS (sizeof stop_numbers / sizeof stop_numbers[0])

void cli_delay_signals(bool delay)
{
    sigset_t stops;
    sigemptyset(&stops);
    for (size_t i = 0; i < STOP_NUMBERS; i++)
        sigaddset(&stops, stop_numbers[i]);
    pthread_sigmask(delay ? SIG_BLOCK : SIG_UNBLOCK, &stops, NULL);
}

int cli_close_stdout(const cli *run)
{
    sig_atomic_t before = done;
    errno = 0;
    done = 0; /* who reads may keep it waiting */
    bool flushed = fflush(stdout) == 0 && !ferror(stdout);
    done = before;
    if (flushed)
        return CLI_DONE;
    kmf_err err = {0};
    cli_raise(&err, KMF_EIO, "standard output: %s", strerror(errno ? errno : EIO));
    return cli_fail(run, &err);
}

static char leave_message[512];
static const char *leave_folder, *leave_lock;

static _Noreturn void leave(int number)
{
    (void)number;
    kmf_remove_temporaries();
    if (leave_lock)
        unlink(leave_lock);
    if (leave_folder)
        rmdir(leave_folder);
    ssize_t written = write(STDERR_FILENO, leave_message, strlen(leave_message));
    (void)written;
    _exit(CLI_STOPPED);
}

/* One line, whatever a name in it is; room is left for the end. */
static void end_line(char *message)
{
    kmf_show_plainly(message);
    strcat(message, "\n");
}

static void tell_of(char *message, size_t cap, const cli *run, const char *checkpoint,
                    const char *how)
{
    snprintf(message, cap - 1,
             "kmerformer %s: stopped by a signal; the same command%.30s resumes from %.400s",
             run->command, how, checkpoint);
    end_line(message);
}

void cli_leave(const cli *run, const char *checkpoint, const char *how)
{
    tell_of(leave_message, sizeof leave_message, run, checkpoint, how);
    leave(0);
}

void cli_leave_on_signals(const cli *run, const char *checkpoint, const char *folder,
                          const char *lock)
{
    snprintf(leave_message, sizeof leave_message - 1,
             "kmerformer %s: stopped by a signal%s%.400s", run->command,
             checkpoint ? "; the same command resumes from "
                        : " before there was anything to keep",
             checkpoint ? checkpoint : "");
    end_line(leave_message);
    leave_folder = folder;
    leave_lock = lock;
    for (size_t i = 0; i < STOP_NUMBERS; i++)
        act(stop_numbers[i], leave, 0);
}

static char cut_message[512];

/* A map of a file that has become shorter, or whose disk fails, has no other way to tell. */
static void leave_cut_file(int number, siginfo_t *info, void *context)
{
    (void)context;
    kmf_remove_temporaries();
    if (info->si_code != BUS_ADRERR) { /* something else: the action is the system's again */
        raise(number);
        return;
    }
    ssize_t written = write(STDERR_FILENO, cut_message, strlen(cut_message));
    (void)written;
    _exit(CLI_DATA);
}

static volatile sig_atomic_t asked;
static atomic_llong first_asked; /* in nanoseconds of some clock; 0: never */

/* `timeout` sends its signal twice, and other programs to a whole group: that is one. */
#define SAME_SIGNAL 250000000LL /* nanoseconds */

static char ask_message[256]; /* "": none */

static void tell_that_asked(void)
{
    ssize_t written = write(STDERR_FILENO, ask_message, strlen(ask_message));
    (void)written;
}

static void ask(int number)
{
    struct timespec t;
    long long first = 0;
    int reason = errno;
    if (!asked)
        tell_that_asked();
    asked = 1;
    errno = reason;
    if (number == SIGUSR1)
        return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = t.tv_sec * 1000000000LL + t.tv_nsec;
    if (!atomic_compare_exchange_strong(&first_asked, &first, now) &&
        now - first >= SAME_SIGNAL)
        stop(number);
}

void cli_watch_signals(void)
{
    for (size_t i = 0; i < STOP_NUMBERS; i++)
        act(stop_numbers[i], ask, SA_RESTART);
}

void cli_tell_of_stopping(const cli *run, const char *what)
{
    cli_delay_signals(true);
    if (!run->quiet)
        snprintf(ask_message, sizeof ask_message,
                 "%skmerformer %s: a signal: %s; a second one ends it at once\n",
                 isatty(STDERR_FILENO) ? "\r\033[K" : "", run->command, what);
    cli_delay_signals(false);
}

void cli_watch_kept(const cli *run, const char *checkpoint, const char *how)
{
    cli_hold_signals();
    tell_of(stop_message, sizeof stop_message, run, checkpoint, how);
    cli_watch_signals();
    cli_release_signals(false);
}

void cli_tell_of_checkpoints(const cli *run, double minutes)
{
    cli_hold_signals();
    snprintf(stop_message, sizeof stop_message,
             "kmerformer %s: stopped by a signal before the first checkpoint "
             "(after %g min and a record); temporary files are removed\n",
             run->command, minutes);
    cli_release_signals(false);
}

bool cli_asked_to_stop(void)
{
    return asked;
}

/* An output has its name, and more may come. */
static void go_on(void)
{
    cli_release_signals(false);
}

void cli_catch_signals(const cli *run)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
    struct sigaction before;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction cut = {.sa_sigaction = leave_cut_file,
                            .sa_flags = SA_SIGINFO | (int)SA_RESETHAND};
    sigemptyset(&cut.sa_mask);
    snprintf(stop_message, sizeof stop_message,
             "kmerformer %s: stopped by a signal; temporary files are removed\n", run->command);
    snprintf(cut_message, sizeof cut_message,
             "kmerformer %s: a model or table became shorter while it was read, or cannot be "
             "read; what was being written is removed\n",
             run->command);
    sigaction(SIGBUS, &cut, NULL);
    sigemptyset(&ignore.sa_mask);
    kmf_around_publishing(cli_hold_signals, go_on);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        act(numbers[i], stop, 0);
    sigaction(SIGPIPE, &ignore, &before);
    leaves_pipes = before.sa_handler != SIG_IGN;
    sigaction(SIGXFSZ, &ignore, NULL);
}
