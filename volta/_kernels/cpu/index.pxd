# What other kernels use of index.pyx.
from libc.stdint cimport int64_t

# Position of the first index outside [0, length), -1 where there is none.
cdef Py_ssize_t first_outside(const int64_t* index, Py_ssize_t n, int64_t length) noexcept nogil

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
      /* Rows of a few hundred bytes: shorter than a call. The last piece overlaps the one before it. */
      static inline void volta_copy_row(char *to, const char *from, size_t n) {
          typedef char piece __attribute__((vector_size(64), aligned(1), may_alias));
          size_t i;
          if (n < 64 || n > 2048) { memcpy(to, from, n); return; }
          for (i = 0; i + 64 < n; i += 64) *(piece *)(to + i) = *(const piece *)(from + i);
          *(piece *)(to + n - 64) = *(const piece *)(from + n - 64);
      }
    #else
      #define volta_copy_row memcpy
    #endif
    """
    void copy_bytes "volta_copy_row"(char* to, const char* x, size_t n) noexcept nogil
