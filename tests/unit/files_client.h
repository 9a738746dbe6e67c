/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the files process over a socketpair, for tests and measurements: sends
 * requests, waits for answers. The process is forked and serves a folder of the test's.
 */
#ifndef FERRY_TESTS_FILES_CLIENT_H
#define FERRY_TESTS_FILES_CLIENT_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proxy/files/message.h"

struct files_client {
    pid_t server;
    int socket; /* -1: closed */
    uint64_t id;
    char *in;
    size_t in_bytes, in_capacity,
        used;         /* used: of the frame that was read last */
    unsigned notices; /* that came between answers */
    void (*notice)(struct files_client *client,
                   const struct fy_files_message *message);
};

/* Processes that are started outlive their connection. */
extern bool files_lingers;

/* Forks the process for the folder. Without a greeting. */
void files_start(struct files_client *client, const char *root);
/* The same and says hello with these flags. */
void files_open(struct files_client *client, const char *root, uint32_t flags);
/* Closes the socket and waits for the process, which must have ended well. */
void files_close(struct files_client *client);

/* Sends a request, of which type and fields are set; its id. */
uint64_t files_send(struct files_client *client,
                    struct fy_files_message *request);
void files_send_bytes(struct files_client *client, const void *bytes, size_t n);
/* The next frame; what it borrows is good until the next call. False: the stream has
 * ended. Fails the test after 20 seconds. */
bool files_receive(struct files_client *client, struct fy_files_message *out);
/* Sends, and waits for the answer with this id; its status. Notices that come before are
 * counted. */
int files_call(struct files_client *client, struct fy_files_message *request,
               struct fy_files_message *answer);

struct fy_files_bytes files_text(const char *text);
struct fy_files_node files_node(const char *path);

/* A regular file with these bytes, by requests. */
int files_make(struct files_client *client, const char *folder,
               const char *name, const char *text);

/* ---- a folder and a client for each test of a case ---- */

extern char files_root[64];
extern struct files_client files_client;

/* flags: 0, or READ_ONLY. */
TCase *files_case(Suite *suite, const char *name, uint32_t flags);
/* A path in the folder; good until the next call. */
const char *files_place(const char *below);
/* Writes, compares, looks at a file there without the process. */
void files_put(const char *name, const char *text);
void files_expect(const char *name, const char *text);
struct stat files_look(const char *name);
/* The answer's data is that text. */
void files_same(const struct fy_files_message *answer, const char *text);

#endif
