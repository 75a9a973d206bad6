"""The CPU that runs Volta: its instruction sets and how many threads kernels use.

Knows no tensor and no kernel. Built once, since it decides which variant of the loop modules is taken.
"""
import os

from volta._kernels.core import processors
from volta.errors import ArgumentError

cdef extern from *:
    """
    #if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
      #include <intrin.h>
      #define VOLTA_X86 1
      static void volta_cpuid(int leaf, unsigned r[4]) { __cpuidex((int *)r, leaf, 0); }
      static unsigned volta_xcr0(void) { return (unsigned)_xgetbv(0); }
    #elif defined(__x86_64__) || defined(__i386__)
      #include <cpuid.h>
      #include <immintrin.h>
      #define VOLTA_X86 1
      static void volta_cpuid(int leaf, unsigned r[4]) { __cpuid_count(leaf, 0, r[0], r[1], r[2], r[3]); }
      static unsigned volta_xcr0(void) {
          unsigned low, high;
          __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
          return low;
      }
    #endif

    /* 0: baseline; 1: AVX2, FMA, F16C, BMI; 2: AVX-512 F, BW, CD, DQ, VL as well. Both processor and system must agree. */
    static int volta_cpu_level(void) {
    #ifdef VOLTA_X86
        unsigned r[4];
        const unsigned leaf1 = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29;            /* FMA, OSXSAVE, AVX, F16C */
        const unsigned avx2 = 1u << 3 | 1u << 5 | 1u << 8;                           /* BMI, AVX2, BMI2 */
        const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */
        volta_cpuid(0, r);
        if (r[0] < 7) return 0;
        volta_cpuid(1, r);
        if ((r[2] & leaf1) != leaf1 || (volta_xcr0() & 6) != 6) return 0;
        volta_cpuid(7, r);
        if ((r[1] & avx2) != avx2) return 0;
        return (r[1] & avx512) == avx512 && (volta_xcr0() & 0xe6) == 0xe6 ? 2 : 1;
    #else
        return 0;
    #endif
    }
    /* Whether this thread has met denormal operands since it was last asked; -1 where the processor keeps no such flag. */
    static int volta_met_denormals(void) {
    #if defined(VOLTA_X86) && (defined(_MSC_VER) || defined(__SSE__))
        const unsigned state = _mm_getcsr();
        _mm_setcsr(state & ~0x3fu);
        return state >> 1 & 1;
    #else
        return -1;
    #endif
    }
    /* Writes a word all over the part of the stack that the functions called next will have. */
    static int volta_fill_stack(int word) {
        volatile int room[16384];
        int i;
        for (i = 0; i < 16384; i++) room[i] = word;
        return room[word & 1];
    }
    #if defined(_OPENMP)
      #include <omp.h>
      static int volta_processors(void) { return omp_get_num_procs(); }
    #else
      static int volta_processors(void) { return 0; }
    #endif
    """
    int volta_processors() nogil
    int volta_cpu_level() nogil
    int volta_met_denormals() nogil
    int volta_fill_stack(int word) nogil


