"""Module: the base class of layers. Registration, traversal, moving and repr; hooks are in `hooks.py`, state dicts in `state.py`.

Knows tensors only as things that it holds: no op and no device.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from volta._kernels import core
from volta.device import as_device
from volta.dtypes import as_dtype, bfloat16, float16, float32, float64
from volta.errors import ArgumentError, CallError, DTypeError, RegistrationError, UninitializedError
from volta.layout import memory_format as Layout
from volta.nn.hooks import HookMethods, registered
from volta.nn.parameter import Buffer, Parameter, Uninitialized
from volta.nn.state import StateMethods
from volta.tensor import Tensor
from volta.types import DeviceLike, DTypeLike

_KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}
_TABLES = tuple(_KINDS)

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class _Forward(Protocol[P, R]):
    """For type checkers: a call of a module takes what its `forward` takes, and gives what that gives."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


def parse_to(*args: Any, device: DeviceLike = None, dtype: DTypeLike = None, tensor: Tensor | None = None, non_blocking: bool = False,
             memory_format: Layout | None = None) -> tuple[core.Device | None, core.DType | None, bool, Layout | None]:
    """Device, dtype, non_blocking and memory_format of what `Module.to` is given, by position: (device, dtype, non_blocking),
    (dtype, non_blocking) or (tensor, non_blocking). Raises: CallError, DTypeError as that does."""
    if args:
        first = args[0]
        if isinstance(first, core.TensorBase):
            names = ["tensor", "non_blocking"]
        elif first is None or isinstance(first, (str, core.Device, int)) and not isinstance(first, bool) and first not in _DTYPE_NAMES:
            names = ["device", "dtype", "non_blocking"]
        else:
            names = ["dtype", "non_blocking"]
        keywords = {"device": device, "dtype": dtype, "tensor": tensor}
        if len(args) > len(names) or any(keywords.get(name) is not None for name in names[:len(args)]):
            raise CallError(f"Module.to: takes ({', '.join(names)}), each once, got {len(args)} arguments and {_given(keywords)}")
        keywords |= {"non_blocking": non_blocking, **dict(zip(names, args, strict=False))}
        return parse_to(**keywords, memory_format=memory_format)
    if memory_format is not None and not isinstance(memory_format, Layout):
        raise DTypeError(f"Module.to: memory_format must be one such as volta.channels_last, got {memory_format!r}")
    if not isinstance(non_blocking, bool):
        raise CallError(f"Module.to: non_blocking must be True or False, got {non_blocking!r}")
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    place = None if device is None else as_device(device)
    kind = None if dtype is None else as_dtype(dtype)
    if kind is not None and not kind.is_floating_point:
        raise DTypeError(f"Module.to: needs a floating point dtype, got {kind}")
    return place, kind, non_blocking, memory_format


def _given(keywords):
    return ", ".join(name for name, value in keywords.items() if value is not None) or "no others"


