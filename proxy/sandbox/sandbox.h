/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which files a stage may see and touch on the storage host. The proxy
 * calls fy_policy_check() before it starts anything, and the child calls
 * fy_sandbox_enter() between fork and exec.
 *
 * The client may do on this host whatever the user may, since ssh logged in as
 * the user; a stage may not, since a file that it reads could take it over.
 * The client's path of the mount is made to exist in a private mount
 * namespace, so that every path, getcwd() and every message is as on the
 * client; where the kernel refuses that, only equal paths and relative
 * operands are possible.
 */
#ifndef FERRY_PROXY_SANDBOX_SANDBOX_H
#define FERRY_PROXY_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "annotations/commands/command.h"
#include "common/buffer.h"
#include "common/status.h"
#include "proxy/wire/reason.h"
#include "proxy/wire/spec.h"

struct fy_store;
struct fy_policy; /* of one proxy: kernel features, namespaces; any thread */

/*
 * Returns new. `landlock': use it where the kernel has it. While the process has one
 * thread: changes the umask for a moment and reads HOME. FY_ERR_NOMEM.
 */
int fy_policy_new(bool landlock, struct fy_policy **out) FY_MUST_CHECK;
/* Ends the spare namespace and its child: no stage is checked any more. Does
 * not wait for a check. */
void fy_policy_end(struct fy_policy *policy);
/* Instead of fy_policy_free(), where a check goes on until the process ends. */
void fy_policy_leave(struct fy_policy *policy);
/* Closes the namespaces and removes the private temporary folder. No check
 * may be running. NULL: fine. */
void fy_policy_free(struct fy_policy *policy);

/* namespaces, landlock of the hello. */
void fy_policy_describe(struct fy_policy *policy, struct fy_hello *hello);

/*
 * An O_PATH descriptor of a folder of this host ("~" and "~/x": of the home); the
 * caller closes it. FY_ERR_UNSUPPORTED with *out_reason and `why' otherwise.
 */
int fy_policy_open_root(struct fy_policy *policy, const char *root, int *out_fd,
                        unsigned *out_reason,
                        struct fy_buffer *why) FY_MUST_CHECK;

/* The store, opened now if it was not; NULL with `why': this host can run no program that
 * is carried. Any thread. */
struct fy_store *fy_policy_store(struct fy_policy *policy,
                                 struct fy_buffer *why);
/* Returns true if this host has the very program. Starts a process; any thread. */
bool fy_policy_has_tool(const struct fy_tool *tool);

/* Everything the child needs, made by the check; owned by the caller. */
struct fy_sandbox;

/*
 * Whether the stage may run on this host: the mount's root is opened once and held, the
 * working folder and every operand resolve beneath it (openat2, RESOLVE_BENEATH |
 * RESOLVE_NO_MAGICLINKS), output files' parents too, the tool exists with the same
 * identity, implicit inputs are equal; or all that the tool needs
 * is in the store, and is its root then.
 * May wait for a file system; any thread, also several at a time.
 * Opens FY_STREAM_FILE streams: fds in out_files[0..2], -1 for the others.
 * 0: new sandbox. FY_ERR_UNSUPPORTED with *out_reason and `why' otherwise.
 */
int fy_policy_check(struct fy_policy *policy, const struct fy_stage_spec *spec,
                    const struct fy_invocation *invocation,
                    struct fy_sandbox **out_sandbox, int out_files[3],
                    unsigned *out_reason, struct fy_buffer *why) FY_MUST_CHECK;

/*
 * In the child, single-threaded, after its fds are in place: enters the
 * namespace, changes folder, sets umask, limits, no_new_privs, Landlock.
 * Async-signal-safe functions only. 0, or -1 with errno: _exit(126).
 */
int fy_sandbox_enter(struct fy_sandbox *sandbox) FY_MUST_CHECK;
/* Closes what the check opened; a stage that runs keeps its own.
 * NULL: fine. */
void fy_sandbox_free(struct fy_sandbox *sandbox);

/* The path to exec, as the check resolved it (also after enter). */
const char *fy_sandbox_program(const struct fy_sandbox *sandbox);
enum {
    FY_LINKER_WORDS = 7,
};
/* Writes the words that replace the stage's first word, `name', if a carried linker starts
 * the program; returns their number, or 0. Borrowed. */
size_t fy_sandbox_linker(const struct fy_sandbox *sandbox, char *name,
                         char *words[FY_LINKER_WORDS]);

/* What TMPDIR has to be in the stage's environment: a private folder of this
 * host; NULL: leave it as the client has it. */
const char *fy_sandbox_tmpdir(const struct fy_sandbox *sandbox);
/* The stage's HOME, borrowed; NULL: the client's. */
const char *fy_sandbox_home(const struct fy_sandbox *sandbox);

/* ---- own.c: a process of the proxy's own that works on one folder -------------- */

/*
 * For a process that reaches what is beneath `root' (O_PATH, borrowed) and nothing else.
 * *out_ruleset: -1 where this kernel has no Landlock; the caller closes it. FY_ERR_NOMEM,
 * FY_ERR_IO. Any thread.
 */
int fy_policy_own(struct fy_policy *policy, int root, bool writes,
                  int *out_ruleset) FY_MUST_CHECK;
/* In the child. 0, or -1 with errno: it must end. Async-signal-safe. */
int fy_own_sandbox_enter(int ruleset) FY_MUST_CHECK;

#endif
