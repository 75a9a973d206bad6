# Random numbers by counter, exactly as volta/random.py lays them out, and dropout over the same bits.
#
# Layout: contiguous outputs. BLOCK counters (4 words each) are worked at a time, one vector lane a counter.
# Threads: over blocks; every element depends on its own counter only. Sizes: the front end.
# Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2 (Philox 4x32, 10 rounds).

from cython.parallel cimport prange
from libc.math cimport cos, log, sin, sqrt, sqrtf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from volta._kernels.core.base cimport (
    FLOAT32, FLOAT64, INT32, INT64, UINT8, DType, TensorBase, address, empty_host, empty_host_like)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.scalar cimport log_f32
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport float_code, packed

from volta.errors import DTypeError

cdef extern from *:
    """
    #define VOLTA_PHILOX_BLOCK 64
    /* words[4][BLOCK] = Philox of the 128-bit counters (high, counter + i). A plain loop over counters: vector code. */
    static void volta_philox(uint64_t seed, uint64_t counter, uint64_t high, uint32_t *words) {
        int i, round;
        for (i = 0; i < VOLTA_PHILOX_BLOCK; i++) {
            uint64_t n = counter + (uint64_t)i;
            uint32_t a = (uint32_t)n, b = (uint32_t)(n >> 32);
            uint32_t c = (uint32_t)high, d = (uint32_t)(high >> 32);
            uint32_t k = (uint32_t)seed, l = (uint32_t)(seed >> 32);
            for (round = 0; round < 10; round++) {
                uint64_t p = (uint64_t)a * 0xD2511F53u, q = (uint64_t)c * 0xCD9E8D57u;
                a = (uint32_t)(q >> 32) ^ b ^ k;
                b = (uint32_t)q;
                c = (uint32_t)(p >> 32) ^ d ^ l;
                d = (uint32_t)p;
                k += 0x9E3779B9u;
                l += 0xBB67AE85u;
            }
            words[i] = a;
            words[1 * VOLTA_PHILOX_BLOCK + i] = b;
            words[2 * VOLTA_PHILOX_BLOCK + i] = c;
            words[3 * VOLTA_PHILOX_BLOCK + i] = d;
        }
    }
    /* cos and sin of 2 pi u, 0 <= u < 1: u is a multiple of a quarter and a rest that float32 holds exactly. */
    static inline float volta_turn(float u, int quarter) {
        float t = u * 4.0f + 0.5f;
        int q = (int)t;
        float r = (u * 4.0f - (float)q) * 1.57079633f, z = r * r;
        float s = ((2.72438115e-6f * z - 1.98400390e-4f) * z + 8.33333191e-3f) * z - 1.66666672e-1f;
        float c = ((-2.72958573e-7f * z + 2.48005599e-5f) * z - 1.38888881e-3f) * z + 4.16666679e-2f;
        float y;
        s = s * (z * r) + r;
        c = c * (z * z) - 0.5f * z + 1.0f;
        q += quarter;
        y = q & 1 ? c : s;
        return q & 2 ? -y : y;
    }
    """
    void philox "volta_philox"(uint64_t seed, uint64_t counter, uint64_t high, uint32_t* words) noexcept nogil
    float turn "volta_turn"(float u, int quarter) noexcept nogil

cdef enum:
    BLOCK = 64                  # counters at a time
    WORDS = 256                 # their words
    COST = 4                    # a word against one element of a cheap loop

ctypedef fused number:
    uint8_t
    int32_t
    int64_t
    float
    double


# ---------------------------------------------------------------- bits

cdef inline void fill_words(uint64_t seed, uint64_t offset, Py_ssize_t block, uint32_t* words) noexcept nogil:
    """The WORDS words of a block in the order of the elements."""
    cdef uint32_t lanes[WORDS]
    cdef Py_ssize_t i
    philox(seed, offset + <uint64_t>block * BLOCK, 0, lanes)
    for i in range(BLOCK):
        words[4 * i] = lanes[i]
        words[4 * i + 1] = lanes[BLOCK + i]
        words[4 * i + 2] = lanes[2 * BLOCK + i]
        words[4 * i + 3] = lanes[3 * BLOCK + i]


cdef inline real unit(uint32_t bits, real kind) noexcept nogil:
    """A number in [0, 1). `kind` only names the type."""
    if real is float:
        return <float>(<int32_t>(bits >> 8)) * <float>5.9604644775390625e-08
    else:
        return bits * 2.3283064365386963e-10


