# Which elements differ from the one before, and counts of elements by their value or place in a range.
#
# Layout: vectors, made contiguous. Threads: over parts of them; counts are integers, whose sum has no order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from volta._kernels.core.base cimport (
    BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.sort_items cimport number

from volta._kernels.cpu.copy import cast

cdef enum:
    TABLES = 4                  # of counts, in turn, so that equal elements side by side need not wait for one another,
    FEW = 4096                  # where these are few

cdef struct Range:
    bint given
    double low, high
    Py_ssize_t bins


cdef void change(const number* x, Py_ssize_t first, Py_ssize_t last, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t i
    if first == 0 and last > 0:
        out[0], first = 1, 1
    for i in range(first, last):
        out[i] = x[i] != x[i - 1]


cdef void change_all(const number* x, Py_ssize_t n, uint8_t* out) noexcept nogil:
    cdef int threads = threads_for(n), t
    if threads == 1:
        change(x, 0, n, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        change(x, n * t // threads, n * (t + 1) // threads, out)


cdef inline void count_one(const Range* p, number x, int64_t* table) noexcept nogil:
    cdef number low = <number>p.low, high = <number>p.high
    cdef Py_ssize_t place
    if p.given:
        if not low <= x <= high:
            return
        place = <Py_ssize_t>((x - low) * <number>p.bins / (high - low))         # any integer, where that overflows
        table[min(max(place, 0), p.bins - 1)] += 1
    elif x >= 0 and x < p.bins:
        table[<Py_ssize_t>x] += 1


cdef void count_some(const Range* p, const number* x, Py_ssize_t n, Py_ssize_t tables, int64_t* found) noexcept nogil:
    """OUT: found, tables of p.bins counts, the first of which gets the sum."""
    cdef Py_ssize_t i, k
    memset(found, 0, tables * p.bins * sizeof(int64_t))
    if tables == 1:
        for i in range(n):
            count_one(p, x[i], found)
        return
    for i in range(n // TABLES):
        for k in range(TABLES):
            count_one(p, x[i * TABLES + k], found + k * p.bins)
    for i in range(n // TABLES * TABLES, n):
        count_one(p, x[i], found)
    for k in range(1, TABLES):
        for i in range(p.bins):
            found[i] += found[k * p.bins + i]


cdef void count_all(const Range* p, const number* x, Py_ssize_t n, int threads, Py_ssize_t tables, int64_t* found, int64_t* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef int t
    if threads == 1:
        count_some(p, x, n, tables, found)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            count_some(p, x + n * t // threads, n * (t + 1) // threads - n * t // threads, tables, found + t * tables * p.bins)
    for i in range(p.bins):
        out[i] = found[i]
    for t in range(1, threads):
        for i in range(p.bins):
            out[i] += found[t * tables * p.bins + i]


def changes(TensorBase x not None):
    """Of each element, the first too, whether it differs from the one before; NaN does from all."""
    x = packed(x)
    cdef TensorBase out = empty_host(x.shape, dtype_of(BOOL))
    cdef int code = x.dtype.code
    cdef void* source = address(x)
    cdef uint8_t* target = <uint8_t*>address(out)
    if code == UINT8 or code == BOOL:
        change_all(<const uint8_t*>source, x.size, target)
    elif code == INT32:
        change_all(<const int32_t*>source, x.size, target)
    elif code == INT64:
        change_all(<const int64_t*>source, x.size, target)
    elif code == FLOAT32:
        change_all(<const float*>source, x.size, target)
    else:
        change_all(<const double*>source, x.size, target)
    return out


cdef double one_of(TensorBase x):
    return (<float*>address(x))[0] if x.dtype.code == FLOAT32 else (<double*>address(x))[0]


def counts(TensorBase x not None, TensorBase low, TensorBase high, Py_ssize_t bins, between):
    """How many elements lie in each of the equal parts of a range, of which the last has both ends; without one, how often each integer is."""
    cdef Range p
    cdef int code = x.dtype.code, threads = threads_for(2 * x.size)
    p.given, p.bins, p.low, p.high = between is not None or low is not None and high is not None, bins, 0, 0
    if p.given and code < FLOAT32:              # parts of a range are counted in double
        return counts(*[None if t is None else cast(t, dtype_of(FLOAT64)) for t in (x, low, high)], bins, between)
    if between is not None:
        p.low, p.high = between[0], between[1]
    elif p.given:
        p.low, p.high = one_of(low), one_of(high)
    x = packed(x)
    cdef TensorBase out = empty_host((bins,), dtype_of(INT64))
    if bins == 0:
        return out
    cdef Py_ssize_t tables = TABLES if bins <= FEW and x.size >= 4 * bins else 1
    cdef Storage memory = host_storage(max(threads * tables * bins * <Py_ssize_t>8, <Py_ssize_t>8))
    cdef int64_t* found = <int64_t*>memory.data
    cdef int64_t* target = <int64_t*>address(out)
    cdef void* source = address(x)
    with nogil:
        if code == UINT8 or code == BOOL:
            count_all(&p, <const uint8_t*>source, x.size, threads, tables, found, target)
        elif code == INT32:
            count_all(&p, <const int32_t*>source, x.size, threads, tables, found, target)
        elif code == INT64:
            count_all(&p, <const int64_t*>source, x.size, threads, tables, found, target)
        elif code == FLOAT32:
            count_all(&p, <const float*>source, x.size, threads, tables, found, target)
        else:
            count_all(&p, <const double*>source, x.size, threads, tables, found, target)
    return out


KERNELS = {"changes": changes, "counts": counts}
