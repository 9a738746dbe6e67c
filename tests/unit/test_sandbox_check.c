/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/sandbox/check.c, proxy/sandbox/roots.c, proxy/sandbox/namespace.c, proxy/sandbox/enter.c: what a stage is refused, and what
 * it can reach when it was not. Runs as whoever runs the tests, and as root a
 * second time as an ordinary user (user namespaces). Long because every case needs
 * the same stage, folder and two users.
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
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "annotations/model/model.h"
#include "proxy/sandbox/policy.h"
#include "proxy/storage/tools.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"
#include "tests/unit/stage.h"

#define MOUNT "/mnt-of-the-client/deep/data"

static char strange[64]; /* with a file of root, for the others; or "" */
static char outside[80];
static struct fy_policy *policy;
static char why_text[1024];
static struct fy_buffer why;
static unsigned reason;
static int files[3];

/* One stage, written by hand. */
static struct fy_stage_spec spec;
static struct fy_invocation invocation;
static struct fy_bytes argv[8], env[8];
static struct fy_use uses[8];
static struct fy_config_hash configs[4];
static char identity[256];

static void
program(const char *path)
{
    set_tool(&spec, path, identity, sizeof identity);
    const char *slash = strrchr(path, '/');
    argv[0] = bytes(slash ? slash + 1 : path);
}

static void
reset(void)
{
    memset(&spec, 0, sizeof spec);
    memset(&invocation, 0, sizeof invocation);
    spec.argv = argv;
    spec.env = env;
    spec.configs = configs;
    spec.mount = bytes(MOUNT);
    spec.root = bytes(root);
    spec.cwd = bytes(MOUNT);
    spec.umask = 022;
    set_limits(&spec);
    invocation.uses = uses;
    argv[0] = bytes("zgrep");
    spec.argc = 1;
    /* A script: its stage may execute the system's programs. */
    program("/usr/bin/zgrep");
    fy_buffer_start(&why, why_text, sizeof why_text);
}

static void
operand(const char *text, unsigned access, unsigned kind)
{
    argv[spec.argc] = bytes(text);
    uses[invocation.nuses++] = (struct fy_use){
        .arg = spec.argc++, .access = (uint8_t)access, .kind = (uint8_t)kind};
}

/* The annotation names what the client compares. */
static void
name_configs(void)
{
    static char paths[2][256];
    static const char *named[3];
    for (unsigned i = 0; i < spec.nconfigs && i < 2; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%.*s",
                       (int)configs[i].path.n, configs[i].path.at);
        named[i] = paths[i];
    }
    named[spec.nconfigs < 2 ? spec.nconfigs : 2] = NULL;
    invocation.configs = named;
}

static struct fy_sandbox *
accept(void)
{
    struct fy_sandbox *sandbox = NULL;
    name_configs();
    fy_buffer_start(&why, why_text, sizeof why_text);
    int status = fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                                 &reason, &why);
    ck_assert_msg(status == 0, "%d: %s", status, why_text);
    return sandbox;
}

static unsigned
refused(void)
{
    struct fy_sandbox *sandbox = NULL;
    name_configs();
    fy_buffer_start(&why, why_text, sizeof why_text);
    reason = 0;
    int status = fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                                 &reason, &why);
    if (!status) {
        fy_sandbox_free(sandbox);
        return FY_STAGE_NONE;
    }
    ck_assert_int_eq(status, FY_ERR_UNSUPPORTED);
    ck_assert_uint_gt(why.used, 0);
    return reason;
}

/* Reason for a cat of this operand. */
static unsigned
cat(const char *text)
{
    reset();
    operand(text, FY_ACCESS_IN, FY_USE_FILE);
    return refused();
}

/* Runs sh -c `script' in a sandbox, or its only program with this operand; its
 * output, "exit N" behind it. */
