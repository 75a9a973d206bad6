# What other kernels use of copy.pyx.in.
from volta._kernels.core.base cimport TensorBase

# A new row-major tensor with x's values.
cdef TensorBase contiguous_copy(TensorBase x)
# out[...] = x for tensors of one shape that share no memory; dtypes may differ.
cdef int copy_data(TensorBase out, TensorBase x) except -1
# Zero bytes, by several threads where there are many.
cdef void clear(char* out, Py_ssize_t nbytes) noexcept nogil
# Write a Python number as an element of a dtype. Raises: ArgumentError, naming `name`, where it does not fit.
cdef int put_number(char* out, int code, object value, str name) except -1
# Whether rows of x jump through memory while another dimension is contiguous.
cdef bint is_transposed(TensorBase x)

cdef enum:
    PAGE = 4096

cdef inline Py_ssize_t share(Py_ssize_t nbytes, int threads) noexcept nogil:
    """Bytes of a thread, in whole pages."""
    return ((nbytes + threads - 1) // threads + PAGE - 1) // PAGE * PAGE


cdef inline TensorBase packed(TensorBase t):
    """`t` where it is contiguous or None, else a row-major copy."""
    return t if t is None or t.contiguous else contiguous_copy(t)
