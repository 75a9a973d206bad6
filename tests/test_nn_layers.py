"""Layers and losses on each device, against NumPy's formulas."""
import math

import numpy as np
import pytest
from arrays import host

import volta
from volta import nn
from volta.errors import ArgumentError, ShapeError
from volta.nn import functional as F
from volta.testing import assert_close


# ---------------------------------------------------------------- layers
def test_linear(device):
    layer = nn.Linear(4, 3, device=device)
    x = volta.randn(2, 5, 4, device=device)
    assert_close(host(layer(x)), host(x) @ host(layer.weight).T + host(layer.bias), 1e-5, 1e-6)
    assert nn.Linear(4, 3, bias=False, device=device).bias is None
    with pytest.raises(ShapeError, match="linear: input"):
        layer(volta.zeros(2, 3, device=device))
    with pytest.raises(ArgumentError, match="Linear: out_features must be an integer >= 0, got -1"):
        nn.Linear(1, -1)


def naive_conv(x, w, b, stride, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    n, _, h, width = x.shape
    o, c, kh, kw = w.shape
    oh, ow = ((s - dilation * (k - 1) - 1) // stride + 1 for s, k in ((h, kh), (width, kw)))
    out = np.zeros((n, o, oh, ow))
    for i in range(oh):
        for j in range(ow):
            patch = x[:, :, i * stride:i * stride + dilation * kh:dilation, j * stride:j * stride + dilation * kw:dilation]
            for k in range(o):
                first = k // (o // groups) * c
                out[:, k, i, j] = (patch[:, first:first + c, :kh, :kw] * w[k]).sum((1, 2, 3)) + b[k]
    return out


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"groups": 2},
                                     {"padding": "same"},
                                     {"padding": "valid"}])
def test_conv2d(device, options):
    layer = nn.Conv2d(4, 6, 3, device=device, **options)
    x = volta.randn(2, 4, 7, 6, device=device)
    padding = {"same": 1, "valid": 0}.get(options.get("padding"), options.get("padding", 0))
    expected = naive_conv(host(x), host(layer.weight), host(layer.bias), options.get("stride", 1), padding,
                          options.get("dilation", 1), options.get("groups", 1))
    assert_close(host(layer(x)), expected, 1e-4, 1e-5)


@pytest.mark.parametrize("options, text", [
    ({"padding": "full"}, "Conv2d: padding must be ints, 'same' or 'valid', got 'full'"),
    ({"padding": "same", "stride": 2}, "Conv2d: padding 'same' needs stride 1, got 2"),
    ({"groups": 3}, "Conv2d: in_channels 4 and out_channels 6 must be multiples of groups 3"),
    ({"stride": 0}, "Conv2d: stride must be an int or a pair of ints >= 1, got 0"),
])
def test_conv2d_errors(options, text):
    with pytest.raises(ArgumentError) as error:
        nn.Conv2d(4, 6, 3, **options)
    assert text in str(error.value)


