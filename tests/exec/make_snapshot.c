/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a session's snapshot as ferry run would: OUT STUB SOCKET MOUNT
 * FOLDER-OF-ITS-DEVICE (or -) COMMAND[:FLAGS]... ; the names sorted. With
 * --spoil N OUT the byte at N of an existing one is made wrong; --idle OUT
 * says that the session has ended.
 */
#include "config.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/snapshot.h"

static union {
    struct fy_snapshot header;
    char bytes[1 << 16];
} block;
static uint32_t used;

static uint32_t
add(const void *data, size_t bytes)
{
    uint32_t at = used;
    memcpy(block.bytes + used, data, bytes);
    used += (uint32_t)bytes;
    return at;
}

static int
change(const char *path, long at, unsigned char value, int spoil)
{
    FILE *file = fopen(path, "r+");
    if (!file || fseek(file, at, SEEK_SET)) {
        return 1;
    }
    int old = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(spoil ? old ^ 0xff : value, file);
    return fclose(file) != 0;
}

int
main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--spoil") == 0) {
        return change(argv[3], atol(argv[2]), 0, 1);
    }
    if (argc == 3 && strcmp(argv[1], "--idle") == 0) {
        return change(argv[2], offsetof(struct fy_snapshot, active), 0, 0);
    }
    if (argc < 6) {
        return 2;
    }
    struct fy_snapshot_mount mount = {.path_bytes = (uint32_t)strlen(argv[4])};
    struct fy_snapshot_command commands[64];
    uint32_t count = (uint32_t)argc - 6;
    struct stat status;
    if (count > 64) {
        return 2;
    }
    if (stat(argv[5], &status) == 0) {
        mount.device = status.st_dev;
    }
    used = sizeof block.header;
    block.header = (struct fy_snapshot){.version = FY_SNAPSHOT_VERSION,
                                        .active = 1,
                                        .ncommands = count,
                                        .nmounts = 1};
    memcpy(block.header.magic, FY_SNAPSHOT_MAGIC, 8);
    block.header.mounts = add(&mount, sizeof mount);
    block.header.commands = add(commands, count * sizeof commands[0]);
    block.header.stub = add(argv[2], strlen(argv[2]) + 1);
    block.header.socket = add(argv[3], strlen(argv[3]) + 1);
    mount.path = add(argv[4], strlen(argv[4]) + 1);
    for (uint32_t i = 0; i < count; i++) {
        char *colon = strchr(argv[6 + i], ':');
        commands[i].flags = colon ? (uint32_t)atoi(colon + 1) : 0;
        if (colon) {
            *colon = '\0';
        }
        commands[i].name = add(argv[6 + i], strlen(argv[6 + i]) + 1);
    }
    memcpy(block.bytes + block.header.mounts, &mount, sizeof mount);
    memcpy(block.bytes + block.header.commands, commands,
           count * sizeof commands[0]);
    block.header.size_bytes = used;
    FILE *file = fopen(argv[1], "w");
    return !file || fwrite(&block, used, 1, file) != 1 || fclose(file);
}
