/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small files that are opened one after the other, in the folder's order or a sorted one,
 * also across the folders of a walk: the contents of the next ones are asked for, and go
 * to the page cache by the notifier, or wait here until they are read. Windows double
 * while fetched contents are used and halve when they are not. With the first file of a
 * folder that has few names the other small files come, too, as long as such files are
 * used. So do files that a command was given by name (foreseen.c). Long because runs,
 * windows and fetches lead into each other.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/files/client/file.h"
#include "proxy/files/client/told.h"
#include "proxy/files/client/walks.h"

enum {
    SMALL_BYTES = 128 << 10, /* a file of so many is fetched as a whole */
    NEAR = 16,               /* so many names further is "the next one" */
    RUNS = 8,
    NAMED = RUNS,     /* the row of files that commands were given */
    FETCH_FILES = 64, /* in one request, at most */
    FETCH_BYTES = 1 << 20,
    FILE_BYTES = 4 << 10, /* cost of a file beside its bytes, in bytes */
    WINDOW_FIRST = 256 << 10,
    WINDOW_MAX = 8 << 20,
    WINDOW_NAMED = 1 << 20, /* of the first command */
    STEPS_MAX = 4096,       /* of looking for the next ones */
    SORTED_MAX = 4096, /* names of a folder that is looked at in sorted order */
    AROUND_NAMES = 64, /* of a folder whose first file brings the others */
    AROUND_BYTES = 64 << 10,
    CREDIT_MAX = 64,    /* files that may come so before any is used */
    CREDIT_USED = 4,    /* files that may come for each that is used */
    HELD_FILES = 16384, /* contents that wait here */
    HELD_BYTES = 64 << 20,
};

/* Files that are read in an order: by each thread of a program, in its own folders. */
struct run {
    uint64_t turn;  /* of the opens: when it went on */
    uint64_t last;  /* number of the node that was opened last */
    uint64_t front; /* of the last one that was asked for; 0: none */
    bool sorted;    /* by name, else in the folder's order */
    unsigned hits;  /* in a row */
    uint64_t window,
        ahead_bytes; /* that may be, and are, asked for and not used */
};

struct fy_ahead {
    struct run runs[RUNS + 1];
    unsigned named,
        named_used;       /* files of commands that were fetched, and used */
    unsigned named_asked; /* requests for such files, on their way */
    uint64_t turn;        /* opens of small files */
    unsigned
        credit; /* files that may still come with another of their folder */
    /* Nodes with this number in `cached' have their contents in the page cache. Another
     * begins when the kernel has dropped some. 1 to 255. */
    uint8_t epoch;
    /* Counts nodes that were read again in this epoch. NEAR nodes that are stored take away
     * a count: reads may be under way while their files are stored. */
    uint8_t dropped;
    uint64_t stored;
    uint64_t held[HELD_FILES]; /* numbers of nodes, the oldest at `first' */
    unsigned first, nheld;
    uint64_t held_bytes;
};

/* A FETCH on its way. */
struct fetch {
    struct run *run;
    uint64_t bytes;
    uint32_t n;
    struct {
        uint64_t node;
        uint32_t version, bytes;
    } rows[FETCH_FILES];
};

static struct fy_ahead *
ahead_of(struct fy_client *client)
{
    if (!client->ahead) {
        client->ahead = calloc(1, sizeof *client->ahead);
        if (client->ahead) {
            for (unsigned i = 0; i < RUNS; i++) {
                client->ahead->runs[i].window = WINDOW_FIRST;
            }
            client->ahead->runs[NAMED].window = WINDOW_NAMED;
            client->ahead->epoch = 1;
            client->ahead->credit = CREDIT_MAX;
        }
    }
    return client->ahead;
}

/* ---- answers --------------------------------------------------------------------- */

static bool
is_small(const struct fy_node *node)
{
    return S_ISREG(node->attr.mode) && node->attr.size > 0 &&
           node->attr.size <= SMALL_BYTES;
}

/* The file's push waits here no longer. */
static void
unhold(struct fy_client *client, struct fy_file *file)
{
    if (file->held) {
        file->held = false;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it holds the push */
        client->ahead->held_bytes -= file->push->n;
    }
}

