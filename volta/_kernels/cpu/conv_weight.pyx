# The gradient of the weight of a convolution of images or volumes.
#
# Layout: g[N, O, (od,) oh, ow], x[N, C, (D,) H, W], out[O, C / groups, (kd,) kh, kw], contiguous.
# An entry is a sum over pixels, and there are two ways to lay out a chunk of them.
#   Many input channels: the input lies pixel by pixel, a panel of channels in vectors, so that im2col is an address: a register tile
#   holds TILE_ROWS output channels by a panel for one tap, and each entry is one lane of it.
#   Few: im2col of a block of taps lies as rows along the pixels. The gradients of a block of channels lie pixel by pixel, in vectors,
#   and register tiles hold TILE_ROWS taps by these. Or, where there are few of them as well, as rows along the pixels: register tiles
#   hold the products of 3 taps with TILE_ROWS channels, one pixel a lane, and the lanes are added at the end.
# Channels by themselves go their own way (conv_depthwise.pyx), and kernels of 3 x 3 Winograd's (conv_winograd_weight.pyx).
# Threads: over blocks, and slices of the chunks where there are few blocks; slices are added in their order. Which
#   blocks and slices there are depends on sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset

from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_band cimport load_band
from volta._kernels.cpu.conv_plan cimport (
    BAND_LIMIT, TARGET, Chunk, Plan, add_slices, band_size, ceil_div, channel_in, channel_out, chunk_at, form_columns, items_of,
    join_rows, load_pixels, make_tables, pixel_out, pixels_in, pixels_out, set_chunk, set_geometry, slices_of, threads_of)
from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage, make_tensor
from volta._kernels.cpu.conv_depthwise cimport weight_depthwise
from volta._kernels.cpu.conv_product cimport thinned, weight_by_product
from volta._kernels.cpu.conv_winograd_weight cimport weight_by_winograd
from volta._kernels.cpu.conv_blocks_weight cimport weight_by_blocks
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.conv_tile cimport lines_of_taps
from volta._kernels.cpu.gemm cimport pack, turn
from volta._kernels.cpu.linalg import matmul
from volta._kernels.cpu.pixels cimport pixel_rows, rows_of_points
from volta._kernels.core.views cimport float_code
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, copy_run, lanes, zero_run
from volta._kernels.cpu.weight_tile cimport add_lanes, inner, outer_at

cdef enum Way:                  # to lay out a chunk
    BY_LANES = 0                # few input channels: pixels are lanes,
    BY_OUTPUTS = 1              # or output channels are
    BY_PANELS = 2               # many: input channels are

cdef enum:
    BLOCK_TAPS = 96             # columns of a block of the gradient
    BLOCK_ROWS = 64             # rows of a block
    SUM_PIXELS = 250            # as long as which adding up the lanes of a tile takes
    DEPTH = 160                 # pixels at a time, whose gradients stay in the L1 cache
    LARGEST_TILE = 8 * 3        # entries of a register tile
    FEWEST_TAPS = 8             # taps, times panels, that a chunk's gradients should serve once they are packed


cdef void choose_chunk(Plan* p, int lane_count, Py_ssize_t channels, Py_ssize_t blocks) noexcept nogil:
    """Chunks whose bands of `channels` channels stay in the cache, and enough of them to cut so many blocks into parts."""
    cdef Py_ssize_t target = TARGET
    p.lanes = lane_count
    set_chunk(p, target)
    while (band_size(p, channels) > BAND_LIMIT or p.chunks * blocks < items_of(p)) and target > 2 * 3 * lane_count:
        target //= 2
        set_chunk(p, target)


# ---------------------------------------------------------------- few channels

cdef struct Blocks:
    # The weight's gradient is made in blocks of rows (output channels) and columns (input channels with their taps);
    # each block is the sum over all pixels, which are cut into slices of whole chunks where there are few blocks.
    Py_ssize_t channels, columns                        # of a block
    Py_ssize_t rows, row_blocks, column_blocks, slices
    Py_ssize_t line                                     # elements from one row of a chunk to the next
    Py_ssize_t sums                                     # elements of a block's partial sums, one vector for each entry


