/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry deploy: copies the proxy with its libraries and annotations to a storage host, into
 * ~/.cache/ferry of the user that ssh logs in as. A tar archive through ssh; the host
 * needs sh and tar, of BusyBox or any other. An older copy is replaced once the new copy
 * has run and said the version.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/path.h"
#include "common/whole.h"
#include "proxy/storage/closure.h"
#include "proxy/wire/transport.h"
#include "tools/tool.h"

enum {
    BLOCK_BYTES = 512,
    FILE_MAX_BYTES = 64 << 20,
    NAME_BYTES = 100, /* of a name in the archive */
    DEPTH_MAX = 8,
};

static const char help[] = "Usage: ferry deploy [--remove] [USER@]HOST...\n"
                           "Copies ferry to ~/.cache/ferry of these hosts, by "
                           "ssh. They need sh and tar.\n\n"
                           "  --remove  delete all that ferry has left there\n"
                           "  --help\n";

/* POSIX sh; in single quotes for whatever login shell, so without these and without the
 * exclamation mark, which csh takes in quotes as well. */
static const char install[] =
    "exec sh -c 'umask 077; c=\"${XDG_CACHE_HOME:-$HOME/.cache}/ferry\"; "
    "v=" PACKAGE_VERSION "; n=\"$c/new-$$\"; "
    "fail() { echo \"ferry: $1\" >&2; rm -rf \"$n\"; exit 1; }; "
    "mkdir -p \"$c/bin\" \"$n\" || fail \"cannot make $n\"; "
    "(cd \"$n\" && tar xf -) || fail \"cannot unpack in $c\"; "
    "r=\"$c/ferry-$v\"; l=lib/ld-linux-x86-64.so.2; "
    "t=`\"$n/$l\" --library-path \"$n/lib\" \"$n/bin/ferry\" --version 2>&1` "
    "|| "
    "fail \"it cannot run here: $t\"; "
    "[ \"$t\" = \"ferry $v\" ] || fail \"it says $t\"; "
    "rm -rf \"$r\" && mv \"$n\" \"$r\" || fail \"cannot replace $r\"; "
    "if [ -d \"$r/${n##*/}\" ]; then n=\"$r/${n##*/}\"; "
    "fail \"another copy came at the same time\"; fi; "
    "printf \"#\\041/bin/sh\\n"
    "r=\\\"\\${XDG_CACHE_HOME:-\\$HOME/.cache}/ferry/ferry-$v\\\"\\n"
    "exec \\\"\\$r/$l\\\" --library-path \\\"\\$r/lib\\\" "
    "\\\"\\$r/bin/ferry\\\" \\\"\\$@\\\"\\n\" >\"$c/bin/new-$$\" && "
    "chmod 755 \"$c/bin/new-$$\" && "
    "mv \"$c/bin/new-$$\" \"$c/bin/ferry-$v\" || fail \"cannot write $c/bin\"'";

static const char uninstall[] =
    "exec sh -c 'c=\"${XDG_CACHE_HOME:-$HOME/.cache}/ferry\"; "
    "rm -rf \"$c\"/ferry-* \"$c\"/new-* \"$c/store\" \"$c\"/bin/ferry-* "
    "\"$c\"/bin/new-*; "
    "rmdir \"$c/bin\" \"$c\" 2>/dev/null; exit 0'";

/* ---- the archive ---------------------------------------------------------------------- */

struct archive {
    int fd;
    uint64_t bytes; /* of files */
    int status;
};

/* Writes a number as so many octal digits and a NUL. */
static void
put_octal(char *to, size_t n, uint64_t value)
{
    to[--n] = '\0';
    while (n-- > 0) {
        to[n] = (char)('0' + (value & 7));
        value >>= 3;
    }
}

/* Appends a file of that name (POSIX ustar). */
static void
put_file(struct archive *archive, const char *name, const char *path,
         unsigned mode)
{
    char head[BLOCK_BYTES] = "";
    static const char zeros[BLOCK_BYTES];
    unsigned sum = 0;
    size_t n = 0;
    char *bytes =
        archive->status ? NULL : fy_read_file(path, FILE_MAX_BYTES, &n);
    if (!bytes || strlen(name) >= NAME_BYTES) {
        if (!archive->status) {
            fy_say("%s: %s", path,
                   bytes ? "its name is too long" : strerror(errno));
        }
        archive->status = FY_ERR_IO;
        free(bytes);
        return;
    }
    strcpy(head, name);
    put_octal(head + 100, 8, mode);
    put_octal(head + 108, 8, 0);
    put_octal(head + 116, 8, 0);
    put_octal(head + 124, 12, n);
    put_octal(head + 136, 12, 0);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof head; i++) {
        sum += (unsigned char)head[i];
    }
    put_octal(head + 148, 7, sum);
    size_t rest = n % BLOCK_BYTES ? BLOCK_BYTES - n % BLOCK_BYTES : 0;
    if (fy_write_whole(archive->fd, head, sizeof head) ||
        fy_write_whole(archive->fd, bytes, n) ||
        fy_write_whole(archive->fd, zeros, rest)) {
        archive->status = FY_ERR_IO; /* the other side has said why */
    }
    archive->bytes += n;
    free(bytes);
}

