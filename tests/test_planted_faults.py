"""The checks of volta/selftest/checks.py notice faults: each op here has one, and the check that is to find it must fail."""
import numpy as np
import pytest
from volta._kernels.core.inplace import InPlace

import volta
from volta._kernels.core.record import Composed
from volta.ops.table import Details, Many, case
from volta.selftest import checks

ONE, TWO, LIST = (case((3, 4)), case(())), (case((3, 4), (4,)),), (case(Many(((2, 3), (2, 3)))),)


def op(function, numpy, *, cases=ONE, kinds="f", **options):
    return Composed(function.__name__, function, details=Details(
        numpy=numpy, domain=(0.5, 2.0), cases=cases, kinds=kinds, rtol=1e-5, smooth=True, **options))


def square(x):
    return x * x


def test_what_is_right_passes(device, rng):
    good = op(square, np.square)
    for each in good.details.cases:
        for dtype in checks.dtypes_of(good, device):
            checks.forward(good, each, device, dtype, rng)
        checks.finite_differences(good, each, rng)
        checks.derivatives_in_float32(good, each, device, rng)
        checks.layouts(good, each, device, rng)
        checks.in_place(InPlace("square_", good), good, each, device, rng)
        checks.refused_in_place(InPlace("square_", good), good, each, device, rng)
        if device == "gpu":
            checks.no_transfers(good, each, device, rng)


def test_every_case_that_fails_is_named(each):
    """The others run all the same, each with random numbers of its own."""
    seen = {}

    def check(case, dtype):
        seen[case, dtype] = volta.rand(()).item(), np.random.rand()
        if case is ONE[1]:
            with pytest.raises(ValueError):
                assert dtype is volta.int32
    with pytest.raises(BaseExceptionGroup) as caught:
        each(check, ONE, (volta.float32, volta.int32))
    assert "fails of 1: Case(((),), {}), 0: volta.float32; 1: Case(((),), {}), 1: volta.int32" in str(caught.value)
    assert [type(error) for error in caught.value.exceptions] == [AssertionError, pytest.fail.Exception]
    assert len(seen) == 4 and len(set(seen.values())) == 4


def stacked(tensors):
    return volta.stack(tensors), tensors[0] * 2


def test_lists_of_tensors_and_several_results(device, rng):
    good = op(stacked, lambda xs: (np.stack(xs), xs[0] * 2), cases=LIST)
    checks.forward(good, LIST[0], device, volta.float32, rng)
    checks.finite_differences(good, LIST[0], rng)
    checks.derivatives_in_float32(good, LIST[0], device, rng)
    checks.layouts(good, LIST[0], device, rng)
    wrong = op(lambda xs: (volta.stack(xs), xs[1] * 2), good.details.numpy, cases=LIST)
    with pytest.raises(AssertionError, match="elements differ"):
        checks.forward(wrong, LIST[0], device, volta.float32, rng)
    short = op(lambda xs: volta.stack(xs), good.details.numpy, cases=LIST)
    with pytest.raises(AssertionError, match="1 results, expected 2"):
        checks.forward(short, LIST[0], device, volta.float32, rng)


@pytest.mark.parametrize("function", [lambda x: x.detach() * x, lambda x: volta.where(x.detach() > 0, x * x.detach() * 1.0, x)])
def test_a_wrong_gradient(function, rng):
    with pytest.raises(volta.testing.GradcheckError):
        checks.finite_differences(op(function, np.square), ONE[0], rng)


def test_a_wrong_second_derivative(rng):
    class Square(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].detach() * 2

    with pytest.raises(volta.testing.GradcheckError):
        checks.finite_differences(op(lambda x: Square.apply(x), np.square), ONE[0], rng)


@pytest.mark.parametrize("function, dtype", [
    (lambda x: (x * x).to(volta.float32), volta.float64), (lambda x: (x * x).float(), volta.float16), (square, volta.int32)])
def test_a_wrong_dtype(function, dtype, rng):
    with pytest.raises(AssertionError, match="expected"):
        checks.forward(op(function, lambda x: x * x * 1.0, kinds="fi"), ONE[0], "cpu", dtype, rng)


def test_computed_in_float64_only(gpu, rng):
    through = op(lambda x: (x.double() ** 2).float(), np.square)
    with pytest.raises(volta.errors.DTypeError):
        checks.forward(through, ONE[0], gpu, volta.float32, rng)


def test_a_step_in_float32_of_float64(rng):
    with pytest.raises(AssertionError, match="elements differ"):
        checks.forward(op(lambda x: (x.float() ** 2).to(x.dtype), np.square), ONE[0], "cpu", volta.float64, rng)


def test_a_round_trip_to_the_host(gpu, rng):
    through = op(lambda x: volta.tensor(x.detach().numpy() ** 2, device=x.device), np.square)
    checks.forward(through, ONE[0], gpu, volta.float32, rng)
    with pytest.raises(volta.errors.VoltaError, match="forbid_transfers"):
        checks.no_transfers(through, ONE[0], gpu, rng)
    reading = op(lambda x: x * x.detach().sum().item(), np.square)
    with pytest.raises(volta.errors.VoltaError, match="forbid_transfers"):
        checks.no_transfers(reading, ONE[0], gpu, rng)


def test_strides_that_are_not_looked_at(rng):
    def first(x):
        return volta.tensor(x.numpy().ravel("K").reshape(x.shape))
    with pytest.raises(AssertionError, match="elements differ"):
        checks.layouts(op(first, np.array), ONE[0], "cpu", rng)


def test_no_broadcasting(device, rng):
    def added(x, y):
        return x + (y if y.shape == x.shape[-1:] else y.reshape(x.shape))
    faulty = op(added, np.add, cases=TWO)
    checks.forward(faulty, TWO[0], device, volta.float32, rng)
    with pytest.raises(volta.errors.VoltaError):
        checks.broadcasts(faulty, TWO[0], device, rng)


def test_a_view_that_copies(device, rng):
    with pytest.raises(AssertionError, match="copies"):
        checks.shares_storage(op(lambda x: x.t().contiguous(), np.transpose, view=True), ONE[0], device, rng)


def test_in_place_forms(device, rng):
    good = op(square, np.square)

    class Elsewhere:                                    # the form of a faulty implementation
        name = "square_"

        def __init__(self, function):
            self.function = function

        def __call__(self, x, *args):
            return self.function(x)

    def twice(x):
        return x.mul_(x).add_(0.0)

    def half(x):
        return x.copy_(x.detach().clone() * x.clone())

    def nothing(x):
        return x * x

    for function in (twice, half, nothing, lambda x: x.add_(1.0)):
        with pytest.raises(AssertionError):
            checks.in_place(Elsewhere(function), good, ONE[0], device, rng)
    with pytest.raises(AssertionError, match="takes what .* refuses"):
        checks.refused_in_place(Elsewhere(lambda x: x), op(lambda x: x / 2, lambda x: x / 2), ONE[0], device, rng)
