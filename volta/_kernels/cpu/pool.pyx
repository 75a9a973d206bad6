# Pooling over one to three dimensions: maxima of windows, and their gradients.
#
# Layout: planes [N * C] of depth x height x width, contiguous; fewer dimensions have size 1 in front. A place is an index into a plane.
# Windows: see pool_plan.pxd. Whole windows of usual sizes are worked side by side, without a branch.
# Ties: the first maximum in row-major order wins; a NaN wins, the last of several. Padding never wins; of padding alone -inf, at -1.
# Threads: over lines of outputs; gradients over planes, so that they need no atomics and have a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from volta.errors import DTypeError

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.pool_plan cimport (
    COLUMNS, Pool, begin, by_columns, by_vectors, inside, pool_by_vectors, pool_threads, whole_lines, window_of)
from volta._kernels.core.views cimport float_code
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.pixels cimport from_rows, pixel_rows
from volta._kernels.cpu.pool_pixels cimport gradient_by_pixels, pool_by_pixels
from volta._kernels.cpu.real cimport real

cdef extern from *:
    """
    #if defined(__AVX512F__)
      #include <immintrin.h>
    #endif
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
      #define VOLTA_OUTLINE __declspec(noinline)
    #else
      #define VOLTA_RESTRICT __restrict__
      #define VOLTA_OUTLINE __attribute__((noinline))
    #endif
    /* Take v where it is larger or NaN. */
    #define VOLTA_POOL_STEP(v, i) { int wins = (v > top) | (v != v); k = wins ? i : k; top = wins ? v : top; }
    /* a where mask is -1, b where it is 0, without a branch, since none could be foreseen. */
    #define VOLTA_POOL_CHOOSE(mask, a, b) (((a) & (mask)) | ((b) & ~(mask)))
    #define VOLTA_POOL_LINE(T, STRIDE, I)                                                                       \\
        for (j = 0; j < n; j++) {                                                                               \\
            T v = x[j * STRIDE];                                                                                \\
            I wins = -(I)((v > out[j]) | (v != v));                                                             \\
            bits[j] = VOLTA_POOL_CHOOSE(wins, ((const I*)x)[j * STRIDE], bits[j]);                              \\
            place[j] = VOLTA_POOL_CHOOSE(wins, at + (I)j * (I)STRIDE, place[j]);                                \\
        }
    /* The same of up to 16 neighbours. */
    #if defined(__AVX512F__)
    static inline void volta_pool_few_32(const float* x, int at, Py_ssize_t n, float* out, int* place) {
        const __mmask16 some = (__mmask16)((1u << n) - 1);
        const __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m512 v = _mm512_maskz_loadu_ps(some, x);
        const __mmask16 wins = some & (_mm512_cmp_ps_mask(v, _mm512_maskz_loadu_ps(some, out), _CMP_GT_OQ)
                                       | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
        _mm512_mask_storeu_ps(out, wins, v);
        _mm512_mask_storeu_epi32(place, wins, _mm512_add_epi32(order, _mm512_set1_epi32(at)));
    }
    #else
    #define volta_pool_few_32(x, at, n, out, place) volta_pool_some_32(x, 1, at, n, out, place)
    #endif
    #define volta_pool_few_64(x, at, n, out, place) volta_pool_some_64(x, 1, at, n, out, place)
    #define VOLTA_POOL(S, T, I)                                                                                     \\
    /* One element of each of n windows side by side: the elements lie `stride` apart from place `at` on. */        \\
    static VOLTA_OUTLINE void volta_pool_some_##S(const T* VOLTA_RESTRICT x, Py_ssize_t stride, I at, Py_ssize_t n, \\
                                                T* VOLTA_RESTRICT out, I* VOLTA_RESTRICT place) {                   \\
        Py_ssize_t j;                                                                                               \\
        I* bits = (I*)out;                                                                                          \\
        if (stride == 1) { VOLTA_POOL_LINE(T, 1, I) }                                                               \\
        else if (stride == 2) { VOLTA_POOL_LINE(T, 2, I) }                                                          \\
        else { VOLTA_POOL_LINE(T, stride, I) }                                                                      \\
    }                                                                                                               \\
    /* The same by whole vectors: where the last one is none, 16 before the end. To take an element twice changes nothing. */ \\
    static void volta_pool_line_##S(const T* x, Py_ssize_t stride, I at, Py_ssize_t n, T* out, I* place) {          \\
        Py_ssize_t rest = n > 16 ? n % 16 : 0, last = n - 16;                                                       \\
        if (n <= 16 && stride == 1) { volta_pool_few_##S(x, at, n, out, place); return; }                           \\
        volta_pool_some_##S(x, stride, at, n - rest, out, place);                                                   \\
        if (rest) volta_pool_some_##S(x + last * stride, stride, at + (I)(last * stride), 16, out + last, place + last); \\
    }                                                                                                               \\
    /* Of n windows the largest among count[j] columns from start[j] on, whose largest and their places are known. */ \\
    static void volta_pool_across_##S(const T* top, const I* at, const int64_t* start, const int64_t* count, Py_ssize_t n, \\
                                      T* VOLTA_RESTRICT out, int64_t* VOLTA_RESTRICT index) {                       \\
        Py_ssize_t j, k;                                                                                            \\
        for (j = 0; j < n; j++) {                                                                                   \\
            T best = count[j] > 0 ? top[start[j]] : -INFINITY;                                                      \\
            I place = count[j] > 0 ? at[start[j]] : -1;                                                             \\
            for (k = 1; k < count[j]; k++) {                                                                        \\
                const T v = top[start[j] + k];                                                                      \\
                const I i = at[start[j] + k];                                                                       \\
                const int wins = (v > best) | ((v == best) & (i < place)) | ((v != v) & ((best == best) | (i > place))); \\
                best = wins ? v : best;                                                                             \\
                place = wins ? i : place;                                                                           \\
            }                                                                                                       \\
            out[j] = best;                                                                                          \\
            index[j] = place;                                                                                       \\
        }                                                                                                           \\
    }                                                                                                               \\
    /* The places that n windows of a line begin with: at + start, or -1 where nothing is inside. */                \\
    static void volta_pool_begin_##S(const int64_t* VOLTA_RESTRICT start, const int64_t* VOLTA_RESTRICT count,      \\
                                     long long at, int some, Py_ssize_t n, T* VOLTA_RESTRICT out,                   \\
                                     I* VOLTA_RESTRICT place) {                                                     \\
        Py_ssize_t j;                                                                                               \\
        for (j = 0; j < n; j++) {                                                                                   \\
            out[j] = -INFINITY;                                                                                     \\
            place[j] = (I)(some && count[j] > 0 ? at + start[j] : -1);                                              \\
        }                                                                                                           \\
    }                                                                                                               \\
    /* n neighbours of one window, from place `at` on. Of few no branch is taken, since none could be foreseen; of many, 16 of \\
       which none is larger or NaN, as most are, are passed at once. */                                                     \\
    static void volta_pool_run_##S(const T* VOLTA_RESTRICT x, Py_ssize_t step, Py_ssize_t n, long long at,          \\
                                   T* VOLTA_RESTRICT out, int64_t* VOLTA_RESTRICT place) {                          \\
        T top = *out;                                                                                               \\
        Py_ssize_t i = 0, j, k = -1, stop;                                                                          \\
        for (; n < 16 && i < n; i++) {                                                                              \\
            T v = x[i * step];                                                                                      \\
            k = (v > top) | (v != v) ? i : k;                                                                       \\
            top = k < 0 ? top : x[k * step];                                                                        \\
        }                                                                                                           \\
        for (; i < n; i = stop) {                                                                                   \\
            int others = step != 1 || n - i < 16;                                                                   \\
            stop = n - i < 16 ? n : i + 16;                                                                         \\
            if (!others) for (j = i; j < i + 16; j++) others |= !(x[j] <= top);                                     \\
            if (others) for (j = i; j < stop; j++) {                                                                \\
                T v = x[j * step];                                                                                  \\
                if (v > top || v != v) { top = v; k = j; }                                                          \\
            }                                                                                                       \\
        }                                                                                                           \\
        *out = top;                                                                                                 \\
        *place = k < 0 ? *place : at + k * step;                                                                    \\
    }
    #if defined(__GNUC__)
      #define VOLTA_UNROLL_WINDOW _Pragma("GCC unroll 4")
    #else
      #define VOLTA_UNROLL_WINDOW
    #endif
    /* n whole windows of HEIGHT x WIDTH, STRIDE apart along rows of `width`, from place `at` on. */
    #define VOLTA_POOL_WHOLE(S, T, I, HEIGHT, WIDTH, STRIDE)                                                        \\
    static VOLTA_OUTLINE void volta_pool_##HEIGHT##WIDTH##STRIDE##_##S(const T* VOLTA_RESTRICT x, Py_ssize_t width, I at, Py_ssize_t n, \\
                                                                     T* VOLTA_RESTRICT out, int64_t* VOLTA_RESTRICT index) {\\
        const I row = (I)width;                                                                                     \\
        I place[256];                                                                                               \\
        Py_ssize_t i, j, m;                                                                                         \\
        int a, b;                                                                                                   \\
        for (i = 0; i < n; i += m) {                                                                                \\
            m = n - i < 256 ? n - i : 256;                                                                          \\
            for (j = 0; j < m; j++) {                                                                               \\
                const T* p = x + (i + j) * STRIDE;                                                                  \\
                T top = p[0];                                                                                       \\
                I k = 0;                                                                                            \\
                VOLTA_UNROLL_WINDOW for (a = 0; a < HEIGHT; a++)                                                    \\
                    VOLTA_UNROLL_WINDOW for (b = 0; b < WIDTH; b++) {                                               \\
                        T v = p[a * width + b];                                                                     \\
                        VOLTA_POOL_STEP(v, a * row + b)                                                             \\
                    }                                                                                               \\
                out[i + j] = top;                                                                                   \\
                place[j] = at + (I)(i + j) * STRIDE + k;                                                            \\
            }                                                                                                       \\
            for (j = 0; j < m; j++) index[i + j] = place[j];                                                        \\
        }                                                                                                           \\
    }
    #if defined(__AVX512F__)
    #define VOLTA_POOL_MASKED(HEIGHT, WIDTH, STRIDE)                                                               \\
    static VOLTA_OUTLINE void volta_pool_##HEIGHT##WIDTH##STRIDE##_32(const float* x, Py_ssize_t width, int at, Py_ssize_t n, float* out, \\
                                                                    int64_t* index) {                               \\
        const __m512i j = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);                  \\
        for (; n > 0; n -= 16, x += 16 * STRIDE, at += 16 * STRIDE, out += 16, index += 16) {                       \\
            const int m = n < 16 ? (int)n : 16;                                                                     \\
            const __mmask16 all = (__mmask16)((1u << m) - 1);                                                       \\
            const unsigned long long span = (1ull << ((m - 1) * STRIDE + 1)) - 1;                                   \\
            __m512 top = volta_every(x, STRIDE, all, span);                                                         \\
            __m512i k = _mm512_add_epi32(_mm512_mullo_epi32(j, _mm512_set1_epi32(STRIDE)), _mm512_set1_epi32(at));  \\
            const __m512i first = k;                                                                                \\
            int a, b;                                                                                               \\
            VOLTA_UNROLL_WINDOW for (a = 0; a < HEIGHT; a++)                                                        \\
                VOLTA_UNROLL_WINDOW for (b = 0; b < WIDTH; b++) {                                                   \\
                    const __m512 v = volta_every(x + a * width + b, STRIDE, all, span);                             \\
                    const __mmask16 wins = _mm512_cmp_ps_mask(v, top, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);\\
                    top = _mm512_mask_mov_ps(top, wins, v);                                                         \\
                    k = _mm512_mask_add_epi32(k, wins, first, _mm512_set1_epi32((int)(a * width) + b));             \\
                }                                                                                                   \\
            _mm512_mask_storeu_ps(out, all, top);                                                                   \\
            _mm512_mask_storeu_epi64(index, (__mmask8)all, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(k)));       \\
            _mm512_mask_storeu_epi64(index + 8, (__mmask8)(all >> 8), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(k, 1)));\\
        }                                                                                                           \\
    }
    #else
      #define VOLTA_POOL_MASKED(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_WHOLE(32, float, int, HEIGHT, WIDTH, STRIDE)
    #endif
    #define VOLTA_POOL_WIDE(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_WHOLE(64, double, long long, HEIGHT, WIDTH, STRIDE)
    VOLTA_POOL_SIZES(VOLTA_POOL_MASKED)
    VOLTA_POOL_SIZES(VOLTA_POOL_WIDE)
    #define VOLTA_POOL_PICK_32(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE) ? volta_pool_##HEIGHT##WIDTH##STRIDE##_32 :
    #define VOLTA_POOL_PICK_64(HEIGHT, WIDTH, STRIDE) VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE) ? volta_pool_##HEIGHT##WIDTH##STRIDE##_64 :
    /* Some lines of them, `step` apart, by what a window is called. */
    #define VOLTA_POOL_LINES(S, T, I)                                                                               \\
    static void volta_pool_whole_##S(int window, const T* x, Py_ssize_t width, Py_ssize_t step, I at, Py_ssize_t lines,\\
                                     Py_ssize_t n, Py_ssize_t outs, T* out, int64_t* index) {                       \\
        void (*f)(const T*, Py_ssize_t, I, Py_ssize_t, T*, int64_t*) = VOLTA_POOL_SIZES(VOLTA_POOL_PICK_##S) NULL;  \\
        for (; lines > 0; lines--, x += step, at += (I)step, out += outs, index += outs) f(x, width, at, n, out, index);\\
    }
    VOLTA_POOL_LINES(32, float, int)
    VOLTA_POOL_LINES(64, double, long long)
    VOLTA_POOL(32, float, int)
    VOLTA_POOL(64, double, long long)
    """
    void pool_whole_32 "volta_pool_whole_32"(int, const float*, Py_ssize_t, Py_ssize_t, int, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*,
                                             int64_t*) noexcept nogil
    void pool_whole_64 "volta_pool_whole_64"(int, const double*, Py_ssize_t, Py_ssize_t, long long, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                             double*, int64_t*) noexcept nogil
    void pool_line_32 "volta_pool_line_32"(const float*, Py_ssize_t, int, Py_ssize_t, float*, int*) noexcept nogil
    void pool_line_64 "volta_pool_line_64"(const double*, Py_ssize_t, long long, Py_ssize_t, double*, long long*) noexcept nogil
    void pool_begin_32 "volta_pool_begin_32"(const int64_t*, const int64_t*, long long, bint, Py_ssize_t, float*, int*) noexcept nogil
    void pool_begin_64 "volta_pool_begin_64"(const int64_t*, const int64_t*, long long, bint, Py_ssize_t, double*,
                                             long long*) noexcept nogil
    void pool_across_32 "volta_pool_across_32"(const float*, const int*, const int64_t*, const int64_t*, Py_ssize_t, float*,
                                               int64_t*) noexcept nogil
    void pool_across_64 "volta_pool_across_64"(const double*, const long long*, const int64_t*, const int64_t*, Py_ssize_t, double*,
                                               int64_t*) noexcept nogil
    void pool_run_32 "volta_pool_run_32"(const float*, Py_ssize_t, Py_ssize_t, long long, float*, int64_t*) noexcept nogil
    void pool_run_64 "volta_pool_run_64"(const double*, Py_ssize_t, Py_ssize_t, long long, double*, int64_t*) noexcept nogil

