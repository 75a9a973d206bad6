# Distances of rows, of those of two tensors or of the pairs of one, in any norm, and their gradients.
#
# Layout: x1[batch, n, m] and x2[batch, r, m], contiguous; without x2 the pair (i, j), i < j, is number i (2n - i - 1) / 2 + j - i - 1.
# For distances of short rows in the norms 1, 2 and infinity, a copy of the others lies as columns.
# Threads: over rows, and blocks of the others; the gradient of a row is a sum over all others, in their order, so that it does not depend
# on how many there are.
# Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY, sqrt
from libc.string cimport memset

from volta.errors import ShapeError

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.distance_loops cimport (
    ACROSS, lengths_32, lengths_64, sums_32, sums_64, most_32, most_64, most_or_nan_32, most_or_nan_64, square_cells_32, square_cells_64,
    size_cells_32, size_cells_64, largest_cells_32, largest_cells_64, counted_32, sizes_32, squares_32, powers_32, largest_32,
    largest_or_nan_32, counted_64, sizes_64, squares_64, powers_64, largest_64, largest_or_nan_64, signs_32, ways_32, sign_powers_32,
    way_powers_32, those_of_largest_32, signs_64, ways_64, sign_powers_64, way_powers_64, those_of_largest_64,
)
from volta._kernels.cpu.doubles cimport pow_f64
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.scalar cimport pow_f32
from volta._kernels.cpu.tile cimport LANES32

cdef enum:
    BLOCK = 512                                 # rows of x2 that a task sees
    SHARE = 4                                   # tasks that a thread takes at a time
    OWN = 32768                                 # numbers up to which each thread turns the rows for itself: others' come slowly
    NARROW = 256                                # elements of a row up to which those of several are summed side by side
    FEWEST = 8                                  # rows that are worth it
    SHORT = 16                                  # elements of a row, up to which it has no parts

cdef struct Sizes:
    Py_ssize_t batch
    Py_ssize_t n
    Py_ssize_t r
    Py_ssize_t m
    Py_ssize_t apart                            # results of a batch
    bint pairs
    double power
    Py_ssize_t step                             # of the rows that lie as columns, 0 where they do not


cdef inline real distance(const real* a, const real* b, const Sizes* s) noexcept nogil:
    cdef Py_ssize_t m = s.m
    if real is float:
        if s.power == 2:
            return <float>sqrt(squares_32(a, b, m, 2))
        if s.power == 1:
            return sizes_32(a, b, m, 1)
        if s.power == INFINITY:
            return largest_or_nan_32(a, b, m, 0) if s.pairs else largest_32(a, b, m, 0)
        if s.power == 0:
            return counted_32(a, b, m, 0)
        return pow_f32(powers_32(a, b, m, <float>s.power), <float>(1 / s.power))
    else:
        if s.power == 2:
            return sqrt(squares_64(a, b, m, 2))
        if s.power == 1:
            return sizes_64(a, b, m, 1)
        if s.power == INFINITY:
            return largest_or_nan_64(a, b, m, 0) if s.pairs else largest_64(a, b, m, 0)
        if s.power == 0:
            return counted_64(a, b, m, 0)
        return pow_f64(powers_64(a, b, m, s.power), 1 / s.power)


cdef inline Py_ssize_t pair(Py_ssize_t i, Py_ssize_t j, Py_ssize_t n) noexcept nogil:
    return i * (2 * n - i - 1) // 2 + j - i - 1


cdef void turn_rows(const real* x, const Sizes* s, real* turned) noexcept nogil:
    """Rows as columns, with zeros behind them."""
    cdef Py_ssize_t batch, k
    for batch in range(s.batch):
        turn(s.r, s.m, x + batch * s.r * s.m, s.m, turned + batch * s.m * s.step, s.step)
    for k in range(s.batch * s.m):
        memset(turned + k * s.step + s.r, 0, (s.step - s.r) * sizeof(real))


