# Exponentials of matrices and their derivatives along a direction: a Taylor polynomial of the matrix scaled down, squared again.
#
# Layout: matrices of any strides are copied into planes, rows of whole blocks; results are row-major. All is computed in float64.
# Threads: over the matrices of a batch; of a large one over columns of products. Sizes: the front end.
# Where an element is not finite, nothing of the result is.
# Source: Bader, Blanes and Casas, Computing the Matrix Exponential with an Optimized Taylor Polynomial Approximation, 2019.

from libc.math cimport NAN, ceil, fabs, ldexp, log2
from libc.string cimport memset

from volta._kernels.core.base cimport TensorBase, address, empty_host
from volta._kernels.cpu.lu_blocks cimport BLOCK, add_product
from volta._kernels.cpu.matrix_batch cimport Batch, batch_of, do_all, offset, plan, some_t
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport LANES64

cdef enum:
    A, A2, A3, A6, OTHER, SPARE, PLANES

# Of degrees 4, 8, 12 and 18: the norms up to which they are exact to float32 and to float64.
cdef double[2][4] REACH = [[5.116619363445086e-02, 5.800524627688768e-01, 1.461661507209034, 3.010066362817634],
                           [3.397168839976962e-04, 4.991228871115323e-02, 2.996158913811580e-01, 1.090863719290036]]
# Of degree 12, in 1, A, A2, A3; of degree 18, in 1, A, A2, A3, A6: the paper's (3.5) and (3.9).
cdef double[4][4] TWELVE = [[9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740],
                            [5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031, 0.01108844528519167989],
                            [0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968, 0.00610700528898058230],
                            [-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079, -0.00675951846863086359]]
cdef double[5][5] EIGHTEEN = [
    [0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04, 0],
    [0, 3.97849749499645077844e-01, 1.36783778460411720168, 4.98289622525382669416e-01, -6.37898194594723280150e-04],
    [-1.09676396052962061844e+01, 1.68015813878906206114, 5.71779846478865511061e-02, -6.98210122488052056106e-03,
     3.34975017086070470649e-05],
    [-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02, 2.95552570429315521194e-02,
     -1.39180257516060693404e-05],
    [0, 0, -9.23364619367118555360e-02, -1.69364939002081722752e-02, -1.40086798182036094347e-05]]

# Matrices of one size, and where `dual` their derivatives in the planes behind them.
cdef struct Room:
    double* planes
    Py_ssize_t n, ld, width
    bint dual, shared


cdef inline double* place(const Room* r, int plane, bint change) noexcept nogil:
    return r.planes + (plane + (PLANES if change else 0)) * r.n * r.ld


cdef void multiply(const Room* r, int out, int a, int b, bint add) noexcept nogil:
    """out = a b, or + it. IN: out is neither."""
    cdef int change
    for change in range(2 if r.dual else 1):
        if not add:
            memset(place(r, out, change), 0, r.n * r.ld * sizeof(double))
        add_product(r.shared, r.n, r.width, r.n, <const double*>place(r, a, False), r.ld, 1, <const double*>place(r, b, change),
                    place(r, out, change), r.ld)
    if r.dual:
        add_product(r.shared, r.n, r.width, r.n, <const double*>place(r, a, True), r.ld, 1, <const double*>place(r, b, False),
                    place(r, out, True), r.ld)


cdef void add_one(const Room* r, int plane, double value) noexcept nogil:
    cdef double* x = place(r, plane, False)
    cdef Py_ssize_t i
    for i in range(r.n):
        x[i * (r.ld + 1)] += value


cdef void add_plane(const Room* r, int out, int plane, double scale) noexcept nogil:
    cdef int change
    cdef double* x
    cdef const double* y
    cdef Py_ssize_t i
    for change in range(2 if r.dual else 1):
        x, y = place(r, out, change), place(r, plane, change)
        for i in range(r.n * r.ld):
            x[i] += scale * y[i]


