/* SPDX-License-Identifier: MIT */
/* Lists of commands: which of them a word calls, and the help that names them. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* "count" of "vocab count" */
static const char *last_word(const cli_command *command)
{
    const char *blank = strrchr(command->name, ' ');
    return blank ? blank + 1 : command->name;
}

const cli_command *cli_find_command(const cli_command *list, const char *word)
{
    for (; list->name; list++)
        if (strcmp(last_word(list), word) == 0)
            return list;
    return NULL;
}

cli_suggestion cli_command_meant(const cli_command *list, const char *word)
{
    cli_suggestion meant = {.typed = word, .len = strlen(word), .mark = ""};
    for (; list->name; list++)
        cli_suggest(&meant, last_word(list));
    return meant;
}

const char *cli_list_commands(char *to, size_t cap, const char *text, const cli_command *list)
{
    int width = 0;
    for (const cli_command *c = list; c->name; c++)
        width = (int)strlen(c->name) > width ? (int)strlen(c->name) : width;
    size_t n = (size_t)snprintf(to, cap, "%s", text);
    for (const cli_command *c = list; c->name && n < cap; c++)
        n += (size_t)snprintf(to + n, cap - n, "\n  kmerformer %-*s  %s", width, c->name,
                              c->brief);
    return to;
}

int cli_want_subcommand(cli *run, const char *synopsis, const char *text,
                        const cli_command *list, int argc, char **argv)
{
    char help[1024];
    const cli_usage usage = {synopsis, cli_list_commands(help, sizeof help, text, list), 0, -1};
    const cli_option table[] = {CLI_COMMON(run)};
    const char *word = argc > 1 ? argv[1] : NULL;
    if (!word || word[0] == '-') {
        int leave = cli_parse(run, table, &usage, argc, argv);
        if (leave >= 0)
            return leave;
        word = run->inputs[0];
    }
    if (!word)
        return cli_wrong(run, "no sub-command given; see kmerformer %s --help", run->command);
    if (cli_find_command(list, word))
        return cli_wrong(run, "%s: a sub-command stands before all options", word);
    return cli_wrong(run, "there is no sub-command '%s'%s; see kmerformer %s --help", word,
                     cli_command_meant(list, word).text, run->command);
}
