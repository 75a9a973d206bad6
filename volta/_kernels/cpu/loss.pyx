# Cross entropy of class scores against integer labels, and negative log-likelihoods.
#
# Layout: x[N, C] and target[N] (int64), made contiguous. Threads: over rows; sums of log-likelihoods over blocks of labels. Sizes: the
# front end.
# Labels are checked here before any is used: one outside [0, C) that is not ignore_index raises.

from cython.parallel cimport prange
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, INT64, Storage, TensorBase, address, empty_host, empty_host_like, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.short_lines cimport SHORT, short_losses
from volta._kernels.cpu.sums cimport line_away, line_exp_sum, line_max, log_of
from volta._kernels.core.views cimport float_code, same_type

from volta.errors import DTypeError, IndexRangeError

cdef enum:
    EXP_COST = 4                # one exp against one element of a cheap loop
    LABEL_COST = 4              # one label, whose element lies anywhere
    BLOCK = 2048                # labels that are summed together


cdef Py_ssize_t first_wrong(const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored) noexcept nogil:
    """Position of the first label outside [0, classes) that is not `ignored`; -1 where there is none."""
    cdef Py_ssize_t i
    cdef int64_t found = 0
    for i in range(n):
        found |= ((target[i] < 0) | (target[i] >= classes)) & (target[i] != ignored)
    for i in range(n if found else 0):
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


cdef void forward_rows(const real* x, const int64_t* target, Py_ssize_t first, Py_ssize_t last, Py_ssize_t classes,
                       int64_t ignored, real* loss, real* softmax) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef const real* line
    cdef real* y
    cdef real top, scale
    cdef double total
    if real is float:
        if 0 < classes <= SHORT and short_losses(loss + first, NULL if softmax == NULL else softmax + first * classes, x + first * classes,
                                                 target + first, ignored, last - first, classes):
            return
    for i in range(first, last):
        line = x + i * classes
        top = line_max(line, classes)
        y = NULL if softmax == NULL else softmax + i * classes
        total = line_exp_sum(y, line, top, classes)                 # NaN where top is infinite, as in PyTorch
        scale = <real>(1.0 / total)
        for j in range(0 if softmax == NULL else classes):
            y[j] *= scale
        loss[i] = 0 if target[i] == ignored else log_of[real](<real>total) + (top - line[target[i]])


