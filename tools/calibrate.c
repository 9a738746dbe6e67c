/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry calibrate: measures this machine and keeps the rates in the cache.
 */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "tools/tool.h"
