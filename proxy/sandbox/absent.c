/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that must not be there (a repository's hooks) or of which one must: looked
 * for in the folder that a stage works in and in every one above it, up to the
 * mount's own. What cannot be read counts against the stage.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/kernel.h"
#include "common/path.h"
#include "common/whole.h"
#include "proxy/sandbox/policy.h"
#include "proxy/storage/index.h"
#include "proxy/storage/tools.h"
#include "proxy/wire/reason.h"

enum {
    LOOKED_AT_MAX_BYTES = 1 << 20,
    INDEX_MAX_BYTES = 64 << 20, /* of a git index: half a million files */
    INDEX_TEXT_BYTES = 1024,
    FOLDERS_MAX = 256,
};

enum look {
    MISSING,
    THERE,
    UNREADABLE,
};

/* Whether a line of the text is matched. */
static bool
has_line(char *text, const regex_t *expression)
{
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        if (end) {
            *end++ = '\0';
        }
        if (regexec(expression, line, 0, NULL, 0) == 0) {
            return true;
        }
        line = end;
    }
    return false;
}

/* The file as text: a git index by what storage/index.h says of it. New; NULL: none. */
static char *
read_text(int fd)
{
    struct stat about;
    char modes[INDEX_TEXT_BYTES];
    if (fstat(fd, &about) != 0 || about.st_size > INDEX_MAX_BYTES) {
        return NULL;
    }
    size_t used = 0, most = (size_t)about.st_size;
    char *text = malloc(most + 1);
    bool whole =
        text && !fy_read_most(fd, text, most + 1, &used) && used <= most;
    if (whole && fy_index_is(text, used)) {
        whole = fy_index_text(text, used, modes, sizeof modes);
        free(text);
        return whole ? strdup(modes) : NULL;
    }
    if (!whole || used > LOOKED_AT_MAX_BYTES || memchr(text, '\0', used)) {
        free(text);
        return NULL;
    }
    text[used] = '\0';
    return text;
}

/* Takes fd, of a regular file. */
static enum look
look_into(int fd, const char *matching)
{
    regex_t expression;
    enum look look = UNREADABLE;
    char *text = read_text(fd);
    if (text && regcomp(&expression, matching,
                        REG_EXTENDED | REG_NOSUB | REG_ICASE) == 0) {
        look = has_line(text, &expression) ? THERE : MISSING;
        regfree(&expression);
    }
    free(text);
    close(fd);
    return look;
}

/* What `named' is, if not negative; `there': something of that name is. Takes it. */
static enum look
look_at_named(int named, bool there, const char *matching)
{
    struct stat about;
    char link[40];
    if (named < 0) {
        /* A link that leads nowhere here may lead somewhere there. */
        return there ? UNREADABLE : MISSING;
    }
    bool known = fstat(named, &about) == 0;
    if (!known || !matching || S_ISDIR(about.st_mode)) {
        close(named);
        return !known ? UNREADABLE : matching ? MISSING : THERE;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", named);
    int fd = S_ISREG(about.st_mode)
                 ? open(link, O_RDONLY | O_CLOEXEC | O_NOCTTY)
                 : -1;
    close(named);
    return fd < 0 ? UNREADABLE : look_into(fd, matching);
}

/* After a name could not be opened: whether it may be there all the same. */
static bool
may_be_there(int folder, const char *path)
{
    struct stat about;
    return (errno != ENOENT && errno != ENOTDIR) ||
           fstatat(folder, path, &about, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * What a link in the tree leads to may be another file in the stage's namespace, so
 * that one counts against the stage.
 */
static enum look
look_at(int folder, const char *path, const char *matching)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_NO_SYMLINKS};
    int named = fy_openat2(folder, path, &how);
    return look_at_named(named, named < 0 && may_be_there(folder, path),
                         matching);
}

/* In the folder and all above it; takes fd. */
static enum look
look_upwards(const struct fy_root *root, int fd, const struct fy_absent *absent)
{
    enum look look = MISSING;
    for (unsigned i = 0; look == MISSING; i++) {
        struct stat about;
        look = look_at(fd, absent->path, absent->matching);
        if (look != MISSING) {
            break;
        }
        if (i == FOLDERS_MAX || fstat(fd, &about) != 0) {
            look = UNREADABLE;
            break;
        }
        if (about.st_dev == root->device && about.st_ino == root->inode) {
            break;
        }
        int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = above;
        if (fd < 0) {
            return UNREADABLE;
        }
    }
    close(fd);
    return look;
}

/* Where the stage will find it, which may be on a mount. */
static enum look
look_at_home(const struct fy_absent_places *places,
             const struct fy_absent *absent)
{
    char given[PATH_MAX], path[PATH_MAX], beneath[PATH_MAX];
    const char *matching = absent->matching;
    int n =
        snprintf(given, sizeof given, "%s/%s", places->home, absent->path + 2);
    if (!*places->home || n < 0 || n >= PATH_MAX ||
        !fy_path_plain(given, path)) {
        return UNREADABLE;
    }
    const struct fy_seen *on =
        fy_seen_of(places->seen, places->nseen, path, beneath, sizeof beneath);
    if (on) {
        return look_at(on->root.fd, beneath, matching);
    }
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_MAGICLINKS};
    int top = AT_FDCWD;
    if (places->image >= 0) {
        top = places->image;
        how.resolve |= RESOLVE_IN_ROOT;
    }
    int named = fy_openat2(top, path, &how);
    return look_at_named(
        named, named < 0 && top == AT_FDCWD && may_be_there(AT_FDCWD, path),
        matching);
}

