# Sorting a short line of words, no two of which are equal: by counting what is less than each, and by merging.
#
# Threads: none. Sizes: the caller's; 32 words behind the last may be read.
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef enum:
    RANKED = 64                 # words up to which all are compared with all

cdef extern from *:
    """
    /* out = the n words of a, no two of which are equal, in order: each at the place that the number of lesser ones names. Reads up to
       32 words. */
    static void volta_rank_sort(const uint64_t* a, uint64_t* out, Py_ssize_t n) {
        Py_ssize_t i, j, k;
        for (i = 0; i < n; i += 32) {
    #if defined(__GNUC__) || defined(__clang__)
            typedef uint64_t V __attribute__((vector_size(64), aligned(8), may_alias));
            V x[4], r[4] = {{0}};
            for (k = 0; k < 4; k++) x[k] = *(const V*)(a + i + 8 * k);
            for (j = 0; j < n; j++)
                for (k = 0; k < 4; k++) r[k] -= (V)(x[k] > a[j]);
            for (k = 0; k < 32 && i + k < n; k++) out[((const uint64_t*)r)[k]] = a[i + k];
    #else
            for (k = i; k < n && k < i + 32; k++) {
                Py_ssize_t rank = 0;
                for (j = 0; j < n; j++) rank += a[j] < a[k];
                out[rank] = a[k];
            }
    #endif
        }
    }
    """
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
