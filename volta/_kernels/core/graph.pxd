# The autograd graph: recorded calls.
from volta._kernels.core.record cimport Plan, Primitive

cdef tuple unpacked(Node node, tuple saved)
cdef object as_input(Node node, Py_ssize_t i, object x)

cdef class Node:
    cdef readonly Primitive primitive
    cdef readonly tuple parents             # per input: Node, leaf tensor or None
    cdef readonly object slots              # per input: output index of the parent, or None where all are 0
    cdef readonly tuple shapes              # per input, None for one that is no tensor
    cdef Plan plan
    cdef tuple saved                        # tensors, dtypes and devices in the plan's order; None once freed
    cdef tuple versions
    cdef readonly dict params
    cdef bint pixels                        # whether a result that goes by `Primitive.pixels` lies so
    cdef readonly unsigned long long sequence
    cdef object slot                        # the engine's: what has arrived here in the walk that goes on
    cdef readonly int n_outputs
    cdef public object hooks                # list of (output index, function)
    cdef public object before               # dict of functions of the gradients that have arrived, before the derivative
    cdef public object after                # dict of functions of its gradients and those
    cdef object notes                       # a user's dict
    cdef public object label                # the composed function that it ends, by PyTorch's name for it; or None
    cdef public object retained             # weak references of outputs whose .grad is kept
    cdef public object function             # autograd.Function's context, for a custom function
    cdef object unpack                      # what gives back saved tensors that a hook has packed; None where none was
    cdef readonly object trace              # where the call was recorded, in anomaly mode

cdef object apply(Primitive op, tuple inputs, dict params)
cdef object apply2(Primitive op, object a, object b)