def test_max_pool(device):
    x = volta.randn(2, 3, 6, 8, device=device)
    expected = host(x).reshape(2, 3, 3, 2, 4, 2).max((3, 5))
    assert_close(host(nn.MaxPool2d(2)(x)), expected, 0, 0)
    out, index = nn.MaxPool2d(2, return_indices=True)(x)
    picked = np.take_along_axis(host(x).reshape(2, 3, -1), host(index).astype(int).reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(picked.reshape(expected.shape), expected)


@pytest.mark.parametrize("layer, shape", [(nn.BatchNorm1d, (8, 3)), (nn.BatchNorm1d, (4, 3, 5)), (nn.BatchNorm2d, (4, 3, 5, 2))])
def test_batch_norm(device, layer, shape):
    bn = layer(3, device=device)
    with volta.no_grad():
        bn.weight.uniform_(0.5, 2)
        bn.bias.uniform_(-1, 1)
    x = volta.randn(*shape, device=device) * 3 + 2
    a, axes, column = host(x), (0, *range(2, len(shape))), (1, 3) + (1,) * (len(shape) - 2)
    w, b = host(bn.weight).reshape(column), host(bn.bias).reshape(column)
    mean, var, count = a.mean(axes), a.var(axes), a.size // 3
    out = bn(x)
    assert_close(host(out), (a - mean.reshape(column)) / np.sqrt(var.reshape(column) + 1e-5) * w + b, 1e-4, 1e-5)
    assert_close(host(bn.running_mean), 0.1 * mean, 1e-5, 1e-6)
    assert_close(host(bn.running_var), 0.9 + 0.1 * var * count / (count - 1), 1e-4, 1e-5)
    assert int(bn.num_batches_tracked) == 1
    bn.eval()
    running = host(bn.running_mean).reshape(column), host(bn.running_var).reshape(column)
    assert_close(host(bn(x)), (a - running[0]) / np.sqrt(running[1] + 1e-5) * w + b, 1e-4, 1e-5)
    assert int(bn.num_batches_tracked) == 1
    bn.reset_running_stats()
    assert host(bn.running_var).tolist() == [1, 1, 1] and int(bn.num_batches_tracked) == 0


def test_batch_norm_without_statistics_and_errors(device):
    bn = nn.BatchNorm2d(2, affine=False, track_running_stats=False, device=device).eval()
    x = volta.randn(3, 2, 4, 4, device=device)
    assert_close(host(bn(x)).mean((0, 2, 3)), np.zeros(2), 0, 1e-6)
    assert list(bn.state_dict()) == []
    with pytest.raises(ShapeError, match=r"BatchNorm2d: needs an input \(N, C, H, W\), got \(3, 2\)"):
        bn(volta.zeros(3, 2, device=device))
    with pytest.raises(ShapeError, match="training needs more than one value per channel"):
        nn.BatchNorm1d(2, device=device)(volta.zeros(1, 2, device=device))
    with pytest.raises(ArgumentError, match="batch_norm: give both running_mean and running_var, or neither"):
        F.batch_norm(x, volta.zeros(2, device=device), None, training=True)


def test_batch_norm_with_the_mean_over_all_batches(device):
    bn = nn.BatchNorm1d(3, momentum=None, device=device)
    batches = [volta.randn(5, 3, device=device) * (i + 1) for i in range(3)]
    with volta.gpu.forbid_transfers():
        for x in batches[:2]:
            bn(x)
    other = nn.BatchNorm1d(3, momentum=None, device=device)
    other.load_state_dict(bn.state_dict())
    other(batches[2])
    assert_close(host(other.running_mean), np.mean([host(x).mean(0) for x in batches], 0), 1e-5, 1e-5)
    assert_close(host(other.running_var), np.mean([host(x).var(0, ddof=1) for x in batches], 0), 1e-4, 1e-5)
    before = host(other.running_mean)
    other.eval()(batches[0])
    np.testing.assert_array_equal(host(other.running_mean), before)


def test_batch_norm_without_bias(device):
    bn = nn.BatchNorm2d(2, bias=False, device=device)
    assert list(bn.state_dict()) == ["weight", "running_mean", "running_var", "num_batches_tracked"]
    bn.reset_parameters()
    x = volta.randn(3, 2, 4, 4, device=device)
    out = bn(x)
    out.sum().backward()
    assert_close(host(out).mean((0, 2, 3)), np.zeros(2), 0, 1e-5)
    assert "bias=False" in repr(bn)


def test_layer_norm(device):
    ln = nn.LayerNorm((3, 4), device=device)
    x = volta.randn(2, 3, 4, device=device)
    a = host(x)
    expected = (a - a.mean((1, 2), keepdims=True)) / np.sqrt(a.var((1, 2), keepdims=True) + 1e-5)
    assert_close(host(ln(x)), expected, 1e-4, 1e-5)
    bias = volta.randn(3, 4, device=device)
    assert_close(host(F.layer_norm(x, (3, 4), bias=bias)), expected + host(bias), 1e-4, 1e-5)
    assert repr(nn.LayerNorm(4, bias=False)) == "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=False)"
    with pytest.raises(ShapeError, match="layer_norm"):
        ln(volta.zeros(2, 4, 3, device=device))
    with pytest.raises(ShapeError, match=r"layer_norm: bias must have shape \(3, 4\), got \(4,\)"):
        F.layer_norm(x, (3, 4), bias=bias[0])


def test_dropout(device):
    layer, x = nn.Dropout(0.25), volta.ones(100, 100, device=device)
    out = host(layer(x))
    assert set(np.unique(out.astype(np.float32))) == {0, np.float32(1 / 0.75)} and abs((out == 0).mean() - 0.25) < 0.02
    assert layer.eval()(x) is x
    volta.manual_seed(3)
    first = host(F.dropout(x, 0.5))
    volta.manual_seed(3)
    np.testing.assert_array_equal(host(F.dropout(x, 0.5)), first)
    with pytest.raises(ArgumentError, match=r"Dropout: p must be a probability in \[0, 1\], got 2"):
        nn.Dropout(2)


ERF = np.vectorize(math.erf)
ACTIVATIONS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)), (nn.ReLU(inplace=True), lambda x: np.maximum(x, 0)),
    (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    (nn.LeakyReLU(0.1), lambda x: np.where(x > 0, x, 0.1 * x)), (nn.Tanh(), np.tanh), (nn.SiLU(), lambda x: x / (1 + np.exp(-x))),
    (nn.GELU(), lambda x: x * (1 + ERF(x / math.sqrt(2))) / 2), (nn.Identity(), lambda x: x),
    (nn.GELU("tanh"), lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))) / 2),
    (nn.Softmax(dim=1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)), (nn.Flatten(), lambda x: x),
    (nn.LogSoftmax(dim=-1), lambda x: x - np.log(np.exp(x).sum(1, keepdims=True)))]


