/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read(2) and write(2) until all is done. Interrupted calls are repeated;
 * descriptors block, or a full or empty one is an error. Any thread, any process.
 */
#ifndef FERRY_COMMON_WHOLE_H
#define FERRY_COMMON_WHOLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Exactly n bytes. FY_ERR_IO: an error, or fewer before the end. */
int fy_read_whole(int fd, void *to, size_t n) FY_MUST_CHECK;
/* Reads exactly n bytes from the offset `at' by pread(2). FY_ERR_IO: an
 * error, or fewer before the end. */
int fy_read_whole_at(int fd, uint64_t at, void *to, size_t n) FY_MUST_CHECK;
/* Exactly n bytes. FY_ERR_IO, with errno unless write(2) took none; some may be
 * written then. A broken pipe raises SIGPIPE. */
int fy_write_whole(int fd, const void *from, size_t n) FY_MUST_CHECK;

/* Reads to the end, at most n bytes; *out_n of them. FY_ERR_IO. */
int fy_read_most(int fd, void *to, size_t n, size_t *out_n) FY_MUST_CHECK;

/* A whole file. Returns new, NUL-terminated, or NULL with errno set: EFBIG
 * beyond the limit. */
char *fy_read_file(const char *path, size_t limit_bytes, size_t *out_bytes);
/* Reads a whole open file and closes it. Returns new text, or NULL, as
 * fy_read_file(). */
char *fy_read_open(int fd, size_t limit_bytes, size_t *out_bytes);

#endif
