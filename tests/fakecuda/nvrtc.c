/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake NVRTC: the host's C++ compiler makes a shared object of kernels.
 * Where their threads meet (shared memory, barriers), those of a block are
 * threads of the host; else they run one after another. The program's kernels
 * are found by a look for "__global__ void NAME(", and "extern __shared__" is
 * rewritten, since C++ has no such thing. Long because what is put before and
 * behind a program's text stands here, too.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/image.h"

#include "tests/fakecuda/nvrtc_rows.h"

#define KERNELS_MAX 32
#define PATH_BYTES  256

struct fake_program {
    char *source;
    char *name; /* as messages have it */
    char *log;
    char *image;
    bool real_arch; /* sm_N: there is a cubin too */
};

static const int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 120};

/* What a kernel sees: CUDA's words, none of the host's headers. */
static const char prelude[] =
    "typedef decltype(sizeof(0)) size_t;\n"
    "struct fakecuda_index { unsigned x, y, z; };\n"
    "static thread_local fakecuda_index threadIdx, blockIdx, blockDim, "
    "gridDim;\n"
    "struct fakecuda_grid { unsigned grid[3], block[3], shared_bytes,\n"
    "    spilled; };\n"
    "struct float2 { float x, y; }; struct double2 { double x, y; };\n"
    "#define __global__\n"
    "#define __device__\n"
    "#define __host__\n"
    "#define __shared__ static\n"
    "#define __forceinline__ inline\n"
    "#define __launch_bounds__(...)\n"
    "#define __CUDA_ARCH__ 900\n"
    "#define __CUDACC_RTC__ 1\n"
    "extern \"C\" {\n"
    "double sqrt(double); double exp(double); double log(double);\n"
    "double sin(double); double cos(double); double tan(double);\n"
    "double asin(double); double acos(double); double atan(double);\n"
    "double atan2(double, double); double pow(double, double);\n"
    "double sinh(double); double cosh(double); double tanh(double);\n"
    "double erf(double); double erfc(double); double fabs(double);\n"
    "double floor(double); double ceil(double); double fmod(double, double);\n"
    "double fmax(double, double); double fmin(double, double);\n"
    "double log1p(double); double expm1(double); double log2(double);\n"
    "double log10(double); double exp2(double); double cbrt(double);\n"
    "double hypot(double, double); double fma(double, double, double);\n"
    "double trunc(double); double round(double); double rint(double);\n"
    "double copysign(double, double);\n"
    "float sqrtf(float); float expf(float); float logf(float);\n"
    "float sinf(float); float cosf(float); float tanf(float);\n"
    "float asinf(float); float acosf(float); float atanf(float);\n"
    "float atan2f(float, float); float powf(float, float);\n"
    "float sinhf(float); float coshf(float); float tanhf(float);\n"
    "float erff(float); float erfcf(float); float fabsf(float);\n"
    "float floorf(float); float ceilf(float); float fmodf(float, float);\n"
    "float fmaxf(float, float); float fminf(float, float);\n"
    "float log1pf(float); float expm1f(float); float log2f(float);\n"
    "float log10f(float); float exp2f(float); float cbrtf(float);\n"
    "float hypotf(float, float); float fmaf(float, float, float);\n"
    "float truncf(float); float roundf(float); float rintf(float);\n"
    "double asinh(double); double acosh(double); double atanh(double);\n"
    "double tgamma(double); double lgamma(double); double exp10(double);\n"
    "double fdim(double, double); double nextafter(double, double);\n"
    "double remainder(double, double);\n"
    "float asinhf(float); float acoshf(float); float atanhf(float);\n"
    "float tgammaf(float); float lgammaf(float); float exp10f(float);\n"
    "float fdimf(float, float); float nextafterf(float, float);\n"
    "float remainderf(float, float); float copysignf(float, float);\n"
    "}\n"
    /* Winitzki's start, and Newton's steps. */
    "static inline double erfinv(double x) {\n"
    "    if (!(x > -1 && x < 1)) return x == 1 || x == -1\n"
    "        ? x / 0.0 : 0.0 / 0.0;\n"
    "    double l = log1p(-x * x), h = 4.33074675078 + l / 2;\n"
    "    double y = copysign(sqrt(sqrt(h * h - l / 0.147) - h), x);\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        y -= (erf(y) - x) / (1.1283791670955126 * exp(-y * y));\n"
    "    return y;\n"
    "}\n"
    "static inline double erfcinv(double x) {\n"
    "    if (x > 0.1) return erfinv(1 - x);\n"
    "    if (!(x > 0)) return x == 0 ? 1 / 0.0 : 0.0 / 0.0;\n"
    "    double l = log(x * (2 - x)), h = 4.33074675078 + l / 2;\n"
    "    double y = sqrt(sqrt(h * h - l / 0.147) - h);\n"
    "    for (int i = 0; i < 6; i++)\n"
    "        y += (erfc(y) - x) / (1.1283791670955126 * exp(-y * y));\n"
    "    return y;\n"
    "}\n"
    "static inline double normcdfinv(double x)\n"
    "{ return -1.4142135623730951 * erfcinv(2 * x); }\n"
    "static inline float erfinvf(float x) { return (float)erfinv(x); }\n"
    "static inline float erfcinvf(float x) { return (float)erfcinv(x); }\n"
    "static inline float normcdfinvf(float x)\n"
    "{ return (float)normcdfinv(x); }\n"
    "static inline double rsqrt(double x) { return 1 / sqrt(x); }\n"
    "static inline float rsqrtf(float x) { return 1 / sqrtf(x); }\n"
    "static inline double normcdf(double x)\n"
    "{ return erfc(x * -0.70710678118654752440) / 2; }\n"
    "static inline float normcdff(float x)\n"
    "{ return erfcf(x * -0.70710678F) / 2; }\n"
    "template <class T> static T fakecuda_argument(void *at,\n"
    "    void *(*)(void *), T *) { return *(T *)at; }\n"
    "template <class T> static T *fakecuda_argument(void *at,\n"
    "    void *(*translate)(void *), T **)\n"
    "{ return (T *)translate(*(void **)at); }\n"
    "extern \"C\" {\n"
    "int pthread_create(unsigned long *, const void *, void *(*)(void *),\n"
    "    void *);\n"
    "int pthread_join(unsigned long, void **);\n"
    "int pthread_mutex_lock(void *); int pthread_mutex_unlock(void *);\n"
    "int pthread_cond_wait(void *, void *);\n"
    "int pthread_cond_broadcast(void *);\n"
    "}\n"
    /* One block at a time; as large as the real ones, and zeros to begin. */
    "alignas(16) static char fakecuda_mutex[64], fakecuda_cond[64];\n"
    "static unsigned fakecuda_alive, fakecuda_waiting, fakecuda_round;\n"
    "static void fakecuda_go_on() { if (fakecuda_alive == fakecuda_waiting) {\n"
    "    fakecuda_waiting = 0; fakecuda_round++;\n"
    "    pthread_cond_broadcast(fakecuda_cond); } }\n"
    "static inline void __syncthreads() {\n"
    "    pthread_mutex_lock(fakecuda_mutex);\n"
    "    unsigned round = fakecuda_round; fakecuda_waiting++;\n"
    "    fakecuda_go_on();\n"
    "    while (round == fakecuda_round)\n"
    "        pthread_cond_wait(fakecuda_cond, fakecuda_mutex);\n"
    "    pthread_mutex_unlock(fakecuda_mutex);\n"
    "}\n"
    "template <class T> static T atomicAdd(T *at, T value) {\n"
    "    pthread_mutex_lock(fakecuda_mutex); T old = *at; *at = old + value;\n"
    "    pthread_mutex_unlock(fakecuda_mutex); return old;\n"
    "}\n"
    "template <class C> struct fakecuda_thread {\n"
    "    C *call; const fakecuda_grid *g; fakecuda_index at, block;\n"
    "    unsigned long handle;\n"
    "    static void *start(void *p) {\n"
    "        fakecuda_thread *me = (fakecuda_thread *)p;\n"
    "        const fakecuda_grid *g = me->g;\n"
    "        gridDim = {g->grid[0], g->grid[1], g->grid[2]};\n"
    "        blockDim = {g->block[0], g->block[1], g->block[2]};\n"
    "        blockIdx = me->block; threadIdx = me->at;\n"
    "        (*me->call)();\n"
    "        pthread_mutex_lock(fakecuda_mutex); fakecuda_alive--;\n"
    "        fakecuda_go_on(); pthread_mutex_unlock(fakecuda_mutex);\n"
    "        return 0;\n"
    "    }\n"
    "};\n"
    /* What nobody has written is no zero, and what is beyond stays so. */
    "alignas(16) static unsigned char fakecuda_dynamic[49152 + 4096];\n"
    "template <class C> static void fakecuda_block(fakecuda_grid *g, C *call) "
    "{\n"
    "    static fakecuda_thread<C> all[1024]; unsigned n = 0, i;\n"
    "    for (i = 0; i < sizeof fakecuda_dynamic; i++)\n"
    "        fakecuda_dynamic[i] = 0xff;\n"
    "    fakecuda_alive = g->block[0] * g->block[1] * g->block[2];\n"
    "    fakecuda_waiting = 0;\n"
    "    for (unsigned z = 0; z < g->block[2]; z++)\n"
    "    for (unsigned y = 0; y < g->block[1]; y++)\n"
    "    for (unsigned x = 0; x < g->block[0]; x++) {\n"
    "        all[n] = {call, g, {x, y, z}, blockIdx, 0};\n"
    "        if (pthread_create(&all[n].handle, 0,\n"
    "            fakecuda_thread<C>::start, &all[n]) != 0) __builtin_trap();\n"
    "        n++;\n"
    "    }\n"
    "    for (i = 0; i < n; i++) pthread_join(all[i].handle, 0);\n"
    "    for (i = g->shared_bytes; i < sizeof fakecuda_dynamic; i++)\n"
    "        if (fakecuda_dynamic[i] != 0xff) g->spilled = 1;\n"
    "}\n"
    "template <class F, class... V> static void fakecuda_run(\n"
    "    fakecuda_grid *g, F f, V... v) {\n"
    "    auto call = [&] { f(v...); };\n"
    "    gridDim = {g->grid[0], g->grid[1], g->grid[2]};\n"
    "    blockDim = {g->block[0], g->block[1], g->block[2]};\n"
    "    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)\n"
    "    for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)\n"
    "    for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++)\n"
    "    if (FAKECUDA_MEETS) fakecuda_block(g, &call);\n"
    "    else\n"
    "    for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++)\n"
    "    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++)\n"
    "    for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++)\n"
    "        call();\n"
    "}\n"
    "template <class... A> struct fakecuda_kernel {\n"
    "    template <unsigned long... I> struct list {};\n"
    "    template <unsigned long N, unsigned long... I> struct make\n"
    "        : make<N - 1, N - 1, I...> {};\n"
    "    template <unsigned long... I> struct make<0, I...>\n"
    "    { typedef list<I...> type; };\n"
    "    template <unsigned long... I> static void launch(\n"
    "        fakecuda_grid *g, void **p, void *(*t)(void *),\n"
    "        void (*f)(A...), list<I...>)\n"
    "    { (void)p; (void)t;\n"
    "      fakecuda_run(g, f, fakecuda_argument(p[I], t, (A *)0)...); }\n"
    "    static unsigned long sizes(unsigned long *out, unsigned long room) {\n"
    "        unsigned long all[] = {sizeof(A)..., 0};\n"
    "        for (unsigned long i = 0; i < sizeof...(A) && i < room; i++)\n"
    "            out[i] = all[i];\n"
    "        return sizeof...(A);\n"
    "    }\n"
    "};\n"
    "template <class... A> static void fakecuda_launch(\n"
    "    fakecuda_grid *g, void **p, void *(*t)(void *),\n"
    "    void (*f)(A...)) {\n"
    "    typedef fakecuda_kernel<A...> K;\n"
    "    K::launch(g, p, t, f,\n"
    "        typename K::template make<sizeof...(A)>::type());\n"
    "}\n"
    "template <class... A> static unsigned long fakecuda_sizes(\n"
    "    void (*)(A...), unsigned long *out, unsigned long room)\n"
    "{ return fakecuda_kernel<A...>::sizes(out, room); }\n";

