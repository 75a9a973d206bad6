# Gathering along one dimension by integer indices, the additions that undo it, and writing at places.
#
# Layout: tensors seen as [outer, length, inner] around the indexed dimension; gather reads its input with any strides.
# Indices are int64 and checked here before any is used: one outside [0, length) raises.
# Threads: over elements of the output (gather, index_select); over outer and inner of the output where elements are
#   added, so that every sum has the order of the indices; over rows where they are written, so that the last entry wins.
# Sizes: the front end. Data is moved by its size in bytes, and added by type.

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport BOOL, FLOAT32, FLOAT64, INT32, INT64, MAX_RANK, UINT8, TensorBase, address, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport same_type, split_at
from volta._kernels.cpu.copy cimport packed

from volta.errors import DTypeError, IndexRangeError

ctypedef fused word:
    int8_t
    int16_t
    int32_t
    int64_t

ctypedef fused number:
    int8_t                              # bool, whose sum is true where any term is
    uint8_t
    int32_t
    int64_t
    float
    double

cdef enum:
    COLUMNS = 16                # fewest elements of a slice that one thread adds


# ---------------------------------------------------------------- checks

cdef bint any_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t found = 0
    for i in range(n):
        found |= index[i] | (length - 1 - index[i])         # either is negative
    return found < 0


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


cdef TensorBase checked(str name, TensorBase index, Py_ssize_t dim, Py_ssize_t length):
    """Contiguous indices. Raises: DTypeError unless int64; IndexRangeError for the first index outside [0, length)."""
    if index.dtype.code != INT64:
        raise DTypeError(f"{name}: indices must be int64, got {index.dtype.name}; cast them with .long()")
    index = packed(index)
    cdef const int64_t* data = <const int64_t*>address(index)
    cdef Py_ssize_t at = first_outside(data, index.size, length)
    if at >= 0:
        raise IndexRangeError(f"{name}: index {data[at]} is out of range for a dimension of size {length}; it is at position {at}")
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
    Py_ssize_t length, inner            # index_select: elements of x along dim and behind it
    bint dense                          # index_select: x is contiguous
    Py_ssize_t step                     # index_put: of values, from entry to entry; index_select: of x, from row to row
    Py_ssize_t row_shape[MAX_RANK]
    Py_ssize_t row_strides[MAX_RANK]
    Py_ssize_t shape[MAX_RANK]          # within a row (gather: of the index)
    Py_ssize_t strides[MAX_RANK]        # of the target (gather: of x)
    Py_ssize_t sources[MAX_RANK]        # of the source


cdef void move_words(const Move* p, const word* source, const int64_t* index, word* target) noexcept nogil:
    cdef Py_ssize_t items = p.rows * p.n if p.kind == SELECT else p.rows, first, last
    cdef int threads = threads_for(p.size), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        first, last = items * t // threads, items * (t + 1) // threads
        if p.kind == GATHER:
            gather_lines(p, source, index, first, last, target)
        elif p.kind == PUT:
            put_rows(p, index, first, last, source, target)
        elif p.dense:
            select_words(p, source, index, first, last, target)
        else:
            select_rows(p, source, index, first, last, target)


cdef void move(const Move* p, TensorBase source, TensorBase index, TensorBase target):
    """Data is moved by the size of its elements."""
    cdef void* x = address(source)
    cdef void* out = address(target)
    cdef const int64_t* places = <const int64_t*>address(index)
    if source.dtype.itemsize == 4:
        move_words(p, <const int32_t*>x, places, <int32_t*>out)
    elif source.dtype.itemsize == 8:
        move_words(p, <const int64_t*>x, places, <int64_t*>out)
    elif source.dtype.itemsize == 1:
        move_words(p, <const int8_t*>x, places, <int8_t*>out)
    else:
        move_words(p, <const int16_t*>x, places, <int16_t*>out)


# ---------------------------------------------------------------- gather

cdef inline void gather_line(const word* x, const int64_t* index, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t step, word* out) noexcept nogil:
    cdef Py_ssize_t j
    if step == 0:
        for j in range(n):
            out[j] = x[index[j] * stride]
    elif step == 1:
        for j in range(n):
            out[j] = x[index[j] * stride + j]
    else:
        for j in range(n):
            out[j] = x[index[j] * stride + j * step]


cdef void gather_lines(const Move* p, const word* x, const int64_t* index, Py_ssize_t first, Py_ssize_t last,
                       word* out) noexcept nogil:
    cdef Py_ssize_t line, rest, base
    cdef int d
    for line in range(first, last):
        rest, base = line, 0
        for d in range(p.rank - 2, -1, -1):
            if d != p.dim:
                base += rest % p.shape[d] * p.strides[d]
            rest //= p.shape[d]
        gather_line(x + base, index + line * p.n, p.n, p.strides[p.dim], 0 if p.dim == p.rank - 1 else p.strides[p.rank - 1], out + line * p.n)


