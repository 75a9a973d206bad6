# Small matrices of a batch factored and substituted ABREAST at a time: each element is a line of numbers, one of each matrix.
#
# Layout: s[(i * row + j * column) * ABREAST + l] is element (i, j) of matrix l. What is exchanged is chosen number by number.
# Threads: none. Sizes: the caller's. The order of sums is that of one matrix, so that no matrix depends on those beside it.

from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real

cdef extern from *:
    """
    #include <math.h>
    #if defined(_MSC_VER)
      #define VOLTA_APART __restrict
    #else
      #define VOLTA_APART __restrict__
    #endif
    #define VOLTA_ABREAST 16
    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_AS_LOOP _Pragma("GCC unroll 1")     /* or GCC unrolls it before it could make vectors of it */
    #else
      #define VOLTA_AS_LOOP
    #endif
    #define VOLTA_EACH(STATEMENT) { int l; VOLTA_AS_LOOP for (l = 0; l < VOLTA_ABREAST; l++) { STATEMENT } }
    #define VOLTA_LINES_ABREAST(S, T, FABS, ROOT)                                                                       \\
    static inline void volta_choose##S(T* VOLTA_APART most, T* VOLTA_APART place, const T* VOLTA_APART x, T here)       \\
        VOLTA_EACH(const T size = FABS(x[l]); const int more = size > most[l];                                          \\
                   most[l] = more ? size : most[l]; place[l] = more ? here : place[l];)                                 \\
    static inline void volta_exchange##S(T* VOLTA_APART x, T* VOLTA_APART y, const T* VOLTA_APART place, T here)        \\
        VOLTA_EACH(const int same = place[l] == here; const T u = x[l]; const T v = y[l];                               \\
                   x[l] = same ? v : u; y[l] = same ? u : v;)                                                           \\
    static inline void volta_take##S(T* VOLTA_APART x, const T* VOLTA_APART y, const T* VOLTA_APART z)                  \\
        VOLTA_EACH(x[l] -= y[l] * z[l];)                                                                                \\
    static inline void volta_over##S(T* VOLTA_APART x, const T* VOLTA_APART y) VOLTA_EACH(x[l] /= y[l];)                \\
    static inline void volta_times##S(T* VOLTA_APART x, const T* VOLTA_APART y) VOLTA_EACH(x[l] *= y[l];)               \\
    static inline void volta_root##S(T* VOLTA_APART x, T* VOLTA_APART wrong)                                            \\
        VOLTA_EACH(wrong[l] += x[l] > 0 ? 0 : 1; x[l] = ROOT(x[l]);)                                                    \\
    /* what divides: 1 for 0, whose place is noted, from 1 */                                                           \\
    static inline void volta_pivot##S(T* VOLTA_APART out, const T* VOLTA_APART x, T* VOLTA_APART zero, T place)         \\
        VOLTA_EACH(const int none = x[l] == 0; zero[l] = none && zero[l] == 0 ? place : zero[l]; out[l] = none ? 1 : x[l];)     \\
    static inline void volta_unsure##S(T* VOLTA_APART wrong, const T* VOLTA_APART x) VOLTA_EACH(wrong[l] += x[l] - x[l];)
    VOLTA_LINES_ABREAST(32, float, fabsf, sqrtf)
    VOLTA_LINES_ABREAST(64, double, fabs, sqrt)
    """
    const int ABREAST "VOLTA_ABREAST"
    void choose32 "volta_choose32"(float* most, float* place, const float* x, float here) noexcept nogil
    void choose64 "volta_choose64"(double* most, double* place, const double* x, double here) noexcept nogil
    void exchange32 "volta_exchange32"(float* x, float* y, const float* place, float here) noexcept nogil
    void exchange64 "volta_exchange64"(double* x, double* y, const double* place, double here) noexcept nogil
    void take32 "volta_take32"(float* x, const float* y, const float* z) noexcept nogil
    void take64 "volta_take64"(double* x, const double* y, const double* z) noexcept nogil
    void over32 "volta_over32"(float* x, const float* y) noexcept nogil
    void over64 "volta_over64"(double* x, const double* y) noexcept nogil
    void times32 "volta_times32"(float* x, const float* y) noexcept nogil
    void times64 "volta_times64"(double* x, const double* y) noexcept nogil
    void root32 "volta_root32"(float* x, float* wrong) noexcept nogil
    void root64 "volta_root64"(double* x, double* wrong) noexcept nogil
    void pivot32 "volta_pivot32"(float* out, const float* x, float* zero, float place) noexcept nogil
    void pivot64 "volta_pivot64"(double* out, const double* x, double* zero, double place) noexcept nogil
    void unsure32 "volta_unsure32"(float* wrong, const float* x) noexcept nogil
    void unsure64 "volta_unsure64"(double* wrong, const double* x) noexcept nogil

cdef enum:
    FEW = 12                    # rows and columns up to which matrices are taken abreast
    LINE = 16                   # ABREAST, for arrays


cdef inline void take(real* x, const real* y, const real* z) noexcept nogil:
    """x -= y z."""
    if real is float:
        take32(x, y, z)
    else:
        take64(x, y, z)


cdef inline void over(real* x, const real* y) noexcept nogil:
    if real is float:
        over32(x, y)
    else:
        over64(x, y)


cdef inline void times(real* x, const real* y) noexcept nogil:
    if real is float:
        times32(x, y)
    else:
        times64(x, y)


cdef inline void exchange_lines(real* x, real* y, const real* place, Py_ssize_t here) noexcept nogil:
    """Numbers of x and y exchanged where `place` is here."""
    if real is float:
        exchange32(x, y, place, <float>here)
    else:
        exchange64(x, y, place, <double>here)


