"""Gradients against finite differences: of first order, of second order, and with a report."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import volta
from volta.errors import ArgumentError, DTypeError, VoltaError
from volta.testing.comparison import array, report

__all__ = ["GradcheckError", "GradientReport", "check_gradients", "check_gradients_simple", "gradcheck", "gradgradcheck"]

_STEPS = {"float64": (1e-6, 1e-5, 1e-3), "float32": (4e-3, 2e-3, 1e-2)}         # eps, atol and rtol of check_gradients
_PROJECTIONS = 2        # random cotangents per gradcheck: each tests every entry of the Jacobian at once
_GROUPS = 256           # of elements that `fast_mode` varies at once


class GradcheckError(VoltaError, AssertionError, RuntimeError):
    """A derivative that differs from finite differences."""


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


def gradcheck(func: Callable, inputs: Sequence[object] | volta.Tensor, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, *,
              raise_exception: bool = True, nondet_tol: float = 0.0, **options: bool | None) -> bool:
    """Compare the gradients of `func` with central differences; True, or GradcheckError naming input, place and values.

    `func(*inputs)` gives a tensor or a tuple of them. Inputs with requires_grad are varied element by element by `eps`; the
    outputs are weighted by fixed random numbers, so that one comparison covers all of them. A second backward pass may differ by
    `nondet_tol`. With `raise_exception` False the result is False in place of the error. Of PyTorch's options, `check_undefined_grad`
    and `check_grad_dtypes` change nothing: gradients always have their input's dtype, and none stands for zeros. `fast_mode` varies the
    elements of an input of more than 256 in as many groups, each element by a random sign; what differs is then named by its group.
    Forward derivatives and batched ones are not checked here.

    Raises: ArgumentError without an input that requires grad and for a check that there is not; DTypeError unless such inputs are float64.

    >>> gradcheck(lambda x: (x * x).sum(), [volta.tensor([1.0, 2.0], dtype=volta.float64, requires_grad=True)])
    True
    """
    fast = options.pop("fast_mode", False)
    _known("gradcheck", options, ("check_batched_grad", "check_batched_forward_grad", "check_forward_ad", "masked"))
    inputs = (inputs,) if isinstance(inputs, volta.Tensor) else tuple(inputs)
    wanted = _check_inputs("gradcheck", inputs, volta.float64)
    try:
        for i, found, expected in _gradients("gradcheck", func, inputs, wanted, eps, nondet_tol, bool(fast)):
            text = _difference(i, found, expected, atol, rtol)
            if text:
                raise GradcheckError(f"gradcheck: {text}")
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _known(name: str, options: dict, absent: tuple[str, ...]) -> None:
    """Refuse options that are none of PyTorch's, and checks that there are not."""
    known = {"check_undefined_grad", "check_grad_dtypes", "check_backward_ad", "check_rev_over_rev"}
    for option, value in options.items():
        if option not in known and option not in absent:
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
        if value and option in absent:
            raise ArgumentError(f"{name}: {option}={value!r} is not supported; leave it out")
        if not value and option in ("check_backward_ad", "check_rev_over_rev"):
            raise ArgumentError(f"{name}: {option}=False leaves nothing to check")


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


def _gradients(name: str, fn: Callable, inputs: tuple, wanted: list[int], eps: float, nondet_tol: float = 0.0,
               fast: bool = False) -> Iterator[tuple]:
    """(input, gradient, the same by differences) for every wanted input, under random weights of the outputs."""
    random = np.random.default_rng(0x5EED)
    leaves = [x.detach().clone().requires_grad_() if i in wanted else x for i, x in enumerate(inputs)]
    outputs = _outputs(fn(*leaves))
    if not outputs:
        raise ArgumentError(f"{name}: fn gave no floating point tensor")
    weights = [[random.uniform(0.5, 1.5, o.shape) * random.choice((-1.0, 1.0), o.shape) for o in outputs] for _ in range(_PROJECTIONS)]
    gradients = []
    for weight in weights:
        analytic, again = (_analytic(outputs, weight, [leaves[i] for i in wanted]) for _ in range(2))
        for i, found, other in zip(wanted, analytic, again):
            if not np.allclose(found, other, rtol=0.0, atol=nondet_tol, equal_nan=True):
                raise GradcheckError(f"{name}: a second backward pass gives input {i} another gradient; nondet_tol is {nondet_tol:g}")
        gradients.append(analytic)
    for k, i in enumerate(wanted):
        size = gradients[0][k].size
        groups = _groups(size, random) if fast and size > _GROUPS else None
        differences = _numeric(fn, leaves, i, weights, eps, groups or [([j], np.ones(1)) for j in range(size)])
        for found, expected in zip((each[k] for each in gradients), differences):
            if groups:
                yield i, np.array([found.ravel()[places] @ signs for places, signs in groups]), expected
            else:
                yield i, found, expected.reshape(found.shape)


