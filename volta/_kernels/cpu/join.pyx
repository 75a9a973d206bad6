# Extending by own elements, and the gradient; joining; moving along a dimension.
#
# Layout: planes of depth x height x width, contiguous. What is taken along each axis is listed once; of a line what lies inside is one run.
# Threads: over lines of outputs; gradients over planes, so that they have a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport FLOAT32, INT64, Storage, TensorBase, address, dtype_of, empty_host, host_storage, make_tensor
from volta._kernels.core.threads cimport NOGIL_SIZE, threads_for
from volta._kernels.core.views cimport float_code, split_at
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport copy_data, packed, share
from volta._kernels.cpu.iteration cimport copy_bytes
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.short_rows cimport copy_rows

from volta.errors import ArgumentError

cdef struct Axis:
    Py_ssize_t n, outs
    Py_ssize_t first, last      # outputs that take what lies inside
    int64_t* source             # of each output


cdef void list_edge(Axis* a, Py_ssize_t shift, Py_ssize_t start, Py_ssize_t stop, bint reflect, bint circular) noexcept nogil:
    """What the outputs start .. stop take, which lie outside."""
    cdef Py_ssize_t o, i, n = a.n
    for o in range(start, stop):
        i = o - shift
        if reflect:
            i = -i if i < 0 else i
            i = min(i, 2 * (n - 1) - i)
        elif circular:
            i = i + n if i < 0 else i - n if i >= n else i
        a.source[o] = min(max(i, 0), n - 1)


cdef TensorBase list_sources(Axis* axes, tuple sizes, tuple outs, tuple before, str mode):
    """Fill the description of three axes. Gives the owner of its lists, which must outlive it."""
    cdef TensorBase lists = empty_host((sum(outs),), dtype_of(INT64))
    cdef int64_t* at = <int64_t*>address(lists)
    cdef Py_ssize_t d, o, n, shift
    cdef bint reflect = mode == "reflect", circular = mode == "circular"
    for d in range(3):
        axes[d].n, axes[d].outs, axes[d].source = sizes[d], outs[d], at
        n, at, shift = axes[d].n, at + axes[d].outs, before[d]
        axes[d].first = min(max(shift, 0), axes[d].outs)
        axes[d].last = max(min(shift + n, axes[d].outs), axes[d].first)
        for o in range(axes[d].first, axes[d].last):
            axes[d].source[o] = o - shift
        list_edge(&axes[d], shift, 0, axes[d].first, reflect, circular)
        list_edge(&axes[d], shift, axes[d].last, axes[d].outs, reflect, circular)
    return lists


cdef tuple in_three(tuple values, int missing):
    """Values of up to three axes as those of three."""
    return (missing,) * (3 - len(values)) + values


# ---------------------------------------------------------------- forward

cdef inline void copy_items(const char* x, char* out, const int64_t* source, Py_ssize_t first, Py_ssize_t last,
                            Py_ssize_t itemsize) noexcept nogil:
    cdef Py_ssize_t o
    for o in range(first, last):
        if itemsize == 4:
            (<int*>out)[o] = (<const int*>x)[source[o]]
        else:
            memcpy(out + o * itemsize, x + source[o] * itemsize, itemsize)


cdef void extend_lines(Axis* axes, const char* x, char* out, Py_ssize_t first, Py_ssize_t last, Py_ssize_t itemsize) noexcept nogil:
    cdef Axis* w = &axes[2]
    cdef Py_ssize_t y = first % axes[1].outs, z = first // axes[1].outs % axes[0].outs, line
    cdef Py_ssize_t row = w.n * itemsize, slice = axes[1].n * row, whole = (w.last - w.first) * itemsize
    cdef const char* plane = x + first // (axes[0].outs * axes[1].outs) * axes[0].n * slice
    cdef const char* from_
    out += first * w.outs * itemsize
    for line in range(first, last):
        from_ = plane + axes[0].source[z] * slice + axes[1].source[y] * row
        copy_items(from_, out, w.source, 0, w.first, itemsize)
        if whole > 0:
            copy_bytes(out + w.first * itemsize, from_ + w.source[w.first] * itemsize, whole)
        copy_items(from_, out, w.source, w.last, w.outs, itemsize)
        out, y = out + w.outs * itemsize, y + 1
        if y == axes[1].outs:
            y, z = 0, z + 1
        if z == axes[0].outs:
            z, plane = 0, plane + axes[0].n * slice


