# Sweeps of rotations over the rows of a matrix, in vectors: a row is loaded and stored once.
#
# Layout: rows in whole vectors. Threads: none. Sizes: the caller's.
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport lanes

cdef extern from *:
    """
    /* Rows j and j + 1 for j < count, from the last pair on (`back`) or from the first: row j+1 = c row j+1 - s row j, row j = s row j+1 +
       c row j. */
    #define VOLTA_SWEEP_STRIP(S, T, N) {                                                                                \\
        volta_v##S keep[N], x, c, s; T* row;                                                                            \\
        if (back) {                                                                                                     \\
            row = a + count * ld;                                                                                       \\
            VOLTA_UNROLL for (q = 0; q < N; q++) keep[q] = ((volta_v##S*)row)[q];                                       \\
            for (j = count - 1; j >= 0; j--, row -= ld) {                                                               \\
                c = VOLTA_SAME##S(cosines[j]); s = VOLTA_SAME##S(sines[j]);                                             \\
                VOLTA_UNROLL for (q = 0; q < N; q++) {                                                                  \\
                    x = ((volta_v##S*)(row - ld))[q];                                                                   \\
                    ((volta_v##S*)row)[q] = VOLTA_MADD##S(-s, x, c * keep[q]);                                          \\
                    keep[q] = VOLTA_MADD##S(s, keep[q], c * x);                                                         \\
                }                                                                                                       \\
            }                                                                                                           \\
        } else {                                                                                                        \\
            row = a;                                                                                                    \\
            VOLTA_UNROLL for (q = 0; q < N; q++) keep[q] = ((volta_v##S*)row)[q];                                       \\
            for (j = 0; j < count; j++, row += ld) {                                                                    \\
                c = VOLTA_SAME##S(cosines[j]); s = VOLTA_SAME##S(sines[j]);                                             \\
                VOLTA_UNROLL for (q = 0; q < N; q++) {                                                                  \\
                    x = ((volta_v##S*)(row + ld))[q];                                                                   \\
                    ((volta_v##S*)row)[q] = VOLTA_MADD##S(s, x, c * keep[q]);                                           \\
                    keep[q] = VOLTA_MADD##S(-s, keep[q], c * x);                                                        \\
                }                                                                                                       \\
            }                                                                                                           \\
        }                                                                                                               \\
        VOLTA_UNROLL for (q = 0; q < N; q++) ((volta_v##S*)row)[q] = keep[q];                                           \\
        a += N * VOLTA_LANES##S;                                                                                        \\
        width -= N * VOLTA_LANES##S;                                                                                    \\
    }
    #define VOLTA_SWEEP(S, T)                                                                                           \\
    static void volta_sweep##S(Py_ssize_t count, int back, const T* cosines, const T* sines, T* a, Py_ssize_t ld, Py_ssize_t width) { \\
        Py_ssize_t j; int q;                                                                                            \\
        while (width >= 4 * VOLTA_LANES##S) VOLTA_SWEEP_STRIP(S, T, 4)                                                  \\
        if (width >= 2 * VOLTA_LANES##S) VOLTA_SWEEP_STRIP(S, T, 2)                                                     \\
        if (width > 0) VOLTA_SWEEP_STRIP(S, T, 1)                                                                       \\
    }
    /* Products of many sines are denormal numbers, which cost some hundred cycles each: 0 instead. Gives what to restore. */
    #if defined(__SSE2__) || defined(_M_X64)
      #include <immintrin.h>
      static inline unsigned volta_flush(void) { const unsigned was = _mm_getcsr(); _mm_setcsr(was | 0x8040); return was; }
      static inline void volta_restore(unsigned was) { _mm_setcsr(was); }
    #else
      static inline unsigned volta_flush(void) { return 0; }
      static inline void volta_restore(unsigned was) {}
    #endif
    VOLTA_SWEEP(32, float)
    VOLTA_SWEEP(64, double)
    """
    unsigned flush "volta_flush"() noexcept nogil
    void restore "volta_restore"(unsigned was) noexcept nogil
    void sweep32 "volta_sweep32"(Py_ssize_t, bint, const float*, const float*, float*, Py_ssize_t, Py_ssize_t) noexcept nogil
    void sweep64 "volta_sweep64"(Py_ssize_t, bint, const double*, const double*, double*, Py_ssize_t, Py_ssize_t) noexcept nogil


cdef inline void sweep(Py_ssize_t count, bint back, const real* cosines, const real* sines, real* a, Py_ssize_t ld,
                       Py_ssize_t width) noexcept nogil:
    if real is float:
        sweep32(count, back, cosines, sines, a, ld, width)
    else:
        sweep64(count, back, cosines, sines, a, ld, width)


cdef enum:
    SWEEPS = 32                 # that wait, to be done together on columns that lie in the nearest cache

# Sweeps over rows first[i] .. first[i] + length[i], with rows of `n` cosines and, SWEEPS rows behind, of sines.
cdef struct Sweeps:
    int count
    Py_ssize_t n
    Py_ssize_t first[SWEEPS]
    Py_ssize_t length[SWEEPS]
    bint back[SWEEPS]


cdef inline void sweep_all(const Sweeps* p, const real* angles, real* a, Py_ssize_t ld, Py_ssize_t width) noexcept nogil:
    cdef Py_ssize_t strip = (4 if p.n <= 128 else 2) * lanes(a), at = 0
    cdef int i
    cdef unsigned was = flush()
    while at < width:
        for i in range(p.count):
            sweep(p.length[i], p.back[i], angles + i * p.n + p.first[i], angles + (SWEEPS + i) * p.n + p.first[i],
                  a + p.first[i] * ld + at, ld, min(strip, width - at))
        at += strip
    restore(was)
