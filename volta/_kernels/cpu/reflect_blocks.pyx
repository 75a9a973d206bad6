# Reflections that make a matrix triangular, and their products applied to others: in panels, so that products of blocks do the work.
#
# Layout: rows of whole blocks. Of a panel of k columns reflections are 1 - V T V', V unit lower in rows of vd, -T in rows of PANEL.
# Threads: over columns of what they are applied to, whose sums have one order. Sizes: the caller's.
# Source: Schreiber and Van Loan, A Storage-Efficient WY Representation for Products of Householder Transformations, 1989; Elmroth and
# Gustavson, Applying Recursion to Serial and Parallel QR Factorization, 2000.

from cython.parallel cimport prange
from libc.string cimport memset

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lu_blocks cimport BLOCK
from volta._kernels.cpu.product cimport product, up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.reflect_columns cimport TALL, reflect_columns
from volta._kernels.cpu.tile cimport LANES32, copy_line

cdef enum:
    DEPTH = 256                 # rows of a product's second factor that stay in a cache
    STRIP = 96                  # columns that reflections are applied to at a time

cdef extern from *:
    """
    #include <math.h>
    #if VOLTA_LANES32 > 1           /* lane j of a row of 16 is another number: read behind a store of one element, a vector would wait */
      typedef int volta_m32 __attribute__((vector_size(VOLTA_VECTOR_BYTES), may_alias));
      typedef long long volta_m64 __attribute__((vector_size(VOLTA_VECTOR_BYTES), may_alias));
      #define VOLTA_SELECT(S, m, x, y) ((volta_v##S)(((volta_m##S)(x) & (m)) | ((volta_m##S)(y) & ~(m))))
    #else
      typedef int volta_m32;
      typedef int volta_m64;
      #define VOLTA_SELECT(S, m, x, y) ((m) ? (x) : (y))
    #endif
    #if defined(__AVX512F__)        /* number j of a row, in all places, from the registers: memory that was just written is waited for */
      #define VOLTA_NUMBER32(row, y, j) ((volta_v32)_mm512_permutexvar_ps(_mm512_set1_epi32(j), (__m512)y[0]))
      #define VOLTA_NUMBER64(row, y, j) ((volta_v64)_mm512_permutexvar_pd(_mm512_set1_epi64((j) & 7), (__m512d)((j) < 8 ? y[0] : y[1])))
    #else
      #define VOLTA_NUMBER32(row, y, j) VOLTA_SAME32((row)[j])
      #define VOLTA_NUMBER64(row, y, j) VOLTA_SAME64((row)[j])
    #endif
    #define VOLTA_REFLECT_ROW(S, T, at, y) {                                                                            \\
        T* row = a + (at) * ld;                                                                                         \\
        x = VOLTA_SAME##S(-(row[j] * scale));                                                                           \\
        VOLTA_UNROLL for (q = 0; q < N; q++) {                                                                          \\
            part = VOLTA_MADD##S(x, w[q], *(const volta_v##S*)(row + q * L));                                           \\
            *(volta_v##S*)(row + q * L) = y[q] = VOLTA_SELECT(S, lane[q], -x, part);                                    \\
        }                                                                                                               \\
    }
    /* `columns` reflections of a[m][16], at most 16 and m, one by one: R on and above the diagonal, v below it, factors tau, and -T in
       t[..][64]. Gives 0 where squares would be too large or too small to be added. */
    #define VOLTA_REFLECT(S, T, K, ROOT, SIZE, LOW, HIGH)                                                               \\
    static int volta_reflect##S(Py_ssize_t m, T* a, Py_ssize_t ld, int columns, T* tau, T* t, T least) {                \\
        enum { L = VOLTA_LANES##S, N = 16 / L };                                                                        \\
        volta_v##S sum[N], more[N], w[N], y[N], x, part; volta_m##S lane[N];                                            \\
        T line[16], beta, scale, factor, norm;                                                                          \\
        Py_ssize_t i; int j, c, q, p;                                                                                   \\
        for (q = 0; q < N; q++) sum[q] = (volta_v##S){0};                                                               \\
        for (i = 1; i < m; i++) {                                                                                       \\
            x = VOLTA_SAME##S(a[i * ld]);                                                                               \\
            VOLTA_UNROLL for (q = 0; q < N; q++) sum[q] = VOLTA_MADD##S(x, *(const volta_v##S*)(a + i * ld + q * L), sum[q]); \\
        }                                                                                                               \\
        for (j = 0; j < columns; j++) {                                                                                 \\
            T* top = a + j * ld;                                                                                        \\
            memcpy(line, sum, sizeof(line));                                                                            \\
            for (c = 0; c <= j; c++) t[c * 64 + j] = 0;                                                                 \\
            tau[j] = factor = 0; scale = 0; beta = top[j];                                                              \\
            if (line[j] > least) {                                                                                      \\
                norm = top[j] * top[j] + line[j];                                                                       \\
                if (!(norm > LOW && norm < HIGH)) return 0;                                                             \\
                beta = top[j] > 0 || (top[j] == 0 && !signbit(top[j])) ? -ROOT(norm) : ROOT(norm);                      \\
                tau[j] = factor = (beta - top[j]) / beta;                                                               \\
                scale = 1 / (top[j] - beta);                                                                            \\
                for (c = 0; c < j; c++) {                                                                               \\
                    const T inner = top[c] + scale * line[c];                                                           \\
                    for (p = 0; p <= c; p++) t[p * 64 + j] -= factor * (t[p * 64 + c] * inner);                         \\
                }                                                                                                       \\
                t[j * 64 + j] = -factor;                                                                                \\
            } else if (!(least > 0))                    /* nothing to reflect, but what is too small to square */       \\
                for (i = j + 1; i < m; i++) if (a[i * ld + j] != 0) return 0;                                           \\
            for (c = 0; c < 16; c++) line[c] = c > j ? factor * (top[c] + scale * line[c]) : 0;                         \\
            for (c = 0; c < 16; c++) top[c] -= line[c];                                                                 \\
            top[j] = beta;                                                                                              \\
            memcpy(w, line, sizeof(w));                                                                                 \\
            for (q = 0; q < N; q++) {                                                                                   \\
                K mask[L];                                                                                              \\
                for (c = 0; c < L; c++) mask[c] = q * L + c == j ? -1 : 0;                                              \\
                memcpy(lane + q, mask, sizeof(mask));                                                                   \\
                sum[q] = more[q] = (volta_v##S){0};                                                                     \\
            }                                                                                                           \\
            i = j + 1;                                  /* the next one begins with this row, whose square is not summed */\\
            if (i < m) { VOLTA_REFLECT_ROW(S, T, i, y) i++; }                                                           \\
            if (j + 1 < columns)                                                                                        \\
                for (; i + 1 < m; i += 2) {             /* sums of two rows: each waits for the one before */           \\
                    VOLTA_REFLECT_ROW(S, T, i, y)                                                                       \\
                    x = VOLTA_NUMBER##S(a + i * ld, y, j + 1);                                                             \\
                    VOLTA_UNROLL for (q = 0; q < N; q++) sum[q] = VOLTA_MADD##S(x, y[q], sum[q]);                       \\
                    VOLTA_REFLECT_ROW(S, T, i + 1, y)                                                                   \\
                    x = VOLTA_NUMBER##S(a + (i + 1) * ld, y, j + 1);                                                       \\
                    VOLTA_UNROLL for (q = 0; q < N; q++) more[q] = VOLTA_MADD##S(x, y[q], more[q]);                     \\
                }                                                                                                       \\
            for (; i < m; i++) {                                                                                        \\
                VOLTA_REFLECT_ROW(S, T, i, y)                                                                           \\
                if (j + 1 < columns) {                                                                                  \\
                    x = VOLTA_NUMBER##S(a + i * ld, y, j + 1);                                                             \\
                    VOLTA_UNROLL for (q = 0; q < N; q++) sum[q] = VOLTA_MADD##S(x, y[q], sum[q]);                       \\
                }                                                                                                       \\
            }                                                                                                           \\
            for (q = 0; q < N; q++) sum[q] += more[q];                                                                  \\
        }                                                                                                               \\
        return 1;                                                                                                       \\
    }
    VOLTA_REFLECT(32, float, int, sqrtf, fabsf, 1e-28f, 1e28f)
    VOLTA_REFLECT(64, double, long long, sqrt, fabs, 1e-280, 1e280)
    """
    bint reflect32 "volta_reflect32"(Py_ssize_t m, float* a, Py_ssize_t ld, int columns, float* tau, float* t, float least) noexcept nogil
    bint reflect64 "volta_reflect64"(Py_ssize_t m, double* a, Py_ssize_t ld, int columns, double* tau, double* t,
                                     double least) noexcept nogil


