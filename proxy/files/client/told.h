/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the server's attributes of files into the tree, and tells the kernel: attributes
 * with their times, and entries that it has to forget.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_TOLD_H
#define FERRY_PROXY_FILES_CLIENT_TOLD_H

#include "proxy/files/client/client.h"

/* Why attributes were told. */
enum fy_told {
    FY_TOLD_OWN, /* they are the effect of a call of this mount: contents that differ are
                     * another's */
    FY_TOLD_WRITTEN, /* ... which changed contents; the caller knows of others' */
    FY_TOLD_ASKED,   /* they go to the kernel now */
    FY_TOLD_UNASKED /* the kernel knows nothing of them */
};

/* The node of the kernel's number; NULL: the request was answered, ESTALE. */
struct fy_node *fy_told_node(struct fy_client *client, fuse_req_t request,
                             fuse_ino_t number);

/*
 * The node's attributes, asked for when the client's stamp was `stamp'. Entries of the
 * kernel that are no longer true are forgotten. False: they cannot be the node's.
 */
bool fy_told_attr(struct fy_client *client, struct fy_node *node,
                  const struct fy_files_attr *attr, enum fy_told why,
                  uint64_t stamp);
/* Takes an answer to a write of this mount, with the attributes before and after. True:
 * others wrote in between. */
bool fy_told_written(struct fy_client *client, struct fy_node *node,
                     const struct fy_files_message *answer, uint64_t stamp);
/*
 * The name leads to an object with these attributes. NULL: that cannot be (*out_error is
 * an errno then).
 */
struct fy_node *fy_told_name(struct fy_client *client, struct fy_node *folder,
                             struct fy_files_bytes name,
                             const struct fy_files_attr *attr, enum fy_told why,
                             uint64_t stamp, int *out_error);
/* The name leads to the known node with these attributes; the kernel looks it up anew. */
void fy_told_name_again(struct fy_client *client, struct fy_node *folder,
                        struct fy_files_bytes name,
                        const struct fy_files_attr *attr);
/* The cached entry of the name may be wrong: it is looked up when it is needed. Until
 * then it leads where it led, as files that are open here are found by it. */
void fy_told_name_lost(struct fy_client *client, struct fy_node *folder,
                       struct fy_files_bytes text);
/* A notice gives the name to the file of that number (0: to none): names of the folder change,
 * and answers that are on their way may be older. */
void fy_told_name_noticed(struct fy_client *client, struct fy_node *folder,
                          struct fy_files_bytes name, uint64_t ino);
/* An own change that was asked when the client's stamp was `stamp' has given the name to that
 * file (0: to none). If a notice came meanwhile that says otherwise, the name is lost. */
void fy_told_name_check(struct fy_client *client, struct fy_node *folder,
                        struct fy_files_bytes name, uint64_t ino,
                        uint64_t stamp);
/* Returns true if the kernel knows a node with these attributes that has lost all names. */
bool fy_told_is_nameless(const struct fy_tree *tree,
                         const struct fy_files_attr *attr);
/* Whether the name's file is being made (early.c). Notices of the name are looked at once
 * that is answered. ino: of its file; UINT64_MAX: nothing. */
bool fy_told_expected(const struct fy_name *name, uint64_t ino);
/* The order of two times: below, at or above 0. */
int fy_told_compare(const struct fy_files_time *a,
                    const struct fy_files_time *b);
/* The contents may be others: whatever is known of them here and in the kernel is dropped. */
void fy_told_lost(struct fy_client *client, struct fy_node *node);
/* The attributes may be others: they are asked for again. */
void fy_told_stale(struct fy_client *client, struct fy_node *node);
/* The name leads to nothing any more; its file may have others. */
void fy_told_removed(struct fy_client *client, struct fy_name *name);
/* Names of the folder change, by this mount or by others. */
void fy_told_change(struct fy_client *client, struct fy_node *folder);

/* Whether all names of the folder are in the tree, as far as is known. */
bool fy_told_is_whole(const struct fy_client *client,
                      const struct fy_node *folder);
/* Whether a notice comes when the attributes change. */
bool fy_told_is_watched(const struct fy_node *node);
/* Whether they are as they were told: watched, or told lately. */
bool fy_told_is_fresh(const struct fy_client *client,
                      const struct fy_node *node);

/* The entry of a node for the kernel, which counts a lookup once it was replied. */
void fy_told_entry(const struct fy_client *client, const struct fy_node *folder,
                   const struct fy_node *node, struct fuse_entry_param *out);
void fy_reply_entry(struct fy_client *client, fuse_req_t request,
                    const struct fy_node *folder, struct fy_node *node);
/* A name that is not there. */
void fy_reply_absent(struct fy_client *client, fuse_req_t request,
                     const struct fy_node *folder, bool certain);
/* As fy_reply_attr, with another size, which the kernel asks for again when it needs it. */
void fy_reply_size(struct fy_client *client, fuse_req_t request,
                   const struct fy_node *node, uint64_t size);
void fy_reply_attr(struct fy_client *client, fuse_req_t request,
                   const struct fy_node *node);

/* To the kernel, by the notifier: kind is ATTRIBUTES or CONTENTS. */
void fy_forget_node(struct fy_client *client, const struct fy_node *node,
                    enum fy_notice_kind kind);
/* A name of the folder: kind is NAME, EXPIRE or DELETED (`was' is its former file;
 * NULL: not known). */
void fy_forget_name(struct fy_client *client, const struct fy_node *folder,
                    struct fy_files_bytes name, enum fy_notice_kind kind,
                    const struct fy_node *was);

/* Users: a number there as it is shown here, and a number from here. */
uint32_t fy_owner_there(const struct fy_owners *owners, uint32_t here,
                        bool group);

#endif
