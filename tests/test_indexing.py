"""Indexing, reading and writing: Hypothesis against NumPy."""
import timeit

import hypothesis
import numpy as np
import pytest
import strategies
from hypothesis import strategies as st

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError, IndexRangeError, RankError, ShapeError


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
                  (None, [1], None), [], np.array([-1, -4]), (Ellipsis, [1, 2]), np.uint8(3)):
        numpy_index = list(index) if isinstance(index, range) else index
        numpy_index = np.array([], np.int64) if isinstance(index, list) and not index else numpy_index
        np.testing.assert_array_equal(x[index].numpy(), array[numpy_index], err_msg=repr(index))
    assert x[[[0, 1], [2, 3]]].tolist() == array[[0, 1], [2, 3]].tolist() and x[(0, 1), 2].tolist() == array[[0, 1], 2].tolist()
    with pytest.warns(UserWarning, match="uint8 tensors are masks"):
        assert x[volta.tensor([1, 0, 1, 0], dtype=volta.uint8, device=device)].tolist() == array[[0, 2]].tolist()
    for dtype in (volta.int32, volta.int64):
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
    """A source that overlaps the target in part is refused, as in PyTorch; one that lies beside it, or is a number of it, is not."""
    x = volta.arange(9.0, device=device).reshape(3, 3)
    before = x.tolist()
    for write in (lambda: x[1:].copy_(x[:-1]), lambda: x[1:].add_(x[:-1]), lambda: x.__setitem__(slice(1, None), x[:-1]),
                  lambda: x.__setitem__(slice(None), x.t()), lambda: x.add_(x.t()), lambda: x.clamp_(x.t(), x), lambda: x.mul_(x[0]),
                  lambda: x.addcmul_(x, x.t()), lambda: x.index_add_(0, volta.tensor([0], device=device), x[1:2]),
                  lambda: x.__setitem__(volta.tensor([2, 1, 0], device=device), x)):
        with pytest.raises(ArgumentError, match="some elements of the input tensor and the written-to tensor refer to a single memory"):
            write()
    assert x.tolist() == before
    x[0] = x[1]
    x[1:].t().copy_(x[1:].t())
    x[x > 5] = x[0, 0]
    x.masked_fill_(x == 5, x[1, 1])
    x[2].fill_(x[0, 1])
    x[:] = x.flip(0)
    assert x.tolist() == [[4, 4, 4], [3, 4, 4], [3, 4, 4]]


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
    for yes in (True, volta.tensor(True, device=device)):
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


def test_indices_that_are_part_of_the_target(device):
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
        with pytest.raises((ArgumentError, DTypeError), match="tensor_split: "):
            x.tensor_split(wrong)
    with pytest.raises(RankError, match="tensor_split: a 0-d tensor has no dimension"):
        x[0].tensor_split(2)


def test_narrow_takes_integers(device):
    x = volta.arange(6.0, device=device).reshape(3, 2)
    assert x.narrow(0, volta.tensor(1, device=device), np.int64(2)).tolist() == [[2, 3], [4, 5]]
    for start, length in ((True, 1), (1, True), (1.0, 1), (volta.tensor([1], device=device), 1), (volta.tensor(True, device=device), 1)):
        with pytest.raises((ArgumentError, DTypeError), match="narrow: (start|length) must be an integer"):
            x.narrow(0, start, length)
    with pytest.raises(RankError, match="narrow: a 0-d tensor"):
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


INT64_ALONE = [
    lambda x, i: volta.take(x, i), lambda x, i: volta.put(x, i, x[:1]), lambda x, i: volta.nn.functional.one_hot(i),
    lambda x, i: volta.index_copy(x, 0, i, x[:1]), lambda x, i: volta.index_fill(x, 0, i, 2.0), lambda x, i: volta.take_along_dim(x, i, 0),
    lambda x, i: volta.nn.functional.nll_loss(x[None], i), lambda x, i: volta.nn.functional.cross_entropy(x[None], i),
    lambda x, i: volta.tensor_split(x, i), lambda x, i: volta.nn.functional.multi_margin_loss(x[None], i)]


@pytest.mark.parametrize("call", INT64_ALONE)
def test_what_takes_int64_alone(call, device):
    """int32 is refused where PyTorch refuses it."""
    x, i = volta.ones(3, device=device), volta.tensor([1], device=device)
    call(x, i)
    with pytest.raises((DTypeError, ArgumentError), match="int64"):
        call(x, i.int())


def test_where_by_bytes(device, monkeypatch):
    monkeypatch.setattr(volta.errors, "told_again", True)
    with pytest.warns(UserWarning, match="uint8 condition"):
        found = volta.where(volta.tensor([2, 0], dtype=volta.uint8, device=device), volta.ones(2, device=device), 0.0)
    assert found.tolist() == [1, 0]


def test_index_tensors_of_several_shapes_side_by_side():
    x = np.arange(60.0).reshape(3, 4, 5)
    i, j = np.array([[0], [2], [-1]]), np.array([1, -4, 3, 0])
    at = tuple(map(volta.tensor, (i, j)))
    np.testing.assert_equal(volta.tensor(x)[at].numpy(), x[i, j])
    np.testing.assert_equal(volta.tensor(x)[:, at[0], at[1]].numpy(), x[:, i, j])
    y, z = volta.tensor(x), x.copy()
    y[at], z[i, j] = 7.0, 7.0
    np.testing.assert_equal(y.numpy(), z)
    with pytest.raises(Exception, match="do not broadcast"):
        volta.tensor(x)[volta.tensor([0, 1]), volta.tensor([0, 1, 2])]


def test_several_dots(device):
    x = volta.arange(24.0, device=device).reshape(2, 3, 4)
    assert (x[..., 0, ...] == x[..., 0]).all() and x[..., ...].shape == (2, 3, 4) and x[0, ..., ..., ...].shape == (3, 4)
    assert x[..., volta.tensor([0, 1], device=device), ...].shape == (2, 3, 2)        # of what the first left: nothing
    x[..., 1, ...] = 0
    assert x[..., 1].sum() == 0 and x[..., 2].min() > 0
    with pytest.raises(IndexError, match="more than one ..."):
        print(x[..., 0, ..., 1])
