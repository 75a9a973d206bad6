# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Where the elements of a host tensor are other than 0, for host code: how many there are decides the shape of what is made of them."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from volta._kernels.core.base cimport (
    BOOL, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, MAX_RANK, UINT8, TensorBase, address, check_read, dtype_of, empty_host)
from volta.errors import DTypeError

cdef enum:
    CHUNK = 256

ctypedef fused number:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


cdef Py_ssize_t _count(const number* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, found = 0
    for i in range(n):
        found += x[i] != 0
    return found


cdef void _find(const number* x, const Py_ssize_t* sizes, int rank, int64_t* out, Py_ssize_t count) noexcept nogil:
    """Per dimension a row of out[rank, count]. Elements of a chunk are found without branches."""
    cdef int64_t[CHUNK] found
    cdef Py_ssize_t[MAX_RANK] at
    cdef Py_ssize_t length = sizes[rank - 1], start, i, j, n, k = 0
    cdef int d
    for d in range(rank):
        at[d] = 0
    while k < count:
        for i in range((length + CHUNK - 1) // CHUNK):
            start, n = i * CHUNK, 0
            for j in range(start, min(start + CHUNK, length)):
                found[n] = j
                n += x[j] != 0
            for d in range(rank - 1):
                for j in range(k, k + n):
                    out[d * count + j] = at[d]
            memcpy(out + (rank - 1) * count + k, found, n * sizeof(int64_t))
            k += n
        x += length
        d = rank - 2
        while d >= 0:
            at[d] += 1
            if at[d] < sizes[d]:
                break
            at[d] = 0
            d -= 1


cdef TensorBase _places(const number* x, TensorBase t):
    cdef Py_ssize_t[MAX_RANK] sizes
    cdef int rank = len(t.shape), d
    cdef Py_ssize_t count
    cdef TensorBase out
    cdef int64_t* target
    for d in range(rank):
        sizes[d] = t.shape[d]
    with nogil:
        count = _count(x, t.size)
    out = empty_host((rank, count), dtype_of(INT64))
    target = <int64_t*>address(out)
    if count and rank:
        with nogil:
            _find(x, sizes, rank, target, count)
    return out


def true_places(TensorBase t not None):
    """(rank, count) int64: per dimension a row of where the elements of a contiguous host tensor are not 0, in their order.

    Raises: DTypeError for 16-bit floats.
    """
    cdef int code = t.dtype.code
    check_read(t)
    if code == BOOL or code == UINT8:
        return _places(<const uint8_t*>address(t), t)
    if code == FLOAT32:
        return _places(<const float*>address(t), t)
    if code == INT64:
        return _places(<const int64_t*>address(t), t)
    if code == FLOAT64:
        return _places(<const double*>address(t), t)
    if code == INT32:
        return _places(<const int32_t*>address(t), t)
    if code == INT16:
        return _places(<const int16_t*>address(t), t)
    if code == INT8:
        return _places(<const int8_t*>address(t), t)
    raise DTypeError(f"true_places: compare {t.dtype} with 0 first")
