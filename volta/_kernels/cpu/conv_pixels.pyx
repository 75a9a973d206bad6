# Convolution, and the gradient of its input, pixel by pixel: tiles of TILE_ROWS places by a panel of up to 3 vectors of outputs; or, where
#   outputs are few, by up to 3 outputs, whose products with vectors of channels are summed over the lanes in the end.
#
# The padded input of a chunk lies as [image][slice][row][column][c], so that what a place sees of one tap, or of neighbouring taps, is a
#   run of elements that lie behind one another; the weights of a panel as [part of c][tap by phase][c][panel]. Nothing is copied for
#   im2col, whatever the stride. The results of a panel, pixel by pixel as well, are turned in the end.
# Where windows lie mostly outside the input, all images lie so from the beginning, without padding above and below, and a tile has places
#   of one row, or of one pixel of several images. There, and where many windows lie partly outside, a tile leaves out the taps that it
#   does not see.
# Threads: over groups, chunks and blocks of panels; a result does not depend on how they are cut. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, ceil_div, channel_in, channel_out, chunk_at, finite, items_of, join_rows, load_pixels, pixel_in, pixel_out, pixels_in,
    pixels_out, set_chunk, set_parts, store_pixels, tap_on, threads_of, weight_channel, weight_tap)
from volta._kernels.cpu.conv_cost cimport cropping_pays, few_cost, few_pay, share_seen, wide_cost
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.place_tile cimport few32, few64, places32, places64
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes

cdef enum:
    PANEL = 3 * 16              # outputs of a panel, at most
    DEPTH = 160                 # terms of one sum, whose weights stay in the L1 cache
    PLACES = 192                # of a chunk
    SMALLEST_CHUNK = 16
    LEAST_TERMS = 64            # of a sum, that turning the input and the output should serve
    STRIDE_PLACES = 64          # of a stride,
    LEAST_PLACES = 192          # that packing the weights should serve, where they are
    FEW_WEIGHTS = 262144        # more than these
    LINES = 512                 # weights of an output that are turned at a time
    ITEMS = 2                   # parts of the work for each thread
    TOTAL_COST = 10             # weights that are packed in the time in which the lanes of a sum are added
    SPARSE_PLACES = 1024        # of a chunk, at most, where windows lie mostly outside
    SPARSE_PRODUCTS = 48        # of a tap of a place and a panel, at least, where they do

cdef double SPARSE = 0.6        # of the taps, that windows see at most,
cdef double DILATED = 0.9       # or where Winograd's ways are none

cdef struct Pixels:
    bint few                                    # outputs: lanes are channels
    bint lie                                    # few: the weights are taken as they lie
    bint sparse                                 # windows lie mostly outside: taps are left out
    bint same                                   # a tile is one pixel of several images
    bint cropped                                # taps are left out of tiles at the border of slices and rows
    Py_ssize_t image, slice, row                # elements of the band from image to image, ...
    Py_ssize_t left                             # columns of padding
    Py_ssize_t room                             # channels of a pixel, with zeros up to whole vectors if lanes are channels
    Py_ssize_t vectors, panels, block, blocks   # vectors of outputs; their panels; panels of a block of the work; blocks
    Py_ssize_t parts, depth                     # parts of the channels that are summed apart, and their length
    Py_ssize_t run                              # taps that lie behind one another
    Py_ssize_t places                           # of a chunk and a phase, in whole tiles
    Py_ssize_t group                            # weights of one group
    Py_ssize_t* offsets                         # [taps] by phase: of each tap into the band,
    Py_ssize_t* order                           # and which of the kernel it is
    Py_ssize_t* phases                          # [phases + 1] first tap of each phase
    Py_ssize_t* steps                           # [taps][3] the offsets of each tap along the axes


