"""Tensors from data: numbers, nested sequences, NumPy arrays."""
from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np

from volta._kernels import core
from volta._kernels.core import graph
from volta._kernels.core.call import run_kernel
from volta._kernels.core.direct import unwatched
from volta._kernels.core.values import of_numbers
from volta.device import as_device
from volta.dtypes import as_dtype, bfloat16, float32, float64, from_numpy_dtype, get_default_dtype, int64, to_numpy
from volta.errors import ArgumentError, CallError, DeviceError, DTypeError, NumberError, ShapeError, warn_once
from volta.ops.copy import clone, to
from volta.ops.records.copy import cast, from_array, upload
from volta.ops.records.create import full_op
from volta.ops.records.view import permute_op
from volta.ops.table import composed

if TYPE_CHECKING:
    from volta.tensor import Tensor
    from volta.types import DeviceLike, DTypeLike


_made = composed(method=False, untested="tests/test_tensor.py and test_torch_programs.py: no inputs to differentiate")


def finish(t: Tensor, requires_grad: bool) -> Tensor:
    """The new tensor t as a leaf that wants gradients, if asked for."""
    return t.requires_grad_() if requires_grad else t


@_made
def tensor(data: object, *, dtype: DTypeLike = None, device: DeviceLike = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences, a NumPy array or a tensor.

    Raises: DTypeError for data without a counterpart; ShapeError for ragged sequences; ArgumentError for integers beyond int64.

    >>> volta.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    if isinstance(data, bytearray):
        data = list(data)
    if isinstance(data, core.TensorBase):
        warnings.warn("tensor: of a tensor, write x.detach().clone(), or x.detach().clone().requires_grad_()", stacklevel=2)
        return _copied(core.detached(data), dtype, device, requires_grad)       # of no class of a program's own
    if dtype is None and (type(data) is list or type(data) is float):
        floating, where = get_default_dtype(), as_device(device)
        if not where.is_gpu and (floating is float32 or floating is float64) and unwatched():
            if type(data) is float:
                return finish(run_kernel(full_op, where, ((), data), {"dtype": floating}), requires_grad)
            made = of_numbers(data, floating)
            if made is not None:
                return finish(made, requires_grad)
    if type(data) is np.ndarray and data.dtype.kind in "bif":           # which mean what they say
        return _of_array(data, from_numpy_dtype(data.dtype) if dtype is None else as_dtype(dtype), device, requires_grad)
    array, kinds = _as_array(data)
    if array.dtype.kind in "OSU":
        array = _plain_numbers(array, data, dtype)
    wanted = from_numpy_dtype(array.dtype) if dtype is None or not _is_numeric(array) else as_dtype(dtype)
    whole = array.dtype == np.uint64 and wanted is int64 or dtype is None and array.dtype == np.float64 and kinds <= _WHOLE
    if whole and array.size and array.max() >= 1 << 63:
        raise NumberError(f"tensor: {array.max()} does not fit into {int64}; pass dtype=volta.float64")
    if dtype is None and array.dtype == np.float64 and kinds.isdisjoint((np.ndarray, np.float64)):
        wanted = get_default_dtype()
    if dtype is not None and array.dtype.kind in "iufO" and not isinstance(data, np.ndarray):
        _check_fit(array, wanted)
    return _of_array(array, wanted, device, requires_grad)


def _of_array(array, wanted, device, requires_grad):
    """A copy of the numbers of an array as elements of `wanted`."""
    kept, where = float32 if wanted is bfloat16 else wanted, as_device(device)      # NumPy has no bfloat16
    if kept is float32 and array.dtype == np.float64 and not where.is_gpu:
        kept = float64                                  # rounded by a kernel
    elif array.dtype.kind == "f" and array.itemsize > kept.itemsize:
        with np.errstate(over="ignore"):                # what is beyond a float's range is infinite, as in every conversion
            array = array.astype(to_numpy(kept))
    array = np.asarray(array, dtype=to_numpy(kept))
    if array.flags.c_contiguous or 0 in array.strides:
        array = np.asarray(array, order="C")
        return finish(cast(run_kernel(upload, where, (array, kept, where)), wanted), requires_grad)
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))         # as which it lies in memory, and the tensor as well
    laid = cast(run_kernel(upload, where, (np.ascontiguousarray(array.transpose(order)), kept, where)), wanted)
    return finish(permute_op(laid, dims=tuple(order.index(d) for d in range(array.ndim))).detach(), requires_grad)


