/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts about this machine's files for the request of a stage: the program's identity,
 * the files that it reads unnamed, and all that is carried to a host with another program.
 * They are read in a thread of the pool (prepare.c): a home may be on a file system that
 * does not answer. Long because all facts are of a single structure.
 */
#include "config.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/client/stage.h"
#include "proxy/storage/tools.h"

enum {
    ARCHIVE_MAX_BYTES = 32 << 20, /* of locales */
};

static const char *
variable(const struct stage *stage, const char *name, size_t n)
{
    for (uint32_t i = 0; i < stage->hello.envc; i++) {
        if (strncmp(stage->env[i], name, n) == 0 && stage->env[i][n] == '=') {
            return stage->env[i] + n + 1;
        }
    }
    return NULL;
}

/*
 * "~/x", "$NAME/x", "/x" as the program would find it; *out is new, or NULL: the
 * variable is not set, so it looks nowhere. False: no memory.
 */
static bool
expand(const struct stage *stage, const char *text, char **out)
{
    const char *value = "", *rest = text;
    if (text[0] == '~') {
        value = variable(stage, "HOME", 4);
        rest = text + 1;
    } else if (text[0] == '$') {
        size_t n = strcspn(text + 1, "/");
        value = variable(stage, text + 1, n);
        rest = text + 1 + n;
    }
    *out = NULL;
    if (!value || (value[0] == '\0' && rest != text)) {
        return true;
    }
    size_t n = strlen(value) + strlen(rest) + 1;
    char *path = malloc(n);
    if (path) {
        (void)snprintf(path, n, "%s%s", value, rest);
    }
    *out = path;
    return path;
}

/* ---- files to be read -------------------------------------------------------------- */

static bool
refuse(struct fy_gather *gather, unsigned reason, const char *what,
       const char *why)
{
    gather->reason = reason;
    fy_buffer_printf(&gather->why, "%s%s", what, why);
    return true;
}

/* Takes `path'. False: no memory. */
static bool
add_path(struct fy_gather *gather, char *path)
{
    if (!path) {
        return false;
    }
    if (path[0] != '/' || gather->npaths == FY_CONFIGS_MAX) {
        bool added = refuse(gather, FY_STAGE_OTHER_CONFIG,
                            "an implicit input cannot be compared: ", path);
        free(path);
        return added;
    }
    gather->paths[gather->npaths++] = path;
    return true;
}

/* The file of the time zone: the host's own, or one that TZ names by its path or below
 * TZDIR. A name of the system's list means the same everywhere. */
static bool
add_zone(struct fy_gather *gather, const struct stage *stage)
{
    const char *zone = variable(stage, "TZ", 2);
    const char *folder = variable(stage, "TZDIR", 5);
    if (!zone) {
        zone = "/etc/localtime";
    } else if (*zone == ':') {
        zone++;
    }
    zone = *zone ? zone : "Universal";
    if (*zone == '/') {
        return add_path(gather, strdup(zone));
    }
    if (folder && *folder) {
        char path[PATH_MAX];
        bool known = *folder == '/' && !fy_path_join(folder, zone, path);
        return add_path(gather, strdup(known ? path : "TZDIR"));
    }
    gather->zone = strdup(zone);
    return gather->zone;
}

static bool
add_paths(struct fy_gather *gather, const struct stage *stage)
{
    const char *const *configs = stage->invocation.configs;
    for (; configs && *configs; configs++) {
        char *path;
        if (!expand(stage, *configs, &path) ||
            (path && !add_path(gather, path))) {
            return false;
        }
    }
    if (fy_invocation_is(&stage->invocation, FY_TRAIT_OWNERS) &&
        (!add_path(gather, strdup("/etc/passwd")) ||
         !add_path(gather, strdup("/etc/group")))) {
        return false;
    }
    return add_zone(gather, stage);
}

/*
 * LD_LIBRARY_PATH as the program's linker takes it, each folder by its whole
 * path: an empty one is the working folder. NULL in gather: there is none.
 */
static bool
add_library_path(struct fy_gather *gather, const struct stage *stage)
{
    const char *value = variable(stage, "LD_LIBRARY_PATH", 15);
    if (!value || !*value) {
        return true;
    }
    if (strchr(value, '$')) {
        return refuse(gather, FY_STAGE_OTHER_TOOL, "LD_LIBRARY_PATH",
                      " names folders by what only the linker knows");
    }
    size_t cwd = strlen(stage->facts.cwd), n = 1;
    for (const char *at = value; *at; at++) {
        n += *at == ':' || *at == ';';
    }
    char *path = malloc(strlen(value) + n * (cwd + 2));
    if (!path) {
        return false;
    }
    gather->library_path = path;
    for (const char *at = value;;) {
        size_t length = strcspn(at, ":;");
        if (*at != '/') {
            path = stpcpy(path, stage->facts.cwd);
            *path = '/';
            path += length > 0;
        }
        memcpy(path, at, length);
        path += length;
        at += length;
        if (!*at) {
            break;
        }
        at++;
        *path++ = ':';
    }
    *path = '\0';
    return true;
}

