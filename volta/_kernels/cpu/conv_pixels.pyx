# Convolution, and the gradient of its input, pixel by pixel: tiles of TILE_ROWS places by a panel of up to 3 vectors of outputs; or, where
#   outputs are few, by up to 3 outputs, whose products with vectors of channels are summed over the lanes in the end.
#
# The padded input of a chunk lies as [image][slice][row][column][c], so that what a place sees of one tap, or of neighbouring taps, is a
#   run of elements that lie behind one another; the weights of a panel as [part of c][tap by phase][c][panel]. Nothing is copied for
#   im2col, whatever the stride. The results of a panel, pixel by pixel as well, are turned in the end.
# Threads: over groups, chunks and blocks of panels; a result does not depend on how they are cut. Sizes: the front end.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.conv_plan cimport (
    Chunk, Plan, ceil_div, chunk_at, join_rows, load_pixels, pixels_in, pixels_out, set_chunk, tap_on, threads_of)
from volta._kernels.cpu.gemm cimport pack, turn
from volta._kernels.cpu.thin cimport add_rows
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes, real

cdef extern from *:
    """
    /* out[targets[i]] = sums of a[places[i] + runs[r]][k] x b[r][k][N * LANES] over r < count, + bias (NULL: none), + out if `add`. */
    #define VOLTA_PLACES(NAME, T, V, LANES, N, S)                                                                   \\
    static void NAME(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const T* a, const Py_ssize_t* places, const T* b, \\
                     const Py_ssize_t* targets, const T* bias, int add, T* out) {                                   \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        Py_ssize_t r, p; int i, j;                                                                                  \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = bias ? ((const V*)bias)[j] : (V){0};                   \\
        for (r = 0; r < count; r++) {                                                                               \\
            const T* row[VOLTA_TILE_ROWS];                                                                          \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) row[i] = a + places[i] + runs[r];                    \\
            for (p = 0; p < k; p++, b += N * LANES) {                                                               \\
                V y[N];                                                                                             \\
                VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = ((const V*)b)[j];                                       \\
                VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                \\
                    V x = VOLTA_SAME##S(row[i][p]);                                                                 \\
                    VOLTA_KEEP(x);                                                                                  \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) { sum[i][j] = VOLTA_MADD##S(x, y[j], sum[i][j]); VOLTA_KEEP(sum[i][j]); } \\
                }                                                                                                   \\
            }                                                                                                       \\
        }                                                                                                           \\
        if (add)                                                                                                    \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                      \\
                VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] += ((const V*)(out + targets[i] * N * LANES))[j];    \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((V*)(out + targets[i] * N * LANES))[j] = sum[i][j];               \\
    }
    #define VOLTA_PLACES_OF(S, T)                                                                                   \\
    VOLTA_PLACES(volta_places##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                          \\
    VOLTA_PLACES(volta_places##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                          \\
    VOLTA_PLACES(volta_places##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                          \\
    static void volta_places##S(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const T* a, const Py_ssize_t* places, \\
                                const T* b, const Py_ssize_t* targets, const T* bias, int add, int vectors, T* out) { \\
        (vectors == 3 ? volta_places##S##_3 : vectors == 2 ? volta_places##S##_2 : volta_places##S##_1)             \\
            (count, runs, k, a, places, b, targets, bias, add, out);                                                \\
    }
    VOLTA_PLACES_OF(32, float)
    VOLTA_PLACES_OF(64, double)

    /* out[targets[i]][j] = the sum of a[places[i] + runs[r]][p] x b[j * step + r * k + p] over r < count and p < k, a multiple of LANES,
       + bias[j] (NULL: none), + out if `add`, for j < N. */
    #define VOLTA_FEW(NAME, T, V, LANES, N, S)                                                                      \\
    static void NAME(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const T* a, const Py_ssize_t* places, const T* b, \\
                     Py_ssize_t step, const Py_ssize_t* targets, const T* bias, int add, T* out) {                  \\
        V sum[VOLTA_TILE_ROWS][N];                                                                                  \\
        T total[VOLTA_TILE_ROWS][N];                                                                                \\
        Py_ssize_t r, p; int i, j;                                                                                  \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = (V){0};                                                \\
        for (r = 0; r < count; r++, b += k) {                                                                       \\
            const T* row[VOLTA_TILE_ROWS];                                                                          \\
            VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) row[i] = a + places[i] + runs[r];                    \\
            for (p = 0; p < k; p += LANES) {                                                                        \\
                V y[N];                                                                                             \\
                VOLTA_UNROLL for (j = 0; j < N; j++) y[j] = *(const V*)(b + j * step + p);                          \\
                VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++) {                                                \\
                    V x = *(const V*)(row[i] + p);                                                                  \\
                    VOLTA_KEEP(x);                                                                                  \\
                    VOLTA_UNROLL for (j = 0; j < N; j++) { sum[i][j] = VOLTA_MADD##S(x, y[j], sum[i][j]); VOLTA_KEEP(sum[i][j]); } \\
                }                                                                                                   \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++)      /* before any is written: a place may be repeated */          \\
                total[i][j] = volta_total##S(sum[i][j]) + (add ? out[targets[i] * N + j] : bias ? bias[j] : 0);     \\
        VOLTA_UNROLL for (i = 0; i < VOLTA_TILE_ROWS; i++)                                                          \\
            VOLTA_UNROLL for (j = 0; j < N; j++) out[targets[i] * N + j] = total[i][j];                             \\
    }
    #define VOLTA_FEW_OF(S, T)                                                                                      \\
    VOLTA_FEW(volta_few##S##_1, T, volta_v##S, VOLTA_LANES##S, 1, S)                                                \\
    VOLTA_FEW(volta_few##S##_2, T, volta_v##S, VOLTA_LANES##S, 2, S)                                                \\
    VOLTA_FEW(volta_few##S##_3, T, volta_v##S, VOLTA_LANES##S, 3, S)                                                \\
    static void volta_few##S(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const T* a, const Py_ssize_t* places, \\
                             const T* b, Py_ssize_t step, const Py_ssize_t* targets, const T* bias, int add, int outputs, T* out) { \\
        (outputs == 3 ? volta_few##S##_3 : outputs == 2 ? volta_few##S##_2 : volta_few##S##_1)                      \\
            (count, runs, k, a, places, b, step, targets, bias, add, out);                                          \\
    }
    VOLTA_FEW_OF(32, float)
    VOLTA_FEW_OF(64, double)
    """
    void places32 "volta_places32"(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const float* a, const Py_ssize_t* places,
                                   const float* b, const Py_ssize_t* targets, const float* bias, bint add, int vectors,
                                   float* out) noexcept nogil
    void places64 "volta_places64"(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const double* a, const Py_ssize_t* places,
                                   const double* b, const Py_ssize_t* targets, const double* bias, bint add, int vectors,
                                   double* out) noexcept nogil
    void few32 "volta_few32"(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const float* a, const Py_ssize_t* places,
                             const float* b, Py_ssize_t step, const Py_ssize_t* targets, const float* bias, bint add, int outputs,
                             float* out) noexcept nogil
    void few64 "volta_few64"(Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const double* a, const Py_ssize_t* places,
                             const double* b, Py_ssize_t step, const Py_ssize_t* targets, const double* bias, bint add, int outputs,
                             double* out) noexcept nogil

