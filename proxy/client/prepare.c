/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for file systems around a stage. Before it, what it reads of this
 * machine is looked at, all that was written here is on the mount's host, and the
 * mount is known to show that host's files; after an effect, what this machine
 * remembers is forgotten. Each in a thread of the pool; the stage's state waits
 * meanwhile, for this machine's own files not for long.
 * Long because what is done before and after share one kind of job.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "annotations/model/model.h"
#include "common/clock.h"
#include "common/debug.h"
#include "common/path.h"
#include "proxy/client/barrier.h"
#include "proxy/client/stage.h"
#include "proxy/files/client/control.h"
#include "proxy/storage/control.h"
#include "proxy/storage/fresh.h"
#include "proxy/storage/tools.h"
#include "proxy/storage/work.h"
#include "proxy/wire/protocol.h"

enum {
    STUCK_MAX = 4, /* threads whose mount does not answer; the rest go on */
    /* A mount whose barrier takes longer is far: names are read ahead there. */
    FAR_NS = 4000000,
    RENEW_TRIPS = 6, /* to forget a root, to read it again, and some to spare */
    /* A host names the changed files within 500 ms of the end of a stage, and a round trip;
     * a long list needs more time, but never more than caches do to time out. */
    TOLD_MS = 10000,
    TOLD_LONGEST_MS = 22000,
    /* After an effect the mount is looked at for as long as the effect took, and so long. */
    SPARE_MS = 1000,
    SPARE_TRIPS = 32,
    SPARE_TRIP_MS =
        250, /* longest round trip that counts: a host can answer late */
    EXCESS_MS = 10000, /* of all effects; then effects run locally */
};
static const uint64_t ms_ns = 1000000;

struct fy_job {
    struct fy_work work;
    struct stage *stage; /* NULL: it is gone */
    struct fy_session *session;
    struct fy_gather *gather; /* before */
    struct fy_alike *alike;
    const char *is_output; /* an operand: `alike' has it */
    int gathered;          /* atomic: it was run */
    bool stuck;            /* the stage does not wait for it */
    bool submitted;        /* after: the pool has it */
    bool cached;           /* the mounts' caches are dealt with too */
    bool again;            /* earlier writes are at the host by now */
    struct fy_mount mounts[FY_STAGE_MOUNTS];
    struct fy_quiet quiet[FY_STAGE_MOUNTS]; /* before */
    unsigned nmounts;
    char **paths; /* before: what is read ahead; after: what may have changed */
    size_t npaths, capacity;
    bool hash_root[FY_STAGE_MOUNTS], refresh_root[FY_STAGE_MOUNTS];
    /* before: the login is expected to end then; 0: none is waited for */
    uint64_t login_ns;
    uint64_t trip_ns;    /* before: as a barrier took */
    bool effect;         /* before: the stage has one */
    bool owners_changed; /* after: to those of touched.folders */
    bool cut;            /* after: more may have changed than `paths' */
    unsigned stale; /* after: so many of them are perhaps shown as before */
    char *touched_bytes; /* after: what `touched' borrows */
    struct fy_touched touched;
    struct fy_config_hash roots[FY_STAGE_MOUNTS];
    int status;
};

static void
job_free(struct fy_job *job)
{
    for (size_t i = 0; i < job->npaths; i++) {
        free(job->paths[i]);
    }
    free(job->paths);
    fy_touched_clear(&job->touched);
    free(job->touched_bytes);
    fy_gather_free(job->gather);
    fy_alike_free(job->alike);
    free(job);
}

/* Its session is gone, and its stage. */
static void
drop(struct fy_work *work)
{
    job_free((struct fy_job *)work);
}

static struct fy_job *
job_new(struct stage *stage)
{
    struct fy_job *job = calloc(1, sizeof *job);
    if (job) {
        job->work.drop = drop;
        job->stage = stage;
        job->session = stage->session;
        for (unsigned i = 0; i < stage->plan.nmounts; i++) {
            struct fy_mount *mount = &job->mounts[job->nmounts++];
            *mount = *stage->plan.mounts[i];
            mount->uid = stage->connection &&
                                 stage->connection->state == CONNECTION_READY
                             ? stage->connection->hello.uid
                             : FY_USER_UNKNOWN;
        }
    }
    return job;
}