static bool
add_environment(struct fy_gather *gather, const struct stage *stage)
{
    for (uint32_t i = 0; i < stage->hello.envc; i++) {
        const char *entry = stage->env[i];
        if (fy_loads_code(entry)) {
            char name[80];
            (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "="),
                           entry);
            return refuse(gather, FY_STAGE_OTHER_TOOL, name, " is set");
        }
        if (strncmp(entry, "LC_", 3) != 0 && strncmp(entry, "LANG=", 5) != 0 &&
            strncmp(entry, "LOCPATH=", 8) != 0) {
            continue;
        }
        if (gather->nlocales == FY_LOCALES_MAX) {
            return refuse(gather, FY_STAGE_OTHER_TOOL, "too many locales", "");
        }
        gather->locales[gather->nlocales] = strdup(entry);
        if (!gather->locales[gather->nlocales++]) {
            return false;
        }
    }
    return true;
}

static bool
add_loads(struct fy_gather *gather, const struct stage *stage)
{
    const char *const *loads = stage->invocation.carries;
    size_t n = 0;
    while (loads && loads[n]) {
        n++;
    }
    gather->loads = calloc(n + 1, sizeof *gather->loads);
    for (size_t i = 0; gather->loads && i < n; i++) {
        gather->loads[i] = strdup(loads[i]);
        if (!gather->loads[i]) {
            return false;
        }
        gather->nloads++;
    }
    return gather->loads;
}

/* The programs that the command runs by their names, and where it looks. */
static bool
add_runs(struct fy_gather *gather, const struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    const char *search = variable(stage, "PATH", 4);
    if (invocation->nruns == 0) {
        return true;
    }
    gather->search = strdup(search ? search : "/bin:/usr/bin");
    if (!gather->search) {
        return false;
    }
    for (uint32_t i = 0; i < invocation->nruns && i < FY_RUNS_MAX; i++) {
        gather->runs[i] = strdup(invocation->runs[i].program);
        if (!gather->runs[gather->nruns++]) {
            return false;
        }
    }
    return invocation->nruns <= FY_RUNS_MAX ||
           refuse(gather, FY_STAGE_OTHER_TOOL, "it runs too many programs", "");
}

int
fy_gather_new(const struct stage *stage, struct fy_gather **out)
{
    char program[PATH_MAX];
    struct fy_gather *gather = calloc(1, sizeof *gather);
    if (!gather) {
        return FY_ERR_NOMEM;
    }
    const char *language = variable(stage, "LANGUAGE", 8);
    gather->language = strdup(language ? language : "");
    fy_buffer_start(&gather->why, gather->text, sizeof gather->text);
    gather->encoded = stage->invocation.encoded;
    enum fy_tools_setting programs =
        stage->connection
            ? stage->connection->programs
            : fy_connections_programs(
                  stage->session, stage->mount ? &stage->mount->place : NULL);
    gather->carries = programs == FY_TOOLS_CARRY;
    gather->theirs = programs == FY_TOOLS_HOST;
    if (stage->connection || stage->session->nconnections == 1) {
        gather->known = stage->connection
                            ? stage->connection->tools
                            : stage->session->connections[0].tools;
    }
    gather->loads_paths =
        fy_invocation_is(&stage->invocation, FY_TRAIT_LOADS_PATHS);
    if (fy_path_join(stage->facts.cwd, stage->facts.path, program)) {
        (void)refuse(gather, FY_STAGE_OTHER_TOOL, "the program's path", "");
        program[0] = '\0';
    }
    gather->program = strdup(program);
    if (!gather->program || !gather->language ||
        !add_environment(gather, stage) || !add_library_path(gather, stage) ||
        !add_paths(gather, stage) || !add_loads(gather, stage) ||
        !add_runs(gather, stage)) {
        fy_gather_free(gather);
        return FY_ERR_NOMEM;
    }
    *out = gather;
    return 0;
}

void
fy_gather_free(struct fy_gather *gather)
{
    if (!gather) {
        return;
    }
    for (unsigned i = 0; i < gather->npaths; i++) {
        free(gather->paths[i]);
    }
    for (unsigned i = 0; i < gather->nlocales; i++) {
        free(gather->locales[i]);
    }
    for (unsigned i = 0; i < gather->nruns; i++) {
        free(gather->runs[i]);
    }
    fy_closure_free(gather->closure);
    for (size_t i = 0; i < gather->nloads; i++) {
        free(gather->loads[i]);
    }
    free(gather->loads);
    free(gather->zone);
    free(gather->language);
    free(gather->search);
    free(gather->program);
    free(gather->library_path);
    free(gather);
}

