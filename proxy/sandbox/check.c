/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of a stage before anything is started: folder by folder, operand by
 * operand, program, configuration and limits. Refuses on every doubt; the
 * client then runs the command itself. Runs in threads of the proxy; what they
 * share is the policy.
 * Long because the steps of one check share its state and serve nothing else.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "common/debug.h"
#include "common/kernel.h"
#include "common/path.h"
#include "proxy/sandbox/check.h"
#include "proxy/storage/needs.h"
#include "proxy/storage/store.h"
#include "proxy/storage/tools.h"
#include "proxy/wire/temporary.h"

enum {
    LINKERS_MAX = 4,
};

int
fy_check_refuse(struct fy_check *check, unsigned reason, const char *a,
                const char *b, const char *c)
{
    return fy_refuse(check->out_reason, reason, check->why, a, b, c);
}

bool
fy_check_text(const struct fy_bytes *bytes, char *out, size_t capacity)
{
    if (!bytes->at || bytes->n >= capacity ||
        memchr(bytes->at, '\0', bytes->n)) {
        return false;
    }
    memcpy(out, bytes->at, bytes->n);
    out[bytes->n] = '\0';
    return true;
}

static void
trim_slashes(char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') {
        path[--n] = '\0';
    }
}

static int
check_place(struct fy_check *check, const struct fy_bytes *mount_bytes,
            const struct fy_bytes *root_bytes)
{
    char root[PATH_MAX];
    struct fy_seen *seen = &check->seen[check->nseen];
    if (!fy_check_text(mount_bytes, seen->mount, sizeof seen->mount) ||
        seen->mount[0] != '/' ||
        !fy_check_text(root_bytes, root, sizeof root) || !*root) {
        return fy_check_refuse(check, FY_STAGE_REFUSED, "a malformed mount",
                               NULL, NULL);
    }
    trim_slashes(seen->mount);
    int status = fy_roots_find(check->policy, root, &seen->root,
                               check->out_reason, check->why);
    seen->root.exported = check->spec->exported;
    check->nseen += !status;
    return status;
}

static int
by_mount(const void *a, const void *b)
{
    return strcmp(((const struct fy_seen *)a)->mount,
                  ((const struct fy_seen *)b)->mount);
}

/*
 * Of several mounts none may be in another, there or here: the client would see
 * one file as two, or one mount's point in the other one's files.
 */
static bool
is_apart(const struct fy_seen *a, const struct fy_seen *b)
{
    char ignored[PATH_MAX];
    return !fy_client_relative(a->mount, b->mount, ignored, sizeof ignored) &&
           !fy_client_relative(a->root.path, b->root.path, ignored,
                               sizeof ignored) &&
           (a->root.device != b->root.device || a->root.inode != b->root.inode);
}

static int
check_places(struct fy_check *check)
{
    const struct fy_stage_spec *spec = check->spec;
    int status = check_place(check, &spec->mount, &spec->root);
    for (uint32_t i = 0; !status && i < spec->nmounts; i++) {
        status = check->nseen == FY_MAX_SEEN
                     ? fy_check_refuse(check, FY_STAGE_REFUSED,
                                       "too many mounts", NULL, NULL)
                     : check_place(check, &spec->mounts[i].mount,
                                   &spec->mounts[i].root);
    }
    qsort(check->seen, check->nseen, sizeof check->seen[0], by_mount);
    for (unsigned i = 0; !status && i < check->nseen; i++) {
        for (unsigned j = 0; !status && j < check->nseen; j++) {
            if (i != j && !is_apart(&check->seen[i], &check->seen[j])) {
                status = fy_check_refuse(check, FY_STAGE_NESTED_MOUNT,
                                         check->seen[i].mount, " and ",
                                         check->seen[j].mount);
            }
        }
    }
    check->on = check->seen;
    return status;
}

static struct fy_seen *
seen_of(struct fy_check *check, const char *path, char out[PATH_MAX])
{
    return fy_seen_of(check->seen, check->nseen, path, out, PATH_MAX);
}

/*
 * What a stage that shows owners will look at. A long listing of the mount's own
 * folder shows "..": a folder of the client.
 */
static int
check_shown(struct fy_check *check, int fd, bool tree)
{
    const struct fy_invocation *invocation = check->invocation;
    struct stat about;
    if (!fy_invocation_is(invocation, FY_TRAIT_OWNERS)) {
        return 0;
    }
    bool looks = fy_invocation_is(invocation, FY_TRAIT_ATTRIBUTES) &&
                 fstat(fd, &about) == 0;
    for (unsigned i = 0; looks && i < check->nseen; i++) {
        if (about.st_dev == check->seen[i].root.device &&
            about.st_ino == check->seen[i].root.inode) {
            return fy_check_refuse(
                check, FY_STAGE_OTHER_NAMES,
                "the mount's own folder may be shown with what it is in", NULL,
                NULL);
        }
    }
    if (fy_namespace_kind(check->policy) == FY_NAMESPACE_USER &&
        !check->strangers) {
        check->strangers = !invocation->pure || !fy_all_owned(fd, tree);
    }
    return 0;
}

/* Whether a mount point lies in that folder, which so exists there too. */
static bool
is_above(const struct fy_check *check, const char *folder)
{
    char ignored[PATH_MAX];
    bool above = false;
    for (unsigned i = 0; i < check->nseen; i++) {
        above = above || fy_client_relative(folder, check->seen[i].mount,
                                            ignored, sizeof ignored);
    }
    return above && folder[1] && !strstr(folder, "//") && !strstr(folder, "/.");
}

/*
 * A command that looks for something in the folders above its own (.git) goes by
 * the tree that begins there: the highest such folder.
 */
