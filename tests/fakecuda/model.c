/* SPDX-License-Identifier: Apache-2.0 */
/* See model.h. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/clock.h"
#include "tests/fakecuda/machine.h"
#include "tests/fakecuda/model.h"

#define GIB ((uint64_t)1 << 30)

/* Rates are those of data sheets; what a program gets of them is below. */
static const struct fake_card cards[] = {
    {"h100-sxm", "NVIDIA H100 80GB HBM3 (simulated)",
     "NVIDIA H100 Tensor Core GPU data sheet: SXM, FP64 tensor core and FP32 "
     "67 "
     "TFLOPS, 3.35 TB/s, PCIe Gen5 128 GB/s",
     80 * GIB, 132, 9, 0, 67e12, 67e12, 3.35e12, 64e9, 13e9},
    {"h200", "NVIDIA H200 (simulated)",
     "NVIDIA H200 Tensor Core GPU data sheet: SXM, FP64 tensor core and FP32 "
     "67 "
     "TFLOPS, 141 GB, 4.8 TB/s, PCIe Gen5 128 GB/s",
     (uint64_t)139 * GIB, 132, 9, 0, 67e12, 67e12, 4.8e12, 64e9, 13e9},
    {"l4", "NVIDIA L4 (simulated)",
     "NVIDIA L4 Tensor Core GPU data sheet: FP32 30.3 TFLOPS, 24 GB, 300 GB/s, "
     "PCIe Gen4 x16 64 GB/s; FP64 1/64 of FP32 (Ada architecture whitepaper)",
     24 * GIB, 58, 8, 9, 0.473e12, 30.3e12, 300e9, 32e9, 10e9},
    {"rtx4060-8g", "NVIDIA GeForce RTX 4060 (simulated)",
     "NVIDIA Ada GPU architecture whitepaper and product page: 3072 cores at "
     "2.46 "
     "GHz, 15.1 TFLOPS FP32, FP64 1/64 of that, 8 GB, 272 GB/s, PCIe Gen4 x8",
     8 * GIB, 24, 8, 9, 0.236e12, 15.1e12, 272e9, 16e9, 8e9},
};

/* What programs get: the H200 of bench/RESULTS.md gave 58 of 67 TFLOPS, 55 of 64
 * GB/s one way, and 48.6 each way at once. */
static const double of_products = 0.87, of_link = 0.86, of_both_ways = 0.884,
                    of_memory = 0.9;

enum {
    TILE = 128,          /* of C that a processor computes at once */
    KERNEL_NS = 4000,    /* from one kernel to the next of a stream */
    COPY_NS = 5000,      /* as a copy begins */
    ROW_NS = 4,          /* for a row of a rectangle more */
    SMALL_BYTES = 4096,  /* copies up to here are made as well */
    GIB_PINNED_MS = 500, /* cuMemHostAlloc of 512 MiB took 503 ms: halved, since
                             slots are allocated by several threads */
    GIB_REGISTER_MS = 60, /* both calls: 6 GiB took 0.35 s on an H200 */
};

/* What calls of the host take in microseconds, each one and the first, and MiB of
 * the card that stay taken: the context, the libraries, and kernels that are loaded
 * when they are called first. By the beginning of the name; the last row is for all
 * others. Estimates, which together are near what an H200 took before its first
 * result (0.74 s, of which ferry's measurement is 0.25). */
static const struct {
    const char *name;
    double each_us, first_us;
    unsigned first_mib;
} calls[] = {
    {"cuInit", 0, 60000, 0},
    {"cuDevicePrimaryCtxRetain", 0, 120000, 500},
    {"cublasCreate", 3000, 90000, 64},
    {"cusolverDnCreate", 3000, 60000, 32},
    {"cublasSet", 0.05, 0, 0},
    {"cublasGet", 0.05, 0, 0},
    {"cublas", 4, 15000, 8},
    {"cusolverDn", 6, 15000, 8},
    {"cufftExec", 5, 10000, 8},
    {"cufft", 50, 20000, 0},
    {"cuLaunchKernel", 3, 0, 0},
    {"cuModuleLoad", 200, 0, 2},
    {"cuMemcpy", 1.5, 0, 0},
    {"cuMemset", 2, 0, 0},
    {"cuMemCreate", 60, 0, 0},
    {"cuMemRelease", 30, 0, 0},
    {"cuMemMap", 10, 0, 0},
    {"cuMemUnmap", 30, 0, 0},
    {"cuMemSetAccess", 50, 0, 0},
    {"cuMemAlloc", 100, 0, 0},
    {"cuMemFree", 100, 0, 0},
    {"cuStreamCreate", 10, 0, 0},
    {"cuEventRecord", 0.7, 0, 0},
    {"cuEventQuery", 0.5, 0, 0},
    {"cuEventSynchronize", 5, 0, 0},
    {"cuStreamSynchronize", 5, 0, 0},
    {"cuStreamWaitEvent", 0.7, 0, 0},
    {"", 0.2, 0, 0},
};

static struct {
    pthread_once_t once;
    const struct fake_card *card;
    bool wrong;
    pthread_mutex_t lock;
    uint64_t free_at[FAKE_ENGINES], busy_ns[FAKE_ENGINES];
} model = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static __thread struct fake_cost next;

static void
find_card(void)
{
    const char *name = getenv("FAKECUDA_MODEL");
    if (name == NULL || *name == '\0') {
        return;
    }
    for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        if (strcmp(cards[i].name, name) == 0) {
            model.card = &cards[i];
        }
    }
    if (model.card == NULL) {
        (void)fprintf(stderr, "fakecuda: FAKECUDA_MODEL=%s: no such card;",
                      name);
        for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
            (void)fprintf(stderr, " %s", cards[i].name);
        }
        (void)fprintf(stderr, "\n");
    } else if (fakeclock_is_on == NULL) {
        (void)fprintf(stderr,
                      "fakecuda: FAKECUDA_MODEL needs libfakeclock.so in "
                      "LD_PRELOAD\n");
        model.card = NULL;
    }
    model.wrong = model.card == NULL;
}

