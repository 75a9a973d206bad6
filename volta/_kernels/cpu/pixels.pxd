# Images and volumes [N, C, ...] that lie with the channels of each pixel together, without gaps: as rows of channels, and back.
from cpython.tuple cimport PyTuple_GET_SIZE

from volta._kernels.core.base cimport TensorBase, make_tensor
from volta._kernels.core.order cimport pixel_strides, pixelwise


cdef inline TensorBase pixel_rows(TensorBase x):
    """x as [pixels of all images, C]; None where it does not lie so, as PyTorch tells (that of one image the step to the next would be
    too small, say). What is row-major, too, is left as that."""
    cdef Py_ssize_t n = PyTuple_GET_SIZE(x.shape), size, i
    if x.contiguous or not pixelwise(x):
        return None
    cdef Py_ssize_t channels = x.shape[1], step = channels
    if channels > 1 and <Py_ssize_t>x._strides[1] != 1:
        return None
    for i in range(n - 1, -1, -1):
        size = x.shape[i]
        if i != 1:
            if size > 1 and <Py_ssize_t>x._strides[i] != step:
                return None
            step *= size
    return make_tensor(x.storage, (x.size // channels, channels), (channels, 1), x.offset, x.dtype)


cdef inline TensorBase from_rows(TensorBase rows, tuple shape):
    """Images of this shape from such rows."""
    return make_tensor(rows.storage, shape, pixel_strides(shape), rows.offset, rows.dtype)


cdef inline TensorBase rows_of_points(TensorBase x, tuple kernel, tuple stride, tuple padding, Py_ssize_t groups):
    """`pixel_rows` of what a kernel of one point passes over, so that a convolution is one product; else None."""
    if x.contiguous or groups != 1:
        return None
    for n in kernel + stride:
        if n != 1:
            return None
    for n in padding:
        if n != 0:
            return None
    return pixel_rows(x)


cdef inline TensorBase points(TensorBase weight):
    """The weight of such a kernel as a matrix [O, C]."""
    return make_tensor(weight.storage, weight.shape[:2], weight._strides[:2], weight.offset, weight.dtype)
