/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the shipped annotations make of command lines, for the tests in Python:
 * parse FILE... < command lines. An argument ends with byte 0, a command line
 * with an argument of its own, 0x1e, and 0x1d begins a variable of the
 * environment, 0x1c the name of one, which is answered by `wants NAME' if the
 * command gets it where it runs elsewhere. Each line is answered by facts, one a
 * line, and an empty line. Paths are printed with %XX for what is not a plain
 * letter.
 */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"

enum {
    MAX_ARGUMENTS = 200
};

static void
print_text(const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (isalnum(c) || strchr("/._-+~=,:@", c)) {
            putchar(c);
        } else {
            printf("%%%02X", c);
        }
    }
}

static void
print_uses(const struct fy_invocation *call, const char *const *argv)
{
    static const char *const kinds[] = {"file", "tree", "folder"};
    for (uint32_t i = 0; i < call->nuses; i++) {
        const struct fy_use *use = &call->uses[i];
        const char *access = use->access == FY_ACCESS_IN    ? "in"
                             : use->access == FY_ACCESS_OUT ? "out"
                                                            : "inout";
        printf("use %s %s%s%s ", access, kinds[use->kind],
               use->follows ? "+follows" : "", use->is_stdin ? "+stream" : "");
        print_text(argv[use->arg] + use->offset);
        putchar('\n');
    }
}

static void
print_facts(const struct fy_invocation *call)
{
    static const char *const splits[] = {"none", "lines", "files"};
    static const char *const merges[] = {"concat", "sum",  "sort",
                                         "uniq",   "head", "tail"};
    static const char *const hows[] = {"writes", "makes", "keeps"};
    static const char *const outputs[] = {"nothing", "filters", "copies",
                                          "grows", "names"};
    const struct {
        bool is;
        const char *name;
    } flags[] = {
        {call->reads_stdin, "stdin"},     {call->pure, "pure"},
        {call->effect, "effect"},         {call->reads_cwd, "reads-cwd"},
        {call->cwd_is_tree, "cwd-tree"},  {call->cwd_follows, "cwd-follows"},
        {call->writes_cwd, "writes-cwd"}, {call->fed, "fed"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (flags[i].is) {
            puts(flags[i].name);
        }
    }
    for (unsigned i = 0; i < FY_TRAITS; i++) {
        if (fy_invocation_is(call, i)) {
            const char *space = strchr(fy_trait_words[i], ' ');
            printf("%.*s%s%s\n", (int)strcspn(fy_trait_words[i], " "),
                   fy_trait_words[i], space ? "-" : "", space ? space + 1 : "");
        }
    }
    if (call->split != FY_SPLIT_NONE) {
        printf("split %s %s\n", splits[call->split], merges[call->merge]);
        if (call->split_with) {
            printf("split-with %s\n", call->split_with);
        }
    }
    printf("stdout %s\n", outputs[call->output]);
    for (const char *const *c = call->configs; c && *c; c++) {
        printf("reads ");
        print_text(*c);
        putchar('\n');
    }
    for (uint32_t i = 0; i < call->nwritten; i++) {
        printf("%s ", hows[call->written[i].how]);
        print_text(call->written[i].path);
        putchar('\n');
    }
    for (uint32_t i = 0; i < call->nabsents; i++) {
        printf("%s ", call->absents[i].present ? "present" : "absent");
        print_text(call->absents[i].path);
        putchar('\n');
    }
}

static void
answer(const struct fy_commands *commands, const char *const *argv,
       const char *const *environment, const char *const *asked)
{
    struct fy_invocation call;
    struct fy_buffer why;
    char text[256];
    fy_buffer_start(&why, text, sizeof text);
    int status =
        fy_invocation_parse(commands, argv[0], argv, environment, &call, &why);
    if (status) {
        printf("%s %s\n",
               status == FY_ERR_UNSUPPORTED ? "never"
               : status == FY_ERR_NOENT     ? "unknown"
                                            : "declined",
               text);
    } else {
        printf("command ");
        print_text(call.command);
        putchar('\n');
        print_uses(&call, argv);
        print_facts(&call);
        for (; *asked; asked++) {
            if (fy_invocation_wants(&call, *asked)) {
                printf("wants %s\n", *asked);
            }
        }
        fy_invocation_clear(&call);
    }
    putchar('\n');
    fflush(stdout);
}

/* Texts of one command line; the last is NULL. */
struct list {
    char *items[MAX_ARGUMENTS + 1];
    int count;
};

static void
list_add(struct list *list, const char *text)
{
    if (list->count < MAX_ARGUMENTS) {
        list->items[list->count++] = strdup(text);
        list->items[list->count] = NULL;
    }
}

static void
list_clear(struct list *list)
{
    while (list->count > 0) {
        free(list->items[--list->count]);
        list->items[list->count] = NULL;
    }
}

int
main(int argc, char **argv)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_commands *commands = NULL;
    struct list arguments = {0}, environment = {0}, asked = {0};
    char *text = NULL;
    size_t capacity = 0;
    if (fy_commands_compile((const char *const *)(argv + 1), (unsigned)argc - 1,
                            NULL, diagnostics, &commands)) {
        fy_diagnostics_print(diagnostics, stderr);
        fy_diagnostics_free(diagnostics);
        return 2;
    }
    while (getdelim(&text, &capacity, '\0', stdin) > 0) {
        if (strcmp(text, "\x1e") == 0) {
            answer(commands, (const char *const *)arguments.items,
                   (const char *const *)environment.items,
                   (const char *const *)asked.items);
            list_clear(&arguments);
            list_clear(&environment);
            list_clear(&asked);
        } else if (text[0] == '\x1c') {
            list_add(&asked, text + 1);
        } else if (text[0] == '\x1d') {
            list_add(&environment, text + 1);
        } else {
            list_add(&arguments, text);
        }
    }
    free(text);
    list_clear(&arguments);
    list_clear(&environment);
    list_clear(&asked);
    fy_commands_free(commands);
    fy_diagnostics_free(diagnostics);
    return 0;
}
