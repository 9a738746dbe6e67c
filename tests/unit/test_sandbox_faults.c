/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each system call of a proxy's check of a stage, and of the stage's way into its
 * sandbox, fails once (nocall.h), and each allocation (nomem.h). Then the stage is
 * refused with a reason, or it runs as confined as ever: judged by what it reaches.
 * Nothing stays: no descriptor, no process, no temporary file. A stage that is refused
 * is refused still. Long because all cases share the stages and one judge.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "proxy/sandbox/policy.h"
#include "proxy/sandbox/walk.h"
#include "proxy/storage/tools.h"
#include "tests/patience.h"
#include "tests/unit/nocall.h"
#include "tests/unit/nomem.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

#define MOUNT "/mnt-of-the-client/deep/data"

enum {
    MOST_CALLS = 5000, /* of one check */
};

enum {
    CONFINED,
    REFUSED,
    WRONG
};

/* What the processes of a try say. */
static struct {
    bool no_memory; /* an allocation failed */
    char wrong[64];
} * said;

/* A stage that a client asks for. */
struct asked {
    const char *name;
    const char *mount; /* NULL: the root's own path */
    const char *program;
    void (*furnish)(struct fy_stage_spec *spec,
                    struct fy_invocation *invocation);
};

static char outside[128], temporary[80], file_there[128];
static struct fy_bytes argv[8], outputs[1];
static struct fy_use uses[8];
static struct fy_config_hash configs[2];
static struct fy_absent absents[2];
static const char *named[3];

static void
operand(struct fy_stage_spec *spec, struct fy_invocation *invocation,
        const char *text, unsigned access, unsigned kind)
{
    argv[spec->argc] = bytes(text);
    uses[invocation->nuses++] = (struct fy_use){
        .arg = spec->argc++, .access = (uint8_t)access, .kind = (uint8_t)kind};
}

static void
config(struct fy_stage_spec *spec, struct fy_invocation *invocation,
       const char *path)
{
    configs[spec->nconfigs].path = bytes(path);
    ck_assert_int_eq(fy_config_hash(path, configs[spec->nconfigs].sha256), 0);
    named[spec->nconfigs++] = path;
    invocation->configs = named;
}

/* Reads a file and a tree, and writes one file there; a stream of it is a file. */
static void
reader(struct fy_stage_spec *spec, struct fy_invocation *invocation)
{
    operand(spec, invocation, "file", FY_ACCESS_IN, FY_USE_FILE);
    operand(spec, invocation, "sub", FY_ACCESS_IN, FY_USE_TREE);
    uses[1].follows = true;
    invocation->traits = 1U << FY_TRAIT_TARGETS;
    spec->hides_links = true;
    spec->in = (struct fy_stream_spec){
        .kind = FY_STREAM_FILE, .path = bytes(file_there), .offset = 1};
    config(spec, invocation, "/etc/passwd");
    config(spec, invocation, "/etc/group");
    invocation->pure = geteuid() == 0;
    invocation->traits |= invocation->pure ? 1U << FY_TRAIT_OWNERS : 0;
}

/* Writes names into folders of a mount that keeps them. */
static void
writer(struct fy_stage_spec *spec, struct fy_invocation *invocation)
{
    operand(spec, invocation, "sub/two", FY_ACCESS_IN, FY_USE_FILE);
    operand(spec, invocation, "sub/deeper", FY_ACCESS_OUT, FY_USE_TREE);
    operand(spec, invocation, "sub/new", FY_ACCESS_INOUT, FY_USE_FILE);
    spec->keeps_names = true;
    spec->outputs = outputs;
    spec->noutputs = 1;
    outputs[0] = bytes(file_there);
    absents[0] = (struct fy_absent){".tree/config", "never", false};
    absents[1] = (struct fy_absent){"sub/none", "never", false};
    invocation->absents = absents;
    invocation->nabsents = 2;
    config(spec, invocation, "/etc/passwd");
}

static const struct asked stages[] = {
    {"a program", MOUNT, "/usr/bin/cat", reader},
    {"a program that writes", MOUNT, "/usr/bin/sort", writer},
    {"a script", MOUNT, "/usr/bin/zgrep", writer},
    {"the same paths on both hosts", NULL, "/usr/bin/cat", reader},
    {"the same paths, written to", NULL, "/usr/bin/sort", writer},
};