static void
find_top(const struct fy_check *check, char *out)
{
    const struct fy_invocation *invocation = check->invocation;
    char folder[PATH_MAX], path[PATH_MAX];
    strcpy(folder, check->base);
    strcpy(out, check->base);
    for (bool more = true; more;) {
        for (uint32_t i = 0; i < invocation->nabsents; i++) {
            const char *name = invocation->absents[i].path;
            size_t n = strcspn(name, "/");
            int used =
                snprintf(path, sizeof path, "%s/%.*s", folder, (int)n, name);
            int fd;
            unsigned ignored;
            if (n > 0 && *name != '~' && used > 0 &&
                (size_t)used < sizeof path &&
                fy_resolve(&check->on->root, path, 0, "", &fd, &ignored,
                           NULL) == 0) {
                close(fd);
                strcpy(out, folder);
                break;
            }
        }
        char *slash = strrchr(folder, '/');
        more = strcmp(folder, ".") != 0;
        if (slash) {
            *slash = '\0';
        } else {
            strcpy(folder, ".");
        }
    }
}

/* What is looked at for the working folder as such. */
static int
check_tree(struct fy_check *check, const char *shown)
{
    const struct fy_invocation *invocation = check->invocation;
    unsigned flags = FY_RESOLVE_FOLDER;
    char top[PATH_MAX];
    int fd;
    flags |= invocation->cwd_is_tree ? FY_RESOLVE_TREE : FY_RESOLVE_SHALLOW;
    flags |= invocation->cwd_follows ? FY_RESOLVE_FOLLOWS : 0;
    if (check->spec->hides_links &&
        fy_invocation_is(invocation, FY_TRAIT_TARGETS)) {
        flags |= FY_RESOLVE_TARGETS;
    }
    if (!(flags & (FY_RESOLVE_FOLLOWS | FY_RESOLVE_TARGETS))) {
        return 0;
    }
    find_top(check, top);
    int status = fy_resolve(&check->on->root, top, flags, shown, &fd,
                            check->out_reason, check->why);
    if (!status) {
        close(fd);
    }
    return status;
}

/* The working folder: beneath the mount, or a stage that does not use it. */
static int
check_folder(struct fy_check *check)
{
    char folder[PATH_MAX];
    int fd;
    if (!fy_check_text(&check->spec->cwd, folder, sizeof folder) ||
        folder[0] != '/') {
        return fy_check_refuse(check, FY_STAGE_REFUSED,
                               "a malformed working folder", NULL, NULL);
    }
    const struct fy_invocation *invocation = check->invocation;
    struct fy_seen *on = seen_of(check, folder, check->base);
    if (!on) {
        if (invocation->reads_cwd || invocation->writes_cwd) {
            return fy_check_refuse(check, FY_STAGE_OUTSIDE,
                                   "the working folder ", folder,
                                   " is not on the mount");
        }
        check->base[0] = '\0';
        strcpy(check->sandbox->folder, is_above(check, folder) ? folder : "/");
        return 0;
    }
    check->on = on;
    unsigned flags = FY_RESOLVE_FOLDER |
                     (invocation->cwd_is_tree ? FY_RESOLVE_TREE : 0) |
                     (invocation->reads_cwd ? FY_RESOLVE_SHOWS : 0);
    int status = fy_resolve(&on->root, check->base, flags, folder, &fd,
                            check->out_reason, check->why);
    if (status) {
        return status;
    }
    if (invocation->reads_cwd) {
        status = check_shown(check, fd, invocation->cwd_is_tree);
        status = status ? status : check_tree(check, folder);
    }
    close(fd);
    trim_slashes(folder);
    strcpy(check->sandbox->folder, folder);
    return status;
}

static bool
is_device(const char *path)
{
    return strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/zero") == 0 ||
           strcmp(path, "/dev/full") == 0;
}

/* An operand or folder as the client names it: relative to the root. */
static int
to_relative(struct fy_check *check, const char *text, char *out,
            struct fy_seen **on)
{
    *on = check->on;
    if (*text == '/') {
        *on = seen_of(check, text, out);
        if (!*on) {
            return fy_check_refuse(check, FY_STAGE_OUTSIDE, text,
                                   " is not on the mount", NULL);
        }
        return 0;
    }
    if (!*check->base && check->sandbox->folder[1]) {
        char whole[PATH_MAX];
        *on = fy_path_join(check->sandbox->folder, text, whole)
                  ? NULL
                  : seen_of(check, whole, out);
        if (*on) {
            return 0;
        }
    }
    if (!*check->base) {
        return fy_check_refuse(
            check, FY_STAGE_OUTSIDE, text,
            " is relative to a folder that is not on the mount", NULL);
    }
    /* Not collapsed: the kernel knows what .. means behind links. */
    int n = snprintf(out, PATH_MAX, "%s/%s", check->base, text);
    if (n < 0 || n >= PATH_MAX) {
        return fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH,
                               "a path is too long", NULL, NULL);
    }
    return 0;
}

/* The files that the client writes the stage's output to. */
static int
check_outputs(struct fy_check *check)
{
    const struct fy_stage_spec *spec = check->spec;
    int status = 0;
    if (spec->noutputs > FY_CHECK_OUTPUTS_MAX) {
        return fy_check_refuse(check, FY_STAGE_REFUSED, "too many outputs",
                               NULL, NULL);
    }
    for (uint32_t i = 0; !status && i < spec->noutputs; i++) {
        char path[PATH_MAX], relative[PATH_MAX];
        struct stat about;
        int fd;
        struct fy_seen *on = fy_check_text(&spec->outputs[i], path, sizeof path)
                                 ? seen_of(check, path, relative)
                                 : NULL;
        if (!on) {
            return fy_check_refuse(check, FY_STAGE_OUTSIDE, "an output",
                                   " is not on the mount", NULL);
        }
        status = fy_resolve(&on->root, relative, 0, path, &fd,
                            check->out_reason, check->why);
        if (status) {
            break;
        }
        if (fstat(fd, &about) != 0) {
            status =
                fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH, path, NULL, NULL);
        } else {
            check->outputs[check->noutputs].device = about.st_dev;
            check->outputs[check->noutputs].inode = about.st_ino;
            check->outputs[check->noutputs++].linked = about.st_nlink > 1;
        }
        close(fd);
    }
    return status;
}

/* Whether what the stage reads is a file that its output goes to. In a tree it
 * has its own name, which the client has looked for, or another one. */
