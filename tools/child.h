/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the user's command so that its parent sees nothing of ferry in between:
 * its exit status, its death by a signal, its stops.
 */
#ifndef FERRY_TOOLS_CHILD_H
#define FERRY_TOOLS_CHILD_H

#include <sys/types.h>

struct fy_child {
    int wait_status; /* as waitpid() gives it */
    int exec_errno;  /* not 0: the command could not be started */
    /* Set before the call; NULL: nothing is called while the command runs. */
    void (*each_second)(void *owner);
    void *owner;
};

/*
 * Makes this process outlive a limit on file sizes and closed pipes, which
 * then are errors of write(), and signals, which wait until there is a child
 * that they are for, so that no file of ferry's is left behind. Commands still start
 * with the former settings.
 */
void fy_child_survive(void);

/*
 * Replaces this process by the command; returns only when that fails, after
 * one line on stderr, with 127 (not found) or 126.
 */
int fy_child_become(char *const *command);

/*
 * Runs the command in a child of the same process group and waits for it.
 * Signals sent to this process are passed on; those that the terminal or the
 * child's own family sends to the group reach it without us. When the child
 * stops, so do we. `instead': the arguments of a stub, whose first one is its
 * path, to be tried before the command; or NULL. 0, or FY_ERR_IO when no child
 * could be made.
 */
int fy_child_run(char *const *command, char *const *instead,
                 struct fy_child *out);

/*
 * Ends this process as the child ended: the same exit status, or by the same
 * signal. Returns the status to exit with when it could not be started.
 */
int fy_child_imitate(const struct fy_child *child, char *const *command);

#endif
