# cython: language_level=3
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.record cimport Primitive

cdef object rounded(Primitive op, object number, int code)
cdef object unrounded(Primitive op, TensorBase x)
