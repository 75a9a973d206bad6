"""Other inputs made of a sample's: other layouts, planted values, dtypes, sizes, indices. Knows no op."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from tests.differences.carry import Laid, change, dtype_name, each_laid, over

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0])


def fresh(values: np.ndarray, laid: Laid, dtype: torch.dtype | None = None) -> Laid:
    """A row-major tensor of `values`."""
    strides = tuple(torch.empty(values.shape, device="meta").stride())
    return Laid(np.ascontiguousarray(values).reshape(-1), dtype or laid.dtype, values.shape, strides, 0, laid.wants)


def _in(laid: Laid, strides: list[int], offset: int) -> Laid:
    """The same values at other places, with others of the same kind between them."""
    values = laid.values()
    size = offset + 1 + sum((n - 1) * s for n, s in zip(laid.shape, strides)) if values.size else offset
    base = np.resize(values.reshape(-1), size + 2) if values.size else np.zeros(size + 2, laid.base.dtype)
    out = Laid(base, laid.dtype, laid.shape, tuple(strides), offset, laid.wants)
    out.values()[...] = values
    return out


def _dense(shape: tuple, order: list[int], step: int = 1) -> list[int]:
    strides = [0] * len(shape)
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return strides


def permuted(laid: Laid, rng: np.random.Generator) -> Laid:
    return _in(laid, _dense(laid.shape, list(range(len(laid.shape)))[::-1]), 0)


def turned(laid: Laid, rng: np.random.Generator) -> Laid:
    return _in(laid, _dense(laid.shape, list(rng.permutation(len(laid.shape)))), 0)


def stepped(laid: Laid, rng: np.random.Generator) -> Laid:
    return _in(laid, _dense(laid.shape, list(range(len(laid.shape))), 2), 0)


def offset(laid: Laid, rng: np.random.Generator) -> Laid:
    return _in(laid, _dense(laid.shape, list(range(len(laid.shape)))), 3)


def gaps(laid: Laid, rng: np.random.Generator) -> Laid:
    """Rows of a wider matrix."""
    strides = _dense((*laid.shape[:-1], laid.shape[-1] + 1) if laid.shape else (), list(range(len(laid.shape))))
    return _in(laid, strides, 1)


def expanded(laid: Laid, rng: np.random.Generator) -> Laid:
    """The first slice along one dimension stands for all."""
    wide = [d for d, n in enumerate(laid.shape) if n > 1]
    if not wide:
        return laid
    d = wide[int(rng.integers(len(wide)))]
    first = fresh(np.take(laid.values(), [0], d), laid)
    strides = tuple(0 if e == d else s for e, s in enumerate(first.strides))
    return Laid(first.base, laid.dtype, laid.shape, strides, 0, laid.wants)


LAYOUTS = {"permuted": permuted, "turned": turned, "stepped": stepped, "offset": offset, "gaps": gaps, "expanded": expanded}


def layouts(args: object, rng: np.random.Generator) -> Iterator[tuple[str, object]]:
    """`args` with all tensors laid in one way, and each in some way of its own."""
    if not each_laid(args):
        return
    for name, lay in LAYOUTS.items():
        yield f"layout {name}", change(args, lambda laid, lay=lay: lay(laid, rng))
    ways = list(LAYOUTS.values())
    yield "layout mixed", change(args, lambda laid: ways[int(rng.integers(len(ways)))](laid, rng))


def planted(args: object, rng: np.random.Generator) -> Iterator[tuple[str, object]]:
    """NaN, infinities and zeros among the floats, in all tensors and in one at a time."""
    laids = [laid for laid in each_laid(args) if laid.dtype in FLOATS and laid.values().size]

    def plant(laid: Laid) -> Laid:
        values = laid.values().copy()
        flat = values.reshape(-1)
        count = max(1, min(flat.size // 3, 6))
        flat[rng.choice(flat.size, count, replace=False)] = rng.choice(SPECIAL, count)
        return fresh(values, laid)

    for i, one in enumerate(laids):
        yield f"planted {i}", change(args, lambda laid, one=one: plant(laid) if laid is one else laid)
    if len(laids) > 1:
        yield "planted", change(args, lambda laid: plant(laid) if laid.dtype in FLOATS and laid.values().size else laid)


def extremes(args: object, rng: np.random.Generator, words: bool = False) -> Iterator[tuple[str, object]]:
    """Integers: the least and greatest (of 32 bits, where there are only `words`), and 0 and -1, in one tensor at a time; as indices,
    these are outside."""
    for i, one in enumerate(each_laid(args)):
        if one.dtype in FLOATS or one.dtype is torch.bool or not one.values().size:
            continue
        info = np.iinfo(np.int32 if words and one.dtype is torch.int64 else one.base.dtype)
        for name, value in ("least", info.min), ("greatest", info.max), ("0", 0), ("-1", -1 if info.min else 255), ("20", 20):
            values = one.values().copy()
            values.reshape(-1)[int(rng.integers(values.size))] = value
            other = fresh(values, one)
            yield f"integer {name} in {i}", change(args, lambda laid, one=one, other=other: other if laid is one else laid)


def empty(args: object) -> Iterator[tuple[str, object]]:
    """Each size in turn becomes 0 wherever a tensor has it; and tensors lose all dimensions."""
    sizes = sorted({n for laid in each_laid(args) for n in laid.shape if n})
    for size in sizes[:3]:
        def cut(laid: Laid, size: int = size) -> Laid:
            shape = tuple(0 if n == size else n for n in laid.shape)
            return fresh(np.zeros(shape, laid.base.dtype), laid) if size in laid.shape else laid
        yield f"no {size}", change(args, cut)
    if any(laid.shape and laid.values().size for laid in each_laid(args)):
        yield "0-d", change(args, lambda laid: fresh(laid.values().reshape(-1)[0].reshape(()), laid) if laid.values().size else laid)


def cast(laid: Laid, dtype: torch.dtype) -> Laid:
    with np.errstate(all="ignore"):
        x = torch.from_numpy(laid.values().copy()).to(laid.dtype).to(dtype)
    values = (x.float() if dtype is torch.bfloat16 else x).numpy()
    wants = laid.wants and dtype in FLOATS
    return Laid(values.reshape(-1), dtype, laid.shape, tuple(torch.empty(laid.shape, device="meta").stride()), 0, wants)


def mixed(args: object, dtypes: list[torch.dtype]) -> Iterator[tuple[str, object]]:
    """One tensor of another dtype."""
    for i, one in enumerate(each_laid(args)[:4]):
        for dtype in dtypes:
            if dtype is not one.dtype:
                other = cast(one, dtype)
                yield f"dtype {dtype_name(dtype)} in {i}", change(args, lambda laid, one=one, other=other: other if laid is one else laid)


def all_of(args: object, dtype: torch.dtype) -> object:
    """All floats of another dtype, in arguments that name one too."""
    def to(value: object) -> object:
        if isinstance(value, Laid):
            return cast(value, dtype) if value.dtype in FLOATS else value
        return dtype if isinstance(value, torch.dtype) and value in FLOATS else over(value, to)
    return to(args)


def numbers(args: object) -> Iterator[tuple[str, object]]:
    """A tensor's place taken by a Python number; a number's by NumPy's, by a bool, by a tensor without dimensions."""
    positional, named = args
    for i, value in enumerate(positional):
        def put(new: object, i: int = i) -> object:
            return (tuple(new if i == j else each for j, each in enumerate(positional)), named)
        if isinstance(value, Laid):
            for other in (2, 1.5, True, -1, None, "no", [2.0], (2,), np.float64(2), np.bool_(True)):
                yield f"number {other!r} at {i}", put(other)
        yield from _replaced(value, put, f"at {i}")
    for key, value in named.items():
        yield from _replaced(value, lambda new, key=key: (positional, {**named, key: new}), f"for {key}")