@pytest.mark.parametrize("layer, formula", ACTIVATIONS, ids=lambda v: repr(v) if isinstance(v, nn.Module) else "")
def test_activations(device, layer, formula):
    x = volta.randn(5, 7, device=device)
    a = host(x)
    assert_close(host(layer(x)), formula(a), 1e-5, 1e-6)


# ---------------------------------------------------------------- losses
def test_cross_entropy_forms(device):
    x, labels = volta.randn(6, 4, device=device), volta.tensor([0, 1, 2, 3, 1, 1], device=device)
    a = host(x)
    logp, t = a - np.log(np.exp(a).sum(1, keepdims=True)), host(labels).astype(int)
    each, rows = -logp[np.arange(6), t], np.arange(6)
    weight = np.array([1, 2, 0.5, 1])
    w = volta.tensor(weight.astype(np.float32), device=device)
    cases = [({}, each.mean()), ({"reduction": "sum"}, each.sum()), ({"reduction": "none"}, each),
             ({"ignore_index": 1}, each[t != 1].mean()), ({"weight": w}, (each * weight[t]).sum() / weight[t].sum()),
             ({"label_smoothing": 0.1}, (0.9 * each - 0.1 * logp.mean(1)).mean())]
    for options, expected in cases:
        assert_close(host(nn.CrossEntropyLoss(**options)(x, labels)), expected, 1e-5, 1e-6,
                     msg=lambda text, options=options: f"{options}: {text}")
    soft = np.full((6, 4), 0.1) + 0.6 * np.eye(4)[t]
    target = volta.tensor(soft.astype(np.float32), device=device)
    assert_close(host(F.cross_entropy(x, target)), -(soft * logp).sum(1).mean(), 1e-5, 1e-6)
    assert_close(host(nn.NLLLoss(reduction="none")(F.log_softmax(x, 1), labels)), -logp[rows, t], 1e-5, 1e-6)


def test_elementwise_losses(device):
    x, y = volta.randn(4, 3, device=device), volta.rand(4, 3, device=device)
    a, b = host(x), host(y)
    assert_close(host(nn.MSELoss()(x, y)), ((a - b) ** 2).mean(), 1e-5, 1e-6)
    assert_close(host(nn.L1Loss(reduction="sum")(x, y)), abs(a - b).sum(), 1e-5, 1e-6)
    p = 1 / (1 + np.exp(-a))
    assert_close(host(nn.BCEWithLogitsLoss()(x, y)), -(b * np.log(p) + (1 - b) * np.log(1 - p)).mean(), 1e-5, 1e-6)
    pos = volta.tensor([1.0, 2.0, 3.0], device=device)
    assert_close(host(nn.BCEWithLogitsLoss(pos_weight=pos, reduction="none")(x, y)),
                 -(np.array([1, 2, 3]) * b * np.log(p) + (1 - b) * np.log(1 - p)), 1e-4, 1e-5)
    with pytest.raises(ArgumentError, match="MSELoss: reduction must be 'mean', 'sum' or 'none', got 'avg'"):
        nn.MSELoss(reduction="avg")


