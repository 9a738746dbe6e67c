/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder in which a proxy keeps its stages' temporary files. A proxy holds a lock
 * (flock) on its folder. One without a lock belongs to a proxy that was killed: the
 * next proxy removes it, or the client that started the proxy on this machine.
 */
#ifndef FERRY_PROXY_WIRE_TEMPORARY_H
#define FERRY_PROXY_WIRE_TEMPORARY_H

#include <limits.h>
#include <stdbool.h>

#include "common/status.h"

/* Makes and locks a folder, after fy_temporary_clean(): its descriptor and path;
 * -1: none can be had, `path' is "". */
int fy_temporary_start(char path[PATH_MAX]) FY_MUST_CHECK;
/* Removes a folder and all below it, on its file system. */
void fy_temporary_remove(const char *path);
/* Removes this user's folders that no process has locked. False: one is not empty yet,
 * for processes of its proxy are ending. */
bool fy_temporary_clean(void);

#endif
