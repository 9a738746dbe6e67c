/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy/wire/spec.c: what is encoded comes back, and what nobody should send is
 * refused with the name of the key that is wrong.
 */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "proxy/wire/spec.h"
#include "tests/unit/runner.h"

static struct fy_bytes
text(const char *at)
{
    return (struct fy_bytes){at, strlen(at)};
}

static void
is_text(struct fy_bytes bytes, const char *expected)
{
    ck_assert_uint_eq(bytes.n, strlen(expected));
    ck_assert_str_eq(bytes.at, expected); /* a NUL follows */
}

static char *
exact(const void *bytes, size_t n)
{
    char *copy = malloc(n ? n : 1); /* no byte more: ASan watches */
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, n);
    return copy;
}

/* ---- there and back ---- */

static struct fy_bytes argv[] = {{"sort", 4}, {"-k\xff", 3}, {"", 0}};
static struct fy_bytes env[] = {{"LC_ALL=C", 8}, {"ODD", 3}};
static struct fy_config_hash configs[] = {
    {{"/etc/x", 6}, {1, 2, 3}, UINT64_MAX, 7},
    {.path = {"/etc/y", 6}},
};

static struct fy_stage_spec
stage(void)
{
    struct fy_stage_spec spec = {
        .stage = UINT64_MAX,
        .tool = {{"/usr/bin/sort", 13}, {"a\0b", 3}},
        .argc = 3,
        .envc = 2,
        .argv = argv,
        .env = env,
        .mount = text("/mnt/data"),
        .root = text("/srv/data"),
        .cwd = text("/mnt/data/sub"),
        .umask = 077,
        .nice = -7,
        .ignored = UINT64_C(1) << 12,
        .rows = 50,
        .columns = 132,
        .in = {.kind = FY_STREAM_FILE,
               .path = text("/mnt/data/in"),
               .offset = 1234567890123,
               .flags = 02000,
               .inode = 77},
        .out = {.kind = FY_STREAM_WIRE},
        .err = {.kind = FY_STREAM_SAME},
        .copies = 4,
        .compress = true,
        .configs = configs,
        .nconfigs = 2,
    };
    for (unsigned i = 0; i < 16; i++) {
        spec.limits[i][0] = i;
        spec.limits[i][1] = UINT64_MAX;
    }
    return spec;
}

START_TEST(a_stage_comes_back)
{
    struct fy_stage_spec spec = stage(), back;
    char *bytes = NULL, why[200];
    size_t n = 0;
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, why, sizeof why);
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    char *copy = exact(bytes, n);
    ck_assert_int_eq(fy_stage_spec_decode(copy, n, &back, &buffer), 0);
    ck_assert_str_eq(why, "");
    ck_assert_uint_eq(back.stage, UINT64_MAX);
    is_text(back.tool.path, "/usr/bin/sort");
    ck_assert_uint_eq(back.tool.identity.n, 3);
    ck_assert_mem_eq(back.tool.identity.at, "a\0b", 4);
    ck_assert_uint_eq(back.argc, 3);
    is_text(back.argv[0], "sort");
    is_text(back.argv[1], "-k\xff");
    is_text(back.argv[2], "");
    ck_assert_uint_eq(back.envc, 2);
    is_text(back.env[0], "LC_ALL=C");
    is_text(back.env[1], "ODD");
    is_text(back.mount, "/mnt/data");
    is_text(back.root, "/srv/data");
    is_text(back.cwd, "/mnt/data/sub");
    ck_assert_uint_eq(back.umask, 077);
    ck_assert_int_eq(back.nice, -7);
    ck_assert_uint_eq(back.ignored, spec.ignored);
    ck_assert_mem_eq(back.limits, spec.limits, sizeof spec.limits);
    ck_assert_uint_eq(back.rows, 50);
    ck_assert_uint_eq(back.columns, 132);
    ck_assert_int_eq(back.in.kind, FY_STREAM_FILE);
    is_text(back.in.path, "/mnt/data/in");
    ck_assert_int_eq(back.in.offset, 1234567890123);
    ck_assert_uint_eq(back.in.flags, 02000);
    ck_assert_uint_eq(back.in.inode, 77);
    ck_assert_int_eq(back.out.kind, FY_STREAM_WIRE);
    ck_assert_int_eq(back.err.kind, FY_STREAM_SAME);
    ck_assert_uint_eq(back.copies, 4);
    ck_assert(back.compress);
    ck_assert_uint_eq(back.nconfigs, 2);
    is_text(back.configs[1].path, "/etc/y");
    ck_assert_mem_eq(back.configs[0].sha256, configs[0].sha256, 32);
    ck_assert_uint_eq(back.configs[0].inode, UINT64_MAX);
    ck_assert_uint_eq(back.configs[0].changed, 7);
    ck_assert_uint_eq(back.configs[1].inode, 0);
    fy_stage_spec_clear(&back);
    free(copy);

    /* Cut anywhere, it is refused. */
    for (size_t cut = 0; cut < n; cut++) {
        copy = exact(bytes, cut);
        ck_assert_int_eq(fy_stage_spec_decode(copy, cut, &back, NULL),
                         FY_ERR_INVALID);
        free(copy);
    }
    free(bytes);
}
END_TEST

