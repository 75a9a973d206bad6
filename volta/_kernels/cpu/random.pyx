# Random numbers by counter, exactly as volta/random.py lays them out, and dropout over the same bits.
#
# Layout: contiguous outputs. BLOCK counters (4 words each) are worked at a time, one vector lane a counter.
# Threads: over blocks; every element depends on its own counter only. Sizes: the front end.
# Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2 (Philox 4x32, 10 rounds).

from cython.parallel cimport prange, threadid
from libc.math cimport cos, log, sin, sqrt, sqrtf
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from volta._kernels.core.base cimport (
    BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, DType, Storage, TensorBase, address, dtype_of, empty_host, empty_host_like, host_storage)
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.copy cimport copy_data, packed
from volta._kernels.cpu.philox cimport philox
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.shuffle cimport deal, order
from volta._kernels.cpu.doubles cimport cos_f64, exp_f64, log_f64, sin_f64
from volta._kernels.cpu.scalar cimport ceil_f32, ceil_f64, cos_f32, exp_f32, log_f32, sin_f32
from volta._kernels.core.views cimport float_code, pointer
from volta._kernels.core.size cimport plain

from volta.errors import ArgumentError, DTypeError

cdef extern from *:
    """
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
    float turn "volta_turn"(float u, int quarter) noexcept nogil

cdef enum:
    BLOCK = 64                  # counters at a time
    WORDS = 256                 # their words
    COST = 4                    # a word against one element of a cheap loop
    WHOLE = 4096                # items of a line that is not parted, at most; of others, parts have up to
    PART = 1024                 # about
    SHARED = 6144               # items from which threads share a line
    PARTS = 512                 # into which a line is parted, at most


# ---------------------------------------------------------------- bits

cdef inline void fill_words(uint64_t seed, uint64_t offset, Py_ssize_t block, uint32_t* words, Py_ssize_t count) noexcept nogil:
    """The first `count` words of a block, of WORDS, and more, to a multiple of 32."""
    philox(seed, offset + <uint64_t>block * BLOCK, 0, words, (count + 31) // 32 * 8)


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
        normal_block(<const uint32_t*>words, a, b, pairs, (n + 31) // 32 * 16)
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


# ---------------------------------------------------------------- orders

cdef inline int bits_for(Py_ssize_t n) noexcept nogil:
    """The bits of a number below n."""
    cdef int bits = 0
    while (<Py_ssize_t>1 << bits) < n:
        bits += 1
    return bits


cdef bint shuffle_line(uint64_t* out, char* memory, Py_ssize_t n, Py_ssize_t room, int above, int bits, int threads, int64_t low,
                       uint64_t seed, uint64_t offset, Py_ssize_t start) noexcept nogil:
    """The n numbers from `low` in the order of the words from `start` on; gives False where a part has more items than there is room for.
    IN: memory of each thread for parts of so many items and their counts, and for counts of bins."""
    cdef Py_ssize_t parts = <Py_ssize_t>1 << above, blocks = (start + n + WORDS - 1) // WORDS, stride = parts * room, d, total = 0
    cdef uint64_t* items = <uint64_t*>memory
    cdef uint32_t* counts = <uint32_t*>(items + threads * stride)
    cdef uint32_t* bins = counts + threads * parts
    cdef uint32_t starts[PARTS + 1]
    cdef int t
    if threads == 1:
        deal(items, counts, room, above, seed, offset, start, 0, n)
    else:
        for t in prange(threads, num_threads=threads, schedule="static"):
            deal(items + t * stride, counts + t * parts, room, above, seed, offset, start, max(blocks * t // threads * WORDS - start, 0),
                 min(blocks * (t + 1) // threads * WORDS - start, n))
    for d in range(parts):
        starts[d] = <uint32_t>total
        for t in range(threads):
            if counts[t * parts + d] > room:
                return False
            total += counts[t * parts + d]
    starts[parts] = <uint32_t>total
    if threads == 1:
        for d in range(parts):
            order(items + d * room, counts + d, stride, parts, 1, out + starts[d], starts[d + 1] - starts[d], above, bits, bins, low)
        return True
    for d in prange(parts, num_threads=threads, schedule="dynamic"):
        order(items + d * room, counts + d, stride, parts, threads, out + starts[d], starts[d + 1] - starts[d], above, bits,
              bins + (<Py_ssize_t>threadid() << bits), low)
    return True


# ---------------------------------------------------------------- tensors

cdef object refusal(str name, DType dtype):
    return DTypeError(f"{name}: the CPU does not draw {dtype.name}; draw float32 (or int64) and cast it")


def philox_bits(Py_ssize_t n, uint64_t seed, uint64_t offset, uint64_t high=0):
    """The first n words of the stream `seed` from counter `offset`, as a list; `high` is the counter's upper half."""
    cdef uint32_t drawn[WORDS]
    cdef Py_ssize_t i
    cdef list words = []
    for i in range(n):
        if i % WORDS == 0:
            philox(seed, offset + <uint64_t>i // 4, high, drawn, BLOCK)
        words.append(drawn[i % WORDS])
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
    cdef TensorBase out = empty_host(shape, dtype if short else dtype_of(INT64))
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


def shuffled(shape, int64_t low, int64_t high, uint64_t seed, uint64_t offset, DType dtype not None, device=None):
    """Lines of the integers of [low, high), each in the order of its words, the lower place first where two are equal."""
    shape = plain(shape)
    cdef TensorBase out = empty_host(shape, dtype_of(INT64))
    cdef Py_ssize_t n = shape[len(shape) - 1] if shape else 0, line, room = n
    cdef int above = 0, bits = bits_for(n), threads = threads_for(n * COST * 2) if n >= SHARED else 1
    cdef uint64_t* data = <uint64_t*>address(out)
    cdef Storage memory, whole
    cdef bint done
    if not shape or n != high - low or n >= <Py_ssize_t>1 << 32:
        raise ArgumentError(f"shuffled: {high - low} integers do not make lines of a tensor of shape {tuple(shape)}")
    if n > WHOLE:
        above = min(bits_for((n + PART - 1) // PART), 9)
        bits = bits_for((n >> above) + 1)
        room = (n >> above) // threads
        room += 8 * <Py_ssize_t>sqrt(room) + 64         # eight deviations more than the mean
    memory = host_storage(threads * (8 * (room << above) + 4 * (<Py_ssize_t>1 << above)) + 4 * threads * (<Py_ssize_t>1 << bits) + 64)
    for line in range(out.size // n if n else 0):
        done = shuffle_line(data + line * n, memory.data, n, room, above, bits, threads, low, seed, offset, line * n)
        if not done:                                    # which random words do not come to: one part has room for all
            whole = host_storage(8 * n + 8 * (<Py_ssize_t>1 << bits_for(n)) + 64)
            shuffle_line(data + line * n, whole.data, n, n, 0, bits_for(n), 1, low, seed, offset, line * n)
    return out if dtype.code == INT64 else converted_to(out, dtype)


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


KERNELS = {"uniform": uniform, "normal": normal, "randint": randint, "shuffled": shuffled, "dropout": dropout, "draw_into": draw_into}
