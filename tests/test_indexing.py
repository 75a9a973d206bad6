"""Indexing, reading and writing, reductions over any dims, broadcasting and promotion: Hypothesis against NumPy."""
import timeit

import hypothesis
import numpy as np
import pytest
import strategies
from hypothesis import strategies as st

import volta
from volta.errors import ArgumentError, AutogradError, IndexRangeError, ShapeError


def on(index, device):
    """A NumPy index as Volta takes it: arrays as tensors."""
    return tuple(volta.tensor(i, device=device) if isinstance(i, np.ndarray) else i for i in index)


# ---------------------------------------------------------------- reading
@hypothesis.given(data=st.data())
def test_basic(data, device):
    array = strategies.distinct(data.draw(strategies.shapes()))
    index = data.draw(strategies.basic_indices(array.shape))
    x = volta.tensor(array, device=device)
    found, expected = x[index], array[index]
    assert found.shape == expected.shape and found.storage is x.storage
    np.testing.assert_array_equal(found.numpy(), expected)


@hypothesis.given(data=st.data())
def test_advanced(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1).filter(lambda s: 0 not in s)))
    index = data.draw(strategies.advanced_indices(array.shape))
    hypothesis.assume(not splits_an_int(index))
    found, expected = volta.tensor(array, device=device)[on(index, device)], array[index]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def splits_an_int(index):
    """NumPy counts an int among the arrays, so that an int and an array with a slice between put the array's dimensions first,
    PyTorch takes the int out beforehand. Volta follows PyTorch."""
    kinds = "".join("a" if isinstance(i, np.ndarray) else "i" if isinstance(i, int) else "s" for i in index)
    return "a" in kinds and "i" in kinds


@pytest.mark.parametrize("index, shape", [
    ((0, slice(None), [0, 1]), (3, 2)), (([0, 1], slice(None), 0), (2, 3)), ((slice(None), 0, [1, 2, 3]), (2, 3)),
    (([0, 1], 1, [2, 3]), (2,)), ((0, [1, 2], slice(1, 3)), (2, 2)), ((slice(None), [[0], [2]], [1, 3]), (2, 2, 2))])
def test_ints_beside_arrays_as_in_pytorch(index, shape, device):
    """Shapes from PyTorch's rules; values from doing the ints first."""
    array = strategies.distinct((2, 3, 4))
    found = volta.tensor(array, device=device)[tuple(index)]
    assert found.shape == shape
    ints_first = array[tuple(i if isinstance(i, int) else slice(None) for i in index)]
    rest = tuple(i for i in index if not isinstance(i, int))
    np.testing.assert_array_equal(found.numpy(), ints_first[rest])


@hypothesis.given(data=st.data())
def test_masks(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1, 3)))
    covered = data.draw(st.integers(1, array.ndim))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=int(np.prod(array.shape[:covered])),
                                       max_size=int(np.prod(array.shape[:covered])))), bool).reshape(array.shape[:covered])
    x, m = volta.tensor(array, device=device), volta.tensor(mask, device=device)
    found, expected = x[m], array[mask]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(x[m, ...].numpy(), expected)


def test_kinds_of_index(device):
    array = strategies.distinct((4, 5))
    x = volta.tensor(array, device=device)
    for index in ([1, 3], np.array([1, 3]), range(1, 3), [True, False, True, False], np.int64(2), ([0, 1], [2, 3]),
                  (slice(None), [0, 0, 4]),
                  [[0, 1], [2, 3]], (None, [1], None), [], np.array([-1, -4]), (Ellipsis, [1, 2]), np.uint8(3)):
        numpy_index = list(index) if isinstance(index, range) else index
        numpy_index = np.array([], np.int64) if isinstance(index, list) and not index else numpy_index
        np.testing.assert_array_equal(x[index].numpy(), array[numpy_index], err_msg=repr(index))
    for dtype in (volta.int32, volta.uint8, volta.int64):
        np.testing.assert_array_equal(x[volta.tensor([1, 3], dtype=dtype, device=device)].numpy(), array[[1, 3]])


