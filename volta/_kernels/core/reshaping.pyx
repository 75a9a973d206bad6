# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The kernels of views under other shapes, in C since many calls come to little else. Knows geometry only."""
from volta._kernels.core.base cimport TensorBase, contiguous_strides, make_tensor
from volta._kernels.core.shapes import expand_strides, view_strides
from volta._kernels.core.size cimport plain

cdef object _copied = None                  # tensor -> a row-major copy, set by the record of views


def configure(copied):
    """Give this module what it calls where no view shows the elements."""
    global _copied
    _copied = copied


def reshape_kernel(TensorBase x not None, *, shape):
    """The elements in their order under another shape, copied where no strides show them so."""
    cdef tuple new = plain(shape), strides
    if not x.usual and (x.size or not x.contiguous):
        strides = view_strides(x.shape, x._strides, new)
        if strides is not None:
            return make_tensor(x.storage, new, strides, x.offset, x.dtype)
        x = _copied(x)
    return make_tensor(x.storage, new, contiguous_strides(new), x.offset, x.dtype)


def expand_kernel(TensorBase x not None, *, shape):
    """The elements repeated along enlarged dimensions, which all show the same memory."""
    cdef tuple new = plain(shape)
    return make_tensor(x.storage, new, expand_strides(x.shape, x._strides, new), x.offset, x.dtype)
