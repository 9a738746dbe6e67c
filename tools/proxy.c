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

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "common/debug.h"
#include "common/lines.h"
#include "proxy/server/proxy.h"
#include "tools/options.h"
#include "tools/pipeline.h"
#include "tools/tool.h"

static const char help[] =
    "Usage: ferry proxy --stdio [OPTION]...\n"
    "Runs commands next to their files for a `ferry run' elsewhere, which "
    "starts\n"
    "it over ssh.\n\n"
    "  --stdio             serve one client on standard input and output\n"
    "  --stages N          at most N commands at a time (16 for each core)\n"
    "  --load X            refuse commands above this load per core\n"
    "  --annotations PATH  also know the commands of this file or folder\n"
    "  --no-landlock       do not use the kernel's Landlock\n"
    "  --debug[=ROOM,...]  log what these rooms do, or all, in --debug-file\n"
    "  --debug-file FILE   the file that lines are appended to\n"
    "  --help\n";

struct request {
    struct fy_proxy_options options;
    const char *paths[FY_MAX_ANNOTATION_PATHS];
    unsigned npaths;
    bool stdio;
    uint64_t debug;
    const char *debug_file;
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
    case 'n':
        if (fy_parse_number(text, &number) || number == 0 || number > 10000) {
            fy_say("--stages '%s': expected a number from 1 to 10000", text);
            return false;
        }
        request->options.stages_max = (unsigned)number;
        return true;
    case 'l':
        return read_positive("load", text, &request->options.load_max);
    case 'a':
        if (request->npaths == FY_MAX_ANNOTATION_PATHS) {
            fy_say("--annotations: too many of them");
            return false;
        }
        request->paths[request->npaths++] = text;
        return true;
    case 'g':
        fy_say(
            "the options --root, --setid, --memory and --seconds were removed: "
            "the client may do what its account may");
        return false;
    case 'L':
        request->options.landlock = false;
        return true;
    case 'd':
        return fy_debug_option("--debug", text ? text : "all",
                               &request->debug) == 0;
    case 'f':
        request->debug_file = text;
        return true;
    default:
        return false;
    }
}

/* A proxy's standard error is the client's to show, so a log needs a file. */
static bool
start_debug(const struct request *request)
{
    if (!request->debug) {
        return true;
    }
    if (!request->debug_file) {
        fy_say("--debug: --debug-file is missing");
        return false;
    }
    int status = fy_lines_append(request->debug_file, "", 0);
    if (status) {
        fy_say("cannot write the debug log %s: %s", request->debug_file,
               strerror(-status));
        return true;
    }
    fy_debug_start((uint32_t)request->debug, request->debug_file);
    return true;
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

static int
serve(struct request *request)
{
    struct fy_places places;
    struct fy_commands *commands = NULL;
    char shipped[PATH_MAX + 16], trouble[512];
    int in, out, status = FY_EXIT_FAILURE;
    /* Only the commands: this host's libraries are of no interest. */
    fy_places_find(&places);
    fy_say_unreadable(request->paths, request->npaths);
    (void)snprintf(shipped, sizeof shipped, "%s/commands", places.library);
    /* The shipped ones have been checked, so the client waits only for those of
     * its command; a user's own are checked before they count. */
    if (request->npaths > 0 || access(shipped, R_OK) != 0) {
        commands = fy_pipeline_compile(&places, request->paths, request->npaths,
                                       trouble, sizeof trouble);
    } else if (fy_commands_lazy(shipped, places.library, NULL, 0, &commands)) {
        (void)snprintf(trouble, sizeof trouble, "out of memory");
    }
    if (!commands) {
        fy_say("%s", trouble);
        return FY_EXIT_FAILURE;
    }
    if (take_stdio(&in, &out)) {
        fy_say("cannot use standard input and output: %s", strerror(errno));
    } else {
        request->options.commands = commands;
        status = fy_proxy_serve(in, out, &request->options);
    }
    fy_commands_free(commands);
    return status;
}

int
fy_tool_proxy(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"stdio", no_argument, NULL, 'i'},
        {"root", required_argument, NULL, 'g'},
        {"stages", required_argument, NULL, 'n'},
        {"memory", required_argument, NULL, 'g'},
        {"seconds", required_argument, NULL, 'g'},
        {"load", required_argument, NULL, 'l'},
        {"annotations", required_argument, NULL, 'a'},
        {"setid", no_argument, NULL, 'g'},
        {"no-landlock", no_argument, NULL, 'L'},
        {"debug", optional_argument, NULL, 'd'},
        {"debug-file", required_argument, NULL, 'f'},
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
    if (!start_debug(&request)) {
        return fy_usage_error("proxy");
    }
    if (isatty(STDOUT_FILENO)) {
        fy_say("standard output is a terminal: a ferry run starts this");
        return FY_EXIT_FAILURE;
    }
    return serve(&request);
}
