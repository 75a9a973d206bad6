# The gradient of the weight of a 2-D convolution.
#
# Layout: g[N, O, oh, ow], x[N, C, H, W], out[O, C / groups, kh, kw], contiguous.
# An entry is a sum over pixels, and there are two ways to lay out a chunk of them.
#   Many input channels: the input lies pixel by pixel, a panel of channels in vectors, so that im2col is an address: a register tile
#   holds TILE_ROWS output channels by a panel for one tap, and each entry is one lane of it.
#   Few: im2col of a block of taps and the gradients of a block of channels lie as rows along the pixels; register tiles hold the
#   products of 3 taps with TILE_ROWS channels, one pixel a lane, and the lanes are added at the end.
# Threads: over blocks, and slices of the pixels where there are few blocks; slices are added in their order. Which
#   blocks and slices there are depends on sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset

from volta._kernels.cpu.conv_plan cimport (
    Plan, band_size, ceil_div, choose_chunk, form_panel, load_band, make_tables, set_geometry, threads_of)
from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.tile cimport TILE_ROWS, add_lanes, copy_run, inner, lanes, outer_at, real, zero_run
from volta._kernels.core.views cimport float_code

cdef enum:
    BLOCK_TAPS = 96             # columns of a block of the gradient
    BLOCK_ROWS = 64             # rows of a block
    LARGEST_TILE = 8 * 3        # entries of a register tile
    FEWEST_BLOCKS = 8           # blocks times slices that there should be for the threads
    FEWEST_TAPS = 8             # taps, times panels, that a chunk's gradients should serve once they are packed

cdef struct Blocks:
    # The weight's gradient is made in blocks of rows (output channels) and columns (input channels with their taps);
    # each block is the sum over all pixels, which are cut into slices of whole chunks where there are few blocks.
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
    for panel in range(ceil_div(count, p.panel)):
        form_panel(p, p.taps, columns, panel, band, out + panel * p.panel, b.line)
    for k in range(columns):
        zero_run(out + k * b.line + count, 1)


cdef void form_gradients(Plan* p, Blocks* b, const real* g, const real* end, Py_ssize_t images, Py_ssize_t rows,
                         Py_ssize_t pixels, real* out) noexcept nogil:
    """The gradients of a chunk, one line per output channel. IN: `pixels` of each of `images` images; g's end."""
    cdef Py_ssize_t r, i
    cdef const real* source
    for r in range(rows):
        for i in range(images):
            source = g + (i * p.groups * p.o + r) * p.oh * p.ow
            if source + pixels + p.panel <= end:
                copy_run(out + r * b.line + i * pixels, source, pixels)
            else:
                memcpy(out + r * b.line + i * pixels, source, pixels * sizeof(real))
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
    cdef real tile[LARGEST_TILE]
    cdef Py_ssize_t i, j, r, c
    for i in range(ceil_div(rows, TILE_ROWS)):
        for j in range(ceil_div(columns, 3)):
            add_lanes(sums, &tile[0])
            sums += TILE_ROWS * 3 * lane_count
            for r in range(min(TILE_ROWS, rows - i * TILE_ROWS)):
                for c in range(min(3, columns - j * 3)):
                    out[(i * TILE_ROWS + r) * stride + j * 3 + c] = tile[r * 3 + c]