cdef inline void deep_product(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column, const real* b,
                              Py_ssize_t b_row, real* c, Py_ssize_t c_row) noexcept nogil:
    """c[m][n] = a[m][k] @ b[k][n], of many k."""
    cdef Py_ssize_t done = 0, depth
    while done < k:
        depth = min(<Py_ssize_t>DEPTH, k - done)
        product(m, n, depth, a + done * a_column, a_row, a_column, b + done * b_row, b_row, c, c_row, done > 0)
        done += depth


cdef void apply_some(bint turned, Py_ssize_t m, Py_ssize_t k, const real* v, Py_ssize_t vd, const real* t, real* c, Py_ssize_t ld,
                     Py_ssize_t n) noexcept nogil:
    cdef real[PANEL * STRIP] inner
    cdef real[PANEL * STRIP] outer
    cdef Py_ssize_t width
    while n > 0:
        width = min(<Py_ssize_t>STRIP, n)
        deep_product(k, width, m, v, 1, vd, c, ld, <real*>inner, STRIP)
        product(k, width, k, t, 1 if turned else PANEL, PANEL if turned else 1, <const real*>inner, STRIP, <real*>outer, STRIP, False)
        product(m, width, k, v, vd, 1, <const real*>outer, STRIP, c, ld, True)
        c += width
        n -= width


