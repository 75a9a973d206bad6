# Pooling in vectors of AVX-512: 16 neighbouring windows of float32 at a time, of any size; what is outside is masked, and never read.
#
# Threads: none. Sizes: the caller's. Elsewhere POOL_VECTORS is 0 and nothing of this is called.

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #if defined(__AVX512F__)
    #include <immintrin.h>
    #define VOLTA_POOL_VECTORS 1
    #define VOLTA_ORDER _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    #else
    #define VOLTA_POOL_VECTORS 0
    #endif
    enum { VOLTA_WIDEST = 32 };
    /* Whole windows with loops of their own: height, width and stride, which are the digits that they are called by. */
    #define VOLTA_POOL_SIZES(KIND) \\
        KIND(2, 2, 2) KIND(3, 3, 1) KIND(3, 3, 2) KIND(3, 3, 3) KIND(4, 4, 4) KIND(1, 2, 2) KIND(1, 3, 1) KIND(1, 3, 2)
    #define VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE) window == HEIGHT * 100 + WIDTH * 10 + STRIDE
    #define VOLTA_POOL_OR(HEIGHT, WIDTH, STRIDE) || VOLTA_POOL_CALLED(HEIGHT, WIDTH, STRIDE)
    static int volta_pool_sized(int window) { return 0 VOLTA_POOL_SIZES(VOLTA_POOL_OR); }
    /* Windows of a line side by side: where the first begins in a row, and of each element which lanes have it inside. */
    typedef struct {
        Py_ssize_t start;
        int n, kernel, stride, step;
        unsigned short lanes[VOLTA_WIDEST];             /* of element k, those for which it is inside, */
        unsigned long long spans[VOLTA_WIDEST];         /* and as bits the neighbours that are read for it */
        int first[16];                                  /* of each window, its first element inside; -1 where there is none */
        float divisors[16];
    } volta_windows;
    #if VOLTA_POOL_VECTORS
    static void volta_set_windows(volta_windows* w, Py_ssize_t width, Py_ssize_t start, int n, int kernel, int stride, int step,
                                  const int64_t* first, const int64_t* count, const int64_t* span) {
        int j, k;
        w->start = start, w->n = n, w->kernel = kernel, w->stride = stride, w->step = step;
        for (j = 0; j < 16; j++) {
            w->first[j] = j < n && count[j] > 0 ? (int)first[j] : -1;
            w->divisors[j] = j < n ? (float)span[j] : 1;
        }
        for (k = 0; k < kernel; k++) {
            w->lanes[k] = 0, w->spans[k] = 0;
            for (j = 0; j < n; j++) {
                const Py_ssize_t x = start + (Py_ssize_t)j * stride + (Py_ssize_t)k * step;
                if (x < 0 || x >= width) continue;
                w->lanes[k] |= (unsigned short)(1u << j);
                if (stride < 5) w->spans[k] |= 1ull << (j * stride);
            }
        }
    }
    /* The numbers x[j * stride] of some lanes j, whose bits `span` has as neighbours; anything elsewhere. Nothing else is read. */
    static inline __m512 volta_every(const float* x, int stride, __mmask16 lanes, unsigned long long span) {
        const __m512i at = _mm512_mullo_epi32(VOLTA_ORDER, _mm512_set1_epi32(stride));
        __m512 y, z;
        if (stride > 4) return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes, at, x, 4);
        y = _mm512_maskz_loadu_ps((__mmask16)span, x);
        if (stride == 1) return y;
        y = _mm512_permutex2var_ps(y, at, _mm512_maskz_loadu_ps((__mmask16)(span >> 16), x + 16));
        if (span >> 32 == 0) return y;
        z = _mm512_maskz_loadu_ps((__mmask16)(span >> 32), x + 32);
        if (stride == 3) return _mm512_permutex2var_ps(y, _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29), z);
        return _mm512_mask_mov_ps(y, 0xFF00, _mm512_permutex2var_ps(z, at,
                                    _mm512_maskz_loadu_ps((__mmask16)(span >> 48), x + 48)));
    }
    /* Element k of the windows of a row, for its lanes. */
    static inline __m512 volta_element(const volta_windows* w, int stride, int k, const float* row) {
        return volta_every(row + w->start + (Py_ssize_t)k * w->step, stride, w->lanes[k], w->spans[k]);
    }
    /* Maxima over the rows that begin at x[rows[]], and their places. */
    static inline void volta_max_of(const volta_windows* w, int kernel, int stride, const float* x, int count, const Py_ssize_t* rows,
                                    float* out, int64_t* index) {
        const __mmask16 all = (__mmask16)((1u << w->n) - 1);
        const __m512i none = _mm512_set1_epi32(-1), first = _mm512_loadu_si512(w->first);
        const __m512i apart = _mm512_mullo_epi32(VOLTA_ORDER, _mm512_set1_epi32(stride));
        const __m512i begin = _mm512_add_epi32(apart, _mm512_set1_epi32((int)w->start));
        __m512 top = _mm512_set1_ps(-INFINITY);
        __m512i place = none;
        int r, k;
        if (count) place = _mm512_mask_add_epi32(none, _mm512_cmpneq_epi32_mask(first, none), first, _mm512_set1_epi32((int)rows[0]));
        for (r = 0; r < count; r++)
            for (k = 0; k < kernel; k++) {
                const __m512 v = volta_element(w, stride, k, x + rows[r]);
                const __mmask16 wins = w->lanes[k] & (_mm512_cmp_ps_mask(v, top, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q));
                top = _mm512_mask_mov_ps(top, wins, v);
                place = _mm512_mask_add_epi32(place, wins, begin, _mm512_set1_epi32((int)rows[r] + k * w->step));
            }
        _mm512_mask_storeu_ps(out, all, top);
        _mm512_mask_storeu_epi64(index, (__mmask8)all, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(place)));
        _mm512_mask_storeu_epi64(index + 8, (__mmask8)(all >> 8), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(place, 1)));
    }
    /* Sums over these rows, divided by `rest` times what a window divides by along the line, or if that is 0 by the divisor. */
    static inline void volta_mean_of(const volta_windows* w, int kernel, int stride, const float* x, int count, const Py_ssize_t* rows,
                                     float rest, float divisor, float* out) {
        __m512 sum = _mm512_setzero_ps();
        int r, k;
        for (r = 0; r < count; r++)
            for (k = 0; k < kernel; k++) sum = _mm512_mask_add_ps(sum, w->lanes[k], sum, volta_element(w, stride, k, x + rows[r]));
        sum = _mm512_div_ps(sum, rest == 0 ? _mm512_set1_ps(divisor) : _mm512_mul_ps(_mm512_loadu_ps(w->divisors), _mm512_set1_ps(rest)));
        _mm512_mask_storeu_ps(out, (__mmask16)((1u << w->n) - 1), sum);
    }
    /* The usual sizes are compiled apart. */
    #define VOLTA_BY_SIZE(F, ...)                                                                                   \\
        switch (w->kernel * 16 + w->stride) {                                                                       \\
        case 2 * 16 + 2: F(w, 2, 2, __VA_ARGS__); break;                                                            \\
        case 3 * 16 + 1: F(w, 3, 1, __VA_ARGS__); break;                                                            \\
        case 3 * 16 + 2: F(w, 3, 2, __VA_ARGS__); break;                                                            \\
        case 3 * 16 + 3: F(w, 3, 3, __VA_ARGS__); break;                                                            \\
        case 4 * 16 + 4: F(w, 4, 4, __VA_ARGS__); break;                                                            \\
        default: F(w, w->kernel, w->stride, __VA_ARGS__);                                                           \\
        }
    static void volta_max_windows(const volta_windows* w, const float* x, int count, const Py_ssize_t* rows, float* out, int64_t* index) {
        VOLTA_BY_SIZE(volta_max_of, x, count, rows, out, index)
    }
    static void volta_mean_windows(const volta_windows* w, const float* x, int count, const Py_ssize_t* rows, float rest, float divisor,
                                   float* out) {
        VOLTA_BY_SIZE(volta_mean_of, x, count, rows, rest, divisor, out)
    }
    #else
    #define volta_set_windows(w, width, start, n, kernel, stride, step, first, count, span)
    #define volta_max_windows(w, x, count, rows, out, index)
    #define volta_mean_windows(w, x, count, rows, rest, divisor, out)
    #endif
    """
    const bint POOL_VECTORS "VOLTA_POOL_VECTORS"
    const int WIDEST "VOLTA_WIDEST"
    bint pool_sized "volta_pool_sized"(int window) noexcept nogil
    ctypedef struct Windows "volta_windows":
        pass
    void set_windows "volta_set_windows"(Windows* w, Py_ssize_t width, Py_ssize_t start, int n, int kernel, int stride, int step,
                                         const int64_t* first, const int64_t* count, const int64_t* span) noexcept nogil
    void max_windows_of "volta_max_windows"(const Windows* w, const float* x, int count, const Py_ssize_t* rows, float* out,
                                            int64_t* index) noexcept nogil
    void mean_windows_of "volta_mean_windows"(const Windows* w, const float* x, int count, const Py_ssize_t* rows, float rest,
                                              float divisor, float* out) noexcept nogil
