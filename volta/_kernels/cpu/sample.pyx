# Images at the places of a grid, the transpose, and the derivative by the grid. The formulas are those of ops/records/sample.py.
#
# Layout: x[N, C, (D,) H, W], grid[N, places, rank] with the coordinates x, y, z, both contiguous. BLOCK places at a time: tables of each
#   coordinate's elements, weights and derivatives, of these each place's elements (-1: outside) and weights; then channel by channel.
# Threads: over blocks of places; of the transpose over planes, so that each sum has one order. Sizes: the front end. Every index is
#   cut to its axis as an integer, whatever the coordinate is.

from cython.parallel cimport prange
from libc.math cimport floor, floorf, nearbyint, nearbyintf
from libc.string cimport memset

from volta.errors import ShapeError
from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, pointer
from volta._kernels.core.size cimport plain
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sample_vectors cimport (
    IN_ROWS, PAIRED, gather_32, gather_64, gather_pairs, gather_rows, pair_elements, pick_32, pick_64, row_elements, weigh_pairs,
    weigh_rows)

cdef enum:
    NEAREST, BILINEAR, BICUBIC
    ZEROS = 0, BORDER, REFLECTION
    BLOCK = 256
    TABLE = 36 * BLOCK                              # [coordinate][derivative][element][place]
    MOST = 16                                       # elements that a place takes
    REALS = TABLE + (2 * MOST + 2) * BLOCK          # of a thread: table, weights, sums, places and slopes of a coordinate
    INTS = (13 + MOST) * BLOCK                      # elements by coordinate, and by place; what is told of eight places

MODES = ("nearest", "bilinear", "bicubic")
PADDINGS = ("zeros", "border", "reflection")

