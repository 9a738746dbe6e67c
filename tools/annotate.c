/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations for a run and for a proxy. A wrong file of the user's never stops
 * them: it is left out, with one line that quotes its first error.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/commands/command.h"
#include "annotations/model/annotations.h"
#include "tools/launch.h"

/* Writes the first error of a failed compilation as one clause. */
static void
first_diagnostic(const struct fy_diagnostics *diagnostics, int status,
                 char *out, size_t bytes)
{
    char *text = NULL;
    size_t size = 0;
    if (!fy_diagnostics_errors(diagnostics)) {
        (void)snprintf(out, bytes, "cannot compile the annotations: %s",
                       fy_status_text(status));
        return;
    }
    FILE *memory = open_memstream(&text, &size);
    (void)snprintf(out, bytes, "it has errors");
    if (!memory) {
        return;
    }
    fy_diagnostics_print(diagnostics, memory);
    if (fclose(memory) == 0 && size) {
        text[strcspn(text, "\n")] = '\0';
        (void)snprintf(out, bytes, "%s", text);
    }
    free(text);
}

/* Both kinds are compiled alike; `commands' says which. */
struct request {
    bool commands;
    const char *shipped, *library;
    char *trouble; /* set to one clause, of `bytes' */
    size_t bytes;
    bool said; /* that some are left out */
};
struct annotations { /* the one or the other is set */
    struct fy_model *model;
    struct fy_commands *commands;
};

static int
compile(const struct request *request, const char *const *paths,
        unsigned npaths, struct annotations *out)
{
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        (void)snprintf(request->trouble, request->bytes, "out of memory");
        return FY_ERR_NOMEM;
    }
    int status = request->commands
                     ? fy_commands_compile(paths, npaths, request->library,
                                           diagnostics, &out->commands)
                     : fy_compile(paths, npaths, request->library, diagnostics,
                                  &out->model);
    if (status) {
        first_diagnostic(diagnostics, status, request->trouble, request->bytes);
    }
    fy_diagnostics_free(diagnostics);
    return status;
}

/* The shipped ones and the user's; without the user's when these are wrong. */
static int
compile_all(struct request *request, const char *const *users, unsigned nusers,
            struct annotations *out)
{
    const char *paths[FY_MAX_ANNOTATION_PATHS + 1];
    unsigned n = 0;
    if (access(request->shipped, R_OK) != 0) {
        (void)snprintf(request->trouble, request->bytes,
                       "cannot read the shipped annotations %s: %s",
                       request->shipped, strerror(errno));
        return FY_ERR_NOENT;
    }
    paths[n++] = request->shipped;
    for (unsigned i = 0; i < nusers && n <= FY_MAX_ANNOTATION_PATHS; i++) {
        if (access(users[i], R_OK) == 0) {
            paths[n++] = users[i];
        }
    }
    int status = compile(request, paths, n, out);
    if (!status || n == 1) {
        return status;
    }
    fy_say("%s; only the shipped %s are used ('ferry check' says more)",
           request->trouble,
           request->commands ? "command annotations" : "annotations");
    request->said = true;
    return compile(request, paths, 1, out);
}

void
fy_say_unreadable(const char *const *paths, unsigned npaths)
{
    for (unsigned i = 0; i < npaths; i++) {
        if (access(paths[i], R_OK) != 0) {
            fy_say("cannot read annotations %s: %s; left out", paths[i],
                   strerror(errno));
        }
    }
}

struct fy_model *
fy_launch_compile(const struct fy_run_options *options,
                  const struct fy_places *places, char *trouble, size_t bytes)
{
    struct request request = {.shipped = places->library,
                              .library = places->library,
                              .trouble = trouble,
                              .bytes = bytes};
    struct annotations all = {NULL, NULL};
    struct fy_model_key key = {.usable = false};
    struct fy_model *model = NULL;
    if (options->nannotations == 0) {
        model = fy_model_load(places->library, &key);
    }
    fy_say_unreadable(options->annotations, options->nannotations);
    if (!model && compile_all(&request, options->annotations,
                              options->nannotations, &all) == 0) {
        model = all.model;
        fy_model_store(places->library, &key, model);
    }
    return model;
}

void
fy_say_wrong(const struct fy_run_options *options,
             const struct fy_places *places)
{
    char trouble[512], shipped[PATH_MAX + 16];
    struct annotations all = {NULL, NULL};
    struct request request = {.shipped = places->library,
                              .library = places->library,
                              .trouble = trouble,
                              .bytes = sizeof trouble};
    fy_say_unreadable(options->annotations, options->nannotations);
    if (options->nannotations == 0) {
        return;
    }
    (void)compile_all(&request, options->annotations, options->nannotations,
                      &all);
    if (!request.said) { /* most errors are found twice */
        (void)snprintf(shipped, sizeof shipped, "%s/commands", places->library);
        request.shipped = shipped;
        request.commands = true;
        (void)compile_all(&request, options->annotations, options->nannotations,
                          &all);
    }
    free(all.model);
    fy_commands_free(all.commands);
}

struct fy_commands *
fy_pipeline_compile(const struct fy_places *places, const char *const *paths,
                    unsigned npaths, char *trouble, size_t bytes)
{
    char shipped[PATH_MAX + 16];
    struct request request = {.commands = true,
                              .shipped = shipped,
                              .library = places->library,
                              .trouble = trouble,
                              .bytes = bytes};
    struct annotations all = {NULL, NULL};
    (void)snprintf(shipped, sizeof shipped, "%s/commands", places->library);
    return compile_all(&request, paths, npaths, &all) ? NULL : all.commands;
}

struct fy_commands *
fy_pipeline_names(const struct fy_places *places, const char *const *paths,
                  unsigned npaths, char *trouble, size_t bytes)
{
    char shipped[PATH_MAX + 16];
    struct fy_model_key key = {.usable = false};
    struct fy_commands *commands = NULL;
    (void)snprintf(shipped, sizeof shipped, "%s/commands", places->library);
    if (npaths == 0) {
        commands = fy_names_load(shipped, places->library, &key);
    }
    if (!commands) {
        commands = fy_pipeline_compile(places, paths, npaths, trouble, bytes);
        if (commands) {
            fy_names_store(shipped, &key, commands);
        }
    }
    return commands;
}
