/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CUDA's libraries lie when the loader does not know: beside the Python
 * packages of the program (pip's wheels of NVIDIA), in the toolkit's folder, or
 * beside the Python that PATH names. Nothing is asked of an interpreter.
 */
#include "config.h"

#include "pager/cuda_places.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_PACKAGES = 8, /* folders of packages that a program uses */
};

/* Of wheels, below a folder of packages; those for 13 share one. */
static const char *const wheels[] = {
    "nvidia/cu13/lib",  "nvidia/cublas/lib",     "nvidia/cusolver/lib",
    "nvidia/cufft/lib", "nvidia/cuda_nvrtc/lib",
};

static void *
open_in(const char *folder, const char *below, const char *soname)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s/%s", folder, below, soname);
    if (length < 0 || (size_t)length >= sizeof path ||
        access(path, R_OK) != 0) {
        return NULL;
    }
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *
open_wheel(const char *packages, const char *soname)
{
    void *handle = NULL;
    for (size_t i = 0; handle == NULL && i < sizeof wheels / sizeof wheels[0];
         i++) {
        handle = open_in(packages, wheels[i], soname);
    }
    return handle;
}

struct packages {
    char *folders[MOST_PACKAGES];
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
        const char *at = info->dlpi_name == NULL || info->dlpi_name[0] != '/'
                             ? NULL
                             : strstr(info->dlpi_name, names[i]);
        if (at == NULL || p->count == MOST_PACKAGES) {
            continue;
        }
        size_t length = (size_t)(at - info->dlpi_name) + strlen(names[i]) - 1;
        char *folder = strndup(info->dlpi_name, length);
        for (unsigned k = 0; folder != NULL && k < p->count; k++) {
            if (strcmp(p->folders[k], folder) == 0) {
                free(folder);
                folder = NULL;
            }
        }
        if (folder != NULL) {
            p->folders[p->count++] = folder;
        }
    }
    return 0;
}

/* Of the packages that the program has loaded. */
static void *
open_beside_program(const char *soname)
{
    struct packages p = {.count = 0};
    void *handle = NULL;
    (void)dl_iterate_phdr(note_object, &p);
    for (unsigned i = 0; i < p.count; i++) {
        if (handle == NULL) {
            handle = open_wheel(p.folders[i], soname);
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
        access(path, X_OK) != 0) {
        return NULL;
    }
    for (size_t i = 0; handle == NULL && i < sizeof kinds / sizeof kinds[0];
         i++) {
        glob_t found;
        used = snprintf(path, sizeof path, "%.*s/../lib/python3*/%s",
                        (int)length, programs, kinds[i]);
        if (used < 0 || (size_t)used >= sizeof path ||
            glob(path, 0, NULL, &found) != 0) {
            continue;
        }
        for (size_t k = 0; handle == NULL && k < found.gl_pathc; k++) {
            handle = open_wheel(found.gl_pathv[k], soname);
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
    const char *at = getenv("PATH");
    void *handle = NULL;
    while (handle == NULL && at != NULL && *at != '\0') {
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
    void *handle = open_beside_program(soname);
    for (size_t i = 0; handle == NULL && i < sizeof toolkit / sizeof toolkit[0];
         i++) {
        /* NOLINTNEXTLINE(concurrency-mt-unsafe): as above */
        const char *folder = getenv(toolkit[i]);
        if (folder != NULL && folder[0] == '/') {
            handle = open_in(folder, "lib64", soname);
        }
    }
    if (handle == NULL) {
        handle = open_in("/usr/local/cuda", "lib64", soname);
    }
    return handle == NULL ? open_by_path(soname) : handle;
}
