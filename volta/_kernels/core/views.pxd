# What the kernel families ask of their tensors: an element type, and one piece of memory in row-major order.
# Copies are plain loops of one thread: these kernels are nearly always given contiguous tensors.

from libc.string cimport memcpy

from volta._kernels.core.base cimport FLOAT32, FLOAT64, MAX_RANK, TensorBase, address, empty_host, no_float, two_types


cdef inline int float_code(str name, TensorBase t) except -1:
    """FLOAT32 or FLOAT64. Raises: DTypeError, naming the op, for anything else."""
    cdef int code = t.dtype.code
    if code == FLOAT32 or code == FLOAT64:
        return code
    raise no_float(name, t.dtype)


cdef inline int same_type(str name, TensorBase t, TensorBase other) except -1:
    """Raises: DTypeError, naming the op, unless the elements of `other` (None is none) are those of `t`, as which they are read."""
    if other is None or other.dtype is t.dtype:
        return 0
    raise two_types(name, t.dtype, other.dtype)


cdef inline void copy_line(char* out, const char* x, Py_ssize_t n, Py_ssize_t stride, int itemsize) noexcept nogil:
    """n elements with `stride` elements between them, written side by side."""
    cdef Py_ssize_t i
    if stride == 1:
        memcpy(out, x, n * itemsize)
    elif itemsize == 4:
        for i in range(n):
            (<int*>out)[i] = (<int*>x)[i * stride]
    elif itemsize == 8:
        for i in range(n):
            (<long long*>out)[i] = (<long long*>x)[i * stride]
    elif itemsize == 1:
        for i in range(n):
            out[i] = x[i * stride]
    else:
        for i in range(n):
            (<short*>out)[i] = (<short*>x)[i * stride]


cdef inline TensorBase packed(TensorBase t):
    """`t` where it is contiguous, else a row-major copy."""
    if t.contiguous:
        return t
    cdef TensorBase out = empty_host(t.shape, t.dtype)
    cdef Py_ssize_t shape[MAX_RANK]
    cdef Py_ssize_t strides[MAX_RANK]
    cdef Py_ssize_t position[MAX_RANK]
    cdef Py_ssize_t i, line, last = len(t.shape) - 1, done = 0
    cdef int itemsize = t.dtype.itemsize
    cdef char* x = address(t)
    for i in range(last + 1):
        shape[i] = t.shape[i]
        strides[i] = t._strides[i]
        position[i] = 0
    cdef char* y = address(out)
    line = shape[last]
    with nogil:
        while done < out.size:
            copy_line(y + done * itemsize, x, line, strides[last], itemsize)
            done += line
            i = last - 1
            while i >= 0:                       # the next line, as an odometer counts
                position[i] += 1
                x += strides[i] * itemsize
                if position[i] < shape[i]:
                    break
                x -= strides[i] * itemsize * shape[i]
                position[i] = 0
                i -= 1
    return out


cdef inline void copy_back(TensorBase t, TensorBase source):
    """Write a row-major copy that `packed` made, and a kernel changed, back into `t`."""
    cdef Py_ssize_t i, last = len(t.shape) - 1, done = 0, rest, at
    cdef int itemsize = t.dtype.itemsize
    cdef char* x = address(source)
    cdef char* y = address(t)
    while done < t.size:
        rest, at = done, 0
        for i in range(last, -1, -1):
            at += rest % <Py_ssize_t>t.shape[i] * <Py_ssize_t>t._strides[i]
            rest //= <Py_ssize_t>t.shape[i]
        memcpy(y + at * itemsize, x + done * itemsize, itemsize)
        done += 1


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
