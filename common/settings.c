/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings table and its text form, see the header. A new setting is one
 * field and one row here. Runs in the tools and in host programs; refuses to
 * read the environment or any file itself.
 */
#include "config.h"

#include "common/settings.h"

#include <string.h>

/* Returns the next word, or "". */
static const char *
next_word(const char *word)
{
    word += strcspn(word, "|");
    return word + (*word == '|');
}

/* Reads an enum, the number of the word among `words'. */
static int
parse_word(const char *words, const char *value, void *field,
           struct fy_buffer *why)
{
    int n = 0;
    for (const char *word = words; *word; word = next_word(word), n++) {
        size_t bytes = strcspn(word, "|");
        if (strlen(value) == bytes && memcmp(value, word, bytes) == 0) {
            *(int *)field = n;
            return 0;
        }
    }
    fy_buffer_add(why, "expected ");
    for (const char *word = words; *word; word = next_word(word)) {
        const char *comma = *next_word(next_word(word)) ? ", " : " or ";
        fy_buffer_add_bytes(why, word, strcspn(word, "|"));
        fy_buffer_add(why, *next_word(word) ? comma : "");
    }
    return FY_ERR_INVALID;
}

static void
print_word(const char *words, const void *field, struct fy_buffer *to)
{
    for (int n = *(const int *)field; n > 0; n--) {
        words = next_word(words);
    }
    fy_buffer_add_bytes(to, words, strcspn(words, "|"));
}

/* auto, none, host, cuda or cuda:N. */
static int
parse_device(const char *value, void *field, struct fy_buffer *why)
{
    int kind;
    size_t digits =
        strncmp(value, "cuda:", 5) == 0 ? strspn(value + 5, "0123456789") : 0;
    if (parse_word("auto|none|host|cuda", value, &kind, NULL) == 0 ||
        (digits >= 1 && digits <= 3 && value[5 + digits] == '\0')) {
        memcpy(field, value, strlen(value) + 1);
        return 0;
    }
    fy_buffer_add(why, "expected auto, none, host, cuda or cuda:N");
    return FY_ERR_INVALID;
}

static void
print_text(const void *field, struct fy_buffer *to)
{
    fy_buffer_add(to, field);
}

static int
parse_mask(const char *value, void *field, struct fy_buffer *why)
{
    int status = fy_parse_number(value, field);
    fy_buffer_add(why, status ? "expected a number" : "");
    return status ? FY_ERR_INVALID : 0;
}

static int
parse_memory(const char *value, void *field, struct fy_buffer *why)
{
    int status = fy_parse_size(value, field);
    if (status == FY_ERR_OVERFLOW) {
        fy_buffer_add(why, "the size is too large");
    } else if (status) {
        fy_buffer_add(why, "expected a size such as 64MiB, 1GiB, 512k or 4096");
    }
    return status ? FY_ERR_INVALID : 0;
}

static void
print_memory(const void *field, struct fy_buffer *to)
{
    fy_buffer_add_number(to, *(const uint64_t *)field);
}

static int
parse_bool(const char *value, void *field, struct fy_buffer *why)
{
    bool *out = field;
    if (strcmp(value, "1") == 0 || strcmp(value, "yes") == 0) {
        *out = true;
    } else if (strcmp(value, "0") == 0 || strcmp(value, "no") == 0) {
        *out = false;
    } else {
        fy_buffer_add(why, "expected yes or no");
        return FY_ERR_INVALID;
    }
    return 0;
}

static void
print_bool(const void *field, struct fy_buffer *to)
{
    fy_buffer_add(to, *(const bool *)field ? "1" : "0");
}

/* The field is chunk_random; chunk_seed is set with it. */
static int
parse_chunk(const char *value, void *field, struct fy_buffer *why)
{
    struct fy_settings *settings =
        (void *)((char *)field - offsetof(struct fy_settings, chunk_random));
    uint64_t seed = 0;
    bool random = strncmp(value, "random", 6) == 0;
    if (random && value[6] == ':') {
        if (fy_parse_number(value + 7, &seed)) {
            fy_buffer_add(why, "the seed after random: must be a number");
            return FY_ERR_INVALID;
        }
    } else if (random ? value[6] != '\0' : strcmp(value, "planned") != 0) {
        fy_buffer_add(why, "expected planned, random or random:SEED");
        return FY_ERR_INVALID;
    }
    settings->chunk_random = random;
    settings->chunk_seed = seed;
    return 0;
}

