# Batch normalisation, its gradient, and the update of its running statistics.
#
# Layout: x seen as [n, channels, pixels], contiguous. With pixels == 1 (rank 2) a channel is a column, and blocks of rows are
#   worked in strips of columns; else a channel is n runs of memory.
# Sums: float32 lanes over short blocks, added in double; the variance is a second pass over (x - mean), of columns in each
#   block of rows, while it lies in a cache.
# Threads: over channels, or blocks of rows: of columns, each would fetch ahead what the other one writes. Blocks follow from
#   the sizes. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport sqrt

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, empty_host_like, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sums cimport line_away, line_dot, line_squares, line_sum
from volta._kernels.core.views cimport float_code, pointer, split_at


# ---------------------------------------------------------------- one channel

cdef double plain_mean(const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t width) noexcept nogil:
    """The mean of n runs, without a start, from which some may be further than the element type holds."""
    cdef Py_ssize_t i, j
    cdef double total = 0
    for i in range(n):
        for j in range(width):
            total += x[i * stride + j]
    return total / <double>(n * width)


cdef void statistics(const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t pixels, double eps, real* mean,
                     real* rstd) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0, count = <double>(n * pixels)
    cdef real pivot = x[0] if n * pixels and x[0] - x[0] == 0 else 0       # the mean beside infinity is infinity, not NaN
    for i in range(n):
        total += line_away(x + i * stride, pivot, pixels)
    mean[0] = <real>(pivot + total / count)
    if mean[0] - mean[0] != 0:
        mean[0] = <real>plain_mean(x, n, stride, pixels)
    total = 0
    for i in range(n):
        total += line_squares(x + i * stride, mean[0], pixels)
    rstd[0] = <real>(1.0 / sqrt(total / count + eps))


cdef inline real centre(real mean, real rstd) noexcept nogil:
    """What is subtracted: nothing where a variance beyond the element type leaves nothing, and the difference may be beyond it, too."""
    return 0 if rstd == 0 and mean - mean == 0 else mean


cdef void normalize(const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t pixels, real mean, real scale,
                    real shift, real* out) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(i * stride, i * stride + pixels):
            out[j] = (x[j] - mean) * scale + shift


cdef void channel_grad(const real* g, const real* x, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t pixels, real mean,
                       real rstd, real weight, bint given, real* dx, real* dweight, real* dbias) noexcept nogil:
    """IN: given, that the statistics are not x's."""
    cdef Py_ssize_t i, j
    cdef double total = 0, product = 0, count = <double>(n * pixels)
    for i in range(n):
        total += line_sum(g + i * stride, pixels)
        product += line_dot(g + i * stride, x + i * stride, mean, pixels)
    dbias[0] = <real>total
    dweight[0] = <real>(product * rstd)
    cdef real a = weight * rstd, b = <real>(total / count), c = <real>(product * rstd * rstd / count)
    for i in range(n):
        for j in range(i * stride, i * stride + pixels if given else 0):
            dx[j] = a * g[j]
    for i in range(0 if given else n):
        for j in range(i * stride, i * stride + pixels):
            dx[j] = a * (g[j] - b - (x[j] - mean) * c)


# ---------------------------------------------------------------- columns

cdef inline void add_beyond(const real* x, const real* start, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns, bint squares,
                            double* out) noexcept nogil:
    """out += sums of x - start, or of its squares, over some rows of neighbouring channels."""
    cdef real few[COLUMNS]
    cdef real d
    cdef Py_ssize_t i, j, k, stop = 0
    while stop < n:
        i, stop = stop, min(stop + <Py_ssize_t>SHORT, n)
        for j in range(columns):
            few[j] = 0
        for k in range(i, stop):
            for j in range(columns):
                d = x[k * stride + j] - start[j]
                few[j] += d * d if squares else d
        for j in range(columns):
            out[j] += few[j]


cdef void block_moments(const real* x, const real* origin, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns,
                        double* mean, double* away) noexcept nogil:
    """Means of some rows, and sums of squares beside them, of neighbouring channels. IN: origin, the first row of all: sums are of what is
    beyond it, so that means far from 0 cost no digits."""
    cdef real start[COLUMNS]
    cdef Py_ssize_t j
    cdef double beyond = 0
    for j in range(columns):                    # the mean beside infinity is infinity, not NaN
        mean[j], away[j], start[j] = 0, 0, origin[j] if origin[j] - origin[j] == 0 else 0
    add_beyond(x, start, n, stride, columns, False, mean)
    for j in range(columns):
        mean[j] = start[j] + mean[j] / <double>n
        beyond += mean[j] - mean[j]
    for j in range(columns if beyond != 0 else 0):
        if mean[j] - mean[j] != 0:
            mean[j] = plain_mean(x + j, n, stride, 1)
    for j in range(columns):
        start[j] = <real>mean[j]
    add_beyond(x, start, n, stride, columns, True, away)


