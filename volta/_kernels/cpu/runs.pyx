# Runs of equal elements in sorted lines.
#
# Layout: x seen as [outer, length, inner], made contiguous. Threads: over lines. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t

from volta._kernels.core.base cimport BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.sort_items cimport number

from volta.errors import DTypeError


cdef int64_t longest(const number* x, Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """Where the longest run of equal elements ends, the first one of several; a NaN equals none."""
    cdef Py_ssize_t i, start = 0, most = 0
    cdef int64_t found = 0
    for i in range(n):
        if i > 0 and not x[i * step] == x[(i - 1) * step]:
            start = i
        if i - start >= most:
            most, found = i - start + 1, i
    return found


cdef void all_lines(const number* x, Py_ssize_t outer, Py_ssize_t length, Py_ssize_t inner, int64_t* out) noexcept nogil:
    cdef Py_ssize_t line
    cdef int threads = threads_for(outer * length * inner)
    if threads == 1:
        for line in range(outer * inner):
            out[line] = longest(x + line // inner * length * inner + line % inner, length, inner)
        return
    for line in prange(outer * inner, num_threads=threads, schedule="static"):
        out[line] = longest(x + line // inner * length * inner + line % inner, length, inner)


def longest_run(TensorBase x not None, Py_ssize_t dim):
    """Of each sorted line the index of the last element of its longest run of equal ones, the first one of several."""
    cdef Py_ssize_t outer, length, inner
    cdef int code = x.dtype.code
    x = packed(x)
    split_at(x.shape, dim, &outer, &length, &inner)
    cdef TensorBase out = empty_host(x.shape[:dim] + (1,) + x.shape[dim + 1:] if x.shape else (), dtype_of(INT64))
    cdef int64_t* places = <int64_t*>address(out)
    cdef const void* source = address(x)
    if code == FLOAT32:
        all_lines(<const float*>source, outer, length, inner, places)
    elif code == FLOAT64:
        all_lines(<const double*>source, outer, length, inner, places)
    elif code == INT64:
        all_lines(<const int64_t*>source, outer, length, inner, places)
    elif code == INT32:
        all_lines(<const int32_t*>source, outer, length, inner, places)
    elif code == BOOL or code == UINT8:
        all_lines(<const uint8_t*>source, outer, length, inner, places)
    else:
        raise DTypeError(f"longest_run: does not take {x.dtype}")
    return out


KERNELS = {"longest_run": longest_run}