cdef void combine(const Room* r, int powers, int count, const double* weights) noexcept nogil:
    """Sums of the powers, the first planes, in their places and where there are more sums than powers in OTHER. IN: a row of weights for
    each sum, of which the first is that of 1."""
    cdef int change, s
    cdef Py_ssize_t i, apart = r.n * r.ld
    cdef double[5] x
    cdef double* plane
    for change in range(2 if r.dual else 1):
        plane = place(r, A, change)
        if count == 5:
            for i in range(apart):
                x[0], x[1], x[2], x[3] = plane[i], plane[apart + i], plane[2 * apart + i], plane[3 * apart + i]
                for s in range(5):
                    plane[s * apart + i] = (weights[5 * s + 1] * x[0] + weights[5 * s + 2] * x[1] + weights[5 * s + 3] * x[2]
                                            + weights[5 * s + 4] * x[3])
        else:
            for i in range(apart):
                x[0], x[1], x[2] = plane[i], plane[apart + i], plane[2 * apart + i]
                for s in range(4):
                    plane[s * apart + i] = weights[4 * s + 1] * x[0] + weights[4 * s + 2] * x[1] + weights[4 * s + 3] * x[2]
    for s in range(count):
        add_one(r, s, weights[s * (powers + 1)])


cdef void clear(const Room* r, int plane) noexcept nogil:
    cdef int change
    for change in range(2 if r.dual else 1):
        memset(place(r, plane, change), 0, r.n * r.ld * sizeof(double))


cdef void four(const Room* r) noexcept nogil:
    """1 + A + A2 (1 / 2 + A / 6 + A2 / 24), in A."""
    multiply(r, A2, A, A, False)
    clear(r, A3)
    add_plane(r, A3, A, 1 / 6.)
    add_plane(r, A3, A2, 1 / 24.)
    add_one(r, A3, 0.5)
    multiply(r, A, A2, A3, True)
    add_one(r, A, 1)


cdef void eight(const Room* r) noexcept nogil:
    """By three products; in A."""
    cdef double root = 13.30413469565007072504, x3 = 2 / 3.
    multiply(r, A2, A, A, False)
    clear(r, A3)
    add_plane(r, A3, A, x3 * (1 + root) / 88)
    add_plane(r, A3, A2, x3 * (1 + root) / 352)
    multiply(r, A6, A2, A3, False)                      # the fourth power and less
    clear(r, A3)
    add_plane(r, A3, A, (-11 + 11 * root) / (1260 * x3))
    add_plane(r, A3, A2, (-99 + 11 * root) / (5040 * x3))
    add_plane(r, A3, A6, (89 - root) / (5040 * x3 * x3))
    add_one(r, A3, (-271 + 29 * root) / (315 * x3))
    add_plane(r, A6, A2, x3)
    add_plane(r, A, A2, (857 - 58 * root) / 630)
    multiply(r, A, A6, A3, True)
    add_one(r, A, 1)


cdef int polynomial(const Room* r, double norm, const double* reach) noexcept nogil:
    """Of A, whose norm that is. Gives the plane in which it is."""
    if norm <= reach[0]:
        four(r)
        return A
    if norm <= reach[1]:
        eight(r)
        return A
    multiply(r, A2, A, A, False)
    multiply(r, A3, A2, A, False)
    if norm <= reach[2]:
        combine(r, 3, 4, &TWELVE[0][0])
        multiply(r, A3, A6, A6, True)
        add_plane(r, A2, A3, 1)
        multiply(r, A, A2, A3, True)
        return A
    multiply(r, A6, A3, A3, False)
    combine(r, 4, 5, &EIGHTEEN[0][0])
    multiply(r, A6, A, OTHER, True)
    add_plane(r, A3, A6, 1)
    multiply(r, A2, A3, A6, True)
    return A2


# What is differentiated: along `g`, or nothing where that is NULL.
cdef struct Task:
    const void* g
    void* out


