/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the server: encoded, sent in order as far as the stream has room, kept
 * until they are answered, sent again after a break; messages are decoded, checked
 * and handed on. No other file checks the server's words. Long because a call's
 * sending, repetition and answer are one life.
 */
#include "config.h"

#include "proxy/files/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/debug.h"

enum {
    ACK_ANSWERS = 64, /* are acknowledged together */
    TRIES_MAX = 16,   /* of a call whose names move */
    IN_BYTES = FY_FILES_FRAME_BYTES + FY_FILES_HEAD_BYTES,
    FLAGS_AT = 5, /* of a frame's head */
    ID_AT = 8,
};

/* ---- the table of open calls ------------------------------------------------------------- */

static struct fy_call **
chain_of(struct fy_calls *calls, uint64_t id)
{
    return &calls->chains[id % FY_CALL_CHAINS];
}

static struct fy_call *
find(struct fy_calls *calls, uint64_t id)
{
    struct fy_call *call = *chain_of(calls, id);
    while (call && call->id != id) {
        call = call->chain;
    }
    return call;
}

static void
append(struct fy_calls *calls, struct fy_call *call)
{
    call->next = NULL;
    call->before = calls->last;
    *(calls->last ? &calls->last->next : &calls->first) = call;
    calls->last = call;
    calls->unsent = calls->unsent ? calls->unsent : call;
    if (call->id != 0) {
        struct fy_call **chain = chain_of(calls, call->id);
        call->chain = *chain;
        *chain = call;
        calls->open++;
    }
}

static void
take_out(struct fy_calls *calls, struct fy_call *call)
{
    if (calls->unsent == call) {
        calls->unsent = call->next;
        calls->unsent_at = 0;
    }
    *(call->before ? &call->before->next : &calls->first) = call->next;
    *(call->next ? &call->next->before : &calls->last) = call->before;
    if (call->id != 0) {
        struct fy_call **link = chain_of(calls, call->id);
        while (*link != call) {
            link = &(*link)->chain;
        }
        *link = call->chain;
        calls->open--;
    }
}

static void
free_call(struct fy_client *client, struct fy_call *call)
{
    struct fy_node *node = call->node, *other = call->other;
    fy_files_out_free(&call->frame);
    free(call);
    fy_tree_drop(&client->tree, node);
    fy_tree_drop(&client->tree, other);
}

/* ---- sending ------------------------------------------------------------------------------- */

void
fy_calls_send(struct fy_client *client)
{
    struct fy_calls *calls = &client->calls;
    while (calls->ready && calls->unsent) {
        struct fy_call *call = calls->unsent;
        size_t room = fy_stream_room(&client->stream);
        size_t n = call->frame.n - calls->unsent_at;
        n = n < room ? n : room;
        if (n == 0 || (call->grows && !call->next)) {
            return;
        }
        fy_stream_send(&client->stream, call->frame.bytes + calls->unsent_at,
                       n);
        call->sent = true;
        calls->unsent_at += n;
        if (calls->unsent_at < call->frame.n) {
            return;
        }
        calls->unsent_at = 0;
        calls->unsent = call->next;
        if (call->id == 0) {
            take_out(calls, call);
            free_call(client, call);
        }
    }
}

/* Where the server finds the nodes of a call. */
static bool
find_nodes(struct fy_client *client, const struct fy_call *call,
           struct fy_files_message *message)
{
    return (!call->node ||
            fy_node_where(call->node, client->paths[0], &message->node)) &&
           (!call->other ||
            fy_node_where(call->other, client->paths[1], &message->other));
}

/* The frame, and the call that holds it; 0 or an errno. */
static int
make_call(struct fy_client *client, const struct fy_call *like,
          struct fy_files_message *message, struct fy_call **out)
{
    struct fy_files_out frame = {0};
    struct fy_call *call = malloc(sizeof *call);
    int status = call ? fy_files_encode(message, &frame) : FY_ERR_NOMEM;
    if (status) {
        free(call);
        return status == FY_ERR_OVERFLOW ? ENAMETOOLONG : ENOMEM;
    }
    *call = *like;
    call->id = message->id;
    call->frame = frame;
    call->sent = call->doubtful = false;
    call->version = call->node ? call->node->version : 0;
    call->stamp = client->stamp;
    fy_node_hold(call->node);
    fy_node_hold(call->other);
    *out = call;
    client->counts.requests[message->type]++;
    return 0;
}

