"""Reductions over any dims: Hypothesis against NumPy."""
import hypothesis
import numpy as np
import pytest
import strategies
from hypothesis import strategies as st

import volta
from volta.errors import ArgumentError

REDUCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min, "any": np.any, "all": np.all}


@pytest.mark.parametrize("name", REDUCTIONS)
@hypothesis.given(data=st.data())
def test_reductions(name, data, device):
    shape = data.draw(strategies.shapes(0, 5).filter(lambda s: 0 not in s or name not in ("amax", "amin", "mean")))
    dims = data.draw(st.one_of(st.none(),
                               st.sets(st.integers(0, max(len(shape) - 1, 0)), min_size=1, max_size=1 if name == "prod" else None).map(
                                   sorted)) if shape else st.none())
    keep = data.draw(st.booleans())
    array = np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)
    if dims is not None:
        dims = tuple(d - len(shape) if data.draw(st.booleans()) else d for d in dims)
    keep = keep and (name != "prod" or dims is not None)
    with np.errstate(all="ignore"):
        expected = REDUCTIONS[name](array.astype(np.float64), axis=dims, keepdims=keep)
    given = (dims, keep) if name != "prod" else () if dims is None else (dims[0], keep)         # one dimension, or all
    found = getattr(volta, name)(volta.tensor(array, device=device), *given)
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


def test_the_forms_of_max(device):
    x = volta.tensor([[1.0, 3.0], [2.0, 0.0]], device=device)
    place = volta.tensor(0, device=device)
    assert x.max(place).tolist() == [[1.0, 3.0], [2.0, 0.0]] and x.max(dim=place).values.tolist() == [2.0, 3.0]
    assert x.min(0, True).indices.tolist() == [[0, 1]] and volta.min(x, other=place).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    for call in (lambda: x.max(keepdim=True), lambda: x.max(0, other=x), lambda: x.min(0, dim=1)):
        with pytest.raises(ArgumentError, match="takes a dimension, and keepdim with it|keepdim goes with a dimension"):
            call()
    with pytest.raises(ArgumentError, match="median: keepdim goes with a dimension"):
        x.median(keepdim=True)


@pytest.mark.parametrize("count", [1, 2, 17, 40])
def test_products_of_what_lies_over_itself(count, device):
    """Of an element repeated, and of one alone, whose dimension may have no step; in vectors of columns too."""
    for shape in ((100,), (64, 3), (130,)):
        x = np.linspace(0.9, 1.1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        repeated = volta.tensor(x, device=device).expand(count, *shape)
        np.testing.assert_allclose(repeated.prod(0).numpy(), x.astype(np.float64) ** count, rtol=1e-5)
        np.testing.assert_array_equal(volta.tensor(x, device=device).unsqueeze(-1).prod(-1).numpy(), x)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_second_derivatives_of_products_against_torch(dim, device):
    """Of the way that is taken alone: beside zeros, infinity makes NaN of the derivatives that meet it."""
    torch = pytest.importorskip("torch")
    for planted in ({}, {2: 0.0}, {2: 0.0, 7: 0.0}, {2: 0.0, 7: np.inf}, {1: np.nan, 2: 0.0}):
        x = np.linspace(0.5, 1.5, 12, dtype=np.float32)
        for place, value in planted.items():
            x[place] = value
        found = []
        for module, leaf in ((volta, volta.tensor(x.reshape(3, 4), device=device)), (torch, torch.tensor(x.reshape(3, 4)))):
            leaf.requires_grad_()
            out = leaf.prod() if dim is None else leaf.prod(dim)
            first, = module.autograd.grad(out.sum(), leaf, create_graph=True)
            found.append([t.detach().cpu().numpy() for t in (first, *module.autograd.grad(first.sum(), leaf))])
        for ours, theirs in zip(*found):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_gradients_of_products(device, dim):
    """The product of the others: the quotient where no element is 0, which is NaN beside infinities, as in PyTorch."""
    def gradient(values):
        x = volta.tensor(values, device=device, requires_grad=True)
        y = x.prod() if dim is None else x.prod(dim)
        y.sum().backward()
        return x.grad.numpy()

    x = np.array([[2.0, -3.0], [0.5, 4.0]], np.float32)
    axis = None if dim is None else (dim,)
    np.testing.assert_allclose(gradient(x), np.prod(x, axis, keepdims=True) / x, rtol=1e-6)
    x[0, 0] = np.inf
    found = gradient(x)
    assert np.isnan(found[0, 0]) and np.isinf(found[0, 1]) == (dim != 0)
    x[0] = 0.0, -3.0
    want = {None: [[-6.0, 0.0], [0.0, 0.0]], 0: [[0.5, 4.0], [0.0, -3.0]], 1: [[-3.0, 0.0], [4.0, 0.5]]}[dim]
    np.testing.assert_allclose(gradient(x), want, rtol=1e-6, atol=0)


@pytest.fixture
def threads():
    before = volta.get_num_threads()
    yield volta.set_num_threads
    volta.set_num_threads(before)


@pytest.mark.parametrize("dtype", (volta.float32, volta.float64, volta.bfloat16, volta.int64, volta.int32, volta.uint8, volta.bool))
def test_of_narrow_matrices(dtype, threads):
    """Few columns, which many rows at a time are added to, and few elements of many rows, which are taken apart: of any strides, on any
    number of threads."""
    rng = np.random.default_rng(0)
    for rows, n in ((5, 3), (17, 6), (2000, 1), (3001, 2), (3001, 3), (40000, 5), (3001, 6), (2000, 7), (2000, 16), (2000, 17)):
        x = volta.tensor(rng.integers(0, 3, (rows + 1, n + 1))).to(dtype)
        for y in (x[1:, 1:], x[1:, 1:].clone(), x[1:, 1:].t(), x[1:, :-1].flip(0), x[::2, 1:]):
            array = y.double().numpy()
            for name, f in REDUCTIONS.items():
                if name == "mean" and dtype.category != 2 or name == "prod" and dtype is volta.bfloat16 or name == "prod" and rows > 17:
                    continue
                for dim in range(2):
                    want, found = f(array, axis=dim), []
                    for count in (1, 2):
                        threads(count)
                        found.append(getattr(volta, name)(y, dim).double().numpy())
                    np.testing.assert_array_equal(*found, err_msg=f"{name} {rows, n} {dim}")
                    close = name in ("mean", "prod") or dtype is volta.bfloat16
                    np.testing.assert_allclose(found[0], want, rtol=(4e-3 if dtype is volta.bfloat16 else 1e-6) if close else 0,
                                               err_msg=f"{name} {rows, n} {dim}")
    x = volta.zeros(4000, 3, dtype=volta.float64)
    x[3999, 1] = np.nan
    assert [np.isnan(getattr(x, name)(0).numpy()).tolist() for name in ("sum", "amax", "prod")] == [[False, True, False]] * 3
    assert [int(np.isnan(getattr(x, name)(1).numpy()).sum()) for name in ("sum", "amax", "prod")] == [1, 1, 1]
