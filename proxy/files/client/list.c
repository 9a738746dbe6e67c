/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listings; see the header.
 */
#include "config.h"

#include "proxy/files/client/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "proxy/files/client/told.h"

enum {
    LISTS_MAX = 8, /* of one folder, while it changes */
};

/* Who waits for a listing. */
struct waiter {
    struct waiter *next;
    struct fy_caller caller;
    void (*done)(struct fy_client *client, struct fy_node *folder,
                 fuse_req_t request, void *context, int status);
    void *context;
};

/* A listing on its way, and the folders below it that come with it. */
struct fy_listing {
    struct waiter *waiters;
    struct fy_node *at; /* the folder whose parts come; held; NULL: none */
    bool begun;         /* parts of it came */
    bool older;         /* names of the folder itself changed meanwhile */
    bool ended;         /* all of the folder itself has come */
    unsigned tries;
};

/* The listing that comes has the name. Null: the tree has not. */
static struct fy_name *
mark(struct fy_client *client, struct fy_node *folder,
     struct fy_files_bytes text)
{
    struct fy_name *name = fy_tree_find(&client->tree, folder, text);
    if (name) {
        name->round = folder->folder->round;
    }
    return name;
}

/* Keeps a name of which the server cannot say more, for those who read the folder. */
static void
take_bare(struct fy_client *client, struct fy_node *node,
          const struct fy_files_entry *entry)
{
    const struct fy_name *known = mark(client, node, entry->name);
    if (known) {
        fy_told_stale(client, known->node);
    } else if (fy_files_entry_put(entry, &node->folder->bare) == 0) {
        node->folder->nbare++;
    }
}

/* One row. False: nothing is known of the name but that it is there. */
static bool
take_entry(struct fy_client *client, struct fy_node *folder,
           const struct fy_files_entry *entry, uint64_t stamp)
{
    int error;
    struct fy_node *node =
        entry->attr.mode != 0
            ? fy_told_name(client, folder, entry->name, &entry->attr,
                           FY_TOLD_UNASKED, stamp, &error)
            : NULL;
    if (!node) {
        return false;
    }
    mark(client, folder, entry->name);
    if (S_ISLNK(node->attr.mode) && !node->target && entry->target.n > 0) {
        node->target = strndup(entry->target.at, entry->target.n);
    }
    return true;
}

/* Names that the listing did not say are not there. */
static void
remove_others(struct fy_client *client, struct fy_folder *folder)
{
    for (struct fy_name *name = folder->first, *next; name; name = next) {
        next = name->sibling;
        if (name->round != folder->round && name->node->attr.ino != 0) {
            fy_forget_name(client, folder->node,
                           (struct fy_files_bytes){name->text, name->length},
                           FY_NOTICE_DELETED, name->node);
            fy_told_removed(client, name);
        }
    }
}

/*
 * Takes a part of the listing of a folder that was asked for when the client's stamp was
 * `stamp'; `first': the first part of this folder. False: names of the folder changed
 * meanwhile, so it was left as it is and has to be asked for again.
 */
static bool
take(struct fy_client *client, struct fy_node *node,
     const struct fy_files_message *answer, bool first, uint64_t stamp)
{
    struct fy_folder *folder = node->folder;
    struct fy_files_bytes rows = answer->data;
    struct fy_files_entry entry = {.attr.ino = 0};
    bool all = true;
    if (folder->stamp > stamp) {
        return false;
    }
    if (first) {
        folder->round++;
        folder->partly = false;
        folder->bare.n = 0;
        folder->nbare = 0;
        (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_UNASKED, stamp);
        fy_tree_watch(&client->tree, node, answer->number);
    }
    while (fy_files_entry_take(&rows, &entry)) {
        if (entry.attr.mode == 0) {
            take_bare(client, node, &entry);
        }
        all = take_entry(client, node, &entry, stamp) && all;
    }
    folder->partly = folder->partly || !all || rows.n > 0;
    if (answer->flags & FY_FILES_WHOLE) {
        remove_others(client, folder);
        folder->whole = !folder->partly;
        folder->listed_ns = fy_clock_ns();
    }
    return true;
}

/* ---- which folder a part is of ------------------------------------------------------------ */

static struct fy_node *
find_path(struct fy_client *client, struct fy_files_bytes path)
{
    struct fy_node *node = client->tree.root;
    while (path.n > 0 && node && fy_node_is_folder(node)) {
        const char *slash = memchr(path.at, '/', path.n);
        size_t n = slash ? (size_t)(slash - path.at) : path.n;
        const struct fy_name *name = fy_tree_find(
            &client->tree, node, (struct fy_files_bytes){path.at, n});
        node = name ? name->node : NULL;
        path.at += n + (slash != NULL);
        path.n -= n + (slash != NULL);
    }
    return node && fy_node_is_folder(node) ? node : NULL;
}

static void
set_at(struct fy_client *client, struct fy_listing *listing,
       struct fy_node *node)
{
    struct fy_node *before = listing->at;
    fy_node_hold(node);
    listing->at = node;
    listing->begun = false;
    if (before) {
        fy_tree_drop(&client->tree, before);
    }
}

/* ---- the call ------------------------------------------------------------------------------- */