cdef inline bint all_sure(Py_ssize_t count, const real* x, const real* wrong) noexcept nogil:
    """Whether `count` lines are finite, and `wrong` is 0."""
    cdef real[LINE] sum
    cdef real total = 0
    cdef Py_ssize_t i
    for i in range(LINE):
        sum[i] = wrong[i]
    for i in range(count):
        if real is float:
            unsure32(<real*>sum, x + i * LINE)
        else:
            unsure64(<real*>sum, x + i * LINE)
    for i in range(LINE):
        total += sum[i]
    return total == 0


cdef inline void gather(const real** at, Py_ssize_t m, Py_ssize_t n, Py_ssize_t row, Py_ssize_t column, real* s, Py_ssize_t to_row,
                        Py_ssize_t to_column) noexcept nogil:
    """Matrices at these addresses. Those that lie one after the other, in one piece each, are turned, and put in their order then."""
    cdef Py_ssize_t i, j, l
    cdef real[FEW * FEW * LINE] lines
    cdef bint dense = row == n and column == 1 or row == 1 and column == m, even = True
    for l in range(2, LINE):
        even = even and at[l] - at[l - 1] == at[1] - at[0]
    if dense and even and at[1] >= at[0] and row == to_row and column == to_column:
        turn(LINE, m * n, at[0], at[1] - at[0], s, LINE)
        return
    if dense and even and at[1] >= at[0]:
        turn(LINE, m * n, at[0], at[1] - at[0], <real*>lines, LINE)
        for i in range(m):
            for j in range(n):
                for l in range(LINE):
                    s[(i * to_row + j * to_column) * LINE + l] = lines[(i * row + j * column) * LINE + l]
        return
    for l in range(LINE):
        for i in range(m):
            for j in range(n):
                s[(i * to_row + j * to_column) * LINE + l] = at[l][i * row + j * column]


cdef inline void eliminate_abreast(Py_ssize_t n, real* s, Py_ssize_t row, Py_ssize_t column, real* places, real* zero) noexcept nogil:
    """L and U instead of s. OUT: places[n], the row that each is exchanged with, and in `zero` the first pivot that is 0, from 1, or 0."""
    cdef real[LINE] most
    cdef real[LINE] pivot
    cdef real* place
    cdef real* here
    cdef real* x
    cdef Py_ssize_t i, j, c, l
    for l in range(LINE):
        zero[l] = 0
    for j in range(n):
        place, here = places + j * LINE, s + j * (row + column) * LINE
        for l in range(LINE):
            most[l], place[l] = -1, <real>j
        for i in range(j, n):
            x = s + (i * row + j * column) * LINE
            if real is float:
                choose32(<real*>most, place, x, <real>i)
            else:
                choose64(<real*>most, place, x, <real>i)
        for i in range(j + 1, n):
            for c in range(n):
                exchange_lines(s + (j * row + c * column) * LINE, s + (i * row + c * column) * LINE, place, i)
        if real is float:
            pivot32(<real*>pivot, here, zero, <real>(j + 1))
        else:
            pivot64(<real*>pivot, here, zero, <real>(j + 1))
        for i in range(j + 1, n):
            x = s + (i * row + j * column) * LINE
            over(x, <const real*>pivot)
            for c in range(j + 1, n):
                take(s + (i * row + c * column) * LINE, x, s + (j * row + c * column) * LINE)


cdef inline void exchange_abreast(Py_ssize_t n, Py_ssize_t k, const real* places, bint back, real* x, Py_ssize_t row,
                                  Py_ssize_t column) noexcept nogil:
    cdef Py_ssize_t i, j, c, at
    for at in range(n):
        j = n - 1 - at if back else at
        for i in range(j + 1, n):
            for c in range(k):
                exchange_lines(x + (j * row + c * column) * LINE, x + (i * row + c * column) * LINE, places + j * LINE, i)


cdef inline void substitute_abreast(Py_ssize_t n, Py_ssize_t k, const real* s, Py_ssize_t row, Py_ssize_t column, bint upper, bint unit,
                                    real* x, Py_ssize_t x_row, Py_ssize_t x_column) noexcept nogil:
    """x of triangular systems instead of their right sides."""
    cdef Py_ssize_t at, step, i, j, c
    cdef const real* a
    for at in range(n):
        i = n - 1 - at if upper else at
        for step in range(at):
            j = n - 1 - step if upper else step
            a = s + (i * row + j * column) * LINE
            for c in range(k):
                take(x + (i * x_row + c * x_column) * LINE, a, x + (j * x_row + c * x_column) * LINE)
        if not unit:
            for c in range(k):
                over(x + (i * x_row + c * x_column) * LINE, s + i * (row + column) * LINE)


cdef inline void factor_abreast(Py_ssize_t n, real* s, Py_ssize_t row, Py_ssize_t column, real* wrong) noexcept nogil:
    """L of A = L L' instead of the lower triangle; `wrong` grows where a pivot is not positive."""
    cdef Py_ssize_t i, j, p
    for j in range(n):
        for p in range(j):
            for i in range(j, n):
                take(s + (i * row + j * column) * LINE, s + (i * row + p * column) * LINE, s + (j * row + p * column) * LINE)
        if real is float:
            root32(s + j * (row + column) * LINE, wrong)
        else:
            root64(s + j * (row + column) * LINE, wrong)
        for i in range(j + 1, n):
            over(s + (i * row + j * column) * LINE, s + j * (row + column) * LINE)
