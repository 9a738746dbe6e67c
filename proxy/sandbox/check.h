/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one check of a stage, shared by check.c and carried.c. One thread.
 */
#ifndef FERRY_PROXY_SANDBOX_CHECK_H
#define FERRY_PROXY_SANDBOX_CHECK_H

#include "proxy/sandbox/policy.h"

enum {
    FY_CHECK_FILES_MAX = 24,  /* that a stage may read beside its root */
    FY_CHECK_OUTPUTS_MAX = 2, /* stdout and stderr */
    FY_LOCALE_VARIABLES = 14,
};

/* The variables that choose a locale, LC_ALL first, because it hides the others. */
extern const char *const fy_locale_variables[FY_LOCALE_VARIABLES];

/* State from the first step to the last. */
struct fy_check {
    struct fy_policy *policy;
    const struct fy_stage_spec *spec;
    const struct fy_invocation *invocation;
    struct fy_seen seen[FY_MAX_SEEN]; /* by name, none beneath another */
    unsigned nseen;
    struct fy_seen *on;  /* the mount of `base' */
    char base[PATH_MAX]; /* folder of relative operands; "" when outside */
    char identity[512];  /* of the program that is started */
    bool
        theirs; /* this host's own program and configuration, whatever they are */
    bool writes;
    struct {
        dev_t device;
        ino_t inode;
        bool linked; /* it has other names, too */
    } outputs[FY_CHECK_OUTPUTS_MAX];
    unsigned noutputs;
    bool strangers; /* it may see files of others, and names them */
    int files[FY_CHECK_FILES_MAX];
    char *paths[FY_CHECK_FILES_MAX];
    unsigned nfiles;
    unsigned nprograms; /* of these; they are executed */
    int image_fd; /* of the folder of carried files, O_PATH; -1: none is carried */
    const char *image; /* that folder, if it is the stage's root; or NULL */
    struct fy_names *names; /* NULL: the client's mounts keep none */
    struct fy_sandbox *sandbox;
    unsigned *out_reason;
    struct fy_buffer *why;
};

/* Refuses the stage: sets the reason, appends up to three texts; FY_ERR_UNSUPPORTED. */
int fy_check_refuse(struct fy_check *check, unsigned reason, const char *a,
                    const char *b, const char *c);
/* Copies the bytes as a string; false: there is a NUL inside, or it does not fit. */
bool fy_check_text(const struct fy_bytes *bytes, char *out, size_t capacity);
/* Takes fd, a file that the stage may read and execute by this path; false: no memory. */
bool fy_check_keep_file(struct fy_check *check, int fd, const char *path);
/* The value of a variable of the stage's environment, "" if it is not set. */
const char *fy_check_variable(const struct fy_stage_spec *spec,
                              const char *name);
/* Returns true if the annotation on this host lets the command execute the program. */
bool fy_check_is_named(const struct fy_check *check, const char *path);
/* Returns true if all paths of the client's mounts are those of this host. */
bool fy_check_equal_paths(const struct fy_check *check);

/* ---- carried.c ------------------------------------------------------------------ */

/*
 * Has the files of a program that is carried stand where the stage finds them: in an image
 * that becomes its root, or where this host makes no namespaces in a folder from which the
 * carried linker starts it. 0 or FY_ERR_UNSUPPORTED with reason.
 */
int fy_carried_stand(struct fy_check *check, const char *program) FY_MUST_CHECK;
/* A descriptor (O_PATH) of a file of the image; -1 with errno. */
int fy_carried_open(const struct fy_check *check, const char *path);
/* Sets *out_same if the stage sees the client's file in the image, or none where the
 * client has none. FY_ERR_UNSUPPORTED with reason. */
int fy_carried_check(struct fy_check *check, const char *path,
                     const struct fy_config_hash *config,
                     bool *out_same) FY_MUST_CHECK;

#endif
