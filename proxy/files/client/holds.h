/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are open here go on when others remove their last name, or give it to
 * another file: the server holds files that are open for longer than a moment. Of thread
 * T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_HOLDS_H
#define FERRY_PROXY_FILES_CLIENT_HOLDS_H

#include "proxy/files/client/client.h"

/* The node's file was opened. */
void fy_hold_begin(struct fy_client *client, struct fy_node *node);
/* It was closed, or its last write was answered: it need not be held any more, if it is
 * found by a name. */
void fy_hold_end(struct fy_client *client, struct fy_node *node);
/* Returns a number under which the server is to keep the file of a name that goes; 0: another
 * name is known, or the kernel does not know the file. */
uint64_t fy_hold_number(struct fy_client *client, const struct fy_name *name);
/* The node has lost the last known name; the server holds it under that number. */
void fy_hold_kept(struct fy_client *client, struct fy_node *node,
                  uint64_t kept);
/* Another process serves, which holds nothing. */
void fy_holds_lost(struct fy_client *client);

void fy_holds_start(struct fy_client *client);
void fy_holds_close(struct fy_client *client);

#endif
