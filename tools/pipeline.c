/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts and ends the session of a run, see the header. Whatever fails here
 * leaves one line, and the commands run where they always did.
 */
#include "config.h"

#include "tools/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/path.h"
#include "tools/launch.h"

enum {
    CAUSE_BYTES = 512
};

/* Adds one configured text when it stands for a mount; says why not. */
static void
add_configured(const char *text, struct fy_pipeline *pipeline)
{
    char cause[CAUSE_BYTES];
    struct fy_buffer why;
    const char *one[] = {text, NULL};
    unsigned n = 0;
    fy_buffer_start(&why, cause, sizeof cause);
    if (pipeline->nmounts == FY_MAX_MOUNTS) {
        fy_say("--mount '%s': more than %d mounts", text, FY_MAX_MOUNTS);
        return;
    }
    if (fy_mounts_find(one, false, pipeline->mounts + pipeline->nmounts, &n,
                       &why)) {
        fy_say("--mount '%s': %s; it is left out", text, cause);
        return;
    }
    for (unsigned i = 0; n && i < pipeline->nmounts; i++) {
        /* A later one, of the command line, replaces one of ferry.conf. */
        if (strcmp(pipeline->mounts[i].path,
                   pipeline->mounts[pipeline->nmounts].path) == 0) {
            pipeline->mounts[i] = pipeline->mounts[pipeline->nmounts];
            return;
        }
    }
    pipeline->nmounts += n;
}

