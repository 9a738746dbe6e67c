/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC. Kernels are compiled with IEEE arithmetic, whatever else is asked for:
 * divisions and roots are exact, denormals are kept, and products are fused
 * with sums only where an annotation does not promise the same bits.
 */
#include "config.h"

#include "pager/device/cuda/kernel_compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/sha256.h"

enum {
    MAX_ARCHITECTURES = 64,
    MAX_LOG_BYTES = 1 << 20,
    MAX_IMAGE_BYTES = 64 << 20,
    COMPILATION_FAILED = 6, /* NVRTC_ERROR_COMPILATION */
    OPTIONS = 7
};

static const char *const fixed_options[] = {"--std=c++17", "--prec-div=true",
                                            "--prec-sqrt=true", "--ftz=false"};

typedef void *program_handle;

/* One of its functions, or NULL. */
static bool
find(int version, const char *name, void *out, bool *loaded)
{
    bool now;
    void *function = fy_cuda_function(version, name, &now);
    *loaded = *loaded || now;
    memcpy(out, &function, sizeof function);
    return function;
}

/* The newest architecture that is not newer than the card. */
static int
best_architecture(int driver_version, int capability, bool *loaded)
{
    int (*count_of)(int *);
    int (*list)(int *);
    int all[MAX_ARCHITECTURES], count = 0, best = 0;
    if (!find(driver_version, "nvrtcGetNumSupportedArchs", &count_of, loaded) ||
        !find(driver_version, "nvrtcGetSupportedArchs", &list, loaded) ||
        count_of(&count) != 0 || count < 1 || count > MAX_ARCHITECTURES ||
        list(all) != 0) {
        return 0;
    }
    for (int i = 0; i < count; i++) {
        bool better = capability == 0 ? best == 0 || all[i] < best
                                      : all[i] <= capability && all[i] > best;
        best = better ? all[i] : best;
    }
    return best;
}

/*
 * Whether machine code for one architecture runs on a card of another: on those of
 * the same major version that are not older (CUDA C++ Programming Guide, "Binary
 * compatibility"), but for Tegra's. An older driver takes it, too, where it would
 * refuse the PTX of a newer NVRTC.
 */
static bool
runs_on(int arch, int capability)
{
    static const int tegra[] = {53, 62, 72, 87, 101, 110};
    if (arch == capability) {
        return true;
    }
    for (size_t i = 0; i < sizeof tegra / sizeof tegra[0]; i++) {
        if (arch == tegra[i] || capability == tegra[i]) {
            return false;
        }
    }
    return arch / 10 == capability / 10 && arch < capability;
}

int
fy_kernel_target(int driver_version, int capability,
                 struct fy_kernel_target *out, bool *loaded,
                 char why[FY_CUDA_TEXT_BYTES])
{
    struct fy_kernel_target target = {.real = false};
    int (*version)(int *, int *);
    void *unused;
    *loaded = false;
    why[0] = '\0';
    if (!find(driver_version, "nvrtcVersion", &version, loaded) ||
        version(&target.major, &target.minor) != 0) {
        fy_cuda_library_why(FY_CUDA_NVRTC, why);
        if (why[0] == '\0') {
            (void)snprintf(why, FY_CUDA_TEXT_BYTES, "NVRTC does not answer");
        }
        return FY_ERR_NOENT;
    }
    int arch = best_architecture(driver_version, capability, loaded);
    if (arch == 0) {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES,
                       "NVRTC %d.%d compiles nothing for compute capability "
                       "%d.%d",
                       target.major, target.minor, capability / 10,
                       capability % 10);
        return FY_ERR_NOENT;
    }
    target.real = runs_on(arch, capability) &&
                  find(driver_version, "nvrtcGetCUBIN", &unused, loaded);
    (void)snprintf(target.arch, sizeof target.arch, "%s_%d",
                   target.real ? "sm" : "compute", arch);
    *out = target;
    return FY_OK;
}

/* Returns how many. `arch' is room for one of them. */
static int
options_of(const struct fy_kernel_program *program,
           const struct fy_kernel_target *target, char arch[64],
           const char *out[OPTIONS])
{
    int n = 0;
    (void)snprintf(arch, 64, "--gpu-architecture=%s", target->arch);
    out[n++] = arch;
    out[n++] = program->fmad ? "--fmad=true" : "--fmad=false";
    if (target->draft) {
        out[n++] = "--device-debug";
    }
    for (size_t i = 0; i < sizeof fixed_options / sizeof fixed_options[0];
         i++) {
        out[n++] = fixed_options[i];
    }
    return n;
}

