/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mount's copy of the tree: nodes (files and folders, by number) and names
 * (entries of folders). A hard-linked file is one node with several names. Nodes that
 * the kernel knows (lookups) or a request uses (holds) stay; of others the names of a
 * folder stay as long as their folder is used. Of thread T1.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_TREE_H
#define FERRY_PROXY_FILES_CLIENT_TREE_H

#include "proxy/files/message.h"

struct fy_name {
    struct fy_node *folder, *node;
    struct fy_name *next;             /* of the same hash */
    struct fy_name *other;            /* of the same node */
    struct fy_name *before, *sibling; /* of the same folder, in its order */
    uint16_t length, round;           /* of the listing that said it last */
    char text[];                      /* with a NUL */
};

/* Fields of a folder beyond those of a node. */
struct fy_folder {
    struct fy_name *first, *last;
    struct fy_node *node;
    struct fy_folder *next;     /* of the same hash by watch */
    uint64_t watch;             /* number of the server's watch; 0: none */
    uint32_t count;             /* names */
    uint32_t expected;          /* of them, whose files are being made */
    uint64_t stamp;             /* the client's when a name last changed */
    uint16_t round;             /* of listings */
    uint16_t misses;            /* names that had to be asked for, one by one */
    uint64_t listed_ns;         /* when all names were told */
    struct fy_listing *listing; /* on its way: list.c */
    struct fy_files_out bare;   /* entries whose attributes cannot be had */
    uint32_t nbare;
    uint32_t coming; /* listings of the tree from here, on their way */
    bool shown;      /* a program has read it */
    bool partly;     /* the listing that comes cannot say all */
    bool whole;      /* all names are here; true only where watched */
};

struct fy_file; /* file.h */

enum {
    FY_WITHOUT_CAPABILITY = 1
                            << 0, /* of fy_node.without: security.capability */
};

struct fy_node {
    struct fy_files_attr attr; /* ino 0: it is being made */
    uint64_t told_ns;          /* when attr was told */
    uint64_t stamp; /* the client's when a change was last told or made */
    uint64_t
        own; /* fy_calls.changes when this mount last changed it, or a name in it */
    uint64_t kept; /* the server holds it under that number; 0: it does not */
    struct fy_node *next;  /* of the same hash by ino */
    struct fy_name *names; /* none: removed, or the root */
    union {
        struct fy_folder *folder; /* of a folder: always */
        struct fy_file *file;     /* of a regular file: while it is in use */
        char *target;             /* of a link: owned; NULL: not known */
    };
    uint32_t index, generation;
    uint32_t lookups, holds;
    uint32_t version; /* of the contents: counts possible changes */
    bool hashed;      /* by ino */
    bool early;       /* it was open here before it was made */
    uint8_t
        without; /* extended attributes it is known not to have: attributes.c */
    uint8_t cached; /* the kernel had all contents; ahead.c: when */
    /* By which run of ahead.c (plus 1) contents were put into the page cache that are
     * not used yet. */
    uint8_t pushed;
};

/* Folders that programs read one after the other: walks.c. */
struct fy_walk {
    unsigned trees;  /* how many folders are asked ahead */
    unsigned credit; /* folders that may be read before the next look */
    uint64_t walked; /* the folder that was read last */
};

struct fy_tree {
    struct fy_node *root;
    struct fy_walk walk;
    struct fy_tree_slot *slots;
    uint32_t nslots, free_slot;
    struct fy_name **names;
    struct fy_node **inos;
    struct fy_folder **watches;
    uint64_t nnames, nnodes, nwatches;
    uint64_t least_watch;                        /* nodes below it are gone */
    uint64_t name_slots, ino_slots, watch_slots; /* powers of two */
    /* A folder that is used no longer was watched; a node was held by the server. */
    void (*unwatched)(void *owner, uint64_t watch);
    void (*unkept)(void *owner, uint64_t kept);
    /* A node goes, with its file (may be NULL). */
    void (*freed)(void *owner, struct fy_file *file);
    void *owner;
};

