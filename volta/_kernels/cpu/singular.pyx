# Singular values and vectors: matrices are made bidiagonal by reflections from both sides, of many more rows than columns triangular first.
#
# Layout: matrices of any strides are copied into rows of whole blocks, wide ones turned; reflections from the left lie below the diagonal,
# those from the right are the rest of rows. Vectors are rows until they are given, column by column.
# Threads: over the matrices of a batch; of a large one over columns and rows. Sizes: the front end.
# The kernel gives None where squares of elements would be too large or too small, one is not finite, or an iteration does not converge.

from cython.parallel cimport prange
from libc.math cimport copysign, sqrt
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport TensorBase, address, empty_host
from volta._kernels.core.order cimport by_columns
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.bidiagonal cimport diagonalise, make_upper, values_alone
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lu_blocks cimport BLOCK, panel_room
from volta._kernels.cpu.matrix_batch cimport Batch, batch_of, copy_in, do_all, largest, offset, plan, some_t
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.rank_two cimport dots, pair
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.reflect_blocks cimport PANEL, apply_left, apply_right, reflect_panel
from volta._kernels.cpu.reflect_columns cimport TALL, columns_times, reflect_columns, take_columns

cdef enum:
    NARROW = 48                 # columns up to which those of a tall matrix are reflected as they lie


cdef double reflection(Py_ssize_t n, real* x, double least, real* tau) noexcept nogil:
    """What x[n] is reflected to, and x: the reflection, of zeros where there is none."""
    cdef double tail = 0, head = x[0], beta, scale
    cdef Py_ssize_t i
    for i in range(1, n):
        tail += <double>x[i] * x[i]
    if tail <= least * least:
        memset(x, 0, n * sizeof(real))
        tau[0] = 0
        return head
    beta = -copysign(sqrt(head * head + tail), head)
    tau[0] = <real>((beta - head) / beta)
    scale = 1 / (head - beta)
    for i in range(1, n):
        x[i] = <real>(x[i] * scale)
    x[0] = 1
    return beta


