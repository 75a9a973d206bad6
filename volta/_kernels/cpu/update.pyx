# Optimizer steps: one pass over a parameter and its state, in place.
#
# Layout: all of one shape. The gradient may have any strides; a parameter or state that is not contiguous is worked
#   on in a copy, which is written back. Arithmetic is in the parameter's type, in the order of torch.optim.
# Threads: over elements. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport sqrt, sqrtf

from volta._kernels.core.base cimport FLOAT32, TensorBase, address
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport copy_back, float_code, packed

cdef struct Momentum:
    double lr, momentum, dampening, weight_decay
    bint nesterov, first


cdef struct Moments:
    double lr, beta1, beta2, eps, weight_decay, correction1, correction2
    bint decoupled


cdef inline real root(real x) noexcept nogil:
    if real is float:
        return sqrtf(x)
    else:
        return sqrt(x)


# ---------------------------------------------------------------- SGD

cdef void sgd_plain(real* x, const real* g, Py_ssize_t n, Momentum* s) noexcept nogil:
    cdef real lr = <real>s.lr, decay = <real>s.weight_decay
    cdef Py_ssize_t i
    for i in range(n):
        x[i] -= lr * (g[i] + decay * x[i])


cdef void sgd_momentum(real* x, const real* g, real* buffer, Py_ssize_t n, Momentum* s) noexcept nogil:
    """The first step starts the buffer with the gradient itself."""
    cdef real lr = <real>s.lr, decay = <real>s.weight_decay, momentum = <real>s.momentum
    cdef real keep = 0 if s.first else <real>s.momentum, take = 1 if s.first else <real>(1 - s.dampening)
    cdef real d, b
    cdef Py_ssize_t i
    if s.first:
        for i in range(n):
            buffer[i] = 0                       # its contents were undefined, perhaps NaN
    if s.nesterov:
        for i in range(n):
            d = g[i] + decay * x[i]
            b = keep * buffer[i] + take * d
            buffer[i] = b
            x[i] -= lr * (d + momentum * b)
    else:
        for i in range(n):
            b = keep * buffer[i] + take * (g[i] + decay * x[i])
            buffer[i] = b
            x[i] -= lr * b


