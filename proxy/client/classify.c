/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where what a stage reads and writes is; see the header. Every doubt is a
 * reason to run it here. Links are followed by the proxy, which refuses what
 * leaves its root; names alone are looked at here.
 *
 * Long because what decides about one stage is best read in one order.
 */
#include "config.h"

#include "proxy/client/classify.h"

#include "annotations/model/model.h"
#include "common/path.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct look {
    const struct fy_stage_facts *facts;
    const struct fy_invocation *invocation;
    const struct fy_mount *mounts;
    unsigned nmounts;
    struct fy_stage_plan *plan;
    struct fy_buffer *why;
    char **nested[FY_STAGE_MOUNTS];   /* mounts below each of the plan's */
    uint64_t covers[FY_STAGE_MOUNTS]; /* ids of the mounts that hold those */
    bool writes_operand;
    bool begins_at_cwd; /* an operand has a relative path */
};

#ifndef STATX_MNT_ID /* Linux 5.8 */
#define STATX_MNT_ID 0x1000U
#endif

int
fy_stream_look(int fd, struct fy_stream_fact *out)
{
    struct statx status;
    char link[64];
    memset(out, 0, sizeof *out);
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
              STATX_BASIC_STATS | STATX_MNT_ID, &status) != 0) {
        return FY_ERR_IO;
    }
    out->open = true;
    out->mount = status.stx_mask & STATX_MNT_ID ? status.stx_mnt_id : 0;
    out->mode = status.stx_mode;
    out->device = makedev(status.stx_dev_major, status.stx_dev_minor);
    out->rdevice = makedev(status.stx_rdev_major, status.stx_rdev_minor);
    out->inode = status.stx_ino;
    out->links = status.stx_nlink;
    out->bytes = (int64_t)status.stx_size;
    out->stored_bytes = (int64_t)status.stx_blocks * 512;
    out->flags = fcntl(fd, F_GETFL);
    out->offset = S_ISREG(out->mode) ? lseek(fd, 0, SEEK_CUR) : 0;
    struct pollfd written = {.fd = fd, .events = POLLOUT};
    out->unread = S_ISFIFO(out->mode) && (out->flags & O_ACCMODE) == O_WRONLY &&
                  poll(&written, 1, 0) == 1 && (written.revents & POLLERR) != 0;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out->path, sizeof out->path - 1);
    out->path[n > 0 ? n : 0] = '\0';
    return n > 0 && out->flags >= 0 && out->offset >= 0 ? 0 : FY_ERR_IO;
}

/* ---- mounts --------------------------------------------------------------------- */

const struct fy_mount *
fy_mount_of(const struct fy_mount *mounts, unsigned nmounts, const char *path)
{
    const struct fy_mount *found = NULL;
    for (unsigned i = 0; i < nmounts; i++) {
        if (fy_path_is_beneath(path, mounts[i].path) &&
            (!found || strlen(mounts[i].path) > strlen(found->path))) {
            found = &mounts[i];
        }
    }
    return found;
}

static unsigned
say(const struct look *look, unsigned reason, const char *text,
    const char *name)
{
    fy_buffer_printf(look->why, "%s%s", text, name);
    return reason;
}

/* Why the stage cannot see this mount as well; at: where it is in the plan. */
static unsigned
connection_mount(struct look *look, const struct fy_mount *mount, unsigned *at)
{
    struct fy_stage_plan *plan = look->plan;
    for (*at = 0; *at < plan->nmounts; ++*at) {
        const struct fy_mount *other = plan->mounts[*at];
        if (other == mount) {
            return FY_STAGE_NONE;
        }
        if (!fy_place_same_host(&other->place, &mount->place)) {
            return FY_STAGE_MIXED_PLACES;
        }
        if (fy_path_is_beneath(mount->path, other->path) ||
            fy_path_is_beneath(other->path, mount->path)) {
            return FY_STAGE_NESTED_MOUNT;
        }
    }
    if (plan->nmounts == FY_STAGE_MOUNTS) {
        return FY_STAGE_MIXED_PLACES;
    }
    struct fy_mount_cover cover;
    free(look->nested[*at]); /* of a mount that was refused */
    look->nested[*at] = fy_mounts_below(mount->path, &cover);
    look->covers[*at] = cover.id;
    if (!look->nested[*at]) {
        return FY_STAGE_NESTED_MOUNT;
    }
    if (cover.hash != mount->cover) {
        return FY_STAGE_OTHER_VIEW;
    }
    plan->mounts[plan->nmounts++] = mount;
    plan->mount = plan->mounts[0];
    return FY_STAGE_NONE;
}

