# Copies that transpose, by tiles of whole cache lines: what is contiguous in the input is not what is contiguous in the output.
#
# Layout: a Geometry of out and x, whose last dimension is contiguous in out. Threads: above cpu.PARALLEL_SIZE elements.

from cython.parallel cimport prange
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.iteration cimport Geometry, word
from volta._kernels.cpu.turn cimport turn4_double, turn8

cdef extern from *:
    """
    #ifndef VOLTA_TURN_BYTES
    #define VOLTA_TURN_BYTES
    /* out[i][j] = x[j][i] for 16 x 16 bytes, or 8 x 8 pairs of them: of each register's number and each place in it, one bit after the
       other changes sides. */
    #if defined(__GNUC__) && (__GNUC__ >= 12 || defined(__clang__))
    typedef uint8_t volta_b16 __attribute__((vector_size(16), aligned(1), may_alias));
    static inline void volta_turn16(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) {
        volta_b16 r[16], s[16];
        int i, k;
        for (i = 0; i < 16; i++) r[i] = *(const volta_b16*)(x + i * ldx);
        for (k = 0; k < 2; k++) {
            for (i = 0; i < 8; i++) {
                s[2 * i] = __builtin_shufflevector(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            }
            for (i = 0; i < 8; i++) {
                r[2 * i] = __builtin_shufflevector(s[i], s[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                r[2 * i + 1] = __builtin_shufflevector(s[i], s[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            }
        }
        for (i = 0; i < 16; i++) *(volta_b16*)(out + i * ldo) = r[i];
    }
    typedef uint16_t volta_h8 __attribute__((vector_size(16), aligned(1), may_alias));
    static inline void volta_turn8_short(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) {
        volta_h8 r[8], s[8];
        int i, k;
        for (i = 0; i < 8; i++) s[i] = *(const volta_h8*)(x + i * ldx);
        for (k = 0; k < 3; k++) {
            for (i = 0; i < 8; i++) r[i] = s[i];
            for (i = 0; i < 4; i++) {
                s[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
                s[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
            }
        }
        for (i = 0; i < 8; i++) *(volta_h8*)(out + i * ldo) = s[i];
    }
    #else
    static inline void volta_turn8_short(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 8; i++) for (j = 0; j < 8; j++) ((uint16_t*)(out + i * ldo))[j] = ((const uint16_t*)(x + j * ldx))[i];
    }
    static inline void volta_turn16(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) {
        int i, j;
        for (i = 0; i < 16; i++) for (j = 0; j < 16; j++) out[i * ldo + j] = x[j * ldx + i];
    }
    #endif
    #endif
    """
    void turn16 "volta_turn16"(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) noexcept nogil
    void turn8_short "volta_turn8_short"(const char* x, Py_ssize_t ldx, char* out, Py_ssize_t ldo) noexcept nogil

cdef enum:
    LINE = 64                                   # bytes of a cache line


