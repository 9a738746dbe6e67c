/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random FFTW plans of every maker that ferry executes, out of place and in
 * place, run by fftw_execute and by the new-array functions.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drive.h"

enum {
    FFTW_DESTROY_INPUT = 1,
    FFTW_UNALIGNED = 2,
    FFTW_PRESERVE_INPUT = 16,
    FFTW_ESTIMATE = 64
};

enum form {
    C2C,
    R2C,
    C2R,
    R2R
};

static const char *const form_names[] = {"dft", "dft_r2c", "dft_c2r", "r2r"};
static const char *const execute_names[] = {"execute_dft", "execute_dft_r2c",
                                            "execute_dft_c2r", "execute_r2r"};

/* plan_dft_2d; plan_dft, which takes any rank; plan_many_dft. */
enum maker {
    FIXED,
    GENERAL,
    MANY
};

struct transform {
    enum form form;
    enum maker maker;
    int rank;
    int n[3], howmany, stride[2], distance[2];
    unsigned flags;
    int kind[3];
    bool in_place;
    bool embedded; /* MANY: says that the arrays are embedded in themselves */
};

static void *
make_many(const struct transform *t, void *maker, void *x, void *y)
{
    int sign = t->kind[0] % 2 ? 1 : -1;
    const int *embed = t->embedded ? t->n : NULL;
    const int *s = t->stride, *d = t->distance;
    if (t->form == C2C) {
        void *(*f)(int, const int *, int, void *, const int *, int, int, void *,
                   const int *, int, int, int, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(t->rank, t->n, t->howmany, x, embed, s[0], d[0], y, embed,
                 s[1], d[1], sign, t->flags);
    }
    if (t->form == R2R) {
        void *(*f)(int, const int *, int, void *, const int *, int, int, void *,
                   const int *, int, int, const int *, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(t->rank, t->n, t->howmany, x, embed, s[0], d[0], y, embed,
                 s[1], d[1], t->kind, t->flags);
    }
    void *(*f)(int, const int *, int, void *, const int *, int, int, void *,
               const int *, int, int, unsigned);
    memcpy(&f, &maker, sizeof f);
    return f(t->rank, t->n, t->howmany, x, NULL, s[0], d[0], y, NULL, s[1],
             d[1], t->flags);
}

static void *
make_general(const struct transform *t, void *maker, void *x, void *y)
{
    if (t->form == C2C) {
        void *(*f)(int, const int *, void *, void *, int, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(t->rank, t->n, x, y, t->kind[0] % 2 ? 1 : -1, t->flags);
    }
    if (t->form == R2R) {
        void *(*f)(int, const int *, void *, void *, const int *, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(t->rank, t->n, x, y, t->kind, t->flags);
    }
    void *(*f)(int, const int *, void *, void *, unsigned);
    memcpy(&f, &maker, sizeof f);
    return f(t->rank, t->n, x, y, t->flags);
}

static void *
make_fixed(const struct transform *t, void *maker, void *x, void *y)
{
    const int *n = t->n;
    /* extents, x, y, then sign, nothing, or one kind for each extent. */
    int tail[3] = {t->kind[0] % 2 ? 1 : -1, 0, 0}, ntail = t->form == C2C;
    if (t->form == R2R) {
        memcpy(tail, t->kind, sizeof tail);
        ntail = t->rank;
    }
    if (ntail < 3) {
        tail[ntail] = (int)t->flags; /* flags follow at once */
    }
    if (t->rank == 1) {
        void *(*f)(int, void *, void *, int, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(n[0], x, y, tail[0], (unsigned)tail[1]);
    }
    if (t->rank == 2) {
        void *(*f)(int, int, void *, void *, int, int, unsigned);
        memcpy(&f, &maker, sizeof f);
        return f(n[0], n[1], x, y, tail[0], tail[1], (unsigned)tail[2]);
    }
    void *(*f)(int, int, int, void *, void *, int, int, int, unsigned);
    memcpy(&f, &maker, sizeof f);
    return f(n[0], n[1], n[2], x, y, tail[0], tail[1], tail[2], t->flags);
}

/* The maker of `t' in a library, called on x and y. */
static void *
make_plan(const struct transform *t, void *maker, void *x, void *y)
{
    return t->maker == MANY      ? make_many(t, maker, x, y)
           : t->maker == GENERAL ? make_general(t, maker, x, y)
                                 : make_fixed(t, maker, x, y);
}

static size_t
volume(const struct transform *t, bool halved)
{
    size_t v = 1;
    for (int i = 0; i < t->rank; i++) {
        v *= (size_t)(halved && i == t->rank - 1 ? t->n[i] / 2 + 1 : t->n[i]);
    }
    return v;
}

/* Elements of x (side 0) or y (side 1), and whether they are complex. */
static size_t
elements(const struct transform *t, int side, bool *complex)
{
    bool real = t->form == R2R || (t->form == R2C && side == 0) ||
                (t->form == C2R && side == 1);
    bool halved = !real && t->form != C2C;
    *complex = !real;
    if (t->maker == MANY) {
        return (volume(t, halved) - 1) * (size_t)t->stride[side] +
               (size_t)((t->howmany - 1) * t->distance[side]) + 1;
    }
    if (real && t->in_place && t->form != R2R) {
        return 2 * volume(t, true); /* rows are padded */
    }
    return volume(t, halved);
}

/* A length of at most `limit' that is no prime, unless it is short. */
static int
random_length(struct call *c, int limit)
{
    static const int factors[] = {2, 2, 2, 3, 3, 5, 7, 11};
    int n = (int)random_int(c, 2, 60);
    for (;;) {
        int factor = factors[random_int(c, 0, 7)];
        if (n > limit / factor) {
            return n;
        }
        n *= factor;
    }
}

static void
random_transform(struct call *c, struct transform *t, enum form form,
                 enum maker maker, int rank)
{
    static const int kinds[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10};
    if (maker != FIXED) {
        rank = (int)random_int(c, 1, 3);
    }
    *t = (struct transform){
        .form = form, .maker = maker, .rank = rank, .howmany = 1};
    int limit = rank == 3 ? 9 : rank == 2 ? 16 : 60;
    if (c->max_size > DEFAULT_SIZE) {
        double all = c->max_size; /* elements */
        limit = (int)(rank == 3   ? 2 * cbrt(all)
                      : rank == 2 ? 2 * sqrt(all)
                                  : all);
    }
    for (int i = 0; i < 3; i++) {
        t->n[i] = c->max_size <= DEFAULT_SIZE ? (int)random_int(c, 2, limit)
                                              : random_length(c, limit);
        t->kind[i] =
            form == R2R ? kinds[random_int(c, 0, 9)] : (int)random_int(c, 0, 1);
    }
    t->flags = FFTW_ESTIMATE;
    int64_t dice = random_int(c, 0, 5);
    if (dice == 0) {
        t->flags |= FFTW_DESTROY_INPUT;
    } else if (dice == 1 && !(form == C2R && rank > 1)) {
        t->flags |= FFTW_PRESERVE_INPUT;
    }
    if (random_int(c, 0, 3) == 0) {
        t->flags |= FFTW_UNALIGNED;
    }
    t->in_place = random_int(c, 0, 2) == 0 &&
                  !(maker == MANY && (form == R2C || form == C2R));
    if (maker != MANY) {
        return;
    }
    t->howmany = (int)random_int(c, 1, 6);
    t->embedded = random_int(c, 0, 3) == 0 && (form == C2C || form == R2R);
    bool rows = random_int(c, 0, 1); /* else transforms interleave */
    for (int side = 0; side < 2; side++) {
        int inner = (int)random_int(c, 1, 3);
        int outer = (int)random_int(c, 0, 3);
        t->stride[side] = rows ? inner : t->howmany + outer;
        t->distance[side] = rows ? inner * (int)volume(t, false) + outer : 1;
    }
    if (t->in_place) {
        t->stride[1] = t->stride[0];
        t->distance[1] = t->distance[0];
    }
}

static void
call_execute(void *function, void *plan, bool new_array, void *x, void *y)
{
    if (new_array) {
        void (*f)(void *, void *, void *);
        memcpy(&f, &function, sizeof f);
        f(plan, x, y);
    } else {
        void (*f)(void *);
        memcpy(&f, &function, sizeof f);
        f(plan);
    }
}

static struct buffer *
signal(struct call *c, const struct transform *t, int side, const char *name)
{
    bool complex;
    size_t n = elements(t, side, &complex);
    struct buffer *buffer =
        array(c, name, complex ? c->type : real_of(c->type), n);
    if (side == 0 && t->maker == MANY) {
        int length = (int)volume(t, t->form == C2R);
        for (int h = 0; h < t->howmany; h++) {
            for (int i = 0; i < length; i++) {
                fill(c, buffer,
                     (size_t)i * (size_t)t->stride[0] +
                         (size_t)h * (size_t)t->distance[0],
                     1, 0);
            }
        }
    } else if (side == 0) {
        for (size_t i = 0; i < n; i++) {
            fill(c, buffer, i, 1, 0);
        }
    }
    return buffer;
}

/* Whether what x holds afterwards may be anything, its old content included. */
static bool
destroys_input(const struct transform *t)
{
    if (t->flags & FFTW_DESTROY_INPUT) {
        return true;
    }
    return t->form == C2R && !(t->flags & FFTW_PRESERVE_INPUT);
}

/* Complex to real in place leaves anything behind the reals of each row. */
static void
blank_padding(const struct transform *t, char type, char *data)
{
    size_t real_bytes = real_of(type) == 'd' ? 8 : 4;
    size_t last = (size_t)t->n[t->rank - 1], room = 2 * (last / 2 + 1);
    size_t rows = volume(t, false) / last;
    for (size_t row = 0; row < rows; row++) {
        memset(data + (row * room + last) * real_bytes, 0,
               (room - last) * real_bytes);
    }
}

/* One plan, one execution, both ways. */
static double
run_transform(struct call *c, const struct transform *t, bool new_array,
              const char *maker_name, const char *execute_name,
              const char *destroy_name, lookup_fn *lookup, const char **what,
              double *digest)
{
    /* New arrays are aligned as the plan's, or the plan needs to know. */
    c->aligned = new_array && !(t->flags & FFTW_UNALIGNED);
    struct buffer *x = signal(c, t, 0, "x");
    struct buffer *y = t->in_place ? x : signal(c, t, 1, "y");
    struct buffer *x2 = x, *y2 = y;
    if (new_array) {
        x2 = signal(c, t, 0, "x2");
        y2 = t->in_place ? x2 : signal(c, t, 1, "y2");
    }
    c->growth = 256;
    c->nargs = 0;
    x2->is_workspace = !t->in_place && destroys_input(t);
    const bool keeps = !t->in_place && !destroys_input(t);
    /* Both libraries plan first: FFTW_ESTIMATE leaves the arrays alone. */
    void *plans[2];
    for (int twin = 0; twin < 2; twin++) {
        plans[twin] = make_plan(t, lookup(maker_name, twin),
                                twin ? x->twin_data : x->data,
                                twin ? y->twin_data : y->data);
        if (!plans[twin]) {
            return 0;
        }
    }
    snapshot_call(c);
    for (int twin = 1; twin >= 0; twin--) {
        for (unsigned i = 0; i <= keeps; i++) { /* the same again */
            call_execute(lookup(execute_name, twin), plans[twin], new_array,
                         twin ? x2->twin_data : x2->data,
                         twin ? y2->twin_data : y2->data);
        }
    }
    if (t->form == C2R && t->in_place) {
        blank_padding(t, c->type, x2->data);
        blank_padding(t, c->type, x2->twin_data);
    }
    double error = compare_call(c, what, digest);
    for (int twin = 0; twin < 2; twin++) {
        void (*destroy)(void *);
        void *f = lookup(destroy_name, twin);
        memcpy(&destroy, &f, sizeof destroy);
        destroy(plans[twin]);
    }
    return error;
}

void
drive_fftw(const char *prefix, char type, const struct drive *drive,
           lookup_fn *lookup)
{
    char maker[48], execute[48], destroy[48], label[112];
    snprintf(destroy, sizeof destroy, "%s_destroy_plan", prefix);
    for (int form = C2C; form <= R2R; form++) {
        for (int rank = 1; rank <= 5; rank++) {
            enum maker by = rank <= 3 ? FIXED : rank == 4 ? GENERAL : MANY;
            int used = snprintf(maker, sizeof maker, "%s_plan_%s%s", prefix,
                                by == MANY ? "many_" : "", form_names[form]);
            if (by == FIXED) {
                snprintf(maker + used, sizeof maker - (size_t)used, "_%dd",
                         rank);
            }
            for (int new_array = 0; new_array < 2; new_array++) {
                snprintf(execute, sizeof execute, "%s_%s", prefix,
                         new_array ? execute_names[form] : "execute");
                snprintf(label, sizeof label, "%s/%s", execute, maker);
                if (!drive_wants(drive, execute, maker, label)) {
                    continue;
                }
                if (drive->list) {
                    puts(label);
                    continue;
                }
                double worst = 0, sum = 0;
                unsigned bad = 0;
                for (unsigned i = 0; i < drive->count; i++) {
                    struct call c = {
                        .type = type,
                        .interface = LAPACKE,
                        .max_size = drive->max_size,
                        .random = drive_hash(label, drive->seed + i * 1000003)};
                    struct transform t;
                    random_transform(&c, &t, (enum form)form, by, rank);
                    const char *what = "";
                    double digest = 0;
                    double error =
                        run_transform(&c, &t, new_array, maker, execute,
                                      destroy, lookup, &what, &digest);
                    bool differs = error < 0 || error > 1;
                    if (differs || drive->verbose) {
                        printf("%s %s call %u: rank=%d n=%d,%d,%d howmany=%d "
                               "stride=%d,%d distance=%d,%d flags=%u "
                               "in_place=%d | %s %.3g\n",
                               differs ? "DIFFERS" : "ok", label, i, t.rank,
                               t.n[0], t.n[1], t.n[2], t.howmany, t.stride[0],
                               t.stride[1], t.distance[0], t.distance[1],
                               t.flags, t.in_place, what, error);
                    }
                    bad += differs;
                    worst = error > worst ? error : worst;
                    sum += digest;
                    free_call(&c);
                }
                drive_summary(label, drive->count, bad, worst, sum);
            }
        }
    }
}
