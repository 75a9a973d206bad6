"""What PyTorch does at edges that its own samples, with other sizes, dtypes and arguments, led to: each small, on both devices where it is
no matter of one. `python -m tests.differences` is the program that finds such."""
import numpy as np
import pytest

import volta
import volta.nn.functional as F
import volta.optim
from volta.errors import ArgumentError, DTypeError, OutOfMemoryError, ShapeError


@pytest.mark.parametrize("a, b", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((3, 0), (0,)), ((2, 3, 0), (2, 0, 2)), ((2, 2, 0), (0, 3)),
                                  ((3,), (3, 0))])
def test_products_of_bool_without_elements(device, a, b):
    x, y = volta.ones(a, dtype=volta.bool, device=device), volta.ones(b, dtype=volta.bool, device=device)
    out = x @ y
    expected = np.zeros(a) @ np.zeros(b)
    assert out.dtype is volta.bool and out.shape == expected.shape and not out.any()
    assert volta.tensordot(x, y, 1).shape == np.tensordot(np.zeros(a), np.zeros(b), 1).shape if x.ndim < 3 else True
    with pytest.raises(DTypeError, match="matmul: input must be floating point or integer, got bool"):
        volta.ones(2, 2, dtype=volta.bool, device=device) @ volta.ones(2, 2, dtype=volta.bool, device=device)
    with pytest.raises(DTypeError, match="dot"):
        volta.ones(0, dtype=volta.bool, device=device) @ volta.ones(0, dtype=volta.bool, device=device)


def test_addbmm_in_place_gives_the_size_of_the_product(device):
    x = volta.ones(5, device=device)
    assert x.addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device)) is x
    assert x.shape == (3, 5) and (x == 9).all()
    leaf = volta.ones(5, device=device, requires_grad=True)
    y = leaf * 1
    y.addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device))
    assert volta.autograd.grad(y.sum(), leaf)[0].tolist() == [3.0] * 5
    with pytest.raises(ShapeError, match="does not broadcast"):
        volta.ones(4, device=device).addbmm_(volta.ones(2, 3, 4, device=device), volta.ones(2, 4, 5, device=device))


def test_an_out_that_is_read_too(device):
    x = volta.empty(0, device=device)
    assert volta.cat([x, x], out=x) is x and x.shape == (0,)
    with pytest.raises(ArgumentError, match="cat: out is one of the inputs"):
        volta.cat([x, volta.ones(3, device=device)], out=x)
    assert x.shape == (0,)
    x = volta.ones(3, device=device)
    for op, others in ((volta.add, 1), (volta.clamp_min, 1), (volta.addcmul, 2), (volta.heaviside, 1)):
        with pytest.raises(ShapeError, match="out is one of the inputs"):
            op(x, *[volta.ones(3, 3, device=device)] * others, out=x)
        assert x.shape == (3,)
    volta.add(x, volta.ones(3, device=device), out=x)
    assert x.tolist() == [2.0] * 3


def test_integers_wrap_before_they_meet_halves():
    y, x = volta.tensor([200, 100, 3], dtype=volta.uint8), volta.tensor([1.0, 2.0, 4.0], dtype=volta.float16)
    assert volta.cumulative_trapezoid(y, x).tolist() == [22.0, 125.0]
    assert volta.trapezoid(y, x).item() == 125.0


def test_replication_may_cut_more_than_there_was(device):
    x = volta.arange(4.0, device=device).reshape(1, 1, 4)
    assert F.pad(x, (4, -5), mode="replicate").tolist() == [[[0.0, 0.0, 0.0]]]
    assert F.pad(x, (-5, 4), mode="replicate").tolist() == [[[3.0, 3.0, 3.0]]]
    with pytest.raises(ShapeError, match="cannot extend dimension 2 of size 4"):
        F.pad(x, (-2, -2), mode="replicate")


@pytest.mark.parametrize("half", [volta.float16, volta.bfloat16])
def test_instance_norm_of_halves_takes_weights_of_float32(half):
    x, weight, bias = volta.randn(2, 3, 4), volta.rand(3), volta.rand(3)
    out = F.instance_norm(x.to(half), weight=weight, bias=bias)
    assert out.dtype is half
    expected = F.instance_norm(x.to(half).float(), weight=weight, bias=bias).to(half)
    np.testing.assert_array_equal(out.float().numpy(), expected.float().numpy())


