# Lines of bytes and of booleans in order: how many there are of each says where they go, so that no keys are made.
#
# Layout: see sort.pyx. Threads: the caller's, over lines.
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

cdef struct Lines:
    Py_ssize_t outer, length, inner, count      # count: of each line, how many are given
    bint descending
    int bits, threads, workers                  # workers: threads that have lines of their own
    Py_ssize_t needed                           # bytes of memory of each


cdef inline void sort_flags(const Lines* p, const uint8_t* x, uint8_t* values, int64_t* indices, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Lines first .. last of booleans, which may have other bits than the lowest: those that come first are counted, which says where
    each goes."""
    cdef Py_ssize_t line, at, i, before, after, place, inner = p.inner
    cdef const uint8_t* source
    cdef uint8_t late
    for line in range(first, last):
        source = x + line // inner * p.length * inner + line % inner
        at = line // inner * p.count * inner + line % inner
        before, after = 0, p.length             # where the next ones of both kinds go
        for i in range(p.length):
            after -= (source[i * inner] != 0) ^ <uint8_t>p.descending
        for i in range(p.count):
            values[at + i * inner] = (i >= after) ^ <uint8_t>p.descending
        for i in range(p.length):
            late = (source[i * inner] != 0) ^ <uint8_t>p.descending
            place = after if late else before
            if place < p.count:
                indices[at + place * inner] = i
            after += late
            before += 1 - late


cdef inline void sort_bytes(const Lines* p, const uint8_t* x, uint8_t* values, int64_t* indices, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Lines first .. last of bytes: how many there are of each says where they go."""
    cdef Py_ssize_t starts[257]
    cdef Py_ssize_t line, at, i, inner = p.inner
    cdef const uint8_t* source
    cdef uint8_t turned = 255 if p.descending else 0
    cdef int d
    for line in range(first, last):
        source = x + line // inner * p.length * inner + line % inner
        at = line // inner * p.count * inner + line % inner
        memset(starts, 0, sizeof(starts))
        for i in range(p.length):
            starts[<int>(source[i * inner] ^ turned) + 1] += 1
        for d in range(256):
            starts[d + 1] += starts[d]
            for i in range(min(starts[d], p.count), min(starts[d + 1], p.count)):
                values[at + i * inner] = <uint8_t>d ^ turned
        for i in range(p.length):
            d = source[i * inner] ^ turned
            if starts[d] < p.count:
                indices[at + starts[d] * inner] = i
            starts[d] += 1
