# Pooling of images and volumes whose channels lie together: a window of all channels of some pixels at a time.
#
# Layout: [N][pixels of a plane][C]. Windows: see pool_plan.pxd. Ties, NaN, padding: as in pool.pyx; places are the same, and gradients are
# added in the same order.
# Threads: over lines of outputs; gradients over images and blocks of channels, so that they need no atomics and have a fixed order.

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.pool_plan cimport Pool, pool_threads
from volta._kernels.cpu.real cimport real

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_APART __restrict
    #else
      #define VOLTA_APART __restrict__
    #endif
    #define VOLTA_PIXELS(S, T)                                                                                              \\
    static void volta_pixel_top_##S(const T* VOLTA_APART x, Py_ssize_t n, T* VOLTA_APART out) {                             \\
        Py_ssize_t c;                                                                                                       \\
        for (c = 0; c < n; c++) { const T v = x[c]; out[c] = (v > out[c]) | (v != v) ? v : out[c]; }                        \\
    }                                                                                                                       \\
    static void volta_pixel_place_##S(const T* VOLTA_APART x, int64_t at, Py_ssize_t n, T* VOLTA_APART out,                 \\
                                      int64_t* VOLTA_APART place) {                                                         \\
        Py_ssize_t c;                                                                                                       \\
        for (c = 0; c < n; c++) {                                                                                           \\
            const T v = x[c], top = out[c];                                                                                 \\
            const int wins = (v > top) | (v != v);                                                                          \\
            out[c] = wins ? v : top;                                                                                        \\
            place[c] = wins ? at : place[c];                                                                                \\
        }                                                                                                                   \\
    }                                                                                                                       \\
    static void volta_pixel_add_##S(const T* VOLTA_APART x, Py_ssize_t n, T* VOLTA_APART out) {                             \\
        Py_ssize_t c;                                                                                                       \\
        for (c = 0; c < n; c++) out[c] += x[c];                                                                             \\
    }                                                                                                                       \\
    static void volta_pixel_share_##S(const T* VOLTA_APART x, T by, Py_ssize_t n, T* VOLTA_APART out) {                     \\
        Py_ssize_t c;                                                                                                       \\
        for (c = 0; c < n; c++) out[c] = x[c] / by;                                                                         \\
    }                                                                                                                       \\
    static void volta_pixel_divide_##S(T by, Py_ssize_t n, T* VOLTA_APART out) {                                            \\
        Py_ssize_t c;                                                                                                       \\
        for (c = 0; c < n; c++) out[c] /= by;                                                                               \\
    }
    /* Vectors of channels. */
    #if defined(__AVX512F__)
      #define VOLTA_PIXEL_BYTES 64
    #else
      #define VOLTA_PIXEL_BYTES 32
    #endif
    #if defined(__GNUC__)
      typedef float volta_pixel_v32 __attribute__((vector_size(VOLTA_PIXEL_BYTES), aligned(4), may_alias));
      typedef double volta_pixel_v64 __attribute__((vector_size(VOLTA_PIXEL_BYTES), aligned(8), may_alias));
      #define VOLTA_PIXEL_LANES(T) (VOLTA_PIXEL_BYTES / (Py_ssize_t)sizeof(T))
    #else
      typedef float volta_pixel_v32;
      typedef double volta_pixel_v64;
      #define VOLTA_PIXEL_LANES(T) 1
    #endif
    /* N vectors of channels: the means of `count` pixels. */
    #define VOLTA_PIXEL_MEAN(S, T, N)                                                                                       \\
    static inline void volta_pixel_mean_##S##_##N(const T* x, const Py_ssize_t* at, Py_ssize_t count, T by, T* out) {       \\
        volta_pixel_v##S sum[N];                                                                                            \\
        Py_ssize_t t; int j;                                                                                                \\
        for (j = 0; j < N; j++) sum[j] = (volta_pixel_v##S){0};                                                             \\
        for (t = 0; t < count; t++)                                                                                         \\
            for (j = 0; j < N; j++) sum[j] += ((const volta_pixel_v##S*)(x + at[t]))[j];                                    \\
        for (j = 0; j < N; j++) ((volta_pixel_v##S*)out)[j] = sum[j] / by;                                                  \\
    }
    #define VOLTA_PIXEL_MEANS(S, T)                                                                                         \\
    VOLTA_PIXEL_MEAN(S, T, 4)                                                                                               \\
    VOLTA_PIXEL_MEAN(S, T, 1)                                                                                               \\
    static void volta_pixel_mean_##S(const T* x, const Py_ssize_t* at, Py_ssize_t count, T by, Py_ssize_t n, T* out) {      \\
        Py_ssize_t c = 0, t;                                                                                                \\
        for (; c + 4 * VOLTA_PIXEL_LANES(T) <= n; c += 4 * VOLTA_PIXEL_LANES(T)) volta_pixel_mean_##S##_4(x + c, at, count, by, out + c);\\
        for (; c + VOLTA_PIXEL_LANES(T) <= n; c += VOLTA_PIXEL_LANES(T)) volta_pixel_mean_##S##_1(x + c, at, count, by, out + c);\\
        for (; c < n; c++) {                                                                                                \\
            T sum = 0;                                                                                                      \\
            for (t = 0; t < count; t++) sum += x[at[t] + c];                                                                \\
            out[c] = sum / by;                                                                                              \\
        }                                                                                                                   \\
    }
    VOLTA_PIXEL_MEANS(32, float)
    VOLTA_PIXEL_MEANS(64, double)
    VOLTA_PIXELS(32, float)
    VOLTA_PIXELS(64, double)
    """
    void pixel_top_32 "volta_pixel_top_32"(const float*, Py_ssize_t, float*) noexcept nogil
    void pixel_top_64 "volta_pixel_top_64"(const double*, Py_ssize_t, double*) noexcept nogil
    void pixel_place_32 "volta_pixel_place_32"(const float*, int64_t, Py_ssize_t, float*, int64_t*) noexcept nogil
    void pixel_place_64 "volta_pixel_place_64"(const double*, int64_t, Py_ssize_t, double*, int64_t*) noexcept nogil
    void pixel_add_32 "volta_pixel_add_32"(const float*, Py_ssize_t, float*) noexcept nogil
    void pixel_add_64 "volta_pixel_add_64"(const double*, Py_ssize_t, double*) noexcept nogil
    void pixel_share_32 "volta_pixel_share_32"(const float*, float, Py_ssize_t, float*) noexcept nogil
    void pixel_share_64 "volta_pixel_share_64"(const double*, double, Py_ssize_t, double*) noexcept nogil
    void pixel_mean_32 "volta_pixel_mean_32"(const float*, const Py_ssize_t*, Py_ssize_t, float, Py_ssize_t, float*) noexcept nogil
    void pixel_mean_64 "volta_pixel_mean_64"(const double*, const Py_ssize_t*, Py_ssize_t, double, Py_ssize_t, double*) noexcept nogil
    void pixel_divide_32 "volta_pixel_divide_32"(float, Py_ssize_t, float*) noexcept nogil
    void pixel_divide_64 "volta_pixel_divide_64"(double, Py_ssize_t, double*) noexcept nogil

cdef enum:
    BLOCK = 16                  # channels that a thread takes of a gradient, at least
    SHARES = 64                 # that are divided at a time
    FEW = 64                    # elements of a window, of which a vector of channels is summed at a time


cdef inline Py_ssize_t place_in(Pool* p, Py_ssize_t z, Py_ssize_t y, Py_ssize_t x, Py_ssize_t i, Py_ssize_t j, Py_ssize_t k) noexcept nogil:
    """Where element i, j, k of a window lies in the plane."""
    return ((p.z.start[z] + i * p.z.step) * p.y.n + p.y.start[y] + j * p.y.step) * p.x.n + p.x.start[x] + k * p.x.step


cdef inline double divisor_of(Pool* p, Py_ssize_t z, Py_ssize_t y, Py_ssize_t x) noexcept nogil:
    return p.divisor if p.divisor != 0 else <double>(p.z.span[z] * p.y.span[y] * p.x.span[x])


# ---------------------------------------------------------------- forward

cdef inline void largest_of(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t o, Py_ssize_t n, real* out,
                            int64_t* index) noexcept nogil:
    """One window of all channels. IN: x, an image. OUT: out and index (NULL: not wanted) of its pixel."""
    cdef Py_ssize_t i, j, k, c, at
    cdef bint some = p.z.count[z] > 0 and p.y.count[y] > 0 and p.x.count[o] > 0
    at = place_in(p, z, y, o, 0, 0, 0) if some else -1
    for c in range(n):
        out[c] = -INFINITY
    if index != NULL:
        for c in range(n):
            index[c] = at
    for i in range(p.z.count[z]):
        for j in range(p.y.count[y]):
            for k in range(p.x.count[o]):
                at = place_in(p, z, y, o, i, j, k)
                if real is float:
                    if index == NULL:
                        pixel_top_32(x + at * n, n, out)
                    else:
                        pixel_place_32(x + at * n, at, n, out, index)
                else:
                    if index == NULL:
                        pixel_top_64(x + at * n, n, out)
                    else:
                        pixel_place_64(x + at * n, at, n, out, index)


cdef inline void mean_of(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t o, Py_ssize_t n, real* out) noexcept nogil:
    cdef Py_ssize_t at[FEW]
    cdef Py_ssize_t i, j, k, count = 0
    if p.z.count[z] * p.y.count[y] * p.x.count[o] <= FEW:
        for i in range(p.z.count[z]):
            for j in range(p.y.count[y]):
                for k in range(p.x.count[o]):
                    at[count] = place_in(p, z, y, o, i, j, k) * n
                    count += 1
        if real is float:
            pixel_mean_32(x, &at[0], count, <float>divisor_of(p, z, y, o), n, out)
        else:
            pixel_mean_64(x, &at[0], count, divisor_of(p, z, y, o), n, out)
        return
    memset(out, 0, n * sizeof(real))
    for i in range(p.z.count[z]):
        for j in range(p.y.count[y]):
            for k in range(p.x.count[o]):
                if real is float:
                    pixel_add_32(x + place_in(p, z, y, o, i, j, k) * n, n, out)
                else:
                    pixel_add_64(x + place_in(p, z, y, o, i, j, k) * n, n, out)
    if real is float:
        pixel_divide_32(<float>divisor_of(p, z, y, o), n, out)
    else:
        pixel_divide_64(divisor_of(p, z, y, o), n, out)


cdef inline void pool_line(Pool* p, const real* x, Py_ssize_t line, Py_ssize_t n, bint mean, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t image = line // (p.z.outs * p.y.outs), z = line // p.y.outs % p.z.outs, y = line % p.y.outs, o
    x += image * p.size * n
    for o in range(line * p.x.outs, (line + 1) * p.x.outs):
        if mean:
            mean_of(p, x, z, y, o - line * p.x.outs, n, out + o * n)
        else:
            largest_of(p, x, z, y, o - line * p.x.outs, n, out + o * n, index + o * n if index != NULL else <int64_t*>NULL)


cdef void pool_by_pixels(Pool* p, const real* x, Py_ssize_t images, Py_ssize_t n, bint mean, real* out,
                         int64_t* index) noexcept nogil:
    """Maxima, with their places unless index is NULL, or means of images of n channels. IN: the plan, of images * n planes."""
    cdef Py_ssize_t lines = images * p.z.outs * p.y.outs, line
    cdef int threads = pool_threads(p)
    if threads == 1:
        for line in range(lines):
            pool_line(p, x, line, n, mean, out, index)
        return
    for line in prange(lines, num_threads=threads, schedule="static"):
        pool_line(p, x, line, n, mean, out, index)


# ---------------------------------------------------------------- gradients

cdef inline void clear_block(Py_ssize_t size, Py_ssize_t channels, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef Py_ssize_t i
    if last - first == channels:
        memset(out, 0, size * channels * sizeof(real))
        return
    for i in range(size):
        memset(out + i * channels + first, 0, (last - first) * sizeof(real))


cdef inline void spread_block(Py_ssize_t outs, Py_ssize_t size, const real* g, const int64_t* index, Py_ssize_t channels, Py_ssize_t first,
                              Py_ssize_t last, real* out) noexcept nogil:
    """The channels first .. last of one image: each gradient to the place that its maximum came from. IN: outs and size, pixels."""
    cdef Py_ssize_t i, c
    clear_block(size, channels, first, last, out)
    for i in range(outs):
        for c in range(first, last):
            if 0 <= index[c] < size:
                out[index[c] * channels + c] += g[c]
        index += channels
        g += channels


cdef inline void share_block(Pool* p, const real* g, Py_ssize_t channels, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    """The channels first .. last of one image: a share of each gradient to all of its window."""
    cdef real shares[SHARES]
    cdef Py_ssize_t z, y, o, i, j, k, c, n, block
    clear_block(p.size, channels, first, last, out)
    out += first
    g += first
    for z in range(p.z.outs):
        for y in range(p.y.outs):
            for o in range(p.x.outs):
                for block in range((last - first + SHARES - 1) // SHARES):
                    c = block * SHARES
                    n = min(<Py_ssize_t>SHARES, last - first - c)
                    if real is float:
                        pixel_share_32(g + c, <float>divisor_of(p, z, y, o), n, &shares[0])
                    else:
                        pixel_share_64(g + c, divisor_of(p, z, y, o), n, &shares[0])
                    for i in range(p.z.count[z]):
                        for j in range(p.y.count[y]):
                            for k in range(p.x.count[o]):
                                if real is float:
                                    pixel_add_32(<const float*>&shares[0], n, out + place_in(p, z, y, o, i, j, k) * channels + c)
                                else:
                                    pixel_add_64(<const double*>&shares[0], n, out + place_in(p, z, y, o, i, j, k) * channels + c)
                g += channels


cdef void gradient_by_pixels(Pool* p, const real* g, const int64_t* index, Py_ssize_t images, Py_ssize_t n, Py_ssize_t outs,
                             Py_ssize_t size, real* out) noexcept nogil:
    """Of maxima, whose places `index` names, or, where that is NULL, of the means of a plan. IN: outs and size, pixels of a plane."""
    cdef int threads = threads_for(images * n * (2 * outs + size))
    cdef Py_ssize_t blocks = 1 if threads == 1 or images >= 4 * threads else max(<Py_ssize_t>1, n // BLOCK), item, image, first, last
    for item in prange(images * blocks, num_threads=threads, schedule="static"):
        image = item // blocks
        first, last = n * (item % blocks) // blocks, n * (item % blocks + 1) // blocks
        if index != NULL:
            spread_block(outs, size, g + image * outs * n, index + image * outs * n, n, first, last, out + image * size * n)
        else:
            share_block(p, g + image * outs * n, n, first, last, out + image * size * n)
