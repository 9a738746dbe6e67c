/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request for a stage: everything that the proxy must know to run it as it
 * would run here. The local program and implicit inputs are read, to compare
 * them, in a thread of the pool (prepare.c): a home may be on a file system that
 * does not answer.
 */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/path.h"
#include "proxy/client/stage.h"
#include "proxy/storage/tools.h"

enum {
    CONFIGS_MAX = 64,
    LOCALES_MAX = 16,
    RUNS_MAX = 16,
    NFS_GROUPS_MAX = 16,
};

/* What has to be read for a request, and what was found: nothing of the stage is
 * borrowed, which may end while its files do not answer. */
struct fy_gather {
    char *program, *library_path, *locales[LOCALES_MAX + 1];
    char *paths[CONFIGS_MAX];
    unsigned char hashes[CONFIGS_MAX][32];
    unsigned npaths, nlocales;
    char *search, *runs[RUNS_MAX]; /* PATH; programs that it leads to */
    unsigned nruns;
    bool encoded, loads_paths;
    char identity[256];
    unsigned reason;
    struct fy_buffer why;
    char text[200];
};

struct request {
    struct stage *stage;
    struct fy_stage_spec spec;
    /* and the mounts' roots */
    struct fy_config_hash configs[CONFIGS_MAX + FY_SPEC_MAX_MOUNTS + 1];
    struct fy_mount_spec mounts[FY_SPEC_MAX_MOUNTS];
    struct fy_bytes outputs[2];
};

static struct fy_bytes
bytes_of(const char *text)
{
    return (struct fy_bytes){.at = text, .n = strlen(text)};
}

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

/* ---- what is to be read ------------------------------------------------------------ */

static bool
refuse(struct fy_gather *gather, unsigned reason, const char *what,
       const char *why)
{
    gather->reason = reason;
    fy_buffer_add(&gather->why, what);
    fy_buffer_add(&gather->why, why);
    return true;
}

/* Takes `path'. False: no memory. */
static bool
add_path(struct fy_gather *gather, char *path)
{
    if (!path) {
        return false;
    }
    if (path[0] != '/' || gather->npaths == CONFIGS_MAX) {
        bool added = refuse(gather, FY_STAGE_OTHER_CONFIG,
                            "an implicit input cannot be compared: ", path);
        free(path);
        return added;
    }
    gather->paths[gather->npaths++] = path;
    return true;
}

/* The file of the time zone: the host's own, or one that TZ names by its path. A
 * name of the system's list means the same everywhere. */
static bool
add_zone(struct fy_gather *gather, const struct stage *stage)
{
    const char *zone = variable(stage, "TZ", 2);
    if (!zone) {
        zone = "/etc/localtime";
    } else if (*zone == ':') {
        zone++;
    }
    return *zone != '/' || add_path(gather, strdup(zone));
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
        if (gather->nlocales == LOCALES_MAX) {
            return refuse(gather, FY_STAGE_OTHER_TOOL, "too many locales", "");
        }
        gather->locales[gather->nlocales] = strdup(entry);
        if (!gather->locales[gather->nlocales++]) {
            return false;
        }
    }
    return true;
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
    for (uint32_t i = 0; i < invocation->nruns && i < RUNS_MAX; i++) {
        gather->runs[i] = strdup(invocation->runs[i].program);
        if (!gather->runs[gather->nruns++]) {
            return false;
        }
    }
    return invocation->nruns <= RUNS_MAX ||
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
    fy_buffer_start(&gather->why, gather->text, sizeof gather->text);
    gather->encoded = stage->invocation.encoded;
    gather->loads_paths =
        fy_invocation_is(&stage->invocation, FY_TRAIT_LOADS_PATHS);
    if (fy_path_join(stage->facts.cwd, stage->facts.path, program)) {
        (void)refuse(gather, FY_STAGE_OTHER_TOOL, "the program's path", "");
        program[0] = '\0';
    }
    gather->program = strdup(program);
    if (!gather->program || !add_environment(gather, stage) ||
        !add_library_path(gather, stage) || !add_paths(gather, stage) ||
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
    free(gather->search);
    free(gather->program);
    free(gather->library_path);
    free(gather);
}

