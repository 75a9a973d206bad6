# 2-D convolution and its two gradients: im2col, a packed matrix product in register tiles, col2im.
#
# Layout: x[N, C, H, W], weight[O, C / groups, kh, kw], out[N, O, oh, ow], all made contiguous here.
# Threads: over chunks of output pixels (forward, gradient of the input) and over blocks of the weight and slices of the batch
#   (gradient of the weight). Every sum has an order that depends on sizes only.
# Sizes: the front end has checked them; `out` sizes are computed here.
# The product is not NumPy's: im2col of a panel goes from the L1 cache straight into the tile, which is worth a factor of two.

from cython.parallel cimport prange
from libc.string cimport memset

from volta._kernels.conv_plan cimport (
    Plan, Run, band_size, ceil_div, choose_chunk, fill_tables, form_line, load_band, set_chunk)
from volta._kernels.core cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.cpu cimport threads_for
from volta._kernels.tile cimport TILE_ROWS, inner, lanes, outer, real, zero_run
from volta._kernels.views cimport float_code, packed

cdef enum:
    MOST_TAPS = 384             # rows of im2col that one pass over a panel takes
    LARGEST_TILE = 8 * 3 * 16   # elements of a register tile
    FLOPS_PER_ELEMENT = 16      # multiply-adds that take as long as one element of a cheap loop


# ---------------------------------------------------------------- shared

cdef void set_geometry(Plan* p, tuple shape, Py_ssize_t channels, Py_ssize_t out_channels, tuple kernel, tuple stride,
                       tuple padding, tuple dilation, Py_ssize_t groups):
    """Sizes of a convolution of x with `shape`. IN: channels and out_channels of one group."""
    p.n, p.groups, p.c, p.o = shape[0], groups, channels, out_channels
    p.h, p.w = shape[2], shape[3]
    p.kh, p.kw = kernel
    p.sh, p.sw = stride
    p.ph, p.pw = padding
    p.dh, p.dw = dilation
    p.oh = (p.h + 2 * p.ph - p.dh * (p.kh - 1) - 1) // p.sh + 1
    p.ow = (p.w + 2 * p.pw - p.dw * (p.kw - 1) - 1) // p.sw + 1


cdef Storage make_tables(Plan* p, Py_ssize_t channels):
    """Allocate and fill the tables of a plan; they live as long as the storage."""
    cdef Py_ssize_t taps = channels * p.kh * p.kw, most_runs = p.columns // p.ow + p.panels + 1
    cdef Py_ssize_t tables = taps * sizeof(Py_ssize_t) + most_runs * sizeof(Run)
    cdef Storage storage = host_storage(tables + (p.columns + p.panels + 2) * sizeof(int))
    p.taps = <Py_ssize_t*>storage.data
    p.runs = <Run*>(p.taps + taps)
    p.offsets = <int*>(p.runs + most_runs)
    p.panel_runs = p.offsets + p.columns
    fill_tables(p, channels)
    return storage


