# Maxima of windows that begin at random steps (fractional max pooling), and their places.
#
# Layout: planes of depth x height x width, contiguous; images have depth 1. Of equal elements the first wins, of NaN the last.
# Threads: over lines of outputs. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.size cimport plain
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.real cimport real

cdef struct Axis:
    Py_ssize_t n                # elements
    Py_ssize_t outs
    Py_ssize_t kernel

cdef struct Windows:
    Py_ssize_t planes
    Py_ssize_t rank             # of the planes, 2 or 3
    Axis z
    Axis y
    Axis x


cdef void axis_starts(Axis* a, real sample, int64_t* starts) noexcept nogil:
    """Where the windows along an axis begin: by steps that the sample shifts, the last one at the end. Clipped, whatever the sample is."""
    cdef Py_ssize_t i, last = a.n - a.kernel
    cdef real step = <real>last / <real>(a.outs - 1) if a.outs > 1 else 0
    for i in range(a.outs - 1):
        starts[i] = min(max(<int64_t>((<real>i + sample) * step) - <int64_t>(sample * step), <int64_t>0), <int64_t>last)
    starts[a.outs - 1] = last


cdef void all_starts(Windows* w, const real* samples, int64_t* starts) noexcept nogil:
    """Of each plane those of depth, height and width. Two samples are of the width first."""
    cdef Py_ssize_t plane
    for plane in range(w.planes):
        if w.rank == 3:
            axis_starts(&w.z, samples[0], starts)
        else:
            starts[0] = 0
        axis_starts(&w.y, samples[1], starts + w.z.outs)
        axis_starts(&w.x, samples[2 if w.rank == 3 else 0], starts + w.z.outs + w.y.outs)
        starts += w.z.outs + w.y.outs + w.x.outs
        samples += w.rank


cdef void some_lines(Windows* w, const real* x, const int64_t* starts, Py_ssize_t first, Py_ssize_t last, real* out,
                     int64_t* index) noexcept nogil:
    cdef Py_ssize_t line, plane, o, i, j, k, place, z, y
    cdef const real* source
    cdef const int64_t* begins
    cdef real best, value
    for line in range(first, last):
        plane = line // (w.z.outs * w.y.outs)
        begins = starts + plane * (w.z.outs + w.y.outs + w.x.outs)
        z, y = begins[line // w.y.outs % w.z.outs], begins[w.z.outs + line % w.y.outs]
        begins += w.z.outs + w.y.outs
        source = x + plane * w.z.n * w.y.n * w.x.n
        for o in range(w.x.outs):
            best, place = -INFINITY, (z * w.y.n + y) * w.x.n + begins[o]
            for i in range(z, z + w.z.kernel):
                for j in range(y, y + w.y.kernel):
                    k = (i * w.y.n + j) * w.x.n + begins[o]
                    for k in range(k, k + w.x.kernel):
                        value = source[k]
                        if value > best or value != value:
                            best, place = value, k
            out[line * w.x.outs + o] = best
            index[line * w.x.outs + o] = place


cdef void pooled(Windows* w, const real* x, const real* samples, int64_t* starts, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t lines = w.planes * w.z.outs * w.y.outs
    cdef int threads = threads_for(lines * w.x.outs * w.z.kernel * w.y.kernel * w.x.kernel), t
    all_starts(w, samples, starts)
    if threads == 1:
        some_lines(w, x, starts, 0, lines, out, index)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        some_lines(w, x, starts, lines * t // threads, lines * (t + 1) // threads, out, index)


def fractional_max_pool(TensorBase x not None, TensorBase samples not None, size, kernel):
    """(out, index): the largest of each window of x[planes, ...], and its place. IN: samples[planes, rank]; size, the output's."""
    cdef Windows w
    cdef int code = float_code("fractional_max_pool", x)
    cdef tuple outs = plain(size), windows = plain(kernel), shape = (x.shape[0], *outs)
    cdef TensorBase drawn = empty_host(samples.shape, x.dtype)
    copy_data(drawn, samples)
    x = packed(x)
    w.planes, w.rank = x.shape[0], len(outs)
    w.z = Axis(x.shape[1], outs[0], windows[0]) if w.rank == 3 else Axis(1, 1, 1)
    w.y = Axis(x.shape[w.rank - 1], outs[w.rank - 2], windows[w.rank - 2])
    w.x = Axis(x.shape[w.rank], outs[w.rank - 1], windows[w.rank - 1])
    cdef TensorBase out = empty_host(shape, x.dtype), index = empty_host(shape, dtype_of(INT64))
    cdef TensorBase starts = empty_host((w.planes, w.z.outs + w.y.outs + w.x.outs), dtype_of(INT64))
    cdef void* source = address(x)
    cdef void* shifts = address(drawn)
    cdef void* target = address(out)
    cdef int64_t* places = <int64_t*>address(index)
    cdef int64_t* begins = <int64_t*>address(starts)
    if out.size:
        with nogil:
            if code == FLOAT32:
                pooled(&w, <const float*>source, <const float*>shifts, begins, <float*>target, places)
            else:
                pooled(&w, <const double*>source, <const double*>shifts, begins, <double*>target, places)
    return out, index


KERNELS = {"fractional_max_pool": fractional_max_pool}
