"""Tensors from data, from rules (zeros, arange, ...) and from random numbers, made on the device that is asked for."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from volta import random
from volta._kernels import core
from volta._kernels.core.call import run_kernel
from volta.device import device as as_device
from volta.dtypes import as_dtype, bool_, float16, float32, float64, from_numpy_dtype, get_default_dtype, int64, to_numpy
from volta.errors import ArgumentError, DTypeError, ShapeError
from volta.ops.copy import cast, copy_into, to
from volta.ops.join import cat
from volta.ops.records.copy import from_array, upload
from volta.ops.records.create import arange_op, dropout_op, empty_op, full_op, normal_op, randint_op, uniform_op
from volta.ops.records.math import where_op
from volta.ops.table import create
from volta.ops.view import listed, slice_view
from volta.shapes import as_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from volta.random import Generator
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike, Number


def _finish(t, requires_grad):
    if requires_grad:
        t.requires_grad_()
    return t


# ---------------------------------------------------------------- from data
def tensor(data: object, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences, a NumPy array or a tensor.

    Raises: DTypeError for data without a counterpart; ShapeError for ragged sequences.
    """
    if isinstance(data, core.TensorBase):
        out = to(data.detach(), dtype=dtype, device=data.device if device is None else device)
        return _finish(out.clone() if out.storage is data.storage else out, requires_grad)
    array = _as_array(data)
    wanted = from_numpy_dtype(array.dtype) if dtype is None or not _is_numeric(array) else as_dtype(dtype)
    if array.dtype == np.uint64 and wanted is int64 and array.size and array.max() >= 1 << 63:
        raise DTypeError(f"tensor: {array.max()} does not fit into {wanted}; pass dtype=volta.float64")
    if dtype is None and array.dtype == np.float64 and not isinstance(data, (np.ndarray, np.generic)):
        wanted = get_default_dtype()
    if dtype is not None and array.dtype.kind == "i" and not isinstance(data, np.ndarray):
        _check_fit(array, wanted)
    array = np.array(array, dtype=to_numpy(wanted), order="C", copy=True)
    return _finish(_place(array, wanted, device), requires_grad)


def _is_numeric(array):
    """Whether NumPy's conversion means something: integers of any size do, strings and None do not."""
    return array.dtype.kind in "biuf" or array.dtype.kind == "O" and all(isinstance(v, int) for v in array.flat)


def _check_fit(array, dtype):
    """Python integers that a narrower dtype would wrap. As in PyTorch, a negative one may stand for its complement in uint8."""
    if dtype.is_floating_point or dtype.code == 0 or not array.size:
        return
    limits = np.iinfo(to_numpy(dtype))
    low, high = int(array.min()), int(array.max())
    if high > limits.max or low < (limits.min or -limits.max):
        raise DTypeError(f"tensor: {high if high > limits.max else low} does not fit into {dtype}")


def _as_array(data):
    if isinstance(data, (list, tuple)) and any(isinstance(x, core.TensorBase) for x in data):
        data = [x.detach().numpy() if isinstance(x, core.TensorBase) else x for x in data]
    try:
        return np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"tensor: the sequences differ in length: {error}") from None


def _place(array, dtype, device):
    """Array (owned, C-contiguous, of `dtype`) as a tensor on `device`."""
    where = as_device(device)
    if where.is_gpu:
        return run_kernel(upload, where, (array, dtype, where))
    return from_array(array)


