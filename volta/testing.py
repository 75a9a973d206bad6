"""What tests of models and of new ops need: comparison with a readable report, and gradients against finite differences.

Works through the public functions only; knows no kernel and no record.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import volta
from volta.errors import ArgumentError, DTypeError, VoltaError

__all__ = ["GradcheckError", "GradientReport", "assert_close", "check_gradients", "check_gradients_simple", "gradcheck", "gradgradcheck"]

_TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1.3e-6, 1e-5), "float16": (1e-3, 1e-5)}
_STEPS = {"float64": (1e-6, 1e-5, 1e-3), "float32": (4e-3, 2e-3, 1e-2)}         # eps, atol and rtol of check_gradients
_PROJECTIONS = 2        # random cotangents per gradcheck: each tests every entry of the Jacobian at once


class GradcheckError(VoltaError, AssertionError):
    """A derivative that differs from finite differences."""


def _array(value: object) -> np.ndarray:
    return value.detach().numpy() if isinstance(value, volta.Tensor) else np.asarray(value)


def assert_close(actual: object, expected: object, rtol: float | None = None, atol: float | None = None, *,
                 equal_nan: bool = False, msg: str = "") -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| at every element.

    Both are tensors (of any device), arrays or numbers of one shape; two tensors must share their dtype. Without
    tolerances those of torch.testing.assert_close hold for the dtype of `actual`; integers and bools must be equal.
    `msg` opens the report. With `equal_nan`, NaN agrees with NaN.

    >>> assert_close(volta.tensor([1.0, 2.0]) * 2, volta.tensor([2.0, 4.0]))
    """
    if (rtol is None) != (atol is None):
        raise ArgumentError(f"assert_close: give both rtol and atol or neither, got rtol={rtol}, atol={atol}")
    head = f"{msg}: " if msg else ""
    a, b = _array(actual), _array(expected)
    if a.shape != b.shape:
        raise AssertionError(f"{head}shapes differ: {a.shape}, expected {b.shape}")
    both = isinstance(actual, volta.Tensor) and isinstance(expected, volta.Tensor)
    if both and actual.dtype is not expected.dtype:
        raise AssertionError(f"{head}dtypes differ: {actual.dtype}, expected {expected.dtype}")
    if rtol is None:
        rtol, atol = _TOLERANCES.get(a.dtype.name, (0.0, 0.0))
    a, b = (v.astype(np.float64) if v.dtype.kind == "f" else v for v in (a, b))
    with np.errstate(all="ignore"):
        if a.dtype.kind != "f" and b.dtype.kind != "f":
            bad = a != b
        else:
            bad = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bad.any():
        raise AssertionError(head + _report(a, b, bad, rtol, atol))


def _report(a: np.ndarray, b: np.ndarray, bad: np.ndarray, rtol: float, atol: float) -> str:
    """How many elements differ, and the worst of them."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        gap = np.where(bad, np.nan_to_num(np.abs(x - y), nan=np.inf, posinf=np.inf), -1.0)
    at = tuple(int(i) for i in np.unravel_index(np.argmax(gap), gap.shape))
    return (f"{int(bad.sum())} of {bad.size} elements differ (shape {a.shape}, rtol {rtol:g}, atol {atol:g}); the worst at "
            f"{at}: {a[at]!r}, expected {b[at]!r}")


# ---------------------------------------------------------------- gradients
def _outputs(value: object) -> list:
    """The floating point tensors among what a function gave."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [v for v in values if isinstance(v, volta.Tensor) and v.dtype.is_floating_point]


def _check_inputs(name: str, inputs: Sequence, *dtypes: volta.dtype) -> list[int]:
    """Positions of the inputs to be varied, which are of these dtypes."""
    wanted = [i for i, x in enumerate(inputs) if isinstance(x, volta.Tensor) and x.requires_grad]
    if not wanted:
        raise ArgumentError(f"{name}: no input requires grad; make one with requires_grad=True")
    for i in wanted:
        if inputs[i].dtype not in dtypes:
            raise DTypeError(f"{name}: finite differences need {' or '.join(d.name for d in dtypes)}, input {i} is {inputs[i].dtype}; "
                             "convert it with .double(), or .float() on a GPU")
    return wanted