cdef void block_sums(const real* g, const real* x, const real* mean, Py_ssize_t n, Py_ssize_t stride, Py_ssize_t columns,
                     double* total, double* product) noexcept nogil:
    """Sums of the gradients of some rows, and of their products with x - mean, of neighbouring channels."""
    cdef real b[COLUMNS]
    cdef real c[COLUMNS]
    cdef real m[COLUMNS]
    cdef Py_ssize_t i, j, k, stop = 0
    for j in range(columns):
        total[j], product[j], m[j] = 0, 0, mean[j]
    while stop < n:
        i, stop = stop, min(stop + <Py_ssize_t>SHORT, n)
        for j in range(columns):
            b[j] = c[j] = 0
        for k in range(i, stop):
            for j in range(columns):
                b[j] += g[k * stride + j]
                c[j] += g[k * stride + j] * (x[k * stride + j] - m[j])
        for j in range(columns):
            total[j] += b[j]
            product[j] += c[j]


cdef void join_moments(const double* means, const double* away, Py_ssize_t n, Py_ssize_t blocks, Py_ssize_t channels, Py_ssize_t first,
                       Py_ssize_t last, double eps, real* mean, real* rstd) noexcept nogil:
    """The statistics of channels first .. last, of those of all blocks."""
    cdef Py_ssize_t b, c, rows
    cdef double total[COLUMNS]
    for c in range(first, last):
        total[c - first] = 0
    for b in range(blocks):
        rows = n * (b + 1) // blocks - n * b // blocks
        for c in range(first, last):
            total[c - first] += means[b * channels + c] * rows
    for c in range(first, last):
        mean[c] = <real>(total[c - first] / <double>n)
        total[c - first] = 0
    for b in range(blocks):
        rows = n * (b + 1) // blocks - n * b // blocks
        for c in range(first, last):
            total[c - first] += away[b * channels + c] + (means[b * channels + c] - mean[c]) * (means[b * channels + c] - mean[c]) * rows
    for c in range(first, last):
        rstd[c] = <real>(1.0 / sqrt(total[c - first] / <double>n + eps))


