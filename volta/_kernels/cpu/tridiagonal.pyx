# Eigenvalues and vectors of a symmetric tridiagonal matrix: by the iterations of LAPACK's sterf and steqr, whose signs these are; of a
# large one with vectors divided into halves whose results are joined.
#
# Layout: the diagonal d[n] and what is beside it, e[n - 1], in double precision; vectors are rows of z, in whole vectors.
# Threads: over the roots of a join and over rows of its products. Sizes: the caller's. Where an iteration does not converge, False.
# Sources: Cuppen, A Divide and Conquer Method for the Symmetric Tridiagonal Eigenproblem, 1981; Gu and Eisenstat, A Divide-and-Conquer
# Algorithm for the Symmetric Tridiagonal Eigenproblem, 1995; deflation as LAPACK's laed2.

from cython.parallel cimport prange
from libc.math cimport copysign, fabs, sqrt
from libc.string cimport memcpy, memset

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.lu_blocks cimport BLOCK
from volta._kernels.cpu.product cimport product, up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.secular cimport root_of
from volta._kernels.cpu.sweep cimport sweep

cdef enum:
    MOST = 30                   # iterations for each value
    LEAF = 32                   # rows up to which a matrix is not divided
    DEPTH = 256                 # rows of a product's second factor that stay in a cache
    ROWS = 32                   # of vectors that are made together
    STRIP = 192                 # columns


# ---------------------------------------------------------------- iterations

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
    cdef double total = a + c, apart = a - c, twice = b + b, root, t, first
    cdef double most = a if fabs(a) > fabs(c) else c, least = c if fabs(a) > fabs(c) else a
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


cdef inline void shifted(Py_ssize_t first, Py_ssize_t m, Py_ssize_t step, double* d, double* e, real* cosines, real* sines) noexcept nogil:
    """A step from row m to row `first`, with a shift by the values there: of QL where m is below (step 1), else of QR (step -1)."""
    cdef Py_ssize_t i = first if step > 0 else first - 1, row = m        # e[i] is between two rows
    cdef double p = 0, g = (d[first + step] - d[first]) / (2 * e[i]), r = 0, c = 1, s = 1, f, b
    g = d[m] - d[first] + e[i] / (g + copysign(sqrt(g * g + 1), g))
    while row != first:
        i = row - 1 if step > 0 else row
        f, b = s * e[i], c * e[i]
        rotation(g, f, &c, &s, &r)
        if row != m:
            e[i + step] = r
        g = d[row] - p
        row -= step
        r = (d[row] - g) * s + 2 * c * b
        p = s * r
        d[row + step] = g + p
        g = c * r - b
        cosines[i], sines[i] = <real>c, <real>(-s if step > 0 else s)
    d[first] -= p
    e[i] = g


cdef bint iterate(Py_ssize_t n, double* d, double* e, real* z, Py_ssize_t ld, Py_ssize_t width, real* cosines, real* sines) noexcept nogil:
    """d: the values, not in order; z: what its rows were in terms of the vectors. IN: cosines[n], sines[n]; e[n] of room."""
    cdef double eps = 1.1102230246251565e-16            # for float32 too: as many steps, and so the same signs, as in float64
    cdef Py_ssize_t begin = 0, end, first, last, m, step, i, left = MOST * n
    cdef double c = 0, s = 0, large = 0, small = 0, least = 2.3e-308 if real is double else 1.2e-38
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
            shifted(first, m, step, d, e, cosines, sines)
            i = min(first, m)
            sweep((m - first) * step, back, cosines + i, sines + i, z + i * ld, ld, width)
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


# ---------------------------------------------------------------- halves that are joined

cdef Py_ssize_t conquer_space(Py_ssize_t n) noexcept nogil:
    """Doubles that `conquer` needs."""
    return n if n <= LEAF else n * (n + 10)


# A join of two matrices, of n1 and n - n1 rows: what is left of it after deflation is D + rho z z' of k rows.
cdef struct Join:
    Py_ssize_t n, half, k
    double rho
    double* d                               # of all n
    Py_ssize_t* kept                        # the k rows, by ascending d
    Py_ssize_t* sorted                      # places in `kept` by support: in the first half, in both, in the second
    Py_ssize_t first, both                  # how many there are of the first two kinds
    double* poles
    double* z                               # of all n
    double* squares                         # of the k
    double* roots
    double* scale                           # z, made of the roots
    double* apart                           # [j][i]: poles[i] - roots[j]; after that the vectors in terms of the rows


cdef bint conquer(bint shared, Py_ssize_t n, double* d, double* e, Py_ssize_t* order, real* z, real* other, Py_ssize_t ld,
                  double* room) noexcept nogil:
    """d: the values; z: their vectors; order: the rows of both by ascending value. IN: other[n][ld], ld BLOCK more than whole blocks."""
    memset(z, 0, n * ld * sizeof(real))
    return divide(shared, n, d, e, order, z, other, ld, room)


