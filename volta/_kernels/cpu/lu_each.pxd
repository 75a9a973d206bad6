# What lu.pyx does with each matrix of a batch that is not taken abreast: factors by blocks (lu_blocks.pyx), and what is solved by them.
#
# Layout: a matrix is copied into rows of whole blocks; its right sides are taken in strips of columns, each of which is solved apart, and
#   then lies column by column. While one solves by them, all that is off the diagonal of factors is negative.
# Threads: over the strips of a matrix that all share. Sizes: the front end.
from cython.parallel cimport prange, threadid
from libc.math cimport ldexp
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.lines cimport inner_product
from volta._kernels.cpu.lu_batch cimport (
    AGAIN, CHOLESKY, CHOLESKY_INVERSE, COFACTOR, DET, INV, LU, SLOGDET, SOLVE, TRIANGLE, Task, do_abreast, log_of_pivots, mantissa,
    product_of_pivots, taken_abreast,
)
from volta._kernels.cpu.lu_blocks cimport (
    BLOCK, add_product, eliminate, eliminate_columns, factor_symmetric, panel_room, substitute, swap_rows,
)
from volta._kernels.cpu.matrix_batch cimport Batch, all_finite, copy_in, offset
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real

cdef enum:
    AS_IT_LIES = 12             # rows from which on a triangle is not copied
    STRIP = 64                  # columns of an inverse that begin at one row
    WIDE = 192                  # most columns of a strip of right sides
    SIDES = 2                   # right sides up to which each is solved by itself,
    TOGETHER = 4                # so many elements at a time,
    SHORT = 128                 # bytes of a row up to which neither pays: columns at a time, and two sides of a triangle

cdef inline void turn_signs(Py_ssize_t m, Py_ssize_t n, real* a, Py_ssize_t ld, bint below, bint above) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(m):
        if below:
            for j in range(min(i, n)):
                a[i * ld + j] = -a[i * ld + j]
        if above:
            for j in range(i + 1, n):
                a[i * ld + j] = -a[i * ld + j]


cdef inline void solve_by(Py_ssize_t n, Py_ssize_t k, const real* a, Py_ssize_t ld, const int32_t* pivots, bint turned, real* x,
                          Py_ssize_t xd) noexcept nogil:
    """x of A x = b, or of A' x = b (`turned`), by the factors of A, instead of b."""
    cdef Py_ssize_t i
    if not turned:
        for i in range(n):
            if pivots[i] != i + 1:
                swap_rows(x + i * xd, x + (pivots[i] - 1) * xd, k)
        substitute(False, n, k, a, ld, 1, True, x, xd, <real*>NULL)
        substitute(False, n, k, a + (n - 1) * (ld + 1), -ld, -1, False, x + (n - 1) * xd, -xd, <real*>NULL)
        return
    substitute(False, n, k, a, 1, ld, False, x, xd, <real*>NULL)
    substitute(False, n, k, a + (n - 1) * (ld + 1), -1, -ld, True, x + (n - 1) * xd, -xd, <real*>NULL)
    for i in range(n - 1, -1, -1):
        if pivots[i] != i + 1:
            swap_rows(x + i * xd, x + (pivots[i] - 1) * xd, k)


# ---------------------------------------------------------------- strips of columns