static void
print_chunk(const void *field, struct fy_buffer *to)
{
    const struct fy_settings *settings =
        (const void *)((const char *)field -
                       offsetof(struct fy_settings, chunk_random));
    if (!settings->chunk_random) {
        fy_buffer_add(to, "planned");
        return;
    }
    fy_buffer_printf(to, "random:%lu", settings->chunk_seed);
}

/* "0.01": digits with at most one point, to the billionth; no locale. */
static bool
parse_rate(const char *text, size_t bytes, double *out)
{
    uint64_t billionths = 0, unit = 1000000000;
    bool point = false, digits = false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9' || billionths > 1000000000) {
            return false;
        }
        unit /= point ? 10 : 1;
        billionths = (point ? billionths : billionths * 10) +
                     unit * (uint64_t)(text[i] - '0');
        digits = true;
    }
    *out = (double)billionths / 1e9;
    return digits && billionths <= 1000000000;
}

/* The field is check_rate; check_seed is set with it. */
static int
parse_check(const char *value, void *field, struct fy_buffer *why)
{
    struct fy_settings *settings =
        (void *)((char *)field - offsetof(struct fy_settings, check_rate));
    size_t bytes = strcspn(value, ":");
    uint64_t seed = 0;
    double rate;
    if (!parse_rate(value, bytes, &rate)) {
        fy_buffer_add(why, "expected a number from 0 to 1, such as 0.01");
        return FY_ERR_INVALID;
    }
    if (value[bytes] && fy_parse_number(value + bytes + 1, &seed)) {
        fy_buffer_add(why, "the seed after the colon must be a number");
        return FY_ERR_INVALID;
    }
    settings->check_rate = rate;
    settings->check_seed = seed;
    return 0;
}

/* Nine decimals: parse_rate() reads them back. */
static void
print_check(const void *field, struct fy_buffer *to)
{
    const struct fy_settings *settings =
        (const void *)((const char *)field -
                       offsetof(struct fy_settings, check_rate));
    uint64_t billionths = (uint64_t)(settings->check_rate * 1e9 + 0.5);
    if (billionths % 1000000000 == 0) {
        fy_buffer_add_number(to, billionths / 1000000000);
    } else {
        fy_buffer_add(to, "0.");
        for (uint64_t digit = 100000000; digit; digit /= 10) {
            fy_buffer_add_char(to, (char)('0' + billionths / digit % 10));
        }
    }
    if (settings->check_seed) {
        fy_buffer_printf(to, ":%lu", settings->check_seed);
    }
}

static int
parse_path(const char *value, void *field, struct fy_buffer *why)
{
    size_t bytes = strlen(value) + 1;
    if (bytes > FY_SETTINGS_PATH_BYTES) {
        fy_buffer_add(why, "the path is too long");
        return FY_ERR_INVALID;
    }
    memcpy(field, value, bytes);
    return 0;
}

/* Adds a line: a setting that may be there several times; "" empties it. */
static int
parse_mount(const char *value, void *field, struct fy_buffer *why)
{
    char *list = field;
    size_t used = strlen(list), bytes = strlen(value);
    if (bytes == 0) {
        list[0] = '\0';
        return 0;
    }
    if (strchr(value, '\n') || !strchr(value, '=')) {
        fy_buffer_add(why, "expected FOLDER=PLACE, such as "
                           "/mnt/data=ssh://host/export");
        return FY_ERR_INVALID;
    }
    if (bytes > FY_SETTINGS_MOUNTS_BYTES - 2 - used) {
        fy_buffer_add(why, "the mounts are too many");
        return FY_ERR_INVALID;
    }
    memcpy(list + used, value, bytes);
    memcpy(list + used + bytes, "\n", 2);
    return 0;
}

#define WIRE      FY_SETTING_WIRE
#define USER      FY_SETTING_USER
#define AT(field) offsetof(struct fy_settings, field)

