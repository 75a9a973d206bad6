# Attention by tiles (FlashAttention): out = softmax(scale * q @ k.T + mask) @ v for every head, and its gradients, without the
# matrix of scores.
#
# Layout: q[B, L, H, E], k[B, S, G, E], v[B, S, G, V] with any strides but that of the last dimension, which is 1; query head h reads
#   head h * G / H of k and v; mask[B or 1, H or 1, L or 1, S or 1], any strides. Products are those of tile.pxd's register tile: the
#   forward pass holds scores as [key][query], so that a row's maximum and sum run along vectors, and the backward pass as [query][key].
# Threads: over heads and blocks of queries; backward over heads and, where these are few, parts of the keys, whose gradients of q are
#   added in order. What is split depends on the sizes alone.
# Sizes: the front end. A query that may see no key gives zeros, and logsumexp +inf.
# Source: Dao 2023, "FlashAttention-2", algorithms 1 and 2.

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY, log
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, same_type
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.sums cimport exp_of, line_dot
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes, outer, real

cdef enum:
    PANELS = 4                  # vectors' worth of queries that share a packed block of keys, in threes
    KEYS = 128                  # keys of a block, forward
    QUERIES = 64                # queries of a block, backward
    PARTS = 8                   # pieces of work below which backward splits the keys
    PAD = 64
    WIDEST = 48                 # three vectors of the widest kind

cdef double LOWEST = -3e38      # below all scores but -inf, and finite: exp(-inf - LOWEST) is 0

# Strides in elements, by dimension.
cdef struct Sizes:
    Py_ssize_t batch, queries, heads, keys, groups, width, values
    Py_ssize_t q[3]
    Py_ssize_t k[3]
    Py_ssize_t v[3]
    Py_ssize_t g[3]
    Py_ssize_t mask[4]
    bint causal
    double scale


cdef inline Py_ssize_t tiles(Py_ssize_t n) noexcept nogil:
    """Register tiles that n rows take."""
    return (n + TILE_ROWS - 1) // TILE_ROWS


