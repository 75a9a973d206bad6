# Cross entropy of class scores against integer labels.
#
# Layout: x[N, C] and target[N] (int64), made contiguous. Threads: over rows. Sizes: the front end.
# Labels are checked here before any is used: one outside [0, C) that is not ignore_index raises.

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, empty_host, empty_host_like
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.sums cimport exp_of, line_max, line_sum, log_of
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport float_code, same_type

from volta.errors import DTypeError, IndexRangeError

cdef enum:
    EXP_COST = 4                # one exp against one element of a cheap loop
    PIECE = 512                 # exponentials that are summed in one go


cdef Py_ssize_t first_wrong(const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored) noexcept nogil:
    """Position of the first label outside [0, classes) that is not `ignored`; -1 where there is none."""
    cdef Py_ssize_t i
    for i in range(n):
        if (target[i] < 0 or target[i] >= classes) and target[i] != ignored:
            return i
    return -1


cdef TensorBase labels(str name, TensorBase target, Py_ssize_t classes, int64_t ignored):
    """Contiguous labels. Raises: DTypeError unless int64; IndexRangeError naming the first wrong label."""
    if target.dtype.code != INT64:
        raise DTypeError(f"{name}: labels must be int64, got {target.dtype.name}; cast them with .long()")
    target = packed(target)
    cdef const int64_t* data = <const int64_t*>address(target)
    cdef Py_ssize_t at = first_wrong(data, target.size, classes, ignored)
    if at >= 0:
        raise IndexRangeError(f"{name}: label {data[at]} at position {at} is outside [0, {classes}) for {classes} "
                              f"classes; fix the labels, or pass ignore_index={data[at]} to leave it out")
    return target


cdef real row_logsumexp(const real* x, Py_ssize_t classes, real* top) noexcept nogil:
    """log(sum(exp(x - max))), NaN where the maximum is infinite, as in PyTorch. OUT: top, the maximum."""
    cdef real piece[PIECE]
    cdef Py_ssize_t start = 0, i, n
    cdef double total = 0
    top[0] = line_max(x, classes)
    while start < classes:
        n = min(PIECE, classes - start)
        for i in range(n):
            piece[i] = exp_of[real](x[start + i] - top[0])
        total += line_sum(<const real*>&piece[0], n)
        start += n
    return log_of[real](<real>total)


cdef void forward_rows(const real* x, const int64_t* target, Py_ssize_t first, Py_ssize_t last, Py_ssize_t classes,
                       int64_t ignored, real* loss, real* logsumexp) noexcept nogil:
    cdef Py_ssize_t i
    cdef real top = 0, log_sum
    for i in range(first, last):
        log_sum = row_logsumexp(x + i * classes, classes, &top)
        logsumexp[i] = top + log_sum
        loss[i] = 0 if target[i] == ignored else log_sum + (top - x[i * classes + target[i]])


cdef void forward(const real* x, const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored, real* loss,
                  real* logsumexp) noexcept nogil:
    cdef int threads = threads_for(n * classes * EXP_COST), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        forward_rows(x, target, n * t // threads, n * (t + 1) // threads, classes, ignored, loss, logsumexp)


def cross_entropy(TensorBase x not None, TensorBase target not None, int64_t ignore_index):
    """Per-row loss logsumexp(x) - x[target], 0 where target == ignore_index, and the logsumexp."""
    cdef int code = float_code("cross_entropy", x)
    cdef Py_ssize_t n = x.shape[0], classes = x.shape[1]
    target = labels("cross_entropy", target, classes, ignore_index)
    x = packed(x)
    cdef TensorBase loss = empty_host((n,), x.dtype), logsumexp = empty_host((n,), x.dtype)
    cdef const int64_t* wanted = <const int64_t*>address(target)
    if code == FLOAT32:
        forward(<const float*>address(x), wanted, n, classes, ignore_index, <float*>address(loss),
                <float*>address(logsumexp))
    else:
        forward(<const double*>address(x), wanted, n, classes, ignore_index, <double*>address(loss),
                <double*>address(logsumexp))
    return loss, logsumexp


cdef void grad_rows(const real* g, const real* x, const real* logsumexp, const int64_t* target, Py_ssize_t first,
                    Py_ssize_t last, Py_ssize_t classes, int64_t ignored, real* out) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef const real* line
    cdef real* y
    for i in range(first, last):
        line, y = x + i * classes, out + i * classes
        if target[i] == ignored:
            memset(y, 0, classes * sizeof(real))
            continue
        for j in range(classes):
            y[j] = g[i] * exp_of[real](line[j] - logsumexp[i])
        y[target[i]] -= g[i]


cdef void grad(const real* g, const real* x, const real* logsumexp, const int64_t* target, Py_ssize_t n,
               Py_ssize_t classes, int64_t ignored, real* out) noexcept nogil:
    cdef int threads = threads_for(n * classes * EXP_COST), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        grad_rows(g, x, logsumexp, target, n * t // threads, n * (t + 1) // threads, classes, ignored, out)


def cross_entropy_grad(TensorBase g not None, TensorBase x not None, TensorBase logsumexp not None,
                       TensorBase target not None, int64_t ignore_index):
    """Gradient with respect to x: g * (softmax(x) - one_hot(target)), 0 in ignored rows."""
    cdef int code = float_code("cross_entropy_grad", x)
    same_type("cross_entropy_grad", x, g)
    same_type("cross_entropy_grad", x, logsumexp)
    cdef Py_ssize_t n = x.shape[0], classes = x.shape[1]
    target = labels("cross_entropy_grad", target, classes, ignore_index)
    g, x, logsumexp = packed(g), packed(x), packed(logsumexp)
    cdef TensorBase out = empty_host_like(x, x.dtype)
    cdef const int64_t* wanted = <const int64_t*>address(target)
    if code == FLOAT32:
        grad(<const float*>address(g), <const float*>address(x), <const float*>address(logsumexp), wanted, n, classes,
             ignore_index, <float*>address(out))
    else:
        grad(<const double*>address(g), <const double*>address(x), <const double*>address(logsumexp), wanted, n,
             classes, ignore_index, <double*>address(out))
    return out


KERNELS = {"cross_entropy": cross_entropy, "cross_entropy_grad": cross_entropy_grad}
