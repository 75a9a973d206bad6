"""Functions of one sample made functions of batches: `vmap`, after torch.func."""
from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

from volta._kernels import core
from volta._kernels.core.call import Observer
from volta.batching_functions import apply
from volta.batching_rules import RULES, Call, Level, Sample, elementwise, lifted, one_by_one, running, sample
from volta.batching_writes import composed
from volta.custom import set_batches
from volta.errors import ArgumentError, IndexRangeError
from volta.ops.join import cat
from volta.ops.records.view import expand_op
from volta.ops.view import movedim
from volta.random import mapped
from volta.trees import flatten

__all__ = ["vmap"]

_DRAWN = frozenset({"uniform", "normal", "randint", "shuffled"})           # made for all samples where these are to differ
_DRAWN_FOR_ALL = frozenset({"poisson", "binomial", "draw_into"})
_lock, _readers = threading.Lock(), 0


class _Mapping(Observer):
    """Calls records with batches, and refuses what would read a stand-in."""

    def replace(self, op, inputs, params):
        known = running()
        found = [x.level for x in inputs if isinstance(x, Sample)]
        if not found:
            return NotImplemented
        call = Call(max(found, key=known.index))
        rule = RULES.get(op.name) or (elementwise if op.promotion else None)
        if rule is None and op.reference is not None:
            return op.reference(*inputs, **params)
        if rule is None:
            warnings.warn(f"vmap: {op.name} has no rule for batches and is computed sample by sample", stacklevel=2)
        result = (rule or one_by_one)(call, op, inputs, params)
        return tuple([sample(y, call.level) for y in result]) if isinstance(result, tuple) else sample(result, call.level)

    def compose(self, op, args, options):
        if op.name == "dropout" and mapped.sizes and args and isinstance(args[0], core.TensorBase) and not isinstance(args[0], Sample):
            x, *rest = args                             # the same for all samples, but not where it is dropped
            return op(mapped.sample(expand_op(x, shape=(*mapped.sizes, *x.shape))), *rest, **options)
        return composed(op, args, options)

    def before(self, op, device, inputs, params, out):
        if not running():
            return
        tied = op.name == "leaky_relu_grad" and inputs[2] == 1.0        # a place in the graph, whose values do not count: `tie`
        if not tied and any(isinstance(x, core.TensorBase) and x.storage.version < 0 for x in (*inputs, out)):
            raise ArgumentError(f"vmap: {op.name} writes what differs from sample to sample into a tensor that all share, or needs what "
                                "only a whole tensor has; make it like a sample, by zeros_like() or new_zeros(), or use another operation")
        randomness = running()[-1].randomness
        if op.name in _DRAWN_FOR_ALL and randomness != "same":
            raise ArgumentError(f"vmap: {op.name} draws random numbers that all samples share; pass randomness='same', or draw them "
                                "outside for all samples")
        if (op.name in _DRAWN or op.name == "dropout") and randomness == "error":
            raise ArgumentError(f"vmap: {op.name} draws random numbers; pass randomness='same' or 'different'")


def _reads(storage, refuse):
    if storage.version < 0 and refuse:
        raise ArgumentError("vmap: the function reads values of a sample (item(), bool(), numpy(), a mask as index, or a result whose "
                            "shape depends on values); compute with tensors instead, as by where()")
    return storage.version < 0


class _Entered:
    """One level more in this thread."""
    def __init__(self, level: Level) -> None:
        self.level, self.observer, self.drawn = level, None, (mapped.sizes, mapped.sample)

    def __enter__(self):
        global _readers
        if self.level.randomness == "different":
            levels = [level for level in (*running(), self.level) if level.randomness == "different"]
            mapped.sizes, mapped.sample = tuple([level.size for level in levels]), lambda x: lifted(x, levels)
        if not running():
            with _lock:
                _readers += 1
                core.watch_reads(_reads)
                set_batches(lambda cls, args: apply(cls, args, _Entered))
            self.observer = _Mapping().__enter__()
        running().append(self.level)

    def __exit__(self, *exc):
        global _readers
        running().pop()
        mapped.sizes, mapped.sample = self.drawn
        if self.observer is not None:
            self.observer.__exit__(*exc)
            with _lock:
                _readers -= 1
                if not _readers:
                    core.watch_reads(None)
                    set_batches(None)


