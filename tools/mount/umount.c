/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry umount: asks the mount's process to deliver outstanding writes and to end; takes
 * the folder from the kernel where no process serves it, and with --force always. Looks
 * at no file of the mount, which may not answer.
 */
#include "config.h"

#include "tools/mount/mount.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/path.h"
#include "common/plain.h"
#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"
#include "tools/tool.h"

enum {
    CAUSE_BYTES = 512,
    FORCE_MS = 3000, /* until the process is not asked any more */
    ENDED_TRIES = 200,
    ENDED_STEP_US = 10000,
    HOLDERS_TOLD = 10,
};

static const char help[] =
    "Usage: ferry umount [--force] [--lazy] FOLDER\n"
    "Waits until all that was written is at the storage, and unmounts.\n\n"
    "  -f, --force   at once, whatever waits: what was not written is lost, "
    "and "
    "said\n"
    "  -l, --lazy    the folder is free at once, also while files of it are in "
    "use\n"
    "  --help\n";

/* ---- who holds it ---------------------------------------------------------------- */

/* Returns true if a link in a process's folder in /proc leads below the
 * folder. */
static bool
leads_below(int process, const char *name, const char *folder)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(process, name, text, sizeof text - 1);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return fy_path_is_beneath(text, folder);
}

/* Returns the thing of the process that holds it: "its working folder", "an
 * open file", ...; NULL. */
static const char *
held_by(int process, const char *folder)
{
    if (leads_below(process, "cwd", folder)) {
        return "working folder";
    }
    if (leads_below(process, "root", folder)) {
        return "root folder";
    }
    if (leads_below(process, "exe", folder)) {
        return "program";
    }
    static const char *const listed[] = {"fd", "map_files"};
    const char *what = NULL;
    for (size_t i = 0; !what && i < 2; i++) {
        DIR *all = fy_folder_open(process, listed[i]);
        const struct dirent *entry;
        while (all && !what && (entry = readdir(all))) {
            if (leads_below(dirfd(all), entry->d_name, folder)) {
                what = i == 0 ? "open file" : "mapped file";
            }
        }
        if (all) {
            closedir(all);
        }
    }
    return what;
}

static void
tell_holder(int process, const char *pid, const char *what)
{
    char name[64] = "";
    int fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
    name[n > 0 ? n - 1 : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    fy_say("  process %s (%s): %s", pid, name, what);
}

static void
tell_holders(const char *folder, pid_t server)
{
    DIR *all = opendir("/proc");
    const struct dirent *entry;
    unsigned told = 0, more = 0;
    while (all && (entry = readdir(all))) {
        int process = isdigit((unsigned char)entry->d_name[0])
                          ? openat(dirfd(all), entry->d_name,
                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                          : -1;
        if (process < 0) {
            continue;
        }
        const char *what = (pid_t)atoi(entry->d_name) == server
                               ? NULL
                               : held_by(process, folder);
        if (what && told < HOLDERS_TOLD) {
            tell_holder(process, entry->d_name, what);
            told++;
        } else if (what) {
            more++;
        }
        close(process);
    }
    if (all) {
        closedir(all);
    }
    if (more > 0) {
        fy_say("  and %u more", more);
    } else if (told == 0) {
        fy_say("  by a process of another user, or a mount below it");
    }
}

/* ---- the kernel's side ----------------------------------------------------------- */

/* False with errno: umount2(2), or fusermount3 for those who may not call it. */
static bool
detach(const char *folder, bool lazy)
{
    if (umount2(folder, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) {
        return true;
    }
    if (errno != EPERM) {
        return false;
    }
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)execlp("fusermount3", "fusermount3", lazy ? "-uqz" : "-uq", "--",
                     folder, NULL);
        _exit(FY_EXIT_NOT_FOUND);
    }
    bool done = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    errno = WEXITSTATUS(status) == FY_EXIT_NOT_FOUND ? EPERM : EBUSY;
    return done;
}

/* All calls that wait for the mount's process end with an error. */
static void
abort_connection(const struct fy_mount *mount)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort",
                   minor(mount->device));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, "1", 1);
        close(fd);
    }
}

static bool
is_mounted(const char *folder, const struct fy_mount *mount)
{
    struct fy_mount *now = calloc(1, sizeof *now);
    bool mounted =
        now && fy_mount_at(folder, now) && now->device == mount->device;
    free(now);
    return mounted;
}

