/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry explain: the list of reasons, or a run with its decisions printed.
 */
#include "config.h"

#include <string.h>

#include "proxy/wire/reason.h"
#include "tools/launch.h"

static const struct {
    enum fy_reason reason;
    const char *meaning;
} meanings[] = {
    {FY_REASON_NONE, "the call was offloaded"},
    {FY_REASON_NO_DEVICE, "no device is configured or present"},
    {FY_REASON_TOO_SMALL, "the annotation's 'worth' says no; no engine asked"},
    {FY_REASON_UNPROFITABLE,
     "the cost model expects the original to be faster (see --force)"},
    {FY_REASON_BAD_ARGUMENTS,
     "a 'require' does not hold; the original reports it as always"},
    {FY_REASON_EMPTY, "there is nothing to compute"},
    {FY_REASON_OVERLAP, "a written operand overlaps another operand"},
    {FY_REASON_UNMAPPED, "an operand is not in mapped memory"},
    {FY_REASON_OVERFLOW, "a size does not fit 63 bits"},
    {FY_REASON_NO_FIT,
     "larger than the device, and its axes cannot be split further"},
    {FY_REASON_NESTED, "made from inside a call that was offloaded"},
    {FY_REASON_UNSUPPORTED, "an interface or form that ferry does not handle"},
    {FY_REASON_UNKNOWN_HANDLE, "the call that made its handle was not seen"},
    {FY_REASON_FORKED, "in a forked child of a process that used a device"},
    {FY_REASON_HOST_MEMORY, "no host memory for staging or undo"},
    {FY_REASON_DEVICE_ERROR,
     "the device failed; inputs were restored, the original ran"},
    {FY_REASON_DISABLED, "switched off after errors, or by the user"},
    {FY_REASON_ENGINE_MISSING, "libferry-engine.so could not be loaded"},
    {FY_REASON_INTEGER_WIDTH,
     "the width of the library's integers could not be told"},
    {FY_REASON_DEVICE_BUSY, "other calls kept the device for too long"},
    {FY_REASON_IN_HANDLER, "made from inside a signal handler"},
    {FY_REASON_NO_DEVICE_CALL,
     "its annotation names no function of the device ('on cuda')"},
    {FY_REASON_VERIFIED,
     "--verify: the device computed it as well, and both agree"},
    {FY_REASON_DIFFERENT,
     "--verify: the device's result is another; its function is switched off"},
    {FY_REASON_UNVERIFIED,
     "--verify: results differ, but rounding of the inputs explains it, or "
     "nobody can tell"},
    {FY_REASON_NO_KERNEL,
     "its kernel cannot be compiled or loaded; not tried again"},
    {FY_REASON_VALGRIND,
     "valgrind runs the program, and is to judge the program alone"},
};

_Static_assert(sizeof meanings / sizeof meanings[0] == FY_REASON_COUNT,
               "every reason has a meaning");

