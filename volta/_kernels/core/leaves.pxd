# What a leaf does with its gradient.
from volta._kernels.core.base cimport TensorBase

cdef accumulate(TensorBase target, object gradient)
cdef bint is_alone(TensorBase g)
cdef object sum_of(object a, object b)
cdef object after_hooks(TensorBase leaf, object gradient, bint adding)
cdef set_gradient(TensorBase leaf, object gradient, bint owned, bint create_graph)


cdef inline bint is_sample(object x):
    """Whether x is a sample of a `vmap`, which is not added up in place: what it shows is no memory (`batching_rules.Sample`)."""
    return isinstance(x, TensorBase) and (<TensorBase>x).storage.version < 0
