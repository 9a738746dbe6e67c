/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry doctor: features of this machine, one fact a line. Only looks;
 * the libraries it names are opened in a child, since opening them runs code.
 */
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "common/plain.h"
#include "tools/doctor.h"
#include "tools/kernel.h"
#include "tools/launch.h"
#include "tools/mount/mount.h"

static void fact(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
fact(const char *name, const char *format, ...)
{
    char text[2 * PATH_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fy_plain(text, "");
    printf("  %-16s %s\n", name, text);
}

/* The value of the first "name : value" line of a file in /proc. */
static bool
proc_value(const char *path, const char *name, char *out, size_t bytes)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, strlen(name)) != 0) {
            continue;
        }
        char *value = strchr(line, ':');
        if (!value) {
            continue;
        }
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        (void)snprintf(out, bytes, "%s", value);
        found = true;
    }
    (void)fclose(file);
    return found;
}

static void
print_machine(void)
{
    char cpu[256] = "unknown", total[64] = "?", available[64] = "?";
    struct utsname name;
    proc_value("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    proc_value("/proc/meminfo", "MemTotal", total, sizeof total);
    proc_value("/proc/meminfo", "MemAvailable", available, sizeof available);
    printf("machine\n");
    fact("processor", "%s, %ld online", cpu, sysconf(_SC_NPROCESSORS_ONLN));
    fact("memory", "%s, %s available", total, available);
    if (uname(&name) == 0) {
        fact("kernel", "%s %s %s", name.sysname, name.release, name.machine);
    }
    int kernel_faults;
    const char *cause = fy_kernel_userfaultfd(&kernel_faults);
    fact("userfaultfd", "%s%s", cause ? "no: " : "yes",
         cause           ? cause
         : kernel_faults ? ", also faults in the kernel"
                         : ", faults in user mode only");
    cause = fy_kernel_pagemap_scan();
    fact("PAGEMAP_SCAN", "%s%s", cause ? "no: " : "yes", cause ? cause : "");
    cause = fy_kernel_procmap_query();
    fact("PROCMAP_QUERY", "%s%s", cause ? "no: " : "yes", cause ? cause : "");
}

/* Asks the CUDA driver, when there is one, through its own names. */
static void
print_cuda(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        fact("CUDA", "no driver (libcuda.so.1 not found)");
        return;
    }
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*version)(int *) = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
    int (*count)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    int number = 0, devices = 0;
    if (!init || !version || !count) {
        fact("CUDA", "libcuda.so.1 is no CUDA driver");
        return;
    }
    int status = init(0);
    if (status == 0) {
        status = count(&devices);
    }
    if (status != 0) {
        fact("CUDA", "driver found, but it answers error %d", status);
        return;
    }
    version(&number);
    fact("CUDA", "driver %d.%d, %d device%s", number / 1000, number % 1000 / 10,
         devices, devices == 1 ? "" : "s");
}

static void
print_devices(void)
{
    printf("devices\n");
    print_cuda();
    fact("host", "yes");
}

static void
print_library(const char *name)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map;
    char real[PATH_MAX];
    if (!handle) {
        fact(name, "not found");
    } else if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        fact(name, "%s", realpath(map->l_name, real) ? real : map->l_name);
    }
}

/* In a child: a library's constructors may do anything. */
static void
print_libraries(void)
{
    static const char *const names[] = {
        "libblas.so.3",       "liblapack.so.3",   "liblapacke.so.3",
        "libblas64.so.3",     "liblapack64.so.3", "libopenblas.so.0",
        "libopenblas64.so.0", "libblis.so.4",     "libmkl_rt.so.2",
        "libfftw3.so.3",      "libfftw3f.so.3",   "libgsl.so.27",
    };
    printf("libraries\n");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            print_library(names[i]);
            (void)fflush(stdout);
            _exit(0);
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fact(names[i], "could not be opened");
        }
    }
}

static void
print_readable(const char *name, const char *path)
{
    if (access(path, R_OK) == 0) {
        fact(name, "%s", path);
    } else {
        fact(name, "%s: %s", path, strerror(errno));
    }
}