/* ---- stages that must not run ------------------------------------------------ */

static void
reads_link_out(struct fy_stage_spec *spec, struct fy_invocation *invocation)
{
    operand(spec, invocation, "hostile/deep", FY_ACCESS_IN, FY_USE_TREE);
    uses[0].follows = true;
}

static void
reads_hidden_link(struct fy_stage_spec *spec, struct fy_invocation *invocation)
{
    operand(spec, invocation, "hostile", FY_ACCESS_IN, FY_USE_TREE);
    invocation->traits = 1U << FY_TRAIT_TARGETS;
    spec->hides_links = true;
}

static void
replaces_link_below(struct fy_stage_spec *spec,
                    struct fy_invocation *invocation)
{
    operand(spec, invocation, "hostile", FY_ACCESS_OUT, FY_USE_TREE);
    spec->keeps_names = true;
}

static void
replaces_link_beside(struct fy_stage_spec *spec,
                     struct fy_invocation *invocation)
{
    operand(spec, invocation, "hostile/deep/out", FY_ACCESS_INOUT, FY_USE_FILE);
    spec->keeps_names = true;
}

static void
writes_what_it_reads(struct fy_stage_spec *spec,
                     struct fy_invocation *invocation)
{
    operand(spec, invocation, "sub/two", FY_ACCESS_IN, FY_USE_FILE);
    spec->outputs = outputs;
    spec->noutputs = 1;
    outputs[0] = bytes(MOUNT "/sub/two");
}

static void
has_its_settings_elsewhere(struct fy_stage_spec *spec,
                           struct fy_invocation *invocation)
{
    operand(spec, invocation, "file", FY_ACCESS_IN, FY_USE_FILE);
    absents[0] = (struct fy_absent){".tree/config", NULL, false};
    invocation->absents = absents;
    invocation->nabsents = 1;
    spec->cwd = bytes(MOUNT "/hostile/deep");
}

static const struct asked hostile[] = {
    {"reads a link out", MOUNT, "/usr/bin/cat", reads_link_out},
    {"reads a hidden link", MOUNT, "/usr/bin/cat", reads_hidden_link},
    {"replaces a link", MOUNT, "/usr/bin/sort", replaces_link_below},
    {"replaces a link beside its file", MOUNT, "/usr/bin/sort",
     replaces_link_beside},
    {"writes what it reads", MOUNT, "/usr/bin/sort", writes_what_it_reads},
    {"finds other settings", MOUNT, "/usr/bin/cat", has_its_settings_elsewhere},
};

static void
setup(void)
{
    make_base("faults");
    (void)snprintf(outside, sizeof outside, "%s/outside", base);
    (void)snprintf(temporary, sizeof temporary, "%s/tmp", base);
    shell("mkdir -p $B/top/sub/deeper $B/tmp && echo one >$B/top/file && "
          "echo secret >$B/outside && chmod 755 $B && "
          "echo two >$B/top/sub/two && ln -s two $B/top/sub/linked");
    shell("mkdir -p $B/top/hostile/deep/.tree && cd $B/top/hostile/deep && "
          "touch .tree/config && ln -s /etc out.link");
    ck_assert_int_eq(setenv("TMPDIR", temporary, 1), 0);
}

static void
teardown(void)
{
    shell("rm -rf $B");
}

static void
setup_user(void)
{
    become_ordinary_user();
    setup();
}

static unsigned
entries(const char *path)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

/* All children have ended, or do so now. */
static bool
children_end(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (long i = patient(60000); i > 0; i--) { /* they were told to end */
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0) {
            return errno == ECHILD;
        }
        if (pid == 0) {
            nanosleep(&pause, NULL);
        }
    }
    return false;
}

static bool
reads(const char *path, const char *text)
{
    char found[16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, found, sizeof found - 1) > 0 &&
           strcmp(found, text) == 0;
}

static bool
is_made(const char *path, int flags)
{
    return open(path, O_WRONLY | O_CLOEXEC | flags, 0600) >= 0;
}

/* In the stage: what is wrong with what it reaches. `partial': this kernel was said
 * to have no such filters. */
