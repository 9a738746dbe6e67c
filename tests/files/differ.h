/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The differential judge of file systems. Every case does the same system calls in two
 * folders, one plain and one on the mount that is judged, and says in text what each call
 * returned and what each object looks like afterwards; the two texts must be the same.
 *
 * A case runs in the current folder, which is empty and of mode 0777 at its begin. One
 * thread; only cases of locks start processes.
 */
#ifndef FERRY_TESTS_FILES_DIFFER_H
#define FERRY_TESTS_FILES_DIFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    MAX_KNOWN = 64,
    OTHER = 65534, /* the ordinary user and group */
};

/* An object as it was before the step that is judged. */
struct known {
    char name[256]; /* below the case's folder, cut */
    struct stat st;
};

struct side {
    const char *name;    /* "plain", "mount" */
    const char *folder;  /* where its cases run */
    const char *storage; /* the same folder at the storage; NULL: not known */
    char *log;           /* what the case said; owned */
    size_t n, room;
    char apart[2048]; /* what differs at the storage; cut */
    struct known known[MAX_KNOWN];
    unsigned nknown;
    bool atimes; /* state_say tells whether times of access changed */
};

/* Adds to the text of the case. */
__attribute__((format(printf, 2, 3))) void say(struct side *side,
                                               const char *format, ...);
/* Adds `text', and what the call returned: a number, or the name of errno. */
long result(struct side *side, const char *text, long value);
/* The same for a descriptor, whose number is not told. */
int opened(struct side *side, const char *text, int fd);
/* Closes it, if there is one; 0, or -1 with errno as it was. */
int closed(int fd);
/* A step of a case: the call is its own text. */
#define DO(side, call)    result(side, #call, (long)(call))
#define OPEN(side, call)  opened(side, #call, call)
#define OPENS(side, call) closed(opened(side, #call, call)) /* and closes it */
/* Preparation that cannot fail on a sane file system; the text tells if it does. */
#define MUST(side, call) must(side, #call, (long)(call))
long must(struct side *side, const char *text, long value);

/* Acts as the ordinary user from now on; as root again. No-ops without root. */
void become_other(void);
void become_root(void);

/* ---- objects.c: what calls are tried on, and how it looks ---------------------------- */

enum kind {
    NONE,
    FILE_10, /* ten bytes */
    FILE_EMPTY,
    FILE_LINKED, /* has a second name */
    FILE_SETID,
    FILE_MODE_0,
    FILE_READ_ONLY,
    FILE_OTHER, /* the ordinary user's, of mode 0640 */
    FOLDER,
    FOLDER_FULL,
    FOLDER_READ_ONLY, /* full */
    FOLDER_STICKY,    /* full; the entry is root's */
    FOLDER_MODE_0,    /* full */
    FOLDER_OTHER,     /* the ordinary user's, of mode 0750 */
    LINK_TO_FILE,
    LINK_TO_FOLDER,
    LINK_TO_NOTHING,
    LINK_TO_ITSELF,
    FIFO,
    SOCKET,
    DEVICE, /* /dev/null's */
    KINDS
};

extern const char *const kind_names[KINDS];

void object_make(struct side *side, const char *name, enum kind kind);
/* Sets times long ago on all objects, and remembers them. */
void state_settle(struct side *side);
/* Says names, attributes, link targets and contents of all objects below the current
 * folder, and whether times changed since state_settle; compares with the storage. */
void state_say(struct side *side);
/* Says them of one open file. */
void state_say_fd(struct side *side, const char *name, int fd);
/* Removes all below the current folder; false: something stays. */
bool state_wipe(struct side *side);

/* ---- compare.c ----------------------------------------------------------------------- */

/* Reads the differences that are known; NULL: none are. */
void known_read(const char *path);
/* How many lines differ that are not known: with other numbers of lines only the first
 * counts. Keeps them for groups_show, which tells each once for all cases of a row. */
unsigned differs(const char *name, const char *row, const struct side *plain,
                 const struct side *mount);
void groups_show(void);
/* A sentence; static memory. */
const char *known_used(void);

/* ---- cases --------------------------------------------------------------------------- */

/* A case of a fixed sequence of calls. */
struct script {
    const char *name;
    void (*run)(struct side *side);
    bool root; /* needs root */
};

extern const struct script io_scripts[], name_scripts[], lock_scripts[],
    map_scripts[], mode_scripts[], user_scripts[];

/* What a call is tried with: numbers and their text. */
struct value {
    const char *text;
    long a, b;
};

struct operands {
    const char *x, *y;
    enum kind kind_x; /* NONE if x is not a plain name */
    const struct value *value;
};

/* A system call, tried on every kind of object with every value. */
struct row {
    const char *name;
    unsigned paths; /* 1, 2 */
    bool parents;   /* also in folders that the ordinary user may not change */
    bool atimes;    /* changes of access times are compared */
    void (*run)(struct side *side, const struct operands *operands);
    const struct value *values; /* ends with a NULL text */
};

extern const struct row rows[];
/* Paths of every awkward form to the objects that path_tree makes; ends with NULL. */
extern const char *const path_forms[];
void path_tree(struct side *side);
/* The path that a form stands for: "@255" is a name of 255 bytes, and so on. Static
 * memory, two at a time. */
const char *path_of(const char *form);

#endif
