"""How many dispatches operations take on a GPU, forward and backward, where that is what they were made for: it is most of their time."""
from __future__ import annotations

import numpy as np
import pytest

import volta
import volta.nn.functional as F

pytestmark = pytest.mark.usefixtures("gpu")


def rand(*shape):
    return volta.rand(*shape, device="gpu", requires_grad=True)


def counts(function):
    """(forward, backward) of a function without arguments, by a gradient that is there."""
    function()
    before = volta.gpu.stats().dispatches
    out = function()
    between = volta.gpu.stats().dispatches
    g = volta.ones_like(out)
    start = volta.gpu.stats().dispatches
    out.backward(g)
    return between - before, volta.gpu.stats().dispatches - start


IMAGE = (2, 3, 8, 6)


def rand_half(*shape):
    return volta.rand(*shape, device="gpu").half().requires_grad_()


LAYERS = {}


def attended(batch_first, masks=0):
    """Of the heads of three sequences, and masks of places that are never seen and of those that are padding."""
    if (batch_first, masks) not in LAYERS:
        x = volta.rand(3, 16, 32, device="gpu", requires_grad=True)
        hidden = [volta.zeros(shape, dtype=volta.bool, device="gpu") for shape in ((3, 16) if batch_first else (16, 3), (16, 16))][:masks]
        layer = volta.nn.MultiheadAttention(32, 4, batch_first=batch_first, device="gpu")
        LAYERS[batch_first, masks] = layer, x, dict(zip(("key_padding_mask", "attn_mask"), hidden))
    layer, x, hidden = LAYERS[batch_first, masks]
    for t in (x, *layer.parameters()):
        t.grad = None
    return layer(x, x, x, **hidden)[0]


def normal(loc, scale):
    return volta.distributions.Normal(loc, scale, validate_args=False)