def extend(TensorBase x not None, *, tuple outs, tuple before, str mode):
    """x with more elements of its own before and behind."""
    cdef TensorBase a = packed(x), out = empty_host(x.shape[:1] + outs, x.dtype), lists
    cdef Axis[3] axes
    cdef Py_ssize_t lines, itemsize = x.dtype.itemsize, size = out.size
    cdef int t, threads = threads_for(size)
    if not size or not x.size:
        return out
    lists = list_sources(axes, in_three(x.shape[1:], 1), in_three(outs, 1), in_three(before, 0), mode)
    lines = size // axes[2].outs
    cdef Axis* all_axes = axes
    cdef const char* from_ = address(a)
    cdef char* to = address(out)
    if threads == 1:
        extend_lines(all_axes, from_, to, 0, lines, itemsize)
        return out
    for t in prange(threads, num_threads=threads, nogil=True):
        extend_lines(all_axes, from_, to, lines * t // threads, lines * (t + 1) // threads, itemsize)
    return out


# ---------------------------------------------------------------- gradient

cdef void add_plane(Axis* axes, const real* g, real* dx) noexcept nogil:
    """One plane, begun while it lies in a cache."""
    cdef Py_ssize_t z, y, o
    cdef Axis* w = &axes[2]
    cdef real* line
    cdef real* inside
    memset(dx, 0, axes[0].n * axes[1].n * w.n * sizeof(real))
    for z in range(axes[0].outs):
        for y in range(axes[1].outs):
            line = dx + (axes[0].source[z] * axes[1].n + axes[1].source[y]) * w.n
            if w.last > w.first:
                inside = line + w.source[w.first] - w.first
                for o in range(w.first, w.last):
                    inside[o] += g[o]
            for o in range(w.first):
                line[w.source[o]] += g[o]
            for o in range(w.last, w.outs):
                line[w.source[o]] += g[o]
            g += w.outs


cdef void add_planes(Axis* axes, const real* g, real* dx, Py_ssize_t planes, Py_ssize_t size, Py_ssize_t outs, int threads):
    cdef int t
    cdef Py_ssize_t k
    for t in prange(threads, num_threads=threads, nogil=True):
        for k in range(planes * t // threads, planes * (t + 1) // threads):
            add_plane(axes, g + k * outs, dx + k * size)


def extend_grad(TensorBase g not None, *, size, tuple before, str mode):
    """The gradient of what was extended, of planes of `size`."""
    size = plain(size)
    cdef TensorBase a = packed(g), dx = empty_host(g.shape[:1] + size, g.dtype), lists
    cdef Axis[3] axes
    cdef Py_ssize_t planes = g.shape[0], d
    if not dx.size:
        return dx
    if not g.size:
        memset(address(dx), 0, dx.size * g.dtype.itemsize)
        return dx
    before = in_three(before, 0)
    lists = list_sources(axes, in_three(size, 1), in_three(g.shape[1:], 1), before, mode)
    for d in range(2):                      # what stays whole in front: each slice is a plane of its own
        if axes[d].n != axes[d].outs or before[d] != 0:
            break
        planes, axes[d].n, axes[d].outs = planes * axes[d].n, 1, 1
    if float_code("extend_grad", g) == FLOAT32:
        add_planes[float](axes, <float*>address(a), <float*>address(dx), planes, dx.size // planes, g.size // planes, threads_for(g.size))
    else:
        add_planes[double](axes, <double*>address(a), <double*>address(dx), planes, dx.size // planes, g.size // planes,
                           threads_for(g.size))
    return dx


# ---------------------------------------------------------------- joining

cdef enum:
    SMALL = 512                                 # bytes of a part, up to which its rows are moved many at once,
    BLOCK = 16384                               # so many bytes of the result at a time

cdef struct Part:
    const char* data                            # NULL where something else copies it
    Py_ssize_t nbytes                           # that lie side by side in the result,
    Py_ssize_t step                             # and from one such row to the next

cdef struct Joined:
    Part* parts
    Py_ssize_t count, row                       # parts, and the bytes of all that lie side by side
    Py_ssize_t itemsize
    bint small                                  # every part is, and has data
    char* out


cdef void join_range(const Joined* v, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Bytes [start, stop) of the result: row by row the next bytes of each part."""
    cdef Py_ssize_t index = start // v.row, at = start % v.row, k = 0, n
    while at >= v.parts[k].nbytes:
        at -= v.parts[k].nbytes
        k += 1
    while start < stop:
        n = min(v.parts[k].nbytes - at, stop - start)
        if v.parts[k].data != NULL:
            copy_bytes(v.out + start, v.parts[k].data + index * v.parts[k].step + at, n)
        start, at, k = start + n, 0, k + 1
        if k == v.count:
            k, index = 0, index + 1


cdef void alternate(const int* a, const int* b, int* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[2 * i] = a[i]
        out[2 * i + 1] = b[i]


cdef void join_rows(const Joined* v, Py_ssize_t row, Py_ssize_t stop) noexcept nogil:
    """Rows [row, stop) of small parts: part by part down some rows."""
    cdef Py_ssize_t block = max(1, BLOCK // v.row), n, k
    cdef const Part* part
    cdef char* to
    while row < stop:
        n, to = min(block, stop - row), v.out + row * v.row
        if v.row == 8 and v.count == 2 and v.itemsize == 4 and v.parts[0].step == 4 and v.parts[1].step == 4:
            alternate(<const int*>v.parts[0].data + row, <const int*>v.parts[1].data + row, <int*>to, n)
            row += n
            continue
        for k in range(v.count):
            part = v.parts + k
            copy_rows(to, v.row, part.data + row * part.step, part.step, n, part.nbytes)
            to += part.nbytes
        row += n


cdef void join_all(const Joined* v, Py_ssize_t nbytes) noexcept nogil:
    cdef int threads = threads_for(nbytes // 4), t
    cdef Py_ssize_t chunk = share(nbytes, threads), rows = nbytes // v.row
    if threads == 1:
        if v.small:
            join_rows(v, 0, rows)
        else:
            join_range(v, 0, nbytes)
        return
    for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
        if v.small:
            join_rows(v, rows * t // threads, rows * (t + 1) // threads)
        elif t * chunk < nbytes:
            join_range(v, t * chunk, min((t + 1) * chunk, nbytes))


cdef bint row_step(TensorBase x, Py_ssize_t dim, Py_ssize_t* step):
    """Whether from dimension `dim` on the elements lie side by side, and such rows lie one step from another; the step, in bytes."""
    cdef Py_ssize_t i, n, stride, rows = 1, side = 1
    step[0] = 0
    for i in range(len(x.shape) - 1, -1, -1):
        n, stride = x.shape[i], x._strides[i]
        if n == 1:
            continue
        if i >= dim:
            if stride != side:
                return False
            side *= n
        elif rows == 1:
            rows, step[0] = n, stride * x.dtype.itemsize
        elif stride * x.dtype.itemsize != step[0] * rows:
            return False
        else:
            rows *= n
    return True


def cat(*tensors, Py_ssize_t dim):
    """The tensors, which have one dtype and agree in all other sizes, one after another along `dim`."""
    cdef TensorBase x = tensors[0], out
    cdef Py_ssize_t total = 0, start = 0, inner
    cdef Storage memory = host_storage(len(tensors) * sizeof(Part))
    cdef Joined v
    cdef Part* part
    for x in tensors:
        total += <Py_ssize_t>x.shape[dim]
    out = empty_host(x.shape[:dim] + (total,) + x.shape[dim + 1:], x.dtype)
    if out.size == 0:
        return out
    inner = <Py_ssize_t>out._strides[dim] * out.dtype.itemsize
    v.parts, v.count, v.row, v.out, v.itemsize = <Part*>memory.data, 0, total * inner, address(out), out.dtype.itemsize
    v.small = True
    for x in tensors:
        if x.size:
            part = v.parts + v.count
            part.data, part.nbytes = address(x), <Py_ssize_t>x.shape[dim] * inner
            if not row_step(x, dim, &part.step):
                part.data = NULL
                copy_data(make_tensor(out.storage, x.shape, out._strides, start * <Py_ssize_t>out._strides[dim], x.dtype), x)
            v.small = v.small and part.data != NULL and part.nbytes <= SMALL
            v.count += 1
        start += <Py_ssize_t>x.shape[dim]
    cdef Py_ssize_t nbytes = out.size * out.dtype.itemsize
    if nbytes < 4 * NOGIL_SIZE and not v.small:
        join_range(&v, 0, nbytes)
    else:
        with nogil:
            join_all(&v, nbytes)
    return out


# ---------------------------------------------------------------- triangles

cdef void keep_lines(const char* x, char* out, Py_ssize_t first, Py_ssize_t last, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t diagonal,
                     bint upper, Py_ssize_t itemsize) noexcept nogil:
    """Those of a matrix that are kept whole, or not at all, at once."""
    cdef Py_ssize_t line = first, row, edge, count, kept, size = columns * itemsize
    while line < last:
        row = line % rows
        edge, count = row + diagonal + (not upper), 1
        if edge >= columns:
            count = min(rows - row, last - line)
        elif edge < 0:
            count = min(min(-edge, rows - row), last - line)
        edge = min(max(edge, 0), columns) * itemsize
        kept = (size - edge if upper else edge) * count
        if upper:
            memset(out, 0, size * count - kept)
            memcpy(out + size * count - kept, x + size * count - kept, kept)
        else:
            memcpy(out, x, kept)
            memset(out + kept, 0, size * count - kept)
        out, x, line = out + size * count, x + size * count, line + count


def triangle(TensorBase x not None, *, Py_ssize_t diagonal, bint upper):
    """x with zeros above a diagonal of the last two dimensions, with `upper` below it."""
    cdef TensorBase a = packed(x), out = empty_host(x.shape, x.dtype)
    cdef Py_ssize_t rank = len(x.shape), rows = x.shape[rank - 2], columns = x.shape[rank - 1], itemsize = x.dtype.itemsize
    cdef Py_ssize_t lines = out.size // max(columns, 1), first, last
    cdef const char* from_ = address(a)
    cdef char* to = address(out)
    cdef int t, threads = threads_for(out.size)
    diagonal = min(max(diagonal, -rows), columns)
    if threads == 1:                            # a loop over threads takes longer than many of these
        keep_lines(from_, to, 0, lines, rows, columns, diagonal, upper, itemsize)
        return out
    for t in prange(threads, num_threads=threads, nogil=True):
        first, last = lines * t // threads, lines * (t + 1) // threads
        keep_lines(from_ + first * columns * itemsize, to + first * columns * itemsize, first, last, rows, columns, diagonal, upper,
                   itemsize)
    return out


cdef void roll_bytes(const char* x, char* out, Py_ssize_t line, Py_ssize_t head, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """The bytes first .. last of the result, whose lines begin with the last `head` bytes of those of x. Short lines all at once."""
    cdef Py_ssize_t at, some
    while first < last:
        at = first % line
        if at == 0 and 0 < head < line <= SMALL and last - first >= 2 * line:
            some = (last - first) // line
            copy_rows(out + first, line, x + first + line - head, line, some, head)
            copy_rows(out + first + head, line, x + first, line, some, line - head)
            first += some * line
            continue
        some = min((head if at < head else line) - at, last - first)
        copy_bytes(out + first, x + first - at + (line - head if at < head else -head) + at, some)
        first += some


def roll(TensorBase x not None, Py_ssize_t shift, Py_ssize_t dim):
    """The elements `shift` further along dim, those that leave at the end first."""
    cdef Py_ssize_t outer = 0, n = 0, inner = 0, line, head, size
    cdef int t, threads
    x = packed(x)
    split_at(x.shape, dim, &outer, &n, &inner)
    if shift < 0 or shift > n:
        raise ArgumentError(f"roll: a dimension of {n} elements is moved by 0 to {n}, got {shift}")
    cdef TensorBase out = empty_host(x.shape, x.dtype)
    cdef const char* source = address(x)
    cdef char* target = address(out)
    line, head, size = n * inner * x.dtype.itemsize, shift * inner * x.dtype.itemsize, x.size * x.dtype.itemsize
    threads = threads_for(x.size)
    if threads == 1:
        roll_bytes(source, target, line, head, 0, size)
        return out
    for t in prange(threads, num_threads=threads, schedule="static", nogil=True):
        roll_bytes(source, target, line, head, min(t * share(size, threads), size), min((t + 1) * share(size, threads), size))
    return out


KERNELS = {"extend": extend, "extend_grad": extend_grad, "cat": cat, "triangle": triangle, "roll": roll}
