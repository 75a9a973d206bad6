# Elements and slices at places along one dimension that indices name: added, combined with what is there, or written, the last one wins;
# and rows of zeros with a 1 at the place that a label names.
#
# Layout: tensors seen as [outer, length, inner] around the indexed dimension. Indices are int64 and checked before any is used, a block
# at a time: one outside raises.
# Threads: over outer, and over places or blocks of columns where there are few, so that each place has the order of the indices.
# Sizes: the front end. Work on one of outer is in scatter.pxd.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport (
    BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage, is_half)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport same_type, split_at
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.fetch cimport AHEAD, FETCHED, fetch
from volta._kernels.cpu.index cimport any_outside, as_index, checked, first_outside, refuse

from volta._kernels.cpu.copy import cast, contiguous
from volta._kernels.cpu.copy import full as filled
from volta._kernels.cpu.scatter_halves import add_halves
from volta.errors import DTypeError, IndexRangeError

cdef enum:
    COLUMNS = 16                # fewest elements of a slice that one thread adds
    WIDE = 512                  # columns that are worth a block of their own
    KEPT = 1 << 20              # bytes that stay in a cache
    CHECKED = 1024              # indices that are checked at a time
    MOST = 256                  # threads that share places, and runs of these
    PAGE = 4096                 # bytes of a slice that threads share by columns
    SHORT = 16                  # elements of a line up to which many are added to column by column
    FEW = 128                   # entries of 16 bits that are few, whatever the places
    EACH = 32                   # elements of 16 bits that are converted while one is found among those that are named


cdef bint scatter_item(const Scatter* p, const number* start, const number* x, const int64_t* index, Py_ssize_t item,
                       number* out) noexcept nogil:
    """One of outer and of blocks of columns, from what it starts with, or zeros. Whether an index was outside: then it is left."""
    cdef Py_ssize_t i, inner = p.inner, blocks = (inner + p.block - 1) // p.block, first = item % blocks * p.block
    cdef Py_ssize_t columns = min(p.block, inner - first), at = item // blocks * p.size * inner + first
    cdef Py_ssize_t rows = 1 if columns == inner else p.size, length = p.size * inner if columns == inner else columns
    for i in range(0 if p.fresh != NULL else rows):
        if start == NULL:
            memset(out + at + i * inner, 0, length * sizeof(number))
        elif start != out:
            memcpy(out + at + i * inner, start + at + i * inner, length * sizeof(number))
    out += at
    x += item // blocks * p.n * inner + first
    if not p.full:
        if inner == 1:
            scatter_row(p, x, index, p.n, out)
        else:
            add_slices(p, x, index, columns, out)
        return False
    index += item // blocks * p.n * inner + first
    rows, length = p.n, columns
    if inner == 1:
        rows, length = 1, p.n
    for i in range(rows):
        if any_outside(index + i * inner, length, p.size):
            return True
        scatter_row(p, x + i * inner, index + i * inner, length, out)
    return False


cdef inline bint scatter_long(const Scatter* p, const number* start, const number* x, const int64_t* index, number* out) noexcept nogil:
    """A line of one column, checked a part at a time, while what the next lines begin with is fetched. Whether an index was outside."""
    cdef Py_ssize_t first = 0, count
    while first < p.n:
        count = min(<Py_ssize_t>FETCHED, p.n - first)
        fetch(index + first + AHEAD, count)
        fetch(x + first + AHEAD, count)
        fetch(out + p.size + first, min(count, p.size - first))
        if start != NULL:
            fetch(start + p.size + first, min(count, p.size - first))
        if any_outside(index + first, count, p.size):
            return True
        scatter_row(p, x + first, index + first, count, out)
        first += count
    return False


cdef bint scatter_lines(const Scatter* p, const number* start, const number* x, const int64_t* index, Py_ssize_t first, Py_ssize_t last,
                        number* out) noexcept nogil:
    """As scatter_item, of lines that have one column and an index each: a few lines at a time are begun and checked."""
    cdef Py_ssize_t line = first, stop, few = CHECKED // max(p.n + p.size, 1), size = p.size
    few = 1 if p.n >= FETCHED else max(1, few)
    while line < last:
        stop = min(line + few, last)
        if start == NULL:
            memset(out + line * size, 0, (stop - line) * size * sizeof(number))
        elif start != out:
            memcpy(out + line * size, start + line * size, (stop - line) * size * sizeof(number))
        first = line
        if p.n >= FETCHED:
            if scatter_long(p, start + line * size if start != NULL else NULL, x + line * p.n, index + line * p.n, out + line * size):
                return True
        elif any_outside(index + line * p.n, (stop - line) * p.n, size):
            return True
        else:
            for line in range(first, stop):
                scatter_row(p, x + line * p.n, index + line * p.n, p.n, out + line * size)
        line = stop
    return False


