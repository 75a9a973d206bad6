"""Pickles without code: a reader of protocols 2 to 5 that makes plain values and what a table of constructors allows, nothing else.

Python's own unpickler looks up any name and calls any object; this one never imports, never calls a method of what it has made
and changes nothing but the lists, dicts, sets, arrays and objects of this file. Knows no tensor: the table and the storages are the
caller's.
"""
from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from volta.errors import UnreadableError

DEPTH = 200                    # of nested containers; Python itself fails at some more
_RENAMED = {"__builtin__": "builtins", "numpy.core.multiarray": "numpy._core.multiarray"}


class Constructor:
    """A name of the table that a file may call: `make(*args)` checks its arguments itself."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


class Unpickler:
    """Reads `data` once. `table` gives what a global name stands for, `builders` what takes the state of an object of a type,
    `persistent` what a persistent id stands for, and `resolve` a class or operation that is not in the table, or None."""

    def __init__(self, data: bytes, table: Mapping[str, Any], builders: Mapping[type, Callable[..., Any]],
                 persistent: Callable[[Any], Any], resolve: Callable[[str, str], Any]) -> None:
        self.data, self.table, self.builders, self.persistent, self.position = data, table, builders, persistent, 0
        self.resolve = resolve
        self.made: dict[int, Any] = {}              # the objects of this file by id
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []            # the stacks under each mark
        self.memo: dict[int, Any] = {}
        self.budget = 4 * len(data) + (1 << 20)     # bytes and entries that constructors may copy: a memo can name one text often

    def load(self) -> Any:
        """The object. Raises: StateDictError for a name outside the table; ValueError and its kin for what is malformed."""
        while (code := self.take(1)) != b".":
            handler = _HANDLERS.get(code)
            if handler is None:
                raise ValueError(f"opcode {code!r} at byte {self.position - 1} of the pickle is not one that Volta reads")
            handler(self)
        if len(self.stack) != 1 or self.below:
            raise ValueError("the pickle ends in the middle of a value")
        return self.stack[0]

    def take(self, count: int) -> bytes:
        """The next bytes."""
        end = self.position + count
        if end > len(self.data):
            raise ValueError("the pickle is cut short")
        found, self.position = self.data[self.position:end], end
        return found

    def number(self, form: str) -> Any:
        """The next number, as `struct` names its form."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def line(self) -> str:
        """The next line."""
        end = self.data.index(b"\n", self.position)
        return self.take(end + 1 - self.position)[:-1].decode()

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        items, self.stack = self.stack, self.below.pop()
        return items

    def named(self, module: str, name: str) -> None:
        """Push what a global name stands for."""
        if type(module) is not str or type(name) is not str:
            raise ValueError("the pickle has a name that is no text")
        full = f"{_RENAMED.get(module, module)}.{name}"
        found = self.table.get(full) or self.resolve(module, name)
        if found is None:
            raise UnreadableError(f"names {full[:200]!r}, which is not in the table of what Volta reads; Volta never runs code of files. "
                                 "Save state dicts, tensors and plain values; of what the program itself saved, weights_only=False reads "
                                 "modules and objects of its own classes")
        self.stack.append(found)

    def spend(self, *args: Any) -> None:
        """Pay for copies of the arguments."""
        self.budget -= sum(len(value) for value in args if isinstance(value, (str, bytes, list, tuple, dict)))
        if self.budget < 0:
            raise ValueError("the pickle copies its values more often than a real one does")

    def reduce(self) -> None:
        """Call a constructor of the table."""
        args, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Constructor) or type(args) is not tuple:
            raise ValueError("the pickle calls what is no constructor")
        self.spend(*args)
        self.stack.append(function.make(*args))

    def object(self) -> None:
        """An object of a class, without attributes."""
        args, kind = self.stack.pop(), self.stack.pop()
        if not isinstance(kind, type) or args != ():
            raise ValueError("the pickle makes an object of what is no class")
        target = object.__new__(kind)
        self.made[id(target)] = target
        self.stack.append(target)

    def build(self) -> None:
        """Complete an object: its attributes, an array, or PyTorch's notes beside a state dict."""
        state, target = self.stack.pop(), self.stack[-1]
        if id(target) in self.made and type(state) is dict and all(type(key) is str for key in state):
            vars(target).update(state)
            return
        if type(target) in self.builders and type(state) is tuple:
            self.spend(*state)
            self.builders[type(target)](target, *state)
        elif type(target) is OrderedDict and type(state) is dict and set(state) <= {"_metadata"}:
            target.__dict__.update(state)
        else:
            raise ValueError(f"the pickle sets the state of {type(target).__name__}")

    def extend(self, items: list[Any], kinds: tuple[type, ...]) -> None:
        """Put items into the container on the stack."""
        target = self.stack[-1]
        if type(target) not in kinds:
            raise ValueError(f"the pickle puts items into {type(target).__name__}")
        if type(target) is list:
            target.extend(items)
        elif type(target) is set:
            target.update(map(hashable, items))
        elif len(items) % 2:
            raise ValueError("the pickle has a key without a value")
        else:
            target.update((hashable(key), value) for key, value in zip(items[::2], items[1::2]))

    def top(self, count: int) -> list[Any]:
        """Pop the last `count` values."""
        if len(self.stack) < count:
            raise ValueError("the pickle takes more values than it has")
        items = self.stack[len(self.stack) - count:]
        del self.stack[len(self.stack) - count:]
        return items

    def mark(self) -> None:
        """Begin a stack above this one."""
        self.below.append(self.stack)
        self.stack = []


