/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a stage would end sooner: predicted seconds at the proxy and here.
 * Arithmetic only; any thread.
 *
 *   here   files * round trips + input that is there / bandwidth
 *          + work * load of this machine
 *          + what it stores there
 *   there  round trips + start + input that is here / bandwidth
 *          + work * load / speed of that host + output that goes here / bandwidth
 *
 * Work is the annotation's weight times the time that a plain copy takes.
 */
#ifndef FERRY_PROXY_CLIENT_COST_H
#define FERRY_PROXY_CLIENT_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "annotations/commands/command.h"

struct fy_cost_host {
    double rtt_seconds;    /* 0: unknown */
    double bytes_a_second; /* of the link; 0: unknown */
    double load;           /* running processes a core; 0: idle */
    double here_load;      /* the same of this machine */
    double login_seconds;  /* until it can be asked; 0: now */
};

struct fy_cost_input {
    uint64_t remote_bytes; /* bytes of its input on the storage host */
    uint64_t remote_files;
    uint64_t opened_files; /* of these: the shell's `<' has opened them */
    uint64_t local_bytes;  /* bytes of its input here */
    uint64_t stored_bytes; /* written there, apart from its output */
    uint64_t stored_files;
    bool known;        /* the two above; false: nothing is known */
    bool output_stays; /* its output is read or stored there */
    bool effect;       /* its changes have to be told, and shown here */
};

struct fy_cost {
    double there_seconds, here_seconds;
};

void fy_cost_predict(const struct fy_invocation *invocation,
                     const struct fy_cost_input *input,
                     const struct fy_cost_host *host, struct fy_cost *out);

/*
 * Whether it should run there: always when nothing is known; else unless the
 * prediction is clearly worse (by a tenth and by more than it is uncertain by).
 * What only filters data of here, or has next to nothing to do, has to be better.
 */
bool fy_cost_pays(const struct fy_cost_input *input,
                  const struct fy_cost *cost);

/*
 * Returns true if a stage on the storage host gains more than sending `bytes' of a program
 * takes first; `bytes_a_second': of the link, 0: unknown. A stage without a prediction
 * (0 seconds) is worth the bytes.
 */
bool fy_cost_worth_sending(const struct fy_cost *cost, double bytes,
                           double bytes_a_second);

/* Whether sizes could change the answer at all: if not, none need be asked for.
 * `input' has no bytes, and as many files as are named. */
bool fy_cost_needs_sizes(const struct fy_invocation *invocation,
                         const struct fy_cost_input *input,
                         const struct fy_cost_host *host);

#endif
