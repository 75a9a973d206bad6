"""Views: chains of them against NumPy, what shares memory, what copies, and writing through them."""
import hypothesis
import numpy as np
import pytest
import strategies
from hypothesis import strategies as st

import volta
from volta.errors import ArgumentError, AutogradError, DTypeError, ShapeError
from volta.ops.records import view as records


def step(x, kind, argument):
    """One view operation on a tensor or on an array."""
    numpy = isinstance(x, np.ndarray)
    if kind == "slice":
        return x[argument]
    if kind == "permute":
        return x.transpose(argument) if numpy else x.permute(*argument)
    if kind == "expand":
        return np.broadcast_to(x, argument) if numpy else x.expand(*argument)
    if kind == "unsqueeze":
        return np.expand_dims(x, argument) if numpy else x.unsqueeze(argument)
    if kind == "squeeze":
        return x.squeeze()
    if kind == "transpose":
        return np.swapaxes(x, *argument) if numpy else x.transpose(*argument)
    if kind == "flip":
        return np.flip(x, argument) if numpy else (x.flip(argument) if argument else x)
    return x.reshape(argument)


@hypothesis.given(data=st.data())
def test_chains(data, device):
    """Up to five views in a row; the strides must describe NumPy's elements at every step."""
    array = strategies.distinct(data.draw(strategies.shapes(1)))
    x = volta.tensor(array, device=device)
    y, expected = x, array
    for _ in range(data.draw(st.integers(1, 5))):
        kind, argument = data.draw(strategies.view_steps(expected.shape))
        y, expected = step(y, kind, argument), step(expected, kind, argument)
        if expected.size > 2000 or expected.ndim > 7:
            break
    assert y.shape == expected.shape and y.numel() == expected.size
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal((y + 1.0).numpy(), expected + 1)
    np.testing.assert_array_equal(y.contiguous().numpy(), expected)
    assert y.contiguous().is_contiguous()
    assert y.sum().item() == pytest.approx(float(expected.sum()), rel=1e-5)


@hypothesis.given(data=st.data())
def test_gradient_through_chains(data):
    """The gradient of sum(view * w): how often, and with which weight, each element is seen."""
    array = strategies.distinct(data.draw(strategies.shapes(1)), np.float64)
    x = volta.tensor(array, requires_grad=True)
    y, places = x * 1.0, strategies.distinct(array.shape, np.int64)
    for _ in range(data.draw(st.integers(1, 4))):
        kind, argument = data.draw(strategies.view_steps(places.shape))
        y, places = step(y, kind, argument), step(places, kind, argument)
        if places.size > 500 or places.ndim > 7:
            break
    weights = 1 + np.arange(places.size, dtype=np.float64).reshape(places.shape)
    (y * volta.tensor(weights)).sum().backward()
    expected = np.bincount(places.ravel(), weights.ravel(), array.size).reshape(array.shape)
    np.testing.assert_allclose(x.grad.numpy(), expected)


@hypothesis.given(data=st.data())
def test_writing_through_views(data, device):
    """Views without repetition: a write shows in the base where NumPy's does."""
    array = strategies.distinct(data.draw(strategies.shapes(1, 3)))
    x = volta.tensor(array, device=device)
    y, expected = x, array
    for _ in range(data.draw(st.integers(1, 3))):
        steps = strategies.view_steps(expected.shape).filter(lambda s: s[0] in ("slice", "permute", "unsqueeze", "transpose"))
        kind, argument = data.draw(steps)
        y, expected = step(y, kind, argument), step(expected, kind, argument)
    y.mul_(2.0).add_(100.0)
    expected *= 2
    expected += 100
    np.testing.assert_array_equal(x.numpy(), array)


