"""What the host reads of tensors without a kernel: lists, whether two are equal, where elements are not 0; and shapes worked out in C."""
import threading

import numpy as np
import pytest

import volta
from volta import shapes
from volta._kernels import core
from volta.errors import NumberError

KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16")


def numbers(n, kind, seed=0):
    return volta.tensor(np.random.default_rng(seed).integers(0, 2, n)).to(getattr(volta, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_lists(kind):
    x = numbers((3, 4), kind)
    want = x.float().numpy().tolist()
    assert x.tolist() == want
    assert x.t().tolist() == np.transpose(want).tolist()
    assert x.stride_op((-1, 2)).tolist() == np.array(want)[::-1, ::2].tolist()
    assert x[1, 2].tolist() == want[1][2] and x[:0].tolist() == [] and x[:, :0].tolist() == [[], [], []]
    assert isinstance(x[0, 0].tolist(), bool if kind == "bool" else float if "float" in kind else int)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000])
def test_equal(kind, size):
    x, y = numbers(size, kind), numbers(size, kind)
    assert volta.equal(x, y) is True
    for at in {0, size // 2, size - 1} if size else ():
        y = x.clone()
        y[at] = 1 - int(y[at].item())
        assert volta.equal(x, y) is False


def test_equal_of_special_values():
    nan = volta.tensor([float("nan")])
    assert not volta.equal(nan, nan)
    assert volta.equal(volta.tensor([0.0]), volta.tensor([-0.0]))
    assert not volta.equal(volta.zeros(2), volta.zeros(2, 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (1,), (256,), (257,), (3, 255), (2, 3, 300), (0, 3), (3, 0)])
def test_nonzero(kind, shape):
    x = numbers(shape, kind)
    want = np.argwhere(x.float().numpy())
    assert x.nonzero().tolist() == want.tolist() and x.nonzero().shape == want.shape
    if len(shape) == 3:
        assert x.transpose(0, 2).nonzero().tolist() == np.argwhere(x.float().numpy().transpose(2, 1, 0)).tolist()
    found = x.nonzero(as_tuple=True)
    assert [i.tolist() for i in found] == [i.tolist() for i in np.nonzero(np.atleast_1d(x.float().numpy()))]


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
def test_few_normal_numbers_begin_as_many_do(dtype):
    volta.manual_seed(3)
    many = volta.randn(256, dtype=dtype)
    for n in (1, 2, 3, 15, 31, 32, 33, 100, 255):
        volta.manual_seed(3)
        assert volta.equal(volta.randn(n, dtype=dtype), many[:n])


def test_strides_of_views_are_those_of_numpy():
    random = np.random.default_rng(1)
    for _ in range(2000):
        shape = tuple(random.integers(1, 4, random.integers(1, 5)))
        x = np.zeros(shape, np.int8)
        x = x.transpose(random.permutation(x.ndim))[tuple(slice(None, None, int(s)) for s in random.choice([1, 2], x.ndim))]
        new = list(x.shape)
        random.shuffle(new)
        new = tuple(map(int, new)) if random.random() < 0.5 else (x.size,)
        found = shapes.view_strides(tuple(map(int, x.shape)), x.strides, new)
        copied = not np.shares_memory(x, x.reshape(new))
        assert (found is None) == copied, (x.shape, x.strides, new)
        if not copied:
            seen = x.reshape(new).strides
            assert [s for s, n in zip(found, new) if n > 1] == [s for s, n in zip(seen, new) if n > 1]


def test_shapes_that_do_not_fit():
    for size, shape in ((6, (4, -1)), (6, (-1, -1)), (6, (-2, -3)), (6, (5,)), (0, (0, -1)), (2, (1 << 62, 4)), (1, (0,))):
        with pytest.raises(volta.errors.ShapeError):
            shapes.infer("view", size, shape)
    assert shapes.infer("view", 0, (3, 0)) == (3, 0) and shapes.infer("view", 12, (3, -1, 2)) == (3, 2, 2)
    for given in ((2,), (3, 2), (-1, 2, 3), (2, -2)):
        with pytest.raises(volta.errors.ShapeError):
            shapes.expanded((2, 3), given)
    assert shapes.expanded((1, 3), (2, 5, -1)) == (2, 5, 3)
    for dims in ((0, 0), (0,), (0, 2), (0, 1, 1)):
        with pytest.raises((volta.errors.ArgumentError, volta.errors.IndexRangeError)):
            shapes.as_order("permute", dims, 2)


def test_places_while_another_thread_writes():
    """Elements are counted before they are written down: with others by then, either an error or a result of the size counted."""
    x = volta.zeros(300, 1000)
    shown, stop = x.numpy(), threading.Event()

    def write():
        while not stop.is_set():
            shown[:] = 1
            shown[:] = 0

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(100):
            try:
                found = x.nonzero().numpy()
            except volta.errors.ArgumentError as error:
                assert "another thread" in str(error)
            else:
                assert found.shape[1] == 2 and (found >= 0).all() and (found < (300, 1000)).all()
    finally:
        stop.set()
        thread.join()


def test_places_need_contiguous_tensors():
    with pytest.raises(volta.errors.ArgumentError, match="contiguous"):
        core.true_places(volta.ones(3, 4).t())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(1,), (5, 7), (4000,)])
