/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of new files while they are written; see the header.
 */
#include "config.h"

#include "proxy/files/client/shadow.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHADOW_BYTES = 1 << 20,      /* a larger file has no copy */
    ALL_SHADOW_BYTES = 32 << 20, /* of all copies */
};

void
fy_shadow_begin(struct fy_node *node)
{
    struct fy_file *file = node->file;
    if (file && !file->shadow && file->pending == 0 && node->attr.ino != 0 &&
        node->attr.size == 0 && S_ISREG(node->attr.mode)) {
        file->shadow = malloc(1);
        file->shadow_bytes = 0;
    }
}

void
fy_shadow_drop(struct fy_client *client, struct fy_file *file)
{
    if (file && file->shadow) {
        client->shadow_bytes -= file->shadow_bytes;
        free(file->shadow);
        file->shadow = NULL;
    }
}

void
fy_shadow_write(struct fy_client *client, struct fy_node *node, uint64_t offset,
                const char *bytes, size_t n)
{
    struct fy_file *file = node->file;
    if (!file->shadow) {
        return;
    }
    uint64_t end = offset + n;
    uint64_t more = end > file->shadow_bytes ? end - file->shadow_bytes : 0;
    char *larger = NULL;
    if (offset <= SHADOW_BYTES && end <= SHADOW_BYTES &&
        client->shadow_bytes + more <= ALL_SHADOW_BYTES) {
        larger = more ? realloc(file->shadow, end) : file->shadow;
    }
    if (!larger) {
        fy_shadow_drop(client, file);
        return;
    }
    file->shadow = larger;
    memset(larger + file->shadow_bytes, 0, more);
    memcpy(larger + offset, bytes, n);
    file->shadow_bytes += more;
    client->shadow_bytes += more;
}

bool
fy_shadow_counts(const struct fy_node *node, struct fy_files_bytes *out)
{
    const struct fy_file *file = S_ISREG(node->attr.mode) ? node->file : NULL;
    if (!file || !file->shadow || file->pending == 0 || file->lockers ||
        file->doubt || file->error != 0) {
        return false;
    }
    *out = (struct fy_files_bytes){file->shadow, file->shadow_bytes};
    return true;
}

bool
fy_shadow_whole(const struct fy_node *node, struct fy_files_bytes *out)
{
    const struct fy_file *file = node->file;
    if (!file || !file->shadow || file->writers > 0 || file->pending > 0 ||
        file->lockers || file->doubt || file->error != 0 ||
        file->shadow_bytes != node->attr.size) {
        return false;
    }
    *out = (struct fy_files_bytes){file->shadow, file->shadow_bytes};
    return true;
}