/* The search by the last name of `program' ends at that very file. */
static bool
leads_to(const char *search, const char *program)
{
    const char *name = strrchr(program, '/');
    char path[PATH_MAX];
    struct stat wanted, about;
    size_t n;
    for (bool more = stat(program, &wanted) == 0; more; search += n + 1) {
        n = strcspn(search, ":");
        more = search[n] != '\0';
        int length =
            snprintf(path, sizeof path, "%.*s%s", (int)n, search, name);
        if (search[0] != '/' || length >= (int)sizeof path) {
            return false; /* by the working folder */
        }
        if (stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
            access(path, X_OK) == 0) {
            return about.st_dev == wanted.st_dev &&
                   about.st_ino == wanted.st_ino;
        }
    }
    return false;
}

/* ---- files to be carried ----------------------------------------------------------- */

static const char *
locale_of(const struct fy_gather *gather, const char *category)
{
    static const char *const before = "LC_ALL", *const after = "LANG";
    const char *names[] = {before, category, after};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(names[i]);
        for (unsigned j = 0; j < gather->nlocales; j++) {
            const char *entry = gather->locales[j];
            if (strncmp(entry, names[i], n) == 0 && entry[n] == '=' &&
                entry[n + 1]) {
                return entry + n + 1;
            }
        }
    }
    return "C";
}

/* Adds the locale's files: a folder, or the archive of all. Only UTF-8, as others need
 * tables of their characters, too. */
static int
add_locale(struct fy_gather *gather, const char *locale)
{
    static const char archive[] = "/usr/lib/locale/locale-archive";
    char folder[PATH_MAX];
    struct stat about;
    size_t n = strcspn(locale, ".");
    const char *code = locale + n;
    if (strchr(locale, '/') || strchr(locale, '@') ||
        (strcmp(code, ".UTF-8") != 0 && strcmp(code, ".utf8") != 0)) {
        return FY_ERR_UNSUPPORTED;
    }
    const char *const names[] = {".utf8/", ".UTF-8/"};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(folder, sizeof folder, "/usr/lib/locale/%.*s%s", (int)n,
                       locale, names[i]);
        if (stat(folder, &about) == 0) {
            return fy_closure_add_file(gather->closure, folder);
        }
    }
    return stat(archive, &about) == 0 && about.st_size <= ARCHIVE_MAX_BYTES
               ? fy_closure_add_file(gather->closure, archive)
               : FY_ERR_UNSUPPORTED;
}

/* Adds all locales that the environment chooses, if their messages are not translated. */
static int
add_locales(struct fy_gather *gather)
{
    static const char *const categories[] = {
        "LC_CTYPE",    "LC_NUMERIC",   "LC_TIME",        "LC_COLLATE",
        "LC_MONETARY", "LC_MESSAGES",  "LC_PAPER",       "LC_NAME",
        "LC_ADDRESS",  "LC_TELEPHONE", "LC_MEASUREMENT", "LC_IDENTIFICATION"};
    int status = 0;
    for (size_t i = 0; !status && i < sizeof categories / sizeof *categories;
         i++) {
        const char *locale = locale_of(gather, categories[i]);
        bool none = strcmp(locale, "C") == 0 || strcmp(locale, "POSIX") == 0;
        if (!none && strcmp(categories[i], "LC_MESSAGES") == 0 &&
            (fy_has_translations(locale) ||
             fy_has_translations(gather->language))) {
            status = FY_ERR_UNSUPPORTED;
        } else if (!none) {
            status = add_locale(gather, locale);
        }
        if (status) {
            gather->hindrance = FY_STAGE_OTHER_LOCALE;
            fy_buffer_printf(&gather->why,
                             "the locale %s is not of UTF-8, has messages, or "
                             "is too large",
                             locale);
        }
    }
    return status;
}

/* Adds the zone's file where TZ names a zone; other texts of TZ need none. */
static int
add_zone_file(struct fy_gather *gather)
{
    char path[PATH_MAX];
    if (!gather->zone || strstr(gather->zone, "..")) {
        return gather->zone ? FY_ERR_UNSUPPORTED : 0;
    }
    int n = snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", gather->zone);
    return n > 0 && n < (int)sizeof path
               ? fy_closure_add_file(gather->closure, path)
               : FY_ERR_UNSUPPORTED;
}

static bool
is_one_of(const char *text, const char *const *list)
{
    for (; *list; list++) {
        if (strcmp(text, *list) == 0) {
            return true;
        }
    }
    return false;
}

