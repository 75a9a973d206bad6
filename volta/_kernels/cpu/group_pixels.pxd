# Normalisation of groups of channels of images that lie with the channels of each pixel together, and its gradient.
#
# Layout: x [samples][pixels][channels]. Factors of each channel of a sample are vectors, so that a pixel is one line.
# Sums: those of each channel in blocks of pixels (norm.pxd), joined in double.
# Threads: over blocks, which follow from the sizes, and where elements are written over pixels. Sizes: checked in `grouped_pixels`.

from cython.parallel cimport prange
from libc.math cimport sqrt

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, empty_host_like, host_storage
from volta._kernels.core.order cimport pixelwise
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport pointer
from volta._kernels.cpu.copy cimport copy_data
from volta._kernels.cpu.norm cimport COLUMNS, block_moments, block_sums, blocks_of
from volta._kernels.cpu.pixels cimport from_rows, pixel_rows
from volta._kernels.cpu.real cimport real

cdef enum:
    LEAST = 8                   # channels from which on lines of them pay

cdef struct Grouped:
    Py_ssize_t samples, pixels, channels, groups, blocks, strips
    double eps


cdef inline TensorBase grouped_pixels(Grouped* p, TensorBase x, Py_ssize_t length, Py_ssize_t groups, Py_ssize_t inner, double eps):
    """x as rows of channels, if it lies so and its groups are of channels; else None. OUT: p."""
    if inner == 1 or groups == 0 or not pixelwise(x):
        return None
    p.samples, p.channels, p.groups, p.eps = x.shape[0], x.shape[1], groups, eps
    p.pixels = x.size // (p.samples * p.channels) if x.size else 0
    if p.channels < LEAST or inner != p.pixels or p.channels % groups or length != p.channels // groups * inner:
        return None
    p.blocks, p.strips = blocks_of(p.pixels), (p.channels + COLUMNS - 1) // COLUMNS
    return pixel_rows(x)


cdef inline void join_groups(const Grouped* p, Py_ssize_t sample, const double* means, const double* away, const real* weight,
                             const real* bias, real* mean, real* rstd, real* factors) noexcept nogil:
    """Statistics of the groups of a sample, from those of its channels in blocks. OUT: factors[3][channels]: mean, scale, shift."""
    cdef Py_ssize_t channels = p.channels // p.groups, g, b, c, rows
    cdef double total, count = <double>(channels * p.pixels)
    for g in range(p.groups):
        total = 0
        for b in range(p.blocks):
            rows = p.pixels * (b + 1) // p.blocks - p.pixels * b // p.blocks
            for c in range(g * channels, (g + 1) * channels):
                total += means[b * p.channels + c] * rows
        mean[g] = <real>(total / count)
        total = 0
        for b in range(p.blocks):
            rows = p.pixels * (b + 1) // p.blocks - p.pixels * b // p.blocks
            for c in range(g * channels, (g + 1) * channels):
                total += away[b * p.channels + c] + (means[b * p.channels + c] - mean[g]) * (means[b * p.channels + c] - mean[g]) * rows
        rstd[g] = <real>(1.0 / sqrt(total / count + p.eps))
        for c in range(g * channels, (g + 1) * channels):
            factors[c], factors[p.channels + c], factors[2 * p.channels + c] = mean[g], rstd[g] * weight[c], bias[c]


cdef inline void scale_pixels(const Grouped* p, const real* x, const real* factors, Py_ssize_t first, Py_ssize_t last,
                              real* out) noexcept nogil:
    """Pixels first .. last of all samples."""
    cdef Py_ssize_t i, j, n = p.channels
    cdef const real* mean
    for i in range(first, last):
        mean = factors + i // p.pixels * 3 * n
        for j in range(n):
            out[i * n + j] = (x[i * n + j] - mean[j]) * mean[n + j] + mean[2 * n + j]


