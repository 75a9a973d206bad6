# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Values of host tensors as Python's numbers."""
import struct

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from volta._kernels.core.base cimport (
    BFLOAT16, BOOL, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, TensorBase, address, check_read)


cdef enum:
    BLOCK = 1024                # elements that are compared before it is asked whether all were equal

ctypedef fused number:
    uint8_t
    int8_t
    int16_t
    int32_t
    int64_t
    float
    double


cdef object _value(const char* data, int code):
    cdef unsigned int bits
    if code == FLOAT32:
        return (<const float*>data)[0]
    if code == FLOAT64:
        return (<const double*>data)[0]
    if code == INT64:
        return (<const long long*>data)[0]
    if code == INT32:
        return (<const int*>data)[0]
    if code == BOOL:
        return (<const unsigned char*>data)[0] != 0
    if code == UINT8:
        return (<const unsigned char*>data)[0]
    if code == INT8:
        return (<const signed char*>data)[0]
    if code == INT16:
        return (<const short*>data)[0]
    if code == BFLOAT16:
        bits = <unsigned int>(<const unsigned short*>data)[0] << 16
        return (<float*>&bits)[0]
    return struct.unpack("e", data[:2])[0]


cdef object _nested(TensorBase t, const char* data, Py_ssize_t dim):
    """The values from dimension `dim` on as nested lists."""
    if dim == len(t.shape):
        return _value(data, t.dtype.code)
    cdef Py_ssize_t step = <Py_ssize_t>t._strides[dim] * t.dtype.itemsize, i
    cdef list out = []
    for i in range(<Py_ssize_t>t.shape[dim]):
        out.append(_nested(t, data + i * step, dim + 1))
    return out


def read_scalar(TensorBase t not None):
    """The value of a one-element host tensor as a Python number."""
    check_read(t)
    return _value(address(t), t.dtype.code)


def to_list(TensorBase t not None):
    """The values of a host tensor as nested lists of Python numbers; of a 0-d tensor the number."""
    check_read(t)
    return _nested(t, address(t), 0)


cdef bint _same(const number* a, const number* b, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, start
    cdef int differ = 0
    for i in range((n + BLOCK - 1) // BLOCK):
        for start in range(i * BLOCK, min((i + 1) * BLOCK, n)):
            differ |= a[start] != b[start]
        if differ:
            return False
    return True


def same_values(TensorBase a not None, TensorBase b not None):
    """Whether two host tensors hold equal numbers, of which NaN equals none; None where this can't tell: unless they are contiguous, of
    one dtype and size, and for 16-bit floats."""
    cdef int code = a.dtype.code
    cdef char* x = address(a)
    cdef char* y = address(b)
    if b.dtype.code != code or b.size != a.size or not (a.contiguous and b.contiguous):
        return None
    check_read(a)
    check_read(b)
    if code == FLOAT32:
        return _same(<const float*>x, <const float*>y, a.size)
    if code == FLOAT64:
        return _same(<const double*>x, <const double*>y, a.size)
    if code == INT64:
        return _same(<const int64_t*>x, <const int64_t*>y, a.size)
    if code == INT32:
        return _same(<const int32_t*>x, <const int32_t*>y, a.size)
    if code == INT16:
        return _same(<const int16_t*>x, <const int16_t*>y, a.size)
    if code == INT8 or code == UINT8 or code == BOOL:
        return _same(<const uint8_t*>x, <const uint8_t*>y, a.size)
    return None
