# Convolution of each channel by itself, and its gradients, of images that lie pixel by pixel: lanes are channels, where they lie.
#
# What is written: place by place, four neighbours that see the same taps at a time, all channels; of kernels of usual widths without
#   stride eight neighbours, which share what they see. Taps outside the input are left out. The weights lie as [tap][channel].
# The gradient of the weight: of a chunk, the padded input lies as [slice][row][column][channel]; sums of a vector and nine taps.
# Threads: over rows of places; over slices of the chunks and shares of the channels, slices added in their order. A channel's sums do not
#   depend on the others. Sizes: the front end, of at least a vector of channels.

from cython.parallel cimport prange, threadid
from libc.string cimport memset

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.conv_plan cimport (
    Axis, Chunk, Plan, add_slices, ceil_div, chunk_at, finite, items_of, load_pixels, pixels_in, pixels_out, set_chunk, tap_on, threads_of)
from volta._kernels.cpu.gemm cimport turn
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport lanes

cdef extern from *:
    """
    /* out[i * out_step + c] = bias[c] (NULL: 0) + sum over t < count of w[lines[t] + c] x x[i * step + taps[t] + c], for i < P and N
       vectors of channels. */
    #define VOLTA_CHANNELS(S, T, P, N)                                                                               \\
    static inline void volta_channels##S##_##P##_##N(Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const T* w, \\
                                                     const T* x, Py_ssize_t step, const T* bias, T* out, Py_ssize_t out_step) { \\
        volta_v##S sum[P][N];                                                                                       \\
        Py_ssize_t t; int i, j;                                                                                     \\
        VOLTA_UNROLL for (i = 0; i < P; i++)                                                                        \\
            VOLTA_UNROLL for (j = 0; j < N; j++) sum[i][j] = bias ? ((const volta_v##S*)bias)[j] : (volta_v##S){0};  \\
        for (t = 0; t < count; t++) {                                                                               \\
            const T* at = x + taps[t];                                                                              \\
            VOLTA_UNROLL for (j = 0; j < N; j++) {                                                                  \\
                const volta_v##S y = ((const volta_v##S*)(w + lines[t]))[j];                                        \\
                VOLTA_UNROLL for (i = 0; i < P; i++)                                                                \\
                    sum[i][j] = VOLTA_MADD##S(y, ((const volta_v##S*)(at + i * step))[j], sum[i][j]);                \\
            }                                                                                                       \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < P; i++)                                                                        \\
            VOLTA_UNROLL for (j = 0; j < N; j++) ((volta_v##S*)(out + i * out_step))[j] = sum[i][j];                 \\
    }
    /* The same of all n channels; the last vector may overlap. */
    #define VOLTA_PLACES_LANES(S, T, P, N)                                                                           \\
    VOLTA_CHANNELS(S, T, P, N)                                                                                       \\
    VOLTA_CHANNELS(S, T, P, 1)                                                                                       \\
    static void volta_place_lanes##S##_##P(Py_ssize_t n, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const T* w, \\
                                           const T* x, Py_ssize_t step, const T* bias, T* out, Py_ssize_t out_step) { \\
        Py_ssize_t c = 0;                                                                                           \\
        for (; c + N * VOLTA_LANES##S <= n; c += N * VOLTA_LANES##S)                                                \\
            volta_channels##S##_##P##_##N(count, taps, lines, w + c, x + c, step, bias ? bias + c : bias, out + c, out_step); \\
        for (; c < n; c += VOLTA_LANES##S) {                                                                        \\
            if (c + VOLTA_LANES##S > n) c = n - VOLTA_LANES##S;                                                     \\
            volta_channels##S##_##P##_1(count, taps, lines, w + c, x + c, step, bias ? bias + c : bias, out + c, out_step); \\
        }                                                                                                           \\
    }
    VOLTA_PLACES_LANES(32, float, 4, 2)
    VOLTA_PLACES_LANES(32, float, 1, 4)
    VOLTA_PLACES_LANES(64, double, 4, 2)
    VOLTA_PLACES_LANES(64, double, 1, 4)
    #define VOLTA_PLACE_LANES(S, T)                                                                                  \\
    static void volta_place_lanes##S(int places, Py_ssize_t n, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, \\
                                     const T* w, const T* x, Py_ssize_t step, const T* bias, T* out, Py_ssize_t out_step) { \\
        (places == 4 ? volta_place_lanes##S##_4 : volta_place_lanes##S##_1)(n, count, taps, lines, w, x, step, bias, out, out_step); \\
    }
    VOLTA_PLACE_LANES(32, float)
    VOLTA_PLACE_LANES(64, double)

    /* Of n <= 8 neighbours a vector of channels each: out[i * out_step] = bias (NULL: 0) + sum over rows r < count and k < K of
       w[lines[r] + k * w_step] x x[taps[r] + (i + k) * step]. Columns i + k outside first .. end are not read. */
    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_UNROLL_COLUMNS _Pragma("GCC unroll 14")
    #else
      #define VOLTA_UNROLL_COLUMNS VOLTA_UNROLL
    #endif
    #define VOLTA_NEIGHBOURS(S, T, K)                                                                                \\
    static void volta_neighbours##S##_##K(Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const T* w, \\
                                          Py_ssize_t w_step, const T* x, Py_ssize_t step, int first, int end, int n, const T* bias, \\
                                          T* out, Py_ssize_t out_step) {                                             \\
        volta_v##S sum[8];                                                                                          \\
        Py_ssize_t r; int i, k, d;                                                                                  \\
        VOLTA_UNROLL for (i = 0; i < 8; i++) sum[i] = bias ? *(const volta_v##S*)bias : (volta_v##S){0};             \\
        for (r = 0; r < count; r++) {                                                                               \\
            const T* at = x + taps[r];                                                                              \\
            volta_v##S y[K];                                                                                        \\
            VOLTA_UNROLL for (k = 0; k < K; k++) y[k] = *(const volta_v##S*)(w + lines[r] + k * w_step);             \\
            VOLTA_UNROLL_COLUMNS for (d = 0; d < 7 + K; d++)                                                        \\
                if (d >= first && d < end) {                                                                        \\
                    volta_v##S v = *(const volta_v##S*)(at + d * step);                                             \\
                    VOLTA_KEEP(v);                                                                                  \\
                    VOLTA_UNROLL for (k = 0; k < K; k++)                                                            \\
                        if (d - k >= 0 && d - k < 8) sum[d - k] = VOLTA_MADD##S(y[k], v, sum[d - k]);               \\
                }                                                                                                   \\
        }                                                                                                           \\
        VOLTA_UNROLL for (i = 0; i < 8; i++) if (i < n) *(volta_v##S*)(out + i * out_step) = sum[i];                 \\
    }
    #define VOLTA_NEIGHBOURS_OF(S, T)                                                                                \\
    VOLTA_NEIGHBOURS(S, T, 3)                                                                                        \\
    VOLTA_NEIGHBOURS(S, T, 5)                                                                                        \\
    VOLTA_NEIGHBOURS(S, T, 7)                                                                                        \\
    static void volta_neighbours##S(int k, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const T* w, \\
                                    Py_ssize_t w_step, const T* x, Py_ssize_t step, int first, int end, int n, const T* bias, \\
                                    T* out, Py_ssize_t out_step) {                                                   \\
        (k == 3 ? volta_neighbours##S##_3 : k == 5 ? volta_neighbours##S##_5 : volta_neighbours##S##_7)              \\
            (count, taps, lines, w, w_step, x, step, first, end, n, bias, out, out_step);                           \\
    }
    VOLTA_NEIGHBOURS_OF(32, float)
    VOLTA_NEIGHBOURS_OF(64, double)

    /* The vectors sums[t] += sum over i < n of g[i * g_step] x x[i * step + taps[t]], for t < N. */
    #if defined(__GNUC__) && !defined(__clang__)
      #define VOLTA_UNROLL_TAPS _Pragma("GCC unroll 9")
    #else
      #define VOLTA_UNROLL_TAPS VOLTA_UNROLL
    #endif
    #define VOLTA_LANE_SUMS(S, T, N)                                                                                 \\
    static void volta_lane_sums##S##_##N(const Py_ssize_t* taps, Py_ssize_t n, const T* g, Py_ssize_t g_step, const T* x, \\
                                         Py_ssize_t step, T* sums) {                                                \\
        volta_v##S sum[N];                                                                                          \\
        Py_ssize_t i; int t;                                                                                        \\
        VOLTA_UNROLL_TAPS for (t = 0; t < N; t++) sum[t] = ((const volta_v##S*)sums)[t];                            \\
        for (i = 0; i < n; i++, g += g_step, x += step)                                                             \\
            VOLTA_UNROLL_TAPS for (t = 0; t < N; t++)                                                               \\
                sum[t] = VOLTA_MADD##S(*(const volta_v##S*)g, *(const volta_v##S*)(x + taps[t]), sum[t]);           \\
        VOLTA_UNROLL_TAPS for (t = 0; t < N; t++) ((volta_v##S*)sums)[t] = sum[t];                                  \\
    }
    #define VOLTA_LANE_SUMS_OF(S, T)                                                                                 \\
    VOLTA_LANE_SUMS(S, T, 1)                                                                                         \\
    VOLTA_LANE_SUMS(S, T, 3)                                                                                         \\
    VOLTA_LANE_SUMS(S, T, 9)                                                                                         \\
    static void volta_lane_sums##S(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const T* g, Py_ssize_t g_step, const T* x, \\
                                   Py_ssize_t step, T* sums) {                                                      \\
        Py_ssize_t t = 0;                                                                                           \\
        for (; t + 9 <= count; t += 9) volta_lane_sums##S##_9(taps + t, n, g, g_step, x, step, sums + t * VOLTA_LANES##S); \\
        for (; t + 3 <= count; t += 3) volta_lane_sums##S##_3(taps + t, n, g, g_step, x, step, sums + t * VOLTA_LANES##S); \\
        for (; t < count; t++) volta_lane_sums##S##_1(taps + t, n, g, g_step, x, step, sums + t * VOLTA_LANES##S);  \\
    }
    VOLTA_LANE_SUMS_OF(32, float)
    VOLTA_LANE_SUMS_OF(64, double)
    """
    void place_lanes32 "volta_place_lanes32"(int places, Py_ssize_t n, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines,
                                             const float* w, const float* x, Py_ssize_t step, const float* bias, float* out,
                                             Py_ssize_t out_step) noexcept nogil
    void place_lanes64 "volta_place_lanes64"(int places, Py_ssize_t n, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines,
                                             const double* w, const double* x, Py_ssize_t step, const double* bias, double* out,
                                             Py_ssize_t out_step) noexcept nogil
    void neighbours32 "volta_neighbours32"(int k, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const float* w,
                                           Py_ssize_t w_step, const float* x, Py_ssize_t step, int first, int end, int n,
                                           const float* bias, float* out, Py_ssize_t out_step) noexcept nogil
    void neighbours64 "volta_neighbours64"(int k, Py_ssize_t count, const Py_ssize_t* taps, const Py_ssize_t* lines, const double* w,
                                           Py_ssize_t w_step, const double* x, Py_ssize_t step, int first, int end, int n,
                                           const double* bias, double* out, Py_ssize_t out_step) noexcept nogil
    void lane_sums32 "volta_lane_sums32"(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const float* g, Py_ssize_t g_step,
                                         const float* x, Py_ssize_t step, float* sums) noexcept nogil
    void lane_sums64 "volta_lane_sums64"(Py_ssize_t count, const Py_ssize_t* taps, Py_ssize_t n, const double* g, Py_ssize_t g_step,
                                         const double* x, Py_ssize_t step, double* sums) noexcept nogil

