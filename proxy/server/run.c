/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting a stage: the descriptors are made here, in the proxy; the child puts
 * them in place, takes the client's signals and priority, enters its sandbox and
 * execs. The child calls nothing that is not async-signal-safe.
 */
#include "config.h"

#include "proxy/server/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include "common/kernel.h"
#include "proxy/server/split.h"

enum {
    FIRST_SPARE_FD = 10, /* above everything the child puts in place */
    SIGNALS = 64,
};

/* What the child needs; all of it was made before the fork. */
struct plan {
    const struct fy_stage_spec *spec;
    struct fy_sandbox *sandbox;
    char **argv, **env;
    bool linked;               /* argv begins with a carried linker's words */
    char *tmpdir, *home;       /* the entries of `env' that are ours */
    struct fy_split_job split; /* copies 0: one process */
    int child[3];              /* what becomes fds 0-2; -1: closed */
    int terminal;              /* the stage's side of the pty, or -1 */
    int status;                /* write: errno of what failed */
    pid_t parent;
};

void
fy_run_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void
fy_run_clear(struct fy_run *run)
{
    fy_run_close(&run->started);
    fy_run_close(&run->in);
    fy_run_close(&run->out);
    fy_run_close(&run->err);
    fy_run_close(&run->terminal);
    for (int i = 0; i < 3; i++) {
        fy_run_close(&run->files[i]);
    }
}

static int
say(struct fy_buffer *why, const char *text, int status)
{
    fy_buffer_add(why, text);
    return status;
}

int
fy_run_check(const struct fy_stage_spec *spec, struct fy_buffer *why)
{
    if (spec->in.kind > FY_STREAM_PTY) {
        return say(why, "stdin is none of the known kinds", FY_ERR_INVALID);
    }
    if (spec->out.kind > FY_STREAM_PTY || spec->out.kind == FY_STREAM_LINK) {
        return say(why, "stdout is none of the known kinds", FY_ERR_INVALID);
    }
    if (spec->err.kind > FY_STREAM_SAME || spec->err.kind == FY_STREAM_LINK) {
        return say(why, "stderr is none of the known kinds", FY_ERR_INVALID);
    }
    if (spec->argc == 0) {
        return say(why, "argv is empty", FY_ERR_INVALID);
    }
    return 0;
}

/* The strings of `n' blocks, with room for one more; NULL: no memory. Free the
 * array only. */
static char **
strings(const struct fy_bytes *blocks, uint32_t n)
{
    char **list = calloc((size_t)n + 2, sizeof *list);
    for (uint32_t i = 0; list && i < n; i++) {
        list[i] = (char *)(uintptr_t)blocks[i].at;
    }
    return list;
}

/* Whether readers and writers of a description wait. FY_ERR_IO, with errno. */
static int
set_blocking(int fd, bool blocks)
{
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 || fcntl(fd, F_SETFL,
                              blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK)
               ? FY_ERR_IO
               : 0;
}

static void
set_window(int terminal, const struct fy_stage_spec *spec)
{
    struct winsize size = {.ws_row = spec->rows, .ws_col = spec->columns};
    (void)ioctl(terminal, TIOCSWINSZ, &size);
}

/*
 * The client's own terminal does what a terminal does (newlines, echo, keys);
 * this one only has to be one, so bytes pass through it as they are.
 */
static int
make_terminal(const struct fy_stage_spec *spec, int *out_master, int *out_slave)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0) {
        return FY_ERR_IO;
    }
    int zero = 0;
    int slave = ioctl(master, TIOCSPTLCK, &zero) < 0
                    ? -1
                    : ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios modes;
    if (slave < 0 || tcgetattr(slave, &modes) < 0) {
        goto close_master;
    }
    modes.c_oflag &= ~(tcflag_t)OPOST;
    modes.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR | IXON | IXOFF | ISTRIP);
    modes.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL | ISIG | IEXTEN);
    if (tcsetattr(slave, TCSANOW, &modes) < 0) {
        goto close_slave;
    }
    set_window(master, spec);
    *out_master = master;
    *out_slave = slave;
    return 0;
