# What plan.pyx defines.
from volta._kernels.core.base cimport Device, TensorBase

cdef Py_ssize_t bytes_of(TensorBase t) noexcept
cdef Py_ssize_t limit_of(Device device) except -1


cdef class Step:
    cdef readonly object pipeline
    cdef object groups, pack
    cdef bint whole             # binds operands and outputs, in their order
    cdef tuple bound            # per binding: an index (see Plan), (index, first byte, bytes), or a buffer
    cdef bytes params           # of operands that begin their buffers, without the plan's tail
    cdef tuple offsets          # (word of params, At)


cdef class Plan:
    cdef readonly object ctx
    cdef object alloc, launch, tail
    cdef public object words            # from numbers to the bytes that end the parameters of every step; None without numbers
    cdef Device device
    cdef Py_ssize_t operands
    cdef readonly Py_ssize_t limit      # bytes of a binding
    cdef readonly Py_ssize_t largest    # bytes of the largest buffer, operands apart
    cdef readonly list steps
    cdef list outputs, sizes
    cdef dict named

    cdef object run(self, tuple operands, dict params, list numbers)
