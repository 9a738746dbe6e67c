/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's requests, as libfuse's low-level interface hands them over (see
 * fuse_lowlevel.h): one file a group. Each either replies or asks the server, whose
 * answer then replies.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_OPERATIONS_H
#define FERRY_PROXY_FILES_CLIENT_OPERATIONS_H

#include "proxy/files/client/told.h"

/* Each sets the rows of its group. */
void fy_names_operations(struct fuse_lowlevel_ops *rows);
void fy_folders_operations(struct fuse_lowlevel_ops *rows);
void fy_contents_operations(struct fuse_lowlevel_ops *rows);
void fy_attributes_operations(struct fuse_lowlevel_ops *rows);
void fy_locks_operations(struct fuse_lowlevel_ops *rows);

static inline struct fy_client *
fy_client_of(fuse_req_t request)
{
    return (struct fy_client *)fuse_req_userdata(request);
}

static inline struct fy_files_bytes
fy_bytes_of(const char *text)
{
    return (struct fy_files_bytes){text, __builtin_strlen(text)};
}

#endif