static int
check_alike(struct fy_check *check, int fd, bool tree, const char *shown)
{
    struct stat about;
    bool alike = false;
    if (check->noutputs == 0) {
        return 0;
    }
    bool known = fstat(fd, &about) == 0;
    for (unsigned i = 0; i < check->noutputs; i++) {
        alike = alike || !known || (tree && check->outputs[i].linked) ||
                (about.st_dev == check->outputs[i].device &&
                 about.st_ino == check->outputs[i].inode);
    }
    return alike ? fy_check_refuse(check, FY_STAGE_ODD_STREAM,
                                   "it reads what it writes: ", shown, NULL)
                 : 0;
}

/*
 * Waits until no NFS client reads the file by a delegation alone (which is a
 * lease at the server): a command that opens it without waiting would be told EAGAIN.
 */
static void
recall(int fd)
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int opened = open(link, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (opened >= 0) {
        close(opened);
    }
}

static int
check_use(struct fy_check *check, const struct fy_use *use)
{
    char text[PATH_MAX], relative[PATH_MAX];
    const struct fy_stage_spec *spec = check->spec;
    if (use->is_stdin) {
        return 0;
    }
    if (use->arg >= spec->argc || use->offset > spec->argv[use->arg].n) {
        return fy_check_refuse(check, FY_STAGE_REFUSED, "a malformed operand",
                               NULL, NULL);
    }
    struct fy_bytes bytes = {spec->argv[use->arg].at + use->offset,
                             spec->argv[use->arg].n - use->offset};
    if (!fy_check_text(&bytes, text, sizeof text)) {
        return fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH,
                               "a path is too long", NULL, NULL);
    }
    if (!*text || is_device(text)) {
        return 0; /* "" exists nowhere */
    }
    struct fy_seen *on;
    int status = to_relative(check, text, relative, &on);
    if (status) {
        return status;
    }
    unsigned flags = FY_RESOLVE_MISSING | FY_RESOLVE_SHOWS;
    if (use->kind == FY_USE_FOLDER) {
        flags = FY_RESOLVE_FOLDER;
    } else if (use->kind == FY_USE_TREE) {
        flags |= FY_RESOLVE_TREE | (use->follows ? FY_RESOLVE_FOLLOWS : 0);
        if (spec->hides_links &&
            fy_invocation_is(check->invocation, FY_TRAIT_TARGETS)) {
            flags |= FY_RESOLVE_TARGETS;
        }
    }
    int fd;
    status = fy_resolve(&on->root, relative, flags, text, &fd,
                        check->out_reason, check->why);
    if (status) {
        return status;
    }
    if (fd >= 0) {
        status = check_shown(check, fd, use->kind == FY_USE_TREE);
        if (!status && use->access != FY_ACCESS_OUT) {
            status = check_alike(check, fd, use->kind == FY_USE_TREE, text);
        }
        if (!status && on->root.exported && use->access != FY_ACCESS_IN) {
            recall(fd);
        }
        close(fd);
    }
    if (!status && check->names && use->access != FY_ACCESS_IN &&
        use->kind != FY_USE_FOLDER) {
        status = fy_names_check(check->names, &on->root, relative, use, text);
    }
    if (status) {
        return status;
    }
    on->writes = on->writes || use->access != FY_ACCESS_IN;
    check->writes = check->writes || on->writes;
    if (use->kind == FY_USE_FOLDER) {
        check->on = on;
        strcpy(check->base, relative);
    }
    return 0;
}

static int
check_uses(struct fy_check *check)
{
    int status = 0;
    const struct fy_invocation *invocation = check->invocation;
    bool names_outputs = false;
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        names_outputs =
            names_outputs || (!invocation->uses[i].is_stdin &&
                              invocation->uses[i].access != FY_ACCESS_IN);
    }
    check->writes = invocation->effect || invocation->writes_cwd;
    /* What writes without saying where may do so on every mount. */
    for (unsigned i = 0; i < check->nseen; i++) {
        check->seen[i].writes =
            check->writes &&
            (check->nseen == 1 || invocation->writes_cwd || !names_outputs);
    }
    for (uint32_t i = 0; !status && i < check->invocation->nuses; i++) {
        status = check_use(check, &check->invocation->uses[i]);
    }
    /* What is written there by git is no link. */
    if (!status && check->names && invocation->writes_cwd &&
        !invocation->nwritten) {
        status = fy_names_check_folder(check->names, &check->on->root,
                                       check->base, "the working folder");
    }
    return status;
}

/* A descriptor of the host's file `path' (or of the mount's, by the client's
 * path), *out_fd -1 when there is none. What cannot be told is an error. */
static int
open_any(struct fy_check *check, const char *path, bool *in_root, int *out_fd)
{
    char relative[PATH_MAX];
    struct fy_seen *on = seen_of(check, path, relative);
    *in_root = on;
    if (!*in_root) {
        *out_fd = open(path, O_PATH | O_CLOEXEC);
        return *out_fd >= 0 || errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : FY_ERR_UNSUPPORTED;
    }
    unsigned ignored;
    return fy_resolve(&on->root, relative, FY_RESOLVE_MISSING, path, out_fd,
                      &ignored, NULL);
}

bool
fy_check_keep_file(struct fy_check *check, int fd, const char *path)
{
    if (check->nfiles == FY_CHECK_FILES_MAX ||
        !(check->paths[check->nfiles] = strdup(path))) {
        close(fd);
        return false;
    }
    check->files[check->nfiles++] = fd;
    return true;
}

