"""Parameter and Buffer: tensors that a Module registers when they are assigned to it; those that have no shape yet."""
from __future__ import annotations

from collections.abc import Callable

from volta._kernels import core
from volta._kernels.core import operators
from volta.copying import parts, rebuild
from volta.errors import ArgumentError, CallError, UninitializedError
from volta.ops.creation import empty
from volta.subclasses import as_tensors, takes_nothing_over
from volta.tensor import Tensor
from volta.types import DeviceLike, DTypeLike


class _Kind(type):
    """What `isinstance` asks: a tensor of a program's own class that was made a parameter or buffer stays of that class."""

    def __instancecheck__(cls, value: object) -> bool:
        return super().__instancecheck__(value) or (
            "_mark" in vars(cls) and isinstance(value, core.TensorBase) and getattr(value, cls._mark, False) is True)


def _of_own_class(data, mark):
    """A leaf over the data of a tensor of a program's own class, which it has too; None for other tensors."""
    if not type(data)._takes_over or isinstance(data, Uninitialized):
        return None
    made = data.detach()
    if type(made) is not type(data):
        raise CallError(f"Parameter: detach() of {type(data).__name__} gave {type(made).__name__}; its __torch_function__ is to give "
                        "its own class")
    setattr(made, mark, True)
    return made


class Parameter(Tensor, metaclass=_Kind):
    """A tensor that wants gradients and that a `Module` finds by itself. It shares the data of the tensor it is made from. A tensor of a
    program's own class keeps it.

    Raises: DTypeError for integers with requires_grad; ArgumentError for anything but a tensor.
    """

    __slots__ = ()
    __torch_function__ = takes_nothing_over
    _mark = "_is_param"

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if not isinstance(data, core.TensorBase):
            raise ArgumentError(f"Parameter: needs a tensor, got {type(data).__name__}; wrap it with volta.tensor(...)")
        if (made := _of_own_class(data, cls._mark)) is not None:
            return made.requires_grad_(requires_grad)
        self = operators.Operators.__new__(cls)
        core.assign(self, data)
        return self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict) -> Parameter:
        memo[id(self)] = out = type(self)(self.detach().clone(), self.requires_grad)    # without gradient and attributes, as in PyTorch
        return out

    def __copy__(self) -> Parameter:
        """A parameter over the same data, with the same attributes."""
        out = type(self)(self, self.requires_grad)
        out.__dict__.update(self._attributes or {})
        return out

    def __reduce_ex__(self, protocol: int):
        return _rebuild, (type(self), parts(self)), self._attributes or None


class Buffer(Tensor, metaclass=_Kind):
    """A tensor that moves and, if `persistent`, is saved with the module that it is assigned to, and wants no gradient of itself."""

    __slots__ = ()
    __torch_function__ = takes_nothing_over
    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = empty(0)
        if not isinstance(data, core.TensorBase):
            raise ArgumentError(f"Buffer: needs a tensor, got {type(data).__name__}; wrap it with volta.tensor(...)")
        if (self := _of_own_class(data, cls._mark)) is not None:
            self.persistent = persistent
            return self
        self = operators.Operators.__new__(cls)
        core.assign(self, data)
        self.persistent = persistent
        return self.requires_grad_(self.requires_grad)


class Uninitialized:
    """What parameters and buffers share that have a device and a dtype, but a shape only after `materialize`."""

    __slots__ = ()
    cls_to_become: type[Tensor]
    _allowed = ("cls_to_become", "device", "dtype", "grad", "grad_fn", "is_leaf", "materialize", "ndim", "persistent", "requires_grad",
                "requires_grad_", "size", "to")

    @classmethod
    def __torch_function__(cls, func: Callable, types: tuple[type, ...], args: tuple = (), kwargs: dict | None = None) -> Tensor:
        raise UninitializedError(f"{func.__name__}: a parameter or buffer has no values before it has a shape; call the module with an "
                                 "input first, or load its state dict")

    def materialize(self, shape: tuple[int, ...], device: DeviceLike = None, dtype: DTypeLike = None) -> None:
        """Take this shape, with undefined contents, and become a parameter or a plain tensor."""
        data = empty(tuple(shape), device=self.device if device is None else device, dtype=self.dtype if dtype is None else dtype)
        core.assign(self, data)
        self.__class__ = self.cls_to_become

    def to(self, device: DeviceLike = None, dtype: DTypeLike = None):
        """One of another device or dtype, without a shape too."""
        return type(self)(self.requires_grad, self.device if device is None else device, self.dtype if dtype is None else dtype)

    def __getattribute__(self, name: str):
        if name not in Uninitialized._allowed and not name.startswith("_"):
            raise UninitializedError(f"{type(self).__name__}: has no {name!r} before it has a shape; call the module with an input first, "
                                     "or load its state dict")
        return super().__getattribute__(name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict):
        memo[id(self)] = out = self.to()
        return out

    def __reduce_ex__(self, protocol: int):
        return type(self), (self.requires_grad, str(self.device), self.dtype)


class UninitializedParameter(Uninitialized, Parameter, start=False):
    """A parameter whose shape is not known yet. Raises: UninitializedError where it is used before."""

    __slots__ = ()
    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DTypeLike = None) -> UninitializedParameter:
        core.overriding.start()
        with as_tensors():
            return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(Uninitialized, Buffer, start=False):
    """A buffer whose shape is not known yet. Raises: UninitializedError where it is used before."""

    __slots__ = ()
    cls_to_become = Tensor              # as in PyTorch, a plain one

    def __new__(cls, requires_grad: bool = False, device: DeviceLike = None, dtype: DTypeLike = None,
                persistent: bool = True) -> UninitializedBuffer:
        core.overriding.start()
        with as_tensors():
            return super().__new__(cls, empty(0, device=device, dtype=dtype), persistent=persistent).requires_grad_(requires_grad)

    def to(self, device: DeviceLike = None, dtype: DTypeLike = None) -> UninitializedBuffer:
        """One of another device or dtype, without a shape too."""
        out = super().to(device, dtype)
        out.persistent = self.persistent
        return out

    def __reduce_ex__(self, protocol: int):
        return type(self), (self.requires_grad, str(self.device), self.dtype, self.persistent)


def _rebuild(cls, given):
    found = rebuild(*given)
    return cls(found.detach(), found.requires_grad)


def is_lazy(param: object) -> bool:
    """Whether this is a parameter or buffer that has no shape yet."""
    return isinstance(param, (UninitializedParameter, UninitializedBuffer))
