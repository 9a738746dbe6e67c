/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are carried: their files, by content from the store, are put where the stage
 * finds them. In a namespace they stand at the client's paths; without one the carried
 * linker starts the program from a folder of the store, and every other file that it may
 * read must be this host's own, byte for byte. Runs in threads of the proxy.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "common/kernel.h"
#include "common/path.h"
#include "common/settings.h"
#include "common/whole.h"
#include "proxy/sandbox/check.h"
#include "proxy/storage/needs.h"
#include "proxy/storage/store.h"
#include "proxy/storage/tools.h"

enum {
    FILE_MAX_BYTES = 64 << 20, /* that is looked into */
};

struct fy_store *
fy_policy_store(struct fy_policy *policy, struct fy_buffer *why)
{
    (void)pthread_mutex_lock(&policy->lock);
    char folder[PATH_MAX];
    struct statvfs about;
    if (!policy->store &&
        fy_store_open(policy->home, FY_STORE_BYTES, why, &policy->store)) {
        policy->store = NULL;
    } else if (policy->store && !policy->store_placed) {
        policy->store_placed = true;
        /* The home may be mounted by a client. */
        if (fy_temporary_new(policy, folder, sizeof folder) == 0 &&
            statvfs(folder, &about) == 0 && !(about.f_flag & ST_NOEXEC)) {
            fy_store_set_place(policy->store, folder);
        }
    }
    struct fy_store *store = policy->store;
    (void)pthread_mutex_unlock(&policy->lock);
    return store;
}

int
fy_carried_open(const struct fy_check *check, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS |
                                      RESOLVE_NO_XDEV};
    return fy_openat2(check->image_fd, path, &how);
}

static const struct fy_carried_file *
find(const struct fy_check *check, const char *path)
{
    const struct fy_stage_spec *spec = check->spec;
    for (uint32_t i = 0; i < spec->ncarried; i++) {
        if (strcmp(spec->carried[i].path.at, path) == 0) {
            return &spec->carried[i];
        }
    }
    return NULL;
}

/* The stage may execute a program of the image. */
static bool
keep(struct fy_check *check, const char *path)
{
    const struct fy_carried_file *file = find(check, path);
    int fd = file && file->executes ? fy_carried_open(check, path) : -1;
    check->nprograms++;
    return fd >= 0 && fy_check_keep_file(check, fd, path);
}

/* Has one of the stage's files stand in the image. */
static int
show(struct fy_check *check, struct fy_store *store,
     const struct fy_carried_file *file)
{
    char path[PATH_MAX], beneath[PATH_MAX];
    if (!fy_check_text(&file->path, path, sizeof path) ||
        fy_seen_of(check->seen, check->nseen, path, beneath, sizeof beneath)) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL,
                               "a file that is carried ", "cannot stand at ",
                               path);
    }
    int status = fy_store_show(store, path, file->sha256);
    return !status
               ? 0
               : fy_check_refuse(check,
                                 status == FY_ERR_BUSY ? FY_STAGE_BUSY
                                                       : FY_STAGE_OTHER_TOOL,
                                 path,
                                 status == FY_ERR_NOENT ? " is not in its store"
                                 : status == FY_ERR_BUSY
                                     ? " was another one before"
                                     : " cannot be carried",
                                 NULL);
}

