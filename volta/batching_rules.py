"""What `vmap` maps over: samples, which stand for batches, and for each kind of record the rule by which it is called with a batch.

A `Sample` has the shape of one sample and no values of its own, but refers to the tensor of all of them, the batch in front. A record that
is called with one is called with that tensor in its place; composed functions follow by themselves, since they are made of records, and so
do derivatives, since what is recorded is the call with the whole batch.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from volta._kernels import core
from volta._kernels.core import graph
from volta.errors import AutogradError
from volta.ops.arrange import as_strided
from volta.ops.creation import full
from volta.ops.join import stack
from volta.ops.records.index import gather_op, index_select_op, scatter_add_op, scatter_sum_op
from volta.ops.records.linalg import matmul_op, turned
from volta.ops.records.view import contiguous_op, expand_op, permute_op, reshape_op
from volta.subclasses import takes_nothing_over
from volta.tensor import Tensor


class Level:
    """One running `vmap`: of how many samples, and how they draw random numbers."""
    def __init__(self, size: int, randomness: str) -> None:
        self.size, self.randomness = size, randomness


class _Running(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_running = _Running()


def running() -> list[Level]:
    """The levels that run in this thread, the outermost first; `vmap` adds and takes away."""
    return _running.levels


class Sample(Tensor):
    """What a mapped function sees of a batch. Its own memory stands in for a sample and is never read: the version -1 marks it."""

    physical: Tensor
    level: Level
    __torch_function__ = takes_nothing_over

    requires_grad = property(lambda self: self.physical.requires_grad)
    data = property(lambda self: sample(self.physical.data, self.level))

    def detach(self) -> Tensor:
        return sample(self.physical.detach(), self.level)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        raise AutogradError("requires_grad_: not inside vmap; use func.grad or func.vjp there")

    def backward(self, *args: Any, **options: Any) -> None:
        raise AutogradError("backward: not inside vmap; use func.grad or func.vjp there")

    def __repr__(self) -> str:
        return f"Sample(of {self.physical!r})"


def sample(physical, level):
    found, stand_in = Sample.__new__(Sample), full(physical.shape[1:], float("nan") if physical.dtype.is_floating_point else 0,
                                                   dtype=physical.dtype, device=physical.device)
    stand_in.storage.version = -1
    core.assign(found, stand_in)
    found.physical, found.level = physical, level
    return found


# ---------------------------------------------------------------- through all levels
def levels_of(x: Any) -> list[Level]:
    """The levels that a tensor is a sample of, the outermost first."""
    found = []
    while isinstance(x, Sample):
        found.insert(0, x.level)
        x = x.physical
    return found


def lowered(x: Tensor, levels: list[Level]) -> Tensor:
    """The tensor of all samples of these levels, in front, each as large as it is; of other levels it stays a sample."""
    for level in reversed(levels):
        x = _whole_of(x, level)
    return x


def _whole_of(x, level):
    if isinstance(x, Sample) and x.level is not level and level in levels_of(x):        # under another one
        return sample(_exchanged(_whole_of(x.physical, level)), x.level)
    return Call(level).of(x)


def lifted(x: Tensor, levels: list[Level]) -> Tensor:
    """The sample of these levels that `lowered` makes `x` of."""
    for level in levels:
        x = _sample_of(x, level)
    return x


def _sample_of(x, level):
    if isinstance(x, Sample) and running().index(x.level) > running().index(level):
        return sample(_sample_of(_exchanged(x.physical), level), x.level)
    return sample(x, level)


def _exchanged(x):
    """The first two dimensions exchanged."""
    return permute_op(x, dims=(1, 0, *range(2, x.ndim)))


# ---------------------------------------------------------------- rules: the call with the whole batch, by the record's name
class Call:
    """A record called with samples of one level."""
    def __init__(self, level: Level) -> None:
        self.level, self.size = level, level.size

    def has(self, x: Any) -> bool:
        return isinstance(x, Sample) and x.level is self.level

    def of(self, x: Any) -> Any:
        """The batch; of what is the same for all samples, as often as there are samples."""
        if self.has(x):
            return x.physical
        return expand_op(x, shape=(self.size, *x.shape)) if isinstance(x, core.TensorBase) else x

    def aligned(self, x: Any, rank: int) -> Any:
        """The batch with ones behind its first dimension, as broadcasting samples to a rank would put them in front."""
        if not isinstance(x, core.TensorBase) or x.ndim == rank:
            return self.of(x)
        return reshape_op(self.of(x), shape=(self.size, *(1,) * (rank - x.ndim), *x.shape))


def elementwise(call, op, inputs, params):
    rank = max(x.ndim for x in inputs if isinstance(x, core.TensorBase))
    return graph.call(op, tuple([call.aligned(x, rank) if call.has(x) else x for x in inputs]), params)


def _whole(call, op, inputs, params):
    """Of records that have some results of one input alone, or of its shape. Exchanges of rows have one dimension less than matrices."""
    rank = max(x.ndim for x in inputs)
    return graph.call(op, tuple([call.aligned(x, rank - (name == "pivots")) for x, name in zip(inputs, op.inputs)]), params)


def _alike(call, op, inputs, params):
    """Of records that do not look at dimensions, or not at those in front."""
    return graph.call(op, tuple(map(call.of, inputs)), params)


def _along(call, op, inputs, params):
    dim = params["dim"]
    if isinstance(dim, int) and not inputs[0].ndim:             # of samples without dimensions, as of vectors of one element
        found = graph.call(op, tuple([reshape_op(call.of(x), shape=(call.size, 1)) for x in inputs]), {**params, "dim": 1})
        several = tuple([reshape_op(y, shape=(call.size,)) for y in (found if isinstance(found, tuple) else (found,))])
        return several if isinstance(found, tuple) else several[0]
    return _alike(call, op, inputs, {**params, "dim": dim + 1 if isinstance(dim, int) else tuple([d + 1 for d in dim])})


def _shaped(call, op, inputs, params):
    """Of views, which say for each dimension what they do."""
    front = {"shape": call.size, "sizes": call.size, "starts": 0, "steps": 1}
    x = call.aligned(inputs[0], len(params["shape"])) if op.name == "expand" else inputs[0].physical
    params = {key: (front[key], *value) if key in front else value for key, value in params.items()}
    if params.get("axes") is not None:                          # which dimensions stay; -1 - d is a new one before d
        params["axes"] = (0, *[d + 1 if d >= 0 else d - 1 for d in params["axes"]])
    return graph.call(op, (x,), params)


def _permute(call, op, inputs, params):
    return graph.call(op, (inputs[0].physical,), {"dims": (0, *[d + 1 for d in params["dims"]])})


def _folded(call, op, inputs, params, shared=0):
    """Of records whose first dimension is a batch already: that of both. The last `shared` inputs are no part of it."""
    rows, last = inputs[0].shape[0], len(inputs) - shared

    def fold(x):
        if x is not None and x.shape[0] != rows:                # a mask for all rows
            x = expand_op(x, shape=(rows, *x.shape[1:]))
        return x if x is None else reshape_op(call.of(x), shape=(call.size * rows, *x.shape[1:]))
    found = graph.call(op, (*map(fold, inputs[:last]), *inputs[last:]), params)
    several = found if isinstance(found, tuple) else (found,)
    several = tuple([reshape_op(y, shape=(call.size, y.shape[0] // call.size, *y.shape[1:])) for y in several])
    return several if isinstance(found, tuple) else several[0]


def _merged(call, x):
    """The batch among the channels: (rows, samples * channels, ...)."""
    x = call.of(x)
    return reshape_op(permute_op(x, dims=(1, 0, *range(2, x.ndim))), shape=(x.shape[1], call.size * x.shape[2], *x.shape[3:]))


def _unmerged(call, x):
    x = reshape_op(x, shape=(x.shape[0], call.size, x.shape[1] // call.size, *x.shape[2:]))
    return permute_op(x, dims=(1, 0, *range(2, x.ndim)))


def _joined(call, x):
    """The batch and the first dimension as one: of weights."""
    return x if x is None else reshape_op(call.of(x), shape=(call.size * x.shape[0], *x.shape[1:]))


def _convolution(call, op, inputs, params):
    """With one weight, more rows; with a weight for each sample, more groups of channels."""
    of_weight = op.name.endswith("grad_weight")
    if not any(map(call.has, inputs[1:])) and not of_weight:
        return _folded(call, op, inputs, params, shared=len(inputs) - 1)
    params = {**params, "groups": params["groups"] * call.size}
    if of_weight:
        found = graph.call(op, tuple([_merged(call, x) for x in inputs]), params)
        return reshape_op(found, shape=(call.size, found.shape[0] // call.size, *found.shape[1:]))
    return _unmerged(call, graph.call(op, (_merged(call, inputs[0]), *[_joined(call, x) for x in inputs[1:]]), params))


def _batch_norm(call, op, inputs, params):
    out, *statistics = graph.call(op, (_merged(call, inputs[0]), *[_joined(call, x) for x in inputs[1:]]), params)
    return (_unmerged(call, out), *[reshape_op(s, shape=(call.size, s.shape[0] // call.size)) for s in statistics])


def _row_norm(call, op, inputs, params):
    x, weight, bias = inputs
    whole = call.of(x)
    fused = not (call.has(weight) or call.has(bias))
    out, *statistics = graph.call(op, (whole, weight, bias) if fused else (whole, None, None), params)
    if not fused:                                               # a weight for each sample
        groups, length, inner = params["groups"], params["length"], params["inner"]
        shape = (call.size, 1, groups, length // inner, 1)
        out = reshape_op(out, shape=(call.size, x._size // (groups * length), *shape[2:4], inner))
        weight, bias = (v if v is None else reshape_op(call.of(v), shape=shape) for v in (weight, bias))
        out = out if weight is None else out * weight
        out = reshape_op(out if bias is None else out + bias, shape=whole.shape)
    return (out, *[reshape_op(s, shape=(call.size, s._size // call.size)) for s in statistics])


def _dot(call, op, inputs, params):
    (n,) = inputs[0].shape
    row, column = (reshape_op(call.of(x), shape=(call.size, *shape)) if call.has(x) else reshape_op(x, shape=shape)
                   for x, shape in zip(inputs, ((1, n), (n, 1))))
    return reshape_op(matmul_op(row, column), shape=(call.size,))


def _linear(call, op, inputs, params):
    x, weight, bias = inputs
    if not call.has(weight) and not call.has(bias):
        return _folded(call, op, inputs, params, shared=2)
    out = matmul_op(call.of(x), turned(call.of(weight)))
    return out if bias is None else out + reshape_op(call.of(bias), shape=(call.size, 1, weight.shape[0]))


def _index_select(call, op, inputs, params):
    (x, index), dim = inputs, params["dim"]
    if not call.has(index):
        return index_select_op(x.physical, index, dim=dim + 1)
    if not call.has(x):
        found = index_select_op(x, _joined(call, index), dim=dim)
        found = reshape_op(found, shape=(*x.shape[:dim], call.size, index._size, *x.shape[dim + 1:]))
        return permute_op(found, dims=(dim, *[d for d in range(found.ndim) if d != dim]))
    return gather_op(x.physical, _spread(call, index, (*x.shape[:dim], index._size, *x.shape[dim + 1:]), dim), dim=dim + 1)


def _index_add(call, op, inputs, params):
    (g, index), dim = inputs, params["dim"]
    if not call.has(index):
        return graph.call(op, (g.physical, index), {**params, "dim": dim + 1})
    return scatter_add_op(call.of(g), _spread(call, index, g.shape, dim), dim=dim + 1, size=params["size"])


def _index_sum(call, op, inputs, params):
    (x, src, index), dim = inputs, params["dim"]
    if not call.has(index):
        return graph.call(op, (call.of(x), call.of(src), index), {"dim": dim + 1})
    return scatter_sum_op(call.of(x), call.of(src), _spread(call, index, src.shape, dim), dim=dim + 1)


def _spread(call, index, shape, dim):
    """A vector of positions for each sample as the index of every line along `dim`."""
    index = reshape_op(index.physical, shape=(call.size, *(1,) * dim, index._size, *(1,) * (len(shape) - dim - 1)))
    return expand_op(index, shape=(call.size, *shape))


def _as_strided(call, op, inputs, params):
    """Strides are those of a sample, whose elements lie in order."""
    x = inputs[0].physical
    strides, _ = params["own"]
    x = x if x.stride()[1:] == strides else contiguous_op(x)
    return as_strided(x, (call.size, *params["size"]), (x.stride(0), *params["stride"]), x.storage_offset() + params["offset"])


def _searchsorted(call, op, inputs, params):
    lines, values = inputs
    if lines.ndim > 1:
        return _alike(call, op, inputs, params)
    if not call.has(lines):
        return graph.call(op, (lines, values.physical), params)
    found = graph.call(op, (lines.physical, reshape_op(call.of(values), shape=(call.size, values._size))), params)
    return reshape_op(found, shape=(call.size, *values.shape))


def _dropout(call, op, inputs, params):
    return _alike(call, op, inputs, params) if call.level.randomness == "different" else one_by_one(call, op, inputs, params)


def one_by_one(call, op, inputs, params):
    """What has no rule: sample by sample."""
    found = [graph.call(op, tuple([x.physical[i] if call.has(x) else x for x in inputs]), params) for i in range(call.size)]
    return tuple([stack(each) for each in zip(*found)]) if isinstance(found[0], tuple) else stack(found)


RULES: dict[str, Callable] = {
    **dict.fromkeys(("contiguous", "clone", "tied", "uncounted", "cast", "diagonal", "triangle", "one_hot"), _alike),
    **dict.fromkeys(("inv", "solve", "solve_again", "lu_solve", "triangular", "cholesky_solve", "cholesky_inverse", "cofactor", "det",
                     "slogdet", "cholesky", "qr", "svd", "eigh", "pinv", "matrix_exp", "matrix_exp_grad", "lu", "geqrf", "ldl",
                     "scale_gradient"), _whole),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "prod", "norm2", "any", "all", "var", "argmax", "argmin", "softmax", "log_softmax",
                     "glu", "glu_grad",
                     "logsumexp", "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "sort", "gather", "scatter_add", "scatter_sum",
                     "scatter_reduce", "scatter_unique", "cat", "unfold", "recurrence", "cross", "roll", "unit", "unit_grad"),
                    _along),
    **dict.fromkeys(("reshape", "expand", "slice", "place"), _shaped),
    **dict.fromkeys(("extend", "extend_grad", "resample", "resample_grad", "max_pool", "max_pool_values", "max_pool_grad", "avg_pool",
                     "avg_pool_grad", "attention", "cross_entropy_softmax", "cross_entropy", "grid_sample", "grid_sample_input",
                     "grid_sample_grid", "fold", "fractional_max_pool", "distances", "distances_grad"), _folded),
    **dict.fromkeys([name + of for name in ("conv2d", "conv3d") for of in ("", "_grad_input", "_grad_weight")], _convolution),
    "matmul": elementwise, "chain": elementwise, "permute": _permute, "linear": _linear, "dot": _dot,
    "batch_norm": _batch_norm, "row_norm": _row_norm, "as_strided": _as_strided, "index_select": _index_select, "index_add": _index_add,
    "index_sum": _index_sum,
    "dropout": _dropout, "searchsorted": _searchsorted,
}
