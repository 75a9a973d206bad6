# Pooling over one to three dimensions: averages of windows, and their gradients.
#
# Layout: planes [N * C] of depth x height x width, contiguous; fewer dimensions have size 1 in front. Windows: see pool_plan.pxd. Whole
#   windows of usual sizes are worked side by side; a gradient is shared along a row of windows at once.
# Threads: over lines of outputs; gradients over planes, so that they need no atomics and have a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.pool_plan cimport Pool, begin, by_vectors, inside, pool_by_vectors, pool_threads, window_of
from volta._kernels.cpu.sums cimport line_sum
from volta._kernels.cpu.tile cimport real

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
      #define VOLTA_APART __declspec(noinline)
    #else
      #define VOLTA_RESTRICT __restrict__
      #define VOLTA_APART __attribute__((noinline))
    #endif
    #define VOLTA_SUM_LINE(S, T)                                                                                    \\
    static void volta_sum_line_##S(const T* VOLTA_RESTRICT x, Py_ssize_t stride, Py_ssize_t n, T* VOLTA_RESTRICT out) { \\
        Py_ssize_t j;                                                                                               \\
        if (stride == 1) for (j = 0; j < n; j++) out[j] += x[j];                                                    \\
        else if (stride == 2) for (j = 0; j < n; j++) out[j] += x[2 * j];                                           \\
        else for (j = 0; j < n; j++) out[j] += x[j * stride];                                                       \\
    }                                                                                                               \\
    /* out[j] = x[j] / (rows * spans[j]), or by the divisor if there is one. */                                     \\
    static void volta_divide_line_##S(const T* x, const int64_t* spans, Py_ssize_t rows, double divisor, Py_ssize_t n, T* out) { \\
        Py_ssize_t j;                                                                                               \\
        if (divisor != 0) for (j = 0; j < n; j++) out[j] = x[j] / (T)divisor;                                       \\
        else for (j = 0; j < n; j++) out[j] = x[j] / ((T)rows * (T)spans[j]);                                       \\
    }                                                                                                               \\
    /* x[j * stride + k] += y[j] for k < kernel and j < n. */                                                       \\
    static void volta_share_line_##S(const T* VOLTA_RESTRICT y, Py_ssize_t kernel, Py_ssize_t stride, Py_ssize_t n, \\
                                     T* VOLTA_RESTRICT x) {                                                         \\
        Py_ssize_t j, k;                                                                                            \\
        if (kernel == 2 && stride == 2)                                                                             \\
            for (j = 0; j < n; j++) { x[2 * j] += y[j]; x[2 * j + 1] += y[j]; }                                     \\
        else if (kernel == 3 && stride == 2 && n > 0) {                                                             \\
            x[0] += y[0]; x[1] += y[0];                                                                             \\
            for (j = 1; j < n; j++) { x[2 * j] += y[j - 1] + y[j]; x[2 * j + 1] += y[j]; }                          \\
            x[2 * n] += y[n - 1];                                                                                   \\
        } else if (kernel == 3 && stride == 3)                                                                      \\
            for (j = 0; j < n; j++) { x[3 * j] += y[j]; x[3 * j + 1] += y[j]; x[3 * j + 2] += y[j]; }               \\
        else if (stride == 1)                                                                                       \\
            for (k = 0; k < kernel; k++) for (j = 0; j < n; j++) x[j + k] += y[j];                                  \\
        else                                                                                                        \\
            for (j = 0; j < n; j++) for (k = 0; k < kernel; k++) x[j * stride + k] += y[j];                         \\
    }
    VOLTA_SUM_LINE(32, float)
    VOLTA_SUM_LINE(64, double)
    /* Whole windows of HEIGHT x WIDTH, STRIDE apart along rows of `width`, n of each of some lines, `step` apart. */
    #define VOLTA_MEAN_WHOLE(S, T, HEIGHT, WIDTH, STRIDE)                                                           \\
    static VOLTA_APART void volta_mean_##HEIGHT##WIDTH##STRIDE##_##S(const T* VOLTA_RESTRICT x, Py_ssize_t width, Py_ssize_t step, \\
            Py_ssize_t lines, Py_ssize_t n, Py_ssize_t outs, T divisor, T* VOLTA_RESTRICT out) {                    \\
        Py_ssize_t j;                                                                                               \\
        int a, b;                                                                                                   \\
        for (; lines > 0; lines--, x += step, out += outs)                                                          \\
            for (j = 0; j < n; j++) {                                                                               \\
                const T* p = x + j * STRIDE;                                                                        \\
                T sum = 0;                                                                                          \\
                for (a = 0; a < HEIGHT; a++) for (b = 0; b < WIDTH; b++) sum += p[a * width + b];                   \\
                out[j] = sum / divisor;                                                                             \\
            }                                                                                                       \\
    }
    /* By what a window is called: the digits of its height, width and stride. Whether there is one. */
    #define VOLTA_MEANS_WHOLE(S, T)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 2, 2, 2)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 3, 3, 1)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 3, 3, 2)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 3, 3, 3)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 4, 4, 4)                                                                                 \\
    VOLTA_MEAN_WHOLE(S, T, 1, 3, 2)                                                                                 \\
    static int volta_mean_whole_##S(int window, const T* x, Py_ssize_t width, Py_ssize_t step, Py_ssize_t lines,    \\
                                    Py_ssize_t n, Py_ssize_t outs, T divisor, T* out) {                             \\
        void (*f)(const T*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, T, T*) =                    \\
            window == 222 ? volta_mean_222_##S : window == 331 ? volta_mean_331_##S : window == 332 ? volta_mean_332_##S \\
            : window == 333 ? volta_mean_333_##S : window == 444 ? volta_mean_444_##S : window == 132 ? volta_mean_132_##S : NULL; \\
        if (f && lines) f(x, width, step, lines, n, outs, divisor, out);                                            \\
        return f != NULL;                                                                                           \\
    }
    VOLTA_MEANS_WHOLE(32, float)
    VOLTA_MEANS_WHOLE(64, double)
    """
    void sum_line_32 "volta_sum_line_32"(const float*, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void sum_line_64 "volta_sum_line_64"(const double*, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void divide_line_32 "volta_divide_line_32"(const float*, const int64_t*, Py_ssize_t, double, Py_ssize_t, float*) noexcept nogil
    void divide_line_64 "volta_divide_line_64"(const double*, const int64_t*, Py_ssize_t, double, Py_ssize_t, double*) noexcept nogil
    void share_line_32 "volta_share_line_32"(const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void share_line_64 "volta_share_line_64"(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    bint mean_whole_32 "volta_mean_whole_32"(int, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, float,
                                             float*) noexcept nogil
    bint mean_whole_64 "volta_mean_whole_64"(int, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double,
                                             double*) noexcept nogil

cdef enum:
    LINE = 256                  # windows of one line whose gradients are divided at a time
    NARROW = 16                 # elements of a window along a line up to which windows are worked side by side


cdef inline void divide(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t start, Py_ssize_t n, real* out) noexcept nogil:
    """By what the windows start .. start + n of a line divide."""
    if real is float:
        divide_line_32(x, p.x.span + start, p.z.span[z] * p.y.span[y], p.divisor, n, out)
    else:
        divide_line_64(x, p.x.span + start, p.z.span[z] * p.y.span[y], p.divisor, n, out)


cdef void sum_row(Pool* p, const real* x, Py_ssize_t start, Py_ssize_t end, real* out) noexcept nogil:
    """Add a row of a plane to the windows start .. end of a line of sums."""
    cdef Py_ssize_t o, k, first, last
    if p.adaptive or p.x.kernel > NARROW or end - start < 2:
        for o in range(start, end):
            out[o] += <real>line_sum(x + p.x.start[o], p.x.count[o])
        return
    for k in range(p.x.kernel):
        inside(&p.x, k, &first, &last)
        first, last = max(first, start), min(last, end)
        if first >= last:
            continue
        if real is float:
            sum_line_32(x + first * p.x.stride + k - p.x.padding, p.x.stride, last - first, out + first)
        else:
            sum_line_64(x + first * p.x.stride + k - p.x.padding, p.x.stride, last - first, out + first)


cdef void avg_line(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t start, Py_ssize_t end, real* out) noexcept nogil:
    """The windows start .. end of a line of a plane."""
    cdef Py_ssize_t i, j
    if start >= end:
        return
    memset(out + start, 0, (end - start) * sizeof(real))
    for i in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
        for j in range(p.y.start[y], p.y.start[y] + p.y.count[y]):
            sum_row(p, x + (i * p.y.n + j) * p.x.n, start, end, out)
    divide(p, <const real*>out + start, z, y, start, end - start, out + start)


cdef Py_ssize_t avg_whole(Pool* p, int window, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t lines, real* out) noexcept nogil:
    """The whole windows of up to so many lines of a plane: how many lines there were, 0 where windows of this size are not for this way.
    IN: x, the plane; out, the first of these lines."""
    cdef Py_ssize_t low = p.x.low, n = p.x.high - low, row = y * p.y.stride - p.y.padding, step = p.y.stride * p.x.n, at
    cdef real divisor = <real>(p.divisor if p.divisor != 0 else p.y.kernel * p.x.kernel)
    lines = min(lines, p.y.high - y)
    if window == 0 or y < p.y.low or lines <= 0 or n <= 0:
        return 0
    at = (z * p.z.stride * p.y.n + row) * p.x.n + low * p.x.stride - p.x.padding
    if real is float:
        return lines if mean_whole_32(window, x + at, p.x.n, step, lines, n, p.x.outs, divisor, out + low) else 0
    else:
        return lines if mean_whole_64(window, x + at, p.x.n, step, lines, n, p.x.outs, divisor, out + low) else 0


cdef void avg_lines(Pool* p, const real* x, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef Py_ssize_t line = first, done, plane, z, y, i
    cdef const real* source
    cdef bint vectors = real is float and by_vectors(p)
    cdef int window = window_of(p, vectors)
    while line < last:
        plane, z, y = line // (p.z.outs * p.y.outs), line // p.y.outs % p.z.outs, line % p.y.outs
        source = x + plane * p.size
        done = avg_whole(p, window, source, z, y, last - line, out + line * p.x.outs)
        if not vectors:
            for i in range(line, line + max(1, done)):
                avg_line(p, source, z, y + i - line, 0, p.x.low if done else p.x.outs, out + i * p.x.outs)
                if done:
                    avg_line(p, source, z, y + i - line, p.x.high, p.x.outs, out + i * p.x.outs)
        elif done == 0:
            done = last - line if window == 0 else 1
            if real is float:
                pool_by_vectors(p, x, line, line + done, 0, p.x.outs, out, <int64_t*>NULL)
        line += max(1, done)
    if real is float:
        if vectors and window:
            pool_by_vectors(p, x, first, last, 0, p.x.low, out, <int64_t*>NULL)
            pool_by_vectors(p, x, first, last, p.x.high, p.x.outs, out, <int64_t*>NULL)


cdef void avg_all(Pool* p, const real* x, real* out) noexcept nogil:
    cdef Py_ssize_t lines = p.planes * p.z.outs * p.y.outs
    cdef int threads = pool_threads(p), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        avg_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out)


def avg_pool(TensorBase x not None, tuple size not None, kernel=None, stride=None, padding=None, bint count_padding=True, divisor=None):
    """Averages of windows of x[N, C, ...]. IN: size, the output's; no kernel: adaptive windows."""
    cdef Pool p
    cdef int code = float_code("avg_pool", x)
    x = packed(x)
    cdef TensorBase lists = begin(&p, x.shape[2:], size, kernel, stride, padding, None, count_padding, divisor)
    p.planes = <Py_ssize_t>x.shape[0] * <Py_ssize_t>x.shape[1]
    cdef TensorBase out = empty_host(x.shape[:2] + size, x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                avg_all(&p, <const float*>source, <float*>target)
            else:
                avg_all(&p, <const double*>source, <double*>target)
    return out


cdef void share_line(Pool* p, const real* g, Py_ssize_t z, Py_ssize_t y, real* out) noexcept nogil:
    """Add each gradient of a line, divided, to all of its window in a plane."""
    cdef real shares[LINE]
    cdef Py_ssize_t i, j, o, k, n, low, high, start = 0
    cdef real* row
    while start < p.x.outs:
        n = min(LINE, p.x.outs - start)
        divide(p, g + start, z, y, start, n, &shares[0])
        low, high = max(0, min(p.x.low - start, n)), max(0, min(p.x.high - start, n))      # of these, the whole windows
        for i in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
            for j in range(p.y.start[y], p.y.start[y] + p.y.count[y]):
                row = out + (i * p.y.n + j) * p.x.n
                for o in range(0, low):
                    for k in range(p.x.count[start + o]):
                        row[p.x.start[start + o] + k] += shares[o]
                if high > low:
                    if real is float:
                        share_line_32(&shares[low], p.x.kernel, p.x.stride, high - low, row + p.x.start[start + low])
                    else:
                        share_line_64(&shares[low], p.x.kernel, p.x.stride, high - low, row + p.x.start[start + low])
                for o in range(high, n):
                    for k in range(p.x.count[start + o]):
                        row[p.x.start[start + o] + k] += shares[o]
        start += n


cdef void share_planes(Pool* p, const real* g, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef Py_ssize_t plane, z, y
    memset(out + first * p.size, 0, (last - first) * p.size * sizeof(real))
    for plane in range(first, last):
        for z in range(p.z.outs):
            for y in range(p.y.outs):
                share_line(p, g + ((plane * p.z.outs + z) * p.y.outs + y) * p.x.outs, z, y, out + plane * p.size)


cdef void share_all(Pool* p, const real* g, real* out) noexcept nogil:
    cdef int threads = pool_threads(p), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        share_planes(p, g, p.planes * t // threads, p.planes * (t + 1) // threads, out)


def avg_pool_grad(TensorBase g not None, tuple size not None, kernel=None, stride=None, padding=None, bint count_padding=True,
                  divisor=None):
    """Gradient of avg_pool with respect to its input [N, C, *size]."""
    cdef Pool p
    cdef int code = float_code("avg_pool_grad", g)
    g = packed(g)
    cdef TensorBase lists = begin(&p, size, g.shape[2:], kernel, stride, padding, None, count_padding, divisor)
    p.planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef TensorBase out = empty_host(g.shape[:2] + size, g.dtype)
    cdef void* source = address(g)
    cdef void* target = address(out)
    with nogil:
        if code == FLOAT32:
            share_all(&p, <const float*>source, <float*>target)
        else:
            share_all(&p, <const double*>source, <double*>target)
    return out


KERNELS = {"avg_pool": avg_pool, "avg_pool_grad": avg_pool_grad}