void
fy_ask(struct fy_client *client, const struct fy_call *like,
       struct fy_files_message *message)
{
    struct fy_calls *calls = &client->calls;
    struct fy_call *call;
    int error = calls->failing                       ? EIO
                : !find_nodes(client, like, message) ? ESTALE
                                                     : 0;
    message->id = calls->next_id;
    error = error ? error : make_call(client, like, message, &call);
    if (error) {
        struct fy_call unasked = *like;
        struct fy_files_message answer = {.type = message->type,
                                          .frame_flags = FY_FILES_ANSWER,
                                          .status = -error};
        unasked.answered(client, &unasked, message, &answer);
        return;
    }
    calls->next_id++;
    fy_debug(CLIENT, "mount: %s %.*s%s%.*s, %s",
             fy_files_type_name(message->type), (int)message->node.path.n,
             message->node.path.at, message->name.n ? "/" : "",
             (int)message->name.n, message->name.at,
             call->request ? "waited for" : "ahead");
    append(calls, call);
    if (call->request) {
        fuse_req_interrupt_func(call->request, fy_call_interrupted, call);
        if (call->interrupted) {
            fy_callers_watch(client);
        }
    }
    fy_calls_send(client);
}

bool
fy_calls_join(struct fy_client *client, const struct fy_node *node,
              uint64_t offset, const void *bytes, size_t n)
{
    struct fy_call *call = client->calls.last;
    struct fy_files_message asked;
    size_t used;
    return call && call->grows && call->node == node && !call->sent &&
           fy_files_decode(call->frame.bytes, call->frame.n, &asked, &used,
                           NULL) == 0 &&
           asked.offset + asked.data.n == offset &&
           fy_files_data_add(&call->frame, bytes, n) == 0;
}

void
fy_calls_push(struct fy_client *client)
{
    if (client->calls.last) {
        client->calls.last->grows = false;
    }
    fy_calls_send(client);
}

void
fy_tell(struct fy_client *client, struct fy_files_message *message)
{
    const struct fy_call none = {0};
    struct fy_call *call;
    message->id = 0;
    if (!client->calls.failing &&
        make_call(client, &none, message, &call) == 0) {
        append(&client->calls, call);
        fy_calls_send(client);
    }
}

/* ---- calls that another process may have done ------------------------------------------------ */

/* The original call, while its effect is looked for. */
struct doubt {
    struct fy_call call;
    struct fy_files_out asked; /* its frame */
    int status;
};

/* The name's file tells if the call was done before its repetition failed. */
static void
effect_looked_for(struct fy_client *client, struct fy_call *look,
                  const struct fy_files_message *asked,
                  const struct fy_files_message *found)
{
    struct doubt *doubt = look->context;
    struct fy_call *call = &doubt->call;
    struct fy_files_message original, answer = {.frame_flags = FY_FILES_ANSWER};
    size_t n;
    (void)asked;
    bool good = fy_files_decode(doubt->asked.bytes, doubt->asked.n, &original,
                                &n, NULL) == 0 &&
                found->status == 0 && (found->flags & FY_FILES_PRESENT) &&
                (original.type == FY_FILES_MAKE
                     ? (found->attr.mode & S_IFMT) == (original.mode & S_IFMT)
                 : original.type == FY_FILES_LINK
                     ? found->attr.ino == call->node->attr.ino
                     : found->attr.ino == original.number);
    answer.type = original.type;
    answer.status = good ? 0 : doubt->status;
    if (good) {
        answer.flags = FY_FILES_MADE;
        answer.attr = found->attr;
        answer.other_attr = original.type == FY_FILES_LINK ? call->other->attr
                                                           : call->node->attr;
        answer.third_attr = call->other ? call->other->attr : answer.attr;
    }
    call->request = look->request;
    call->answered(client, call, &original, &answer);
    fy_tree_drop(&client->tree, call->node);
    fy_tree_drop(&client->tree, call->other);
    fy_files_out_free(&doubt->asked);
    free(doubt);
}

