# Elimination with row exchanges, substitution and Cholesky's factors of one matrix: by halves, so that products of blocks do the work.
#
# Layout: rows of whole blocks. What is off the diagonal of factors is negative where one substitutes by them, so that products are added.
# Threads: over columns of large products, whose sums have one order. Sizes: the caller's.

from cython.parallel cimport prange
from libc.math cimport sqrt
from libc.stdint cimport int32_t
from libc.string cimport memset

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.product cimport product, up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32

cdef enum:
    ROWS = 8                    # rows that are substituted one by one
    WORTH = 1048576             # multiplications from which on threads share a step of an elimination
    DEPTH = 256                 # rows of a product's second factor that stay in a cache


cdef extern from *:
    """
    #include <math.h>
    #if VOLTA_LANES32 > 1
      typedef int volta_m32 __attribute__((vector_size(VOLTA_VECTOR_BYTES), may_alias));
      typedef long long volta_m64 __attribute__((vector_size(VOLTA_VECTOR_BYTES), may_alias));
    #endif
    #if defined(__AVX512F__)                /* the larger of the sizes of numbers */
      #define VOLTA_LARGER32(x, y) ((volta_v32)_mm512_max_ps((__m512)(x), _mm512_abs_ps((__m512)(y))))
      #define VOLTA_LARGER64(x, y) ((volta_v64)_mm512_max_pd((__m512d)(x), _mm512_abs_pd((__m512d)(y))))
    #elif VOLTA_LANES32 > 1
      #define VOLTA_LARGER_OF(S, T, x, y) ({                                                                            \\
          const volta_v##S size_ = (volta_v##S)((volta_m##S)(y) & ~(volta_m##S)VOLTA_SAME##S((T)-0.0));                 \\
          const volta_m##S more_ = size_ > (x); (volta_v##S)(((volta_m##S)size_ & more_) | ((volta_m##S)(x) & ~more_)); })
      #define VOLTA_LARGER32(x, y) VOLTA_LARGER_OF(32, float, x, y)
      #define VOLTA_LARGER64(x, y) VOLTA_LARGER_OF(64, double, x, y)
    #else
      #define VOLTA_LARGER32(x, y) (fabsf(y) > (x) ? fabsf(y) : (x))
      #define VOLTA_LARGER64(x, y) (fabs(y) > (x) ? fabs(y) : (x))
    #endif
    /* x / y, by r = 1 / y: what comes out without rest is exact */
    #define VOLTA_OVER(S, out, x, y, r) { const volta_v##S q_ = (x) * (r); out = VOLTA_MADD##S(VOLTA_MADD##S(-q_, y, x), r, q_); }

    /* Of 16 columns of m numbers, `far` apart and zeros up to there, some are eliminated one by one, at most m; L is negative. If they
       are m, the others follow. Gives the first pivot that is 0, from 1, or 0. IN: far in whole lines of 16. */
    #define VOLTA_PANEL(S, T, FABS)                                                                                     \\
    static Py_ssize_t volta_panel##S(Py_ssize_t m, int columns, T* c, Py_ssize_t far, int32_t* pivots) {                \\
        enum { L = VOLTA_LANES##S, N = 16 / L };                                                                        \\
        T u[16], top[16], lane[L], most, pivot; volta_v##S y[4], first[N], size, r, all; const T* from; T* x;           \\
        Py_ssize_t i, row, info = 0; int j, p, q, l, hit;                                                               \\
        for (j = 0; j < 16; j++) {                                                                                      \\
            if (j >= columns && m > columns) break;                                                                     \\
            x = c + j * far;                                                                                            \\
            VOLTA_UNROLL for (q = 0; q < N; q++) first[q] = *(const volta_v##S*)(x + q * L);                            \\
            for (p = 0; p < (j < columns ? j : columns); p++) {     /* of the first rows, p is known then */           \\
                u[p] = x[p];                                                                                            \\
                VOLTA_UNROLL for (q = 0; q < N; q++) {                                                                  \\
                    first[q] = VOLTA_MADD##S(*(const volta_v##S*)(c + p * far + q * L), VOLTA_SAME##S(u[p]), first[q]); \\
                    *(volta_v##S*)(x + q * L) = first[q];                                                               \\
                }                                                                                                       \\
            }                                                                                                           \\
            if (j >= columns) {                         /* there are no more rows */                                    \\
                for (p = 0; p < columns; p++) x[p] = u[p];                                                              \\
                continue;                                                                                               \\
            }                                                                                                           \\
            size = (volta_v##S){0};                                                                                     \\
            for (i = 16; i + 4 * L <= m; i += 4 * L) {                                                                  \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) y[q] = *(const volta_v##S*)(x + i + q * L);                        \\
                from = c + i;                                                                                           \\
                for (p = 0; p < j; p++, from += far) {                                                                  \\
                    const volta_v##S times = VOLTA_SAME##S(u[p]);                                                       \\
                    VOLTA_UNROLL for (q = 0; q < 4; q++) y[q] = VOLTA_MADD##S(*(const volta_v##S*)(from + q * L), times, y[q]); \\
                }                                                                                                       \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) {                                                                  \\
                    *(volta_v##S*)(x + i + q * L) = y[q];                                                               \\
                    size = VOLTA_LARGER##S(size, y[q]);                                                                 \\
                }                                                                                                       \\
            }                                                                                                           \\
            for (; i < m; i += L) {                                                                                     \\
                y[0] = *(const volta_v##S*)(x + i);                                                                     \\
                for (p = 0; p < j; p++) y[0] = VOLTA_MADD##S(*(const volta_v##S*)(c + p * far + i), VOLTA_SAME##S(u[p]), y[0]); \\
                *(volta_v##S*)(x + i) = y[0];                                                                           \\
                size = VOLTA_LARGER##S(size, y[0]);                                                                     \\
            }                                                                                                           \\
            memcpy(top, x, sizeof(top));                                                                                \\
            for (p = 0; p < j; p++) {                                                                                   \\
                x[p] = u[p];                                                                                            \\
                top[p] = 0;                                                                                             \\
            }                                                                                                           \\
            VOLTA_UNROLL for (q = 0; q < N; q++) size = VOLTA_LARGER##S(size, *(const volta_v##S*)(top + q * L));       \\
            memcpy(lane, &size, sizeof(size));                                                                          \\
            for (l = 0, most = 0; l < L; l++) most = lane[l] > most ? lane[l] : most;                                   \\
            for (row = j; row + 16 <= m; row += 16) {   /* the first of this size */                                    \\
                for (l = 0, hit = 0; l < 16; l++) hit |= FABS(x[row + l]) == most;                                      \\
                if (hit) break;                                                                                         \\
            }                                                                                                           \\
            while (row < m && FABS(x[row]) != most) row++;                                                              \\
            if (row == m) row = j;                      /* of NaN */                                                    \\
            pivots[j] = (int32_t)row;                                                                                   \\
            if (row != j) for (q = 0; q < 16; q++) {                                                                    \\
                const T kept = c[q * far + j];                                                                          \\
                c[q * far + j] = c[q * far + row];                                                                      \\
                c[q * far + row] = kept;                                                                                \\
            }                                                                                                           \\
            pivot = x[j];                                                                                               \\
            if (pivot == 0) {                                                                                           \\
                if (info == 0) info = j + 1;                                                                            \\
                pivot = 1;                                                                                              \\
            }                                                                                                           \\
            if (!(1 / pivot - 1 / pivot == 0)) {        /* the inverse of a denormal number */                          \\
                for (i = j + 1; i < m; i++) x[i] = -(x[i] / pivot);                                                     \\
                continue;                                                                                               \\
            }                                                                                                           \\
            all = VOLTA_SAME##S(pivot);                                                                                 \\
            r = VOLTA_SAME##S(1 / pivot);                                                                               \\
            memcpy(u, x, (j + 1) * sizeof(T));                                                                          \\
            for (i = j / L * L; i < m; i += L) {                                                                        \\
                VOLTA_OVER(S, y[0], *(const volta_v##S*)(x + i), all, r)                                                \\
                *(volta_v##S*)(x + i) = -y[0];                                                                          \\
            }                                                                                                           \\
            memcpy(x, u, (j + 1) * sizeof(T));                                                                          \\
        }                                                                                                               \\
        return info;                                                                                                    \\
    }
    VOLTA_PANEL(32, float, fabsf)
    VOLTA_PANEL(64, double, fabs)

    /* x[n][k], n <= 8, of a lower triangular system as `substitute` has it; a vector of each row stays in a register. */
    #define VOLTA_SUBSTITUTE_FEW(S, T)                                                                                  \\
    static void volta_few##S(int n, Py_ssize_t k, const T* a, Py_ssize_t row, Py_ssize_t column, int unit, T* x, Py_ssize_t xd,   \\
                               T* spare) {                                                                              \\
        T c[8][8], r[8]; volta_v##S v[8]; Py_ssize_t at; int i, j;                                                      \\
        for (i = 0; i < n; i++) {                                                                                       \\
            for (j = 0; j < i; j++) c[i][j] = spare ? -a[i * row + j * column] : a[i * row + j * column];               \\
            c[i][i] = unit ? 1 : a[i * (row + column)];                                                                 \\
            r[i] = 1 / c[i][i];                                                                                         \\
        }                                                                                                               \\
        for (at = 0; at < k; at += VOLTA_LANES##S)                                                                      \\
            VOLTA_UNROLL for (i = 0; i < 8; i++) if (i < n) {                                                           \\
                v[i] = *(const volta_v##S*)(x + i * xd + at);                                                           \\
                VOLTA_UNROLL for (j = 0; j < i; j++) v[i] = VOLTA_MADD##S(VOLTA_SAME##S(c[i][j]), v[j], v[i]);          \\
                if (!unit) VOLTA_OVER(S, v[i], v[i], VOLTA_SAME##S(c[i][i]), VOLTA_SAME##S(r[i]))                       \\
                *(volta_v##S*)(x + i * xd + at) = v[i];                                                                 \\
                if (spare) *(volta_v##S*)(spare + i * xd + at) = -v[i];                                                 \\
            }                                                                                                           \\
    }
    VOLTA_SUBSTITUTE_FEW(32, float)
    VOLTA_SUBSTITUTE_FEW(64, double)
    """
    Py_ssize_t panel32 "volta_panel32"(Py_ssize_t m, int columns, float* c, Py_ssize_t far, int32_t* pivots) noexcept nogil
    Py_ssize_t panel64 "volta_panel64"(Py_ssize_t m, int columns, double* c, Py_ssize_t far, int32_t* pivots) noexcept nogil
    void few32 "volta_few32"(int n, Py_ssize_t k, const float* a, Py_ssize_t row, Py_ssize_t column, bint unit, float* x, Py_ssize_t xd,
                             float* spare) noexcept nogil
    void few64 "volta_few64"(int n, Py_ssize_t k, const double* a, Py_ssize_t row, Py_ssize_t column, bint unit, double* x, Py_ssize_t xd,
                             double* spare) noexcept nogil


