# What the ways to convolve cost, by which one is chosen.

from volta._kernels.cpu.conv_plan cimport Axis, Plan, ceil_div, seen_of
from volta._kernels.cpu.tile cimport TILE_ROWS
from volta._kernels.cpu.winograd cimport by_three
from volta._kernels.cpu.winograd_blocks cimport BLOCK, POINTS, by_blocks

cdef enum:
    RUN_COST = 20               # multiply-adds that take as long as to begin with a run of taps of a place
    CROPPED = 98                # percent of the taps that windows see at most where tiles look which ones


# ---------------------------------------------------------------- few outputs, pixel by pixel

cdef inline Py_ssize_t steps_of(Plan* p) noexcept nogil:
    """Pixels for each place."""
    return p.d.stride * p.h.stride * p.w.stride * p.d.skip * p.h.skip * p.w.skip


cdef inline Py_ssize_t turn_cost(Plan* p) noexcept nogil:
    """Of a channel of the pixels for a place: cycles times 32."""
    return (30 if p.c % p.lanes else 15) * steps_of(p)


cdef inline Py_ssize_t few_cost(Plan* p) noexcept nogil:
    """Of a place with lanes of channels, including to turn its pixels: cycles times 32."""
    cdef Py_ssize_t channels = ceil_div(p.c, p.lanes) * p.lanes
    return (p.taps * p.o + turn_cost(p)) * channels + 90 * p.o * p.d.step * p.h.step * p.w.step


cdef inline Py_ssize_t wide_cost(Plan* p) noexcept nogil:
    """The same with lanes of outputs."""
    cdef Py_ssize_t run = p.w.kernel if p.w.step == p.w.dilation == 1 else 1
    return p.taps * (p.c * ceil_div(p.o, p.lanes) * p.lanes + RUN_COST // run) + turn_cost(p) * p.c


cdef inline bint few_pay(Plan* p) noexcept nogil:
    """Whether few outputs take less time by pixels than by rows of places. A row costs about as much to load as 20 of its elements, one
    with a longer stride as 4 each."""
    cdef Py_ssize_t rows = 2 * p.o if p.o <= TILE_ROWS // 2 else TILE_ROWS
    cdef Py_ssize_t tiles = p.taps * rows * ceil_div(p.w.places, p.lanes) * p.lanes // p.w.places
    cdef Py_ssize_t loads = steps_of(p) * (110 if p.w.stride * p.w.skip > 2 else 5 + 700 // (p.w.places * p.w.stride + p.w.reach - 1))
    return min(few_cost(p), wide_cost(p)) < (tiles + loads) * p.c


# ---------------------------------------------------------------- padding, and Winograd's ways

cdef inline double share_seen(Axis* a, bint transposed, Py_ssize_t tile) noexcept nogil:
    """Of the products of tiles of places and taps along an axis, those whose taps lie inside."""
    cdef Py_ssize_t tap, low = 0, high = 0, seen = 0
    for tap in range(a.kernel):
        seen_of(a, transposed, tap, &low, &high)
        seen += ceil_div(high, tile) - low // tile if high > low else 0
    return seen / <double>(ceil_div(a.places, tile) * a.kernel)


cdef inline bint cropping_pays(Plan* p) noexcept nogil:
    """Whether so many taps lie above or below the input, or before or behind its slices, that tiles leave them out."""
    return p.d.skip * p.h.skip * p.w.skip == 1 and 100 * share_seen(&p.d, p.transposed, 1) * share_seen(&p.h, p.transposed, 1) < CROPPED


cdef inline double dense_cost(Plan* p) noexcept nogil:
    """Multiply-adds for a place and tap of all channels, padding included, or as many as take as long in Winograd's ways."""
    cdef Py_ssize_t tiles = ceil_div(p.h.full, 2) * ceil_div(p.w.full, 2), products = p.taps * p.h.full * p.w.full
    cdef double cost = p.c * ceil_div(p.o, TILE_ROWS) * TILE_ROWS
    if by_three(p) and min(p.c, p.o) >= 2 * TILE_ROWS:
        return cost * 16 * tiles / products
    if by_blocks(p):
        return cost * POINTS * ceil_div(p.h.kernel, BLOCK) * ceil_div(p.w.kernel, BLOCK) * tiles / products
    return cost
