"""Lists and dicts of modules and of parameters."""
from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, overload

from volta._kernels import core
from volta.errors import ArgumentError, AssertedError, CallError, DTypeError, IndexRangeError, MissingNameError
from volta.nn.module import Module
from volta.nn.parameter import Parameter
from volta.tensor import Tensor

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Indexed(Module):
    """Modules under the names "0", "1", ..., or names that the user gave."""

    def _key(self, index):
        if not hasattr(index, "__index__"):
            raise CallError(f"{type(self).__name__}: the index must be an integer or a slice, got {index!r}")
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexRangeError(f"{type(self).__name__}: index {i} is out of range for {n} modules")
        return list(self._modules)[i]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), _need_module(self, module))

    def __delitem__(self, index) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            del self._modules[key]
        self._refill(list(self._modules.values()))

    def _refill(self, modules):
        self._modules.clear()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def pop(self, key: int) -> Module:
        """Take a module out."""
        module = self[key]
        del self[key]
        return module

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), _need_module(self, module))
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in _need_iterable(self, "modules", modules):
            self.append(module)
        return self

    def _insert(self, index, module):
        modules = list(self)
        modules.insert(index, _need_module(self, module))
        self._refill(modules)


class Sequential(_Indexed):
    """Modules one after another: from arguments, or from an `OrderedDict` of names. None may stand in the place of one that is
    given later.

    Example:
        >>> volta.nn.Sequential(volta.nn.Linear(4, 8), volta.nn.ReLU(), volta.nn.Linear(8, 2))(volta.zeros(3, 4)).shape
        volta.Size([3, 2])
    """

    def __init__(self, *modules) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], OrderedDict) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), _need_module(self, module))

    def _like(self, items):
        return type(self)(OrderedDict(items))

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend(other) if isinstance(other, Sequential) else NotImplemented

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise CallError(f"Sequential: another one can be added, got {type(other).__name__}")
        return Sequential(*self, *other)

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add modules at the end."""
        return super().extend(sequential)

    def insert(self, index: int, module: Module) -> Self:
        """Put a module in front of the one at `index`.

        Raises: IndexRangeError.
        """
        if not isinstance(module, Module):
            raise AssertedError(f"Sequential: needs modules, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexRangeError(f"Sequential: index {index} is out of range for {len(self)} modules")
        self._insert(index, module)
        return self

    def __mul__(self, count: int) -> Sequential:
        if not isinstance(count, int) or count < 1:
            raise (ArgumentError if isinstance(count, int) else CallError)(
                f"Sequential: can be repeated a positive number of times, got {count!r}")
        return Sequential(*[module for _ in range(count) for module in self])

    __rmul__ = __mul__

    def __imul__(self, count: int) -> Self:
        for module in (self * count)[len(self):]:
            self.append(module)
        return self

    def forward(self, input: Tensor) -> Tensor:
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _like(self, items):
        return type(self)([module for _, module in items])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def insert(self, index: int, module: Module) -> None:
        """Put a module in front of the one at `index`."""
        self._insert(index, module)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Equal neighbours are counted: (0-2): 3 x ReLU()."""
        if not len(self):
            return f"{type(self).__name__}()"
        blocks: list[list] = []
        for i, module in enumerate(self):
            text = repr(module)
            if blocks and blocks[-1][2] == text:
                blocks[-1][1] = i
            else:
                blocks.append([i, i, text])
        lines = []
        for first, last, text in blocks:
            head = f"({first}): " if first == last else f"({first}-{last}): {last - first + 1} x "
            lines.append("  " + head + text.replace("\n", "\n  "))
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"


class _Named:
    """What a dict does, over one of a module's tables, `_held`; `_checked` makes a value fit for it."""

    def __getitem__(self, key):
        return self._held[key]

    def __delitem__(self, key: str) -> None:
        del self._held[key]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, key: object) -> bool:
        return key in self._held

    def keys(self):
        """Names."""
        return self._held.keys()

    def values(self):
        """What stands under the names."""
        return self._held.values()

    def items(self):
        """(name, value) pairs."""
        return self._held.items()

    def pop(self, key: str):
        """Take a value out."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Take all values out."""
        for key in list(self._held):
            del self[key]

    def _add(self, values):
        pairs = values.items() if hasattr(values, "items") else _need_iterable(self, f"a dict of {self._kind}s", values)
        for pair in pairs:
            if not isinstance(pair, Iterable) or len(pair) != 2:
                raise CallError(f"{type(self).__name__}: needs a dict of {self._kind}s or (name, {self._kind}) pairs, got {pair!r}")
            self[pair[0]] = pair[1]


