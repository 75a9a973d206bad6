# What lu.pyx makes of each matrix of a batch, and small matrices, of which it takes several abreast (abreast.pxd).
#
# Sizes: the front end.
from libc.math cimport fabs, frexp, ldexp, log
from libc.stdint cimport int32_t

from volta._kernels.cpu.abreast cimport (
    FEW, LINE, all_sure, eliminate_abreast, exchange_abreast, factor_abreast, gather, substitute_abreast, times,
)
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.matrix_batch cimport Batch, offset
from volta._kernels.cpu.real cimport real

cdef enum Kind:
    LU, DET, SLOGDET, INV, SOLVE, AGAIN, TRIANGLE, COFACTOR, CHOLESKY, CHOLESKY_INVERSE

cdef enum:
    ENOUGH = 6                  # matrices that are taken abreast rather than one after the other

cdef struct Task:
    Kind kind
    bint turned, upper, unit                # SOLVE, AGAIN: A'; TRIANGLE: X', which; CHOLESKY: L by rows, which is U by columns
    void* lu                                # the factors: by columns for LU alone, else by rows (not of INV)
    int32_t* pivots
    int32_t* info
    void* out
    void* signs                             # SLOGDET
    const void* b                           # right sides, where there are any


cdef inline double mantissa(Py_ssize_t n, const real* a, Py_ssize_t step, const int32_t* pivots, int* power) noexcept nogil:
    """The determinant without a power of two, which keeps it from being too large or too small on the way."""
    cdef double out = 1
    cdef Py_ssize_t i
    cdef int more = 0
    power[0] = 0
    for i in range(n):
        out *= -a[i * step] if pivots[i] != i + 1 else a[i * step]
        if not 1e-100 < fabs(out) < 1e100 and out != 0:
            out = frexp(out, &more)
            power[0] += more
    return out


cdef inline double product_of_pivots(Py_ssize_t n, const real* a, Py_ssize_t step, const int32_t* pivots) noexcept nogil:
    """The determinant."""
    cdef int power
    cdef double out = mantissa(n, a, step, pivots, &power)
    return ldexp(out, power) if power else out


cdef inline double log_of_pivots(Py_ssize_t n, const real* a, Py_ssize_t step, const int32_t* pivots, real* sign) noexcept nogil:
    """The logarithm of the determinant's size, and its sign."""
    cdef int power
    cdef double out = mantissa(n, a, step, pivots, &power)
    sign[0] = (out > 0) - (out < 0)
    return log(fabs(out)) + power * 0.6931471805599453


cdef inline bint taken_abreast(const Batch* p) noexcept nogil:
    return p.m == p.n and 0 < p.n <= FEW and p.k <= FEW and p.count >= ENOUGH * p.threads


cdef inline void spread(Py_ssize_t some, Py_ssize_t elements, const real* s, real* out) noexcept nogil:
    """The first matrices of lines, one after the other."""
    cdef Py_ssize_t i, l
    if some == LINE:
        turn(elements, LINE, s, LINE, out, elements)
        return
    for l in range(some):
        for i in range(elements):
            out[l * elements + i] = s[i * LINE + l]


cdef inline bint read_places(Py_ssize_t n, Py_ssize_t some, const int32_t* pivots, real* places) noexcept nogil:
    """False for exchanges that elimination does not make: a hook may give back others than were saved."""
    cdef Py_ssize_t i, l, row
    for l in range(LINE):
        for i in range(n):
            row = pivots[min(l, some - 1) * n + i] - 1
            if not i <= row < n:
                return False
            places[i * LINE + l] = <real>row
    return True


cdef inline void solve_abreast(Py_ssize_t n, Py_ssize_t k, const real* s, Py_ssize_t row, Py_ssize_t column, const real* places,
                               bint turned, real* x) noexcept nogil:
    """x, by columns, of A x = b or A' x = b by the factors of A."""
    if turned:
        substitute_abreast(n, k, s, column, row, False, False, x, 1, n)
        substitute_abreast(n, k, s, column, row, True, True, x, 1, n)
        exchange_abreast(n, k, places, True, x, 1, n)
    else:
        exchange_abreast(n, k, places, False, x, 1, n)
        substitute_abreast(n, k, s, row, column, False, True, x, 1, n)
        substitute_abreast(n, k, s, row, column, True, False, x, 1, n)


cdef inline void put_identity(Py_ssize_t n, real* x) noexcept nogil:
    cdef Py_ssize_t i, l
    for i in range(n * n):
        for l in range(LINE):
            x[i * LINE + l] = i % (n + 1) == 0


cdef inline double square_of_line(Py_ssize_t count, const real* x) noexcept nogil:
    cdef double total = 0
    cdef Py_ssize_t i
    for i in range(count):
        total += <double>x[i * LINE] * x[i * LINE]
    return total


cdef inline bint cofactors_abreast(Py_ssize_t n, Py_ssize_t some, const real* s, const int32_t* pivots, const real* places,
                                   real* x) noexcept nogil:
    """det(A) A'^-1 by the factors of A', s by rows, instead of A. False as `cofactors` in lu.pyx."""
    cdef double[LINE] size
    cdef real[LINE] found
    cdef double limit = 1e-11 if real is double else 1e-5, smallest = 1e-300 if real is double else 1e-36, value
    cdef Py_ssize_t l, i
    cdef int power
    for l in range(LINE):
        size[l] = square_of_line(n * n, x + l)
        value = mantissa(n, s + l, (n + 1) * LINE, pivots + min(l, some - 1) * n, &power)
        value = ldexp(value, power) if power else value
        if not smallest < fabs(value) < 1 / smallest:
            return False
        found[l] = <real>value
    put_identity(n, x)
    solve_abreast(n, n, s, n, 1, places, False, x)
    for l in range(LINE):
        if not size[l] * square_of_line(n * n, x + l) * limit * limit < n * n:
            return False
    for i in range(n * n):
        times(x + i * LINE, <const real*>found)
    return True


