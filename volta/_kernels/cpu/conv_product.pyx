# Convolutions that are products of matrices as they lie: those of one window, which is the whole input, and their gradients; and
#   windows of one element some steps apart, once what they see lies side by side.
#
# Layout: images are the rows of a matrix [N][C * taps], the weights one of [O][C * taps]. Threads, and the order of sums: those of the
#   product. Sizes: the front end.

from cython.parallel cimport prange

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.conv_plan cimport Axis, Plan, pixels_in, pixels_out, set_axis
from volta._kernels.cpu.conv_tile cimport copy_even
from volta._kernels.cpu.gemm cimport Plan as Way, Products, gemm, plan_products
from volta._kernels.cpu.tile cimport real


cdef bint is_whole(Axis* a, bint transposed) noexcept nogil:
    """Whether the one window is all that there is along an axis."""
    return a.padding == 0 and a.kernel == (a.full if transposed else a.source) and (a.kernel == 1 or a.dilation == 1)


cdef bint fits(Plan* p) noexcept nogil:
    return p.groups == 1 and p.c > 0 and is_whole(&p.d, p.transposed) and is_whole(&p.h, p.transposed) and is_whole(&p.w, p.transposed)


cdef int multiply(Products* p, const real* a, const real* b, const real* bias, real* out) except -1:
    """out = a @ b + bias. Allocates."""
    cdef Way way
    p.count, p.rank = 1, 0
    plan_products(&way, p, out)
    cdef Storage space = host_storage((way.partial + way.threads * way.own) * sizeof(real))
    with nogil:
        gemm(&way, p, a, b, bias, out, <real*>space.data)
    return 0


cdef bint convolve_by_product(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` was computed this way: not where there are several windows. Allocates."""
    cdef Products q
    if not fits(p):
        return False
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
    """Where windows of one element are some steps apart, make x what they see and the plan one of steps of 1. Gives its memory. Allocates."""
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
