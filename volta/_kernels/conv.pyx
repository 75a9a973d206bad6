# 2-D convolution and its two gradients: im2col, a packed matrix product in register tiles, col2im.
#
# Layout: x[N, C, H, W], weight[O, C / groups, kh, kw], out[N, O, oh, ow], all made contiguous here.
# Threads: over chunks of output pixels (forward, gradient of the input) and over blocks of the weight and slices of the batch
#   (gradient of the weight). Every sum has an order that depends on sizes only.
# Sizes: the front end has checked them; `out` sizes are computed here.
# The product is not NumPy's: im2col of a panel goes from the L1 cache straight into the tile, which is worth a factor of two.

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from volta._kernels.conv_plan cimport (
    Plan, Run, band_size, ceil_div, choose_chunk, fill_tables, form_line, load_band)
from volta._kernels.core cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.cpu cimport threads_for
from volta._kernels.tile cimport TILE_ROWS, inner, lanes, outer, real, zero_run
from volta._kernels.views cimport float_code, packed

cdef enum:
    MOST_TAPS = 384             # rows of im2col that one pass over a panel takes
    LARGEST_TILE = 8 * 3 * 16   # elements of a register tile
    FEWEST_CHUNKS = 4           # for the threads
    BLOCK_TAPS = 96             # gradient of the weight: its columns and rows in one block, and how many
    BLOCK_ROWS = 64             # blocks there should be for the threads
    FEWEST_BLOCKS = 16
    FLOPS_PER_ELEMENT = 16      # multiply-adds that take as long as one element of a cheap loop


cdef struct Pick:
    # How a left matrix lies in the weight: element (row, k) of a group is at
    # start + row * row_stride + k // inner * outer_stride + k % inner * inner_stride.
    Py_ssize_t rows, outer, inner, block                # depth = outer * inner, taken in blocks
    Py_ssize_t start, group_stride, row_stride, outer_stride, inner_stride


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


cdef Storage make_tables(Plan* p, Py_ssize_t channels, int lane_count):
    """Allocate and fill the tables of a plan; they live as long as the storage."""
    cdef Py_ssize_t taps = channels * p.kh * p.kw, lines = p.images * p.rows
    cdef Py_ssize_t most_runs = p.columns // lane_count + lines + p.panels + 1
    cdef Py_ssize_t tables = taps * sizeof(Py_ssize_t) + most_runs * sizeof(Run)
    cdef Storage storage = host_storage(tables + (p.columns + p.panels + 2) * sizeof(int))
    p.taps = <Py_ssize_t*>storage.data
    p.runs = <Run*>(p.taps + taps)
    p.offsets = <int*>(p.runs + most_runs)
    p.panel_runs = p.offsets + p.columns
    fill_tables(p, channels, lane_count)
    return storage


