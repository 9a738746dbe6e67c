/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of lines that several processes append to: the decisions of --explain, the
 * findings of ferry verify, the debug log. Each line is opened for, written whole by
 * one write(2), and closed: a descriptor that stays open would be in the program's
 * way, which may close it and open a file by its number.
 */
#ifndef FERRY_COMMON_LINES_H
#define FERRY_COMMON_LINES_H

#include <stddef.h>

/*
 * Appends `bytes' bytes at `text', which end in a newline, to the file `path', which
 * is made (mode 0600) where it is missing. 0, or a negative error number; the line is
 * then lost. Refused are files that are not regular or not of this process's user, and
 * a file that would grow beyond RLIMIT_FSIZE, which would earn the process a signal.
 * Any thread, signal handlers, forked and vforked children; no allocation, no lock, no
 * point of cancellation. errno is kept.
 */
int fy_lines_append(const char *path, const char *text, size_t bytes);

#endif
