/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated kernels: the space they walk, fusion of several calls, the cache on
 * disk, and whether the real NVRTC takes every kernel of the shipped vector
 * math, where it is installed (it needs no card).
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "pager/device/cuda/kernel_compile.h"
#include "pager/kernel/source.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

static struct fy_model *
compile(const char *text)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    struct fy_model *model = NULL;
    int status = fy_compile_text("main.ferry", text, strlen(text), NULL,
                                 diagnostics, &model);
    fy_diagnostics_print(diagnostics, stderr);
    ck_assert_int_eq(status, 0);
    fy_diagnostics_free(diagnostics);
    return model;
}

/* The maps of a function, each operand a buffer of its own. */
static struct fy_map_part
part_of(const struct fy_model *model, uint32_t function,
        struct fy_kernel_buffer *buffers, unsigned *nbuffers)
{
    const struct fy_function *row =
        &FY_TABLE(model, fy_function, functions)[function];
    const struct fy_operand *operands =
        FY_TABLE(model, fy_operand, operands) + row->operands;
    struct fy_map_part part = {
        .model = model,
        .function = row,
        .row = &FY_TABLE(model, fy_call_row, calls)[row->cuda_call],
        .integer_bits = 32};
    for (unsigned o = 0; o < row->noperands; o++) {
        part.buffer[o] = (uint8_t)*nbuffers;
        buffers[*nbuffers].type = operands[o].element;
        buffers[(*nbuffers)++].store = true;
    }
    return part;
}

START_TEST(axes_that_follow_each_other_are_one)
{
    /* Rows of a matrix with padding, a vector along them, all of one. */
    struct fy_kernel_shape shape = {
        .naxes = 4,
        .nbuffers = 2,
        .extent = {5, 1, 7, 3},
        .stride = {{100, 9, 1, 700}, {10, 9, 1, 70}}};
    uint32_t grid[3], block[3];
    fy_kernel_simplify(&shape);
    ck_assert_uint_eq(shape.naxes, 3);
    ck_assert_int_eq(shape.extent[0], 7);
    ck_assert_int_eq(shape.extent[1], 5);
    ck_assert_int_eq(shape.extent[2], 3);
    ck_assert_int_eq(shape.stride[0][2], 700);
    fy_kernel_grid(&shape, grid, block);
    ck_assert_uint_eq(grid[0], 1);
    ck_assert_uint_eq(grid[1], 5);
    ck_assert_uint_eq(grid[2], 3);

    shape = (struct fy_kernel_shape){.naxes = 2,
                                     .nbuffers = 2,
                                     .extent = {1000, 1 << 20},
                                     .stride = {{1, 1000}, {1, 1000}}};
    fy_kernel_simplify(&shape);
    ck_assert_uint_eq(shape.naxes, 1);
    ck_assert_int_eq(shape.extent[0], INT64_C(1000) << 20);
    fy_kernel_grid(&shape, grid, block);
    ck_assert_uint_eq(grid[0], 1 << 16); /* its loop takes the rest */
    ck_assert_uint_eq(block[0], 256);
}
END_TEST

static unsigned
count(const char *text, const char *wanted)
{
    unsigned n = 0;
    while ((text = strstr(text, wanted)) != NULL) {
        n++;
        text++;
    }
    return n;
}

/* y := exp(x); z := y + x: y stays in a register, x is loaded once. */
START_TEST(what_one_map_gives_the_next_stays_in_a_register)
{
    struct fy_model *model = compile(
        "function void f(int n, const float *x, float *y)"
        "{ in x[n]; out y[n]; error 2; map y = exp(x); }"
        "function void g(int n, float s, const float *x, const float *y, "
        "float *z)"
        "{ in x[n]; in y[n]; out z[n]; exact; map z = 0.5 * y + s * x; }");
    struct fy_kernel_buffer buffers[8];
    unsigned nbuffers = 0;
    struct fy_map_part parts[2];
    struct fy_kernel_text kernel;
    parts[0] = part_of(model, 0, buffers, &nbuffers);
    parts[1] = parts[0];
    parts[1].function = &FY_TABLE(model, fy_function, functions)[1];
    parts[1].row =
        &FY_TABLE(model, fy_call_row, calls)[parts[1].function->cuda_call];
    parts[1].buffer[2] = 2;
    buffers[2] = buffers[1];
    buffers[1].store = false;
    ck_assert_int_eq(fy_kernel_generate(parts, 2, buffers, 3, 1, &kernel), 0);
    ck_assert(!kernel.fmad);                       /* one of them is exact */
    ck_assert_uint_eq(count(kernel.text, "["), 2); /* one load, one store */
    ck_assert_uint_eq(count(kernel.text, "double v"), 1); /* 0.5 alone */
    ck_assert_uint_eq(count(kernel.text, "expf("), 1);
    unsigned scalars = 0;
    for (unsigned i = 0; i < kernel.nparams; i++) {
        if (kernel.params[i].kind == FY_PARAM_SCALAR) {
            scalars++;
            ck_assert_uint_eq(kernel.params[i].part, 1);
            ck_assert_uint_eq(kernel.params[i].type, FY_T_F32);
        }
    }
    ck_assert_uint_eq(scalars, 1);
    ck_assert_uint_eq(kernel.nparams, 6); /* n, x, z, their strides, s */
    free(kernel.text);
    /* More than a kernel has axes. */
    ck_assert_int_eq(fy_kernel_generate(parts, 2, buffers, 3, 5, &kernel),
                     FY_ERR_UNSUPPORTED);
    free(model);
}
END_TEST

