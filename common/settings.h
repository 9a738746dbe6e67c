/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every setting of ferry, in one table: name, default, help, parser. `ferry
 * run' fills a struct fy_settings from ferry.conf and its options and hands it
 * to the programs it starts as the text of one environment variable; the
 * preloaded library and the engine read that text once and nothing else.
 *
 * No allocation, no stdio, no locale, errno untouched: safe in a host program,
 * from any thread, in signal handlers and after fork.
 */
#ifndef FERRY_COMMON_SETTINGS_H
#define FERRY_COMMON_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/status.h"

#define FY_SETTINGS_ENV "FERRY_SETTINGS"

enum {
    FY_SETTINGS_PATH_BYTES = 4096,        /* one path, with its NUL */
    FY_SETTINGS_TEXT_BYTES = 64 * 1024,   /* an encoded text, with its NUL */
    FY_SETTINGS_NAME_BYTES = 16,          /* a device's name, with its NUL */
    FY_SETTINGS_MOUNTS_BYTES = 16 * 1024, /* all of them, with the NUL */
    FY_SETTINGS_HOSTS_BYTES = 4096,       /* a setting of hosts, with the NUL */
};

/* How a thunk treats a call. The numbers stand in the text of settings. */
enum fy_mode {
    FY_MODE_NEVER = 0,       /* straight to the original */
    FY_MODE_ASK = 1,         /* `worth', then the engine decides */
    FY_MODE_FORCE = 2,       /* every call goes to the engine */
    FY_MODE_ASK_COUNT = 3,   /* 1, counted and originals timed */
    FY_MODE_FORCE_COUNT = 4, /* 2, counted and originals timed */
};

/* Kinds of residency. */
enum fy_residency {
    FY_RESIDENCY_OFF = 0,
    FY_RESIDENCY_WRITE_THROUGH, /* the kernel tells which pages were written */
    FY_RESIDENCIES,
};

struct fy_settings {
    enum fy_mode mode;
    char device[FY_SETTINGS_NAME_BYTES]; /* "auto", "none", "host", ... */
    uint64_t memory_bytes;               /* device limit; 0: device's default */
    enum fy_residency residency;         /* of operands */
    bool force;                          /* offload all that is allowed */
    bool early;        /* start CUDA before a program that may use it */
    bool chunk_random; /* random chunk shapes (tests, verify) */
    uint64_t chunk_seed;
    /* Paths; "" means not set. */
    char explain[FY_SETTINGS_PATH_BYTES];     /* decisions are appended here */
    char record[FY_SETTINGS_PATH_BYTES];      /* struct fy_record to map */
    char engine[FY_SETTINGS_PATH_BYTES];      /* libferry-engine.so */
    char calibration[FY_SETTINGS_PATH_BYTES]; /* measured rates */
    char rates[FY_SETTINGS_PATH_BYTES];   /* where the engine keeps a card's */
    char kernels[FY_SETTINGS_PATH_BYTES]; /* folder of compiled kernels */
    char verify[FY_SETTINGS_PATH_BYTES];  /* findings are appended here */
    uint64_t debug; /* mask of the rooms of common/debug.h that log */
    char debug_file[FY_SETTINGS_PATH_BYTES];  /* where they log to */
    char annotations[FY_SETTINGS_PATH_BYTES]; /* more annotations, by ':' */
    double check_rate; /* of offloaded calls: compared with their originals */
    uint64_t check_seed;
    char checked[FY_SETTINGS_PATH_BYTES];  /* differences are appended here */
    char snapshot[FY_SETTINGS_PATH_BYTES]; /* common/snapshot.h; the session */
    char mounts[FY_SETTINGS_MOUNTS_BYTES]; /* "DIR=PLACE\n"...; see
                                               * proxy/wire/transport.h */
    bool whole_environment; /* commands at a proxy get all variables */
    /* Lines "VALUE" for all hosts and "VALUE HOST"; see fy_tools_setting(). */
    char tools[FY_SETTINGS_HOSTS_BYTES], store[FY_SETTINGS_HOSTS_BYTES];
    int deploy;    /* enum fy_deploy */
    bool discover; /* look for remote mounts in mountinfo */
};