cdef enum:
    PANEL = 3 * 16              # outputs of a panel, at most
    DEPTH = 160                 # terms of one sum, whose weights stay in the L1 cache
    PLACES = 192                # of a chunk
    SMALLEST_CHUNK = 16
    LEAST_TERMS = 64            # of a sum, that turning the input and the output should serve
    LEAST_PLACES = 192          # that packing the weights should serve, where they are
    FEW_WEIGHTS = 262144        # more than these
    LINES = 512                 # weights of an output that are turned at a time
    ITEMS = 2                   # parts of the work for each thread

cdef struct Pixels:
    bint few                                    # outputs: lanes are channels
    Py_ssize_t room                             # channels of a pixel, with zeros up to whole vectors if lanes are channels
    Py_ssize_t vectors, panels, block, blocks   # vectors of outputs; their panels; panels of a block of the work; blocks
    Py_ssize_t parts, depth                     # parts of the channels that are summed apart, and their length
    Py_ssize_t run                              # taps that lie behind one another
    Py_ssize_t places                           # of a chunk and a phase, in whole tiles
    Py_ssize_t group                            # weights of one group
    Py_ssize_t* offsets                         # [taps] by phase: of each tap into the band,
    Py_ssize_t* order                           # and which of the kernel it is
    Py_ssize_t* phases                          # [phases + 1] first tap of each phase


