# Planes at another size whose last dimension is left as it is, as that of images that lie pixel by pixel is: sums of rows of it.
#
# Layout and tables: resample.pyx. An output is one sum of what all of its sources weigh. The transpose adds along the second dimension, and
#   then along the first what these sums weigh; which outputs take a source, and with what weight, is listed for each source.
# Threads: over rows, of which each sum is made by one. Sizes: the front end.

from cython.parallel cimport prange
from libc.string cimport memcpy

from volta._kernels.core.base cimport Storage, host_storage
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_line

cdef extern from *:
    """
    /* out[c] = the sum over e < count of f[e] x x[at[e] + c], for c < n. */
    #define VOLTA_WEIGHED_FEW(S, T, N)                                                                               \\
    static inline void volta_weighed##S##_##N(const T* f, const Py_ssize_t* at, const T* x, Py_ssize_t n, T* out) {  \\
        volta_v##S y[N], sum;                                                                                       \\
        const T* line[N];                                                                                           \\
        Py_ssize_t c; int e, rest = (int)(n % VOLTA_LANES##S);                                                      \\
        VOLTA_UNROLL for (e = 0; e < N; e++) { y[e] = VOLTA_SAME##S(f[e]); line[e] = x + at[e]; }                    \\
        for (c = 0; c < n - rest; c += VOLTA_LANES##S) {                                                            \\
            sum = y[0] * *(const volta_v##S*)(line[0] + c);                                                         \\
            VOLTA_UNROLL for (e = 1; e < N; e++) sum = VOLTA_MADD##S(y[e], *(const volta_v##S*)(line[e] + c), sum);  \\
            *(volta_v##S*)(out + c) = sum;                                                                          \\
        }                                                                                                           \\
        if (rest == 0) return;                                                                                      \\
        sum = y[0] * volta_part##S(line[0] + c, rest);                                                              \\
        VOLTA_UNROLL for (e = 1; e < N; e++) sum = VOLTA_MADD##S(y[e], volta_part##S(line[e] + c, rest), sum);       \\
        volta_put##S(out + c, sum, rest);                                                                           \\
    }
    #define VOLTA_WEIGHED(S, T)                                                                                      \\
    static void volta_weighed##S(Py_ssize_t count, const T* f, const Py_ssize_t* at, const T* x, Py_ssize_t n, T* out) { \\
        Py_ssize_t c = 0, e; int j, rest;                                                                           \\
        if (count == 0) { memset(out, 0, n * sizeof(T)); return; }                                                  \\
        if (count == 2) { volta_weighed##S##_2(f, at, x, n, out); return; }                                         \\
        if (count == 4) { volta_weighed##S##_4(f, at, x, n, out); return; }                                         \\
        for (; c + 4 * VOLTA_LANES##S <= n; c += 4 * VOLTA_LANES##S) {                                              \\
            const volta_v##S* line = (const volta_v##S*)(x + at[0] + c);                                            \\
            volta_v##S sum[4], y = VOLTA_SAME##S(f[0]);                                                             \\
            VOLTA_UNROLL for (j = 0; j < 4; j++) sum[j] = y * line[j];                                              \\
            for (e = 1; e < count; e++) {                                                                           \\
                line = (const volta_v##S*)(x + at[e] + c);                                                          \\
                y = VOLTA_SAME##S(f[e]);                                                                            \\
                VOLTA_UNROLL for (j = 0; j < 4; j++) sum[j] = VOLTA_MADD##S(y, line[j], sum[j]);                     \\
            }                                                                                                       \\
            VOLTA_UNROLL for (j = 0; j < 4; j++) ((volta_v##S*)(out + c))[j] = sum[j];                               \\
        }                                                                                                           \\
        for (; c < n; c += VOLTA_LANES##S) {                                                                        \\
            volta_v##S sum;                                                                                         \\
            rest = n - c < VOLTA_LANES##S ? (int)(n - c) : VOLTA_LANES##S;                                          \\
            sum = VOLTA_SAME##S(f[0]) * volta_part##S(x + at[0] + c, rest);                                          \\
            for (e = 1; e < count; e++)                                                                             \\
                sum = VOLTA_MADD##S(VOLTA_SAME##S(f[e]), volta_part##S(x + at[e] + c, rest), sum);                   \\
            volta_put##S(out + c, sum, rest);                                                                       \\
        }                                                                                                           \\
    }
    VOLTA_WEIGHED_FEW(32, float, 2)
    VOLTA_WEIGHED_FEW(32, float, 4)
    VOLTA_WEIGHED_FEW(64, double, 2)
    VOLTA_WEIGHED_FEW(64, double, 4)
    VOLTA_WEIGHED(32, float)
    VOLTA_WEIGHED(64, double)
    """
    void weighed32 "volta_weighed32"(Py_ssize_t count, const float* f, const Py_ssize_t* at, const float* x, Py_ssize_t n,
                                     float* out) noexcept nogil
    void weighed64 "volta_weighed64"(Py_ssize_t count, const double* f, const Py_ssize_t* at, const double* x, Py_ssize_t n,
                                     double* out) noexcept nogil
    void four32 "volta_weighed32_4"(const float* f, const Py_ssize_t* at, const float* x, Py_ssize_t n, float* out) noexcept nogil
    void four64 "volta_weighed64_4"(const double* f, const Py_ssize_t* at, const double* x, Py_ssize_t n, double* out) noexcept nogil

