# Rows of queries, keys and values as the products of attention read them: behind one another in whole vectors, or as columns.
#
# Threads: none. Sizes: the caller's.
from libc.string cimport memcpy, memset

from volta._kernels.cpu.gemm cimport pack
from volta._kernels.cpu.real cimport real
from volta._kernels.cpu.tile cimport copy_run


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
