/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of check.c, carried.c, roots.c, namespace.c and enter.c.
 */
#ifndef FERRY_PROXY_SANDBOX_POLICY_H
#define FERRY_PROXY_SANDBOX_POLICY_H

#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proxy/sandbox/sandbox.h"

enum {
    FY_MAX_SEEN = FY_SPEC_MAX_MOUNTS + 1, /* mounts of one stage */
    FY_MAX_NAMESPACES = 64,
    FY_MAX_SYSTEM = 48,
    FY_MAX_LOOKS = 64,
    FY_NAMESPACES = 4,
};

/* A folder that is held open, so that names beneath it can be resolved
 * safely. */
struct fy_root {
    char path[PATH_MAX]; /* its true path on this host */
    int fd;              /* O_PATH */
    dev_t device;
    ino_t inode;
    bool exported; /* by NFS: clients see no other mount below it */
};

enum fy_namespace_kind {
    FY_NAMESPACE_NONE, /* the kernel refuses */
    FY_NAMESPACE_ROOT, /* mount namespace; every user as it is */
    FY_NAMESPACE_USER, /* user namespace as well: other users are "nobody" */
};

/* A mount of the client, and the folder here that it shows. */
struct fy_seen {
    char mount[PATH_MAX]; /* plain: "/a/b" */
    struct fy_root root;
    bool writes; /* a stage may change its files */
};

/* Client mounts as they are seen there. */
struct fy_namespace {
    struct fy_shown {
        char mount[PATH_MAX];
        dev_t device;
        ino_t inode;
        size_t emptied_bytes; /* so much of mount names a folder that shows
                               * nothing else of the host; 0: none */
    } shown[FY_MAX_SEEN];
    unsigned nshown;
    bool executes;           /* code on the mounts and in /tmp may be run */
    bool image;              /* the root is the store's image, not the host's */
    int fds[FY_NAMESPACES];  /* user, mnt, net, ipc in this order; -1: none */
    int temporary_fd;        /* the private /tmp, O_PATH */
    uint64_t mounts_below;   /* hash of the host's mounts below the roots */
    unsigned mounts_changed; /* when that was true */
    bool stale;              /* the host's mounts are others now */
};

/* A child whose namespaces are made while everything else starts. Another thread
 * may reap it: its number is used only while it is known to wait for us. */
struct fy_spare {
    pid_t pid;   /* 0: none */
    int process; /* a pidfd */
    int up, down;
    bool asked; /* its first word was read */
};

struct fy_policy {
    unsigned landlock;           /* ABI version, 0: not used */
    pthread_mutex_t lock;        /* recursive: of all below, but for system */
    enum fy_namespace_kind kind; /* by fy_namespace_kind() */
    _Atomic bool kind_known;     /* true: kind stays */
    struct fy_spare spare;
    bool known_user; /* by /etc/passwd: no daemon has to be asked */
    char plain_temporary[PATH_MAX]; /* for stages without a namespace, "" */
    int plain_temporary_fd;
    struct fy_namespace namespaces[FY_MAX_NAMESPACES];
    unsigned nnamespaces;
    int mountinfo_fd;        /* becomes readable (POLLPRI) on changes; or -1 */
    unsigned mounts_changed; /* so often */
    char home[PATH_MAX];
    mode_t umask; /* the privileges that the host's login gave this process */
    char temporary[PATH_MAX]; /* private folder, "" until needed */
    int temporary_fd;         /* of it, locked while it is in use */
    unsigned ntemporaries;    /* made in it */
    struct {
        int fd;
        uint64_t access;
    } system[FY_MAX_SYSTEM];
    unsigned nsystem;
    struct {
        dev_t device;
        ino_t inode;
        uint64_t changed;  /* ns, as they were looked at */
    } looks[FY_MAX_LOOKS]; /* at mounts' own folders that have to be proved */
    unsigned nlooks;
    struct fy_store *store; /* opened when it is first needed */
    bool store_placed;      /* the place of the image is chosen */
};

struct fy_sandbox {
    char program[PATH_MAX];
    /* Carried linker that starts `program'; "": the kernel starts it. */
    char linker[PATH_MAX];
    char libraries[4 * PATH_MAX]; /* folders of libraries, for that linker */
    char folder[PATH_MAX];        /* working folder inside */
    char tmpdir[PATH_MAX];        /* "" */
    char home[PATH_MAX];          /* instead of the client's; "": that */
    bool has_space;
    int namespaces[FY_NAMESPACES]; /* -1: none; with has_space */
    int ruleset;                   /* -1: none */
    mode_t umask;
    int nice;
    bool filtered; /* filter.c */
    bool plain;    /* files have no extended attributes */
    bool alone;    /* the stage executes `program' and nothing else */
    struct rlimit limits[16];
    bool limited[16];
};

/* ---- roots.c ------------------------------------------------------------------ */

