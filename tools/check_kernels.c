/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See the header. A file of kernels is compiled once, however many functions
 * launch one of them; all maps are one program, since the compiler takes longer
 * to start than to read another.
 */
#include "config.h"

#include "tools/check_kernels.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/path.h"
#include "common/plain.h"
#include "common/status.h"
#include "pager/device/cuda/kernel_compile.h"
#include "pager/kernel/source.h"
#include "tools/tool.h"

enum {
    USUAL_CAPABILITY = 90,
    MAX_LOG_LINES = 60 /* of one compilation */
};

struct checker {
    const struct fy_model *model;
    struct fy_kernel_target target;
    int driver_version;
    unsigned kernels, maps; /* compiled, or found wrong */
    unsigned wrong;
};

static const struct fy_call_row *
call_row(const struct fy_model *model, uint32_t index)
{
    return &FY_TABLE(model, fy_call_row, calls)[index];
}

static void
say_error(struct checker *c, const struct fy_function *f,
          const struct fy_call_row *row, const char *text)
{
    c->wrong++;
    (void)fprintf(stderr, "%s:%u: error: %s\n",
                  fy_model_string(c->model, f->file), row->line, text);
}

/*
 * The compiler's words, where it names the file with the way to it, and a line
 * as everybody else does: "way/name.cu:7: error: ...".
 */
static void
print_log(char *log, const char *path)
{
    const char *name = fy_path_name(path);
    const size_t bytes = strlen(name);
    unsigned lines = 0;
    if (log) {
        fy_plain(log, "\t\r\n");
    }
    while (log && *log != '\0' && lines < MAX_LOG_LINES) {
        const size_t n = strcspn(log, "\n");
        const char *rest = log + bytes;
        const char *end = log + n;
        if (strspn(log, " \t\r") < n) {
            lines++;
            if (n > bytes && strncmp(log, name, bytes) == 0 && *rest == '(') {
                const char *line = rest + 1;
                rest = line + strspn(line, "0123456789");
                (void)fprintf(stderr, "%s:%.*s", path, (int)(rest - line),
                              line);
                rest += *rest == ')';
            } else if (n > bytes && strncmp(log, name, bytes) == 0 &&
                       *rest == ':') {
                (void)fputs(path, stderr);
            } else {
                rest = log;
            }
            (void)fprintf(stderr, "%.*s\n", (int)(end - rest), rest);
        }
        log += n + (log[n] != '\0');
    }
}

static int
compile(const struct checker *c, const struct fy_kernel_program *program,
        bool machine_code, char **log, char why[FY_CUDA_TEXT_BYTES])
{
    struct fy_kernel_target target = c->target;
    void *image = NULL;
    size_t bytes;
    if (!machine_code) {
        const char *number = strchr(target.arch, '_');
        char arch[FY_KERNEL_ARCH_BYTES];
        (void)snprintf(arch, sizeof arch, "compute%s", number ? number : "");
        memcpy(target.arch, arch, sizeof arch);
        target.real = false;
        target.draft = true;
    }
    int status = fy_kernel_compile(c->driver_version, program, &target, &image,
                                   &bytes, log, why);
    free(image);
    return status;
}

/* ---- kernels of the user ---- */

/* Returns true unless an earlier step has the same file: its text is one
 * string. */
static bool
is_first(const struct checker *c, uint32_t function, uint32_t index)
{
    const struct fy_model *model = c->model;
    const struct fy_kernel_row *kernels =
        FY_TABLE(model, fy_kernel_row, kernels);
    const fy_str text = kernels[call_row(model, index)->kernel].text;
    for (uint32_t f = 0; f <= function; f++) {
        uint32_t i = FY_TABLE(model, fy_function, functions)[f].cuda_call;
        for (; i != FY_NIL; i = call_row(model, i)->next) {
            if (f == function && i == index) {
                return true;
            }
            if (call_row(model, i)->kind == FY_CALL_KERNEL &&
                kernels[call_row(model, i)->kernel].text == text) {
                return false;
            }
        }
    }
    return true;
}

