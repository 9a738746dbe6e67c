/* SPDX-License-Identifier: Apache-2.0
 *
 * FAKECUDA_MODEL: a card simulated in time (clock.h). Three engines, copies in,
 * copies out and kernels, each one operation at a time in the order in which they
 * could begin. Nothing large is copied or computed. Inside of the fake
 * libcuda.so.1, but for what core.h has for the libraries.
 */
#ifndef FERRY_TESTS_FAKECUDA_MODEL_H
#define FERRY_TESTS_FAKECUDA_MODEL_H

#include "tests/fakecuda/core.h"

enum fake_engine {
    FAKE_COMPUTE,
    FAKE_IN,
    FAKE_OUT,
    FAKE_ENGINES
};

/* What an operation takes of the card; 0 ns: nothing. */
struct fake_cost {
    enum fake_engine engine;
    uint64_t ns;
    bool real; /* it is small, and done as well */
};

/* One row of the table of cards. */
struct fake_card {
    const char *name, *title, *source;
    uint64_t memory_bytes;
    int processors, major, minor;
    double flops_f64, flops_f32; /* of products, as the data sheet has them */
    double memory_rate;          /* bytes a second */
    double link_rate;            /* each way, of page-locked memory */
    double pageable_rate;        /* that the driver copies itself */
};

/* The card that FAKECUDA_MODEL names; NULL: none is named. Ends in an error of
 * cuInit() and a line on stderr where there is no such card, or no clock. */
const struct fake_card *fake_card(void);
bool fake_card_is_wrong(void);

/* The next operation that this thread submits is a copy of rows to or from the
 * host, or within the device. */
void fake_copy_next(bool from_host, bool to_host, bool pageable, size_t bytes,
                    size_t rows);
/* The cost of the operation that is submitted now. */
struct fake_cost fake_cost_take(void);

/* Waits until the engine has had the operation. */
void fake_engine_run(const struct fake_cost *cost);

/* The first call of a name takes its time, and memory for good; false: there is no
 * room. */
bool fake_call_first(const char *name);
/* Time of a call of the host, once it is over. */
void fake_call_cost(const char *name);
/* Says in the log how long each engine was busy. */
void fake_engines_report(void);
/* Time to page-lock host memory, or to register the program's. */
void fake_pin_cost(size_t bytes, bool registers);

#endif
