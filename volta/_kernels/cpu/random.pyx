# Random numbers by counter, exactly as volta/random.py lays them out, and dropout over the same bits.
#
# Layout: contiguous outputs. BLOCK counters (4 words each) are worked at a time, one vector lane a counter.
# Threads: over blocks; every element depends on its own counter only. Sizes: the front end.
# Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2 (Philox 4x32, 10 rounds).

from cython.parallel cimport prange
from libc.math cimport cos, log, sin, sqrt, sqrtf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from volta._kernels.core.base cimport (
    BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType, TensorBase, address, dtype_of, empty_host, empty_host_like)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu cimport philox as rounds          # C text alone: its name is that of the function here
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.doubles cimport cos_f64, exp_f64, log_f64, sin_f64
from volta._kernels.cpu.scalar cimport ceil_f32, ceil_f64, cos_f32, exp_f32, log_f32, sin_f32
from volta._kernels.core.views cimport float_code, pointer
from volta._kernels.core.size cimport plain

from volta.errors import DTypeError

cdef extern from *:
    """
    #define VOLTA_PHILOX_BLOCK 64
    #define VOLTA_PHILOX_FEW 16
    #if defined(__GNUC__)
    #define VOLTA_PHILOX_INLINE static inline __attribute__((always_inline))
    #else
    #define VOLTA_PHILOX_INLINE static inline
    #endif
    VOLTA_PHILOX_INLINE void volta_philox_of(const int count, uint64_t seed, uint64_t counter, uint64_t high, uint32_t *words) {
        int i;
        for (i = 0; i < count; i++) {
            uint64_t n = counter + (uint64_t)i;
            uint32_t four[4] = {(uint32_t)n, (uint32_t)(n >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
            volta_philox_rounds(four, (uint32_t)seed, (uint32_t)(seed >> 32));
            words[i] = four[0];
            words[1 * VOLTA_PHILOX_BLOCK + i] = four[1];
            words[2 * VOLTA_PHILOX_BLOCK + i] = four[2];
            words[3 * VOLTA_PHILOX_BLOCK + i] = four[3];
        }
    }
    /* words[4][BLOCK] = Philox of the 128-bit counters (high, counter + i), of which `count` are needed. A plain loop over counters:
       vector code, shorter where few are needed. */
    static void volta_philox(uint64_t seed, uint64_t counter, uint64_t high, uint32_t *words, ptrdiff_t count) {
        if (count <= VOLTA_PHILOX_FEW)
            volta_philox_of(VOLTA_PHILOX_FEW, seed, counter, high, words);
        else
            volta_philox_of(VOLTA_PHILOX_BLOCK, seed, counter, high, words);
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
    void philox "volta_philox"(uint64_t seed, uint64_t counter, uint64_t high, uint32_t* words, Py_ssize_t count) noexcept nogil
    float turn "volta_turn"(float u, int quarter) noexcept nogil

cdef enum:
    BLOCK = 64                  # counters at a time
    WORDS = 256                 # their words
    FEW = 16                    # counters, where a draw needs no more
    COST = 4                    # a word against one element of a cheap loop


# ---------------------------------------------------------------- bits

cdef inline void fill_words(uint64_t seed, uint64_t offset, Py_ssize_t block, uint32_t* words, Py_ssize_t count) noexcept nogil:
    """The first `count` words of a block, of WORDS, in the order of the elements."""
    cdef uint32_t lanes[WORDS]
    cdef Py_ssize_t i
    count = (count + 3) // 4
    philox(seed, offset + <uint64_t>block * BLOCK, 0, lanes, count)
    for i in range(count if count <= FEW else <Py_ssize_t>BLOCK):
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
# Each draw has two numbers, and dropout an input as well.

cdef enum Draw:
    UNIFORM                     # a + b * u
    NORMAL                      # a + b * z, z by Box-Muller
    DROPOUT                     # x * b, or 0 where u < a
    BERNOULLI                   # 1 where u < a, else 0
    EXPONENTIAL                 # a * ln(1 - u)
    GEOMETRIC                   # ln(1 - u) / a, rounded up, at least 1
    CAUCHY                      # a + b * tan(pi (u - 1 / 2))
    LOG_NORMAL                  # exp(a + b * z)
    INTEGERS                    # of [a, a + b)
    CHANCES                     # 1 where u < out, else 0


cdef inline void normal_block(const uint32_t* words, real mean, real std, real* pairs, Py_ssize_t count) noexcept nogil:
    """Box-Muller of so many pairs of a block."""
    cdef Py_ssize_t i
    cdef real radius, u
    for i in range(count):
        u = unit(words[2 * i + 1], mean)
        if real is float:
            radius = sqrtf(-2 * log_f32(1 - unit(words[2 * i], mean))) * std
            pairs[2 * i] = mean + radius * turn(u, 1)
            pairs[2 * i + 1] = mean + radius * turn(u, 0)
        else:
            radius = sqrt(-2 * log(1 - unit(words[2 * i], mean))) * std
            pairs[2 * i] = mean + radius * cos(6.283185307179586 * u)
            pairs[2 * i + 1] = mean + radius * sin(6.283185307179586 * u)


cdef void draw_block(Draw draw, const real* x, real* out, Py_ssize_t size, double first, double second, uint64_t seed, uint64_t offset,
                     Py_ssize_t block) noexcept nogil:
    """One block of out[size]. Of integers, the two numbers are not rounded to `real`."""
    cdef real a = <real>first, b = <real>second
    cdef uint32_t words[WORDS]
    cdef real pairs[WORDS]
    cdef Py_ssize_t i, at = block * WORDS, n = min(WORDS, size - at)
    cdef real u
    fill_words(seed, offset, block, words, n)
    out += at
    if draw == UNIFORM:
        for i in range(n):
            out[i] = a + b * unit(words[i], a)
    elif draw == BERNOULLI:
        for i in range(n):
            out[i] = 1 if unit(words[i], a) < a else 0
    elif draw == EXPONENTIAL:
        for i in range(n):
            out[i] = a * (log_f32(1 - unit(words[i], a)) if real is float else log_f64(1 - unit(words[i], a)))
    elif draw == GEOMETRIC:
        for i in range(n):
            u = (log_f32(1 - unit(words[i], a)) if real is float else log_f64(1 - unit(words[i], a))) / a
            u = ceil_f32(u) if real is float else ceil_f64(u)
            out[i] = u if u > 1 else 1
    elif draw == CAUCHY:
        for i in range(n):
            u = (unit(words[i], a) - <real>0.5) * <real>3.141592653589793
            out[i] = a + b * (sin_f32(u) / cos_f32(u) if real is float else sin_f64(u) / cos_f64(u))
    elif draw == INTEGERS:
        for i in range(n):
            out[i] = <real>(<int64_t>first + <int64_t>((words[i] * <uint64_t>second) >> 32))
    elif draw == CHANCES:
        for i in range(n):
            out[i] = 1 if unit(words[i], a) < out[i] else 0
    elif draw == DROPOUT:
        for i in range(n):
            out[i] = x[at + i] * (b if unit(words[i], a) >= a else 0)
    elif n == WORDS:
        normal_block(<const uint32_t*>words, a, b, out, WORDS // 2)
    else:
        normal_block(<const uint32_t*>words, a, b, pairs, min((n // 2 + 16) // 16 * 16, <Py_ssize_t>(WORDS // 2)))
        for i in range(n):
            out[i] = pairs[i]
    if draw == LOG_NORMAL:
        for i in range(n):
            out[i] = exp_f32(out[i]) if real is float else exp_f64(out[i])


cdef void draw_all(Draw draw, const real* x, real* out, Py_ssize_t size, double a, double b, uint64_t seed, uint64_t offset) noexcept nogil:
    cdef Py_ssize_t block
    if 0 < size <= WORDS:                       # a loop over threads takes longer than this
        draw_block(draw, x, out, size, a, b, seed, offset, 0)
        return
    for block in prange((size + WORDS - 1) // WORDS, num_threads=threads_for(size * COST), schedule="static"):
        draw_block(draw, x, out, size, a, b, seed, offset, block)


cdef void randint_block(int64_t* out, int32_t* narrow, Py_ssize_t size, int64_t low, uint64_t span, uint64_t seed, uint64_t offset,
                        Py_ssize_t block) noexcept nogil:
    cdef uint32_t words[WORDS]
    cdef Py_ssize_t i, at = block * WORDS
    fill_words(seed, offset, block, words, min(WORDS, size - at))
    if narrow != NULL:
        for i in range(min(WORDS, size - at)):
            narrow[at + i] = <int32_t>(low + <int64_t>((words[i] * span) >> 32))
        return
    for i in range(min(WORDS, size - at)):
        out[at + i] = low + <int64_t>((words[i] * span) >> 32)


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
            philox(seed, offset + <uint64_t>i // 4, high, lanes, BLOCK)
        words.append(lanes[i % 4 * BLOCK + i % WORDS // 4])
    return words


cdef TensorBase drawn(str name, Draw draw, TensorBase x, TensorBase out, double a, double b, uint64_t seed, uint64_t offset):
    """`out`, filled. Raises: DTypeError for another dtype than float32 and float64."""
    if out.dtype.code == FLOAT32:
        draw_all(draw, <const float*>pointer(x), <float*>address(out), out.size, a, b, seed, offset)
    elif out.dtype.code == FLOAT64:
        draw_all(draw, <const double*>pointer(x), <double*>address(out), out.size, a, b, seed, offset)
    else:
        raise refusal(name, out.dtype)
    return out


def uniform(shape, double low, double high, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """low + (high - low) * u."""
    shape = plain(shape)
    return drawn("uniform", UNIFORM, None, empty_host(shape, dtype), low, high - low, seed, offset)


def normal(shape, double mean, double std, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """mean + std * z."""
    shape = plain(shape)
    return drawn("normal", NORMAL, None, empty_host(shape, dtype), mean, std, seed, offset)


cdef TensorBase converted_to(TensorBase x, DType dtype):
    cdef TensorBase out = empty_host(x.shape, dtype)
    copy_data(out, x)
    return out


def randint(shape, int64_t low, int64_t high, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """Integers of [low, high). IN: high - low <= 2**32."""
    shape = plain(shape)
    cdef bint short = dtype.code == INT32
    cdef TensorBase out = empty_host(shape, dtype if short else dtype_of(INT64)), converted
    cdef Py_ssize_t size = out.size, block
    cdef int64_t* data = NULL if short else <int64_t*>address(out)
    cdef int32_t* narrow = <int32_t*>address(out) if short else NULL
    if dtype.code == BOOL or dtype.code == FLOAT16:
        raise refusal("randint", dtype)
    if size <= WORDS:                           # a loop over threads takes as long as this
        randint_block(data, narrow, size, low, <uint64_t>(high - low), seed, offset, 0)
        return out if short or dtype.code == INT64 else converted_to(out, dtype)
    for block in prange((size + WORDS - 1) // WORDS, num_threads=threads_for(size * COST), schedule="static", nogil=True):
        randint_block(data, narrow, size, low, <uint64_t>(high - low), seed, offset, block)
    return out if short or dtype.code == INT64 else converted_to(out, dtype)


def dropout(TensorBase x not None, double p, uint64_t seed, uint64_t offset):
    """x * mask / (1 - p), where the mask is u >= p of each element; p = 1 drops all."""
    float_code("dropout", x)
    x = packed(x)
    return drawn("dropout", DROPOUT, x, empty_host_like(x, x.dtype), p, 1 / (1 - p) if p < 1 else 0, seed, offset)


cdef dict _DRAWS = {"uniform": UNIFORM, "normal": NORMAL, "bernoulli": BERNOULLI, "exponential": EXPONENTIAL, "geometric": GEOMETRIC,
                    "cauchy": CAUCHY, "log_normal": LOG_NORMAL, "integers": INTEGERS, "chances": CHANCES}


def draw_into(TensorBase out not None, str kind, double a, double b, uint64_t seed, uint64_t offset):
    """Into `out` uniform numbers of [a, b), normal ones of mean a and deviation b, 1 with the probability a (else 0), or a times the
    logarithms of uniform ones: exponential ones; and what else `Draw` has. IN: "integers" are at most 2**32 ones, exact in float64."""
    cdef Draw draw = <Draw><int>_DRAWS[kind]
    cdef TensorBase numbers = packed(out) if out.contiguous or draw == CHANCES else empty_host(out.shape, out.dtype)
    drawn(kind, draw, None, numbers, a, b - a if draw == UNIFORM else b, seed, offset)
    if numbers is not out:
        copy_data(out, numbers)


KERNELS = {"uniform": uniform, "normal": normal, "randint": randint, "dropout": dropout, "draw_into": draw_into}
