"""Inner forms of functions of networks against PyTorch, where it is installed, and the layers."""
import warnings

import numpy as np
import pytest

import volta
from volta import nn
from volta.errors import ArgumentError, DTypeError, ShapeError


def _weights(layer):
    return [p for each in layer.all_weights for p in each]


@pytest.mark.parametrize("name, layer", [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn_tanh", nn.RNN), ("rnn_relu", nn.RNN)])
@pytest.mark.parametrize("bidirectional, bias, batch_first", [(False, True, False), (True, False, True), (True, True, False)])
def test_recurrent_functions_are_the_layers(name, layer, bidirectional, bias, batch_first, device):
    options = {"nonlinearity": "relu"} if name == "rnn_relu" else {}
    made = layer(3, 4, 2, bias=bias, batch_first=batch_first, bidirectional=bidirectional, device=device, **options)
    x = volta.randn(5, 2, 3, device=device)
    h = volta.randn(2 * (1 + bidirectional), 5 if batch_first else 2, 4, device=device)
    hx = (h, h * 0.5) if name == "lstm" else h
    out, *last = getattr(volta, name)(x, hx, _weights(made), bias, 2, 0.0, False, bidirectional, batch_first)
    expected, states = made(x, hx)
    assert (out == expected).all()
    for each, state in zip(last, states if name == "lstm" else (states,)):
        assert (each == state).all()
    rows, sizes = volta.randn(6, 3, device=device), volta.tensor([3, 2, 1])
    hx = (h[:, :1].repeat(1, 3, 1),) * 2 if name == "lstm" else h[:, :1].repeat(1, 3, 1)
    out, *_ = getattr(volta, name)(rows, sizes, hx, _weights(made), bias, 2, 0.0, False, bidirectional)
    assert (out == made(nn.utils.rnn.PackedSequence(rows, sizes), hx)[0].data).all()


@pytest.mark.parametrize("name, cell", [("lstm_cell", nn.LSTMCell), ("gru_cell", nn.GRUCell), ("rnn_tanh_cell", nn.RNNCell)])
def test_cells_are_the_layers(name, cell, device):
    made = cell(3, 4, device=device)
    x, h = volta.randn(2, 3, device=device), volta.randn(2, 4, device=device)
    hx = (h, h) if name == "lstm_cell" else h
    found = getattr(volta, name)(x, hx, made.weight_ih, made.weight_hh, made.bias_ih, made.bias_hh)
    for a, b in zip(*[v if isinstance(v, tuple) else (v,) for v in (found, made(x, hx))]):
        assert (a == b).all()
    with pytest.raises(ArgumentError, match="needs both biases or none"):
        getattr(volta, name)(x, hx, made.weight_ih, made.weight_hh, made.bias_ih)
    with pytest.raises(ShapeError, match="needs an input"):
        getattr(volta, name)(x[0], hx, made.weight_ih, made.weight_hh)


def test_wrong_recurrent_arguments():
    layer, x, h = nn.GRU(3, 4), volta.ones(5, 2, 3), volta.zeros(1, 2, 4)
    with pytest.raises(ArgumentError, match="3 weights and biases do not fit 1 layers"):
        volta.gru(x, h, _weights(layer)[:3], True, 1, 0.0, False, False, False)
    with pytest.raises(ShapeError, match="states must have shape"):
        volta.gru(x, h[0], _weights(layer), True, 1, 0.0, False, False, False)
    with pytest.raises(TypeError, match="missing 6 required"):
        volta.gru(x, h, _weights(layer))


def test_rows_are_shortened_in_place(device):
    weight = volta.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]], device=device)
    assert volta.embedding_renorm_(weight, volta.tensor([0, 2], device=device), 1.0, 2.0) is weight
    np.testing.assert_allclose(weight.cpu().numpy(), [[0.6, 0.8], [6, 8], [0.3, 0.4]], rtol=1e-5)


@pytest.mark.parametrize("sizes, shape", [([2, 100], (3, 3)), ([1, 2], (3, 3)), ([2], (3, 3)), ([3, 2**40], (5, 3)),
                                          ([2], (2, 1, 3)), ([0], (0, 3))])
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh"])
def test_packed_sequences_whose_steps_do_not_fit_are_refused(name, sizes, shape, device):
    """Kernels go by them."""
    h, gates = volta.zeros(1, sizes[0], 4, device=device), {"lstm": 16, "gru": 12, "rnn_tanh": 4}[name]
    weights = (volta.ones(gates, 3, device=device), volta.ones(gates, 4, device=device))
    with pytest.raises(ShapeError, match=rf"{name}: batch_sizes of a packed sequence must be positive, never grow, and add up to the "
                                         rf"{shape[0]} rows of its data, a matrix, got"):
        getattr(volta, name)(volta.ones(shape, device=device), volta.tensor(sizes), (h, h) if name == "lstm" else h, weights, False, 1, 0.0,
                             False, False)