cdef void forward_columns(const real* x, const real* weight, const real* bias, double eps, Py_ssize_t n, Py_ssize_t channels, real* out,
                          real* mean, real* rstd, double* moments, real* factors) noexcept nogil:
    """Rank-2 input. IN: moments, room for two of each channel and block; factors, for three of each channel."""
    cdef Py_ssize_t blocks = blocks_of(n), strips = (channels + COLUMNS - 1) // COLUMNS, item, row, c
    cdef int threads = threads_for(n * channels), t
    for item in prange(blocks * strips, num_threads=threads, schedule="static"):
        row, c = n * (item // strips) // blocks, item % strips * COLUMNS
        block_moments(x + row * channels + c, x + c, n * (item // strips + 1) // blocks - row, channels,
                      min(<Py_ssize_t>COLUMNS, channels - c), moments + item // strips * channels + c,
                      moments + (blocks + item // strips) * channels + c)
    for item in range(strips):
        join_moments(moments, moments + blocks * channels, n, blocks, channels, item * COLUMNS,
                     min(channels, (item + 1) * <Py_ssize_t>COLUMNS), eps, mean, rstd)
    for c in range(channels):
        factors[c] = rstd[c] * weight[c] if weight != NULL else rstd[c]
        factors[channels + c] = bias[c] if bias != NULL else <real>0
        factors[2 * channels + c] = centre(mean[c], rstd[c])
    for t in prange(threads, num_threads=threads, schedule="static"):
        given_items(x, <const real*>factors + 2 * channels, <const real*>factors, <const real*>factors + channels, channels, 1,
                    n * channels * t // threads, n * channels * (t + 1) // threads, out)


cdef void rows_grad(const real* g, const real* x, const real* mean, const real* factors, bint given, Py_ssize_t channels, Py_ssize_t first,
                    Py_ssize_t last, real* dx) noexcept nogil:
    """Rows first .. last. IN: factors[3][channels]: dx = a * (g - b - (x - mean) * c), or where the statistics are not x's, a * g."""
    cdef Py_ssize_t i, j, at
    cdef const real* b = factors + channels
    cdef const real* c = b + channels
    for i in range(first, last):
        at = i * channels
        if given:
            for j in range(channels):
                dx[at + j] = factors[j] * g[at + j]
        else:
            for j in range(channels):
                dx[at + j] = factors[j] * (g[at + j] - b[j] - (x[at + j] - mean[j]) * c[j])


cdef void grad_columns(const real* g, const real* x, const real* weight, const real* mean, const real* rstd, bint given, Py_ssize_t n,
                       Py_ssize_t channels, real* dx, real* dweight, real* dbias, double* sums, real* factors) noexcept nogil:
    """Rank-2 input. IN: sums, room for two of each channel and block; factors, for three of each channel."""
    cdef Py_ssize_t blocks = blocks_of(n), strips = (channels + COLUMNS - 1) // COLUMNS, item, row, c, b
    cdef int threads = threads_for(n * channels * 2), t
    cdef double* products = sums + blocks * channels
    for item in prange(blocks * strips, num_threads=threads, schedule="static"):
        row, c = n * (item // strips) // blocks, item % strips * COLUMNS
        block_sums(g + row * channels + c, x + row * channels + c, mean + c, n * (item // strips + 1) // blocks - row, channels,
                   min(<Py_ssize_t>COLUMNS, channels - c), sums + item // strips * channels + c, products + item // strips * channels + c)
    for b in range(1, blocks):
        for c in range(channels):
            sums[c] += sums[b * channels + c]
            products[c] += products[b * channels + c]
    for c in range(channels):
        dbias[c] = <real>sums[c]
        dweight[c] = <real>(products[c] * rstd[c])
        factors[c] = rstd[c] * (weight[c] if weight != NULL else 1)
        factors[channels + c] = <real>(sums[c] / <double>n)
        factors[2 * channels + c] = <real>(products[c] * rstd[c] * rstd[c] / <double>n)
    for t in prange(threads, num_threads=threads, schedule="static"):
        rows_grad(g, x, mean, <const real*>factors, given, channels, n * t // threads, n * (t + 1) // threads, dx)


# ---------------------------------------------------------------- all channels

cdef void forward_items(const real* x, const real* weight, const real* bias, double eps, Py_ssize_t n,
                        Py_ssize_t channels,
                        Py_ssize_t pixels, Py_ssize_t first, Py_ssize_t last, real* out, real* mean,
                        real* rstd) noexcept nogil:
    """Channels first .. last."""
    cdef Py_ssize_t c, stride = channels * pixels
    for c in range(first, last):
        statistics(x + c * pixels, n, stride, pixels, eps, mean + c, rstd + c)
        normalize(x + c * pixels, n, stride, pixels, centre(mean[c], rstd[c]),
                  rstd[c] * weight[c] if weight != NULL else rstd[c], bias[c] if bias != NULL else <real>0,
                  out + c * pixels)


cdef void forward(const real* x, const real* weight, const real* bias, double eps, Py_ssize_t n, Py_ssize_t channels,
                  Py_ssize_t pixels, real* out, real* mean, real* rstd):
    """Allocates."""
    cdef int threads = threads_for(n * channels * pixels), t
    cdef Storage room
    cdef double* moments
    if pixels == 1 and n * channels > 0:
        room = host_storage(channels * (2 * blocks_of(n) * sizeof(double) + 3 * sizeof(real)))
        moments = <double*>room.data
        with nogil:
            forward_columns(x, weight, bias, eps, n, channels, out, mean, rstd, moments, <real*>(moments + 2 * channels * blocks_of(n)))
        return
    for t in prange(threads, num_threads=threads, schedule="static", nogil=True):
        forward_items(x, weight, bias, eps, n, channels, pixels, channels * t // threads, channels * (t + 1) // threads,
                      out, mean, rstd)


cdef void given_items(const real* x, const real* mean, const real* scale, const real* bias, Py_ssize_t channels, Py_ssize_t pixels,
                      Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    """Planes first .. last, of one channel each."""
    cdef Py_ssize_t i = first if pixels else last, c, j
    while i < last:
        c = i % channels
        if pixels > 1:
            normalize(x + i * pixels, 1, 0, pixels, mean[c], scale[c], bias[c], out + i * pixels)
            i += 1
        else:
            for j in range(min(channels - c, last - i)):
                out[i + j] = (x[i + j] - mean[c + j]) * scale[c + j] + bias[c + j]
            i += channels - c


cdef void given(const real* x, const real* mean, const real* var, const real* weight, const real* bias, double eps, Py_ssize_t planes,
                Py_ssize_t channels, Py_ssize_t pixels, real* factors, real* out) noexcept nogil:
    """IN: factors, room for three times the channels."""
    cdef int threads = threads_for(planes * pixels), t
    cdef Py_ssize_t c
    for c in range(channels):
        factors[c] = <real>(1.0 / sqrt(var[c] + eps)) * (weight[c] if weight != NULL else <real>1)
        factors[channels + c] = bias[c] if bias != NULL else <real>0
        factors[2 * channels + c] = mean[c] if mean != NULL else <real>0
    for t in prange(threads, num_threads=threads, schedule="static"):
        given_items(x, factors + 2 * channels, factors, factors + channels, channels, pixels, planes * t // threads,
                    planes * (t + 1) // threads, out)


cdef void grad_items(const real* g, const real* x, const real* weight, const real* mean, const real* rstd, bint given, Py_ssize_t n,
                     Py_ssize_t channels, Py_ssize_t pixels, Py_ssize_t first, Py_ssize_t last, real* dx, real* dweight,
                     real* dbias) noexcept nogil:
    cdef Py_ssize_t c, at
    for c in range(first, last):
        at = c * pixels
        channel_grad(g + at, x + at, n, channels * pixels, pixels, mean[c], rstd[c], weight[c] if weight != NULL else <real>1,
                     given, dx + at, dweight + c, dbias + c)


cdef void grad(const real* g, const real* x, const real* weight, const real* mean, const real* rstd, bint given, Py_ssize_t n,
               Py_ssize_t channels, Py_ssize_t pixels, real* dx, real* dweight, real* dbias):
    """Allocates."""
    cdef int threads = threads_for(n * channels * pixels * 2), t
    cdef Storage room
    cdef double* sums
    if pixels == 1 and n * channels > 0:
        room = host_storage(channels * (2 * blocks_of(n) * sizeof(double) + 3 * sizeof(real)))
        sums = <double*>room.data
        with nogil:
            grad_columns(g, x, weight, mean, rstd, given, n, channels, dx, dweight, dbias, sums,
                         <real*>(sums + 2 * channels * blocks_of(n)))
        return
    for t in prange(threads, num_threads=threads, schedule="static", nogil=True):
        grad_items(g, x, weight, mean, rstd, given, n, channels, pixels, channels * t // threads, channels * (t + 1) // threads,
                   dx, dweight, dbias)


# ---------------------------------------------------------------- tensors

def batch_norm(TensorBase x not None, TensorBase weight, TensorBase bias, double eps):
    """(x - mean) * rstd * weight + bias for each channel of x[N, C, ...], where rstd = 1 / sqrt(variance + eps)."""
    cdef int code = float_code("batch_norm", x, weight, bias)
    cdef Py_ssize_t n = 0, channels = 0, pixels = 0
    split_at(x.shape, 1, &n, &channels, &pixels)
    x, weight, bias = packed(x), packed(weight), packed(bias)
    cdef TensorBase out = empty_host_like(x, x.dtype)
    cdef TensorBase mean = empty_host((channels,), x.dtype), rstd = empty_host((channels,), x.dtype)
    if code == FLOAT32:
        forward(<const float*>address(x), <const float*>pointer(weight), <const float*>pointer(bias), eps, n, channels,
                pixels, <float*>address(out), <float*>address(mean), <float*>address(rstd))
    else:
        forward(<const double*>address(x), <const double*>pointer(weight), <const double*>pointer(bias), eps, n,
                channels, pixels, <double*>address(out), <double*>address(mean), <double*>address(rstd))
    return out, mean, rstd


def batch_norm_given(TensorBase x not None, TensorBase mean, TensorBase var not None, TensorBase weight, TensorBase bias,
                     double eps):
    """(x - mean) / sqrt(var + eps) * weight + bias for each channel of x[N, C, ...]; a mean that is None is 0."""
    cdef int code = float_code("batch_norm_given", x, mean, var, weight, bias)
    cdef Py_ssize_t n = 0, channels = 0, pixels = 0
    split_at(x.shape, 1, &n, &channels, &pixels)
    x, mean, var, weight, bias = packed(x), packed(mean), packed(var), packed(weight), packed(bias)
    cdef TensorBase out = empty_host_like(x, x.dtype), factors = empty_host((3 * channels,), x.dtype)
    if code == FLOAT32:
        given(<const float*>address(x), <const float*>pointer(mean), <const float*>address(var), <const float*>pointer(weight),
              <const float*>pointer(bias), eps, n * channels, channels, pixels, <float*>address(factors), <float*>address(out))
    else:
        given(<const double*>address(x), <const double*>pointer(mean), <const double*>address(var), <const double*>pointer(weight),
              <const double*>pointer(bias), eps, n * channels, channels, pixels, <double*>address(factors), <double*>address(out))
    return out


def batch_norm_grad(TensorBase g not None, TensorBase x not None, TensorBase weight, TensorBase mean not None,
                    TensorBase rstd not None):
    """Gradients of batch_norm with respect to x, weight and bias."""
    return gradients("batch_norm_grad", g, x, weight, mean, rstd, False)


cdef void inverse_roots(const real* var, Py_ssize_t n, double eps, real* rstd) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        rstd[i] = <real>(1.0 / sqrt(var[i] + eps))


def batch_norm_given_grad(TensorBase g not None, TensorBase x not None, TensorBase weight, TensorBase mean not None,
                          TensorBase var not None, double eps):
    """Gradients of batch_norm_given with respect to x, weight and bias."""
    cdef int code = float_code("batch_norm_given_grad", g, x, mean, var, weight)
    cdef TensorBase rstd = empty_host(var.shape, var.dtype)
    var = packed(var)
    if code == FLOAT32:
        inverse_roots(<const float*>address(var), var.size, eps, <float*>address(rstd))
    else:
        inverse_roots(<const double*>address(var), var.size, eps, <double*>address(rstd))
    return gradients("batch_norm_given_grad", g, x, weight, mean, rstd, True)


cdef tuple gradients(str name, TensorBase g, TensorBase x, TensorBase weight, TensorBase mean, TensorBase rstd, bint given):
    cdef int code = float_code(name, g, x, weight, mean, rstd)
    cdef Py_ssize_t n = 0, channels = 0, pixels = 0
    split_at(x.shape, 1, &n, &channels, &pixels)
    g, x, weight, mean, rstd = packed(g), packed(x), packed(weight), packed(mean), packed(rstd)
    cdef TensorBase dx = empty_host_like(x, x.dtype)
    cdef TensorBase dweight = empty_host((channels,), x.dtype), dbias = empty_host((channels,), x.dtype)
    if code == FLOAT32:
        grad(<const float*>address(g), <const float*>address(x), <const float*>pointer(weight),
             <const float*>address(mean), <const float*>address(rstd), given, n, channels, pixels, <float*>address(dx),
             <float*>address(dweight), <float*>address(dbias))
    else:
        grad(<const double*>address(g), <const double*>address(x), <const double*>pointer(weight),
             <const double*>address(mean), <const double*>address(rstd), given, n, channels, pixels, <double*>address(dx),
             <double*>address(dweight), <double*>address(dbias))
    return dx, dweight, dbias


cdef void update(real* running_mean, Py_ssize_t mean_stride, real* running_var, Py_ssize_t var_stride, const real* mean,
                 const real* rstd, Py_ssize_t n, double momentum, double eps, double unbiased) noexcept nogil:
    cdef Py_ssize_t c
    cdef double variance
    for c in range(n):
        variance = 1.0 / (<double>rstd[c] * rstd[c]) - eps
        variance = (0.0 if variance < 0 else variance) * unbiased
        running_mean[c * mean_stride] = <real>((1 - momentum) * running_mean[c * mean_stride] + momentum * mean[c])
        running_var[c * var_stride] = <real>((1 - momentum) * running_var[c * var_stride] + momentum * variance)


def batch_norm_update(TensorBase running_mean not None, TensorBase running_var not None, TensorBase mean not None,
                      TensorBase rstd not None, double momentum, double eps, Py_ssize_t count):
    """Move the running statistics towards those of a batch of `count` values a channel, in place."""
    cdef int code = float_code("batch_norm_update", running_mean, running_var, mean, rstd)
    cdef Py_ssize_t a = running_mean._strides[0], b = running_var._strides[0], n = mean.size
    cdef double unbiased = <double>count / <double>max(count - 1, 1)
    mean, rstd = packed(mean), packed(rstd)
    if code == FLOAT32:
        update(<float*>address(running_mean), a, <float*>address(running_var), b, <const float*>address(mean),
               <const float*>address(rstd), n, momentum, eps, unbiased)
    else:
        update(<double*>address(running_mean), a, <double*>address(running_var), b, <const double*>address(mean),
               <const double*>address(rstd), n, momentum, eps, unbiased)


KERNELS = {"batch_norm": batch_norm, "batch_norm_given": batch_norm_given, "batch_norm_grad": batch_norm_grad,
           "batch_norm_given_grad": batch_norm_given_grad,
           "batch_norm_update": batch_norm_update}