# ---------------------------------------------------------------- vmap
def _for_each(name, dims, tree):
    """`dims`, a number or nested like the tree as far as it goes, for each leaf of the tree."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(flatten(tree)[0])
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [found for key in tree for found in _for_each(name, dims[key], tree[key])]
    if isinstance(dims, (tuple, list)) and isinstance(tree, (tuple, list)) and len(dims) == len(tree):
        return [found for d, each in zip(dims, tree) for found in _for_each(name, d, each)]
    raise ArgumentError(f"vmap: {name}={dims!r} does not have the structure of what it is for")


def _place(name, dim, rank):
    if not -rank <= dim < rank:
        raise (IndexRangeError if name == "out_dim" else ArgumentError)(
            f"vmap: {name} {dim} is outside the {rank} dimensions of a tensor")
    return dim % rank


def _batches(leaves, dims):
    """(the batches among the arguments with their dimension in front, how many samples)."""
    sizes = set()
    for i, (x, dim) in enumerate(zip(leaves, dims)):
        if dim is not None:
            if not isinstance(x, core.TensorBase):
                raise ArgumentError(f"vmap: in_dims is {dim} for an argument that is {type(x).__name__}; give None for what is no tensor")
            leaves[i] = movedim(x, _place("in_dim", dim, x.ndim), 0)
            sizes.add(leaves[i].shape[0])
    if len(sizes) != 1:
        raise ArgumentError(f"vmap: the mapped dimensions must have one size, got {sorted(sizes)}" if sizes else
                            "vmap: needs at least one tensor to map over")
    return leaves, sizes.pop()


def _outputs(func, result, out_dims, level):
    """What the function gave, with the batch in its place."""
    leaves, build = flatten(result)
    found = []
    for y, dim in zip(leaves, _for_each("out_dims", out_dims, result)):
        if dim is None:
            if isinstance(y, Sample) and y.level is level:
                raise ArgumentError("vmap: out_dims is None for a result that differs from sample to sample")
            found.append(y)
        elif not isinstance(y, core.TensorBase):
            raise ArgumentError(f"vmap: {getattr(func, '__name__', func)} must give tensors, got {type(y).__name__}; give it "
                                "out_dims=None")
        else:
            y = Call(level).of(y)
            found.append(movedim(y, 0, _place("out_dim", dim, y.ndim)))
    return build(found)


def vmap(func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None) -> Callable:
    """The function that gives for batches what `func` gives for samples, in one call of each operation. `in_dims` and `out_dims` say which
    dimension counts the samples, None that an argument is the same for all; `chunk_size` how many are computed at once.

    Raises: ArgumentError for dimensions that do not fit, for a function that reads the values of a sample or writes them into a tensor
    that all samples share, and, unless `randomness` is "same" or "different", for one that draws random numbers.

    >>> volta.func.vmap(volta.dot)(volta.ones(3, 2), volta.ones(3, 2)).tolist()
    [2.0, 2.0, 2.0]
    """
    if randomness not in ("error", "same", "different"):
        raise ArgumentError(f"vmap: randomness must be 'error', 'same' or 'different', got {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ArgumentError(f"vmap: chunk_size must be None or above 0, got {chunk_size}")

    def mapped(*args, **kwargs):
        leaves, build = flatten(args)
        dims = _for_each("in_dims", in_dims, args)
        leaves, size = _batches(leaves, dims)
        step = max(chunk_size or size, 1)
        parts = []
        for start in range(0, max(size, 1), step):
            level = Level(min(step, size - start), randomness)
            given = [x if dim is None else sample(x[start:start + level.size], level) for x, dim in zip(leaves, dims)]
            with _Entered(level):
                parts.append(_outputs(func, func(*build(given), **kwargs), out_dims, level))
        return parts[0] if len(parts) == 1 else _chunks(parts, out_dims)
    return mapped


def _chunks(parts, out_dims):
    """The results of the chunks as one."""
    dims, build = _for_each("out_dims", out_dims, parts[0]), flatten(parts[0])[1]
    return build([each[0] if dim is None else cat(list(each), dim) for each, dim in zip(zip(*[flatten(part)[0] for part in parts]), dims)])
