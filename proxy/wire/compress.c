/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See compress.h. A stream is a row of zstd frames: compressed ones with zstd's
 * checksum, and stored ones, made here, for as long as compressing does not pay.
 */
#include "config.h"

#include "proxy/wire/compress.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <zstd.h>

enum {
    FAST_LEVEL = 1,
    MAX_LEVEL = 19,
    OUT_BYTES = 64 << 10,
    SAMPLE_BYTES = 1 << 20,
    STORED_BYTES = 64 << 10,  /* of a raw block */
    LATELY_BYTES = 256 << 10, /* tell how much a stream shrinks */
    FORGET_BYTES = 8 * LATELY_BYTES,
    AGAIN_BYTES = 16 << 20, /* stored, until that is tried again */
};

/* A guess for text where nothing is known, and the gain that is worth it: both
 * processors have other things to do. */
#define GUESSED_RATIO 0.4
#define GUESSED_SPEED 300e6
#define WORTH         1.3

enum mode {
    NO_FRAME,
    STORED, /* a frame of raw blocks, which costs nothing to make */
    PACKED,
};

struct fy_squeeze {
    ZSTD_CCtx *zstd;
    enum mode mode;       /* of the frame that has begun */
    bool packs;           /* the next bytes are to be compressed */
    uint64_t in_n, out_n; /* of bytes compressed lately ... */
    uint64_t stored_n;    /* ... and of bytes stored since */
    char out[OUT_BYTES];
};

struct fy_unsqueeze {
    ZSTD_DCtx *zstd;
    char *bytes;
    size_t from, n, capacity; /* bytes[from .. n) wait */
    bool held;                /* zstd may hold decoded bytes */
};

bool
fy_squeeze_pays(double bandwidth_bytes, double speed_bytes, double ratio)
{
    double speed = speed_bytes > 0 ? speed_bytes : GUESSED_SPEED;
    double shrinks_to = ratio > 0 ? ratio : GUESSED_RATIO;
    if (!(bandwidth_bytes > 0)) {
        return false;
    }
    /* Compressing and sending overlap: the slower of both counts. */
    double squeezed = bandwidth_bytes / shrinks_to;
    return (squeezed < speed ? squeezed : speed) > WORTH * bandwidth_bytes;
}

int
fy_squeeze_new(int level, struct fy_squeeze **out)
{
    if (level < 0 || level > MAX_LEVEL) {
        return FY_ERR_INVALID;
    }
    struct fy_squeeze *squeeze = malloc(sizeof *squeeze);
    if (!squeeze) {
        return FY_ERR_NOMEM;
    }
    squeeze->mode = NO_FRAME;
    squeeze->packs = true;
    squeeze->in_n = squeeze->out_n = squeeze->stored_n = 0;
    squeeze->zstd = ZSTD_createCCtx();
    if (!squeeze->zstd ||
        ZSTD_isError(ZSTD_CCtx_setParameter(squeeze->zstd,
                                            ZSTD_c_compressionLevel,
                                            level ? level : FAST_LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(squeeze->zstd, ZSTD_c_windowLog,
                                            FY_SQUEEZE_WINDOW_LOG)) ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(squeeze->zstd, ZSTD_c_checksumFlag, 1))) {
        fy_squeeze_free(squeeze);
        return FY_ERR_NOMEM;
    }
    *out = squeeze;
    return FY_OK;
}

void
fy_squeeze_free(struct fy_squeeze *squeeze)
{
    if (squeeze) {
        (void)ZSTD_freeCCtx(squeeze->zstd);
        free(squeeze);
    }
}

