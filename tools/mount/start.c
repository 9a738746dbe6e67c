/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts ferry-mount and waits until the mount answers or cannot be had. Losses of an
 * earlier mount are told first.
 */
#include "config.h"

#include "tools/mount/mount.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy/files/record.h"
#include "tools/tool.h"

enum {
    WORDS = 12,
};

/* The words of ferry-mount's command line, and the buffers they point into. */
struct words {
    const char *argv[WORDS];
    unsigned n;
    char place[3 * sizeof(struct fy_place)];
    char ferry[PATH_MAX + 16], control[PATH_MAX + 16];
    char options[PATH_MAX + 1024];
};

static void
add(struct words *words, const char *word)
{
    words->argv[words->n++] = word;
}

/* "--name=value" in `to'; false: it does not fit. */
static bool
add_value(struct words *words, char *to, size_t bytes, const char *name,
          const char *value)
{
    int n = snprintf(to, bytes, "--%s=%s", name, value);
    add(words, to);
    return n > 0 && (size_t)n < bytes;
}

static void
add_if(bool given, const char *option, struct fy_buffer *out)
{
    fy_buffer_printf(out, "%s%s", given ? "," : "", given ? option : "");
}

/* "-oLIST"; false: it does not fit. */
static bool
add_options(const struct fy_mount_request *request, struct words *words)
{
    struct fy_buffer out;
    char number[32];
    fy_buffer_start(&out, words->options, sizeof words->options);
    fy_buffer_add(&out, request->read_only ? "-oro" : "-orw");
    add_if(request->strict, "strict", &out);
    add_if(request->async, "async", &out);
    add_if(request->allow_other, "allow_other", &out);
    add_if(request->numbers, "idmap=none", &out);
    add_if(request->devices, "devices", &out);
    (void)snprintf(number, sizeof number, "soft=%u", request->soft_seconds);
    add_if(request->soft_seconds > 0, number, &out);
    (void)snprintf(number, sizeof number, "ac=%.3f", request->ac_ms / 1000.0);
    add_if(request->ac_ms > 0, number, &out);
    add_if(request->kernel[0], request->kernel, &out);
    if (!strchr(request->source, ',')) {
        fy_buffer_printf(&out, ",source=%s", request->source);
    }
    add(words, words->options);
    return !out.overflowed;
}

/* The socket of the process `pid' in a private folder: FOLDER/mounts/PID.control. */
static bool
add_control(struct words *words, pid_t pid)
{
    int (*const folders[])(char out[PATH_MAX]) = {fy_runtime_folder,
                                                  fy_cache_folder};
    char folder[PATH_MAX], path[PATH_MAX + 64];
    for (size_t i = 0; i < 2; i++) {
        if (folders[i](folder)) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/mounts", folder);
        if (mkdir(path, S_IRWXU) != 0 && errno != EEXIST) {
            continue;
        }
        int n = snprintf(path, sizeof path, "%s/mounts/%d.control", folder,
                         (int)pid);
        if (n > 0 && (size_t)n < sizeof((struct fy_mount *)NULL)->control) {
            (void)unlink(path); /* of an old process with this number */
            return add_value(words, words->control, sizeof words->control,
                             "control", path);
        }
    }
    return false;
}

/* False: something is too long, or there is no private folder; it was said. */
static bool
write_words(const struct fy_mount_request *request,
            const struct fy_places *places, struct words *words)
{
    struct fy_buffer place;
    memset(words, 0, sizeof *words);
    fy_buffer_start(&place, words->place, sizeof words->place);
    fy_place_write(&request->place, &place);
    add(words, places->mount);
    if (request->how == FY_MOUNT_FOREGROUND) {
        add(words, "-f");
    }
    bool fits = add_value(words, words->ferry, sizeof words->ferry, "ferry",
                          places->ferry) &&
                add_options(request, words);
    if (!add_control(words, getpid())) {
        fy_say("no private folder for the mount's socket: set XDG_RUNTIME_DIR "
               "or XDG_CACHE_HOME to one with a short name");
        return false;
    }
    add(words, words->place);
    add(words, request->folder);
    if (!fits) {
        fy_say("%s: a path that is too long", request->source);
    }
    return fits;
}

/* Becomes ferry-mount; an exit status when that fails, which was said. */
static int
become(const struct words *words)
{
    (void)execv(words->argv[0], (char *const *)words->argv);
    if (errno == ENOENT) {
        fy_say("this ferry has no ferry-mount (%s): it was built without "
               "libfuse3",
               words->argv[0]);
    } else {
        fy_say("%s: %s", words->argv[0], strerror(errno));
    }
    return FY_EXIT_MOUNT_SYSTEM;
}

static void
tell_lost(const struct fy_files_record *record, void *context)
{
    (void)context;
    if (record->bytes > 0) {
        fy_say(
            "writes were lost: the mount of %s on %s (process %u) was killed "
            "before %llu bytes of %u file%s had reached the storage",
            record->place, record->folder, record->pid,
            (unsigned long long)record->bytes, record->files,
            record->files == 1 ? "" : "s");
    }
    if (record->changes > 0) {
        fy_say(
            "changes were lost: the mount of %s on %s (process %u) was killed "
            "before %llu creations or renames had reached the storage",
            record->place, record->folder, record->pid,
            (unsigned long long)record->changes);
    }
}

static void
tell_all_lost(void)
{
    char folder[PATH_MAX], path[PATH_MAX + 16];
    if (fy_cache_folder(folder) == 0) {
        (void)snprintf(path, sizeof path, "%s/mounts", folder);
        fy_files_records_take(path, tell_lost, NULL);
    }
}

/*
 * Waits for the program that mounts, which ends when the mount answers. A signal for this
 * process ends it and all that it has started.
 */
static int
wait_ready(const struct fy_mount_request *request, pid_t pid,
           const sigset_t *signals)
{
    int status = 0, signal = 0;
    while (signal != SIGCHLD || waitpid(pid, &status, WNOHANG) != pid) {
        signal = sigwaitinfo(signals, NULL);
        if (signal > 0 && signal != SIGCHLD) {
            (void)kill(-pid, SIGTERM);
            (void)waitpid(pid, NULL, 0);
            return FY_EXIT_MOUNT_INTERRUPTED;
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        if (request->how != FY_MOUNT_QUIETLY) {
            printf("%s is mounted on %s\n", request->source, request->folder);
        }
        return FY_EXIT_OK;
    }
    if (!WIFEXITED(status)) {
        fy_say("%s: ferry-mount has ended before the mount answered",
               request->source);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == FY_EXIT_MOUNT_SYSTEM
               ? FY_EXIT_MOUNT_SYSTEM
               : FY_EXIT_MOUNT_FAILED;
}

static int
start(const struct fy_mount_request *request, const struct words *words)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, &before);
    int result = FY_EXIT_MOUNT_SYSTEM;
    pid_t pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        (void)setsid(); /* the terminal's Ctrl-C is not for the mount */
        _exit(become(words));
    }
    if (pid < 0) {
        fy_say("cannot start a process: %s", strerror(errno));
    } else {
        result = wait_ready(request, pid, &signals);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return result;
}

int
fy_mount_start(const struct fy_mount_request *request)
{
    struct fy_places places;
    struct words *words = malloc(sizeof *words);
    fy_places_find(&places);
    tell_all_lost();
    if (!words || !write_words(request, &places, words)) {
        free(words);
        return FY_EXIT_MOUNT_SYSTEM;
    }
    int status = request->how == FY_MOUNT_FOREGROUND ? become(words)
                                                     : start(request, words);
    free(words);
    return status;
}
