/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of cases compared, and what differs told once for all cases alike; see differ.h. */
#include "config.h"

#include "tests/files/differ.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_KNOWN_ROWS = 128,
    MAX_GROUPS = 400
};

/* Cases whose first difference is the same. */
struct cluster {
    char *text, *example;
    unsigned n;
};

static char *known_rows[MAX_KNOWN_ROWS];
static unsigned nknown_rows, known_hits[MAX_KNOWN_ROWS];
static struct cluster groups[MAX_GROUPS];
static unsigned ngroups;

void
known_read(const char *path)
{
    FILE *file = path ? fopen(path, "re") : NULL;
    size_t room = 0;
    char *line = NULL;
    if (path && !file) {
        perror(path);
        exit(2);
    }
    while (file && getline(&line, &room, file) > 0 &&
           nknown_rows < MAX_KNOWN_ROWS) {
        line[strcspn(line, "\t\n")] = 0;
        if (line[0] && line[0] != '#') {
            known_rows[nknown_rows++] = strdup(line);
        }
    }
    free(line);
    if (file) {
        fclose(file);
    }
}

static bool
is_known(const char *text)
{
    for (unsigned i = 0; i < nknown_rows; i++) {
        if (fnmatch(known_rows[i], text, 0) == 0) {
            known_hits[i]++;
            return true;
        }
    }
    return false;
}

static unsigned
lines_of(const char *text)
{
    unsigned n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++) {
        n++;
    }
    return n;
}

static void
grouped(const char *row, const char *text, const char *name)
{
    char key[2400];
    snprintf(key, sizeof(key), "%.80s: %s", row, text);
    for (unsigned i = 0; i < ngroups; i++) {
        if (strcmp(groups[i].text, key) == 0) {
            groups[i].n++;
            return;
        }
    }
    if (ngroups < MAX_GROUPS) {
        groups[ngroups++] = (struct cluster){strdup(key), strdup(name), 1};
        printf("# %s, in %s\n", key, name); /* at once: what follows may hang */
    }
}

/* Tells one difference, unless it is known. */
static unsigned
told(const char *name, const char *row, const char *a, size_t na, const char *b,
     size_t nb)
{
    static char text[2200];
    int n = snprintf(text, sizeof(text), "%s: ", name);
    snprintf(text + n, sizeof(text) - (size_t)n, "%.*s | %.*s",
             na > 900 ? 900 : (int)na, a, nb > 900 ? 900 : (int)nb, b);
    if (is_known(text)) {
        return 0;
    }
    grouped(row, text + n, name);
    return 1;
}

unsigned
differs(const char *name, const char *row, const struct side *plain,
        const struct side *mount)
{
    const char *a = plain->log, *b = mount->log;
    bool aligned = lines_of(a) == lines_of(b);
    unsigned differences = 0;
    while (*a || *b) {
        size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        if (na != nb || memcmp(a, b, na) != 0) {
            differences += told(name, row, a, na, b, nb);
            if (!aligned) {
                break;
            }
        }
        a += na + (a[na] != 0);
        b += nb + (b[nb] != 0);
    }
    for (b = mount->apart; *b; b += strcspn(b, "\n") + 1) {
        differences += told(name, row, "", 0, b, strcspn(b, "\n"));
    }
    return differences;
}

static int
by_number(const void *a, const void *b)
{
    return (int)((const struct cluster *)b)->n -
           (int)((const struct cluster *)a)->n;
}

void
groups_show(void)
{
    qsort(groups, ngroups, sizeof(*groups), by_number);
    for (unsigned i = 0; i < ngroups; i++) {
        printf("FAIL %u: %s\n     as in: %s\n", groups[i].n, groups[i].text,
               groups[i].example);
    }
}

const char *
known_used(void)
{
    static char text[200];
    unsigned n = 0, hits = 0;
    for (unsigned i = 0; i < nknown_rows; i++) {
        n += known_hits[i] != 0;
        hits += known_hits[i];
    }
    snprintf(text, sizeof(text),
             "%u of %u known differences were seen, %u times", n, nknown_rows,
             hits);
    return text;
}