static void
check_kernel(struct checker *c, const struct fy_function *f,
             const struct fy_call_row *row)
{
    const struct fy_kernel_row *kernel =
        &FY_TABLE(c->model, fy_kernel_row, kernels)[row->kernel];
    const char *path = fy_model_string(c->model, kernel->file);
    struct fy_kernel_program program = {
        .text = fy_model_string(c->model, kernel->text),
        .file = path,
        .entry = fy_model_string(c->model, row->function),
        .fmad = true};
    char why[FY_CUDA_TEXT_BYTES], text[FY_CUDA_TEXT_BYTES + PATH_MAX], *log;
    int status = compile(c, &program, true, &log, why);
    c->kernels++;
    if (status) {
        (void)snprintf(text, sizeof text, "'%s' does not compile for %s%s%s",
                       path, c->target.arch,
                       status == FY_ERR_INVALID ? "" : ": ",
                       status == FY_ERR_INVALID ? "" : why);
        say_error(c, f, row, text);
    }
    print_log(log, path); /* also its warnings */
    free(log);
}

/* ---- maps ---- */

static int
map_text(const struct fy_model *model, const struct fy_function *f,
         const struct fy_call_row *row, struct fy_kernel_text *out)
{
    const struct fy_operand *operands =
        FY_TABLE(model, fy_operand, operands) + f->operands;
    struct fy_kernel_buffer buffers[FY_KERNEL_BUFFERS];
    struct fy_map_part part = {
        .model = model, .function = f, .row = row, .integer_bits = 64};
    unsigned n = 0;
    for (unsigned o = 0; o < f->noperands; o++) {
        part.buffer[o] = FY_NO_BUFFER;
        if (operands[o].access != FY_ACCESS_SCRATCH) {
            part.buffer[o] = (uint8_t)n;
            buffers[n].type = operands[o].element == FY_T_INTEGER
                                  ? (uint8_t)FY_T_I64
                                  : operands[o].element;
            buffers[n++].store = true;
        }
    }
    return fy_kernel_generate(&part, 1, buffers, n, operands[row->to[0]].naxes,
                              out);
}

/* One map alone: to find out which it is. */
static void
check_map(struct checker *c, const struct fy_function *f,
          const struct fy_call_row *row)
{
    struct fy_kernel_text kernel;
    char why[FY_CUDA_TEXT_BYTES], text[FY_CUDA_TEXT_BYTES + 256], *log = NULL;
    int status = map_text(c->model, f, row, &kernel);
    if (status) {
        say_error(c, f, row,
                  "no kernel can be made of the maps: they are too large");
        return;
    }
    struct fy_kernel_program program = {.text = kernel.text,
                                        .file =
                                            fy_model_string(c->model, f->name),
                                        .entry = FY_KERNEL_ENTRY,
                                        .fmad = kernel.fmad};
    status = compile(c, &program, false, &log, why);
    if (status) {
        (void)snprintf(text, sizeof text,
                       "the kernel of the maps does not compile for %s: %s",
                       c->target.arch, why);
        say_error(c, f, row, text);
    }
    free(log);
    free(kernel.text);
}

static void
each_map(struct checker *c,
         void (*visit)(struct checker *c, const struct fy_function *f,
                       const struct fy_call_row *row))
{
    const struct fy_function *functions =
        FY_TABLE(c->model, fy_function, functions);
    for (uint32_t f = 0; f < c->model->functions.count; f++) {
        for (uint32_t i = functions[f].cuda_call; i != FY_NIL;
             i = call_row(c->model, i)->next) {
            if (call_row(c->model, i)->kind == FY_CALL_MAP) {
                visit(c, &functions[f], call_row(c->model, i));
            }
        }
    }
}

static void
count_map(struct checker *c, const struct fy_function *f,
          const struct fy_call_row *row)
{
    (void)f;
    (void)row;
    c->maps++;
}

/* Texts of kernels, and as one program; each under a name of its own. */
struct texts {
    struct fy_kernel_text *list;
    unsigned count, room;
    FILE *program;
};

/* Forms of one function often become the same kernel; false: no memory. */
static bool
add_text(struct texts *texts, struct fy_kernel_text kernel)
{
    for (unsigned i = 0; i < texts->count; i++) {
        if (strcmp(texts->list[i].text, kernel.text) == 0) {
            free(kernel.text);
            return true;
        }
    }
    if (texts->count == texts->room) {
        const unsigned room = texts->room * 2 + 64;
        struct fy_kernel_text *list =
            realloc(texts->list, room * sizeof *texts->list);
        if (!list) {
            free(kernel.text);
            return false;
        }
        texts->list = list;
        texts->room = room;
    }
    (void)fprintf(texts->program, "extern \"C\" __global__ void %s_%u%s\n",
                  FY_KERNEL_ENTRY, texts->count,
                  strstr(kernel.text, FY_KERNEL_ENTRY) +
                      strlen(FY_KERNEL_ENTRY));
    texts->list[texts->count++] = kernel;
    return true;
}

