"""Every record of the op table, on every device: values against NumPy in float64, first and second derivatives.

Nothing here names an op: a new record is tested as soon as it is registered.
"""
import numpy as np
import op_cases as table
import pytest

import volta
from volta.errors import DTypeError
from volta.ops.table import PRIMITIVES
from volta.testing import gradcheck, gradgradcheck

EVERY = table.records(creation=True, in_place=True)
FLOAT = [op for op in EVERY if "f" in op.details.kinds]
DIFFERENTIABLE = [op for op in table.records() if op.vjp is not None or op.reference is not None]
FUSED = [op for op in table.records() if op.reference is not None]


def test_every_record_has_a_reference_and_cases():
    lacking = [op.name for op in EVERY if op.details.numpy is None or not op.details.cases]
    assert lacking == []
    assert {name for name, op in PRIMITIVES.items() if op.details.numpy is None} == table.TRANSFERS


# ---------------------------------------------------------------- values
def forward(op, case, device, dtype, rng):
    arrays = table.sample(op, case, rng, dtype)
    references = table.expected(op, arrays, case.params, dtype)
    tensors = table.to_device(arrays, device)
    results = table.run(op, tensors, case.params, device, dtype)
    assert len(results) == len(references)
    if op.family in table.IN_PLACE:                 # what has no reference must not be touched
        references = [before if r is None else r for r, before in zip(references, arrays)]
    for i, (found, reference) in enumerate(zip(table.flat(results), table.flat(references), strict=True)):
        if not isinstance(found, volta.Tensor):
            continue
        msg = f"{op.name} output {i} on {device}"
        assert found.device == volta.device(device), msg
        if i not in op.wide or dtype is not volta.float16:
            assert found.dtype is case.params.get("dtype", result_dtype(op, reference, dtype)), f"{msg}: {found.dtype}"
        assert not found.requires_grad and (found.is_contiguous() or op.family == "view"), msg
        if op.name == "empty":                      # of undefined contents
            assert found.shape == reference.shape
            continue
        if op.family == "creation" and not dtype.is_floating_point:
            reference = reference.astype(volta.dtypes.to_numpy(dtype))
        precision = found.dtype if found.dtype.is_floating_point else dtype
        rtol = {volta.float16: 6e-4, volta.float32: op.details.rtol}.get(precision, 1e-10)
        table.check(found, table.on_device(reference, device), rtol, msg, table.magnitude(table.flat(arrays)))


def result_dtype(op, reference, dtype):
    """Floats have the dtype under test, an integer result of integers too; sums of integers are int64, tests are bool."""
    if op.family == "creation":
        return dtype
    if reference.dtype.kind == "f":
        return dtype if dtype.is_floating_point else volta.float32
    return volta.dtypes.from_numpy_dtype(reference.dtype)


@pytest.mark.parametrize("op, case", table.cases(FLOAT))
def test_float32(op, case, device, rng):
    forward(op, case, device, volta.float32, rng)


@pytest.mark.parametrize("op, case", table.cases(FLOAT))
def test_float64(op, case, rng):
    forward(op, case, "cpu", volta.float64, rng)


@pytest.mark.parametrize("op, case", table.cases(FLOAT))
def test_float16(op, case, device, rng):
    """Stored in half precision, computed in float32."""
    try:
        volta.zeros(1, dtype=volta.float16, device=device)
    except DTypeError as error:
        pytest.skip(str(error))
    forward(op, case, device, volta.float16, rng)


@pytest.mark.parametrize("op, case", table.cases([op for op in EVERY if "i" in op.details.kinds]))
@pytest.mark.parametrize("dtype", [volta.int64, volta.int32], ids=lambda d: d.name)
def test_integers(op, case, dtype, device, rng):
    forward(op, case, device, dtype, rng)


@pytest.mark.parametrize("op, case", table.cases([op for op in EVERY if "i" in op.details.kinds]))
def test_uint8(op, case, device, rng):
    """Wraps at 8 bits, on the GPU too, where an element has 32."""
    forward(op, case, device, volta.uint8, rng)


@pytest.mark.parametrize("op, case", table.cases([op for op in EVERY if "b" in op.details.kinds]))
def test_bool(op, case, device, rng):
    forward(op, case, device, volta.bool, rng)


