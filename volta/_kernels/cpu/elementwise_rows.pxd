# How the loops of elementwise kernels are given rows: as they lie, several short ones as one, or block by block through buffers.
#
# Layout: the geometry's, collapsed. The loops see only contiguous operands and repeated ones; short rows that repeat an operand are laid
# out behind each other, and other rows, and those of float16 and bfloat16 that half_lines.pxd does not compute, are copied through small
# blocks of the loops' types.
# Threads: none here. Sizes: the driver's.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from volta._kernels.cpu.half_lines cimport half_line
from volta._kernels.cpu.iteration cimport (
    BRAIN, OPERANDS, WHOLE, Cursor, Geometry, advance, advance_planes, advance_rows, move_elements, seek, staged, word)
from volta._kernels.cpu.scalar cimport float_to_brain, float_to_half
from volta._kernels.cpu.short_rows cimport copy_planes, repeat_rows

cdef extern from *:
    """
    /* As many elements of a line as float_to_brain rounds 32 at a time: the fewer instructions wait for a loop's results, the more of what
       comes after these has begun. */
    #if defined(__AVX512BW__) && defined(__GNUC__)
      static inline __m512i volta_rounded(const float *x) {                  /* in the upper halves */
          const __m512i bits = _mm512_loadu_si512(x), up = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
          const __mmask16 none = _mm512_cmp_ps_mask(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(bits), _CMP_UNORD_Q);
          return _mm512_mask_mov_epi32(_mm512_mask_add_epi32(up, _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000)), up,
                                                             _mm512_set1_epi32(1)), none, _mm512_set1_epi32(0x7fc00000));
      }
      static inline Py_ssize_t volta_brain_line(uint16_t *out, const float *x, Py_ssize_t n) {
          static const uint16_t order[32] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                                             1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
          const __m512i places = _mm512_loadu_si512(order);
          Py_ssize_t i = 0;
          for (; i + 32 <= n; i += 32)                                      /* of two vectors the upper halves, in turn, then in order */
              _mm512_storeu_si512(out + i, _mm512_permutexvar_epi16(places, _mm512_mask_mov_epi16(
                  _mm512_srli_epi32(volta_rounded(x + i), 16), 0xaaaaaaaa, volta_rounded(x + i + 16))));
          return i;
      }
    #else
      static inline Py_ssize_t volta_brain_line(uint16_t *out, const float *x, Py_ssize_t n) { return 0; }
    #endif
    """
    Py_ssize_t brain_line "volta_brain_line"(uint16_t* out, const float* x, Py_ssize_t n) noexcept nogil

# OUT: po. IN: pa, pb, pc, pd, each n elements or one, as the loop's mask says.
ctypedef void (*loop_t)(char* po, char* pa, char* pb, char* pc, char* pd, Py_ssize_t n) noexcept nogil

cdef enum:
    BLOCK = 256                                 # elements that the driver converts at a time: while some divide, the next are converted
    TILE = 8192                                 # bytes of a buffer in which an operand of several rows is laid out
    WIDE = 128                                  # most elements of rows that are laid out,
    STRIDED = 64                                # where elements have to be gathered,
    NARROW = 12                                 # and of those that are laid out column by column
    DIRECT = 256                                # fewest bytes of rows that are given to the loops as they lie
    ROW = 4                                     # of loops[]: for operands beside a row that all rows repeat, which lies in a cache,
    SHORTEST = 2048                             # of so many bytes
    LONGEST = 65536                             # at most, and in all at least
    MEMORY = 1 << 22                            # so many, which come from memory
    REPEATS = 256                               # fewest rows of 16 bits for which a longer one that they all repeat is


cdef struct Work:
    const loop_t* loops                         # by mask; NULL where there is none
    const bint* swapped                         # by mask: the loop wants its first two operands exchanged
    int count                                   # operands, the output included
    Py_ssize_t itemsize[OPERANDS]
    int half[OPERANDS]                          # HALF or BRAIN: so in memory, float32 in the loop
    bint any_half
    int operation                               # of half_lines.pxd, or -1
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
    cdef bint direct = step[0] == w.itemsize[0] or n == 1
    for k in range(1, w.count):
        if step[k] == 0:
            mask |= 1 << (k - 1)
        elif step[k] != w.itemsize[k] and n != 1:
            direct = False
    if direct and w.operation >= 0:
        run_half(w, p, n, mask)
        return
    if n == 1:
        mask = 0
    if direct and not w.any_half and w.loops[mask] != NULL:
        call(w, mask, p, n)
    else:
        run_staged(w, p, step, n, mask)


