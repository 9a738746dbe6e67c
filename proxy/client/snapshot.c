/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the block that the exec wrappers map (common/snapshot.h), and switches
 * it off at the end of a run. The session's thread and the one that started it.
 */
#include "config.h"

#include "common/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proxy/client/session.h"

struct block {
    char *bytes; /* NULL while it is measured */
    size_t used;
};

static uint32_t
put(struct block *block, const void *bytes, size_t n, size_t align)
{
    block->used = (block->used + align - 1) / align * align;
    size_t at = block->used;
    if (block->bytes) {
        memcpy(block->bytes + at, bytes, n);
    }
    block->used += n;
    return (uint32_t)at;
}

static uint32_t
put_text(struct block *block, const char *text)
{
    return put(block, text, strlen(text) + 1, 1);
}

static void
fill(const struct fy_session *session, struct block *block)
{
    const struct fy_commands *commands = session->options.commands;
    struct fy_snapshot head = {.version = FY_SNAPSHOT_VERSION, .active = 1};
    memcpy(head.magic, FY_SNAPSHOT_MAGIC, sizeof head.magic);
    (void)put(block, &head, sizeof head, 8);
    head.stub = put_text(block, session->options.stub);
    head.socket = put_text(block, session->socket_path);
    head.ncommands = (uint32_t)fy_commands_count(commands);
    struct fy_snapshot_command command = {0};
    for (uint32_t i = 0; i < head.ncommands; i++) {
        uint32_t at = put(block, &command, sizeof command, 8);
        head.commands = i == 0 ? at : head.commands;
    }
    struct fy_snapshot_mount mount = {0};
    head.nmounts = session->nmounts;
    for (uint32_t i = 0; i < head.nmounts; i++) {
        uint32_t at = put(block, &mount, sizeof mount, 8);
        head.mounts = i == 0 ? at : head.mounts;
    }
    for (uint32_t i = 0; i < head.ncommands; i++) {
        const struct fy_command_name *name = fy_commands_name(commands, i);
        command.flags = (name->reads_stdin ? FY_SNAPSHOT_STDIN : 0u) |
                        (name->reads_cwd ? FY_SNAPSHOT_CWD : 0u);
        command.name = put_text(block, name->name);
        if (block->bytes) {
            memcpy(block->bytes + head.commands + i * sizeof command, &command,
                   sizeof command);
        }
    }
    for (uint32_t i = 0; i < head.nmounts; i++) {
        mount.device = session->mounts[i].device;
        mount.path = put_text(block, session->mounts[i].path);
        mount.path_bytes = (uint32_t)strlen(session->mounts[i].path);
        mount.control = session->mounts[i].control[0]
                            ? put_text(block, session->mounts[i].control)
                            : 0;
        if (block->bytes) {
            memcpy(block->bytes + head.mounts + i * sizeof mount, &mount,
                   sizeof mount);
        }
    }
    head.size_bytes = (uint32_t)block->used;
    if (block->bytes) {
        memcpy(block->bytes, &head, sizeof head);
    }
}

int
fy_snapshot_write(struct fy_session *session, struct fy_buffer *why)
{
    struct block block = {0};
    fill(session, &block);
    if (block.used > 64u << 20) {
        fy_buffer_add(why, "too many commands and mounts");
        return FY_ERR_OVERFLOW;
    }
    int fd = open(session->snapshot.path,
                  O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        goto close_fd;
    }
    /* Its blocks are there before it is mapped: a full disk is an error here,
     * not a signal later. */
    int error = posix_fallocate(fd, 0, (off_t)block.used);
    if (error != 0) {
        errno = error;
        goto close_fd;
    }
    void *mapped =
        mmap(NULL, block.used, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        goto close_fd;
    }
    (void)close(fd);
    session->snapshot.bytes = block.used;
    session->snapshot.block = mapped;
    block = (struct block){.bytes = mapped};
    fill(session, &block);
    return 0;
close_fd:
    fy_buffer_printf(why, "%s: %s", session->snapshot.path,
                     strerrordesc_np(errno));
    if (fd >= 0) {
        (void)close(fd);
    }
    return FY_ERR_IO;
}

void
fy_snapshot_disable(struct fy_session *session)
{
    struct fy_snapshot *head = session->snapshot.block;
    if (head) {
        __atomic_store_n(&head->active, 0u, __ATOMIC_RELEASE);
    }
}

void
fy_snapshot_free(struct fy_session *session)
{
    if (session->snapshot.block) {
        (void)munmap(session->snapshot.block, session->snapshot.bytes);
        session->snapshot.block = NULL;
        (void)unlink(session->snapshot.path);
    }
}
