"""The ways to call an op: as it is, in place, into `out=`, for gradients. Each takes a world and gives what is to be compared."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.differences.carry import DTYPES, Theirs, dtype_name
from tests.differences.outcome import Fact, tensors


def plain(function: object) -> object:
    return lambda world, args, kwargs: function[world.name](*args, **kwargs)


def weights(world: Theirs, x: object, seed: int) -> object:
    """What weighs a result in a sum that is differentiated: the same numbers in both libraries."""
    rng = np.random.default_rng(seed)
    return world.base(rng.uniform(0.5, 1.5, x.numel()).astype(np.float32), torch.float32).to(x.dtype).reshape(tuple(x.shape))


def gradients(function: object, process: object, order: int) -> object:
    """The gradients of all results by all inputs, and of these again."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        given = [x for x in tensors(world, (args, kwargs)) if x.requires_grad]
        out = process[world.name](function[world.name](*args, **kwargs))
        out = [x for x in tensors(world, out) if x.requires_grad]
        sent = [weights(world, x, i).requires_grad_(order > 1) for i, x in enumerate(out)]
        first = world.lib.autograd.grad(out, given, sent, allow_unused=True, create_graph=order > 1)
        if order == 1:
            return list(first)
        again = [(i, g) for i, g in enumerate(first) if g is not None and g.requires_grad and g.numel()]
        if not again:
            return "none"
        sent2 = [weights(world, g, 10 + i) for i, g in again]
        second = world.lib.autograd.grad([g for _, g in again], given + sent, sent2, allow_unused=True)
        return [None if g is None else g.detach() for g in second]
    return form


def in_place(function: object) -> object:
    """The result is the first argument, which the caller made: what is written is compared as an input."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        first, *rest = args
        return function[world.name](first, *rest, **kwargs)
    return form


def in_place_recorded(function: object) -> object:
    """In place on what has a history, and the gradients then."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        given = [x for x in tensors(world, (args, kwargs)) if x.requires_grad]
        changed = args[0] * 1
        out = function[world.name](changed, *args[1:], **kwargs)
        out = changed if out is None else out
        sent = [weights(world, out, 0)]
        return [out.detach(), list(world.lib.autograd.grad([out], given, sent, allow_unused=True))]
    return form


def _facts(value: object) -> list[Fact]:
    if isinstance(value, Fact):
        return [value]
    return [fact for each in value for fact in _facts(each)] if isinstance(value, (tuple, list)) else []


def into_out(function: object, make: object, several: bool) -> object:
    """`out=` made by `make` for each result: what is returned, and what it holds then."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        outs = make(world)
        result = function[world.name](*args, **kwargs, out=tuple(outs) if several else outs[0])
        listed = tensors(world, result)
        return [[any(x is each for each in outs) for x in listed], list(outs)]
    return form


def outs(value: object, device: str) -> Iterator[tuple[str, object]]:
    """Makers of `out=` for a result: of its size, empty, of another size, permuted, stepped, of other dtypes."""
    made = _facts(value)

    def dtype(world: Theirs, each: Fact) -> object:
        return getattr(world.lib, each.dtype)

    def full(world: Theirs, shape: tuple, dtype: object) -> object:
        return world.lib.full(shape, 1, dtype=dtype, **world.where())

    def of(build: object) -> object:
        return lambda world: [build(world, each) for each in made]

    yield "out", of(lambda world, each: full(world, each.shape, dtype(world, each)))
    yield "out of nothing", of(lambda world, each: world.lib.empty(0, dtype=dtype(world, each), **world.where()))
    yield "out of other size", of(lambda world, each: full(world, (2, *each.shape, 1), dtype(world, each)))
    yield "out of less", of(lambda world, each: full(world, (1,), dtype(world, each)))
    yield "out permuted", of(lambda world, each: full(world, each.shape[::-1], dtype(world, each)).permute(*range(len(each.shape))[::-1])
                             if each.shape else full(world, (), dtype(world, each)))
    yield "out stepped", of(lambda world, each: full(world, (*each.shape, 2), dtype(world, each))[..., 0])
    yield "out expanded", of(lambda world, each: full(world, (1,) * len(each.shape), dtype(world, each)).expand(each.shape))
    yield "out that wants a gradient", of(lambda world, each: full(world, each.shape, dtype(world, each)).requires_grad_())
    for other in DTYPES:
        if device == "cpu" or other not in (torch.float64, torch.bfloat16):
            yield f"out of {dtype_name(other)}", of(lambda world, each, other=other: full(world, each.shape, world.dtype(other)))


def into_input(function: object, i: int) -> object:
    """`out=` is an input itself."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        given = tensors(world, (args, kwargs))
        return function[world.name](*args, **kwargs, out=given[i])
    return form


def into_shifted_input(function: object) -> object:
    """`out=` overlaps an input in part."""
    def form(world: Theirs, args: tuple, kwargs: dict) -> object:
        first = args[0]
        wide = world.lib.full((first.numel() + 1,), 1, dtype=first.dtype, **world.where())
        whole = wide[:-1].reshape(tuple(first.shape))
        whole.copy_(first)
        out = function[world.name](whole, *args[1:], **kwargs, out=wide[1:].reshape(tuple(first.shape)))
        return out
    return form
