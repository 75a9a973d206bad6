# Sorting one line of keys with their places: of words, no two of which are equal, by counting what is less than each and by merging; by
# the digits of the keys.
#
# Threads: none. Sizes: the caller's.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy, memset

from volta._kernels.cpu.bits cimport WIDE_BYTES         # in the C below

cdef enum:
    SEEN = 64                   # of many words are looked at to see whether they are even,
    EVEN = 12                   # which they are if no more than this share their highest four bits

cdef struct Wide:               # keys of 64 bits; those of 32 are the upper half of a word, and the place its lower
    uint64_t key
    uint64_t place

ctypedef fused item:
    uint64_t
    Wide


cdef extern from *:
    """
    enum { VOLTA_RANKED = 64,                       /* words up to which all are compared with all, */
           VOLTA_FEW_RANKED = 6 };                  /* and without vectors */
    /* out = the n words of a, no two of which are equal, in order: each at the place that the number of lesser ones names. Those of equal
       keys, the upper halves, are in order already, so that vectors need compare no more than keys. */
    static void volta_rank_sort(const uint64_t* a, uint64_t* out, Py_ssize_t n) {
        Py_ssize_t i, j, k;
        if (n <= VOLTA_FEW_RANKED) {                /* each pair once */
            int32_t rank[VOLTA_FEW_RANKED];
            for (i = 0; i < n; i++) {
                rank[i] = (int32_t)i;
                for (j = 0; j < i; j++) {
                    const int32_t greater = a[j] > a[i];
                    rank[j] += greater;
                    rank[i] -= greater;
                }
            }
            for (i = 0; i < n; i++) out[rank[i]] = a[i];
            return;
        }
    #if defined(__GNUC__) || defined(__clang__)
        enum { LANES = VOLTA_WIDE / 4 };
        typedef int32_t V __attribute__((vector_size(VOLTA_WIDE), may_alias));
        union { V vectors[VOLTA_RANKED / LANES + 2]; int32_t keys[VOLTA_RANKED + 2 * LANES]; } x, place;
        V lane[2];
        for (k = 0; k < 2 * LANES; k++) lane[k / LANES][k % LANES] = (int32_t)k;
        for (i = 0; i < n; i++) x.keys[i] = (int32_t)((uint32_t)(a[i] >> 32) ^ 0x80000000u);
        for (; i < n + 2 * LANES; i++) x.keys[i] = 0;
        for (i = 0; i < n; i += 2 * LANES) {
            const V* v = x.vectors + i / LANES;
            const Py_ssize_t last = i + 2 * LANES < n ? i + 2 * LANES : n;
            V r[2] = {{0}};
            for (j = 0; j < i; j++)                 /* before it: those that are not greater */
                for (k = 0; k < 2; k++) r[k] += (V)(x.keys[j] > v[k]);
            for (k = 0; k < 2; k++) r[k] += (int32_t)i;
            for (; j < last; j++)
                for (k = 0; k < 2; k++) r[k] -= (V)(v[k] > x.keys[j]) | ((V)(v[k] == x.keys[j]) & (V)(lane[k] > (int32_t)(j - i)));
            for (; j < n; j++)
                for (k = 0; k < 2; k++) r[k] -= (V)(v[k] > x.keys[j]);
            for (k = 0; k < 2; k++) place.vectors[i / LANES + k] = r[k];
        }
        for (i = 0; i < n; i++) out[place.keys[i]] = a[i];
    #else
        for (i = 0; i < n; i++) {
            Py_ssize_t rank = 0;
            for (j = 0; j < n; j++) rank += a[j] < a[i];
            out[rank] = a[i];
        }
    #endif
    }
    """
    enum:
        RANKED "VOLTA_RANKED"
    void rank_sort "volta_rank_sort"(const uint64_t* a, uint64_t* out, Py_ssize_t n) noexcept nogil


cdef inline void merge_halves(const uint64_t* a, uint64_t* out, Py_ssize_t n) noexcept nogil:
    """Two sorted halves, the second of which may have one more, from both ends at once."""
    cdef Py_ssize_t h = n // 2, i = 0, j = h, left = h - 1, right = n - 1, k
    cdef bint second
    for k in range(h):
        second = a[j] < a[i]
        out[k] = a[j] if second else a[i]
        j += second
        i += 1 - second
        second = a[left] < a[right]
        out[n - 1 - k] = a[right] if second else a[left]
        right -= second
        left -= 1 - second
    if n & 1:
        out[h] = a[i] if i <= left else a[j]


