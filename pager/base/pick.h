/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which side a call runs. Written in decide/learn.c; every thread keeps that of
 * its last declined call (device/own_thread.h).
 */
#ifndef FERRY_PAGER_BASE_PICK_H
#define FERRY_PAGER_BASE_PICK_H

#include <stdbool.h>
#include <stdint.h>

enum fy_side {
    FY_SIDE_ORIGINAL,
    FY_SIDE_DEVICE,
    FY_SIDES
};

/* Whose calls are alike. */
struct fy_learn_key {
    uint64_t site;     /* the return address */
    uint32_t function; /* row of the variant */
    uint32_t size;     /* fy_learn_size() */
};

/* A choice of the original that stands for some calls more of a site and shape. */
struct fy_settled {
    uint64_t site, shape;
    uint32_t function, left;
};

/* The choice of a call's side. */
struct fy_pick {
    enum fy_side side;
    bool trial;               /* it seems the slower one */
    double expected, instead; /* corrected seconds, of the other side, too */
};

#endif
