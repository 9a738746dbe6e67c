/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose folders and files ferry believes. The owner of a folder can exchange all
 * that is in it, and the owner of a link chooses where it leads, so each folder and link
 * on the way counts: root or this user (the effective one) owns it, and no other user can
 * rename what is in a folder (others cannot write, or it is sticky). In a user namespace
 * that root is not mapped into
 * (containers of HPC sites) owners that are not mapped count as root: Linux does
 * not tell them apart there.
 */
#ifndef FERRY_COMMON_TRUST_H
#define FERRY_COMMON_TRUST_H

#include <limits.h>
#include <stdbool.h>

#include "common/status.h"

/*
 * Whether only root and this user can change what the folder's absolute path
 * names. `make': it and the folders above are made when they are missing (mode
 * 0700), in folders that pass only. 0: `out' is the path without links, which
 * keeps naming that folder, for its owner and root alone can change this.
 * FY_ERR_INVALID: `out' is the first folder or link that does not pass. FY_ERR_IO: it
 * cannot be had, errno says why, `out' is "". Any thread.
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