cdef bint divide(bint shared, Py_ssize_t n, double* d, double* e, Py_ssize_t* order, real* z, real* other, Py_ssize_t ld,
                 double* room) noexcept nogil:
    cdef Py_ssize_t i, half = n // 2
    cdef double rho
    if n <= LEAF:
        for i in range(n):
            z[i * (ld + 1)] = 1
            order[i] = i
        if not iterate(n, d, e, z, ld, up(n, BLOCK), other, other + n):
            return False
        sort_rows(n, d, z, ld, up(n, BLOCK))
        return True
    rho = e[half - 1]
    d[half - 1] -= fabs(rho)
    d[half] -= fabs(rho)
    if not divide(shared, half, d, e, order, z, other, ld, room):
        return False
    if not divide(shared, n - half, d + half, e + half, order + half, z + half * (ld + 1), other, ld, room):
        return False
    join(shared, n, half, rho, d, order, z, other, ld, room)
    return True


cdef void merge(Py_ssize_t n, Py_ssize_t half, const double* d, const Py_ssize_t* order, Py_ssize_t* out) noexcept nogil:
    """Rows of two halves by ascending values."""
    cdef Py_ssize_t i = 0, j = half, at
    for at in range(n):
        if j == n or i < half and d[order[i]] <= d[half + order[j]]:
            out[at] = order[i]
            i += 1
        else:
            out[at] = half + order[j]
            j += 1


cdef void turn_rows(Py_ssize_t width, real* x, real* y, real c, real s) noexcept nogil:
    cdef Py_ssize_t i
    cdef real v
    for i in range(width):
        v = c * x[i] + s * y[i]
        y[i] = c * y[i] - s * x[i]
        x[i] = v


cdef void deflate(Join* p, const Py_ssize_t* ascending, int* kind, real* z, Py_ssize_t ld) noexcept nogil:
    """What is kept: rows whose z counts, of equal values one."""
    cdef double eps = 1.1102230246251565e-16 if real is double else 5.9604644775390625e-08
    cdef double most = 0, limit, c, s, size, apart, low, high
    cdef Py_ssize_t i, here, last = -1
    for i in range(p.n):
        most = max(most, max(fabs(p.d[i]), fabs(p.z[i])))
    limit = 8 * eps * most
    p.k = 0
    for i in range(p.n):
        here = ascending[i]
        if p.rho * fabs(p.z[here]) <= limit:
            continue
        if last >= 0:
            size = sqrt(p.z[last] * p.z[last] + p.z[here] * p.z[here])
            c, s, apart = p.z[here] / size, -p.z[last] / size, p.d[here] - p.d[last]
            if fabs(apart * c * s) <= limit:
                p.z[here], p.z[last] = size, 0
                if kind[here] != kind[last]:
                    kind[here] = kind[last] = 1
                turn_rows(up(p.n, BLOCK), z + last * ld, z + here * ld, <real>c, <real>s)
                low, high = p.d[last], p.d[here]
                p.d[last], p.d[here] = low * c * c + high * s * s, low * s * s + high * c * c
            else:
                p.kept[p.k] = last
                p.k += 1
        last = here
    if last >= 0:
        p.kept[p.k] = last
        p.k += 1


cdef void vectors_of(const Join* p, Py_ssize_t j, real* kind) noexcept nogil:
    """Row j of the vectors in terms of the rows that are kept, by their support, where the differences were."""
    cdef double* row = p.apart + j * p.k
    cdef double total = 0
    cdef Py_ssize_t i
    cdef real* out = <real*>row
    for i in range(p.k):
        p.squares[i] = p.scale[i] / row[i]
        total += p.squares[i] * p.squares[i]
    total = 1 / sqrt(total)
    for i in range(p.k):
        out[i] = <real>(p.squares[p.sorted[i]] * total)


cdef void make_rows(const Join* p, Py_ssize_t first, Py_ssize_t last, const real* upper, Py_ssize_t upper_row, const real* lower,
                    Py_ssize_t lower_row, real* z, Py_ssize_t ld) noexcept nogil:
    """Vectors first .. last, as products with the rows of the first half and of the second one."""
    cdef real[ROWS * STRIP] out
    cdef Py_ssize_t step = p.k * <Py_ssize_t>sizeof(double) // <Py_ssize_t>sizeof(real), part, i, at, width, size, k, done, depth
    cdef const real* s
    cdef const real* b
    cdef Py_ssize_t b_row, rows
    while first < last:
        rows = min(<Py_ssize_t>ROWS, last - first)
        for part in range(2):
            s = <const real*>p.apart + first * step + (p.first if part else 0)
            b, b_row = upper, upper_row
            if part:
                b, b_row = lower, lower_row
            k, size = p.first + p.both, p.half
            if part:
                k, size = p.k - p.first, p.n - p.half
            at = 0
            while at < size:
                width = min(<Py_ssize_t>STRIP, size - at)
                done = 0
                while done < k:
                    depth = min(<Py_ssize_t>DEPTH, k - done)
                    product(rows, up(width, BLOCK), depth, s + done, step, 1, b + done * b_row + at, b_row, <real*>out, STRIP, done > 0)
                    done += depth
                for i in range(rows):
                    if k > 0:
                        memcpy(z + p.kept[first + i] * ld + (p.half if part else 0) + at, <real*>out + i * STRIP, width * sizeof(real))
                    else:
                        memset(z + p.kept[first + i] * ld + (p.half if part else 0) + at, 0, width * sizeof(real))
                at += width
        first += rows


