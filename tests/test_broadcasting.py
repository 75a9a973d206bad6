"""Broadcasting and promotion: Hypothesis against NumPy, and PyTorch's table."""
import hypothesis
import numpy as np
import pytest
import strategies
from hypothesis import strategies as st

import volta
from volta.errors import ShapeError


# ---------------------------------------------------------------- broadcasting
@hypothesis.given(data=st.data())
def test_broadcasting(data, device):
    a, b, c = (strategies.distinct(s) + 1 for s in data.draw(strategies.broadcasting(3)))
    x, y, z = (volta.tensor(v, device=device) for v in (a, b, c))
    np.testing.assert_array_equal((x + y).numpy(), a + b)
    np.testing.assert_array_equal((x < y).numpy(), a < b)
    np.testing.assert_array_equal(volta.where(x > y, z, y).numpy(), np.where(a > b, c, b))
    np.testing.assert_allclose(volta.mulacc(x, y, z).numpy(), a * b + c, rtol=1e-6)
    assert volta.shapes.broadcast_shapes(a.shape, b.shape, c.shape) == np.broadcast_shapes(a.shape, b.shape, c.shape)


@hypothesis.given(data=st.data())
def test_broadcasting_gradients(data, device):
    """Each input's gradient is the sum over what it was repeated to."""
    a, b = (strategies.distinct(s) + 1 for s in data.draw(strategies.broadcasting(2)))
    x, y = (volta.tensor(v, device=device, requires_grad=True) for v in (a, b))
    (x * y).sum().backward()
    full = np.broadcast_shapes(a.shape, b.shape)
    for leaf, other in ((x, b), (y, a)):
        wide = np.broadcast_to(other, full)
        lead = len(full) - len(leaf.shape)
        axes = tuple(i for i in range(len(full)) if i < lead or leaf.shape[i - lead] == 1)
        assert leaf.grad.shape == leaf.shape
        np.testing.assert_allclose(leaf.grad.numpy(), wide.sum(axes, dtype=np.float64).reshape(leaf.shape), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [511, 512, 1029, 4099, 8192, 16400])
def test_a_row_beside_many_rows(width, dtype, rng):
    """Rows of many megabytes have a loop of their own on the CPU, for whole groups of vectors; what lies around is left alone."""
    rows = (1 << 23) // (width * np.dtype(dtype).itemsize) + 1
    a, row = rng.standard_normal((rows, width + 3)).astype(dtype), rng.standard_normal(width).astype(dtype)
    x, y, out = volta.tensor(a), volta.tensor(row), volta.zeros(rows, width + 3, dtype=getattr(volta, dtype))
    for name in ("add", "sub", "mul", "div"):
        into = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
        np.testing.assert_array_equal(getattr(volta, name)(x[:, 1:-2], y).numpy(), into(a[:, 1:-2], row))
        np.testing.assert_array_equal(getattr(volta, name)(y, x[:, 2:-1]).numpy(), into(row, a[:, 2:-1]))
        getattr(volta, name)(x[:, 3:], y, out=out[:, 1:-2])
        np.testing.assert_array_equal(out.numpy(), np.pad(into(a[:, 3:], row), ((0, 0), (1, 2))))
        getattr(out[:, 1:-2], f"{name}_")(y)
        np.testing.assert_array_equal(out.numpy(), np.pad(into(into(a[:, 3:], row), row), ((0, 0), (1, 2))))


@hypothesis.given(a=strategies.shapes(), b=strategies.shapes())
def test_shapes_that_do_not_broadcast(a, b):
    x, y = volta.zeros(a), volta.zeros(b)
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="add: shapes .* do not broadcast"):
            x + y
    else:
        assert (x + y).shape == expected


