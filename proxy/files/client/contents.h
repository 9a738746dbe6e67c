/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents on their way to the server. Of thread T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_CONTENTS_H
#define FERRY_PROXY_FILES_CLIENT_CONTENTS_H

#include "proxy/files/client/client.h"

/* One of the node's writes was answered: calls that wait for the last of them go on. The
 * node is held by the caller; its file may go. */
void fy_contents_written(struct fy_client *client, struct fy_node *node);

#endif
