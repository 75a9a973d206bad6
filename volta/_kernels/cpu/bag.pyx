# Sums, means and maxima of the rows of a table that bags of indices name.
#
# Layout: weight[rows, width], index[n], offsets of bags and scales[n], made contiguous. Threads: over bags; each is gone through in the
# order of its indices. Sizes: here.
# The indices of a bag are checked before a row of it is read.

from cython.parallel cimport prange
from libc.stdint cimport int64_t

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, same_type
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.fetch cimport fetch      # in the macros below

from volta._kernels.core.base import dtype_from_code
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it
from volta.errors import DTypeError, IndexRangeError, ShapeError

cdef extern from *:
    """
    #define VOLTA_AHEAD(N) ((N) > 4 ? 48 / (N) : 12)  /* rows that are asked for before their turn: not too much at once */
    #if defined(__AVX512F__)
      #define VOLTA_UNROLL_BAG _Pragma("GCC unroll 16")
      enum { VOLTA_BAG_VECTORS = 16 };                /* that stay in registers */
    #else
      #define VOLTA_UNROLL_BAG VOLTA_UNROLL
      enum { VOLTA_BAG_VECTORS = 8 };
    #endif
    /* Sums of N numbers or vectors V of each row of a bag. */
    #define VOLTA_BAG_SUMS(N, ROOM, V, T) do {                                                                                \\
        V sums[ROOM];                                                                                                         \\
        VOLTA_UNROLL_BAG for (j = 0; j < (N); j++) sums[j] = (V){0};                                                          \\
        for (k = 0; k < count; k++) {                                                                                         \\
            const V* row = (const V*)(x + index[k] * width);                                                                  \\
            const T scale = scales ? scales[k] : 1;                                                                           \\
            const int64_t next = index[k + VOLTA_AHEAD(ROOM) < left ? k + VOLTA_AHEAD(ROOM) : k];                             \\
            if (next >= 0 && next < rows)                           /* of the next bag, perhaps, not checked yet */           \\
                VOLTA_FETCH_ALL(x + next * width, (N) * (Py_ssize_t)(sizeof(V) / sizeof(T)));                                 \\
            if (index[k] == padding) continue;                                                                                \\
            VOLTA_UNROLL_BAG for (j = 0; j < (N); j++) sums[j] += scale * row[j];                                             \\
        }                                                                                                                     \\
        VOLTA_UNROLL_BAG for (j = 0; j < (N); j++) ((V*)out)[j] = sums[j];                                                    \\
    } while (0)
    /* Those of as many of n columns as there are vectors for, a power of two; gives how many. Fewer than a vector's are all done. */
    #define VOLTA_BAG(S, T)                                                                                                   \\
    static Py_ssize_t volta_bag_##S(const T* x, Py_ssize_t rows, Py_ssize_t width, const int64_t* index, const T* scales,     \\
                                    Py_ssize_t count, Py_ssize_t left, int64_t padding, Py_ssize_t n, T* out) {               \\
        Py_ssize_t k, j;                                                                                                      \\
        if (n < VOLTA_LANES##S) { VOLTA_BAG_SUMS(n, VOLTA_LANES##S, T, T); return n; }                                        \\
        if (VOLTA_BAG_VECTORS > 8 && n >= 16 * VOLTA_LANES##S) {                                                              \\
            VOLTA_BAG_SUMS(16, 16, volta_v##S, T); return 16 * VOLTA_LANES##S;                                                \\
        }                                                                                                                     \\
        if (n >= 8 * VOLTA_LANES##S) { VOLTA_BAG_SUMS(8, 8, volta_v##S, T); return 8 * VOLTA_LANES##S; }                      \\
        if (n >= 4 * VOLTA_LANES##S) { VOLTA_BAG_SUMS(4, 4, volta_v##S, T); return 4 * VOLTA_LANES##S; }                      \\
        if (n >= 2 * VOLTA_LANES##S) { VOLTA_BAG_SUMS(2, 2, volta_v##S, T); return 2 * VOLTA_LANES##S; }                      \\
        VOLTA_BAG_SUMS(1, 1, volta_v##S, T); return VOLTA_LANES##S;                                                           \\
    }
    VOLTA_BAG(32, float)
    VOLTA_BAG(64, double)
    """
    Py_ssize_t bag_32 "volta_bag_32"(const float*, Py_ssize_t, Py_ssize_t, const int64_t*, const float*, Py_ssize_t, Py_ssize_t,
                                     int64_t, Py_ssize_t, float*) noexcept nogil
    Py_ssize_t bag_64 "volta_bag_64"(const double*, Py_ssize_t, Py_ssize_t, const int64_t*, const double*, Py_ssize_t, Py_ssize_t,
                                     int64_t, Py_ssize_t, double*) noexcept nogil


