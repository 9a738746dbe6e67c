/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files the server holds; see the header. A program that opens, reads and closes
 * many files is faster than the timer: nothing is asked for them.
 */
#include "config.h"

#include "proxy/files/client/holds.h"

#include <sys/stat.h>

#include "common/debug.h"
#include "proxy/files/client/file.h"

static const uint64_t after_ns = 10000000;

enum {
    BYTES_MAX = FY_FILES_DATA_BYTES - FY_FILES_PATH_BYTES - 64, /* of a HOLD */
};

static bool
is_open(const struct fy_node *node)
{
    return S_ISREG(node->attr.mode) && node->file && node->file->opens > 0;
}

/* A file that the server could not hold (its limit, or the file has gone) is asked for by
 * name. */
static void
held(struct fy_client *client, struct fy_call *call,
     const struct fy_files_message *asked,
     const struct fy_files_message *answer)
{
    struct fy_files_bytes rows = asked->data, failed = answer->data;
    struct fy_files_node row;
    uint64_t number = asked->number, missing = 0;
    (void)call;
    client->numbers.asked--;
    bool some = answer->status == 0 && fy_files_number_take(&failed, &missing);
    for (; fy_files_node_take(&rows, &row); number++) {
        struct fy_node *node = fy_tree_ino(&client->tree, row.ino);
        if (answer->status == 0 && (!some || number != missing)) {
            continue;
        }
        some = some && fy_files_number_take(&failed, &missing);
        if (node && node->kept == number) {
            node->kept = 0;
        }
    }
}

/* Asks for the nodes in `rows', the first under that number. */
static void
ask(struct fy_client *client, struct fy_files_out *rows, uint64_t first)
{
    if (rows->n > 0) {
        client->numbers.asked++;
        fy_ask(client, &(struct fy_call){.answered = held},
               &(struct fy_files_message){.type = FY_FILES_HOLD,
                                          .number = first,
                                          .data = {rows->bytes, rows->n}});
        rows->n = 0;
    }
}

static void
timer_due(void *owner)
{
    struct fy_client *client = owner;
    struct fy_numbers *numbers = &client->numbers;
    struct fy_files_bytes opened = {numbers->before.bytes, numbers->before.n};
    struct fy_files_out rows = {0}, swap = numbers->before;
    uint64_t first = numbers->last + 1, number;
    if (numbers->asked > 0) { /* a FORGET has its turn between two */
        fy_loop_set(&client->loop, &numbers->timer, after_ns);
        return;
    }
    while (fy_files_number_take(&opened, &number)) {
        struct fy_files_node where;
        struct fy_node *node = fy_tree_node(&client->tree, number);
        if (node && is_open(node) && node->kept == 0 && node->names &&
            fy_node_where(node, client->paths[0], &where) &&
            fy_files_node_put(&where, &rows) == 0) {
            node->kept = ++numbers->last;
        }
        if (rows.n > BYTES_MAX) {
            ask(client, &rows, first);
            first = numbers->last + 1;
        }
    }
    ask(client, &rows, first);
    /* A file opened since the last time has one more turn to be closed. */
    numbers->before = numbers->opened;
    numbers->opened = swap;
    numbers->opened.n = 0;
    if (numbers->before.n > 0) {
        fy_loop_set(&client->loop, &numbers->timer, after_ns);
    }
    fy_files_out_free(&rows);
}

void
fy_hold_begin(struct fy_client *client, struct fy_node *node)
{
    struct fy_numbers *numbers = &client->numbers;
    if (node->kept != 0) {
        return;
    }
    if (fy_files_number_put(fy_node_number(node), &numbers->opened)) {
        fy_debug(CLIENT, "mount: no memory to hold a file");
    } else if (numbers->timer.due_ns == 0) {
        fy_loop_set(&client->loop, &numbers->timer, after_ns);
    }
}

void
fy_hold_end(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    if (file->opens > 0 || file->pending > 0) {
        return;
    }
    if (file->early) {
        file->early = false;
        client->pending.early--;
    }
    if (node->kept != 0 && node->names && node->attr.ino != 0) {
        client->tree.unkept(client->tree.owner, node->kept);
        node->kept = 0;
    }
}

uint64_t
fy_hold_number(struct fy_client *client, const struct fy_name *name)
{
    bool last = name && name->node->lookups > 0 && name->node->names == name &&
                !name->other;
    return last ? ++client->numbers.last : 0;
}

void
fy_hold_kept(struct fy_client *client, struct fy_node *node, uint64_t kept)
{
    fy_tree_detach(&client->tree, node);
    if (node->kept != 0) { /* it did already, and is asked by that number */
        client->tree.unkept(client->tree.owner, kept);
    } else {
        node->kept = kept;
    }
}

void
fy_holds_lost(struct fy_client *client)
{
    for (uint64_t i = 0; i < client->tree.ino_slots; i++) {
        for (struct fy_node *node = client->tree.inos[i]; node;
             node = node->next) {
            node->kept = node->names ? 0 : node->kept;
            if (node->names && is_open(node)) {
                fy_hold_begin(client, node);
            }
        }
    }
}

void
fy_holds_start(struct fy_client *client)
{
    client->numbers.timer =
        (struct fy_timer){.run = timer_due, .owner = client};
}

void
fy_holds_close(struct fy_client *client)
{
    fy_loop_unset(&client->loop, &client->numbers.timer);
    fy_files_out_free(&client->numbers.opened);
    fy_files_out_free(&client->numbers.before);
}
