/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See cost.h. A call's original is bound by its arithmetic or by memory; an
 * offloaded call by the link, the device's arithmetic and its step overheads.
 */
#include "config.h"

#include "pager/decide/cost.h"

#include <ctype.h>
#include <locale.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct rate_row {
    const char *name;
    size_t offset;
    double host; /* default where the device is this machine's memory */
    double cuda; /* ... where it is a card, and nobody has measured it */
};

#define RATE(field, host, cuda)                              \
    {                                                        \
#field, offsetof(struct fy_rates, field), host, cuda \
    }

static const char cuda_prefix[] = "cuda.";

static const struct rate_row rows[] = {
    RATE(cpu_flops_f32, 4e10, 4e11),    RATE(cpu_flops_f64, 2e10, 2e11),
    RATE(cpu_bytes, 1e10, 5e10),        RATE(cpu_hash_bytes, 3e9, 5e9),
    RATE(device_flops_f32, 4e10, 8e12), RATE(device_flops_f64, 2e10, 4e11),
    RATE(device_bytes, 1e10, 3e11),     RATE(in_bytes, 5e9, 8e9),
    RATE(out_bytes, 5e9, 8e9),          RATE(undo_bytes, 5e9, 2e10),
    RATE(open_seconds, 0.3, 0.3),       RATE(call_seconds, 5e-5, 1e-4),
    RATE(step_seconds, 2e-5, 3e-5),     RATE(overlap, 0, 1),
};

enum {
    RATES = sizeof(rows) / sizeof(rows[0])
};

static double *
field(struct fy_rates *rates, unsigned i)
{
    return (double *)((char *)rates + rows[i].offset);
}

static bool
is_cuda(const char *device)
{
    return strncmp(device, "cuda", 4) == 0 &&
           (device[4] == '\0' || device[4] == ':');
}

/* Rates of this machine's processors, whatever the device is. */
static bool
is_of_cpu(const struct rate_row *row)
{
    return strncmp(row->name, "cpu_", 4) == 0;
}

void
fy_rates_default(const char *device, struct fy_rates *out)
{
    for (unsigned i = 0; i < RATES; i++) {
        *field(out, i) = is_cuda(device) ? rows[i].cuda : rows[i].host;
    }
}

static int
read_line(char *line, locale_t locale, bool cuda, struct fy_rates *rates)
{
    char *comment = strchr(line, '#'), *end;
    size_t length;

    if (comment) {
        *comment = '\0';
    }
    length = strlen(line);
    while (length > 0 && isspace((unsigned char)line[length - 1])) {
        line[--length] = '\0';
    }
    while (isspace((unsigned char)*line)) {
        line++;
    }
    if (!*line) {
        return FY_OK;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        return FY_ERR_INVALID;
    }
    *equals = '\0';
    bool prefixed = strncmp(line, cuda_prefix, strlen(cuda_prefix)) == 0;
    line += prefixed ? strlen(cuda_prefix) : 0;
    for (unsigned i = 0; i < RATES; i++) {
        /* Measurements of the host's device say nothing of a card. */
        if (strcmp(rows[i].name, line) != 0 ||
            prefixed != (cuda && !is_of_cpu(&rows[i]))) {
            continue;
        }
        double value = strtod_l(equals + 1, &end, locale);
        bool share = rows[i].offset == offsetof(struct fy_rates, overlap);
        if (end == equals + 1 || *end || !(value >= 0) ||
            value > (share ? 1 : 1e30)) {
            return FY_ERR_INVALID;
        }
        /* A rate of 0 would divide by it; only `overlap' may be. */
        if (value > 0 || share) {
            *field(rates, i) = value;
        }
        return FY_OK;
    }
    return FY_OK;
}