# ---------------------------------------------------------------- sharing
def test_views_share_and_copies_do_not(device):
    x = volta.arange(12.0, device=device).reshape(3, 4)
    views = [x.view(4, 3), x.reshape(-1), x.t(), x[1:], x[:, ::2], x[::-1], x.expand(2, 3, 4), x.unsqueeze(0), x[None], x.detach(),
             x[0], x.flatten(), x.squeeze(), x.narrow(1, 1, 2), x.T, x.mT, x.view_as(x), x[...], x.t().reshape(4, 3), *x.split(2),
             *x.chunk(2, 1), *x.unbind(), volta.shrink(x, ((1, 2), (0, 3))), volta.stride_op(x, (2, -1)),
             volta.broadcast_to(x, (1, 3, 4))]
    for v in views:
        assert v.storage is x.storage
    copies = [x.clone(), x.t().contiguous(), x.t().reshape(12), x.flip(0), x[[0, 1]], x + 0, x.repeat(1, 1), volta.cat([x]),
              x.to(x.dtype, copy=True)]
    for c in copies:
        assert c.storage is not x.storage
    assert x.contiguous() is x and x.t().t().is_contiguous()


def test_reshape_is_a_view_where_strides_allow(device):
    x = volta.zeros(4, 6, 5, device=device)
    assert x[:, :3].reshape(4, 15).storage is x.storage                 # the two inner dimensions still join
    assert x[:, :3].reshape(12, 5).storage is not x.storage
    assert x.permute(1, 0, 2).reshape(6, 4, 5, 1).storage is x.storage
    assert x[:, ::2].reshape(4, 3, 1, 5).storage is x.storage
    with pytest.raises(ShapeError, match="cannot be seen as"):
        x[:, :3].view(12, 5)
    assert x[:, :3].view(4, 15).shape == (4, 15)


@pytest.mark.parametrize("shape, new, strides", [
    ((2, 3), (3, 2), (2, 1)), ((2, 3), (1, 6), (6, 1)), ((4, 1, 6), (2, 2, 6), (12, 6, 1)), ((), (1, 1), (1, 1)),
    ((0, 3), (3, 0), (1, 1))])
def test_strides(shape, new, strides, device):
    y = volta.zeros(shape, device=device).reshape(new)
    assert y.shape == new and (y.numel() == 0 or tuple(s for s, n in zip(y.stride(), new) if n > 1) == tuple(
        s for s, n in zip(strides, new) if n > 1))


def test_aliasing_follows_pytorch(device):
    """Writes through any view show in all others, and the version of the one storage counts them."""
    x = volta.zeros(2, 3, device=device)
    y, z = x.t(), x[1]
    z.add_(1.0)
    y[0].mul_(5.0)
    assert x.tolist() == [[0, 0, 0], [5, 1, 1]] and x._version == y._version == z._version == 2
    x.detach()[0, 0] = 9.0
    assert x[0, 0].item() == 9.0 and x._version == 3


def test_numpy_shares_memory_on_the_cpu():
    x = volta.arange(6.0).reshape(2, 3)
    array = x.t()[1:].numpy()
    array[0, 0] = 50.0
    assert x[0, 1].item() == 50.0
    source = np.arange(6.0, dtype=np.float32).reshape(2, 3)[:, ::2]
    y = volta.from_numpy(source)
    source[0, 0] = 7.0
    assert y.tolist() == [[7.0, 2.0], [3.0, 5.0]] and y.stride() == (3, 2)
    copied = volta.tensor(source)
    source[0, 0] = 8.0
    assert copied[0, 0].item() == 7.0


# ---------------------------------------------------------------- functions over shapes
@hypothesis.given(data=st.data())
def test_pad(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1, 3)))
    rank = data.draw(st.integers(1, array.ndim))
    sizes = [(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))) for _ in range(rank)]
    expected = np.pad(array, [(0, 0)] * (array.ndim - rank) + sizes[::-1], constant_values=-1.5)
    found = volta.pad(volta.tensor(array, device=device), tuple(v for pair in sizes for v in pair), value=-1.5)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_negative_padding_cuts(device):
    x = volta.arange(12.0, device=device).reshape(3, 4)
    assert volta.pad(x, (-1, 1, 0, -2)).tolist() == [[1, 2, 3, 0]]


