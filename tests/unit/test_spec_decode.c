/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/spec_decode.c by a message with one field of each kind: each kind of
 * field is given each type of item, and its bounds.
 */
#include "config.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "proxy/wire/specs.h"
#include "tests/unit/nomem.h"
#include "tests/unit/runner.h"

struct inner {
    uint16_t x;
};

/* Each value has others beside it, which must stay as they are. */
struct all {
    uint16_t before, small, behind;
    int32_t sign, sign_behind;
    uint64_t large;
    bool flag, flag_behind;
    double real;
    struct fy_bytes bytes, binary, *strings;
    uint32_t nstrings, nmaps;
    uint64_t limits[FY_SPEC_NLIMITS][2];
    unsigned char hash[FY_SPEC_HASH_BYTES + 1];
    struct inner map, *maps;
};

static const struct fy_spec_field inner_fields[] = {
    {"x", FY_SPEC_NUMBER, true, offsetof(struct inner, x), 2, 0, 0, 1000, NULL},
};
static const struct fy_spec_shape inner_shape = {"inner", inner_fields, 1,
                                                 sizeof(struct inner)};

#define AT(name) offsetof(struct all, name)
static const struct fy_spec_field fields[] = {
    {"small", FY_SPEC_NUMBER, false, AT(small), 2, 0, 0, 1000, NULL},
    {"sign", FY_SPEC_SIGNED, false, AT(sign), 4, 0, -20, 19, NULL},
    {"large", FY_SPEC_NUMBER, false, AT(large), 8, 0, 0, UINT64_MAX, NULL},
    {"flag", FY_SPEC_BOOLEAN, false, AT(flag), 1, 0, 0, 0, NULL},
    {"real", FY_SPEC_REAL, false, AT(real), 8, 0, 0, 0, NULL},
    {"bytes", FY_SPEC_BYTES, false, AT(bytes), 0, 0, 0, 0, NULL},
    {"binary", FY_SPEC_BINARY, false, AT(binary), 0, 0, 0, 0, NULL},
    {"strings", FY_SPEC_STRINGS, false, AT(strings), 0, AT(nstrings), 0, 0,
     NULL},
    {"limits", FY_SPEC_LIMITS, false, AT(limits), 0, 0, 0, 0, NULL},
    {"hash", FY_SPEC_HASH, false, AT(hash), 0, 0, 0, 0, NULL},
    {"map", FY_SPEC_MAP, false, AT(map), 0, 0, 0, 0, &inner_shape},
    {"maps", FY_SPEC_MAPS, false, AT(maps), 0, AT(nmaps), 0, 0, &inner_shape},
};
static const struct fy_spec_shape shape = {
    "all", fields, sizeof fields / sizeof *fields, sizeof(struct all)};

static char why[200];

static void
clear(struct all *to)
{
    free(to->strings);
    free(to->maps);
}

/* Decodes a copy that has no byte more, which AddressSanitizer watches; the strings
 * of *to lie in the copy, which is returned. */
static char *
decode(const char *message, size_t n, struct all *to, int expected)
{
    struct fy_buffer buffer;
    char *copy = malloc(n ? n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, message, n);
    memset(to, 0, sizeof *to);
    fy_buffer_start(&buffer, why, sizeof why);
    ck_assert_int_eq(fy_spec_decode(&shape, copy, n, to, &buffer), expected);
    return copy;
}

/* {field: item}; the copy that it was decoded from. */
static char *
decode_field(const char *field, const char *item, size_t n, struct all *to,
             const char *wrong)
{
    static char message[1024];
    size_t key = strlen(field);
    ck_assert_uint_lt(2 + key + n, sizeof message);
    message[0] = '\xa1';
    message[1] = (char)(0x60 + key);
    memcpy(message + 2, field, key);
    memcpy(message + 2 + key, item, n);
    char *copy =
        decode(message, 2 + key + n, to, wrong ? FY_ERR_INVALID : FY_OK);
    ck_assert_msg(strcmp(why, wrong ? wrong : "") == 0, "%s: %s", field, why);
    return copy;
}

