/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a proxy by liar.py: a proxy that lies about how its stages ended.
 * FERRY_LIE, "name=value;name=value", are the trailers that it sends in place of
 * ferry-exit, ferry-signal and those of the same names. "silent": once a stage has ended no
 * request is answered, so that nothing is said of what it changed.
 */
#include "config.h"

#include <dlfcn.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIELDS_MAX = 32
};

/* One of those that are replaced; its name has no NUL at its end. */
static int
is_named(const nghttp2_nv *field, const char *lie)
{
    while (lie) {
        if (strncmp(lie, (const char *)field->name, field->namelen) == 0 &&
            lie[field->namelen] == '=') {
            return 1;
        }
        lie = strchr(lie, ';');
        lie += lie != NULL;
    }
    return 0;
}

static int
is_end(const nghttp2_nv *field)
{
    return (field->namelen == 10 &&
            memcmp(field->name, "ferry-exit", 10) == 0) ||
           (field->namelen == 12 &&
            memcmp(field->name, "ferry-signal", 12) == 0);
}

static int ended; /* a stage */

int
nghttp2_submit_response(nghttp2_session *session, int32_t id,
                        const nghttp2_nv *fields, size_t n,
                        const nghttp2_data_provider *body)
{
    static int (*real)(nghttp2_session *, int32_t, const nghttp2_nv *, size_t,
                       const nghttp2_data_provider *);
    const char *lie = getenv("FERRY_LIE");
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "nghttp2_submit_response");
        memcpy(&real, &found, sizeof real);
    }
    return ended && lie && strcmp(lie, "silent") == 0
               ? 0
               : real(session, id, fields, n, body);
}

int
nghttp2_submit_trailer(nghttp2_session *session, int32_t id,
                       const nghttp2_nv *fields, size_t n)
{
    static int (*real)(nghttp2_session *, int32_t, const nghttp2_nv *, size_t);
    static char text[256];
    nghttp2_nv told[FIELDS_MAX];
    size_t ntold = 0;
    int ends = 0;
    const char *lie = getenv("FERRY_LIE");
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "nghttp2_submit_trailer");
        memcpy(&real, &found, sizeof real);
    }
    for (size_t i = 0; i < n && i < FIELDS_MAX / 2; i++) {
        ended = ended || is_end(&fields[i]);
        if (lie && strchr(lie, '=') && is_end(&fields[i])) {
            ends = 1;
        } else if (!lie || !is_named(&fields[i], lie)) {
            told[ntold++] = fields[i];
        }
    }
    if (!ends || strlen(lie) >= sizeof text) {
        return real(session, id, fields, n);
    }
    char *rest = NULL;
    strcpy(text, lie);
    for (char *word = strtok_r(text, ";", &rest); word && ntold < FIELDS_MAX;
         word = strtok_r(NULL, ";", &rest)) {
        char *equals = strchr(word, '=');
        told[ntold++] = (nghttp2_nv){
            .name = (uint8_t *)word,
            .namelen = (size_t)(equals - word),
            .value = (uint8_t *)equals + 1,
            .valuelen = strlen(equals + 1),
        };
    }
    return real(session, id, told, ntold);
}