FAKE_EXPORT const char *nvrtcGetErrorString(nvrtcResult result);

const char *
nvrtcGetErrorString(nvrtcResult result)
{
    switch (result) {
    case NVRTC_SUCCESS:
        return "NVRTC_SUCCESS";
    case NVRTC_ERROR_OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case NVRTC_ERROR_PROGRAM_CREATION_FAILURE:
        return "NVRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case NVRTC_ERROR_INVALID_INPUT:
        return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
        return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
        return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
        return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_INTERNAL_ERROR:
        return "NVRTC_ERROR_INTERNAL_ERROR";
    default:
        return "NVRTC_ERROR unknown";
    }
}

nvrtcResult
fake_nvrtcVersion(int *major, int *minor)
{
    if (major == NULL || minor == NULL) {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}

nvrtcResult
fake_nvrtcGetNumSupportedArchs(int *numArchs)
{
    *numArchs = (int)(sizeof(architectures) / sizeof(architectures[0]));
    return NVRTC_SUCCESS;
}

nvrtcResult
fake_nvrtcGetSupportedArchs(int *supportedArchs)
{
    memcpy(supportedArchs, architectures, sizeof(architectures));
    return NVRTC_SUCCESS;
}

nvrtcResult
fake_nvrtcCreateProgram(nvrtcProgram *prog, const char *src, const char *name,
                        int numHeaders, const char *const *headers,
                        const char *const *includeNames)
{
    struct fake_program *new;

    (void)headers;
    (void)includeNames;
    if (prog == NULL || src == NULL || numHeaders != 0) {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    new = fakecuda_new(FAKE_PROGRAM, sizeof(*new), "nvrtcCreateProgram");
    if (new == NULL) {
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    new->source = strdup(src);
    new->name = strdup(name != NULL ? name : "default_program");
    new->log = strdup("");
    *prog = new;
    return NVRTC_SUCCESS;
}

nvrtcResult
fake_nvrtcDestroyProgram(nvrtcProgram *prog)
{
    if (prog == NULL || !fakecuda_valid(*prog, FAKE_PROGRAM)) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    free((*prog)->source);
    free((*prog)->name);
    free((*prog)->log);
    free((*prog)->image);
    fakecuda_destroy(*prog);
    *prog = NULL;
    return NVRTC_SUCCESS;
}

/* The architecture of an option, 0 when the option is another one that the
 * real library knows, -1 when it knows none such. */
static int
option_arch(const char *option, bool *real_arch)
{
    static const char *const known[] = {"--std=",
                                        "-std=",
                                        "--use_fast_math",
                                        "-use_fast_math",
                                        "--fmad=",
                                        "-fmad=",
                                        "-D",
                                        "--define-macro=",
                                        "-lineinfo",
                                        "--device-debug",
                                        "-G",
                                        "--generate-line-info",
                                        "-default-device",
                                        "--device-as-default-execution-space",
                                        "--prec-div=",
                                        "--prec-sqrt=",
                                        "--ftz="};
    const char *value = strchr(option, '=');

    if (strncmp(option, "--gpu-architecture=", 19) == 0 ||
        strncmp(option, "-arch=", 6) == 0) {
        value++;
        *real_arch = strncmp(value, "sm_", 3) == 0;
        if (!*real_arch && strncmp(value, "compute_", 8) != 0) {
            return -1;
        }
        int number = atoi(strchr(value, '_') + 1);
        for (size_t i = 0; i < sizeof(architectures) / sizeof(architectures[0]);
             i++) {
            if (architectures[i] == number) {
                return number;
            }
        }
        return -1;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strncmp(option, known[i], strlen(known[i])) == 0) {
            return 0;
        }
    }
    return -1;
}

/* `extern __shared__ T name[];' becomes a pointer to what a block has. */
static void
write_source(FILE *to, const char *source)
{
    static const char word[] = "extern __shared__ ";

    for (const char *at; (at = strstr(source, word)) != NULL;) {
        const char *type = at + sizeof(word) - 1;
        size_t length = strcspn(type, "[;"), name = length;

        while (name > 0 && type[name - 1] != ' ' && type[name - 1] != '*') {
            name--;
        }
        (void)fprintf(to, "%.*s%.*s *const %.*s = (%.*s *)fakecuda_dynamic",
                      (int)(at - source), source, (int)name, type,
                      (int)(length - name), type + name, (int)name, type);
        source = type + length + strcspn(type + length, ";");
    }
    (void)fputs(source, to);
}

/* For each kernel of the source its launcher; those without extern "C" have a
 * name that nobody writes by hand. */
static void
write_launchers(FILE *to, const char *source)
{
    for (const char *at = source; (at = strstr(at, "__global__")) != NULL;) {
        const char *line = at;
        char name[64], symbol[96];

        while (line > source && line[-1] != '\n' && line[-1] != '}') {
            line--;
        }
        const char *quoted = strstr(line, "extern \"C\"");
        at += strlen("__global__");
        const char *open = strchr(at, '(');
        while (open != NULL &&
               strncmp(open - 17, "__launch_bounds__", 17) == 0) {
            open = strchr(open + 1, '(');
        }
        if (open == NULL) {
            return;
        }
        const char *end = open;
        while (end > at && (end[-1] == ' ' || end[-1] == '\n')) {
            end--;
        }
        const char *begin = end;
        while (begin > at && strchr(" \t\n", begin[-1]) == NULL) {
            begin--;
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)(end - begin), begin);
        (void)snprintf(symbol, sizeof(symbol),
                       quoted != NULL && quoted < at ? "%s" : "_Z%1$s", name);
        (void)fprintf(
            to,
            "\nextern \"C\" void fakecuda_launch_%s(fakecuda_grid *g,\n"
            "    void **p, void *(*t)(void *))\n"
            "{ fakecuda_launch(g, p, t, &%s); }\n"
            "extern \"C\" unsigned long fakecuda_sizes_%s(unsigned long *out,\n"
            "    unsigned long room) { return fakecuda_sizes(&%s, out, room); "
            "}\n",
            symbol, name, symbol, name);
    }
}

/* The host's compiler, without what is preloaded here; its exit status. */
static int
compile(const char *folder, char *const *defines)
{
    char source[PATH_BYTES], object[PATH_BYTES], errors[PATH_BYTES];
    char *arguments[33] = {
        "c++",
        "-std=c++17",
        "-O0", /* kernels are compiled more often than they run */
        "-w",
        "-fPIC",
        "-shared",
        "-ffp-contract=off",
        "-nostdinc",
        "-nostdlib",       /* the process has libc; less to link */
        "-Wl,-Bsymbolic"}; /* a kernel may be called as a host's function */
    char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
                           NULL};
    posix_spawn_file_actions_t actions;
    size_t count = 10;
    pid_t pid;
    int status;

    (void)snprintf(source, sizeof(source), "%s/kernel.cc", folder);
    (void)snprintf(object, sizeof(object), "%s/kernel.so", folder);
    (void)snprintf(errors, sizeof(errors), "%s/errors", folder);
    for (; *defines != NULL && count < 27; defines++) {
        arguments[count++] = *defines;
    }
    arguments[count++] = "-o";
    arguments[count++] = object;
    arguments[count++] = source;
    arguments[count++] = "-lm";
    arguments[count++] = "-lc";
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 2, errors,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    status = posix_spawnp(&pid, "c++", &actions, NULL, arguments, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (status != 0) {
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A whole file, NUL at its end; NULL when it cannot be had. */
static unsigned char *
whole_file(const char *folder, const char *name, size_t *bytes)
{
    char path[PATH_BYTES];
    unsigned char *content = NULL;
    FILE *file;
    long length;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) >= 0 &&
        fseek(file, 0, SEEK_SET) == 0) {
        content = calloc((size_t)length + 1, 1);
        if (content != NULL &&
            fread(content, 1, (size_t)length, file) == (size_t)length) {
            *bytes = (size_t)length;
        }
    }
    (void)fclose(file);
    return content;
}

static char *
make_image(const unsigned char *object, size_t bytes, int arch)
{
    char *image = malloc(bytes * 2 + 256);
    size_t at;

    if (image == NULL) {
        return NULL;
    }
    at = (size_t)snprintf(image, 256,
                          FAKE_IMAGE_HEAD FAKE_IMAGE_TARGET FAKE_IMAGE_BODY, 9,
                          0, arch);
    for (size_t i = 0; i < bytes; i++) {
        at += (size_t)snprintf(image + at, 3, "%02x", object[i]);
    }
    (void)snprintf(image + at, 2, "\n");
    return image;
}

static void
remove_folder(const char *folder)
{
    static const char *const names[] = {"kernel.cc", "kernel.so", "errors"};
    char path[PATH_BYTES];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* The folder in FAKECUDA_COMPILED, a folder itself, of what the compiler makes of this
 * text and these options; "" without FAKECUDA_COMPILED. */
static void
kept_folder(const char *text, char *const *defines, char kept[PATH_BYTES])
{
    const char *folder = getenv("FAKECUDA_COMPILED");
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    kept[0] = '\0';
    if (folder == NULL) {
        return;
    }
    for (;; text = *defines++) {
        for (const char *at = text; *at != '\0'; at++) {
            hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
        }
        hash *= UINT64_C(1099511628211);
        if (*defines == NULL) {
            break;
        }
    }
    (void)snprintf(kept, PATH_BYTES, "%s/%016" PRIx64, folder, hash);
}

/* What is compiled of a program; the caller frees it. */
static char *
text_of(const struct fake_program *program)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    if (to == NULL) {
        return NULL;
    }
    (void)fprintf(to, "enum { FAKECUDA_MEETS = %d };\n%s#line 1 \"%s\"\n",
                  strstr(program->source, "__shared__") != NULL ||
                      strstr(program->source, "__syncthreads") != NULL,
                  prelude, program->name);
    write_source(to, program->source);
    write_launchers(to, program->source);
    return fclose(to) == 0 ? text : NULL;
}

/* Compiles a text in an empty folder; the compiler's exit status, or -1. */
static int
compile_text(const char *folder, const char *text, char *const *defines)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/kernel.cc", folder);
    FILE *source = fopen(path, "w");
    if (source == NULL) {
        return -1;
    }
    bool written = fputs(text, source) >= 0;
    return fclose(source) == 0 && written ? compile(folder, defines) : -1;
}