/* The program at `path' is the client's: held. */
static bool
is_same_tool(struct fy_check *check, const char *path, const char *identity)
{
    char link[40], here[512];
    bool in_root;
    int fd;
    if (open_any(check, path, &in_root, &fd) != 0 || fd < 0) {
        return false;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (faccessat(AT_FDCWD, link, X_OK, 0) != 0 ||
        fy_tool_identity(link, here, sizeof here) != 0 ||
        strcmp(here, identity) != 0) {
        close(fd);
        return false;
    }
    check->nprograms++;
    return fy_check_keep_file(check, fd, path);
}

static int
check_words(struct fy_check *check)
{
    int status = fy_refuse_name(check->spec, check->out_reason, check->why);
    return status ? status
                  : fy_refuse_terminal(check->spec, check->invocation,
                                       check->out_reason, check->why);
}

/* Folders in which a program may stand instead of the client's path. */
static const char *const tool_folders[] = {"/usr/bin", "/bin", "/usr/local/bin",
                                           "/usr/sbin", "/sbin"};

/* Path number i to look at, 0: the client's; false: there are no more. */
static bool
tool_path(const char *path, size_t i, char out[PATH_MAX])
{
    if (i > sizeof tool_folders / sizeof tool_folders[0]) {
        return false;
    }
    int n = i ? snprintf(out, PATH_MAX, "%s%s", tool_folders[i - 1],
                         strrchr(path, '/'))
              : snprintf(out, PATH_MAX, "%s", path);
    return n > 0 && n < PATH_MAX;
}

bool
fy_policy_has_tool(const struct fy_tool *tool)
{
    char path[PATH_MAX], other[PATH_MAX], identity[512], found[512];
    if (!fy_check_text(&tool->path, path, sizeof path) || path[0] != '/' ||
        !fy_check_text(&tool->identity, identity, sizeof identity)) {
        return false;
    }
    for (size_t i = 0; tool_path(path, i, other); i++) {
        if (access(other, X_OK) == 0 &&
            fy_tool_identity(other, found, sizeof found) == 0 &&
            strcmp(found, identity) == 0) {
            return true;
        }
    }
    return false;
}

/* A wrapper that somebody gave a tool's name is not what the annotation speaks of; those of
 * the system (zgrep, egrep) are. */
static int
check_wrapper(struct fy_check *check, const char *path)
{
    bool wraps = strchr(check->identity, '+') &&
                 strncmp(path, "/usr/bin/", 9) != 0 &&
                 strncmp(path, "/bin/", 5) != 0;
    return wraps ? fy_check_refuse(check, FY_STAGE_OTHER_TOOL, path,
                                   " is a script that is no part of the system",
                                   NULL)
                 : 0;
}

/* Finds this host's own program of that name. */
static int
find_theirs(struct fy_check *check, const char *path)
{
    char other[PATH_MAX], found[sizeof check->identity];
    for (size_t i = 0; tool_path(path, i, other); i++) {
        if (access(other, X_OK) == 0 &&
            fy_tool_identity(other, found, sizeof found) == 0 &&
            is_same_tool(check, other, found)) {
            strcpy(check->identity, found);
            strcpy(check->sandbox->program, other);
            (void)snprintf(check->sandbox->home, sizeof check->sandbox->home,
                           "%s", check->policy->home);
            return check_wrapper(check, other);
        }
    }
    return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, path,
                           " is missing there", NULL);
}

static int
check_tool(struct fy_check *check)
{
    char path[PATH_MAX], other[PATH_MAX];
    const struct fy_tool *tool = &check->spec->tool;
    char *identity = check->identity;
    if (!fy_check_text(&tool->path, path, sizeof path) || path[0] != '/' ||
        !fy_check_text(&tool->identity, identity, sizeof check->identity) ||
        !*identity) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL,
                               "a malformed program", NULL, NULL);
    }
    check->theirs = strcmp(identity, FY_TOOL_THEIRS) == 0;
    if (check->theirs) {
        return find_theirs(check, path);
    }
    int status = check_wrapper(check, path);
    if (status) {
        return status;
    }
    for (size_t i = 0; tool_path(path, i, other); i++) {
        if (is_same_tool(check, other, identity)) {
            strcpy(check->sandbox->program, other);
            return 0;
        }
    }
    return check->spec->ncarried && !strchr(identity, '+')
               ? fy_carried_stand(check, path)
               : fy_check_refuse(check, FY_STAGE_OTHER_TOOL, path,
                                 " is missing or another version there", NULL);
}

const char *
fy_check_variable(const struct fy_stage_spec *spec, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; i < spec->envc; i++) {
        const struct fy_bytes *entry = &spec->env[i];
        if (entry->n > n && memcmp(entry->at, name, n) == 0 &&
            entry->at[n] == '=') {
            return entry->at + n + 1;
        }
    }
    return "";
}

const char *const fy_locale_variables[FY_LOCALE_VARIABLES] = {
    "LC_ALL",
    "LC_CTYPE",
    "LC_NUMERIC",
    "LC_TIME",
    "LC_COLLATE",
    "LC_MONETARY",
    "LC_MESSAGES",
    "LC_PAPER",
    "LC_NAME",
    "LC_ADDRESS",
    "LC_TELEPHONE",
    "LC_MEASUREMENT",
    "LC_IDENTIFICATION",
    "LANG"};

static bool
has_locale(const char *name)
{
    locale_t locale = newlocale(LC_ALL_MASK, name, (locale_t)0);
    if (locale) {
        freelocale(locale);
    }
    return locale;
}

/* Variables that change what the program is, and the locale. */
static int
check_environment(struct fy_check *check)
{
    const struct fy_stage_spec *spec = check->spec;
    int status = fy_refuse_environment(spec, check->out_reason, check->why);
    if (status) {
        return status;
    }
    char texts[FY_LOCALE_VARIABLES + 1][160];
    const char *environment[FY_LOCALE_VARIABLES + 2];
    size_t n = 0;
    for (size_t i = 0; i <= FY_LOCALE_VARIABLES; i++) {
        const char *name =
            i < FY_LOCALE_VARIABLES ? fy_locale_variables[i] : "LOCPATH";
        const char *value = fy_check_variable(spec, name);
        if (check->theirs && i < FY_LOCALE_VARIABLES && *value &&
            !has_locale(value)) {
            continue; /* then it is "C", as for every login */
        }
        if (strlen(value) > 120) {
            return fy_check_refuse(check, FY_STAGE_OTHER_LOCALE, "an odd ",
                                   name, NULL);
        }
        if (*value) {
            (void)snprintf(texts[n], sizeof texts[n], "%s=%s", name, value);
            environment[n] = texts[n];
            n++;
        }
    }
    environment[n] = NULL;
    char said[200];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, said, sizeof said);
    if (!check->image && /* else it has the client's */
        !fy_locales_fit(environment, check->invocation->encoded, &buffer)) {
        return fy_check_refuse(check, FY_STAGE_OTHER_LOCALE, said, " there",
                               NULL);
    }
    return 0;
}

