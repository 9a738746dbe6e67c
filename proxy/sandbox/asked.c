/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration that a stage's annotation asks for: the only paths of this host
 * that a client may compare, each once. A client that may be anybody would otherwise
 * learn of every file of the proxy's user whether it exists and what is in it. Used
 * by the check of a stage; any thread.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/sandbox/policy.h"

static const char *
variable(const struct fy_stage_spec *spec, const char *name, size_t n)
{
    for (uint32_t i = 0; i < spec->envc; i++) {
        const struct fy_bytes *entry = &spec->env[i];
        if (entry->n > n && memcmp(entry->at, name, n) == 0 &&
            entry->at[n] == '=') {
            return entry->at + n + 1;
        }
    }
    return NULL;
}

bool
fy_asked_path(const char *path, char out[PATH_MAX])
{
    size_t used = 0;
    if (*path != '/' || strlen(path) >= PATH_MAX) {
        return false;
    }
    while (*path) {
        path += strspn(path, "/");
        size_t n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0) {
            return false;
        }
        if (n > 1 || (n == 1 && *path != '.')) {
            out[used++] = '/';
            memcpy(out + used, path, n);
            used += n;
        }
        path += n;
    }
    out[used] = '\0';
    return used > 0;
}

/* False: no memory. What is no plain path is left out, and so never compared. */
static bool
add(struct fy_asked *asked, const char *value, const char *rest)
{
    char whole[PATH_MAX], path[PATH_MAX];
    int n = snprintf(whole, sizeof whole, "%s%s", value, rest);
    if (n < 0 || n >= PATH_MAX || !fy_asked_path(whole, path)) {
        return true;
    }
    asked->paths[asked->n] = strdup(path);
    return asked->paths[asked->n++];
}

/* "~/x", "$NAME/x", "/x", as the client expands it. */
static bool
add_expanded(struct fy_asked *asked, const struct fy_stage_spec *spec,
             const char *text)
{
    size_t n = strcspn(text, "/");
    if (*text != '~' && *text != '$') {
        return add(asked, "", text);
    }
    const char *value = *text == '~' ? variable(spec, "HOME", 4)
                                     : variable(spec, text + 1, n - 1);
    return !value || !*value || add(asked, value, text + n);
}

void
fy_asked_clear(struct fy_asked *asked)
{
    for (size_t i = 0; i < asked->n; i++) {
        free(asked->paths[i]);
    }
    free(asked->paths);
    *asked = (struct fy_asked){0};
}

int
fy_asked_new(const struct fy_stage_spec *spec,
             const struct fy_invocation *invocation, bool limited,
             const struct fy_seen *seen, unsigned nseen, struct fy_asked *out)
{
    static const char *const names[] = {"/etc/passwd", "/etc/group"};
    struct fy_asked asked = {0};
    size_t n = 0;
    while (invocation->configs && invocation->configs[n]) {
        n++;
    }
    asked.paths = calloc(n + nseen + 3, sizeof *asked.paths);
    bool good = asked.paths;
    for (size_t i = 0; good && i < n; i++) {
        good = add_expanded(&asked, spec, invocation->configs[i]);
    }
    for (size_t i = 0;
         good && fy_invocation_is(invocation, FY_TRAIT_OWNERS) && i < 2; i++) {
        good = add(&asked, "", names[i]);
    }
    for (unsigned i = 0; good && i < nseen; i++) {
        good = add(&asked, "", seen[i].mount);
    }
    const char *zone = variable(spec, "TZ", 2);
    zone = !zone ? "/etc/localtime" : *zone == ':' ? zone + 1 : zone;
    /* A client that may be anybody names the system's zones by their names. */
    good = good &&
           (limited && variable(spec, "TZ", 2) ? true : add(&asked, "", zone));
    if (!good) {
        fy_asked_clear(&asked);
        return FY_ERR_NOMEM;
    }
    *out = asked;
    return 0;
}

bool
fy_asked_take(struct fy_asked *asked, const char *path)
{
    for (size_t i = 0; i < asked->n; i++) {
        if (asked->paths[i] && strcmp(asked->paths[i], path) == 0) {
            free(asked->paths[i]);
            asked->paths[i] = NULL;
            return true;
        }
    }
    return false;
}