cdef enum:
    LINE = 256                  # windows of one line that are worked at a time,
    NARROW = 16                 # and elements of one along a line up to which they are

# ---------------------------------------------------------------- maxima

cdef void max_windows(Pool* p, const real* x, Py_ssize_t at, Py_ssize_t rows, Py_ssize_t start, Py_ssize_t stop, real* out,
                      int64_t* index) noexcept nogil:
    """Take a row of a plane, which begins at place `at`, into the windows start .. stop of a line, one by one; several where they are all
    of the one window's."""
    cdef Py_ssize_t o, first
    for o in range(start, stop):
        first = at + p.x.start[o]
        if real is float:
            pool_run_32(x + first, p.x.step, rows * p.x.count[o], first, out + o, index + o)
        else:
            pool_run_64(x + first, p.x.step, rows * p.x.count[o], first, out + o, index + o)


cdef void max_row(Pool* p, const real* x, Py_ssize_t at, Py_ssize_t start, Py_ssize_t stop, real* out, int* place32,
                  long long* place64) noexcept nogil:
    """The same, side by side."""
    cdef Py_ssize_t o, k, first, last
    for k in range(p.x.kernel):
        inside(&p.x, k, &first, &last)
        first, last = max(first, start), min(last, stop)
        if first >= last:
            continue
        o = at + first * p.x.stride + k * p.x.step - p.x.padding
        if real is float:
            pool_line_32(x + o, p.x.stride, <int>o, last - first, out + first, place32 + first - start)
        else:
            pool_line_64(x + o, p.x.stride, o, last - first, out + first, place64 + first - start)