# ---------------------------------------------------------------- the draws, a block at a time
# IN: n <= WORDS elements are wanted; OUT: out[n].

cdef inline void uniform_block(const uint32_t* words, Py_ssize_t n, real low, real span, real* out) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = low + span * unit(words[i], low)


cdef inline void normal_block(const uint32_t* words, real mean, real std, real* pairs) noexcept nogil:
    """Box-Muller of a whole block."""
    cdef Py_ssize_t i
    cdef real radius, u
    for i in range(WORDS // 2):
        u = unit(words[2 * i + 1], mean)
        if real is float:
            radius = sqrtf(-2 * log_f32(1 - unit(words[2 * i], mean))) * std
            pairs[2 * i] = mean + radius * turn(u, 1)
            pairs[2 * i + 1] = mean + radius * turn(u, 0)
        else:
            radius = sqrt(-2 * log(1 - unit(words[2 * i], mean))) * std
            pairs[2 * i] = mean + radius * cos(6.283185307179586 * u)
            pairs[2 * i + 1] = mean + radius * sin(6.283185307179586 * u)


cdef inline void dropout_block(const uint32_t* words, Py_ssize_t n, const real* x, real p, real scale,
                               real* out) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = x[i] * (scale if unit(words[i], p) >= p else 0)


# ---------------------------------------------------------------- all blocks

cdef void uniform_blocks(real* out, Py_ssize_t size, real low, real span, uint64_t seed, uint64_t offset,
                         Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef uint32_t words[WORDS]
    cdef Py_ssize_t block
    for block in range(first, last):
        fill_words(seed, offset, block, words)
        uniform_block(<const uint32_t*>words, min(WORDS, size - block * WORDS), low, span, out + block * WORDS)


cdef void normal_blocks(real* out, Py_ssize_t size, real mean, real std, uint64_t seed, uint64_t offset,
                        Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef uint32_t words[WORDS]
    cdef real pairs[WORDS]
    cdef Py_ssize_t block, i
    for block in range(first, last):
        fill_words(seed, offset, block, words)
        if size - block * WORDS >= WORDS:
            normal_block(<const uint32_t*>words, mean, std, out + block * WORDS)
        else:
            normal_block(<const uint32_t*>words, mean, std, pairs)
            for i in range(size - block * WORDS):
                out[block * WORDS + i] = pairs[i]


cdef void randint_blocks(number* out, Py_ssize_t size, int64_t low, uint64_t span, uint64_t seed, uint64_t offset,
                         Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef uint32_t words[WORDS]
    cdef Py_ssize_t block, i
    for block in range(first, last):
        fill_words(seed, offset, block, words)
        for i in range(min(WORDS, size - block * WORDS)):
            out[block * WORDS + i] = <number>(low + <int64_t>((words[i] * span) >> 32))


cdef void dropout_blocks(const real* x, real* out, Py_ssize_t size, real p, real scale, uint64_t seed, uint64_t offset,
                         Py_ssize_t first, Py_ssize_t last) noexcept nogil:
    cdef uint32_t words[WORDS]
    cdef Py_ssize_t block
    for block in range(first, last):
        fill_words(seed, offset, block, words)
        dropout_block(<const uint32_t*>words, min(WORDS, size - block * WORDS), x + block * WORDS, p, scale,
                      out + block * WORDS)


cdef Py_ssize_t blocks_of(Py_ssize_t size) noexcept nogil:
    return (size + WORDS - 1) // WORDS


cdef void uniform_all(real* out, Py_ssize_t size, real low, real span, uint64_t seed, uint64_t offset) noexcept nogil:
    cdef int threads = threads_for(size * COST), t
    cdef Py_ssize_t n = blocks_of(size)
    for t in prange(threads, num_threads=threads, schedule="static"):
        uniform_blocks(out, size, low, span, seed, offset, n * t // threads, n * (t + 1) // threads)


cdef void normal_all(real* out, Py_ssize_t size, real mean, real std, uint64_t seed, uint64_t offset) noexcept nogil:
    cdef int threads = threads_for(size * COST), t
    cdef Py_ssize_t n = blocks_of(size)
    for t in prange(threads, num_threads=threads, schedule="static"):
        normal_blocks(out, size, mean, std, seed, offset, n * t // threads, n * (t + 1) // threads)


cdef void randint_all(number* out, Py_ssize_t size, int64_t low, uint64_t span, uint64_t seed,
                      uint64_t offset) noexcept nogil:
    cdef int threads = threads_for(size * COST), t
    cdef Py_ssize_t n = blocks_of(size)
    for t in prange(threads, num_threads=threads, schedule="static"):
        randint_blocks(out, size, low, span, seed, offset, n * t // threads, n * (t + 1) // threads)


cdef void dropout_all(const real* x, real* out, Py_ssize_t size, real p, real scale, uint64_t seed,
                      uint64_t offset) noexcept nogil:
    cdef int threads = threads_for(size * COST), t
    cdef Py_ssize_t n = blocks_of(size)
    for t in prange(threads, num_threads=threads, schedule="static"):
        dropout_blocks(x, out, size, p, scale, seed, offset, n * t // threads, n * (t + 1) // threads)


# ---------------------------------------------------------------- tensors

cdef object refusal(str name, DType dtype):
    return DTypeError(f"{name}: the CPU does not draw {dtype.name}; draw float32 (or int64) and cast it")


def philox_bits(Py_ssize_t n, uint64_t seed, uint64_t offset, uint64_t high=0):
    """The first n words of the stream `seed` from counter `offset`, as a list; `high` is the counter's upper half."""
    cdef uint32_t lanes[WORDS]
    cdef Py_ssize_t i
    cdef list words = []
    for i in range(n):
        if i % WORDS == 0:
            philox(seed, offset + <uint64_t>i // 4, high, lanes)
        words.append(lanes[i % 4 * BLOCK + i % WORDS // 4])
    return words


def uniform(tuple shape, double low, double high, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """low + (high - low) * u."""
    cdef TensorBase out = empty_host(shape, dtype)
    if dtype.code == FLOAT32:
        uniform_all[float](<float*>address(out), out.size, <float>low, <float>(high - low), seed, offset)
    elif dtype.code == FLOAT64:
        uniform_all[double](<double*>address(out), out.size, low, high - low, seed, offset)
    else:
        raise refusal("uniform", dtype)
    return out


def normal(tuple shape, double mean, double std, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """mean + std * z."""
    cdef TensorBase out = empty_host(shape, dtype)
    if dtype.code == FLOAT32:
        normal_all[float](<float*>address(out), out.size, <float>mean, <float>std, seed, offset)
    elif dtype.code == FLOAT64:
        normal_all[double](<double*>address(out), out.size, mean, std, seed, offset)
    else:
        raise refusal("normal", dtype)
    return out


def randint(tuple shape, int64_t low, int64_t high, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """Integers of [low, high). IN: high - low <= 2**32."""
    cdef TensorBase out = empty_host(shape, dtype)
    cdef uint64_t span = <uint64_t>(high - low)
    if dtype.code == INT64:
        randint_all[int64_t](<int64_t*>address(out), out.size, low, span, seed, offset)
    elif dtype.code == INT32:
        randint_all[int32_t](<int32_t*>address(out), out.size, low, span, seed, offset)
    elif dtype.code == UINT8:
        randint_all[uint8_t](<uint8_t*>address(out), out.size, low, span, seed, offset)
    elif dtype.code == FLOAT32:
        randint_all[float](<float*>address(out), out.size, low, span, seed, offset)
    elif dtype.code == FLOAT64:
        randint_all[double](<double*>address(out), out.size, low, span, seed, offset)
    else:
        raise refusal("randint", dtype)
    return out


def dropout(TensorBase x not None, double p, uint64_t seed, uint64_t offset):
    """x * mask / (1 - p), where the mask is u >= p of each element; p = 1 drops all."""
    cdef int code = float_code("dropout", x)
    cdef double scale = 1 / (1 - p) if p < 1 else 0
    x = packed(x)
    cdef TensorBase out = empty_host_like(x, x.dtype)
    if code == FLOAT32:
        dropout_all[float](<float*>address(x), <float*>address(out), x.size, <float>p, <float>scale, seed, offset)
    else:
        dropout_all[double](<double*>address(x), <double*>address(out), x.size, p, scale, seed, offset)
    return out


KERNELS = {"uniform": uniform, "normal": normal, "randint": randint, "dropout": dropout}