static const char *
look_around(const struct asked *asked, const struct fy_sandbox *sandbox,
            bool partial)
{
    char path[PATH_MAX];
    const char *mount = asked->mount ? asked->mount : root;
    (void)snprintf(path, sizeof path, "%s/file", mount);
    if (!reads(path, "one\n") || !reads("file", "one\n")) {
        return "it does not see the mount";
    }
    if (sandbox->ruleset < 0) {
        return NULL; /* Landlock failed, and that is no reason to refuse */
    }
    if (reads(outside, "secret\n") || reads("../outside", "secret\n")) {
        return "it reads what is not on the mount";
    }
    if (is_made("/etc/passwd", 0) || is_made(outside, 0) ||
        is_made("../made", O_CREAT)) {
        return "it writes what is not on the mount";
    }
    if (asked->furnish == reader && is_made("made", O_CREAT)) {
        return "it writes, and was said to read";
    }
    if (partial) {
        return NULL;
    }
    if (sandbox->filtered && socket(AF_UNIX, SOCK_STREAM, 0) >= 0) {
        return "it has sockets";
    }
    if (unshare(CLONE_NEWUSER) == 0) {
        return "it has user namespaces";
    }
    if (sandbox->alone) {
        execl("/usr/bin/true", "true", NULL);
        return errno == EACCES ? NULL : "it executes other programs";
    }
    return NULL;
}

static struct fy_stage_spec spec;
static struct fy_invocation invocation;

/* The client's side. */
static void
prepare(const struct asked *asked)
{
    static char identity[512];
    const char *mount = asked->mount ? asked->mount : root;
    (void)snprintf(file_there, sizeof file_there, "%s/file", mount);
    memset(&invocation, 0, sizeof invocation);
    memset(uses, 0, sizeof uses);
    spec = (struct fy_stage_spec){.argv = argv,
                                  .configs = configs,
                                  .mount = bytes(mount),
                                  .root = bytes(root),
                                  .cwd = bytes(mount),
                                  .umask = 022,
                                  .argc = 1};
    argv[0] = bytes(strrchr(asked->program, '/') + 1);
    set_limits(&spec);
    set_tool(&spec, asked->program, identity, sizeof identity);
    invocation.uses = uses;
    asked->furnish(&spec, &invocation);
}

static int
wrong(const char *what)
{
    (void)snprintf(said->wrong, sizeof said->wrong, "%s", what);
    return WRONG;
}

/* A stage enters its sandbox. Its process counts on. */
static int
enter(const struct asked *asked, struct fy_sandbox *sandbox, bool partial)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (fy_sandbox_enter(sandbox) != 0) {
            _exit(REFUSED);
        }
        (void)nocall_reached();
        const char *found = look_around(asked, sandbox, partial);
        _exit(found ? wrong(found) : CONFINED);
    }
    if (pid < 0) {
        return REFUSED; /* the proxy says that */
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : wrong("the stage ended by a signal");
}

/* In a process that ends then: what the proxy does, `n' as in fail_at(). */
static int
try(const struct asked *asked, uint64_t n, int error, const char *call,
    long number)
{
    struct fy_policy *policy = NULL;
    struct fy_sandbox *sandbox = NULL;
    struct fy_buffer why;
    char text[1024] = "";
    int files[3] = {-1, -1, -1}, end = REFUSED;
    unsigned reason = FY_STAGE_NONE, before = entries("/proc/self/fd");
    fy_buffer_start(&why, text, sizeof text);
    (void)signal(SIGPIPE, SIG_IGN); /* as in a proxy */
    nocall_at(error ? n : 0, error);
    nomem_at(error ? 0 : n);
    if (call) {
        nocall_always(call, number, error);
    }
    int status = fy_policy_new(true, &policy);
    if (!status) {
        status = fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                                 &reason, &why);
        end = status ? REFUSED : enter(asked, sandbox, error == ENOSYS);
        if (status && reason == FY_STAGE_NONE) {
            end = wrong("refused without a reason");
        }
        if (status && status != FY_ERR_NOMEM && !*text) {
            end = wrong("refused without a word");
        }
    }
    (void)nocall_reached();
    said->no_memory = nomem_reached();
    fy_sandbox_free(sandbox);
    for (unsigned i = 0; i < 3; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
    fy_policy_free(policy);
    if (entries("/proc/self/fd") != before) {
        return wrong("descriptors are left, or others were closed");
    }
    if (!children_end()) {
        return wrong("a process is left");
    }
    return entries(temporary) ? wrong("a temporary file is left") : end;
}