cdef inline void run_half(const Work* w, char** p, Py_ssize_t n, int mask) noexcept nogil:
    """A row of float16 or bfloat16, with what it repeats as float32."""
    cdef float numbers[OPERANDS]
    cdef char* at[OPERANDS]
    cdef int k
    for k in range(1, OPERANDS):
        at[k] = p[k] if k < w.count else NULL
        if mask >> (k - 1) & 1 and w.half[k] != WHOLE:
            at[k] = staged(p[k], 0, 1, 2, w.half[k], <char*>&numbers[k])
    half_line(w.operation, w.half[0] == BRAIN, <uint16_t*>p[0], at + 1, n, mask | -1 << (w.count - 1))


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
            if start and step[k] == 0:
                continue                        # the first block has laid it out
            if k > 1 and p[k] == p[1] and step[k] == step[1] and w.itemsize[k] == w.itemsize[1] and step[k] != 0:
                at[k] = at[1]                   # x * x
                continue
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
    cdef char* to = out if step == 2 else raw
    cdef Py_ssize_t done
    if not w.half[0]:
        move_elements(out, step, buffer, w.itemsize[0], n, w.itemsize[0])
        return
    if w.half[0] == BRAIN:
        done = brain_line(<uint16_t*>to, <float*>buffer, n)
        float_to_brain(<uint16_t*>to + done, <float*>buffer + done, n - done)
    else:
        float_to_half(<uint16_t*>to, <float*>buffer, n)
    if step != 2:
        move_elements(out, step, raw, 2, n, 2)


cdef struct Chunk:
    Py_ssize_t rows                             # that are given to the loops as one; less than 2: each by itself
    Py_ssize_t planes                           # or, where a plane is much less than a buffer, so many of them


cdef inline void lay_out(char* to, char* x, const Py_ssize_t* step, Py_ssize_t planes, Py_ssize_t rows, Py_ssize_t n,
                         Py_ssize_t itemsize) noexcept nogil:
    """Rows of n elements behind each other. IN: step, from plane to plane, from row to row, and from element to element."""
    cdef Py_ssize_t i, p
    if step[2] == itemsize:
        copy_planes(to, n * itemsize, rows * n * itemsize, x, step[1], step[0], planes, rows, n * itemsize)
        return
    if step[2] == 0 and step[1] == 0:
        repeat_rows(to, x, step[0], planes, rows * n, itemsize)
        return
    if step[0] == rows * step[1]:
        planes, rows = 1, planes * rows
    for p in range(planes):
        if step[2] == 0:
            repeat_rows(to, x, step[1], rows, n, itemsize)
        elif rows > n and (step[1] == itemsize or n <= NARROW):
            for i in range(n):
                move_elements(to + i * itemsize, n * itemsize, x + i * step[2], step[1], rows, itemsize)
        else:
            for i in range(rows):
                move_elements(to + i * n * itemsize, itemsize, x + i * step[1], step[2], n, itemsize)
        to += rows * n * itemsize
        x += step[0]


