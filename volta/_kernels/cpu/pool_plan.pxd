# Geometry of pooling for the CPU: windows along three axes, and what of them is inside.
#
# Windows: one fixed size, or (adaptive) from floor(o * n / m) to ceil((o + 1) * n / m), which are of one size where m divides n; what of
# one is inside is listed once an axis. Sizes are checked by the front end.

from libc.stdint cimport int64_t

from volta._kernels.core.base cimport INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.pool_vectors cimport (
    POOL_VECTORS, WIDEST, Windows, max_windows_of, mean_windows_of, pool_sized, set_windows)

cdef struct Axis:
    Py_ssize_t n, outs, kernel, stride, padding, step
    Py_ssize_t low, high        # the outputs whose windows are whole
    int64_t* start              # of each output, the first element inside (one that exists, where there is none),
    int64_t* count              # how many there are, `step` apart,
    int64_t* span               # and how many an average divides by

cdef struct Pool:
    Axis z, y, x
    Py_ssize_t planes, size, outs
    bint adaptive
    double divisor              # 0: by the spans


cdef inline void list_windows(Axis* a, bint adaptive, bint count_padding) noexcept nogil:
    cdef Py_ssize_t o, first, last, skipped
    a.low = a.high = 0
    if not adaptive and a.step == 1:            # without divisions, which took longer than many poolings
        for o in range(a.outs):
            first = o * a.stride - a.padding
            last = min(first + a.kernel, a.n)
            a.start[o] = min(max(first, 0), a.n - 1)
            a.count[o] = max(last - max(first, 0), 0)
            a.span[o] = min(first + a.kernel, a.n + a.padding) - first if count_padding else a.count[o]
        a.low = min((a.padding + a.stride - 1) // a.stride, a.outs)
        last = a.n - a.kernel + a.padding
        a.high = max(min(last // a.stride + 1, a.outs) if last >= 0 else 0, a.low)
        return
    for o in range(a.outs):
        if adaptive:
            first = o * a.n // a.outs
            a.start[o], a.count[o] = first, ((o + 1) * a.n + a.outs - 1) // a.outs - first
            a.span[o] = a.count[o]
            continue
        first = o * a.stride - a.padding
        last = first + a.kernel * a.step - a.step
        if first < 0:
            a.low = o + 1
        if last < a.n:
            a.high = o + 1
        skipped = (-first + a.step - 1) // a.step if first < 0 else 0
        a.start[o] = first + skipped * a.step
        last = min(last, a.n - 1)
        a.count[o] = (last - a.start[o]) // a.step + 1 if last >= a.start[o] else 0
        a.start[o] = min(<Py_ssize_t>a.start[o], a.n - 1)
        a.span[o] = min(first + a.kernel, a.n + a.padding) - first if count_padding else a.count[o]
    a.high = max(a.low, a.high)


cdef inline bint is_whole(Axis* a) noexcept nogil:
    return a.outs == 1 and a.kernel == a.n and a.padding == 0 and a.step == 1


cdef inline TensorBase begin(Pool* p, tuple sizes, tuple outs, kernel, stride, padding, dilation, bint count_padding, divisor):
    """Fill the description of a pooling of planes of `sizes` into `outs`. Gives the owner of its lists, which must outlive it."""
    cdef Axis* axes[3]
    cdef Py_ssize_t i, rank = len(sizes), total = 0
    axes[0], axes[1], axes[2] = &p.z, &p.y, &p.x
    p.adaptive, p.divisor = False, divisor or 0
    p.size = p.outs = 1
    for i in range(3):
        axes[i].n = axes[i].outs = axes[i].kernel = axes[i].stride = axes[i].step = 1
        axes[i].padding = 0
        if i < 3 - rank:
            continue
        axes[i].n, axes[i].outs = sizes[i - 3 + rank], outs[i - 3 + rank]
        if kernel is None:
            p.adaptive = p.adaptive or axes[i].outs == 0 or axes[i].n % axes[i].outs != 0
            axes[i].kernel = axes[i].stride = axes[i].n // max(axes[i].outs, 1)
        else:
            axes[i].kernel, axes[i].stride, axes[i].padding = kernel[i - 3 + rank], stride[i - 3 + rank], padding[i - 3 + rank]
            axes[i].step = 1 if dilation is None else dilation[i - 3 + rank]
        p.size *= axes[i].n
        p.outs *= axes[i].outs
    if not p.adaptive and is_whole(axes[0]) and is_whole(axes[1]) and is_whole(axes[2]):    # one window that is the plane: a line
        p.z.n = p.z.kernel = p.y.n = p.y.kernel = 1
        p.x.n = p.x.kernel = p.size
    for i in range(3):
        total += axes[i].outs
    cdef TensorBase lists = empty_host((3 * total,), dtype_of(INT64))
    cdef int64_t* at = <int64_t*>address(lists)
    for i in range(3):
        axes[i].start, axes[i].count, axes[i].span = at, at + axes[i].outs, at + 2 * axes[i].outs
        at += 3 * axes[i].outs
        list_windows(axes[i], p.adaptive, count_padding)
    return lists


cdef inline void inside(Axis* a, Py_ssize_t k, Py_ssize_t* first, Py_ssize_t* last) noexcept nogil:
    """The outputs first .. last whose window has its element k inside."""
    cdef Py_ssize_t shift = k * a.step - a.padding
    first[0] = min((-shift + a.stride - 1) // a.stride if shift < 0 else 0, a.outs)
    last[0] = max(min((a.n - 1 - shift) // a.stride + 1 if shift < a.n else 0, a.outs), first[0])


cdef inline int pool_threads(Pool* p) noexcept nogil:
    # Windows of several sizes take about four times as long.
    return threads_for((4 if p.adaptive else 1) * p.planes * max(p.size, p.outs * p.z.kernel * p.y.kernel * p.x.kernel))


# ---------------------------------------------------------------- columns

cdef enum:
    COLUMNS = 1024              # elements of a row, at most
    WIDE = 5                    # elements of a window of fixed size along a line, at least

cdef inline bint by_columns(Pool* p) noexcept nogil:
    """Whether the rows that a line of windows shares are taken together first: for wide windows, and those of several sizes."""
    return (p.x.n <= COLUMNS and p.z.n * p.y.n > 1 and p.size <= 0x7FFFFFFF
            and (p.adaptive or p.x.step == 1 and min(p.x.kernel, p.x.stride) >= WIDE))


# ---------------------------------------------------------------- whole windows

cdef inline int window_of(Pool* p, bint vectors) noexcept nogil:
    """What undilated windows in one slice are called, if they have loops of their own; else 0, as where vectors do better, since there
    are lines of windows that are not whole."""
    cdef int window = <int>(p.y.kernel * 100 + p.x.kernel * 10 + p.x.stride)
    if (p.adaptive or by_columns(p) or p.z.kernel > 1 or p.y.step > 1 or p.x.step > 1 or p.size > 0x7FFFFFFF
            or max(p.y.kernel, p.x.kernel, p.x.stride) > 9 or vectors and (p.y.low > 0 or p.y.high < p.y.outs)):
        return 0
    return window if pool_sized(window) else 0


cdef inline Py_ssize_t whole_lines(Pool* p, int window, Py_ssize_t z, Py_ssize_t y, Py_ssize_t lines, Py_ssize_t* at) noexcept nogil:
    """How many of so many lines of a plane, from one on, have whole windows with loops of their own. OUT: where the first begins."""
    if window == 0 or y < p.y.low or p.x.high <= p.x.low:
        return 0
    at[0] = (z * p.z.stride * p.y.n + y * p.y.stride - p.y.padding) * p.x.n + p.x.low * p.x.stride - p.x.padding
    return max(0, min(lines, p.y.high - y))


# ---------------------------------------------------------------- vectors of windows

cdef enum:
    ROWS = 64                   # of a window, at most
    LINES = 64                  # of windows, that are worked one after another,
    BLOCKS = 32                 # with so many vectors of each

cdef inline bint by_vectors(Pool* p) noexcept nogil:
    """Whether float32 is pooled by pool_vectors.pxd."""
    return (POOL_VECTORS and not p.adaptive and not by_columns(p) and p.x.kernel <= WIDEST and p.z.kernel * p.y.kernel <= ROWS
            and p.size <= 0x7FFFFFFF)


cdef inline int rows_of(Pool* p, Py_ssize_t z, Py_ssize_t y, Py_ssize_t* rows) noexcept nogil:
    """Where the rows that a line of windows has inside begin in their plane, and how many there are."""
    cdef Py_ssize_t i, j, row = (p.z.start[z] * p.y.n + p.y.start[y]) * p.x.n
    cdef int n = 0
    for i in range(p.z.count[z]):
        for j in range(p.y.count[y]):
            rows[n] = row + (i * p.z.step * p.y.n + j * p.y.step) * p.x.n
            n += 1
    return n


cdef inline void pool_by_vectors(Pool* p, const float* x, Py_ssize_t first, Py_ssize_t last, Py_ssize_t low, Py_ssize_t high, float* out,
                                 int64_t* index) noexcept nogil:
    """The windows low .. high of the lines first .. last: maxima and their places, or averages if there is no index."""
    cdef Windows windows[BLOCKS]
    cdef Py_ssize_t rows[ROWS]
    cdef Py_ssize_t line, end, y, z, at, group, start, blocks, b
    cdef const float* plane
    cdef int count
    while first < last:
        end = min(first + LINES, last)
        for group in range((high - low + 16 * BLOCKS - 1) // (16 * BLOCKS)):
            blocks = min(BLOCKS, (high - low + 15) // 16 - group * BLOCKS)
            for b in range(blocks):
                start = low + (group * BLOCKS + b) * 16
                set_windows(&windows[b], p.x.n, start * p.x.stride - p.x.padding, <int>min(16, high - start), <int>p.x.kernel,
                            <int>p.x.stride, <int>p.x.step, p.x.start + start, p.x.count + start, p.x.span + start)
            y, z, plane = first % p.y.outs, first // p.y.outs % p.z.outs, x + first // (p.z.outs * p.y.outs) * p.size
            for line in range(first, end):
                count = rows_of(p, z, y, rows)
                for b in range(blocks):
                    at = line * p.x.outs + low + (group * BLOCKS + b) * 16
                    if index != NULL:
                        max_windows_of(&windows[b], plane, count, rows, out + at, index + at)
                    else:
                        mean_windows_of(&windows[b], plane, count, rows,
                                        0 if p.divisor != 0 else <float>(p.z.span[z] * p.y.span[y]), <float>p.divisor, out + at)
                y += 1
                if y == p.y.outs:
                    y, z = 0, z + 1
                if z == p.z.outs:
                    z, plane = 0, plane + p.size
        first = end
