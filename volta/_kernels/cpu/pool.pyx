# Pooling over one to three dimensions: maxima and averages of windows, and their gradients.
#
# Layout: planes [N * C] of depth x height x width, contiguous; fewer dimensions have size 1 in front. A place is an index into a plane.
# Windows: one fixed size, or (adaptive) from floor(o * n / m) to ceil((o + 1) * n / m); what of one is inside is listed once an axis.
# Ties: the first maximum in row-major order wins; a NaN wins, the last of several. Padding never wins; of padding alone -inf, at -1.
# Threads: over lines of outputs; gradients over planes, so that they need no atomics and have a fixed order. Sizes: the front end.

from cython.parallel cimport prange
from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memset

from volta.errors import DTypeError

from volta._kernels.core.base cimport FLOAT32, INT64, TensorBase, address, dtype_of, empty_host
from volta._kernels.core.threads cimport threads_for
from volta._kernels.cpu.tile cimport real
from volta._kernels.core.views cimport float_code
from volta._kernels.cpu.copy cimport packed

cdef extern from *:
    """
    #if defined(_MSC_VER)
      #define VOLTA_RESTRICT __restrict
      #define VOLTA_APART __declspec(noinline)
    #else
      #define VOLTA_RESTRICT __restrict__
      #define VOLTA_APART __attribute__((noinline))
    #endif
    /* Take v where it is larger or NaN. */
    #define VOLTA_POOL_STEP(v, i) { int wins = (v > top) | (v != v); k = wins ? i : k; top = wins ? v : top; }
    /* a where mask is -1, b where it is 0, without a branch, since none could be foreseen. */
    #define VOLTA_POOL_PICK(mask, a, b) (((a) & (mask)) | ((b) & ~(mask)))
    #define VOLTA_POOL_LINE(T, STRIDE, I)                                                                           \\
        for (j = 0; j < n; j++) {                                                                                   \\
            T v = x[j * STRIDE];                                                                                    \\
            I wins = -(I)((v > out[j]) | (v != v));                                                                 \\
            bits[j] = VOLTA_POOL_PICK(wins, ((const I*)x)[j * STRIDE], bits[j]);                                    \\
            place[j] = VOLTA_POOL_PICK(wins, at + (I)j * (I)STRIDE, place[j]);                                      \\
        }
    #define VOLTA_POOL(S, T, I)                                                                                     \\
    /* Maxima of 2 x 2 windows of two lines; place 0..3 in row-major order. Selects only. */                        \\
    static void volta_pool_2x2_##S(const T* VOLTA_RESTRICT x, const T* VOLTA_RESTRICT y, Py_ssize_t n,              \\
                                   T* VOLTA_RESTRICT out, I* VOLTA_RESTRICT place) {                                \\
        Py_ssize_t j;                                                                                               \\
        for (j = 0; j < n; j++) {                                                                                   \\
            T a = x[2 * j], b = x[2 * j + 1], c = y[2 * j], d = y[2 * j + 1], top = a;                              \\
            I k = 0;                                                                                                \\
            VOLTA_POOL_STEP(b, 1) VOLTA_POOL_STEP(c, 2) VOLTA_POOL_STEP(d, 3)                                       \\
            place[j] = k;                                                                                           \\
            out[j] = top;                                                                                           \\
        }                                                                                                           \\
    }                                                                                                               \\
    /* One element of each of n windows side by side: the elements lie `stride` apart from place `at` on. */        \\
    static VOLTA_APART void volta_pool_some_##S(const T* VOLTA_RESTRICT x, Py_ssize_t stride, I at, Py_ssize_t n,   \\
                                                T* VOLTA_RESTRICT out, I* VOLTA_RESTRICT place) {                   \\
        Py_ssize_t j;                                                                                               \\
        I* bits = (I*)out;                                                                                          \\
        if (stride == 1) { VOLTA_POOL_LINE(T, 1, I) }                                                               \\
        else if (stride == 2) { VOLTA_POOL_LINE(T, 2, I) }                                                          \\
        else { VOLTA_POOL_LINE(T, stride, I) }                                                                      \\
    }                                                                                                               \\
    /* The same by whole vectors: where the last one is none, 16 before the end. To take an element twice changes nothing. */ \\
    static void volta_pool_line_##S(const T* x, Py_ssize_t stride, I at, Py_ssize_t n, T* out, I* place) {          \\
        Py_ssize_t rest = n > 16 ? n % 16 : 0, last = n - 16;                                                       \\
        volta_pool_some_##S(x, stride, at, n - rest, out, place);                                                   \\
        if (rest) volta_pool_some_##S(x + last * stride, stride, at + (I)(last * stride), 16, out + last, place + last); \\
    }                                                                                                               \\
    /* The places that n windows of a line begin with: at + start, or -1 where nothing is inside. */                \\
    static void volta_pool_begin_##S(const int64_t* VOLTA_RESTRICT start, const int64_t* VOLTA_RESTRICT count,      \\
                                     long long at, int some, Py_ssize_t n, T* VOLTA_RESTRICT out,                   \\
                                     I* VOLTA_RESTRICT place) {                                                     \\
        Py_ssize_t j;                                                                                               \\
        for (j = 0; j < n; j++) {                                                                                   \\
            out[j] = -INFINITY;                                                                                     \\
            place[j] = (I)(some && count[j] > 0 ? at + start[j] : -1);                                              \\
        }                                                                                                           \\
    }                                                                                                               \\
    /* n neighbours of one window, from place `at` on. Of few no branch is taken, since none could be foreseen. */  \\
    static void volta_pool_run_##S(const T* VOLTA_RESTRICT x, Py_ssize_t step, Py_ssize_t n, long long at,          \\
                                   T* VOLTA_RESTRICT out, int64_t* VOLTA_RESTRICT place) {                          \\
        T top = *out;                                                                                               \\
        Py_ssize_t i, k = -1;                                                                                       \\
        for (i = 0; i < n; i++) {                                                                                   \\
            T v = x[i * step];                                                                                      \\
            if (n < 16) {                                                                                           \\
                k = (v > top) | (v != v) ? i : k;                                                                   \\
                top = k < 0 ? top : x[k * step];                                                                    \\
            } else if (v > top || v != v) {                                                                         \\
                top = v;                                                                                            \\
                k = i;                                                                                              \\
            }                                                                                                       \\
        }                                                                                                           \\
        *out = top;                                                                                                 \\
        *place = k < 0 ? *place : at + k * step;                                                                    \\
    }                                                                                                               \\
    static void volta_sum_line_##S(const T* VOLTA_RESTRICT x, Py_ssize_t stride, Py_ssize_t n,                      \\
                                   T* VOLTA_RESTRICT out) {                                                         \\
        Py_ssize_t j;                                                                                               \\
        if (stride == 1) for (j = 0; j < n; j++) out[j] += x[j];                                                    \\
        else if (stride == 2) for (j = 0; j < n; j++) out[j] += x[2 * j];                                           \\
        else for (j = 0; j < n; j++) out[j] += x[j * stride];                                                       \\
    }
    VOLTA_POOL(32, float, int)
    VOLTA_POOL(64, double, long long)
    """
    void pool_2x2_32 "volta_pool_2x2_32"(const float*, const float*, Py_ssize_t, float*, int*) noexcept nogil
    void pool_2x2_64 "volta_pool_2x2_64"(const double*, const double*, Py_ssize_t, double*, long long*) noexcept nogil
    void pool_line_32 "volta_pool_line_32"(const float*, Py_ssize_t, int, Py_ssize_t, float*, int*) noexcept nogil
    void pool_line_64 "volta_pool_line_64"(const double*, Py_ssize_t, long long, Py_ssize_t, double*, long long*) noexcept nogil
    void pool_begin_32 "volta_pool_begin_32"(const int64_t*, const int64_t*, long long, bint, Py_ssize_t, float*, int*) noexcept nogil
    void pool_begin_64 "volta_pool_begin_64"(const int64_t*, const int64_t*, long long, bint, Py_ssize_t, double*, long long*) noexcept nogil
    void pool_run_32 "volta_pool_run_32"(const float*, Py_ssize_t, Py_ssize_t, long long, float*, int64_t*) noexcept nogil
    void pool_run_64 "volta_pool_run_64"(const double*, Py_ssize_t, Py_ssize_t, long long, double*, int64_t*) noexcept nogil
    void sum_line_32 "volta_sum_line_32"(const float*, Py_ssize_t, Py_ssize_t, float*) noexcept nogil
    void sum_line_64 "volta_sum_line_64"(const double*, Py_ssize_t, Py_ssize_t, double*) noexcept nogil

