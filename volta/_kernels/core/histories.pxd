# What views show, and the histories that they get from there.
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.record cimport Primitive


cdef class Shown:
    # How a view was made: its `_view`.
    cdef readonly Shown before              # the same of the tensor that it is a view of; None where that is no view
    cdef readonly Primitive op
    cdef readonly dict params
    cdef readonly tuple shape               # of that tensor
    cdef readonly bint in_place             # by a change of its own geometry (`x.squeeze_()`): to programs it is no view
    cdef readonly str call                  # what gave it and others at once, None where it came alone
    cdef readonly Py_ssize_t place          # among those

cdef int track(Primitive op, TensorBase x, dict params, TensorBase out) except -1
cdef bint renew(TensorBase t) except -1
cdef bint heard(TensorBase view) except -1
cdef int check_alone(TensorBase t, str what) except -1


cdef inline bint wants(TensorBase t) except -1:
    """Whether a gradient is to flow to `t`; a view's history is brought up to date."""
    return renew(t) if t._base is not None else t._requires_grad