static const struct fy_setting table[] = {
    {"mode", "0",
     "what intercepted calls do: 0 never, 1 ask, 2 force, 3 and 4 count", WIRE,
     AT(mode), .words = "0|1|2|3|4"},
    {"device", "auto", "where calls may run: auto, none, host, cuda or cuda:N",
     WIRE | USER, AT(device), .parse = parse_device, .print = print_text},
    {"memory", "0", "limit of the device's memory; 0 is the device's own",
     WIRE | USER, AT(memory_bytes), .parse = parse_memory,
     .print = print_memory},
    {"residency", "auto",
     "what stays on the device between calls: off (nothing), write-through "
     "(operands whose writes the kernel tells of), compare (operands, hashed "
     "before each use) or auto (write-through, else compare)",
     WIRE | USER, AT(residency), .words = "off|auto|write-through|compare"},
    {"force", "0",
     "offload whenever the annotation allows, without the cost model",
     WIRE | USER, AT(force), .parse = parse_bool, .print = print_bool},
    {"early", "0",
     "start CUDA also in a program that may use it, before it does",
     WIRE | USER, AT(early), .parse = parse_bool, .print = print_bool},
    {"chunk", "planned", "chunk shapes: planned, random or random:SEED",
     WIRE | USER, AT(chunk_random), .parse = parse_chunk, .print = print_chunk},
    {"explain", "", "file to which every decision is appended", WIRE,
     AT(explain), .parse = parse_path, .print = print_text},
    {"record", "", "file of counters, shared by the processes of a run", WIRE,
     AT(record), .parse = parse_path, .print = print_text},
    {"engine", "", "the engine library", WIRE, AT(engine), .parse = parse_path,
     .print = print_text},
    {"calibration", "", "file of measured rates, written by ferry calibrate",
     WIRE | USER, AT(calibration), .parse = parse_path, .print = print_text},
    {"rates", "", "beginning of the names of files with rates of cards", WIRE,
     AT(rates), .parse = parse_path, .print = print_text},
    {"kernels", "", "folder for compiled kernels", WIRE, AT(kernels),
     .parse = parse_path, .print = print_text},
    {"verify", "", "file to which ferry verify's findings are appended", WIRE,
     AT(verify), .parse = parse_path, .print = print_text},
    {"debug", "0", "rooms that log, as a mask", WIRE, AT(debug),
     .parse = parse_mask, .print = print_memory},
    {"debug_file", "", "file to which they log", WIRE, AT(debug_file),
     .parse = parse_path, .print = print_text},
    {"check", "0",
     "how many of the offloaded calls are compared with their "
     "originals: RATE or RATE:SEED",
     WIRE | USER, AT(check_rate), .parse = parse_check, .print = print_check},
    {"checked", "", "file to which differing results are appended", WIRE,
     AT(checked), .parse = parse_path, .print = print_text},
    {"annotations", "", "more annotation files or folders, separated by colons",
     USER, AT(annotations), .parse = parse_path},
    {"snapshot", "", "what the exec wrappers know of the session", WIRE,
     AT(snapshot), .parse = parse_path, .print = print_text},
    {"environment", "needed",
     "variables that a command at a proxy gets: needed (those that its "
     "annotation declares) or all",
     USER, AT(environment), .words = "needed|all"},
    {"tools", "",
     "programs that a storage host has not, or has otherwise: carry (they are "
     "sent there; without this line), same (their commands run locally) or "
     "host (the host's own of that name run); then the hosts, or none for all",
     USER, AT(tools), .parse = fy_tools_parse},
    {"store", "",
     "limit of the files that are kept on a storage host (512MiB without this "
     "line); then the hosts, or none for all",
     USER, AT(store), .parse = fy_store_parse},
    {"deploy", "ask",
     "what is done about a storage host that has no ferry: ask (a terminal is "
     "told of 'ferry deploy'), auto (it is copied there in the background) or "
     "never",
     USER, AT(deploy), .words = "ask|auto|never"},
    {"mount", "", "FOLDER=PLACE: where a mount's files are; once for each",
     USER, AT(mounts), .parse = parse_mount},
    {"discover", "1", "find sshfs and NFS mounts by themselves", USER,
     AT(discover), .parse = parse_bool},
};

#undef WIRE
#undef USER
#undef AT

enum {
    ROWS = sizeof table / sizeof table[0]
};

const struct fy_setting *
fy_settings_table(size_t *count)
{
    *count = ROWS;
    return table;
}

void
fy_settings_init(struct fy_settings *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->device, "auto", sizeof "auto");
    out->discover = true;
    out->residency = FY_RESIDENCY_AUTO;
    /* Every other default is zero; test_settings.c compares with the table. */
}

/* Settings of earlier versions: ferry.conf may still have them. */
static bool
is_removed(const char *name)
{
    return strcmp(name, "defer") == 0 || strcmp(name, "register") == 0;
}

