# 2-D convolution and the gradient of its input: im2col, a matrix product in register tiles, col2im.
#
# Layout: x[N, C, H, W], weight[O, C / groups, kh, kw], out[N, O, oh, ow], all made contiguous here.
# Threads: over chunks of output pixels; for strided gradients over images and groups. Every sum has an order that
#   depends on sizes only.
# Sizes: the front end has checked them; `out` sizes are computed here.
# The product is not NumPy's: im2col of a panel goes from the L1 cache straight into the tile, which is worth a factor
#   of two.

from cython.parallel cimport prange, threadid
from libc.string cimport memset

from volta._kernels.cpu.conv_plan cimport (
    Plan, band_size, ceil_div, choose_chunk, form_panel, load_band, make_tables, set_geometry, threads_of)
from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes, outer, real
from volta._kernels.core.views cimport float_code, pointer

cdef enum:
    MOST_TAPS = 384             # rows of im2col that one pass over a panel takes
    LARGEST_TILE = 8 * 3 * 16   # elements of a register tile
    FEWEST_CHUNKS = 4           # chunks that there should be for the threads
    PACKED_DEPTH = 128          # steps of depth that are packed for all rows before the next
    MOST_PHASES = 4             # strides, multiplied, up to which a gradient is made in so many convolutions of stride 1


cdef struct Pick:
    # How a left matrix lies in the weight: element (row, k) of a group is at
    # start + row * row_stride + k // inner * outer_stride + k % inner * inner_stride.
    Py_ssize_t rows, outer, inner, block                # depth = outer * inner, taken in blocks
    Py_ssize_t start, group_stride, row_stride, outer_stride, inner_stride


# ---------------------------------------------------------------- the weight, packed

cdef void pack_tile(const real* a, Pick* pick, Py_ssize_t rows, Py_ssize_t k, Py_ssize_t count, real* out) noexcept nogil:
    """`count` steps from k on of a tile of up to TILE_ROWS rows. IN: a, the tile's first row. OUT: [count][TILE_ROWS], zeros past `rows`."""
    cdef Py_ssize_t i = k % pick.inner, stride = pick.row_stride, p, r
    a += k // pick.inner * pick.outer_stride + i * pick.inner_stride
    if pick.inner_stride == 1 and pick.outer_stride == pick.inner:              # k runs along memory
        pack(rows, TILE_ROWS, count, a, pick.row_stride, 1, out)
        return
    for p in range(count):
        if rows == TILE_ROWS:                                                   # a loop that the compiler unrolls
            for r in range(TILE_ROWS):
                out[r] = a[r * stride]
        else:
            for r in range(rows):
                out[r] = a[r * stride]
            for r in range(rows, TILE_ROWS):
                out[r] = 0
        out += TILE_ROWS
        a += pick.inner_stride
        i += 1
        if i == pick.inner:
            a += pick.outer_stride - i * pick.inner_stride
            i = 0