/* A proxy that does not know what it must not do refuses, and no other. */
START_TEST(what_must_be_known_says_so)
{
    struct fy_stage_spec spec = stage(), back;
    char *bytes = NULL;
    size_t n = 0;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    ck_assert_ptr_null(memmem(bytes, n, "hides-links", 11));
    ck_assert_ptr_null(memmem(bytes, n, "masks", 5));
    ck_assert_ptr_null(memmem(bytes, n, "keeps-names", 11));
    ck_assert_ptr_null(memmem(bytes, n, "outputs", 7));
    ck_assert_ptr_null(memmem(bytes, n, "exported", 8));
    free(bytes);
    struct fy_bytes output = text("/mnt/d/out");
    spec.hides_links = spec.masks = spec.keeps_names = true;
    spec.exported = FY_EXPORTED_FOUND;
    spec.outputs = &output;
    spec.noutputs = 1;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    ck_assert_ptr_nonnull(memmem(bytes, n, "!hides-links", 12));
    ck_assert_ptr_nonnull(memmem(bytes, n, "!masks", 6));
    ck_assert_ptr_nonnull(memmem(bytes, n, "!exported", 9));
    ck_assert_int_eq(fy_stage_spec_decode(bytes, n, &back, NULL), 0);
    ck_assert_ptr_nonnull(memmem(bytes, n, "!outputs", 8));
    ck_assert(back.hides_links && back.masks && back.keeps_names);
    ck_assert_uint_eq(back.exported, FY_EXPORTED_FOUND);
    ck_assert_uint_eq(back.noutputs, 1);
    is_text(back.outputs[0], "/mnt/d/out");
    fy_stage_spec_clear(&back);
    free(bytes);
}
END_TEST

START_TEST(groups_are_a_set)
{
    static gid_t mine[1 + 65536];
    gid_t one[] = {7, 1000, 7, 0}, same[] = {1000, 0, 7}, other[] = {1000, 7};
    unsigned char hash[32], again[32];
    fy_groups_hash(one, 4, hash);
    fy_groups_hash(same, 3, again);
    ck_assert_mem_eq(hash, again, sizeof hash);
    fy_groups_hash(other, 2, again);
    ck_assert_mem_ne(hash, again, sizeof hash);
    ck_assert_int_eq(fy_groups_own(again), 0);
    int n = getgroups(65536, mine + 1);
    mine[0] = getegid();
    fy_groups_hash(mine, (size_t)n + 1, hash);
    ck_assert_mem_eq(hash, again, sizeof hash);
}
END_TEST

