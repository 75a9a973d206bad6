"""Zeros of both signs, infinities, NaN, the largest numbers: PyTorch's results, on every device.

NumPy gives PyTorch's results but for the entries of PYTORCH below.
"""
from __future__ import annotations

import math

import numpy as np

from volta.selftest import cases as table
from volta.selftest.cases import need

NAN, INF, MAX = math.nan, math.inf, float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).tiny)     # WGSL lets a GPU flush smaller results to zero
VALUES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, INF, -INF, NAN, MAX, -MAX], np.float32)

# (op, operands) -> PyTorch's result, where NumPy's is another one.
PYTORCH = {("sign", NAN): 0.0, ("sinc", MAX): NAN, ("sinc", -MAX): NAN,        # whose multiple of pi is rounded before its sine is taken
           **{("sinc", x): -2.7827534e-08 for x in (1.0, -1.0)}, **{("sinc", x): -2.5305382e-09 for x in (3.0, -3.0)}}

# The sign of a zero result, which WGSL does not promise, is compared on the CPU only, and not where PyTorch's own kernels
# (vector and scalar) disagree: remainder's follows the divisor in NumPy and the dividend in PyTorch.
ANY_ZERO = {"remainder", "relu", "maximum", "minimum", "fmax", "fmin", "clamp_min", "clamp_max", "functional.relu6", "functional.hardtanh"}


def compare(op, found, reference, operands, device, stepwise=None):
    """`found` equals `reference` (float64, rounded to float32 here) at every combination of operands; or `stepwise`, the same with
    every step in float32, where one overflows."""
    with np.errstate(all="ignore"):
        reference = reference if reference.dtype.kind == "b" else reference.astype(np.float32)
    for index in np.ndindex(reference.shape):
        given = tuple(float(x[index]) for x in operands)
        key = (op.name, *(NAN if math.isnan(v) else v for v in given))
        want, got = PYTORCH.get(key, reference[index].item()), found[index].item()
        text = f"{op.name}{given} on {device}: {got}, expected {want}"
        if stepwise is not None and not np.isfinite(stepwise[index]) and np.array_equal(got, stepwise[index], equal_nan=True):
            continue
        if isinstance(want, float) and math.isnan(want):
            need(math.isnan(got), text)
        else:
            flushed = device == "gpu" and got == 0 and 0 < abs(want) < TINY
            need(flushed or got == want or math.isclose(got, want, rel_tol=max(op.details.rtol, 1e-5)), text)
            if want == 0 and device == "cpu" and op.name not in ANY_ZERO:
                need(math.copysign(1, got) == math.copysign(1, want), text)


def applies(op) -> bool:
    """Whether the op works element by element on floating point numbers."""
    if table.family(op) == "composed":
        return op.details.elementwise and "f" in op.details.kinds and op.details.numpy is not None
    # nextafter is another number in float32 than in float64.
    return op.family in ("unary", "binary", "comparison", "gamma") and "f" in op.details.kinds and op.name != "nextafter"


def special_values(op, device):
    """Every combination of special values, with the parameters of every sample."""
    for case in {repr(c.params) + repr(len(c.inputs)): c for c in op.details.cases}.values():
        if any(isinstance(spec, (table.Labels, table.Flags, table.Derived, table.Many)) for spec in case.inputs):
            continue
        count = sum(isinstance(spec, tuple) for spec in case.inputs)
        grids = iter(np.meshgrid(*[VALUES if count < 3 else VALUES[::2]] * count, indexing="ij"))
        arrays = [next(grids).ravel() if isinstance(spec, tuple) else spec for spec in case.inputs]
        (reference,) = table.expected(op, arrays, case.params)
        stepwise = None
        if table.family(op) == "composed":
            with np.errstate(all="ignore"):
                stepwise = np.asarray(op.details.numpy(*arrays, **case.params), np.float32)
        found = op(*table.to_device(arrays, device), **case.params)
        compare(op, found.numpy(), reference, [a for a in arrays if isinstance(a, np.ndarray) and a.ndim], device, stepwise)