START_TEST(a_cached_kernel_is_its_writers_whole_file)
{
    char place[] = "/tmp/ferry-kernels.XXXXXX", folder[64], path[160];
    struct fy_kernel_key key = {{1, 2, 3}};
    void *image = NULL;
    size_t bytes = 0;
    ck_assert_ptr_nonnull(mkdtemp(place));
    (void)snprintf(folder, sizeof folder, "%s/kernels", place);
    fy_kernel_cache_put(&key, "text", 4); /* nowhere yet */
    fy_kernel_cache_to(folder);
    ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes), FY_ERR_NOENT);
    /* A byte beyond this limit would be a signal that ends the program; Check
     * writes files as well. */
    struct rlimit before, none;
    int set = getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 0;
    set = set != 0 ? set : setrlimit(RLIMIT_FSIZE, &none);
    fy_kernel_cache_put(&key, "text", 4);
    set = set != 0 ? set : setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(set, 0);
    ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes), FY_ERR_NOENT);
    fy_kernel_cache_put(&key, "text", 4);
    ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes), 0);
    ck_assert_uint_eq(bytes, 4);
    ck_assert_mem_eq(image, "text", 4);
    free(image);
    int n = snprintf(path, sizeof path, "%s/", folder);
    for (int i = 0; i < FY_KERNEL_KEY_BYTES; i++) {
        n += snprintf(path + n, 3, "%02x", key.bytes[i]);
    }
    /* What others may write is not run. */
    ck_assert_int_eq(chmod(path, 0620), 0);
    ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes), FY_ERR_NOENT);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes), 0);
    free(image);
    /* Another key's file under this name. */
    struct fy_kernel_key other = {{1, 2, 4}};
    char beside[160];
    (void)snprintf(beside, sizeof beside, "%s", path);
    memcpy(beside + strlen(folder) + 1, "010204", 6);
    ck_assert_int_eq(rename(path, beside), 0);
    ck_assert_int_eq(fy_kernel_cache_get(&other, &image, &bytes), FY_ERR_NOENT);
    ck_assert_int_eq(rename(beside, path), 0);
    /* Every length but the right one. */
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    for (off_t size = status.st_size - 1; size >= 0; size--) {
        ck_assert_int_eq(truncate(path, size), 0);
        ck_assert_int_eq(fy_kernel_cache_get(&key, &image, &bytes),
                         FY_ERR_NOENT);
    }
    fy_kernel_cache_to("");
    (void)unlink(path);
    (void)rmdir(folder);
    (void)rmdir(place);
}
END_TEST

/* A file of the cache, of so many bytes, unused for so many days. */
static void
make_old(const char *folder, const char *name, off_t bytes, int days)
{
    char path[256];
    struct timespec times[2] = {{.tv_sec = time(NULL) - days * 86400L},
                                {.tv_sec = time(NULL) - days * 86400L}};
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, bytes), 0);
    ck_assert_int_eq(futimens(fd, times), 0);
    close(fd);
}

START_TEST(old_kernels_are_removed)
{
    static const struct {
        int days;
        off_t bytes;
        const char *suffix;
        bool stays;
    } rows[] = {
        {31, 10, "", false},      {29, 10, "", false}, /* 60 MiB before */
        {2, 30 << 20, "", true},  {1, 30 << 20, "", true},
        {3, 30 << 20, "", false}, {31, 10, ".77", false},
        {0, 10, ".78", true},
    };
    char place[] = "/tmp/ferry-kernels-XXXXXX", folder[64], name[256];
    struct fy_kernel_key key = {{0xff}};
    ck_assert_ptr_nonnull(mkdtemp(place));
    (void)snprintf(folder, sizeof folder, "%s/kernels", place);
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    const size_t n = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "%064zx%s", i, rows[i].suffix);
        make_old(folder, name, rows[i].bytes, rows[i].days);
    }
    make_old(folder, "README", 10, 900); /* none of ours */
    fy_kernel_cache_to(folder);
    fy_kernel_cache_put(&key, "text", 4);
    fy_kernel_cache_to("");
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "%s/%064zx%s", folder, i,
                       rows[i].suffix);
        ck_assert_msg((unlink(name) == 0) == rows[i].stays, "file %zu", i);
    }
    (void)snprintf(name, sizeof name, "%s/README", folder);
    ck_assert_int_eq(unlink(name), 0);
    (void)snprintf(name, sizeof name, "%s/ff%062d", folder, 0);
    ck_assert_int_eq(unlink(name), 0);
    (void)rmdir(folder);
    (void)rmdir(place);
}
END_TEST