static bool
is_names(const char *path)
{
    return strcmp(path, "/etc/passwd") == 0 || strcmp(path, "/etc/group") == 0;
}

bool
fy_check_is_named(const struct fy_check *check, const char *path)
{
    const char *const *at = check->invocation->configs;
    while (at && *at && strcmp(*at, path) != 0) {
        at++;
    }
    return at && *at;
}

/* Returns false if the client sees another inode by that path, or has not changed the status
 * of this folder since it was looked at, which is kept. */
static bool
is_same_folder(struct fy_policy *policy, const struct stat *about,
               const struct fy_config_hash *config)
{
    uint64_t changed = fy_config_changed(about);
    if (config->inode) {
        return about->st_ino == config->inode && changed == config->changed;
    }
    if (config->changed == 0) {
        return true;
    }
    bool later = false;
    (void)pthread_mutex_lock(&policy->lock);
    unsigned i = 0;
    while (i < policy->nlooks && (policy->looks[i].device != about->st_dev ||
                                  policy->looks[i].inode != about->st_ino)) {
        i++;
    }
    if (config->changed == FY_CONFIG_JUST_NOW) {
        later = i < policy->nlooks && changed > policy->looks[i].changed;
    } else if (i < FY_MAX_LOOKS) {
        policy->looks[i].device = about->st_dev;
        policy->looks[i].inode = about->st_ino;
        policy->looks[i].changed = changed;
        policy->nlooks += i == policy->nlooks;
    }
    (void)pthread_mutex_unlock(&policy->lock);
    return later;
}

/* One of them, of this path; *out_same when it is the client's. */
static int
check_config(struct fy_check *check, const char *path,
             const struct fy_config_hash *config, bool *out_same)
{
    unsigned char here[32] = {0};
    char link[40];
    bool in_root;
    int fd = -1;
    int status = open_any(check, path, &in_root, &fd);
    struct stat about = {0};
    if (fd >= 0 && (fstat(fd, &about) != 0 ||
                    (!S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)))) {
        status = FY_ERR_UNSUPPORTED; /* to open a device may do something */
    } else if (fd >= 0) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        status = fy_config_hash(link, here);
    }
    bool same = is_same_folder(check->policy, &about, config) && !status &&
                memcmp(here, config->sha256, sizeof here) == 0;
    /* Who knows it may read it; a program is what the annotation says that
     * the command starts. */
    bool program = (about.st_mode & 0111) != 0;
    same = same && (fd < 0 || !S_ISREG(about.st_mode) || !program ||
                    fy_check_is_named(check, path));
    bool shown =
        fd >= 0 && same && S_ISREG(about.st_mode) && (!in_root || program);
    check->nprograms += shown && program;
    *out_same = same;
    if (shown ? !fy_check_keep_file(check, fd, path)
              : fd >= 0 && close(fd) != 0) {
        return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                               "too many configuration files", NULL, NULL);
    }
    return 0;
}

/* Writes the path of a file that this host's own program reads. */
static bool
expand_theirs(const struct fy_check *check, const char *text,
              char out[PATH_MAX])
{
    const char *folder = "", *rest = text;
    char name[64];
    if (text[0] == '~') {
        folder = check->policy->home;
        rest = text + 1;
    } else if (text[0] == '$') {
        size_t n = strcspn(text, "/");
        (void)snprintf(name, sizeof name, "%.*s", (int)n - 1, text + 1);
        folder = fy_check_variable(check->spec, name);
        rest = text + n;
    }
    int n = snprintf(out, PATH_MAX, "%s%s", folder, rest);
    return (*folder || rest == text) && n > 0 && n < PATH_MAX && out[0] == '/';
}

/* Lets this host's own program read the files that the annotation names, as they are. */
static int
keep_theirs(struct fy_check *check)
{
    const char *const *at = check->invocation->configs;
    for (; at && *at; at++) {
        char path[PATH_MAX], other[PATH_MAX];
        struct stat about;
        bool in_root = false;
        int fd = -1, status = 0;
        if (!expand_theirs(check, *at, path)) {
            continue;
        }
        for (size_t i = 0; !status && fd < 0 && tool_path(path, i, other);
             i++) {
            status = open_any(check, other, &in_root, &fd);
            if (strncmp(path, "/usr/bin/", 9) != 0) {
                break;
            }
        }
        if (status || (fd >= 0 && fstat(fd, &about) != 0)) {
            return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG, path,
                                   " cannot be looked at", NULL);
        }
        bool program = fd >= 0 && (about.st_mode & 0111);
        if (fd < 0 || !S_ISREG(about.st_mode) || (in_root && !program)) {
            if (fd >= 0) {
                close(fd);
            }
            continue;
        }
        check->nprograms += program;
        if (!fy_check_keep_file(check, fd, other)) {
            return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                                   "too many configuration files", NULL, NULL);
        }
    }
    return 0;
}

static int
check_configs(struct fy_check *check)
{
    const struct fy_stage_spec *spec = check->spec;
    unsigned names = 0;
    int status = 0;
    for (uint32_t i = 0; !status && i < spec->nconfigs; i++) {
        char text[PATH_MAX], path[PATH_MAX], beneath[PATH_MAX];
        bool same = false;
        if (!fy_check_text(&spec->configs[i].path, text, sizeof text) ||
            !fy_path_plain(text, path)) {
            status = fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                                     "a malformed path", NULL, NULL);
        } else {
            status =
                check->image && !seen_of(check, path, beneath)
                    ? fy_carried_check(check, path, &spec->configs[i], &same)
                    : check_config(check, path, &spec->configs[i], &same);
        }
        if (!status && !same) {
            status = fy_check_refuse(check,
                                     is_names(path) ? FY_STAGE_OTHER_NAMES
                                                    : FY_STAGE_OTHER_CONFIG,
                                     path, " is another there", NULL);
        }
        names |= !status && strcmp(path, "/etc/passwd") == 0 ? 1u : 0u;
        names |= !status && strcmp(path, "/etc/group") == 0 ? 2u : 0u;
    }
    if (!status && check->theirs) {
        return keep_theirs(check);
    }
    if (!status && fy_invocation_is(check->invocation, FY_TRAIT_OWNERS) &&
        names != 3) {
        return fy_check_refuse(check, FY_STAGE_OTHER_NAMES,
                               "users may be named otherwise there", NULL,
                               NULL);
    }
    return status;
}

