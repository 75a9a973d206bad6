"""volta.testing against torch.testing and torch.autograd.gradcheck."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, DTypeError
from volta.testing import GradcheckError, assert_allclose, assert_close, gradcheck, gradgradcheck, make_tensor

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
NAN = float("nan")


def comparisons(m):
    x, y = m.ones(2), m.ones(2, 2)
    return [
        (1, 1.0), (1, 1.0, {"check_dtype": False}), (1.0, 1.0 + 1e-9), (1.0, 1.0 + 1e-6), ("a", "a"), (None, None), (None, 1), ({1}, {1}),
        (np.ones(2), np.ones(2)), (np.ones(2), np.zeros(2)), (x, x.double()), (x, x.double(), {"check_dtype": False}), ([x, 1], [x, 1]),
        ([x], [x, x]), ({"a": x}, {"a": x + 1}), ({"a": 1}, {"b": 1}), (x, x + 1, {"rtol": 1, "atol": 0}), (x, x, {"rtol": 1}),
        (y.t(), y, {"check_stride": True}), (y.t(), y), (m.tensor([NAN]), m.tensor([NAN])), (NAN, NAN), (NAN, NAN, {"equal_nan": True}),
        (x.int(), x.int() + 1), (x.int(), x.long(), {"check_dtype": False}), (x.int(), x.int() + 1, {"rtol": 0, "atol": 1}),
        (x.half(), x.half() * 1.0009), (x.half(), x * 1.0009, {"check_dtype": False}), (x * 1.0009, x.half(), {"check_dtype": False}),
        (x.bfloat16(), x.bfloat16() * 1.01), (m.tensor([1.0]), m.tensor(1.0)), (m.nn.Parameter(x), x), ((x,), [x]), (1j, 1j), (1j, 2j),
        (m.nn.Parameter(x), x, {"allow_subclasses": False}), (x.bool(), x.bool()), (x.bool(), ~x.bool()), (1, 2, {"rtol": 0, "atol": 1}),
        ([1, [x, {"k": x + 1}]], [1, [x, {"k": x}]]), (m.ones(0), m.ones(0)), (x.to_sparse(), x), (float("inf"), float("inf")),
        (x.to_sparse(), x.to_sparse() * 2), (x.to_sparse(), x, {"check_layout": False}), (x, x + 1e-5), (x, x + 1e-4)]


def outcome(compare, actual, expected, options=()):
    try:
        compare(actual, expected, **dict(options))
    except (AssertionError, TypeError, ValueError) as error:
        return next(kind for kind in (AssertionError, TypeError, ValueError) if isinstance(error, kind))
    return None


def test_what_is_close():
    for ours, theirs in zip(comparisons(volta), comparisons(torch)):
        assert outcome(assert_close, *ours) is outcome(torch.testing.assert_close, *theirs), theirs


def test_reports():
    x = volta.ones(2)
    for actual, expected, options, text in (
            ({"a": [x]}, {"a": [x + 1]}, {}, r"^item \['a'\]\[0\]: 2 of 2 elements differ \(shape \(2,\), rtol 1.3e-06, atol 1e-05\)"),
            ([x], [x, x], {}, "^lengths differ: 1, expected 2$"), ({"a": 1}, {"b": 1}, {}, "keys differ: missing .'b'., unexpected .'a'."),
            (x, x.double(), {}, "^dtypes differ: volta.float32, expected volta.float64$"),
            (1, 1.0, {}, "^types differ: int, expected float$"),
            (x, x + 1, {"msg": "mine"}, "^mine$"), (x, x + 1, {"msg": lambda text: f"<{text[:6]}>"}, "^<2 of 2>$"),
            (None, 1, {}, "^None, expected int$")):
        with pytest.raises(AssertionError, match=text):
            assert_close(actual, expected, **options)
    with pytest.raises(DTypeError, match="assert_close: item .0.: cannot compare str with str; give tensors"):
        assert_close(["a"], ["a"])


def test_devices_differ(device):
    x = volta.ones(2, device=device)
    assert_close(x, volta.ones(2), check_device=False)
    assert_allclose(x, [1.0, 1.0])
    if device != "cpu":
        with pytest.raises(AssertionError, match="devices differ: gpu, expected cpu"):
            assert_close(x, volta.ones(2))
    with pytest.raises(AssertionError):
        assert_allclose(x, [1.0, 2.0])


def made(m):
    make, found = m.testing.make_tensor, []
    for options in ({"dtype": m.float32}, {"dtype": m.int64}, {"dtype": m.bool}, {"dtype": m.uint8, "low": -5},
                    {"dtype": m.int8, "high": 1000}, {"dtype": m.float64, "noncontiguous": True},
                    {"dtype": m.float32, "low": 2, "high": 3, "requires_grad": True},
                    {"dtype": m.int32, "low": 0.5, "high": 2.5, "exclude_zero": True}):
        x = make((40, 50), device="cpu", **options)
        low, high = x.min().item() // 1, x.max().item() // 1
        found.append((tuple(x.shape), x.stride(), x.storage_offset(), str(x.dtype)[6:], x.requires_grad, low, high))
    found.append(tuple(make(2, 3, dtype=m.float32, device="cpu").shape) + tuple(make((), dtype=m.float32, device="cpu").shape))
    for options in ({"dtype": m.int32, "requires_grad": True}, {"dtype": m.float32, "low": 3, "high": 2}, {"dtype": m.float32, "low": NAN},
                    {"dtype": m.uint8, "low": -5, "high": -1}, {"dtype": m.uint8, "low": 300, "high": 400},
                    {"dtype": m.float32, "noncontiguous": True, "memory_format": m.contiguous_format}):
        with pytest.raises(ValueError):
            make((2,), device="cpu", **options)
    return found


def test_made_tensors(device):
    volta.manual_seed(0)
    torch.manual_seed(0)
    assert made(volta) == made(torch)
    x = make_tensor(30, dtype=volta.float32, device=device, low=0, high=1e-38, exclude_zero=True)
    assert x.device.type == device and bool((x > 0).all())


@pytest.mark.parametrize("library", [volta, torch], ids=["volta", "torch"])
def test_options_of_gradcheck(library):
    class Wrong(library.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    first, second = library.autograd.gradcheck, library.autograd.gradgradcheck
    x = library.tensor([1.0, 2.0], dtype=library.float64, requires_grad=True)
    assert first(lambda x: x * x, x) and first(func=lambda x: x * x, inputs=(x,), eps=1e-6, fast_mode=True, check_grad_dtypes=True)
    assert second(lambda x: x * x * x, x) and second(lambda x: x * x * x, (x,), library.ones(2, dtype=library.float64, requires_grad=True))
    assert first(Wrong.apply, (x,), raise_exception=False) is False
    with pytest.raises(RuntimeError):
        first(Wrong.apply, (x,))


@pytest.mark.parametrize("size, message", [(1000, "input 0: .*shape \\(256,\\)"), (200, "input 0: .*\\(123,\\)")])
def test_fast_mode_sees_one_wrong_element(size, message):
    class Wrong(volta.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * volta.tensor([2.2 if i == 123 else 2.0 for i in range(size)], dtype=g.dtype)

    x = volta.linspace(-1, 1, size, dtype=volta.float64, requires_grad=True)
    assert gradcheck(volta.sin, x, fast_mode=True) and gradgradcheck(volta.sin, x, fast_mode=True)
    with pytest.raises(AssertionError, match=message):
        gradcheck(Wrong.apply, x, fast_mode=True)


def test_what_gradcheck_refuses():
    x = volta.tensor([1.0], dtype=volta.float64, requires_grad=True)
    for check, option in ((gradcheck, "check_forward_ad"), (gradcheck, "check_batched_grad"), (gradgradcheck, "check_fwd_over_rev")):
        with pytest.raises(ArgumentError, match=f"{check.__name__}: {option}=True is not supported"):
            check(volta.exp, x, **{option: True})
    with pytest.raises(TypeError, match="unexpected keyword argument 'tolerance'"):
        gradcheck(volta.exp, x, tolerance=1)

    class Counting(volta.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            Counting.calls += 1
            return g * (1 + 1e-6 * Counting.calls)

    with pytest.raises(GradcheckError, match="gradcheck: a second backward pass gives input 0 another gradient; nondet_tol is 0"):
        gradcheck(Counting.apply, x)
    assert gradcheck(Counting.apply, x, nondet_tol=1e-3)
