# Convolution of images and volumes, and the gradient of its input: products of weights and windows in register tiles.
#
# Layout: x[N, C, (D,) H, W], weight[O, C / groups, (kd,) kh, kw], out[N, O, (od,) oh, ow], all made contiguous here.
# A tile is some output channels by some vectors of places. It reads the input of its windows where it lies in the band (conv_plan.pxd);
#   where rows are much shorter than vectors, im2col of a few vectors and a stretch of the taps is formed first. Kernels of 3 x 3 with
#   many channels go Winograd's way (conv_winograd.pxd), and so do larger ones, block by block (conv_blocks.pxd).
#   Where many windows lie partly outside the input, the tiles of some vectors leave out the taps that none of these sees.
# Threads: over groups, chunks of places and blocks of channels. Every sum has an order that depends on sizes only.
# Sizes: the front end has checked them; `out` sizes are computed here.

from cython.parallel cimport prange, threadid
from libc.string cimport memset

from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_taps import input_gradient_by_taps

from volta._kernels.cpu.conv_band cimport load_band
from volta._kernels.cpu.conv_plan cimport (
    BAND_LIMIT, TARGET, Chunk, Piece, Plan, band_size, ceil_div, chunk_at, finite, form_columns, items_of, join_rows,
    make_tables, pixels_in, pixels_out, set_chunk, set_geometry, threads_of, transpose)
from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.cpu.conv_blocks cimport convolve_by_blocks
from volta._kernels.cpu.conv_cost cimport cropping_pays
from volta._kernels.cpu.conv_depthwise cimport convolve_depthwise
from volta._kernels.cpu.conv_pixels cimport convolve_by_pixels
from volta._kernels.cpu.conv_product cimport beside, convolve_by_product, is_spread, spread, thinned
from volta._kernels.cpu.conv_scatter cimport gradient_by_scatter
from volta._kernels.cpu.conv_seen cimport Seen, fill_steps, list_seen, seen_by, sees_all
from volta._kernels.cpu.conv_winograd cimport convolve_by_winograd
from volta._kernels.cpu.conv_tile cimport lines_of_taps, put, tile_of_taps
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.linalg import linear, matmul
from volta._kernels.cpu.pixels cimport from_rows, pixel_rows, points, rows_of_points
from volta._kernels.core.views cimport float_code, pointer
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes

cdef enum:
    DEPTH = 192                 # taps of im2col at a time: a panel of them stays in the L1 cache
    BAND_DEPTH = 384            # taps of a band at a time, likewise
    LARGEST_TILE = 8 * 3 * 16   # elements of a register tile
    VECTOR = 16                 # most elements of one
    LINE_VECTORS = 8            # vectors of a tile of one row
    MOST_PIECES = 48            # of the vectors of a tile
    BLOCK_ROWS = 64             # channels of a block, if parts are needed: forming im2col is then a small part
    LEAST_ROWS = 32
    BLOCK_WEIGHTS = 262144      # elements of the weight of a block, inside the L2 cache
    SHARED_COLUMNS = 1048576    # elements of im2col of a chunk, if all blocks share it
    COLUMN_COST = 4             # channels whose products with a vector take as long as to form it
    ITEMS = 4                   # parts of the work for each thread
    PACKED_VECTORS = 32         # vectors of places from which on packing the weights is worth while


cdef struct Left:
    # The weights as a left matrix: rows are the channels written to, columns the taps of the channels read. A tile of rows is tile_stride
    # behind the one before, a row row_stride. Packed, a tile is [taps][TILE_ROWS], zeros past the last row.
    Py_ssize_t group_stride, tile_stride, row_stride, channel_stride, tap_stride
    bint packed
    Py_ssize_t tile_rows, block                         # rows of a tile and of a block of the work
    bint shared                                         # im2col of a whole chunk is formed at once
    Py_ssize_t panels                                   # its parts
    Py_ssize_t* steps                                   # [taps by phase][2] of each tap, the slice and row of windows; NULL: all are taken


# ---------------------------------------------------------------- parts of the work