/* A file of so many bytes is ahead of its reader no longer. */
static void
leave_window(struct run *run, uint64_t n)
{
    n += FILE_BYTES;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it asked for the file */
    run->ahead_bytes -= n < run->ahead_bytes ? n : run->ahead_bytes;
}

/* Its push is used, or will not be. */
static void
take_push(struct fy_client *client, struct fy_file *file, uint64_t n)
{
    if (!file->used) {
        leave_window(&client->ahead->runs[file->run], n);
        file->used = true;
    }
}

/* The node's push is of no use any more. */
static void
let_go(struct fy_client *client, struct fy_file *file)
{
    if (file->push) {
        take_push(client, file, file->push->n);
        unhold(client, file);
        if (!file->storing) {
            free(file->push);
        }
        file->push = NULL;
        file->storing = false;
    }
}

void
fy_ahead_freed(struct fy_client *client, struct fy_file *file)
{
    if (file) {
        let_go(client, file);
    }
}

void
fy_ahead_drop(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    if (!file) {
        return;
    }
    if (file->stores > 0) {
        /* Contents that are being stored are dropped behind it. */
        (void)fy_notifier_cancel(&client->notifier, fy_node_number(node));
        fy_forget_node(client, node, FY_NOTICE_CONTENTS);
    }
    let_go(client, file);
    node->pushed = 0;
}

/* The push waits until the kernel knows the node; the oldest ones make room. */
static void
hold(struct fy_client *client, struct fy_node *node)
{
    struct fy_ahead *ahead = client->ahead;
    struct fy_file *file = node->file;
    while (ahead->nheld == HELD_FILES ||
           (ahead->nheld > 0 && ahead->held_bytes > HELD_BYTES)) {
        struct fy_node *old =
            fy_tree_node(&client->tree, ahead->held[ahead->first]);
        ahead->first = (ahead->first + 1) % HELD_FILES;
        ahead->nheld--;
        if (old && old != node && S_ISREG(old->attr.mode) && old->file &&
            old->file->held) {
            let_go(client, old->file);
            fy_file_settle(client, old);
        }
    }
    ahead->held[(ahead->first + ahead->nheld++) % HELD_FILES] =
        fy_node_number(node);
    file->held = true;
    ahead->held_bytes += file->push->n;
}

/* Holds contents that the kernel has refused, because it had not taken the node in yet. */
static void
hold_again(struct fy_client *client, struct fy_node *node,
           const struct fy_notice *notice)
{
    struct fy_file *file = node->file;
    file->push =
        fy_notice_new(FY_NOTICE_STORE, notice->node, notice->bytes, notice->n);
    if (file->push) {
        hold(client, node);
    } else {
        take_push(client, file, notice->n);
    }
}

/* The notifier has stored it, or could not. */
static void
stored(void *owner, struct fy_notice *notice, bool done)
{
    struct fy_client *client = owner;
    struct fy_node *node = fy_tree_node(&client->tree, notice->node);
    struct fy_file *file = node && S_ISREG(node->attr.mode) ? node->file : NULL;
    if (!file || file->stores == 0) {
        return;
    }
    file->stores--;
    if (file->push == notice) {
        node->pushed = done && !file->used ? (uint8_t)(file->run + 1u) : 0;
        node->cached = done ? client->ahead->epoch : 0;
        client->ahead->dropped -= client->ahead->dropped > 0 && done &&
                                  ++client->ahead->stored % NEAR == 0;
        file->storing = false;
        file->push = NULL;
        if (!done && !file->used) {
            hold_again(client, node, notice);
        }
    }
    fy_node_hold(node);
    if (file->stores == 0) {
        fy_file_run(client, node, &file->stored);
    }
    fy_file_settle(client, node);
    fy_tree_drop(&client->tree, node);
}

/* To the page cache, if the kernel knows the node. */
static void
store(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    if (node->lookups > 0 && file->push && !file->storing &&
        file->writers == 0 && file->pending == 0) {
        unhold(client, file);
        file->storing = true;
        file->stores++;
        file->push->done = stored;
        file->push->owner = client;
        fy_notifier_add(&client->notifier, file->push);
    }
}