cdef void forward(const real* x, const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored, real* loss,
                  real* softmax) noexcept nogil:
    cdef int threads = threads_for(n * classes * EXP_COST), t
    if threads == 1:            # OpenMP takes half a microsecond for a region of one
        forward_rows(x, target, 0, n, classes, ignored, loss, softmax)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        forward_rows(x, target, n * t // threads, n * (t + 1) // threads, classes, ignored, loss, softmax)


cdef void smooth(const real* x, const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored, double smoothing,
                 real* loss) noexcept nogil:
    """Give all classes alike a part of each loss: the mean of their logarithms is the label's plus the mean of x - x[label]."""
    cdef Py_ssize_t i
    cdef real label
    for i in prange(n, num_threads=threads_for(n * classes), schedule="static"):
        if target[i] != ignored:
            label = x[i * classes + target[i]]
            if label - label == 0:
                loss[i] = <real>(loss[i] - smoothing * line_away(x + i * classes, label, classes) / <double>classes)


cdef tuple losses(str name, TensorBase x, TensorBase target, int64_t ignored, double smoothing, bint keep):
    cdef int code = float_code(name, x)
    cdef Py_ssize_t n = x.shape[0], classes = x.shape[1]
    target = labels(name, target, classes, ignored)
    x = packed(x)
    cdef TensorBase loss = empty_host((n,), x.dtype), softmax = empty_host_like(x, x.dtype) if keep else None
    cdef const int64_t* wanted = <const int64_t*>address(target)
    cdef void* kept = address(softmax) if keep else NULL
    if code == FLOAT32:
        forward(<const float*>address(x), wanted, n, classes, ignored, <float*>address(loss), <float*>kept)
        if smoothing:
            smooth(<const float*>address(x), wanted, n, classes, ignored, smoothing, <float*>address(loss))
    else:
        forward(<const double*>address(x), wanted, n, classes, ignored, <double*>address(loss), <double*>kept)
        if smoothing:
            smooth(<const double*>address(x), wanted, n, classes, ignored, smoothing, <double*>address(loss))
    return loss, softmax


def cross_entropy(TensorBase x not None, TensorBase target not None, int64_t ignore_index, double smoothing=0):
    """Per-row loss logsumexp(x) - x[target], 0 where target == ignore_index; of `smoothing`, that part with the mean of x."""
    return losses("cross_entropy", x, target, ignore_index, smoothing, False)[0]


def cross_entropy_softmax(TensorBase x not None, TensorBase target not None, int64_t ignore_index, double smoothing=0):
    """The same, and softmax(x), which its gradient needs."""
    return losses("cross_entropy_softmax", x, target, ignore_index, smoothing, True)


cdef void grad_rows(const real* g, const real* softmax, const int64_t* target, Py_ssize_t first, Py_ssize_t last,
                    Py_ssize_t classes, int64_t ignored, double smoothing, real* out) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef const real* line
    cdef real* y
    cdef real each = <real>(smoothing / <double>classes)
    for i in range(first, last):
        line, y = softmax + i * classes, out + i * classes
        if target[i] == ignored:
            memset(y, 0, classes * sizeof(real))
            continue
        for j in range(classes):
            y[j] = g[i] * (line[j] - each)
        y[target[i]] -= <real>(1 - smoothing) * g[i]


cdef void grad(const real* g, const real* softmax, const int64_t* target, Py_ssize_t n, Py_ssize_t classes, int64_t ignored,
               double smoothing, real* out) noexcept nogil:
    cdef int threads = threads_for(n * classes), t
    if threads == 1:
        grad_rows(g, softmax, target, 0, n, classes, ignored, smoothing, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        grad_rows(g, softmax, target, n * t // threads, n * (t + 1) // threads, classes, ignored, smoothing, out)


def cross_entropy_grad(TensorBase g not None, TensorBase softmax not None, TensorBase target not None, int64_t ignore_index,
                       double smoothing=0):
    """Gradient with respect to x: g * (softmax(x) - one_hot(target)), 0 in ignored rows; `smoothing` gives each class a part of the one."""
    cdef int code = float_code("cross_entropy_grad", softmax)
    same_type("cross_entropy_grad", softmax, g)
    cdef Py_ssize_t n = softmax.shape[0], classes = softmax.shape[1]
    target = labels("cross_entropy_grad", target, classes, ignore_index)
    g, softmax = packed(g), packed(softmax)
    cdef TensorBase out = empty_host_like(softmax, softmax.dtype)
    cdef const int64_t* wanted = <const int64_t*>address(target)
    if code == FLOAT32:
        grad(<const float*>address(g), <const float*>address(softmax), wanted, n, classes, ignore_index, smoothing, <float*>address(out))
    else:
        grad(<const double*>address(g), <const double*>address(softmax), wanted, n, classes, ignore_index, smoothing, <double*>address(out))
    return out


# ---------------------------------------------------------------- log-probabilities that labels name

cdef struct Labelled:
    # Labels (rows of `inner`), what x and the weights of classes are, and what to do with them.
    const int64_t* target
    Py_ssize_t count, classes, inner
    int64_t ignored
    bint picked, mean, each     # x[N, inner] instead of x[N, classes, inner]; one loss for each label


cdef inline Py_ssize_t place_of(const Labelled* p, Py_ssize_t i) noexcept nogil:
    """Where label i points in x; its entry in picked x."""
    if p.picked:
        return i
    if p.inner == 1:
        return i * p.classes + p.target[i]
    return (i // p.inner * p.classes + p.target[i]) * p.inner + i % p.inner


cdef void nll_block(const Labelled* p, const real* x, const real* weight, Py_ssize_t block, real* out, double* sums) noexcept nogil:
    """Labels of a block. OUT: sums, of the losses and of the weights."""
    cdef Py_ssize_t i
    cdef double sum = 0, weights = 0, w, v
    for i in range(block * BLOCK, min((block + 1) * BLOCK, p.count)):
        v = w = 0
        if p.target[i] != p.ignored:
            w = 1.0 if weight == NULL else weight[p.target[i]]
            v = (x[place_of(p, i)] if p.picked else -x[place_of(p, i)]) * w
        if p.each:
            out[i] = <real>v
        sum += v
        weights += w
    sums[2 * block], sums[2 * block + 1] = sum, weights


cdef void nll_rows(const Labelled* p, const real* x, const real* weight, real* out, real* total, double* sums) noexcept nogil:
    """The sums of the blocks are added in their order, whoever made them."""
    cdef Py_ssize_t blocks = (p.count + BLOCK - 1) // BLOCK, block
    cdef double sum = 0, weights = 0
    cdef int threads = threads_for(p.count * LABEL_COST)
    if threads == 1:
        for block in range(blocks):
            nll_block(p, x, weight, block, out, sums)
    else:
        for block in prange(blocks, num_threads=threads, schedule="static"):
            nll_block(p, x, weight, block, out, sums)
    for block in range(blocks):
        sum += sums[2 * block]
        weights += sums[2 * block + 1]
    if p.mean:
        total[0] = <real>weights
        sum = sum / weights
    if not p.each:
        out[0] = <real>sum


cdef void nll_slopes(const Labelled* p, const real* g, const real* weight, const real* total, Py_ssize_t first, Py_ssize_t last,
                     real* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef real v
    for i in range(first, last):
        if p.target[i] == p.ignored:
            if p.picked:
                out[i] = 0
            continue
        v = g[i if p.each else 0]
        if weight != NULL:
            v *= weight[p.target[i]]
        if p.mean:
            v /= total[0]
        out[place_of(p, i)] = v if p.picked else -v


cdef void nll_gradient(const Labelled* p, const real* g, const real* weight, const real* total, Py_ssize_t size, real* out) noexcept nogil:
    """IN: size, elements of out. A thread clears what its labels write: whole rows of classes, unless x was picked."""
    cdef int threads = threads_for(size + p.count * LABEL_COST), t
    cdef Py_ssize_t rows = p.count // max(p.inner, 1), width = size // max(rows, 1)
    if threads == 1:
        memset(out, 0, rows * width * sizeof(real))
        nll_slopes(p, g, weight, total, 0, rows * p.inner, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        memset(out + rows * t // threads * width, 0, (rows * (t + 1) // threads - rows * t // threads) * width * sizeof(real))
        nll_slopes(p, g, weight, total, rows * t // threads * p.inner, rows * (t + 1) // threads * p.inner, out)


cdef TensorBase described(Labelled* p, str name, TensorBase target, tuple shape, TensorBase weight, int64_t ignored, str reduction,
                          bint picked):
    """Fills in what there is to do; gives the labels, contiguous and checked."""
    cdef Py_ssize_t n
    p.classes = INT64_MAX if weight is None else weight.shape[0]
    p.inner = 1
    if not picked:
        p.classes = shape[1]
        for n in shape[2:]:
            p.inner *= n
    target = labels(name, target, p.classes, ignored)
    p.target, p.count = <const int64_t*>address(target), target.size
    p.ignored, p.picked, p.mean, p.each = ignored, picked, reduction == "mean", reduction == "none"
    return target


def nll(TensorBase x not None, TensorBase target not None, TensorBase weight, int64_t ignore_index, str reduction, bint picked):
    """(loss, sum of the weights that count, of a mean): minus x at each label, or `picked` x, times the label's weight."""
    cdef int code = float_code("nll", x)
    cdef Labelled p
    target = described(&p, "nll", target, x.shape, weight, ignore_index, reduction, picked)
    x = packed(x)
    if weight is not None:
        same_type("nll", x, weight)
        weight = packed(weight)
    cdef TensorBase out = empty_host(target.shape if p.each else (), x.dtype), total = empty_host((1 if p.mean else 0,), x.dtype)
    cdef void* w = NULL if weight is None else address(weight)
    cdef Storage memory = host_storage((p.count + BLOCK - 1) // BLOCK * 2 * sizeof(double))
    cdef double* sums = <double*>memory.data
    if code == FLOAT32:
        nll_rows(&p, <const float*>address(x), <const float*>w, <float*>address(out), <float*>address(total), sums)
    else:
        nll_rows(&p, <const double*>address(x), <const double*>w, <double*>address(out), <double*>address(total), sums)
    return out, total


def nll_grad(TensorBase g not None, TensorBase target not None, TensorBase weight, TensorBase total not None, tuple shape,
             int64_t ignore_index, str reduction, bint picked):
    """The gradient of x, of this shape."""
    cdef int code = float_code("nll_grad", g)
    cdef Labelled p
    target = described(&p, "nll_grad", target, shape, weight, ignore_index, reduction, picked)
    g, total = packed(g), packed(total)
    if weight is not None:
        same_type("nll_grad", g, weight)
        weight = packed(weight)
    cdef TensorBase out = empty_host(shape, g.dtype)
    cdef void* w = NULL if weight is None else address(weight)
    if code == FLOAT32:
        nll_gradient(&p, <const float*>address(g), <const float*>w, <const float*>address(total), out.size, <float*>address(out))
    else:
        nll_gradient(&p, <const double*>address(g), <const double*>w, <const double*>address(total), out.size, <double*>address(out))
    return out


# ---------------------------------------------------------------- scores within a margin of the label's

cdef double margin_line(const real* x, real far, Py_ssize_t n, bint squared, bint slopes, real scale, real* out) noexcept nogil:
    """The sum of far + x where that is above 0, of its square, or of its slope. OUT: the slopes times `scale`, 0 where they are 0, unless
    NULL. In lanes, of at most 1024 elements each time, so that compilers use vectors and the error does not grow with the length."""
    cdef real lanes[16]
    cdef real z, v
    cdef double total = 0
    cdef Py_ssize_t i = 0, stop, k, left
    while i < n:
        stop = min(i + 1024, n)
        for k in range(16):
            lanes[k] = 0
        while i < stop:
            left = min(stop - i, 16)
            for k in range(left):
                z = far + x[i + k]
                z = z if z > 0 else 0
                if slopes:
                    v = 2 * z if squared else (1 if z > 0 else 0)
                    out[i + k] = scale * v if v > 0 else 0
                else:
                    v = z * z if squared else z
                lanes[k] += v
            i += left
        for k in range(16):
            total += lanes[k]
    return total


cdef void margin_rows(const real* g, const real* x, const int64_t* target, const real* weight, Py_ssize_t first, Py_ssize_t last,
                      Py_ssize_t classes, real margin, bint squared, real* out) noexcept nogil:
    """Losses of rows, or where g is given their gradients."""
    cdef Py_ssize_t i, label
    cdef const real* line
    cdef real* y = NULL
    cdef real far, scale
    cdef double total
    for i in range(first, last):
        line, label = x + i * classes, target[i]
        far = margin - line[label]
        scale = 1 if weight == NULL else weight[label]
        if g != NULL:
            scale = g[i] * scale / classes
            y = out + i * classes
        total = margin_line(line, far, label, squared, g != NULL, scale, y)
        total += margin_line(line + label + 1, far, classes - label - 1, squared, g != NULL, scale, NULL if y == NULL else y + label + 1)
        if g != NULL:
            y[label] = -scale * <real>total if total > 0 else 0
        else:
            out[i] = <real>(total / classes) * scale if total > 0 else 0


cdef void margins(const real* g, const real* x, const int64_t* target, const real* weight, Py_ssize_t n, Py_ssize_t classes, real margin,
                  bint squared, real* out) noexcept nogil:
    cdef int threads = threads_for(n * classes), t
    if threads == 1:
        margin_rows(g, x, target, weight, 0, n, classes, margin, squared, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        margin_rows(g, x, target, weight, n * t // threads, n * (t + 1) // threads, classes, margin, squared, out)


cdef TensorBase margins_of(str name, TensorBase g, TensorBase x, TensorBase target, TensorBase weight, int p, double margin):
    cdef int code = float_code(name, x)
    cdef Py_ssize_t n = x.shape[0], classes = x.shape[1]
    if n and not classes:
        raise IndexRangeError(f"{name}: there are no classes that {n} labels could name, got shape {x.shape}; give x at least one column")
    target, x = labels(name, target, classes, 0), packed(x)                 # 0 is a class
    if weight is not None:
        same_type(name, x, weight)
        weight = packed(weight)
    if g is not None:
        same_type(name, x, g)
        g = packed(g)
    cdef TensorBase out = empty_host((n,) if g is None else x.shape, x.dtype)
    cdef const int64_t* wanted = <const int64_t*>address(target)
    cdef void* w = NULL if weight is None else address(weight)
    cdef void* slope = NULL if g is None else address(g)
    if code == FLOAT32:
        margins(<const float*>slope, <const float*>address(x), wanted, <const float*>w, n, classes, <float>margin, p == 2,
                <float*>address(out))
    else:
        margins(<const double*>slope, <const double*>address(x), wanted, <const double*>w, n, classes, margin, p == 2,
                <double*>address(out))
    return out


def multi_margin(TensorBase x not None, TensorBase target not None, TensorBase weight, int p, double margin):
    """Per row the sum over all classes but the label of max(0, margin - x[label] + x)**p, times the label's weight over the classes."""
    return margins_of("multi_margin", None, x, target, weight, p, margin)


def multi_margin_grad(TensorBase g not None, TensorBase x not None, TensorBase target not None, TensorBase weight, int p, double margin):
    """The gradient of x."""
    return margins_of("multi_margin_grad", g, x, target, weight, p, margin)


KERNELS = {
    "nll": nll, "nll_grad": nll_grad, "cross_entropy": cross_entropy, "cross_entropy_softmax": cross_entropy_softmax,
    "cross_entropy_grad": cross_entropy_grad, "multi_margin": multi_margin, "multi_margin_grad": multi_margin_grad,
}
