# How the loops of elementwise kernels are given rows: as they lie, several short ones as one, or block by block through buffers.
#
# Layout: the geometry's, collapsed. The loops see only contiguous operands and repeated ones; short rows that repeat an operand are laid
# out behind each other, and other rows, and float16, are copied through small blocks of the loops' types.
# Threads: none here. Sizes: the driver's.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from volta._kernels.cpu.iteration cimport (
    OPERANDS, Cursor, Geometry, advance, advance_rows, move_elements, seek, staged, word)
from volta._kernels.cpu.scalar cimport float_to_half

# OUT: po. IN: pa, pb, pc, pd, each n elements or one, as the loop's mask says.
ctypedef void (*loop_t)(char* po, char* pa, char* pb, char* pc, char* pd, Py_ssize_t n) noexcept nogil

cdef enum:
    BLOCK = 512                                 # elements that the driver converts at a time
    TILE = 8192                                 # bytes of a buffer in which an operand of several rows is laid out
    COLUMN = 31                                 # most elements of rows that are laid out where a number is repeated along each,
    STRIDED = 64                                # or where elements have to be gathered
    REPEATS = 256                               # fewest rows for which one that they all repeat is


cdef struct Work:
    const loop_t* loops                         # by mask; NULL where there is none
    const bint* swapped                         # by mask: the loop wants its first two operands exchanged
    int count                                   # operands, the output included
    Py_ssize_t itemsize[OPERANDS]
    bint half[OPERANDS]                         # float16 in memory, float32 in the loop
    bint any_half
    bint* zero                                  # of integer division: set where a divisor is 0


cdef inline void call(const Work* w, int mask, char** p, Py_ssize_t n) noexcept nogil:
    if w.swapped[mask]:
        w.loops[mask](p[0], p[2], p[1], p[3], p[4], n)
    else:
        w.loops[mask](p[0], p[1], p[2], p[3], p[4], n)