cdef enum:
    LINE = 256                  # windows of one line that are worked at a time

cdef struct Axis:
    Py_ssize_t n, outs, kernel, stride, padding, step
    int64_t* start              # of each output, the first element inside (one that exists, where there is none),
    int64_t* count              # how many there are, `step` apart,
    int64_t* span               # and how many an average divides by

cdef struct Pool:
    Axis z, y, x
    Py_ssize_t planes, size, outs
    bint adaptive
    double divisor              # 0: by the spans


# ---------------------------------------------------------------- windows

cdef void list_windows(Axis* a, bint adaptive, bint count_padding) noexcept nogil:
    cdef Py_ssize_t o, first, last, skipped
    for o in range(a.outs):
        if adaptive:
            first = o * a.n // a.outs
            a.start[o], a.count[o] = first, ((o + 1) * a.n + a.outs - 1) // a.outs - first
            a.span[o] = a.count[o]
            continue
        first = o * a.stride - a.padding
        last = first + a.kernel * a.step - a.step
        skipped = (-first + a.step - 1) // a.step if first < 0 else 0
        a.start[o] = first + skipped * a.step
        last = min(last, a.n - 1)
        a.count[o] = (last - a.start[o]) // a.step + 1 if last >= a.start[o] else 0
        a.start[o] = min(<Py_ssize_t>a.start[o], a.n - 1)
        a.span[o] = min(first + a.kernel, a.n + a.padding) - first if count_padding else a.count[o]


