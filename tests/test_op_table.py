"""Every op of the op table, records and composed functions, on every device: values against NumPy in float64, dtypes, first and second
derivatives.

Nothing here names an op: a new one is tested as soon as it is declared. What is checked stands in volta/selftest/checks.py.
"""
import inspect

import pytest

import volta
from volta._kernels.core.record import Composed
from volta.ops.table import FUNCTIONS, RECORDS
from volta.selftest import cases as table
from volta.selftest import checks
from volta.testing import gradcheck, gradgradcheck

EVERY = table.records(creation=True, in_place=True)
FLOAT = [op for op in EVERY if "f" in op.details.kinds]
DIFFERENTIABLE = [op for op in table.records() if checks.derivable(op)]
SMOOTH = [op for op in DIFFERENTIABLE if op.details.smooth]
FUSED = [op for op in table.records() if op.reference is not None]
COMPOSED = table.composed()
COMPOSED_OF_FLOATS = [op for op in COMPOSED if "f" in op.details.kinds]
NAME = {"ids": lambda op: op.name}


def test_every_record_has_a_reference_and_cases():
    lacking = [op.name for op in EVERY if op.details.numpy is None or not op.details.cases]
    assert lacking == []
    assert {name for name, op in RECORDS.items() if op.details.numpy is None} == table.APART


def test_every_composed_op_of_tensors_has_a_reference_and_cases():
    """But for those that make tensors of nothing, and those that only exist in place (x.copy_), which have tests of their own."""
    def takes_tensors(op):
        kinds = [str(p.annotation) for p in inspect.signature(op).parameters.values()]
        return any("Tensor" in kind for kind in kinds)

    composed = [op for op in FUNCTIONS.values() if isinstance(op, Composed)]
    lacking = [op.name for op in composed if takes_tensors(op) and (not op.details.cases or op.details.numpy is None)
               and not op.details.untested and not op.name.endswith("_")]
    assert lacking == []


# ---------------------------------------------------------------- values
@pytest.mark.parametrize("op", FLOAT, **NAME)
def test_float32(op, device, rng, each):
    each(lambda case: checks.forward(op, case, device, volta.float32, rng), op.details.cases)


@pytest.mark.parametrize("op", FLOAT, **NAME)
def test_float64(op, rng, each):
    each(lambda case: checks.forward(op, case, "cpu", volta.float64, rng), op.details.cases)


@pytest.mark.parametrize("op", FLOAT, **NAME)
def test_float16(op, device, rng, each):
    """Stored in half precision, computed in float32."""
    if not table.has_dtype(device, volta.float16):
        pytest.skip("the adapter has no float16")
    each(lambda case: checks.forward(op, case, device, volta.float16, rng), op.details.cases)


@pytest.mark.parametrize("op", [op for op in EVERY if "i" in op.details.kinds], **NAME)
def test_integers(op, device, rng, each):
    """Small ones are computed in 32 bits and wrap at their own, on the GPU too, where an element has 32."""
    each(lambda dtype, case: checks.forward(op, case, device, dtype, rng), checks.INTEGERS, op.details.cases)


@pytest.mark.parametrize("op", [op for op in EVERY if "b" in op.details.kinds], **NAME)
def test_bool(op, device, rng, each):
    each(lambda case: checks.forward(op, case, device, volta.bool, rng), op.details.cases)


@pytest.mark.parametrize("op", [op for op in COMPOSED if op.details.numpy], **NAME)
def test_composed(op, device, rng, each):
    """Of every dtype that it takes; of elementwise ones with tensors that broadcast, too."""
    cases = [case for case in op.details.cases if checks.fits(case, device)]
    each(lambda dtype, case: checks.forward(op, case, device, dtype, rng), checks.dtypes_of(op, device), cases)
    if op.details.elementwise:
        each(lambda case: checks.broadcasts(op, case, device, rng), op.details.cases)


# ---------------------------------------------------------------- derivatives
def against_differences(agree, op, rng):
    """A check of a case's derivatives in float64."""
    def check(case):
        function, leaves = checks.as_function(op, case, table.sample(op, case, rng, volta.float64), "cpu")
        assert agree(function, leaves, fast_mode=True)
    return check


@pytest.mark.parametrize("op", SMOOTH, **NAME)
def test_gradient(op, rng, each):
    """Against finite differences. For a fused op without vjp this also compares its kernel with its reference."""
    each(against_differences(gradcheck, op, rng), op.details.cases)


@pytest.mark.parametrize("op", SMOOTH, **NAME)
def test_second_derivative(op, rng, each):
    each(against_differences(gradgradcheck, op, rng), op.details.cases)


@pytest.mark.parametrize("op", DIFFERENTIABLE, **NAME)
def test_derivatives_in_float32(op, device, rng, each):
    each(lambda case: checks.derivatives_in_float32(op, case, device, rng), op.details.cases)


@pytest.mark.parametrize("op", [op for op in COMPOSED_OF_FLOATS if op.details.smooth], **NAME)
def test_derivatives_of_composed(op, rng, each):
    each(lambda case: checks.finite_differences(op, case, rng), op.details.cases)


@pytest.mark.parametrize("op", COMPOSED_OF_FLOATS, **NAME)
def test_derivatives_of_composed_in_float32(op, device, rng, each):
    cases = [case for case in op.details.cases if checks.fits(case, device)]
    each(lambda case: checks.derivatives_in_float32(op, case, device, rng), cases)


@pytest.mark.parametrize("op", FUSED, **NAME)
def test_fused_equals_its_reference(op, device, rng, each):
    def check(case):
        arrays = table.sample(op, case, rng, volta.float32)
        tensors = table.to_device(arrays, device)
        fused = table.run(op, tensors, case.params, device)
        composed = op.reference(*tensors, **case.params)
        for a, b in zip(fused, composed if isinstance(composed, tuple) else (composed,)):
            table.check(a, b.numpy().astype("float64"), 10 * op.details.rtol, f"{op.name} on {device}", table.magnitude(arrays))
    each(check, op.details.cases)
