# Max pooling over two dimensions and its gradient.
#
# Layout: planes [N * C] of height x width, contiguous; the index of a maximum is y * width + x in its plane.
# Ties: the first maximum in row-major order wins; a NaN wins, the first of several. Padding never wins.
# Threads: over planes, so that the gradient needs no atomics and has a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta.errors import DTypeError

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.conv_plan cimport Plan, set_geometry
from volta._kernels.cpu.copy cimport packed

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    /* Take v where it is larger or NaN, unless `top` is NaN already. One comparison a select, for the vectoriser. */
    #define VOLTA_POOL_STEP(T, I, v, i) {                                                                           \\
        T u = !(v <= top) ? v : top;                                                                                \\
        I m = !(v <= top) ? i : k;                                                                                  \\
        k = top != top ? k : m;                                                                                     \\
        top = top != top ? top : u;                                                                                 \\
    }
    /* Maxima of 2 x 2 windows of two lines; place 0..3 in row-major order. Selects only. */
    #define VOLTA_POOL(NAME, T, I)                                                                                  \\
    static void NAME(const T* VOLTA_RESTRICT x, const T* VOLTA_RESTRICT y, Py_ssize_t n, T* VOLTA_RESTRICT out,     \\
                     I* VOLTA_RESTRICT place) {                                                                     \\
        Py_ssize_t j;                                                                                               \\
        for (j = 0; j < n; j++) {                                                                                   \\
            T top = x[2 * j], b = x[2 * j + 1], c = y[2 * j], d = y[2 * j + 1];                                     \\
            I k = 0;                                                                                                \\
            VOLTA_POOL_STEP(T, I, b, 1) VOLTA_POOL_STEP(T, I, c, 2) VOLTA_POOL_STEP(T, I, d, 3)                     \\
            place[j] = k;                                                                                           \\
            out[j] = top;                                                                                           \\
        }                                                                                                           \\
    }
    VOLTA_POOL(volta_pool32, float, int)
    VOLTA_POOL(volta_pool64, double, long long)
    """
    void pool32 "volta_pool32"(const float* x, const float* y, Py_ssize_t n, float* out, int* place) noexcept nogil
    void pool64 "volta_pool64"(const double* x, const double* y, Py_ssize_t n, double* out,
                               long long* place) noexcept nogil

cdef enum:
    LINE = 256                  # windows of one line that are worked at a time


# ---------------------------------------------------------------- forward

cdef inline void pool_pixel(const Plan* p, const real* x, Py_ssize_t oy, Py_ssize_t ox, real* out,
                            int64_t* index) noexcept nogil:
    """The maximum of one window."""
    cdef Py_ssize_t ky, kx, y, z, at, best = -1
    cdef real top = 0, value
    for ky in range(p.kh):
        y = oy * p.sh - p.ph + ky * p.dh
        if y < 0 or y >= p.h:
            continue
        for kx in range(p.kw):
            z = ox * p.sw - p.pw + kx * p.dw
            if z < 0 or z >= p.w:
                continue
            at = y * p.w + z
            value = x[at]
            if best < 0 or value > top or (value != value and top == top):
                top, best = value, at
    out[0] = top
    index[0] = best


cdef inline void pool_line_2x2(const real* x, Py_ssize_t width, Py_ssize_t n, Py_ssize_t at, real* out,
                               int64_t* index) noexcept nogil:
    """n <= LINE windows of 2 x 2 with stride 2, side by side."""
    cdef int place32[LINE]
    cdef long long place64[LINE]
    cdef Py_ssize_t j
    if real is float:
        pool32(x, x + width, n, out, place32)
        for j in range(n):
            index[j] = at + 2 * j + (place32[j] & 1) + (place32[j] >> 1) * width
    else:
        pool64(x, x + width, n, out, place64)
        for j in range(n):
            index[j] = at + 2 * j + (place64[j] & 1) + (place64[j] >> 1) * width


cdef void pool_plane(const Plan* p, bint plain, const real* x, real* out, int64_t* index) noexcept nogil:
    """One plane. `plain` windows are those of `pool_line_2x2`."""
    cdef Py_ssize_t y, z
    for y in range(p.oh):
        if plain:
            z = 0
            while z < p.ow:
                pool_line_2x2(x + 2 * y * p.w + 2 * z, p.w, min(LINE, p.ow - z), 2 * y * p.w + 2 * z, out + y * p.ow + z,
                              index + y * p.ow + z)
                z += LINE
        else:
            for z in range(p.ow):
                pool_pixel(p, x, y, z, out + y * p.ow + z, index + y * p.ow + z)


cdef void pool(const Plan* p, const real* x, Py_ssize_t planes, real* out, int64_t* index) noexcept nogil:
    cdef bint plain = p.kh == p.kw == p.sh == p.sw == 2 and p.dh == p.dw == 1 and p.ph == p.pw == 0 and 2 * p.oh <= p.h and 2 * p.ow <= p.w
    cdef int threads = threads_for(planes * p.oh * p.ow * p.kh * p.kw)
    cdef Py_ssize_t plane
    for plane in prange(planes, num_threads=threads, schedule="static"):
        pool_plane(p, plain, x + plane * p.h * p.w, out + plane * p.oh * p.ow, index + plane * p.oh * p.ow)


def max_pool2d(TensorBase x not None, tuple kernel, tuple stride, tuple padding, tuple dilation, size=None):
    """Maxima of windows of x[N, C, H, W] and the index of each in its plane; `size` is the output's where the last windows
    reach beyond the padding."""
    cdef Plan p
    cdef int code = float_code("max_pool2d", x)
    x = packed(x)
    set_geometry(&p, x.shape, 1, 1, kernel, stride, padding, dilation, 1)
    if size is not None:
        p.oh, p.ow = size
    cdef tuple shape = (x.shape[0], x.shape[1], p.oh, p.ow)
    cdef TensorBase out = empty_host(shape, x.dtype), index = empty_host(shape, dtype_of(INT64))
    cdef Py_ssize_t planes = <Py_ssize_t>shape[0] * <Py_ssize_t>shape[1]
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef int64_t* places = <int64_t*>address(index)
    with nogil:
        if code == FLOAT32:
            pool(&p, <const float*>source, planes, <float*>target, places)
        else:
            pool(&p, <const double*>source, planes, <double*>target, places)
    return out, index


# ---------------------------------------------------------------- gradient

cdef void spread_plane(const real* g, const int64_t* index, Py_ssize_t pixels, Py_ssize_t size, real* out) noexcept nogil:
    """Each gradient of a plane to the place that its maximum came from."""
    cdef Py_ssize_t i
    memset(out, 0, size * sizeof(real))
    for i in range(pixels):
        if 0 <= index[i] < size:
            out[index[i]] += g[i]


cdef void scatter(const real* g, const int64_t* index, Py_ssize_t planes, Py_ssize_t pixels, Py_ssize_t size,
                 real* out) noexcept nogil:
    cdef Py_ssize_t plane
    for plane in prange(planes, num_threads=threads_for(planes * (pixels * 2 + size)), schedule="static"):
        spread_plane(g + plane * pixels, index + plane * pixels, pixels, size, out + plane * size)


def max_pool2d_grad(TensorBase g not None, TensorBase index not None, Py_ssize_t height, Py_ssize_t width,
                    kernel=None, stride=None, padding=None, dilation=None):
    """Gradient of max_pool2d with respect to its input [N, C, height, width]. The window's geometry is not needed here."""
    cdef int code = float_code("max_pool2d_grad", g)
    if index.dtype.code != INT64:
        raise DTypeError(f"max_pool2d_grad: index must be int64, got {index.dtype.name}; convert it with .long()")
    g, index = packed(g), packed(index)
    cdef Py_ssize_t planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef Py_ssize_t pixels = <Py_ssize_t>g.shape[2] * <Py_ssize_t>g.shape[3]
    cdef TensorBase out = empty_host((g.shape[0], g.shape[1], height, width), g.dtype)
    cdef void* source = address(g)
    cdef void* target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    with nogil:
        if code == FLOAT32:
            scatter(<const float*>source, places, planes, pixels, height * width, <float*>target)
        else:
            scatter(<const double*>source, places, planes, pixels, height * width, <double*>target)
    return out


KERNELS = {"max_pool2d": max_pool2d, "max_pool2d_grad": max_pool2d_grad}
