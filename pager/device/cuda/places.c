/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CUDA's libraries lie when the loader does not know: beside the Python packages of
 * the program (pip's wheels of NVIDIA), in the toolkit's folder, or beside the Python
 * that PATH names. Nothing is asked of an interpreter. A file that anybody could have put
 * there is not loaded, nor one that belongs to others than root and the user, or whose
 * code the program runs, or the toolkit named is.
 */
#include "config.h"

#include "pager/device/cuda/places.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_PACKAGES = 8, /* folders of packages that a program uses */
};

/* Of wheels, below a folder of packages; those for 13 share one. */
static const char *const wheels[] = {
    "nvidia/cu13/lib",  "nvidia/cublas/lib",     "nvidia/cusolver/lib",
    "nvidia/cufft/lib", "nvidia/cuda_nvrtc/lib",
};

/* A file or the folder that it is in; or, `far', a folder above, where anybody
 * may add names to a folder of others (sticky). */
static bool
is_safe(const char *path, uid_t owner, bool far)
{
    struct stat status;
    return stat(path, &status) == 0 &&
           (status.st_uid == 0 || status.st_uid == geteuid() ||
            status.st_uid == owner) &&
           (!(status.st_mode & S_IWOTH) || (far && (status.st_mode & S_ISVTX)));
}

/* All folders on an absolute path, and the file. */
static bool
is_safe_path(const char *path, uid_t owner)
{
    char part[PATH_MAX];
    const char *last = strrchr(path, '/');
    bool safe = path[0] == '/' && strlen(path) < sizeof part &&
                is_safe(path, owner, false) && is_safe("/", owner, true);
    for (const char *at = path; safe && at != last;) {
        at = strchr(at + 1, '/');
        memcpy(part, path, (size_t)(at - path));
        part[at - path] = '\0';
        safe = is_safe(part, owner, at != last);
    }
    return safe;
}

/* `owner': who is trusted beside root and the user. */
static void *
open_in(const char *folder, const char *below, const char *soname, uid_t owner)
{
    char path[PATH_MAX], real[PATH_MAX];
    struct stat status;
    int length = snprintf(path, sizeof path, "%s/%s/%s", folder, below, soname);
    if (length < 0 || (size_t)length >= sizeof path ||
        stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        !realpath(path, real) || !is_safe_path(path, owner) ||
        !is_safe_path(real, owner)) {
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *
open_wheel(const char *packages, const char *soname, uid_t owner)
{
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof wheels / sizeof wheels[0]; i++) {
        handle = open_in(packages, wheels[i], soname, owner);
    }
    return handle;
}

static uid_t
owner_of(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? status.st_uid : 0;
}

struct packages {
    char *folders[MOST_PACKAGES];
    uid_t owners
        [MOST_PACKAGES]; /* of a library that the program has loaded from there */
    unsigned count;
};

/* Notes the folder of packages that an object of the program lies in. */
static int
note_object(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    static const char *const names[] = {"/site-packages/", "/dist-packages/"};
    struct packages *p = argument;
    (void)bytes;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = !info->dlpi_name || info->dlpi_name[0] != '/'
                             ? NULL
                             : strstr(info->dlpi_name, names[i]);
        if (!at || p->count == MOST_PACKAGES) {
            continue;
        }
        size_t length = (size_t)(at - info->dlpi_name) + strlen(names[i]) - 1;
        char *folder = strndup(info->dlpi_name, length);
        for (unsigned k = 0; folder && k < p->count; k++) {
            if (strcmp(p->folders[k], folder) == 0) {
                free(folder);
                folder = NULL;
            }
        }
        if (folder) {
            p->owners[p->count] = owner_of(info->dlpi_name);
            p->folders[p->count++] = folder;
        }
    }
    return 0;
}

void *
fy_cuda_places_beside(const char *soname)
{
    struct packages p = {.count = 0};
    void *handle = NULL;
    (void)dl_iterate_phdr(note_object, &p);
    for (unsigned i = 0; i < p.count; i++) {
        if (!handle) {
            handle = open_wheel(p.folders[i], soname, p.owners[i]);
        }
        free(p.folders[i]);
    }
    return handle;
}

/* Of one interpreter's folder of programs. */
static void *
open_beside_python(const char *programs, size_t length, const char *soname)
{
    static const char *const kinds[] = {"site-packages", "dist-packages"};
    char path[PATH_MAX];
    void *handle = NULL;
    int used =
        snprintf(path, sizeof path, "%.*s/python3", (int)length, programs);
    if (programs[0] != '/' || used < 0 || (size_t)used >= sizeof path ||
        strpbrk(path, "*?[\\") || access(path, X_OK) != 0) {
        return NULL;
    }
    for (size_t i = 0; !handle && i < sizeof kinds / sizeof kinds[0]; i++) {
        glob_t found;
        used = snprintf(path, sizeof path, "%.*s/../lib/python3*/%s",
                        (int)length, programs, kinds[i]);
        if (used < 0 || (size_t)used >= sizeof path ||
            /* NOLINTNEXTLINE(concurrency-mt-unsafe): no tilde */
            glob(path, 0, NULL, &found) != 0) {
            continue;
        }
        for (size_t k = 0; !handle && k < found.gl_pathc; k++) {
            handle = open_wheel(found.gl_pathv[k], soname, 0);
        }
        globfree(&found);
    }
    return handle;
}

/* Of the interpreters that a program would start. */
static void *
open_by_path(const char *soname)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): once, as the driver itself has */
    const char *at = secure_getenv("PATH");
    void *handle = NULL;
    while (!handle && at && *at != '\0') {
        size_t length = strcspn(at, ":");
        if (length > 0 && length < PATH_MAX) {
            handle = open_beside_python(at, length, soname);
        }
        at += length + (at[length] == ':');
    }
    return handle;
}

void *
fy_cuda_places_open(const char *soname)
{
    static const char *const toolkit[] = {"CUDA_HOME", "CUDA_PATH"};
    void *handle = fy_cuda_places_beside(soname);
    for (size_t i = 0; !handle && i < sizeof toolkit / sizeof toolkit[0]; i++) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): as above */
        const char *folder = secure_getenv(toolkit[i]);
        if (folder && folder[0] == '/') {
            handle = open_in(folder, "lib64", soname, owner_of(folder));
        }
    }
    if (!handle) {
        handle = open_in("/usr/local/cuda", "lib64", soname, 0);
    }
    return !handle ? open_by_path(soname) : handle;
}
