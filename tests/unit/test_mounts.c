/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/storage/mounts.c and proxy/storage/sshfs.c: which mounts are found and what is learned of
 * them, from made-up mountinfo texts and made-up process folders. Long because each kind
 * of mount has lines, processes and options of its own.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/client/barrier.h"
#include "proxy/storage/mounts.h"
#include "proxy/wire/transport.h"
#include "tests/unit/possible.h"
#include "tests/unit/runner.h"

/* In place of libc's: what was written is not at its host when it fails. */
static unsigned flushes;
static int flush_result;
int syncfs(int fd);

int
syncfs(int fd)
{
    ck_assert_int_ge(fd, 0);
    flushes++;
    return flush_result;
}

static char proc[] = "/tmp/ferry-proc-XXXXXX";
static struct fy_mount mounts[FY_MAX_MOUNTS];
static unsigned nmounts;

static void
setup(void)
{
    strcpy(proc + strlen(proc) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(proc));
    nmounts = 0;
}

static void
teardown(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", proc);
    ck_assert_int_eq(system(command), 0);
}

static void
put(const char *pid, const char *name, const char *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", proc, pid);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/%s", proc, pid, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* A process of that user, which has a FUSE connection open as its descriptor 3. */
static void
put_process(const char *pid, const char *comm, unsigned user, unsigned group)
{
    char text[256], path[256];
    int n = snprintf(text, sizeof text,
                     "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n",
                     user, user, user, user, group, group, group, group);
    put(pid, "status", text, (size_t)n);
    n = snprintf(text, sizeof text, "%s\n", comm);
    put(pid, "comm", text, (size_t)n);
    snprintf(path, sizeof path, "%s/%s/fd", proc, pid);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/fdinfo", proc, pid);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s/fd/3", proc, pid);
    ck_assert(symlink("/dev/fuse", path) == 0 || errno == EEXIST);
}

#define SERVES(pid, comm, words)                 \
    (put_process(pid, comm, getuid(), getgid()), \
     put(pid, "cmdline", words, sizeof words))
#define SSHFS(pid, words) SERVES(pid, "sshfs", words)

/* With this user's number on each line of a FUSE mount that names none. */
static void
discover(const char *lines)
{
    char text[4096] = "", line[1024];
    size_t used = 0;
    for (; *lines; lines += strcspn(lines, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(lines, "\n"), lines);
        bool lacks = strstr(line, " - fuse.") && !strstr(line, "user_id=");
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 lacks ? "%s,user_id=%u\n" : "%s\n", line,
                                 getuid());
    }
    fy_mounts_discover(text, proc, mounts, &nmounts);
}

#define LINE(id, point, rest) id " 1 0:" id " / " point " rw - " rest "\n"

START_TEST(test_kinds)
{
    SSHFS("10", "sshfs\0me@host:/data\0/mnt/s");
    discover("22 1 254:0 / / rw - ext4 /dev/vda rw\n"
             "nonsense\n"
             "23 22 0:50 / /mnt/s rw,nosuid - fuse.sshfs me@host:/data "
             "rw\n"
             "24 22 0:51 / /mnt/n\\040n rw shared:1 master:2 - nfs4 "
             "[fe80::1]:/export/a ro,vers=4.2\n"
             "25 22 0:52 / /mnt/g rw - fuse.glusterfs host:/vol rw\n"
             "26 22 0:53 / /mnt/auto rw - autofs systemd-1 rw,fd=3\n"
             "27 22 0:51 /sub/x /mnt/bound rw - nfs host:/export rw\n");
    ck_assert_uint_eq(nmounts, 3); /* not a volume of Gluster */
    ck_assert_str_eq(mounts[0].path, "/mnt/s");
    ck_assert_uint_eq(mounts[0].forgets_ms, 21500);
    ck_assert((mounts[0].traits & FY_MOUNT_HIDES_LINKS) &&
              !(mounts[0].traits & FY_MOUNT_KEEPS));
    ck_assert(!(mounts[0].traits & FY_MOUNT_BY_NUMBER) &&
              (mounts[1].traits & FY_MOUNT_BY_NUMBER));
    ck_assert_str_eq(mounts[0].place.user, "me");
    ck_assert_str_eq(mounts[0].place.host, "host");
    ck_assert_str_eq(mounts[0].place.path, "/data");
    ck_assert_str_eq(mounts[0].found_by, "mountinfo");
    ck_assert(!(mounts[0].traits & FY_MOUNT_READ_ONLY));
    ck_assert_str_eq(mounts[1].path, "/mnt/n n");
    ck_assert_str_eq(mounts[1].place.host, "fe80::1");
    ck_assert_str_eq(mounts[1].place.path, "/export/a");
    ck_assert_str_eq(mounts[1].type, "nfs4");
    ck_assert(mounts[1].traits & FY_MOUNT_READ_ONLY);
    ck_assert_str_eq(mounts[2].place.path, "/export/sub/x");
}
END_TEST

