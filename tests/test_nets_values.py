"""Values and derivatives of reductions, products, normalisations and losses at the edges: zeros, infinities, empty batches, float16."""
from __future__ import annotations

import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError

INF, NAN = math.inf, math.nan
DTYPES = (volta.bool, volta.uint8, volta.int32, volta.int64, volta.float16, volta.float32)


def same(x, expected):
    np.testing.assert_array_equal(np.asarray(x.detach().cpu()), np.asarray(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sum_and_prod_of_a_dtype(device, dtype):
    for given in DTYPES:
        x = volta.tensor([[3, 1], [1, 100]], device=device).to(given)
        for out, expected in ((x.sum(dtype=dtype), 105), (x.sum(0, dtype=dtype), [4, 101]), (x.prod(dtype=dtype), 300),
                              (volta.prod(x, 1, dtype=dtype), [3, 100]), (x[1, 1].sum(dtype=dtype), 100)):
            assert out.dtype is dtype
            if given is not volta.bool:
                same(out, np.asarray(expected).astype(dtype.name))


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (0, 1, 3)])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_prod_derivatives_with_zeros(device, zeros, dim):
    a = np.array([[2.0, 3.0, 0.5, -1.5, 4.0], [1.0, -2.0, 3.0, 0.0, 0.5]], np.float32)
    a[0, list(zeros)] = 0
    x = volta.tensor(a, device=device, requires_grad=True)
    out = x.prod(dim) if dim is not None else x.prod()
    g, = volta.autograd.grad(out.sum(), x, create_graph=True)
    h, = volta.autograd.grad(g.sum(), x)
    first, second = np.zeros_like(a), np.zeros_like(a)
    groups = {0: [[(0, j), (1, j)] for j in range(5)], 1: [[(i, j) for j in range(5)] for i in range(2)]}
    for group in groups.get(dim, [list(np.ndindex(2, 5))]):
        for p in group:
            first[p] = np.prod([a[q] for q in group if q != p])
            second[p] = sum(np.prod([a[r] for r in group if r not in (p, q)]) for q in group if q != p)
    np.testing.assert_allclose(g.detach().cpu().numpy(), first, rtol=1e-6)
    np.testing.assert_allclose(h.cpu().numpy(), second, rtol=1e-6)


def test_norm_counts_in_the_graph(device):
    x = volta.tensor([[0.0, 2.0, NAN], [INF, 0.0, 0.0]], device=device, requires_grad=True)
    out = x.norm(0, 1)
    same(out, [2, 1])
    out.sum().backward()
    assert x.grad is None
    with pytest.raises(DTypeError, match="norm: needs a floating point"):
        volta.norm(x, dtype=volta.int64)
    with pytest.raises(IndexRangeError, match=r"norm: there is no -1-norm of no elements"):
        volta.ones(0, device=device).norm(-1)


def test_softmax_of_one_number(device):
    x = volta.tensor(INF, device=device, requires_grad=True)
    assert math.isnan(F.softmax(x, 0).item()) and F.softmax(volta.tensor(2.0, device=device), -1).item() == 1
    y = volta.tensor(2.0, device=device, requires_grad=True)
    F.log_softmax(y, 0).backward()
    assert y.grad.item() == 0
    with pytest.raises(IndexRangeError):
        F.softmax(y, 1)


def test_argmax_of_bool(device):
    x = volta.tensor([False, True], device=device)
    with pytest.raises(DTypeError, match="argmax: input must be floating point or integer, got bool"):
        x.argmax()
    values, indices = x.max(0)
    assert values.item() is True and indices.item() == 1


@pytest.mark.parametrize("name, lead", [("addmm", ()), ("baddbmm", (1,))])
def test_products_with_factors(device, name, lead):
    op = getattr(volta, name)
    a = volta.tensor([[1, 2], [3, 4]], device=device).reshape(*lead, 2, 2)
    for options in ({"beta": 1.5}, {"beta": 1, "alpha": 1.9}):
        assert op(a, a, a, **options).dtype is volta.int64
        same(op(a, a, a, **options), np.asarray(a.cpu()) + np.asarray(a.cpu()) @ np.asarray(a.cpu()))
    x = volta.full_like(a, NAN, dtype=volta.float32).requires_grad_()
    out = op(x, a.float(), a.float(), beta=0)
    same(out, np.asarray(a.cpu()) @ np.asarray(a.cpu()))
    out.sum().backward()
    same(x.grad, np.zeros(a.shape))
    with pytest.raises(ShapeError, match=rf"{name}: input .* does not broadcast to the product's shape"):
        op(volta.ones(3, *a.shape, device=device), a.float(), a.float())