cdef int threads_of(Plan* p) noexcept nogil:
    cdef Py_ssize_t work = p.n * p.groups * p.o * p.oh * p.ow * p.c * p.kh * p.kw
    return threads_for(work // FLOPS_PER_ELEMENT)


cdef void pack_rows(const real* a, Py_ssize_t rows, Py_ssize_t depth, Py_ssize_t block, real* out) noexcept nogil:
    """a[rows][depth] as [block of depth][tile of rows][depth][TILE_ROWS], rows filled up with zeros."""
    cdef Py_ssize_t k0 = 0, k, tile, r, row, kc
    while k0 < depth:
        kc = min(block, depth - k0)
        for tile in range(ceil_div(rows, TILE_ROWS)):
            for r in range(TILE_ROWS):
                row = tile * TILE_ROWS + r
                for k in range(kc):
                    out[k * TILE_ROWS + r] = a[row * depth + k0 + k] if row < rows else 0
            out += kc * TILE_ROWS
        k0 += block


# ---------------------------------------------------------------- forward

cdef inline void store_tile(const real* tile, Py_ssize_t width, Py_ssize_t rows, Py_ssize_t n, real* out,
                            Py_ssize_t stride, const real* bias, bint first) noexcept nogil:
    """n columns of a tile into the output: written with the bias the first time, added after that."""
    cdef Py_ssize_t r, j
    cdef real b
    cdef real* y
    cdef const real* x
    for r in range(rows):
        y = out + r * stride
        x = tile + r * width
        if first:
            b = bias[r] if bias != NULL else 0
            for j in range(n):
                y[j] = x[j] + b
        else:
            for j in range(n):
                y[j] += x[j]


cdef void panel_product(Plan* p, const real* weight, Py_ssize_t depth, const real* columns, Py_ssize_t start,
                        Py_ssize_t count, real* out, const real* bias, bint first) noexcept nogil:
    """Outputs of all channels for the columns start .. start + count of a chunk. OUT: out, the chunk's first pixel."""
    cdef real tile[LARGEST_TILE]
    cdef Py_ssize_t row_tile, row, j, n, image, pixels = p.oh * p.ow
    cdef Py_ssize_t span = pixels if p.images > 1 else p.columns      # columns of one image
    cdef int vectors = <int>ceil_div(count, p.panel // 3)
    for row_tile in range(ceil_div(p.o, TILE_ROWS)):
        row = row_tile * TILE_ROWS
        outer(depth, weight + row * depth, columns, tile, vectors)
        j = 0
        while j < count:
            image = (start + j) // span
            n = min(count - j, span - (start + j) % span)
            store_tile(tile + j, p.panel, min(TILE_ROWS, p.o - row), n,
                       out + (image * p.groups * p.o + row) * pixels + (start + j) % span, pixels,
                       bias + row if bias != NULL else NULL, first)
            j += n


cdef void forward_chunk(Plan* p, Py_ssize_t item, const real* x, const real* weight, const real* bias, real* out,
                        real* band, real* columns) noexcept nogil:
    """One chunk of pixels of one group. IN: weight as pack_rows leaves it."""
    cdef Py_ssize_t group = item % p.groups, chunk = item // p.groups
    cdef Py_ssize_t n0 = chunk // p.bands * p.images, y0 = chunk % p.bands * p.rows
    cdef Py_ssize_t images = min(p.images, p.n - n0), rows = min(p.rows, p.oh - y0)
    cdef Py_ssize_t plane = p.h * p.w, pixels = p.oh * p.ow, taps = p.c * p.kh * p.kw
    cdef Py_ssize_t count = images * rows * p.ow, image_stride = p.groups * p.c * plane
    cdef Py_ssize_t padded = ceil_div(p.o, TILE_ROWS) * TILE_ROWS
    cdef Py_ssize_t passes = max(1, ceil_div(taps, MOST_TAPS)), block = ceil_div(taps, passes)
    cdef Py_ssize_t k0 = 0, k, kc, panel, start
    load_band(p, x + (n0 * p.groups + group) * p.c * plane, image_stride, x + p.n * image_stride, y0, images, p.c, band,
              <int>(p.panel // 3))
    out += ((n0 * p.groups + group) * p.o) * pixels + y0 * p.ow
    weight += group * padded * taps
    while True:
        kc = min(block, taps - k0)
        for panel in range(ceil_div(count, p.panel)):
            start = panel * p.panel
            for k in range(kc):
                form_line(p, <const real*>band + p.taps[k0 + k], panel, columns + k * p.panel)
            panel_product(p, weight + k0 * padded, kc, <const real*>columns, start, min(p.panel, count - start), out,
                          bias + group * p.o if bias != NULL else NULL, k0 == 0)
        k0 += block
        if k0 >= taps:
            break


cdef void forward_items(Plan* p, Py_ssize_t first, Py_ssize_t last, const real* x, const real* weight, const real* bias,
                        real* out, real* band, real* columns) noexcept nogil:
    cdef Py_ssize_t item
    for item in range(first, last):
        forward_chunk(p, item, x, weight, bias, out, band, columns)


cdef void forward(Plan* p, const real* x, const real* weight, const real* bias, real* out):
    """Convolution of contiguous tensors into `out`. Allocates; threads over chunks and groups."""
    cdef int lane_count = lanes(out), threads = threads_of(p), t
    choose_chunk(p, lane_count, p.c)
    cdef Storage tables = make_tables(p, p.c)
    cdef Py_ssize_t g, taps = p.c * p.kh * p.kw, padded = ceil_div(p.o, TILE_ROWS) * TILE_ROWS
    cdef Py_ssize_t block = max(1, ceil_div(taps, max(1, ceil_div(taps, MOST_TAPS))))
    cdef Py_ssize_t band = band_size(p, p.c) + 2 * lane_count + p.panel
    cdef Py_ssize_t own = (band + block * p.panel + 2 * lane_count + 15) // 16 * 16, items = p.chunks * p.groups
    cdef Storage scratch = host_storage((p.groups * padded * taps + threads * own + 16) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    with nogil:
        for g in range(p.groups):
            pack_rows(weight + g * p.o * taps, p.o, taps, block, packed_weight + g * padded * taps)
        for t in prange(threads, num_threads=threads, schedule="static"):
            forward_items(p, items * t // threads, items * (t + 1) // threads, x, <const real*>packed_weight, bias, out,
                          buffers + t * own + block * p.panel + lane_count, buffers + t * own)


cdef void* pointer(TensorBase t) noexcept:
    return address(t) if t is not None else NULL


def conv2d(TensorBase x not None, TensorBase weight not None, TensorBase bias, tuple stride, tuple padding,
           tuple dilation, Py_ssize_t groups):
    """Cross-correlation of x with weight. Source: chellapilla et al. 2006 (im2col)."""
    cdef Plan plan
    cdef int code = float_code("conv2d", x)
    x, weight = packed(x), packed(weight)
    bias = packed(bias) if bias is not None else None
    set_geometry(&plan, x.shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride, padding,
                 dilation, groups)
    cdef TensorBase out = empty_host((plan.n, weight.shape[0], plan.oh, plan.ow), x.dtype)
    if out.size == 0:
        return out
    if code == FLOAT32:
        forward[float](&plan, <float*>address(x), <float*>address(weight), <float*>pointer(bias), <float*>address(out))
    else:
        forward[double](&plan, <double*>address(x), <double*>address(weight), <double*>pointer(bias),
                        <double*>address(out))
    return out


KERNELS = {"conv2d": conv2d}
