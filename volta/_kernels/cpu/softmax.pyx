# Softmax and log-softmax along one dimension, and their gradients.
#
# Layout: x seen as [outer, length, inner], made contiguous. inner == 1: a line is a row; else lines are columns, and
#   blocks of neighbouring columns are worked together so that loops run along memory.
# Threads: over rows, or over blocks of columns. Sizes: the front end. A line of -inf gives NaN, as 0 / 0 does.

from cython.parallel cimport prange

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host_like
from volta._kernels.core.threads cimport PARALLEL_SIZE, threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.sums cimport line_dot, line_exp, line_exp_each, line_max, line_sum, log_of
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport float_code, pointer, split_at

cdef enum:
    COLUMNS = 128               # most columns worked together,
    FEWEST = 32                 # and fewest, where there is work for threads
    BLOCKS = 64                 # blocks of columns that there should be then
    EXP_COST = 4                # one exp against one element of a cheap loop


# ---------------------------------------------------------------- rows

cdef void softmax_row(const real* x, real* out, Py_ssize_t n, bint logarithm) noexcept nogil:
    cdef Py_ssize_t i
    cdef real top = line_max(x, n), scale
    line_exp(out, x, top, n)
    if logarithm:
        scale = log_of[real](<real>line_sum(<const real*>out, n))
        for i in range(n):
            out[i] = x[i] - top - scale
    else:
        scale = <real>(1.0 / line_sum(<const real*>out, n))
        for i in range(n):
            out[i] *= scale


cdef void softmax_grad_row(const real* g, const real* y, real* out, Py_ssize_t n, bint logarithm) noexcept nogil:
    cdef Py_ssize_t i
    cdef real total
    if logarithm:
        total = <real>line_sum(g, n)
        line_exp(out, y, <real>0, n)
        for i in range(n):
            out[i] = g[i] - out[i] * total
        return
    total = <real>line_dot(g, y, <real>0, n)
    for i in range(n):
        out[i] = y[i] * (g[i] - total)


# ---------------------------------------------------------------- columns

cdef void softmax_columns(const real* x, real* out, Py_ssize_t length, Py_ssize_t stride, Py_ssize_t n,
                          bint logarithm) noexcept nogil:
    """n neighbouring columns. IN: stride from one element of a column to the next."""
    cdef real top[COLUMNS]
    cdef real total[COLUMNS]
    cdef Py_ssize_t i, j, at
    for j in range(n):
        top[j] = x[j]
        total[j] = 0
    for i in range(1, length):
        at = i * stride
        for j in range(n):
            top[j] = x[at + j] if x[at + j] > top[j] else top[j]
    for i in range(length):
        at = i * stride
        line_exp_each(out + at, x + at, <const real*>top, n)
        for j in range(n):
            total[j] += out[at + j]
    for j in range(n):
        total[j] = log_of[real](total[j]) if logarithm else 1 / total[j]
    for i in range(length):
        at = i * stride
        if logarithm:
            for j in range(n):
                out[at + j] = x[at + j] - top[j] - total[j]
        else:
            for j in range(n):
                out[at + j] *= total[j]


cdef void softmax_grad_columns(const real* g, const real* y, real* out, Py_ssize_t length, Py_ssize_t stride,
                               Py_ssize_t n, bint logarithm) noexcept nogil:
    cdef real total[COLUMNS]
    cdef Py_ssize_t i, j, at
    for j in range(n):
        total[j] = 0
    for i in range(length):
        at = i * stride
        for j in range(n):
            total[j] += g[at + j] if logarithm else g[at + j] * y[at + j]
    for i in range(length):
        at = i * stride
        if logarithm:
            line_exp(out + at, y + at, <real>0, n)
            for j in range(n):
                out[at + j] = g[at + j] - out[at + j] * total[j]
        else:
            for j in range(n):
                out[at + j] = y[at + j] * (g[at + j] - total[j])


# ---------------------------------------------------------------- both

cdef void line(const real* g, const real* x, real* out, Py_ssize_t item, Py_ssize_t length, Py_ssize_t inner, Py_ssize_t width,
               bint logarithm) noexcept nogil:
    """A row, or a block of `width` columns. IN: g is NULL in the forward kernels; else x is their output."""
    cdef Py_ssize_t blocks = (inner + width - 1) // width, start = item % blocks * width, n = min(width, inner - start)
    cdef Py_ssize_t at = item // blocks * length * inner + start
    if inner == 1 and g == NULL:
        softmax_row(x + at, out + at, length, logarithm)
    elif inner == 1:
        softmax_grad_row(g + at, x + at, out + at, length, logarithm)
    elif g == NULL:
        softmax_columns(x + at, out + at, length, inner, n, logarithm)
    else:
        softmax_grad_columns(g + at, x + at, out + at, length, inner, n, logarithm)


cdef void run(const real* g, const real* x, real* out, Py_ssize_t outer, Py_ssize_t length, Py_ssize_t inner,
              bint logarithm) noexcept nogil:
    cdef Py_ssize_t item, work = outer * length * inner * EXP_COST, width = COLUMNS
    cdef int threads = threads_for(work)
    while width > FEWEST and work >= PARALLEL_SIZE and outer * inner < BLOCKS * width:
        width //= 2
    if threads == 1:            # OpenMP takes half a microsecond for a region of one
        for item in range(outer * ((inner + width - 1) // width)):
            line(g, x, out, item, length, inner, width, logarithm)
        return
    for item in prange(outer * ((inner + width - 1) // width), num_threads=threads, schedule="static"):
        line(g, x, out, item, length, inner, width, logarithm)


cdef TensorBase dispatch(str name, TensorBase g, TensorBase x, Py_ssize_t dim, bint logarithm):
    cdef int code = float_code(name, x, g)
    cdef Py_ssize_t outer = 0, length = 0, inner = 0
    x, g = packed(x), packed(g)
    cdef TensorBase out = empty_host_like(x, x.dtype)
    cdef void* gradient = pointer(g)
    cdef void* source = address(x)
    cdef void* target = address(out)
    split_at(x.shape, dim, &outer, &length, &inner)
    if x.size == 0:
        return out
    with nogil:
        if code == FLOAT32:
            run(<const float*>gradient, <const float*>source, <float*>target, outer, length, inner, logarithm)
        else:
            run(<const double*>gradient, <const double*>source, <double*>target, outer, length, inner, logarithm)
    return out


def softmax(TensorBase x not None, Py_ssize_t dim):
    """exp(x) / sum(exp(x)) along dim."""
    return dispatch("softmax", None, x, dim, False)


def log_softmax(TensorBase x not None, Py_ssize_t dim):
    """x - log(sum(exp(x))) along dim."""
    return dispatch("log_softmax", None, x, dim, True)


def softmax_grad(TensorBase g not None, TensorBase out not None, Py_ssize_t dim):
    """Gradient of softmax from its output: out * (g - sum(g * out))."""
    return dispatch("softmax_grad", g, out, dim, False)


def log_softmax_grad(TensorBase g not None, TensorBase out not None, Py_ssize_t dim):
    """Gradient of log_softmax from its output: g - exp(out) * sum(g)."""
    return dispatch("log_softmax_grad", g, out, dim, True)


KERNELS = {"softmax": softmax, "log_softmax": log_softmax, "softmax_grad": softmax_grad,
           "log_softmax_grad": log_softmax_grad}