/* FY_ERR_NOMEM, FY_ERR_INVALID (no folder): *tree can be closed all the same. */
int fy_tree_open(struct fy_tree *tree,
                 const struct fy_files_attr *root) FY_MUST_CHECK;
void fy_tree_close(struct fy_tree *tree);

/* By the number that the kernel has; NULL: there is none. */
struct fy_node *fy_tree_node(const struct fy_tree *tree, uint64_t number);
/* Finds a node that has a name, by the storage's number; NULL: there is none. */
struct fy_node *fy_tree_ino(const struct fy_tree *tree, uint64_t ino);
uint64_t fy_node_number(const struct fy_node *node);
bool fy_node_is_folder(const struct fy_node *node);
/* The st_ino that programs see: the storage's, or one of this mount's for a file that was
 * open locally before it was made, as long as the node is known. */
uint64_t fy_node_ino(const struct fy_node *node);
/* Whether the attributes can be the node's: a storage uses numbers again. */
bool fy_node_is(const struct fy_node *node, const struct fy_files_attr *attr);

struct fy_name *fy_tree_find(const struct fy_tree *tree,
                             const struct fy_node *folder,
                             struct fy_files_bytes name);
struct fy_node *fy_tree_watched(const struct fy_tree *tree, uint64_t watch);

/*
 * The name leads to the object with these attributes from now on; whatever it led to
 * before loses it. New attributes of a known node are not taken over: the caller
 * compares. FY_ERR_INVALID: the answer cannot be true (no type, a folder within itself,
 * the root); FY_ERR_NOMEM: nothing changed.
 */
int fy_tree_put(struct fy_tree *tree, struct fy_node *folder,
                struct fy_files_bytes name, const struct fy_files_attr *attr,
                struct fy_node **out) FY_MUST_CHECK;
/*
 * A new node, of a file that is being made under a name that the folder does not have:
 * its ino is 0 until fy_tree_made(). FY_ERR_NOMEM: nothing changed.
 */
int fy_tree_expect(struct fy_tree *tree, struct fy_node *folder,
                   struct fy_files_bytes name, const struct fy_files_attr *attr,
                   struct fy_node **out) FY_MUST_CHECK;
/* It was made: takes its ino alone. False: these attributes cannot be the node's. */
bool fy_tree_made(struct fy_tree *tree, struct fy_node *node,
                  const struct fy_files_attr *attr);
/* The name goes; its node too, unless something uses it. */
void fy_tree_remove(struct fy_tree *tree, struct fy_name *name);
/* Moves or (exchange) swaps; `to' loses its former file. FY_ERR_NOMEM, FY_ERR_INVALID (a
 * folder within itself): nothing changed. */
int fy_tree_rename(struct fy_tree *tree, struct fy_name *from,
                   struct fy_node *folder, struct fy_files_bytes to,
                   bool exchange) FY_MUST_CHECK;
/* The node is found by its ino no longer: it has no name at the storage. */
void fy_tree_detach(struct fy_tree *tree, struct fy_node *node);
/* Sets the folder's watch, 0: none; without memory it has none. */
void fy_tree_watch(struct fy_tree *tree, struct fy_node *node, uint64_t watch);

void fy_node_hold(struct fy_node *node); /* NULL: nothing */
void fy_tree_drop(struct fy_tree *tree, struct fy_node *node);
void fy_tree_forget(struct fy_tree *tree, struct fy_node *node, uint64_t n);

/*
 * How the server is told of the node: its path, or the number that the server holds it by
 * if there is none. The path is written to `buffer' of
 * FY_FILES_PATH_BYTES. False: it has no name any more, or too long a path.
 */
bool fy_node_where(const struct fy_node *node, char *buffer,
                   struct fy_files_node *out);

#endif
