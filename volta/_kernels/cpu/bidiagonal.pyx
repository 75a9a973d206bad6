# Singular values and vectors of an upper bidiagonal matrix, by the iterations of LAPACK's bdsqr, whose signs these are.
#
# Layout: the diagonal d[n] and what is above it, e[n - 1], in double precision; vectors are rows of u and v, in whole vectors.
# Threads: over columns of vectors. Sizes: the caller's. Source: Demmel and Kahan, Accurate Singular Values of Bidiagonal Matrices, 1990.
from cython.parallel cimport prange
from libc.math cimport copysign, fabs, sqrt

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.differences cimport values_between
from volta._kernels.cpu.lu_blocks cimport BLOCK
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sweep cimport SWEEPS, Sweeps, sweep, sweep_all
from volta._kernels.cpu.tridiagonal cimport rotation

cdef enum:
    MOST = 6                    # iterations: of n for each value
    ALIKE = 64                  # singular values up to which those of float32 are found as precisely as those of float64


cdef double smaller(double f, double g, double h) noexcept nogil:
    """The smaller singular value of [[f, g], [0, h]]. As LAPACK's las2."""
    cdef double least = min(fabs(f), fabs(h)), most = max(fabs(f), fabs(h)), s, t, u
    g = fabs(g)
    if least == 0:
        return 0
    s, t = 1 + least / most, (most - least) / most
    if g < most:
        u = (g / most) * (g / most)
        return least * 2 / (sqrt(s * s + u) + sqrt(t * t + u))
    u = most / g
    if u == 0:
        return least * most / g
    return 2 * (least / (sqrt(1 + (s * u) * (s * u)) + sqrt(1 + (t * u) * (t * u)))) * u


cdef void two(double f, double g, double h, double* small, double* large, double* sr, double* cr, double* sl, double* cl) noexcept nogil:
    """The singular values of [[f, g], [0, h]] and the rotations that give them. As LAPACK's lasv2."""
    cdef double ft = f, fa = fabs(f), ht = h, ha = fabs(h), ga = fabs(g), d, l, m, t, s, r, a, clt, crt, slt, srt, sign
    cdef int most = 1
    cdef bint swapped = ha > fa, usual = True
    if swapped:
        most = 3
        ft, ht, fa, ha = h, f, ha, fa
    if ga == 0:
        small[0], large[0], clt, crt, slt, srt = ha, fa, 1, 1, 0, 0
    else:
        clt = crt = slt = srt = 0
        if ga > fa:
            most = 2
            if fa / ga < 1.1e-16:
                usual = False
                large[0] = ga
                small[0] = fa / (ga / ha) if ha > 1 else fa / ga * ha
                clt, slt, srt, crt = 1, ht / g, 1, ft / g
        if usual:
            d = fa - ha
            l = 1 if d == fa else d / fa
            m = g / ft
            t = 2 - l
            s = sqrt(t * t + m * m)
            r = fabs(m) if l == 0 else sqrt(l * l + m * m)
            a = 0.5 * (s + r)
            small[0], large[0] = ha / a, fa * a
            if m * m == 0:
                t = copysign(2, ft) * copysign(1, g) if l == 0 else g / copysign(d, ft) + m / t
            else:
                t = (m / (s + t) + m / (r + l)) * (1 + a)
            l = sqrt(t * t + 4)
            crt, srt = 2 / l, t / l
            clt, slt = (crt + srt * m) / a, ht / ft * srt / a
    if swapped:
        cl[0], sl[0], cr[0], sr[0] = srt, crt, slt, clt
    else:
        cl[0], sl[0], cr[0], sr[0] = clt, slt, crt, srt
    if most == 1:
        sign = copysign(1, cr[0]) * copysign(1, cl[0]) * copysign(1, f)
    elif most == 2:
        sign = copysign(1, sr[0]) * copysign(1, cl[0]) * copysign(1, g)
    else:
        sign = copysign(1, sr[0]) * copysign(1, sl[0]) * copysign(1, h)
    large[0] = copysign(large[0], sign)
    small[0] = copysign(small[0], sign * copysign(1, f) * copysign(1, h))


