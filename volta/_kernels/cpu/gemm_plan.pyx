# How matrix products are computed: see gemm.pyx. A sum's order follows from the sizes alone; blocks may follow the threads.
#
# Layout: none. Threads: none. Sizes: the caller's.

from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.lines cimport LINE_ROWS
from volta._kernels.cpu.product cimport up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport MASKED, TILE_ROWS, lanes

cdef enum:
    KC = 384                    # depth of a panel of b
    SWEPT = 131072              # elements of panels of b that each tile of a meets in turn: they stay in the second cache
    TILE_START = 4              # steps of k that beginning and writing a tile counts as,
    TILE_PAYS = 12              # and k from which on tiles of few rows pay
    CACHED = 4194304            # elements of b up to which it comes from a cache
    DEEP = 512                  # longest part of k of inner products: lines of both stay in the first cache
    LINED = 70                  # cycles to begin and end a block of them
    AT_HAND = 1048576           # elements of a or b up to which its lines are taken as fast as they are used,
    ROOM = 12288                # where those of a, and eight of b, stay in the first cache
    LINES = 16                  # most lines that are turned for them
    SMALL = 8                   # rows and columns up to which long products of few of them are inner products
    LONG = 2048                 # parts of k in thin products; in others at least half as much, and at most PARTS of them
    LARGE = 262144              # elements of an operand that thin products read in PARTS, row by row
    PARTS = 16
    NARROW = 16384              # elements of out up to which k is cut into parts
    FEW = 32                    # rows up to which tiles read b where it lies, if it is WIDE or k short,
    WIDE = 256
    OUT = 65536                 # so many elements of out at a time, which stay in the second cache
    NEAR = 64                   # in blocks of so many of b's rows, which lie in the first cache
    DEALT = 33554432            # multiplications for each of two threads, as many for more, from which on blocks are dealt out: below, what
                                # lies in caches counts more, beyond, the slowest of many threads is waited for,
    TURNS = 4                   # at most so many for each,
    DEAL = 524288               # and where there are more products than that of at least so many multiplications
    MOST = 8                    # parts up to which as many rounds of blocks are tried, so that all threads have as many
    TALL = 128                  # rows of a transpose at a time, at least
    TURNING = 256               # cycles to begin with a transpose
    APART = 64                  # cycles that a row of out takes longer whose columns several threads write