int
fy_settings_set(struct fy_settings *settings, unsigned origin, const char *name,
                const char *value, struct fy_buffer *why)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(table[i].name, name) != 0) {
            continue;
        }
        if (!(table[i].flags & origin)) {
            break;
        }
        void *field = (char *)settings + table[i].offset;
        return table[i].words ? parse_word(table[i].words, value, field, why)
                              : table[i].parse(value, field, why);
    }
    fy_buffer_add(why, is_removed(name) ? "this setting was removed"
                                        : "there is no such setting");
    return FY_ERR_NOENT;
}

static void
add_escaped(struct fy_buffer *to, const char *value)
{
    for (; *value; value++) {
        if (*value == ';') {
            fy_buffer_add(to, "%3B");
        } else if (*value == '%') {
            fy_buffer_add(to, "%25");
        } else {
            fy_buffer_add_char(to, *value);
        }
    }
}

int
fy_settings_encode(const struct fy_settings *settings, char *out,
                   size_t capacity)
{
    if (capacity == 0) {
        return FY_ERR_NOFIT;
    }
    struct fy_buffer text;
    fy_buffer_start(&text, out, capacity);
    for (size_t i = 0; i < ROWS; i++) {
        if (!(table[i].flags & FY_SETTING_WIRE)) {
            continue;
        }
        char value[FY_SETTINGS_PATH_BYTES];
        struct fy_buffer plain;
        fy_buffer_start(&plain, value, sizeof value);
        const void *field = (const char *)settings + table[i].offset;
        if (table[i].words) {
            print_word(table[i].words, field, &plain);
        } else {
            table[i].print(field, &plain);
        }
        if (strcmp(value, table[i].initial) == 0) {
            continue;
        }
        if (text.used) {
            fy_buffer_add_char(&text, ';');
        }
        fy_buffer_printf(&text, "%s=", table[i].name);
        add_escaped(&text, value);
    }
    return text.overflowed ? FY_ERR_NOFIT : 0;
}

/* Undoes add_escaped() over `bytes' bytes; false when it cannot. */
static bool
unescape(const char *from, size_t bytes, struct fy_buffer *to)
{
    for (size_t i = 0; i < bytes; i++) {
        if (from[i] != '%') {
            fy_buffer_add_char(to, from[i]);
        } else if (bytes - i > 2 && memcmp(from + i, "%3B", 3) == 0) {
            fy_buffer_add_char(to, ';');
            i += 2;
        } else if (bytes - i > 2 && memcmp(from + i, "%25", 3) == 0) {
            fy_buffer_add_char(to, '%');
            i += 2;
        } else {
            return false;
        }
    }
    return !to->overflowed;
}

/* One "name=value" of `bytes' bytes. */
static int
decode_item(const char *item, size_t bytes, struct fy_settings *out,
            struct fy_buffer *why)
{
    const char *equals = memchr(item, '=', bytes);
    char name[32], value[FY_SETTINGS_PATH_BYTES];
    struct fy_buffer name_text, value_text;
    fy_buffer_start(&name_text, name, sizeof name);
    fy_buffer_start(&value_text, value, sizeof value);
    if (!equals) {
        fy_buffer_add(why, "an item has no '='");
        return FY_ERR_INVALID;
    }
    size_t name_bytes = (size_t)(equals - item);
    fy_buffer_add_bytes(&name_text, item, name_bytes);
    if (!unescape(equals + 1, bytes - name_bytes - 1, &value_text)) {
        fy_buffer_printf(why, "%s: a malformed or too long value", name);
        return FY_ERR_INVALID;
    }
    char cause[128];
    struct fy_buffer cause_text;
    fy_buffer_start(&cause_text, cause, sizeof cause);
    int status =
        fy_settings_set(out, FY_SETTING_WIRE, name, value, &cause_text);
    if (status == FY_ERR_NOENT) {
        return 0;
    }
    if (status) {
        fy_buffer_printf(why, "%s: %s", name, cause);
    }
    return status;
}

int
fy_settings_decode(const char *text, struct fy_settings *out,
                   struct fy_buffer *why)
{
    fy_settings_init(out);
    int result = 0;
    while (text && *text) {
        size_t bytes = strcspn(text, ";");
        if (bytes) {
            /* The first cause is told, the other items still count. */
            int status = decode_item(text, bytes, out, result ? NULL : why);
            if (status) {
                result = FY_ERR_INVALID;
            }
        }
        text += bytes + (text[bytes] == ';');
    }
    return result;
}