static void
print_annotations(const struct fy_places *places)
{
    char trouble[512];
    struct fy_run_options options;
    memset(&options, 0, sizeof options);
    fy_settings_init(&options.settings);
    struct fy_model *model =
        fy_launch_compile(&options, places, trouble, sizeof trouble);
    if (model) {
        fact("annotations", "%s: %u functions, %u names", places->library,
             model->functions.count, model->symbols.count);
    } else {
        fact("annotations", "%s", trouble);
    }
    free(model);
}

static void
print_cache(void)
{
    char path[PATH_MAX];
    unsigned files = 0;
    unsigned long long bytes = 0;
    int trouble = fy_cache_folder(path);
    if (fy_cache_distrusted()) {
        fact("not a cache", "%s: another user could exchange what is in it",
             fy_cache_distrusted());
    }
    if (trouble) {
        fact("cache", "no private folder could be made; temporary files are "
                      "used");
        return;
    }
    DIR *folder = opendir(path);
    struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status,
                    AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode)) {
            files++;
            bytes += (unsigned long long)status.st_size;
        }
    }
    if (folder) {
        closedir(folder);
    }
    fact("cache", "%s: %u files, %llu KiB; may be deleted at any time", path,
         files, bytes / 1024);
}

static void
print_ferry(void)
{
    struct fy_places places;
    struct fy_settings settings;
    char config[PATH_MAX];
    fy_places_find(&places);
    printf("ferry %s%s\n", PACKAGE_VERSION,
           places.uninstalled ? ", in its build tree" : "");
    print_readable("preload", places.shim);
    print_readable("engine", places.engine);
    print_annotations(&places);
    print_cache();
    fy_config_path(config);
    if (!config[0]) {
        fact("configuration", "none: HOME is not set");
    } else if (access(config, F_OK) != 0) {
        fact("configuration", "%s: none, defaults are used", config);
    } else {
        print_readable("configuration", config);
    }
    fy_settings_init(&settings);
    fy_config_read(config, &settings);
    fy_calibration_path(&settings);
    if (access(settings.calibration, R_OK) == 0) {
        fact("calibration", "%s", settings.calibration);
    } else {
        fact("calibration",
             "none: a card is measured by the way; 'ferry calibrate' does it "
             "beforehand");
    }
}

/* Returns true for "HOST:", "USER@HOST" and a place, and for a word that is neither a
 * path nor a program of PATH. */
static bool
is_host(const char *word)
{
    char path[PATH_MAX], *rest, *list, *folder;
    const char *names = getenv("PATH");
    size_t n = strlen(word);
    bool is_program = false;
    if (strstr(word, "://") || (n && word[n - 1] == ':')) {
        return true;
    }
    if (strchr(word, '/') || !n || !(list = strdup(names ? names : ""))) {
        return false;
    }
    for (folder = strtok_r(list, ":", &rest); folder && !is_program;
         folder = strtok_r(NULL, ":", &rest)) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, word);
        is_program = access(path, F_OK) == 0;
    }
    free(list);
    return !is_program;
}

int
fy_tool_doctor(int argc, char **argv)
{
    int at = 1;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf(
            "Usage: ferry doctor [[--] PROGRAM | [USER@]HOST]\n"
            "Says what this machine has and lacks for ferry; with a PROGRAM, "
            "which of its\nlibrary calls ferry can reach and which not; with a "
            "HOST, what that has.\nHOST: is a host even where a program has "
            "its name.\n");
        return fy_finish_output(FY_EXIT_OK);
    }
    if (at < argc && strcmp(argv[at], "--") == 0) {
        at++;
    }
    if (at < argc && argv[at][0] == '-' && at == 1) {
        fy_say("unknown option '%s'", argv[at]);
        return fy_usage_error("doctor");
    }
    if (at + 1 < argc) {
        fy_say("expected one program or host");
        return fy_usage_error("doctor");
    }
    if (at == 1 && at < argc && is_host(argv[at])) {
        return fy_finish_output(fy_doctor_host(argv[at]));
    }
    if (at < argc) {
        return fy_finish_output(fy_doctor_program(argv[at]));
    }
    print_ferry();
    print_machine();
    print_devices();
    print_libraries();
    fy_mounts_print();
    return fy_finish_output(FY_EXIT_OK);
}