cdef void add_product(bint shared, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column,
                      const real* b, real* c, Py_ssize_t ld) noexcept nogil:
    """c[m][n] += a[m][k] @ b[k][n]. IN: n in whole blocks; rows of b and c at a distance of ld."""
    cdef int threads = threads_for(m * n * k // 16) if shared else 1, t
    cdef Py_ssize_t blocks = n // BLOCK, first, depth
    while k > 0:
        depth = min(<Py_ssize_t>DEPTH, k)
        if threads == 1:
            product(m, n, depth, a, a_row, a_column, b, ld, c, ld, True)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                first = blocks * t // threads * BLOCK
                product(m, blocks * (t + 1) // threads * BLOCK - first, depth, a, a_row, a_column, b + first, ld, c + first, ld, True)
        a += depth * a_column
        b += depth * ld
        k -= depth


cdef void substitute_some(Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, bint unit, real* x, Py_ssize_t xd,
                          real* spare) noexcept nogil:
    cdef Py_ssize_t half
    cdef real* known = x if spare == NULL else spare
    if n <= ROWS:
        if real is float:
            few32(<int>n, k, a, row, column, unit, x, xd, spare)
        else:
            few64(<int>n, k, a, row, column, unit, x, xd, spare)
        return
    half = up(n // 2, ROWS)
    substitute_some(half, k, a, row, column, unit, x, xd, spare)
    if xd > 0:
        add_product(False, n - half, k, half, a + half * row, row, column, known, x + half * xd, xd)
    else:                                       # the same product with its sum, too, from the last row on: rows of x ascend
        add_product(False, n - half, k, half, a + (n - 1) * row + (half - 1) * column, -row, -column, known + (half - 1) * xd,
                    x + (n - 1) * xd, -xd)
    substitute_some(n - half, k, a + half * (row + column), row, column, unit, x + half * xd, xd,
                    <real*>NULL if spare == NULL else spare + half * xd)


cdef void substitute(bint shared, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, bint unit, real* x,
                     Py_ssize_t xd, real* spare) noexcept nogil:
    """x[n][k] of a lower triangular system, negative below its diagonal, instead of its right sides; of one as it is with `spare`, where
    -x is kept (else NULL). Steps may be negative: an upper system is a lower one from its last row and column on, but for the rows of x,
    which are told by xd. IN: k in whole blocks."""
    cdef int threads = threads_for(n * n * k // 32) if shared else 1, t
    cdef Py_ssize_t blocks = k // BLOCK, first
    if threads == 1:
        substitute_some(n, k, a, row, column, unit, x, xd, spare)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        first = blocks * t // threads * BLOCK
        substitute_some(n, blocks * (t + 1) // threads * BLOCK - first, a, row, column, unit, x + first, xd,
                        <real*>NULL if spare == NULL else spare + first)


cdef Py_ssize_t eliminate_columns(Py_ssize_t m, Py_ssize_t count, real* c, Py_ssize_t far, int32_t* pivots) noexcept nogil:
    """A block of columns that lie one behind the other, `far` apart: room for BLOCK of them. L is negative. Gives the first pivot that is
    0, from 1, or 0; pivots are counted from 0."""
    if real is float:
        return panel32(m, <int>count, c, far, pivots)
    else:
        return panel64(m, <int>count, c, far, pivots)


cdef Py_ssize_t eliminate_block(Py_ssize_t m, Py_ssize_t count, real* a, Py_ssize_t ld, int32_t* pivots, real* room) noexcept nogil:
    """The first block of columns, of which `count` have pivots. Gives the first pivot that is 0, from 1, or 0."""
    cdef Py_ssize_t far = up(m, BLOCK) + BLOCK, info, i
    turn(m, BLOCK, a, ld, room, far)
    for i in range(BLOCK):
        memset(room + i * far + m, 0, (far - m) * sizeof(real))
    info = eliminate_columns(m, count, room, far, pivots)
    turn(BLOCK, m, room, far, a, ld)
    return info


cdef void exchange_rows(Py_ssize_t first, Py_ssize_t last, Py_ssize_t n, real* a, Py_ssize_t ld, const int32_t* pivots) noexcept nogil:
    """Of n columns, one after the other."""
    cdef Py_ssize_t i
    for i in range(first, last):
        if pivots[i] != i + 1:
            swap_rows(a + i * ld, a + (pivots[i] - 1) * ld, n)


cdef void follow(Py_ssize_t m, Py_ssize_t n, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t middle, Py_ssize_t end, const real* a, real* x,
                 const int32_t* pivots) noexcept nogil:
    """What the elimination of columns first .. middle, of which those to `end` have pivots, does to others. IN: the first of them in x."""
    exchange_rows(first, end, n, x, ld, pivots)
    substitute_some(end - first, n, a + first * (ld + 1), ld, 1, True, x + first * ld, ld, <real*>NULL)
    if end == middle:
        add_product(False, m - middle, n, middle - first, a + middle * ld + first, ld, 1, x + first * ld, x + middle * ld, ld)


cdef Py_ssize_t eliminate(int team, Py_ssize_t m, Py_ssize_t count, real* a, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t last,
                          int32_t* pivots, real* room) noexcept nogil:
    """Columns first .. last, of which `count` have pivots: by halves. IN: first and last begin blocks; room of `panel_room`."""
    cdef Py_ssize_t middle, end, info, other, i, blocks, start
    cdef int t, threads
    if last - first <= BLOCK:
        end = min(last, count)
        info = eliminate_block(m - first, end - first, a + first * (ld + 1), ld, pivots + first, room)
        for i in range(first, end):
            pivots[i] += <int32_t>(first + 1)
        return info + first if info else 0
    middle = first + up((last - first) // 2, BLOCK)
    info = eliminate(team, m, count, a, ld, first, middle, pivots, room)
    end, blocks = min(middle, count), (last - middle) // BLOCK
    threads = team if (m - first) * (last - middle) * (end - first) > WORTH else 1
    if threads == 1:
        follow(m, last - middle, ld, first, middle, end, <const real*>a, a + middle, pivots)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            start = blocks * t // threads * BLOCK
            follow(m, blocks * (t + 1) // threads * BLOCK - start, ld, first, middle, end, <const real*>a, a + middle + start, pivots)
    if middle >= count:
        return info
    other = eliminate(team, m, count, a, ld, middle, last, pivots, room)
    exchange_rows(middle, min(last, count), middle - first, a + first, ld, pivots)
    return info if info else other


cdef bint factor_symmetric(bint shared, Py_ssize_t n, real* a, real* spare, Py_ssize_t ld, Py_ssize_t first,
                           Py_ssize_t last) noexcept nogil:
    """U of A = U' U in the upper triangle of a, from row and column `first` on, by halves; negative in spare. False where a pivot is not
    positive. IN: what is read lies in the upper triangle, or in whole blocks on the diagonal."""
    cdef Py_ssize_t i, j, p, middle, end = min(last, n)
    cdef real pivot
    if last - first > BLOCK:
        middle = first + up((last - first) // 2, BLOCK)
        if not factor_symmetric(shared, n, a, spare, ld, first, middle):
            return False
        if middle >= n:
            return True
        substitute(shared, middle - first, last - middle, spare + first * (ld + 1), 1, ld, False, a + first * ld + middle, ld,
                   <real*>NULL)
        for i in range(first, middle):
            for j in range(middle, last):
                spare[i * ld + j] = -a[i * ld + j]
        add_product(shared, end - middle, last - middle, middle - first, spare + first * ld + middle, 1, ld, a + first * ld + middle,
                    a + middle * (ld + 1), ld)
        return factor_symmetric(shared, n, a, spare, ld, middle, last)
    for i in range(first, end):
        pivot = a[i * ld + i]
        if not pivot > 0:
            return False
        pivot = <real>sqrt(pivot)
        for j in range(i, end):
            a[i * ld + j] /= pivot
            spare[i * ld + j] = -a[i * ld + j]
        a[i * (ld + 1)] = spare[i * (ld + 1)] = pivot
        for p in range(i + 1, end):
            for j in range(p, end):
                a[p * ld + j] += spare[i * ld + p] * a[i * ld + j]
    return True