cdef int threads_of(Plan* p) noexcept nogil:
    cdef Py_ssize_t work = p.n * p.groups * p.o * p.oh * p.ow * p.c * p.kh * p.kw
    return threads_for(work // FLOPS_PER_ELEMENT)


cdef void pack_tile(const real* a, Pick* pick, Py_ssize_t group, Py_ssize_t tile, real* out) noexcept nogil:
    """One tile of rows of the left matrix of one group. OUT: [block of depth][tile][depth][TILE_ROWS], zeros past `rows`."""
    cdef Py_ssize_t depth = pick.outer * pick.inner, padded = ceil_div(pick.rows, TILE_ROWS) * TILE_ROWS
    cdef Py_ssize_t k0 = 0, k, kc, r, source
    cdef Py_ssize_t rows = min(TILE_ROWS, pick.rows - tile * TILE_ROWS)
    cdef real* y
    a += group * pick.group_stride + tile * TILE_ROWS * pick.row_stride + pick.start
    out += group * padded * depth
    while k0 < depth:
        kc = min(pick.block, depth - k0)
        y = out + k0 * padded + tile * TILE_ROWS * kc
        for k in range(k0, k0 + kc):
            source = k // pick.inner * pick.outer_stride + k % pick.inner * pick.inner_stride
            for r in range(rows):
                y[r] = a[source + r * pick.row_stride]
            for r in range(rows, TILE_ROWS):
                y[r] = 0
            y += TILE_ROWS
        k0 += kc


cdef void pack_weight(const real* a, Pick* pick, Py_ssize_t groups, int threads, real* out) noexcept nogil:
    """The left matrix of every group in the order in which tiles read it."""
    cdef Py_ssize_t tiles = ceil_div(pick.rows, TILE_ROWS), item
    for item in prange(groups * tiles, num_threads=threads, schedule="static"):
        pack_tile(a, pick, item // tiles, item % tiles, out)


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
    cdef Py_ssize_t k0 = 0, k, kc, panel, start
    load_band(p, x + (n0 * p.groups + group) * p.c * plane, image_stride, x + p.n * image_stride, y0, images, p.c, p.c,
              band, <int>(p.panel // 3))
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


cdef void forward(Plan* p, const real* x, const real* weight, Pick* pick, const real* bias, real* out):
    """Convolution of contiguous tensors into `out`. Allocates; threads over chunks and groups."""
    cdef int lane_count = lanes(out), threads = threads_of(p), t
    choose_chunk(p, lane_count, p.c, FEWEST_CHUNKS)
    cdef Storage tables = make_tables(p, p.c, lane_count)
    cdef Py_ssize_t taps = p.c * p.kh * p.kw, block = max(1, ceil_div(taps, max(1, ceil_div(taps, MOST_TAPS))))
    cdef Py_ssize_t band = band_size(p, p.c) + 2 * lane_count + p.panel
    cdef Py_ssize_t own = (band + block * p.panel + 2 * lane_count + 15) // 16 * 16, items = p.chunks * p.groups
    cdef Storage scratch = host_storage((packed_size(pick, p.groups) + threads * own + 16) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    pick.block = block
    with nogil:
        pack_weight(weight, pick, p.groups, threads, packed_weight)
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
    cdef Py_ssize_t taps = plan.kh * plan.kw
    cdef Pick pick = Pick(rows=plan.o, outer=plan.c, inner=taps, block=0, start=0, group_stride=plan.o * plan.c * taps,
                          row_stride=plan.c * taps, outer_stride=taps, inner_stride=1)
    if out.size == 0:
        return out
    if code == FLOAT32:
        forward[float](&plan, <float*>address(x), <float*>address(weight), &pick, <float*>pointer(bias), <float*>address(out))
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
    cdef Py_ssize_t j = 0, n, y, x, i, x0
    while j < count:
        y, x = (start + j) // p.ow, (start + j) % p.ow
        n = min(count - j, p.ow - x)
        y = y * p.sh - p.ph + ky * p.dh
        if 0 <= y < p.h:
            x0 = x * p.sw - p.pw + kx * p.dw
            for i in range(n):
                if 0 <= x0 + i * p.sw < p.w:
                    out[(c * p.h + y) * p.w + x0 + i * p.sw] += row[j + i]
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


cdef void scatter_items(Plan* p, Py_ssize_t first, Py_ssize_t last, const real* g, const real* weight, real* out,
                        real* panel) noexcept nogil:
    cdef Py_ssize_t item
    for item in range(first, last):
        scatter_image(p, item, g, weight, out, panel)


cdef void grad_input_any_stride(Plan* p, const real* g, const real* weight, real* out):
    """Columns by a product with the transposed weight, added up by col2im. Threads over images and groups."""
    cdef Py_ssize_t depth = p.c * p.kh * p.kw, items = p.n * p.groups, own
    cdef int threads = threads_of(p), t
    cdef Pick pick = Pick(rows=depth, outer=p.o, inner=1, block=p.o, start=0, group_stride=p.o * depth, row_stride=1,
                          outer_stride=depth, inner_stride=0)
    p.panel = 3 * lanes(out)
    own = p.o * p.panel
    cdef Storage scratch = host_storage((threads * own + packed_size(&pick, p.groups)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    with nogil:
        pack_weight(weight, &pick, p.groups, threads, packed_weight)
        for t in prange(threads, num_threads=threads, schedule="static"):
            scatter_items(p, items * t // threads, items * (t + 1) // threads, g, <const real*>packed_weight, out,
                          buffers + t * own)


cdef void grad_input(Plan* p, const real* g, const real* weight, real* out):
    if p.sh == 1 and p.sw == 1:
        grad_input_unit_stride(p, g, weight, out)
    else:
        grad_input_any_stride(p, g, weight, out)


def conv2d_grad_input(TensorBase g not None, TensorBase weight not None, Py_ssize_t height, Py_ssize_t width,
                      tuple stride, tuple padding, tuple dilation, Py_ssize_t groups):
    """Gradient of conv2d with respect to its input [N, C, height, width]."""
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_input", g)
    cdef tuple shape = (g.shape[0], <Py_ssize_t>weight.shape[1] * groups, height, width)
    g, weight = packed(g), packed(weight)
    set_geometry(&plan, shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride, padding,
                 dilation, groups)
    cdef TensorBase out = empty_host(shape, g.dtype)
    if g.size == 0 or out.size == 0:
        memset(address(out), 0, out.size * out.dtype.itemsize)
    elif code == FLOAT32:
        grad_input[float](&plan, <float*>address(g), <float*>address(weight), <float*>address(out))
    else:
        grad_input[double](&plan, <double*>address(g), <double*>address(weight), <double*>address(out))
    return out


# ---------------------------------------------------------------- gradient of the weight

cdef struct Blocks:
    # The weight's gradient is made in blocks of rows (output channels) and columns (input channels with their taps); each
    # block is the sum over all pixels, which are cut into slices of whole chunks where there are few blocks.
    Py_ssize_t channels, columns                        # of a block
    Py_ssize_t rows, row_blocks, column_blocks, slices
    Py_ssize_t line                                     # elements from one row of a chunk to the next
    Py_ssize_t sums                                     # elements of a block's partial sums, one vector for each entry


cdef void choose_blocks(Plan* p, Blocks* b, int lane_count) noexcept nogil:
    cdef Py_ssize_t taps = p.kh * p.kw
    b.column_blocks = ceil_div(p.c, max(1, BLOCK_TAPS // taps))
    b.channels = ceil_div(p.c, b.column_blocks)
    b.column_blocks = ceil_div(p.c, b.channels)
    b.columns = b.channels * taps
    b.row_blocks = ceil_div(p.o, BLOCK_ROWS)
    b.rows = ceil_div(p.o, b.row_blocks)
    choose_chunk(p, lane_count, b.channels, 1)
    b.slices = min(p.chunks, ceil_div(FEWEST_BLOCKS, p.groups * b.row_blocks * b.column_blocks))
    b.line = (ceil_div(p.columns, lane_count) + 1) * lane_count
    if b.line % 512 == 0:                               # rows a power of two apart would share a few cache sets
        b.line += lane_count
    b.sums = ceil_div(b.rows, TILE_ROWS) * ceil_div(b.columns, 3) * TILE_ROWS * 3 * lane_count


cdef void form_columns(Plan* p, Blocks* b, Py_ssize_t columns, Py_ssize_t count, const real* band,
                       real* out) noexcept nogil:
    """im2col of a whole chunk, one row per tap, with zeros up to the next whole vector."""
    cdef Py_ssize_t k, panel
    for k in range(columns):
        for panel in range(ceil_div(count, p.panel)):
            form_line(p, band + p.taps[k], panel, out + k * b.line + panel * p.panel)
        zero_run(out + k * b.line + count, 1)


cdef void form_gradients(Plan* p, Blocks* b, const real* g, Py_ssize_t images, Py_ssize_t rows, Py_ssize_t pixels,
                         real* out) noexcept nogil:
    """The gradients of a chunk, one line per output channel. IN: `pixels` of each of `images` images."""
    cdef Py_ssize_t r, i
    for r in range(rows):
        for i in range(images):
            memcpy(out + r * b.line + i * pixels, g + (i * p.groups * p.o + r) * p.oh * p.ow, pixels * sizeof(real))
        zero_run(out + r * b.line + images * pixels, 1)


cdef void add_chunk(Blocks* b, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t n, const real* g, const real* x,
                    real* sums) noexcept nogil:
    """sums += products of all rows of g and all rows of x over one chunk."""
    cdef Py_ssize_t i, j, tile = b.sums // (ceil_div(b.rows, TILE_ROWS) * ceil_div(b.columns, 3))
    for i in range(ceil_div(rows, TILE_ROWS)):
        for j in range(ceil_div(columns, 3)):
            inner(n, g + i * TILE_ROWS * b.line, b.line, x + j * 3 * b.line, b.line, sums)
            sums += tile


cdef void store_block(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t stride, int lane_count, const real* sums,
                      real* out) noexcept nogil:
    """Add up the lanes of every entry of a block."""
    cdef Py_ssize_t i, j, lane, tiles = ceil_div(columns, 3)
    cdef const real* vector
    cdef real total
    for i in range(rows):
        for j in range(columns):
            vector = sums + (((i // TILE_ROWS * tiles + j // 3) * TILE_ROWS + i % TILE_ROWS) * 3 + j % 3) * lane_count
            total = 0
            for lane in range(lane_count):
                total += vector[lane]
            out[i * stride + j] = total


cdef void weight_block(Plan* p, Blocks* b, Py_ssize_t item, const real* g, const real* x, real* out, real* sums,
                       real* lines, real* band) noexcept nogil:
    """One block of one slice. OUT: its place in out[slice][groups * o][c * taps]."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks
    cdef Py_ssize_t c0 = rest % b.column_blocks * b.channels, taps = p.kh * p.kw, depth = p.c * taps
    cdef Py_ssize_t group = rest // b.column_blocks % p.groups, part = rest // b.column_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), channels = min(b.channels, p.c - c0)
    cdef Py_ssize_t chunk, n0, y0, images, pixels, count, plane = p.h * p.w
    cdef int lane_count = <int>(p.panel // 3)
    cdef real* g_lines = lines + (ceil_div(b.columns, 3) * 3 + 1) * b.line
    memset(sums, 0, b.sums * sizeof(real))
    for chunk in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        n0, y0 = chunk // p.bands * p.images, chunk % p.bands * p.rows
        images, pixels = min(p.images, p.n - n0), min(p.rows, p.oh - y0) * p.ow
        count = images * pixels
        load_band(p, x + ((n0 * p.groups + group) * p.c + c0) * plane, p.groups * p.c * plane,
                  x + p.n * p.groups * p.c * plane, y0, images, channels, b.channels, band, lane_count)
        form_columns(p, b, channels * taps, count, <const real*>band, lines)
        form_gradients(p, b, g + ((n0 * p.groups + group) * p.o + row0) * p.oh * p.ow + y0 * p.ow, images, rows, pixels,
                       g_lines)
        add_chunk(b, rows, channels * taps, ceil_div(count, lane_count) * lane_count, <const real*>g_lines,
                  <const real*>lines, sums)
    store_block(rows, channels * taps, depth, lane_count, <const real*>sums,
                out + ((part * p.groups + group) * p.o + row0) * depth + c0 * taps)


cdef void weight_blocks(Plan* p, Blocks* b, Py_ssize_t first, Py_ssize_t last, const real* g, const real* x, real* out,
                        real* own) noexcept nogil:
    cdef Py_ssize_t item, lines = (ceil_div(b.columns, 3) * 3 + ceil_div(b.rows, TILE_ROWS) * TILE_ROWS + 2) * b.line
    for item in range(first, last):
        weight_block(p, b, item, g, x, out, own, own + b.sums, own + b.sums + lines)


cdef void add_slices(real* out, const real* parts, Py_ssize_t slices, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i, part
    memcpy(out, parts, size * sizeof(real))
    for part in range(1, slices):
        for i in range(size):
            out[i] += parts[part * size + i]


cdef void grad_weight(Plan* p, const real* g, const real* x, real* out):
    """Gradient of the weight. Threads over blocks and slices; slices are added in their order."""
    cdef Blocks b
    cdef int threads = threads_of(p), lane_count = lanes(out), t
    choose_blocks(p, &b, lane_count)
    cdef Storage tables = make_tables(p, b.channels, lane_count)
    cdef Py_ssize_t size = p.groups * p.o * p.c * p.kh * p.kw, items = p.groups * b.row_blocks * b.column_blocks * b.slices
    cdef Py_ssize_t own = b.sums + band_size(p, b.channels) + 2 * p.panel + (
        b.line * (ceil_div(b.columns, 3) * 3 + ceil_div(b.rows, TILE_ROWS) * TILE_ROWS + 2))
    own = ceil_div(own, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (b.slices * size if b.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if b.slices > 1 else out
    with nogil:
        for t in prange(threads, num_threads=threads, schedule="static"):
            weight_blocks(p, &b, items * t // threads, items * (t + 1) // threads, g, x, parts, buffers + t * own)
        if b.slices > 1:
            add_slices(out, <const real*>parts, b.slices, size)


def conv2d_grad_weight(TensorBase g not None, TensorBase x not None, tuple kernel, tuple stride, tuple padding,
                       tuple dilation, Py_ssize_t groups):
    """Gradient of conv2d with respect to its weight [O, C / groups, *kernel]."""
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_weight", g)
    cdef Py_ssize_t channels = <Py_ssize_t>x.shape[1] // groups
    g, x = packed(g), packed(x)
    set_geometry(&plan, x.shape, channels, <Py_ssize_t>g.shape[1] // groups, kernel, stride, padding, dilation, groups)
    cdef TensorBase out = empty_host((g.shape[1], channels) + kernel, g.dtype)
    if g.size == 0 or out.size == 0:
        memset(address(out), 0, out.size * out.dtype.itemsize)
    elif code == FLOAT32:
        grad_weight[float](&plan, <float*>address(g), <float*>address(x), <float*>address(out))
    else:
        grad_weight[double](&plan, <double*>address(g), <double*>address(x), <double*>address(out))
    return out


KERNELS = {"conv2d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv2d_grad_weight": conv2d_grad_weight}