/*
 * Names of users may come from daemons, which are asked through sockets; and a
 * 32-bit program (only 64-bit ones have a build-id here) has other numbers.
 */
static bool
is_to_be_filtered(const struct fy_check *check)
{
    static const char native[] = "build-id:";
    return !fy_invocation_is(check->invocation, FY_TRAIT_OWNERS) &&
           check->policy->known_user &&
           (strchr(check->identity, '+') ||
            strncmp(check->identity, native, sizeof native - 1) == 0);
}

/* What the stage's limits are here. Never above our own. */
static int
check_limits(struct fy_check *check)
{
    static const unsigned carried[] = {
        RLIMIT_CPU,  RLIMIT_FSIZE,  RLIMIT_DATA,    RLIMIT_STACK,
        RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_AS};
    for (size_t i = 0; i < sizeof carried / sizeof carried[0]; i++) {
        unsigned resource = carried[i];
        struct rlimit own;
        if (getrlimit((__rlimit_resource_t)resource, &own) != 0) {
            continue;
        }
        rlim_t soft = check->spec->limits[resource][0];
        rlim_t hard = check->spec->limits[resource][1];
        if (soft > own.rlim_max && resource != RLIMIT_NOFILE &&
            resource != RLIMIT_MEMLOCK && resource != RLIMIT_CORE) {
            /* It would end there where it would go on here. */
            return fy_check_refuse(check, FY_STAGE_LIMITS,
                                   "a resource limit is lower there", NULL,
                                   NULL);
        }
        hard = hard < own.rlim_max ? hard : own.rlim_max;
        soft = soft < hard ? soft : hard;
        check->sandbox->limits[resource].rlim_cur = soft;
        check->sandbox->limits[resource].rlim_max = hard;
        check->sandbox->limited[resource] = true;
    }
    check->sandbox->filtered = is_to_be_filtered(check);
    check->sandbox->umask = check->spec->umask & 0777;
    if (check->spec->masks && check->writes &&
        check->policy->umask & ~check->sandbox->umask) {
        return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                               "its umask is stricter", NULL, NULL);
    }
    check->sandbox->nice = check->spec->nice < 19 ? check->spec->nice : 19;
    return 0;
}

static int
open_stream(struct fy_check *check, const struct fy_stream_spec *stream,
            int *out_fd)
{
    char path[PATH_MAX], relative[PATH_MAX], link[40];
    if (stream->kind != FY_STREAM_FILE) {
        return 0;
    }
    struct fy_seen *on = fy_check_text(&stream->path, path, sizeof path)
                             ? seen_of(check, path, relative)
                             : NULL;
    if (!on) {
        return fy_check_refuse(check, FY_STAGE_OUTSIDE, "a redirected file",
                               " is not on the mount", NULL);
    }
    int fd;
    int status = fy_resolve(&on->root, relative, 0, path, &fd,
                            check->out_reason, check->why);
    if (status) {
        return status;
    }
    struct stat about;
    bool writes = (stream->flags & O_ACCMODE) != O_RDONLY;
    if (fstat(fd, &about) != 0 ||
        (stream->inode && stream->inode != about.st_ino)) {
        close(fd);
        return fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH, path,
                               " is another file there", NULL);
    }
    if (writes && !S_ISREG(about.st_mode)) {
        close(fd);
        return fy_check_refuse(check, FY_STAGE_ODD_STREAM, path, " is no file",
                               NULL);
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int opened = open(link, (int)(stream->flags & (O_ACCMODE | O_APPEND)) |
                                O_NOCTTY | O_CLOEXEC);
    int saved = errno;
    close(fd);
    if (opened < 0) {
        return fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH, path, ": ",
                               strerrordesc_np(saved));
    }
    if (S_ISREG(about.st_mode) &&
        (stream->offset < 0 ||
         lseek(opened, stream->offset, SEEK_SET) != stream->offset)) {
        close(opened);
        return fy_check_refuse(check, FY_STAGE_ODD_STREAM, path,
                               ": a bad offset", NULL);
    }
    on->writes = on->writes || writes;
    check->writes = check->writes || writes;
    *out_fd = opened;
    return 0;
}

/*
 * What the stage may execute: the command, what its annotation names, and their
 * linkers. A script's annotation names no programs; it is one of the system's.
 */