cdef inline bint any_zero(const word* x, Py_ssize_t step, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef bint found = False
    if step == sizeof(word):
        for i in range(n):
            found |= x[i] == 0
        return found
    for i in range(n if step else 1):
        found |= (<const word*>(<const char*>x + i * step))[0] == 0
    return found


cdef inline void divide_row(const Work* w, char** p, const Py_ssize_t* step, Py_ssize_t n) noexcept nogil:
    """One row of an integer division, in blocks whose divisors are looked at just before they are used."""
    cdef char* at[OPERANDS]
    cdef Py_ssize_t start = 0, length
    cdef bint found
    cdef int k
    while start < n:
        length = min(<Py_ssize_t>BLOCK, n - start)
        for k in range(OPERANDS):
            at[k] = p[k] + start * step[k]
        if w.itemsize[2] == 8:
            found = any_zero(<const uint64_t*>at[2], step[2], length)
        elif w.itemsize[2] == 4:
            found = any_zero(<const uint32_t*>at[2], step[2], length)
        else:
            found = any_zero(<const uint8_t*>at[2], step[2], length)
        if found:
            w.zero[0] = True
        run_row(w, at, step, length)
        start += length


cdef inline void run_row(const Work* w, char** p, const Py_ssize_t* step, Py_ssize_t n) noexcept nogil:
    """One row of n elements: directly where the loops can, else block by block through buffers."""
    cdef int k, mask = 0
    cdef bint direct = not w.any_half and (step[0] == w.itemsize[0] or n == 1)
    for k in range(1, w.count):
        if step[k] == 0:
            mask |= 1 << (k - 1)
        elif step[k] != w.itemsize[k] and n != 1:
            direct = False
    if n == 1:
        mask = 0
    if direct and w.loops[mask] != NULL:
        call(w, mask, p, n)
    else:
        run_staged(w, p, step, n, mask)


cdef inline void run_staged(const Work* w, char** p, const Py_ssize_t* step, Py_ssize_t n, int mask) noexcept nogil:
    """A row whose operands have to be gathered, repeated or converted: in blocks, through buffers of the loop's types."""
    cdef char buffers[OPERANDS][BLOCK * 8]
    cdef char* at[OPERANDS]
    cdef Py_ssize_t start, length
    cdef int k
    while w.loops[mask] == NULL:                # repeat an operand for which there is no loop with it as a number
        mask &= mask - 1
    for k in range(OPERANDS):
        at[k] = NULL
    start = 0
    while start < n:
        length = min(<Py_ssize_t>BLOCK, n - start)
        for k in range(1, w.count):
            at[k] = staged(p[k] + start * step[k], step[k], 1 if mask >> (k - 1) & 1 else length, w.itemsize[k], w.half[k], buffers[k])
        at[0] = p[0] + start * step[0]
        if w.half[0] or step[0] != w.itemsize[0]:
            at[0] = buffers[0]
        call(w, mask, at, length)
        if at[0] == <char*>buffers[0]:
            stage_out(w, p[0] + start * step[0], step[0], length, buffers[0])
        start += length


cdef inline void stage_out(const Work* w, char* out, Py_ssize_t step, Py_ssize_t n, char* buffer) noexcept nogil:
    cdef char raw[BLOCK * 2]
    if not w.half[0]:
        move_elements(out, step, buffer, w.itemsize[0], n, w.itemsize[0])
    elif step == 2:
        float_to_half(<uint16_t*>out, <float*>buffer, n)
    else:
        float_to_half(<uint16_t*>raw, <float*>buffer, n)
        move_elements(out, step, raw, 2, n, 2)


cdef inline void repeat_each(const char* x, Py_ssize_t step, Py_ssize_t rows, Py_ssize_t n, word* to) noexcept nogil:
    """Rows that repeat one element each; writes up to 15 elements behind the last."""
    cdef Py_ssize_t row, i, k
    cdef word v
    for row in range(rows):
        v = (<const word*>(x + row * step))[0]
        for i in range(0, n, 16):
            for k in range(16):
                to[i + k] = v
        to += n


cdef inline void lay_out(char* to, char* x, Py_ssize_t step, Py_ssize_t apart, Py_ssize_t rows, Py_ssize_t n,
                         Py_ssize_t itemsize) noexcept nogil:
    """Rows of n elements, whose first ones are `apart`, behind each other."""
    cdef Py_ssize_t i
    if step == 0 and itemsize == 4:
        repeat_each(x, apart, rows, n, <uint32_t*>to)
    elif step == 0 and itemsize == 8:
        repeat_each(x, apart, rows, n, <uint64_t*>to)
    elif step == 0 and itemsize == 1:
        repeat_each(x, apart, rows, n, <uint8_t*>to)
    elif apart == itemsize and rows > n:        # columns lie behind each other
        for i in range(n):
            move_elements(to + i * itemsize, n * itemsize, x + i * step, itemsize, rows, itemsize)
    else:
        for i in range(rows):
            move_elements(to + i * n * itemsize, itemsize, x + i * apart, step, n, itemsize)


cdef inline Py_ssize_t rows_at_once(const Geometry* g, const Work* w) noexcept nogil:
    """How many short rows are given to the loops as one, their operands laid out behind each other; less than 2: each by itself."""
    cdef int last = g.rank - 1, k
    cdef Py_ssize_t n = g.shape[last], size = w.itemsize[0]
    if last == 0 or w.any_half or g.step[0][last] != size or g.step[0][last - 1] != n * size:
        return 0
    for k in range(1, w.count):
        size = max(size, w.itemsize[k])
        if g.step[k][last] == 0 and g.step[k][last - 1] != 0 and n > COLUMN:
            return 0
        if g.step[k][last] != 0 and g.step[k][last] != w.itemsize[k] and n > STRIDED:
            return 0
        if g.step[k][last] != 0 and g.step[k][last - 1] == 0 and g.shape[last - 1] < REPEATS:
            return 0
    return TILE // (n * size)


cdef inline Py_ssize_t run_rows(const Geometry* g, const Work* w, Cursor* c, Py_ssize_t several, Py_ssize_t length) noexcept nogil:
    """Whole rows from the cursor on, up to `length` elements; gives how many elements these were."""
    cdef char buffers[OPERANDS][TILE + 128]
    cdef char* at[OPERANDS]
    cdef char* laid[OPERANDS]                   # the row that a buffer repeats
    cdef Py_ssize_t step[OPERANDS]
    cdef int last = g.rank - 1, k
    cdef Py_ssize_t n = g.shape[last], done = 0, rows, apart
    for k in range(OPERANDS):
        laid[k], at[k], step[k] = NULL, NULL, w.itemsize[k]
    while length - done >= n:
        rows = min(several, (length - done) // n, g.shape[last - 1] - c.position[last - 1])
        at[0] = c.at[0]
        for k in range(1, w.count):
            at[k], apart = c.at[k], g.step[k][last - 1]
            if g.step[k][last] == 0 and apart == 0:
                step[k] = 0
            elif g.step[k][last] != w.itemsize[k] or apart != n * w.itemsize[k]:
                if apart == 0 and at[k] != laid[k]:
                    laid[k] = at[k]
                    lay_out(buffers[k], at[k], g.step[k][last], 0, several, n, w.itemsize[k])
                elif apart != 0:
                    lay_out(buffers[k], at[k], g.step[k][last], apart, rows, n, w.itemsize[k])
                at[k] = buffers[k]
        run_any(w, at, step, rows * n)
        advance_rows(g, c, rows)
        done += rows * n
    return done


cdef inline int direct_mask(const Geometry* g, const Work* w) noexcept nogil:
    """Which operands each row repeats, where the loops take rows as they lie and there are several; else -1."""
    cdef int last = g.rank - 1, k, mask = 0
    if last == 0 or w.any_half or w.zero != NULL or g.shape[last] == 1 or g.step[0][last] != w.itemsize[0]:
        return -1
    for k in range(1, w.count):
        if g.step[k][last] == 0:
            mask |= 1 << (k - 1)
        elif g.step[k][last] != w.itemsize[k]:
            return -1
    return mask if w.loops[mask] != NULL else -1


cdef inline Py_ssize_t run_direct(const Geometry* g, const Work* w, Cursor* c, int mask, Py_ssize_t length) noexcept nogil:
    """The same as run_rows, each row as it lies."""
    cdef int last = g.rank - 1, second = 2 if w.swapped[mask] else 1, third = 3 - second
    cdef Py_ssize_t n = g.shape[last], done = 0, rows, i
    cdef loop_t loop = w.loops[mask]
    while length - done >= n:
        rows = min((length - done) // n, g.shape[last - 1] - c.position[last - 1])
        for i in range(rows):
            loop(c.at[0] + i * g.step[0][last - 1], c.at[second] + i * g.step[second][last - 1],
                 c.at[third] + i * g.step[third][last - 1] if w.count > third else NULL,
                 c.at[3] + i * g.step[3][last - 1] if w.count > 3 else NULL, c.at[4] + i * g.step[4][last - 1] if w.count > 4 else NULL, n)
        advance_rows(g, c, rows)
        done += rows * n
    return done


cdef inline void run_any(const Work* w, char** p, const Py_ssize_t* step, Py_ssize_t n) noexcept nogil:
    if w.zero == NULL:
        run_row(w, p, step, n)
    else:
        divide_row(w, p, step, n)


cdef inline void run_range(const Geometry* g, const void* work, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Elements [start, stop) in the order of the geometry."""
    cdef const Work* w = <const Work*>work
    cdef Cursor c
    cdef Py_ssize_t step[OPERANDS]
    cdef Py_ssize_t length, several = rows_at_once(g, w)
    cdef int k, last = g.rank - 1, mask = direct_mask(g, w)
    for k in range(OPERANDS):
        step[k] = g.step[k][last] if k < g.count else 0
        c.at[k] = NULL
    seek(g, &c, start)
    while start < stop:
        length = min(g.shape[last] - c.position[last], stop - start)
        if length == g.shape[last] and several > 1:
            start += run_rows(g, w, &c, several, stop - start)
            continue
        if length == g.shape[last] and mask >= 0:
            start += run_direct(g, w, &c, mask, stop - start)
            continue
        run_any(w, c.at, step, length)
        start += length
        advance(g, &c, length)