static bool
same_contents(const struct fy_files_attr *a, const struct fy_files_attr *b)
{
    return a->ino == b->ino && a->size == b->size &&
           a->mtime.seconds == b->mtime.seconds && a->mtime.ns == b->mtime.ns &&
           a->ctime.seconds == b->ctime.seconds && a->ctime.ns == b->ctime.ns;
}

/* One file of an answer. False: it is of no use. */
static bool
take_file(struct fy_client *client, struct fy_node *node, uint32_t version,
          uint64_t stamp, const struct fy_files_message *answer)
{
    struct fy_file *file = node->file;
    bool good =
        answer->status == 0 && answer->mask == 0 && !file->push &&
        (answer->attr.mode & S_IFMT) == S_IFREG && node->version == version &&
        file->pending == 0 &&
        fy_told_attr(client, node, &answer->attr, FY_TOLD_UNASKED, stamp) &&
        same_contents(&node->attr, &answer->attr) &&
        answer->data.n == node->attr.size && answer->data.n > 0;
    if (good) {
        file->push = fy_notice_new(FY_NOTICE_STORE, fy_node_number(node),
                                   answer->data.at, answer->data.n);
    }
    good = good && file->push;
    if (good) {
        file->used = false;
        client->counts.pushed_files++;
        client->counts.pushed_bytes += file->push->n;
        store(client, node);
        if (!file->storing) {
            hold(client, node);
        }
    }
    return good;
}

static void
fetched(struct fy_client *client, struct fy_call *call,
        const struct fy_files_message *asked,
        const struct fy_files_message *answer)
{
    struct fetch *fetch = call->context;
    bool more = (answer->frame_flags & FY_FILES_MORE) && answer->status == 0;
    (void)asked;
    /* Without an error each answer is of one node; then of all that are left. */
    for (uint32_t i = 0; i < fetch->n; i++) {
        bool own = answer->status == 0 && answer->number == i;
        struct fy_node *node =
            own || !more ? fy_tree_node(&client->tree, fetch->rows[i].node)
                         : NULL;
        bool over = (own || !more) && fetch->rows[i].node != 0;
        if (!node || !S_ISREG(node->attr.mode) || !node->file ||
            !node->file->fetching || !over) {
            if (over) {
                leave_window(fetch->run, fetch->rows[i].bytes);
                fetch->rows[i].node = 0;
            }
            continue;
        }
        fy_node_hold(node);
        node->file->fetching = false;
        if (!own || !take_file(client, node, fetch->rows[i].version,
                               call->stamp, answer)) {
            leave_window(fetch->run, fetch->rows[i].bytes);
        }
        fetch->rows[i].node = 0;
        fy_file_run(client, node, &node->file->fetched);
        fy_file_settle(client, node);
        fy_tree_drop(&client->tree, node);
    }
    if (!more) {
        client->ahead->named_asked -= fetch->run == &client->ahead->runs[NAMED];
        free(fetch);
    }
}

void
fy_ahead_shown(struct fy_client *client, struct fy_node *folder)
{
    if (!client->ahead || client->ahead->held_bytes == 0) {
        return;
    }
    for (struct fy_name *name = folder->folder->first; name;
         name = name->sibling) {
        if (S_ISREG(name->node->attr.mode) && name->node->file) {
            store(client, name->node);
        }
    }
}

/* ---- which come next ------------------------------------------------------------------ */

/* The name behind this one. */
static struct fy_name *
successor(const struct fy_name *name, bool sorted)
{
    if (!sorted) {
        return name->sibling;
    }
    struct fy_name *best = NULL;
    for (struct fy_name *at = name->folder->folder->first; at;
         at = at->sibling) {
        if (strcmp(at->text, name->text) > 0 &&
            (!best || strcmp(at->text, best->text) < 0)) {
            best = at;
        }
    }
    return best;
}