static int
check_programs(struct fy_check *check, const struct fy_landlock_wish *wish)
{
    char link[40], linker[PATH_MAX];
    int files[FY_CHECK_FILES_MAX + LINKERS_MAX];
    unsigned n = check->nfiles;
    int status = 0;
    memcpy(files, check->files, n * sizeof *files);
    for (unsigned i = 0;
         !status && i < check->nfiles && n < check->nfiles + LINKERS_MAX; i++) {
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", check->files[i]);
        int fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 &&
            errno != EACCES) { /* what is unreadable may be executed */
            status = FY_ERR_IO;
        }
        if (fd >= 0 && fy_needs_linker(fd, linker) == 0 && *linker == '/') {
            files[n] = check->image_fd >= 0 ? fy_carried_open(check, linker)
                                            : open(linker, O_PATH | O_CLOEXEC);
            status = files[n] < 0 ? FY_ERR_IO : status;
            n += files[n] >= 0;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    struct fy_landlock_wish all = *wish;
    all.files = files;
    all.nfiles = n;
    if (!status) {
        status =
            fy_landlock_ruleset(check->policy, &all, &check->sandbox->ruleset);
    }
    for (unsigned i = check->nfiles; i < n; i++) {
        close(files[i]);
    }
    return status;
}

/* The check's own descriptors of a namespace, which may be closed by the next one. */
static int
hold_namespace(struct fy_check *check, const struct fy_namespace *namespace)
{
    struct fy_sandbox *sandbox = check->sandbox;
    sandbox->has_space = true;
    for (unsigned i = 0; i < FY_NAMESPACES; i++) {
        sandbox->namespaces[i] = -1;
    }
    for (unsigned i = 0; i < FY_NAMESPACES; i++) {
        if (namespace->fds[i] >= 0) {
            sandbox->namespaces[i] =
                fcntl(namespace->fds[i], F_DUPFD_CLOEXEC, 3);
            if (sandbox->namespaces[i] < 0) {
                return fy_check_refuse(check, FY_STAGE_BUSY,
                                       "too many open files", NULL, NULL);
            }
        }
    }
    return 0;
}

static bool
is_script(const struct fy_check *check)
{
    return strchr(check->identity, '+');
}

/* Whether what it executes may load code of the mounts: all but the system's programs,
 * whose libraries are the system's; an interpreter has modules. */
static bool
executes(const struct fy_check *check)
{
    bool some = is_script(check);
    for (unsigned i = 0; !check->image && !some && i < check->nfiles; i++) {
        struct stat about;
        some = fstat(check->files[i], &about) != 0 ||
               ((about.st_mode & 0111) && !fy_refuse_program(check->files[i]));
    }
    return some;
}

bool
fy_check_equal_paths(const struct fy_check *check)
{
    bool equal = true;
    for (unsigned i = 0; i < check->nseen; i++) {
        equal = equal &&
                strcmp(check->seen[i].mount, check->seen[i].root.path) == 0;
    }
    return equal;
}

/* The namespaces and rules. With the lock. */
static int
furnish_now(struct fy_check *check)
{
    struct fy_policy *policy = check->policy;
    struct fy_sandbox *sandbox = check->sandbox;
    bool strangers = fy_namespace_kind(policy) == FY_NAMESPACE_USER &&
                     fy_invocation_is(check->invocation, FY_TRAIT_OWNERS) &&
                     (check->strangers || !check->invocation->pure);
    const struct fy_namespace *namespace = NULL;
    int temporary = -1;
    if (fy_check_equal_paths(check) && !check->image &&
        (fy_namespace_kind(policy) == FY_NAMESPACE_NONE || strangers)) {
        if (!*policy->plain_temporary &&
            fy_temporary_new(policy, policy->plain_temporary,
                             sizeof policy->plain_temporary) != 0) {
            return fy_check_refuse(check, FY_STAGE_REFUSED,
                                   "no temporary folder", NULL, NULL);
        }
        if (policy->plain_temporary_fd < 0) {
            policy->plain_temporary_fd =
                open(policy->plain_temporary, O_PATH | O_CLOEXEC);
        }
        temporary = policy->plain_temporary_fd;
        strcpy(sandbox->tmpdir, policy->plain_temporary);
    } else if (strangers) {
        return fy_check_refuse(check, FY_STAGE_OTHER_NAMES,
                               "in a user namespace other users have no names",
                               NULL, NULL);
    } else {
        int status = fy_namespace_get(policy, check->seen, check->nseen,
                                      executes(check), check->image, &namespace,
                                      check->out_reason, check->why);
        if (status) {
            return status;
        }
        for (unsigned i = 0; !check->image && i < check->nfiles; i++) {
            if (fy_namespace_hides(namespace, check->paths[i])) {
                return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                                       check->paths[i],
                                       " is not seen by stages there", NULL);
            }
        }
        status = hold_namespace(check, namespace);
        if (status) {
            return status;
        }
        temporary = namespace->temporary_fd;
    }
    char beneath[PATH_MAX];
    const char *wanted = fy_check_variable(check->spec, "TMPDIR");
    if (sandbox->has_space && *wanted && strcmp(wanted, "/tmp") != 0 &&
        strcmp(wanted, "/var/tmp") != 0 &&
        !(check->writes && seen_of(check, wanted, beneath))) {
        strcpy(sandbox->tmpdir, "/tmp");
    }
    sandbox->alone = !is_script(check) && check->nprograms == 1;
    if (!sandbox->alone && check->image_fd >= 0 && !check->image) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, sandbox->program,
                               " starts other programs", NULL);
    }
    if (!sandbox->alone &&
        !fy_refuse_search(check->spec, check->seen, check->nseen)) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL,
                               "PATH leads to programs on the mount", NULL,
                               NULL);
    }
    if (!policy->landlock && check->invocation->nabsents > 0 &&
        !sandbox->alone) {
        /* A file may come, or be exchanged, after it was looked for. */
        return fy_check_refuse(
            check, FY_STAGE_REFUSED,
            "without Landlock a file of the repository could start ",
            "programs", NULL);
    }
    if (!policy->landlock) {
        return 0;
    }
    struct fy_landlock_wish wish = {.seen = check->seen,
                                    .nseen = check->nseen,
                                    .any_program = is_script(check),
                                    .temporary_fd = temporary,
                                    .image = check->image_fd};
    if (check_programs(check, &wish) != 0) {
        return fy_check_refuse(check, FY_STAGE_REFUSED,
                               "Landlock rules: ", strerrordesc_np(errno),
                               NULL);
    }
    return 0;
}

static int
furnish(struct fy_check *check)
{
    (void)pthread_mutex_lock(&check->policy->lock);
    int status = furnish_now(check);
    (void)pthread_mutex_unlock(&check->policy->lock);
    return status;
}

static int
check_absents(struct fy_check *check)
{
    const struct fy_absent_places places = {
        .root = &check->on->root,
        .base = check->base,
        .program = check->sandbox->program,
        .home = check->theirs ? check->policy->home
                              : fy_check_variable(check->spec, "HOME"),
        .seen = check->seen,
        .nseen = check->nseen,
        .image = check->image ? check->image_fd : -1};
    return fy_check_absents(&places, check->invocation, check->out_reason,
                            check->why);
}