void
fy_squeeze_set(struct fy_squeeze *squeeze, double bandwidth_bytes,
               double speed_bytes)
{
    double ratio = 0;
    if (squeeze->in_n >= LATELY_BYTES) {
        ratio = (double)squeeze->out_n / (double)squeeze->in_n;
        /* Bytes that did not shrink may do so later. */
        if (squeeze->stored_n > AGAIN_BYTES ||
            (squeeze->packs && squeeze->in_n > FORGET_BYTES)) {
            squeeze->in_n = squeeze->out_n = squeeze->stored_n = 0;
        }
    }
    squeeze->packs = fy_squeeze_pays(bandwidth_bytes, speed_bytes, ratio);
}

static int
push(struct fy_squeeze *squeeze, const void *bytes, size_t n,
     ZSTD_EndDirective how, fy_squeeze_sink *sink, void *context)
{
    ZSTD_inBuffer in = {bytes, n, 0};
    squeeze->in_n += n;
    for (;;) {
        ZSTD_outBuffer out = {squeeze->out, OUT_BYTES, 0};
        size_t left = ZSTD_compressStream2(squeeze->zstd, &out, &in, how);
        if (ZSTD_isError(left)) {
            return FY_ERR_NOMEM; /* nothing else can go wrong here */
        }
        squeeze->out_n += out.pos;
        int status = out.pos ? sink(context, squeeze->out, out.pos) : FY_OK;
        if (status) {
            return status;
        }
        if (how == ZSTD_e_continue ? in.pos == in.size : left == 0) {
            return FY_OK;
        }
    }
}

/* Raw blocks (RFC 8878, 3.1.1.2): a head of 3 bytes and the bytes. */
static int
store(struct fy_squeeze *squeeze, const char *bytes, size_t n, bool last,
      fy_squeeze_sink *sink, void *context)
{
    squeeze->stored_n += n;
    do {
        size_t k = n < STORED_BYTES ? n : STORED_BYTES;
        uint32_t bits = (uint32_t)k << 3 | last;
        const unsigned char head[3] = {(unsigned char)bits,
                                       (unsigned char)(bits >> 8),
                                       (unsigned char)(bits >> 16)};
        int status = sink(context, head, sizeof head);
        if (!status && k) {
            status = sink(context, bytes, k);
        }
        if (status) {
            return status;
        }
        bytes = k ? bytes + k : bytes; /* the last block may be of none */
        n -= k;
    } while (n);
    return FY_OK;
}

int
fy_squeeze_end(struct fy_squeeze *squeeze, fy_squeeze_sink *sink, void *context)
{
    enum mode mode = squeeze->mode;
    squeeze->mode = NO_FRAME;
    if (mode == PACKED) {
        return push(squeeze, NULL, 0, ZSTD_e_end, sink, context);
    }
    return mode == STORED ? store(squeeze, NULL, 0, true, sink, context)
                          : FY_OK;
}

int
fy_squeeze_add(struct fy_squeeze *squeeze, const void *bytes, size_t n,
               bool flush, fy_squeeze_sink *sink, void *context)
{
    /* The magic number, no sizes and no checksum, a window of 128 KiB. */
    static const unsigned char stored[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38};
    enum mode mode = squeeze->packs ? PACKED : STORED;
    int status = FY_OK;
    if (!n) {
        return FY_OK;
    }
    if (squeeze->mode != mode) {
        status = fy_squeeze_end(squeeze, sink, context);
        squeeze->mode = mode;
        if (!status && mode == STORED) {
            status = sink(context, stored, sizeof stored);
        }
    }
    if (status) {
        return status;
    }
    return mode == PACKED
               ? push(squeeze, bytes, n, flush ? ZSTD_e_flush : ZSTD_e_continue,
                      sink, context)
               : store(squeeze, bytes, n, false, sink, context);
}

int
fy_unsqueeze_new(struct fy_unsqueeze **out)
{
    struct fy_unsqueeze *unsqueeze = calloc(1, sizeof *unsqueeze);
    if (!unsqueeze) {
        return FY_ERR_NOMEM;
    }
    unsqueeze->zstd = ZSTD_createDCtx();
    if (!unsqueeze->zstd ||
        ZSTD_isError(ZSTD_DCtx_setParameter(
            unsqueeze->zstd, ZSTD_d_windowLogMax, FY_SQUEEZE_WINDOW_LOG))) {
        fy_unsqueeze_free(unsqueeze);
        return FY_ERR_NOMEM;
    }
    *out = unsqueeze;
    return FY_OK;
}