def _plain_numbers(array, data, dtype):
    """Integers of any size beside floats as floats, and nothing else that NumPy has no element type for."""
    found = next((x for x in array.flat if not isinstance(x, (int, float))), None) if array.dtype.kind == "O" else array.flat[0]
    if found is not None or array.dtype.kind != "O" or None in array.flat:
        raise CallError(f"tensor: needs numbers, got {type(found).__name__.rstrip('_')}")
    if dtype is None and not any(isinstance(x, float) for x in array.flat):
        raise NumberError(f"tensor: {max(array.flat, key=abs)} does not fit into {int64}; pass dtype=volta.float64")
    return array.astype(np.float64) if dtype is None else array


def _copied(data, dtype, device, requires_grad):
    out = to(data.detach(), dtype=dtype, device=data.device if device is None else device)
    return finish(out.clone() if out.storage is data.storage else out, requires_grad)


def _is_numeric(array):
    """Whether NumPy's conversion means something: integers of any size do, strings and None do not."""
    return array.dtype.kind in "biuf" or array.dtype.kind == "O" and all(isinstance(v, (int, float)) for v in array.flat)


def _check_fit(array, dtype):
    """Python numbers that a narrower dtype would wrap. As in PyTorch, a negative integer may stand for its complement in uint8."""
    if dtype.is_floating_point or dtype.code == 0 or not array.size or array.dtype == to_numpy(dtype):
        return
    limits = np.iinfo(to_numpy(dtype))
    if array.dtype.kind == "f":
        low, high = array.min(), array.max()
        if not (limits.min <= low and high <= float(limits.max)):           # nor NaN
            raise DTypeError(f"tensor: {high if low >= limits.min else low} does not fit into {dtype}")
        return
    low, high = int(array.min()), int(array.max())
    if high > limits.max or low < (limits.min or -limits.max):
        raise (DTypeError if array.dtype.kind == "i" else NumberError)(
            f"tensor: {high if high > limits.max else low} does not fit into {dtype}")


_NUMBERS = frozenset((bool, int, float))
_NESTED = _NUMBERS | {list, tuple}
_WHOLE = _NESTED - {float}
_DEEPEST = 32
_OTHERWISE = ("__iter__", "__array__", "__array_interface__", "__array_struct__")        # that NumPy asks first


def _kinds(data):
    """The types of the elements of nested sequences, which may contain themselves."""
    if not isinstance(data, (list, tuple)):
        return {type(data)}
    found, level = set(map(type, data)), (data,)
    if found <= _NUMBERS:
        return found
    for _ in range(_DEEPEST):
        below = {}
        for each in level:
            kinds = set(map(type, each))
            found |= kinds
            if not kinds <= _NUMBERS and any(issubclass(kind, (list, tuple)) for kind in kinds):
                below.update((id(x), x) for x in each if isinstance(x, (list, tuple)))
        if not below:
            return found
        level = below.values()
    raise ShapeError(f"tensor: sequences may be nested {_DEEPEST} deep, as many dimensions as a tensor can have")


WITHOUT_GRADIENT = "a number of a tensor that requires grad has no gradient; write x.detach() first, or x.item()"


def _numbers(data):
    """Nested sequences with NumPy's numbers for tensors of one element."""
    if isinstance(data, core.TensorBase):
        if data._size != 1:
            raise ShapeError(f"tensor: a tensor in a sequence must have one element, got shape {data.shape}; join tensors by stack or cat")
        if graph.is_grad_enabled() and graph.wants_grad(data):
            warn_once(WITHOUT_GRADIENT, stacklevel=6)               # (6: in a plain list, who calls `tensor`)
        return (data.float() if data.dtype is bfloat16 else data).detach().numpy().reshape(())[()]
    return [_numbers(x) for x in data] if isinstance(data, (list, tuple)) else data


