# Convolution with large kernels and stride 1, and the gradient of its input, by Winograd's F(2 x 2, 4 x 4) of blocks of 4 x 4 taps:
#   of 7 x 7 taps, 25 products in place of 49.
#
# V[25][rows of tiles][tiles][images][c] are the transformed inputs of a chunk, which all blocks of a kernel share (winograd_blocks.pxd),
#   U[panel][part of c][25][blocks][c][outputs] the transformed weights, M[25][tiles][images][outputs] the products of a panel of up to 3
#   vectors of outputs, summed over blocks and channels, of which its outputs are made pixel by pixel and turned.
# What is not finite would spread over a tile: where a result is not, the caller computes directly.
# Threads: over groups, chunks and blocks of panels; a result does not depend on how they are cut. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, ceil_div, channel_in, channel_out, chunk_at, pixel_out, pixels_in, pixels_out, set_chunk, store_pixels, threads_of,
    weight_channel, weight_tap)
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes
from volta._kernels.cpu.winograd cimport DEPTH, all_finite, padded
from volta._kernels.cpu.winograd_blocks cimport (
    BLOCK, MOST_TAPS, POINTS, by_blocks, grid_of, quad32, quad64, to_pair32, to_pair64, transform_grid, use_blocks)

cdef enum:
    PANEL = 3 * 16              # outputs of a panel, at most
    BIAS_POINT = 6              # what is added to this product, all four outputs of the tile get
    CHANNELS = 16               # of weights that are transformed at a time
    SMALLEST_CHUNK = 16         # tiles
    LARGEST_CHUNK = 128
    CHUNK_LIMIT = 8192          # tiles times channels, so that V stays in the L2 cache
    ITEMS = 4                   # parts of the work for each thread

cdef struct Way:
    Py_ssize_t vectors, panels, block, blocks   # vectors of outputs; their panels; panels of a block of the work; blocks
    Py_ssize_t high, wide                       # blocks of a kernel
    Py_ssize_t grid                             # tiles of a row of V
    Py_ssize_t room                             # elements of V for one tile,
    Py_ssize_t v_plane, m_plane                 # of V and M for one point
    Py_ssize_t parts, depth                     # parts of the channels that are summed apart, and their length