def test_float16_gradients(device, rng):
    """Rounded once: the sum over broadcast batches and the steps of baddbmm are taken in float32."""
    def gradients(dtype, call, arrays):
        leaves = [volta.tensor(a.astype(np.float16).astype(np.float32), device=device).to(dtype).requires_grad_() for a in arrays]
        out = call(*leaves)
        g = np.random.default_rng(1).standard_normal(out.shape).astype(np.float16)
        out.backward(volta.tensor(g, device=device).to(dtype))
        return [x.grad.float().cpu().numpy() for x in leaves]
    draw = rng.standard_normal
    for call, arrays in (
            (volta.matmul, [draw(30), draw((40, 30, 50))]), (volta.matmul, [draw((40, 30, 50)), draw(50)]),
            (volta.matmul, [draw((1, 8, 30)), draw((20, 30, 50))]),
            (lambda c, a, b: volta.baddbmm(c, a, b, beta=0.7, alpha=1.3), [draw((1, 50)), draw((20, 40, 30)), draw((20, 30, 50))]),
            (lambda c, a, b: volta.addmm(c, a, b, beta=0.7, alpha=1.3), [draw(50), draw((40, 30)), draw((30, 50))])):
        for a, b in zip(gradients(volta.float16, call, arrays), gradients(volta.float32, call, arrays)):
            np.testing.assert_allclose(a, b, rtol=6e-4, atol=1e-6)      # half a unit in the last place, and subnormals


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4), (2, 3, 0), (0, 3, 2, 2)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_nothing(device, shape, training):
    x = volta.ones(*shape, device=device, requires_grad=True)
    weight, bias = (volta.ones(3, device=device, requires_grad=True) for _ in range(2))
    mean, var = volta.full((3,), 2.0, device=device), volta.full((3,), 5.0, device=device)
    out = F.batch_norm(x, mean, var, weight, bias, training=training)
    assert out.shape == shape
    out.sum().backward()
    assert x.grad.shape == shape
    same(weight.grad, np.zeros(3)), same(bias.grad, np.zeros(3)), same(mean, [2, 2, 2]), same(var, [5, 5, 5])


@pytest.mark.parametrize("row", [[INF, 1.0, 2.0], [INF, INF, 2.0], [INF, -INF, 1.0], [-INF, -INF, -INF], [NAN, 1.0, 2.0]])
@pytest.mark.parametrize("label", [0, 1])
def test_cross_entropy_of_infinite_logits(device, row, label):
    x = volta.tensor([row, [1.0, 2.0, 3.0]], device=device, requires_grad=True)
    losses = F.cross_entropy(x, volta.tensor([label, 0], device=device), reduction="none")
    same(volta.isnan(losses), [True, False])
    losses.sum().backward()
    same(volta.isnan(x.grad), [[True] * 3, [False] * 3])


@pytest.mark.parametrize("options", [{}, {"weight": True}, {"label_smoothing": 0.2}])
def test_ignored_rows_do_not_count(device, options):
    """Whatever they hold, NaN too."""
    x = volta.tensor([[NAN, INF], [-1.0, -2.0]], device=device)
    labels = volta.tensor([1, 0], device=device)
    options = {**options, "weight": volta.ones(2, device=device)} if "weight" in options else options
    for f in (F.cross_entropy, F.nll_loss) if "label_smoothing" not in options else (F.cross_entropy,):
        both, one = (f(x[i:], labels[i:], ignore_index=1, reduction="sum", **options).item() for i in (0, 1))
        assert both == one and math.isfinite(one)


def test_soft_labels(device):
    x, y = volta.ones(2, 3, dtype=volta.float16, device=device), volta.ones(2, 3, device=device)
    assert F.cross_entropy(x, y).dtype is volta.float32
    with pytest.raises(ArgumentError, match="cross_entropy: ignore_index=1 is a label, but the target holds probabilities"):
        F.cross_entropy(y, y, ignore_index=1)
    assert math.isnan(F.cross_entropy(volta.ones(0, 0, device=device), volta.zeros(0, dtype=volta.int64, device=device),
                                      label_smoothing=0.1).item())


