# Matrices decomposed by reflections (reflect_blocks.pyx) into orthonormal columns and triangles.
#
# Layout: matrices of any strides are copied into rows of whole blocks. Results lie column by column, as LAPACK's.
# Threads: over the matrices of a batch; of a large one over columns. Sizes: the front end.
# Each kernel gives None where squares of elements would be too large or too small, or one is not finite: LAPACK scales then.

from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.order cimport by_columns
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lu_blocks cimport BLOCK, add_product, panel_room, substitute
from volta._kernels.cpu.matrix_batch cimport Batch, all_finite, batch_of, copy_in, do_all, offset, plan, some_t
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.reflect_blocks cimport PANEL, apply_left, collect, reflect_panel
from volta._kernels.cpu.reflect_columns cimport TALL, columns_of_q, columns_t, columns_times, reflect_columns, take_columns

cdef enum:
    STRIP = 64                  # columns of an inverse that begin at one row

cdef double MOST = 0.5          # of a tolerance times a condition, where no singular value counts as 0

# What is made of each matrix: its factors as LAPACK packs them, or Q of so many columns and R of so many rows.
cdef struct Task:
    bint packed
    Py_ssize_t columns
    void* q                                 # or the packed factors; NULL where R alone is wanted
    void* r                                 # or tau


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, real* space) noexcept nogil:
    """IN: space of `needed`."""
    cdef Py_ssize_t item, i, at, some, m = p.m, n = p.n, ld = p.ld, count = min(m, n), vd = min(<Py_ssize_t>PANEL, up(count, BLOCK))
    cdef Py_ssize_t k = task.columns, qd = up(k, BLOCK)
    cdef real* v = space + m * ld
    cdef real* t = v + m * vd
    cdef real* tau = t + up(count, PANEL) * PANEL
    cdef real* q = tau + up(count, PANEL)
    cdef real* room = q + m * qd
    cdef real* out
    memset(t, 0, up(count, PANEL) * PANEL * sizeof(real))
    if m >= TALL and n <= BLOCK and k <= n:
        return do_narrow(p, task, a, first, last, t, tau, room)
    for item in range(first, last):
        copy_in(m, n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, space, ld)
        at = 0
        while at < count:
            some = min(<Py_ssize_t>PANEL, count - at)
            if not reflect_panel(p.shared, m - at, some, space + at * (ld + 1), ld, tau + at, v, vd, t + at * PANEL, 0, up(some, BLOCK), 0,
                                 room):
                return False
            if at + up(some, BLOCK) < ld:
                apply_left(p.shared, True, m - at, some, v, vd, t + at * PANEL, space + at * ld + at + up(some, BLOCK), ld,
                           ld - at - up(some, BLOCK))
            at += some
        if not all_finite(m, ld, space, ld):
            return False
        if task.packed:
            turn(m, n, space, ld, <real*>task.q + item * m * n, m)
            memcpy(<real*>task.r + item * count, tau, count * sizeof(real))
            continue
        if task.q != NULL:
            memset(q, 0, m * qd * sizeof(real))
            for i in range(k):
                q[i * (qd + 1)] = 1
        at = (count - 1) // PANEL * PANEL if task.q != NULL else -1
        while at >= 0:                              # of a single panel V is there yet
            some = min(<Py_ssize_t>PANEL, count - at)
            if at + some < count:
                copy_panel(m - at, some, space + at * (ld + 1), ld, v, vd)
            apply_left(p.shared, False, m - at, some, v, vd, t + at * PANEL, q + at * (qd + 1), qd, qd - at)
            at -= PANEL
        if task.q != NULL:
            turn(m, k, q, qd, <real*>task.q + item * m * k, m)
        out = <real*>task.r + item * k * n
        for i in range(min(k, n)):
            memset(space + i * ld, 0, i * sizeof(real))
        for i in range(n, k):
            memset(space + i * ld, 0, n * sizeof(real))
        turn(k, n, space, ld, out, k)
    return True


cdef bint do_narrow(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, real* t, real* tau,
                    real* room) noexcept nogil:
    """The same of at most a block of columns, each of which is taken as it lies. IN: room of `panel_room`."""
    cdef Py_ssize_t item, i, j, m = p.m, n = p.n, k = task.columns, far = up(m, BLOCK) + BLOCK
    cdef real* out
    for item in range(first, last):
        take_columns(m, n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, room, far)
        if not reflect_columns(m, n, room, far, tau, t, <real>0) or not all_finite(n, m, room, far):
            return False
        if task.packed:
            for j in range(n):
                memcpy(<real*>task.q + (item * n + j) * m, room + j * far, m * sizeof(real))
            memcpy(<real*>task.r + item * n, tau, n * sizeof(real))
            continue
        if k > 0 and task.q != NULL:
            columns_of_q(m, n, <const real*>room, far, <const real*>t, k, <real*>task.q + item * m * k)
        out = <real*>task.r + item * k * n
        for j in range(n if k > 0 else 0):
            for i in range(k):
                out[j * k + i] = room[j * far + i] if i <= j else 0
    return True