cdef void apply_left(bint shared, bint turned, Py_ssize_t m, Py_ssize_t k, const real* v, Py_ssize_t vd, const real* t, real* c,
                     Py_ssize_t ld, Py_ssize_t n) noexcept nogil:
    """c[m][n] = (1 - V T V') c, or with T'. IN: n in whole blocks; v[m][k], -T in t."""
    cdef int threads = threads_for(m * n * k // 8) if shared else 1, each
    cdef Py_ssize_t blocks = n // BLOCK, start
    if threads == 1:
        apply_some(turned, m, k, v, vd, t, c, ld, n)
        return
    for each in prange(threads, num_threads=threads, schedule="static"):
        start = blocks * each // threads * BLOCK
        apply_some(turned, m, k, v, vd, t, c + start, ld, blocks * (each + 1) // threads * BLOCK - start)


cdef void copy_unit(Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, real* v, Py_ssize_t vd) noexcept nogil:
    """Unit lower columns; zeros above, and behind them to whole blocks."""
    cdef Py_ssize_t i, j, width = up(k, BLOCK)
    for i in range(min(m, k)):
        for j in range(i):
            v[i * vd + j] = a[i * row + j * column]
        v[i * vd + i] = 1
        memset(v + i * (vd + 1) + 1, 0, (width - i - 1) * sizeof(real))
    if row == 1 and column != 1 and m >= k + BLOCK:
        turn(k, m - k, a + k, column, v + k * vd, vd)
        for i in range(k, m):
            memset(v + i * vd + k, 0, (width - k) * sizeof(real))
        return
    for i in range(k, m):
        if column == 1:
            copy_line(v + i * vd, a + i * row, k, width)
            continue
        for j in range(k):
            v[i * vd + j] = a[i * row + j * column]
        memset(v + i * vd + k, 0, (width - k) * sizeof(real))


cdef void join_triangles(Py_ssize_t m, const real* v, Py_ssize_t vd, real* t, Py_ssize_t first, Py_ssize_t middle,
                         Py_ssize_t last) noexcept nogil:
    """The block of -T between those of two halves of the columns: T1 (V1' V2) T2."""
    cdef real[PANEL * PANEL] inner
    cdef real[PANEL * PANEL] outer
    cdef Py_ssize_t rows = middle - first, columns = last - middle
    deep_product(rows, columns, m - middle, v + middle * vd + first, 1, vd, v + middle * vd + middle, vd, <real*>inner, PANEL)
    product(rows, columns, columns, <const real*>inner, PANEL, 1, t + middle * (PANEL + 1), PANEL, <real*>outer, PANEL, False)
    product(rows, columns, rows, t + first * (PANEL + 1), PANEL, 1, <const real*>outer, PANEL, t + first * PANEL + middle, PANEL, False)


cdef bint reflect_panel(bint shared, Py_ssize_t m, Py_ssize_t count, real* a, Py_ssize_t ld, real* tau, real* v, Py_ssize_t vd, real* t,
                        Py_ssize_t first, Py_ssize_t last, real least, real* room) noexcept nogil:
    """Columns first .. last of a panel a[m][..], of which `count` are reflected, by halves. OUT: tau, and the panel's v and t; IN: what
    is below blocks on the diagonal of t are zeros; first and last begin blocks; room of `panel_room`. False where squares are too large
    or too small, which means 0 up to `least`."""
    cdef Py_ssize_t i, middle, some = min(count, last) - first, far = up(m - first, BLOCK) + BLOCK
    cdef bint fine
    if last - first <= BLOCK:
        if m - first >= TALL:
            turn(m - first, some, a + first * (ld + 1), ld, room, far)
            for i in range(some):
                memset(room + i * far + m - first, 0, (far - m + first) * sizeof(real))
            fine = reflect_columns(m - first, some, room, far, tau + first, t + first * (PANEL + 1), least)
            turn(some, m - first, room, far, a + first * (ld + 1), ld)
        elif real is float:
            fine = reflect32(m - first, a + first * (ld + 1), ld, <int>some, tau + first, t + first * (PANEL + 1), least)
        else:
            fine = reflect64(m - first, a + first * (ld + 1), ld, <int>some, tau + first, t + first * (PANEL + 1), least)
        for i in range(first):
            memset(v + i * vd + first, 0, BLOCK * sizeof(real))
        copy_unit(m - first, some, a + first * (ld + 1), ld, 1, v + first * (vd + 1), vd)
        return fine
    middle = first + up((last - first) // 2, BLOCK)
    if not reflect_panel(shared, m, count, a, ld, tau, v, vd, t, first, middle, least, room):
        return False
    apply_left(shared, True, m - first, min(count, middle) - first, v + first * (vd + 1), vd, t + first * (PANEL + 1),
               a + first * ld + middle, ld, last - middle)
    if middle >= count:
        return True
    if not reflect_panel(shared, m, count, a, ld, tau, v, vd, t, middle, last, least, room):
        return False
    join_triangles(m, v, vd, t, first, middle, last)
    return True


cdef void collect(Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, const real* tau, real* v, Py_ssize_t vd,
                  real* t) noexcept nogil:
    """V and -T of k known reflections, at most PANEL, that lie below the diagonal of a."""
    cdef Py_ssize_t i
    copy_unit(m, k, a, row, column, v, vd)
    for i in range(k if k <= BLOCK else up(k, BLOCK)):
        memset(t + i * PANEL, 0, up(k, BLOCK) * sizeof(real))
    collect_triangles(m, k, <const real*>v, vd, tau, t, 0, up(k, BLOCK))


cdef void collect_triangles(Py_ssize_t m, Py_ssize_t k, const real* v, Py_ssize_t vd, const real* tau, real* t, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Blocks of -T of the columns first .. last, by halves."""
    cdef real[BLOCK * BLOCK] inner
    cdef Py_ssize_t i, j, p, middle
    if last - first > BLOCK:
        middle = first + up((last - first) // 2, BLOCK)
        collect_triangles(m, k, v, vd, tau, t, first, middle)
        collect_triangles(m, k, v, vd, tau, t, middle, last)
        join_triangles(m, v, vd, t, first, middle, last)
        return
    v += first * (vd + 1)
    t += first * (PANEL + 1)
    deep_product(min(last, k) - first, BLOCK, m - first, v, 1, vd, v, vd, <real*>inner, BLOCK)
    for j in range(min(last, k) - first):
        for p in range(j):
            for i in range(p + 1):
                t[i * PANEL + j] -= tau[first + j] * t[i * PANEL + p] * inner[p * BLOCK + j]
        t[j * PANEL + j] = -tau[first + j]


cdef void apply_to_rows(Py_ssize_t rows, Py_ssize_t m, Py_ssize_t k, const real* v, const real* turned, Py_ssize_t ld, const real* t,
                        real* c, Py_ssize_t c_row) noexcept nogil:
    """c[rows][m] = c (1 - V T' V'), V[m][k] in rows of PANEL, V' of ld."""
    cdef real[PANEL * BLOCK] inner
    cdef real[PANEL * BLOCK] outer
    cdef Py_ssize_t some
    while rows > 0:
        some = min(<Py_ssize_t>BLOCK, rows)
        deep_product(some, up(k, BLOCK), m, <const real*>c, c_row, 1, v, PANEL, <real*>inner, PANEL)
        small_turned(some, k, <const real*>inner, t, <real*>outer)
        product(some, up(m, BLOCK), k, <const real*>outer, PANEL, 1, turned, ld, c, c_row, True)
        c += some * c_row
        rows -= some


cdef inline void small_turned(Py_ssize_t rows, Py_ssize_t k, const real* x, const real* t, real* out) noexcept nogil:
    """out = x T', by rows of PANEL; T' in t."""
    product(rows, up(k, BLOCK), k, x, PANEL, 1, t, PANEL, out, PANEL, False)


cdef void apply_right(bint shared, Py_ssize_t rows, Py_ssize_t m, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column,
                      const real* tau, real* c, Py_ssize_t c_row, real* space) noexcept nogil:
    """c[rows][m] times the transposed product of k reflections, of which i is below the diagonal of column i of a. IN: BLOCK columns of
    room behind c; space of 2 PANEL (m + BLOCK) + 2 PANEL * PANEL."""
    cdef real* v = space
    cdef real* turned = v + m * PANEL
    cdef real* t = turned + PANEL * up(m, BLOCK)
    cdef real* back = t + PANEL * PANEL
    cdef Py_ssize_t at = (k - 1) // PANEL * PANEL, some, n, i, j, width
    cdef int threads, each
    while at >= 0:
        some, n = min(<Py_ssize_t>PANEL, k - at), m - at
        width = up(n, BLOCK)
        collect(n, some, a + at * (row + column), row, column, tau + at, v, PANEL, t)
        turn(n, some, <const real*>v, PANEL, turned, width)
        for j in range(some):
            memset(turned + j * width + n, 0, (width - n) * sizeof(real))
        for i in range(some):
            for j in range(up(some, BLOCK)):
                back[i * PANEL + j] = t[j * PANEL + i] if j < some else 0
        threads = threads_for(rows * n * some // 8) if shared else 1
        if threads == 1:
            apply_to_rows(rows, n, some, v, turned, width, back, c + at, c_row)
        else:
            for each in prange(threads, num_threads=threads, schedule="static"):
                apply_to_rows(rows * (each + 1) // threads - rows * each // threads, n, some, v, turned, width, back,
                              c + rows * each // threads * c_row + at, c_row)
        at -= PANEL
