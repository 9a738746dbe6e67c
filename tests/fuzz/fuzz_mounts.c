/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mounts are remote and how their hosts are reached (proxy/storage/mounts.c, proxy/storage/sshfs.c,
 * proxy/storage/mount_process.c), from texts that other users have a say in: the names
 * of mount points and sources, and the command line of what serves a mount. The
 * input, cut at its NULs: mountinfo, what status and fdinfo say of a process, and its
 * words. Whatever is found can be given to ssh, and names one host.
 */
#include "config.h"

#include "common/buffer.h"
#include "proxy/storage/mounts.h"
#include "proxy/wire/transports.h"
#include "tests/fuzz/target.h"

enum {
    PARTS = 3,
    KEPT_MS = 3700 * 1000 /* what is waited for at most, with its margin */
};

const char fuzz_shows[] =
    "every mount that is found can be asked for, or is left";
const char *const fuzz_words[] = {" - fuse.sshfs ",
                                  " - nfs4 ",
                                  " - fuse.other ",
                                  "user_id=0",
                                  "\\040",
                                  "\\012",
                                  "host:/",
                                  "[::1]:/",
                                  "-o",
                                  "port=",
                                  "ssh_command=",
                                  "cache_timeout=",
                                  "attr_timeout=",
                                  "entry_timeout=",
                                  "idmap=user",
                                  "acregmax=",
                                  "-p",
                                  "-F",
                                  "ProxyCommand=x",
                                  "--",
                                  "1e400",
                                  "nan",
                                  "-1",
                                  "99999999999",
                                  "umask=",
                                  "dir_cache=no",
                                  "follow_symlinks",
                                  "\n",
                                  NULL};

static void
judge(const struct fy_mount *mount)
{
    struct fy_ssh_words words;
    char why[256];
    struct fy_buffer buffer;
    MUST(mount->path[0] == '/');
    MUST(mount->place.transport && *mount->place.host);
    MUST(mount->place.host[0] != '-' && mount->place.user[0] != '-');
    MUST(mount->forgets_ms <= KEPT_MS && mount->kernel_ms <= KEPT_MS);
    MUST(!(mount->traits & FY_MOUNT_KEEPS) || mount->forgets_ms == 0);
    MUST(mount->place.noptions <= 8);
    fy_buffer_start(&buffer, why, sizeof why);
    if (fy_ssh_words(&mount->place, NULL, &words, &buffer) == 0) {
        MUST(words.argc > 2 && words.argc < FY_SSH_MAX_WORDS);
        MUST(!strcmp(words.argv[words.argc - 2], mount->place.host));
        MUST(!strcmp(words.argv[words.argc - 3], "--"));
    } else {
        MUST(*why);
    }
}

/* A process that serves some mount, as /proc would show it. */
static void
put_process(char *const *parts, const char *words, size_t n)
{
    static bool linked;
    char path[600], text[2048];
    int length =
        snprintf(text, sizeof text, "Name:\tx\nUid:\t%u\t%u\t%u\t%u\n%.1024s",
                 getuid(), getuid(), getuid(), getuid(), parts[1]);
    (void)fuzz_file("proc/10/status", text, (size_t)length);
    (void)fuzz_file("proc/10/comm", "sshfs\n", 6);
    (void)fuzz_file("proc/10/fdinfo/3", parts[2], strlen(parts[2]));
    (void)fuzz_file("proc/10/fd/none", "", 0);
    (void)fuzz_file("proc/10/cmdline", words, n);
    if (!linked) {
        (void)snprintf(path, sizeof path, "%s/proc/10/fd/3", fuzz_folder());
        MUST(symlink("/dev/fuse", path) == 0);
        linked = true;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct fy_mount mounts[FY_MAX_MOUNTS];
    char *parts[PARTS + 1], proc[600];
    unsigned nmounts = 0;
    fuzz_cut(bytes, n, parts, PARTS + 1);
    put_process(parts, parts[PARTS], n - (size_t)(parts[PARTS] - parts[0]));
    (void)snprintf(proc, sizeof proc, "%s/proc", fuzz_folder());
    fy_mounts_discover(parts[0], proc, mounts, &nmounts);
    MUST(nmounts <= FY_MAX_MOUNTS);
    for (unsigned i = 0; i < nmounts; i++) {
        judge(&mounts[i]);
        for (unsigned j = 0; j < i; j++) {
            MUST(strcmp(mounts[i].path, mounts[j].path) != 0);
        }
        fuzz_taken++;
    }
    free(parts[0]);
    return 0;
}

/* mountinfo with this user's number in the place of each %. */
static void
seed(const char *mountinfo, const char *rest, size_t n)
{
    char text[2048];
    size_t used = 0;
    for (; *mountinfo; mountinfo++) {
        MUST(used + n + 16 < sizeof text);
        used += *mountinfo == '%' ? (size_t)sprintf(text + used, "%u", getuid())
                                  : (text[used] = *mountinfo, (size_t)1);
    }
    text[used++] = '\0';
    memcpy(text + used, rest, n);
    fuzz_seed(text, used + n);
}

#define SEED(mountinfo, rest) seed(mountinfo, rest, sizeof rest)

void
fuzz_make_seeds(void)
{
    SEED("22 1 254:0 / / rw - ext4 /dev/vda rw\n"
         "23 22 0:50 / /mnt/s rw - fuse.sshfs me@host:/data rw,user_id=%\n"
         "24 23 0:51 /sub /mnt/s/n\\040n rw shared:1 - fuse.sshfs [::1]: "
         "rw,user_id=%\n",
         "Gid:\t0\t0\t0\t0\n\0pos: 0\nfuse_connection:\t50\n\0sshfs\0-o"
         "port=22,IdentityFile=/k,cache_timeout=5,attr_timeout=1.5,"
         "ssh_command=ssh -J jump,idmap=user,umask=022\0-p\0002222\0-F\0/c\0"
         "me@host:/data\0/mnt/s\0");
    SEED("30 1 0:60 / /mnt/n ro - nfs4 server:/export/x "
         "rw,acregmax=3,acdirmin=70,vers=4.2\n"
         "31 1 0:61 / /mnt/a rw - nfs server:/b rw,noac\n",
         "\0\0");
    /* A mount point that is no path had no last name. */
    SEED("50 1 0:50 / mnt rw - fuse.sshfs h:/d rw,user_id=%\n",
         "\nGid:\t0\0fuse\0sshfs\0h:/d\0mnt\0");
}
