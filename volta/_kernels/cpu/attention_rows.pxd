# Rows of queries, keys and values as the products of attention read them: behind one another in whole vectors, or as columns.
#
# Threads: none. Sizes: the caller's.
from libc.math cimport INFINITY, exp2
from libc.string cimport memcpy, memset

from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.powers cimport slopes, soften
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_run, lanes

cdef enum:
    WIDEST_VECTOR = 16

cdef extern from *:
    """
    #define VOLTA_UNIT 1.4426950408889634
    #define VOLTA_LOWEST -3e38
    """
    const double UNIT "VOLTA_UNIT"                          # of log 2 in one of log e
    const double LOWEST "VOLTA_LOWEST"                      # below all scores but -inf, and finite: exp(-inf - LOWEST) is 0


cdef inline void copy_rows(const real* x, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t width, Py_ssize_t full, real* out) noexcept nogil:
    """out[n][full]: rows behind one another, with zeros beyond their width."""
    cdef Py_ssize_t i
    for i in range(n):
        if width == full:
            copy_run(out + i * full, x + i * stride, full)
        else:
            memcpy(out + i * full, x + i * stride, width * sizeof(real))
            memset(out + i * full + width, 0, (full - width) * sizeof(real))


cdef inline const real* lined(const real* x, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t width, Py_ssize_t full, real* room) noexcept nogil:
    """n rows behind one another, of whole vectors: x itself, or a copy in `room`."""
    if stride == full and width == full:
        return x
    copy_rows(x, stride, n, width, full, room)
    return <const real*>room


cdef inline const real* scaled_rows(const real* x, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t width, Py_ssize_t full, double scale,
                             real* room) noexcept nogil:
    """n rows times scale, behind one another in `room`, of whole vectors."""
    cdef Py_ssize_t i
    copy_rows(x, stride, n, width, full, room)
    for i in range(n * full):
        room[i] *= <real>scale
    return <const real*>room


cdef inline void turn_panel(const real* x, Py_ssize_t stride, Py_ssize_t n, Py_ssize_t width, Py_ssize_t wide, double scale,
                     real* out) noexcept nogil:
    """out[width][wide]: n rows as columns, times scale."""
    cdef Py_ssize_t i
    pack(n, wide, width, x, stride, 1, out)
    if scale != 1:
        for i in range(width * wide):
            out[i] *= <real>scale


cdef inline void hide_future(Py_ssize_t first_query, Py_ssize_t first_key, Py_ssize_t keys, Py_ssize_t wide, real* scores) noexcept nogil:
    """-inf in scores[keys][wide] where the key comes after the query."""
    cdef Py_ssize_t i, j
    for i in range(max(<Py_ssize_t>0, first_query + 1 - first_key), keys):
        for j in range(min(wide, first_key + i - first_query)):
            scores[i * wide + j] = -INFINITY


cdef inline void forget(Py_ssize_t n, real* top, real* total) noexcept nogil:
    """Of n queries, no key has been seen."""
    cdef Py_ssize_t i
    for i in range(n):
        top[i] = <real>LOWEST
        total[i] = 0


cdef inline real row_powers(Py_ssize_t vectors, real* scores, real* top, real* total) noexcept nogil:
    """Powers of one query's scores in their place, against the largest so far: the factor of what was summed before."""
    cdef Py_ssize_t lane = lanes(scores), i, j
    cdef real[WIDEST_VECTOR] best
    cdef real[WIDEST_VECTOR] sums
    cdef real[WIDEST_VECTOR] factors
    cdef real largest = top[0], factor
    for i in range(lane):
        best[i] = largest
    for j in range(vectors):
        for i in range(lane):
            best[i] = max(best[i], scores[j * lane + i])
    for i in range(lane):
        largest = max(largest, best[i])
    factor = <real>exp2(top[0] - largest)
    top[0], total[0] = largest, total[0] * factor
    for i in range(lane):
        best[i], sums[i] = largest, 0
    soften(1, vectors, lane, scores, best, sums, factors)
    for i in range(lane):
        total[0] += sums[i]
    return factor


cdef inline void differentiate(Py_ssize_t n, Py_ssize_t used, Py_ssize_t ahead, Py_ssize_t line, const real* stats,
                               const real* delta, real* scores, real* products) noexcept nogil:
    """Probabilities in the place of scores, and their gradients by scores in that of the products of g and v, in rows of `line`. IN: ahead,
    how far the first query is beyond the first key."""
    cdef Py_ssize_t wide = 3 * lanes(scores), i, j
    slopes(used // lanes(scores), n, wide, line, stats, delta, scores, products)
    for i in range(min(n, used - 1 - ahead)):
        for j in range(max(<Py_ssize_t>0, i + ahead + 1), used):
            scores[i * wide + j] = products[i * line + j] = 0


cdef inline void add_parts(Py_ssize_t parts, Py_ssize_t n, Py_ssize_t size, const real* more, real* dq) noexcept nogil:
    """dq[n] += what all parts but the first have, each `size` behind the other."""
    cdef Py_ssize_t part, j
    for part in range(parts - 1):
        for j in range(n):
            dq[j] += more[part * size + j]


cdef inline void add_rows(Py_ssize_t n, Py_ssize_t width, double factor, const real* x, Py_ssize_t x_row, real* out,
                          Py_ssize_t out_row) noexcept nogil:
    """out[n][width] += factor * x[n][width]"""
    cdef Py_ssize_t i, e
    for i in range(n):
        for e in range(width):
            out[e] += x[e] * <real>factor
        x += x_row
        out += out_row
