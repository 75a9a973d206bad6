"""torch.library: operations that a program declares, called by their functions or as `torch.ops.namespace.name`.

Nothing is traced here, so that schemas, shapes of what is given (`register_fake`) and changed arguments have no meaning.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from volta.autograd import Function
from volta.errors import ArgumentError, AutogradError

__all__ = ["CustomOpDef", "custom_op", "register_autograd", "register_fake", "register_kernel", "register_vmap"]

OPERATIONS: dict[str, SimpleNamespace] = {}         # by namespace


class CustomOpDef:
    """What `custom_op` makes of a function. Without `register_autograd` its derivative raises."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self._signature, self._kernels = name, inspect.signature(function), {None: function}
        self._named = [key for key, given in self._signature.parameters.items() if given.kind is given.KEYWORD_ONLY]
        self._rules: dict[str, Any] = {}
        self.default = self
        self.register_autograd(self._no_formula)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._function.apply(*bound.args, *bound.kwargs.values())

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """The function itself: nothing asks for shapes beforehand."""
        return fn

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """Call another function where the first tensor is on one of these devices."""
        def register(function):
            for kind in [device_types] if device_types is None or isinstance(device_types, str) else device_types:
                self._kernels[kind] = function
            return function
        return register if fn is None else register(fn)

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None) -> None:
        """Take derivatives by `backward(ctx, *grads)`, with what `setup_context(ctx, inputs, output)` kept; where there are keyword-only
        arguments, it is `setup_context(ctx, inputs, keyword_only_inputs, output)`."""
        def keep(ctx, inputs, output):
            if setup_context is not None and self._named:
                own, named = self._split(inputs)
                setup_context(ctx, inputs=own, keyword_only_inputs=named, output=output)
            elif setup_context is not None:
                setup_context(ctx, inputs, output)

        def derive(ctx, *grads):
            found = backward(ctx, *grads)
            return (*(found if isinstance(found, tuple) else (found,)), *[None] * len(self._named)) if self._named else found
        self._rules |= {"backward": staticmethod(derive), "setup_context": staticmethod(keep)}
        self._build()

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Any:
        """Compute batches by `func(info, in_dims, *args)`, which gives (output, out_dims)."""
        def register(function):
            def batched(info, in_dims, *args):
                own, named = self._split(args)
                return function(info, in_dims[:len(own)], *own, **named)
            self._rules["vmap"] = staticmethod(batched)
            self._build()
        return register if func is None else register(func)

    def _build(self):
        self._function = type(self.name, (Function,), {"forward": staticmethod(self._forward), **self._rules})

    def _split(self, args):
        """The positional arguments, and the keyword-only ones by name."""
        place = len(args) - len(self._named)
        return args[:place], dict(zip(self._named, args[place:]))

    def _forward(self, *args):
        own, named = self._split(args)
        device = next((x.device.type for x in args if hasattr(x, "device")), None)
        return self._kernels.get(device, self._kernels[None])(*own, **named)

    def _no_formula(self, ctx, *grads):
        raise AutogradError(f"Trying to backward through {self.name} but no autograd formula was registered. Please use register_autograd "
                            f"to add one.")


def custom_op(name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, device_types: str | Sequence[str] | None = None,
              schema: str | None = None, tags: Any = None) -> Any:
    """Declare a function as the operation "namespace::name", directly or as a decorator. Raises: ArgumentError for another name."""
    namespace, _, short = name.partition("::")
    if not namespace or not short:
        raise ArgumentError(f"custom_op: name must be 'namespace::name', got {name!r}")

    def declare(function):
        operation = CustomOpDef(name, function)
        setattr(OPERATIONS.setdefault(namespace, SimpleNamespace()), short, operation)
        return operation
    return declare if fn is None else declare(fn)


def _of(op: Any) -> CustomOpDef:
    namespace, _, short = op.partition("::") if isinstance(op, str) else ("", "", "")
    found = op if isinstance(op, CustomOpDef) else getattr(OPERATIONS.get(namespace), short, None)
    if found is None:
        raise ArgumentError(f"torch.library: {op!r} was not declared by custom_op; operations of PyTorch cannot be changed")
    return found


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """`CustomOpDef.register_fake` of an operation or its name."""
    return _of(op).register_fake if func is None else _of(op).register_fake(func)


def register_kernel(op: Any, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """`CustomOpDef.register_kernel` of an operation or its name."""
    return _of(op).register_kernel(device_types, func)


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None,
                      **options: Any) -> None:
    """`CustomOpDef.register_autograd` of an operation or its name."""
    _of(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """`CustomOpDef.register_vmap` of an operation or its name."""
    return _of(op).register_vmap(func)