cdef TensorBase begin(Pool* p, tuple sizes, tuple outs, kernel, stride, padding, dilation, bint count_padding, double divisor):
    """Fill the description of a pooling of planes of `sizes` into `outs`. Gives the owner of its lists, which must outlive it."""
    cdef Axis* axes[3]
    cdef Py_ssize_t i, rank = len(sizes), total = 0
    axes[0], axes[1], axes[2] = &p.z, &p.y, &p.x
    p.adaptive, p.divisor = kernel is None, divisor
    p.size = p.outs = 1
    for i in range(3):
        axes[i].n = axes[i].outs = axes[i].kernel = axes[i].stride = axes[i].step = 1
        axes[i].padding = 0
        if i >= 3 - rank:
            axes[i].n, axes[i].outs = sizes[i - 3 + rank], outs[i - 3 + rank]
        if i >= 3 - rank and not p.adaptive:
            axes[i].kernel, axes[i].stride, axes[i].padding = kernel[i - 3 + rank], stride[i - 3 + rank], padding[i - 3 + rank]
            axes[i].step = 1 if dilation is None else dilation[i - 3 + rank]
        p.size *= axes[i].n
        p.outs *= axes[i].outs
        total += axes[i].outs
    cdef TensorBase lists = empty_host((3 * total,), dtype_of(INT64))
    cdef int64_t* at = <int64_t*>address(lists)
    for i in range(3):
        axes[i].start, axes[i].count, axes[i].span = at, at + axes[i].outs, at + 2 * axes[i].outs
        at += 3 * axes[i].outs
        list_windows(axes[i], p.adaptive, count_padding)
    return lists


cdef inline double divisor_of(Pool* p, Py_ssize_t z, Py_ssize_t y, Py_ssize_t x) noexcept nogil:
    return p.divisor if p.divisor != 0 else <double>(p.z.span[z] * p.y.span[y] * p.x.span[x])


