"""Samples as one batch of tensors, and single samples as tensors. Host data become tensors on the CPU."""
from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from volta._kernels import core
from volta.data.workers import get_worker_info
from volta.dtypes import float64, from_numpy_dtype
from volta.errors import DeviceError, ShapeError
from volta.ops.creation import empty
from volta.ops.from_data import as_tensor, tensor
from volta.ops.join import stack
from volta.tensor import Tensor

_NEEDED = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as one batch: tensors, arrays and numbers are stacked (Python floats as float64), dicts, lists and tuples entry by entry
    (a tuple's batch is a list), strings listed. What `default_collate_fn_map` has for other types is used too.

    Raises: TypeError for other types; ShapeError for samples that do not fit together.

    >>> volta.data.default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Callable[..., Any]] | None = None) -> Any:
    """Samples as one batch: by the function that the map has for the type of the first, called with the samples and the map; dicts, lists
    and tuples that have none entry by entry.

    Raises: TypeError for types without a function; ShapeError for samples of different lengths.
    """
    first, table = batch[0], collate_fn_map or {}
    function = table.get(type(first)) or next((table[kind] for kind in table if isinstance(first, kind)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        return _rebuilt(first, {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first})
    if isinstance(first, Sequence):
        named = isinstance(first, tuple) and hasattr(first, "_fields")
        if not named and any(len(sample) != len(first) for sample in batch):
            raise ShapeError("default_collate: each element in list of batch should be of equal size, got "
                             f"{sorted({len(sample) for sample in batch})}; give a collate_fn")
        return _rebuilt(first, [collate(entries, collate_fn_map=collate_fn_map) for entries in zip(*batch)])
    raise TypeError(_NEEDED.format(type(first)))


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Tensors, stacked."""
    if len({t.shape for t in batch if isinstance(t, core.TensorBase)}) > 1:
        raise _unequal(batch)
    if batch[0].device.is_gpu and get_worker_info() is not None:
        raise DeviceError("default_collate: workers touch host memory only, these samples are on a GPU; "
                          "use num_workers=0, or host samples and DataLoader(device=...)")
    return stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Arrays or numbers of NumPy, stacked."""
    first = batch[0]
    if first.dtype.kind in "SUO":
        raise TypeError(_NEEDED.format(first.dtype))
    other = next((sample for sample in batch if not isinstance(sample, (np.ndarray, np.generic))), None)
    if isinstance(first, np.generic) and isinstance(other, (int, float)):
        return tensor(batch, device="cpu")
    if other is not None:
        raise TypeError(f"default_collate: an array and {type(other)} do not stack; give a collate_fn")
    scalars = isinstance(first, np.generic) and len(set(map(type, batch))) == 1
    if not scalars and len({np.shape(sample) for sample in batch}) > 1:
        raise _unequal(batch)
    dtype = from_numpy_dtype(first.dtype if scalars else np.result_type(*{sample.dtype for sample in batch}))
    out = empty(len(batch), *np.shape(first), dtype=dtype, device="cpu")            # memory that is there already, as NumPy's is not
    if scalars:
        out.numpy()[:] = batch                                                      # a tenth of the time of `stack`
    else:
        np.stack(batch, out=out.numpy())
    return out


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Numbers as one tensor of float64."""
    return tensor(batch, dtype=float64, device="cpu")


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Integers as one tensor."""
    return tensor(batch, device="cpu")


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Texts as they are."""
    return batch


collate_numpy_scalar_fn = collate_numpy_array_fn

default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn, (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn}


def default_convert(data: Any) -> Any:
    """One sample with its arrays as tensors, also inside dicts, lists and tuples; anything else stays as it is.

    >>> volta.data.default_convert({"x": np.arange(2), "name": "a"})
    {'x': tensor([0, 1]), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else as_tensor(data, device="cpu")
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt(data, [default_convert(value) for value in data])
    return data


def mapped(function: Callable[[Any], Any], batch: Any) -> Any:
    """The batch with `function` of each of its leaves."""
    if isinstance(batch, tuple) and not hasattr(batch, "_fields"):
        return tuple(mapped(function, value) for value in batch)
    if isinstance(batch, Mapping):
        return _rebuilt(batch, {key: mapped(function, value) for key, value in batch.items()})
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return _rebuilt(batch, [mapped(function, value) for value in batch])
    return function(batch)


def _rebuilt(first, entries):
    """The entries in a container of the type of `first`, where it can be made; tuples become lists, as in PyTorch."""
    if isinstance(first, tuple):
        return type(first)(*entries) if hasattr(first, "_fields") else entries
    if type(first) in (dict, list):
        return entries
    try:
        if not isinstance(first, (MutableMapping, MutableSequence)):
            return type(first)(entries)
        clone = copy.copy(first)
        if isinstance(first, MutableMapping):
            clone.update(entries)
        else:
            for i, entry in enumerate(entries):
                clone[i] = entry
        return clone
    except TypeError:
        return entries


def _unequal(batch):
    shapes = sorted({tuple(sample.shape) for sample in batch})
    return ShapeError(f"default_collate: samples of shapes {shapes} do not stack; pad them or give a collate_fn")