def test_binary_cross_entropy_of_infinite_logits(device):
    x = volta.tensor([INF, -INF, INF, -50.0, 50.0, 0.0], device=device, requires_grad=True)
    y = volta.tensor([0.0, 1.0, 0.5, 0.0, 1.0, 1.0], device=device)
    losses = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    np.testing.assert_allclose(losses.detach().cpu().numpy(), [INF, math.nan, INF, math.exp(-50), math.exp(-50), math.log(2)], rtol=1e-5)
    losses.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), [1, -1, 0.5, math.exp(-50), 0, -0.5], rtol=1e-5)     # as in PyTorch


def test_losses_of_two_dtypes(device):
    x, y = volta.tensor([1.0, 300.0], dtype=volta.float16, device=device), volta.zeros(2, device=device)
    for f in (F.mse_loss, F.l1_loss):
        assert f(x, y).dtype is f(y, x).dtype is volta.float32
    for f in (F.huber_loss, F.soft_margin_loss, F.hinge_embedding_loss):            # as the input
        assert f(x, y).dtype is volta.float16 and f(y, x).dtype is volta.float32
    for first, second in ((x, y), (y, x)):
        assert F.binary_cross_entropy_with_logits(first, second).dtype is second.dtype
        with pytest.raises(DTypeError, match="binary_cross_entropy: target must be"):
            F.binary_cross_entropy(first * 0, second)
    assert F.mse_loss(x, x * 0).item() == 44992                     # 90,000 in between is more than float16 holds


def test_max_pool_ends_behind_the_input(device):
    x = volta.arange(12, dtype=volta.float32, device=device).reshape(1, 4, 3)
    assert F.max_pool2d(x, 3, (2, 3), dilation=2, ceil_mode=True).tolist() == [[[8]]]


@pytest.mark.parametrize("options, expected", [
    ({"padding": 1}, [[2, 2, 1], [2, INF, INF], [1, INF, INF]]),
    ({"stride": 1, "dilation": 2, "output_padding": 1}, None)])
def test_transposed_convolutions_multiply_no_zeros_with_infinite_weights(device, options, expected):
    weight = volta.tensor([[[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, INF]]]], device=device)
    out = F.conv_transpose2d(volta.ones(1, 1, 3, 3, device=device), weight, **options)
    assert not np.isnan(np.asarray(out.cpu())).any()
    if expected:
        same(out[0, 0], expected)


@pytest.mark.parametrize("groups, expected", [(1, 32), (24, 4)])
def test_infinite_weights_meet_the_padding_of_convolutions(device, groups, expected):
    """Also where windows lie mostly outside the input, so that their taps would be left out."""
    channels = 8 if groups == 1 else groups
    weight = volta.ones(24, channels // groups, 7, 7)
    weight[3, 0, 0, 0] = INF
    out = np.asarray(F.conv2d(volta.ones(8, channels, 2, 2, device=device), weight.to(device), padding=3, groups=groups).cpu())
    assert np.isnan(out[:, 3]).all() and (np.delete(out, 3, 1) == expected).all()


def test_floats_that_no_integer_holds_become_the_least(device):
    x = volta.tensor([INF, -INF, NAN, 3e9, -3e9, -2.5, 300.0], device=device)
    same(x.to(volta.int32), [-2**31] * 5 + [-2, 300])
    same(x.to(volta.uint8), [0] * 5 + [254, 44])


def test_means_beside_variances_of_infinite_elements(device):
    for row in ([1.0, INF, 2.0], [INF, 1.0, 2.0], [-INF, INF, 1.0]):
        same(volta.var_mean(volta.tensor([row], device=device), 1)[1], [NAN])


def test_triangles_of_any_diagonal(device):
    x = volta.ones(2, 3, device=device)
    for diagonal in (2**31 - 1, 5, -5, -2**31, 2**62):
        same(x.tril(diagonal), np.tril(np.ones((2, 3)), min(diagonal, 9)))
        same(x.triu(diagonal), np.triu(np.ones((2, 3)), min(diagonal, 9)))


def test_means_by_index_are_rounded_once(device):
    x = volta.tensor([0.3, 0.0], device=device, dtype=volta.float16)
    index, source = volta.tensor([0, 0], device=device), volta.tensor([0.7, 0.9003], device=device, dtype=volta.float16)
    exact = np.mean([np.float16(0.3).astype(float), np.float16(0.7).astype(float), np.float16(0.9003).astype(float)])
    same(volta.index_reduce(x, 0, index, source, "mean")[0], np.float16(exact))