cdef inline void inside(Axis* a, Py_ssize_t k, Py_ssize_t* first, Py_ssize_t* last) noexcept nogil:
    """The outputs first .. last whose window has its element k inside."""
    cdef Py_ssize_t shift = k * a.step - a.padding
    first[0] = min((-shift + a.stride - 1) // a.stride if shift < 0 else 0, a.outs)
    last[0] = max(min((a.n - 1 - shift) // a.stride + 1 if shift < a.n else 0, a.outs), first[0])


# ---------------------------------------------------------------- maxima

cdef void max_windows(Pool* p, const real* x, Py_ssize_t at, Py_ssize_t start, Py_ssize_t stop, real* out, int64_t* index) noexcept nogil:
    """Take a row of a plane, which begins at place `at`, into the windows start .. stop of a line, one by one."""
    cdef Py_ssize_t o, first
    for o in range(start, stop):
        first = at + p.x.start[o]
        if real is float:
            pool_run_32(x + first, p.x.step, p.x.count[o], first, out + o, index + o)
        else:
            pool_run_64(x + first, p.x.step, p.x.count[o], first, out + o, index + o)


cdef void max_row(Pool* p, const real* x, Py_ssize_t at, Py_ssize_t start, Py_ssize_t stop, real* out, int* place32,
                  long long* place64) noexcept nogil:
    """The same, side by side."""
    cdef Py_ssize_t o, k, first, last
    for k in range(p.x.kernel):
        inside(&p.x, k, &first, &last)
        first, last = max(first, start), min(last, stop)
        if first >= last:
            continue
        o = at + first * p.x.stride + k * p.x.step - p.x.padding
        if real is float:
            pool_line_32(x + o, p.x.stride, <int>o, last - first, out + first, place32 + first - start)
        else:
            pool_line_64(x + o, p.x.stride, o, last - first, out + first, place64 + first - start)


cdef void max_line(Pool* p, const real* x, Py_ssize_t z, Py_ssize_t y, real* out, int64_t* index) noexcept nogil:
    cdef int place32[LINE]
    cdef long long place64[LINE]
    cdef Py_ssize_t o, i, j, at, start = 0, stop, corner = (p.z.start[z] * p.y.n + p.y.start[y]) * p.x.n
    cdef bint some = p.z.count[z] > 0 and p.y.count[y] > 0, windows = p.adaptive or p.size > 0x7FFFFFFF
    while start < p.x.outs:
        stop = min(start + LINE, p.x.outs)
        if real is float:
            pool_begin_32(p.x.start + start, p.x.count + start, corner, some, stop - start, out + start, place32)
        else:
            pool_begin_64(p.x.start + start, p.x.count + start, corner, some, stop - start, out + start, place64)
        for o in range(start, stop if windows else start):
            index[o] = corner + p.x.start[o] if some and p.x.count[o] else -1
        for i in range(p.z.count[z]):
            for j in range(p.y.count[y]):
                at = (p.z.start[z] + i * p.z.step) * p.y.n + p.y.start[y] + j * p.y.step
                if windows:
                    max_windows(p, x, at * p.x.n, start, stop, out, index)
                else:
                    max_row(p, x, at * p.x.n, start, stop, out, place32, place64)
        for o in range(start, start if windows else stop):
            index[o] = place32[o - start] if real is float else place64[o - start]
        start = stop


cdef void max_line_2x2(Pool* p, const real* x, Py_ssize_t y, real* out, int64_t* index) noexcept nogil:
    """Windows of 2 x 2 with stride 2, LINE at a time."""
    cdef int place32[LINE]
    cdef long long place64[LINE]
    cdef Py_ssize_t j, n, o = 0, at, width = p.x.n
    while o < p.x.outs:
        n, at = min(LINE, p.x.outs - o), 2 * y * width + 2 * o
        if real is float:
            pool_2x2_32(x + at, x + at + width, n, out + o, place32)
            for j in range(n):
                index[o + j] = at + 2 * j + (place32[j] & 1) + (place32[j] >> 1) * width
        else:
            pool_2x2_64(x + at, x + at + width, n, out + o, place64)
            for j in range(n):
                index[o + j] = at + 2 * j + (place64[j] & 1) + (place64[j] >> 1) * width
        o += n


cdef void max_lines(Pool* p, const real* x, Py_ssize_t first, Py_ssize_t last, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t line, plane, z, y, lines = p.z.outs * p.y.outs
    cdef bint plain = p.z.n == p.z.outs == 1 and not p.adaptive and p.z.kernel == p.y.step == p.x.step == 1 and (
        p.y.kernel == p.x.kernel == p.y.stride == p.x.stride == 2 and p.y.padding == p.x.padding == 0
        and 2 * p.y.outs <= p.y.n and 2 * p.x.outs <= p.x.n)
    for line in range(first, last):
        plane, z, y = line // lines, line // p.y.outs % p.z.outs, line % p.y.outs
        if plain:
            max_line_2x2(p, x + plane * p.size, y, out + line * p.x.outs, index + line * p.x.outs)
        else:
            max_line(p, x + plane * p.size, z, y, out + line * p.x.outs, index + line * p.x.outs)


cdef void max_all(Pool* p, const real* x, real* out, int64_t* index) noexcept nogil:
    cdef Py_ssize_t lines = p.planes * p.z.outs * p.y.outs
    cdef int threads = threads_for(max(p.planes * p.size, p.planes * p.outs * p.z.kernel * p.y.kernel * p.x.kernel)), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        max_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out, index)


def max_pool(TensorBase x not None, tuple size not None, kernel=None, stride=None, padding=None, dilation=None):
    """(out, index): the largest of each window of x[N, C, ...], and its place. IN: size, the output's; no kernel: adaptive windows."""
    cdef Pool p
    cdef int code = float_code("max_pool", x)
    x = packed(x)
    cdef TensorBase lists = begin(&p, x.shape[2:], size, kernel, stride, padding, dilation, False, 0)
    p.planes = <Py_ssize_t>x.shape[0] * <Py_ssize_t>x.shape[1]
    cdef tuple shape = x.shape[:2] + size
    cdef TensorBase out = empty_host(shape, x.dtype), index = empty_host(shape, dtype_of(INT64))
    cdef void* source = address(x)
    cdef void* target = address(out)
    cdef int64_t* places = <int64_t*>address(index)
    if out.size:
        with nogil:
            if code == FLOAT32:
                max_all(&p, <const float*>source, <float*>target, places)
            else:
                max_all(&p, <const double*>source, <double*>target, places)
    return out, index


cdef void spread_planes(const real* g, const int64_t* index, Py_ssize_t first, Py_ssize_t last, Py_ssize_t outs, Py_ssize_t size,
                        real* out) noexcept nogil:
    """Planes first .. last: each gradient to the place that its maximum came from."""
    cdef Py_ssize_t plane, i
    cdef real* y
    memset(out + first * size, 0, (last - first) * size * sizeof(real))
    for plane in range(first, last):
        y = out + plane * size
        for i in range(plane * outs, (plane + 1) * outs):
            if 0 <= index[i] < size:
                y[index[i]] += g[i]


cdef void spread(const real* g, const int64_t* index, Py_ssize_t planes, Py_ssize_t outs, Py_ssize_t size, real* out) noexcept nogil:
    cdef int threads = threads_for(planes * (outs * 2 + size)), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        spread_planes(g, index, planes * t // threads, planes * (t + 1) // threads, outs, size, out)


def max_pool_grad(TensorBase g not None, TensorBase index not None, tuple size not None, kernel=None, stride=None, padding=None,
                  dilation=None):
    """Gradient of max_pool with respect to its input [N, C, *size]. The windows are not needed here."""
    cdef int code = float_code("max_pool_grad", g)
    if index.dtype.code != INT64:
        raise DTypeError(f"max_pool_grad: index must be int64, got {index.dtype.name}; convert it with .long()")
    g, index = packed(g), packed(index)
    cdef Py_ssize_t planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef TensorBase out = empty_host(g.shape[:2] + size, g.dtype)
    cdef Py_ssize_t outs = g.size // max(planes, <Py_ssize_t>1), pixels = out.size // max(planes, <Py_ssize_t>1)
    cdef void* source = address(g)
    cdef void* target = address(out)
    cdef const int64_t* places = <const int64_t*>address(index)
    with nogil:
        if code == FLOAT32:
            spread(<const float*>source, places, planes, outs, pixels, <float*>target)
        else:
            spread(<const double*>source, places, planes, outs, pixels, <double*>target)
    return out


# ---------------------------------------------------------------- averages

cdef void sum_row(Pool* p, const real* x, real* out) noexcept nogil:
    """Add a row of a plane to a line of sums."""
    cdef Py_ssize_t o, k, first, last
    if p.adaptive:
        for o in range(p.x.outs):
            for k in range(p.x.start[o], p.x.start[o] + p.x.count[o]):
                out[o] += x[k]
        return
    for k in range(p.x.kernel):
        inside(&p.x, k, &first, &last)
        if real is float:
            sum_line_32(x + first * p.x.stride + k - p.x.padding, p.x.stride, last - first, out + first)
        else:
            sum_line_64(x + first * p.x.stride + k - p.x.padding, p.x.stride, last - first, out + first)


cdef void avg_lines(Pool* p, const real* x, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef Py_ssize_t line, plane, z, y, i, j, o
    cdef real* sums
    for line in range(first, last):
        plane, z, y = line // (p.z.outs * p.y.outs), line // p.y.outs % p.z.outs, line % p.y.outs
        sums = out + line * p.x.outs
        memset(sums, 0, p.x.outs * sizeof(real))
        for i in range(p.z.start[z], p.z.start[z] + p.z.count[z]):
            for j in range(p.y.start[y], p.y.start[y] + p.y.count[y]):
                sum_row(p, x + plane * p.size + (i * p.y.n + j) * p.x.n, sums)
        for o in range(p.x.outs):
            sums[o] = <real>(sums[o] / divisor_of(p, z, y, o))


cdef void avg_all(Pool* p, const real* x, real* out) noexcept nogil:
    cdef Py_ssize_t lines = p.planes * p.z.outs * p.y.outs
    cdef int threads = threads_for(max(p.planes * p.size, p.planes * p.outs * p.z.kernel * p.y.kernel * p.x.kernel)), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        avg_lines(p, x, lines * t // threads, lines * (t + 1) // threads, out)


def avg_pool(TensorBase x not None, tuple size not None, kernel=None, stride=None, padding=None, bint count_padding=True, divisor=None):
    """Averages of windows of x[N, C, ...]. IN: size, the output's; no kernel: adaptive windows."""
    cdef Pool p
    cdef int code = float_code("avg_pool", x)
    x = packed(x)
    cdef TensorBase lists = begin(&p, x.shape[2:], size, kernel, stride, padding, None, count_padding, divisor or 0)
    p.planes = <Py_ssize_t>x.shape[0] * <Py_ssize_t>x.shape[1]
    cdef TensorBase out = empty_host(x.shape[:2] + size, x.dtype)
    cdef void* source = address(x)
    cdef void* target = address(out)
    if out.size:
        with nogil:
            if code == FLOAT32:
                avg_all(&p, <const float*>source, <float*>target)
            else:
                avg_all(&p, <const double*>source, <double*>target)
    return out


cdef void share_line(Pool* p, const real* g, Py_ssize_t z, Py_ssize_t y, real* out) noexcept nogil:
    """Add each gradient of a line, divided, to all of its window in a plane."""
    cdef Py_ssize_t i, j, k, o, rows = p.z.count[z], columns = p.y.count[y], width = p.x.n, height = p.y.n
    cdef real share
    cdef real* row
    for o in range(p.x.outs):
        share = <real>(g[o] / divisor_of(p, z, y, o))
        for i in range(rows):
            row = out + ((p.z.start[z] + i) * height + p.y.start[y]) * width + p.x.start[o]
            for j in range(columns):
                for k in range(p.x.count[o]):
                    row[k] += share
                row += width


cdef void share_planes(Pool* p, const real* g, Py_ssize_t first, Py_ssize_t last, real* out) noexcept nogil:
    cdef Py_ssize_t plane, z, y
    memset(out + first * p.size, 0, (last - first) * p.size * sizeof(real))
    for plane in range(first, last):
        for z in range(p.z.outs):
            for y in range(p.y.outs):
                share_line(p, g + ((plane * p.z.outs + z) * p.y.outs + y) * p.x.outs, z, y, out + plane * p.size)


cdef void share_all(Pool* p, const real* g, real* out) noexcept nogil:
    cdef int threads = threads_for(max(p.planes * p.size, p.planes * p.outs * p.z.kernel * p.y.kernel * p.x.kernel)), t
    for t in prange(threads, num_threads=threads, schedule="static"):
        share_planes(p, g, p.planes * t // threads, p.planes * (t + 1) // threads, out)


def avg_pool_grad(TensorBase g not None, tuple size not None, kernel=None, stride=None, padding=None, bint count_padding=True,
                  divisor=None):
    """Gradient of avg_pool with respect to its input [N, C, *size]."""
    cdef Pool p
    cdef int code = float_code("avg_pool_grad", g)
    g = packed(g)
    cdef TensorBase lists = begin(&p, size, g.shape[2:], kernel, stride, padding, None, count_padding, divisor or 0)
    p.planes = <Py_ssize_t>g.shape[0] * <Py_ssize_t>g.shape[1]
    cdef TensorBase out = empty_host(g.shape[:2] + size, g.dtype)
    cdef void* source = address(g)
    cdef void* target = address(out)
    with nogil:
        if code == FLOAT32:
            share_all(&p, <const float*>source, <float*>target)
        else:
            share_all(&p, <const double*>source, <double*>target)
    return out


KERNELS = {"max_pool": max_pool, "max_pool_grad": max_pool_grad, "avg_pool": avg_pool, "avg_pool_grad": avg_pool_grad}
