/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured rates from a file (pager/decide/cost.h): `ferry calibrate' writes it, the user
 * may, and each process of a run reads it. A rate that is read can be divided by;
 * what is written is read back as the same.
 */
#include "config.h"

#include <math.h>

#include "pager/decide/cost.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "rates that are read can be computed with";
const char *const fuzz_words[] = {
    "=1e400", "=nan",    "=inf",          "=-1",     "=0",   "=0x1p9", "#",
    "cuda_",  "overlap", "cpu_flops_f64", "=1e-320", "\r\n", NULL};

static void
judge(const struct fy_rates *rates)
{
    const double *each = (const double *)rates;
    for (size_t i = 0; i < sizeof *rates / sizeof *each; i++) {
        bool share = each + i == &rates->overlap;
        MUST(isfinite(each[i]) && each[i] >= 0 && (share || each[i] > 0));
    }
    MUST(rates->overlap <= 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char *const devices[] = {"host", "cuda"};
    for (unsigned i = 0; i < 2; i++) {
        struct fy_rates rates, again;
        char *text = NULL;
        size_t size;
        fy_rates_default(devices[i], &rates);
        fy_rates_default(devices[i], &again);
        int status =
            fy_rates_read(fuzz_file("rates", bytes, n), devices[i], &rates);
        MUST(status == 0 || status == FY_ERR_INVALID);
        judge(&rates);
        if (status) {
            continue;
        }
        fuzz_taken++;
        FILE *to = open_memstream(&text, &size);
        MUST(to && fy_rates_write(to, devices[i], &rates) == 0 &&
             fclose(to) == 0);
        MUST(
            !fy_rates_read(fuzz_file("again", text, size), devices[i], &again));
        judge(&again);
        free(text);
    }
    return 0;
}

void
fuzz_make_seeds(void)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *device = i ? "cuda" : "host";
        struct fy_rates rates;
        char *text = NULL;
        size_t size;
        fy_rates_default(device, &rates);
        FILE *to = open_memstream(&text, &size);
        MUST(to && fy_rates_write(to, device, &rates) == 0 && fclose(to) == 0);
        fuzz_seed(text, size);
        free(text);
    }
    FUZZ_SEED("# by hand\n overlap = 0.5\ncpu_flops_f64=1e9\nunknown=x\n");
}
