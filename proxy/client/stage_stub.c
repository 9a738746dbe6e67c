/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stub says of its stage: the hello, which decides whether it may run
 * elsewhere, the frames, and that it is gone. The table at the end is what the
 * parts below the stages tell them.
 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/debug.h"
#include "common/path.h"
#include "proxy/client/holders.h"
#include "proxy/client/peer.h"
#include "proxy/client/stage.h"

/* ---- the hello ------------------------------------------------------------------------ */

/* Pointers to `count' strings at *at; false: there are not as many. */
static bool
split_strings(const char **out, uint32_t count, const char **at,
              const char *end)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *nul = memchr(*at, '\0', (size_t)(end - *at));
        if (!nul) {
            return false;
        }
        out[i] = *at;
        *at = nul + 1;
    }
    return true;
}

static int
read_hello(struct stage *stage, const char *body, size_t n)
{
    if (n < sizeof stage->hello) {
        return FY_ERR_INVALID;
    }
    memcpy(&stage->hello, body, sizeof stage->hello);
    size_t rest = n - sizeof stage->hello;
    const struct fy_stub_hello *hello = &stage->hello;
    if (hello->version != FY_STUB_VERSION || hello->argc == 0 ||
        hello->argc > rest || hello->envc > rest) {
        return FY_ERR_INVALID;
    }
    stage->block = malloc(rest);
    stage->argv = calloc(hello->argc + 1u, sizeof *stage->argv);
    stage->env = calloc(hello->envc + 1u, sizeof *stage->env);
    if (!stage->block || !stage->argv || !stage->env) {
        return FY_ERR_NOMEM;
    }
    memcpy(stage->block, body + sizeof *hello, rest);
    const char *at = stage->block, *end = stage->block + rest;
    if (!split_strings(&stage->facts.path, 1, &at, end) ||
        !split_strings(stage->argv, hello->argc, &at, end) ||
        !split_strings(stage->env, hello->envc, &at, end) || at != end) {
        return FY_ERR_INVALID;
    }
    return 0;
}

/* What the descriptors are. Those that are moved later are kept. False when one
 * is missing (the kernel drops what this process has no room for), or unknown. */
static bool
read_fds(struct stage *stage, struct stub_client *client)
{
    struct fy_stage_facts *facts = &stage->facts;
    unsigned at = 0;
    bool known = true;
    for (int fd = 0; fd < 3; fd++) {
        if (stage->hello.open >> fd & 1) {
            known = known && at < client->nfds &&
                    fy_stream_look(client->fds[at], &facts->streams[fd]) == 0;
            at++;
        }
    }
    struct fy_stream_fact folder;
    known = known && at < client->nfds &&
            fy_stream_look(client->fds[at], &folder) == 0;
    if (known && fy_stream_has_name(&folder)) {
        memcpy(facts->cwd, folder.path, sizeof facts->cwd);
        facts->cwd_mount = folder.mount;
    }
    facts->argv = stage->argv;
    facts->env = stage->env;
    facts->same = stage->hello.same;
    facts->umask = stage->hello.umask;
    if (stage->hello.extra_fds > 0) {
        facts->extra_fds =
            fy_holders_extra(stage->session->scan.holders, stage->hello.pid,
                             &facts->extra_pipes);
    }
    return known;
}

static void
keep_files(struct stage *stage, struct stub_client *client)
{
    const enum fy_stream_kind kinds[3] = {
        stage->plan.in.kind, stage->plan.out.kind, stage->plan.err.kind};
    unsigned at = 0;
    for (int fd = 0; fd < 3; fd++) {
        if (!(stage->hello.open >> fd & 1) || at >= client->nfds) {
            continue;
        }
        if (kinds[fd] == FY_STREAM_FILE) {
            stage->files[fd] = fcntl(client->fds[at], F_DUPFD_CLOEXEC, 3);
        }
        at++;
    }
}

/*
 * Where others write to the same open file, all must go through its one offset:
 * the bytes come here, and the stub writes them. A parent that only waits for the
 * stub is none of them: the offset is set before the stub ends. It is one where
 * the file is appended to: the client's end of a file is one that it remembers.
 * What looks whether it reads its own output cannot see that then.
 */
static unsigned
settle_shared(struct stage *stage, struct fy_buffer *why)
{
    struct fy_stream_plan *plans[] = {&stage->plan.out, &stage->plan.err};
    for (int i = 0; i < 2; i++) {
        const struct fy_stream_fact *fact = &stage->facts.streams[i + 1];
        if (plans[i]->kind != FY_STREAM_FILE ||
            fy_holders_only(stage->session->scan.holders, fact->path,
                            fact->device, fact->inode, stage->hello.pid,
                            !(fact->flags & O_APPEND))) {
            continue;
        }
        if (fy_classify_reads(&stage->facts, &stage->invocation,
                              plans[i]->path)) {
            fy_buffer_printf(why, "others have its output open: %s",
                             plans[i]->path);
            return FY_STAGE_ODD_STREAM;
        }
        plans[i]->kind = FY_STREAM_WIRE;
    }
    return FY_STAGE_NONE;
}

