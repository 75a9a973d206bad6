"""StateDictMapper: other programs' state dicts under the names and layouts of a model here. Knows dicts of tensors."""
from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from volta.errors import ArgumentError, StateDictError

__all__ = ["MapReport", "Mapped", "StateDictMapper"]

_Pattern = str | re.Pattern[str]


@dataclass
class MapReport:
    """What a StateDictMapper did to one state dict."""
    names: dict[str, str] = field(default_factory=dict)             # the name that each entry had, and the one that it has
    dropped: list[str] = field(default_factory=list)                # names that were there and that no entry of the result comes from
    transposed: list[str] = field(default_factory=list)             # new names
    unmatched: list[str] = field(default_factory=list)              # steps that changed, kept or dropped nothing

    def __str__(self) -> str:
        changed = [f"{old} -> {new}" for old, new in self.names.items() if old != new]
        parts = (("renamed", changed), ("dropped", self.dropped), ("transposed", self.transposed),
                 ("steps without a match", self.unmatched))
        return "\n".join([f"{len(self.names)} entries kept", *(f"{title}: {', '.join(items)}" for title, items in parts if items)])


class Mapped(NamedTuple):
    """A state dict and how it came about."""
    state_dict: dict[str, Any]
    report: MapReport


class StateDictMapper:
    r"""Steps that are taken one after the other; each sees the names that those before it made. A pattern is an exact name, or a compiled
    regular expression that is searched for.

    Example:
        >>> import re
        >>> mapper = volta.io.StateDictMapper().strip("module.").rename(re.compile(r"^layers\.(\d+)"), r"blocks.\1")
        >>> mapper = mapper.transpose("head.weight")
        >>> mapped, report = mapper({"module.layers.0.bias": volta.ones(3), "module.head.weight": volta.ones(2, 5)})
        >>> {name: tuple(value.shape) for name, value in mapped.items()}
        {'blocks.0.bias': (3,), 'head.weight': (5, 2)}
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, Callable[[str], str | None]]] = []
        self._transposed: list[tuple[str, Callable[[str], bool], int, int]] = []

    def rename(self, old: _Pattern | Mapping[str, str], new: str | None = None) -> StateDictMapper:
        r"""Give a name, each name of a dict of names, or what a regular expression finds in names, another one (with \1 for its groups)."""
        if isinstance(old, Mapping):
            names = dict(old)
            return self._step(f"rename({names!r})", lambda name: names.get(name, name))
        if not isinstance(new, str):
            raise ArgumentError(f"rename: needs the new name as a string, got {new!r}")
        if isinstance(old, re.Pattern):
            return self._step(f"rename({old.pattern!r})", lambda name: old.sub(new, name))
        return self._step(f"rename({old!r})", lambda name: new if name == old else name)

    def strip(self, prefix: str) -> StateDictMapper:
        """Take a prefix off the names that have it."""
        return self._step(f"strip({prefix!r})", lambda name: name.removeprefix(prefix))

    def prefix(self, prefix: str) -> StateDictMapper:
        """Put a prefix before every name."""
        return self._step(f"prefix({prefix!r})", lambda name: prefix + name)

    def select(self, *patterns: _Pattern) -> StateDictMapper:
        """Keep only the entries that one of the patterns fits."""
        fits = _fits("select", patterns)
        return self._step(f"select{_shown(patterns)}", lambda name: name if fits(name) else None)

    def exclude(self, *patterns: _Pattern) -> StateDictMapper:
        """Drop the entries that one of the patterns fits."""
        fits = _fits("exclude", patterns)
        return self._step(f"exclude{_shown(patterns)}", lambda name: None if fits(name) else name)

    def transpose(self, *patterns: _Pattern, dims: tuple[int, int] = (0, 1)) -> StateDictMapper:
        """Exchange two dimensions of the entries that one of the patterns fits, by the names that all steps together give."""
        self._transposed.append((f"transpose{_shown(patterns)}", _fits("transpose", patterns), *dims))
        return self

    def __call__(self, state_dict: Mapping[str, Any]) -> Mapped:
        """The entries under their new names, and a report. The given dict stays as it is; values are shared, transposed ones are views.

        Raises: StateDictError where two entries come to one name.
        """
        report, names = MapReport(), {name: name for name in state_dict}
        for title, step in self._steps:
            after = {old: new for old, name in names.items() if (new := step(name)) is not None}
            if after == names:
                report.unmatched.append(title)
            names = after
        out: dict[str, Any] = {}
        for old, new in names.items():
            if new in out:
                raise StateDictError(f"StateDictMapper: {old!r} and another entry both come to the name {new!r}")
            out[new] = state_dict[old]
        report.names, report.dropped = names, [name for name in state_dict if name not in names]
        for title, fits, *dims in self._transposed:
            found = [name for name in out if fits(name)]
            for name in found:
                out[name] = out[name].transpose(*dims)
            report.transposed += found
            report.unmatched += [] if found else [title]
        return Mapped(out, report)

    def _step(self, title, step):
        self._steps.append((title, step))
        return self


def _fits(op, patterns):
    if not patterns or not all(isinstance(pattern, (str, re.Pattern)) for pattern in patterns):
        raise ArgumentError(f"{op}: needs names or compiled regular expressions, got {patterns!r}")
    return lambda name: any(pattern == name if isinstance(pattern, str) else pattern.search(name) for pattern in patterns)


def _shown(patterns):
    return "(" + ", ".join(repr(p if isinstance(p, str) else p.pattern) for p in patterns) + ")"
