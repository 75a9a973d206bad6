# What the kernel families ask of their tensors: an element type, and the sizes around a dimension.
from volta._kernels.core.base cimport FLOAT32, FLOAT64, TensorBase, address, no_float, two_types


cdef inline int same_type(str name, TensorBase t, TensorBase other) except -1:
    """Raises: DTypeError, naming the op, unless the elements of `other` (None is none) are those of `t`, as which they are read."""
    if other is None or other.dtype is t.dtype:
        return 0
    raise two_types(name, t.dtype, other.dtype)


cdef inline int float_code(str name, TensorBase t, TensorBase a=None, TensorBase b=None, TensorBase c=None, TensorBase d=None) except -1:
    """FLOAT32 or FLOAT64, of all these tensors. Raises: DTypeError, naming the op, for anything else and for two dtypes."""
    cdef int code = t.dtype.code
    if code != FLOAT32 and code != FLOAT64:
        raise no_float(name, t.dtype)
    same_type(name, t, a)
    same_type(name, t, b)
    same_type(name, t, c)
    same_type(name, t, d)
    return code


cdef inline void* pointer(TensorBase t) noexcept:
    """Address of the first element; NULL for None."""
    return NULL if t is None else address(t)


cdef inline void split_at(tuple shape, Py_ssize_t dim, Py_ssize_t* outer, Py_ssize_t* length, Py_ssize_t* inner):
    """Sizes before, of and after a dimension; a tensor of rank 0 counts as one of shape (1,)."""
    cdef Py_ssize_t i
    outer[0] = length[0] = inner[0] = 1
    for i in range(len(shape)):
        if i < dim:
            outer[0] *= <Py_ssize_t>shape[i]
        elif i == dim:
            length[0] = shape[i]
        else:
            inner[0] *= <Py_ssize_t>shape[i]
