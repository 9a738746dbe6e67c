/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files in use; see the header.
 */
#include "config.h"

#include "proxy/files/client/file.h"

#include <errno.h>
#include <stdlib.h>

#include "proxy/files/client/shadow.h"

struct fy_file *
fy_file_of(struct fy_node *node)
{
    if (!node->file) {
        node->file = calloc(1, sizeof *node->file);
    }
    return node->file;
}

void
fy_file_free(struct fy_file *file)
{
    struct fy_later *lines[] = {file->quiet, file->stored, file->fetched};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        for (struct fy_later *later = lines[i], *next; later; later = next) {
            next = later->next;
            fy_reply_status(fy_caller_take(&later->caller), -EIO);
            free(later);
        }
    }
    if (!file->storing) {
        free(file->push);
    }
    if (file->reader) {
        file->free_reader(file->reader);
    }
    free(file->shadow);
    while (file->lockers) {
        struct fy_locker *locker = file->lockers;
        file->lockers = locker->next;
        free(locker);
    }
    free(file);
}

void
fy_file_settle(struct fy_client *client, struct fy_node *node)
{
    struct fy_file *file = node->file;
    if (file && file->opens == 0 && file->pending == 0 && file->stores == 0 &&
        file->error == 0 && !file->quiet && !file->stored && !file->push &&
        !file->fetching && file->reads == 0) {
        node->file = NULL;
        fy_shadow_drop(client, file);
        fy_file_free(file);
    }
}

void
fy_file_failed(struct fy_client *client, struct fy_file *file, int error)
{
    if (file->error == 0) {
        file->error = client->pending.failed = error;
        client->pending.untold++;
    }
}

int
fy_file_failure(struct fy_client *client, struct fy_file *file)
{
    struct fy_pending *pending = &client->pending;
    int error = file ? file->error : 0;
    if (error != 0) {
        file->error = 0;
        pending->untold -= pending->untold > 0;
        pending->failed = pending->untold > 0 ? pending->failed : 0;
    }
    return error;
}

int
fy_files_failure(struct fy_client *client)
{
    int error = client->pending.failed;
    client->pending.failed = 0;
    client->pending.untold = 0;
    return error;
}

bool
fy_file_wait(struct fy_client *client, struct fy_later **line,
             const struct fy_later *later)
{
    struct fy_later *copy = malloc(sizeof *copy);
    if (!copy) {
        fy_reply_status(later->request, -ENOMEM);
        return false;
    }
    *copy = *later;
    copy->next = NULL;
    copy->request = NULL;
    fy_caller_add(client, &copy->caller, later->request);
    if (later
            ->always) { /* of a close, it may be: at the end of a killed process */
        copy->caller.interrupted = true;
        fy_callers_watch(client);
    }
    while (*line) {
        line = &(*line)->next;
    }
    *line = copy;
    return true;
}

bool
fy_file_is_busy(const struct fy_node *node)
{
    return S_ISREG(node->attr.mode) && node->file && node->file->pending > 0;
}

void
fy_when_quiet(struct fy_client *client, struct fy_node *node,
              struct fy_later *later)
{
    if (fy_file_is_busy(node)) {
        (void)fy_file_wait(client, &node->file->quiet, later);
        fy_calls_push(client);
    } else {
        later->run(client, node, later);
    }
}

void
fy_file_run(struct fy_client *client, struct fy_node *node,
            struct fy_later **line)
{
    struct fy_later *first = *line;
    *line = NULL;
    for (struct fy_later *later = first, *next; later; later = next) {
        next = later->next;
        later->request = fy_caller_take(&later->caller);
        if (later->request || later->always) {
            later->run(client, node, later);
        }
        free(later);
    }
}
