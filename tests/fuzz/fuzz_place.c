/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that name a place (proxy/wire/place.c), of the user and of mountinfo, and the
 * words of ssh's command line that come of them. A place that is
 * accepted never gives ssh an option that the text did not name as one.
 */
#include "config.h"

#include "common/buffer.h"
#include "proxy/wire/transport.h"
#include "proxy/wire/transports.h"
#include "tests/fuzz/target.h"

const char fuzz_shows[] = "every place is refused with a reason, or harmless";
const char *const fuzz_words[] = {
    "ssh://", "loopback:///", "@",  ":",     "[::1]",  "?option=", "&", "%2d",
    "%00",    "?command=",    "/~", "-",     "ferry=", "config=",  "%", "cut=",
    "stall=", "for=",         "2s", "slow=", "1KiB/s", "..",       NULL};

/* ssh's options take a value each; the first word that is none is the host. */
static void
judge(const struct fy_place *place)
{
    struct fy_ssh_words words;
    char why[256];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, why, sizeof why);
    if (fy_ssh_words(place, NULL, &words, &buffer)) {
        MUST(*why);
        return;
    }
    MUST(words.argc > 3 && words.argc < FY_SSH_MAX_WORDS);
    MUST(!words.argv[words.argc] && words.argv[words.argc - 1] == words.script);
    MUST(words.argv[words.argc - 2] == place->host);
    MUST(!strcmp(words.argv[words.argc - 3], "--"));
    /* All words of the command that was asked for, one after the other. */
    const char *at = *place->command ? place->command : "ssh";
    unsigned i = 0;
    for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
        size_t n = strcspn(at, " \t");
        MUST(strlen(words.argv[i]) == n && !strncmp(words.argv[i], at, n));
        at += n;
        i++;
    }
    MUST(place->host[0] != '-' && place->user[0] != '-');
}

/* What is written of a place is read as the same one. */
static void
judge_written(const struct fy_place *place)
{
    static char text[3 * sizeof *place];
    static struct fy_place again;
    struct fy_buffer written;
    fy_buffer_start(&written, text, sizeof text);
    fy_place_write(place, &written);
    MUST(fy_place_parse(text, &again, NULL) == 0);
    MUST(strcmp(place->path, again.path) == 0);
    MUST(fy_place_same_host(place, &again));
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char why[256], name[512], *text = fuzz_text(bytes, n);
    struct fy_buffer buffer, named;
    struct fy_place place;
    fy_buffer_start(&buffer, why, sizeof why);
    int status = fy_place_parse(text, &place, &buffer);
    MUST(status == 0 || *why);
    if (!status) {
        fuzz_taken++;
        MUST(*place.path == '/' || *place.path == '~');
        MUST(fy_place_same_host(&place, &place));
        fy_buffer_start(&named, name, sizeof name);
        fy_place_name(&place, &named);
        judge_written(&place);
        if (strcmp(place.transport->scheme, "ssh") == 0) {
            judge(&place);
        }
    }
    free(text);
    return 0;
}

void
fuzz_make_seeds(void)
{
    FUZZ_SEED("ssh://user@host.example:2222/srv/data?option=IdentityFile=/k"
              "&command=ssh%20-x&ferry=/opt/ferry&config=none");
    /* Of a command of many words only the first ones were run. */
    FUZZ_SEED(
        "ssh://h/x?command=ssh%20-a%20-b%20-c%20-d%20-e%20-f%20-g%20-h%20-i"
        "%20-j%20-k%20-l%20-m%20-n%20-o%20-p%20-q%20-r%20-s%20-t%20-u%20-v"
        "%20-w%20-x%20-y%20-z%20-a%20-b%20-c%20-d%20-e%20-f%20-g%20-h%20-i");
    FUZZ_SEED("ssh://[fe80::1%25eth0]:22/~/data");
    FUZZ_SEED("loopback:///srv?option=Near=yes");
}
