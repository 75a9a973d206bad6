"""Few elements combined at places that an index names (core/entries.pyx), against loops of Python's, and what is left to the kernels."""
import numpy as np
import pytest
from volta._kernels.core.entries import combined

import volta
from volta.errors import IndexRangeError

HOW = {"last": lambda a, b: b, "sum": lambda a, b: a + b, "prod": lambda a, b: a * b, "amax": max, "amin": min}
CASES = [((5, 4), 0, (3, 2), (3, 2)), ((5, 4), 1, (2, 6), (4, 7)), ((6,), 0, (9,), (9,)), ((), 0, (), ()), ((), 0, (1,), (1,)),
         ((2, 3, 4), 1, (1, 5, 3), (2, 5, 4)),
         ((3, 4), -1, (3, 1), (3, 1))]


def looped(x, dim, index, source, how):
    out, at, of = np.atleast_1d(x).copy(), np.atleast_1d(index), np.atleast_1d(source)
    for place in np.ndindex(at.shape):
        to = list(place)
        to[dim] = at[place]
        out[tuple(to)] = HOW[how](out[tuple(to)], of[place])
    return out.reshape(x.shape)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shape, dim, places, given", CASES)
def test_against_loops(shape, dim, places, given, how, dtype):
    rng = np.random.default_rng(0)
    x, source = (rng.integers(-4, 5, s).astype(dtype) for s in (shape, given))
    index = rng.integers(0, shape[dim] if shape else 1, places)
    expected, tensors = looped(x, dim, index, source, how), [volta.tensor(np.asarray(a)) for a in (x, index, source)]
    target, at, of = tensors
    found = combined(target, dim, at, of, how, False, False)
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(target.numpy(), x)
    version = target._version
    assert combined(target, dim, at, of, how, True, False) is target and target._version == version + 1
    np.testing.assert_array_equal(target.numpy(), expected)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_slices_and_strides(dim):
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, (3, 4, 5)).astype("float32")
    index = rng.integers(0, x.shape[dim], 6)
    shape = list(x.shape)
    shape[dim] = 6
    source = rng.integers(-4, 5, shape).astype("float32")
    wide = np.broadcast_to(np.moveaxis(np.broadcast_to(index, (*np.delete(shape, dim), 6)), -1, dim), shape)
    strided = volta.tensor(np.ascontiguousarray(source.transpose(2, 1, 0))).permute(2, 1, 0)
    spaced = volta.tensor(np.repeat(index, 2))[::2]
    for how in HOW:
        found = combined(volta.tensor(x), dim, spaced, strided, how, False, True)
        np.testing.assert_array_equal(found.numpy(), looped(x, dim, wide, source, how))


def test_numbers_and_nan():
    x, at = volta.tensor([1.0, 2.0, 3.0]), volta.tensor([1, 1])
    assert combined(x, 0, at, 5, "sum", False, True, True).tolist() == [1.0, 12.0, 3.0]
    assert combined(volta.tensor([1, 2]), 0, at, 3, "last", False, False, True).tolist() == [1, 3]
    assert combined(x, 0, at, 5, "sum", False, True) is None and x.tolist() == [1.0, 2.0, 3.0]
    nan = volta.tensor([float("nan"), 7.0])
    for how in ("amax", "amin"):
        assert volta.isnan(combined(x, 0, at, nan, how, False, False)).tolist() == [False, True, False]


def test_what_is_left_to_the_kernels():
    x, at, source = volta.zeros(3), volta.tensor([1, 2]), volta.ones(2)
    wanting = volta.zeros(3, requires_grad=True)
    assert combined(wanting, 0, at, source, "sum", False, False) is None
    assert combined(x, 0, at, source.double(), "sum", False, False) is None             # another dtype
    assert combined(x, 0, volta.tensor([3]), source, "sum", True, False) is None        # outside
    assert combined(x, 0, at, volta.ones(1), "sum", False, False) is None               # too few
    assert combined(x, 1, at, source, "sum", False, False) is None
    assert combined(x, 0, at, x[:2], "sum", True, False) is None                        # its own memory
    assert combined(volta.zeros(2, 2), 0, at, volta.ones(3, 2), "sum", False, True) is None
    assert x.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(IndexRangeError):
        x.scatter_(0, volta.tensor([3]), 1.0)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32"])
def test_without_the_elements_themselves(dtype):
    kind = getattr(volta, dtype)
    x, at, source = volta.full((2, 3), 5, dtype=kind), volta.tensor([[0, 1], [1, 1]]), volta.tensor([[1, -2], [3, -9]], dtype=kind)
    for reduce, expected in (("amax", [[1, -2, 5], [5, 3, 5]]), ("amin", [[1, -2, 5], [5, -9, 5]]), ("prod", [[1, -2, 5], [5, -27, 5]])):
        assert x.scatter_reduce(1, at, source, reduce, include_self=False).tolist() == expected
    rows = volta.ones(2, 3, dtype=kind) * 2
    assert x.index_reduce(0, at[0][:1], rows[:1], "amin", include_self=False).tolist() == [[2, 2, 2], [5, 5, 5]]
    assert x.index_fill(1, at[0], volta.tensor(7, dtype=kind)).tolist() == [[7, 7, 5]] * 2
    assert combined(x, 0, at[:1], 1 << 40, "last", False, False, True) is None or dtype == "int64"
