"""Indices and labels that a GPU has computed, so that nobody on the host knows them, outside of what they point into: the nearest place
inside is taken, losses are NaN, nothing else is read or changed; what the host knows is refused. And of dimensions without elements."""
from __future__ import annotations

import numpy as np
import pytest

import volta
import volta.nn.functional as F
from volta.errors import ArgumentError, IndexRangeError
from volta.vision.ops import roi_align

WILD = (99, -99, 2 ** 31 - 1, -2 ** 31)


def computed(values, device):
    """int64 of which the host does not know what they are."""
    return volta.tensor(np.array(values), device=device) + volta.zeros(np.shape(values), device=device).to(volta.int64)


NEAREST = {
    "pair": (lambda x, i: x[i, i], (0, 0), (-1, -1)),
    "rows": (lambda x, i: x[i], (0,), (-1,)),
    "take": (lambda x, i: volta.take(x, i), (0,), (-1,)),
    "put": (lambda x, i: volta.put(x, i, volta.full((1,), 7.0, device=x.device)), (0,), (-1,)),
    "index_fill": (lambda x, i: volta.index_fill(x, 0, i, 7.0), (0,), (-1,)),
    "multi_margin_loss": (lambda x, i: F.multi_margin_loss(x[:1], i), (0,), (4,)),
}


@pytest.mark.parametrize("index", WILD)
@pytest.mark.parametrize("name", NEAREST)
def test_the_nearest_place_is_taken(gpu, name, index):
    call, _, _ = NEAREST[name]
    x = volta.tensor(np.random.default_rng(0).random((6, 5), np.float32), device=gpu)
    last = {"take": 29, "put": 29, "multi_margin_loss": 4}.get(name, 5)
    if name == "pair":
        want = x[-1:, -1] if index > 0 else x[:1, 0]
    else:
        want = call(x, volta.tensor([last if index > 0 else 0], device=gpu))
    np.testing.assert_array_equal(call(x, computed([index], gpu)).numpy(), want.numpy())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_of_labels_outside_the_classes_are_nan(gpu, smoothing):
    x, labels = volta.rand(5, 4, device=gpu), computed([3, 4, -1, -100, 2 ** 31 - 1], gpu)
    losses = F.cross_entropy(x, labels, label_smoothing=smoothing, reduction="none").numpy()
    assert np.isnan(losses).tolist() == [False, True, True, False, True] and losses[3] == 0 and losses[0] > 0
    for loss in (F.cross_entropy, F.nll_loss):
        none = loss(volta.empty(2, 0, device=gpu), computed([0, -100], gpu), reduction="none").numpy()
        assert np.isnan(none).tolist() == [True, False] and none[1] == 0