/* False: no memory. */
static bool
add_path(struct fy_job *job, const char *text, size_t n)
{
    if (job->npaths + 1 >= job->capacity) {
        size_t capacity = job->capacity ? 2 * job->capacity : 16;
        char **larger = realloc(job->paths, capacity * sizeof *larger);
        if (!larger) {
            return false;
        }
        job->paths = larger;
        job->capacity = capacity;
    }
    char *copy = strndup(text, n);
    if (!copy) {
        return false;
    }
    job->paths[job->npaths++] = copy;
    job->paths[job->npaths] = NULL;
    return true;
}

/* The path, and with `parent' the folder that it is in, as far as they are on a
 * mount. */
static bool
add_changed(struct fy_job *job, const char *path, size_t n, bool parent)
{
    for (unsigned i = 0; i < job->nmounts; i++) {
        const char *mount = job->mounts[i].path;
        size_t top = strlen(mount), folder = n;
        if (n < top || memcmp(path, mount, top) != 0 ||
            (n > top && path[top] != '/')) {
            continue;
        }
        while (folder > top && path[folder - 1] != '/') {
            folder--;
        }
        return add_path(job, path, n) &&
               (!parent ||
                add_path(job, path, folder <= top + 1 ? top : folder - 1));
    }
    return true;
}

/* All that is above it: which of that is new only its host knows. */
static bool
add_above(struct fy_job *job, const char *path)
{
    for (size_t n = strlen(path); n > 1; n--) {
        if (path[n - 1] == '/' && !add_changed(job, path, n - 1, true)) {
            return false;
        }
    }
    return true;
}

/* The operands that are written; false: no memory. */
static bool
add_operands(struct fy_job *job, const struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    char path[PATH_MAX];
    for (uint32_t i = 0; i < invocation->nuses; i++) {
        const struct fy_use *use = &invocation->uses[i];
        if (use->is_stdin || use->access == FY_ACCESS_IN ||
            fy_path_join(stage->facts.cwd, stage->argv[use->arg] + use->offset,
                         path)) {
            continue;
        }
        if (!add_changed(job, path, strlen(path), true)) {
            return false;
        }
        if (fy_invocation_is(invocation, FY_TRAIT_MAKES_FOLDERS) &&
            !add_above(job, path)) {
            return false;
        }
    }
    return true;
}

/* Files of this machine have no caches but the kernel's own. */
static bool
is_cached(const struct stage *stage)
{
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        if (stage->plan.mounts[i]->type[0] != '\0') {
            return true;
        }
    }
    return false;
}

/* Whatever changes there is told to the mounts: only their barrier has to be asked for. */
static bool
is_told(const struct stage *stage)
{
    bool all = true;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        all = all && (mount->type[0] == '\0' || mount->traits & FY_MOUNT_TOLD);
    }
    return all;
}

/* ---- before ---------------------------------------------------------------------------- */

/*
 * What sshfs remembers of a root is old where others made names in it: the proof is
 * then asked for twice, with a fresh root in between. A stage with an effect changes
 * times of status change anyway, so its root is made fresh beside the login.
 */
static bool
renews_root(const struct fy_job *job, unsigned i)
{
    return job->hash_root[i] && job->effect && !job->again &&
           fy_clock_ns() + RENEW_TRIPS * job->trip_ns < job->login_ns;
}

static void *
run_ahead(void *context)
{
    const struct fy_job *job = context;
    for (size_t i = 0; i < job->npaths; i++) {
        fy_fresh_ahead(job->paths[i], job->trip_ns, job->login_ns);
    }
    return NULL;
}

/* Returns true if the status of a folder that sshfs shows can be changed without changing
 * more: no owner is mapped. */
static bool
can_change(const struct fy_mount *mount)
{
    return strcmp(mount->type, "fuse.sshfs") == 0 &&
           !(mount->traits & (FY_MOUNT_MAPS_USERS | FY_MOUNT_READ_ONLY));
}

/*
 * Proves a mount's own folder. On NFS the proof has the numbers of the server. On sshfs there
 * are names and times alone, and a copy has them too (an sftp server that has another root,
 * say). So once in a mount's life, after the host has looked at the status of its folder and
 * `refused', the folder is given the owner that it has, and the host must see a later status.
 */