# Where other processes want the processors, threads that wait for one another take turns with theirs, and each loop lasts as long as the
# system lets them: with fewer threads there is less to wait for. That they are crowded shows in how long the thread that starts loops
# was ready to run and had no processor, in two windows running. (That it was switched off often does not: its own team, woken, does
# that.) Fewer are tried for a while, and after it more again. Results do not depend on it.
cdef extern from *:
    """
    #if defined(__linux__)
      #include <fcntl.h>
      #include <stdlib.h>
      #include <sys/resource.h>
      #include <time.h>
      #include <unistd.h>
      #define VOLTA_WINDOW 150                  /* milliseconds between looks */
      #define VOLTA_CROWDED 8                   /* the part of a window: beside a busy process 1/5 to 1/2 is lost, on an idle one 1/40 */
      #define VOLTA_SLICE 3000                  /* microseconds that a switch costs, where the system says no more */
      #define VOLTA_LEAST 400                   /* milliseconds with fewer threads; twice as long when it is still crowded then */
      #define VOLTA_MOST 6400
      static __thread struct { long looked, lost, until, length; int halvings, full; } volta_crowd;

      /* Microseconds that this thread has waited for a processor. */
      static long volta_lost(void) {
          struct rusage usage;
          char text[64], *waited;
          int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
          ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
          if (file >= 0) close(file);
          if (length > 0) {                             /* nanoseconds on a processor, nanoseconds waiting for one, turns */
              text[length] = 0;
              strtoull(text, &waited, 10);
              return (long)(strtoull(waited, NULL, 10) / 1000);
          }
          getrusage(RUSAGE_THREAD, &usage);
          return usage.ru_nivcsw * VOLTA_SLICE;
      }

      static int volta_uncrowded(int threads) {
          struct timespec clock;
          long now, window, lost, before;
          clock_gettime(CLOCK_MONOTONIC_COARSE, &clock);
          now = clock.tv_sec * 1000L + clock.tv_nsec / 1000000;
          window = now - volta_crowd.looked;
          if (window >= VOLTA_WINDOW) {
              before = volta_crowd.lost;
              volta_crowd.lost = volta_lost();
              lost = volta_crowd.lost - before;
              volta_crowd.looked = now;
              volta_crowd.full = window < 10 * VOLTA_WINDOW && lost * VOLTA_CROWDED >= 1000 * window ? volta_crowd.full + 1 : 0;
              if (volta_crowd.full >= 2 && threads >> volta_crowd.halvings > 1) {
                  volta_crowd.length = volta_crowd.length == 0 ? VOLTA_LEAST :
                                       volta_crowd.length < VOLTA_MOST ? 2 * volta_crowd.length : VOLTA_MOST;
                  volta_crowd.until = now + volta_crowd.length;
                  volta_crowd.halvings++;
                  volta_crowd.full = 0;
              } else if (volta_crowd.halvings > 0 && now >= volta_crowd.until) {
                  volta_crowd.halvings--;
                  volta_crowd.full = 1;
              } else if (volta_crowd.halvings == 0 && volta_crowd.full == 0) volta_crowd.length = 0;
          }
          return threads >> volta_crowd.halvings > 1 ? threads >> volta_crowd.halvings : 1;
      }
    #else
      static int volta_uncrowded(int threads) { return threads; }
    #endif
    """
    int uncrowded "volta_uncrowded"(int threads) noexcept nogil


cdef int _num_threads = 1                       # as asked for
cdef int _team = 1                              # as used
cdef int _assumed = 0                           # processors, where tests say so


def instruction_level():
    """0 where the CPU has only the baseline of its architecture, 1 with AVX2, 2 with AVX-512."""
    return volta_cpu_level()


def met_denormals(int stack=0):
    """Whether this thread has computed with denormal numbers since it last asked; None where the processor does not tell (it does on x86).
    For tests: on Intel's they take 10 to 40 times as long. `stack` is a word to fill the stack below with."""
    volta_fill_stack(stack)
    cdef int met = volta_met_denormals()
    return None if met < 0 else bool(met)


cdef int threads_for(Py_ssize_t work) noexcept nogil:
    return uncrowded(_team) if work >= PARALLEL_SIZE and _team > 1 else 1


def usable_processors():
    """Threads that can run at the same time, also where OpenMP has bound this one to a processor."""
    return processors.usable(volta_processors())


def get_num_threads():
    """Threads that one CPU kernel may use."""
    return _num_threads


def set_num_threads(n):
    """Let one CPU kernel use up to `n` threads, and no more than there are processors for them. Results do not depend on it.

    Raises: ArgumentError if n is not a positive integer.
    """
    global _num_threads, _team
    if isinstance(n, bool) or not hasattr(n, "__index__") or not 1 <= int(n) <= 4096:
        raise ArgumentError(f"set_num_threads: needs an integer from 1 to 4096, got {n!r}")
    _num_threads = int(n)
    _team = min(_num_threads, _assumed or usable_processors())


def assume_processors(n):
    """Take it that there are `n` processors (0: as many as there are), for tests of more threads than that."""
    global _assumed
    _assumed = n
    set_num_threads(_num_threads)


def _default_num_threads():
    """OMP_NUM_THREADS, else the cores that this process may use."""
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(int(text), 4096) if text.isdigit() and int(text) > 0 else processors.cores(volta_processors())


set_num_threads(_default_num_threads())
if hasattr(os, "register_at_fork"):         # a forked process has none of its parent's OpenMP threads, and would wait for them for ever
    os.register_at_fork(after_in_child=lambda: set_num_threads(1))