cdef void pairs(bint shared, Py_ssize_t first, Py_ssize_t m, real* a, Py_ssize_t ld, Py_ssize_t start, const real* v, const real* x,
                const real* y, const real* u, const real* next, real* out) noexcept nogil:
    cdef Py_ssize_t blocks = (ld - start) // BLOCK
    cdef int threads = threads_for((m - first) * blocks * 4) if shared else 1, t
    if threads == 1:
        pair(first, m, a, ld, start, ld, v, x, y, u, next, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        pair(first, m, a, ld, start + blocks * t // threads * BLOCK, start + blocks * (t + 1) // threads * BLOCK, v, x, y, u, next, out)


cdef void all_dots(bint shared, Py_ssize_t first, Py_ssize_t m, const real* a, Py_ssize_t ld, Py_ssize_t start, const real* u,
                   real* out) noexcept nogil:
    cdef int threads = threads_for((m - first) * (ld - start) // 4) if shared else 1, t
    if threads == 1:
        dots(first, m, a, ld, start, ld, u, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        dots(first + (m - first) * t // threads, first + (m - first) * (t + 1) // threads, a, ld, start, ld, u, out)


cdef void make_bidiagonal(bint shared, Py_ssize_t m, Py_ssize_t n, real* a, Py_ssize_t ld, double most, double* d, double* e, real* left,
                          real* right, real* space) noexcept nogil:
    """d and e of A = Q B P', with the factors of reflections. IN: m >= n; the largest element's size; 3 (m + ld) of space."""
    cdef real* v = space
    cdef real* next = v + m
    cdef real* x = next + m
    cdef real* y = x + m
    cdef real* u = y + ld
    cdef real* out = u + ld
    cdef real* spare
    cdef real* row
    cdef Py_ssize_t i, j, start
    cdef double least = 1e-40 * most if real is double else 1e-20 * most, inner
    memset(space, 0, 3 * (m + ld) * sizeof(real))
    for j in range(n):
        for i in range(j, m):
            next[i] = a[i * ld + j] - v[i] * y[j] - x[i] * u[j]
        d[j] = reflection(m - j, next + j, least, left + j)
        for i in range(j + 1, m):
            a[i * ld + j] = next[i]
        if j == n - 1:
            break
        start = (j + 1) // BLOCK * BLOCK
        y[j] = u[j] = 0
        pairs(shared, j, m, a, ld, start, v, x, y, u, next, out)
        row = a + j * ld
        for i in range(j + 1, n):
            y[i] = left[j] * out[i]
            u[i] = row[i] - next[j] * y[i]
        e[j] = reflection(n - j - 1, u + j + 1, least, right + j)
        memcpy(row + j + 1, u + j + 1, (n - j - 1) * sizeof(real))
        inner = 0
        for i in range(j + 1, n):
            inner += <double>y[i] * u[i]
        all_dots(shared, j + 1, m, a, ld, start, u, x)
        for i in range(j + 1, m):
            x[i] = right[j] * <real>(x[i] - next[i] * inner)
        spare = v
        v = next
        next = spare


# What is wanted: the values, and vectors unless `u` is NULL; `wide` matrices are turned, so that u are vectors from the right.
cdef struct Task:
    bint wide, triangular                   # first
    Py_ssize_t m, n, rows, ud               # m >= n; rows of u, of ud
    Py_ssize_t far                          # between columns, where these are taken as they lie, else 0
    void* u
    void* s
    void* v


cdef bint make_triangular(bint shared, Py_ssize_t m, Py_ssize_t n, real* a, Py_ssize_t ld, Py_ssize_t far, double most, bint turned,
                          real* tau, real* v, real* out) noexcept nogil:
    """R of a[m][n], or R'. IN: the largest element's size; v[m][PANEL] and behind it PANEL * PANEL and `panel_room`."""
    cdef double least = most * most * (1e-80 if real is double else 1e-28), normal = 1e-280 if real is double else 1e-28
    cdef real* t = v + m * PANEL
    cdef Py_ssize_t at = 0, some, i, j
    if least < normal:
        least = 0
    if far:
        memset(out, 0, n * ld * sizeof(real))
        while at < n:
            some = min(<Py_ssize_t>BLOCK, n - at)
            if not reflect_columns(m - at, some, a + at * (far + 1), far, tau + at, t, <real>least):
                return False
            columns_times(m - at, some, <const real*>a + at * (far + 1), far, <const real*>t, True, n - at - some,
                          a + (at + some) * far + at)
            at += some
        for i in range(n):
            for j in range(i, n):
                out[j * ld + i if turned else i * ld + j] = a[j * far + i]
        return True
    memset(t, 0, PANEL * PANEL * sizeof(real))
    while at < n:
        some = min(<Py_ssize_t>PANEL, n - at)
        if not reflect_panel(shared, m - at, some, a + at * (ld + 1), ld, tau + at, v, PANEL, t, 0, up(some, BLOCK),
                             <real>least, t + PANEL * PANEL):
            return False
        if at + up(some, BLOCK) < ld:
            apply_left(shared, True, m - at, some, v, PANEL, t, a + at * ld + at + up(some, BLOCK), ld, ld - at - up(some, BLOCK))
        at += some
    memset(out, 0, n * ld * sizeof(real))
    for i in range(n):
        for j in range(i, n):
            out[j * ld + i if turned else i * ld + j] = a[i * ld + j]
    return True


cdef void order_of(Py_ssize_t n, const double* d, Py_ssize_t* order) noexcept nogil:
    """Places by falling values."""
    cdef Py_ssize_t gap = 1, i, j, x
    for i in range(n):
        order[i] = i
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x, j = order[i], i
            while j >= gap and d[order[j - gap]] < d[x]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = x
        gap //= 3


cdef void give(Py_ssize_t m, Py_ssize_t rows, Py_ssize_t n, const real* x, Py_ssize_t ld, const Py_ssize_t* order, bint columns, real* out,
               real* space) noexcept nogil:
    """Vectors x[rows][m], of which the first n are put in order, as columns that lie one after the other, or as such rows."""
    cdef Py_ssize_t i
    if columns:
        for i in range(rows):
            memcpy(out + i * m, x + (order[i] if i < n else i) * ld, m * sizeof(real))
        return
    for i in range(rows):
        memcpy(space + i * ld, x + (order[i] if i < n else i) * ld, m * sizeof(real))
    turn(rows, m, space, ld, out, rows)


cdef bint vectors_of(const Batch* p, const Task* task, Py_ssize_t item, double* d, double* e, const real* copy, const real* b,
                     const real* tau, Py_ssize_t* order, real* space) noexcept nogil:
    """IN: the reflections in b, and where there was a triangle made before, in `copy`; their factors from the left, from the right and of
    the triangle, n each."""
    cdef Py_ssize_t m = task.m, n = task.n, ld = p.ld, ud = task.ud, i, rows = n if task.triangular else m
    cdef real* u = space
    cdef real* v = u + task.rows * ud + BLOCK
    cdef real* other = v + n * ld + BLOCK
    cdef bint fine, swapped
    memset(u, 0, task.rows * ud * sizeof(real))
    memset(v, 0, n * ld * sizeof(real))
    for i in range(task.rows):
        u[i * (ud + 1)] = 1
    for i in range(n):
        v[i * (ld + 1)] = 1
    if task.wide and not task.triangular:
        make_upper(n, d, e, v, ld, up(n, BLOCK), other)
    if task.wide:
        fine = diagonalise(p.shared, n, d, e, v, ld, up(n, BLOCK), u, ud, up(n, BLOCK), other)
    else:
        fine = diagonalise(p.shared, n, d, e, u, ud, up(n, BLOCK), v, ld, up(n, BLOCK), other)
    if not fine:
        return False
    swapped = task.wide and task.triangular             # L was decomposed, not R
    i = min(n, rows - 1)
    if i > 0 and swapped:
        apply_right(p.shared, n, n, i, b, ld, 1, tau, v, ld, other)
    elif i > 0:
        apply_right(p.shared, n if task.triangular else task.rows, rows, i, b, ld, 1, tau, u, ud, other)
    if n > 2:
        apply_right(p.shared, n, n - 1, n - 2, b + 1, 1, ld, tau + n, u + 1 if swapped else v + 1, ud if swapped else ld, other)
    if task.triangular:
        apply_right(p.shared, task.rows, m, n, copy, 1 if task.far else ld, task.far if task.far else 1, tau + 2 * n, u, ud, other)
    order_of(n, d, order)
    give(m, task.rows, n, u, ud, order, not task.wide, <real*>task.u + item * m * task.rows, other)
    give(n, n, n, v, ld, order, task.wide, <real*>task.v + item * n * n, other)
    return True


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, char* space) noexcept nogil:
    cdef Py_ssize_t item, i, m = task.m, n = task.n, ld = p.ld
    cdef double* d = <double*>space
    cdef double* e = d + n
    cdef Py_ssize_t* order = <Py_ssize_t*>(e + (n if task.u != NULL else 3 * n))
    cdef real* tau = <real*>(order + n)
    cdef real* copy = tau + 3 * n
    cdef real* b = copy + m * ld
    cdef real* rest = b + (n * ld if task.triangular else 0)
    cdef real* values
    cdef const real* at
    cdef double most
    for item in range(first, last):
        at = a + offset(p, p.a_strides, item)
        if task.far:
            take_columns(m, n, at, p.a_column if task.wide else p.a_row, p.a_row if task.wide else p.a_column, copy, task.far)
            most = largest(n, m, copy, task.far)
        else:
            copy_in(m, n, at, p.a_column if task.wide else p.a_row, p.a_row if task.wide else p.a_column, copy, ld)
            most = largest(m, n, copy, ld)
        if most < 0:
            return False
        if task.triangular and not make_triangular(p.shared, m, n, copy, ld, task.far, most, task.wide, tau + 2 * n, rest, b):
            return False
        if not task.triangular:
            b = copy
        make_bidiagonal(p.shared, n if task.triangular else m, n, b, ld, most, d, e, tau, tau + n, rest)
        if task.u != NULL:
            if not vectors_of(p, task, item, d, e, copy, b, tau, order, rest):
                return False
        else:
            if not values_alone(n, d, e, 1e-30 if real is double else 1e-15):
                return False
            order_of(n, d, order)
        values = <real*>task.s + item * n
        for i in range(n):
            values[i] = <real>d[order[i]]
    return True


cdef Py_ssize_t needed(const Batch* p, const Task* task):
    """Elements of a thread's space, but for d, e and order."""
    cdef Py_ssize_t m = task.m, n = task.n, ld = p.ld, rest, other
    rest = max(3 * (m + ld), m * PANEL + PANEL * PANEL + panel_room(m)) if task.triangular else 3 * (m + ld)
    rest = max(rest, 4 * n)
    if task.u != NULL:
        other = max(2 * PANEL * (m + BLOCK) + 2 * PANEL * PANEL, max(task.rows * task.ud, 4 * n))
        rest = max(rest, task.rows * task.ud + n * ld + 2 * BLOCK + max(other, n * ld))
    return 3 * n + m * ld + (n * ld if task.triangular else 0) + rest


def svd(TensorBase a not None, bint full_matrices, bint vectors=True):
    """(U, the singular values in falling order, V'), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    if a.size == 0:
        return None
    plan(&p, a, None, lead)
    task.wide = p.m < p.n
    task.m, task.n = max(p.m, p.n), min(p.m, p.n)
    task.triangular = task.m >= task.n * 11 // 6 and task.m > task.n
    task.rows = task.m if full_matrices else task.n
    p.ld, task.ud = up(task.n, BLOCK) + BLOCK, up(task.m, BLOCK) + BLOCK
    task.far = up(task.m, BLOCK) + BLOCK if task.triangular and task.n <= NARROW and task.m >= TALL else 0
    cdef Py_ssize_t left = task.n if task.wide else task.rows, right = task.rows if task.wide else task.n
    cdef TensorBase s = empty_host(lead + (task.n,), a.dtype), u, v
    if vectors:
        u, v = by_columns(lead, p.m, left, a), by_columns(lead, right, p.n, a)
    else:
        u, v = empty_host(lead + (p.m, 0), a.dtype), empty_host(lead + (0, p.n), a.dtype)
    task.s = address(s)
    task.u = NULL if not vectors else address(v) if task.wide else address(u)
    task.v = address(u) if task.wide else address(v)
    cdef Py_ssize_t each = (24 if vectors else 40) * task.n + needed(&p, &task) * a.dtype.itemsize
    return (u, s, v) if do_all(&p, <some_t>do_some[float], <some_t>do_some[double], &task, a, each) else None
