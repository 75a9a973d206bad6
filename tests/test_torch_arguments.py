"""Numbers and arguments that PyTorch refuses, and those that it takes though they are not quite what they should be."""
import math

import pytest

import volta
from volta.errors import ArgumentError, DTypeError, ShapeError

F = volta.nn.functional


# ---------------------------------------------------------------- numbers that are to be held
STORED = {"full": lambda x, v: volta.full((2,), v, dtype=x.dtype, device=x.device), "full_like": volta.full_like,
          "fill_": lambda x, v: x.fill_(v),
          "fill_diagonal_": lambda x, v: volta.stack((x, x)).fill_diagonal_(v), "pad": lambda x, v: F.pad(x, (1, 1), value=v),
          "masked_fill": lambda x, v: x.masked_fill(x == 0, v), "masked_fill_": lambda x, v: x.masked_fill_(x == 0, v),
          "index_fill": lambda x, v: x.index_fill(0, volta.tensor([0], device=x.device), v),
          "scatter": lambda x, v: x.scatter(0, volta.tensor([0], device=x.device), v)}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("dtype, value", [(volta.float16, 1e10), (volta.float16, -70000), (volta.bfloat16, 1e39), (volta.float32, -1e39)])
def test_finite_numbers_beyond_a_dtype_are_not_stored(name, dtype, value, device):
    x = volta.zeros(2, dtype=dtype, device="cpu" if dtype is volta.bfloat16 else device)       # of which a GPU has none
    with pytest.raises(ArgumentError, match="does not fit into|number"):
        STORED[name](x, value)
    STORED[name](x, -math.inf), STORED[name](x, math.nan), STORED[name](x, 65504), STORED[name](x, None if name == "pad" else 1.5)


@pytest.mark.parametrize("fill", [lambda x, v: x.masked_fill(x > 0, v), lambda x, v: x.masked_fill_(x > 0, v),
                                  lambda x, v: x.index_fill(0, volta.tensor([0]), v), lambda x, v: x.index_fill_(0, volta.tensor([0]), v)])
def test_numbers_in_tensors_fit_or_are_refused(fill):
    x = volta.tensor([1, 0], dtype=volta.uint8)
    for value in (300, -5.5, math.nan, 2 ** 40):
        with pytest.raises(ArgumentError, match="fit into|cannot hold"):
            fill(x, volta.tensor(value))
    assert fill(x, volta.tensor(2.7)).tolist() == [2, 0] and fill(x.bool(), volta.tensor(0.5)).tolist() == [True, False]
    with pytest.raises(ArgumentError, match="fit into volta.float16"):
        fill(volta.ones(2).half(), volta.tensor(1e6))
    value = volta.tensor(3.0, dtype=volta.float64, requires_grad=True)
    assert volta.autograd.grad(volta.ones(2).masked_fill(volta.tensor([True, True]), value).sum(), value)[0].item() == 2.0


@pytest.mark.parametrize("value, dtype", [(math.nan, volta.int64), (1e20, volta.int32), (-math.inf, volta.int8), (-0.5, volta.uint8),
                                          (127.5, volta.int8)])
def test_tensors_of_integers_are_not_made_of_what_does_not_fit(value, dtype):
    with pytest.raises(DTypeError, match="does not fit into"):
        volta.tensor([0.0, value], dtype=dtype)
    assert volta.tensor([1.5, -1.5], dtype=volta.int32).tolist() == [1, -1] and volta.tensor(2.0 ** 62, dtype=volta.int64).item() == 1 << 62


# ---------------------------------------------------------------- arguments
def test_bools_among_sizes():
    """All but the first one may be bools, which PyTorch does not look at."""
    x = volta.ones(2, 3)
    assert volta.ones((2, True)).shape == volta.ones(2, True).shape == x[:, :1].expand(2, True).shape == (2, 1)
    assert x.sum((0, True)).tolist() == 6.0 and x.flip((0, True)).shape == (2, 3)
    for call in (lambda: volta.ones((True, 2)), lambda: volta.ones(True, 2), lambda: x.sum((True, 0)), lambda: x.reshape((True, 6))):
        with pytest.raises(TypeError):
            call()


def test_flags_that_only_need_to_be_true():
    x = volta.tensor([[-1.0, 2.0]])
    assert F.relu(x, 1) is x and x.tolist() == [[0.0, 2.0]] and F.relu(x, None) is not x
    assert len(F.max_pool1d(x, 1, return_indices=1)) == 2 and F.mse_loss(x, x + 1, 0).item() == 2.0
    assert not volta.ones(2, requires_grad=None).requires_grad and not volta.zeros_like(x, requires_grad=None).requires_grad
    with pytest.raises(DTypeError, match="keepdim must be True or False"):
        x.sum(0, 1)


# ---------------------------------------------------------------- sizes of networks' functions
@pytest.mark.parametrize("name, rank", [(f"conv{kind}{rank}d", rank) for kind in ("", "_transpose") for rank in (1, 2, 3)])
def test_convolutions_need_a_weight(name, rank, device):
    for inputs in (0, 3):
        with pytest.raises(ShapeError, match="at least 1 in dimension 0|channels"):
            getattr(F, name)(volta.ones(1, inputs, *(4,) * rank, device=device), volta.ones(0, inputs, *(2,) * rank, device=device))


def test_sizes_of_images_are_one_number_or_all():
    for size in ((3,), [3], (3, 3, 3), ()):
        with pytest.raises(ArgumentError, match="size must be an int or 2 ints"):
            F.interpolate(volta.ones(1, 1, 4, 4), size=size)
    assert F.interpolate(volta.ones(1, 1, 4), size=(3,)).shape == (1, 1, 3)
    assert F.interpolate(volta.ones(1, 1, 4, 4), size=3).shape == F.interpolate(volta.ones(1, 1, 4, 4), size=[3, 3]).shape
