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
    RATES_LAYOUT = 3,              /* of the files: older ones are not read */
    RATES_SECONDS = 7 * 24 * 3600, /* rates that are older are measured again */
    SURPRISES = 16, /* calls in a row, after which a file is not believed */
};
static const double surprise = 3;             /* times as long, or as short; */
static const double least_surprising = 0.001; /* seconds */

static const double open_seconds = 0.3; /* a context, handles, the ring */
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
    struct fy_traffic least =
        fy_least_traffic(bound->views, bound->function->noperands);

    least.bytes_in -= resident->kept_bytes < least.bytes_in
                          ? resident->kept_bytes
                          : least.bytes_in;
    least.hashed_bytes = resident->hashed_bytes;
    choice->least_seconds =
        fy_cost_device(fy_choice_rates(chooser), bound, &least, 0, 0);
    if (!pick(chooser, choice, bound,
              choice->least_seconds * choice->advice.planned, decision)) {
        return false;
    }
    if (chooser->force || !chooser->is_card ||
        __atomic_load_n(&chooser->opened, __ATOMIC_RELAXED)) {
        return true;
    }
    if (choice->pick.trial &&
        fy_learn_spend(&chooser->learned, open_seconds + card_seconds)) {
        return true;
    }
    double gain = decision->original_seconds - decision->device_seconds;
    uint64_t ns = gain > 0 && gain < 1 ? (uint64_t)(gain * 1e9)
                                       : (gain > 0) * UINT64_C(1000000000);
    double sum = 1e-9 * (double)__atomic_add_fetch(&chooser->missed_ns, ns,
                                                   __ATOMIC_RELAXED);
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
fy_choice_opened(struct fy_chooser *chooser)
{
    __atomic_store_n(&chooser->opened, true, __ATOMIC_RELAXED);
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

struct fy_tried
fy_choice_ran(struct fy_chooser *chooser, const struct fy_choice *choice,
              double seconds)
{
    struct fy_tried tried = {.function = choice->key.function};

    if (!chooser->force) {
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
            if (fy_calibrate_card(lease->executor, device, card_seconds,
                                  &chooser->measured)) {
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