def _replaced(value: object, put: object, where: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, bool):
        for new in (int(value), float(value), np.bool_(value), Laid(np.array([value]), torch.bool, (), (), 0, False), None, "no", (value,)):
            yield f"{new!r} {where}", put(new)
    elif isinstance(value, int):
        tensor = Laid(np.array([value]), torch.int64, (), (), 0, False)
        one = Laid(np.array([value]), torch.int64, (1,), (1,), 0, False)
        wide = Laid(np.array([value], np.float32), torch.float32, (), (), 0, False)
        yes = Laid(np.array([True]), torch.bool, (), (), 0, False)
        kinds = (np.int64(value), np.int32(value), float(value), np.float64(value), value + 0.5, True, False, np.bool_(True), tensor, one,
                 wide, yes, None, 100, -100, "no", [value], (value, value), (True,), (), np.array(value), np.array([value]))
        for new in kinds:
            yield f"{new!r:.20} {where}", put(new)
    elif isinstance(value, float):
        tensor = Laid(np.array([value], np.float32), torch.float32, (), (), 0, False)
        one = Laid(np.array([value], np.float32), torch.float32, (1,), (1,), 0, False)
        for new in (np.float32(value), np.float64(value), 1, np.int64(1), True, np.bool_(True), tensor, one, None, float("nan"),
                    float("inf"), "no", [value], (value,), np.array(value)):
            yield f"{new!r:.20} {where}", put(new)
    elif isinstance(value, (tuple, list)) and value and all(type(n) is int for n in value):
        for name, new in (("list", list(value)), ("tuple", tuple(value)), ("first", value[0]), ("NumPy's", tuple(map(np.int64, value))),
                          ("floats", tuple(float(n) for n in value)),
                          ("tensors", tuple(Laid(np.array([n]), torch.int64, (), (), 0, False) for n in value)),
                          ("a tensor", Laid(np.array(value), torch.int64, (len(value),), (1,), 0, False)), ("an array", np.array(value)),
                          ("bools", (True,) * len(value)), ("a bool last", (*value[:-1], True)), ("a bool", True), ("a float", 1.0),
                          ("None", None), ("a str", "no"), ("strs", ("no",) * len(value)), ("Nones", (None,) * len(value)), ("nothing", ()),
                          ("nested", (tuple(value),)), ("more", (*value, 1)), ("less", tuple(value[:-1])),
                          ("twice", (*value, *value)), ("negative", tuple(-n for n in value)), ("100", (100, *value[1:]))):
            yield f"{name} {where}", put(new)
    elif isinstance(value, str) and value != "cpu":
        for new in ("no", None, 1, True, 1.5, ("no",)):
            yield f"{new!r} {where}", put(new)


SPELLED = {"dim": "axis", "keepdim": "keepdims", "input": "x", "other": "x2"}


def spelled(args: object) -> Iterator[tuple[str, object]]:
    """NumPy's spellings of arguments, and one that no function has."""
    positional, named = args
    for key, other in SPELLED.items():
        if key in named:
            yield f"{other}=", (positional, {other if k == key else k: v for k, v in named.items()})
    if positional and "input" not in named:
        yield "x=", (positional[1:], {"x": positional[0], **named})
        yield "input=", (positional[1:], {"input": positional[0], **named})
    yield "bogus=", (positional, {**named, "bogus": 1})
    yield "one more", ((*positional, None), named)
    yield "out of a text", (positional, {**named, "out": "no"})