static int
hash_root(const struct fy_mount *mount, const char *proofs, bool refused,
          struct fy_config_hash *out)
{
    struct stat about;
    if (can_change(mount) && !fy_proof_known(proofs, mount)) {
        bool changed = refused && stat(mount->path, &about) == 0 &&
                       chown(mount->path, about.st_uid, (gid_t)-1) == 0;
        out->changed = changed    ? FY_CONFIG_JUST_NOW
                       : !refused ? FY_CONFIG_ALIKE
                                  : 0;
    }
    if (mount->traits & FY_MOUNT_BY_NUMBER) {
        if (stat(mount->path, &about) != 0) {
            return FY_ERR_IO;
        }
        out->inode = about.st_ino;
        out->changed = fy_config_changed(&about);
    }
    return fy_config_hash(mount->path, out->sha256);
}

static void
run_before(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    const char *why;
    pthread_t ahead;
    fy_gather_run(job->gather);
    __atomic_store_n(&job->gathered, 1, __ATOMIC_RELEASE);
    job->is_output = fy_alike_find(job->alike);
    if (fy_gather_reason(job->gather, &why) || !job->cached) {
        return;
    }
    uint64_t began_ns = fy_clock_ns();
    for (unsigned i = 0; !job->status && i < job->nmounts; i++) {
        job->status =
            job->again ? 0 : fy_barrier(&job->mounts[i], &job->quiet[i]);
    }
    job->trip_ns = fy_clock_ns() - began_ns;
    bool reads = !job->status && job->npaths > 0 && job->trip_ns > FAR_NS &&
                 pthread_create(&ahead, NULL, run_ahead, job) == 0;
    for (unsigned i = 0; !job->status && i < job->nmounts; i++) {
        const struct fy_mount *mount = &job->mounts[i];
        if (job->refresh_root[i] || renews_root(job, i)) {
            const char *root[] = {mount->path, NULL};
            (void)fy_fresh_after(mount, root, NULL);
        }
        if (job->hash_root[i]) {
            job->status = hash_root(mount, job->session->logins,
                                    job->refresh_root[i], &job->roots[i]);
        }
    }
    if (reads) {
        pthread_join(ahead, NULL);
    }
}

static void
done_before(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    struct stage *stage = job->stage;
    job->session->nstuck -= job->stuck ? 1 : 0;
    if (stage) {
        stage->prepare.job = NULL;
        for (unsigned i = 0; job->cached && i < job->nmounts; i++) {
            size_t at =
                (size_t)(stage->plan.mounts[i] - stage->session->mounts);
            stage->session->quiet[at] = job->quiet[i];
        }
        fy_gather_free(stage->prepare.gather);
        stage->prepare.gather = job->gather;
        job->gather = NULL;
        stage->prepare.has_root_hash = false;
        for (unsigned i = 0; i < job->nmounts; i++) {
            stage->prepare.hashed[i] = job->hash_root[i] && !job->status;
            stage->prepare.has_root_hash =
                stage->prepare.has_root_hash || stage->prepare.hashed[i];
        }
        memcpy(stage->prepare.roots, job->roots, sizeof job->roots);
        if (job->is_output && stage->state < STAGE_ASKED) {
            char why[256];
            (void)snprintf(why, sizeof why, "it reads what it writes: %.200s",
                           job->is_output);
            stage->session->calls->decline(stage, FY_STAGE_ODD_STREAM, why);
        } else {
            stage->session->calls->prepared(stage, job->status);
        }
    }
    job_free(job);
}

/* Adds what only a mount with caches needs. */
static void
add_caches(struct fy_job *job, const struct stage *stage)
{
    struct connection *connection = stage->connection;
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        size_t at = (size_t)(mount - stage->session->mounts);
        job->quiet[i] = stage->session->quiet[at];
        /* Files of this machine are what they are. */
        job->hash_root[i] = mount->type[0] != '\0' && !connection->proven[at];
        /* The root looked otherwise than at its host: perhaps sshfs's cache has
         * old names. */
        job->refresh_root[i] = job->hash_root[i] && connection->asked[at];
        connection->asked[at] = connection->asked[at] || job->hash_root[i];
    }
    if (stage->state == STAGE_WAIT_REACH) {
        job->login_ns =
            fy_clock_ns() +
            (uint64_t)(fy_connection_login_seconds(connection) * 1e9);
    }
    job->effect = stage->plan.effect;
    job->cached = true;
}

