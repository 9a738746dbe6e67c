/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the last login to each host took: one small file a host in the user's cache,
 * which may be deleted at any time. A host with such a file has answered before, so
 * that what only reads is sent to it while ssh logs in. No files where `prefix' (the
 * beginning of their paths) is NULL. Any thread.
 */
#ifndef FERRY_PROXY_CLIENT_LOGINS_H
#define FERRY_PROXY_CLIENT_LOGINS_H

/* Seconds; 0: the host never answered, or its file cannot be used. */
double fy_login_last(const char *prefix, const char *host);
/* A file that cannot be written is left out. */
void fy_login_keep(const char *prefix, const char *host, double seconds);

#endif
