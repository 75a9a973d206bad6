"""Writing at indices: what samples of the op table cannot say (places named twice, tuples of indices, views, refusals)."""
from __future__ import annotations

import math

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, ShapeError


def test_the_last_of_several_entries_counts(device):
    index, source = np.array([2, 0, 2, 2, 0] * 300), np.arange(1500.0, dtype=np.float32)
    expected = np.zeros(3, np.float32)
    expected[[0, 2]] = 1499, 1498
    x, i, s = (volta.tensor(a, device=device) for a in (np.zeros(3, np.float32), index, source))
    for out in (x.scatter(0, i, s), x.index_copy(0, i, s), x.put(i, s), x.index_put((i,), s)):
        np.testing.assert_array_equal(out.numpy(), expected)
    assert x.tolist() == [0, 0, 0]


def test_each_of_several_entries_gets_the_gradient_of_the_place(device):
    source = volta.ones(3, device=device, requires_grad=True)
    out = volta.zeros(2, device=device).scatter(0, volta.tensor([1, 1, 0], device=device), source)
    (out * volta.tensor([2.0, 3.0], device=device)).sum().backward()
    assert source.grad.tolist() == [3, 3, 2]


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(device, accumulate):
    x, rows, values = np.arange(20.0, dtype=np.float32).reshape(5, 4), np.array([-1, 0, 0]), np.ones((3, 4), np.float32)
    expected = x.copy()
    np.add.at(expected, rows, values) if accumulate else expected.__setitem__(rows, values)
    y = volta.tensor(x, device=device)
    out = y.index_put((volta.tensor(rows, device=device), None), volta.tensor(values, device=device), accumulate)
    np.testing.assert_array_equal(out.numpy(), expected)
    y.t().index_put_((None, volta.tensor(rows, device=device)), volta.tensor(values.T.copy(), device=device), accumulate)
    np.testing.assert_array_equal(y.numpy(), expected)


def test_fill_diagonal(device):
    x = volta.zeros(5, 2, device=device)
    assert x.fill_diagonal_(3, wrap=True) is x and x.tolist() == [[3, 0], [0, 3], [0, 0], [3, 0], [0, 3]]
    with pytest.raises(ShapeError, match="fill_diagonal_: needs a matrix"):
        volta.zeros(3, device=device).fill_diagonal_(1)


def test_writing_through_a_view_reaches_its_base(device):
    leaf = volta.ones(2, 3, device=device, requires_grad=True)
    base = leaf * 2
    base[1].index_fill_(0, volta.tensor([0, -1], device=device), 5.0)
    assert base.tolist() == [[2, 2, 2], [5, 2, 5]]
    base.sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2], [0, 2, 0]]


def test_what_is_refused(device):
    x, i, s = volta.zeros(3, device=device), volta.tensor([3], device=device), volta.ones(1, device=device)
    for name in ("scatter", "index_copy"):
        with pytest.raises(IndexRangeError, match=f"{name}: index 3 is out of range for a dimension of size 3"):
            getattr(x, name)(0, i, s)
        with pytest.raises(IndexRangeError, match="index -1 is out of range"):
            getattr(x, name)(0, i - 4 if device == "cpu" else volta.tensor([-1], device=device), s)
        with pytest.raises(DTypeError, match=f"{name}: the source is volta.int64 and the input volta.float32"):
            getattr(x, name)(0, i, i)
    with pytest.raises(ArgumentError, match="scatter_reduce: reduce must be one of sum, mean, prod, amax, amin"):
        x.scatter_reduce(0, i, s, "add")
    with pytest.raises(ShapeError, match="put: index .* must have equally many elements"):
        x.put(i, volta.ones(2, device=device))
    with pytest.raises(ArgumentError, match="embedding: scale_grad_by_freq counts all rows"):
        volta.nn.functional.embedding(i, volta.ones(4, 2, device=device, requires_grad=True), scale_grad_by_freq=True, sparse=True)


def test_layers_of_lookups(device):
    layer = volta.nn.Embedding(5, 3, padding_idx=-1, device=device)
    assert layer.padding_idx == 4 and layer.weight[4].tolist() == [0, 0, 0] and repr(layer) == "Embedding(5, 3, padding_idx=4)"
    layer(volta.tensor([[4, 1], [1, 4]], device=device)).sum().backward()
    assert layer.weight.grad.tolist() == [[0] * 3, [2] * 3, [0] * 3, [0] * 3, [0] * 3]
    table = volta.tensor([[3.0, 4.0], [0.3, 0.4]], device=device)
    frozen = volta.nn.EmbeddingBag.from_pretrained(table, max_norm=1.0, mode="sum")
    assert not frozen.weight.requires_grad and table.tolist() != frozen(volta.tensor([[0, 1]], device=device)).tolist()
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)


