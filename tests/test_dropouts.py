"""Dropout of channels and for SELU, in what it draws: the op table knows only what it does without drawing."""
import math

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, ShapeError

LIMIT = 1.7580993408473766
CHANNELS = {F.dropout1d: (50, 40, 6), F.dropout2d: (50, 40, 2, 3), F.dropout3d: (50, 40, 1, 2, 3), F.feature_alpha_dropout: (50, 40, 6)}


@pytest.mark.parametrize("function", CHANNELS, ids=lambda f: f.__name__)
def test_whole_channels(function, device):
    x = volta.ones(CHANNELS[function], device=device, requires_grad=True)
    y = function(x, 0.4, True)
    rows = y.detach().numpy().reshape(2000, 6)
    assert (rows == rows[:, :1]).all() and len(set(rows[:, 0])) == 2
    kept = rows[:, 0] == rows.max()
    assert abs(kept.mean() - 0.6) < 4 * math.sqrt(0.24 / 2000)
    y.sum().backward()
    slope = x.grad.numpy().reshape(2000, 6)
    assert (slope[~kept] == 0).all() and (slope[kept] == slope.max()).all() and slope.max() > 0.8


@pytest.mark.parametrize("function", [F.dropout1d, F.dropout3d], ids=lambda f: f.__name__)
def test_without_a_batch(function, device):
    x = volta.ones((30,) + CHANNELS[function][2:], device=device)
    y = function(x, 0.5, True)
    assert y.shape == x.shape and len(np.unique(y.numpy().reshape(30, 6), axis=0)) == 2
    assert function(x, 0.5, True, True) is x and set(x.flatten().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_alpha_dropout_keeps_mean_and_variance(p, device):
    volta.manual_seed(3)
    x = volta.randn(200_000, device=device)
    y = F.alpha_dropout(x, p, True)
    assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.02
    dropped = y.numpy().min() if p == 0.5 else None
    scale = ((LIMIT ** 2 * p + 1) * (1 - p)) ** -0.5
    assert dropped is None or (np.isclose(y.numpy(), LIMIT * scale * (p - 1), atol=1e-6).mean() - p) < 0.01


@pytest.mark.parametrize("name", ["dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"])
def test_in_place_draws_the_same(name, device):
    x = volta.linspace(1, 2, 24, device=device).reshape(4, 6)
    volta.manual_seed(1)
    expected = getattr(volta, name[:-1])(x, 0.5, True)
    volta.manual_seed(1)
    assert getattr(volta, name)(x, 0.5, True) is x and volta.equal(x, expected) and x._version == 1


def test_devices_draw_the_same(gpu):
    for function, shape in CHANNELS.items():
        found = []
        for device in ("cpu", gpu):
            volta.manual_seed(8)
            found.append(function(volta.ones(shape, device=device), 0.3, True).numpy())
        np.testing.assert_allclose(*found, rtol=1e-6)


def test_in_place_of_a_leaf_in_evaluation_does_nothing():
    x = volta.ones(2, 3, requires_grad=True)
    assert F.dropout(x, 0.5, False, True) is x and x._version == 0


def test_ranks(device):
    x = volta.ones(4, device=device)
    with pytest.raises(ShapeError, match=r"dropout1d: needs an input \(N, C, L\) or \(C, L\), got shape \(4,\)"):
        F.dropout1d(x)
    with pytest.raises(ShapeError, match="feature_alpha_dropout: needs at least 2 dimensions"):
        F.feature_alpha_dropout(x, 0.5, True)
    for function, shape, text in (
            (F.dropout2d, (2, 3, 4), "taken as"), (F.dropout2d, (2, 3), "use dropout"), (F.dropout3d, (2, 3), "use dropout")):
        with pytest.warns(UserWarning, match=text):
            function(volta.ones(shape, device=device), 0.5, False)
    for function in (*CHANNELS, F.alpha_dropout):
        with pytest.raises(ArgumentError, match=r"p must be a probability in \[0, 1\], got 1.5"):
            function(volta.ones(CHANNELS.get(function, (3,)), device=device), 1.5, True)


def test_layers(device):
    for name in ("Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"):
        layer = getattr(volta.nn, name)(0.5)
        x = volta.ones((2, 20, 1, 1, 1)[:2 + int(name[-2]) if name[-1] == "d" else 3], device=device)
        assert repr(layer) == f"{name}(p=0.5, inplace=False)"
        assert not volta.equal(layer(x), x) and layer.eval()(x) is x
        with pytest.raises(ArgumentError, match=f"{name}: p must be a probability"):
            getattr(volta.nn, name)(2)


@pytest.mark.parametrize("name", ["alpha_dropout", "feature_alpha_dropout"])
def test_halves_that_are_not_dropped_pass(name, device):
    x = volta.ones(4, 6, dtype=volta.float16, device=device)[:, ::2]
    out = getattr(volta.nn.functional, name)(x, 0.5, False)
    assert out.stride() == (6, 2) and out.data_ptr() == x.data_ptr()
    assert getattr(volta.nn.functional, name)(x, 0.5, True).dtype is volta.float16
