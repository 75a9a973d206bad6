# Singular values of a bidiagonal matrix, without vectors, by differential quotients and differences with shifts: a division for each
# element of a sweep, where rotations take two roots.
#
# Layout: squares of the diagonal, q[n], and of what is above it, e[n - 1], in double precision. Threads: none. Sizes: the caller's.
# Source: Fernando and Parlett, Accurate Singular Values and Differential qd Algorithms, 1994; shifts as LAPACK's lasq4, of fewer cases.
from libc.math cimport fabs, sqrt
from libc.string cimport memcpy

cdef enum:
    SWEEPS_EACH = 30            # at most, for each value

# A part of the matrix whose elements are not negligible, and what the last sweep over it found.
cdef struct Part:
    Py_ssize_t first, last
    double sigma, rest                      # what has been taken from all values, and what rounding left out of it
    double least, least1, least2            # of the pivots: of all, of all but the last, of all but the last two
    double end, end1, end2                  # the last pivot, and those before it
    double eager                            # how much of the least pivot is taken where nothing better is known
    bint fresh                              # whether nothing was taken from the part since
    Py_ssize_t split                        # where an element is negligible, else -1


cdef inline bint sweep_part(Part* p, const double* q, const double* e, double shift, double limit, double* to_q,
                            double* to_e) noexcept nogil:
    """to_q and to_e: those of the matrix less the shift. False where it is not positive: `least` is then below 0."""
    cdef double d = q[p.first] - shift, t
    cdef double sigma = (p.sigma + shift) * limit
    cdef Py_ssize_t i
    p.least = p.least1 = p.least2 = p.end = p.end1 = p.end2 = d
    p.fresh = True
    p.split = -1
    for i in range(p.first, p.last):
        p.least2, p.least1, p.end2, p.end1 = p.least1, p.least, p.end1, d
        if d < 0:
            p.least = p.least1 = d
            return False
        to_q[i] = d + e[i]
        if to_q[i] == 0:                    # a value of 0, of which the rest is free
            to_e[i], d = 0, q[i + 1] - shift
        else:
            t = q[i + 1] / to_q[i]
            to_e[i] = e[i] * t
            if i < p.last - 2 and (e[i] <= limit * d or to_e[i] <= sigma):
                p.split = i
            d = d * t - shift
        p.least = min(p.least, d)
    p.end = to_q[p.last] = d
    return d >= 0


cdef inline double shift_of(Part* p, const double* q, const double* e) noexcept nogil:
    """What may be taken from all values of the part: hardly more than a bound of the least one from below."""
    cdef Py_ssize_t n = p.last, i
    cdef double a, b, b1, b2, gap, x
    if p.least <= 0:
        return 0
    if p.least != p.end or n - p.first < 2:
        b = p.eager
        p.eager += (1 - b) / 3
        return b * p.least
    p.eager = 0.25
    if p.fresh and p.least1 == p.end1:
        a, b1, b2 = q[n - 1] + e[n - 1], sqrt(q[n] * e[n - 1]), sqrt(q[n - 1] * e[n - 2])
        gap = 0.75 * p.least2 - a
        gap = a - p.end - (b2 / gap * b2 if gap > 0 and gap > b2 else b1 + b2)
        if gap > 0 and gap > b1:
            return max(p.end - b1 / gap * b1, 0.5 * p.least)
        x = max(p.end - b1, 0)
        if a > b1 + b2:
            x = min(x, a - (b1 + b2))
        return max(x, p.least / 3)
    a, b2 = 0, 1                            # of an almost eigenvector, whose residual bounds the value
    for i in range(n - 1, p.first - 1, -1):
        b1 = b2
        if e[i] > q[i]:
            return p.least / 3 if p.least1 == p.end1 else 0.25 * p.least
        b2 *= e[i] / q[i]
        a += b2
        if 100 * max(b1, b2) < a or a > 0.563:
            break
    a *= 1.05
    b = sqrt(a)
    if p.least1 != p.end1:
        return p.end * (1 - b) / (1 + a) if a < 0.563 else 0.25 * p.least
    x = p.end / (1 + a)
    gap = 0.5 * p.least1 - x
    return max(x * (1 - 1.01 * (x * (b / gap) if gap > 0 and gap > b * x else 1) * b), p.least / 3)


