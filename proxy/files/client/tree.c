/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes and names of a mount; see the header. Three hash tables with chains that grow by
 * doubling, and a table of slots by number. Long because names and nodes lead into each
 * other.
 */
#include "config.h"

#include "proxy/files/client/tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/hash.h"

enum {
    ROOT_INDEX = 1, /* FUSE's number of the root */
    SLOTS_FIRST = 1024,
};

/* Where a node is found by its index. */
struct fy_tree_slot {
    struct fy_node *node; /* NULL: free */
    uint32_t generation, next_free;
};

/* ---- hash tables --------------------------------------------------------------------- */

static uint64_t
mix(uint64_t value)
{
    value *= UINT64_C(0x9e3779b97f4a7c15);
    return value ^ value >> 29;
}

static uint64_t
name_hash(const struct fy_node *folder, const char *text, size_t n)
{
    return mix(fy_hash_words(FY_HASH_START ^ folder->index, text, n));
}

/* Each of the three tables doubles once it has as many rows as chains. */
#define GROW(tree, type, table, slots, hash_of)                          \
    do {                                                                 \
        uint64_t more = (tree)->slots ? (tree)->slots * 2 : 64;          \
        type **wider = calloc(more, sizeof(type *));                     \
        for (uint64_t i = 0; wider && i < (tree)->slots; i++) {          \
            for (type *row = (tree)->table[i], *next; row; row = next) { \
                next = row->next;                                        \
                uint64_t at = (hash_of) & (more - 1);                    \
                row->next = wider[at];                                   \
                wider[at] = row;                                         \
            }                                                            \
        }                                                                \
        if (wider) {                                                     \
            free((tree)->table);                                         \
            (tree)->table = wider;                                       \
            (tree)->slots = more;                                        \
        }                                                                \
    } while (0)

static bool
grow_names(struct fy_tree *tree)
{
    if (tree->nnames >= tree->name_slots) {
        GROW(tree, struct fy_name, names, name_slots,
             name_hash(row->folder, row->text, row->length));
    }
    return tree->name_slots > 0;
}

static bool
grow_inos(struct fy_tree *tree)
{
    if (tree->nnodes >= tree->ino_slots) {
        GROW(tree, struct fy_node, inos, ino_slots, mix(row->attr.ino));
    }
    return tree->ino_slots > 0;
}

static bool
grow_watches(struct fy_tree *tree)
{
    if (tree->nwatches >= tree->watch_slots) {
        GROW(tree, struct fy_folder, watches, watch_slots, mix(row->watch));
    }
    return tree->watch_slots > 0;
}

struct fy_node *
fy_tree_ino(const struct fy_tree *tree, uint64_t ino)
{
    struct fy_node *node =
        tree->ino_slots ? tree->inos[mix(ino) & (tree->ino_slots - 1)] : NULL;
    while (node && node->attr.ino != ino) {
        node = node->next;
    }
    return node;
}

void
fy_tree_detach(struct fy_tree *tree, struct fy_node *node)
{
    if (!node->hashed) {
        return;
    }
    struct fy_node **link =
        &tree->inos[mix(node->attr.ino) & (tree->ino_slots - 1)];
    while (*link != node) {
        link = &(*link)->next;
    }
    *link = node->next;
    node->hashed = false;
}

/* ---- nodes ----------------------------------------------------------------------------- */

static bool
take_slot(struct fy_tree *tree, struct fy_node *node)
{
    if (tree->free_slot == 0) {
        uint32_t more = tree->nslots ? tree->nslots * 2 : SLOTS_FIRST;
        struct fy_tree_slot *slots =
            more > tree->nslots
                ? realloc(tree->slots, more * sizeof(struct fy_tree_slot))
                : NULL;
        if (!slots) {
            return false;
        }
        tree->slots = slots;
        for (uint32_t i = more; i-- > tree->nslots;) {
            slots[i] = (struct fy_tree_slot){.next_free = tree->free_slot};
            tree->free_slot = i > 0 ? i : tree->free_slot; /* 0: no number */
        }
        tree->nslots = more;
    }
    struct fy_tree_slot *slot = &tree->slots[tree->free_slot];
    node->index = tree->free_slot;
    node->generation = slot->generation;
    tree->free_slot = slot->next_free;
    slot->node = node;
    return true;
}