cdef void share_places(const Scatter* p, const int64_t* index, int threads, Py_ssize_t* bounds) noexcept nogil:
    """Where the places of each thread begin, so that all have as much to do: by runs of places, of which there are up to MOST."""
    cdef Py_ssize_t counts[MOST]
    cdef Py_ssize_t i, run = (p.size + MOST - 1) // MOST, total = 0
    cdef int t = 1, shift = 0
    while <Py_ssize_t>1 << shift < run:
        shift += 1
    run = <Py_ssize_t>1 << shift
    memset(counts, 0, sizeof(counts))
    for i in range(p.n):
        counts[index[i] >> shift] += 1
    bounds[0] = 0
    for i in range(MOST):
        while t < threads and total * threads >= t * (p.n + run * MOST):
            bounds[t] = min(i << shift, p.size)
            t += 1
        total += counts[i] + run
    for t in range(t, threads + 1):
        bounds[t] = p.size


cdef void scatter_places(const Scatter* p, const number* start, const number* x, const int64_t* index, Py_ssize_t low, Py_ssize_t high,
                         number* out) noexcept nogil:
    """Slices at the places low .. high: of narrow ones threads would write to the same pages."""
    cdef Py_ssize_t i, line, inner = p.inner
    for line in range(p.outer):
        if p.fresh == NULL and start == NULL:
            memset(out + low * inner, 0, (high - low) * inner * sizeof(number))
        elif p.fresh == NULL and start != out:
            memcpy(out + low * inner, start + low * inner, (high - low) * inner * sizeof(number))
        if p.kind != ADD:
            combine_slices(p, x, index, inner, low, high, out)
        for i in range(p.n if p.kind == ADD else 0):
            if low <= index[i] < high:
                if p.fresh != NULL and p.fresh[i]:
                    put_slice(x + i * inner, inner, out + index[i] * inner)
                else:
                    add_slice(x + i * inner, inner, out + index[i] * inner)
        for i in range(low, high if p.fresh != NULL else low):
            if not p.fresh[p.n + i]:
                memset(out + i * inner, 0, inner * sizeof(number))
        out += p.size * inner
        x += p.n * inner
        if start != NULL:
            start += p.size * inner


