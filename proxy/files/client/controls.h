/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the client: the control socket (control.h). Of thread T1. */
#ifndef FERRY_PROXY_FILES_CLIENT_CONTROLS_H
#define FERRY_PROXY_FILES_CLIENT_CONTROLS_H

#include "proxy/files/client/client.h"

/* Listens at options->control, if there is one. FY_ERR_IO, FY_ERR_NOMEM. */
int fy_control_open(struct fy_client *client) FY_MUST_CHECK;
/* After each turn of the loop: answers barriers that are reached. */
void fy_control_turn(struct fy_client *client);
/* Closes all, which tells those who wait that the mount has ended; removes the socket. */
void fy_control_close(struct fy_client *client);

#endif
