# Elements and slices that are added at places, combined with what is there, or written instead of it, in the order of the indices.
#
# Layout: of entries [outer, n, inner] and places [outer, size, inner], one of outer and some columns at a time. Threads: none. Sizes and
# indices: the caller's.
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from volta._kernels.cpu.doubles cimport pick_f64
from volta._kernels.cpu.fetch cimport fetch_written
from volta._kernels.cpu.scalar cimport pick_f32

cdef extern from *:
    """
    /* What was chosen by chance is there: no compiler makes a branch of the choice, which would be mispredicted. */
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_CHOSEN(m) __asm__("" : "+r"(m))
    #else
      #define VOLTA_CHOSEN(m)
    #endif
    """
    void chosen "VOLTA_CHOSEN"(int64_t m) noexcept nogil            # a variable

ctypedef fused number:
    uint8_t
    int32_t
    int64_t
    float
    double

cdef enum:
    ADD, PROD, AMAX, AMIN, LAST

cdef enum:
    LINES = 256                         # short lines that are added to at once
    EARLY = 16                          # elements before their turn, where what is written takes more than
    AT_HAND = 32768                     # bytes

cdef struct Scatter:
    int kind
    bint full                           # index[outer][n][inner], else index[n]
    Py_ssize_t outer, n, size, inner    # n entries of each [outer, inner], for places of which there are `size`
    Py_ssize_t block                    # columns that are worked at a time
    char* fresh                         # slices from zeros on: of each entry, whether it is the first of its place; behind these, of each
                                        # place, whether it has one. NULL: zeros are written first


cdef inline number combined(number a, number b, int kind) noexcept nogil:
    """NaN stays NaN."""
    if kind == PROD:
        return <number>(a * b)
    cdef int first = ((a >= b) if kind == AMAX else (a <= b)) | (a != a)
    if number is float:
        return pick_f32(first, a, b)            # by chance either: a branch would be mispredicted
    elif number is double:
        return pick_f64(first, a, b)
    else:
        return b ^ ((a ^ b) & -<number>first)


cdef inline void scatter_elements(const number* x, const int64_t* index, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t step, int kind,
                                  number* out) noexcept nogil:
    cdef Py_ssize_t j, at
    for j in range(n):
        at = index[j] * inner + j * step
        if kind == LAST:
            out[at] = x[j]
        elif kind != ADD:
            out[at] = combined(out[at], x[j], kind)
        else:
            out[at] += x[j]