/*
 * Adds `path' to the stage's place, which the first path settles. `id': of the mount that
 * the descriptor of that path is on; 0: there is no descriptor.
 */
static unsigned
claim(struct look *look, const char *path, bool tree, uint64_t id)
{
    const struct fy_mount *mount =
        fy_mount_of(look->mounts, look->nmounts, path);
    unsigned at;
    if (!mount) {
        return say(look, FY_STAGE_LOCAL_FILES, "on this machine: ", path);
    }
    unsigned reason = connection_mount(look, mount, &at);
    if (reason) {
        return say(look, reason,
                   reason == FY_STAGE_MIXED_PLACES ? "on another host: "
                   : reason == FY_STAGE_OTHER_VIEW ? "mounted otherwise since: "
                                                   : "one in another: ",
                   path);
    }
    if (id && id != look->covers[at]) {
        return say(look, FY_STAGE_OTHER_VIEW, "another mount hides it: ", path);
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): connection_mount() has it */
    for (char **nested = look->nested[at]; *nested; nested++) {
        if (fy_path_is_beneath(path, *nested) ||
            (tree && fy_path_is_beneath(*nested, path))) {
            return say(look, FY_STAGE_NESTED_MOUNT, "", *nested);
        }
    }
    return FY_STAGE_NONE;
}

/* ---- operands ---------------------------------------------------------------------- */

static bool
is_neutral(const char *path)
{
    return strcmp(path, "/dev/null") == 0;
}

/* Names that mean something else in every process. */
static bool
is_magic(const char *path)
{
    return fy_path_is_beneath(path, "/dev") ||
           fy_path_is_beneath(path, "/proc") ||
           fy_path_is_beneath(path, "/sys");
}

static unsigned
look_at_operands(struct look *look)
{
    const struct fy_invocation *invocation = look->invocation;
    unsigned local = 0;
    char base[PATH_MAX], path[PATH_MAX], first_local[PATH_MAX] = "";
    memcpy(base, look->facts->cwd, sizeof base);
    bool certain = true; /* base is physical */
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        const char *text = look->facts->argv[use->arg] + use->offset;
        if (use->is_stdin) {
            continue;
        }
        if (text[0] == '\0') {
            return say(look, FY_STAGE_UNCLEAR_PATH, "an empty name", "");
        }
        int status = fy_path_join(base, text, path);
        if (status || (!certain && strncmp(text, "..", 2) == 0)) {
            return say(look, FY_STAGE_UNCLEAR_PATH, "", text);
        }
        if (use->kind == FY_USE_FOLDER) {
            memcpy(base, path, sizeof base);
            certain = false;
        }
        if (is_neutral(path)) {
            continue;
        }
        if (is_magic(path)) {
            return say(look, FY_STAGE_UNCLEAR_PATH, "", text);
        }
        look->begins_at_cwd = look->begins_at_cwd || text[0] != '/';
        unsigned reason = claim(look, path, use->kind == FY_USE_TREE, 0);
        if (reason == FY_STAGE_LOCAL_FILES) {
            if (local++ == 0) {
                memcpy(first_local, path, sizeof first_local);
            }
            look->why->used = 0;
            look->why->text[0] = '\0';
        } else if (reason) {
            return reason;
        }
        if (use->access != FY_ACCESS_IN) {
            look->plan->effect = look->writes_operand = true;
        }
    }
    if (local > 0) {
        return say(look,
                   look->plan->mount ? FY_STAGE_MIXED_PLACES
                                     : FY_STAGE_LOCAL_FILES,
                   "on this machine: ", first_local);
    }
    if (invocation->reads_cwd || invocation->writes_cwd) {
        look->begins_at_cwd = true;
        return claim(look, look->facts->cwd, invocation->cwd_is_tree, 0);
    }
    return FY_STAGE_NONE;
}

