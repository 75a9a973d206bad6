# Euclidean distances of the rows of a matrix from one another, and their gradient.
#
# Layout: x[n, m], contiguous; the pair (i, j), i < j, is number i (2n - i - 1) / 2 + j - i - 1.
# Threads: over rows; the gradient of a row is a sum over all others, in their order, so that it does not depend on how many there are.
# Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport sqrt

from volta.errors import ShapeError

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.tile cimport real

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
    #else
      #define VOLTA_RESTRICT __restrict__
    #endif
    /* Sums in 16 parts, which compilers make vectors of. */
    #define VOLTA_ROWS(S, T)                                                                                        \\
    static inline T volta_squares_##S(const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b, Py_ssize_t n) {         \\
        T part[16] = {0}, total = 0;                                                                                \\
        Py_ssize_t i = 0;                                                                                           \\
        int k;                                                                                                      \\
        if (n >= 16) {                                                                                              \\
            for (; i <= n - 16; i += 16)                                                                            \\
                for (k = 0; k < 16; k++) { const T d = a[i + k] - b[i + k]; part[k] += d * d; }                     \\
            for (k = 0; k < 8; k++) part[k] += part[k + 8];                                                         \\
            for (k = 0; k < 4; k++) part[k] += part[k + 4];                                                         \\
            total = (part[0] + part[2]) + (part[1] + part[3]);                                                      \\
        }                                                                                                           \\
        for (; i < n; i++) { const T d = a[i] - b[i]; total += d * d; }                                             \\
        return total;                                                                                               \\
    }                                                                                                               \\
    static inline void volta_add_way_##S(T* VOLTA_RESTRICT out, const T* VOLTA_RESTRICT a, const T* VOLTA_RESTRICT b,  \\
                                         T scale, Py_ssize_t n) {                                                   \\
        Py_ssize_t i;                                                                                               \\
        for (i = 0; i < n; i++) out[i] += scale * (a[i] - b[i]);                                                    \\
    }
    VOLTA_ROWS(32, float)
    VOLTA_ROWS(64, double)
    """
    float squares_32 "volta_squares_32"(const float*, const float*, Py_ssize_t) noexcept nogil
    double squares_64 "volta_squares_64"(const double*, const double*, Py_ssize_t) noexcept nogil
    void add_way_32 "volta_add_way_32"(float*, const float*, const float*, float, Py_ssize_t) noexcept nogil
    void add_way_64 "volta_add_way_64"(double*, const double*, const double*, double, Py_ssize_t) noexcept nogil


cdef inline real distance(const real* a, const real* b, Py_ssize_t m) noexcept nogil:
    if real is float:
        return <float>sqrt(squares_32(a, b, m))
    else:
        return sqrt(squares_64(a, b, m))


cdef inline Py_ssize_t pair(Py_ssize_t i, Py_ssize_t j, Py_ssize_t n) noexcept nogil:
    return i * (2 * n - i - 1) // 2 + j - i - 1


cdef inline void one_row(const real* x, Py_ssize_t i, Py_ssize_t n, Py_ssize_t m, real* out) noexcept nogil:
    cdef Py_ssize_t j
    out += pair(i, i + 1, n)
    for j in range(i + 1, n):
        out[j - i - 1] = distance(x + i * m, x + j * m, m)


cdef void all_rows(const real* x, Py_ssize_t n, Py_ssize_t m, real* out) noexcept nogil:
    cdef int threads = threads_for(n * (n - 1) // 2 * (m + 16))
    cdef Py_ssize_t i
    if threads == 1:
        for i in range(n):
            one_row(x, i, n, m, out)
        return
    for i in prange(n, num_threads=threads, schedule="dynamic", chunksize=8):
        one_row(x, i, n, m, out)


def pair_distances(TensorBase x not None):
    """The distance of each pair of rows."""
    cdef int code = float_code("pair_distances", x)
    x = packed(x)
    cdef Py_ssize_t n = x.shape[0], m = x.shape[1]
    cdef TensorBase out = empty_host((n * (n - 1) // 2,), x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_rows(<const float*>source, n, m, <float*>target)
            else:
                all_rows(<const double*>source, n, m, <double*>target)
    return out


cdef inline void one_gradient(const real* g, const real* x, Py_ssize_t i, Py_ssize_t n, Py_ssize_t m, real* out) noexcept nogil:
    cdef Py_ssize_t j, k, at = i - 1            # the pair (j, i)
    cdef const real* a = x + i * m
    cdef const real* b = x
    cdef real size
    out += i * m
    for k in range(m):
        out[k] = 0
    for j in range(n):
        if j == i:
            at = pair(i, i + 1, n)
        else:
            size = distance(a, b, m)
            size = g[at] / size if size != 0 else 0
            if real is float:
                add_way_32(out, a, b, size, m)
            else:
                add_way_64(out, a, b, size, m)
            at += n - j - 2 if j < i else 1
        b += m


cdef void all_gradients(const real* g, const real* x, Py_ssize_t n, Py_ssize_t m, real* out) noexcept nogil:
    cdef int threads = threads_for(2 * n * n * (m + 16))
    cdef Py_ssize_t i
    if threads == 1:
        for i in range(n):
            one_gradient(g, x, i, n, m, out)
        return
    for i in prange(n, num_threads=threads, schedule="static"):
        one_gradient(g, x, i, n, m, out)


def pair_distances_grad(TensorBase g not None, TensorBase x not None):
    """The gradient of x by that of pair_distances."""
    cdef int code = float_code("pair_distances_grad", g)
    g, x = packed(g), packed(x)
    cdef Py_ssize_t n = x.shape[0], m = x.shape[1]
    if g.size != n * (n - 1) // 2 or x.dtype is not g.dtype:
        raise ShapeError(f"pair_distances_grad: {n} rows have {n * (n - 1) // 2} pairs of {x.dtype.name}, got {g.size} of {g.dtype.name}")
    cdef TensorBase out = empty_host((n, m), x.dtype)
    cdef void* slopes = address(g)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_gradients(<const float*>slopes, <const float*>source, n, m, <float*>target)
            else:
                all_gradients(<const double*>slopes, <const double*>source, n, m, <double*>target)
    return out


KERNELS = {"pair_distances": pair_distances, "pair_distances_grad": pair_distances_grad}
