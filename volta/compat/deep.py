"""PyTorch's module names below `volta`, of which Volta has fewer: `from volta.distributions.normal import Normal`.

For scripts in which "torch" was replaced by "volta". What they name is what `volta.compat` serves below "torch"; each such module gives the
names of the one here that holds them.
"""
from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from volta.compat.inner import NAMES, OWN
from volta.compat.modules import is_served, place
from volta.late import modules_of as _modules_of


def _theirs(name: str) -> str:
    return "torch" + name.removeprefix("volta")


class Deep(ModuleType):
    """A module under PyTorch's name whose names are those of `target`."""

    def __init__(self, name: str, target: ModuleType) -> None:
        super().__init__(name, target.__doc__)
        self.__dict__.update(_target=target, __path__=[], __all__=[each for each in dir(target) if not each.startswith("_")])

    def __getattr__(self, name: str) -> object:
        try:
            found = getattr(self._target, name)
            return self._module(name, found) if isinstance(found, ModuleType) else found
        except AttributeError:
            own = OWN.get(_theirs(self.__name__), {})
            if name in own:
                return getattr(importlib.import_module(own[name]), name)
            return NAMES[name] if name in NAMES else _modules_of(self.__name__)(name)

    def _module(self, name: str, otherwise: ModuleType) -> ModuleType:
        """The module of this name in this one, which has another than the target where PyTorch has: `nn.modules.utils` is no `nn.utils`."""
        try:
            return _modules_of(self.__name__)(name)
        except AttributeError:
            return otherwise

    def __dir__(self) -> list[str]:
        return dir(self._target)


class _Loader:
    def __init__(self, target: ModuleType) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Deep(spec.name, self.target)

    def exec_module(self, module: ModuleType) -> None:
        pass                                            # its names are looked up in the target


def find(name: str) -> ModuleSpec | None:
    """The module that PyTorch has for `name`, "volta.optim.adam"; None where it has none, or where the name is a function's here."""
    theirs = _theirs(name)
    if not is_served(theirs) or place(theirs) in (name, "volta.compat.unused"):
        return None
    parent, _, last = name.rpartition(".")
    is_function = last in OWN.get(_theirs(parent), ()) or not isinstance(vars(sys.modules[parent]).get(last, sys), ModuleType)
    if is_function:
        return None
    return ModuleSpec(name, _Loader(importlib.import_module(place(theirs))), is_package=True)
