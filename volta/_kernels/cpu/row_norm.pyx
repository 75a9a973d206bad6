# Normalisation of rows (layer, RMS, group and instance normalisation) and its gradient.
#
# Layout: x is `rows` rows of `length` elements, contiguous. A row is `channels` runs of `inner` elements that share a weight; the weights
#   of `groups` rows follow one another, then begin anew. Groups of channels of images that lie pixel by pixel: group_pixels.pxd.
# float16 and bfloat16 are computed in float32, some rows after the other in a thread's own room.
# Sums: float32 lanes over short blocks, added in double; the variance is a second pass over (x - mean). Sums over rows are kept in the
#   element type for FLUSH rows at a time, then added in double.
# Threads: over rows, or over chunks of them that depend on the sizes alone. Sizes: the front end; there is at least one element.

from cython.parallel cimport prange, threadid
from libc.math cimport sqrt
from libc.stdint cimport uint16_t
from libc.stdlib cimport calloc, free, malloc

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, dtype_of, empty_host, empty_host_like
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.fetch cimport fetch
from volta._kernels.cpu.group_pixels cimport Grouped, gradients_by_pixels, grouped_pixels, normalised_pixels
from volta._kernels.cpu.half_norm cimport HALF_NORM, half_norm
from volta._kernels.cpu.iteration cimport HALF, WHOLE, narrow_line, staged, stored_as
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sums cimport line_away, line_dot, line_squares, line_sum
from volta._kernels.core.views cimport float_code, same_type
from volta._kernels.cpu.copy cimport copy_data, packed

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #if defined(_OPENMP) && !defined(_MSC_VER)
      #define VOLTA_LANES(text) _Pragma(text)
    #else
      #define VOLTA_LANES(text)
    #endif
    #define VOLTA_ROW_NORM(T, S)                                                                                    \\
    static void volta_affine##S(const T* VOLTA_RESTRICT x, T mean, T rstd, const T* VOLTA_RESTRICT w,               \\
                                const T* VOLTA_RESTRICT b, Py_ssize_t n, T* VOLTA_RESTRICT out) {                   \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) out[i] = (x[i] - mean) * rstd * w[i] + b[i];                                        \\
    }                                                                                                               \\
    /* sums: of g * w, and of g * w * (x - mean). */                                                                \\
    static void volta_two_sums##S(const T* VOLTA_RESTRICT g, const T* VOLTA_RESTRICT x, const T* VOLTA_RESTRICT w,  \\
                                  T mean, Py_ssize_t n, double* sums) {                                             \\
        Py_ssize_t i, start, stop;                                                                                  \\
        sums[0] = sums[1] = 0;                                                                                      \\
        for (start = 0; start < n; start = stop) {                                                                  \\
            T s = 0, t = 0;                                                                                         \\
            stop = n - start < 512 ? n : start + 512;                                                               \\
            VOLTA_LANES("omp simd reduction(+:s,t)")                                                                \\
            for (i = start; i < stop; i++) { s += g[i] * w[i]; t += g[i] * w[i] * (x[i] - mean); }                  \\
            sums[0] += s;                                                                                           \\
            sums[1] += t;                                                                                           \\
        }                                                                                                           \\
    }                                                                                                               \\
    static void volta_row_grad##S(const T* VOLTA_RESTRICT g, const T* VOLTA_RESTRICT x, const T* VOLTA_RESTRICT w,  \\
                                  T mean, T rstd, T level, T tilt, Py_ssize_t n, T* VOLTA_RESTRICT dx,              \\
                                  T* VOLTA_RESTRICT dw, T* VOLTA_RESTRICT db) {                                     \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) {                                                                                   \\
            T normal = (x[i] - mean) * rstd;                                                                        \\
            dx[i] = rstd * (g[i] * w[i] - level - normal * tilt);                                                   \\
            dw[i] += g[i] * normal;                                                                                 \\
            db[i] += g[i];                                                                                          \\
        }                                                                                                           \\
    }                                                                                                               \\
    static void volta_row_dx##S(const T* VOLTA_RESTRICT g, const T* VOLTA_RESTRICT x, const T* VOLTA_RESTRICT w,    \\
                                T mean, T rstd, T level, T tilt, Py_ssize_t n, T* VOLTA_RESTRICT dx) {              \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) dx[i] = rstd * (g[i] * w[i] - level - (x[i] - mean) * rstd * tilt);                 \\
    }
    /* Whole rows of up to 64 elements in registers: how many of the rows are done, all or none. */
    #if defined(__AVX512F__) && defined(__GNUC__)
    #include <immintrin.h>
    #include <math.h>
    #define VOLTA_NARROW_ROWS(V)                                                                                    \\
    static void volta_narrow_rows##V(const float* x, const float* w, const float* b, Py_ssize_t weights, Py_ssize_t first,        \\
                                     Py_ssize_t last, Py_ssize_t n, double eps, int centred, float* out, float* mean, \\
                                     float* rstd) {                                                                 \\
        const __mmask16 rest = (__mmask16)((1u << (n - 16 * V + 16)) - 1);                                          \\
        Py_ssize_t r;                                                                                               \\
        for (r = first; r < last; r++) {                                                                            \\
            const float *p = x + r * n, *u = w + r % weights * n, *c = b + r % weights * n;                         \\
            __m512 v[V], sum = _mm512_setzero_ps();                                                                 \\
            float m = 0, scale;                                                                                     \\
            int k;                                                                                                  \\
            for (k = 0; k < V; k++) v[k] = _mm512_maskz_loadu_ps(k < V - 1 ? (__mmask16)-1 : rest, p + 16 * k);     \\
            if (centred) {                                                                                          \\
                const __m512 pivot = _mm512_set1_ps(p[0]);                                                          \\
                for (k = 0; k < V; k++) sum = _mm512_mask_add_ps(sum, k < V - 1 ? (__mmask16)-1 : rest, sum, _mm512_sub_ps(v[k], pivot));\\
                m = (float)(p[0] + (double)_mm512_reduce_add_ps(sum) / (double)n);                                  \\
                for (k = 0; k < V; k++) v[k] = _mm512_maskz_sub_ps(k < V - 1 ? (__mmask16)-1 : rest, v[k], _mm512_set1_ps(m));\\
            }                                                                                                       \\
            sum = _mm512_setzero_ps();                                                                              \\
            for (k = 0; k < V; k++) sum = _mm512_fmadd_ps(v[k], v[k], sum);                                         \\
            mean[r] = m;                                                                                            \\
            rstd[r] = scale = (float)(1.0 / sqrt((double)_mm512_reduce_add_ps(sum) / (double)n + eps));             \\
            for (k = 0; k < V; k++) {                                                                               \\
                const __mmask16 some = k < V - 1 ? (__mmask16)-1 : rest;                                            \\
                const __m512 y = _mm512_mul_ps(_mm512_mul_ps(v[k], _mm512_set1_ps(scale)), _mm512_maskz_loadu_ps(some, u + 16 * k));\\
                _mm512_mask_storeu_ps(out + r * n + 16 * k, some, _mm512_add_ps(y, _mm512_maskz_loadu_ps(some, c + 16 * k)));\\
            }                                                                                                       \\
        }                                                                                                           \\
    }
    VOLTA_NARROW_ROWS(1) VOLTA_NARROW_ROWS(2) VOLTA_NARROW_ROWS(3) VOLTA_NARROW_ROWS(4)
    static int volta_narrow_rows(const float* x, const float* w, const float* b, Py_ssize_t weights, Py_ssize_t first, Py_ssize_t last,
                                 Py_ssize_t n, double eps, int centred, float* out, float* mean, float* rstd) {
        if (n < 1 || n > 64) return 0;
        (n <= 16 ? volta_narrow_rows1 : n <= 32 ? volta_narrow_rows2 : n <= 48 ? volta_narrow_rows3 : volta_narrow_rows4)(
            x, w, b, weights, first, last, n, eps, centred, out, mean, rstd);
        return 1;
    }
    #else
    #define volta_narrow_rows(x, w, b, weights, first, last, n, eps, centred, out, mean, rstd) 0
    #endif
    VOLTA_ROW_NORM(float, 32)
    VOLTA_ROW_NORM(double, 64)
    """
    void affine32 "volta_affine32"(const float*, float, float, const float*, const float*, Py_ssize_t, float*) noexcept nogil
    void affine64 "volta_affine64"(const double*, double, double, const double*, const double*, Py_ssize_t, double*) noexcept nogil
    void two_sums32 "volta_two_sums32"(const float*, const float*, const float*, float, Py_ssize_t, double*) noexcept nogil
    void two_sums64 "volta_two_sums64"(const double*, const double*, const double*, double, Py_ssize_t, double*) noexcept nogil
    void row_grad32 "volta_row_grad32"(const float*, const float*, const float*, float, float, float, float, Py_ssize_t, float*, float*,
                                       float*) noexcept nogil
    void row_grad64 "volta_row_grad64"(const double*, const double*, const double*, double, double, double, double, Py_ssize_t, double*,
                                       double*, double*) noexcept nogil

    void row_dx32 "volta_row_dx32"(const float*, const float*, const float*, float, float, float, float, Py_ssize_t, float*) noexcept nogil
    bint narrow_rows "volta_narrow_rows"(const float*, const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, double,
                                         bint, float*, float*, float*) noexcept nogil
    void row_dx64 "volta_row_dx64"(const double*, const double*, const double*, double, double, double, double, Py_ssize_t,
                                   double*) noexcept nogil

cdef enum:
    CHUNKS = 16                 # most parts of the sums over rows,
    CHUNK = 16                  # of so many rows at least
    FLUSH = 64
    HALVES = 2048               # elements of rows in 16 bits that are widened together, unless it is one row; of gradients, whose sums
    GRADIENTS = 8192            # are flushed each time, so many
    FEWEST = 256                # elements of a row of float16 that stays in registers

cdef struct Rows:
    Py_ssize_t rows, length, groups, channels, inner
    double eps
    bint centred, sums          # sums: those of the weights and biases are wanted
    const void* arrived         # what is added to dx, or NULL
    int half                    # how elements lie in memory (iteration.pxd)
    float* room                 # of the gradient of 16 bits, a part for each thread


# ---------------------------------------------------------------- forward

cdef void forward_rows(Rows* p, const real* x, const real* weight, const real* bias, Py_ssize_t first, Py_ssize_t last, real* out,
                       real* mean, real* rstd) noexcept nogil:
    cdef Py_ssize_t r, c, j, at
    cdef real scale, shift
    if real is float:
        if p.inner == 1 and narrow_rows(x, weight, bias, p.groups, first, last, p.length, p.eps, p.centred, out, mean, rstd):
            return
    for r in range(first, last):
        at, c = r * p.length, r % p.groups * p.channels
        mean[r] = <real>(x[at] + line_away(x + at, x[at], p.length) / <double>p.length) if p.centred and p.length else 0
        rstd[r] = <real>(1.0 / sqrt(line_squares(x + at, mean[r], p.length) / <double>p.length + p.eps))
        if p.inner == 1:
            if real is float:
                affine32(x + at, mean[r], rstd[r], weight + c, bias + c, p.length, out + at)
            else:
                affine64(x + at, mean[r], rstd[r], weight + c, bias + c, p.length, out + at)
            continue
        for c in range(c, c + p.channels):
            scale, shift = rstd[r] * weight[c], bias[c]
            for j in range(at, at + p.inner):
                out[j] = (x[j] - mean[r]) * scale + shift
            at += p.inner


cdef void forward(Rows* p, const real* x, const real* weight, const real* bias, real* out, real* mean, real* rstd) noexcept nogil:
    cdef int threads = threads_for(p.rows * p.length * 2), t
    if threads == 1:            # OpenMP takes half a microsecond for a region of one
        forward_rows(p, x, weight, bias, 0, p.rows, out, mean, rstd)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        forward_rows(p, x, weight, bias, p.rows * t // threads, p.rows * (t + 1) // threads, out, mean, rstd)


cdef void forward_half_rows(Rows* p, const uint16_t* x, const float* weight, const float* bias, Py_ssize_t first, Py_ssize_t last,
                            uint16_t* out, float* mean, float* rstd, float* room) noexcept nogil:
    """Rows in 16 bits, through `room`, in which rows lie as if those before them did, too."""
    cdef Py_ssize_t some = max(<Py_ssize_t>1, HALVES // p.length), r = first, at, n
    if HALF_NORM and p.half == HALF and p.inner == 1 and p.length >= FEWEST:
        for r in range(first, last):
            at, n = r * p.length, r % p.groups * p.channels
            half_norm(x + at, weight + n, bias + n, p.length, p.eps, p.centred, out + at, &mean[r], &rstd[r])
        return
    while r < last:
        some = min(some, last - r)
        at, n = r * p.length, some * p.length
        staged(<char*>(x + at), 2, n, 2, p.half, <char*>room)
        fetch(x + at + n, n)
        fetch(out + at + n, n)
        forward_rows(p, <const float*>(room - at), weight, bias, r, r + some, room + n - at, mean, rstd)
        narrow_line(out + at, room + n, n, p.half)
        r += some


cdef int forward_halves(Rows* p, const uint16_t* x, const float* weight, const float* bias, uint16_t* out, float* mean,
                        float* rstd) except -1:
    cdef int threads = threads_for(p.rows * p.length * 2), t
    cdef Py_ssize_t each = 2 * max(p.length, <Py_ssize_t>HALVES)
    threads = <int>min(<Py_ssize_t>threads, p.rows)
    cdef float* room = <float*>malloc(threads * each * sizeof(float))
    if room == NULL:
        raise MemoryError("row_norm: no memory for rows in float32")
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            forward_half_rows(p, x, weight, bias, p.rows * t // threads, p.rows * (t + 1) // threads, out, mean, rstd, room + t * each)
    free(room)
    return 0


# ---------------------------------------------------------------- gradient, a weight for each element

cdef void flush(real* narrow, double* wide, Py_ssize_t n) noexcept nogil:
    """wide += narrow, which is 0 then."""
    cdef Py_ssize_t j
    for j in range(n):
        wide[j] += narrow[j]
        narrow[j] = 0


cdef void add_arrived(Rows* p, Py_ssize_t row, real* dx) noexcept nogil:
    cdef Py_ssize_t i
    if p.arrived != NULL:
        for i in range(row * p.length, (row + 1) * p.length):
            dx[i] += (<const real*>p.arrived)[i]


cdef void grad_rows(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, Py_ssize_t first,
                    Py_ssize_t last, real* dx, real* narrow, double* wide) noexcept nogil:
    """Rows first .. last. OUT: dx; wide, sums for the weights, then for the biases, where wanted. IN: narrow, as many zeros."""
    cdef Py_ssize_t r, c, at, n = p.groups * p.channels
    cdef double sums[2]
    cdef real level, tilt
    for r in range(first, last):
        at, c = r * p.length, r % p.groups * p.channels
        if real is float:
            two_sums32(g + at, x + at, weight + c, mean[r], p.length, sums)
        else:
            two_sums64(g + at, x + at, weight + c, mean[r], p.length, sums)
        level, tilt = <real>(sums[0] / <double>p.length) if p.centred else 0, <real>(sums[1] * rstd[r] / <double>p.length)
        if real is float:
            if p.sums:
                row_grad32(g + at, x + at, weight + c, mean[r], rstd[r], level, tilt, p.length, dx + at, narrow + c, narrow + n + c)
            else:
                row_dx32(g + at, x + at, weight + c, mean[r], rstd[r], level, tilt, p.length, dx + at)
        elif p.sums:
            row_grad64(g + at, x + at, weight + c, mean[r], rstd[r], level, tilt, p.length, dx + at, narrow + c, narrow + n + c)
        else:
            row_dx64(g + at, x + at, weight + c, mean[r], rstd[r], level, tilt, p.length, dx + at)
        add_arrived(p, r, dx)
        if p.sums and ((r - first) % FLUSH == FLUSH - 1 or r == last - 1):
            flush(narrow, wide, 2 * n)


cdef void grad_half_rows(Rows* p, const uint16_t* g, const uint16_t* x, const float* weight, const float* mean, const float* rstd,
                         Py_ssize_t first, Py_ssize_t last, uint16_t* dx, float* narrow, double* sums, float* room) noexcept nogil:
    """Rows in 16 bits by grad_rows or grad_run_rows, through `room` as in forward_half_rows."""
    cdef Py_ssize_t some = max(<Py_ssize_t>1, GRADIENTS // p.length), r = first, at, n, i
    cdef Rows q = p[0]
    q.arrived = NULL
    while r < last:
        some = min(some, last - r)
        at, n = r * p.length, some * p.length
        staged(<char*>(g + at), 2, n, 2, p.half, <char*>room)
        staged(<char*>(x + at), 2, n, 2, p.half, <char*>(room + n))
        fetch(g + at + n, n)
        fetch(x + at + n, n)
        if p.inner == 1:
            grad_rows(&q, <const float*>(room - at), <const float*>(room + n - at), weight, mean, rstd, r, r + some, room + 2 * n - at,
                      narrow, sums)
        else:
            grad_run_rows(&q, <const float*>(room - at), <const float*>(room + n - at), weight, mean, rstd, r, r + some, room + 2 * n - at,
                          sums)
        if p.arrived != NULL:
            staged(<char*>(<const uint16_t*>p.arrived + at), 2, n, 2, p.half, <char*>room)
            for i in range(n):
                room[2 * n + i] += room[i]
        narrow_line(dx + at, room + 2 * n, n, p.half)
        r += some


cdef void grad_some(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, Py_ssize_t first,
                    Py_ssize_t last, real* dx, real* narrow, double* sums) noexcept nogil:
    """grad_rows or grad_run_rows, also where g, x and dx are of 16 bits."""
    if real is float:
        if p.half != WHOLE:
            grad_half_rows(p, <const uint16_t*>g, <const uint16_t*>x, weight, mean, rstd, first, last, <uint16_t*>dx, narrow, sums,
                           p.room + threadid() * 3 * max(p.length, <Py_ssize_t>GRADIENTS))
            return
    if p.inner == 1:
        grad_rows(p, g, x, weight, mean, rstd, first, last, dx, narrow, sums)
    else:
        grad_run_rows(p, g, x, weight, mean, rstd, first, last, dx, sums)


cdef int grad_elements(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, real* dx,
                       real* dweight, real* dbias) except -1:
    cdef Py_ssize_t n = p.groups * p.channels if p.sums else 0, chunks = max(<Py_ssize_t>1, min(<Py_ssize_t>CHUNKS, p.rows // CHUNK)), i, j
    cdef int threads = threads_for(p.rows * p.length * 4)
    cdef double* wide = <double*>calloc(chunks * 2 * n + 1, sizeof(double))
    cdef real* narrow = <real*>calloc(chunks * 2 * n + 1, sizeof(real))
    if wide == NULL or narrow == NULL:
        free(wide)
        free(narrow)
        raise MemoryError("row_norm_grad: no memory for the sums over rows")
    with nogil:
        for i in prange(chunks, num_threads=threads, schedule="static"):
            grad_some(p, g, x, weight, mean, rstd, p.rows * i // chunks, p.rows * (i + 1) // chunks, dx, narrow + i * 2 * n,
                      wide + i * 2 * n)
        for i in range(1, chunks):
            for j in range(2 * n):
                wide[j] += wide[i * 2 * n + j]
        for j in range(n):
            dweight[j], dbias[j] = <real>wide[j], <real>wide[n + j]
    free(wide)
    free(narrow)
    return 0


# ---------------------------------------------------------------- gradient, a weight for each run

cdef void grad_run_rows(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, Py_ssize_t first,
                        Py_ssize_t last, real* dx, double* sums) noexcept nogil:
    """Rows first .. last. OUT: dx; sums, for each run that of g, and of g times the normalised x."""
    cdef Py_ssize_t r, c, j, at, run, start
    cdef double level, tilt
    cdef real a, b, scale
    for r in range(first, last):
        run, start, level, tilt = r * p.channels, r % p.groups * p.channels, 0, 0
        for c in range(p.channels):
            at = (run + c) * p.inner
            sums[2 * (run + c)] = line_sum(g + at, p.inner)
            sums[2 * (run + c) + 1] = line_dot(g + at, x + at, mean[r], p.inner) * rstd[r]
            level += sums[2 * (run + c)] * weight[start + c]
            tilt += sums[2 * (run + c) + 1] * weight[start + c]
        a, b = <real>(rstd[r] * level / <double>p.length) if p.centred else 0, <real>(rstd[r] * tilt * rstd[r] / <double>p.length)
        for c in range(p.channels):
            at, scale = (run + c) * p.inner, rstd[r] * weight[start + c]
            for j in range(at, at + p.inner):
                dx[j] = g[j] * scale - a - (x[j] - mean[r]) * b
        add_arrived(p, r, dx)


cdef int grad_runs(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, real* dx,
                   real* dweight, real* dbias) except -1:
    cdef Py_ssize_t n = p.groups * p.channels, runs = p.rows * p.channels, i, j
    cdef int threads = threads_for(p.rows * p.length * 4), t
    cdef double* sums = <double*>calloc(2 * runs, sizeof(double))
    if sums == NULL:
        raise MemoryError("row_norm_grad: no memory for the sums of runs")
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            grad_some(p, g, x, weight, mean, rstd, p.rows * t // threads, p.rows * (t + 1) // threads, dx, NULL, sums)
        for i in range(n, runs if p.sums else 0):
            sums[2 * (i % n)] += sums[2 * i]
            sums[2 * (i % n) + 1] += sums[2 * i + 1]
        for j in range(n if p.sums else 0):
            dbias[j], dweight[j] = <real>sums[2 * j], <real>sums[2 * j + 1]
    free(sums)
    return 0


# ---------------------------------------------------------------- tensors

cdef void fill(real* x, Py_ssize_t n, real value) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        x[i] = value


cdef TensorBase vector(TensorBase t, int code, Py_ssize_t n, double value):
    """t as contiguous elements of a dtype; where it is None, n times a number."""
    cdef TensorBase given = t
    if t is not None and t.dtype.code == code:
        return packed(t)
    t = empty_host((n,), dtype_of(code))
    if given is not None:
        copy_data(t, given)
        return t
    if code == FLOAT32:
        fill(<float*>address(t), n, <float>value)
    else:
        fill(<double*>address(t), n, value)
    return t


cdef Rows rows_of(TensorBase x, Py_ssize_t length, Py_ssize_t groups, Py_ssize_t inner, bint centred, double eps, bint sums=False):
    cdef Rows p
    p.half = stored_as(x.dtype.code)
    p.rows, p.length, p.groups, p.channels, p.inner = x.size // length, length, groups, length // inner, inner
    p.centred, p.eps, p.sums, p.arrived, p.room = centred, eps, sums, NULL, NULL
    return p


def row_norm(TensorBase x not None, TensorBase weight, TensorBase bias, Py_ssize_t length, Py_ssize_t groups, Py_ssize_t inner,
             bint centred, double eps):
    """(out, mean, rstd): (x - mean) * rstd * weight + bias of rows of `length` elements; the mean is 0 unless `centred`."""
    cdef int code = FLOAT32 if stored_as(x.dtype.code) != WHOLE else float_code("row_norm", x)
    same_type("row_norm", x, weight)
    same_type("row_norm", x, bias)
    cdef Rows p = rows_of(x, length, groups, inner, centred, eps)
    cdef Grouped grouped
    cdef TensorBase rows = grouped_pixels(&grouped, x, length, groups, inner, eps) if centred and p.half == WHOLE else None
    if rows is not None:
        return normalised_pixels(&grouped, x, rows, vector(weight, code, grouped.channels, 1), vector(bias, code, grouped.channels, 0))
    x, weight, bias = packed(x), vector(weight, code, groups * p.channels, 1), vector(bias, code, groups * p.channels, 0)
    cdef TensorBase out = empty_host_like(x, x.dtype), mean = empty_host((p.rows,), dtype_of(code))
    cdef TensorBase rstd = empty_host_like(mean, mean.dtype)
    if p.half != WHOLE:
        forward_halves(&p, <const uint16_t*>address(x), <const float*>address(weight), <const float*>address(bias), <uint16_t*>address(out),
                       <float*>address(mean), <float*>address(rstd))
    elif code == FLOAT32:
        forward(&p, <const float*>address(x), <const float*>address(weight), <const float*>address(bias), <float*>address(out),
                <float*>address(mean), <float*>address(rstd))
    else:
        forward(&p, <const double*>address(x), <const double*>address(weight), <const double*>address(bias), <double*>address(out),
                <double*>address(mean), <double*>address(rstd))
    return out, mean, rstd


cdef int grad(Rows* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd, real* dx, real* dweight,
              real* dbias) except -1:
    if p.inner == 1:
        return grad_elements(p, g, x, weight, mean, rstd, dx, dweight, dbias)
    return grad_runs(p, g, x, weight, mean, rstd, dx, dweight, dbias)


def row_norm_grad(TensorBase g not None, TensorBase x not None, TensorBase weight, TensorBase mean not None, TensorBase rstd not None,
                  TensorBase arrived, Py_ssize_t length, Py_ssize_t groups, Py_ssize_t inner, bint centred, bint sums):
    """Gradients of row_norm with respect to x, what `arrived` added, weight and bias, the last two as vectors, which are empty without
    `sums`."""
    cdef int half = stored_as(g.dtype.code), code = FLOAT32 if half != WHOLE else float_code("row_norm_grad", g), threads
    for t in (x, weight, arrived, *((mean, rstd) if half == WHOLE else ())):
        same_type("row_norm_grad", g, t)
    cdef Rows p = rows_of(x, length, groups, inner, centred, 0, sums)
    cdef Py_ssize_t n = groups * p.channels if sums else 0
    cdef Grouped grouped
    cdef TensorBase rows = grouped_pixels(&grouped, g, length, groups, inner, 0) if centred and half == WHOLE else None
    if rows is not None:
        return gradients_by_pixels(&grouped, g, rows, x, vector(weight, code, grouped.channels, 1), packed(mean), packed(rstd), arrived,
                                   sums)
    g, x, weight = packed(g), packed(x), vector(weight, code, groups * p.channels, 1)
    mean, rstd = vector(mean, code, p.rows, 0), vector(rstd, code, p.rows, 0)
    if arrived is not None:
        arrived = packed(arrived)
        p.arrived = address(arrived)
    cdef TensorBase dx = empty_host_like(x, x.dtype)
    cdef TensorBase dweight = empty_host((n,), dtype_of(code)), dbias = empty_host((n,), dtype_of(code))
    if half != WHOLE:
        threads = threads_for(p.rows * p.length * 4)
        p.room = <float*>malloc(threads * 3 * max(p.length, <Py_ssize_t>GRADIENTS) * sizeof(float))
        if p.room == NULL:
            raise MemoryError("row_norm_grad: no memory for rows in float32")
    if code == FLOAT32:
        try:
            grad(&p, <const float*>address(g), <const float*>address(x), <const float*>address(weight), <const float*>address(mean),
                 <const float*>address(rstd), <float*>address(dx), <float*>address(dweight), <float*>address(dbias))
        finally:
            free(p.room)
    else:
        grad(&p, <const double*>address(g), <const double*>address(x), <const double*>address(weight), <const double*>address(mean),
             <const double*>address(rstd), <double*>address(dx), <double*>address(dweight), <double*>address(dbias))
    return dx, vector(dweight, x.dtype.code, n, 0), vector(dbias, x.dtype.code, n, 0)


KERNELS = {"row_norm": row_norm, "row_norm_grad": row_norm_grad}