class Module(HookMethods, StateMethods):
    """A layer or a model: holds parameters, buffers and other modules under attribute names, and computes in `forward`.

    Example:
        >>> class Net(volta.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.fc = volta.nn.Linear(4, 2)
        ...     def forward(self, x):
        ...         return self.fc(x).relu()
        >>> Net()(volta.zeros(3, 4)).shape
        volta.Size([3, 2])
    """

    training: bool
    dump_patches = call_super_init = False          # as PyTorch's modules say
    _shown: tuple[str, ...] = ()

    def __init__(self) -> None:
        state = self.__dict__
        state["training"] = True
        for table in _TABLES:
            state[table] = {}
        state["_non_persistent_buffers_set"] = set()
        self._start_hooks()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the layer computes; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__}: define forward(self, ...)")

    if TYPE_CHECKING:
        @property
        def __call__(self: _Forward[P, R]) -> Callable[P, R]:
            return self.forward
    else:
        __call__ = HookMethods._call

    # ------------------------------------------------------------ registration
    def __setattr__(self, name: str, value: object) -> None:
        state, is_tensor = self.__dict__, isinstance(value, core.TensorBase)
        if is_tensor and isinstance(value, Parameter):
            self._need_init("parameters")
            self._forget(name, besides="_parameters")
            self.register_parameter(name, value)
        elif name in state.get("_parameters", ()):
            state["_parameters"][name] = registered("parameter", self, name, self._fitting("a Parameter", name, value, ()))
        elif isinstance(value, Module):
            self._need_init("modules")
            self._forget(name, besides="_modules")
            state["_modules"][name] = registered("module", self, name, value)
        elif name in state.get("_modules", ()):
            state["_modules"][name] = registered("module", self, name, self._fitting("a Module", name, value, ()))
        elif is_tensor and isinstance(value, Buffer):
            self._need_init("buffers")
            self._forget(name, besides="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in state.get("_buffers", ()):
            state["_buffers"][name] = registered("buffer", self, name, self._fitting("a tensor", name, value, core.TensorBase))
        else:
            object.__setattr__(self, name, value)

    def _fitting(self, kind, name, value, types):
        """What may stand under a name that is registered: `kind`, or None."""
        if value is not None and not isinstance(value, types):
            raise TypeError(f"{type(self).__name__}: attribute {name!r} is registered and takes {kind} or None, got "
                            f"{type(value).__name__}; delete it first to hold something else")
        return value

    def __getattr__(self, name: str):
        state = self.__dict__
        for table in _TABLES:
            if table in state and name in state[table]:
                return state[table][name]
        hint = "" if "_modules" in state else "; call super().__init__() first"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __delattr__(self, name: str) -> None:
        table = self._table_of(name)
        if table is None:
            return object.__delattr__(self, name)
        del self.__dict__[table][name]
        self._non_persistent_buffers_set.discard(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *(name for table in _TABLES for name in self.__dict__.get(table, ()))}
        return sorted(name for name in names if not name[:1].isdigit())             # those that a program can write, as in PyTorch

    def _table_of(self, name):
        return next((table for table in _TABLES if name in self.__dict__.get(table, ())), None)

    def _need_init(self, what):
        if "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: {what} cannot be assigned before super().__init__() was called")

    def _forget(self, name, besides):
        """Drop what else stands under `name`, in all tables but one."""
        self.__dict__.pop(name, None)
        self._non_persistent_buffers_set.discard(name)
        for table in _TABLES:
            if table != besides:
                self.__dict__[table].pop(name, None)

    def _check_name(self, kind, name, table):
        self._need_init(f"{kind}s")
        if not isinstance(name, str) or "." in name or not name:
            raise RegistrationError(f"register_{kind}: the name must be a non-empty string without a dot, got {name!r}")
        if name not in self.__dict__[table] and hasattr(self, name):
            raise RegistrationError(f"register_{kind}: {type(self).__name__} already has an attribute {name!r}")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Hold `param` under `name`; None reserves the name.

        Raises: RegistrationError for a name in use or a tensor that is no Parameter leaf.
        """
        self._check_name("parameter", name, "_parameters")
        if param is not None and (not isinstance(param, Parameter) or param.grad_fn is not None):
            raise RegistrationError(f"register_parameter: {name!r} must be a Parameter that no op made, got {type(param).__name__}")
        self._parameters[name] = registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Hold a tensor that is no parameter but moves and is saved with the module (unless not `persistent`)."""
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, core.TensorBase) and not (getattr(tensor, "is_sparse", False) and not persistent):
            raise RegistrationError(f"register_buffer: {name!r} must be a tensor or None, got {type(tensor).__name__}"
                                    f"{'; a sparse one cannot be saved: persistent=False' if hasattr(tensor, 'is_sparse') else ''}")
        self._buffers[name] = registered("buffer", self, name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Hold `module` under `name`; None reserves the name."""
        self._check_name("module", name, "_modules")
        if module is not None and not isinstance(module, Module):
            raise RegistrationError(f"register_module: {name!r} must be a Module or None, got {type(module).__name__}")
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    # ------------------------------------------------------------ traversal
    def named_modules(self, memo: set | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names; this one's is ""."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, each once, with names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below, each once."""
        return (module for _, module in self.named_children())

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        """What the function finds in each module, pairs of name and value, under dotted names. Packages call it, too."""
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, tensor in get_members_fn(module):
                if tensor is None or tensor in seen:
                    continue
                if remove_duplicate:
                    seen.add(tensor)
                yield f"{path}.{name}" if path else name, tensor

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Parameters with dotted names; a shared one comes once, under its first name."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, each once."""
        return (tensor for _, tensor in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Buffers with dotted names, each once."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers, each once."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module under a dotted name.

        Raises: AttributeError where there is none.
        """
        module = self
        for part in target.split(".") if target != "" else ():
            module = module._modules.get(part)
            if module is None:
                raise AttributeError(f"get_submodule: {type(self).__name__} has no module {target!r}")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` under a dotted name; with `strict` only in the place of one that is there.

        Raises: AttributeError where a module on the way, or with `strict` the last, is missing; ArgumentError for an empty name.
        """
        if not target or not isinstance(module, Module):
            raise ArgumentError(f"set_submodule: needs a name and a Module, got {target!r} and {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not isinstance(getattr(parent, name, parent), Module) or (strict and name not in parent._modules):
            raise AttributeError(f"set_submodule: {type(self).__name__} has no module {target!r}")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter under a dotted name.

        Raises: AttributeError where there is none.
        """
        return self._found("get_parameter", "_parameters", target)

    def get_buffer(self, target: str) -> Tensor:
        """The buffer under a dotted name, None where the name is reserved.

        Raises: AttributeError where there is none.
        """
        path, _, name = target.rpartition(".")
        return None if self.get_submodule(path)._buffers.get(name, self) is None else self._found("get_buffer", "_buffers", target)

    def _found(self, op, table, target):
        path, _, name = target.rpartition(".")
        found = self.get_submodule(path).__dict__[table].get(name)
        if found is None:
            raise AttributeError(f"{op}: {type(self).__name__} has no {table[1:-1]} {target!r}")
        return found

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every module below, then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------ modes
    def train(self, mode: bool = True) -> Self:
        """Training behaviour (dropout, batch statistics) on or off, here and below.

        Raises: ArgumentError unless `mode` is a bool.
        """
        if not isinstance(mode, bool):
            raise ArgumentError(f"train: mode must be True or False, got {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)                  # which it may do in its own way: keep a part of it frozen
        return self

    def eval(self) -> Self:
        """Evaluation behaviour, here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether the parameters want gradients."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or zero them in place."""
        for p in self.parameters():
            if p.grad is not None:
                p.grad = None if set_to_none else p.grad.detach().zero_()

    # ------------------------------------------------------------ places and types
    def _apply(self, convert: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every parameter in place, so that optimizers keep hold of it, and every buffer.
        Everything is converted before anything is replaced: an error leaves the module as it was. Modules below that have an `_apply`
        of their own are asked, and so are those beside them."""
        if recurse and any(type(module)._apply is not Module._apply for module in self.modules() if module is not self):
            for module in self.children():
                module._apply(convert)
            recurse = False
        parameters = [(p, convert(core.detached(p)), None if p.grad is None else convert(p.grad.detach()))
                      for p in self.parameters(recurse)]
        buffers = {b: convert(b) for b in self.buffers(recurse)}
        for p, data, _ in parameters:
            if p.requires_grad and not data.is_floating_point():
                raise ArgumentError(f"Module: a parameter that requires gradients needs a floating point dtype, got {data.dtype}")
        for p, data, grad in parameters:
            core.assign(p, data)
            if grad is not None:                # what a program holds of it goes along, as in PyTorch
                core.assign(p.grad, grad)
        for module in self.modules() if recurse else (self,):
            for name, b in module._buffers.items():
                if b is not None:
                    module._buffers[name] = buffers[b]
        return self

    def to(self, *args: Any, device: DeviceLike = None, dtype: DTypeLike = None, tensor: Tensor | None = None, non_blocking: bool = False,
           memory_format: Layout | None = None) -> Self:
        """Move to a device, to a floating point dtype, or both: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`, each also
        with `non_blocking` behind it.
        Integer buffers keep their dtype. What has four or five dimensions is arranged in memory as `memory_format` says.

        Raises: DTypeError for a dtype that is not floating point; ArgumentError for a format of another number of dimensions;
        UninitializedError for a format of a lazy layer that has no shapes yet; DeviceError.

        >>> volta.nn.Conv2d(2, 3, 3).to(memory_format=volta.channels_last).weight.stride()
        (18, 1, 6, 2)
        """
        place, kind, _, form = parse_to(*args, device=device, dtype=dtype, tensor=tensor, non_blocking=non_blocking,
                                        memory_format=memory_format)

        def convert(t: Tensor) -> Tensor:
            dtype = kind if t.dtype.is_floating_point else None
            if form is None or t.ndim not in (4, 5):
                return t.to(device=place, dtype=dtype)
            return t.to(device=place, dtype=dtype, memory_format=form)
        if form is not None and any(isinstance(t, Uninitialized) for t in (*self.parameters(), *self.buffers())):
            raise UninitializedError(f"Module.to: {form} means nothing before there are shapes; call the module with an input first")
        return self._apply(convert)

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda t: t.to(device="cpu"))

    def gpu(self, device: DeviceLike = None) -> Self:
        """Move to a GPU: the first, or that of a number or a name."""
        place = as_device("gpu" if device is None else device)
        return self._apply(lambda t: t.to(device=place))

    cuda = gpu

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Move to a device without the values: the contents of parameters and buffers are undefined then."""
        place = as_device(device)
        return self._apply(lambda t: t.new_empty(t.shape, device=place), recurse)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: every operation runs by a kernel that is compiled already."""

    def share_memory(self) -> Self:
        """Move all parameters and buffers to memory that other processes see, too."""
        return self._apply(lambda t: t.share_memory_())

    def type(self, dst_type: DTypeLike) -> Self:
        """All parameters and buffers to another dtype, those of integers too."""
        if dst_type is None:
            raise CallError("Module.type: needs a dtype, got None")
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """To float32."""
        return Module.to(self, dtype=float32)

    def double(self) -> Self:
        """To float64."""
        return Module.to(self, dtype=float64)

    def half(self) -> Self:
        """To float16."""
        return Module.to(self, dtype=float16)

    def bfloat16(self) -> Self:
        """To bfloat16, on the CPU."""
        return Module.to(self, dtype=bfloat16)

    # ------------------------------------------------------------ repr
    def extra_repr(self) -> str:
        """What stands between the parentheses of the repr; subclasses define it, or name attributes in `_shown`."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)

    def _get_name(self) -> str:
        return type(self).__name__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        below = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not below and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + below) + "\n)"


_DTYPE_NAMES = ("bfloat16", "float16", "float32", "float64")