static const struct {
    enum fy_stage_reason reason;
    const char *meaning;
} stage_meanings[] = {
    {FY_STAGE_NONE, "the command ran at a proxy"},
    {FY_STAGE_NOT_ANNOTATED, "no annotation has a command of that name"},
    {FY_STAGE_NOT_PARSED, "an option or operand that the annotation lacks"},
    {FY_STAGE_FORBIDDEN, "the annotation says never, with these options"},
    {FY_STAGE_LOCAL_FILES, "nothing that it reads is on a mount"},
    {FY_STAGE_MIXED_PLACES,
     "it reads or writes files here and there, or on several hosts"},
    {FY_STAGE_LOCAL_INPUT, "its standard input comes from this machine"},
    {FY_STAGE_TERMINAL_INPUT, "it reads the terminal"},
    {FY_STAGE_OPEN_FILES,
     "it inherits files beyond 0-2; pipes only if it may use them"},
    {FY_STAGE_ODD_STREAM, "its fds 0-2: closed, a socket, a device, ..."},
    {FY_STAGE_UNCLEAR_PATH, "a path goes through a link or leaves the mount"},
    {FY_STAGE_NESTED_MOUNT, "another mount lies below an operand"},
    {FY_STAGE_NO_PROXY, "the host has no ferry that can be reached"},
    {FY_STAGE_BUSY, "the proxy is at its limits"},
    {FY_STAGE_REFUSED, "the proxy's own annotations refuse it"},
    {FY_STAGE_OUTSIDE, "an operand is not beneath a root of the proxy"},
    {FY_STAGE_OTHER_TOOL, "the host has another version of the program"},
    {FY_STAGE_OTHER_CONFIG, "a configuration file differs on the host"},
    {FY_STAGE_OTHER_NAMES, "users, groups or paths are others on the host"},
    {FY_STAGE_TOO_SMALL, "too little to do"},
    {FY_STAGE_UNPROFITABLE, "expected to be faster here (see --force)"},
    {FY_STAGE_LOST_LINK, "the connection broke; it ran here"},
    {FY_STAGE_LIMITS, "resource limits, or more input than can be kept"},
    {FY_STAGE_DISABLED, "switched off, or the session is ending"},
    {FY_STAGE_OTHER_VIEW,
     "it has other rights, or sees other files, than ferry run"},
    {FY_STAGE_OTHER_LOCALE,
     "the host lacks the locale, and it cannot be sent there"},
    {FY_STAGE_OTHER_MACHINE,
     "the host's processor or kernel cannot run the program (tools = host)"},
};

_Static_assert(sizeof stage_meanings / sizeof stage_meanings[0] ==
                   FY_STAGE_REASON_COUNT,
               "every reason of a stage has a meaning");

static const char *const absences[] = {
    [FY_ABSENCE_IN_USE] = "a call of another thread has it on the device",
    [FY_ABSENCE_NO_ROOM] = "the device has no memory for it",
    [FY_ABSENCE_UNUSED] = "it was given up before it was of use",
    [FY_ABSENCE_WRITTEN] = "the program writes it between any two calls",
    [FY_ABSENCE_UNWATCHED] =
        "the kernel tells of no writes, and to hash it would not pay",
    [FY_ABSENCE_PINNED] = "a device may write it unseen",
    [FY_ABSENCE_REMAPPED] = "its memory is another mapping than before",
    [FY_ABSENCE_SHARED_DEVICE] = "the program uses the device itself",
    [FY_ABSENCE_HIDDEN] = "copies run beside kernels that take longer",
};

_Static_assert(sizeof absences / sizeof absences[0] == FY_ABSENCE_COUNT,
               "every reason of an operand has a meaning");

static void
print_reasons(void)
{
    printf("Why a call was not offloaded, as --explain and reports have "
           "it:\n\n");
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        printf("  %-15s %s\n", fy_reason_word(meanings[i].reason),
               meanings[i].meaning);
    }
    printf("\nWhy an operand did not stay on the device:\n\n");
    for (unsigned i = 0; i < FY_ABSENCE_COUNT; i++) {
        printf("  %-15s %s\n", fy_absence_word(i), absences[i]);
    }
    printf("\nWhy a command did not run at a proxy:\n\n");
    for (size_t i = 0; i < FY_STAGE_REASON_COUNT; i++) {
        printf("  %-15s %s\n", fy_stage_reason_word(stage_meanings[i].reason),
               stage_meanings[i].meaning);
    }
}

int
fy_tool_explain(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: ferry explain\n"
               "       ferry explain [RUN-OPTION]... [--] COMMAND...\n"
               "Says what each reason means; with a COMMAND, runs it as "
               "'ferry run --explain'.\n");
        return fy_finish_output(FY_EXIT_OK);
    }
    if (argc == 1) {
        print_reasons();
        return fy_finish_output(FY_EXIT_OK);
    }
    struct fy_run_options options;
    int status;
    if (fy_run_options_parse("explain", argc, argv, &options, &status)) {
        return status;
    }
    options.explain = true;
    return fy_launch(&options);
}
