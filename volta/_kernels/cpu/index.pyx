# Gathering along one dimension by integer indices, and writing rows at places. What undoes gathering is in scatter.pyx.
#
# Layout: tensors seen as [outer, length, inner] around the indexed dimension; gather reads its input with any strides.
# Indices are int64 and checked before any is used, a block at a time: one outside [0, length) raises.
# Threads: over elements of the output (gather, index_select); over rows of index_put, so that the last entry wins.
# Sizes: the front end. Data is moved by its size in bytes.

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memcpy

from volta._kernels.core.base cimport INT64, MAX_RANK, TensorBase, address, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.fetch cimport FETCHED, fetch         # fetch: in the macros below
from volta._kernels.cpu.iteration cimport copy_bytes
from volta._kernels.cpu.short_rows cimport copy_rows

from volta.errors import DTypeError, IndexRangeError

ctypedef fused word:
    int8_t
    int16_t
    int32_t
    int64_t

cdef extern from * nogil:
    """
    /* out[l][k] = x[l][at[k]] of `lines` short lines, apart from the rest of this module, where the compiler made other loops slower;
       and from a line of the cache on, since a loop that lies across two took a third longer. */
    #if defined(__GNUC__)
    #define VOLTA_APART __attribute__((noinline, aligned(64)))
    #else
    #define VOLTA_APART
    #endif
    /* Four at a time, of which compilers make no gathering instructions: these took half as long again. */
    #define VOLTA_SHORT(NAME, T)                                                                                                  \\
    static VOLTA_APART void NAME(const T *x, ptrdiff_t step, const int32_t *at, ptrdiff_t n, ptrdiff_t lines, T *out) {           \\
        for (; lines > 0; lines--, x += step, out += n) {                                                                         \\
            ptrdiff_t k = 0;                                                                                                      \\
            for (; k + 4 <= n; k += 4) {                                                                                          \\
                const T a = x[at[k]], b = x[at[k + 1]], c = x[at[k + 2]], d = x[at[k + 3]];                                       \\
                out[k] = a, out[k + 1] = b, out[k + 2] = c, out[k + 3] = d;                                                       \\
            }                                                                                                                     \\
            for (; k < n; k++) out[k] = x[at[k]];                                                                                 \\
        }                                                                                                                         \\
    }
    VOLTA_SHORT(volta_short32, int32_t)
    VOLTA_SHORT(volta_short64, int64_t)
    /* Also apart: loops that gather. */
    #define VOLTA_GATHERS(S)                                                                                                      \\
    static VOLTA_APART void volta_gather_line##S(const int##S##_t *x, const int64_t *index, ptrdiff_t n, ptrdiff_t stride,        \\
                                                 ptrdiff_t step, int##S##_t *out) {                                               \\
        ptrdiff_t j = 0;                                                                                                          \\
        if (step == 0 && stride == 1) {             /* four at a time, in two thirds of the instructions */                       \\
            for (; j + 4 <= n; j += 4) {                                                                                          \\
                const int##S##_t a = x[index[j]], b = x[index[j + 1]], c = x[index[j + 2]], d = x[index[j + 3]];                  \\
                out[j] = a, out[j + 1] = b, out[j + 2] = c, out[j + 3] = d;                                                       \\
            }                                                                                                                     \\
            for (; j < n; j++) out[j] = x[index[j]];                                                                              \\
        }                                                                                                                         \\
        else if (step == 0) for (; j < n; j++) out[j] = x[index[j] * stride];                                                     \\
        else if (step == 1) for (; j < n; j++) out[j] = x[index[j] * stride + j];                                                 \\
        else for (; j < n; j++) out[j] = x[index[j] * stride + j * step];                                                         \\
    }                                                                                                                             \\
    static VOLTA_APART int volta_gather_long##S(const int##S##_t *x, const int##S##_t *after, const int64_t *index, ptrdiff_t n,  \\
                                                ptrdiff_t length, int##S##_t *out) {                                              \\
        ptrdiff_t first, stop, j;                                                                                                 \\
        for (first = 0; first < n; first = stop) {                                                                                \\
            stop = first + VOLTA_FETCHED < n ? first + VOLTA_FETCHED : n;                                                         \\
            VOLTA_FETCH_ALL(after + first, (stop < length ? stop : length) - first);                                              \\
            VOLTA_FETCH_ALL(index + first + VOLTA_EARLY, stop - first);                                                           \\
            for (j = first; j < stop; j++) {                                                                                      \\
                if ((uint64_t)index[j] >= (uint64_t)length) return 1;                                                             \\
                out[j] = x[index[j]];                                                                                             \\
            }                                                                                                                     \\
        }                                                                                                                         \\
        return 0;                                                                                                                 \\
    }
    VOLTA_GATHERS(8) VOLTA_GATHERS(16) VOLTA_GATHERS(32) VOLTA_GATHERS(64)
    """
    void gather_line8 "volta_gather_line8"(const int8_t*, const int64_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int8_t*)
    void gather_line16 "volta_gather_line16"(const int16_t*, const int64_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int16_t*)
    void gather_line32 "volta_gather_line32"(const int32_t*, const int64_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int32_t*)
    void gather_line64 "volta_gather_line64"(const int64_t*, const int64_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int64_t*)
    bint gather_long8 "volta_gather_long8"(const int8_t*, const int8_t*, const int64_t*, Py_ssize_t, Py_ssize_t, int8_t*)
    bint gather_long16 "volta_gather_long16"(const int16_t*, const int16_t*, const int64_t*, Py_ssize_t, Py_ssize_t, int16_t*)
    bint gather_long32 "volta_gather_long32"(const int32_t*, const int32_t*, const int64_t*, Py_ssize_t, Py_ssize_t, int32_t*)
    bint gather_long64 "volta_gather_long64"(const int64_t*, const int64_t*, const int64_t*, Py_ssize_t, Py_ssize_t, int64_t*)
    void short32 "volta_short32"(const int32_t* x, Py_ssize_t step, const int32_t* at, Py_ssize_t n, Py_ssize_t lines, int32_t* out)
    void short64 "volta_short64"(const int64_t* x, Py_ssize_t step, const int32_t* at, Py_ssize_t n, Py_ssize_t lines, int64_t* out)

