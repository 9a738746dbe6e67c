/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry doctor HOST: offers of a storage host, one fact a line, by a single script
 * through ssh that changes nothing there and needs no ferry. The host's answer is printed
 * and believed in nothing else.
 */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotations/base/diagnostics.h"
#include "annotations/commands/command.h"
#include "common/plain.h"
#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/wire/transport.h"
#include "tools/doctor.h"
#include "tools/tool.h"

enum {
    SCRIPT_BYTES = 8192,
    PROGRAM_MAX_BYTES = 256 << 20,
    HEX_BYTES = 65,
    ANSWER_BYTES = 256 << 10,
    LOGIN_MS =
        120000, /* until the first byte: the user may be typing a password */
    SILENCE_MS = 60000,
};

/* POSIX sh; in single quotes for whatever login shell, so without these and without the
 * exclamation mark. Each line that it prints is a word and a value. The names of commands
 * stand between the two halves. */
static const char before[] =
    "exec sh -c 'exec 2>/dev/null; "
    "c=\"${XDG_CACHE_HOME:-$HOME/.cache}/ferry\"; "
    "echo \"machine `uname -s` `uname -r` `uname -m`\"; "
    "for f in \"$c\"/bin/ferry-*; do "
    "if [ -x \"$f\" ]; then echo \"copy ${f##*/ferry-}\"; fi; done; "
    "PATH=\"$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:/usr/bin:/bin\"; "
    "f=`command -v ferry` && "
    "echo \"ferry `\"$f\" --version` ($f)\"; "
    "if [ -d \"$c/store\" ]; then "
    "echo \"store `du -sk \"$c/store\"`\"; fi; "
    "d=\"$c\"; until [ -d \"$d\" ]; do d=${d%/*}; [ -n \"$d\" ] || d=/; done; "
    "[ -w \"$d\" ] || echo \"readonly $d\"; "
    "echo free `df -Pk \"$d\" | "
    "while read a b c e r; do echo $e; done`; "
    "k=/proc/sys; for f in $k/user/max_user_namespaces "
    "$k/kernel/unprivileged_userns_clone "
    "$k/kernel/apparmor_restrict_unprivileged_userns; do "
    "[ -r $f ] && echo \"${f##*/} `cat $f`\"; done; echo \"user `id -u`\"; "
    "[ -r /sys/kernel/security/lsm ] && "
    "echo \"lsm `cat /sys/kernel/security/lsm`\"; for n in";
static const char after[] = "; do for d in /usr/bin /bin /usr/local/bin; do "
                            "if [ -x $d/$n ]; then "
                            "echo \"has $n `sha256sum <$d/$n`\"; break; fi; "
                            "done; done; echo \"end 1\"'";

enum found {
    MISSING,
    OTHER,
    SAME,
    LOCALLY_MISSING, /* the client has no such program */
    FOUND_COUNT,
};

struct answer {
    char machine[128], ferry[128], copies[256], lsm[256], readonly[256];
    unsigned long long store_kib, free_kib;
    bool has_store, has_free, ended, is_root;
    int namespaces, clone, apparmor; /* -1: no such file */
    const struct fy_commands *commands;
    enum found *found; /* by the commands' numbers */
};

