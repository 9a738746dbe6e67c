/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry mount and mount.ferry: the command line. Everything that can be wrong is said
 * before a connection is made; exit statuses are mount(8)'s.
 */
#include "config.h"

#include "tools/mount/mount.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/path.h"
#include "tools/tool.h"

enum {
    CAUSE_BYTES = 512
};

static const char help[] =
    "Usage: ferry mount [OPTION]... [USER@]HOST:[PATH] FOLDER\n"
    "Mounts the files of PATH at HOST, which has ferry too, on FOLDER. Without "
    "PATH, or with\n"
    "one that does not begin with '/', from your home there. "
    "'loopback:///PATH' is of this\n"
    "machine, to try it.\n\n"
    "  -o OPTION,...   ro, allow_other, nonempty, idmap=user|none, strict, "
    "async,\n"
    "                  ac=SECONDS, soft=SECONDS, port=N, compression=yes|no, "
    "options\n"
    "                  of mount(8), and ssh's (IdentityFile=...); "
    "ferry-mount(1)\n"
    "  -p PORT         of ssh\n"
    "  -F FILE         ssh's configuration\n"
    "  -C              ssh compresses, too\n"
    "  -f              stay in the foreground\n"
    "  --help\n";

static int
usage(void)
{
    (void)fy_usage_error("mount");
    return FY_EXIT_MOUNT_USAGE;
}

/* Keeps an option; options of the command line go before those of the text. */
static void
keep_option(char *to, const char *said, size_t bytes)
{
    if (*said) {
        memcpy(to, said, bytes);
    }
}

static int
add_options(const struct fy_place *said, struct fy_place *to,
            struct fy_buffer *why)
{
    if (to->noptions + said->noptions >
        sizeof to->options / sizeof *to->options) {
        fy_buffer_add(why, "more options of ssh than there is room for");
        return FY_ERR_INVALID;
    }
    memcpy(to->options + to->noptions, said->options,
           said->noptions * sizeof *to->options);
    to->noptions += said->noptions;
    keep_option(to->port, said->port, sizeof to->port);
    keep_option(to->config, said->config, sizeof to->config);
    keep_option(to->command, said->command, sizeof to->command);
    keep_option(to->ferry, said->ferry, sizeof to->ferry);
    return 0;
}

int
fy_mount_source(const char *source, struct fy_mount_request *out,
                struct fy_buffer *why)
{
    struct fy_place place;
    memset(&place, 0, sizeof place);
    out->source = source;
    if (strstr(source, "://")) {
        int status = fy_place_parse(source, &place, why);
        if (status) {
            return status;
        }
    } else if (!fy_place_of_source(source, &place)) {
        fy_buffer_printf(why, "'%s%s", source,
                         strstr(source, ":~")
                             ? "' names a home: write HOST:FOLDER for what is "
                               "below yours there"
                             : "' is not [USER@]HOST:[PATH]");
        return FY_ERR_INVALID;
    }
    if (add_options(&out->place, &place, why)) {
        return FY_ERR_INVALID;
    }
    out->place = place;
    /* Options may have made a place of it that cannot be written down. */
    char text[3 * sizeof place];
    struct fy_buffer written;
    fy_buffer_start(&written, text, sizeof text);
    fy_place_write(&out->place, &written);
    return fy_place_parse(text, &place, why);
}

static bool
is_empty(const char *folder)
{
    DIR *all = opendir(folder);
    unsigned names = 0;
    while (all && names < 3 && readdir(all)) {
        names++;
    }
    if (all) {
        closedir(all);
    }
    return names <= 2; /* . and .. */
}

/* A mount of ferry on it is said. */
static bool
is_taken(const char *folder)
{
    struct fy_mount *mount = calloc(1, sizeof *mount);
    bool taken = mount && fy_mount_find(folder, mount) == 0;
    if (taken) {
        fy_say("%s: %s: 'ferry umount %s' takes it away", folder,
               mount->pid > 0
                   ? "a mount of ferry is there already"
                   : "a mount of ferry is there whose process has ended",
               folder);
    }
    free(mount);
    return taken;
}