START_TEST(test_home)
{
    SSHFS("10", "sshfs\0h:\0/mnt/a");
    SSHFS("11", "sshfs\0h:sub/\0/mnt/b");
    SSHFS("12", "sshfs\0h:/\0/mnt/c");
    discover("23 1 0:50 / /mnt/a rw - fuse.sshfs h: rw\n"
             "24 1 0:51 / /mnt/b rw - fuse.sshfs h:sub/ rw\n"
             "25 1 0:52 / /mnt/c rw - fuse.sshfs h:/ rw\n"
             "26 1 0:52 /x /mnt/c2 rw - fuse.sshfs h:/ rw\n");
    ck_assert_uint_eq(nmounts, 4);
    ck_assert_str_eq(mounts[0].place.path, "~");
    ck_assert_str_eq(mounts[1].place.path, "~/sub");
    ck_assert_str_eq(mounts[2].place.path, "/");
    ck_assert_str_eq(mounts[3].place.path, "/x"); /* bound */
}
END_TEST

START_TEST(test_hidden)
{
    discover("22 1 254:0 / / rw - ext4 /dev/vda rw\n"
             "30 22 0:50 / /mnt/a rw - nfs h:/a rw\n"
             "31 30 0:51 / /mnt/a rw - tmpfs x rw\n"
             "32 22 0:52 / /srv/x/b rw - nfs h:/b rw\n"
             "33 22 0:53 / /srv/x rw - tmpfs x rw\n"
             "34 22 0:54 / /opt/c rw - nfs h:/c rw\n"
             "35 34 0:55 / /opt/c/d rw - nfs h:/d rw\n");
    ck_assert_uint_eq(nmounts, 2);
    ck_assert_str_eq(mounts[0].path, "/opt/c");
    ck_assert_str_eq(mounts[1].path, "/opt/c/d");
}
END_TEST

START_TEST(test_hostile)
{
    char line[512];
    snprintf(line, sizeof line,
             "30 1 0:50 / /m/a rw - fuse.sshfs h:/a rw,user_id=%u,x\n",
             getuid() + 1);
    SSHFS("10", "sshfs\0h:/a\0/m/a");
    SSHFS("11", "sshfs\0-oProxyCommand=evil:/a\0/m/b");
    SSHFS("12", "sshfs\0a@-oProxyCommand=evil:/a\0/m/c");
    discover(line);
    discover("31 1 0:51 / /m/b rw - fuse.sshfs -oProxyCommand=evil:/a rw\n"
             "32 1 0:52 / /m/c rw - fuse.sshfs a@-oProxyCommand=evil:/a rw\n"
             "33 1 0:53 / /m/d rw - nfs :/a rw\n"
             "34 1 0:54 / /m/e rw - nfs nocolon rw\n"
             "35 1 0:55 / /m/f rw - nfs [::1:/a rw\n"
             "36 1 0:56 / /m/g rw - nfs -x:/a rw\n"
             "37 1 0:57 / /m/h rw - nfs h:~root/a rw\n"
             "38 1 0:58 / /m/i rw - nfs\n");
    ck_assert_uint_eq(nmounts, 0);
}
END_TEST