cdef inline void sort_words(uint64_t* a, uint64_t* spare, Py_ssize_t n, bint here) noexcept nogil:
    """n words, no two of which are equal, in order: in a if `here`, else in spare."""
    if n <= RANKED:
        rank_sort(a, spare, n)
        if here:
            memcpy(a, spare, n * sizeof(uint64_t))
        return
    sort_words(a, spare, n // 2, not here)
    sort_words(a + n // 2, spare + n // 2, n - n // 2, not here)
    merge_halves(spare if here else a, a if here else spare, n)


cdef inline uint64_t bits_of(item v, int shift) noexcept nogil:
    """The bits of the key from this one up."""
    if item is uint64_t:
        return v >> (shift + 32)
    else:
        return v.key >> shift


cdef inline uint64_t digit(item v, int shift) noexcept nogil:
    return bits_of(v, shift) & 255


cdef inline bint after(item a, item b) noexcept nogil:
    if item is uint64_t:
        return a > b
    else:
        return a.key > b.key


cdef inline void insert(item* a, Py_ssize_t n, item v) noexcept nogil:
    """v into its place among n sorted items, behind equal ones."""
    while n > 0 and after(a[n - 1], v):
        a[n] = a[n - 1]
        n -= 1
    a[n] = v


cdef inline void insertion(item* a, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(1, n):
        insert(a, i, a[i])


cdef inline void sort_digits(item* a, item* spare, Py_ssize_t n, int bits, int width) noexcept nogil:
    """Sorts a in place, `width` bits at a time from the lowest up; all digits are counted in one pass."""
    cdef uint32_t counts[3 << 11]               # three digits of 11 bits, or eight of 8
    cdef uint32_t* starts = &counts[0]
    cdef uint32_t total, count, most
    cdef item* source = a
    cdef item* target = spare
    cdef uint64_t d, mask = ((<uint64_t>1) << width) - 1
    cdef int digits = (bits + width - 1) // width, k
    cdef Py_ssize_t i
    memset(starts, 0, (<size_t>digits << width) * sizeof(uint32_t))
    for i in range(n):
        for k in range(digits):
            starts[(<uint64_t>k << width) + (bits_of(a[i], k * width) & mask)] += 1
    for k in range(digits):
        total = most = 0
        for i in range(1 << width):
            count = starts[i]
            starts[i] = total
            total += count
            most = max(most, count)
        if most < n:
            for i in range(n):
                d = bits_of(source[i], k * width) & mask
                target[starts[d]] = source[i]
                starts[d] += 1
            source, target = target, source
        starts += 1 << width
    if source != a:
        memcpy(a, source, n * sizeof(item))


cdef inline bint spread_evenly(const uint64_t* a, Py_ssize_t n, int bits) noexcept nogil:
    """Whether the highest of the lowest `bits` bits of some of many keys are as even as those of random numbers."""
    cdef int counts[16]
    cdef int i, most = 0
    memset(counts, 0, sizeof(counts))
    for i in range(SEEN):
        counts[a[i * (n // SEEN)] >> (28 + bits) & 15] += 1
    for i in range(16):
        most = max(most, counts[i])
    return most <= EVEN


cdef inline void sort_even(uint64_t* a, uint64_t* spare, Py_ssize_t n, int bits) noexcept nogil:
    """Sorts words with such keys: parts of about 16 to 32 by these bits, each in order by comparing. Uses spare."""
    cdef uint32_t starts[2049]
    cdef int width = 2, shift
    cdef uint32_t mask
    cdef Py_ssize_t i, first = 0
    while width < 11 and n >> width >= 16:
        width += 1
    shift, mask = 32 + bits - width, (1 << width) - 1
    memset(starts, 0, ((1 << width) + 1) * sizeof(uint32_t))
    for i in range(n):
        starts[(a[i] >> shift & mask) + 1] += 1
    for i in range(1, 1 << width):
        starts[i + 1] += starts[i]
    for i in range(n):
        spare[starts[a[i] >> shift & mask]] = a[i]
        starts[a[i] >> shift & mask] += 1
    for i in range(1 << width):                 # where each starts is now where it ends
        sort_words(spare + first, a + first, <Py_ssize_t>starts[i] - first, False)
        first = starts[i]
