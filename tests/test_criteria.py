"""Losses as layers give what their functions give; errors of losses; PyTorch's values where it is installed."""
import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, IndexRangeError, ShapeError
from volta.nn import functional as F

LAYERS = [
    (nn.SmoothL1Loss, dict(beta=0.5), "xx"), (nn.HuberLoss, dict(delta=0.5), "xx"), (nn.BCELoss, {}, "uu"), (nn.KLDivLoss, {}, "xu"),
    (nn.PoissonNLLLoss, dict(full=True), "xu"), (nn.GaussianNLLLoss, dict(full=True), "xxu"),
    (nn.HingeEmbeddingLoss, dict(margin=0.5), "xs"), (nn.MarginRankingLoss, dict(margin=0.5), "xxs"),
    (nn.CosineEmbeddingLoss, dict(margin=0.1), "xxr"), (nn.MultiMarginLoss, dict(p=2), "xl"),
    (nn.SoftMarginLoss, {}, "xs"), (nn.MultiLabelMarginLoss, {}, "xm"), (nn.MultiLabelSoftMarginLoss, {}, "xu"),
    (nn.TripletMarginLoss, dict(swap=True), "xxx"), (nn.TripletMarginWithDistanceLoss, dict(margin=0.5), "xxx"),
    (nn.CosineSimilarity, {}, "xx"), (nn.PairwiseDistance, dict(p=1.0), "xx")]


def _array(kind, rng):
    return {"x": lambda: rng.normal(size=(3, 4)), "u": lambda: rng.uniform(0.1, 0.9, (3, 4)), "s": lambda: rng.choice([-1.0, 1.0], (3, 4)),
            "r": lambda: np.array([1.0, -1.0, 1.0]), "l": lambda: np.array([0, 3, 1]),
            "m": lambda: np.array([[1, 0, -1, 2], [-1, 0, 0, 0], [3, 2, 1, 0]])}[kind]()


@pytest.mark.parametrize("layer, options, kinds", LAYERS, ids=lambda v: getattr(v, "__name__", ""))
def test_layers_are_pytorchs(layer, options, kinds, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    arrays = [a.astype(np.float32) if a.dtype.kind == "f" else a for a in (_array(k, rng) for k in kinds)]
    found = layer(**options)(*(volta.tensor(a, device=device) for a in arrays))
    expected = getattr(torch.nn, layer.__name__)(**options)(*(torch.tensor(a) for a in arrays))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=2e-5, atol=1e-6)


def test_ctc(device):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 2, 4)).astype(np.float32), np.array([[1, 2, 2], [3, 0, 0]])
    loss = nn.CTCLoss(reduction="none", zero_infinity=True)(
        volta.tensor(x, device=device).log_softmax(2), volta.tensor(labels, device=device), volta.tensor([6, 3]), volta.tensor([3, 1]))
    assert loss.shape == (2,) and bool((loss > 0).all())
    log_probs = volta.tensor(x, device=device).log_softmax(2)
    joined = F.ctc_loss(log_probs, volta.tensor([1, 2, 2, 3], device=device), [6, 3], [3, 1], reduction="none")
    assert joined.tolist() == loss.tolist()
    short = F.ctc_loss(log_probs[:2], volta.tensor(labels, device=device), [2, 2], [3, 1], reduction="none")
    assert short[0].item() == float("inf") and short[1].item() < 100
    with pytest.raises(IndexRangeError, match="ctc_loss: index 9 is out of range"):
        F.ctc_loss(volta.zeros(6, 2, 4), volta.tensor(labels * 3), [6, 3], [3, 1])
    with pytest.raises(ShapeError, match="ctc_loss: target_lengths add up to 5, targets hold 4 labels"):
        F.ctc_loss(volta.zeros(6, 2, 4), volta.tensor([1, 2, 2, 3]), [6, 3], [3, 2])
    with pytest.raises(ArgumentError, match="ctc_loss: blank must be a class, 0 to 3, got 4"):
        F.ctc_loss(volta.zeros(6, 2, 4), volta.tensor(labels), [6, 3], [3, 1], blank=4)


def test_shapes_that_differ_broadcast_with_a_warning(device):
    x, row = volta.arange(6.0, device=device).reshape(2, 3), volta.ones(3, device=device)
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss):
        with pytest.warns(UserWarning, match=r"input \(2, 3\) and target \(3,\) are broadcast"):
            found = loss(x, row)
        assert found.item() == pytest.approx(loss(x, row.expand(2, 3)).item())


def test_refusals():
    x = volta.ones(3, 4)
    for call, text in ((lambda: F.binary_cross_entropy(x * 2, x), r"the input must lie in \[0, 1\]"),
                       (lambda: F.binary_cross_entropy(x, x[0]), "must have the same shape"),
                       (lambda: F.huber_loss(x, x, delta=0), "delta must be positive"),
                       (lambda: F.smooth_l1_loss(x, x, beta=-1), "beta must be >= 0"),
                       (lambda: F.gaussian_nll_loss(x, x, x * -1), "var must not be negative"),
                       (lambda: F.gaussian_nll_loss(x, x, volta.ones(2)), r"var \(2,\) must have the shape"),
                       (lambda: F.multi_margin_loss(x, volta.tensor([0, 1, 4])), "index 4 is out of range"),
                       (lambda: F.multi_margin_loss(x, volta.tensor([0, 1, 2]), p=3), "p must be 1 or 2"),
                       (lambda: F.triplet_margin_loss(x, x, x, margin=0), "margin must be positive"),
                       (lambda: volta.cdist(x, x, compute_mode="fast"), "compute_mode must be one of"),
                       (lambda: volta.pdist(x[0]), "pdist: needs a matrix"),
                       (lambda: nn.HuberLoss("batchmean"), "reduction must be 'mean', 'sum' or 'none'")):
        with pytest.raises((ArgumentError, ShapeError, IndexRangeError), match=text):
            call()
    assert nn.KLDivLoss(reduction="batchmean").reduction == "batchmean"