# ---------------------------------------------------------------- writing
@hypothesis.given(data=st.data())
def test_write_basic(data, device):
    array = strategies.distinct(data.draw(strategies.shapes()))
    index = data.draw(strategies.basic_indices(array.shape))
    x, inner = volta.tensor(array, device=device), array[index].shape
    value = value_for(data, inner)
    version = x.storage.version
    x[index] = volta.tensor(value, device=device) if isinstance(value, np.ndarray) else value
    array[index] = value
    np.testing.assert_array_equal(x.numpy(), array)
    assert x.storage.version == version + 1


def value_for(data, shape):
    """A number, or an array that broadcasts to the shape."""
    if data.draw(st.booleans()):
        return data.draw(st.sampled_from([-1.0, -7, 2.5]))
    kept = shape[data.draw(st.integers(0, len(shape))):]
    return -1 - strategies.distinct(tuple(1 if data.draw(st.booleans()) else s for s in kept))


@hypothesis.given(data=st.data())
def test_write_advanced(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1).filter(lambda s: 0 not in s)))
    index = data.draw(strategies.advanced_indices(array.shape))
    hypothesis.assume(not splits_an_int(index))
    places = strategies.distinct(array.shape, np.int64)[index].ravel()
    value = value_for(data, array[index].shape)
    # which of several values for one place stays is not defined, so such a draw writes a number
    if len(set(places.tolist())) < places.size and isinstance(value, np.ndarray):
        value = -3.0
    x = volta.tensor(array, device=device)
    x[on(index, device)] = volta.tensor(value, device=device) if isinstance(value, np.ndarray) else value
    array[index] = value
    np.testing.assert_array_equal(x.numpy(), array)


def test_write_mask(device):
    array = strategies.distinct((3, 4))
    x = volta.tensor(array, device=device)
    x[x > 5.0] = -1.0
    array[array > 5] = -1
    np.testing.assert_array_equal(x.numpy(), array)
    mask = np.array([True, False, True])
    x[volta.tensor(mask, device=device)] = volta.tensor([[9.0], [8.0]], device=device)
    array[mask] = [[9.0], [8.0]]
    np.testing.assert_array_equal(x.numpy(), array)
    x[volta.zeros(3, 4, dtype=volta.bool, device=device)] = 5.0
    np.testing.assert_array_equal(x.numpy(), array)
    x.masked_fill_(volta.tensor(mask[:, None], device=device), 0.5)
    np.testing.assert_array_equal(x.numpy(), np.where(mask[:, None], np.float32(0.5), array))


def test_write_into_a_view(device):
    x = volta.zeros(4, 6, device=device)
    x[:, ::2][1:3, [0, 2]] = volta.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    expected = np.zeros((4, 6))
    expected[1:3, 0], expected[1:3, 4] = [1, 3], [2, 4]
    np.testing.assert_array_equal(x.numpy(), expected)


def test_write_from_itself(device):
    """Source and target overlap: the source counts as it was before."""
    x = volta.arange(6.0, device=device)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    y = volta.arange(9.0, device=device).reshape(3, 3)
    y[:] = y.t()
    assert y.tolist() == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    z = volta.arange(4.0, device=device)
    z[:] = z.flip(0)
    assert z.tolist() == [3, 2, 1, 0]


def test_write_other_dtypes(device):
    x = volta.zeros(3, dtype=volta.int64, device=device)
    x[0], x[1:] = 2, volta.tensor([1.9, -1.9], device=device)
    assert x.tolist() == [2, 1, -1]
    b = volta.zeros(3, dtype=volta.bool, device=device)
    b[1] = 5
    b[2] = True
    assert b.tolist() == [False, True, True]


# ---------------------------------------------------------------- as in PyTorch
def test_indices_of_named_functions_do_not_wrap(device):
    """Outside [0, size) on either side; x[-1] does wrap, and so does take_along_dim."""
    x = volta.arange(12.0, device=device).reshape(3, 4)
    for dim, wrong in ((0, -1), (0, 3), (1, -4), (1, 4)):
        vector, matrix = (volta.tensor(i, device=device) for i in ([wrong], [[wrong]]))
        for call in (lambda d, v, m: x.gather(d, m), lambda d, v, m: x.index_select(d, v),
                     lambda d, v, m: x.scatter_add(d, m, volta.ones(1, 1, device=device)),
                     lambda d, v, m: x.index_add(d, v, volta.ones((1, 4) if d == 0 else (3, 1), device=device))):
            with pytest.raises(IndexRangeError, match=f"index {wrong} is out of range for a dimension of size {x.shape[dim]}"):
                call(dim, vector, matrix)
    assert x[volta.tensor([-1], device=device)].tolist() == [[8, 9, 10, 11]]
    assert x.take_along_dim(volta.tensor([[-1]], device=device), 1).tolist() == [[3], [7], [11]]


