/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting a command ready to run under ferry: annotations compiled, the object
 * to preload made, the environment set. Whatever fails leaves one clause of
 * text, for a line like "TEXT; running without ferry".
 */
#ifndef FERRY_TOOLS_LAUNCH_H
#define FERRY_TOOLS_LAUNCH_H

#include "annotations/model/annotations.h"
#include "common/record.h"
#include "tools/options.h"
#include "tools/pipeline.h"
#include "tools/tool.h"

/* File names of the objects that ferry makes to be preloaded. */
#define FY_PRELOAD_PREFIX "ferry-preload-"
/* ... and of the one without names, for sessions alone. */
#define FY_PRELOAD_PLAIN "libferry.so"

struct fy_launch_state {
    struct fy_places places;
    struct fy_model *model; /* owned; NULL: no library calls are offloaded */
    struct fy_pipeline pipeline;
    char preload[PATH_MAX];   /* object to preload, or "" */
    int scratch_fd;           /* of it, locked; or -1 */
    char scratch[PATH_MAX];   /* folder to remove at the end, or "" */
    struct fy_record *record; /* mapped counters, or NULL */
    size_t record_bytes;
    char trouble[512]; /* first thing that went wrong, or "" */
};

/* Sets state->trouble, cut off at its end. */
void fy_launch_trouble(struct fy_launch_state *state, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Compiles the shipped annotations and `options->annotations'. When a user's
 * file has errors the shipped ones are used alone, and one line says so.
 * Returns new, or NULL with `trouble' (of `bytes') set.
 */
struct fy_model *fy_launch_compile(const struct fy_run_options *options,
                                   const struct fy_places *places,
                                   char *trouble, size_t bytes);

/* Sources of a file of the cache; see tools/model_cache.c. */
struct fy_model_key {
    uint64_t texts;      /* of all shipped files, in any order */
    uint64_t executable; /* device, inode, size and times of this program */
    bool usable;         /* false: there is no cache, or no key */
};

/* The model of the shipped annotations in `library' from the cache: new, or
 * NULL. Sets the key either way, for fy_model_store(). */
struct fy_model *fy_model_load(const char *library, struct fy_model_key *key);

/* Keeps a model in the cache. A failure costs the next run a compilation. */
void fy_model_store(const char *library, const struct fy_model_key *key,
                    const struct fy_model *model);

/* The set of the shipped commands in `shipped' with the names that the cache has,
 * which compiles the rest when it is asked for; new, or NULL. Sets the key either
 * way, for fy_names_store(). */
struct fy_commands *fy_names_load(const char *shipped, const char *library,
                                  struct fy_model_key *key);

/* Keeps the names of a set in the cache. */
void fy_names_store(const char *shipped, const struct fy_model_key *key,
                    const struct fy_commands *commands);

/*
 * Makes the object to preload for a model, or finds it in the cache. 0, or a
 * status with `trouble' set.
 */
int fy_launch_preload(struct fy_launch_state *state) FY_MUST_CHECK;

/* A private folder for the files of this run, unless there is one. */
int fy_launch_scratch(struct fy_launch_state *state) FY_MUST_CHECK;
/*
 * In it a file of zeroed counters for state->model. Its space is reserved, so
 * that a full disk is found here and not by a signal in the program.
 */
int fy_launch_record(struct fy_launch_state *state,
                     struct fy_settings *settings) FY_MUST_CHECK;

/* Returns true if the program gets rights that its user lacks (setuid,
 * setgid, capabilities): it must not be influenced, nor told anything of
 * this run. */
bool fy_launch_gains_rights(const char *name);

/*
 * Sets LD_PRELOAD (ours first, others kept, objects of an outer ferry run
 * dropped) and FERRY_SETTINGS of this process; with preload "" removes ours.
 * Other threads may read the environment meanwhile: the array that it was stays.
 */
int fy_launch_environment(const char *preload,
                          const struct fy_settings *settings) FY_MUST_CHECK;

/* Removes the scratch folder and everything it owns. */
void fy_launch_end(struct fy_launch_state *state);

/* `ferry run' with these options; the exit status. */
int fy_launch(struct fy_run_options *options);

#endif
