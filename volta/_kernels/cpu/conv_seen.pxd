# Which taps the windows of some vectors see: those in slices and rows that lie outside the input for all of them are left out. Products
# with
#   the zeros of the padding change no sum, unless a weight is not finite, which the caller looks at.
#
# Layout: steps[taps by phase][2], of each tap the slice and the row of a window. Threads: none. Sizes: the plan's.

from volta._kernels.cpu.conv_plan cimport Chunk, Piece, Plan, tap_on

cdef struct Seen:
    # What the windows of some vectors see of slices and rows: by taps whose steps are from low to below high.
    Py_ssize_t z_low, z_high, y_low, y_high


cdef inline void fill_steps(Plan* p, Py_ssize_t* steps) noexcept nogil:
    """OUT: steps, of the taps of one channel by phase."""
    cdef Py_ssize_t phase, tap, z = 0, y = 0, x = 0, n = 0
    for phase in range(p.d.step * p.h.step * p.w.step):
        for tap in range(p.taps):
            if (tap_on(&p.d, p.transposed, phase // p.w.step // p.h.step, tap // p.w.kernel // p.h.kernel, &z)
                    and tap_on(&p.h, p.transposed, phase // p.w.step % p.h.step, tap // p.w.kernel % p.h.kernel, &y)
                    and tap_on(&p.w, p.transposed, phase % p.w.step, tap % p.w.kernel, &x)):
                steps[2 * n], steps[2 * n + 1] = z, y
                n += 1


cdef inline Seen seen_by(Plan* p, Chunk* chunk, Py_ssize_t vector, Py_ssize_t vectors) noexcept nogil:
    """IN: the first of some vectors of a chunk, and how many."""
    cdef Py_ssize_t z_first = p.d.places, z_last = 0, y_first = p.h.places, y_last = 0, y
    cdef Seen s
    cdef Piece* piece
    cdef int i
    for i in range(p.first_piece[vector], p.first_piece[vector + vectors]):
        piece = p.pieces + i
        y = piece.y + (piece.x + piece.n - 1) // p.w.places     # of joined rows
        z_first, z_last = min(z_first, <Py_ssize_t>piece.z), max(z_last, <Py_ssize_t>piece.z)
        y_first, y_last = min(y_first, <Py_ssize_t>piece.y), max(y_last, y)
        if y >= p.h.chunk:                                      # from slice to slice
            y_first, y_last, z_last = 0, p.h.places, p.d.places
    s.z_low, s.z_high = -p.d.first - (chunk.z + z_last) * p.d.stride, p.d.source - p.d.first - (chunk.z + z_first) * p.d.stride
    s.y_low, s.y_high = -p.h.first - (chunk.y + y_last) * p.h.stride, p.h.source - p.h.first - (chunk.y + y_first) * p.h.stride
    return s


cdef inline bint sees_all(Plan* p, const Seen* s) noexcept nogil:
    """Whether taps of all slices and rows see something."""
    return s.z_low <= 0 and p.d.reach <= s.z_high and s.y_low <= 0 and p.h.reach <= s.y_high


cdef inline Py_ssize_t list_seen(Plan* p, const Py_ssize_t* steps, const Seen* s, Py_ssize_t phase, Py_ssize_t k, Py_ssize_t depth,
                                 Py_ssize_t* at, Py_ssize_t* taps) noexcept nogil:
    """How many of the taps k .. k + depth are seen. OUT: at and taps, of these."""
    cdef Py_ssize_t count = (p.phases[phase + 1] - p.phases[phase]) // p.c, i, n = 0
    cdef Py_ssize_t tap = (k - p.phases[phase]) % count if count > 0 else 0
    steps += 2 * (p.phases[phase] // p.c)
    for i in range(k, k + depth):
        at[n], taps[n] = p.at[i], p.offsets[i]
        n += s.z_low <= steps[2 * tap] < s.z_high and s.y_low <= steps[2 * tap + 1] < s.y_high
        tap += 1
        if tap == count:
            tap = 0
    return n