cdef bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster: few outputs, rows that fill no vectors, or stride; weights that many places
    share, or few."""
    cdef Py_ssize_t lines = ceil_div(p.w.places, p.lanes) * p.lanes, weights = p.o * p.c * p.taps
    cdef bint apart = p.w.stride * p.w.step > 1, narrow = lines * 16 > p.w.places * 17
    if p.pixelwise:                                     # nothing is turned, and weights [O][taps][C] are packed in any case
        return ((p.o > TILE_ROWS or few_pay(p))
                and (p.taps_first or p.n * p.d.places * p.h.places * p.w.places >= STRIDE_PLACES or weights <= FEW_WEIGHTS))
    if p.c < TILE_ROWS < p.o and p.w.dilation > 1 and lines * 4 < p.w.places * 5:       # each tap a run of a few terms
        return False
    return (p.c * p.taps >= (TILE_ROWS if p.transposed and apart else LEAST_TERMS)
            and (few_pay(p) if p.o <= TILE_ROWS else narrow or p.c >= TILE_ROWS and apart)
            and (p.n * p.d.places * p.h.places * p.w.places >= (STRIDE_PLACES if apart else LEAST_PLACES) or weights <= FEW_WEIGHTS))


cdef bint weights_lie(Plan* p) noexcept nogil:
    """Whether the weights lie as they are needed where lanes are channels, and are read so few times that packing them takes longer than
    adding the lanes."""
    cdef Py_ssize_t places = p.n * p.d.places * p.h.places * p.w.places
    return p.pixelwise and p.taps_first and not p.transposed and p.c % p.lanes == 0 and places * TOTAL_COST < p.c * p.taps


cdef bint weights_finite(Plan* p, const real* weight, int threads) noexcept nogil:
    """Whether products of weights and the padding may be left out: of infinite ones they are NaN."""
    cdef Py_ssize_t row, bad = 0, size = p.c * p.taps
    for row in prange(p.groups * p.o, num_threads=threads, schedule="static"):
        bad += not finite(size, weight + row * size)
    return bad == 0


cdef bint is_sparse(Plan* p) noexcept nogil:
    """Whether windows lie mostly outside the input, so that leaving out what they do not see makes up for anything else."""
    if (p.d.reach * 4 <= p.d.places and p.h.reach * 4 <= p.h.places and p.w.reach * 4 <= p.w.places
            or p.d.padding + p.h.padding + p.w.padding == 0 and not p.transposed or p.d.skip * p.h.skip * p.w.skip > 1
            or p.c * p.taps < LEAST_TERMS or p.c * min(p.o, PANEL) < SPARSE_PRODUCTS):
        return False
    cdef bint dilated = p.h.dilation * p.w.dilation > 1 and (fits(p) or p.c >= 4 * TILE_ROWS)
    cdef double seen = share_seen(&p.d, p.transposed, 1) * share_seen(&p.h, p.transposed, 1)
    return seen * share_seen(&p.w, p.transposed, 1 if p.n > TILE_ROWS // 2 else TILE_ROWS) < (DILATED if dilated else SPARSE)


cdef inline Py_ssize_t panel_at(Plan* p, Pixels* q, Py_ssize_t panel) noexcept nogil:
    """Its first output."""
    return p.o * panel // q.panels if q.few else q.vectors * panel // q.panels * p.lanes


cdef void cut_sparse(Plan* p, Pixels* q) noexcept nogil:
    """Chunks of some images, and slices and rows of them. No sum depends on the threads: what a tile leaves out tells, where weights are
    not finite."""
    cdef Py_ssize_t items = items_of(p), places
    set_chunk(p, min(p.n, TILE_ROWS) * p.d.places * p.h.places * p.w.places)
    while True:
        places = p.images * p.d.chunk * p.h.chunk * p.w.places * p.d.step * p.h.step * p.w.step
        if p.chunks * p.groups * q.panels >= items and places <= SPARSE_PLACES or p.d.chunk * p.h.chunk == 1:
            break
        if p.d.chunk > 1:
            set_parts(&p.d, p.d.chunk // 2)
        else:
            set_parts(&p.h, p.h.chunk // 2)
        p.chunks = p.image_parts * p.d.parts * p.h.parts
    q.same = p.images > TILE_ROWS // 2
    q.left = 0 if q.same else max(0, -p.w.first)
    q.row = (p.w.source if q.same else max(p.w.source + q.left, q.left + p.w.first + p.w.band)) * q.room
    q.slice = p.h.source * q.row
    q.image = p.d.source * q.slice


cdef void cut(Plan* p, Pixels* q, int threads) noexcept nogil:
    """Chunks of places, blocks of panels and runs."""
    cdef Py_ssize_t items = ITEMS * threads if threads > 1 else 1, target = PLACES
    q.vectors = ceil_div(p.o, p.lanes)
    q.panels = ceil_div(p.o if q.few else q.vectors, 3)
    q.room = ceil_div(p.c, p.lanes) * p.lanes if q.few else p.c
    if q.sparse:
        cut_sparse(p, q)
    else:
        set_chunk(p, target)
        while p.chunks * p.groups * q.panels < items and target > SMALLEST_CHUNK:
            target //= 2
            set_chunk(p, target)
        q.left = 0
        q.row = p.w.band * q.room
        q.slice = p.h.band * q.row
        q.image = p.d.band * q.slice
    q.blocks = min(q.panels, ceil_div(items, p.chunks * p.groups))
    q.block = ceil_div(q.panels, q.blocks)
    q.blocks = ceil_div(q.panels, q.block)
    q.parts = 1 if q.few else ceil_div(p.c, DEPTH)
    q.depth = ceil_div(q.room, q.parts)
    q.parts = ceil_div(q.room, q.depth)
    cdef Py_ssize_t lines = 1 if not q.sparse else p.d.chunk * p.h.chunk * (p.w.places if q.same else 1)    # each has whole tiles
    q.places = lines * ceil_div(p.images * p.d.chunk * p.h.chunk * p.w.places // lines, TILE_ROWS) * TILE_ROWS
    q.group = q.room * p.taps * (p.o if q.few else q.vectors * p.lanes)


cdef void fill_runs(Plan* p, Pixels* q) noexcept nogil:
    """OUT: offsets, steps, order, phases, run. Taps of a phase in the order in which they lie in the band."""
    cdef Py_ssize_t phase, i, j, k, z = 0, y = 0, x = 0, t = 0
    for phase in range(p.d.step * p.h.step * p.w.step):
        q.phases[phase] = t
        for i in range(p.d.kernel):
            for j in range(p.h.kernel):
                for k in range(p.w.kernel):
                    q.order[t] = (i * p.h.kernel + j) * p.w.kernel + k
                    if p.transposed:
                        q.order[t] = p.taps - 1 - q.order[t]
                    if (tap_on(&p.d, p.transposed, phase // p.w.step // p.h.step, q.order[t] // (p.h.kernel * p.w.kernel), &z)
                            and tap_on(&p.h, p.transposed, phase // p.w.step % p.h.step, q.order[t] // p.w.kernel % p.h.kernel, &y)
                            and tap_on(&p.w, p.transposed, phase % p.w.step, q.order[t] % p.w.kernel, &x)):
                        q.offsets[t] = z * q.slice + y * q.row + x * q.room
                        q.steps[3 * t], q.steps[3 * t + 1], q.steps[3 * t + 2] = z, y, x
                        t += 1
        q.phases[phase + 1] = t
    q.run = p.w.kernel if not q.sparse and p.w.step == p.w.dilation == 1 and (q.few or p.w.kernel * p.c <= DEPTH) else 1


cdef void pack_panel(Plan* p, Pixels* q, Py_ssize_t item, const real* weight, real* out, real* lines) noexcept nogil:
    """The weights of some channels of one panel. IN: lines, room for LINES + taps lines of a panel."""
    cdef Py_ssize_t step = max(1, LINES // p.taps), blocks = ceil_div(p.c, step), c0 = item % blocks * step, c1 = min(c0 + step, p.c), c, t
    cdef Py_ssize_t panel = item // blocks % q.panels, group = item // blocks // q.panels, first = panel_at(p, q, panel), part
    cdef Py_ssize_t width = panel_at(p, q, panel + 1) - first, outputs = min(width, p.o - first)
    weight += group * p.o * p.c * p.taps
    out += group * q.group + p.c * p.taps * first
    if p.taps_first:
        for t in range(p.taps):
            c = weight_tap(p) * t + (c0 * p.o * p.taps + first if p.transposed else first * p.c * p.taps + c0)
            pack(outputs, width, c1 - c0, weight + c, 1 if p.transposed else p.c * p.taps, p.o * p.taps if p.transposed else 1,
                 lines + t * (c1 - c0) * width)
    elif p.transposed:
        for c in range(c0, c1):
            pack(outputs, width, p.taps, weight + (c * p.o + first) * p.taps, p.taps, 1, lines + (c - c0) * p.taps * width)
    else:
        pack(outputs, width, p.taps * (c1 - c0), weight + (first * p.c + c0) * p.taps, p.c * p.taps, 1, lines)
    for c in range(c0, c1):
        part = c // q.depth
        for t in range(q.phases[p.d.step * p.h.step * p.w.step]):
            memcpy(out + (part * q.depth * p.taps + t * min(q.depth, p.c - part * q.depth) + c - part * q.depth) * width,
                   lines + (q.order[t] * (c1 - c0) + c - c0 if p.taps_first else (c - c0) * p.taps + q.order[t]) * width,
                   width * sizeof(real))


cdef void pack_output(Plan* p, Pixels* q, Py_ssize_t item, const real* weight, real* out, real* lines) noexcept nogil:
    """The weights of one of few outputs. OUT: out[tap by phase][room]. IN: lines, room for as many."""
    cdef Py_ssize_t group = item // p.o, output = item % p.o, t
    weight += group * p.o * p.c * p.taps + (output * weight_channel(p) if p.transposed else output * p.c * p.taps)
    pack(p.c, q.room, p.taps, weight, p.o * p.taps if p.transposed else weight_channel(p), weight_tap(p), lines)
    for t in range(q.phases[p.d.step * p.h.step * p.w.step]):
        memcpy(out + (item * p.taps + t) * q.room, lines + q.order[t] * q.room, q.room * sizeof(real))


cdef inline Py_ssize_t add_place(Py_ssize_t place, Py_ssize_t target, Py_ssize_t n, Py_ssize_t* places, Py_ssize_t* targets) noexcept nogil:
    places[n], targets[n] = place, target
    return n + 1


cdef inline Py_ssize_t end_tile(Py_ssize_t n, Py_ssize_t* places, Py_ssize_t* targets) noexcept nogil:
    """The last place repeated up to a whole tile."""
    while n % TILE_ROWS:
        n = add_place(places[n - 1], targets[n - 1], n, places, targets)
    return n


cdef inline void note_windows(Py_ssize_t* at, bint fresh, Py_ssize_t z, Py_ssize_t y, Py_ssize_t low, Py_ssize_t high) noexcept nogil:
    """IN, OUT: where in the input windows of a tile begin, [slice, row, column][first, last]; `fresh`: these are its first ones."""
    at[0], at[1] = z if fresh else min(at[0], z), z if fresh else max(at[1], z)
    at[2], at[3] = y if fresh else min(at[2], y), y if fresh else max(at[3], y)
    at[4], at[5] = low if fresh else min(at[4], low), high if fresh else max(at[5], high)


cdef Py_ssize_t list_places(Plan* p, Pixels* q, Chunk* chunk, Py_ssize_t phase, Py_ssize_t* places, Py_ssize_t* targets,
                            Py_ssize_t* at) noexcept nogil:
    """What one phase writes of a chunk: tiles. OUT: where the places lie in the band, and among the outputs of the chunk; at, if cropped,
    as `note_windows`, of each tile."""
    cdef Py_ssize_t x0 = phase % p.w.step, y0 = phase // p.w.step % p.h.step, z0 = phase // p.w.step // p.h.step, i, z, y, x, n = 0
    cdef Py_ssize_t slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step)
    cdef Py_ssize_t rows = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step)
    cdef Py_ssize_t count = ceil_div(p.w.full - x0, p.w.step) if p.w.full > x0 else 0, step = p.w.stride * q.room, to_step = p.w.step
    cdef Py_ssize_t place, target, tile
    for i in range(chunk.images):
        for z in range(ceil_div(slices - z0, p.d.step) if slices > z0 else 0):
            for y in range(ceil_div(rows - y0, p.h.step) if rows > y0 else 0):
                place = i * q.image + z * p.d.stride * q.slice + y * p.h.stride * q.row
                target = ((i * slices + z * p.d.step + z0) * rows + y * p.h.step + y0) * p.w.full + x0
                for x in range(count):
                    places[n + x], targets[n + x] = place + x * step, target + x * to_step
                for tile in range(n // TILE_ROWS, ceil_div(n + count, TILE_ROWS) if q.cropped and count > 0 else 0):
                    note_windows(at + 6 * tile, tile * TILE_ROWS >= n, (chunk.z + z) * p.d.stride + p.d.first,
                                 (chunk.y + y) * p.h.stride + p.h.first, (max(tile * TILE_ROWS, n) - n) * p.w.stride + p.w.first,
                                 (min((tile + 1) * TILE_ROWS, n + count) - 1 - n) * p.w.stride + p.w.first)
                n += count
    return end_tile(n, places, targets) // TILE_ROWS


cdef Py_ssize_t list_sparse(Plan* p, Pixels* q, Chunk* chunk, Py_ssize_t phase, Py_ssize_t* places, Py_ssize_t* targets,
                            Py_ssize_t* at) noexcept nogil:
    """The same, row by row, or pixel by pixel."""
    cdef Py_ssize_t x0 = phase % p.w.step, y0 = phase // p.w.step % p.h.step, z0 = phase // p.w.step // p.h.step, i, z, y, x, j, n = 0
    cdef Py_ssize_t slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step), first, low, high
    cdef Py_ssize_t rows = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step)
    cdef Py_ssize_t columns = ceil_div(p.w.full - x0, p.w.step) if p.w.full > x0 else 0, line = columns if q.same else 1
    for z in range(ceil_div(slices - z0, p.d.step) if slices > z0 else 0):
        for y in range(ceil_div(rows - y0, p.h.step) if rows > y0 else 0):
            for j in range(line if columns > 0 else 0):
                first = n
                for i in range(chunk.images):
                    for x in range(j, j + 1 if q.same else columns):
                        n = add_place((chunk.image + i) * q.image + ((chunk.z + z) * p.d.stride + p.d.first) * q.slice
                                      + ((chunk.y + y) * p.h.stride + p.h.first) * q.row + (x * p.w.stride + p.w.first + q.left) * q.room,
                                      ((i * slices + z * p.d.step + z0) * rows + y * p.h.step + y0) * p.w.full + x * p.w.step + x0,
                                      n, places, targets)
                n = end_tile(n, places, targets)
                for i in range(first // TILE_ROWS, n // TILE_ROWS):
                    low = high = j
                    if not q.same:                      # of several images, whole rows of them
                        low, high = i * TILE_ROWS - first, min((i + 1) * TILE_ROWS - first, chunk.images * columns) - 1
                        if low // columns != high // columns:
                            low, high = 0, columns - 1
                    note_windows(at + 6 * i, True, (chunk.z + z) * p.d.stride + p.d.first, (chunk.y + y) * p.h.stride + p.h.first,
                                 low % columns * p.w.stride + p.w.first, high % columns * p.w.stride + p.w.first)
    return n // TILE_ROWS


cdef inline bint sees_all(const Plan* p, const Py_ssize_t* at) noexcept nogil:
    """Whether a tile sees something of the input by taps of all slices and rows."""
    return (at[1] >= 0 and at[0] + p.d.reach <= p.d.source and at[3] >= 0 and at[2] + p.h.reach <= p.h.source)


cdef inline Py_ssize_t list_runs(Plan* p, Pixels* q, Py_ssize_t first, Py_ssize_t end, Py_ssize_t line, const Py_ssize_t* at,
                                 Py_ssize_t* runs, Py_ssize_t* lines) noexcept nogil:
    """The runs of the taps first .. end, or those that a tile sees, and where their weights lie. IN: a tap's weights; at, or NULL."""
    cdef Py_ssize_t t = first, n = 0, z, y, x
    while t < end:
        z, y, x = q.steps[3 * t], q.steps[3 * t + 1], q.steps[3 * t + 2]
        if at == NULL or (at[0] + z < p.d.source and at[1] + z >= 0 and at[2] + y < p.h.source and at[3] + y >= 0
                          and (q.run > 1 or at[4] + x < p.w.source and at[5] + x >= 0)):
            runs[n], lines[n] = q.offsets[t], (t - first) * line
            n += 1
        t += q.run
    return n