cdef inline Py_ssize_t strips_of(const Batch* p, const Task* task) noexcept nogil:
    """How many there are: of an inverse whatever the threads, since what is added up there depends on where one begins."""
    cdef Py_ssize_t blocks = p.xd // BLOCK
    if task.kind == INV or task.kind == COFACTOR:
        return (p.n + STRIP - 1) // STRIP
    return min(blocks, p.team * ((blocks * BLOCK + WIDE * p.team - 1) // (WIDE * p.team)))


cdef inline Py_ssize_t widest(const Batch* p, const Task* task) noexcept nogil:
    cdef Py_ssize_t blocks = p.xd // BLOCK, strips = strips_of(p, task)
    return STRIP if task.kind == INV or task.kind == COFACTOR else (blocks + strips - 1) // strips * BLOCK if strips else 0


cdef inline Py_ssize_t strips_room(const Batch* p, const Task* task) noexcept nogil:
    """Elements of the space of all threads; also for what is turned of a matrix, and for a second copy of one that is symmetric."""
    cdef Py_ssize_t other = p.n * p.ld if task.kind == CHOLESKY or task.kind == CHOLESKY_INVERSE else 0
    return max(2 * p.team * p.n * widest(p, task), panel_room(p.m) if task.kind <= SOLVE else other)


cdef inline Py_ssize_t needed(const Batch* p, const Task* task) noexcept nogil:
    """Elements of a thread's space: copies of a, strips, and places of n."""
    return p.m * p.ld + strips_room(p, task) + p.n


cdef inline bint do_strip(const Batch* p, const Task* task, const real* a, Py_ssize_t row, Py_ssize_t column, const real* b,
                          const int32_t* pivots, const int32_t* places, Py_ssize_t first, Py_ssize_t last, real* x, real* spare,
                          real* out) noexcept nogil:
    """Columns first .. last of a result. IN: factors or a triangle; spare, NULL for a triangle that is negative off its diagonal."""
    cdef Py_ssize_t i, n = p.n, some = last - first, xd = up(some, BLOCK)
    if task.kind == INV or task.kind == COFACTOR:       # A^-1 P' without what is zero above the diagonal of L^-1; then its columns
        memset(x, 0, n * xd * sizeof(real))
        for i in range(some):
            x[(first + i) * xd + i] = 1
        substitute(False, n - first, xd, a + first * (row + column), row, column, True, x + first * xd, xd, <real*>NULL)
        substitute(False, n, xd, a + (n - 1) * (row + column), -row, -column, False, x + (n - 1) * xd, -xd, <real*>NULL)
        if not all_finite(n, some, x, xd):
            return False
        turn(n, some, x, xd, spare, n)
        for i in range(some):
            memcpy(out + places[first + i] * n, spare + i * n, n * sizeof(real))
        return True
    copy_in(n, some, b + first * p.b_column, p.b_row, p.b_column, x, xd)
    if task.kind != TRIANGLE:
        solve_by(n, xd, a, row, pivots, task.turned, x, xd)
    elif task.upper:
        substitute(False, n, xd, a + (n - 1) * (row + column), -row, -column, task.unit, x + (n - 1) * xd, -xd,
                   <real*>NULL if spare == NULL else spare + (n - 1) * xd)
    else:
        substitute(False, n, xd, a, row, column, task.unit, x, xd, spare)
    if not all_finite(n, some, x, xd):
        return False
    if task.kind == TRIANGLE and task.turned:
        for i in range(n):
            memcpy(out + i * p.k + first, x + i * xd, some * sizeof(real))
    else:
        turn(n, some, x, xd, out + first * n, n)
    return True


cdef inline bint do_strips(const Batch* p, const Task* task, const real* a, Py_ssize_t row, Py_ssize_t column, const real* b,
                           const int32_t* pivots, int32_t* places, bint as_it_lies, real* out, real* space) noexcept nogil:
    """A result in all columns. IN: places of n; two strips of space for each thread."""
    cdef Py_ssize_t i, j, n = p.n, strips = strips_of(p, task), blocks = p.xd // BLOCK, each = n * widest(p, task), s
    cdef bint spared = as_it_lies
    cdef int fine = 0
    cdef int32_t place
    if task.kind == INV or task.kind == COFACTOR:
        spared = True
        for i in range(n):
            places[i] = <int32_t>i
        for i in range(n):
            j = pivots[i] - 1
            place = places[i]
            places[i] = places[j]
            places[j] = place
    if p.team == 1:
        for s in range(strips):
            if not do_strip(p, task, a, row, column, b, pivots, places, min(p.k, blocks * s // strips * BLOCK),
                            min(p.k, blocks * (s + 1) // strips * BLOCK), space, space + each if spared else <real*>NULL, out):
                return False
        return True
    for s in prange(strips, num_threads=p.team, schedule="dynamic"):
        fine += do_strip(p, task, a, row, column, b, pivots, places, min(p.k, blocks * s // strips * BLOCK),
                         min(p.k, blocks * (s + 1) // strips * BLOCK), space + 2 * threadid() * each,
                         space + (2 * threadid() + 1) * each if spared else <real*>NULL, out)
    return fine == strips


cdef inline bint scale_cofactors(Py_ssize_t n, const real* a, Py_ssize_t ld, const int32_t* pivots, double size, real* x) noexcept nogil:
    """det(A) A'^-1 of A'^-1, by the factors of A', `size` its sum of squares. False where the inverse is too far off. The determinant may
    be larger or smaller than any number: its power of two comes last, in two steps."""
    cdef double limit = 1e-11 if real is double else 1e-5, first, last
    cdef int power
    cdef double found = mantissa(n, a, ld + 1, pivots, &power)
    cdef Py_ssize_t i
    if found == 0:
        return False
    size *= square_of_all(n, <const real*>x, n, 1)
    power = max(-1900, min(1900, power))
    first, last = ldexp(1, power // 2), ldexp(1, power - power // 2)
    if power == 0:
        for i in range(n * n):
            x[i] = <real>(x[i] * found)
    else:
        for i in range(n * n):
            x[i] = <real>(x[i] * found * first * last)
    return size * limit * limit < n * n


cdef inline double square_of_all(Py_ssize_t n, const real* x, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    """The sum of squares."""
    cdef double total = 0
    cdef Py_ssize_t i, j
    if row == 1:
        row, column = column, row
    for i in range(n):
        for j in range(n):
            total += <double>x[i * row + j * column] * x[i * row + j * column]
    return total


# ---------------------------------------------------------------- triangles

cdef inline bint is_short(Py_ssize_t n, const real* a) noexcept nogil:
    return n * <Py_ssize_t>sizeof(real) <= SHORT


cdef inline void substitute_line(Py_ssize_t n, const real* a, Py_ssize_t row, Py_ssize_t column, bint upper, bint unit,
                                 real* x) noexcept nogil:
    """x of a triangular system instead of one right side, by sums along what lies together, for TOGETHER elements at a time, which do not
    wait for one another then. IN: a row or column of a lies together."""
    cdef Py_ssize_t at = 0, i, j, p, q, count, first, step = -1 if upper else 1
    cdef real[TOGETHER] found
    while at < n and column != 1 and is_short(n, a):
        i = n - 1 - at if upper else at
        if not unit:
            x[i] /= a[i * (row + column)]
        at, j = at + 1, 0 if upper else i + 1
        take_lines(n - at, 1, <const real*>x + i, a + i * column + j, 0, x + j)
    while at < n:
        count = min(<Py_ssize_t>TOGETHER, n - at)
        first = n - 1 - at if upper else at                             # x[first], then in steps of `step`
        for p in range(count):
            i = first + p * step
            found[p] = x[i] - inner_product(at, a + i * row + (first + 1 if upper else 0), <const real*>x + (first + 1 if upper else 0)) \
                if column == 1 else x[i]
        for p in range(count):
            i = first + p * step
            for q in range(p):
                found[p] -= found[q] * a[i * row + (first + q * step) * column]
            if not unit:
                found[p] /= a[i * (row + column)]
            x[i] = found[p]
        at += count
        if column != 1:
            j = 0 if upper else at                                      # the first of those that are left
            take_lines(n - at, count, <const real*>found, a + first * column + j, step * column, x + j)


cdef inline void take_lines(Py_ssize_t n, Py_ssize_t count, const real* scales, const real* a, Py_ssize_t step, real* x) noexcept nogil:
    """x[n] -= scales[count] @ a[count][n]"""
    cdef Py_ssize_t i, p
    cdef real s0 = scales[0], s1, s2, s3
    if count == TOGETHER:
        s1, s2, s3 = scales[1], scales[2], scales[3]
        for i in range(n):
            x[i] = x[i] - s0 * a[i] - s1 * a[i + step] - s2 * a[i + 2 * step] - s3 * a[i + 3 * step]
        return
    for p in range(count):
        s0 = scales[p]
        for i in range(n):
            x[i] -= s0 * a[p * step + i]


cdef inline bint solve_few(const Batch* p, const Task* task, const real* a, const real* b, const int32_t* pivots, real* out,
                           real* space) noexcept nogil:
    """A result of few right sides, each by itself, by a triangle or factors as they lie. False for what is not finite. IN: space of n."""
    cdef Py_ssize_t n = p.n, side, i
    cdef bint apart = task.kind == TRIANGLE and task.turned and p.k > 1
    cdef real* x
    for side in range(p.k):
        x = space if apart else out + side * n
        for i in range(n):
            x[i] = b[i * p.b_row + side * p.b_column]
        if task.kind == TRIANGLE:
            substitute_line(n, a, p.a_row, p.a_column, task.upper, task.unit, x)
        elif task.turned:
            substitute_line(n, a, p.a_column, p.a_row, False, False, x)
            substitute_line(n, a, p.a_column, p.a_row, True, True, x)
            for i in range(n - 1, -1, -1):
                swap_rows(x + i, x + pivots[i] - 1, 1)
        else:
            for i in range(n):
                swap_rows(x + i, x + pivots[i] - 1, 1)
            substitute_line(n, a, p.a_row, p.a_column, False, True, x)
            substitute_line(n, a, p.a_row, p.a_column, True, False, x)
        if not all_finite(1, n, x, n):
            return False
        for i in range(n if apart else 0):
            out[i * p.k + side] = x[i]
    return True


cdef inline bint are_places(const int32_t* pivots, Py_ssize_t n) noexcept nogil:
    """Whether these are exchanges of rows: a hook may give back others than were saved."""
    cdef Py_ssize_t i
    for i in range(n):
        if not i < pivots[i] <= n:
            return False
    return True


cdef inline bint inverse_of_product(bint shared, Py_ssize_t n, real* a, real* x, Py_ssize_t ld) noexcept nogil:
    """(L L')^-1 instead of L, of which the lower triangle is read. False where it is not finite, or L singular. IN: x[n][ld]."""
    cdef Py_ssize_t at, width, i, j
    for i in range(n):
        if a[i * (ld + 1)] == 0:
            return False
    turn_signs(n, n, a, ld, True, False)
    memset(x, 0, n * ld * sizeof(real))
    for i in range(n):
        x[i * (ld + 1)] = 1
    at = 0
    while at < n:
        substitute(shared, n - at, min(<Py_ssize_t>STRIP, ld - at), a + at * (ld + 1), ld, 1, False, x + at * (ld + 1), ld, <real*>NULL)
        at += STRIP
    memset(a, 0, n * ld * sizeof(real))
    at = 0
    while at < n:                               # what is above the diagonal of an inverse is 0
        width = min(<Py_ssize_t>STRIP, n - at)
        add_product(shared, width, min(at + STRIP, ld), n - at, x + at * (ld + 1), 1, ld, x + at * ld, a + at * ld, ld)
        at += STRIP
    for i in range(n):
        for j in range(i):
            a[j * ld + i] = a[i * ld + j]
    return all_finite(n, n, a, ld)


# ---------------------------------------------------------------- batches

cdef inline void copy_rows(const Batch* p, const real* a, real* out) noexcept nogil:
    """A matrix into rows of whole blocks, by all threads."""
    cdef Py_ssize_t strips = (p.m + STRIP - 1) // STRIP, s
    if p.team == 1:
        copy_in(p.m, p.n, a, p.a_row, p.a_column, out, p.ld)
    else:
        for s in prange(strips, num_threads=p.team, schedule="static"):
            copy_in(min(<Py_ssize_t>STRIP, p.m - s * STRIP), p.n, a + s * STRIP * p.a_row, p.a_row, p.a_column,
                    out + s * STRIP * p.ld, p.ld)


cdef inline bint give_some(const Batch* p, const Task* task, Py_ssize_t item, Py_ssize_t first, Py_ssize_t last, real* a) noexcept nogil:
    cdef Py_ssize_t i, j, m = p.m, n = p.n, ld = p.ld
    if not all_finite(last - first, n, a + first * ld, ld):
        return False
    if task.kind != INV:
        for i in range(first, last):
            for j in range(min(i, n)):
                a[i * ld + j] = -a[i * ld + j]
    if task.kind == LU:
        turn(last - first, n, a + first * ld, ld, <real*>task.lu + item * m * n + first, m)
    elif task.kind != INV:
        for i in range(first, last):
            memcpy(<real*>task.lu + (item * n + i) * n, a + i * ld, n * sizeof(real))
    for i in range(first, last if task.kind >= INV else first):
        for j in range(0 if task.kind == SOLVE else i, i):
            a[i * ld + j] = -a[i * ld + j]
        for j in range(i + 1, n):
            a[i * ld + j] = -a[i * ld + j]
    return True


cdef inline bint give_factors(const Batch* p, const Task* task, Py_ssize_t item, real* a) noexcept nogil:
    """The factors into their place, but for INV; negative off the diagonal where one is to solve by them. False for what is not finite."""
    cdef Py_ssize_t strips = (p.m + STRIP - 1) // STRIP, s
    cdef int fine = 0
    if p.team == 1:
        return give_some(p, task, item, 0, p.m, a)
    for s in prange(strips, num_threads=p.team, schedule="static"):
        fine += give_some(p, task, item, s * STRIP, min(p.m, (s + 1) * STRIP), a)
    return fine == strips


cdef inline bint factor_few(const Batch* p, const real* a, real* out, int32_t* pivots, int32_t* info, real* room) noexcept nogil:
    """The factors of a matrix of less columns than a block and than rows, which are taken as they lie. False for what is not finite."""
    cdef Py_ssize_t i, j, m = p.m, n = p.n, far = up(p.m, BLOCK) + BLOCK
    if p.a_column == 1 and n > 1:
        turn(m, n, a, p.a_row, room, far)
    for j in range(n):
        if p.a_column != 1 or n == 1:
            for i in range(m):
                room[j * far + i] = a[i * p.a_row + j * p.a_column]
        memset(room + j * far + m, 0, (far - m) * sizeof(real))
    memset(room + n * far, 0, (BLOCK - n) * far * sizeof(real))
    info[0] = <int32_t>eliminate_columns(m, n, room, far, pivots)
    for j in range(n):
        pivots[j] += 1
        memcpy(out + j * m, room + j * far, (j + 1) * sizeof(real))
        for i in range(j + 1, m):
            out[j * m + i] = -room[j * far + i]
    return all_finite(1, n * m, out, n * m)


cdef inline bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, real* space) noexcept nogil:
    """Whether all is finite. IN: space of `needed`."""
    cdef Py_ssize_t item, i, info, m = p.m, n = p.n, k = p.k, ld = p.ld, count = min(p.m, p.n)
    cdef real* x = space + m * ld
    cdef real* out
    cdef const real* b = <const real*>task.b
    cdef int32_t* pivots
    cdef int32_t* places = <int32_t*>(x + strips_room(p, task))
    if taken_abreast(p):
        return do_abreast(p, task, a, b, first, last)
    for item in range(first, last):
        pivots = task.pivots + item * count
        if task.kind == CHOLESKY:               # the lower triangle, turned: by columns U is L
            copy_in(n, n, a + offset(p, p.a_strides, item), p.a_column, p.a_row, space, ld)
            if not factor_symmetric(p.shared, n, space, x, ld, 0, ld):
                return False
            out = <real*>task.out + item * n * n
            if task.upper:
                turn(n, n, <const real*>space, ld, out, n)
            for i in range(n):
                if task.upper:
                    memset(out + i * (n + 1) + 1, 0, (n - 1 - i) * sizeof(real))
                    continue
                memset(out + i * n, 0, i * sizeof(real))
                memcpy(out + i * n + i, space + i * (ld + 1), (n - i) * sizeof(real))
            if not all_finite(n, n, out, n):
                return False
            continue
        if task.kind == AGAIN and not are_places(pivots, n):
            return False
        if (task.kind == AGAIN or task.kind == TRIANGLE and (k == 1 or not is_short(n, a))) and k <= SIDES \
                and (p.a_row == 1 or p.a_column == 1):
            if not solve_few(p, task, a + offset(p, p.a_strides, item), b + offset(p, p.b_strides, item), pivots,
                             <real*>task.out + item * n * k, x):
                return False
            continue
        if task.kind == TRIANGLE and n > AS_IT_LIES and (p.a_row == 1 or p.a_column == 1):
            if not do_strips(p, task, a + offset(p, p.a_strides, item), p.a_row, p.a_column, b + offset(p, p.b_strides, item), NULL, NULL,
                             True, <real*>task.out + item * n * k, x):
                return False
            continue
        if task.kind == CHOLESKY_INVERSE:           # of the lower triangle, or with `upper` of the turned one
            copy_in(n, n, a + offset(p, p.a_strides, item), p.a_column if task.upper else p.a_row, p.a_row if task.upper else p.a_column,
                    space, ld)
            if not inverse_of_product(p.shared, n, space, x, ld):
                return False
            out = <real*>task.out + item * n * n
            for i in range(n):
                memcpy(out + i * n, space + i * ld, n * sizeof(real))
            continue
        if task.kind == LU and n < BLOCK and m >= 2 * BLOCK:
            if not factor_few(p, a + offset(p, p.a_strides, item), <real*>task.lu + item * m * n, pivots, task.info + item, x):
                return False
            continue
        copy_rows(p, a + offset(p, p.a_strides, item), space)
        if task.kind == AGAIN or task.kind == TRIANGLE or task.kind == COFACTOR:
            if task.kind == COFACTOR and not are_places(pivots, n):
                return False
            turn_signs(m, n, space, ld, True, True)
        else:
            info = eliminate(p.team, m, count, space, ld, 0, ld, pivots, x)
            task.info[item] = <int32_t>info
            if info and task.kind >= INV or not give_factors(p, task, item, space):
                return False
            if task.kind == DET:
                (<real*>task.out)[item] = <real>product_of_pivots(n, space, ld + 1, pivots)
            elif task.kind == SLOGDET:
                (<real*>task.out)[item] = <real>log_of_pivots(n, space, ld + 1, pivots, <real*>task.signs + item)
            if task.kind < INV:
                continue
        if not do_strips(p, task, <const real*>space, ld, 1, <const real*>NULL if b == NULL else b + offset(p, p.b_strides, item), pivots,
                         places, False, <real*>task.out + item * n * k, x):
            return False
        if task.kind == COFACTOR and not scale_cofactors(
                n, <const real*>space, ld, pivots, square_of_all(n, b + offset(p, p.b_strides, item), p.b_row, p.b_column),
                <real*>task.out + item * n * n):
            return False
    return True
