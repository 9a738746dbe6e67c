/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of the fake cuFFT. A plan's work area is device memory that every
 * execution writes; a complex-to-real transform spoils its input, as the real
 * one may. Long because plans are made in six ways and executed in six.
 */
#include "config.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fakecuda/core.h"
#include "tests/fakecuda/fft.h"

#include "tests/fakecuda/cufft_rows.h"

#define PLANS_MAX 65536

/* How elements of a side lie: indices over the axes, then a stride. */
struct side {
    int64_t embed[3]; /* embed[0] is not used */
    int64_t stride;
    int64_t distance;
    bool given; /* by the caller, else dense */
};

struct plan {
    bool made;
    int rank;
    int64_t n[3];
    int64_t batch;
    cufftType type;
    struct side in, out;
    bool manual; /* the caller sets the work area */
    uint64_t own_area, area;
    size_t area_bytes;
    cudaStream_t stream;
};

static struct {
    pthread_mutex_t lock;
    struct plan *at[PLANS_MAX]; /* by handle; a handle is never used twice */
    int count;
} plans = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct plan *
plan_of(cufftHandle handle)
{
    struct plan *plan = NULL;

    (void)pthread_mutex_lock(&plans.lock);
    if (handle > 0 && handle <= plans.count) {
        plan = plans.at[handle - 1];
    }
    (void)pthread_mutex_unlock(&plans.lock);
    if (plan == NULL || !fakecuda_valid(plan, FAKE_FFT_PLAN)) {
        fakecuda_note("bad-handle", "cuFFT %d", handle);
        return NULL;
    }
    return plan;
}

cufftResult
fake_cufftCreate(cufftHandle *handle)
{
    struct plan *plan;

    if (handle == NULL) {
        return CUFFT_INVALID_VALUE;
    }
    /* A driver older than the library. */
    if (fakecuda_setting("DRIVER", 13000) < 13000) {
        return CUFFT_SETUP_FAILED;
    }
    plan = fakecuda_new(FAKE_FFT_PLAN, sizeof(*plan), "cufftCreate");
    (void)pthread_mutex_lock(&plans.lock);
    if (plan != NULL && plans.count < PLANS_MAX) {
        plans.at[plans.count] = plan;
        *handle = ++plans.count;
    } else {
        plan = NULL;
    }
    (void)pthread_mutex_unlock(&plans.lock);
    return plan == NULL ? CUFFT_ALLOC_FAILED : CUFFT_SUCCESS;
}

cufftResult
fake_cufftDestroy(cufftHandle handle)
{
    struct plan *plan = plan_of(handle);

    if (plan == NULL) {
        return CUFFT_INVALID_PLAN;
    }
    if (fakecuda_stream_check(plan->stream) == CUDA_SUCCESS) {
        (void)fakecuda_drain(plan->stream);
    } else {
        fakecuda_note("bad-stream", "destroyed before its cuFFT plan");
    }
    if (plan->own_area != 0) {
        (void)fakecuda_memory_free(plan->own_area);
    }
    fakecuda_destroy(plan);
    return CUFFT_SUCCESS;
}

static bool
is_double(cufftType type)
{
    return (type & 0x40) != 0;
}

static bool
real_in(cufftType type)
{
    return type == CUFFT_R2C || type == CUFFT_D2Z;
}

static bool
real_out(cufftType type)
{
    return type == CUFFT_C2R || type == CUFFT_Z2D;
}

static bool
is_type(cufftType type)
{
    return type == CUFFT_C2C || type == CUFFT_Z2Z || real_in(type) ||
           real_out(type);
}

/* The elements of the last axis that a side has. */
static int64_t
last_axis(const struct plan *plan, bool half)
{
    int64_t n = plan->n[plan->rank - 1];

    return half ? n / 2 + 1 : n;
}

/* Dense, as the manual's basic layout: real lines of a transform in place have
 * room for the complex ones. */