cdef struct Bags:
    const int64_t* index
    const int64_t* offsets              # NULL: all have `each`
    Py_ssize_t starts, each             # how many offsets there are
    Py_ssize_t bags, entries, rows, width
    int64_t padding                     # the row that does not count; negative: all count
    bint mean


cdef inline Py_ssize_t inside(int64_t at, Py_ssize_t n) noexcept nogil:
    return 0 if at < 0 else n if at > n else <Py_ssize_t>at


cdef Py_ssize_t entries_of(const Bags* p, Py_ssize_t bag, Py_ssize_t* first) noexcept nogil:
    """How many indices a bag has, from `first` on."""
    cdef Py_ssize_t last = (bag + 1) * p.each
    first[0] = bag * p.each
    if p.offsets != NULL:
        first[0] = inside(p.offsets[bag], p.entries)
        last = inside(p.offsets[bag + 1], p.entries) if bag + 1 < p.starts else p.entries
    return max(last - first[0], 0)


cdef bint any_outside(const int64_t* index, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t found = 0
    for i in range(n):
        found |= (index[i] < 0) | (index[i] >= rows)
    return found != 0


cdef bint one_bag(const Bags* p, const real* weight, const real* scales, Py_ssize_t bag, real* out) noexcept nogil:
    """Gives whether an index is outside; nothing is read then."""
    cdef Py_ssize_t first, k, j = 0, n = entries_of(p, bag, &first), counted, done
    cdef const int64_t* index = p.index + first
    cdef const real* factors = NULL
    if any_outside(index, n, p.rows):
        return True
    if scales != NULL:
        factors = scales + first
    while True:
        if real is float:
            done = bag_32(weight + j, p.rows, p.width, index, factors, n, p.entries - first, p.padding, p.width - j, out + j)
        else:
            done = bag_64(weight + j, p.rows, p.width, index, factors, n, p.entries - first, p.padding, p.width - j, out + j)
        if j + done >= p.width:
            break
        j = j + done if j + 2 * done <= p.width else p.width - done         # the last ones may be some of those before once more
    if p.mean:
        counted = n
        for k in range(n if p.padding >= 0 else 0):
            counted -= index[k] == p.padding
        for j in range(p.width if counted > 1 else 0):
            out[j] = out[j] / <real>counted
    return False


cdef bint largest(const Bags* p, const real* weight, Py_ssize_t bag, real* out, int64_t* taken) noexcept nogil:
    """The first of the largest in each column, where a NaN that comes first is never exceeded, and the rows that they are of. Gives
    whether an index is outside."""
    cdef Py_ssize_t first, k, j, n = entries_of(p, bag, &first)
    cdef const int64_t* index = p.index + first
    cdef const real* row
    cdef bint any = False
    if any_outside(index, n, p.rows):
        return True
    for j in range(p.width):
        out[j] = 0
        taken[j] = -1
    for k in range(n):
        if index[k] == p.padding:
            continue
        row = weight + index[k] * p.width
        for j in range(p.width):
            if not any or row[j] > out[j]:
                out[j] = row[j]
                taken[j] = index[k]
        any = True
    return False


cdef bint some_bags(const Bags* p, const real* weight, const real* scales, Py_ssize_t first, Py_ssize_t last, real* out,
                    int64_t* taken) noexcept nogil:
    cdef Py_ssize_t bag
    cdef bint outside = False
    for bag in range(first, last):
        if taken != NULL:
            outside |= largest(p, weight, bag, out + bag * p.width, taken + bag * p.width)
        else:
            outside |= one_bag(p, weight, scales, bag, out + bag * p.width)
    return outside


cdef bint all_bags(const Bags* p, const real* weight, const real* scales, real* out, int64_t* taken) noexcept nogil:
    """Sums and means; maxima where it is asked for the rows that they are `taken` from."""
    cdef int threads = threads_for((p.entries + p.bags) * (p.width + 8)), t, outside = 0
    if threads == 1:
        return some_bags(p, weight, scales, 0, p.bags, out, taken)
    for t in prange(threads, num_threads=threads, schedule="static"):
        outside += some_bags(p, weight, scales, p.bags * t // threads, p.bags * (t + 1) // threads, out, taken)
    return outside > 0


cdef int refuse(str op, const Bags* p) except -1:
    cdef Py_ssize_t i
    for i in range(p.entries):
        if p.index[i] < 0 or p.index[i] >= p.rows:
            raise IndexRangeError(f"{op}: index {p.index[i]} is out of range for a dimension of size {p.rows}; it is at position {i}")
    return 0


cdef TensorBase over_bags(str op, TensorBase weight, TensorBase index, TensorBase offsets, TensorBase scales, Bags p, int64_t* taken):
    """What `all_bags` gives. IN: p, of which bags, padding and mean are there."""
    cdef int code = float_code(op, weight)
    if len(weight.shape) != 2 or scales is not None and scales.size != index.size:
        raise ShapeError(f"{op}: needs a matrix and a scale for each index, got {weight.shape}, {index.size} indices and "
                         f"{None if scales is None else scales.shape}")
    if offsets is not None and (offsets.dtype.code != INT64 or offsets.size < p.bags) or index.dtype.code != INT64:
        raise DTypeError(f"{op}: indices and offsets must be int64, an offset for each bag")
    if scales is not None:
        same_type(op, weight, scales)
        scales = packed(scales)
    weight, index = packed(weight), packed(index)
    offsets = None if offsets is None else packed(offsets)
    p.index, p.entries = <const int64_t*>address(index), index.size
    p.rows, p.width, p.each = weight.shape[0], weight.shape[1], index.size // max(p.bags, 1)
    p.offsets, p.starts = NULL, 0
    if offsets is not None:
        p.offsets, p.starts = <const int64_t*>address(offsets), offsets.size
    cdef TensorBase out = empty_host((p.bags, p.width), weight.dtype)
    cdef void* table = address(weight)
    cdef void* factors = NULL if scales is None else address(scales)
    cdef void* target = address(out)
    cdef bint outside
    with nogil:
        if code == FLOAT32:
            outside = all_bags(&p, <const float*>table, <const float*>factors, <float*>target, taken)
        else:
            outside = all_bags(&p, <const double*>table, <const double*>factors, <double*>target, taken)
    if outside:
        refuse(op, &p)
    return out


def bag_sum(TensorBase weight not None, TensorBase index not None, TensorBase offsets, TensorBase scales, Py_ssize_t bags, int64_t padding,
            bint mean):
    """Sums, or means, of the rows of each bag; of rows `padding` none counts."""
    cdef Bags p
    p.bags, p.padding, p.mean = bags, padding, mean
    return over_bags("bag_sum", weight, index, offsets, scales, p, NULL)


def bag_max(TensorBase weight not None, TensorBase index not None, TensorBase offsets, Py_ssize_t bags, int64_t padding):
    """Maxima of the rows of each bag, and of which rows they are; of rows `padding` none counts."""
    cdef Bags p
    cdef TensorBase taken = empty_host((bags, weight.shape[len(weight.shape) - 1]), dtype_from_code(INT64))
    p.bags, p.padding, p.mean = bags, padding, False
    return over_bags("bag_max", weight, index, offsets, None, p, <int64_t*>address(taken)), taken


KERNELS = {"bag_sum": bag_sum, "bag_max": bag_max}
