/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stand-ins for what decides about a stage: everything is allowed but what a
 * test names, and the sandbox only changes folder.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/commands/command.h"
#include "annotations/model/model.h"
#include "common/settings.h"
#include "proxy/sandbox/sandbox.h"
#include "proxy/storage/store.h"
#include "tests/patience.h"
#include "tests/unit/proxy_client.h"

struct double_rules double_rules;

struct fy_policy {
    int unused;
};

struct fy_sandbox {
    char *program, *cwd;
};

int
fy_policy_new(bool landlock, struct fy_policy **out)
{
    (void)landlock;
    *out = calloc(1, sizeof **out);
    return *out ? 0 : FY_ERR_NOMEM;
}

void
fy_policy_end(struct fy_policy *policy)
{
    (void)policy;
}

void
fy_policy_leave(struct fy_policy *policy)
{
    (void)policy;
}

void
fy_policy_free(struct fy_policy *policy)
{
    free(policy);
}

void
fy_policy_describe(struct fy_policy *policy, struct fy_hello *hello)
{
    (void)policy;
    if (access("stuck", F_OK) == 0) {
        (void)sleep((unsigned)patient(
            30)); /* a check that waits for a disk has the lock */
    }
    hello->landlock = 7;
}

int
fy_policy_open_root(struct fy_policy *policy, const char *root, int *out_fd,
                    unsigned *out_reason, struct fy_buffer *why)
{
    (void)policy;
    *out_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*out_fd < 0) {
        *out_reason = FY_STAGE_OUTSIDE;
        fy_buffer_add(why, "outside");
        return FY_ERR_UNSUPPORTED;
    }
    if (faccessat(*out_fd, "stuck", F_OK, 0) == 0) {
        (void)sleep(
            (unsigned)patient(30)); /* it is on a disk that does not answer */
    }
    return 0;
}

struct fy_store *
fy_policy_store(struct fy_policy *policy, struct fy_buffer *why)
{
    static struct fy_store *store;
    (void)policy;
    if (!double_rules.home) {
        fy_buffer_add(why, "no store");
    } else if (!store &&
               fy_store_open(double_rules.home, FY_STORE_BYTES, why, &store)) {
        store = NULL;
    }
    return store;
}

bool
fy_policy_has_tool(const struct fy_tool *tool)
{
    (void)tool;
    return false;
}

int
fy_policy_own(struct fy_policy *policy, int root, bool writes, int *out_ruleset)
{
    (void)policy;
    (void)root;
    (void)writes;
    *out_ruleset = -1;
    return 0;
}

int
fy_own_sandbox_enter(int ruleset)
{
    (void)ruleset;
    return 0;
}

int
fy_policy_check(struct fy_policy *policy, const struct fy_stage_spec *spec,
                const struct fy_invocation *invocation,
                struct fy_sandbox **out_sandbox, int out_files[3],
                unsigned *out_reason, struct fy_buffer *why)
{
    const struct fy_stream_spec *streams[3] = {&spec->in, &spec->out,
                                               &spec->err};
    (void)policy;
    (void)invocation;
    const char *slash = strrchr(spec->tool.path.at, '/');
    if (slash && strcmp(slash + 1, "factor") == 0) {
        (void)sleep((unsigned)patient(
            30)); /* its files are on a disk that does not answer */
    }
    if (double_rules.refuse_tool && slash &&
        strcmp(slash + 1, double_rules.refuse_tool) == 0) {
        *out_reason = FY_STAGE_OTHER_TOOL;
        fy_buffer_add(why, "another\nversion");
        return FY_ERR_UNSUPPORTED;
    }
    struct fy_sandbox *sandbox = calloc(1, sizeof *sandbox);
    if (!sandbox) {
        return FY_ERR_NOMEM;
    }
    sandbox->program = strdup(spec->tool.path.at);
    sandbox->cwd = strdup(spec->cwd.at);
    for (int i = 0; i < 3; i++) {
        out_files[i] = -1;
        if (streams[i]->kind == FY_STREAM_FILE) {
            out_files[i] = open(streams[i]->path.at,
                                (int)streams[i]->flags | O_CLOEXEC, 0600);
            if (out_files[i] < 0) {
                *out_reason = FY_STAGE_OUTSIDE;
                fy_sandbox_free(sandbox);
                return FY_ERR_UNSUPPORTED;
            }
            (void)lseek(out_files[i], streams[i]->offset, SEEK_SET);
        }
    }
    *out_sandbox = sandbox;
    return 0;
}