/* Appends the files below `folder'. */
static void
put_folder(struct archive *archive, const char *name, const char *folder,
           unsigned depth)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    if (!dir || depth == DEPTH_MAX) {
        fy_say("%s: %s", folder, dir ? "too deep" : strerror(errno));
        archive->status = FY_ERR_IO;
    }
    while (dir && !archive->status && (entry = readdir(dir))) {
        char path[PATH_MAX], named[PATH_MAX];
        struct stat about;
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >=
                (int)sizeof path ||
            snprintf(named, sizeof named, "%s/%s", name, entry->d_name) >=
                (int)sizeof named ||
            stat(path, &about) != 0) {
            continue;
        }
        if (S_ISDIR(about.st_mode)) {
            put_folder(archive, named, path, depth + 1);
        } else if (S_ISREG(about.st_mode)) {
            put_file(archive, named, path, 0644);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
}

static void
put_all(struct archive *archive, const struct fy_closure *closure,
        const struct fy_places *places)
{
    static const char zeros[2 * BLOCK_BYTES];
    for (unsigned i = 0; i < closure->n; i++) {
        const char *path = closure->files[i].path;
        char name[NAME_BYTES + NAME_MAX];
        (void)snprintf(name, sizeof name, "%s/%s", i ? "lib" : "bin",
                       i ? fy_path_name(path) : "ferry");
        put_file(archive, name, path, 0755);
    }
    put_folder(archive, "share/ferry/annotations/lib", places->library, 0);
    if (!archive->status && fy_write_whole(archive->fd, zeros, sizeof zeros)) {
        archive->status = FY_ERR_IO;
    }
}

/* ---- the hosts ------------------------------------------------------------------------- */

int
fy_tool_host(const char *text, struct fy_place *out)
{
    char whole[1024], said[200] = "";
    struct fy_buffer why;
    bool place = strstr(text, "://");
    fy_buffer_start(&why, said, sizeof said);
    int n = snprintf(whole, sizeof whole, "%s%s%s", place ? "" : "ssh://", text,
                     place ? "" : "/");
    if (!place && strpbrk(text, "/?")) {
        fy_say("%s: expected [USER@]HOST", text);
        return FY_ERR_INVALID;
    }
    int status = n >= (int)sizeof whole ? FY_ERR_INVALID
                                        : fy_place_parse(whole, out, &why);
    if (!status && fy_place_is_near(out)) {
        fy_buffer_add(&why, "it is this machine");
        status = FY_ERR_INVALID;
    }
    if (status) {
        fy_say("%s: %s", text, said);
    }
    return status;
}

/* Runs the script there; `closure' NULL: nothing is sent. */
static int
visit(const char *text, const char *script, const struct fy_closure *closure,
      const struct fy_places *places)
{
    char said[200] = "";
    struct fy_buffer why;
    struct fy_place place;
    struct archive archive = {.fd = -1};
    int ends[2], ended = 1;
    pid_t pid;
    fy_buffer_start(&why, said, sizeof said);
    if (fy_tool_host(text, &place)) {
        return FY_EXIT_USAGE;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fy_say("%s: %s", text, strerror(errno));
        return FY_EXIT_FAILURE;
    }
    int status = fy_ssh_run(&place, script, ends[0], &why, &pid);
    (void)close(ends[0]);
    if (status) {
        (void)close(ends[1]);
        fy_say("%s: %s", text, said);
        return FY_EXIT_FAILURE;
    }
    archive.fd = ends[1];
    if (closure) {
        put_all(&archive, closure, places);
    }
    (void)close(ends[1]);
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
    }
    if (ended != 0 || archive.status) {
        fy_say("%s: ferry was not %s", text, closure ? "copied" : "removed");
        return FY_EXIT_FAILURE;
    }
    if (closure) {
        printf("%s: ferry %s is in ~/.cache/ferry, %.1f MB\n", text,
               PACKAGE_VERSION, (double)archive.bytes / 1e6);
    } else {
        printf("%s: nothing of ferry is left\n", text);
    }
    (void)fflush(stdout);
    return FY_EXIT_OK;
}

int
fy_tool_deploy(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"remove", no_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    char said[200] = "";
    struct fy_buffer why;
    struct fy_places places;
    bool removes = false;
    int id, result = FY_EXIT_OK;
    optind = 0;
    while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (id == 'h') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (id != 'r') {
            return fy_usage_error("deploy");
        }
        removes = true;
    }
    if (optind == argc) {
        fy_say("deploy: no host is named");
        return fy_usage_error("deploy");
    }
    (void)signal(SIGPIPE, SIG_IGN);
    fy_places_find(&places);
    fy_buffer_start(&why, said, sizeof said);
    struct fy_closure *closure = removes ? NULL : calloc(1, sizeof *closure);
    if (!removes && (!closure || fy_closure_add_program(closure, places.ferry,
                                                        true, &why))) {
        fy_say("cannot find all that ferry needs: %s", said);
        fy_closure_free(closure);
        return FY_EXIT_FAILURE;
    }
    for (int i = optind; i < argc; i++) {
        int status =
            visit(argv[i], removes ? uninstall : install, closure, &places);
        result = status > result ? status : result;
    }
    fy_closure_free(closure);
    return fy_finish_output(result);
}
