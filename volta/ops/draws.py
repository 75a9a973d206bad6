"""Random numbers of other distributions, made of uniform and normal ones (see `volta/random.py`), and tensors overwritten with them.

Parameters are checked where that needs no transfer: numbers always, tensors on the CPU.
"""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from volta._kernels.core import TensorBase, all_between, host_sees, read_scalar, same_values, stands_in, view
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import bare, unwatched
from volta._kernels.core.graph import is_grad_enabled
from volta._kernels.core.streams import draw, draw_into
from volta.dtypes import bool_, finfo, float32, float64, iinfo, int64
from volta.errors import ArgumentError, CallError, DTypeError, ShapeError
from volta.ops.assign import constant_of, redrawn
from volta.ops.copy import copy_into
from volta.ops.creation import draw_integers, floating_dtype
from volta.ops.from_data import finish
from volta.ops.math import clamp
from volta.ops.parts import narrow
from volta.ops.records.copy import cast
from volta.ops.records.counts import binomial_op, poisson_op
from volta.ops.records.create import draw_into_op, normal_op, uniform_op
from volta.ops.records.math import ceil, clamp_op, exp, log1p, tan, where_op, xlogy
from volta.ops.records.scan import cumsum_op
from volta.ops.records.sort import searchsorted_op, sort_op
from volta.ops.records.view import contiguous_op, row_major
from volta.ops.table import composed
from volta.ops.view import broadcast_tensors
from volta.shapes import as_shape, broadcast_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.random import Generator
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike

_LARGEST = 3.4028234663852886e38
_BELOW = 1 - 2.0 ** -22     # times the last of running sums: what a number of [0, 1) is multiplied with to be below it when rounded
_FEW = 4096                 # numbers that are looked at sooner than a kernel is called
_drawn = composed(untested="tests/test_draws.py: by moments")
_in_place = composed(function=False, untested="tests/test_draws.py: by moments")


def _uniform(op, x, generator, shape=None):
    """Numbers of [0, 1) for a tensor: in float64 where it is, else in float32."""
    kind = float64 if x.dtype is float64 else float32
    return draw(op, uniform_op, x.shape if shape is None else shape, 0.0, 1.0, kind, x.device, generator)


def _need(op, x, test, text, low=0.0, high=1.0):
    """Raise unless `test` holds for a number, or for a tensor of the CPU everywhere: it does from low to high."""
    known = not isinstance(x, TensorBase) or not x.device.is_gpu
    if known and isinstance(x, TensorBase) and host_sees(x) and not stands_in(x):
        if all_between(x, low, high) if x._size <= _FEW else same_values(x, clamp_op(x, low, high)):
            return
    if known and not (bool(test(x).all()) if isinstance(x, TensorBase) else test(x)):
        raise ArgumentError(f"{op}: {text}, got {x if not isinstance(x, TensorBase) else 'others in the tensor'}")


def _overwritten(op, input, values, integers=False):
    """`input` with these values, unrecorded."""
    if not integers:
        floating_dtype(op, input.dtype)
    if values.shape != input.shape:
        raise ShapeError(f"{op}: the numbers drawn have shape {values.shape}, by their parameters, and the tensor {input.shape}")
    copy_into(input, cast(values, input.dtype))
    return input


