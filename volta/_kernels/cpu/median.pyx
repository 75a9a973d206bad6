# Medians of lines, and what is at another place in their order.
#
# Layout: x seen as [outer, length, inner], made contiguous; of each line the keys are sorted (sort_items.pxd), the first of equal ones
# first; of a long one the key in the middle is found by its digits, among those between two that some of the line say are around it; many
# short ones are sorted at once (network.pxd). Integers that lie close together are taken as such of 32 bits (near_integers.pxd).
# Threads: over lines. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from volta._kernels.core.base import reshaped
from volta.errors import ArgumentError, DTypeError

from volta._kernels.core.base cimport (
    FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.near_integers cimport narrowed, widened
from volta._kernels.cpu.network cimport NETWORK, short_middles
from volta._kernels.cpu.sort_items cimport MOST_THREADS, as_item, item_at, key_of, place_of, sort_items
from volta._kernels.cpu.sort_words cimport Wide, item

cdef enum:
    FEWEST = 4                  # lines that are worth a network
    PICKED = 64                 # elements of a line from which it is less to find one than to sort all
    SEEN = 512                  # elements of a line that are sorted first, where it has LARGE of them,
    FEW_SEEN = 128              # or so many,
    LARGE = 32768
    SEEN_OF = 512               # and none of less

cdef extern from *:
    """
    #if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__GNUC__)
      #include <immintrin.h>
      #define VOLTA_KEEPS_MANY 1
      /* As keep_between, eight neighbouring elements at a time; writes up to seven items more than it keeps. */
      static Py_ssize_t volta_keep_many(const float *x, Py_ssize_t n, uint32_t low, uint32_t high, uint64_t *a, Py_ssize_t *below) {
          const __m256i least = _mm256_set1_epi32((int)low), most = _mm256_set1_epi32((int)high), sign = _mm256_set1_epi32((int)0x80000000);
          __m512i places = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
          Py_ssize_t i, kept = 0, lower = 0;
          for (i = 0; i < n; i += 8) {
              const __mmask8 some = n - i < 8 ? (__mmask8)((1u << (n - i)) - 1) : 0xff;
              const __m256 v = _mm256_maskz_loadu_ps(some, x + i);
              __m256i key = _mm256_castps_si256(v);
              __mmask8 in;
              key = _mm256_xor_si256(key, _mm256_or_si256(_mm256_srai_epi32(key, 31), sign));
              key = _mm256_mask_mov_epi32(key, _mm256_cmp_ps_mask(v, _mm256_setzero_ps(), _CMP_EQ_OQ), sign);       /* -0 is 0 */
              key = _mm256_mask_mov_epi32(key, _mm256_cmp_ps_mask(v, v, _CMP_UNORD_Q), _mm256_set1_epi32(-1));
              in = _mm256_mask_cmpge_epu32_mask(some, key, least) & _mm256_cmple_epu32_mask(key, most);
              lower += __builtin_popcount(_mm256_mask_cmplt_epu32_mask(some, key, least));
              _mm512_storeu_si512(a + kept, _mm512_maskz_compress_epi64(in,
                  _mm512_or_si512(_mm512_slli_epi64(_mm512_cvtepu32_epi64(key), 32), places)));
              kept += __builtin_popcount(in);
              places = _mm512_add_epi64(places, _mm512_set1_epi64(8));
          }
          *below = lower;
          return kept;
      }
    #else
      #define VOLTA_KEEPS_MANY 0
      static Py_ssize_t volta_keep_many(const float *x, Py_ssize_t n, uint32_t low, uint32_t high, uint64_t *a, Py_ssize_t *below) {
          return 0;
      }
    #endif
    """
    bint KEEPS_MANY "VOLTA_KEEPS_MANY"
    Py_ssize_t keep_many "volta_keep_many"(const float* x, Py_ssize_t n, uint32_t low, uint32_t high, uint64_t* a,
                                           Py_ssize_t* below) noexcept nogil

ctypedef fused element:
    int32_t
    int64_t
    float
    double

cdef struct Lines:
    Py_ssize_t outer, length, inner, needed     # needed: bytes of memory of each thread
    Py_ssize_t wanted                           # a place; below 0, that of the median
    int bits, threads


cdef inline Py_ssize_t numbers_of(const element* x, Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """How many are no NaN."""
    cdef Py_ssize_t i, found = 0
    for i in range(n):
        found += x[i * step] == x[i * step]
    return found


cdef inline Py_ssize_t keep_between(const element* x, Py_ssize_t n, Py_ssize_t step, uint64_t low, uint64_t high, item* a,
                                    Py_ssize_t* below) noexcept nogil:
    """The items whose keys are from low to high into a, and how many these are; OUT: below, how many are lower."""
    cdef Py_ssize_t i, kept = 0, lower = 0
    cdef uint64_t key
    for i in range(n):
        a[kept] = as_item(x[i * step], i, False, a[0])
        key = key_of(a[kept])
        lower += key < low
        kept += (key >= low) & (key <= high)
    below[0] = lower
    return kept


cdef inline item at_place(const Lines* p, const element* x, Py_ssize_t place, item* a) noexcept nogil:
    """The item of a long line that has this place in order. IN: memory for two lines."""
    cdef Py_ssize_t i, n = p.length, kept, below = 0, near
    cdef Py_ssize_t seen = SEEN if n >= LARGE else FEW_SEEN, about = seen // 16 if n >= LARGE else seen // 9
    cdef uint64_t low = 0, high = ~<uint64_t>0
    if n >= SEEN_OF:
        for i in range(seen):
            a[i] = as_item(x[n // seen * i * p.inner], i, False, a[0])
        sort_items(a, a + seen, seen, p.bits)
        near = place * seen // n                # the place is looked for between two of these, some before and after it
        if near >= about:
            low = key_of(a[near - about])
        if near + about < seen:
            high = key_of(a[near + about])
        kept = -1
        if element is float:
            if item is uint64_t:
                if KEEPS_MANY and p.inner == 1:
                    kept = keep_many(x, n, <uint32_t>low, <uint32_t>min(high, <uint64_t>0xffffffff), a, &below)
        if kept < 0 and p.inner == 1:           # a step that the compiler knows
            kept = keep_between(x, n, 1, low, high, a, &below)
        elif kept < 0:
            kept = keep_between(x, n, p.inner, low, high, a, &below)
        if below <= place < below + kept:
            return item_at(a, kept, place - below, p.bits)
    for i in range(n):
        a[i] = as_item(x[i * p.inner], i, False, a[0])
    return item_at(a, n, place, p.bits)


cdef void middle_some(const Lines* p, const element* x, element* values, int64_t* indices, Py_ssize_t first, Py_ssize_t last, bint skip,
                      item* a) noexcept nogil:
    """The medians of the lines first .. last: of the numbers if `skip`, else a NaN where there is one. IN: memory for two lines."""
    cdef Py_ssize_t line, i, place, numbers, n = p.length
    cdef const element* source
    if n <= NETWORK and last - first >= FEWEST:
        if element is not int64_t:
            short_middles(x, n, p.inner, first, last, p.wanted, skip, values, indices)
            return
    for line in range(first, last):
        source = x + line // p.inner * n * p.inner + line % p.inner
        if n >= PICKED:
            place = p.wanted
            if place < 0:
                numbers = numbers_of(source, n, 1) if p.inner == 1 else numbers_of(source, n, p.inner)
                place = max(numbers - 1, 0) // 2 if skip or numbers == n else numbers
            a[0] = at_place(p, source, place, a)
            indices[line], values[line] = place_of(a[0]), source[place_of(a[0]) * p.inner]
            continue
        for i in range(n):
            a[i] = as_item(source[i * p.inner], i, False, a[0])
        sort_items(a, a + n, n, p.bits)
        i = n                               # NaN are the last
        while i > 0 and source[place_of(a[i - 1]) * p.inner] != source[place_of(a[i - 1]) * p.inner]:
            i -= 1
        place = p.wanted if p.wanted >= 0 else max(i - 1, 0) // 2 if skip or i == n else i
        indices[line], values[line] = place_of(a[place]), source[place_of(a[place]) * p.inner]


cdef void middle_all(const Lines* p, const element* x, element* values, int64_t* indices, bint skip, char* memory,
                     item kind) noexcept nogil:
    cdef Py_ssize_t lines = p.outer * p.inner
    cdef int t
    if p.threads == 1:
        middle_some(p, x, values, indices, 0, lines, skip, <item*>memory)
        return
    for t in prange(p.threads, num_threads=p.threads, schedule="static"):
        middle_some(p, x, values, indices, lines * t // p.threads, lines * (t + 1) // p.threads, skip, <item*>(memory + t * p.needed))


cdef tuple middles(TensorBase x, Py_ssize_t dim, bint skip, Py_ssize_t wanted):
    """`middle` of row-major integers of 32 or 64 bits or floats."""
    cdef Lines p
    cdef Wide wide
    cdef int code = x.dtype.code
    split_at(x.shape, dim, &p.outer, &p.length, &p.inner)
    p.wanted = wanted
    p.bits = 64 if code == FLOAT64 or code == INT64 else 32
    wide.key = wide.place = 0
    cdef tuple shape = x.shape[:dim] + (1,) + x.shape[dim + 1:] if x.shape else ()
    cdef TensorBase values = empty_host(shape, x.dtype), indices = empty_host(shape, dtype_of(INT64))
    cdef const void* source = address(x)
    cdef void* target = address(values)
    cdef int64_t* places = <int64_t*>address(indices)
    cdef Storage memory
    p.threads = min(threads_for(x.size * 8), MOST_THREADS)
    p.needed = ((2 * p.length + 32) * <Py_ssize_t>(sizeof(Wide) if p.bits == 64 else sizeof(uint64_t)) + 63) // 64 * 64
    if values.size:
        memory = host_storage(p.threads * p.needed)
        with nogil:
            if code == FLOAT32:
                middle_all(&p, <const float*>source, <float*>target, places, skip, memory.data, <uint64_t>0)
            elif code == FLOAT64:
                middle_all(&p, <const double*>source, <double*>target, places, skip, memory.data, wide)
            elif code == INT32:
                middle_all(&p, <const int32_t*>source, <int32_t*>target, places, skip, memory.data, <uint64_t>0)
            else:
                middle_all(&p, <const int64_t*>source, <int64_t*>target, places, skip, memory.data, wide)
    return values, indices


def middle(TensorBase x not None, Py_ssize_t dim, bint skip=False, place=None):
    """(the lower one of the two in the middle, its index) of each line; with `skip` NaN are left out. Or what is at a `place` in
    their order. No line is empty."""
    cdef int code = x.dtype.code
    cdef Py_ssize_t length = x.shape[dim] if x.shape else 1, wanted = -1 if place is None else place
    cdef int64_t least = 0
    cdef TensorBase near, found, indices
    if code != FLOAT32 and code != FLOAT64 and code != INT32 and code != INT64 and code != UINT8:
        raise DTypeError(f"middle: {x.dtype} is not available on cpu")
    if length == 0 or length >= <Py_ssize_t>1 << 32:
        raise ArgumentError(f"middle: a dimension of {length} elements has no median; there may be 1 to 2**32 - 1")
    if wanted >= length:
        raise ArgumentError(f"middle: a dimension of {length} elements has no place {place}")
    x = packed(x)
    if code != UINT8 and code != INT64 or not x.size:
        return middles(x, dim, skip, wanted)
    near = empty_host(x.shape, dtype_of(INT32))
    if code == UINT8:
        narrowed(<const uint8_t*>address(x), x.size, <int32_t*>address(near), &least)
    elif not narrowed(<const int64_t*>address(x), x.size, <int32_t*>address(near), &least):
        return middles(x, dim, skip, wanted)
    near, indices = middles(near, dim, skip, wanted)
    found = empty_host(near.shape, x.dtype)
    if code == UINT8:
        widened(<const int32_t*>address(near), near.size, least, <uint8_t*>address(found))
    else:
        widened(<const int32_t*>address(near), near.size, least, <int64_t*>address(found))
    return found, indices


def median_all(TensorBase x not None, bint skip=False):
    """The same of all elements, without dimensions."""
    return reshaped(middle(reshaped(packed(x), (x.size,)), 0, skip)[0], ())


KERNELS = {"middle": middle, "median_all": median_all}
