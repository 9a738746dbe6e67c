/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry-stub: stands in for one command under its own pid while the command
 * runs next to its files; the shim execs it in the command's place. Static and
 * small, since every annotated command pays for its start. On any doubt it
 * becomes the original, and nothing has happened.
 */
#include "config.h"

#include "common/path.h"
#include "shim/stub/local.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

int
stub_high(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    if (high < 0) {
        high = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* a low RLIMIT_NOFILE */
    }
    (void)close(fd);
    return high;
}

void
stub_complain(const struct stub *stub, const char *a, const char *b)
{
    const char *name = stub->argv[0] ? stub->argv[0] : "";
    struct iovec parts[] = {
        {(void *)(uintptr_t)name, strlen(name)}, {": ", 2},
        {(void *)(uintptr_t)a, strlen(a)},       {": ", 2},
        {(void *)(uintptr_t)b, strlen(b)},       {"\n", 1},
    };
    (void)!writev(2, parts, sizeof parts / sizeof *parts);
}

void
stub_exec(const struct stub *stub)
{
    (void)execve(stub->path, stub->argv, stub->envp);
    /* The shim looked at it before; somebody changed it since. The caller
     * of exec is gone: end as a shell's child would. */
    int error = errno;
    const char *text = strerrordesc_np(error);
    stub_complain(stub, stub->path, text ? text : "cannot run");
    _exit(error == ENOENT ? 127 : 126);
}

/*
 * Makes ps and pgrep -f show the command's own words. The words lie one behind
 * the other where the kernel put them; the stub's are shifted out.
 */
static void
show_command(int argc, char **argv)
{
    char *begin = argv[0];
    char *from = argv[3];
    char *end = argv[argc - 1] + strlen(argv[argc - 1]) + 1;
    for (int i = 1; i < argc; i++) {
        if (argv[i] != argv[i - 1] + strlen(argv[i - 1]) + 1) {
            return;
        }
    }
    size_t shift = (size_t)(from - begin);
    memmove(begin, from, (size_t)(end - from));
    memset(end - shift, 0, shift);
    for (int i = 3; i < argc; i++) {
        argv[i] -= shift;
    }
}

/* Returns the folder of the session's socket; the words themselves are
 * moved. */
static char *
folder_of(const char *socket)
{
    const char *slash = strrchr(socket, '/');
    return slash ? strndup(socket, (size_t)(slash - socket)) : NULL;
}

int
main(int argc, char **argv, char **envp)
{
    if (argc < 4) {
        static const char usage[] =
            "ferry-stub: it is the preloaded library that runs this\n";
        (void)!write(2, usage, sizeof usage - 1);
        return 2;
    }
    (void)prctl(PR_SET_NAME, fy_path_name(argv[2]));
    struct stub stub = {.socket = -1,
                        .path = argv[2],
                        .folder = folder_of(argv[1]),
                        .argv = argv + 3,
                        .envp = envp};
    if (stub_hello(&stub, argv[1])) {
        stub_exec(&stub);
    }
    char *path = strdup(stub.path);
    if (path) {
        stub.path = path;
        show_command(argc, argv);
    }
    stub_serve(&stub);
}
