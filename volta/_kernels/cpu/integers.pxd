# Products of matrices of integers, which wrap around: a sum may be taken in any order.
#
# Layout: any strides. A tile is 4 rows by 2 vectors of sums; of b it reads two vectors of a row, where these do not lie together from a
#   copy. Few rows times columns that lie line by line are sums of lines, and so are rows times few such columns.
# Threads: none. Sizes: the caller's.

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from volta._kernels.cpu.gemm_plan cimport Products, transpose
from volta._kernels.cpu.tile cimport LANES32          # for what the C below takes of it

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_INTEGERS(BITS)                                                                                      \\
          typedef uint##BITS##_t volta_u##BITS __attribute__((vector_size(VOLTA_VECTOR_BYTES), aligned(BITS / 8), may_alias));
      #define VOLTA_INTEGER_LANES(BITS) (VOLTA_VECTOR_BYTES * 8 / BITS)
    #else
      #define VOLTA_INTEGERS(BITS) typedef uint##BITS##_t volta_u##BITS;
      #define VOLTA_INTEGER_LANES(BITS) 1
    #endif
    /* out[ROWS][2 vectors] = a[ROWS][k] @ b[k][2 vectors] */
    #define VOLTA_INTEGER_ROWS(BITS, ROWS)                                                                              \\
    static void volta_integers##BITS##_##ROWS(Py_ssize_t k, const uint##BITS##_t* a, Py_ssize_t a_row, Py_ssize_t a_step, \\
                                              const uint##BITS##_t* b, Py_ssize_t b_row, uint##BITS##_t* out,           \\
                                              Py_ssize_t out_row) {                                                     \\
        const int lanes = VOLTA_INTEGER_LANES(BITS);                                                                    \\
        volta_u##BITS sum[ROWS][2]; int i;                                                                              \\
        VOLTA_UNROLL_WHOLE for (i = 0; i < ROWS; i++) sum[i][0] = sum[i][1] = (volta_u##BITS){0};                       \\
        for (; k > 0; k--, a += a_step, b += b_row) {                                                                   \\
            const volta_u##BITS x = *(const volta_u##BITS*)b, y = *(const volta_u##BITS*)(b + lanes);                   \\
            VOLTA_UNROLL_WHOLE for (i = 0; i < ROWS; i++) {                                                             \\
                const volta_u##BITS one = a[i * a_row] - (volta_u##BITS){0};                                            \\
                sum[i][0] += one * x;                                                                                   \\
                sum[i][1] += one * y;                                                                                   \\
            }                                                                                                           \\
        }                                                                                                               \\
        VOLTA_UNROLL_WHOLE for (i = 0; i < ROWS; i++) {                                                                 \\
            *(volta_u##BITS*)(out + out_row * i) = sum[i][0];                                                           \\
            *(volta_u##BITS*)(out + out_row * i + lanes) = sum[i][1];                                                   \\
        }                                                                                                               \\
    }
    /* The same of 1 to 4 rows, and columns of it to out. */
    #define VOLTA_INTEGERS_OF(BITS)                                                                                     \\
    VOLTA_INTEGERS(BITS)                                                                                                \\
    VOLTA_INTEGER_ROWS(BITS, 1) VOLTA_INTEGER_ROWS(BITS, 2) VOLTA_INTEGER_ROWS(BITS, 3) VOLTA_INTEGER_ROWS(BITS, 4)     \\
    static void volta_integers##BITS(Py_ssize_t k, Py_ssize_t rows, Py_ssize_t columns, const uint##BITS##_t* a, Py_ssize_t a_row, \\
                                     Py_ssize_t a_step, const uint##BITS##_t* b, Py_ssize_t b_row, uint##BITS##_t* out, \\
                                     Py_ssize_t out_row, Py_ssize_t out_step) {                                         \\
        const Py_ssize_t wide = 2 * VOLTA_INTEGER_LANES(BITS);                                                          \\
        const int whole = out_step == 1 && columns == wide;                                                             \\
        uint##BITS##_t sums[8 * VOLTA_INTEGER_LANES(BITS)];                                                             \\
        Py_ssize_t i, j;                                                                                                \\
        (rows == 4 ? volta_integers##BITS##_4 : rows == 3 ? volta_integers##BITS##_3 :                                  \\
         rows == 2 ? volta_integers##BITS##_2 : volta_integers##BITS##_1)(k, a, a_row, a_step, b, b_row,                 \\
                                                                           whole ? out : sums, whole ? out_row : wide); \\
        if (whole) return;                                                                                              \\
        for (i = 0; i < rows; i++) {                                                                                    \\
            if (out_step == 1) memcpy(out + i * out_row, sums + i * wide, columns * sizeof(*out));                      \\
            else for (j = 0; j < columns; j++) out[i * out_row + j * out_step] = sums[i * wide + j];                    \\
        }                                                                                                               \\
    }                                                                                                                   \\
    static uint##BITS##_t volta_integer_line##BITS(Py_ssize_t n, const uint##BITS##_t* x, const uint##BITS##_t* y) {    \\
        uint##BITS##_t sum = 0; Py_ssize_t i;                                                                           \\
        for (i = 0; i < n; i++) sum += x[i] * y[i];                                                                     \\
        return sum;                                                                                                     \\
    }
    VOLTA_INTEGERS_OF(8)
    VOLTA_INTEGERS_OF(32)
    VOLTA_INTEGERS_OF(64)
    """
    const int INTEGER_BYTES "(int)(2 * VOLTA_INTEGER_LANES(8))"         # of two vectors
    void tile8 "volta_integers8"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const uint8_t*, Py_ssize_t, Py_ssize_t, const uint8_t*, Py_ssize_t,
                                 uint8_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
    void tile32 "volta_integers32"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const uint32_t*, Py_ssize_t, Py_ssize_t, const uint32_t*, Py_ssize_t,
                                   uint32_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
    void tile64 "volta_integers64"(Py_ssize_t, Py_ssize_t, Py_ssize_t, const uint64_t*, Py_ssize_t, Py_ssize_t, const uint64_t*, Py_ssize_t,
                                   uint64_t*, Py_ssize_t, Py_ssize_t) noexcept nogil
    uint8_t line8 "volta_integer_line8"(Py_ssize_t, const uint8_t*, const uint8_t*) noexcept nogil
    uint32_t line32 "volta_integer_line32"(Py_ssize_t, const uint32_t*, const uint32_t*) noexcept nogil
    uint64_t line64 "volta_integer_line64"(Py_ssize_t, const uint64_t*, const uint64_t*) noexcept nogil

ctypedef fused whole:
    uint8_t
    uint32_t
    uint64_t

cdef enum:
    INTEGER_ROWS = 4            # of a tile, and up to which sums of lines pay
    LINE_STARTS = 8             # vectors that beginning and ending one takes as long as, and of a tile of few columns most are for nothing
    TINY = 64                   # elements of b that are multiplied one by one, where they would not fill a vector
    SHARED_ROWS = 32            # rows from which on a copy of b pays that lies closer together


cdef inline Py_ssize_t wide(whole* kind) noexcept nogil:
    """Columns of a tile. The argument only names the type."""
    return max(2, INTEGER_BYTES // <int>sizeof(whole))


cdef inline void integer_tile(Py_ssize_t k, Py_ssize_t rows, Py_ssize_t columns, const whole* a, Py_ssize_t a_row, Py_ssize_t a_step,
                              const whole* b, Py_ssize_t b_row, whole* out, Py_ssize_t out_row, Py_ssize_t out_step) noexcept nogil:
    if whole is uint8_t:
        tile8(k, rows, columns, a, a_row, a_step, b, b_row, out, out_row, out_step)
    elif whole is uint32_t:
        tile32(k, rows, columns, a, a_row, a_step, b, b_row, out, out_row, out_step)
    else:
        tile64(k, rows, columns, a, a_row, a_step, b, b_row, out, out_row, out_step)


cdef inline whole integer_line(Py_ssize_t n, const whole* x, const whole* y) noexcept nogil:
    """The sum of x[n] * y[n]."""
    if whole is uint8_t:
        return line8(n, x, y)
    elif whole is uint32_t:
        return line32(n, x, y)
    else:
        return line64(n, x, y)


cdef inline bint integers_turned(const Products* p, whole* kind) noexcept nogil:
    """Whether b.T @ a.T is computed: where out has few columns."""
    return p.n < p.m and (p.n <= INTEGER_ROWS or p.a_row == 1 != p.a_column and 2 * p.n <= wide(kind))


cdef inline void integer_block(const Products* p, Py_ssize_t rows, Py_ssize_t columns, const whole* a, const whole* b, whole* out,
                               Py_ssize_t out_row, Py_ssize_t out_step, whole* space) noexcept nogil:
    """out[rows][columns] = a @ b, of strides of p; IN: space of p.k * max(wide, INTEGER_ROWS) elements, columns at most `wide`."""
    cdef Py_ssize_t full = wide(out), b_row = p.b_row, b_column = p.b_column, i, j, q
    cdef bint few = columns * (p.k + LINE_STARTS * full) < p.k * full
    cdef const whole* line = space
    cdef whole total
    if columns * p.k <= TINY and 16 * columns <= full:
        for i in range(rows):
            for j in range(columns):
                total = 0
                for q in range(p.k):
                    total += a[i * p.a_row + q * p.a_column] * b[q * b_row + j * b_column]
                out[i * out_row + j * out_step] = total
        return
    if p.k > 1 and (p.b_row == 1 and (rows <= INTEGER_ROWS or few) or p.a_column == 1 and rows > INTEGER_ROWS and few):
        if b_row != 1:
            for j in range(columns):
                for q in range(p.k):
                    space[j * p.k + q] = b[q * b_row + j * b_column]
            b, b_column = space, p.k
        for i in range(rows):
            if p.a_column == 1:
                line = a + i * p.a_row
            for q in range(p.k if p.a_column != 1 else 0):
                space[q] = a[i * p.a_row + q * p.a_column]
            for j in range(columns):
                out[i * out_row + j * out_step] = integer_line(p.k, line, b + j * b_column)
        return
    if p.b_column != 1 or columns < full or rows >= SHARED_ROWS and b_row > full:
        for q in range(p.k):
            if p.b_column == 1:
                for j in range(columns):
                    space[q * full + j] = b[q * b_row + j]
            else:
                for j in range(columns):
                    space[q * full + j] = b[q * b_row + j * p.b_column]
            for j in range(columns, full):
                space[q * full + j] = 0
        b, b_row = space, full
    for q in range((rows + INTEGER_ROWS - 1) // INTEGER_ROWS):
        i = q * INTEGER_ROWS
        integer_tile(p.k, min(INTEGER_ROWS, rows - i), columns, a + i * p.a_row, p.a_row, p.a_column, b, b_row, out + i * out_row, out_row,
                     out_step)


cdef inline void integer_tasks(const Products* p, Py_ssize_t first, Py_ssize_t last, Py_ssize_t row_blocks, const whole* a, const whole* b,
                               whole* out, whole* space) noexcept nogil:
    """Tasks first .. last: blocks of rows of strips of columns of products, as they are counted."""
    cdef Products q = p[0]
    cdef bint turned = integers_turned(p, out)
    cdef Py_ssize_t full = wide(out), strips, number, item, index, row, end, column, out_row = p.n, out_step = 1
    cdef const whole* x
    cdef const whole* y
    cdef int d
    if turned:
        transpose(p, &q)
        out_row, out_step = 1, p.n
    strips = (q.n + full - 1) // full
    for number in range(first, last):
        item, column = number // (strips * row_blocks), number // row_blocks % strips * full
        row, end = q.m * (number % row_blocks) // row_blocks, q.m * (number % row_blocks + 1) // row_blocks
        x, y = a, b
        index = item
        for d in range(p.rank - 1, -1, -1):
            x += index % p.shape[d] * p.a_strides[d]
            y += index % p.shape[d] * p.b_strides[d]
            index //= p.shape[d]
        if turned:
            x, y = y, x
        integer_block(&q, end - row, min(full, q.n - column), x + row * q.a_row, y + column * q.b_column,
                      out + item * p.m * p.n + row * out_row + column * out_step, out_row, out_step, space)