def hashable(key: Any, depth: int = 0) -> Any:
    """The key, if hashing it runs nothing and ends. Raises: ValueError."""
    if type(key) is tuple and depth < 20:
        for entry in key:
            hashable(entry, depth + 1)
    elif type(key) not in (str, int, float, bool, bytes, type(None)):
        raise ValueError(f"the pickle has a key of type {type(key).__name__}")
    return key


def check_values(value: Any, allowed: tuple[type, ...], objects: Mapping[int, Any], depth: int = 0, seen: set[int] | None = None) -> None:
    """Raise ValueError where a value is of no type that a file gives and none of the file's `objects`, or contains itself."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, allowed) and not getattr(value, "_attributes", None):
        return
    if depth > DEPTH:
        raise ValueError("the value contains itself, or is nested too deeply")
    if id(value) in objects or isinstance(value, allowed):
        seen.add(id(value))                 # it may contain itself
        inner = vars(value).values()
    elif type(value) in (list, tuple, set):
        inner = value
    elif isinstance(value, dict):
        inner = [*value.values(), *vars(value).values()] if type(value) is OrderedDict else value.values()
    else:
        raise ValueError(f"the pickle gives {type(value).__name__} as a value")
    for entry in inner:
        check_values(entry, allowed, objects, depth + 1, seen)
    seen.add(id(value))


def _push(read):
    return lambda self: self.stack.append(read(self))


def _push_tuple(self):
    items = tuple(self.since_mark())        # first: it changes which stack this is
    self.stack.append(items)


def _keep(read):
    return lambda self: self.memo.__setitem__(read(self), self.stack[-1])


_HANDLERS: dict[bytes, Callable[[Unpickler], Any]] = {
    b"\x80": lambda self: self.number("B"), b"\x95": lambda self: self.number("Q"),         # protocol, frame
    b"N": _push(lambda self: None), b"\x88": _push(lambda self: True), b"\x89": _push(lambda self: False),
    b"J": _push(lambda self: self.number("i")), b"K": _push(lambda self: self.number("B")), b"M": _push(lambda self: self.number("H")),
    b"\x8a": _push(lambda self: int.from_bytes(self.take(self.number("B")), "little", signed=True)),
    b"G": _push(lambda self: struct.unpack(">d", self.take(8))[0]),
    b"X": _push(lambda self: self.take(self.number("I")).decode("utf-8", "surrogatepass")),
    b"\x8c": _push(lambda self: self.take(self.number("B")).decode("utf-8", "surrogatepass")),
    b"\x8d": _push(lambda self: self.take(self.number("Q")).decode("utf-8", "surrogatepass")),
    b"U": _push(lambda self: self.take(self.number("B")).decode("latin1")),                 # Python 2's strings
    b"T": _push(lambda self: self.take(self.number("I")).decode("latin1")),
    b"C": _push(lambda self: self.take(self.number("B"))), b"B": _push(lambda self: self.take(self.number("I"))),
    b"\x8e": _push(lambda self: self.take(self.number("Q"))),
    b"]": _push(lambda self: []), b"}": _push(lambda self: {}), b")": _push(lambda self: ()), b"\x8f": _push(lambda self: set()),
    b"(": Unpickler.mark, b"0": lambda self: self.stack.pop(), b"1": lambda self: self.since_mark(),
    b"t": _push_tuple,
    b"\x85": lambda self: self.stack.append(tuple(self.top(1))), b"\x86": lambda self: self.stack.append(tuple(self.top(2))),
    b"\x87": lambda self: self.stack.append(tuple(self.top(3))),
    b"a": lambda self: self.extend(self.top(1), (list,)), b"e": lambda self: self.extend(self.since_mark(), (list,)),
    b"s": lambda self: self.extend(self.top(2), (dict, OrderedDict)),
    b"u": lambda self: self.extend(self.since_mark(), (dict, OrderedDict)),
    b"\x90": lambda self: self.extend(self.since_mark(), (set,)),
    b"c": lambda self: self.named(self.line(), self.line()), b"\x93": lambda self: self.named(*self.top(2)),
    b"R": Unpickler.reduce, b"\x81": Unpickler.object, b"b": Unpickler.build,
    b"Q": lambda self: self.stack.append(self.persistent(self.stack.pop())),
    b"q": _keep(lambda self: self.number("B")), b"r": _keep(lambda self: self.number("I")), b"\x94": _keep(lambda self: len(self.memo)),
    b"h": _push(lambda self: self.memo[self.number("B")]), b"j": _push(lambda self: self.memo[self.number("I")]),
}