cdef struct Axis:
    Py_ssize_t size, length, taps, first            # of the source, of the output; rows of its table, where that begins
    bint plain                                      # whether the axis is left as it is
    bint ragged                                     # whether outputs take different numbers of sources: then a weight of 0 is no source
    bint halved                                     # whether output o takes sources 2 * o and 2 * o + 1
    bint doubled                                    # whether outputs 2 * i + 1 and 2 * i + 2 both take sources i and i + 1
    Py_ssize_t repeats                              # outputs side by side that have the same one source, where all have so many; else 0

cdef struct Grid:
    Axis axis[3]
    Py_ssize_t planes, entries                      # of all tables

cdef enum:
    SHORT_LINE = 256            # elements, which are copied here
    SUMS = 262144               # elements of the sums along one dimension, which stay in a cache


cdef inline void weighed(Py_ssize_t count, const real* f, const Py_ssize_t* at, const real* x, Py_ssize_t n, real* out) noexcept nogil:
    if real is float:
        weighed32(count, f, at, x, n, out)
    else:
        weighed64(count, f, at, x, n, out)


cdef inline void resample_line(Axis* y, const real* x, Py_ssize_t upper, Py_ssize_t lower, real by_upper, real by_lower, Py_ssize_t n,
                               const int* index, const real* weight, Py_ssize_t start, Py_ssize_t stop, real* out) noexcept nogil:
    """Rows start .. stop along the second dimension, of two sources along each."""
    cdef real[4] f
    cdef Py_ssize_t[4] at
    cdef Py_ssize_t o
    for o in range(start, stop):
        f[0], f[1] = by_upper * weight[o], by_upper * weight[y.length + o]
        f[2], f[3] = by_lower * weight[o], by_lower * weight[y.length + o]
        at[0], at[1] = upper + index[o] * n, upper + index[y.length + o] * n
        at[2], at[3] = lower + index[o] * n, lower + index[y.length + o] * n
        if real is float:
            four32(&f[0], &at[0], x, n, out)
        else:
            four64(&f[0], &at[0], x, n, out)
        out += n


cdef inline void take_pixels(Grid* p, const real* x, Py_ssize_t start, Py_ssize_t stop, const int* index, real* out) noexcept nogil:
    """Rows start .. stop of the output where each has one source: of a line of them whose sources were those of the line before, a copy."""
    cdef Axis* z = &p.axis[0]
    cdef Axis* y = &p.axis[1]
    cdef Py_ssize_t n = p.axis[2].size, oy = start % y.length, oz = start // y.length % z.length, o, count
    cdef const real* line
    cdef const real* before = NULL                  # the sources of the whole line that was written last
    x += start // y.length // z.length * z.size * y.size * n
    out += start * n
    while start < stop:
        count = min(y.length - oy, stop - start)
        line = x + index[z.first + oz] * y.size * n
        if line == before:
            memcpy(out, out - y.length * n, count * n * sizeof(real))
            out += count * n
        else:
            before = line if oy == 0 else NULL
            for o in range(oy, oy + count):
                if n <= SHORT_LINE:
                    copy_line(out, line + index[y.first + o] * n, n, n)
                else:
                    memcpy(out, line + index[y.first + o] * n, n * sizeof(real))
                out += n
        start += count
        oy, oz = 0, oz + 1
        if oz == z.length:
            oz = 0
            x += z.size * y.size * n


cdef inline void resample_pixels(Grid* p, const real* x, Py_ssize_t start, Py_ssize_t stop, const int* index, const real* weight,
                                 Py_ssize_t* at, real* f, real* out) noexcept nogil:
    """Rows start .. stop of the output. IN: at, f, room for the sources of one."""
    cdef Axis* z = &p.axis[0]
    cdef Axis* y = &p.axis[1]
    cdef Py_ssize_t n = p.axis[2].size, row, i, j, count, oy = start % y.length, oz = start // y.length % z.length, line
    cdef real factor
    if z.taps * y.taps == 1:
        take_pixels(p, x, start, stop, index, out)
        return
    x += start // y.length // z.length * z.size * y.size * n
    out += start * n
    if z.taps == y.taps == 2 and not (y.ragged or z.ragged):
        while start < stop:
            count = min(y.length - oy, stop - start)
            i, j = index[z.first + oz] * y.size * n, index[z.first + z.length + oz] * y.size * n
            resample_line(y, x, i, j, weight[z.first + oz], weight[z.first + z.length + oz], n, index + y.first, weight + y.first, oy,
                          oy + count, out)
            start += count
            out += count * n
            oy, oz = 0, oz + 1
            if oz == z.length:
                oz = 0
                x += z.size * y.size * n
        return
    for row in range(start, stop):
        count = 0
        for i in range(z.taps):
            factor = weight[z.first + i * z.length + oz]
            line = index[z.first + i * z.length + oz] * y.size
            for j in range(y.taps):
                f[count] = factor * weight[y.first + j * y.length + oy]
                at[count] = (line + index[y.first + j * y.length + oy]) * n
                count += f[count] != 0 or not (y.ragged or z.ragged)
        weighed(count, f, at, x, n, out)
        out += n
        oy += 1
        if oy == y.length:
            oy = 0
            oz += 1
        if oz == z.length:
            oz = 0
            x += z.size * y.size * n


