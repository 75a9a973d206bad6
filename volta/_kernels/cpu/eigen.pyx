# Eigenvalues and vectors of symmetric matrices: made tridiagonal by reflections, a row after the other.
#
# Layout: matrices of any strides are copied into rows of whole blocks, both triangles; row i becomes reflection i. Vectors are rows until
# they are given, column by column. Threads: over the matrices of a batch; of a large one over columns. Sizes: the front end.
# Each kernel gives None where squares of elements would be too large or too small, one is not finite, or an iteration does not converge.

from cython.parallel cimport prange
from libc.math cimport copysign, sqrt
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport TensorBase, address, empty_host
from volta._kernels.core.order cimport by_columns
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.lu_blocks cimport BLOCK
from volta._kernels.cpu.matrix_batch cimport Batch, batch_of, do_all, largest, offset, plan, some_t
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.rank_two cimport pair
from volta._kernels.cpu.reflect_blocks cimport PANEL, apply_right
from volta._kernels.cpu.tridiagonal cimport conquer, conquer_space, values_of

cdef void make_tridiagonal(bint shared, Py_ssize_t n, real* a, Py_ssize_t ld, double most, double* d, double* e, real* tau,
                           real* space) noexcept nogil:
    """d and e of A = Q T Q'; row i of a: reflection i, from column i + 1 on, its first element 1 where there is one. IN: the
    largest element's size; 4 ld of space."""
    cdef real* v = space
    cdef real* w = space + ld
    cdef real* next = space + 2 * ld
    cdef real* out = space + 3 * ld
    cdef real* row
    cdef real* spare
    cdef Py_ssize_t i, j, start, blocks
    cdef int threads, t
    cdef double tail, head, beta, inner
    cdef double least = 1e-40 * most if real is double else 1e-20 * most
    memset(space, 0, 4 * ld * sizeof(real))
    for j in range(n):
        row = a + j * ld
        for i in range(j, n):
            row[i] = row[i] - v[j] * w[i] - w[j] * v[i]
        d[j] = row[j]
        if j == n - 1:
            break
        tail, head = 0, row[j + 1]
        for i in range(j + 2, n):
            tail += <double>row[i] * row[i]
        next[j] = 0
        if tail <= least * least:
            e[j] = head
            tau[j] = 0
            for i in range(j + 1, n):
                next[i] = row[i] = 0
        else:
            beta = -copysign(sqrt(head * head + tail), head)
            e[j] = beta
            tau[j] = <real>((beta - head) / beta)
            inner = 1 / (head - beta)
            row[j + 1] = next[j + 1] = 1
            for i in range(j + 2, n):
                next[i] = row[i] = <real>(row[i] * inner)
        start = (j + 1) // BLOCK * BLOCK
        threads = threads_for((n - j) * (n - j) // 4) if shared else 1
        if threads == 1:
            pair(j + 1, n, a, ld, start, ld, v, w, w, v, next, out)
        else:
            blocks = (ld - start) // BLOCK
            for t in prange(threads, num_threads=threads, schedule="static"):
                pair(j + 1, n, a, ld, start + blocks * t // threads * BLOCK, start + blocks * (t + 1) // threads * BLOCK,
                     v, w, w, v, next, out)
        inner = 0
        for i in range(j + 1, n):
            out[i] *= tau[j]
            inner += <double>out[i] * next[i]
        inner *= -0.5 * tau[j]
        for i in range(j + 1, n):
            w[i] = <real>(out[i] + inner * next[i])
        spare = v
        v = next
        next = spare
        v[j] = w[j] = 0


# The eigenvalues, and the vectors where they are asked for.
cdef struct Task:
    bint upper
    void* values
    void* vectors


cdef void copy_both(Py_ssize_t n, const real* x, Py_ssize_t row, Py_ssize_t column, real* out, Py_ssize_t ld) noexcept nogil:
    """A symmetric matrix of which the lower triangle is read."""
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(i + 1):
            out[i * ld + j] = out[j * ld + i] = x[i * row + j * column]
        for j in range(n, ld):
            out[i * ld + j] = 0


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, char* space) noexcept nogil:
    cdef Py_ssize_t item, i, j, n = p.n, ld = p.ld
    cdef Py_ssize_t row = -p.a_row if task.upper else p.a_row, column = -p.a_column if task.upper else p.a_column
    cdef double* d = <double*>space
    cdef double* e = d + n
    cdef double* room = e + n
    cdef Py_ssize_t* order = <Py_ssize_t*>(room + conquer_space(n))
    cdef real* tau = <real*>(order + n)
    cdef real* copy = tau + ld
    cdef real* z = copy + n * ld + 4 * ld
    cdef real* other = z + n * ld + BLOCK
    cdef real* out
    cdef const real* x
    cdef double most
    for item in range(first, last):
        x = a + offset(p, p.a_strides, item)
        if task.upper:                                  # from the last row on
            x += (n - 1) * (p.a_row + p.a_column)
        copy_both(n, x, row, column, copy, ld)
        most = largest(n, n, copy, ld)
        if most < 0:
            return False
        make_tridiagonal(p.shared, n, copy, ld, most, d, e, tau, copy + n * ld)
        if task.upper:
            turn_round(d, n)
            turn_round(e, n - 1)
        out = <real*>task.values + item * n
        if task.vectors == NULL:
            if not values_of(n, d, e, 1.1102230246251565e-16 if real is double else 5.9604644775390625e-08):
                return False
            for i in range(n):
                out[i] = <real>d[i]
            continue
        if not conquer(p.shared, n, d, e, order, z, other, ld, room):
            return False
        if task.upper:
            for i in range(n):
                for j in range(n // 2):
                    z[i * ld + j], z[i * ld + n - 1 - j] = z[i * ld + n - 1 - j], z[i * ld + j]
        if n > 2:
            apply_right(p.shared, n, n - 1, n - 2, copy + 1, 1, ld, tau, z + 1, ld, other)
        for i in range(n):
            out[i] = <real>d[order[i]]
        out = <real*>task.vectors + item * n * n
        for i in range(n):
            if not task.upper:
                memcpy(out + i * n, z + order[i] * ld, n * sizeof(real))
            else:
                for j in range(n):
                    out[i * n + j] = z[order[i] * ld + n - 1 - j]
    return True


cdef void turn_round(double* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n // 2):
        x[i], x[n - 1 - i] = x[n - 1 - i], x[i]


def eigh(TensorBase a not None, str uplo, bint vectors=True):
    """(the eigenvalues in ascending order, the vectors as columns), of matrices of which one triangle is read, or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    if a.size == 0:
        return None
    plan(&p, a, None, lead)
    p.ld += BLOCK                                       # blocks that do not begin at whole ones
    cdef TensorBase values = empty_host(lead + (p.n,), a.dtype), out
    out = by_columns(lead, p.n, p.n, a) if vectors else empty_host(lead + (p.n, 0), a.dtype)
    task.upper, task.values, task.vectors = uplo == "U", address(values), address(out) if vectors else NULL
    cdef Py_ssize_t each = ((3 * p.n + 6 + 2 * PANEL) * p.ld + 2 * BLOCK + 3 * PANEL * PANEL) * a.dtype.itemsize
    each += (3 * p.n + conquer_space(p.n)) * 8
    return (values, out) if do_all(&p, <some_t>do_some[float], <some_t>do_some[double], &task, a, each) else None
