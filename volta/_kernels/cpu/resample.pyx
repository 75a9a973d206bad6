# Planes at another size, and the transpose. The formulas are those of ops/records/resample.py.
#
# Layout: x[P, D, H, W] and the output likewise, contiguous. Per axis a table says which sources an output takes and with what weights:
#   entry [k, o] of `taps` rows. A row of the output is a sum of rows of x, then a sum along it.
# Threads: over rows of the output; of the transpose over planes, so that each sum has one order. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport floor, floorf
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.resample_pixels cimport Axis, Grid, grad_pixels, resample_pixels
from volta.errors import ShapeError

cdef enum:
    NEAREST, EXACT, LINEAR, CUBIC, AREA

MODES = ("nearest", "nearest-exact", "linear", "cubic", "area", "linear16", "cubic16")

cdef void set_axis(Axis* a, int mode, double scale) noexcept nogil:
    a.plain = a.size == a.length and scale == 1
    a.ragged = mode == AREA and not a.plain and a.size % a.length != 0
    a.taps = 1 if a.plain or mode <= EXACT else 2 if mode == LINEAR else 4 if mode == CUBIC else a.size // a.length + 2 * a.ragged


cdef void fill_axis(Axis* a, int mode, bint align, double scale, int* index, real* weight) noexcept nogil:
    """The table of an axis. OUT: index, weight [taps][length]; unused entries weigh nothing."""
    cdef Py_ssize_t o, k, source, stop
    cdef real place, t, u
    a.repeats = a.length // a.size if a.taps == 1 and a.length % a.size == 0 else 0
    a.halved = a.taps == 2 and not a.ragged
    a.doubled = a.halved and a.length == 2 * a.size
    for o in range(a.length):
        t = 0
        stop = 1
        if a.plain:
            source = o
        elif mode == AREA:
            source = o * a.size // a.length
            stop = ((o + 1) * a.size + a.length - 1) // a.length - source
        elif mode <= EXACT:
            source = <Py_ssize_t>floorf((<float>o + <float>0.5 * (mode == EXACT)) * <float>scale)
        else:
            place = <real>scale * o if align else <real>scale * (o + <real>0.5) - <real>0.5
            if mode == LINEAR and place < 0:
                place = 0
            source = <Py_ssize_t>floor(place)
            t = place - source
        if mode == CUBIC and not a.plain:
            source -= 1
        for k in range(a.taps):
            index[k * a.length + o] = <int>min(max(source + min(k, stop - 1) if mode == AREA else source + k, 0), a.size - 1)
            weight[k * a.length + o] = <real>1 / stop if k < stop else 0
        a.halved = a.halved and index[o] == 2 * o and index[a.length + o] == 2 * o + 1
        if 0 < o < a.length - 1:
            a.doubled = a.doubled and index[o] == (o - 1) // 2 and index[a.length + o] == (o + 1) // 2
        if a.taps == 1:
            a.repeats = a.repeats if index[o] * a.repeats <= o < (index[o] + 1) * a.repeats else 0
            continue
        u = 1 - t
        if mode == LINEAR:
            weight[o] = u
            weight[a.length + o] = t
        elif mode == CUBIC:
            weight[o] = <real>-0.75 * t * u * u
            weight[a.length + o] = 1 + t * t * (<real>1.25 * t - <real>2.25)
            weight[2 * a.length + o] = 1 + u * u * (<real>1.25 * u - <real>2.25)
            weight[3 * a.length + o] = <real>-0.75 * t * t * u