/* Refuses a working folder that a later mount hides: the path leads elsewhere. */
static unsigned
look_at_cwd(struct look *look)
{
    const char *cwd = look->facts->cwd;
    const struct fy_mount *mount =
        fy_mount_of(look->mounts, look->nmounts, cwd);
    struct fy_mount_cover cover = {0, 0};
    for (unsigned i = 0; i < look->plan->nmounts; i++) {
        if (look->plan->mounts[i] == mount) {
            cover.id = look->covers[i];
        }
    }
    if (!look->begins_at_cwd || !look->facts->cwd_mount ||
        cover.id == look->facts->cwd_mount) {
        return FY_STAGE_NONE;
    }
    free(fy_mounts_below(cwd, &cover));
    return cover.id == look->facts->cwd_mount
               ? FY_STAGE_NONE
               : say(look, FY_STAGE_OTHER_VIEW,
                     "another mount hides it: ", cwd);
}

bool
fy_classify_reads(const struct fy_stage_facts *facts,
                  const struct fy_invocation *invocation, const char *path)
{
    char operand[PATH_MAX];
    if (invocation->fed) {
        return true;
    }
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->is_stdin || use->access == FY_ACCESS_OUT) {
            continue;
        }
        if (use->kind == FY_USE_FOLDER ||
            fy_path_join(facts->cwd, facts->argv[use->arg] + use->offset,
                         operand) ||
            fy_path_is_beneath(path, operand)) {
            return true;
        }
    }
    return invocation->reads_cwd && fy_path_is_beneath(path, facts->cwd);
}

/* ---- descriptors ------------------------------------------------------------------- */

static bool
is_null(const struct fy_stream_fact *fact)
{
    return S_ISCHR(fact->mode) && fact->rdevice == makedev(1, 3);
}

/* Terminals are the only character devices besides that are let pass. */
static bool
is_terminal(const struct fy_stream_fact *fact)
{
    unsigned kind = major(fact->rdevice);
    return S_ISCHR(fact->mode) && (kind == 4 || (kind >= 136 && kind <= 143));
}

static void
fill_file(const struct fy_stream_fact *fact, struct fy_stream_plan *plan)
{
    plan->kind = FY_STREAM_FILE;
    plan->path = fact->path;
    plan->offset = fact->offset;
    plan->flags = (uint32_t)fact->flags & (O_ACCMODE | O_APPEND);
    plan->inode = fact->inode;
}

/*
 * Whether that name leads to the file, as far as the kernel has it cached: no file
 * system is asked. True is certain: sshfs numbers files by their names.
 */
static bool
leads_to(const struct fy_stream_fact *fact)
{
    struct open_how how;
    struct statx status;
    memset(&how, 0, sizeof how);
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_CACHED;
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, fact->path, &how, sizeof how);
    if (fd < 0) {
        return false;
    }
    bool same =
        statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS,
              &status) == 0 &&
        makedev(status.stx_dev_major, status.stx_dev_minor) == fact->device &&
        status.stx_ino == fact->inode;
    close(fd);
    return same;
}

bool
fy_stream_has_name(const struct fy_stream_fact *fact)
{
    static const char removed[] = " (deleted)";
    size_t n = strlen(fact->path), mark = sizeof removed - 1;
    bool marked = n > mark && strcmp(fact->path + n - mark, removed) == 0;
    return fact->path[0] == '/' && (!marked || leads_to(fact));
}