@hypothesis.given(data=st.data())
def test_cat_stack_split(data, device):
    shape = data.draw(strategies.shapes(1, 3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for i in range(data.draw(st.integers(1, 4))):
        own = list(shape)
        own[dim] = data.draw(strategies.SIZES)
        parts.append(strategies.distinct(tuple(own)) + 1000 * i)
    tensors = [volta.tensor(p, device=device) for p in parts]
    whole = volta.cat(tensors, dim)
    np.testing.assert_array_equal(whole.numpy(), np.concatenate(parts, dim))
    for part, back in zip(parts, whole.split([p.shape[dim] for p in parts], dim)):
        np.testing.assert_array_equal(back.numpy(), part)
    same = [strategies.distinct(shape) + i for i in range(3)]
    np.testing.assert_array_equal(volta.stack([volta.tensor(p, device=device) for p in same], dim).numpy(),
                                  np.stack(same, dim if dim >= 0 else dim))


def test_cat_of_views_and_dtypes(device):
    a = volta.arange(6, device=device).reshape(2, 3).t()
    b = volta.tensor([[0.5, 1.5]], device=device).expand(3, 2)
    joined = volta.cat([a, b], 1)
    assert joined.dtype is volta.float32 and joined.tolist() == [[0, 3, 0.5, 1.5], [1, 4, 0.5, 1.5], [2, 5, 0.5, 1.5]]


@hypothesis.given(data=st.data())
def test_repeat_and_chunk(data, device):
    array = strategies.distinct(data.draw(strategies.shapes(1, 3)))
    counts = tuple(data.draw(st.integers(0, 3)) for _ in range(array.ndim + data.draw(st.integers(0, 1))))
    x = volta.tensor(array, device=device)
    np.testing.assert_array_equal(x.repeat(*counts).numpy(), np.tile(array, counts))
    parts = x.chunk(3)
    assert len(parts) <= 3
    np.testing.assert_array_equal(volta.cat(parts).numpy(), array)


def test_triangles_and_eye(device):
    array = strategies.distinct((2, 4, 5)) + 1
    x = volta.tensor(array, device=device)
    for k in (-2, 0, 1, 9):
        np.testing.assert_array_equal(x.tril(k).numpy(), np.tril(array, k))
        np.testing.assert_array_equal(x.triu(k).numpy(), np.triu(array, k))
    np.testing.assert_array_equal(volta.eye(3, 5, device=device).numpy(), np.eye(3, 5))


def test_an_expanded_tensor_is_not_written_to(device):
    x = volta.ones(1, device=device)
    for change in (lambda t: t.add_(1), lambda t: t.copy_(volta.arange(5, device=device)), lambda t: t.mul_(t)):
        with pytest.raises(AutogradError, match="(add|copy|mul)_: unsupported operation: more than one element"):
            change(x.expand(5))
    assert x.tolist() == [1.0]
    x.expand(1).add_(1)
    assert x.tolist() == [2.0]


# ---------------------------------------------------------------- as other elements
def test_bits_as_other_elements(device):
    x = volta.arange(16, dtype=volta.float32, device=device).reshape(2, 8)
    host = np.arange(16, dtype=np.float32).reshape(2, 8)
    for part, array in ((x, host), (x[:, 2:6], host[:, 2:6])):
        for dtype in (volta.int32, volta.float16):
            found = part.view(dtype)
            assert found.dtype is dtype and found.storage is x.storage and not found.requires_grad
            np.testing.assert_array_equal(found.numpy(), np.ascontiguousarray(array).view(dtype.name))
    assert x.t().view(volta.int32).stride() == (1, 8)
    x.view(volta.int32)[0] = 0x40000000
    assert x[0].tolist() == [2.0] * 8
    joined = x.view(volta.float16)[:, 4:8].view(volta.float32)
    assert joined.storage_offset() == 2 and joined.tolist() == x[:, 2:4].tolist()


def test_bits_that_cannot_be_read_so(device):
    x = volta.arange(16, dtype=volta.float32, device=device).reshape(2, 8)
    for make, text in ((lambda: x.t().view(volta.float16), "last dimension of stride 1"),
                       (lambda: volta.ones((), device=device).view(volta.float16), "last dimension of stride 1"),
                       (lambda: x.view(volta.float16)[:, 1:3].view(volta.int32), "divisible by 2"),
                       (lambda: x.view(volta.float16)[:, :3].view(volta.int32), "divisible by 2"),
                       (lambda: volta.zeros(2, 5, dtype=volta.float16, device=device)[:, :4].view(volta.int32), "divisible by 2")):
        with pytest.raises(ShapeError, match=text):
            make()
    with pytest.raises(DTypeError, match="bool"):
        x.view(volta.bool)
    with pytest.raises(ArgumentError, match="needs sizes or a dtype"):
        x.view(2, 8, dtype=volta.int32)


def test_bits_that_a_gpu_does_not_hold(gpu):
    for own, other in ((volta.int64, volta.int32), (volta.float32, volta.int64), (volta.float32, volta.uint8), (volta.bool, volta.uint8)):
        with pytest.raises(DTypeError, match=r"on a GPU only int32, float16 and float32 .*\.cpu\(\)"):
            volta.ones(2, 8, dtype=own, device=gpu).view(other)


def test_bits_at_an_odd_address():
    with pytest.raises(ShapeError, match="no multiple of 8; clone"):
        volta.from_numpy(np.zeros(9, np.float32)[1:]).view(volta.int64)


@pytest.mark.parametrize("dtype", [volta.float32, volta.int64, volta.bool])
def test_changes_of_expanded_tensors_that_pytorch_makes(device, dtype):
    """An element gets what was written last to one of its places."""
    def made(shape=(1, 3)):
        return volta.tensor([[1, 0, 1]] if shape == (1, 3) else [[1], [0]], dtype=dtype, device=device).expand(2, 3)
    mask = volta.tensor([[True, False, False], [False, True, False]], device=device)
    row = volta.tensor([1], device=device)
    for change, expected in ((lambda x: x.masked_fill_(mask, 0), [0, 0, 1]), (lambda x: x.index_fill_(1, row, 1), [1, 1, 1]),
                             (lambda x: x.index_put_((row,), volta.tensor([0, 1, 0], device=device).to(dtype)), [0, 1, 0]),
                             (lambda x: x.__setitem__(mask, 0), [0, 0, 1]), (lambda x: x.__setitem__([0], 1), [1, 1, 1])):
        x = made()
        with pytest.warns(UserWarning, match="of expanded tensors it is deprecated; clone"):
            change(x)
        assert x.int().tolist() == [expected] * 2
    for change, expected in ((lambda x: x.tril_(), [[0] * 3, [0] * 3]), (lambda x: x.triu_(1), [[0] * 3] * 2),
                             (lambda x: x[:, :1].fill_diagonal_(0), [[0] * 3, [0] * 3])):
        x = made((2, 1))
        change(x)
        assert x.int().tolist() == expected
    x = made()
    if dtype is not volta.bool:
        with pytest.warns(UserWarning, match="deprecated"):
            x.index_put_((row,), volta.tensor([[1, 2, 3]], device=device).to(dtype), accumulate=True)
        assert x.tolist()[0] == [2, 2, 4]
        assert volta.nn.functional.threshold(made(), 0, 7, inplace=True).tolist()[1] == [1, 7, 1]
        with pytest.raises(AutogradError, match="more than one element"):
            x.add_(1)
    with pytest.raises(AutogradError, match="more than one element"):
        x.copy_(made().clone())


def test_records_of_views_look_at_their_dimensions():
    x = volta.ones(2, 3)
    for dims in ((0, 2), (-1, 0), (1 << 40, 1)):
        with pytest.raises(IndexError, match="view: there is no dimension"):
            records.permute_op(x, dims=dims)
    with pytest.raises(IndexError, match=r"view: there is no dimension 2 in shape \(2, 3\)"):
        records.unfold_op(x, dim=2, size=1, step=1)
