/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders listed by the server: into the tree. One listing of a folder is on its way at
 * a time; all who need it wait for that one.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_LIST_H
#define FERRY_PROXY_FILES_CLIENT_LIST_H

#include "proxy/files/client/client.h"

/*
 * Asks for the folder. `done' (may be NULL) is called with 0 or a negative errno once all
 * of it is in the tree; request is NULL if its caller has ended.
 */
void fy_list_ask(struct fy_client *client, struct fy_node *folder,
                 fuse_req_t request, void *context,
                 void (*done)(struct fy_client *client, struct fy_node *folder,
                              fuse_req_t request, void *context, int status));
/* Lists the folder and those below it ahead of a reader: up to `bytes' of answers for
 * those below, or (`some') for all; entries below `name' (may be empty) come first. */
void fy_list_tree(struct fy_client *client, struct fy_node *folder,
                  struct fy_files_bytes name, uint64_t bytes, bool some);

#endif
