# Maxima of windows without their places: what pool.pyx computes, for what needs no gradient. And maxima of windows that begin at random
# steps (fractional max pooling), with their places.
#
# Layout: planes [N * C] of depth x height x width, contiguous; fewer dimensions have size 1 in front. Windows: see pool_plan.pxd, of random
# steps `Shifted`. A NaN wins, padding never does; of padding alone -inf. Of equal elements the first wins, of NaN the last.
# Threads: over lines of outputs. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.size cimport plain
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.pool_plan cimport Pool, begin, pool_threads
from volta._kernels.cpu.pixels cimport from_rows, pixel_rows
from volta._kernels.cpu.pool_pixels cimport pool_by_pixels
from volta._kernels.cpu.real cimport real

cdef extern from *:
    """
    #define VOLTA_TOP(v, top) ((v) > (top) || (v) != (v) ? (v) : (top))
    #define VOLTA_TOP_LINE(T, STRIDE) for (j = 0; j < n; j++) { const T v = x[j * STRIDE]; out[j] = (v > out[j]) | (v != v) ? v : out[j]; }
    #define VOLTA_TOP_ROW(T, KERNEL, STRIDE)                                                                        \\
        for (j = 0; j < n; j++) {                                                                                   \\
            T top = out[j], v;                                                                                      \\
            v = x[j * STRIDE], top = (v > top) | (v != v) ? v : top;                                                \\
            v = x[j * STRIDE + 1], top = (v > top) | (v != v) ? v : top;                                            \\
            if (KERNEL > 2) v = x[j * STRIDE + 2], top = (v > top) | (v != v) ? v : top;                            \\
            out[j] = top;                                                                                           \\
        }
    /* A window has `slices`, `slice` apart, of `rows`, `row` apart, of `kernel` elements, `step` apart. */
    #define VOLTA_TOPS(S, T)                                                                                        \\
    /* One element of each of n windows, `stride` apart. */                                                         \\
    static void volta_tops_line_##S(const T* __restrict x, Py_ssize_t stride, Py_ssize_t n, T* __restrict out) {    \\
        Py_ssize_t j;                                                                                               \\
        if (stride == 1) { VOLTA_TOP_LINE(T, 1) }                                                                   \\
        else if (stride == 2) { VOLTA_TOP_LINE(T, 2) }                                                              \\
        else { VOLTA_TOP_LINE(T, stride) }                                                                          \\
    }                                                                                                               \\
    /* The elements of a row, `step` apart, of each of n windows. Of usual windows all at once. */                  \\
    static void volta_tops_row_##S(const T* __restrict x, Py_ssize_t kernel, Py_ssize_t step, Py_ssize_t stride, Py_ssize_t n, \\
                                   T* __restrict out) {                                                             \\
        Py_ssize_t j, k;                                                                                            \\
        if (step == 1 && kernel == 2 && stride == 2) { VOLTA_TOP_ROW(T, 2, 2) }                                     \\
        else if (step == 1 && kernel == 3 && stride == 2) { VOLTA_TOP_ROW(T, 3, 2) }                                \\
        else if (step == 1 && kernel == 3 && stride == 1) { VOLTA_TOP_ROW(T, 3, 1) }                                \\
        else for (k = 0; k < kernel; k++) volta_tops_line_##S(x + k * step, stride, n, out);                        \\
    }                                                                                                               \\
    /* n whole windows side by side, of which 256 stay in the nearest cache. */                                     \\
    static void volta_tops_plain_##S(const T* x, Py_ssize_t slices, Py_ssize_t slice, Py_ssize_t rows, Py_ssize_t row,\\
                                     Py_ssize_t kernel, Py_ssize_t step, Py_ssize_t stride, Py_ssize_t n, T* out) { \\
        Py_ssize_t i, j, m;                                                                                         \\
        for (; n > 0; n -= m, x += m * stride, out += m) {                                                          \\
            m = n < 256 ? n : 256;                                                                                  \\
            for (j = 0; j < m; j++) out[j] = -(T)INFINITY;                                                          \\
            for (i = 0; i < slices; i++)                                                                            \\
                for (j = 0; j < rows; j++) volta_tops_row_##S(x + i * slice + j * row, kernel, step, stride, m, out);\\
        }                                                                                                           \\
    }                                                                                                               \\
    /* The largest of n elements and what was known before. Neighbours are taken in vectors. */                     \\
    static T volta_top_run_##S(const T* x, Py_ssize_t n, Py_ssize_t step, T top) {                                  \\
        T tops[32];                                                                                                 \\
        Py_ssize_t i = 0;                                                                                           \\
        int j;                                                                                                      \\
        if (step == 1 && n >= 64) {                                                                                 \\
            for (j = 0; j < 32; j++) tops[j] = x[j];                                                                \\
            for (i = 32; i <= n - 32; i += 32)                                                                      \\
                for (j = 0; j < 32; j++) { const T v = x[i + j]; tops[j] = (v > tops[j]) | (v != v) ? v : tops[j]; }\\
            for (j = 0; j < 32; j++) top = VOLTA_TOP(tops[j], top);                                                 \\
        }                                                                                                           \\
        for (; i < n; i++) top = VOLTA_TOP(x[i * step], top);                                                       \\
        return top;                                                                                                 \\
    }
    VOLTA_TOPS(32, float)
    VOLTA_TOPS(64, double)
    #define volta_tops_64 volta_tops_plain_64
    #if defined(__AVX512F__)
    /* 16 windows at a time, whose elements are never read beyond the last one's. */
    static inline void volta_tops_of(const float* x, Py_ssize_t slices, Py_ssize_t slice, Py_ssize_t rows, Py_ssize_t row,
                                     Py_ssize_t kernel, Py_ssize_t step, int stride, Py_ssize_t n, float* out) {
        Py_ssize_t i, j, k;
        for (; n > 0; n -= 16, x += 16 * stride, out += 16) {
            const int m = n < 16 ? (int)n : 16;
            const __mmask16 all = (__mmask16)((1u << m) - 1);
            const unsigned long long span = (1ull << ((m - 1) * (stride < 5 ? stride : 1) + 1)) - 1;
            __m512 top = _mm512_set1_ps(-INFINITY);
            for (i = 0; i < slices; i++)
                for (j = 0; j < rows; j++)
                    for (k = 0; k < kernel; k++) {
                        /* The greater of two, the second where one is NaN; where that is the first, it. */
                        const __m512 v = volta_every(x + i * slice + j * row + k * step, stride, all, span);
                        top = _mm512_mask_max_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v, top);
                    }
            _mm512_mask_storeu_ps(out, all, top);
        }
    }
    static void volta_tops_32(const float* x, Py_ssize_t slices, Py_ssize_t slice, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t kernel,
                              Py_ssize_t step, Py_ssize_t stride, Py_ssize_t n, float* out) {
        const int plain = slices == 1 && step == 1 && rows < 10 && kernel < 10 && stride < 10;
        const int window = plain ? (int)(rows * 100 + kernel * 10 + stride) : 0;
        switch (window) {
        case 122: volta_tops_of(x, 1, 0, 1, 0, 2, 1, 2, n, out); break;
        case 131: volta_tops_of(x, 1, 0, 1, 0, 3, 1, 1, n, out); break;
        case 132: volta_tops_of(x, 1, 0, 1, 0, 3, 1, 2, n, out); break;
        case 222: volta_tops_of(x, 1, 0, 2, row, 2, 1, 2, n, out); break;
        case 332: volta_tops_of(x, 1, 0, 3, row, 3, 1, 2, n, out); break;
        case 331: volta_tops_of(x, 1, 0, 3, row, 3, 1, 1, n, out); break;
        default:
            switch (stride) {
            case 1: volta_tops_of(x, slices, slice, rows, row, kernel, step, 1, n, out); break;
            case 2: volta_tops_of(x, slices, slice, rows, row, kernel, step, 2, n, out); break;
            case 3: volta_tops_of(x, slices, slice, rows, row, kernel, step, 3, n, out); break;
            case 4: volta_tops_of(x, slices, slice, rows, row, kernel, step, 4, n, out); break;
            default:
                if (stride > 1 << 24) volta_tops_plain_32(x, slices, slice, rows, row, kernel, step, stride, n, out);
                else volta_tops_of(x, slices, slice, rows, row, kernel, step, (int)stride, n, out);
            }
        }
    }
    #elif defined(__AVX__)
    #include <immintrin.h>
    /* `vectors` of neighbouring windows, 4 at most. */
    static inline void volta_tops_near(const float* x, Py_ssize_t slices, Py_ssize_t slice, Py_ssize_t rows, Py_ssize_t row,
                                       Py_ssize_t kernel, Py_ssize_t step, const int vectors, float* out) {
        __m256 top[4];
        Py_ssize_t i, j, k;
        int m;
        for (m = 0; m < vectors; m++) top[m] = _mm256_set1_ps(-INFINITY);
        for (i = 0; i < slices; i++)
            for (j = 0; j < rows; j++)
                for (k = 0; k < kernel; k++)
                    for (m = 0; m < vectors; m++) {
                        /* The greater of two, the second where one is NaN; where that is the first, it. */
                        const __m256 v = _mm256_loadu_ps(x + i * slice + j * row + k * step + 8 * m);
                        top[m] = _mm256_blendv_ps(_mm256_max_ps(v, top[m]), v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
                    }
        for (m = 0; m < vectors; m++) _mm256_storeu_ps(out + 8 * m, top[m]);
    }
    /* Of windows side by side; the last 8 may overlap. */
    static void volta_tops_32(const float* x, Py_ssize_t slices, Py_ssize_t slice, Py_ssize_t rows, Py_ssize_t row, Py_ssize_t kernel,
                              Py_ssize_t step, Py_ssize_t stride, Py_ssize_t n, float* out) {
        Py_ssize_t o = 0;
        if (stride > 1 || n < 8) { volta_tops_plain_32(x, slices, slice, rows, row, kernel, step, stride, n, out); return; }
        for (; o + 32 <= n; o += 32) {
            if (slices * rows == 1 && kernel == 3) volta_tops_near(x + o, 1, 0, 1, 0, 3, step, 4, out + o);
            else volta_tops_near(x + o, slices, slice, rows, row, kernel, step, 4, out + o);
        }
        for (; o < n; o += 8) {
            if (o + 8 > n) o = n - 8;
            volta_tops_near(x + o, slices, slice, rows, row, kernel, step, 1, out + o);
        }
    }
    #else
    #define volta_tops_32 volta_tops_plain_32
    #endif
    """
    void tops_32 "volta_tops_32"(const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                 Py_ssize_t, float*) noexcept nogil
    void tops_64 "volta_tops_64"(const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                 Py_ssize_t, double*) noexcept nogil
    float run_32 "volta_top_run_32"(const float*, Py_ssize_t, Py_ssize_t, float) noexcept nogil
    double run_64 "volta_top_run_64"(const double*, Py_ssize_t, Py_ssize_t, double) noexcept nogil

