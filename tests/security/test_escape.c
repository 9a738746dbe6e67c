/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that would make a program another one is refused before anything runs, and a
 * stage that was taken over by its input reaches nothing but its mount. Runs as whoever
 * runs the tests, and as root once more as an ordinary user. Says what this kernel lacks.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "proxy/sandbox/policy.h"
#include "proxy/server/run.h"
#include "proxy/storage/tools.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

#define MOUNT "/mnt-of-the-client/export"

#ifdef __SANITIZE_ADDRESS__
/* It looks for leaks by ptrace, which a stage may not. NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
const char *__lsan_default_options(void);
/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
const char *
__lsan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static char outside[64];
static struct fy_policy *policy;
static struct fy_stage_spec spec;
static struct fy_invocation invocation;
static struct fy_bytes argv[4], env[8];
static struct fy_config_hash configs[1];
static char identity[256], why_text[1024];
static unsigned reason;

static void
use_program(const char *path)
{
    set_tool(&spec, path, identity, sizeof identity);
}

static void
reset(void)
{
    memset(&spec, 0, sizeof spec);
    memset(&invocation, 0, sizeof invocation);
    spec.argv = argv;
    spec.env = env;
    spec.configs = configs;
    spec.mount = spec.cwd = bytes(MOUNT);
    spec.root = bytes(root);
    spec.umask = 022;
    set_limits(&spec);
    argv[0] = bytes("cat");
    spec.argc = 1;
    use_program("/bin/cat");
    /* All that a stage may ever be given. */
    invocation.effect = invocation.writes_cwd = true;
    invocation.command = "cat";
}

/* The reason, FY_STAGE_NONE when it would run; then *out may be its sandbox. */
static unsigned
ask(struct fy_sandbox **out)
{
    struct fy_sandbox *sandbox = NULL;
    struct fy_buffer why;
    int files[3];
    reason = FY_STAGE_NONE;
    fy_buffer_start(&why, why_text, sizeof why_text);
    int status = fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                                 &reason, &why);
    if (status == 0 && out) {
        *out = sandbox;
    } else if (status == 0) {
        fy_sandbox_free(sandbox);
    }
    return status == 0 ? (unsigned)FY_STAGE_NONE : reason;
}

static void
open_policy(void)
{
    ck_assert_int_eq(fy_policy_new(true, &policy), 0);
}

static void
setup(void)
{
    make_base("escape");
    /* Not in a temporary folder: stages have their own. */
    strcpy(outside, "/dev/shm/ferry-outside-XXXXXX");
    int fd = mkstemp(outside);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "secret\n", 7), 7);
    close(fd);
    shell("mkdir $B/top && echo one >$B/top/file && chmod 755 $B");
    open_policy();
    reset();
}

static void
setup_user(void)
{
    become_ordinary_user();
    setup();
}

static void
teardown(void)
{
    fy_policy_free(policy);
    shell("rm -rf $B");
    ck_assert_int_eq(unlink(outside), 0);
}

/* Whether the sandbox is what it should be; else says so. */
static bool
is_closed(void)
{
    if (landlock_here() < 6 || !namespaces_here()) {
        skip_test("Landlock %u, no namespaces, or both", landlock_here());
        return false;
    }
    return true;
}

/* ---- refused before anything runs ------------------------------------------------- */

static unsigned
with(const char *first, const char *second)
{
    reset();
    env[0] = bytes(first);
    env[1] = bytes(second ? second : "A=b");
    spec.envc = 2;
    return ask(NULL);
}

START_TEST(test_environment)
{
    static const char *const bad[] = {
        "LD_PRELOAD=/x",     "LD_AUDIT=x",
        "LD_DEBUG_OUTPUT=x", "LD_PROFILE=libc.so.6",
        "GCONV_PATH=" MOUNT, "OPENSSL_CONF=x",
        "BASH_ENV=x",        "LD_ORIGIN_PATH=/no",
        "LD_LIBRARY",        "LANGUAGE=de:../../.." MOUNT "/x",
        "LD_PRELOAD",        "=x",
    };
    if (!landlock_here()) {
        skip_test("no Landlock");
        return;
    }
    ck_assert_msg(with("PATH=/bin", NULL) == FY_STAGE_NONE, "%s", why_text);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(with(bad[i], NULL) == FY_STAGE_OTHER_TOOL, "%s", bad[i]);
    }
    /* The loader takes the last of two, and our own look-ups the first. */
    ck_assert_uint_eq(with("LD_PRELOAD=", NULL), FY_STAGE_NONE);
    ck_assert_uint_eq(with("LD_PRELOAD=", "LD_PRELOAD=/x"),
                      FY_STAGE_OTHER_TOOL);
    /* A stage runs without it (test_run). */
    ck_assert_uint_eq(with("LD_LIBRARY_PATH=" MOUNT "/lib", NULL),
                      FY_STAGE_NONE);
}
END_TEST

