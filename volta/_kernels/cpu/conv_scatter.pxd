# The gradient of a convolution's input where there are few outputs beside their windows: to compute it as a convolution of the gradient
#   would mostly multiply zeros.
#
# Of each image and channel the products of its weights and the gradients, columns[taps][places], are added where the windows saw it.
# Threads: over images and channels; a sum's order depends on sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.conv_cost cimport dense_cost
from volta._kernels.cpu.conv_plan cimport Plan, ceil_div, pixels_in, pixels_out, seen_of, threads_of
from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes

cdef enum:                      # in multiply-adds of a convolution of the gradient that take as long:
    TAP_COST = 1500             # to begin with a tap of a plane,
    ROW_COST = 300              # and to add a row of its places


cdef inline void add_tap(Plan* p, Py_ssize_t tap, const real* x, real* out) noexcept nogil:
    """x[places] to a plane of out, where the windows have a tap."""
    cdef Py_ssize_t kx = tap % p.w.kernel, ky = tap // p.w.kernel % p.h.kernel, kz = tap // p.w.kernel // p.h.kernel
    cdef Py_ssize_t z0 = 0, z1 = 0, y0 = 0, y1 = 0, x0 = 0, x1 = 0, z, y, i, step = p.w.step
    cdef real* line
    cdef const real* row
    seen_of(&p.d, True, kz, &z0, &z1)
    seen_of(&p.h, True, ky, &y0, &y1)
    seen_of(&p.w, True, kx, &x0, &x1)
    for z in range(z0, z1):
        for y in range(y0, y1):
            row = x + (z * p.h.source + y) * p.w.source
            line = out + (((kz * p.d.dilation - p.d.padding + z * p.d.step) * p.h.full + ky * p.h.dilation - p.h.padding
                           + y * p.h.step) * p.w.full + kx * p.w.dilation - p.w.padding)
            if step == 1:
                for i in range(x0, x1):
                    line[i] += row[i]
            else:
                for i in range(x0, x1):
                    line[i * step] += row[i]


cdef inline void scatter_channel(Plan* p, Py_ssize_t item, const real* g, const real* weight, real* out, real* space) noexcept nogil:
    """One channel of one image. IN: g, every image's gradients in lines of whole vectors; the weights of all groups."""
    cdef Py_ssize_t size = pixels_in(p), width = ceil_div(size, p.lanes) * p.lanes, channel = item % (p.o * p.groups)
    cdef Py_ssize_t group = channel // p.o, image = item // (p.o * p.groups), tiles = ceil_div(p.taps, TILE_ROWS), i, row, rows, v, n
    g += (image * p.groups + group) * p.c * width
    weight += (group * p.c * p.o + channel % p.o) * p.taps
    out += item * pixels_out(p)
    memset(out, 0, pixels_out(p) * sizeof(real))
    for i in range(tiles):
        row = p.taps * i // tiles
        rows = p.taps * (i + 1) // tiles - row
        v = 0
        while v < width:
            n = min(3 * p.lanes, width - v)
            multiply(p.c, weight + row, 1, p.o * p.taps, <int>rows, g + v, width, space + v, width, <int>n, <const real*>NULL, False)
            v += n
        for v in range(rows):
            add_tap(p, row + v, <const real*>space + v * width, out)


cdef inline void pad_line(Py_ssize_t size, Py_ssize_t width, const real* x, real* out) noexcept nogil:
    memcpy(out, x, size * sizeof(real))
    memset(out + size, 0, (width - size) * sizeof(real))


cdef inline bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster."""
    cdef Py_ssize_t rows = p.d.source * p.h.source, width = ceil_div(pixels_in(p), p.lanes) * p.lanes
    cdef Py_ssize_t places = p.d.places * p.h.places * p.w.places
    return (p.transposed and p.c > 0 and p.taps > 1
            and (TAP_COST + rows * ROW_COST + width * p.c) * p.o < places * dense_cost(p))


cdef inline bint gradient_by_scatter(Plan* p, const real* g, const real* weight, real* out) except -1:
    """Whether the gradient of the input was computed this way. Allocates."""
    p.lanes = lanes(out)
    if not fits(p):
        return False
    cdef Py_ssize_t size = pixels_in(p), width = ceil_div(size, p.lanes) * p.lanes, item, lines = p.n * p.groups * p.c
    cdef Py_ssize_t own = TILE_ROWS * width
    cdef int threads = threads_of(p)
    cdef Storage scratch = host_storage((lines * width + threads * own) * sizeof(real))
    cdef real* padded = <real*>scratch.data
    cdef real* buffers = padded + lines * width
    with nogil:
        for item in prange(lines, num_threads=threads, schedule="static"):
            pad_line(size, width, g + item * size, padded + item * width)
        for item in prange(p.n * p.groups * p.o, num_threads=threads, schedule="static"):
            scatter_channel(p, item, <const real*>padded, weight, out, buffers + threadid() * own)
    return True
