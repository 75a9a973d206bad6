# Sorting along one dimension, and the writing back of what was sorted.
#
# Layout: x seen as [outer, length, inner], made contiguous. An element becomes a key, an unsigned integer in the order of the elements (NaN
# last, -0 equal to 0, all bits turned for a descending order), with its place in the line. Short lines are sorted by insertion, or, of
# words, by counting what is less than each and merging, several at once by a network where vectors are wide; bytes by how many there are
# of each; others by the digits of the keys: by the highest and then by insertion where few
# keys share it, else from the lowest up; stable. Long lines are first parted by their highest digit, for threads and for the caches. For
# the first few of a line, only the keys that can be among them are sorted.
# Threads: over lines; where they are few, over blocks of a line. A stable order is one order, so results do not depend on their number.
# Sizes and places in range: the front end; places are checked here all the same.

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from volta._kernels.core.base cimport (
    BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.bits cimport WIDE_BYTES
from volta._kernels.cpu.copy cimport clear, packed
from volta._kernels.cpu.index cimport first_outside
from volta._kernels.cpu.network cimport NETWORK, Lanes, network_of_pairs, network_of_words
from volta._kernels.cpu.near_integers cimport narrowed, widened
from volta._kernels.cpu.real cimport number
from volta._kernels.cpu.sort_bytes cimport Lines, sort_bytes, sort_flags
from volta._kernels.cpu.sort_items cimport (
    FEW, LONG, MANY, MOST_THREADS, RUN, as_item, bound_before, count_digits, first_bit, move_by_digit, place_digits, place_of, sort_items,
    those_before)
from volta._kernels.cpu.sort_words cimport SEEN, Wide, after, bits_of, digit, insert, item, spread_evenly

from volta.errors import ArgumentError, IndexRangeError

cdef enum:
    LOOKED = 512                # of a long line, so many are looked at for a bound of these
    SHARED = 16384              # random integers from which threads share a line,
    EVEN_LONG = 524288          # up to which it is sorted as a whole,
    ABREAST = 128               # elements of a line up to which several are sorted at once
    EVEN_THREADS = 4            # if there are no more of them, for whose counts there is room

ctypedef fused word:
    int8_t
    int32_t
    int64_t


# ---------------------------------------------------------------- keys

cdef inline number element(const number* x, Py_ssize_t inner, item v, bint descending) noexcept nogil:
    """The element of an item: an integer's from the key, others, which have two zeros and many NaN, from its line."""
    if number is int32_t and item is uint64_t:
        return <int32_t>(<uint32_t>((~v if descending else v) >> 32) ^ <uint32_t>0x80000000)
    else:
        return x[place_of(v) * inner]


# ---------------------------------------------------------------- one line

cdef void select_items(item* a, item* chosen, Py_ssize_t n, Py_ssize_t wanted, int bits) noexcept nogil:
    """The `wanted` items of a with the lowest keys, the first of equal ones, into chosen, equal ones in their order. Uses a up."""
    cdef Py_ssize_t counts[256]
    cdef Py_ssize_t i, below, kept, taken = 0
    cdef uint64_t border, d
    cdef int shift = bits - 8
    while shift >= 0 and n > wanted:
        count_digits(a, n, shift, 255, counts)
        below, border = 0, 0
        while below + counts[border] < wanted:
            below += counts[border]
            border += 1
        kept = 0
        for i in range(n):
            d = digit(a[i], shift)
            if d < border:
                chosen[taken] = a[i]
                taken += 1
            elif d == border:
                a[kept] = a[i]
                kept += 1
        wanted -= below
        n = kept
        shift -= 8
    memcpy(chosen + taken, a, wanted * sizeof(item))


# ---------------------------------------------------------------- all lines

cdef void first_items(const Lines* p, const number* x, item* a, item* chosen) noexcept nogil:
    """The first `count` items of a line into chosen. Most elements are only compared with the last of the first ones found so far."""
    cdef Py_ssize_t i = 0, j, start, n = 0, capacity = max(4 * p.count, <Py_ssize_t>96) + RUN
    cdef uint32_t found
    cdef item border, v
    cdef bint every = True
    memset(&border, 255, sizeof(item))
    if number is float or number is double or number is int32_t:        # others are rare, or sorted as the last
        if p.length >= 8 * RUN and 2 < p.count <= RUN // 2:             # fewer are found as fast without
            if p.inner == 1:                    # a step that the compiler knows makes vectors of it
                every = not bound_before(x, min(p.length, <Py_ssize_t>LOOKED), 1, p.descending, p.count, &border)
            elif p.count > 7 and number is not int32_t:
                every = not bound_before(x, min(p.length, <Py_ssize_t>LOOKED), p.inner, p.descending, p.count, &border)
    while i < p.length:
        start, i, found = i, min(i + RUN, p.length), 0xFFFFFFFF
        if every and p.count <= FEW:            # until there are as many as wanted
            i = min(start + p.count - n, i)
        elif not every and p.inner == 1:
            found = those_before(x + start, <int>(i - start), 1, p.descending, border)
        elif not every:
            found = those_before(x + start * p.inner, <int>(i - start), p.inner, p.descending, border)
        while found:
            j = start + first_bit(found)
            found &= found - 1
            if j >= i:
                break
            v = as_item(x[j * p.inner], j, p.descending, border)
            if not every and not after(border, v):
                continue
            if p.count > FEW:
                a[n] = v
                n += 1
                continue
            n = min(n + 1, p.count)
            insert(chosen, n - 1, v)
            if n == p.count:
                every, border = False, chosen[n - 1]
        if i == p.length and n < p.count:       # another thread has changed the line
            i, n, every = 0, 0, True
        if p.count > FEW and n + RUN > capacity:
            select_items(a, chosen, n, p.count, p.bits)
            every, n = False, p.count
            memcpy(a, chosen, n * sizeof(item))
            border = a[0]
            for j in range(1, n):
                if after(a[j], border):
                    border = a[j]
    if p.count > FEW:
        select_items(a, chosen, n, p.count, p.bits)


cdef inline void write_items(const number* x, Py_ssize_t inner, bint descending, number* values, int64_t* indices, const item* a,
                             Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Items of a line in order as its values and indices, from the first to before the last."""
    cdef Py_ssize_t i
    for i in range(first, last):
        indices[i * inner], values[i * inner] = place_of(a[i]), element(x, inner, a[i], descending)


cdef void write_line(const Lines* p, const number* x, number* values, int64_t* indices, const item* a, Py_ssize_t first,
                     Py_ssize_t last) noexcept nogil:
    if p.inner == 1:                            # a step that the compiler knows
        write_items(x, 1, p.descending, values, indices, a, first, last)
    else:
        write_items(x, p.inner, p.descending, values, indices, a, first, last)


cdef inline bint is_even(const Lines* p, const number* x, item kind) noexcept nogil:
    """Whether a long line looks like one of random integers."""
    cdef item[SEEN] some
    cdef int i
    if number is int32_t and item is uint64_t:
        for i in range(SEEN):
            some[i] = as_item(x[p.length // SEEN * i * p.inner], i, p.descending, kind)
        return spread_evenly(some, SEEN, 32)
    else:
        return False


cdef inline void count_steps(const number* x, Py_ssize_t inner, bint descending, Py_ssize_t first, Py_ssize_t last, int shift, int digit,
                             Py_ssize_t* counts, item kind) noexcept nogil:
    cdef Py_ssize_t i
    memset(counts, 0, (digit + 1) * sizeof(Py_ssize_t))
    for i in range(first, last):
        counts[bits_of(as_item(x[i * inner], i, descending, kind), shift) & digit] += 1


cdef void count_elements(const Lines* p, const number* x, Py_ssize_t first, Py_ssize_t last, int shift, int digit, Py_ssize_t* counts,
                         item kind) noexcept nogil:
    if p.inner == 1 and not p.descending:       # which the compiler then knows
        count_steps(x, 1, False, first, last, shift, digit, counts, kind)
    else:
        count_steps(x, p.inner, p.descending, first, last, shift, digit, counts, kind)


cdef inline void part_steps(const number* x, Py_ssize_t inner, bint descending, item* a, Py_ssize_t first, Py_ssize_t last, int shift,
                            int digit, Py_ssize_t* starts) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t d
    cdef item v
    for i in range(first, last):
        v = as_item(x[i * inner], i, descending, a[0])
        d = bits_of(v, shift) & digit
        a[starts[d]] = v
        starts[d] += 1


cdef void part_elements(const Lines* p, const number* x, item* a, Py_ssize_t first, Py_ssize_t last, int shift, int digit,
                        Py_ssize_t* starts) noexcept nogil:
    """Elements become items, at the place that the first digit has for them."""
    if p.inner == 1 and not p.descending:
        part_steps(x, 1, False, a, first, last, shift, digit, starts)
    else:
        part_steps(x, p.inner, p.descending, a, first, last, shift, digit, starts)


cdef void sort_long(const Lines* p, const number* x, number* values, int64_t* indices, item* a, item* spare, int threads) noexcept nogil:
    """sort_line of a long one: it is parted by the highest digit that differs, and the parts are sorted, by several threads."""
    cdef Py_ssize_t counts[256 * MOST_THREADS]
    cdef Py_ssize_t starts[257]
    cdef Py_ssize_t n = p.length, most = n
    # Of integers in 32 bits 5 bits are parted, so that three digits of 9 are left; of floats, which share some, and of what is even 8.
    cdef int shift = p.bits, width = 5 if number is int32_t and not is_even(p, x, a[0]) else 8, t, d
    while most == n and shift > 0:
        shift = max(shift - width, 0)
        for t in prange(threads, num_threads=threads, schedule="static"):
            count_elements(p, x, n * t // threads, n * (t + 1) // threads, shift, (1 << width) - 1, counts + (t << width), a[0])
        most = place_digits(counts, threads, 1 << width)
    memcpy(starts, counts, (1 << width) * sizeof(Py_ssize_t))
    starts[1 << width] = n
    for t in prange(threads, num_threads=threads, schedule="static"):
        part_elements(p, x, a, n * t // threads, n * (t + 1) // threads, shift, (1 << width) - 1, counts + (t << width))
    for d in prange(1 << width, num_threads=threads, schedule="dynamic"):
        sort_items(a + starts[d], spare + starts[d], starts[d + 1] - starts[d], shift)
        write_line(p, x, values, indices, a, starts[d], min(starts[d + 1], p.count))


cdef bint put_right(item* a, Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    """Insertion of the few items that are not in order. Gives False, with the items in any order, where they are not few."""
    cdef Py_ssize_t i, j, moves = 2 * (last - first)
    cdef item v
    for i in range(first + 1, last):
        if after(a[i - 1], a[i]):
            v, j = a[i], i
            while j > first and after(a[j - 1], v):
                a[j] = a[j - 1]
                j -= 1
            a[j] = v
            moves -= i - j
            if moves < 0:
                return False
    return True


cdef bint even_step(const Lines* p, const number* x, item* a, item* spare, int step, int width, Py_ssize_t first, Py_ssize_t last,
                    Py_ssize_t* counts) noexcept nogil:
    """A thread's part of a step of sort_even_line."""
    if step == 0:
        count_elements(p, x, first, last, 32 - 2 * width, (1 << width) - 1, counts, a[0])
    elif step == 1:
        part_elements(p, x, a, first, last, 32 - 2 * width, (1 << width) - 1, counts)
    elif step == 2:
        count_digits(a + first, last - first, 32 - width, (1 << width) - 1, counts)
    elif step == 3:
        move_by_digit(a + first, spare, last - first, 32 - width, (1 << width) - 1, counts)
    else:
        return put_right(spare, first, last)
    return True


cdef void sort_even_line(const Lines* p, const number* x, item* a, item* spare, int threads) noexcept nogil:
    """A line that looks like one of random integers: by two digits, the lower first, which leave few items to put right. OUT: spare"""
    cdef Py_ssize_t counts[EVEN_THREADS << 11]
    cdef Py_ssize_t n = p.length, i
    cdef int width = 8, step, t, fine = 0
    while width < 11 and n >> (width + 4) > 0:
        width += 1
    threads = min(threads, EVEN_THREADS) if n >= SHARED else 1
    for step in range(5):
        if threads == 1:                        # a region of one thread takes half a microsecond too
            fine = even_step(p, x, a, spare, step, width, 0, n, counts)
        else:
            fine = 0
            for t in prange(threads, num_threads=threads, schedule="static"):
                fine += even_step(p, x, a, spare, step, width, n * t // threads, n * (t + 1) // threads, counts + (<Py_ssize_t>t << width))
        if step == 0 or step == 2:
            place_digits(counts, threads, 1 << width)
    for t in range(1, threads):                 # where parts meet
        i = n * t // threads
        while fine == threads and i < n and after(spare[i - 1], spare[i]):
            insert(spare, i, spare[i])
            i += 1
    if fine < threads:                          # many keys share both digits after all
        sort_items(spare, a, n, p.bits)


cdef void sort_line(const Lines* p, const number* x, number* values, int64_t* indices, item* a, item* spare, int threads) noexcept nogil:
    """One line. OUT: values, indices. IN: their first elements; memory for two lines of items."""
    cdef Py_ssize_t i
    cdef bint even = False
    if number is int32_t and item is uint64_t:
        even = MANY < p.length < (EVEN_LONG if threads <= EVEN_THREADS else LONG) and is_even(p, x, a[0])
    if p.count < p.length // 4:
        first_items(p, x, a, spare)
        a, spare = spare, a
        sort_items(a, spare, p.count, p.bits)
    elif even:
        if number is int32_t and item is uint64_t:
            sort_even_line(p, x, a, spare, threads)
            a = spare
    elif p.length >= (4 * LONG if threads == 1 else LONG) and (p.bits > 16 or threads > 1):      # few digits need no parts
        sort_long(p, x, values, indices, a, spare, threads)
        return
    else:
        for i in range(p.length):
            a[i] = as_item(x[i * p.inner], i, p.descending, a[0])
        sort_items(a, spare, p.length, p.bits)
    write_line(p, x, values, indices, a, 0, p.count)


cdef void sort_abreast(const Lines* p, const number* x, number* values, int64_t* indices, Py_ssize_t first, Py_ssize_t last,
                       item v) noexcept nogil:
    """The short lines first .. last: as many at once as a vector has lanes, by a network of comparisons."""
    cdef Lanes keys[ABREAST]
    cdef Lanes places[ABREAST]
    cdef int64_t* key = <int64_t*>&keys[0]
    cdef int64_t* place = <int64_t*>&places[0]
    cdef Py_ssize_t source[8]
    cdef Py_ssize_t lanes = WIDE_BYTES // 8, inner = p.inner, c, i, line, at
    cdef int64_t sign = <int64_t>(<uint64_t>1 << 63)
    while first < last:
        for c in range(lanes):                  # behind the last line that one again
            line = min(first + c, last - 1)
            source[c] = line // inner * p.length * inner + line % inner
        for i in range(p.length):
            for c in range(lanes):
                v = as_item(x[source[c] + i * inner], i, p.descending, v)
                if item is uint64_t:
                    key[i * lanes + c] = <int64_t>v ^ sign
                else:
                    key[i * lanes + c], place[i * lanes + c] = <int64_t>v.key ^ sign, i
        if item is uint64_t:
            network_of_words(keys, p.length)
        else:
            network_of_pairs(keys, places, p.length)
        for c in range(min(lanes, last - first)):
            line = first + c
            at = line // inner * p.count * inner + line % inner
            for i in range(p.count):
                if item is uint64_t:
                    v = <uint64_t>(key[i * lanes + c] ^ sign)
                else:
                    v.key, v.place = <uint64_t>(key[i * lanes + c] ^ sign), <uint64_t>place[i * lanes + c]
                indices[at + i * inner], values[at + i * inner] = place_of(v), element(x + source[c], inner, v, p.descending)
        first += lanes


cdef void sort_some(const Lines* p, const number* x, number* values, int64_t* indices, Py_ssize_t first, Py_ssize_t last, int threads,
                   item* a) noexcept nogil:
    """The lines first .. last. IN: memory for two lines of items."""
    cdef Py_ssize_t line, at, short = FEW
    if item is uint64_t:
        short = ABREAST
    if NETWORK and WIDE_BYTES >= 32 and p.length <= short and last - first >= WIDE_BYTES // 8:
        sort_abreast(p, x, values, indices, first, last, a[0])
        return
    if number is uint8_t:
        if p.length >= MANY and p.count >= p.length // 4:
            sort_bytes(p, x, values, indices, first, last)
            return
    for line in range(first, last):
        at = line // p.inner * p.count * p.inner + line % p.inner
        sort_line(p, x + line // p.inner * p.length * p.inner + line % p.inner, values + at, indices + at, a, a + p.length, threads)


cdef void sort_all(const Lines* p, const number* x, number* values, int64_t* indices, char* memory, item kind) noexcept nogil:
    cdef Py_ssize_t lines = p.outer * p.inner
    cdef int t
    if p.workers == 1:
        sort_some(p, x, values, indices, 0, lines, p.threads, <item*>memory)
        return
    for t in prange(p.workers, num_threads=p.threads, schedule="static"):
        sort_some(p, x, values, indices, lines * t // p.workers, lines * (t + 1) // p.workers, 1, <item*>(memory + t * p.needed))


cdef void sort_all_flags(const Lines* p, const uint8_t* x, uint8_t* values, int64_t* indices) noexcept nogil:
    cdef Py_ssize_t lines = p.outer * p.inner
    cdef int t
    if p.workers == 1:
        sort_flags(p, x, values, indices, 0, lines)
        return
    for t in prange(p.workers, num_threads=p.threads, schedule="static"):
        sort_flags(p, x, values, indices, lines * t // p.workers, lines * (t + 1) // p.workers)


def sort(TensorBase x not None, Py_ssize_t dim, bint descending=False, count=None):
    """(values, indices) in order along dim, the first `count`. Integers of 64 bits that lie close together are sorted as such of 32, which
    share a word with their place, and integers that differ in few bits by these."""
    cdef TensorBase near, found
    cdef int64_t least = 0
    cdef int bits = 0
    if (x.dtype.code == INT64 or x.dtype.code == INT32) and x.size:
        x = packed(x)
        near = empty_host(x.shape, dtype_of(INT32))
        if x.dtype.code == INT64:
            bits = narrowed(<const int64_t*>address(x), x.size, <int32_t*>address(near), &least)
        else:
            bits = narrowed(<const int32_t*>address(x), x.size, <int32_t*>address(near), &least)
    if bits == 0:
        return sorted_lines(x, dim, descending, count, 0)
    near, found = sorted_lines(near, dim, descending, count, bits)
    x = empty_host(near.shape, x.dtype)
    if x.dtype.code == INT32:
        widened(<const int32_t*>address(near), near.size, least, <int32_t*>address(x))
    else:
        widened(<const int32_t*>address(near), near.size, least, <int64_t*>address(x))
    return x, found


cdef tuple sorted_lines(TensorBase x, Py_ssize_t dim, bint descending, object count, int bits):
    cdef Lines p
    cdef Wide wide
    cdef int code = x.dtype.code
    x = packed(x)
    split_at(x.shape, dim, &p.outer, &p.length, &p.inner)
    p.count = p.length if count is None else count
    p.descending = descending
    p.bits = bits or (8 if code == UINT8 or code == BOOL else 64 if code == INT64 or code == FLOAT64 else 32)
    if p.length >= <Py_ssize_t>1 << 32:
        raise ArgumentError(f"sort: a dimension of {p.length} elements is too long; there may be 2**32 - 1")
    if p.count < 0 or p.count > p.length:
        raise ArgumentError(f"sort: there are not {p.count} of {p.length} elements")
    cdef tuple shape = x.shape[:dim] + (p.count,) + x.shape[dim + 1:] if x.shape else ()
    cdef TensorBase values = empty_host(shape, x.dtype), indices = empty_host(shape, dtype_of(INT64))
    cdef const void* source = address(x)
    cdef void* target = address(values)
    cdef int64_t* places = <int64_t*>address(indices)
    cdef Py_ssize_t lines = p.outer * p.inner
    cdef Storage memory
    wide.key = wide.place = 0
    p.threads = min(threads_for(lines * p.length * 8), MOST_THREADS)
    p.workers = 1 if lines < p.threads and p.length >= LONG else min(p.threads, max(lines, <Py_ssize_t>1))
    p.needed = (2 * p.length + 32) * <Py_ssize_t>(sizeof(Wide) if code == INT64 or code == FLOAT64 else sizeof(uint64_t))
    p.needed = (p.needed + 63) // 64 * 64       # threads share no cache line
    if values.size:
        memory = host_storage(p.workers * p.needed)
        with nogil:
            if code == BOOL:
                sort_all_flags(&p, <const uint8_t*>source, <uint8_t*>target, places)
            elif code == UINT8:
                sort_all(&p, <const uint8_t*>source, <uint8_t*>target, places, memory.data, <uint64_t>0)
            elif code == INT32:
                sort_all(&p, <const int32_t*>source, <int32_t*>target, places, memory.data, <uint64_t>0)
            elif code == FLOAT32:
                sort_all(&p, <const float*>source, <float*>target, places, memory.data, <uint64_t>0)
            elif code == INT64:
                sort_all(&p, <const int64_t*>source, <int64_t*>target, places, memory.data, wide)
            else:
                sort_all(&p, <const double*>source, <double*>target, places, memory.data, wide)
    return values, indices


# ---------------------------------------------------------------- undoing it

cdef void scatter_line(const word* g, const int64_t* index, word* out, Py_ssize_t entries, Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(entries):
        out[index[i * inner] * inner] = g[i * inner]


cdef void scatter_all(const word* g, const int64_t* index, word* out, Py_ssize_t outer, Py_ssize_t entries, Py_ssize_t size,
                      Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t line, at, to
    cdef int threads = threads_for(outer * inner * (entries + size))
    for line in prange(outer * inner, num_threads=threads, schedule="static"):
        at = line // inner * entries * inner + line % inner
        to = line // inner * size * inner + line % inner
        scatter_line(g + at, index + at, out + to, entries, inner)


def scatter_unique(TensorBase g not None, TensorBase index not None, Py_ssize_t dim, Py_ssize_t size):
    """Zeros with `size` along dim, and g at the places of index, none of which is named twice in a line."""
    cdef Py_ssize_t outer = 0, entries = 0, inner = 0, i
    g, index = packed(g), packed(index)
    split_at(g.shape, dim, &outer, &entries, &inner)
    cdef TensorBase out = empty_host(g.shape[:dim] + (size,) + g.shape[dim + 1:] if g.shape else (), g.dtype)
    cdef const void* source = address(g)
    cdef const int64_t* places = <const int64_t*>address(index)
    cdef void* target = address(out)
    i = first_outside(places, index.size, size)
    if i >= 0:
        raise IndexRangeError(f"scatter_unique: index {places[i]} is outside [0, {size})")
    cdef Py_ssize_t nbytes = out.size * out.dtype.itemsize
    with nogil:
        clear(<char*>target, nbytes)
        if g.dtype.itemsize == 4:
            scatter_all(<const int32_t*>source, places, <int32_t*>target, outer, entries, size, inner)
        elif g.dtype.itemsize == 8:
            scatter_all(<const int64_t*>source, places, <int64_t*>target, outer, entries, size, inner)
        else:
            scatter_all(<const int8_t*>source, places, <int8_t*>target, outer, entries, size, inner)
    return out


KERNELS = {"sort": sort, "scatter_unique": scatter_unique}
