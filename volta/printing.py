"""How tensors print: PyTorch's layout to the character, but for the device's name."""
from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np

from volta.dtypes import get_default_dtype
from volta.errors import ArgumentError
from volta.layout import sparse_coo

__all__ = ["set_printoptions", "sparse_repr", "tensor_repr"]

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, math.inf, 3, 80)}
_lock = threading.Lock()
_PREFIX = "tensor("


def set_printoptions(precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None) -> None:
    """Digits, number of elements that is still printed whole, elements kept at each edge, and line width; or those of a `profile`,
    "default", "short" or "full". `sci_mode` is whether floats print scientifically; None, also where it is left out: where sizes lie far
    apart.

    Raises: ArgumentError for another profile.
    """
    if profile is not None and profile not in _PROFILES:
        raise ArgumentError(f"set_printoptions: profile must be 'default', 'short' or 'full', got {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    with _lock:
        if profile is not None:
            _options.update(zip(given, _PROFILES[profile]))
        _options.update({name: value for name, value in given.items() if value is not None}, sci_mode=sci_mode)


def _float_style(array: np.ndarray) -> tuple[Callable, int]:
    """(text of one number, width of all): whole numbers with a bare point, scientific where the sizes lie far apart."""
    digits = _options["precision"]
    sizes = np.abs(array[np.isfinite(array) & (array != 0)])
    low, high = sizes.min(initial=math.inf), sizes.max(initial=0)
    whole = bool(np.all(sizes == np.ceil(sizes)))
    far = high / low > 1000 or high > 1e8 or (not whole and low < 1e-4)
    if _options["sci_mode"] is not None:
        far = bool(_options["sci_mode"] and sizes.size)
    spec, point = (f".{digits}e", "") if far else (".0f", ".") if whole else (f".{digits}f", "")

    def style(v):
        return format(v, spec) + (point if math.isfinite(v) else "")
    return style, max((len(style(v)) for v in array[np.isfinite(array) & (array != 0)].tolist()), default=1)


def _formatter(array: np.ndarray) -> tuple[Callable, int]:
    """(text of one element, padded; width)."""
    if array.dtype.kind == "f":
        style, width = _float_style(array.astype(np.float64))
    else:
        style, width = str, max((len(str(v)) for v in array.reshape(-1).tolist()), default=1)
    return lambda v: style(v).rjust(width), width


def _summary(array: np.ndarray) -> np.ndarray:
    """The elements that a shortened print shows."""
    edge = _options["edgeitems"]
    for axis, n in enumerate(array.shape):
        if n > 2 * edge:
            rest = (slice(None),) * axis        # slices: np.take would first copy all of an expanded array
            array = np.concatenate([array[(*rest, slice(edge))], array[(*rest, slice(n - edge, n))]], axis)
    return array


def _body(array: np.ndarray, indent: int, text: Callable, width: int, short: bool) -> str:
    """The brackets and numbers of an array; `indent` is the column of its opening bracket."""
    if array.ndim == 0:
        return text(array.item())
    edge = _options["edgeitems"]
    cut = short and array.shape[0] > 2 * edge
    if array.ndim == 1:
        if cut:
            items = [*map(text, array[:edge].tolist()), " ...", *map(text, array[array.size - edge:].tolist())]
        else:
            items = [*map(text, array.tolist())]
        per_line = max(1, (_options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(items[i:i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    places = [*range(edge), *range(array.shape[0] - edge, array.shape[0])] if cut else range(array.shape[0])
    parts = [_body(array[i], indent + 1, text, width, short) for i in places]
    if cut:
        parts.insert(edge, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _notes(t) -> list[str]:
    """What follows the numbers."""
    notes = _device_notes(t)
    if t._size == 0 and len(t.shape) != 1 and not t.device.is_meta:
        notes.append(f"size={tuple(t.shape)}")
    if t.dtype is not get_default_dtype() and (t._size == 0 or t.device.is_meta or t.dtype.name not in ("int64", "bool")):
        notes.append(f"dtype={t.dtype}")
    notes += _graph_notes(t)
    tangent = None if t.storage.tangent is None else t.storage.tangent.of(t)
    if tangent is not None:
        notes.append(f"tangent={tangent.detach()!r}")
    return notes


def _device_notes(t) -> list[str]:
    if t.device.is_meta:
        return [f"device='meta', size={tuple(t.shape)}"]
    return [f"device='{t.device.type}:{t.device.index}'"] if t.device.is_gpu else []


def _graph_notes(t) -> list[str]:
    if t.grad_fn is not None:
        return [f"grad_fn=<{t.grad_fn.name().rpartition('::')[2]}>"]
    return ["requires_grad=True"] if t.requires_grad else []


def tensor_repr(t) -> str:
    """`tensor([...], device='gpu:0', requires_grad=True)`; a subclass by its name."""
    prefix = _prefix(t)
    return _with_notes(prefix + ("..." if t.device.is_meta else _numbers(t, len(prefix))), _notes(t), len(prefix))


def sparse_repr(at, values, shape: tuple[int, ...]) -> str:
    """`tensor(indices=tensor([...]), values=tensor([...]), size=..., nnz=...)`, of the tensors of places and of values."""
    out = _PREFIX
    for name, t in (("indices=tensor(", at), ("values=tensor(", values)):
        column = len(_PREFIX) + len(name)
        empty = "" if t._size else f", size={tuple(t.shape)}"
        out += f"{name}{_numbers(t, column)}{empty}),\n" + " " * len(_PREFIX)
    dtype = f", dtype={values.dtype}" if values.dtype is not get_default_dtype() and values.dtype.name not in ("int64", "bool") else ""
    notes = [*_device_notes(values), f"size={shape}, nnz={at.shape[1]}{dtype}, layout={sparse_coo}", *_graph_notes(values)]
    return out + ", ".join(notes) + ")"


def _prefix(t) -> str:
    name = type(t).__name__
    return _PREFIX if name in ("Tensor", "Parameter", "Buffer") else f"{name}("


def _numbers(t, column: int) -> str:
    """The brackets and numbers, of which the first stands in a column."""
    array = (t.detach() if t.dtype.name != "bfloat16" else t.detach().float()).numpy()
    if array.size == 0:
        return "[]"
    short = array.size > _options["threshold"]
    text, width = _formatter(_summary(array) if short else array)
    return _body(array, column, text, width, short)


def _with_notes(out: str, notes: list[str], indent: int) -> str:
    column = len(out) - out.rfind("\n") + 1
    for note in notes:
        if column + len(note) + 2 > _options["linewidth"]:
            out += ",\n" + " " * indent + note
            column = indent + len(note)
        else:
            out += ", " + note
            column += len(note) + 2
    return out + ")"