close_slave:
    (void)close(slave);
close_master:
    (void)close(master);
    return FY_ERR_IO;
}

/* ---- the child -------------------------------------------------------------- */

static _Noreturn void
fail(const struct plan *plan)
{
    int error = errno;
    (void)!write(plan->status, &error, sizeof error);
    _exit(126);
}

static void
take_signals(const struct plan *plan)
{
    /* By system calls: libc keeps two signals to itself, which may have come
     * here ignored. */
    for (int i = 1; i <= SIGNALS; i++) {
        struct { /* the kernel's */
            void (*handler)(int);
            unsigned long flags;
            void (*restorer)(void);
            uint64_t mask;
        } action = {.handler = (plan->spec->ignored >> (i - 1)) & 1 ? SIG_IGN
                                                                    : SIG_DFL};
        (void)syscall(SYS_rt_sigaction, i, &action, NULL, sizeof action.mask);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* Fds 0-2 as planned, and nothing else stays open across the exec. */
static int
take_descriptors(struct plan *plan)
{
    for (int i = 0; i < 3; i++) {
        if (plan->child[i] >= 0) {
            plan->child[i] =
                fcntl(plan->child[i], F_DUPFD_CLOEXEC, FIRST_SPARE_FD);
            if (plan->child[i] < 0) {
                return -1;
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        if (plan->child[i] < 0) {
            (void)close(i);
        } else if (dup2(plan->child[i], i) < 0) {
            return -1;
        }
    }
    fy_close_range(3, ~0U, true);
    return 0;
}

static _Noreturn void
child(struct plan *plan)
{
    int status = fcntl(plan->status, F_DUPFD_CLOEXEC, FIRST_SPARE_FD);
    if (status < 0) {
        fail(plan);
    }
    plan->status = status;
    if (setsid() < 0) {
        fail(plan);
    }
    if (plan->terminal >= 0 && ioctl(plan->terminal, TIOCSCTTY, 0) < 0) {
        fail(plan);
    }
    if (take_descriptors(plan) < 0) {
        fail(plan);
    }
    take_signals(plan);
    if (fy_sandbox_enter(plan->sandbox) < 0) {
        fail(plan);
    }
    /* The proxy kills its stages when it ends; this is for when it is killed. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent) {
        _exit(126);
    }
    if (plan->split.copies && access(plan->split.program, X_OK) == 0) {
        /* From here on it is the stage. No exec closes what it has of the
         * proxy: read ends of pipes, its own among them, that would keep
         * writers from SIGPIPE. Where it is not split after all, its exec tells
         * of itself as ever. */
        fy_close_range(3, (unsigned)status - 1, false);
        fy_close_range((unsigned)status + 1, ~0U, false);
        plan->split.started = status;
        fy_split_run(&plan->split);
    }
    (void)execve(fy_sandbox_program(plan->sandbox), plan->argv, plan->env);
    fail(plan);
}

/* ---- its environment and its copies ------------------------------------------ */

/* Replaces a variable ("NAME="), or adds a variable: the array has room for that. The entry is new
 * in *out. NULL for `value' changes nothing. */
static int
set_variable(struct plan *plan, const char *name, const char *value, bool adds,
             char **out)
{
    size_t n = strlen(name), at = 0;
    while (plan->env[at] && strncmp(plan->env[at], name, n) != 0) {
        at++;
    }
    if (!value || (!plan->env[at] && !adds)) {
        return 0;
    }
    *out = malloc(n + strlen(value) + 1);
    if (!*out) {
        return FY_ERR_NOMEM;
    }
    (void)stpcpy(stpcpy(*out, name), value);
    plan->env[at] = *out;
    return 0;
}

/* The client's entries, as far as the sandbox takes them, but for the folder of
 * temporary files where the client's does not exist here, and for the linker's
 * search path: what that leads to on the client is what this host has without it
 * (storage/tools.c). */
static int
plan_environment(struct plan *plan)
{
    static const char search[] = "LD_LIBRARY_PATH=";
    uint32_t n = plan->spec->envc;
    plan->env = strings(plan->spec->env, n);
    if (!plan->env) {
        return FY_ERR_NOMEM;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (strncmp(plan->env[i], search, sizeof search - 1) != 0) {
            plan->env[kept++] = plan->env[i];
        }
    }
    plan->env[kept] = NULL;
    return set_variable(plan, "TMPDIR=", fy_sandbox_tmpdir(plan->sandbox), true,
                        &plan->tmpdir) ||
                   set_variable(plan, "HOME=", fy_sandbox_home(plan->sandbox),
                                false, &plan->home)
               ? FY_ERR_NOMEM
               : 0;
}

/* Puts the words of a carried linker before those of the stage. */
static int
plan_words(struct plan *plan)
{
    char *words[FY_LINKER_WORDS];
    size_t n = fy_sandbox_linker(plan->sandbox, plan->argv[0], words);
    if (n == 0 || !plan->argv[0]) {
        return 0;
    }
    char **argv = calloc(n + plan->spec->argc, sizeof *argv);
    if (!argv) {
        return FY_ERR_NOMEM;
    }
    memcpy(argv, words, n * sizeof *argv);
    memcpy(argv + n, plan->argv + 1, plan->spec->argc * sizeof *argv);
    free(plan->argv);
    plan->argv = argv;
    plan->linked = true;
    return 0;
}

static void
plan_copies(struct plan *plan, const struct fy_invocation *invocation)
{
    uint32_t arg;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t most = cores > 1 ? (uint32_t)cores : 1;
    uint32_t copies = plan->spec->copies < most ? plan->spec->copies : most;
    if (copies < 2 || plan->linked || !fy_split_possible(invocation, &arg)) {
        return;
    }
    plan->split = (struct fy_split_job){
        .program = fy_sandbox_program(plan->sandbox),
        .argv = plan->argv,
        .env = plan->env,
        .invocation = invocation,
        .status_found = fy_invocation_is(invocation, FY_TRAIT_STATUS_FOUND),
        .copies = copies,
    };
}

/* ---- the proxy's side ------------------------------------------------------- */

/* One of the three; `ours' is where our end of it goes. */
static int
plan_stream(const struct fy_stream_spec *stream, int fd, int file, int link,
            int master, struct plan *plan, int *ours)
{
    int ends[2];
    switch (stream->kind) {
    case FY_STREAM_NULL:
        plan->child[fd] = open("/dev/null", O_RDWR | O_CLOEXEC);
        return plan->child[fd] < 0 ? FY_ERR_IO : 0;
    case FY_STREAM_CLOSED:
        return 0;
    case FY_STREAM_WIRE:
        /* Of the size that pipes have: how much a writer gets rid of before its
         * reader is gone decides whether it meets SIGPIPE. */
        if (pipe2(ends, O_CLOEXEC) < 0) {
            return FY_ERR_IO;
        }
        plan->child[fd] = ends[fd == 0 ? 0 : 1];
        *ours = ends[fd == 0 ? 1 : 0];
        return set_blocking(*ours, false);
    case FY_STREAM_FILE:
        plan->child[fd] = fcntl(file, F_DUPFD_CLOEXEC, 3);
        return plan->child[fd] < 0 ? FY_ERR_IO : 0;
    case FY_STREAM_LINK:
        plan->child[fd] = fcntl(link, F_DUPFD_CLOEXEC, 3);
        if (plan->child[fd] < 0) {
            return FY_ERR_IO;
        }
        /* The description is shared with whoever read it so far: us, without
         * blocking. A reader may count on a pipe that blocks. */
        return set_blocking(plan->child[fd], true);
    case FY_STREAM_PTY:
        plan->child[fd] = fcntl(plan->terminal, F_DUPFD_CLOEXEC, 3);
        *ours = fcntl(master, F_DUPFD_CLOEXEC, 3);
        return plan->child[fd] < 0 || *ours < 0 ? FY_ERR_IO : 0;
    case FY_STREAM_SAME:
        if (plan->child[1] < 0) {
            return 0; /* both are closed */
        }
        plan->child[fd] = fcntl(plan->child[1], F_DUPFD_CLOEXEC, 3);
        return plan->child[fd] < 0 ? FY_ERR_IO : 0;
    }
    errno = EINVAL;
    return FY_ERR_IO;
}

static int
plan_streams(struct plan *plan, const int files[3], int link,
             struct fy_run *run)
{
    const struct fy_stage_spec *spec = plan->spec;
    if (spec->in.kind == FY_STREAM_PTY || spec->out.kind == FY_STREAM_PTY ||
        spec->err.kind == FY_STREAM_PTY) {
        if (make_terminal(spec, &run->terminal, &plan->terminal) ||
            set_blocking(run->terminal, false)) {
            return FY_ERR_IO;
        }
    }
    if (plan_stream(&spec->in, 0, files[0], link, run->terminal, plan,
                    &run->in) ||
        plan_stream(&spec->out, 1, files[1], -1, run->terminal, plan,
                    &run->out) ||
        plan_stream(&spec->err, 2, files[2], -1, run->terminal, plan,
                    &run->err)) {
        return FY_ERR_IO;
    }
    if (spec->out.kind == FY_STREAM_PTY && spec->err.kind == FY_STREAM_PTY) {
        fy_run_close(&run->err); /* one terminal: all of it is read as stdout */
    }
    return 0;
}

int
fy_run_start(const struct fy_stage_spec *spec,
             const struct fy_invocation *invocation, struct fy_sandbox *sandbox,
             int files[3], int link, struct fy_run *out, struct fy_buffer *why)
{
    struct fy_run run = {.started = -1,
                         .in = -1,
                         .out = -1,
                         .err = -1,
                         .terminal = -1,
                         .files = {files[0], files[1], files[2]}};
    struct plan plan = {.spec = spec,
                        .sandbox = sandbox,
                        .child = {-1, -1, -1},
                        .terminal = -1,
                        .parent = getpid()};
    int ends[2] = {-1, -1};
    files[0] = files[1] = files[2] = -1;
    int status = FY_ERR_NOMEM;
    plan.argv = strings(spec->argv, spec->argc);
    if (!plan.argv || plan_words(&plan) || plan_environment(&plan)) {
        goto undo;
    }
    plan_copies(&plan, invocation);
    status = plan_streams(&plan, run.files, link, &run);
    if (!status &&
        (pipe2(ends, O_CLOEXEC) < 0 || set_blocking(ends[0], false))) {
        status = FY_ERR_IO;
    }
    if (status) {
        goto undo;
    }
    plan.status = ends[1];
    run.pid = fork();
    if (run.pid == 0) {
        child(&plan);
    }
    if (run.pid < 0) {
        status = FY_ERR_IO;
        goto undo;
    }
    run.started = ends[0];
    ends[0] = -1;
    *out = run;
undo:;
    int error = errno;
    if (status) {
        const char *text = status == FY_ERR_IO ? strerrordesc_np(error) : NULL;
        fy_buffer_add(why, "the stage could not be started: ");
        fy_buffer_add(why, text ? text : fy_status_text(status));
        fy_run_clear(&run);
    }
    for (int i = 0; i < 3; i++) {
        fy_run_close(&plan.child[i]);
    }
    fy_run_close(&plan.terminal);
    fy_run_close(&ends[0]);
    fy_run_close(&ends[1]);
    free(plan.argv);
    free(plan.env);
    free(plan.tmpdir);
    free(plan.home);
    errno = error;
    return status;
}
