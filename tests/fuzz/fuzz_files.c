/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of `ferry mount' (proxy/files/message.c) that nobody would send: each is refused
 * or says the same again, and its rows are read to their end.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/files/message.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "frames of ferry mount are refused or say the same";
const char *const fuzz_words[] = {
    "\x01\x00\x00\x00", "\xff\xff\xff\xff\xff\xff\xff\x7f", "../", "/", NULL};

/* What the rows of an answer or a request borrow lies within its data. */
static void
read_rows(const struct fy_files_message *message)
{
    struct fy_files_bytes data = message->data;
    const char *end = data.at + data.n;
    struct fy_files_entry entry = {.attr.ino = 0};
    struct fy_files_node node;
    uint64_t number;
    while (fy_files_entry_take(&data, &entry)) {
        MUST(entry.name.n > 0 && !memchr(entry.name.at, '/', entry.name.n));
        MUST(entry.target.at + entry.target.n <= end);
    }
    data = message->data;
    while (fy_files_node_take(&data, &node)) {
        MUST(node.path.n == 0 || node.path.at[0] != '/');
        MUST(node.kept == 0 || node.path.n == 0);
    }
    data = message->data;
    while (fy_files_number_take(&data, &number)) {
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char text[128];
    struct fy_buffer why;
    struct fy_files_message message;
    struct fy_files_out again = {.n = 0};
    size_t used;
    fy_buffer_start(&why, text, sizeof text);
    int status = fy_files_decode(bytes, n, &message, &used, &why);
    MUST(status == 0 || status == FY_ERR_BUSY || status == FY_ERR_INVALID);
    if (status == FY_ERR_BUSY) {
        MUST(used > n);
    }
    if (status == 0) {
        fuzz_taken++;
        MUST(used <= n);
        read_rows(&message);
        MUST(fy_files_encode(&message, &again) == 0);
        MUST(again.n == used && memcmp(again.bytes, bytes, used) == 0);
        fy_files_out_free(&again);
    }
    return 0;
}

void
fuzz_make_seeds(void)
{
    struct fy_files_out rows = {.n = 0};
    const struct fy_files_entry entry = {.name = {"n", 1}, .target = {"t", 1}};
    const struct fy_files_node node = {.ino = 3, .path = {"a/b", 3}};
    for (unsigned i = 0; i < 2 * FY_FILES_TYPES; i++) {
        struct fy_files_out out = {.n = 0};
        struct fy_files_message message = {
            .type = (enum fy_files_type)(i / 2),
            .frame_flags = i % 2 ? FY_FILES_ANSWER : 0,
            .id = fy_files_type_fields(i / 2, true, NULL),
            .node = node,
            .name = {"name", 4},
            .other_name = {"other", 5},
            .length = 4096};
        rows.n = 0;
        if ((i % 4 < 2 ? fy_files_entry_put(&entry, &rows)
                       : fy_files_node_put(&node, &rows)) == 0) {
            message.data = (struct fy_files_bytes){rows.bytes, rows.n};
        }
        if (fy_files_encode(&message, &out) == 0) {
            fuzz_seed(out.bytes, out.n);
        }
        fy_files_out_free(&out);
    }
    fy_files_out_free(&rows);
}