cdef void pack_weight(const real* a, Pick* pick, Py_ssize_t groups, int threads, real* out) noexcept nogil:
    """The left matrix of every group in the order in which tiles read it: [group][block of depth][tile][depth][TILE_ROWS]. A stretch of
    depth is packed for all tiles before the next, since what lies beside a tile's rows in memory belongs to the next tile."""
    cdef Py_ssize_t depth = pick.outer * pick.inner, tiles = ceil_div(pick.rows, TILE_ROWS), blocks = ceil_div(depth, pick.block)
    cdef Py_ssize_t parts = ceil_div(pick.block, PACKED_DEPTH), item, tile, k0, kc, k, count
    for item in prange(groups * blocks * parts, num_threads=threads, schedule="static"):
        k0, k = item // parts % blocks * pick.block, item % parts * PACKED_DEPTH
        kc = min(pick.block, depth - k0)
        count = min(PACKED_DEPTH, kc - k)
        if count > 0:
            for tile in range(tiles):
                pack_tile(a + item // parts // blocks * pick.group_stride + tile * TILE_ROWS * pick.row_stride + pick.start, pick,
                          min(TILE_ROWS, pick.rows - tile * TILE_ROWS), k0 + k, count,
                          out + ((item // parts // blocks * depth + k0) * tiles + tile * kc + k) * TILE_ROWS)


cdef Py_ssize_t packed_size(Pick* pick, Py_ssize_t groups) noexcept nogil:
    return groups * ceil_div(pick.rows, TILE_ROWS) * TILE_ROWS * pick.outer * pick.inner


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
    """One chunk of pixels of one group. IN: weight as pack_weight leaves it."""
    cdef Py_ssize_t group = item % p.groups, chunk = item // p.groups
    cdef Py_ssize_t n0 = chunk // p.bands * p.images, y0 = chunk % p.bands * p.rows
    cdef Py_ssize_t images = min(p.images, p.n - n0), rows = min(p.rows, p.oh - y0)
    cdef Py_ssize_t plane = p.h * p.w, pixels = p.oh * p.ow, taps = p.c * p.kh * p.kw
    cdef Py_ssize_t count = images * rows * p.ow, image_stride = p.groups * p.c * plane
    cdef Py_ssize_t padded = ceil_div(p.o, TILE_ROWS) * TILE_ROWS
    cdef Py_ssize_t passes = max(1, ceil_div(taps, MOST_TAPS)), block = ceil_div(taps, passes)
    cdef Py_ssize_t k0 = 0, kc, panel, start
    load_band(p, x + (n0 * p.groups + group) * p.c * plane, image_stride, x + p.n * image_stride, y0, images, p.c, p.c,
              band, <int>(p.panel // 3))
    out += ((n0 * p.groups + group) * p.o) * pixels + y0 * p.ow
    weight += group * padded * taps
    while True:
        kc = min(block, taps - k0)
        for panel in range(ceil_div(count, p.panel)):
            start = panel * p.panel
            form_panel(p, p.taps + k0, kc, panel, <const real*>band, columns, p.panel)
            panel_product(p, weight + k0 * padded, kc, <const real*>columns, start, min(p.panel, count - start), out,
                          bias + group * p.o if bias != NULL else NULL, k0 == 0)
        k0 += block
        if k0 >= taps:
            break


cdef void forward(Plan* p, const real* x, const real* weight, Pick* pick, const real* bias, real* out):
    """Convolution of contiguous tensors into `out`. Allocates; threads over chunks and groups."""
    cdef int lane_count = lanes(out), threads = threads_of(p)
    choose_chunk(p, lane_count, p.c, FEWEST_CHUNKS)
    cdef Storage tables = make_tables(p, p.c, lane_count)
    cdef Py_ssize_t taps = p.c * p.kh * p.kw, block = max(1, ceil_div(taps, max(1, ceil_div(taps, MOST_TAPS))))
    cdef Py_ssize_t band = band_size(p, p.c) + 2 * lane_count + p.panel
    cdef Py_ssize_t own = (band + block * p.panel + 2 * lane_count + 15) // 16 * 16, item
    cdef Storage scratch = host_storage((packed_size(pick, p.groups) + threads * own + 16) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    pick.block = block
    with nogil:
        pack_weight(weight, pick, p.groups, threads, packed_weight)
        for item in prange(p.chunks * p.groups, num_threads=threads, schedule="static"):
            forward_chunk(p, item, x, <const real*>packed_weight, bias, out,
                          buffers + threadid() * own + block * p.panel + lane_count, buffers + threadid() * own)


def conv2d(TensorBase x not None, TensorBase weight not None, TensorBase bias, tuple stride, tuple padding,
           tuple dilation, Py_ssize_t groups):
    """Cross-correlation of x with weight. Source: chellapilla et al. 2006 (im2col)."""
    cdef Plan plan
    cdef int code = float_code("conv2d", x, weight, bias)
    x, weight, bias = packed(x), packed(weight), packed(bias)
    set_geometry(&plan, x.shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride,
                 padding, dilation, groups)
    cdef TensorBase out = empty_host((plan.n, weight.shape[0], plan.oh, plan.ow), x.dtype)
    cdef Py_ssize_t taps = plan.kh * plan.kw
    cdef Pick pick = Pick(rows=plan.o, outer=plan.c, inner=taps, block=0, start=0, group_stride=plan.o * plan.c * taps,
                          row_stride=plan.c * taps, outer_stride=taps, inner_stride=1)
    if out.size == 0:
        return out
    if code == FLOAT32:
        forward[float](&plan, <float*>address(x), <float*>address(weight), &pick, <float*>pointer(bias),
                       <float*>address(out))
    else:
        forward[double](&plan, <double*>address(x), <double*>address(weight), &pick, <double*>pointer(bias),
                        <double*>address(out))
    return out


# ---------------------------------------------------------------- gradient of the input

cdef void grad_input_unit_stride(Plan* p, const real* g, const real* weight, real* out):
    """With stride 1 the gradient is itself a convolution of g, with flipped kernels and the complementary padding."""
    cdef Plan q = p[0]
    cdef Py_ssize_t taps = p.kh * p.kw
    cdef Pick pick = Pick(rows=p.c, outer=p.o, inner=taps, block=0, start=taps - 1, group_stride=p.o * p.c * taps,
                          row_stride=taps, outer_stride=p.c * taps, inner_stride=-1)
    q.c, q.o = p.o, p.c
    q.h, q.w, q.oh, q.ow = p.oh, p.ow, p.h, p.w
    q.ph, q.pw = (p.kh - 1) * p.dh - p.ph, (p.kw - 1) * p.dw - p.pw
    forward[real](&q, g, weight, &pick, <real*>NULL, out)


cdef inline void col2im_row(Plan* p, const real* row, Py_ssize_t tap, Py_ssize_t start, Py_ssize_t count,
                            real* out) noexcept nogil:
    """Add one row of columns, of pixels start .. start + count, to the input pixels that they came from."""
    cdef Py_ssize_t kx = tap % p.kw, ky = tap // p.kw % p.kh, c = tap // (p.kw * p.kh)
    cdef Py_ssize_t j = 0, n, y, x, i, x0, first, last
    cdef real* line
    while j < count:
        y, x = (start + j) // p.ow, (start + j) % p.ow
        n = min(count - j, p.ow - x)
        y = y * p.sh - p.ph + ky * p.dh
        if 0 <= y < p.h:
            x0 = x * p.sw - p.pw + kx * p.dw
            first = ceil_div(-x0, p.sw) if x0 < 0 else 0            # those inside: 0 <= x0 + i * sw < w
            last = min(n, ceil_div(p.w - x0, p.sw)) if x0 < p.w else 0
            line = out + (c * p.h + y) * p.w + x0
            for i in range(first, last):
                line[i * p.sw] += row[j + i]
        j += n


cdef void scatter_image(Plan* p, Py_ssize_t item, const real* g, const real* weight, real* out,
                        real* panel) noexcept nogil:
    """Gradient of one group of one image. IN: weight as pack_weight leaves it; item = image * groups + group."""
    cdef real tile[LARGEST_TILE]
    cdef Py_ssize_t depth = p.c * p.kh * p.kw, pixels = p.oh * p.ow, tiles = ceil_div(depth, TILE_ROWS)
    cdef Py_ssize_t q, o, t, r, j, start, count
    g += item * p.o * pixels
    weight += item % p.groups * tiles * TILE_ROWS * p.o
    out += item * p.c * p.h * p.w
    memset(out, 0, p.c * p.h * p.w * sizeof(real))
    for q in range(ceil_div(pixels, p.panel)):
        start = q * p.panel
        count = min(p.panel, pixels - start)
        for o in range(p.o):
            for j in range(count):
                panel[o * p.panel + j] = g[o * pixels + start + j]
        for t in range(tiles):
            outer(p.o, weight + t * TILE_ROWS * p.o, <const real*>panel, &tile[0],
                  <int>ceil_div(count, p.panel // 3))
            for r in range(min(TILE_ROWS, depth - t * TILE_ROWS)):
                col2im_row(p, <const real*>&tile[0] + r * p.panel, t * TILE_ROWS + r, start, count, out)


cdef void grad_input_any_stride(Plan* p, const real* g, const real* weight, real* out):
    """Columns by a product with the transposed weight, added up by col2im. Threads over images and groups."""
    cdef Py_ssize_t depth = p.c * p.kh * p.kw, item, own
    cdef int threads = threads_of(p)
    cdef Pick pick = Pick(rows=depth, outer=p.o, inner=1, block=p.o, start=0, group_stride=p.o * depth, row_stride=1,
                          outer_stride=depth, inner_stride=0)
    p.panel = 3 * lanes(out)
    own = p.o * p.panel
    cdef Storage scratch = host_storage((threads * own + packed_size(&pick, p.groups)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    with nogil:
        pack_weight(weight, &pick, p.groups, threads, packed_weight)
        for item in prange(p.n * p.groups, num_threads=threads, schedule="static"):
            scatter_image(p, item, g, <const real*>packed_weight, out, buffers + threadid() * own)


cdef void every_nth_tap(Plan* p, const real* weight, Plan* q, Py_ssize_t top, Py_ssize_t left, real* out) noexcept nogil:
    """The taps (top + i * sh, left + j * sw) of all kernels. OUT: kernels of the size that q has."""
    cdef Py_ssize_t kernel, i, j
    for kernel in range(p.groups * p.o * p.c):
        for i in range(q.kh):
            for j in range(q.kw):
                out[(kernel * q.kh + i) * q.kw + j] = weight[(kernel * p.kh + top + i * p.sh) * p.kw + left + j * p.sw]


cdef void spread_pixels(Plan* p, Plan* q, const real* x, Py_ssize_t top, Py_ssize_t left, real* out) noexcept nogil:
    """Planes of q as the pixels (top + y * sh, left + x * sw) of those of `out`; without x, zeros."""
    cdef Py_ssize_t row, j
    cdef real* y
    for row in range(p.n * p.groups * p.c * q.oh):
        y = out + (row // q.oh * p.h + top + row % q.oh * p.sh) * p.w + left
        for j in range(q.ow):
            y[j * p.sw] = x[row * q.ow + j] if x != NULL else 0


cdef void grad_input_by_phase(Plan* p, const real* g, const real* weight, real* out):
    """With few strides and no dilation: the pixels of one remainder of (y, x) by (sh, sw) see every sh-th and sw-th tap only, with which
    they are a convolution of stride 1. Allocates."""
    cdef Plan q
    cdef Py_ssize_t y, x, top, left, planes = p.n * p.groups * p.c
    cdef Storage scratch = host_storage((p.groups * p.o * p.c * p.kh * p.kw + planes * ceil_div(p.h, p.sh) * ceil_div(p.w, p.sw)) * sizeof(real))
    cdef real* kernels = <real*>scratch.data
    cdef real* part = kernels + p.groups * p.o * p.c * p.kh * p.kw
    for y in range(min(p.sh, p.h)):
        for x in range(min(p.sw, p.w)):
            q = p[0]
            q.h, q.w = ceil_div(p.h - y, p.sh), ceil_div(p.w - x, p.sw)
            top, left = (y + p.ph) % p.sh, (x + p.pw) % p.sw
            q.kh, q.kw = ceil_div(p.kh - top, p.sh), ceil_div(p.kw - left, p.sw)
            q.ph, q.pw = (y + p.ph) // p.sh, (x + p.pw) // p.sw
            if q.kh > 0 and q.kw > 0:
                every_nth_tap(p, weight, &q, top, left, kernels)
                q.sh = q.sw = 1
                grad_input_unit_stride(&q, g, <const real*>kernels, part)
            q.oh, q.ow = q.h, q.w
            spread_pixels(p, &q, <const real*>part if q.kh > 0 and q.kw > 0 else <const real*>NULL, y, x, out)


cdef void grad_input(Plan* p, const real* g, const real* weight, real* out):
    if p.sh == 1 and p.sw == 1:
        grad_input_unit_stride(p, g, weight, out)
    elif p.sh * p.sw <= MOST_PHASES and p.dh == 1 and p.dw == 1:
        grad_input_by_phase(p, g, weight, out)
    else:
        grad_input_any_stride(p, g, weight, out)


def conv2d_grad_input(TensorBase g not None, TensorBase weight not None, Py_ssize_t height, Py_ssize_t width,
                      tuple stride, tuple padding, tuple dilation, Py_ssize_t groups):
    """Gradient of conv2d with respect to its input [N, C, height, width]."""
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_input", g, weight)
    cdef tuple shape = (g.shape[0], <Py_ssize_t>weight.shape[1] * groups, height, width)
    g, weight = packed(g), packed(weight)
    set_geometry(&plan, shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride,
                 padding, dilation, groups)
    cdef TensorBase out = empty_host(shape, g.dtype)
    if g.size == 0 or out.size == 0:
        memset(address(out), 0, out.size * out.dtype.itemsize)
    elif code == FLOAT32:
        grad_input[float](&plan, <float*>address(g), <float*>address(weight), <float*>address(out))
    else:
        grad_input[double](&plan, <double*>address(g), <double*>address(weight), <double*>address(out))
    return out


KERNELS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input}