@hypothesis.given(data=st.data())
def test_matmul(data, device):
    lead_a, lead_b = data.draw(strategies.broadcasting(2))
    m, k, n = (data.draw(strategies.SIZES) for _ in range(3))
    forms = data.draw(st.sampled_from(["mm", "vm", "mv", "vv"]))
    a_shape = (k,) if forms[0] == "v" else (*lead_a[-3:], m, k)
    b_shape = (k,) if forms[1] == "v" else (*lead_b[-3:], k, n)
    random = np.random.default_rng(m + 10 * k + 100 * n)
    a, b = random.normal(size=a_shape).astype(np.float32), random.normal(size=b_shape).astype(np.float32)
    found = volta.tensor(a, device=device) @ volta.tensor(b, device=device)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- promotion
NAMES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]
# PyTorch's table for dimensioned tensors: row by column, above the diagonal.
TABLE = {("bool", n): n for n in NAMES} | {("uint8", n): n for n in NAMES[1:]} | {("int32", n): n for n in NAMES[2:]} | {
    ("int64", n): n for n in NAMES[3:]} | {("float16", n): n for n in NAMES[4:]} | {("float32", n): n for n in NAMES[5:]} | {
    ("float64", "float64"): "float64"}


@pytest.mark.parametrize("pair", TABLE, ids="-".join)
def test_promotion(pair):
    a, b = (getattr(volta, n) for n in pair)
    expected = getattr(volta, TABLE[pair])
    assert volta.promote_types(a, b) is volta.promote_types(b, a) is expected
    x, y = volta.ones(2, dtype=a), volta.ones(2, dtype=b)
    assert volta.result_type(x, y) is expected
    for found in (x + y, y + x, volta.where(volta.tensor([True, False]), x, y), volta.cat([x, y])):
        assert found.dtype is expected and found.tolist()[0] in (1, 2, True)
    assert (x / y).dtype is (expected if expected.is_floating_point else volta.float32)
    assert (x == y).dtype is volta.bool


@pytest.mark.parametrize("tensor, other, expected", [
    # (dtype and rank of the tensor, a number or the dtype of a 0-d tensor, result), as in PyTorch
    (("int32", 1), 2, "int32"), (("int32", 1), 2.5, "float32"), (("uint8", 1), 300, "uint8"), (("bool", 1), 1, "int64"),
    (("bool", 1), True, "bool"),
    (("float16", 1), 2.5, "float16"), (("float64", 1), 2.5, "float64"), (("int64", 1), True, "int64"),
    (("int32", 1), "int64", "int32"),
    (("float32", 1), "float64", "float32"), (("int64", 1), "float64", "float64"), (("float16", 1), "int64", "float16"),
    (("int32", 0), 2.5, "float32"), (("float32", 0), "float64", "float64"), (("int32", 0), "int64", "int64"),
    (("bool", 1), "uint8", "uint8")])
def test_promotion_with_numbers_and_scalars(tensor, other, expected):
    name, rank = tensor
    x = volta.ones((3,) * rank, dtype=getattr(volta, name))
    y = volta.ones((), dtype=getattr(volta, other)) if isinstance(other, str) else other
    assert volta.result_type(x, y) is getattr(volta, expected)
    if not (name == "uint8" and other == 300):
        assert (x * y).dtype is (y * x).dtype is getattr(volta, expected)


def test_promotion_on_the_device(device):
    x, y = volta.arange(3, device=device), volta.full((3,), 0.5, device=device)
    b = volta.tensor([True, False, True], device=device)
    assert (x + y).tolist() == [0.5, 1.5, 2.5] and (x * b).tolist() == [0, 0, 2] and (x * b).dtype is volta.int64
    assert (b + b).dtype is volta.bool and (b.sum()).item() == 2 and (x / 2).tolist() == [0.0, 0.5, 1.0]
    assert (x.int() * 2).dtype is volta.int32 and (y * 2).dtype is volta.float32 and (x > 0.5).tolist() == [False, True, True]


def test_a_fraction_is_true_in_a_bool_tensor(device):
    x, mask = volta.tensor([False, False], device=device), volta.tensor([True, False], device=device)
    x[mask] = 0.5
    assert x.tolist() == [True, False]
