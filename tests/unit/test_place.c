/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/place.c, proxy/wire/transport.c, proxy/wire/transport_ssh.c: texts of places, the words of
 * ssh's command line, a child's first line and its last words.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proxy/wire/transport.h"
#include "proxy/wire/transports.h"
#include "tests/patience.h"
#include "tests/unit/runner.h"

START_TEST(test_good_places)
{
    static const struct {
        const char *text, *name, *path;
    } rows[] = {
        {"ssh://host/", "ssh://host", "/"},
        {"ssh://host/data/", "ssh://host", "/data"},
        {"ssh://me@host:2222/a%20b", "ssh://me@host:2222", "/a b"},
        {"ssh://[fe80::1%25eth0]:22/x", "ssh://[fe80::1%eth0]:22", "/x"},
        {"ssh://h/~", "ssh://h", "~"},
        {"ssh://h/~/x/", "ssh://h", "~/x"},
        {"ssh://h/a%3Fb?option=Port=7&ferry=/f", "ssh://h", "/a?b"},
        {"loopback:///srv/data", "loopback://", "/srv/data"},
        {"tls://host:443/x", "tls://host:443", "/x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_place place;
        char text[512], said[512];
        struct fy_buffer name, why;
        fy_buffer_start(&name, text, sizeof text);
        fy_buffer_start(&why, said, sizeof said);
        ck_assert_msg(fy_place_parse(rows[i].text, &place, &why) == 0, "%s: %s",
                      rows[i].text, said);
        fy_place_name(&place, &name);
        ck_assert_str_eq(text, rows[i].name);
        ck_assert_str_eq(place.path, rows[i].path);
    }
}
END_TEST

/* What is written is read as the same place. */
START_TEST(test_written_places)
{
    static const char *const rows[] = {
        "ssh://host/",
        "ssh://me@[fe80::1%25eth0]:22/a%20b%3F%26%23c",
        "ssh://h/~",
        "ssh://h/~/x%25",
        "ssh://h/%7E/x",
        "ssh://h/x?option=IdentityFile=/k%26&option=Port=7&config=/c%20d"
        "&command=ssh%20-x&ferry=~/f",
        "loopback:///srv/%C3%A4%0A",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_place place, again;
        char text[1024];
        struct fy_buffer written;
        fy_buffer_start(&written, text, sizeof text);
        ck_assert_int_eq(fy_place_parse(rows[i], &place, NULL), 0);
        fy_place_write(&place, &written);
        ck_assert_msg(fy_place_parse(text, &again, NULL) == 0, "%s", text);
        ck_assert_str_eq(again.path, place.path);
        ck_assert_msg(fy_place_same_host(&again, &place), "%s", text);
    }
}
END_TEST

START_TEST(test_bad_places)
{
    static const char *const rows[] = {
        "",
        "host:/path",
        "ssh:/host/x",
        "http://host/x",
        "ssh://host",
        "ssh://host?x",
        "ssh:///x",
        "ssh://-oProxyCommand=evil/x",
        "ssh://%2doProxyCommand=evil/x",
        "ssh://a@-host/x",
        "ssh://-l@host/x",
        "ssh://@host/x",
        "ssh://ho st/x",
        "ssh://host:/x",
        "ssh://host:0/x",
        "ssh://host:65536/x",
        "ssh://host:22x/x",
        "ssh://[::1/x",
        "ssh://[::1]22/x",
        "ssh://host/x%",
        "ssh://host/x%0",
        "ssh://host/x%00",
        "ssh://host/x%zz",
        "ssh://host/~root/x",
        "ssh://host/x?what=1",
        "ssh://host/x?option",
        "ssh://host/x?option=",
        "ssh://host/x?option=Port",
        "ssh://host/x?option=-v%20x",
        "ssh://host/x?option=A=1%0AProxyCommand=evil",
        "ssh://host/x?ferry=/a'b",
        "ssh://host/x?ferry=/a%20b",
        "ssh://host/x?ferry=-x",
        "loopback://host/x",
        "ssh://host/x?option=A=1&option=A=1&option=A=1&option=A=1&option=A=1"
        "&option=A=1&option=A=1&option=A=1&option=A=1",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fy_place place;
        char said[512];
        struct fy_buffer why;
        fy_buffer_start(&why, said, sizeof said);
        ck_assert_msg(fy_place_parse(rows[i], &place, &why) == FY_ERR_INVALID,
                      "%s", rows[i]);
        ck_assert_msg(why.used > 0, "%s", rows[i]);
    }
    char *longer = malloc(3 * PATH_MAX);
    memset(longer, 'a', 3 * PATH_MAX);
    longer[3 * PATH_MAX - 1] = '\0';
    memcpy(longer, "ssh://h/", 8);
    struct fy_place place;
    ck_assert_int_eq(fy_place_parse(longer, &place, NULL), FY_ERR_INVALID);
    memcpy(longer, "ssh://hhh", 8);
    strcpy(longer + 1000, "/x");
    ck_assert_int_eq(fy_place_parse(longer, &place, NULL), FY_ERR_INVALID);
    free(longer);
}
END_TEST

START_TEST(test_same_host)
{
    struct fy_place a, b;
    ck_assert_int_eq(fy_place_parse("ssh://u@h:1/a?option=A=1", &a, NULL), 0);
    ck_assert_int_eq(fy_place_parse("ssh://u@h:1/b?option=A=1", &b, NULL), 0);
    ck_assert(fy_place_same_host(&a, &b));
    static const char *const others[] = {"ssh://u@h:2/a?option=A=1",
                                         "ssh://v@h:1/a?option=A=1",
                                         "ssh://u@i:1/a?option=A=1",
                                         "ssh://u@h:1/a?option=A=2",
                                         "ssh://u@h:1/a",
                                         "tls://u@h:1/a?option=A=1",
                                         "ssh://u@h:1/a?option=A=1&ferry=/f"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_int_eq(fy_place_parse(others[i], &b, NULL), 0);
        ck_assert_msg(!fy_place_same_host(&a, &b), "%s", others[i]);
    }
}
END_TEST

/* Position of a word in the command line, or -1. */
static int
find(const struct fy_ssh_words *words, const char *word)
{
    for (unsigned i = 0; i < words->argc; i++) {
        if (strcmp(words->argv[i], word) == 0) {
            return (int)i;
        }
    }
    return -1;
}

START_TEST(test_ssh_words)
{
    struct fy_place place;
    struct fy_ssh_words words;
    ck_assert_int_eq(
        fy_place_parse("ssh://me@host:2222/x?option=ConnectTimeout=3"
                       "&option=BatchMode=no&config=/c&ferry=~/f/ferry",
                       &place, NULL),
        0);
    ck_assert_int_eq(fy_ssh_words(&place, NULL, &words, NULL), 0);
    ck_assert_str_eq(words.argv[0], "ssh");
    ck_assert_ptr_null(words.argv[words.argc]);
    /* ssh takes the first value: ours where it must be so, else the user's. */
    ck_assert_int_lt(find(&words, "BatchMode=yes"),
                     find(&words, "BatchMode=no"));
    ck_assert_int_ge(find(&words, "BatchMode=yes"), 0);
    ck_assert_int_lt(find(&words, "ConnectTimeout=3"),
                     find(&words, "ConnectTimeout=10"));
    ck_assert_int_ge(find(&words, "ConnectTimeout=3"), 0);
    ck_assert_str_eq(words.argv[find(&words, "-p") + 1], "2222");
    ck_assert_str_eq(words.argv[find(&words, "-l") + 1], "me");
    ck_assert_str_eq(words.argv[find(&words, "-F") + 1], "/c");
    ck_assert_int_eq(find(&words, "--"), (int)words.argc - 3);
    ck_assert_str_eq(words.argv[words.argc - 2], "host");
    ck_assert_ptr_nonnull(strstr(words.script, "f=\"$HOME\"/f/ferry;"));

    ck_assert_int_eq(
        fy_place_parse("ssh://h/x?command=ssh%20-i%20/k", &place, NULL), 0);
    ck_assert_int_eq(fy_ssh_words(&place, NULL, &words, NULL), 0);
    ck_assert_str_eq(words.argv[2], "/k");
    ck_assert_int_eq(
        fy_place_parse("ssh://h/x?command=ssh%20$(evil)", &place, NULL), 0);
    ck_assert_int_eq(fy_ssh_words(&place, NULL, &words, NULL), FY_ERR_INVALID);
}
END_TEST

/* Waits for the greeting of `sh -c script' as a proxy would be waited for. */
static int
greet(const char *script, struct fy_link *link, struct fy_buffer *why)
{
    char path[] = "/tmp/ferry-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *file = fdopen(fd, "w");
    fprintf(file, "#!/bin/sh\n%s\n", script);
    fchmod(fd, 0700);
    fclose(file);
    struct fy_place place;
    ck_assert_int_eq(fy_place_parse("loopback:///x", &place, NULL), 0);
    ck_assert_int_eq(fy_link_open(&place, path, why, link), 0);
    int status;
    while ((status = fy_link_greet(link, why)) == FY_ERR_BUSY) {
        struct pollfd readable = {.fd = link->in, .events = POLLIN};
        ck_assert_int_eq(poll(&readable, 1, (int)patient(60000)), 1);
    }
    unlink(path);
    return status;
}

START_TEST(test_greeting)
{
    char said[512], rest[8] = "";
    struct fy_buffer why;
    struct fy_link link;
    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(greet("echo Welcome; printf 'fferry-proxy 1\\nferry-"
                           "ferry-proxy 3\\nwire'; cat >/dev/null",
                           &link, &why),
                     0);
    struct pollfd readable = {.fd = link.in, .events = POLLIN};
    ck_assert_int_eq(poll(&readable, 1, (int)patient(60000)), 1);
    ck_assert_int_eq(read(link.in, rest, sizeof rest), 4);
    ck_assert_str_eq(rest, "wire");
    fy_link_close(&link, 10000);
    ck_assert_int_eq(link.pid, 0);

    ck_assert_int_eq(greet("echo first >&2; echo 'last \033[1m words' >&2; "
                           "echo >&2; exit 255",
                           &link, &why),
                     FY_ERR_IO);
    ck_assert_str_eq(said, "last ?[1m words");
    fy_link_close(&link, 10000);

    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(greet("exit 0", &link, &why), FY_ERR_IO);
    ck_assert_str_eq(said, "the connection ended at once");
    fy_link_close(&link, 10000);

    /* At once: it waits for what the session sends. */
    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(
        greet("printf 'ferry-proxy 1\\n'; cat >/dev/null", &link, &why),
        FY_ERR_IO);
    ck_assert_str_eq(said, "the ferry there speaks protocol 1, this one 3");
    fy_link_close(&link, 10000);

    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(greet("exec yes", &link, &why), FY_ERR_IO);
    ck_assert_ptr_nonnull(strstr(said, "no ferry proxy"));
    /* It does not read, so it does not see that we went: killed. */
    fy_link_close(&link, 100);
    ck_assert_int_eq(link.pid, 0);
}
END_TEST

START_TEST(test_own_session)
{
    struct fy_link link;
    ck_assert_int_eq(
        greet("printf 'ferry-proxy 3\\n'; cat >/dev/null", &link, NULL), 0);
    ck_assert_int_eq(getsid(link.pid), link.pid);
    fy_link_close(&link, 10000);
}
END_TEST

START_TEST(test_missing_program)
{
    struct fy_place place;
    struct fy_link link;
    char said[512];
    struct fy_buffer why;
    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(fy_place_parse("loopback:///x", &place, NULL), 0);
    ck_assert_int_eq(fy_link_open(&place, "/no/such/ferry", &why, &link), 0);
    struct pollfd readable = {.fd = link.in, .events = POLLIN};
    ck_assert_int_eq(poll(&readable, 1, (int)patient(60000)), 1);
    ck_assert_int_eq(fy_link_greet(&link, &why), FY_ERR_IO);
    ck_assert_str_eq(said, "/no/such/ferry: No such file or directory");
    fy_link_close(&link, 1000);

    fy_buffer_start(&why, said, sizeof said);
    ck_assert_int_eq(fy_place_parse("tls://h/x", &place, NULL), 0);
    ck_assert_int_eq(fy_link_open(&place, "x", &why, &link),
                     FY_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(said, "tls://"));
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("place");
    TCase *tests = tcase_create("place");
    tcase_add_test(tests, test_good_places);
    tcase_add_test(tests, test_written_places);
    tcase_add_test(tests, test_bad_places);
    tcase_add_test(tests, test_same_host);
    tcase_add_test(tests, test_ssh_words);
    tcase_add_test(tests, test_greeting);
    tcase_add_test(tests, test_own_session);
    tcase_add_test(tests, test_missing_program);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