/* The first name of the next folder of a walk that is known; NULL: none. */
static struct fy_name *
across(const struct fy_client *client, struct fy_node *folder)
{
    unsigned steps = 0;
    struct fy_node *at = fy_walks_following(client, folder);
    while (at && fy_told_is_whole(client, at) && steps++ < NEAR) {
        if (at->folder->first) {
            return at->folder->first;
        }
        at = fy_walks_following(client, at);
    }
    return NULL;
}

static bool
is_wanted(const struct fy_client *client, const struct fy_node *node)
{
    const struct fy_file *file = S_ISREG(node->attr.mode) ? node->file : NULL;
    return is_small(node) && node->cached != client->ahead->epoch &&
           node->kept == 0 &&
           (!file || (!file->push && !file->fetching && file->opens == 0 &&
                      file->pending == 0 && file->stores == 0));
}

/* Asks for the nodes of `fetch', whose rows are in `rows'. */
static void
ask_fetch(struct fy_client *client, struct fetch *fetch,
          struct fy_files_out *rows)
{
    client->ahead->named_asked += fetch->run == &client->ahead->runs[NAMED];
    fy_ask(client, &(struct fy_call){.answered = fetched, .context = fetch},
           &(struct fy_files_message){.type = FY_FILES_FETCH,
                                      .length = SMALL_BYTES,
                                      .data = {rows->bytes, rows->n}});
    rows->n = 0;
}

/* Adds the node to the fetch. */
static bool
add_row(struct fy_client *client, struct fetch *fetch, struct fy_node *node,
        struct fy_files_out *rows)
{
    struct fy_files_node where;
    if (!fy_node_where(node, client->paths[0], &where) || !fy_file_of(node) ||
        fy_files_node_put(&where, rows)) {
        return false;
    }
    node->file->fetching = true;
    fetch->rows[fetch->n].bytes = (uint32_t)node->attr.size;
    fetch->rows[fetch->n].node = fy_node_number(node);
    fetch->rows[fetch->n++].version = node->version;
    return true;
}

/* Adds the node to the run's next request. *fetch may be null; once it is full it is
 * asked and null again. False: no memory. */
static bool
want(struct fy_client *client, struct run *run, struct fetch **fetch,
     struct fy_node *node, struct fy_files_out *rows)
{
    *fetch = *fetch ? *fetch : calloc(1, sizeof **fetch);
    if (!*fetch || !add_row(client, *fetch, node, rows)) {
        return false;
    }
    (*fetch)->run = run;
    (*fetch)->bytes += node->attr.size;
    node->file->run = (uint8_t)(run - client->ahead->runs);
    run->ahead_bytes += node->attr.size + FILE_BYTES;
    if ((*fetch)->n == FETCH_FILES || (*fetch)->bytes >= FETCH_BYTES) {
        ask_fetch(client, *fetch, rows);
        *fetch = NULL;
    }
    return true;
}

/* Sends the request that is not full. */
static void
want_ends(struct fy_client *client, struct fetch *fetch,
          struct fy_files_out *rows)
{
    if (fetch && fetch->n > 0) {
        ask_fetch(client, fetch, rows);
    } else {
        free(fetch);
    }
    fy_files_out_free(rows);
}

/* Asks for the file and the others of the folder. */
static void
around(struct fy_client *client, struct run *run, const struct fy_name *name)
{
    struct fy_files_out rows = {0};
    struct fetch *fetch = NULL;
    const struct fy_folder *folder = name->folder->folder;
    unsigned *credit = &client->ahead->credit;
    if (folder->count > AROUND_NAMES || !is_wanted(client, name->node) ||
        !fy_told_is_whole(client, name->folder)) {
        return;
    }
    bool more = *credit > 0 && want(client, run, &fetch, name->node, &rows);
    for (const struct fy_name *at = folder->first;
         at && more && *credit > 0 && run->ahead_bytes < AROUND_BYTES;
         at = at->sibling) {
        if (is_wanted(client, at->node)) {
            more = want(client, run, &fetch, at->node, &rows);
            --*credit;
        }
    }
    want_ends(client, fetch, &rows);
}

