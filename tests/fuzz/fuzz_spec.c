/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Feeds the decoders of the wire's CBOR bodies what nobody would send: spoilt
 * messages of every kind, and soups of items. Each must be refused with a
 * reason, or decode to something that is safe to read in full and encodes to a
 * message that decodes to the same. Prints TAP; see fuzz.h. Compiled with
 * -DFY_LIBFUZZER it is a libFuzzer target.
 */
#include "config.h"

#include "common/buffer.h"
#include "proxy/wire/spec.h"
#include "tests/fuzz/fuzz.h"

enum {
    MAX_INPUT = 1 << 15,
    MAX_MEMORY = 64 << 20,
};

union message {
    struct fy_stage_spec stage;
    struct fy_hello hello;
    struct fy_probe probe;
    struct fy_probe_result result;
    struct fy_touched touched;
};

/* The five kinds behind one face. */
static int
decode(unsigned kind, char *bytes, size_t n, union message *out,
       struct fy_buffer *why)
{
    switch (kind) {
    case 0:
        return fy_stage_spec_decode(bytes, n, &out->stage, why);
    case 1:
        return fy_hello_decode(bytes, n, &out->hello, why);
    case 2:
        return fy_probe_decode(bytes, n, &out->probe, why);
    case 3:
        return fy_probe_result_decode(bytes, n, &out->result, why);
    default:
        return fy_touched_decode(bytes, n, &out->touched, why);
    }
}

static int
encode(unsigned kind, const union message *message, char **out, size_t *n)
{
    switch (kind) {
    case 0:
        return fy_stage_spec_encode(&message->stage, out, n);
    case 1:
        return fy_hello_encode(&message->hello, out, n);
    case 2:
        return fy_probe_encode(&message->probe, out, n);
    case 3:
        return fy_probe_result_encode(&message->result, out, n);
    default:
        return fy_touched_encode(&message->touched, out, n);
    }
}

static void
clear(unsigned kind, union message *message)
{
    switch (kind) {
    case 0:
        fy_stage_spec_clear(&message->stage);
        break;
    case 2:
        fy_probe_clear(&message->probe);
        break;
    case 4:
        fy_touched_clear(&message->touched);
        break;
    default:
        break;
    }
}

enum {
    KINDS = 5
};

static unsigned long tried, taken;

static void
try_one(unsigned kind, const void *bytes, size_t n)
{
    char why[256], *copy = malloc(n ? n : 1), *again = NULL, *twice = NULL;
    union message message, back;
    struct fy_buffer buffer;
    size_t nagain = 0, ntwice = 0;
    MUST(copy);
    memcpy(copy, bytes, n);
    fy_buffer_start(&buffer, why, sizeof why);
    int status = decode(kind, copy, n, &message, &buffer);
    tried++;
    MUST(fuzz_memory() < MAX_MEMORY);
    if (status) {
        MUST(status == FY_ERR_INVALID && *why);
    } else {
        taken++;
        MUST(!*why);
        /* Encoding reads all of it; ASan watches. */
        MUST(!encode(kind, &message, &again, &nagain));
        char *third = malloc(nagain);
        MUST(third);
        memcpy(third, again, nagain);
        MUST(!decode(kind, third, nagain, &back, NULL));
        MUST(!encode(kind, &back, &twice, &ntwice));
        MUST(nagain == ntwice && !memcmp(again, twice, nagain));
        if (kind == 0) {
            for (uint32_t i = 0; i < message.stage.argc; i++) {
                MUST(strlen(message.stage.argv[i].at) ==
                     message.stage.argv[i].n);
            }
        }
        clear(kind, &back);
        clear(kind, &message);
        free(again);
        free(twice);
        free(third);
    }
    free(copy);
}

#ifdef FY_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n) {
        try_one(bytes[0] % KINDS, bytes + 1, n - 1);
    }
    return 0;
}
#else