/* No decimal point, which is another one in other locales; nothing overflows. */
START_TEST(literals_have_no_decimal_point)
{
    struct fy_model *model = compile(
        "function void f(int n, const double *x, const long *u, double *y, "
        "long *v)\n{ axis n split; in x[n]; in u[n]; out y[n]; out v[n]; "
        "error 1; map y = 0.1 * x - 1.5e300; map v = abs(u) - -u; }");
    struct fy_kernel_buffer buffers[8];
    unsigned nbuffers = 0;
    struct fy_kernel_text kernel;
    struct fy_map_part part = part_of(model, 0, buffers, &nbuffers);
    ck_assert_int_eq(
        fy_kernel_generate(&part, 1, buffers, nbuffers, 1, &kernel), 0);
    ck_assert_ptr_nonnull(strstr(kernel.text, "= 0x1999999999999ap-56;"));
    for (const char *at = kernel.text; (at = strchr(at, '.')) != NULL; at++) {
        ck_assert_int_eq(at[1], 'x'); /* threadIdx.x and the like */
    }
    ck_assert_ptr_null(strstr(kernel.text, " -v"));
    free(kernel.text);
    free(model);
}
END_TEST

/* By the compiler that a card would have. */
START_TEST(test_real_compiler)
{
    char path[PATH_MAX], why[FY_CUDA_TEXT_BYTES];
    const char *source = getenv("FERRY_SRCDIR");
    struct fy_kernel_target target;
    struct fy_model *model;
    bool loaded;
    if (dlopen("libnvrtc.so", RTLD_LAZY) == NULL &&
        dlopen("libnvrtc.so.12", RTLD_LAZY) == NULL) {
        skip_test("no NVRTC");
        return;
    }
    ck_assert_msg(fy_kernel_target(INT_MAX, 90, &target, &loaded, why) == 0,
                  "%s", why);
    (void)snprintf(path, sizeof path, "%s/annotations/lib/vml.ferry",
                   source != NULL ? source : ".");
    const char *paths[] = {path};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    ck_assert_int_eq(fy_compile(paths, 1, NULL, diagnostics, &model), 0);
    fy_diagnostics_free(diagnostics);
    ck_assert(target.real);
    ck_assert_str_eq(target.arch, "sm_90");
    unsigned compiled = 0;
    for (uint32_t f = 0; f < model->functions.count; f++) {
        const struct fy_function *row =
            &FY_TABLE(model, fy_function, functions)[f];
        struct fy_kernel_buffer buffers[8];
        unsigned nbuffers = 0;
        struct fy_kernel_text kernel;
        void *image;
        size_t bytes;
        if (row->next_variant == FY_NIL) {
            continue; /* in place: the same expression */
        }
        if (fy_model_string(model, row->name)[1] == 's' && f % 5 != 0) {
            continue; /* takes long enough */
        }
        struct fy_map_part part = part_of(model, f, buffers, &nbuffers);
        ck_assert_int_eq(
            fy_kernel_generate(&part, 1, buffers, nbuffers, 1, &kernel), 0);
        struct fy_kernel_program program = {.text = kernel.text,
                                            .file = "vml",
                                            .entry = FY_KERNEL_ENTRY,
                                            .fmad = kernel.fmad};
        int status = fy_kernel_compile(INT_MAX, &program, &target, &image,
                                       &bytes, NULL, why);
        ck_assert_msg(status == 0, "%s: %s", fy_model_string(model, row->name),
                      why);
        ck_assert_uint_gt(bytes, 100);
        free(image);
        free(kernel.text);
        compiled++;
    }
    ck_assert_uint_gt(compiled, 50);
    struct fy_kernel_program wrong = {
        .text = "int x\nerror here;", .file = "a/b/wrong.cu", .entry = "f"};
    void *image;
    size_t bytes;
    ck_assert_int_eq(
        fy_kernel_compile(INT_MAX, &wrong, &target, &image, &bytes, NULL, why),
        FY_ERR_INVALID);
    ck_assert_msg(strncmp(why, "wrong.cu(", 9) == 0, "%s", why);
    ck_assert_ptr_nonnull(strstr(why, "error"));
    free(model);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("kernel");
    TCase *tests = tcase_create("kernel");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, axes_that_follow_each_other_are_one);
    tcase_add_test(tests, what_one_map_gives_the_next_stays_in_a_register);
    tcase_add_test(tests, a_cached_kernel_is_its_writers_whole_file);
    tcase_add_test(tests, old_kernels_are_removed);
    tcase_add_test(tests, literals_have_no_decimal_point);
    tcase_add_test(tests, test_real_compiler);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