/* The folder is one that can be mounted on; its name without links. */
static int
take_folder(const char *folder, struct fy_mount_request *out)
{
    struct stat about;
    if (is_taken(folder)) {
        return FY_EXIT_MOUNT_FAILED;
    }
    if (!realpath(folder, out->folder) || stat(out->folder, &about) != 0) {
        fy_say("%s: %s", folder, strerror(errno));
    } else if (!S_ISDIR(about.st_mode)) {
        fy_say("%s: %s", folder, strerror(ENOTDIR));
    } else if (strcmp(out->folder, "/") == 0) {
        fy_say("the root folder cannot be mounted on");
    } else if (!out->nonempty && !is_empty(out->folder)) {
        fy_say("%s is not empty: -o nonempty mounts on it all the same",
               folder);
    } else {
        return FY_EXIT_OK;
    }
    return FY_EXIT_MOUNT_FAILED;
}

/* Both operands, once options are known. */
static int
take_operands(int n, char **operands, struct fy_mount_request *out)
{
    char cause[CAUSE_BYTES];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    if (n != 2) {
        fy_say(n < 2 ? "expected HOST:PATH and FOLDER"
                     : "more operands than HOST:PATH and FOLDER");
        return usage();
    }
    if (fy_mount_source(operands[0], out, &why)) {
        fy_say("%s", cause);
        return usage();
    }
    return take_folder(operands[1], out);
}

static int
take_words(const char *list, struct fy_mount_request *out)
{
    char cause[CAUSE_BYTES];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    if (fy_mount_words(list, out, &why)) {
        fy_say("%s", cause);
        return FY_ERR_INVALID;
    }
    return 0;
}

/* ssh's -F: a file, from any folder. */
static int
take_config(const char *path, struct fy_mount_request *out)
{
    char real[PATH_MAX];
    const char *found = strcmp(path, "none") == 0 ? path : realpath(path, real);
    if (!found || strlen(found) >= sizeof out->place.config) {
        fy_say("-F %s: %s", path, strerror(found ? ENAMETOOLONG : errno));
        return FY_ERR_INVALID;
    }
    strcpy(out->place.config, found);
    return 0;
}

static int
take_short(int id, struct fy_mount_request *out)
{
    char port[32];
    switch (id) {
    case 'o':
        return take_words(optarg, out);
    case 'p':
        (void)snprintf(port, sizeof port, "port=%s", optarg);
        return take_words(port, out);
    case 'C':
        return take_words("compression=yes", out);
    case 'F':
        return take_config(optarg, out);
    case 'f':
        out->how = FY_MOUNT_FOREGROUND;
        return 0;
    case 'r':
        return take_words("ro", out);
    default: /* getopt has said it */
        return FY_ERR_INVALID;
    }
}

/* Serves mount(8) for a line of fstab: mount.ferry SOURCE FOLDER [-sfnv] [-o
 * LIST]. Nothing is said of a success. */
int
fy_tool_mount_helper(int argc, char **argv)
{
    struct fy_mount_request request;
    bool fake = false, wrong = false;
    int id;
    memset(&request, 0, sizeof request);
    request.how = FY_MOUNT_QUIETLY;
    while ((id = getopt(argc, argv, "sfnvrwN:t:o:")) != -1) {
        fake = fake || id == 'f';
        wrong = wrong || id == '?' ||
                (id == 'o' && take_words(optarg, &request)) ||
                (id == 'r' && take_words("ro", &request));
    }
    if (wrong) {
        return FY_EXIT_MOUNT_USAGE;
    }
    int status = take_operands(argc - optind, argv + optind, &request);
    return status || fake ? status : fy_mount_start(&request);
}

int
fy_tool_mount(int argc, char **argv)
{
    static const struct option words[] = {{"help", no_argument, NULL, 'H'},
                                          {NULL, 0, NULL, 0}};
    struct fy_mount_request request;
    int id;
    memset(&request, 0, sizeof request);
    optind = 0;
    while ((id = getopt_long(argc, argv, "o:p:F:Cfr", words, NULL)) != -1) {
        if (id == 'H') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (take_short(id, &request)) {
            return usage();
        }
    }
    int status = take_operands(argc - optind, argv + optind, &request);
    return status ? status : fy_finish_output(fy_mount_start(&request));
}