/* Programs of commands that run on a storage host. */
enum fy_tools_setting {
    FY_TOOLS_CARRY, /* the client's, which are sent if the host has others */
    FY_TOOLS_SAME,  /* only those that both hosts have */
    FY_TOOLS_HOST,  /* the host's own, whatever they are */
};
#define FY_STORE_BYTES (UINT64_C(512) << 20) /* of `store', by default */

/* Adds the lines of a value of `tools' to such a field, as struct fy_setting's parse(). */
int fy_tools_parse(const char *value, void *field,
                   struct fy_buffer *why) FY_MUST_CHECK;
/* Adds the lines of a value of `store', likewise. */
int fy_store_parse(const char *value, void *field,
                   struct fy_buffer *why) FY_MUST_CHECK;
/* Returns the value of `tools' for the host: the last line of that host, else the last line without
 * a host, else the default. Any thread. */
enum fy_tools_setting fy_tools_setting(const char *lines, const char *host);
/* Returns the value of `store' for the host, in bytes, likewise. Any thread. */
uint64_t fy_store_setting(const char *lines, const char *host);

/* Answer of ferry run to a host that has no ferry. */
enum fy_deploy {
    FY_DEPLOY_ASK,  /* a line on a terminal names the command */
    FY_DEPLOY_AUTO, /* it is copied in the background */
    FY_DEPLOY_NEVER,
};

/* Sources that a setting may come from. */
enum fy_setting_flag {
    FY_SETTING_WIRE = 1 << 0, /* the environment text */
    FY_SETTING_USER = 1 << 1, /* ferry.conf */
};

struct fy_setting {
    const char *name;
    const char *initial; /* its default, as text */
    const char *help;    /* one line, no full stop */
    unsigned flags;      /* enum fy_setting_flag */
    size_t offset;       /* of its field in struct fy_settings */
    /* Writes the field at `field' from `value'; says why not in `why'. */
    int (*parse)(const char *value, void *field, struct fy_buffer *why);
    /* Appends the field's value in the form that parse() reads. */
    void (*print)(const void *field, struct fy_buffer *to);
};

/* The table; `count' gets its number of rows. Static storage. */
const struct fy_setting *fy_settings_table(size_t *count);

void fy_settings_init(struct fy_settings *out); /* all defaults */

/*
 * Sets one setting by name. FY_ERR_NOENT: no such name, or not allowed from
 * that origin; FY_ERR_INVALID: bad value. Then `why' (may be NULL) has a clause
 * for a message, and the setting keeps its value.
 */
int fy_settings_set(struct fy_settings *settings, unsigned origin,
                    const char *name, const char *value,
                    struct fy_buffer *why) FY_MUST_CHECK;

/*
 * "name=value;name=value": every wire setting that differs from its default,
 * with ';' and '%' of values as %3B and %25. FY_ERR_NOFIT when it does not fit
 * `capacity' bytes (FY_SETTINGS_TEXT_BYTES always suffices).
 */
int fy_settings_encode(const struct fy_settings *settings, char *out,
                       size_t capacity) FY_MUST_CHECK;

/*
 * Fills *out with the defaults, then with the settings in `text' (NULL means
 * ""). Skips names that this build does not know, because the text may be of a
 * newer build. FY_ERR_INVALID if a value is malformed; *out then has the other
 * values, and `why' (may be NULL) the cause.
 */
int fy_settings_decode(const char *text, struct fy_settings *out,
                       struct fy_buffer *why) FY_MUST_CHECK;

/*
 * "64MiB", "1GiB", "512k", "4096": digits and an optional unit. k K M G T and
 * KiB MiB GiB TiB are powers of 1024; kB KB MB GB TB powers of 1000; B is a byte.
 * FY_ERR_INVALID, or FY_ERR_OVERFLOW beyond 63 bits.
 */
int fy_parse_size(const char *text, uint64_t *out_bytes) FY_MUST_CHECK;

/* A decimal number; FY_ERR_INVALID or FY_ERR_OVERFLOW (beyond 64 bits). */
int fy_parse_number(const char *text, uint64_t *out) FY_MUST_CHECK;

#endif