/* Paths that the stage is said to write are read ahead while the login goes
 * on. */
static bool
add_ahead(struct fy_job *job, const struct stage *stage)
{
    const struct fy_invocation *invocation = &stage->invocation;
    bool waits = job->login_ns && stage->plan.nmounts == 1;
    for (uint32_t i = 0; waits && i < invocation->nwritten; i++) {
        const struct fy_written *written = &invocation->written[i];
        char path[PATH_MAX];
        if (written->how == FY_WRITTEN &&
            fy_path_join(stage->facts.cwd, written->path, path) == 0 &&
            !add_changed(job, path, strlen(path), false)) {
            return false;
        }
    }
    return true;
}

bool
fy_prepare_before(struct stage *stage)
{
    struct fy_session *session = stage->session;
    struct fy_job *job = session->nstuck < STUCK_MAX ? job_new(stage) : NULL;
    if (!job) {
        return false;
    }
    job->work.run = run_before;
    job->work.done = done_before;
    job->again = stage->prepare.retried;
    if (is_cached(stage)) {
        add_caches(job, stage);
    }
    if ((job->cached && !add_ahead(job, stage)) ||
        fy_gather_new(stage, &job->gather) ||
        fy_alike_new(stage, &job->alike) ||
        fy_pool_submit(session->pool, &job->work)) {
        job_free(job);
        return false;
    }
    stage->prepare.job = job;
    return true;
}

bool
fy_prepare_is_stuck(struct stage *stage)
{
    struct fy_job *job = stage->prepare.job;
    if (!job || !job->gather || job->stuck ||
        __atomic_load_n(&job->gathered, __ATOMIC_ACQUIRE)) {
        return false;
    }
    job->stuck = true;
    stage->session->nstuck++;
    return true;
}

/* ---- after ----------------------------------------------------------------------------- */

static void
run_after(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    const struct fy_touched *touched = &job->touched;
    const struct fy_told told = {.changed = touched->paths,
                                 .nchanged = touched->npaths,
                                 .owners = job->owners_changed,
                                 .folders = touched->folders,
                                 .nfolders = touched->nfolders,
                                 .links = touched->links,
                                 .nlinks = touched->nlinks,
                                 .files = touched->files,
                                 .nfiles = touched->nfiles};
    for (unsigned i = 0; i < job->nmounts; i++) {
        if (job->mounts[i].traits & FY_MOUNT_TOLD) {
            /* What has ended or lost its link looks at everything again. */
            (void)!fy_control_ask(job->mounts[i].control,
                                  FY_FILES_CONTROL_BARRIER, 0, NULL, NULL);
            continue;
        }
        job->stale += fy_fresh_after(&job->mounts[i],
                                     (const char *const *)job->paths, &told);
    }
}

/* Has later effects on mounts of the stage's host run locally, or a host that lies could make
 * each effect wait. */
static void
distrust(struct stage *stage)
{
    struct fy_session *session = stage->session;
    for (unsigned i = 0; i < session->nmounts; i++) {
        struct fy_mount *mount = &session->mounts[i];
        if (fy_place_same_host(&mount->place, &stage->mount->place) &&
            mount->forgets_ms) {
            mount->traits |= FY_MOUNT_KEEPS;
        }
    }
}

/* Waits until the mounts' caches time out, because the other changes are not known; once. */
static void
wait_out(struct stage *stage)
{
    uint64_t longest_ms = 0;
    distrust(stage);
    for (unsigned i = 0; i < stage->plan.nmounts; i++) {
        const struct fy_mount *mount = stage->plan.mounts[i];
        longest_ms =
            mount->forgets_ms > longest_ms ? mount->forgets_ms : longest_ms;
    }
    if (longest_ms) {
        stage->prepare.fresh_ns = stage->result.ended_ns + longest_ms * ms_ns;
    }
}

/*
 * Adds up how much longer the looks after effects took than they should: a host that lies can
 * name any number of files, and each has to be asked for.
 */
