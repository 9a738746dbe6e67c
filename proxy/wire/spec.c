/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table a message: its keys, where each lies in the struct, and what it may
 * hold. The encoder, the decoder and PROTOCOL.md's test read the same rows.
 */
#include "config.h"

#include "proxy/wire/specs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/sha256.h"

/* ---- the tables ---- */

#define SIZE(s, m) sizeof(((struct s *)NULL)->m)
#define N(s, key, req, m, max)                                        \
    {                                                                 \
        .name = key, .kind = FY_SPEC_NUMBER, .required = req,         \
        .at = offsetof(struct s, m), .bytes = SIZE(s, m), .most = max \
    }
#define I(s, key, req, m, min, max)                                     \
    {                                                                   \
        .name = key, .kind = FY_SPEC_SIGNED, .required = req,           \
        .at = offsetof(struct s, m), .bytes = SIZE(s, m), .least = min, \
        .most = max                                                     \
    }
#define F(s, key, what, req, m)                     \
    {                                               \
        .name = key, .kind = what, .required = req, \
        .at = offsetof(struct s, m)                 \
    }
#define A(s, key, what, req, m, c, sub)                                 \
    {                                                                   \
        .name = key, .kind = what, .required = req,                     \
        .at = offsetof(struct s, m), .count_at = offsetof(struct s, c), \
        .shape = sub                                                    \
    }
#define M(s, key, req, m, sub)                             \
    {                                                      \
        .name = key, .kind = FY_SPEC_MAP, .required = req, \
        .at = offsetof(struct s, m), .shape = sub          \
    }
#define SHAPE(id, text, type)                                          \
    static const struct fy_spec_shape id##_shape = {                   \
        text, id##_fields, sizeof id##_fields / sizeof id##_fields[0], \
        sizeof(struct type)}

static const struct fy_spec_field tool_fields[] = {
    F(fy_tool, "path", FY_SPEC_BYTES, true, path),
    F(fy_tool, "identity", FY_SPEC_BINARY, true, identity),
};
SHAPE(tool, "tool", fy_tool);

static const struct fy_spec_field stream_fields[] = {
    N(fy_stream_spec, "kind", true, kind, FY_STREAM_SAME),
    F(fy_stream_spec, "path", FY_SPEC_BYTES, false, path),
    I(fy_stream_spec, "offset", false, offset, 0, INT64_MAX),
    N(fy_stream_spec, "flags", false, flags, UINT32_MAX),
    N(fy_stream_spec, "inode", false, inode, UINT64_MAX),
    N(fy_stream_spec, "stage", false, stage, UINT64_MAX),
};
SHAPE(stream, "stream", fy_stream_spec);

static const struct fy_spec_field config_fields[] = {
    F(fy_config_hash, "path", FY_SPEC_BYTES, true, path),
    F(fy_config_hash, "sha256", FY_SPEC_HASH, true, sha256),
    N(fy_config_hash, "inode", false, inode, UINT64_MAX),
    N(fy_config_hash, "changed", false, changed, UINT64_MAX),
};
SHAPE(config, "config", fy_config_hash);

static const struct fy_spec_field carried_fields[] = {
    F(fy_carried_file, "path", FY_SPEC_BYTES, true, path),
    F(fy_carried_file, "sha256", FY_SPEC_HASH, true, sha256),
    F(fy_carried_file, "executes", FY_SPEC_BOOLEAN, false, executes),
};
SHAPE(carried, "carried", fy_carried_file);

static const struct fy_spec_field carry_fields[] = {
    M(fy_carry, "tool", true, tool, &tool_shape),
    A(fy_carry, "carried", FY_SPEC_MAPS, true, carried, ncarried,
      &carried_shape),
    F(fy_carry, "machine", FY_SPEC_BYTES, false, machine),
    N(fy_carry, "kernel", false, kernel, UINT32_MAX),
    N(fy_carry, "store", false, store_bytes, UINT64_MAX),
};
SHAPE(carry, "carry", fy_carry);

