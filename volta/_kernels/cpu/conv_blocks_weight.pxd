# The gradient of the weight of large kernels and stride 1, by Winograd's F(4 x 4, 2 x 2) of blocks of 4 x 4 taps: of 7 x 7 taps, 25
#   products in place of 49.
#
# G[25][rows of tiles][tiles][images][o] and V[25][rows of tiles][tiles][images][c] are the transformed gradients and inputs of a chunk,
#   on the same grid (winograd_blocks.pxd). For each point and block the products of G and of V as many tiles further on, summed over all
#   tiles, are S[25][blocks][o][c], of which the taps are made in the end.
# What is not finite would spread over the taps: where a result is not, the caller computes directly.
# Threads: over blocks of rows and panels of channels, and slices of the chunks where there are few of them; slices are added in their
#   order. Which there are depends on sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, add_slices, ceil_div, channel_in, channel_out, chunk_at, items_of, pixels_in, pixels_out, set_chunk, slices_of, threads_of)
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes
from volta._kernels.cpu.winograd cimport all_finite, padded
from volta._kernels.cpu.winograd_blocks cimport (
    BLOCK, MOST_TAPS, POINTS, by_blocks, grid_of, to_quad32, to_quad64, transform_grid, use_blocks)

cdef enum:
    SMALLEST_CHUNK = 32         # tiles
    LARGEST_CHUNK = 112
    ROWS = 32                   # outputs of a block, at most
    PANEL = 3 * 16              # input channels of a panel, at most
    LONG_LINE = 48              # tiles of a line, from which on those between two lines are passed over

cdef struct Way:
    Py_ssize_t vectors, panels, row_blocks, rows, slices
    Py_ssize_t high, wide                       # blocks of a kernel
    Py_ssize_t grid                             # tiles of a row of G and V
    Py_ssize_t v_plane, g_plane                 # elements of V and G for one point,
    Py_ssize_t s_block, s_plane                 # and of S for one block and one point


cdef inline void cut(Plan* p, Way* w) noexcept nogil:
    w.vectors = ceil_div(p.c, p.lanes)
    w.panels = ceil_div(w.vectors, 3)
    w.row_blocks = ceil_div(p.o, ROWS)
    w.rows = padded(ceil_div(p.o, w.row_blocks), TILE_ROWS)
    w.row_blocks = ceil_div(p.o, w.rows)
    w.high, w.wide, w.grid = ceil_div(p.h.kernel, BLOCK), ceil_div(p.w.kernel, BLOCK), grid_of(&p.w, p.w.places)
    set_chunk(p, LARGEST_CHUNK)
    if p.chunks * p.groups * w.panels * w.row_blocks < items_of(p):
        set_chunk(p, SMALLEST_CHUNK)
    w.slices = slices_of(p, p.groups * w.panels * w.row_blocks)
    w.v_plane = p.images * grid_of(&p.h, p.h.chunk) * w.grid * 3 * p.lanes + p.lanes    # not a power of two apart
    w.g_plane = p.images * p.h.chunk * w.grid * padded(w.rows, p.lanes) + p.lanes
    w.s_block = w.rows * 3 * p.lanes
    w.s_plane = w.high * w.wide * w.s_block + p.lanes


cdef inline Py_ssize_t panel_at(Way* w, Py_ssize_t panel) noexcept nogil:
    """Its first vector."""
    return w.vectors * panel // w.panels


