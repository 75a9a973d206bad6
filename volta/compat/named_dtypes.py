"""Element types of PyTorch that Volta has no tensors of: names for tables of types and comparisons. A tensor of one cannot be made."""
from __future__ import annotations

from types import SimpleNamespace

import volta


class UnsupportedDType:
    """The name of an element type, and what there is to know of it."""

    no_tensors = True                   # what says so where one is refused

    def __init__(self, name: str, itemsize: int, is_floating_point: bool = False, is_complex: bool = False,
                 limits: tuple[float, float, float] | None = None) -> None:
        self.name, self.itemsize, self.is_floating_point, self.is_complex = name, itemsize, is_floating_point, is_complex
        self.is_signed = not name.startswith(("u", "quint"))
        if limits:
            eps, largest, tiny = limits
            self.limits = SimpleNamespace(eps=eps, max=largest, min=-largest, tiny=tiny, smallest_normal=tiny, resolution=1.0,
                                          bits=8 * itemsize)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


NAMES = {each.name: each for each in (
    *(UnsupportedDType(f"{sign}int{8 * size}", size) for sign in ("", "u") for size in (1, 2, 4, 8)),
    *(UnsupportedDType(name, size) for name, size in (("qint8", 1), ("quint8", 1), ("qint32", 4), ("quint4x2", 1))),
    *(UnsupportedDType(f"complex{16 * size}", 2 * size, is_complex=True) for size in (2, 4, 8)),
    *(UnsupportedDType(f"float8_{name}", 1, True, limits=limits) for name, limits in (
        ("e4m3fn", (0.125, 448.0, 2.0 ** -6)), ("e4m3fnuz", (0.125, 240.0, 2.0 ** -7)), ("e5m2", (0.25, 57344.0, 2.0 ** -14)),
        ("e5m2fnuz", (0.25, 57344.0, 2.0 ** -15)), ("e8m0fnu", (1.0, 2.0 ** 127, 2.0 ** -127)))),
    UnsupportedDType("float4_e2m1fn_x2", 1, True)) if not hasattr(volta, each.name)}
NAMES.update({short: NAMES[name] for short, name in (("cfloat", "complex64"), ("cdouble", "complex128"), ("chalf", "complex32"),
                                                     ("short", "int16")) if name in NAMES and not hasattr(volta, short)})