static const struct fy_spec_field carry_result_fields[] = {
    F(fy_carry_result, "same", FY_SPEC_BOOLEAN, true, same),
    F(fy_carry_result, "lacks", FY_SPEC_BINARY, true, lacks),
};
SHAPE(carry_result, "carry-result", fy_carry_result);

static const struct fy_spec_field mount_fields[] = {
    F(fy_mount_spec, "mount", FY_SPEC_BYTES, true, mount),
    F(fy_mount_spec, "root", FY_SPEC_BYTES, true, root),
};
SHAPE(mount, "mount", fy_mount_spec);

static const struct fy_spec_field stage_fields[] = {
    N(fy_stage_spec, "stage", true, stage, UINT64_MAX),
    M(fy_stage_spec, "tool", true, tool, &tool_shape),
    A(fy_stage_spec, "argv", FY_SPEC_STRINGS, true, argv, argc, NULL),
    A(fy_stage_spec, "env", FY_SPEC_STRINGS, true, env, envc, NULL),
    F(fy_stage_spec, "mount", FY_SPEC_BYTES, true, mount),
    F(fy_stage_spec, "root", FY_SPEC_BYTES, true, root),
    A(fy_stage_spec, "!mounts", FY_SPEC_MAPS, false, mounts, nmounts,
      &mount_shape),
    F(fy_stage_spec, "cwd", FY_SPEC_BYTES, true, cwd),
    N(fy_stage_spec, "umask", true, umask, 0777),
    F(fy_stage_spec, "!hides-links", FY_SPEC_BOOLEAN, false, hides_links),
    F(fy_stage_spec, "!keeps-names", FY_SPEC_BOOLEAN, false, keeps_names),
    F(fy_stage_spec, "!masks", FY_SPEC_BOOLEAN, false, masks),
    N(fy_stage_spec, "!exported", false, exported, FY_EXPORTED_FOUND),
    A(fy_stage_spec, "!outputs", FY_SPEC_STRINGS, false, outputs, noutputs,
      NULL),
    I(fy_stage_spec, "nice", false, nice, -20, 19),
    N(fy_stage_spec, "ignored", false, ignored, UINT64_MAX),
    F(fy_stage_spec, "limits", FY_SPEC_LIMITS, false, limits),
    N(fy_stage_spec, "rows", false, rows, UINT16_MAX),
    N(fy_stage_spec, "columns", false, columns, UINT16_MAX),
    M(fy_stage_spec, "in", true, in, &stream_shape),
    M(fy_stage_spec, "out", true, out, &stream_shape),
    M(fy_stage_spec, "err", true, err, &stream_shape),
    N(fy_stage_spec, "copies", false, copies, UINT32_MAX),
    F(fy_stage_spec, "compress", FY_SPEC_BOOLEAN, false, compress),
    A(fy_stage_spec, "configs", FY_SPEC_MAPS, false, configs, nconfigs,
      &config_shape),
    A(fy_stage_spec, "carried", FY_SPEC_MAPS, false, carried, ncarried,
      &carried_shape),
};
SHAPE(stage, "stage", fy_stage_spec);

static const struct fy_spec_field hello_fields[] = {
    N(fy_hello, "version", true, version, UINT32_MAX),
    F(fy_hello, "ferry", FY_SPEC_BYTES, true, ferry),
    N(fy_hello, "uid", true, uid, UINT32_MAX),
    N(fy_hello, "gid", true, gid, UINT32_MAX),
    F(fy_hello, "groups", FY_SPEC_HASH, false, groups),
    N(fy_hello, "cores", false, cores, UINT32_MAX),
    F(fy_hello, "load", FY_SPEC_REAL, false, load),
    F(fy_hello, "spaces", FY_SPEC_BOOLEAN, false, spaces),
    N(fy_hello, "landlock", false, landlock, UINT32_MAX),
    F(fy_hello, "filter", FY_SPEC_BOOLEAN, false, filter),
};
SHAPE(hello, "hello", fy_hello);