/* It is found by its ino from now on. */
static void
hash_node(struct fy_tree *tree, struct fy_node *node)
{
    struct fy_node **chain =
        &tree->inos[mix(node->attr.ino) & (tree->ino_slots - 1)];
    node->next = *chain;
    *chain = node;
    node->hashed = true;
}

static struct fy_node *
new_node(struct fy_tree *tree, const struct fy_files_attr *attr)
{
    struct fy_node *node = calloc(1, sizeof *node);
    if (node && S_ISDIR(attr->mode)) {
        node->folder = calloc(1, sizeof *node->folder);
    }
    if (!node || (S_ISDIR(attr->mode) && !node->folder) || !grow_inos(tree) ||
        !take_slot(tree, node)) {
        if (node) {
            free(node->folder);
        }
        free(node);
        return NULL;
    }
    node->attr = *attr;
    if (fy_node_is_folder(node)) {
        node->folder->node = node;
    }
    if (attr->ino != 0) {
        hash_node(tree, node);
    }
    tree->nnodes++;
    return node;
}

/* The folder is watched no longer. */
static void unwatch(struct fy_tree *tree, struct fy_node *node);

/* A node that nothing uses and no name leads to. */
static void
free_node(struct fy_tree *tree, struct fy_node *node)
{
    fy_tree_detach(tree, node);
    if (node->kept != 0) {
        tree->unkept(tree->owner, node->kept);
    }
    if (fy_node_is_folder(node)) {
        unwatch(tree, node);
        fy_files_out_free(&node->folder->bare);
        free(node->folder);
    } else if (S_ISREG(node->attr.mode)) {
        if (node->file) {
            tree->freed(tree->owner, node->file);
        }
    } else {
        free(node->target);
    }
    struct fy_tree_slot *slot = &tree->slots[node->index];
    slot->node = NULL;
    slot->generation++;
    slot->next_free = tree->free_slot;
    tree->free_slot = node->index;
    tree->nnodes--;
    free(node);
}

bool
fy_node_is_folder(const struct fy_node *node)
{
    return S_ISDIR(node->attr.mode);
}

bool
fy_node_is(const struct fy_node *node, const struct fy_files_attr *attr)
{
    return node->attr.ino == attr->ino &&
           (node->attr.mode & S_IFMT) == (attr->mode & S_IFMT);
}

uint64_t
fy_node_number(const struct fy_node *node)
{
    return (uint64_t)node->generation << 32 | node->index;
}

uint64_t
fy_node_ino(const struct fy_node *node)
{
    return node->early ? UINT64_C(1) << 63 | fy_node_number(node)
                       : node->attr.ino;
}

struct fy_node *
fy_tree_node(const struct fy_tree *tree, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    struct fy_node *node =
        index < tree->nslots ? tree->slots[index].node : NULL;
    return node && node->generation == number >> 32 ? node : NULL;
}

/* ---- names ----------------------------------------------------------------------------- */

struct fy_name *
fy_tree_find(const struct fy_tree *tree, const struct fy_node *folder,
             struct fy_files_bytes name)
{
    struct fy_name *row = tree->name_slots
                              ? tree->names[name_hash(folder, name.at, name.n) &
                                            (tree->name_slots - 1)]
                              : NULL;
    while (row && (row->folder != folder || row->length != name.n ||
                   memcmp(row->text, name.at, name.n) != 0)) {
        row = row->next;
    }
    return row;
}

static struct fy_name **
chain_of(const struct fy_tree *tree, const struct fy_name *name)
{
    return &tree->names[name_hash(name->folder, name->text, name->length) &
                        (tree->name_slots - 1)];
}

/* Puts a name behind the others of its folder. */
static void
link_name(struct fy_tree *tree, struct fy_name *name)
{
    struct fy_folder *folder = name->folder->folder;
    struct fy_name **chain = chain_of(tree, name);
    name->next = *chain;
    *chain = name;
    name->before = folder->last;
    name->sibling = NULL;
    *(folder->last ? &folder->last->sibling : &folder->first) = name;
    folder->last = name;
    folder->count++;
    tree->nnames++;
}

