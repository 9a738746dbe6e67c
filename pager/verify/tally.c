/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of `ferry verify' and its findings file, see the header. In
 * host processes (verification only) and in `ferry verify' itself.
 */
#include "config.h"

#include "pager/verify/tally.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/lines.h"

static const char *
finding_word(unsigned kind)
{
    static const char *const words[] = {
#define FY_FINDING_WORD(id, word) word,
        FY_FINDINGS(FY_FINDING_WORD)
#undef FY_FINDING_WORD
    };
    return kind < FY_FINDING_COUNT ? words[kind] : "unknown";
}

/* Sizes and heads a new file; checks an old one. Under its lock. */
static int
prepare(int fd, const struct fy_model *model, size_t bytes)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return FY_ERR_IO;
    }
    struct fy_tally head = {.model_hash = model->content_hash,
                            .nfunctions = model->functions.count,
                            .noperands = model->operands.count};
    memcpy(head.magic, FY_TALLY_MAGIC, sizeof head.magic);
    if (st.st_size == 0) {
        if (ftruncate(fd, (off_t)bytes) != 0 ||
            pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head) {
            return FY_ERR_IO;
        }
        return 0;
    }
    struct fy_tally old;
    if (st.st_size != (off_t)bytes ||
        pread(fd, &old, sizeof old, 0) != (ssize_t)sizeof old ||
        memcmp(&old, &head, sizeof old) != 0) {
        return FY_ERR_INVALID;
    }
    return 0;
}

int
fy_tally_open(const struct fy_model *model, const char *path,
              struct fy_tally **out)
{
    char name[4200];
    int n = snprintf(name, sizeof name, "%s.tally", path);
    if (n < 0 || (size_t)n >= sizeof name) {
        return FY_ERR_INVALID;
    }
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return FY_ERR_IO;
    }
    size_t bytes = sizeof(struct fy_tally) +
                   model->functions.count * sizeof(struct fy_tally_function) +
                   model->operands.count * sizeof(struct fy_tally_operand);
    int status = FY_ERR_IO;
    if (flock(fd, LOCK_EX) == 0) {
        status = prepare(fd, model, bytes);
    }
    void *p = MAP_FAILED;
    if (status == 0) {
        p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            status = FY_ERR_IO;
        }
    }
    close(fd); /* and unlocks */
    if (status == 0) {
        *out = p;
    }
    return status;
}

void
fy_tally_close(struct fy_tally *tally)
{
    if (tally) {
        munmap(tally, sizeof *tally +
                          tally->nfunctions * sizeof(struct fy_tally_function) +
                          tally->noperands * sizeof(struct fy_tally_operand));
    }
}

static uint32_t *
reported_bits(struct fy_tally *tally, uint32_t function, uint32_t operand)
{
    return operand == FY_NIL ? &fy_tally_function(tally, function)->reported
                             : &fy_tally_operand(tally, operand)->reported;
}

bool
fy_tally_reported(struct fy_tally *tally, uint32_t function, uint32_t operand,
                  enum fy_finding_kind kind)
{
    uint32_t *bits = reported_bits(tally, function, operand);
    return (__atomic_load_n(bits, __ATOMIC_RELAXED) & 1U << kind) != 0;
}

void
fy_tally_report(struct fy_tally *tally, const struct fy_model *model,
                const char *path, uint32_t function, uint32_t operand,
                enum fy_finding_kind kind, const char *text)
{
    uint32_t *bits = reported_bits(tally, function, operand);
    if (__atomic_fetch_or(bits, 1U << kind, __ATOMIC_RELAXED) & 1U << kind) {
        return;
    }
    const struct fy_function *f =
        FY_TABLE(model, fy_function, functions) + function;
    uint32_t line = f->line;
    const char *name = "-";
    if (operand != FY_NIL) {
        const struct fy_operand *o =
            FY_TABLE(model, fy_operand, operands) + operand;
        line = o->line;
        name = fy_model_string(model, o->name);
    }
    char row[4096];
    int n = snprintf(row, sizeof row, "%s\t%u\t%s\t%s\t%s\t%s\n",
                     fy_model_string(model, f->file), line,
                     fy_model_string(model, f->name), name, finding_word(kind),
                     text);
    if (n >= (int)sizeof row) {
        n = (int)sizeof row - 1;
        row[n - 1] = '\n';
    }
    (void)fy_lines_append(path, row, (size_t)n);
}
