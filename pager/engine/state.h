/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that the engine keeps between two calls: each room's part is a
 * structure of that room's header. engine.c has the state of the process and
 * hands each room its part; large parts are mapped (base/lasting.h). Outside
 * of it are only singletons of the process that no call is handed (README.md,
 * "State").
 */
#ifndef FERRY_PAGER_ENGINE_STATE_H
#define FERRY_PAGER_ENGINE_STATE_H

#include "common/settings.h"
#include "pager/bind/provider.h"
#include "pager/decide/choice.h"
#include "pager/engine/engine.h"
#include "pager/execute/pool.h"
#include "pager/memory/memory.h"
#include "pager/verify/run_verify.h"
#include "pager/verify/verify.h"

struct fy_state {
    const struct fy_shim_services *services;
    const struct fy_settings *settings;
    const struct fy_device_ops *ops; /* NULL: no device */
    struct fy_verifier *verifier;    /* ferry verify: nothing is offloaded */
    unsigned char *without_kernel;   /* of functions; NULL: all are tried */
    unsigned device_errors;          /* since a call succeeded */
    struct fy_checks checks;         /* ferry run --verify */
    struct fy_memory memory;         /* objects with mirrors */
    struct fy_pool pool;             /* the device and its executors */
    struct fy_chooser chooser;       /* which side a call runs on */
    struct fy_providers providers;   /* how wide INTEGER is, by original */
};

#endif
