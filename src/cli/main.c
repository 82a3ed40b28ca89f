/* SPDX-License-Identifier: MIT */
/* kmerformer <command> [options] <in>... : one table of commands drives dispatch and help. */
#include "cli/cli.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define VARIABLES_MOST 4096 /* of the environment */
#define STACK_LEAST ((rlim_t)1 << 20)

static int run_version(cli *run, int argc, char **argv);
static int run_help(cli *run, int argc, char **argv);

static const cli_command commands[] = {
    {"vocab", cli_vocab, "count k-mers; merge, summarise and export the tables",
     cli_vocab_subcommands},
    {"tokenize", cli_tokenize, "show the tokens that a model sees", NULL},
    {"word2vec", cli_word2vec, "learn vectors of k-mers: skip-gram or CBOW, negative sampling",
     NULL},
    {"pretrain", cli_pretrain, "learn an encoder from genomes", NULL},
    {"nearest", cli_nearest, "the k-mers nearest to a k-mer, or the rows nearest to others",
     NULL},
    {"init", cli_init, "make a model with random weights", NULL},
    {"convert", cli_convert, "store a model or k-mer vectors in another precision or format",
     NULL},
    {"embed", cli_embed, "one vector for every sequence", NULL},
    {"logits", cli_logits, "what a model expects in the place of each token", NULL},
    {"probe", cli_probe, "learn to classify records by their vectors; classify",
     cli_probe_subcommands},
    {"eval", cli_eval, "what vectors are good for, on labelled records", cli_eval_subcommands},
    {"merge", cli_merge, "put the shards of an embed run together", NULL},
    {"plot", cli_plot, "pictures of vectors, trainings and positions, by gnuplot",
     cli_plot_subcommands},
    {"info", cli_info, "what a model is: shape, vocabulary, provenance, memory", NULL},
    {"bench", cli_bench, "the encoder's speed beside the limits of the processor", NULL},
    {"version", run_version, "this program, its libraries and kernels", NULL},
    {"help", run_help, "this text, or a command's options", NULL},
    CLI_COMMAND_END,
};

static void print_commands(FILE *to)
{
    fprintf(to,
            "kmerformer %s: DNA sequences to vectors\n\n"
            "usage: kmerformer <command> [options] <in>...\n\n",
            kmf_version());
    for (const cli_command *c = commands; c->name; c++)
        fprintf(to, "  %-10s %s\n", c->name, c->brief);
    fprintf(to,
            "\n"
            "kmerformer <command> --help tells the options; start with\n"
            "\n"
            "  kmerformer embed reads.fq.gz\n"
            "\n"
            "exit status: 0 done, 1 wrong usage, 2 input or output failed, 3 out of memory or\n"
            "over a limit, 4 a model or format does not fit, 75 stopped by a signal: the same\n"
            "command resumes\n");
}

static int run_version(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {"version", "Program, compiler, libraries, chosen kernels.",
                                    0, 0};
    const cli_option table[] = {CLI_COMMON(run)};
    char text[4096];
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    kmf_build_info(text, sizeof text);
    printf("kmerformer\t%s\n%s", kmf_version(), text);
    return CLI_DONE;
}

static int no_command(const cli *run, const char *word)
{
    return cli_wrong(run, "there is no command '%s'%s; kmerformer help lists them", word,
                     cli_command_meant(commands, word).text);
}

static int run_help(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {"help [COMMAND [SUBCOMMAND]]",
                                    "The commands, or one command's options.", 0, 2};
    const cli_option table[] = {CLI_COMMON(run)};
    if (argc < 2 || argv[0][0] == '-') {
        print_commands(stdout);
        return CLI_DONE;
    }
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *name = run->n_inputs > 0 ? run->inputs[0] : "help";
    const cli_command *command = cli_find_command(commands, name);
    if (!command)
        return no_command(run, name);
    if (run->n_inputs == 2) {
        const char *word = run->inputs[1];
        const cli_command *list = command->subcommands;
        command = list ? cli_find_command(list, word) : NULL;
        if (!command)
            return cli_wrong(run, "%s has no sub-command '%s'%s", name, word,
                             list ? cli_command_meant(list, word).text : "");
    }
    if (command->run == run_help) {
        print_commands(stdout);
        return CLI_DONE;
    }
    char help[] = "--help";
    char *args[] = {argv[argc - 1], help, NULL};
    run->command = command->name;
    return command->run(run, 2, args);
}