/* All files that the program needs, if it can be carried. */
static void
close_over(struct fy_gather *gather)
{
    static const char *const owners[] = {"/etc/passwd", "/etc/group", NULL};
    gather->closure = calloc(1, sizeof *gather->closure);
    int status =
        !gather->closure || gather->library_path ? FY_ERR_UNSUPPORTED : 0;
    gather->hindrance = FY_STAGE_OTHER_TOOL;
    if (!status) {
        status = fy_closure_add_program(gather->closure, gather->program,
                                        gather->loads_paths || gather->nloads,
                                        &gather->why);
    }
    for (unsigned i = 0; !status && i < gather->npaths; i++) {
        struct stat about;
        const char *path = gather->paths[i];
        if (is_one_of(path, owners) && !fy_names_are_of_files()) {
            status = FY_ERR_UNSUPPORTED;
        } else if (stat(path, &about) == 0) {
            status = !S_ISREG(about.st_mode) ? FY_ERR_UNSUPPORTED
                     : about.st_mode & 0111
                         ? fy_closure_add_program(gather->closure, path, false,
                                                  &gather->why)
                         : fy_closure_add_file(gather->closure, path);
        }
    }
    for (size_t i = 0; !status && i < gather->nloads; i++) {
        status = fy_closure_add_file(gather->closure, gather->loads[i]);
    }
    if (!status) {
        status = add_zone_file(gather);
    }
    if (!status) {
        status = add_locales(gather);
    }
    if (status) {
        fy_closure_free(gather->closure);
        gather->closure = NULL;
        fy_buffer_add(&gather->why, status == FY_ERR_OVERFLOW
                                        ? "its files are more than 64 MiB"
                                        : "");
    }
}

void
fy_gather_run(struct fy_gather *gather)
{
    if (gather->reason || gather->theirs) {
        return;
    }
    if (getxattr(gather->program, "security.capability", NULL, 0) > 0) {
        (void)refuse(gather, FY_STAGE_OTHER_VIEW, "its file gives capabilities",
                     "");
        return;
    }
    int status = fy_tool_identity_with(gather->program, gather->library_path,
                                       gather->loads_paths, gather->identity,
                                       sizeof gather->identity);
    if (status) {
        (void)refuse(gather, FY_STAGE_OTHER_TOOL,
                     status != FY_ERR_UNSUPPORTED
                         ? "the program or a library of it cannot be read"
                     : gather->library_path
                         ? "what it loads by LD_LIBRARY_PATH is not known"
                         : "what it loads is not known",
                     "");
        return;
    }
    /* A locale that is missing here is "C" here alone. */
    if (!fy_locales_fit((const char *const *)gather->locales, gather->encoded,
                        &gather->why)) {
        gather->reason = FY_STAGE_OTHER_LOCALE;
        return;
    }
    for (unsigned i = 0; i < gather->nruns; i++) {
        if (!leads_to(gather->search, gather->runs[i])) {
            (void)refuse(gather, FY_STAGE_OTHER_TOOL, "PATH does not lead to ",
                         gather->runs[i]);
            return;
        }
    }
    for (unsigned i = 0; i < gather->npaths; i++) {
        char own[PATH_MAX];
        if (fy_tool_own_settings(gather->program, gather->paths[i], own) &&
            access(own, F_OK) == 0) {
            (void)refuse(gather, FY_STAGE_OTHER_CONFIG,
                         "its settings are not those of the system: ", own);
            return;
        }
        if (fy_config_hash_with(gather->paths[i], gather->library_path,
                                gather->hashes[i])) {
            (void)refuse(
                gather, FY_STAGE_OTHER_CONFIG,
                "an implicit input cannot be compared: ", gather->paths[i]);
            return;
        }
    }
    if (gather->carries &&
        fy_tools_find(&gather->known, gather->identity) != FY_TOOL_SAME) {
        close_over(gather);
    }
}

unsigned
fy_gather_hindrance(const struct fy_gather *gather, const char **out_why)
{
    bool hindered = gather && !gather->closure && *gather->text;
    *out_why = hindered ? gather->text : "";
    return hindered ? gather->hindrance : FY_STAGE_NONE;
}

struct fy_closure *
fy_gather_closure(const struct fy_gather *gather)
{
    return gather ? gather->closure : NULL;
}

const char *
fy_gather_identity(const struct fy_gather *gather)
{
    return gather->identity;
}

const char *
fy_gather_program(const struct fy_gather *gather)
{
    return gather->program;
}

unsigned
fy_gather_reason(const struct fy_gather *gather, const char **out_why)
{
    *out_why = gather->text;
    return gather->reason;
}