/* Whether the search by the last name of `program' ends at that very file. */
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

void
fy_gather_run(struct fy_gather *gather)
{
    if (gather->reason) {
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
        gather->reason = FY_STAGE_OTHER_TOOL;
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
}

unsigned
fy_gather_reason(const struct fy_gather *gather, const char **out_why)
{
    *out_why = gather->text;
    return gather->reason;
}

bool
fy_ask_shows_owners(const struct stage *stage, const struct fy_mount *mount)
{
    const struct fy_invocation *invocation = &stage->invocation;
    return (mount->traits & FY_MOUNT_SHOWS_SELF) &&
           (fy_invocation_is(invocation, FY_TRAIT_OWNERS) ||
            (invocation->effect &&
             fy_invocation_is(invocation, FY_TRAIT_REPLACES_OPERANDS)));
}

/*
 * Returns true if the command's groups are the proxy's. NFS sends no more than 16
 * (RFC 5531): with more the server may refuse an access that the proxy has.
 */
static bool
has_groups(const struct stage *stage)
{
    gid_t groups[NFS_GROUPS_MAX + 1];
    struct ucred peer;
    socklen_t bytes = sizeof peer, all = NFS_GROUPS_MAX * sizeof *groups;
    unsigned char hash[32];
    const struct stub_client *client = fy_stage_stub_client(stage);
    int fd = client ? client->watch.fd : -1;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &all) != 0) {
        return false;
    }
    size_t n = all / sizeof *groups;
    groups[n++] = peer.gid;
    fy_groups_hash(groups, n, hash);
    return memcmp(hash, stage->connection->hello.groups, sizeof hash) == 0;
}

bool
fy_ask_is_same_user(const struct stage *stage, struct fy_buffer *why)
{
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        if ((mount->traits & FY_MOUNT_MAPS_USERS) && stage->plan.effect &&
            stage->connection->hello.uid == 0) {
            /* Its caches are refreshed by chown(2): storage/fresh.c. */
            fy_buffer_add(why,
                          "root may write other owners there than it sees");
            return false;
        }
        if (!(mount->traits & FY_MOUNT_BY_NUMBER) &&
            !fy_ask_shows_owners(stage, mount)) {
            continue;
        }
        if (stage->connection->hello.uid != geteuid() ||
            stage->connection->hello.gid != getegid()) {
            fy_buffer_add(why, "its user has another number there");
            return false;
        }
        if ((mount->traits & FY_MOUNT_BY_NUMBER) && !has_groups(stage)) {
            fy_buffer_add(why, "its user has other groups there");
            return false;
        }
        if (geteuid() == 0 && !mount->configured &&
            (mount->traits & FY_MOUNT_SQUASHES)) {
            fy_buffer_add(why, "root may be nobody for the server");
            return false;
        }
    }
    return true;
}

/* ---- the request -------------------------------------------------------------------- */

static void
add_configs(struct request *request)
{
    const struct stage *stage = request->stage;
    const struct fy_gather *gather = stage->prepare.gather;
    struct fy_stage_spec *spec = &request->spec;
    spec->configs = request->configs;
    /* Once a connection: a mount's own folder must look alike there. */
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        if (stage->prepare.hashed[i]) {
            struct fy_config_hash *root = &spec->configs[spec->nconfigs++];
            *root = stage->prepare.roots[i];
            root->path = bytes_of(stage->plan.mounts[i]->path);
        }
    }
    for (unsigned i = 0; i < gather->npaths; i++) {
        struct fy_config_hash *config = &spec->configs[spec->nconfigs++];
        config->path = bytes_of(gather->paths[i]);
        memcpy(config->sha256, gather->hashes[i], sizeof config->sha256);
    }
}

static struct fy_stream_spec
stream_of(const struct fy_stream_plan *plan)
{
    struct fy_stream_spec spec = {.kind = plan->kind, .path = bytes_of("")};
    if (plan->kind == FY_STREAM_FILE) {
        spec.path = bytes_of(plan->path);
        spec.offset = plan->offset;
        spec.flags = plan->flags;
        spec.inode = plan->inode;
    }
    return spec;
}