static void
unlink_name(struct fy_tree *tree, struct fy_name *name)
{
    struct fy_folder *folder = name->folder->folder;
    struct fy_name **link = chain_of(tree, name);
    while (*link != name) {
        link = &(*link)->next;
    }
    *link = name->next;
    *(name->before ? &name->before->sibling : &folder->first) = name->sibling;
    *(name->sibling ? &name->sibling->before : &folder->last) = name->before;
    folder->count--;
    tree->nnames--;
}

static void
join_node(struct fy_name *name, struct fy_node *node)
{
    name->node = node;
    name->other = node->names;
    node->names = name;
}

static void
leave_node(struct fy_name *name)
{
    struct fy_name **link = &name->node->names;
    while (*link != name) {
        link = &(*link)->other;
    }
    *link = name->other;
    name->node = NULL;
}

static struct fy_name *
new_name(struct fy_tree *tree, struct fy_node *folder,
         struct fy_files_bytes text)
{
    struct fy_name *name = malloc(sizeof *name + text.n + 1);
    if (!name || !grow_names(tree)) {
        free(name);
        return NULL;
    }
    name->folder = folder;
    name->length = (uint16_t)text.n;
    memcpy(name->text, text.at, text.n);
    name->text[text.n] = '\0';
    link_name(tree, name);
    return name;
}

/* ---- life ------------------------------------------------------------------------------ */

static bool
is_unused(const struct fy_tree *tree, const struct fy_node *node)
{
    return node->lookups == 0 && node->holds == 0 && node != tree->root &&
           (!fy_node_is_folder(node) || node->folder->count == 0);
}

/* Names without a node that is used go. */
static void empty(struct fy_tree *tree, struct fy_node *folder);

/* Frees a node that nothing uses and that has no name. */
static void
settle(struct fy_tree *tree, struct fy_node *node)
{
    if (node && !node->names && node->lookups == 0 && node->holds == 0) {
        if (fy_node_is_folder(node)) {
            empty(tree, node);
        }
        if (is_unused(tree, node)) {
            free_node(tree, node);
        }
    }
}

void
fy_tree_remove(struct fy_tree *tree, struct fy_name *name)
{
    struct fy_node *node = name->node;
    unlink_name(tree, name);
    leave_node(name);
    free(name);
    settle(tree, node);
}

static void
empty(struct fy_tree *tree, struct fy_node *node)
{
    for (struct fy_name *name = node->folder->first, *next; name; name = next) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): only the one before was freed */
        next = name->sibling;
        struct fy_node *below = name->node;
        if (fy_node_is_folder(below) && below->lookups == 0 &&
            below->holds == 0) {
            empty(tree, below);
        }
        if (is_unused(tree, below)) {
            fy_tree_remove(tree, name);
            node->folder->whole = false;
        }
    }
}

/* Nothing uses the node itself any more. */
static void
unused(struct fy_tree *tree, struct fy_node *node)
{
    if (fy_node_is_folder(node)) {
        empty(tree, node);
    }
    while (node && is_unused(tree, node)) {
        struct fy_node *folder = node->names ? node->names->folder : NULL;
        for (struct fy_name *name; (name = node->names);) {
            name->folder->folder->whole = false;
            unlink_name(tree, name);
            node->names = name->other;
            free(name);
        }
        free_node(tree, node);
        /* A folder that was only the way to its last name. */
        node = folder && folder->folder->count == 0 ? folder : NULL;
    }
}

void
fy_node_hold(struct fy_node *node)
{
    if (node) {
        node->holds++;
    }
}

void
fy_tree_drop(struct fy_tree *tree, struct fy_node *node)
{
    if (node && --node->holds == 0 && node->lookups == 0 &&
        node != tree->root) {
        /* Entries that came ahead stay while their folder is used. */
        if (!node->names) {
            unused(tree, node);
        }
    }
}

void
fy_tree_forget(struct fy_tree *tree, struct fy_node *node, uint64_t n)
{
    node->lookups -= n < node->lookups ? (uint32_t)n : node->lookups;
    if (node->lookups == 0 && node->holds == 0 && node != tree->root) {
        unused(tree, node);
    }
}

/* ---- changes --------------------------------------------------------------------------- */

static bool
is_within(const struct fy_node *folder, const struct fy_node *other)
{
    const struct fy_node *at = folder;
    while (at && at != other) {
        at = at->names ? at->names->folder : NULL;
    }
    return at == other;
}

