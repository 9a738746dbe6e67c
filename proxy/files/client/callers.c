/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the kernel whose callers got a signal. The kernel tells of the first one
 * only, so that those who wait are looked at again and again until they are answered.
 */
#include "config.h"

#include "proxy/files/client/client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

static const uint64_t poll_ns = 500000000;

/* Whether the thread is about to be killed: then it waits for nothing else. Other signals
 * must not end a call that programs do not expect to be interrupted. */
static bool
is_dying(pid_t thread)
{
    char path[40], line[128];
    unsigned found = 0;
    bool dying = false;
    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)thread);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long long pending;
        if (sscanf(line, "SigPnd: %llx", &pending) == 1 ||
            sscanf(line, "ShdPnd: %llx", &pending) == 1) {
            dying = dying || (pending >> (SIGKILL - 1) & 1) != 0;
            found++;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return dying || found == 0; /* it is gone */
}

/* The call ends for its caller; the answer is still awaited. */
static void
let_go(struct fy_client *client, struct fy_call *call)
{
    fuse_req_t request = call->request;
    call->request = NULL;
    fuse_req_interrupt_func(request, NULL, NULL);
    fuse_reply_err(request, EINTR);
    fy_tell(client, &(struct fy_files_message){.type = FY_FILES_CANCEL,
                                               .number = call->id});
}

/* A lock that is waited for ends by any signal. */
static bool
may_end(const struct fy_call *call)
{
    struct fy_files_message asked;
    size_t n;
    return is_dying(fuse_req_ctx(call->request)->pid) ||
           (fy_files_decode(call->frame.bytes, call->frame.n, &asked, &n,
                            NULL) == 0 &&
            asked.type == FY_FILES_LOCK && (asked.flags & FY_FILES_WAIT));
}

/* Those who wait for no call of their own. */
static bool
poll_callers(struct fy_client *client)
{
    bool more = false;
    for (struct fy_caller *caller = client->calls.callers, *next; caller;
         caller = next) {
        next = caller->next;
        if (caller->interrupted) {
            if (is_dying(fuse_req_ctx(caller->request)->pid)) {
                fuse_reply_err(fy_caller_take(caller), EINTR);
            } else {
                more = true;
            }
        }
    }
    return more;
}

void
fy_callers_poll(void *owner)
{
    struct fy_client *client = owner;
    bool more = poll_callers(client);
    for (struct fy_call *call = client->calls.first, *next; call; call = next) {
        next = call->next;
        if (call->interrupted && call->request) {
            if (may_end(call)) {
                let_go(client, call);
            } else {
                more = true;
            }
        }
    }
    if (more) {
        fy_loop_set(&client->loop, &client->calls.poll, poll_ns);
    }
}

void
fy_callers_watch(struct fy_client *client)
{
    if (client->calls.poll.due_ns == 0) {
        fy_loop_set(&client->loop, &client->calls.poll, poll_ns);
    }
}

void
fy_call_interrupted(fuse_req_t request, void *data)
{
    struct fy_client *client = fuse_req_userdata(request);
    struct fy_call *call = data;
    if (call->id == 0) {
        return;
    }
    call->interrupted = true;
    /* Not here: the session still handles the request. */
    fy_loop_set(&client->loop, &client->calls.poll, 1000000);
}

static void
interrupt_caller(fuse_req_t request, void *data)
{
    struct fy_client *client = fuse_req_userdata(request);
    struct fy_caller *caller = data;
    caller->interrupted = true;
    fy_loop_set(&client->loop, &client->calls.poll, 1000000);
}

void
fy_caller_add(struct fy_client *client, struct fy_caller *caller,
              fuse_req_t request)
{
    *caller = (struct fy_caller){.request = request,
                                 .next = client->calls.callers,
                                 .link = &client->calls.callers};
    if (request) {
        if (caller->next) {
            caller->next->link = &caller->next;
        }
        client->calls.callers = caller;
        fuse_req_interrupt_func(request, interrupt_caller, caller);
    }
}

fuse_req_t
fy_caller_take(struct fy_caller *caller)
{
    fuse_req_t request = caller->request;
    if (request) {
        fuse_req_interrupt_func(request, NULL, NULL);
        *caller->link = caller->next;
        if (caller->next) {
            caller->next->link = caller->link;
        }
        caller->request = NULL;
    }
    return request;
}

void
fy_reply_status(fuse_req_t request, int status)
{
    if (request) {
        fuse_reply_err(request, -status);
    }
}