cdef void copy_panel(Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t ld, real* v, Py_ssize_t vd) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(m):
        memcpy(v + i * vd, a + i * ld, k * sizeof(real))
    for i in range(k):
        v[i * (vd + 1)] = 1
        memset(v + i * (vd + 1) + 1, 0, (k - i - 1) * sizeof(real))


cdef Py_ssize_t needed(const Batch* p, const Task* task):
    """Elements of a thread's space: copies of a, V, T, tau and Q."""
    cdef Py_ssize_t count = min(p.m, p.n)
    cdef Py_ssize_t each = p.ld + min(<Py_ssize_t>PANEL, up(count, BLOCK)) + up(task.columns, BLOCK)
    return p.m * each + up(count, PANEL) * (PANEL + 1) + PANEL + panel_room(p.m)


cdef bint run(const Batch* p, const Task* task, TensorBase a):
    return do_all(p, <some_t>do_some[float], <some_t>do_some[double], task, a, needed(p, task) * a.dtype.itemsize)


# ---------------------------------------------------------------- least squares

cdef double norm_of(Py_ssize_t m, Py_ssize_t n, const real* a, Py_ssize_t ld, bint upper) noexcept nogil:
    """The root of the sum of squares, of an upper triangle alone with `upper`."""
    cdef double total = 0
    cdef real some
    cdef Py_ssize_t i, j
    for i in range(m):
        some = 0
        for j in range(i if upper else 0, n):
            some += a[i * ld + j] * a[i * ld + j]
        total += some
    return sqrt(total)


cdef double inverse_norm(bint shared, Py_ssize_t n, const real* r, Py_ssize_t ld, real* x) noexcept nogil:
    """That of the inverse of a triangle, negative above its diagonal, by strips of columns. IN: x[n][STRIP]."""
    cdef double total = 0, some
    cdef Py_ssize_t at = 0, rows, i
    while at < n:
        rows = min(n, at + STRIP)
        memset(x, 0, rows * STRIP * sizeof(real))
        for i in range(at, rows):
            x[i * STRIP + i - at] = 1
        substitute(shared, rows, STRIP, r + (rows - 1) * (ld + 1), -ld, -1, False, x + (rows - 1) * STRIP, -STRIP, <real*>NULL)
        some = norm_of(rows, min(<Py_ssize_t>STRIP, n - at), <const real*>x, STRIP, False)
        total += some * some
        at += STRIP
    return sqrt(total)


cdef double fourth_norm(bint shared, Py_ssize_t n, const real* r, Py_ssize_t ld, real* x, Py_ssize_t xd, real* y) noexcept nogil:
    """The fourth root of the sum of singular values ** 4 of a triangle, which is nearer the largest than the root of that of squares.
    IN: x[n][xd], y[n][xd]."""
    cdef Py_ssize_t i
    for i in range(n):
        memset(x + i * xd, 0, i * sizeof(real))
        memcpy(x + i * xd + i, r + i * (ld + 1), (n - i) * sizeof(real))
        memset(x + i * xd + n, 0, (xd - n) * sizeof(real))
        x[i * (xd + 1)] = -x[i * (xd + 1)]
    memset(y, 0, n * xd * sizeof(real))
    add_product(shared, n, xd, n, <const real*>x, 1, xd, <const real*>x, y, xd)
    return sqrt(norm_of(n, n, <const real*>y, xd, False))


