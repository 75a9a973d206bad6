"""Tensors by rule (zeros, arange, ...) and of random numbers, made on the device that is asked for."""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import checked_size, plain_sizes
from volta._kernels.core.call import created
from volta._kernels.core.order import dense_strides
from volta._kernels.core.streams import draw, draw_into
from volta.device import as_device
from volta.dtypes import as_dtype, bool_, check_held, float16, float32, float64, get_default_dtype, iinfo, int64, to_numpy
from volta.errors import ArgumentError, CallError, DTypeError, ShapeError
from volta.layout import preserve_format
from volta.ops.copy import arranged, copy_into, fill_into
from volta.ops.from_data import finish, tensor
from volta.ops.records.copy import cast
from volta.ops.records.create import arange_op, draw_into_op, empty_op, full_op, normal_op, randint_op, shuffled_op, uniform_op
from volta.ops.table import case, composed, create
from volta.shapes import as_shape, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta._kernels.core import DType
    from volta.layout import memory_format as Layout
    from volta.random import Generator
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike, Number


_made = composed(method=False, untested="tests/test_tensor.py, test_random.py and test_torch_programs.py: no inputs to differentiate")
_made_as_this = composed(function=False, untested="as the function without new_")


# ---------------------------------------------------------------- by rule
def _shape(op, given, named):
    """The shape of `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`."""
    if named is None and (sizes := plain_sizes(given)) is not None:
        return sizes
    return as_shape(*listed(op, given, named))


@_made
def empty(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
          requires_grad: bool = False, memory_format: Layout | None = None) -> Tensor:
    """Contents undefined (of int64, zeros: any bits would not fit into a GPU's 32), laid out as `memory_format` says.

    >>> volta.empty(2, 3).shape
    volta.Size([2, 3])
    """
    out = _undefined(_shape("empty", sizes, size), dtype, device)
    return finish(out if memory_format is None else arranged("empty", out, memory_format), requires_grad)


def _undefined(shape, dtype, device):
    dtype, device = None if dtype is None else as_dtype(dtype), None if device is None else as_device(device)
    return created(full_op, (shape, 0), dtype, device) if dtype is int64 else created(empty_op, (shape,), dtype, device)


@_made
def full(size: Sequence[int], fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
         requires_grad: bool = False) -> Tensor:
    """Every element `fill_value`; its type decides the dtype.

    Raises: ArgumentError for a value that is no number or does not fit the dtype.

    >>> volta.full((2,), 7).tolist()
    [7, 7]
    """
    return _full(_shape("full", (size,), None), fill_value, dtype, device, requires_grad)


def _full(shape, fill_value, dtype, device, requires_grad):
    if type(fill_value) not in (float, int):
        if isinstance(fill_value, (core.TensorBase, np.ndarray, np.generic)):
            fill_value = fill_value.item()
        if not isinstance(fill_value, (bool, int, float)):
            raise ArgumentError(f"full: fill_value must be a number, got {type(fill_value).__name__}")
    if dtype is None:
        dtype = bool_ if isinstance(fill_value, bool) else int64 if isinstance(fill_value, int) else get_default_dtype()
    if not -65504.0 <= fill_value <= 65504.0:
        check_held("full", fill_value, as_dtype(dtype))
    return _filled(shape, fill_value, dtype, device, requires_grad)


def _filled(shape, value, dtype, device, requires_grad):
    dtype, device = None if dtype is None else as_dtype(dtype), None if device is None else as_device(device)
    out = created(full_op, (shape, value), dtype, device)
    return finish(out, True) if requires_grad else out


@_made
def zeros(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
          requires_grad: bool = False) -> Tensor:
    """Every element 0.

    >>> volta.zeros(2).tolist()
    [0.0, 0.0]
    """
    return _filled(_shape("zeros", sizes, size), 0, dtype, device, requires_grad)


@_made
def ones(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
         requires_grad: bool = False) -> Tensor:
    """Every element 1.

    >>> volta.ones(2).tolist()
    [1.0, 1.0]
    """
    return _filled(_shape("ones", sizes, size), 1, dtype, device, requires_grad)