cdef inline void add_products(Plan* p, Way* w, Chunk* chunk, Py_ssize_t rows, Py_ssize_t width, const real* g, const real* v, bint add,
                              real* sums) noexcept nogil:
    """S from, or plus, what a chunk gives. What G holds between the last tile of a line and the next line is 0."""
    cdef Py_ssize_t line = p.w.places * chunk.images, apart = w.grid * chunk.images, step = padded(rows, p.lanes)
    cdef Py_ssize_t lines = chunk.rows, tiles = line, point, block, i, row, k
    cdef const real* b
    if line < LONG_LINE:
        lines, tiles = 1, (chunk.rows - 1) * apart + line
    for point in range(POINTS):
        for block in range(w.high * w.wide):
            b = v + point * w.v_plane + (2 * (block // w.wide) * w.grid + 2 * (block % w.wide)) * chunk.images * width
            for i in range(ceil_div(rows, TILE_ROWS)):
                row = i * TILE_ROWS
                for k in range(lines):
                    multiply(tiles, g + point * w.g_plane + k * apart * step + row, 1, step, <int>min(TILE_ROWS, rows - row),
                             b + k * apart * width, width, sums + point * w.s_plane + block * w.s_block + row * width, width, <int>width,
                             <const real*>NULL, add or k > 0)


cdef inline bint store_taps(Plan* p, Way* w, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t channels, const real* sums,
                            real* out) noexcept nogil:
    """The taps of S: whether all are finite."""
    cdef real lines[(MOST_TAPS + 1) * PANEL]                # the last one for what lies beyond the kernel
    cdef const real* at[POINTS]
    cdef real* to[BLOCK * BLOCK]
    cdef Py_ssize_t row, block, y, x
    cdef int k
    cdef bint finite = True
    for row in range(rows):
        for block in range(w.high * w.wide):
            for k in range(POINTS):
                at[k] = sums + k * w.s_plane + block * w.s_block + row * width
            for k in range(BLOCK * BLOCK):
                y, x = block // w.wide * BLOCK + k // BLOCK, block % w.wide * BLOCK + k % BLOCK
                to[k] = &lines[(y * p.w.kernel + x if y < p.h.kernel and x < p.w.kernel else p.taps) * width]
            if real is float:
                to_quad32(width, at, to)
            else:
                to_quad64(width, at, to)
        finite = all_finite(p.taps * width, <const real*>&lines[0]) and finite
        turn(p.taps, channels, <const real*>&lines[0], width, out + row * p.c * p.taps, p.taps)
    return finite


cdef inline bint blocks_share(Plan* p, Way* w, Py_ssize_t item, const real* g, const real* x, real* out, real* space) noexcept nogil:
    """One panel of one block of rows of one slice: whether all its taps are finite. OUT: its place in out[slice][groups * o][c * taps]."""
    cdef Py_ssize_t row0 = item % w.row_blocks * w.rows, rest = item // w.row_blocks, panel = rest % w.panels
    cdef Py_ssize_t group = rest // w.panels % p.groups, part = rest // w.panels // p.groups, start = p.chunks * part // w.slices
    cdef Py_ssize_t c0 = panel_at(w, panel) * p.lanes, width = panel_at(w, panel + 1) * p.lanes - c0, rows = min(w.rows, p.o - row0)
    cdef Py_ssize_t channels = min(width, p.c - c0), index
    cdef Chunk chunk
    cdef real* gradients = space
    cdef real* v = gradients + POINTS * w.g_plane
    cdef real* sums = v + POINTS * w.v_plane
    cdef real* pixels = sums + POINTS * w.s_plane
    for index in range(start, p.chunks * (part + 1) // w.slices):
        chunk = chunk_at(p, index)
        transform_grid(p, 2, 2 * chunk.y, chunk.rows, 0, w.grid, p.h.full, p.w.full, chunk.images, rows,
                       g + chunk.image * p.groups * p.o * pixels_out(p) + (group * p.o + row0) * channel_out(p),
                       p.groups * p.o * pixels_out(p), gradients, w.g_plane, pixels)
        transform_grid(p, 5, 2 * chunk.y + p.h.first, grid_of(&p.h, chunk.rows), p.w.first, w.grid, p.h.source, p.w.source, chunk.images,
                       channels, x + chunk.image * p.groups * p.c * pixels_in(p) + (group * p.c + c0) * channel_in(p),
                       p.groups * p.c * pixels_in(p), v, w.v_plane, pixels)
        add_products(p, w, &chunk, rows, width, <const real*>gradients, <const real*>v, index > start, sums)
    return store_taps(p, w, rows, width, channels, <const real*>sums, out + (((part * p.groups + group) * p.o + row0) * p.c + c0) * p.taps)


cdef inline bint weight_by_blocks(Plan* whole, const real* g, const real* x, real* out) except -1:
    """Whether `out` could be computed this way: not where the sizes do not suit, or where a result is not finite. Allocates."""
    cdef Ranges ranges
    cdef int t
    if not by_blocks(whole):
        return False
    cdef Plan q = whole[0]
    cdef Plan* p = &q
    cdef Way w
    cdef int threads = threads_of(p), bad = 0
    p.lanes = lanes(out)
    use_blocks(p)
    cut(p, &w)
    cdef Py_ssize_t size = p.groups * p.o * p.c * p.taps, item
    cdef Py_ssize_t pixels = max(p.h.band * p.w.source * 3 * p.lanes, 2 * p.h.chunk * p.w.full * padded(w.rows, p.lanes))
    pixels += max(3 * p.lanes, padded(w.rows, p.lanes))
    cdef Py_ssize_t own = padded(POINTS * (w.v_plane + w.g_plane + w.s_plane) + pixels, 16)
    cdef Storage scratch = host_storage((threads * own + (w.slices * size if w.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if w.slices > 1 else out
    with nogil:
        deal(&ranges, p.groups * w.row_blocks * w.panels * w.slices, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                bad += not blocks_share(p, &w, item, g, x, parts, buffers + threadid() * own)
                item = take(&ranges, t)
        if w.slices > 1:
            add_slices(out, <const real*>parts, w.slices, size, threads)
    return bad == 0
