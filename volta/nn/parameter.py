"""Parameter: a leaf tensor that a Module registers when it is assigned to it."""
from __future__ import annotations

import copy

from volta._kernels import core
from volta.errors import ArgumentError
from volta.ops.creation import empty
from volta.ops.from_data import tensor
from volta.tensor import Tensor


class Parameter(Tensor):
    """A tensor that wants gradients and that a `Module` finds by itself. It shares the data of the tensor it is made from.

    Raises: DTypeError for integers with requires_grad; ArgumentError for anything but a tensor.
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if not isinstance(data, core.TensorBase):
            raise ArgumentError(f"Parameter: needs a tensor, got {type(data).__name__}; wrap it with volta.tensor(...)")
        self = super().__new__(cls)
        core.assign(self, data)
        return self.requires_grad_(requires_grad)

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        """Everything is done by `__new__`."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __deepcopy__(self, memo: dict) -> Parameter:
        memo[id(self)] = out = type(self)(self.detach().clone(), self.requires_grad)
        out.grad = copy.deepcopy(self.grad, memo)
        return out

    def __reduce_ex__(self, protocol: int):
        return _rebuild, (type(self), self.detach().cpu().numpy(), self.dtype, str(self.device), self.requires_grad)


def _rebuild(cls, array, dtype, device, requires_grad):
    return cls(tensor(array, dtype=dtype, device=device), requires_grad)
