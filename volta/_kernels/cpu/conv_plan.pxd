# Geometry of a convolution for the CPU: places, chunks of them, and what of the input they see.
#
# Planes have three axes (images are volumes of one slice). A place is a point of the grid on which windows stand: of a convolution,
#   an output pixel; of the gradient of its input, as many input pixels as the strides multiply to, which are its phases: each phase
#   sees every stride-th tap and is a convolution of stride 1 of its own.
# The places are worked through in chunks: some whole images, some slices of an image, or a band of rows of one, so that a chunk's
#   input stays in the L2 cache. That input is first copied with its zero padding ("the band": [image][channel][slice][row][pitch]), so
#   that a tap is an offset into it and none has to test for the border. Of a stride along the rows, a row of the band has one stretch
#   for each remainder, so that neighbouring places read neighbouring elements.
# Sizes are checked by the front end. What is chosen here depends on sizes only, so that results do not depend on threads.

from cython.parallel cimport prange
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.conv_tile cimport runs_of_taps
from volta._kernels.cpu.gemm cimport pack, turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_run, zero_run


cdef struct Axis:
    Py_ssize_t source, first, stride, reach     # elements read from; where the window of place 0 begins, from place to place, its length
    Py_ssize_t skip                             # from one element of the band to the next: windows of one element need no other
    Py_ssize_t places, full, step               # places; elements written to; from place to place there
    Py_ssize_t kernel, padding, dilation
    Py_ssize_t chunk, parts, band               # places of a chunk; chunks; elements of a chunk's band

cdef struct Piece:              # of a vector of places: `n` that lie behind one another in the output
    int column, n               # the first, counted in the chunk's vectors
    int image, z, y, x          # its place in the chunk

cdef struct Plan:
    Py_ssize_t n, groups, c, o                  # c and o count the channels of one group, read and written
    Py_ssize_t taps                             # of a kernel
    bint transposed                             # the gradient of the input
    bint pixelwise                              # what is read and what is written lie pixel by pixel, not row-major
    bint taps_first                             # the weights lie as [O][taps][C], not [O][C][taps]
    Axis d, h, w
    Py_ssize_t images, image_parts, chunks      # a chunk: so many images with d.chunk slices of h.chunk rows each
    Py_ssize_t pitch, stretch                   # elements of a row of the band, and of its part for one remainder
    bint joined                                 # rows of places that lie behind one another in the output are one piece
    bint direct                                 # each row of places begins a vector, which a tile reads where it lies in the band
    int lanes
    Py_ssize_t vectors                          # of a whole chunk
    Py_ssize_t* offsets                         # [c * taps] by phase: offset of each tap into the band
    Py_ssize_t* at                              # the same of its weight
    Py_ssize_t* phases                          # [phases + 1] first tap of each phase
    Py_ssize_t* sources                         # [vectors] if direct: offset of each vector into the band
    Py_ssize_t* targets                         # [vectors] offset of each vector into the chunk's output,
    Py_ssize_t* lengths                         # [vectors] and of how many lanes, 0 for one in several pieces
    Py_ssize_t* run_places                      # [runs] of im2col, columns that lie behind one another in the band: there,
    Py_ssize_t* run_columns                     # counted in the chunk's vectors,
    Py_ssize_t* run_lengths                     # and how many
    int* first_run                              # [vectors + 1]
    Piece* pieces
    int* first_piece                            # [vectors + 1]

cdef struct Chunk:
    Py_ssize_t image, images, z, slices, y, rows, columns, vectors

cdef enum:
    LONGEST_LINE = 1024         # elements
    TARGET = 768                # places of a chunk
    MOST_ITEMS = 32             # parts of the work, for the threads
    CLASH = 256                 # elements: channels of a band that are a multiple of them apart, or less than NEXT more or less, share few
    NEXT = 16                   # sets of the first cache, out of which they drive one another
    LEAST_ITEM = 524288         # multiply-adds worth a part
    BAND_LIMIT = 196608         # elements of a band, well inside the L2 cache
    FLOPS_PER_ELEMENT = 16      # multiply-adds that take as long as one element of a cheap loop,
    THIN_FLOPS = 2              # and those of one channel, for which what is loaded is used once or twice