cdef inline void tile_of_places(Pixels* q, Py_ssize_t count, const Py_ssize_t* runs, const Py_ssize_t* lines, Py_ssize_t k,
                                const real* band, const Py_ssize_t* places, const real* b, Py_ssize_t step, const Py_ssize_t* targets,
                                Py_ssize_t to_step, const real* bias, bint add, Py_ssize_t width, int lane_count, real* out) noexcept nogil:
    if real is float:
        if q.few:
            few32(count, runs, lines, k, band, places, b, step, targets, bias, add, <int>width, out)
        else:
            places32(count, runs, lines, k, band, places, b, targets, to_step, bias, add, <int>(width // lane_count), out)
    else:
        if q.few:
            few64(count, runs, lines, k, band, places, b, step, targets, bias, add, <int>width, out)
        else:
            places64(count, runs, lines, k, band, places, b, targets, to_step, bias, add, <int>(width // lane_count), out)


cdef void phase_product(Plan* p, Pixels* q, Py_ssize_t phase, Py_ssize_t tiles, Py_ssize_t width, const Py_ssize_t* places,
                        const Py_ssize_t* targets, const Py_ssize_t* at, const real* band, const real* weight, const real* bias,
                        real* out, Py_ssize_t step) noexcept nogil:
    """One phase of a panel of a chunk, in sums of up to DEPTH terms or one run. IN: at, where windows begin, or NULL. OUT: out, whose
    pixels are `step` elements apart."""
    cdef Py_ssize_t[2][DEPTH] runs, lines           # all, and those that a tile sees
    cdef Py_ssize_t part, depth, first, end, count, every, most, tile
    cdef bint some
    cdef const real* b
    cdef bint add = False
    for part in range(q.parts):
        depth, first = min(q.depth, q.room - part * q.depth), q.phases[phase]
        most = (DEPTH if q.few else max(1, DEPTH // (depth * q.run))) * q.run
        while first < q.phases[phase + 1] or not add:
            end = min(first + most, q.phases[phase + 1])
            b = weight + (first * depth if q.few else (part * q.depth * p.taps + first * depth) * width)
            every = list_runs(p, q, first, end, depth if q.few else depth * width, NULL, runs[0], lines[0])
            for tile in range(tiles):
                count, some = every, at != NULL and (q.sparse or not sees_all(p, at + 6 * tile))
                if some:
                    count = list_runs(p, q, first, end, depth if q.few else depth * width, at + 6 * tile, runs[1], lines[1])
                    if count == 0 and add:
                        continue
                tile_of_places(q, count, runs[some], lines[some], depth * q.run, band + part * q.depth, places + tile * TILE_ROWS, b,
                               p.taps * q.room, targets + tile * TILE_ROWS, step, <const real*>NULL if add else bias, add, width,
                               p.lanes, out)
            add, first = True, end


cdef void load_image(Plan* p, Pixels* q, Py_ssize_t item, const real* x, real* out) noexcept nogil:
    """One image and group, with padding to the left and right unless a tile is of one pixel."""
    cdef Py_ssize_t plane = pixels_in(p), line, right = q.row - (q.left + p.w.source) * q.room
    x += item // p.groups * p.groups * p.c * plane + item % p.groups * p.c * channel_in(p)
    if q.same:
        pack(p.c, q.room, plane, x, channel_in(p), pixel_in(p), out)
        return
    for line in range(p.d.source * p.h.source):
        memset(out, 0, q.left * q.room * sizeof(real))
        pack(p.c, q.room, p.w.source, x + line * p.w.source * pixel_in(p), channel_in(p), pixel_in(p), out + q.left * q.room)
        memset(out + q.row - right, 0, right * sizeof(real))
        out += q.row


cdef void pixels_part(Plan* p, Pixels* q, Py_ssize_t item, const real* x, const real* weight, const real* bias, real* out, real* pixels,
                      Py_ssize_t* places, real* band) noexcept nogil:
    """One block of panels of one group for one chunk. IN: pixels, room for the outputs of a panel; places, for the lists of a phase; band,
    room for that of the chunk, or, if sparse, those of all images."""
    cdef real line[PANEL]
    cdef Py_ssize_t group = item % p.groups, block = item // p.groups % q.blocks, panel, first, width, i, z, size, phase
    cdef Chunk chunk = chunk_at(p, item // p.groups // q.blocks)
    cdef Py_ssize_t slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step)
    cdef const real* panel_bias = <const real*>&line[0] if bias != NULL else <const real*>NULL
    cdef real* to
    cdef bint whole, direct
    size = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step) * p.w.full
    whole = ((chunk.images == 1 or slices == p.d.full) and (chunk.images * slices == 1 or size == p.h.full * p.w.full)
             and p.pixelwise and not q.few)            # a chunk's pixels lie behind one another, whole vectors of each
    if q.sparse:
        band += group * p.n * q.image
    else:
        load_pixels(p, &chunk, x + group * p.c * channel_in(p), p.c, q.room, band)
    for panel in range(block * q.block, min(q.panels, (block + 1) * q.block)):
        first, width = panel_at(p, q, panel), panel_at(p, q, panel + 1) - panel_at(p, q, panel)
        for i in range(width if bias != NULL else 0):
            line[i] = bias[group * p.o + first + i] if first + i < p.o else 0
        direct = whole and first + width <= p.o
        to = (out + chunk.image * p.groups * p.o * pixels_out(p) + group * p.o + first
              + (chunk.z * p.d.step * p.h.full + chunk.y * p.h.step) * p.w.full * pixel_out(p))
        for phase in range(p.d.step * p.h.step * p.w.step):
            if q.sparse:
                i = list_sparse(p, q, &chunk, phase, places, places + q.places, places + 2 * q.places)
            else:
                i = list_places(p, q, &chunk, phase, places, places + q.places, places + 2 * q.places)
            phase_product(p, q, phase, i, width, places, places + q.places,
                          places + 2 * q.places if q.sparse or q.cropped else <Py_ssize_t*>NULL, <const real*>band,
                          weight + group * q.group + q.room * p.taps * first, panel_bias, to if direct else pixels,
                          pixel_out(p) if direct else width)
        for i in range(0 if direct else chunk.images):
            to = out + (chunk.image + i) * p.groups * p.o * pixels_out(p) + (group * p.o + first) * channel_out(p)
            for z in range(slices):
                store_pixels(p, size, min(width, p.o - first), <const real*>pixels + (i * slices + z) * size * width, width,
                             to + ((chunk.z * p.d.step + z) * p.h.full + chunk.y * p.h.step) * p.w.full * pixel_out(p))


cdef bint convolve_by_pixels(Plan* whole, const real* x, const real* weight, const real* bias, real* out, bint sparse) except -1:
    """Whether `out` was computed this way: not where the sizes do not suit. IN: sparse, whether it shall only where windows lie mostly
    outside the input. Allocates."""
    cdef Ranges ranges
    cdef int t
    cdef Plan plan = whole[0]
    cdef Plan* p = &plan
    cdef Pixels q
    cdef int threads = threads_of(p)
    p.lanes = lanes(out)
    if not sparse:
        join_rows(p)
    if not (is_sparse(p) and (p.transposed or weights_finite(p, weight, threads)) if sparse else fits(p)):
        return False
    q.sparse, q.same, q.cropped = sparse, False, not sparse and cropping_pays(p) and (p.transposed or weights_finite(p, weight, threads))
    q.lie = weights_lie(p)
    q.few = q.lie or p.o <= TILE_ROWS and 4 * few_cost(p) < 5 * wide_cost(p)
    cut(p, &q, threads)
    cdef Py_ssize_t phases = p.d.step * p.h.step * p.w.step, item, lists
    cdef Storage tables = host_storage((5 * p.taps + 1 + phases + 1) * sizeof(Py_ssize_t))
    q.offsets = <Py_ssize_t*>tables.data
    q.steps = q.offsets + p.taps
    q.order = q.steps + 3 * p.taps
    q.phases = q.order + p.taps + 1
    fill_runs(p, &q)
    lists = ceil_div((2 * q.places + 6 * q.places // TILE_ROWS) * sizeof(Py_ssize_t), sizeof(real))
    cdef Py_ssize_t outputs = q.places * phases * 3 * p.lanes, lines = q.room * p.taps if q.few else (LINES + p.taps) * 3 * p.lanes
    cdef Py_ssize_t band = 0 if sparse else p.images * q.image, own = ceil_div(lists + max(outputs + band, lines), 16) * 16
    cdef Py_ssize_t size = 0 if q.lie else p.groups * q.group
    cdef Storage scratch = host_storage((threads * own + size + sparse * p.n * p.groups * q.image) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed = buffers + threads * own
    cdef real* images = packed + size
    cdef const real* weights = weight if q.lie else <const real*>packed
    with nogil:
        if q.lie:
            pass
        elif q.few:
            for item in prange(p.groups * p.o, num_threads=threads, schedule="static"):
                pack_output(p, &q, item, weight, packed, buffers + threadid() * own)
        else:
            for item in prange(p.groups * q.panels * ceil_div(p.c, max(1, LINES // p.taps)), num_threads=threads, schedule="static"):
                pack_panel(p, &q, item, weight, packed, buffers + threadid() * own)
        if sparse:
            for item in prange(p.n * p.groups, num_threads=threads, schedule="static"):
                load_image(p, &q, item, x, images + (item % p.groups * p.n + item // p.groups) * q.image)
        deal(&ranges, p.chunks * q.blocks * p.groups, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                pixels_part(p, &q, item, x, weights, bias, out, buffers + threadid() * own + lists,
                            <Py_ssize_t*>(buffers + threadid() * own),
                            images if sparse else buffers + threadid() * own + lists + outputs)
                item = take(&ranges, t)
    return True