def test_one_hot_and_normalize(device):
    assert F.one_hot(volta.tensor([0, 2], device=device)).tolist() == [[1, 0, 0], [0, 0, 1]]
    x = volta.randn(3, 4, device=device)
    assert_close(host(F.normalize(x)), host(x) / np.linalg.norm(host(x), axis=1, keepdims=True), 1e-5, 1e-6)


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"weight": volta.ones(3)}])
def test_a_batch_of_ignored_labels_gives_no_gradient(device, options):
    """The mean of nothing is NaN; its gradient must not poison the weights."""
    x = volta.ones(4, 3, device=device, requires_grad=True)
    options = {name: v.to(device) if name == "weight" else v for name, v in options.items()}
    labels = volta.full((4,), -100, device=device)
    F.cross_entropy(x, labels, **options).backward()
    assert host(x.grad).tolist() == [[0.0] * 3] * 4
    x.grad = None
    F.nll_loss(x, labels).backward()
    assert host(x.grad).tolist() == [[0.0] * 3] * 4


# ---------------------------------------------------------------- forms of arguments
@pytest.mark.parametrize("layer", [nn.LeakyReLU(0.2, inplace=True), nn.SiLU(inplace=True), nn.Dropout(0.0, inplace=True)])
def test_inplace_writes_into_its_input(device, layer):
    a = np.float32([-1, 0, 2])
    x, leaf = volta.tensor(a, device=device), volta.tensor(a, device=device, requires_grad=True)
    out = layer(x)
    assert out is x and "inplace=True" in repr(layer)
    again = leaf * 1
    assert layer(again) is again
    again.sum().backward()
    plain = volta.tensor(a, device=device, requires_grad=True)
    type(layer)(*([0.2] if isinstance(layer, nn.LeakyReLU) else [0.0] if isinstance(layer, nn.Dropout) else []))(plain).sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), host(plain.grad))


def test_dropout_in_place_zeroes_its_input(device):
    x = volta.ones(1000, device=device)
    assert F.dropout(x, 0.5, inplace=True) is x and set(np.unique(host(x))) == {0.0, 2.0}


def test_softplus_beta_and_threshold(device):
    a = np.float32([-3, 0.5, 2, 30])
    x = volta.tensor(a, device=device)
    assert_close(F.softplus(x, beta=2), np.log1p(np.exp(2 * a.astype(np.float64))) / 2, rtol=1e-5, atol=1e-6)
    assert host(F.softplus(x, threshold=1))[2:].tolist() == [2, 30]


@pytest.mark.parametrize("shape, dim", [((), 0), ((4,), 0), ((3, 4), 1), ((2, 3, 4), 0), ((2, 2, 3, 2), 1)])
def test_softmax_without_a_dim(shape, dim, device):
    """Takes the one that PyTorch takes, and warns where the user stands."""
    x = volta.randn(*shape, device=device) if shape else volta.tensor(1.0, device=device)
    for name, of in (("softmax", x), ("log_softmax", x), ("softmin", -x)):
        with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as caught:
            found = getattr(F, name)(x)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(host(found), host(getattr(F, name.replace("min", "max"))(of, dim)))
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        np.testing.assert_array_equal(host(nn.Softmax()(x)), host(volta.softmax(x, dim)))


def test_fractional_max_pooling_draws(device):
    x = volta.rand(2, 3, 9, 8, device=device, requires_grad=True)
    layer = nn.FractionalMaxPool2d(2, output_size=(4, 3), return_indices=True)
    out, index = layer(x)
    assert out.shape == index.shape == (2, 3, 4, 3) and not volta.equal(out, layer(x)[0])
    np.testing.assert_array_equal(host(x).reshape(6, 72)[np.arange(6)[:, None], host(index).reshape(6, 12)], host(out).reshape(6, 12))
    out.sum().backward()
    assert x.grad.sum().item() == 72
    fixed = nn.FractionalMaxPool3d(2, output_ratio=0.5, _random_samples=volta.rand(1, 2, 3, device=device))
    y = volta.rand(1, 2, 6, 6, 4, device=device)
    assert volta.equal(fixed(y), fixed(y)) and fixed(y).shape == (1, 2, 3, 3, 2)
    for samples in (50.0, math.nan):            # places are kept within the input
        assert F.fractional_max_pool2d(x, 2, 3, _random_samples=volta.full((2, 3, 2), samples, device=device)).shape == (2, 3, 3, 3)
    with pytest.raises(ShapeError, match="an output of 9x9 by windows of 2x2 needs more than an input of 9x8"):
        F.fractional_max_pool2d(x, 2, 9)
    for sizes in ((None, None), (3, 0.5)):
        with pytest.raises(ArgumentError, match="needs either output_size or output_ratio"):
            nn.FractionalMaxPool2d(2, *sizes)