cdef inline Py_ssize_t up(Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """n, rounded up to whole steps."""
    return (n + step - 1) // step * step


cdef void pack_rows(const real* x, Py_ssize_t stride, Py_ssize_t rows, Py_ssize_t width, real* out) noexcept nogil:
    """out[rows / TILE_ROWS][width][TILE_ROWS]: rows side by side, as the left operand of a product along the width."""
    cdef Py_ssize_t i, at
    for i in range(tiles(rows)):
        at = i * TILE_ROWS
        pack(min(TILE_ROWS, rows - at), TILE_ROWS, width, x + at * stride, stride, 1, out + at * width)


cdef void pack_columns(const real* x, Py_ssize_t stride, Py_ssize_t rows, Py_ssize_t width, Py_ssize_t step, real* out) noexcept nogil:
    """out[width / step][rows][step]: columns side by side, as an operand of a product along the rows."""
    cdef Py_ssize_t i, at
    for i in range((width + step - 1) // step):
        at = i * step
        pack(min(step, width - at), step, rows, x + at, 1, stride, out + at * rows)


cdef void add_mask(const real* mask, Py_ssize_t row, Py_ssize_t column, Py_ssize_t rows, Py_ssize_t columns, real* scores,
                   Py_ssize_t width) noexcept nogil:
    """scores[rows][width] += mask, whose strides are `row` and `column`."""
    cdef Py_ssize_t i, j
    cdef real value
    cdef real* line
    for i in range(rows):
        line = scores + i * width
        if column == 0:
            value = mask[i * row]
            for j in range(columns):
                line[j] += value
        else:
            for j in range(columns):
                line[j] += mask[i * row + j * column]


# ---------------------------------------------------------------- forward

cdef Py_ssize_t forward_space(const Sizes* s, real* kind) noexcept nogil:
    """Elements of work space of a thread."""
    cdef Py_ssize_t wide = 3 * lanes(kind), values = up(s.values, TILE_ROWS)
    return PANELS * wide * (s.width + values + 2) + KEYS * (s.width + values + wide) + TILE_ROWS * wide + 8 * PAD


cdef void exponentials(Py_ssize_t n, real* scores, real* top, real* total, real* factor, Py_ssize_t wide) noexcept nogil:
    """Exponentials of scores[n][wide] in their place, against the largest so far; OUT: factor, of what was summed before."""
    cdef real[WIDEST] best
    cdef real[WIDEST] sums
    cdef Py_ssize_t i, j
    cdef real* line
    for j in range(wide):
        best[j] = top[j]
        sums[j] = 0
    for i in range(n):
        line = scores + i * wide
        for j in range(wide):
            best[j] = line[j] if line[j] > best[j] else best[j]
    for i in range(n):
        line = scores + i * wide
        for j in range(wide):
            line[j] = exp_of[real](line[j] - best[j])
            sums[j] += line[j]
    for j in range(wide):
        factor[j] = exp_of[real](top[j] - best[j])
        total[j] = total[j] * factor[j] + sums[j]
        top[j] = best[j]


cdef void hide_future(Py_ssize_t first_query, Py_ssize_t first_key, Py_ssize_t keys, Py_ssize_t wide, real* scores) noexcept nogil:
    """-inf in scores[keys][wide] where the key comes after the query."""
    cdef Py_ssize_t i, j
    for i in range(max(<Py_ssize_t>0, first_query + 1 - first_key), keys):
        for j in range(min(wide, first_key + i - first_query)):
            scores[i * wide + j] = -INFINITY


cdef void finish(const Sizes* s, Py_ssize_t rows, const real* sums, const real* top, const real* total, real* out,
                 real* logsumexp, Py_ssize_t wide) noexcept nogil:
    """Write the rows of out and of logsumexp from sums[values][wide]."""
    cdef Py_ssize_t j, e
    cdef real factor
    for j in range(rows):
        factor = 1 / total[j] if total[j] != 0 else 0
        for e in range(s.values):
            out[j * s.heads * s.values + e] = sums[e * wide + j] * factor
        logsumexp[j] = <real>(top[j] + log(total[j])) if total[j] != 0 else <real>INFINITY


cdef void forward_block(const Sizes* s, Py_ssize_t item, const real* q, const real* k, const real* v, const real* mask, real* out,
                        real* logsumexp, real* space) noexcept nogil:
    """One block of queries of one head."""
    cdef Py_ssize_t wide = 3 * lanes(out), block = PANELS * wide, blocks = (s.queries + block - 1) // block
    cdef Py_ssize_t b = item // blocks // s.heads, h = item // blocks % s.heads, first = (blocks - 1 - item % blocks) * block
    cdef Py_ssize_t rows = min(block, s.queries - first), panels = (rows + wide - 1) // wide, values = up(s.values, TILE_ROWS)
    cdef Py_ssize_t seen = min(s.keys, first + rows) if s.causal else s.keys, key, count, panel, at, i
    cdef real* queries = space
    cdef real* sums = queries + block * s.width + PAD
    cdef real* keys = sums + block * values + PAD
    cdef real* value_rows = keys + KEYS * s.width + PAD
    cdef real* top = value_rows + KEYS * values + PAD
    cdef real* total = top + block
    cdef real* scores = total + block
    q += b * s.q[0] + first * s.q[1] + h * s.q[2]
    k += b * s.k[0] + h * s.groups // s.heads * s.k[2]
    v += b * s.v[0] + h * s.groups // s.heads * s.v[2]
    if mask != NULL:
        mask += b * s.mask[0] + h * s.mask[1] + first * s.mask[2]
    for panel in range(panels):
        at = panel * wide
        pack(min(wide, rows - at), wide, s.width, q + at * s.q[1], s.q[1], 1, queries + at * s.width)
    for i in range(panels * wide * s.width):
        queries[i] *= <real>s.scale
    for i in range(block * values):
        sums[i] = 0
    for i in range(block):
        top[i] = <real>LOWEST
        total[i] = 0
    for i in range((seen + KEYS - 1) // KEYS):
        key = i * KEYS
        count = min(KEYS, seen - key)
        pack_rows(k + key * s.k[1], s.k[1], count, s.width, keys)
        pack_columns(v + key * s.v[1], s.v[1], count, s.values, TILE_ROWS, value_rows)
        for panel in range(panels):
            at = panel * wide
            attend(s, first + at, min(wide, rows - at), key, count, <const real*>queries + at * s.width, <const real*>keys,
                   <const real*>value_rows, mask + at * s.mask[2] + key * s.mask[3] if mask != NULL else <const real*>NULL,
                   sums + at * values, top + at, total + at, scores)
    for panel in range(panels):
        at = panel * wide
        finish(s, min(wide, rows - at), <const real*>sums + at * values, <const real*>top + at, <const real*>total + at,
               out + ((b * s.queries + first + at) * s.heads + h) * s.values,
               logsumexp + (b * s.heads + h) * s.queries + first + at, wide)


cdef void attend(const Sizes* s, Py_ssize_t query, Py_ssize_t rows, Py_ssize_t key, Py_ssize_t count, const real* queries,
                 const real* keys, const real* value_rows, const real* mask, real* sums, real* top, real* total,
                 real* scores) noexcept nogil:
    """One panel of queries, from number `query` on, with one block of `count` keys."""
    cdef Py_ssize_t wide = 3 * lanes(sums), n = min(count, query + wide - key) if s.causal else count, i
    cdef real* tile = scores + KEYS * wide + PAD
    cdef real[WIDEST] factor
    if n <= 0:
        return
    for i in range(tiles(n)):
        outer(s.width, keys + i * TILE_ROWS * s.width, queries, scores + i * TILE_ROWS * wide, 3)
    if mask != NULL:
        add_mask(mask, s.mask[3], s.mask[2], n, rows, scores, wide)
    if s.causal:
        hide_future(query, key, n, wide, scores)
    exponentials(n, scores, top, total, factor, wide)
    for i in range(tiles(s.values)):
        outer(n, value_rows + i * TILE_ROWS * count, <const real*>scores, tile, 3)
        merge(sums + i * TILE_ROWS * wide, <const real*>tile, <const real*>factor, wide)


cdef void merge(real* sums, const real* tile, const real* factor, Py_ssize_t wide) noexcept nogil:
    """sums[TILE_ROWS][wide] = sums * factor + tile."""
    cdef Py_ssize_t i, j
    for i in range(TILE_ROWS):
        for j in range(wide):
            sums[i * wide + j] = sums[i * wide + j] * factor[j] + tile[i * wide + j]


cdef void forward(const Sizes* s, const real* q, const real* k, const real* v, const real* mask, real* out, real* logsumexp):
    cdef Py_ssize_t block = PANELS * 3 * lanes(out), items = s.batch * s.heads * ((s.queries + block - 1) // block), item
    cdef Py_ssize_t own = forward_space(s, out)
    cdef int threads = work_threads(s, 1)
    cdef Storage storage = host_storage(threads * own * sizeof(real))
    cdef real* space = <real*>storage.data
    with nogil:
        for item in prange(items, num_threads=threads, schedule="dynamic", chunksize=1):
            forward_block(s, item, q, k, v, mask, out, logsumexp, space + threadid() * own)


cdef int work_threads(const Sizes* s, Py_ssize_t passes) noexcept nogil:
    return threads_for(s.batch * s.heads * s.queries * s.keys // 16 * (s.width + s.values) * passes)


# ---------------------------------------------------------------- backward

cdef Py_ssize_t backward_space(const Sizes* s, real* kind) noexcept nogil:
    """Elements of work space of a thread."""
    cdef Py_ssize_t wide = 3 * lanes(kind), width = up(s.width, wide), values = up(s.values, wide)
    return (up(s.queries, QUERIES) * (2 * width + 2 * values + 1) + wide * (3 * width + 2 * values) + 2 * QUERIES * wide
            + 2 * TILE_ROWS * wide + 16 * PAD)


cdef Py_ssize_t parts_of(const Sizes* s, Py_ssize_t wide) noexcept nogil:
    """Pieces into which the keys of each head are split."""
    cdef Py_ssize_t pieces = max(<Py_ssize_t>1, s.batch * s.groups)
    return max(<Py_ssize_t>1, min((PARTS + pieces - 1) // pieces, s.keys // (2 * wide)))


cdef void backward_part(const Sizes* s, Py_ssize_t item, Py_ssize_t parts, const real* g, const real* q, const real* k, const real* v,
                        const real* mask, const real* out, const real* logsumexp, real* dq, real* more, real* dk, real* dv,
                        real* space) noexcept nogil:
    """Every parts-th panel of the keys of one head, with all queries. IN: more, where parts but the first add up gradients of q."""
    cdef Py_ssize_t wide = 3 * lanes(dq), width = up(s.width, wide), values = up(s.values, wide)
    cdef Py_ssize_t b = item // parts // s.groups, group = item // parts % s.groups, part = item % parts, ratio = s.heads // s.groups
    cdef Py_ssize_t h, i, key, at, row, rows, block, panel, padded = up(s.queries, QUERIES)
    cdef real* q_rows = space
    cdef real* q_columns = q_rows + padded * width + PAD
    cdef real* g_rows = q_columns + padded * width + PAD
    cdef real* g_columns = g_rows + padded * values + PAD
    cdef real* delta = g_columns + padded * values + PAD
    cdef real* rest = delta + padded + PAD
    cdef real* gradient = dq if part == 0 else more + (part - 1) * s.batch * s.queries * s.heads * s.width
    for h in range(group * ratio, (group + 1) * ratio):
        at = b * s.q[0] + h * s.q[2]
        row = b * s.g[0] + h * s.g[2]
        pack_rows(q + at, s.q[1], s.queries, s.width, q_rows)
        pack_rows(g + row, s.g[1], s.queries, s.values, g_rows)
        for i in range(padded // QUERIES):
            block = i * QUERIES
            rows = min(QUERIES, s.queries - block)
            pack_columns(q + at + block * s.q[1], s.q[1], rows, s.width, TILE_ROWS, q_columns + block * width)
            pack_columns(g + row + block * s.g[1], s.g[1], rows, s.values, TILE_ROWS, g_columns + block * values)
        for i in range(s.queries):
            delta[i] = <real>line_dot(g + row + i * s.g[1], out + ((b * s.queries + i) * s.heads + h) * s.values, <real>0, s.values)
        for panel in range((s.keys - part * wide + parts * wide - 1) // (parts * wide)):
            key = (panel * parts + part) * wide
            backward_panel(s, b, h, key, k + b * s.k[0] + key * s.k[1] + group * s.k[2], v + b * s.v[0] + key * s.v[1] + group * s.v[2],
                           mask + b * s.mask[0] + h * s.mask[1] + key * s.mask[3] if mask != NULL else <const real*>NULL,
                           logsumexp + (b * s.heads + h) * s.queries, <const real*>delta, <const real*>q_rows, <const real*>q_columns,
                           <const real*>g_rows, <const real*>g_columns, gradient + (b * s.queries * s.heads + h) * s.width,
                           dk + ((b * s.keys + key) * s.groups + group) * s.width,
                           dv + ((b * s.keys + key) * s.groups + group) * s.values, h == group * ratio, rest)


cdef void backward_panel(const Sizes* s, Py_ssize_t b, Py_ssize_t h, Py_ssize_t key, const real* k, const real* v, const real* mask,
                         const real* logsumexp, const real* delta, const real* q_rows, const real* q_columns, const real* g_rows,
                         const real* g_columns, real* dq, real* dk, real* dv, bint first, real* space) noexcept nogil:
    """One panel of keys of one head with all queries that may see them."""
    cdef Py_ssize_t wide = 3 * lanes(dq), width = up(s.width, wide), values = up(s.values, wide), n = min(wide, s.keys - key)
    cdef Py_ssize_t piece, block, rows, i, at
    cdef real* keys = space
    cdef real* value_panel = keys + wide * width + PAD
    cdef real* key_columns = value_panel + wide * values + PAD
    cdef real* key_sums = key_columns + wide * width + PAD
    cdef real* value_sums = key_sums + wide * width + PAD
    cdef real* scores = value_sums + wide * values + PAD
    cdef real* slopes = scores + QUERIES * wide + PAD
    cdef real* tile = slopes + QUERIES * wide + PAD
    pack(n, wide, s.width, k, s.k[1], 1, keys)
    pack(n, wide, s.values, v, s.v[1], 1, value_panel)
    pack_columns(k, s.k[1], n, s.width, wide, key_columns)
    for i in range(wide * s.width):
        keys[i] *= <real>s.scale
    for i in range(wide * width):
        key_sums[i] = 0
    for i in range(wide * values):
        value_sums[i] = 0
    for piece in range(key // QUERIES if s.causal else 0, (s.queries + QUERIES - 1) // QUERIES):
        block = piece * QUERIES
        rows = min(QUERIES, s.queries - block)
        for i in range(tiles(rows)):
            at = i * TILE_ROWS
            outer(s.width, q_rows + (block + at) * s.width, <const real*>keys, scores + at * wide, 3)
            outer(s.values, g_rows + (block + at) * s.values, <const real*>value_panel, slopes + at * wide, 3)
        if mask != NULL:
            add_mask(mask + block * s.mask[2], s.mask[2], s.mask[3], rows, n, scores, wide)
        differentiate(rows, wide, block - key if s.causal else wide, s.scale, logsumexp + block, delta + block, scores, slopes)
        add_products(s.values, rows, g_columns + block * values, <const real*>scores, value_sums, tile, wide)
        add_products(s.width, rows, q_columns + block * width, <const real*>slopes, key_sums, tile, wide)
        add_to_queries(s, rows, n, <const real*>slopes, <const real*>key_columns, dq + block * s.heads * s.width, tile, wide)
    write_panel(<const real*>key_sums, n, s.width, s.groups * s.width, wide, first, dk)
    write_panel(<const real*>value_sums, n, s.values, s.groups * s.values, wide, first, dv)


cdef void differentiate(Py_ssize_t rows, Py_ssize_t wide, Py_ssize_t ahead, double scale, const real* logsumexp, const real* delta,
                        real* scores, real* slopes) noexcept nogil:
    """Probabilities in the place of scores[rows][wide], and the gradients of scores in that of the products of g and v. IN: ahead, how
    far the first query is beyond the first key."""
    cdef Py_ssize_t i, j
    cdef real* p
    cdef real* d
    for i in range(rows):
        p, d = scores + i * wide, slopes + i * wide
        for j in range(wide):
            p[j] = exp_of[real](p[j] - logsumexp[i])
            d[j] = p[j] * (d[j] - delta[i]) * <real>scale
        for j in range(max(<Py_ssize_t>0, i + ahead + 1), wide):
            p[j] = d[j] = 0


cdef void add_products(Py_ssize_t width, Py_ssize_t rows, const real* columns, const real* right, real* sums, real* tile,
                       Py_ssize_t wide) noexcept nogil:
    """sums[width][wide] += columns[rows][width] transposed @ right[rows][wide]."""
    cdef Py_ssize_t e, i
    for e in range(tiles(width)):
        outer(rows, columns + e * TILE_ROWS * rows, right, tile, 3)
        for i in range(TILE_ROWS * wide):
            sums[e * TILE_ROWS * wide + i] += tile[i]


cdef void add_to_queries(const Sizes* s, Py_ssize_t rows, Py_ssize_t n, const real* slopes, const real* key_columns, real* dq, real* tile,
                         Py_ssize_t wide) noexcept nogil:
    """dq[rows][width] += slopes[rows][n] @ keys[n][width]."""
    cdef Py_ssize_t i, j, row, column, columns
    cdef real* turned = tile + TILE_ROWS * wide
    for row in range(tiles(rows)):
        pack(TILE_ROWS, TILE_ROWS, n, slopes + row * TILE_ROWS * wide, wide, 1, turned)
        for column in range((s.width + wide - 1) // wide):
            columns = min(wide, s.width - column * wide)
            outer(n, <const real*>turned, key_columns + column * wide * n, tile, <int>((columns + wide // 3 - 1) // (wide // 3)))
            for i in range(min(TILE_ROWS, rows - row * TILE_ROWS)):
                for j in range(columns):
                    dq[(row * TILE_ROWS + i) * s.heads * s.width + column * wide + j] += tile[i * wide + j]


cdef void write_panel(const real* sums, Py_ssize_t n, Py_ssize_t width, Py_ssize_t stride, Py_ssize_t wide, bint first,
                      real* out) noexcept nogil:
    """out[n][width] = sums[width][wide], transposed, or += where this is not the first head."""
    cdef Py_ssize_t j, e
    for j in range(n):
        for e in range(width):
            out[j * stride + e] = sums[e * wide + j] if first else out[j * stride + e] + sums[e * wide + j]


cdef void backward(const Sizes* s, const real* g, const real* q, const real* k, const real* v, const real* mask, const real* out,
                   const real* logsumexp, real* dq, real* dk, real* dv):
    cdef Py_ssize_t wide = 3 * lanes(dq), parts = parts_of(s, wide), items = s.batch * s.groups * parts, item, own = backward_space(s, dq)
    cdef Py_ssize_t size = s.batch * s.queries * s.heads * s.width, part
    cdef int threads = work_threads(s, 2)
    threads = threads if threads < items else <int>items
    cdef Storage storage = host_storage((threads * own + (parts - 1) * size) * sizeof(real))
    cdef real* more = <real*>storage.data
    cdef real* space = more + (parts - 1) * size
    memset(dq, 0, size * sizeof(real))
    memset(more, 0, (parts - 1) * size * sizeof(real))
    with nogil:
        for item in prange(items, num_threads=threads, schedule="dynamic", chunksize=1):
            backward_part(s, item, parts, g, q, k, v, mask, out, logsumexp, dq, more, dk, dv, space + threadid() * own)
        for part in range(parts - 1):
            for item in range(size):
                dq[item] += more[part * size + item]


# ---------------------------------------------------------------- tensors

cdef TensorBase in_lines(TensorBase t):
    """`t`, or a row-major copy where neighbours along the last dimension do not lie side by side."""
    return t if t.shape[3] == 1 or t._strides[3] == 1 else packed(t)


cdef Sizes sizes_of(TensorBase q, TensorBase k, TensorBase v, TensorBase g, TensorBase mask, bint causal, double scale) except *:
    cdef Sizes s
    cdef int d
    s.batch, s.queries, s.heads, s.width = q.shape
    s.keys, s.groups, s.values = v.shape[1:]
    s.causal, s.scale = causal, scale
    for d in range(3):
        s.q[d], s.k[d], s.v[d], s.g[d] = q._strides[d], k._strides[d], v._strides[d], g._strides[d]
    for d in range(4):
        s.mask[d] = mask._strides[d] if mask is not None and mask.shape[d] != 1 else 0
    return s


def attention(TensorBase q not None, TensorBase k not None, TensorBase v not None, TensorBase mask, *, bint causal, double scale):
    """(out[B, L, H, V], logsumexp[B, H, L])"""
    cdef int code = float_code("attention", q)
    q, k, v = in_lines(q), in_lines(k), in_lines(v)
    cdef Sizes s = sizes_of(q, k, v, v, mask, causal, scale)
    cdef TensorBase out = empty_host((s.batch, s.queries, s.heads, s.values), q.dtype)
    cdef TensorBase logsumexp = empty_host((s.batch, s.heads, s.queries), q.dtype)
    for t in (k, v, mask):
        same_type("attention", q, t)
    cdef void* masks = address(mask) if mask is not None else NULL
    if code == FLOAT32:
        forward(&s, <const float*>address(q), <const float*>address(k), <const float*>address(v), <const float*>masks,
                <float*>address(out), <float*>address(logsumexp))
    else:
        forward(&s, <const double*>address(q), <const double*>address(k), <const double*>address(v), <const double*>masks,
                <double*>address(out), <double*>address(logsumexp))
    return out, logsumexp


def attention_grad(TensorBase g not None, TensorBase q not None, TensorBase k not None, TensorBase v not None, TensorBase mask,
                   TensorBase out not None, TensorBase logsumexp not None, *, bint causal, double scale):
    """Gradients of attention with respect to q, k and v."""
    cdef int code = float_code("attention_grad", g)
    g, q, k, v, out, logsumexp = in_lines(g), in_lines(q), in_lines(k), in_lines(v), packed(out), packed(logsumexp)
    cdef Sizes s = sizes_of(q, k, v, g, mask, causal, scale)
    cdef TensorBase dq = empty_host(q.shape, g.dtype), dk = empty_host(k.shape, g.dtype), dv = empty_host(v.shape, g.dtype)
    for t in (q, k, v, mask, out, logsumexp):
        same_type("attention_grad", g, t)
    cdef void* masks = address(mask) if mask is not None else NULL
    if code == FLOAT32:
        backward(&s, <const float*>address(g), <const float*>address(q), <const float*>address(k), <const float*>address(v),
                 <const float*>masks, <const float*>address(out), <const float*>address(logsumexp), <float*>address(dq),
                 <float*>address(dk), <float*>address(dv))
    else:
        backward(&s, <const double*>address(g), <const double*>address(q), <const double*>address(k), <const double*>address(v),
                 <const double*>masks, <const double*>address(out), <const double*>address(logsumexp), <double*>address(dq),
                 <double*>address(dk), <double*>address(dv))
    return dq, dk, dv


KERNELS = {"attention": attention, "attention_grad": attention_grad}
