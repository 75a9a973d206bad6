# Symmetric matrices factored by elimination with blocks of 1 or 2 on the diagonal, and what is solved by the factors.
#
# Layout: column by column in the matrix's own copy, of whole blocks, as the results lie; of it only the lower triangle means anything.
# Panels of PANEL columns look back on what they hold, the rest is changed by products. Exchanges are packed as LAPACK's sytrf does.
# Threads: over the matrices of a batch; of a large one over columns of products. Sizes, and that pivots name rows: the front end.
# Each kernel gives None where a result is not finite: `factor.py` goes step by step then.
# Source: Bunch and Kaufman, Some Stable Methods for Calculating Inertia and Solving Symmetric Linear Systems, 1977.

from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t
from libc.stdlib cimport abs
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport INT32, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.order cimport by_columns
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lu_blocks cimport BLOCK, add_product, substitute, swap_rows
from volta._kernels.cpu.matrix_batch cimport Batch, all_finite, batch_of, copy_in, do_all, offset, plan, some_t
from volta._kernels.cpu.product cimport product
from volta._kernels.cpu.real cimport real

cdef enum:
    PANEL = 32                  # columns that are eliminated one by one, or two by two

cdef struct Task:
    bint solving
    int32_t* pivots             # of ldl
    int32_t* info
    const int32_t* exchanges    # of ldl_solve, of each item by its steps in p.a_strides
    void* out
    const void* b               # right sides of ldl_solve


cdef inline void swap(real* a, real* b) noexcept nogil:
    cdef real v = a[0]
    a[0] = b[0]
    b[0] = v


cdef void read_column(Py_ssize_t n, Py_ssize_t first, Py_ssize_t k, Py_ssize_t row, const real* a, Py_ssize_t ld, const real* v,
                      real* x) noexcept nogil:
    """x[k:n], that of the symmetric matrix's column `row` from row k on, without the panel's columns before k."""
    cdef Py_ssize_t start = k // BLOCK * BLOCK, i
    memset(x + start, 0, (k - start) * sizeof(real))
    for i in range(k, row):
        x[i] = a[i * ld + row]
    memcpy(x + row, a + row * ld + row, (ld - row) * sizeof(real))
    if k > first:
        product(1, ld - start, k - first, v + row, ld, ld, a + first * ld + start, ld, x + start, ld, True)


cdef inline Py_ssize_t largest_of(Py_ssize_t first, Py_ssize_t last, const real* x) noexcept nogil:
    """The place of the first largest size. IN: one element at least."""
    cdef Py_ssize_t i, place = first
    cdef real most = <real>fabs(x[first])
    for i in range(first + 1, last):
        if fabs(x[i]) > most:
            most, place = <real>fabs(x[i]), i
    return place


cdef void exchange(Py_ssize_t n, Py_ssize_t first, Py_ssize_t k, Py_ssize_t here, Py_ssize_t row, real* a, Py_ssize_t ld,
                   real* v) noexcept nogil:
    """Rows and columns here < row of what is left, and rows of the panel before column k."""
    cdef Py_ssize_t i
    a[row * (ld + 1)] = a[here * (ld + 1)]
    for i in range(here + 1, row):
        a[i * ld + row] = a[here * ld + i]
    for i in range(row + 1, n):
        a[row * ld + i] = a[here * ld + i]
    for i in range(first, k):
        swap(a + i * ld + here, a + i * ld + row)
        swap(v + (i - first) * ld + here, v + (i - first) * ld + row)


cdef void put_one(Py_ssize_t n, Py_ssize_t k, const real* x, real* out, real* v) noexcept nogil:
    """Column k of D and L, and what is taken away by it. IN: x."""
    cdef real scale = 1 / x[k]
    cdef Py_ssize_t i
    out[k], v[k] = x[k], -x[k]
    for i in range(k + 1, n):
        out[i] = x[i] * scale
        v[i] = -x[i]


cdef void put_two(Py_ssize_t n, Py_ssize_t k, const real* x, const real* y, real* out, Py_ssize_t ld, real* v) noexcept nogil:
    """Columns k and k + 1."""
    cdef real between = x[k + 1], first = y[k + 1] / between, second = x[k] / between, scale = 1 / (first * second - 1) / between
    cdef Py_ssize_t i
    out[k], out[k + 1], out[ld + k + 1] = x[k], x[k + 1], y[k + 1]
    for i in range(k, n):
        v[i], v[ld + i] = -x[i], -y[i]
    for i in range(k + 2, n):
        out[i] = scale * (first * x[i] - y[i])
        out[ld + i] = scale * (second * y[i] - x[i])


