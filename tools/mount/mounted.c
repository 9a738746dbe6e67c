/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the counters of mounts, for ferry report FOLDER and ferry doctor.
 */
#include "config.h"

#include "tools/mount/mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/plain.h"
#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"
#include "tools/tool.h"

enum {
    ANSWER_BYTES = 16 << 10,
    PATIENCE_MS = 5000,
};

typedef unsigned long long number;

static number
of(const char *lines, const char *key)
{
    return fy_control_number(lines, key);
}

/* Returns the share of the whole in per cent. */
static number
share(number part, number all)
{
    return all > 0 ? (100 * part + all / 2) / all : 0;
}

static void
print_text(const char *name, const char *lines, const char *key)
{
    size_t n;
    const char *text = fy_control_text(lines, key, &n);
    char plain[1024];
    (void)snprintf(plain, sizeof plain, "%.*s", text ? (int)n : 1,
                   text ? text : "?");
    fy_plain(plain, "");
    printf("  %-16s %s\n", name, plain);
}

static void
print_types(const char *lines)
{
    for (const char *at = lines; *at;
         at += strcspn(at, "\n"), at += *at == '\n') {
        char type[32];
        number count;
        if (strncmp(at, "request ", 8) == 0 &&
            sscanf(at + 8, "%31s %llu", type, &count) == 2 && count > 0) {
            fy_plain(type, "");
            printf("    %-14s %llu\n", type, count);
        }
    }
}

static void
print_report(const char *lines)
{
    number pushed = of(lines, "pushed_bytes"), used = of(lines, "used_bytes");
    print_text("place", lines, "place");
    print_text("link", lines, "link");
    printf("  %-16s %llu\n", "process", of(lines, "pid"));
    printf("  %-16s %llu us\n", "round trip", of(lines, "rtt_us"));
    printf("  %-16s %llu, of which callers waited for %llu\n", "requests",
           of(lines, "requests"), of(lines, "waited"));
    print_types(lines);
    printf("  %-16s %llu bytes out, %llu in\n", "bytes",
           of(lines, "sent_bytes"), of(lines, "received_bytes"));
    printf("  %-16s %llu files, %llu bytes; used %llu files, %llu bytes "
           "(%llu %%)\n",
           "sent ahead", of(lines, "pushed_files"), pushed,
           of(lines, "used_files"), used, share(used, pushed));
    printf("  %-16s %llu told whole\n", "trees", of(lines, "trees"));
    printf("  %-16s %llu files and folders, %llu folders watched\n", "known",
           of(lines, "nodes"), of(lines, "watched"));
    printf("  %-16s %llu; %llu times all was looked at again\n", "notices",
           of(lines, "notices"), of(lines, "lost"));
    printf("  %-16s %llu bytes, %llu requests\n", "outstanding",
           of(lines, "pending_bytes"), of(lines, "pending_requests"));
    printf("  %-16s %llu times; %llu errors\n", "link broke",
           of(lines, "breaks"), of(lines, "errors"));
}

/* The answer to "report", new; NULL with `why'. */
static char *
ask(const struct fy_mount *mount, struct fy_buffer *why)
{
    struct fy_buffer lines;
    char *answer = malloc(ANSWER_BYTES);
    if (!answer) {
        return NULL;
    }
    fy_buffer_start(&lines, answer, ANSWER_BYTES);
    if (fy_control_ask(mount->control, FY_FILES_CONTROL_REPORT, PATIENCE_MS,
                       &lines, why)) {
        free(answer);
        return NULL;
    }
    return answer;
}

/* The folder's name as mountinfo has it; its last part is not looked at, since a dead
 * mount cannot be. */
static bool
plain_name(const char *folder, char out[PATH_MAX])
{
    char copy[PATH_MAX];
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') {
        n--;
    }
    if (n == 0 || n >= sizeof copy) {
        errno = n ? ENAMETOOLONG : ENOENT;
        return false;
    }
    memcpy(copy, folder, n);
    copy[n] = '\0';
    char *name = strrchr(copy, '/');
    name = name ? name + 1 : copy;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return realpath(copy, out);
    }
    char last[NAME_MAX + 1];
    if (strlen(name) >= sizeof last) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(last, name);
    *name = '\0';
    if (!realpath(*copy ? copy : ".", out)) {
        return false;
    }
    size_t used = strlen(out);
    return snprintf(out + used, PATH_MAX - used, "%s%s",
                    strcmp(out, "/") == 0 ? "" : "/",
                    last) < (int)(PATH_MAX - used);
}

int
fy_mount_find(const char *folder, struct fy_mount *out)
{
    char path[PATH_MAX];
    if (!plain_name(folder, path)) {
        return FY_ERR_IO;
    }
    if (!fy_mount_at(path, out)) {
        return FY_ERR_NOENT;
    }
    return strcmp(out->type, "fuse.ferry") == 0 ? 0 : FY_ERR_INVALID;
}

bool
fy_mount_report(const char *folder, int *out_status)
{
    struct fy_mount *mount = calloc(1, sizeof *mount);
    if (!mount || fy_mount_find(folder, mount)) {
        free(mount);
        return false;
    }
    char cause[512] = "no memory";
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    char *lines = ask(mount, &why);
    if (lines) {
        fy_plain(mount->path, "");
        printf("%s\n", mount->path);
        print_report(lines);
        *out_status = fy_finish_output(FY_EXIT_OK);
    } else {
        fy_say("%s: %s", folder, cause);
        *out_status = FY_EXIT_FAILURE;
    }
    free(lines);
    free(mount);
    return true;
}

/* Prints one line: its place and state. */
static void
print_mount(const struct fy_mount *mount)
{
    char text[3 * PATH_MAX];
    struct fy_buffer line;
    fy_buffer_start(&line, text, sizeof text);
    char *lines = mount->traits & FY_MOUNT_TOLD ? ask(mount, NULL) : NULL;
    fy_buffer_printf(&line, "%s: %s of ", mount->path, mount->type);
    fy_place_name(&mount->place, &line);
    fy_buffer_printf(&line, "%s%s", mount->place.path[0] == '/' ? "" : "/",
                     mount->place.path);
    fy_plain(text, "");
    printf("  %s\n", text);
    if (lines) {
        printf("    %llu requests, %llu waited for; %llu %% of what was sent "
               "ahead was used\n",
               of(lines, "requests"), of(lines, "waited"),
               share(of(lines, "used_bytes"), of(lines, "pushed_bytes")));
    } else if (mount->traits & FY_MOUNT_TOLD) {
        printf("    it does not answer\n");
    }
    free(lines);
}

void
fy_mounts_print(void)
{
    struct fy_mount *mounts = calloc(FY_MAX_MOUNTS, sizeof *mounts);
    unsigned n = 0;
    printf("mounts\n");
    if (!mounts || fy_mounts_find(NULL, true, mounts, &n, NULL) || n == 0) {
        printf("  none is another host's\n");
    }
    for (unsigned i = 0; i < n; i++) {
        print_mount(&mounts[i]);
    }
    free(mounts);
}
