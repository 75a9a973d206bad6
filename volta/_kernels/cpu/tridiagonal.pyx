# Eigenvalues and vectors of a symmetric tridiagonal matrix, by the iterations of LAPACK's sterf and steqr, whose signs these are.
#
# Layout: the diagonal d[n] and what is beside it, e[n - 1], in double precision; vectors are rows of z, in whole vectors.
# Threads: none. Sizes: the caller's. Where an iteration does not converge, False.
from libc.math cimport copysign, fabs, sqrt

from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sweep cimport sweep

cdef enum:
    MOST = 30                   # iterations for each value


cdef void turn_round(double* x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n // 2):
        x[i], x[n - 1 - i] = x[n - 1 - i], x[i]


cdef bint values_of(Py_ssize_t n, double* d, double* e, double eps) noexcept nogil:
    """d: the values in ascending order. Source: Pal, Walker and Kahan's QL without roots, as in Parlett, The Symmetric Eigenvalue Problem,
    1980, section 8.15."""
    cdef Py_ssize_t first, last, m, i, left = MOST * n
    cdef double p, c, s, r, gamma, sigma, root, square, before, old
    for i in range(n - 1):
        e[i] *= e[i]
    first = 0
    while first < n:
        last = first
        while last < n - 1 and e[last] > eps * eps * fabs(d[last]) * fabs(d[last + 1]):
            last += 1
        if last < n - 1:
            e[last] = 0
        if fabs(d[last]) < fabs(d[first]):
            turn_round(d + first, last - first + 1)
            turn_round(e + first, last - first)
        while first <= last:
            m = first
            while m < last and e[m] > eps * eps * fabs(d[m]) * fabs(d[m + 1]):
                m += 1
            if m == first:
                first += 1
                continue
            if m < last:
                e[m] = 0
            left -= 1
            if left < 0:
                return False
            root = sqrt(e[first])
            sigma = (d[first + 1] - d[first]) / (2 * root)
            sigma = d[first] - root / (sigma + copysign(sqrt(sigma * sigma + 1), sigma))
            c, s, gamma = 1, 0, d[m] - sigma
            p = gamma * gamma
            for i in range(m - 1, first - 1, -1):
                square = e[i]
                r = p + square
                if i != m - 1:
                    e[i + 1] = s * r
                before, old = c, gamma
                c, s = p / r, square / r
                gamma = c * (d[i] - sigma) - s * old
                d[i + 1] = old + (d[i] - gamma)
                p = gamma * gamma / c if c != 0 else before * square
            e[first] = s * p
            d[first] = sigma + gamma
    sort(n, d)
    return True


cdef void sort(Py_ssize_t n, double* d) noexcept nogil:
    """By the lengths of Shell's sort: the values are nearly in order."""
    cdef Py_ssize_t gap = 1, i, j
    cdef double x
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x, j = d[i], i
            while j >= gap and d[j - gap] > x:
                d[j] = d[j - gap]
                j -= gap
            d[j] = x
        gap //= 3


cdef void rotation(double f, double g, double* c, double* s, double* r) noexcept nogil:
    """c f + s g = r, c g - s f = 0. IN: squares are in range."""
    cdef double size, square
    if g == 0:
        c[0], s[0], r[0] = 1, 0, f
    elif f == 0:
        c[0], s[0], r[0] = 0, copysign(1, g), fabs(g)
    else:
        square = f * f + g * g
        size = 1 / sqrt(square)
        c[0] = fabs(f) * size
        s[0] = copysign(g * size, g if f > 0 else -g)
        r[0] = copysign(square * size, f)


cdef void two(double a, double b, double c, double* large, double* small, double* cosine, double* sine) noexcept nogil:
    """The values of [[a, b], [b, c]], the one of larger size first, and its vector. As LAPACK's laev2."""
    cdef double total = a + c, apart = a - c, twice = b + b, root, size, t, first
    cdef double most = a if fabs(a) > fabs(c) else c, least = c if fabs(a) > fabs(c) else a
    cdef bint down
    root = sqrt(apart * apart + twice * twice)
    large[0] = 0.5 * (total - root if total < 0 else total + root)
    if total == 0:
        large[0], small[0] = 0.5 * root, -0.5 * root
    else:
        small[0] = most / large[0] * least - b / large[0] * b
    first = apart + root if apart >= 0 else apart - root
    if fabs(first) > fabs(twice):
        t = -twice / first
        sine[0] = 1 / sqrt(1 + t * t)
        cosine[0] = t * sine[0]
    elif twice == 0:
        cosine[0], sine[0] = 1, 0
    else:
        t = -first / twice
        cosine[0] = 1 / sqrt(1 + t * t)
        sine[0] = t * cosine[0]
    if (total >= 0) == (apart >= 0):
        t = cosine[0]
        cosine[0] = -sine[0]
        sine[0] = t


cdef bint iterate(Py_ssize_t n, double* d, double* e, real* z, Py_ssize_t ld, Py_ssize_t width, real* cosines, real* sines) noexcept nogil:
    """d: the values, not in order; z: what its rows were in terms of the vectors. IN: cosines[n], sines[n]; e[n] of room."""
    cdef double eps = 1.1102230246251565e-16            # for float32 too: as many steps, and so the same signs, as in float64
    cdef Py_ssize_t begin = 0, end, first, last, m, step, i, left = MOST * n
    cdef double p, g, r, c, s, f, b, large = 0, small = 0, least = 2.3e-308 if real is double else 1.2e-38
    cdef bint back
    while begin < n:
        end = begin
        while end < n - 1 and fabs(e[end]) > sqrt(fabs(d[end])) * sqrt(fabs(d[end + 1])) * eps:
            end += 1
        if end < n - 1:
            e[end] = 0
        first, last = begin, end
        begin = end + 1
        back = fabs(d[last]) >= fabs(d[first])          # QL from the last row up, else QR
        if not back:
            first, last = last, first
        step = 1 if back else -1
        while (last - first) * step >= 0:
            m = first
            while m != last:                            # e between m and m + step
                i = m if back else m - 1
                if e[i] * e[i] <= eps * eps * fabs(d[m]) * fabs(d[m + step]) + least:
                    e[i] = 0
                    break
                m += step
            if m == first:
                first += step
                continue
            i = first if back else first - 1
            p = d[first]
            if m == first + step:
                two(d[i], e[i], d[i + 1], &large, &small, &c, &s)
                cosines[i], sines[i] = <real>c, <real>s
                sweep(1, back, cosines + i, sines + i, z + i * ld, ld, width)
                d[i], d[i + 1], e[i] = large, small, 0
                first += 2 * step
                continue
            left -= 1
            if left < 0:
                return False
            g = (d[first + step] - p) / (2 * e[i])
            g = d[m] - p + e[i] / (g + copysign(sqrt(g * g + 1), g))
            s = c = 1
            p = 0
            if back:
                for i in range(m - 1, first - 1, -1):
                    f, b = s * e[i], c * e[i]
                    rotation(g, f, &c, &s, &r)
                    if i != m - 1:
                        e[i + 1] = r
                    g = d[i + 1] - p
                    r = (d[i] - g) * s + 2 * c * b
                    p = s * r
                    d[i + 1] = g + p
                    g = c * r - b
                    cosines[i], sines[i] = <real>c, <real>(-s)
                sweep(m - first, True, cosines + first, sines + first, z + first * ld, ld, width)
                d[first] -= p
                e[first] = g
            else:
                for i in range(m, first):
                    f, b = s * e[i], c * e[i]
                    rotation(g, f, &c, &s, &r)
                    if i != m:
                        e[i - 1] = r
                    g = d[i] - p
                    r = (d[i + 1] - g) * s + 2 * c * b
                    p = s * r
                    d[i] = g + p
                    g = c * r - b
                    cosines[i], sines[i] = <real>c, <real>s
                sweep(first - m, False, cosines + m, sines + m, z + m * ld, ld, width)
                d[first] -= p
                e[first - 1] = g
    return True


cdef void sort_rows(Py_ssize_t n, double* d, real* z, Py_ssize_t ld, Py_ssize_t width) noexcept nogil:
    """Ascending values, with their rows."""
    cdef Py_ssize_t i, j, least
    cdef real v
    for i in range(n - 1):
        least = i
        for j in range(i + 1, n):
            if d[j] < d[least]:
                least = j
        if least != i:
            d[i], d[least] = d[least], d[i]
            for j in range(width):
                v = z[i * ld + j]
                z[i * ld + j], z[least * ld + j] = z[least * ld + j], v
