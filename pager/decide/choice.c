/* SPDX-License-Identifier: Apache-2.0 */
/* See choice.h. */
#include "config.h"

#include "pager/base/explain.h"
#include "pager/decide/choice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/room.h"
#include "pager/device/own_thread.h"

enum {
    RATES_FILE_BYTES = 4096,       /* at most */
    RATES_LAYOUT = 3,              /* of the files: older ones are not read */
    RATES_SECONDS = 7 * 24 * 3600, /* rates that are older are measured again */
    SETTLED_CALLS = 15,
    SETTLED_TIMES = 4,
    SURPRISES = 16, /* calls in a row, after which a file is not believed */
};
static const double surprise = 3;             /* times as long, or as short; */
static const double least_surprising = 0.001; /* seconds */

/* A decision is no part worth saving of longer calls. */
static const double settled_seconds = 1e-4;
static const double card_seconds =
    0.25; /* for all that is measured of a card */

/* Logarithms of how far off the model may be, before anything is known: of a card
 * or processors that nobody has measured, else, and where both sides are the same
 * processors. */
static const double unmeasured = 0.7, usual = 0.4, alike = 0.2;

const struct fy_rates *
fy_choice_rates(const struct fy_chooser *chooser)
{
    return __atomic_load_n(&chooser->rates, __ATOMIC_ACQUIRE);
}

/* Returns true if this user owns the file, no other can have written it, and
 * it is recent. */
static bool
is_good(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid() && (status.st_mode & 0022) == 0 &&
           time(NULL) - status.st_mtime < RATES_SECONDS;
}

/* Complete or not there: written under another name, then renamed. */
static void
keep(const char *path, const struct fy_rates *of)
{
    char temporary[FY_SETTINGS_PATH_BYTES + 32];

    if (!fy_may_write(RATES_FILE_BYTES)) {
        return;
    }
    (void)snprintf(temporary, sizeof(temporary), "%s.%ld", path,
                   (long)getpid());
    FILE *file = fopen(temporary, "wxe");
    if (!file) {
        return;
    }
    int status = fy_rates_write(file, "cuda", of);
    if (fclose(file) != 0 || status || rename(temporary, path) != 0) {
        unlink(temporary);
    }
}

/* The file with the time that the last opening took; false: there can be none. */
static bool
opening_file(const struct fy_settings *settings,
             char out[FY_SETTINGS_PATH_BYTES])
{
    int n = settings->rates[0]
                ? snprintf(out, FY_SETTINGS_PATH_BYTES, "%s-opening-%s-%d",
                           settings->rates, PACKAGE_VERSION, RATES_LAYOUT)
                : 0;

    return n > 0 && n < FY_SETTINGS_PATH_BYTES;
}

void
fy_choice_start(struct fy_chooser *chooser, const struct fy_settings *given,
                const char *device)
{
    chooser->settings = given;
    chooser->force = given->force;
    fy_learn_start(&chooser->learned);
    chooser->is_card = strncmp(device, "cuda", 4) == 0;
    chooser->rates = &chooser->first;
    fy_rates_default(device, &chooser->first);
    struct fy_rates last = chooser->first;
    char path[FY_SETTINGS_PATH_BYTES];
    if (chooser->is_card && opening_file(given, path) && is_good(path) &&
        fy_rates_read(path, "cuda", &last) == FY_OK) {
        chooser->first.open_seconds = last.open_seconds;
    }
    chooser->measured = chooser->first;
    if (given->calibration[0] &&
        fy_rates_read(given->calibration, device, &chooser->measured) !=
            FY_ERR_INVALID) {
        chooser->calibrated =
            chooser->measured.in_bytes != chooser->first.in_bytes ||
            chooser->measured.call_seconds != chooser->first.call_seconds;
        chooser->first = chooser->measured;
    }
    chooser->measured = chooser->first;
}