cdef void round_axis(Axis* a, int mode, bint align, double scale, int* index, real* weight) noexcept nogil:
    """The weights of an axis rounded to 16 bits, those of one element together. OUT: index, weight."""
    cdef double[4] w
    cdef double place, t, u, largest = 0, unit = 1
    cdef Py_ssize_t o, k, step, source
    if a.plain:
        return
    a.halved = a.doubled = False
    for step in range(2):                           # the largest weight, then all
        for o in range(a.length):
            place = scale * o if align else scale * (o + 0.5) - 0.5
            place = max(place, 0) if mode == LINEAR else place
            t = place - floor(place)
            u = 1 - t
            w[0], w[1] = u, t
            if mode == CUBIC:
                w[0], w[1] = -0.75 * t * u * u, 1 + t * t * (1.25 * t - 2.25)
                w[2], w[3] = 1 + u * u * (1.25 * u - 2.25), -0.75 * t * t * u
            for k in range(a.taps):
                source = <Py_ssize_t>floor(place) + k - (mode == CUBIC)
                index[k * a.length + o] = <int>min(max(source, 0), a.size - 1)
            for k in range(a.taps - 1, 0, -1):
                if index[k * a.length + o] == index[(k - 1) * a.length + o]:
                    w[k - 1] += w[k]
                    w[k] = 0
            for k in range(a.taps):
                largest = max(largest, w[k])
                weight[k * a.length + o] = <real>(<double><long long>(w[k] * unit + (0.5 if w[k] >= 0 else -0.5)) / unit)
        while step == 0 and <int>(0.5 + largest * unit * 2) < 1 << 15:
            unit *= 2


cdef void gather_line(const real* x, Axis* a, const int* index, const real* weight, real* out) noexcept nogil:
    """A line of the output from a line of sources."""
    cdef Py_ssize_t j, k, length = a.length
    cdef const real* second = weight + length
    cdef const int* other = index + length
    if a.plain:
        memcpy(out, x, a.size * sizeof(real))
        return
    if a.repeats == 2:
        for j in range(a.size):
            out[2 * j] = x[j]
            out[2 * j + 1] = x[j]
        return
    if a.repeats > 2:
        for j in range(a.size):
            for k in range(a.repeats):
                out[a.repeats * j + k] = x[j]
        return
    if a.taps == 1:
        for j in range(length):
            out[j] = x[index[j]]
        return
    if a.halved:                                    # which the compiler makes shuffles of
        for j in range(length):
            out[j] = weight[j] * x[2 * j] + second[j] * x[2 * j + 1]
    elif a.doubled:
        for j in range(a.size - 1):
            out[2 * j + 1] = weight[2 * j + 1] * x[j] + second[2 * j + 1] * x[j + 1]
            out[2 * j + 2] = weight[2 * j + 2] * x[j] + second[2 * j + 2] * x[j + 1]
        for k in range(2):
            j = k * (length - 1)
            out[j] = weight[j] * x[index[j]] + second[j] * x[other[j]]
    elif a.taps == 2 and not a.ragged:
        for j in range(length):
            out[j] = weight[j] * x[index[j]] + second[j] * x[other[j]]
    else:
        for j in range(length):
            out[j] = weight[j] * x[index[j]]
    for k in range(1, 1 if a.taps == 2 and not a.ragged else a.taps):
        index += length
        weight += length
        if a.ragged:
            for j in range(length):
                if weight[j] != 0:
                    out[j] += weight[j] * x[index[j]]
        else:
            for j in range(length):
                out[j] += weight[j] * x[index[j]]


cdef void scatter_line(const real* g, Axis* a, const int* index, const real* weight, real* out) noexcept nogil:
    """Add a line of the output's gradient to where it came from."""
    cdef Py_ssize_t i, j, k
    cdef real total
    cdef const real* second = weight + a.length
    if a.repeats == 2:
        for i in range(a.size):
            out[i] += g[2 * i] + g[2 * i + 1]
        return
    if a.halved:
        for j in range(a.length):
            out[2 * j] += weight[j] * g[j]
            out[2 * j + 1] += second[j] * g[j]
        return
    for k in range(a.taps):
        i = index[k * a.length]
        total = 0                                   # of outputs side by side that have one source
        for j in range(k * a.length, (k + 1) * a.length):
            if index[j] != i:
                out[i] += total
                i = index[j]
                total = 0
            if not a.ragged or weight[j] != 0:
                total += weight[j] * g[j - k * a.length]
        out[i] += total