START_TEST(the_others_come_back)
{
    struct fy_hello hello = {.version = 1,
                             .ferry = text("0.1.0"),
                             .uid = 1000,
                             .gid = UINT32_MAX,
                             .groups = {9, 8, 7},
                             .cores = 64,
                             .load = 0.25,
                             .spaces = true,
                             .landlock = 2,
                             .filter = true};
    struct fy_hello hello_back;
    char *bytes = NULL;
    size_t n = 0;
    ck_assert_int_eq(fy_hello_encode(&hello, &bytes, &n), 0);
    ck_assert_int_eq(fy_hello_decode(bytes, n, &hello_back, NULL), 0);
    is_text(hello_back.ferry, "0.1.0");
    ck_assert(hello_back.filter);
    ck_assert_uint_eq(hello_back.gid, UINT32_MAX);
    ck_assert_mem_eq(hello_back.groups, hello.groups, sizeof hello.groups);
    ck_assert_double_eq(hello_back.load, 0.25);
    ck_assert(hello_back.spaces);
    free(bytes);

    struct fy_bytes paths[] = {text("a"), text("b c")};
    struct fy_probe probe = {.mount = text("/m"),
                             .root = text("/r"),
                             .cwd = text("/m/d"),
                             .npaths = 2,
                             .paths = paths,
                             .tree = true};
    struct fy_probe probe_back;
    ck_assert_int_eq(fy_probe_encode(&probe, &bytes, &n), 0);
    ck_assert_int_eq(fy_probe_decode(bytes, n, &probe_back, NULL), 0);
    ck_assert_uint_eq(probe_back.npaths, 2);
    is_text(probe_back.paths[1], "b c");
    ck_assert(probe_back.tree);
    fy_probe_clear(&probe_back);
    free(bytes);

    struct fy_probe_result result = {UINT64_MAX, 3, true}, result_back;
    ck_assert_int_eq(fy_probe_result_encode(&result, &bytes, &n), 0);
    ck_assert_int_eq(fy_probe_result_decode(bytes, n, &result_back, NULL), 0);
    ck_assert_uint_eq(result_back.bytes, UINT64_MAX);
    ck_assert_uint_eq(result_back.files, 3);
    ck_assert(result_back.complete);
    free(bytes);

    struct fy_touched touched = {.npaths = 0, .complete = true}, touched_back;
    ck_assert_int_eq(fy_touched_encode(&touched, &bytes, &n), 0);
    ck_assert_int_eq(fy_touched_decode(bytes, n, &touched_back, NULL), 0);
    ck_assert_uint_eq(touched_back.npaths, 0);
    ck_assert(touched_back.complete);
    ck_assert_uint_eq(touched_back.nfolders, 0);
    fy_touched_clear(&touched_back);
    free(bytes);

    struct fy_folder folders[] = {{{"/a", 2}, 0}, {{"/b", 2}, 1000}};
    touched.folders = folders;
    touched.nfolders = 2;
    ck_assert_int_eq(fy_touched_encode(&touched, &bytes, &n), 0);
    ck_assert_int_eq(fy_touched_decode(bytes, n, &touched_back, NULL), 0);
    ck_assert_uint_eq(touched_back.nfolders, 2);
    is_text(touched_back.folders[1].path, "/b");
    ck_assert_uint_eq(touched_back.folders[1].uid, 1000);
    fy_touched_clear(&touched_back);
    free(bytes);

    struct fy_link_told links[] = {{{"/l", 2}, {"a b", 3}, UINT64_MAX}};
    touched.links = links;
    touched.nlinks = 1;
    ck_assert_int_eq(fy_touched_encode(&touched, &bytes, &n), 0);
    ck_assert_int_eq(fy_touched_decode(bytes, n, &touched_back, NULL), 0);
    ck_assert_uint_eq(touched_back.nlinks, 1);
    is_text(touched_back.links[0].target, "a b");
    ck_assert_uint_eq(touched_back.links[0].modified_s, UINT64_MAX);
    fy_touched_clear(&touched_back);
    free(bytes);

    struct fy_file_told files[] = {{{"/f", 2}, UINT64_MAX, 7, 07777, true},
                                   {{"/g", 2}, 0, 0, 0, false}};
    touched.files = files;
    touched.nfiles = 2;
    ck_assert_int_eq(fy_touched_encode(&touched, &bytes, &n), 0);
    ck_assert_int_eq(fy_touched_decode(bytes, n, &touched_back, NULL), 0);
    ck_assert_uint_eq(touched_back.nfiles, 2);
    is_text(touched_back.files[0].path, "/f");
    ck_assert_uint_eq(touched_back.files[0].bytes, UINT64_MAX);
    ck_assert_uint_eq(touched_back.files[0].modified_s, 7);
    ck_assert_uint_eq(touched_back.files[0].mode, 07777);
    ck_assert(touched_back.files[0].created && !touched_back.files[1].created);
    fy_touched_clear(&touched_back);
    free(bytes);

    folders[0].uid = UINT32_MAX; /* chown(2) would keep what is there */
    ck_assert_int_eq(fy_touched_encode(&touched, &bytes, &n), 0);
    ck_assert_int_eq(fy_touched_decode(bytes, n, &touched_back, NULL),
                     FY_ERR_INVALID);
    free(bytes);
}
END_TEST

