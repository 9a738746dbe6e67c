/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the parts of ferry itself, the cache and the configuration. Trusts no
 * folder with files to preload that another user can exchange
 * (common/trust.h).
 */
#include "config.h"

#include "tools/tool.h"

#include "common/trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* "a" and "b" as one path; false (and "") when it does not fit. */
static bool
join(char out[PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, PATH_MAX, "%s%s", a, b);
    if (n >= 0 && n < PATH_MAX) {
        return true;
    }
    out[0] = '\0';
    return false;
}

static bool
exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* A build tree has a one-line file with the source folder beside `ferry'. */
static bool
find_uninstalled(const char *folder, struct fy_places *out)
{
    char path[PATH_MAX], source[PATH_MAX];
    if (!join(path, folder, "/tools/uninstalled")) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool read = fgets(source, sizeof source, file);
    (void)fclose(file);
    if (!read) {
        return false;
    }
    source[strcspn(source, "\n")] = '\0';
    return join(out->engine, folder, "/.libs/libferry-engine.so") &&
           join(out->shim, folder, "/.libs/libferry.so") &&
           join(out->stub, folder, "/ferry-stub") &&
           join(out->mount, folder, "/ferry-mount") &&
           join(out->library, source, "/annotations/lib");
}

void
fy_places_find(struct fy_places *out)
{
    char self[PATH_MAX];
    memset(out, 0, sizeof *out);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;
    if (n > 0) {
        self[n] = '\0';
        memcpy(out->ferry, self, (size_t)n + 1);
        slash = strrchr(self, '/');
    }
    if (slash) {
        *slash = '\0';
        out->uninstalled = find_uninstalled(self, out);
        if (out->uninstalled) {
            return;
        }
    }
    join(out->engine, FY_PKGLIBDIR, "/libferry-engine.so");
    join(out->shim, FY_PKGLIBDIR, "/libferry.so");
    join(out->stub, FY_PKGLIBEXECDIR, "/ferry-stub");
    join(out->mount, FY_PKGLIBEXECDIR, "/ferry-mount");
    join(out->library, FY_PKGDATADIR, "/annotations/lib");
    /* Moved after installation (DESTDIR, a tarball, ferry deploy): go by our own place. */
    if (slash && (slash = strrchr(self, '/'))) {
        char own[PATH_MAX];
        *slash = '\0';
        if (!join(own, self, "/share/ferry/annotations/lib") ||
            strcmp(own, out->library) == 0 ||
            (!exists(own) && exists(out->shim))) {
            return;
        }
        join(out->engine, self, "/lib/ferry/libferry-engine.so");
        join(out->shim, self, "/lib/ferry/libferry.so");
        join(out->stub, self, "/libexec/ferry/ferry-stub");
        join(out->mount, self, "/libexec/ferry/ferry-mount");
        join(out->library, self, "/share/ferry/annotations/lib");
    }
}

/*
 * Returns true if ld.so can preload a file of this folder: its path is one
 * word of LD_PRELOAD, and its file system allows mapping code.
 */
static bool
is_preloadable(const char *folder)
{
    struct statvfs system;
    return folder[0] == '/' && strcspn(folder, ": \t\n$") == strlen(folder) &&
           statvfs(folder, &system) == 0 && !(system.f_flag & ST_NOEXEC);
}

/* The folder that was not used because another user could exchange it, or
 * "". */
static char distrusted[PATH_MAX];

/* `path' becomes the private folder without links, made when it is missing. */
static bool
make_private(char path[PATH_MAX])
{
    char real[PATH_MAX];
    int status = fy_private_folder(path, true, real);
    if (status == FY_ERR_INVALID && !distrusted[0]) {
        memcpy(distrusted, real, sizeof distrusted);
    }
    memcpy(path, real, sizeof real);
    return status == 0 && access(path, R_OK | W_OK | X_OK) == 0 &&
           is_preloadable(path);
}

const char *
fy_cache_distrusted(void)
{
    return distrusted[0] ? distrusted : NULL;
}

int
fy_cache_folder(char out[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache && cache[0] == '/' && join(out, cache, "/ferry") &&
        make_private(out)) {
        return 0;
    }
    /* A home that is not there ("/nonexistent") is not for us to make. */
    if (home && home[0] == '/' && exists(home) &&
        join(out, home, "/.cache/ferry") && make_private(out)) {
        return 0;
    }
    (void)snprintf(out, PATH_MAX, "/tmp/ferry-%lu", (unsigned long)geteuid());
    if (make_private(out)) {
        return 0;
    }
    out[0] = '\0';
    return FY_ERR_IO;
}

int
fy_runtime_folder(char out[PATH_MAX])
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (folder && folder[0] == '/' && exists(folder) &&
        join(out, folder, "/ferry") && make_private(out)) {
        return 0;
    }
    return FY_ERR_IO;
}

void
fy_config_path(char out[PATH_MAX])
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    out[0] = '\0';
    if (config && config[0] == '/') {
        join(out, config, "/ferry/ferry.conf");
    } else if (home && home[0] == '/') {
        join(out, home, "/.config/ferry/ferry.conf");
    }
}

void
fy_kernels_path(struct fy_settings *settings)
{
    char folder[PATH_MAX];
    if (settings->kernels[0] || fy_cache_folder(folder)) {
        return;
    }
    int n = snprintf(settings->kernels, sizeof settings->kernels, "%s/kernels",
                     folder);
    if (n < 0 || n >= (int)sizeof settings->kernels) {
        settings->kernels[0] = '\0';
    }
}

void
fy_calibration_path(struct fy_settings *settings)
{
    char folder[PATH_MAX];
    if (settings->calibration[0] || fy_cache_folder(folder)) {
        return;
    }
    int n = snprintf(settings->calibration, sizeof settings->calibration,
                     "%s/calibration", folder);
    if (n < 0 || n >= (int)sizeof settings->calibration) {
        settings->calibration[0] = '\0';
    }
}

void
fy_rates_path(struct fy_settings *settings)
{
    char folder[PATH_MAX];
    int n = fy_cache_folder(folder)
                ? -1
                : snprintf(settings->rates, sizeof settings->rates, "%s/rates",
                           folder);
    if (n < 0 || n >= (int)sizeof settings->rates) {
        settings->rates[0] = '\0';
    }
}