static void
count_excess(struct stage *stage)
{
    struct connection *connection = stage->connection;
    uint64_t spent_ns = fy_clock_ns() - stage->result.ended_ns;
    uint64_t trip_ns = connection->rtt_ns < SPARE_TRIP_MS * ms_ns
                           ? connection->rtt_ns
                           : SPARE_TRIP_MS * ms_ns;
    uint64_t allowed_ns = SPARE_MS * ms_ns + SPARE_TRIPS * trip_ns +
                          (stage->result.ended_ns - stage->asked_ns);
    connection->excess_ns += spent_ns > allowed_ns ? spent_ns - allowed_ns : 0;
    if (connection->excess_ns > EXCESS_MS * ms_ns) {
        distrust(stage);
    }
}

static void
done_after(struct fy_work *work)
{
    struct fy_job *job = (struct fy_job *)work;
    struct stage *stage = job->stage;
    if (stage) {
        stage->prepare.job = NULL;
        stage->prepare.refresh = REFRESH_DONE;
        /* Where time alone refreshes, it must pass each time. */
        if (job->cut || job->stale) {
            wait_out(stage);
        } else if (stage->connection && stage->result.known) {
            count_excess(stage);
        }
        stage->session->calls->try_end(stage);
    }
    job_free(job);
}

static void
refresh(struct stage *stage)
{
    struct fy_job *job = stage->prepare.job;
    job->submitted = true;
    if ((job->npaths > 0 || is_told(stage)) &&
        fy_pool_submit(stage->session->pool, &job->work) == 0) {
        return;
    }
    job->cut = job->cut || job->npaths > 0;
    done_after(&job->work);
}

static void
touched_data(struct exchange *exchange, const void *bytes, size_t n)
{
    struct stage *stage =
        (struct stage *)((char *)exchange -
                         offsetof(struct stage, prepare.touched));
    stage->prepare.heard_ns = fy_clock_ns();
    if (n > FY_SPEC_MAX_BYTES - stage->prepare.touched_used) {
        return;
    }
    char *larger = realloc(stage->prepare.touched_bytes,
                           stage->prepare.touched_used + n + 1);
    if (larger) {
        memcpy(larger + stage->prepare.touched_used, bytes, n);
        stage->prepare.touched_used += n;
        larger[stage->prepare.touched_used] = '\0';
        stage->prepare.touched_bytes = larger;
    }
}

/* Of what begins with a path: struct fy_bytes, fy_folder, fy_link_told. */
static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct fy_bytes *)a)->at,
                  ((const struct fy_bytes *)b)->at);
}

static void
sort(void *list, size_t n, size_t bytes)
{
    if (n > 1) {
        qsort(list, n, bytes, by_path);
    }
}

/* The job takes the list of the proxy. */
static void
take_touched(struct fy_job *job, struct stage *stage)
{
    struct fy_touched *touched = &job->touched;
    job->touched_bytes = stage->prepare.touched_bytes;
    stage->prepare.touched_bytes = NULL;
    if (stage->prepare.touched_used > 0 &&
        fy_touched_decode(job->touched_bytes, stage->prepare.touched_used,
                          touched, NULL) == 0) {
        uint32_t i = 0;
        while (i < touched->npaths && add_changed(job, touched->paths[i].at,
                                                  touched->paths[i].n, false)) {
            i++;
        }
        job->cut = i < touched->npaths || !touched->complete;
        sort(touched->paths, touched->npaths, sizeof *touched->paths);
        sort(touched->folders, touched->nfolders, sizeof *touched->folders);
        sort(touched->links, touched->nlinks, sizeof *touched->links);
        sort(touched->files, touched->nfiles, sizeof *touched->files);
    }
}

static void
touched_closed(struct exchange *exchange, uint32_t error)
{
    struct stage *stage =
        (struct stage *)((char *)exchange -
                         offsetof(struct stage, prepare.touched));
    (void)error;
    stage->prepare.touched_open = false;
    if (stage->state == STAGE_RETRYING) {
        stage->session->calls->closed(stage);
    } else if (stage->state == STAGE_ENDED && stage->prepare.job &&
               !stage->prepare.job->submitted) {
        take_touched(stage->prepare.job, stage);
        refresh(stage);
    }
}

static const struct exchange touched_exchange = {
    .data = touched_data,
    .closed = touched_closed,
};