# ---------------------------------------------------------------- new tensors
@composed(out="any", untested="tests/test_draws.py: by moments")
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element of `input` is, or with `p` for all; else 0, in the dtype of `input`.

    Raises: ArgumentError for what is no probability; DTypeError for integers as probabilities.

    >>> volta.bernoulli(volta.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    if p is None and (input.dtype is float32 or input.dtype is float64) and input._contiguous and bare(input) and host_sees(input) and (
            input._size <= _FEW and all_between(input, 0.0, 1.0)):
        return draw_into(draw_into_op, run_kernel(contiguous_op, input.device, (input,)), "chances", 0.0, 0.0, generator)
    if p is None and input._size:
        floating_dtype("bernoulli", input.dtype)
    chance = input.detach() if p is None else p
    _need("bernoulli", chance, _is_probability, "needs probabilities of [0, 1]")
    if p is None and chance._contiguous and (chance.dtype is float32 or chance.dtype is float64) and _alone(chance) and (
            not input.requires_grad or not is_grad_enabled()):
        return draw_into(draw_into_op, run_kernel(contiguous_op, chance.device, (chance,)), "chances", 0.0, 0.0, generator)
    return constant_of(cast(_uniform("bernoulli", input, generator) < chance, input.dtype), input)


def _alone(x):
    """Whether kernels may be called on a tensor that is no part of a graph."""
    return bare(x) or x.device.is_gpu and unwatched() and not stands_in(x) and x.storage.tangent is None


def _is_probability(p):
    return (p >= 0) & (p <= 1)


@composed(out="cast", method=False, untested="tests/test_draws.py: by moments")
def normal(mean: Tensor | float = 0.0, std: Tensor | float = 1.0, size: Sequence[int] | None = None, *, generator: Generator | None = None,
           dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Normal numbers with the mean and standard deviation of each element, or of two numbers and a `size`.

    Raises: ArgumentError for a negative std; CallError for numbers without a size.

    >>> volta.normal(volta.tensor([1.0, 2.0]), 0.0).tolist()
    [1.0, 2.0]
    """
    if type(std) is float and std >= 0 and size is dtype is device is None and isinstance(mean, TensorBase) and (
            mean.dtype is float32 or mean.dtype is float64) and bare(mean):
        return finish(draw("normal", normal_op, mean._shape, 0.0, std, mean.dtype, mean.device, generator) + mean, requires_grad)
    if size is not None:
        mean, std = (x.item() if isinstance(x, TensorBase) and not x.ndim and not x.requires_grad else x for x in (mean, std))
    given = [x for x in (mean, std) if isinstance(x, TensorBase)]
    kind = floating_dtype("normal", given[0].dtype) if given else None
    _need("normal", std, lambda x: x >= 0, "std must be >= 0")
    if bool(given) == (size is not None) or given and (dtype is not None or device is not None):
        raise CallError("normal: needs tensors, or two numbers and a size, with dtype and device where they are wanted")
    if not given:
        kind = floating_dtype("normal", dtype)
        return finish(draw("normal", normal_op, as_shape(size), float(mean), float(std), kind, device, generator), requires_grad)
    shape = broadcast_shapes(*[x.shape for x in given])
    mean_now, std_now = (x.detach() if isinstance(x, TensorBase) else x for x in (mean, std))
    if isinstance(std, TensorBase):
        made = draw("normal", normal_op, shape, 0.0, 1.0, kind, std.device, generator) * std_now + mean_now
    else:
        made = draw("normal", normal_op, shape, 0.0, std, kind, mean.device, generator) + mean_now
    return finish(constant_of(made if made.dtype is kind else cast(made, kind), mean, std), requires_grad)


@_drawn
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
    """Positions drawn by the weights in each row of `input`, a vector or matrix; without `replacement`, none twice.

    Raises: ArgumentError for too many samples, or for weights that are negative, not finite or all 0; ShapeError.

    >>> volta.multinomial(volta.tensor([0.0, 3.0, 0.0]), 2, replacement=True).tolist()
    [1, 1]
    """
    if input.ndim not in (1, 2):
        raise ShapeError(f"multinomial: needs a vector or matrix of weights, got shape {input.shape}")
    floating_dtype("multinomial", input.dtype)
    size = input.shape[-1]
    if num_samples <= 0 or not replacement and num_samples > size:
        raise ArgumentError(f"multinomial: num_samples must be at least 1 and, without replacement, at most the {size} weights, got "
                            f"{num_samples}")
    weights = cast(input.detach(), float64 if input.dtype is float64 else float32)
    if replacement and len(weights._shape) == 1 and bare(weights) and host_sees(weights) and size and all_between(weights, 0.0, _LARGEST):
        ends = run_kernel(cumsum_op, weights.device, (weights,), {"dim": 0})
        last = read_scalar(view(ends, (), (), size - 1))
        if 0 < last < math.inf:
            drawn = _uniform("multinomial", ends, generator, (num_samples,)) * (last * _BELOW)
            return run_kernel(searchsorted_op, ends.device, (ends, drawn), {"right": True})
    _need("multinomial", weights, lambda x: (x >= 0) & (x < math.inf), "needs weights that are finite and not negative", 0.0, _LARGEST)
    ends = cumsum_op(weights, dim=weights.ndim - 1) if replacement else None
    last = narrow(ends, input.ndim - 1, size - 1, 1) if replacement and size else weights.sum(-1)
    _need("multinomial", last, lambda x: x > 0, "needs a weight above 0 in each row", 5e-324, math.inf)
    return _chosen_again(ends, last, num_samples, generator) if replacement else _chosen_once(weights, num_samples, generator)


def _two_uniform(op, x, generator):
    return _uniform(op, x, generator), _uniform(op, x, generator)


@composed(method=False, untested="tests/test_draws.py: by moments")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers of the mean that each element of `input` is. No gradient passes.

    Raises: ArgumentError for a negative mean; DTypeError for integers.

    >>> volta.poisson(volta.tensor([0.0, 0.0])).tolist()
    [0.0, 0.0]
    """
    floating_dtype("poisson", input.dtype)
    _need("poisson", input.detach(), lambda x: x >= 0, "needs means that are not negative", 0.0, math.inf)
    rate = cast(row_major(input), float64 if input.dtype is float64 else float32)
    return cast(poisson_op(rate, *_two_uniform("poisson", rate, generator)), input.dtype)


@composed(method=False, untested="tests/test_draws.py: by moments")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with the probability `prob`, none below 0 and all above 1; the two broadcast. No gradient
    passes.

    Raises: DTypeError for integers or two dtypes.

    >>> volta.binomial(volta.tensor([5.0, 7.0]), volta.tensor([0.0, 1.0])).tolist()
    [0.0, 7.0]
    """
    floating_dtype("binomial", count.dtype)
    if prob.dtype is not count.dtype:
        raise DTypeError(f"binomial: count and prob must have one dtype, got {count.dtype} and {prob.dtype}; convert with .to(dtype)")
    kind = float64 if count.dtype is float64 else float32
    n, p = broadcast_tensors(cast(count, kind), cast(prob, kind))
    return cast(binomial_op(n, p, *_two_uniform("binomial", n, generator)), count.dtype)


def _chosen_once(weights, count, generator):
    """The first `count` to arrive, where each arrives after an exponential time of its weight."""
    speed = weights / -log1p(-_uniform("multinomial", weights, generator))
    speed = where_op(weights == 0, -1.0, speed)         # 0 / 0 too
    return sort_op(speed, dim=weights.ndim - 1, descending=True, count=count)[1]


def _chosen_again(ends, last, count, generator):
    """For each sample the first whose running sum of weights is above a uniform number."""
    drawn = _uniform("multinomial", ends, generator, ends.shape[:-1] + (count,))
    return searchsorted_op(ends, drawn * (last * _BELOW), right=True)


# ---------------------------------------------------------------- overwritten tensors
@_in_place
def bernoulli_(input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with 1 with probability `p`, a number or a tensor, else 0.

    Raises: ArgumentError for what is no probability.

    >>> volta.zeros(2).bernoulli_(1.0).tolist()
    [1.0, 1.0]
    """
    if (drawn := redrawn("bernoulli_", bernoulli_, input, p, generator=generator)) is not None:
        return drawn
    if type(p) is float and 0.0 <= p <= 1.0 and draw_into(draw_into_op, input, "bernoulli", p, 0.0, generator) is not None:
        return input
    _need("bernoulli_", p, _is_probability, "needs probabilities of [0, 1]")
    return _overwritten("bernoulli_", input, _uniform("bernoulli_", input, generator) < p, integers=True)


@_in_place
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with exponential numbers, of mean 1 / lambd.

    Raises: ArgumentError unless lambd > 0.

    >>> bool((volta.empty(9).exponential_() >= 0).all())
    True
    """
    if (drawn := redrawn("exponential_", exponential_, input, lambd, generator=generator)) is not None:
        return drawn
    if not lambd > 0:
        raise ArgumentError(f"exponential_: lambd must be > 0, got {lambd}")
    factor = -1 / float(lambd)
    if draw_into(draw_into_op, input, "exponential", factor, 0.0, generator) is not None:
        return input
    floating_dtype("exponential_", input.dtype)
    kind = float64 if input.dtype is float64 else float32
    rest = draw("exponential_", uniform_op, input.shape, 1.0, 0.0, kind, input.device, generator)           # 1 - u, exactly
    copy_into(input, cast(xlogy(factor, rest), input.dtype))
    return input


@_in_place
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with how many trials of probability `p` the first success takes.

    Raises: ArgumentError unless 0 < p < 1; DTypeError for bool.

    >>> bool((volta.empty(9).geometric_(0.5) >= 1).all())
    True
    """
    if (drawn := redrawn("geometric_", geometric_, input, p, generator=generator)) is not None:
        return drawn
    p = float(p)
    _need("geometric_", p, lambda x: 0 < x < 1, "p must be within (0, 1)")
    if input.dtype is bool_:
        raise DTypeError("geometric_: needs a floating point or integer tensor, got bool; convert it with .float()")
    if draw_into(draw_into_op, input, "geometric", math.log1p(-p), 0.0, generator) is not None:
        return input
    trials = ceil(log1p(-_uniform("geometric_", input, generator)) / math.log1p(-p))
    return _overwritten("geometric_", input, clamp(trials, 1, None), integers=True)


@_in_place
def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with Cauchy numbers: median + sigma * tan(pi * (u - 1 / 2)).

    Raises: ArgumentError unless sigma > 0.

    >>> volta.empty(2).cauchy_().shape
    volta.Size([2])
    """
    if (drawn := redrawn("cauchy_", cauchy_, input, median, sigma, generator=generator)) is not None:
        return drawn
    _need("cauchy_", sigma, lambda x: x > 0, "sigma must be > 0")
    if draw_into(draw_into_op, input, "cauchy", median, sigma, generator) is not None:
        return input
    return _overwritten("cauchy_", input, tan((_uniform("cauchy_", input, generator) - 0.5) * math.pi) * sigma + median)


@_in_place
def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Overwrite with exp of normal numbers of this mean and standard deviation.

    Raises: ArgumentError unless std > 0.

    >>> bool((volta.empty(9).log_normal_() > 0).all())
    True
    """
    if (drawn := redrawn("log_normal_", log_normal_, input, mean, std, generator=generator)) is not None:
        return drawn
    _need("log_normal_", std, lambda x: x > 0, "std must be > 0")
    if draw_into(draw_into_op, input, "log_normal", mean, std, generator) is not None:
        return input
    kind = float64 if input.dtype is float64 else float32
    return _overwritten("log_normal_", input, exp(draw("log_normal_", normal_op, input.shape, mean, std, kind, input.device, generator)))


@functools.cache
def _counted(kind):
    """The least and the largest integer that a dtype holds, of floating points between those that it counts exactly, and of these the
    largest."""
    if kind.is_floating_point:
        exact = round(2 / finfo(kind).eps)
        return -exact, exact, exact
    return (0, 1, 1) if kind is bool_ else (iinfo(kind).min, iinfo(kind).max, iinfo(kind).max)


@_in_place
def random_(input: Tensor, *bounds: int | None, low: int | None = None, to: int | None = None,
            generator: Generator | None = None) -> Tensor:
    """Overwrite with integers of [from, to): `random_(from, to)`, `random_(to)` from 0, or `random_()` for all that the dtype counts
    exactly from 0.

    Raises: ArgumentError unless from < to and both fit the dtype.

    >>> volta.zeros(2).random_(5, 6).tolist()
    [5.0, 5.0]
    """
    if not bounds and low is to is None and input.dtype.is_floating_point and bare(input) and draw_into(
            draw_into_op, input, "integers", 0, _counted(input.dtype)[2] + 1, generator) is not None:
        return input
    if (drawn := redrawn("random_", random_, input, *bounds, low=low, to=to, generator=generator)) is not None:
        return drawn
    if low is not None:                                        # PyTorch's `from`
        bounds = (low, *bounds) if bounds or to is not None else (low, None)
    if len(bounds) + (to is not None) > 2:
        raise ArgumentError(f"random_: takes from and to, got {bounds} and to={to}")
    low, high = (0, to) if not bounds else (bounds[0], to) if to is not None else (0, *bounds) if len(bounds) == 1 else bounds
    kind = input.dtype
    least, most, exact = _counted(kind)
    if kind is int64 and input.device.is_gpu:
        least, most = -1 << 31, (1 << 31) - 1
        exact = most
    high = (most if bounds else exact) + 1 if high is None else high
    if low is None or not low < high:
        raise ArgumentError(f"random_: needs from < to, got {low} and {high}")
    if not kind.is_floating_point and not least <= low < high <= most + 1:
        raise ArgumentError(f"random_: {low} to {high - 1} do not fit into {kind} on {input.device}")
    counted = -1 << 31 <= low and high <= 1 << 31 if input.device.is_gpu else high - low <= 1 << 32 and -1 << 52 < low < 1 << 52
    if kind.is_floating_point and counted and draw_into(
            draw_into_op, input, "integers", low, high - low, generator) is not None:
        return input
    return _overwritten("random_", input, draw_integers("random_", input.shape, low, high, kind, input.device, generator), integers=True)