cdef void solve_all(bint shared, Join* p) noexcept nogil:
    cdef int threads = threads_for(8 * p.k * p.k) if shared else 1, t
    if threads == 1:
        solve_some(p, 0, p.k)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            solve_some(p, p.k * t // threads, p.k * (t + 1) // threads)


cdef void solve_some(const Join* p, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t j, i, origin
    cdef double* row
    for j in range(first, last):
        row = p.apart + j * p.k
        for i in range(p.k):
            row[i] = p.poles[i] - p.poles[j]
        p.roots[j] = root_of(p.k, j, p.rho, p.squares, row, &origin)
        p.roots[j] += p.poles[origin]


cdef void join(bint shared, Py_ssize_t n, Py_ssize_t half, double rho, double* d, Py_ssize_t* order, real* z, real* other, Py_ssize_t ld,
               double* room) noexcept nogil:
    cdef Join p
    cdef Py_ssize_t i, j, at, upper_row = up(half, BLOCK), lower_row = up(n - half, BLOCK), x
    cdef Py_ssize_t* ascending
    cdef int* kind
    cdef real* lower
    cdef int threads, t
    p.n, p.half, p.rho, p.d = n, half, 2 * fabs(rho), d
    p.apart = room
    p.poles = room + n * n
    p.z = p.poles + n
    p.squares = p.z + n
    p.roots = p.squares + n
    p.scale = p.roots + n
    p.kept = <Py_ssize_t*>(p.scale + n)
    p.sorted = p.kept + n
    ascending = p.sorted + n
    kind = <int*>(ascending + n)
    merge(n, half, d, order, ascending)
    for i in range(n):
        kind[i] = 0 if i < half else 2
        p.z[i] = z[i * ld + half - 1] if i < half else copysign(1, rho) * z[i * ld + half]
        p.z[i] *= 0.70710678118654752
        order[i] = ascending[i]
    deflate(&p, ascending, kind, z, ld)
    for i in range(p.k):
        p.poles[i] = d[p.kept[i]]
        p.squares[i] = p.z[p.kept[i]] * p.z[p.kept[i]]
        p.scale[i] = 1
    solve_all(shared, &p)
    for j in range(p.k):
        for i in range(j):
            p.scale[i] *= p.apart[j * p.k + i] / (p.poles[i] - p.poles[j])
        p.scale[j] *= p.apart[j * p.k + j]
        for i in range(j + 1, p.k):
            p.scale[i] *= p.apart[j * p.k + i] / (p.poles[i] - p.poles[j])
    at = p.first = p.both = 0
    lower = other + n * upper_row
    for j in range(3):
        for i in range(p.k):
            x = p.kept[i]
            if kind[x] != j:
                continue
            p.sorted[at] = i
            if j < 2:
                memcpy(other + at * upper_row, z + x * ld, half * sizeof(real))
                memset(other + at * upper_row + half, 0, (upper_row - half) * sizeof(real))
            if j > 0:
                memcpy(lower + (at - p.first) * lower_row, z + x * ld + half, (n - half) * sizeof(real))
                memset(lower + (at - p.first) * lower_row + n - half, 0, (lower_row - n + half) * sizeof(real))
            at += 1
        if j == 0:
            p.first = at
        elif j == 1:
            p.both = at - p.first
    for i in range(p.k):
        p.scale[i] = copysign(sqrt(fabs(p.scale[i])), p.z[p.kept[i]])
    for j in range(p.k):
        vectors_of(&p, j, z)
        d[p.kept[j]] = p.roots[j]
    threads = threads_for(p.k * p.k * n // 16) if shared else 1
    if threads == 1:
        make_rows(&p, 0, p.k, <const real*>other, upper_row, <const real*>lower, lower_row, z, ld)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            make_rows(&p, p.k * t // threads, p.k * (t + 1) // threads, <const real*>other, upper_row, <const real*>lower, lower_row, z, ld)
    sort_places(n, d, order)


cdef void sort_places(Py_ssize_t n, const double* d, Py_ssize_t* order) noexcept nogil:
    """By the lengths of Shell's sort: they are nearly in order."""
    cdef Py_ssize_t gap = 1, i, j, x
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            x, j = order[i], i
            while j >= gap and d[order[j - gap]] > d[x]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = x
        gap //= 3