def test_lookups_cross_no_bytes(gpu):
    weight, index = volta.ones(5, 3, device=gpu, requires_grad=True), volta.tensor([[1, 2], [4, 4]], device=gpu)
    source = volta.ones(2, 2, device=gpu)
    with volta.gpu.forbid_transfers():
        volta.nn.functional.embedding(index, weight, padding_idx=4, scale_grad_by_freq=True).sum().backward()
        volta.nn.functional.embedding_bag(index, weight, mode="max").sum().backward()
        source.scatter(1, index.clamp(0, 1), 3.0).scatter_reduce(1, index.clamp(0, 1), source, "amax")
        source.masked_scatter(source > 0, source).repeat_interleave(index[0], 0, output_size=3)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_put_of_nothing_into_nothing(shape, accumulate, device):
    x = volta.zeros(shape, device=device)
    assert volta.put(x, volta.zeros(0, dtype=volta.int64, device=device), volta.ones(0, device=device), accumulate).shape == shape
    with pytest.raises(IndexError):
        x.put_(volta.zeros(1, dtype=volta.int64, device=device), volta.ones(1, device=device), accumulate)


@pytest.mark.parametrize("kind", ["amax", "amin"])
def test_extremes_share_with_what_did_not_take_part(kind):
    """As in PyTorch: an element of the input that does not take part, and is equal to the result, counts among those that share."""
    inf = math.inf
    for start, source, index, want in (([3.0, 1.0], [3.0, 5.0], [0, 1], [0.5, 1.0]), ([3.0, 1.0], [3.0, 3.0], [0, 0], [1 / 3, 1 / 3]),
                                       ([inf], [inf], [0], [0.5]), ([-inf], [-inf], [0], [0.5]), ([7.0], [inf], [0], [1.0])):
        for reduce in (lambda *args: volta.scatter_reduce(*args, kind, include_self=False),
                       lambda *args: volta.index_reduce(*args, kind, include_self=False)):
            x, src = volta.tensor(start, requires_grad=True), volta.tensor(source, requires_grad=True)
            reduce(x, 0, volta.tensor(index), src).sum().backward()
            assert src.grad.tolist() == pytest.approx(want)
            assert x.grad.tolist() == [float(i not in index) for i in range(len(start))]
    x, src = volta.tensor(2.0, requires_grad=True), volta.tensor(2.0, requires_grad=True)
    x.scatter_reduce(0, volta.tensor(0), src, kind, include_self=False).backward()
    assert (x.grad.item(), src.grad.item()) == (0.0, 0.5)


def test_what_index_copy_and_index_put_record(device):
    """The input's and the source's gradients, of second order, too; an index that changes before backward is refused."""
    for dim, places in ((0, [2, 0]), (1, [1, 3, 1]), (-1, [0])):
        x, at = volta.arange(15.0, device=device).reshape(3, 5).requires_grad_(), volta.tensor(places, device=device)
        y = volta.ones([(n if d != dim % 2 else len(places)) for d, n in enumerate((3, 5))], device=device).requires_grad_()
        out = volta.index_copy(x, dim, at, y)
        first = volta.autograd.grad((out ** 3).sum(), (x, y), create_graph=True)
        kept = np.ones((3, 5))
        np.moveaxis(kept, dim, 0)[places] = 0
        np.testing.assert_allclose(first[0].detach().numpy(), 3 * kept * x.detach().numpy() ** 2)
        np.testing.assert_allclose(first[1].detach().numpy(), 3 * np.ones(y.shape))
        second = volta.autograd.grad(first[0].sum(), x)[0]
        np.testing.assert_allclose(second.numpy(), 6 * kept * x.detach().numpy())
    out = volta.index_copy(x, 0, at, volta.ones(1, 5, device=device))
    at.add_(1)
    with pytest.raises(AutogradError, match="was changed in place"):
        out.sum().backward()
    x, y = volta.zeros(3, 2, device=device).requires_grad_(), volta.ones(3, 2, device=device).requires_grad_()
    out = volta.index_put(x, (volta.tensor([2, -1, 0], device=device),), y, accumulate=True)
    assert out.tolist() == [[1, 1], [0, 0], [2, 2]]
    (out ** 2).sum().backward()
    assert x.grad.tolist() == [[2, 2], [0, 0], [4, 4]] and y.grad.tolist() == [[4, 4], [4, 4], [2, 2]]
    with pytest.raises(IndexRangeError, match="index_put: index -4"):
        volta.index_put(x, (volta.tensor([-4], device=device),), y[:1], accumulate=True)


def test_a_number_behind_a_mask_may_be_of_any_dtype(device):
    """As in PyTorch, where masked_fill puts it there; several numbers have the dtype of what they are put into."""
    x, mask = volta.zeros(3, 2, device=device), volta.tensor([True, False, True], device=device)
    for key in (mask,), (mask, None):
        assert x.index_put(key, volta.tensor(7, device=device)).tolist() == [[7.0, 7.0], [0.0, 0.0], [7.0, 7.0]]
    for key, values, accumulate in ((mask,), [7, 7], False), ((mask,), [7], True), ((mask, mask[:2]), [7], False):
        with pytest.raises(DTypeError, match="index_put: the source is volta.int64 and the input volta.float32"):
            x.index_put(key, volta.tensor(values, device=device), accumulate)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("shape, dim", [((5, 40), 0), ((5, 40), 1), ((2, 6, 3), 1), ((9,), 0)])