def test_named_functions_of_numbers(device):
    """A 0-d tensor counts as one of one element; a bool stays one."""
    one, zero = volta.tensor(5.0, device=device, requires_grad=True), volta.tensor(0, device=device)
    source = volta.tensor(2.0, device=device, requires_grad=True)
    for out, shape, value in ((one.gather(0, zero), (), 5), (one.gather(0, zero.reshape(1)), (1,), [5]),
                              (one.scatter_add(0, zero, source), (), 7), (one.scatter_add(0, zero.reshape(1), source), (), 7),
                              (one.index_add(0, zero, source, alpha=3), (), 11), (one.index_add(0, zero.reshape(1), source), (), 7),
                              (one.index_select(0, zero), (), 5), (one.unfold(0, 1, 1), (1,), [5]), (one.unfold(0, 0, 2), (0,), [])):
        assert out.shape == shape and out.tolist() == value
    gradients = volta.autograd.grad(one.scatter_add(0, zero, source) * 3 + one.index_add(0, zero, source), (one, source))
    assert [g.item() for g in gradients] == [4, 4]
    assert volta.tensor(True, device=device).gather(0, zero).dtype is volta.bool
    assert volta.tensor([1.0, 2.0], device=device).gather(0, volta.tensor(1, device=device)).shape == ()
    for wrong in (1, -1):
        at = volta.tensor(wrong, device=device)
        for call in (lambda i: one.gather(0, i), lambda i: one.index_select(0, i), lambda i: one.scatter_add(0, i, source),
                     lambda i: one.index_add(0, i, source)):
            with pytest.raises(IndexRangeError, match=f"index {wrong} is out of range"):
                call(at)


def test_unfold_of_nothing(device):
    x = volta.arange(3.0, device=device).requires_grad_()
    out = x.unfold(0, 0, 1)
    assert out.shape == (4, 0)
    (out.sum() + x.sum()).backward()
    assert x.grad.tolist() == [1, 1, 1]


def test_single_bools(device):
    x = volta.arange(6.0, device=device).reshape(2, 3)
    for yes in (True, np.bool_(True), volta.tensor(True, device=device)):
        assert x[yes].shape == (1, 2, 3) and x[yes].storage is not x.storage
    assert x[False].shape == (0, 2, 3) and x[0, True].shape == (1, 3) and x[:, True, [0, 1]].tolist() == [[0, 1], [3, 4]]
    x[False] = 9.0
    x[True, 0] = 7.0
    assert x.tolist() == [[7, 7, 7], [3, 4, 5]]
    assert volta.tensor(5.0, device=device)[True].tolist() == [5]
    with pytest.raises(IndexRangeError, match="the index tensors do not broadcast"):
        x[False, [0, 1]]


def test_index_without_dimensions_is_an_int(device):
    """A view where the host knows the number; else a copy, in the same place among the other dimensions."""
    x = volta.arange(24.0, device=device).reshape(2, 3, 4)
    one = volta.tensor(1, device=device)
    assert x[one].storage is x.storage and x[one, :, [0, 1]].tolist() == [[12, 13], [16, 17], [20, 21]]
    computed = one + 0
    assert x[computed, :, [0, 1]].tolist() == x[1, :, [0, 1]].tolist()
    assert x[:, computed].tolist() == x[:, 1].tolist() and x[[0, 1], computed, [2, 3]].tolist() == x[[0, 1], 1, [2, 3]].tolist()
    x[computed, 0] = volta.zeros(4, device=device)
    assert x[1, 0].tolist() == [0, 0, 0, 0]