/* Opens the image; the program is among its files. */
static int
open_image(struct fy_check *check, struct fy_store *store, const char *program)
{
    const char *image = fy_store_image(store);
    check->image_fd =
        image ? open(image, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    return check->image_fd >= 0 && keep(check, program)
               ? 0
               : fy_check_refuse(check, FY_STAGE_OTHER_TOOL, program,
                                 " is not among what is carried", NULL);
}

/* ---- by the carried linker ------------------------------------------------------------ */

/* Returns true if the file's bytes hold the text; also when they cannot be read. */
static bool
holds(const struct fy_check *check, const char *path, const char *text)
{
    char link[40];
    size_t n = 0;
    int fd = fy_carried_open(check, path);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    char *bytes = fd < 0 ? NULL : fy_read_file(link, FILE_MAX_BYTES, &n);
    bool found = !bytes || memmem(bytes, n, text, strlen(text));
    free(bytes);
    if (fd >= 0) {
        close(fd);
    }
    return found;
}

static bool
is_library(const char *path)
{
    return strstr(fy_path_name(path), ".so");
}

/* Adds the folder of the library in the image, if it is not in the list yet. */
static bool
add_folder(struct fy_buffer *list, const char *image, const char *library)
{
    char folder[2 * PATH_MAX];
    int n = snprintf(folder, sizeof folder, "%s%.*s", image,
                     (int)(strrchr(library, '/') - library), library);
    const char *at = list->text;
    while ((at = strstr(at, folder))) {
        if ((at == list->text || at[-1] == ':') && (!at[n] || at[n] == ':')) {
            return true;
        }
        at++;
    }
    fy_buffer_add(list, *list->text ? ":" : "");
    fy_buffer_add(list, folder);
    return !list->overflowed;
}

/* Returns true if this host has the very file at its path. */
static bool
stands_here(const struct fy_carried_file *file)
{
    unsigned char found[32];
    struct stat about;
    int fd = open(file->path.at, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool same = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                about.st_size <= FILE_MAX_BYTES &&
                fy_tool_hash(fd, &about, found) == 0 &&
                memcmp(found, file->sha256, sizeof found) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return same;
}

/*
 * Returns true if the carried libc finds this host's files for the locales to be the
 * client's: those that are carried are compared, so no others may come before them.
 */
static bool
has_locales(const struct fy_check *check)
{
    static const char archive[] = "/usr/lib/locale/locale-archive";
    bool some = false, plain = true;
    bool all = *fy_check_variable(check->spec, "LC_ALL");
    for (size_t i = 0; i < (all ? 1 : FY_LOCALE_VARIABLES); i++) {
        const char *value =
            fy_check_variable(check->spec, fy_locale_variables[i]);
        if (!*value || strcmp(value, "C") == 0 || strcmp(value, "POSIX") == 0) {
            continue;
        }
        some = true;
        plain = plain && !fy_has_translations(value);
    }
    bool carried = false;
    for (uint32_t i = 0; i < check->spec->ncarried; i++) {
        carried = carried || fy_path_is_beneath(check->spec->carried[i].path.at,
                                                "/usr/lib/locale");
    }
    return !some ||
           (plain && carried &&
            !fy_has_translations(fy_check_variable(check->spec, "LANGUAGE")) &&
            (find(check, archive) || access(archive, F_OK) != 0));
}

/* Names the first reason why the program cannot be this host's process; NULL: none. */
static const char *
find_obstacle(struct fy_check *check, const char *program, const char *linker)
{
    struct stat about;
    if (fy_invocation_is(check->invocation, FY_TRAIT_OWNERS)) {
        return " looks for users by this host's libraries";
    }
    if (stat("/etc/ld.so.preload", &about) == 0 || errno != ENOENT) {
        return " would load this host's libraries";
    }
    if (!has_locales(check)) {
        return ": the locale may be another there";
    }
    if (holds(check, program, "/proc/self/exe")) {
        return " looks for its own file";
    }
    /* glibc 2.34 looks names up without more libraries. */
    return !*linker || (holds(check, linker, "--argv0") &&
                        holds(check, linker, "GLIBC_2.34"))
               ? NULL
               : ": its linker is too old to be run by itself";
}

/* Compares the files that are no libraries with this host's; `needs': what the linker
 * finds. */
static int
compare_files(struct fy_check *check, const char *program, const char *linker,
              const char *image, const struct fy_needs *needs)
{
    const struct fy_stage_spec *spec = check->spec;
    size_t n = strlen(image);
    for (uint32_t i = 0; i < spec->ncarried; i++) {
        const char *path = spec->carried[i].path.at;
        bool found = strcmp(path, program) == 0 || strcmp(path, linker) == 0 ||
                     strcmp(path, "/etc/ld.so.cache") == 0;
        for (unsigned j = 0; !found && j < needs->n; j++) {
            found = strncmp(needs->rows[j].path, image, n) == 0 &&
                    strcmp(needs->rows[j].path + n, path) == 0;
        }
        if (!found && !stands_here(&spec->carried[i])) {
            return fy_check_refuse(check, FY_STAGE_OTHER_CONFIG, path,
                                   " is another there, where no namespace can "
                                   "show the client's",
                                   NULL);
        }
    }
    for (unsigned j = 0; j < needs->n; j++) {
        const char *path = needs->rows[j].path;
        if (strncmp(path, image, n) != 0 &&
            strcmp(fy_path_name(path), fy_path_name(linker)) != 0) {
            return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, program,
                                   " would load ", path);
        }
    }
    return 0;
}

/* Has the program's files stand in the image, and the linker told where. */
static int
link_program(struct fy_check *check, struct fy_store *store,
             const char *program, const char *image)
{
    const struct fy_stage_spec *spec = check->spec;
    struct fy_sandbox *sandbox = check->sandbox;
    const struct fy_carried_file *own = find(check, program);
    char linker[PATH_MAX];
    struct fy_buffer list;
    struct fy_needs needs = {.known = true};
    int fd, status = own ? show(check, store, own) : 0;
    if (status || (status = open_image(check, store, program))) {
        return status;
    }
    (void)snprintf(sandbox->program, sizeof sandbox->program, "%s%s", image,
                   program);
    fd = open(sandbox->program, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    status = fd < 0 ? FY_ERR_IO : fy_needs_linker(fd, linker);
    if (fd >= 0) {
        close(fd);
    }
    const struct fy_carried_file *loads = find(check, linker);
    if (status || (*linker && (!loads || !loads->executes))) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, program,
                               ": its linker is not carried", NULL);
    }
    fy_buffer_start(&list, sandbox->libraries, sizeof sandbox->libraries);
    bool good = true;
    for (uint32_t i = 0; *linker && i < spec->ncarried; i++) {
        if (is_library(spec->carried[i].path.at)) {
            status = show(check, store, &spec->carried[i]);
            if (status) {
                return status;
            }
            good = good && add_folder(&list, image, spec->carried[i].path.at);
        }
    }
    const char *obstacle = find_obstacle(check, program, linker);
    if (obstacle) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, program, obstacle,
                               NULL);
    }
    if (*linker) {
        (void)snprintf(sandbox->linker, sizeof sandbox->linker, "%s%s", image,
                       linker);
        good = good && !fy_needs_ask(sandbox->linker, sandbox->program,
                                     sandbox->libraries, &needs);
    }
    status = good ? compare_files(check, program, linker, image, &needs)
                  : fy_check_refuse(check, FY_STAGE_OTHER_TOOL, program,
                                    ": its libraries cannot be found", NULL);
    fy_needs_clear(&needs);
    return status;
}

