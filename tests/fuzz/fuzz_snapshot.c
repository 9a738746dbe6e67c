/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The block of names and mounts that every program of a run maps (shim/programs/snapshot.c):
 * a file in a folder that others may make again when the run is over. What passes
 * holds strings and tables that end inside it; what the session writes passes.
 */
#include "config.h"

#include "shim/programs/snapshot.c" /* for is_valid */
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "a snapshot that passes ends inside its file";
const char *const fuzz_words[] = {FY_SNAPSHOT_MAGIC, "/", "\xff\xff\xff\xff",
                                  "\x30", NULL};

/* What snapshot.c has of the settings; unused here. */
const char *
fy_settings_text(void)
{
    return "";
}

bool
fy_settings_value(const char *name, char *out, size_t capacity)
{
    (void)name;
    (void)out;
    (void)capacity;
    return false;
}

static size_t
strings_of(const struct fy_snapshot *snapshot)
{
    const struct fy_snapshot_command *commands = commands_of(snapshot);
    const struct fy_snapshot_mount *mounts =
        (const void *)((const char *)snapshot + snapshot->mounts);
    size_t sum = strlen(fy_snapshot_string(snapshot, snapshot->stub)) +
                 strlen(fy_snapshot_string(snapshot, snapshot->socket));
    for (uint32_t i = 0; i < snapshot->ncommands; i++) {
        uint32_t flags;
        const char *name = fy_snapshot_string(snapshot, commands[i].name);
        sum += strlen(name) + fy_snapshot_find(snapshot, name, &flags);
    }
    for (uint32_t i = 0; i < snapshot->nmounts; i++) {
        const char *path = fy_snapshot_string(snapshot, mounts[i].path);
        MUST(*path == '/' && strlen(path) == mounts[i].path_bytes);
        sum += mounts[i].device != 0;
        sum += mounts[i].control
                   ? strlen(fy_snapshot_string(snapshot, mounts[i].control))
                   : 0;
    }
    return sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct fy_snapshot *copy = malloc(n);
    MUST(copy || !n);
    if (n >= sizeof *copy) {
        memcpy(copy, bytes, n);
        if (is_valid(copy, n)) {
            fuzz_taken++;
            MUST(copy->size_bytes == n);
            (void)strings_of(copy);
        }
        /* The rest of the checks also where size and magic are wrong. */
        memcpy(copy->magic, FY_SNAPSHOT_MAGIC, sizeof copy->magic);
        copy->version = FY_SNAPSHOT_VERSION;
        copy->size_bytes = (uint32_t)n;
        if (is_valid(copy, n)) {
            (void)strings_of(copy);
        }
    }
    free(copy);
    return 0;
}

void
fuzz_make_seeds(void)
{
    struct {
        struct fy_snapshot head;
        struct fy_snapshot_command commands[2];
        struct fy_snapshot_mount mounts[1];
        char text[64];
    } block = {.text = "/lib/ferry-stub\0/tmp/s\0cat\0grep\0/mnt\0/run/1"};
    const uint32_t text = offsetof(__typeof__(block), text);
    memcpy(block.head.magic, FY_SNAPSHOT_MAGIC, sizeof block.head.magic);
    block.head.version = FY_SNAPSHOT_VERSION;
    block.head.size_bytes = sizeof block;
    block.head.active = 1;
    block.head.stub = text;
    block.head.socket = text + 16;
    block.head.ncommands = 2;
    block.head.commands = offsetof(__typeof__(block), commands);
    block.head.nmounts = 1;
    block.head.mounts = offsetof(__typeof__(block), mounts);
    block.commands[0].name = text + 23;
    block.commands[1].name = text + 27;
    block.mounts[0] = (struct fy_snapshot_mount){5, text + 32, 4, text + 37, 0};
    fuzz_seed(&block, sizeof block);
}