START_TEST(test_sshfs_options)
{
    SSHFS("10", "sshfs\0-p\0002222\0u@h:/a\0/m/a/\0-o\0reconnect,IdentityFile="
                "/k\\,1,ServerAliveInterval=5,uid=7\0-F/cfg");
    SSHFS("11", "sshfs\0u@h:/a\0/m/b\0-oport=23,ssh_command=ssh -i /x");
    SSHFS("12", "sshfs\0u@h:/a\0/m/c\0-o\0follow_symlinks");
    SSHFS("13", "sshfs\0u@h:/a\0/m/d\0-F\0relative");
    SSHFS("14", "sshfs\0u@h:/a\0rel/e\0-oIdentityFile=key,Port=99,idmap=none");
    SERVES("15", "cat", "sshfs\0u@h:/a\0/m/f");
    discover(LINE("30", "/m/a", "fuse.sshfs u@h:/a rw")
                 LINE("31", "/m/b", "fuse.sshfs u@h:/a rw")
                     LINE("32", "/m/c", "fuse.sshfs u@h:/a rw")
                         LINE("33", "/m/d", "fuse.sshfs u@h:/a rw")
                             LINE("34", "/m/e", "fuse.sshfs u@h:/a rw")
                                 LINE("35", "/m/f", "fuse.sshfs u@h:/a rw"));
    ck_assert_uint_eq(nmounts, 3);
    ck_assert_str_eq(mounts[0].place.port, "2222");
    ck_assert_str_eq(mounts[0].place.config, "/cfg");
    ck_assert_uint_eq(mounts[0].place.noptions, 2);
    ck_assert_str_eq(mounts[0].place.options[0], "IdentityFile=/k,1");
    ck_assert_str_eq(mounts[0].place.options[1], "ServerAliveInterval=5");
    ck_assert((mounts[0].traits & FY_MOUNT_OWNERS_DIFFER) &&
              !(mounts[0].traits & FY_MOUNT_MODES_DIFFER));
    ck_assert((mounts[0].traits & FY_MOUNT_MAPS_USERS) &&
              (mounts[0].traits & FY_MOUNT_ONE_USER));
    ck_assert_str_eq(mounts[1].place.port, "23");
    ck_assert_str_eq(mounts[1].place.command, "ssh -i /x");
    ck_assert(!(mounts[1].traits & FY_MOUNT_OWNERS_DIFFER));
    ck_assert_str_eq(mounts[2].path, "/m/e");
    ck_assert_uint_eq(mounts[2].place.noptions, 1);
    ck_assert_str_eq(mounts[2].place.options[0], "Port=99");
    ck_assert(!(mounts[2].traits & FY_MOUNT_OWNERS_DIFFER) &&
              !(mounts[2].traits & FY_MOUNT_MAPS_USERS));
}
END_TEST

#define FERRY_LINE LINE("20", "/mnt/f", "fuse.ferry h:/d rw")
#define FERRY_WORDS                                      \
    "ferry-mount\0-oro\0source=h:/d\0--control=/run/c\0" \
    "ssh://u@h:22/d%20x?option=Compression=no\0/mnt/f"

/* A mount of ferry is as the process says that has its connection open. */
START_TEST(test_ferry)
{
    SERVES("10", "ferry-mount", FERRY_WORDS);
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 1);
    const struct fy_mount *mount = &mounts[0];
    ck_assert_str_eq(mount->type, "fuse.ferry");
    ck_assert_str_eq(mount->place.transport->scheme, "ssh");
    ck_assert_str_eq(mount->place.user, "u");
    ck_assert_str_eq(mount->place.port, "22");
    ck_assert_str_eq(mount->place.path, "/d x");
    ck_assert_str_eq(mount->place.options[0], "Compression=no");
    ck_assert_str_eq(mount->control, "/run/c");
    ck_assert_int_eq(mount->pid, 10);
    ck_assert_uint_eq(mount->forgets_ms, 0);
    ck_assert(mount->traits ==
              (FY_MOUNT_FUSE | FY_MOUNT_TOLD | FY_MOUNT_SHOWS_SELF));
}
END_TEST

START_TEST(test_ferry_of_a_folder)
{
    SERVES("10", "ferry-mount", FERRY_WORDS);
    discover("20 1 0:20 /sub/y /mnt/f rw - fuse.ferry h:/d rw\n");
    ck_assert_uint_eq(nmounts, 1);
    ck_assert_str_eq(mounts[0].place.path, "/d x/sub/y");
}
END_TEST

