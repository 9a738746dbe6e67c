/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a command was given (`ferry run' tells of them, control.h): folders are
 * listed and small files are fetched while the command starts. A guess costs at most a
 * listing of some of a folder for each step of a path, and the window of ahead.c; a name
 * that is not there, or leads through a symbolic link, is dropped.
 */
#include "config.h"

#include "proxy/files/client/walks.h"

#include <stdlib.h>
#include <string.h>

#include "common/path.h"
#include "proxy/files/client/control.h"
#include "proxy/files/client/list.h"
#include "proxy/files/client/told.h"

enum {
    WISHES_MAX = 4096,
    STEPS_MAX = 4096,     /* of looking for the files of trees, at a time */
    TREE_BYTES = 1 << 20, /* of answers about the folders below one */
};

enum kind {
    WORDS, /* perhaps no paths */
    FILES,
    NAMES, /* a file or folder, and all names below it */
    TREES, /* and the files of it */
};

struct wish {
    struct wish *next;
    enum kind kind;
    uint64_t asked; /* number of the folder that was listed for it; 0: none */
    char path[];    /* below the root */
};

struct fy_foreseen {
    struct wish *first, **end;
    unsigned n;
    bool busy; /* the list is being looked at */
};

enum state {
    GONE,
    LATER,
    FOUND
};

/* A look at all wishes. */
struct pass {
    struct wish **at;
    struct fy_node *top, *folder; /* of a tree; NULL: of none */
    struct fy_name *name;
    unsigned steps;
};

static void
drop(struct fy_foreseen *foreseen, struct wish **at)
{
    struct wish *wish = *at;
    *at = wish->next;
    if (!*at) {
        foreseen->end = at;
    }
    foreseen->n--;
    free(wish);
}

/* ---- from names to nodes ------------------------------------------------------------------ */

/* Waits for a listing of the folder, which is asked for once for each wish. */
static enum state
await(struct fy_client *client, struct wish *wish, struct fy_node *folder,
      struct fy_files_bytes name)
{
    if (fy_walks_coming(folder)) {
        return LATER;
    }
    if (wish->asked == fy_node_number(folder)) {
        return GONE;
    }
    wish->asked = fy_node_number(folder);
    if (wish->kind < NAMES || name.n > 0) {
        fy_walks_wanted(client, folder, name);
    } else {
        fy_list_tree(client, folder, name, TREE_BYTES, false);
    }
    return fy_walks_coming(folder) ? LATER : GONE;
}

static enum state
resolve(struct fy_client *client, struct wish *wish, struct fy_node **out)
{
    struct fy_node *node = client->tree.root;
    for (const char *at = wish->path; *at; at += *at == '/') {
        size_t n = strcspn(at, "/");
        const struct fy_files_bytes text = {at, n};
        if (!fy_node_is_folder(node)) {
            return GONE;
        }
        const struct fy_name *name = fy_tree_find(&client->tree, node, text);
        if (!name) {
            return fy_told_is_whole(client, node)
                       ? GONE
                       : await(client, wish, node, text);
        }
        node = name->node;
        at += n;
    }
    *out = node;
    if (!fy_node_is_folder(node)) {
        return S_ISREG(node->attr.mode) && node->attr.ino != 0 ? FOUND : GONE;
    }
    return fy_told_is_whole(client, node)
               ? FOUND
               : await(client, wish, node, (struct fy_files_bytes){"", 0});
}

/* ---- files to fetch ----------------------------------------------------------------------- */

static bool
is_in(const struct fy_node *node, const struct fy_node *top)
{
    while (node && node != top) {
        node = node->names ? node->names->folder : NULL;
    }
    return node != NULL;
}

/* The next file of the pass's tree; NULL: there are no more. */
static struct fy_node *
next_of_tree(struct fy_client *client, struct pass *pass)
{
    while (pass->folder && pass->steps++ < STEPS_MAX) {
        struct fy_name *name = pass->name;
        if (name) {
            pass->name = name->sibling;
            if (S_ISREG(name->node->attr.mode)) {
                return name->node;
            }
            continue;
        }
        pass->folder = fy_walks_following(client, pass->folder);
        if (!is_in(pass->folder, pass->top)) {
            break;
        }
        pass->name = pass->folder->folder->first;
    }
    pass->folder = NULL;
    return NULL;
}

static struct fy_node *
next_file(struct fy_client *client, void *context)
{
    struct pass *pass = context;
    for (;;) {
        struct fy_node *node = next_of_tree(client, pass);
        struct wish *wish = *pass->at;
        if (node || !wish) {
            return node;
        }
        enum state state = resolve(client, wish, &node);
        if (state == LATER) {
            pass->at = &wish->next;
            continue;
        }
        if (state == FOUND && fy_node_is_folder(node) && wish->kind == TREES) {
            pass->top = pass->folder = node;
            pass->name = node->folder->first;
        }
        bool wanted =
            state == FOUND && wish->kind != NAMES && !fy_node_is_folder(node);
        drop(client->foreseen, pass->at);
        if (wanted) {
            return node;
        }
    }
}

void
fy_foreseen_go_on(struct fy_client *client)
{
    struct fy_foreseen *foreseen = client->foreseen;
    if (!foreseen || !foreseen->first || foreseen->busy) {
        return;
    }
    struct pass pass = {.at = &foreseen->first};
    foreseen->busy = true;
    if (fy_ahead_named(client, &pass, next_file)) {
        /* The window is full: what waits is given up. */
        while (*pass.at) {
            drop(foreseen, pass.at);
        }
    }
    foreseen->busy = false;
}

/* ---- what the command was given ------------------------------------------------------------ */

static void
add(struct fy_foreseen *foreseen, enum kind kind, const char *path)
{
    size_t n = strlen(path) + 1;
    struct wish *wish =
        foreseen->n < WISHES_MAX ? calloc(1, sizeof *wish + n) : NULL;
    if (wish) {
        wish->kind = kind;
        memcpy(wish->path, path, n);
        *foreseen->end = wish;
        foreseen->end = &wish->next;
        foreseen->n++;
    }
}

/* The part of a word that may be a path: a flag's value. */
static const char *
path_in(const char *word)
{
    const char *value = word[0] == '-' ? strchr(word, '=') : NULL;
    return word[0] != '-' ? word : value ? value + 1 : "";
}

bool
fy_foreseen_take(struct fy_client *client, const char *line, const char *block,
                 size_t n)
{
    static const char *const lines[] = {
        [WORDS] = FY_FILES_CONTROL_WORDS,
        [FILES] = FY_FILES_CONTROL_FILES,
        [NAMES] = FY_FILES_CONTROL_NAMES,
        [TREES] = FY_FILES_CONTROL_TREES,
    };
    const char *root = client->options->folder, *base = NULL;
    enum kind kind = WORDS;
    while (kind < TREES && strcmp(line, lines[kind]) != 0) {
        kind++;
    }
    if (strcmp(line, lines[kind]) != 0) {
        return false;
    }
    if (!client->foreseen) {
        client->foreseen = calloc(1, sizeof *client->foreseen);
        if (!client->foreseen) {
            return true;
        }
        client->foreseen->end = &client->foreseen->first;
    }
    fy_ahead_command(client);
    /* The last word may be cut off. */
    for (const char *at = block, *end = block + n, *nul;
         (nul = memchr(at, '\0', (size_t)(end - at))); at = nul + 1) {
        char path[PATH_MAX];
        const char *word = base && kind == WORDS ? path_in(at) : at;
        if (!base) {
            base = at;
        } else if (*word && *base == '/' &&
                   fy_path_join(base, word, path) == 0 &&
                   fy_path_is_beneath(path, root)) {
            const char *rest = path + strlen(root);
            add(client->foreseen, kind, rest + (*rest == '/'));
        }
    }
    fy_foreseen_go_on(client);
    return true;
}

void
fy_foreseen_close(struct fy_client *client)
{
    while (client->foreseen && client->foreseen->first) {
        drop(client->foreseen, &client->foreseen->first);
    }
    free(client->foreseen);
    client->foreseen = NULL;
}