static bool
add_maps(const struct checker *c, struct texts *texts)
{
    const struct fy_function *functions =
        FY_TABLE(c->model, fy_function, functions);
    for (uint32_t f = 0; f < c->model->functions.count; f++) {
        for (uint32_t i = functions[f].cuda_call; i != FY_NIL;
             i = call_row(c->model, i)->next) {
            struct fy_kernel_text kernel;
            if (call_row(c->model, i)->kind == FY_CALL_MAP &&
                (map_text(c->model, &functions[f], call_row(c->model, i),
                          &kernel) != 0 ||
                 !add_text(texts, kernel))) {
                return false;
            }
        }
    }
    return true;
}

/* False: not all of them compile, or it cannot be told. */
static bool
maps_compile(struct checker *c)
{
    struct texts texts = {NULL};
    char *text = NULL, why[FY_CUDA_TEXT_BYTES], *log = NULL;
    size_t bytes = 0;
    texts.program = open_memstream(&text, &bytes);
    if (!texts.program) {
        return false;
    }
    bool good = add_maps(c, &texts);
    good = fclose(texts.program) == 0 && good;
    if (good) {
        struct fy_kernel_program program = {.text = text,
                                            .file = "maps",
                                            .entry = FY_KERNEL_ENTRY "_0",
                                            .fmad = true};
        good = compile(c, &program, false, &log, why) == 0;
    }
    for (unsigned i = 0; i < texts.count; i++) {
        free(texts.list[i].text);
    }
    free(texts.list);
    free(log);
    free(text);
    return good;
}

/* ---- all of them ---- */

/* The first card's, as it is where there is one. */
static int
capability(int *driver_version)
{
    const struct fy_cuda_driver *driver;
    char why[FY_CUDA_TEXT_BYTES];
    int device = 0, major = 0, minor = 0;
    *driver_version = INT_MAX;
    if (fy_cuda_driver_get(&driver, why) != 0 ||
        driver->device_get(&device, 0) != 0 ||
        driver->device_attribute(&major, FY_CUDA_COMPUTE_CAPABILITY_MAJOR,
                                 device) != 0 ||
        driver->device_attribute(&minor, FY_CUDA_COMPUTE_CAPABILITY_MINOR,
                                 device) != 0) {
        return USUAL_CAPABILITY;
    }
    *driver_version = driver->version;
    return major * 10 + minor;
}

static void
check_kernels(struct checker *c)
{
    const struct fy_function *functions =
        FY_TABLE(c->model, fy_function, functions);
    for (uint32_t f = 0; f < c->model->functions.count; f++) {
        for (uint32_t i = functions[f].cuda_call; i != FY_NIL;
             i = call_row(c->model, i)->next) {
            if (call_row(c->model, i)->kind == FY_CALL_KERNEL &&
                is_first(c, f, i)) {
                check_kernel(c, &functions[f], call_row(c->model, i));
            }
        }
    }
}

int
fy_check_kernels(const struct fy_model *model)
{
    struct checker c = {.model = model};
    char why[FY_CUDA_TEXT_BYTES];
    bool loaded;
    each_map(&c, count_map);
    if (c.maps == 0 && model->kernels.count == 0) {
        return FY_OK;
    }
    const int card = capability(&c.driver_version);
    if (fy_kernel_target(c.driver_version, card, &c.target, &loaded, why)) {
        printf("kernels not compiled: %s\n", why);
        return FY_OK;
    }
    check_kernels(&c);
    if (c.maps > 0 && !maps_compile(&c)) {
        each_map(&c, check_map);
    }
    if (c.wrong) {
        return FY_ERR_INVALID;
    }
    printf("compiled for %s by NVRTC %d.%d:", c.target.arch, c.target.major,
           c.target.minor);
    if (c.kernels) {
        printf(" %u file%s of kernels", c.kernels, c.kernels == 1 ? "" : "s");
    }
    if (c.maps) {
        printf("%s kernels of %u map%s", c.kernels ? "," : "", c.maps,
               c.maps == 1 ? "" : "s");
    }
    putchar('\n');
    return FY_OK;
}