cdef void sgd_run(real* x, const real* g, real* buffer, Py_ssize_t n, Momentum* s) noexcept nogil:
    cdef int threads = threads_for(2 * n), t
    cdef Py_ssize_t start
    for t in prange(threads, num_threads=threads, schedule="static"):
        start = n * t // threads
        if buffer == NULL:
            sgd_plain(x + start, g + start, n * (t + 1) // threads - start, s)
        else:
            sgd_momentum(x + start, g + start, buffer + start, n * (t + 1) // threads - start, s)


cdef void finish(TensorBase t, TensorBase worked):
    """Write back where `packed` had to copy."""
    if t is not None and worked is not t:
        copy_back(t, worked)


def sgd(TensorBase param not None, TensorBase grad not None, TensorBase momentum_buffer, double lr, double momentum,
        double dampening, double weight_decay, bint nesterov, bint first):
    """One step of stochastic gradient descent, in place on param and momentum_buffer."""
    cdef int code = float_code("sgd", param)
    cdef Momentum s = Momentum(lr, momentum, dampening, weight_decay, nesterov, first)
    cdef TensorBase x = packed(param), g = packed(grad)
    cdef TensorBase buffer = packed(momentum_buffer) if momentum_buffer is not None else None
    cdef void* kept = address(buffer) if buffer is not None else NULL
    if code == FLOAT32:
        sgd_run(<float*>address(x), <const float*>address(g), <float*>kept, x.size, &s)
    else:
        sgd_run(<double*>address(x), <const double*>address(g), <double*>kept, x.size, &s)
    finish(param, x)
    finish(momentum_buffer, buffer)


# ---------------------------------------------------------------- Adam

cdef void adam_part(real* x, const real* g, real* mean, real* square, Py_ssize_t n, Moments* s) noexcept nogil:
    cdef real shrink = <real>(1 - s.lr * s.weight_decay) if s.decoupled else 1
    cdef real decay = 0 if s.decoupled else <real>s.weight_decay
    cdef real take1 = <real>(1 - s.beta1), keep2 = <real>s.beta2, take2 = <real>(1 - s.beta2), eps = <real>s.eps
    cdef real step = <real>(s.lr / s.correction1), scale = <real>(sqrt(s.correction2)), d, m, v
    cdef Py_ssize_t i
    for i in range(n):
        d = g[i] + decay * x[i]
        m = mean[i] + take1 * (d - mean[i])
        v = keep2 * square[i] + take2 * d * d
        mean[i] = m
        square[i] = v
        x[i] = shrink * x[i] - step * m / (root[real](v) / scale + eps)


cdef void amsgrad_part(real* x, const real* g, real* mean, real* square, real* largest, Py_ssize_t n,
                       Moments* s) noexcept nogil:
    """adam_part, scaled by the largest mean square so far; a NaN is the largest."""
    cdef real shrink = <real>(1 - s.lr * s.weight_decay) if s.decoupled else 1
    cdef real decay = 0 if s.decoupled else <real>s.weight_decay
    cdef real take1 = <real>(1 - s.beta1), keep2 = <real>s.beta2, take2 = <real>(1 - s.beta2), eps = <real>s.eps
    cdef real step = <real>(s.lr / s.correction1), scale = <real>(sqrt(s.correction2)), d, m, v, top
    cdef Py_ssize_t i
    for i in range(n):
        d = g[i] + decay * x[i]
        m = mean[i] + take1 * (d - mean[i])
        v = keep2 * square[i] + take2 * d * d
        top = largest[i]
        top = top if top >= v else v
        mean[i] = m
        square[i] = v
        largest[i] = top
        x[i] = shrink * x[i] - step * m / (root[real](top) / scale + eps)


cdef void adam_run(real* x, const real* g, real* mean, real* square, real* largest, Py_ssize_t n,
                   Moments* s) noexcept nogil:
    """`largest` is NULL without amsgrad."""
    cdef int threads = threads_for(4 * n), t
    cdef Py_ssize_t start
    for t in prange(threads, num_threads=threads, schedule="static"):
        start = n * t // threads
        if largest == NULL:
            adam_part(x + start, g + start, mean + start, square + start, n * (t + 1) // threads - start, s)
        else:
            amsgrad_part(x + start, g + start, mean + start, square + start, largest + start,
                         n * (t + 1) // threads - start, s)


def adam(TensorBase param not None, TensorBase grad not None, TensorBase exp_avg not None,
         TensorBase exp_avg_sq not None,
         double lr, double beta1, double beta2, double eps, double weight_decay, bint decoupled, double correction1,
         double correction2):
    """One step of Adam (AdamW where decoupled), in place on param, exp_avg and exp_avg_sq. Source: Kingma and Ba 2015,
    algorithm 1; Loshchilov and Hutter 2019, algorithm 2.
    """
    cdef int code = float_code("adam", param)
    cdef Moments s = Moments(lr, beta1, beta2, eps, weight_decay, correction1, correction2, decoupled)
    cdef TensorBase x = packed(param), g = packed(grad), mean = packed(exp_avg), square = packed(exp_avg_sq)
    if code == FLOAT32:
        adam_run(<float*>address(x), <const float*>address(g), <float*>address(mean), <float*>address(square), NULL,
                 x.size, &s)
    else:
        adam_run(<double*>address(x), <const double*>address(g), <double*>address(mean), <double*>address(square),
                 NULL, x.size, &s)
    finish(param, x)
    finish(exp_avg, mean)
    finish(exp_avg_sq, square)


def amsgrad(TensorBase param not None, TensorBase grad not None, TensorBase exp_avg not None,
            TensorBase exp_avg_sq not None, TensorBase max_exp_avg_sq not None,
            double lr, double beta1, double beta2, double eps, double weight_decay, bint decoupled, double correction1,
            double correction2):
    """`adam`, scaled by the largest exp_avg_sq so far, which is kept in max_exp_avg_sq. Source: Reddi et al. 2018,
    algorithm 2, with the bias corrections of torch.optim.Adam.
    """
    cdef int code = float_code("amsgrad", param)
    cdef Moments s = Moments(lr, beta1, beta2, eps, weight_decay, correction1, correction2, decoupled)
    cdef TensorBase x = packed(param), g = packed(grad), mean = packed(exp_avg), square = packed(exp_avg_sq)
    cdef TensorBase largest = packed(max_exp_avg_sq)
    if code == FLOAT32:
        adam_run(<float*>address(x), <const float*>address(g), <float*>address(mean), <float*>address(square),
                 <float*>address(largest), x.size, &s)
    else:
        adam_run(<double*>address(x), <const double*>address(g), <double*>address(mean), <double*>address(square),
                 <double*>address(largest), x.size, &s)
    finish(param, x)
    finish(exp_avg, mean)
    finish(exp_avg_sq, square)
    finish(max_exp_avg_sq, largest)


KERNELS = {"sgd": sgd, "adam": adam, "amsgrad": amsgrad}