class ModuleDict(_Named, Module):
    """Modules by name; it has no forward."""

    _kind = "module"

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    @property
    def _held(self):
        return self._modules

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, _need_module(self, module))

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add modules from a dict or (name, module) pairs."""
        self._add(modules)


class ParameterDict(_Named, Module):
    """Parameters by name; it has no forward. Tensors become parameters; modules and other values may stand among them."""

    _kind = "parameter"

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}            # in the order in which they came; the values are attributes, of any kind
        if parameters is not None:
            self.update(parameters)

    @property
    def _held(self):
        return self._keys

    def __call__(self, *args, **kwargs):
        raise CallError("ParameterDict: should not be called; it has no forward")

    def __getitem__(self, key: str) -> Any:
        self._need_name(key)
        if key not in self._keys:
            raise MissingNameError(f"ParameterDict: there is no {key!r} among {list(self._keys)}")
        return getattr(self, key)

    def _need_name(self, key):
        if not isinstance(key, str):
            raise CallError(f"ParameterDict: names are strings, got {key!r}")

    def __setitem__(self, key: str, value: Any) -> None:
        """Hold a value; a plain tensor becomes a parameter."""
        self._need_name(key)
        setattr(self, key, Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value)
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def values(self):
        """What stands under the names."""
        return {key: self[key] for key in self._keys}.values()

    def items(self):
        """(name, value) pairs."""
        return {key: self[key] for key in self._keys}.items()

    def update(self, parameters: Mapping[str, Any]) -> None:
        """Add values from a dict or (name, value) pairs. Those of a plain dict are added in the order of their names, as in PyTorch."""
        ordered = not isinstance(parameters, Mapping) or isinstance(parameters, OrderedDict)
        self._add(parameters if ordered else sorted(parameters.items()))

    def __or__(self, other: Mapping[str, Any]) -> ParameterDict:
        """A new dict of the entries of both; those of the other count."""
        return self.copy().__ior__(other)

    def __ror__(self, other: Mapping[str, Any]) -> Any:
        """A dict as the other one, with the entries of both; those of this one count."""
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other: Mapping[str, Any]) -> Self:
        self.update(other)
        return self

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name; `default` is held under it where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dict with the same value under each name."""
        return ParameterDict([(key, default) for key in keys])

    def copy(self) -> ParameterDict:
        """A new dict of the same values."""
        return ParameterDict(self)

    def popitem(self) -> tuple[str, Any]:
        """Take the last value out."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem: the ParameterDict is empty")
        return key, self.pop(key)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({name}): {_described(p, p.type() if isinstance(p, Tensor) else None)}" for name, p in self.items())


class ParameterList(Module):
    """A list of parameters; it has no forward. Tensors become parameters; modules and other values may stand among them."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(() if values is None else values)

    def __call__(self, *args, **kwargs):
        raise CallError("ParameterList: should not be called; it has no forward")

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end."""
        if isinstance(values, core.TensorBase):
            raise DTypeError("ParameterList.extend: should be called with an iterable of parameters, got one tensor; use append")
        for p in _need_iterable(self, "parameters", values):
            self.append(p)
        return self

    __iadd__ = extend

    def _name(self, index):
        if not hasattr(index, "__index__"):
            raise CallError(f"ParameterList: the index must be an integer or a slice, got {index!r}")
        if not -self._size <= operator.index(index) < self._size:
            raise IndexRangeError(f"ParameterList: index {index} is out of range for {self._size} parameters")
        return str(operator.index(index) % self._size)

    def __getitem__(self, index):
        return type(self)(list(self)[index]) if isinstance(index, slice) else getattr(self, self._name(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._name(index), Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value)

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_described(p)}" for i, p in enumerate(self) if not isinstance(p, Module))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._size))


def _described(p, kind=None):
    if not isinstance(p, Tensor):
        return f"Object of type: {type(p).__name__}"
    where = f" ({p.device})" if p.is_gpu else ""
    return f"Parameter containing: [{kind or p.dtype} of size {'x'.join(map(str, p.shape))}{where}]"


def _need_module(owner, module):
    if not isinstance(module, Module) and module is not None:
        raise CallError(f"{type(owner).__name__}: needs modules, got {type(module).__name__}")
    return module


def _need_iterable(owner, what, values):
    if not isinstance(values, Iterable):
        raise CallError(f"{type(owner).__name__}: needs {what}, got {type(values).__name__}")
    return values
