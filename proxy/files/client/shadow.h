/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of new files while they are written: an assembler reads back between writes, and
 * would wait for each. A copy counts only while writes are on their way, is kept for a reader
 * when the file is closed (ahead.c), and goes when
 * anyone else may have written, a write fails or a lock is held. Thread T1 alone.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_SHADOW_H
#define FERRY_PROXY_FILES_CLIENT_SHADOW_H

#include "proxy/files/client/file.h"

/* Begins a copy of the file, which is empty at the storage. */
void fy_shadow_begin(struct fy_node *node);
/* Adds a write to the copy, if there is a copy. */
void fy_shadow_write(struct fy_client *client, struct fy_node *node,
                     uint64_t offset, const char *bytes, size_t n);
/* Returns true if the copy counts: all `*out' bytes of the file. */
bool fy_shadow_counts(const struct fy_node *node, struct fy_files_bytes *out);
/* Returns true if no write is on its way, and the copy is the file: all `*out' bytes. */
bool fy_shadow_whole(const struct fy_node *node, struct fy_files_bytes *out);
/* Frees the copy; file may be null. */
void fy_shadow_drop(struct fy_client *client, struct fy_file *file);

#endif