static const struct fy_spec_field probe_fields[] = {
    F(fy_probe, "mount", FY_SPEC_BYTES, true, mount),
    F(fy_probe, "root", FY_SPEC_BYTES, true, root),
    A(fy_probe, "!mounts", FY_SPEC_MAPS, false, mounts, nmounts, &mount_shape),
    F(fy_probe, "cwd", FY_SPEC_BYTES, true, cwd),
    A(fy_probe, "paths", FY_SPEC_STRINGS, true, paths, npaths, NULL),
    F(fy_probe, "tree", FY_SPEC_BOOLEAN, false, tree),
};
SHAPE(probe, "probe", fy_probe);

static const struct fy_spec_field probe_result_fields[] = {
    N(fy_probe_result, "bytes", true, bytes, UINT64_MAX),
    N(fy_probe_result, "files", true, files, UINT64_MAX),
    F(fy_probe_result, "complete", FY_SPEC_BOOLEAN, true, complete),
};
SHAPE(probe_result, "probe-result", fy_probe_result);

static const struct fy_spec_field folder_fields[] = {
    F(fy_folder, "path", FY_SPEC_BYTES, true, path),
    N(fy_folder, "uid", true, uid, UINT32_MAX - 1), /* not "as it is" */
};
SHAPE(folder, "folder", fy_folder);

static const struct fy_spec_field told_fields[] = {
    F(fy_link_told, "path", FY_SPEC_BYTES, true, path),
    F(fy_link_told, "target", FY_SPEC_BYTES, true, target),
    N(fy_link_told, "modified", true, modified_s, UINT64_MAX),
};
SHAPE(told, "link", fy_link_told);

static const struct fy_spec_field file_fields[] = {
    F(fy_file_told, "path", FY_SPEC_BYTES, true, path),
    N(fy_file_told, "bytes", true, bytes, UINT64_MAX),
    N(fy_file_told, "modified", true, modified_s, UINT64_MAX),
    N(fy_file_told, "mode", true, mode, 07777),
    F(fy_file_told, "created", FY_SPEC_BOOLEAN, false, created),
};
SHAPE(file, "file", fy_file_told);

static const struct fy_spec_field touched_fields[] = {
    A(fy_touched, "paths", FY_SPEC_STRINGS, true, paths, npaths, NULL),
    F(fy_touched, "complete", FY_SPEC_BOOLEAN, true, complete),
    A(fy_touched, "folders", FY_SPEC_MAPS, false, folders, nfolders,
      &folder_shape),
    A(fy_touched, "links", FY_SPEC_MAPS, false, links, nlinks, &told_shape),
    A(fy_touched, "files", FY_SPEC_MAPS, false, files, nfiles, &file_shape),
};
SHAPE(touched, "touched", fy_touched);

static const char *const kind_texts[] = {
    [FY_SPEC_NUMBER] = "unsigned",
    [FY_SPEC_SIGNED] = "integer",
    [FY_SPEC_BOOLEAN] = "boolean",
    [FY_SPEC_REAL] = "number",
    [FY_SPEC_BYTES] = "bytes",
    [FY_SPEC_BINARY] = "bytes",
    [FY_SPEC_STRINGS] = "array of bytes",
    [FY_SPEC_LIMITS] = "16 pairs of unsigned",
    [FY_SPEC_HASH] = "32 bytes",
    [FY_SPEC_MAP] = "map",
    [FY_SPEC_MAPS] = "array of maps",
};

bool
fy_spec_key(unsigned i, struct fy_spec_key *out)
{
    static const struct fy_spec_shape *const shapes[] = {
        &hello_shape,   &stage_shape,  &mount_shape,        &tool_shape,
        &stream_shape,  &config_shape, &probe_shape,        &probe_result_shape,
        &touched_shape, &folder_shape, &told_shape,         &file_shape,
        &carried_shape, &carry_shape,  &carry_result_shape,
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        if (i < shapes[s]->n) {
            const struct fy_spec_field *field = &shapes[s]->fields[i];
            *out =
                (struct fy_spec_key){shapes[s]->name, field->name,
                                     kind_texts[field->kind], field->required};
            return true;
        }
        i -= shapes[s]->n;
    }
    return false;
}

