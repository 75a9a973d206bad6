# Attention by tiles (FlashAttention): out = softmax(scale * q @ k.T + mask) @ v for every head, and its gradients, without the
# matrix of scores.
#
# Layout: q[B, H, L, E], k[B, G, S, E], v[B, G, S, V] with any strides but that of the last dimension, which is 1; query head h reads
#   head h * G / H of k and v; mask[B or 1, H or 1, L or 1, S or 1], any strides. What a block needs is copied beside one another; only
#   the right factor of the scores is turned. The forward pass holds scores as [key][query], so that a row's maximum and sum run along
#   vectors, and the backward pass, as the forward one of few queries, as [query][key]. Scores are in units of log 2, for a short
#   exponential.
# Threads: forward over heads and blocks of queries, which change no result; backward over heads and, where these are few, parts of
#   the keys, whose gradients of q are added in order: these depend on the sizes alone.
# Stats[B, H, L, 2]: of each query's scores the greatest, and one over the sum of their powers against it. As a logsumexp they would be one
#   number in which a rounding is one of all probabilities: the larger the scores, the less exact. Both passes make the same scores,
#   bit by bit, of queries that are scaled.
# Sizes: the front end. A query that may see no key gives zeros, and stats (+inf, 0).
# Source: Dao 2023, "FlashAttention-2", algorithms 1 and 2.

from cython.parallel cimport prange, threadid
from libc.math cimport INFINITY
from libc.string cimport memset

from volta._kernels.core.base cimport FLOAT32, Storage, TensorBase, address, empty_host, host_storage, make_tensor
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, same_type
from volta._kernels.cpu.attention_rows cimport (
    UNIT, add_parts, add_rows, copy_rows, differentiate, forget, hide_future, lined, row_powers, scaled_rows, turn_panel)
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.dealing cimport Ranges, deal, take
from volta._kernels.cpu.gemm cimport few_rows
from volta._kernels.cpu.powers cimport soften
from volta._kernels.cpu.product cimport product, up
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.sums cimport line_dot
from volta._kernels.cpu.tile cimport TILE_ROWS, lanes

cdef enum:
    PANELS = 4                  # most panels of queries, of three vectors each, that share a copied block of keys
    KEYS = 128                  # keys of a block, forward,
    MORE = 32                   # and how many more the only one, or blocks of equal size, may have
    FEW = 4                     # queries up to which rows of keys and values are multiplied as they lie
    QUERIES = 64                # queries of a block, backward
    GROUP = 512                 # columns of k in all panels of a group, backward: what belongs to them stays in the second cache
    PARTS = 16                  # pieces of work below which backward splits the keys
    PAD = 64
    WIDEST = 48                 # three vectors of the widest kind


# Strides in elements: of a batch, of a line of the sequence, of a head; of the mask by dimension.
cdef struct Sizes:
    Py_ssize_t batch, queries, heads, keys, groups, width, values
    Py_ssize_t q[3]
    Py_ssize_t k[3]
    Py_ssize_t v[3]
    Py_ssize_t g[3]
    Py_ssize_t out[3]
    Py_ssize_t mask[4]
    bint causal
    double scale


cdef void add_mask(const real* mask, Py_ssize_t row, Py_ssize_t column, Py_ssize_t n, Py_ssize_t m, real* scores,
                   Py_ssize_t width) noexcept nogil:
    """scores[n][m], in rows of `width`, += mask, whose strides are `row` and `column`."""
    cdef Py_ssize_t i, j
    cdef real value
    cdef real* line
    for i in range(n):
        line = scores + i * width
        if column == 0:
            value = mask[i * row] * <real>UNIT
            for j in range(m):
                line[j] += value
        elif column == 1:
            for j in range(m):
                line[j] += mask[i * row + j] * <real>UNIT
        else:
            for j in range(m):
                line[j] += mask[i * row + j * column] * <real>UNIT


# ---------------------------------------------------------------- forward

cdef Py_ssize_t forward_space(const Sizes* s, real* kind) noexcept nogil:
    """Elements of work space of a thread."""
    cdef Py_ssize_t wide = 3 * lanes(kind), width = up(s.width, lanes(kind)), values = up(s.values, lanes(kind))
    return PANELS * wide * (s.width + 2 + values) + (KEYS + MORE) * (width + values + 2 * wide) + 8 * PAD