cdef inline bint finish_factors(const Batch* p, const Task* task, Py_ssize_t item, Py_ssize_t some, const real* s, const real* places,
                                const real* zero) noexcept nogil:
    """What elimination gives besides solutions. False where a matrix that is to be inverted is singular."""
    cdef Py_ssize_t l, i, n = p.n, step = n + 1
    cdef int32_t* pivots = task.pivots + item * n
    for l in range(some):
        task.info[item + l] = <int32_t>zero[l]
        if task.kind >= INV and zero[l] != 0:
            return False
        for i in range(n):
            pivots[l * n + i] = <int32_t>places[i * LINE + l] + 1
        if task.kind == DET:
            (<real*>task.out)[item + l] = <real>product_of_pivots(n, s + l, step * LINE, pivots + l * n)
        elif task.kind == SLOGDET:
            (<real*>task.out)[item + l] = <real>log_of_pivots(n, s + l, step * LINE, pivots + l * n, <real*>task.signs + item + l)
    if task.kind != INV:
        spread(some, n * n, s, <real*>task.lu + item * n * n)
    return True


cdef inline void only_lower(Py_ssize_t n, real* s, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    """Zeros above the diagonal."""
    cdef Py_ssize_t i, j, l
    for j in range(1, n):
        for i in range(j):
            for l in range(LINE):
                s[(i * row + j * column) * LINE + l] = 0


cdef inline void inverse_abreast(Py_ssize_t n, const real* s, Py_ssize_t row, Py_ssize_t column, bint upper, real* x) noexcept nogil:
    """(L L')^-1 of the lower triangle, or of the turned upper one."""
    cdef Py_ssize_t i, j, l
    if upper:
        row, column = column, row
    put_identity(n, x)
    substitute_abreast(n, n, s, row, column, False, False, x, 1, n)
    substitute_abreast(n, n, s, column, row, True, False, x, 1, n)
    for i in range(n):
        for j in range(i):
            for l in range(LINE):
                x[(i * n + j) * LINE + l] = x[(j * n + i) * LINE + l]


cdef inline bint do_abreast(const Batch* p, const Task* task, const real* a, const real* b, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Whether all is finite. What lies by columns, or by rows, is read in the order in which it is to lie then."""
    cdef real[FEW * FEW * LINE] s
    cdef real[FEW * FEW * LINE] x
    cdef real[FEW * LINE] places
    cdef real[LINE] zero
    cdef real[LINE] wrong
    cdef const real* at[LINE]
    cdef Py_ssize_t item = first, some, l, n = p.n, k = n if task.kind == INV else p.k, row = n, column = 1, across = 1, along = n
    if not task.upper if task.kind == CHOLESKY else (
            task.kind == LU or p.a_row == 1 and (task.kind == INV or task.kind >= AGAIN) and task.kind != COFACTOR):
        row, column = 1, n
    if task.kind == TRIANGLE and task.turned:
        across, along = k, 1
    for l in range(LINE):
        wrong[l] = 0
    while item < last:
        some = min(<Py_ssize_t>LINE, last - item)
        for l in range(LINE):
            at[l] = a + offset(p, p.a_strides, item + min(l, some - 1))
        gather(at, n, n, p.a_row, p.a_column, <real*>s, row, column)
        if task.kind == CHOLESKY:
            factor_abreast(n, <real*>s, row, column, <real*>wrong)
            only_lower(n, <real*>s, row, column)
            if not all_sure(n * n, <const real*>s, <const real*>wrong):
                return False
            spread(some, n * n, <const real*>s, <real*>task.out + item * n * n)
            item += LINE
            continue
        if task.kind == CHOLESKY_INVERSE:
            inverse_abreast(n, <const real*>s, row, column, task.upper, <real*>x)
            if not all_sure(n * n, <const real*>x, <const real*>wrong):
                return False
            spread(some, n * n, <const real*>x, <real*>task.out + item * n * n)
            item += LINE
            continue
        if task.kind == AGAIN or task.kind == COFACTOR:
            if not read_places(n, some, task.pivots + item * n, <real*>places):
                return False
        elif task.kind != TRIANGLE:
            eliminate_abreast(n, <real*>s, row, column, <real*>places, <real*>zero)
            if not all_sure(n * n, <const real*>s, <const real*>wrong):
                return False
            if not finish_factors(p, task, item, some, <const real*>s, <const real*>places, <const real*>zero):
                return False
            if task.kind < INV:
                item += LINE
                continue
        if task.kind == INV:
            put_identity(n, <real*>x)
        else:
            for l in range(LINE):
                at[l] = b + offset(p, p.b_strides, item + min(l, some - 1))
            gather(at, n, k, p.b_row, p.b_column, <real*>x, across, along)
        if task.kind == COFACTOR:
            if not cofactors_abreast(n, some, <const real*>s, task.pivots + item * n, <const real*>places, <real*>x):
                return False
        elif task.kind == TRIANGLE:
            substitute_abreast(n, k, <const real*>s, row, column, task.upper, task.unit, <real*>x, across, along)
        else:
            solve_abreast(n, k, <const real*>s, row, column, <const real*>places, task.turned, <real*>x)
        if not all_sure(n * k, <const real*>x, <const real*>wrong):
            return False
        spread(some, n * k, <const real*>x, <real*>task.out + item * n * k)
        item += LINE
    return True