cdef bint few_pay(Plan* p) noexcept nogil:
    """Whether few outputs take less time by lanes of channels than by rows of places: in cycles of a place and channel, times 32. A row costs
    about as much to load as 60 of its elements, one with a longer stride as 4 each."""
    cdef Py_ssize_t seen = p.d.stride * p.h.stride * p.w.stride * p.d.skip * p.h.skip * p.w.skip, rest = p.lanes - 1 - (p.c - 1) % p.lanes
    cdef Py_ssize_t tiles = p.taps * (2 * p.o if p.o <= TILE_ROWS // 2 else TILE_ROWS) * ceil_div(p.w.places, p.lanes) * p.lanes // p.w.places
    cdef Py_ssize_t loads = seen * (110 if p.w.stride * p.w.skip > 2 else 5 + 2000 // (p.w.places * p.w.stride + p.w.reach - 1))
    cdef Py_ssize_t sums = 90 * p.o * p.d.step * p.h.step * p.w.step, turned = (30 if rest else 15) * seen
    return (p.taps * p.o + turned) * (p.c + rest) + sums < (tiles + loads) * p.c


cdef bint fits(Plan* p) noexcept nogil:
    """Whether the sizes are such that this way is faster: few outputs, rows that fill no vectors, or stride; weights that many places share,
    or few."""
    cdef Py_ssize_t lines = ceil_div(p.w.places, p.lanes) * p.lanes, weights = p.o * p.c * p.taps
    cdef bint narrow = lines * 16 > p.w.places * 17
    return (p.c * p.taps >= LEAST_TERMS
            and (few_pay(p) if p.o <= TILE_ROWS else narrow or p.c >= TILE_ROWS and p.w.stride * p.w.step > 1)
            and (p.n * p.d.places * p.h.places * p.w.places >= LEAST_PLACES or weights <= FEW_WEIGHTS))


cdef inline Py_ssize_t panel_at(Plan* p, Pixels* q, Py_ssize_t panel) noexcept nogil:
    """Its first output."""
    return p.o * panel // q.panels if q.few else q.vectors * panel // q.panels * p.lanes


cdef void cut(Plan* p, Pixels* q, int threads) noexcept nogil:
    """Chunks of places, blocks of panels and runs."""
    cdef Py_ssize_t items = ITEMS * threads if threads > 1 else 1, target = PLACES
    q.vectors = ceil_div(p.o, p.lanes)
    q.panels = ceil_div(p.o if q.few else q.vectors, 3)
    set_chunk(p, target)
    while p.chunks * p.groups * q.panels < items and target > SMALLEST_CHUNK:
        target //= 2
        set_chunk(p, target)
    q.blocks = min(q.panels, ceil_div(items, p.chunks * p.groups))
    q.block = ceil_div(q.panels, q.blocks)
    q.blocks = ceil_div(q.panels, q.block)
    q.room = ceil_div(p.c, p.lanes) * p.lanes if q.few else p.c
    q.parts = 1 if q.few else ceil_div(p.c, DEPTH)
    q.depth = ceil_div(q.room, q.parts)
    q.parts = ceil_div(q.room, q.depth)
    q.places = ceil_div(p.images * p.d.chunk * p.h.chunk * p.w.places, TILE_ROWS) * TILE_ROWS
    q.group = q.room * p.taps * (p.o if q.few else q.vectors * p.lanes)


cdef void fill_runs(Plan* p, Pixels* q) noexcept nogil:
    """OUT: offsets, order, phases, run. Taps of a phase in the order in which they lie in the band."""
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
                        q.offsets[t] = ((z * p.h.band + y) * p.w.band + x) * q.room
                        t += 1
        q.phases[phase + 1] = t
    q.run = p.w.kernel if p.w.step == p.w.dilation == 1 and (q.few or p.w.kernel * p.c <= DEPTH) else 1


cdef void pack_panel(Plan* p, Pixels* q, Py_ssize_t item, const real* weight, real* out, real* lines) noexcept nogil:
    """The weights of some channels of one panel. IN: lines, room for LINES + taps lines of a panel."""
    cdef Py_ssize_t step = max(1, LINES // p.taps), blocks = ceil_div(p.c, step), c0 = item % blocks * step, c1 = min(c0 + step, p.c), c, t
    cdef Py_ssize_t panel = item // blocks % q.panels, group = item // blocks // q.panels, first = panel_at(p, q, panel), part
    cdef Py_ssize_t width = panel_at(p, q, panel + 1) - first, outputs = min(width, p.o - first)
    weight += group * p.o * p.c * p.taps
    out += group * q.group + p.c * p.taps * first
    if p.transposed:
        for c in range(c0, c1):
            pack(outputs, width, p.taps, weight + (c * p.o + first) * p.taps, p.taps, 1, lines + (c - c0) * p.taps * width)
    else:
        pack(outputs, width, p.taps * (c1 - c0), weight + (first * p.c + c0) * p.taps, p.c * p.taps, 1, lines)
    for c in range(c0, c1):
        part = c // q.depth
        for t in range(q.phases[p.d.step * p.h.step * p.w.step]):
            memcpy(out + (part * q.depth * p.taps + t * min(q.depth, p.c - part * q.depth) + c - part * q.depth) * width,
                   lines + ((c - c0) * p.taps + q.order[t]) * width, width * sizeof(real))


cdef void pack_output(Plan* p, Pixels* q, Py_ssize_t item, const real* weight, real* out, real* lines) noexcept nogil:
    """The weights of one of few outputs. OUT: out[tap by phase][room]. IN: lines, room for as many."""
    cdef Py_ssize_t group = item // p.o, output = item % p.o, t
    weight += (group * p.o * p.c + (output if p.transposed else output * p.c)) * p.taps
    pack(p.c, q.room, p.taps, weight, p.taps * (p.o if p.transposed else 1), 1, lines)
    for t in range(q.phases[p.d.step * p.h.step * p.w.step]):
        memcpy(out + (item * p.taps + t) * q.room, lines + q.order[t] * q.room, q.room * sizeof(real))


cdef Py_ssize_t list_places(Plan* p, Pixels* q, Chunk* chunk, Py_ssize_t phase, Py_ssize_t* places, Py_ssize_t* targets) noexcept nogil:
    """What one phase writes of a chunk: tiles. OUT: where the places lie in the band, and among the outputs of the chunk; repeated up to
    whole tiles."""
    cdef Py_ssize_t x0 = phase % p.w.step, y0 = phase // p.w.step % p.h.step, z0 = phase // p.w.step // p.h.step, i, z, y, x, n = 0
    cdef Py_ssize_t slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step)
    cdef Py_ssize_t rows = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step)
    for i in range(chunk.images):
        for z in range(ceil_div(slices - z0, p.d.step) if slices > z0 else 0):
            for y in range(ceil_div(rows - y0, p.h.step) if rows > y0 else 0):
                for x in range(ceil_div(p.w.full - x0, p.w.step) if p.w.full > x0 else 0):
                    places[n] = (((i * p.d.band + z * p.d.stride) * p.h.band + y * p.h.stride) * p.w.band + x * p.w.stride) * q.room
                    targets[n] = ((i * slices + z * p.d.step + z0) * rows + y * p.h.step + y0) * p.w.full + x * p.w.step + x0
                    n += 1
    i = n
    while i % TILE_ROWS:
        places[i], targets[i] = places[n - 1], targets[n - 1]
        i += 1
    return i // TILE_ROWS


cdef inline void tile_of_places(Pixels* q, Py_ssize_t count, const Py_ssize_t* runs, Py_ssize_t k, const real* band,
                                const Py_ssize_t* places, const real* b, Py_ssize_t step, const Py_ssize_t* targets, const real* bias,
                                bint add, Py_ssize_t width, int lane_count, real* out) noexcept nogil:
    if real is float:
        if q.few:
            few32(count, runs, k, band, places, b, step, targets, bias, add, <int>width, out)
        else:
            places32(count, runs, k, band, places, b, targets, bias, add, <int>(width // lane_count), out)
    else:
        if q.few:
            few64(count, runs, k, band, places, b, step, targets, bias, add, <int>width, out)
        else:
            places64(count, runs, k, band, places, b, targets, bias, add, <int>(width // lane_count), out)


cdef void phase_product(Plan* p, Pixels* q, Py_ssize_t phase, Py_ssize_t tiles, Py_ssize_t width, const Py_ssize_t* places,
                        const Py_ssize_t* targets, const real* band, const real* weight, const real* bias, real* out) noexcept nogil:
    """One phase of a panel of a chunk, in sums of up to DEPTH terms or one run."""
    cdef Py_ssize_t runs[DEPTH]
    cdef Py_ssize_t part, depth, first, end, count, most, tile, i
    cdef const real* b
    cdef bint add = False
    for part in range(q.parts):
        depth, first = min(q.depth, q.room - part * q.depth), q.phases[phase]
        most = (DEPTH if q.few else max(1, DEPTH // (depth * q.run))) * q.run
        while first < q.phases[phase + 1] or not add:
            end = min(first + most, q.phases[phase + 1])
            count = (end - first) // q.run
            for i in range(count):
                runs[i] = q.offsets[first + i * q.run] + part * q.depth
            b = weight + (first * depth if q.few else (part * q.depth * p.taps + first * depth) * width)
            for tile in range(tiles):
                tile_of_places(q, count, runs, depth * q.run, band, places + tile * TILE_ROWS, b, p.taps * q.room,
                               targets + tile * TILE_ROWS, <const real*>NULL if add else bias, add, width, p.lanes, out)
            add, first = True, end


cdef void pixels_part(Plan* p, Pixels* q, Py_ssize_t item, const real* x, const real* weight, const real* bias, real* out, real* pixels,
                      Py_ssize_t* places, real* band) noexcept nogil:
    """One block of panels of one group for one chunk. IN: pixels, room for the outputs of a panel; places, for two lists."""
    cdef real line[PANEL]
    cdef Py_ssize_t group = item % p.groups, block = item // p.groups % q.blocks, panel, first, width, i, z, size, phase
    cdef Chunk chunk = chunk_at(p, item // p.groups // q.blocks)
    cdef Py_ssize_t slices = min(chunk.slices * p.d.step, p.d.full - chunk.z * p.d.step)
    cdef const real* panel_bias = <const real*>&line[0] if bias != NULL else <const real*>NULL
    cdef real* to
    size = min(chunk.rows * p.h.step, p.h.full - chunk.y * p.h.step) * p.w.full
    load_pixels(p, &chunk, x + group * p.c * pixels_in(p), p.c, q.room, band)
    for panel in range(block * q.block, min(q.panels, (block + 1) * q.block)):
        first, width = panel_at(p, q, panel), panel_at(p, q, panel + 1) - panel_at(p, q, panel)
        for i in range(width if bias != NULL else 0):
            line[i] = bias[group * p.o + first + i] if first + i < p.o else 0
        for phase in range(p.d.step * p.h.step * p.w.step):
            i = list_places(p, q, &chunk, phase, places, places + q.places)
            phase_product(p, q, phase, i, width, places, places + q.places, <const real*>band,
                          weight + group * q.group + q.room * p.taps * first, panel_bias, pixels)
        for i in range(chunk.images):
            to = out + ((chunk.image + i) * p.groups * p.o + group * p.o + first) * pixels_out(p)
            for z in range(slices):
                turn(size, min(width, p.o - first), <const real*>pixels + (i * slices + z) * size * width, width,
                     to + ((chunk.z * p.d.step + z) * p.h.full + chunk.y * p.h.step) * p.w.full, pixels_out(p))


cdef bint convolve_by_pixels(Plan* whole, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` was computed this way: not where the sizes do not suit. Allocates."""
    cdef Plan plan = whole[0]
    cdef Plan* p = &plan
    cdef Pixels q
    cdef int threads = threads_of(p)
    p.lanes = lanes(out)
    join_rows(p)
    if not fits(p):
        return False
    q.few = p.o <= TILE_ROWS
    cut(p, &q, threads)
    cdef Py_ssize_t phases = p.d.step * p.h.step * p.w.step, item, lists
    cdef Storage tables = host_storage((2 * p.taps + 1 + phases + 1) * sizeof(Py_ssize_t))
    q.offsets = <Py_ssize_t*>tables.data
    q.order = q.offsets + p.taps
    q.phases = q.order + p.taps + 1
    fill_runs(p, &q)
    lists = ceil_div(2 * q.places * sizeof(Py_ssize_t), sizeof(real))
    cdef Py_ssize_t outputs = q.places * phases * 3 * p.lanes, lines = q.room * p.taps if q.few else (LINES + p.taps) * 3 * p.lanes
    cdef Py_ssize_t own = ceil_div(lists + max(outputs + p.images * p.d.band * p.h.band * p.w.band * q.room, lines), 16) * 16
    cdef Storage scratch = host_storage((threads * own + p.groups * q.group) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* packed = buffers + threads * own
    with nogil:
        if q.few:
            for item in prange(p.groups * p.o, num_threads=threads, schedule="static"):
                pack_output(p, &q, item, weight, packed, buffers + threadid() * own)
        else:
            for item in prange(p.groups * q.panels * ceil_div(p.c, max(1, LINES // p.taps)), num_threads=threads, schedule="static"):
                pack_panel(p, &q, item, weight, packed, buffers + threadid() * own)
        for item in prange(p.chunks * q.blocks * p.groups, num_threads=threads, schedule="dynamic"):
            pixels_part(p, &q, item, x, <const real*>packed, bias, out, buffers + threadid() * own + lists,
                        <Py_ssize_t*>(buffers + threadid() * own), buffers + threadid() * own + lists + outputs)
    return True
