/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether two hosts have the same configuration and locale: hashes of what
 * commands read beside their operands. Refuses what is no file or folder, or too
 * large.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/path.h"
#include "common/sha256.h"
#include "common/whole.h"
#include "proxy/storage/tools.h"

enum {
    CONFIG_MAX_BYTES = 16 << 20,  /* as of file(1)'s knowledge */
    CONFIG_SMALL_BYTES = 1 << 20, /* read each time */
    NAMES_MAX = 1 << 16,          /* of a folder that is hashed */
};

struct names {
    char **at;
    size_t n;
};

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names, each with a letter of its type in front. */
static int
read_names(int fd, struct names *names)
{
    DIR *dir = fy_folder_open(fd, ".");
    if (!dir) {
        return FY_ERR_IO;
    }
    int status = 0;
    struct dirent *entry;
    while (!status && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        struct stat about;
        unsigned type = entry->d_type;
        if (type == DT_UNKNOWN && fstatat(dirfd(dir), entry->d_name, &about,
                                          AT_SYMLINK_NOFOLLOW) == 0) {
            type = IFTODT(about.st_mode);
        }
        char *name = malloc(strlen(entry->d_name) + 2);
        if (!name || names->n == NAMES_MAX) {
            free(name);
            status = name ? FY_ERR_OVERFLOW : FY_ERR_NOMEM;
            break;
        }
        name[0] = (char)('0' + type);
        strcpy(name + 1, entry->d_name);
        names->at[names->n++] = name;
    }
    closedir(dir);
    return status;
}

static int
hash_folder(int fd, const struct stat *about, unsigned char out[32])
{
    struct names names = {.at = malloc(NAMES_MAX * sizeof *names.at)};
    struct fy_sha256 digest;
    int status = names.at ? read_names(fd, &names) : FY_ERR_NOMEM;
    if (!status) {
        qsort(names.at, names.n, sizeof *names.at, compare);
        int64_t seconds = about->st_mtim.tv_sec;
        fy_sha256_start(&digest);
        fy_sha256_add(&digest, "folder", 7);
        fy_sha256_add(&digest, &seconds, sizeof seconds);
        for (size_t i = 0; i < names.n; i++) {
            fy_sha256_add(&digest, names.at[i], strlen(names.at[i]) + 1);
        }
        fy_sha256_end(&digest, out);
    }
    for (size_t i = 0; i < names.n; i++) {
        free(names.at[i]);
    }
    free(names.at);
    return status;
}

static int
hash_file(int fd, const struct stat *about, unsigned char out[32])
{
    if (about->st_size > CONFIG_SMALL_BYTES) {
        return about->st_size > CONFIG_MAX_BYTES ? FY_ERR_OVERFLOW
                                                 : fy_tool_hash(fd, about, out);
    }
    unsigned char *bytes = malloc(CONFIG_SMALL_BYTES + 1);
    int status = FY_ERR_NOMEM;
    if (bytes) {
        size_t used = 0;
        status = fy_read_most(fd, bytes, CONFIG_SMALL_BYTES + 1, &used);
        status = status                      ? status
                 : used > CONFIG_SMALL_BYTES ? FY_ERR_OVERFLOW
                                             : 0;
        if (!status) {
            fy_sha256_of(bytes, used, out);
        }
    }
    free(bytes);
    return status;
}

/* A program that another one starts: its identity, which is remembered. */
static int
hash_program(const char *path, const char *library_path, unsigned char out[32])
{
    char identity[512];
    int status = fy_tool_identity_with(path, library_path, false, identity,
                                       sizeof identity);
    if (!status) {
        fy_sha256_of(identity, strlen(identity), out);
    }
    return status;
}

int
fy_config_hash_with(const char *path, const char *library_path,
                    unsigned char out[32])
{
    unsigned char digest[32];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            memset(out, 0, 32);
            return 0;
        }
        return FY_ERR_IO;
    }
    struct stat about;
    int status = FY_ERR_IO;
    if (fstat(fd, &about) != 0) {
        status = FY_ERR_IO;
    } else if (S_ISDIR(about.st_mode)) {
        status = hash_folder(fd, &about, digest);
    } else if (S_ISREG(about.st_mode) && (about.st_mode & 0111)) {
        status = hash_program(path, library_path, digest);
    } else if (S_ISREG(about.st_mode)) {
        status = hash_file(fd, &about, digest);
    }
    close(fd);
    if (!status) {
        memcpy(out, digest, sizeof digest);
    }
    return status;
}