/* Tries that in a process; CONFINED or REFUSED. */
static int
tried(const struct asked *asked, uint64_t n, int error, const char *call,
      long number)
{
    int status;
    memset(said, 0, sizeof *said);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(try(asked, n, error, call, number));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    const char *failed = nocall_reached();
    int end = WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
    ck_assert_msg(end != WRONG, "%s: call %u, %s %ld: %s: %s, wait status %x",
                  asked->name, (unsigned)n,
                  call     ? call
                  : failed ? failed
                           : "malloc",
                  number, strerror(error), said->wrong, (unsigned)status);
    return end;
}

/* Prepares the stage, which ends so; false: this machine has no sandboxes. */
static bool
begin(const struct asked *asked, int end)
{
    if (!landlock_here() || !namespaces_here()) {
        return false;
    }
    said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(said, MAP_FAILED);
    nocall_at(0, 0);
    prepare(asked);
    ck_assert_int_eq(tried(asked, 0, EIO, NULL, 0), end);
    return true;
}

/* Returns the distance of the calls and allocations that fail: larger for ./check, and
 * with sanitizers, which are slow. All errors come, because it is no multiple of 3. */
static unsigned
step(void)
{
    const char *sanitized = getenv("FERRY_SANITIZED");
    const char *tier = getenv("FERRY_TEST_TIER");
    return tier && strcmp(tier, "edit") == 0 ? 7
           : sanitized && *sanitized         ? 4
                                             : 1;
}

START_TEST(failing_call_refuses_stage_or_leaves_it_confined)
{
    static const int errors[] = {EACCES, ENOSYS, EINTR};
    unsigned ends[WRONG] = {0, 0}, n = 1;
    const struct asked *asked = &stages[_i];
    if (!begin(asked, CONFINED)) {
        skip_test("no Landlock, or no namespaces");
        return;
    }
    for (; n == 1 || nocall_reached(); n += step()) {
        int error = errors[((unsigned)_i + n) % 3];
        ck_assert_uint_lt(n, MOST_CALLS);
        ends[tried(asked, n, error, NULL, 0)]++;
    }
    ck_assert_uint_gt(ends[REFUSED], n / step() / 4);
    ck_assert_uint_gt(ends[CONFINED], 1);
}
END_TEST

START_TEST(failing_allocation_refuses_stage_or_leaves_it_confined)
{
    unsigned n = 1;
    const struct asked *asked = &stages[_i];
    if (!begin(asked, CONFINED)) {
        skip_test("no Landlock, or no namespaces");
        return;
    }
    for (; n == 1 || said->no_memory; n += step()) {
        ck_assert_uint_lt(n, MOST_CALLS);
        (void)tried(asked, n, 0, NULL, 0);
    }
    ck_assert_uint_gt(n, 5);
}
END_TEST

/* Every call in every tier, because one that hides the reason to refuse is enough. */
START_TEST(failing_call_lets_nothing_run_that_is_refused)
{
    static const int errors[] = {ENOMEM, EIO, EMFILE};
    const struct asked *asked = &hostile[_i];
    if (!begin(asked, REFUSED)) {
        skip_test("no Landlock, or no namespaces");
        return;
    }
    unsigned n = 1;
    for (; n == 1 || nocall_reached(); n++) {
        int error = errors[((unsigned)_i + n) % 3];
        ck_assert_uint_lt(n, MOST_CALLS);
        int end = tried(asked, n, error, NULL, 0);
        ck_assert_msg(end == REFUSED, "%s runs: call %u, %s: %s", asked->name,
                      n, nocall_reached(), strerror(error));
    }
    for (n = 1; n == 1 || said->no_memory; n++) {
        ck_assert_int_eq(tried(asked, n, 0, NULL, 0), REFUSED);
    }
}
END_TEST

struct met {
    unsigned file, sub, deep, two;
};

static void
meet(void *context, const char *path, const struct statx *facts)
{
    struct met *met = context;
    (void)facts;
    met->file += strcmp(path, "/m/file") == 0;
    met->sub += strcmp(path, "/m/sub") == 0;
    met->two += strcmp(path, "/m/sub/two") == 0;
    met->deep += strcmp(path, "/m/sub/deeper") == 0;
}