def gather(TensorBase x not None, TensorBase index not None, int dim):
    """out[..., i, ...] = x[..., index[..., i, ...], ...], in the shape of `index`."""
    cdef Move p
    cdef int d
    cdef Py_ssize_t length = x.shape[dim] if len(x.shape) else 1
    index = checked("gather", index, dim, length)
    cdef TensorBase out = empty_host(index.shape, x.dtype)
    p.kind, p.rank, p.dim, p.size = GATHER, len(index.shape), dim, 2 * index.size
    if p.rank == 0:                             # a number counts as one of shape (1,)
        p.rank, p.shape[0], p.strides[0] = 1, 1, 1
    for d in range(len(index.shape)):
        p.shape[d], p.strides[d] = index.shape[d], x._strides[d]
    p.n = p.shape[p.rank - 1]
    p.rows = index.size // p.n if p.n else 0
    move(&p, x, index, out)
    return out


# ---------------------------------------------------------------- rows of any strides

cdef int merged(tuple shape, tuple strides, tuple others, Py_ssize_t* sizes, Py_ssize_t* a, Py_ssize_t* b):
    """The dimensions as few: sizes with both operands' strides; at least one dimension."""
    cdef int rank = 0, d
    for d in range(len(shape)):
        if <Py_ssize_t>shape[d] == 1:
            continue
        if rank and a[rank - 1] == <Py_ssize_t>strides[d] * <Py_ssize_t>shape[d] and b[rank - 1] == <Py_ssize_t>others[d] * <Py_ssize_t>shape[d]:
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
    cdef Py_ssize_t i = first, k, stop, n = p.n, inner = p.inner
    cdef const word* source
    while i < last:                             # those of one outer
        k, stop, source = i % n, min(last, (i // n + 1) * n), x + i // n * p.length * inner
        if inner == 1:
            gather_line(source, index + k, stop - i, 1, 0, out + i)
        else:
            for k in range(k, k + stop - i):
                memcpy(out + i * inner, source + index[k] * inner, inner * sizeof(word))
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


# ---------------------------------------------------------------- additions

cdef void add_lines(const number* g, const int64_t* index, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t columns,
                    bint full, number* out) noexcept nogil:
    """`columns` neighbouring columns, first index to last. IN: index[n][inner] where `full`, else index[n]."""
    cdef Py_ssize_t i, j
    cdef number* row
    if inner == 1 and number is not int8_t:
        for i in range(n):
            out[index[i]] += g[i]
        return
    for i in range(n):
        if number is int8_t:
            for j in range(columns):
                out[(index[i * inner + j] if full else index[i]) * inner + j] |= g[i * inner + j]
        elif full:
            for j in range(columns):
                out[index[i * inner + j] * inner + j] += g[i * inner + j]
        else:
            row = out + index[i] * inner
            for j in range(columns):
                row[j] += g[i * inner + j]


cdef void add_item(const number* g, const int64_t* index, bint full, Py_ssize_t block, Py_ssize_t item, Py_ssize_t n,
                   Py_ssize_t size, Py_ssize_t inner, number* out) noexcept nogil:
    """One of outer and of blocks of columns."""
    cdef Py_ssize_t i, blocks = (inner + block - 1) // block, start = item % blocks * block, at = item // blocks * n * inner + start
    cdef Py_ssize_t columns = min(block, inner - start)
    out += item // blocks * size * inner + start
    if columns == inner:
        memset(out, 0, size * inner * sizeof(number))
    else:
        for i in range(size):
            memset(out + i * inner, 0, columns * sizeof(number))
    add_lines(g + at, index + at if full else index, n, inner, columns, full, out)


cdef void add(const number* g, const int64_t* index, bint full, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t size,
              Py_ssize_t inner, number* out) noexcept nogil:
    cdef int threads = threads_for(outer * (2 * n + size) * inner)
    cdef Py_ssize_t block = max(1, inner), item
    if outer < threads:                         # the order of a column's sum does not depend on its block
        block = max(COLUMNS, (inner + threads - 1) // threads)
    for item in prange(outer * ((inner + block - 1) // block), num_threads=threads, schedule="static"):
        add_item(g, index, full, block, item, n, size, inner, out)


cdef TensorBase added(str name, TensorBase g, TensorBase index, int dim, Py_ssize_t size, bint full):
    cdef Py_ssize_t outer = 0, n = 0, inner = 0
    cdef int code = g.dtype.code
    index = checked(name, index, dim, size)
    g = packed(g)
    split_at(g.shape, dim, &outer, &n, &inner)
    cdef TensorBase out = empty_host(g.shape[:dim] + (size,) + g.shape[dim + 1:] if len(g.shape) else (), g.dtype)
    cdef void* source = address(g)
    cdef void* target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    if code == FLOAT32:
        add(<const float*>source, places, full, outer, n, size, inner, <float*>target)
    elif code == FLOAT64:
        add(<const double*>source, places, full, outer, n, size, inner, <double*>target)
    elif code == INT64:
        add(<const int64_t*>source, places, full, outer, n, size, inner, <int64_t*>target)
    elif code == INT32:
        add(<const int32_t*>source, places, full, outer, n, size, inner, <int32_t*>target)
    elif code == UINT8:
        add(<const uint8_t*>source, places, full, outer, n, size, inner, <uint8_t*>target)
    elif code == BOOL:
        add(<const int8_t*>source, places, full, outer, n, size, inner, <int8_t*>target)
    else:
        raise DTypeError(f"{name}: the CPU kernel does not add {g.dtype.name}; cast it first")
    return out


def scatter_add(TensorBase g not None, TensorBase index not None, int dim, Py_ssize_t size):
    """Zeros with `size` along dim, and g added at index: the derivative of gather."""
    return added("scatter_add", g, index, dim, size, True)


def index_add(TensorBase g not None, TensorBase index not None, int dim, Py_ssize_t size):
    """Zeros with `size` along dim, and the slices of g added at index[n]: the derivative of index_select."""
    return added("index_add", g, index, dim, size, False)


# ---------------------------------------------------------------- products, extremes, and the last one

cdef enum:
    PROD, AMAX, AMIN, LAST


cdef inline number combined(number a, number b, int reduce) noexcept nogil:
    """NaN stays NaN."""
    if reduce == PROD:
        return <number>(a * b)
    if reduce == AMAX:
        return a if a >= b or a != a else b
    return a if a <= b or a != a else b


cdef void reduce_items(const number* src, const int64_t* index, int reduce, Py_ssize_t first, Py_ssize_t last, Py_ssize_t n, Py_ssize_t size,
                       Py_ssize_t inner, Py_ssize_t blocks, number* out) noexcept nogil:
    """Items first .. last of outer and of blocks of columns."""
    cdef Py_ssize_t item, i, j, at, start, stop
    cdef number* y
    for item in range(first, last):
        start, stop = inner * (item % blocks) // blocks, inner * (item % blocks + 1) // blocks
        y = out + item // blocks * size * inner
        if reduce == LAST and inner == 1:
            for i in range(item * n, (item + 1) * n):
                y[index[i]] = src[i]
            continue
        for i in range(n):
            at = (item // blocks * n + i) * inner
            if reduce == LAST:
                for j in range(start, stop):
                    y[index[at + j] * inner + j] = src[at + j]
                continue
            for j in range(start, stop):
                y[index[at + j] * inner + j] = combined(y[index[at + j] * inner + j], src[at + j], reduce)


cdef void reduce_all(const number* src, const int64_t* index, int reduce, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t size, Py_ssize_t inner,
                     number* out) noexcept nogil:
    cdef int threads = threads_for(2 * outer * n * inner), t
    cdef Py_ssize_t blocks = 1 if outer >= threads else min(threads, max(1, inner // COLUMNS)), items = outer * blocks
    for t in prange(threads, num_threads=threads, schedule="static"):
        reduce_items(src, index, reduce, items * t // threads, items * (t + 1) // threads, n, size, inner, blocks, out)


def scatter_reduce(TensorBase x not None, TensorBase src not None, TensorBase index not None, int dim, str reduce):
    """x, with the elements of src combined, in their order, with what is at the places that index sends them to along dim, or, for
    "last", instead of it."""
    cdef Py_ssize_t outer = 0, n = 0, inner = 0, size = x.shape[dim]
    cdef int code = x.dtype.code, kind = {"prod": PROD, "amax": AMAX, "amin": AMIN, "last": LAST}[reduce]
    same_type("scatter_reduce", x, src)
    index, src = checked("scatter" if kind == LAST else "scatter_reduce", index, dim, size), packed(src)
    split_at(src.shape, dim, &outer, &n, &inner)
    cdef TensorBase out = empty_host(x.shape, x.dtype)
    x = packed(x)
    memcpy(address(out), address(x), x.size * x.dtype.itemsize)
    cdef void* source = address(src)
    cdef void* target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    if code == FLOAT32:
        reduce_all(<const float*>source, places, kind, outer, n, size, inner, <float*>target)
    elif code == FLOAT64:
        reduce_all(<const double*>source, places, kind, outer, n, size, inner, <double*>target)
    elif code == INT64:
        reduce_all(<const int64_t*>source, places, kind, outer, n, size, inner, <int64_t*>target)
    elif code == INT32:
        reduce_all(<const int32_t*>source, places, kind, outer, n, size, inner, <int32_t*>target)
    elif code == UINT8 or code == BOOL:
        reduce_all(<const uint8_t*>source, places, kind, outer, n, size, inner, <uint8_t*>target)
    else:
        raise DTypeError(f"scatter_reduce: the CPU kernel does not take {x.dtype.name}; cast it first")
    return out


# ---------------------------------------------------------------- writing

cdef void put_rows(const Move* p, const int64_t* index, Py_ssize_t low, Py_ssize_t high, const word* values, word* out) noexcept nogil:
    """The entries that name rows low .. high, in their order."""
    cdef Py_ssize_t k
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


KERNELS = {"gather": gather, "scatter_add": scatter_add, "index_select": index_select, "index_add": index_add, "index_put": index_put,
           "scatter_reduce": scatter_reduce}