void
fy_unsqueeze_free(struct fy_unsqueeze *unsqueeze)
{
    if (unsqueeze) {
        (void)ZSTD_freeDCtx(unsqueeze->zstd);
        free(unsqueeze->bytes);
        free(unsqueeze);
    }
}

size_t
fy_unsqueeze_waiting(const struct fy_unsqueeze *unsqueeze)
{
    return unsqueeze->n - unsqueeze->from;
}

int
fy_unsqueeze_add(struct fy_unsqueeze *unsqueeze, const void *bytes, size_t n)
{
    size_t waiting = fy_unsqueeze_waiting(unsqueeze);
    if (n > FY_UNSQUEEZE_MAX_BYTES - waiting) {
        return FY_ERR_OVERFLOW;
    }
    if (unsqueeze->from) {
        memmove(unsqueeze->bytes, unsqueeze->bytes + unsqueeze->from, waiting);
        unsqueeze->from = 0;
        unsqueeze->n = waiting;
    }
    if (n > unsqueeze->capacity - waiting) {
        size_t capacity = 2 * unsqueeze->capacity + n;
        char *larger = realloc(unsqueeze->bytes, capacity);
        if (!larger) {
            return FY_ERR_NOMEM;
        }
        unsqueeze->bytes = larger;
        unsqueeze->capacity = capacity;
    }
    if (n) {
        memcpy(unsqueeze->bytes + waiting, bytes, n);
    }
    unsqueeze->n = waiting + n;
    return FY_OK;
}

int
fy_unsqueeze_take(struct fy_unsqueeze *unsqueeze, void *to, size_t most,
                  size_t *out_n)
{
    ZSTD_outBuffer out = {to, most, 0};
    ZSTD_inBuffer in = {unsqueeze->bytes, unsqueeze->n, unsqueeze->from};
    while (out.pos < out.size && (in.pos < in.size || unsqueeze->held)) {
        size_t before = out.pos, read = in.pos;
        size_t left = ZSTD_decompressStream(unsqueeze->zstd, &out, &in);
        if (ZSTD_isError(left)) {
            return FY_ERR_INVALID;
        }
        unsqueeze->held = left != 0 && out.pos == out.size;
        if (out.pos == before && in.pos == read) {
            break;
        }
    }
    unsqueeze->from = in.pos;
    *out_n = out.pos;
    return FY_OK;
}

/* ---- how fast ---- */

static double speed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int
drop(void *context, const void *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)context += n;
    return FY_OK;
}

/* Words of a few letters, from a fixed seed: about as hard as a log file. */
static void
measure(void)
{
    struct fy_squeeze *squeeze = NULL;
    size_t packed = 0;
    char *sample = malloc(SAMPLE_BYTES);
    speed = GUESSED_SPEED;
    if (!sample || fy_squeeze_new(0, &squeeze)) {
        free(sample);
        return;
    }
    uint32_t state = 1;
    for (size_t i = 0; i < SAMPLE_BYTES; i++) {
        state = state * 1664525U + 1013904223U;
        sample[i] = (char)((state >> 28) < 3 ? ' ' : 'a' + (state >> 24) % 12);
    }
    double began = seconds();
    int status =
        fy_squeeze_add(squeeze, sample, SAMPLE_BYTES, true, drop, &packed);
    double took = seconds() - began;
    if (!status && took > 0) {
        speed = SAMPLE_BYTES / took;
    }
    fy_squeeze_free(squeeze);
    free(sample);
}

double
fy_squeeze_speed(void)
{
    (void)pthread_once(&once, measure);
    return speed;
}
