/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ferry whose proxy lies to `ferry mount': the program's name ends with ".LIE", a row of
 * `lies'. It is ferry itself, with the encoder of the messages replaced at link time
 * (--wrap): what the storage's process sends is changed on its way.
 */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proxy/files/message.h"

int __real_fy_files_encode(const struct fy_files_message *message,
                           struct fy_files_out *out);
int __wrap_fy_files_encode(const struct fy_files_message *message,
                           struct fy_files_out *out);
int __real_fy_files_entry_put(const struct fy_files_entry *entry,
                              struct fy_files_out *out);
int __wrap_fy_files_entry_put(const struct fy_files_entry *entry,
                              struct fy_files_out *out);

static unsigned turn; /* messages so far */

/* ---- what is changed in a message, before or after it is bytes ----------------------- */

static void
sizes_huge(struct fy_files_message *m)
{
    m->attr.size = m->attr.size ? UINT64_MAX - turn : 0;
}

static void
sizes_larger(struct fy_files_message *m)
{
    m->attr.size = m->attr.size * 1000 + 5;
}

static void
sizes_smaller(struct fy_files_message *m)
{
    m->attr.size = turn % 3 ? m->attr.size / 2 : m->attr.size;
}

static const uint32_t types[] = {S_IFREG, S_IFDIR, S_IFLNK,
                                 S_IFIFO, 0,       0170000};

static void
types_change(struct fy_files_message *m)
{
    if (m->attr.mode) {
        m->attr.mode = (m->attr.mode & 07777) | types[turn % 6];
    }
}

static void
one_inode(struct fy_files_message *m)
{
    m->attr.ino = 7;
}

static void
no_inode(struct fy_files_message *m)
{
    m->attr.ino = turn % 2 ? 0 : UINT64_MAX;
}

static __thread bool unsaid; /* the message is not sent */

/* The answer comes behind the notice of the old name, and before that of the new one, which
 * is never sent. */
static void
late_renames(struct fy_files_message *m)
{
    unsaid = m->type == FY_FILES_CHANGED && (m->flags & FY_FILES_PRESENT) != 0;
    if (m->type == FY_FILES_RENAME) {
        (void)usleep(200000);
    }
}

static void
not_sent(struct fy_files_out *out, size_t at)
{
    out->n = unsaid ? at : out->n;
    unsaid = false;
}

static void
other_ids(struct fy_files_message *m)
{
    m->id += turn > 20 ? 1000 : 0;
}

static void
other_type(struct fy_files_message *m)
{
    m->type =
        turn > 20 ? (enum fy_files_type)(1 + turn % FY_FILES_BARRIER) : m->type;
}

static void
odd_status(struct fy_files_message *m)
{
    m->status = turn % 5 ? m->status : turn % 2 ? 17 : -99999;
}

static void
counts_wrong(struct fy_files_message *m)
{
    m->attr.nlink = 0;
    m->length = UINT64_MAX;
    m->offset = UINT64_MAX / 2;
    m->number = UINT64_MAX;
}

static void
always_more(struct fy_files_message *m)
{
    if (m->type == FY_FILES_LIST || m->type == FY_FILES_FETCH) {
        m->frame_flags |= FY_FILES_MORE;
        m->flags &= ~(uint32_t)FY_FILES_WHOLE;
    }
}

static void
never_whole(struct fy_files_message *m)
{
    if (m->type == FY_FILES_LIST) {
        m->flags &= ~(uint32_t)FY_FILES_WHOLE;
    }
}

static char long_data[FY_FILES_DATA_BYTES];

static void
more_data(struct fy_files_message *m)
{
    if (m->type == FY_FILES_READ || m->type == FY_FILES_READLINK ||
        m->type == FY_FILES_GETXATTR) {
        m->data = (struct fy_files_bytes){long_data, sizeof(long_data)};
    }
}

static void
rows_cut(struct fy_files_message *m)
{
    m->data.n -= m->data.n > 3 ? 3 : 0;
}

/* Frames after they were encoded; `at' is where the frame begins. */
static void
silence(struct fy_files_out *out, size_t at)
{
    out->n = turn > 12 ? at : out->n;
}

static void
length_huge(struct fy_files_out *out, size_t at)
{
    if (turn > 12) {
        memset(out->bytes + at, 0xff, 4);
    }
}

static void
garbage(struct fy_files_out *out, size_t at)
{
    for (size_t i = at; turn > 12 && i < out->n; i += 7) {
        out->bytes[i] = (char)(out->bytes[i] ^ (char)(turn * 31 + i));
    }
}

static void
again(struct fy_files_out *out, size_t at)
{
    size_t n = out->n - at;
    char *bytes = realloc(out->bytes, out->n + n);
    if (bytes) {
        memcpy(bytes + out->n, bytes + at, n);
        out->bytes = bytes;
        out->n += n;
        out->capacity = out->n;
    }
}

