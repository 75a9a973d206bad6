# How wide vectors are that run over lines in memory, and which of their lanes a line's rest fills.
cdef extern from *:
    """
    #ifndef VOLTA_LINE_BYTES
    #if defined(__AVX512F__)
      #define VOLTA_LINE_BYTES 64
    #elif defined(__AVX__)
      #include <immintrin.h>
      #define VOLTA_LINE_BYTES 32
      static const int volta_first_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
      /* A mask of the first `count` lanes of a vector of T. */
      #define VOLTA_FIRST(count, T) \\
        _mm256_loadu_si256((const __m256i*)(volta_first_lanes + 8 - (count) * (Py_ssize_t)(sizeof(T) / sizeof(int))))
    #else
      #define VOLTA_LINE_BYTES 16
    #endif
    #endif
    """
    const int LINE_BYTES "VOLTA_LINE_BYTES"