bool
fy_stream_is_named(const struct fy_stream_fact *fact)
{
    return fact->links > 0 && fact->offset >= 0 && fy_stream_has_name(fact);
}

/*
 * A file of here that could be sent. One with holes is looked at otherwise than
 * a pipe (grep); a small one may be stored in its inode.
 */
static unsigned
look_at_local_file(struct look *look, const struct fy_stream_fact *fact)
{
    if (!fy_invocation_is(look->invocation, FY_TRAIT_STREAMS) ||
        (fact->flags & O_NONBLOCK) || fact->bytes > fact->stored_bytes + 4096 ||
        fact->offset < 0) {
        return say(look, FY_STAGE_LOCAL_INPUT, "stdin: ", fact->path);
    }
    look->plan->in.kind = FY_STREAM_WIRE;
    look->plan->in.offset = fact->offset;
    look->plan->may_stream = true;
    look->plan->local_bytes =
        fact->bytes > fact->offset ? fact->bytes - fact->offset : 0;
    return FY_STAGE_NONE;
}

static unsigned
look_at_input(struct look *look)
{
    const struct fy_stream_fact *fact = &look->facts->streams[0];
    struct fy_stream_plan *plan = &look->plan->in;
    if (!fact->open) {
        return say(look, FY_STAGE_ODD_STREAM, "stdin is closed", "");
    }
    plan->kind = FY_STREAM_NULL;
    if (!look->invocation->reads_stdin || is_null(fact)) {
        return FY_STAGE_NONE;
    }
    if (S_ISFIFO(fact->mode)) {
        plan->kind = FY_STREAM_LINK;
        plan->is_pipe = true;
        plan->pipe_device = fact->device;
        plan->pipe_inode = fact->inode;
        look->plan->needs_link = true;
        look->plan->may_stream =
            fy_invocation_is(look->invocation, FY_TRAIT_STREAMS) &&
            (fact->flags & (O_ACCMODE | O_NONBLOCK)) == O_RDONLY;
        return FY_STAGE_NONE;
    }
    if (is_terminal(fact)) {
        return FY_STAGE_TERMINAL_INPUT;
    }
    if (!S_ISREG(fact->mode) || (fact->flags & O_ACCMODE) == O_WRONLY) {
        return say(look, FY_STAGE_ODD_STREAM, "stdin", "");
    }
    if (!fy_mount_of(look->mounts, look->nmounts, fact->path)) {
        return look_at_local_file(look, fact);
    }
    if (!fy_stream_is_named(fact)) {
        return say(look, FY_STAGE_ODD_STREAM, "stdin", "");
    }
    fill_file(fact, plan);
    return claim(look, fact->path, false, fact->mount);
}

static unsigned
look_at_output(struct look *look, int fd, struct fy_stream_plan *plan)
{
    const struct fy_stream_fact *fact = &look->facts->streams[fd];
    const char *name = fd == 1 ? "stdout" : "stderr";
    if (!fact->open || (fact->flags & O_ACCMODE) == O_RDONLY) {
        return say(look, FY_STAGE_ODD_STREAM, name, " cannot be written");
    }
    plan->kind = FY_STREAM_WIRE;
    if (is_null(fact)) {
        plan->kind = FY_STREAM_NULL;
    } else if (is_terminal(fact)) {
        plan->kind = fd == 1 ? FY_STREAM_PTY : FY_STREAM_WIRE;
    } else if (S_ISFIFO(fact->mode)) {
        if (fact->unread && look->invocation->effect) {
            /* Without a reader the stage would run on until told; the original
             * ends by SIGPIPE. */
            return say(look, FY_STAGE_ODD_STREAM, name, " has no reader");
        }
        plan->is_pipe = true;
        plan->pipe_device = fact->device;
        plan->pipe_inode = fact->inode;
    } else if (S_ISREG(fact->mode)) {
        /* Its writes belong to the place only if the stage does. */
        const struct fy_mount *mount =
            fy_mount_of(look->mounts, look->nmounts, fact->path);
        unsigned at;
        if (fy_stream_is_named(fact) && mount &&
            !connection_mount(look, mount, &at)) {
            fill_file(fact, plan);
            look->plan->effect = true;
            return claim(look, fact->path, false, fact->mount);
        }
    } else if (!S_ISSOCK(fact->mode)) {
        return say(look, FY_STAGE_ODD_STREAM, name, "");
    }
    return FY_STAGE_NONE;
}

