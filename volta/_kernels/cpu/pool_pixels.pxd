# Pooling of images and volumes whose channels lie together; see pool_pixels.pyx.
from libc.stdint cimport int64_t

from volta._kernels.cpu.pool_plan cimport Pool
from volta._kernels.cpu.real cimport real

cdef void pool_by_pixels(Pool* p, const real* x, Py_ssize_t images, Py_ssize_t n, bint mean, real* out,
                         int64_t* index) noexcept nogil
cdef void gradient_by_pixels(Pool* p, const real* g, const int64_t* index, Py_ssize_t images, Py_ssize_t n, Py_ssize_t outs,
                             Py_ssize_t size, real* out) noexcept nogil