/* ---- the messages ---- */

int
fy_stage_spec_encode(const struct fy_stage_spec *spec, char **out,
                     size_t *out_bytes)
{
    return fy_spec_encode(&stage_shape, spec, out, out_bytes);
}

/* What no table says. */
static int
check_stage(const struct fy_stage_spec *spec, struct fy_buffer *why)
{
    const struct fy_stream_spec *streams[] = {&spec->in, &spec->out,
                                              &spec->err};
    static const char *const names[] = {"in", "out", "err"};
    if (!spec->argc) {
        return fy_spec_wrong(why, "stage", "argv", "is empty");
    }
    if (spec->argc > FY_SPEC_MAX_STRINGS - spec->envc) {
        return fy_spec_wrong(why, "stage", "env", "too many");
    }
    if (spec->nmounts > FY_SPEC_MAX_MOUNTS) {
        return fy_spec_wrong(why, "stage", "!mounts", "too many");
    }
    if (!spec->copies) {
        return fy_spec_wrong(why, "stage", "copies", "must be at least 1");
    }
    for (int i = 0; i < 3; i++) {
        enum fy_stream_kind kind = streams[i]->kind;
        if (kind == FY_STREAM_FILE && !streams[i]->path.n) {
            return fy_spec_wrong(why, "stage", names[i],
                                 "a file without a path");
        }
        if ((kind == FY_STREAM_LINK && i != 0) ||
            (kind == FY_STREAM_SAME && i != 2)) {
            return fy_spec_wrong(why, "stage", names[i],
                                 "this kind cannot be here");
        }
    }
    return FY_OK;
}

int
fy_stage_spec_decode(char *bytes, size_t n, struct fy_stage_spec *out,
                     struct fy_buffer *why)
{
    struct fy_stage_spec spec = {.copies = 1};
    memset(spec.limits, 0xff, sizeof spec.limits);
    int status = fy_spec_decode(&stage_shape, bytes, n, &spec, why);
    status = status ? status : check_stage(&spec, why);
    if (status) {
        fy_stage_spec_clear(&spec);
        return status;
    }
    *out = spec;
    return FY_OK;
}

void
fy_stage_spec_clear(struct fy_stage_spec *spec)
{
    fy_spec_clear(&stage_shape, spec);
}

struct fy_mount_spec
fy_stage_spec_mount(const struct fy_stage_spec *spec, uint32_t i)
{
    return i ? spec->mounts[i - 1]
             : (struct fy_mount_spec){spec->mount, spec->root};
}

static int
by_number(const void *a, const void *b)
{
    gid_t one = *(const gid_t *)a, other = *(const gid_t *)b;
    return (one > other) - (one < other);
}

void
fy_groups_hash(gid_t *groups, size_t n, unsigned char out[32])
{
    size_t kept = 0;
    qsort(groups, n, sizeof *groups, by_number);
    for (size_t i = 0; i < n; i++) {
        if (!i || groups[i] != groups[kept - 1]) {
            groups[kept++] = groups[i];
        }
    }
    fy_sha256_of(groups, kept * sizeof *groups, out);
}

int
fy_groups_own(unsigned char out[32])
{
    int n = getgroups(0, NULL);
    gid_t *groups = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof *groups);
    memset(out, 0, 32);
    if (!groups) {
        return FY_ERR_NOMEM;
    }
    n = getgroups(n, groups + 1);
    groups[0] = getegid();
    if (n >= 0) {
        fy_groups_hash(groups, (size_t)n + 1, out);
    }
    free(groups);
    return n >= 0 ? 0 : FY_ERR_NOMEM;
}

