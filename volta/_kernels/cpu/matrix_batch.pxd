# Batches of matrices: where each of them lies, and copies of one in rows of whole blocks.
#
# Sizes: the front end.
from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport MAX_RANK, Storage, TensorBase, address, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lu_blocks cimport BLOCK
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_line

# A batch of matrices a and right sides b, of any strides.
cdef struct Batch:
    Py_ssize_t count, m, n, k               # a[m][n], b[n][k] (k 0: there is none)
    Py_ssize_t a_row, a_column, b_row, b_column
    Py_ssize_t ld, xd                       # rows of the copies of a and of b
    int rank, threads, team                 # threads over matrices, or a team in each
    bint shared                             # whether threads share a matrix
    Py_ssize_t shape[MAX_RANK]
    Py_ssize_t a_strides[MAX_RANK]
    Py_ssize_t b_strides[MAX_RANK]


cdef inline void copy_in(Py_ssize_t m, Py_ssize_t n, const real* x, Py_ssize_t row, Py_ssize_t column, real* out,
                         Py_ssize_t ld) noexcept nogil:
    """Rows of whole blocks, with zeros behind their elements."""
    cdef Py_ssize_t i, j
    if row == 1 and column != 1 and m > 1 and n > 1:
        turn(n, m, x, column, out, ld)
    for i in range(m):
        if column == 1:
            copy_line(out + i * ld, x + i * row, n, ld)
            continue
        if row != 1 or m == 1 or n == 1:
            for j in range(n):
                out[i * ld + j] = x[i * row + j * column]
        memset(out + i * ld + n, 0, (ld - n) * sizeof(real))


cdef inline bint all_finite(Py_ssize_t m, Py_ssize_t n, const real* a, Py_ssize_t ld) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef int wrong = 0
    for i in range(m):
        for j in range(n):
            wrong |= not (a[i * ld + j] - a[i * ld + j] == 0)
    return wrong == 0


cdef inline int plan(Batch* p, TensorBase a, TensorBase b, tuple lead) except -1:
    """IN: b None, or with a batch that broadcasts with that of a to `lead`."""
    cdef int d, at, rank = len(a.shape)
    p.count, p.rank = 1, len(lead)
    p.m, p.n, p.a_row, p.a_column = a.shape[rank - 2], a.shape[rank - 1], a._strides[rank - 2], a._strides[rank - 1]
    for d in range(p.rank):
        p.shape[d] = lead[d]
        p.count *= p.shape[d]
        at = d + rank - 2 - p.rank
        p.a_strides[d] = a._strides[at] if at >= 0 and <Py_ssize_t>a.shape[at] != 1 else 0
        p.b_strides[d] = 0
    p.k, p.ld, p.xd = 0, up(p.n, BLOCK), 0
    if b is not None:
        rank = len(b.shape)
        p.k, p.b_row, p.b_column = b.shape[rank - 1], b._strides[rank - 2], b._strides[rank - 1]
        p.xd = up(p.k, BLOCK)
        for d in range(p.rank):
            at = d + rank - 2 - p.rank
            p.b_strides[d] = b._strides[at] if at >= 0 and <Py_ssize_t>b.shape[at] != 1 else 0
    p.threads = threads_for(p.count * p.n * (8 + p.m * (p.n + p.k) // 16))
    p.shared, p.team = p.count < p.threads, 1
    if p.shared:
        p.team, p.threads = p.threads, 1
    return 0


cdef inline Py_ssize_t offset(const Batch* p, const Py_ssize_t* strides, Py_ssize_t item) noexcept nogil:
    cdef Py_ssize_t at = 0
    cdef int d
    if p.rank == 1:
        return item * strides[0]
    for d in range(p.rank - 1, -1, -1):
        at += item % p.shape[d] * strides[d]
        item //= p.shape[d]
    return at


cdef inline tuple batch_of(TensorBase x):
    return x.shape[:len(x.shape) - 2]


cdef inline double largest(Py_ssize_t m, Py_ssize_t n, const real* a, Py_ssize_t ld) noexcept nogil:
    """The largest size of an element, -1 where one is not finite, or it cannot be squared and summed."""
    cdef Py_ssize_t i, j
    cdef int32_t bits = 0                  # sizes are in order as their bits are, which are compared in vectors
    cdef int64_t wide = 0
    cdef double most
    for i in range(m):
        for j in range(n):
            if real is float:
                bits = max(bits, (<const int32_t*>(a + i * ld))[j] & <int32_t>0x7FFFFFFF)
            else:
                wide = max(wide, (<const int64_t*>(a + i * ld))[j] & <int64_t>0x7FFFFFFFFFFFFFFF)
    if real is double:
        most = (<double*>&wide)[0]
        return most if most == 0 or 1e-100 < most < 1e100 else -1
    else:
        most = (<float*>&bits)[0]
        return most if most == 0 or 1e-15 < most < 1e15 else -1


# What is done with some matrices of a batch, a being where their elements lie: false where it failed.
ctypedef bint (*some_t)(const Batch* p, const void* task, const void* a, Py_ssize_t first, Py_ssize_t last, void* space) noexcept nogil


cdef inline bint do_all(const Batch* p, some_t in_float, some_t in_double, const void* task, TensorBase a, Py_ssize_t each):
    """The same with all, in their dtype, by threads with `each` bytes of space: whether none failed."""
    cdef Py_ssize_t apart = max(up(each, 64), <Py_ssize_t>64)
    cdef Storage memory = host_storage(apart * p.threads)
    cdef some_t some = in_float if a.dtype.itemsize == 4 else in_double
    cdef void* x = address(a)
    cdef char* space = memory.data
    cdef int t, fine = 0
    with nogil:
        if p.threads == 1:
            fine = some(p, task, x, 0, p.count, space)
        else:
            for t in prange(p.threads, num_threads=p.threads, schedule="static"):
                fine += some(p, task, x, p.count * t // p.threads, p.count * (t + 1) // p.threads, space + t * apart)
    return fine == p.threads