static void
refused(const char *field, const char *item, size_t n, const char *wrong)
{
    struct all to;
    free(decode_field(field, item, n, &to, wrong));
    clear(&to);
}
#define REFUSED(field, item, wrong) refused(field, item, sizeof item - 1, wrong)
#define TAKEN(field, item, to) \
    free(decode_field(field, item, sizeof item - 1, to, NULL))

/* ---- each kind of field, each type of item ---- */

static const struct {
    char letter;
    const char *bytes;
    size_t n;
} items[] = {
#define ITEM(letter, bytes)             \
    {                                   \
        letter, bytes, sizeof bytes - 1 \
    }
    ITEM('n', "\x00"),
    ITEM('n', "\x18\x00"),
    ITEM('n', "\x19\x00\x00"),
    ITEM('n', "\x1a\0\0\0\0"),
    ITEM('n', "\x1b\0\0\0\0\0\0\0\0"),
    ITEM('-', "\x20"),
    ITEM('-', "\x38\x00"),
    ITEM('-', "\x39\x00\x00"),
    ITEM('-', "\x3a\0\0\0\0"),
    ITEM('-', "\x3b\0\0\0\0\0\0\0\0"),
    ITEM('b', "\x41x"),
    ITEM('t', "\x61x"),
    ITEM('a', "\x80"),
    ITEM('m', "\xa0"),
    ITEM('g', "\xc1\x00"),
    ITEM('f', "\xf9\x3c\x00"),
    ITEM('f', "\xfa\x3f\x80\x00\x00"),
    ITEM('f', "\xfb\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    ITEM('o', "\xf4"),
    ITEM('o', "\xf5"),
    ITEM('u', "\xf6"),
    ITEM('u', "\xf7"),
    ITEM('e', "\x5f\xff"),
    ITEM('e', "\x7f\xff"),
    ITEM('e', "\x9f\xff"),
    ITEM('e', "\xbf\xff"),
    ITEM('e', "\xff"),
    ITEM('c', "\xfc"),
};

/* Which letters of items a field takes, and what it says of others. */
static const struct {
    const char *field, *takes, *wrong;
} kinds[] = {
    {"small", "n", "all: small: must be an unsigned integer"},
    {"sign", "n-", "all: sign: must be an integer"},
    {"large", "n", "all: large: must be an unsigned integer"},
    {"flag", "o", "all: flag: must be a boolean"},
    {"real", "nf", "all: real: must be a number"},
    {"bytes", "b", "all: bytes: must be a byte string"},
    {"binary", "b", "all: binary: must be a byte string"},
    {"strings", "a", "all: strings: must be an array"},
    {"limits", "", "all: limits: must be an array"},
    {"hash", "", "all: hash: must be 32 bytes"},
    {"map", "", "inner: must be a map"},
    {"maps", "a", "all: maps: must be an array"},
    {"other", "n-btamgfou", ""},
};

START_TEST(each_kind_takes_its_types)
{
    const char *field = kinds[_i].field;
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        char wrong[100];
        const char *what = items[i].letter == 'e'   ? "of indefinite length"
                           : items[i].letter == 'c' ? "not CBOR"
                                                    : NULL;
        bool of_map = strcmp(field, "map") == 0;
        if (strchr(kinds[_i].takes, items[i].letter)) {
            refused(field, items[i].bytes, items[i].n, NULL);
        } else if (what) {
            (void)snprintf(wrong, sizeof wrong, "%s%s: %s",
                           of_map ? "inner" : "all: ", of_map ? "" : field,
                           what);
            refused(field, items[i].bytes, items[i].n, wrong);
        } else if (of_map && items[i].letter == 'm') {
            refused(field, items[i].bytes, items[i].n, "inner: x: is missing");
        } else if (strcmp(field, "limits") == 0 && items[i].letter == 'a') {
            refused(field, items[i].bytes, items[i].n,
                    "all: limits: must be 16 pairs");
        } else {
            refused(field, items[i].bytes, items[i].n, kinds[_i].wrong);
        }
    }
}
END_TEST