CASES = {
    "attention of float16": (lambda: F.scaled_dot_product_attention(*[rand_half(2, 3, 8, 16) for _ in range(3)]), 7, 6),
    "batch_norm evaluated": (lambda: F.batch_norm(rand(*IMAGE), rand(3).detach(), rand(3).detach(), rand(3), rand(3)), 6, 1),
    "batch_norm frozen": (lambda: F.batch_norm(rand(*IMAGE), *[rand(3).detach() for _ in range(4)]), 6, 1),
    "attention under a mask": (lambda: F.scaled_dot_product_attention(*[rand(2, 3, 8, 16) for _ in range(3)], rand(8, 8)), 5, 11),
    "attention under a bool mask": (lambda: F.scaled_dot_product_attention(
        *[rand(2, 3, 8, 16) for _ in range(3)], volta.ones(8, 8, dtype=volta.bool, device="gpu")), 6, 5),
    "multi_head_attention": (lambda: attended(True), 8, 13), "multi_head_attention, batch second": (lambda: attended(False), 8, 14),
    "multi_head_attention, one mask": (lambda: attended(True, 1), 10, 13), "multi_head_attention, two": (lambda: attended(True, 2), 11, 13),
    "bias": (lambda: volta.add(rand(300, 64).detach(), rand(64)), 3, 1),        # sums of columns in one pass
    "reshape": (lambda: rand(*IMAGE).reshape(6, 48).exp(), 2, 1),               # a leaf takes over what only its gradient shows
    "clamp": (lambda: rand(3, 4).clamp(0.2, 0.7), 2, 1), "clamp_min": (lambda: rand(3, 4).clamp(0.2), 2, 1),
    "abs": (lambda: rand(3, 4).abs(), 2, 1), "softsign": (lambda: F.softsign(rand(3, 4)), 2, 1),
    "l1_loss": (lambda: F.l1_loss(rand(3, 4), rand(3, 4)), 4, 3),
    "label smoothing": (lambda: F.cross_entropy(rand(6, 5), volta.zeros(6, dtype=volta.int64, device="gpu"), label_smoothing=0.1), 4, 2),
    "normalize": (lambda: F.normalize(rand(6, 4)), 2, 1),
    "cosine_similarity": (lambda: F.cosine_similarity(rand(6, 4), rand(6, 4)), 6, 4),
    "cosine_embedding_loss": (lambda: F.cosine_embedding_loss(rand(6, 4), rand(6, 4), volta.ones(6, device="gpu")), 6, 4),
    "triplet_margin_loss": (lambda: F.triplet_margin_loss(*[rand(6, 4) for _ in range(3)], swap=True), 11, 13),
    # a copy of the variance is cut, so that the gradient of what is cut passes
    "gaussian_nll_loss": (lambda: F.gaussian_nll_loss(rand(3, 4), rand(3, 4), rand(3, 4) + 0.1, full=True), 8, 4),
    "poisson_nll_loss": (lambda: F.poisson_nll_loss(rand(3, 4), rand(3, 4).detach(), full=True), 4, 2),
    "hinge_embedding_loss": (lambda: F.hinge_embedding_loss(rand(3, 4), volta.ones(3, 4, device="gpu")), 4, 2),
    "margin_ranking_loss": (lambda: F.margin_ranking_loss(rand(6), rand(6), volta.ones(6, device="gpu")), 5, 3),
    "soft_margin_loss": (lambda: F.soft_margin_loss(rand(6), volta.ones(6, device="gpu")), 4, 2),
    "multilabel_margin_loss": (lambda: F.multilabel_margin_loss(rand(3, 4), volta.zeros(3, 4, dtype=volta.int64, device="gpu")), 15, 8),
    "multilabel_soft_margin_loss": (lambda: F.multilabel_soft_margin_loss(rand(3, 4), rand(3, 4).detach()), 6, 3),
    "kl_div": (lambda: F.kl_div(rand(3, 4), rand(3, 4).detach(), reduction="sum"), 4, 1),
    "logistic loss, weighted": (lambda: F.binary_cross_entropy_with_logits(rand(3, 4), rand(3, 4).detach(), pos_weight=rand(4).detach()),
                                5, 2),
    "log_prob of Normal": (lambda: normal(rand(3, 4), rand(3, 4)).log_prob(rand(3, 4).detach()), 4, 2),
    "kl_divergence of Normal": (lambda: volta.distributions.kl_divergence(*[normal(rand(3, 4), rand(3, 4)) for _ in range(2)]), 5, 4),
    "lp_pool2d": (lambda: F.lp_pool2d(rand(*IMAGE), 2, 2), 4, 4), "lp_pool of 3": (lambda: F.lp_pool2d(rand(*IMAGE), 3, 2), 5, 8),
    "local_response_norm": (lambda: F.local_response_norm(rand(2, 5, 6, 6), 3), 4, 6),
    "norm of order inf": (lambda: rand(3, 4).norm(float("inf")), 3, 7), "amax": (lambda: rand(3, 4).amax(1), 2, 4),
    "quantile": (lambda: volta.quantile(rand(3, 5), 0.3, dim=1), 5, 8), "median": (lambda: rand(3, 5).median(), 2, 9),
    "conv3d": (lambda: F.conv3d(rand(2, 4, 8, 8, 8), rand(8, 4, 3, 3, 3)), 3, 10),
    "conv_transpose3d": (lambda: F.conv_transpose3d(rand(2, 4, 4, 4, 4), rand(4, 2, 3, 3, 3), stride=2), 7, 6),
    "embedding_bag": (lambda: F.embedding_bag(volta.zeros(5, 4, dtype=volta.int64, device="gpu"), rand(7, 3)), 3, 6),
    "fractional_max_pool2d": (lambda: F.fractional_max_pool2d(rand(*IMAGE), 2, output_size=3), 3, 1),
    "fractional_max_pool3d": (lambda: F.fractional_max_pool3d(rand(2, 3, 6, 5, 7), 2, output_size=3), 3, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_dispatches(name):
    function, forward, backward = CASES[name]
    found = counts(function)
    assert found[0] <= forward and found[1] <= backward, found


@pytest.mark.parametrize("dtype", ["float32", "float16", "bool", "int64"])
def test_few_elements_that_lie_anyhow_are_joined_at_once(dtype):
    """Turned, sliced, repeated and backward ones, along any dimension; more dimensions than two on a side are copied one by one."""
    rng = np.random.default_rng(0)
    for dim in range(5):
        sizes = [[3, 2, 4, 5, 2] for _ in range(4)]
        for k in range(4):
            sizes[k][dim] = k + 1
        arrays = [rng.integers(0, 2, size).astype(dtype) for size in sizes]
        turned = [np.ascontiguousarray(a.transpose(1, 4, 0, 3, 2)) for a in arrays]
        tensors = [volta.tensor(a, device="gpu").permute(2, 0, 4, 3, 1) for a in turned]
        for move in (lambda t: t, lambda t: t[:, 1:2, ::2, 1:], lambda t: t[0], lambda t: t[0, 0], lambda t: t[:1].expand(3, *t.shape[1:])):
            given = [move(t) for t in tensors]
            axis = dim - (5 - given[0].ndim)
            if axis < 0 or dim in (1, 2, 3) and any(t.shape[axis] == 0 for t in given):
                continue
            want = np.concatenate([t.cpu().numpy() for t in given], axis)
            assert np.array_equal(volta.cat(given, axis).numpy(), want), (dim, axis)
    heads = [volta.rand(2, 3, 4, 5, device="gpu").transpose(1, 2).flip(0) for _ in range(3)]
    before = volta.gpu.stats().dispatches
    volta.stack(heads, 2)
    assert volta.gpu.stats().dispatches - before == 1


@pytest.mark.parametrize("rank", [2, 3])
def test_of_fractional_windows_the_last_nan_wins(rank, device):
    """As in PyTorch; of equal elements the first."""
    x = np.full((1, 1, *(4,) * rank), 2.0, np.float32)
    x[..., 1, 2] = x[..., 2, 1] = np.nan
    samples = volta.full((1, 1, rank), 0.25, device=device)
    pool = getattr(F, f"fractional_max_pool{rank}d")
    out, index = pool(volta.tensor(x, device=device), 2, 2, return_indices=True, _random_samples=samples)
    plane = index.numpy().reshape(-1, 2, 2)[0] % 16
    assert plane.tolist() == [[0, 6], [9, 10]]
    assert np.isnan(out.numpy().reshape(-1, 2, 2)[0]).tolist() == [[False, True], [True, False]]


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("classes", [1, 3, 10, 17, 300, 1001])
def test_label_smoothing_against_torch(classes, reduction, device):
    """Of scores far from 0, of ignored labels, and of classes that are hidden by -inf."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(classes)
    target = rng.integers(0, classes, 9)
    for smoothing in (0.1, 0.5, 1.0):
        for offset, ignored, hidden in ((0.0, -100, False), (1e3, 0, False), (0.0, -100, True)):
            scores = (rng.standard_normal((9, classes)) * 3 + offset).astype(np.float32)
            if hidden:
                scores[0, :2], scores[1, 0], scores[2, -1] = -np.inf, np.nan, np.inf
            found = []
            for module, x in ((volta, volta.tensor(scores, device=device)), (torch, torch.tensor(scores.astype(np.float64)))):
                x.requires_grad_()
                labels = module.tensor(target, device=device) if module is volta else module.tensor(target)
                loss = module.nn.functional.cross_entropy(x, labels, ignore_index=ignored, label_smoothing=smoothing, reduction=reduction)
                loss.sum().backward()
                found.append((loss.detach().numpy(), x.grad.numpy()))
            np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5, atol=1e-6)
            if not hidden:
                np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 3, 5, 2), (6, 5), (70, 9), (2, 3, 70, 80), (3, 2, 4)])
def test_batch_norm_by_given_statistics_against_torch(shape, device):
    """Values and gradients of all that wants one, of the input alone beside infinity, and second ones."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (shape, *[shape[1:2]] * 4)]
    arrays[2] = np.abs(arrays[2]) + 0.5
    g = rng.standard_normal(shape).astype(np.float32)
    for wanted in ((0, 3, 4), (0,), (3,), (0, 1, 2, 3, 4)):
        found = []
        for module in (volta, torch):
            x, mean, var, weight, bias = leaves = [volta.tensor(a, device=device) if module is volta else torch.tensor(a.astype(np.float64))
                                                   for a in arrays]
            for i in wanted:
                leaves[i].requires_grad_()
            if module is volta or not {1, 2} & set(wanted):
                out = module.nn.functional.batch_norm(x, mean, var, weight, bias, False, eps=1e-3)
            else:
                column = (1, -1) + (1,) * (len(shape) - 2)
                mean, var, weight, bias = (v.reshape(column) for v in leaves[1:])
                out = (x - mean) / torch.sqrt(var + 1e-3) * weight + bias
            slope = volta.tensor(g, device=device) if module is volta else torch.tensor(g.astype(np.float64))
            grads = module.autograd.grad(out, [leaves[i] for i in wanted], slope, create_graph=True)
            second = module.autograd.grad((grads[0] * grads[0]).sum(), leaves[3]) if 3 in wanted and 0 in wanted else ()
            found.append([t.detach().cpu().numpy() for t in (out, *grads, *second)])
        for ours, theirs in zip(*found):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    x = volta.full(shape, float("inf"), device=device, requires_grad=True)
    F.batch_norm(x, *[volta.tensor(a, device=device) for a in arrays[1:3]]).sum().backward()
    assert np.isfinite(x.grad.numpy()).all()
