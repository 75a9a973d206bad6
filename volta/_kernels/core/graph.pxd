# The autograd hot path: primitives, graph nodes and the operators of a tensor.
from volta._kernels.core.base cimport TensorBase

cdef class Primitive:
    cdef readonly str name
    cdef readonly str family
    cdef readonly tuple inputs              # names of the tensor inputs
    cdef readonly tuple outputs             # names of the outputs; the first is the differentiable one
    cdef public object cpu                  # kernel on the CPU
    cdef public object gpu                  # kernel on a GPU
    cdef readonly object vjp                # one function per input, or one for all of them, or None
    cdef readonly object reference          # the same function composed of simpler ops
    cdef public object details              # what tests and docs need: ops.families.Details
    cdef readonly int promotion             # 0 none, 1 common dtype, 2 common and floating
    cdef bint joint
    cdef bint is_view
    cdef bint variadic
    cdef tuple arguments                    # per vjp function: where its arguments after g come from
    cdef list plans                         # per mask of wanted gradients: which inputs and outputs are saved

cdef class Node:
    cdef readonly Primitive primitive
    cdef readonly tuple parents             # per input: Node, leaf tensor or None
    cdef readonly object slots              # per input: output index of the parent, or None where all are 0
    cdef readonly tuple shapes              # per input, None for one that is no tensor
    cdef tuple saved                        # tensors and numbers in the plan's order; None once freed
    cdef tuple versions
    cdef readonly dict params
    cdef readonly unsigned long long sequence
    cdef readonly int mask
    cdef readonly int n_outputs
    cdef public object hooks                # list of (output index, function)
    cdef public object retained             # weak references of outputs whose .grad is kept
    cdef public object function             # autograd.Function's context, for a custom function