cdef inline Py_ssize_t ceil_div(Py_ssize_t a, Py_ssize_t b) noexcept nogil:
    return (a + b - 1) // b


# ---------------------------------------------------------------- axes

cdef inline void set_axis(Axis* a, Py_ssize_t size, Py_ssize_t kernel, Py_ssize_t stride, Py_ssize_t padding,
                          Py_ssize_t dilation) noexcept nogil:
    """An axis of a convolution of `size` elements."""
    a.kernel, a.padding, a.dilation = kernel, padding, dilation
    a.source, a.first, a.stride, a.reach = size, -padding, stride, dilation * (kernel - 1) + 1
    a.places = a.full = (size + 2 * padding - a.reach) // stride + 1
    a.step = a.skip = 1
    if a.reach == 1:
        a.skip, a.stride = stride, 1


cdef inline bint tap_on(Axis* a, bint transposed, Py_ssize_t phase, Py_ssize_t tap, Py_ssize_t* offset) noexcept nogil:
    """Whether a phase, which may have no place, sees a tap. OUT: offset, the tap's distance from the window's beginning."""
    cdef Py_ssize_t m = phase + a.padding - tap * a.dilation
    offset[0] = m // a.step - a.first if transposed else tap * a.dilation
    return not transposed or m % a.step == 0 and phase < a.full


cdef inline void seen_of(Axis* a, bint transposed, Py_ssize_t tap, Py_ssize_t* low, Py_ssize_t* high) noexcept nogil:
    """The windows, counted among the convolution's outputs, that have this tap inside its input."""
    cdef Py_ssize_t first = tap * a.dilation - a.padding, step = a.step if transposed else a.stride
    low[0] = ceil_div(-first, step) if first < 0 else 0
    high[0] = max(low[0], min(a.source if transposed else a.places, ceil_div((a.full if transposed else a.source) - first, step)))


cdef inline void transpose_axis(Axis* a) noexcept nogil:
    """From that of a convolution to that of the gradient of its input."""
    cdef Py_ssize_t phase, tap, offset = 0, low = 0, high = 0
    cdef bint any = False
    a.full, a.source, a.step = a.source, a.places, a.stride * a.skip
    a.places, a.first, a.stride, a.skip = ceil_div(a.full, a.step), 0, 1, 1
    for phase in range(a.step):
        for tap in range(a.kernel):
            if tap_on(a, True, phase, tap, &offset):
                low, high = min(low, offset) if any else offset, max(high, offset) if any else offset
                any = True
    a.first, a.reach = low, high - low + 1


cdef inline Py_ssize_t pixels_in(Plan* p) noexcept nogil:
    return p.d.source * p.h.source * p.w.source


cdef inline Py_ssize_t pixels_out(Plan* p) noexcept nogil:
    return p.d.full * p.h.full * p.w.full


cdef inline Py_ssize_t channel_in(Plan* p) noexcept nogil:
    """Elements of the input from channel to channel,"""
    return 1 if p.pixelwise else pixels_in(p)


cdef inline Py_ssize_t pixel_in(Plan* p) noexcept nogil:
    """and from pixel to pixel;"""
    return p.groups * p.c if p.pixelwise else 1


cdef inline Py_ssize_t channel_out(Plan* p) noexcept nogil:
    """of the output from channel to channel,"""
    return 1 if p.pixelwise else pixels_out(p)


cdef inline Py_ssize_t pixel_out(Plan* p) noexcept nogil:
    """and from pixel to pixel;"""
    return p.groups * p.o if p.pixelwise else 1


cdef inline Py_ssize_t weight_channel(Plan* p) noexcept nogil:
    """of the weights from channel to channel of one output of the convolution,"""
    return 1 if p.taps_first else p.taps


cdef inline Py_ssize_t weight_tap(Plan* p) noexcept nogil:
    """and from tap to tap."""
    return (p.o if p.transposed else p.c) if p.taps_first else 1