static void
tell_waiters(struct fy_client *client, struct fy_node *folder,
             struct fy_listing *listing, int status)
{
    struct waiter *first = listing->waiters;
    listing->waiters = NULL;
    for (struct waiter *waiter = first, *next; waiter; waiter = next) {
        next = waiter->next;
        waiter->done(client, folder, fy_caller_take(&waiter->caller),
                     waiter->context, status);
        free(waiter);
    }
}

/* A part of the folder that was asked for. */
static void
take_own(struct fy_client *client, struct fy_call *call,
         const struct fy_files_message *answer)
{
    struct fy_listing *listing = call->context;
    /* In the end the last answer is taken as it is, if the folder never rests. */
    bool last = listing->tries >= LISTS_MAX;
    bool first = listing->at != call->node;
    if (first) {
        set_at(client, listing, call->node);
    }
    listing->older = listing->older || !take(client, call->node, answer, first,
                                             last ? UINT64_MAX : call->stamp);
    if (last && call->node->folder->stamp > call->stamp) {
        fy_change_folder_lost(client, call->node);
    }
    if ((answer->flags & FY_FILES_WHOLE) && !listing->older) {
        listing->ended = true;
        call->node->folder->listing = NULL; /* another one may begin */
        tell_waiters(client, call->node, listing, 0);
    }
}

/* A part of a folder below. */
static void
take_below(struct fy_client *client, struct fy_call *call,
           const struct fy_files_message *answer)
{
    struct fy_listing *listing = call->context;
    struct fy_node *node = find_path(client, answer->node.path);
    if (!node || answer->mask != 0 || node->attr.ino != answer->attr.ino) {
        return;
    }
    if (node != listing->at) {
        set_at(client, listing, node);
    }
    (void)take(client, node, answer, !listing->begun, call->stamp);
    listing->begun = !(answer->flags & FY_FILES_WHOLE);
    if (node->folder->listing && fy_told_is_whole(client, node)) {
        tell_waiters(client, node, node->folder->listing, 0);
    }
}

static void
answered(struct fy_client *client, struct fy_call *call,
         const struct fy_files_message *asked,
         const struct fy_files_message *answer)
{
    struct fy_listing *listing = call->context;
    bool more = (answer->frame_flags & FY_FILES_MORE) && answer->status == 0;
    bool own = answer->node.kept == asked->node.kept &&
               answer->node.path.n == asked->node.path.n;
    int status = answer->status ? answer->status : 0;
    if (status == 0 && own && !listing->ended) {
        status = -(int)(answer->mask & 4095);
    }
    if (status == 0 && own && !listing->ended) {
        take_own(client, call, answer);
    } else if (status == 0 && !own) {
        take_below(client, call, answer);
    }
    if (more) {
        return;
    }
    call->node->folder->coming -= (asked->flags & FY_FILES_TREE) != 0;
    set_at(client, listing, NULL);
    bool cut = status == 0 && !listing->ended && !listing->older;
    if (cut && !(asked->flags & FY_FILES_SOME)) {
        status = -EIO; /* it was to be whole */
    } else if (status == 0 && !listing->ended && (!cut || listing->waiters)) {
        struct fy_files_message again = *asked;
        again.flags = cut ? 0 : asked->flags;
        listing->older = false;
        listing->tries++;
        call->node->folder->coming += (again.flags & FY_FILES_TREE) != 0;
        fy_ask(client, call, &again);
        return;
    }
    if (call->node->folder->listing == listing) {
        call->node->folder->listing = NULL;
    }
    tell_waiters(client, call->node, listing, status);
    free(listing);
    client->events->listed(client);
}

/* Asks, unless it is on its way; NULL: no memory. */
static struct fy_listing *
start(struct fy_folder *folder, bool *out_new)
{
    *out_new = !folder->listing;
    if (!folder->listing) {
        folder->listing = calloc(1, sizeof *folder->listing);
    }
    return folder->listing;
}

static void
ask(struct fy_client *client, struct fy_node *folder,
    struct fy_files_bytes name, uint32_t flags, uint64_t bytes)
{
    folder->folder->coming += (flags & FY_FILES_TREE) != 0;
    fy_ask(client,
           &(struct fy_call){.answered = answered,
                             .node = folder,
                             .context = folder->folder->listing},
           &(struct fy_files_message){.type = FY_FILES_LIST,
                                      .name = name,
                                      .flags = flags,
                                      .length = bytes});
}

void
fy_list_ask(struct fy_client *client, struct fy_node *folder,
            fuse_req_t request, void *context,
            void (*done)(struct fy_client *client, struct fy_node *folder,
                         fuse_req_t request, void *context, int status))
{
    bool new;
    struct waiter *waiter = malloc(sizeof *waiter);
    struct fy_listing *listing = start(folder->folder, &new);
    if (!waiter || !listing) {
        free(waiter);
        done(client, folder, request, context, -ENOMEM);
        return;
    }
    waiter->done = done;
    waiter->context = context;
    fy_caller_add(client, &waiter->caller, request);
    waiter->next = listing->waiters;
    listing->waiters = waiter;
    client->counts.waited++;
    if (new) {
        ask(client, folder, (struct fy_files_bytes){"", 0}, 0, 0);
    }
}

void
fy_list_tree(struct fy_client *client, struct fy_node *folder,
             struct fy_files_bytes name, uint64_t bytes, bool some)
{
    bool new;
    if (start(folder->folder, &new) && new) {
        client->counts.trees++;
        ask(client, folder, name, FY_FILES_TREE | (some ? FY_FILES_SOME : 0u),
            bytes);
    }
}
