# Which lanes of a vector of AVX2 the rest of a line fills.
cdef extern from *:
    """
    #if defined(__AVX2__) && !defined(VOLTA_FIRST)
      #include <immintrin.h>
      static const int volta_first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
      /* A mask of the first `count` lanes of a vector of T. */
      #define VOLTA_FIRST(count, T) \\
        _mm256_loadu_si256((const __m256i*)(volta_first_lanes + 8 - (count) * (Py_ssize_t)(sizeof(T) / sizeof(int))))
    #endif
    """