static struct side
dense(const struct plan *plan, bool half, bool padded)
{
    struct side side = {.stride = 1};
    int64_t last = padded ? 2 * last_axis(plan, true) : last_axis(plan, half);

    side.distance = last;
    for (int axis = 0; axis < plan->rank; axis++) {
        bool is_last = axis == plan->rank - 1;
        side.embed[axis] = is_last ? last : plan->n[axis];
        side.distance *= is_last ? 1 : plan->n[axis];
    }
    return side;
}

static int
make(struct plan *plan, int rank, const int64_t *n, const struct side *in,
     const struct side *out, cufftType type, int64_t batch, size_t *work)
{
    int64_t all = 1;

    if (rank < 1 || rank > 3 || batch < 1 || plan->made) {
        return plan->made ? CUFFT_INVALID_PLAN : CUFFT_INVALID_SIZE;
    }
    if (!is_type(type)) {
        return CUFFT_INVALID_TYPE;
    }
    plan->rank = rank;
    plan->type = type;
    plan->batch = batch;
    for (int axis = 0; axis < rank; axis++) {
        if (n[axis] < 1) {
            return CUFFT_INVALID_SIZE;
        }
        plan->n[axis] = n[axis];
        all *= n[axis];
    }
    plan->in = *in;
    plan->out = *out;
    /* Small ones need none, and want it set all the same. */
    plan->area_bytes = all < 16 || all % 7 == 0
                           ? 0
                           : (size_t)all * (is_double(type) ? 16 : 8) + 272;
    if (!plan->manual) {
        if (fakecuda_memory_new(plan->area_bytes + 1, &plan->own_area) !=
            CUDA_SUCCESS) {
            plan->own_area = 0;
            return CUFFT_ALLOC_FAILED;
        }
        plan->area = plan->own_area;
    }
    plan->made = true;
    if (work != NULL) {
        *work = plan->area_bytes;
    }
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftMakePlanMany64(cufftHandle handle, int rank, long long int *n,
                         long long int *inembed, long long int istride,
                         long long int idist, long long int *onembed,
                         long long int ostride, long long int odist,
                         cufftType type, long long int batch, size_t *workSize)
{
    struct plan *plan = plan_of(handle);
    struct side in = {.stride = istride, .distance = idist};
    struct side out = {.stride = ostride, .distance = odist};
    int64_t extents[3] = {0};

    if (plan == NULL) {
        return CUFFT_INVALID_PLAN;
    }
    if (n == NULL || rank < 1 || rank > 3 || workSize == NULL) {
        return rank < 1 || rank > 3 ? CUFFT_INVALID_SIZE : CUFFT_INVALID_VALUE;
    }
    in.given = inembed != NULL;
    out.given = onembed != NULL;
    for (int axis = 0; axis < rank; axis++) {
        extents[axis] = n[axis];
        in.embed[axis] = in.given ? inembed[axis] : 0;
        out.embed[axis] = out.given ? onembed[axis] : 0;
    }
    /* One of both alone means the basic layout as well. */
    if (!in.given || !out.given) {
        in.given = false;
        out.given = false;
    } else if (istride < 1 || ostride < 1 || idist < 0 || odist < 0) {
        return CUFFT_INVALID_VALUE;
    }
    return make(plan, rank, extents, &in, &out, type, batch, workSize);
}

cufftResult
fake_cufftMakePlanMany(cufftHandle handle, int rank, int *n, int *inembed,
                       int istride, int idist, int *onembed, int ostride,
                       int odist, cufftType type, int batch, size_t *workSize)
{
    long long int wide[3][3] = {{0}};
    const int *narrow[3] = {n, inembed, onembed};

    if (n == NULL || rank < 1 || rank > 3) {
        return n == NULL ? CUFFT_INVALID_VALUE : CUFFT_INVALID_SIZE;
    }
    for (int i = 0; i < 3; i++) {
        for (int axis = 0; axis < rank && narrow[i] != NULL; axis++) {
            wide[i][axis] = narrow[i][axis];
        }
    }
    return fake_cufftMakePlanMany64(handle, rank, wide[0],
                                    inembed == NULL ? NULL : wide[1], istride,
                                    idist, onembed == NULL ? NULL : wide[2],
                                    ostride, odist, type, batch, workSize);
}

cufftResult
fake_cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch,
                     size_t *workSize)
{
    return fake_cufftMakePlanMany(plan, 1, &nx, NULL, 1, 0, NULL, 1, 0, type,
                                  batch, workSize);
}

