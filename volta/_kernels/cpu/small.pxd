# Batches of small products, one after another without a plan for each: of few rows and columns, which registers hold.
#
# Layout: rows of b of at most 2 vectors, where they lie or in a copy; a matrix by a vector reads lines of both instead.
# Threads: none. Sizes: the caller's. The order of a sum follows from the sizes of one product and how it lies.

from volta._kernels.cpu.gemm_plan cimport Products, transpose
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport MASKED, lanes

cdef extern from *:
    """
    /* out[ROWS][n] = a[ROWS][k] @ b[k][n], of N vectors of columns, the last of which has `last` numbers. */
    #define VOLTA_SMALL_ROWS(NAME, ROWS, N, T, V, LANES, S)                                                             \\
    static inline void NAME(Py_ssize_t k, int last, const T* a, Py_ssize_t a_row, Py_ssize_t a_step, const T* b, Py_ssize_t b_row, \\
                            T* out, Py_ssize_t out_row) {                                                               \\
        V sum[ROWS][N]; int i, j;                                                                                       \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                \\
        for (; k > 0; k--, a += a_step, b += b_row) {                                                                   \\
            V y[N];                                                                                                     \\
            VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = volta_part##S(b + j * LANES, j == N - 1 ? last : LANES);        \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
                const V one = VOLTA_SAME##S(a[i * a_row]);                                                              \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = VOLTA_MADD##S(one, y[j], sum[i][j]);                   \\
            }                                                                                                           \\
        }                                                                                                               \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                         \\
            VOLTA_UNROLL for (j = 0; j < N; j++) volta_put##S(out + i * out_row + j * LANES, sum[i][j], j == N - 1 ? last : LANES); \\
    }
    #define VOLTA_SMALL_OF(NAME, N, T, S)                                                                               \\
    VOLTA_SMALL_ROWS(NAME##_1, 1, N, T, volta_v##S, VOLTA_LANES##S, S) VOLTA_SMALL_ROWS(NAME##_2, 2, N, T, volta_v##S, VOLTA_LANES##S, S) \\
    VOLTA_SMALL_ROWS(NAME##_3, 3, N, T, volta_v##S, VOLTA_LANES##S, S) VOLTA_SMALL_ROWS(NAME##_4, 4, N, T, volta_v##S, VOLTA_LANES##S, S) \\
    static void NAME(Py_ssize_t count, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const T* a, Py_ssize_t a_item, Py_ssize_t a_row, \\
                     Py_ssize_t a_step, const T* b, Py_ssize_t b_item, Py_ssize_t b_row, Py_ssize_t b_step, T* out, T* copy) { \\
        const int last = (int)(n - (N - 1) * VOLTA_LANES##S);                                                           \\
        const Py_ssize_t row = b_step == 1 ? b_row : n;                                                                 \\
        for (; count > 0; count--, a += a_item, b += b_item) {                                                          \\
            const T* x = a; const T* y = b_step == 1 ? b : copy;                                                        \\
            Py_ssize_t i, p;                                                                                            \\
            if (b_step != 1) for (i = 0; i < n; i++) for (p = 0; p < k; p++) copy[p * n + i] = b[p * b_row + i * b_step]; \\
            for (i = m; i >= 4; i -= 4, x += 4 * a_row, out += 4 * n) NAME##_4(k, last, x, a_row, a_step, y, row, out, n); \\
            if (i == 3) NAME##_3(k, last, x, a_row, a_step, y, row, out, n);                                            \\
            else if (i == 2) NAME##_2(k, last, x, a_row, a_step, y, row, out, n);                                       \\
            else if (i == 1) NAME##_1(k, last, x, a_row, a_step, y, row, out, n);                                       \\
            out += i * n;                                                                                               \\
        }                                                                                                               \\
    }
    /* out[count][m] = a[count][m][k] @ b[count][k], of lines: of few numbers one by one, else of at most 2 vectors. */
    #define VOLTA_SMALL_LINES(NAME, T, S)                                                                               \\
    static void NAME(Py_ssize_t count, Py_ssize_t m, Py_ssize_t k, const T* a, Py_ssize_t a_item, Py_ssize_t a_row, const T* b, \\
                     Py_ssize_t b_item, T* out) {                                                                       \\
        const int first = k < VOLTA_LANES##S ? (int)k : VOLTA_LANES##S, second = (int)k - first;                        \\
        Py_ssize_t i, p;                                                                                                \\
        for (; count > 0; count--, a += a_item, b += b_item, out += m) {                                                \\
            if (k <= 4) {                                                                                               \\
                for (i = 0; i < m; i++) {                                                                               \\
                    T sum = a[i * a_row] * b[0];                                                                        \\
                    for (p = 1; p < k; p++) sum += a[i * a_row + p] * b[p];                                             \\
                    out[i] = sum;                                                                                       \\
                }                                                                                                       \\
            } else {                                                                                                    \\
                const volta_v##S x = volta_part##S(b, first);                                                           \\
                if (second == 0) for (i = 0; i < m; i++) out[i] = volta_total##S(volta_part##S(a + i * a_row, first) * x); \\
                else {                                                                                                  \\
                    const volta_v##S y = volta_part##S(b + first, second);                                              \\
                    for (i = 0; i < m; i++)                                                                             \\
                        out[i] = volta_total##S(VOLTA_MADD##S(volta_part##S(a + i * a_row + first, second), y,          \\
                                                              volta_part##S(a + i * a_row, first) * x));                \\
                }                                                                                                       \\
            }                                                                                                           \\
        }                                                                                                               \\
    }
    VOLTA_SMALL_OF(volta_small32_1, 1, float, 32)
    VOLTA_SMALL_OF(volta_small32_2, 2, float, 32)
    VOLTA_SMALL_LINES(volta_small32_lines, float, 32)
    VOLTA_SMALL_OF(volta_small64_1, 1, double, 64)
    VOLTA_SMALL_OF(volta_small64_2, 2, double, 64)
    VOLTA_SMALL_LINES(volta_small64_lines, double, 64)
    #define VOLTA_SMALL_RUN(S, T)                                                                                       \\
    static void volta_small##S(Py_ssize_t count, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const T* a, Py_ssize_t a_item,  \\
                               Py_ssize_t a_row, Py_ssize_t a_step, const T* b, Py_ssize_t b_item, Py_ssize_t b_row,    \\
                               Py_ssize_t b_step, T* out, T* copy) {                                                    \\
        if (n == 1 && a_step == 1 && b_row == 1) volta_small##S##_lines(count, m, k, a, a_item, a_row, b, b_item, out); \\
        else (n > VOLTA_LANES##S ? volta_small##S##_2 : volta_small##S##_1)(count, m, n, k, a, a_item, a_row, a_step, b, b_item, b_row, \\
                                                                            b_step, out, copy);                         \\
    }
    VOLTA_SMALL_RUN(32, float)
    VOLTA_SMALL_RUN(64, double)
    """
    void small32 "volta_small32"(Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                 const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*, float*) noexcept nogil
    void small64 "volta_small64"(Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t,
                                 const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*, double*) noexcept nogil