uint64_t
fy_config_changed(const struct stat *about)
{
    return (uint64_t)about->st_ctim.tv_sec * 1000000000 +
           (uint64_t)about->st_ctim.tv_nsec;
}

int
fy_config_hash(const char *path, unsigned char out[32])
{
    return fy_config_hash_with(path, NULL, out);
}

static const char *
look_up(const char *const *environment, const char *name)
{
    size_t n = strlen(name);
    for (; *environment; environment++) {
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') {
            return *environment + n + 1;
        }
    }
    return "";
}

/* Whether bytes of ASCII are characters of their own, wherever they stand. */
static bool
keeps_ascii(locale_t locale)
{
    locale_t before = uselocale(locale);
    bool single = MB_CUR_MAX == 1;
    (void)uselocale(before);
    return single || strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
}

bool
fy_locales_fit(const char *const *environment, bool encoded,
               struct fy_buffer *why)
{
    static const struct {
        const char *name;
        int mask;
    } categories[] = {
        {"LC_CTYPE", LC_CTYPE_MASK},
        {"LC_NUMERIC", LC_NUMERIC_MASK},
        {"LC_TIME", LC_TIME_MASK},
        {"LC_COLLATE", LC_COLLATE_MASK},
        {"LC_MONETARY", LC_MONETARY_MASK},
        {"LC_MESSAGES", LC_MESSAGES_MASK},
        /* setlocale(LC_ALL, "") takes all or none. */
        {"LC_PAPER", LC_PAPER_MASK},
        {"LC_NAME", LC_NAME_MASK},
        {"LC_ADDRESS", LC_ADDRESS_MASK},
        {"LC_TELEPHONE", LC_TELEPHONE_MASK},
        {"LC_MEASUREMENT", LC_MEASUREMENT_MASK},
        {"LC_IDENTIFICATION", LC_IDENTIFICATION_MASK},
    };
    if (*look_up(environment, "LOCPATH")) {
        fy_buffer_add(why, "LOCPATH is set");
        return false;
    }
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        const char *name = look_up(environment, "LC_ALL");
        name = *name ? name : look_up(environment, categories[i].name);
        name = *name ? name : look_up(environment, "LANG");
        if (!*name || strcmp(name, "C") == 0 || strcmp(name, "POSIX") == 0) {
            continue;
        }
        locale_t locale = newlocale(categories[i].mask, name, (locale_t)0);
        if (!locale) {
            fy_buffer_printf(why, "no locale %s", name);
            return false;
        }
        bool fits = !encoded || categories[i].mask != LC_CTYPE_MASK ||
                    keeps_ascii(locale);
        freelocale(locale);
        if (!fits) {
            fy_buffer_printf(why, "words are not what their bytes are in %s",
                             name);
            return false;
        }
    }
    return true;
}

bool
fy_has_translations(const char *language)
{
    char name[64], folder[PATH_MAX];
    for (size_t n; *language; language += n + (language[n] != '\0')) {
        n = strcspn(language, ":");
        size_t whole = strcspn(language, ":.@"),
               base = strcspn(language, ":.@_");
        const size_t parts[] = {whole, base};
        for (size_t i = 0; i < 2; i++) {
            (void)snprintf(name, sizeof name, "%.*s", (int)parts[i], language);
            (void)snprintf(folder, sizeof folder,
                           "/usr/share/locale/%s/LC_MESSAGES", name);
            DIR *dir = strchr(name, '/') || !*name ? NULL : opendir(folder);
            const struct dirent *entry;
            bool some = false;
            while (dir && !some && (entry = readdir(dir))) {
                some = strstr(entry->d_name, ".mo");
            }
            if (dir) {
                (void)closedir(dir);
            }
            if (some) {
                return true;
            }
        }
    }
    return false;
}