@pytest.mark.parametrize("half", [volta.float16, volta.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_halves_takes_weights_of_float32(half, training):
    x, vectors = volta.randn(4, 3, 5).to(half), [volta.rand(3) + 0.5 for _ in range(4)]
    again = [v.clone() for v in vectors]
    out = F.batch_norm(x, *vectors, training=training)
    expected = F.batch_norm(x.float(), *again, training=training).to(half)
    assert out.dtype is half and volta.equal(out, expected) and volta.equal(vectors[0], again[0])


def test_solutions_of_triangles_take_right_sides_of_any_dtype():
    a = volta.tensor([[2.0, 0.0], [1.0, 4.0]])
    for dtype in (volta.float64, volta.int64, volta.float16):
        out = volta.linalg.solve_triangular(a, volta.tensor([[2.0, 4.0], [8.0, 4.0]]).to(dtype), upper=False)
        assert out.dtype is volta.float32 and out.tolist() == [[1.0, 2.0], [1.75, 0.5]]


@pytest.mark.parametrize("call, error", [
    (lambda x: x.masked_fill_(1.5, volta.tensor(1.0)), TypeError), (lambda x: x.masked_fill_(x > 0, x), RuntimeError),
    (lambda x: volta.manual_seed(1 << 64), ValueError), (lambda x: volta.ones(2, device=-1), RuntimeError),
    (lambda x: volta.optim.Adam([x], foreach=True, fused=True), RuntimeError),
    (lambda x: volta.rrelu(x, 0.1, 0.2, False, volta.Generator()), ValueError)])
def test_arguments_that_are_refused(call, error):
    x = volta.ones(2, 2)
    with pytest.raises(error):
        call(x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("call", [
    lambda flags, x: volta.addcmul(flags, flags, flags), lambda flags, x: flags.geometric_(0.5),
    lambda flags, x: F.pairwise_distance(x, flags),
    lambda flags, x: volta.index_reduce(flags, 0, volta.tensor([0, 1], device=x.device), flags, "amax"),
    lambda flags, x: flags.trace(), lambda flags, x: F.triplet_margin_loss(x, flags, x),
    lambda flags, x: F.multilabel_margin_loss(x.long(), x.long())],
    ids="addcmul geometric pairwise_distance index_reduce trace triplet_margin_loss multilabel_margin_loss".split())
def test_dtypes_that_pytorch_refuses(device, call):
    with pytest.raises(DTypeError, match="bool|int64"):
        call(volta.ones(2, 3, dtype=volta.bool, device=device), volta.ones(2, 3, device=device))


def test_small_edges(device):
    x = volta.tensor(3.0, device=device)
    assert x.H is x and x.t() is not x and x.t().data_ptr() == x.data_ptr()
    assert volta.diff(volta.arange(3, device=device), 0, 100).tolist() == [0, 1, 2]


def test_a_label_beyond_all_sizes():
    with pytest.raises((ShapeError, ArgumentError, OutOfMemoryError)):
        F.one_hot(volta.tensor([2**63 - 1]))


@pytest.mark.parametrize("shape", [(2, 3, 0), (3, 0)])
def test_the_mean_of_nothing_as_one_place(device, shape):
    out = F.adaptive_avg_pool1d(volta.zeros(shape, device=device), 1)
    assert out.shape == (*shape[:-1], 1) and out.isnan().all()
    with pytest.raises(ShapeError, match="only the batch may have a size of 0"):
        F.adaptive_avg_pool1d(volta.zeros(shape, device=device), 2)


def test_what_nothing_is_rolled_along_does_not_matter(device):
    assert volta.roll(volta.ones(0, 2, device=device), 1, 100).shape == (0, 2)
    with pytest.raises(DTypeError, match="no mean of bool"):
        volta.scatter_reduce(volta.ones(2, dtype=volta.bool, device=device), 0, volta.tensor([0], device=device),
                             volta.ones(1, dtype=volta.bool, device=device), "mean")


def test_reflections_and_their_factors_have_one_dtype():
    with pytest.raises(DTypeError, match="the factors must be"):
        volta.ormqr(volta.ones(2, 1), volta.ones(1, dtype=volta.float64), volta.eye(2))


def test_betas_are_two_numbers_or_two_tensors():
    x = [volta.ones(2, requires_grad=True)]
    with pytest.raises(ArgumentError, match="Adam: betas must be two numbers or two tensors"):
        volta.optim.Adam(x, betas=(0.9, volta.tensor(0.99)))
    with pytest.raises(ArgumentError, match="AdamW: lr and betas may be tensors with foreach=True only where capturable"):
        volta.optim.AdamW(x, lr=volta.tensor(0.1), foreach=True)
