/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders asked for before they are needed, and names that a command was given. Thread T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_WALKS_H
#define FERRY_PROXY_FILES_CLIENT_WALKS_H

#include "proxy/files/client/client.h"

/* A folder is read (`whole': from the tree): a walk may be seen by it. Folders that
 * come next are asked for. */
void fy_walks_listed(struct fy_client *client, struct fy_node *folder,
                     bool whole);
/* The folder's entries will be needed soon, it is thought. */
void fy_walks_wanted(struct fy_client *client, struct fy_node *folder,
                     struct fy_files_bytes name);
/* Returns true if the folder is being listed, or a tree above. */
bool fy_walks_coming(const struct fy_node *folder);
/* A name of the folder has to be asked for: others of it and of those that come next may
 * follow. */
void fy_walks_missed(struct fy_client *client, struct fy_node *folder,
                     struct fy_files_bytes name);
/* The folder behind `at' in a walk of the tree, where one without subfolders leads on
 * to its next neighbour; NULL: the end. */
struct fy_node *fy_walks_following(const struct fy_client *client,
                                   struct fy_node *at);

/* ---- foreseen.c ---- */

/*
 * A command begins. `line' is the request (control.h), `block' the n bytes behind it, of
 * another process: a folder and words, each with a NUL behind. False: no such request.
 */
bool fy_foreseen_take(struct fy_client *client, const char *line,
                      const char *block, size_t n);
/* A listing has ended: names that waited for it may be known. */
void fy_foreseen_go_on(struct fy_client *client);
void fy_foreseen_close(struct fy_client *client);

#endif
