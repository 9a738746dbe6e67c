/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about the contents of files. The descriptors are shared by requests, so each
 * call names its offset.
 */
#include "config.h"

#include "proxy/files/server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    COPY_PIECE_BYTES = 16 << 20, /* between two looks at CANCEL */
    COPY_MOST_BYTES = 1 << 30,   /* of one request; the client asks again */
    COPY_BUFFER_BYTES = 256 << 10,
};

int
fy_files_read(struct fy_files_request *request, struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    uint64_t want = message->length < FY_FILES_DATA_BYTES ? message->length
                                                          : FY_FILES_DATA_BYTES;
    if (message->offset > INT64_MAX - FY_FILES_DATA_BYTES) {
        return -EINVAL;
    }
    char *to = malloc(want + 1);
    if (!to) {
        return -ENOMEM;
    }
    request->scratch.bytes = to;
    size_t done = 0;
    while (done < want) {
        ssize_t n = pread(request->object->reads, to + done, want - done,
                          (off_t)(message->offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -errno;
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    answer->data = (struct fy_files_bytes){to, done};
    return fy_files_attr_at(request->server, request->object->reads,
                            &answer->attr);
}

int
fy_files_write(struct fy_files_request *request,
               struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    int fd = request->object->writes;
    if (message->offset > INT64_MAX - FY_FILES_FRAME_BYTES) {
        return -EFBIG;
    }
    int status = fy_files_attr_at(request->server, fd, &answer->other_attr);
    size_t done = 0;
    bool marked = fy_files_own_begin(request->server, answer->other_attr.ino);
    while (!status && done < message->data.n) {
        ssize_t n = pwrite(fd, message->data.at + done, message->data.n - done,
                           (off_t)(message->offset + done));
        if (n < 0 && errno != EINTR) {
            status = -errno;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    fy_files_own_end(request->server, marked);
    return status ? status
                  : fy_files_attr_at(request->server, fd, &answer->attr);
}

int
fy_files_fsync(struct fy_files_request *request,
               struct fy_files_message *answer)
{
    const struct fy_files_object *object = request->object;
    int fd = object->writes >= 0 ? object->writes : object->reads;
    bool data_only = (request->message.flags & FY_FILES_DATA_ONLY) != 0;
    if ((data_only ? fdatasync(fd) : fsync(fd)) != 0) {
        return -errno;
    }
    return fy_files_attr_at(request->server, fd, &answer->attr);
}

int
fy_files_allocate(struct fy_files_request *request,
                  struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    int fd = request->object->writes, status;
    if (message->offset > INT64_MAX || message->length > INT64_MAX ||
        message->flags > INT32_MAX) {
        return -EINVAL;
    }
    do {
        status = fallocate(fd, (int)message->flags, (off_t)message->offset,
                           (off_t)message->length);
    } while (status != 0 && errno == EINTR && !request->cancelled);
    return status != 0 ? -errno
                       : fy_files_attr_at(request->server, fd, &answer->attr);
}

int
fy_files_seek(struct fy_files_request *request, struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    if (message->offset > INT64_MAX ||
        (message->flags != SEEK_DATA && message->flags != SEEK_HOLE)) {
        return -EINVAL;
    }
    off_t at = lseek(request->object->reads, (off_t)message->offset,
                     (int)message->flags);
    answer->offset = (uint64_t)at;
    return at < 0 ? -errno : 0;
}

/* ---- copy ------------------------------------------------------------------------------- */

/* Where the kernel does not copy between the two. How many bytes, or a negative errno. */
static ssize_t
copy_by_hand(int from, off_t from_at, int to, off_t to_at, size_t n)
{
    char *buffer = malloc(COPY_BUFFER_BYTES);
    if (!buffer) {
        return -ENOMEM;
    }
    n = n < COPY_BUFFER_BYTES ? n : COPY_BUFFER_BYTES;
    ssize_t got = pread(from, buffer, n, from_at);
    ssize_t done = 0;
    while (got > 0 && done < got) {
        ssize_t wrote =
            pwrite(to, buffer + done, (size_t)(got - done), to_at + done);
        if (wrote < 0 && errno != EINTR) {
            got = -1;
        }
        done += wrote > 0 ? wrote : 0;
    }
    free(buffer);
    return got < 0 ? -errno : done;
}

static ssize_t
copy_piece(int from, off_t from_at, int to, off_t to_at, size_t n)
{
    off_t in = from_at, out = to_at;
    ssize_t done = copy_file_range(from, &in, to, &out, n, 0);
    if (done < 0 &&
        (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS)) {
        return copy_by_hand(from, from_at, to, to_at, n);
    }
    return done < 0 ? -errno : done;
}

int
fy_files_copy(struct fy_files_request *request, struct fy_files_message *answer)
{
    const struct fy_files_message *message = &request->message;
    uint64_t want =
        message->length < COPY_MOST_BYTES ? message->length : COPY_MOST_BYTES;
    uint64_t done = 0;
    if (message->offset > INT64_MAX - COPY_MOST_BYTES ||
        message->other_offset > INT64_MAX - COPY_MOST_BYTES) {
        return -EINVAL;
    }
    while (done < want && !request->cancelled) {
        uint64_t piece =
            want - done < COPY_PIECE_BYTES ? want - done : COPY_PIECE_BYTES;
        ssize_t n =
            copy_piece(request->source->reads, (off_t)(message->offset + done),
                       request->object->writes,
                       (off_t)(message->other_offset + done), piece);
        if (n < 0 && done == 0 && n != -EINTR) {
            return (int)n;
        }
        if (n <= 0) {
            break;
        }
        done += (uint64_t)n;
    }
    answer->length = done;
    return fy_files_attr_at(request->server, request->object->writes,
                            &answer->attr);
}
