# Searching in sorted lines.
#
# Layout: lines and values are made contiguous. Threads: over the values. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t

from volta._kernels.core.base cimport BOOL, FLOAT32, INT32, INT64, UINT8, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.sort_items cimport number

from volta.errors import ArgumentError, DTypeError

cdef enum:
    SEARCHED = 8                # values that are searched for side by side


cdef inline bint before(number a, number v, bint right) noexcept nogil:
    """Whether the place of v is behind a. Nothing compares with NaN, which is behind everything."""
    return not (a > v) if right else not (a >= v)


cdef inline int64_t search_one(const number* line, Py_ssize_t length, number value, bint right) noexcept nogil:
    cdef Py_ssize_t low = 0, half
    while length > 1:
        half = length // 2
        low += half if before(line[low + half - 1], value, right) else 0
        length -= half
    return low + (length == 1 and before(line[low], value, right))


cdef inline void search_line(const number* line, Py_ssize_t length, const number* values, Py_ssize_t n, int64_t* out, bint right) noexcept nogil:
    """SEARCHED values at a time, without branches, so that what one of them waits for does not hold up the others."""
    cdef int64_t low[SEARCHED]
    cdef Py_ssize_t i, k
    cdef int64_t left, half
    for i in range(n // SEARCHED if length > 0 else 0):
        left = length
        for k in range(SEARCHED):
            low[k] = 0
        while left > 1:
            half = left // 2
            for k in range(SEARCHED):
                low[k] += half & -<int64_t>before(line[low[k] + half - 1], values[k], right)
            left -= half
        for k in range(SEARCHED):
            out[k] = low[k] + before(line[low[k]], values[k], right)
        out += SEARCHED
        values += SEARCHED
    for i in range(n % SEARCHED if length > 0 else n):
        out[i] = search_one(line, length, values[i], right)


cdef void search_some(const number* sorted, const number* values, int64_t* out, Py_ssize_t length, Py_ssize_t each, Py_ssize_t first,
                      Py_ssize_t last, bint shared, bint right) noexcept nogil:
    cdef Py_ssize_t count
    cdef const number* line
    while first < last:
        line, count = sorted, last - first
        if not shared:
            line, count = sorted + first // each * length, min(count, each - first % each)
        if right:                               # which the compiler then knows
            search_line(line, length, values + first, count, out + first, True)
        else:
            search_line(line, length, values + first, count, out + first, False)
        first += count


cdef void search_all(const number* sorted, const number* values, int64_t* out, Py_ssize_t length, Py_ssize_t each, Py_ssize_t n, bint shared,
                     bint right) noexcept nogil:
    """IN: length of a sorted line, `each` values of a line, n values in all; shared, that there is one line for all."""
    cdef int threads = threads_for(8 * n), t
    if threads == 1:
        search_some(sorted, values, out, length, each, 0, n, shared, right)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        search_some(sorted, values, out, length, each, n * t // threads, n * (t + 1) // threads, shared, right)


def searchsorted(TensorBase sorted not None, TensorBase values not None, bint right=False):
    """Where each value belongs in its sorted line: before equal elements, or behind them. One line serves all values."""
    cdef int code = sorted.dtype.code
    cdef bint shared = len(sorted.shape) == 1
    cdef Py_ssize_t length, each = 1
    if values.dtype.code != code:
        raise DTypeError(f"searchsorted: got {sorted.dtype.name} and {values.dtype.name}")
    sorted, values = packed(sorted), packed(values)
    length = sorted.shape[len(sorted.shape) - 1]
    if len(values.shape):
        each = values.shape[len(values.shape) - 1]
    if not shared and values.size and length * (values.size // max(each, <Py_ssize_t>1)) != sorted.size:
        raise ArgumentError(f"searchsorted: {sorted.shape} and {values.shape} have not as many lines")
    cdef TensorBase out = empty_host(values.shape, dtype_of(INT64))
    cdef const void* lines = address(sorted)
    cdef const void* given = address(values)
    cdef int64_t* target = <int64_t*>address(out)
    cdef Py_ssize_t n = values.size
    with nogil:
        if code == UINT8 or code == BOOL:
            search_all(<const uint8_t*>lines, <const uint8_t*>given, target, length, each, n, shared, right)
        elif code == INT32:
            search_all(<const int32_t*>lines, <const int32_t*>given, target, length, each, n, shared, right)
        elif code == INT64:
            search_all(<const int64_t*>lines, <const int64_t*>given, target, length, each, n, shared, right)
        elif code == FLOAT32:
            search_all(<const float*>lines, <const float*>given, target, length, each, n, shared, right)
        else:
            search_all(<const double*>lines, <const double*>given, target, length, each, n, shared, right)
    return out


KERNELS = {"searchsorted": searchsorted}