def test_dropout_with_its_mask(device):
    x = volta.rand(1000, device=device) + 1
    out, kept = volta.native_dropout(x, 0.25, True)
    np.testing.assert_allclose(out.cpu().numpy(), volta.where(kept, x / 0.75, 0.0).cpu().numpy(), rtol=1e-6)
    assert 650 < kept.sum().item() < 850 and kept.dtype is volta.bool
    with pytest.raises(ArgumentError, match="probability"):
        volta.native_dropout(x, 1.5, True)


def test_pooling_with_places(device):
    x = volta.randn(1, 2, 6, 6, device=device)
    for name, args in (("max_pool2d", (2,)), ("adaptive_max_pool2d", (3,))):
        for more in ({}, {"return_indices": False}):
            values, places = getattr(nn.functional, f"{name}_with_indices")(x, *args, **more)
            expected = getattr(nn.functional, name)(x, *args, return_indices=True)
            assert (values == expected[0]).all() and (places == expected[1]).all()
    assert len(nn.functional.max_pool2d_with_indices(x, 2, None, 0, 1, False, False)) == 2
    assert len(nn.functional.fractional_max_pool2d_with_indices(x, 2, output_size=2)) == 2


@pytest.mark.parametrize("initial", [None, 1.5])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_against_torch(reduce, initial, device):
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    array = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)
    for axis, named in ((0, {"lengths": [2, 0]}), (1, {"lengths": [[1, 0, 3], [2, 2, 0]]}), (0, {"offsets": [0, 1, 2]})):
        found = []
        for library, place in ((torch, "cpu"), (volta, device)):
            data = library.tensor(array, device=place).requires_grad_()
            given = {name: library.tensor(value, device=place) for name, value in named.items()}
            out = library.segment_reduce(data, reduce, axis=axis, initial=initial, **given)
            library.where(library.isfinite(out), out, 0.0 * out.detach()).sum().backward()
            found.append((out.detach().cpu().numpy(), data.grad.cpu().numpy()))
        np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
        if axis == 0 and "offsets" in named:
            np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4)


def test_segments_that_do_not_fit():
    x = volta.ones(4)
    with pytest.raises(ArgumentError, match="add up to the 4 elements"):
        volta.segment_reduce(x, "sum", lengths=volta.tensor([2, 1]))
    assert volta.segment_reduce(x, "sum", lengths=volta.tensor([2, 1]), unsafe=True).tolist() == [2, 1]
    with pytest.raises(ArgumentError, match="either lengths or offsets"):
        volta.segment_reduce(x, "sum")
    with pytest.raises(ArgumentError, match="reduce must be one of"):
        volta.segment_reduce(x, "most", lengths=volta.tensor([4]))
    with pytest.raises(DTypeError, match="int64 or int32"):
        volta.segment_reduce(x, "sum", lengths=volta.tensor([4.0]))
    with pytest.raises(ShapeError, match="up to axis 1"):
        volta.segment_reduce(volta.ones(4, 2), "sum", lengths=volta.tensor([4]), axis=1)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 3}, {"include_last_offset": True}])
def test_bags_with_their_parts(mode, options, device):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    rng = np.random.default_rng(0)
    table, at = rng.standard_normal((6, 3)).astype(np.float32), np.array([4, 1, 3, 3, 0, 2])
    starts = np.array([0, 2, 2, 6 if "include_last_offset" in options else 5])
    results = []
    for library, place in ((volta, {"device": device}), (torch, {})):
        weight = library.tensor(table, requires_grad=True, **place)
        found = library.embedding_bag(weight, library.tensor(at, **place), library.tensor(starts, **place), False, mode, False, None,
                                      options.get("include_last_offset", False), options.get("padding_idx"))
        found[0].square().sum().backward()
        results.append([*(x.detach().cpu().numpy() for x in found), weight.grad.cpu().numpy()])
    ours, theirs = results
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    np.testing.assert_allclose(ours[4], theirs[4], rtol=1e-5)
    if mode:                    # of sums PyTorch tells the others only on CUDA
        for a, b in zip(ours[1:4], theirs[1:4]):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ArgumentError, match=r"embedding_bag: mode must be 0 \(sum\), 1 \(mean\) or 2 \(max\), got 3"):
        volta.embedding_bag(volta.ones(2, 2), volta.tensor([0]), volta.tensor([0]), mode=3)


