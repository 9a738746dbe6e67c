/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of mounts.c and sshfs.c: what a running sshfs tells of how its host is
 * reached.
 */
#ifndef FERRY_PROXY_MOUNTS_H
#define FERRY_PROXY_MOUNTS_H

#include <stdbool.h>

#include "proxy/transport.h"
#include "proxy/transports.h"

/*
 * Adds the port, options, configuration and command of the sshfs process that
 * serves `point' to mount->place. False when the mount shows files otherwise
 * than their host does (links followed, names recoded, no ssh at all).
 */
bool fy_sshfs_learn(const char *point, const char *source, const char *proc,
                    struct fy_mount *mount);

#endif