/* After it was told to end: a process that does not is killed. */
static void
end_process(pid_t pid)
{
    for (int i = 0; pid > 0 && i < ENDED_TRIES && kill(pid, 0) == 0; i++) {
        (void)usleep(ENDED_STEP_US);
    }
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
    }
}

static int
force(const struct fy_mount *mount)
{
    char answer[CAUSE_BYTES] = "";
    struct fy_buffer lines;
    fy_buffer_start(&lines, answer, sizeof answer);
    int asked = mount->control[0]
                    ? fy_control_ask(mount->control, FY_FILES_CONTROL_FORCE,
                                     FORCE_MS, &lines, NULL)
                    : FY_ERR_IO;
    if (asked) {
        abort_connection(mount);
    }
    if (is_mounted(mount->path, mount) && !detach(mount->path, true)) {
        fy_say("%s: %s", mount->path, strerror(errno));
        return FY_EXIT_MOUNT_FAILED;
    }
    if (asked) {
        end_process(mount->pid);
    }
    unsigned long long lost = fy_control_number(answer, "lost_bytes");
    if (lost > 0) {
        fy_say("%s: %llu bytes of %llu files that were written are lost",
               mount->path, lost, fy_control_number(answer, "lost_files"));
    }
    lost = fy_control_number(answer, "lost_creations");
    if (lost > 0) {
        fy_say("%s: %llu files that were created are lost", mount->path, lost);
    }
    return FY_EXIT_OK;
}

/* No process serves it: nothing is outstanding that could be delivered. */
static int
take_away(const struct fy_mount *mount)
{
    if (detach(mount->path, false) || detach(mount->path, true)) {
        fy_say("%s: its process had ended already", mount->path);
        return FY_EXIT_OK;
    }
    fy_say("%s: %s", mount->path, strerror(errno));
    return FY_EXIT_MOUNT_FAILED;
}

static int
ask(const struct fy_mount *mount, bool lazy)
{
    char cause[CAUSE_BYTES] = "";
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    int status = fy_control_ask(
        mount->control, lazy ? FY_FILES_CONTROL_LAZY : FY_FILES_CONTROL_END, 0,
        NULL, &why);
    if (status == FY_ERR_IO && !is_mounted(mount->path, mount)) {
        return FY_EXIT_OK;
    }
    if (status == FY_ERR_INVALID && strcmp(cause, "busy") == 0) {
        fy_say("%s is in use:", mount->path);
        tell_holders(mount->path, mount->pid);
    } else if (status) {
        fy_say("%s: %s", mount->path, cause);
    }
    return status ? FY_EXIT_MOUNT_FAILED : FY_EXIT_OK;
}

int
fy_mount_end(const char *folder, bool lazy, bool forced)
{
    struct fy_mount *mount = calloc(1, sizeof *mount);
    int status = mount ? fy_mount_find(folder, mount) : FY_ERR_NOMEM;
    int result = FY_EXIT_MOUNT_FAILED;
    if (status == FY_ERR_INVALID) {
        fy_say("%s is a mount of type %s: 'umount %s' unmounts it", folder,
               mount->type, folder);
    } else if (status == FY_ERR_NOENT) {
        fy_say("%s is not mounted", folder);
    } else if (status) {
        fy_say("%s: %s", folder, strerror(errno));
    } else if (forced) {
        result = force(mount);
    } else if (mount->pid <= 0) {
        result = take_away(mount);
    } else {
        result = ask(mount, lazy);
    }
    free(mount);
    return result;
}

int
fy_tool_umount(int argc, char **argv)
{
    static const struct option words[] = {{"force", no_argument, NULL, 'f'},
                                          {"lazy", no_argument, NULL, 'l'},
                                          {"help", no_argument, NULL, 'H'},
                                          {NULL, 0, NULL, 0}};
    bool forced = false, lazy = false;
    int id;
    optind = 0;
    while ((id = getopt_long(argc, argv, "fl", words, NULL)) != -1) {
        if (id == 'H') {
            (void)fputs(help, stdout);
            return fy_finish_output(FY_EXIT_OK);
        }
        if (id == '?') {
            (void)fy_usage_error("umount");
            return FY_EXIT_MOUNT_USAGE;
        }
        forced = forced || id == 'f';
        lazy = lazy || id == 'l';
    }
    if (optind + 1 != argc) {
        fy_say("expected one folder");
        (void)fy_usage_error("umount");
        return FY_EXIT_MOUNT_USAGE;
    }
    return fy_mount_end(argv[optind], lazy, forced);
}
