"""What ops give that give several tensors: tuples whose parts have names."""
from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from volta._kernels.core.size import package_name

__all__ = ["Result"]

if TYPE_CHECKING:
    from typing import NamedTuple as Result
else:
    class Result(tuple):
        """What a `typing.NamedTuple` of the same class body is, made in a tenth of the time: there are many, and each `import volta`
        makes them all. Without defaults."""

        given_by = ""           # the function, by whose name it prints

        def __init_subclass__(cls):
            cls._fields = cls.__match_args__ = tuple(cls.__annotations__)
            for place, name in enumerate(cls._fields):
                setattr(cls, name, property(itemgetter(place)))

        def __new__(cls, *parts, **named):
            if named or len(parts) != len(cls._fields):
                parts += tuple([named.pop(name) for name in cls._fields[len(parts):] if name in named])
                if named or len(parts) != len(cls._fields):
                    raise TypeError(f"{cls.__name__}: has the parts {', '.join(cls._fields)}")
            return tuple.__new__(cls, parts)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            kind = f"return_types.{self.given_by.replace('.', '_')}" if self.given_by else type(self).__name__
            return f"{package_name()}.{kind}(\n" + ",\n".join([f"{name}={part!r}" for name, part in zip(self._fields, self)]) + ")"

        def _asdict(self):
            return dict(zip(self._fields, self))

        def _replace(self, **changed):
            return type(self)(**{**self._asdict(), **changed})