cdef Py_ssize_t factor_panel(Py_ssize_t n, Py_ssize_t first, real* a, Py_ssize_t ld, int32_t* pivots, real* v, real* x,
                             int32_t* info) noexcept nogil:
    """Columns from `first` on. OUT: v, minus what they are before division by D; what follows the last one, or -1 where a pivot is not
    finite. IN: x of two columns."""
    cdef real* y = x + ld
    cdef Py_ssize_t k = first, end = n if n - first <= PANEL else first + PANEL - 1, row, other, width, i
    cdef double bound = (1 + sqrt(17)) / 8, here, most, beside
    while k < end:
        read_column(n, first, k, k, a, ld, v, x)
        here, row, width, most = fabs(x[k]), k, 1, 0
        if not here - here == 0:
            return -1
        if k + 1 < n:
            row = largest_of(k + 1, n, x)
            most = fabs(x[row])
        if here == 0 and most == 0:
            if info[0] == 0:
                info[0] = <int32_t>(k + 1)
            pivots[k] = <int32_t>(k + 1)
            for i in range(k, n):
                a[k * ld + i] = v[(k - first) * ld + i] = 0
            k += 1
            continue
        if here >= bound * most:
            row = k
        else:
            read_column(n, first, k, row, a, ld, v, y)
            other = largest_of(k, row, y)
            beside = fabs(y[other])
            if row + 1 < n:
                other = largest_of(row + 1, n, y)
                beside = max(beside, fabs(y[other]))
            if here >= bound * most * (most / beside):
                row = k
            elif fabs(y[row]) >= bound * beside:
                memcpy(x + k, y + k, (n - k) * sizeof(real))
            else:
                width = 2
        other = k + width - 1
        if row != other:
            exchange(n, first, k, other, row, a, ld, v)
            swap(x + other, x + row)
            swap(y + other, y + row)
        if width == 1:
            put_one(n, k, x, a + k * ld, v + (k - first) * ld)
            pivots[k] = <int32_t>(row + 1)
        else:
            put_two(n, k, x, y, a + k * ld, ld, v + (k - first) * ld)
            pivots[k] = pivots[k + 1] = -<int32_t>(row + 1)
        k += width
    return k


cdef void turn_back(Py_ssize_t first, Py_ssize_t last, real* a, Py_ssize_t ld, const int32_t* pivots) noexcept nogil:
    """The rows of a panel's columns before the exchanges that came after each."""
    cdef Py_ssize_t k = last - 1, here, row, i
    while k >= first:
        here, row = k, pivots[k] - 1
        if pivots[k] < 0:
            row = -pivots[k] - 1
            k -= 1
        k -= 1
        if row != here:
            for i in range(first, k + 1):
                swap(a + i * ld + here, a + i * ld + row)


cdef int32_t factor(bint shared, Py_ssize_t n, real* a, Py_ssize_t ld, int32_t* pivots, real* space) noexcept nogil:
    """Gives the first block that is 0, from 1, or 0, or -1 where a pivot is not finite. IN: space of (PANEL + 2) columns."""
    cdef Py_ssize_t first = 0, last, at, start
    cdef int32_t info = 0
    cdef real* x = space + PANEL * ld
    while first < n:
        last = factor_panel(n, first, a, ld, pivots, space, x, &info)
        if last < 0:
            return -1
        at = last
        while at < n:
            start = at // BLOCK * BLOCK
            add_product(shared, min(<Py_ssize_t>PANEL, n - at), ld - start, last - first, space + at, 1, ld, a + first * ld + start,
                        a + at * ld + start, ld)
            at += PANEL
        turn_back(first, last, a, ld, pivots)
        first = last
    return info


cdef void order_rows(Py_ssize_t n, Py_ssize_t k, real* x, Py_ssize_t xd, const int32_t* pivots, bint back) noexcept nogil:
    """Rows of x exchanged as the pivots say, or back. IN: pivots that `in_one_order` takes."""
    cdef Py_ssize_t done = 0, last, width
    while done < n:
        last = n - 1 - done if back else done
        width = 1 + (pivots[last] < 0)
        if not back:
            last += width - 1
        done += width
        if abs(pivots[last]) - 1 != last:
            swap_rows(x + last * xd, x + (abs(pivots[last]) - 1) * xd, k)


cdef bint in_one_order(Py_ssize_t n, real* a, Py_ssize_t ld, const int32_t* pivots, real* beside) noexcept nogil:
    """L with all exchanges made, negative below its diagonal, where D stays, and what lies beside that in blocks of two. False for pivots
    that `factor` does not give."""
    cdef Py_ssize_t k = 0, last, row, i
    while k < n:
        beside[k] = 0
        last, row = k, pivots[k] - 1
        if pivots[k] < 0:
            last, row = k + 1, -pivots[k] - 1
            if last >= n or pivots[last] != pivots[k]:
                return False
            beside[k], beside[last] = a[k * ld + last], 0
            a[k * ld + last] = 0
        if not last <= row < n:
            return False
        if row != last:
            for i in range(k):
                swap(a + i * ld + last, a + i * ld + row)
        k = last + 1
    for k in range(n):
        for i in range(k + 1, n):
            a[k * ld + i] = -a[k * ld + i]
    return True


