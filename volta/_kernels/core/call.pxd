# Calling kernels: the one place where a kernel is chosen by device, and what must hold before.
from volta._kernels.core.base cimport DType, Device, TensorBase
from volta._kernels.core.record cimport Primitive

cdef int watching                           # how many observers there are, see Observer

cdef object call_kernel(Primitive op, Device device, tuple inputs, dict params, TensorBase out)
cdef tuple adapted(Primitive op, tuple inputs)
cdef tuple promoted(Primitive op, tuple inputs)
cdef DType common_dtype(Primitive op, tuple inputs)
cdef int refuse_dtype(Primitive op, int code) except -1
cdef int check_dtypes(Primitive op, tuple inputs) except -1
cdef tuple broadcast(Primitive op, tuple inputs)
