/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request for a stage: everything that the proxy must know to run it as it
 * would run here. Reads the local program and implicit inputs (to compare
 * them), never a file on a mount but the mount point itself.
 */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/confine.h"
#include "proxy/stage.h"

enum {
    CONFIGS_MAX = 64
};

struct request {
    struct stage *stage;
    struct fy_stage_spec spec;
    struct fy_config_hash configs[CONFIGS_MAX];
    char *paths[CONFIGS_MAX];
    struct fy_mount_spec mounts[FY_SPEC_MAX_MOUNTS];
    char program[PATH_MAX], identity[256];
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
    return path != NULL;
}

/* Takes `path'; NULL: no memory. False: it cannot be compared, and `why' names
 * it. */
static bool
add_config(struct request *request, char *path, struct fy_buffer *why)
{
    struct fy_stage_spec *spec = &request->spec;
    if (!path) {
        return false;
    }
    if (path[0] != '/' || spec->nconfigs == CONFIGS_MAX ||
        fy_config_hash(path, request->configs[spec->nconfigs].sha256)) {
        fy_buffer_add(why, "an implicit input cannot be compared: ");
        fy_buffer_add(why, path);
        free(path);
        return false;
    }
    request->configs[spec->nconfigs].path = bytes_of(path);
    request->paths[spec->nconfigs++] = path;
    return true;
}

/* Once a connection: a mount's own folder must look alike there. */
static bool
add_roots(struct request *request)
{
    struct stage *stage = request->stage;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        uint32_t at = request->spec.nconfigs;
        if (!stage->hashed[i]) {
            continue;
        }
        char *path = strdup(stage->plan.mounts[i]->path);
        if (!path || at == CONFIGS_MAX) {
            free(path);
            return false;
        }
        memcpy(request->configs[at].sha256, stage->root_hashes[i],
               sizeof stage->root_hashes[i]);
        request->configs[at].path = bytes_of(path);
        request->paths[at] = path;
        request->spec.nconfigs++;
    }
    return true;
}

/* The file of the time zone: the host's own, or one that TZ names by its path. A
 * name of the system's list means the same everywhere. */
static bool
add_zone(struct request *request, struct fy_buffer *why)
{
    const char *zone = variable(request->stage, "TZ", 2);
    if (!zone) {
        zone = "/etc/localtime";
    } else if (*zone == ':') {
        zone++;
    }
    return *zone != '/' || add_config(request, strdup(zone), why);
}

static bool
add_configs(struct request *request, struct fy_buffer *why)
{
    struct stage *stage = request->stage;
    if (!add_roots(request)) {
        return false;
    }
    const char *const *configs = stage->invocation.configs;
    for (; configs && *configs; configs++) {
        char *path;
        if (!expand(stage, *configs, &path) ||
            (path && !add_config(request, path, why))) {
            return false;
        }
    }
    if (stage->invocation.owners &&
        (!add_config(request, strdup("/etc/passwd"), why) ||
         !add_config(request, strdup("/etc/group"), why))) {
        return false;
    }
    return add_zone(request, why);
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

/*
 * The program's libraries and locale are what its identity says nothing of: the
 * other host would load its own, and a locale that is missing here is "C" here
 * alone.
 */
static bool
loads_its_own(const struct stage *stage, struct fy_buffer *why)
{
    static const char *const loader[] = {"LD_PRELOAD", "LD_AUDIT",
                                         "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof loader / sizeof loader[0]; i++) {
        const char *value = variable(stage, loader[i], strlen(loader[i]));
        if (value && *value) {
            fy_buffer_add(why, loader[i]);
            fy_buffer_add(why, " is set");
            return false;
        }
    }
    return fy_locales_exist((const char *const *)stage->env, why);
}

static int
fill(struct request *request, struct stage *feeder, struct fy_buffer *why)
{
    struct stage *stage = request->stage;
    struct fy_stage_spec *spec = &request->spec;
    if (!loads_its_own(stage, why)) {
        return FY_ERR_UNSUPPORTED;
    }
    if (fy_path_join(stage->facts.cwd, stage->facts.path, request->program) ||
        fy_tool_identity(request->program, request->identity,
                         sizeof request->identity)) {
        fy_buffer_add(why, "the program cannot be read");
        return FY_ERR_IO;
    }
    spec->stage = stage->number;
    spec->tool.path = bytes_of(request->program);
    spec->tool.identity = bytes_of(request->identity);
    spec->argc = stage->hello.argc;
    spec->envc = stage->hello.envc;
    spec->argv = calloc(spec->argc + 1u, sizeof *spec->argv);
    spec->env = calloc(spec->envc + 1u, sizeof *spec->env);
    if (!spec->argv || !spec->env) {
        return FY_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < spec->argc; i++) {
        spec->argv[i] = bytes_of(stage->argv[i]);
    }
    for (uint32_t i = 0; i < spec->envc; i++) {
        spec->env[i] = bytes_of(stage->env[i]);
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
    spec->configs = request->configs;
    if (!add_configs(request, why)) {
        return FY_ERR_IO;
    }
    return 0;
}

int
fy_ask_encode(struct stage *stage, struct stage *feeder, char **out,
              size_t *out_n, struct fy_buffer *why)
{
    char *body = NULL;
    size_t n = 0;
    struct request *request = calloc(1, sizeof *request);
    if (!request) {
        return FY_ERR_NOMEM;
    }
    request->stage = stage;
    int status = fill(request, feeder, why);
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
    for (unsigned i = 0; i < CONFIGS_MAX; i++) {
        free(request->paths[i]);
    }
    free(request);
    return status;
}
