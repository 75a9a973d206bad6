# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""What a leaf does with its gradient: its hooks, and adding to `.grad`. Called by `engine.pyx`; knows no graph."""
import threading

from cpython.ref cimport PyObject

from volta.errors import AutogradError, GradientTypeError
from volta._kernels.core.base cimport TensorBase, make_tensor
from volta._kernels.core.base import strides_of
from volta._kernels.core.call cimport call_kernel
from volta._kernels.core.order cimport dense, outermost_first
from volta._kernels.core.record cimport Primitive

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject*)             # not of an object: Cython would take a reference of its own to an attribute

cdef object _accumulating = threading.RLock()
cdef Primitive _add = None, _contiguous = None
cdef object _in_order = None                    # (gradient, dimensions) -> a copy with these as they lie, outermost first


def configure(add, contiguous, in_order):
    """Give this module the pieces of higher layers that it calls."""
    global _add, _contiguous, _in_order
    _add, _contiguous, _in_order = add, contiguous, in_order


cdef accumulate(TensorBase target, object gradient):
    """target += gradient, unrecorded."""
    cdef tuple shape = (<TensorBase>gradient).shape if isinstance(gradient, TensorBase) else tuple(gradient.shape)
    if target.shape is not shape and target.shape != shape:
        raise AutogradError(f"backward: .grad of a leaf has shape {target.shape}, its gradient {shape}; set .grad to None where you "
                            f"change the shape of .data")
    if isinstance(gradient, TensorBase):
        call_kernel(_add, target.storage.device, (target, gradient), None, target)
    else:
        gradient.add_to(target)


cdef inline bint _is_sole(TensorBase g):
    """Whether no other tensor shares the memory of this one."""
    return Py_REFCNT(<PyObject*>g.storage) == 1 and g.storage.root is None


cdef bint is_alone(TensorBase g):
    """Whether none does, and it is row-major."""
    return _is_sole(g) and g.contiguous


cdef tuple _wanted(TensorBase leaf):
    """The strides of a leaf's gradient: its own, where it is dense."""
    return leaf._strides if leaf.size == 0 or not leaf.contiguous and dense(leaf) else strides_of(leaf.shape)


cdef object _laid(TensorBase g, tuple strides, bint create_graph):
    """A copy with these strides, which are dense."""
    cdef TensorBase out = _in_order(g, outermost_first(strides))
    return out if create_graph else make_tensor(out.storage, g.shape, strides, out.offset, g.dtype)


cdef object sum_of(object a, object b):
    """The sum of two gradients; one that is not dense knows how."""
    return _add(a, b) if isinstance(a, TensorBase) and isinstance(b, TensorBase) else a + b


class Prehook:
    """A leaf's hook that belongs to adding the gradient: it comes after the others, and not at all where the gradient is only asked for."""

    def __init__(self, function):
        self.function = function


cdef object after_hooks(TensorBase leaf, object gradient, bint adding):
    """The gradient of a leaf, after its hooks."""
    cdef list functions, late
    if leaf._hooks is not None:
        functions = list(leaf._hooks.values())
        late = [hook.function for hook in functions if isinstance(hook, Prehook)]
        if late:
            functions = [hook for hook in functions if not isinstance(hook, Prehook)] + (late if adding else [])
        for hook in functions:
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
    return gradient


cdef set_gradient(TensorBase leaf, object gradient, bint owned, bint create_graph):
    """leaf.grad += gradient, after the leaf's hooks. The buffer is taken over where nothing else can see it, else copied; it lies as the
    leaf does, row-major where that has gaps."""
    cdef TensorBase g
    if not leaf._requires_grad:             # no more, since it was recorded
        return
    if leaf._hooks is not None:
        gradient, owned = after_hooks(leaf, gradient, True), False       # a hook may have kept it
    g = <TensorBase>gradient
    with _accumulating:                     # other threads may add to the same leaf
        if leaf.grad is not None:
            if not isinstance(leaf.grad, TensorBase) and not getattr(leaf.grad, "is_sparse", False):
                raise AutogradError(f"backward: .grad of a leaf of shape {leaf.shape} must be a tensor or None, it is "
                                    f"{type(leaf.grad).__name__}")
            if create_graph or not isinstance(leaf.grad, TensorBase):
                leaf.grad = sum_of(leaf.grad, gradient)
            else:
                accumulate(<TensorBase>leaf.grad, gradient)
        elif not isinstance(gradient, TensorBase):
            leaf.grad = gradient if create_graph else gradient.clone()
        elif (g.contiguous if leaf.contiguous else g._strides == _wanted(leaf)) and (
                owned or Py_REFCNT(<PyObject*>g) <= 3 and _is_sole(g)):
            leaf.grad = g
        else:
            leaf.grad = _contiguous(g) if leaf.contiguous else _laid(g, _wanted(leaf), create_graph)
    if leaf._arrived_hooks is not None:
        for hook in list(leaf._arrived_hooks.values()):
            found = hook(leaf)
            if found is not None and found is not leaf:         # lambda p: p.add_(...) gives what it got
                raise GradientTypeError("register_post_accumulate_grad_hook: a hook gave something, where it is to give None; change .grad")
