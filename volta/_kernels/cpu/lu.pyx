# Matrices factored by elimination (lu_blocks.pyx), and what is solved by the factors: small ones of a batch abreast (lu_batch.pxd).
#
# Layout: matrices of any strides are copied into rows of whole blocks. Factors hold U with L below the diagonal, and while one solves by
# them all that is off the diagonal is negative, so that blocks are only added. Results lie column by column, as LAPACK's.
# Threads: over the matrices of a batch; of a large one over columns of products, whose sums have one order.
# Sizes: the front end. Each kernel gives None where a result is not finite: what PyTorch has there, `decomposition.py` finds out.

from libc.math cimport fabs
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport INT32, Storage, TensorBase, address, dtype_of, empty_host, host_storage
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lines cimport inner_product
from volta._kernels.cpu.lu_batch cimport (
    AGAIN, CHOLESKY, CHOLESKY_INVERSE, COFACTOR, DET, INV, LU, SLOGDET, SOLVE, TRIANGLE, Task, do_abreast, log_of_pivots, product_of_pivots,
    taken_abreast,
)
from volta._kernels.cpu.lu_blocks cimport add_product, eliminate, factor_symmetric, substitute, swap_rows
from volta._kernels.cpu.matrix_batch cimport Batch, all_finite, batch_of, by_columns, copy_in, do_all, offset, plan, some_t
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real

# ---------------------------------------------------------------- one matrix

cdef void turn_signs(Py_ssize_t m, Py_ssize_t n, real* a, Py_ssize_t ld, bint below, bint above) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(m):
        if below:
            for j in range(min(i, n)):
                a[i * ld + j] = -a[i * ld + j]
        if above:
            for j in range(i + 1, n):
                a[i * ld + j] = -a[i * ld + j]


cdef void solve_by(bint shared, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t ld, const int32_t* pivots, bint turned, real* x,
                   Py_ssize_t xd) noexcept nogil:
    """x of A x = b, or of A' x = b (`turned`), by the factors of A, instead of b."""
    cdef Py_ssize_t i
    if not turned:
        for i in range(n):
            if pivots[i] != i + 1:
                swap_rows(x + i * xd, x + (pivots[i] - 1) * xd, k)
        substitute(shared, n, k, a, ld, 1, True, x, xd, <real*>NULL)
        substitute(shared, n, k, a + (n - 1) * (ld + 1), -ld, -1, False, x + (n - 1) * xd, -xd, <real*>NULL)
        return
    substitute(shared, n, k, a, 1, ld, False, x, xd, <real*>NULL)
    substitute(shared, n, k, a + (n - 1) * (ld + 1), -1, -ld, True, x + (n - 1) * xd, -xd, <real*>NULL)
    for i in range(n - 1, -1, -1):
        if pivots[i] != i + 1:
            swap_rows(x + i * xd, x + (pivots[i] - 1) * xd, k)


cdef bint cofactors(bint shared, Py_ssize_t n, const real* a, Py_ssize_t ld, const int32_t* pivots, real* x) noexcept nogil:
    """det(A) A'^-1 by the factors of A', instead of A. False where the inverse is too far off, or the determinant no normal number."""
    cdef double size = square_of_all(n, x, ld), limit = 1e-11 if real is double else 1e-5, smallest = 1e-300 if real is double else 1e-36
    cdef double found = product_of_pivots(n, a, ld + 1, pivots)
    cdef Py_ssize_t i, j
    if not smallest < fabs(found) < 1 / smallest:
        return False
    memset(x, 0, n * ld * sizeof(real))
    for i in range(n):
        x[i * (ld + 1)] = 1
    solve_by(shared, n, ld, a, ld, pivots, False, x, ld)
    size *= square_of_all(n, x, ld)
    for i in range(n):
        for j in range(n):
            x[i * ld + j] = <real>(x[i * ld + j] * found)
    return size * limit * limit < n * n


cdef double square_of_all(Py_ssize_t n, const real* a, Py_ssize_t ld) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(n):
            total += <double>a[i * ld + j] * a[i * ld + j]
    return total


# ---------------------------------------------------------------- batches

cdef enum:
    AS_IT_LIES = 32             # rows from which on a triangle is not copied
    STRIP = 64                  # columns of an inverse that begin at one row

