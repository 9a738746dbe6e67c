/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which folders and files ferry believes. The owner of a folder can
 * exchange everything in it, and the owner of a link chooses its target, so
 * each folder and link on the way counts: root or this user (the effective
 * one) owns it, and no other user can rename its entries (others cannot write,
 * or it is sticky). In a user namespace that root is not mapped into
 * (containers of HPC sites) owners that are not mapped count as root, because
 * Linux does not tell them apart.
 */
#ifndef FERRY_COMMON_TRUST_H
#define FERRY_COMMON_TRUST_H

#include <limits.h>
#include <stdbool.h>

#include "common/status.h"

/*
 * Checks that only root and this user can exchange the folder at an absolute
 * path. `make': creates the folder and those above if they are missing (mode
 * 0700), in trusted folders only. 0: `out' is the path without links, which
 * goes on naming that folder because only its owner and root can change this.
 * FY_ERR_INVALID: `out' is the first folder or link that is not trusted.
 * FY_ERR_IO: the folder cannot be opened or made, errno says why, `out' is "".
 * Any thread.
 */
int fy_trusted_folder(const char *path, bool make,
                      char out[PATH_MAX]) FY_MUST_CHECK;

/* A trusted folder that is this user's own, and that no others can write to;
 * results as above. */
int fy_private_folder(const char *path, bool make,
                      char out[PATH_MAX]) FY_MUST_CHECK;

/*
 * Opens a file for reading that only root and this user can change or exchange, and
 * no group. The descriptor, or FY_ERR_INVALID, FY_ERR_IO (errno says why).
 */
int fy_trusted_open(const char *path) FY_MUST_CHECK;

#endif