static unsigned
look_at_outputs(struct look *look)
{
    const struct fy_stream_fact *streams = look->facts->streams;
    struct fy_stage_plan *plan = look->plan;
    unsigned reason = look_at_output(look, 1, &plan->out);
    if (reason) {
        return reason;
    }
    bool terminal = is_terminal(&streams[1]) && is_terminal(&streams[2]) &&
                    streams[1].rdevice == streams[2].rdevice;
    if ((look->facts->same & 2) || terminal) {
        plan->err.kind =
            plan->out.kind == FY_STREAM_NULL ? FY_STREAM_NULL : FY_STREAM_SAME;
    } else if (look->facts->same & 4) {
        return say(look, FY_STAGE_ODD_STREAM, "stdout and stderr are one file",
                   "");
    } else {
        reason = look_at_output(look, 2, &plan->err);
        if (reason) {
            return reason;
        }
    }
    if (plan->in.kind == FY_STREAM_FILE &&
        ((plan->out.kind == FY_STREAM_FILE &&
          plan->in.inode == plan->out.inode) ||
         (plan->err.kind == FY_STREAM_FILE &&
          plan->in.inode == plan->err.inode))) {
        return say(look, FY_STAGE_ODD_STREAM, "it reads what it writes", "");
    }
    return FY_STAGE_NONE;
}

/* ---- other descriptors --------------------------------------------------------------- */

static bool
names_descriptors(const char *text)
{
    const char *process = strstr(text, "/proc/");
    return strstr(text, "/dev/fd") || (process && strstr(process, "/fd"));
}

/*
 * Whether the command never touches the ends of pipes that it inherits, as those of a
 * shell's <(...) and >(...): it reads its named operands and its streams, and no
 * operand names the pipe. The stub holds the pipe as long as the command would, so
 * that its other processes see no difference.
 */
static bool
leaves_pipes_alone(const struct look *look)
{
    const struct fy_stage_facts *facts = look->facts;
    const char *const *lists[] = {facts->argv, facts->env};
    if (!look->invocation->pure || look->plan->effect ||
        fy_invocation_is(look->invocation, FY_TRAIT_TAKES_DESCRIPTORS)) {
        return false;
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const char *const *text = lists[i]; text && *text; text++) {
            if (names_descriptors(*text)) {
                return false;
            }
        }
    }
    return true;
}

static unsigned
look_at_others(struct look *look)
{
    if (look->facts->extra_fds > 0) {
        return FY_STAGE_OPEN_FILES;
    }
    if (look->facts->extra_pipes > 0 && !leaves_pipes_alone(look)) {
        return say(look, FY_STAGE_OPEN_FILES, "pipes that it may use", "");
    }
    return FY_STAGE_NONE;
}

/* ---- the whole --------------------------------------------------------------------- */

/*
 * A mount whose options make its files look like others than their host's. What a
 * file holds is the same still, for commands that do nothing but read the files
 * they are given.
 */