cufftResult
fake_cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type,
                     size_t *workSize)
{
    int n[] = {nx, ny};

    return fake_cufftMakePlanMany(plan, 2, n, NULL, 1, 0, NULL, 1, 0, type, 1,
                                  workSize);
}

cufftResult
fake_cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type,
                     size_t *workSize)
{
    int n[] = {nx, ny, nz};

    return fake_cufftMakePlanMany(plan, 3, n, NULL, 1, 0, NULL, 1, 0, type, 1,
                                  workSize);
}

cufftResult
fake_cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed,
                   int istride, int idist, int *onembed, int ostride, int odist,
                   cufftType type, int batch)
{
    size_t work;
    cufftHandle handle;
    int result = fake_cufftCreate(&handle);

    if (result != CUFFT_SUCCESS) {
        return result;
    }
    result =
        fake_cufftMakePlanMany(handle, rank, n, inembed, istride, idist,
                               onembed, ostride, odist, type, batch, &work);
    if (result != CUFFT_SUCCESS) {
        (void)fake_cufftDestroy(handle);
        return result;
    }
    *plan = handle;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch)
{
    return fake_cufftPlanMany(plan, 1, &nx, NULL, 1, 0, NULL, 1, 0, type,
                              batch);
}

cufftResult
fake_cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type)
{
    int n[] = {nx, ny};

    return fake_cufftPlanMany(plan, 2, n, NULL, 1, 0, NULL, 1, 0, type, 1);
}

cufftResult
fake_cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz, cufftType type)
{
    int n[] = {nx, ny, nz};

    return fake_cufftPlanMany(plan, 3, n, NULL, 1, 0, NULL, 1, 0, type, 1);
}

