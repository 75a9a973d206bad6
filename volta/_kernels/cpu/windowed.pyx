# Sums of any elements of a line with weights, as filters of images have them: element j along a dimension is the sum over k of
# weights[k, j] times the element at places[k, j].
#
# The gradient of the elements is the transpose: element i is the sum over the k and j with places[k, j] = i.
#
# Layout: x[outer, n, inner], out[outer, length, inner], tables [taps, length], contiguous. Lines that lie together are turned, LINES at a
# time, so that neighbours in memory are elements of different lines.
# Threads: over rows of the output, or over LINES lines: an element has one order of sums. Sizes: the front end; places are checked here.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from volta._kernels.core.base cimport (
    FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, empty_host, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport same_type, split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport number
from volta._kernels.cpu.transpose cimport turn16
from volta._kernels.cpu.turn cimport turn8

from volta.errors import DTypeError, IndexRangeError

cdef enum:
    LINES = 16
    SOME = 256                                      # elements of a row whose sums are made at a time


cdef struct Windows:
    Py_ssize_t outer, n, inner, length, taps
    const int64_t* places


cdef void window_row(const Windows* p, const number* x, const number* weights, Py_ssize_t row, number* out) noexcept nogil:
    """One row of `inner` elements of the output."""
    cdef Py_ssize_t j = row % p.length, k, i
    cdef const number* source
    cdef number w
    x += row // p.length * p.n * p.inner
    out += row * p.inner
    for k in range(p.taps):
        source, w = x + p.places[k * p.length + j] * p.inner, weights[k * p.length + j]
        if k == 0:
            for i in range(p.inner):
                out[i] = w * source[i]
        else:
            for i in range(p.inner):
                out[i] += w * source[i]


cdef inline void turn_lines(const number* x, Py_ssize_t ldx, Py_ssize_t rows, Py_ssize_t columns, number* out,
                            Py_ssize_t ldo) noexcept nogil:
    """out[j, i] = x[i, j]; squares of elements of 4 bytes in registers."""
    cdef Py_ssize_t i, j, whole = 0, side = 0
    if number is float or number is int32_t:
        whole, side = rows // 8 * 8, columns // 8 * 8
        for i in range(0, whole, 8):
            for j in range(0, side, 8):
                turn8(<const float*>(x + i * ldx + j), ldx, <float*>(out + j * ldo + i), ldo)
    for j in range(columns):
        for i in range(whole if j < side else 0, rows):
            out[j * ldo + i] = x[i * ldx + j]


cdef void window_lines(const Windows* p, const number* x, const number* weights, Py_ssize_t first, number* memory,
                       number* out) noexcept nogil:
    """The lines of the output from this one on, up to LINES. IN: memory for so many lines of x and of the output."""
    cdef Py_ssize_t rows = min(<Py_ssize_t>LINES, p.outer - first), j, k, i
    cdef number* sums = memory + p.n * LINES
    cdef const number* source
    cdef number w
    if rows < LINES:
        memset(memory, 0, p.n * LINES * sizeof(number))
    turn_lines(x + first * p.n, p.n, rows, p.n, memory, LINES)
    for j in range(p.length):
        for i in range(LINES):
            sums[i] = 0
        for k in range(p.taps):
            source, w = memory + p.places[k * p.length + j] * LINES, weights[k * p.length + j]
            for i in range(LINES):
                sums[i] += w * source[i]
        sums += LINES
    turn_lines(<const number*>(memory + p.n * LINES), LINES, p.length, rows, out + first * p.length, p.length)