cdef enum:
    SMALL_PRODUCT = 4096        # multiplications of one product up to which beginning it counts
    SMALL_COPY = 64             # numbers of a matrix that is copied


cdef inline bint small_pays(const Products* p, Products* q, real* kind) noexcept nogil:
    """Whether a batch is one of small products. OUT: q, one of them: p's or, where that is a column or reads it better, its transpose."""
    q[0] = p[0]
    if p.count < 2 or p.m * p.n * p.k > (SMALL_PRODUCT if MASKED else 32):
        return False
    if p.n == 1 and p.a_row == 1 and p.a_column != 1 or p.m == 1 and p.b_column != 1:
        transpose(p, q)
    if q.n == 1 and q.a_column == 1:
        return q.k <= 2 * lanes(kind) and (q.b_row == 1 or q.k == 1)
    return q.n <= 2 * lanes(kind) and (q.b_column == 1 or q.k * q.n <= SMALL_COPY)


cdef inline void small_products(const Products* p, const Products* q, Py_ssize_t first, Py_ssize_t last, const real* a, const real* b,
                                real* out) noexcept nogil:
    """Products first .. last of a batch, by runs along its last dimension. IN: q of `small_pays`."""
    cdef Py_ssize_t length = p.shape[p.rank - 1], a_item = p.a_strides[p.rank - 1], b_item = p.b_strides[p.rank - 1], run, index
    cdef bint turned = q.m != p.m or q.a_row != p.a_row or q.a_column != p.a_column
    cdef real[SMALL_COPY] copy
    cdef const real* x
    cdef const real* y
    cdef int d
    while first < last:
        run = min(length - first % length, last - first)
        x, y, index = a, b, first
        for d in range(p.rank - 1, -1, -1):
            x += index % p.shape[d] * p.a_strides[d]
            y += index % p.shape[d] * p.b_strides[d]
            index //= p.shape[d]
        if turned:
            small_run(run, q, y, b_item, x, a_item, out + first * p.m * p.n, copy)
        else:
            small_run(run, q, x, a_item, y, b_item, out + first * p.m * p.n, copy)
        first += run


cdef inline void small_run(Py_ssize_t count, const Products* q, const real* a, Py_ssize_t a_item, const real* b, Py_ssize_t b_item,
                           real* out, real* copy) noexcept nogil:
    if real is float:
        small32(count, q.m, q.n, q.k, a, a_item, q.a_row, q.a_column, b, b_item, q.b_row, q.b_column, out, copy)
    else:
        small64(count, q.m, q.n, q.k, a, a_item, q.a_row, q.a_column, b, b_item, q.b_row, q.b_column, out, copy)
