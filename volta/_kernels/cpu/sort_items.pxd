# One line of keys with their places: keys of elements, and their order by the digits of the keys, by insertion where they are few, by
# comparing where they are words.
#
# An element becomes a key, an unsigned integer in the order of the elements (NaN last, -0 equal to 0, all bits turned for a descending
# order), with its place in the line. Threads: none. Sizes: the caller's.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from volta._kernels.cpu.real cimport number
from volta._kernels.cpu.sort_words cimport (
    Wide, bits_of, insertion, item, sort_digits, sort_even, sort_words, spread_evenly)

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      #define VOLTA_FIRST_BIT(x) __builtin_ctzll(x)
    #else
      static int VOLTA_FIRST_BIT(uint32_t x) { int i = 0; while (!(x >> i & 1)) i++; return i; }
    #endif
    """
    int first_bit "VOLTA_FIRST_BIT"(uint32_t x) noexcept nogil      # x is not 0

cdef enum:
    FEWEST = 2                  # elements up to which a line of words is sorted by insertion
    TINY = 16                   # elements up to which a line of wide keys is sorted by insertion
    RUN = 32                    # elements that are compared at once where only the first few are wanted
    FEW = 64                    # elements from which one digit of narrow ones is looked at
    LONG = 65536                # elements from which threads share a line; one thread parts lines of four times as many
    MOST_THREADS = 64
    MANY = 512                  # elements up to which insertion may do the rest behind one digit,
    CROWD = 8                   # if no more keys than this share it
    LARGE = 8192                # elements from which digits have 11 bits where three do
    NEAR = 4                    # places by which wide keys may be off on average when they are in the order of 32 bits of each


cdef inline item as_item(number v, Py_ssize_t place, bint descending, item kind) noexcept nogil:
    """The key of an element, with its place."""
    cdef uint64_t key = 0
    cdef uint32_t narrow = 0
    cdef item out
    if number is uint8_t:
        narrow = v
    elif number is int32_t:
        narrow = <uint32_t>v ^ <uint32_t>0x80000000
    elif number is float:
        memcpy(&narrow, &v, 4)                  # without branches, which lets vectors do it
        narrow ^= (0 - (narrow >> 31)) | <uint32_t>0x80000000
        narrow = <uint32_t>0x80000000 if v == 0 else narrow
        narrow = <uint32_t>0xFFFFFFFF if v != v else narrow
    elif number is int64_t:
        key = <uint64_t>v ^ (<uint64_t>1 << 63)
    else:
        if v != v:
            key = ~<uint64_t>0
        elif v != 0:
            memcpy(&key, &v, 8)
            key = ~key if key >> 63 else key | (<uint64_t>1 << 63)
        else:
            key = <uint64_t>1 << 63
    if item is uint64_t:
        if number is uint8_t:
            narrow = 255 - narrow if descending else narrow
        elif descending:
            narrow = ~narrow
        out = <uint64_t>narrow << 32 | <uint64_t>place
    else:
        out.key, out.place = ~key if descending else key, place
    return out


cdef inline uint64_t place_of(item v) noexcept nogil:
    if item is uint64_t:
        return v & <uint64_t>0xFFFFFFFF
    else:
        return v.place


cdef inline uint64_t key_of(item v) noexcept nogil:
    if item is uint64_t:
        return v >> 32
    else:
        return v.key


cdef inline uint32_t those_before(const number* x, int n, Py_ssize_t step, bint descending, item border) noexcept nogil:
    """Which of at most 32 keys are lower than that of border, by bits."""
    cdef int j
    cdef uint64_t limit = key_of(border)
    cdef uint32_t found = 0
    for j in range(n):
        found |= <uint32_t>(key_of(as_item(x[j * step], 0, descending, border)) < limit) << j
    return found


cdef inline uint64_t lowest(const uint64_t* x, Py_ssize_t wanted) noexcept nogil:
    """The lowest of RUN numbers of which so many are no higher."""
    cdef uint64_t best = ~<uint64_t>0
    cdef Py_ssize_t i, j, lower
    for j in range(RUN):
        lower = 0
        for i in range(RUN):
            lower += x[i] <= x[j]
        if lower >= wanted:
            best = min(best, x[j])
    return best


cdef inline bint bound_before(const number* x, Py_ssize_t n, Py_ssize_t step, bint descending, Py_ssize_t wanted,
                              item* border) noexcept nogil:
    """Let border be behind at least `wanted` of n elements and few others: behind as many lowest keys of each RUNth element. False where
    there is no such key."""
    cdef uint64_t least[RUN]
    cdef uint64_t key, best
    cdef Py_ssize_t i, j
    memset(least, 255, sizeof(least))
    for i in range(n // RUN):
        for j in range(RUN):
            key = key_of(as_item(x[(i * RUN + j) * step], 0, descending, border[0]))
            least[j] = min(least[j], key)
    best = lowest(least, wanted)
    memset(border, 0, sizeof(border[0]))
    if item is uint64_t:
        border[0] = (best + 1) << 32
        return best < <uint64_t>0xFFFFFFFF
    else:
        border.key = best + 1
        return best < ~<uint64_t>0


cdef inline void count_digits(const item* a, Py_ssize_t n, int shift, int digit, Py_ssize_t* counts) noexcept nogil:
    cdef Py_ssize_t i
    memset(counts, 0, (digit + 1) * sizeof(Py_ssize_t))
    for i in range(n):
        counts[bits_of(a[i], shift) & digit] += 1


cdef inline void move_by_digit(const item* a, item* b, Py_ssize_t n, int shift, int digit, Py_ssize_t* starts) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t d
    for i in range(n):
        d = bits_of(a[i], shift) & digit
        b[starts[d]] = a[i]
        starts[d] += 1


cdef inline Py_ssize_t place_digits(Py_ssize_t* counts, int threads, int digits) noexcept nogil:
    """Counts by thread become where each one's run of a digit starts. Gives how many keys have the most frequent digit."""
    cdef Py_ssize_t total = 0, count, of_digit, most = 0
    cdef int d, t
    for d in range(digits):
        of_digit = total
        for t in range(threads):
            count = counts[t * digits + d]
            counts[t * digits + d] = total
            total += count
        most = max(most, total - of_digit)
    return most


