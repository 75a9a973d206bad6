"""What a call gave, as facts that can be compared: values, dtype, layout, aliases, graph, or the error. Knows no op."""
from __future__ import annotations

import dataclasses
import warnings

import numpy as np

from tests.differences.carry import Theirs, dtype_name, over

EXPECTED = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError)


@dataclasses.dataclass
class Fact:
    """A tensor of a result."""
    values: np.ndarray
    dtype: str
    shape: tuple
    strides: tuple
    wants: bool             # a gradient
    leaf: bool
    shares: tuple           # which inputs have its storage
    same: tuple             # which inputs it is
    offset: int


@dataclasses.dataclass
class Raised:
    error: Exception


@dataclasses.dataclass
class Outcome:
    value: object           # of facts, or Raised
    inputs: list            # facts of the inputs afterwards
    warned: list = dataclasses.field(default_factory=list)          # categories and texts


def tensors(world: Theirs, value: object) -> list:
    if world.is_tensor(value):
        return [value]
    if isinstance(value, dict):
        return [x for each in value.values() for x in tensors(world, each)]
    return [x for each in value for x in tensors(world, each)] if isinstance(value, (tuple, list)) else []


def fact(world: Theirs, x: object, inputs: list) -> Fact:
    storage = world.storage(x)
    return Fact(world.array(x), dtype_name(x.dtype), tuple(x.shape), tuple(x.stride()), bool(x.requires_grad), bool(x.is_leaf),
                tuple(i for i, each in enumerate(inputs) if world.storage(each) == storage) if x.numel() else (),
                tuple(i for i, each in enumerate(inputs) if each is x), x.storage_offset())


def call(world: Theirs, function: object, args: object, seed: int = 0) -> Outcome:
    """The outcome of `function(world, args, kwargs)`; `args` are descriptions of (args, kwargs)."""
    made = world.make(args)
    inputs = tensors(world, made)
    world.lib.manual_seed(seed)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = function(world, *made)
            world.settle()
            told = list(warned)
            value = facts(world, result, inputs)
        except Exception as error:           # which one is a fact like others
            told, value = list(warned), Raised(error)
    return Outcome(value, [fact(world, x, []) for x in inputs], [(each.category.__name__, str(each.message)) for each in told])


def facts(world: Theirs, value: object, inputs: list) -> object:
    if world.is_tensor(value) and value.layout is world.lib.strided:
        return fact(world, value, inputs)
    if isinstance(value, world.lib.Size):
        return tuple(value)
    if isinstance(value, world.lib.dtype):
        return dtype_name(value)
    if getattr(value, "layout", world.lib.strided) is not world.lib.strided:       # sparse
        value = value.coalesce()
        return ["sparse", facts(world, value.indices(), []), facts(world, value.values(), []), tuple(value.shape)]
    if isinstance(value, tuple) and type(value) is not tuple:                   # named: by PyTorch's class or ours
        return tuple(facts(world, each, inputs) for each in value)
    return over(value, lambda each: facts(world, each, inputs))


def warned(a: Outcome, b: Outcome) -> list[str]:
    """What only one of two calls, which both gave a result, warned of."""
    one, two = ([category for category, _ in each.warned] for each in (a, b))
    if set(one) == set(two) or isinstance(a.value, Raised) or isinstance(b.value, Raised):
        return []
    return [f"warned: {a.warned[:1]!r:.160} and {b.warned[:1]!r:.160}"]


# How far values may be apart, as a part of the greatest; each is some roundings of the dtype.
CLOSE = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def compare(a: object, b: object, exact: object, loose: float, skip: frozenset) -> list[str]:
    """What differs between PyTorch's `a` and Volta's `b`. `exact` gives PyTorch's result in float64, `skip` names what is not compared."""
    if isinstance(a, Raised) or isinstance(b, Raised):
        return _errors(a, b)
    if isinstance(a, Fact) and isinstance(b, Fact):
        return _facts(a, b, exact, loose, skip)
    if type(a) is not type(b):
        return [f"type: {type(a).__name__} {a!r:.80} and {type(b).__name__} {b!r:.80}"]
    if isinstance(a, (tuple, list)):
        if len(a) != len(b):
            return [f"length: {len(a)} and {len(b)}"]
        return [text for i, (one, two) in enumerate(zip(a, b))
                for text in compare(one, two, lambda i=i: _part(exact(), i), loose, skip)]
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return [f"keys: {sorted(map(str, a.keys() - b.keys()))} and {sorted(map(str, b.keys() - a.keys()))} by themselves"]
        return [f"[{key}] {text}" for key in a for text in compare(a[key], b[key], lambda key=key: _entry(exact(), key), loose, skip)]
    if isinstance(a, float):
        same = a == b or a != a and b != b or abs(a - b) <= 1e-5 * abs(a) or "values" in skip
        return [] if same else [f"values: {a} and {b}"]
    return [] if np.array_equal(a, b) or "values" in skip else [f"values: {a!r:.80} and {b!r:.80}"]


