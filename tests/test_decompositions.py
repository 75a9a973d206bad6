"""Decompositions by kernels of our own: what they give is what was decomposed, beside PyTorch's values and signs."""
import numpy as np
import pytest

import volta
from volta import linalg
from volta._kernels import core
from volta._kernels.cpu import eigen, qr, singular

SIDES = (1, 2, 3, 5, 16, 17, 33, 64, 65, 130)
DTYPES = ("float32", "float64")


def kinds(rng, shape, dtype):
    """Matrices of full rank, of rank 1, of equal values, and of values that repeat."""
    full = rng.standard_normal(shape)
    u, s, vh = np.linalg.svd(full, full_matrices=False)
    repeated = (u * rng.integers(1, 4, s.shape)[..., None, :]) @ vh
    return [x.astype(dtype) for x in (full, np.ones(shape), np.broadcast_to(np.eye(*shape[-2:]), shape), repeated)]


def near(got, want, dtype, size=1.0):
    """Within some hundred units of the last place of the largest element."""
    np.testing.assert_allclose(got, want, rtol=0, atol=float(300 * np.finfo(dtype).eps * max(1.0, size)))


def orthonormal(x, dtype):
    near(np.swapaxes(x, -1, -2) @ x, np.broadcast_to(np.eye(x.shape[-1]), x.shape[:-2] + (x.shape[-1],) * 2), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", SIDES)
def test_eigenvalues_and_vectors(side, dtype, rng):
    for x in kinds(rng, (side, side), dtype):
        a = x + x.T
        for triangle in "LU":
            read = np.tril(a) if triangle == "L" else np.triu(a)
            values, vectors = (t.numpy() for t in linalg.eigh(volta.tensor(read), triangle))
            size = float(np.abs(values).max())
            near(a @ vectors, vectors * values, dtype, size)
            orthonormal(vectors, dtype)
            near(values, np.linalg.eigvalsh(a), dtype, size)
            near(linalg.eigvalsh(volta.tensor(read), triangle).numpy(), values, dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*((n, n) for n in SIDES), (5, 3), (3, 5), (2, 40, 10), (2, 10, 40), (20, 18), (18, 20), (1, 7), (7, 1)])
def test_singular_values_and_vectors(shape, dtype, rng):
    for a in kinds(rng, shape, dtype):
        for full in (False, True):
            u, s, vh = (t.numpy() for t in linalg.svd(volta.tensor(a), full_matrices=full))
            size, k = float(s.max()), s.shape[-1]
            near(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, dtype, size)
            orthonormal(u, dtype)
            orthonormal(np.swapaxes(vh, -1, -2), dtype)
            near(s, np.linalg.svd(a, compute_uv=False), dtype, size)
            near(linalg.svdvals(volta.tensor(a)).numpy(), s, dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 2), (7, 5), (70, 23), (115, 39), (90, 90), (640, 50)])
def test_singular_values_alone(shape, dtype, rng):
    """Of values far apart, next to one another, equal, and of zeros: LAPACK helps only where squares would be too small."""
    count = shape[1]
    u, _, vh = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    for s in (np.logspace(0, -30, count), np.logspace(-3, 0, count), np.ones(count), np.where(np.arange(count) % 2, 1, 1 + 1e-7),
              np.arange(count) % 2, rng.choice([3, 1, 1e-16, 0], count) + (np.arange(count) == 0)):
        for a in ((u * s) @ vh, u * s, u * np.sort(s)):
            x = volta.tensor(a.astype(dtype))
            near(linalg.svdvals(x).numpy(), np.sort(s)[::-1], dtype, 3)
            assert s.min() < 1e-4 or singular.svd(x, False, False) is not None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*((n, n) for n in SIDES), (5, 3), (3, 5), (2, 100, 70), (300, 10), (20, 40)])
def test_orthonormal_columns_and_triangles(shape, dtype, rng):
    for a in kinds(rng, shape, dtype):
        for mode in ("reduced", "complete"):
            q, r = (t.numpy() for t in linalg.qr(volta.tensor(a), mode))
            near(q @ r, a, dtype, float(np.abs(a).max()) * shape[-2] ** 0.5)
            orthonormal(q, dtype)
            assert not np.tril(r, -1).any()


