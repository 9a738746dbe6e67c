/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipelines' half of a run: mounts found, command annotations compiled, a
 * session started; the ends of the stages, for reports.
 */
#ifndef FERRY_TOOLS_PIPELINE_H
#define FERRY_TOOLS_PIPELINE_H

#include "proxy/client/client.h"
#include "tools/options.h"
#include "tools/report.h"
#include "tools/tool.h"

struct fy_pipeline {
    struct fy_mount *mounts; /* owned */
    unsigned nmounts;
    struct fy_commands *commands; /* owned */
    struct fy_session *session;   /* owned */
};

/*
 * Finds the mounts of options and of this machine; true if there are any. A
 * fault of a configured mount is said; the others are used.
 */
bool fy_pipeline_find(struct fy_pipeline *pipeline,
                      const struct fy_run_options *options);

/*
 * Command annotations: shipped ones, then `paths' that can be read. When a
 * user's file has errors the shipped ones are used alone, and one line says so.
 * New, or NULL with `trouble' (of `bytes') set.
 */
struct fy_commands *fy_pipeline_compile(const struct fy_places *places,
                                        const char *const *paths,
                                        unsigned npaths, char *trouble,
                                        size_t bytes);

/* Compiles command annotations for the client, with names from the cache if
 * it has them; then only the blocks of a command that is asked for are
 * compiled. */
struct fy_commands *fy_pipeline_names(const struct fy_places *places,
                                      const char *const *paths, unsigned npaths,
                                      char *trouble, size_t bytes);

/* Says which of these are left out, a line each. */
void fy_say_unreadable(const char *const *paths, unsigned npaths);

/* Says which of these are left out, and the first fault in the annotations
 * of a run that has no use for any, because no session would say so. */
void fy_say_wrong(const struct fy_run_options *options,
                  const struct fy_places *places);

/*
 * Starts the session in `folder' (private, exists): from here on proxies are
 * being reached. 0, or a status with `trouble' set.
 */
int fy_pipeline_start(struct fy_pipeline *pipeline,
                      const struct fy_places *places, const char *folder,
                      const struct fy_run_options *options, char *trouble,
                      size_t bytes) FY_MUST_CHECK;

/*
 * Then, before any program starts: compiles the command annotations for it and
 * sets settings->snapshot. Likewise; the session has ended after a failure.
 */
int fy_pipeline_publish(struct fy_pipeline *pipeline,
                        const struct fy_places *places,
                        struct fy_run_options *options, char *trouble,
                        size_t bytes) FY_MUST_CHECK;

/*
 * The first command is not started by a preloaded program, so no wrapper puts a
 * stub in its place: the arguments of a stub for it, or NULL when it is not
 * one that a session could want. One block, new.
 */
char **fy_pipeline_first(const struct fy_pipeline *pipeline,
                         const struct fy_places *places, char *const *command);

/* Waits for the stages that still run, ends the session. May be called twice. */
void fy_pipeline_end(struct fy_pipeline *pipeline);
/* Ends it at once: no program of the run will know of it. */
void fy_pipeline_drop(struct fy_pipeline *pipeline);

/*
 * Tells the user of each host that lacks ferry, or copies it there in the background, as
 * `deploy' says (enum fy_deploy). After fy_pipeline_end().
 */
void fy_pipeline_advise(const struct fy_pipeline *pipeline,
                        const struct fy_places *places, int deploy);

/* After the end: stages and links of the report; FY_ERR_NOMEM. Strings are
 * borrowed from the session. */
int fy_pipeline_report(const struct fy_pipeline *pipeline,
                       struct fy_report *report) FY_MUST_CHECK;

void fy_pipeline_free(struct fy_pipeline *pipeline);

#endif