static void
tell(struct fy_files_out *out, enum fy_files_type type, unsigned n)
{
    for (unsigned i = 0; turn > 12 && i < n; i++) {
        struct fy_files_message m = {.type = type,
                                     .number = i % 7,
                                     .flags = i % 2 ? FY_FILES_PRESENT : 0,
                                     .name = {"f1", 2}};
        m.attr = (struct fy_files_attr){
            .ino = i, .size = i, .nlink = 1, .mode = types[i % 4] | 0644};
        if (__real_fy_files_encode(&m, out) != 0) {
            break;
        }
    }
}

static void
flood(struct fy_files_out *out, size_t at)
{
    (void)at;
    tell(out, FY_FILES_CHANGED, 3000);
}

static void
all_lost(struct fy_files_out *out, size_t at)
{
    (void)at;
    tell(out, FY_FILES_LOST, 200);
}

/* ---- rows of lists ------------------------------------------------------------------- */

static void
bad_names(struct fy_files_entry *entry)
{
    static char longest[300];
    static const struct fy_files_bytes names[] = {
        {"a/b", 3},  {"..", 2},      {".", 1},           {"", 0},
        {"a\0b", 3}, {longest, 300}, {"/etc/passwd", 11}};
    memset(longest, 'n', sizeof(longest));
    entry->name = names[turn++ % 7];
}

static void
same_names(struct fy_files_entry *entry)
{
    entry->name = (struct fy_files_bytes){"same", 4};
}

static void
loops(struct fy_files_entry *entry)
{
    struct stat st;
    if (stat(".", &st) == 0) {
        entry->attr.ino = turn++ % 2 ? 2 : st.st_ino;
        entry->attr.mode = S_IFDIR | 0755;
    }
}

static const struct lie {
    const char *name;
    void (*message)(struct fy_files_message *message);
    void (*frame)(struct fy_files_out *out, size_t at);
    void (*entry)(struct fy_files_entry *entry);
} lies[] = {
    {"huge", sizes_huge, NULL, NULL},
    {"larger", sizes_larger, NULL, NULL},
    {"smaller", sizes_smaller, NULL, NULL},
    {"types", types_change, NULL, NULL},
    {"one-inode", one_inode, NULL, NULL},
    {"no-inode", no_inode, NULL, NULL},
    {"ids", other_ids, NULL, NULL},
    {"kinds", other_type, NULL, NULL},
    {"status", odd_status, NULL, NULL},
    {"counts", counts_wrong, NULL, NULL},
    {"more", always_more, NULL, NULL},
    {"never-whole", never_whole, NULL, NULL},
    {"data", more_data, NULL, NULL},
    {"rows", rows_cut, NULL, NULL},
    {"late-renames", late_renames, not_sent, NULL},
    {"silence", NULL, silence, NULL},
    {"length", NULL, length_huge, NULL},
    {"garbage", NULL, garbage, NULL},
    {"twice", NULL, again, NULL},
    {"flood", NULL, flood, NULL},
    {"lost", NULL, all_lost, NULL},
    {"names", NULL, NULL, bad_names},
    {"same-names", NULL, NULL, same_names},
    {"loops", NULL, NULL, loops},
};

static const struct lie *
chosen(void)
{
    const char *dot = strrchr(program_invocation_name, '.');
    for (size_t i = 0; dot && i < sizeof(lies) / sizeof(*lies); i++) {
        if (strcmp(lies[i].name, dot + 1) == 0) {
            return &lies[i];
        }
    }
    return NULL;
}

int
__wrap_fy_files_encode(const struct fy_files_message *message,
                       struct fy_files_out *out)
{
    const struct lie *lie = chosen();
    struct fy_files_message changed = *message;
    /* The greeting is true: what lies is a proxy, not no proxy. */
    bool lying = lie && message->type != FY_FILES_HELLO;
    size_t at = out->n;
    turn++;
    if (lying && lie->message) {
        lie->message(&changed);
    }
    int status = __real_fy_files_encode(&changed, out);
    if (status) { /* the encoder refuses: the truth then */
        status = __real_fy_files_encode(message, out);
    }
    if (!status && lying && lie->frame) {
        lie->frame(out, at);
    }
    return status;
}

int
__wrap_fy_files_entry_put(const struct fy_files_entry *entry,
                          struct fy_files_out *out)
{
    const struct lie *lie = chosen();
    struct fy_files_entry changed = *entry;
    if (lie && lie->entry) {
        lie->entry(&changed);
    } else if (lie && lie->message) {
        struct fy_files_message message = {.attr = entry->attr};
        lie->message(&message);
        changed.attr = message.attr;
        turn++;
    }
    return __real_fy_files_entry_put(&changed, out);
}