def test_signs_are_those_of_lapack(rng):
    """In double precision: in float32 an iteration more or less turns a vector round."""
    for shape in ((3, 3), (4, 3), (3, 4), (2, 2, 3), (1, 5), (5, 1), (1, 1), (2, 6, 6), (9, 4), (4, 9)):
        a, k = rng.standard_normal(shape), min(shape[-2:])
        got, want = (t.numpy() for t in linalg.svd(volta.tensor(a))), np.linalg.svd(a)
        for x, y, part in zip(got, want, (np.s_[..., :k], np.s_[...], np.s_[..., :k, :])):
            np.testing.assert_allclose(x[part], y[part], rtol=1e-7, atol=1e-9)
        symmetric = a @ np.swapaxes(a, -1, -2) + np.eye(shape[-2]) * np.arange(shape[-2])
        for triangle in "LU":
            for x, y in zip(linalg.eigh(volta.tensor(symmetric), triangle), np.linalg.eigh(symmetric, triangle)):
                np.testing.assert_allclose(x.numpy(), y, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", SIDES)
def test_inverses_and_solutions_by_triangles(side, dtype, rng):
    x = rng.standard_normal((2, side, side))
    a = (x @ np.swapaxes(x, -1, -2) / side + 2 * np.eye(side)).astype(dtype)
    b = rng.standard_normal((2, side, 3)).astype(dtype)
    for upper in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        whole = np.swapaxes(triangle, -1, -2) @ triangle if upper else triangle @ np.swapaxes(triangle, -1, -2)
        near(volta.cholesky_inverse(volta.tensor(a), upper=upper).numpy() @ whole, np.broadcast_to(np.eye(side), a.shape), dtype, side)
        for turned in (False, True):
            given = volta.tensor(np.swapaxes(a, -1, -2).copy()).mT if turned else volta.tensor(a)
            solved = linalg.solve_triangular(given, volta.tensor(b), upper=upper).numpy()
            near(triangle @ solved, b, dtype, side)


def test_results_do_not_depend_on_threads(rng):
    a = volta.tensor(rng.standard_normal((200, 200)).astype("float32"))
    symmetric, known = a + a.mT, volta.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            volta.set_num_threads(threads)
            inverse = volta.cholesky_inverse(a + 50 * volta.eye(200))
            found.append([*linalg.qr(a), *linalg.svd(a), *linalg.eigh(symmetric), linalg.svdvals(a), inverse])
    finally:
        volta.set_num_threads(known)
    for one, two in zip(*found):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
def test_of_any_size(dtype, scale, rng):
    a = (rng.standard_normal((6, 6)) * scale).astype(dtype)
    q, r = (t.numpy().astype("float64") for t in linalg.qr(volta.tensor(a)))
    u, s, vh = (t.numpy().astype("float64") for t in linalg.svd(volta.tensor(a)))
    values, vectors = (t.numpy().astype("float64") for t in linalg.eigh(volta.tensor(a + a.T)))
    bound = float(100 * np.finfo(dtype).eps * scale)
    for got, want in ((q @ r, a), (u * s @ vh, a), (vectors * values @ vectors.T, (a + a.T).astype("float64"))):
        np.testing.assert_allclose(got, want, rtol=0, atol=bound)


def test_what_is_not_finite_is_left_to_lapack():
    for value in (float("nan"), float("inf")):
        x = volta.tensor([[value, 1.0], [1.0, 2.0]])
        assert eigen.eigh(x, "L") is None and singular.svd(x, False) is None and qr.qr(x, "reduced") is None
    assert core.host_sees(volta.eye(2)) and eigen.eigh(volta.eye(2), "L") is not None


@pytest.mark.parametrize("shape", [(2, 2), (4, 4), (5, 3), (3, 5), (8, 8), (16, 16)])
def test_vectors_of_float32_have_the_signs_of_float64(shape):
    rng = np.random.default_rng(shape[0])
    for _ in range(20):
        a = rng.standard_normal(shape).astype(np.float32)
        u = volta.linalg.svd(volta.tensor(a), full_matrices=False).U.numpy()
        assert ((u * np.linalg.svd(a.astype(np.float64), full_matrices=False)[0]).sum(0) > 0).all()
        a = a @ a.T if len(a) < len(a.T) else a.T @ a               # of full rank
        vectors = volta.linalg.eigh(volta.tensor(a)).eigenvectors.numpy()
        assert ((vectors * np.linalg.eigh(a.astype(np.float64))[1]).sum(0) > 0).all()