cdef void make_upper(Py_ssize_t n, double* d, double* e, real* u, Py_ssize_t u_row, Py_ssize_t u_width, real* angles) noexcept nogil:
    """A lower bidiagonal matrix, of which e is below the diagonal, turned to an upper one from the left."""
    cdef Py_ssize_t i
    cdef double c, s, r
    for i in range(n - 1):
        rotation(d[i], e[i], &c, &s, &r)
        d[i], e[i], d[i + 1] = r, s * d[i + 1], c * d[i + 1]
        angles[i], angles[n + i] = <real>c, <real>s
    if u != NULL:
        sweep(n - 1, False, angles, angles + n, u, u_row, u_width)


cdef bint negligible(Py_ssize_t low, Py_ssize_t m, int way, const double* d, double* e, double limit, double* least) noexcept nogil:
    """Whether an element beside the diagonal of rows low .. m does not count, which is 0 then. OUT: a bound of the smallest value."""
    cdef Py_ssize_t i
    cdef double size
    if way == 1:
        if fabs(e[m - 1]) <= limit * fabs(d[m]):
            e[m - 1] = 0
            return True
        size = least[0] = fabs(d[low])
        for i in range(low, m):
            if fabs(e[i]) <= limit * size:
                e[i] = 0
                return True
            size = fabs(d[i + 1]) * (size / (size + fabs(e[i])))
            least[0] = min(least[0], size)
        return False
    if fabs(e[low]) <= limit * fabs(d[low]):
        e[low] = 0
        return True
    size = least[0] = fabs(d[m])
    for i in range(m - 1, low - 1, -1):
        if fabs(e[i]) <= limit * size:
            e[i] = 0
            return True
        size = fabs(d[i]) * (size / (size + fabs(e[i])))
        least[0] = min(least[0], size)
    return False


cdef void chase(Py_ssize_t low, Py_ssize_t m, int way, double shift, double* d, double* e, real* c1, real* s1, real* c2,
                real* s2) noexcept nogil:
    """A sweep over rows low .. m, downwards or upwards (`way` 2). OUT: what rotates pairs of rows of v and of u, or with `way` 2 of u and
    of v."""
    cdef Py_ssize_t i
    cdef double c = 1, s = 0, old_c = 1, old_s = 0, r, f, g
    if shift == 0 and way == 1:
        for i in range(low, m):
            rotation(d[i] * c, e[i], &c, &s, &r)
            if i > low:
                e[i - 1] = old_s * r
            rotation(old_c * r, d[i + 1] * s, &old_c, &old_s, &d[i])
            c1[i], s1[i], c2[i], s2[i] = <real>c, <real>s, <real>old_c, <real>old_s
        f = d[m] * c
        d[m], e[m - 1] = f * old_c, f * old_s
    elif shift == 0:
        for i in range(m, low, -1):
            rotation(d[i] * c, e[i - 1], &c, &s, &r)
            if i < m:
                e[i] = old_s * r
            rotation(old_c * r, d[i - 1] * s, &old_c, &old_s, &d[i])
            c1[i - 1], s1[i - 1], c2[i - 1], s2[i - 1] = <real>c, <real>(-s), <real>old_c, <real>(-old_s)
        f = d[low] * c
        d[low], e[low] = f * old_c, f * old_s
    elif way == 1:
        f, g = (fabs(d[low]) - shift) * (copysign(1, d[low]) + shift / d[low]), e[low]
        for i in range(low, m):
            rotation(f, g, &c, &s, &r)
            if i > low:
                e[i - 1] = r
            f, e[i] = c * d[i] + s * e[i], c * e[i] - s * d[i]
            g, d[i + 1] = s * d[i + 1], c * d[i + 1]
            rotation(f, g, &old_c, &old_s, &d[i])
            f, d[i + 1] = old_c * e[i] + old_s * d[i + 1], old_c * d[i + 1] - old_s * e[i]
            if i < m - 1:
                g, e[i + 1] = old_s * e[i + 1], old_c * e[i + 1]
            c1[i], s1[i], c2[i], s2[i] = <real>c, <real>s, <real>old_c, <real>old_s
        e[m - 1] = f
    else:
        f, g = (fabs(d[m]) - shift) * (copysign(1, d[m]) + shift / d[m]), e[m - 1]
        for i in range(m, low, -1):
            rotation(f, g, &c, &s, &r)
            if i < m:
                e[i] = r
            f, e[i - 1] = c * d[i] + s * e[i - 1], c * e[i - 1] - s * d[i]
            g, d[i - 1] = s * d[i - 1], c * d[i - 1]
            rotation(f, g, &old_c, &old_s, &d[i])
            f, d[i - 1] = old_c * e[i - 1] + old_s * d[i - 1], old_c * d[i - 1] - old_s * e[i - 1]
            if i > low + 1:
                g, e[i - 2] = old_s * e[i - 2], old_c * e[i - 2]
            c1[i - 1], s1[i - 1], c2[i - 1], s2[i - 1] = <real>c, <real>(-s), <real>old_c, <real>(-old_s)
        e[low] = f