cdef void choose_blocks(Plan* p, Blocks* b, int lane_count, Py_ssize_t rows) noexcept nogil:
    b.column_blocks = ceil_div(p.c, max(1, BLOCK_TAPS // p.taps))
    b.channels = ceil_div(p.c, b.column_blocks)
    b.column_blocks = ceil_div(p.c, b.channels)
    b.columns = b.channels * p.taps
    b.row_blocks = ceil_div(p.o, rows)
    b.rows = ceil_div(p.o, b.row_blocks)
    p.direct = False
    choose_chunk(p, lane_count, b.channels, p.groups * b.row_blocks * b.column_blocks)
    b.slices = slices_of(p, p.groups * b.row_blocks * b.column_blocks)
    b.line = (ceil_div(p.images * p.d.chunk * p.h.chunk * p.w.places, lane_count) + 1) * lane_count
    if b.line % 512 == 0:                               # rows a power of two apart would share a few cache sets
        b.line += lane_count
    b.sums = ceil_div(b.rows, TILE_ROWS) * ceil_div(b.columns, 3) * TILE_ROWS * 3 * lane_count


cdef void form_lines(Plan* p, Blocks* b, Chunk* chunk, Py_ssize_t columns, const real* band, real* out) noexcept nogil:
    """im2col of a whole chunk, one row per tap, with zeros up to the next whole vector."""
    cdef Py_ssize_t k
    form_columns(p, chunk, p.offsets, columns, 0, chunk.vectors, band, out, b.line)
    for k in range(columns):
        zero_run(out + k * b.line + chunk.columns, 1)


cdef void form_gradients(Plan* p, Blocks* b, Chunk* chunk, const real* g, const real* end, Py_ssize_t rows, real* out) noexcept nogil:
    """The gradients of a chunk, one line per output channel. IN: g, the first channel of image 0; its end."""
    cdef Py_ssize_t r, i, pixels = chunk.columns // chunk.images
    cdef const real* source
    g += chunk.image * p.groups * p.o * pixels_out(p) + (chunk.z * p.h.places + chunk.y) * p.w.places
    for r in range(rows):
        for i in range(chunk.images):
            source = g + (i * p.groups * p.o + r) * pixels_out(p)
            if source + pixels + p.lanes <= end:
                copy_run(out + r * b.line + i * pixels, source, pixels)
            else:
                memcpy(out + r * b.line + i * pixels, source, pixels * sizeof(real))
        zero_run(out + r * b.line + chunk.columns, 1)


cdef void clear_lines(Blocks* b, Py_ssize_t count, Py_ssize_t tile, real* lines) noexcept nogil:
    """Zeros in the lines that fill the last tile: denormals left there from before would take long."""
    memset(lines + count * b.line, 0, (ceil_div(count, tile) * tile - count) * b.line * sizeof(real))


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


cdef void lanes_block(Plan* p, Blocks* b, Py_ssize_t item, const real* g, const real* x, real* out, real* sums) noexcept nogil:
    """One block of one slice. OUT: its place in out[slice][groups * o][c * taps]. IN: work space."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks
    cdef Py_ssize_t c0 = rest % b.column_blocks * b.channels, depth = p.c * p.taps, index
    cdef Py_ssize_t group = rest // b.column_blocks % p.groups, part = rest // b.column_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), channels = min(b.channels, p.c - c0)
    cdef Chunk chunk
    cdef real* lines = sums + b.sums
    cdef real* g_lines = lines + (ceil_div(b.columns, 3) * 3 + 1) * b.line
    cdef real* band = g_lines + (ceil_div(b.rows, TILE_ROWS) * TILE_ROWS + 1) * b.line
    memset(sums, 0, b.sums * sizeof(real))
    clear_lines(b, channels * p.taps, 3, lines)
    clear_lines(b, rows, TILE_ROWS, g_lines)
    for index in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        chunk = chunk_at(p, index)
        load_band(p, &chunk, x + (group * p.c + c0) * pixels_in(p), x + p.n * p.groups * p.c * pixels_in(p), channels, b.channels, band)
        form_lines(p, b, &chunk, channels * p.taps, <const real*>band, lines)
        form_gradients(p, b, &chunk, g + (group * p.o + row0) * pixels_out(p), g + p.n * p.groups * p.o * pixels_out(p), rows, g_lines)
        add_chunk(b, rows, channels * p.taps, chunk.vectors * p.lanes, <const real*>g_lines, <const real*>lines, sums)
    store_block(rows, channels * p.taps, depth, p.lanes, <const real*>sums,
                out + ((part * p.groups + group) * p.o + row0) * depth + c0 * p.taps)


# ---------------------------------------------------------------- few channels, many outputs

cdef void outputs_block(Plan* p, Blocks* b, Py_ssize_t item, const real* g, const real* x, real* out, real* space) noexcept nogil:
    """One block of one slice, summed as [columns][outputs]. OUT: its place in out[slice][groups * o][c * taps]."""
    cdef Py_ssize_t at[DEPTH]
    cdef Py_ssize_t pixels_at[DEPTH]
    cdef Py_ssize_t[3] vectors, full
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks, depth = p.c * p.taps, index, i, k, n
    cdef Py_ssize_t c0 = rest % b.column_blocks * b.channels, channels = min(b.channels, p.c - c0), columns = channels * p.taps
    cdef Py_ssize_t group = rest // b.column_blocks % p.groups, part = rest // b.column_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), width = b.rows, plane = pixels_out(p), pixels
    cdef Chunk chunk
    cdef real* sums = space
    cdef real* gradients = sums + b.sums
    cdef real* lines = gradients + b.line * width
    cdef real* band = lines + (ceil_div(b.columns, TILE_ROWS) * TILE_ROWS + 1) * b.line
    for k in range(DEPTH):
        at[k], pixels_at[k] = k, k * width
    for k in range(3):
        vectors[k], full[k] = k * p.lanes, p.lanes
    memset(sums, 0, b.sums * sizeof(real))
    clear_lines(b, columns, TILE_ROWS, lines)
    if rows < width:
        memset(gradients, 0, b.line * width * sizeof(real))
    for index in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        chunk = chunk_at(p, index)
        pixels = chunk.columns // chunk.images
        load_band(p, &chunk, x + (group * p.c + c0) * pixels_in(p), x + p.n * p.groups * p.c * pixels_in(p), channels, b.channels, band)
        form_lines(p, b, &chunk, columns, <const real*>band, lines)
        for i in range(chunk.images):
            turn(rows, pixels, g + (((chunk.image + i) * p.groups + group) * p.o + row0) * plane
                 + (chunk.z * p.h.places + chunk.y) * p.w.places, plane, gradients + i * pixels * width, width)
        for k in range(ceil_div(chunk.columns, DEPTH)):
            n = min(<Py_ssize_t>DEPTH, chunk.columns - k * DEPTH)
            for i in range(ceil_div(columns, TILE_ROWS)):
                lines_of_taps(TILE_ROWS, n, <const real*>lines + i * TILE_ROWS * b.line + k * DEPTH, b.line, at,
                              <const real*>gradients + k * DEPTH * width, pixels_at, vectors, <int>(width // p.lanes),
                              sums + i * TILE_ROWS * width, width, vectors, full, <const real*>NULL, True, 0, TILE_ROWS)
    turn(columns, rows, <const real*>sums, width, out + ((part * p.groups + group) * p.o + row0) * depth + c0 * p.taps, depth)


cdef bint outputs_pay(Plan* p, int lane_count) noexcept nogil:
    """Whether that is faster than lanes along the pixels: their sums cost as much as so many pixels, a tile that is not full its share."""
    cdef Py_ssize_t columns = min(p.c, max(1, BLOCK_TAPS // p.taps)) * p.taps, spare = ceil_div(columns, TILE_ROWS) * TILE_ROWS - columns
    return (2 * p.o > lane_count
            and (spare * 9 <= columns or spare * p.n * p.d.places * p.h.places * p.w.places <= columns * SUM_PIXELS))


# ---------------------------------------------------------------- many channels

cdef struct Panels:
    # A block: `rows` output channels by `panels` panels of `vectors` vectors of input channels, with all their taps.
    Py_ssize_t width, rows, row_blocks, panels, panel_blocks, slices
    Py_ssize_t band, gradients, sums                    # elements of a block's input, gradients and sums
    int vectors
    Py_ssize_t* taps                                    # [taps] pixels of the band from a window's beginning
    int* places                                         # [columns of a chunk] pixels of the band to where its window begins


cdef void choose_panels(Plan* p, Panels* b, int lane_count) noexcept nogil:
    cdef Py_ssize_t all_panels, v
    b.vectors = 3
    for v in range(2, 0, -1):                           # the fewest unused lanes
        if ceil_div(p.c, v * lane_count) * v < ceil_div(p.c, b.vectors * lane_count) * b.vectors:
            b.vectors = <int>v
    b.width = b.vectors * lane_count
    all_panels = ceil_div(p.c, b.width)
    b.panels = min(all_panels, ceil_div(FEWEST_TAPS, p.taps))
    b.panel_blocks = ceil_div(all_panels, b.panels)
    b.row_blocks = ceil_div(p.o, BLOCK_ROWS)
    b.rows = ceil_div(ceil_div(p.o, b.row_blocks), TILE_ROWS) * TILE_ROWS
    choose_chunk(p, lane_count, b.width, p.groups * b.row_blocks * b.panel_blocks)
    b.slices = slices_of(p, p.groups * b.row_blocks * b.panel_blocks)
    b.band = p.images * p.d.band * p.h.band * p.w.band * b.width
    b.gradients = p.images * p.d.chunk * p.h.chunk * p.w.places * b.rows
    b.sums = b.rows * p.taps * b.width * b.panels


cdef void fill_pixels(Plan* p, Panels* b) noexcept nogil:
    """OUT: taps, places."""
    cdef Py_ssize_t i, z, y, x, k = 0
    for z in range(p.d.kernel):
        for y in range(p.h.kernel):
            for x in range(p.w.kernel):
                b.taps[k] = ((z * p.d.dilation * p.h.band + y * p.h.dilation) * p.w.band + x * p.w.dilation) * b.width
                k += 1
    k = 0
    for i in range(p.images):
        for z in range(p.d.chunk):
            for y in range(p.h.chunk):
                for x in range(p.w.places):
                    b.places[k] = <int>(((i * p.d.band + z * p.d.stride) * p.h.band + y * p.h.stride) * p.w.band + x * p.w.stride)
                    k += 1


cdef void panels_block(Plan* p, Panels* b, Py_ssize_t item, const real* g, const real* x, real* out, real* space) noexcept nogil:
    """One block of one slice. OUT: its place in out[slice][groups * o][c * taps]."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks
    cdef Py_ssize_t first = rest % b.panel_blocks * b.panels, taps = p.taps
    cdef Py_ssize_t group = rest // b.panel_blocks % p.groups, part = rest // b.panel_blocks // p.groups
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), panels = min(b.panels, ceil_div(p.c, b.width) - first)
    cdef Py_ssize_t index, pixels, i, t, k, panel, c0, tiles = ceil_div(rows, TILE_ROWS), area = TILE_ROWS * b.width
    cdef Chunk chunk
    cdef real* sums = space
    cdef real* gradients = sums + b.sums
    cdef real* band = gradients + b.gradients
    memset(sums, 0, b.sums * sizeof(real))
    for index in range(p.chunks * part // b.slices, p.chunks * (part + 1) // b.slices):
        chunk = chunk_at(p, index)
        pixels = chunk.columns // chunk.images
        for t in range(tiles):
            for i in range(chunk.images):
                pack(min(TILE_ROWS, rows - t * TILE_ROWS), TILE_ROWS, pixels,
                     g + (chunk.image + i) * p.groups * p.o * pixels_out(p) + (group * p.o + row0 + t * TILE_ROWS) * channel_out(p)
                     + (chunk.z * p.h.places + chunk.y) * p.w.places * pixel_out(p), channel_out(p), pixel_out(p),
                     gradients + (t * chunk.images + i) * pixels * TILE_ROWS)
        for panel in range(panels):
            c0 = (first + panel) * b.width
            load_pixels(p, &chunk, x + (group * p.c + c0) * channel_in(p), min(b.width, p.c - c0), b.width, band)
            for k in range(taps):
                for t in range(tiles):
                    outer_at(chunk.columns, <const real*>gradients + t * chunk.columns * TILE_ROWS, b.places,
                             <const real*>band + b.taps[k], sums + ((panel * tiles + t) * taps + k) * area, b.vectors)
    out += ((part * p.groups + group) * p.o + row0) * p.c * taps
    for panel in range(panels):
        c0 = (first + panel) * b.width
        for i in range(rows):
            pack(taps, taps, min(b.width, p.c - c0),
                 <const real*>sums + ((panel * tiles + i // TILE_ROWS) * taps * TILE_ROWS + i % TILE_ROWS) * b.width, area, 1,
                 out + i * p.c * taps + c0 * taps)


# ---------------------------------------------------------------- all blocks

cdef void add_blocks(Plan* p, Way way, void* b, Py_ssize_t blocks, Py_ssize_t slices, Py_ssize_t own, const real* g, const real* x,
                     real* out):
    """The gradient of the weight. IN: elements of space for a thread's sums and more. Threads over blocks and slices, which are added in
    their order."""
    cdef Ranges ranges
    cdef int t, threads = threads_of(p)
    cdef Py_ssize_t size = p.groups * p.o * p.c * p.taps, item
    own = ceil_div(own, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (slices * size if slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if slices > 1 else out
    with nogil:
        deal(&ranges, blocks * slices, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                if way == BY_PANELS:
                    panels_block(p, <Panels*>b, item, g, x, parts, buffers + threadid() * own)
                elif way == BY_OUTPUTS:
                    outputs_block(p, <Blocks*>b, item, g, x, parts, buffers + threadid() * own)
                else:
                    lanes_block(p, <Blocks*>b, item, g, x, parts, buffers + threadid() * own)
                item = take(&ranges, t)
        if slices > 1:
            add_slices(out, <const real*>parts, slices, size, threads)


cdef void grad_weight_by_lanes(Plan* p, const real* g, const real* x, real* out):
    """Few channels."""
    cdef Blocks b
    choose_blocks(p, &b, lanes(out), BLOCK_ROWS)
    cdef Storage tables = make_tables(p, b.channels, b.channels, 0, 0)
    cdef Py_ssize_t lines = ceil_div(b.columns, 3) * 3 + ceil_div(b.rows, TILE_ROWS) * TILE_ROWS + 2
    add_blocks(p, BY_LANES, &b, p.groups * b.row_blocks * b.column_blocks, b.slices,
               b.sums + band_size(p, b.channels) + 6 * lanes(out) + lines * b.line, g, x, out)


cdef void grad_weight_by_outputs(Plan* p, const real* g, const real* x, real* out):
    """Few channels but many outputs."""
    cdef Blocks b
    cdef int lane_count = lanes(out)
    choose_blocks(p, &b, lane_count, 3 * lane_count)
    b.rows = ceil_div(b.rows, lane_count) * lane_count
    b.row_blocks = ceil_div(p.o, b.rows)
    b.sums = ceil_div(b.columns, TILE_ROWS) * TILE_ROWS * b.rows
    cdef Storage tables = make_tables(p, b.channels, b.channels, 0, 0)
    cdef Py_ssize_t lines = ceil_div(b.columns, TILE_ROWS) * TILE_ROWS + 1 + b.rows
    add_blocks(p, BY_OUTPUTS, &b, p.groups * b.row_blocks * b.column_blocks, b.slices,
               b.sums + band_size(p, b.channels) + 6 * lane_count + lines * b.line, g, x, out)


cdef void grad_weight_by_panels(Plan* p, const real* g, const real* x, real* out):
    """Many channels."""
    cdef Panels b
    choose_panels(p, &b, lanes(out))
    cdef Storage tables = host_storage(p.taps * sizeof(Py_ssize_t) + p.images * p.d.chunk * p.h.chunk * p.w.places * sizeof(int))
    b.taps = <Py_ssize_t*>tables.data
    b.places = <int*>(b.taps + p.taps)
    fill_pixels(p, &b)
    add_blocks(p, BY_PANELS, &b, p.groups * b.row_blocks * b.panel_blocks, b.slices, b.sums + b.gradients + b.band, g, x, out)


cdef bint by_panels(Plan* p, int lane_count) noexcept nogil:
    """Whether there are enough input channels for their vectors, and `places` can hold where windows of a row begin."""
    return (2 * p.c > lane_count and p.w.places * p.w.stride <= 0x7fffffff
            and not (outputs_pay(p, lane_count) and 4 * ceil_div(p.c, lane_count) * lane_count > 5 * p.c))


cdef bint grad_weight_pixelwise(Plan* p, const real* g, const real* x, real* out) except -1:
    """The same of images that lie pixel by pixel: whether one of the ways that take them suits. Allocates."""
    if weight_depthwise(p, g, x, out) or weight_by_winograd(p, g, x, out) or weight_by_blocks(p, g, x, out):
        return True
    if not by_panels(p, lanes(out)):
        return False
    grad_weight_by_panels(p, g, x, out)
    return True


cdef void grad_weight(Plan* p, const real* g, const real* x, real* out):
    """The gradient of the weight into `out`. Allocates."""
    cdef Storage seen = thinned(p, &x)
    if (weight_by_product(p, g, x, out) or weight_depthwise(p, g, x, out) or weight_by_winograd(p, g, x, out)
            or weight_by_blocks(p, g, x, out)):
        return
    join_rows(p)
    cdef bint pay = outputs_pay(p, lanes(out))
    if by_panels(p, lanes(out)):
        grad_weight_by_panels(p, g, x, out)
    elif pay:
        grad_weight_by_outputs(p, g, x, out)
    else:
        grad_weight_by_lanes(p, g, x, out)


def conv2d_grad_weight(TensorBase g not None, TensorBase x not None, kernel, tuple stride, tuple padding, tuple dilation,
                       Py_ssize_t groups):
    """Gradient of conv2d and conv3d with respect to their weight [O, C / groups, *kernel]."""
    kernel = plain(kernel)
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_weight", g, x)
    cdef Py_ssize_t channels = <Py_ssize_t>x.shape[1] // groups
    cdef TensorBase rows = rows_of_points(g, kernel, stride, padding, groups), seen = pixel_rows(x)
    if rows is not None and seen is not None and g.shape[2:] == x.shape[2:]:
        rows = matmul(make_tensor(rows.storage, rows.shape[::-1], rows._strides[::-1], rows.offset, rows.dtype), seen)
        return make_tensor(rows.storage, rows.shape + kernel, rows._strides + (1,) * len(kernel), rows.offset, rows.dtype)
    cdef TensorBase out = empty_host((g.shape[1], channels) + kernel, g.dtype)
    if g.size == 0 or out.size == 0:
        memset(address(out), 0, out.size * out.dtype.itemsize)
        return out
    set_geometry(&plan, x.shape, channels, <Py_ssize_t>g.shape[1] // groups, kernel, stride, padding, dilation, groups)
    if seen is not None and pixel_rows(g) is not None:
        plan.pixelwise = True
        if (grad_weight_pixelwise[float](&plan, <float*>address(g), <float*>address(x), <float*>address(out)) if code == FLOAT32 else
                grad_weight_pixelwise[double](&plan, <double*>address(g), <double*>address(x), <double*>address(out))):
            return out
        plan.pixelwise = False
    g, x = packed(g), packed(x)
    if code == FLOAT32:
        grad_weight[float](&plan, <float*>address(g), <float*>address(x), <float*>address(out))
    else:
        grad_weight[double](&plan, <double*>address(g), <double*>address(x), <double*>address(out))
    return out


KERNELS = {"conv2d_grad_weight": conv2d_grad_weight, "conv3d_grad_weight": conv2d_grad_weight}