/* What the client is not told of, it would go on showing. */
START_TEST(failing_call_leaves_out_nothing_silently)
{
    static const int errors[] = {EMFILE, ENOMEM, EIO, EACCES};
    unsigned n = 1;
    int top = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
    unsigned files = entries("/proc/self/fd");
    do {
        struct met met = {0};
        struct fy_walk walk = {.entries_left = 1000,
                               .end_ns = UINT64_MAX,
                               .complete = true,
                               .found = meet,
                               .context = &met};
        nocall_at(n++, errors[_i]);
        fy_walk(&walk, top, "/m", ".", true);
        const char *failed = nocall_reached();
        ck_assert_msg(!walk.complete ||
                          (met.file && met.sub && met.two && met.deep),
                      "call %u, %s", n - 1, failed ? failed : "none");
        ck_assert(failed || walk.complete);
        ck_assert_uint_eq(entries("/proc/self/fd"), files);
    } while (nocall_reached());
    close(top);
    ck_assert_uint_gt(n, 10);
}
END_TEST

/* A kernel, or what confines the proxy itself, lacks a call: who runs then, a letter
 * for each of `stages': "r" refused, "c" confined. */
static const struct {
    const char *call;
    long number;
    int error;
    char ends[sizeof stages / sizeof *stages + 1];
} kernels[] = {
    {"unshare", 0, EPERM, "rrrcc"},
    {"syscall", SYS_landlock_create_ruleset, ENOSYS, "ccrcc"},
    {"syscall", SYS_landlock_add_rule, EPERM, "rrrrr"},
    {"syscall", SYS_landlock_restrict_self, EPERM, "rrrrr"},
    {"syscall", SYS_openat2, ENOSYS, "ccccc"},
    {"syscall", SYS_pidfd_open, ENOSYS, "rrrcc"},
    {"syscall", SYS_mount_setattr, ENOSYS, "ccccc"},
    {"syscall", SYS_open_tree, ENOSYS, "rrrcc"},
    {"syscall", SYS_move_mount, EPERM, "rrrrr"},
    {"syscall", SYS_close_range, ENOSYS, "ccccc"},
    {"setns", 0, EPERM, "rrrrr"},
    {"prctl", 0, EACCES, "rrrrr"},
    {"fork", 0, EAGAIN, "rrrrr"},
    {"pipe2", 0, EMFILE, "rrrcc"},
};

START_TEST(kernel_without_a_call_runs_what_it_confines)
{
    const struct asked *asked = &stages[_i];
    if (!begin(asked, CONFINED)) {
        skip_test("no Landlock, or no namespaces");
        return;
    }
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        int end = tried(asked, 0, kernels[i].error, kernels[i].call,
                        kernels[i].number);
        ck_assert_msg("cr"[end] == kernels[i].ends[_i], "%s without %s %ld: %c",
                      asked->name, kernels[i].call, kernels[i].number,
                      "cr"[end]);
    }
}
END_TEST

static TCase *
cases(const char *name, void (*before)(void))
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, before, teardown);
    tcase_set_timeout(tests, 300);
    return tests;
}

static TCase *
accepted(const char *name, void (*before)(void))
{
    const int n = sizeof stages / sizeof *stages;
    TCase *tests = cases(name, before);
    tcase_add_loop_test(tests, failing_call_refuses_stage_or_leaves_it_confined,
                        0, n);
    tcase_add_loop_test(
        tests, failing_allocation_refuses_stage_or_leaves_it_confined, 0, n);
    tcase_add_loop_test(tests, kernel_without_a_call_runs_what_it_confines, 0,
                        n);
    return tests;
}

int
main(void)
{
    Suite *suite = suite_create("sandbox_faults");
    TCase *refused = cases("refused", setup);
    tcase_add_loop_test(refused, failing_call_lets_nothing_run_that_is_refused,
                        0, sizeof hostile / sizeof *hostile);
    tcase_add_loop_test(refused, failing_call_leaves_out_nothing_silently, 0,
                        4);
    suite_add_tcase(suite, refused);
    suite_add_tcase(suite, accepted("here", setup));
    if (geteuid() == 0) {
        suite_add_tcase(suite, accepted("user", setup_user));
    }
    return run_suite(suite);
}