/* Asks for files behind the run's front until the window is full. */
static void
extend(struct fy_client *client, struct run *run, struct fy_name *name)
{
    struct fy_files_out rows = {0};
    struct fetch *fetch = NULL;
    for (unsigned steps = 0;
         run->ahead_bytes < run->window && steps < STEPS_MAX; steps++) {
        struct fy_name *next = successor(name, run->sorted);
        next = next ? next : across(client, name->folder);
        if (!next) {
            break;
        }
        name = next;
        run->front = fy_node_number(name->node);
        if (is_wanted(client, name->node) &&
            !want(client, run, &fetch, name->node, &rows)) {
            break;
        }
    }
    want_ends(client, fetch, &rows);
}

/* Whether `name' is one of the next behind `last', in that order. */
static bool
is_near(const struct fy_client *client, const struct fy_name *last,
        const struct fy_name *name, bool sorted)
{
    const struct fy_name *at = last;
    for (unsigned i = 0; at && i < NEAR; i++) {
        const struct fy_name *next = successor(at, sorted);
        at = next ? next : across(client, at->folder);
        if (at == name) {
            return true;
        }
        if (sorted && i == 1) {
            break; /* each step looks at all names */
        }
    }
    return false;
}

/* Pushed contents are used now. */
static bool
use(struct fy_client *client, struct fy_node *node)
{
    uint64_t n = node->attr.size;
    bool used = node->pushed != 0 ||
                (node->file && node->file->push && !node->file->used);
    if (used) {
        client->ahead->credit += CREDIT_USED;
        client->ahead->credit = client->ahead->credit < CREDIT_MAX
                                    ? client->ahead->credit
                                    : CREDIT_MAX;
        client->counts.used_files++;
        client->counts.used_bytes += n;
    }
    if (node->pushed) {
        client->ahead->named_used += node->pushed - 1 == NAMED;
        leave_window(&client->ahead->runs[node->pushed - 1], n);
        node->pushed = 0;
    } else if (used) {
        client->ahead->named_used += node->file->run == NAMED;
        take_push(client, node->file, n);
    }
    return used;
}

static void
widen(struct run *run)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it asked for a file */
    run->window *= run->window < WINDOW_MAX ? 2 : 1;
}

static struct fy_name *
last_name(const struct fy_client *client, const struct run *run)
{
    const struct fy_node *node = fy_tree_node(&client->tree, run->last);
    return node ? node->names : NULL;
}

/* The run that goes on with the name; NULL: none. */
static struct run *
find_run(struct fy_client *client, const struct fy_name *name, bool *out_sorted)
{
    for (struct run *run = client->ahead->runs;
         run < client->ahead->runs + RUNS; run++) {
        const struct fy_name *last = last_name(client, run);
        *out_sorted = false;
        if (last && is_near(client, last, name, false)) {
            return run;
        }
        *out_sorted = true;
        if (last && last->folder == name->folder &&
            name->folder->folder->count <= SORTED_MAX &&
            is_near(client, last, name, true)) {
            return run;
        }
    }
    return NULL;
}

/* A run begins with the name: instead of the one in its folder, or the oldest. */
static struct run *
begin_run(struct fy_client *client, const struct fy_name *name)
{
    struct run *oldest = client->ahead->runs;
    for (struct run *run = oldest; run < client->ahead->runs + RUNS; run++) {
        const struct fy_name *last = last_name(client, run);
        if (last && last->folder == name->folder) {
            oldest = run;
            break;
        }
        oldest = run->turn < oldest->turn ? run : oldest;
    }
    oldest->hits = 0;
    oldest->front = 0;
    oldest->ahead_bytes = 0;
    oldest->window /= oldest->window > WINDOW_FIRST ? 2 : 1;
    return oldest;
}