cdef inline void substitute_triangle(const Batch* p, const Task* task, Py_ssize_t n, Py_ssize_t xd, const real* a, Py_ssize_t row,
                                     Py_ssize_t column, real* x, real* spare) noexcept nogil:
    if task.upper:
        substitute(p.shared, n, xd, a + (n - 1) * (row + column), -row, -column, task.unit, x + (n - 1) * xd, -xd,
                   <real*>NULL if spare == NULL else spare + (n - 1) * xd)
    else:
        substitute(p.shared, n, xd, a, row, column, task.unit, x, xd, spare)


cdef void substitute_line(Py_ssize_t n, const real* a, Py_ssize_t row, Py_ssize_t column, bint upper, bint unit, real* x) noexcept nogil:
    """x of a triangular system instead of its only right side, by sums along what lies together. IN: a row or column of a does."""
    cdef Py_ssize_t at, i, j, first
    for at in range(n):
        i = n - 1 - at if upper else at
        first = i + 1 if upper else 0
        if column == 1:
            x[i] -= inner_product(at, a + i * row + first, <const real*>x + first)
        if not unit:
            x[i] /= a[i * (row + column)]
        if column != 1:
            take_line(n - 1 - at, x[i], a + i * column + (0 if upper else i + 1), x + (0 if upper else i + 1))


cdef inline void take_line(Py_ssize_t n, real scale, const real* a, real* x) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        x[i] -= scale * a[i]


cdef bint inverse_of_product(bint shared, Py_ssize_t n, real* a, real* x, Py_ssize_t ld) noexcept nogil:
    """(L L')^-1 instead of L, of which the lower triangle is read. False where it is not finite, or L singular. IN: x[n][ld]."""
    cdef Py_ssize_t at, width, i, j
    for i in range(n):
        if a[i * (ld + 1)] == 0:
            return False
    turn_signs(n, n, a, ld, True, False)
    memset(x, 0, n * ld * sizeof(real))
    for i in range(n):
        x[i * (ld + 1)] = 1
    at = 0
    while at < n:
        substitute(shared, n - at, min(<Py_ssize_t>STRIP, ld - at), a + at * (ld + 1), ld, 1, False, x + at * (ld + 1), ld, <real*>NULL)
        at += STRIP
    memset(a, 0, n * ld * sizeof(real))
    at = 0
    while at < n:                               # what is above the diagonal of an inverse is 0
        width = min(<Py_ssize_t>STRIP, n - at)
        add_product(shared, width, min(at + STRIP, ld), n - at, x + at * (ld + 1), 1, ld, x + at * ld, a + at * ld, ld)
        at += STRIP
    for i in range(n):
        for j in range(i):
            a[j * ld + i] = a[i * ld + j]
    return all_finite(n, n, a, ld)


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, real* space) noexcept nogil:
    """Whether all is finite. IN: space for the copies of a and of b."""
    cdef Py_ssize_t item, i, info, m = p.m, n = p.n, k = p.k, ld = p.ld, xd = p.xd, count = min(p.m, p.n)
    cdef real* x = space + m * ld
    cdef real* out
    cdef const real* b = <const real*>task.b
    cdef int32_t* pivots
    if taken_abreast(p):
        return do_abreast(p, task, a, b, first, last)
    for item in range(first, last):
        pivots = task.pivots + item * count
        if task.kind == CHOLESKY:               # the lower triangle, turned: by columns U is L
            copy_in(n, n, a + offset(p, p.a_strides, item), p.a_column, p.a_row, space, ld)
            if not factor_symmetric(p.shared, n, space, x, ld, 0, ld):
                return False
            out = <real*>task.out + item * n * n
            for i in range(n):
                memset(out + i * n, 0, i * sizeof(real))
                memcpy(out + i * n + i, space + i * (ld + 1), (n - i) * sizeof(real))
            if not all_finite(n, n, out, n):
                return False
            continue
        if task.kind == TRIANGLE and k == 1 and (p.a_row == 1 or p.a_column == 1):
            out = <real*>task.out + item * n
            for i in range(n):
                out[i] = (b + offset(p, p.b_strides, item))[i * p.b_row]
            substitute_line(n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, task.upper, task.unit, out)
            if not all_finite(1, n, out, n):
                return False
            continue
        if task.kind == TRIANGLE and n > AS_IT_LIES and (p.a_row == 1 or p.a_column == 1):
            copy_in(n, k, b + offset(p, p.b_strides, item), p.b_row, p.b_column, x, xd)
            substitute_triangle(p, task, n, xd, a + offset(p, p.a_strides, item), p.a_row, p.a_column, x, x + n * xd)
            if not all_finite(n, k, x, xd):
                return False
            turn(n, k, x, xd, <real*>task.out + item * n * k, n)
            continue
        if task.kind == CHOLESKY_INVERSE:           # of the lower triangle, or with `upper` of the turned one
            copy_in(n, n, a + offset(p, p.a_strides, item), p.a_column if task.upper else p.a_row, p.a_row if task.upper else p.a_column,
                    space, ld)
            if not inverse_of_product(p.shared, n, space, x, ld):
                return False
            out = <real*>task.out + item * n * n
            for i in range(n):
                memcpy(out + i * n, space + i * ld, n * sizeof(real))
            continue
        copy_in(m, n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, space, ld)
        if task.kind == AGAIN or task.kind == TRIANGLE or task.kind == COFACTOR:
            for i in range(0 if task.kind == TRIANGLE else n):
                if not i < pivots[i] <= n:      # a hook may give back other exchanges than were saved
                    return False
            turn_signs(m, n, space, ld, True, True)
        else:
            info = eliminate(p.shared, m, count, ld, space, ld, 0, ld, pivots)
            task.info[item] = <int32_t>info
            if not all_finite(m, n, space, ld) or info and task.kind >= INV:
                return False
            turn_signs(m, n, space, ld, True, False)
            if task.kind == LU:
                turn(m, n, space, ld, <real*>task.lu + item * m * n, m)
                continue
            if task.kind != INV:
                for i in range(n):
                    memcpy(<real*>task.lu + (item * n + i) * n, space + i * ld, n * sizeof(real))
            if task.kind == DET:
                (<real*>task.out)[item] = <real>product_of_pivots(n, space, ld + 1, pivots)
                continue
            if task.kind == SLOGDET:
                (<real*>task.out)[item] = <real>log_of_pivots(n, space, ld + 1, pivots, <real*>task.signs + item)
                continue
            turn_signs(n, n, space, ld, True, True)
        if task.kind == INV:
            memset(x, 0, n * xd * sizeof(real))
            for i in range(n):
                x[i * xd + i] = 1
        else:
            copy_in(n, k, b + offset(p, p.b_strides, item), p.b_row, p.b_column, x, xd)
        if task.kind == COFACTOR:
            if not cofactors(p.shared, n, space, ld, pivots, x):
                return False
        elif task.kind != TRIANGLE:
            solve_by(p.shared, n, xd, space, ld, pivots, task.turned, x, xd)
        else:
            substitute_triangle(p, task, n, xd, space, ld, 1, x, <real*>NULL)
        if not all_finite(n, k, x, xd):
            return False
        turn(n, k, x, xd, <real*>task.out + item * n * k, n)
    return True


