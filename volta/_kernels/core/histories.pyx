# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Views and their histories: how each was made, and what history it has where it or its base is changed in place.

A view knows the tensor that it shows a part of (`_base`), which is no view itself, and how it was made (`_view`, a `Shown`). A view whose
base has changed since replays how it was made when it is used next. A base whose geometry was changed in place (`x.squeeze_()`) is a view
from then on, of what stands for it as it was; views made before follow it. Knows no op: `graph.pyx` tells what was called, `inplace.pyx`
changes tensors.
"""
cimport cython

from volta.errors import AutogradError
from volta._kernels.core.base cimport TensorBase
from volta._kernels.core.grad_mode cimport grad_mode, switch_grad_mode
from volta._kernels.core.hooks cimport retain_after
from volta._kernels.core.record cimport Primitive, graph_apply


@cython.final
@cython.freelist(256)
@cython.no_gc                               # it refers to no tensor
cdef class Shown:
    """How a view was made."""


# Of views that have no base, since they were made under no_grad(): of what has a history, and of what has none.
of_recorded = Shown()
cdef Shown _of_recorded = of_recorded, _of_unrecorded = Shown()


cdef int track(Primitive op, TensorBase x, dict params, TensorBase out) except -1:
    """Note what a view shows, so that in-place changes of it reach its base's history, and the other way round."""
    cdef Shown shown
    if out.storage is not x.storage:
        return 0
    if not grad_mode() or (x._view is not None and x._base is None):
        out._requires_grad = wants(x)           # as in PyTorch, though the gradient does not come to x
        out._view = _of_recorded if out._requires_grad else _of_unrecorded
        return 0
    shown = Shown.__new__(Shown)
    shown.before, shown.op, shown.params, shown.shape = x._view, op, params, x.shape
    out._base = x if x._base is None else x._base
    out._view = shown
    out._node_version = out.storage.version
    return 0


def several(Primitive op not None, TensorBase x not None, list places not None, str call not None):
    """The views of `x` with these params, which one call gives: as in PyTorch, a recorded change of what one of them shows is refused."""
    cdef list views = []
    cdef TensorBase t
    cdef Shown shown
    for params in places:
        t = graph_apply(op, (x,), params)
        if t._base is not None:
            shown = t._view
            shown.call, shown.place = call, len(views)
        views.append(t)
    return tuple(views)


def replay(TensorBase x not None, Shown shown):
    """The view of `x` that is made so."""
    cdef list steps = []
    while shown is not None:
        steps.append(shown)
        shown = shown.before
    for shown in reversed(steps):
        if x.shape != shown.shape:
            _refuse_view(x)
        x = graph_apply(shown.op, (x,), shown.params)
    return x


cdef _refuse_view(TensorBase base):
    raise AutogradError(f"view: the tensor that a view was made of has got another shape or other data since (its shape is {base.shape} "
                        f"now), so the view has no history; make the view again")


cdef bint renew(TensorBase t) except -1:
    """Whether a gradient is to flow to this view, which first gets the history of what it shows now if its base was changed in place."""
    cdef TensorBase fresh
    t._base = t._base if t._base._base is None else t._base._base
    if t._node_version == t.storage.version:        # a view that was made before its base became a leaf is one itself, as in PyTorch
        t._requires_grad = t._requires_grad or t._base._requires_grad
    elif t._base._requires_grad:
        if not grad_mode() and _one_of_several(t) is not None:      # as it is, since nothing is recorded
            return True
        check_alone(t, "it, or another view of its base, was")
        previous = switch_grad_mode(1)
        try:
            fresh = replay(t._base, t._view)
        finally:
            switch_grad_mode(previous)
        if fresh.shape != t.shape or fresh._strides != t._strides or fresh.offset != t.offset or fresh.storage is not t.storage:
            _refuse_view(t._base)
        _adopt(t, fresh)
    return t._requires_grad


cdef int _adopt(TensorBase t, TensorBase fresh) except -1:
    """Give a view the history of another that shows the same now; where it kept its gradient, it does so there."""
    cdef object before = t._node
    t._node, t._index, t._requires_grad, t._node_version = fresh._node, fresh._index, True, t.storage.version
    return retain_after(t, before)


cdef bint heard(TensorBase view) except -1:
    """Whether there are hooks between what a view is made of and the view."""
    cdef object node = view._node, before = view._base._node
    while node is not None and node is not before and not isinstance(node, TensorBase):
        if node.hooks is not None or node.before is not None or node.after is not None:
            return True
        node = node.parents[0]
    return False


cdef Shown _one_of_several(TensorBase t):
    """How that of several views of one call was made which this is or shows a part of; None for others."""
    cdef Shown shown = t._view
    while shown is not None and shown.call is None:
        shown = shown.before
    return shown


cdef int check_alone(TensorBase t, str what) except -1:
    """Raise for a view that one call gave with others, or a view of one."""
    cdef Shown shown = _one_of_several(t)
    if shown is not None:
        raise AutogradError(f"view: output {shown.place} of {shown.call}, of shape {t.shape}, is one of several views that one call "
                            f"gave; {what} changed in place, of which the others would not know. Call clone() before, or change it "
                            "under no_grad()")
    return 0
