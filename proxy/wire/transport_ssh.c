/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ssh as a transport: the words of its command line. It never asks anything,
 * never forwards anything and never becomes a master that outlives the run; all
 * else is as the user's own ssh configuration says.
 */
#include "config.h"

#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proxy/wire/transports.h"

/* Required options come before the place's: the first value wins. */
/* clang-format off */
static const char *const forced[] = {
    "-T", "-x", "-a", "-e", "none",
    "-o", "BatchMode=yes",
    "-o", "ForwardAgent=no",
    "-o", "ForwardX11=no",
    "-o", "ClearAllForwardings=yes",
    "-o", "PermitLocalCommand=no",
    "-o", "ControlMaster=no",
    "-o", "RequestTTY=no",
    "-o", "RemoteCommand=none",
};

static const char *const defaults[] = {
    "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=15",
    "-o", "ServerAliveCountMax=3",
};
/* clang-format on */

static void
add(struct fy_ssh_words *out, const char *word)
{
    if (out->argc < FY_SSH_MAX_WORDS - 1) {
        out->argv[out->argc++] = word;
    }
}

static void
add_option(struct fy_ssh_words *out, const char *key, const char *value)
{
    if (*value) {
        add(out, key);
        add(out, value);
    }
}

/*
 * Writes the command for the login shell on the host. Single quotes mean the same to sh,
 * csh and fish; place.c lets nothing into `ferry' that would end them.
 */
static void
write_script(const struct fy_place *place, struct fy_buffer *out)
{
    fy_buffer_add(out, "exec sh -c '");
    if (*place->ferry) {
        bool home = strncmp(place->ferry, "~/", 2) == 0;
        fy_buffer_printf(
            out,
            "f=%s%s; if [ -x \"$f\" ]; then exec \"$f\" proxy --stdio; fi; ",
            home ? "\"$HOME\"" : "", place->ferry + (home ? 1 : 0));
    }
    /* The copy that `ferry deploy' makes is of this version. */
    fy_buffer_add(
        out,
        "f=\"${XDG_CACHE_HOME:-$HOME/.cache}/ferry/bin/ferry-" PACKAGE_VERSION
        "\"; if [ -x \"$f\" ]; then "
        "exec \"$f\" proxy --stdio; fi; "
        "PATH=\"$PATH:$HOME/.local/bin:$HOME/bin:/usr/local/bin:"
        "/usr/bin:/bin\"; export PATH; "
        "if command -v ferry >/dev/null 2>&1; then "
        "exec ferry proxy --stdio; fi; "
        "echo \"" FY_PROXY_MISSING ": ferry deploy HOST copies "
        "it to its ~/.cache/ferry\" >&2; exit 127'");
}

int
fy_ssh_words(const struct fy_place *place, const char *script,
             struct fy_ssh_words *out, struct fy_buffer *why)
{
    memset(out, 0, sizeof *out);
    strcpy(out->command, *place->command ? place->command : "ssh");
    char *rest = NULL;
    for (char *word = strtok_r(out->command, " \t", &rest); word;
         word = strtok_r(NULL, " \t", &rest)) {
        if (strpbrk(word, "\"'\\$`;&|<>(){}*?[]")) {
            fy_buffer_printf(why, "the ssh command needs a shell: %s",
                             place->command);
            return FY_ERR_INVALID;
        }
        if (out->argc == FY_SSH_MAX_WORDS / 3) {
            fy_buffer_printf(why, "too many words in the ssh command: %s",
                             place->command);
            return FY_ERR_INVALID;
        }
        add(out, word);
    }
    if (!out->argc) {
        fy_buffer_add(why, "an empty ssh command");
        return FY_ERR_INVALID;
    }
    for (size_t i = 0; i < sizeof forced / sizeof forced[0]; i++) {
        add(out, forced[i]);
    }
    add_option(out, "-F", place->config);
    add_option(out, "-p", place->port);
    add_option(out, "-l", place->user);
    for (unsigned i = 0; i < place->noptions; i++) {
        add_option(out, "-o", place->options[i]);
    }
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        add(out, defaults[i]);
    }
    struct fy_buffer proxy;
    fy_buffer_start(&proxy, out->script, sizeof out->script);
    write_script(place, &proxy);
    add(out, "--");
    add(out, place->host);
    add(out, script ? script : out->script);
    return 0;
}

int
fy_transport_ssh(const struct fy_place *place, const char *ferry_path,
                 struct fy_buffer *why, struct fy_link *out)
{
    (void)ferry_path;
    struct fy_ssh_words *words = malloc(sizeof *words);
    if (!words) {
        return FY_ERR_NOMEM;
    }
    int status = fy_ssh_words(place, NULL, words, why);
    if (!status) {
        status = fy_transport_spawn(words->argv, why, out);
    }
    if (!status) {
        /* Its end would be waited for over the link; the connection's does. */
        out->relays = true;
    }
    free(words);
    return status;
}

int
fy_ssh_run(const struct fy_place *place, const char *script, int in,
           struct fy_buffer *why, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    struct fy_ssh_words *words = malloc(sizeof *words);
    if (!words) {
        return FY_ERR_NOMEM;
    }
    int status = fy_ssh_words(place, script, words, why);
    if (!status && posix_spawn_file_actions_init(&actions) != 0) {
        status = FY_ERR_NOMEM;
    } else if (!status) {
        int error = posix_spawn_file_actions_adddup2(&actions, in, 0);
        error = error ? error
                      : posix_spawnp(out, words->argv[0], &actions, NULL,
                                     (char *const *)words->argv, environ);
        (void)posix_spawn_file_actions_destroy(&actions);
        if (error) {
            fy_buffer_printf(why, "cannot start %s: %s", words->argv[0],
                             strerrordesc_np(error));
            status = FY_ERR_IO;
        }
    }
    free(words);
    return status;
}