cdef inline Chunk chunk_of(const Geometry* g, const Work* w) noexcept nogil:
    cdef int last = g.rank - 1, k
    cdef Py_ssize_t n = g.shape[last], size = w.itemsize[0]
    cdef Chunk chunk
    chunk.rows = chunk.planes = 0
    if last == 0 or g.step[0][last] != size or (n > NARROW and g.step[0][last - 1] != n * size):
        return chunk
    for k in range(1, w.count):
        size = max(size, w.itemsize[k])
        if g.step[k][last] != 0 and g.step[k][last] != w.itemsize[k] and n > STRIDED:
            return chunk
        if n > WIDE and g.step[k][last - 1] == 0 and g.step[k][last] != 0 and not (w.any_half and g.shape[last - 1] >= REPEATS):
            return chunk
        if n > WIDE and g.step[k][last - 1] != 0 and (g.step[k][last] == 0 or g.step[k][last - 1] != n * w.itemsize[k]):
            return chunk
    chunk.rows = TILE // (n * size)
    if last > 1:
        chunk.planes = min(TILE // (n * size * g.shape[last - 1]), g.shape[last - 2])
    chunk.rows = min(chunk.rows, g.shape[last - 1] * (g.shape[last - 2] if last > 1 else 1))
    return chunk


cdef inline bint joined(const Py_ssize_t* step, Py_ssize_t planes, Py_ssize_t rows, Py_ssize_t n, Py_ssize_t itemsize) noexcept nogil:
    return (step[2] == itemsize and (rows == 1 or step[1] == n * itemsize) and (planes == 1 or step[0] == rows * n * itemsize))


cdef inline Py_ssize_t run_rows(const Geometry* g, const Work* w, Cursor* c, Chunk chunk, Py_ssize_t length) noexcept nogil:
    """Whole rows from the cursor on, up to `length` elements; gives how many elements these were."""
    cdef char buffers[OPERANDS][TILE + 128]
    cdef char* at[OPERANDS]
    cdef char* laid[OPERANDS]                   # the row, or the plane, that a buffer repeats
    cdef Py_ssize_t unit[OPERANDS]
    cdef Py_ssize_t[OPERANDS][3] step
    cdef int last = g.rank - 1, k
    cdef Py_ssize_t n = g.shape[last], done = 0, rows, planes
    cdef bint repeated
    for k in range(OPERANDS):
        laid[k], at[k], unit[k] = NULL, NULL, w.itemsize[k]
        if k < w.count:
            step[k] = [g.step[k][last - 2] if last > 1 else 0, g.step[k][last - 1], g.step[k][last]]
    while length - done >= n:
        rows, planes = g.shape[last - 1], 1
        if chunk.planes > 1 and c.position[last - 1] == 0:
            planes = min(chunk.planes, (length - done) // (rows * n), g.shape[last - 2] - c.position[last - 2])
        if planes < 2:
            rows, planes = min(chunk.rows, (length - done) // n, rows - c.position[last - 1]), 1
        for k in range(w.count):
            at[k] = c.at[k]
            if step[k][2] == 0 and step[k][1] == 0 and (planes == 1 or step[k][0] == 0):
                unit[k] = 0
                continue
            unit[k] = w.itemsize[k]
            if joined(step[k], planes, rows, n, w.itemsize[k]):
                continue
            at[k] = buffers[k]
            repeated = step[k][0 if planes > 1 else 1] == 0
            if k > 0 and not (repeated and c.at[k] == laid[k]):
                laid[k] = c.at[k] if repeated else NULL
                lay_out(buffers[k], c.at[k], step[k], chunk.planes if planes > 1 and repeated else planes,
                        chunk.rows if planes == 1 and repeated else rows, n, w.itemsize[k])
        run_any(w, at, unit, planes * rows * n)
        if at[0] == <char*>buffers[0]:
            copy_planes(c.at[0], step[0][1], step[0][0], at[0], n * w.itemsize[0], rows * n * w.itemsize[0], planes, rows,
                        n * w.itemsize[0])
        if planes > 1:
            advance_planes(g, c, planes)
        else:
            advance_rows(g, c, rows)
        done += planes * rows * n
    return done


cdef inline bint laid_once(const Geometry* g, Chunk chunk) noexcept nogil:
    """Whether what rows repeat, numbers aside, is laid out once for many: a row that all see, or a plane's elements that planes see."""
    cdef int k, last = g.rank - 1
    cdef bint found = False
    for k in range(1, g.count):
        if g.step[k][last] == 0 and g.step[k][last - 1] != 0:
            if chunk.planes < 2 or g.step[k][last - 2] != 0:
                return False
            found = True
        elif g.step[k][last] != 0 and g.step[k][last - 1] == 0:
            found = True
    return found


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


cdef inline bint beside_row(const Geometry* g, const Work* w, int mask) noexcept nogil:
    """Whether the second operand is a row in a cache and the first comes from memory, and there is a loop for that (which in place takes
    longer)."""
    cdef int last = g.rank - 1
    cdef Py_ssize_t size = w.itemsize[0], row = g.shape[last] * size
    return (w.count == 3 and mask == 0 and w.loops[ROW] != NULL and g.step[2][last - 1] == 0 and g.step[1][last - 1] != 0
            and SHORTEST <= row <= LONGEST and g.size * size >= MEMORY)


cdef inline Py_ssize_t run_direct(const Geometry* g, const Work* w, Cursor* c, int mask, Py_ssize_t length) noexcept nogil:
    """The same as run_rows, each row as it lies."""
    cdef int last = g.rank - 1, second = 2 if w.swapped[mask] else 1, third = 3 - second
    cdef Py_ssize_t n = g.shape[last], done = 0, rows, i
    cdef loop_t loop = w.loops[mask]
    if c.at[1] != c.at[0] and beside_row(g, w, mask):
        loop = w.loops[ROW]
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
    cdef Py_ssize_t length
    cdef int k, last = g.rank - 1, mask = direct_mask(g, w)
    cdef Chunk chunk = chunk_of(g, w)
    if mask >= 0 and g.shape[last] * w.itemsize[2] >= DIRECT and not laid_once(g, chunk):
        chunk.rows = 0
    for k in range(OPERANDS):
        step[k] = g.step[k][last] if k < g.count else 0
        c.at[k] = NULL
    seek(g, &c, start)
    while start < stop:
        length = min(g.shape[last] - c.position[last], stop - start)
        if length == g.shape[last] and chunk.rows > 1:
            start += run_rows(g, w, &c, chunk, stop - start)
            continue
        if length == g.shape[last] and mask >= 0:
            start += run_direct(g, w, &c, mask, stop - start)
            continue
        run_any(w, c.at, step, length)
        start += length
        advance(g, &c, length)