/* Whether the failure may be that of a repetition: then it is found out, and the call is
 * answered later. */
static bool
look_for_effect(struct fy_client *client, struct fy_call *call,
                struct fy_files_message *asked, int status)
{
    bool makes = asked->type == FY_FILES_MAKE || asked->type == FY_FILES_LINK;
    if (!call->doubtful ||
        (makes ? status != -EEXIST
               : asked->type != FY_FILES_RENAME ||
                     (status != -ENOENT && status != -ESTALE))) {
        return false;
    }
    struct doubt *doubt = calloc(1, sizeof *doubt);
    if (!doubt || fy_files_encode(asked, &doubt->asked)) {
        free(doubt);
        return false;
    }
    doubt->call = *call;
    doubt->status = status;
    fy_node_hold(call->node);
    fy_node_hold(call->other);
    fy_ask(client,
           &(struct fy_call){.request = call->request,
                             .answered = effect_looked_for,
                             .node = asked->type == FY_FILES_MAKE ? call->node
                                                                  : call->other,
                             .context = doubt},
           &(struct fy_files_message){.type = FY_FILES_LOOKUP,
                                      .name = asked->type == FY_FILES_RENAME
                                                  ? asked->other_name
                                                  : asked->name});
    return true;
}

/* A name that a repeated removal did not find was removed by the first one. */
static void
forgive(const struct fy_call *call, const struct fy_files_message *asked,
        struct fy_files_message *answer)
{
    if (call->doubtful && asked->type == FY_FILES_REMOVE &&
        (answer->status == -ENOENT || answer->status == -ESTALE)) {
        answer->status = 0;
        answer->other_attr = call->node->attr;
        answer->attr = call->other ? call->other->attr : call->node->attr;
        answer->attr.nlink = 0;
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

/*
 * The names of the call's nodes moved while it was on its way (a rename or removal whose
 * answer came meanwhile): it is asked again. False: it was not that.
 */
static bool
ask_again(struct fy_client *client, struct fy_call *call,
          struct fy_files_message *asked, int status)
{
    struct fy_files_message now = *asked;
    if ((status != -ESTALE && status != -ENOENT) || !call->node ||
        call->tries >= TRIES_MAX || !find_nodes(client, call, &now) ||
        (now.node.kept == asked->node.kept &&
         now.node.path.n == asked->node.path.n &&
         (now.node.path.n == 0 || memcmp(now.node.path.at, asked->node.path.at,
                                         now.node.path.n) == 0))) {
        return false;
    }
    call->tries++;
    fy_ask(client, call, &now);
    return true;
}

static void
acknowledge(struct fy_client *client)
{
    struct fy_calls *calls = &client->calls;
    const struct fy_call *call = calls->first;
    while (call && call->id == 0) {
        call = call->next;
    }
    uint64_t upto = call ? call->id - 1 : calls->next_id - 1;
    calls->unacked = 0;
    if (upto > calls->acked && calls->ready) {
        calls->acked = upto;
        fy_tell(client, &(struct fy_files_message){.type = FY_FILES_ACK,
                                                   .number = upto});
    }
}

static void
finish(struct fy_client *client, struct fy_call *call,
       struct fy_files_message *answer)
{
    struct fy_files_message asked;
    size_t n;
    bool more = (answer->frame_flags & FY_FILES_MORE) && answer->status == 0;
    if (fy_files_decode(call->frame.bytes, call->frame.n, &asked, &n, NULL)) {
        fy_debug_expect(false);
        return;
    }
    if (more) {
        call->answered(client, call, &asked, answer);
        return;
    }
    take_out(&client->calls, call);
    if (call->request) {
        fuse_req_interrupt_func(call->request, NULL, NULL);
        client->counts.waited++;
    }
    forgive(call, &asked, answer);
    if (!ask_again(client, call, &asked, answer->status) &&
        !look_for_effect(client, call, &asked, answer->status)) {
        client->counts.errors += answer->status != 0;
        call->answered(client, call, &asked, answer);
    }
    free_call(client, call);
    if (++client->calls.unacked >= ACK_ANSWERS) {
        acknowledge(client);
    }
}

/* The node, if it has a name, is asked by that, as nothing is held any more. */
static bool
is_by_name(struct fy_node *node)
{
    bool named = node && node->names && node->attr.ino != 0;
    if (named) {
        node->kept = 0;
    }
    return named;
}

/* Another process serves: it holds nothing under the client's numbers. A call for a file
 * that was made early and has a name by now is sent with that. */
static void
address_anew(struct fy_client *client, struct fy_call *call)
{
    struct fy_files_message asked;
    struct fy_files_out frame = {0};
    size_t n;
    if (fy_files_decode(call->frame.bytes, call->frame.n, &asked, &n, NULL)) {
        return;
    }
    bool named = (asked.node.kept != 0 && is_by_name(call->node)) ||
                 (asked.other.kept != 0 && is_by_name(call->other));
    if (named && find_nodes(client, call, &asked) &&
        fy_files_encode(&asked, &frame) == 0) {
        fy_files_out_free(&call->frame);
        call->frame = frame;
    }
}

static void
hello_answered(struct fy_client *client, const struct fy_files_message *answer)
{
    struct fy_calls *calls = &client->calls;
    if (answer->status != 0) {
        char text[80];
        (void)snprintf(text, sizeof text, "%s",
                       strerrordesc_np(-answer->status));
        fy_stream_break(&client->stream, text, true);
        return;
    }
    calls->ready = true;
    calls->changes_before = calls->changes;
    calls->failing = false;
    client->broken_ns = 0;
    fy_loop_unset(&client->loop, &client->soft);
    client->owners.there_uid = answer->uid;
    client->owners.there_gid = answer->gid;
    if (!client->tree.root) {
        client->events->greeted(client, answer);
    } else if (!(answer->flags & FY_FILES_RESUMED)) {
        for (struct fy_call *call = calls->first; call; call = call->next) {
            call->doubtful = call->doubtful || call->sent;
            address_anew(client, call);
        }
        client->events->replaced(client);
    }
    calls->token_bytes = answer->data.n < sizeof calls->token
                             ? answer->data.n
                             : sizeof calls->token;
    memcpy(calls->token, answer->data.at, calls->token_bytes);
    fy_calls_send(client);
}

/* False: it makes no sense. */
static bool
handle(struct fy_client *client, struct fy_files_message *message)
{
    struct fy_calls *calls = &client->calls;
    bool answer = (message->frame_flags & FY_FILES_ANSWER) != 0;
    if (message->id == 0) {
        bool notice =
            message->type == FY_FILES_CHANGED || message->type == FY_FILES_LOST;
        if (notice && client->tree.root) {
            client->events->noticed(client, message);
        }
        return notice;
    }
    if (answer && message->type == FY_FILES_HELLO &&
        message->id == calls->hello_id && !calls->ready) {
        hello_answered(client, message);
        return true;
    }
    struct fy_call *call = answer ? find(calls, message->id) : NULL;
    if (!call || (unsigned char)call->frame.bytes[4] != message->type ||
        !call->sent || call == calls->unsent || !calls->ready) {
        return false;
    }
    calls->changes += fy_files_type_changes(message->type);
    finish(client, call, message);
    return true;
}

/* Decodes complete frames; returns the bytes that were used. */
static size_t
decode(struct fy_client *client, const char *bytes, size_t n)
{
    size_t used = 0;
    while (!client->stream.trouble[0]) {
        struct fy_files_message message;
        size_t frame;
        char text[120] = "";
        struct fy_buffer why;
        fy_buffer_start(&why, text, sizeof text);
        int status =
            fy_files_decode(bytes + used, n - used, &message, &frame, &why);
        if (status == FY_ERR_BUSY) {
            break;
        }
        if (status || !handle(client, &message)) {
            fy_buffer_add(&why, status ? "" : "an answer to nothing");
            fy_stream_break(&client->stream, text, false);
            break;
        }
        used += frame;
    }
    return used;
}

void
fy_calls_take(struct fy_client *client, const void *bytes, size_t n)
{
    struct fy_calls *calls = &client->calls;
    const char *at = bytes;
    if (calls->in_used == 0) {
        size_t used = decode(client, at, n);
        at += used;
        n -= used;
    }
    while (n > 0 && !client->stream.trouble[0]) {
        if (!calls->in) {
            calls->in = malloc(IN_BYTES);
            if (!calls->in) {
                fy_stream_break(&client->stream, "no memory", false);
                return;
            }
        }
        /* A frame fits, so there is room unless a complete frame waits. */
        size_t part = IN_BYTES - calls->in_used;
        part = part < n ? part : n;
        memcpy(calls->in + calls->in_used, at, part);
        calls->in_used += part;
        at += part;
        n -= part;
        size_t used = decode(client, calls->in, calls->in_used);
        calls->in_used -= used;
        memmove(calls->in, calls->in + used, calls->in_used);
    }
}

/* ---- the begin and the end of a stream ------------------------------------------------------- */

void
fy_calls_opened(struct fy_client *client)
{
    const struct fy_files_mount_options *options = client->options;
    struct fy_calls *calls = &client->calls;
    struct fy_files_out frame = {0};
    struct fy_files_message hello = {
        .type = FY_FILES_HELLO,
        .id = calls->next_id++,
        .number = FY_FILES_VERSION,
        .offset = calls->acked,
        .flags = (options->read_only ? FY_FILES_READ_ONLY : 0u) |
                 (options->numbers ? FY_FILES_USERS : 0u) |
                 (options->devices ? FY_FILES_DEVICES : 0u),
        .name = {client->place.path, strlen(client->place.path)},
        .data = {calls->token, calls->token_bytes},
    };
    calls->hello_id = hello.id;
    calls->ready = false;
    if (fy_files_encode(&hello, &frame)) {
        fy_stream_break(&client->stream, "no memory", false);
        return;
    }
    client->counts.requests[FY_FILES_HELLO]++;
    fy_stream_send(&client->stream, frame.bytes, frame.n);
    fy_files_out_free(&frame);
}

void
fy_calls_broken(struct fy_client *client)
{
    struct fy_calls *calls = &client->calls;
    calls->ready = false;
    calls->in_used = 0;
    calls->unsent = calls->first;
    calls->unsent_at = 0;
    for (struct fy_call *call = calls->first; call; call = call->next) {
        if (call->sent && call->id != 0) {
            call->frame.bytes[FLAGS_AT] =
                (char)((unsigned char)call->frame.bytes[FLAGS_AT] |
                       FY_FILES_AGAIN);
        }
    }
}

void
fy_calls_fail(struct fy_client *client, int status, bool failing)
{
    struct fy_calls *calls = &client->calls;
    calls->failing = failing;
    while (calls->first) {
        struct fy_call *call = calls->first;
        if (call->id == 0) {
            take_out(calls, call);
            free_call(client, call);
            continue;
        }
        struct fy_files_message answer = {
            .type = (enum fy_files_type)call->frame.bytes[4],
            .frame_flags = FY_FILES_ANSWER,
            .id = call->id,
            .status = status};
        call->tries = TRIES_MAX;
        finish(client, call, &answer);
    }
}

void
fy_calls_close(struct fy_client *client)
{
    fy_loop_unset(&client->loop, &client->calls.poll);
    free(client->calls.in);
    client->calls.in = NULL;
}

void
fy_calls_start(struct fy_client *client)
{
    client->calls.next_id = 1;
    client->calls.poll =
        (struct fy_timer){.run = fy_callers_poll, .owner = client};
}
