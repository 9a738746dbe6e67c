/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox of the files process, which works on one folder: it
 * executes nothing, opens no socket, and reaches nothing but what lies beneath that
 * folder.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proxy/sandbox/policy.h"

int
fy_policy_own(struct fy_policy *policy, int root, bool writes, int *out_ruleset)
{
    *out_ruleset = -1;
    if (!policy->landlock) {
        return 0;
    }
    struct fy_seen *seen = calloc(1, sizeof *seen);
    if (!seen) {
        return FY_ERR_NOMEM;
    }
    seen->root.fd = root;
    seen->writes = writes;
    const struct fy_landlock_wish wish = {
        .seen = seen, .nseen = 1, .temporary_fd = -1, .image = -1, .own = true};
    int status = fy_landlock_ruleset(policy, &wish, out_ruleset);
    free(seen);
    return status;
}

/* What files need stays: also to be another user when a file is made. */
static int
drop_capabilities(void)
{
    static const int kept[] = {
        CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH,
        CAP_FOWNER, CAP_FSETID,       CAP_SETUID,
        CAP_SETGID, CAP_SETFCAP,      CAP_MKNOD,
    };
    struct __user_cap_header_struct head = {.version =
                                                _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &head, sets) != 0) {
        return -1;
    }
    uint32_t mask = 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        mask |= UINT32_C(1) << kept[i];
    }
    sets[0].permitted &= mask;
    sets[0].effective &= mask;
    sets[0].inheritable = 0;
    memset(&sets[1], 0, sizeof sets[1]);
    return (int)syscall(SYS_capset, &head, sets);
}

int
fy_own_sandbox_enter(int ruleset)
{
    static const char nothing[] = "";
    const struct rlimit no_core = {0, 0};
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || drop_capabilities() != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return -1;
    }
    if (ruleset >= 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) {
        return -1;
    }
    /* Programs only from that very pointer, which is none. */
    return fy_filter_enter() != 0 ? -1 : fy_filter_guard(nothing);
}