def test_leading_ones_of_a_value_do_not_count(device):
    x = volta.zeros(3, 4, device=device)
    index = volta.tensor([0, 2], device=device)
    value = volta.tensor([[1.0, 2.0]], device=device, requires_grad=True)
    x[index, -1] = value
    x[index, 0] = volta.full((1, 1, 1), 5.0, device=device)
    assert x[:, [0, 3]].tolist() == [[5, 1], [0, 0], [5, 2]]
    (x * x).sum().backward()
    assert value.grad.tolist() == [[2, 4]]


@pytest.mark.parametrize("key", ["index", "mask", "mask of rows", "slice"])
def test_writing_nowhere(device, key):
    """Nothing is written, but the value must fit, and has a gradient of zeros."""
    x = volta.ones(3, 4, device=device)
    empty = volta.tensor([], dtype=volta.int64, device=device)
    key = {"index": empty, "mask": x > 1, "mask of rows": x[:, 0] > 1, "slice": slice(0, 0)}[key]
    with pytest.raises(ShapeError, match="does not broadcast to the indexed shape"):
        x[key] = volta.zeros(3, device=device)
    value = volta.zeros(1, device=device, requires_grad=True)
    x[key] = value
    (x * x).sum().backward()
    assert x.tolist() == [[1.0] * 4] * 3 and value.grad.tolist() == [0]


def test_last_value_for_a_place_counts(device):
    """With few entries, with many in a small table, and with many in a large one."""
    for rows, count in ((5, 20), (50, 3000), (100000, 3000), (3, 100000)):
        index = np.random.default_rng(rows).integers(0, min(rows, 2000), count)
        value = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
        x = volta.zeros(rows, 2, device=device)
        x[volta.tensor(index, device=device)] = volta.tensor(value, device=device)
        expected = np.zeros((rows, 2), np.float32)
        last = {place: k for k, place in enumerate(index.tolist())}
        expected[list(last)] = value[list(last.values())]
        np.testing.assert_array_equal(x.numpy(), expected)


def test_writing_at_computed_indices(gpu):
    """Nothing is read back, and an index beyond the range does no harm."""
    x = volta.zeros(4, 2, device=gpu)
    index = volta.tensor([1, 9], device=gpu) + 0
    with volta.gpu.forbid_transfers():
        x[index] = 1.0
        x[index[:1] - 2] = 2.0
    assert x.tolist() == [[0, 0], [1, 1], [0, 0], [2, 2]]


def test_writing_into_rows_costs_the_rows(device):
    """A table of this size would take a hundred times as long to copy, and as much memory again."""
    x = volta.zeros(30 if device == "gpu" else 60, 1 << 20, device=device).reshape(-1, 64)
    index, value = volta.tensor([5, 9, 5], device=device), volta.ones(3, 64, device=device)

    def write():
        x[index] = value

    if device == "gpu":                     # where how long it takes depends on the adapter
        write()
        volta.gpu.empty_cache()
        before = volta.gpu.memory_stats()
        write()
        after = volta.gpu.memory_stats()
        assert after.live + after.pooled - before.live - before.pooled < x.nbytes // 100
        return

    def seconds(change):
        return min(timeit.repeat(change, number=1, repeat=5))
    assert 5 * seconds(write) < seconds(lambda: x.add_(1.0))


def test_values_and_indices_that_are_part_of_the_target(device):
    x = volta.arange(8.0, device=device).reshape(4, 2)
    x[volta.tensor([1, 2, 3], device=device)] = x[:3]
    assert x.tolist() == [[0, 1], [0, 1], [2, 3], [4, 5]]
    y = volta.tensor([2, 0, 1], device=device)
    y[y] = volta.tensor([7, 8, 9], device=device)
    assert y.tolist() == [8, 9, 7]


def test_index_changed_before_backward(device):
    index, value = volta.tensor([0, 1], device=device), volta.ones(2, device=device, requires_grad=True)
    x = volta.zeros(3, device=device)
    x[index] = value
    index[0] = 2
    with pytest.raises(AutogradError, match="setitem: an index tensor that is needed for the gradient was changed in place"):
        x.sum().backward()