void
fy_kernel_key(const struct fy_kernel_program *program,
              const struct fy_kernel_target *target, struct fy_kernel_key *out)
{
    const char *options[OPTIONS];
    char arch[64], version[64];
    struct fy_sha256 hash;
    int n = options_of(program, target, arch, options);
    int length = snprintf(version, sizeof version, "ferry 1, NVRTC %d.%d",
                          target->major, target->minor);
    fy_sha256_start(&hash);
    fy_sha256_add(&hash, version, (size_t)length + 1);
    for (int i = 0; i < n; i++) {
        fy_sha256_add(&hash, options[i], strlen(options[i]) + 1);
    }
    fy_sha256_add(&hash, program->text, strlen(program->text));
    fy_sha256_end(&hash, out->bytes);
}

/* Returns the compiler's messages (malloc); NULL: none can be had. */
static char *
take_log(int driver_version, program_handle handle)
{
    int (*log_size)(program_handle, size_t *);
    int (*log_of)(program_handle, char *);
    size_t bytes = 0;
    bool loaded = false;
    if (!find(driver_version, "nvrtcGetProgramLogSize", &log_size, &loaded) ||
        !find(driver_version, "nvrtcGetProgramLog", &log_of, &loaded) ||
        log_size(handle, &bytes) != 0 || bytes < 2 || bytes > MAX_LOG_BYTES) {
        return NULL;
    }
    char *log = calloc(1, bytes + 1);
    if (log && log_of(handle, log) != 0) {
        free(log);
        return NULL;
    }
    return log;
}

/* The first line of it that tells of an error. */
static void
first_error(const char *log, char *why)
{
    const char *line = log;
    for (const char *at = log; at && *at != '\0';) {
        size_t n = strcspn(at, "\n");
        if (memmem(at, n, "error", strlen("error"))) {
            line = at;
            break;
        }
        at += n + (at[n] != '\0');
    }
    if (!line) {
        line = "the compiler does not say why";
    }
    (void)snprintf(why, FY_CUDA_TEXT_BYTES, "%.*s", (int)strcspn(line, "\n"),
                   line);
}

static int
take_image(int driver_version, program_handle handle, bool real, void **image,
           size_t *bytes)
{
    int (*size_of)(program_handle, size_t *);
    int (*get)(program_handle, char *);
    bool loaded = false;
    if (!find(driver_version, real ? "nvrtcGetCUBINSize" : "nvrtcGetPTXSize",
              &size_of, &loaded) ||
        !find(driver_version, real ? "nvrtcGetCUBIN" : "nvrtcGetPTX", &get,
              &loaded) ||
        size_of(handle, bytes) != 0 || *bytes == 0 ||
        *bytes > MAX_IMAGE_BYTES) {
        return FY_ERR_DEVICE;
    }
    *image = calloc(1, *bytes + 1);
    if (!*image) {
        return FY_ERR_NOMEM;
    }
    if (get(handle, *image) != 0) {
        free(*image);
        return FY_ERR_DEVICE;
    }
    return FY_OK;
}

int
fy_kernel_compile(int driver_version, const struct fy_kernel_program *program,
                  const struct fy_kernel_target *target, void **image,
                  size_t *bytes, char **log, char why[FY_CUDA_TEXT_BYTES])
{
    int (*create)(program_handle *, const char *, const char *, int,
                  const char *const *, const char *const *);
    int (*compile)(program_handle, int, const char *const *);
    int (*destroy)(program_handle *);
    const char *options[OPTIONS];
    const char *slash = strrchr(program->file, '/');
    char arch[64];
    program_handle handle = NULL;
    bool loaded = false;
    int status;
    if (log) {
        *log = NULL;
    }
    (void)snprintf(why, FY_CUDA_TEXT_BYTES, "NVRTC fails");
    if (!find(driver_version, "nvrtcCreateProgram", &create, &loaded) ||
        !find(driver_version, "nvrtcCompileProgram", &compile, &loaded) ||
        !find(driver_version, "nvrtcDestroyProgram", &destroy, &loaded) ||
        create(&handle, program->text, slash ? slash + 1 : program->file, 0,
               NULL, NULL) != 0) {
        return FY_ERR_DEVICE;
    }
    int n = options_of(program, target, arch, options);
    int result = compile(handle, n, options);
    char *said = result == 0 && !log ? NULL : take_log(driver_version, handle);
    if (result == 0) {
        status = take_image(driver_version, handle, target->real, image, bytes);
    } else if (result == COMPILATION_FAILED) {
        first_error(said, why);
        status = FY_ERR_INVALID;
    } else {
        (void)snprintf(why, FY_CUDA_TEXT_BYTES, "NVRTC fails with status %d",
                       result);
        status = FY_ERR_DEVICE;
    }
    (void)destroy(&handle);
    if (log) {
        *log = said;
    } else {
        free(said);
    }
    return status;
}