def from_numpy(array: np.ndarray) -> Tensor:
    """CPU tensor that shares the memory of a NumPy array, as torch.from_numpy.

    Raises: DTypeError for an element type without counterpart or a read-only array.
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}; use volta.tensor")
    dtype = from_numpy_dtype(array.dtype)
    if to_numpy(dtype) != array.dtype:
        raise DTypeError(f"from_numpy: {array.dtype} cannot be shared; copy it with volta.tensor(array)")
    if not array.flags.writeable:
        array = array.copy()
    low = array
    if any(step < 0 for step in array.strides):
        low = array.copy()
    if any(s % array.itemsize for s in low.strides):
        low = low.copy()
    span = sum((n - 1) * s for n, s in zip(low.shape, low.strides)) + low.itemsize if low.size else 0
    storage = core.borrowed_storage(low, low.__array_interface__["data"][0], span)
    return core.tensor(storage, low.shape, tuple(s // low.itemsize for s in low.strides), 0, dtype)


def as_tensor(data: object, *, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """`data` as a tensor, without a copy where that is possible."""
    if isinstance(data, core.TensorBase):
        return to(data, dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and dtype is None and not as_device(device).is_gpu:
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


# ---------------------------------------------------------------- by rule
def _shape(op, given, named):
    """The shape of `f(2, 3)`, `f((2, 3))` or `f(size=(2, 3))`."""
    return as_shape(*listed(op, given, named))


def empty(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
          requires_grad: bool = False) -> Tensor:
    """Contents undefined."""
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    return _finish(create(empty_op, _shape("empty", sizes, size), dtype=dtype, device=as_device(device)), requires_grad)


def full(size: int | Sequence[int], fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
         requires_grad: bool = False) -> Tensor:
    """Every element `fill_value`; its type decides the dtype.

    Raises: ArgumentError for a value that is no number or does not fit the dtype.
    """
    if isinstance(fill_value, (core.TensorBase, np.ndarray, np.generic)):
        fill_value = fill_value.item()
    if not isinstance(fill_value, (bool, int, float)):
        raise ArgumentError(f"full: fill_value must be a number, got {type(fill_value).__name__}")
    if dtype is None:
        dtype = bool_ if isinstance(fill_value, bool) else int64 if isinstance(fill_value, int) else get_default_dtype()
    return _finish(create(full_op, as_shape(size) if hasattr(size, "__index__") else as_shape(*size), fill_value,
                          dtype=as_dtype(dtype), device=as_device(device)), requires_grad)


def zeros(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
          requires_grad: bool = False) -> Tensor:
    """Every element 0."""
    return full(_shape("zeros", sizes, size), 0, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def ones(*sizes: int | Sequence[int], size: Sequence[int] | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
         requires_grad: bool = False) -> Tensor:
    """Every element 1."""
    return full(_shape("ones", sizes, size), 1, dtype=dtype or get_default_dtype(), device=device, requires_grad=requires_grad)


def arange(start: Number | None = None, end: Number | None = None, step: Number = 1, *, dtype: DTypeLike = None,
           device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """start, start + step, ... before end; `arange(end)` starts at 0.

    Raises: ArgumentError where there is no end, or step is 0 or leads away from it.
    """
    if end is None:
        start, end = None, start
    if end is None:
        raise ArgumentError("arange: needs the end")
    start, end, step = (_finite("arange", *pair) for pair in (("start", 0 if start is None else start), ("end", end), ("step", step)))
    whole = all(isinstance(v, int) for v in (start, end, step))
    dtype = (int64 if whole else get_default_dtype()) if dtype is None else as_dtype(dtype)
    given = start, end, step
    if dtype is int64 and not whole:        # int64 counts with whole numbers, narrower integers with the numbers as they are
        start, end, step = int(start), int(end), int(step)
    if step == 0 or (given[1] - given[0]) / given[2] < 0:
        raise ArgumentError(f"arange: from {given[0]} to {given[1]} cannot be walked in steps of {given[2]}")
    count = max(0, math.ceil((end - start) / step))
    as_shape(count)
    if not dtype.is_floating_point:
        start, step = int(start), int(step)
    return _finish(create(arange_op, start, step, count, dtype=dtype, device=as_device(device)), requires_grad)


def _finite(op, name, value):
    """A Python number from one, NumPy's or a tensor's."""
    if isinstance(value, (np.number, core.TensorBase)):
        value = value.item()
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ArgumentError(f"{op}: {name} must be a finite number, got {value!r}")
    return value


def linspace(start: float, end: float, steps: int, *, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """`steps` values from start to end, both included; integers are cut off, from bounds that are cut off."""
    if not hasattr(steps, "__index__") or steps < 0:
        raise ArgumentError(f"linspace: steps must be an integer >= 0, got {steps!r}")
    start, end = _finite("linspace", "start", start), _finite("linspace", "end", end)
    dtype, place = as_dtype(dtype or get_default_dtype()), as_device(device)
    if dtype is bool_:
        raise DTypeError(f"linspace: needs a dtype of numbers, got {dtype}")
    first = steps // 2 or steps             # counted from both ends, so that both are exact
    if not dtype.is_floating_point:
        start, end, i = int(start), int(end), np.arange(steps)
        if not np.iinfo(to_numpy(dtype)).min <= min(start, end) <= max(start, end) <= np.iinfo(to_numpy(dtype)).max:
            raise DTypeError(f"linspace: {start} to {end} do not fit into {dtype}")
        step = (end - start) / max(steps - 1, 1)
        values = np.where(i < first, start + step * i, end - step * (steps - 1 - i))
        return _finish(tensor(values.astype(to_numpy(dtype)), device=place), requires_grad)
    kind, step = float64 if dtype is float64 else float32, (end - start) / max(steps - 1, 1)
    low = create(arange_op, float(start), step, first, dtype=kind, device=place)
    high = create(arange_op, float(end), -step, steps - first, dtype=kind, device=place)
    return _finish(cast(cat([low, slice_view(high, (slice(None, None, -1),))]), dtype), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    as_shape(n, n if m is None else m)
    rows, columns = arange(n, device=device), arange(n if m is None else m, device=device)
    return _finish(cast(rows.reshape(-1, 1) == columns, as_dtype(dtype or get_default_dtype())), requires_grad)


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dimensions; zeros above `diagonal`."""
    return _triangle(input, lambda row, column: column <= row + diagonal)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dimensions; zeros below `diagonal`."""
    return _triangle(input, lambda row, column: column >= row + diagonal)


def _triangle(input, keep):
    if input.ndim < 2:
        raise ShapeError(f"tril/triu: needs at least 2 dimensions, got shape {input.shape}")
    rows = arange(input.shape[-2], device=input.device).reshape(-1, 1)
    return where_op(keep(rows, arange(input.shape[-1], device=input.device)), input, False if input.dtype.code == 0 else 0)


# ---------------------------------------------------------------- random
def _check_generator(op, generator):
    if generator is not None and not isinstance(generator, random.Generator):
        raise ArgumentError(f"{op}: generator must be a volta.Generator, got {type(generator).__name__}")
    return generator or random.default_generator


def _draw(op, primitive, shape, a, b, dtype, device, generator):
    generator = _check_generator(op, generator)
    count = 1
    for s in shape:
        count *= s
    seed, offset = generator.advance(count)
    return create(primitive, shape, a, b, seed=seed, offset=offset, dtype=as_dtype(dtype), device=as_device(device))


def rand(*sizes: int | Sequence[int], size: Sequence[int] | None = None, generator: Generator | None = None, dtype: DTypeLike = None,
         device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Uniform on [0, 1)."""
    dtype = _floating_dtype("rand", dtype)
    return _finish(_draw("rand", uniform_op, _shape("rand", sizes, size), 0.0, 1.0, dtype, device, generator), requires_grad)


