/* SPDX-License-Identifier: Apache-2.0
 *
 * The gate of the fake CUDA: every call of every library is counted here,
 * written to FAKECUDA_LOG, and refused where the settings or the state say so.
 * It reads the environment once, at the first call of the process.
 */
#include "config.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fakecuda/clock.h"
#include "tests/fakecuda/machine.h"

#define FAULTS_MAX   1024
#define COUNTERS_MAX 4096 /* a power of two, far above all names */

struct counter {
    char name[64];
    unsigned long count;
};

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    struct fake_fault fault[FAULTS_MAX];
    size_t n_faults;
    struct fake_fault operation; /* FAKECUDA_FAIL_ASYNC */
    bool strict;
    uint64_t delay_us;
    const char *slow;  /* FAKECUDA_SLOW, or NULL */
    const char *first; /* FAKECUDA_FIRST, or NULL */
    int log;
    uint64_t random;
    unsigned long calls;
    unsigned long operations;
    struct counter counter[COUNTERS_MAX];
} gate = {
    .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};

/* What each library returns for: an injected fault without a code, a machine
 * that is not initialised, no memory, a bad argument, a call from a callback,
 * and all other trouble. */
static const int codes[FAKE_LIBRARIES][6] = {
    [FAKE_DRIVER] = {CUDA_ERROR_UNKNOWN},
    [FAKE_CUBLAS] = {13, 1, 3, 7, 14, 13},
    [FAKE_CUSOLVER] = {6, 1, 2, 3, 7, 6},
    [FAKE_CUFFT] = {6, 5, 2, 4, 5, 6},
    [FAKE_NVRTC] = {11, 11, 1, 3, 11, 11},
};

int
fakecuda_status(enum fake_library library, int result)
{
    const int *code = codes[library];

    if (library == FAKE_DRIVER || result == CUDA_SUCCESS) {
        return result;
    }
    switch (result) {
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
        return code[1];
    case CUDA_ERROR_OUT_OF_MEMORY:
        return code[2];
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
        return code[3];
    case CUDA_ERROR_NOT_PERMITTED:
        return code[4];
    default:
        return code[5];
    }
}

uint64_t
fakecuda_setting(const char *name, uint64_t fallback)
{
    char variable[64];
    char *end;
    unsigned long long value;

    (void)snprintf(variable, sizeof(variable), "FAKECUDA_%s", name);
    const char *text = getenv(variable);
    if (text == NULL || *text == '\0') {
        return fallback;
    }
    value = strtoull(text, &end, 0);
    switch (*end) {
    case 'G':
        return value << 30;
    case 'M':
        return value << 20;
    case 'K':
        return value << 10;
    default:
        return value;
    }
}

bool
fakecuda_is_wrong(const char *name)
{
    const char *text = getenv("FAKECUDA_WRONG");
    size_t bytes = strlen(name);

    while (text != NULL && *text != '\0') {
        size_t length = strcspn(text, ",");
        if (length == bytes && strncmp(text, name, length) == 0) {
            return true;
        }
        text += length;
        text += *text == ',';
    }
    return false;
}

void
fakecuda_spoil(uint64_t address, size_t bytes)
{
    unsigned char *at = fakecuda_at(address, bytes);

    /* The top byte of the mantissa: another number, and no NaN. */
    if (at != NULL && bytes >= 4) {
        at[(bytes >= 8 ? 8 : 4) - 2] ^= bytes >= 8 ? 0x0F : 0x7F;
    }
}

/* "N", "N+", "N:CODE" or "N+:CODE". */
static void
parse_fault(const char *text, struct fake_fault *fault)
{
    char *end;

    fault->from = strtoul(text, &end, 10);
    if (*end == '+') {
        fault->onwards = true;
        end++;
    }
    fault->code = *end == ':' ? (int)strtol(end + 1, NULL, 10) : 0;
}

static void
parse_faults(void)
{
    const char *text = getenv("FAKECUDA_FAIL");

    while (text != NULL && *text != '\0' && gate.n_faults < FAULTS_MAX - 1) {
        struct fake_fault *fault = &gate.fault[gate.n_faults];
        size_t length = strcspn(text, ":,");

        if (text[length] == ':' && length < sizeof(fault->name)) {
            memcpy(fault->name, text, length);
            parse_fault(text + length + 1, fault);
            gate.n_faults++;
        }
        text += strcspn(text, ",");
        text += *text == ',';
    }
    text = getenv("FAKECUDA_FAIL_ANY");
    if (text != NULL && *text != '\0') {
        parse_fault(text, &gate.fault[gate.n_faults++]);
    }
    text = getenv("FAKECUDA_FAIL_ASYNC");
    if (text != NULL && *text != '\0') {
        parse_fault(text, &gate.operation);
        if (gate.operation.code == 0) {
            gate.operation.code = CUDA_ERROR_LAUNCH_FAILED;
        }
    }
}