static const char *
inside(struct fy_sandbox *sandbox, const char *script)
{
    static char out[8192];
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
        if (sandbox->alone) {
            execl(fy_sandbox_program(sandbox), "alone", script, NULL);
        } else {
            execl("/bin/sh", "sh", "-c", script, NULL);
        }
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t n;
    while ((n = read(ends[0], out + used, sizeof out - 32 - used)) > 0) {
        used += (size_t)n;
    }
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    fy_sandbox_free(sandbox);
    snprintf(out + used, 32, "exit %d",
             WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return out;
}

static void
open_policy(void)
{
    ck_assert_int_eq(fy_policy_new(true, &policy), 0);
}

static void
setup(void)
{
    make_base("sandbox");
    snprintf(outside, sizeof outside, "%s/outside", base);
    shell("mkdir -p $B/top/sub/deeper && echo one >$B/top/file && "
          "echo secret >$B/outside && chmod 755 $B");
    shell("cd $B/top && echo two >sub/two && ln -s file plain && "
          "ln -s sub linked && ln -s ../outside up && ln -s ../file sub/up");
    shell("cd $B/top && ln -s " MOUNT "/file absolute && mkfifo fifo && "
          "ln -s loop loop && ln -s /proc/self/root magic");
    reset();
    open_policy();
}

static void
teardown(void)
{
    fy_policy_free(policy);
    policy = NULL;
    shell("rm -rf $B");
    if (*strange) {
        strcpy(base, strange);
        shell("rm -rf $B");
    }
}

static void
setup_user(void)
{
    if (geteuid() == 0) {
        strcpy(strange, "/var/tmp/ferry-strange-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(strange));
        strcpy(base, strange);
        shell("mkdir -p $B/d/e/f && touch $B/d/mine $B/d/e/f/root && "
              "chown -R 65534:65534 $B && chown 0 $B/d/e/f/root && "
              "mkdir -m 777 $B/theirs && touch $B/theirs/f && "
              "chmod 666 $B/theirs/f");
        become_ordinary_user();
    }
    setup();
}

START_TEST(test_operands)
{
    ck_assert_uint_eq(cat("file"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("./sub/../file"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat(MOUNT "/file"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("//mnt-of-the-client/./deep//data/file"),
                      FY_STAGE_NONE);
    ck_assert_uint_eq(cat("missing"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("missing/too"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("file/under"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("plain"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("linked/two"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("linked/missing"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat("/dev/null"), FY_STAGE_NONE);
    ck_assert_uint_eq(cat(""), FY_STAGE_NONE);

    ck_assert_uint_eq(cat("../outside"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("sub/../../outside"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("../top/file"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("missing/../../x"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("up"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("sub/up"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("absolute"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("magic/etc/passwd"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("loop"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("fifo"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("/etc/passwd"), FY_STAGE_OUTSIDE);
    ck_assert_uint_eq(cat("/proc/self/"
                          "root"
                          "/etc/passwd"),
                      FY_STAGE_OUTSIDE);
    ck_assert_uint_eq(cat("/dev/stdin"), FY_STAGE_OUTSIDE);
    ck_assert_uint_eq(cat(MOUNT "/../data/file"), FY_STAGE_UNCLEAR_PATH);
    ck_assert_uint_eq(cat("/mnt-of-the-client/deep/../deep/data/file"),
                      FY_STAGE_OUTSIDE);
    ck_assert_uint_eq(cat(MOUNT "x/file"), FY_STAGE_OUTSIDE);

    static char text[3 * PATH_MAX];
    memset(text, 'a', sizeof text - 1);
    ck_assert_uint_eq(cat(text), FY_STAGE_UNCLEAR_PATH);
}
END_TEST

/* Its number may be anybody's then. */
START_TEST(test_reaped_by_others)
{
    fy_namespace_drop(policy);
    fy_namespace_begin(policy);
    pid_t spare = policy->spare.pid;
    ck_assert_int_gt(spare, 0);
    ck_assert_int_eq(kill(spare, SIGKILL), 0);
    ck_assert_int_eq(waitpid(spare, NULL, 0), spare);
    int up = policy->spare.up;
    fy_namespace_drop(policy);
    ck_assert_int_eq(policy->spare.pid, 0);
    ck_assert_int_eq(fcntl(up, F_GETFD), -1);
}
END_TEST

START_TEST(test_other_kinds)
{
    /* A hard link is the file itself, here as on the client. */
    shell("echo shared >$B/first && ln $B/first $B/top/hard");
    reset();
    operand("hard", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_str_eq(inside(accept(), "cat hard"), "shared\nexit 0");
    if (geteuid() == 0) {
        shell("mknod $B/top/device c 1 5 && mknod $B/top/block b 1 0");
        ck_assert_uint_eq(cat("device"), FY_STAGE_UNCLEAR_PATH);
        ck_assert_uint_eq(cat("block"), FY_STAGE_UNCLEAR_PATH);
    }
    shell("cd $B/top && ln -s fifo to-fifo");
    ck_assert_uint_eq(cat("to-fifo"), FY_STAGE_UNCLEAR_PATH);
}
END_TEST

/* A file system that the host mounts below a root while the proxy lives. */
START_TEST(test_new_mount)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        if (!*strange) { /* else root has done it in the other test case */
            skip_test("not root, or no mounts of its own");
        }
        return;
    }
    fy_policy_free(policy);
    open_policy();
    char folder[128];
    snprintf(folder, sizeof folder, "%s/sub/deeper", root);
    reset();
    ck_assert_str_eq(inside(accept(), "cat sub/deeper/new 2>/dev/null"),
                     "exit 1");
    ck_assert_int_eq(mount("none", folder, "tmpfs", 0, NULL), 0);
    shell("echo new >$B/top/sub/deeper/new");
    reset();
    ck_assert_str_eq(inside(accept(), "cat sub/deeper/new"), "new\nexit 0");
    reset();
    ck_assert_str_eq(inside(accept(), "cat sub/deeper/new"), "new\nexit 0");
    ck_assert_int_eq(umount(folder), 0);
    reset();
    ck_assert_str_eq(inside(accept(), "cat sub/deeper/new 2>/dev/null"),
                     "exit 1");
}
END_TEST

/* A client of NFS sees what lies under a mount of the server. */
START_TEST(test_mount_below_an_export)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        if (!*strange) {
            skip_test("not root, or no mounts of its own");
        }
        return;
    }
    static const struct {
        const char *operand;
        unsigned kind, reason, exported;
    } cases[] = {
        {"file", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_NONE},
        {"sub/new", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_NONE},
        {"sub/deeper", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_UNCLEAR_PATH},
        {"sub/deeper/new", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_UNCLEAR_PATH},
        {"sub/deeper/made", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_UNCLEAR_PATH},
        {"sub", FY_USE_FILE, FY_STAGE_NONE, FY_STAGE_NESTED_MOUNT},
        {"sub", FY_USE_TREE, FY_STAGE_NESTED_MOUNT, FY_STAGE_NESTED_MOUNT},
    };
    char folder[128];
    (void)snprintf(folder, sizeof folder, "%s/sub/deeper", root);
    ck_assert_int_eq(mount("none", folder, "tmpfs", 0, NULL), 0);
    shell("echo new >$B/top/sub/deeper/new");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        operand(cases[i].operand, FY_ACCESS_OUT, cases[i].kind);
        ck_assert_uint_eq(refused(), cases[i].reason);
        spec.exported = FY_EXPORTED_SAID;
        ck_assert_uint_eq(refused(), cases[i].exported);
    }
    reset();
    spec.exported = FY_EXPORTED_SAID;
    spec.cwd = bytes(MOUNT "/sub");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    invocation.reads_cwd = true;
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    ck_assert_int_eq(umount(folder), 0);
}
END_TEST

/* A copy of a mount's folder has its names and times, but not its inode. */
START_TEST(test_copies_of_roots)
{
    struct stat about;
    reset();
    ck_assert_int_eq(stat(root, &about), 0);
    ck_assert_int_eq(fy_config_hash(root, configs[0].sha256), 0);
    configs[0].path = bytes(MOUNT);
    configs[0].inode = about.st_ino;
    configs[0].changed = fy_config_changed(&about);
    spec.nconfigs = 1;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    configs[0].changed++;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    configs[0].changed--;
    configs[0].inode++;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    configs[0].inode = configs[0].changed =
        0; /* sshfs has numbers of its own */
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    /* The client can change the status of the folder that it sees, and does: of this one. */
    configs[0].changed = FY_CONFIG_JUST_NOW;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    for (int same = 1; same >= 0; same--) {
        configs[0].changed = FY_CONFIG_ALIKE;
        ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
        (void)usleep(20000); /* the clock of the file system has ticked */
        ck_assert_int_eq(same ? chown(root, about.st_uid, (gid_t)-1) : 0, 0);
        configs[0].changed = FY_CONFIG_JUST_NOW;
        ck_assert_uint_eq(refused(),
                          same ? FY_STAGE_NONE : FY_STAGE_OTHER_CONFIG);
    }
    configs[0].changed = 0;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

static volatile sig_atomic_t breaks;

static void
give_back(int number)
{
    (void)number;
    breaks++;
}

/* A client of NFS 4 may read a file by its own word, which is a lease at the server: a
 * command that opens the file without waiting would be told EAGAIN. */
START_TEST(test_leases_are_broken_before)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/file", root);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    (void)signal(SIGIO, give_back);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
        close(fd);
        skip_test("the file system has no leases");
        return;
    }
    reset();
    operand("file", FY_ACCESS_OUT, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    ck_assert_int_eq(breaks, 0);
    spec.exported = FY_EXPORTED_SAID;
    uses[0].access = FY_ACCESS_IN;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    ck_assert_int_eq(breaks, 0);
    uses[0].access = FY_ACCESS_INOUT;
    pid_t child = fork(); /* who waits for it is not who gives it back */
    if (child == 0) {
        _exit((int)refused());
    }
    int status;
    pid_t ended;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
        if (breaks) {
            (void)fcntl(fd, F_SETLEASE, F_UNLCK);
        }
        usleep(1000);
    }
    ck_assert_int_eq(ended, child);
    ck_assert_int_eq(WEXITSTATUS(status), FY_STAGE_NONE);
    ck_assert_int_eq(breaks, 1);
    close(fd);
}
END_TEST

static enum fy_exports
look_at(const char *etab, const char *folder, bool writes, bool is_root)
{
    char text[1024];
    (void)snprintf(text, sizeof text, "%s", etab);
    return fy_exports_look(text, folder, writes, is_root);
}

/* /var/lib/nfs/etab as exportfs writes it, and as nobody does. */
START_TEST(test_exports)
{
#define USUAL                                                               \
    "sync,wdelay,hide,nocrossmnt,secure,no_subtree_check,secure_locks,acl," \
    "no_pnfs,anonuid=65534,anongid=65534,sec=sys,secure"
    static const char plain[] = "/srv/a\t*(rw," USUAL ",no_all_squash)\n";
    ck_assert_int_eq(look_at(plain, "/srv/a", true, false), FY_EXPORTS_ALLOW);
    ck_assert_int_eq(look_at(plain, "/srv/a/b", true, true), FY_EXPORTS_ALLOW);
    ck_assert_int_eq(look_at(plain, "/srv/ab", true, false),
                     FY_EXPORTS_UNKNOWN);
    ck_assert_int_eq(look_at(plain, "/srv", false, false), FY_EXPORTS_UNKNOWN);
    ck_assert_int_eq(look_at("", "/srv/a", false, false), FY_EXPORTS_UNKNOWN);
    static const struct {
        const char *options;
        bool writes, root;
        enum fy_exports found;
    } cases[] = {
        {"ro," USUAL, false, false, FY_EXPORTS_ALLOW},
        {"ro," USUAL, true, false, FY_EXPORTS_REFUSE},
        {USUAL ",ro", true, false, FY_EXPORTS_REFUSE},
        {"rw,all_squash," USUAL, false, false, FY_EXPORTS_REFUSE},
        {"rw,root_squash," USUAL, true, false, FY_EXPORTS_ALLOW},
        {"rw,root_squash," USUAL, false, true, FY_EXPORTS_REFUSE},
        {"rw,no_root_squash,no_all_squash," USUAL, true, true,
         FY_EXPORTS_ALLOW},
        {"rw,anonuid=1000", false, false, FY_EXPORTS_REFUSE},
        {"rw,anongid=1000", false, false, FY_EXPORTS_REFUSE},
        {"rw,anonuid=", false, false, FY_EXPORTS_REFUSE},
        {"", false, false, FY_EXPORTS_REFUSE},
        {",,,", false, false, FY_EXPORTS_REFUSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char etab[1024];
        (void)snprintf(etab, sizeof etab, "/srv/a\t10.0.0.0/8(%s)\n",
                       cases[i].options);
        ck_assert_msg(look_at(etab, "/srv/a", cases[i].writes, cases[i].root) ==
                          cases[i].found,
                      "%s", cases[i].options);
    }
    /* The nearest counts, for all clients. */
    ck_assert_int_eq(look_at("/\t*(ro)\n/srv\t*(rw)\n", "/srv/a", true, false),
                     FY_EXPORTS_ALLOW);
    ck_assert_int_eq(look_at("/srv\t*(rw)\n/\t*(ro)\n", "/srv/a", true, false),
                     FY_EXPORTS_ALLOW);
    ck_assert_int_eq(look_at("/srv\t*(ro)\n/\t*(rw)\n", "/srv/a", true, false),
                     FY_EXPORTS_REFUSE);
    ck_assert_int_eq(
        look_at("/srv\ta(rw)\n/srv\tb(ro)\n/srv\tc(rw)\n", "/srv", true, false),
        FY_EXPORTS_REFUSE);
    ck_assert_int_eq(look_at("/a\\040b\t*(rw)\n", "/a b", true, false),
                     FY_EXPORTS_ALLOW);
    /* No lines of exportfs. */
    static const char *const bad[] = {
        "\n\n",       "/srv/a",         "/srv/a\n",     "/srv/a\t*",
        "/srv/a\t*(", "/srv/a\t*rw)",   "/srv/a(rw)",   "srv/a\t*(rw)",
        "/srv/a\t)(", "# /srv/a *(rw)", "(rw)\t/srv/a", "/srv/a(rw)\t*",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(look_at(bad[i], "/srv/a", false, false) ==
                          FY_EXPORTS_UNKNOWN,
                      "%s", bad[i]);
    }
    /* An export that is not known: only what the user says. */
    reset();
    spec.exported = FY_EXPORTED_SAID;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.exported = FY_EXPORTED_FOUND;
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
}
END_TEST

/* The same name, another folder. */
START_TEST(test_new_root)
{
    reset();
    ck_assert_str_eq(inside(accept(), "cat file"), "one\nexit 0");
    shell("rm -r $B/top && mkdir $B/top && echo again >$B/top/file");
    reset();
    ck_assert_str_eq(inside(accept(), "pwd -P; cat file"),
                     MOUNT "\nagain\nexit 0");
}
END_TEST

START_TEST(test_folders)
{
    reset();
    spec.cwd = bytes(MOUNT "/sub");
    operand("two", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    operand("../file", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    operand("../../outside", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);

    /* tar -C sub two */
    reset();
    operand("sub", FY_ACCESS_IN, FY_USE_FOLDER);
    operand("two", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    operand("file", FY_ACCESS_IN, FY_USE_FOLDER);
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);

    /* Elsewhere: only if nothing depends on it. */
    reset();
    spec.cwd = bytes("/elsewhere/folder");
    operand(MOUNT "/file", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    invocation.reads_cwd = true;
    ck_assert_uint_eq(refused(), FY_STAGE_OUTSIDE);
    invocation.reads_cwd = false;
    operand("file", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_OUTSIDE);

    static const char *const bad[] = {MOUNT "/linked", MOUNT "/up",
                                      MOUNT "/missing", MOUNT "/file"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reset();
        spec.cwd = bytes(bad[i]);
        unsigned got = refused();
        if (i == 0) {
            /* A link: only the physical folder is the client's. */
            ck_assert(got == FY_STAGE_NONE || got == FY_STAGE_UNCLEAR_PATH);
        } else {
            ck_assert_uint_eq(got, FY_STAGE_UNCLEAR_PATH);
        }
    }
}
END_TEST

START_TEST(test_trees)
{
    reset();
    operand(".", FY_ACCESS_IN, FY_USE_TREE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    uses[0].follows = true;
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
    reset();
    operand("sub/deeper", FY_ACCESS_IN, FY_USE_TREE);
    uses[0].follows = true;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    spec.root = bytes("/");
    spec.mount = spec.cwd = bytes(MOUNT);
    operand(".", FY_ACCESS_IN, FY_USE_TREE);
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
}
END_TEST

/* A command without operands does to the folder what it would do to them. */
START_TEST(test_folder_links)
{
    reset();
    invocation.reads_cwd = invocation.cwd_is_tree = true;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    invocation.cwd_follows = true;
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
    spec.cwd = bytes(MOUNT "/sub/deeper");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    shell("cd $B/top/sub && rm up && ln -s two same && ln -s /x deeper/far");
    spec.cwd = bytes(MOUNT "/sub");
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
    invocation.cwd_is_tree = false;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

/* Links that the client cannot read: for those who read them. */
START_TEST(test_hidden_links)
{
    reset();
    operand("sub", FY_ACCESS_IN, FY_USE_TREE);
    invocation.traits = 1U << FY_TRAIT_TARGETS;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.hides_links = true;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
    invocation.traits = 0;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    operand("sub/deeper", FY_ACCESS_IN, FY_USE_TREE);
    spec.hides_links = true;
    invocation.traits = 1U << FY_TRAIT_TARGETS;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    spec.hides_links = true;
    invocation.traits = 1U << FY_TRAIT_TARGETS;
    invocation.reads_cwd = invocation.cwd_is_tree = true;
    spec.cwd = bytes(MOUNT "/sub/deeper");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.cwd = bytes(MOUNT "/sub");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
    /* The tree begins above (.git). */
    struct fy_absent absents[] = {{".tree/config", "never", false}};
    invocation.absents = absents;
    invocation.nabsents = 1;
    shell("mkdir $B/top/.tree");
    spec.cwd = bytes(MOUNT "/sub/deeper");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
    shell("rm $B/top/sub/up $B/top/up $B/top/absolute $B/top/magic");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

/* The client writes the output: what compares it with its operands by itself
 * (cat, grep) cannot. */
START_TEST(test_outputs_are_compared_with_operands)
{
    struct fy_bytes outputs[3] = {bytes(MOUNT "/file"), bytes(MOUNT "/file"),
                                  bytes(MOUNT "/file")};
    shell("cd $B/top && echo x >other && ln -s file soft && ln other hard &&"
          " ln other sub/inside");
    const char *const same[] = {"file", "./file", "soft", "sub/../file"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        reset();
        operand(same[i], FY_ACCESS_IN, FY_USE_FILE);
        ck_assert_uint_eq(refused(), FY_STAGE_NONE);
        spec.outputs = outputs;
        spec.noutputs = 1;
        ck_assert_msg(refused() == FY_STAGE_ODD_STREAM, "%s", same[i]);
        outputs[1] = outputs[0];
        outputs[0] = bytes(MOUNT "/other");
        ck_assert_uint_eq(refused(), FY_STAGE_NONE);
        spec.noutputs = 2; /* stderr */
        ck_assert_msg(refused() == FY_STAGE_ODD_STREAM, "%s", same[i]);
        outputs[0] = outputs[1];
        spec.noutputs = 3;
        ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    }
    outputs[0] = bytes(MOUNT "/hard");
    reset();
    operand("other", FY_ACCESS_IN, FY_USE_FILE);
    spec.outputs = outputs;
    spec.noutputs = 1;
    ck_assert_uint_eq(refused(), FY_STAGE_ODD_STREAM);
    /* By another name in a tree. */
    uses[0].access = FY_ACCESS_OUT;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    operand("sub", FY_ACCESS_IN, FY_USE_TREE);
    spec.outputs = outputs;
    spec.noutputs = 1;
    ck_assert_uint_eq(refused(), FY_STAGE_ODD_STREAM);
    outputs[0] = bytes(MOUNT "/file");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    /* One that cannot be found there. */
    outputs[0] = bytes(MOUNT "/gone");
    ck_assert_uint_ne(refused(), FY_STAGE_NONE);
    outputs[0] = bytes("/elsewhere/file");
    ck_assert_uint_eq(refused(), FY_STAGE_OUTSIDE);
}
END_TEST

START_TEST(test_umask)
{
    fy_policy_free(policy);
    mode_t before = umask(027);
    open_policy();
    ck_assert_uint_eq(umask(before), 027);
    reset();
    operand("file", FY_ACCESS_OUT, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.masks = true;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    spec.umask = 027;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.umask = 022;
    uses[0].access = FY_ACCESS_IN;
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

START_TEST(test_roots)
{
    char slashes[128], linked[128], sub[128];
    snprintf(slashes, sizeof slashes, "%s///", root);
    snprintf(linked, sizeof linked, "%s/link", base);
    snprintf(sub, sizeof sub, "%s/sub", root);
    ck_assert_int_eq(symlink(root, linked), 0);
    const char *const good[] = {root, slashes, linked};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        reset();
        spec.root = bytes(good[i]);
        operand("file", FY_ACCESS_IN, FY_USE_FILE);
        ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    }
    static const char *const bad[] = {"relative", "", "~root", "/no/such"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reset();
        spec.root = bytes(bad[i]);
        unsigned got = refused();
        ck_assert_msg(got == FY_STAGE_OUTSIDE || got == FY_STAGE_REFUSED,
                      "%s: %u", bad[i], got);
    }
    int fd = -1;
    ck_assert_int_eq(fy_policy_open_root(policy, sub, &fd, &reason, &why), 0);
    close(fd);
    ck_assert_int_eq(
        fy_policy_open_root(policy, "/no/such", &fd, &reason, &why),
        FY_ERR_UNSUPPORTED);
}
END_TEST

/* getcwd, paths and messages are the client's. */
static void
look_inside(const char *mount)
{
    char expected[256], folder[128];
    reset();
    snprintf(folder, sizeof folder, "%s/sub", mount);
    spec.mount = bytes(mount);
    spec.cwd = bytes(folder);
    const char *out =
        inside(accept(), "pwd -P; cat two; cat no 2>&1; cat \"$PWD/../file\"");
    snprintf(expected, sizeof expected,
             "%s\ntwo\ncat: no: No such file or directory\none\nexit 0",
             folder);
    ck_assert_str_eq(out, expected);
}

START_TEST(test_namespace)
{
    struct fy_hello hello = {0};
    fy_policy_describe(policy, &hello);
    if (!namespaces_here()) {
        skip_test("no namespaces");
        return;
    }
    ck_assert((fy_namespace_kind(policy) != FY_NAMESPACE_USER) ==
              (geteuid() == 0));
    look_inside(MOUNT);                /* its first folder is missing */
    look_inside("/mnt/no such mount"); /* a folder that exists, once empty */
    look_inside("/tmp/below/temporary");
    look_inside("/usr/share/client/data"); /* a folder with entries */
    look_inside(root);                     /* the same path */
    look_inside("/home");                  /* exists */
    look_inside(MOUNT);                    /* again, as it was made */
    /* Nothing of it is seen from here. */
    ck_assert_int_ne(access("/mnt-of-the-client", F_OK), 0);
    ck_assert_int_ne(access("/mnt/no such mount", F_OK), 0);
    ck_assert_int_ne(access("/usr/share/client", F_OK), 0);
    ck_assert_int_ne(access("/tmp/below", F_OK), 0);
}
END_TEST

/* A mount point in a folder of links, pipes, what may not be read; of very many. */
START_TEST(test_points_among_others)
{
    char place[] = "/var/tmp/ferry-points-XXXXXX", script[300], point[100];
    if (!namespaces_here()) {
        skip_test("no namespaces");
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(place));
    ck_assert_int_eq(chmod(place, 0755), 0);
    snprintf(point, sizeof point, "%s/point", place);
    snprintf(script, sizeof script,
             "cd %s && mkdir folder closed && chmod 0 closed && mkfifo pipe && "
             "ln -s folder link && ln -s none dangling && echo >file",
             place);
    ck_assert_int_eq(system(script), 0);
    look_inside(point);
    strcat(point, "/deeper//and/deeper");
    reset();
    spec.mount = spec.cwd = bytes(point);
    ck_assert_int_ne(refused(), FY_STAGE_NONE);
    snprintf(script, sizeof script, "cd %s && touch $(seq 1100)", place);
    ck_assert_int_eq(system(script), 0);
    snprintf(point, sizeof point, "%s/other/point", place);
    look_inside(point);
    snprintf(script, sizeof script, "chmod 700 %s/closed; rm -rf %s", place,
             place);
    ck_assert_int_eq(system(script), 0);
}
END_TEST

/* Spaces that the host's mounts have overtaken are made anew in their place;
 * what was made for one that cannot be is removed. */
START_TEST(test_namespaces_again)
{
    struct fy_hello hello = {0};
    char left[PATH_MAX + 16];
    fy_policy_describe(policy, &hello);
    if (!namespaces_here()) {
        skip_test("no namespaces");
        return;
    }
    look_inside(MOUNT);
    look_inside("/tmp/below/temporary");
    unsigned had = policy->nnamespaces;
    for (unsigned i = 0; i < FY_MAX_NAMESPACES; i++) {
        policy->namespaces[0].stale = true;
        reset();
        fy_sandbox_free(accept());
        ck_assert_uint_eq(policy->nnamespaces, had);
    }
    look_inside("/tmp/below/temporary");
    look_inside(MOUNT);
    /* A failure leaves the place for the next one. */
    policy->namespaces[0].stale = true;
    reset();
    spec.mount = spec.cwd = bytes("/etc/passwd");
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
    snprintf(left, sizeof left, "%s/%u", policy->temporary,
             policy->ntemporaries - 1);
    ck_assert_int_ne(access(left, F_OK), 0);
    look_inside(MOUNT);
    ck_assert_uint_eq(policy->nnamespaces, had);
}
END_TEST

START_TEST(test_impossible_points)
{
    static const char *const bad[] = {
        "/",     "/usr",       "/etc",       "/proc/1", "/tmp",
        "/a//b", "/a/../b",    "/a/..",      "/a/.",    "relative",
        "",      "/bin/x/y/z", "/etc/passwd"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reset();
        spec.mount = spec.cwd = bytes(bad[i]);
        ck_assert_msg(refused() != FY_STAGE_NONE, "%s", bad[i]);
    }
}
END_TEST

START_TEST(test_sandbox)
{
    reset();
    spec.umask = 027;
    spec.nice = 3;
    spec.limits[RLIMIT_NOFILE][0] = 77;
    spec.limits[RLIMIT_NOFILE][1] = UINT64_MAX;
    spec.limits[RLIMIT_CORE][0] = 0;
    const char *out = inside(
        accept(), "umask; nice; ulimit -n; ulimit -c; "
                  "grep NoNewPrivs /proc/self/status | tr -dc 0-9; echo");
    /* Not less than this process's own. */
    char want[64];
    int nice = getpriority(PRIO_PROCESS, 0);
    (void)snprintf(want, sizeof want, "0027\n%d\n77\n0\n1\nexit 0",
                   nice > 3 ? nice : 3);
    ck_assert_str_eq(out, want);
}
END_TEST

START_TEST(test_reach)
{
    struct fy_hello hello = {0};
    fy_policy_describe(policy, &hello);
    if (!landlock_here()) {
        skip_test("no Landlock");
        return;
    }
    char script[1024];
    /* Reads: nothing outside, by no way. */
    reset();
    snprintf(script, sizeof script,
             "for f in %s %s/file ../outside up /var/log /root /home "
             "/proc/1/"
             "root"
             "/etc/passwd /proc/self/root%s /proc/%d/cwd/file "
             "/proc/%d/environ /proc/%d/mem; do "
             "cat \"$f\" >/dev/null 2>&1 && echo \"$f\"; "
             "ls \"$f\"/. >/dev/null 2>&1 && echo \"$f/.\"; done; "
             "cat file plain sub/two; echo x >/dev/null; head -c1 /dev/zero | "
             "wc -c",
             outside, base, outside, (int)getpid(), (int)getpid(),
             (int)getpid());
    ck_assert_str_eq(inside(accept(), script), "one\none\ntwo\n1\nexit 0");

    /* A stage that only reads cannot write but to /tmp. */
    reset();
    ck_assert_str_eq(
        inside(accept(), "(echo x >file) 2>/dev/null && echo wrote; "
                         "rm -f file 2>/dev/null; (: >new) 2>/dev/null && "
                         "echo made; echo t >/tmp/t && cat /tmp/t; cat file"),
        "t\none\nexit 0");

    /* An effect can, beneath its root. */
    reset();
    invocation.effect = true;
    ck_assert_str_eq(inside(accept(),
                            "echo x >new && mkdir d && mv new d/n && "
                            "ln d/n sub/n && cat sub/n && rm -r d sub/n; "
                            "(echo x >../x) 2>/dev/null || echo no; "
                            "(echo x >/var/tmp/../x) 2>/dev/null || echo no"),
                     "x\nno\nno\nexit 0");

    /* The private /tmp is not the host's. */
    reset();
    ck_assert_int_ne(access("/tmp/t", F_OK), 0);
    ck_assert_str_eq(inside(accept(), "cat /tmp/t"), "t\nexit 0");
}
END_TEST

START_TEST(test_network)
{
    struct fy_hello hello = {0};
    fy_policy_describe(policy, &hello);
    if (landlock_here() < 6) {
        skip_test("Landlock without network or scopes");
        return;
    }
    reset();
    char script[640];
    snprintf(script, sizeof script,
             "/usr/bin/python3 -c '\n"
             "import socket,os\n"
             "def t(f):\n"
             "  try: f(); print(\"reached\")\n"
             "  except OSError as e: print(\"no\")\n"
             "t(lambda: socket.create_connection((\"127.0.0.1\", 22), 1))\n"
             "t(lambda: socket.socket().bind((\"127.0.0.1\", 9)))\n"
             "t(lambda: os.kill(%d, 0))\n"
             "'",
             (int)getpid());
    ck_assert_str_eq(inside(accept(), script), "no\nno\nno\nexit 0");
}
END_TEST

START_TEST(test_race)
{
    /* A name that is a folder of ours at one moment and a link to the outside
     * at the next: whatever the check saw, the secret never comes out. */
    char script[512];
    pid_t pid = fork();
    if (pid == 0) {
        char a[128], b[128], c[128];
        snprintf(a, sizeof a, "%s/race", root);
        snprintf(b, sizeof b, "%s/race.dir", root);
        snprintf(c, sizeof c, "%s/race.link", root);
        mkdir(b, 0755);
        char inner[160];
        snprintf(inner, sizeof inner, "%s/outside", b);
        close(open(inner, O_CREAT | O_WRONLY, 0644));
        if (symlink(base, c) != 0) {
            _exit(1);
        }
        for (;;) {
            rename(b, a);
            sched_yield();
            rename(a, b);
            rename(c, a);
            rename(a, c);
        }
    }
    unsigned ran = 0;
    snprintf(script, sizeof script,
             "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
             "cat race/outside; done 2>/dev/null; echo");
    time_t end = time(NULL) + 10;
    while (ran < 40 && time(NULL) < end) {
        reset();
        operand("race/outside", FY_ACCESS_IN, FY_USE_FILE);
        struct fy_sandbox *sandbox = NULL;
        if (fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                            &reason, &why) == 0) {
            ran++;
            ck_assert_ptr_null(strstr(inside(sandbox, script), "secret"));
        }
        reset();
        spec.in.kind = FY_STREAM_FILE;
        spec.in.path = bytes(MOUNT "/race/outside");
        if (fy_policy_check(policy, &spec, &invocation, &sandbox, files,
                            &reason, &why) == 0) {
            char byte;
            ck_assert_int_eq(read(files[0], &byte, 1), 0); /* ours is empty */
            close(files[0]);
            fy_sandbox_free(sandbox);
        }
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert_uint_gt(ran, 0);
}
END_TEST

START_TEST(test_streams)
{
    reset();
    spec.in = (struct fy_stream_spec){
        .kind = FY_STREAM_FILE, .path = bytes(MOUNT "/file"), .offset = 2};
    spec.out = (struct fy_stream_spec){.kind = FY_STREAM_FILE,
                                       .path = bytes(MOUNT "/sub/two"),
                                       .flags = O_WRONLY | O_APPEND};
    struct fy_sandbox *sandbox = accept();
    char text[8] = "";
    ck_assert_int_eq(read(files[0], text, sizeof text), 2);
    ck_assert_str_eq(text, "e\n");
    ck_assert_int_eq(write(files[1], "more\n", 5), 5);
    ck_assert_int_eq(files[2], -1);
    ck_assert_int_eq(fcntl(files[1], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_str_eq(inside(sandbox, "cat sub/two"), "two\nmore\nexit 0");
    close(files[0]);
    close(files[1]);

    static const struct {
        const char *path;
        unsigned reason;
    } bad[] = {{MOUNT "/missing", FY_STAGE_UNCLEAR_PATH},
               {MOUNT "/up", FY_STAGE_UNCLEAR_PATH},
               {MOUNT "/fifo", FY_STAGE_UNCLEAR_PATH},
               {"/etc/passwd", FY_STAGE_OUTSIDE},
               {"file", FY_STAGE_OUTSIDE},
               {MOUNT "/sub", FY_STAGE_ODD_STREAM}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        reset();
        spec.out = (struct fy_stream_spec){.kind = FY_STREAM_FILE,
                                           .path = bytes(bad[i].path),
                                           .flags = O_WRONLY};
        unsigned why_not = refused();
        ck_assert_msg(why_not == bad[i].reason, "%s: %u", bad[i].path, why_not);
    }
    reset();
    spec.in = (struct fy_stream_spec){
        .kind = FY_STREAM_FILE, .path = bytes(MOUNT "/file"), .offset = -1};
    ck_assert_uint_eq(refused(), FY_STAGE_ODD_STREAM);
    spec.in.offset = 0;
    spec.in.inode = 1;
    ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
}
END_TEST

START_TEST(test_tool)
{
    reset();
    spec.tool.identity = bytes("build-id:00");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    reset();
    /* The same program elsewhere. */
    program("/bin/cat");
    spec.tool.path = bytes("/opt/elsewhere/bin/cat");
    struct fy_sandbox *sandbox = accept();
    ck_assert_str_eq(fy_sandbox_program(sandbox), "/usr/bin/cat");
    fy_sandbox_free(sandbox);
    /* On the mount itself. */
    shell("cp /bin/cat $B/top/own");
    reset();
    program("/bin/cat");
    spec.tool.path = bytes(MOUNT "/own");
    argv[0] = bytes("own");
    sandbox = accept();
    ck_assert_str_eq(fy_sandbox_program(sandbox), MOUNT "/own");
    ck_assert_str_eq(inside(sandbox, "file"), "one\nexit 0");
    shell("printf '#!/bin/sh\\n' >$B/top/cat && chmod 755 $B/top/cat");
    char script[128];
    snprintf(script, sizeof script, "%s/cat", root);
    reset();
    program(script);
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    reset();
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    reset();
    program("/bin/cat");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.tool.path = bytes("cat");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    reset();
    spec.env[0] = bytes("LC_ALL=xx_XX.UTF-8");
    spec.envc = 1;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_LOCALE);
    /* This host's own program, whatever it is: it takes that locale for "C". */
    spec.tool.path = bytes("/opt/elsewhere/bin/cat");
    spec.tool.identity = bytes(FY_TOOL_THEIRS);
    argv[0] = bytes("cat");
    invocation.encoded = true;
    sandbox = accept();
    ck_assert_str_eq(fy_sandbox_program(sandbox), "/usr/bin/cat");
    ck_assert_ptr_nonnull(fy_sandbox_home(sandbox));
    ck_assert_str_eq(inside(sandbox, "file"), "one\nexit 0");
    spec.tool.path = bytes("/opt/elsewhere/bin/none-such");
    argv[0] = bytes("none-such");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    ck_assert_msg(strstr(why_text, "is missing there"), "%s", why_text);
    reset();
    program("/bin/cat");
    spec.envc = 1;
    spec.env[0] = bytes("LC_ALL=C.UTF-8");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.env[0] = bytes("LD_PRELOAD=libx.so");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    spec.env[0] = bytes("LD_LIBRARY_PATH=/no/such::/usr/lib"); /* taken out */
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    spec.env[0] = bytes("TMPDIR=/scratch/me");
    sandbox = accept();
    ck_assert_str_eq(fy_sandbox_tmpdir(sandbox), "/tmp");
    fy_sandbox_free(sandbox);
}
END_TEST

START_TEST(test_configs)
{
    char config[128];
    /* Not in a temporary folder: the stage has its own. */
    snprintf(config, sizeof config, "/dev/shm/ferry-gitconfig-%d",
             (int)getpid());
    FILE *file = fopen(config, "w");
    ck_assert_ptr_nonnull(file);
    fputs("settings\n", file);
    fclose(file);
    reset();
    spec.nconfigs = 2;
    configs[0].path = bytes(config);
    ck_assert_int_eq(fy_config_hash(config, configs[0].sha256), 0);
    configs[1].path = bytes("/etc/no-such-config");
    memset(configs[1].sha256, 0, 32);
    char script[160];
    snprintf(script, sizeof script, "cat %s", config);
    ck_assert_str_eq(inside(accept(), script), "settings\nexit 0");
    configs[0].sha256[5] ^= 1;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    memset(configs[0].sha256, 0, 32);
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
    unlink(config);

    reset();
    snprintf(config, sizeof config, "%s/gitconfig", base);
    shell("echo settings >$B/gitconfig");
    spec.nconfigs = 1;
    configs[0].path = bytes(config);
    ck_assert_int_eq(fy_config_hash(config, configs[0].sha256), 0);
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);

    /* Missing is what is missing, not what cannot be looked at. */
    shell("mkfifo $B/top/pipe; ln -sf /etc/no-such-config $B/top/away");
    static const struct {
        const char *path;
        unsigned reason;
    } missing[] = {{MOUNT "/no-such-config", FY_STAGE_NONE},
                   {MOUNT "/pipe", FY_STAGE_OTHER_CONFIG},
                   {MOUNT "/away", FY_STAGE_OTHER_CONFIG}};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        reset();
        spec.nconfigs = 1;
        configs[0].path = bytes(missing[i].path);
        memset(configs[0].sha256, 0, 32);
        ck_assert_uint_eq(refused(), missing[i].reason);
    }
    shell("rm $B/top/pipe $B/top/away");

    /* The mount's own names: does it mean the same folder? */
    reset();
    spec.nconfigs = 1;
    configs[0].path = bytes(MOUNT);
    ck_assert_int_eq(fy_config_hash(root, configs[0].sha256), 0);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    shell("touch $B/top/another");
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_CONFIG);
}
END_TEST

/* Only what is shown matters, and only where nothing is changed. */
static void
show_owners(void)
{
    invocation.pure = true;
    operand("sub", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    operand(".", FY_ACCESS_IN, FY_USE_TREE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    /* ls -la shows the client's "..". */
    invocation.traits |= 1U << FY_TRAIT_ATTRIBUTES;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
    invocation.traits &= ~(1U << FY_TRAIT_ATTRIBUTES);
    invocation.nuses = 0;
    spec.argc = 1;
    if (*strange) {
        spec.root = bytes(strange);
        operand("d/mine", FY_ACCESS_IN, FY_USE_FILE);
        operand("d/e", FY_ACCESS_IN, FY_USE_FILE);
        ck_assert_uint_eq(refused(), FY_STAGE_NONE);
        uses[1].kind = FY_USE_TREE;
        ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
        uses[1].kind = FY_USE_FILE;
        operand("d/e/f/root", FY_ACCESS_IN, FY_USE_FILE);
        ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
        invocation.nuses = 0;
        spec.argc = 1;
        invocation.reads_cwd = true;
        spec.cwd = bytes(MOUNT "/d/e/f");
        ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
        invocation.reads_cwd = false;
        spec.cwd = bytes(MOUNT);
        spec.root = bytes(root);
    }
    invocation.pure = false;
}

START_TEST(test_owners)
{
    bool all_users = fy_namespace_kind(policy) != FY_NAMESPACE_USER;
    reset();
    invocation.traits |= 1U << FY_TRAIT_OWNERS;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
    spec.nconfigs = 2;
    configs[0].path = bytes("/etc/passwd");
    configs[1].path = bytes("/etc/group");
    ck_assert_int_eq(fy_config_hash("/etc/passwd", configs[0].sha256), 0);
    ck_assert_int_eq(fy_config_hash("/etc/group", configs[1].sha256), 0);
    ck_assert_uint_eq(refused(),
                      all_users ? FY_STAGE_NONE : FY_STAGE_OTHER_NAMES);
    show_owners();
    /* Equal paths need no namespace. */
    spec.mount = spec.cwd = bytes(root);
    struct fy_sandbox *sandbox = accept();
    if (!all_users) {
        ck_assert_ptr_nonnull(fy_sandbox_tmpdir(sandbox));
    }
    char expected[32];
    snprintf(expected, sizeof expected, "0 %u\nexit 0", geteuid());
    ck_assert_str_eq(inside(sandbox, "stat -c %u / file | tr '\\n' ' ' | "
                                     "sed 's/ $//'; echo"),
                     expected);
    configs[0].sha256[0] ^= 1;
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_NAMES);
}
END_TEST

static struct fy_mount_spec more[FY_SPEC_MAX_MOUNTS];

/* As reset(), with `sub' and `sub2' of the root as two mounts. */
static void
two(const char *mount, const char *other)
{
    static char roots[2][128];
    reset();
    snprintf(roots[0], sizeof roots[0], "%s/sub", root);
    snprintf(roots[1], sizeof roots[1], "%s/sub2", root);
    shell("mkdir -p $B/top/sub2 && echo second >$B/top/sub2/x");
    spec.mount = spec.cwd = bytes(mount);
    spec.root = bytes(roots[0]);
    more[0] = (struct fy_mount_spec){bytes(other), bytes(roots[1])};
    spec.mounts = more;
    spec.nmounts = 1;
}

static void
look_at_two(const char *mount, const char *other)
{
    char script[512], name[128];
    two(mount, other);
    snprintf(name, sizeof name, "%s/x", other);
    operand("two", FY_ACCESS_IN, FY_USE_FILE);
    operand(name, FY_ACCESS_OUT, FY_USE_FILE);
    spec.argc = 3;
    snprintf(script, sizeof script,
             "cat two '%s'; cd '%s' && pwd -P; echo new >>x && cat x; "
             "echo no >'%s/made' || echo refused",
             name, other, mount);
    char expected[512];
    snprintf(expected, sizeof expected, "two\nsecond\n%s\nsecond\nnew\n",
             other);
    const char *out = inside(accept(), script);
    ck_assert_msg(strncmp(out, expected, strlen(expected)) == 0, "%s", out);
    struct fy_hello hello = {0};
    fy_policy_describe(policy, &hello);
    /* What is in the private /tmp may be written, as that may. */
    ck_assert_msg(!hello.landlock || strncmp(mount, "/tmp/", 5) == 0 ||
                      strstr(out, "refused"),
                  "%s", out);
}

START_TEST(test_several_mounts)
{
    struct fy_hello hello = {0};
    fy_policy_describe(policy, &hello);
    if (!namespaces_here()) {
        skip_test("no namespaces");
        return;
    }
    look_at_two("/no such/a", "/no such/b");
    look_at_two("/no such/b", "/no such/a");
    look_at_two("/no such/a/deep", "/no such/b/deeper");
    look_at_two("/mnt/one", "/mnt/two");
    look_at_two("/usr/share/client/data", "/usr/share/other");
    look_at_two("/tmp/one", "/srv/none/two");
    look_at_two(MOUNT, "/opt/none");
}
END_TEST

/* Writes a file of each of two mounts. */
static const char *
write_in_two(void)
{
    two("/mnt/one", "/mnt/two");
    operand("two", FY_ACCESS_IN, FY_USE_FILE);
    return "cd /; (echo a >/mnt/one/made) 2>/dev/null || echo no one; "
           "(echo b >/mnt/two/made) 2>/dev/null || echo no two";
}

/* What has an effect that no word names may have it on every mount; one that names
 * its outputs, where those are; none without one. */
START_TEST(test_effects_on_several_mounts)
{
    if (!namespaces_here() || !landlock_here()) {
        skip_test(landlock_here() ? "no namespaces" : "no Landlock");
        return;
    }
    const char *script = write_in_two();
    ck_assert_str_eq(inside(accept(), script), "no one\nno two\nexit 0");
    (void)write_in_two();
    invocation.effect = true;
    ck_assert_str_eq(inside(accept(), script), "exit 0");
    (void)write_in_two();
    invocation.effect = true;
    operand("/mnt/two/x", FY_ACCESS_OUT, FY_USE_FILE);
    ck_assert_str_eq(inside(accept(), script), "no one\nexit 0");
    (void)write_in_two();
    invocation.effect = invocation.writes_cwd = true;
    operand("/mnt/two/x", FY_ACCESS_OUT, FY_USE_FILE);
    ck_assert_str_eq(inside(accept(), script), "exit 0");
}
END_TEST

/* System calls are filtered for a user whose name no daemon has to be asked for. */
START_TEST(test_filter_of_known_users)
{
    struct fy_hello hello = {.filter = true};
    policy->known_user = false;
    fy_policy_describe(policy, &hello);
    ck_assert(!hello.filter);
}
END_TEST

START_TEST(test_mounts_apart)
{
    two(MOUNT, MOUNT "/below");
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    two(MOUNT "/below", MOUNT);
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    two(MOUNT, MOUNT);
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    two(MOUNT, "/no such/b");
    more[0].root = spec.root;
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    more[0].root = bytes(root);
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    two(MOUNT, "relative");
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    two(MOUNT, "/no such/b");
    operand("/no such/c/x", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_OUTSIDE);
    two(MOUNT, "/no such/b");
    spec.cwd = bytes("/no such");
    operand("b/x", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    operand("b/../c", FY_ACCESS_IN, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_OUTSIDE);
}
END_TEST

/* One folder under two names (a bind mount of the proxy's host). */
START_TEST(test_same_folder_twice)
{
    char twin[128];
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        if (!*strange) { /* else root has done it in the other test case */
            skip_test("not root, or no mounts of its own");
        }
        return;
    }
    two(MOUNT, "/no such/b");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    shell("mkdir -p $B/top/twin && mount --bind $B/top/sub $B/top/twin");
    snprintf(twin, sizeof twin, "%s/twin", root);
    more[0].root = bytes(twin);
    ck_assert_uint_eq(refused(), FY_STAGE_NESTED_MOUNT);
    shell("umount $B/top/twin");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

START_TEST(test_limits)
{
    struct rlimit own;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &own), 0);
    struct rlimit small = {1 << 20, 1 << 20};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    reset();
    spec.limits[RLIMIT_FSIZE][0] = UINT64_MAX;
    ck_assert_uint_eq(refused(), FY_STAGE_LIMITS);
    spec.limits[RLIMIT_FSIZE][0] = 1024;
    spec.limits[RLIMIT_FSIZE][1] = UINT64_MAX;
    ck_assert_str_eq(inside(accept(), "ulimit -Sf; ulimit -Hf"),
                     "2\n2048\nexit 0");
}
END_TEST

START_TEST(test_malformed)
{
    reset();
    operand("file", FY_ACCESS_IN, FY_USE_FILE);
    uses[0].arg = 7;
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    uses[0].arg = 1;
    uses[0].offset = 99;
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    reset();
    spec.mount.n = 0;
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    reset();
    spec.cwd = (struct fy_bytes){"/a\0b", 4};
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
    reset();
    memset(&spec.tool, 0, sizeof spec.tool);
    ck_assert_uint_eq(refused(), FY_STAGE_OTHER_TOOL);
    reset();
    memset(&spec.root, 0, sizeof spec.root);
    ck_assert_uint_eq(refused(), FY_STAGE_REFUSED);
}
END_TEST

static unsigned
open_files(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) {
        n++;
    }
    closedir(dir);
    return n;
}

START_TEST(test_no_leaks)
{
    reset();
    operand("file", FY_ACCESS_IN, FY_USE_FILE);
    spec.in = (struct fy_stream_spec){.kind = FY_STREAM_FILE,
                                      .path = bytes(MOUNT "/file")};
    fy_sandbox_free(accept());
    close(files[0]);
    unsigned before = open_files();
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < 200; i++) {
        fy_sandbox_free(accept());
        close(files[0]);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double us = ((double)(to.tv_sec - from.tv_sec) * 1e9 +
                 (double)(to.tv_nsec - from.tv_nsec)) /
                200e3;
    reset();
    operand("up", FY_ACCESS_IN, FY_USE_FILE);
    for (unsigned i = 0; i < 50; i++) {
        ck_assert_uint_eq(refused(), FY_STAGE_UNCLEAR_PATH);
    }
    ck_assert_uint_eq(open_files(), before);
    /* All of it goes, and comes back. */
    fy_policy_free(policy);
    unsigned without = open_files();
    open_policy();
    fy_policy_free(policy);
    ck_assert_uint_eq(open_files(), without);
    open_policy();

    /* fork, enter, exit against fork, exit. */
    double spent[2] = {0, 0};
    for (unsigned round = 0; round < 4; round++) {
        unsigned kind = round % 2;
        reset();
        struct fy_sandbox *sandbox = accept();
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (unsigned i = 0; i < 100; i++) {
            pid_t pid = fork();
            if (pid == 0) {
                _exit(kind ? fy_sandbox_enter(sandbox) != 0 : 0);
            }
            int status;
            waitpid(pid, &status, 0);
            ck_assert_int_eq(status, 0);
        }
        clock_gettime(CLOCK_MONOTONIC, &to);
        spent[kind] = ((double)(to.tv_sec - from.tv_sec) * 1e9 +
                       (double)(to.tv_nsec - from.tv_nsec)) /
                      100e3;
        fy_sandbox_free(sandbox);
    }
    fprintf(stderr, "# check %.0f us, enter %.0f us a stage\n", us,
            spent[1] - spent[0]);
}
END_TEST

static unsigned
temporaries(void)
{
    unsigned n = 0;
    struct dirent *entry;
    struct stat about;
    DIR *dir = opendir(base);
    while ((entry = readdir(dir))) {
        n += strncmp(entry->d_name, "ferry-proxy-", 12) == 0 &&
             fstatat(dirfd(dir), entry->d_name, &about, 0) == 0 &&
             about.st_uid == geteuid();
    }
    closedir(dir);
    return n;
}

START_TEST(test_temporaries)
{
    /* One of a proxy that was killed long ago cannot be made (its ctime), so
     * only what is alive and what ended is looked at. */
    fy_policy_free(policy);
    ck_assert_int_eq(setenv("TMPDIR", base, 1), 0);
    open_policy();
    ck_assert_uint_eq(temporaries(), 0);
    reset();
    ck_assert_str_eq(inside(accept(), "mkdir -p /tmp/a/b; echo x >/tmp/a/b/c"),
                     "exit 0");
    struct fy_policy *first = policy;
    open_policy();
    reset();
    fy_sandbox_free(accept());
    ck_assert_uint_eq(temporaries(), 2);
    fy_policy_free(first);
    ck_assert_uint_eq(temporaries(), 1);
    fy_policy_free(policy);
    policy = NULL;
    ck_assert_uint_eq(temporaries(), 0);
}
END_TEST

/* In GBK the byte of a backslash may be the second one of a character. */
START_TEST(test_encodings)
{
    static const struct {
        const char *map;
        unsigned read, unread; /* why refused: words were read, or not */
    } encodings[] = {{"GBK", FY_STAGE_OTHER_LOCALE, FY_STAGE_NONE},
                     {"SHIFT_JIS", FY_STAGE_OTHER_LOCALE, FY_STAGE_NONE},
                     {"ISO-8859-15", FY_STAGE_NONE, FY_STAGE_NONE},
                     {"UTF-8", FY_STAGE_NONE, FY_STAGE_NONE}};
    if (access("/usr/share/i18n/charmaps", F_OK) != 0) {
        skip_test("/usr/share/i18n/charmaps is not installed");
        return;
    }
#ifdef __SANITIZE_ADDRESS__
    __lsan_disable(); /* libc keeps what it reads of LOCPATH */
#endif
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        char script[256], folder[128], variable[64];
        /* Warnings about Shift JIS end it by 1 though the locale is made. */
        snprintf(script, sizeof script,
                 "mkdir -p $B/locales && localedef -c --quiet -i POSIX -f %s "
                 "$B/locales/xx_%s >/dev/null 2>&1; test -d $B/locales/xx_%s",
                 encodings[i].map, encodings[i].map, encodings[i].map);
        shell(script);
        snprintf(folder, sizeof folder, "%s/locales", base);
        ck_assert_int_eq(setenv("LOCPATH", folder, 1), 0);
        reset();
        snprintf(variable, sizeof variable, "LC_ALL=xx_%s", encodings[i].map);
        env[0] = bytes(variable);
        spec.envc = 1;
        unsigned unread = refused();
        ck_assert_msg(unread == encodings[i].unread, "%s", why_text);
        invocation.encoded = true;
        unsigned read = refused();
        ck_assert_msg(read == encodings[i].read, "%s: %s", encodings[i].map,
                      why_text);
    }
    ck_assert_int_eq(unsetenv("LOCPATH"), 0);
}
END_TEST

/* Reason for a command that writes this on a mount that keeps names. */
static unsigned
write_to(const char *text, unsigned access, unsigned kind)
{
    reset();
    spec.keeps_names = true;
    operand(text, access, kind);
    return refused();
}

/* Likewise, where the command changes its operands and nothing beside them. */
static unsigned
change(const char *text)
{
    reset();
    spec.keeps_names = true;
    operand(text, FY_ACCESS_INOUT, FY_USE_FILE);
    invocation.traits = 1U << FY_TRAIT_CHANGES_OPERANDS;
    return refused();
}

START_TEST(test_stale_links)
{
    shell("cd $B/top && mkdir -p in/d from && touch in/f.txt in/g && "
          "ln -s f.txt in/l && ln -s d in/ld && ln -s g in/f.gz && "
          "ln -s nowhere in/gone && ln -s g in/d/x && touch from/l from/new");
    static const char *const links[] = {"in/l", "in/gone", "in/l/", "in/ld"};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        for (unsigned access = FY_ACCESS_OUT; access <= FY_ACCESS_INOUT;
             access++) {
            ck_assert_msg(write_to(links[i], access, FY_USE_FILE) ==
                              FY_STAGE_FORBIDDEN,
                          "%s", links[i]);
        }
        reset();
        operand(links[i], FY_ACCESS_OUT, FY_USE_FILE);
        ck_assert_uint_ne(refused(), FY_STAGE_FORBIDDEN);
    }
    ck_assert_uint_eq(write_to("in/l", FY_ACCESS_IN, FY_USE_FILE),
                      FY_STAGE_NONE);
    /* What may be written beside it: f.txt.gz, f.gz, f. */
    ck_assert_uint_eq(write_to("in/f.txt", FY_ACCESS_INOUT, FY_USE_FILE),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(write_to("in/f", FY_ACCESS_OUT, FY_USE_FILE),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(write_to("in/gone-gz", FY_ACCESS_INOUT, FY_USE_FILE),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(write_to("in/go", FY_ACCESS_OUT, FY_USE_FILE),
                      FY_STAGE_FORBIDDEN); /* `gone' may be a piece of that */
    ck_assert_uint_eq(change("in/f.txt"), FY_STAGE_NONE);
    ck_assert_uint_eq(change("in/go"), FY_STAGE_NONE);
    ck_assert_uint_eq(change("in/gone-gz"), FY_STAGE_NONE);
    ck_assert_uint_eq(change("in/gone/"), FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(change("in/l"), FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(write_to("in/n", FY_ACCESS_OUT, FY_USE_FILE),
                      FY_STAGE_NONE);
    ck_assert_uint_eq(write_to("in/ld/y", FY_ACCESS_OUT, FY_USE_FILE),
                      FY_STAGE_NONE);
    ck_assert_uint_eq(write_to("no/such/folder", FY_ACCESS_OUT, FY_USE_FILE),
                      FY_STAGE_NONE);
}
END_TEST

/* Reason for `source', one of a list, put into the folder `into'. */
static unsigned
put_into(const char *source, unsigned kind, const char *into)
{
    reset();
    spec.keeps_names = true;
    operand(source, FY_ACCESS_IN, kind);
    uses[0].is_listed = true;
    operand(into, FY_ACCESS_OUT, FY_USE_TREE);
    return refused();
}

START_TEST(test_stale_folders)
{
    shell("cd $B/top && rm -f l* up abs* plain magic && "
          "mkdir -p in/d from/d to/from && ln -s g in/l && ln -s g in/d/x && "
          "ln -s in door && touch from/l from/new from/d/x && "
          "ln -s x to/from/n");
    ck_assert_uint_eq(put_into("from/new", FY_USE_FILE, "in"), FY_STAGE_NONE);
    ck_assert_uint_eq(put_into("from/new", FY_USE_FILE, "door"), FY_STAGE_NONE);
    ck_assert_uint_eq(put_into("from/l", FY_USE_FILE, "in"),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(put_into("from/l", FY_USE_FILE, "door/"),
                      FY_STAGE_FORBIDDEN);
    /* Folders that are merged. */
    ck_assert_uint_eq(put_into("from/d", FY_USE_TREE, "in"),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(put_into("from/d/", FY_USE_TREE, "in"),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(put_into("from/d/.", FY_USE_TREE, "in"),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(put_into("from/d", FY_USE_TREE, "sub/deeper"),
                      FY_STAGE_NONE);
    ck_assert_uint_eq(put_into("from/d", FY_USE_TREE, "to"),
                      FY_STAGE_FORBIDDEN); /* cp --parents */
    ck_assert_uint_eq(put_into("from/d", FY_USE_FILE, "to"), FY_STAGE_NONE);
    /* What no word names may be any. */
    ck_assert_uint_eq(write_to("in", FY_ACCESS_OUT, FY_USE_TREE),
                      FY_STAGE_FORBIDDEN);
    ck_assert_uint_eq(write_to("sub/deeper", FY_ACCESS_OUT, FY_USE_TREE),
                      FY_STAGE_NONE);
    ck_assert_uint_eq(write_to("in/d", FY_ACCESS_INOUT, FY_USE_TREE),
                      FY_STAGE_NONE);
    reset();
    spec.keeps_names = invocation.writes_cwd = true;
    spec.cwd = bytes(MOUNT "/in");
    ck_assert_uint_eq(refused(), FY_STAGE_FORBIDDEN);
    spec.cwd = bytes(MOUNT "/from");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
    struct fy_written written[] = {{".git", false}};
    invocation.written = written;
    invocation.nwritten = 1;
    spec.cwd = bytes(MOUNT "/in");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE);
}
END_TEST

/* The client cannot make the mount forget names in another user's folder. */
START_TEST(test_stale_names_of_others)
{
    if (!*strange) {
        if (geteuid() != 0) { /* root does it in the other test case */
            skip_test("not root");
        }
        return;
    }
    ck_assert_uint_eq(write_to("n", FY_ACCESS_OUT, FY_USE_FILE), FY_STAGE_NONE);
    spec.root = bytes(strange);
    spec.argc = 1;
    invocation.nuses = 0;
    operand("theirs/new", FY_ACCESS_OUT, FY_USE_FILE);
    ck_assert_uint_eq(refused(), FY_STAGE_FORBIDDEN);
    argv[1] = bytes("theirs/f");
    ck_assert_uint_eq(refused(), FY_STAGE_NONE); /* its name stays */
    uses[0].access = FY_ACCESS_INOUT;
    ck_assert_uint_eq(refused(), FY_STAGE_FORBIDDEN);
    argv[1] = bytes("theirs");
    uses[0].access = FY_ACCESS_OUT;
    uses[0].kind = FY_USE_TREE;
    ck_assert_uint_eq(refused(), FY_STAGE_FORBIDDEN);
}
END_TEST

static TCase *
cases(const char *name, void (*before)(void))
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, before, teardown);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, test_operands);
    tcase_add_test(tests, test_several_mounts);
    tcase_add_test(tests, test_effects_on_several_mounts);
    tcase_add_test(tests, test_filter_of_known_users);
    tcase_add_test(tests, test_mounts_apart);
    tcase_add_test(tests, test_same_folder_twice);
    tcase_add_test(tests, test_other_kinds);
    tcase_add_test(tests, test_new_mount);
    tcase_add_test(tests, test_mount_below_an_export);
    tcase_add_test(tests, test_copies_of_roots);
    tcase_add_test(tests, test_leases_are_broken_before);
    tcase_add_test(tests, test_exports);
    tcase_add_test(tests, test_new_root);
    tcase_add_test(tests, test_folders);
    tcase_add_test(tests, test_trees);
    tcase_add_test(tests, test_folder_links);
    tcase_add_test(tests, test_hidden_links);
    tcase_add_test(tests, test_outputs_are_compared_with_operands);
    tcase_add_test(tests, test_umask);
    tcase_add_test(tests, test_encodings);
    tcase_add_test(tests, test_stale_links);
    tcase_add_test(tests, test_stale_folders);
    tcase_add_test(tests, test_stale_names_of_others);
    tcase_add_test(tests, test_roots);
    tcase_add_test(tests, test_namespace);
    tcase_add_test(tests, test_points_among_others);
    tcase_add_test(tests, test_namespaces_again);
    tcase_add_test(tests, test_impossible_points);
    tcase_add_test(tests, test_sandbox);
    tcase_add_test(tests, test_reach);
    tcase_add_test(tests, test_network);
    tcase_add_test(tests, test_race);
    tcase_add_test(tests, test_streams);
    tcase_add_test(tests, test_tool);
    tcase_add_test(tests, test_configs);
    tcase_add_test(tests, test_owners);
    tcase_add_test(tests, test_limits);
    tcase_add_test(tests, test_malformed);
    tcase_add_test(tests, test_no_leaks);
    tcase_add_test(tests, test_temporaries);
    tcase_add_test(tests, test_reaped_by_others);
    return tests;
}

int
main(void)
{
    Suite *suite = suite_create("sandbox_check");
    suite_add_tcase(suite, cases("here", setup));
    if (geteuid() == 0) {
        suite_add_tcase(suite, cases("user", setup_user));
    }
    return run_suite(suite);
}