cdef inline Py_ssize_t along(tuple sizes, int axis, Py_ssize_t missing):
    """Of (..., height, width), the size along an axis of three."""
    cdef Py_ssize_t i = len(sizes) - 3 + axis
    return sizes[i] if i >= 0 else missing


cdef inline void join_rows(Plan* p) noexcept nogil:
    """Windows of one element that see the whole input need no rows: planes become lines, a few where one would be long."""
    cdef Py_ssize_t size = pixels_in(p), lines = 1
    if p.taps > 1 or p.d.padding or p.h.padding or p.w.padding or size != p.d.places * p.h.places * p.w.places or size != pixels_out(p):
        return
    while size % lines or size // lines > LONGEST_LINE:
        lines += 1
    if size // lines > p.w.source:
        set_axis(&p.d, 1, 1, 1, 0, 1)
        set_axis(&p.h, lines, 1, 1, 0, 1)
        set_axis(&p.w, size // lines, 1, 1, 0, 1)


cdef inline void set_geometry(Plan* p, tuple shape, Py_ssize_t channels, Py_ssize_t out_channels, tuple kernel, tuple stride,
                              tuple padding, tuple dilation, Py_ssize_t groups):
    """Sizes of a convolution of x with `shape`. IN: channels and out_channels of one group."""
    cdef Axis* axes[3]
    cdef tuple size = shape[2:]
    axes[0], axes[1], axes[2] = &p.d, &p.h, &p.w
    for i in range(3):
        set_axis(axes[i], along(size, i, 1), along(kernel, i, 1), along(stride, i, 1), along(padding, i, 0), along(dilation, i, 1))
    p.n, p.groups, p.c, p.o = shape[0], groups, channels, out_channels
    p.taps = p.d.kernel * p.h.kernel * p.w.kernel
    p.transposed, p.joined, p.pixelwise, p.taps_first = False, True, False, False


cdef inline void transpose(Plan* p) noexcept nogil:
    p.c, p.o = p.o, p.c
    transpose_axis(&p.d)
    transpose_axis(&p.h)
    transpose_axis(&p.w)
    p.transposed = True


cdef inline Py_ssize_t work_of(Plan* p) noexcept nogil:
    """Multiply-adds."""
    return p.n * p.groups * p.o * p.d.places * p.h.places * p.w.places * p.c * p.taps


cdef inline Py_ssize_t items_of(Plan* p) noexcept nogil:
    """Parts into which the work should be cut."""
    return max(1, min(MOST_ITEMS, work_of(p) // LEAST_ITEM))


cdef inline int threads_of(Plan* p) noexcept nogil:
    return threads_for(work_of(p) // (THIN_FLOPS if min(p.c, p.o) == 1 else FLOPS_PER_ELEMENT))


cdef inline bint finite(Py_ssize_t n, const real* x) noexcept nogil:
    """Whether products of these numbers and the zeros of the padding are zeros."""
    cdef Py_ssize_t i
    cdef int others = 0
    for i in range(n):
        others |= x[i] - x[i] != 0
    return not others


# ---------------------------------------------------------------- chunks

cdef inline Py_ssize_t band_size(Plan* p, Py_ssize_t channels) noexcept nogil:
    return p.images * channels * p.d.band * p.h.band * p.pitch


cdef inline void set_parts(Axis* a, Py_ssize_t chunk) noexcept nogil:
    a.parts = ceil_div(a.places, chunk)
    a.chunk = ceil_div(a.places, a.parts)
    a.band = (a.chunk - 1) * a.stride + a.reach


cdef inline void set_chunk(Plan* p, Py_ssize_t target) noexcept nogil:
    """Chunks of about `target` places."""
    cdef Py_ssize_t plane = p.h.places * p.w.places, pixels = p.d.places * plane
    p.images = max(1, min(p.n, target // pixels))
    p.image_parts = ceil_div(p.n, p.images)
    p.images = ceil_div(p.n, p.image_parts)
    set_parts(&p.d, ceil_div(p.d.places, max(1, (pixels + target // 2) // target)) if plane <= target else 1)
    set_parts(&p.h, p.h.places if plane <= target else ceil_div(p.h.places, max(1, (plane + target // 2) // target)))
    set_parts(&p.w, p.w.places)
    cdef Py_ssize_t lines = p.d.band * p.h.band * p.w.stride, least = ceil_div(p.w.band, p.w.stride)
    p.chunks = p.image_parts * p.d.parts * p.h.parts
    p.stretch = least
    while (lines * p.stretch + NEXT) % CLASH < 2 * NEXT and p.stretch < least + least // 16:
        p.stretch += 4
    p.pitch = p.stretch * p.w.stride


cdef inline Py_ssize_t vectors_of(Plan* p, Py_ssize_t lines) noexcept nogil:
    """Vectors of so many rows of places."""
    return lines * ceil_div(p.w.places, p.lanes) if p.direct else ceil_div(lines * p.w.places, p.lanes)


cdef inline Chunk chunk_at(Plan* p, Py_ssize_t index) noexcept nogil:
    cdef Chunk c
    cdef Py_ssize_t y = index % p.h.parts, z = index // p.h.parts % p.d.parts, i = index // p.h.parts // p.d.parts
    c.y, c.z, c.image = p.h.places * y // p.h.parts, p.d.places * z // p.d.parts, p.n * i // p.image_parts
    c.rows = p.h.places * (y + 1) // p.h.parts - c.y
    c.slices = p.d.places * (z + 1) // p.d.parts - c.z
    c.images = p.n * (i + 1) // p.image_parts - c.image
    c.columns = c.images * c.slices * c.rows * p.w.places
    c.vectors = vectors_of(p, c.images * c.slices * c.rows)
    return c


# ---------------------------------------------------------------- slices: sums over some chunks, which are added at the end

cdef inline Py_ssize_t slices_of(Plan* p, Py_ssize_t blocks) noexcept nogil:
    """Slices of the chunks for so many blocks."""
    return min(p.chunks, ceil_div(items_of(p), blocks))


cdef inline void add_share(real* out, const real* parts, Py_ssize_t slices, Py_ssize_t size, Py_ssize_t first,
                           Py_ssize_t last) noexcept nogil:
    """The entries first .. last of the sum of all slices."""
    cdef Py_ssize_t i, part
    memcpy(out + first, parts + first, (last - first) * sizeof(real))
    for part in range(1, slices):
        for i in range(first, last):
            out[i] += parts[part * size + i]


cdef inline void add_slices(real* out, const real* parts, Py_ssize_t slices, Py_ssize_t size, int threads) noexcept nogil:
    cdef Py_ssize_t share
    for share in prange(threads, num_threads=threads, schedule="static"):
        add_share(out, parts, slices, size, size * share // threads, size * (share + 1) // threads)


# ---------------------------------------------------------------- tables

cdef inline void fill_taps(Plan* p, Py_ssize_t channels, Py_ssize_t channel_stride, Py_ssize_t tap_stride, Py_ssize_t* offsets,
                           Py_ssize_t* at) noexcept nogil:
    """Of `channels` channels, by phase. OUT: offsets, at (NULL: not wanted), phases. IN: how the weights of channels and taps lie."""
    cdef Py_ssize_t phase, c, kz, ky, kx, z = 0, y = 0, x = 0, k = 0, first, count, i
    for phase in range(p.d.step * p.h.step * p.w.step):
        p.phases[phase] = first = k
        for kz in range(p.d.kernel):                        # those of the first channel
            if not tap_on(&p.d, p.transposed, phase // p.w.step // p.h.step, kz, &z):
                continue
            for ky in range(p.h.kernel):
                if not tap_on(&p.h, p.transposed, phase // p.w.step % p.h.step, ky, &y):
                    continue
                for kx in range(p.w.kernel):
                    if tap_on(&p.w, p.transposed, phase % p.w.step, kx, &x):
                        if offsets != NULL:
                            offsets[k] = (z * p.h.band + y) * p.pitch + x % p.w.stride * p.stretch + x // p.w.stride
                        if at != NULL:
                            at[k] = ((kz * p.h.kernel + ky) * p.w.kernel + kx) * tap_stride
                        k += 1
        count = k - first
        for c in range(1, channels):
            for i in range(first, first + count):
                if offsets != NULL:
                    offsets[k] = offsets[i] + c * p.d.band * p.h.band * p.pitch
                if at != NULL:
                    at[k] = at[i] + c * channel_stride
                k += 1
        p.phases[phase + 1] = k


cdef inline void fill_places(Plan* p, Py_ssize_t channels) noexcept nogil:
    """Where the places of a chunk lie in bands of `channels` channels and in the output. OUT: sources or runs, pieces."""
    cdef Py_ssize_t i, z, y, x, room, source, vector, column = 0, lanes = p.lanes
    cdef int run = 0, piece = 0
    cdef bint whole = p.joined and p.d.step * p.h.step * p.w.step == 1
    cdef Piece* last
    p.first_run[0] = p.first_piece[0] = 0
    for i in range(p.images):
        for z in range(p.d.chunk):
            for y in range(p.h.chunk):
                source = ((i * channels * p.d.band + z * p.d.stride) * p.h.band + y * p.h.stride) * p.pitch
                x = 0
                if p.direct:
                    column = ceil_div(column, lanes) * lanes
                while x < p.w.places:
                    room = min(lanes - column % lanes, p.w.places - x)
                    vector = column // lanes
                    last = p.pieces + piece - 1
                    if whole and column % lanes and not p.direct and last.image == i:
                        last.n += <int>room
                    else:
                        p.pieces[piece].column, p.pieces[piece].n = <int>column, <int>room
                        p.pieces[piece].image, p.pieces[piece].z = <int>i, <int>z
                        p.pieces[piece].y, p.pieces[piece].x = <int>y, <int>x
                        piece += 1
                    if p.direct:
                        p.sources[vector] = source + x
                    p.run_columns[run], p.run_lengths[run], p.run_places[run] = column, room, source + x
                    run += 1
                    x += room
                    column += room
                    p.first_run[vector + 1], p.first_piece[vector + 1] = run, piece
    for vector in range(p.vectors):
        last = p.pieces + p.first_piece[vector]
        p.targets[vector] = last.image * p.groups * p.o * pixels_out(p) + (last.z * p.h.full + last.y) * p.w.full + last.x
        p.lengths[vector] = last.n if whole and p.first_piece[vector + 1] == p.first_piece[vector] + 1 else 0


cdef inline Storage make_tables(Plan* p, Py_ssize_t channels, Py_ssize_t banded, Py_ssize_t channel_stride, Py_ssize_t tap_stride):
    """Allocate and fill the tables of a plan; they live as long as the storage. IN: channels of the weights, and of a band."""
    cdef Py_ssize_t taps = channels * p.taps, lines = p.images * p.d.chunk * p.h.chunk, phases = p.d.step * p.h.step * p.w.step
    p.vectors = vectors_of(p, lines)
    cdef Py_ssize_t most = p.vectors + lines
    cdef Storage storage = host_storage((2 * taps + phases + 1 + 3 * (p.vectors + most)) * sizeof(Py_ssize_t) + most * sizeof(Piece)
                                        + 2 * (p.vectors + 1) * sizeof(int))
    p.offsets = <Py_ssize_t*>storage.data
    p.at = p.offsets + taps
    p.phases = p.at + taps
    p.sources = p.phases + phases + 1
    p.targets = p.sources + p.vectors
    p.lengths = p.targets + p.vectors
    p.run_places = p.lengths + p.vectors
    p.run_columns = p.run_places + most
    p.run_lengths = p.run_columns + most
    p.pieces = <Piece*>(p.run_lengths + most)
    p.first_run = <int*>(p.pieces + most)
    p.first_piece = p.first_run + p.vectors + 1
    fill_taps(p, channels, channel_stride, tap_stride, <Py_ssize_t*>NULL, p.at)
    fill_taps(p, banded, 0, 0, p.offsets, <Py_ssize_t*>NULL)
    fill_places(p, banded)
    return storage


# ---------------------------------------------------------------- columns and pixels

cdef inline void form_columns(Plan* p, Chunk* chunk, const Py_ssize_t* offsets, Py_ssize_t count, Py_ssize_t vector, Py_ssize_t vectors,
                              const real* band, real* out, Py_ssize_t stride) noexcept nogil:
    """im2col of `count` taps for some vectors. OUT: out[count][stride], of which nothing beyond the vectors is written; zeros past the
    chunk's last place."""
    cdef Py_ssize_t width = vectors * p.lanes, k
    cdef int first = p.first_run[vector], last = p.first_run[vector + vectors - 1], end = p.first_run[vector + vectors]
    while p.run_columns[end - 1] >= chunk.columns:          # of a chunk with a row more than this one
        end -= 1
    if p.run_columns[end - 1] + p.run_lengths[end - 1] < vector * p.lanes + width:
        for k in range(count):
            zero_run(out + k * stride + width - p.lanes, p.lanes)
    out -= vector * p.lanes
    runs_of_taps(count, offsets, last - first, p.run_places + first, p.run_columns + first, p.run_lengths + first, True, band, out, stride)
    runs_of_taps(count, offsets, end - last, p.run_places + last, p.run_columns + last, p.run_lengths + last, False, band, out, stride)


cdef inline void load_pixels(Plan* p, Chunk* chunk, const real* x, Py_ssize_t channels, Py_ssize_t width, real* out) noexcept nogil:
    """The padded input of a chunk, pixel by pixel. IN: x, the first channel of image 0. OUT: [image][slice][row][column][width], zeros past
    `channels`."""
    cdef Py_ssize_t i, s, r, z, y, left = min(ceil_div(max(0, -p.w.first), p.w.skip), p.w.band)
    cdef Py_ssize_t first = p.w.first + left * p.w.skip, n = min(ceil_div(p.w.source - first, p.w.skip), p.w.band - left)
    cdef Py_ssize_t plane = p.h.source * p.w.source, line = p.w.band * width
    cdef Py_ssize_t slices = (chunk.slices - 1) * p.d.stride + p.d.reach, rows = (chunk.rows - 1) * p.h.stride + p.h.reach
    cdef real* y_out
    for i in range(chunk.images):
        for s in range(slices):
            z = (chunk.z * p.d.stride + s) * p.d.skip + p.d.first
            for r in range(rows):
                y = (chunk.y * p.h.stride + r) * p.h.skip + p.h.first
                y_out = out + ((i * p.d.band + s) * p.h.band + r) * line
                if z < 0 or z >= p.d.source or y < 0 or y >= p.h.source or n <= 0:
                    memset(y_out, 0, line * sizeof(real))
                else:
                    memset(y_out, 0, left * width * sizeof(real))
                    pack(channels, width, n, x + (chunk.image + i) * p.groups * p.c * p.d.source * plane
                         + (z * plane + y * p.w.source + first) * pixel_in(p),
                         channel_in(p), p.w.skip * pixel_in(p), y_out + left * width)
                    memset(y_out + (left + n) * width, 0, (p.w.band - left - n) * width * sizeof(real))


cdef inline void store_pixels(Plan* p, Py_ssize_t size, Py_ssize_t outputs, const real* pixels, Py_ssize_t width, real* out) noexcept nogil:
    """Some channels of pixels that lie behind one another. IN: pixels[size][width]. OUT: out, the first of them."""
    cdef Py_ssize_t i, step = pixel_out(p)
    if not p.pixelwise:
        turn(size, outputs, pixels, width, out, pixels_out(p))
    elif outputs % p.lanes == 0:
        for i in range(size):
            copy_run(out + i * step, pixels + i * width, outputs)
    else:
        for i in range(size):
            memcpy(out + i * step, pixels + i * width, outputs * sizeof(real))
