# Matrix products: out[m, n] = a[m, k] @ b[k, n] + bias[n], and batches of them.
#
# Layout: operands with any strides; out is row-major. The register tile of tile.pxd (TILE_ROWS x 3 vectors) reads rows of a where they
#   lie, and panels of b (KC x 3 vectors) packed one after another, where that pays: by the first tile that reads them, or where transposed
#   operands are turned. Each tile of a then meets SWEPT elements of them.
#   Few rows read b where it lies, in blocks of NEAR of its rows, half a tile of them in panels of BROAD vectors. Where a or b is hardly
#   more than a vector, thin.pxd reads the other one once; where few rows or columns have long sums, lines.pxd multiplies lines by lines;
#   where k is short b stays in registers.
#   Where b.T @ a.T has less to turn or fills the tiles better, it is computed instead and turned block by block.
# Threads: each product is cut into blocks of rows and columns, and into parts of k where it is long and the rest small. A sum's order
#   follows from the sizes: k in parts, these in blocks of at most KC; blocks of out may therefore follow the number of threads. Blocks of
#   large products are dealt out as threads come for them: of 16 processors one or another always has something else to do, and a product
#   shared out evenly waits for it (1024^3: 1.70 ms so, 1.38 ms dealt out).
# Sizes: the caller's. Why not NumPy's BLAS: its threads and OpenMP's fight for the processors (a training step took 10 to 100
#   times as long where both were busy), and this tile is faster than the BLAS of many NumPy builds.

from cython.parallel cimport prange, threadid
from libc.string cimport memcpy

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.gemm_plan cimport FETCHED, PAD, THIN, TURNED, Plan, Products, transpose, turns_a
from volta._kernels.cpu.lines cimport by_lines
from volta._kernels.cpu.multiply cimport multiply_ahead
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.thin cimport add_rows, interleave, deinterleave, short_rows
from volta._kernels.cpu.tile cimport BROAD, MASKED, TILE_ROWS, copy_line, copy_run, lanes
from volta._kernels.cpu.turn cimport turn8, turn8_double, turn_few

cdef enum:
    MC = 384                    # rows of a of inner products at a time
    FAR = 2048                  # distance of rows of b from which two tiles do not read it where it lies
    SEEN = 48                   # rows of a's columns that are fetched before they are turned, three cache lines
    FIRST = 512                 # vectors of b that the first cache holds: any number of tiles read them there, if they are whole
    HIGH = 16                   # rows at a time of strips of columns, where k is short
    LINE = 1024                 # columns whose sums are held at a time
    SPREAD = 16384              # elements of parts that threads add: most lie in the caches of others


cdef inline void turn_square(const real* x, Py_ssize_t from_row, real* out, Py_ssize_t to_row) noexcept nogil:
    if real is float:
        turn8(x, from_row, out, to_row)
    else:
        turn8_double(x, from_row, out, to_row)


