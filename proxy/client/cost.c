/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost model of stages, see the header. Constants are of the rig in
 * tests/pipeline and only matter where nothing was measured.
 */
#include "config.h"

#include "proxy/client/cost.h"

static const double default_rtt = 0.5e-3;
static const double default_bandwidth = 115e6; /* of 1 Gbit/s, in bytes/s */
static const double copy_rate = 2e9;           /* `work 1', bytes/s */
static const double start_there = 3e-3;        /* fork, sandbox and exec */
static const double trips_a_stage = 1.5;
static const double trips_an_effect = 4;
static const double trips_for_input = 1; /* after the answer */
static const double trips_a_file = 3; /* look-up, open, read; close is async */
static const double trips_an_open_file = 1; /* the first read */
static const double margin_seconds = 5e-3;  /* ... */
static const double margin_share = 0.25;    /* at most, of what it takes here */
static const double margin_factor = 1.1;

/* Output for each byte of input. */
static double
output_ratio(const struct fy_invocation *invocation)
{
    switch (invocation->output) {
    case FY_OUTPUT_NOTHING:
        return 0;
    case FY_OUTPUT_FILTERS:
        return 0.1;
    case FY_OUTPUT_GROWS:
        return 4;
    default:
        return 1;
    }
}

static double
expected_output(const struct fy_invocation *invocation,
                const struct fy_cost_input *input)
{
    double bytes = (double)input->remote_bytes + (double)input->local_bytes;
    if (invocation->output == FY_OUTPUT_NAMES) {
        return 60.0 * (double)input->remote_files;
    }
    return bytes * output_ratio(invocation);
}

static double
expected_work(const struct fy_invocation *invocation,
              const struct fy_cost_input *input)
{
    double bytes = (double)input->remote_bytes + (double)input->local_bytes;
    double weight = invocation->work > 0 ? invocation->work : 1;
    return bytes * weight / copy_rate;
}

void
fy_cost_predict(const struct fy_invocation *invocation,
                const struct fy_cost_input *input,
                const struct fy_cost_host *host, struct fy_cost *out)
{
    double rtt = host->rtt_seconds > 0 ? host->rtt_seconds : default_rtt;
    double bandwidth =
        host->bytes_a_second > 0 ? host->bytes_a_second : default_bandwidth;
    double work = expected_work(invocation, input);
    double output = expected_output(invocation, input);
    uint64_t opened = input->opened_files < input->remote_files
                          ? input->opened_files
                          : input->remote_files;
    out->here_seconds =
        (double)(input->remote_files - opened) * trips_a_file * rtt +
        (double)opened * trips_an_open_file * rtt +
        (double)input->remote_bytes / bandwidth +
        (host->here_load > 1 ? host->here_load : 1) * work +
        (double)input->stored_files * trips_a_file * rtt +
        (double)input->stored_bytes / bandwidth;
    double trips = (input->effect ? trips_an_effect : trips_a_stage) +
                   (input->local_bytes > 0 ? trips_for_input : 0);
    out->there_seconds = host->login_seconds + trips * rtt + start_there +
                         (double)input->local_bytes / bandwidth +
                         /* Beyond one process a core, each gets its share. */
                         work * (host->load > 1 ? host->load : 1);
    if (input->output_stays) {
        out->here_seconds += output / bandwidth;
    } else {
        out->there_seconds += output / bandwidth;
    }
}

bool
fy_cost_pays(const struct fy_cost_input *input, const struct fy_cost *cost)
{
    if (input->known && input->local_bytes > 0 && input->stored_bytes == 0) {
        return cost->there_seconds <= cost->here_seconds;
    }
    double margin = margin_share * cost->here_seconds;
    margin = margin < margin_seconds ? margin : margin_seconds;
    return !input->known ||
           cost->there_seconds <= margin_factor * cost->here_seconds + margin;
}

bool
fy_cost_needs_sizes(const struct fy_invocation *invocation,
                    const struct fy_cost_input *input,
                    const struct fy_cost_host *host)
{
    struct fy_cost least;
    struct fy_cost_input nothing = *input;
    nothing.known = true;
    fy_cost_predict(invocation, &nothing, host, &least);
    /* Were all of them empty, it would run here. */
    if (input->local_bytes > 0 ||
        (input->remote_files > 0 && !fy_cost_pays(&nothing, &least))) {
        return true;
    }
    if (input->output_stays) {
        return false;
    }
    return invocation->output == FY_OUTPUT_GROWS;
}

bool
fy_cost_worth_sending(const struct fy_cost *cost, double bytes,
                      double bytes_a_second)
{
    static const double usual = 12500000; /* of a link that was not measured */
    double rate = bytes_a_second > 0 ? bytes_a_second : usual;
    return bytes == 0 || cost->here_seconds <= 0 ||
           bytes / rate < cost->here_seconds - cost->there_seconds;
}