static bool
ask_touched(struct stage *stage)
{
    char path[64];
    if (!stage->connection->wire || stage->connection->broken) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/stage/%llu/touched",
                   (unsigned long long)stage->number);
    stage->prepare.touched = touched_exchange;
    if (fy_connection_request(stage->connection, path, false,
                              &stage->prepare.touched)) {
        return false;
    }
    stage->prepare.touched_open = true;
    if (fy_wire_grant(stage->connection->wire, stage->prepare.touched.stream,
                      FY_SPEC_MAX_BYTES)) {
        fy_wire_cancel(stage->connection->wire, stage->prepare.touched.stream);
    }
    return true;
}

void
fy_prepare_touched(struct stage *stage)
{
    stage->prepare.touched_used = 0;
    if (stage->plan.effect && stage->invocation.effect && is_cached(stage) &&
        !is_told(stage)) {
        (void)ask_touched(stage);
    }
}

/* Adds the files that the shell here has opened for the stage: names in their
 * folders stay. */
static bool
add_files(struct fy_job *job, const struct stage *stage)
{
    const struct fy_stream_plan *plans[] = {&stage->plan.out, &stage->plan.err};
    for (int i = 0; i < 2; i++) {
        if (plans[i]->kind == FY_STREAM_FILE &&
            !add_path(job, plans[i]->path, strlen(plans[i]->path))) {
            return false;
        }
    }
    /* Of what is said to be written in it, the folder is told as well. */
    return !stage->invocation.writes_cwd || stage->invocation.nwritten > 0 ||
           add_path(job, stage->facts.cwd, strlen(stage->facts.cwd));
}

bool
fy_prepare_after(struct stage *stage)
{
    if (!stage->plan.effect || !is_cached(stage)) {
        return false;
    }
    struct fy_job *job = job_new(stage);
    if (!job || (!is_told(stage) &&
                 (!add_operands(job, stage) || !add_files(job, stage)))) {
        if (job) {
            job_free(job);
        }
        wait_out(stage);
        return false;
    }
    /* One that only reads them (tar -c to its output) changes none. */
    job->owners_changed =
        fy_invocation_is(&stage->invocation, FY_TRAIT_OWNERS) &&
        stage->invocation.effect;
    job->work.run = run_after;
    job->work.done = done_after;
    stage->prepare.job = job;
    stage->prepare.refresh = REFRESH_RUNS;
    job->cut = stage->state == STAGE_ENDED && stage->invocation.effect &&
               !is_told(stage);
    if (job->cut && stage->prepare.touched_used > 0 &&
        !stage->prepare.touched_open) {
        take_touched(job, stage);
    } else if (job->cut &&
               (stage->prepare.touched_open || ask_touched(stage))) {
        stage->prepare.heard_ns = fy_clock_ns();
        fy_prepare_hurry(stage, false);
        return true;
    }
    refresh(stage);
    return true;
}

void
fy_prepare_hurry(struct stage *stage, bool now)
{
    struct fy_job *job = stage->prepare.job;
    if (!job || job->submitted || !stage->prepare.touched_open) {
        return;
    }
    uint64_t time = fy_clock_ns(), most_ns = TOLD_LONGEST_MS * ms_ns;
    uint64_t silence_ns = TOLD_MS * ms_ns + 2 * stage->connection->rtt_ns;
    uint64_t end =
        stage->prepare.heard_ns + (silence_ns < most_ns ? silence_ns : most_ns);
    uint64_t last = stage->result.ended_ns + most_ns;
    end = end < last ? end : last;
    end = stage->order.ending && stage->order.due_ns < end ? stage->order.due_ns
                                                           : end;
    if (!now && time < end) {
        fy_loop_set(&stage->session->loop, &stage->timer, end - time);
        return;
    }
    fy_debug(CLIENT, "%s does not say what the stage of pid %d changed",
             stage->connection->name, stage->hello.pid);
    struct exchange *touched = &stage->prepare.touched;
    refresh(stage);
    if (stage->prepare.touched_open && touched->connection &&
        touched->connection->wire) {
        fy_wire_cancel(touched->connection->wire, touched->stream);
    }
}

void
fy_prepare_forget(struct stage *stage)
{
    if (stage->prepare.job) {
        /* A dead file may hold the job, and no stage asks for it any more. */
        (void)fy_prepare_is_stuck(stage);
        stage->prepare.job->stage = NULL;
        stage->prepare.job = NULL;
    }
    fy_gather_free(stage->prepare.gather);
    free(stage->prepare.touched_bytes);
}