/* Refusal: sets *out_reason, appends up to three texts, returns
 * FY_ERR_UNSUPPORTED. */
int fy_refuse(unsigned *out_reason, unsigned reason, struct fy_buffer *why,
              const char *a, const char *b, const char *c);

int fy_root_open(const char *path, struct fy_root *out) FY_MUST_CHECK;
void fy_root_close(struct fy_root *root);
/* The folder of that path on this host; "~" and "~/x": of the home. */
int fy_roots_find(struct fy_policy *policy, const char *path,
                  struct fy_root *out, unsigned *out_reason,
                  struct fy_buffer *why) FY_MUST_CHECK;

/*
 * `path' as the client names it, relative to the mount: "." for the mount
 * itself; false when it is not lexically beneath it. Absolute paths only.
 */
bool fy_client_relative(const char *mount, const char *path, char *out,
                        size_t capacity);
/* The mount that the path is on, and the path beneath it; NULL: none. */
struct fy_seen *fy_seen_of(struct fy_seen *seen, unsigned n, const char *path,
                           char *out, size_t capacity);

enum fy_resolve_flag {
    FY_RESOLVE_MISSING = 1 << 0, /* may be missing (the command will say so) */
    FY_RESOLVE_FOLDER = 1 << 1,  /* must be a folder */
    FY_RESOLVE_TREE = 1 << 2,    /* no other mount below it */
    FY_RESOLVE_FOLLOWS =
        1 << 3, /* links inside are followed: all are looked at */
    FY_RESOLVE_TARGETS =
        1 << 4, /* links inside are read: all mean the same to the client */
    FY_RESOLVE_SHALLOW = 1 << 5, /* inside: only the folder's own names */
    FY_RESOLVE_SHOWS = 1 << 6,   /* the names in a folder may be looked at */
};

/*
 * Opens (O_PATH) the file at `relative' beneath the root: neither it nor a
 * link on the way leaves the root, no link that a client could take otherwise
 * (absolute, "..") is used, it is a regular file or a folder. An exported root
 * has no other mount on the way, nor below a folder that is looked at, because
 * clients see under it. *out_fd -1 if missing. `shown' is for messages.
 */
int fy_resolve(const struct fy_root *root, const char *relative, unsigned flags,
               const char *shown, int *out_fd, unsigned *out_reason,
               struct fy_buffer *why) FY_MUST_CHECK;

/*
 * Returns true if everything that a look at it shows is this user's and their
 * first group's: a file; a folder, its entries and the folder it is in; with
 * `tree' all below. False if that is too much to look at.
 */
bool fy_all_owned(int fd, bool tree);

/* ---- absent.c ----------------------------------------------------------------- */

/* Places where a stage looks for files. */
struct fy_absent_places {
    const struct fy_root *root;
    const char *base;    /* the folder it works in, relative to the root */
    const char *program; /* that it runs */
    const char *home;    /* its HOME, which may be on one of its mounts */
    struct fy_seen *seen;
    unsigned nseen;
    int image; /* the root of a program that is carried, O_PATH; -1: the host's */
};

/*
 * Refuses a stage for a file that an annotation says must be absent, or for all
 * missing of those that must be present. 0 or FY_ERR_UNSUPPORTED with reason.
 */
int fy_check_absents(const struct fy_absent_places *places,
                     const struct fy_invocation *invocation,
                     unsigned *out_reason, struct fy_buffer *why) FY_MUST_CHECK;

/* ---- exports.c ---------------------------------------------------------------- */

enum fy_exports {
    FY_EXPORTS_UNKNOWN, /* no export holds the folder */
    FY_EXPORTS_ALLOW,
    FY_EXPORTS_REFUSE
};
/*
 * Returns the answer of an etab's text, which is cut in pieces, for the folder `root' of this
 * host: of the export that is nearest above it, for every client. `writes': the stage may
 * change files; `is_root': it is root's.
 */
enum fy_exports fy_exports_look(char *etab, const char *root, bool writes,
                                bool is_root);
/* Refuses a stage of which the client's NFS mounts would do otherwise, by this host's exports.
 * 0 or FY_ERR_UNSUPPORTED with reason. */
int fy_exports_check(const struct fy_stage_spec *spec,
                     const struct fy_seen *seen, unsigned nseen, bool writes,
                     unsigned *out_reason, struct fy_buffer *why) FY_MUST_CHECK;

/* ---- names.c ------------------------------------------------------------------ */

/*
 * Refuses a stage that may remove or replace a link, or change names in
 * another user's folder, before it has done anything: the client's mount would
 * go on showing the old ones. One look serves all files that a stage writes;
 * it borrows its arguments. NULL: no memory. One thread.
 */
struct fy_names;
struct fy_names *fy_names_new(const struct fy_stage_spec *spec,
                              const struct fy_invocation *invocation,
                              unsigned *out_reason, struct fy_buffer *why);