/* Whether the program is the one that its annotation speaks of. */
static bool
is_meant(const struct stage *stage)
{
    static const char *const folders[] = {"/bin/", "/sbin/", "/usr/bin/",
                                          "/usr/sbin/"};
    const char *library = stage->session->options.library;
    const char *path = stage->facts.path;
    if (!library || !stage->invocation.file ||
        strncmp(stage->invocation.file, library, strlen(library)) != 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t n = strlen(folders[i]);
        if (strncmp(path, folders[i], n) == 0 && !strchr(path + n, '/')) {
            return true;
        }
    }
    return false;
}

/*
 * Whether command lines that are filled with paths hold as many on both hosts: 128
 * KiB of them, unless the limits leave less beside the environment, which is not
 * the same there.
 */
static bool
fills_alike(const struct stage *stage)
{
    const size_t environment_max = 512 << 10;
    const uint64_t stack_min = 4 << 20;
    size_t bytes = 0;
    for (uint32_t i = 0; i < stage->hello.envc; i++) {
        bytes += strlen(stage->env[i]) + 1 + sizeof(char *);
    }
    return bytes < environment_max &&
           stage->hello.limits[RLIMIT_STACK][0] >= stack_min;
}

/* Compares the limits that the stub claims with those that the kernel keeps. */
static bool
has_those_limits(const struct fy_stub_hello *hello, pid_t pid)
{
    struct rlimit now;
    for (int i = 0; i < 16; i++) {
        if (prlimit(pid, (__rlimit_resource_t)i, NULL, &now) != 0 ||
            now.rlim_cur != hello->limits[i][0] ||
            now.rlim_max != hello->limits[i][1]) {
            return false;
        }
    }
    return true;
}

/* FY_STAGE_NONE: a candidate. */
static unsigned
understand(struct stage *stage, struct stub_client *client,
           struct fy_buffer *why)
{
    struct fy_session *session = stage->session;
    const char *name = fy_path_name(stage->facts.path);
    if (__atomic_load_n(&session->ending, __ATOMIC_ACQUIRE) > 1) {
        return FY_STAGE_DISABLED;
    }
    int status =
        fy_invocation_parse(session->options.commands, name, stage->argv,
                            stage->env, &stage->invocation, why);
    if (status) {
        return status == FY_ERR_NOENT         ? FY_STAGE_NOT_ANNOTATED
               : status == FY_ERR_UNSUPPORTED ? FY_STAGE_FORBIDDEN
                                              : FY_STAGE_NOT_PARSED;
    }
    stage->parsed = true;
    if (!has_those_limits(&stage->hello, client->pid)) {
        fy_buffer_add(why, "other limits than it says");
        return FY_STAGE_OTHER_VIEW;
    }
    if (!fy_peer_is_like_us(session->peer, client->watch.fd, client->pid,
                            why)) {
        return FY_STAGE_OTHER_VIEW;
    }
    if (!is_meant(stage)) {
        fy_buffer_printf(why, "no tool of the system: %s", stage->facts.path);
        return FY_STAGE_OTHER_TOOL;
    }
    if (stage->invocation.batches && !fills_alike(stage)) {
        fy_buffer_add(why, "it runs commands with as many words as fit");
        return FY_STAGE_LIMITS;
    }
    if (!read_fds(stage, client)) {
        fy_buffer_add(why, "its descriptors cannot be looked at");
        return FY_STAGE_ODD_STREAM;
    }
    unsigned reason =
        fy_classify(&stage->facts, &stage->invocation, session->mounts,
                    session->nmounts, &stage->plan, why);
    if (reason == FY_STAGE_MIXED_PLACES) {
        return fy_parts_make(stage, why);
    }
    if (!reason) {
        reason = settle_shared(stage, why);
    }
    if (!reason) {
        keep_files(stage, client);
    }
    return reason;
}

