/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the compiled shipped annotations in the cache: compiling the model
 * takes 30 to 40 ms, reading and validating it about one; the names of all
 * commands take 5 ms, reading them a fifth of one. The files `model' and
 * `names' hold them and a key, which covers the text of every shipped file and
 * this executable, so that a changed annotation or another ferry never meets
 * an old one. The user's own files are compiled each time.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "annotations/model/annotations.h"
#include "common/hash.h"
#include "common/whole.h"
#include "tools/launch.h"

enum {
    FILE_LIMIT_BYTES = 4 << 20, /* one annotation file */
    MODEL_LIMIT_BYTES = 64 << 20,
    KEY_BYTES = offsetof(struct fy_model_key, usable), /* in the file */
};

/* Name and text of one file; 0 if it cannot be read. */
static uint64_t
text_hash(const char *folder, const char *name)
{
    char path[PATH_MAX];
    size_t bytes;
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = n > 0 && n < PATH_MAX
                     ? fy_read_file(path, FILE_LIMIT_BYTES, &bytes)
                     : NULL;
    if (!text) {
        return 0;
    }
    uint64_t hash = fy_hash_words(FY_HASH_START, name, strlen(name) + 1);
    hash = fy_hash_words(hash, text, bytes);
    free(text);
    return hash;
}

/* False if a file cannot be read: then nothing is taken from the cache. */
static bool
make_key(const char *library, struct fy_model_key *key)
{
    struct stat self;
    DIR *folder = opendir(library);
    const struct dirent *entry;
    bool good = folder && stat("/proc/self/exe", &self) == 0;
    key->texts = 0;
    while (good && (entry = readdir(folder))) {
        const char *suffix = strrchr(entry->d_name, '.');
        if (suffix && strcmp(suffix, ".ferry") == 0) {
            uint64_t hash = text_hash(library, entry->d_name);
            good = hash != 0;
            key->texts += hash;
        }
    }
    if (folder) {
        (void)closedir(folder);
    }
    if (good) {
        const uint64_t facts[] = {self.st_dev,
                                  self.st_ino,
                                  (uint64_t)self.st_size,
                                  (uint64_t)self.st_mtim.tv_sec,
                                  (uint64_t)self.st_mtim.tv_nsec,
                                  (uint64_t)self.st_ctim.tv_sec,
                                  (uint64_t)self.st_ctim.tv_nsec};
        key->executable =
            fy_hash_words(FY_HASH_START, (const char *)facts, sizeof facts);
    }
    return good;
}

static bool
cache_path(const char *name, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    if (fy_cache_folder(folder)) {
        return false;
    }
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

/* Returns the contents behind this key, or NULL. A file that is cut short or
 * another user's counts as absent. */
static char *
load(const char *path, const struct fy_model_key *key, size_t *bytes)
{
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid() || (status.st_mode & 0022) != 0) {
        return NULL;
    }
    char *text = fy_read_file(path, MODEL_LIMIT_BYTES, bytes);
    if (text && *bytes > KEY_BYTES) {
        *bytes -= KEY_BYTES;
        if (memcmp(text + *bytes, key, KEY_BYTES) == 0) {
            return text;
        }
    }
    free(text);
    return NULL;
}

/* Whatever fails here costs the next run its compilation. */
static void
store(const char *name, const char *library, const struct fy_model_key *key,
      const void *bytes, size_t n)
{
    struct fy_model_key now;
    char path[PATH_MAX], temporary[PATH_MAX + 16];
    /* A file may have been changed while all were compiled. */
    if (!key->usable || !cache_path(name, path) || !make_key(library, &now) ||
        now.texts != key->texts) {
        return;
    }
    (void)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file) {
        if (fd >= 0) {
            (void)close(fd);
            (void)unlink(temporary);
        }
        return;
    }
    (void)fwrite(bytes, n, 1, file);
    (void)fwrite(key, KEY_BYTES, 1, file);
    bool good = !ferror(file);
    good = fclose(file) == 0 && good;
    if (!good || rename(temporary, path) != 0) {
        (void)unlink(temporary);
    }
}

struct fy_model *
fy_model_load(const char *library, struct fy_model_key *key)
{
    char path[PATH_MAX];
    size_t bytes;
    key->usable = cache_path("model", path) && make_key(library, key);
    char *text = key->usable ? load(path, key, &bytes) : NULL;
    if (text && fy_model_validate(text, bytes) == 0) {
        return (struct fy_model *)text;
    }
    free(text);
    return NULL;
}

void
fy_model_store(const char *library, const struct fy_model_key *key,
               const struct fy_model *model)
{
    store("model", library, key, model, model->size_bytes);
}

struct fy_commands *
fy_names_load(const char *shipped, const char *library,
              struct fy_model_key *key)
{
    struct fy_commands *commands = NULL;
    char path[PATH_MAX];
    size_t bytes;
    key->usable = cache_path("names", path) && make_key(shipped, key);
    char *text = key->usable ? load(path, key, &bytes) : NULL;
    int status =
        text ? fy_commands_lazy(shipped, library, text, bytes, &commands)
             : FY_ERR_NOENT;
    free(text);
    return status ? NULL : commands;
}

void
fy_names_store(const char *shipped, const struct fy_model_key *key,
               const struct fy_commands *commands)
{
    char *text;
    size_t bytes;
    if (key->usable && fy_commands_names(commands, &text, &bytes) == 0) {
        store("names", shipped, key, text, bytes);
        free(text);
    }
}