cdef inline void cut(Plan* p, Way* w, int threads) noexcept nogil:
    """Chunks of tiles and blocks of panels."""
    cdef Py_ssize_t items = ITEMS * threads if threads > 1 else 1
    cdef Py_ssize_t target = max(SMALLEST_CHUNK, min(LARGEST_CHUNK, CHUNK_LIMIT // padded(p.c, p.lanes)))
    w.room, w.vectors = padded(p.c, p.lanes), ceil_div(p.o, p.lanes)
    w.panels = ceil_div(w.vectors, 3)
    w.high, w.wide, w.grid = ceil_div(p.h.kernel, BLOCK), ceil_div(p.w.kernel, BLOCK), grid_of(&p.w, p.w.places)
    w.depth = padded(ceil_div(p.c, ceil_div(p.c, DEPTH)), CHANNELS)
    w.parts = ceil_div(p.c, w.depth)
    set_chunk(p, target)
    while p.chunks * p.groups < items and target > SMALLEST_CHUNK:
        target //= 2
        set_chunk(p, target)
    w.blocks = min(w.panels, ceil_div(items, p.chunks * p.groups))
    w.block = ceil_div(w.panels, w.blocks)
    w.blocks = ceil_div(w.panels, w.block)
    w.v_plane = p.images * grid_of(&p.h, p.h.chunk) * w.grid * w.room + p.lanes         # not a power of two apart
    w.m_plane = p.images * p.h.chunk * p.w.places * 3 * p.lanes + p.lanes


cdef inline Py_ssize_t panel_at(Way* w, Py_ssize_t panel) noexcept nogil:
    """Its first vector."""
    return w.vectors * panel // w.panels


cdef inline Py_ssize_t plane_of(Plan* p, Way* w, Py_ssize_t width) noexcept nogil:
    """Elements of U for one point."""
    return w.high * w.wide * w.depth * width + p.lanes


cdef inline Py_ssize_t group_of(Plan* p, Way* w) noexcept nogil:
    """Elements of U for one group."""
    return w.parts * POINTS * (w.high * w.wide * w.depth * w.vectors + w.panels) * p.lanes


cdef inline Py_ssize_t part_at(Plan* p, Way* w, Py_ssize_t group, Py_ssize_t panel, Py_ssize_t part) noexcept nogil:
    """Where U of a part begins."""
    cdef Py_ssize_t first = panel_at(w, panel), width = (panel_at(w, panel + 1) - first) * p.lanes
    return (group * group_of(p, w) + w.parts * POINTS * (w.high * w.wide * w.depth * first + panel) * p.lanes
            + part * POINTS * plane_of(p, w, width))


cdef inline void transform_kernel(Plan* p, Way* w, Py_ssize_t width, const real* lines, const real* zeros, Py_ssize_t plane,
                                  real* u) noexcept nogil:
    """U of one channel and all blocks. IN: lines[taps][width]; zeros, a line of them."""
    cdef const real* at[BLOCK * BLOCK]
    cdef real* to[POINTS]
    cdef Py_ssize_t block, y, x
    cdef int k
    for block in range(w.high * w.wide):
        for k in range(BLOCK * BLOCK):
            y, x = block // w.wide * BLOCK + k // BLOCK, block % w.wide * BLOCK + k % BLOCK
            if y >= p.h.kernel or x >= p.w.kernel:
                at[k] = zeros
            elif p.transposed:
                at[k] = lines + ((p.h.kernel - 1 - y) * p.w.kernel + p.w.kernel - 1 - x) * width
            else:
                at[k] = lines + (y * p.w.kernel + x) * width
        for k in range(POINTS):
            to[k] = u + k * plane + block * w.depth * width
        if real is float:
            quad32(width, at, to)
        else:
            quad64(width, at, to)


cdef inline void transform_share(Plan* p, Way* w, Py_ssize_t item, const real* weight, real* u) noexcept nogil:
    """U of some channels of one panel."""
    cdef real lines[(MOST_TAPS + 1) * PANEL]
    cdef Py_ssize_t shares = ceil_div(p.c, CHANNELS), c0 = item % shares * CHANNELS, panel = item // shares % w.panels, c
    cdef Py_ssize_t group = item // shares // w.panels, first = panel_at(w, panel), width = (panel_at(w, panel + 1) - first) * p.lanes
    cdef Py_ssize_t outputs = min(width, p.o - first * p.lanes)
    memset(&lines[p.taps * width], 0, width * sizeof(real))
    weight += group * p.o * p.c * p.taps
    u += part_at(p, w, group, panel, c0 // w.depth)
    for c in range(c0, min(c0 + CHANNELS, p.c)):
        if p.transposed:
            pack(outputs, width, p.taps, weight + c * p.o * p.taps + first * p.lanes * weight_channel(p), weight_channel(p), weight_tap(p),
                 &lines[0])
        else:
            pack(outputs, width, p.taps, weight + first * p.lanes * p.c * p.taps + c * weight_channel(p), p.c * p.taps, weight_tap(p),
                 &lines[0])
        transform_kernel(p, w, width, <const real*>&lines[0], <const real*>&lines[p.taps * width], plane_of(p, w, width),
                         u + c % w.depth * width)


cdef inline void multiply_part(Plan* p, Way* w, Chunk* chunk, Py_ssize_t width, Py_ssize_t part, const real* v, const real* u,
                               const real* bias, real* m) noexcept nogil:
    """What one part of the channels adds to M of a panel. IN: u, that of the part."""
    cdef Py_ssize_t c = part * w.depth, line = p.w.places * chunk.images, point, block, row, tile, i
    cdef Py_ssize_t tiles = ceil_div(line, TILE_ROWS)
    cdef const real* a
    cdef const real* b
    cdef real* sums
    for point in range(POINTS):
        for block in range(w.high * w.wide):
            b = u + point * plane_of(p, w, width) + block * w.depth * width
            for row in range(chunk.rows):
                a = v + point * w.v_plane + ((row + 2 * (block // w.wide)) * w.grid + 2 * (block % w.wide)) * chunk.images * w.room + c
                sums = m + point * w.m_plane + row * line * width
                for i in range(tiles):                      # of about equal height
                    tile = line * i // tiles
                    multiply(min(w.depth, p.c - c), a + tile * w.room, w.room, 1, <int>(line * (i + 1) // tiles - tile), b, width,
                             sums + tile * width, width, <int>width,
                             bias if point == BIAS_POINT and block == 0 and part == 0 else <const real*>NULL, part > 0 or block > 0)


cdef inline bint store_outputs(Plan* p, Way* w, Chunk* chunk, Py_ssize_t width, Py_ssize_t outputs, const real* m, real* out,
                               real* pixels) noexcept nogil:
    """The outputs of a panel of a chunk: whether all are finite. OUT: out, the panel's first channel of the chunk's first image."""
    cdef const real* at[POINTS]
    cdef real* to[4]
    cdef Py_ssize_t rows = min(2 * chunk.rows, p.h.full - 2 * chunk.y), size = rows * p.w.full, i, ty, tx, y, x
    cdef bint finite = True
    cdef int k
    for i in range(chunk.images):
        for ty in range(chunk.rows):
            for tx in range(p.w.places):
                for k in range(POINTS):
                    at[k] = m + k * w.m_plane + ((ty * p.w.places + tx) * chunk.images + i) * width
                for k in range(4):
                    y, x = 2 * ty + k // 2, 2 * tx + k % 2
                    to[k] = pixels + (y * p.w.full + x if y < rows and x < p.w.full else size) * width
                if real is float:
                    to_pair32(width, at, to)
                else:
                    to_pair64(width, at, to)
        finite = all_finite(size * width, <const real*>pixels) and finite
        store_pixels(p, size, outputs, <const real*>pixels, width,
                     out + i * p.groups * p.o * pixels_out(p) + 2 * chunk.y * p.w.full * pixel_out(p))
    return finite


cdef inline bint blocks_part(Plan* p, Way* w, Py_ssize_t item, const real* x, const real* u, const real* bias, real* out,
                             real* space) noexcept nogil:
    """One block of panels of one group for one chunk of tiles: whether all are finite."""
    cdef real line[PANEL]
    cdef const real* panel_bias = <const real*>&line[0] if bias != NULL else <const real*>NULL
    cdef Py_ssize_t group = item % p.groups, block = item // p.groups % w.blocks, panel, first, width, outputs, i, part
    cdef Chunk chunk = chunk_at(p, item // p.groups // w.blocks)
    cdef real* v = space
    cdef real* m = v + POINTS * w.v_plane
    cdef real* pixels = m + POINTS * w.m_plane
    cdef bint finite = True
    transform_grid(p, 5, 2 * chunk.y + p.h.first, grid_of(&p.h, chunk.rows), p.w.first, w.grid, p.h.source, p.w.source, chunk.images, p.c,
                   x + chunk.image * p.groups * p.c * pixels_in(p) + group * p.c * channel_in(p), p.groups * p.c * pixels_in(p), v,
                   w.v_plane, pixels)
    for panel in range(block * w.block, min(w.panels, (block + 1) * w.block)):
        first, width = panel_at(w, panel) * p.lanes, (panel_at(w, panel + 1) - panel_at(w, panel)) * p.lanes
        outputs = min(width, p.o - first)
        for i in range(width if bias != NULL else 0):
            line[i] = bias[group * p.o + first + i] if i < outputs else 0
        for part in range(w.parts):
            multiply_part(p, w, &chunk, width, part, <const real*>v, u + part_at(p, w, group, panel, part), panel_bias, m)
        finite = store_outputs(p, w, &chunk, width, outputs, <const real*>m,
                               out + chunk.image * p.groups * p.o * pixels_out(p) + (group * p.o + first) * channel_out(p),
                               pixels) and finite
    return finite


cdef inline bint convolve_by_blocks(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1:
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
    cut(p, &w, threads)
    cdef Py_ssize_t item, pixels = max(p.h.band * p.w.source * w.room, 2 * p.h.chunk * p.w.full * 3 * p.lanes) + max(w.room, 3 * p.lanes)
    cdef Py_ssize_t own = padded(POINTS * (w.v_plane + w.m_plane) + pixels, 16)
    cdef Storage scratch = host_storage((threads * own + p.groups * group_of(p, &w)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* u = buffers + threads * own
    with nogil:
        for item in prange(p.groups * w.panels * ceil_div(p.c, CHANNELS), num_threads=threads, schedule="static"):
            transform_share(p, &w, item, weight, u)
        deal(&ranges, p.chunks * w.blocks * p.groups, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                bad += not blocks_part(p, &w, item, x, <const real*>u, bias, out, buffers + threadid() * own)
                item = take(&ranges, t)
    return bad == 0