int
fy_hello_client(char **out, size_t *out_bytes)
{
    struct fy_hello hello = {
        .version = FY_PROTOCOL_VERSION,
        .ferry = {.at = PACKAGE_VERSION, .n = strlen(PACKAGE_VERSION)},
        .uid = geteuid(),
        .gid = getegid(),
    };
    int status = fy_groups_own(hello.groups);
    return status ? status : fy_hello_encode(&hello, out, out_bytes);
}

int
fy_hello_encode(const struct fy_hello *hello, char **out, size_t *out_bytes)
{
    return fy_spec_encode(&hello_shape, hello, out, out_bytes);
}

int
fy_hello_decode(char *bytes, size_t n, struct fy_hello *out,
                struct fy_buffer *why)
{
    struct fy_hello hello = {0};
    int status = fy_spec_decode(&hello_shape, bytes, n, &hello, why);
    if (!status) {
        *out = hello;
    }
    return status;
}

int
fy_probe_encode(const struct fy_probe *probe, char **out, size_t *out_bytes)
{
    return fy_spec_encode(&probe_shape, probe, out, out_bytes);
}

int
fy_probe_decode(char *bytes, size_t n, struct fy_probe *out,
                struct fy_buffer *why)
{
    struct fy_probe probe = {0};
    int status = fy_spec_decode(&probe_shape, bytes, n, &probe, why);
    if (!status && probe.nmounts > FY_SPEC_MAX_MOUNTS) {
        status = fy_spec_wrong(why, "probe", "!mounts", "too many");
    }
    if (status) {
        fy_probe_clear(&probe);
        return status;
    }
    *out = probe;
    return FY_OK;
}

void
fy_probe_clear(struct fy_probe *probe)
{
    fy_spec_clear(&probe_shape, probe);
}

int
fy_probe_result_encode(const struct fy_probe_result *result, char **out,
                       size_t *out_bytes)
{
    return fy_spec_encode(&probe_result_shape, result, out, out_bytes);
}

int
fy_probe_result_decode(char *bytes, size_t n, struct fy_probe_result *out,
                       struct fy_buffer *why)
{
    struct fy_probe_result result = {0};
    int status = fy_spec_decode(&probe_result_shape, bytes, n, &result, why);
    if (!status) {
        *out = result;
    }
    return status;
}

int
fy_carry_encode(const struct fy_carry *carry, char **out, size_t *out_bytes)
{
    return fy_spec_encode(&carry_shape, carry, out, out_bytes);
}

int
fy_carry_decode(char *bytes, size_t n, struct fy_carry *out,
                struct fy_buffer *why)
{
    struct fy_carry carry = {0};
    int status = fy_spec_decode(&carry_shape, bytes, n, &carry, why);
    if (!status) {
        *out = carry;
    }
    return status;
}

void
fy_carry_clear(struct fy_carry *carry)
{
    fy_spec_clear(&carry_shape, carry);
}

int
fy_carry_result_encode(const struct fy_carry_result *result, char **out,
                       size_t *out_bytes)
{
    return fy_spec_encode(&carry_result_shape, result, out, out_bytes);
}

int
fy_carry_result_decode(char *bytes, size_t n, struct fy_carry_result *out,
                       struct fy_buffer *why)
{
    struct fy_carry_result result = {0};
    int status = fy_spec_decode(&carry_result_shape, bytes, n, &result, why);
    if (!status) {
        *out = result;
    }
    return status;
}

int
fy_touched_encode(const struct fy_touched *touched, char **out,
                  size_t *out_bytes)
{
    return fy_spec_encode(&touched_shape, touched, out, out_bytes);
}

int
fy_touched_decode(char *bytes, size_t n, struct fy_touched *out,
                  struct fy_buffer *why)
{
    struct fy_touched touched = {0};
    int status = fy_spec_decode(&touched_shape, bytes, n, &touched, why);
    if (!status) {
        *out = touched;
    }
    return status;
}

void
fy_touched_clear(struct fy_touched *touched)
{
    fy_spec_clear(&touched_shape, touched);
}
