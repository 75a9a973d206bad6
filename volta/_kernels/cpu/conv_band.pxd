# The band of a chunk: what the windows of its places see, with the padding around it, where tiles read it; see conv_plan.pxd.
#
# Layout: [image][channel][slice][row][pitch], room for one vector more. Threads: none. Sizes: the plan's.

from volta._kernels.cpu.conv_plan cimport Chunk, Plan, ceil_div
from volta._kernels.cpu.conv_tile cimport copy_even, copy_fourths
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_run, zero_run


cdef inline void load_row(Plan* p, const real* line, const real* end, real* out) noexcept nogil:
    """A row of the band. IN: line, the row of the input; `end` the end of its memory."""
    cdef Py_ssize_t stretch = p.stretch, stride = p.w.stride, step = p.w.skip * stride, remainder, first = p.w.first, low, high, i
    if stride == step == 4 and first >= 0:
        high = max(0, min(stretch, (p.w.source - first) // 4))
        copy_fourths(out, stretch, line + first, high)
        for i in range(high, stretch):
            for remainder in range(4):
                low = first + 4 * i + remainder
                out[remainder * stretch + i] = line[low] if low < p.w.source else 0
        return
    if stride > 2 and first >= 0 and first + p.pitch <= p.w.source:         # no padding: element by element
        for i in range(stretch):
            for remainder in range(stride):
                out[remainder * stretch + i] = line[first + i * stride + remainder]
        return
    for remainder in range(stride):
        first = p.w.first + remainder                       # the element that comes first in this stretch
        low = min(stretch, -first if step == 1 else ceil_div(-first, step)) if first < 0 else 0
        high = p.w.source - first
        if step > 1 and high > 0:
            high = ceil_div(high, step)
        high = max(low, min(stretch, high))
        if low > 0:
            zero_run(out, low)
        if step == 1 and high > low and line + first + high + p.lanes <= end:
            copy_run(out + low, line + first + low, high - low)
        elif step == 2:
            copy_even(out + low, line + first + 2 * low, high - low)
        else:
            for i in range(low, high):
                out[i] = line[first + i * step]
        if high < stretch:
            zero_run(out + high, stretch - high)
        out += stretch


cdef inline Py_ssize_t load_rows(Plan* p, Py_ssize_t rows, const real* line, Py_ssize_t step, const real* end, real* out) noexcept nogil:
    """Rows of the band, as long as they have no stride and whole vectors can be read; gives how many these were. A vector of zeros behind a
    row is the padding to its right and that to the left of the next one. IN: as of load_row; room for one vector more."""
    cdef Py_ssize_t low = max(0, -p.w.first), high = min(p.stretch, p.w.source - p.w.first), r
    if p.w.stride * p.w.skip > 1 or high <= low or low + p.stretch - high > p.lanes:
        return 0
    if low > 0:
        zero_run(out, low)
    for r in range(rows):
        if line + p.w.first + high + p.lanes > end:
            return r
        copy_run(out + low, line + p.w.first + low, high - low)
        zero_run(out + high, 1)
        line += step
        out += p.pitch
    return rows


cdef inline void load_band(Plan* p, Chunk* chunk, const real* x, const real* end, Py_ssize_t channels, Py_ssize_t room,
                           real* band) noexcept nogil:
    """The padded input of a chunk: `channels` channels, where the band has room for `room`.

    IN: x, the first channel of image 0; `end` the end of its memory; room for one vector more. What vectors see past the last row is 0:
    left from before it could be denormal, and sums that nobody reads would take forty times as long.
    """
    cdef Py_ssize_t i, c, s, r, z, plane = p.h.source * p.w.source, skip = p.h.skip, first = chunk.y * p.h.stride * skip + p.h.first
    cdef Py_ssize_t slices = (chunk.slices - 1) * p.d.stride + p.d.reach, rows = (chunk.rows - 1) * p.h.stride + p.h.reach
    cdef Py_ssize_t low = max(0, min(rows, ceil_div(-first, skip))) if first < 0 else 0         # rows low .. high lie in the input
    cdef Py_ssize_t high = max(low, min(rows, ceil_div(p.h.source - first, skip))) if first < p.h.source else low
    cdef const real* line
    cdef real* out
    x += chunk.image * p.groups * p.c * p.d.source * plane
    for i in range(chunk.images):
        for c in range(channels):
            for s in range(slices):
                z = chunk.z * p.d.stride * p.d.skip + p.d.first + s * p.d.skip
                out = band + ((i * room + c) * p.d.band + s) * p.h.band * p.pitch
                if z < 0 or z >= p.d.source:
                    zero_run(out, rows * p.pitch)
                else:
                    line = x + ((i * p.groups * p.c + c) * p.d.source + z) * plane + first * p.w.source
                    if low > 0:
                        zero_run(out, low * p.pitch)
                    r = load_rows(p, high - low, line + low * skip * p.w.source, skip * p.w.source, end, out + low * p.pitch)
                    for r in range(low + r, high):
                        load_row(p, line + r * skip * p.w.source, end, out + r * p.pitch)
                    if high < rows:
                        zero_run(out + high * p.pitch, (rows - high) * p.pitch)
                zero_run(out + rows * p.pitch, p.lanes)