int
fy_sandbox_enter(struct fy_sandbox *sandbox)
{
    return chdir(sandbox->cwd);
}

void
fy_sandbox_free(struct fy_sandbox *sandbox)
{
    if (sandbox) {
        free(sandbox->program);
        free(sandbox->cwd);
        free(sandbox);
    }
}

size_t
fy_sandbox_linker(const struct fy_sandbox *sandbox, char *name,
                  char *words[FY_LINKER_WORDS])
{
    (void)sandbox;
    (void)name;
    (void)words;
    return 0;
}

const char *
fy_sandbox_program(const struct fy_sandbox *sandbox)
{
    return sandbox->program;
}

int
fy_invocation_parse(const struct fy_commands *commands, const char *name,
                    const char *const *argv, const char *const *env,
                    struct fy_invocation *out, struct fy_buffer *why)
{
    (void)commands;
    (void)env;
    memset(out, 0, sizeof *out);
    if (strcmp(name, "numfmt") == 0) {
        (void)sleep((unsigned)patient(30)); /* its words are many */
    }
    if (strcmp(name, "reboot") == 0) {
        fy_buffer_add(why, "no such block");
        return FY_ERR_NOENT;
    }
    if (argv[1] && strcmp(argv[1], "--unknown") == 0) {
        fy_buffer_add(why, "unknown flag");
        return FY_ERR_INVALID;
    }
    if (argv[1] && strcmp(argv[1], "--never") == 0) {
        fy_buffer_add(why, "never");
        return FY_ERR_UNSUPPORTED;
    }
    out->command = "double";
    out->file = "double.ferry";
    out->pure = true;
    if (strcmp(name, "grep") == 0 || strcmp(name, "tr") == 0) {
        /* These are split. */
        out->command = strcmp(name, "tr") == 0 ? "tr" : "grep";
        out->reads_stdin = true;
        out->split = FY_SPLIT_LINES;
        out->merge = strcmp(name, "tr") == 0 ? FY_MERGE_CONCAT : FY_MERGE_SUM;
    }
    out->traits = strcmp(name, "printf") == 0 ? 1U << FY_TRAIT_LISTS : 0;
    out->fed = strcmp(name, "xargs") == 0;
    if (strcmp(name, "install") == 0) { /* looks upwards, like git */
        static const struct fy_absent absents[] = {{.path = ".above/config"},
                                                   {.path = ".above/hook"},
                                                   {.path = "~/c"}};
        out->effect = out->writes_cwd = true;
        out->absents = absents;
        out->nabsents = sizeof absents / sizeof absents[0];
        if (argv[1] && strcmp(argv[1], "-D") == 0) {
            static const struct fy_written written[] = {
                {".above", FY_WRITTEN}, {".above/kept", FY_WRITTEN_KEEPS}};
            out->written = written;
            out->nwritten = sizeof written / sizeof written[0];
        }
    }
    if (strcmp(name, "touch") == 0 || strcmp(name, "cp") == 0) {
        uint32_t n = 0;
        while (argv[n]) {
            n++;
        }
        out->pure = false;
        out->effect = true;
        out->traits =
            argv[1] && strcmp(argv[1], "-p") == 0 ? 1U << FY_TRAIT_OWNERS : 0;
        out->uses = calloc(1, sizeof *out->uses);
        out->nuses = out->uses ? 1 : 0;
        if (out->uses) {
            out->uses[0].arg = n - 1;
            out->uses[0].access = FY_ACCESS_OUT;
        }
    }
    return 0;
}

void
fy_invocation_clear(struct fy_invocation *invocation)
{
    free(invocation->uses);
    memset(invocation, 0, sizeof *invocation);
}

const char *
fy_sandbox_tmpdir(const struct fy_sandbox *sandbox)
{
    (void)sandbox;
    return double_rules.tmpdir;
}

const char *
fy_sandbox_home(const struct fy_sandbox *sandbox)
{
    (void)sandbox;
    return NULL;
}
