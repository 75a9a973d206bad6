"""How tensors print: PyTorch's layout, by NumPy's array printer."""
from __future__ import annotations

import threading

import numpy as np

_options = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80}
_lock = threading.Lock()


def set_printoptions(precision: int | None = None, threshold: int | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None) -> None:
    """Digits, number of elements that is still printed whole, elements kept at each edge, and line width."""
    with _lock:
        for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
            if value is not None:
                _options[name] = int(value)


def _number(array: np.ndarray):
    """A formatter for the elements of `array`, all as wide as the widest."""
    if array.dtype == bool:
        return lambda v: " True" if v else "False"
    if array.dtype.kind in "iu":
        width = max((len(str(v)) for v in (array.min(), array.max())), default=1) if array.size else 1
        return lambda v: f"{v:{width}d}"
    finite = array[np.isfinite(array)].astype(np.float64)
    digits = _options["precision"]
    if finite.size and np.all(finite == np.round(finite)) and np.abs(finite).max() < 1e8:
        plain = [f"{v:.0f}." for v in (finite.min(), finite.max())]
        style = lambda v: f"{v:.0f}." if np.isfinite(v) else str(v)  # noqa: E731
    else:
        size = np.abs(finite[finite != 0])
        wide = size.size and (size.max() > 1e8 or size.max() / size.min() > 1000 or size.max() < 1e-4)
        kind = "e" if wide else "f"
        plain = [f"{v:.{digits}{kind}}" for v in (finite.min(), finite.max())] if finite.size else []
        style = lambda v: f"{v:.{digits}{kind}}" if np.isfinite(v) else str(v)  # noqa: E731
    width = max((len(s) for s in plain), default=1)         # PyTorch leaves no room for inf and nan
    return lambda v: style(v).rjust(width)


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    edge = _options["edgeitems"]
    if array.size > _options["threshold"]:
        for axis, n in enumerate(array.shape):
            if n > 2 * edge:
                array = np.take(array, [*range(edge), *range(n - edge, n)], axis)
    return array


def tensor_repr(t) -> str:
    """`tensor([...], device='gpu', requires_grad=True)`."""
    array = t.detach().numpy()
    values = array.astype(np.float32) if array.dtype == np.float16 else array
    if array.size == 0:
        body = "[" * max(array.ndim, 1) + "]" * max(array.ndim, 1) if array.shape == (0,) else f"[], size={tuple(array.shape)}"
    elif array.ndim == 0:
        body = _number(values)(values[()]).strip()
    else:
        body = np.array2string(values, separator=", ", prefix="tensor(", formatter={"all": _number(_shown(values))},
                               threshold=_options["threshold"], edgeitems=_options["edgeitems"], max_line_width=_options["linewidth"])
    notes = []
    if t.device.is_gpu:
        notes.append(f"device='{t.device.type}:{t.device.index}'")
    if t.dtype.name not in ("float32", "int64", "bool") or (array.size == 0 and t.dtype.name != "float32"):
        notes.append(f"dtype={t.dtype}")
    if t.grad_fn is not None:
        notes.append(f"grad_fn={t.grad_fn!r}")
    elif t.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([body, *notes])})"