def _groups(size: int, random: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every element in one of the groups: their places, and signs."""
    return [(places, random.choice((-1.0, 1.0), len(places))) for places in np.array_split(random.permutation(size), _GROUPS)]


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
    return [np.zeros(x.shape) if g is None else array(g).copy() for x, g in zip(leaves, grads)]


def _numeric(fn: Callable, leaves: list, position: int, weights: list[list], eps: float, groups: list[tuple]) -> np.ndarray:
    """Central differences of sum(output * weight) for one input along each group of (places, signs): a row for each of the weights."""
    base = array(leaves[position])
    out = np.empty((len(weights), len(groups)))
    values = np.array(base, order="C")
    straight = np.array(base, order="C").reshape(-1)
    flat = values.reshape(-1)
    for k, (places, signs) in enumerate(groups):
        totals, step = np.zeros(len(weights)), 0.0
        for sign in (1.0, -1.0):
            flat[places] = straight[places] + sign * eps * signs
            step += sign * float(flat[places].astype(np.float64) @ signs) / len(signs)              # as it was rounded
            changed = volta.tensor(values, device=leaves[position].device, requires_grad=True)
            results = [array(o) for o in _outputs(fn(*leaves[:position], changed, *leaves[position + 1:]))]
            totals += [sign * sum(float((o * w).sum()) for o, w in zip(results, weight)) for weight in weights]
        flat[places] = straight[places]
        out[:, k] = totals / step
    return out


def _difference(position: int, found: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> str:
    """The report of a gradient that differs; "" where it agrees."""
    bad = ~np.isclose(found, expected, rtol=rtol, atol=atol)
    return f"input {position}: {report(found, expected, bad, rtol, atol)} by finite differences" if bad.any() else ""


def gradgradcheck(func: Callable, inputs: Sequence[object] | volta.Tensor, grad_outputs: Sequence[object] | volta.Tensor | None = None,
                  eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, *, raise_exception: bool = True, nondet_tol: float = 0.0,
                  **options: bool | None) -> bool:
    """`gradcheck` of the gradients of `func`: its second derivatives, for the inputs and for the incoming gradients, which are
    `grad_outputs` or random numbers.

    Raises: as `gradcheck`.
    """
    fast = options.pop("fast_mode", False)
    _known("gradgradcheck", options, ("gen_non_contig_grad_outputs", "check_batched_grad", "check_fwd_over_rev", "masked"))
    inputs = (inputs,) if isinstance(inputs, volta.Tensor) else tuple(inputs)
    wanted = _check_inputs("gradgradcheck", inputs, volta.float64)
    if grad_outputs is None:
        random = np.random.default_rng(0x5EED + 1)
        with volta.no_grad():
            samples = _outputs(func(*inputs))
        cotangents = [volta.tensor(random.uniform(-1.0, 1.0, o.shape), device=o.device, requires_grad=True) for o in samples]
    else:
        cotangents = [grad_outputs] if isinstance(grad_outputs, volta.Tensor) else list(grad_outputs)

    def gradients(*values):
        leaves, seeds = list(values[:len(inputs)]), values[len(inputs):]
        for i in wanted:        # a leaf of its own, also where the caller varies another one
            leaves[i] = leaves[i] if leaves[i].requires_grad else leaves[i].detach().requires_grad_()
        outputs = [(o, s) for o, s in zip(_outputs(func(*leaves)), seeds) if o.requires_grad]
        if not outputs:
            return tuple(leaves[i] * 0.0 for i in wanted)
        found = volta.autograd.grad([o for o, _ in outputs], [leaves[i] for i in wanted], [s for _, s in outputs],
                                    create_graph=True, allow_unused=True)
        return tuple(leaves[i] * 0.0 if g is None else g for i, g in zip(wanted, found))

    return gradcheck(gradients, (*inputs, *cotangents), eps, atol, rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol, fast_mode=fast)
