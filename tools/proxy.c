/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry proxy: runs stages on a storage host for the ferry run at the other end
 * of its standard input and output. Nothing is printed there but the wire; it is
 * waited for by whoever connects, so nothing is done that can wait.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/command.h"
#include "annotations/diagnostics.h"
#include "proxy/proxy.h"
#include "tools/pipeline.h"
#include "tools/tool.h"

enum {
    MAX_ROOTS = 64,
};

static const char help[] =
    "Usage: ferry proxy --stdio [OPTION]...\n"
    "Runs commands next to their files for a `ferry run' elsewhere, which "
    "starts\n"
    "it over ssh.\n\n"
    "  --stdio             serve one client on standard input and output\n"
    "  --root DIR          only files beneath DIR; repeatable (default: what\n"
    "                      the user may)\n"
    "  --stages N          at most N commands at a time (16 for each core)\n"
    "  --memory SIZE       end a command that uses more, such as 2GiB\n"
    "  --seconds N         end a command that takes longer\n"
    "  --load X            refuse commands above this load per core\n"
    "  --annotations PATH  also know the commands of this file or folder\n"
    "  --setid             with --root: let commands make setuid files\n"
    "  --no-landlock       do not use the kernel's Landlock; not with --root\n"
    "  --help\n";

struct request {
    struct fy_proxy_options options;
    const char *roots[MAX_ROOTS + 1];
    unsigned nroots;
    const char *paths[FY_MAX_ANNOTATION_PATHS];
    unsigned npaths;
    bool stdio;
};

static bool
read_positive(const char *option, const char *text, double *out)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(number) || number <= 0) {
        fy_say("--%s '%s': expected a number above 0", option, text);
        return false;
    }
    *out = number;
    return true;
}

static bool
take_option(struct request *request, int id, const char *text)
{
    uint64_t number;
    switch (id) {
    case 'i':
        request->stdio = true;
        return true;
    case 'r':
        if (request->nroots == MAX_ROOTS || *text != '/') {
            fy_say(*text == '/' ? "--root: too many of them"
                                : "--root: expected an absolute path");
            return false;
        }
        request->roots[request->nroots++] = text;
        return true;
    case 'n':
        if (fy_parse_number(text, &number) || number == 0 || number > 10000) {
            fy_say("--stages '%s': expected a number from 1 to 10000", text);
            return false;
        }
        request->options.stages_max = (unsigned)number;
        return true;
    case 'm':
        if (fy_parse_size(text, &request->options.memory_bytes)) {
            fy_say("--memory '%s': expected a size such as 2GiB", text);
            return false;
        }
        return true;
    case 's':
        return read_positive("seconds", text, &request->options.seconds);
    case 'l':
        return read_positive("load", text, &request->options.load_max);
    case 'a':
        if (request->npaths == FY_MAX_ANNOTATION_PATHS) {
            fy_say("--annotations: too many of them");
            return false;
        }
        request->paths[request->npaths++] = text;
        return true;
    case 'S':
        request->options.setid = true;
        return true;
    case 'L':
        request->options.landlock = false;
        return true;
    default:
        return false;
    }
}

/*
 * The wire's descriptors, away from 0 and 1, where something might print: there
 * is /dev/null then.
 */
static int
take_stdio(int *out_in, int *out_out)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (null < 0 || in < 0 || out < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0) {
        return FY_ERR_IO;
    }
    if (fcntl(STDERR_FILENO, F_GETFD) < 0 && dup2(null, STDERR_FILENO) < 0) {
        return FY_ERR_IO;
    }
    if (null > STDERR_FILENO) {
        (void)close(null);
    }
    *out_in = in;
    *out_out = out;
    return 0;
}

/* One command's annotations, compiled when it first comes. */
struct known {
    struct fy_commands *commands;
    struct known *next;
    char word[];
};

struct catalogue {
    char shipped[PATH_MAX + 16];
    const char *library;
    struct known *known;
};