static unsigned
look_at_unlike(struct look *look, const struct fy_mount *mount)
{
    const struct fy_invocation *invocation = look->invocation;
    if (mount->traits & FY_MOUNT_OTHER_FILES) {
        return say(look, FY_STAGE_OTHER_NAMES,
                   "the mount shows other files than its host", "");
    }
    bool follows = mount->traits & FY_MOUNT_FOLLOWS_LINKS;
    if (!follows && !(mount->traits & FY_MOUNT_MODES_DIFFER)) {
        return FY_STAGE_NONE;
    }
    /* A command that lists files and folders goes by their types. */
    bool unsafe = look->plan->effect ||
                  fy_invocation_is(invocation, FY_TRAIT_LISTS) ||
                  fy_invocation_is(invocation, FY_TRAIT_TARGETS) ||
                  fy_invocation_is(invocation, FY_TRAIT_SHOWS_MODES);
    for (uint32_t i = 0; follows && i < invocation->nuses; i++) {
        unsafe = unsafe || invocation->uses[i].kind == FY_USE_TREE;
    }
    unsafe = unsafe || (follows && invocation->reads_cwd);
    return unsafe ? say(look, FY_STAGE_OTHER_NAMES,
                        follows ? "the mount follows links by itself"
                                : "the mount shows other modes than its host",
                        "")
                  : FY_STAGE_NONE;
}

/*
 * Whether the command may remove a folder, or names that no word of it says. sshfs
 * goes on showing those, whatever is done here (storage/fresh.c). Commands that may
 * remove a link are refused by the proxy, which sees the link (sandbox/names.c).
 */
static bool
removes_unnamed(const struct fy_invocation *invocation)
{
    if (!invocation->effect ||
        fy_invocation_is(invocation, FY_TRAIT_CHANGES_MODES)) {
        return false;
    }
    bool removes = (invocation->writes_cwd && !invocation->nwritten &&
                    !fy_invocation_is(invocation, FY_TRAIT_MAKES_FILES)) ||
                   fy_invocation_is(invocation, FY_TRAIT_REMOVES_FOLDERS);
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        removes = removes || (invocation->uses[i].kind == FY_USE_TREE &&
                              invocation->uses[i].access == FY_ACCESS_INOUT);
    }
    return removes || invocation->nruns > 0;
}

/* Returns true if the command may remove a file or replace it by another. */
static bool
removes_files(const struct fy_invocation *invocation)
{
    return (invocation->effect || invocation->writes_cwd) &&
           !fy_invocation_is(invocation, FY_TRAIT_CHANGES_MODES) &&
           !fy_invocation_is(invocation, FY_TRAIT_CHANGES_CONTENTS);
}

/* What a mount's kind makes impossible, once it is known. */
static unsigned
look_at_mount(struct look *look, const struct fy_mount *mount)
{
    const struct fy_invocation *invocation = look->invocation;
    bool owners = fy_invocation_is(invocation, FY_TRAIT_OWNERS) ||
                  (invocation->effect &&
                   fy_invocation_is(invocation, FY_TRAIT_REPLACES_OPERANDS));
    if (owners && (mount->traits & FY_MOUNT_OWNERS_DIFFER)) {
        return say(look, FY_STAGE_OTHER_NAMES,
                   "the mount shows other owners than its host", "");
    }
    unsigned unlike = look_at_unlike(look, mount);
    if (unlike) {
        return unlike;
    }
    if (fy_invocation_is(invocation, FY_TRAIT_ATTRIBUTES) &&
        (mount->traits & FY_MOUNT_OTHER_ATTRIBUTES)) {
        return say(look, FY_STAGE_OTHER_NAMES,
                   "the mount shows other attributes than its host", "");
    }
    if ((mount->traits & FY_MOUNT_BY_PATH) && removes_unnamed(invocation)) {
        return say(look, FY_STAGE_FORBIDDEN,
                   "sshfs would go on showing what is gone", "");
    }
    if ((mount->traits & FY_MOUNT_LOSES_FILES) && removes_files(invocation)) {
        return say(look, FY_STAGE_FORBIDDEN,
                   "a program that has the file open would lose it", "");
    }
    /* A server's umask is 022 nearly everywhere. */
    if ((mount->traits & FY_MOUNT_MASKS) && invocation->effect &&
        (look->facts->umask & 022) != 022) {
        return say(look, FY_STAGE_OTHER_CONFIG,
                   "its umask is laxer than that of servers", "");
    }
    if ((mount->traits & FY_MOUNT_KEEPS) && look->plan->effect) {
        return say(look, FY_STAGE_FORBIDDEN,
                   "the mount would go on showing what it remembers", "");
    }
    if ((mount->traits & FY_MOUNT_READ_ONLY) && look->plan->effect) {
        return say(look, FY_STAGE_REFUSED, "mounted read-only", "");
    }
    if (mount->traits & FY_MOUNT_OTHER_ATTRIBUTES) {
        /* Its file numbers are its own, not the host's. */
        look->plan->in.inode = look->plan->out.inode = 0;
        look->plan->err.inode = 0;
    }
    return FY_STAGE_NONE;
}

