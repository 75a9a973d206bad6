# Convolution with kernels of 3 x 3 and stride 1, and the gradient of its input, by Winograd's F(2 x 2, 3 x 3): 16 products in place of 36.
#
# The places are tiles of 2 x 2 outputs, which see 4 x 4 inputs, two apart (winograd.pxd). V[16][tiles][c] are the transformed inputs of
#   a chunk, U[16][c][panel] the transformed weights of a panel of up to 3 vectors of outputs, and M[16][tiles][panel] their products,
#   of which the outputs of a panel are summed pixel by pixel and turned.
# What is not finite would spread over a tile: where a result is not, the caller computes directly.
# Threads: over groups, chunks and blocks of panels; a result does not depend on how they are cut. Sizes: the front end.

from cython.parallel cimport prange, threadid

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, ceil_div, channel_in, channel_out, chunk_at, pixel_out, pixels_in, pixels_out, set_chunk, store_pixels, threads_of,
    weight_tap)
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.multiply cimport multiply
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes
from volta._kernels.cpu.winograd cimport (
    DEPTH, POINTS, all_finite, by_three, padded, to_pair32, to_pair64, transform_tiles, triple32, triple64, use_tiles)

cdef enum:
    PANEL = 3 * 16              # outputs of a panel, at most
    BIAS_POINT = 5              # what is added to this product, all four outputs of the tile get
    CHANNELS = 16               # of weights that are transformed at a time
    LEAST_CHANNELS = 16         # read and written: the transforms are a small part then
    LEAST_TILES = 32            # of all images, for which the weights are transformed
    FEW_TILES = 64              # up to which they are transformed for each panel apart,
    LEAST_PANELS = 4            # if these are enough parts of the work
    SMALLEST_CHUNK = 16         # tiles
    LARGEST_CHUNK = 128
    CHUNK_LIMIT = 8192          # tiles times channels, so that V stays in the L2 cache
    ITEMS = 4                   # parts of the work for each thread

cdef struct Winograd:
    Py_ssize_t vectors, panels, block, blocks   # vectors of outputs; their panels; panels of a block of the work; blocks
    Py_ssize_t room                             # elements of V for one tile,
    Py_ssize_t v_plane, m_plane                 # of V and M for one point
    Py_ssize_t u_group                          # of U for one group
    Py_ssize_t parts, depth                     # parts of the channels that are summed apart, and their length
    bint fresh                                  # few tiles, in one chunk: a thread makes U of one panel and part as it goes