/* ---- bounds ---- */

START_TEST(numbers_have_bounds)
{
    struct all to;
    TAKEN("small", "\x19\x03\xe8", &to);
    ck_assert(to.before == 0 && to.small == 1000 && to.behind == 0);
    REFUSED("small", "\x19\x03\xe9", "all: small: is too large");
    REFUSED("small", "\x1a\x00\x01\x00\x00", "all: small: is too large");
    TAKEN("sign", "\x13", &to);
    ck_assert(to.sign == 19 && to.sign_behind == 0);
    TAKEN("sign", "\x33", &to);
    ck_assert(to.sign == -20 && to.sign_behind == 0);
    TAKEN("sign", "\x20", &to);
    ck_assert_int_eq(to.sign, -1);
    REFUSED("sign", "\x14", "all: sign: is out of range");
    REFUSED("sign", "\x34", "all: sign: is out of range");
    REFUSED("sign", "\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
            "all: sign: is out of range");
    REFUSED("sign", "\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            "all: sign: is out of range");
    REFUSED("sign", "\x3b\x80\x00\x00\x00\x00\x00\x00\x00",
            "all: sign: is out of range");
    REFUSED("sign", "\x3b\x7f\xff\xff\xff\xff\xff\xff\xff",
            "all: sign: is out of range");
    TAKEN("large", "\x1b\xff\xff\xff\xff\xff\xff\xff\xfe", &to);
    ck_assert_uint_eq(to.large, UINT64_MAX - 1);
    TAKEN("flag", "\xf5", &to);
    ck_assert(to.flag && !to.flag_behind);
}
END_TEST

/* A value is stored in the bytes of its field, and in no others. */
START_TEST(a_value_has_the_bytes_of_its_field)
{
    static const struct {
        const char *message;
        size_t at, bytes;
    } rows[] = {
        {"\xa1\x65small\x05", AT(small), 2},
        {"\xa1\x64sign\x05", AT(sign), 4},
        {"\xa1\x65large\x05", AT(large), 8},
        {"\xa1\x64"
         "flag\xf5",
         AT(flag), 1},
        {"\xa1\x64real\x05", AT(real), 8},
        {"\xa1\x63map\xa1\x61x\x05", AT(map), 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char copy[32], to[sizeof(struct all)];
        struct fy_buffer buffer;
        memset(to, 0x55, sizeof to);
        strcpy(copy, rows[i].message);
        fy_buffer_start(&buffer, why, sizeof why);
        ck_assert_int_eq(
            fy_spec_decode(&shape, copy, strlen(copy), to, &buffer), FY_OK);
        for (size_t at = 0; at < sizeof to; at++) {
            bool is_its = at >= rows[i].at && at < rows[i].at + rows[i].bytes;
            ck_assert_msg((to[at] == 0x55) != is_its, "row %zu, byte %zu", i,
                          at);
        }
    }
}
END_TEST

START_TEST(reals_are_finite_and_not_negative)
{
    static const char wrong[] = "all: real: must be finite and not negative";
    struct all to;
    TAKEN("real", "\x05", &to);
    ck_assert(to.real == 5);
    TAKEN("real", "\xf9\x3e\x00", &to);
    ck_assert(to.real == 1.5);
    TAKEN("real", "\xfa\x3f\xc0\x00\x00", &to);
    ck_assert(to.real == 1.5);
    TAKEN("real", "\xf9\x00\x00", &to);
    ck_assert(to.real == 0);
    REFUSED("real", "\xf9\xbe\x00", wrong);
    REFUSED("real", "\xf9\x7c\x00", wrong);
    REFUSED("real", "\xf9\x7e\x00", wrong);
    REFUSED("real", "\xf9\xfc\x00", wrong);
}
END_TEST

START_TEST(strings_are_whole)
{
    struct all to;
    char *copy = decode_field("bytes",
                              "\x43"
                              "abc",
                              4, &to, NULL);
    ck_assert(to.bytes.n == 3 && strcmp(to.bytes.at, "abc") == 0);
    free(copy);
    copy = decode_field("binary",
                        "\x42"
                        "a\0",
                        3, &to, NULL);
    ck_assert(to.binary.n == 2 && memcmp(to.binary.at, "a\0", 3) == 0);
    free(copy);
    copy = decode_field("strings", "\x82\x41x\x40", 4, &to, NULL);
    ck_assert_uint_eq(to.nstrings, 2);
    ck_assert(to.strings[0].n == 1 && strcmp(to.strings[0].at, "x") == 0);
    ck_assert(to.strings[1].n == 0 && strcmp(to.strings[1].at, "") == 0);
    clear(&to);
    free(copy);
    TAKEN("strings", "\x80", &to);
    ck_assert(to.nstrings == 0 && !to.strings);
    REFUSED("bytes", "\x41\0", "all: bytes: holds a NUL");
    REFUSED("strings", "\x82\x40\x41\0", "all: strings: holds a NUL");
    REFUSED("strings", "\x82\x40\x61x", "all: strings: must be a byte string");
    REFUSED("strings", "\x82\x40", "all: strings: longer than the message");
    REFUSED("bytes", "\x42x", "all: bytes: longer than the message");
}
END_TEST

/* 16 pairs and one of them spoilt. */
static void
limits_but(size_t at, const char *item, size_t n, const char *wrong)
{
    char bytes[200] = "\x90", *end = bytes + 1;
    for (size_t i = 0; i < FY_SPEC_NLIMITS; i++) {
        if (i == at) {
            memcpy(end, item, n);
            end += n;
            continue;
        }
        *end++ = '\x82';
        *end++ = (char)i;
        *end++ = (char)(i + 1);
    }
    struct all to;
    free(decode_field("limits", bytes, (size_t)(end - bytes), &to, wrong));
    for (size_t i = 0; i < FY_SPEC_NLIMITS && !wrong; i++) {
        ck_assert(to.limits[i][0] == i && to.limits[i][1] == i + 1);
    }
}

START_TEST(limits_are_16_pairs)
{
    static const char pairs[] = "all: limits: must be 16 pairs",
                      numbers[] = "all: limits: must be unsigned integers";
    char many[1 + 17 * 3] = "\x91";
    limits_but(16, "", 0, NULL);
    limits_but(3, "\x81\x01", 2, pairs);
    limits_but(3, "\x83\x01\x01\x01", 4, pairs);
    limits_but(15, "\x02", 1, pairs);
    limits_but(0, "\xa2\x01\x01\x01\x01", 5, pairs);
    limits_but(0, "\x82\x20\x01", 3, numbers);
    limits_but(15, "\x82\x01\x41x", 4, numbers);
    limits_but(5, "\xff", 1, "all: limits: of indefinite length");
    limits_but(5, "\x82\xff", 2, "all: limits: of indefinite length");
    for (size_t i = 0; i < 17; i++) {
        memcpy(many + 1 + 3 * i, "\x82\x01\x01", 3);
    }
    refused("limits", many, sizeof many, pairs);
    many[0] = '\x8f';
    refused("limits", many, sizeof many - 6, pairs);
}
END_TEST

START_TEST(hashes_have_32_bytes)
{
    char item[2 + 33] = "\x58\x20";
    struct all to;
    memset(item + 2, 'h', 33);
    free(decode_field("hash", item, 34, &to, NULL));
    ck_assert(to.hash[0] == 'h' && to.hash[31] == 'h' && to.hash[32] == 0);
    item[1] = '\x1f';
    refused("hash", item, 33, "all: hash: must be 32 bytes");
    item[1] = '\x21';
    refused("hash", item, 35, "all: hash: must be 32 bytes");
    item[0] = '\x78';
    item[1] = '\x20';
    refused("hash", item, 34, "all: hash: must be 32 bytes");
}
END_TEST

START_TEST(maps_are_whole)
{
    struct all to;
    TAKEN("map", "\xa1\x61x\x07", &to);
    ck_assert_uint_eq(to.map.x, 7);
    free(decode_field("maps", "\x82\xa1\x61x\x07\xa1\x61x\x08", 9, &to, NULL));
    ck_assert_uint_eq(to.nmaps, 2);
    ck_assert(to.maps[0].x == 7 && to.maps[1].x == 8);
    clear(&to);
    TAKEN("maps", "\x80", &to);
    ck_assert(to.nmaps == 0 && !to.maps);
    REFUSED("maps", "\x82\xa1\x61x\x07\xa0", "inner: x: is missing");
    REFUSED("maps", "\x82\xa1\x61x\x07\x05", "inner: must be a map");
    REFUSED("maps", "\x81\xa2\x61x\x07\x61x\x07", "inner: x: is there twice");
}
END_TEST

/* ---- keys ---- */

START_TEST(a_key_is_all_of_a_name)
{
    struct all to;
    TAKEN("smal", "\x05", &to);
    ck_assert_uint_eq(to.small, 0);
    TAKEN("smallx", "\x05", &to);
    ck_assert_uint_eq(to.small, 0);
    TAKEN("", "\x05", &to);
    REFUSED("!", "\x05", "all: !: is required and not known here");
    /* Known keys behind one that is not: all of that was passed over. */
    free(decode("\xa2\x61y\x82\xa1\x01\x41z\xc1\x80\x65small\x05", 17, &to, 0));
    ck_assert_uint_eq(to.small, 5);
    refused("x\x1f \x7e\x7f\xff", "\xfc", 1, "all: x? ~??: not CBOR");
}
END_TEST

/* A key that is not known is shown up to 40 bytes of it. */
START_TEST(a_long_key_is_cut)
{
    for (size_t n = 39; n <= 41; n++) {
        char message[64] = "\xa1\x78", expected[64] = "all: ";
        struct all to;
        message[2] = (char)n;
        memset(message + 3, 'k', n);
        message[3 + n] = '\xfc';
        memset(expected + 5, 'k', n > 40 ? 40 : n);
        strcat(expected, ": not CBOR");
        free(decode(message, 4 + n, &to, FY_ERR_INVALID));
        ck_assert_str_eq(why, expected);
    }
}
END_TEST

/* What nobody knows may be nested 16 deep. */
START_TEST(depth_is_bounded)
{
    static const char inward[][2] = {"\x81", "\xa1", "\xc1"};
    for (size_t kind = 0; kind < 3; kind++) {
        for (size_t depth = 14; depth <= 17; depth++) {
            char item[64];
            size_t n = 0;
            for (size_t i = 0; i < depth; i++) {
                item[n++] = inward[kind][0];
                if (kind == 1) {
                    item[n++] = '\x01'; /* a map's key */
                }
            }
            item[n++] = '\x01';
            refused("y", item, n,
                    depth <= 15 ? NULL : "all: y: nested too deeply");
        }
    }
    /* Nothing is in the last of them. */
    REFUSED("y",
            "\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x81\x80",
            NULL);
}
END_TEST

/* ---- sizes ---- */

/* {field: [item, item, ...]} of so many. */
static void
many(const char *field, const char *item, size_t item_bytes, size_t count,
     const char *wrong)
{
    size_t key = strlen(field), n = 7 + key;
    char *message = malloc(n + count * item_bytes);
    struct all to;
    ck_assert_ptr_nonnull(message);
    message[0] = '\xa1';
    message[1] = (char)(0x60 + key);
    memcpy(message + 2, field, key);
    message[2 + key] = '\x9a';
    for (size_t i = 0; i < 4; i++) {
        message[3 + key + i] = (char)(count >> (24 - 8 * i));
    }
    for (size_t i = 0; i < count; i++, n += item_bytes) {
        memcpy(message + n, item, item_bytes);
    }
    free(decode(message, n, &to, wrong ? FY_ERR_INVALID : FY_OK));
    ck_assert_str_eq(why, wrong ? wrong : "");
    clear(&to);
    free(message);
}

START_TEST(sizes_have_bounds)
{
    many("strings", "\x40", 1, FY_SPEC_MAX_STRINGS, NULL);
    many("strings", "\x40", 1, FY_SPEC_MAX_STRINGS + 1,
         "all: strings: too many");
    many("maps", "\xa1\x61x\x07", 4, FY_SPEC_MAX_STRINGS, NULL);
    many("maps", "\xa1\x61x\x07", 4, FY_SPEC_MAX_STRINGS + 1,
         "all: maps: too many");
    char *large = calloc(1, FY_SPEC_MAX_BYTES + 1);
    static const char head[] = "\xa1\x61y\x5a\x00";
    struct all to;
    ck_assert_ptr_nonnull(large);
    for (unsigned over = 0; over < 2; over++) {
        size_t n = FY_SPEC_MAX_BYTES + over, text = n - 8;
        memcpy(large, head, sizeof head - 1);
        large[5] = (char)(text >> 16);
        large[6] = (char)(text >> 8);
        large[7] = (char)text;
        free(decode(large, n, &to, over ? FY_ERR_INVALID : FY_OK));
        ck_assert_str_eq(why, over ? "all: is too long" : "");
    }
    free(large);
    /* Elements take a byte each, a map's two: more cannot be there. */
    REFUSED("y", "\x82\x01", "all: y: longer than the message");
    REFUSED("y", "\x82\x01\x01", NULL);
    REFUSED("y", "\xa1\x01", "all: y: longer than the message");
    REFUSED("y", "\xa1\x01\x01", NULL);
    REFUSED("y", "\xa2\x01\x01\x01", "all: y: longer than the message");
    REFUSED("small", "\x05\x05", "all: something follows");
}
END_TEST

/* Each allocation fails once: the message is not called wrong. */
START_TEST(no_memory_is_told)
{
    static const char message[] =
        "\xa2\x67strings\x82\x41x\x41y\x64maps\x82\xa1\x61x\x07\xa1\x61x\x08";
    for (unsigned at = 1; at <= 3; at++) {
        char copy[sizeof message];
        struct fy_buffer buffer;
        struct all to = {0};
        memcpy(copy, message, sizeof copy);
        fy_buffer_start(&buffer, why, sizeof why);
        nomem_at(at);
        int status =
            fy_spec_decode(&shape, copy, sizeof copy - 1, &to, &buffer);
        ck_assert_int_eq(nomem_reached(), at < 3);
        ck_assert_int_eq(status, at < 3 ? FY_ERR_NOMEM : FY_OK);
        clear(&to);
    }
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("spec_decode");
    TCase *tcase = tcase_create("spec_decode");
    tcase_add_loop_test(tcase, each_kind_takes_its_types, 0,
                        sizeof kinds / sizeof *kinds);
    tcase_add_test(tcase, numbers_have_bounds);
    tcase_add_test(tcase, a_value_has_the_bytes_of_its_field);
    tcase_add_test(tcase, reals_are_finite_and_not_negative);
    tcase_add_test(tcase, strings_are_whole);
    tcase_add_test(tcase, limits_are_16_pairs);
    tcase_add_test(tcase, hashes_have_32_bytes);
    tcase_add_test(tcase, maps_are_whole);
    tcase_add_test(tcase, a_key_is_all_of_a_name);
    tcase_add_test(tcase, a_long_key_is_cut);
    tcase_add_test(tcase, depth_is_bounded);
    tcase_add_test(tcase, sizes_have_bounds);
    tcase_add_test(tcase, no_memory_is_told);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