static bool
has_type(uint32_t mode)
{
    return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISFIFO(mode) ||
           S_ISSOCK(mode) || S_ISCHR(mode) || S_ISBLK(mode);
}

/* The node of these attributes: a known one, or new. */
static int
node_of(struct fy_tree *tree, const struct fy_node *folder,
        const struct fy_files_attr *attr, struct fy_node **out)
{
    if (!has_type(attr->mode) || attr->ino == 0) {
        return FY_ERR_INVALID;
    }
    struct fy_node *node = fy_tree_ino(tree, attr->ino);
    if (node && !fy_node_is(node, attr)) {
        if (node == tree->root) {
            return FY_ERR_INVALID;
        }
        fy_tree_detach(tree, node); /* the number was used again */
        node = NULL;
    }
    if (node && fy_node_is_folder(node) &&
        (node == tree->root || is_within(folder, node))) {
        return FY_ERR_INVALID;
    }
    *out = node ? node : new_node(tree, attr);
    return *out ? 0 : FY_ERR_NOMEM;
}

int
fy_tree_put(struct fy_tree *tree, struct fy_node *folder,
            struct fy_files_bytes text, const struct fy_files_attr *attr,
            struct fy_node **out)
{
    struct fy_node *node;
    int status = node_of(tree, folder, attr, &node);
    if (status) {
        return status;
    }
    struct fy_name *name = fy_tree_find(tree, folder, text);
    if (!name || name->node != node) {
        /* A folder has one name: elsewhere it was moved away by others. */
        node->holds++;
        while (fy_node_is_folder(node) && node->names) {
            fy_tree_remove(tree, node->names);
        }
        struct fy_node *before = name ? name->node : NULL;
        name = name ? name : new_name(tree, folder, text);
        node->holds--;
        if (!name) {
            settle(tree, node);
            return FY_ERR_NOMEM;
        }
        if (before) {
            leave_node(name);
            settle(tree, before);
        }
        join_node(name, node);
    }
    *out = node;
    return 0;
}

int
fy_tree_expect(struct fy_tree *tree, struct fy_node *folder,
               struct fy_files_bytes text, const struct fy_files_attr *attr,
               struct fy_node **out)
{
    struct fy_node *node = new_node(tree, attr);
    struct fy_name *name = node ? new_name(tree, folder, text) : NULL;
    if (!name) {
        settle(tree, node);
        return FY_ERR_NOMEM;
    }
    join_node(name, node);
    node->early = true;
    *out = node;
    return 0;
}

bool
fy_tree_made(struct fy_tree *tree, struct fy_node *node,
             const struct fy_files_attr *attr)
{
    if (attr->ino == 0 || (attr->mode & S_IFMT) != (node->attr.mode & S_IFMT)) {
        return false;
    }
    struct fy_node *other = fy_tree_ino(tree, attr->ino);
    if (other == tree->root) {
        return false;
    }
    if (other) { /* by another name, which others gave it meanwhile */
        fy_tree_detach(tree, other);
    }
    node->attr.ino = attr->ino;
    hash_node(tree, node);
    return true;
}

int
fy_tree_rename(struct fy_tree *tree, struct fy_name *from,
               struct fy_node *folder, struct fy_files_bytes to, bool exchange)
{
    struct fy_name *other = fy_tree_find(tree, folder, to);
    struct fy_node *node = from->node;
    if (other == from) {
        return 0;
    }
    if (is_within(folder, node) ||
        (exchange && other && is_within(from->folder, other->node))) {
        return FY_ERR_INVALID;
    }
    if (!other) {
        other = new_name(tree, folder, to);
        if (!other) {
            return FY_ERR_NOMEM;
        }
        exchange = false;
        other->node = NULL;
    }
    struct fy_node *lost = other->node;
    if (lost == node) {
        return 0; /* two names of one file: rename(2) does nothing */
    }
    if (lost) {
        leave_node(other);
    }
    leave_node(from);
    join_node(other, node);
    if (exchange && lost) {
        join_node(from, lost);
        return 0;
    }
    unlink_name(tree, from);
    free(from);
    settle(tree, lost);
    return 0;
}

/* ---- watches --------------------------------------------------------------------------- */