cdef inline bint sort_near(Wide* a, char* spare, Py_ssize_t n) noexcept nogil:
    """Sorts wide keys by the 32 highest bits in which they differ, and the few that these leave out of order by insertion. Whether they
    were few: else a is in another order, equal keys as before."""
    cdef uint64_t* words = <uint64_t*>spare
    cdef uint64_t* keys = words + n             # the memory for the words, when they are in order
    cdef uint64_t least = a[0].key, most = a[0].key, key, place
    cdef Py_ssize_t i, k, left = NEAR * n
    cdef int bits = 0, less
    for i in range(n):
        least, most = min(least, a[i].key), max(most, a[i].key)
    while bits < 64 and (most - least) >> bits:
        bits += 1
    less = max(bits - 32, 0)
    for i in range(n):
        words[i] = (a[i].key - least) >> less << 32 | <uint64_t>i
    sort_items(words, keys, n, min((bits + 7) // 8 * 8, 32))
    for i in range(n):
        k = <uint32_t>words[i]
        keys[i], words[i] = a[k].key, a[k].place
    for i in range(n):
        key, place, k = keys[i], words[i], i
        while k > 0 and a[k - 1].key > key and left > 0:
            a[k] = a[k - 1]
            k -= 1
            left -= 1
        a[k].key, a[k].place = key, place
    return left > 0


cdef inline void sort_items(item* a, item* spare, Py_ssize_t n, int bits) noexcept nogil:
    """Sorts a in place, by the lowest `bits` bits of its keys; the others are equal."""
    cdef Py_ssize_t counts[256]
    cdef bint narrow = item is uint64_t
    if n <= (FEWEST if narrow else TINY) or bits == 0:
        insertion(a, n)
        return
    if item is not uint64_t:
        if n <= LONG and sort_near(a, <char*>spare, n):
            return
    if item is uint64_t:
        if (MANY if bits == 32 else FEW) < n <= LONG and bits >= 11 and spread_evenly(a, n, bits):
            sort_even(a, spare, n, bits)
            return
    if FEW < n <= MANY and narrow and bits < 32:
        count_digits(a, n, bits - 8, 255, counts)
        if place_digits(counts, 1, 256) <= CROWD:
            move_by_digit(a, spare, n, bits - 8, 255, counts)
            insertion(spare, n)
            memcpy(a, spare, n * sizeof(item))
            return
    if item is uint64_t:
        if n <= MANY:
            sort_words(a, spare, n, True)
            return
    if 24 < bits <= 27:                         # widths that the compiler knows
        sort_digits(a, spare, n, bits, 9)
    elif 24 < bits <= 32 and n >= LARGE:
        sort_digits(a, spare, n, bits, 11)
    else:
        sort_digits(a, spare, n, bits, 8)


cdef inline item item_at(item* a, Py_ssize_t n, Py_ssize_t place, int bits) noexcept nogil:
    """The item that has this place in order, equal ones being in theirs: by the highest digits until few are left. Uses a up."""
    cdef Py_ssize_t counts[256]
    cdef Py_ssize_t i, kept, some
    cdef uint64_t border
    while n > TINY and bits > 0:
        bits -= 8
        count_digits(a, n, bits, 255, counts)
        border = 0
        while True:                             # 16 digits at a time, in vectors
            some = 0
            for i in range(16):
                some += counts[border + i]
            if place < some:
                break
            place -= some
            border += 16
        while place >= counts[border]:
            place -= counts[border]
            border += 1
        if counts[border] == n:
            continue
        kept = 0
        for i in range(n):
            a[kept] = a[i]
            kept += (bits_of(a[i], bits) & 255) == border
        n = kept
    if bits > 0:
        insertion(a, n)
    return a[place]