cufftResult
fake_cufftGetSize(cufftHandle handle, size_t *workSize)
{
    struct plan *plan = plan_of(handle);

    if (plan == NULL || !plan->made) {
        return CUFFT_INVALID_PLAN;
    }
    *workSize = plan->area_bytes;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftSetWorkArea(cufftHandle handle, void *workArea)
{
    struct plan *plan = plan_of(handle);

    if (plan == NULL || !plan->made) {
        return CUFFT_INVALID_PLAN;
    }
    if ((uintptr_t)workArea % 256 != 0) {
        return CUFFT_UNALIGNED_DATA;
    }
    plan->area = (uintptr_t)workArea;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftSetAutoAllocation(cufftHandle handle, int autoAllocate)
{
    struct plan *plan = plan_of(handle);

    if (plan == NULL) {
        return CUFFT_INVALID_PLAN;
    }
    plan->manual = autoAllocate == 0;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    struct plan *plan = plan_of(handle);

    if (plan == NULL || !plan->made) {
        return CUFFT_INVALID_PLAN;
    }
    if (fakecuda_stream_check(stream) != CUDA_SUCCESS) {
        return CUFFT_INVALID_VALUE;
    }
    plan->stream = stream;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftGetVersion(int *version)
{
    *version = 12000;
    return CUFFT_SUCCESS;
}

cufftResult
fake_cufftGetProperty(libraryPropertyType type, int *value)
{
    if (value == NULL || type < 0 || type > 2) {
        return CUFFT_INVALID_VALUE;
    }
    *value = type == 0 ? 12 : 0;
    return CUFFT_SUCCESS;
}

/* ---- execution ---- */

struct job {
    struct plan plan;
    struct side in, out;
    uint64_t from, to;
    int sign;
};

/* Where element (i, j, k) of a batch lies, in elements of the side. */
static int64_t
place(const struct plan *plan, const struct side *side, int64_t batch,
      const int64_t *index)
{
    int64_t at = index[0];

    for (int axis = 1; axis < plan->rank; axis++) {
        at = at * side->embed[axis] + index[axis];
    }
    return at * side->stride + batch * side->distance;
}

static double complex
load(const char *base, bool wide, bool real, int64_t at)
{
    if (real) {
        return wide ? ((const double *)base)[at]
                    : (double)((const float *)base)[at];
    }
    return wide ? ((const double complex *)base)[at]
                : (double complex)((const float complex *)base)[at];
}

static void
store(char *base, bool wide, bool real, int64_t at, double complex value)
{
    if (real && wide) {
        ((double *)base)[at] = creal(value);
    } else if (real) {
        ((float *)base)[at] = (float)creal(value);
    } else if (wide) {
        ((double complex *)base)[at] = value;
    } else {
        ((float complex *)base)[at] = (float complex)value;
    }
}

/* The next index over the whole transform; false at the end. */
static bool
step(const struct plan *plan, int64_t *index)
{
    for (int axis = plan->rank - 1; axis >= 0; axis--) {
        if (++index[axis] < plan->n[axis]) {
            return true;
        }
        index[axis] = 0;
    }
    return false;
}

/* A complex-to-real input has half of the last axis; the rest follows. */
static double complex
load_half(const struct job *job, const char *from, int64_t batch,
          const int64_t *index)
{
    const struct plan *plan = &job->plan;
    int64_t mirror[3] = {index[0], index[1], index[2]};
    bool wide = is_double(plan->type);

    if (index[plan->rank - 1] < last_axis(plan, true)) {
        return load(from, wide, false, place(plan, &job->in, batch, index));
    }
    for (int axis = 0; axis < plan->rank; axis++) {
        mirror[axis] = (plan->n[axis] - index[axis]) % plan->n[axis];
    }
    return conj(load(from, wide, false, place(plan, &job->in, batch, mirror)));
}

static void
transform_batch(const struct job *job, char *from, char *to, int64_t batch,
                double complex *data)
{
    const struct plan *plan = &job->plan;
    bool wide = is_double(plan->type);
    int64_t index[3] = {0}, at = 0;

    do {
        data[at++] = real_out(plan->type)
                         ? load_half(job, from, batch, index)
                         : load(from, wide, real_in(plan->type),
                                place(plan, &job->in, batch, index));
    } while (step(plan, index));
    (void)fft_transform(data, plan->rank, plan->n, job->sign);
    at = 0;
    do {
        const bool half = index[plan->rank - 1] < last_axis(plan, true);
        if (real_out(plan->type) && half && job->from != job->to) {
            store(from, wide, false, place(plan, &job->in, batch, index), NAN);
        }
        if (!real_in(plan->type) || half) {
            store(to, wide, real_out(plan->type),
                  place(plan, &job->out, batch, index), data[at]);
        }
        at++;
    } while (step(plan, index));
}

static size_t
element_bytes(const struct plan *plan, bool real)
{
    return (size_t)(is_double(plan->type) ? 8 : 4) * (real ? 1 : 2);
}

static size_t
side_bytes(const struct plan *plan, const struct side *side, bool half,
           bool real)
{
    int64_t last[3] = {0};

    for (int axis = 0; axis < plan->rank; axis++) {
        last[axis] = plan->n[axis] - 1;
    }
    last[plan->rank - 1] = last_axis(plan, half) - 1;
    return (size_t)(place(plan, side, plan->batch - 1, last) + 1) *
           element_bytes(plan, real);
}

static int
run_job(void *argument)
{
    struct job *job = argument;
    const struct plan *plan = &job->plan;
    char *from = fakecuda_at(job->from, 1);
    char *to = fakecuda_at(job->to, 1);
    char *area = fakecuda_at(plan->area, plan->area_bytes + 1);
    int64_t all = 1;

    for (int axis = 0; axis < plan->rank; axis++) {
        all *= plan->n[axis];
    }
    double complex *data = calloc((size_t)all, sizeof(*data));
    if (area == NULL || from == NULL || to == NULL || data == NULL) {
        free(data);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memset(area, 0xFF, plan->area_bytes);
    fakecuda_pause();
    for (int64_t batch = 0; batch < plan->batch; batch++) {
        transform_batch(job, from, to, batch, data);
    }
    free(data);
    return CUDA_SUCCESS;
}

static int
execute(const char *name, cufftHandle handle, cufftType type, void *idata,
        void *odata, int sign)
{
    struct plan *plan = plan_of(handle);
    struct fake_use uses[3];
    struct job job;

    if (plan == NULL || !plan->made || plan->type != type) {
        return CUFFT_INVALID_PLAN;
    }
    if (idata == NULL || odata == NULL || (sign != 1 && sign != -1)) {
        return CUFFT_INVALID_VALUE;
    }
    if (plan->area == 0) {
        return CUFFT_NO_WORKSPACE;
    }
    /* Complex numbers want their own alignment, also where they are real. */
    if ((uintptr_t)idata % element_bytes(plan, false) != 0 ||
        (uintptr_t)odata % element_bytes(plan, false) != 0) {
        fakecuda_note("bad-argument", "%s: not aligned", name);
        return CUFFT_INVALID_VALUE;
    }
    job = (struct job){
        *plan, plan->in, plan->out, (uintptr_t)idata, (uintptr_t)odata, sign};
    if (!plan->in.given) {
        bool padded = idata == odata;
        job.in = dense(plan, real_out(type), real_in(type) && padded);
        job.out = dense(plan, real_in(type), real_out(type) && padded);
    }
    uses[0] = (struct fake_use){
        job.from,
        side_bytes(plan, &job.in, real_out(type), real_in(type)),
        0,
        1,
        real_out(type),
        plan->in.given};
    uses[1] = (struct fake_use){
        job.to, side_bytes(plan, &job.out, real_in(type), real_out(type)),
        0,      1,
        true,   plan->out.given};
    uses[2] =
        (struct fake_use){plan->area, plan->area_bytes, 0, 1, true, false};
    return fakecuda_status(FAKE_CUFFT,
                           fakecuda_submit(plan->stream, name, run_job, &job,
                                           sizeof(job), uses, 3));
}

cufftResult
fake_cufftExecC2C(cufftHandle plan, cufftComplex *idata, cufftComplex *odata,
                  int direction)
{
    return execute("cufftExecC2C", plan, CUFFT_C2C, idata, odata, direction);
}

cufftResult
fake_cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *idata,
                  cufftDoubleComplex *odata, int direction)
{
    return execute("cufftExecZ2Z", plan, CUFFT_Z2Z, idata, odata, direction);
}

cufftResult
fake_cufftExecR2C(cufftHandle plan, cufftReal *idata, cufftComplex *odata)
{
    return execute("cufftExecR2C", plan, CUFFT_R2C, idata, odata,
                   CUFFT_FORWARD);
}

cufftResult
fake_cufftExecD2Z(cufftHandle plan, cufftDoubleReal *idata,
                  cufftDoubleComplex *odata)
{
    return execute("cufftExecD2Z", plan, CUFFT_D2Z, idata, odata,
                   CUFFT_FORWARD);
}

cufftResult
fake_cufftExecC2R(cufftHandle plan, cufftComplex *idata, cufftReal *odata)
{
    return execute("cufftExecC2R", plan, CUFFT_C2R, idata, odata,
                   CUFFT_INVERSE);
}

cufftResult
fake_cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *idata,
                  cufftDoubleReal *odata)
{
    return execute("cufftExecZ2D", plan, CUFFT_Z2D, idata, odata,
                   CUFFT_INVERSE);
}