def test_split_by_a_tensor(device):
    x = volta.arange(6.0, device=device)
    parts = x.tensor_split(volta.tensor([1, 4], device=device))
    assert [p.tolist() for p in parts] == [[0], [1, 2, 3], [4, 5]] and parts[0].storage is x.storage
    assert [p.shape for p in x.tensor_split(volta.tensor(4, device=device))] == [(2,), (2,), (1,), (1,)]
    for wrong in (10 ** 30, True, 0, volta.tensor([1.0], device=device), volta.tensor([[1]], device=device)):
        with pytest.raises(ArgumentError, match="tensor_split: "):
            x.tensor_split(wrong)
    with pytest.raises(ArgumentError, match="tensor_split: a 0-d tensor has no dimension"):
        x[0].tensor_split(2)


def test_narrow_takes_integers(device):
    x = volta.arange(6.0, device=device).reshape(3, 2)
    assert x.narrow(0, volta.tensor(1, device=device), np.int64(2)).tolist() == [[2, 3], [4, 5]]
    for start, length in ((True, 1), (1, True), (1.0, 1), (volta.tensor([1], device=device), 1), (volta.tensor(True, device=device), 1)):
        with pytest.raises(ArgumentError, match="narrow: (start|length) must be an integer"):
            x.narrow(0, start, length)
    with pytest.raises(ArgumentError, match="narrow: a 0-d tensor"):
        x[0, 0].narrow(0, 0, 1)


# ---------------------------------------------------------------- named functions
@hypothesis.given(data=st.data())
def test_gather_and_scatter(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1, 3).filter(lambda s: 0 not in s)))
    dim = data.draw(st.integers(0, array.ndim - 1))
    count = data.draw(st.integers(0, 4))
    shape = array.shape[:dim] + (count,) + array.shape[dim + 1:]
    size = int(np.prod(shape))
    index = np.array(data.draw(st.lists(st.integers(0, array.shape[dim] - 1), min_size=size, max_size=size)),
                     np.int64).reshape(shape)
    x, i = volta.tensor(array, device=device), volta.tensor(index, device=device)
    np.testing.assert_array_equal(volta.gather(x, dim - array.ndim, i).numpy(), np.take_along_axis(array, index, dim))
    source, expected, places = strategies.distinct(shape) + 1, array.copy(), list(np.indices(shape))
    places[dim] = index
    np.add.at(expected, tuple(places), source)
    np.testing.assert_array_equal(volta.scatter_add(x, dim, i, volta.tensor(source, device=device)).numpy(), expected)


def test_gather_of_a_smaller_index(device):
    array = strategies.distinct((4, 5, 3))
    index = np.array([[[0], [2]], [[1], [1]]])
    expected = np.take_along_axis(array[:2, :2], index, 2)
    found = volta.gather(volta.tensor(array, device=device), 2, volta.tensor(index, device=device))
    np.testing.assert_array_equal(found.numpy(), expected)


def test_select_nonzero_one_hot(device):
    array = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]], np.float32)
    x = volta.tensor(array, device=device)
    np.testing.assert_array_equal(volta.nonzero(x).numpy(), np.argwhere(array))
    np.testing.assert_array_equal(volta.masked_select(x, x > 2).numpy(), array[array > 2])
    np.testing.assert_array_equal(volta.index_select(x, 1, volta.tensor([2, 0, 2], device=device)).numpy(), array[:, [2, 0, 2]])
    np.testing.assert_array_equal(volta.one_hot(volta.tensor([[2], [0]], device=device), 3).numpy(), [[[0, 0, 1]], [[1, 0, 0]]])


# ---------------------------------------------------------------- reductions
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all}


@pytest.mark.parametrize("name", REDUCTIONS)
@hypothesis.given(data=st.data())
def test_reductions(name, data, device):
    shape = data.draw(strategies.shapes(0, 5).filter(lambda s: 0 not in s or name not in ("amax", "amin", "mean")))
    dims = data.draw(st.one_of(st.none(),
                               st.sets(st.integers(0, max(len(shape) - 1, 0)), min_size=1).map(sorted)) if shape else st.none())
    keep = data.draw(st.booleans())
    array = np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)
    if dims is not None:
        dims = tuple(d - len(shape) if data.draw(st.booleans()) else d for d in dims)
    with np.errstate(all="ignore"):
        expected = REDUCTIONS[name](array.astype(np.float64), axis=dims, keepdims=keep)
    found = getattr(volta, name)(volta.tensor(array, device=device), dims, keep)
    assert found.shape == np.shape(expected) and found.dtype is (volta.bool if name in ("any", "all") else volta.float32)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


