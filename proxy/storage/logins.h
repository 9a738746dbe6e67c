/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of each host, as how long the last login took: one small file in the user's cache,
 * which may be deleted at any time. A host with such a file has answered before, so
 * that commands which only read are sent to it while ssh logs in. No files where `prefix' (the
 * beginning of their paths) is NULL. Any thread.
 */
#ifndef FERRY_PROXY_STORAGE_LOGINS_H
#define FERRY_PROXY_STORAGE_LOGINS_H

#include <stdbool.h>

struct fy_mount;

/* Seconds; 0: the host never answered, or its file cannot be used. */
double fy_login_last(const char *prefix, const char *host);
/* A file that cannot be written is left out. */
void fy_login_keep(const char *prefix, const char *host, double seconds);

/*
 * Returns true if the folder of a mount of sshfs was proved since its process began: an sftp
 * server leads to the same folders as long as it lives. False if that process is not known.
 */
bool fy_proof_known(const char *prefix, const struct fy_mount *mount);
/* Keeps in a file that it was proved; a file that cannot be written is left out. */
void fy_proof_keep(const char *prefix, const struct fy_mount *mount);

/*
 * Programs of this host that the storage host has, too, or has all files of in the store.
 * Rows that turned out wrong are forgotten.
 */
enum fy_tool_place {
    FY_TOOL_UNKNOWN,
    FY_TOOL_SAME,
    FY_TOOL_CARRIED,
};
enum {
    FY_TOOLS_MAX = 512,
};
struct fy_tools_known {
    struct fy_tool_row {
        char digest[16]; /* of an identity, in hexadecimal */
        char place;      /* enum fy_tool_place */
    } rows[FY_TOOLS_MAX];
    unsigned n;
};

/* Empty where nothing is known. */
void fy_tools_load(const char *prefix, const char *host,
                   struct fy_tools_known *out);
/* Returns the place of the program with that identity, or of the closure with that key. */
enum fy_tool_place fy_tools_find(const struct fy_tools_known *known,
                                 const char *identity);
/* Also in the file; FY_TOOL_UNKNOWN: forgets it. */
void fy_tools_keep(const char *prefix, const char *host,
                   struct fy_tools_known *known, const char *identity,
                   enum fy_tool_place place);

#endif