static int
build(struct fake_program *program, int arch, char *const *defines)
{
    char made[] = "/tmp/fakecuda.XXXXXX", kept[PATH_BYTES], path[PATH_BYTES];
    char *text = text_of(program);
    unsigned char *content = NULL;
    size_t bytes = 0;
    int status = -1, result = NVRTC_ERROR_INTERNAL_ERROR;

    if (text == NULL) {
        return NVRTC_ERROR_OUT_OF_MEMORY;
    }
    kept_folder(text, defines, kept);
    bool known = kept[0] != '\0' && access(kept, F_OK) == 0;
    const char *folder = known ? kept : mkdtemp(made);
    if (known) {
        (void)snprintf(path, sizeof(path), "%.*s/kernel.so", PATH_BYTES - 16,
                       kept);
        status = access(path, F_OK) != 0;
    } else if (folder != NULL) {
        status = compile_text(folder, text, defines);
    }
    free(text);
    if (status == 0) {
        content = whole_file(folder, "kernel.so", &bytes);
        program->image =
            content == NULL ? NULL : make_image(content, bytes, arch);
        result =
            program->image == NULL ? NVRTC_ERROR_OUT_OF_MEMORY : NVRTC_SUCCESS;
        free(content);
    } else if (status > 0) {
        free(program->log);
        program->log = (char *)whole_file(folder, "errors", &bytes);
        result = NVRTC_ERROR_COMPILATION;
    }
    if (!known && folder != NULL &&
        (status < 0 || kept[0] == '\0' || rename(folder, kept) != 0)) {
        remove_folder(folder);
    }
    return result;
}