cdef void resample_rows(Grid* p, const real* x, Py_ssize_t start, Py_ssize_t stop, const int* index, const real* weight, real* line,
                        real* out) noexcept nogil:
    """Rows start .. stop of the output. IN: tables; line, memory for one line of sources, or for the sources of one pixel."""
    cdef Axis* z = &p.axis[0]
    cdef Axis* y = &p.axis[1]
    cdef Axis* w = &p.axis[2]
    cdef Py_ssize_t row, plane, oz, oy, i, j, k, at
    cdef const real* source
    cdef const real* before = NULL                  # the one source of the row before
    cdef real factor
    if w.plain:
        resample_pixels(p, x, start, stop, index, weight, <Py_ssize_t*>line,
                        line + z.taps * y.taps * (sizeof(Py_ssize_t) // sizeof(real)), out)
        return
    for row in range(start, stop):
        oy, plane = row % y.length, row // y.length
        oz, plane = plane % z.length, plane // z.length
        source = x
        for i in range(z.taps):
            for j in range(y.taps):
                at = plane * z.size + index[z.first + i * z.length + oz]
                source = x + (at * y.size + index[y.first + j * y.length + oy]) * w.size
                if z.taps * y.taps == 1:
                    break
                factor = weight[z.first + i * z.length + oz] * weight[y.first + j * y.length + oy]
                if i + j == 0:
                    for k in range(w.size):
                        line[k] = factor * source[k]
                elif factor != 0 or not (y.ragged or z.ragged):
                    for k in range(w.size):
                        line[k] += factor * source[k]
        if z.taps * y.taps == 1 and source == before:
            memcpy(out + row * w.length, out + (row - 1) * w.length, w.length * sizeof(real))
            continue
        before = source if z.taps * y.taps == 1 else NULL
        gather_line(source if z.taps * y.taps == 1 else <const real*>line, w, index + w.first, weight + w.first, out + row * w.length)


cdef void add_squares(const real* g, Py_ssize_t rows, Py_ssize_t size, real* out) noexcept nogil:
    """Rows of the source's gradient where each of its elements went to two by two, which are added column by column."""
    cdef Py_ssize_t row, i
    cdef const real* next
    for row in range(rows):
        next = g + 2 * size
        for i in range(size):
            out[i] = 0 + ((g[2 * i] + next[2 * i]) + (g[2 * i + 1] + next[2 * i + 1]))          # 0: no -0, as in sums that begin with it
        g += 4 * size
        out += size


cdef void grad_planes(Grid* p, const real* g, Py_ssize_t start, Py_ssize_t stop, const int* index, const real* weight, real* line,
                      real* out) noexcept nogil:
    """Planes start .. stop of the source's gradient."""
    cdef Axis* z = &p.axis[0]
    cdef Axis* y = &p.axis[1]
    cdef Axis* w = &p.axis[2]
    cdef Py_ssize_t plane, oz, oy, i, j, k, size = z.size * y.size * w.size
    cdef const real* row
    cdef real* target
    cdef real factor
    if z.repeats == 1 and y.repeats == 2 and w.repeats == 2:
        add_squares(g + 4 * start * size, (stop - start) * z.size * y.size, w.size, out + start * size)
        return
    memset(out + start * size, 0, (stop - start) * size * sizeof(real))
    for plane in range(start, stop):
        for oz in range(z.length):
            for oy in range(y.length):
                row = g + ((plane * z.length + oz) * y.length + oy) * w.length
                if z.taps * y.taps == 1:                            # whose weights are 1
                    if y.repeats == 2 and oy % 2 == 0:              # two rows that have one source are added first
                        for k in range(w.length):
                            line[k] = row[k] + row[w.length + k]
                        row = <const real*>line
                    elif y.repeats == 2:
                        continue
                    target = out + plane * size + (index[z.first + oz] * y.size + index[y.first + oy]) * w.size
                    scatter_line(row, w, index + w.first, weight + w.first, target)
                    continue
                memset(line, 0, w.size * sizeof(real))
                scatter_line(row, w, index + w.first, weight + w.first, line)
                for i in range(z.taps):
                    for j in range(y.taps):
                        factor = weight[z.first + i * z.length + oz] * weight[y.first + j * y.length + oy]
                        if factor == 0 and (y.ragged or z.ragged):
                            continue
                        target = out + plane * size + (index[z.first + i * z.length + oz] * y.size +
                                                       index[y.first + j * y.length + oy]) * w.size
                        for k in range(w.size):
                            target[k] += factor * line[k]


cdef void run_rows(Grid* p, bint transposed, const real* x, Py_ssize_t start, Py_ssize_t stop, const int* index, const real* weight,
                   real* line, real* out) noexcept nogil:
    if transposed:
        grad_planes(p, x, start, stop, index, weight, line, out)
    else:
        resample_rows(p, x, start, stop, index, weight, line, out)


cdef void run(Grid* p, int mode, bint align, bint rounded, double* scale, bint transposed, const real* x, real* out):
    """Allocates the tables and a line, of the source or of the output, for each thread."""
    cdef Py_ssize_t rows = p.planes if transposed else p.planes * p.axis[0].length * p.axis[1].length
    cdef Py_ssize_t sources = p.axis[0].taps * p.axis[1].taps * (1 + sizeof(Py_ssize_t) // sizeof(real))
    cdef Py_ssize_t width = (max(p.axis[2].size, p.axis[2].length, sources) + 31) // 32 * 32     # cache lines that threads do not share
    cdef Py_ssize_t outs = p.planes * p.axis[0].length * p.axis[1].length * p.axis[2].length
    cdef int threads = threads_for(outs * p.axis[0].taps * p.axis[1].taps * 4), t, d
    cdef Storage memory = host_storage((p.entries + threads * width) * sizeof(real) + p.entries * sizeof(int))
    cdef real* lines = <real*>memory.data
    cdef real* weight = lines + threads * width
    cdef int* index = <int*>(weight + p.entries)
    with nogil:
        for d in range(3):
            fill_axis(&p.axis[d], mode, align, scale[d], index + p.axis[d].first, weight + p.axis[d].first)
            if rounded:
                round_axis(&p.axis[d], mode, align, scale[d], index + p.axis[d].first, weight + p.axis[d].first)
    if transposed and p.axis[2].plain:
        grad_pixels(p, threads, x, index, weight, out)
        return
    with nogil:
        if threads == 1:                            # a region of one thread takes half a microsecond too
            run_rows(p, transposed, x, 0, rows, index, weight, lines, out)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                run_rows(p, transposed, x, rows * t // threads, rows * (t + 1) // threads, index, weight, lines + t * width, out)


cdef TensorBase resampled(str name, TensorBase x, tuple size, tuple scales, str mode, bint align, bint transposed):
    cdef Grid p
    cdef double scale[3]
    cdef int code = float_code(name, x), kind = MODES.index(mode), d
    cdef bint rounded = kind > AREA
    kind = kind - (AREA - 1) if rounded else kind
    for d in range(3):
        if max(<Py_ssize_t>x.shape[d + 1], <Py_ssize_t>size[d]) > 0x7fffffff:               # tables hold int
            raise ShapeError(f"{name}: a side may have at most 2**31 - 1 elements, got {x.shape[1:]} for {size}; cut the input into parts")
    x = packed(x)
    cdef TensorBase out = empty_host((x.shape[0], *size), x.dtype)
    p.planes, p.entries = x.shape[0], 0
    for d in range(3):
        scale[d] = scales[d]
        p.axis[d].size, p.axis[d].length = (size[d], x.shape[d + 1]) if transposed else (x.shape[d + 1], size[d])
        set_axis(&p.axis[d], kind, scale[d])
        p.axis[d].first = p.entries
        p.entries += p.axis[d].taps * p.axis[d].length
    if out.size and x.size:
        if code == FLOAT32:
            run(&p, kind, align, rounded, scale, transposed, <const float*>address(x), <float*>address(out))
        else:
            run(&p, kind, align, rounded, scale, transposed, <const double*>address(x), <double*>address(out))
    return out


def resample(TensorBase x not None, size, tuple scales, str mode, bint align_corners):
    """x[P, D, H, W] at another size."""
    size = plain(size)
    return resampled("resample", x, size, scales, mode, align_corners, False)


def resample_grad(TensorBase g not None, size, tuple scales, str mode, bint align_corners):
    """The gradient of resample's x, which had this size."""
    size = plain(size)
    return resampled("resample_grad", g, size, scales, mode, align_corners, True)


KERNELS = {"resample": resample, "resample_grad": resample_grad}