cdef void divide(Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t ld, const int32_t* pivots, const real* beside, real* x,
                 Py_ssize_t xd) noexcept nogil:
    """x by D."""
    cdef Py_ssize_t at = 0, j
    cdef real first, second, scale, p, q
    cdef real* y
    while at < n:
        y = x + at * xd
        if pivots[at] > 0:
            for j in range(k):
                y[j] /= a[at * (ld + 1)]
            at += 1
            continue
        first, second = a[at * (ld + 1)] / beside[at], a[(at + 1) * (ld + 1)] / beside[at]
        scale = first * second - 1
        for j in range(k):
            p, q = y[j] / beside[at], y[xd + j] / beside[at]
            y[j] = (second * p - q) / scale
            y[xd + j] = (first * q - p) / scale
        at += 2


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, real* space) noexcept nogil:
    cdef Py_ssize_t item, i, j, n = p.n, ld = p.ld, xd = p.xd, at
    cdef real* x = space + n * ld
    cdef real* beside = x + n * xd
    cdef real* out
    cdef const real* b = <const real*>task.b
    cdef const int32_t* pivots
    cdef real wrong
    for item in range(first, last):
        at = offset(p, p.a_strides, item)
        copy_in(n, n, a + at, p.a_column, p.a_row, space, ld)
        if not task.solving:
            task.info[item] = factor(p.shared, n, space, ld, task.pivots + item * n, x)
            wrong = <real>(task.info[item] < 0)
            for j in range(n):
                out = <real*>task.out + (item * n + j) * n
                memset(out, 0, j * sizeof(real))
                for i in range(j, n):
                    out[i] = space[j * ld + i]
                    wrong += out[i] - out[i]
            if not wrong == 0:
                return False
            continue
        pivots = task.exchanges + item * n
        if not in_one_order(n, space, ld, pivots, beside):
            return False
        copy_in(n, p.k, b + offset(p, p.b_strides, item), p.b_row, p.b_column, x, xd)
        order_rows(n, p.k, x, xd, pivots, False)
        substitute(p.shared, n, xd, space, 1, ld, True, x, xd, <real*>NULL)
        divide(n, p.k, space, ld, pivots, beside, x, xd)
        substitute(p.shared, n, xd, space + (n - 1) * (ld + 1), -ld, -1, True, x + (n - 1) * xd, -xd, <real*>NULL)
        order_rows(n, p.k, x, xd, pivots, True)
        if not all_finite(n, p.k, x, xd):
            return False
        turn(n, p.k, x, xd, <real*>task.out + item * n * p.k, n)
    return True


cdef bint run(const Batch* p, Task* task, TensorBase a, TensorBase b, Py_ssize_t more):
    task.b = NULL if b is None else address(b)
    return do_all(p, <some_t>do_some[float], <some_t>do_some[double], task, a, (p.n * p.ld + more) * a.dtype.itemsize)


def ldl(TensorBase a not None):
    """(the factors in one matrix, the exchanges, the first block that is 0, from 1, or 0), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    cdef TensorBase out = by_columns(lead, p.n, p.n, a), pivots = empty_host(lead + (p.n,), dtype_of(INT32))
    cdef TensorBase info = empty_host(lead, dtype_of(INT32))
    task.solving, task.pivots, task.info, task.out = False, <int32_t*>address(pivots), <int32_t*>address(info), address(out)
    if out.size == 0:
        memset(task.info, 0, info.size * sizeof(int32_t))
        return out, pivots, info
    return (out, pivots, info) if run(&p, &task, a, None, (PANEL + 2) * p.ld) else None


def ldl_solve(TensorBase a not None, TensorBase pivots not None, TensorBase b not None):
    """X of A X = b by the factors of A, or None; also where they, the exchanges and b have not one batch."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    if lead != batch_of(b) or pivots.shape != a.shape[:len(a.shape) - 1]:
        return None
    plan(&p, a, b, lead)
    pivots = packed(pivots)
    cdef TensorBase out = by_columns(lead, p.n, p.k, a)
    task.solving, task.exchanges, task.out = True, <const int32_t*>address(pivots), address(out)
    if out.size == 0:
        return out
    return out if run(&p, &task, a, b, (p.n + 1) * p.xd + p.ld) else None
