# What is at a place in the order of short lines: as many lines as a vector has lanes at once, sorted by a network of comparisons that the
# length alone says. Comparing without branches is less than sorting each line with its places.
#
# Threads: none. Sizes: the caller's, and up to NETWORK elements of a line.
from libc.stdint cimport int32_t, int64_t

from volta._kernels.cpu.bits cimport WIDE_BYTES

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      #include <string.h>
      #if defined(__AVX512F__)
        #include <immintrin.h>
        #define VOLTA_LOWER32(a, b) (V)_mm512_min_epi32((__m512i)(a), (__m512i)(b))
        #define VOLTA_UPPER32(a, b) (V)_mm512_max_epi32((__m512i)(a), (__m512i)(b))
        #define VOLTA_LOWER64(a, b) (V)_mm512_min_epi64((__m512i)(a), (__m512i)(b))
        #define VOLTA_UPPER64(a, b) (V)_mm512_max_epi64((__m512i)(a), (__m512i)(b))
      #else
        #define VOLTA_LOWER32(a, b) VOLTA_IF((a) < (b), a, b)
        #define VOLTA_UPPER32(a, b) VOLTA_IF((a) < (b), b, a)
        #define VOLTA_LOWER64 VOLTA_LOWER32
        #define VOLTA_UPPER64 VOLTA_UPPER32
      #endif
      #define VOLTA_IF(m, a, b) (((V)(m) & (a)) | (~(V)(m) & (b)))
      enum { VOLTA_NETWORK = 256 };
      #define VOLTA_ORDER(S, K)                                                                                                     \\
      typedef K volta_lines_##S __attribute__((vector_size(VOLTA_WIDE), may_alias));                                                \\
      /* Source: Batcher 1968, odd-even merging. */                                                                                 \\
      static void volta_network_##S(volta_lines_##S* k, Py_ssize_t n) {                                                             \\
          typedef volta_lines_##S V;                                                                                                \\
          Py_ssize_t p, s, j, i;                                                                                                    \\
          for (p = 1; p < n; p *= 2)                                                                                                \\
              for (s = p; s > 0; s /= 2)                                                                                            \\
                  for (j = s % p; j + s < n; j += 2 * s)                                                                            \\
                      for (i = j; i < j + s && i + s < n; i++)                                                                      \\
                          if ((i ^ (i + s)) < 2 * p) {                                                                              \\
                              const V a = k[i], b = k[i + s];                                                                       \\
                              k[i] = VOLTA_LOWER##S(a, b);                                                                          \\
                              k[i + s] = VOLTA_UPPER##S(a, b);                                                                      \\
                          }                                                                                                         \\
      }
      VOLTA_ORDER(32, int32_t)
      VOLTA_ORDER(64, int64_t)
      /* The same of keys with their places, by which equal ones are in order. */
      static void volta_network_pairs(volta_lines_64* k, volta_lines_64* at, Py_ssize_t n) {
          typedef volta_lines_64 V;
          Py_ssize_t p, s, j, i;
          for (p = 1; p < n; p *= 2)
              for (s = p; s > 0; s /= 2)
                  for (j = s % p; j + s < n; j += 2 * s)
                      for (i = j; i < j + s && i + s < n; i++)
                          if ((i ^ (i + s)) < 2 * p) {
                              const V a = k[i], b = k[i + s], x = at[i], y = at[i + s];
                              const V other = (V)(a > b) | ((V)(a == b) & (V)(x > y));
                              k[i] = VOLTA_IF(other, b, a);
                              k[i + s] = VOLTA_IF(other, a, b);
                              at[i] = VOLTA_IF(other, y, x);
                              at[i + s] = VOLTA_IF(other, x, y);
                          }
      }
      #define VOLTA_PLACES(N, S, T, K, U)                                                                                           \\
      static void volta_places_##N(const T* x, const Py_ssize_t* at, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t wanted, int skip,   \\
                                   Py_ssize_t* found) {                                                                             \\
          const int floating = (T)0.5 != 0;                                                                                         \\
          typedef volta_lines_##S V;                                                                                                \\
          typedef U W __attribute__((vector_size(VOLTA_WIDE), may_alias));                                                          \\
          typedef T F __attribute__((vector_size(VOLTA_WIDE), may_alias));                                                          \\
          enum { L = VOLTA_WIDE / sizeof(K), BITS = 8 * sizeof(K) };                                                                \\
          V keys[VOLTA_NETWORK], sorted[VOLTA_NETWORK], value, left = {0}, place = {0}, last;                                       \\
          Py_ssize_t i;                                                                                                             \\
          int c, together = 1;                                                                                                      \\
          for (c = 0; c < L; c++) last[c] = (K)(~(U)0 >> 1);                                                                        \\
          for (c = 0; c < L; c++) together &= at[c] == at[0] + c;                                                                   \\
          if (together)                                                                                                             \\
              for (i = 0; i < n; i++) memcpy(keys + i, x + at[0] + i * inner, VOLTA_WIDE);                                          \\
          else                                                                                                                      \\
              for (c = 0; c < L; c++) for (i = 0; i < n; i++) ((T*)keys)[i * L + c] = x[at[c] + i * inner];                         \\
          for (i = 0; i < n; i++) {           /* in the order of the numbers: -0 is 0, NaN is the last */                           \\
              const F v = ((const F*)keys)[i];                                                                                      \\
              V b = keys[i];                                                                                                        \\
              if (floating) {                                                                                                       \\
                  b ^= (V)((W)(b >> (BITS - 1)) >> 1);                                                                              \\
                  b &= ~(V)(v == 0);                                                                                                \\
                  b = VOLTA_IF(v != v, last, b);                                                                                    \\
                  left -= (V)(b != last);                                                                                           \\
              }                                                                                                                     \\
              sorted[i] = keys[i] = b;                                                                                              \\
          }                                                                                                                         \\
          volta_network_##S(sorted, n);                                                                                             \\
          for (c = 0; c < L; c++) {                                                                                                 \\
              const Py_ssize_t numbers = floating ? (Py_ssize_t)left[c] : n, most = numbers > 1 ? numbers - 1 : 0;                  \\
              const Py_ssize_t of = wanted >= 0 ? wanted : skip || numbers == n ? most / 2 : numbers;                               \\
              value[c] = sorted[of][c];                                                                                             \\
              left[c] = (K)of;                                                                                                      \\
          }                                                                                                                         \\
          for (i = 0; i < n; i++) left += (V)(keys[i] < value);                                                                     \\
          for (i = 0; i < n; i++) {           /* of equal ones as many come before it as are left */                                \\
              const V same = (V)(keys[i] == value);                                                                                 \\
              place = VOLTA_IF(same & (V)(left == 0), (V){0} + (K)i, place);                                                        \\
              left += same;                                                                                                         \\
          }                                                                                                                         \\
          for (c = 0; c < L; c++) found[c] = (Py_ssize_t)place[c];                                                                  \\
      }
    #else
      enum { VOLTA_NETWORK = 0 };
      #define volta_network_64(k, n)
      #define volta_network_pairs(k, at, n)
      typedef int64_t volta_lines_64;
      #define VOLTA_PLACES(N, S, T, K, U)                                                                                           \\
      static void volta_places_##N(const T* x, const Py_ssize_t* at, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t wanted, int skip,   \\
                                   Py_ssize_t* found) {}
    #endif
    /* Of as many lines as V has lanes, of n elements `inner` apart, which begin at x[at[c]]: where what is wanted in their order is
       (below 0: the lower one in the middle, of the numbers with `skip`), the first of equal ones first. */
    VOLTA_PLACES(32, 32, float, int32_t, uint32_t)
    VOLTA_PLACES(64, 64, double, int64_t, uint64_t)
    VOLTA_PLACES(integers, 32, int32_t, int32_t, uint32_t)
    """
    enum:
        NETWORK "VOLTA_NETWORK"
    ctypedef struct Lanes "volta_lines_64":
        pass
    # As many lines of n signed integers as a vector has lanes, each in order; `pairs`: of keys with their places.
    void network_of_words "volta_network_64"(Lanes*, Py_ssize_t) noexcept nogil
    void network_of_pairs "volta_network_pairs"(Lanes*, Lanes*, Py_ssize_t) noexcept nogil
    void places_32 "volta_places_32"(const float*, const Py_ssize_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int, Py_ssize_t*) noexcept nogil
    void places_64 "volta_places_64"(const double*, const Py_ssize_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int, Py_ssize_t*) noexcept nogil
    void places_of_integers "volta_places_integers"(const int32_t*, const Py_ssize_t*, Py_ssize_t, Py_ssize_t, Py_ssize_t, int,
                                                    Py_ssize_t*) noexcept nogil

ctypedef fused short_number:
    int32_t
    float
    double


cdef inline void short_middles(const short_number* x, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t first, Py_ssize_t last, Py_ssize_t wanted,
                               bint skip, short_number* values, int64_t* indices) noexcept nogil:
    """What is at a place in the order of the lines first .. last, n elements each."""
    cdef Py_ssize_t at[16]
    cdef Py_ssize_t found[16]
    cdef Py_ssize_t line, c, lanes = WIDE_BYTES // <Py_ssize_t>sizeof(short_number)
    while first < last:
        for c in range(lanes):                  # behind the last line that one again
            line = min(first + c, last - 1)
            at[c] = line // inner * n * inner + line % inner
        if short_number is int32_t:
            places_of_integers(x, at, n, inner, wanted, skip, found)
        elif short_number is float:
            places_32(x, at, n, inner, wanted, skip, found)
        else:
            places_64(x, at, n, inner, wanted, skip, found)
        for c in range(min(lanes, last - first)):
            indices[first + c] = found[c]
            values[first + c] = x[at[c] + found[c] * inner]
        first += lanes
