/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into one tool by options.py: the option table that the tool hands
 * to getopt or argp is printed to the descriptor FERRY_TABLES, and the tool ends
 * before it does anything. What is in no manual is in there too.
 */
#include "config.h"

#include <argp.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *
output(void)
{
    const char *fd = getenv("FERRY_TABLES");
    FILE *to = fd ? fdopen(atoi(fd), "w") : NULL;
    if (!to) {
        _exit(3);
    }
    return to;
}

static void leave(FILE *to) __attribute__((noreturn));
static void
leave(FILE *to)
{
    fflush(to);
    _exit(0);
}

/* Spelling, values (2: optional), and what two spellings of one thing share. */
static void
print_getopt(FILE *to, const char *letters, const struct option *names)
{
    while (*letters == '+' || *letters == '-' || *letters == ':') {
        letters++;
    }
    while (*letters != '\0') {
        char letter = *letters++;
        int values = 0;
        while (*letters == ':') {
            values++;
            letters++;
        }
        fprintf(to, "-%c\t%d\tv%d\n", letter, values, letter);
    }
    for (int i = 0; names && names[i].name; i++) {
        /* A table that sets variables: every row its own. */
        if (names[i].flag || names[i].val == 0) {
            fprintf(to, "--%s\t%d\tn%d\n", names[i].name, names[i].has_arg, i);
        } else {
            fprintf(to, "--%s\t%d\tv%d\n", names[i].name, names[i].has_arg,
                    names[i].val);
        }
    }
}

static void
print_argp(FILE *to, const struct argp *argp, int *group)
{
    for (const struct argp_option *o = argp->options;
         o && (o->name || o->key || o->doc); o++) {
        if (o->flags & OPTION_DOC) {
            continue;
        }
        if (!o->name && !o->key) {
            continue; /* a heading */
        }
        if (!(o->flags & OPTION_ALIAS)) {
            ++*group;
        }
        const struct argp_option *real = o;
        while (real->flags & OPTION_ALIAS && real > argp->options) {
            real--;
        }
        int values = !real->arg ? 0 : real->flags & OPTION_ARG_OPTIONAL ? 2 : 1;
        if (o->key > ' ' && o->key < 0x7f) {
            fprintf(to, "-%c\t%d\tg%d\n", o->key, values, *group);
        }
        if (o->name) {
            fprintf(to, "--%s\t%d\tg%d\n", o->name, values, *group);
        }
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++) {
        print_argp(to, c->argp, group);
    }
}

int
getopt_long(int argc, char *const *argv, const char *letters,
            const struct option *names, int *index)
{
    (void)argc;
    (void)argv;
    (void)index;
    FILE *to = output();
    print_getopt(to, letters, names);
    leave(to);
}

int
getopt_long_only(int argc, char *const *argv, const char *letters,
                 const struct option *names, int *index)
{
    return getopt_long(argc, argv, letters, names, index);
}

int
getopt(int argc, char *const *argv, const char *letters)
{
    return getopt_long(argc, argv, letters, NULL, NULL);
}

error_t
argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
           int *index, void *input)
{
    int group = 0;
    (void)argc;
    (void)argv;
    (void)flags;
    (void)index;
    (void)input;
    FILE *to = output();
    print_argp(to, argp, &group);
    /* What argp adds by itself. */
    fputs("-?\t0\thelp\n--help\t0\thelp\n--usage\t0\tusage\n"
          "-V\t0\tversion\n--version\t0\tversion\n",
          to);
    leave(to);
}