cdef void plan_products(Plan* plan, const Products* p, real* kind) noexcept nogil:
    """Decide how products are computed: sums by their sizes alone, blocks by the threads too. `kind` only names the type."""
    cdef Py_ssize_t width = lanes(kind)
    cdef Products q
    choose_way(plan, p, width)
    if plan.turned:
        transpose(p, &q)
        p = &q
    plan.few = p.b_column == 1 and p.m <= FEW and (p.k <= KC or p.n >= WIDE)
    plan.far = plan.few and p.count * p.k * p.n * sizeof(real) > FETCHED
    plan.depth = NEAR if plan.far else KC
    plan.wide = max((OUT // p.m if plan.few else SWEPT // min(plan.depth, p.k)) // (3 * width), 1) * 3 * width
    if plan.turned:
        plan.wide = min(plan.wide, OUT // min(p.m, TALL) // (3 * width) * 3 * width)
        plan.tall = min(p.m, OUT // min(plan.wide, p.n))
    plan.cuts = max(1, parts_of(plan, p))
    plan.length = (p.k + plan.cuts - 1) // plan.cuts
    plan.partial = (p.count * plan.cuts * p.m * p.n + PAD - 1) // PAD * PAD if plan.cuts > 1 else 0
    plan.row_blocks = plan.column_blocks = 1
    plan.dealt = False
    if plan.thin:
        plan.threads = threads_for(p.count * p.k * max(p.m, p.n) // 2)         # less is read and written than by an addition
        plan.own = THIN * plan.length + PAD
        if plan.threads > 1:
            plan.column_blocks = min((max(p.m, p.n) + width - 1) // width, 1 + (plan.threads - 1) // (p.count * plan.cuts))
    elif plan.outer:
        plan.threads = threads_for(3 * p.count * p.m * ((p.n + width - 1) // width * (p.k + 2) + 4) // 2)
        plan.own = p.k * p.n + PAD
        plan.row_blocks = min((p.m + TILE_ROWS - 1) // TILE_ROWS, 1 + (plan.threads - 1) // p.count)
        plan.column_blocks = min((p.n + 3 * width - 1) // (3 * width), 1 + (plan.threads - 1) // (p.count * plan.row_blocks))
    else:
        plan.threads = threads_for(max(p.m, TILE_ROWS // 2) * up(p.n, width) * (p.k + TILE_START) * p.count // 8)
        if plan.threads > 1:
            choose_blocks(plan, p, width)
        if plan.inner:
            plan.own = ((p.m if p.a_column != 1 else 0) + (p.n if p.b_row != 1 else 0)) * plan.length + PAD
        else:
            plan.own = min(plan.depth, plan.length) * ((p.m if plan.few else 0) + TURNED + min(plan.wide, p.n) + 3 * width) + PAD
            if plan.turned:
                plan.own += up(plan.tall * up(min(plan.wide, p.n), width), PAD)
    plan.own = (plan.own + PAD - 1) // PAD * PAD


cdef void choose_way(Plan* plan, const Products* p, Py_ssize_t width) noexcept nogil:
    """Decide between thin, outer, inner, and tiles of the product or its transpose."""
    cdef Products q
    cdef Py_ssize_t extra
    plan.outer = p.m > THIN and p.k <= longest_short(p, width) and (p.n > THIN or MASKED and p.a_row != 1)
    if p.n <= 2 and p.k > 4 * p.n and p.a_column == 1:
        plan.outer = False
    plan.turned = False
    if p.a_row == 1 and not plan.outer:
        transpose(p, &q)
        plan.turned = p.n <= THIN < p.m and tiles_pay(&q, width)
    plan.thin = not plan.outer and not plan.turned and min(p.m, p.n) <= THIN and not (p.n > THIN and tiles_pay(p, width))
    if plan.thin and max(p.m, p.n) <= SMALL and p.k >= 4 * SMALL and (p.a_column if p.m > p.n else p.b_row) != 1:
        plan.thin = False                                                       # sums of one vector would wait for one another
        plan.inner = True
    else:
        plan.inner = not plan.thin and not plan.outer and not plan.turned and inner_pays(p, width)
    if plan.outer or plan.thin or plan.inner or plan.turned or p.m <= THIN:
        return
    if p.a_row == 1 != p.a_column or p.b_row == 1 != p.b_column:
        transpose(p, &q)
        extra = TURNING + 3 * p.m * p.n // 4 + (q.m - 1) // TALL * q.k * q.n // 4    # to turn out, and to copy b for each part of rows
        plan.turned = tiles_cost(&q, width) + extra < tiles_cost(p, width)


cdef Py_ssize_t longest_short(const Products* p, Py_ssize_t width) noexcept nogil:
    """The k up to which out is written row by row."""
    return (16 if p.n <= width else 12 if p.n <= 2 * width else 8) if MASKED else 1


cdef Py_ssize_t tiles_cost(const Products* p, Py_ssize_t width) noexcept nogil:
    """Cycles of tiles: of their steps, of turning a and b where these do not lie as they are read, and of beginning."""
    cdef Py_ssize_t tiles = (p.m + TILE_ROWS - 1) // TILE_ROWS, vectors = (p.n + width - 1) // width
    cdef Py_ssize_t steps = max(p.m, TILE_ROWS // 2) * (TILE_ROWS // 2 * vectors + (vectors == 1)) // TILE_ROWS
    if turns_a(p, width) and vectors > 3:
        steps += tiles
    if p.b_column != 1:
        steps += p.n // 3 + 2
    return p.k * steps + 40 * tiles * ((vectors + 2) // 3)


cdef Py_ssize_t parts_of(const Plan* plan, const Products* p) noexcept nogil:
    """Into how many parts k is cut, whatever the threads."""
    cdef Py_ssize_t wide = max(p.m, p.n), parts = p.k // LONG
    if plan.inner:
        return (p.k + DEEP - 1) // DEEP
    if not plan.thin:
        return min(PARTS, p.k // (LONG // 2)) if p.m * p.n <= NARROW and p.k >= LONG else 1
    if (p.a_row if p.m > p.n else p.b_column) == 1 and p.k * wide >= LARGE:
        parts = max(parts, min(PARTS, p.k // 128))
    return parts


cdef bint tiles_pay(const Products* p, Py_ssize_t width) noexcept nogil:
    """Whether few rows take less time in tiles, which keep their sums in registers, than in lines: where a tile has all columns, or several
    rows share what is read of b, unless it comes from memory."""
    return MASKED and p.b_column == 1 and (p.n <= 3 * width or p.m > 1 and p.k >= TILE_PAYS and p.k * p.n <= CACHED)


cdef bint inner_pays(const Products* p, Py_ssize_t width) noexcept nogil:
    """Whether lines of a times lines of columns of b take less time than tiles: both in cycles."""
    cdef Py_ssize_t tiles = (p.m + TILE_ROWS - 1) // TILE_ROWS, blocks = (p.m + LINE_ROWS - 1) // LINE_ROWS * ((p.n + 3) // 4)
    cdef Py_ssize_t vectors = (p.n + width - 1) // width
    cdef Py_ssize_t steps = (TILE_ROWS // 2 * vectors + (vectors == 1)) * tiles
    if p.b_column != 1:
        steps += (p.n // 3 if MASKED else 3 * p.n // 7) + 2
    cdef Py_ssize_t pace = 8 if max(p.m, p.n) * p.k > AT_HAND else 5 if (min(p.m, p.n) + 8) * min(p.k, DEEP) <= ROOM else 7
    cdef Py_ssize_t lined = p.m * up(p.n, 4) * p.k // width * pace // 8 + blocks * LINED * (1 + p.k // DEEP)
    if p.a_column != 1:
        lined += p.m * p.k
    if p.b_row != 1:
        lined += p.n * p.k
    return (p.a_column == 1 or p.m <= LINES) and (p.b_row == 1 or p.n <= LINES) and lined < p.k * steps + 40 * tiles


cdef void choose_blocks(Plan* plan, const Products* p, Py_ssize_t width) noexcept nogil:
    """The blocks by which the thread with the most work is done first; of large products several for each thread, to be dealt out."""
    cdef Py_ssize_t threads = plan.threads, parts = p.count * plan.cuts, vectors = (p.n + width - 1) // width
    cdef Py_ssize_t rows, bands, turns, wide, high, tiles, each = p.m * p.n * (p.k // plan.cuts)
    cdef Py_ssize_t reading = 4 if turns_a(p, width) else 2
    cdef double cost, least = -1
    plan.dealt = each // min(threads, 2) * parts >= DEALT
    if parts > 8 * threads or parts % threads == 0 and not (plan.dealt and parts < TURNS * threads):
        plan.dealt = plan.dealt and each >= DEAL
        return
    for rows in range(1, max(1, min(2 * p.m // TILE_ROWS, 2 * threads if plan.dealt else threads)) + 1):
        for turns in range(1, (TURNS if plan.dealt else max(2, parts) if parts <= MOST else 2) + 1):
            bands = min(vectors, max(1, turns * threads // (parts * rows)))
            high, wide = (p.m + rows - 1) // rows, (vectors + bands - 1) // bands
            tiles = (high + TILE_ROWS - 1) // TILE_ROWS
            # In cycles by k: a row of a tile by a vector takes 1/2, or alone 5/8, reading a tile of a 2, or turned 4, a vector of b
            # 4, or turned 8. Parts of rows of out bring those of others along, which counts the more, the shorter k is.
            cost = high * wide / 2. + (high / 8. if wide == 1 else 0) + reading * tiles + (4 if p.b_column == 1 else 8) * wide
            if bands > 1 and not plan.turned:
                cost += <double>APART * high / p.k
            cost *= (parts * rows * bands + threads - 1) // threads + (0.25 if plan.dealt else 0)   # a part of the last is waited for
            if least < 0 or cost < least or cost == least and not plan.dealt:
                least, plan.row_blocks, plan.column_blocks = cost, rows, bands
    plan.dealt = plan.dealt and parts * plan.row_blocks * plan.column_blocks > threads
