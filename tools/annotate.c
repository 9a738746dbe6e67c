/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations for a run. A wrong file of the user's never stops the run: it is
 * left out, with one line that quotes its first error.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/annotations.h"
#include "tools/launch.h"

void
fy_first_diagnostic(const struct fy_diagnostics *diagnostics, int status,
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

static struct fy_model *
compile(const char *const *paths, unsigned npaths, const char *library,
        char *trouble, size_t bytes)
{
    struct fy_model *model = NULL;
    struct fy_diagnostics *diagnostics = fy_diagnostics_new();
    if (!diagnostics) {
        (void)snprintf(trouble, bytes, "out of memory");
        return NULL;
    }
    int status = fy_compile(paths, npaths, library, diagnostics, &model);
    if (status) {
        fy_first_diagnostic(diagnostics, status, trouble, bytes);
        model = NULL;
    }
    fy_diagnostics_free(diagnostics);
    return model;
}

struct fy_model *
fy_launch_compile(const struct fy_run_options *options,
                  const struct fy_places *places, char *trouble, size_t bytes)
{
    const char *paths[FY_MAX_ANNOTATION_PATHS + 1];
    unsigned n = 0;
    paths[n++] = places->library;
    for (unsigned i = 0; i < options->nannotations; i++) {
        if (access(options->annotations[i], R_OK) == 0) {
            paths[n++] = options->annotations[i];
        } else {
            fy_say("cannot read annotations %s: %s; left out",
                   options->annotations[i], strerror(errno));
        }
    }
    if (access(places->library, R_OK) != 0) {
        (void)snprintf(trouble, bytes,
                       "cannot read the shipped annotations %s: %s",
                       places->library, strerror(errno));
        return NULL;
    }
    struct fy_model *model = compile(paths, n, places->library, trouble, bytes);
    if (model || n == 1) {
        return model;
    }
    fy_say("%s; only the shipped annotations are used ('ferry check' says "
           "more)",
           trouble);
    return compile(paths, 1, places->library, trouble, bytes);
}