struct fy_node *
fy_tree_watched(const struct fy_tree *tree, uint64_t watch)
{
    struct fy_folder *folder =
        tree->watch_slots ? tree->watches[mix(watch) & (tree->watch_slots - 1)]
                          : NULL;
    while (folder && folder->watch != watch) {
        folder = folder->next;
    }
    return folder ? folder->node : NULL;
}

/* Out of the table. */
static void
unhash_watch(struct fy_tree *tree, struct fy_folder *folder)
{
    struct fy_folder **link =
        &tree->watches[mix(folder->watch) & (tree->watch_slots - 1)];
    while (*link != folder) {
        link = &(*link)->next;
    }
    *link = folder->next;
    tree->nwatches--;
    folder->watch = 0;
    folder->whole = false;
}

static void
unwatch(struct fy_tree *tree, struct fy_node *node)
{
    uint64_t watch = node->folder->watch;
    if (watch != 0) {
        unhash_watch(tree, node->folder);
        tree->unwatched(tree->owner, watch);
    }
}

void
fy_tree_watch(struct fy_tree *tree, struct fy_node *node, uint64_t watch)
{
    struct fy_folder *folder = node->folder;
    watch = watch < tree->least_watch ? 0 : watch;
    if (folder->watch == watch) {
        return;
    }
    if (folder->watch != 0) {
        unhash_watch(tree, folder); /* the server has exchanged it */
    }
    if (watch == 0) {
        return;
    }
    struct fy_node *other = fy_tree_watched(tree, watch);
    if (other) {
        unhash_watch(tree, other->folder);
    }
    if (!grow_watches(tree)) {
        return;
    }
    struct fy_folder **chain =
        &tree->watches[mix(watch) & (tree->watch_slots - 1)];
    folder->watch = watch;
    folder->next = *chain;
    *chain = folder;
    tree->nwatches++;
}

/* ---- paths ----------------------------------------------------------------------------- */

/* The path from the root, written to the end of the buffer. False: it leads to no root,
 * or is too long. */
static bool
find_path(const struct fy_node *node, char *buffer, struct fy_files_bytes *out)
{
    size_t at = FY_FILES_PATH_BYTES;
    while (node->names) {
        const struct fy_name *name = node->names;
        size_t slash = at < FY_FILES_PATH_BYTES;
        if (at < name->length + slash) {
            return false;
        }
        at -= slash;
        if (slash) {
            buffer[at] = '/';
        }
        at -= name->length;
        memcpy(buffer + at, name->text, name->length);
        node = name->folder;
    }
    *out = (struct fy_files_bytes){buffer + at, FY_FILES_PATH_BYTES - at};
    return node->index == ROOT_INDEX;
}

bool
fy_node_where(const struct fy_node *node, char *buffer,
              struct fy_files_node *out)
{
    *out = (struct fy_files_node){.ino = node->attr.ino};
    if (node->attr.ino != 0 && find_path(node, buffer, &out->path)) {
        return true;
    }
    out->path.n = 0;
    out->kept = node->kept;
    return node->kept != 0;
}

/* ---- all ------------------------------------------------------------------------------- */

int
fy_tree_open(struct fy_tree *tree, const struct fy_files_attr *root)
{
    if (!S_ISDIR(root->mode)) {
        return FY_ERR_INVALID;
    }
    tree->root = new_node(tree, root);
    return tree->root ? 0 : FY_ERR_NOMEM;
}

void
fy_tree_close(struct fy_tree *tree)
{
    for (uint64_t i = 0; i < tree->name_slots; i++) {
        for (struct fy_name *name = tree->names[i], *next; name; name = next) {
            next = name->next;
            free(name);
        }
    }
    for (uint32_t i = 0; i < tree->nslots; i++) {
        struct fy_node *node = tree->slots[i].node;
        if (node) {
            if (S_ISREG(node->attr.mode)) {
                if (node->file) {
                    tree->freed(tree->owner, node->file);
                }
            } else {
                if (fy_node_is_folder(node)) {
                    fy_files_out_free(&node->folder->bare);
                }
                free(node->target); /* or folder */
            }
            free(node);
        }
    }
    free(tree->names);
    free(tree->inos);
    free(tree->watches);
    free(tree->slots);
}
