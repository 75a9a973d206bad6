# The gradient of the weight, of kernels of 3 x 3 and stride 1, by Winograd's F(3 x 3, 2 x 2): 16 products in place of 36.
#
# Tiles of 2 x 2 gradients see 4 x 4 inputs, two apart (winograd.pxd). G[16][tiles][o] and V[16][tiles][c] are the transformed gradients
#   and inputs of a chunk, and for each point the products of G and V, summed over all tiles, are S[panel][16][o][panel of c], of which the
#   taps are made in the end.
# What is not finite would spread over the taps: where a result is not, the caller computes directly.
# Threads: over blocks, and slices of the chunks where there are few blocks; slices are added in their order. Which
#   blocks and slices there are depends on sizes only. Sizes: the front end.

from cython.parallel cimport prange, threadid

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, add_slices, ceil_div, channel_in, channel_out, chunk_at, items_of, pixels_in, pixels_out, set_chunk, slices_of, threads_of)
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes
from volta._kernels.cpu.winograd cimport POINTS, all_finite, by_three, padded, to_triple32, to_triple64, transform_tiles, use_tiles

cdef enum:
    LEAST_CHANNELS = 16         # read and written: the transforms are a small part then
    LEAST_TILES = 16            # of all images, for which the sums are turned into taps
    SMALLEST_CHUNK = 32         # tiles
    LARGEST_CHUNK = 64
    ROWS = 64                   # outputs of a block, at most
    PANELS = 2                  # of up to 3 vectors of input channels, of a block

cdef struct Blocks:
    Py_ssize_t vectors, panels, panel_blocks, row_blocks, rows, slices
    Py_ssize_t v_room, g_room                   # elements of V and G for one tile,
    Py_ssize_t v_plane, g_plane                 # for one point,
    Py_ssize_t sums                             # and of S for one panel


