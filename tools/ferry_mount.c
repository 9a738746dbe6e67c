/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry-mount: the process behind `ferry mount', which starts it. A program of its own, as
 * only it needs libfuse3.
 *
 *   ferry-mount [-f] [-o NAME[=VALUE],...] [--ferry=PATH] [--control=PATH] PLACE FOLDER
 *
 * PLACE is as fy_place_parse() takes it, FOLDER absolute. Without -f it goes to the
 * background once the mount answers, and the program that was started ends: 0, or 1 with
 * a message on stderr. With FERRY_DEBUG and FERRY_DEBUG_FILE it logs its requests.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/debug.h"
#include "common/plain.h"
#include "proxy/files/client/mount.h"

enum {
    EXIT_USAGE = 2,
};

struct process {
    struct fy_files_mount_options mount;
    bool foreground;
    int ready; /* a pipe to the program that was started; -1: none */
    char kernel_options[4096], ferry[PATH_MAX];
};

static int
usage(const char *what, const char *word)
{
    (void)fprintf(stderr, "ferry-mount: %s%s\n", what, word);
    return EXIT_USAGE;
}

/* Appends to the options of mount(8). */
static bool
add_kernel_option(struct process *process, const char *text)
{
    struct fy_buffer buffer = {.text = process->kernel_options,
                               .capacity = sizeof process->kernel_options,
                               .used = strlen(process->kernel_options)};
    fy_buffer_printf(&buffer, "%s%s", buffer.used > 0 ? "," : "", text);
    return !buffer.overflowed;
}

static bool
take_number(const char *text, double scale, unsigned *out)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end) * scale;
    if (end == text || *end || errno || !(value >= 0) || value > INT_MAX) {
        return false;
    }
    *out = (unsigned)value;
    return true;
}

/* One word of -o. */
static bool
take_option(struct process *process, char *word)
{
    struct fy_files_mount_options *mount = &process->mount;
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {
        {"ro", &mount->read_only},    {"strict", &mount->strict},
        {"async", &mount->async},     {"allow_other", &mount->allow_other},
        {"devices", &mount->devices},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(word, flags[i].word) == 0) {
            *flags[i].flag = true;
            return true;
        }
    }
    if (strncmp(word, "soft=", 5) == 0) {
        return take_number(word + 5, 1, &mount->soft_seconds);
    }
    if (strncmp(word, "ac=", 3) == 0) {
        return take_number(word + 3, 1000, &mount->ac_ms);
    }
    if (strncmp(word, "idmap=", 6) == 0) {
        mount->numbers = strcmp(word + 6, "none") == 0;
        return mount->numbers || strcmp(word + 6, "user") == 0;
    }
    if (strncmp(word, "source=", 7) == 0) {
        mount->source = word + 7;
        return true;
    }
    return strcmp(word, "rw") == 0 || add_kernel_option(process, word);
}

static int
take_options(struct process *process, char *list)
{
    char *rest = list;
    for (char *word; (word = strsep(&rest, ","));) {
        if (*word && !take_option(process, word)) {
            return usage("this option is not known or has a wrong value: ",
                         word);
        }
    }
    return 0;
}

/* In a build tree `ferry' lies beside this program, else two folders above in bin. */
static void
find_ferry(struct process *process)
{
    char self[PATH_MAX];
    static const char *const places[] = {"", "/../../bin", "/../bin"};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        *slash = '\0';
        (void)snprintf(process->ferry, sizeof process->ferry, "%.3000s%s/ferry",
                       self, places[i]);
        if (access(process->ferry, X_OK) == 0) {
            process->mount.ferry = process->ferry;
            return;
        }
    }
}

/* 0, or the exit status. */
static int
read_arguments(struct process *process, int argc, char **argv)
{
    static const struct option options[] = {
        {"ferry", required_argument, NULL, 'F'},
        {"control", required_argument, NULL, 'C'},
        {0}};
    uint32_t rooms = 0;
    const char *words = getenv("FERRY_DEBUG"),
               *log = getenv("FERRY_DEBUG_FILE");
    for (int word;
         (word = getopt_long(argc, argv, "fo:", options, NULL)) != -1;) {
        int status = 0;
        switch (word) {
        case 'f':
            process->foreground = true;
            break;
        case 'o':
            status = take_options(process, optarg);
            break;
        case 'F':
            process->mount.ferry = optarg;
            break;
        case 'C':
            process->mount.control = optarg;
            break;
        default:
            return EXIT_USAGE;
        }
        if (status) {
            return status;
        }
    }
    if (argc - optind != 2 || argv[optind + 1][0] != '/') {
        return usage("it wants a place and an absolute folder", "");
    }
    if (words && log) {
        if (fy_debug_parse(words, &rooms, NULL)) {
            return usage("no such room in FERRY_DEBUG: ", words);
        }
        fy_debug_start(rooms, log);
    }
    process->mount.place = argv[optind];
    process->mount.folder = argv[optind + 1];
    process->mount.kernel_options = process->kernel_options;
    if (!process->mount.ferry) {
        find_ferry(process);
    }
    return 0;
}

/* The mount answers: the program that was started ends. */
static void
ready(void *context)
{
    struct process *process = context;
    if (process->ready >= 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)setsid();
        (void)!chdir("/");
        for (int fd = 0; null >= 0 && fd < 3; fd++) {
            (void)dup2(null, fd);
        }
        (void)!write(process->ready, "\n", 1);
        (void)close(process->ready);
        process->ready = -1;
    }
}

/* In the program that was started: waits for the mount. */
static int
wait_until_ready(int pipe_end, pid_t child)
{
    char byte;
    ssize_t n;
    int status;
    do {
        n = read(pipe_end, &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n == 1) {
        return 0;
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : 1;
}

int
main(int argc, char **argv)
{
    struct process process = {.ready = -1};
    int ends[2];
    int status = read_arguments(&process, argc, argv);
    if (status) {
        return status;
    }
    if (!process.foreground) {
        if (pipe2(ends, O_CLOEXEC) != 0) {
            return usage("no pipe", "");
        }
        pid_t child = fork();
        if (child != 0) {
            (void)close(ends[1]);
            return child < 0 ? usage("no process", "")
                             : wait_until_ready(ends[0], child);
        }
        (void)close(ends[0]);
        process.ready = ends[1];
    }
    process.mount.ready = ready;
    process.mount.context = &process;
    char text[512] = "";
    struct fy_buffer why;
    fy_buffer_start(&why, text, sizeof text);
    if (fy_files_mount(&process.mount, &why)) {
        fy_plain(text, "");
        (void)fprintf(stderr, "ferry mount: %s: %s\n", process.mount.place,
                      text);
        return 1;
    }
    return 0;
}