cdef void weight_block(Plan* p, Blocks* b, Py_ssize_t item, const real* g, const real* x, real* out, real* sums,
                       Py_ssize_t room) noexcept nogil:
    """One block of one slice. OUT: its place in out[slice][groups * o][c * taps]. IN: work space, with `room` for lines behind the sums."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks
    cdef Py_ssize_t c0 = rest % b.column_blocks * b.channels, taps = p.kh * p.kw, depth = p.c * taps
    cdef Py_ssize_t group = rest // b.column_blocks % p.groups, part = rest // b.column_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), channels = min(b.channels, p.c - c0)
    cdef Py_ssize_t chunk, n0, y0, images, pixels, count, plane = p.h * p.w
    cdef int lane_count = <int>(p.panel // 3)
    cdef real* lines = sums + b.sums
    cdef real* band = lines + room
    cdef real* g_lines = lines + (ceil_div(b.columns, 3) * 3 + 1) * b.line
    memset(sums, 0, b.sums * sizeof(real))
    for chunk in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        n0, y0 = chunk // p.bands * p.images, chunk % p.bands * p.rows
        images, pixels = min(p.images, p.n - n0), min(p.rows, p.oh - y0) * p.ow
        count = images * pixels
        load_band(p, x + ((n0 * p.groups + group) * p.c + c0) * plane, p.groups * p.c * plane,
                  x + p.n * p.groups * p.c * plane, y0, images, channels, b.channels, band, lane_count)
        form_columns(p, b, channels * taps, count, <const real*>band, lines)
        form_gradients(p, b, g + ((n0 * p.groups + group) * p.o + row0) * p.oh * p.ow + y0 * p.ow,
                       g + p.n * p.groups * p.o * p.oh * p.ow, images, rows, pixels, g_lines)
        add_chunk(b, rows, channels * taps, ceil_div(count, lane_count) * lane_count, <const real*>g_lines,
                  <const real*>lines, sums)
    store_block(rows, channels * taps, depth, lane_count, <const real*>sums,
                out + ((part * p.groups + group) * p.o + row0) * depth + c0 * taps)


cdef void add_slices(real* out, const real* parts, Py_ssize_t slices, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i, part
    memcpy(out, parts, size * sizeof(real))
    for part in range(1, slices):
        for i in range(size):
            out[i] += parts[part * size + i]


cdef void grad_weight_by_lanes(Plan* p, const real* g, const real* x, real* out):
    """Gradient of the weight, few channels. Threads over blocks and slices; slices are added in their order."""
    cdef Blocks b
    cdef int threads = threads_of(p), lane_count = lanes(out)
    choose_blocks(p, &b, lane_count)
    cdef Storage tables = make_tables(p, b.channels, lane_count)
    cdef Py_ssize_t size = p.groups * p.o * p.c * p.kh * p.kw
    cdef Py_ssize_t lines = (ceil_div(b.columns, 3) * 3 + ceil_div(b.rows, TILE_ROWS) * TILE_ROWS + 2) * b.line, item
    cdef Py_ssize_t own = ceil_div(b.sums + band_size(p, b.channels) + 2 * p.panel + lines, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (b.slices * size if b.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if b.slices > 1 else out
    with nogil:
        for item in prange(p.groups * b.row_blocks * b.column_blocks * b.slices, num_threads=threads, schedule="static"):
            weight_block(p, &b, item, g, x, parts, buffers + threadid() * own, lines)
        if b.slices > 1:
            add_slices(out, <const real*>parts, b.slices, size)


# ---------------------------------------------------------------- many channels

cdef struct Panels:
    # A block: `rows` output channels by `panels` panels of `vectors` vectors of input channels, with all their taps.
    Py_ssize_t width, rows, row_blocks, panels, panel_blocks, slices
    Py_ssize_t band, gradients, sums                    # elements of a block's input, gradients and sums
    int vectors


cdef void choose_panels(Plan* p, Panels* b, int lane_count) noexcept nogil:
    cdef Py_ssize_t taps = p.kh * p.kw, all_panels, v
    b.vectors = 3
    for v in range(2, 0, -1):                           # the fewest unused lanes
        if ceil_div(p.c, v * lane_count) * v < ceil_div(p.c, b.vectors * lane_count) * b.vectors:
            b.vectors = <int>v
    b.width = b.vectors * lane_count
    all_panels = ceil_div(p.c, b.width)
    b.panels = min(all_panels, ceil_div(FEWEST_TAPS, taps))
    b.panel_blocks = ceil_div(all_panels, b.panels)
    b.row_blocks = ceil_div(p.o, BLOCK_ROWS)
    b.rows = ceil_div(ceil_div(p.o, b.row_blocks), TILE_ROWS) * TILE_ROWS
    choose_chunk(p, lane_count, b.width, 1)
    b.slices = min(p.chunks, ceil_div(FEWEST_BLOCKS, p.groups * b.row_blocks * b.panel_blocks))
    b.band = band_size(p, b.width)
    b.gradients = p.columns * b.rows
    b.sums = b.rows * taps * b.width * b.panels


cdef void load_pixels(Plan* p, const real* x, Py_ssize_t image_stride, Py_ssize_t y0, Py_ssize_t images, Py_ssize_t channels,
                      Py_ssize_t width, real* out) noexcept nogil:
    """The padded input of a chunk, pixel by pixel. IN: x[images][channels][h][w]. OUT: [image][row][column][width], zeros past `channels`."""
    cdef Py_ssize_t i, r, y, left = min(max(0, p.pw), p.band_width), first = max(0, -p.pw), n = min(p.w - first, p.band_width - left)
    for i in range(images):
        for r in range(p.band_rows):
            y = y0 * p.sh - p.ph + r
            if y < 0 or y >= p.h or n <= 0:
                memset(out, 0, p.band_width * width * sizeof(real))
            else:
                memset(out, 0, left * width * sizeof(real))
                pack(channels, width, n, x + i * image_stride + y * p.w + first, p.h * p.w, 1, out + left * width)
                memset(out + (left + n) * width, 0, (p.band_width - left - n) * width * sizeof(real))
            out += p.band_width * width


cdef void panels_block(Plan* p, Panels* b, Py_ssize_t item, const real* g, const real* x, real* out, real* space) noexcept nogil:
    """One block of one slice. OUT: its place in out[slice][groups * o][c * taps]."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks
    cdef Py_ssize_t first = rest % b.panel_blocks * b.panels, taps = p.kh * p.kw
    cdef Py_ssize_t group = rest // b.panel_blocks % p.groups, part = rest // b.panel_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), panels = min(b.panels, ceil_div(p.c, b.width) - first)
    cdef Py_ssize_t chunk, n0, y0, images, pixels, i, t, k, panel, c0, tile, tiles = ceil_div(rows, TILE_ROWS)
    cdef Py_ssize_t area = TILE_ROWS * b.width, plane = p.h * p.w
    cdef real* sums = space
    cdef real* gradients = sums + b.sums
    cdef real* band = gradients + b.gradients
    memset(sums, 0, b.sums * sizeof(real))
    for chunk in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        n0, y0 = chunk // p.bands * p.images, chunk % p.bands * p.rows
        images, pixels = min(p.images, p.n - n0), min(p.rows, p.oh - y0) * p.ow
        for t in range(tiles):
            for i in range(images):
                pack(min(TILE_ROWS, rows - t * TILE_ROWS), TILE_ROWS, pixels,
                     g + (((n0 + i) * p.groups + group) * p.o + row0 + t * TILE_ROWS) * p.oh * p.ow + y0 * p.ow, p.oh * p.ow, 1,
                     gradients + (t * images + i) * pixels * TILE_ROWS)
        for panel in range(panels):
            c0 = (first + panel) * b.width
            load_pixels(p, x + ((n0 * p.groups + group) * p.c + c0) * plane, p.groups * p.c * plane, y0, images,
                        min(b.width, p.c - c0), b.width, band)
            for k in range(taps):
                for t in range(tiles):
                    outer_at(images * pixels, <const real*>gradients + t * images * pixels * TILE_ROWS, p.offsets,
                             <const real*>band + p.taps[k] * b.width, sums + ((panel * tiles + t) * taps + k) * area, b.vectors)
    out += ((part * p.groups + group) * p.o + row0) * p.c * taps
    for panel in range(panels):
        c0 = (first + panel) * b.width
        for i in range(rows):
            pack(taps, taps, min(b.width, p.c - c0),
                 <const real*>sums + ((panel * tiles + i // TILE_ROWS) * taps * TILE_ROWS + i % TILE_ROWS) * b.width, area, 1,
                 out + i * p.c * taps + c0 * taps)


cdef void grad_weight_by_panels(Plan* p, const real* g, const real* x, real* out):
    """Gradient of the weight, many channels. Threads over blocks and slices; slices are added in their order."""
    cdef Panels b
    cdef int threads = threads_of(p), lane_count = lanes(out)
    choose_panels(p, &b, lane_count)
    cdef Storage tables = make_tables(p, 1, lane_count)
    cdef Py_ssize_t size = p.groups * p.o * p.c * p.kh * p.kw, item
    cdef Py_ssize_t own = ceil_div(b.sums + b.gradients + b.band, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (b.slices * size if b.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if b.slices > 1 else out
    with nogil:
        for item in prange(p.groups * b.row_blocks * b.panel_blocks * b.slices, num_threads=threads, schedule="static"):
            panels_block(p, &b, item, g, x, parts, buffers + threadid() * own)
        if b.slices > 1:
            add_slices(out, <const real*>parts, b.slices, size)


cdef void grad_weight(Plan* p, const real* g, const real* x, real* out):
    if 2 * p.c > lanes(out):
        grad_weight_by_panels(p, g, x, out)
    else:
        grad_weight_by_lanes(p, g, x, out)


def conv2d_grad_weight(TensorBase g not None, TensorBase x not None, tuple kernel, tuple stride, tuple padding,
                       tuple dilation, Py_ssize_t groups):
    """Gradient of conv2d with respect to its weight [O, C / groups, *kernel]."""
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_weight", g, x)
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


KERNELS = {"conv2d_grad_weight": conv2d_grad_weight}
