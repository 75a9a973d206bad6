# Products of register tiles, the innermost loops of matrix products, convolutions and recurrent layers. They are compiled here once:
# each of the modules that call them would have some sixty copies.
#
# Layout: columns in vectors, see `multiply_ahead`. Threads: none. Sizes: the caller's, nothing is checked.
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES32

cdef extern from *:
    """
    /* Where GCC would waste registers or instructions: sum += x * y, not over x or y, which of 16 registers left none and moved the sums
       about; and x = row i of a, whose places are one address and a few distances. */
    #if defined(__GNUC__) && !defined(__clang__) && defined(__FMA__)
      #if defined(__AVX512F__)
        #define VOLTA_REGISTER "v"
      #else
        #define VOLTA_REGISTER "x"
      #endif
      #define VOLTA_INTO(OP, sum, x, y) __asm__(OP " %2, %1, %0" : "+" VOLTA_REGISTER(sum) : VOLTA_REGISTER(x), VOLTA_REGISTER(y))
      #define VOLTA_FAR(OP, x, times, i)                                                                            \\
        __asm__(OP " (%1, %2, " #times "), %0" : "=" VOLTA_REGISTER(x) : "r"(a), "r"(far[i]), "m"(*(const char (*)[])a))
      #define VOLTA_ROW(OP, x, i, ROWS)                                                                             \\
        if (i == 0) __asm__(OP " %1, %0" : "=" VOLTA_REGISTER(x) : "m"(*a));                                        \\
        else if (ROWS <= VOLTA_TILE_ROWS / 2 || i % 2) VOLTA_FAR(OP, x, 1, i);                                      \\
        else if (i == 2) VOLTA_FAR(OP, x, 2, 1);                                                                    \\
        else if (i == 4) VOLTA_FAR(OP, x, 4, 1);                                                                    \\
        else VOLTA_FAR(OP, x, 2, i / 2)
      #define VOLTA_INTO32(sum, x, y) VOLTA_INTO("vfmadd231ps", sum, x, y)
      #define VOLTA_INTO64(sum, x, y) VOLTA_INTO("vfmadd231pd", sum, x, y)
      #define VOLTA_ROW32(x, i, ROWS) VOLTA_ROW("vbroadcastss", x, i, ROWS)
      #define VOLTA_ROW64(x, i, ROWS) VOLTA_ROW("vbroadcastsd", x, i, ROWS)
    #else
      #define VOLTA_INTO32(sum, x, y) sum = VOLTA_MADD32(x, y, sum); VOLTA_KEEP(sum)
      #define VOLTA_INTO64(sum, x, y) sum = VOLTA_MADD64(x, y, sum); VOLTA_KEEP(sum)
      #define VOLTA_ROW32(x, i, ROWS) x = VOLTA_SAME32(*(const float*)((const char*)a + far[i])); VOLTA_KEEP(x)
      #define VOLTA_ROW64(x, i, ROWS) x = VOLTA_SAME64(*(const double*)((const char*)a + far[i])); VOLTA_KEEP(x)
    #endif

    /* out[rows][N * LANES], of whose last vector `last` numbers exist, = products of a and b over p < k, + out if `add`, + bias; `rows`
       are at most ROWS. Meanwhile, every `stretch` of k, three cache lines, or N, of what is read next are fetched, `next_step` apart.
       EDGE: the last vector is masked, and b is copied in whole vectors, unless `copy` is NULL. */
    #define VOLTA_EXISTS(ROWS, i) (ROWS > VOLTA_TILE_ROWS / 2 || i < rows)      /* of others all are used */
    #define VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE) {                                                             \\
        V y[N], x;                                                                                                  \\
        VOLTA_UNROLL for (j = 0; j < N; j++)                                                                        \\
            y[j] = EDGE && j == N - 1 ? volta_part##S(b + j * LANES, last) : ((const V*)b)[j];                      \\
        if (EDGE && copy) {                                                                                         \\
            VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                  \\
                VOLTA_PREFETCH(b + 16 * b_step + j * LANES);        /* rows far apart come late by themselves */     \\
                ((V*)copy)[j] = y[j];                                                                               \\
            }                                                                                                       \\
            copy += N * LANES;                                                                                      \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
            VOLTA_ROW##S(x, i, ROWS);                                                                               \\
            VOLTA_UNROLL for (j = 0; j < N; j++) { VOLTA_INTO##S(sum[i][j], x, y[j]); }                             \\
        }                                                                                                           \\
        a += a_step;                                                                                                \\
        b += b_step;                                                                                                \\
    }
    #define VOLTA_MULTIPLY(NAME, T, V, LANES, ROWS, N, S, EDGE)                                                     \\
    static void NAME(Py_ssize_t k, const T* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const T* b, Py_ssize_t b_step, \\
                     const T* next, Py_ssize_t next_step, Py_ssize_t stretch, T* out, Py_ssize_t out_row, int last, const T* bias, \\
                     int add, T* copy) {                                                                                     \\
        V sum[ROWS][N];                                                                                             \\
        Py_ssize_t far[ROWS];                        /* of rows of a from the first, in bytes */                     \\
        T* line = out;                                                                                              \\
        Py_ssize_t p = 0, end; int i, j, u;                                                                         \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++) {                                                                   \\
            far[i] = i == 0 ? 0 : far[i - 1] + (VOLTA_EXISTS(ROWS, i) ? a_row * (Py_ssize_t)sizeof(T) : 0);         \\
            VOLTA_HIDE(far[i]);                                                                                     \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                                \\
        }                                                                                                           \\
        for (; p < k; next += next_step) {                                                                          \\
            VOLTA_UNROLL for (j = 0; j < (N > 3 ? N : 3); j++) VOLTA_PREFETCH((const char*)next + 64 * j);                        \\
            end = k - p < stretch ? k : p + stretch;                                                                \\
            for (; p + 4 <= end; p += 4) VOLTA_UNROLL for (u = 0; u < 4; u++) VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE)  \\
            for (; p < end; p++) VOLTA_STEP(T, V, LANES, ROWS, N, S, EDGE)                                          \\
        }                                                                                                           \\
        if (add)                                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                 \\
                if (VOLTA_EXISTS(ROWS, i)) {                                                                        \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] += volta_part##S(line + j * LANES, j == N - 1 ? last : LANES);\\
                    line += out_row;                                                                                \\
                    VOLTA_HIDE(line);                                                                               \\
                }                                                                                                   \\
        if (bias)                                                                                                   \\
            VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                  \\
                V x = volta_part##S(bias + j * LANES, j == N - 1 ? last : LANES);                                   \\
                VOLTA_UNROLL for (i = 0; i < ROWS; i++) sum[i][j] += x;                                             \\
            }                                                                                                       \\
        VOLTA_UNROLL for (i = 0; i < ROWS; i++)                                                                     \\
            if (VOLTA_EXISTS(ROWS, i)) {                                                                            \\
                VOLTA_UNROLL for (j = 0; j < N; j++) volta_put##S(out + j * LANES, sum[i][j], j == N - 1 ? last : LANES);\\
                out += out_row;                                                                                     \\
                VOLTA_HIDE(out);                                                                                    \\
            }                                                                                                       \\
    }
    #define VOLTA_WIDTH(S, T, ROWS, N)                                                                              \\
    VOLTA_MULTIPLY(volta_multiply##S##_##ROWS##_##N, T, volta_v##S, VOLTA_LANES##S, ROWS, N, S, 0)                  \\
    VOLTA_MULTIPLY(volta_multiply##S##_##ROWS##_##N##_edge, T, volta_v##S, VOLTA_LANES##S, ROWS, N, S, VOLTA_MASKED)
    #define VOLTA_MULTIPLIES(S, T, ROWS) VOLTA_WIDTH(S, T, ROWS, 1) VOLTA_WIDTH(S, T, ROWS, 2) VOLTA_WIDTH(S, T, ROWS, 3)
    #define VOLTA_WIDTH_OF(S, ROWS, N) {volta_multiply##S##_##ROWS##_##N, volta_multiply##S##_##ROWS##_##N##_edge}
    #define VOLTA_HEIGHT(S, ROWS) {VOLTA_WIDTH_OF(S, ROWS, 1), VOLTA_WIDTH_OF(S, ROWS, 2), VOLTA_WIDTH_OF(S, ROWS, 3)}
    #if VOLTA_BROAD > 3
      #define VOLTA_BROADS(S, T) VOLTA_WIDTH(S, T, 4, 4) VOLTA_WIDTH(S, T, 4, 5) VOLTA_WIDTH(S, T, 4, 6)
      #define VOLTA_BROADS_OF(S) VOLTA_WIDTH_OF(S, 4, 4), VOLTA_WIDTH_OF(S, 4, 5), VOLTA_WIDTH_OF(S, 4, 6)
    #else
      #define VOLTA_BROADS(S, T)
      #define VOLTA_BROADS_OF(S) {0}
    #endif
    #if VOLTA_TILE_ROWS == 8
      #define VOLTA_HEIGHTS(S, T) VOLTA_MULTIPLIES(S, T, 4) VOLTA_MULTIPLIES(S, T, 5) VOLTA_MULTIPLIES(S, T, 6)     \\
                                  VOLTA_MULTIPLIES(S, T, 7) VOLTA_MULTIPLIES(S, T, 8)
      #define VOLTA_HEIGHTS_OF(S) VOLTA_HEIGHT(S, 4), VOLTA_HEIGHT(S, 5), VOLTA_HEIGHT(S, 6), VOLTA_HEIGHT(S, 7), VOLTA_HEIGHT(S, 8)
    #else
      #define VOLTA_HEIGHTS(S, T) VOLTA_MULTIPLIES(S, T, 2) VOLTA_MULTIPLIES(S, T, 3) VOLTA_MULTIPLIES(S, T, 4)
      #define VOLTA_HEIGHTS_OF(S) VOLTA_HEIGHT(S, 2), VOLTA_HEIGHT(S, 3), VOLTA_HEIGHT(S, 4)
    #endif
    /* By the least height that has `rows` rows, of those from half a tile on. */
    #define VOLTA_MULTIPLY_OF(S, T)                                                                                 \\
    VOLTA_HEIGHTS(S, T)                                                                                             \\
    VOLTA_BROADS(S, T)                                                                                              \\
    static void volta_multiply##S(Py_ssize_t k, const T* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const T* b, Py_ssize_t b_step, \\
                                  const T* next, Py_ssize_t next_step, Py_ssize_t stretch, T* out, Py_ssize_t out_row, int columns,   \\
                                  const T* bias, int add, T* copy, int whole) {                                     \\
        typedef void (*const tile)(Py_ssize_t, const T*, Py_ssize_t, Py_ssize_t, int, const T*, Py_ssize_t, const T*, Py_ssize_t,        \\
                                   Py_ssize_t, T*, Py_ssize_t, int, const T*, int, T*);                             \\
        static tile of[][3][2] = {VOLTA_HEIGHTS_OF(S)}, broad[][2] = {VOLTA_BROADS_OF(S)};                          \\
        const int n = (columns + VOLTA_LANES##S - 1) / VOLTA_LANES##S, low = VOLTA_TILE_ROWS / 2;                   \\
        const int last = columns - (n - 1) * VOLTA_LANES##S;                                                        \\
        const int edge = (last < VOLTA_LANES##S && !whole) || copy;                                                 \\
        (n > 3 ? broad[n - 4] : of[rows > low ? rows - low : 0][n - 1])[edge](k, a, a_row, a_step, rows, b, b_step, next, next_step,  \\
                                                                              stretch, out, out_row, last, bias, add, copy);          \\
    }
    VOLTA_MULTIPLY_OF(32, float)
    VOLTA_MULTIPLY_OF(64, double)
    """
    void multiply32 "volta_multiply32"(Py_ssize_t k, const float* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const float* b,
                                       Py_ssize_t b_step, const float* next, Py_ssize_t next_step, Py_ssize_t stretch, float* out,
                                       Py_ssize_t out_row, int columns, const float* bias, bint add, float* copy,
                                       bint whole) noexcept nogil
    void multiply64 "volta_multiply64"(Py_ssize_t k, const double* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const double* b,
                                       Py_ssize_t b_step, const double* next, Py_ssize_t next_step, Py_ssize_t stretch, double* out,
                                       Py_ssize_t out_row, int columns, const double* bias, bint add, double* copy,
                                       bint whole) noexcept nogil


cdef void multiply_ahead(Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_step, int rows, const real* b,
                         Py_ssize_t b_step, const real* next, Py_ssize_t next_step, Py_ssize_t stretch, real* out,
                         Py_ssize_t out_row, int columns, const real* bias, bint add, real* copy, bint whole) noexcept nogil:
    """`multiply`, during which the caches fetch what is read next: the beginning of a line every `stretch` of k, from `next` on
    `next_step` apart. Where MASKED, b is copied to `copy`, too, a row of whole vectors behind the other; NULL for not. IN: whole, that b
    has whole vectors anyway."""
    if real is float:
        multiply32(k, a, a_row, a_step, rows, b, b_step, next, next_step, stretch, out, out_row, columns, bias, add, copy, whole)
    else:
        multiply64(k, a, a_row, a_step, rows, b, b_step, next, next_step, stretch, out, out_row, columns, bias, add, copy, whole)
