/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A folder of its own for each test, and copies of a small library in it that
 * nothing has loaded. Needs tests/unit/constructor.la. For Check's fixtures.
 */
#ifndef FERRY_TESTS_UNIT_FOLDER_H
#define FERRY_TESTS_UNIT_FOLDER_H

extern char folder_root[64];

void folder_setup(void);
void folder_teardown(void);
/* folder_root/below, with the folders that lead to it; valid until the next. */
const char *folder_place(const char *below);
/* A copy of the file `from' at folder_root/below. */
void folder_copy(const char *from, const char *below);
/* A copy of the library at folder_root/below. */
void folder_put(const char *below);

#endif
