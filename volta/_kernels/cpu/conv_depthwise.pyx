# Convolution of each channel by itself, and its gradients: lanes are channels.
#
# Of a block of channels, one a lane, the padded input of a chunk lies as [image][slice][row][column][lane] (a chunk has one image), what
#   is written as [slice][row][column][lane]; both are turned. A group may have several outputs, which are taken one after another. Images
#   that lie pixel by pixel are taken as they lie (conv_depthwise_pixels.pxd).
# Threads: over blocks of channels and chunks, whose sums for the weight's gradient are added in their order. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.conv_plan cimport (
    Axis, Chunk, Plan, add_slices, ceil_div, chunk_at, finite, items_of, pixels_in, pixels_out, set_chunk, tap_on, threads_of)
from volta._kernels.cpu.conv_depthwise_pixels cimport (
    NEIGHBOURS, depthwise_pixelwise, lane_sums32, lane_sums64, neighbours32, neighbours64, of_neighbours, weight_pixelwise)
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport lanes

cdef extern from *:
    """
    #define VOLTA_DEPTHWISE(S, T)                                                                                   \\
    /* The vectors out[i * out_step] = bias + sum over t < count of w[t] x x[i * step + taps[t]], for i < n. */     \\
    static void volta_depthwise##S(Py_ssize_t count, const Py_ssize_t* taps, const T* w, Py_ssize_t n, const T* x, Py_ssize_t step, \\
                                   const T* bias, T* out, Py_ssize_t out_step) {                                    \\
        Py_ssize_t i, t; int r;                                                                                     \\
        for (i = 0; i + 8 <= n; i += 8, x += 8 * step, out += 8 * out_step) {                                       \\
            volta_v##S sum[8];                                                                                      \\
            VOLTA_UNROLL for (r = 0; r < 8; r++) sum[r] = *(const volta_v##S*)bias;                                 \\
            for (t = 0; t < count; t++) {                                                                           \\
                const volta_v##S y = *(const volta_v##S*)(w + t * VOLTA_LANES##S);                                  \\
                const T* at = x + taps[t];                                                                          \\
                VOLTA_UNROLL for (r = 0; r < 8; r++) sum[r] = VOLTA_MADD##S(y, *(const volta_v##S*)(at + r * step), sum[r]); \\
            }                                                                                                       \\
            VOLTA_UNROLL for (r = 0; r < 8; r++) *(volta_v##S*)(out + r * out_step) = sum[r];                       \\
        }                                                                                                           \\
        if (i < n) {                    /* repeats the last one: a sum by itself would wait for each product */     \\
            volta_v##S sum[8];                                                                                      \\
            const T* at[8];                                                                                         \\
            VOLTA_UNROLL for (r = 0; r < 8; r++) {                                                                  \\
                sum[r] = *(const volta_v##S*)bias;                                                                  \\
                at[r] = x + (i + r < n ? r : n - 1 - i) * step;                                                     \\
            }                                                                                                       \\
            for (t = 0; t < count; t++) {                                                                           \\
                const volta_v##S y = *(const volta_v##S*)(w + t * VOLTA_LANES##S);                                  \\
                VOLTA_UNROLL for (r = 0; r < 8; r++) sum[r] = VOLTA_MADD##S(y, *(const volta_v##S*)(at[r] + taps[t]), sum[r]); \\
            }                                                                                                       \\
            VOLTA_UNROLL for (r = 0; r < 8; r++) if (i + r < n) *(volta_v##S*)(out + r * out_step) = sum[r];        \\
        }                                                                                                           \\
    }
    VOLTA_DEPTHWISE(32, float)
    VOLTA_DEPTHWISE(64, double)
    """
    void depthwise32 "volta_depthwise32"(Py_ssize_t count, const Py_ssize_t* taps, const float* w, Py_ssize_t n, const float* x,
                                         Py_ssize_t step, const float* bias, float* out, Py_ssize_t out_step) noexcept nogil
    void depthwise64 "volta_depthwise64"(Py_ssize_t count, const Py_ssize_t* taps, const double* w, Py_ssize_t n, const double* x,
                                         Py_ssize_t step, const double* bias, double* out, Py_ssize_t out_step) noexcept nogil

cdef enum:
    LEAST_LANES = 4             # groups
    MOST_OUTPUTS = 4            # of a group
    PLACES = 1024               # of a chunk: with a block of channels, they stay in the L2 cache