cdef bint run(const Batch* p, Task* task, TensorBase a, TensorBase b):
    task.b = NULL if b is None else address(b)
    return do_all(p, <some_t>do_some[float], <some_t>do_some[double], task, a,
                  (p.m * p.ld + 2 * p.n * p.xd) * a.dtype.itemsize)


cdef tuple wider_batch(TensorBase a, TensorBase b):
    """The batch that those of a and of b broadcast to."""
    cdef tuple x = batch_of(a), y = batch_of(b)
    if x == y:
        return x
    cdef int rank = max(len(x), len(y)), d
    x, y = (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y
    return tuple([y[d] if x[d] == 1 else x[d] for d in range(rank)])


def lu(TensorBase a not None):
    """(the factors in one matrix, the row that each was exchanged with, from 1, the first pivot that is 0, from 1, or 0), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    cdef TensorBase out = by_columns(lead, p.m, p.n, a), pivots = empty_host(lead + (min(p.m, p.n),), dtype_of(INT32))
    cdef TensorBase info = empty_host(lead, dtype_of(INT32))
    task.kind, task.lu, task.pivots, task.info = LU, address(out), <int32_t*>address(pivots), <int32_t*>address(info)
    if out.size == 0:
        memset(task.info, 0, info.size * sizeof(int32_t))
        return out, pivots, info
    return (out, pivots, info) if run(&p, &task, a, None) else None


def det(TensorBase a not None):
    """(the determinants, the factors and exchanges of the transposed matrices, as in PyTorch), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    p.a_row, p.a_column = p.a_column, p.a_row
    cdef TensorBase out = empty_host(lead, a.dtype), factors = empty_host(a.shape, a.dtype)
    cdef TensorBase pivots = empty_host(a.shape[:len(a.shape) - 1], dtype_of(INT32)), info = empty_host(lead, dtype_of(INT32))
    task.kind, task.lu, task.pivots, task.info = DET, address(factors), <int32_t*>address(pivots), <int32_t*>address(info)
    task.out = address(out)
    return (out, factors, pivots) if run(&p, &task, a, None) else None


def slogdet(TensorBase a not None):
    """(the logarithms of the sizes of determinants, their signs, the factors and exchanges of the matrices, or of the transposed ones where
    a is contiguous), or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    if a.contiguous:
        p.a_row, p.a_column = p.a_column, p.a_row
    cdef TensorBase factors = empty_host(a.shape, a.dtype)
    cdef TensorBase out = empty_host(lead, a.dtype), signs = empty_host(lead, a.dtype), info = empty_host(lead, dtype_of(INT32))
    cdef TensorBase pivots = empty_host(a.shape[:len(a.shape) - 1], dtype_of(INT32))
    task.kind, task.lu, task.pivots, task.info = SLOGDET, address(factors), <int32_t*>address(pivots), <int32_t*>address(info)
    task.out, task.signs = address(out), address(signs)
    return (out, signs, factors, pivots) if run(&p, &task, a, None) else None


def inv(TensorBase a not None):
    """(the inverses, an `info` of zeros), or None, also where one is singular."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    p.k, p.xd = p.n, p.ld
    cdef TensorBase out = by_columns(lead, p.n, p.n, a), info = empty_host(lead, dtype_of(INT32))
    cdef TensorBase pivots = empty_host(a.shape[:len(a.shape) - 1], dtype_of(INT32))
    task.kind, task.turned, task.pivots, task.info = INV, False, <int32_t*>address(pivots), <int32_t*>address(info)
    task.out = address(out)
    if out.size == 0:
        memset(task.info, 0, info.size * sizeof(int32_t))
        return out, info
    return (out, info) if run(&p, &task, a, None) else None


def cholesky(TensorBase a not None):
    """(L of A = L L', of which the lower triangle is read, an `info` of zeros), or None, also where one is not positive definite."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    p.xd = p.ld
    cdef TensorBase out = by_columns(lead, p.n, p.n, a), info = empty_host(lead, dtype_of(INT32))
    memset(address(info), 0, info.size * sizeof(int32_t))
    task.kind, task.pivots, task.out = CHOLESKY, NULL, address(out)
    if out.size == 0:
        return out, info
    return (out, info) if run(&p, &task, a, None) else None


def cholesky_inverse(TensorBase a not None, bint upper):
    """(A^-1 of A = L L', or of U' U, by that triangle, an `info` of zeros), or None, also where one is singular."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    p.xd = p.ld
    cdef TensorBase out = by_columns(lead, p.n, p.n, a), info = empty_host(lead, dtype_of(INT32))
    memset(address(info), 0, info.size * sizeof(int32_t))
    task.kind, task.upper, task.pivots, task.out = CHOLESKY_INVERSE, upper, NULL, address(out)
    if out.size == 0:
        return out, info
    return (out, info) if run(&p, &task, a, None) else None


def solve(TensorBase a not None, TensorBase b not None, bint turn=False):
    """(X of A X = B, or of A' X = B, an `info` of zeros, the factors and exchanges of A), or None, also where one is singular."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = wider_batch(a, b)
    if a.size == 0 or b.size == 0 or batch_of(a) != lead:
        return None
    plan(&p, a, b, lead)
    cdef TensorBase out = by_columns(lead, p.n, p.k, a), info = empty_host(lead, dtype_of(INT32)), factors = empty_host(a.shape, a.dtype)
    cdef TensorBase pivots = empty_host(a.shape[:len(a.shape) - 1], dtype_of(INT32))
    task.kind, task.lu, task.pivots, task.info = SOLVE, address(factors), <int32_t*>address(pivots), <int32_t*>address(info)
    task.out, task.turned = address(out), turn
    return (out, info, factors, pivots) if run(&p, &task, a, b) else None


cdef bint belong(TensorBase factors, TensorBase pivots, TensorBase x):
    """Whether these are factors and exchanges of square matrices, to be applied to the matrices x. What was saved may come back changed."""
    cdef int rank = len(factors.shape)
    return (rank > 1 and len(x.shape) == rank and factors.dtype is x.dtype and pivots.dtype.code == INT32 and pivots.contiguous
            and factors.shape[rank - 1] == factors.shape[rank - 2] == x.shape[rank - 2] and batch_of(x) == batch_of(factors)
            and pivots.shape == factors.shape[:rank - 1] and factors.size > 0 and x.size > 0)


def solve_again(TensorBase factors not None, TensorBase pivots not None, TensorBase b not None, bint turn=False):
    """X of A X = B, or of A' X = B, by the factors and exchanges of A, or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(factors)
    if not belong(factors, pivots, b):
        return None
    plan(&p, factors, b, lead)
    cdef TensorBase out = by_columns(lead, p.n, p.k, factors)
    task.kind, task.turned, task.pivots, task.out = AGAIN, turn, <int32_t*>address(pivots), address(out)
    return out if run(&p, &task, factors, b) else None


def cofactor(TensorBase a not None, TensorBase factors not None, TensorBase pivots not None):
    """det(A) A'^-1, by the factors and exchanges of A', or None, also where elimination is too inexact."""
    cdef Batch p
    cdef Task task
    if not belong(factors, pivots, a) or a.shape != factors.shape:
        return None
    plan(&p, factors, a, batch_of(a))
    cdef TensorBase out = by_columns(batch_of(a), p.n, p.k, a)
    task.kind, task.pivots, task.out = COFACTOR, <int32_t*>address(pivots), address(out)
    return out if run(&p, &task, factors, a) else None


def triangular(TensorBase a not None, TensorBase b not None, bint upper, bint unitriangular):
    """X of a triangular system, or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = wider_batch(a, b)
    plan(&p, a, b, lead)
    cdef TensorBase out = by_columns(lead, p.n, p.k, a)
    task.kind, task.upper, task.unit, task.pivots, task.out = TRIANGLE, upper, unitriangular, NULL, address(out)
    if out.size == 0:
        return out
    return out if run(&p, &task, a, b) else None


# ---------------------------------------------------------------- factors apart

cdef bint unpack_some(const Batch* p, const int32_t* pivots, const real* a, real* turns, real* lower, real* upper, real* space,
                      int32_t* order) noexcept nogil:
    """P, L and U of all matrices. False for exchanges of rows that are none."""
    cdef Py_ssize_t item, i, row, m = p.m, n = p.n, k = min(p.m, p.n), some
    cdef int32_t kept
    memset(turns, 0, p.count * m * m * sizeof(real))
    for item in range(p.count):
        copy_in(m, n, a + offset(p, p.a_strides, item), p.a_row, p.a_column, space, p.ld)
        for i in range(m):
            order[i] = <int32_t>i
        for i in range(k):
            row = pivots[i] - 1
            if not 0 <= row < m:
                return False
            kept = order[i]
            order[i] = order[row]
            order[row] = kept
        for i in range(m):
            turns[order[i] * m + i] = 1
            some = min(i, k)
            memcpy(lower, space + i * p.ld, some * sizeof(real))
            memset(lower + some, 0, (k - some) * sizeof(real))
            if i < k:
                lower[i] = 1
                memset(upper, 0, i * sizeof(real))
                memcpy(upper + i, space + i * (p.ld + 1), (n - i) * sizeof(real))
                upper += n
            lower += k
        turns += m * m
        pivots += k
    return True


def unpack(TensorBase factors not None, TensorBase pivots not None):
    """P, L and U of packed factors and their exchanges, or None for other exchanges."""
    cdef Batch p
    cdef tuple lead = batch_of(factors)
    plan(&p, factors, None, lead)
    pivots = packed(pivots)
    cdef Py_ssize_t k = min(p.m, p.n), size = factors.dtype.itemsize, each = up(max(p.m, <Py_ssize_t>1) * p.ld * size, 64)
    cdef TensorBase turns = empty_host(lead + (p.m, p.m), factors.dtype), lower = empty_host(lead + (p.m, k), factors.dtype)
    cdef TensorBase upper = empty_host(lead + (k, p.n), factors.dtype)
    cdef Storage memory = host_storage(each + p.m * sizeof(int32_t) + 64)
    cdef void* x = address(factors)
    cdef const int32_t* exchanges = <const int32_t*>address(pivots)
    cdef void* to[3]
    cdef int32_t* order = <int32_t*>(memory.data + each)
    cdef bint fine
    to[0], to[1], to[2] = address(turns), address(lower), address(upper)
    with nogil:
        if size == 4:
            fine = unpack_some(&p, exchanges, <const float*>x, <float*>to[0], <float*>to[1], <float*>to[2], <float*>memory.data, order)
        else:
            fine = unpack_some(&p, exchanges, <const double*>x, <double*>to[0], <double*>to[1], <double*>to[2], <double*>memory.data, order)
    return (turns, lower, upper) if fine else None