/*
 * Checks that the file which `use' writes, `relative' beneath the root, may be
 * written; or any name in and below the folder `relative'. `shown' is for
 * messages. 0, FY_ERR_UNSUPPORTED with reason.
 */
int fy_names_check(struct fy_names *names, const struct fy_root *root,
                   const char *relative, const struct fy_use *use,
                   const char *shown) FY_MUST_CHECK;
int fy_names_check_folder(struct fy_names *names, const struct fy_root *root,
                          const char *relative,
                          const char *shown) FY_MUST_CHECK;
void fy_names_free(struct fy_names *names);

/* ---- refuse.c ----------------------------------------------------------------- */

/*
 * Refuse a variable that loads code or names files to write, a program that is called
 * by another name than its file's, and one that depends on its terminal on a terminal.
 * 0 or FY_ERR_UNSUPPORTED with reason.
 */
int fy_refuse_environment(const struct fy_stage_spec *spec,
                          unsigned *out_reason,
                          struct fy_buffer *why) FY_MUST_CHECK;
int fy_refuse_name(const struct fy_stage_spec *spec, unsigned *out_reason,
                   struct fy_buffer *why) FY_MUST_CHECK;
int fy_refuse_terminal(const struct fy_stage_spec *spec,
                       const struct fy_invocation *invocation,
                       unsigned *out_reason,
                       struct fy_buffer *why) FY_MUST_CHECK;
/* Returns true if the PATH of a stage that may execute several programs
 * names folders, and none on a mount, where a file of a program's name would
 * not run on the client. */
bool fy_refuse_search(const struct fy_stage_spec *spec,
                      const struct fy_seen *seen, unsigned nseen);
/* The open file is a program of the system's that only root can change. */
bool fy_refuse_program(int fd);

/* ---- namespace.c ------------------------------------------------------------------ */

/* Begins to make one whose mounts are not known yet: of the first that is wanted,
 * unless the host's mounts change meanwhile. */
void fy_namespace_begin(struct fy_policy *policy);
/* Returns the means of confinement that this kernel has; waits for a probe
 * that was begun. */
enum fy_namespace_kind fy_namespace_kind(struct fy_policy *policy);
/* Ends a spare namespace that was begun and not used. */
void fy_namespace_drop(struct fy_policy *policy);
/* Finds or makes the namespace of mounts, none beneath another, in the order of
 * their names; borrowed. Unless it `executes', no code on them or in /tmp is mapped,
 * as far as the kernel can. `image': the folder that is the root (store.h), or NULL.
 * FY_ERR_UNSUPPORTED with reason. */
int fy_namespace_get(struct fy_policy *policy, const struct fy_seen *seen,
                     unsigned nseen, bool executes, const char *image,
                     const struct fy_namespace **out, unsigned *out_reason,
                     struct fy_buffer *why) FY_MUST_CHECK;
/* Returns true if a file of the host cannot be seen in it by its path. */
bool fy_namespace_hides(const struct fy_namespace *namespace, const char *path);
void fy_namespace_close(struct fy_namespace *namespace);
/* Makes a new private folder beneath policy->temporary; wire/temporary.h removes it. */
int fy_temporary_new(struct fy_policy *policy, char *out,
                     size_t capacity) FY_MUST_CHECK;

/* ---- filter.c ----------------------------------------------------------------- */

/* In the child, after no_new_privs: no system calls but those that a tool makes.
 * 0, or -1 with errno. */
int fy_filter_enter(void) FY_MUST_CHECK;
/* In the child, after no_new_privs: files show no extended attributes, ACLs or labels. 0, or
 * -1 with errno. */
int fy_filter_attributes(void) FY_MUST_CHECK;
/*
 * Applies the rules of every stage: no user namespaces, in which it would have
 * privileges; and unless `only' is NULL no execve() but with this very
 * pointer, which means nothing any more in the program that it starts.
 */
int fy_filter_guard(const char *only) FY_MUST_CHECK;
/* Returns true if this kernel has seccomp filters. */
bool fy_filter_works(void);

/* ---- enter.c ------------------------------------------------------------------- */

/* The ABI version that this kernel offers and we can use, or 0. */
unsigned fy_landlock_version(void);
void fy_landlock_system(struct fy_policy *policy);
struct fy_landlock_wish {
    const struct fy_seen *seen; /* their roots */
    unsigned nseen;
    bool any_program; /* those of the system's folders are executed */
    bool own;         /* nothing of the system's */
    int temporary_fd; /* -1: none; all rights */
    int image;        /* -1: none; a root whose files are read */
    const int *files; /* more files to be read and executed */
    unsigned nfiles;
};
int fy_landlock_ruleset(const struct fy_policy *policy,
                        const struct fy_landlock_wish *wish,
                        int *out) FY_MUST_CHECK;

#endif