@hypothesis.given(data=st.data())
def test_arg_reductions(data, device):
    shape = data.draw(strategies.shapes(0, 4).filter(lambda s: 0 not in s))
    dim = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1))) if shape else None
    keep = data.draw(st.booleans())
    array = np.random.default_rng(len(shape)).integers(-2, 3, shape).astype(np.float32)        # many ties
    x = volta.tensor(array, device=device)
    for name in ("argmax", "argmin"):
        found = getattr(volta, name)(x, dim, keep)
        assert found.dtype is volta.int64
        np.testing.assert_array_equal(found.numpy(), getattr(np, name)(array, axis=dim, keepdims=keep))
    if dim is not None:
        pair = x.max(dim, keep)
        np.testing.assert_array_equal(pair.values.numpy(), array.max(dim, keepdims=keep))
        np.testing.assert_array_equal(pair[1].numpy(), np.argmax(array, axis=dim, keepdims=keep))


@hypothesis.given(data=st.data())
def test_statistics(data, device):
    shape = data.draw(strategies.shapes(1, 3).filter(lambda s: 0 not in s))
    array = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
    dim = data.draw(st.integers(0, len(shape) - 1))
    x, wide = volta.tensor(array, device=device), array.astype(np.float64)
    np.testing.assert_allclose(volta.var(x, dim, correction=0).numpy(), wide.var(dim), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(volta.logsumexp(x, dim).numpy(), np.log(np.exp(wide).sum(dim)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(volta.norm(x, 2, dim).numpy(), np.sqrt((wide ** 2).sum(dim)), rtol=1e-5, atol=1e-6)
    if shape[dim] > 1:
        np.testing.assert_allclose(volta.std(x, dim, keepdim=True).numpy(), wide.std(dim, ddof=1, keepdims=True), rtol=1e-4,
                                   atol=1e-6)
    else:
        assert np.isnan(volta.std(x, dim).numpy()).all()


# ---------------------------------------------------------------- broadcasting
@hypothesis.given(data=st.data())
def test_broadcasting(data, device):
    a, b, c = (strategies.distinct(s) + 1 for s in data.draw(strategies.broadcasting(3)))
    x, y, z = (volta.tensor(v, device=device) for v in (a, b, c))
    np.testing.assert_array_equal((x + y).numpy(), a + b)
    np.testing.assert_array_equal((x < y).numpy(), a < b)
    np.testing.assert_array_equal(volta.where(x > y, z, y).numpy(), np.where(a > b, c, b))
    np.testing.assert_allclose(volta.mulacc(x, y, z).numpy(), a * b + c, rtol=1e-6)
    assert volta.shapes.broadcast_shapes(a.shape, b.shape, c.shape) == np.broadcast_shapes(a.shape, b.shape, c.shape)


@hypothesis.given(data=st.data())
def test_broadcasting_gradients(data, device):
    """Each input's gradient is the sum over what it was repeated to."""
    a, b = (strategies.distinct(s) + 1 for s in data.draw(strategies.broadcasting(2)))
    x, y = (volta.tensor(v, device=device, requires_grad=True) for v in (a, b))
    (x * y).sum().backward()
    full = np.broadcast_shapes(a.shape, b.shape)
    for leaf, other in ((x, b), (y, a)):
        wide = np.broadcast_to(other, full)
        lead = len(full) - len(leaf.shape)
        axes = tuple(i for i in range(len(full)) if i < lead or leaf.shape[i - lead] == 1)
        assert leaf.grad.shape == leaf.shape
        np.testing.assert_allclose(leaf.grad.numpy(), wide.sum(axes, dtype=np.float64).reshape(leaf.shape), rtol=1e-5)


@hypothesis.given(a=strategies.shapes(), b=strategies.shapes())
def test_shapes_that_do_not_broadcast(a, b):
    x, y = volta.zeros(a), volta.zeros(b)
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="add: shapes .* do not broadcast"):
            x + y
    else:
        assert (x + y).shape == expected


@hypothesis.given(data=st.data())
def test_matmul(data, device):
    lead_a, lead_b = data.draw(strategies.broadcasting(2))
    m, k, n = (data.draw(strategies.SIZES) for _ in range(3))
    forms = data.draw(st.sampled_from(["mm", "vm", "mv", "vv"]))
    a_shape = (k,) if forms[0] == "v" else (*lead_a[-3:], m, k)
    b_shape = (k,) if forms[1] == "v" else (*lead_b[-3:], k, n)
    random = np.random.default_rng(m + 10 * k + 100 * n)
    a, b = random.normal(size=a_shape).astype(np.float32), random.normal(size=b_shape).astype(np.float32)
    found = volta.tensor(a, device=device) @ volta.tensor(b, device=device)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- promotion
NAMES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]
# PyTorch's table for dimensioned tensors: row by column, above the diagonal.
TABLE = {("bool", n): n for n in NAMES} | {("uint8", n): n for n in NAMES[1:]} | {("int32", n): n for n in NAMES[2:]} | {
    ("int64", n): n for n in NAMES[3:]} | {("float16", n): n for n in NAMES[4:]} | {("float32", n): n for n in NAMES[5:]} | {
    ("float64", "float64"): "float64"}


@pytest.mark.parametrize("pair", TABLE, ids="-".join)
def test_promotion(pair):
    a, b = (getattr(volta, n) for n in pair)
    expected = getattr(volta, TABLE[pair])
    assert volta.promote_types(a, b) is volta.promote_types(b, a) is expected
    x, y = volta.ones(2, dtype=a), volta.ones(2, dtype=b)
    assert volta.result_type(x, y) is expected
    for found in (x + y, y + x, volta.where(volta.tensor([True, False]), x, y), volta.cat([x, y])):
        assert found.dtype is expected and found.tolist()[0] in (1, 2, True)
    assert (x / y).dtype is (expected if expected.is_floating_point else volta.float32)
    assert (x == y).dtype is volta.bool


@pytest.mark.parametrize("tensor, other, expected", [
    # (dtype and rank of the tensor, a number or the dtype of a 0-d tensor, result), as in PyTorch
    (("int32", 1), 2, "int32"), (("int32", 1), 2.5, "float32"), (("uint8", 1), 300, "uint8"), (("bool", 1), 1, "int64"),
    (("bool", 1), True, "bool"),
    (("float16", 1), 2.5, "float16"), (("float64", 1), 2.5, "float64"), (("int64", 1), True, "int64"),
    (("int32", 1), "int64", "int32"),
    (("float32", 1), "float64", "float32"), (("int64", 1), "float64", "float64"), (("float16", 1), "int64", "float16"),
    (("int32", 0), 2.5, "float32"), (("float32", 0), "float64", "float64"), (("int32", 0), "int64", "int64"),
    (("bool", 1), "uint8", "uint8")])
def test_promotion_with_numbers_and_scalars(tensor, other, expected):
    name, rank = tensor
    x = volta.ones((3,) * rank, dtype=getattr(volta, name))
    y = volta.ones((), dtype=getattr(volta, other)) if isinstance(other, str) else other
    assert volta.result_type(x, y) is getattr(volta, expected)
    if not (name == "uint8" and other == 300):
        assert (x * y).dtype is (y * x).dtype is getattr(volta, expected)


def test_promotion_on_the_device(device):
    x, y = volta.arange(3, device=device), volta.full((3,), 0.5, device=device)
    b = volta.tensor([True, False, True], device=device)
    assert (x + y).tolist() == [0.5, 1.5, 2.5] and (x * b).tolist() == [0, 0, 2] and (x * b).dtype is volta.int64
    assert (b + b).dtype is volta.bool and (b.sum()).item() == 2 and (x / 2).tolist() == [0.0, 0.5, 1.0]
    assert (x.int() * 2).dtype is volta.int32 and (y * 2).dtype is volta.float32 and (x > 0.5).tolist() == [False, True, True]


def test_a_fraction_is_true_in_a_bool_tensor(device):
    x, mask = volta.tensor([False, False], device=device), volta.tensor([True, False], device=device)
    x[mask] = 0.5
    assert x.tolist() == [True, False]