def _only_counted(data):
    """Whether this is a sequence that has a length and items, and nothing else that NumPy asks for."""
    kind = type(data)
    if not hasattr(kind, "__getitem__") or not hasattr(kind, "__len__") or any(hasattr(kind, other) for other in _OTHERWISE):
        return False
    try:
        memoryview(data)
    except TypeError:
        return True
    return False


def _as_array(data):
    """The array, and the types of what it was made of."""
    kinds = _kinds(data)
    if not kinds <= _NESTED and any(issubclass(kind, core.TensorBase) for kind in kinds):
        data = _numbers(data)
        kinds = _kinds(data)
    if _only_counted(data):
        data = [data[i] for i in range(len(data))]              # iterating would go on to where it raises IndexError
        kinds = kinds | _kinds(data)
    try:
        return np.asarray(data), kinds
    except ValueError as error:
        mixed = "tensor: the sequences differ in length: {0}" if not _mixed(data) else "tensor: numbers and sequences side by side: {0}"
        raise (CallError if _mixed(data) else ShapeError)(mixed.format(error)) from None


def _mixed(data):
    """Whether there are numbers beside sequences."""
    below = [isinstance(x, (list, tuple)) for x in data] if isinstance(data, (list, tuple)) else [False]
    return any(below) and (not all(below) or any(map(_mixed, data)))


@_made
def from_numpy(array: np.ndarray) -> Tensor:
    """CPU tensor that shares the memory of a NumPy array, as torch.from_numpy.

    Raises: DTypeError for an element type without counterpart or a read-only array.

    >>> import numpy as np
    >>> volta.from_numpy(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy: expected a NumPy array, got {type(array).__name__}; use volta.tensor")
    dtype = from_numpy_dtype(array.dtype)
    if to_numpy(dtype) != array.dtype:
        raise DTypeError(f"from_numpy: {array.dtype} cannot be shared; copy it with volta.tensor(array)")
    if array.flags.carray:
        return from_array(array)
    if not array.flags.writeable:
        warn_once("from_numpy: the array is not writable, so that the tensor has a copy of it")
    if not array.flags.writeable or any(s < 0 or s % array.itemsize for s in array.strides):
        array = array.copy()
    span = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize if array.size else 0
    storage = core.borrowed_storage(array, array.__array_interface__["data"][0], span)
    return core.tensor(storage, array.shape, tuple(s // array.itemsize for s in array.strides), 0, dtype)


def _holds(array, dtype):
    """Whether the elements of an array lie as those of a tensor of `dtype` do."""
    return dtype is not bfloat16 and to_numpy(dtype) == array.dtype


def upload_into(out: Tensor, host: Tensor) -> None:
    """Overwrite a new tensor on a GPU with one of its shape and dtype on the CPU; any thread may do it. Unrecorded."""
    run_kernel(upload, out.device, (host.numpy(force=True), out.dtype, out.device, out))


class _Capsule:
    """What speaks DLPack for memory on the CPU in a capsule, which can be taken once."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __dlpack__(self, **options: object) -> object:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class _Writable:
    """An array's memory, which may be written."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


@_made
def from_dlpack(ext_tensor: object, *, device: DeviceLike = None, copy: bool | None = None) -> Tensor:
    """A tensor of the memory of any array on the CPU that speaks DLPack, or of a capsule: shared where it can be written and has
    positive strides, else a copy; on another `device` a copy.

    Raises: ArgumentError for an object without `__dlpack__`, and for copy=False where only a copy can be had; DTypeError for elements
    without counterpart; BufferError where the array is not on the CPU.

    >>> import numpy as np
    >>> volta.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    bare = '"dltensor"' in repr(ext_tensor) if type(ext_tensor).__name__ == "PyCapsule" else None
    if bare is not None:
        ext_tensor = _Capsule(ext_tensor)
    if not hasattr(ext_tensor, "__dlpack__") or not hasattr(ext_tensor, "__dlpack_device__"):
        raise ArgumentError(f"from_dlpack: needs an array with __dlpack__ and __dlpack_device__, got {type(ext_tensor).__name__}")
    array = np.from_dlpack(ext_tensor)
    if bare:                    # it cannot say whether it may be written; NumPy takes it that it may not, PyTorch that it may
        array = np.asarray(_Writable(array))
    shared = from_numpy(array)
    out = shared if device is None else to(shared, device)
    copied = out is not shared or shared.storage.buffer is not array
    if copied and copy is False:
        raise ArgumentError("from_dlpack: copy=False, but this memory cannot be shared: it is read-only, has negative strides, or is to be "
                            "on another device")
    return clone(out) if copy and not copied else out


