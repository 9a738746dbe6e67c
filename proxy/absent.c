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

#include "proxy/confines.h"
#include "proxy/reason.h"

enum {
    LOOKED_AT_MAX_BYTES = 1 << 20,
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

/* Takes fd, of a regular file. */
static enum look
look_into(int fd, const char *matching)
{
    regex_t expression;
    enum look look = UNREADABLE;
    char *text = malloc(LOOKED_AT_MAX_BYTES + 1);
    if (!text || regcomp(&expression, matching,
                         REG_EXTENDED | REG_NOSUB | REG_ICASE) != 0) {
        goto close_file;
    }
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, text + used, LOOKED_AT_MAX_BYTES + 1 - used)) > 0) {
        used += (size_t)n;
    }
    if (n == 0 && used <= LOOKED_AT_MAX_BYTES && !memchr(text, '\0', used)) {
        text[used] = '\0';
        look = has_line(text, &expression) ? THERE : MISSING;
    }
    regfree(&expression);
close_file:
    free(text);
    close(fd);
    return look;
}

static enum look
look_at(int folder, const char *path, const char *matching)
{
    struct stat about;
    if (fstatat(folder, path, &about, 0) != 0) {
        /* A link that leads nowhere here may lead somewhere there. */
        return fstatat(folder, path, &about, AT_SYMLINK_NOFOLLOW) == 0 ||
                       (errno != ENOENT && errno != ENOTDIR)
                   ? UNREADABLE
                   : MISSING;
    }
    if (!matching) {
        return THERE;
    }
    if (S_ISDIR(about.st_mode)) {
        return MISSING;
    }
    int fd = S_ISREG(about.st_mode)
                 ? openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
                 : -1;
    return fd < 0 ? UNREADABLE : look_into(fd, matching);
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

static enum look
look_for(const struct fy_root *root, const char *base, const char *home,
         const struct fy_absent *absent)
{
    if (strncmp(absent->path, "~/", 2) == 0) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/%s", home, absent->path + 2);
        return *home != '/' || n < 0 || n >= PATH_MAX
                   ? UNREADABLE
                   : look_at(AT_FDCWD, path, absent->matching);
    }
    unsigned ignored;
    int fd;
    if (!*base ||
        fy_resolve(root, base, FY_RESOLVE_FOLDER, base, &fd, &ignored, NULL)) {
        return UNREADABLE;
    }
    return look_upwards(root, fd, absent);
}

int
fy_check_absents(const struct fy_root *root, const char *base, const char *home,
                 const struct fy_invocation *invocation, unsigned *out_reason,
                 struct fy_buffer *why)
{
    bool wanted = false, found = false;
    const char *missing = "";
    for (uint32_t i = 0; i < invocation->nabsents; i++) {
        const struct fy_absent *absent = &invocation->absents[i];
        enum look look = look_for(root, base, home, absent);
        if (absent->present) {
            wanted = true;
            found = found || look == THERE;
            missing = absent->path;
        } else if (look != MISSING) {
            return fy_refuse(out_reason, FY_STAGE_OTHER_CONFIG, why,
                             absent->path,
                             look == THERE ? " means that more would run there"
                                           : " cannot be looked into",
                             NULL);
        }
    }
    if (wanted && !found) {
        return fy_refuse(out_reason, FY_STAGE_OTHER_CONFIG, why, missing,
                         " does not say what the stage needs to know", NULL);
    }
    return 0;
}