cdef struct Depthwise:
    Py_ssize_t blocks                           # of channels, one a lane
    Py_ssize_t band, places, pixels             # elements of a chunk's input and of what is written of it, and of a turned plane
    Py_ssize_t* offsets                         # [taps] by phase: of each tap into the band,
    Py_ssize_t* order                           # and which of the kernel it is
    Py_ssize_t* phases                          # [phases + 1] first tap of each phase


cdef bint fits(Plan* p) noexcept nogil:
    """Whether each group has one input, and is one of enough lanes."""
    return p.c == 1 and p.o <= MOST_OUTPUTS and p.groups >= LEAST_LANES


cdef bint rows_pay(Plan* p) noexcept nogil:
    """Whether groups are so few lanes that rows of places fill vectors better, which takes twice as long for each vector."""
    cdef Py_ssize_t lines = ceil_div(p.w.places, p.lanes) * p.lanes, room = ceil_div(p.groups, p.lanes) * p.lanes
    return p.w.stride * p.w.step * p.w.skip == 1 and room * p.w.places > 2 * lines * p.groups


cdef Storage prepare(Plan* p, Depthwise* q):
    """Chunks of places of one image, and the tables of taps, which live as long as the storage."""
    cdef Py_ssize_t phases = p.d.step * p.h.step * p.w.step, phase, k, z = 0, y = 0, x = 0, t = 0
    cdef Storage tables = host_storage((2 * p.taps + 2 + phases) * sizeof(Py_ssize_t))
    set_chunk(p, min(PLACES, p.d.places * p.h.places * p.w.places))
    q.blocks = ceil_div(p.groups, p.lanes)
    q.band = p.d.band * p.h.band * p.w.band * p.lanes
    q.places = p.d.chunk * p.h.chunk * p.w.places * phases * p.lanes
    q.pixels = max(p.h.band * p.h.skip * p.w.source, p.h.chunk * p.h.step * p.w.full) * p.lanes
    q.offsets = <Py_ssize_t*>tables.data
    q.order = q.offsets + p.taps
    q.phases = q.order + p.taps + 1
    for phase in range(phases):
        q.phases[phase] = t
        for k in range(p.taps):
            if (tap_on(&p.d, p.transposed, phase // p.w.step // p.h.step, k // (p.h.kernel * p.w.kernel), &z)
                    and tap_on(&p.h, p.transposed, phase // p.w.step % p.h.step, k // p.w.kernel % p.h.kernel, &y)
                    and tap_on(&p.w, p.transposed, phase % p.w.step, k % p.w.kernel, &x)):
                q.offsets[t], q.order[t] = ((z * p.h.band + y) * p.w.band + x) * p.lanes, k
                t += 1
        q.phases[phase + 1] = t
    return tables


cdef void load(Plan* p, Chunk* chunk, const real* x, Py_ssize_t channels, real* band, real* pixels) noexcept nogil:
    """The padded input of a chunk, zeros past the last channel. IN: x, the first one's plane of the chunk's image."""
    cdef Py_ssize_t s, r, i, z, y, plane = p.h.source * p.w.source, line = p.w.source * p.lanes
    cdef Py_ssize_t slices = (chunk.slices - 1) * p.d.stride + p.d.reach, rows = (chunk.rows - 1) * p.h.stride + p.h.reach
    cdef Py_ssize_t left = min(ceil_div(max(0, -p.w.first), p.w.skip), p.w.band), first = p.w.first + left * p.w.skip
    cdef Py_ssize_t n = min(ceil_div(p.w.source - first, p.w.skip), p.w.band - left)
    cdef Py_ssize_t top = chunk.y * p.h.stride * p.h.skip + p.h.first, low = max(0, top)
    cdef Py_ssize_t high = min(p.h.source, top + (rows - 1) * p.h.skip + 1)
    cdef bint inside
    cdef real* to
    if channels < p.lanes:
        memset(pixels, 0, max(0, high - low) * line * sizeof(real))
    for s in range(slices):
        z = (chunk.z * p.d.stride + s) * p.d.skip + p.d.first
        inside = 0 <= z < p.d.source and high > low and n > 0
        if inside:
            turn(channels, (high - low) * p.w.source, x + z * plane + low * p.w.source, pixels_in(p), pixels, p.lanes)
        for r in range(rows):
            y = top + r * p.h.skip
            to = band + (s * p.h.band + r) * p.w.band * p.lanes
            if not inside or y < low or y >= high:
                memset(to, 0, p.w.band * p.lanes * sizeof(real))
                continue
            memset(to, 0, left * p.lanes * sizeof(real))
            memset(to + (left + n) * p.lanes, 0, (p.w.band - left - n) * p.lanes * sizeof(real))
            to += left * p.lanes
            if p.w.skip == 1:
                memcpy(to, pixels + (y - low) * line + first * p.lanes, n * p.lanes * sizeof(real))
            else:
                for i in range(n):
                    memcpy(to + i * p.lanes, pixels + (y - low) * line + (first + i * p.w.skip) * p.lanes, p.lanes * sizeof(real))


cdef inline bint sees_all(Axis* a, Py_ssize_t place) noexcept nogil:
    """Whether all taps of a place are in the input."""
    return 0 <= place * a.stride + a.first <= a.source - a.reach


cdef Py_ssize_t see_row(Plan* p, Depthwise* q, Py_ssize_t z, Py_ssize_t y, const real* w, Py_ssize_t* offsets, real* seen) noexcept nogil:
    """How many taps a row of places sees that are not above, below, before or behind the input. OUT: their offsets and weights. There is
    one phase."""
    cdef Py_ssize_t i, j, dz = 0, dy = 0, t, n = 0, line = p.w.kernel
    for i in range(p.d.kernel):
        tap_on(&p.d, p.transposed, 0, i, &dz)
        if not 0 <= z * p.d.stride + p.d.first + dz < p.d.source:
            continue
        for j in range(p.h.kernel):
            tap_on(&p.h, p.transposed, 0, j, &dy)
            if 0 <= y * p.h.stride + p.h.first + dy < p.h.source:
                t = (i * p.h.kernel + j) * line
                memcpy(offsets + n, q.offsets + t, line * sizeof(Py_ssize_t))
                memcpy(seen + n * p.lanes, w + t * p.lanes, line * p.lanes * sizeof(real))
                n += line
    return n


cdef Py_ssize_t list_rows(Plan* p, Depthwise* q, Py_ssize_t phase, Py_ssize_t z, Py_ssize_t y, bint leaves, Py_ssize_t* taps,
                          Py_ssize_t* lines) noexcept nogil:
    """The rows of a kernel's taps that a row of places sees; `leaves` out, of the one phase, those not in the input. OUT: where the taps
    that are met first lie in the band, and their weights."""
    cdef Py_ssize_t i, t, dz = 0, dy = 0, n = 0, last = p.w.kernel - 1 if p.transposed else 0
    for i in range((q.phases[phase + 1] - q.phases[phase]) // p.w.kernel):
        if leaves:
            tap_on(&p.d, p.transposed, 0, i // p.h.kernel, &dz)
            tap_on(&p.h, p.transposed, 0, i % p.h.kernel, &dy)
            if not (0 <= z * p.d.stride + p.d.first + dz < p.d.source and 0 <= y * p.h.stride + p.h.first + dy < p.h.source):
                continue
        t = q.phases[phase] + i * p.w.kernel + last
        taps[n], lines[n] = q.offsets[t], t * p.lanes
        n += 1
    return n


cdef void write_neighbours(Plan* p, Py_ssize_t rows, const Py_ssize_t* taps, const Py_ssize_t* lines, const real* w, Py_ssize_t n,
                           const real* x, const real* bias, real* out) noexcept nogil:
    """A row of n places that see so many rows of taps."""
    cdef Py_ssize_t i, place, step = p.lanes
    cdef int some, width = <int>p.w.kernel
    for i in range(ceil_div(n, NEIGHBOURS)):
        place = i * NEIGHBOURS
        some = <int>min(NEIGHBOURS, n - place)
        if real is float:
            neighbours32(width, rows, taps, lines, w, -step if p.transposed else step, x + place * step, step, 0, some + width - 1, some,
                         bias, out + place * step, step)
        else:
            neighbours64(width, rows, taps, lines, w, -step if p.transposed else step, x + place * step, step, 0, some + width - 1, some,
                         bias, out + place * step, step)


cdef void write_phase(Plan* p, Depthwise* q, Chunk* chunk, Py_ssize_t phase, Py_ssize_t slices, Py_ssize_t rows, const real* band,
                      const real* w, const real* bias, real* seen, bint leaves, real* out) noexcept nogil:
    """What one phase writes of a chunk's slices and rows; `leaves` out what is not in the input. IN: seen, room for the taps of a row.
    OUT: out, the chunk's pixels."""
    cdef Py_ssize_t x0 = phase % p.w.step, y0 = phase // p.w.step % p.h.step, z0 = phase // p.w.step // p.h.step, z, y
    cdef Py_ssize_t first = q.phases[phase], count = q.phases[phase + 1] - first, n
    cdef Py_ssize_t all = count
    cdef bint left_out
    cdef Py_ssize_t* offsets
    cdef const real* weight
    cdef const real* x
    cdef real* to
    n = ceil_div(p.w.full - x0, p.w.step) if p.w.full > x0 else 0
    for z in range(ceil_div(slices - z0, p.d.step) if slices > z0 else 0):
        for y in range(ceil_div(rows - y0, p.h.step) if rows > y0 else 0):
            x = band + (z * p.d.stride * p.h.band + y * p.h.stride) * p.w.band * p.lanes
            to = out + (((z * p.d.step + z0) * rows + y * p.h.step + y0) * p.w.full + x0) * p.lanes
            left_out = leaves and not (sees_all(&p.d, chunk.z + z) and sees_all(&p.h, chunk.y + y))
            if of_neighbours(&p.w):
                offsets = <Py_ssize_t*>(seen + p.taps * p.lanes)
                count = list_rows(p, q, phase, chunk.z + z, chunk.y + y, left_out, offsets, offsets + p.d.kernel * p.h.kernel)
                write_neighbours(p, count, offsets, offsets + p.d.kernel * p.h.kernel, w, n, x, bias, to)
                continue
            count, offsets, weight = all, q.offsets + first, w + first * p.lanes
            if left_out:
                offsets, weight = <Py_ssize_t*>(seen + p.taps * p.lanes), <const real*>seen
                count = see_row(p, q, chunk.z + z, chunk.y + y, w, offsets, seen)
            if real is float:
                depthwise32(count, offsets, weight, n, x, p.w.stride * p.lanes, bias, to, p.w.step * p.lanes)
            else:
                depthwise64(count, offsets, weight, n, x, p.w.stride * p.lanes, bias, to, p.w.step * p.lanes)


cdef void depthwise_part(Plan* p, Depthwise* q, Py_ssize_t item, const real* x, const real* weight, const real* bias, real* out,
                         real* band) noexcept nogil:
    """One block of channels for one chunk."""
    cdef Py_ssize_t group = item % q.blocks * p.lanes, channels = min(p.lanes, p.groups - group), m, i, z, t
    cdef Py_ssize_t slices, rows, size, phase
    cdef Chunk chunk = chunk_at(p, item // q.blocks)
    cdef real* pixels = band + q.band
    cdef real* result = pixels + q.pixels
    cdef real* w = result + q.places
    cdef real* kernel = w + p.taps * p.lanes
    cdef real* line = kernel + p.taps * p.lanes
    cdef real* space = line + p.lanes
    cdef bint leaves = p.d.step * p.h.step * p.w.step * p.d.skip * p.h.skip == 1 and p.d.kernel * p.h.kernel > 1
    slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step)
    rows = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step)
    size = rows * p.w.full
    memset(kernel, 0, (p.taps + 1) * p.lanes * sizeof(real))
    load(p, &chunk, x + (chunk.image * p.groups + group) * pixels_in(p), channels, band, pixels)
    for m in range(p.o):                                # an output of each group
        for i in range(channels):
            line[i] = bias[(group + i) * p.o + m] if bias != NULL else 0
        turn(channels, p.taps, weight + (group * p.o + m) * p.taps, p.o * p.taps, kernel, p.lanes)
        for t in range(q.phases[p.d.step * p.h.step * p.w.step]):
            memcpy(w + t * p.lanes, kernel + q.order[t] * p.lanes, p.lanes * sizeof(real))
        for phase in range(p.d.step * p.h.step * p.w.step):
            write_phase(p, q, &chunk, phase, slices, rows, <const real*>band, <const real*>w, <const real*>line,
                        space, leaves and (p.transposed or finite(p.taps * p.lanes, <const real*>w)), result)
        for z in range(slices):
            turn(size, channels, <const real*>result + z * size * p.lanes, p.lanes,
                 out + ((chunk.image * p.groups + group) * p.o + m) * pixels_out(p)
                 + ((chunk.z * p.d.step + z) * p.h.full + chunk.y * p.h.step) * p.w.full, p.o * pixels_out(p))


cdef bint convolve_depthwise(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` was computed this way: not where the groups have several inputs, or are few. Allocates."""
    whole.lanes = lanes(out)
    if whole.pixelwise:
        return depthwise_pixelwise(whole, x, weight, bias, out)
    if not fits(whole) or rows_pay(whole):
        return False
    cdef Plan plan = whole[0]
    cdef Plan* p = &plan
    cdef Depthwise q
    cdef int threads = threads_of(p)
    p.lanes = lanes(out)
    cdef Storage tables = prepare(p, &q)
    cdef Py_ssize_t tap = 3 * p.lanes + sizeof(Py_ssize_t) // sizeof(real), item
    cdef Py_ssize_t own = ceil_div(q.band + q.pixels + q.places + p.taps * tap + p.lanes, 16) * 16
    cdef Storage scratch = host_storage(threads * own * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    with nogil:
        for item in prange(q.blocks * p.chunks, num_threads=threads, schedule="static"):
            depthwise_part(p, &q, item, x, weight, bias, out, buffers + threadid() * own)
    return True


cdef void weight_part(Plan* p, Depthwise* q, Py_ssize_t slices, Py_ssize_t item, const real* g, const real* x, real* out,
                      real* band) noexcept nogil:
    """One block of channels for some chunks. OUT: its place in out[slice][groups * o][taps]."""
    cdef Py_ssize_t group = item % q.blocks * p.lanes, channels = min(p.lanes, p.groups - group), part = item // q.blocks, index, size
    cdef Py_ssize_t m, z, y
    cdef Chunk chunk
    cdef real* pixels = band + q.band
    cdef real* gradients = pixels + q.pixels
    cdef real* sums = gradients + q.places
    cdef const real* from_row
    cdef const real* at
    memset(sums, 0, p.o * p.taps * p.lanes * sizeof(real))
    if channels < p.lanes:
        memset(gradients, 0, q.places * sizeof(real))
    for index in range(p.chunks * part // slices, p.chunks * (part + 1) // slices):
        chunk = chunk_at(p, index)
        size = chunk.rows * p.w.places
        load(p, &chunk, x + (chunk.image * p.groups + group) * pixels_in(p), channels, band, pixels)
        for m in range(p.o):
            for z in range(chunk.slices):
                turn(channels, size, g + ((chunk.image * p.groups + group) * p.o + m) * pixels_out(p)
                     + ((chunk.z + z) * p.h.places + chunk.y) * p.w.places, p.o * pixels_out(p), gradients, p.lanes)
                for y in range(chunk.rows):
                    from_row = gradients + y * p.w.places * p.lanes
                    at = band + (z * p.d.stride * p.h.band + y * p.h.stride) * p.w.band * p.lanes
                    if real is float:
                        lane_sums32(p.taps, q.offsets, p.w.places, from_row, p.lanes, at, p.w.stride * p.lanes, sums + m * p.taps * p.lanes)
                    else:
                        lane_sums64(p.taps, q.offsets, p.w.places, from_row, p.lanes, at, p.w.stride * p.lanes, sums + m * p.taps * p.lanes)
    turn(p.o * p.taps, channels, <const real*>sums, p.lanes, out + (part * p.groups + group) * p.o * p.taps, p.o * p.taps)


cdef bint weight_depthwise(Plan* whole, const real* g, const real* x, real* out) except -1:
    """Whether the gradient of the weight was computed this way. Allocates."""
    cdef Ranges ranges
    cdef int t
    if whole.pixelwise:
        return weight_pixelwise(whole, g, x, out)
    if not fits(whole):
        return False
    cdef Plan plan = whole[0]
    cdef Plan* p = &plan
    cdef Depthwise q
    cdef int threads = threads_of(p)
    p.lanes = lanes(out)
    cdef Storage tables = prepare(p, &q)
    cdef Py_ssize_t slices = min(p.chunks, ceil_div(items_of(p), q.blocks)), size = p.groups * p.o * p.taps, item
    cdef Py_ssize_t own = ceil_div(q.band + q.pixels + q.places + p.o * p.taps * p.lanes, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (slices * size if slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if slices > 1 else out
    with nogil:
        deal(&ranges, q.blocks * slices, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                weight_part(p, &q, slices, item, g, x, parts, buffers + threadid() * own)
                item = take(&ranges, t)
        if slices > 1:
            add_slices(out, <const real*>parts, slices, size, threads)
    return True