cdef inline void turn_square(const char* x, Py_ssize_t x_step, char* out, Py_ssize_t out_step, word kind) noexcept nogil:
    """As many words each way as are turned in registers."""
    if word is uint8_t:
        turn16(x, x_step, out, out_step)
    elif word is uint16_t:
        turn8_short(x, x_step, out, out_step)
    elif word is uint32_t:
        turn8(<const float*>x, x_step // 4, <float*>out, out_step // 4)
    else:
        turn4_double(<const double*>x, x_step // 8, <double*>out, out_step // 8)


cdef inline void _turn_tile(char* out, Py_ssize_t out_step, char* x, Py_ssize_t x_step, Py_ssize_t rows,
                            Py_ssize_t columns, word kind) noexcept nogil:
    """out[i, j] = x[j, i] for a tile of at most LINE bytes each way, whose rows i of out and j of x are contiguous."""
    cdef Py_ssize_t square = 16 if word is uint8_t else 4 if word is uint64_t else 8, i, j = 0
    cdef Py_ssize_t high = rows // square * square, wide = columns // square * square
    while j < wide:
        for i in range(rows // square):
            turn_square(x + j * x_step + i * square * sizeof(word), x_step, out + i * square * out_step + j * sizeof(word), out_step,
                        <word>0)
        j += square
    for i in range(high):
        for j in range(wide, columns):
            (<word*>(out + i * out_step))[j] = (<word*>(x + j * x_step))[i]
    for i in range(high, rows):
        for j in range(columns):
            (<word*>(out + i * out_step))[j] = (<word*>(x + j * x_step))[i]


cdef inline void turn_tile(char* out, Py_ssize_t out_step, char* x, Py_ssize_t x_step, Py_ssize_t rows, Py_ssize_t columns,
                    Py_ssize_t itemsize) noexcept nogil:
    if itemsize == 1:
        _turn_tile(out, out_step, x, x_step, rows, columns, <uint8_t>0)
    elif itemsize == 2:
        _turn_tile(out, out_step, x, x_step, rows, columns, <uint16_t>0)
    elif itemsize == 4:
        _turn_tile(out, out_step, x, x_step, rows, columns, <uint32_t>0)
    elif itemsize == 8:
        _turn_tile(out, out_step, x, x_step, rows, columns, <uint64_t>0)


cdef inline void turn_panel(const Geometry* g, int d, Py_ssize_t itemsize, Py_ssize_t index) noexcept nogil:
    """One panel of tiles: LINE bytes of dimension d (contiguous in x) by the whole last dimension (contiguous in out)."""
    cdef int i, last = g.rank - 1
    cdef Py_ssize_t side = LINE // itemsize, blocks = (g.shape[d] + side - 1) // side, row = index % blocks * side, j
    cdef Py_ssize_t rows = min(side, g.shape[d] - row), position
    cdef char* out = g.base[0] + row * g.step[0][d]
    cdef char* x = g.base[1] + row * itemsize
    index //= blocks
    for i in range(last - 1, -1, -1):
        if i != d:
            position = index % g.shape[i]
            index //= g.shape[i]
            out += position * g.step[0][i]
            x += position * g.step[1][i]
    j = 0
    while j < g.shape[last]:
        turn_tile(out + j * itemsize, g.step[0][d], x + j * g.step[1][last], g.step[1][last], rows,
                  min(side, g.shape[last] - j), itemsize)
        j += side


cdef inline void turn(const Geometry* g, int d, Py_ssize_t itemsize) noexcept nogil:
    """A transposing copy, panel by panel."""
    cdef Py_ssize_t side = LINE // itemsize, blocks = (g.shape[d] + side - 1) // side, panel
    cdef Py_ssize_t panels = g.size // g.shape[d] // g.shape[g.rank - 1] * blocks
    cdef int threads = threads_for(g.size)
    if threads == 1:
        for panel in range(panels):
            turn_panel(g, d, itemsize, panel)
    else:
        for panel in prange(panels, num_threads=threads, schedule="static"):
            turn_panel(g, d, itemsize, panel)


cdef inline Py_ssize_t least(Py_ssize_t itemsize, bint out) noexcept nogil:
    """Fewest elements of the dimensions that are contiguous in `out`, or in the input: those of less are faster copied column by column."""
    if itemsize == 8:
        return 9
    return 8 if itemsize == 1 and out else 4 if itemsize == 2 and not out else 13


cdef inline int turned_dim(const Geometry* g, Py_ssize_t itemsize) noexcept nogil:
    """The dimension that is contiguous in the input where another, the last, is contiguous in the output; else -1."""
    cdef int last = g.rank - 1, d
    if g.step[0][last] != itemsize or g.step[1][last] == itemsize or g.step[1][last] == 0 or g.shape[last] < least(itemsize, True):
        return -1
    for d in range(last):
        if g.step[1][d] == itemsize and g.shape[d] >= least(itemsize, False):
            return d
    return -1
