# Roots of 1 + rho sum z_i^2 / (pole_i - x) = 0, of which there is one behind each pole.
#
# Threads: none. Sizes: the caller's.
# Source: Bunch, Nielsen and Sorensen, Rank-One Modification of the Symmetric Eigenproblem, 1978, beside bounds that shrink.
from libc.math cimport fabs, sqrt

from volta._kernels.cpu.tile cimport LANES64

cdef extern from *:
    """
    /* Sums of z_i^2 / (apart_i - x) and of its derivative. */
    static inline void volta_secular(Py_ssize_t n, const double* z, const double* apart, double x, double* sum, double* slope) {
        volta_v64 a = {0}, b = {0}; double total = 0, rise = 0; Py_ssize_t i = 0;
        for (; i + VOLTA_LANES64 <= n; i += VOLTA_LANES64) {
            const volta_v64 r = VOLTA_SAME64(1.0) / (*(const volta_v64*)(apart + i) - VOLTA_SAME64(x));
            const volta_v64 t = *(const volta_v64*)(z + i) * r;
            a += t;
            b = VOLTA_MADD64(t, r, b);
        }
        for (; i < n; i++) { const double r = 1 / (apart[i] - x), t = z[i] * r; total += t; rise += t * r; }
        *sum = total + volta_total64(a);
        *slope = rise + volta_total64(b);
    }
    """
    void sums "volta_secular"(Py_ssize_t n, const double* z, const double* apart, double x, double* sum, double* slope) noexcept nogil

cdef enum:
    MOST = 100


cdef inline double root_of(Py_ssize_t k, Py_ssize_t j, double rho, const double* squares, double* apart, Py_ssize_t* origin) noexcept nogil:
    """The root behind pole j, from the nearest pole, `origin`, on. IN: apart, poles from pole j on. OUT: apart, poles from the root on."""
    cdef double low = 0, high, x, below, above, below_rise, above_rise, w, a, b, c, step, first, second, shift, root, total = 0
    cdef Py_ssize_t i, cut = j + 1, turn
    cdef bint last = j == k - 1
    origin[0] = j
    if last:
        for i in range(k):
            total += squares[i]
        high = rho * total
        if k == 1:
            apart[0] = -high
            return high
        cut = j
        x = high / 2
    else:
        high = apart[j + 1]
        x = high / 2
        sums(k, squares, apart, x, &below, &below_rise)
        if 1 / rho + below < 0:                         # nearer to the next
            origin[0] = j + 1
            shift = apart[j + 1]
            for i in range(k):
                apart[i] -= shift
            low, high = -x, 0
            x = low
            apart[j + 1] = 0
        else:
            high = x
    for turn in range(MOST):
        sums(cut, squares, apart, x, &below, &below_rise)
        sums(k - cut, squares + cut, apart + cut, x, &above, &above_rise)
        w = 1 / rho + below + above
        if fabs(w) <= 2.2e-16 * (fabs(below) + fabs(above) + 1 / rho):
            break
        if w < 0:
            low = x
        else:
            high = x
        first, second = apart[cut - 1] - x, apart[cut] - x
        a = (first + second) * w - first * second * (below_rise + above_rise)
        b = first * second * w
        c = w - first * below_rise - second * above_rise
        root = sqrt(fabs(a * a - 4 * b * c))
        if last:
            c = fabs(c)
            step = (a + root) / (2 * c) if a >= 0 else 2 * b / (a - root)
        else:
            step = (a - root) / (2 * c) if a <= 0 else 2 * b / (a + root)
        if not w * step < 0:
            step = -w / (below_rise + above_rise)
        if not low < x + step < high:
            step = (low + high) / 2 - x
        if fabs(step) <= 1.1e-16 * fabs(x):
            break
        x += step
        if not low < x < high:
            break
    if x == 0 or apart[origin[0]] - x == 0:
        x = high / 2 if high > 0 else low / 2
    for i in range(k):
        apart[i] -= x
    return x