def _part(value: object, i: int) -> object:
    return value[i] if isinstance(value, (tuple, list)) and i < len(value) else None


def _entry(value: object, key: object) -> object:
    return value.get(key) if isinstance(value, dict) else None


def _errors(a: object, b: object) -> list[str]:
    if not isinstance(b, Raised):
        return [f"accepted: PyTorch raises {type(a.error).__name__}: {_line(a.error)}"]
    if not isinstance(a, Raised):
        return [f"raised: {type(b.error).__name__}: {_line(b.error)}"]
    if not isinstance(b.error, EXPECTED) and not isinstance(b.error, type(a.error)):
        return [f"foreign: {type(b.error).__name__}: {_line(b.error)} (PyTorch: {type(a.error).__name__}: {_line(a.error)})"]
    kind = next((each for each in EXPECTED[1:4] if isinstance(a.error, each)), None)
    if kind and not isinstance(b.error, kind):
        return [f"class: {type(a.error).__name__}: {_line(a.error)} and {type(b.error).__name__}: {_line(b.error)}"]
    return []


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:150]


def _facts(a: Fact, b: Fact, exact: object, loose: float, skip: frozenset) -> list[str]:
    found = []
    for name in ("dtype", "shape", "strides", "wants", "leaf", "shares", "same"):
        one, two = getattr(a, name), getattr(b, name)
        if one != two and name not in skip:
            kind = name
            if name == "strides" and len(one) == len(two) and a.shape == b.shape:
                if not a.values.size:
                    kind = "strides of nothing"
                elif all(s == t for s, t, n in zip(one, two, a.shape) if n != 1):
                    kind = "strides of ones"
            found.append(f"{kind}: {one} and {two} (shape {a.shape})")
    if a.shares and a.shares == b.shares and a.offset != b.offset and a.values.size and "shares" not in skip:
        found.append(f"offset: {a.offset} and {b.offset}")
    if "values" not in skip and a.shape == b.shape and a.dtype == b.dtype:
        found += values(a, b, exact, loose)
    return found


def values(a: Fact, b: Fact, exact: object, loose: float) -> list[str]:
    x, y = a.values, b.values
    if not x.size or np.array_equal(x, y):
        return []
    if a.dtype not in CLOSE:
        apart = np.atleast_1d(x != y)
        i = tuple(int(n[0]) for n in np.nonzero(apart))
        return [f"values: {np.atleast_1d(x)[i]} and {np.atleast_1d(y)[i]} at {i}, {int(apart.sum())} of {x.size}"]
    x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    kinds = ~finite & ~((x == y) | np.isnan(x) & np.isnan(y))
    if kinds.any():
        i = np.unravel_index(np.argmax(kinds), x.shape)
        wide = _wide(exact, x)
        if wide is None or not np.array_equal(np.isnan(wide), np.isnan(y)) or (np.isinf(y) & (wide != y))[kinds].any():
            return [f"not finite: {x[i]} and {y[i]} at {i}, {int(kinds.sum())} of {x.size}"]
        finite &= ~kinds
    if not finite.any():
        return []
    with np.errstate(all="ignore"):
        close = CLOSE[a.dtype] * loose
        floor = close * 0.02 * max(1.0, float(np.abs(x[finite]).max()))
        error = np.abs(x - y)
        bad = finite & (error > close * np.abs(x) + floor)
        if not bad.any():
            return []
        wide = _wide(exact, x)
        if wide is not None:
            here = finite & np.isfinite(wide)
            mine, his = np.abs(y - wide), np.abs(x - wide)
            allowed = 3 * his[here].max(initial=0.0)
            bad &= ~here | (mine > allowed + close * np.abs(wide) + floor)
            if not bad.any():
                return []
        i = np.unravel_index(np.argmax(np.where(bad, error, -1)), x.shape)
        beside = f", exactly {wide[i]}" if wide is not None else ""
        return [f"values: {x[i]} and {y[i]} at {tuple(map(int, i))}{beside}, {int(bad.sum())} of {x.size}"]


def _wide(exact: object, x: np.ndarray) -> np.ndarray | None:
    wide = exact()
    return wide.values.astype(np.float64) if isinstance(wide, Fact) and wide.values.shape == x.shape else None