cdef inline bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster."""
    cdef Py_ssize_t tiles = ceil_div(p.h.full, 2) * ceil_div(p.w.full, 2)
    return by_three(p) and min(p.c, p.o) >= LEAST_CHANNELS and p.n * tiles >= LEAST_TILES and 16 * tiles <= 6 * p.h.full * p.w.full


cdef inline void cut(Plan* p, Blocks* b) noexcept nogil:
    cdef Py_ssize_t tiles
    b.vectors = ceil_div(p.c, p.lanes)
    b.panels = ceil_div(b.vectors, 3)
    b.panel_blocks = ceil_div(b.panels, PANELS)
    b.row_blocks = ceil_div(p.o, ROWS)
    b.rows = padded(ceil_div(p.o, b.row_blocks), TILE_ROWS)
    b.row_blocks = ceil_div(p.o, b.rows)
    set_chunk(p, LARGEST_CHUNK)
    if p.chunks * p.groups * b.panel_blocks * b.row_blocks < items_of(p):
        set_chunk(p, SMALLEST_CHUNK)
    b.slices = slices_of(p, p.groups * b.panel_blocks * b.row_blocks)
    b.v_room, b.g_room = PANELS * 3 * p.lanes, padded(b.rows, p.lanes)
    tiles = p.images * p.h.chunk * p.w.places
    b.v_plane, b.g_plane = tiles * b.v_room + p.lanes, tiles * b.g_room + p.lanes       # not a power of two apart
    b.sums = POINTS * (b.rows * 3 + 1) * p.lanes


cdef inline Py_ssize_t panel_at(Blocks* b, Py_ssize_t panel) noexcept nogil:
    """Its first vector."""
    return b.vectors * panel // b.panels


cdef inline void add_products(Plan* p, Blocks* b, Py_ssize_t tiles, Py_ssize_t rows, Py_ssize_t room, Py_ssize_t width, const real* g,
                              const real* v, bint add, real* sums) noexcept nogil:
    """S of a panel from, or plus, what a chunk gives."""
    cdef Py_ssize_t point, row, i, step = padded(rows, p.lanes)
    for point in range(POINTS):
        for i in range(ceil_div(rows, TILE_ROWS)):
            row = i * TILE_ROWS
            multiply(tiles, g + point * b.g_plane + row, 1, step, <int>min(TILE_ROWS, rows - row), v + point * b.v_plane, room,
                     sums + point * (b.rows * 3 + 1) * p.lanes + row * width, width, <int>width, <const real*>NULL, add)


cdef inline bint store_taps(Plan* p, Blocks* b, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t channels, const real* sums,
                            real* out) noexcept nogil:
    """The taps of a panel of S: whether all are finite."""
    cdef real lines[9 * 3 * 16]
    cdef const real* at[POINTS]
    cdef real* to[9]
    cdef Py_ssize_t row
    cdef int k
    cdef bint finite = True
    for k in range(9):
        to[k] = &lines[k * width]
    for row in range(rows):
        for k in range(POINTS):
            at[k] = sums + k * (b.rows * 3 + 1) * p.lanes + row * width
        if real is float:
            to_triple32(width, at, to)
        else:
            to_triple64(width, at, to)
        finite = all_finite(9 * width, <const real*>&lines[0]) and finite
        turn(9, channels, <const real*>&lines[0], width, out + row * p.c * 9, 9)
    return finite


cdef inline bint winograd_block(Plan* p, Blocks* b, Py_ssize_t item, const real* g, const real* x, real* out, real* space) noexcept nogil:
    """One block of one slice: whether all its taps are finite. OUT: its place in out[slice][groups * o][c * 9]."""
    cdef Py_ssize_t row0 = item % b.row_blocks * b.rows, rest = item // b.row_blocks, first = rest % b.panel_blocks * PANELS
    cdef Py_ssize_t group = rest // b.panel_blocks % p.groups, part = rest // b.panel_blocks // p.groups
    cdef Py_ssize_t last = min(first + PANELS, b.panels), c0 = panel_at(b, first) * p.lanes, start = p.chunks * part // b.slices
    cdef Py_ssize_t rows = min(b.rows, p.o - row0), channels = min(panel_at(b, last) * p.lanes, p.c) - c0, index, panel, at, width
    cdef Chunk chunk
    cdef bint finite = True
    cdef real* gradients = space
    cdef real* v = gradients + POINTS * b.g_plane
    cdef real* sums = v + POINTS * b.v_plane
    cdef real* pixels = sums + PANELS * b.sums
    for index in range(start, p.chunks * (part + 1) // b.slices):
        chunk = chunk_at(p, index)
        transform_tiles(p, &chunk, 2, 0, 0, p.h.full, p.w.full, rows, g + (group * p.o + row0) * channel_out(p),
                        p.groups * p.o * pixels_out(p), gradients, b.g_plane, pixels)
        transform_tiles(p, &chunk, 4, p.h.first, p.w.first, p.h.source, p.w.source, channels, x + (group * p.c + c0) * channel_in(p),
                        p.groups * p.c * pixels_in(p), v, b.v_plane, pixels)
        for panel in range(first, last):
            at, width = panel_at(b, panel) * p.lanes, (panel_at(b, panel + 1) - panel_at(b, panel)) * p.lanes
            add_products(p, b, chunk.columns, rows, padded(channels, p.lanes), width, <const real*>gradients, <const real*>v + at - c0,
                         index > start, sums + (panel - first) * b.sums)
    for panel in range(first, last):
        at, width = panel_at(b, panel) * p.lanes, (panel_at(b, panel + 1) - panel_at(b, panel)) * p.lanes
        finite = store_taps(p, b, rows, width, min(width, p.c - at), <const real*>sums + (panel - first) * b.sums,
                            out + (((part * p.groups + group) * p.o + row0) * p.c + at) * 9) and finite
    return finite


cdef inline bint weight_by_winograd(Plan* whole, const real* g, const real* x, real* out) except -1:
    """Whether `out` could be computed this way: not where the sizes do not suit, or where a result is not finite. Allocates."""
    cdef Ranges ranges
    cdef int t
    if not fits(whole):
        return False
    cdef Plan q = whole[0]
    cdef Plan* p = &q
    cdef Blocks b
    cdef int threads = threads_of(p), bad = 0
    p.lanes = lanes(out)
    use_tiles(p)
    cut(p, &b)
    cdef Py_ssize_t pixels = (2 * p.h.chunk + 2) * max(p.w.source, p.w.full) + 1, size = p.groups * p.o * p.c * 9, item
    cdef Py_ssize_t own = padded(POINTS * (b.v_plane + b.g_plane) + PANELS * b.sums + pixels * max(b.v_room, b.g_room), 16)
    cdef Storage scratch = host_storage((threads * own + (b.slices * size if b.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if b.slices > 1 else out
    with nogil:
        deal(&ranges, p.groups * b.row_blocks * b.panel_blocks * b.slices, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                bad += not winograd_block(p, &b, item, g, x, parts, buffers + threadid() * own)
                item = take(&ranges, t)
        if b.slices > 1:
            add_slices(out, <const real*>parts, b.slices, size, threads)
    return bad == 0