static unsigned
look_at_place(struct look *look)
{
    unsigned reason = FY_STAGE_NONE;
    for (unsigned i = 0; !reason && i < look->plan->nmounts; i++) {
        reason = look_at_mount(look, look->plan->mounts[i]);
    }
    return reason;
}

unsigned
fy_classify(const struct fy_stage_facts *facts,
            const struct fy_invocation *invocation,
            const struct fy_mount *mounts, unsigned nmounts,
            struct fy_stage_plan *out, struct fy_buffer *why)
{
    struct look look = {.facts = facts,
                        .invocation = invocation,
                        .mounts = mounts,
                        .nmounts = nmounts,
                        .plan = out,
                        .why = why};
    char program[PATH_MAX];
    memset(out, 0, sizeof *out);
    out->effect = invocation->effect || invocation->writes_cwd;
    unsigned reason = look_at_others(&look);
    if (reason) {
        return reason;
    }
    if (facts->cwd[0] != '/') {
        return say(&look, FY_STAGE_UNCLEAR_PATH, "the working folder", "");
    }
    if (fy_path_join(facts->cwd, facts->path, program) ||
        fy_mount_of(mounts, nmounts, program)) {
        return say(&look, FY_STAGE_UNCLEAR_PATH,
                   "the program itself: ", facts->path);
    }
    reason = look_at_operands(&look);
    if (!reason) {
        reason = look_at_cwd(&look);
    }
    if (!reason) {
        reason = look_at_input(&look);
    }
    if (!reason && invocation->fed && !out->needs_link) {
        reason = say(&look, FY_STAGE_LOCAL_INPUT,
                     "its paths come from this machine", "");
    }
    if (!reason && !out->mount && !out->needs_link && !out->may_stream) {
        reason = FY_STAGE_LOCAL_FILES;
    }
    if (!reason) {
        reason = look_at_outputs(&look);
    }
    if (!reason && out->in.kind == FY_STREAM_WIRE && !out->mount) {
        reason =
            say(&look, FY_STAGE_LOCAL_INPUT, "stdin: ", facts->streams[0].path);
    }
    out->may_stream = out->may_stream && out->mount;
    if (!reason && fy_invocation_is(invocation, FY_TRAIT_TERMINAL) &&
        (is_terminal(&facts->streams[0]) || is_terminal(&facts->streams[1]) ||
         is_terminal(&facts->streams[2]))) {
        reason = FY_STAGE_TERMINAL_INPUT;
    }
    if (!reason) {
        reason = look_at_place(&look);
    }
    /* A file that it writes from a position is written again with the same. */
    bool appends =
        (out->out.kind == FY_STREAM_FILE && (out->out.flags & O_APPEND)) ||
        (out->err.kind == FY_STREAM_FILE && (out->err.flags & O_APPEND));
    out->repeatable = invocation->pure && !look.writes_operand && !appends;
    for (unsigned i = 0; i < FY_STAGE_MOUNTS; i++) {
        free(look.nested[i]); /* one block */
    }
    return reason;
}