cdef void finish(bint shared, Sweeps* p, const real* angles, real* u, Py_ssize_t u_row, Py_ssize_t u_width, real* v, Py_ssize_t v_row,
                 Py_ssize_t v_width) noexcept nogil:
    """The sweeps that wait."""
    cdef int threads = threads_for(p.count * p.n * (u_width + v_width) // 8) if shared else 1, t
    cdef Py_ssize_t u_blocks = u_width // BLOCK, v_blocks = v_width // BLOCK
    if threads == 1:
        sweep_all(p, angles, v, v_row, v_width)
        sweep_all(p, angles + 2 * SWEEPS * p.n, u, u_row, u_width)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            sweep_all(p, angles, v + v_blocks * t // threads * BLOCK, v_row,
                      (v_blocks * (t + 1) // threads - v_blocks * t // threads) * BLOCK)
            sweep_all(p, angles + 2 * SWEEPS * p.n, u + u_blocks * t // threads * BLOCK, u_row,
                      (u_blocks * (t + 1) // threads - u_blocks * t // threads) * BLOCK)
    p.count = 0


cdef void wait(bint shared, Sweeps* p, Py_ssize_t first, Py_ssize_t length, bint back, const real* angles, real* u, Py_ssize_t u_row,
               Py_ssize_t u_width, real* v, Py_ssize_t v_row, Py_ssize_t v_width) noexcept nogil:
    p.first[p.count], p.length[p.count], p.back[p.count] = first, length, back
    p.count += 1
    if p.count == SWEEPS:
        finish(shared, p, angles, u, u_row, u_width, v, v_row, v_width)


cdef double least_of(Py_ssize_t n, const double* d, const double* e) noexcept nogil:
    """About the least singular value."""
    cdef double size = fabs(d[0]), least = size
    cdef Py_ssize_t i
    for i in range(1, n):
        if size == 0:
            break
        size = fabs(d[i]) * (size / (size + fabs(e[i - 1])))
        least = min(least, size)
    return least


cdef inline void make_positive(Py_ssize_t n, double* d, real* u, real* v, Py_ssize_t v_row, Py_ssize_t v_width) noexcept nogil:
    """Values that are negative, or -0, change signs with their vectors."""
    cdef Py_ssize_t i, k
    for i in range(n):
        if d[i] < 0 or d[i] == 0 and copysign(1, d[i]) < 0:
            d[i] = -d[i]
            if n == 1:
                u[0] = -u[0]
            else:
                for k in range(v_width):
                    v[i * v_row + k] = -v[i * v_row + k]


cdef bint diagonalise(bint shared, Py_ssize_t n, double* d, double* e, real* u, Py_ssize_t u_row, Py_ssize_t u_width, real* v,
                      Py_ssize_t v_row, Py_ssize_t v_width, real* angles) noexcept nogil:
    """d: the singular values, not in order; u and v: what their rows were in terms of the vectors. False where that does not converge.
    IN: angles[4 SWEEPS n]."""
    cdef double eps = 1.1102230246251565e-16, limit = 98.7 * eps    # eps ** (-1 / 8)
    cdef double least, most, size, threshold, shift, small = 0, large = 0, sr = 0, cr = 0, sl = 0, cl = 0
    cdef Py_ssize_t apart = SWEEPS * n                          # sines from cosines, those of v and those of u
    cdef real* c1 = angles
    cdef real* c2 = angles + 2 * apart
    cdef Sweeps waiting
    cdef Py_ssize_t i, m = n - 1, low, old_low = -1, old_m = -1, at, left = MOST * n * n
    cdef int way = 0
    waiting.count, waiting.n = 0, n
    if real is float and n > ALIKE:                     # else in as many steps, and so with the same signs, as in float64
        eps = 5.9604644775390625e-08
        limit = 10 * eps
    threshold = max(limit * least_of(n, d, e) / sqrt(<double>n), MOST * (n * (n * 2.3e-308)))
    while m > 0:
        most = fabs(d[m])
        low = m - 1
        while low >= 0:
            if fabs(e[low]) <= threshold:
                e[low] = 0
                break
            most = max(most, max(fabs(d[low]), fabs(e[low])))
            low -= 1
        low += 1
        if low == m:
            m -= 1
            continue
        if low == m - 1:
            two(d[low], e[low], d[m], &small, &large, &sr, &cr, &sl, &cl)
            d[low], e[low], d[m] = large, 0, small
            at = waiting.count * n + low                # c x + s y and c y - s x, as a sweep of one pair
            c1[at], c1[apart + at], c2[at], c2[apart + at] = <real>cr, <real>sr, <real>cl, <real>sl
            wait(shared, &waiting, low, 1, False, angles, u, u_row, u_width, v, v_row, v_width)
            m -= 2
            continue
        if low > old_m or m < old_low:
            way = 1 if fabs(d[low]) >= fabs(d[m]) else 2
        least = 0
        if negligible(low, m, way, d, e, limit, &least):
            continue
        old_low, old_m = low, m
        shift = 0
        if n * limit * (least / most) > max(eps, 0.01 * limit):
            size = fabs(d[low] if way == 1 else d[m])
            shift = smaller(d[m - 1], e[m - 1], d[m]) if way == 1 else smaller(d[low], e[low], d[low + 1])
            if size > 0 and (shift / size) * (shift / size) < eps:
                shift = 0
        left -= m - low
        if left < 0:
            return False
        at = waiting.count * n
        if way == 1:
            chase(low, m, way, shift, d, e, c1 + at, c1 + apart + at, c2 + at, c2 + apart + at)
        else:
            chase(low, m, way, shift, d, e, c2 + at, c2 + apart + at, c1 + at, c1 + apart + at)
        wait(shared, &waiting, low, m - low, way == 2, angles, u, u_row, u_width, v, v_row, v_width)
        i = m - 1 if way == 1 else low
        if fabs(e[i]) <= threshold:
            e[i] = 0
    finish(shared, &waiting, angles, u, u_row, u_width, v, v_row, v_width)
    make_positive(n, d, u, v, v_row, v_width)
    return True


cdef bint values_alone(Py_ssize_t n, double* d, double* e, double limit) noexcept nogil:
    """`values_between`, compiled here for both dtypes. IN: room for 2 n behind e[n]."""
    return values_between(n, d, e, limit, e + n)