cdef void finish(const Sizes* s, Py_ssize_t n, const real* sums, const real* top, const real* total, real* out,
                 real* stats, Py_ssize_t values) noexcept nogil:
    """Write the rows of out and of stats from sums[n][values]."""
    cdef Py_ssize_t step = s.out[1], count = s.values, j, e
    cdef real factor
    cdef const real* line
    cdef real* to
    for j in range(n):
        factor = 1 / total[j] if total[j] != 0 else 0
        line, to = sums + j * values, out + j * step
        for e in range(count):
            to[e] = line[e] * factor
        stats[2 * j] = top[j] if total[j] != 0 else <real>INFINITY
        stats[2 * j + 1] = factor


cdef void take_queries(const Sizes* s, Py_ssize_t n, const real* q, real* queries, real* top, real* total) noexcept nogil:
    """Turn n queries into panels, of which nothing is known yet."""
    cdef Py_ssize_t wide = 3 * lanes(top), panel, at
    for panel in range((n + wide - 1) // wide):
        at = panel * wide
        turn_panel(q + at * s.q[1], s.q[1], min(wide, n - at), s.width, wide, s.scale * UNIT, queries + at * s.width)
        forget(wide, top + at, total + at)


cdef void forward_block(const Sizes* s, Py_ssize_t item, Py_ssize_t blocks, const real* q, const real* k, const real* v, const real* mask,
                        real* out, real* stats, real* space) noexcept nogil:
    """One block of queries of one head."""
    cdef Py_ssize_t wide = 3 * lanes(out), all = (s.queries + wide - 1) // wide
    cdef Py_ssize_t width = up(s.width, lanes(out)), values = up(s.values, lanes(out))
    cdef Py_ssize_t b = item // blocks // s.heads, h = item // blocks % s.heads, place = blocks - 1 - item % blocks
    cdef Py_ssize_t first = all * place // blocks * wide, panels = all * (place + 1) // blocks - all * place // blocks
    cdef Py_ssize_t n = min(panels * wide, s.queries - first), key, count, panel, at, i
    cdef Py_ssize_t seen = min(s.keys, first + n) if s.causal else s.keys
    cdef const real* key_lines
    cdef const real* value_lines
    cdef real* queries = space
    cdef real* sums = queries + PANELS * wide * s.width + PAD
    cdef real* key_rows = sums + PANELS * wide * values + PAD
    cdef real* value_rows = key_rows + (KEYS + MORE) * width + PAD
    cdef real* top = value_rows + (KEYS + MORE) * values + PAD
    cdef real* total = top + PANELS * wide
    cdef real* scores = total + PANELS * wide
    q += b * s.q[0] + first * s.q[1] + h * s.q[2]
    k += b * s.k[0] + h * s.groups // s.heads * s.k[2]
    v += b * s.v[0] + h * s.groups // s.heads * s.v[2]
    if mask != NULL:
        mask += b * s.mask[0] + h * s.mask[1] + first * s.mask[2]
    cdef bint few = s.queries <= FEW
    if few:
        scaled_rows(q, s.q[1], n, s.width, width, s.scale * UNIT, queries)
        forget(n, top, total)
    else:
        take_queries(s, n, q, queries, top, total)
    memset(sums, 0, panels * wide * values * sizeof(real))
    # Where blocks of keys end follows from the number of keys alone: no sum may depend on how queries are shared out among threads.
    cdef Py_ssize_t rounds = max(<Py_ssize_t>1, (s.keys - MORE + KEYS - 1) // KEYS), tiles = (s.keys + TILE_ROWS - 1) // TILE_ROWS
    for i in range(rounds):
        key = tiles * i // rounds * TILE_ROWS
        count = min(seen, tiles * (i + 1) // rounds * TILE_ROWS) - key
        if count <= 0:
            break
        if few:
            attend_rows(s, n, key, count, <const real*>queries, k + key * s.k[1], v + key * s.v[1],
                        mask + key * s.mask[3] if mask != NULL else <const real*>NULL, sums, top, total, scores, key_rows)
            continue
        key_lines = lined(k + key * s.k[1], s.k[1], count, s.width, width, key_rows)
        value_lines = lined(v + key * s.v[1], s.v[1], count, s.values, values, value_rows)
        for panel in range(panels):
            at = panel * wide
            attend(s, first + at, min(wide, n - at), key, count, <const real*>queries + at * s.width, key_lines,
                   value_lines, mask + at * s.mask[2] + key * s.mask[3] if mask != NULL else <const real*>NULL,
                   sums + at * values, top + at, total + at, scores)
    for panel in range(panels):
        at = panel * wide
        finish(s, min(wide, n - at), <const real*>sums + at * values, <const real*>top + at, <const real*>total + at,
               out + b * s.out[0] + (first + at) * s.out[1] + h * s.out[2],
               stats + 2 * ((b * s.heads + h) * s.queries + first + at), values)


cdef void attend(const Sizes* s, Py_ssize_t query, Py_ssize_t count, Py_ssize_t key, Py_ssize_t keys, const real* queries,
                 const real* key_rows, const real* value_rows, const real* mask, real* sums, real* top, real* total,
                 real* scores) noexcept nogil:
    """One panel of `count` queries, from number `query` on, with one block of keys."""
    cdef Py_ssize_t lane = lanes(sums), wide = 3 * lane, used = up(count, lane), width = up(s.width, lane), values = up(s.values, lane)
    cdef Py_ssize_t n = min(keys, query + wide - key) if s.causal else keys, j, e
    cdef real[WIDEST] factor
    if n <= 0:
        return
    product(n, used, s.width, key_rows, width, 1, queries, wide, scores, wide, False)
    if mask != NULL and s.mask[3] == 1 != s.mask[2] and s.mask[2] != 0:         # lies the other way round
        turn_panel(mask, s.mask[2], count, n, wide, 1, scores + (KEYS + MORE) * wide)
        add_mask(<const real*>scores + (KEYS + MORE) * wide, wide, 1, n, count, scores, wide)
    elif mask != NULL:
        add_mask(mask, s.mask[3], s.mask[2], n, count, scores, wide)
    if s.causal:
        hide_future(query, key, n, wide, scores)
    soften(used // lane, n, wide, scores, top, total, factor)
    if key > 0:
        for j in range(count):
            if factor[j] != 1:
                for e in range(values):
                    sums[j * values + e] *= factor[j]
    product(count, values, n, <const real*>scores, 1, wide, value_rows, values, sums, values, True)


cdef void attend_rows(const Sizes* s, Py_ssize_t n, Py_ssize_t key, Py_ssize_t keys, const real* queries, const real* k, const real* v,
                      const real* mask, real* sums, real* top, real* total, real* scores, real* found) noexcept nogil:
    """A few queries, which would leave a panel empty, with one block of keys. IN: found, room for n rows of values."""
    cdef Py_ssize_t lane = lanes(sums), values = up(s.values, lane), used = up(keys, lane), j, e
    cdef real factor
    cdef real* line
    few_rows(n, keys, s.width, queries, up(s.width, lane), k, 1, s.k[1], scores, KEYS + MORE)
    if mask != NULL:
        add_mask(mask, s.mask[2], s.mask[3], n, keys, scores, KEYS + MORE)
    for j in range(n):
        line = scores + j * (KEYS + MORE)
        for e in range(max(<Py_ssize_t>0, min(keys, j + 1 - key)) if s.causal else keys, used):
            line[e] = -INFINITY
    for j in range(n):
        factor = row_powers(used // lane, scores + j * (KEYS + MORE), top + j, total + j)
        for e in range(s.values):
            sums[j * values + e] *= factor
    few_rows(n, s.values, keys, <const real*>scores, KEYS + MORE, v, s.v[1], 1, found, values)
    add_rows(n, s.values, 1, <const real*>found, values, sums, values)


cdef void forward(const Sizes* s, const real* q, const real* k, const real* v, const real* mask, real* out, real* stats):
    cdef Ranges ranges
    cdef int t
    cdef Py_ssize_t wide = 3 * lanes(out), panels = (s.queries + wide - 1) // wide, heads = s.batch * s.heads, own = forward_space(s, out)
    cdef int threads = work_threads(s, 1)
    cdef Py_ssize_t share = max(<Py_ssize_t>1, min(<Py_ssize_t>PANELS, heads * panels // (4 * threads)))
    cdef Py_ssize_t blocks = (panels + share - 1) // share, item
    cdef Storage storage = host_storage(threads * own * sizeof(real))
    cdef real* space = <real*>storage.data
    with nogil:
        deal(&ranges, heads * blocks, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                forward_block(s, item, blocks, q, k, v, mask, out, stats, space + threadid() * own)
                item = take(&ranges, t)


cdef int work_threads(const Sizes* s, Py_ssize_t passes) noexcept nogil:
    return threads_for(s.batch * s.heads * s.queries * s.keys // 16 * (s.width + s.values) * passes)


# ---------------------------------------------------------------- backward

# Where a thread of the backward pass keeps what it works with. Panels: of a group of keys; rows: copied, in whole vectors.
cdef struct Desk:
    Py_ssize_t wide, width, values, most        # of a panel: keys; of rows: columns; panels of a group
    void* key_rows                              # [most * wide][width]
    void* key_panels                            # [most][E][wide]
    void* value_panels                          # [most][V][wide]
    void* dk                                    # [most * wide][width]
    void* dv                                    # [most * wide][values]
    void* q                                     # [QUERIES][width], scaled
    void* g                                     # [QUERIES][values]
    void* scores                                # [QUERIES][wide]
    void* slopes                                # [QUERIES][most * wide]
    void* dq                                    # [QUERIES][width]


cdef Py_ssize_t lay_out(const Sizes* s, Desk* d, real* space) noexcept nogil:
    """Fill in the desk, which begins at `space`; its elements."""
    cdef real* at = space
    d.wide = 3 * lanes(space)
    d.width, d.values = up(s.width, lanes(space)), up(s.values, lanes(space))
    d.most = max(<Py_ssize_t>1, min(<Py_ssize_t>8, GROUP // max(d.width, d.values, <Py_ssize_t>1)))
    d.key_rows, at = at, at + d.most * d.wide * d.width + PAD
    d.key_panels, at = at, at + d.most * d.wide * d.width + PAD
    d.value_panels, at = at, at + d.most * d.wide * d.values + PAD
    d.dk, at = at, at + d.most * d.wide * d.width + PAD
    d.dv, at = at, at + d.most * d.wide * d.values + PAD
    d.q, at = at, at + QUERIES * d.width + PAD
    d.g, at = at, at + QUERIES * d.values + PAD
    d.scores, at = at, at + QUERIES * d.wide + PAD
    d.slopes, at = at, at + QUERIES * d.most * d.wide + PAD
    d.dq, at = at, at + QUERIES * d.width + PAD
    return at - space


cdef Py_ssize_t parts_of(const Sizes* s, Py_ssize_t wide) noexcept nogil:
    """Pieces into which the keys of each head are split."""
    cdef Py_ssize_t pieces = max(<Py_ssize_t>1, s.batch * s.groups)
    return max(<Py_ssize_t>1, min((PARTS + pieces - 1) // pieces, s.keys // (2 * wide)))


cdef void backward_part(const Sizes* s, Py_ssize_t item, Py_ssize_t parts, const real* g, const real* q, const real* k, const real* v,
                        const real* mask, const real* stats, const real* delta, real* dq, real* more, real* dk, real* dv,
                        real* space) noexcept nogil:
    """One part of the keys of one head, in groups of panels, with all queries. IN: more, where the other parts add up gradients of q."""
    cdef Desk d
    cdef Py_ssize_t b = item // parts // s.groups, head = item // parts % s.groups, part = item % parts, ratio = s.heads // s.groups
    cdef Py_ssize_t h, i, key, last, block, line = s.heads * s.width
    lay_out(s, &d, space)
    cdef Py_ssize_t panels = (s.keys + d.wide - 1) // d.wide, rounds = (panels + parts * d.most - 1) // (parts * d.most), place
    cdef real* gradient = (dq if part == 0 else more + (part - 1) * s.batch * s.queries * line) + b * s.queries * line
    k += b * s.k[0] + head * s.k[2]
    v += b * s.v[0] + head * s.v[2]
    for i in range(s.queries):
        memset(gradient + i * line + head * ratio * s.width, 0, ratio * s.width * sizeof(real))
    for i in range(rounds):
        place = i * parts + (part if i % 2 == 0 else parts - 1 - part)
        key = panels * place // (rounds * parts) * d.wide
        last = min(s.keys, panels * (place + 1) // (rounds * parts) * d.wide)
        if key >= last:
            continue
        take_keys(s, &d, last - key, k + key * s.k[1], v + key * s.v[1], space)
        for h in range(head * ratio, (head + 1) * ratio):
            for block in range(key // QUERIES if s.causal else 0, (s.queries + QUERIES - 1) // QUERIES):
                backward_block(s, &d, key, last - key, block * QUERIES, q + b * s.q[0] + h * s.q[2], g + b * s.g[0] + h * s.g[2],
                               mask + b * s.mask[0] + h * s.mask[1] if mask != NULL else <const real*>NULL,
                               stats + 2 * (b * s.heads + h) * s.queries, delta + (b * s.heads + h) * s.queries, gradient + h * s.width)
        give_keys(last - key, s.width, s.groups * s.width, 1 / UNIT, <const real*>d.dk, d.width,
                  dk + ((b * s.keys + key) * s.groups + head) * s.width)
        give_keys(last - key, s.values, s.groups * s.values, 1, <const real*>d.dv, d.values,
                  dv + ((b * s.keys + key) * s.groups + head) * s.values)


cdef void take_keys(const Sizes* s, const Desk* d, Py_ssize_t n, const real* k, const real* v, real* kind) noexcept nogil:
    """Lay a group of n keys on the desk, and no gradients."""
    cdef Py_ssize_t at, panel
    copy_rows(k, s.k[1], n, s.width, d.width, <real*>d.key_rows)
    for panel in range((n + d.wide - 1) // d.wide):
        at = panel * d.wide
        turn_panel(k + at * s.k[1], s.k[1], min(d.wide, n - at), s.width, d.wide, 1, <real*>d.key_panels + at * d.width)
        turn_panel(v + at * s.v[1], s.v[1], min(d.wide, n - at), s.values, d.wide, 1, <real*>d.value_panels + at * d.values)
    memset(d.dk, 0, d.most * d.wide * d.width * sizeof(real))
    memset(d.dv, 0, d.most * d.wide * d.values * sizeof(real))


cdef void give_keys(Py_ssize_t n, Py_ssize_t width, Py_ssize_t stride, double factor, const real* sums, Py_ssize_t full,
                    real* out) noexcept nogil:
    """Write the gradients of a group of n keys, times factor, to rows `stride` apart."""
    cdef Py_ssize_t i, e
    for i in range(n):
        for e in range(width):
            out[i * stride + e] = sums[i * full + e] * <real>factor


cdef void backward_block(const Sizes* s, const Desk* d, Py_ssize_t key, Py_ssize_t keys, Py_ssize_t query, const real* q, const real* g,
                         const real* mask, const real* stats, const real* delta, real* dq) noexcept nogil:
    """One block of queries of one head with the keys on the desk, the first of which is number `key`."""
    cdef Py_ssize_t n = min(QUERIES, s.queries - query), line = d.most * d.wide, panel, at, count, used, start, i
    cdef const real* queries = scaled_rows(q + query * s.q[1], s.q[1], n, s.width, d.width, s.scale * UNIT, <real*>d.q)
    cdef const real* gradients = lined(g + query * s.g[1], s.g[1], n, s.values, d.values, <real*>d.g)
    cdef real* scores = <real*>d.scores
    cdef real* products
    cdef real* sums = <real*>d.dq
    for panel in range((keys + d.wide - 1) // d.wide):
        at = panel * d.wide
        count = min(d.wide, keys - at)
        used = up(count, lanes(scores))
        start = max(<Py_ssize_t>0, key + at - query) // TILE_ROWS * TILE_ROWS if s.causal else 0
        if start >= n:
            break
        products = <real*>d.slopes + start * line + at
        if s.queries <= FEW:
            few_rows(n, count, s.width, queries, d.width, <const real*>d.key_rows + at * d.width, 1, d.width, scores, d.wide)
            for i in range(n):
                memset(scores + i * d.wide + count, 0, (used - count) * sizeof(real))
        else:
            product(n - start, used, s.width, queries + start * d.width, d.width, 1, <const real*>d.key_panels + at * d.width, d.wide,
                    scores, d.wide, False)
        product(n - start, used, s.values, gradients + start * d.values, d.values, 1,
                <const real*>d.value_panels + at * d.values, d.wide, products, line, False)
        if mask != NULL:
            add_mask(mask + (query + start) * s.mask[2] + (key + at) * s.mask[3], s.mask[2], s.mask[3], n - start, count, scores, d.wide)
        differentiate(n - start, used, query + start - key - at if s.causal else used, line, stats + 2 * (query + start),
                      delta + query + start, scores, products)
        product(count, d.values, n - start, <const real*>scores, 1, d.wide, gradients + start * d.values, d.values,
                <real*>d.dv + at * d.values, d.values, True)
        product(count, d.width, n - start, <const real*>products, 1, line, queries + start * d.width, d.width,
                <real*>d.dk + at * d.width, d.width, True)
    start = TILE_ROWS if s.causal else n
    for i in range((n + start - 1) // start):
        at = i * start
        count = min(keys, max(<Py_ssize_t>0, query + at + start - key)) if s.causal else keys
        product(min(start, n - at), d.width, count, <const real*>d.slopes + at * line, line, 1, <const real*>d.key_rows, d.width,
                sums + at * d.width, d.width, False)
    add_rows(n, s.width, s.scale, sums, d.width, dq + query * s.heads * s.width, s.heads * s.width)


cdef void backward(const Sizes* s, const real* g, const real* q, const real* k, const real* v, const real* mask, const real* out,
                   const real* stats, real* dq, real* dk, real* dv):
    cdef Ranges ranges
    cdef int t
    cdef Desk d
    cdef Py_ssize_t parts = parts_of(s, 3 * lanes(dq)), items = s.batch * s.groups * parts, item, own = lay_out(s, &d, dq)
    cdef Py_ssize_t lines = s.batch * s.queries * s.heads, size = lines * s.width
    cdef int threads = work_threads(s, 2)
    threads = threads if threads < items else <int>items
    cdef Storage storage = host_storage((threads * own + (parts - 1) * size + lines) * sizeof(real))
    cdef real* space = <real*>storage.data
    cdef real* more = space + threads * own
    cdef real* delta = more + (parts - 1) * size
    with nogil:
        for item in prange(s.batch * s.heads, num_threads=threads, schedule="static"):
            gather_delta(s, item, g, out, delta)
        deal(&ranges, items, threads)
        for t in prange(threads, num_threads=threads, schedule="static", chunksize=1):
            item = take(&ranges, t)
            while item >= 0:
                backward_part(s, item, parts, g, q, k, v, mask, stats, <const real*>delta, dq, more, dk, dv, space + threadid() * own)
                item = take(&ranges, t)
        if parts > 1:
            for item in prange(s.batch * s.queries, num_threads=threads, schedule="static"):
                add_parts(parts, s.heads * s.width, size, <const real*>more + item * s.heads * s.width, dq + item * s.heads * s.width)


cdef void gather_delta(const Sizes* s, Py_ssize_t item, const real* g, const real* out, real* delta) noexcept nogil:
    """delta[B, H, L] = the sum of g * out of each query, of one head."""
    cdef Py_ssize_t b = item // s.heads, h = item % s.heads, i
    for i in range(s.queries):
        delta[item * s.queries + i] = <real>line_dot(g + b * s.g[0] + i * s.g[1] + h * s.g[2],
                                                     out + b * s.out[0] + i * s.out[1] + h * s.out[2], <real>0, s.values)


# ---------------------------------------------------------------- tensors

cdef TensorBase in_lines(TensorBase t):
    """`t`, or a row-major copy where neighbours along the last dimension do not lie side by side."""
    return t if t.shape[3] == 1 or t._strides[3] == 1 else packed(t)


cdef TensorBase room(TensorBase q, TensorBase v):
    """Room for the result. It lies as the queries do if these lie in lines as wide; else heads lie before the sequence, as in PyTorch."""
    cdef Py_ssize_t step = v.shape[3]
    cdef int[3] order = [0, 1, 2]
    cdef int i, k
    cdef list strides = [0, 0, 0, 1]
    if step == q.shape[3] and q._strides[3] == 1 and 0 not in q._strides:
        for i in range(1, 3):
            for k in range(i, 0, -1):
                if q.shape[order[k]] != 1 and q._strides[order[k]] > q._strides[order[k - 1]] or q.shape[order[k - 1]] == 1:
                    order[k], order[k - 1] = order[k - 1], order[k]
    for i in range(2, -1, -1):
        strides[order[i]] = step
        step *= <Py_ssize_t>q.shape[order[i]]
    return make_tensor(host_storage(step * q.dtype.itemsize), (*q.shape[:3], v.shape[3]), tuple(strides), 0, q.dtype)


cdef TensorBase sequence_first(TensorBase t):
    """Room for a gradient of `t`, in memory as [B, L, H, W]: the heads of a place behind one another, as in the projections around."""
    cdef Py_ssize_t heads = t.shape[1], length = t.shape[2], width = t.shape[3]
    return make_tensor(host_storage(t.size * t.dtype.itemsize), t.shape, (length * heads * width, width, heads * width, 1), 0, t.dtype)


cdef Sizes sizes_of(TensorBase q, TensorBase k, TensorBase v, TensorBase g, TensorBase out, TensorBase mask, bint causal,
                    double scale) except *:
    cdef Sizes s
    cdef int d
    cdef int[3] order = [0, 2, 1]
    s.batch, s.heads, s.queries, s.width = q.shape
    s.groups, s.keys, s.values = v.shape[1:]
    s.causal, s.scale = causal, scale
    for d in range(3):
        s.q[d], s.k[d], s.v[d] = q._strides[order[d]], k._strides[order[d]], v._strides[order[d]]
        s.g[d], s.out[d] = g._strides[order[d]], out._strides[order[d]]
    for d in range(4):
        s.mask[d] = mask._strides[d] if mask is not None and mask.shape[d] != 1 else 0
    return s


def attention(TensorBase q not None, TensorBase k not None, TensorBase v not None, TensorBase mask, *, bint causal, double scale):
    """(out[B, H, L, V], as `room` lays it; stats[B, H, L, 2])"""
    cdef int code = float_code("attention", q)
    cdef TensorBase out = room(q, v)
    q, k, v = in_lines(q), in_lines(k), in_lines(v)
    cdef Sizes s = sizes_of(q, k, v, v, out, mask, causal, scale)
    cdef TensorBase stats = empty_host((s.batch, s.heads, s.queries, 2), q.dtype)
    for t in (k, v, mask):
        same_type("attention", q, t)
    cdef void* masks = address(mask) if mask is not None else NULL
    if code == FLOAT32:
        forward(&s, <const float*>address(q), <const float*>address(k), <const float*>address(v), <const float*>masks,
                <float*>address(out), <float*>address(stats))
    else:
        forward(&s, <const double*>address(q), <const double*>address(k), <const double*>address(v), <const double*>masks,
                <double*>address(out), <double*>address(stats))
    return out, stats


def attention_grad(TensorBase g not None, TensorBase q not None, TensorBase k not None, TensorBase v not None, TensorBase mask,
                   TensorBase out not None, TensorBase stats not None, *, bint causal, double scale):
    """Gradients of attention with respect to q, k and v."""
    cdef int code = float_code("attention_grad", g)
    g, q, k, v, out, stats = in_lines(g), in_lines(q), in_lines(k), in_lines(v), in_lines(out), packed(stats)
    cdef Sizes s = sizes_of(q, k, v, g, out, mask, causal, scale)
    cdef TensorBase dq = sequence_first(q), dk = sequence_first(k), dv = sequence_first(v)
    for t in (q, k, v, mask, out, stats):
        same_type("attention_grad", g, t)
    cdef void* masks = address(mask) if mask is not None else NULL
    if code == FLOAT32:
        backward(&s, <const float*>address(g), <const float*>address(q), <const float*>address(k), <const float*>address(v),
                 <const float*>masks, <const float*>address(out), <const float*>address(stats), <float*>address(dq),
                 <float*>address(dk), <float*>address(dv))
    else:
        backward(&s, <const double*>address(g), <const double*>address(q), <const double*>address(k), <const double*>address(v),
                 <const double*>masks, <const double*>address(out), <const double*>address(stats), <double*>address(dq),
                 <double*>address(dk), <double*>address(dv))
    return dq, dk, dv


KERNELS = {"attention": attention, "attention_grad": attention_grad}