/* ---- what is refused ---- */

#define RESULT      \
    "\xa3\x65"      \
    "bytes\x01\x65" \
    "files\x02\x68" \
    "complete"

static const struct {
    const char *bytes;
    size_t n;
    const char *why; /* NULL: taken */
} odd_results[] = {
#define ODD(bytes, why)              \
    {                                \
        bytes, sizeof bytes - 1, why \
    }
    ODD(RESULT "\xf5", NULL),
    ODD("", "probe-result: longer than the message"),
    ODD("\x01", "probe-result: must be a map"),
    ODD("\xbf\xff", "probe-result: of indefinite length"),
    ODD("\xa0", "probe-result: bytes: is missing"),
    ODD(RESULT, "probe-result: complete: longer than the message"),
    ODD(RESULT "\x01", "probe-result: complete: must be a boolean"),
    ODD(RESULT "\xf5\x00", "probe-result: something follows"),
    ODD("\xa1\x65"
        "bytes\x41x",
        "probe-result: bytes: must be an unsigned integer"),
    ODD("\xa1\x65"
        "bytes\x20",
        "probe-result: bytes: must be an unsigned integer"),
    ODD("\xa2\x65"
        "bytes\x01\x65"
        "bytes\x01",
        "probe-result: bytes: is there twice"),
    ODD("\xa1\x45"
        "bytes\x01",
        "probe-result: a key that is no text"),
    ODD("\xbb\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "probe-result: longer than the message"),
    ODD("\xa1\x7b\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "probe-result: longer than the message"),
    ODD("\xa1\x62!x\x01", "probe-result: !x: is required and not known here"),
    ODD("\xa1\x62\x1fx\xfe", "probe-result: ?x: not CBOR"),
    ODD("\xa1\x61x\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
        "probe-result: x: longer than the message"),
    ODD("\xa1\x61x\x9f\x01\xff", "probe-result: x: of indefinite length"),
    /* Unknown keys are passed over: an array, a map, a tag, a float, null. */
    ODD("\xa8\x61"
        "a\x82\x01\x02\x61"
        "b\xa1\x01\x41z\x61"
        "c\xc1\x1a\x01\x02\x03\x04\x61"
        "d\xfa\x01\x02\x03\x04\x61"
        "e\xf6"
        "\x65"
        "bytes\x01\x65"
        "files\x02\x68"
        "complete\xf4",
        NULL),
};

START_TEST(odd_messages_are_refused_by_name)
{
    struct fy_probe_result result;
    char why[200];
    struct fy_buffer buffer;
    fy_buffer_start(&buffer, why, sizeof why);
    char *copy = exact(odd_results[_i].bytes, odd_results[_i].n);
    int status =
        fy_probe_result_decode(copy, odd_results[_i].n, &result, &buffer);
    ck_assert_str_eq(why, odd_results[_i].why ? odd_results[_i].why : "");
    ck_assert_int_eq(status, odd_results[_i].why ? FY_ERR_INVALID : 0);
    free(copy);
}
END_TEST

START_TEST(nesting_is_bounded)
{
    struct fy_probe_result result;
    char why[200], *bytes = malloc(1 << 20);
    struct fy_buffer buffer;
    ck_assert_ptr_nonnull(bytes);
    fy_buffer_start(&buffer, why, sizeof why);
    memset(bytes, 0x81, 1 << 20); /* [[[[... */
    memcpy(bytes, "\xa1\x61x", 3);
    ck_assert_int_eq(fy_probe_result_decode(bytes, 1 << 20, &result, &buffer),
                     FY_ERR_INVALID);
    ck_assert_str_eq(why, "probe-result: x: nested too deeply");
    free(bytes);
}
END_TEST

/* A good stage, but for one thing. */
static const char *
odd_stage(void (*spoil)(struct fy_stage_spec *))
{
    static char why[200];
    struct fy_stage_spec spec = stage(), back;
    struct fy_buffer buffer;
    char *bytes = NULL;
    size_t n = 0;
    fy_buffer_start(&buffer, why, sizeof why);
    spoil(&spec);
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    ck_assert_int_eq(fy_stage_spec_decode(bytes, n, &back, &buffer),
                     FY_ERR_INVALID);
    free(bytes);
    return why;
}

#define SPOIL(name, statement)                   \
    static void name(struct fy_stage_spec *spec) \
    {                                            \
        statement;                               \
    }
SPOIL(no_argv, spec->argc = 0)
SPOIL(nul_in_argv, spec->argv[1] = ((struct fy_bytes){"a\0b", 3}))
SPOIL(wide_umask, spec->umask = 01000)
SPOIL(low_nice, spec->nice = -21)
SPOIL(high_nice, spec->nice = 20)
SPOIL(odd_kind, spec->in.kind = (enum fy_stream_kind)7)
SPOIL(before_the_file, spec->in.offset = -1)
SPOIL(no_path, spec->in.path = ((struct fy_bytes){"", 0}))
SPOIL(linked_output, spec->out.kind = FY_STREAM_LINK)
SPOIL(same_input, spec->in.kind = FY_STREAM_SAME)
SPOIL(no_copy, spec->copies = 0)

START_TEST(odd_stages_are_refused_by_name)
{
    ck_assert_str_eq(odd_stage(no_argv), "stage: argv: is empty");
    ck_assert_str_eq(odd_stage(wide_umask), "stage: umask: is too large");
    ck_assert_str_eq(odd_stage(low_nice), "stage: nice: is out of range");
    ck_assert_str_eq(odd_stage(high_nice), "stage: nice: is out of range");
    ck_assert_str_eq(odd_stage(odd_kind), "stream: kind: is too large");
    ck_assert_str_eq(odd_stage(before_the_file),
                     "stream: offset: is out of range");
    ck_assert_str_eq(odd_stage(no_path), "stage: in: a file without a path");
    ck_assert_str_eq(odd_stage(linked_output),
                     "stage: out: this kind cannot be here");
    ck_assert_str_eq(odd_stage(same_input),
                     "stage: in: this kind cannot be here");
    ck_assert_str_eq(odd_stage(no_copy), "stage: copies: must be at least 1");
    ck_assert_str_eq(odd_stage(nul_in_argv), "stage: argv: holds a NUL");
}
END_TEST

START_TEST(stages_that_end_early_are_refused)
{
    struct fy_stage_spec spec = stage(), back;
    char *bytes = NULL;
    size_t n = 0;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    for (size_t cut = 0; cut < n; cut++) {
        char *copy = exact(bytes, cut), why[200];
        struct fy_buffer buffer;
        fy_buffer_start(&buffer, why, sizeof why);
        ck_assert_int_eq(fy_stage_spec_decode(copy, cut, &back, &buffer),
                         FY_ERR_INVALID);
        ck_assert_msg(strstr(why, ": longer than the message") != NULL, "%s",
                      why);
        free(copy);
    }
    free(bytes);
}
END_TEST

/* The bytes of one item of CBOR of definite length. */
static size_t
item_bytes(const char *at)
{
    unsigned char first = (unsigned char)*at, kind = first >> 5;
    size_t head = 1, number = first & 31;
    if (number >= 24) {
        head += (size_t)1 << (number - 24);
        number = 0;
        for (size_t i = 1; i < head; i++) {
            number = number << 8 | (unsigned char)at[i];
        }
    }
    size_t n = head;
    size_t items = kind == 4 ? number : kind == 5 ? 2 * number : kind == 6;
    if (kind == 2 || kind == 3) {
        return head + number;
    }
    for (; items; items--) {
        n += item_bytes(at + n);
    }
    return n;
}

/* A field that is stored too wide would spoil the one behind it. */
START_TEST(keys_may_come_in_any_order)
{
    struct fy_stage_spec spec = stage(), back;
    char *bytes = NULL, *again = NULL;
    size_t n = 0, m = 0;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    char *turned = exact(bytes, n), *to = turned + n;
    size_t at = (unsigned char)bytes[0] == 0xb8 ? 2 : 1; /* the map's head */
    while (at < n) {
        size_t key = item_bytes(bytes + at);
        size_t pair = key + item_bytes(bytes + at + key);
        to -= pair;
        memcpy(to, bytes + at, pair);
        at += pair;
    }
    ck_assert_int_eq(fy_stage_spec_decode(turned, n, &back, NULL), 0);
    ck_assert_int_eq(fy_stage_spec_encode(&back, &again, &m), 0);
    ck_assert_uint_eq(m, n);
    ck_assert_mem_eq(again, bytes, n);
    fy_stage_spec_clear(&back);
    free(turned);
    free(again);
    free(bytes);
}
END_TEST

START_TEST(large_stages_end_somewhere)
{
    struct fy_stage_spec spec = stage(), back;
    struct fy_bytes *many = calloc(FY_SPEC_MAX_STRINGS, sizeof *many);
    char *bytes = NULL, *large = calloc(1, FY_SPEC_MAX_BYTES);
    size_t n = 0;
    ck_assert_ptr_nonnull(many);
    ck_assert_ptr_nonnull(large);
    spec.env = many;
    spec.envc = FY_SPEC_MAX_STRINGS - spec.argc;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    ck_assert_int_eq(fy_stage_spec_decode(bytes, n, &back, NULL), 0);
    ck_assert_uint_eq(back.envc, spec.envc);
    fy_stage_spec_clear(&back);
    free(bytes);
    spec.envc++;
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), 0);
    ck_assert_int_eq(fy_stage_spec_decode(bytes, n, &back, NULL),
                     FY_ERR_INVALID);
    free(bytes);
    memset(large, 'x', FY_SPEC_MAX_BYTES);
    many[0] = (struct fy_bytes){large, FY_SPEC_MAX_BYTES};
    ck_assert_int_eq(fy_stage_spec_encode(&spec, &bytes, &n), FY_ERR_OVERFLOW);
    free(large);
    free(many);
}
END_TEST

int
main(void)
{
    Suite *suite = suite_create("spec");
    TCase *tcase = tcase_create("spec");
    tcase_add_test(tcase, a_stage_comes_back);
    tcase_add_test(tcase, what_must_be_known_says_so);
    tcase_add_test(tcase, groups_are_a_set);
    tcase_add_test(tcase, the_others_come_back);
    tcase_add_loop_test(tcase, odd_messages_are_refused_by_name, 0,
                        sizeof odd_results / sizeof odd_results[0]);
    tcase_add_test(tcase, nesting_is_bounded);
    tcase_add_test(tcase, odd_stages_are_refused_by_name);
    tcase_add_test(tcase, stages_that_end_early_are_refused);
    tcase_add_test(tcase, keys_may_come_in_any_order);
    tcase_add_test(tcase, large_stages_end_somewhere);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