cdef enum:
    FEW_PLACES = 2048           # indices up to which lines of a selection are short, of at most
    FEW_LONG = 1 << 30          # elements: their places fit into 32 bits
    CHECKED = 1024              # indices that are checked at a time, and short lines that are moved
    SHORT = 10                  # elements of a line up to which many are moved column by column


# ---------------------------------------------------------------- checks

cdef Py_ssize_t first_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil:
    """Position of the first index outside [0, length), -1 where there is none."""
    cdef Py_ssize_t i
    cdef int threads = threads_for(2 * n), t
    cdef int found = 0
    if threads == 1:                            # a region of one thread takes half a microsecond too
        found = any_outside(index, n, length)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            found += any_outside(index + n * t // threads, n * (t + 1) // threads - n * t // threads, length)
    if found == 0:
        return -1
    for i in range(n):
        if index[i] < 0 or index[i] >= length:
            return i
    return -1


cdef TensorBase as_index(str name, TensorBase index):
    """Contiguous indices, which are still to be checked. Raises: DTypeError unless int64."""
    if index.dtype.code != INT64:
        raise DTypeError(f"{name}: indices must be int64, got {index.dtype.name}; cast them with .long()")
    return packed(index)


cdef int refuse(str name, TensorBase index, Py_ssize_t length) except -1:
    """Raises: IndexRangeError for the first index outside [0, length), if there is one."""
    cdef const int64_t* data = <const int64_t*>address(index)
    cdef Py_ssize_t at = first_outside(data, index.size, length)
    if at >= 0:
        raise IndexRangeError(f"{name}: index {data[at]} is out of range for a dimension of size {length}; it is at position {at}")
    return 0


cdef TensorBase checked(str name, TensorBase index, Py_ssize_t dim, Py_ssize_t length):
    """Contiguous indices. Raises: DTypeError unless int64; IndexRangeError for the first index outside [0, length)."""
    index = as_index(name, index)
    refuse(name, index, length)
    return index


# ---------------------------------------------------------------- moves

cdef enum Kind:
    GATHER, SELECT, PUT

cdef struct Move:
    Kind kind
    int rows_rank, rank                 # of the rows' dimensions, and of those within a row (gather: of the index)
    int dim                             # gather
    Py_ssize_t size                     # elements that are moved
    Py_ssize_t n, rows                  # entries, rows of the strided operand (gather: the last dimension, and lines of it)
    Py_ssize_t length, inner            # elements of x along dim, and behind it (index_select)
    bint dense                          # index_select: x is contiguous
    Py_ssize_t step                     # index_put: of values, from entry to entry; index_select: of x, from row to row
    Py_ssize_t row_shape[MAX_RANK]
    Py_ssize_t row_strides[MAX_RANK]
    Py_ssize_t shape[MAX_RANK]          # within a row (gather: of the index)
    Py_ssize_t strides[MAX_RANK]        # of the target (gather: of x)
    Py_ssize_t sources[MAX_RANK]        # of the source


cdef bint move_range(const Move* p, const word* source, const int64_t* index, Py_ssize_t first, Py_ssize_t last,
                     word* target) noexcept nogil:
    """Whether an index was outside (gather, which checks them itself)."""
    if p.kind == GATHER:
        return gather_lines(p, source, index, first, last, target)
    if p.kind == PUT:
        put_rows(p, index, first, last, source, target)
    elif p.dense:
        select_words(p, source, index, first, last, target)
    else:
        select_rows(p, source, index, first, last, target)
    return False


cdef bint move_words(const Move* p, const word* source, const int64_t* index, word* target) noexcept nogil:
    cdef Py_ssize_t items = p.rows * p.n if p.kind == SELECT else p.rows
    cdef int threads = threads_for(p.size), t, outside = 0
    if threads == 1:
        return move_range(p, source, index, 0, items, target)
    for t in prange(threads, num_threads=threads, schedule="static"):
        outside += move_range(p, source, index, items * t // threads, items * (t + 1) // threads, target)
    return outside != 0


cdef bint move(const Move* p, TensorBase source, TensorBase index, TensorBase target):
    """Data is moved by the size of its elements. Gives whether an index was outside."""
    cdef void* x = address(source)
    cdef void* out = address(target)
    cdef const int64_t* places = <const int64_t*>address(index)
    if source.dtype.itemsize == 4:
        return move_words(p, <const int32_t*>x, places, <int32_t*>out)
    if source.dtype.itemsize == 8:
        return move_words(p, <const int64_t*>x, places, <int64_t*>out)
    if source.dtype.itemsize == 1:
        return move_words(p, <const int8_t*>x, places, <int8_t*>out)
    return move_words(p, <const int16_t*>x, places, <int16_t*>out)


# ---------------------------------------------------------------- gather

cdef inline void gather_line(const word* x, const int64_t* index, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t step,
                             word* out) noexcept nogil:
    """out[j] = x[index[j] * stride + j * step]"""
    if word is int8_t:
        gather_line8(x, index, n, stride, step, out)
    elif word is int16_t:
        gather_line16(x, index, n, stride, step, out)
    elif word is int32_t:
        gather_line32(x, index, n, stride, step, out)
    else:
        gather_line64(x, index, n, stride, step, out)


cdef inline bint gather_long(const word* x, const word* after, const int64_t* index, Py_ssize_t n, Py_ssize_t length,
                             word* out) noexcept nogil:
    """A line of one that lies together, and whether an index was outside. Meanwhile that one's successor is fetched: elements that are
    read by chance would be waited for."""
    if word is int8_t:
        return gather_long8(x, after, index, n, length, out)
    elif word is int16_t:
        return gather_long16(x, after, index, n, length, out)
    elif word is int32_t:
        return gather_long32(x, after, index, n, length, out)
    else:
        return gather_long64(x, after, index, n, length, out)


cdef inline Py_ssize_t gather_base(const Move* p, Py_ssize_t line) noexcept nogil:
    """Where the part of x begins that a line of the index is about."""
    cdef Py_ssize_t base = 0
    cdef int d
    for d in range(p.rank - 2, -1, -1):
        if d != p.dim:
            base += line % p.shape[d] * p.strides[d]
        line //= p.shape[d]
    return base


cdef bint gather_lines(const Move* p, const word* x, const int64_t* index, Py_ssize_t first, Py_ssize_t last,
                       word* out) noexcept nogil:
    """Whether an index was outside: then what follows is left as it is."""
    cdef Py_ssize_t line = first, stop, block = max(1, CHECKED // p.n), step = 0 if p.dim == p.rank - 1 else p.strides[p.rank - 1]
    if step == 0 and p.strides[p.dim] == 1 and p.n >= FETCHED:
        for line in range(first, last):
            if gather_long(x + gather_base(p, line), x + gather_base(p, line + 1), index + line * p.n, p.n, p.length, out + line * p.n):
                return True
        return False
    while line < last:
        stop = min(line + block, last)
        if any_outside(index + line * p.n, (stop - line) * p.n, p.length):
            return True
        for line in range(line, stop):
            gather_line(x + gather_base(p, line), index + line * p.n, p.n, p.strides[p.dim], step, out + line * p.n)
        line = stop
    return False


def gather(TensorBase x not None, TensorBase index not None, int dim):
    """out[..., i, ...] = x[..., index[..., i, ...], ...], in the shape of `index`."""
    cdef Move p
    cdef int d
    index = as_index("gather", index)
    cdef TensorBase out = empty_host(index.shape, x.dtype)
    p.length = x.shape[dim] if len(x.shape) else 1
    p.kind, p.rank, p.dim, p.size = GATHER, len(index.shape), dim, 2 * index.size
    if p.rank == 0:                             # a number counts as one of shape (1,)
        p.rank, p.shape[0], p.strides[0] = 1, 1, 1
    for d in range(len(index.shape)):
        p.shape[d], p.strides[d] = index.shape[d], x._strides[d]
    if index.size == 0:
        return out
    p.n = p.shape[p.rank - 1]
    p.rows = index.size // p.n
    if move(&p, x, index, out):
        refuse("gather", index, p.length)
    return out


# ---------------------------------------------------------------- rows of any strides

cdef int merged(tuple shape, tuple strides, tuple others, Py_ssize_t* sizes, Py_ssize_t* a, Py_ssize_t* b):
    """The dimensions as few: sizes with both operands' strides; at least one dimension."""
    cdef int rank = 0, d
    for d in range(len(shape)):
        if <Py_ssize_t>shape[d] == 1:
            continue
        if (rank and a[rank - 1] == <Py_ssize_t>strides[d] * <Py_ssize_t>shape[d]
                and b[rank - 1] == <Py_ssize_t>others[d] * <Py_ssize_t>shape[d]):
            sizes[rank - 1] *= <Py_ssize_t>shape[d]
            rank -= 1
        else:
            sizes[rank] = shape[d]
        a[rank], b[rank] = strides[d], others[d]
        rank += 1
    if rank == 0:
        sizes[0], a[0], b[0], rank = 1, 1, 1, 1
    return rank


cdef inline Py_ssize_t row_offset(const Move* p, Py_ssize_t row) noexcept nogil:
    """Where a row of the strided operand begins."""
    cdef Py_ssize_t at = 0
    cdef int d
    for d in range(p.rows_rank - 1, 0, -1):
        at += row % p.row_shape[d] * p.row_strides[d]
        row //= p.row_shape[d]
    return at + row * p.row_strides[0]


cdef void copy_row(const Move* p, const word* source, word* target) noexcept nogil:
    """One row, line by line."""
    cdef int last = p.rank - 1, d
    cdef Py_ssize_t lines = 1, line, rest, at, other, j
    cdef Py_ssize_t length = p.shape[last], stride = p.strides[last], step = p.sources[last]
    for d in range(last):
        lines *= p.shape[d]
    for line in range(lines):
        rest, at, other = line, 0, 0
        for d in range(last - 1, -1, -1):
            at += rest % p.shape[d] * p.strides[d]
            other += rest % p.shape[d] * p.sources[d]
            rest //= p.shape[d]
        if stride == 1 and step == 1:
            memcpy(target + at, source + other, length * sizeof(word))
        else:
            for j in range(length):
                target[at + j * stride] = source[other + j * step]


# ---------------------------------------------------------------- index_select

cdef void select_words(const Move* p, const word* x, const int64_t* index, Py_ssize_t first, Py_ssize_t last, word* out) noexcept nogil:
    """Slices first .. last of [outer * n]."""
    cdef Py_ssize_t i = first, k, stop, n = p.n, inner = p.inner, size = sizeof(word), rows
    cdef int32_t at[FEW_PLACES]
    cdef const word* source
    while i < last:                             # those of one outer, or short lines of some
        rows = min(<Py_ssize_t>CHECKED, (last - i) // n) if i % n == 0 and n * inner <= SHORT else 0
        if rows > n:
            source = x + i // n * p.length * inner
            for k in range(n):
                copy_rows(<char*>(out + (i + k) * inner), n * inner * size, <const char*>(source + index[k] * inner),
                          p.length * inner * size, rows, inner * size)
            i += rows * n
            continue
        if inner == 1 and i % n == 0 and n <= FEW_PLACES and last - i >= 4 * n and p.length <= FEW_LONG and sizeof(word) >= 4:
            for k in range(n):
                at[k] = <int32_t>index[k]
            rows, source = (last - i) // n, x + i // n * p.length
            if word is int32_t:
                short32(source, p.length, at, n, rows, out + i)
            elif word is int64_t:
                short64(source, p.length, at, n, rows, out + i)
            i += rows * n
            continue
        k, stop, source = i % n, min(last, (i // n + 1) * n), x + i // n * p.length * inner
        if inner == 1:
            gather_line(source, index + k, stop - i, 1, 0, out + i)
        else:
            for k in range(k, k + stop - i):
                copy_bytes(<char*>(out + i * inner), <const char*>(source + index[k] * inner), inner * sizeof(word))
                i += 1
        i = stop


cdef void select_rows(const Move* p, const word* x, const int64_t* index, Py_ssize_t first, Py_ssize_t last, word* out) noexcept nogil:
    """Slices first .. last of [outer * n], from x of any strides."""
    cdef Py_ssize_t i
    for i in range(first, last):
        copy_row(p, x + row_offset(p, i // p.n) + index[i % p.n] * p.step, out + i * p.inner)


def index_select(TensorBase x not None, TensorBase index not None, int dim):
    """The slices of x along dim that index[n] names. What it costs depends on these alone."""
    cdef Move p
    split_at(x.shape, dim, &p.rows, &p.length, &p.inner)
    index = checked("index_select", index, dim, p.length)
    p.kind, p.dense, p.n = SELECT, x.contiguous, index.size
    cdef TensorBase out = empty_host(x.shape[:dim] + (p.n,) + x.shape[dim + 1:] if len(x.shape) else (), x.dtype)
    if out.size == 0:
        return out
    p.size = out.size
    if not x.contiguous:
        p.step = x._strides[dim]
        p.rows_rank = merged(x.shape[:dim], x._strides[:dim], x._strides[:dim], p.row_shape, p.row_strides, p.sources)
        p.rank = merged(x.shape[dim + 1:], out._strides[dim + 1:], x._strides[dim + 1:], p.shape, p.strides, p.sources)
    move(&p, x, index, out)
    return out


# ---------------------------------------------------------------- writing

cdef void put_rows(const Move* p, const int64_t* index, Py_ssize_t low, Py_ssize_t high, const word* values, word* out) noexcept nogil:
    """The entries that name rows low .. high, in their order."""
    cdef Py_ssize_t k, j, n = p.shape[0], row = p.row_strides[0], entries = p.n, step = p.step
    cdef word value
    cdef word* target
    if p.rank == 1 and p.rows_rank == 1 and n == 1:
        for k in range(entries):
            if low <= index[k] < high:
                out[index[k] * row] = values[k * step]
        return
    if p.rank == 1 and p.rows_rank == 1 and row == 1 != p.strides[0]:          # columns of a matrix: along its lines
        for j in range(n):
            target = out + j * p.strides[0]
            for k in range(entries):
                if low <= index[k] < high:
                    target[index[k]] = values[k * step + j * p.sources[0]]
        return
    if p.rank == 1 and p.rows_rank == 1 and p.strides[0] == 1 and p.sources[0] == 1:
        for k in range(entries):
            if low <= index[k] < high:
                copy_bytes(<char*>(out + index[k] * row), <const char*>(values + k * step), n * sizeof(word))
        return
    if p.rank == 1 and p.rows_rank == 1 and p.strides[0] == 1 and p.sources[0] == 0:
        for k in range(p.n):
            if low <= index[k] < high:
                value, target = values[k * p.step], out + index[k] * row
                for j in range(n):
                    target[j] = value
        return
    for k in range(p.n):
        if low <= index[k] < high:
            copy_row(p, values + k * p.step, out + row_offset(p, index[k]))


def index_put(TensorBase out not None, TensorBase index not None, TensorBase values not None, int rank, bint unique=False):
    """In place: out[i] = values[k] where i = index[k] counts the places of the first `rank` dimensions of out; the last k for an i wins.

    out and values have any strides; values has the shape (n, *out.shape[rank:]), or one element for all.
    """
    cdef Move p
    cdef int d
    cdef tuple sources = values._strides[1:] if len(values.shape) else (0,) * (len(out.shape) - rank)
    p.n, p.rows, p.step = index.size, 1, values._strides[0] if len(values.shape) else 0
    for d in range(rank):
        p.rows *= <Py_ssize_t>out.shape[d]
    index = checked("index_put", index, 0, p.rows)
    p.rows_rank = merged(out.shape[:rank], out._strides[:rank], out._strides[:rank], p.row_shape, p.row_strides, p.sources)
    p.rank = merged(out.shape[rank:], out._strides[rank:], sources, p.shape, p.strides, p.sources)
    p.kind, p.size = PUT, p.n
    for d in range(p.rank):
        p.size *= p.shape[d]
    if p.size:
        move(&p, values, index, out)


KERNELS = {"gather": gather, "index_select": index_select, "index_put": index_put}