def gradcheck(fn: Callable, inputs: Sequence, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3) -> bool:
    """Compare the gradients of `fn` with central differences; True, or GradcheckError naming input, place and values.

    `fn(*inputs)` gives a tensor or a tuple of them. Inputs with requires_grad are varied element by element by `eps`; the
    outputs are weighted by fixed random numbers, so that one comparison covers all of them.

    Raises: ArgumentError without an input that requires grad; DTypeError unless such inputs are float64.

    >>> gradcheck(lambda x: (x * x).sum(), [volta.tensor([1.0, 2.0], dtype=volta.float64, requires_grad=True)])
    True
    """
    inputs = tuple(inputs)
    wanted = _check_inputs("gradcheck", inputs, volta.float64)
    for i, found, expected in _gradients("gradcheck", fn, inputs, wanted, eps):
        text = _difference(i, found, expected, atol, rtol)
        if text:
            raise GradcheckError(f"gradcheck: {text}")
    return True


class GradientReport(NamedTuple):
    """What `check_gradients` found: true where all agreed. Of each input, None for one without a gradient: the largest error of its
    gradient, and that relative to its largest element; `text` says where the worst of a wrong one is."""

    passed: bool
    absolute: tuple[float | None, ...]
    relative: tuple[float | None, ...]
    text: str

    def __bool__(self) -> bool:
        return self.passed


def check_gradients(function: Callable, inputs: Sequence, eps: float | None = None, atol: float | None = None,
                    rtol: float | None = None) -> GradientReport:
    """`gradcheck` on any device, in float64 or float32, with a report in place of an error. Steps and tolerances are by default those
    of the dtype: in float32 differences show three digits.

    Raises: ArgumentError without an input that requires grad; DTypeError for one of another dtype.

    >>> report = check_gradients(lambda x: x * x, [volta.tensor([1.0, 2.0], requires_grad=True)])
    >>> report.passed, report.absolute[0] < 1e-3
    (True, True)
    """
    inputs = tuple(inputs)
    wanted = _check_inputs("check_gradients", inputs, volta.float64, volta.float32)
    absolute, relative, text = [None] * len(inputs), [None] * len(inputs), ""
    defaults = _STEPS[min(inputs[i].dtype.name for i in wanted)]            # of float32 where there is one
    eps, atol, rtol = (default if given is None else given for given, default in zip((eps, atol, rtol), defaults))
    for i, found, expected in _gradients("check_gradients", function, inputs, wanted, eps):
        error = float(np.abs(found - expected).max(initial=0.0))
        absolute[i] = max(absolute[i] or 0.0, error)
        relative[i] = max(relative[i] or 0.0, error / (float(np.abs(expected).max(initial=0.0)) or 1.0))
        text = text or _difference(i, found, expected, atol, rtol)
    return GradientReport(not text, tuple(absolute), tuple(relative), text)


def check_gradients_simple(function: Callable, input: volta.Tensor) -> bool:
    """Whether the gradient of a function of one tensor, of any device, agrees with finite differences.

    >>> check_gradients_simple(volta.exp, volta.tensor([0.0, 1.0]))
    True
    """
    return check_gradients(function, [input.detach().requires_grad_()]).passed


def _gradients(name: str, fn: Callable, inputs: tuple, wanted: list[int], eps: float) -> Iterator[tuple]:
    """(input, gradient, the same by differences) for every wanted input, under random weights of the outputs."""
    random = np.random.default_rng(0x5EED)
    leaves = [x.detach().clone().requires_grad_() if i in wanted else x for i, x in enumerate(inputs)]
    outputs = _outputs(fn(*leaves))
    if not outputs:
        raise ArgumentError(f"{name}: fn gave no floating point tensor")
    for _ in range(_PROJECTIONS):
        weights = [random.uniform(0.5, 1.5, o.shape) * random.choice((-1.0, 1.0), o.shape) for o in outputs]
        analytic = _analytic(outputs, weights, [leaves[i] for i in wanted])
        for i, found in zip(wanted, analytic):
            yield i, found, _numeric(fn, leaves, i, weights, eps)


