/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings: the environment's text (common/settings.h), ferry.conf
 * (tools/config.c), sizes, and the environment as programs are shown it
 * (common/environment.c). What is decoded is encoded and decoded to the same; a
 * complaint about ferry.conf is one line of plain text.
 */
#include "config.h"

#include <stdarg.h>

#include "common/environment.h"
#include "common/plain.h"
#include "common/settings.h"
#include "tests/fuzz/target.h"
#include "tools/tool.h"

const char fuzz_shows[] =
    "settings come back as they were, or keep their values";
const char *const fuzz_words[] = {"device=",
                                  "memory=",
                                  "mode=",
                                  "chunk=",
                                  "%3B",
                                  "%25",
                                  "%",
                                  ";",
                                  "mounts=",
                                  "64MiB",
                                  "1TB",
                                  "18446744073709551615",
                                  "-1",
                                  "on",
                                  "yes",
                                  "check_rate=",
                                  "1e9",
                                  "nan",
                                  "snapshot=",
                                  "LD_PRELOAD=",
                                  ":",
                                  "/libferry.so",
                                  "ferry-preload-",
                                  "FERRY_SETTINGS=",
                                  "#",
                                  "\n",
                                  "= ",
                                  NULL};

static unsigned complaints;

void
fy_say(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    MUST(*text);
    complaints++;
}

static void
try_wire(const char *text)
{
    static struct fy_settings settings, again;
    static char encoded[FY_SETTINGS_TEXT_BYTES], twice[FY_SETTINGS_TEXT_BYTES];
    char why[256];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, why, sizeof why);
    int status = fy_settings_decode(text, &settings, &buffer);
    MUST(status == 0 || (status == FY_ERR_INVALID && *why));
    fuzz_taken += status == 0;
    MUST(!fy_settings_encode(&settings, encoded, sizeof encoded));
    MUST(!fy_settings_decode(encoded, &again, NULL));
    MUST(!fy_settings_encode(&again, twice, sizeof twice));
    MUST(!strcmp(encoded, twice));
}

static void
try_numbers(const char *text)
{
    uint64_t number = 1, size = 2;
    int status = fy_parse_number(text, &number);
    MUST(status == 0 || status == FY_ERR_INVALID || status == FY_ERR_OVERFLOW);
    MUST(status == 0 || number == 1);
    status = fy_parse_size(text, &size);
    MUST(status == 0 || status == FY_ERR_INVALID || status == FY_ERR_OVERFLOW);
    MUST(status == 0 ? size <= INT64_MAX : size == 2);
}

/* One variable: nothing of ferry's is left, and nothing grows. */
static void
try_variable(const char *text)
{
    size_t room = strlen(text) + 1;
    char *copy = malloc(room), *twice = malloc(room);
    MUST(copy && twice);
    size_t used = fy_environment_copy(text, copy);
    MUST(used <= room);
    if (used) {
        MUST(copy[used - 1] == '\0' && strlen(copy) == used - 1);
        MUST(strncmp(copy, "FERRY_SETTINGS=", 15) != 0);
        MUST(fy_environment_copy(copy, twice) == used && !strcmp(copy, twice));
    }
    free(copy);
    free(twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static struct fy_settings settings;
    char *text = fuzz_text(bytes, n);
    try_wire(text);
    try_numbers(text);
    try_variable(text);
    fy_settings_init(&settings);
    complaints = 0;
    fy_config_read(fuzz_file("ferry.conf", bytes, n), &settings);
    MUST(complaints <= 3);
    fy_plain(text, "\n");
    for (const char *at = text; *at; at++) {
        size_t plain = fy_plain_bytes(at);
        MUST(plain > 0 || *at == '\n');
        at += plain > 1 ? plain - 1 : 0;
    }
    free(text);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("mode=2;device=host;memory=65536;force=1;mounts=/a=ssh://h/b%0A");
    FUZZ_SEED("explain=/a%3Bb%25;check_rate=0.5;check_seed=7;chunk_random=1");
    FUZZ_SEED("# ferry.conf\ndevice = host\nmemory = 64MiB # here\nbad line\n");
    FUZZ_SEED("LD_PRELOAD=/x/libferry.so:/y/other.so /tmp/ferry-preload-a.so");
    FUZZ_SEED("64MiB");
    FUZZ_SEED("caf\xc3\xa9 \x1b[2J \xc2\x9b \xff\xed\xa0\x80");
}