/* Runs what was asked for as the proxy does; what it printed. */
static const char *
started(void)
{
    static char out[512];
    struct fy_sandbox *sandbox = NULL;
    struct fy_run run;
    struct fy_buffer why;
    int files[3] = {-1, -1, -1};
    size_t used = 0;
    ssize_t n;
    spec.out.kind = FY_STREAM_WIRE;
    spec.err.kind = FY_STREAM_SAME;
    ck_assert_msg(ask(&sandbox) == FY_STAGE_NONE, "%s", why_text);
    fy_buffer_start(&why, why_text, sizeof why_text);
    ck_assert_int_eq(
        fy_run_start(&spec, &invocation, sandbox, files, -1, &run, &why), 0);
    (void)fcntl(run.out, F_SETFL, 0);
    while ((n = read(run.out, out + used, sizeof out - 1 - used)) > 0) {
        used += (size_t)n;
    }
    out[used] = '\0';
    ck_assert_int_eq(waitpid(run.pid, NULL, 0), run.pid);
    fy_run_clear(&run);
    fy_sandbox_free(sandbox);
    return out;
}

static void
use_script(void)
{
    static const char *const variables[] = {"PATH", NULL};
    reset();
    use_program("/usr/bin/zgrep");
    argv[0] = bytes("zgrep");
    argv[1] = bytes("x");
    argv[2] = bytes("file");
    spec.argc = 3;
    spec.envc = 1;
    invocation.variables = variables;
}

/* Which programs it finds is not the client's to say, nor what they read. */
START_TEST(test_search)
{
    if (!is_closed()) {
        return;
    }
    static const char *const led[] = {
        "PATH=/usr/bin:" MOUNT "/bin", "PATH=" MOUNT, "PATH=/bin:bin", "PATH=",
        "PATH=/bin::/usr/bin",         "PATH=/bin:"};
    for (size_t i = 0; i < sizeof led / sizeof *led; i++) {
        use_script();
        env[0] = bytes(led[i]);
        ck_assert_msg(ask(NULL) == FY_STAGE_OTHER_TOOL, "%s", led[i]);
        /* One that starts none looks for none. */
        ck_assert_msg(with(led[i], NULL) == FY_STAGE_NONE, "%s: %s", led[i],
                      why_text);
    }
    use_script();
    env[0] = bytes("PATH=/usr/bin:/bin");
    shell("echo x >$B/top/file");
    ck_assert_str_eq(started(), "x\n");
}
END_TEST

START_TEST(test_program)
{
    /* A program of many names. */
    reset();
    argv[0] = bytes("git-cat");
    ck_assert_uint_eq(ask(NULL), FY_STAGE_NOT_PARSED);
    argv[0] = bytes("/bin/sh");
    ck_assert_uint_eq(ask(NULL), FY_STAGE_NOT_PARSED);
    argv[0] = bytes("/any/where/cat");
    ck_assert_uint_eq(ask(NULL), FY_STAGE_NONE);
    /* git's pager. */
    invocation.traits = 1U << FY_TRAIT_TERMINAL;
    spec.out.kind = FY_STREAM_PTY;
    ck_assert_uint_eq(ask(NULL), FY_STAGE_ODD_STREAM);
}
END_TEST

/* The client says that `path' is missing. */
static unsigned
compare(const char *path)
{
    const char *const list[] = {path, NULL};
    reset();
    invocation.configs = list;
    configs[0].path = bytes(path);
    memset(configs[0].sha256, 0, 32);
    spec.nconfigs = 1;
    unsigned found = ask(NULL);
    invocation.configs = NULL;
    return found;
}

/* To open some files is to do something (a watchdog, a tape, a pipe that somebody waits
 * for). */
