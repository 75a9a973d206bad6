# Matrices factored by elimination, and what is solved by the factors: small ones of a batch abreast (lu_batch.pxd), others by blocks
# (lu_each.pxd).
#
# Layout: factors hold U with L below the diagonal. Results lie column by column, as LAPACK's.
# Threads: over the matrices of a batch, or parts of a large one (lu_each.pxd).
# Sizes: the front end. Each kernel gives None where a result is not finite: what PyTorch has there, `decomposition.py` finds out.

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport (
    INT32, Storage, TensorBase, address, contiguous_strides, dtype_of, empty_host, host_storage, make_tensor)
from volta._kernels.core.order cimport by_columns
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.lu_batch cimport (
    AGAIN, CHOLESKY, CHOLESKY_INVERSE, COFACTOR, DET, INV, LU, SLOGDET, SOLVE, TRIANGLE, Task,
)
from volta._kernels.cpu.lu_each cimport do_some, needed
from volta._kernels.cpu.matrix_batch cimport Batch, batch_of, copy_in, do_all, offset, plan, some_t
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real

cdef bint run(const Batch* p, Task* task, TensorBase a, TensorBase b):
    task.b = NULL if b is None else address(b)
    return do_all(p, <some_t>do_some[float], <some_t>do_some[double], task, a, needed(p, task) * a.dtype.itemsize)


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


def cholesky(TensorBase a not None, bint upper):
    """(L of A = L L', or with `upper` L', an `info` of zeros), or None, also where one is not positive definite; that triangle of A is
    read.
    """
    cdef Batch p
    cdef Task task
    cdef tuple lead = batch_of(a)
    plan(&p, a, None, lead)
    p.xd = p.ld
    if upper:
        p.a_row, p.a_column = p.a_column, p.a_row
    cdef TensorBase out = by_columns(lead, p.n, p.n, a), info = empty_host(lead, dtype_of(INT32))
    memset(address(info), 0, info.size * sizeof(int32_t))
    task.kind, task.upper, task.pivots, task.out = CHOLESKY, upper, NULL, address(out)
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


# ---------------------------------------------------------------- what is solved by factors

cdef TensorBase turned_over(TensorBase x):
    """Matrices with rows for columns."""
    cdef int rank = <int>len(x.shape)
    return make_tensor(x.storage, x.shape[:rank - 2] + (x.shape[rank - 1], x.shape[rank - 2]),
                       x._strides[:rank - 2] + (x._strides[rank - 1], x._strides[rank - 2]), x.offset, x.dtype)


cdef bint is_one(TensorBase a):
    """Whether this is one square matrix, whatever the dimensions before its last two."""
    cdef int rank = <int>len(a.shape)
    return a.size == a.shape[rank - 1] * a.shape[rank - 2]


cdef TensorBase shaped(TensorBase x, tuple shape):
    """Contiguous x in another shape."""
    return make_tensor(x.storage, shape, contiguous_strides(shape), x.offset, x.dtype)


cdef TensorBase beside(TensorBase b):
    """The columns of all matrices of a batch beside one another, in one matrix that lies column by column."""
    cdef TensorBase columns = packed(turned_over(b))
    cdef int rank = <int>len(b.shape)
    return turned_over(shaped(columns, (columns.size // <Py_ssize_t>b.shape[rank - 2], b.shape[rank - 2])))


cdef TensorBase apart(TensorBase x, tuple lead, Py_ssize_t k):
    """The columns of what `beside` has put together in matrices of k again."""
    return turned_over(shaped(turned_over(x), lead + (k, x.shape[0])))


cdef TensorBase one_of(TensorBase a):
    """The only matrix of a batch."""
    cdef int rank = <int>len(a.shape)
    return make_tensor(a.storage, a.shape[rank - 2:], a._strides[rank - 2:], a.offset, a.dtype)


cdef tuple solve_beside(TensorBase a, TensorBase b, bint turn, tuple lead):
    """`solve` by one matrix, of a batch of right sides, of which no dimension is as long in a."""
    cdef tuple found = solve(one_of(a), beside(b), turn)
    if found is None:
        return None
    return (apart(found[0], lead, b.shape[len(b.shape) - 1]), shaped(found[1], batch_of(a)), shaped(found[2], a.shape),
            shaped(found[3], a.shape[:len(a.shape) - 1]))


def solve(TensorBase a not None, TensorBase b not None, bint turn=False):
    """(X of A X = B, or of A' X = B, an `info` of zeros, the factors and exchanges of A), or None, also where one is singular."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = wider_batch(a, b), one = batch_of(a)
    if a.size == 0 or b.size == 0:
        return None
    if one != lead:
        return solve_beside(a, b, turn, lead) if is_one(a) else None
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
    cdef TensorBase found
    if len(factors.shape) > 1 and len(b.shape) > 1 and b.size > 0 and batch_of(b) != lead and is_one(factors) and pivots.contiguous:
        found = solve_again(one_of(factors), shaped(pivots, (pivots.size,)), beside(b), turn)
        return None if found is None else apart(found, wider_batch(factors, b), b.shape[len(b.shape) - 1])
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


def triangular(TensorBase a not None, TensorBase b not None, bint upper, bint unitriangular, bint left):
    """X of A X = B, A triangular, or of X A = B, which is A' X' = B', or None."""
    cdef Batch p
    cdef Task task
    cdef tuple lead = wider_batch(a, b)
    if not left:
        a, b = turned_over(a), turned_over(b)
    plan(&p, a, b, lead)
    cdef TensorBase out = by_columns(lead, p.n, p.k, a) if left else by_columns(lead, p.k, p.n, a)
    task.kind, task.upper, task.unit, task.pivots, task.out = TRIANGLE, upper == left, unitriangular, NULL, address(out)
    task.turned = not left
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