cdef inline void across(const real* a, const real* turned, const Sizes* s, Py_ssize_t n, real* out) noexcept nogil:
    """The distances of a row from n that lie as columns."""
    if real is float:
        if s.power == 2:
            lengths_32(a, turned, s.m, s.step, n, out)
        elif s.power == 1:
            sums_32(a, turned, s.m, s.step, n, out)
        elif s.pairs:
            most_or_nan_32(a, turned, s.m, s.step, n, out)
        else:
            most_32(a, turned, s.m, s.step, n, out)
    else:
        if s.power == 2:
            lengths_64(a, turned, s.m, s.step, n, out)
        elif s.power == 1:
            sums_64(a, turned, s.m, s.step, n, out)
        elif s.pairs:
            most_or_nan_64(a, turned, s.m, s.step, n, out)
        else:
            most_64(a, turned, s.m, s.step, n, out)


cdef inline void one_row(const real* x1, const real* x2, const real* turned, const Sizes* s, Py_ssize_t batch, Py_ssize_t i,
                         Py_ssize_t first, real* out) noexcept nogil:
    """One row of x1 and a block of x2's."""
    cdef Py_ssize_t j, last = min(first + BLOCK, s.r)
    x1 += (batch * s.n + i) * s.m
    x2 += batch * s.r * s.m
    if s.pairs:
        first = max(first, i + 1)
        out += batch * s.apart + pair(i, 0, s.n)
    else:
        out += batch * s.apart + i * s.r
    if s.step:
        turned += batch * s.m * s.step + first
        across(x1, <const real*>turned, s, last - first, out + first)
        return
    for j in range(first, last):
        out[j] = distance(x1, x2 + j * s.m, s)


cdef inline void cells(const real* a, const real* b, const Sizes* s, real* out) noexcept nogil:
    """The distances of a batch's short rows."""
    cdef Py_ssize_t j
    if real is float:
        if s.power == 2:
            square_cells_32(a, b, s.n, s.r, s.m, out)
        elif s.power == 1:
            size_cells_32(a, b, s.n, s.r, s.m, out)
        else:
            largest_cells_32(a, b, s.n, s.r, s.m, out)
    else:
        if s.power == 2:
            square_cells_64(a, b, s.n, s.r, s.m, out)
        elif s.power == 1:
            size_cells_64(a, b, s.n, s.r, s.m, out)
        else:
            largest_cells_64(a, b, s.n, s.r, s.m, out)
    if s.power == 2:
        for j in range(s.apart):
            out[j] = <real>sqrt(out[j])


