# How many threads a loop may use. Kernels: `for t in prange(T, num_threads=T)` with T = threads_for(work).

cdef enum:
    # Elements of a cheap loop (add, copy) below which one thread is faster: with threads that still wait for work, a region costs
    # 1 us (2 threads) to 4 us (16), in which one thread adds 10,000 to 35,000 float32 numbers.
    PARALLEL_SIZE = 32768
    # Above this many elements a loop releases the GIL.
    NOGIL_SIZE = 16384

# Threads for `work` cheap element operations: 1 below PARALLEL_SIZE, else all that there are, whatever the work: GCC's OpenMP ends the
# threads that a smaller team leaves out, and starting them anew for the next larger one costs 10 to 30 us each. May differ from call to
# call: a kernel asks once, for its memory and its loops.
cdef int threads_for(Py_ssize_t work) noexcept nogil

cdef extern from *:
    """
    #if defined(_OPENMP) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
      #include <omp.h>
      /* GCC makes of each parallel region a call of GOMP_parallel, which its library has. That one makes and ends a team even of one
         thread, which takes half a microsecond. So each module has a function of this name of its own, which its linker takes first and
         no other module sees (`hidden`); `used`, since the calls come up only after the compiler would have left it out. One thread runs
         the body at once, but for regions in regions, where it would take itself for one of the outer team; more go to the library's
         function, by another name and by its version, since its own name stands for this one here. */
      __asm__(".symver volta_region, GOMP_parallel@GOMP_4.0");
      extern void volta_region(void (*body)(void *), void *data, unsigned threads, unsigned flags);
      __attribute__((visibility("hidden"), used))
      void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
          if (threads == 1 && !omp_in_parallel()) body(data);
          else volta_region(body, data, threads, flags);
      }
    #endif
    """
