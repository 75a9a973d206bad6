# Elimination with row exchanges, substitution and Cholesky's factors of one matrix: by halves, so that products of blocks do the work.
#
# Layout: rows of whole blocks. What is off the diagonal of factors is negative where one substitutes by them, so that products are added.
# Threads: over columns of large products, whose sums have one order. Sizes: the caller's.

from cython.parallel cimport prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int32_t

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.product cimport product, up
from volta._kernels.cpu.real cimport real

cdef enum:
    ROWS = 8                    # rows that are substituted one by one
    DEPTH = 256                 # rows of a product's second factor that stay in a cache


cdef void add_product(bint shared, Py_ssize_t m, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t a_row, Py_ssize_t a_column,
                      const real* b, real* c, Py_ssize_t ld) noexcept nogil:
    """c[m][n] += a[m][k] @ b[k][n]. IN: n in whole blocks; rows of b and c at a distance of ld."""
    cdef int threads = threads_for(m * n * k // 16) if shared else 1, t
    cdef Py_ssize_t blocks = n // BLOCK, first, depth
    while k > 0:
        depth = min(<Py_ssize_t>DEPTH, k)
        if threads == 1:
            product(m, n, depth, a, a_row, a_column, b, ld, c, ld, True)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                first = blocks * t // threads * BLOCK
                product(m, blocks * (t + 1) // threads * BLOCK - first, depth, a, a_row, a_column, b + first, ld, c + first, ld, True)
        a += depth * a_column
        b += depth * ld
        k -= depth


cdef inline void add_row(const real* x, real scale, real* out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(n // BLOCK):
        for j in range(i * BLOCK, i * BLOCK + BLOCK):
            out[j] += scale * x[j]


cdef void substitute(bint shared, Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t row, Py_ssize_t column, bint unit, real* x,
                     Py_ssize_t xd, real* spare) noexcept nogil:
    """x[n][k] of a lower triangular system, negative below its diagonal, instead of its right sides; of one as it is with `spare`, where
    -x is kept (else NULL). Steps may be negative: an upper system is a lower one from its last row and column on, but for the rows of x,
    which are told by xd."""
    cdef Py_ssize_t i, j, half
    cdef real pivot
    cdef real* known = x if spare == NULL else spare
    if n > ROWS:
        half = up(n // 2, ROWS)
        substitute(shared, half, k, a, row, column, unit, x, xd, spare)
        if xd > 0:
            add_product(shared, n - half, k, half, a + half * row, row, column, known, x + half * xd, xd)
        else:                                   # the same product with its sum, too, from the last row on: rows of x ascend
            add_product(shared, n - half, k, half, a + (n - 1) * row + (half - 1) * column, -row, -column, known + (half - 1) * xd,
                        x + (n - 1) * xd, -xd)
        substitute(shared, n - half, k, a + half * (row + column), row, column, unit, x + half * xd, xd,
                   <real*>NULL if spare == NULL else spare + half * xd)
        return
    for i in range(n):
        for j in range(i):
            add_row(known + j * xd, a[i * row + j * column], x + i * xd, k)
        if not unit:
            pivot = a[i * (row + column)]
            for j in range(k):
                x[i * xd + j] /= pivot
        if spare != NULL:
            for j in range(k):
                spare[i * xd + j] = -x[i * xd + j]


cdef Py_ssize_t eliminate_block(Py_ssize_t m, Py_ssize_t width, real* a, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t last,
                                int32_t* pivots) noexcept nogil:
    """Columns first .. last, one by one, and their part of the block of columns from `first` on; rows are exchanged as a whole. Gives the
    first pivot that is 0, from 1, or 0."""
    cdef real line[BLOCK]
    cdef Py_ssize_t i, j, c, row, info = 0
    cdef real most, pivot, scale
    cdef real* x
    row, most = first, -1
    for i in range(first, m):
        if fabs(a[i * ld + first]) > most:
            row, most = i, <real>fabs(a[i * ld + first])
    for j in range(first, last):
        pivots[j] = <int32_t>(row + 1)
        if row != j:
            swap_rows(a + row * ld, a + j * ld, width)
        x = a + j * ld + first
        pivot = a[j * ld + j]
        for c in range(BLOCK):
            line[c] = x[c] if c > j - first else 0
        row, most = j + 1, -1
        if pivot == 0:
            if info == 0:
                info = j + 1
            pivot = 1
        for i in range(j + 1, m):
            x = a + i * ld + first
            scale = -(x[j - first] / pivot)
            for c in range(BLOCK):
                x[c] += scale * line[c]
            x[j - first] = scale                # last: a vector that is read behind a store of one element waits for it
            if j + 1 < last and fabs(x[j - first + 1]) > most:
                row, most = i, <real>fabs(x[j - first + 1])
    return info


cdef Py_ssize_t eliminate(bint shared, Py_ssize_t m, Py_ssize_t count, Py_ssize_t width, real* a, Py_ssize_t ld, Py_ssize_t first,
                          Py_ssize_t last, int32_t* pivots) noexcept nogil:
    """Columns first .. last, of which `count` have pivots: by halves. IN: first and last begin blocks."""
    cdef Py_ssize_t middle, end, info, other
    if last - first <= BLOCK:
        return eliminate_block(m, width, a, ld, first, min(last, count), pivots)
    middle = first + up((last - first) // 2, BLOCK)
    info = eliminate(shared, m, count, width, a, ld, first, middle, pivots)
    end = min(middle, count)
    substitute(shared, end - first, last - middle, a + first * (ld + 1), ld, 1, True, a + first * ld + middle, ld,
               <real*>NULL)
    if middle >= count:
        return info
    add_product(shared, m - middle, last - middle, middle - first, a + middle * ld + first, ld, 1, a + first * ld + middle,
                a + middle * (ld + 1), ld)
    other = eliminate(shared, m, count, width, a, ld, middle, last, pivots)
    return info if info else other


cdef bint factor_symmetric(bint shared, Py_ssize_t n, real* a, real* spare, Py_ssize_t ld, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """U of A = U' U in the upper triangle of a, from row and column `first` on, by halves; negative in spare. False where a pivot is not
    positive. IN: what is read lies in the upper triangle, or in whole blocks on the diagonal."""
    cdef Py_ssize_t i, j, p, middle, end = min(last, n)
    cdef real pivot
    if last - first > BLOCK:
        middle = first + up((last - first) // 2, BLOCK)
        if not factor_symmetric(shared, n, a, spare, ld, first, middle):
            return False
        if middle >= n:
            return True
        substitute(shared, middle - first, last - middle, spare + first * (ld + 1), 1, ld, False, a + first * ld + middle, ld,
                   <real*>NULL)
        for i in range(first, middle):
            for j in range(middle, last):
                spare[i * ld + j] = -a[i * ld + j]
        add_product(shared, end - middle, last - middle, middle - first, spare + first * ld + middle, 1, ld, a + first * ld + middle,
                    a + middle * (ld + 1), ld)
        return factor_symmetric(shared, n, a, spare, ld, middle, last)
    for i in range(first, end):
        pivot = a[i * ld + i]
        if not pivot > 0:
            return False
        pivot = <real>sqrt(pivot)
        for j in range(i, end):
            a[i * ld + j] /= pivot
            spare[i * ld + j] = -a[i * ld + j]
        a[i * (ld + 1)] = spare[i * (ld + 1)] = pivot
        for p in range(i + 1, end):
            for j in range(p, end):
                a[p * ld + j] += spare[i * ld + p] * a[i * ld + j]
    return True