cdef bint small_batches(const real* x1, const real* x2, const Sizes* s, real* out) noexcept nogil:
    """Everything, a batch after the other, where they are small and in a common norm. False, with nothing done, else."""
    cdef Py_ssize_t batch
    cdef int threads = threads_for(s.batch * s.apart * (s.m + 4) // 2)
    if s.pairs or s.step or s.m >= SHORT or not (s.power == 2 or s.power == 1 or s.power == INFINITY):
        return False
    if threads > 1 and s.batch < 4 * threads:
        return False
    if threads == 1:
        for batch in range(s.batch):
            cells(x1 + batch * s.n * s.m, x2 + batch * s.r * s.m, s, out + batch * s.apart)
    else:
        for batch in prange(s.batch, num_threads=threads, schedule="static"):
            cells(x1 + batch * s.n * s.m, x2 + batch * s.r * s.m, s, out + batch * s.apart)
    return True


cdef void some_rows(const real* x1, const real* x2, const real* turned, const Sizes* s, Py_ssize_t task, Py_ssize_t last,
                    real* out) noexcept nogil:
    """Tasks, each a row of x1 and a block of x2's."""
    cdef Py_ssize_t blocks = (s.r + BLOCK - 1) // BLOCK, block = task % blocks, i = task // blocks % s.n, batch = task // blocks // s.n
    for task in range(task, last):
        one_row(x1, x2, turned, s, batch, i, block * BLOCK, out)
        block += 1
        if block == blocks:
            block, i = 0, i + 1
            if i == s.n:
                i, batch = 0, batch + 1


cdef void own_rows(const real* x1, const real* x2, real* turned, const Sizes* s, Py_ssize_t thread, Py_ssize_t threads, Py_ssize_t tasks,
                   real* out) noexcept nogil:
    """A thread's tasks, to and fro among those of all, since pairs get fewer."""
    cdef Py_ssize_t turn, task
    turn_rows(x2, s, turned)
    for turn in range((tasks + threads * SHARE - 1) // (threads * SHARE)):
        task = (turn * threads + (threads - 1 - thread if turn % 2 else thread)) * SHARE
        some_rows(x1, x2, turned, s, task, min(task + SHARE, tasks), out)


cdef inline int threads_of(const Sizes* s) noexcept nogil:
    return threads_for(s.batch * s.apart * (s.m + 16) // (4 if s.step else 1))


cdef inline bint is_own(const Sizes* s, int threads) noexcept nogil:
    """Whether each thread turns the rows for itself."""
    return threads > 1 and 0 < s.batch * s.m * s.step <= OWN


cdef void all_rows(const real* x1, const real* x2, real* turned, const Sizes* s, int threads, real* out) noexcept nogil:
    cdef Py_ssize_t tasks = s.batch * s.n * ((s.r + BLOCK - 1) // BLOCK), task
    if small_batches(x1, x2, s, out):
        return
    if is_own(s, threads):
        for task in prange(threads, num_threads=threads, schedule="static"):
            own_rows(x1, x2, turned + task * s.batch * s.m * s.step, s, task, threads, tasks, out)
        return
    if s.step:
        turn_rows(x2, s, turned)
    if threads == 1:
        some_rows(x1, x2, turned, s, 0, tasks, out)
        return
    for task in prange((tasks + SHARE - 1) // SHARE, num_threads=threads, schedule="dynamic"):
        some_rows(x1, x2, turned, s, task * SHARE, min(task * SHARE + SHARE, tasks), out)


cdef Sizes sizes_of(TensorBase x1, TensorBase x2, double p):
    """x2 is None for the pairs of rows of x1."""
    cdef Sizes s
    s.batch, s.n, s.m = x1.shape
    if x2 is not None and (len(x2.shape) != 3 or x2.shape[0] != s.batch or x2.shape[2] != s.m):
        raise ShapeError(f"distances: rows {x1.shape} and {x2.shape} do not fit")
    s.pairs, s.power = x2 is None, p
    s.r = s.n if s.pairs else <Py_ssize_t>x2.shape[1]
    s.apart = s.n * (s.n - 1) // 2 if s.pairs else s.n * s.r
    s.step = 0
    if (p == 2 or p == 1 or p == INFINITY) and s.m <= NARROW and min(s.n, s.r) >= FEWEST:
        s.step = (s.r + ACROSS - 1) // ACROSS * ACROSS + ACROSS         # a block that begins anywhere is whole
    return s


def distances(TensorBase x1 not None, TensorBase x2, double p):
    """The p-norms of what rows differ by."""
    cdef int code = float_code("distances", x1) if x2 is None else float_code("distances", x1, x2)
    x1 = packed(x1)
    x2 = None if x2 is None else packed(x2)
    cdef Sizes s = sizes_of(x1, x2, p)
    cdef tuple shape = (s.batch, s.apart)
    if not s.pairs:
        shape = (s.batch, s.n, s.r)
    cdef TensorBase out = empty_host(shape, x1.dtype)
    cdef void* first = address(x1)
    cdef void* second = first if x2 is None else address(x2)
    cdef void* target = address(out)
    cdef int threads = threads_of(&s)
    cdef Py_ssize_t copies = threads if is_own(&s, threads) else 1
    cdef Storage turned = host_storage(max(copies * s.batch * s.m * s.step * <Py_ssize_t>x1.dtype.itemsize, <Py_ssize_t>1))
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_rows(<const float*>first, <const float*>second, <float*>turned.data, &s, threads, <float*>target)
            else:
                all_rows(<const double*>first, <const double*>second, <double*>turned.data, &s, threads, <double*>target)
    return out


cdef inline void add_slopes(real* out, const real* a, const real* b, real g, real size, const Sizes* s) noexcept nogil:
    """What the distance `size` of rows a and b, with the gradient g, adds to that of a."""
    cdef real power = <real>s.power
    if real is float:
        if s.power == 2:
            ways_32(out, a, b, g / size if size != 0 else 0, size, 2, s.m)
        elif s.power == 1:
            signs_32(out, a, b, g, size, 1, s.m)
        elif s.power == INFINITY:
            those_of_largest_32(out, a, b, g, size, 0, s.m)
        elif s.power < 2:
            sign_powers_32(out, a, b, g / pow_f32(size, power - 1) if size != 0 else 0, size, power, s.m)
        else:
            way_powers_32(out, a, b, g / pow_f32(size, power - 1) if size != 0 else 0, size, power, s.m)
    else:
        if s.power == 2:
            ways_64(out, a, b, g / size if size != 0 else 0, size, 2, s.m)
        elif s.power == 1:
            signs_64(out, a, b, g, size, 1, s.m)
        elif s.power == INFINITY:
            those_of_largest_64(out, a, b, g, size, 0, s.m)
        elif s.power < 2:
            sign_powers_64(out, a, b, g / pow_f64(size, power - 1) if size != 0 else 0, size, power, s.m)
        else:
            way_powers_64(out, a, b, g / pow_f64(size, power - 1) if size != 0 else 0, size, power, s.m)


cdef void one_gradient(const real* g, const real* x1, const real* x2, const real* size, const Sizes* s, Py_ssize_t row,
                       real* out) noexcept nogil:
    cdef Py_ssize_t batch = row // s.n, i = row % s.n, j, k, at
    cdef const real* a = x1 + row * s.m
    cdef const real* b = x2 + batch * s.r * s.m
    out += row * s.m
    g += batch * s.apart
    size += batch * s.apart
    for k in range(s.m):
        out[k] = 0
    if s.power == 0:
        return
    for j in range(s.r):
        if s.pairs and j == i:
            continue
        at = i * s.r + j if not s.pairs else pair(i, j, s.n) if i < j else pair(j, i, s.n)
        add_slopes(out, a, b + j * s.m, g[at], size[at], s)


cdef void all_gradients(const real* g, const real* x1, const real* x2, const real* size, const Sizes* s, real* out) noexcept nogil:
    cdef int threads = threads_for(s.batch * s.n * s.r * (s.m + 16))
    cdef Py_ssize_t row
    if threads == 1:
        for row in range(s.batch * s.n):
            one_gradient(g, x1, x2, size, s, row, out)
        return
    for row in prange(s.batch * s.n, num_threads=threads, schedule="static"):
        one_gradient(g, x1, x2, size, s, row, out)


def distances_grad(TensorBase g not None, TensorBase x1 not None, TensorBase x2, TensorBase size not None, double p):
    """The gradient of x1 by g, that of the distances `size`."""
    cdef int code = float_code("distances_grad", g)
    g, x1, size = packed(g), packed(x1), packed(size)
    x2 = None if x2 is None else packed(x2)
    cdef Sizes s = sizes_of(x1, x2, p)
    if g.size != s.batch * s.apart or size.size != g.size or x1.dtype is not g.dtype or size.dtype is not g.dtype:
        raise ShapeError(f"distances_grad: there are {s.batch * s.apart} distances of {x1.dtype.name}, got gradients of {g.size} in "
                         f"{g.dtype.name} and {size.size} of {size.dtype.name}")
    cdef TensorBase out = empty_host(x1.shape, x1.dtype)
    cdef void* slopes = address(g)
    cdef void* first = address(x1)
    cdef void* second = first if x2 is None else address(x2)
    cdef void* lengths = address(size)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                all_gradients(<const float*>slopes, <const float*>first, <const float*>second, <const float*>lengths, &s, <float*>target)
            else:
                all_gradients(<const double*>slopes, <const double*>first, <const double*>second, <const double*>lengths, &s,
                              <double*>target)
    return out


KERNELS = {"distances": distances, "distances_grad": distances_grad}