cdef enum:
    BAND = 65536                # elements of a chunk's input, in the L2 cache
    CHUNK_PLACES = 1024         # of a chunk
    SHARE = 4                   # vectors of channels, worth a part of the work
    NEIGHBOURS = 8


cdef inline bint fits_pixelwise(Plan* p) noexcept nogil:
    return p.pixelwise and p.c == p.o == 1 and p.groups >= p.lanes


cdef inline bint of_neighbours(Axis* w) noexcept nogil:
    """Whether `neighbours` takes rows of such places."""
    return w.stride * w.skip * w.step * w.dilation == 1 and (w.kernel == 3 or w.kernel == 5 or w.kernel == 7)


cdef inline Py_ssize_t begin_of(Axis* a, Py_ssize_t place, Py_ssize_t offset) noexcept nogil:
    """The element of the input that a place sees of a tap."""
    return (place * a.stride + offset) * a.skip + a.first


cdef inline void seen_at(Plan* p, Axis* a, Py_ssize_t phase, Py_ssize_t place, Py_ssize_t* low, Py_ssize_t* high) noexcept nogil:
    """The taps of a phase that a place sees inside the input: those among low .. high."""
    cdef Py_ssize_t tap, offset = 0
    low[0] = high[0] = 0
    for tap in range(a.kernel):
        if tap_on(a, p.transposed, phase, tap, &offset) and 0 <= begin_of(a, place, offset) < a.source:
            if high[0] == 0:
                low[0] = tap
            high[0] = tap + 1