cdef inline bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster."""
    cdef Py_ssize_t tiles = ceil_div(p.h.full, 2) * ceil_div(p.w.full, 2)
    return by_three(p) and min(p.c, p.o) >= LEAST_CHANNELS and p.n * tiles >= LEAST_TILES and 16 * tiles <= 6 * p.h.full * p.w.full


cdef inline void cut(Plan* p, Winograd* w, int threads) noexcept nogil:
    """Chunks of tiles and blocks of panels."""
    cdef Py_ssize_t items = ITEMS * threads if threads > 1 else 1
    cdef Py_ssize_t target = max(SMALLEST_CHUNK, min(LARGEST_CHUNK, CHUNK_LIMIT // padded(p.c, p.lanes)))
    w.room, w.vectors = padded(p.c, p.lanes), ceil_div(p.o, p.lanes)
    w.panels = ceil_div(w.vectors, 3)
    w.depth = padded(ceil_div(p.c, ceil_div(p.c, DEPTH)), CHANNELS)
    w.parts = ceil_div(p.c, w.depth)
    w.fresh = p.n * p.h.places * p.w.places <= FEW_TILES and w.panels >= LEAST_PANELS
    set_chunk(p, FEW_TILES if w.fresh else target)
    while p.chunks * p.groups < items and target > SMALLEST_CHUNK and not w.fresh:
        target //= 2
        set_chunk(p, target)
    w.blocks = min(w.panels, ceil_div(items, p.chunks * p.groups))
    w.block = ceil_div(w.panels, w.blocks)
    w.blocks = ceil_div(w.panels, w.block)
    w.v_plane = p.images * p.h.chunk * p.w.places * w.room + p.lanes    # not a power of two apart
    w.m_plane = p.images * p.h.chunk * p.w.places * 3 * p.lanes + p.lanes
    w.u_group = w.parts * POINTS * (w.depth * w.vectors + w.panels) * p.lanes


cdef inline Py_ssize_t panel_at(Winograd* w, Py_ssize_t panel) noexcept nogil:
    """Its first vector."""
    return w.vectors * panel // w.panels


cdef inline void transform_weight(Plan* p, Winograd* w, Py_ssize_t group, Py_ssize_t panel, Py_ssize_t c0, const real* weight,
                                  real* u) noexcept nogil:
    """U of some channels, from c0 on. OUT: u, that of their part."""
    cdef real lines[CHANNELS * 9 * PANEL]
    cdef const real* at[9]
    cdef real* to[POINTS]
    cdef Py_ssize_t first = panel_at(w, panel), width = (panel_at(w, panel + 1) - first) * p.lanes, c
    cdef Py_ssize_t channels = min(CHANNELS, p.c - c0), outputs = min(width, p.o - first * p.lanes)
    cdef Py_ssize_t by_channel = 1 if p.taps_first else 9, by_tap = channels if p.taps_first else 1
    cdef int k
    weight += group * p.o * p.c * 9
    u += c0 % w.depth * width
    if p.taps_first:
        weight += c0 * p.o * 9 + first * p.lanes if p.transposed else first * p.lanes * p.c * 9 + c0
        for k in range(9):
            pack(outputs, width, channels, weight + k * weight_tap(p), 1 if p.transposed else 9 * p.c, 9 * p.o if p.transposed else 1,
                 &lines[k * channels * width])
    elif p.transposed:
        for c in range(channels):
            pack(outputs, width, 9, weight + ((c0 + c) * p.o + first * p.lanes) * 9, 9, 1, &lines[c * 9 * width])
    else:
        pack(outputs, width, 9 * channels, weight + (first * p.lanes * p.c + c0) * 9, 9 * p.c, 1, &lines[0])
    for c in range(channels):
        for k in range(9):
            at[k] = &lines[(c * by_channel + (8 - k if p.transposed else k) * by_tap) * width]
        for k in range(POINTS):
            to[k] = u + k * (w.depth * width + p.lanes) + c * width
        if real is float:
            triple32(width, at, to)
        else:
            triple64(width, at, to)


cdef inline bint store_outputs(Plan* p, Winograd* w, Chunk* chunk, Py_ssize_t width, Py_ssize_t outputs, const real* m, real* out,
                               real* pixels) noexcept nogil:
    """The outputs of a panel of a chunk: whether all are finite. OUT: out, the panel's first channel of the chunk's first image."""
    cdef const real* at[POINTS]
    cdef real* to[4]
    cdef Py_ssize_t rows = min(2 * chunk.rows, p.h.full - 2 * chunk.y), size = rows * p.w.full, i, ty, tx, y, x, tile = 0
    cdef bint finite = True
    cdef int k
    for i in range(chunk.images):
        for ty in range(chunk.rows):
            for tx in range(p.w.places):
                for k in range(POINTS):
                    at[k] = m + k * w.m_plane + tile * width
                for k in range(4):
                    y, x = 2 * ty + k // 2, 2 * tx + k % 2
                    to[k] = pixels + (y * p.w.full + x if y < rows and x < p.w.full else size) * width
                if real is float:
                    to_pair32(width, at, to)
                else:
                    to_pair64(width, at, to)
                tile += 1
        finite = all_finite(size * width, <const real*>pixels) and finite
        store_pixels(p, size, outputs, <const real*>pixels, width,
                     out + i * p.groups * p.o * pixels_out(p) + 2 * chunk.y * p.w.full * pixel_out(p))
    return finite


cdef inline Py_ssize_t part_at(Plan* p, Winograd* w, Py_ssize_t group, Py_ssize_t panel, Py_ssize_t part) noexcept nogil:
    """Where U of a part begins."""
    cdef Py_ssize_t first = panel_at(w, panel), width = panel_at(w, panel + 1) - first
    return group * w.u_group + POINTS * (w.parts * (w.depth * first + panel) + part * (w.depth * width + 1)) * p.lanes


cdef inline void transform_share(Plan* p, Winograd* w, Py_ssize_t item, const real* weight, real* u) noexcept nogil:
    """U of some channels of one panel."""
    cdef Py_ssize_t shares = ceil_div(p.c, CHANNELS), c0 = item % shares * CHANNELS, panel = item // shares % w.panels
    cdef Py_ssize_t group = item // shares // w.panels
    transform_weight(p, w, group, panel, c0, weight, u + part_at(p, w, group, panel, c0 // w.depth))


cdef inline void multiply_part(Plan* p, Winograd* w, Py_ssize_t tiles, Py_ssize_t width, Py_ssize_t part, const real* v, const real* u,
                               const real* bias, real* m) noexcept nogil:
    """What one part of the channels adds to M of a panel. IN: u, that of the part."""
    cdef Py_ssize_t c = part * w.depth, point, i, tile
    for point in range(POINTS):
        for i in range(ceil_div(tiles, TILE_ROWS)):
            tile = i * TILE_ROWS
            multiply(min(w.depth, p.c - c), v + point * w.v_plane + tile * w.room + c, w.room, 1, <int>min(TILE_ROWS, tiles - tile),
                     u + point * (w.depth * width + p.lanes), width, m + point * w.m_plane + tile * width, width, <int>width,
                     bias if point == BIAS_POINT and part == 0 else <const real*>NULL, part > 0)


cdef inline bint winograd_part(Plan* p, Winograd* w, Py_ssize_t item, const real* x, const real* weight, real* u, const real* bias,
                               real* out, real* space) noexcept nogil:
    """One block of panels of one group for one chunk of tiles: whether all are finite. IN: u, all of it, or room for a fresh part."""
    cdef real line[PANEL]
    cdef const real* panel_bias = <const real*>&line[0] if bias != NULL else <const real*>NULL
    cdef Py_ssize_t group = item % p.groups, block = item // p.groups % w.blocks, panel, first, width, outputs, i, part
    cdef Chunk chunk = chunk_at(p, item // p.groups // w.blocks)
    cdef real* v = space
    cdef real* m = v + POINTS * w.v_plane
    cdef real* pixels = m + POINTS * w.m_plane
    cdef bint finite = True
    transform_tiles(p, &chunk, 4, p.h.first, p.w.first, p.h.source, p.w.source, p.c, x + group * p.c * channel_in(p),
                    p.groups * p.c * pixels_in(p), v, w.v_plane, pixels)
    for panel in range(block * w.block, min(w.panels, (block + 1) * w.block)):
        first, width = panel_at(w, panel) * p.lanes, (panel_at(w, panel + 1) - panel_at(w, panel)) * p.lanes
        outputs = min(width, p.o - first)
        for i in range(width if bias != NULL else 0):
            line[i] = bias[group * p.o + first + i] if i < outputs else 0
        for part in range(w.parts):
            for i in range(ceil_div(min(w.depth, p.c - part * w.depth), CHANNELS) if w.fresh else 0):
                transform_weight(p, w, group, panel, part * w.depth + i * CHANNELS, weight, u)
            multiply_part(p, w, chunk.columns, width, part, <const real*>v, u if w.fresh else u + part_at(p, w, group, panel, part),
                          panel_bias, m)
        finite = store_outputs(p, w, &chunk, width, outputs, <const real*>m,
                               out + chunk.image * p.groups * p.o * pixels_out(p) + (group * p.o + first) * channel_out(p),
                               pixels) and finite
    return finite


cdef inline bint convolve_by_winograd(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` could be computed this way: not where the sizes do not suit, or where a result is not finite. Allocates."""
    cdef Ranges ranges
    cdef int t
    if not fits(whole):
        return False
    cdef Plan q = whole[0]
    cdef Plan* p = &q
    cdef Winograd w
    cdef int threads = threads_of(p), bad = 0
    p.lanes = lanes(out)
    use_tiles(p)
    cut(p, &w, threads)
    cdef Py_ssize_t pixels = (2 * p.h.chunk + 2) * max(p.w.source, 2 * p.w.places) + 1, item
    cdef Py_ssize_t own = padded(POINTS * (w.v_plane + w.m_plane) + pixels * max(w.room, 3 * p.lanes), 16)
    cdef Py_ssize_t u_size = padded(POINTS * (w.depth * 3 + 1) * p.lanes, 16) if w.fresh else 0
    cdef Storage scratch = host_storage((threads * (own + u_size) + (0 if w.fresh else p.groups * w.u_group)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* u = buffers + threads * own
    with nogil:
        for item in prange(0 if w.fresh else p.groups * w.panels * ceil_div(p.c, CHANNELS), num_threads=threads, schedule="static"):
            transform_share(p, &w, item, weight, u)
        deal(&ranges, p.chunks * w.blocks * p.groups, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                bad += not winograd_part(p, &w, item, x, weight, u + threadid() * u_size, bias, out, buffers + threadid() * own)
                item = take(&ranges, t)
    return bad == 0
