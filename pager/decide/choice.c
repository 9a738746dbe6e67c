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

#include "common/room.h"
#include "pager/device/own_thread.h"

enum {
    RATES_FILE_BYTES = 4096,       /* at most */
    RATES_LAYOUT = 2,              /* of the files: older ones are not read */
    RATES_SECONDS = 7 * 24 * 3600, /* rates that are older are measured again */
    SURPRISES = 16, /* calls in a row, after which a file is not believed */
};
static const double surprise = 3;             /* times as long, or as short; */
static const double least_surprising = 0.001; /* seconds */

static const double open_seconds = 0.3; /* a context, handles, the ring */
static const double card_seconds =
    0.25; /* for all that is measured of a card */

static const struct fy_settings *settings;
static struct fy_rates first, measured;
static const struct fy_rates *rates = &first; /* one of the two */
static bool calibrated; /* by hand, of this kind of device */
static bool is_card;
static bool opened;
static uint64_t missed_ns; /* what calls would have gained, had it been open */
static bool asked;         /* somebody has measured, or is about to */
static char kept[FY_SETTINGS_PATH_BYTES]; /* file of the rates, or "" */
static unsigned surprises;                /* in a row */

/* Logarithms of how far off the model may be, before anything is known: of a card
 * or processors that nobody has measured, else, and where both sides are the same
 * processors. */
static const double unmeasured = 0.7, usual = 0.4, alike = 0.2;

const struct fy_rates *
fy_choice_rates(void)
{
    return __atomic_load_n(&rates, __ATOMIC_ACQUIRE);
}

void
fy_choice_start(const struct fy_settings *given, const char *device)
{
    settings = given;
    is_card = strncmp(device, "cuda", 4) == 0;
    fy_rates_default(device, &first);
    measured = first;
    if (given->calibration[0] && fy_rates_read(given->calibration, device,
                                               &measured) != FY_ERR_INVALID) {
        calibrated = measured.in_bytes != first.in_bytes ||
                     measured.call_seconds != first.call_seconds;
        first = measured;
    }
    measured = first;
}

void
fy_choice_begin(struct fy_choice *choice, const struct fy_bound *bound,
                const void *caller)
{
    choice->key.site = (uint64_t)(uintptr_t)caller;
    choice->key.function = bound->function_index;
    choice->key.size = fy_learn_size(
        bound->flops,
        (double)fy_compulsory_bytes(bound->views, bound->function->noperands));
    choice->advice = (struct fy_advice){{1, 1}, {0, 0}, 1, 0, 0, -1};
    if (!settings->force) {
        bool known = calibrated || fy_choice_rates() != &first;
        double doubt = !is_card ? alike : known ? usual : unmeasured;
        const double prior[FY_SIDES] = {doubt, doubt};
        fy_learn_ask(&choice->key, prior, &choice->advice);
    }
}

/* With the device's seconds, uncorrected. */
static bool
pick(struct fy_choice *choice, const struct fy_bound *bound,
     double device_seconds, struct fy_decision *decision)
{
    const struct fy_advice *advice = &choice->advice;

    choice->model[FY_SIDE_ORIGINAL] =
        fy_cost_original(fy_choice_rates(), bound);
    choice->model[FY_SIDE_DEVICE] = device_seconds;
    decision->original_seconds =
        choice->model[FY_SIDE_ORIGINAL] * advice->factor[FY_SIDE_ORIGINAL];
    decision->device_seconds =
        choice->model[FY_SIDE_DEVICE] * advice->factor[FY_SIDE_DEVICE];
    if (settings->force) {
        return true;
    }
    const double seconds[FY_SIDES] = {decision->original_seconds,
                                      decision->device_seconds};
    fy_learn_pick(advice, seconds, &choice->pick);
    return choice->pick.side == FY_SIDE_DEVICE;
}

bool
fy_choice_pays(struct fy_choice *choice, const struct fy_bound *bound,
               const struct fy_traffic *traffic, double touched_bytes,
               struct fy_decision *decision)
{
    double seconds =
        fy_cost_device(fy_choice_rates(), bound, traffic, touched_bytes);

    if (!settings->force && choice->least_seconds > 0) {
        fy_learn_planned(&choice->key, seconds / choice->least_seconds);
    }
    return pick(choice, bound, seconds, decision);
}

bool
fy_choice_may_pay(struct fy_choice *choice, const struct fy_bound *bound,
                  struct fy_decision *decision)
{
    struct fy_traffic least = {.chunks = 1};