cdef bint scatter_items(Scatter* p, const number* start, const number* x, const int64_t* index, number* out) noexcept nogil:
    """Whether an index was outside."""
    cdef int threads = threads_for(p.outer * (2 * p.n + p.size) * p.inner), outside = 0
    cdef Py_ssize_t item, items, shares = (threads + p.outer - 1) // p.outer
    cdef Py_ssize_t bounds[MOST + 1]
    cdef int t
    threads = min(threads, <int>MOST)
    if p.full and p.inner == 1:
        if threads == 1:
            return scatter_lines(p, start, x, index, 0, p.outer, out)
        for t in prange(threads, num_threads=threads, schedule="static"):
            outside += scatter_lines(p, start, x, index, p.outer * t // threads, p.outer * (t + 1) // threads, out)
        return outside != 0
    if p.kind == ADD and p.inner == 1 and p.n <= SHORT and p.size <= SHORT and p.outer > COLUMNS:
        for t in prange(threads, num_threads=threads, schedule="static"):
            add_columns(p, start, x, index, p.outer * t // threads, p.outer * (t + 1) // threads, out)
        return False
    if threads > 1 and not p.full and 1 < shares and p.inner * <Py_ssize_t>sizeof(number) < PAGE * shares and p.inner > 1:
        share_places(p, index, threads, bounds)
        for t in prange(threads, num_threads=threads, schedule="static"):
            scatter_places(p, start, x, index, bounds[t], bounds[t + 1], out)
        return False
    p.block = (p.inner + shares - 1) // shares
    if p.full:                      # what is written all over should stay in a processor's cache
        p.block = min(p.block, max(<Py_ssize_t>WIDE, KEPT // (p.size * <Py_ssize_t>sizeof(number) + 1)))
    p.block = min((p.block + COLUMNS - 1) // COLUMNS * COLUMNS, p.inner)            # results do not depend on it
    items = p.outer * ((p.inner + p.block - 1) // p.block)
    if threads == 1:
        for item in range(items):
            outside += scatter_item(p, start, x, index, item, out)
        return outside != 0
    for item in prange(items, num_threads=threads, schedule="static"):
        outside += scatter_item(p, start, x, index, item, out)
    return outside != 0


cdef bint few(Py_ssize_t entries, Py_ssize_t places, bint each) noexcept nogil:
    """Whether places of 16 bits that entries name, slices or `each` an element, are so few that it is not worth looking at all."""
    return entries <= FEW or entries * (EACH if each else 2) < places


cdef TensorBase scattered(str name, int kind, bint full, TensorBase start, TensorBase x, TensorBase index, int dim, Py_ssize_t size,
                          bint into=False):
    """A tensor like x with `size` along dim, which begins as start (None: zeros), or is that itself (`into`), and x at index."""
    cdef Scatter p
    cdef int code = x.dtype.code, outside = False
    if code == BOOL and kind == ADD:                # a sum of booleans is true where any term is
        kind = AMAX
    index, start, x = as_index(name, index) if full else checked(name, index, dim, size), packed(start), packed(x)
    split_at(x.shape, dim, &p.outer, &p.n, &p.inner)
    p.kind, p.full, p.size, p.fresh = kind, full, size, NULL
    cdef Storage flags
    cdef TensorBase out = start if into else empty_host(x.shape[:dim] + (size,) + x.shape[dim + 1:] if len(x.shape) else (), x.dtype)
    cdef void *first = NULL if start is None else address(start), *source = address(x), *target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    if start is None and not full and kind == ADD and p.inner >= COLUMNS and out.size:
        flags = host_storage(p.n + p.size)
        note_first(&p, places, flags.data)
    if out.size:
        if code == FLOAT32:
            outside = scatter_items(&p, <const float*>first, <const float*>source, places, <float*>target)
        elif code == FLOAT64:
            outside = scatter_items(&p, <const double*>first, <const double*>source, places, <double*>target)
        elif code == INT64:
            outside = scatter_items(&p, <const int64_t*>first, <const int64_t*>source, places, <int64_t*>target)
        elif code == INT32:
            outside = scatter_items(&p, <const int32_t*>first, <const int32_t*>source, places, <int32_t*>target)
        elif code == UINT8 or code == BOOL:
            outside = scatter_items(&p, <const uint8_t*>first, <const uint8_t*>source, places, <uint8_t*>target)
        else:
            raise DTypeError(f"{name}: the CPU kernel does not take {x.dtype.name}; cast it first")
    if outside or full and out.size == 0:
        refuse(name, index, size)
    return out


def scatter_add(TensorBase g not None, TensorBase index not None, int dim, Py_ssize_t size):
    """Zeros with `size` along dim, and g added at index: the derivative of gather."""
    return added("scatter_add", True, g, index, dim, size)


def scatter_sum(TensorBase x not None, TensorBase src not None, TensorBase index not None, int dim):
    """x, and at the places that index sends them to along dim the sums of the elements of src."""
    same_type("scatter_add", x, src)
    if is_half(x.dtype.code):
        return added_into("scatter_add", True, contiguous(x), src, index, dim)
    return scattered("scatter_add", ADD, True, x, src, index, dim, x.shape[dim])


def index_add(TensorBase g not None, TensorBase index not None, int dim, Py_ssize_t size):
    """Zeros with `size` along dim, and the slices of g added at index[n]: the derivative of index_select."""
    return added("index_add", False, g, index, dim, size)


def index_sum(TensorBase x not None, TensorBase src not None, TensorBase index not None, int dim):
    """x, with the slices of src added to its own at index[n]."""
    same_type("index_add", x, src)
    if is_half(x.dtype.code):
        return added_into("index_add", False, contiguous(x), src, index, dim)
    return scattered("index_add", ADD, False, x, src, index, dim, x.shape[dim])


def index_add_into(TensorBase out not None, TensorBase g not None, TensorBase index not None, int dim):
    """In place: the slices of g added to those of out at index[n]."""
    same_type("index_add_into", out, g)
    added_into("index_add", False, out, g, index, dim)


def scatter_add_into(TensorBase out not None, TensorBase g not None, TensorBase index not None, int dim):
    """In place: g added at the places of out that index sends it to along dim."""
    same_type("scatter_add_into", out, g)
    added_into("scatter_add", True, out, g, index, dim)


cdef TensorBase added(str name, bint full, TensorBase g, TensorBase index, int dim, Py_ssize_t size):
    """Zeros with `size` along dim, and g or its slices added at index. Of 16 bits they are summed in float32."""
    cdef TensorBase out
    if not is_half(g.dtype.code):
        return scattered(name, ADD, full, None, g, index, dim, size)
    if not few(index.size, size if not full or not len(g.shape) else g.size // max(<Py_ssize_t>g.shape[dim], 1) * size, full):
        return cast(scattered(name, ADD, full, None, cast(g, dtype_of(FLOAT32)), index, dim, size), g.dtype)
    out = filled(g.shape[:dim] + (size,) + g.shape[dim + 1:] if len(g.shape) else (), 0, g.dtype)
    add_halves(name, full, out, g, index, dim)
    return out


cdef TensorBase added_into(str name, bint full, TensorBase out, TensorBase g, TensorBase index, int dim):
    """The same in place."""
    cdef TensorBase found
    cdef Py_ssize_t size = out.shape[dim] if len(out.shape) else 1
    if not is_half(out.dtype.code):
        found = scattered(name, ADD, full, out, g, index, dim, size, True)
    elif few(index.size, out.size if full else size, full):
        found = packed(out)
        add_halves(name, full, found, g, index, dim)
    else:
        found = cast(out, dtype_of(FLOAT32))
        scattered(name, ADD, full, found, cast(g, found.dtype), index, dim, size, True)
    if not out.contiguous or found.dtype is not out.dtype:
        copy_data(out, found)
    return out


def scatter_reduce(TensorBase x not None, TensorBase src not None, TensorBase index not None, int dim, str reduce):
    """x, with the elements of src combined, in their order, with what is at the places that index sends them to along dim, or, for
    "last", instead of it."""
    same_type("scatter_reduce", x, src)
    cdef int kind = KINDS[reduce]
    return scattered("scatter" if kind == LAST else "scatter_reduce", kind, True, x, src, index, dim, x.shape[dim])


def scatter_reduce_into(TensorBase out not None, TensorBase src not None, TensorBase index not None, int dim, str reduce):
    """The same in place. One index[n] may serve all slices, but for "last"."""
    same_type("scatter_reduce_into", out, src)
    cdef int kind = KINDS[reduce]
    cdef bint full = len(index.shape) == len(out.shape)
    found = scattered("scatter" if kind == LAST else "scatter_reduce", kind, full, out, src, index, dim, out.shape[dim], True)
    if not out.contiguous:
        copy_data(out, found)


cdef dict KINDS = {"prod": PROD, "amax": AMAX, "amin": AMIN, "last": LAST}


cdef void ones_of_rows(const int64_t* labels, Py_ssize_t first, Py_ssize_t last, Py_ssize_t classes, int64_t* out) noexcept nogil:
    cdef Py_ssize_t row
    memset(out + first * classes, 0, (last - first) * classes * sizeof(int64_t))
    for row in range(first, last):
        out[row * classes + labels[row]] = 1


cdef void ones_of_all(const int64_t* labels, Py_ssize_t n, Py_ssize_t classes, int64_t* out) noexcept nogil:
    cdef int threads = threads_for(n * classes), t
    if threads == 1:
        ones_of_rows(labels, 0, n, classes, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        ones_of_rows(labels, n * t // threads, n * (t + 1) // threads, classes, out)


def one_hot(TensorBase index not None, Py_ssize_t classes):
    """[*shape, classes], int64."""
    if index.dtype.code != INT64:
        raise DTypeError(f"one_hot: labels must be int64, got {index.dtype.name}; cast them with .long()")
    index = packed(index)
    cdef const int64_t* labels = <const int64_t*>address(index)
    cdef Py_ssize_t n = index.size, at = first_outside(labels, n, classes)
    if at >= 0:
        raise IndexRangeError(f"one_hot: index {labels[at]} is out of range for a dimension of size {classes}")
    cdef TensorBase out = empty_host(index.shape + (classes,), dtype_of(INT64))
    cdef int64_t* target = <int64_t*>address(out)
    with nogil:
        ones_of_all(labels, n, classes, target)
    return out


KERNELS = {"one_hot": one_hot, "scatter_add": scatter_add, "scatter_sum": scatter_sum, "scatter_reduce": scatter_reduce,
           "index_add": index_add, "index_sum": index_sum, "index_add_into": index_add_into, "scatter_add_into": scatter_add_into,
           "scatter_reduce_into": scatter_reduce_into}