static struct {
    char *bytes;
    size_t n;
} seeds[KINDS];

#define TEXT(t)          \
    {                    \
        t, sizeof(t) - 1 \
    }

static void
make_seeds(void)
{
    static struct fy_bytes argv[] = {TEXT("grep"), TEXT("-c"), TEXT("x y")};
    static struct fy_bytes env[] = {TEXT("LC_ALL=C"), TEXT("PATH=/usr/bin")};
    static struct fy_config_hash configs[] = {
        {TEXT("/etc/x"), {1, 2}, UINT64_MAX, 7}};
    union message messages[KINDS] = {
        {.stage = {.stage = 70000,
                   .tool = {TEXT("/usr/bin/grep"), TEXT("\0\1\2")},
                   .argc = 3,
                   .envc = 2,
                   .argv = argv,
                   .env = env,
                   .mount = TEXT("/mnt"),
                   .root = TEXT("/srv"),
                   .cwd = TEXT("/mnt/d"),
                   .nice = -3,
                   .in = {.kind = FY_STREAM_FILE, .path = TEXT("/mnt/f")},
                   .out = {.kind = FY_STREAM_WIRE},
                   .err = {.kind = FY_STREAM_SAME},
                   .copies = 2,
                   .configs = configs,
                   .nconfigs = 1}},
        {.hello = {.version = 1, .ferry = TEXT("0.1"), .load = 0.5}},
        {.probe = {.mount = TEXT("/mnt"),
                   .root = TEXT("/srv"),
                   .cwd = TEXT("/mnt"),
                   .paths = argv,
                   .npaths = 3}},
        {.result = {1 << 20, 3, true}},
        {.touched = {.paths = argv, .npaths = 2}},
    };
    for (unsigned k = 0; k < KINDS; k++) {
        MUST(!encode(k, &messages[k], &seeds[k].bytes, &seeds[k].n));
        try_one(k, seeds[k].bytes, seeds[k].n);
    }
    MUST(taken == KINDS);
}

/* Heads of items with lengths that may be lies. */
static size_t
soup(unsigned char *out)
{
    size_t n = 0;
    for (unsigned items = 1 + below(60); items; items--) {
        unsigned major = below(8), length = below(8) ? below(24) : below(32);
        out[n++] = (unsigned char)(major << 5 | length);
        for (unsigned k = 0;
             length >= 24 && length < 28 && k < 1U << (length - 24); k++) {
            out[n++] = (unsigned char)(below(3) ? 0 : below(256));
        }
        if (major == 3 && below(2)) { /* a key, perhaps */
            static const char *const keys[] = {"bytes", "argv", "in", "!x",
                                               "paths"};
            const char *key = keys[below(5)];
            out[n - 1] = (unsigned char)(0x60 | strlen(key));
            memcpy(out + n, key, strlen(key));
            n += strlen(key);
        }
    }
    return n;
}

int
main(void)
{
    static unsigned char input[MAX_INPUT];
    double end = fuzz_begin();
    make_seeds();
    while (fuzz_seconds() < end) {
        unsigned kind = below(KINDS);
        size_t n;
        if (below(8)) {
            n = seeds[kind].n;
            memcpy(input, seeds[kind].bytes, n);
            n = fuzz_bytes(input, n, sizeof input);
        } else {
            n = soup(input);
        }
        fuzz_keep("spec", input, n);
        double began = fuzz_seconds();
        try_one(below(8) ? kind : below(KINDS), input, n);
        MUST(fuzz_seconds() - began < 5);
    }
    (void)unlink(fuzz_path);
    for (unsigned k = 0; k < KINDS; k++) {
        free(seeds[k].bytes);
    }
    printf("# %lu messages, %lu of them taken\n", tried, taken);
    printf("%sok 1 - every message is refused or comes back\n1..1\n",
           taken > KINDS ? "" : "not ");
    return taken <= KINDS;
}
#endif
