"""Reductions, softmax, norms and losses along short lines, many of which are worked together: every length about a vector's, counts of
lines that do not fill the last vector, and views, against float64."""
from __future__ import annotations

import numpy as np
import pytest

import volta

LENGTHS = [*range(1, 20), 23, 24, 25, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 70]
COUNTS = [1, 2, 9, 15, 16, 17, 33, 100, 1003]
LAYOUTS = ["contiguous", "transposed", "offset", "wide"]


def drawn(lines: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 100 * length + lines).standard_normal((lines, length)).astype("f4") * 3


def laid(x: np.ndarray, layout: str) -> volta.Tensor:
    """A tensor of these values that lies in memory in this way."""
    if layout == "transposed":
        return volta.tensor(np.ascontiguousarray(x.T)).t()
    if layout == "offset":
        return volta.tensor(np.concatenate([np.full((1, x.shape[1]), np.nan, "f4"), x]))[1:]
    if layout == "wide":
        return volta.tensor(np.concatenate([np.full_like(x[:, :1], np.nan), x, np.full_like(x, np.nan)], 1))[:, 1:1 + x.shape[1]]
    return volta.tensor(x)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    away = x - x.max(1, keepdims=True)
    return away - np.log(np.exp(away).sum(1, keepdims=True))


def logsumexp(x: np.ndarray) -> np.ndarray:
    top = x.max(1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(1, keepdims=True)))[:, 0]


FORWARD = {
    "softmax": (lambda t: volta.softmax(t, -1), softmax),
    "log_softmax": (lambda t: volta.log_softmax(t, -1), log_softmax),
    "logsumexp": (lambda t: volta.logsumexp(t, -1), logsumexp),
    "norm": (lambda t: volta.linalg.vector_norm(t, dim=-1), lambda x: np.sqrt((x * x).sum(1))),
    "normalize": (lambda t: volta.nn.functional.normalize(t, dim=-1), lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    "amax": (lambda t: volta.amax(t, -1), lambda x: x.max(1)),
    "amin": (lambda t: volta.amin(t, -1), lambda x: x.min(1)),
    "argmax": (lambda t: volta.argmax(t, -1), lambda x: x.argmax(1)),
    "argmin": (lambda t: volta.argmin(t, -1), lambda x: x.argmin(1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FORWARD)
def test_values(name, layout):
    ours, reference = FORWARD[name]
    for length in LENGTHS:
        for lines in COUNTS:
            x = drawn(lines, length)
            want = reference(x.astype("f8"))
            got = ours(laid(x, layout)).numpy()
            np.testing.assert_allclose(got, want, 2e-6, 2e-6, err_msg=f"{lines} lines of {length}")


def test_a_line_does_not_depend_on_its_neighbours():
    x = drawn(37, 11)
    for name, (ours, _) in FORWARD.items():
        whole = ours(volta.tensor(x)).numpy()
        for first, last in ((0, 16), (3, 37), (20, 29)):
            assert np.array_equal(ours(volta.tensor(x[first:last])).numpy(), whole[first:last]), name


@pytest.mark.parametrize("reference", [softmax, log_softmax])
def test_gradients(reference):
    op = volta.softmax if reference is softmax else volta.log_softmax
    for length in LENGTHS:
        for lines in COUNTS:
            x, g = drawn(lines, length), drawn(lines, length, 7)
            t = volta.tensor(x, requires_grad=True)
            got = volta.autograd.grad(op(t, -1), t, volta.tensor(g))[0].numpy()
            wide, y = g.astype("f8"), softmax(x.astype("f8"))
            want = y * (wide - (wide * y).sum(1, keepdims=True)) if reference is softmax else wide - y * wide.sum(1, keepdims=True)
            np.testing.assert_allclose(got, want, 1e-5, 1e-5, err_msg=f"{lines} lines of {length}")


def test_cross_entropy():
    for length in LENGTHS:
        for lines in COUNTS:
            x, target = drawn(lines, length), np.random.default_rng(lines).integers(0, length, lines)
            target[::7] = -100
            wide, kept = x.astype("f8"), target >= 0
            want = np.where(kept, logsumexp(wide) - wide[np.arange(lines), np.where(kept, target, 0)], 0)
            slope = (softmax(wide) - np.eye(length)[np.where(kept, target, 0)]) * kept[:, None]
            t = volta.tensor(x, requires_grad=True)
            for given in (t, t.detach()):                                      # with the softmax that a gradient needs, and without
                loss = volta.nn.functional.cross_entropy(given, volta.tensor(target), reduction="none")
                np.testing.assert_allclose(loss.detach().numpy(), want, 2e-6, 4e-6, err_msg=f"{lines} lines of {length}")
            loss = volta.nn.functional.cross_entropy(t, volta.tensor(target), reduction="sum")
            np.testing.assert_allclose(volta.autograd.grad(loss, t)[0].numpy(), slope, 2e-6, 2e-6)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 17, 64, 65])
def test_numbers_that_are_not_finite(length):
    """Lines of float64, which are worked one by one, have NaN, infinities and places where those of float32 have."""
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1], "f4")
    x = np.random.default_rng(length).choice(special, (501, length), p=[0.04, 0.04, 0.2, 0.3, 0.3, 0.12])
    x[5], x[6], x[7] = -np.inf, np.inf, np.nan
    for name, (ours, _) in FORWARD.items():
        got, want = ours(volta.tensor(x)).numpy(), ours(volta.tensor(x.astype("f8"))).numpy()
        np.testing.assert_allclose(got, want, 1e-6, 1e-6, err_msg=name)
    target = volta.tensor(np.random.default_rng(0).integers(0, length, 501))
    got, want = (volta.nn.functional.cross_entropy(volta.tensor(x.astype(t)), target, reduction="none").numpy() for t in ("f4", "f8"))
    np.testing.assert_allclose(got, want, 1e-6, 1e-6)


def test_large_and_small_numbers():
    x = np.array([[1e30, -1e30, 3e38], [1e-30, 1e-38, 0], [88, 89, 104], [-1e38, 1e38, 1e38]], "f4")
    for name in ("softmax", "log_softmax", "logsumexp", "amax", "amin", "argmax", "argmin"):
        ours, reference = FORWARD[name]
        np.testing.assert_allclose(ours(volta.tensor(x)).numpy(), reference(x.astype("f8")), 1e-6, 1e-6, err_msg=name)
    one = np.array([[1e-30], [-2e38], [-0.0], [-np.inf]], "f4")                 # the norm of one number is its size
    assert np.array_equal(volta.linalg.vector_norm(volta.tensor(one), dim=-1).numpy(), np.abs(one[:, 0]))


@pytest.mark.parametrize("dim", [0, 1])
def test_lines_without_elements(dim):
    shape = (0, 5) if dim == 0 else (5, 0)
    assert volta.softmax(volta.zeros(shape), 1).shape == shape and volta.log_softmax(volta.zeros(shape), 1).shape == shape
    want = np.zeros(0 if dim == 0 else 5, "f4")
    assert np.array_equal(volta.linalg.vector_norm(volta.zeros(shape), dim=1).numpy(), want)
    assert np.array_equal(volta.logsumexp(volta.zeros(shape), 1).numpy(), want if dim == 0 else np.full(5, -np.inf, "f4"))