cdef void turn(Py_ssize_t rows, Py_ssize_t columns, const real* x, Py_ssize_t from_row, real* out, Py_ssize_t to_row) noexcept nogil:
    """out[j * to_row + i] = x[i * from_row + j] of rows x columns numbers, in squares of 8, the last of which overlap."""
    cdef Py_ssize_t i, j, r, c
    if real is float:
        if rows == 1 and to_row == 1:
            memcpy(out, x, columns * sizeof(real))
        elif rows < 8 or columns < 8:
            for i in range((rows + 7) // 8):
                for j in range((columns + 7) // 8):
                    turn_few(min(rows - 8 * i, 8), min(columns - 8 * j, 8), x + 8 * (i * from_row + j), from_row,
                             out + 8 * (j * to_row + i), to_row)
    elif rows < 8 or columns < 8:
        for i in range(rows):
            for j in range(columns):
                out[j * to_row + i] = x[i * from_row + j]
    if rows < 8 or columns < 8:
        return
    if from_row > to_row:                                   # one after another along what lies further apart
        for i in range((rows + 7) // 8):
            for j in range((columns + 7) // 8):
                r, c = min(8 * i, rows - 8), min(8 * j, columns - 8)
                turn_square(x + r * from_row + c, from_row, out + c * to_row + r, to_row)
    else:
        for j in range((columns + 7) // 8):
            for i in range((rows + 7) // 8):
                r, c = min(8 * i, rows - 8), min(8 * j, columns - 8)
                turn_square(x + r * from_row + c, from_row, out + c * to_row + r, to_row)


cdef void pack(Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across, Py_ssize_t along,
               real* out) noexcept nogil:
    """out[p][j] = x[j * across + p * along] for p < depth, j < width; zeros for width <= j < full."""
    cdef Py_ssize_t p, j
    if across == 1 and width == full == along:
        memcpy(out, x, depth * full * sizeof(real))
    elif across == 1 and width == TILE_ROWS == full:
        for p in range(depth):
            memcpy(out + p * TILE_ROWS, x + p * along, TILE_ROWS * sizeof(real))
    elif across == 1 and width == full and full % lanes(out) == 0:
        for p in range(depth):
            copy_run(out + p * full, x + p * along, full)
    elif across == 1:
        for p in range(depth):
            copy_line(out + p * full, x + p * along, width, full)
        return
    elif along == 1:
        turn(width, depth, x, across, out, full)
    else:
        for j in range(width):
            for p in range(depth):
                out[p * full + j] = x[j * across + p * along]
    if width < full:
        for p in range(depth):
            for j in range(width, full):
                out[p * full + j] = 0


# A block of a product, of which `depth` of k from `k0` on are multiplied.
cdef struct Block:
    Py_ssize_t rows, columns, tiles, vectors, panels, k0, depth
    Py_ssize_t height, higher               # rows of a tile, and how many tiles have one more
    Py_ssize_t wide, wider                  # vectors of a panel, and how many panels have one more
    Py_ssize_t stretch, room                # of k between two lines fetched ahead; elements of what is packed of a
    bint turn_a, copy_b                     # what is packed
    bint sweep                              # each tile of a meets all panels of b; else each panel of b all tiles of a
    bint ahead                              # what is fetched ahead is not out, but b or, in a sweep's last panel, a
    Py_ssize_t following                    # in its first panel, too: b of the next of many products, so far from this one; 0 for none
    Py_ssize_t fetches                      # calls that share what is fetched of the next columns of a, where these are turned


cdef inline const real* packed(bint fresh, Py_ssize_t width, Py_ssize_t full, Py_ssize_t depth, const real* x, Py_ssize_t across,
                               Py_ssize_t along, real* space) noexcept nogil:
    """x, packed into `space`: now, if `fresh`, else before."""
    if fresh:
        pack(width, full, depth, x, across, along, space)
    return space


cdef inline Py_ssize_t tile_start(const Block* s, Py_ssize_t q) noexcept nogil:
    """First row of a tile."""
    return q * s.height + min(q, s.higher)


cdef inline Py_ssize_t panel_start(const Block* s, Py_ssize_t j) noexcept nogil:
    """First vector of a panel."""
    return j * s.wide + min(j, s.wider)


cdef void turn_tiles(const Products* p, const Block* s, Py_ssize_t q, const real* a, real* out) noexcept nogil:
    """Tile q of a and those that follow it in TURNED rows, as `pack` does. Where columns of a are contiguous, all lie in the same cache
    lines, which would be gone before the next tile asked for them."""
    cdef Py_ssize_t i = tile_start(s, q), end = min(q + TURNED // TILE_ROWS, s.tiles), along = p.a_column, depth = s.depth, k, t, first
    cdef const real* x = a + i * p.a_row + s.k0 * along
    if p.a_row == 1 and tile_start(s, end) - i == TURNED:
        for k in range(depth):
            for t in range(TURNED // TILE_ROWS):
                memcpy(out + (t * depth + k) * TILE_ROWS, x + k * along + t * TILE_ROWS, TILE_ROWS * sizeof(real))
        return
    for t in range(q, end):
        first = tile_start(s, t)
        pack(tile_start(s, t + 1) - first, TILE_ROWS, depth, x + (first - i) * p.a_row, p.a_row, along, out + (t - q) * TILE_ROWS * depth)


cdef inline void tile(const Products* p, const Block* s, Py_ssize_t q, Py_ssize_t j, const real* a, const real* b, const real* bias,
                      real* out, real* space) noexcept nogil:
    """Tile q of a times panel j of b. A tile that is the first to read a panel copies it meanwhile."""
    cdef Py_ssize_t i = tile_start(s, q), end = tile_start(s, q + 1), b_step = p.b_row, next_step = p.n
    cdef Py_ssize_t first = lanes(out) * panel_start(s, j), last = lanes(out) * panel_start(s, j + 1)
    cdef Py_ssize_t count = min(last, s.columns) - first, stretch = s.stretch, fetched
    cdef bint whole = False
    cdef real* copy = space + s.room + (first * s.depth if s.sweep else 0)
    cdef const real* next = out + (end * p.n + first if q + 1 < s.tiles else last)     # read next: the tile of out that follows
    cdef const real* whole_a = a
    a += i * p.a_row + s.k0 * p.a_column
    b += s.k0 * p.b_row + first * p.b_column
    if s.turn_a:
        if j == 0 and q % (TURNED // TILE_ROWS) == 0:
            turn_tiles(p, s, q, whole_a, space + (0 if s.sweep else q * TILE_ROWS * s.depth))
        a = space + (q % (TURNED // TILE_ROWS) if s.sweep else q) * TILE_ROWS * s.depth
    if s.sweep:
        next = out + (i * p.n + last if j + 1 < s.panels else end * p.n)
        if s.ahead and j + 1 == s.panels:
            next, next_step = a + (end - i) * p.a_row, 192 // sizeof(real)
            stretch = next_step // (end - i)
        elif s.following != 0 and j == 0:
            next, next_step = b + s.following + s.depth * q // s.tiles * p.b_row, 192 // sizeof(real)
            stretch = max(next_step * s.tiles // p.n, 1)
        elif s.turn_a and p.a_row == 1 and j % 2 == 1:
            fetched = q % (SEEN // TILE_ROWS) * (s.panels // 2) + j // 2        # of these calls' even shares of columns
            next = whole_a + (i // SEEN + 1) * SEEN + (s.k0 + s.depth * fetched // s.fetches) * p.a_column
            next_step, stretch = p.a_column, max(s.fetches // 4 * 4, 4)
    elif s.ahead:                                                                       # or the rows of b's next panel
        next = b + (s.depth * q + s.tiles - 1) // s.tiles * p.b_row + (last - first if j + 1 < s.panels else s.depth * p.b_row - first)
        next_step, stretch = p.b_row, s.tiles
    if not s.copy_b and (MASKED or last <= s.columns):
        copy = NULL
    elif q > 0 or p.b_column != 1 or not MASKED:
        b = packed(q == 0, count, last - first, s.depth, b, p.b_column, p.b_row, copy)
        b_step, copy, whole = last - first, NULL, True
    multiply_ahead(s.depth, a, 1 if s.turn_a else p.a_row, TILE_ROWS if s.turn_a else p.a_column, <int>(end - i), b, b_step, next,
                   next_step, stretch, out + i * p.n + first, p.n, <int>count,
                   bias + first if bias != NULL and s.k0 == 0 else <const real*>NULL, s.k0 > 0, copy, whole)


cdef void block(const Plan* plan, const Products* p, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t k, const real* a, const real* b,
                const real* bias, real* out, real* space) noexcept nogil:
    """out[rows][columns] = a[rows][k] @ b[k][columns] + bias; IN: strides of p."""
    cdef Py_ssize_t blocks = (k + plan.depth - 1) // plan.depth, depth = (k + blocks - 1) // blocks, q, j
    cdef Py_ssize_t span = BROAD if plan.few and rows <= TILE_ROWS // 2 else 3
    cdef Block s
    s.rows, s.columns, s.tiles, s.vectors = rows, columns, (rows + TILE_ROWS - 1) // TILE_ROWS, (columns + lanes(out) - 1) // lanes(out)
    s.panels, s.k0, s.height, s.higher = (s.vectors + span - 1) // span, 0, rows // s.tiles, rows % s.tiles
    s.wide, s.wider = s.vectors // s.panels, s.vectors % s.panels
    s.turn_a, s.copy_b = s.panels > 1 and turns_a(p, lanes(out)), p.b_column != 1 or not plan.few and s.tiles > (1 if p.b_row >= FAR else 2)
    if p.b_column == 1 and p.b_row % lanes(out) == 0 == columns % lanes(out) and k * p.b_row <= FIRST * lanes(out):
        s.copy_b = False
    s.sweep, s.ahead, s.following, s.fetches = not plan.few, plan.far, 0, SEEN // TILE_ROWS * (s.panels // 2)
    if s.sweep and s.panels > 1 and p.rank > 0 and not s.copy_b:
        s.following = p.b_strides[p.rank - 1]
    if s.sweep and p.a_column == 1 and p.a_row == k <= depth:
        s.ahead = s.following != 0 or p.count * p.m * k * sizeof(real) > FETCHED
    while s.k0 < k:
        s.depth = min(depth, k - s.k0)
        s.stretch = max((s.depth + 2 * TILE_ROWS) // TILE_ROWS // 4 * 4, 4)                         # in whole groups of steps
        if s.panels == 1 and not s.ahead:
            s.stretch = s.depth                                                                     # narrow lines come by themselves
        s.room = up(s.depth * (TURNED if s.sweep else TILE_ROWS * s.tiles), PAD)
        if s.sweep:
            for q in range(s.tiles):
                for j in range(s.panels):
                    tile(p, &s, q, j, a, b, bias, out, space)
        else:
            for j in range(s.panels):
                for q in range(s.tiles):
                    tile(p, &s, q, j, a, b, bias, out, space)
        s.k0 += s.depth


cdef void turned(const Plan* plan, Products* p, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t k, const real* a, const real* b,
                 const real* bias, real* out, real* space) noexcept nogil:
    """out[columns][rows], the transpose of a @ b, + bias; IN: strides of p, of which n is free."""
    cdef Py_ssize_t parts = (rows + plan.tall - 1) // plan.tall, part, i, count, j, e, out_row = p.m
    cdef real* product = space
    cdef real* line
    p.n = up(columns, lanes(out))
    space += up(plan.tall * p.n, PAD)
    for part in range(parts):
        i = rows * part // parts
        count = rows * (part + 1) // parts - i
        block(plan, p, count, columns, k, a + i * p.a_row, b, <const real*>NULL, product, space)
        turn(count, columns, <const real*>product, p.n, out + i, out_row)
        if bias != NULL:
            for j in range(columns):
                line = out + j * out_row + i
                for e in range(count):
                    line[e] += bias[i + e]


cdef void outer(const Products* p, Py_ssize_t rows, Py_ssize_t columns, const real* a, const real* b, const real* bias, real* out,
                real* space) noexcept nogil:
    """out[rows][columns] = a[rows] @ b + bias of few k: with b in registers, by strips of columns, or a column times a line."""
    cdef Py_ssize_t strip = 3 * lanes(out), high = rows if columns <= strip else HIGH, strips = (columns + strip - 1) // strip
    cdef Py_ssize_t i, j, block, b_row = p.b_row
    cdef real x
    if p.b_column != 1:
        pack(columns, columns, p.k, b, p.b_column, b_row, space)
        b, b_row = space, columns
    if MASKED and (p.k > 1 or columns <= strip):
        for block in range((rows + high - 1) // high):
            i = block * high
            for j in range(strips):
                short_rows(p.k, min(high, rows - i), min(strip, columns - j * strip), a + i * p.a_row, p.a_row, p.a_column, b + j * strip,
                           b_row, bias + j * strip if bias != NULL else bias, out + i * p.n + j * strip, p.n,
                           HIGH * p.n if columns <= strip else strip)
        return
    for i in range(rows):
        x = a[i * p.a_row]
        for j in range(columns):
            out[j] = x * b[j]
        if bias != NULL:
            for j in range(columns):
                out[j] += bias[j]
        out += p.n


cdef void inner_block(const Products* p, Py_ssize_t rows, Py_ssize_t first, Py_ssize_t last, Py_ssize_t k, const real* a, const real* b,
                      const real* bias, real* out, real* space) noexcept nogil:
    """out[rows] = a[rows][k] @ b[k] + bias in columns first .. last, by lines of a and of columns of b, which few of are turned."""
    cdef Py_ssize_t a_row = p.a_row, b_column = p.b_column, i, j
    if p.a_column != 1:
        turn_lines(rows, k, a, a_row, p.a_column, space)
        a, a_row = space, k
        space += rows * k
    b += first * b_column
    if p.b_row != 1:
        turn_lines(last - first, k, b, b_column, p.b_row, space)
        b, b_column = space, k
    by_lines(rows, last - first, k, a, a_row, b, b_column, out + first, p.n, False)
    if bias != NULL:
        for i in range(rows):
            for j in range(first, last):
                out[i * p.n + j] += bias[j]


cdef void turn_lines(Py_ssize_t n, Py_ssize_t k, const real* x, Py_ssize_t across, Py_ssize_t along, real* out) noexcept nogil:
    """out[n][k] = x[i * across + p * along]"""
    cdef Py_ssize_t i, p
    if across == 1:
        turn(k, n, x, along, out, k)
        return
    for i in range(n):
        for p in range(k):
            out[i * k + p] = x[i * across + p * along]


cdef void few_rows(Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t k, const real* x, Py_ssize_t x_row, const real* y, Py_ssize_t step,
                   Py_ssize_t across, real* out, Py_ssize_t out_row) noexcept nogil:
    """out[rows][columns] = x[rows][k] @ y[k][columns], with y read once, for a few rows."""
    cdef Py_ssize_t row, j, q, count
    cdef real* to
    if step == 1 and (across != 1 or columns == 1):
        by_lines(rows, columns, k, x, x_row, y, across, out, out_row, rows == 1)
        return
    for q in range(0, k, 8):
        for row in range(rows):
            to = out + row * out_row
            if across == 1:
                add_rows(min(8, k - q), columns, x + row * x_row + q, y + q * step, step, to, q == 0)
                continue
            for count in range(q, min(q + 8, k)):
                for j in range(columns):
                    to[j] = (to[j] if count > 0 else 0) + x[row * x_row + count] * y[count * step + j * across]


cdef void thin(const Products* p, Py_ssize_t first, Py_ssize_t last, Py_ssize_t k, const real* a, const real* b, const real* bias,
               real* out, real* space) noexcept nogil:
    """Columns first .. last of a product of few rows; of one with few columns, these rows: a is then what is read once."""
    cdef bint turned = p.m > p.n
    cdef Py_ssize_t rows = p.n if turned else p.m, row, j, q, count
    cdef Py_ssize_t x_row = p.b_column if turned else p.a_row, x_step = p.b_row if turned else p.a_column
    cdef Py_ssize_t step = p.a_column if turned else p.b_row, across = p.a_row if turned else p.b_column
    cdef const real* x = b if turned else a
    cdef const real* y = a if turned else b
    cdef real[THIN * LINE] sums
    if x_step == rows > 1 == x_row:
        deinterleave(rows, k, x, space)
        x, x_row = space, k
    elif x_step != 1:
        for row in range(rows):
            for q in range(k):
                space[row * k + q] = x[row * x_row + q * x_step]
        x, x_row = space, k
    while first < last:
        count = min(LINE, last - first)
        if turned and rows > 1:
            few_rows(rows, count, k, x, x_row, y + first * across, step, across, <real*>sums, LINE)
            interleave(rows, count, <const real*>sums, LINE, bias, out + first * rows)
        else:
            few_rows(rows, count, k, x, x_row, y + first * across, step, across, out + first, p.n)
            if bias != NULL:
                for row in range(rows):
                    for j in range(first, first + count):
                        out[row * p.n + j] += bias[0 if turned else j]
        first += count


cdef void task(const Plan* plan, const Products* p, Py_ssize_t number, const real* a, const real* b, const real* bias, real* out,
               real* space) noexcept nogil:
    """One block of one part of one product. OUT: out, or where k is cut the parts' sums, each as out."""
    cdef Py_ssize_t band = number // plan.row_blocks % plan.column_blocks
    cdef Py_ssize_t part = number // (plan.row_blocks * plan.column_blocks), cut = part % plan.cuts, item = part // plan.cuts
    cdef Py_ssize_t k0 = cut * plan.length, k = min(plan.length, p.k - k0), width = lanes(out), index, first, last, row, end, rows
    cdef Py_ssize_t count, start, stop
    cdef Products q
    cdef int d
    for d in range(p.rank - 1, -1, -1):
        index = item % p.shape[d]
        item //= p.shape[d]
        a += index * p.a_strides[d]
        b += index * p.b_strides[d]
    a += k0 * p.a_column
    b += k0 * p.b_row
    out += part * p.m * p.n
    if plan.turned:
        transpose(p, &q)
        p = &q
        a, b = b, a
    if plan.thin:
        index = max(p.m, p.n)
        thin(p, share(index, band, plan.column_blocks, width), share(index, band + 1, plan.column_blocks, width), k, a, b, bias, out, space)
        return
    first, last = share(p.n, band, plan.column_blocks, width), share(p.n, band + 1, plan.column_blocks, width)
    number %= plan.row_blocks
    row, end = p.m * number // plan.row_blocks, p.m * (number + 1) // plan.row_blocks
    if plan.outer:
        outer(p, end - row, last - first, a + row * p.a_row, b + first * p.b_column, bias + first if bias != NULL else bias,
              out + row * p.n + first, space)
        return
    if plan.inner:
        while row < end:
            rows = (end - row) // ((end - row + MC - 1) // MC)          # an even share of what is left
            inner_block(p, rows, first, last, k, a + row * p.a_row, b, bias, out + row * p.n, space)
            row += rows
        return
    count = (last - first + plan.wide - 1) // plan.wide
    for index in range(count):
        start, stop = first + share(last - first, index, count, 3 * width), first + share(last - first, index + 1, count, 3 * width)
        if plan.turned:
            turned(plan, &q, end - row, stop - start, k, a + row * p.a_row, b + start * p.b_column,
                   bias + row if bias != NULL else bias, out + start * p.m + row, space)
        else:
            block(plan, p, end - row, stop - start, k, a + row * p.a_row, b + start * p.b_column,
                  bias + start if bias != NULL else bias, out + row * p.n + start, space)


cdef inline Py_ssize_t share(Py_ssize_t n, Py_ssize_t i, Py_ssize_t shares, Py_ssize_t unit) noexcept nogil:
    """Where share i of n elements begins, in whole units."""
    return min(n, (n + unit - 1) // unit * i // shares * unit)


cdef void add_parts(const Plan* plan, const Products* p, const real* parts, const real* bias, Py_ssize_t first, Py_ssize_t last,
                    real* out) noexcept nogil:
    """Elements first .. last of all out = the sums of their parts, in order, + bias."""
    cdef Py_ssize_t size = p.m * p.n, i, cut, at, count
    cdef const real* part
    while first < last:
        at = first % size
        count = min(size - at, last - first)
        for cut in range(plan.cuts):
            part = parts + (first // size * plan.cuts + cut) * size + at
            for i in range(count):
                out[first + i] = part[i] if cut == 0 else out[first + i] + part[i]
        if bias != NULL:
            for i in range(count):
                out[first + i] += bias[(at + i) % p.n]
        first += count


cdef void gemm(const Plan* plan, const Products* p, const real* a, const real* b, const real* bias, real* out, real* space) noexcept nogil:
    """All products. IN: k > 0; bias NULL for none; OUT: out[count][m][n]; space of plan.partial + plan.threads * plan.own elements."""
    cdef Ranges ranges
    cdef Py_ssize_t parts = p.count * plan.cuts, tasks = parts * plan.row_blocks * plan.column_blocks, size = p.count * p.m * p.n
    cdef Py_ssize_t number
    cdef int t, threads = plan.threads
    cdef real* sums = space if plan.cuts > 1 else out
    cdef const real* later = bias
    if plan.cuts > 1:
        bias = NULL
    if threads == 1:
        several(plan, p, 0, tasks, a, b, bias, sums, space + plan.partial)
    elif plan.dealt:
        deal(&ranges, tasks, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            number = take(&ranges, t)
            while number >= 0:
                task(plan, p, number, a, b, bias, sums, space + plan.partial + threadid() * plan.own)
                number = take(&ranges, t)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            several(plan, p, tasks * t // threads, tasks * (t + 1) // threads, a, b, bias, sums, space + plan.partial + t * plan.own)
    if plan.cuts > 1:
        if threads == 1 or plan.partial < SPREAD:
            add_parts(plan, p, space, later, 0, size, out)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                add_parts(plan, p, space, later, size * t // threads, size * (t + 1) // threads, out)


cdef void several(const Plan* plan, const Products* p, Py_ssize_t first, Py_ssize_t last, const real* a, const real* b, const real* bias,
                  real* out, real* space) noexcept nogil:
    """Tasks first .. last, one after another."""
    cdef Py_ssize_t number
    for number in range(first, last):
        task(plan, p, number, a, b, bias, out, space)


cdef int gemm_threads(Py_ssize_t m, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """Threads that a product of this size is worth."""
    return threads_for(m * n * k // 16)