nvrtcResult
fake_nvrtcCompileProgram(nvrtcProgram prog, int numOptions,
                         const char *const *options)
{
    char *defines[16] = {NULL};
    size_t n_defines = 0;
    int arch = 75;

    if (!fakecuda_valid(prog, FAKE_PROGRAM)) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    for (int i = 0; i < numOptions; i++) {
        int of_option = option_arch(options[i], &prog->real_arch);
        if (of_option < 0) {
            fakecuda_note("bad-argument", "NVRTC option %s", options[i]);
            return NVRTC_ERROR_INVALID_OPTION;
        }
        arch = of_option != 0 ? of_option : arch;
        if (strncmp(options[i], "-D", 2) == 0 && n_defines < 15) {
            defines[n_defines++] = (char *)options[i];
        }
    }
    free(prog->image);
    prog->image = NULL;
    return build(prog, arch, defines);
}

static int
text_size(nvrtcProgram prog, const char *text, size_t *bytes)
{
    if (!fakecuda_valid(prog, FAKE_PROGRAM)) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    if (bytes == NULL) {
        return NVRTC_ERROR_INVALID_INPUT;
    }
    if (text == NULL) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    *bytes = strlen(text) + 1;
    return NVRTC_SUCCESS;
}

nvrtcResult
fake_nvrtcGetPTXSize(nvrtcProgram prog, size_t *ptxSizeRet)
{
    return text_size(prog,
                     fakecuda_valid(prog, FAKE_PROGRAM) ? prog->image : NULL,
                     ptxSizeRet);
}

