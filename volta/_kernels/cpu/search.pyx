# What comparing elements finds: the places of values in sorted lines, runs of equal elements, counts by value or place in a range.
#
# Layout: what is searched, searched for and counted is made contiguous; lines of runs as [outer, length, inner].
# Threads: over values, lines or parts of vectors; counts are integers, whose sum has no order. Sizes: the front end.

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from volta._kernels.core.base cimport (
    BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT8, Storage, TensorBase, address, dtype_of, empty_host, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport split_at
from volta._kernels.cpu.bits cimport WIDE_BYTES         # in the C below
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.real cimport number

from volta._kernels.cpu.copy import cast
from volta.errors import ArgumentError, DTypeError

cdef enum:
    SEARCHED = 8                # values that are searched for side by side
    TABLES = 4                  # of counts, in turn, so that equal elements side by side need not wait for one another,
    FEW = 4096                  # where these are few

# What is counted: elements in parts of a range, or, without one, integers.
cdef struct Range:
    bint given
    double low, high
    Py_ssize_t bins


cdef extern from * nogil:
    """
    #if defined(__AVX2__) && defined(__GNUC__)
      #include <string.h>
      #define VOLTA_FEW_BYTES (VOLTA_WIDE == 64 ? 512 : 1024)
      /* How many of the values have been searched for in a short line, all of whose elements are compared with a vector of values: what is
         above a value is taken off. Only if the line is in order, without NaN, is that where halving leads. */
      #define VOLTA_SEARCH_FEW(NAME, T, I)                                                                                        \\
        static ptrdiff_t NAME(const T *line, ptrdiff_t length, const T *values, ptrdiff_t n, int64_t *out, int right) {           \\
            typedef T V __attribute__((vector_size(VOLTA_WIDE)));                                                                 \\
            typedef I M __attribute__((vector_size(VOLTA_WIDE)));                                                                 \\
            enum { L = VOLTA_WIDE / sizeof(T) };                                                                                  \\
            I above[2 * L];                                                                                                       \\
            ptrdiff_t i, j;                                                                                                       \\
            if (length > VOLTA_FEW_BYTES / (ptrdiff_t)sizeof(T) || n < 2 * L || line[0] != line[0]) return 0;                     \\
            for (j = 1; j < length; j++) if (!(line[j - 1] <= line[j])) return 0;                                                 \\
            for (i = 0; i + 2 * L <= n; i += 2 * L) {                                                                             \\
                V a, b;                                                                                                           \\
                M p = {0}, q = {0};                                                                                               \\
                memcpy(&a, values + i, VOLTA_WIDE);                                                                               \\
                memcpy(&b, values + i + L, VOLTA_WIDE);                                                                           \\
                if (right) for (j = 0; j < length; j++) { const V e = line[j] - (V){0}; p += e > a; q += e > b; }                 \\
                else for (j = 0; j < length; j++) { const V e = line[j] - (V){0}; p += e >= a; q += e >= b; }                     \\
                memcpy(above, &p, VOLTA_WIDE);                                                                                    \\
                memcpy(above + L, &q, VOLTA_WIDE);                                                                                \\
                for (j = 0; j < 2 * L; j++) out[i + j] = length + above[j];                                                       \\
            }                                                                                                                     \\
            return i;                                                                                                             \\
        }
    #else
      #define VOLTA_SEARCH_FEW(NAME, T, I)                                                                                        \\
        static ptrdiff_t NAME(const T *line, ptrdiff_t length, const T *values, ptrdiff_t n, int64_t *out, int right) { return 0; }
    #endif
    VOLTA_SEARCH_FEW(volta_few_f64, double, int64_t)
    VOLTA_SEARCH_FEW(volta_few_f32, float, int32_t)
    VOLTA_SEARCH_FEW(volta_few_i64, int64_t, int64_t)
    VOLTA_SEARCH_FEW(volta_few_i32, int32_t, int32_t)
    #if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512VL__) && defined(__GNUC__)
      #include <immintrin.h>
      /* The same in any line, what is left 32 at a time: halves of the line are read at eight places at once. */
      #define VOLTA_SEARCH(NAME, FEW, T, V, LOAD, GATHER, LEFT, RIGHT)                                                            \\
        static ptrdiff_t NAME(const T *line, ptrdiff_t length, const T *values, ptrdiff_t n, int64_t *out, int right) {           \\
            ptrdiff_t i, left, half;                                                                                              \\
            for (i = FEW(line, length, values, n, out, right); i + 32 <= n; i += 32) {                                            \\
                __m512i low[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()}; \\
                const V v[4] = {LOAD(values + i), LOAD(values + i + 8), LOAD(values + i + 16), LOAD(values + i + 24)};            \\
                for (left = length; left > 1; left -= half) {                                                                     \\
                    half = left / 2;                                                                                              \\
                    VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 0, line + half - 1, half)                                           \\
                    VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 1, line + half - 1, half)                                           \\
                    VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 2, line + half - 1, half)                                           \\
                    VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 3, line + half - 1, half)                                           \\
                }                                                                                                                 \\
                VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 0, line, 1)                                                             \\
                VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 1, line, 1)                                                             \\
                VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 2, line, 1)                                                             \\
                VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, 3, line, 1)                                                             \\
                _mm512_storeu_si512(out + i, low[0]);                                                                             \\
                _mm512_storeu_si512(out + i + 8, low[1]);                                                                         \\
                _mm512_storeu_si512(out + i + 16, low[2]);                                                                        \\
                _mm512_storeu_si512(out + i + 24, low[3]);                                                                        \\
            }                                                                                                                     \\
            return i;                                                                                                             \\
        }
      #define VOLTA_SEARCH_STEP(V, GATHER, LEFT, RIGHT, K, FROM, MOVE) {                                                           \\
          const V a = GATHER(low[K], FROM, sizeof(*line));                                                                        \\
          low[K] = _mm512_mask_add_epi64(low[K], right ? RIGHT(a, v[K]) : LEFT(a, v[K]), low[K], _mm512_set1_epi64(MOVE)); }
      #define VOLTA_NOT_GE(a, b) _mm512_cmp_pd_mask(a, b, _CMP_NGE_UQ)
      #define VOLTA_NOT_GT(a, b) _mm512_cmp_pd_mask(a, b, _CMP_NGT_UQ)
      #define VOLTA_NOT_GE32(a, b) _mm256_cmp_ps_mask(a, b, _CMP_NGE_UQ)
      #define VOLTA_NOT_GT32(a, b) _mm256_cmp_ps_mask(a, b, _CMP_NGT_UQ)
      #define VOLTA_LOAD32(p) _mm256_loadu_si256((const __m256i *)(p))
      VOLTA_SEARCH(volta_search_f64, volta_few_f64, double, __m512d, _mm512_loadu_pd, _mm512_i64gather_pd, VOLTA_NOT_GE, VOLTA_NOT_GT)
      VOLTA_SEARCH(volta_search_f32, volta_few_f32, float, __m256, _mm256_loadu_ps, _mm512_i64gather_ps, VOLTA_NOT_GE32, VOLTA_NOT_GT32)
      VOLTA_SEARCH(volta_search_i64, volta_few_i64, int64_t, __m512i, _mm512_loadu_si512, _mm512_i64gather_epi64, _mm512_cmplt_epi64_mask,
                   _mm512_cmple_epi64_mask)
      VOLTA_SEARCH(volta_search_i32, volta_few_i32, int32_t, __m256i, VOLTA_LOAD32, _mm512_i64gather_epi32, _mm256_cmplt_epi32_mask,
                   _mm256_cmple_epi32_mask)
    #else
      #define volta_search_f64 volta_few_f64
      #define volta_search_f32 volta_few_f32
      #define volta_search_i64 volta_few_i64
      #define volta_search_i32 volta_few_i32
    #endif
    """
    Py_ssize_t search_f64 "volta_search_f64"(const double* line, Py_ssize_t length, const double* values, Py_ssize_t n, int64_t* out,
                                             bint right)
    Py_ssize_t search_f32 "volta_search_f32"(const float* line, Py_ssize_t length, const float* values, Py_ssize_t n, int64_t* out,
                                             bint right)
    Py_ssize_t search_i64 "volta_search_i64"(const int64_t* line, Py_ssize_t length, const int64_t* values, Py_ssize_t n, int64_t* out,
                                             bint right)
    Py_ssize_t search_i32 "volta_search_i32"(const int32_t* line, Py_ssize_t length, const int32_t* values, Py_ssize_t n, int64_t* out,
                                             bint right)


cdef inline bint before(number a, number v, bint right) noexcept nogil:
    """Whether the place of v is behind a. Nothing compares with NaN, which is behind everything."""
    return not (a > v) if right else not (a >= v)


cdef inline int64_t search_one(const number* line, Py_ssize_t length, number value, bint right) noexcept nogil:
    cdef Py_ssize_t low = 0, half
    while length > 1:
        half = length // 2
        low += half if before(line[low + half - 1], value, right) else 0
        length -= half
    return low + (length == 1 and before(line[low], value, right))


cdef inline int64_t search_among_nan(const number* line, Py_ssize_t length, number value, bint right) noexcept nogil:
    """Where PyTorch's halving leads: behind the NaN that a line ends with where it meets them, though they are greater than the value."""
    cdef Py_ssize_t low = 0, high = length, middle
    while low < high:
        middle = low + (high - low) // 2
        if before(line[middle], value, right):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void search_line(const number* line, Py_ssize_t length, const number* values, Py_ssize_t n, int64_t* out,
                             bint right) noexcept nogil:
    """SEARCHED values at a time, without branches, so that what one of them waits for does not hold up the others."""
    cdef int64_t low[SEARCHED]
    cdef Py_ssize_t i, k, done = 0
    cdef int64_t left, half
    if number is double or number is float:
        if length > 0 and line[length - 1] != line[length - 1]:
            for i in range(n):
                out[i] = search_among_nan(line, length, values[i], right)
            return
    if length > 0:
        if number is double:
            done = search_f64(line, length, values, n, out, right)
        elif number is float:
            done = search_f32(line, length, values, n, out, right)
        elif number is int64_t:
            done = search_i64(line, length, values, n, out, right)
        elif number is int32_t:
            done = search_i32(line, length, values, n, out, right)
    values, out, n = values + done, out + done, n - done
    for i in range(n // SEARCHED if length > 0 else 0):
        left = length
        for k in range(SEARCHED):
            low[k] = 0
        while left > 1:
            half = left // 2
            for k in range(SEARCHED):
                low[k] += half & -<int64_t>before(line[low[k] + half - 1], values[k], right)
            left -= half
        for k in range(SEARCHED):
            out[k] = low[k] + before(line[low[k]], values[k], right)
        out += SEARCHED
        values += SEARCHED
    for i in range(n % SEARCHED if length > 0 else n):
        out[i] = search_one(line, length, values[i], right)


cdef void search_some(const number* sorted, const number* values, int64_t* out, Py_ssize_t length, Py_ssize_t each, Py_ssize_t first,
                      Py_ssize_t last, bint shared, bint right) noexcept nogil:
    cdef Py_ssize_t count
    cdef const number* line
    while first < last:
        line, count = sorted, last - first
        if not shared:
            line, count = sorted + first // each * length, min(count, each - first % each)
        if right:                               # which the compiler then knows
            search_line(line, length, values + first, count, out + first, True)
        else:
            search_line(line, length, values + first, count, out + first, False)
        first += count


cdef void search_all(const number* sorted, const number* values, int64_t* out, Py_ssize_t length, Py_ssize_t each, Py_ssize_t n,
                     bint shared, bint right) noexcept nogil:
    """IN: length of a sorted line, `each` values of a line, n values in all; shared, that there is one line for all."""
    cdef int threads = threads_for(8 * n), t
    if threads == 1:
        search_some(sorted, values, out, length, each, 0, n, shared, right)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        search_some(sorted, values, out, length, each, n * t // threads, n * (t + 1) // threads, shared, right)


def searchsorted(TensorBase sorted not None, TensorBase values not None, bint right=False):
    """Where each value belongs in its sorted line: before equal elements, or behind them. One line serves all values."""
    cdef int code = sorted.dtype.code
    cdef bint shared = len(sorted.shape) == 1
    cdef Py_ssize_t length, each = 1
    if values.dtype.code != code:
        raise DTypeError(f"searchsorted: got {sorted.dtype.name} and {values.dtype.name}")
    sorted, values = packed(sorted), packed(values)
    length = sorted.shape[len(sorted.shape) - 1]
    if len(values.shape):
        each = values.shape[len(values.shape) - 1]
    if not shared and values.size and length * (values.size // max(each, <Py_ssize_t>1)) != sorted.size:
        raise ArgumentError(f"searchsorted: {sorted.shape} and {values.shape} have not as many lines")
    cdef TensorBase out = empty_host(values.shape, dtype_of(INT64))
    cdef const void* lines = address(sorted)
    cdef const void* given = address(values)
    cdef int64_t* target = <int64_t*>address(out)
    cdef Py_ssize_t n = values.size
    with nogil:
        if code == UINT8 or code == BOOL:
            search_all(<const uint8_t*>lines, <const uint8_t*>given, target, length, each, n, shared, right)
        elif code == INT32:
            search_all(<const int32_t*>lines, <const int32_t*>given, target, length, each, n, shared, right)
        elif code == INT64:
            search_all(<const int64_t*>lines, <const int64_t*>given, target, length, each, n, shared, right)
        elif code == FLOAT32:
            search_all(<const float*>lines, <const float*>given, target, length, each, n, shared, right)
        else:
            search_all(<const double*>lines, <const double*>given, target, length, each, n, shared, right)
    return out


# ---------------------------------------------------------------- runs of equal elements

cdef int64_t longest(const number* x, Py_ssize_t n, Py_ssize_t step) noexcept nogil:
    """Where the longest run of equal elements ends, the first one of several; a NaN equals none."""
    cdef Py_ssize_t i, start = 0, most = 0
    cdef int64_t found = 0
    for i in range(n):
        if i > 0 and not x[i * step] == x[(i - 1) * step]:
            start = i
        if i - start >= most:
            most, found = i - start + 1, i
    return found


cdef void runs_of_lines(const number* x, Py_ssize_t outer, Py_ssize_t length, Py_ssize_t inner, int64_t* out) noexcept nogil:
    cdef Py_ssize_t line
    cdef int threads = threads_for(outer * length * inner)
    if threads == 1:
        for line in range(outer * inner):
            out[line] = longest(x + line // inner * length * inner + line % inner, length, inner)
        return
    for line in prange(outer * inner, num_threads=threads, schedule="static"):
        out[line] = longest(x + line // inner * length * inner + line % inner, length, inner)


def longest_run(TensorBase x not None, Py_ssize_t dim):
    """Of each sorted line the index of the last element of its longest run of equal ones, the first one of several."""
    cdef Py_ssize_t outer, length, inner
    cdef int code = x.dtype.code
    x = packed(x)
    split_at(x.shape, dim, &outer, &length, &inner)
    cdef TensorBase out = empty_host(x.shape[:dim] + (1,) + x.shape[dim + 1:] if x.shape else (), dtype_of(INT64))
    cdef int64_t* places = <int64_t*>address(out)
    cdef const void* source = address(x)
    if code == FLOAT32:
        runs_of_lines(<const float*>source, outer, length, inner, places)
    elif code == FLOAT64:
        runs_of_lines(<const double*>source, outer, length, inner, places)
    elif code == INT64:
        runs_of_lines(<const int64_t*>source, outer, length, inner, places)
    elif code == INT32:
        runs_of_lines(<const int32_t*>source, outer, length, inner, places)
    elif code == BOOL or code == UINT8:
        runs_of_lines(<const uint8_t*>source, outer, length, inner, places)
    else:
        raise DTypeError(f"longest_run: does not take {x.dtype}")
    return out


# ---------------------------------------------------------------- counts

cdef void change(const number* x, Py_ssize_t first, Py_ssize_t last, uint8_t* out) noexcept nogil:
    cdef Py_ssize_t i
    if first == 0 and last > 0:
        out[0], first = 1, 1
    for i in range(first, last):
        out[i] = x[i] != x[i - 1]


cdef void change_all(const number* x, Py_ssize_t n, uint8_t* out) noexcept nogil:
    cdef int threads = threads_for(n), t
    if threads == 1:
        change(x, 0, n, out)
        return
    for t in prange(threads, num_threads=threads, schedule="static"):
        change(x, n * t // threads, n * (t + 1) // threads, out)


cdef inline void count_one(number low, number high, Py_ssize_t bins, number x, int64_t* table) noexcept nogil:
    cdef Py_ssize_t place
    if low <= x <= high:
        place = <Py_ssize_t>((x - low) * <number>bins / (high - low))         # any integer, where that overflows
        table[min(max(place, 0), bins - 1)] += 1


cdef inline void count_value(uint64_t x, uint64_t bins, int64_t* table) noexcept nogil:
    if x < bins:                                            # which no negative number is
        table[x] += 1


cdef inline void count_values(const number* x, Py_ssize_t n, Py_ssize_t bins, int64_t* found) noexcept nogil:
    """TABLES at a time, read together: a count might lie where the next element does, for all that C knows."""
    cdef Py_ssize_t i
    cdef uint64_t a, b, c, d
    for i in range(n // TABLES):
        a, b = <uint64_t><int64_t>x[i * TABLES], <uint64_t><int64_t>x[i * TABLES + 1]
        c, d = <uint64_t><int64_t>x[i * TABLES + 2], <uint64_t><int64_t>x[i * TABLES + 3]
        count_value(a, bins, found)
        count_value(b, bins, found + bins)
        count_value(c, bins, found + 2 * bins)
        count_value(d, bins, found + 3 * bins)


cdef void count_some(const Range* p, const number* x, Py_ssize_t n, Py_ssize_t tables, int64_t* found) noexcept nogil:
    """OUT: found, tables of p.bins counts, the first of which gets the sum."""
    cdef Py_ssize_t i, k, bins = p.bins, done = n // TABLES * TABLES if tables > 1 else 0
    cdef number low = <number>p.low, high = <number>p.high
    memset(found, 0, tables * bins * sizeof(int64_t))
    if not p.given:
        if tables > 1:
            count_values(x, n, bins, found)
        for i in range(done, n):
            count_value(<uint64_t><int64_t>x[i], bins, found)
    else:
        for i in range(done // TABLES):
            for k in range(TABLES):
                count_one(low, high, bins, x[i * TABLES + k], found + k * bins)
        for i in range(done, n):
            count_one(low, high, bins, x[i], found)
    for k in range(1, tables):
        for i in range(bins):
            found[i] += found[k * bins + i]


cdef void count_all(const Range* p, const number* x, Py_ssize_t n, int threads, Py_ssize_t tables, int64_t* found,
                    int64_t* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef int t
    if threads == 1:
        count_some(p, x, n, tables, found)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            count_some(p, x + n * t // threads, n * (t + 1) // threads - n * t // threads, tables, found + t * tables * p.bins)
    for i in range(p.bins):
        out[i] = found[i]
    for t in range(1, threads):
        for i in range(p.bins):
            out[i] += found[t * tables * p.bins + i]


def changes(TensorBase x not None):
    """Of each element, the first too, whether it differs from the one before; NaN does from all."""
    x = packed(x)
    cdef TensorBase out = empty_host(x.shape, dtype_of(BOOL))
    cdef int code = x.dtype.code
    cdef void* source = address(x)
    cdef uint8_t* target = <uint8_t*>address(out)
    if code == UINT8 or code == BOOL:
        change_all(<const uint8_t*>source, x.size, target)
    elif code == INT32:
        change_all(<const int32_t*>source, x.size, target)
    elif code == INT64:
        change_all(<const int64_t*>source, x.size, target)
    elif code == FLOAT32:
        change_all(<const float*>source, x.size, target)
    else:
        change_all(<const double*>source, x.size, target)
    return out


cdef double one_of(TensorBase x):
    return (<float*>address(x))[0] if x.dtype.code == FLOAT32 else (<double*>address(x))[0]


def counts(TensorBase x not None, TensorBase low, TensorBase high, Py_ssize_t bins, between):
    """How many elements lie in each of the equal parts of a range, the last with both ends; without one, how often each integer is."""
    cdef Range p
    cdef int code = x.dtype.code, threads = threads_for(2 * x.size)
    p.given, p.bins, p.low, p.high = between is not None or low is not None and high is not None, bins, 0, 0
    if p.given and code < FLOAT32:              # parts of a range are counted in double
        return counts(*[None if t is None else cast(t, dtype_of(FLOAT64)) for t in (x, low, high)], bins, between)
    if between is not None:
        p.low, p.high = between[0], between[1]
    elif p.given:
        p.low, p.high = one_of(low), one_of(high)
    x = packed(x)
    cdef TensorBase out = empty_host((bins,), dtype_of(INT64))
    if bins == 0:
        return out
    cdef Py_ssize_t tables = TABLES if bins <= FEW and x.size >= 4 * bins else 1
    cdef Storage memory = host_storage(max(threads * tables * bins * <Py_ssize_t>8, <Py_ssize_t>8))
    cdef int64_t* found = <int64_t*>memory.data
    cdef int64_t* target = <int64_t*>address(out)
    cdef void* source = address(x)
    with nogil:
        if code == UINT8 or code == BOOL:
            count_all(&p, <const uint8_t*>source, x.size, threads, tables, found, target)
        elif code == INT32:
            count_all(&p, <const int32_t*>source, x.size, threads, tables, found, target)
        elif code == INT64:
            count_all(&p, <const int64_t*>source, x.size, threads, tables, found, target)
        elif code == FLOAT32:
            count_all(&p, <const float*>source, x.size, threads, tables, found, target)
        else:
            count_all(&p, <const double*>source, x.size, threads, tables, found, target)
    return out


KERNELS = {"changes": changes, "counts": counts, "longest_run": longest_run, "searchsorted": searchsorted}