cdef double[3][4][4] WEIGHTS = [[[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
                                [[1, -1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
                                [[0, -0.75, 1.5, -0.75], [1, 0, -2.25, 1.25], [0, 0.75, 1.5, -1.25], [0, 0, -0.75, 0.75]]]

cdef struct Sampler:
    Py_ssize_t images, channels, places, plane      # plane: elements of one
    Py_ssize_t size[3]                              # by coordinate
    int rank, mode, padding, taps, count            # elements of a coordinate, of a place
    bint aligned


cdef inline real lower(real x) noexcept nogil:
    return floorf(x) if real is float else floor(x)


cdef inline real nearest(real x) noexcept nogil:
    return nearbyintf(x) if real is float else nearbyint(x)


cdef inline real moved(Sampler* p, Py_ssize_t size, real x, real* slope) noexcept nogil:
    """x moved into the image, 0 for NaN. IN/OUT: slope, times the derivative of that."""
    cdef real low, span, turns, most = size - 1
    if p.padding == ZEROS:
        return x
    if p.padding == REFLECTION:
        low = 0 if p.aligned else <real>-0.5
        span = most if p.aligned else size
        x = x - low
        slope[0] = -slope[0] if x < 0 else slope[0]
        x = -x if x < 0 else x
        turns = lower(x / span) if span > 0 else 0
        x = x - turns * span
        if turns - 2 * lower(turns * <real>0.5) != 0:
            x = span - x
            slope[0] = -slope[0]
        x = x + low
    slope[0] = slope[0] if x > 0 and x < most else 0
    return (x if x < most else most) if x > 0 else 0


cdef inline int element(real x, real most, int last) noexcept nogil:
    """The number of an element, -1 outside. IN: most, last as a float, which may be rounded."""
    return min(<int>(x if (x >= 0) & (x <= most) else -1), last)


cdef void fill_coordinate(Sampler* p, int d, const real* grid, Py_ssize_t n, int orders, real* memory, int* index) noexcept nogil:
    """The table of a coordinate, of n places. IN: orders, how many derivatives are asked for. OUT: memory, index."""
    cdef Py_ssize_t j, size = p.size[d]
    cdef int k, order, rank = p.rank, last = <int>size - 1
    cdef real* at = memory + REALS - 2 * BLOCK
    cdef real* slope = at + BLOCK
    cdef real* weight
    cdef int* elements
    cdef real t, c0, c1, c2, c3, half = <real>0.5 * (last if p.aligned else size), shift = 0 if p.aligned else <real>0.5, most = last
    if rank == 2:                                   # a step that the compiler knows
        for j in range(n):
            at[j] = (grid[j * 2 + d] + 1) * half - shift
    else:
        for j in range(n):
            at[j] = (grid[j * 3 + d] + 1) * half - shift
    if orders > 0 or p.padding != ZEROS:
        for j in range(n):
            slope[j] = half
    if p.mode != BICUBIC and p.padding != ZEROS:
        for j in range(n):
            at[j] = moved(p, size, at[j], &slope[j])
    for k in range(p.taps):
        elements = index + k * BLOCK
        if p.mode == NEAREST:
            for j in range(n):
                elements[j] = element(nearest(at[j]), most, last)
        elif p.mode == BILINEAR or p.padding == ZEROS:
            t = k - (p.mode == BICUBIC)
            for j in range(n):
                elements[j] = element(lower(at[j]) + t, most, last)
        else:
            for j in range(n):
                t = 0
                elements[j] = element(nearest(moved(p, size, lower(at[j]) + (k - 1), &t)), most, last)
    if p.mode == NEAREST and orders == 0:           # which has no weights
        return
    for k in range(p.taps):
        c0, c1, c2, c3 = WEIGHTS[p.mode][k][0], WEIGHTS[p.mode][k][1], WEIGHTS[p.mode][k][2], WEIGHTS[p.mode][k][3]
        for order in range(orders + 1):
            weight = memory + ((d * 3 + order) * 4 + k) * BLOCK
            if order >= p.taps - 1:                 # constants, whatever the place is
                for j in range(n):
                    weight[j] = c0 if order == 0 else slope[j] * c1 if order == 1 else 0
            elif order == 0:
                for j in range(n):
                    t = at[j] - lower(at[j])
                    weight[j] = c0 + t * (c1 + t * (c2 + t * c3))
            elif order == 1:
                for j in range(n):
                    t = at[j] - lower(at[j])
                    weight[j] = slope[j] * (c1 + t * (2 * c2 + t * (3 * c3)))
            else:
                for j in range(n):
                    t = at[j] - lower(at[j])
                    weight[j] = slope[j] * slope[j] * (2 * c2 + t * (6 * c3))
            if rank == 3:                           # where a place that is NaN lies outside
                for j in range(n):
                    weight[j] = weight[j] if index[k * BLOCK + j] >= 0 else 0


cdef void fill_elements(Sampler* p, Py_ssize_t n, const int* index, int* at) noexcept nogil:
    """The elements of each place. OUT: at[count][BLOCK]."""
    cdef Py_ssize_t j
    cdef int c, width = <int>p.size[0], layer = <int>(p.size[0] * p.size[1])
    cdef const int* x
    cdef const int* y
    cdef const int* z
    for c in range(p.count):
        x = index + c % p.taps * BLOCK
        y = index + (4 + c // p.taps % p.taps) * BLOCK
        if p.rank == 2:
            for j in range(n):
                at[c * BLOCK + j] = -1 if (x[j] | y[j]) < 0 else y[j] * width + x[j]
        else:
            z = index + (8 + c // (p.taps * p.taps)) * BLOCK
            for j in range(n):
                at[c * BLOCK + j] = -1 if (x[j] | y[j] | z[j]) < 0 else z[j] * layer + y[j] * width + x[j]


cdef void add_weights(Sampler* p, const real* table, int* orders, const real* factor, Py_ssize_t n, real* out) noexcept nogil:
    """Add the products of the coordinates' weights, times a factor for each place, if there is one."""
    cdef Py_ssize_t j
    cdef int c
    cdef const real* x
    cdef const real* y
    cdef const real* z
    for c in range(p.count):
        x = table + (orders[0] * 4 + c % p.taps) * BLOCK
        y = table + ((3 + orders[1]) * 4 + c // p.taps % p.taps) * BLOCK
        z = table + ((6 + orders[2]) * 4 + c // (p.taps * p.taps)) * BLOCK
        if p.rank == 2 and factor == NULL:
            for j in range(n):
                out[c * BLOCK + j] = x[j] * y[j]
        elif p.rank == 2:
            for j in range(n):
                out[c * BLOCK + j] += factor[j * 2] * (x[j] * y[j])
        elif factor == NULL:
            for j in range(n):
                out[c * BLOCK + j] = x[j] * y[j] * z[j]
        else:
            for j in range(n):
                out[c * BLOCK + j] += factor[j * 3] * (x[j] * y[j] * z[j])


cdef void weigh(Sampler* p, const real* table, int by, const real* direction, Py_ssize_t n, real* out) noexcept nogil:
    """The weights of each place, or their derivatives by a coordinate (-1: none), or these derived along a direction. OUT: out"""
    cdef int orders[3]
    cdef int d
    cdef Py_ssize_t j
    if p.mode == NEAREST and by < 0 and direction == NULL:
        for j in range(n):
            out[j] = 1
        return
    orders[0], orders[1], orders[2] = by == 0, by == 1, by == 2
    if direction == NULL:
        add_weights(p, table, orders, <const real*>NULL, n, out)
        return
    memset(out, 0, p.count * BLOCK * sizeof(real))
    for d in range(p.rank):
        orders[d] += 1
        add_weights(p, table, orders, direction + d, n, out)
        orders[d] -= 1


cdef void fill_tables(Sampler* p, const real* grid, Py_ssize_t n, int orders, real* memory, int* index) noexcept nogil:
    cdef int d
    for d in range(p.rank):
        fill_coordinate(p, d, grid, n, orders, memory, index + d * 4 * BLOCK)


cdef inline void gather(const real* x, const int* at, const real* weight, int count, Py_ssize_t n, real* out, bint add) noexcept nogil:
    """out = the sum of x at the elements of each place, each times its weight; added to what is there."""
    if real is float:
        gather_32(x, at, weight, count, n, out, add)
    else:
        gather_64(x, at, weight, count, n, out, add)


cdef inline void pick(const real* x, const int* at, Py_ssize_t n, real* out) noexcept nogil:
    if real is float:
        pick_32(x, at, n, out)
    else:
        pick_64(x, at, n, out)


cdef inline bint in_pairs(Sampler* p, const int* index, int* at, Py_ssize_t n, real kind) noexcept nogil:
    """Whether the elements of places are read in pairs, which `at` then tells. `kind` only names the type."""
    if real is float and PAIRED and p.mode == BILINEAR and p.rank == 2 and p.size[0] > 1:
        pair_elements(index, at, n, <int>p.size[0])
        return True
    return False


cdef inline bint in_rows(Sampler* p, const int* index, int* at, Py_ssize_t n, real kind) noexcept nogil:
    """The same of a bicubic place's four elements of a row."""
    if real is float and IN_ROWS and p.mode == BICUBIC:
        row_elements(index, at, n)
        return True
    return False


cdef void sample_blocks(Sampler* p, const real* x, const real* grid, const real* direction, Py_ssize_t start, Py_ssize_t stop, real* memory,
                        int* index, real* out) noexcept nogil:
    """Blocks start .. stop of all images' places."""
    cdef Py_ssize_t blocks = (p.places + BLOCK - 1) // BLOCK, block, image, place, first, n, channel, done
    cdef real* weight = memory + TABLE
    cdef real* target
    cdef const real* source
    cdef int* at = index + 12 * BLOCK
    cdef bint rows
    for block in range(start, stop):
        image, place = block // blocks, block % blocks * BLOCK
        first, n = (image * p.places + place) * p.rank, min(BLOCK, p.places - place)
        fill_tables(p, grid + first, n, 0 if direction == NULL else 1, memory, index)
        fill_elements(p, n, index, at)
        if p.mode == NEAREST and direction == NULL:
            for channel in range(image * p.channels, (image + 1) * p.channels):
                pick(x + channel * p.plane, at, n, out + channel * p.places + place)
            continue
        weigh(p, memory, -1, <const real*>NULL if direction == NULL else direction + first, n, weight)
        if in_pairs(p, index, at, n, x[0]):
            for channel in range(image * p.channels, (image + 1) * p.channels):
                gather_pairs(<const float*>x + channel * p.plane, at, <const float*>weight, n, <float*>out + channel * p.places + place)
            continue
        rows = in_rows(p, index, at, n, x[0])
        done = 0
        for channel in range(image * p.channels, (image + 1) * p.channels):
            source, target = x + channel * p.plane, out + channel * p.places + place
            if rows:
                done = gather_rows(<const float*>source, at, <const float*>weight, n, <float*>target)
            if done < n:
                gather(source, at + done, weight + done, p.count, n - done, target + done, False)


cdef void grid_blocks(Sampler* p, const real* g, const real* x, const real* grid, const real* direction, Py_ssize_t start, Py_ssize_t stop,
                      real* memory, int* index, real* out) noexcept nogil:
    """Blocks start .. stop of the derivative by the grid: sums over the channels for each element, then times the weights' derivatives."""
    cdef Py_ssize_t blocks = (p.places + BLOCK - 1) // BLOCK, block, image, place, first, n, channel, j, done = 0
    cdef real* weight = memory + TABLE
    cdef real* total = weight + MOST * BLOCK
    cdef real* line = memory + REALS - 2 * BLOCK    # where the tables were made
    cdef int* at = index + 12 * BLOCK
    cdef int c, d
    cdef bint paired, rows
    for block in range(start, stop):
        image, place = block // blocks, block % blocks * BLOCK
        first, n = (image * p.places + place) * p.rank, min(BLOCK, p.places - place)
        fill_tables(p, grid + first, n, 1 if direction == NULL else 2, memory, index)
        fill_elements(p, n, index, at)
        memset(total, 0, p.count * BLOCK * sizeof(real))
        paired, rows = in_pairs(p, index, at, n, x[0]), in_rows(p, index, at, n, x[0])
        for channel in range(image * p.channels, (image + 1) * p.channels):
            if paired:
                weigh_pairs(<const float*>x + channel * p.plane, at, <const float*>g + channel * p.places + place, n, <float*>total)
                continue
            if rows:
                done = weigh_rows(<const float*>x + channel * p.plane, at, <const float*>g + channel * p.places + place, n, <float*>total)
            for c in range(p.count if done < n else 0):
                gather(x + channel * p.plane, at + c * BLOCK + done, g + channel * p.places + place + done, 1, n - done,
                       total + c * BLOCK + done, True)
        for d in range(p.rank):
            weigh(p, memory, d, <const real*>NULL if direction == NULL else direction + first, n, weight)
            memset(line, 0, BLOCK * sizeof(real))
            for c in range(p.count):
                for j in range(n):
                    line[j] += weight[c * BLOCK + j] * total[c * BLOCK + j]
            for j in range(n):
                out[first + j * p.rank + d] = line[j]


cdef void input_planes(Sampler* p, const real* g, const real* grid, const real* direction, Py_ssize_t start, Py_ssize_t stop, real* memory,
                       int* index, real* out) noexcept nogil:
    """Planes start .. stop of the transpose, four side by side: what they add to does not overlap."""
    cdef Py_ssize_t image, block, place, first, n, plane, end, some
    cdef real* weight = memory + TABLE
    cdef int* at = index + 12 * BLOCK
    memset(out + start * p.plane, 0, (stop - start) * p.plane * sizeof(real))
    while start < stop:
        image = start // p.channels
        end = min((image + 1) * p.channels, stop)
        for block in range((p.places + BLOCK - 1) // BLOCK):
            place = block * BLOCK
            first, n = (image * p.places + place) * p.rank, min(BLOCK, p.places - place)
            fill_tables(p, grid + first, n, 0 if direction == NULL else 1, memory, index)
            fill_elements(p, n, index, at)
            weigh(p, memory, -1, <const real*>NULL if direction == NULL else direction + first, n, weight)
            for plane in range(start, end, 4):
                some = min(4, end - plane)
                scatter(g + plane * p.places + place, p.places, at, weight, p.count, n, some, out + plane * p.plane, p.plane)
        start = end


cdef void scatter(const real* g, Py_ssize_t step, const int* at, const real* weight, int count, Py_ssize_t n, Py_ssize_t planes, real* out,
                  Py_ssize_t plane) noexcept nogil:
    """Add g times the weights to the elements of each place, in 1 to 4 planes."""
    cdef Py_ssize_t j
    cdef int c, i
    cdef real w
    for j in range(n):
        for c in range(count):
            i, w = at[c * BLOCK + j], weight[c * BLOCK + j]
            if i < 0:
                continue
            out[i] += g[j] * w
            if planes > 1:
                out[plane + i] += g[step + j] * w
            if planes > 2:
                out[2 * plane + i] += g[2 * step + j] * w
            if planes > 3:
                out[3 * plane + i] += g[3 * step + j] * w


cdef void run_units(Sampler* p, int kind, const real* g, const real* x, const real* grid, const real* direction, Py_ssize_t start,
                    Py_ssize_t stop, real* memory, int* index, real* out) noexcept nogil:
    if kind == 0:
        sample_blocks(p, x, grid, direction, start, stop, memory, index, out)
    elif kind == 1:
        input_planes(p, g, grid, direction, start, stop, memory, index, out)
    else:
        grid_blocks(p, g, x, grid, direction, start, stop, memory, index, out)


cdef void run(Sampler* p, int kind, const real* g, const real* x, const real* grid, const real* direction, real* out):
    """IN: kind, 0 samples, 1 the transpose, 2 the derivative by the grid."""
    cdef Py_ssize_t units = p.images * (p.channels if kind == 1 else (p.places + BLOCK - 1) // BLOCK)
    cdef Py_ssize_t work = p.channels * p.count + 2 * p.rank * p.taps       # at a place: its channels, and where it is
    cdef int threads = threads_for(p.images * p.places * work * 2), t       # some may have no unit: see threads.pxd
    cdef Storage storage = host_storage(threads * (REALS * sizeof(real) + INTS * sizeof(int)))
    cdef real* memory = <real*>storage.data
    cdef int* index = <int*>(memory + threads * REALS)
    with nogil:
        if threads == 1:                        # a region of one thread takes half a microsecond too
            run_units(p, kind, g, x, grid, direction, 0, units, memory, index, out)
        else:
            for t in prange(threads, num_threads=threads, schedule="static"):
                run_units(p, kind, g, x, grid, direction, units * t // threads, units * (t + 1) // threads, memory + t * REALS,
                          index + t * INTS, out)


cdef TensorBase sampled(str name, int kind, TensorBase g, TensorBase x, TensorBase grid, TensorBase direction, tuple size, str mode,
                        str padding_mode, bint align_corners):
    cdef Sampler p
    cdef TensorBase first = g if x is None else x, out
    cdef int code = float_code(name, grid, g, x, direction), d
    g, x, grid, direction = packed(g), packed(x), packed(grid), packed(direction)
    p.images, p.channels, p.rank = first.shape[0], first.shape[1], len(size)
    p.places, p.plane = 1, 1
    for d in range(p.rank):
        p.size[d] = size[p.rank - 1 - d]
        p.places *= <Py_ssize_t>grid.shape[d + 1]
        p.plane *= p.size[d]
    if p.plane > 0x7fffffff:
        raise ShapeError(f"{name}: an image of one channel may have at most 2**31 - 1 elements, got {size}")
    p.mode, p.padding, p.aligned = MODES.index(mode), PADDINGS.index(padding_mode), align_corners
    p.taps = 1 << p.mode
    p.count = p.taps ** p.rank
    out = empty_host(first.shape[:2] + (size if kind == 1 else grid.shape[1:p.rank + 1]) if kind < 2 else grid.shape, grid.dtype)
    if out.size and p.plane:
        if code == FLOAT32:
            run(&p, kind, <float*>pointer(g), <float*>pointer(x), <float*>pointer(grid), <float*>pointer(direction), <float*>pointer(out))
        else:
            run(&p, kind, <double*>pointer(g), <double*>pointer(x), <double*>pointer(grid), <double*>pointer(direction),
                <double*>pointer(out))
    return out


def grid_sample(TensorBase x not None, TensorBase grid not None, TensorBase direction, str mode, str padding_mode, bint align_corners):
    """x[N, C, ...] at the places of grid[N, ..., rank]."""
    return sampled("grid_sample", 0, None, x, grid, direction, x.shape[2:], mode, padding_mode, align_corners)


def grid_sample_input(TensorBase g not None, TensorBase grid not None, TensorBase direction, size, str mode, str padding_mode,
                      bint align_corners):
    """The gradient of grid_sample's x, whose planes had this size."""
    return sampled("grid_sample_input", 1, g, None, grid, direction, plain(size), mode, padding_mode, align_corners)


def grid_sample_grid(TensorBase g not None, TensorBase x not None, TensorBase grid not None, TensorBase direction, str mode,
                     str padding_mode, bint align_corners):
    """The gradient of grid_sample's grid."""
    return sampled("grid_sample_grid", 2, g, x, grid, direction, x.shape[2:], mode, padding_mode, align_corners)


KERNELS = {"grid_sample": grid_sample, "grid_sample_input": grid_sample_input, "grid_sample_grid": grid_sample_grid}