cdef void choose_parts(Plan* p, Left* left, int threads) noexcept nogil:
    """Chunks of places and blocks of rows, which overlap in what they load: no more than the threads need. No sum depends on them."""
    cdef Py_ssize_t target = TARGET, least = 2 * 3 * p.lanes, rows = min(p.o, BLOCK_ROWS)
    cdef Py_ssize_t items = min(items_of(p), ITEMS * threads) if threads > 1 else 1
    cdef Py_ssize_t blocks = min(ceil_div(p.o * p.c * p.taps, BLOCK_WEIGHTS), ceil_div(p.o, BLOCK_ROWS))
    left.tile_rows = TILE_ROWS if p.o >= TILE_ROWS or left.packed else 1
    p.direct = left.tile_rows == 1 or ceil_div(p.w.places, p.lanes) * p.lanes * rows <= p.w.places * (rows + COLUMN_COST)
    while True:
        set_chunk(p, target)
        left.block = ceil_div(ceil_div(p.o, blocks), TILE_ROWS) * TILE_ROWS
        if p.chunks * p.groups * blocks >= items and (band_size(p, p.c) <= BAND_LIMIT or target <= least):
            break
        if target > 2 * least or target > least and (left.block <= BLOCK_ROWS or band_size(p, p.c) > BAND_LIMIT):
            target //= 2
        elif left.block > LEAST_ROWS:
            blocks = ceil_div(p.o, left.block // 2 // TILE_ROWS * TILE_ROWS)
        else:
            break
    left.shared = not p.direct and left.block < p.o
    if left.shared:
        choose_shared(p, left, items)


cdef void choose_shared(Plan* p, Left* left, Py_ssize_t items) noexcept nogil:
    """Few places: the columns of a chunk are formed once, for all blocks of rows and the panels of that chunk."""
    set_chunk(p, max(3 * p.lanes, SHARED_COLUMNS // (p.c * p.taps)))
    left.panels = ceil_div(ceil_div(p.images * p.d.chunk * p.h.chunk * p.w.places, p.lanes), 3)
    left.block = ceil_div(min(p.o, LEAST_ROWS if left.panels * ceil_div(p.o, BLOCK_ROWS) < items else BLOCK_ROWS), TILE_ROWS) * TILE_ROWS


# ---------------------------------------------------------------- products

cdef struct Stripe:
    # Some vectors of a chunk's places as one phase writes them: `count` pieces, `at` in the tile, `to` in the output.
    int count
    int[MOST_PIECES] at, n
    Py_ssize_t[MOST_PIECES] to
    Py_ssize_t step


cdef void set_stripe(Plan* p, Chunk* chunk, Py_ssize_t phase, Py_ssize_t vector, Py_ssize_t vectors, Stripe* s) noexcept nogil:
    cdef Py_ssize_t x0 = phase % p.w.step, y0 = phase // p.w.step % p.h.step, z0 = phase // p.w.step // p.h.step
    cdef Py_ssize_t x, y, z, n, plane = pixels_out(p)
    cdef Piece* piece
    cdef Py_ssize_t at, to
    cdef int i, last = -1
    s.step = p.w.step
    for i in range(p.first_piece[vector], p.first_piece[vector + vectors]):
        piece = p.pieces + i
        z, y = (chunk.z + piece.z) * p.d.step + z0, (chunk.y + piece.y) * p.h.step + y0
        x, n = piece.x * p.w.step + x0, piece.n
        if not p.direct:
            n = min(n, chunk.columns - piece.column)
        if p.w.step > 1:
            n = min(n, ceil_div(p.w.full - x0, p.w.step) - piece.x)
        if n > 0 and z < p.d.full and y < p.h.full:
            at = piece.column - vector * p.lanes
            to = piece.image * p.groups * p.o * plane + (z * p.h.full + y) * p.w.full + x
            if last >= 0 and s.step == 1 and s.at[last] + s.n[last] == at and s.to[last] + s.n[last] == to:
                s.n[last] += <int>n
            else:
                last += 1
                s.at[last], s.n[last], s.to[last] = <int>at, <int>n, to
    s.count = last + 1


cdef void stripe_product(Plan* p, Left* left, Chunk* chunk, Py_ssize_t phase, Py_ssize_t vector, Py_ssize_t vectors, Py_ssize_t row0,
                         Py_ssize_t row1, Py_ssize_t depth, const real* a, const Py_ssize_t* at, const real* b, const Py_ssize_t* taps,
                         const Py_ssize_t* places, const real* bias, bint add, real* out) noexcept nogil:
    """Rows row0 .. row1 of some vectors of a phase. IN: a, the group's weights; b[taps[k] + places[j]], what the vectors see. OUT: out, the
    group's first channel."""
    cdef real tile[LARGEST_TILE + VECTOR]           # `put` reads whole vectors, from anywhere in it
    cdef Stripe stripe
    cdef Py_ssize_t row = row0, first, r, j, plane = pixels_out(p), width = vectors * p.lanes, rows = left.tile_rows
    cdef const real* tile_weight
    cdef bint lines = p.direct or (vector + vectors) * p.lanes <= chunk.columns
    for j in range(vector, vector + vectors):
        lines = lines and p.lengths[j] > 0
    if lines:
        out += (chunk.z * p.h.full + chunk.y) * p.w.full
    else:
        set_stripe(p, chunk, phase, vector, vectors, &stripe)
    while row < row1:
        first = row if left.packed or rows == 1 else min(row, p.o - TILE_ROWS)     # a last tile that would hang over repeats rows
        tile_weight = a + (first // TILE_ROWS * left.tile_stride if left.packed else first * left.row_stride)
        if lines:
            lines_of_taps(<int>rows, depth, tile_weight, left.row_stride, at, b, taps, places, <int>vectors, out + first * plane, plane,
                          p.targets + vector, p.lengths + vector, bias + first if bias != NULL else <const real*>NULL, add,
                          <int>(row - first), <int>(min(row + rows, row1) - first))
        else:
            tile_of_taps(<int>rows, depth, tile_weight, left.row_stride, at, b, taps, places, <int>vectors, &tile[0])
            for r in range(row, min(row + rows, row1)):
                for j in range(stripe.count):
                    put(stripe.n[j], <const real*>&tile[0] + (r - first) * width + stripe.at[j], bias[r] if bias != NULL else 0, add,
                        out + r * plane + stripe.to[j], stripe.step)
        row += rows


cdef Py_ssize_t depth_of(Py_ssize_t taps, Py_ssize_t most) noexcept nogil:
    """Equal steps of up to `most` taps; an empty phase takes one."""
    return max(1, ceil_div(taps, max(1, ceil_div(taps, most))))


cdef void phase_product(Plan* p, Left* left, Chunk* chunk, Py_ssize_t phase, Py_ssize_t row0, Py_ssize_t row1, const real* a,
                        const real* band, const real* bias, real* out, real* columns) noexcept nogil:
    """What one phase writes of a chunk."""
    cdef Py_ssize_t[DEPTH] lines
    cdef Py_ssize_t[3] places
    cdef Py_ssize_t[BAND_DEPTH] some_at, some_taps
    cdef const Py_ssize_t* at
    cdef const Py_ssize_t* taps
    cdef Py_ssize_t first = p.phases[phase], end = p.phases[phase + 1], k, depth, width = 3 * p.lanes, panels, panel, v0, v1 = 0, j, count
    cdef Py_ssize_t most = depth_of(end - first, BAND_DEPTH if p.direct else DEPTH)
    cdef Seen seen
    cdef bint whole = True
    if not p.direct:
        for j in range(DEPTH):
            lines[j] = j * width
        for j in range(3):
            places[j] = j * p.lanes
    panels = ceil_div(chunk.vectors, 3 if left.tile_rows > 1 else LINE_VECTORS)
    for panel in range(panels):
        v0 = v1
        v1 = chunk.vectors * (panel + 1) // panels if left.tile_rows > 1 else min(v0 + LINE_VECTORS, chunk.vectors)
        while v0 < v1:
            j = v1 - v0
            if left.tile_rows == 1:                         # 8, 4, 2, 1
                while j & (j - 1):
                    j &= j - 1
            if left.steps != NULL:
                seen = seen_by(p, chunk, v0, j)
                whole = sees_all(p, &seen)
            k = first
            while True:
                depth = min(most, end - k)
                at, taps, count = p.at + k, p.offsets + k, depth
                if not whole:
                    at, taps, count = some_at, some_taps, list_seen(p, left.steps, &seen, phase, k, depth, some_at, some_taps)
                if count == 0 < k - first:
                    pass
                elif p.direct:
                    stripe_product(p, left, chunk, phase, v0, j, row0, row1, count, a, at, band, taps, p.sources + v0, bias, k > first, out)
                else:
                    form_columns(p, chunk, taps, count, v0, j, band, columns, width)
                    stripe_product(p, left, chunk, phase, v0, j, row0, row1, count, a, at, <const real*>columns, &lines[0], &places[0],
                                   bias, k > first, out)
                k += depth
                if k >= end:
                    break
            v0 += j


cdef void convolve_part(Plan* p, Left* left, Py_ssize_t item, const real* x, const real* a, const real* bias, real* out,
                        real* space) noexcept nogil:
    """One block of channels of one group for one chunk of places."""
    cdef Py_ssize_t group = item % p.groups, row0 = item // p.groups // p.chunks * left.block, phase
    cdef Py_ssize_t columns = 0 if p.direct else (DEPTH + 1) * 3 * p.lanes
    cdef Chunk chunk = chunk_at(p, item // p.groups % p.chunks)
    cdef real* band = space + columns
    load_band(p, &chunk, x + group * p.c * pixels_in(p), x + p.n * p.groups * p.c * pixels_in(p), p.c, p.c, band)
    for phase in range(p.d.step * p.h.step * p.w.step):
        phase_product(p, left, &chunk, phase, row0, min(row0 + left.block, p.o), a + group * left.group_stride, <const real*>band,
                      bias + group * p.o if bias != NULL else <const real*>NULL,
                      out + (chunk.image * p.groups + group) * p.o * pixels_out(p), space)


cdef void form_shared(Plan* p, Chunk* chunk, Py_ssize_t channel, const real* x, const real* end, real* columns, real* band) noexcept nogil:
    """im2col of one channel of a chunk, for all phases. IN: x, the group's first channel. OUT: columns[panel][taps by phase][width]."""
    cdef Py_ssize_t panels = ceil_div(chunk.vectors, 3), panel, phase, v0, v1, count, k, width
    load_band(p, chunk, x + channel * pixels_in(p), end, 1, 1, band)
    for panel in range(panels):
        v0, v1 = chunk.vectors * panel // panels, chunk.vectors * (panel + 1) // panels
        width = (v1 - v0) * p.lanes
        for phase in range(p.d.step * p.h.step * p.w.step):
            k = p.phases[phase]
            count = p.phases[phase + 1] - k
            form_columns(p, chunk, p.offsets + k, count, v0, v1 - v0, <const real*>band,
                         columns + v0 * p.lanes * p.c * p.taps + (k * p.c + channel * count) * width, width)


cdef void shared_part(Plan* p, Left* left, Chunk* chunk, Py_ssize_t item, const real* a, const real* columns, const real* bias,
                      real* out) noexcept nogil:
    """One block of rows by one panel. IN: columns as form_shared leaves them. OUT: out, the group's first channel of the chunk."""
    cdef Py_ssize_t[DEPTH] lines
    cdef Py_ssize_t[3] places
    cdef Py_ssize_t panels = ceil_div(chunk.vectors, 3), panel = item % panels, row0 = item // panels * left.block
    cdef Py_ssize_t phase, j, k, end, depth, most
    cdef Py_ssize_t v0 = chunk.vectors * panel // panels, v1 = chunk.vectors * (panel + 1) // panels, width = (v1 - v0) * p.lanes
    for j in range(DEPTH):
        lines[j] = j * width
    for j in range(3):
        places[j] = j * p.lanes
    columns += v0 * p.lanes * p.c * p.taps
    for phase in range(p.d.step * p.h.step * p.w.step):
        k, end = p.phases[phase] * p.c, p.phases[phase + 1] * p.c
        most = depth_of(end - k, DEPTH)
        while True:
            depth = min(most, end - k)
            stripe_product(p, left, chunk, phase, v0, v1 - v0, row0, min(row0 + left.block, p.o), depth, a, p.at + k, columns + k * width,
                           &lines[0], &places[0], bias, k > p.phases[phase] * p.c, out)
            k += depth
            if k >= end:
                break


cdef void convolve_shared(Plan* p, Left* left, const real* x, const real* a, const real* bias, real* out, real* columns, real* bands,
                          Py_ssize_t own, int threads) noexcept nogil:
    """Chunk by chunk, group by group: all threads form its columns, then all take its products."""
    cdef Ranges ranges
    cdef int t
    cdef Py_ssize_t index, group, item, items
    cdef Chunk chunk
    cdef const real* end = x + p.n * p.groups * p.c * pixels_in(p)
    cdef const real* group_bias
    for index in range(p.chunks * p.groups):
        group, chunk = index % p.groups, chunk_at(p, index // p.groups)
        group_bias = bias + group * p.o if bias != NULL else <const real*>NULL
        items = ceil_div(chunk.vectors, 3) * ceil_div(p.o, left.block)
        for item in prange(p.c, num_threads=threads, schedule="static"):
            form_shared(p, &chunk, item, x + group * p.c * pixels_in(p), end, columns, bands + threadid() * own)
        deal(&ranges, items, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                shared_part(p, left, &chunk, item, a + group * left.group_stride, <const real*>columns, group_bias,
                            out + (chunk.image * p.groups + group) * p.o * pixels_out(p))
                item = take(&ranges, t)


cdef void pack_part(Plan* p, Py_ssize_t item, const real* weight, real* out) noexcept nogil:
    """The weights of one channel read, for a gradient, or of one tile. OUT: their places in [groups][tiles][p.c][taps][TILE_ROWS]."""
    cdef Py_ssize_t tiles = ceil_div(p.o, TILE_ROWS), depth = p.c * p.taps, tile, group = item // p.c, channel = item % p.c
    if p.transposed:
        for tile in range(tiles):
            pack(min(TILE_ROWS, p.o - tile * TILE_ROWS), TILE_ROWS, p.taps, weight + (item * p.o + tile * TILE_ROWS) * p.taps, p.taps, 1,
                 out + ((group * tiles + tile) * p.c + channel) * p.taps * TILE_ROWS)
    else:
        group, tile = item // tiles, item % tiles
        pack(min(TILE_ROWS, p.o - tile * TILE_ROWS), TILE_ROWS, depth, weight + (group * p.o + tile * TILE_ROWS) * depth, depth, 1,
             out + item * depth * TILE_ROWS)


cdef void convolve(Plan* p, const real* x, const real* weight, const real* bias, real* out):
    """What a plan says, of contiguous tensors into `out`. Allocates."""
    cdef Ranges ranges
    cdef int t
    cdef Storage seen = thinned(p, &x)
    cdef Plan close
    if is_spread(p):
        close = beside(p)
        seen = host_storage(p.n * p.groups * p.o * pixels_in(p) * sizeof(real))
        convolve(&close, x, weight, bias, <real*>seen.data)
        spread(p, <const real*>seen.data, out)
        return
    if (convolve_by_product(p, x, weight, bias, out) or convolve_depthwise(p, x, weight, bias, out)
            or convolve_by_pixels(p, x, weight, bias, out, True) or gradient_by_scatter(p, x, weight, out)
            or convolve_by_winograd(p, x, weight, bias, out) or convolve_by_blocks(p, x, weight, bias, out)
            or convolve_by_pixels(p, x, weight, bias, out, False)):
        return
    cdef int threads = threads_of(p)
    cdef Py_ssize_t tiles = ceil_div(p.o, TILE_ROWS), items, item, own, channels, columns, size = 0
    cdef Left left = Left(group_stride=p.o * p.c * p.taps, tile_stride=0, row_stride=p.c * p.taps, channel_stride=p.taps, tap_stride=1,
                          packed=False, tile_rows=0, block=0, shared=False, panels=0, steps=NULL)
    p.lanes = lanes(out)
    join_rows(p)
    if p.transposed:
        left.row_stride, left.channel_stride = p.taps, p.o * p.taps
    if 2 * p.o > TILE_ROWS and (p.o < TILE_ROWS or p.n * p.d.places * p.h.places * p.w.places >= PACKED_VECTORS * p.lanes):
        left.packed, left.row_stride, left.tap_stride, left.channel_stride = True, 1, TILE_ROWS, p.taps * TILE_ROWS
        left.tile_stride = p.c * p.taps * TILE_ROWS
        left.group_stride, size = tiles * left.tile_stride, p.groups * tiles * left.tile_stride
    choose_parts(p, &left, threads)
    items = p.groups * p.chunks * ceil_div(p.o, left.block)
    channels = 1 if left.shared else p.c
    cdef Storage tables = make_tables(p, p.c, channels, left.channel_stride, left.tap_stride), steps = None
    if not left.shared and cropping_pays(p) and (p.transposed or finite(p.groups * p.o * p.c * p.taps, weight)):    # infinite ones tell
        steps = host_storage(2 * p.taps * sizeof(Py_ssize_t))
        left.steps = <Py_ssize_t*>steps.data
        fill_steps(p, left.steps)
    own = ceil_div((0 if p.direct or left.shared else (DEPTH + 1) * 3 * p.lanes) + band_size(p, channels) + 2 * p.lanes, 16) * 16
    columns = (p.vectors + 1) * p.lanes * p.c * p.taps if left.shared else 0
    cdef Storage scratch = host_storage((threads * own + size + columns) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed_weight = buffers + threads * own
    cdef const real* a = <const real*>packed_weight if left.packed else weight
    with nogil:
        if left.packed:
            for item in prange(p.groups * (p.c if p.transposed else tiles), num_threads=threads, schedule="static"):
                pack_part(p, item, weight, packed_weight)
        if left.shared:
            convolve_shared(p, &left, x, a, bias, out, packed_weight + size, buffers, own, threads)
        else:
            deal(&ranges, items, threads)
            for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
                item = take(&ranges, t)
                while item >= 0:
                    convolve_part(p, &left, item, x, a, bias, out, buffers + threadid() * own)
                    item = take(&ranges, t)


cdef void fill_channels(Py_ssize_t images, Py_ssize_t channels, Py_ssize_t pixels, const real* bias, real* out) noexcept nogil:
    """OUT: out, in each channel its bias."""
    cdef Py_ssize_t i, j
    for i in range(images * channels):
        for j in range(pixels):
            out[i * pixels + j] = bias[i % channels]


cdef bint convolve_pixelwise(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1:
    """`convolve` of images that lie pixel by pixel: whether one of the ways that take them suits. Allocates."""
    return (convolve_depthwise(p, x, weight, bias, out) or convolve_by_pixels(p, x, weight, bias, out, True)
            or convolve_by_winograd(p, x, weight, bias, out) or convolve_by_blocks(p, x, weight, bias, out)
            or convolve_by_pixels(p, x, weight, bias, out, False))


cdef TensorBase pixelwise(Plan* p, TensorBase x, TensorBase weight, TensorBase bias, tuple shape, int code):
    """The result, of this shape, of an x that lies pixel by pixel, as x does; None where it does not, or no way takes it so."""
    if pixel_rows(x) is None or weight.size == 0:
        return None
    p.pixelwise, p.taps_first = True, pixel_rows(weight) is not None
    if not p.taps_first:
        weight = packed(weight)
    bias = packed(bias)
    cdef TensorBase out = from_rows(empty_host(shape, x.dtype), shape)
    if (convolve_pixelwise[float](p, <float*>address(x), <float*>address(weight), <float*>pointer(bias), <float*>address(out))
            if code == FLOAT32 else
            convolve_pixelwise[double](p, <double*>address(x), <double*>address(weight), <double*>pointer(bias), <double*>address(out))):
        return out
    p.pixelwise = p.taps_first = False
    return None


def conv2d(TensorBase x not None, TensorBase weight not None, TensorBase bias, tuple stride, tuple padding, tuple dilation,
           Py_ssize_t groups):
    """Cross-correlation of x with weight, of images or volumes."""
    cdef Plan plan
    cdef int code = float_code("conv2d", x, weight, bias)
    cdef TensorBase rows = rows_of_points(x, weight.shape[2:], stride, padding, groups)
    if rows is not None and weight.size:
        return from_rows(linear(rows, points(weight), bias), x.shape[:1] + weight.shape[:1] + x.shape[2:])
    set_geometry(&plan, x.shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride, padding, dilation,
                 groups)
    cdef tuple size = (plan.d.full, plan.h.full, plan.w.full)
    cdef tuple shape = (plan.n, weight.shape[0]) + size[5 - len(x.shape):]
    cdef TensorBase out
    if plan.n and pixels_out(&plan) and not x.contiguous:
        out = pixelwise(&plan, x, weight, bias, shape, code)
        if out is not None:
            return out
    x, weight, bias = packed(x), packed(weight), packed(bias)
    out = empty_host(shape, x.dtype)
    if out.size == 0:
        return out
    if weight.size == 0:                        # sums of nothing, which plans do not know
        memset(address(out), 0, out.size * out.dtype.itemsize)
        if bias is not None and code == FLOAT32:
            fill_channels[float](plan.n, plan.o * groups, pixels_out(&plan), <float*>address(bias), <float*>address(out))
        elif bias is not None:
            fill_channels[double](plan.n, plan.o * groups, pixels_out(&plan), <double*>address(bias), <double*>address(out))
        return out
    if code == FLOAT32:
        convolve[float](&plan, <float*>address(x), <float*>address(weight), <float*>pointer(bias), <float*>address(out))
    else:
        convolve[double](&plan, <double*>address(x), <double*>address(weight), <double*>pointer(bias), <double*>address(out))
    return out


cdef bint padding_told(TensorBase out, TensorBase weight) noexcept:
    """Whether products of the padding's zeros and weights that are not finite may have made NaN of the outputs."""
    if out.dtype.code == FLOAT32:
        return ((weight.size <= out.size or not finite(out.size, <const float*>address(out)))
                and not finite(weight.size, <const float*>address(weight)))
    return ((weight.size <= out.size or not finite(out.size, <const double*>address(out)))
            and not finite(weight.size, <const double*>address(weight)))


cdef TensorBase input_gradient(TensorBase g, TensorBase weight, tuple size, tuple stride, tuple padding, tuple dilation, Py_ssize_t groups):
    cdef Plan plan
    cdef int code = float_code("conv2d_grad_input", g, weight)
    cdef tuple shape = (g.shape[0], <Py_ssize_t>weight.shape[1] * groups) + size
    cdef TensorBase rows = rows_of_points(g, weight.shape[2:], stride, padding, groups)
    if rows is not None and weight.size and size == g.shape[2:]:
        return from_rows(matmul(rows, points(weight)), shape)
    set_geometry(&plan, shape, weight.shape[1], <Py_ssize_t>weight.shape[0] // groups, weight.shape[2:], stride, padding, dilation, groups)
    transpose(&plan)
    cdef TensorBase out = None
    if not g.contiguous and plan.n and pixels_out(&plan):
        out = pixelwise(&plan, g, weight, None, shape, code)
    cdef bint made = out is not None
    if not made or pixel_rows(weight) is None:
        weight = packed(weight)
    if not made:
        g, out = packed(g), empty_host(shape, g.dtype)
    if made:
        pass
    elif g.size == 0 or out.size == 0:
        memset(address(out), 0, out.size * out.dtype.itemsize)
    elif code == FLOAT32:
        convolve[float](&plan, <float*>address(g), <float*>address(weight), <float*>NULL, <float*>address(out))
    else:
        convolve[double](&plan, <double*>address(g), <double*>address(weight), <double*>NULL, <double*>address(out))
    if plan.taps > 1 and padding_told(out, weight):
        return input_gradient_by_taps(g, weight, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return out


def conv2d_grad_input(TensorBase g not None, TensorBase weight not None, Py_ssize_t height, Py_ssize_t width, tuple stride, tuple padding,
                      tuple dilation, Py_ssize_t groups):
    """Gradient of conv2d with respect to its input [N, C, height, width]."""
    return input_gradient(g, weight, (height, width), stride, padding, dilation, groups)


def conv3d_grad_input(TensorBase g not None, TensorBase weight not None, size, tuple stride, tuple padding, tuple dilation,
                      Py_ssize_t groups):
    """Gradient of conv3d with respect to its input [N, C, *size]."""
    size = plain(size)
    return input_gradient(g, weight, size, stride, padding, dilation, groups)


KERNELS = {"conv2d": conv2d, "conv3d": conv2d, "conv2d_grad_input": conv2d_grad_input, "conv3d_grad_input": conv3d_grad_input}