EMPTY = {
    "index_select": lambda x, i: volta.index_select(x, 0, i), "getitem": lambda x, i: x[i], "take": lambda x, i: volta.take(x, i),
    "gather": lambda x, i: volta.gather(x, 0, i.reshape(2, 1)), "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(1, 2), x), "put": lambda x, i: volta.put(x, i, x.new_ones(2)),
    "scatter": lambda x, i: volta.scatter(x, 0, i.reshape(2, 1), 1.0),
    "index_put": lambda x, i: volta.index_put(x, (i,), x.new_ones(2, 3)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_no_elements_to_index(device, name):
    x = volta.empty(0, 3, device=device)
    with pytest.raises(IndexRangeError):
        EMPTY[name](x, computed([1, 2], device))
    none = volta.zeros(0, dtype=volta.int64, device=device)
    if name in ("index_select", "getitem", "embedding"):
        assert EMPTY[name](x, none).shape == (0, 3)


def test_index_add_to_nothing_reads_no_index(device):
    """As in PyTorch: where nothing can be added to, nothing is, whatever the indices are."""
    assert volta.index_add(volta.empty(0, 3, device=device), 0, computed([1, 2], device), volta.ones(2, 3, device=device)).shape == (0, 3)


@pytest.mark.parametrize("index", [(4, -5), (5, 99), (-1, 2 ** 31 - 1), (-2 ** 31, 0)])
def test_indices_of_take_along_dim_go_around(device, index):
    x = np.arange(12, dtype="f4").reshape(4, 3)
    at = np.array(index).reshape(2, 1)
    want = np.take_along_axis(x, np.broadcast_to(at % 4, (2, 3)), 0)
    for indices in (volta.tensor(at, device=device), computed(at, device)):
        np.testing.assert_array_equal(volta.take_along_dim(volta.tensor(x, device=device), indices, 0).numpy(), want)


def test_negative_indices_of_index_copy_do_not_count_from_the_end(gpu):
    out = volta.index_copy(volta.zeros(5, device=gpu), 0, computed([3, -1], gpu), volta.tensor([1.0, 2.0], device=gpu))
    assert out.tolist() == [2.0, 0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("side", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_boxes_whose_sides_are_no_numbers_show_nothing(device, side):
    boxes = volta.tensor([[0.0, 1, 1, 4, 4], [0, 1, 1, 4, side], [0, side, 1, 4, 4]], device=device)
    x = volta.ones(1, 2, 6, 6, device=device)
    for ratio in (-1, 2):
        found = roi_align(x, boxes, 2, sampling_ratio=ratio).numpy()
        assert np.allclose(found[0], 1) and np.isfinite(found).all()


def test_lengths_of_segments_that_cannot_be(device):
    with pytest.raises(ArgumentError, match="must not be negative, got -1"):
        volta.segment_reduce(volta.ones(6, device=device), "sum", lengths=volta.tensor([-1, 7], device=device), unsafe=True)
    for lengths in ([7, 1], [-1, 7]):
        with pytest.raises(ArgumentError, match="must not be negative, and add up to the 6 elements"):
            volta.segment_reduce(volta.ones(6, device=device), "sum", lengths=volta.tensor(lengths, device=device))


def test_gradients_of_logcumsumexp_of_large_numbers(device):
    for x in (np.array([1e4, 9998.0, 10003.0, -5.0]), np.array([-3e4, -2.9e4, -2.9e4 + 1])):
        y = volta.tensor(x.astype("f4"), device=device, requires_grad=True)
        g = np.array([1.5, -2.0, 0.5, 3.0])[:len(x)]
        (volta.logcumsumexp(y, 0) * volta.tensor(g.astype("f4"), device=device)).sum().backward()
        out = np.logaddexp.accumulate(x)
        want = [sum(g[j] * np.exp(x[i] - out[j]) for j in range(i, len(x))) for i in range(len(x))]
        # the outputs are rounded to float32: the first one is exact, the others by 2**-11 at most
        np.testing.assert_allclose(y.grad.numpy(), want, rtol=2e-3, atol=1e-30)
    y = volta.tensor([12345.678], device=device, requires_grad=True)
    (volta.logcumsumexp(y, 0) * 0.7219932).sum().backward()
    assert y.grad.item() == np.float32(0.7219932)
    y = volta.tensor([float("-inf"), 2.0, float("-inf"), 3.0], device=device, requires_grad=True)
    volta.logcumsumexp(y, 0).sum().backward()
    np.testing.assert_allclose(y.grad.numpy()[1:], [2 + 1 / (1 + np.e), 0, np.e / (1 + np.e)], rtol=1e-5)


def test_angles_of_nan_have_no_gradient(device):
    y = volta.tensor([1.0, -2.0, float("nan")], device=device, requires_grad=True)
    volta.angle(y).sum().backward()
    assert y.grad.tolist() == [0.0, 0.0, 0.0] and np.isnan(volta.angle(y.detach()).numpy()[2])


def test_nan_of_a_class_that_is_no_label_leaves_the_ctc_loss(device):
    x = np.log(np.random.default_rng(0).dirichlet(np.ones(4), (6, 2)).astype("f4"))
    targets, lengths = volta.tensor([[1, 2], [3, 1]], device=device), volta.tensor([6, 6], device=device)
    want = F.ctc_loss(volta.tensor(x, device=device), targets, lengths, lengths - 4, reduction="none")
    x[3, 1, 2] = np.nan
    got = F.ctc_loss(volta.tensor(x, device=device), targets, lengths, lengths - 4, reduction="none")
    np.testing.assert_array_equal(got.numpy(), want.numpy())
