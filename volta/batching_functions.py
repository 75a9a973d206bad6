"""What `vmap` does with an `autograd.Function` of the user's: by its static `vmap`, with whole batches, or by its methods with samples."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from volta._kernels import core
from volta._kernels.core import graph
from volta.batching_rules import Level, Sample, levels_of, lifted, lowered, running
from volta.custom import Function, FunctionCtx
from volta.errors import ArgumentError, AutogradError
from volta.ops.view import movedim


class VmapInfo(NamedTuple):
    """What a static `vmap` is told of the samples: how many, and how they draw random numbers."""
    batch_size: int
    randomness: str


class _Whole(Function):
    """A Function whose methods take samples, as one of whole batches: what is recorded is a call with these."""

    @staticmethod
    def forward(ctx: Any, cls: type[Function], level: Level, enter: Callable, mapped: list, *whole: Any) -> Any:
        args = tuple([lifted(x, [level]) if has else x for x, has in zip(whole, mapped)])
        inner = FunctionCtx(cls, args)
        outputs = cls.forward(*args) if cls.setup_context else cls.forward(inner, *args)
        if cls.setup_context:
            cls.setup_context(inner, args, outputs)
        if inner._dirty:
            raise AutogradError(f"{cls.__name__}: mark_dirty cannot be followed inside vmap; give a new tensor, or define a static vmap")
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        found = tuple([lowered(y, [level]) if isinstance(y, core.TensorBase) else y for y in several])
        ctx.inner, ctx.level, ctx.enter, ctx.mapped = inner, level, enter, mapped
        ctx.mark_non_differentiable(*[y for y, own in zip(found, several) if id(own) in inner._fixed])
        ctx.set_materialize_grads(inner._materialize)
        return found if isinstance(outputs, tuple) else found[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        level, inner = ctx.level, ctx.inner
        with nullcontext() if level in running() else ctx.enter(level):
            found = inner.gradients(tuple([g if g is None else lifted(g, [level]) for g in grads]))
            found = [None if g is None or not needed else lowered(g, [level]) for g, needed in zip(found, inner.needs_input_grad)]
        return (None,) * 4 + tuple([g if g is None or has else g.sum(0) for g, has in zip(found, ctx.mapped)])


def apply(cls: type[Function], args: tuple, enter: Callable) -> Any:
    """The outputs of a Function that is called with samples; NotImplemented where its methods take these, as where none is one. `enter`
    makes a level run again, for backward.

    Raises: AutogradError for a Function that has a static vmap and generate_vmap_rule, and for inputs marked dirty; ArgumentError where
    its vmap gives what does not fit.
    """
    levels = [level for a in args if isinstance(a, Sample) for level in levels_of(a)]
    if not levels:
        return NotImplemented
    level = max(levels, key=running().index)
    mapped = [isinstance(a, Sample) and level in levels_of(a) for a in args]
    whole = [lowered(a, [level]) if has else a for a, has in zip(args, mapped)]
    if cls.vmap is Function.vmap:
        if not graph.is_grad_enabled() or not any(isinstance(x, core.TensorBase) and x.requires_grad for x in whole):
            return NotImplemented
        return _samples(_Whole.apply(cls, level, enter, mapped, *whole), level)
    if cls.generate_vmap_rule:
        raise AutogradError(f"{cls.__name__}: it has generate_vmap_rule=True and a static vmap; give it one of them")
    found = _outside(level, lambda: cls.vmap(VmapInfo(level.size, level.randomness), tuple([0 if has else None for has in mapped]), *whole))
    if not isinstance(found, tuple) or len(found) != 2:
        raise ArgumentError(f"{cls.__name__}.vmap: must give (output, out_dims), got {type(found).__name__}")
    outputs, dims = found
    if not isinstance(outputs, tuple):
        return _sample_of(cls, outputs, dims, level)
    dims = dims if isinstance(dims, (tuple, list)) else (dims,) * len(outputs)
    if len(dims) != len(outputs):
        raise ArgumentError(f"{cls.__name__}.vmap: gave {len(outputs)} outputs and {len(dims)} out_dims")
    return tuple([_sample_of(cls, y, dim, level) for y, dim in zip(outputs, dims)])


def _samples(found, level):
    """Outputs that have the batch in front, as samples."""
    several = [lifted(y, [level]) if isinstance(y, core.TensorBase) else y for y in (found if isinstance(found, tuple) else (found,))]
    return tuple(several) if isinstance(found, tuple) else several[0]


def _outside(level: Level, call: Any) -> Any:
    """What `call` gives when this level and those inside it do not run."""
    levels = running()
    at = levels.index(level)
    inner = levels[at:]
    del levels[at:]
    try:
        return call()
    finally:
        levels[at:] = inner


def _sample_of(cls, y, dim, level):
    if dim is None or not isinstance(y, core.TensorBase):
        return y
    if not isinstance(dim, int) or not -y.ndim <= dim < y.ndim or y.shape[dim] != level.size:
        raise ArgumentError(f"{cls.__name__}.vmap: gave an output of shape {tuple(y.shape)} with out_dims {dim!r} for {level.size} samples")
    return lifted(movedim(y, dim, 0), [level])