static int
check_all(struct fy_check *check, int out_files[3])
{
    int (*const steps[])(struct fy_check *) = {
        check_folder, check_outputs,     check_uses,
        check_tool,   check_absents,     check_words,
        check_limits, check_environment, check_configs};
    int status = 0;
    for (size_t i = 0; !status && i < sizeof steps / sizeof steps[0]; i++) {
        status = steps[i](check);
    }
    const struct fy_stream_spec *streams[] = {
        &check->spec->in, &check->spec->out, &check->spec->err};
    for (unsigned i = 0; !status && i < 3; i++) {
        status = open_stream(check, streams[i], &out_files[i]);
    }
    if (!status && out_files[0] >= 0) {
        status = check_alike(check, out_files[0], false, "stdin");
    }
    if (!status) {
        status = fy_exports_check(check->spec, check->seen, check->nseen,
                                  check->writes, check->out_reason, check->why);
    }
    return status ? status : furnish(check);
}

int
fy_policy_check(struct fy_policy *policy, const struct fy_stage_spec *spec,
                const struct fy_invocation *invocation,
                struct fy_sandbox **out_sandbox, int out_files[3],
                unsigned *out_reason, struct fy_buffer *why)
{
    int files[3] = {-1, -1, -1};
    struct fy_check *check = calloc(1, sizeof *check);
    struct fy_sandbox *sandbox = calloc(1, sizeof *sandbox);
    int status = FY_ERR_NOMEM;
    if (sandbox) {
        sandbox->ruleset = -1;
    }
    if (!check || !sandbox) {
        goto free_check;
    }
    check->policy = policy;
    check->image_fd = -1;
    check->spec = spec;
    check->invocation = invocation;
    check->sandbox = sandbox;
    sandbox->plain = spec->keeps_names; /* as sshfs shows them */
    check->out_reason = out_reason;
    check->why = why;
    if (spec->keeps_names &&
        !(check->names = fy_names_new(spec, invocation, out_reason, why))) {
        goto free_check;
    }
    status = check_places(check);
    if (!status) {
        status = check_all(check, files);
    }
    for (unsigned i = 0; i < check->nseen; i++) {
        fy_root_close(&check->seen[i].root);
    }
    if (check->image_fd >= 0) {
        close(check->image_fd);
    }
    for (unsigned i = 0; i < check->nfiles; i++) {
        close(check->files[i]);
        free(check->paths[i]);
    }
    if (!status) {
        fy_debug(SANDBOX,
                 "%s in %s: Landlock %s, namespaces %s, system calls %s",
                 sandbox->program, sandbox->folder,
                 sandbox->ruleset >= 0 ? "yes" : "no",
                 sandbox->has_space ? "yes" : "no",
                 sandbox->filtered ? "filtered" : "not filtered");
        memcpy(out_files, files, sizeof files);
        *out_sandbox = sandbox;
        sandbox = NULL;
    } else {
        fy_debug(SANDBOX, "refused: %s %s", fy_stage_reason_word(*out_reason),
                 why->text);
    }
free_check:
    for (unsigned i = 0; status && i < 3; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
    if (sandbox) {
        fy_sandbox_free(sandbox);
    }
    if (check) {
        fy_names_free(check->names);
    }
    free(check);
    if (status == FY_ERR_NOMEM) {
        *out_reason = FY_STAGE_BUSY;
    }
    return status;
}

static bool
is_in_passwd(uid_t uid)
{
    FILE *file = fopen("/etc/passwd", "re");
    struct passwd row, *found = NULL;
    char text[4096];
    while (file && fgetpwent_r(file, &row, text, sizeof text, &found) == 0 &&
           found->pw_uid != uid) {
        found = NULL;
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

int
fy_policy_new(bool landlock, struct fy_policy **out)
{
    struct fy_policy *policy = calloc(1, sizeof *policy);
    if (!policy) {
        return FY_ERR_NOMEM;
    }
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0) {
        free(policy);
        return FY_ERR_NOMEM;
    }
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&policy->lock, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    policy->plain_temporary_fd = -1;
    policy->temporary_fd = -1;
    policy->mountinfo_fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    policy->landlock = landlock ? fy_landlock_version() : 0;
    fy_namespace_begin(policy);
    policy->known_user = is_in_passwd(geteuid());
    policy->umask = umask(077);
    (void)umask(policy->umask);
    const char *home = getenv("HOME");
    const struct passwd *user =
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): likewise */
        home && *home == '/' ? NULL : getpwuid(geteuid());
    home = user ? user->pw_dir : home;
    (void)snprintf(policy->home, sizeof policy->home, "%s", home ? home : "");
    if (policy->landlock) {
        fy_landlock_system(policy);
    }
    *out = policy;
    return 0;
}

void
fy_policy_end(struct fy_policy *policy)
{
    if (pthread_mutex_trylock(&policy->lock) == 0) {
        fy_namespace_drop(policy);
        (void)pthread_mutex_unlock(&policy->lock);
    }
}

void
fy_policy_leave(struct fy_policy *policy)
{
    if (*policy->temporary) {
        fy_temporary_remove(policy->temporary);
    }
    fy_store_close(policy->store);
}

void
fy_policy_free(struct fy_policy *policy)
{
    if (!policy) {
        return;
    }
    fy_namespace_drop(policy);
    for (unsigned i = 0; i < policy->nnamespaces; i++) {
        fy_namespace_close(&policy->namespaces[i]);
    }
    for (unsigned i = 0; i < policy->nsystem; i++) {
        close(policy->system[i].fd);
    }
    if (policy->plain_temporary_fd >= 0) {
        close(policy->plain_temporary_fd);
    }
    if (policy->mountinfo_fd >= 0) {
        close(policy->mountinfo_fd);
    }
    if (*policy->temporary) {
        fy_temporary_remove(policy->temporary);
        close(policy->temporary_fd);
    }
    fy_store_close(policy->store);
    (void)pthread_mutex_destroy(&policy->lock);
    free(policy);
}

void
fy_policy_describe(struct fy_policy *policy, struct fy_hello *hello)
{
    hello->spaces = fy_namespace_kind(policy) != FY_NAMESPACE_NONE;
    hello->landlock = policy->landlock;
    hello->filter = policy->known_user && fy_filter_works();
}