# ---------------------------------------------------------------- the transpose

cdef struct Takers:
    Py_ssize_t* first                               # [size + 1] of each source's outputs,
    Py_ssize_t* at                                  # where they lie


cdef inline Py_ssize_t room_of(Axis* a, Py_ssize_t element) noexcept nogil:
    """Bytes of the lists of an axis."""
    return (a.size + 1 + a.taps * a.length) * sizeof(Py_ssize_t) + (a.taps * a.length + 1) // 2 * 2 * element


cdef inline Takers list_takers(Axis* a, const int* index, const real* weight, Py_ssize_t step, char* space, real* f) noexcept nogil:
    """The outputs, `step` apart, that take each source. OUT: their weights in f; the lists lie in `space`."""
    cdef Takers t
    cdef Py_ssize_t o, k, i
    t.first = <Py_ssize_t*>space
    t.at = t.first + a.size + 1
    for i in range(a.size + 1):
        t.first[i] = 0
    for i in range(a.taps * a.length):
        t.first[index[i] + 1] += weight[i] != 0 or not a.ragged
    for i in range(a.size):
        t.first[i + 1] += t.first[i]
    for o in range(a.length):                       # places in the order of the outputs; then each first is where the next begins
        for k in range(a.taps):
            if weight[k * a.length + o] != 0 or not a.ragged:
                i = index[k * a.length + o]
                f[t.first[i]], t.at[t.first[i]] = weight[k * a.length + o], o * step
                t.first[i] += 1
    for i in range(a.size, 0, -1):
        t.first[i] = t.first[i - 1]
    t.first[0] = 0
    return t


cdef inline void add_takers(Takers* t, const real* f, Py_ssize_t size, Py_ssize_t plane, Py_ssize_t n, Py_ssize_t start, Py_ssize_t stop,
                            const real* x, real* out) noexcept nogil:
    """Rows start .. stop of n elements, each of a source: sums of what lies in x, whose planes, of `size` sources, are `plane` apart."""
    cdef Py_ssize_t row, source = start % size
    x += start // size * plane
    for row in range(start, stop):
        weighed(t.first[source + 1] - t.first[source], f + t.first[source], t.at + t.first[source], x, n, out + row * n)
        source += 1
        if source == size:
            source = 0
            x += plane


cdef inline void grad_pixels(Grid* p, int threads, const real* g, const int* index, const real* weight, real* out):
    """The source's gradient. Allocates."""
    cdef Axis* z = &p.axis[0]
    cdef Axis* y = &p.axis[1]
    cdef Py_ssize_t n = p.axis[2].size, line = y.size * n, room = room_of(y, sizeof(real)), part, first, planes, rows
    cdef Py_ssize_t batch = max(1, min(p.planes, SUMS // (z.length * line)))
    cdef int t
    cdef Storage memory = host_storage(room + room_of(z, sizeof(real)) + (0 if z.plain else batch * z.length * line * sizeof(real)))
    cdef char* space = <char*>memory.data
    cdef real* by_y = <real*>(space + (y.size + 1 + y.taps * y.length) * sizeof(Py_ssize_t))
    cdef real* by_z = <real*>(space + room + (z.size + 1 + z.taps * z.length) * sizeof(Py_ssize_t))
    cdef real* sums = out if z.plain else <real*>(space + room + room_of(z, sizeof(real)))
    cdef Takers to_y = list_takers(y, index + y.first, weight + y.first, n, space, by_y)
    cdef Takers to_z = list_takers(z, index + z.first, weight + z.first, line, space + room, by_z)
    if z.plain:
        batch = p.planes
    with nogil:
        for part in range((p.planes + batch - 1) // batch):
            first = part * batch
            planes = min(batch, p.planes - first)
            rows = planes * z.length * y.size
            for t in prange(threads, num_threads=threads, schedule="static"):
                add_takers(&to_y, <const real*>by_y, y.size, y.length * n, n, rows * t // threads, rows * (t + 1) // threads,
                           g + first * z.length * y.length * n, sums)
            if z.plain:
                break
            for t in prange(threads, num_threads=threads, schedule="static"):
                add_takers(&to_z, <const real*>by_z, z.size, z.length * line, line, planes * z.size * t // threads,
                           planes * z.size * (t + 1) // threads, <const real*>sums, out + first * z.size * line)
