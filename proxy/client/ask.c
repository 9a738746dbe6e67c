/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request for a stage: everything that the proxy must know to run it as it would run
 * locally.
 */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy/client/stage.h"

enum {
    NFS_GROUPS_MAX = 16,
};

struct request {
    struct stage *stage;
    struct fy_stage_spec spec;
    /* and the mounts' roots */
    struct fy_config_hash configs[FY_CONFIGS_MAX + FY_SPEC_MAX_MOUNTS + 1];
    struct fy_mount_spec mounts[FY_SPEC_MAX_MOUNTS];
    struct fy_bytes outputs[2];
    struct fy_carried_file carried[FY_CLOSURE_MAX];
};

static struct fy_bytes
bytes_of(const char *text)
{
    return (struct fy_bytes){.at = text, .n = strlen(text)};
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

/* Returns true if the host's own program runs, with the host's configuration. */
static bool
is_theirs(const struct stage *stage)
{
    return stage->connection->programs == FY_TOOLS_HOST;
}

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
    for (unsigned i = 0; i < gather->npaths && !is_theirs(stage); i++) {
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
    spec->tool.identity = bytes_of(
        is_theirs(stage) ? FY_TOOL_THEIRS : stage->prepare.gather->identity);
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
    spec->copies =
        stage->invocation.split == FY_SPLIT_NONE || is_theirs(stage) ? 1 : 64;
    add_configs(request);
    if (stage->carry.carried && stage->carry.connection == stage->connection) {
        spec->carried = request->carried;
        spec->ncarried =
            fy_carry_rows(stage->prepare.gather->closure, request->carried);
    }
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