cdef inline void forward_pixels(const Grouped* p, const real* x, const real* weight, const real* bias, real* out, real* mean, real* rstd,
                                double* moments, real* factors) noexcept:
    """IN: moments, room for two of each channel, block and sample; factors, for three of each channel and sample."""
    cdef Py_ssize_t n = p.channels, size = p.blocks * n, rows = p.samples * p.pixels, item, part, sample, b, row, c
    cdef int threads = threads_for(2 * rows * n), t
    with nogil:
        for item in prange(p.samples * p.blocks * p.strips, num_threads=threads, schedule="static"):
            part, c = item // p.strips, item % p.strips * COLUMNS
            sample, b = part // p.blocks, part % p.blocks
            row = p.pixels * b // p.blocks
            block_moments(x + (sample * p.pixels + row) * n + c, x + sample * p.pixels * n + c, p.pixels * (b + 1) // p.blocks - row, n,
                          min(<Py_ssize_t>COLUMNS, n - c), moments + 2 * sample * size + b * n + c,
                          moments + (2 * sample + 1) * size + b * n + c)
        for sample in range(p.samples):
            join_groups(p, sample, moments + 2 * sample * size, moments + (2 * sample + 1) * size, weight, bias, mean + sample * p.groups,
                        rstd + sample * p.groups, factors + 3 * sample * n)
        for t in prange(threads, num_threads=threads, schedule="static"):
            scale_pixels(p, x, <const real*>factors, rows * t // threads, rows * (t + 1) // threads, out)


cdef inline void grad_pixels(const Grouped* p, const real* g, const real* x, const real* arrived, const real* factors, Py_ssize_t first,
                             Py_ssize_t last, real* dx) noexcept nogil:
    """Pixels first .. last of all samples."""
    cdef Py_ssize_t i, j, n = p.channels
    cdef const real* mean
    for i in range(first, last):
        mean = factors + i // p.pixels * 4 * n
        for j in range(n):
            dx[i * n + j] = g[i * n + j] * mean[n + j] - mean[2 * n + j] - (x[i * n + j] - mean[j]) * mean[3 * n + j]
        if arrived != NULL:
            for j in range(n):
                dx[i * n + j] += arrived[i * n + j]


cdef inline void slopes_of_groups(const Grouped* p, double* sums, double* products, const real* weight, const real* mean, const real* rstd,
                                  real* factors) noexcept nogil:
    """Of one sample. OUT: factors[3][channels], by which dx = g * scale - level - (x - mean) * tilt; sums and products, those of whole
    channels, of g and of g times the normalised x, in place of those of the first block."""
    cdef Py_ssize_t channels = p.channels // p.groups, n = p.channels, g, b, c
    cdef double level, tilt, count = <double>(channels * p.pixels)
    for b in range(1, p.blocks):
        for c in range(n):
            sums[c] += sums[b * n + c]
            products[c] += products[b * n + c]
    for g in range(p.groups):
        level = tilt = 0
        for c in range(g * channels, (g + 1) * channels):
            products[c] *= rstd[g]
            level += sums[c] * weight[c]
            tilt += products[c] * weight[c]
        for c in range(g * channels, (g + 1) * channels):
            factors[c] = rstd[g] * weight[c]
            factors[n + c] = <real>(rstd[g] * level / count)
            factors[2 * n + c] = <real>(rstd[g] * tilt * rstd[g] / count)


cdef inline void backward_pixels(const Grouped* p, const real* g, const real* x, const real* weight, const real* mean, const real* rstd,
                                 const real* arrived, bint wanted, real* dx, real* dweight, real* dbias, double* sums,
                                 real* factors) noexcept:
    """IN: sums, room for two of each channel, block and sample; factors, for four of each channel and sample; wanted: dweight and dbias."""
    cdef Py_ssize_t n = p.channels, size = p.blocks * n, rows = p.samples * p.pixels, item, part, sample, b, row, c
    cdef int threads = threads_for(4 * rows * n), t
    with nogil:
        for sample in range(p.samples):
            for c in range(n):
                factors[4 * sample * n + c] = mean[sample * p.groups + c // (n // p.groups)]
        for item in prange(p.samples * p.blocks * p.strips, num_threads=threads, schedule="static"):
            part, c = item // p.strips, item % p.strips * COLUMNS
            sample, b = part // p.blocks, part % p.blocks
            row = sample * p.pixels + p.pixels * b // p.blocks
            block_sums(g + row * n + c, x + row * n + c, <const real*>factors + 4 * sample * n + c,
                       sample * p.pixels + p.pixels * (b + 1) // p.blocks - row, n, min(<Py_ssize_t>COLUMNS, n - c),
                       sums + 2 * sample * size + b * n + c, sums + (2 * sample + 1) * size + b * n + c)
        for sample in range(p.samples):
            slopes_of_groups(p, sums + 2 * sample * size, sums + (2 * sample + 1) * size, weight, mean + sample * p.groups,
                             rstd + sample * p.groups, factors + (4 * sample + 1) * n)
        for t in prange(threads, num_threads=threads, schedule="static"):
            grad_pixels(p, g, x, arrived, <const real*>factors, rows * t // threads, rows * (t + 1) // threads, dx)
        for c in range(n if wanted else 0):
            for sample in range(1, p.samples):
                sums[c] += sums[2 * sample * size + c]
                sums[size + c] += sums[(2 * sample + 1) * size + c]
            dbias[c], dweight[c] = <real>sums[c], <real>sums[size + c]


cdef inline Storage room_for(const Grouped* p, Py_ssize_t factors):
    """Work space: two numbers in double of each channel, block and sample, then so many factors of each channel and sample."""
    return host_storage(p.samples * p.channels * (2 * p.blocks + factors) * sizeof(double))


cdef inline tuple normalised_pixels(const Grouped* p, TensorBase x, TensorBase rows, TensorBase weight, TensorBase bias):
    """(out, mean, rstd). IN: rows, those of x; weight and bias contiguous."""
    cdef TensorBase out = empty_host_like(rows, rows.dtype), mean = empty_host((p.samples * p.groups,), rows.dtype)
    cdef TensorBase rstd = empty_host_like(mean, mean.dtype)
    cdef Storage room = room_for(p, 3)
    cdef double* moments = <double*>room.data
    cdef void* factors = moments + 2 * p.samples * p.blocks * p.channels
    if rows.dtype.code == FLOAT32:
        forward_pixels(p, <const float*>address(rows), <const float*>address(weight), <const float*>address(bias), <float*>address(out),
                       <float*>address(mean), <float*>address(rstd), moments, <float*>factors)
    else:
        forward_pixels(p, <const double*>address(rows), <const double*>address(weight), <const double*>address(bias),
                       <double*>address(out), <double*>address(mean), <double*>address(rstd), moments, <double*>factors)
    return from_rows(out, x.shape), mean, rstd


cdef inline TensorBase rows_like(TensorBase x):
    """Images as rows of channels, copied unless they lie so."""
    cdef TensorBase rows = pixel_rows(x)
    if rows is None:
        rows = empty_host((x.size // <Py_ssize_t>x.shape[1], x.shape[1]), x.dtype)
        copy_data(from_rows(rows, x.shape), x)
    return rows


cdef inline tuple gradients_by_pixels(const Grouped* p, TensorBase g, TensorBase rows, TensorBase x, TensorBase weight, TensorBase mean,
                                      TensorBase rstd, TensorBase arrived, bint wanted):
    """(dx, dweight, dbias), these empty unless `wanted`. IN: rows, those of g; weight, mean and rstd contiguous."""
    cdef TensorBase dx = empty_host_like(rows, rows.dtype), dweight = empty_host((p.channels if wanted else 0,), rows.dtype)
    cdef TensorBase dbias = empty_host_like(dweight, rows.dtype)
    cdef Storage room = room_for(p, 4)
    cdef double* sums = <double*>room.data
    cdef void* factors = sums + 2 * p.samples * p.blocks * p.channels
    x = rows_like(x)
    if arrived is not None:
        arrived = rows_like(arrived)
    if rows.dtype.code == FLOAT32:
        backward_pixels(p, <const float*>address(rows), <const float*>address(x), <const float*>address(weight),
                        <const float*>address(mean), <const float*>address(rstd), <const float*>pointer(arrived), wanted,
                        <float*>address(dx), <float*>address(dweight), <float*>address(dbias), sums, <float*>factors)
    else:
        backward_pixels(p, <const double*>address(rows), <const double*>address(x), <const double*>address(weight),
                        <const double*>address(mean), <const double*>address(rstd), <const double*>pointer(arrived), wanted,
                        <double*>address(dx), <double*>address(dweight), <double*>address(dbias), sums, <double*>factors)
    return from_rows(dx, g.shape), dweight, dbias