    for (unsigned i = 0; i < bound->function->noperands; i++) {
        uint64_t bytes = fy_view_all_elements(&bound->views[i]) *
                         bound->views[i].element_bytes;
        if (bound->views[i].access & FY_ACCESS_IN) {
            least.bytes_in += bytes;
        }
        if (bound->views[i].access & FY_ACCESS_OUT) {
            least.bytes_out += bytes;
        }
    }
    choice->least_seconds = fy_cost_device(fy_choice_rates(), bound, &least, 0);
    if (!pick(choice, bound, choice->least_seconds * choice->advice.planned,
              decision)) {
        return false;
    }
    if (settings->force || !is_card ||
        __atomic_load_n(&opened, __ATOMIC_RELAXED)) {
        return true;
    }
    if (choice->pick.trial && fy_learn_spend(open_seconds + card_seconds)) {
        return true;
    }
    double gain = decision->original_seconds - decision->device_seconds;
    uint64_t ns = gain > 0 && gain < 1 ? (uint64_t)(gain * 1e9)
                                       : (gain > 0) * UINT64_C(1000000000);
    double sum =
        1e-9 * (double)__atomic_add_fetch(&missed_ns, ns, __ATOMIC_RELAXED);
    if (sum >= open_seconds) {
        return true;
    }
    if (fy_explains()) { /* else no handler waits, see engine/engine.h */
        (void)snprintf(decision->note, sizeof(decision->note),
                       "the device is not open yet, which takes %.2g s; calls "
                       "so far would have gained %.2g s",
                       open_seconds, sum);
    }
    choice->pick.side = FY_SIDE_ORIGINAL;
    choice->pick.trial = false;
    return false;
}

void
fy_choice_opened(void)
{
    __atomic_store_n(&opened, true, __ATOMIC_RELAXED);
}

/* Whether this user owns the file, no other can have written it, and it is recent. */
static bool
is_good(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid() && (status.st_mode & 0022) == 0 &&
           time(NULL) - status.st_mtime < RATES_SECONDS;
}

/* Calls of the device that took something else than the kept rates say: the next
 * process measures anew. */
static void
notice(double expected, double seconds)
{
    bool odd = seconds > surprise * expected || expected > surprise * seconds;

    if (expected < least_surprising && seconds < least_surprising) {
        return;
    }
    if (!odd) {
        __atomic_store_n(&surprises, 0, __ATOMIC_RELAXED);
    } else if (__atomic_add_fetch(&surprises, 1, __ATOMIC_RELAXED) ==
                   SURPRISES &&
               __atomic_load_n(&rates, __ATOMIC_ACQUIRE) != &first && kept[0] &&
               is_good(kept)) {
        (void)unlink(kept);
    }
}

struct fy_tried
fy_choice_ran(const struct fy_choice *choice, double seconds)
{
    struct fy_tried tried = {.function = choice->key.function};

    if (!settings->force) {
        notice(choice->model[FY_SIDE_DEVICE], seconds);
        tried.trial = choice->pick.trial;
        tried.lost_seconds =
            fy_learn_took(&choice->key, &choice->pick,
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
fy_choice_original_ran(double seconds)
{
    struct fy_tried tried = {.function = FY_NIL};
    struct fy_declined *declined = &fy_own_block()->declined;

    if (declined->waiting) {
        declined->waiting = false;
        tried.function = declined->key.function;
        tried.trial = declined->pick.trial;
        tried.lost_seconds = fy_learn_took(&declined->key, &declined->pick,
                                           declined->model, seconds);
    }
    return tried;
}

/* ---- rates ----------------------------------------------------------------------- */

/* The file of this card, driver and ferry; false: there can be none. */
static bool
file_of(struct fy_device *device, char out[FY_SETTINGS_PATH_BYTES])
{
    char identity[64];

    if (!settings->rates[0] || !device->ops->identity ||
        device->ops->identity(device, identity, sizeof(identity))) {
        return false;
    }
    int n = snprintf(out, FY_SETTINGS_PATH_BYTES, "%s-%s-%s-%d",
                     settings->rates, identity, PACKAGE_VERSION, RATES_LAYOUT);
    return n > 0 && n < FY_SETTINGS_PATH_BYTES;
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

bool
fy_choice_is_unmeasured(const struct fy_lease *lease)
{
    return !settings->force && lease->device->ops->resolve &&
           !__atomic_load_n(&asked, __ATOMIC_RELAXED);
}

void
fy_choice_measure(const struct fy_lease *lease, void *gemm)
{
    char path[FY_SETTINGS_PATH_BYTES];
    struct fy_device *device = lease->device;

    if (__atomic_exchange_n(&asked, true, __ATOMIC_RELAXED)) {
        return;
    }
    if (!calibrated) {
        bool named = file_of(device, path);
        (void)snprintf(kept, sizeof(kept), "%s", named ? path : "");
        if (!named || !is_good(path) ||
            fy_rates_read(path, "cuda", &measured)) {
            measured = first;
            if (fy_calibrate_card(lease->executor, device, card_seconds,
                                  &measured)) {
                measured = first;
            } else if (named) {
                keep(path, &measured);
            }
        }
    }
    if (gemm) {
        double flops = fy_calibrate_gemm(gemm);
        measured.cpu_flops_f64 = flops > 0 ? flops : measured.cpu_flops_f64;
        measured.cpu_flops_f32 = flops > 0 ? 2 * flops : measured.cpu_flops_f32;
    }
    __atomic_store_n(&rates, &measured, __ATOMIC_RELEASE);
    fy_learn_forget();
}