def randn(*sizes: int | Sequence[int], size: Sequence[int] | None = None, generator: Generator | None = None, dtype: DTypeLike = None,
          device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Normal, mean 0 and standard deviation 1."""
    dtype = _floating_dtype("randn", dtype)
    return _finish(_draw("randn", normal_op, _shape("randn", sizes, size), 0.0, 1.0, dtype, device, generator), requires_grad)


def randint(*bounds: int | Sequence[int], low: int = 0, high: int | None = None, size: int | Sequence[int] | None = None,
            generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """Integers on [low, high): `randint(low, high, size)`, or `randint(high, size)` from 0; also by name.

    Raises: ArgumentError unless low < high and they are less than 2**32 apart.
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
    whole = hasattr(low, "__index__") and hasattr(high, "__index__")
    if not whole or not 0 < high - low <= 1 << 32 or low < -1 << 63 or high > 1 << 63:
        raise ArgumentError(f"randint: needs integers low < high, at most 2**32 apart and within int64, got {low!r}, {high!r}")
    kind = int64 if dtype is None else as_dtype(dtype)
    least, most = (0, 1) if kind is bool_ else (-65504, 65504) if kind is float16 else (
        (None, None) if kind.is_floating_point else (np.iinfo(to_numpy(kind)).min, np.iinfo(to_numpy(kind)).max))
    if most is not None and not least <= low < high <= most + 1:
        raise ArgumentError(f"randint: {low} to {high - 1} do not fit into {kind}")
    drawn = _draw("randint", randint_op, as_shape(*listed("randint", (size,), None)), low, high,
                  int64 if kind.is_floating_point or kind.code == 0 else kind, device, generator)
    return _finish(cast(drawn, kind), requires_grad)


def randperm(n: int, *, generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """A random order of 0 to n - 1, the same on every device."""
    (n,) = as_shape(n)
    seed, offset = _check_generator("randperm", generator).advance(n)
    order = np.random.Generator(np.random.Philox(key=seed, counter=offset)).permutation(n)
    return tensor(order.astype(np.int64), dtype=int64 if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _floating_dtype(op, dtype):
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    if not dtype.is_floating_point:
        raise DTypeError(f"{op}: needs a floating point dtype, got {dtype}")
    return dtype


def fill_random_(t: Tensor, primitive, a: float, b: float, generator: Generator | None = None) -> Tensor:
    """Overwrite `t` with random numbers (for nn.init); unrecorded."""
    copy_into(t, _draw("init", primitive, t.shape, a, b, t.dtype, t.device, generator))
    return t


# ---------------------------------------------------------------- like another
def _like(make):
    def function(input: Tensor, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
        return make(input.shape, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)
    return _named_like(function, make)


def _random_like(make):
    def function(input: Tensor, *, generator: Generator | None = None, dtype: DTypeLike = None, device: DeviceLike = None,
                 requires_grad: bool = False) -> Tensor:
        return make(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device,
                    requires_grad=requires_grad)
    return _named_like(function, make)


def _named_like(function, make):
    function.__doc__ = f"`{make.__name__}` with the shape, dtype and device of `input`."
    function.__name__ = function.__qualname__ = make.__name__ + "_like"
    return function


zeros_like, ones_like, empty_like = _like(zeros), _like(ones), _like(empty)
rand_like, randn_like = _random_like(rand), _random_like(randn)


def full_like(input: Tensor, fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
              requires_grad: bool = False) -> Tensor:
    """`full` with the shape, dtype and device of `input`."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def randint_like(input: Tensor, *bounds: int, low: int = 0, high: int | None = None, generator: Generator | None = None,
                 dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """`randint` with the shape, dtype and device of `input`: `randint_like(x, high)` or `randint_like(x, low, high)`."""
    return randint(*bounds, low=low, high=high, size=input.shape, generator=generator, dtype=dtype or input.dtype,
                   device=device or input.device, requires_grad=requires_grad)


def _new(make):
    def function(self, *size: int | Sequence[int], dtype: DTypeLike = None, device: DeviceLike = None,
                 requires_grad: bool = False) -> Tensor:
        return make(*size, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)
    function.__doc__ = f"`volta.{make.__name__}` with the dtype and device of this tensor."
    function.__name__ = function.__qualname__ = "new_" + make.__name__
    return function


new_zeros, new_ones, new_empty = _new(zeros), _new(ones), _new(empty)


def new_full(self, size: int | Sequence[int], fill_value: Number, *, dtype: DTypeLike = None, device: DeviceLike = None,
             requires_grad: bool = False) -> Tensor:
    """`volta.full` with the dtype and device of this tensor."""
    return full(size, fill_value, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new_tensor(self, data: object, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """`volta.tensor` with the dtype and device of this tensor."""
    return tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training.

    Raises: ArgumentError unless 0 <= p <= 1. Source: Srivastava et al. 2014, in the inverted form.
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: p must be a probability in [0, 1], got {p}")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input * 0.0
    seed, offset = _check_generator("dropout", generator).advance(input._size)
    return dropout_op(input, p=float(p), seed=seed, offset=offset)
