"""The op table: every primitive by name, with what tests, parity checks and the reference docs need to know of it.

A record is made by `register`. Knows no device: `volta/devices/*.py` bind kernels to the names.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from volta._kernels.core.graph import Primitive


@dataclass(frozen=True)
class Labels:
    """A sample input of int64 values in [0, high)."""
    shape: tuple[int, ...]
    high: int


@dataclass(frozen=True)
class Flags:
    """A sample input of booleans."""
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Many:
    """A sample list of tensors of these shapes."""
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Derived:
    """A sample input that follows from those before it: `make(*arrays)`. Gradients see it as a constant."""
    make: Callable


@dataclass(frozen=True)
class Case:
    """A sample call: per input a shape (floats from the record's domain), Labels, Flags, Many, Derived, None or a number;
    and parameters. Of the family "creation" the inputs are the positional arguments as they are."""
    inputs: tuple
    params: dict = field(default_factory=dict)


def case(*inputs: object, **params: object) -> Case:
    """A sample call."""
    return Case(inputs, params)


@dataclass(frozen=True)
class Details:
    """What the tests use of a record."""
    numpy: Callable | None          # the op on float64 NumPy arrays: fn(*inputs, **params); creation also gets dtype; families
    #                                 inplace and update give, per input, its value afterwards (None: unchanged)
    domain: tuple[float, float]     # sample values are drawn from here; kinks inside are avoided by random draws
    cases: tuple[Case, ...]
    kinds: str                      # element types it takes: f floating, i integer, b bool
    rtol: float                     # relative tolerance in float32, on every device
    smooth: bool                    # whether gradients can be compared with finite differences
    writes: tuple[int, ...] = ()    # positions of the inputs that the kernel changes


PRIMITIVES: dict[str, Primitive] = {}

UNARY_SHAPES = ((), (1,), (7,), (3, 5), (2, 0, 3), (2, 3, 4, 5))
BINARY_SHAPES = (((), ()), ((6,), (6,)), ((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((0, 3), (1, 3)), ((5, 1), (1, 6)))
TERNARY_SHAPES = (((4,), (4,), (4,)), ((3, 4), (4,), (3, 1)), ((2, 3, 1), (1, 4), ()), ((0, 2), (2,), (1, 2)))


def register(name: str, inputs: tuple[str, ...], *, family: str, vjp=None, outputs: tuple[str, ...] = ("out",), reference=None,
             promote: str =  "none", view: Callable | None =  None, numpy: Callable | None =  None,
             domain: tuple[float, float] = (-2.0, 2.0), cases: tuple =  (), kinds: str =  "f", rtol: float =  1e-5,
             smooth: bool =  True, writes: tuple[str, ...] = ()) -> Primitive:
    """Make a record and enter it in the table. `view` is the one kernel of an op that moves no data; `writes` are the inputs changed."""
    details = Details(numpy, domain, tuple(cases), kinds, rtol, smooth, tuple(map(inputs.index, writes)))
    op = Primitive(name, inputs, vjp=vjp, family=family, outputs=outputs, reference=reference, promote=promote, details=details)
    if view is not None:
        op.cpu = op.gpu = view
    PRIMITIVES[name] = op
    return op


def bind(kernels: dict[str, Callable], device: str) -> None:
    """Give every record its kernel on `device` ("cpu" or "gpu"); a missing one stays None, which the parity test reports."""
    for name, op in PRIMITIVES.items():
        if name in kernels:
            setattr(op, device, kernels[name])


def missing_kernels() -> list[tuple[str, str]]:
    """(op, device) pairs without a kernel; empty unless a backend is incomplete."""
    return [(name, device) for name, op in PRIMITIVES.items() for device in ("cpu", "gpu") if getattr(op, device) is None]


def update(op: Primitive, inputs: tuple, **params: object) -> None:
    """Run a kernel that changes inputs in place, tensors or lists of tensors, and count up the versions of those that it writes."""
    first = inputs[0][0] if isinstance(inputs[0], list) else inputs[0]
    (op.gpu if first.device.is_gpu else op.cpu)(*inputs, **params)
    for position in op.details.writes:
        written = inputs[position]
        if isinstance(written, list):
            for t in written:
                t.storage.version += 1
        elif written is not None:
            written.storage.version += 1


def create(op: Primitive, *args: object, device, **params: object):
    """Run a kernel that has no tensor inputs on `device`."""
    return (op.gpu if device.is_gpu else op.cpu)(*args, device=device, **params)


def erf(x: np.ndarray) -> np.ndarray:
    """erf in float64, for references."""
    import math
    return np.vectorize(math.erf, otypes=[np.float64])(x)