def test_sums_and_extremes_in_place_are_those_of_copies(shape, dim, dtype):
    rng, kind = np.random.default_rng(0), getattr(volta, dtype)
    x, source = (volta.tensor(rng.integers(-9, 9, shape), dtype=kind) for _ in range(2))
    index, few = volta.tensor(rng.integers(0, shape[dim], shape)), volta.tensor(rng.integers(0, shape[dim], shape[dim]))
    changes = [("scatter_add", (dim, index, source)), ("scatter", (dim, index, source)), ("index_add", (dim, few, source))]
    changes += [("scatter_reduce", (dim, index, source, how)) for how in ("sum", "prod", "amax", "amin")]
    changes += [("index_reduce", (dim, few, source, how)) for how in ("prod", "amax", "amin")]
    for name, args in changes:
        out = x.clone()
        assert getattr(out, name + "_")(*args) is out
        expected = getattr(x, name)(*args)
        assert out.tolist() == expected.tolist(), name
    rows = volta.tensor(rng.integers(0, shape[0], 7))
    values = volta.tensor(rng.integers(-9, 9, (7, *shape[1:])), dtype=kind)
    expected = x.clone()
    for row, value in zip(rows.tolist(), values):
        expected[row] = expected[row] + value
    assert x.clone().index_put_((rows,), values, accumulate=True).tolist() == expected.tolist()
    assert x.clone().index_put_((rows.reshape(7, 1),), values.reshape(7, 1, *shape[1:]), accumulate=True).tolist() == expected.tolist()


def test_what_is_changed_in_place_may_be_read_through_a_view():
    x = volta.arange(12.0).reshape(3, 4)
    index = volta.tensor([[0, 0, 1, 2]] * 3)
    expected = x.clone().scatter_add_(1, index, x.clone().t().reshape(3, 4))
    assert volta.equal(x.scatter_add(1, index, x.t().reshape(3, 4)), expected)
    y = volta.zeros(2, 3)
    y.index_reduce_(0, volta.tensor([0, 0]), volta.tensor([[1.0, math.nan, 3.0], [2.0, 5.0, -1.0]]), "amax")
    np.testing.assert_array_equal(y.numpy(), [[2, math.nan, 3], [0, 0, 0]])
    y.index_reduce_(0, volta.tensor([0]), volta.tensor([[1.0, 2.0, 9.0]]), "amin")
    np.testing.assert_array_equal(y.numpy(), [[1, math.nan, 3], [0, 0, 0]])


@pytest.mark.parametrize("kind", ["prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("place", [3, -1])
def test_an_index_outside_names_index_reduce(kind, place):
    x = volta.ones(3)
    with pytest.raises(IndexError, match=f"index_reduce_: index {place} is out of range for a dimension of size 3"):
        x.index_reduce_(0, volta.tensor([0, place]), volta.tensor([5.0, 5.0]), kind)
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", ["float32", "bool", "int64", "float16", "bfloat16"])
@pytest.mark.parametrize("dim", [0, 1, -1, 2, -3])
def test_few_and_many_places_are_filled_alike(name, dim, rng):
    x = volta.tensor(rng.integers(0, 2, (30, 20, 40))).to(getattr(volta, name))
    for places in ([1, -1, 3, 3], [2], [], list(range(7)) * 2):
        index = volta.tensor(places, dtype=volta.int64)
        want = x.clone()
        want[(slice(None),) * (dim % 3) + (index,)] = 1
        assert volta.equal(x.index_fill(dim, index, 1), want)
    with pytest.raises(IndexRangeError, match="index_fill"):
        x.index_fill(dim, volta.tensor([99]), 1)
    with pytest.raises(IndexError, match="dim"):
        x.index_fill(3, volta.tensor([0]), 1)


@pytest.mark.parametrize("dtype", (volta.float32, volta.int64, volta.uint8, volta.bfloat16))
@pytest.mark.parametrize("reduce", ("amax", "amin", "prod"))
def test_slices_are_reduced_into_a_copy(dtype, reduce):
    rng = np.random.default_rng(0)
    a, b, index = rng.integers(1, 3, (40, 30, 9)), rng.integers(1, 3, (40, 30, 9)), rng.integers(0, 40, 40)
    for dim in range(3):
        at = index[:a.shape[dim]] % a.shape[dim]
        x, y = (volta.tensor(t).to(dtype) for t in (a, b))
        found = x.index_reduce(dim, volta.tensor(at), y, reduce)
        want = np.moveaxis(a.copy(), dim, 0)
        for place, slices in zip(at, np.moveaxis(b, dim, 0)):
            want[place] = {"amax": np.maximum, "amin": np.minimum, "prod": np.multiply}[reduce](want[place], slices)
        np.testing.assert_array_equal(found.double().numpy(), np.moveaxis(want, 0, dim) % (256 if dtype is volta.uint8 else 1 << 40))
        np.testing.assert_array_equal(x.double().numpy(), a)
    with pytest.raises(IndexRangeError, match="index_reduce: index 40 is out of range for a dimension of size 40"):
        volta.ones(40, 30).index_reduce(0, volta.tensor([40]), volta.ones(1, 30), reduce)