const struct fake_card *
fake_card(void)
{
    (void)pthread_once(&model.once, find_card);
    return model.card;
}

bool
fake_card_is_wrong(void)
{
    (void)fake_card();
    return model.wrong;
}

bool
fakecuda_is_modelled(void)
{
    return fake_card() != NULL;
}

static uint64_t
ns_of(double seconds)
{
    return (uint64_t)(seconds * 1e9 + 0.5);
}

static struct fake_cost
copy_cost(bool from_host, bool to_host, bool pageable, size_t bytes,
          size_t rows)
{
    const struct fake_card *card = fake_card();
    struct fake_cost cost = {FAKE_COMPUTE, 0, bytes <= SMALL_BYTES};
    if (card == NULL) {
        return cost;
    }
    double rate = card->memory_rate * of_memory / 2;
    if (from_host != to_host) {
        cost.engine = from_host ? FAKE_IN : FAKE_OUT;
        rate = pageable ? card->pageable_rate : card->link_rate * of_link;
    }
    cost.ns = ns_of((double)bytes / rate) + COPY_NS + ROW_NS * (rows - 1);
    return cost;
}

/* The next operation that this thread submits is a kernel. */
void
fakecuda_kernel(const struct fake_kernel *kernel)
{
    const struct fake_card *card = fake_card();
    if (card == NULL) {
        return;
    }
    double rate =
        (kernel->single ? card->flops_f32 : card->flops_f64) * of_products;
    double seconds = kernel->flops / rate;
    /* A wave of tiles takes as long as a whole one, however few are left. */
    if (kernel->rows > 0) {
        double tiles = (double)((kernel->rows + TILE - 1) / TILE) *
                       (double)((kernel->columns + TILE - 1) / TILE);
        double whole = (double)kernel->rows * (double)kernel->columns /
                       ((double)TILE * TILE);
        double waves = tiles / card->processors;
        if (waves > 1) {
            waves = (double)(uint64_t)(waves + 0.999999);
        }
        seconds *= waves * card->processors / whole;
    }
    double memory = (double)kernel->bytes / (card->memory_rate * of_memory);
    seconds = seconds > memory ? seconds : memory;
    next = (struct fake_cost){
        FAKE_COMPUTE, ns_of(seconds + kernel->serial_us * 1e-6) + KERNEL_NS,
        kernel->run};
}

void
fake_copy_next(bool from_host, bool to_host, bool pageable, size_t bytes,
               size_t rows)
{
    next = copy_cost(from_host, to_host, pageable, bytes, rows);
}

struct fake_cost
fake_cost_take(void)
{
    struct fake_cost cost = next;
    if (cost.ns == 0 || fake_card() == NULL) {
        return (struct fake_cost){FAKE_COMPUTE,
                                  fake_card() == NULL ? 0 : KERNEL_NS, true};
    }
    next.ns = 0;
    return cost;
}

void
fake_engine_run(const struct fake_cost *cost)
{
    (void)pthread_mutex_lock(&model.lock);
    uint64_t now = fakeclock_now(), ns = cost->ns;
    uint64_t start = model.free_at[cost->engine];
    enum fake_engine other = cost->engine == FAKE_IN ? FAKE_OUT : FAKE_IN;
    start = start > now ? start : now;
    if (cost->engine != FAKE_COMPUTE && model.free_at[other] > start) {
        /* Both ways at once, as far as the other one goes. */
        double both = (double)(model.free_at[other] - start);
        double slow = (double)ns / of_both_ways;
        double late = (double)ns + both * (1 - of_both_ways);
        ns = (uint64_t)(slow < both ? slow : late);
    }
    model.free_at[cost->engine] = start + ns;
    model.busy_ns[cost->engine] += ns;
    (void)pthread_mutex_unlock(&model.lock);
    fakeclock_sleep_until(start + ns);
}

static size_t
row_of(const char *name)
{
    size_t i = 0;
    while (strncmp(name, calls[i].name, strlen(calls[i].name)) != 0) {
        i++;
    }
    return i;
}

bool
fake_call_first(const char *name)
{
    const struct fake_context *context = fake_current();
    size_t i = row_of(name), bytes = (size_t)calls[i].first_mib << 20;
    fakeclock_sleep(ns_of(calls[i].first_us * 1e-6));
    (void)pthread_mutex_lock(&machine.lock);
    bool taken = bytes == 0 ||
                 fake_bytes_take(context == NULL ? 0 : context->device, bytes);
    (void)pthread_mutex_unlock(&machine.lock);
    return taken;
}

void
fake_call_cost(const char *name)
{
    fakeclock_sleep(ns_of(calls[row_of(name)].each_us * 1e-6));
}

void
fake_engines_report(void)
{
    if (fake_card() != NULL) {
        fakecuda_note("busy", "kernels %.6f s, copies in %.6f s, out %.6f s",
                      (double)model.busy_ns[FAKE_COMPUTE] * 1e-9,
                      (double)model.busy_ns[FAKE_IN] * 1e-9,
                      (double)model.busy_ns[FAKE_OUT] * 1e-9);
    }
}

/* Page-locking: of slots, or of the program's memory. */
void
fake_pin_cost(size_t bytes, bool registers)
{
    double ms = registers ? GIB_REGISTER_MS : GIB_PINNED_MS;
    if (fake_card() != NULL) {
        fakeclock_sleep(ns_of((double)bytes / (double)GIB * ms * 1e-3));
    }
}
