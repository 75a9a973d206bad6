"""How tensors print: PyTorch's text, character for character, but for the device's name and grad_fn."""
import pytest

import volta

CASES = [
    (lambda t: t([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda t: t([1.5, -2.25]), "tensor([ 1.5000, -2.2500])"),
    (lambda t: t(3.14159), "tensor(3.1416)"),
    (lambda t: t(7), "tensor(7)"),
    (lambda t: t(True), "tensor(True)"),
    (lambda t: t([[1, 20], [300, 4]]), "tensor([[  1,  20],\n        [300,   4]])"),
    (lambda t: t([True, False]), "tensor([ True, False])"),
    (lambda t: t([-1, 10]), "tensor([-1, 10])"),
    (lambda t: t([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda t: t([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
    (lambda t: t([0.0002, 0.05]), "tensor([0.0002, 0.0500])"),
    (lambda t: t([1.0, 2000.0]), "tensor([1.0000e+00, 2.0000e+03])"),
    (lambda t: t([0.0, -0.0]), "tensor([0., -0.])"),
    (lambda t: t([True, True]), "tensor([True, True])"),
    (lambda t: volta.zeros(0, dtype=volta.int64), "tensor([], dtype=volta.int64)"),
    (lambda t: t([1.0, float("nan"), float("inf")]), "tensor([1., nan, inf])"),
    (lambda t: t([1.5, float("nan"), -float("inf")]), "tensor([1.5000,    nan,   -inf])"),
    (lambda t: t([float("nan")]), "tensor([nan])"),
    (lambda t: t([]), "tensor([])"),
    (lambda t: volta.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda t: volta.zeros(2, dtype=volta.int32), "tensor([0, 0], dtype=volta.int32)"),
    (lambda t: volta.zeros(1, dtype=volta.float64), "tensor([0.], dtype=volta.float64)"),
    (lambda t: volta.zeros(1, dtype=volta.uint8), "tensor([0], dtype=volta.uint8)"),
    (lambda t: t([0.5, 1.0], dtype=volta.float16), "tensor([0.5000, 1.0000], dtype=volta.float16)"),
    (lambda t: t([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda t: t([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    (lambda t: volta.arange(12).reshape(3, 4).t()[1:3], "tensor([[ 1,  5,  9],\n        [ 2,  6, 10]])"),
    (lambda t: volta.zeros(2, 1, 2), "tensor([[[0., 0.]],\n\n        [[0., 0.]]])"),
]


@pytest.mark.parametrize("make, text", CASES, ids=[text.replace("\n", "") for _, text in CASES])
def test_text(make, text):
    assert repr(make(volta.tensor)) == text == str(make(volta.tensor))


def test_long_tensors_are_summarised():
    assert repr(volta.arange(2000)) == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"
    rows = repr(volta.zeros(200, 30)).splitlines()
    assert rows[0] == "tensor([[0., 0., 0.,  ..., 0., 0., 0.]," and rows[3] == "        ...," and len(rows) == 7


def test_wide_tensors_wrap():
    lines = repr(volta.arange(40)).splitlines()
    assert len(lines) > 1 and all(len(line) <= 80 for line in lines) and all(line.startswith("        ") for line in lines[1:])


def test_device_is_shown(gpu):
    assert repr(volta.ones(2, device=gpu)) == "tensor([1., 1.], device='gpu:0')"
    assert repr(volta.tensor(1.5, device=gpu, requires_grad=True)) == "tensor(1.5000, device='gpu:0', requires_grad=True)"


def test_options():
    from volta.printing import _options
    before = dict(_options)
    try:
        volta.set_printoptions(precision=2)
        assert repr(volta.tensor([1.23456])) == "tensor([1.23])"
        volta.set_printoptions(threshold=5, edgeitems=1)
        assert repr(volta.arange(10)) == "tensor([0,  ..., 9])"
    finally:
        volta.set_printoptions(**before)


@pytest.mark.parametrize("options", [
    {"sci_mode": False}, {"sci_mode": True}, {"precision": 2, "sci_mode": False}, {"profile": "short"}, {"profile": "full"},
    {"profile": "short", "precision": 6}, {"threshold": float("inf")}, {"linewidth": 40, "edgeitems": 2, "threshold": 10}], ids=str)
def test_options_against_torch(options):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    values = [[1e-7, 1.0], [0.0, 0.0], [1.0, 2e9], [1e10], [0.1, float("nan"), -1e5], [float("inf"), 3.0], list(range(30)),
              [i / 7 for i in range(1200)], [[i / 3.0 for i in range(40)]] * 40]
    try:
        for lib in (torch, volta):
            lib.set_printoptions(**options)
        found = [[repr(lib.tensor(v)) for v in values] for lib in (torch, volta)]
    finally:
        for lib in (torch, volta):
            lib.set_printoptions(profile="default")
    assert found[0] == found[1]
    assert repr(volta.tensor([1e-7, 1.0])) == repr(torch.tensor([1e-7, 1.0]))


def test_bad_profile():
    with pytest.raises(volta.errors.ArgumentError, match="'default', 'short' or 'full'"):
        volta.set_printoptions(profile="long")


def test_format():
    assert f"{volta.tensor(2.5):.1f}" == f"{volta.tensor(2.5, requires_grad=True)}" == "2.5" and f"{volta.tensor([1.0])}" == "tensor([1.])"
    assert f"{volta.nn.Parameter(volta.tensor(2.5))}".startswith("Parameter containing:")
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{volta.tensor([1.0]):.1f}"


def test_a_huge_expanded_tensor_is_summarised():
    assert repr(volta.ones(1).expand(10 ** 12)) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"