void
fy_choice_begin(struct fy_chooser *chooser, struct fy_choice *choice,
                const struct fy_bound *bound, const void *caller)
{
    choice->key.site = (uint64_t)(uintptr_t)caller;
    choice->key.function = bound->function_index;
    choice->key.size = fy_learn_size(
        bound->flops,
        (double)fy_compulsory_bytes(bound->views, bound->function->noperands));
    choice->advice = (struct fy_advice){{1, 1}, {0, 0}, 1, 0, 0, -1};
    if (!chooser->force) {
        bool known =
            chooser->calibrated || fy_choice_rates(chooser) != &chooser->first;
        double doubt = !chooser->is_card ? alike : known ? usual : unmeasured;
        const double prior[FY_SIDES] = {doubt, doubt};
        fy_learn_ask(&chooser->learned, &choice->key, prior, &choice->advice);
    }
}

/* With the device's seconds, uncorrected. */
static bool
pick(struct fy_chooser *chooser, struct fy_choice *choice,
     const struct fy_bound *bound, double device_seconds,
     struct fy_decision *decision)
{
    const struct fy_advice *advice = &choice->advice;

    choice->model[FY_SIDE_ORIGINAL] =
        fy_cost_original(fy_choice_rates(chooser), bound);
    choice->model[FY_SIDE_DEVICE] = device_seconds;
    decision->original_seconds =
        choice->model[FY_SIDE_ORIGINAL] * advice->factor[FY_SIDE_ORIGINAL];
    decision->device_seconds =
        choice->model[FY_SIDE_DEVICE] * advice->factor[FY_SIDE_DEVICE];
    if (chooser->force) {
        return true;
    }
    const double seconds[FY_SIDES] = {decision->original_seconds,
                                      decision->device_seconds};
    fy_learn_pick(&chooser->learned, advice, seconds, &choice->pick);
    return choice->pick.side == FY_SIDE_DEVICE;
}

bool
fy_choice_pays(struct fy_chooser *chooser, struct fy_choice *choice,
               const struct fy_bound *bound, const struct fy_traffic *traffic,
               double touched_bytes, double end_bytes,
               struct fy_decision *decision)
{
    double seconds = fy_cost_device(fy_choice_rates(chooser), bound, traffic,
                                    touched_bytes, end_bytes);

    if (!chooser->force && choice->least_seconds > 0) {
        fy_learn_planned(&chooser->learned, &choice->key,
                         seconds / choice->least_seconds);
    }
    return pick(chooser, choice, bound, seconds, decision);
}

bool
fy_choice_may_pay(struct fy_chooser *chooser, struct fy_choice *choice,
                  const struct fy_bound *bound,
                  const struct fy_memory_guess *resident,
                  struct fy_decision *decision)
{
    const struct fy_rates *rates = fy_choice_rates(chooser);
    struct fy_traffic least =
        fy_least_traffic(bound->views, bound->function->noperands);

    least.bytes_in -= resident->kept_bytes < least.bytes_in
                          ? resident->kept_bytes
                          : least.bytes_in;
    least.hashed_bytes = resident->hashed_bytes;
    choice->least_seconds = fy_cost_device(rates, bound, &least, 0, 0);
    if (!pick(chooser, choice, bound,
              choice->least_seconds * choice->advice.planned, decision)) {
        return false;
    }
    if (chooser->force || !chooser->is_card ||
        __atomic_load_n(&chooser->opened, __ATOMIC_RELAXED)) {
        return true;
    }
    if (choice->pick.trial &&
        fy_learn_spend(&chooser->learned, rates->open_seconds + card_seconds)) {
        return true;
    }
    double gain = decision->original_seconds - decision->device_seconds;
    uint64_t ns = gain > 0 && gain < 1 ? (uint64_t)(gain * 1e9)
                                       : (gain > 0) * UINT64_C(1000000000);
    double sum = 1e-9 * (double)__atomic_add_fetch(&chooser->missed_ns, ns,
                                                   __ATOMIC_RELAXED);
    if (sum >= rates->open_seconds) {
        return true;
    }
    if (fy_explains()) { /* else no handler waits, see engine/engine.h */
        (void)snprintf(decision->note, sizeof(decision->note),
                       "the device is not open yet, which takes %.2g s; calls "
                       "so far would have gained %.2g s",
                       rates->open_seconds, sum);
    }
    choice->pick.side = FY_SIDE_ORIGINAL;
    choice->pick.trial = false;
    return false;
}