/* Instead of a file of /etc a program may have been built to read another, and one
 * below its own prefix counts, whatever is in it. */
static bool
has_own_settings(const struct fy_absent_places *places,
                 const struct fy_absent *absent)
{
    char path[PATH_MAX];
    if (places->image >= 0 || absent->present ||
        strncmp(absent->path, "/etc/", 5) != 0) {
        return false; /* of a program that is carried, the client has looked */
    }
    return !fy_tool_names_settings(places->program, absent->path) ||
           (fy_tool_own_settings(places->program, absent->path, path) &&
            (access(path, F_OK) == 0 || may_be_there(AT_FDCWD, path)));
}

static enum look
look_for(const struct fy_absent_places *places, const struct fy_absent *absent)
{
    const struct fy_root *root = places->root;
    const char *base = places->base;
    if (strncmp(absent->path, "~/", 2) == 0) {
        return look_at_home(places, absent);
    }
    unsigned ignored;
    int fd;
    if (has_own_settings(places, absent)) {
        return THERE;
    }
    if (!*base ||
        fy_resolve(root, base, FY_RESOLVE_FOLDER, base, &fd, &ignored, NULL)) {
        return UNREADABLE;
    }
    return look_upwards(root, fd, absent);
}

/* Whether one of the files that are asked for the same is there. */
static bool
is_any_there(const struct fy_absent_places *places,
             const struct fy_invocation *invocation, const char *matching)
{
    bool found = false;
    for (uint32_t i = 0; i < invocation->nabsents && !found; i++) {
        const struct fy_absent *absent = &invocation->absents[i];
        found = absent->present && absent->matching &&
                strcmp(absent->matching, matching) == 0 &&
                look_for(places, absent) == THERE;
    }
    return found;
}

int
fy_check_absents(const struct fy_absent_places *places,
                 const struct fy_invocation *invocation, unsigned *out_reason,
                 struct fy_buffer *why)
{
    for (uint32_t i = 0; i < invocation->nabsents; i++) {
        const struct fy_absent *absent = &invocation->absents[i];
        if (absent->present && absent->matching) {
            if (!is_any_there(places, invocation, absent->matching)) {
                return fy_refuse(
                    out_reason, FY_STAGE_OTHER_CONFIG, why, absent->path,
                    " does not say what the stage needs to know", NULL);
            }
            continue;
        }
        enum look look = look_for(places, absent);
        if (absent->present && look != THERE) {
            return fy_refuse(out_reason, FY_STAGE_OTHER_CONFIG, why,
                             absent->path,
                             " is not on the mount, and above it "
                             "cannot be looked into",
                             NULL);
        }
        if (!absent->present && look != MISSING) {
            return fy_refuse(out_reason, FY_STAGE_OTHER_CONFIG, why,
                             absent->path,
                             look == THERE ? " means that more would run there"
                                           : " cannot be looked into",
                             NULL);
        }
    }
    return 0;
}
