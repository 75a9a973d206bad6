"""Sequential, ModuleList and ModuleDict."""
from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from volta.errors import ArgumentError, IndexRangeError
from volta.nn.module import Module
from volta.nn.parameter import Parameter


class _Indexed(Module):
    """Modules under the names "0", "1", ..., or names that the user gave."""

    def _key(self, index):
        if not hasattr(index, "__index__"):
            raise ArgumentError(f"{type(self).__name__}: the index must be an integer or a slice, got {index!r}")
        i, n = operator.index(index), len(self)
        if not -n <= i < n:
            raise IndexRangeError(f"{type(self).__name__}: index {i} is out of range for {n} modules")
        return list(self._modules)[i]

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), _need_module(self, module))

    def __delitem__(self, index) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        numbered = list(self._modules) == [str(i) for i in range(len(self))]
        for key in keys:
            del self._modules[key]
        if numbered:
            self._refill(list(self._modules.values()))

    def _refill(self, modules):
        self._modules.clear()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module):
        """Add a module at the end."""
        self.add_module(str(len(self)), _need_module(self, module))
        return self

    def extend(self, modules: Iterable[Module]):
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module):
        """Put a module in front of the one at `index`."""
        modules = list(self)
        modules.insert(index, _need_module(self, module))
        self._refill(modules)
        return self


class Sequential(_Indexed):
    """Modules one after another: from arguments, or from a dict of names.

    Example:
        >>> volta.nn.Sequential(volta.nn.Linear(4, 8), volta.nn.ReLU(), volta.nn.Linear(8, 2))(volta.zeros(3, 4)).shape
        (3, 2)
    """

    def __init__(self, *modules) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], Mapping) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), _need_module(self, module))

    def _like(self, items):
        return Sequential(dict(items))

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules; it has no forward."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules or ())

    def _like(self, items):
        return ModuleList(module for _, module in items)

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)


class ModuleDict(Module):
    """Modules by name; it has no forward."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, _need_module(self, module))

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self):
        """Names."""
        return self._modules.keys()

    def values(self):
        """Modules."""
        return self._modules.values()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def pop(self, key: str) -> Module:
        """Take a module out."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def update(self, modules) -> None:
        """Add modules from a dict or (name, module) pairs."""
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


class ParameterList(Module):
    """A list of parameters; it has no forward."""

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        super().__init__()
        for p in parameters:
            self.append(p)

    def append(self, parameter: Parameter) -> ParameterList:
        """Add a parameter at the end; a plain tensor becomes one."""
        self.register_parameter(str(len(self)), parameter if isinstance(parameter, Parameter) else Parameter(parameter))
        return self

    def __getitem__(self, index: int) -> Parameter:
        return list(self._parameters.values())[index]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())


def _need_module(owner, module):
    if not isinstance(module, Module):
        raise ArgumentError(f"{type(owner).__name__}: needs modules, got {type(module).__name__}")
    return module