START_TEST(test_configs)
{
    char path[128];
    ck_assert_uint_eq(compare("/usr/no-such"), FY_STAGE_NONE);
    ck_assert_uint_eq(compare("/usr/../srv/no-such"), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(compare("/etc/passwd"), FY_STAGE_OTHER_NAMES);
    shell("mkfifo $B/fifo");
    snprintf(path, sizeof path, "%s/fifo", base);
    ck_assert_uint_eq(compare(path), FY_STAGE_OTHER_CONFIG);
    ck_assert_uint_eq(compare("/dev/zero"), FY_STAGE_OTHER_CONFIG);
}
END_TEST

/* ---- the attacker's code runs ------------------------------------------------------- */

/* Returns the call that changed another process of the stage's user, or "". */
static const char *
change_of_another(void)
{
    const struct rlimit limit = {100, 100};
    const struct sched_param idle = {0};
    const uint32_t attributes[12] = {sizeof attributes, SCHED_BATCH};
    cpu_set_t processors;
    pid_t other = fork();

    if (other == 0) {
        for (;;) {
            pause();
        }
    }
    sched_getaffinity(0, sizeof processors, &processors);
    const char *done =
        prlimit(other, RLIMIT_NOFILE, &limit, NULL) == 0 ? "prlimit"
        : sched_setaffinity(other, sizeof processors, &processors) == 0
            ? "sched_setaffinity"
        : sched_setscheduler(other, SCHED_IDLE, &idle) == 0
            ? "sched_setscheduler"
        : sched_setparam(other, &idle) == 0 ? "sched_setparam"
        : syscall(SYS_sched_setattr, other, attributes, 0) == 0
            ? "sched_setattr"
        : syscall(SYS_move_pages, other, 0, NULL, NULL, NULL, 0) >= 0
            ? "move_pages"
        : setpriority(PRIO_PROCESS, (id_t)other, 19) == 0 ? "setpriority"
        : setpriority(PRIO_USER, 0, 19) == 0 ? "setpriority of a user"
        : setpriority(PRIO_PGRP, 0, 19) == 0 ? "setpriority of a group"
        : syscall(SYS_ioprio_set, 1, other, 3 << 13) == 0 ? "ioprio_set"
        : syscall(SYS_ioprio_set, 3, 0, 3 << 13) == 0 ? "ioprio_set of a user"
        : sched_setaffinity(0, sizeof processors, &processors) != 0 ||
                setpriority(PRIO_PROCESS, 0, 19) != 0 ||
                setpriority(PRIO_PROCESS, (id_t)getpid(), 19) != 0
            ? "no change of its own, which is allowed"
            : "";
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return done;
}

/* Reported by the child: the first of these that succeeded. */
static const char *
attack(pid_t victim)
{
    char path[128];
    struct timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    if (open(outside, O_RDONLY) >= 0) {
        return "read";
    }
    if (open(outside, O_WRONLY) >= 0 || truncate(outside, 0) == 0) {
        return "write";
    }
    /* What Landlock says nothing of. */
    if (chmod(outside, 0777) == 0 || chmod("/dev/shm", 01777) == 0) {
        return "chmod";
    }
    if (chown(outside, geteuid(), getegid()) == 0) {
        return "chown";
    }
    if (utimensat(AT_FDCWD, outside, times, 0) == 0) {
        return "utimes";
    }
    if (link(outside, MOUNT "/linked") == 0 ||
        rename(outside, MOUNT "/renamed") == 0) {
        return "link";
    }
    if (symlink(outside, MOUNT "/by-link") == 0 &&
        (open(MOUNT "/by-link", O_RDONLY) >= 0 ||
         chmod(MOUNT "/by-link", 0777) == 0)) {
        return "link followed";
    }
    static const char *const of_process[] = {"environ", "mem",  "root/etc",
                                             "cwd/.",   "fd/0", "maps"};
    for (size_t i = 0; i < sizeof of_process / sizeof of_process[0]; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)victim, of_process[i]);
        if (open(path, O_RDONLY) >= 0) {
            return of_process[i];
        }
    }
    if (kill(victim, SIGUSR1) == 0 || kill(victim, 0) == 0) {
        return "kill";
    }
    if (ptrace(PTRACE_SEIZE, victim, 0, 0) == 0) {
        return "ptrace";
    }
    if (mount("none", MOUNT, "tmpfs", 0, NULL) == 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL) == 0 ||
        umount2("/tmp", MNT_DETACH) == 0) {
        return "mount";
    }
    if (chroot(MOUNT) == 0) {
        return "chroot";
    }
    if (syscall(SYS_unshare, CLONE_NEWUSER) == 0 ||
        syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0 ||
        syscall(SYS_clone3, path, 0) >= 0 || errno != ENOSYS) {
        return "user namespace";
    }
    int raw = socket(AF_INET, SOCK_RAW, 1);
    if (raw >= 0) {
        return "raw socket";
    }
    /* Agents and daemons, wherever their sockets are. */
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EACCES ||
        socket(AF_VSOCK, SOCK_STREAM, 0) >= 0) {
        return "socket";
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return "no socketpair, which is nobody's";
    }
    if (kill(-1, 0) == 0 || kill(0, 0) != 0) {
        return "kill of all";
    }
    if (syscall(SYS_io_uring_setup, 1, path) >= 0 || errno != ENOSYS) {
        return "io_uring";
    }
    if (syscall(SYS_keyctl, 0, -3, 0) >= 0) {
        return "keyctl";
    }
    struct iovec mine = {path, 1}, theirs = {path, 1};
    if (process_vm_readv(victim, &mine, 1, &theirs, 1, 0) >= 0) {
        return "process_vm_readv";
    }
    const char *changed = change_of_another();
    if (changed[0] != '\0') {
        return changed;
    }
    /* A setuid program gives nothing. */
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        return "new privileges";
    }
    if (open("/proc/sys/kernel/core_pattern", O_WRONLY) >= 0 ||
        open("/proc/sysrq-trigger", O_WRONLY) >= 0) {
        return "/proc";
    }
    return "";
}

