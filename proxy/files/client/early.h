/* SPDX-License-Identifier: Apache-2.0 */
/*
 * -o async: files that are open before the server has made them. Of thread T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_EARLY_H
#define FERRY_PROXY_FILES_CLIENT_EARLY_H

#include "proxy/files/client/client.h"

/*
 * Asks for the file of that MAKE in the folder, if it is known that the name is free. The
 * node, held for the caller, has a file with a write on its way until the answer. NULL:
 * the answer has to be waited for, and nothing was asked.
 */
struct fy_node *fy_early_make(struct fy_client *client, struct fy_node *folder,
                              struct fy_files_message *message);

#endif
