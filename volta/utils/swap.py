"""Two tensors that change places: every holder of one sees the other."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from volta._kernels import core
from volta.errors import ArgumentError

if TYPE_CHECKING:
    from volta.tensor import Tensor

__all__ = ["swap_tensors"]

_FIELDS = ("_requires_grad", "grad", "_hooks", "_arrived_hooks")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange data, dtype, device, class, gradient, hooks and attributes of two leaves; each keeps its identity, so that a module and an
    optimizer that hold one go on with the other. What was recorded before is not to be differentiated any more, as after `x.data =`.

    Raises: ArgumentError for tensors with a history, views, or what weak references name, and for anything but tensors.

    >>> a, b = volta.zeros(1), volta.ones(2)
    >>> volta.utils.swap_tensors(a, b)
    >>> a.tolist(), b.tolist()
    ([1.0, 1.0], [0.0])
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, core.TensorBase):
            raise ArgumentError(f"swap_tensors: {name} must be a tensor, got {type(t).__name__}")
        if t.grad_fn is not None or t._base is not None:
            raise ArgumentError(f"swap_tensors: {name} must be a leaf that is no view, got one that an op made; use detach().clone()")
        if weakref.getweakrefcount(t):
            raise ArgumentError(f"swap_tensors: {name} is named by a weak reference, which would show the other tensor")
    if t1 is t2:
        return
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    first, second = dict(t1.__dict__), dict(t2.__dict__)
    for t, attributes in ((t1, second), (t2, first)):
        t.__dict__.clear()
        t.__dict__.update(attributes)
    fields = [[getattr(t, name) for name in _FIELDS] for t in (t1, t2)]
    for t in (t1, t2):
        t.grad = None                           # a gradient has to fit its tensor at any time
    kept = core.alias(t1)
    core.assign(kept, t1)
    core.assign(t1, t2)
    core.assign(t2, kept)
    for t, values in zip((t2, t1), fields):
        for name, value in zip(_FIELDS, values):
            setattr(t, name, value)
