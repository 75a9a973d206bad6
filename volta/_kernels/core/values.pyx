# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Values of host tensors as Python's numbers."""
import struct

from volta._kernels.core.base cimport (
    BFLOAT16, BOOL, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, UINT8, TensorBase, address, check_read)


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