def test_statistics_of_nothing_are_no_news(device):
    """No warning, as in PyTorch."""
    x = volta.ones(2, 0, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert volta.native_layer_norm(x.T, (2,), None, None, 1e-5)[1].shape == (0, 1)
        out, mean, rstd = volta.native_layer_norm(x, (0,), None, None, 1e-5)
        assert volta.native_group_norm(x.T[..., None], None, None, 0, 2, 1, 1, 1e-5)[2].shape == (0, 1)
    assert out.shape == (2, 0) and mean.tolist() == [[0.0], [0.0]] and rstd.isnan().all()


def test_norms_are_computed_once(device):
    """With their statistics, too: one kernel gives all three."""
    x, vector = volta.ones(4, 6, 3, device=device), volta.ones(6, device=device)
    calls = {"row_norm": (lambda: volta.native_layer_norm(x, (6, 3), None, None, 1e-5),
                          lambda: volta.native_group_norm(x, vector, vector, 4, 6, 3, 2, 1e-5)),
             "batch_norm": (lambda: volta.native_batch_norm(x, vector, vector, None, None, True, 0.1, 1e-5),)}
    for kernel, functions in calls.items():
        for function in functions:
            with volta.profiler.profile() as seen:
                function()
            names = [event.name for event in seen.events()]
            assert {*names} - {"reshape"} == {kernel}, names


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("wide", [False, True])
def test_statistics_of_norms(dtype, wide):
    """Values, shapes and dtypes as in PyTorch, of rows, groups and channels, also where these lie last."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
    data = np.random.default_rng(0).standard_normal((3, 4, 5, 6)) + 2
    found = []
    for T in (volta, torch):
        x = T.tensor(data.tolist()).to(getattr(T, dtype))
        own = T.float32 if wide and x.dtype in (T.float16, T.bfloat16) else x.dtype
        weight, channels = T.ones(5, 6, dtype=own) * 2, T.ones(4, dtype=own) * 2
        last = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        running = T.zeros(4, dtype=own), T.ones(4, dtype=own)
        found.append([*T.native_layer_norm(x, (5, 6), weight, weight, 1e-5), *T.native_layer_norm(x, (6,), None, None, 1e-5),
                      *T.native_group_norm(x, channels, channels, 3, 4, 30, 2, 1e-5),
                      *T.native_group_norm(x, None, None, 3, 4, 30, 4, 1e-5),
                      *T.native_batch_norm(x, channels, channels, *running, True, 0.1, 1e-5),
                      *T.native_batch_norm(last, channels, channels, *running, True, 0.1, 1e-5),
                      *T.native_batch_norm(x, channels, channels, *running, False, 0.1, 1e-5)])
    for ours, theirs in zip(*found):
        assert (str(ours.dtype).split(".")[-1], ours.shape) == (str(theirs.dtype).split(".")[-1], tuple(theirs.shape))
        np.testing.assert_allclose(ours.float().numpy(), theirs.float().numpy(), rtol=2e-2 if "16" in dtype else 2e-4,
                                   atol=2e-2 if "16" in dtype else 1e-5)


@pytest.mark.parametrize("dtype", [volta.float16, volta.bfloat16])
def test_norms_of_nothing_of_16_bits(dtype, device):
    if device == "gpu" and dtype is volta.bfloat16:
        with pytest.raises(DTypeError, match="bfloat16 tensors are on the CPU alone"):
            volta.ones(0, 2, 3, dtype=dtype, device=device)
        return
    x, weight = volta.ones(0, 2, 3, dtype=dtype, device=device, requires_grad=True), volta.ones(2, device=device, dtype=dtype)
    for w in (None, weight, weight.float()):
        for out in (volta.group_norm(x, 1, w, w), volta.layer_norm(x.mT, (2,), w, w).mT):
            assert out.dtype is dtype and out.shape == (0, 2, 3)
            assert volta.autograd.grad(out.sum(), x)[0].shape == (0, 2, 3)
    assert volta.native_group_norm(x, weight, weight, 0, 2, 3, 1, 1e-5)[1].dtype is dtype