int
fy_rates_read(const char *path, const char *device, struct fy_rates *rates)
{
    FILE *file = fopen(path, "re");
    /* The host program's locale may have other decimal points. */
    locale_t locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    char line[256];
    int status = FY_OK;

    if (!file || !locale) {
        if (file) {
            (void)fclose(file);
        }
        if (locale) {
            freelocale(locale);
        }
        return FY_ERR_IO;
    }
    while (status == FY_OK && fgets(line, sizeof(line), file)) {
        status = read_line(line, locale, is_cuda(device), rates);
    }
    if (ferror(file)) {
        status = FY_ERR_IO;
    }
    (void)fclose(file);
    freelocale(locale);
    return status;
}

int
fy_rates_write(FILE *to, const char *device, const struct fy_rates *rates)
{
    struct fy_rates copy = *rates;
    bool cuda = is_cuda(device);
    /* Cards are measured in host programs: with their locale, see above. */
    locale_t locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    int status = locale ? FY_OK : FY_ERR_NOMEM;

    if (status) {
        return status;
    }
    locale_t before = uselocale(locale);
    for (unsigned i = 0; status == FY_OK && i < RATES; i++) {
        if (cuda && is_of_cpu(&rows[i])) {
            continue;
        }
        if (fprintf(to, "%s%s=%.6g\n", cuda ? cuda_prefix : "", rows[i].name,
                    *field(&copy, i)) < 0) {
            status = FY_ERR_IO;
        }
    }
    (void)uselocale(before);
    freelocale(locale);
    return status;
}

/* Returns true if the call computes in single precision. */
static bool
is_single(const struct fy_bound *bound)
{
    const struct fy_operand *operands = FY_OF(bound, fy_operand, operands);

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        if (operands[i].element == FY_T_F64 ||
            operands[i].element == FY_T_C64) {
            return false;
        }
    }
    return true;
}

double
fy_cost_original(const struct fy_rates *rates, const struct fy_bound *bound)
{
    double compute = bound->flops / (is_single(bound) ? rates->cpu_flops_f32
                                                      : rates->cpu_flops_f64);
    double memory =
        (double)fy_compulsory_bytes(bound->views, bound->function->noperands) /
        rates->cpu_bytes;
    return compute > memory ? compute : memory;
}

double
fy_cost_kernels(const struct fy_rates *rates, const struct fy_bound *bound)
{
    return bound->flops / (is_single(bound) ? rates->device_flops_f32
                                            : rates->device_flops_f64);
}

/* Bytes that are read and overwritten. */
static double
saved_bytes(const struct fy_bound *bound)
{
    double bytes = 0;

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        const struct fy_view *view = &bound->views[i];
        if (view->naxes > 0 && (view->access & FY_ACCESS_IN) != 0 &&
            (view->access & FY_ACCESS_OUT) != 0) {
            bytes += (double)fy_view_all_elements(view) * view->element_bytes;
        }
    }
    return bytes;
}

double
fy_cost_device(const struct fy_rates *rates, const struct fy_bound *bound,
               const struct fy_traffic *traffic, double touched_bytes,
               double end_bytes)
{
    double in = (double)traffic->bytes_in / rates->in_bytes;
    double out = (double)traffic->bytes_out / rates->out_bytes;
    double compute = fy_cost_kernels(rates, bound);
    double touch = touched_bytes / rates->device_bytes;
    double longest = in;

    if (touch > compute) {
        compute = touch;
    }
    if (out > longest) {
        longest = out;
    }
    if (compute > longest) {
        longest = compute;
    }
    double undo = saved_bytes(bound) / rates->undo_bytes;
    if (undo > longest) {
        longest = undo;
    }
    double all = in + out + compute;
    double fixed = rates->call_seconds +
                   (double)traffic->hashed_bytes / rates->cpu_hash_bytes;
    if (end_bytes > longest * rates->in_bytes) { /* with the cost of steps */
        return fixed + rates->overlap * end_bytes / rates->in_bytes +
               (1 - rates->overlap) * all;
    }
    return fixed + (double)traffic->chunks * rates->step_seconds +
           rates->overlap * longest + (1 - rates->overlap) * all;
}
