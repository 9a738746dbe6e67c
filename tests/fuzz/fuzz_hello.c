/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stub's hello (proxy/client/stub.h, read by proxy/client/stage_stub.c): the words and the
 * environment of a command. The strings of one that is accepted fill the frame
 * exactly; the bytes are what was sent.
 */
#include "config.h"

#include "proxy/client/stage_stub.c" /* for read_hello */
#include "tests/fuzz/target.h"

const char fuzz_shows[] =
    "a hello that is accepted has as many words as it says";
const char *const fuzz_words[] = {
    "\x01", "\x03", "\xff\xff\xff\xff", "A=1", "/", "-c", NULL};

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct stage *stage = calloc(1, sizeof *stage);
    MUST(stage);
    int status = read_hello(stage, (const char *)bytes, n);
    MUST(status == 0 || status == FY_ERR_INVALID || status == FY_ERR_NOMEM);
    if (status == 0) {
        const struct fy_stub_hello *hello = &stage->hello;
        size_t used = sizeof *hello + strlen(stage->facts.path) + 1;
        fuzz_taken++;
        MUST(hello->argc > 0 && !stage->argv[hello->argc] &&
             !stage->env[hello->envc]);
        for (uint32_t i = 0; i < hello->argc; i++) {
            used += strlen(stage->argv[i]) + 1;
        }
        for (uint32_t i = 0; i < hello->envc; i++) {
            used += strlen(stage->env[i]) + 1;
        }
        MUST(used == n);
        MUST(!memcmp(stage->block, bytes + sizeof *hello, n - sizeof *hello));
    }
    free(stage->block);
    free(stage->argv);
    free(stage->env);
    free(stage);
    return 0;
}

void
fuzz_make_seeds(void)
{
    static const char words[] = "/usr/bin/grep\0grep\0-c\0x\0A=1\0LC_ALL=C";
    struct {
        struct fy_stub_hello hello;
        char words[sizeof words];
    } frame = {{.version = FY_STUB_VERSION, .open = 7, .argc = 3, .envc = 2},
               ""};
    memcpy(frame.words, words, sizeof words);
    fuzz_seed(&frame, offsetof(__typeof__(frame), words) + sizeof words);
    frame.hello.argc = 5;
    frame.hello.envc = 0;
    fuzz_seed(&frame, offsetof(__typeof__(frame), words) + sizeof words);
}