def _analytic(outputs: list, weights: list, leaves: list) -> list:
    """The gradient of sum(output * weight) for each leaf."""
    roots = [(o, volta.tensor(w, dtype=o.dtype, device=o.device)) for o, w in zip(outputs, weights) if o.requires_grad]
    if not roots:
        return [np.zeros(x.shape) for x in leaves]
    grads = volta.autograd.grad([o for o, _ in roots], leaves, [w for _, w in roots], retain_graph=True, allow_unused=True)
    for x, g in zip(leaves, grads):
        if g is not None and (g.shape != x.shape or g.dtype is not x.dtype or g.device is not x.device):
            raise GradcheckError(f"gradcheck: the gradient of an input of shape {x.shape}, {x.dtype} on {x.device} has shape "
                                 f"{g.shape}, {g.dtype} on {g.device}")
    return [np.zeros(x.shape) if g is None else _array(g).copy() for x, g in zip(leaves, grads)]


def _numeric(fn: Callable, leaves: list, position: int, weights: list, eps: float) -> np.ndarray:
    """Central differences of sum(output * weight) for one input."""
    base = _array(leaves[position])
    out = np.empty(base.shape)
    values = np.array(base, order="C")
    for index in np.ndindex(base.shape):
        total = step = 0.0
        for sign in (1.0, -1.0):
            values[index] = base[index] + sign * eps
            step += sign * float(values[index])             # as it was rounded
            changed = volta.tensor(values, device=leaves[position].device, requires_grad=True)
            results = _outputs(fn(*leaves[:position], changed, *leaves[position + 1:]))
            total += sign * sum(float((_array(o) * w).sum()) for o, w in zip(results, weights))
        values[index] = base[index]
        out[index] = total / step
    return out


def _difference(position: int, found: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> str:
    """The report of a gradient that differs; "" where it agrees."""
    bad = ~np.isclose(found, expected, rtol=rtol, atol=atol)
    return f"input {position}: {_report(found, expected, bad, rtol, atol)} by finite differences" if bad.any() else ""


def gradgradcheck(fn: Callable, inputs: Sequence, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3) -> bool:
    """`gradcheck` of the gradients of `fn`: its second derivatives, for the inputs and for the incoming gradient.

    Raises: as `gradcheck`.
    """
    inputs = tuple(inputs)
    wanted = _check_inputs("gradgradcheck", inputs, volta.float64)
    random = np.random.default_rng(0x5EED + 1)
    with volta.no_grad():
        samples = _outputs(fn(*inputs))
    cotangents = [volta.tensor(random.uniform(-1.0, 1.0, o.shape), device=o.device, requires_grad=True) for o in samples]

    def gradients(*values):
        leaves, seeds = list(values[:len(inputs)]), values[len(inputs):]
        for i in wanted:        # a leaf of its own, also where the caller varies another one
            leaves[i] = leaves[i] if leaves[i].requires_grad else leaves[i].detach().requires_grad_()
        outputs = [(o, s) for o, s in zip(_outputs(fn(*leaves)), seeds) if o.requires_grad]
        if not outputs:
            return tuple(leaves[i] * 0.0 for i in wanted)
        found = volta.autograd.grad([o for o, _ in outputs], [leaves[i] for i in wanted], [s for _, s in outputs],
                                    create_graph=True, allow_unused=True)
        return tuple(leaves[i] * 0.0 if g is None else g for i, g in zip(wanted, found))

    return gradcheck(gradients, (*inputs, *cotangents), eps, atol, rtol)
