/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a place (transport.h): read and named. Refuses whatever ssh
 * or a remote shell could take for something else, because host and user may
 * come from a mount that another user made.
 */
#include "config.h"

#include "proxy/wire/transport.h"

#include <string.h>

#include "common/plain.h"
#include "proxy/wire/transports.h"

static int
wrong(struct fy_buffer *why, const char *what, const char *text)
{
    fy_buffer_printf(why, "%s in \"%s\"", what, text);
    return FY_ERR_INVALID;
}

static int
digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %XX decoded; false when it does not fit, is malformed or holds a NUL. */
static bool
decode(const char *text, size_t n, char *out, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < n ? digit(text[i + 1]) : -1;
            int low = i + 2 < n ? digit(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c || used + 1 >= capacity) {
            return false;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

bool
fy_place_word(const char *text, const char *extra)
{
    if (!*text || *text == '-') {
        return false;
    }
    for (; *text; text++) {
        char c = *text;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                     (c >= 'A' && c <= 'Z');
        if (!plain && !strchr(extra, c)) {
            return false;
        }
    }
    return true;
}

static bool
port_is_valid(const char *port)
{
    unsigned number = 0;
    size_t n = strlen(port);
    if (n < 1 || n > 5) {
        return false;
    }
    for (; *port; port++) {
        if (*port < '0' || *port > '9') {
            return false;
        }
        number = number * 10 + (unsigned)(*port - '0');
    }
    return number >= 1 && number <= 65535;
}

/* [user@]host[:port], host perhaps in brackets. */
static int
parse_authority(const char *at, size_t n, struct fy_place *out,
                struct fy_buffer *why, const char *text)
{
    const char *end = at + n;
    const char *host = memrchr(at, '@', n);
    if (host) {
        if (!decode(at, (size_t)(host - at), out->user, sizeof out->user) ||
            !fy_place_word(out->user, "._-+@\\$")) {
            return wrong(why, "bad user name", text);
        }
        host++;
    } else {
        host = at;
    }
    const char *host_end = end;
    const char *port = NULL;
    if (host < end && *host == '[') {
        host++;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (!host_end) {
            return wrong(why, "no ] after the address", text);
        }
        if (host_end + 1 < end) {
            if (host_end[1] != ':') {
                return wrong(why, "no : before the port", text);
            }
            port = host_end + 2;
        }
    } else {
        const char *colon = memchr(host, ':', (size_t)(end - host));
        if (colon) {
            host_end = colon;
            port = colon + 1;
        }
    }
    if (!decode(host, (size_t)(host_end - host), out->host, sizeof out->host) ||
        !fy_place_word(out->host, ".-_:%")) {
        return wrong(why, "bad host name", text);
    }
    if (port &&
        (!decode(port, (size_t)(end - port), out->port, sizeof out->port) ||
         !port_is_valid(out->port))) {
        return wrong(why, "bad port", text);
    }
    return 0;
}

/* No control characters: each becomes one word of ssh's command line. */
static bool
is_printable(const char *text)
{
    size_t n = 0;
    while (*text && (n = fy_plain_bytes(text)) > 0) {
        text += n;
    }
    return !*text;
}

static int
parse_query(const char *at, struct fy_place *out, struct fy_buffer *why,
            const char *text)
{
    while (*at) {
        size_t n = strcspn(at, "&");
        const char *equals = memchr(at, '=', n);
        size_t key = equals ? (size_t)(equals - at) : n;
        char *value = NULL;
        size_t capacity = sizeof out->options[0];
        if (key == 6 && memcmp(at, "option", 6) == 0) {
            if (out->noptions == sizeof out->options / sizeof out->options[0]) {
                return wrong(why, "too many options", text);
            }
            value = out->options[out->noptions++];
        } else if (key == 6 && memcmp(at, "config", 6) == 0) {
            value = out->config;
        } else if (key == 7 && memcmp(at, "command", 7) == 0) {
            value = out->command;
        } else if (key == 5 && memcmp(at, "ferry", 5) == 0) {
            value = out->ferry;
        } else {
            return wrong(why,
                         "a key that is none of option, config, command, "
                         "ferry",
                         text);
        }
        if (!equals || !decode(equals + 1, n - key - 1, value, capacity) ||
            !*value || !is_printable(value)) {
            return wrong(why, "a bad value", text);
        }
        at += n + (at[n] == '&');
    }
    for (unsigned i = 0; i < out->noptions; i++) {
        /* "-o X" may be "Key=Value" or "Key Value"; ours are the first. */
        if (out->options[i][0] == '-' || !strpbrk(out->options[i], "= ")) {
            return wrong(why, "an option that is not KEY=VALUE", text);
        }
    }
    if (*out->ferry && !fy_place_word(out->ferry, "/._-+~@:,=")) {
        return wrong(why, "a path of ferry with unusual characters", text);
    }
    return 0;
}

int
fy_place_parse(const char *text, struct fy_place *out, struct fy_buffer *why)
{
    const char *scheme = strstr(text, "://");
    if (!scheme) {
        return wrong(why, "no scheme (ssh://, loopback://)", text);
    }
    struct fy_place place;
    memset(&place, 0, sizeof place);
    place.transport = fy_transport_find(text, (size_t)(scheme - text));
    if (!place.transport) {
        return wrong(why, "an unknown scheme", text);
    }
    const char *authority = scheme + 3;
    size_t n = strcspn(authority, "/?");
    const char *path = authority + n;
    if (*path != '/') {
        return wrong(why, "no absolute path", text);
    }
    bool local = strcmp(place.transport->scheme, "loopback") == 0;
    if (local && n) {
        return wrong(why, "a host where none can be", text);
    }
    int status = local ? 0 : parse_authority(authority, n, &place, why, text);
    if (status) {
        return status;
    }
    size_t path_bytes = strcspn(path, "?");
    if (path_bytes > 2 && path[1] == '~' && path[2] != '/') {
        return wrong(why, "the home of another user", text);
    }
    if (path[1] == '~') {
        path++;
        path_bytes--;
    }
    if (!decode(path, path_bytes, place.path, sizeof place.path)) {
        return wrong(why, "a bad path", text);
    }
    /* One form: no slash at the end. */
    size_t used = strlen(place.path);
    while (used > 1 && place.path[used - 1] == '/') {
        place.path[--used] = '\0';
    }
    if (path[path_bytes] == '?') {
        status = parse_query(path + path_bytes + 1, &place, why, text);
        if (status) {
            return status;
        }
    }
    *out = place;
    return 0;
}

bool
fy_place_is_near(const struct fy_place *place)
{
    return strcmp(place->transport->scheme, "loopback") == 0;
}

bool
fy_place_same_host(const struct fy_place *a, const struct fy_place *b)
{
    if (a->transport != b->transport || strcmp(a->user, b->user) != 0 ||
        strcmp(a->host, b->host) != 0 || strcmp(a->port, b->port) != 0 ||
        strcmp(a->config, b->config) != 0 ||
        strcmp(a->command, b->command) != 0 ||
        strcmp(a->ferry, b->ferry) != 0 || a->noptions != b->noptions) {
        return false;
    }
    for (unsigned i = 0; i < a->noptions; i++) {
        if (strcmp(a->options[i], b->options[i]) != 0) {
            return false;
        }
    }
    return true;
}

void
fy_place_name(const struct fy_place *place, struct fy_buffer *out)
{
    fy_buffer_printf(out, "%s://", place->transport->scheme);
    if (*place->user) {
        fy_buffer_printf(out, "%s@", place->user);
    }
    bool brackets = strchr(place->host, ':');
    fy_buffer_printf(out, "%s%s%s", brackets ? "[" : "", place->host,
                     brackets ? "]" : "");
    if (*place->port) {
        fy_buffer_printf(out, ":%s", place->port);
    }
}

/* Characters that stand for themselves in a path and in a value. */
static void
write_escaped(const char *text, struct fy_buffer *out)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                     (c >= 'A' && c <= 'Z') || strchr("/._-+,:=@ ", c);
        if (plain) {
            fy_buffer_add_char(out, (char)c);
        } else {
            fy_buffer_printf(out, "%%%c%c", digits[c >> 4], digits[c & 15]);
        }
    }
}

static void
write_value(const char *key, const char *value, char *separator,
            struct fy_buffer *out)
{
    if (*value) {
        fy_buffer_printf(out, "%c%s", *separator, key);
        write_escaped(value, out);
        *separator = '&';
    }
}

void
fy_place_write(const struct fy_place *place, struct fy_buffer *out)
{
    char separator = '?';
    bool home = place->path[0] == '~', brackets = strchr(place->host, ':');
    fy_buffer_printf(out, "%s://", place->transport->scheme);
    write_escaped(place->user, out);
    fy_buffer_printf(out, "%s%s", *place->user ? "@" : "", brackets ? "[" : "");
    write_escaped(place->host, out);
    fy_buffer_printf(out, "%s%s%s%s", brackets ? "]" : "",
                     *place->port ? ":" : "", place->port, home ? "/~" : "");
    write_escaped(place->path + home, out);
    for (unsigned i = 0; i < place->noptions; i++) {
        write_value("option=", place->options[i], &separator, out);
    }
    write_value("config=", place->config, &separator, out);
    write_value("command=", place->command, &separator, out);
    write_value("ferry=", place->ferry, &separator, out);
}