/* Finds the client's program of that name; false: it has none. */
static bool
find_program(const char *name, char path[PATH_MAX])
{
    static const char *const folders[] = {"/usr/bin", "/bin", "/usr/local/bin"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        (void)snprintf(path, PATH_MAX, "%s/%s", folders[i], name);
        if (access(path, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void
hash_of(const char *name, char out[HEX_BYTES])
{
    unsigned char sum[32];
    char path[PATH_MAX];
    size_t n = 0;
    char *bytes = find_program(name, path)
                      ? fy_read_file(path, PROGRAM_MAX_BYTES, &n)
                      : NULL;
    out[0] = '\0';
    if (bytes) {
        fy_sha256_of(bytes, n, sum);
        free(bytes);
        for (size_t j = 0; j < sizeof sum; j++) {
            (void)snprintf(out + 2 * j, 3, "%02x", sum[j]);
        }
    }
}

/* Notes "NAME HASH ...", a program of the host. */
static void
note_program(struct answer *answer, char *text)
{
    char mine[HEX_BYTES];
    char *hash = text + strcspn(text, " ");
    if (*hash) {
        *hash++ = '\0';
        hash[strcspn(hash, " ")] = '\0';
    }
    for (size_t i = 0; i < fy_commands_count(answer->commands); i++) {
        if (strcmp(fy_commands_name(answer->commands, i)->name, text) == 0) {
            hash_of(text, mine);
            answer->found[i] = !*mine                    ? LOCALLY_MISSING
                               : strcmp(mine, hash) == 0 ? SAME
                                                         : OTHER;
            return;
        }
    }
}

static void
note(struct answer *answer, char *line)
{
    fy_plain(line, "");
    char *value = line + strcspn(line, " ");
    if (!*value) {
        return;
    }
    *value++ = '\0';
    if (strcmp(line, "machine") == 0) {
        (void)snprintf(answer->machine, sizeof answer->machine, "%s", value);
    } else if (strcmp(line, "ferry") == 0) {
        (void)snprintf(answer->ferry, sizeof answer->ferry, "%s", value);
    } else if (strcmp(line, "copy") == 0) {
        size_t n = strlen(answer->copies);
        (void)snprintf(answer->copies + n, sizeof answer->copies - n, "%s%s",
                       n ? ", " : "", value);
    } else if (strcmp(line, "readonly") == 0) {
        (void)snprintf(answer->readonly, sizeof answer->readonly, "%s", value);
    } else if (strcmp(line, "lsm") == 0) {
        (void)snprintf(answer->lsm, sizeof answer->lsm, ",%s,", value);
    } else if (strcmp(line, "store") == 0) {
        answer->has_store = true;
        answer->store_kib = strtoull(value, NULL, 10);
    } else if (strcmp(line, "free") == 0) {
        /* df's first line is a title. */
        char *last = strrchr(value, ' ');
        answer->has_free = last != NULL;
        answer->free_kib = last ? strtoull(last, NULL, 10) : 0;
    } else if (strcmp(line, "max_user_namespaces") == 0) {
        answer->namespaces = atoi(value);
    } else if (strcmp(line, "unprivileged_userns_clone") == 0) {
        answer->clone = atoi(value);
    } else if (strcmp(line, "apparmor_restrict_unprivileged_userns") == 0) {
        answer->apparmor = atoi(value);
    } else if (strcmp(line, "user") == 0) {
        answer->is_root = strcmp(value, "0") == 0;
    } else if (strcmp(line, "has") == 0) {
        note_program(answer, value);
    } else if (strcmp(line, "end") == 0) {
        answer->ended = true;
    }
}

/* ---- the questions ---------------------------------------------------------------------- */

static bool
is_harmless(const char *name)
{
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && !strchr("._+-[", *name)) {
            return false;
        }
    }
    return true;
}

static bool
write_script(const struct fy_commands *commands, char script[SCRIPT_BYTES])
{
    struct fy_buffer to;
    fy_buffer_start(&to, script, SCRIPT_BYTES);
    fy_buffer_add(&to, before);
    for (size_t i = 0; i < fy_commands_count(commands); i++) {
        const char *name = fy_commands_name(commands, i)->name;
        if (is_harmless(name)) {
            fy_buffer_printf(&to, " \"%s\"", name);
        }
    }
    fy_buffer_add(&to, after);
    return strlen(script) < SCRIPT_BYTES - 8;
}

/* Reads the whole answer. Returns NULL, or the reason why it is none. */
static const char *
read_answer(int from, char *text, size_t *out_n)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    size_t n = 0;
    for (;;) {
        int some = poll(&ready, 1, n ? SILENCE_MS : LOGIN_MS);
        if (some < 0 && errno == EINTR) {
            continue;
        }
        ssize_t got = some > 0 ? read(from, text + n, ANSWER_BYTES - n) : -1;
        if (got <= 0) {
            *out_n = n;
            return got == 0 ? NULL : "the host does not answer";
        }
        n += (size_t)got;
        if (n == ANSWER_BYTES) {
            return "the host's answer does not end";
        }
    }
}

/* Runs the script and reads its lines: 0, or an exit status after a message. */
static int
ask(const struct fy_place *place, const char *host, const char *script,
    struct answer *answer)
{
    char said[200] = "", *text = malloc(ANSWER_BYTES + 1), *rest = text;
    struct fy_buffer why;
    int ends[2], ended = 1;
    size_t n = 0;
    pid_t pid;
    fy_buffer_start(&why, said, sizeof said);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (!text || nothing < 0 || out < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        fy_say("%s: %s", host, strerror(errno));
        free(text);
        return FY_EXIT_FAILURE;
    }
    (void)fflush(stdout);
    (void)dup2(ends[1], STDOUT_FILENO);
    int status = fy_ssh_run(place, script, nothing, &why, &pid);
    (void)dup2(out, STDOUT_FILENO);
    (void)close(out);
    (void)close(ends[1]);
    (void)close(nothing);
    const char *trouble = status ? said : read_answer(ends[0], text, &n);
    (void)close(ends[0]);
    if (!status && trouble) {
        (void)kill(pid, SIGTERM);
    }
    while (!status && waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
    }
    text[n] = '\0';
    for (char *line; !trouble && (line = strsep(&rest, "\n"));) {
        note(answer, line);
    }
    free(text);
    if (!trouble && !answer->ended) {
        trouble = "the host did not answer";
    }
    if (trouble) {
        fy_say("%s: %s", host, trouble);
    }
    return trouble ? FY_EXIT_FAILURE : 0;
}

/* ---- the answer -------------------------------------------------------------------------- */

static const char *
namespaces(const struct answer *answer)
{
    if (answer->namespaces == 0) {
        return "none: user.max_user_namespaces is 0";
    }
    if (answer->is_root) {
        return "yes";
    }
    if (answer->clone == 0) {
        return "for root only: kernel.unprivileged_userns_clone is 0";
    }
    return answer->apparmor > 0 ? "as AppArmor allows" : "yes";
}

static void
print_commands(const struct answer *answer)
{
    static const char *const words[FOUND_COUNT] = {[MISSING] = "missing there",
                                                   [OTHER] = "other builds",
                                                   [SAME] = "the same",
                                                   [LOCALLY_MISSING] =
                                                       "only there"};
    static const enum found order[] = {SAME, OTHER, MISSING, LOCALLY_MISSING};
    char path[PATH_MAX];
    for (size_t i = 0; i < fy_commands_count(answer->commands); i++) {
        const char *name = fy_commands_name(answer->commands, i)->name;
        if (answer->found[i] == MISSING && !find_program(name, path)) {
            answer->found[i] = FOUND_COUNT; /* on neither host */
        }
    }
    for (size_t k = 0; k < FOUND_COUNT; k++) {
        unsigned n = 0;
        for (size_t i = 0; i < fy_commands_count(answer->commands); i++) {
            n += answer->found[i] == order[k];
        }
        if (!n) {
            continue;
        }
        printf("  %-16s %u:", words[order[k]], n);
        for (size_t i = 0; i < fy_commands_count(answer->commands); i++) {
            if (answer->found[i] == order[k]) {
                printf(" %s", fy_commands_name(answer->commands, i)->name);
            }
        }
        putchar('\n');
    }
}

static void
print_answer(const struct answer *answer, const char *host)
{
    struct utsname mine;
    const char *machine = strrchr(answer->machine, ' ');
    bool foreign =
        uname(&mine) == 0 && machine && strcmp(machine + 1, mine.machine) != 0;
    printf("%s\n", host);
    printf("  %-16s %s%s\n", "machine",
           answer->machine[strspn(answer->machine, " ")] ? answer->machine
                                                         : "not known",
           foreign ? ": another architecture, commands run locally" : "");
    printf("  %-16s %s\n", "ferry",
           *answer->ferry ? answer->ferry : "not installed");
    if (*answer->copies) {
        printf("  %-16s %s\n", "copies", answer->copies);
    } else if (!*answer->ferry) {
        printf("  %-16s none; 'ferry deploy %s' makes one\n", "copies", host);
    }
    printf("  %-16s %llu MiB", "store", answer->store_kib / 1024);
    if (answer->has_free) {
        printf(", %llu MiB free", answer->free_kib / 1024);
    }
    printf("%s%s%s\n", *answer->readonly ? "; " : "", answer->readonly,
           *answer->readonly ? " cannot be written" : "");
    printf("  %-16s %s\n", "namespaces", namespaces(answer));
    printf("  %-16s %s\n", "Landlock",
           !*answer->lsm                       ? "not known"
           : strstr(answer->lsm, ",landlock,") ? "yes"
                                               : "no");
    print_commands(answer);
    printf(
        "Programs that are not the same are sent, once ('tools = carry').\n");
}

int
fy_doctor_host(const char *host)
{
    char name[300], script[SCRIPT_BYTES];
    struct fy_places places;
    struct fy_place place;
    struct fy_commands *commands = NULL;
    struct answer answer = {.namespaces = -1, .clone = -1, .apparmor = -1};
    size_t n = strlen(host);
    n -= n && !strstr(host, "://") && host[n - 1] == ':';
    (void)snprintf(name, sizeof name, "%.*s", (int)(n < 299 ? n : 299), host);
    if (fy_tool_host(name, &place)) {
        return FY_EXIT_USAGE;
    }
    fy_places_find(&places);
    const char *paths[] = {places.library};
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    int status = diagnostics ? fy_commands_compile(paths, 1, places.library,
                                                   diagnostics, &commands)
                             : FY_ERR_NOMEM;
    fy_diagnostics_free(diagnostics);
    answer.commands = commands;
    answer.found =
        status ? NULL
               : calloc(fy_commands_count(commands) + 1, sizeof *answer.found);
    if (status || !answer.found || !write_script(commands, script)) {
        fy_say("the annotations cannot be read: %s",
               fy_status_text(status ? status : FY_ERR_NOMEM));
        fy_commands_free(commands);
        free(answer.found);
        return FY_EXIT_FAILURE;
    }
    status = ask(&place, name, script, &answer);
    if (!status) {
        print_answer(&answer, name);
    }
    fy_commands_free(commands);
    free(answer.found);
    return status;
}
