/* SPDX-License-Identifier: Apache-2.0 */
/* Locks that an end of use releases, or the end of the process at the storage. */
#ifndef FERRY_PROXY_FILES_CLIENT_LOCKS_H
#define FERRY_PROXY_FILES_CLIENT_LOCKS_H

#include "proxy/files/client/file.h"

/* A descriptor was closed (flush): its process's record locks are given back, before the
 * request (may be NULL) is answered: EIO if they had been lost. False: there are none, and
 * the request was not answered. */
bool fy_locks_flush(struct fy_client *client, struct fy_node *node,
                    fuse_req_t request, const struct fuse_file_info *info);
/* The last descriptor of an open file was closed. */
void fy_locks_closed(struct fy_client *client, struct fy_node *node,
                     const struct fuse_file_info *info);
/* The process that held them has ended: their owners' next unlock or close fails, EIO. */
void fy_locks_lost(struct fy_client *client);

#endif
