# Convolutions that are products of matrices as they lie: those of one window, which is the whole input, and their gradients; windows of
#   one element, where planes are matrices; and those some steps apart, once what they see lies side by side.
#
# Layout: images are the rows of a matrix [N][C * taps], the weights one of [O][C * taps]. Threads, and the order of sums: those of the
#   product. Sizes: the front end.

from cython.parallel cimport prange
from libc.string cimport memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.conv_plan cimport Axis, Plan, pixels_in, pixels_out, set_axis
from volta._kernels.cpu.conv_tile cimport copy_even
from volta._kernels.cpu.gemm cimport gemm
from volta._kernels.cpu.gemm_plan cimport Plan as Way, Products, plan_products
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS


cdef enum:
    SMALL_PLANE = 64            # pixels, up to which those of several images had better be one matrix,
    FEW_WEIGHTS = 32768         # unless there are so few
    CACHED = 524288             # elements of the outputs


cdef bint is_whole(Axis* a, bint transposed) noexcept nogil:
    """Whether the one window is all that there is along an axis."""
    return a.padding == 0 and a.kernel == (a.full if transposed else a.source) and (a.kernel == 1 or a.dilation == 1)


cdef bint fits(Plan* p) noexcept nogil:
    return p.groups == 1 and p.c > 0 and is_whole(&p.d, p.transposed) and is_whole(&p.h, p.transposed) and is_whole(&p.w, p.transposed)


cdef int multiply(Products* p, const real* a, const real* b, const real* bias, real* out) except -1:
    """out = a @ b + bias. Allocates."""
    cdef Way way
    plan_products(&way, p, out)
    cdef Storage space = host_storage((way.partial + way.threads * way.own) * sizeof(real))
    with nogil:
        gemm(&way, p, a, b, bias, out, <real*>space.data)
    return 0


cdef void add_to_all(Py_ssize_t n, real number, real* out) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] += number


