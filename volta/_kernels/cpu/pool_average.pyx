# Pooling over one to three dimensions: averages of windows, and their gradients.
#
# Layout: planes [N * C] of depth x height x width, contiguous; fewer dimensions have size 1 in front. Windows: see pool_plan.pxd. Whole
#   windows of usual sizes are worked side by side; a gradient is shared along a row of windows at once.
# Threads: over lines of outputs; gradients over planes, so that they need no atomics and have a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.views cimport float_code
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.pool_plan cimport (
    COLUMNS, Pool, begin, by_columns, by_vectors, inside, pool_by_vectors, pool_threads, whole_lines, window_of)
from volta._kernels.cpu.pool_vectors cimport WIDEST
from volta._kernels.cpu.pixels cimport from_rows, pixel_rows
from volta._kernels.cpu.pool_pixels cimport gradient_by_pixels, pool_by_pixels
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sums cimport column_sums32, column_sums64, line_sum

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
      #define VOLTA_OUTLINE __declspec(noinline)
    #else
      #define VOLTA_RESTRICT __restrict__
      #define VOLTA_OUTLINE __attribute__((noinline))
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
    static VOLTA_OUTLINE void volta_mean_##HEIGHT##WIDTH##STRIDE##_##S(const T* VOLTA_RESTRICT x, Py_ssize_t width, Py_ssize_t step, \\
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
    #define VOLTA_MEAN_WHOLE_32(HEIGHT, WIDTH, STRIDE) VOLTA_MEAN_WHOLE(32, float, HEIGHT, WIDTH, STRIDE)
    #define VOLTA_MEAN_WHOLE_64(HEIGHT, WIDTH, STRIDE) VOLTA_MEAN_WHOLE(64, double, HEIGHT, WIDTH, STRIDE)
    #define VOLTA_MEAN_PICK_32(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE) ? volta_mean_##HEIGHT##WIDTH##STRIDE##_32 :
    #define VOLTA_MEAN_PICK_64(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE) ? volta_mean_##HEIGHT##WIDTH##STRIDE##_64 :
    /* By what a window is called. */
    #define VOLTA_MEANS_WHOLE(S, T)                                                                                 \\
    VOLTA_POOL_SIZES(VOLTA_MEAN_WHOLE_##S)                                                                          \\
    static void volta_mean_whole_##S(int window, const T* x, Py_ssize_t width, Py_ssize_t step, Py_ssize_t lines,   \\
                                     Py_ssize_t n, Py_ssize_t outs, T divisor, T* out) {                            \\
        void (*f)(const T*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, T, T*) =                    \\
            VOLTA_POOL_SIZES(VOLTA_MEAN_PICK_##S) NULL;                                                             \\
        f(x, width, step, lines, n, outs, divisor, out);                                                            \\
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
    void mean_whole_32 "volta_mean_whole_32"(int, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, float,
                                             float*) noexcept nogil
    void mean_whole_64 "volta_mean_whole_64"(int, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double,
                                             double*) noexcept nogil

cdef enum:
    NARROW = 16                 # columns of a window up to which they are added one by one


cdef inline void divide(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t start, Py_ssize_t n, real* out) noexcept nogil:
    """By what the windows start .. start + n of a line divide."""
    if real is float:
        divide_line_32(x, p.x.span + start, p.z.span[z] * p.y.span[y], p.divisor, n, out)
    else:
        divide_line_64(x, p.x.span + start, p.z.span[z] * p.y.span[y], p.divisor, n, out)


cdef void sum_row(Pool* p, const real* x, Py_ssize_t start, Py_ssize_t end, real* out) noexcept nogil:
    """Add a row of a plane to the windows start .. end of a line of sums."""
    cdef Py_ssize_t o, k, first, last
    if p.adaptive or p.x.kernel > WIDEST:
        for o in range(start, end):
            out[o] += <real>line_sum(x + p.x.start[o], p.x.count[o])
        return
    if end - start < 2:                                     # in the order of what follows
        for k in range(p.x.start[start], p.x.start[start] + p.x.count[start]):
            out[start] += x[k]
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


cdef void avg_columns(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, real* out) noexcept nogil:
    """A line of windows from the sums of columns of their rows."""
    cdef double columns[COLUMNS]
    cdef double sum
    cdef Py_ssize_t o, k
    cdef const real* rows
    memset(columns, 0, p.x.n * sizeof(double))
    for k in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
        rows = x + (k * p.y.n + p.y.start[y]) * p.x.n
        if real is float:
            column_sums32(columns, <const char*>rows, p.x.n * sizeof(real), p.y.count[y], p.x.n)
        else:
            column_sums64(columns, <const char*>rows, p.x.n * sizeof(real), p.y.count[y], p.x.n)
    for o in range(p.x.outs):
        if p.x.count[o] > NARROW:
            sum = line_sum(<const double*>&columns[0] + p.x.start[o], p.x.count[o])
        else:
            sum = 0
            for k in range(p.x.start[o], p.x.start[o] + p.x.count[o]):
                sum += columns[k]
        out[o] = <real>sum
    divide(p, <const real*>out, z, y, 0, p.x.outs, out)


cdef void avg_line(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t start, Py_ssize_t end, real* out) noexcept nogil:
    """The windows start .. end of a line of a plane."""
    cdef Py_ssize_t i, j
    if start >= end:
        return
    if by_columns(p) or p.z.kernel > 1 and p.x.n <= COLUMNS:
        avg_columns(p, x, z, y, out)                        # volumes too: their rows are many, and shorter than a call is worth
        return
    memset(out + start, 0, (end - start) * sizeof(real))
    for i in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
        for j in range(p.y.start[y], p.y.start[y] + p.y.count[y]):
            sum_row(p, x + (i * p.y.n + j) * p.x.n, start, end, out)
    divide(p, <const real*>out + start, z, y, start, end - start, out + start)


cdef Py_ssize_t avg_whole(Pool* p, int window, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t lines, real* out) noexcept nogil:
    """The whole windows of up to so many lines of a plane: how many lines there were. IN: x, the plane. OUT: from the first line on."""
    cdef Py_ssize_t at = 0, low = p.x.low, n = p.x.high - low, step = p.y.stride * p.x.n
    cdef real divisor = <real>(p.divisor if p.divisor != 0 else p.y.kernel * p.x.kernel)
    lines = whole_lines(p, window, z, y, lines, &at)
    if lines == 0:
        return 0
    if real is float:
        mean_whole_32(window, x + at, p.x.n, step, lines, n, p.x.outs, divisor, out + low)
    else:
        mean_whole_64(window, x + at, p.x.n, step, lines, n, p.x.outs, divisor, out + low)
    return lines


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
    if threads == 1:
        avg_lines(p, x, 0, lines, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        avg_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out)


def avg_pool(TensorBase x not None, size, kernel=None, stride=None, padding=None, bint count_padding=True, divisor=None):
    """Averages of windows of x[N, C, ...]. IN: size, the output's; no kernel: adaptive windows."""
    size = plain(size)
    cdef Pool p
    cdef int code = float_code("avg_pool", x)
    cdef TensorBase rows = pixel_rows(x)
    x = packed(x) if rows is None else x
    cdef TensorBase lists = begin(&p, x.shape[2:], size, kernel, stride, padding, None, count_padding, divisor)
    p.planes = <Py_ssize_t>x.shape[0] * <Py_ssize_t>x.shape[1]
    cdef TensorBase out = empty_host(x.shape[:2] + size, x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef Py_ssize_t images = x.shape[0], channels = x.shape[1]
    if rows is not None and out.size:
        with nogil:
            if code == FLOAT32:
                pool_by_pixels(&p, <const float*>source, images, channels, True, <float*>target, <int64_t*>NULL)
            else:
                pool_by_pixels(&p, <const double*>source, images, channels, True, <double*>target, <int64_t*>NULL)
        return from_rows(out, out.shape)
    if out.size:
        with nogil:
            if code == FLOAT32:
                avg_all(&p, <const float*>source, <float*>target)
            else:
                avg_all(&p, <const double*>source, <double*>target)
    return out


cdef void share_line(Pool* p, const real* g, Py_ssize_t z, Py_ssize_t y, real* out, real* shares, real* row) noexcept nogil:
    """Add each gradient of a line, divided, to all of its window in a plane. IN: room for as many shares, and for a row."""
    cdef Py_ssize_t i, j, o, k
    divide(p, g, z, y, 0, p.x.outs, shares)
    memset(row, 0, p.x.n * sizeof(real))
    for o in range(p.x.outs):
        if o == p.x.low and p.x.high > p.x.low:                     # the whole windows
            if real is float:
                share_line_32(shares + o, p.x.kernel, p.x.stride, p.x.high - o, row + p.x.start[o])
            else:
                share_line_64(shares + o, p.x.kernel, p.x.stride, p.x.high - o, row + p.x.start[o])
        if o < p.x.low or o >= p.x.high:
            for k in range(p.x.start[o], p.x.start[o] + p.x.count[o]):
                row[k] += shares[o]
    for i in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
        for j in range(p.y.start[y], p.y.start[y] + p.y.count[y]):
            if real is float:
                sum_line_32(row, 1, p.x.n, out + (i * p.y.n + j) * p.x.n)
            else:
                sum_line_64(row, 1, p.x.n, out + (i * p.y.n + j) * p.x.n)


cdef void share_planes(Pool* p, const real* g, Py_ssize_t first, Py_ssize_t last, real* out, real* shares) noexcept nogil:
    cdef Py_ssize_t plane, z, y
    memset(out + first * p.size, 0, (last - first) * p.size * sizeof(real))
    for plane in range(first, last):
        for z in range(p.z.outs):
            for y in range(p.y.outs):
                share_line(p, g + ((plane * p.z.outs + z) * p.y.outs + y) * p.x.outs, z, y, out + plane * p.size, shares, shares + p.x.outs)


cdef void share_all(Pool* p, const real* g, real* out):
    """Allocates."""
    cdef int threads = pool_threads(p), t
    cdef Py_ssize_t own = (p.x.outs + p.x.n + 15) // 16 * 16
    cdef Storage scratch = host_storage(threads * own * sizeof(real))
    cdef real* shares = <real*>scratch.data
    if threads == 1:
        share_planes(p, g, 0, p.planes, out, shares)
        return
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            share_planes(p, g, p.planes * t // threads, p.planes * (t + 1) // threads, out, shares + t * own)


def avg_pool_grad(TensorBase g not None, size, kernel=None, stride=None, padding=None, bint count_padding=True,
                  divisor=None):
    """Gradient of avg_pool with respect to its input [N, C, *size]."""
    size = plain(size)
    cdef Pool p
    cdef int code = float_code("avg_pool_grad", g)
    cdef TensorBase rows = pixel_rows(g)
    g = packed(g) if rows is None else g
    cdef TensorBase lists = begin(&p, size, g.shape[2:], kernel, stride, padding, None, count_padding, divisor)
    p.planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef TensorBase out = empty_host(g.shape[:2] + size, g.dtype)
    cdef Py_ssize_t images = g.shape[0], channels = g.shape[1]
    if rows is not None and out.size:
        if code == FLOAT32:
            gradient_by_pixels(&p, <const float*>address(g), <const int64_t*>NULL, images, channels, p.outs, p.size, <float*>address(out))
        else:
            gradient_by_pixels(&p, <const double*>address(g), <const int64_t*>NULL, images, channels, p.outs, p.size,
                               <double*>address(out))
        return from_rows(out, out.shape)
    if code == FLOAT32:
        share_all(&p, <const float*>address(g), <float*>address(out))
    else:
        share_all(&p, <const double*>address(g), <double*>address(out))
    return out


KERNELS = {"avg_pool": avg_pool, "avg_pool_grad": avg_pool_grad}