cdef enum:
    LONG = 64                   # elements of a window along a line, from which on it is worked alone


cdef void one_by_one(Pool* p, const real* x, Py_ssize_t slices, Py_ssize_t rows, Py_ssize_t start, Py_ssize_t stop,
                     real* out) noexcept nogil:
    """The windows start .. stop of a line. IN: x, the row that they begin with."""
    cdef Py_ssize_t o, i, j
    cdef const real* row
    cdef real top
    for o in range(start, stop):
        top = -INFINITY
        for i in range(slices):
            for j in range(rows):
                row = x + (i * p.z.step * p.y.n + j * p.y.step) * p.x.n + p.x.start[o]
                if real is float:
                    top = run_32(row, p.x.count[o], p.x.step, top)
                else:
                    top = run_64(row, p.x.count[o], p.x.step, top)
        out[o] = top


cdef void some_lines(Pool* p, const real* x, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef bint alone = p.adaptive or p.x.step == 1 and p.x.kernel >= LONG
    cdef Py_ssize_t low = 0 if alone else p.x.low, high = 0 if alone else p.x.high, skipped = low * p.x.stride - p.x.padding
    cdef Py_ssize_t line, y, z, slice = p.z.step * p.y.n * p.x.n, row = p.y.step * p.x.n
    cdef const real* source
    cdef real* target
    for line in range(first, last):
        z, y = line // p.y.outs % p.z.outs, line % p.y.outs
        source = x + line // (p.z.outs * p.y.outs) * p.size + (p.z.start[z] * p.y.n + p.y.start[y]) * p.x.n
        target = out + line * p.x.outs
        if p.z.count[z] == 0 or p.y.count[y] == 0:
            one_by_one(p, source, 0, 0, 0, p.x.outs, target)
            continue
        one_by_one(p, source, p.z.count[z], p.y.count[y], 0, low, target)
        if real is float:
            tops_32(source + skipped, p.z.count[z], slice, p.y.count[y], row, p.x.kernel, p.x.step, p.x.stride, high - low, target + low)
        else:
            tops_64(source + skipped, p.z.count[z], slice, p.y.count[y], row, p.x.kernel, p.x.step, p.x.stride, high - low, target + low)
        one_by_one(p, source, p.z.count[z], p.y.count[y], high, p.x.outs, target)


cdef void all_lines(Pool* p, const real* x, real* out) noexcept nogil:
    cdef Py_ssize_t lines = p.planes * p.z.outs * p.y.outs
    cdef int threads = pool_threads(p), t
    if threads == 1:
        some_lines(p, x, 0, lines, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        some_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out)


def max_pool_values(TensorBase x not None, size, kernel=None, stride=None, padding=None, dilation=None):
    """The largest of each window of x[N, C, ...]. IN: size, the output's; no kernel: adaptive windows."""
    size = plain(size)
    cdef Pool p
    cdef int code = float_code("max_pool_values", x)
    cdef TensorBase rows = pixel_rows(x)
    x = packed(x) if rows is None else x
    cdef tuple shape = x.shape
    cdef TensorBase lists = begin(&p, shape[2:], size, kernel, stride, padding, dilation, False, 0)
    p.planes = <Py_ssize_t>shape[0] * <Py_ssize_t>shape[1]
    cdef TensorBase out = empty_host(shape[:2] + size, x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef Py_ssize_t images = x.shape[0], channels = x.shape[1]
    if rows is not None and out.size:
        with nogil:
            if code == FLOAT32:
                pool_by_pixels(&p, <const float*>source, images, channels, False, <float*>target, <int64_t*>NULL)
            else:
                pool_by_pixels(&p, <const double*>source, images, channels, False, <double*>target, <int64_t*>NULL)
        return from_rows(out, out.shape)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_lines(&p, <const float*>source, <float*>target)
            else:
                all_lines(&p, <const double*>source, <double*>target)
    return out


# ---------------------------------------------------------------- windows that begin at random steps

cdef struct Steps:
    Py_ssize_t n                # elements
    Py_ssize_t outs
    Py_ssize_t kernel

cdef struct Shifted:
    Py_ssize_t planes
    Py_ssize_t rank             # of the planes, 2 or 3
    Steps z
    Steps y
    Steps x


cdef void shifted_starts(Steps* a, real sample, int64_t* starts) noexcept nogil:
    """Where the windows along an axis begin: by steps that the sample shifts, the last one at the end. Clipped, whatever the sample is."""
    cdef Py_ssize_t i, last = a.n - a.kernel
    cdef real step = <real>last / <real>(a.outs - 1) if a.outs > 1 else 0
    for i in range(a.outs - 1):
        starts[i] = min(max(<int64_t>((<real>i + sample) * step) - <int64_t>(sample * step), <int64_t>0), <int64_t>last)
    starts[a.outs - 1] = last


cdef void all_shifted(Shifted* w, const real* samples, int64_t* starts) noexcept nogil:
    """Of each plane those of depth, height and width. Two samples are of the width first."""
    cdef Py_ssize_t plane
    for plane in range(w.planes):
        if w.rank == 3:
            shifted_starts(&w.z, samples[0], starts)
        else:
            starts[0] = 0
        shifted_starts(&w.y, samples[1], starts + w.z.outs)
        shifted_starts(&w.x, samples[2 if w.rank == 3 else 0], starts + w.z.outs + w.y.outs)
        starts += w.z.outs + w.y.outs + w.x.outs
        samples += w.rank


cdef void some_shifted(Shifted* w, const real* x, const int64_t* starts, Py_ssize_t first, Py_ssize_t last, real* out,
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


cdef void shifted_windows(Shifted* w, const real* x, const real* samples, int64_t* starts, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t lines = w.planes * w.z.outs * w.y.outs
    cdef int threads = threads_for(lines * w.x.outs * w.z.kernel * w.y.kernel * w.x.kernel), t
    all_shifted(w, samples, starts)
    if threads == 1:
        some_shifted(w, x, starts, 0, lines, out, index)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        some_shifted(w, x, starts, lines * t // threads, lines * (t + 1) // threads, out, index)


def fractional_max_pool(TensorBase x not None, TensorBase samples not None, size, kernel):
    """(out, index): the largest of each window of x[planes, ...], and its place. IN: samples[planes, rank]; size, the output's."""
    cdef Shifted w
    cdef int code = float_code("fractional_max_pool", x)
    cdef tuple outs = plain(size), windows = plain(kernel), shape = (x.shape[0], *outs)
    cdef TensorBase drawn = empty_host(samples.shape, x.dtype)
    copy_data(drawn, samples)
    x = packed(x)
    w.planes, w.rank = x.shape[0], len(outs)
    w.z = Steps(x.shape[1], outs[0], windows[0]) if w.rank == 3 else Steps(1, 1, 1)
    w.y = Steps(x.shape[w.rank - 1], outs[w.rank - 2], windows[w.rank - 2])
    w.x = Steps(x.shape[w.rank], outs[w.rank - 1], windows[w.rank - 1])
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
                shifted_windows(&w, <const float*>source, <const float*>shifts, begins, <float*>target, places)
            else:
                shifted_windows(&w, <const double*>source, <const double*>shifts, begins, <double*>target, places)
    return out, index


KERNELS = {"fractional_max_pool": fractional_max_pool, "max_pool_values": max_pool_values}
