/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a mount: a unix stream socket at the path that was given to
 * ferry-mount (--control=PATH), mode 0600. A tool connects, writes one request line,
 * reads the answer up to the end of the stream. An answer is lines "KEY VALUE", then
 * "ok", or "error TEXT" as its last line; without such a line the mount has ended
 * meanwhile.
 *
 *   report      counters of the mount. Keys: place, folder, pid, link (ready, waiting),
 *               requests, waited (round trips that some caller waited for), sent_bytes,
 *               received_bytes, rtt_us, nodes, watched, notices, lost, pushed_files,
 *               pushed_bytes, used_files, used_bytes, named_files, trees, pending_bytes,
 *               pending_requests, breaks, errors; then a line
 *               "request TYPE COUNT" for each type of message.
 *   settle      answered once everything that callers were told is done at the storage; at
 *               once, without a round trip, where nothing is outstanding. "error TEXT" where
 *               something could not be done.
 *   barrier     answered once everything that callers were told is done at the storage, and
 *               every change there until then is known to the kernel here.
 *   ahead KIND  a command begins: files that it was given are fetched. Behind the line
 *               follow, up to the end of the stream, a folder and words, each with a NUL
 *               behind; words that are no paths below the mount are passed over. Answered
 *               once all has come; which may stay unread.
 *   end         barrier, then unmount. "error busy" when files of it are in use.
 *   end lazy    the same, but the folder is detached at once (MNT_DETACH), and the mount
 *               ends when its last file is closed.
 *   end force   unmounts at once: calls that wait end with an error, unwritten bytes are
 *               lost. Lines "lost_bytes N", "lost_files N", "lost_creations N" say how much.
 */
#ifndef FERRY_PROXY_FILES_CLIENT_CONTROL_H
#define FERRY_PROXY_FILES_CLIENT_CONTROL_H

#define FY_FILES_CONTROL_REPORT  "report"
#define FY_FILES_CONTROL_SETTLE  "settle"
#define FY_FILES_CONTROL_BARRIER "barrier"
/* Words that may be paths; files; folders of which names and attributes are read, all below
 * them too; folders of which the files are read, too. */
#define FY_FILES_CONTROL_AHEAD "ahead "
#define FY_FILES_CONTROL_WORDS "ahead words"
#define FY_FILES_CONTROL_FILES "ahead files"
#define FY_FILES_CONTROL_NAMES "ahead names"
#define FY_FILES_CONTROL_TREES "ahead trees"
#define FY_FILES_CONTROL_END   "end"
#define FY_FILES_CONTROL_LAZY  "end lazy"
#define FY_FILES_CONTROL_FORCE "end force"

enum {
    FY_FILES_CONTROL_LINE = 64,         /* bytes of a request line, at most */
    FY_FILES_CONTROL_BLOCK = 256 << 10, /* bytes behind that, at most */
};

#endif
