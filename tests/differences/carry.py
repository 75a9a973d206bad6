"""Values as both libraries get them: tensors described once, by elements and layout, and made in either. Knows no op."""
from __future__ import annotations

import dataclasses

import numpy as np
import torch

import volta
import volta.nn.functional

NAMES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
DTYPES = {getattr(torch, name): getattr(volta, name) for name in NAMES}
LAYOUTS = {torch.strided: volta.strided}
FORMATS = {getattr(torch, name): getattr(volta, name) for name in (
    "contiguous_format", "preserve_format", "channels_last", "channels_last_3d")}


class NotCarried(Exception):
    """A value that has no counterpart: complex and quantized numbers, sparse tensors, generators of other devices."""


def dtype_name(dtype: object) -> str:
    return str(dtype).rpartition(".")[2]


@dataclasses.dataclass
class Laid:
    """A tensor: where it looks (shape, strides, offset) in elements that may be shared with others."""
    base: np.ndarray            # one dimension; bfloat16 is held as float32
    dtype: torch.dtype
    shape: tuple
    strides: tuple
    offset: int
    wants: bool                 # a gradient

    def values(self) -> np.ndarray:
        size = self.base.itemsize
        return np.lib.stride_tricks.as_strided(self.base[self.offset:], self.shape, tuple(s * size for s in self.strides))


def host(x: torch.Tensor) -> np.ndarray:
    x = x.detach()
    return (x.float() if x.dtype is torch.bfloat16 else x).numpy(force=True).copy()


def describe(value: object, bases: dict | None = None) -> object:
    """`value` of PyTorch with descriptions in place of tensors; tensors over one storage keep sharing it."""
    bases = {} if bases is None else bases
    if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
        raise NotCarried("a parameter without a size")
    if isinstance(value, torch.Tensor):
        if value.dtype not in DTYPES or value.layout is not torch.strided or value.ndim > 32 or value.is_quantized or (
                value.device.type != "cpu"):
            raise NotCarried(f"{value.dtype} {value.layout} {value.device}")
        key = value.untyped_storage()._cdata, value.dtype
        if key not in bases:
            whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
            bases[key] = host(whole), value             # the tensor keeps its storage, and so the key, alive
        return Laid(bases[key][0], value.dtype, tuple(value.shape), tuple(value.stride()), value.storage_offset(), value.requires_grad)
    if isinstance(value, (torch.Generator, torch.nn.Module)):
        raise NotCarried(type(value).__name__)
    if isinstance(value, complex):
        raise NotCarried("complex")
    if isinstance(value, torch.dtype) and value not in DTYPES or isinstance(value, torch.layout) and value not in LAYOUTS:
        raise NotCarried(str(value))
    return over(value, lambda each: describe(each, bases))


def over(value: object, function: object) -> object:
    """`function` of each entry of a list, tuple or dict, which stays one; other values are given back."""
    if isinstance(value, dict):
        return {key: function(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(function, value))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (tuple, list)):
        return type(value)(function(each) for each in value)
    return value


def each_laid(value: object) -> list[Laid]:
    """The descriptions in `value`, in order."""
    if isinstance(value, Laid):
        return [value]
    if isinstance(value, dict):
        return [laid for each in value.values() for laid in each_laid(each)]
    return [laid for each in value for laid in each_laid(each)] if isinstance(value, (tuple, list)) else []


def change(value: object, function: object) -> object:
    """`value` with `function` of each of its descriptions in their place."""
    return function(value) if isinstance(value, Laid) else over(value, lambda each: change(each, function))


class Theirs:
    """PyTorch, as far as a form has to ask for tensors."""
    lib = torch
    name = "torch"
    errors = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AttributeError, KeyError, AssertionError)

    def dtype(self, dtype: torch.dtype) -> object:
        return dtype

    def base(self, array: np.ndarray, dtype: torch.dtype) -> object:
        return torch.tensor(array).to(dtype)

    def make(self, value: object) -> object:
        """Tensors of what `describe` said."""
        bases = {}

        def tensor(laid: Laid) -> object:
            key = id(laid.base), laid.dtype
            if key not in bases:
                bases[key] = self.base(laid.base, laid.dtype)
            x = bases[key]
            if laid.shape != tuple(x.shape) or laid.strides != tuple(x.stride()) or laid.offset:
                x = x.as_strided(laid.shape, laid.strides, laid.offset)
            x = x.detach()
            return x.requires_grad_() if laid.wants else x

        def walk(each: object) -> object:
            return tensor(each) if isinstance(each, Laid) else self.plain(over(each, walk))

        return walk(value)

    def plain(self, value: object) -> object:
        return value

    def where(self) -> dict:
        """What creation is told besides."""
        return {}

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, torch.Tensor)

    def array(self, x: object) -> np.ndarray:
        return host(x)

    def storage(self, x: object) -> int:
        return x.untyped_storage()._cdata

    def settle(self) -> None:
        pass


class Ours(Theirs):
    """Volta on a device."""
    lib = volta
    name = "volta"

    def __init__(self, device: str) -> None:
        self.device = device

    def dtype(self, dtype: torch.dtype) -> object:
        return DTYPES[dtype]

    def base(self, array: np.ndarray, dtype: torch.dtype) -> object:
        return volta.tensor(array, dtype=DTYPES[dtype], device=self.device)

    def plain(self, value: object) -> object:
        if isinstance(value, torch.dtype):
            return DTYPES[value]
        if isinstance(value, torch.device):
            return volta.device(self.device if value.type == "cpu" else str(value))
        if callable(value) and getattr(value, "__module__", None) in ("torch", "torch.nn.functional", "torch._C._nn"):
            return getattr(volta.nn.functional, value.__name__)
        if isinstance(value, torch.memory_format):
            return FORMATS[value]
        if isinstance(value, torch.layout):
            return LAYOUTS[value]
        if dataclasses.is_dataclass(value) and hasattr(volta.nn, type(value).__name__):         # options of a function
            return getattr(volta.nn, type(value).__name__)(**{f.name: self.plain(getattr(value, f.name))
                                                                          for f in dataclasses.fields(value)})
        return self.device if isinstance(value, str) and value == "cpu" else value

    def where(self) -> dict:
        return {"device": self.device}

    def is_tensor(self, value: object) -> bool:
        return isinstance(value, volta.Tensor)

    def array(self, x: object) -> np.ndarray:
        x = x.detach()
        return (x.float() if x.dtype is volta.bfloat16 else x).cpu().numpy().copy()

    def storage(self, x: object) -> int:
        return id(x.storage.root or x.storage)

    def settle(self) -> None:
        if self.device != "cpu":
            volta.gpu.synchronize()