cdef inline void turn_part(Part* p, double* q, double* e) noexcept nogil:
    """Turns the part round where its end is the larger one: the least values are found first."""
    cdef Py_ssize_t i, n = p.last - p.first
    if 1.5 * q[p.first] >= q[p.last]:
        return
    q += p.first
    e += p.first
    for i in range((n + 1) // 2):
        q[i], q[n - i] = q[n - i], q[i]
    for i in range(n // 2):
        e[i], e[n - 1 - i] = e[n - 1 - i], e[i]


cdef inline void take_off(Part* p, double shift) noexcept nogil:
    """The shift, into sigma, with what rounding leaves."""
    cdef double x = shift + p.rest, sum = p.sigma + x
    p.rest = x - (sum - p.sigma)
    p.sigma = sum


cdef inline void last_two(const Part* p, double* q, double e, double limit) noexcept nogil:
    """q[0] and q[1], with e between them, by their values, but for sigma."""
    cdef double s, t
    if q[1] > q[0]:
        q[0], q[1] = q[1], q[0]
    t = 0.5 * (q[0] - q[1] + e)
    if e > q[1] * limit and t != 0:
        s = q[1] * (e / t)
        s = q[1] * (e / (t * (1 + sqrt(1 + s / t)))) if s <= t else q[1] * (e / (t + sqrt(t) * sqrt(t + s)))
        t = q[0] + (s + e)
        q[1] *= q[0] / t
        q[0] = t
    q[0] += p.sigma
    q[1] += p.sigma


cdef inline bint alone(double value, double q, double e, double limit) noexcept nogil:
    """Whether the last value is what it will be: in B B', what is beside it has the square q e."""
    return e <= limit * value or q / value * e <= limit * value


cdef inline bint reduce_part(Part* p, double* q, double* e, double* space, Py_ssize_t n, double limit) noexcept nogil:
    """A sweep by a shift that is small enough. IN: space[2 n]."""
    cdef double shift = shift_of(p, q, e), less
    cdef Py_ssize_t count = p.last - p.first, tried = 0
    while not sweep_part(p, q, e, shift, limit, space, space + n):
        p.eager = 0.25 / 3
        if p.least1 >= 0 and p.end < 0 and space[n + p.last - 1] < sqrt(limit) * (p.sigma + p.end1) and fabs(p.end) < sqrt(limit) * p.sigma:
            space[p.last] = p.end = p.least = 0         # a value of sigma, hidden by rounding
            break
        tried += 1
        if shift == 0:
            return False
        less = (shift + p.end) * (1 - 2.3e-16) if p.least1 >= 0 else 0
        if tried == 1 and p.least1 >= 0 and less < 0.25 * shift:        # equal values, but for rounding
            less = shift - 16 * sqrt(limit) * (p.sigma + shift)
        shift = 0 if tried > 3 else max(less, 0.25 * shift)
    memcpy(q + p.first, space + p.first, (count + 1) * sizeof(double))
    memcpy(e + p.first, space + n + p.first, count * sizeof(double))
    take_off(p, shift)
    return True


cdef inline bint values_between(Py_ssize_t n, double* q, double* e, double limit, double* space) noexcept nogil:
    """q: the singular values, not in order, of the diagonal q and of e above it. False where that does not converge. IN: the square of
    the precision wanted; space[2 n]."""
    cdef Py_ssize_t i, left = SWEEPS_EACH * n
    cdef Part p
    for i in range(n):
        q[i] *= q[i]
    for i in range(n - 1):
        e[i] *= e[i]
    p.last = n - 1
    while p.last >= 0:
        p.sigma, p.rest = (0 if p.last == n - 1 else -e[p.last]), 0         # of what was split off, where it was
        p.first, p.least, p.eager = p.last, 0, 0.25
        while p.first > 0 and e[p.first - 1] > 0:
            p.first -= 1
        turn_part(&p, q, e)
        while p.last >= p.first:
            if p.last == p.first or alone(p.sigma + q[p.last], q[p.last], e[p.last - 1], limit):
                q[p.last] += p.sigma
                if p.last > p.first:
                    q[p.last - 1] += e[p.last - 1]      # as B B' has it there
                p.last -= 1
                p.least, p.end, p.least1, p.end1, p.end2, p.fresh = p.least1, p.end1, p.least2, p.end2, -1, False
            elif p.last == p.first + 1 or e[p.last - 2] <= limit * p.sigma:
                last_two(&p, q + p.last - 1, e[p.last - 1], limit)
                p.last -= 2
                p.least, p.end, p.end1, p.fresh = p.least2, p.end2, -1, False
            else:
                left -= 1
                if left < 0 or not reduce_part(&p, q, e, space, n, limit):
                    return False
                if p.split >= 0:
                    e[p.split] = -p.sigma
                    p.first, p.least = p.split + 1, 0
                    turn_part(&p, q, e)
                continue
            if p.last > p.first and 1.5 * q[p.first] < q[p.last]:
                turn_part(&p, q, e)
                p.least = 0
    for i in range(n):
        q[i] = sqrt(q[i])
    return True