cdef int multiply_planes(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Windows of one element: each image is a matrix of channels and pixels, which the weights are multiplied with. Allocates."""
    cdef Products q
    cdef Py_ssize_t size = pixels_out(p), planes = p.n * p.o, i
    q.m, q.k, q.n, q.count, q.rank = p.o, p.c, size, p.n, 1
    q.a_row, q.a_column = 1 if p.transposed else p.c, p.o if p.transposed else 1
    q.b_row, q.b_column, q.shape[0], q.a_strides[0], q.b_strides[0] = size, 1, p.n, 0, p.c * size
    multiply(&q, weight, x, <const real*>NULL, out)
    cdef int threads = threads_for(planes * size)
    if bias != NULL:
        with nogil:
            for i in prange(planes, num_threads=threads, schedule="static"):
                add_to_all(size, bias[i % p.o], out + i * size)
    return 0


cdef bint planes_pay(Plan* p, bint bias) noexcept nogil:
    """Whether products with the planes of each image are faster than tiles of places: to few outputs; and, where tiles are small, to many,
    unless the planes are too, or a bias would have to be added to what no longer lies in a cache."""
    cdef Py_ssize_t size = pixels_out(p)
    if p.groups > 1 or p.taps > 1 or p.d.padding + p.h.padding + p.w.padding or not size == pixels_in(p) > 1:
        return False
    return (p.o <= TILE_ROWS <= p.c
            or TILE_ROWS == 4 <= p.c and (p.n == 1 or size >= SMALL_PLANE or p.o * p.c <= FEW_WEIGHTS)
            and (not bias or p.n * p.o * size <= CACHED))


cdef bint convolve_by_product(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` was computed this way: not where there are several windows, unless of one element each. Allocates."""
    cdef Products q
    if planes_pay(p, bias != NULL):
        multiply_planes(p, x, weight, bias, out)
        return True
    if not fits(p):
        return False
    q.count, q.rank = 1, 0
    q.m, q.k, q.n = p.n, p.c, p.o
    if p.transposed:
        q.n *= p.taps
        q.b_row, q.b_column = q.n, 1
    else:
        q.k *= p.taps
        q.b_row, q.b_column = 1, q.k
    q.a_row, q.a_column = q.k, 1
    multiply(&q, x, weight, bias, out)
    return True


cdef bint weight_by_product(Plan* p, const real* g, const real* x, real* out) except -1:
    """Whether the gradient of the weight was computed this way. Allocates."""
    cdef Products q
    if not fits(p):
        return False
    q.count, q.rank = 1, 0
    q.m, q.k, q.n = p.o, p.n, p.c * p.taps
    q.a_row, q.a_column, q.b_row, q.b_column = 1, q.m, q.n, 1
    multiply(&q, g, x, <const real*>NULL, out)
    return True


cdef void thin_plane(Plan* p, const real* x, real* out) noexcept nogil:
    cdef Py_ssize_t z, y, i
    cdef const real* line
    for z in range(p.d.places):
        for y in range(p.h.places):
            line = x + (z * p.d.skip * p.h.source + y * p.h.skip) * p.w.source
            if p.w.skip == 2:
                copy_even(out, line, p.w.places)
            else:
                for i in range(p.w.places):
                    out[i] = line[i * p.w.skip]
            out += p.w.places


cdef Storage thinned(Plan* p, const real** x):
    """Where windows of one element are some steps apart, make x what they see and the plan one of steps of 1. Gives its memory, if any."""
    cdef Py_ssize_t planes = p.n * p.groups * p.c, source = pixels_in(p), size = pixels_out(p), i
    cdef Axis* axes[3]
    axes[0], axes[1], axes[2] = &p.d, &p.h, &p.w
    if p.taps > 1 or p.transposed or p.d.padding + p.h.padding + p.w.padding or p.d.skip * p.h.skip * p.w.skip == 1:
        return None
    cdef int threads = threads_for(planes * size)
    cdef Storage storage = host_storage(planes * size * sizeof(real))
    cdef real* out = <real*>storage.data
    cdef const real* whole = x[0]
    with nogil:
        for i in prange(planes, num_threads=threads, schedule="static"):
            thin_plane(p, whole + i * source, out + i * size)
    for i in range(3):
        set_axis(axes[i], axes[i].places, 1, 1, 0, 1)
    x[0] = out
    return storage


cdef void spread_plane(Plan* p, const real* x, real* out) noexcept nogil:
    """What the windows saw at its places, zeros between them."""
    cdef Py_ssize_t z, y, i
    cdef real* line
    memset(out, 0, pixels_out(p) * sizeof(real))
    for z in range(p.d.source):
        for y in range(p.h.source):
            line = out + (z * p.d.step * p.h.full + y * p.h.step) * p.w.full
            for i in range(p.w.source):
                line[i * p.w.step] = x[i]
            x += p.w.source


cdef void spread(Plan* p, const real* x, real* out):
    """The gradient of the input, of that of windows of one element that were some steps apart."""
    cdef Py_ssize_t planes = p.n * p.groups * p.o, source = pixels_in(p), i
    cdef int threads = threads_for(planes * pixels_out(p))
    with nogil:
        for i in prange(planes, num_threads=threads, schedule="static"):
            spread_plane(p, x + i * source, out + i * pixels_out(p))


cdef bint is_spread(Plan* p) noexcept nogil:
    return p.transposed and p.taps == 1 and p.d.padding + p.h.padding + p.w.padding == 0 and p.d.step * p.h.step * p.w.step > 1


cdef Plan beside(Plan* p) noexcept nogil:
    """The plan of a gradient that is spread, for windows that lie side by side."""
    cdef Plan q = p[0]
    set_axis(&q.d, p.d.source, 1, 1, 0, 1)
    set_axis(&q.h, p.h.source, 1, 1, 0, 1)
    set_axis(&q.w, p.w.source, 1, 1, 0, 1)
    return q