cdef void max_columns(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, real* out, int64_t* index) noexcept nogil:
    """A line of windows from the maxima of columns of their rows."""
    cdef real top[COLUMNS]
    cdef int place32[COLUMNS]
    cdef long long place64[COLUMNS]
    cdef Py_ssize_t i, k, at = (p.z.start[z] * p.y.n + p.y.start[y]) * p.x.n
    memcpy(top, x + at, p.x.n * sizeof(real))
    for k in range(p.x.n):
        if real is float:
            place32[k] = <int>(at + k)
        else:
            place64[k] = at + k
    for i in range(p.z.count[z]):
        for k in range(i == 0, p.y.count[y]):
            at = ((p.z.start[z] + i * p.z.step) * p.y.n + p.y.start[y] + k * p.y.step) * p.x.n
            if real is float:
                pool_line_32(x + at, 1, <int>at, p.x.n, &top[0], place32)
            else:
                pool_line_64(x + at, 1, at, p.x.n, &top[0], place64)
    if real is float:
        pool_across_32(&top[0], place32, p.x.start, p.x.count, p.x.outs, out, index)
    else:
        pool_across_64(&top[0], place64, p.x.start, p.x.count, p.x.outs, out, index)


cdef void max_line(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t start, Py_ssize_t end, real* out,
                   int64_t* index) noexcept nogil:
    """The windows start .. end of a line."""
    cdef int place32[LINE]
    cdef long long place64[LINE]
    cdef Py_ssize_t o, i, j, at, stop, corner = (p.z.start[z] * p.y.n + p.y.start[y]) * p.x.n
    if by_columns(p) and p.z.count[z] > 0 and p.y.count[y] > 0:
        max_columns(p, x, z, y, out, index)
        return
    cdef bint some = p.z.count[z] > 0 and p.y.count[y] > 0, windows = p.adaptive or p.size > 0x7FFFFFFF or p.x.kernel > NARROW
    cdef Py_ssize_t rows = p.y.count[y] if windows and p.x.outs == p.x.step == p.y.step == 1 and p.x.count[0] == p.x.n else 1
    while start < end:
        stop = min(start + LINE, end)
        if real is float:
            pool_begin_32(p.x.start + start, p.x.count + start, corner, some, stop - start, out + start, place32)
        else:
            pool_begin_64(p.x.start + start, p.x.count + start, corner, some, stop - start, out + start, place64)
        for o in range(start, stop if windows else start):
            index[o] = corner + p.x.start[o] if some and p.x.count[o] else -1
        for i in range(p.z.count[z]):
            for j in range(p.y.count[y] // max(rows, 1)):
                at = (p.z.start[z] + i * p.z.step) * p.y.n + p.y.start[y] + j * p.y.step
                if windows:
                    max_windows(p, x, at * p.x.n, rows, start, stop, out, index)
                else:
                    max_row(p, x, at * p.x.n, start, stop, out, place32, place64)
        for o in range(start, start if windows else stop):
            index[o] = place32[o - start] if real is float else place64[o - start]
        start = stop


cdef Py_ssize_t max_whole(Pool* p, int window, const real* x, Py_ssize_t z, Py_ssize_t y, Py_ssize_t lines, real* out,
                          int64_t* index) noexcept nogil:
    """The whole windows of up to so many lines of a plane: how many lines there were. IN: x, the plane. OUT: from the first line on."""
    cdef Py_ssize_t at = 0, low = p.x.low, n = p.x.high - low, step = p.y.stride * p.x.n
    lines = whole_lines(p, window, z, y, lines, &at)
    if lines == 0:
        return 0
    if real is float:
        pool_whole_32(window, x + at, p.x.n, step, <int>at, lines, n, p.x.outs, out + low, index + low)
    else:
        pool_whole_64(window, x + at, p.x.n, step, at, lines, n, p.x.outs, out + low, index + low)
    return lines


cdef void max_lines(Pool* p, const real* x, Py_ssize_t first, Py_ssize_t last, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t line = first, done, plane, z, y, i
    cdef const real* source
    cdef bint vectors = real is float and by_vectors(p)
    cdef int window = window_of(p, vectors)
    while line < last:
        plane, z, y = line // (p.z.outs * p.y.outs), line // p.y.outs % p.z.outs, line % p.y.outs
        source = x + plane * p.size
        done = max_whole(p, window, source, z, y, last - line, out + line * p.x.outs, index + line * p.x.outs)
        if not vectors:
            for i in range(line, line + max(1, done)):
                max_line(p, source, z, y + i - line, 0, p.x.low if done else p.x.outs, out + i * p.x.outs, index + i * p.x.outs)
                if done:
                    max_line(p, source, z, y + i - line, p.x.high, p.x.outs, out + i * p.x.outs, index + i * p.x.outs)
        elif done == 0:
            done = last - line if window == 0 else 1
            if real is float:
                pool_by_vectors(p, x, line, line + done, 0, p.x.outs, out, index)
        line += max(1, done)
    if real is float:
        if vectors and window:
            pool_by_vectors(p, x, first, last, 0, p.x.low, out, index)
            pool_by_vectors(p, x, first, last, p.x.high, p.x.outs, out, index)


cdef void max_all(Pool* p, const real* x, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t lines = p.planes * p.z.outs * p.y.outs
    cdef int threads = pool_threads(p), t
    if threads == 1:
        max_lines(p, x, 0, lines, out, index)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        max_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out, index)


def max_pool(TensorBase x not None, size, kernel=None, stride=None, padding=None, dilation=None):
    """(out, index): the largest of each window of x[N, C, ...], and its place. IN: size, the output's; no kernel: adaptive windows."""
    size = plain(size)
    cdef Pool p
    cdef int code = float_code("max_pool", x)
    cdef TensorBase rows = pixel_rows(x)
    x = packed(x) if rows is None else x
    cdef TensorBase lists = begin(&p, x.shape[2:], size, kernel, stride, padding, dilation, False, 0)
    p.planes = <Py_ssize_t>x.shape[0] * <Py_ssize_t>x.shape[1]
    cdef tuple shape = x.shape[:2] + size
    cdef TensorBase out = empty_host(shape, x.dtype), index = empty_host(shape, dtype_of(INT64))
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef int64_t* places = <int64_t*>address(index)
    cdef Py_ssize_t images = x.shape[0], channels = x.shape[1]
    if rows is not None and out.size:
        with nogil:
            if code == FLOAT32:
                pool_by_pixels(&p, <const float*>source, images, channels, False, <float*>target, places)
            else:
                pool_by_pixels(&p, <const double*>source, images, channels, False, <double*>target, places)
        return from_rows(out, shape), from_rows(index, shape)
    if out.size:
        with nogil:
            if code == FLOAT32:
                max_all(&p, <const float*>source, <float*>target, places)
            else:
                max_all(&p, <const double*>source, <double*>target, places)
    return out, index


cdef void spread_planes(const real* g, const int64_t* index, Py_ssize_t first, Py_ssize_t last, Py_ssize_t outs, Py_ssize_t size,
                        real* out) noexcept nogil:
    """Planes first .. last: each gradient to the place that its maximum came from."""
    cdef Py_ssize_t plane, i
    cdef real* y
    memset(out + first * size, 0, (last - first) * size * sizeof(real))
    for plane in range(first, last):
        y = out + plane * size
        for i in range(plane * outs, (plane + 1) * outs):
            if 0 <= index[i] < size:
                y[index[i]] += g[i]


cdef void spread(const real* g, const int64_t* index, Py_ssize_t planes, Py_ssize_t outs, Py_ssize_t size, real* out) noexcept nogil:
    cdef int threads = threads_for(planes * (outs * 2 + size)), t
    if threads == 1:
        spread_planes(g, index, 0, planes, outs, size, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        spread_planes(g, index, planes * t // threads, planes * (t + 1) // threads, outs, size, out)


def max_pool_grad(TensorBase g not None, TensorBase index not None, size, kernel=None, stride=None, padding=None,
                  dilation=None):
    """Gradient of max_pool with respect to its input [N, C, *size]. The windows are not needed here."""
    size = plain(size)
    cdef int code = float_code("max_pool_grad", g)
    if index.dtype.code != INT64:
        raise DTypeError(f"max_pool_grad: index must be int64, got {index.dtype.name}; convert it with .long()")
    cdef bint pixels = pixel_rows(g) is not None and pixel_rows(index) is not None
    if not pixels:
        g, index = packed(g), packed(index)
    cdef Py_ssize_t images = g.shape[0], channels = g.shape[1]
    cdef Py_ssize_t planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef TensorBase out = empty_host(g.shape[:2] + size, g.dtype)
    cdef Py_ssize_t outs = g.size // max(planes, <Py_ssize_t>1), size_of = out.size // max(planes, <Py_ssize_t>1)
    cdef void* source = address(g)
    cdef void* target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    if pixels and out.size:
        with nogil:
            if code == FLOAT32:
                gradient_by_pixels(<Pool*>NULL, <const float*>source, places, images, channels, outs, size_of, <float*>target)
            else:
                gradient_by_pixels(<Pool*>NULL, <const double*>source, places, images, channels, outs, size_of, <double*>target)
        return from_rows(out, out.shape)
    with nogil:
        if code == FLOAT32:
            spread(<const float*>source, places, planes, outs, size_of, <float*>target)
        else:
            spread(<const double*>source, places, planes, outs, size_of, <double*>target)
    return out


KERNELS = {"max_pool": max_pool, "max_pool_grad": max_pool_grad}