# ---------------------------------------------------------------- derivatives
def as_function(op, case, arrays, device):
    """(function of the floating inputs alone, those inputs as float64 leaves on the device). Derived inputs follow them."""
    varied = [i for i, (a, spec) in enumerate(zip(arrays, case.inputs))
              if isinstance(a, np.ndarray) and a.dtype.kind == "f" and isinstance(spec, tuple)]
    fixed = table.to_device(arrays, device)

    def function(*leaves):
        inputs = list(fixed)
        for i, x in zip(varied, leaves):
            inputs[i] = x
        for i, spec in enumerate(case.inputs):
            if isinstance(spec, table.Derived):
                known = [x.detach().numpy() if isinstance(x, volta.Tensor) else x for x in inputs[:i]]
                inputs[i] = volta.tensor(spec.make(*known), dtype=leaves[0].dtype, device=device)
        result = op(*inputs, **case.params)
        return result[0] if isinstance(result, tuple) and op.vjp is not None else result

    return function, [volta.tensor(arrays[i], device=device, requires_grad=True) for i in varied]


def has_values(case):
    return all(0 not in spec for spec in case.inputs if isinstance(spec, tuple))


def differentiable_cases(ops):
    return table.cases([op for op in ops if "f" in op.details.kinds])


@pytest.mark.parametrize("op, case", differentiable_cases([op for op in DIFFERENTIABLE if op.details.smooth]))
def test_gradient(op, case, rng):
    """Against finite differences. For a fused op without vjp this also compares its kernel with its reference."""
    function, leaves = as_function(op, case, table.sample(op, case, rng, volta.float64), "cpu")
    assert gradcheck(function, leaves)


@pytest.mark.parametrize("op, case", differentiable_cases([op for op in DIFFERENTIABLE if op.details.smooth]))
def test_second_derivative(op, case, rng):
    function, leaves = as_function(op, case, table.sample(op, case, rng, volta.float64), "cpu")
    assert gradgradcheck(function, leaves)


def derivatives(op, case, arrays, seeds, dtype, device):
    """First gradients of <op(inputs), seed>, and gradients of <first gradients, seeds> for those that have a graph."""
    cast = [a.astype(volta.dtypes.to_numpy(dtype)) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arrays]
    function, leaves = as_function(op, case, cast, device)
    results = function(*leaves)
    roots = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
    weights = [volta.tensor(seeds.uniform(0.5, 1.5, r.shape), dtype=dtype, device=device, requires_grad=True) for r in roots]
    first = volta.autograd.grad(roots, leaves, weights, create_graph=True, allow_unused=True)
    linked = [g for g in first if g is not None and g.requires_grad]
    again = [volta.tensor(seeds.uniform(0.5, 1.5, g.shape), dtype=dtype, device=device) for g in linked]
    second = volta.autograd.grad(linked, leaves + weights, again, allow_unused=True) if linked else ()
    return first, second


@pytest.mark.parametrize("op, case", differentiable_cases(DIFFERENTIABLE))
def test_derivatives_in_float32(op, case, device, rng):
    """First and second derivatives in float32 against those in float64 on the CPU, which finite differences confirm."""
    arrays = table.sample(op, case, rng, volta.float32)
    seed = int(rng.integers(1 << 30))
    found = derivatives(op, case, arrays, np.random.default_rng(seed), volta.float32, device)
    exact = derivatives(op, case, arrays, np.random.default_rng(seed), volta.float64, "cpu")
    for order, (ours, theirs) in enumerate(zip(found, exact), 1):
        assert len(ours) == len(theirs)
        for i, (a, b) in enumerate(zip(ours, theirs)):
            assert (a is None) == (b is None)
            if a is not None:
                msg = f"{op.name} on {device}: derivative of order {order} for input {i}"
                assert a.dtype is volta.float32 and a.device == volta.device(device), msg
                # a derivative is a chain of a few ops, each within the op's tolerance
                table.check(a, b.detach().numpy(), 10 * op.details.rtol, msg, table.magnitude(arrays))


@pytest.mark.parametrize("op, case", table.cases(FUSED))
def test_fused_equals_its_reference(op, case, device, rng):
    arrays = table.sample(op, case, rng, volta.float32)
    tensors = table.to_device(arrays, device)
    fused = table.run(op, tensors, case.params, device)
    composed = op.reference(*tensors, **case.params)
    for a, b in zip(fused, composed if isinstance(composed, tuple) else (composed,)):
        table.check(a, b.numpy().astype(np.float64), 10 * op.details.rtol, f"{op.name} on {device}", table.magnitude(arrays))
