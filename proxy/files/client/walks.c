/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders that are asked for before they are needed: those that come next in a walk, with
 * those below them, and those whose names are asked for one by one.
 */
#include "config.h"

#include "proxy/files/client/walks.h"

#include "proxy/files/client/list.h"
#include "proxy/files/client/told.h"

enum {
    TREE_BYTES = 64 << 10, /* of the folders below one that is asked ahead */
    SOME_BYTES = 64 << 10, /* of one that may not be needed, and those below */
    SOME_MAX = 1 << 20,
    TREES_FIRST = 4,
    TREES_MAX = 256,  /* on their way at once */
    STEPS_MAX = 4096, /* of looking for the next ones */
};

/* The next folder of a walk in the folders' order; NULL: the end. */
static struct fy_node *
next_folder(const struct fy_client *client, struct fy_node *at, bool down)
{
    const struct fy_name *name = down ? at->folder->first : NULL;
    while (at && !name && at != client->tree.root) {
        name = at->names ? at->names->sibling : NULL;
        at = at->names ? at->names->folder : NULL;
        while (name && !fy_node_is_folder(name->node)) {
            name = name->sibling;
        }
    }
    while (name && !fy_node_is_folder(name->node)) {
        name = name->sibling;
    }
    return name ? name->node : NULL;
}

struct fy_node *
fy_walks_following(const struct fy_client *client, struct fy_node *at)
{
    struct fy_node *next = next_folder(client, at, true);
    return next ? next : next_folder(client, at, false);
}

void
fy_walks_listed(struct fy_client *client, struct fy_node *folder, bool whole)
{
    struct fy_walk *walk = &client->tree.walk;
    const struct fy_node *parent = folder->names ? folder->names->folder : NULL;
    if (!parent || !fy_told_is_whole(client, parent)) {
        return;
    }
    const struct fy_node *last = fy_tree_node(&client->tree, walk->walked);
    bool row = last && (last == parent ||
                        (last->names && last->names->folder == parent));
    unsigned more = walk->trees ? walk->trees * 2 : TREES_FIRST;
    walk->walked = fy_node_number(folder);
    if (!row && !parent->folder->shown) {
        return; /* no walk, as far as is seen */
    }
    if (row && whole && walk->credit > 0) {
        walk->credit--;
        return;
    }
    walk->trees = !row ? TREES_FIRST : more < TREES_MAX ? more : TREES_MAX;
    walk->credit = walk->trees / 4;
    struct fy_node *at = folder;
    unsigned steps = 0;
    for (unsigned n = 0; n < walk->trees && steps < STEPS_MAX; steps++) {
        at = fy_walks_following(client, at);
        if (!at) {
            break;
        }
        if (!fy_told_is_whole(client, at) && !at->folder->listing) {
            fy_list_tree(client, at, (struct fy_files_bytes){"", 0}, TREE_BYTES,
                         false);
            n++;
        }
    }
}

bool
fy_walks_coming(const struct fy_node *folder)
{
    if (folder->folder->listing) {
        return true;
    }
    while (folder && !folder->folder->coming) {
        folder = folder->names ? folder->names->folder : NULL;
    }
    return folder != NULL;
}

void
fy_walks_wanted(struct fy_client *client, struct fy_node *folder,
                struct fy_files_bytes name)
{
    uint64_t bytes = (uint64_t)SOME_BYTES * (folder->folder->misses + 1u);
    if (!fy_walks_coming(folder) && !fy_told_is_whole(client, folder)) {
        fy_list_tree(client, folder, name, bytes < SOME_MAX ? bytes : SOME_MAX,
                     true);
    }
}

void
fy_walks_missed(struct fy_client *client, struct fy_node *folder,
                struct fy_files_bytes name)
{
    uint16_t misses = folder->folder->misses;
    /* The first, the second, the fourth, ...: the more is asked for one by one, the more
     * is sent unasked. */
    if ((misses & (misses + 1u)) == 0) {
        fy_walks_wanted(client, folder, name);
        fy_walks_listed(client, folder, false);
    }
    folder->folder->misses += misses < UINT16_MAX;
}