static void
read_settings(void)
{
    const char *path = getenv("FAKECUDA_LOG");

    parse_faults();
    gate.strict = fakecuda_setting("STRICT", 0) != 0;
    gate.delay_us = fakecuda_setting("DELAY", fakecuda_is_modelled() ? 0 : 100);
    gate.slow = getenv("FAKECUDA_SLOW");
    gate.first = getenv("FAKECUDA_FIRST");
    gate.random = fakecuda_setting("SEED", 1) * 0x9E3779B97F4A7C15ULL +
                  0x632BE59BD9B4E019;
    if (path != NULL && *path != '\0') {
        gate.log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    }
}

void
fake_settings(void)
{
    (void)pthread_once(&gate.once, read_settings);
}

bool
fake_strict(void)
{
    return gate.strict;
}

uint64_t
fake_delay_us(void)
{
    return gate.delay_us;
}

uint64_t
fake_slowness_us(const char *operation)
{
    size_t bytes = strlen(operation);

    if (gate.slow == NULL || strncmp(gate.slow, operation, bytes) != 0 ||
        gate.slow[bytes] != ':') {
        return 0;
    }
    return strtoull(gate.slow + bytes + 1, NULL, 10);
}

/* Sets up what the real function does when it is called first. */
static void
set_up(const char *name)
{
    size_t bytes = strlen(name);

    for (const char *at = gate.first; at != NULL && *at != '\0';) {
        if (strncmp(at, name, bytes) == 0 && at[bytes] == ':') {
            (void)usleep((useconds_t)strtoul(at + bytes + 1, NULL, 10));
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
}

/* xorshift64*, then the high half; callers hold gate.lock. */
static uint64_t
next_random(uint64_t bound)
{
    gate.random ^= gate.random >> 12;
    gate.random ^= gate.random << 25;
    gate.random ^= gate.random >> 27;
    return ((gate.random * 0x2545F4914F6CDD1DULL) >> 32) % bound;
}

uint64_t
fakecuda_random(uint64_t bound)
{
    uint64_t value;

    fake_settings();
    (void)pthread_mutex_lock(&gate.lock);
    value = next_random(bound);
    (void)pthread_mutex_unlock(&gate.lock);
    return value;
}

static void write_line(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* One write(2) a line: those of several processes do not mix. */
static void
write_line(const char *format, ...)
{
    char line[512];
    va_list arguments;
    int head, body;

    if (gate.log < 0) {
        return;
    }
    head = snprintf(line, sizeof(line), "%ld %ld ", (long)getpid(),
                    (long)syscall(SYS_gettid));
    va_start(arguments, format);
    body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, format,
                     arguments);
    va_end(arguments);
    size_t length = (size_t)head + (size_t)body;
    if (length > sizeof(line) - 2) {
        length = sizeof(line) - 2;
    }
    line[length++] = '\n';
    if (write(gate.log, line, length) < 0) {
        return; /* nobody to tell */
    }
}

/* Callers hold gate.lock. */
static struct counter *
counter_of(const char *name)
{
    size_t place = 5381;

    for (const char *at = name; *at != '\0'; at++) {
        place = place * 33 + (unsigned char)*at;
    }
    for (;; place++) {
        struct counter *counter = &gate.counter[place % COUNTERS_MAX];
        if (counter->name[0] == '\0') {
            (void)snprintf(counter->name, sizeof(counter->name), "%s", name);
        }
        if (strcmp(counter->name, name) == 0) {
            return counter;
        }
    }
}

/* Its locks may have been held by a thread that this child has not. */
static bool
is_forked_child(void)
{
    pid_t pid = __atomic_load_n(&machine.pid, __ATOMIC_ACQUIRE);

    return pid != 0 && pid != getpid();
}

FAKE_EXPORT unsigned long
fakecuda_count(const char *name)
{
    bool alone = is_forked_child();
    unsigned long count;

    if (!alone) {
        (void)pthread_mutex_lock(&gate.lock);
    }
    if (strcmp(name, "calls") == 0) {
        count = gate.calls;
    } else if (strcmp(name, "operations") == 0) {
        count = gate.operations;
    } else {
        count = counter_of(name)->count;
    }
    if (!alone) {
        (void)pthread_mutex_unlock(&gate.lock);
    }
    return count;
}

void
fakecuda_note(const char *counter, const char *format, ...)
{
    char text[400];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)pthread_mutex_lock(&gate.lock);
    counter_of(counter)->count++;
    write_line("%s: %s", counter, text);
    (void)pthread_mutex_unlock(&gate.lock);
}

/* The injected status of this call, or 0. Callers hold gate.lock. */
static int
injected(const char *name, unsigned long count, unsigned long calls,
         enum fake_library library)
{
    for (size_t i = 0; i < gate.n_faults; i++) {
        const struct fake_fault *fault = &gate.fault[i];
        unsigned long number = fault->name[0] == '\0' ? calls : count;

        if ((fault->name[0] == '\0' || strcmp(fault->name, name) == 0) &&
            (number == fault->from ||
             (fault->onwards && number > fault->from))) {
            return fault->code != 0 ? fault->code : codes[library][0];
        }
    }
    return 0;
}

int
fake_operation_fault(void)
{
    unsigned long number;

    (void)pthread_mutex_lock(&gate.lock);
    number = ++gate.operations;
    (void)pthread_mutex_unlock(&gate.lock);
    if (gate.operation.from != 0 &&
        (number == gate.operation.from ||
         (gate.operation.onwards && number > gate.operation.from))) {
        return gate.operation.code;
    }
    return 0;
}

/* After these the real context is lost as well. */
static bool
poisons(int result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

/* What the machine's state says of a call. */
static int
refused(enum fake_need need)
{
    struct fake_context *context;
    int result = CUDA_SUCCESS;

    if (need == FAKE_ANY) {
        return CUDA_SUCCESS;
    }
    (void)pthread_mutex_lock(&machine.lock);
    context = fake_current();
    if (machine.ended) {
        result = CUDA_ERROR_DEINITIALIZED;
    } else if (!machine.initialised) {
        result = CUDA_ERROR_NOT_INITIALIZED;
    } else if (fake_on_stream_thread()) {
        result = CUDA_ERROR_NOT_PERMITTED;
    } else if (need == FAKE_CONTEXT && context == NULL) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (need == FAKE_CONTEXT && context->retained == 0) {
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    } else if (need == FAKE_CONTEXT) {
        result = context->sticky;
    }
    (void)pthread_mutex_unlock(&machine.lock);
    return result;
}

int
fakecuda_enter(struct fake_call *call, const char *name,
               enum fake_library library, enum fake_need need)
{
    unsigned long count;
    int status;

    *call = (struct fake_call){.name = name, .library = library};
    if (is_forked_child()) {
        if (need == FAKE_ANY && strncmp(name, "cuGetError", 10) == 0) {
            return 0;
        }
        write_line("forked: %s in the child of %ld", name, (long)machine.pid);
        return fakecuda_status(library, CUDA_ERROR_NOT_INITIALIZED);
    }
    fake_settings();
    call->timed = fakecuda_is_modelled();
    if (call->timed) {
        fakeclock_device(true);
    }
    (void)pthread_mutex_lock(&gate.lock);
    count = ++counter_of(name)->count;
    call->number = ++gate.calls;
    status = injected(name, count, call->number, library);
    (void)pthread_mutex_unlock(&gate.lock);
    if (count == 1) {
        set_up(name);
    }
    if (status != 0) {
        fakecuda_note("injected", "%s call %lu: %d", name, count, status);
        if (library == FAKE_DRIVER && poisons(status)) {
            (void)pthread_mutex_lock(&machine.lock);
            if (fake_current() != NULL) {
                fake_current()->sticky = status;
            }
            (void)pthread_mutex_unlock(&machine.lock);
        }
        return status;
    }
    status = refused(need);
    if (status == 0 && need == FAKE_CONTEXT) {
        status = fake_capture_refuses(name);
    }
    if (status == 0 && call->timed && count == 1 && !fake_call_first(name)) {
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != 0) {
        fakecuda_note("refused", "%s: %d", name, status);
    }
    return fakecuda_status(library, status);
}

/* fakeclock_device() calls and this one are pairs. */
static void
spend(const struct fake_call *call)
{
    if (call->timed) {
        fakeclock_device(false);
        fake_call_cost(call->name);
    }
}

int
fakecuda_leave(const struct fake_call *call, int status)
{
    if (gate.log >= 0) {
        write_line("#%lu %s = %d", call->number, call->name, status);
    }
    spend(call);
    return status;
}