cdef inline void put_elements(const number* x, const int64_t* index, Py_ssize_t n, number* out) noexcept nogil:
    """Of one column: four at a time, since a jump takes as long as one of them."""
    cdef Py_ssize_t j
    for j in range(0, n - 3, 4):
        out[index[j]] = x[j]
        out[index[j + 1]] = x[j + 1]
        out[index[j + 2]] = x[j + 2]
        out[index[j + 3]] = x[j + 3]
    for j in range(n // 4 * 4, n):
        out[index[j]] = x[j]


cdef inline void add_elements(const number* x, const int64_t* index, Py_ssize_t n, number* out) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(0, n - 3, 4):
        out[index[j]] += x[j]
        out[index[j + 1]] += x[j + 1]
        out[index[j + 2]] += x[j + 2]
        out[index[j + 3]] += x[j + 3]
    for j in range(n // 4 * 4, n):
        out[index[j]] += x[j]


cdef inline void scatter_last(const number* x, const int64_t* index, Py_ssize_t n, Py_ssize_t inner, number* out) noexcept nogil:
    """Of neighbouring columns. What is only written is waited for in turn, unless it is asked for before."""
    cdef Py_ssize_t j, most = n - EARLY
    for j in range(max(most, 0)):
        fetch_written(out + index[j + EARLY] * inner + j + EARLY)
        out[index[j] * inner + j] = x[j]
    for j in range(max(most, 0), n):
        out[index[j] * inner + j] = x[j]


cdef inline bint has_nan(const number* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t j
    cdef int found = 0
    for j in range(n):
        found |= x[j] != x[j]
    return found != 0


cdef inline void scatter_extremes(const number* x, const int64_t* index, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t step, bint largest,
                                  number* out) noexcept nogil:
    """Of elements without NaN: what is there stays where it is NaN, in one instruction."""
    cdef Py_ssize_t j, at
    cdef number a, b, m
    for j in range(n):
        at = index[j] * inner + j * step
        a, b = out[at], x[j]
        if number is not float and number is not double:
            m = (b if b > a else a) if largest else (b if b < a else a)
            chosen(m)
            out[at] = m
        elif largest:
            out[at] = b if b > a else a
        else:
            out[at] = b if b < a else a


cdef inline void scatter_row(const Scatter* p, const number* x, const int64_t* index, Py_ssize_t n, number* out) noexcept nogil:
    """n neighbouring columns; entries, where there is one column. What is constant is so for the compiler."""
    if p.inner == 1 and p.kind == LAST:
        put_elements(x, index, n, out)
    elif p.inner == 1 and p.kind == ADD:
        add_elements(x, index, n, out)
    elif p.inner == 1 and p.kind == AMAX and not has_nan(x, n):
        scatter_extremes(x, index, n, 1, 0, True, out)
    elif p.inner == 1 and p.kind == AMIN and not has_nan(x, n):
        scatter_extremes(x, index, n, 1, 0, False, out)
    elif p.inner == 1 and p.kind == PROD:
        scatter_elements(x, index, n, 1, 0, PROD, out)
    elif p.inner == 1:
        scatter_elements(x, index, n, 1, 0, p.kind, out)
    elif p.kind == LAST and p.size * p.inner * <Py_ssize_t>sizeof(number) > AT_HAND:
        scatter_last(x, index, n, p.inner, out)
    elif p.kind == LAST:
        scatter_elements(x, index, n, p.inner, 1, LAST, out)
    elif p.kind == ADD:
        scatter_elements(x, index, n, p.inner, 1, ADD, out)
    elif p.kind == AMAX and not has_nan(x, n):
        scatter_extremes(x, index, n, p.inner, 1, True, out)
    elif p.kind == AMIN and not has_nan(x, n):
        scatter_extremes(x, index, n, p.inner, 1, False, out)
    else:
        scatter_elements(x, index, n, p.inner, 1, p.kind, out)


cdef inline void add_slice(const number* x, Py_ssize_t n, number* out) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(n):
        out[j] += x[j]


cdef inline void put_slice(const number* x, Py_ssize_t n, number* out) noexcept nogil:
    """Added to zeros: -0 becomes 0."""
    cdef Py_ssize_t j
    for j in range(n):
        out[j] = <number>(x[j] + <number>0)


cdef inline void combine_slice(const number* x, Py_ssize_t n, int kind, number* out) noexcept nogil:
    """As scatter_elements and scatter_extremes, in vectors."""
    cdef Py_ssize_t j
    if kind == PROD:
        for j in range(n):
            out[j] = combined(out[j], x[j], PROD)
    elif has_nan(x, n):
        for j in range(n):
            out[j] = combined(out[j], x[j], kind)
    elif kind == AMAX:
        for j in range(n):
            out[j] = x[j] if x[j] > out[j] else out[j]
    else:
        for j in range(n):
            out[j] = x[j] if x[j] < out[j] else out[j]


cdef inline void combine_slices(const Scatter* p, const number* x, const int64_t* index, Py_ssize_t columns, Py_ssize_t low,
                                Py_ssize_t high, number* out) noexcept nogil:
    """Products or extremes of the slices of entries for the places low .. high, `columns` of each, and what is there."""
    cdef Py_ssize_t i
    for i in range(p.n):
        if low <= index[i] < high:
            combine_slice(x + i * p.inner, columns, p.kind, out + index[i] * p.inner)


cdef inline void add_slices(const Scatter* p, const number* x, const int64_t* index, Py_ssize_t columns, number* out) noexcept nogil:
    """The slices of all entries, `columns` of each. What no entry names becomes 0, if it is not so already."""
    cdef Py_ssize_t i, inner = p.inner
    if p.kind != ADD:
        combine_slices(p, x, index, columns, 0, p.size, out)
        return
    for i in range(p.n):
        if p.fresh != NULL and p.fresh[i]:
            put_slice(x + i * inner, columns, out + index[i] * inner)
        else:
            add_slice(x + i * inner, columns, out + index[i] * inner)
    for i in range(p.size if p.fresh != NULL else 0):
        if not p.fresh[p.n + i]:
            memset(out + i * inner, 0, columns * sizeof(number))


cdef inline void note_first(Scatter* p, const int64_t* index, char* fresh) noexcept nogil:
    cdef Py_ssize_t i
    p.fresh = fresh
    memset(fresh + p.n, 0, p.size)
    for i in range(p.n):
        fresh[i] = not fresh[p.n + index[i]]
        fresh[p.n + index[i]] = 1


cdef inline void add_columns(const Scatter* p, const number* start, const number* x, const int64_t* index, Py_ssize_t first,
                             Py_ssize_t last, number* out) noexcept nogil:
    """Short lines first .. last of one column each, which share their places: entry by entry down some lines."""
    cdef Py_ssize_t line = first, rows, i, k, size = p.size, n = p.n
    while line < last:
        rows = min(<Py_ssize_t>LINES, last - line)
        if start == NULL:
            memset(out + line * size, 0, rows * size * sizeof(number))
        elif start != out:
            memcpy(out + line * size, start + line * size, rows * size * sizeof(number))
        for k in range(n):
            for i in range(line, line + rows):
                out[i * size + index[k]] += x[i * n + k]
        line += rows