cdef bint least_some(const Batch* p, double rtol, const real* a, const real* b, real* out, real* bounds, Py_ssize_t first, Py_ssize_t last,
                     real* space) noexcept nogil:
    """X of the least |a X - b|, its rows behind one another in columns of m, and a bound of the condition of each a. False where one is
    singular, or not finite."""
    cdef Py_ssize_t item, i, j, at, some, m = p.m, n = p.n, wide = p.ld, ld = p.ld + p.xd, vd = min(<Py_ssize_t>PANEL, up(p.n, BLOCK))
    cdef real* v = space + m * ld
    cdef real* t = v + m * vd
    cdef real* tau = t + up(n, PANEL) * PANEL
    cdef real* room = tau + up(n, PANEL)
    cdef real* x = room + panel_room(m)
    cdef real* r = space
    cdef double inverse
    memset(t, 0, up(n, PANEL) * PANEL * sizeof(real))
    if m >= TALL and n + p.k <= BLOCK:
        r = v
    for item in range(first, last):
        if r == v:
            if not least_of_columns(p, a + offset(p, p.a_strides, item), b + offset(p, p.b_strides, item), space, tau, t, r, ld):
                return False
        else:
            copy_in(m, n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, space, ld)
            copy_in_beside(p, b + offset(p, p.b_strides, item), space + wide, ld)
        at = 0 if r == space else n
        while at < n:
            some = min(<Py_ssize_t>PANEL, n - at)
            if not reflect_panel(p.shared, m - at, some, space + at * (ld + 1), ld, tau + at, v, vd, t + at * PANEL, 0, up(some, BLOCK), 0,
                                 room):
                return False
            apply_left(p.shared, True, m - at, some, v, vd, t + at * PANEL, space + at * ld + at + up(some, BLOCK), ld,
                       ld - at - up(some, BLOCK))
            at += some
        for i in range(n):
            if r[i * (ld + 1)] == 0:
                return False
            for j in range(i + 1, n):
                r[i * ld + j] = -r[i * ld + j]
        inverse = inverse_norm(p.shared, n, <const real*>r, ld, x)
        bounds[item] = <real>(norm_of(n, n, <const real*>r, ld, True) * inverse)
        if not bounds[item] * rtol < MOST:
            bounds[item] = <real>(fourth_norm(p.shared, n, <const real*>r, ld, x, wide, x + n * max(wide, <Py_ssize_t>STRIP)) * inverse)
        substitute(p.shared, n, p.xd, <const real*>r + (n - 1) * (ld + 1), -ld, -1, False, r + wide + (n - 1) * ld, -ld, <real*>NULL)
        if not (all_finite(n, p.k, r + wide, ld) and bounds[item] - bounds[item] == 0):
            return False
        memset(out + item * m * p.k, 0, m * p.k * sizeof(real))
        turn(n, p.k, <const real*>r + wide, ld, out + item * m * p.k, m)
    return True


cdef inline bint least_of_columns(const Batch* p, const real* a, const real* b, real* columns, real* tau, real* t, real* r,
                                  Py_ssize_t ld) noexcept nogil:
    """R of few columns, and beside it what reflections make of right sides, which are few, too. IN: columns, BLOCK of them."""
    cdef Py_ssize_t i, j, m = p.m, n = p.n, wide = p.ld, far = up(p.m, BLOCK) + BLOCK
    cdef real* sides = columns + n * far
    take_columns(m, n, a, p.a_row, p.a_column, columns, far)
    take_columns(m, p.k, b, p.b_row, p.b_column, sides, far)
    if not reflect_columns(m, n, columns, far, tau, t, <real>0):
        return False
    columns_times(m, n, <const real*>columns, far, <const real*>t, True, p.k, sides)
    for i in range(n):
        for j in range(i, n):
            r[i * ld + j] = columns[j * far + i]
        for j in range(p.k):
            r[i * ld + wide + j] = sides[j * far + i]
        memset(r + i * ld + wide + p.k, 0, (p.xd - p.k) * sizeof(real))
    return True


cdef inline void copy_in_beside(const Batch* p, const real* b, real* out, Py_ssize_t ld) noexcept nogil:
    """Right sides into rows of ld, with zeros behind them up to whole blocks."""
    cdef Py_ssize_t i, j
    if p.b_row == 1 and p.b_column != 1 and p.m > 1 and p.k > 1:
        turn(p.k, p.m, b, p.b_column, out, ld)
    else:
        for i in range(p.m):
            for j in range(p.k):
                out[i * ld + j] = b[i * p.b_row + j * p.b_column]
    for i in range(p.m):
        memset(out + i * ld + p.k, 0, (p.xd - p.k) * sizeof(real))