/* Nothing is believed of a process that does not serve it, of another user's, of one
 * with another folder, or with a place that is none. */
START_TEST(test_ferry_impostors)
{
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
    put_process("10", "ferry-mount", getuid() + 1, getgid());
    put("10", "cmdline", FERRY_WORDS, sizeof FERRY_WORDS);
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
    SERVES("10", "cat", FERRY_WORDS);
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
    SERVES("10", "ferry-mount", "ferry-mount\0ssh://h/d\0/mnt/other");
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
    SERVES("10", "ferry-mount", "ferry-mount\0h:/d\0/mnt/f");
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
    SERVES("10", "ferry-mount", "ferry-mount\0ssh://h/d\0/mnt/f");
    char path[256];
    snprintf(path, sizeof path, "%s/10/fd/3", proc);
    ck_assert_int_eq(unlink(path), 0);
    discover(FERRY_LINE);
    ck_assert_uint_eq(nmounts, 0);
}
END_TEST

/* What is shown otherwise than it is there, from its options. */
START_TEST(test_sshfs_shows)
{
    static const struct {
        const char *list;
        bool found, owners_differ, modes_differ, maps_users, one_user;
        bool follows, unlike;
    } rows[] = {
        {"reconnect", true, false, false, false, false, false, false},
        {"uid=7,gid=8", true, true, false, true, true, false, false},
        {"gid=8", true, true, false, false, false, false, false},
        {"umask=077", true, true, true, false, false, false, false},
        {"idmap=user", true, true, false, true, false, false, false},
        {"idmap=none", true, false, false, false, false, false, false},
        {"idmap=file,uidfile=/u", true, true, false, true, false, false, false},
        {"follow_symlinks", false, false, false, false, false, true, false},
        {"transform_symlinks", false, false, false, false, false, true, false},
        {"modules=iconv", false, false, false, false, false, false, true},
        {"max_conns=2", false, false, false, false, false, false, false},
    };
    struct fy_mount *mount = &mounts[0];
    char user[32];
    snprintf(user, sizeof user, "rw,user_id=%u", getuid());
    const struct fy_mount_line line = {
        .point = "/m/a", .source = "u@h:/a", .options = user};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        int n = snprintf(text, sizeof text, "sshfs%cu@h:/a%c/m/a%c-o%c%s", 0, 0,
                         0, 0, rows[i].list);
        put_process("10", "sshfs", getuid(), getgid());
        put("10", "cmdline", text, (size_t)n + 1);
        memset(mount, 0, sizeof *mount);
        ck_assert(fy_sshfs_learn(&line, proc, mount) == rows[i].found);
        ck_assert(!!(mount->traits & FY_MOUNT_OWNERS_DIFFER) ==
                  rows[i].owners_differ);
        ck_assert(!!(mount->traits & FY_MOUNT_MODES_DIFFER) ==
                  rows[i].modes_differ);
        ck_assert(!!(mount->traits & FY_MOUNT_MAPS_USERS) ==
                  rows[i].maps_users);
        ck_assert(!!(mount->traits & FY_MOUNT_ONE_USER) == rows[i].one_user);
        ck_assert(!!(mount->traits & FY_MOUNT_FOLLOWS_LINKS) ==
                  rows[i].follows);
        ck_assert(!!(mount->traits & FY_MOUNT_OTHER_FILES) == rows[i].unlike);
    }
}
END_TEST