uint64_t
fy_choice_shape(const struct fy_intercepted *call, const struct fy_model *model,
                unsigned bits)
{
    const struct fy_function *function =
        &FY_TABLE(model, fy_function, functions)[call->function];
    struct fy_value cells[FY_MAX_CELLS];
    uint64_t shape = 1;

    if (fy_bind_cells(model, call->function, bits, call->registers, false,
                      cells) != FY_REASON_NONE) {
        return 0;
    }
    for (unsigned i = 0; i < function->ncells; i++) {
        if (cells[i].kind == FY_V_INT) {
            shape =
                (shape ^ (uint64_t)cells[i].i) * UINT64_C(0x9e3779b97f4a7c15);
            shape ^= shape >> 29;
        }
    }
    return shape == 0 ? 1 : shape;
}

static struct fy_settled *
settled(const struct fy_intercepted *call)
{
    const uint64_t site = (uint64_t)(uintptr_t)call->caller;

    return &fy_own_block()->settled[(site ^ site >> 4) % FY_SETTLED];
}

bool
fy_choice_is_settled(const struct fy_intercepted *call, uint64_t shape)
{
    struct fy_settled *row = settled(call);
    bool is = row->left > 0 && row->shape == shape &&
              row->site == (uint64_t)(uintptr_t)call->caller &&
              row->function == call->function;

    row->left -= is ? 1 : 0;
    return is;
}

void
fy_choice_settle(const struct fy_choice *choice,
                 const struct fy_intercepted *call, uint64_t shape)
{
    const struct fy_advice *advice = &choice->advice;
    const double original =
        choice->model[FY_SIDE_ORIGINAL] * advice->factor[FY_SIDE_ORIGINAL];
    const double device =
        choice->model[FY_SIDE_DEVICE] * advice->factor[FY_SIDE_DEVICE];

    if (shape != 0 && original < settled_seconds &&
        device > SETTLED_TIMES * original) {
        *settled(call) =
            (struct fy_settled){(uint64_t)(uintptr_t)call->caller, shape,
                                call->function, SETTLED_CALLS};
    }
}

static void
add_opening(struct fy_chooser *chooser, double seconds)
{
    (void)__atomic_add_fetch(&chooser->opening_ns,
                             seconds > 0 ? (uint64_t)(seconds * 1e9) : 0,
                             __ATOMIC_RELAXED);
}

void
fy_choice_opened(struct fy_chooser *chooser, double seconds)
{
    if (!__atomic_exchange_n(&chooser->opened, true, __ATOMIC_RELAXED)) {
        add_opening(chooser, seconds);
    }
}

/* Calls of the device that took something else than the kept rates say: the next
 * process measures anew. */
static void
notice(struct fy_chooser *chooser, double expected, double seconds)
{
    bool odd = seconds > surprise * expected || expected > surprise * seconds;

    if (expected < least_surprising && seconds < least_surprising) {
        return;
    }
    if (!odd) {
        __atomic_store_n(&chooser->surprises, 0, __ATOMIC_RELAXED);
    } else if (__atomic_add_fetch(&chooser->surprises, 1, __ATOMIC_RELAXED) ==
                   SURPRISES &&
               __atomic_load_n(&chooser->rates, __ATOMIC_ACQUIRE) !=
                   &chooser->first &&
               chooser->kept[0] && is_good(chooser->kept)) {
        (void)unlink(chooser->kept);
    }
}

/* The first call on a card sets up what its libraries need: that is a part of the opening,
 * which the next process knows. */
static void
learn_opening(struct fy_chooser *chooser, double expected, double seconds)
{
    const uint64_t ns = __atomic_load_n(&chooser->opening_ns, __ATOMIC_RELAXED);
    char path[FY_SETTINGS_PATH_BYTES];

    if (ns == 0 ||
        __atomic_exchange_n(&chooser->has_run, true, __ATOMIC_RELAXED)) {
        return;
    }
    struct fy_rates rates = *fy_choice_rates(chooser);
    rates.open_seconds = 1e-9 * (double)ns;
    if (seconds > expected &&
        !__atomic_load_n(&chooser->has_measured, __ATOMIC_RELAXED)) {
        rates.open_seconds += seconds - expected;
    }
    if (opening_file(chooser->settings, path)) {
        keep(path, &rates);
    }
}