/* argv joined by blanks. */
static char *join(int argc, char **argv)
{
    size_t n = sizeof "kmerformer";
    for (int i = 1; i < argc; i++)
        n += strlen(argv[i]) + 1;
    char *line = malloc(n);
    if (!line)
        return NULL;
    char *p = line + sprintf(line, "kmerformer");
    for (int i = 1; i < argc; i++)
        p += sprintf(p, " %s", argv[i]);
    return line;
}

/* A variable that is set must hold one of the words: -1, or an exit code. */
static int check_variable(const cli *run, const char *name, const char *const *words)
{
    const char *value = getenv(name);
    char list[64] = "";
    for (size_t i = 0; value && words[i]; i++) {
        if (strcmp(words[i], value) == 0)
            return -1;
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", words[i]);
    }
    return value ? cli_wrong(run, "the variable %s is '%s': it must be one of %s", name, value,
                             list)
                 : -1;
}

static int check_environment(const cli *run)
{
    struct rlimit stack;
    int leave = check_variable(run, "KMERFORMER_GEMM", kmf_engine_names);
    if (leave < 0)
        leave = check_variable(run, "KMERFORMER_CPU", kmf_level_names);
    if (leave >= 0 || getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_LEAST)
        return leave;
    kmf_err err = {0};
    cli_raise(&err, KMF_ENOMEM,
              "the stack is limited to %llu KB (ulimit -s), and takes 1 MB: ulimit -s 8192",
              (unsigned long long)stack.rlim_cur >> 10);
    return cli_fail(run, &err);
}

/*
 * OpenBLAS starts a thread for each core when it is loaded, and each takes 128 MB of addresses:
 * under a limit of those (ulimit -v, a scheduler's) it waits for ever, or raises SIGINT. None of
 * them is needed, but what would tell it so is looked up before main. Where the system calls a
 * function before those of libraries, the program begins again with one thread told, under such a
 * limit alone.
 */
#if defined(__linux__) && defined(__GLIBC__)
static void want_one_blas_thread(int argc, char **argv, char **environment)
{
    static char one[] = "OPENBLAS_NUM_THREADS=1";
    char *told[VARIABLES_MOST + 2];
    struct rlimit limit;
    size_t n = 0;
    (void)argc;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    for (; environment[n]; n++) {
        if (n == VARIABLES_MOST || strncmp(environment[n], one, sizeof one - 2) == 0)
            return;
        told[n] = environment[n];
    }
    told[n] = one;
    told[n + 1] = NULL;
    execve("/proc/self/exe", argv, told); /* if it fails, this one goes on */
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_libraries)(int, char **,
                                                            char **) = want_one_blas_thread;
#endif

/*
 * A file must not become standard error because that was closed; what was closed stays so. As
 * standard output a folder does, which /dev/stdout cannot open for writing either.
 */
static bool occupy_closed(void)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            (fd == STDOUT_FILENO ? open("/", O_RDONLY) : open("/dev/null", O_WRONLY)) != fd)
            return false;
    return true;
}

int main(int argc, char **argv)
{
    cli run = {.started = cli_now()};
    if (!occupy_closed())
        return CLI_DATA;
    kmf_stop_blas_threads();
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const cli_command *command = cli_find_command(commands, name);
    if (!command)
        return no_command(&run, name);
    char *line = join(argc, argv);
    int at = 1; /* of the word that calls it */
    if (command->subcommands && argc > 2) {
        const cli_command *sub = cli_find_command(command->subcommands, argv[2]);
        at = sub ? 2 : at;
        command = sub ? sub : command;
    }
    run.command = command->name;
    run.command_line = line ? line : "kmerformer";
    cli_catch_signals(&run);
    int status = check_environment(&run);
    if (status < 0)
        status = command->run(&run, argc - at, argv + at);
    if (status == CLI_DONE)
        status = cli_close_stdout(&run);
    if (status == CLI_DONE && run.verbose)
        cli_note(&run, "%.2f s of processor time; peak memory %.0f MB", cli_cpu_seconds(),
                 1e-6 * cli_peak_memory());
    free(line);
    return status;
}