/* As there is no namespace, the program is a file of this host's like any other, and sees
 * this host's. */
static int
stand_plainly(struct fy_check *check, struct fy_store *store,
              const char *program)
{
    const char *image = fy_store_image(store);
    if (!fy_check_equal_paths(check)) {
        return fy_check_refuse(check, FY_STAGE_OTHER_NAMES,
                               check->seen[0].mount,
                               " cannot exist there, as its kernel makes no "
                               "namespace",
                               NULL);
    }
    /* Separators and variables of the linker's list. */
    if (!image || strpbrk(image, ":;$")) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL,
                               "no folder for carried programs", NULL, NULL);
    }
    return link_program(check, store, program, image);
}

/* ---- by an image ------------------------------------------------------------------------- */

int
fy_carried_stand(struct fy_check *check, const char *program)
{
    const struct fy_stage_spec *spec = check->spec;
    struct fy_store *store = fy_policy_store(check->policy, check->why);
    if (!store) {
        return fy_check_refuse(check, FY_STAGE_OTHER_TOOL, NULL, NULL, NULL);
    }
    for (unsigned i = 0; i < check->nseen; i++) {
        if (fy_store_image_is_beneath(store, check->seen[i].root.path)) {
            return fy_check_refuse(check, FY_STAGE_OTHER_TOOL,
                                   check->seen[i].mount,
                                   " shows where carried programs stand", NULL);
        }
    }
    if (fy_namespace_kind(check->policy) == FY_NAMESPACE_NONE) {
        return stand_plainly(check, store, program);
    }
    for (uint32_t i = 0; i < spec->ncarried; i++) {
        int status = show(check, store, &spec->carried[i]);
        if (status) {
            return status;
        }
    }
    for (unsigned i = 0; i < check->nseen; i++) {
        if (fy_store_make_point(store, check->seen[i].mount)) {
            return fy_check_refuse(check, FY_STAGE_UNCLEAR_PATH,
                                   check->seen[i].mount,
                                   " cannot be made in the image", NULL);
        }
    }
    int status = open_image(check, store, program);
    if (!status) {
        check->image = fy_store_image(store);
        strcpy(check->sandbox->program, program);
    }
    return status;
}

int
fy_carried_check(struct fy_check *check, const char *path,
                 const struct fy_config_hash *config, bool *out_same)
{
    static const unsigned char none[32];
    const struct fy_carried_file *file = find(check, path);
    int fd = fy_carried_open(check, path);
    bool missing = memcmp(config->sha256, none, sizeof none) == 0;
    *out_same = missing
                    ? fd < 0 && errno == ENOENT
                    : file && fd >= 0 &&
                          (!file->executes || fy_check_is_named(check, path));
    if (fd >= 0) {
        close(fd);
    }
    return !*out_same || missing || !file->executes || keep(check, path)
               ? 0
               : fy_check_refuse(check, FY_STAGE_OTHER_CONFIG,
                                 "too many configuration files", NULL, NULL);
}