static int
fill(struct request *request, struct stage *feeder)
{
    struct stage *stage = request->stage;
    struct fy_stage_spec *spec = &request->spec;
    spec->stage = stage->number;
    spec->tool.path = bytes_of(stage->prepare.gather->program);
    spec->tool.identity = bytes_of(stage->prepare.gather->identity);
    spec->argc = stage->hello.argc;
    spec->argv = calloc(spec->argc + 1u, sizeof *spec->argv);
    spec->env = calloc(stage->hello.envc + 1u, sizeof *spec->env);
    if (!spec->argv || !spec->env) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < spec->argc; i++) {
        spec->argv[i] = bytes_of(stage->argv[i]);
    }
    /* All of it would stand in /proc there: it may hold passwords. */
    for (uint32_t i = 0; i < stage->hello.envc; i++) {
        if (stage->session->options.whole_environment ||
            fy_invocation_wants(&stage->invocation, stage->env[i])) {
            spec->env[spec->envc++] = bytes_of(stage->env[i]);
        }
    }
    spec->mount = bytes_of(stage->mount->path);
    spec->root = bytes_of(stage->mount->place.path);
    spec->mounts = request->mounts;
    for (unsigned i = 1; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        request->mounts[spec->nmounts++] = (struct fy_mount_spec){
            bytes_of(mount->path), bytes_of(mount->place.path)};
    }
    spec->cwd = bytes_of(stage->facts.cwd);
    spec->umask = stage->hello.umask;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        spec->hides_links =
            spec->hides_links || (mount->traits & FY_MOUNT_HIDES_LINKS);
        spec->keeps_names =
            spec->keeps_names || (mount->traits & FY_MOUNT_BY_PATH);
        spec->masks = spec->masks || (mount->traits & FY_MOUNT_MASKS);
        if (mount->traits & FY_MOUNT_BY_NUMBER && !spec->exported) {
            spec->exported = FY_EXPORTED_SAID;
        }
        if (mount->traits & FY_MOUNT_BY_NUMBER && !mount->configured) {
            spec->exported = FY_EXPORTED_FOUND;
        }
    }
    spec->outputs = request->outputs;
    if (!fy_alike_outputs(stage, request->outputs, &spec->noutputs)) {
        return FY_ERR_UNSUPPORTED;
    }
    spec->nice = stage->hello.nice;
    spec->ignored = stage->hello.ignored[0] | (uint64_t)stage->hello.ignored[1]
                                                  << 32;
    memcpy(spec->limits, stage->hello.limits, sizeof spec->limits);
    spec->rows = stage->hello.rows;
    spec->columns = stage->hello.columns;
    spec->in = stream_of(&stage->plan.in);
    if (feeder) {
        spec->in.kind = FY_STREAM_LINK;
        spec->in.stage = feeder->number;
    }
    spec->out = stream_of(&stage->plan.out);
    spec->err = stream_of(&stage->plan.err);
    /* Not where both ends are one machine. */
    spec->compress = spec->out.kind == FY_STREAM_WIRE &&
                     !fy_place_is_near(&stage->mount->place);
    spec->copies = stage->invocation.split == FY_SPLIT_NONE ? 1 : 64;
    add_configs(request);
    return 0;
}

int
fy_ask_encode(struct stage *stage, struct stage *feeder, char **out,
              size_t *out_n)
{
    char *body = NULL;
    size_t n = 0;
    struct request *request = calloc(1, sizeof *request);
    if (!request) {
        return FY_ERR_NOMEM;
    }
    request->stage = stage;
    int status = fill(request, feeder);
    if (!status) {
        status = fy_stage_spec_encode(&request->spec, &body, &n);
    }
    if (!status) {
        *out = malloc(n + sizeof(uint32_t));
        status = *out ? 0 : FY_ERR_NOMEM;
    }
    if (!status) {
        uint32_t length = htobe32((uint32_t)n);
        memcpy(*out, &length, sizeof length);
        memcpy(*out + sizeof length, body, n);
        *out_n = n + sizeof length;
    }
    free(body);
    free(request->spec.argv);
    free(request->spec.env);
    free(request);
    return status;
}