struct fy_tried
fy_choice_ran(struct fy_chooser *chooser, const struct fy_choice *choice,
              double seconds)
{
    struct fy_tried tried = {.function = choice->key.function};

    if (!chooser->force) {
        learn_opening(chooser, choice->model[FY_SIDE_DEVICE], seconds);
        notice(chooser, choice->model[FY_SIDE_DEVICE], seconds);
        tried.trial = choice->pick.trial;
        tried.lost_seconds =
            fy_learn_took(&chooser->learned, &choice->key, &choice->pick,
                          choice->model[FY_SIDE_DEVICE], seconds);
    }
    return tried;
}

void
fy_choice_declined(const struct fy_choice *choice)
{
    fy_own_block()->declined = (struct fy_declined){
        choice->key, choice->pick, choice->model[FY_SIDE_ORIGINAL], true};
}

struct fy_tried
fy_choice_original_ran(struct fy_chooser *chooser, double seconds)
{
    struct fy_tried tried = {.function = FY_NIL};
    struct fy_declined *declined = &fy_own_block()->declined;

    if (declined->waiting) {
        declined->waiting = false;
        tried.function = declined->key.function;
        tried.trial = declined->pick.trial;
        tried.lost_seconds =
            fy_learn_took(&chooser->learned, &declined->key, &declined->pick,
                          declined->model, seconds);
    }
    return tried;
}

/* ---- rates ----------------------------------------------------------------------- */

/* The file of this card, driver and ferry; false: there can be none. */
static bool
file_of(const struct fy_chooser *chooser, struct fy_device *device,
        char out[FY_SETTINGS_PATH_BYTES])
{
    char identity[64];

    if (!chooser->settings->rates[0] || !device->ops->identity ||
        device->ops->identity(device, identity, sizeof(identity))) {
        return false;
    }
    int n = snprintf(out, FY_SETTINGS_PATH_BYTES, "%s-%s-%s-%d",
                     chooser->settings->rates, identity, PACKAGE_VERSION,
                     RATES_LAYOUT);
    return n > 0 && n < FY_SETTINGS_PATH_BYTES;
}

bool
fy_choice_is_unmeasured(const struct fy_chooser *chooser,
                        const struct fy_lease *lease)
{
    return !chooser->force && lease->device->ops->resolve &&
           !__atomic_load_n(&chooser->asked, __ATOMIC_RELAXED);
}

void
fy_choice_measure(struct fy_chooser *chooser, const struct fy_lease *lease,
                  void *gemm)
{
    char path[FY_SETTINGS_PATH_BYTES];
    struct fy_device *device = lease->device;

    if (__atomic_exchange_n(&chooser->asked, true, __ATOMIC_RELAXED)) {
        return;
    }
    if (!chooser->calibrated) {
        bool named = file_of(chooser, device, path);
        (void)snprintf(chooser->kept, sizeof(chooser->kept), "%s",
                       named ? path : "");
        if (!named || !is_good(path) ||
            fy_rates_read(path, "cuda", &chooser->measured)) {
            chooser->measured = chooser->first;
            double start = fy_clock_seconds();
            int status = fy_calibrate_card(lease->executor, device,
                                           card_seconds, &chooser->measured);
            double longer = fy_clock_seconds() - start - card_seconds;
            add_opening(chooser, longer);
            __atomic_store_n(&chooser->has_measured, true, __ATOMIC_RELAXED);
            if (status) {
                chooser->measured = chooser->first;
            } else if (named) {
                keep(path, &chooser->measured);
            }
        }
    }
    if (gemm) {
        double flops = fy_calibrate_gemm(gemm);
        chooser->measured.cpu_flops_f64 =
            flops > 0 ? flops : chooser->measured.cpu_flops_f64;
        chooser->measured.cpu_flops_f32 =
            flops > 0 ? 2 * flops : chooser->measured.cpu_flops_f32;
    }
    __atomic_store_n(&chooser->rates, &chooser->measured, __ATOMIC_RELEASE);
    fy_learn_forget(&chooser->learned);
}