nvrtcResult
fake_nvrtcGetPTX(nvrtcProgram prog, char *ptx)
{
    size_t bytes;
    int result = fake_nvrtcGetPTXSize(prog, &bytes);

    if (result == NVRTC_SUCCESS) {
        memcpy(ptx, prog->image, bytes);
    }
    return result;
}

/* None for a virtual architecture. */
nvrtcResult
fake_nvrtcGetCUBINSize(nvrtcProgram prog, size_t *cubinSizeRet)
{
    int result = fake_nvrtcGetPTXSize(prog, cubinSizeRet);

    if (result == NVRTC_SUCCESS && !prog->real_arch) {
        *cubinSizeRet = 0;
    }
    return result;
}

nvrtcResult
fake_nvrtcGetCUBIN(nvrtcProgram prog, char *cubin)
{
    size_t bytes;
    int result = fake_nvrtcGetCUBINSize(prog, &bytes);

    if (result == NVRTC_SUCCESS && bytes == 0) {
        return NVRTC_ERROR_INVALID_PROGRAM;
    }
    return result == NVRTC_SUCCESS ? fake_nvrtcGetPTX(prog, cubin) : result;
}

nvrtcResult
fake_nvrtcGetProgramLogSize(nvrtcProgram prog, size_t *logSizeRet)
{
    return text_size(prog,
                     fakecuda_valid(prog, FAKE_PROGRAM) ? prog->log : NULL,
                     logSizeRet);
}

nvrtcResult
fake_nvrtcGetProgramLog(nvrtcProgram prog, char *log)
{
    size_t bytes;
    int result = fake_nvrtcGetProgramLogSize(prog, &bytes);

    if (result == NVRTC_SUCCESS) {
        memcpy(log, prog->log, bytes);
    }
    return result;
}