cdef inline void inner_places(Plan* p, Axis* a, Py_ssize_t phase, Py_ssize_t places, Py_ssize_t* low, Py_ssize_t* high) noexcept nogil:
    """The places of a phase that see all its taps."""
    cdef Py_ssize_t tap, offset = 0, step = a.stride * a.skip, before, behind
    low[0], high[0] = 0, places
    for tap in range(a.kernel):
        if tap_on(a, p.transposed, phase, tap, &offset):
            before, behind = -begin_of(a, 0, offset), a.source - begin_of(a, 0, offset)
            low[0] = max(low[0], ceil_div(before, step) if before > 0 else 0)
            high[0] = min(high[0], ceil_div(behind, step) if behind > 0 else 0)


cdef inline Py_ssize_t list_taps(Plan* p, Py_ssize_t z, Py_ssize_t y, Py_ssize_t phase, Py_ssize_t x0, Py_ssize_t x1, Py_ssize_t* taps,
                                 Py_ssize_t* lines) noexcept nogil:
    """The taps that a row of places sees, x0 .. x1 along it. OUT: where in the input from the phase's place 0, and in the weights."""
    cdef Py_ssize_t z0 = 0, z1 = 0, y0 = 0, y1 = 0, kz, ky, kx, dz = 0, dy = 0, dx = 0, row, count = 0
    seen_at(p, &p.d, z % p.d.step, z // p.d.step, &z0, &z1)
    seen_at(p, &p.h, y % p.h.step, y // p.h.step, &y0, &y1)
    for kz in range(z0, z1):
        for ky in range(y0, y1):
            if (not tap_on(&p.d, p.transposed, z % p.d.step, kz, &dz)) or not tap_on(&p.h, p.transposed, y % p.h.step, ky, &dy):
                continue
            row = (begin_of(&p.d, z // p.d.step, dz) * p.h.source + begin_of(&p.h, y // p.h.step, dy)) * p.w.source
            for kx in range(x0, x1):
                if tap_on(&p.w, p.transposed, phase, kx, &dx):
                    taps[count] = (row + begin_of(&p.w, 0, dx)) * p.groups
                    lines[count] = ((kz * p.h.kernel + ky) * p.w.kernel + kx) * p.groups
                    count += 1
    return count


cdef inline void row_of_neighbours(Plan* p, Py_ssize_t count, const real* x, const real* w, const real* bias, real* out,
                                   const Py_ssize_t* taps, const Py_ssize_t* lines) noexcept nogil:
    """A row of places. IN: taps, lines, of the kernel's first taps along it."""
    cdef Py_ssize_t n = p.groups, last = p.w.kernel - 1 if p.transposed else 0, i, place, column, c
    cdef Py_ssize_t w_step = -n if p.transposed else n        # taps of a gradient are met last to first
    cdef int first, end, some
    cdef const real* c_bias
    x -= last * n                                               # from the first tap to the one that is met first
    w += last * n
    for i in range(ceil_div(p.w.full, NEIGHBOURS)):
        place = i * NEIGHBOURS
        column, some = place + p.w.first, <int>min(NEIGHBOURS, p.w.full - place)
        first, end = <int>min(max(-column, 0), NEIGHBOURS + p.w.kernel), <int>min(some + p.w.kernel - 1, max(p.w.source - column, 0))
        c = 0
        while c < n:
            c = min(c, n - p.lanes)
            c_bias = bias + c if bias != NULL else <const real*>NULL
            if real is float:
                neighbours32(<int>p.w.kernel, count, taps, lines, w + c, w_step, x + place * n + c, n, first, end, some, c_bias,
                             out + place * n + c, n)
            else:
                neighbours64(<int>p.w.kernel, count, taps, lines, w + c, w_step, x + place * n + c, n, first, end, some, c_bias,
                             out + place * n + c, n)
            c += p.lanes


cdef inline void depthwise_row(Plan* p, Py_ssize_t item, const real* x, const real* w, const real* bias, real* out,
                               Py_ssize_t* taps) noexcept nogil:
    """One row of one image. IN: w[taps][groups]; taps, room for two lists of them."""
    cdef Py_ssize_t y = item % p.h.full, z = item // p.h.full % p.d.full, n = p.groups, phase, place, places, count = 0
    cdef Py_ssize_t inner0 = 0, inner1 = 0, x0 = 0, x1 = 0, step = p.w.stride * p.w.skip * n
    cdef Py_ssize_t* lines = taps + p.taps
    cdef const real* at
    cdef real* to
    cdef int group
    x += item // p.h.full // p.d.full * pixels_in(p) * n
    out += item * p.w.full * n
    if of_neighbours(&p.w):
        row_of_neighbours(p, list_taps(p, z, y, 0, 0, 1, taps, lines), x, w, bias, out, taps, lines)
        return
    for phase in range(min(p.w.step, p.w.full)):
        places, place = ceil_div(p.w.full - phase, p.w.step), 0
        inner_places(p, &p.w, phase, places, &inner0, &inner1)
        while place < places:
            group = 4 if inner0 <= place and place + 4 <= inner1 else 1
            if place <= inner0 or place >= inner1:          # within, all see the same
                seen_at(p, &p.w, phase, place, &x0, &x1)
                count = list_taps(p, z, y, phase, x0, x1, taps, lines)
            at, to = x + place * step, out + (place * p.w.step + phase) * n
            if real is float:
                place_lanes32(group, n, count, taps, lines, w, at, step, bias, to, p.w.step * n)
            else:
                place_lanes64(group, n, count, taps, lines, w, at, step, bias, to, p.w.step * n)
            place += group


cdef inline bint depthwise_pixelwise(Plan* p, const real* x, const real* weight, const real* bias, real* out) except -1:
    """Whether `out` was computed this way: not of several outputs, or few channels, or where padding could make NaN. Allocates."""
    p.lanes = lanes(out)
    if not (fits_pixelwise(p) and (p.transposed or finite(p.groups * p.taps, weight))):
        return False
    cdef int threads = threads_of(p)
    cdef Py_ssize_t lists = ceil_div(2 * p.taps * sizeof(Py_ssize_t), 64) * 64, item
    cdef Storage scratch = host_storage(threads * lists + p.groups * p.taps * sizeof(real))
    cdef char* tables = <char*>scratch.data
    cdef real* w = <real*>(tables + threads * lists)
    turn(p.groups, p.taps, weight, p.taps, w, p.groups)
    with nogil:
        for item in prange(p.n * p.d.full * p.h.full, num_threads=threads, schedule="static"):
            depthwise_row(p, item, x, <const real*>w, bias, out, <Py_ssize_t*>(tables + threadid() * lists))
    return True


# ---------------------------------------------------------------- the gradient of the weight

cdef struct Sums:
    Py_ssize_t slices, shares                   # parts of the chunks, whose sums are added, and of the channels
    Py_ssize_t vectors                          # of the channels that fill one
    Py_ssize_t room                             # most channels of a share
    Py_ssize_t band                             # elements of a chunk's input
    Py_ssize_t* offsets                         # [taps] of each into the band


cdef inline void sums_part(Plan* p, Sums* s, Py_ssize_t item, const real* g, const real* x, real* out, real* band) noexcept nogil:
    """Some channels of some chunks. OUT: their place in out[slice][groups][taps]."""
    cdef Py_ssize_t share = item % s.shares, part = item // s.shares, c0 = s.vectors * share // s.shares * p.lanes
    cdef Py_ssize_t width = (p.groups if share == s.shares - 1 else s.vectors * (share + 1) // s.shares * p.lanes) - c0
    cdef Py_ssize_t blocks = ceil_div(width, p.lanes), block, c, index, z, y
    cdef real* sums = band + s.band
    cdef const real* from_row
    cdef const real* at
    cdef Chunk chunk
    memset(sums, 0, blocks * p.taps * p.lanes * sizeof(real))
    for index in range(p.chunks * part // s.slices, p.chunks * (part + 1) // s.slices):
        chunk = chunk_at(p, index)
        load_pixels(p, &chunk, x + c0, width, s.room, band)
        for block in range(blocks):
            c = min(block * p.lanes, width - p.lanes)       # the last one may overlap
            for z in range(chunk.slices):
                for y in range(chunk.rows):
                    from_row = g + c0 + c + p.groups * (chunk.image * pixels_out(p)
                                                        + ((chunk.z + z) * p.h.places + chunk.y + y) * p.w.places)
                    at = band + c + (z * p.d.stride * p.h.band + y * p.h.stride) * p.w.band * s.room
                    if real is float:
                        lane_sums32(p.taps, s.offsets, p.w.places, from_row, p.groups, at, p.w.stride * s.room,
                                    sums + block * p.taps * p.lanes)
                    else:
                        lane_sums64(p.taps, s.offsets, p.w.places, from_row, p.groups, at, p.w.stride * s.room,
                                    sums + block * p.taps * p.lanes)
    for block in range(blocks):
        c = min(block * p.lanes, width - p.lanes)
        turn(p.taps, p.lanes, <const real*>sums + block * p.taps * p.lanes, p.lanes, out + (part * p.groups + c0 + c) * p.taps, p.taps)


cdef inline bint weight_pixelwise(Plan* whole, const real* g, const real* x, real* out) except -1:
    """Whether the gradient of the weight was computed this way. Allocates."""
    whole.lanes = lanes(out)
    if not fits_pixelwise(whole):
        return False
    cdef Plan plan = whole[0]
    cdef Plan* p = &plan
    cdef Sums s
    cdef int threads = threads_of(p)
    cdef Py_ssize_t size = p.groups * p.taps, item, own, t
    set_chunk(p, min(p.d.places * p.h.places * p.w.places, max(1, min(CHUNK_PLACES, BAND // p.groups))))
    s.slices, s.vectors = min(p.chunks, items_of(p)), p.groups // p.lanes
    s.shares = 1 if threads == 1 or s.slices >= 2 * threads else max(1, min(s.vectors // SHARE, ceil_div(2 * threads, s.slices)))
    s.room = p.groups if s.shares == 1 else (ceil_div(s.vectors, s.shares) + 1) * p.lanes
    s.band = p.d.band * p.h.band * p.w.band * s.room
    cdef Storage tables = host_storage(p.taps * sizeof(Py_ssize_t))
    s.offsets = <Py_ssize_t*>tables.data
    for t in range(p.taps):
        s.offsets[t] = ((t // p.w.kernel // p.h.kernel * p.d.dilation * p.h.band + t // p.w.kernel % p.h.kernel * p.h.dilation) * p.w.band
                        + t % p.w.kernel * p.w.dilation) * s.room
    own = ceil_div(s.band + ceil_div(s.room, p.lanes) * p.lanes * p.taps, 16) * 16
    cdef Storage scratch = host_storage((threads * own + (s.slices * size if s.slices > 1 else 0)) * sizeof(real))
    cdef real* buffers = <real*>scratch.data
    cdef real* parts = buffers + threads * own if s.slices > 1 else out
    with nogil:
        for item in prange(s.slices * s.shares, num_threads=threads, schedule="static"):
            sums_part(p, &s, item, g, x, parts, buffers + threadid() * own)
        if s.slices > 1:
            add_slices(out, <const real*>parts, s.slices, size, threads)
    return True