/* All errors are said; NULL. */
static struct fy_commands *
compile(const struct catalogue *catalogue, const char *word)
{
    const char *const paths[] = {catalogue->shipped, NULL};
    struct fy_commands *commands = NULL;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        fy_say("out of memory");
        return NULL;
    }
    int status =
        fy_commands_compile_word(paths, 1, catalogue->library,
                                 *word ? word : NULL, diagnostics, &commands);
    if (status) {
        fy_diagnostics_print(diagnostics, stderr);
        fy_say("the annotations of %s cannot be used: %s", word,
               fy_status_text(status));
        commands = NULL;
    }
    fy_diagnostics_free(diagnostics);
    return commands;
}

static bool
is_named(const struct fy_commands *commands, const char *word)
{
    for (size_t i = 0; i < fy_commands_count(commands); i++) {
        if (strcmp(fy_commands_name(commands, i)->name, word) == 0) {
            return true;
        }
    }
    return false;
}

/* The client waits for the first stage, so only what that needs is compiled; "":
 * all, for a command that runs others. It may ask for any word: those that mean
 * nothing are not kept. */
static const struct fy_commands *
find(void *context, const char *word)
{
    struct catalogue *catalogue = context;
    struct known *known = catalogue->known;
    while (known && strcmp(known->word, word) != 0) {
        known = known->next;
    }
    if (known) {
        return known->commands;
    }
    size_t n = strlen(word) + 1;
    struct fy_commands *commands = compile(catalogue, word);
    known = commands && (!*word || is_named(commands, word))
                ? malloc(sizeof *known + n)
                : NULL;
    if (!known) {
        fy_commands_free(commands);
        return NULL;
    }
    memcpy(known->word, word, n);
    known->commands = commands;
    known->next = catalogue->known;
    catalogue->known = known;
    return commands;
}

static int
serve(struct request *request)
{
    struct fy_places places;
    struct catalogue catalogue = {.known = NULL};
    struct fy_commands *commands = NULL;
    char trouble[512];
    int in, out, status = FY_EXIT_FAILURE;
    /* Only the commands: this host's libraries are of no interest. */
    fy_places_find(&places);
    fy_say_unreadable(request->paths, request->npaths);
    catalogue.library = places.library;
    (void)snprintf(catalogue.shipped, sizeof catalogue.shipped, "%s/commands",
                   places.library);
    /* The shipped ones have been checked; somebody's own are before they count. */
    if (request->npaths > 0 || access(catalogue.shipped, R_OK) != 0) {
        commands = fy_pipeline_compile(&places, request->paths, request->npaths,
                                       trouble, sizeof trouble);
        if (!commands) {
            fy_say("%s", trouble);
            return FY_EXIT_FAILURE;
        }
    }
    if (take_stdio(&in, &out)) {
        fy_say("cannot use standard input and output: %s", strerror(errno));
    } else {
        request->options.commands = commands;
        request->options.find = commands ? NULL : find;
        request->options.context = &catalogue;
        request->options.roots = request->nroots ? request->roots : NULL;
        status = fy_proxy_serve(in, out, &request->options);
    }
    while (catalogue.known) {
        struct known *known = catalogue.known;
        catalogue.known = known->next;
        fy_commands_free(known->commands);
        free(known);
    }
    fy_commands_free(commands);
    return status;
}

int
fy_tool_proxy(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"stdio", no_argument, NULL, 'i'},
        {"root", required_argument, NULL, 'r'},
        {"stages", required_argument, NULL, 'n'},
        {"memory", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 's'},
        {"load", required_argument, NULL, 'l'},
        {"annotations", required_argument, NULL, 'a'},
        {"setid", no_argument, NULL, 'S'},
        {"no-landlock", no_argument, NULL, 'L'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct request request = {.options = {.landlock = true}};
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == 'h') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (!take_option(&request, id, optarg)) {
            return fy_usage_error("proxy");
        }
    }
    if (optind < argc || !request.stdio) {
        fy_say(request.stdio ? "there are no operands"
                             : "--stdio is missing: a ferry run starts this");
        return fy_usage_error("proxy");
    }
    if (request.nroots && !request.options.landlock) {
        fy_say("--root and --no-landlock: what is exported is guarded by "
               "Landlock");
        return fy_usage_error("proxy");
    }
    if (isatty(STDOUT_FILENO)) {
        fy_say("standard output is a terminal: a ferry run starts this");
        return FY_EXIT_FAILURE;
    }
    return serve(&request);
}
