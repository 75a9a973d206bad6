"""Random subscripts, read and written, in both libraries: values, shapes, what is a view, errors, and first and second derivatives."""

import numpy as np
import pytest

import volta

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")

CASES = {"cpu": 2000, "gpu": 200}


def random_shape(rng):
    return tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4, 5], int(rng.integers(0, 5)), p=[0.03, 0.17, 0.2, 0.2, 0.2, 0.2]))


def random_item(rng, size, extra):
    """One item for a dimension, now and then a wrong one. Arrays stand for tensors."""
    wrong = rng.random() < 0.02
    kind = rng.choice(["int", "slice", "tensor", "list", "scalar"], p=[0.3, 0.35, 0.25, 0.05, 0.05])
    low, high = (-size - 2, size + 2) if wrong else (-size, max(size, 1 - size))
    if kind == "int":
        return int(rng.integers(low, high))
    if kind == "slice":
        bound = [None if rng.random() < 0.4 else int(rng.integers(-size - 2, size + 3)) for _ in range(2)]
        return slice(*bound, None if rng.random() < 0.5 else int(rng.integers(1, 4)))
    if kind == "scalar":
        return np.asarray(rng.integers(low, high))
    shape = extra if rng.random() < 0.95 else (int(rng.integers(1, 6)),)
    index = rng.integers(low, high, tuple(n if rng.random() < 0.8 else 1 for n in shape[int(rng.integers(0, len(shape))):]))
    return index.tolist() if kind == "list" and index.ndim == 1 else index.astype(np.int32 if rng.random() < 0.2 else np.int64)


def random_key(rng, shape):
    """A subscript for a tensor of `shape`: ints, slices, tensors, masks, None, `...` and bools."""
    extra = [(3,), (2, 2), (1,), (0,), (2, 1, 2)][rng.choice(5, p=[0.5, 0.2, 0.15, 0.05, 0.1])]
    items, d = [], 0
    count = int(rng.integers(0, len(shape) + 1)) + (rng.random() < 0.02)
    while d < count:
        if rng.random() < 0.1:
            items.append(None)
        elif rng.random() < 0.04:
            items.append(bool(rng.random() < 0.7))
        covered = int(rng.integers(1, 3))
        if rng.random() < 0.12 and d + covered <= len(shape):
            items.append(rng.random(shape[d:d + covered] if rng.random() < 0.95 else (7,)) < 0.5)
            d += covered
            continue
        items.append(random_item(rng, shape[d] if d < len(shape) else 1, extra))
        d += 1
    if rng.random() < 0.2 and d <= len(shape):
        items.insert(len(items) if d < len(shape) else int(rng.integers(0, len(items) + 1)), Ellipsis)
    if len(items) == 1 and rng.random() < 0.6:
        return items[0]
    return tuple(items)


def in_library(lib, key, **place):
    if isinstance(key, tuple):
        return tuple(in_library(lib, k, **place) for k in key)
    return lib.tensor(key, **place) if isinstance(key, np.ndarray) else key


def random_view(rng, rank):
    """How to see a tensor before it is subscripted."""
    order = tuple(int(d) for d in rng.permutation(rank)) if rng.random() < 0.3 else tuple(range(rank))
    cuts = tuple(slice(int(rng.integers(0, 2)), None, int(rng.integers(1, 3))) if rng.random() < 0.2 else slice(None) for _ in range(rank))
    return lambda x: x.permute(order)[cuts] if rank and (cuts != (slice(None),) * rank or order != tuple(range(rank))) else x


def random_value(rng, target):
    """A number, or an array that broadcasts to the shape (and now and then does not)."""
    if rng.random() < 0.2:
        return float(rng.integers(-9, 9))
    shape = tuple(1 if rng.random() < 0.25 else n for n in target[int(rng.integers(0, len(target) + 1)):])
    if rng.random() < 0.1:
        shape = (1,) * int(rng.integers(1, 3)) + shape
    if rng.random() < 0.04:
        shape = (*shape[:-1], 7)
    return rng.standard_normal(shape).astype(np.float32)


def numbers(shape):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape) / 8