@_made
def arange(start: Number | None = None, end: Number | None = None, step: Number = 1, *, dtype: DTypeLike = None,
           device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """start, start + step, ... before end; `arange(end)` starts at 0.

    Raises: ArgumentError where there is no end, or step is 0 or leads away from it; DTypeError for bool.

    >>> volta.arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    if end is None:
        start, end = None, start
    if end is None:
        raise ArgumentError("arange: needs the end")
    start = 0 if start is None else start
    whole = type(start) is type(end) is type(step) is int
    if not whole:
        start, end, step = number("arange", "start", start), number("arange", "end", end), number("arange", "step", step)
        whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    dtype = (int64 if whole else get_default_dtype()) if dtype is None else as_dtype(dtype)
    if dtype is bool_:
        raise DTypeError("arange: bool has no numbers; take an integer or a floating point dtype")
    given = start, end, step
    if dtype is int64 and not whole:        # int64 counts with whole numbers, narrower integers with the numbers as they are
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (given[1] - given[0]) / given[2] < 0:
        raise ArgumentError(f"arange: from {given[0]} to {given[1]} cannot be walked in steps of {given[2]}")
    count = max(0, math.ceil((end - start) / step))
    checked_size((count,))
    if not dtype.is_floating_point:
        start, step = int(start), int(step)
        if max(abs(start), abs(step)) >= 1 << 63:
            raise ArgumentError(f"arange: {given[0]} and {given[2]} must fit into 64 bits")
    return finish(created(arange_op, (start, step, count), dtype, None if device is None else as_device(device)), requires_grad)


def number(op, name, value, finite=True):
    """A Python number from one, NumPy's or a tensor's."""
    if (type(value) is float or type(value) is int) and math.isfinite(value):
        return value
    if isinstance(value, core.TensorBase) and value.ndim:
        raise ShapeError(f"{op}: {name} must be a number or a 0-d tensor, got shape {value.shape}")
    if isinstance(value, (np.number, core.TensorBase)):
        value = value.item()
    if not isinstance(value, (int, float)) or finite and not math.isfinite(value):
        raise ArgumentError(f"{op}: {name} must be a {'finite ' if finite else ''}number, got {value!r}")
    return value


@_made
def linspace(start: Number | Tensor, end: Number | Tensor, steps: int, *, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """`steps` values from start to end, both included; integers are cut off, from bounds that are cut off.

    Raises: ArgumentError for `steps` that are no integer >= 0; DTypeError for bool, and for bounds beyond the dtype.

    >>> volta.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    if not hasattr(steps, "__index__") or steps < 0:
        raise ArgumentError(f"linspace: steps must be an integer >= 0, got {steps!r}")
    dtype, place = get_default_dtype() if dtype is None else as_dtype(dtype), as_device(device)
    whole = not dtype.is_floating_point
    start, end = number("linspace", "start", start, whole), number("linspace", "end", end, whole)
    if dtype is bool_ and steps > 1:
        raise DTypeError(f"linspace: needs a dtype of numbers, got {dtype}")
    if not dtype.is_floating_point:
        start, end, i = int(start), int(end), np.arange(steps)
        if dtype is not bool_ and not np.iinfo(to_numpy(dtype)).min <= min(start, end) <= max(start, end) <= np.iinfo(to_numpy(dtype)).max:
            raise DTypeError(f"linspace: {start} to {end} do not fit into {dtype}")
        step = (end - start) / max(steps - 1, 1)
        values = np.where(i < (steps // 2 or steps), start + step * i, end - step * (steps - 1 - i))
        return finish(tensor(values.astype(to_numpy(dtype)), device=place), requires_grad)
    kind, step = float64 if dtype is float64 else float32, (end - start) / (steps - 1) if steps > 1 else 0.0
    out = create(arange_op, float(start), step, steps, dtype=kind, device=place, end=float(end))
    return finish(out if kind is dtype else cast(out, dtype), requires_grad)


@_made
def eye(n: int, m: int | None = None, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal, zeros elsewhere.

    >>> volta.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if type(n) is not int or m is not None or n < 0:
        n, m = as_shape(n, n if m is None else m)
    m = n if m is None else m
    out = _filled((n, m), 0, dtype, device, False)
    if n and m:
        fill_into(core.view(out, (min(n, m),), (m + 1,), 0), 1)
    return finish(out, requires_grad)


# ---------------------------------------------------------------- random
@_made
def rand(*sizes: int | Sequence[int], size: Sequence[int] | None = None, generator: Generator | None = None, dtype: DTypeLike = None,
         device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Uniform on [0, 1).

    >>> volta.rand(2, 3).shape
    volta.Size([2, 3])
    """
    dtype = floating_dtype("rand", dtype)
    return finish(draw("rand", uniform_op, _shape("rand", sizes, size), 0.0, 1.0, dtype, device, generator), requires_grad)


@_made
def randn(*sizes: int | Sequence[int], size: Sequence[int] | None = None, generator: Generator | None = None, dtype: DTypeLike = None,
          device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Normal, mean 0 and standard deviation 1.

    >>> volta.randn(2, 3).shape
    volta.Size([2, 3])
    """
    dtype = floating_dtype("randn", dtype)
    return finish(draw("randn", normal_op, _shape("randn", sizes, size), 0.0, 1.0, dtype, device, generator), requires_grad)


@_made
def randint(*bounds: int | Sequence[int], low: int = 0, high: int | None = None, size: Sequence[int] | None = None,
            generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Integers on [low, high): `randint(low, high, size)`, or `randint(high, size)` from 0; also by name.

    Raises: ArgumentError unless low < high and both are within int64.

    >>> volta.randint(5, 6, (2,)).tolist()
    [5, 5]
    """
    given = list(bounds)
    if given and size is None:
        size = given.pop()
    if given and high is None:
        high = given.pop()
    if given:
        low = given.pop()
    if given or size is None or high is None:
        raise ArgumentError(f"randint: needs (low, high, size) or (high, size), got {bounds}")
    if hasattr(size, "__index__"):
        raise CallError(f"randint: size must be a sequence of integers, got {size!r}; write ({size},)")
    shape = _shape("randint", (size,), None)
    if type(low) is type(high) is int and 0 <= low < high < 1 << 31 and dtype is None:          # most are
        return finish(draw("randint", randint_op, shape, low, high, int64, device, generator), requires_grad)
    if not hasattr(low, "__index__") or not hasattr(high, "__index__") or not -1 << 63 <= low < high <= 1 << 63:
        raise CallError(f"randint: needs integers low < high within int64, got {low!r}, {high!r}")
    kind = int64 if dtype is None else as_dtype(dtype)
    least, most = _integers_of(kind)
    if most is not None and not least <= low < high <= most + 1:
        raise ArgumentError(f"randint: {low} to {high - 1} do not fit into {kind}")
    return finish(draw_integers("randint", shape, low, high, kind, device, generator), requires_grad)


@functools.cache
def _integers_of(kind):
    """The least and the largest integer of a dtype that are drawn; None where any of int64 is."""
    if kind is bool_:
        return 0, 1
    if kind.is_floating_point:
        return (-65504, 65504) if kind is float16 else (None, None)
    return int(np.iinfo(to_numpy(kind)).min), int(np.iinfo(to_numpy(kind)).max)


def draw_integers(op: str, shape: tuple[int, ...], low: int, high: int, dtype: DType, device: DeviceLike,
                  generator: Generator | None) -> Tensor:
    """Integers of [low, high), at most 2**64 apart, as elements of any dtype."""
    kind = int64 if dtype.is_floating_point or dtype.code == 0 else dtype
    if high - low <= 1 << 32:
        return cast(draw(op, randint_op, shape, low, high, kind, device, generator), dtype)
    place = as_device(device)
    if place.is_gpu:
        raise ArgumentError(f"{op}: a GPU holds integers in 32 bits, got low {low} and high {high}; draw on the CPU")
    upper, lower = (draw(op, randint_op, shape, 0, 1 << 32, int64, place, generator).numpy().view(np.uint64) for _ in range(2))
    drawn = upper << np.uint64(32) | lower
    if high - low < 1 << 64:
        drawn %= np.uint64(high - low)
    return cast(tensor((drawn + np.uint64(low & (1 << 64) - 1)).view(np.int64), device=place), dtype)


@_made
def randperm(n: int, *, generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """A random order of 0 to n - 1, the same on every device.

    Raises: ArgumentError for more numbers than the dtype has; DTypeError for bool.

    >>> sorted(volta.randperm(3).tolist())
    [0, 1, 2]
    """
    (n,), wanted = as_shape(n), int64 if dtype is None else as_dtype(dtype)
    if wanted is bool_:
        raise DTypeError("randperm: bool has no numbers; take an integer or a floating point dtype")
    if wanted is not int64 and not wanted.is_floating_point and n - 1 > iinfo(wanted).max:
        raise ArgumentError(f"randperm: {n - 1} does not fit into {wanted}; take a wider dtype")
    return finish(cast(draw("randperm", shuffled_op, (n,), 0, n, int64, device, generator), wanted), requires_grad)


def floating_dtype(op: str, dtype: DTypeLike) -> DType:
    """The dtype, or the default one.

    Raises: DTypeError unless it is a floating one.
    """
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    if not dtype.is_floating_point:
        raise DTypeError(f"{op}: needs a floating point dtype, got {dtype}")
    return dtype


def fill_random_(t: Tensor, primitive, a: float, b: float, generator: Generator | None = None) -> Tensor:
    """Overwrite `t` with random numbers (for nn.init); unrecorded."""
    if draw_into(draw_into_op, t, primitive.name, a, b, generator) is None:
        copy_into(t, draw("init", primitive, t.shape, a, b, t.dtype, t.device, generator))
    return t


# ---------------------------------------------------------------- like another
def _laid(name, made, like, memory_format):
    """New numbers in the memory order that is asked for, which is that of `like` unless something else is said."""
    if memory_format is not None and memory_format is not preserve_format:
        return arranged(name, made, memory_format)
    strides = dense_strides(like)
    if strides is None or core.stands_in(like) or core.stands_in(made):
        return made
    return core.view(made, made.shape, strides, made.offset)


def _like(make, value=None):
    def function(input: Tensor, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
                 memory_format: Layout | None = None) -> Tensor:
        dtype, device = dtype or input.dtype, device or input.device
        like = _undefined(input._shape, dtype, device) if value is None else _filled(input._shape, value, dtype, device, False)
        return finish(_laid(function.__name__, like, input, memory_format), requires_grad)
    return _named_like(function, make, samples=() if make is empty else (case((2, 3)),), kinds="fib", smooth=False,
                       numpy=np.zeros_like if make is zeros else np.ones_like)


def _random_like(make, record, a, b):
    def function(input: Tensor, *, generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
                 requires_grad: bool = False, memory_format: Layout | None = None) -> Tensor:
        kind = floating_dtype(function.__name__, dtype or input.dtype)
        like = draw(function.__name__, record, input._shape, a, b, kind, device or input.device, generator)
        return finish(_laid(function.__name__, like, input, memory_format), requires_grad)
    return _named_like(function, make)


def _named_like(function, make, **options):
    name = function.__name__ = function.__qualname__ = make.__name__ + "_like"
    function.__doc__ = (f"`{make.__name__}` with the shape, dtype and device of `input`.\n\n>>> volta.{name}(volta.ones(2, 3)).shape\n"
                        "volta.Size([2, 3])")
    return (composed(method=False, **options) if options.get("samples") else _made)(function)


zeros_like, ones_like, empty_like = _like(zeros, 0), _like(ones, 1), _like(empty)
rand_like, randn_like = _random_like(rand, uniform_op, 0.0, 1.0), _random_like(randn, normal_op, 0.0, 1.0)


@composed(samples=(case((2, 3), 2),), kinds="fib", method=False, smooth=False, numpy=lambda x, value: np.full_like(x, value))
def full_like(input: Tensor, fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
              requires_grad: bool = False, memory_format: Layout | None = None) -> Tensor:
    """`full` with the shape, dtype and device of `input`.

    >>> volta.full_like(volta.ones(2), 7).tolist()
    [7.0, 7.0]
    """
    like = _full(input._shape, fill_value, dtype or input.dtype, device or input.device, False)
    return finish(_laid("full_like", like, input, memory_format), requires_grad)


@_made
def randint_like(input: Tensor, *bounds: int, low: int = 0, high: int | None = None, generator: Generator | None = None,
                 dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False,
                 memory_format: Layout | None = None) -> Tensor:
    """`randint` with the shape, dtype and device of `input`: `randint_like(x, high)` or `randint_like(x, low, high)`.

    >>> volta.randint_like(volta.arange(2), 1).tolist()
    [0, 0]
    """
    like = randint.function(*bounds, low=low, high=high, size=input.shape, generator=generator, dtype=dtype or input.dtype,
                   device=device or input.device)
    return finish(_laid("randint_like", like, input, memory_format), requires_grad)


def _new(make, value=None):
    def function(self: Tensor, *sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None,
                 device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
        shape, dtype, device = _shape(make.__name__, sizes, size), dtype or self.dtype, device or self.device
        return finish(_undefined(shape, dtype, device) if value is None else _filled(shape, value, dtype, device, False), requires_grad)
    name = function.__name__ = function.__qualname__ = "new_" + make.__name__
    function.__doc__ = (f"`volta.{make.__name__}` with the dtype and device of this tensor.\n\n>>> volta.ones(2).{name}(3).shape\n"
                        "volta.Size([3])")
    return _made_as_this(function)


new_zeros, new_ones, new_empty = _new(zeros, 0), _new(ones, 1), _new(empty)


@_made_as_this
def new_full(self: Tensor, size: Sequence[int], fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """`volta.full` with the dtype and device of this tensor.

    >>> volta.arange(2).new_full((2,), 7).tolist()
    [7, 7]
    """
    return _full(_shape("full", (size,), None), fill_value, dtype or self.dtype, device or self.device, requires_grad)


@_made_as_this
def new_tensor(self: Tensor, data: object, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """`volta.tensor` with the dtype and device of this tensor.

    >>> volta.arange(2).new_tensor([7.0]).tolist()
    [7]
    """
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)
