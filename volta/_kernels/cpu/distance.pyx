# Distances of rows, of those of two tensors or of the pairs of one, in any norm, and their gradients.
#
# Layout: x1[batch, n, m] and x2[batch, r, m], contiguous; without x2 the pair (i, j), i < j, is number i (2n - i - 1) / 2 + j - i - 1.
# For distances of short rows in the norms 1, 2 and infinity, a copy of the others lies as columns.
# Threads: over rows, and blocks of the others; the gradient of a row is a sum over all others, in their order, so that it does not depend
# on how many there are.
# Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.string cimport memset

from volta.errors import ShapeError

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.doubles cimport pow_f64
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport pow_f32              # their declarations come with them
from volta._kernels.cpu.tile cimport LANES32

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    #define VOLTA_FABS32 fabsf
    #define VOLTA_FABS64 fabs
    #define VOLTA_CEIL32 ceilf
    #define VOLTA_CEIL64 ceil
    #define VOLTA_ADDED(a, t) ((a) + (t))
    #define VOLTA_LARGER(a, t) ((t) > (a) ? (t) : (a))                          /* no NaN of t */
    /* What the differences d of two rows come to: in 16 parts, which compilers make vectors of. */
    #define VOLTA_ROWS(NAME, S, T, JOIN, TERM)                                                                      \\
    static inline T volta_##NAME##_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, T power) {     \\
        T part[16] = {0}, total = 0;                                                                                \\
        Py_ssize_t i = 0;                                                                                           \\
        int k;                                                                                                      \\
        if (n >= 16) {                                                                                              \\
            for (; i <= n - 16; i += 16)                                                                            \\
                for (k = 0; k < 16; k++) { const T d = a[i + k] - b[i + k], t = TERM; part[k] = JOIN(part[k], t); } \\
            for (k = 0; k < 8; k++) part[k] = JOIN(part[k], part[k + 8]);                                           \\
            for (k = 0; k < 4; k++) part[k] = JOIN(part[k], part[k + 4]);                                           \\
            part[0] = JOIN(part[0], part[2]);                                                                       \\
            part[1] = JOIN(part[1], part[3]);                                                                       \\
            total = JOIN(part[0], part[1]);                                                                         \\
        }                                                                                                           \\
        for (; i < n; i++) { const T d = a[i] - b[i], t = TERM; total = JOIN(total, t); }                           \\
        (void)power;                                                                                                \\
        return total;                                                                                               \\
    }
    /* Adds the slopes of a distance `size`, times `scale`, by the elements of a. */
    #define VOLTA_SLOPES_OF(NAME, S, T, TERM)                                                                       \\
    static inline void volta_##NAME##_##S(T* VOLTA_RESTRICT out, const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, T scale, T size,  \\
                                          T power, Py_ssize_t n) {                                                  \\
        Py_ssize_t i;                                                                                               \\
        if (n == 3) for (i = 0; i < 3; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                            \\
        else if (n == 4) for (i = 0; i < 4; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                       \\
        else for (i = 0; i < n; i++) { const T d = a[i] - b[i]; out[i] += TERM; }                                   \\
        (void)power; (void)size;                                                                                    \\
    }
    /* The largest size, or NaN, whose bits are larger than those of other sizes. */
    #define VOLTA_LARGEST_OR_NAN(S, T, WHOLE, SIZE)                                                                 \
    static inline T volta_largest_or_nan_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, T power) {     \
        WHOLE part[16] = {0}, total = 0;                                                                            \
        T found;                                                                                                    \
        Py_ssize_t i = 0;                                                                                           \
        int k;                                                                                                      \
        for (; i <= n - 16; i += 16)                                                                                \
            for (k = 0; k < 16; k++) {                                                                              \
                const T d = a[i + k] - b[i + k];                                                                    \
                WHOLE t;                                                                                            \
                memcpy(&t, &d, sizeof(T));                                                                          \
                t &= SIZE;                                                                                          \
                part[k] = t > part[k] ? t : part[k];                                                                \
            }                                                                                                       \
        for (k = 0; k < 16; k++) total = part[k] > total ? part[k] : total;                                         \
        for (; i < n; i++) {                                                                                        \
            const T d = a[i] - b[i];                                                                                \
            WHOLE t;                                                                                                \
            memcpy(&t, &d, sizeof(T));                                                                              \
            t &= SIZE;                                                                                              \
            total = t > total ? t : total;                                                                          \
        }                                                                                                           \
        memcpy(&found, &total, sizeof(T));                                                                          \
        (void)power;                                                                                                \
        return found;                                                                                               \
    }
    VOLTA_LARGEST_OR_NAN(32, float, int, 0x7fffffff)
    VOLTA_LARGEST_OR_NAN(64, double, long long, 0x7fffffffffffffffLL)
    /* All distances of n short rows from r others. */
    #define VOLTA_CELLS_OF(M, T, JOIN, TERM)                                                                        \\
        for (i = 0; i < n; i++)                                                                                     \\
            for (j = 0; j < r; j++) {                                                                               \\
                T total = 0;                                                                                        \\
                for (k = 0; k < M; k++) { const T d = a[i * M + k] - b[j * M + k], t = TERM; total = JOIN(total, t); }  \\
                out[i * r + j] = total;                                                                             \\
            }
    #define VOLTA_CELLS(NAME, S, T, JOIN, TERM)                                                                     \\
    static void volta_##NAME##_cells_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n, Py_ssize_t r,  \\
                                         Py_ssize_t m, T* VOLTA_RESTRICT out) {                                     \\
        Py_ssize_t i, j, k;                                                                                         \\
        if (m == 2) { VOLTA_CELLS_OF(2, T, JOIN, TERM) }                                                            \\
        else if (m == 3) { VOLTA_CELLS_OF(3, T, JOIN, TERM) }                                                       \\
        else if (m == 4) { VOLTA_CELLS_OF(4, T, JOIN, TERM) }                                                       \\
        else { VOLTA_CELLS_OF(m, T, JOIN, TERM) }                                                                   \\
    }
    #define VOLTA_ALL_CELLS(S, T)                                                                                   \
    VOLTA_CELLS(square, S, T, VOLTA_ADDED, d * d)                                                                   \
    VOLTA_CELLS(size, S, T, VOLTA_ADDED, VOLTA_FABS##S(d))                                                          \
    VOLTA_CELLS(largest, S, T, VOLTA_LARGER, VOLTA_FABS##S(d))
    VOLTA_ALL_CELLS(32, float)
    VOLTA_ALL_CELLS(64, double)
    #define VOLTA_UP_TO_1(t) ((t) > 1 ? 1 : (t))
    #define VOLTA_NORMS(S, T)                                                                                       \\
    VOLTA_ROWS(counted, S, T, VOLTA_ADDED, VOLTA_UP_TO_1(VOLTA_CEIL##S(VOLTA_FABS##S(d))))                          \\
    VOLTA_ROWS(sizes, S, T, VOLTA_ADDED, VOLTA_FABS##S(d))                                                          \\
    VOLTA_ROWS(squares, S, T, VOLTA_ADDED, d * d)                                                                   \\
    VOLTA_ROWS(powers, S, T, VOLTA_ADDED, pow_f##S(VOLTA_FABS##S(d), power))                                        \\
    VOLTA_ROWS(largest, S, T, VOLTA_LARGER, VOLTA_FABS##S(d))                                                       \\
    VOLTA_SLOPES_OF(signs, S, T, scale * (d != d ? d : (T)((d > 0) - (d < 0))))                                     \\
    VOLTA_SLOPES_OF(ways, S, T, scale * d)                                                                          \\
    VOLTA_SLOPES_OF(sign_powers, S, T, d == 0 && power < 1 ? 0                                                      \\
                    : scale * (T)((d > 0) - (d < 0)) * pow_f##S(VOLTA_FABS##S(d), power - 1))                       \\
    VOLTA_SLOPES_OF(way_powers, S, T, scale * d * pow_f##S(VOLTA_FABS##S(d), power - 2))                            \\
    VOLTA_SLOPES_OF(those_of_largest, S, T, scale * (d != d ? d : (T)((d > 0) - (d < 0)))                           \\
                    * (1 - VOLTA_UP_TO_1(VOLTA_CEIL##S(VOLTA_FABS##S(VOLTA_FABS##S(d) - size)))))
    VOLTA_NORMS(32, float)
    VOLTA_NORMS(64, double)
    /* Sizes of a vector's numbers, and the larger ones of two, or those that are NaN. */
    #if defined(__GNUC__) || defined(__clang__)
      typedef int volta_whole32 __attribute__((vector_size(VOLTA_VECTOR_BYTES)));
      typedef long long volta_whole64 __attribute__((vector_size(VOLTA_VECTOR_BYTES)));
      #define VOLTA_SIZES32(x) ((volta_v32)((volta_whole32)(x) & 0x7fffffff))
      #define VOLTA_SIZES64(x) ((volta_v64)((volta_whole64)(x) & 0x7fffffffffffffffLL))
      #define VOLTA_PICK(S, mask, t, x) ((volta_v##S)(((mask) & (volta_whole##S)(t)) | (~(mask) & (volta_whole##S)(x))))
      #define VOLTA_MORE_OR_NAN(S, t, x) ((volta_whole##S)(t) > (volta_whole##S)(x))   /* of bits, NaN's are the largest */
    #else
      typedef int volta_whole32;
      typedef int volta_whole64;
      #define VOLTA_SIZES32(x) fabsf(x)
      #define VOLTA_SIZES64(x) fabs(x)
      #define VOLTA_PICK(S, mask, t, x) ((mask) ? (t) : (x))
      #define VOLTA_MORE_OR_NAN(S, t, x) (((t) > (x)) | ((t) != (t)))
    #endif
    /* The distances of a row from `n` others, which lie as columns: `turned`[m][step], four vectors of them at a time. */
    enum { VOLTA_ACROSS = 64 };
    #define VOLTA_ACROSS_OF(NAME, S, T, TERM, ROOT)                                                                 \\
    static inline void volta_##NAME##_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT turned, Py_ssize_t m, Py_ssize_t step,  \\
                                          Py_ssize_t n, T* VOLTA_RESTRICT out) {                                    \\
        T line[4 * VOLTA_LANES##S];                                                                                 \\
        Py_ssize_t j, k;                                                                                            \\
        int q;                                                                                                      \\
        for (j = 0; j < n; j += 4 * VOLTA_LANES##S) {                                                               \\
            volta_v##S part[4];                                                                                     \\
            for (q = 0; q < 4; q++) part[q] = (volta_v##S){0};                                                      \\
            for (k = 0; k < m; k++) {                                                                               \\
                const volta_v##S x = VOLTA_SAME##S(a[k]);                                                           \\
                VOLTA_UNROLL for (q = 0; q < 4; q++) {                                                              \\
                    const volta_v##S d = x - *(const volta_v##S*)(turned + k * step + j + q * VOLTA_LANES##S);      \\
                    TERM                                                                                            \\
                }                                                                                                   \\
            }                                                                                                       \\
            memcpy(line, part, sizeof(line));                                                                       \\
            for (q = 0; q < 4 * VOLTA_LANES##S; q++) line[q] = ROOT(line[q]);                                       \\
            if (j + 4 * VOLTA_LANES##S <= n) memcpy(out + j, line, sizeof(line));                                   \\
            else for (q = 0; j + q < n; q++) out[j + q] = line[q];                                                  \\
        }                                                                                                           \\
    }
    #define VOLTA_ALL_ACROSS(S, T, ROOT)                                                                            \\
    VOLTA_ACROSS_OF(lengths, S, T, part[q] = VOLTA_MADD##S(d, d, part[q]);, ROOT)                                   \\
    VOLTA_ACROSS_OF(sums, S, T, part[q] += VOLTA_SIZES##S(d);, )                                                    \\
    VOLTA_ACROSS_OF(most, S, T, const volta_v##S t = VOLTA_SIZES##S(d);                                             \\
                    const volta_whole##S more = t > part[q]; part[q] = VOLTA_PICK(S, more, t, part[q]);, )          \\
    VOLTA_ACROSS_OF(most_or_nan, S, T, const volta_v##S t = VOLTA_SIZES##S(d);                                      \\
                    const volta_whole##S more = VOLTA_MORE_OR_NAN(S, t, part[q]); part[q] = VOLTA_PICK(S, more, t, part[q]);, )
    VOLTA_ALL_ACROSS(32, float, sqrtf)
    VOLTA_ALL_ACROSS(64, double, sqrt)
    """
    enum:
        ACROSS "VOLTA_ACROSS"
    void lengths_32 "volta_lengths_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void lengths_64 "volta_lengths_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void sums_32 "volta_sums_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void sums_64 "volta_sums_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void most_32 "volta_most_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void most_64 "volta_most_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void most_or_nan_32 "volta_most_or_nan_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void most_or_nan_64 "volta_most_or_nan_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void square_cells_32 "volta_square_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void square_cells_64 "volta_square_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void size_cells_32 "volta_size_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void size_cells_64 "volta_size_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    void largest_cells_32 "volta_largest_cells_32"(const float*, const float*, Py_ssize_t, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void largest_cells_64 "volta_largest_cells_64"(const double*, const double*, Py_ssize_t, Py_ssize_t, Py_ssize_t, double*) noexcept nogil
    float counted_32 "volta_counted_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float sizes_32 "volta_sizes_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float squares_32 "volta_squares_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float powers_32 "volta_powers_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float largest_32 "volta_largest_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    float largest_or_nan_32 "volta_largest_or_nan_32"(const float*, const float*, Py_ssize_t, float) noexcept nogil
    double counted_64 "volta_counted_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double sizes_64 "volta_sizes_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double squares_64 "volta_squares_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double powers_64 "volta_powers_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double largest_64 "volta_largest_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    double largest_or_nan_64 "volta_largest_or_nan_64"(const double*, const double*, Py_ssize_t, double) noexcept nogil
    void signs_32 "volta_signs_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void ways_32 "volta_ways_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void sign_powers_32 "volta_sign_powers_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void way_powers_32 "volta_way_powers_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void those_of_largest_32 "volta_those_of_largest_32"(float*, const float*, const float*, float, float, float, Py_ssize_t) noexcept nogil
    void signs_64 "volta_signs_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void ways_64 "volta_ways_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void sign_powers_64 "volta_sign_powers_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void way_powers_64 "volta_way_powers_64"(double*, const double*, const double*, double, double, double, Py_ssize_t) noexcept nogil
    void those_of_largest_64 "volta_those_of_largest_64"(double*, const double*, const double*, double, double, double,
                                                         Py_ssize_t) noexcept nogil

cdef enum:
    BLOCK = 512                                 # rows of x2 that a task sees
    SHARE = 8                                   # tasks that a thread takes at a time
    NARROW = 256                                # elements of a row up to which those of several are summed side by side
    FEWEST = 8                                  # rows that are worth it
    SHORT = 16                                  # elements of a row, up to which it has no parts

cdef struct Sizes:
    Py_ssize_t batch
    Py_ssize_t n
    Py_ssize_t r
    Py_ssize_t m
    Py_ssize_t apart                            # results of a batch
    bint pairs
    double power
    Py_ssize_t step                             # of the rows that lie as columns, 0 where they do not


cdef inline real distance(const real* a, const real* b, const Sizes* s) noexcept nogil:
    cdef Py_ssize_t m = s.m
    if real is float:
        if s.power == 2:
            return <float>sqrt(squares_32(a, b, m, 2))
        if s.power == 1:
            return sizes_32(a, b, m, 1)
        if s.power == INFINITY:
            return largest_or_nan_32(a, b, m, 0) if s.pairs else largest_32(a, b, m, 0)
        if s.power == 0:
            return counted_32(a, b, m, 0)
        return pow_f32(powers_32(a, b, m, <float>s.power), <float>(1 / s.power))
    else:
        if s.power == 2:
            return sqrt(squares_64(a, b, m, 2))
        if s.power == 1:
            return sizes_64(a, b, m, 1)
        if s.power == INFINITY:
            return largest_or_nan_64(a, b, m, 0) if s.pairs else largest_64(a, b, m, 0)
        if s.power == 0:
            return counted_64(a, b, m, 0)
        return pow_f64(powers_64(a, b, m, s.power), 1 / s.power)


cdef inline Py_ssize_t pair(Py_ssize_t i, Py_ssize_t j, Py_ssize_t n) noexcept nogil:
    return i * (2 * n - i - 1) // 2 + j - i - 1


cdef void turn_rows(const real* x, const Sizes* s, real* turned) noexcept nogil:
    """Rows as columns, with zeros behind them."""
    cdef Py_ssize_t batch, k
    for batch in range(s.batch):
        turn(s.r, s.m, x + batch * s.r * s.m, s.m, turned + batch * s.m * s.step, s.step)
    for k in range(s.batch * s.m):
        memset(turned + k * s.step + s.r, 0, (s.step - s.r) * sizeof(real))


cdef inline void across(const real* a, const real* turned, const Sizes* s, Py_ssize_t n, real* out) noexcept nogil:
    """The distances of a row from n that lie as columns."""
    if real is float:
        if s.power == 2:
            lengths_32(a, turned, s.m, s.step, n, out)
        elif s.power == 1:
            sums_32(a, turned, s.m, s.step, n, out)
        elif s.pairs:
            most_or_nan_32(a, turned, s.m, s.step, n, out)
        else:
            most_32(a, turned, s.m, s.step, n, out)
    else:
        if s.power == 2:
            lengths_64(a, turned, s.m, s.step, n, out)
        elif s.power == 1:
            sums_64(a, turned, s.m, s.step, n, out)
        elif s.pairs:
            most_or_nan_64(a, turned, s.m, s.step, n, out)
        else:
            most_64(a, turned, s.m, s.step, n, out)


cdef inline void one_row(const real* x1, const real* x2, const real* turned, const Sizes* s, Py_ssize_t batch, Py_ssize_t i,
                         Py_ssize_t first, real* out) noexcept nogil:
    """One row of x1 and a block of x2's."""
    cdef Py_ssize_t j, last = min(first + BLOCK, s.r)
    x1 += (batch * s.n + i) * s.m
    x2 += batch * s.r * s.m
    if s.pairs:
        first = max(first, i + 1)
        out += batch * s.apart + pair(i, 0, s.n)
    else:
        out += batch * s.apart + i * s.r
    if s.step:
        turned += batch * s.m * s.step + first
        across(x1, <const real*>turned, s, last - first, out + first)
        return
    for j in range(first, last):
        out[j] = distance(x1, x2 + j * s.m, s)


cdef inline void cells(const real* a, const real* b, const Sizes* s, real* out) noexcept nogil:
    """The distances of a batch's short rows."""
    cdef Py_ssize_t j
    if real is float:
        if s.power == 2:
            square_cells_32(a, b, s.n, s.r, s.m, out)
        elif s.power == 1:
            size_cells_32(a, b, s.n, s.r, s.m, out)
        else:
            largest_cells_32(a, b, s.n, s.r, s.m, out)
    else:
        if s.power == 2:
            square_cells_64(a, b, s.n, s.r, s.m, out)
        elif s.power == 1:
            size_cells_64(a, b, s.n, s.r, s.m, out)
        else:
            largest_cells_64(a, b, s.n, s.r, s.m, out)
    if s.power == 2:
        for j in range(s.apart):
            out[j] = <real>sqrt(out[j])


cdef bint small_batches(const real* x1, const real* x2, const Sizes* s, real* out) noexcept nogil:
    """Everything, a batch after the other, where they are small and in a common norm. False, with nothing done, else."""
    cdef Py_ssize_t batch
    cdef int threads = threads_for(s.batch * s.apart * (s.m + 4) // 2)
    if s.pairs or s.step or s.m >= SHORT or not (s.power == 2 or s.power == 1 or s.power == INFINITY):
        return False
    if threads > 1 and s.batch < 4 * threads:
        return False
    if threads == 1:
        for batch in range(s.batch):
            cells(x1 + batch * s.n * s.m, x2 + batch * s.r * s.m, s, out + batch * s.apart)
    else:
        for batch in prange(s.batch, num_threads=threads, schedule="static"):
            cells(x1 + batch * s.n * s.m, x2 + batch * s.r * s.m, s, out + batch * s.apart)
    return True


cdef void some_rows(const real* x1, const real* x2, const real* turned, const Sizes* s, Py_ssize_t task, Py_ssize_t last,
                    real* out) noexcept nogil:
    """Tasks, each a row of x1 and a block of x2's."""
    cdef Py_ssize_t blocks = (s.r + BLOCK - 1) // BLOCK, block = task % blocks, i = task // blocks % s.n, batch = task // blocks // s.n
    for task in range(task, last):
        one_row(x1, x2, turned, s, batch, i, block * BLOCK, out)
        block += 1
        if block == blocks:
            block, i = 0, i + 1
            if i == s.n:
                i, batch = 0, batch + 1


cdef void all_rows(const real* x1, const real* x2, real* turned, const Sizes* s, real* out) noexcept nogil:
    cdef Py_ssize_t tasks = s.batch * s.n * ((s.r + BLOCK - 1) // BLOCK), task
    cdef int threads = threads_for(s.batch * s.apart * (s.m + 16) // (16 if s.step else 1))
    if small_batches(x1, x2, s, out):
        return
    if s.step:
        turn_rows(x2, s, turned)
    if threads == 1:
        some_rows(x1, x2, turned, s, 0, tasks, out)
        return
    for task in prange((tasks + SHARE - 1) // SHARE, num_threads=threads, schedule="dynamic"):
        some_rows(x1, x2, turned, s, task * SHARE, min(task * SHARE + SHARE, tasks), out)


cdef Sizes sizes_of(TensorBase x1, TensorBase x2, double p):
    """x2 is None for the pairs of rows of x1."""
    cdef Sizes s
    s.batch, s.n, s.m = x1.shape
    if x2 is not None and (len(x2.shape) != 3 or x2.shape[0] != s.batch or x2.shape[2] != s.m):
        raise ShapeError(f"distances: rows {x1.shape} and {x2.shape} do not fit")
    s.pairs, s.power = x2 is None, p
    s.r = s.n if s.pairs else <Py_ssize_t>x2.shape[1]
    s.apart = s.n * (s.n - 1) // 2 if s.pairs else s.n * s.r
    s.step = 0
    if (p == 2 or p == 1 or p == INFINITY) and s.m <= NARROW and min(s.n, s.r) >= FEWEST:
        s.step = (s.r + ACROSS - 1) // ACROSS * ACROSS + ACROSS         # a block that begins anywhere is whole
    return s


def distances(TensorBase x1 not None, TensorBase x2, double p):
    """The p-norms of what rows differ by."""
    cdef int code = float_code("distances", x1) if x2 is None else float_code("distances", x1, x2)
    x1 = packed(x1)
    x2 = None if x2 is None else packed(x2)
    cdef Sizes s = sizes_of(x1, x2, p)
    cdef tuple shape = (s.batch, s.apart)
    if not s.pairs:
        shape = (s.batch, s.n, s.r)
    cdef TensorBase out = empty_host(shape, x1.dtype)
    cdef void* first = address(x1)
    cdef void* second = first if x2 is None else address(x2)
    cdef void* target = address(out)
    cdef Storage turned = host_storage(max(s.batch * s.m * s.step * <Py_ssize_t>x1.dtype.itemsize, <Py_ssize_t>1))
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_rows(<const float*>first, <const float*>second, <float*>turned.data, &s, <float*>target)
            else:
                all_rows(<const double*>first, <const double*>second, <double*>turned.data, &s, <double*>target)
    return out


cdef inline void add_slopes(real* out, const real* a, const real* b, real g, real size, const Sizes* s) noexcept nogil:
    """What the distance `size` of rows a and b, with the gradient g, adds to that of a."""
    cdef real power = <real>s.power
    if real is float:
        if s.power == 2:
            ways_32(out, a, b, g / size if size != 0 else 0, size, 2, s.m)
        elif s.power == 1:
            signs_32(out, a, b, g, size, 1, s.m)
        elif s.power == INFINITY:
            those_of_largest_32(out, a, b, g, size, 0, s.m)
        elif s.power < 2:
            sign_powers_32(out, a, b, g / pow_f32(size, power - 1) if size != 0 else 0, size, power, s.m)
        else:
            way_powers_32(out, a, b, g / pow_f32(size, power - 1) if size != 0 else 0, size, power, s.m)
    else:
        if s.power == 2:
            ways_64(out, a, b, g / size if size != 0 else 0, size, 2, s.m)
        elif s.power == 1:
            signs_64(out, a, b, g, size, 1, s.m)
        elif s.power == INFINITY:
            those_of_largest_64(out, a, b, g, size, 0, s.m)
        elif s.power < 2:
            sign_powers_64(out, a, b, g / pow_f64(size, power - 1) if size != 0 else 0, size, power, s.m)
        else:
            way_powers_64(out, a, b, g / pow_f64(size, power - 1) if size != 0 else 0, size, power, s.m)


cdef void one_gradient(const real* g, const real* x1, const real* x2, const real* size, const Sizes* s, Py_ssize_t row,
                       real* out) noexcept nogil:
    cdef Py_ssize_t batch = row // s.n, i = row % s.n, j, k, at
    cdef const real* a = x1 + row * s.m
    cdef const real* b = x2 + batch * s.r * s.m
    out += row * s.m
    g += batch * s.apart
    size += batch * s.apart
    for k in range(s.m):
        out[k] = 0
    if s.power == 0:
        return
    for j in range(s.r):
        if s.pairs and j == i:
            continue
        at = i * s.r + j if not s.pairs else pair(i, j, s.n) if i < j else pair(j, i, s.n)
        add_slopes(out, a, b + j * s.m, g[at], size[at], s)


cdef void all_gradients(const real* g, const real* x1, const real* x2, const real* size, const Sizes* s, real* out) noexcept nogil:
    cdef int threads = threads_for(s.batch * s.n * s.r * (s.m + 16))
    cdef Py_ssize_t row
    if threads == 1:
        for row in range(s.batch * s.n):
            one_gradient(g, x1, x2, size, s, row, out)
        return
    for row in prange(s.batch * s.n, num_threads=threads, schedule="static"):
        one_gradient(g, x1, x2, size, s, row, out)


def distances_grad(TensorBase g not None, TensorBase x1 not None, TensorBase x2, TensorBase size not None, double p):
    """The gradient of x1 by g, that of the distances `size`."""
    cdef int code = float_code("distances_grad", g)
    g, x1, size = packed(g), packed(x1), packed(size)
    x2 = None if x2 is None else packed(x2)
    cdef Sizes s = sizes_of(x1, x2, p)
    if g.size != s.batch * s.apart or size.size != g.size or x1.dtype is not g.dtype or size.dtype is not g.dtype:
        raise ShapeError(f"distances_grad: there are {s.batch * s.apart} distances of {x1.dtype.name}, got gradients of {g.size} in "
                         f"{g.dtype.name} and {size.size} of {size.dtype.name}")
    cdef TensorBase out = empty_host(x1.shape, x1.dtype)
    cdef void* slopes = address(g)
    cdef void* first = address(x1)
    cdef void* second = first if x2 is None else address(x2)
    cdef void* lengths = address(size)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_gradients(<const float*>slopes, <const float*>first, <const float*>second, <const float*>lengths, &s, <float*>target)
            else:
                all_gradients(<const double*>slopes, <const double*>first, <const double*>second, <const double*>lengths, &s,
                              <double*>target)
    return out


KERNELS = {"distances": distances, "distances_grad": distances_grad}