void
fy_ahead_opened(struct fy_client *client, struct fy_node *node)
{
    struct fy_ahead *ahead = ahead_of(client);
    struct fy_name *name = node->names;
    uint64_t number = fy_node_number(node);
    if (!ahead || !name || !is_small(node)) {
        return;
    }
    for (unsigned i = 0; i < RUNS; i++) {
        if (ahead->runs[i].last == number) {
            return;
        }
    }
    bool used = use(client, node), sorted;
    bool missed = !used && node->cached != ahead->epoch &&
                  !(node->file && (node->file->fetching || node->file->push));
    struct run *run = find_run(client, name, &sorted);
    bool goes_on = run != NULL;
    run = goes_on ? run : begin_run(client, name);
    run->last = number;
    run->turn = ++ahead->turn;
    if (!goes_on) {
        around(client, run, name);
        return;
    }
    if (missed || (run->sorted != sorted && run->hits < 2)) {
        run->sorted = sorted;
        run->front = 0; /* the window may be farther on */
        run->ahead_bytes = 0;
    }
    run->hits++;
    if (used && run->hits % NEAR == 0) {
        widen(run);
    }
    if (run->ahead_bytes <= run->window / 2) {
        struct fy_node *front = fy_tree_node(&client->tree, run->front);
        extend(client, run, front && front->names ? front->names : name);
    }
}

void
fy_ahead_keep(struct fy_client *client, struct fy_node *node,
              struct fy_files_bytes bytes)
{
    struct fy_file *file = node->file;
    if (!ahead_of(client) || !is_small(node) || bytes.n != node->attr.size ||
        file->push || file->fetching || file->stores > 0) {
        return;
    }
    file->push =
        fy_notice_new(FY_NOTICE_STORE, fy_node_number(node), bytes.at, bytes.n);
    if (file->push) {
        file->used = true; /* it is in no window */
        node->cached = 0;
        hold(client, node);
    }
}

void
fy_ahead_command(struct fy_client *client)
{
    struct fy_ahead *ahead = ahead_of(client);
    if (!ahead || ahead->named_asked > 0) {
        return; /* a shell has started the command with the same names */
    }
    struct run *run = &ahead->runs[NAMED];
    if (ahead->named_used < ahead->named / 2) {
        run->window /= run->window > WINDOW_FIRST ? 2 : 1;
    } else if (ahead->named > 0) {
        widen(run);
    }
    run->ahead_bytes = 0;
    ahead->named = ahead->named_used = 0;
}

bool
fy_ahead_named(struct fy_client *client, void *context,
               struct fy_node *(*next)(struct fy_client *client, void *context))
{
    struct fy_ahead *ahead = ahead_of(client);
    struct run *run = ahead ? &ahead->runs[NAMED] : NULL;
    struct fy_files_out rows = {0};
    struct fetch *fetch = NULL;
    bool more = run != NULL;
    while (more && run->ahead_bytes < run->window) {
        struct fy_node *node = next(client, context);
        more = node != NULL;
        if (more && is_wanted(client, node)) {
            more = want(client, run, &fetch, node, &rows);
            ahead->named += more;
            client->counts.named_files += more;
        }
    }
    want_ends(client, fetch, &rows);
    return more;
}

bool
fy_ahead_read(struct fy_client *client, struct fy_node *node,
              const struct fy_later *later)
{
    struct fy_file *file = node->file;
    struct fy_ahead *ahead = client->ahead;
    if (client->options->read_only) {
        fy_ahead_opened(client, node);
        file = node->file;
    }
    if (file && file->fetching) {
        widen(&ahead->runs[file->run]); /* its reader waits */
        (void)fy_file_wait(client, &file->fetched, later);
        return true;
    }
    if (ahead && is_small(node) && later->offset == 0) {
        if (node->cached == ahead->epoch && ++ahead->dropped == NEAR) {
            ahead->dropped = 0;
            ahead->epoch = ahead->epoch < UINT8_MAX ? ahead->epoch + 1 : 1;
        }
        node->cached = later->length >= node->attr.size ? ahead->epoch : 0;
    }
    if (!file || !file->push || file->push->n != node->attr.size) {
        return false;
    }
    uint64_t n = file->push->n;
    uint64_t at = later->offset < n ? later->offset : n;
    fuse_reply_buf(later->request, file->push->bytes + at,
                   n - at < later->length ? n - at : later->length);
    if (!file->storing) {
        let_go(client, file);
        fy_file_settle(client, node);
    }
    return true;
}

void
fy_ahead_close(struct fy_client *client)
{
    free(client->ahead);
    client->ahead = NULL;
}