def test_linear_cross_entropy_is_both_in_one(device):
    layer = nn.LinearCrossEntropyLoss(3, 5, out_features=(2,), bias=True, weight=volta.arange(1.0, 6.0, device=device), device=device)
    x, labels = volta.rand(4, 3, device=device), volta.tensor([[0, 1], [2, 3], [4, 0], [1, 1]], device=device)
    expected = F.cross_entropy(layer.linear(x).reshape(4, 5, 2), labels, layer.weight)
    assert layer(x, labels).item() == pytest.approx(expected.item())
    assert list(layer.state_dict()) == ["weight", "linear.weight", "linear.bias"]
    assert "in_features=3, num_classes=5, out_features=(2,), bias=True, reduction=mean" in repr(layer)
    for call, text in ((lambda: layer(volta.ones(3, device=device), labels[0]), r"input \(3,\) does not fit linear_weight \(5, 2, 3\)"),
                       (lambda: F.linear_cross_entropy(x, x, labels[:, 0], linear_bias=x), r"linear_bias must have shape \(4,\)"),
                       (lambda: F.linear_cross_entropy(x, x, volta.ones(4, 4, device=device), ignore_index=1), "holds probabilities"),
                       (lambda: F.linear_cross_entropy(x, x, labels[:, 0], options="chunks"), "options must be LinearCross.*got str"),
                       (lambda: nn.LinearCrossEntropyLoss(3, 5, weight=x), r"weight must have shape \(5,\)")):
        with pytest.raises((ArgumentError, ShapeError), match=text):
            call()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options, rows", [({"batch_chunk_size": 3}, 3), ({"chunking_method": "aspect_ratio"}, 4), ({}, 2),
                                           ({"batch_chunk_size": 99}, 7)])
def test_linear_cross_entropy_in_chunks(options, rows, reduction, device):
    x, weight, bias = (volta.rand(*shape, device=device, requires_grad=True) for shape in ((7, 3), (5, 3), (5,)))
    scale, labels = volta.rand(5, device=device), volta.tensor([0, 4, -1, 2, 3, 1, 0], device=device)
    chosen = nn.LinearCrossEntropyOptions(**options)
    assert chosen.rows(7, 3, 5, False) == rows
    found = []
    for given in (None, chosen):
        loss = F.linear_cross_entropy(x, weight, labels, linear_bias=bias, weight=scale, reduction=reduction, ignore_index=-1,
                                      options=given)
        found.append([loss.detach(), *volta.autograd.grad(loss.sum(), (x, weight, bias))])
    for a, b in zip(*found):
        np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options, text", [({"acc_policy": "most"}, "acc_policy"), ({"chunking_method": "rows"}, "chunking_method"),
                                           ({"batch_chunk_size": 0}, "batch_chunk_size"), ({"acc_dtype": "float"}, "acc_dtype")])
def test_chunks_that_make_no_sense(options, text):
    with pytest.raises(ArgumentError, match=text):
        nn.LinearCrossEntropyOptions(**options)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_ctc_of_nan_is_nan(zero_infinity, device, rng):
    values = rng.standard_normal((6, 3, 5)).astype(np.float32)
    values[2, 1, 1] = np.nan
    losses = F.ctc_loss(volta.tensor(values, device=device), volta.tensor([[1, 2], [1, 3], [2, 2]], device=device), [6, 6, 2], [2, 2, 2],
                        reduction="none", zero_infinity=zero_infinity).tolist()
    assert np.isnan(losses[1]) and np.isfinite(losses[0]) and losses[2] == (0.0 if zero_infinity else np.inf)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 4, 5)])
def test_smoothed_labels(weighted, reduction, shape, device):
    """As in PyTorch, beside infinity, labels to ignore and batches of these alone, too; of few kernels."""
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    rng = np.random.default_rng(0)
    for ignored, planted in ((-100, 0.0), (1, 0.0), (-100, -np.inf), ("all", 0.0)):
        x, labels = rng.normal(size=shape).astype(np.float32), rng.integers(0, shape[1], (shape[0], *shape[2:]))
        x.reshape(-1)[3] += planted
        labels = np.full_like(labels, -100) if ignored == "all" else labels
        options = {"ignore_index": -100 if ignored == "all" else ignored, "reduction": reduction, "label_smoothing": 0.1}
        found = []
        for library, where in ((torch, {}), (volta, {"device": device})):
            logits = library.tensor(x, **where).requires_grad_()
            weight = library.tensor(np.linspace(0.1, 1, shape[1]).astype(np.float32), **where) if weighted else None
            losses = library.nn.functional.cross_entropy(logits, library.tensor(labels, **where), weight, **options)
            losses.sum().backward()
            found.append((losses.detach().cpu().numpy(), logits.grad.cpu().numpy()))
        for theirs, ours in zip(*found):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    if device != "cpu" and not weighted and len(shape) == 2:
        before = volta.gpu.stats()
        volta.nn.functional.cross_entropy(logits, volta.tensor(labels, device=device), **options)
        assert (volta.gpu.stats() - before).dispatches <= 7