static void
begin(struct stub_client *client, const char *body, size_t n)
{
    struct stage *stage = calloc(1, sizeof *stage);
    char text[256] = "";
    struct fy_buffer why;
    if (!stage) {
        fy_stub_client_drop(client);
        return;
    }
    stage->session = client->session;
    fy_stage_clear(stage);
    stage->began_ns = fy_clock_ns();
    if (read_hello(stage, body, n) || stage->hello.pid != client->pid) {
        free(stage->block);
        free(stage->argv);
        free(stage->env);
        free(stage);
        fy_stub_client_drop(client);
        return;
    }
    stage->client = client;
    client->stage = stage;
    stage->next = client->session->stages;
    client->session->stages = stage;
    fy_record_new(stage);
    fy_buffer_start(&why, text, sizeof text);
    unsigned reason = understand(stage, client, &why);
    fy_stub_client_close_fds(client);
    fy_debug(CLIENT, "stage of pid %d: %s with %u words, %s: %s %s",
             stage->hello.pid, stage->facts.path, stage->hello.argc,
             stage->parsed ? "matches its annotation" : "does not match",
             reason ? fy_stage_reason_word(reason) : "a candidate", text);
    if (reason) {
        fy_stage_decline(stage, reason, text);
        return;
    }
    if (stage->parts) {
        fy_parts_start(stage);
        return;
    }
    stage->input.streams = stage->plan.in.kind == FY_STREAM_WIRE;
    if (stage->input.streams && !fy_input_is_own(stage)) {
        fy_stage_decline(stage, FY_STAGE_LOCAL_INPUT,
                         "others may read that file as well");
        return;
    }
    stage->mount = stage->plan.mount;
    if (stage->mount) {
        stage->connection = fy_connection_of(stage->session, stage->mount);
    }
    if (stage->plan.needs_link) {
        fy_stage_event(stage, STAGE_LACKS_INPUT);
        fy_stage_prepare(stage);
    } else {
        fy_stage_place(stage);
    }
}

/* ---- what the stub says ------------------------------------------------------------------ */

static void
frame(struct stage *stage, uint32_t type, const char *body, size_t n)
{
    uint32_t word = 0;
    uint16_t size[2];
    struct fy_stub_broken broken;
    if (n >= sizeof word) {
        memcpy(&word, body, sizeof word);
    }
    switch (type) {
    case FY_STUB_READABLE:
        if (stage->state == STAGE_WAIT_INPUT && stage->plan.may_stream) {
            stage->input.fed_here = true; /* link.c looks for the others */
            fy_link_wake(stage->session);
        } else if (stage->state == STAGE_WAIT_INPUT) {
            fy_stage_decline(stage, FY_STAGE_LOCAL_INPUT,
                             "its input comes from this machine");
        }
        break;
    case FY_STUB_INPUT:
        fy_input_add(stage, body, n);
        break;
    case FY_STUB_INPUT_END:
        fy_input_end(stage);
        break;
    case FY_STUB_FULL:
        fy_input_full(stage);
        break;
    case FY_STUB_CREDIT:
        fy_flow_credit(stage, word);
        break;
    case FY_STUB_SIGNAL:
        fy_signal_take(stage, word);
        break;
    case FY_STUB_PONG:
        fy_signal_answered(stage);
        break;
    case FY_STUB_WINDOW:
        if (n >= sizeof size) {
            memcpy(size, body, sizeof size);
            fy_flow_window(stage, size[0], size[1]);
        }
        break;
    case FY_STUB_BROKEN:
        if (n >= sizeof broken) {
            memcpy(&broken, body, sizeof broken);
            fy_flow_broken(stage, broken.fd, broken.error);
        }
        break;
    default:
        break;
    }
}

static void
orphan(struct stage *stage)
{
    stage->client = NULL;
    if (stage->state == STAGE_DONE) {
        return;
    }
    /* The stub was killed, or SIGPIPE ended it: the command there must end
     * too. */
    fy_stage_note(stage, FY_STAGE_NONE, "its stub was ended", -1);
    struct stage *feeder = stage->join.fed_by, *reader = stage->join.feeds;
    bool asked = stage->state == STAGE_ASKED;
    fy_stage_detach(stage);
    fy_stage_finish(stage);
    if (feeder) {
        /* The proxy may not have joined them yet: then what feeds it writes
         * into the real pipe, and learns there that it has no reader. */
        if (asked) {
            fy_stage_open(feeder);
        }
        fy_stage_try_end(feeder);
    }
    if (reader) {
        fy_stage_try_end(reader); /* it may wait for this stage's result */
    }
}

const struct fy_session_calls fy_stage_calls = {
    .begin = begin,
    .frame = frame,
    .orphan = orphan,
    .reached = fy_stages_reached,
    .looked = fy_stage_looked,
    .placed = fy_stage_placed,
    .prepared = fy_stage_prepared,
    .closed = fy_stage_retry,
    .try_end = fy_stage_try_end,
    .decline = fy_stage_decline,
    .out = &fy_out_exchange,
    .err = &fy_err_exchange,
};