static bool
has_path(const struct fy_pipeline *pipeline, const char *path)
{
    for (unsigned i = 0; i < pipeline->nmounts; i++) {
        if (strcmp(pipeline->mounts[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds mounts that mountinfo names and no setting or option does. */
static void
add_discovered(struct fy_pipeline *pipeline)
{
    char cause[CAUSE_BYTES];
    struct fy_buffer why;
    unsigned n = 0;
    struct fy_mount *found = calloc(FY_MAX_MOUNTS, sizeof *found);
    fy_buffer_start(&why, cause, sizeof cause);
    if (!found || fy_mounts_find(NULL, true, found, &n, &why)) {
        free(found);
        return; /* no /proc, no memory: nothing is found */
    }
    for (unsigned i = 0; i < n && pipeline->nmounts < FY_MAX_MOUNTS; i++) {
        if (!has_path(pipeline, found[i].path)) {
            pipeline->mounts[pipeline->nmounts++] = found[i];
        }
    }
    free(found);
}

bool
fy_pipeline_find(struct fy_pipeline *pipeline,
                 const struct fy_run_options *options)
{
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->mounts = calloc(FY_MAX_MOUNTS, sizeof *pipeline->mounts);
    char *texts = strdup(options->settings.mounts);
    if (!pipeline->mounts || !texts) {
        fy_say("no memory for the list of mounts");
        free(texts);
        return false;
    }
    for (char *text = texts; *text;) {
        char *end = strchr(text, '\n');
        *end = '\0'; /* every line of the setting ends in one */
        add_configured(text, pipeline);
        text = end + 1;
    }
    free(texts);
    if (options->settings.discover) {
        add_discovered(pipeline);
    }
    return pipeline->nmounts > 0;
}

/* The prefix of the files of logins, "" without a cache. */
static void
find_logins(char out[PATH_MAX])
{
    char folder[PATH_MAX];
    int n = fy_cache_folder(folder)
                ? -1
                : snprintf(out, PATH_MAX, "%s/login-", folder);
    if (n < 0 || n >= PATH_MAX) {
        out[0] = '\0';
    }
}

int
fy_pipeline_start(struct fy_pipeline *pipeline, const struct fy_places *places,
                  const char *folder, const struct fy_run_options *options,
                  char *trouble, size_t bytes)
{
    char cause[CAUSE_BYTES], logins[PATH_MAX];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    find_logins(logins);
    struct fy_session_options session = {
        .mounts = pipeline->mounts,
        .nmounts = pipeline->nmounts,
        .folder = folder,
        .library = places->library,
        .stub = places->stub,
        .ferry = places->ferry,
        .logins = logins[0] ? logins : NULL,
        .force = options->settings.force,
        .whole_environment =
            options->settings.environment == FY_ENVIRONMENT_ALL,
        .tools = options->settings.tools,
        .store = options->settings.store,
        .record = options->report || options->explain,
    };
    int status = fy_session_start(&session, &why, &pipeline->session);
    if (status) {
        (void)snprintf(trouble, bytes, "cannot start the session: %s",
                       cause[0] ? cause : fy_status_text(status));
    }
    return status;
}

int
fy_pipeline_publish(struct fy_pipeline *pipeline,
                    const struct fy_places *places,
                    struct fy_run_options *options, char *trouble, size_t bytes)
{
    char cause[CAUSE_BYTES];
    struct fy_buffer why;
    fy_buffer_start(&why, cause, sizeof cause);
    pipeline->commands = fy_pipeline_names(
        places, options->annotations, options->nannotations, trouble, bytes);
    int status = FY_ERR_INVALID;
    if (!pipeline->commands) {
        goto drop;
    }
    status = fy_session_publish(pipeline->session, pipeline->commands, &why);
    if (status) {
        (void)snprintf(trouble, bytes, "cannot start the session: %s",
                       cause[0] ? cause : fy_status_text(status));
        goto drop;
    }
    (void)snprintf(options->settings.snapshot,
                   sizeof options->settings.snapshot, "%s",
                   fy_session_snapshot(pipeline->session));
    return 0;
drop:
    fy_pipeline_drop(pipeline);
    return status;
}

void
fy_pipeline_drop(struct fy_pipeline *pipeline)
{
    fy_session_free(pipeline->session);
    pipeline->session = NULL;
}

/* Returns true if a file can stand for a command that is annotated. */
static bool
is_program(const char *path)
{
    struct stat status;
    char magic[4] = "";
    if (stat(path, &status) || !S_ISREG(status.st_mode) ||
        (status.st_mode & (S_ISUID | S_ISGID)) || access(path, X_OK)) {
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    bool good = read(fd, magic, sizeof magic) == sizeof magic &&
                memcmp(magic, "\177ELF", sizeof magic) == 0;
    close(fd);
    return good;
}

static bool
is_annotated(const struct fy_commands *commands, const char *path)
{
    const char *name = fy_path_name(path);
    for (size_t i = 0; i < fy_commands_count(commands); i++) {
        if (strcmp(fy_commands_name(commands, i)->name, name) == 0) {
            return true;
        }
    }
    return false;
}

char **
fy_pipeline_first(const struct fy_pipeline *pipeline,
                  const struct fy_places *places, char *const *command)
{
    char path[PATH_MAX];
    size_t n = 0;
    if (!pipeline->session) {
        return NULL;
    }
    if (!fy_path_search(command[0], path) || !is_program(path) ||
        !is_annotated(pipeline->commands, path)) {
        fy_foresee_words(pipeline->mounts, pipeline->nmounts,
                         (const char *const *)command);
        return NULL;
    }
    while (command[n]) {
        n++;
    }
    char **argv = malloc((n + 4) * sizeof *argv + strlen(path) + 1);
    if (!argv) {
        return NULL;
    }
    char *copy = (char *)(argv + n + 4);
    strcpy(copy, path);
    argv[0] = (char *)places->stub;
    argv[1] = (char *)fy_session_socket(pipeline->session);
    argv[2] = copy;
    memcpy(argv + 3, command, (n + 1) * sizeof *argv);
    return argv;
}

static const int impatient[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
static struct fy_session *ending;

static void
hurry(int number)
{
    int cause = errno;
    (void)number;
    fy_session_hurry(ending);
    errno = cause;
}

/* Commands that the program left in the background go on; but whoever does not
 * want to wait for them says so by a signal. */
void
fy_pipeline_end(struct fy_pipeline *pipeline)
{
    struct sigaction before[4], action = {.sa_handler = hurry};
    sigset_t set, blocked;
    if (!pipeline->session) {
        return;
    }
    ending = pipeline->session;
    sigemptyset(&set);
    for (int i = 0; i < 4; i++) {
        sigaction(impatient[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) {
            sigaction(impatient[i], &action, NULL);
        }
        sigaddset(&set, impatient[i]);
    }
    sigprocmask(SIG_UNBLOCK, &set, &blocked);
    fy_session_end(pipeline->session, true);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    for (int i = 0; i < 4; i++) {
        sigaction(impatient[i], &before[i], NULL);
    }
}

/* Writes the host of that name as ferry deploy takes it. */
static void
write_host(const struct fy_pipeline *pipeline, const char *name,
           struct fy_buffer *to)
{
    char text[256];
    struct fy_buffer other;
    for (unsigned i = 0; i < pipeline->nmounts; i++) {
        const struct fy_place *place = &pipeline->mounts[i].place;
        fy_buffer_start(&other, text, sizeof text);
        fy_place_name(place, &other);
        if (strcmp(text, name) != 0) {
            continue;
        }
        if (*place->port || place->noptions || *place->config ||
            *place->command) {
            fy_place_write(place, to);
            return;
        }
        fy_buffer_printf(to, "%s%s%s", place->user, *place->user ? "@" : "",
                         place->host);
        return;
    }
}

/* Starts `ferry deploy HOST', which outlives this process and says nothing. */
static void
deploy_behind(const struct fy_places *places, const char *host)
{
    pid_t pid = fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)setsid();
        for (int fd = 0; fd < 3; fd++) {
            (void)dup2(nothing, fd);
        }
        execl(places->ferry, "ferry", "deploy", "--", host, (char *)NULL);
        _exit(127);
    }
}

void
fy_pipeline_advise(const struct fy_pipeline *pipeline,
                   const struct fy_places *places, int deploy)
{
    struct fy_link_report link;
    char host[PATH_MAX];
    struct fy_buffer to;
    if (!pipeline->session || deploy == FY_DEPLOY_NEVER ||
        (deploy == FY_DEPLOY_ASK && !isatty(STDERR_FILENO))) {
        return;
    }
    for (unsigned i = 0; i < fy_session_links(pipeline->session); i++) {
        fy_session_link(pipeline->session, i, &link);
        fy_buffer_start(&to, host, sizeof host);
        if (strncmp(link.trouble, FY_PROXY_MISSING,
                    sizeof FY_PROXY_MISSING - 1) == 0 ||
            strncmp(link.trouble, FY_PROXY_OTHER, sizeof FY_PROXY_OTHER - 1) ==
                0) {
            write_host(pipeline, link.place, &to);
        }
        if (!host[0] || to.overflowed) {
            continue;
        }
        if (deploy == FY_DEPLOY_AUTO) {
            deploy_behind(places, host);
        } else {
            fy_say("%s has no ferry " PACKAGE_VERSION
                   "; 'ferry deploy %s' copies it to ~/.cache/ferry there",
                   host, host);
        }
    }
}

int
fy_pipeline_report(const struct fy_pipeline *pipeline, struct fy_report *report)
{
    if (!pipeline->session) {
        return 0;
    }
    unsigned nstages = fy_session_stages(pipeline->session);
    unsigned nlinks = fy_session_links(pipeline->session);
    report->stages = calloc(nstages + 1, sizeof *report->stages);
    report->links = calloc(nlinks + 1, sizeof *report->links);
    if (!report->stages || !report->links) {
        return FY_ERR_NOMEM;
    }
    for (unsigned i = 0; i < nstages; i++) {
        fy_session_stage(pipeline->session, i, &report->stages[i]);
    }
    for (unsigned i = 0; i < nlinks; i++) {
        fy_session_link(pipeline->session, i, &report->links[i]);
    }
    report->nstages = nstages;
    report->nlinks = nlinks;
    return 0;
}

void
fy_pipeline_free(struct fy_pipeline *pipeline)
{
    if (pipeline->session) {
        fy_session_free(pipeline->session);
    }
    fy_commands_free(pipeline->commands);
    free(pipeline->mounts);
    memset(pipeline, 0, sizeof *pipeline);
}