cdef bint least_all(const Batch* p, double rtol, const real* a, const real* b, real* out, real* bounds, char* space,
                    Py_ssize_t each) noexcept nogil:
    cdef int t, fine = 0
    if p.threads == 1:
        return least_some(p, rtol, a, b, out, bounds, 0, p.count, <real*>space)
    for t in prange(p.threads, num_threads=p.threads, schedule="static"):
        fine += least_some(p, rtol, a, b, out, bounds, p.count * t // p.threads, p.count * (t + 1) // p.threads, <real*>(space + t * each))
    return fine == p.threads


def least(TensorBase a not None, TensorBase b not None, double rtol):
    """(X of the least |a X - b| in as many rows as a has, those behind it zeros; bounds of the conditions of a), or None where a is
    singular, has more columns than rows, or what is there is not finite. Where `rtol` times the bound is not below MOST, it is a nearer
    one."""
    cdef Batch p
    cdef tuple lead = batch_of(a)
    if a.size == 0 or b.size == 0 or lead != batch_of(b):
        return None
    plan(&p, a, b, lead)
    if p.m < p.n:
        return None
    cdef Py_ssize_t size = a.dtype.itemsize, each = up((p.m * (p.ld + p.xd + PANEL) + up(p.n, PANEL) * (PANEL + 1) + panel_room(p.m)
                                                        + 2 * p.n * max(p.ld, <Py_ssize_t>STRIP)) * size, 64)
    cdef Storage memory = host_storage(each * p.threads)
    cdef TensorBase out = by_columns(lead, p.m, p.k, a), bounds = empty_host(lead, a.dtype)
    cdef void* x = address(a)
    cdef void* y = address(b)
    cdef void* to = address(out)
    cdef void* found = address(bounds)
    cdef bint fine
    with nogil:
        if size == 4:
            fine = least_all(&p, rtol, <const float*>x, <const float*>y, <float*>to, <float*>found, memory.data, each)
        else:
            fine = least_all(&p, rtol, <const double*>x, <const double*>y, <double*>to, <double*>found, memory.data, each)
    return (out, bounds) if fine else None


# ---------------------------------------------------------------- products with what is known

cdef struct Known:
    bint turned, right                      # Q' instead of Q; the result lies as the transposed one
    Py_ssize_t count                        # reflections
    void* out


cdef bint multiply_some(const Batch* p, const Known* task, const real* a, const real* tau, const real* c, Py_ssize_t first, Py_ssize_t last,
                        real* space) noexcept nogil:
    """Q c, or Q itself, of the first columns, where c is NULL. IN: space for V, T and c."""
    cdef Py_ssize_t item, i, at, some, panels = (task.count + PANEL - 1) // PANEL, panel, m = p.m, k = p.k, xd = p.xd
    cdef Py_ssize_t vd = min(<Py_ssize_t>PANEL, up(task.count, BLOCK))
    cdef real* t = space
    cdef real* v = t + PANEL * PANEL
    cdef real* x = v + m * vd
    cdef const real* here
    for item in range(first, last):
        here = a + offset(p, p.a_strides, item)
        if c == NULL and m >= TALL and k <= BLOCK:
            i = up(m, BLOCK) + BLOCK
            take_columns(m, task.count, here, p.a_row, p.a_column, v, i)
            columns_t(m, task.count, <const real*>v, i, tau + item * task.count, t)
            columns_of_q(m, task.count, <const real*>v, i, <const real*>t, k, <real*>task.out + item * m * k)
            if not all_finite(k, m, <real*>task.out + item * m * k, m):
                return False
            continue
        if c != NULL and m >= TALL and task.count <= BLOCK and k <= BLOCK and not task.right:
            i = up(m, BLOCK) + BLOCK
            x = v + task.count * i
            take_columns(m, task.count, here, p.a_row, p.a_column, v, i)
            take_columns(m, k, c + offset(p, p.b_strides, item), p.b_row, p.b_column, x, i)
            columns_t(m, task.count, <const real*>v, i, tau + item * task.count, t)
            columns_times(m, task.count, <const real*>v, i, <const real*>t, task.turned, k, x)
            if not all_finite(k, m, x, i):
                return False
            for at in range(k):
                memcpy(<real*>task.out + (item * k + at) * m, x + at * i, m * sizeof(real))
            continue
        if c == NULL:
            memset(x, 0, m * xd * sizeof(real))
            for i in range(k):
                x[i * (xd + 1)] = 1
        else:
            copy_in(m, k, c + offset(p, p.b_strides, item), p.b_row, p.b_column, x, xd)
        for i in range(panels):
            panel = i if task.turned else panels - 1 - i
            at = panel * PANEL
            some = min(<Py_ssize_t>PANEL, task.count - at)
            collect(m - at, some, here + at * (p.a_row + p.a_column), p.a_row, p.a_column, tau + item * task.count + at, v, vd, t)
            if c == NULL:
                apply_left(p.shared, False, m - at, some, v, vd, t, x + at * (xd + 1), xd, xd - at)
            else:
                apply_left(p.shared, task.turned, m - at, some, v, vd, t, x + at * xd, xd, xd)
        if not all_finite(m, k, x, xd):
            return False
        if not task.right:
            turn(m, k, x, xd, <real*>task.out + item * m * k, m)
            continue
        for i in range(m):
            memcpy(<real*>task.out + (item * m + i) * k, x + i * xd, k * sizeof(real))
    return True


cdef bint multiply_all(const Batch* p, const Known* task, const real* a, const real* tau, const real* c, char* space,
                       Py_ssize_t each) noexcept nogil:
    cdef int t, fine = 0
    if p.threads == 1:
        return multiply_some(p, task, a, tau, c, 0, p.count, <real*>space)
    for t in prange(p.threads, num_threads=p.threads, schedule="static"):
        fine += multiply_some(p, task, a, tau, c, p.count * t // p.threads, p.count * (t + 1) // p.threads, <real*>(space + t * each))
    return fine == p.threads


cdef bint multiply(const Batch* p, const Known* task, TensorBase a, TensorBase tau, TensorBase c):
    cdef Py_ssize_t size = a.dtype.itemsize, each = up((PANEL * PANEL + p.m * (PANEL + p.xd)) * size, 64)
    cdef Storage memory = host_storage(each * p.threads)
    cdef void* x = address(a)
    cdef void* y = address(tau)
    cdef void* z = NULL if c is None else address(c)
    cdef bint fine
    with nogil:
        if size == 4:
            fine = multiply_all(p, task, <const float*>x, <const float*>y, <const float*>z, memory.data, each)
        else:
            fine = multiply_all(p, task, <const double*>x, <const double*>y, <const double*>z, memory.data, each)
    return fine


def reflections(TensorBase a not None, TensorBase tau not None):
    """The first columns of the product of the reflections that lie below the diagonal of a, or None."""
    cdef Batch p
    cdef Known task
    cdef tuple lead = batch_of(a)
    if a.size == 0:
        return None
    plan(&p, a, None, lead)
    p.k, p.xd = p.n, p.ld
    tau = packed(tau)
    cdef TensorBase out = by_columns(lead, p.m, p.n, a)
    task.turned, task.right, task.count, task.out = False, False, tau.shape[len(tau.shape) - 1], address(out)
    return out if multiply(&p, &task, a, tau, None) else None


def reflected(TensorBase a not None, TensorBase tau not None, TensorBase c not None, bint left, bint transpose):
    """Q c, or c Q unless `left`, or either with the transpose of Q, the product of the reflections that lie below the diagonal of a, or
    None; also where a and c have other batches."""
    cdef Batch p
    cdef Known task
    cdef tuple lead = batch_of(a)
    if a.size == 0 or c.size == 0 or lead != batch_of(c):
        return None
    plan(&p, a, c, lead)
    if not left:                                # the transpose of Q' c'
        p.k, p.b_row, p.b_column = c.shape[len(c.shape) - 2], p.b_column, p.b_row
        p.xd = up(p.k, BLOCK)
    tau = packed(tau)
    cdef TensorBase out = by_columns(lead, c.shape[len(c.shape) - 2], c.shape[len(c.shape) - 1], a)
    task.turned, task.right, task.count, task.out = transpose == left, not left, tau.shape[len(tau.shape) - 1], address(out)
    return out if multiply(&p, &task, a, tau, c) else None


def qr(TensorBase a not None, str mode):
    """(Q, R), or None. `mode` "complete" gives a square Q, "r" one without columns."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    if a.size == 0:
        return None
    plan(&p, a, None, lead)
    task.packed, task.columns = False, p.m if mode == "complete" else min(p.m, p.n)
    cdef TensorBase q = by_columns(lead, p.m, 0 if mode == "r" else task.columns, a), r = by_columns(lead, task.columns, p.n, a)
    task.q, task.r = NULL if mode == "r" else address(q), address(r)
    return (q, r) if run(&p, &task, a) else None


def geqrf(TensorBase a not None):
    """(R and below it the reflections, their factors), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    if a.size == 0:
        return None
    plan(&p, a, None, lead)
    task.packed, task.columns = True, 0
    cdef TensorBase out = by_columns(lead, p.m, p.n, a), tau = empty_host(lead + (min(p.m, p.n),), a.dtype)
    task.q, task.r = address(out), address(tau)
    return (out, tau) if run(&p, &task, a) else None
