"""Classes of tensors of a program's own: functions give their tensors over to `__torch_function__` of the class, as in PyTorch. That of
`Tensor` computes with tensors and gives the result that class."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from volta._kernels.core import TensorBase, detached, operators, overriding
from volta.ops.taking_over import asked, at_first_mode

if TYPE_CHECKING:
    from volta.tensor import Tensor

# The methods and attributes of `Tensor` that are no ops and are given over too; what only tells facts is not.
GIVEN_OVER = ("__getitem__", "__setitem__", "__deepcopy__", "backward", "cpu", "cuda", "data", "detach", "detach_", "gpu",
              "H", "item", "mH", "mT", "new", "numpy", "real", "register_hook", "requires_grad_", "retain_grad", "split", "T", "to_dense",
              "tolist", "type", "where", "half", "float", "double", "byte", "char", "short", "int", "long", "bool", "bfloat16")


def takes_nothing_over(*arguments: Any) -> Any:
    """What a class has as `__torch_function__` whose tensors are computed with like any others, and gives plain ones."""
    return NotImplemented


@contextmanager
def as_tensors() -> Iterator[None]:
    """Compute with tensors of all classes like with any others."""
    previous = overriding.as_tensors(True)
    try:
        yield
    finally:
        overriding.as_tensors(previous)


def as_kind(value: Any, kind: type[Tensor]) -> Any:
    """The tensors of a result as those of a class."""
    if isinstance(value, TensorBase):
        return value if isinstance(value, kind) else value.as_subclass(kind)
    if not isinstance(value, (tuple, list)):
        return value
    parts = [as_kind(x, kind) for x in value]
    if all(x is y for x, y in zip(parts, value)):
        return value
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


class Subclassed:
    """What the class of tensors takes over."""

    _takes_over = False                     # whether a class of tensors does; Tensor itself has nothing to say

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """What `func` gives, its tensors as those of this class. A class that has its own calls this by `super()`. Functions of PyTorch
        itself, which call this again for what is no tensor of theirs, are refused."""
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        previous = overriding.as_tensors(True)
        try:
            return NotImplemented if previous else as_kind(func(*args, **kwargs or {}), cls)
        finally:
            overriding.as_tensors(previous)

    def as_subclass(self, cls: type[Tensor]) -> Tensor:
        """A view of all of the tensor, of another class of tensors.

        Raises: TypeError for a class of anything else.

        >>> class Named(volta.Tensor):
        ...     pass
        >>> type(volta.ones(2).as_subclass(Named) + 1).__name__
        'Named'
        """
        if not (isinstance(cls, type) and issubclass(cls, TensorBase)):
            raise TypeError(f"as_subclass: needs a class of tensors, got {cls!r}")
        with as_tensors():
            found = self[...]
        found.__class__ = cls
        return found

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Tensor:
        """A leaf of this class over the data of a tensor."""
        found = detached(data)
        found.__class__ = cls
        with as_tensors():
            return found.requires_grad_(require_grad)


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **options: Any) -> Any:
        result = asked(method, (self, *args), options)
        return function(self, *args, **options) if result is NotImplemented else result
    return method


def _attribute(attribute: property) -> property:
    get = _method(attribute.__get__)
    return property(lambda self: get(self), attribute.fset, attribute.fdel, attribute.__doc__)


def install(cls: type) -> None:
    """Give the class of tensors these methods, and let it prepare its subclasses."""
    own = {name: vars(cls)[name] for name in GIVEN_OVER}
    given_over = {name: _attribute(plain) if isinstance(plain, property) else _method(plain) for name, plain in own.items()}

    def show_modes() -> None:
        for name, method in given_over.items():
            if not name.startswith("__"):       # subscripts are C's, a copy is none of a mode's
                setattr(cls, name, method)
    at_first_mode.append(show_modes)
    operators.give_over(given_over["__getitem__"], given_over["__setitem__"])
    for name in ("_takes_over", "__torch_function__", "as_subclass", "_make_subclass"):
        setattr(cls, name, vars(Subclassed)[name])

    def prepare(kind: type, start: bool = True, **options: Any) -> None:
        super(cls, kind).__init_subclass__(**options)
        taking = kind.__torch_function__ is not takes_nothing_over
        if taking and not kind._takes_over:
            if start:                           # else the first tensor of this class does
                overriding.start()
            for name, method in given_over.items():
                if next(vars(base)[name] for base in kind.__mro__ if name in vars(base)) in (own[name], method):
                    setattr(kind, name, method)
        kind._takes_over = taking
    overriding.set_tensor_type(cls)
    cls.__init_subclass__ = classmethod(prepare)
