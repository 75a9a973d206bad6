"""What ops give that give several tensors: tuples whose parts have names."""
from __future__ import annotations

import functools
from operator import itemgetter
from typing import TYPE_CHECKING

from volta._kernels.core.size import package_name

__all__ = ["Result", "named"]

if TYPE_CHECKING:
    from typing import NamedTuple as Result

    def named(cls: type, function: str) -> type: ...
else:
    class Result(tuple):
        """What a `typing.NamedTuple` of the same class body is, made in a tenth of the time: there are many, and each `import volta`
        makes them all. Without defaults."""

        _function = ""

        def __init_subclass__(cls):
            if cls._function:               # one that is named by a function has the parts of its base
                return
            cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            for place, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(place)))

        def __new__(cls, *parts, **given):
            if given or len(parts) != len(cls._fields):
                if len(parts) == 1 and isinstance(parts[0], (tuple, list)):     # all in one, as PyTorch's take them
                    parts = tuple(parts[0])
                parts += tuple([given.pop(name) for name in cls._fields[len(parts):] if name in given])
                if given or len(parts) != len(cls._fields):
                    raise TypeError(f"{cls.__name__}: has the parts {', '.join(cls._fields)}")
            return tuple.__new__(cls, parts)

        @property
        def given_by(self):
            """The function that gave it, by whose name its class goes, as in PyTorch."""
            return self._function

        @given_by.setter
        def given_by(self, name):
            self.__class__ = named(type(self), name)

        def __reduce__(self):
            return (_made, (type(self).__base__, self._function, tuple(self))) if self._function else (type(self), tuple(self))

        def __repr__(self):
            kind = f"return_types.{type(self).__name__}" if self._function else type(self).__name__
            return f"{package_name()}.{kind}(\n" + ",\n".join([f"{name}={part!r}" for name, part in zip(self._fields, self)]) + ")"

        def _asdict(self):
            return dict(zip(self._fields, self))

        def _replace(self, **changed):
            return type(self)(**{**self._asdict(), **changed})

    @functools.cache
    def named(cls, function):
        """The class of these parts that a function gives."""
        cls = cls.__base__ if cls._function else cls
        return type(function.replace(".", "_"), (cls,), {"_function": function, "__module__": "volta.return_types", "__doc__": cls.__doc__})

    def _made(cls, function, parts):
        return named(cls, function)(*parts)