def weights(lib, x, **place):
    """Different numbers for all elements, so that no two can be exchanged unseen."""
    return lib.tensor(np.cos(np.arange(x.numel(), dtype=np.float32)).reshape(tuple(x.shape)), **place)


def read(lib, array, view, key, **place):
    """[value, whether it is a view, first gradient, a second one] of a subscript; an exception where it raises."""
    x = lib.tensor(array, requires_grad=True, **place)
    seen = view(x)
    try:
        out = seen[in_library(lib, key, **place)]
    except Exception as error:
        return error
    shares = out.storage is x.storage if lib is volta else out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    loss = (out * out * weights(lib, out, **place)).sum()
    first, = lib.autograd.grad(loss, [x], create_graph=True)
    second, = lib.autograd.grad((first * first * weights(lib, first, **place)).sum(), [x])
    return [out, shares or not out.numel(), first, second]


def write(lib, array, view, key, value, wanted, **place):
    """[the tensor afterwards, gradients for it before and for the value, second ones] of an assignment; an exception where it raises."""
    leaf = lib.tensor(array, requires_grad=wanted[0], **place)
    given = value if isinstance(value, float) else lib.tensor(value, requires_grad=wanted[1], **place)
    x = leaf * 2
    try:
        view(x)[in_library(lib, key, **place)] = given
    except Exception as error:
        return error
    leaves = [t for t, want in ((leaf, wanted[0]), (given, wanted[1])) if want and not isinstance(t, float)]
    if not leaves:
        return [x]
    loss = sum(((t * t * t).sum() for t in leaves), (x * x * x * weights(lib, x, **place)).sum())
    first = lib.autograd.grad(loss, leaves, create_graph=True)
    second = lib.autograd.grad(sum((g * g * weights(lib, g, **place)).sum() for g in first), leaves)
    return [x, *first, *second]


def compare(ours, theirs, text):
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(ours, Exception), f"{text}: only PyTorch raises {theirs!r}"
        assert isinstance(theirs, Exception), f"{text}: only Volta raises {ours!r}"
        assert isinstance(ours, volta.errors.VoltaError), f"{text}: {ours!r}"
        assert isinstance(ours, IndexError) == isinstance(theirs, IndexError), f"{text}: {ours!r}, PyTorch {theirs!r}"
        return
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, bool):
            assert a == b, f"{text}: a view {a}, in PyTorch {b}"
            continue
        assert tuple(a.shape) == tuple(b.shape), f"{text}: shape {a.shape}, in PyTorch {tuple(b.shape)}"
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-4, err_msg=text)


@pytest.mark.filterwarnings("ignore")
def test_reading(device):
    rng = np.random.default_rng(11)
    for i in range(CASES[device]):
        array = numbers(random_shape(rng))
        view = random_view(rng, array.ndim)
        key = random_key(rng, tuple(view(torch.tensor(array)).shape))
        ours, theirs = read(volta, array, view, key, device=device), read(torch, array, view, key)
        if not isinstance(theirs, Exception) and not theirs[0].numel() and isinstance(ours, IndexError):
            continue                            # PyTorch does not check indices that nothing is read by
        compare(ours, theirs, f"{i}: {array.shape}[{key}]")


@pytest.mark.filterwarnings("ignore")
def test_writing(device):
    rng = np.random.default_rng(12)
    for i in range(CASES[device]):
        array = numbers(random_shape(rng))
        view = random_view(rng, array.ndim)
        seen = view(torch.tensor(array))
        key = random_key(rng, tuple(seen.shape))
        try:
            target = tuple(seen[in_library(torch, key)].shape)
        except Exception:
            target = None
        value = 1.0 if target is None else random_value(rng, target)        # one error at a time
        wanted = (rng.random() < 0.7, rng.random() < 0.7)
        ours, theirs = (write(lib, array, view, key, value, wanted, **place) for lib, place in ((volta, {"device": device}), (torch, {})))
        if target is not None and 0 in target and isinstance(ours, IndexError):
            continue
        compare(ours, theirs, f"{i}: {array.shape}[{key}] = {np.shape(value)}")
