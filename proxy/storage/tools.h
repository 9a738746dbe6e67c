/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a program, a configuration and a locale are the same on both hosts.
 * The client and the sandbox ask; tools.c, configs.c, loaders.c answer.
 */
#ifndef FERRY_PROXY_STORAGE_TOOLS_H
#define FERRY_PROXY_STORAGE_TOOLS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/buffer.h"
#include "common/status.h"

/*
 * "build-id:HEX" of an ELF file that has one, else "sha256:HEX" of its bytes;
 * "/libraries:HEX" of what the dynamic linker loads with it, found as
 * `library_path' (LD_LIBRARY_PATH, of absolute folders; NULL: none) says; for a
 * script also its interpreter's, joined by '+'. `loads_paths': see fy_needs_find().
 * Cached by inode, size and times of all of that. FY_ERR_IO, FY_ERR_OVERFLOW;
 * FY_ERR_UNSUPPORTED: see needs.h. Any thread.
 */
int fy_tool_identity_with(const char *path, const char *library_path,
                          bool loads_paths, char *out,
                          size_t capacity) FY_MUST_CHECK;
/* Without a search path. */
int fy_tool_identity(const char *path, char *out,
                     size_t capacity) FY_MUST_CHECK;

/* Whether NAME=VALUE may make programs load other code. LD_LIBRARY_PATH is left
 * to fy_tool_identity_with(): a stage runs without it. */
bool fy_loads_code(const char *entry);

/*
 * SHA-256 of a file of at most 1 MiB, and another hash of at most 16 MiB; all zero
 * when there is none. Of a folder:
 * of its names, their types and its time of change in seconds, so that both
 * hosts can see whether they mean the same folder. FY_ERR_IO, FY_ERR_OVERFLOW.
 */
int fy_config_hash(const char *path, unsigned char out[32]) FY_MUST_CHECK;
/* A file's time of status change, ns: tells a folder from copies, with the inode. */
uint64_t fy_config_changed(const struct stat *about);
/* The same; of a program: its identity, with what it loads. */
int fy_config_hash_with(const char *path, const char *library_path,
                        unsigned char out[32]) FY_MUST_CHECK;

/*
 * Whether every locale that the environment (NAME=VALUE, NULL-terminated)
 * chooses exists on this host; both sides ask: a program falls back to "C"
 * silently. `encoded': its words were read as bytes (struct fy_invocation), so that
 * the locale's characters must be single bytes or UTF-8: in others a byte of ASCII
 * may be the second one of a character. `why' names the one that does not fit.
 */
bool fy_locales_fit(const char *const *environment, bool encoded,
                    struct fy_buffer *why);

/* Returns true if this host has messages in that language: LANGUAGE, or a locale's name.
 * Any thread. */
bool fy_has_translations(const char *language);

/* Hashes the bytes of an open file, which fstat(2) describes; remembered like an
 * identity. FY_ERR_IO, FY_ERR_NOMEM. Any thread. */
int fy_tool_hash(int fd, const struct stat *about,
                 unsigned char out[32]) FY_MUST_CHECK;

/* Returns the oldest Linux that an open ELF file runs on, by the GNU ABI tag: 65536 major + 256
 * minor + patch; 0: unknown. Any thread. */
uint32_t fy_tool_kernel(int fd, const struct stat *about);

/* Where a program that is installed below another prefix than /usr looks for a file of
 * /etc: PREFIX/etc/x for PREFIX/bin/program. False: nowhere else. */
bool fy_tool_own_settings(const char *program, const char *path,
                          char out[PATH_MAX]);

/* Whether a program's file says that it reads `path', a file of /etc: as it is, or as
 * etc/x below its own prefix. False: it may have been built to read another. */
bool fy_tool_names_settings(const char *program, const char *path);

#endif