@_made
def to_dlpack(tensor: Tensor) -> object:
    """A DLPack capsule of the tensor's memory on the CPU, as `tensor.__dlpack__()`.

    >>> type(volta.to_dlpack(volta.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()


@_made
def frombuffer(buffer: object, *, dtype: DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector that shares the memory of a buffer, from byte `offset`, of `count` elements (-1: all that fit). Units: `offset` in bytes.

    Raises: ArgumentError where so many elements do not fit.

    >>> volta.frombuffer(bytearray([1, 2, 3]), dtype=volta.uint8, offset=1).tolist()
    [2, 3]
    """
    dtype = as_dtype(dtype)
    try:
        array = np.frombuffer(buffer, to_numpy(dtype), count, offset)
    except ValueError as error:
        raise ArgumentError(f"frombuffer: {error}") from None
    if not array.size:
        raise ArgumentError(f"frombuffer: needs at least one element, got a buffer of {memoryview(buffer).nbytes} bytes and count={count}")
    return finish(from_numpy(array), requires_grad)


@_made
def from_file(filename: str, shared: bool | None = None, size: int = 0, *, dtype: DTypeLike = None, device: DeviceLike = None,
              requires_grad: bool = False) -> Tensor:
    """A vector of `size` elements that are read from a file when they are asked for. With `shared` what is written to it is written to the
    file, which is made or enlarged where it is too small; else it stays in the process.

    Raises: ArgumentError for a file that cannot be opened or is too small, and for a negative size; DeviceError for another device than
    the CPU; DTypeError for bool.

    >>> volta.from_file("numbers", shared=True, size=3)[1] = 2.0            # doctest: +SKIP
    >>> volta.from_file("numbers", size=3).tolist()                         # doctest: +SKIP
    [0.0, 2.0, 0.0]
    """
    dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
    nbytes = size * dtype.itemsize
    if as_device(device) is not core.CPU:
        raise DeviceError(f"from_file: a file is read into the memory of the host, device={device} is not; move the tensor there")
    if dtype.name == "bool":
        raise DTypeError("from_file: a bool is stored as 0 or 1, which a file's bytes need not be; read uint8 and compare with != 0")
    if size < 0:
        raise ArgumentError(f"from_file: size must be at least 0, got {size}")
    try:
        with open(filename, "a+b" if shared else "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if shared and length < nbytes:
                file.truncate(length := nbytes)
    except OSError as error:
        raise ArgumentError(f"from_file: unable to open file {filename}: {error.strerror}") from error
    if length < nbytes:
        raise ArgumentError(f"from_file: file {filename} of {length} bytes is smaller than the {nbytes} of {size} elements of {dtype}")
    array = np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)) if nbytes else np.empty(0, np.uint8)
    return finish(core.tensor(from_numpy.function(array).storage, (size,), (1,), 0, dtype), requires_grad)


@_made
def as_tensor(data: object, *, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """`data` as a tensor, without a copy where that is possible.

    >>> volta.as_tensor([1, 2]).tolist()
    [1, 2]
    """
    if isinstance(data, core.TensorBase):
        return data if dtype is None and device is None else to(data, dtype=dtype, device=device)
    if isinstance(data, np.ndarray) and not as_device(device).is_gpu and (
            _holds(data, from_numpy_dtype(data.dtype) if dtype is None else as_dtype(dtype))):
        return from_numpy.function(data)
    return tensor.function(data, dtype=dtype, device=device)