cdef int window_all(const Windows* p, const number* x, const number* weights, number* out) except -1:
    cdef int threads = threads_for(p.outer * p.length * p.inner * p.taps), t
    cdef Py_ssize_t each = (p.n + p.length) * LINES, task, tasks = p.outer * p.length if p.inner > 1 else (p.outer + LINES - 1) // LINES
    cdef Storage memory = host_storage(threads * each * sizeof(number) if p.inner == 1 else 0)
    cdef number* lines = <number*>memory.data
    with nogil:
        if p.inner == 1:
            for t in prange(threads, num_threads=threads, schedule="static"):
                for task in range(tasks * t // threads, tasks * (t + 1) // threads):
                    window_lines(p, x, weights, task * LINES, lines + t * each, out)
        else:
            for task in prange(tasks, num_threads=threads, schedule="static"):
                window_row(p, x, weights, task, out)
    return 0


# ---------------------------------------------------------------- the gradient

cdef void spread_columns(const Windows* p, const number* g, const number* weights, Py_ssize_t outer, Py_ssize_t start, Py_ssize_t stop,
                         number* out) noexcept nogil:
    """The columns from start to stop of one matrix [n, inner] of gradients."""
    cdef Py_ssize_t j, k, i
    cdef const number* source
    cdef number* target
    cdef number w
    g += outer * p.length * p.inner
    out += outer * p.n * p.inner
    for i in range(p.n):
        memset(out + i * p.inner + start, 0, (stop - start) * sizeof(number))
    for j in range(p.length):
        source = g + j * p.inner
        for k in range(p.taps):
            target, w = out + p.places[k * p.length + j] * p.inner, weights[k * p.length + j]
            for i in range(start, stop):
                target[i] += w * source[i]


cdef void spread_lines(const Windows* p, const number* g, const number* weights, Py_ssize_t first, number* memory,
                       number* out) noexcept nogil:
    """The lines of gradients from this one on, up to LINES. IN: memory for so many lines of x and of the output."""
    cdef Py_ssize_t rows = min(<Py_ssize_t>LINES, p.outer - first), j, k, i
    cdef number* source = memory + p.n * LINES
    cdef number* target
    cdef number w
    memset(memory, 0, (p.n + p.length) * LINES * sizeof(number))
    turn_lines(g + first * p.length, p.length, rows, p.length, source, LINES)
    for j in range(p.length):
        for k in range(p.taps):
            target, w = memory + p.places[k * p.length + j] * LINES, weights[k * p.length + j]
            for i in range(LINES):
                target[i] += w * source[i]
        source += LINES
    turn_lines(<const number*>memory, LINES, p.n, rows, out + first * p.n, p.n)


cdef int spread_all(const Windows* p, const number* g, const number* weights, number* out) except -1:
    cdef Py_ssize_t parts = (p.inner + SOME - 1) // SOME, tasks = p.outer * parts if p.inner > 1 else (p.outer + LINES - 1) // LINES
    cdef Py_ssize_t each = (p.n + p.length) * LINES, task, start
    cdef int threads = threads_for(p.outer * p.length * p.inner * p.taps), t
    cdef Storage memory = host_storage(threads * each * sizeof(number) if p.inner == 1 else 0)
    cdef number* lines = <number*>memory.data
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            for task in range(tasks * t // threads, tasks * (t + 1) // threads):
                if p.inner == 1:
                    spread_lines(p, g, weights, task * LINES, lines + t * each, out)
                else:
                    start = task % parts * SOME
                    spread_columns(p, g, weights, task // parts, start, min(start + SOME, p.inner), out)
    return 0


# ---------------------------------------------------------------- bytes, by weights in integers

cdef inline uint8_t as_byte(int32_t total, int bits) noexcept nogil:
    total >>= bits
    return <uint8_t>(0 if total < 0 else 255 if total > 255 else total)


cdef void byte_row(const Windows* p, const uint8_t* x, const int32_t* weights, int bits, Py_ssize_t row, uint8_t* out) noexcept nogil:
    """One row of `inner` elements of the output."""
    cdef int32_t sums[SOME]
    cdef Py_ssize_t j = row % p.length, k, i, start, some
    cdef const uint8_t* source
    cdef int32_t w
    x += row // p.length * p.n * p.inner
    out += row * p.inner
    start = 0
    while start < p.inner:
        some = min(<Py_ssize_t>SOME, p.inner - start)
        for i in range(some):
            sums[i] = 1 << bits >> 1
        for k in range(p.taps):
            source, w = x + p.places[k * p.length + j] * p.inner + start, weights[k * p.length + j]
            for i in range(some):
                sums[i] += w * source[i]
        for i in range(some):
            out[start + i] = as_byte(sums[i], bits)
        start += SOME


cdef inline void turn_bytes(const uint8_t* x, Py_ssize_t ldx, Py_ssize_t rows, Py_ssize_t columns, uint8_t* out,
                            Py_ssize_t ldo) noexcept nogil:
    """out[j, i] = x[i, j]; squares in registers."""
    cdef Py_ssize_t i, j, whole = rows // LINES * LINES, side = columns // LINES * LINES
    for i in range(whole // LINES):
        for j in range(side // LINES):
            turn16(<const char*>(x + (i * ldx + j) * LINES), ldx, <char*>(out + (j * ldo + i) * LINES), ldo)
    for j in range(columns):
        for i in range(whole if j < side else 0, rows):
            out[j * ldo + i] = x[i * ldx + j]


cdef void byte_lines(const Windows* p, const uint8_t* x, const int32_t* weights, int bits, Py_ssize_t first, uint8_t* memory,
                     uint8_t* out) noexcept nogil:
    """The lines of the output from this one on, up to LINES. IN: memory for so many lines of x and of the output."""
    cdef int32_t sums[LINES]
    cdef Py_ssize_t rows = min(<Py_ssize_t>LINES, p.outer - first), j, k, i
    cdef uint8_t* made = memory + p.n * LINES
    cdef const uint8_t* source
    cdef int32_t w
    if rows < LINES:
        memset(memory, 0, p.n * LINES)
    turn_bytes(x + first * p.n, p.n, rows, p.n, memory, LINES)
    for j in range(p.length):
        for i in range(LINES):
            sums[i] = 1 << bits >> 1
        for k in range(p.taps):
            source, w = memory + p.places[k * p.length + j] * LINES, weights[k * p.length + j]
            for i in range(LINES):
                sums[i] += w * source[i]
        for i in range(LINES):
            made[j * LINES + i] = as_byte(sums[i], bits)
    turn_bytes(<const uint8_t*>made, LINES, p.length, rows, out + first * p.length, p.length)


# ---------------------------------------------------------------- tensors

cdef TensorBase windows(str name, Windows* p, TensorBase x, TensorBase places, Py_ssize_t dim, Py_ssize_t size=-1):
    """The output. IN: size, of a transpose along dim, else -1. OUT: p. Raises: IndexRangeError for the first place outside the
    dimension."""
    cdef Py_ssize_t i
    if places.dtype.code != INT64:
        raise DTypeError(f"{name}: places must be int64, got {places.dtype.name}")
    split_at(x.shape, dim, &p.outer, &p.n, &p.inner)
    p.taps, p.length, p.places = places.shape[0], places.shape[1], <const int64_t*>address(places)
    if size >= 0:
        p.n = size
    for i in range(places.size):
        if not 0 <= p.places[i] < p.n:
            raise IndexRangeError(f"{name}: place {p.places[i]} is out of range for a dimension of size {p.n}")
    return empty_host((*x.shape[:dim], p.length if size < 0 else size, *x.shape[dim + 1:]), x.dtype)


def windowed(TensorBase x not None, TensorBase places not None, TensorBase weights not None, Py_ssize_t dim):
    """Along dim, element j is the sum over k of weights[k, j] times the element at places[k, j]."""
    cdef Windows p
    cdef int code = x.dtype.code
    same_type("windowed", x, weights)
    x, places, weights = packed(x), packed(places), packed(weights)
    cdef TensorBase out = windows("windowed", &p, x, places, dim)
    cdef void* source = address(x)
    cdef void* factors = address(weights)
    cdef void* target = address(out)
    if out.size == 0:
        return out
    if p.taps == 0:
        memset(target, 0, out.size * out.dtype.itemsize)
    elif code == FLOAT32:
        window_all(&p, <const float*>source, <const float*>factors, <float*>target)
    elif code == FLOAT64:
        window_all(&p, <const double*>source, <const double*>factors, <double*>target)
    elif code == INT32:
        window_all(&p, <const int32_t*>source, <const int32_t*>factors, <int32_t*>target)
    elif code == INT64:
        window_all(&p, <const int64_t*>source, <const int64_t*>factors, <int64_t*>target)
    elif code == UINT8:
        window_all(&p, <const uint8_t*>source, <const uint8_t*>factors, <uint8_t*>target)
    else:
        raise DTypeError(f"windowed: does not take {x.dtype}")
    return out


def windowed_grad(TensorBase g not None, TensorBase places not None, TensorBase weights not None, Py_ssize_t size, Py_ssize_t dim):
    """The gradient of windowed's x, which had this size along dim."""
    cdef Windows p
    cdef int code = g.dtype.code
    same_type("windowed_grad", g, weights)
    g, places, weights = packed(g), packed(places), packed(weights)
    cdef TensorBase out = windows("windowed_grad", &p, g, places, dim, size)
    cdef void* source = address(g)
    cdef void* factors = address(weights)
    cdef void* target = address(out)
    if out.size == 0:
        return out
    if code == FLOAT32:
        spread_all(&p, <const float*>source, <const float*>factors, <float*>target)
    elif code == FLOAT64:
        spread_all(&p, <const double*>source, <const double*>factors, <double*>target)
    elif code == INT32:
        spread_all(&p, <const int32_t*>source, <const int32_t*>factors, <int32_t*>target)
    elif code == INT64:
        spread_all(&p, <const int64_t*>source, <const int64_t*>factors, <int64_t*>target)
    elif code == UINT8:
        spread_all(&p, <const uint8_t*>source, <const uint8_t*>factors, <uint8_t*>target)
    else:
        raise DTypeError(f"windowed_grad: does not take {g.dtype}")
    return out


def windowed_bytes(TensorBase x not None, TensorBase places not None, TensorBase weights not None, Py_ssize_t dim, int bits):
    """The same of bytes by weights times 2**bits, rounded up from the half, from 0 to 255. The sums fit into 32 bits."""
    cdef Windows p
    cdef int threads, t
    cdef Py_ssize_t task, tasks
    if x.dtype.code != UINT8 or weights.dtype.code != INT32:
        raise DTypeError(f"windowed_bytes: needs uint8 and weights of int32, got {x.dtype.name} and {weights.dtype.name}")
    x, places, weights = packed(x), packed(places), packed(weights)
    cdef TensorBase out = windows("windowed_bytes", &p, x, places, dim)
    cdef const uint8_t* source = <const uint8_t*>address(x)
    cdef const int32_t* factors = <const int32_t*>address(weights)
    cdef uint8_t* target = <uint8_t*>address(out)
    if out.size == 0:
        return out
    threads = threads_for(out.size * max(<Py_ssize_t>1, p.taps))
    tasks = p.outer * p.length if p.inner > 1 else (p.outer + LINES - 1) // LINES
    cdef Storage memory = host_storage(threads * (p.n + p.length) * LINES if p.inner == 1 else 0)
    cdef uint8_t* lines = <uint8_t*>memory.data
    with nogil:
        if p.inner == 1:
            for t in prange(threads, num_threads=threads, schedule="static"):
                for task in range(tasks * t // threads, tasks * (t + 1) // threads):
                    byte_lines(&p, source, factors, bits, task * LINES, lines + t * (p.n + p.length) * LINES, target)
        else:
            for task in prange(tasks, num_threads=threads, schedule="static"):
                byte_row(&p, source, factors, bits, task, target)
    return out


KERNELS = {"windowed": windowed, "windowed_bytes": windowed_bytes, "windowed_grad": windowed_grad}