cdef Py_ssize_t row_of(Py_ssize_t n) noexcept nogil:
    """Elements of a row of planes; not all rows of one begin in the same lines of a cache."""
    cdef Py_ssize_t width = up(n, BLOCK if n > BLOCK else LANES64)
    return width + BLOCK if width % (4 * BLOCK) == 0 else width


cdef void take(const Room* r, const real* x, Py_ssize_t row, Py_ssize_t column, double scale, double* out) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(r.n):
        for j in range(r.n):
            out[i * r.ld + j] = x[i * row + j * column] * scale
        memset(out + i * r.ld + r.n, 0, (r.ld - r.n) * sizeof(double))


cdef double norm_of(Py_ssize_t n, const real* x, Py_ssize_t row, Py_ssize_t column, double* sums) noexcept nogil:
    """The largest sum of sizes of a column. IN: n sums."""
    cdef Py_ssize_t i, j
    cdef double most = 0
    memset(sums, 0, n * sizeof(double))
    for i in range(n):
        for j in range(n):
            sums[j] += fabs(<double>x[i * row + j * column])
    for j in range(n):
        if not sums[j] <= most:                         # NaN is kept
            most = sums[j]
    return most


cdef bint finite(Py_ssize_t n, const real* x, Py_ssize_t row, Py_ssize_t column) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double sum = 0
    for i in range(n):
        for j in range(n):
            sum += x[i * row + j * column] - x[i * row + j * column]
    return sum == 0


cdef bint do_some(const Batch* p, const Task* task, const real* a, Py_ssize_t first, Py_ssize_t last, double* space) noexcept nogil:
    cdef Py_ssize_t item, i, j, n = p.n
    cdef int squarings, now, other, q
    cdef double norm
    cdef double* found
    cdef const double* reach = &REACH[1 if real is double else 0][0]
    cdef const real* x
    cdef real* out
    cdef Room r
    r.planes, r.n, r.ld, r.width, r.dual, r.shared = space, n, row_of(n), up(n, BLOCK if n > BLOCK else LANES64), task.g != NULL, p.shared
    for item in range(first, last):
        x = a + offset(p, p.a_strides, item)
        out = <real*>task.out + item * n * n
        norm = norm_of(n, x, p.a_row, p.a_column, space)
        if norm - norm != 0 or (r.dual and not finite(
                n, <const real*>task.g + offset(p, p.b_strides, item), p.b_row, p.b_column)):
            for i in range(n * n):
                out[i] = <real>NAN
            continue
        squarings = max(0, <int>ceil(log2(norm / reach[3]))) if norm > reach[3] else 0
        take(&r, x, p.a_row, p.a_column, ldexp(1, -squarings), place(&r, A, False))
        if r.dual:
            take(&r, <const real*>task.g + offset(p, p.b_strides, item), p.b_row, p.b_column, ldexp(1, -squarings), place(&r, A, True))
        now = polynomial(&r, ldexp(norm, -squarings), reach)
        other = SPARE
        for q in range(squarings):
            multiply(&r, other, now, now, False)
            now, other = other, now
        found = place(&r, now, r.dual)
        for i in range(n):
            for j in range(n):
                out[i * n + j] = <real>found[i * r.ld + j]
    return True


cdef TensorBase run(TensorBase a, TensorBase g):
    cdef Batch p
    cdef Task task
    cdef TensorBase out = empty_host(a.shape, a.dtype)
    plan(&p, a, g, batch_of(a))
    if out.size == 0:
        return out
    if g is not None:
        p.a_row, p.a_column = p.a_column, p.a_row
    task.g, task.out = NULL if g is None else address(g), address(out)
    cdef Py_ssize_t each = (PLANES if g is None else 2 * PLANES) * p.n * row_of(p.n) * sizeof(double)
    do_all(&p, <some_t>do_some[float], <some_t>do_some[double], &task, a, each)
    return out


def matrix_exp(TensorBase a not None):
    """exp(A)."""
    return run(a, None)


def matrix_exp_grad(TensorBase g not None, TensorBase a not None):
    """The derivative of exp(A') along g."""
    return run(a, g)
