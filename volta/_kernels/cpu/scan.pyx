# Scans along one dimension.
#
# Layout: x seen as [outer, length, inner], made contiguous; a line runs with a step of inner.
# Threads: over lines, so that results do not depend on their number. Sums: in float64. Sizes: the front end.

from cython.parallel cimport prange

from volta._kernels.core.base cimport FLOAT32, TensorBase, address, empty_host_like
from volta._kernels.core.threads cimport threads_for
from volta._kernels.core.views cimport float_code, split_at
from volta._kernels.cpu.copy cimport packed
from volta._kernels.cpu.tile cimport real


cdef void cumsum_line(const real* x, real* out, Py_ssize_t length, Py_ssize_t inner) noexcept nogil:
    """One line. OUT: out. IN: x."""
    cdef Py_ssize_t i
    cdef double total = 0
    for i in range(length):
        total += x[i * inner]
        out[i * inner] = <real>total


cdef void cumsum_run(const real* x, real* out, Py_ssize_t lines, Py_ssize_t length, Py_ssize_t inner) noexcept nogil:
    cdef Py_ssize_t line, at
    for line in prange(lines, num_threads=threads_for(lines * length * 2), schedule="static"):
        at = line // inner * length * inner + line % inner
        cumsum_line(x + at, out + at, length, inner)


def cumsum(TensorBase x not None, Py_ssize_t dim):
    """Running sums along dim."""
    cdef int code = float_code("cumsum", x)
    cdef Py_ssize_t outer = 0, length = 0, inner = 0
    cdef TensorBase out
    cdef void* source
    cdef void* target
    x = packed(x)
    out = empty_host_like(x, x.dtype)
    source, target = address(x), address(out)
    split_at(x.shape, dim, &outer, &length, &inner)
    if x.size:
        with nogil:
            if code == FLOAT32:
                cumsum_run(<const float*>source, <float*>target, outer * inner, length, inner)
            else:
                cumsum_run(<const double*>source, <double*>target, outer * inner, length, inner)
    return out


KERNELS = {"cumsum": cumsum}