def test_runs_of_equal_elements(dtype, shape):
    x = volta.tensor(np.random.default_rng(3).integers(0, 3, shape)).to(getattr(volta, dtype))
    if x.dtype.is_floating_point and x.numel() > 1:
        x.view(-1)[[1, 2, 4]] = float("nan")            # each a run of its own
        x.view(-1)[5], x.view(-1)[6] = 0.0, -0.0        # one run
    flat = x.float().numpy().reshape(-1)
    starts = np.flatnonzero(np.r_[True, flat[1:] != flat[:-1]])
    values, runs, lengths = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert values.dtype is x.dtype and np.array_equal(values.float().numpy(), flat[starts], equal_nan=True)
    assert np.array_equal(runs.numpy().reshape(-1), np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(flat)])))
    assert runs.shape == x.shape and np.array_equal(lengths.numpy(), np.diff(np.r_[starts, len(flat)]))
    assert np.array_equal(x.unique_consecutive().float().numpy(), flat[starts], equal_nan=True)
    assert np.array_equal(x.unique_consecutive(return_counts=True)[1].numpy(), lengths.numpy())
    assert np.array_equal(x.unique_consecutive(return_inverse=True)[1].numpy(), runs.numpy())


@pytest.mark.parametrize("dtype", [volta.float32, volta.float64])
def test_all_between(dtype):
    x = volta.tensor([0.0, 0.5, 1.0]).to(dtype)
    assert core.all_between(x, 0.0, 1.0) and not core.all_between(x, 0.0, 0.75) and not core.all_between(x, 0.25, 1.0)
    assert not core.all_between(x * float("nan"), 0.0, 1.0) and not core.all_between(x.half(), 0.0, 1.0)
    assert not core.all_between(volta.zeros(2, 2, dtype=dtype)[:, 0], 0.0, 1.0)



@pytest.mark.parametrize("data", [[1.5, -2.0], [[1, 2], [3, -4]], [[[1.0], [float("nan")]]], [1, 2.0], [True, 2], [[1.0], [2]], [],
                                  [[], []], [1 << 62, -(1 << 63)], [1e300, float("-inf")], [[1, 2], (3, 4)], 2.5, -0.0, 3, True])
@pytest.mark.parametrize("default", [volta.float32, volta.float64])
def test_numbers_and_lists_as_numpy_takes_them(data, default):
    volta.set_default_dtype(default)
    try:
        found = volta.tensor(data)
    finally:
        volta.set_default_dtype(volta.float32)
    expected = np.asarray(data)
    with np.errstate(over="ignore"):
        expected = expected.astype(np.float32) if expected.dtype == np.float64 and default is volta.float32 else expected
    assert found.numpy().dtype == expected.dtype and found.shape == expected.shape
    assert np.array_equal(found.numpy(), expected, equal_nan=True)


@pytest.mark.parametrize("data", [[1 << 63], [1, 1 << 63], [[-1, 2], [3, 1 << 63]]])
def test_whole_numbers_beyond_int64_are_refused(data):
    with pytest.raises(NumberError, match="does not fit into volta.int64"):
        volta.tensor(data)


@pytest.mark.parametrize("options", [{}, {"return_inverse": True}, {"return_counts": True}])
def test_a_run_of_equal_zeros_is_its_first(options):
    found = volta.unique_consecutive(volta.tensor([0.0, -0.0, 1.0, -0.0, 0.0]), **options)
    values = found[0] if options else found
    assert np.signbit(values.numpy()).tolist() == [False, False, True]
