# What a leaf does with its gradient.
from volta._kernels.core.base cimport TensorBase

cdef accumulate(TensorBase target, object gradient)
cdef bint is_alone(TensorBase g)
cdef object sum_of(object a, object b)
cdef object after_hooks(TensorBase leaf, object gradient, bint adding)
cdef set_gradient(TensorBase leaf, object gradient, bint owned, bint create_graph)
