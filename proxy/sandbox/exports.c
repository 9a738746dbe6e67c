/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the exports of this host's NFS server whether a client may do through NFS all that a
 * stage may do to the files themselves. The server maps users and refuses writes by options
 * that no client sees; /var/lib/nfs/etab has them, of all exports that are made. Whatever
 * cannot be found out is unknown, and refused for mounts that the client found by itself.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/path.h"
#include "common/whole.h"
#include "proxy/sandbox/policy.h"

enum {
    ETAB_MAX_BYTES = 4 << 20,
};

/* Returns true if no option maps this user to another, nor forbids the writes. */
static bool
options_allow(char *options, bool writes, bool root)
{
    static const char nobody[] = "65534";
    char *rest = NULL;
    bool allow = false; /* there must be some */
    for (char *word = strtok_r(options, ",", &rest); word;
         word = strtok_r(NULL, ",", &rest)) {
        bool id = strncmp(word, "anonuid=", 8) == 0 ||
                  strncmp(word, "anongid=", 8) == 0;
        if (strcmp(word, "all_squash") == 0 ||
            (writes && strcmp(word, "ro") == 0) ||
            (root && strcmp(word, "root_squash") == 0) ||
            (id && strcmp(strchr(word, '=') + 1, nobody) != 0)) {
            return false;
        }
        allow = true;
    }
    return allow;
}

enum fy_exports
fy_exports_look(char *etab, const char *root, bool writes, bool is_root)
{
    enum fy_exports found = FY_EXPORTS_UNKNOWN;
    size_t longest = 0;
    char *rest = NULL;
    for (char *line = strtok_r(etab, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *client = line + strcspn(line, " \t");
        char *options = strchr(line, '(');
        char *end = options ? strrchr(options, ')') : NULL;
        if (line[0] != '/' || !*client || !end || options < client) {
            continue;
        }
        *client = *end = '\0';
        fy_path_unescape(line);
        size_t n = strlen(line);
        if (n < longest || !fy_path_is_beneath(root, line)) {
            continue;
        }
        /* Which of several clients asks is not known: all must be allowed it. */
        bool allows = options_allow(options + 1, writes, is_root) &&
                      (n > longest || found == FY_EXPORTS_ALLOW);
        found = allows ? FY_EXPORTS_ALLOW : FY_EXPORTS_REFUSE;
        longest = n;
    }
    return found;
}

int
fy_exports_check(const struct fy_stage_spec *spec, const struct fy_seen *seen,
                 unsigned nseen, bool writes, unsigned *out_reason,
                 struct fy_buffer *why)
{
    for (unsigned i = 0; spec->exported && i < nseen; i++) {
        size_t bytes = 0;
        char *etab = fy_read_file("/var/lib/nfs/etab", ETAB_MAX_BYTES, &bytes);
        enum fy_exports found = etab && !memchr(etab, '\0', bytes)
                                    ? fy_exports_look(etab, seen[i].root.path,
                                                      writes, geteuid() == 0)
                                    : FY_EXPORTS_UNKNOWN;
        free(etab);
        if (found == FY_EXPORTS_REFUSE) {
            return fy_refuse(
                out_reason, FY_STAGE_REFUSED, why, seen[i].root.path,
                " is exported read-only or as another user's", NULL);
        }
        if (found == FY_EXPORTS_UNKNOWN && spec->exported != FY_EXPORTED_SAID) {
            return fy_refuse(out_reason, FY_STAGE_REFUSED, why,
                             seen[i].root.path,
                             ": its export is not known there", NULL);
        }
    }
    return 0;
}
