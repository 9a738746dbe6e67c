/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a storage host: files of clients' programs, each content once, named by the
 * SHA-256, in $XDG_CACHE_HOME/ferry/store (~/.cache/ferry/store). A file that has the final
 * name is complete. It may be deleted at any time. And the image of a proxy: a
 * folder in which such files stand at the client's paths, a root for the stages that run
 * them. Any thread; a store guards itself.
 */
#ifndef FERRY_PROXY_STORAGE_STORE_H
#define FERRY_PROXY_STORAGE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

struct fy_store;

/*
 * Opens the store below `home' (the user's), new in *out; makes the folder if it is missing.
 * `limit_bytes': kept at most; the files that were used least lately go first.
 * FY_ERR_UNSUPPORTED with `why': another user may write to the folder, or nothing can be
 * executed on the file system. FY_ERR_IO with `why', FY_ERR_NOMEM.
 */
int fy_store_open(const char *home, uint64_t limit_bytes, struct fy_buffer *why,
                  struct fy_store **out) FY_MUST_CHECK;
/* Sets the limit of the contents; the next file makes the oldest go. */
void fy_store_limit(struct fy_store *store, uint64_t bytes);
/* Removes the image. NULL: fine. */
void fy_store_close(struct fy_store *store);

/* Returns true if the content is there; it then counts as used now. */
bool fy_store_has(struct fy_store *store, const unsigned char sha256[32]);
/*
 * Keeps n bytes whose hash must be `sha256': FY_ERR_INVALID, and nothing is kept.
 * FY_ERR_OVERFLOW: larger than the store. FY_ERR_IO with `why': the disk is full, a quota.
 */
int fy_store_put(struct fy_store *store, const unsigned char sha256[32],
                 const void *bytes, size_t n,
                 struct fy_buffer *why) FY_MUST_CHECK;

/* Has the image made in that folder: private, empty, removed by the caller at the end. Before
 * fy_store_image(). */
void fy_store_set_place(struct fy_store *store, const char *folder);
/* Returns true if the image is or will be beneath the folder, without links, where a
 * command that walks this folder would see it. */
bool fy_store_image_is_beneath(const struct fy_store *store, const char *root);
/* The image's folder, made when it is first asked for; owned by the store. NULL: it cannot
 * be made. It has the folders of every root (/proc, /dev, /sys, /tmp). */
const char *fy_store_image(struct fy_store *store);
/*
 * Has the content stand at `path' of the image: absolute, without "." and "..", and not in
 * one of those folders (FY_ERR_INVALID). Another content that stands there already:
 * FY_ERR_BUSY. FY_ERR_NOENT: the content is not in the store. FY_ERR_IO.
 */
int fy_store_show(struct fy_store *store, const char *path,
                  const unsigned char sha256[32]) FY_MUST_CHECK;
/* Makes the folder `path' in the image, with those above it, for a mount. Errors as
 * above. */
int fy_store_make_point(struct fy_store *store, const char *path) FY_MUST_CHECK;

#endif