/* How long it shows what it remembers, from its options. */
START_TEST(test_sshfs_caches)
{
    static const struct {
        const char *list;
        uint32_t forgets_ms;
        bool keeps, found, hides_links;
    } rows[] = {
        {"reconnect", 21500, false, true, true},
        {"dcache_timeout=100", 101500, false, true, true},
        {"cache_timeout=100", 101500, false, true, true},
        {"dcache_dir_timeout=30,dcache_stat_timeout=5", 31500, false, true,
         true},
        {"dir_cache=no", 1500, false, true, true},
        {"cache=no,attr_timeout=0", 1500, false, true, true},
        {"entry_timeout=60,attr_timeout=2.5", 80500, false, true, true},
        {"dcache_timeout=86400", 0, true, true, true},
        {"kernel_cache", 0, true, true, true},
        {"auto_cache", 0, true, true, true},
        {"negative_timeout=3", 0, true, true, true},
        {"negative_timeout=0", 21500, false, true, true},
        {"no_contain_symlinks", 21500, false, true, false},
        {"no_contain_symlinks,contain_symlinks", 21500, false, true, true},
        {"attr_timeout=soon", 0, false, false, false},
        {"max_conns=4", 0, false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char words[256];
        int n = snprintf(words, sizeof words, "sshfs%ch:/a%c/m/a%c-o%c%s", 0, 0,
                         0, 0, rows[i].list);
        put_process("10", "sshfs", getuid(), getgid());
        put("10", "cmdline", words, (size_t)n + 1);
        nmounts = 0;
        discover(LINE("30", "/m/a", "fuse.sshfs h:/a rw"));
        ck_assert_msg(nmounts == rows[i].found, "%s", rows[i].list);
        if (nmounts) {
            ck_assert_msg(
                mounts[0].forgets_ms == rows[i].forgets_ms &&
                    !!(mounts[0].traits & FY_MOUNT_KEEPS) == rows[i].keeps &&
                    !!(mounts[0].traits & FY_MOUNT_HIDES_LINKS) ==
                        rows[i].hides_links,
                "%s: %u ms, %d, %d", rows[i].list, mounts[0].forgets_ms,
                !!(mounts[0].traits & FY_MOUNT_KEEPS),
                !!(mounts[0].traits & FY_MOUNT_HIDES_LINKS));
        }
    }
}
END_TEST

/* Lines as Linux 5.10 to 6.12 print them. */
START_TEST(test_nfs)
{
    discover(
        "40 22 0:60 / /homes/me rw,relatime shared:50 - nfs "
        "10.0.0.5:/export/home rw,vers=3,rsize=1048576,wsize=1048576,"
        "namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,mountaddr="
        "10.0.0.5,mountvers=3,mountport=20048,mountproto=udp,"
        "local_lock=none,addr=10.0.0.5\n"
        "41 22 0:61 / /n4 rw,relatime - nfs4 "
        "fileserver.example.org:/ rw,vers=4.2,rsize=262144,acregmin=1,"
        "acregmax=5,acdirmin=2,acdirmax=9,hard,proto=tcp,clientaddr="
        "10.0.0.9,local_lock=none,addr=10.0.0.5\n"
        "42 22 0:61 /sub/deep /bound\\040here ro,relatime - nfs4 "
        "fileserver.example.org:/ rw,vers=4.2,noac,addr=10.0.0.5\n"
        "43 22 0:62 / /v6 rw - nfs4 [fe80::2%eth0]:/x/ "
        "ro,vers=4.1,proto=tcp6,clientaddr=fe80::9,addr=fe80::2%eth0\n"
        "44 43 0:63 / /v6/nested rw - nfs4 [fe80::2%eth0]:/x/nested "
        "rw,vers=4.1,actimeo=7200,acregmin=7200,acregmax=7200,acdirmin=7200,"
        "acdirmax=7200\n"
        "45 22 0:64 / /big rw - nfs h:/y rw,acregmin=90,nocto,"
        "lookupcache=none\n");
    ck_assert_uint_eq(nmounts, 6);
    ck_assert_str_eq(mounts[0].place.host, "10.0.0.5");
    ck_assert_str_eq(mounts[0].place.path, "/export/home");
    ck_assert_uint_eq(mounts[0].forgets_ms, 60500);
    ck_assert((mounts[0].traits & FY_MOUNT_BY_NUMBER) &&
              !(mounts[0].traits & FY_MOUNT_KEEPS));
    ck_assert(!(mounts[0].traits & FY_MOUNT_HIDES_LINKS));
    ck_assert(mounts[0].traits & FY_MOUNT_LOSES_FILES);
    ck_assert(!(mounts[1].traits & FY_MOUNT_LOSES_FILES));
    ck_assert_str_eq(mounts[1].place.path, "/");
    ck_assert_uint_eq(mounts[1].forgets_ms, 9500);
    ck_assert_str_eq(mounts[2].path, "/bound here");
    ck_assert_str_eq(mounts[2].place.path, "/sub/deep");
    ck_assert(mounts[2].traits & FY_MOUNT_READ_ONLY);
    ck_assert_uint_eq(mounts[2].forgets_ms, 0);
    ck_assert_str_eq(mounts[3].place.host, "fe80::2%eth0");
    ck_assert_str_eq(mounts[3].place.path, "/x");
    ck_assert(mounts[3].traits & FY_MOUNT_READ_ONLY);
    ck_assert_str_eq(mounts[4].path, "/v6/nested");
    ck_assert(mounts[4].traits & FY_MOUNT_KEEPS);
    ck_assert_uint_eq(mounts[5].forgets_ms, 90500);
}
END_TEST

/* A kind of mount is a table of its options, whose rows say all that is known. */
START_TEST(test_options_of_a_table)
{
    static const struct fy_mount_option rows[] = {
        {"mode", .traits = FY_MOUNT_MODES_DIFFER},
        {"real", .takes = FY_MOUNT_MODES_DIFFER},
        {"map", .never = "none", .traits = FY_MOUNT_MAPS_USERS},
        {"store", .only = "no", .facts = FY_SAID_KEEPS_NONE},
        {"gone", .never = "0 off", .traits = FY_MOUNT_KEEPS},
        {"names", .timers = 1},
        {"all", .timers = 3},
        {"port", .at = offsetof(struct fy_place, port),
         .bytes = sizeof((struct fy_place *)NULL)->port},
        {NULL}};
    static const struct {
        const char *list;
        unsigned traits, facts;
        double longest[2];
    } cases[] = {
        {"", 0, 0, {9, 9}},
        {"modes,mod,mode2=1,Mode", 0, 0, {9, 9}},
        {"mode=1", FY_MOUNT_MODES_DIFFER, 0, {9, 9}},
        {"mode,real", 0, 0, {9, 9}},
        {"real,mode", FY_MOUNT_MODES_DIFFER, 0, {9, 9}},
        {"map=none", 0, 0, {9, 9}},
        {"map=non", FY_MOUNT_MAPS_USERS, 0, {9, 9}},
        {"map", FY_MOUNT_MAPS_USERS, 0, {9, 9}},
        {"store=no,store=yes", 0, FY_SAID_KEEPS_NONE, {9, 9}},
        {"store", 0, 0, {9, 9}},
        {"gone=0,gone=0.0,gone=off", 0, 0, {9, 9}},
        {"gone=o", FY_MOUNT_KEEPS, 0, {9, 9}},
        {"gone", FY_MOUNT_KEEPS, 0, {9, 9}},
        {"names=30,names=20", 0, 0, {30, 9}},
        {"names=1", 0, 0, {9, 9}},
        {"all=12.5,names=10", 0, 0, {12.5, 12.5}},
        {"names=soon", 0, FY_SAID_BAD, {9, 9}},
        {"names=", 0, FY_SAID_BAD, {9, 9}},
        {"names=-1", 0, FY_SAID_BAD, {9, 9}},
        {"names=nan", 0, FY_SAID_BAD, {9, 9}},
        {"mode\\,names=30", 0, 0, {9, 9}},
        {"port=123456789012345678901234567890", 0, FY_SAID_BAD, {9, 9}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fy_mount_said said = {0};
        fy_mount_options(rows, cases[i].list, NULL, &said);
        ck_assert_msg(said.traits == cases[i].traits &&
                          said.facts == cases[i].facts,
                      "%s: %u %u", cases[i].list, said.traits, said.facts);
        for (unsigned n = 0; n < 2; n++) {
            ck_assert_double_eq(fy_mount_longest(&said, 1U << n, 9),
                                cases[i].longest[n]);
        }
    }
    struct fy_mount_said said = {0};
    fy_mount_options(rows, "port=22,port=7", NULL, &said);
    ck_assert_str_eq(said.place.port, "7");
}
END_TEST

START_TEST(test_sshfs_ambiguous)
{
    /* Two of that name, on different ports: no guess. */
    SSHFS("10", "sshfs\0h:/a\0x/m\0-p22");
    SSHFS("11", "sshfs\0h:/a\0y/m\0-p23");
    discover(LINE("30", "/1/m", "fuse.sshfs h:/a rw"));
    ck_assert_uint_eq(nmounts, 0);
    /* The whole path is certain. */
    SSHFS("12", "sshfs\0h:/a\0/1/m\0-p24");
    discover(LINE("30", "/1/m", "fuse.sshfs h:/a rw"));
    ck_assert_uint_eq(nmounts, 1);
    ck_assert_str_eq(mounts[0].place.port, "24");
}
END_TEST

/* Which processes are believed, whatever their files' owner in /proc is. */
START_TEST(test_impostors)
{
    static const char command[] = "sshfs\0h:/a\0/m/a\0-ossh_command=evil";
    static const char plain[] = "sshfs\0h:/a\0/m/a\0-oPort=9";
    static const struct {
        unsigned user, group; /* beside this user and group */
        bool sees, has, numbered;
        unsigned number;
        const char *comm, *words;
        size_t bytes;
        bool found;
    } rows[] = {
#define WORDS(name) name, sizeof name
        {0, 0, true, true, false, 0, "sshfs", WORDS(command), true},
        {0, 0, true, true, false, 0, "mount.fuse.sshf", WORDS(command), true},
        {0, 0, true, true, true, 50, "sshfs", WORDS(command), true},
        {0, 0, true, true, true, 51, "sshfs", WORDS(command), false},
        {0, 0, true, false, false, 0, "sshfs", WORDS(command), false},
        {0, 0, true, false, false, 0, "sshfs", WORDS(plain), false},
        {0, 0, false, false, false, 0, "sshfs", WORDS(command), false},
        {0, 0, false, false, false, 0, "sshfs", WORDS(plain), true},
        {1, 0, true, true, true, 50, "sshfs", WORDS(command), false},
        {1, 1, false, false, false, 0, "sshfs", WORDS(plain), false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[64], text[64];
        teardown();
        setup();
        put_process("10", rows[i].comm, getuid() + rows[i].user,
                    getgid() + rows[i].group);
        put("10", "cmdline", rows[i].words, rows[i].bytes);
        int n = snprintf(text, sizeof text, "pos:\t0\nfuse_connection:\t%u\n",
                         rows[i].number);
        if (rows[i].numbered) {
            put("10", "fdinfo/3", text, (size_t)n);
        }
        snprintf(path, sizeof path, "%s/10/fd/3", proc);
        ck_assert(rows[i].has || unlink(path) == 0);
        snprintf(path, sizeof path, "%s/10/fd", proc);
        ck_assert(rows[i].sees || rmdir(path) == 0);
        discover("30 1 0:50 / /m/a rw - fuse.sshfs h:/a rw\n");
        ck_assert_msg(nmounts == rows[i].found, "row %zu", i);
    }
    /* Of the mount itself, wherever it was given; and nothing of another's. */
    teardown();
    setup();
    SSHFS("10", "sshfs\0h:/a\0elsewhere\0-oport=7");
    put("10", "fdinfo/3", "pos:\t0\nfuse_connection:\t50\n", 27);
    SSHFS("11", "sshfs\0h:/a\0/m/a\0-oport=8");
    put("11", "fdinfo/3", "pos:\t0\nfuse_connection:\t51\n", 27);
    discover("30 1 0:50 / /m/a rw - fuse.sshfs h:/a rw\n");
    ck_assert_uint_eq(nmounts, 1);
    ck_assert_str_eq(mounts[0].place.port, "7");
    nmounts = 0;
    fy_mounts_discover("30 1 0:50 / /m/a rw - fuse.sshfs h:/a rw\n", proc,
                       mounts, &nmounts);
    ck_assert_uint_eq(nmounts, 0); /* the mount tells no user */
}
END_TEST

/* As root, a setuid program that another user has started: it has his group. */
START_TEST(test_setuid_impostor)
{
    static const char words[] = "sshfs\0h:/a\0/m/a\0-oPort=9";
    if (getuid() != 0) {
        skip_test("not root");
        return;
    }
    put_process("10", "sshfs", 0, 65534);
    put("10", "cmdline", words, sizeof words);
    discover("30 1 0:50 / /m/a rw - fuse.sshfs h:/a rw\n");
    ck_assert_uint_eq(nmounts, 0);
}
END_TEST

START_TEST(test_configured)
{
    char a[64], b[128], linked[64], said[512];
    struct fy_buffer why;
    snprintf(a, sizeof a, "%s/a=b", proc);
    snprintf(linked, sizeof linked, "%s/link", proc);
    ck_assert_int_eq(mkdir(a, 0755), 0);
    ck_assert_int_eq(symlink(a, linked), 0);
    snprintf(b, sizeof b, "%s/=loopback:///srv/x", linked);
    const char *texts[] = {b, NULL};
    ck_assert_int_eq(fy_mounts_find(texts, false, mounts, &nmounts, NULL), 0);
    ck_assert_uint_eq(nmounts, 1);
    ck_assert_str_eq(mounts[0].path, a);
    ck_assert_str_eq(mounts[0].place.path, "/srv/x");
    ck_assert(mounts[0].configured);
    ck_assert_uint_eq(mounts[0].device, 0);
    snprintf(b, sizeof b, "%s=ssh://h/y", a);
    ck_assert_int_eq(fy_mounts_find(texts, false, mounts, &nmounts, NULL), 0);
    ck_assert_str_eq(mounts[0].path, a);

    static const char *const bad[] = {"x",           "=ssh://h/x",
                                      "/tmp",        "/no/such=ssh://h/x",
                                      "/tmp=ssh://", "/dev/null=ssh://h/x",
                                      "/=ssh://h/x", "/tmp=what://h/x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fy_buffer_start(&why, said, sizeof said);
        texts[0] = bad[i];
        nmounts = 77;
        ck_assert_msg(fy_mounts_find(texts, false, mounts, &nmounts, &why) ==
                          FY_ERR_INVALID,
                      "%s", bad[i]);
        ck_assert_uint_eq(nmounts, 77);
        ck_assert_uint_gt(why.used, 0);
    }
}
END_TEST

START_TEST(test_below)
{
    char **below = fy_mounts_below("/");
    ck_assert_ptr_nonnull(below);
    bool found = false;
    for (char **at = below; *at; at++) {
        found = found || strcmp(*at, "/proc") == 0;
    }
    ck_assert(found);
    free(below);
    below = fy_mounts_below("/pro");
    ck_assert_ptr_nonnull(below);
    ck_assert_ptr_null(*below);
    free(below);
}
END_TEST

START_TEST(test_barrier_flushes_the_file_system)
{
    static struct fy_mount mount = {.path = "/tmp"};
    struct fy_quiet quiet = {0, 0};
    ck_assert_int_eq(fy_barrier(&mount, &quiet), 0);
    ck_assert_uint_eq(flushes, 0); /* files of this machine */
    fy_mount_set_type(&mount, "nfs4");
    ck_assert_int_eq(fy_barrier(&mount, &quiet), 0);
    ck_assert_uint_eq(flushes, 1);
    flush_result = -1;
    ck_assert_int_eq(fy_barrier(&mount, &quiet), FY_ERR_IO);
    ck_assert_uint_eq(flushes, 2);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("mounts");
    TCase *tests = tcase_create("mounts");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, test_kinds);
    tcase_add_test(tests, test_home);
    tcase_add_test(tests, test_hidden);
    tcase_add_test(tests, test_hostile);
    tcase_add_test(tests, test_sshfs_options);
    tcase_add_test(tests, test_ferry);
    tcase_add_test(tests, test_ferry_of_a_folder);
    tcase_add_test(tests, test_ferry_impostors);
    tcase_add_test(tests, test_options_of_a_table);
    tcase_add_test(tests, test_sshfs_shows);
    tcase_add_test(tests, test_sshfs_caches);
    tcase_add_test(tests, test_nfs);
    tcase_add_test(tests, test_sshfs_ambiguous);
    tcase_add_test(tests, test_impostors);
    tcase_add_test(tests, test_setuid_impostor);
    tcase_add_test(tests, test_configured);
    tcase_add_test(tests, test_below);
    tcase_add_test(tests, test_barrier_flushes_the_file_system);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
