/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large files read in order: parts are asked ahead of the reader and wait here. The
 * window doubles while the reader goes on; one that jumps gets exactly the bytes that it
 * asks for.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/files/client/file.h"
#include "proxy/files/client/told.h"

enum {
    PART_BYTES = 512 << 10,
    PARTS_MAX = 64,       /* of a file, there or on their way */
    IN_ORDER = 2,         /* reads in order, before more is asked */
    NEAR_BYTES = 1 << 20, /* the kernel's own read-ahead jumps so far */
};

struct part {
    struct part *next;
    uint64_t offset;  /* a multiple of PART_BYTES */
    uint32_t version; /* of the node */
    bool asked, dropped;
    char *bytes; /* owned */
    size_t n;
    struct fy_later *waiting;
};

struct fy_reader {
    uint64_t expected; /* where a reader in order goes on */
    unsigned in_order, window, nparts;
    uint64_t end; /* end of the requested part */
    struct part *parts;
};

static void
free_part(struct fy_reader *reader, struct part **link)
{
    struct part *part = *link;
    *link = part->next;
    reader->nparts--;
    free(part->bytes);
    free(part);
}

/* Frees buffers that lie behind the reader or hold older contents. */
static void
clean(struct fy_reader *reader, const struct fy_node *node, uint64_t before)
{
    for (struct part **link = &reader->parts; *link;) {
        struct part *part = *link;
        bool old = part->version != node->version ||
                   part->offset + PART_BYTES <= before;
        if (old && !part->asked) {
            free_part(reader, link);
        } else {
            part->dropped = part->dropped || part->version != node->version;
            link = &part->next;
        }
    }
}

static void
reply(const struct part *part, struct fy_later *later)
{
    size_t at = (size_t)(later->offset - part->offset);
    size_t n = at < part->n ? part->n - at : 0;
    fuse_reply_buf(later->request, part->bytes + (n > 0 ? at : 0),
                   n < later->length ? n : later->length);
}

static struct part **
find(struct fy_reader *reader, uint64_t offset)
{
    struct part **link = &reader->parts;
    while (*link && ((*link)->dropped || (*link)->offset > offset ||
                     (*link)->offset + PART_BYTES <= offset)) {
        link = &(*link)->next;
    }
    return link;
}

static void
part_answered(struct fy_client *client, struct fy_call *call,
              const struct fy_files_message *asked,
              const struct fy_files_message *answer)
{
    struct fy_node *node = call->node;
    struct part *part = call->context;
    struct fy_reader *reader = node->file->reader;
    bool good = answer->status == 0 && answer->data.n <= asked->length;
    part->asked = false;
    node->file->reads--;
    if (good) {
        (void)fy_told_attr(client, node, &answer->attr, FY_TOLD_UNASKED,
                           call->stamp);
        good = part->version == node->version && !part->dropped;
    }
    part->bytes = good ? malloc(answer->data.n + 1) : NULL;
    if (part->bytes) {
        memcpy(part->bytes, answer->data.at, answer->data.n);
        part->n = answer->data.n;
    }
    struct fy_later *waiting = part->waiting;
    part->waiting = NULL;
    if (!part->bytes) {
        struct part **link = &reader->parts;
        while (*link != part) {
            link = &(*link)->next;
        }
        free_part(reader, link);
    }
    fy_file_run(client, node, &waiting);
    fy_file_settle(client, node);
}

static void
ask_part(struct fy_client *client, struct fy_node *node, uint64_t offset)
{
    struct fy_reader *reader = node->file->reader;
    struct part *part = calloc(1, sizeof *part);
    if (!part) {
        return;
    }
    *part = (struct part){.next = reader->parts,
                          .offset = offset,
                          .version = node->version,
                          .asked = true};
    reader->parts = part;
    reader->nparts++;
    node->file->reads++;
    fy_ask(client,
           &(struct fy_call){
               .answered = part_answered, .node = node, .context = part},
           &(struct fy_files_message){
               .type = FY_FILES_READ, .offset = offset, .length = PART_BYTES});
}

/* How many parts the link carries in two round trips; at least 4. */
static unsigned
most_parts(const struct fy_client *client)
{
    struct fy_wire_counters counters;
    fy_stream_counters(&client->stream, &counters);
    double bytes = 2e-9 * (double)counters.rtt_ns * (double)counters.link_rate;
    unsigned parts = bytes > (double)PARTS_MAX * PART_BYTES
                         ? PARTS_MAX
                         : (unsigned)(bytes / PART_BYTES) + 1;
    /* The rate is that of sent bytes: it may not be known. */
    return counters.link_rate == 0 || parts < 16 ? 16 : parts;
}

/* Asks for the bytes behind `from' in the window. */
static void
go_on(struct fy_client *client, struct fy_node *node, uint64_t from)
{
    struct fy_reader *reader = node->file->reader;
    uint64_t at = from / PART_BYTES * PART_BYTES;
    uint64_t end = at + (uint64_t)(reader->window + 1) * PART_BYTES;
    at = reader->end > at ? reader->end : at;
    for (; at < end && at < node->attr.size && reader->nparts < PARTS_MAX;
         at += PART_BYTES) {
        reader->end = at + PART_BYTES;
        if (!*find(reader, at)) {
            ask_part(client, node, at);
        }
    }
}

static void
free_reader(struct fy_reader *reader)
{
    while (reader->parts) {
        struct part *part = reader->parts;
        while (part->waiting) {
            struct fy_later *later = part->waiting;
            part->waiting = later->next;
            fy_reply_status(fy_caller_take(&later->caller), -EIO);
            free(later);
        }
        free_part(reader, &reader->parts);
    }
    free(reader);
}

bool
fy_reader_read(struct fy_client *client, struct fy_node *node,
               const struct fy_later *later)
{
    struct fy_file *file = fy_file_of(node);
    uint64_t offset = later->offset;
    if (!file || node->attr.size <= PART_BYTES / 4) {
        return false;
    }
    file->reader =
        file->reader ? file->reader : calloc(1, sizeof *file->reader);
    struct fy_reader *reader = file->reader;
    if (!reader) {
        return false;
    }
    file->free_reader = free_reader;
    bool near = offset <= reader->expected + NEAR_BYTES &&
                offset + NEAR_BYTES >= reader->expected;
    if (near && reader->expected > 0) {
        reader->in_order++;
    } else if (offset > 0) {
        reader->in_order = 0;
        reader->window = 0;
        reader->end = 0;
    }
    uint64_t after = offset + later->length;
    reader->expected =
        near && reader->expected > after ? reader->expected : after;
    clean(reader, node, offset > NEAR_BYTES ? offset - NEAR_BYTES : 0);
    if (reader->in_order >= IN_ORDER) {
        unsigned most = most_parts(client);
        reader->window = reader->window * 2 + 2;
        reader->window = reader->window < most ? reader->window : most;
        go_on(client, node, offset);
    }
    struct part *part = *find(reader, offset);
    if (!part || later->offset + later->length > part->offset + PART_BYTES) {
        return false;
    }
    if (part->asked) {
        struct fy_later waits = *later;
        (void)fy_file_wait(client, &part->waiting, &waits);
    } else {
        struct fy_later now = *later;
        reply(part, &now);
    }
    return true;
}