/* Privileges are lost by exec only, so by this program once more. */
START_TEST(test_escape)
{
    if (!is_closed()) {
        return;
    }
    pid_t victim = fork();
    if (victim == 0) {
        pause();
        _exit(0);
    }
    char number[16], out[256] = "";
    snprintf(number, sizeof number, "%d", (int)victim);
    shell("cp /proc/$PPID/exe $B/top/attacker");
    struct fy_sandbox *sandbox = NULL;
    /* A script, whose stage may execute the system's programs. */
    use_program("/usr/bin/zgrep");
    argv[0] = bytes("zgrep");
    ck_assert_msg(ask(&sandbox) == FY_STAGE_NONE, "%s", why_text);
    /* The exec of what is not the system's is refused, too; so the system's
     * loader starts it. */
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        if (fy_sandbox_enter(sandbox) != 0) {
            dprintf(1, "enter: %s", strerror(errno));
            _exit(126);
        }
        execl(MOUNT "/attacker", "attacker", NULL);
        if (errno != EACCES) {
            dprintf(1, "it was executed: %s", strerror(errno));
            _exit(126);
        }
        execl("/lib64/ld-linux-x86-64.so.2", "ld.so", MOUNT "/attacker",
              "attack", outside, number, NULL);
        dprintf(1, "exec: %s", strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t n;
    while ((n = read(ends[0], out + used, sizeof out - 1 - used)) > 0) {
        used += (size_t)n;
    }
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    fy_sandbox_free(sandbox);
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
    ck_assert_str_eq(out, "closed");
    struct stat about;
    ck_assert_int_eq(stat(outside, &about), 0);
    ck_assert_uint_eq(about.st_mode & 0777, 0600);
}
END_TEST

int
main(int argc, char **arguments)
{
    if (argc == 4 && strcmp(arguments[1], "attack") == 0) {
        snprintf(outside, sizeof outside, "%s", arguments[2]);
        const char *won = attack((pid_t)strtol(arguments[3], NULL, 10));
        printf("%s", *won ? won : "closed");
        return 0;
    }
    Suite *suite = suite_create("escape");
    for (int user = 0; user < 2; user++) {
        TCase *tests = tcase_create(user ? "user" : "here");
        tcase_add_checked_fixture(tests, user ? setup_user : setup, teardown);
        tcase_set_timeout(tests, 30);
        tcase_add_test(tests, test_environment);
        tcase_add_test(tests, test_search);
        tcase_add_test(tests, test_program);
        tcase_add_test(tests, test_configs);
        tcase_add_test(tests, test_escape);
        suite_add_tcase(suite, tests);
    }
    return run_suite(suite);
}
